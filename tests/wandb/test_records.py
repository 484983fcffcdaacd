"""Records of real logs: the same rows as the client's own reader prints; messages as the client declares them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.wandb.conftest import RealLogs
from tic_daemon.credentials import PLACE, without_credentials
from tic_daemon.scan.events import Gap, StepEvent
from tic_daemon.wandb import framing, keys, records
from tic_daemon.wandb.directories import RunFile, is_log_name, run_file
from tic_daemon.wandb.events import WandbRow, WandbRun
from tic_daemon.wandb.framing import Frame
from tic_daemon.wandb.history import Value
from tic_daemon.wandb.transcript import Told, Transcript


def client_messages() -> Any:
    """The module in which the installed client declares its messages."""
    needs.wandb_client()
    from wandb.proto import wandb_internal_pb2

    return wandb_internal_pb2


def events_of(path: Any) -> list[Told]:
    data = path.read_bytes()
    file = run_file(str(path))
    assert file is not None
    transcript = Transcript(file, keys.load())
    frames, _ = framing.scan(data[7:], 7)
    return [event for frame in frames if isinstance(frame, Frame) for event in transcript.take(frame)]


def shown(value: Value) -> Any:
    """A value as the client's own reader prints it: what is no finite number as text."""
    if value.kind in ("nan", "inf", "-inf"):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[value.kind]
    if value.kind in ("media", "json", "null"):
        return json.loads(value.text or "")
    if value.kind in ("int", "number", "bool"):
        return int(value.text) if value.text else value.number
    return value.text


@pytest.mark.parametrize("name", ["rich", "killed", "damaged"])
def test_the_rows_are_those_that_the_client_s_own_reader_prints(real_logs: RealLogs, name: str, tmp_path: Path) -> None:
    path = getattr(real_logs, name, tmp_path / "run-damaged.wandb")
    if name == "damaged":
        data = bytearray(real_logs.killed.read_bytes())
        data[20_000] ^= 1
        path.write_bytes(data)
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=path.parent).stdout
    theirs = [json.loads(line) for line in told.splitlines()]
    theirs = [record["history"]["item"] for record in theirs if record["type"] == "history"]
    ours = [event for event in events_of(path) if isinstance(event, WandbRow)]
    assert len(ours) == len(theirs) > 15
    for row, record in zip(ours, theirs, strict=True):
        ours_shown = {"_step": row.wandb_step}
        for value in row.values:  # their reader shows media taken apart, as the log has them
            told = shown(value)
            ours_shown |= (
                {f"{value.key}.{k}": v for k, v in told.items()} if value.kind == "media" else {value.key: told}
            )
        assert ours_shown == record


def test_values_arrive_exactly(real_logs: RealLogs) -> None:
    events = events_of(real_logs.rich)
    rows = [event for event in events if isinstance(event, WandbRow)]
    assert [row.wandb_step for row in rows] == list(range(63)) and [row.row_no for row in rows] == list(range(63))
    seventh = {value.key: value for value in rows[6].values}
    assert seventh["n"].text == str(2**53 + 7) and seventh["n"].number == float(2**53 + 7)
    assert rows[7].values[0].key and {v.key: v for v in rows[7].values}["n"].text is None  # 2^53 + 8: a double holds it
    assert seventh["nest.x.y"].number == 6.0 and seventh["a.b"].number == 6.0
    assert (seventh["flag"].kind, seventh["flag"].number, seventh["text"].text) == ("bool", 1.0, 'hé "\x1b[31m')
    assert [seventh[key].kind for key in ("bad", "up", "down", "list")] == ["nan", "inf", "-inf", "json"]
    media = {value.key: value for value in rows[60].values}
    assert media["hist"].kind == "media" and json.loads(media["hist"].text or "")["_type"] == "histogram"
    assert media["table"].kind == "media" and not [key for key in media if key.startswith(("hist.", "table."))]
    wide = {value.key: value.number for value in rows[61].values if value.key.startswith("k/")}
    assert wide == {f"k/{number}": float(number) for number in range(10_000)}
    assert rows[62].values and {v.key: v for v in rows[62].values}["pad"].text == "p" * 70_000
    # verl's key names the framework, whose step is `_step`, and not the number in that key.
    assert [row.at.step for row in rows] == list(range(63))
    assert [event.at.step for event in events if isinstance(event, StepEvent)] == list(range(63))
    assert all(row.at.stamp is not None and row.at.stamp_utc for row in rows)
    assert not [event for event in events if isinstance(event, Gap)]


def test_the_run_its_settings_and_its_end(real_logs: RealLogs) -> None:
    runs = [event for event in events_of(real_logs.rich) if isinstance(event, WandbRun)]
    first, last = runs[0], runs[-1]
    assert (first.state, first.exit_code) == ("running", None)
    assert (last.state, last.exit_code, last.framework, last.mode) == ("failed", 3, "verl", "offline")
    assert (last.wandb_id, last.project, last.name, last.run_path) == ("rich", "grpo", "rich ü", "")
    assert last.client_version.startswith("0.") and last.started_at is not None
    config = json.loads(last.config)
    assert config == {"lr": 1e-6, "hf_token": PLACE, "model": {"path": "Qwen", "db_password": PLACE}, "late": True}
    assert "late" not in json.loads(first.config) and "hf_aaa" not in "".join(run.config for run in runs)
    summary = json.loads(last.summary)
    assert summary["after"] == 1 and summary["_step"] == 62 and summary["bad"] == "NaN" and summary["k/9999"] == 9999
    assert [run.state for run in (event for event in events_of(real_logs.killed) if isinstance(event, WandbRun))][
        -1
    ] == "running"


def test_messages_are_declared_as_the_client_declares_them() -> None:
    """Field numbers, types and names against the installed client's own."""
    internal = client_messages()
    message = internal.Record.DESCRIPTOR
    known = {"Record": message}
    while True:
        below = {
            field.message_type.name: field.message_type
            for each in known.values()
            for field in each.fields
            if field.message_type is not None and field.message_type.name in records.MESSAGES
        }
        if below.keys() <= known.keys():
            break
        known |= below
    ours = records._classes()[0].DESCRIPTOR.file.message_types_by_name
    for name in records.MESSAGES:
        theirs = {field.number: field for field in known[name].fields}
        for field in ours[name].fields:
            their = theirs[field.number]
            assert field.name == their.name and field.is_repeated == their.is_repeated, (name, field.name)
            if their.enum_type is None:
                assert field.type == their.type, (name, field.name)


def test_values_as_typed_fields(real_logs: RealLogs) -> None:
    """Clients of 0.31 may write values typed; here without their JSON beside them."""
    internal = client_messages()
    record = internal.Record()
    items = {
        "none": 0,
        "boolean": True,
        "integer": -(2**62) - 1,
        "number": math.inf,
        "text": "a",
        "json": '{"_type":"x"}',
    }
    for kind, value in items.items():
        item = record.history.item.add(nested_key=["deep", kind])
        setattr(item, kind, value)
    record.history.item.add(key="flat", value_json="2")
    record.history.step.num = 17
    kind, message = records.parse(record.SerializeToString())
    assert kind == "history" and records.values(message) == [
        Value("deep.none", None, "null", "null"),
        Value("deep.boolean", 1.0, None, "bool"),
        Value("deep.integer", float(-(2**62) - 1), str(-(2**62) - 1), "int"),
        Value("deep.number", math.inf, None, "inf"),
        Value("deep.text", None, "a", "text"),
        Value("deep.json", None, '{"_type":"x"}', "media"),
        Value("flat", 2.0, None, "int"),
        Value("_step", 17.0, None, "int"),
    ]


def test_bytes_that_are_no_record_are_a_gap_and_the_rest_goes_on() -> None:
    transcript = Transcript(RunFile("/w/run-a.wandb", "a", False), keys.load())
    (gap,) = transcript.take(Frame(7, 20, b"\x12\xff\xff\xff\xff\xff"))
    assert isinstance(gap, Gap) and (gap.kind, gap.first_byte, gap.last_byte) == ("wandb_record", 7, 20)
    assert transcript.take(Frame(20, 30, b"")) == []  # of a kind that is not read


def test_a_resumed_run_and_a_shared_one() -> None:
    internal = client_messages()
    transcript = Transcript(RunFile("/w/run-20261130_120000-a-1/run-a.wandb", "a", False), keys.load(), "slime")

    def take(fill: Any) -> list[Told]:
        record = internal.Record()
        fill(record)
        return transcript.take(Frame(7, 20, record.SerializeToString()))

    def of_run(record: Any) -> None:
        record.run.run_id, record.run.entity, record.run.project = "a", "lab", "grpo"
        record.run.resumed, record.run.starting_step = True, 8
        record.run.telemetry.feature.shared_mode = True

    def of_row(record: Any) -> None:
        for key, text in (("train/step", "4"), ("train/loss", "0.5")):
            record.history.item.add(nested_key=[key], value_json=text)

    (run,) = take(of_run)
    assert isinstance(run, WandbRun) and (run.run_path, run.mode, run.starting_step) == ("lab/grpo/a", "shared", 8)
    take(lambda record: setattr(record.environment, "writer_id", "w-7"))
    first, second = take(of_row), take(of_row)
    rows = [event for event in (*first, *second) if isinstance(event, WandbRow)]
    assert [(row.writer, row.wandb_step, row.at.step) for row in rows] == [("w-7", None, 4), ("w-7", None, 4)]
    steps = [event for event in (*first, *second) if isinstance(event, StepEvent)]
    assert [(step.edge, step.gpu, step.at.step) for step in steps] == [("logged", False, 4)]  # once a step
    take(lambda record: record.preempting.SetInParent())
    assert transcript.run_now(rows[0].at).state == "preempted"


def test_a_configuration_that_is_too_large_is_not_kept() -> None:
    internal = client_messages()
    transcript = Transcript(RunFile("/w/run-a.wandb", "a", False), keys.load())
    record = internal.Record()
    record.run.config.update.add(key="data", value_json=json.dumps("x" * (1 << 20)))
    (run,) = transcript.take(Frame(7, 20, record.SerializeToString()))
    assert isinstance(run, WandbRun) and list(json.loads(run.config)) == ["not kept"]


def test_names_of_logs_and_directories() -> None:
    assert is_log_name("run-abc.wandb") and not is_log_name("run-abc.wandb.synced") and not is_log_name("abc.wandb")
    offline = run_file("/x/wandb/offline-run-20261130_120000-my-run-1/run-my-run.wandb")
    assert offline is not None and (offline.wandb_id, offline.offline) == ("my-run", True)
    online = run_file("/x/wandb/run-20261130_120000-é b/run-é b.wandb")
    assert online is not None and (online.wandb_id, online.offline) == ("é b", False)
    assert online.uploader_log == "/x/wandb/run-20261130_120000-é b/logs/debug-internal.log"
    assert run_file("/x/output.log") is None


@pytest.mark.parametrize(
    "key",
    [
        "api_key",
        "openaiApiKey",
        "HF_TOKEN",
        "wandb.api_key",
        "db_password",
        "passwd",
        "aws_secret_access_key",
        "authToken",
    ],
)
def test_a_key_that_names_a_secret(key: str) -> None:
    assert without_credentials({"a": {key: "hunter2"}}) == {"a": {key: PLACE}}
    assert without_credentials({key: ["hunter2"], "n": 1}) == {key: PLACE, "n": 1}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_tokens", 512), ("tokenizer_path", "Qwen/Qwen3-0.6B"), ("eos_token", "<|endoftext|>"), ("token_level", "sum"),
        ("pad_token_id", 0), ("secret_sauce", "mix"), ("use_auth_token", False), ("commit", "68ddd18a0a61fd5b0f582d0e7d682729b812b1d2"),
        ("max_token_len_per_gpu", 8192), ("key", "loss"), ("api_key", None), ("token", "<pad>"),
    ],
)  # fmt: skip
def test_settings_that_are_no_secret_stay(key: str, value: object) -> None:
    assert without_credentials({key: value}) == {key: value}


@pytest.mark.parametrize(
    "secret",
    [
        "hf_" + "a1" * 15,
        "sk-" + "b" * 24,
        "ghp_" + "c" * 36,
        "AKIA" + "D" * 16,
        "glpat-" + "e" * 20,
        "eyJ" + "f" * 20 + "." + "g" * 20 + ".h",
    ],
)
def test_credentials_within_text_go(secret: str) -> None:
    assert without_credentials({"cmd": ["run", f"--login={secret} -v"]}) == {"cmd": ["run", f"--login={PLACE} -v"]}
    assert without_credentials("https://me:pw@host/x") == f"https://{PLACE}@host/x"
