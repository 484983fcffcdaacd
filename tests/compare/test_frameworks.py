"""What frameworks write: small files of each form, made as its source makes them, and each trap of it.

prime-rl: `trainer/rl/token_export.py` (TokenExporter.export); NeMo-RL: `utils/logger.py` (log_batched_dict_as_jsonl) over
`algorithms/grpo.py`; slime: `observability/train_data_utils.py` (_build_dump_payload) and `rollout_data_utils.py`; miles:
`utils/train_dump_utils.py`, `backends/training_utils/debug_dump.py`; verl: `trainer/ppo/ray_trainer.py` (_dump_generations).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.compare.ptfile import T, f32, mask, write
from tests.compare.test_reading import _lines, flags, numbers
from tic_daemon.compare.align import align
from tic_daemon.compare.comparison import Declared, compare
from tic_daemon.compare.figures import Figures, measure
from tic_daemon.compare.reading import Reading
from tic_daemon.compare.sides import Side
from tic_daemon.errors import CompareError


def read(path: Path) -> tuple[Side, ...]:
    """The sides of a file. What they hold is read before it is closed."""
    with Reading(path) as found:
        for side in found.sides:
            assert all(numbers(side, request) and flags(side, request) for request in side.sequences)
        return found.sides


def figures(path: Path) -> Figures:
    with Reading(path) as found:
        a, b = found.sides
        own = measure(a, b, align(a, b))
        assert own is not None
        return own


def _exported(idx: int, inference: list[float | None], trainer: list[float | None], keep: list[bool]) -> dict[str, Any]:
    """One line of a token export: all columns aligned, floats through float32, None for what is not finite."""
    size = len(keep)
    return {
        "schema_version": 1, "step": 4, "export_step": 4, "rank": 0, "micro_step": 0, "micro_sequence_idx": idx,
        "export_sequence_idx": idx, "run_id": None, "env_name": "math", "token_ids": list(range(size)),
        "position_ids": list(range(size)), "loss_mask": keep, "advantages": [0.5] * size, "inference_logprobs": inference,
        "trainer_logprobs": trainer, "entropy": [1.0] * size, "mismatch_kl": [None] * size,
    }  # fmt: skip


def test_prime_rl(tmp_path: Path) -> None:
    step = tmp_path / "token_exports" / "step_4"
    step.mkdir(parents=True)
    first = _exported(0, [0.0, -1.0, -2.0], [0.0, -1.25, -2.0], [False, True, True])
    second = _exported(1, [-3.0, -0.5], [-3.0, -0.5], [True, True])
    _lines(step / "rank_0.jsonl", first, second)
    _lines(step / "rank_1.jsonl", {**second, "rank": 1})
    for path in (step, step / "rank_0.jsonl"):
        with pytest.raises(CompareError, match="STABLE"):
            Reading(path)
    (step / "STABLE").touch()
    rollout, trainer = read(step)
    assert [rollout.part, trainer.part] == [
        "rollout",
        "trainer",
    ] and rollout.provenance == trainer.provenance == "cast_f32"
    assert list(rollout.sequences) == ["4-0-0-0", "4-0-0-1", "4-1-0-1"] and rollout.artifacts.keys() == {
        "rank_0.jsonl",
        "rank_1.jsonl",
    }
    assert "without a token in the loss" in rollout.notes[0]
    own = figures(step)
    assert (own.valid, own.mismatched, own.first_mismatch) == (6, 1, ("4-0-0-0", 1)) and own.metrics[
        "logprob_max"
    ] == 0.25
    assert figures(step / "rank_0.jsonl").valid == 4
    _lines(step / "rank_0.jsonl", _exported(0, [-1.0, None], [-1.0, -2.0], [True, True]))
    assert figures(step / "rank_0.jsonl").non_finite == {"A NaN": 1}, "null was a number that is not finite"
    _lines(step / "rank_0.jsonl", {"request_id": 1, "logprobs": [-1], "response_mask": [True]})
    with pytest.raises(CompareError, match="no step of token_exports"):
        Reading(step)
    _lines(step / "rank_0.jsonl", {**first, "schema_version": 2})
    with pytest.raises(CompareError, match="schema 2"):
        Reading(step)


def test_prime_rl_tokens_of_the_environment_do_not_count(tmp_path: Path) -> None:
    """`loss_mask` is of all losses together. Echo trains tokens of tools by cross entropy: no engine scored them, and
    `inference_logprobs` holds 0.0 there (orchestrator/algo/echo.py, trainer/rl/token_export.py: _training_mask)."""
    (tmp_path / "STABLE").touch()
    rl, ce = {"rl": {"advantage": 1.0, "mask": True}}, {"ce": {"advantage": 1.0, "mask": True}}
    both = {**rl, **ce}
    off = {"rl": {"advantage": 0.0, "mask": False}, "ce": {"advantage": 0.5, "mask": True}}
    first = _exported(0, [-1.0, 0.0, 0.0, -2.0, 0.0], [-1.5, -7.0, -9.0, -2.0, -1.0], [True, True, True, True, False])
    second = _exported(1, [0.0, 0.0], [-3.0, -4.0], [True, True])
    path = _lines(
        tmp_path / "rank_0.jsonl", {**first, "losses": [rl, ce, off, both, {}]}, {**second, "losses": [ce, ce]}
    )
    rollout, _trainer = read(path)
    assert list(rollout.sequences) == ["4-0-0-0"] and flags(rollout, "4-0-0-0") == [True, False, False, True, False]
    assert "4 tokens do not count" in rollout.notes[1]
    own = figures(path)
    assert (own.valid, own.metrics["logprob_mae"], own.metrics["logprob_max"]) == (2, 0.25, 0.5)
    for wrong in ([rl], {"rl": 1}, [1, 2]):
        with pytest.raises(CompareError, match="no list of losses"):
            Reading(_lines(path, {**second, "losses": wrong}))


def _nemo(
    tokens: list[int], keep: list[int], generated: list[float], previous: list[float], counts: float = 1.0
) -> dict[str, Any]:
    """One line: every value has the batch dimension of the iterator, 1."""
    return {
        "content": ["text"], "rewards": [1.0], "input_lengths": [len(tokens)], "token_ids": [tokens],
        "token_loss_mask": [keep], "sample_loss_mask": [counts], "advantages": [[0.0] * len(tokens)],
        "generation_logprobs": [generated], "prev_logprobs": [previous], "idx": [17],
    }  # fmt: skip


def test_nemo_rl(tmp_path: Path) -> None:
    path = _lines(
        tmp_path / "train_data_step3.jsonl",
        _nemo([5, 6, 7, 0], [1, 1, 1, 0], [0.0, -1.0, -2.0, 0.0], [9.0, -1.0, -2.5, 0.0]),
        _nemo([5, 6, 8, 0], [0, 1, 0, 0], [0.0, -1.0, 0.0, 0.0], [0.0, -1.0, 0.0, 0.0]),
        _nemo([5, 6, 9, 0], [0, 1, 1, 0], [0.0, -4.0, -4.0, 0.0], [0.0, -1.0, -1.0, 0.0], counts=0.0),
    )
    rollout, _trainer = read(path)
    assert list(rollout.sequences) == ["sample000000", "sample000001"]
    assert rollout.sequences["sample000000"].group == "", "idx is the number of the line, not of a group of samples"
    assert flags(rollout, "sample000000") == [False, True, True, False], "index 0 is a placeholder"
    assert "1 samples were taken out" in rollout.notes[0] and rollout.provenance == "json_exact_f32"
    own = figures(path)
    assert (own.valid, own.mismatched, own.first_mismatch) == (3, 1, ("sample000000", 2)) and own.positive == 0
    for wrong in ({"sample_loss_mask": [0.5]}, {"prev_logprobs": "x"}, {"token_loss_mask": [[2, 0, 0, 0]]}):
        with pytest.raises(CompareError):
            Reading(_lines(path, {**_nemo([5, 6], [1, 1], [0.0, -1.0], [0.0, -1.0]), **wrong}))
    over_a_data_plane = _nemo([5, 6], [1, 1], [0.0, -1.0], [0.0, -1.5])
    del over_a_data_plane["token_ids"]
    assert figures(_lines(path, over_a_data_plane)).metrics["logprob_max"] == 0.5
    assert compare(path, None).facts.inputs == "unknown"
    old = _nemo([5, 6], [1, 1], [0.0, -1.0], [0.0, -1.0])
    del old["token_loss_mask"]
    with pytest.raises(CompareError, match="lacks token_loss_mask"):
        Reading(_lines(path, old))


def _ints(*values: int) -> T:
    return T(np.array(values, np.int64), "int64")


def _slime(index: int | None, position: int, trained: T, rolled: T, keep: T) -> dict[str, Any]:
    size = len(trained.array)
    return {
        "data_parallel_rank": 0, "sample_index": index, "rollout_position": position, "tokens": _ints(1, 2, *range(size)),
        "response_lengths": size, "total_lengths": size + 2, "loss_masks": keep, "log_probs": trained,
        "rollout_log_probs": rolled, "rewards": 1.0, "truncated": 0,
    }  # fmt: skip


def _slime_file(path: Path, *samples: dict[str, Any]) -> Path:
    shards = [
        {
            "rank": 0,
            "data_parallel_rank": 0,
            "sample_indices": [0, 1],
            "partition": [0, 1],
            "micro_batch_indices": [[0, 1]],
        }
    ]
    return write(
        path,
        {
            "format_version": 2,
            "rollout_id": 5,
            "rank": 0,
            "samples": list(samples),
            "dp_shards": shards,
            "raw_reward": [1.0],
        },
    )


def test_slime(tmp_path: Path) -> None:
    path = _slime_file(
        tmp_path / "5.pt",
        _slime(11, 0, f32(-1, -2, 0), f32(-1, -2.5, 0), _ints(1, 1, 0)),
        _slime(12, 1, f32(-3), f32(-3), T(np.array([1], np.int32), "int32")),
    )
    rollout, trainer = read(path)
    assert (rollout.provenance, trainer.provenance, trainer.reader) == ("cast_f32", "native", "slime")
    assert list(trainer.sequences) == ["11", "12"] and flags(trainer, "11") == [True, True, False]
    own = figures(path)
    assert (own.valid, own.mismatched, own.first_mismatch) == (3, 1, ("11", 1))
    found = compare(path, None)
    assert found.alignment.independent == 2 and found.facts.inputs == "equal" and found.alignment.tokens == "equal"
    assert found.facts.same_thing == "", "two sides of one file are not one thing"
    receipt = {"host": "h", "pid": 1, "produced_at": "2026-01-01T00:00:00+00:00", "command": "c"}
    path.with_name("5.pt.meta.json").write_text(json.dumps({"producer": receipt}))
    found = compare(path, None)
    assert found.facts.producers == "unknown" and found.verdict.rule != 4, "who wrote the file made neither side"
    nameless = _slime_file(tmp_path / "6.pt", _slime(None, 0, f32(-1), f32(-1), _ints(1)))
    assert list(read(nameless)[0].sequences) == ["position0"] and "named by their place" in read(nameless)[0].notes[0]
    lacking = _slime(1, 0, f32(-1), f32(-1), _ints(1))
    del lacking["rollout_log_probs"]
    with pytest.raises(CompareError, match="lacks rollout_log_probs"):
        Reading(_slime_file(tmp_path / "7.pt", lacking))
    cut = {**_slime(1, 0, f32(-1, -2), f32(-1, -2), _ints(1, 1)), "response_lengths": 4}
    with pytest.raises(CompareError, match="a slice of a context parallel rank"):
        Reading(_slime_file(tmp_path / "8.pt", cut))
    with pytest.raises(CompareError, match="other values than 0 and 1"):
        Reading(_slime_file(tmp_path / "9.pt", _slime(1, 0, f32(-1), f32(-1), _ints(2))))


def _miles(**changed: Any) -> dict[str, Any]:
    columns = {
        "sample_indices": [3, 4], "tokens": [_ints(1, 2, 7, 8), _ints(1, 9)], "response_lengths": [2, 1], "total_lengths": [4, 2],
        "rewards": [1.0, 0.0], "loss_masks": [[1, 1], [1]], "log_probs": [f32(-1, -2), f32(-3)],
        "rollout_log_probs": [f32(-1, -2), f32(-3.5)], "weight_versions": [["6"], ["6", "7"]], "raw_reward": [1.0, 0.0, 1.0, 0.0],
    }  # fmt: skip
    return {"rollout_id": 2, "rank": 0, "rollout_data": {**columns, **changed}}


def test_miles(tmp_path: Path) -> None:
    path = write(tmp_path / "2_0.pt", _miles())
    rollout, trainer = read(path)
    assert (rollout.reader, trainer.provenance) == ("miles", "native") and list(rollout.sequences) == ["3", "4"]
    assert rollout.sequences["4"].policy == ("6", "7")
    own = figures(path)
    assert (own.valid, own.mismatched, own.first_mismatch) == (3, 1, ("4", 0))
    found = compare(path, None)
    assert found.alignment.versions == ("6", "7") and found.signs is not None
    assert found.signs.versions == {"6": (2, 0, 0.0), "6+7": (1, 1, 0.5)}
    for value, words in (
        ({**_miles(), "cp_rank": 1, "cp_size": 2}, "context parallel rank 1 of 2"),
        (_miles(log_probs=None), "lacks log_probs"),
        (_miles(log_probs=[f32(-1), f32(-3)]), "a slice"),
        (_miles(sample_indices=None), "without sample_indices"),
    ):
        with pytest.raises(CompareError, match=words):
            Reading(write(tmp_path / "bad.pt", value))


def test_miles_loss_debug(tmp_path: Path) -> None:
    sample = {
        "index": 0, "total_length": 6, "response_length": 4, "train_log_probs": f32(-1, -2), "old_log_probs": f32(-1, -2),
        "advantages": f32(0, 0), "local_loss_mask": f32(1, 0), "rollout_log_probs": f32(-1.5, -9), "train_rollout_abs_diff": f32(0.5, 7),
    }  # fmt: skip
    path = write(
        tmp_path / "rank_0_call_1.pt", {"rank": 0, "call": 1, "samples": [sample], "finite": {"pg_loss": True}}
    )
    rollout, trainer = read(path)
    assert rollout.provenance == trainer.provenance == "cast_f32" and "slices" in trainer.notes[-1]
    assert figures(path).metrics["logprob_mae"] == 0.5


def _sample(index: int, logprobs: list[float] | None, keep: list[int] | None = None) -> dict[str, Any]:
    size = len(logprobs or [0])
    return {
        "group_index": 1, "index": index, "prompt": "p", "tokens": [1, 2, *range(size)], "response": "r", "response_length": size,
        "label": None, "reward": 1.0, "loss_mask": keep, "weight_versions": ["3"], "rollout_log_probs": logprobs,
        "status": "completed", "metadata": {}, "prefix_cache_info": {"cached_tokens": 0, "total_prompt_tokens": 2},
    }  # fmt: skip


def test_rollout_dumps(tmp_path: Path) -> None:
    exact = [float(np.float32(-0.1)), -2.0]
    path = write(
        tmp_path / "0.pt",
        {"rollout_id": 0, "samples": [_sample(0, exact, [1, 0]), _sample(1, None), _sample(2, [-1.0])]},
    )
    (side,) = read(path)
    assert (side.reader, side.part, side.provenance) == ("rollout-dump", "rollout", "json_exact_f32")
    assert list(side.sequences) == ["0", "2"] and flags(side, "0") == [True, False] and flags(side, "2") == [True]
    assert any("1 samples hold no log-probabilities" in note for note in side.notes)
    assert any("sample 2 has no mask" in note for note in side.notes)
    sequence = side.sequences["0"]
    assert (
        sequence.policy == ("3",)
        and sequence.group == "1"
        and sequence.prompt is not None
        and sequence.prompt.shape == (2,)
    )
    (other,) = read(write(tmp_path / "1.pt", {"rollout_id": 0, "samples": [_sample(0, [-0.1, -2.0])]}))
    assert other.provenance == "unknown", "0.1 is no float32"
    with pytest.raises(CompareError, match="without rollout_log_probs"):
        Reading(write(tmp_path / "2.pt", {"rollout_id": 0, "samples": [_sample(1, None)]}))
    with pytest.raises(CompareError, match="2 log-probabilities of 1 tokens"):
        Reading(write(tmp_path / "3.pt", {"rollout_id": 0, "samples": [{**_sample(0, exact), "tokens": [1]}]}))


def test_a_rollout_dump_against_its_train_dump(tmp_path: Path) -> None:
    """Joined by the sample's index: the trainer's side is the second of a file that holds both."""
    rollout = write(
        tmp_path / "r.pt", {"rollout_id": 0, "samples": [_sample(4, [-3.25], [1]), _sample(3, [-1.0, -2.0], [1, 1])]}
    )
    columns = _miles(tokens=[_ints(1, 2, 0, 1), _ints(1, 2, 0)], weight_versions=[["3"], ["3"]])
    found = compare(rollout, write(tmp_path / "t.pt", columns))
    assert (found.a.part, found.b.part) == ("rollout", "trainer") and found.figures is not None
    assert found.figures.metrics["logprob_max"] == 0.25
    assert found.facts.inputs == "equal"
    assert found.facts.policy == "unknown", "the versions of a sample say who sampled it, not who scored it"
    assert compare(rollout, tmp_path / "t.pt", Declared(policy="3")).facts.policy == "equal"
    assert compare(rollout, tmp_path / "t.pt", Declared(policy="4")).facts.policy == "different"


def _columns(**changed: Any) -> pa.Table:
    columns = {
        "sample_index": pa.array([4, 3], pa.int32()), "response_length": pa.array([1, 2], pa.int32()),
        "total_length": pa.array([3, 4], pa.int32()), "tokens": pa.array([[1, 9, 0], [1, 2, 7, 8]], pa.list_(pa.int32())),
        "loss_mask": pa.array([[1], [1, 0]], pa.list_(pa.int8())),
        "rollout_log_probs": pa.array([[-3.5], [-1.0, -2.0]], pa.list_(pa.float32())),
    }  # fmt: skip
    return pa.table({**columns, **changed})


def test_miles_columns(tmp_path: Path) -> None:
    path = tmp_path / "rollout_2.parquet"
    pq.write_table(_columns(), path, row_group_size=1)
    (side,) = read(path)
    assert (side.reader, side.part, side.provenance) == ("miles-columns", "rollout", "cast_f32")
    assert list(side.sequences) == ["3", "4"] and numbers(side, "3") == [-1, -2] and flags(side, "3") == [True, False]
    three = side.sequences["3"]
    assert three.tokens is not None and three.prompt is not None
    assert three.tokens.bits().tolist() == [7, 8] and three.prompt.bits().tolist() == [1, 2]
    whole = path.read_bytes()
    for wrong, words in (
        ({"loss_mask": pa.array([[1], [1]], pa.list_(pa.int8()))}, "do not fit"),
        ({"loss_mask": pa.array([[1], [1, 2]], pa.list_(pa.int8()))}, "other values"),
        ({"rollout_log_probs": pa.array([[-3.5], None], pa.list_(pa.float32()))}, "holes"),
        ({"rollout_log_probs": pa.array([[-3.5], [-1.0, None]], pa.list_(pa.float32()))}, "holes"),
        ({"rollout_log_probs": pa.array([[-3.5], [-1.0, -2.0]], pa.list_(pa.float64()))}, "no float32"),
        ({"tokens": pa.array(["a", "b"])}, "missing"),
    ):
        pq.write_table(_columns(**wrong), path)
        with pytest.raises(CompareError, match=words):
            Reading(path)
    pq.write_table(_columns().drop_columns(["loss_mask"]), path)
    with pytest.raises(CompareError, match="no column loss_mask"):
        Reading(path)
    for size in range(4, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(CompareError):
            Reading(path)


_READS = """
import sys
from pathlib import Path
from tic_daemon.compare.reading import Reading
from tic_daemon.errors import CompareError
path, place = Path(sys.argv[1]), int(sys.argv[2])
whole = bytearray(path.read_bytes())
for at in range(place, place + 4):
    for value in (0x00, 0x12, 0x24, 0xFF):
        other = whole.copy()
        other[at] = value
        path.write_bytes(other)
        try:
            Reading(path).__exit__(None, None, None)
        except CompareError:
            pass
print("alive")
"""


def test_a_malformed_footer_does_not_end_the_process(tmp_path: Path) -> None:
    """pyarrow's accessors of a column end the process where its repetition or type is none."""
    path = tmp_path / "rollout_2.parquet"
    pq.write_table(_columns(), path)
    first = path.read_bytes().index(b"\x18\x0csample_index")  # its type, repetition and name in the schema
    command = [sys.executable, "-c", _READS, path, str(first - 4)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "alive\n"), found.stderr[-500:]
    nested = pa.array([{"values": 1}, {"values": 2}], pa.struct([("values", pa.int32())]))
    pq.write_table(_columns(tokens=nested), path)
    with pytest.raises(CompareError, match="missing or has holes"):
        Reading(path)


def test_texts_are_never_tokenised_again(tmp_path: Path) -> None:
    line = {"input": "q", "output": "a", "gts": "b", "score": 1.0, "step": 3}
    with pytest.raises(CompareError, match="texts without token ids"):
        Reading(_lines(tmp_path / "3.jsonl", line))


def test_a_file_with_one_side_needs_the_other(tmp_path: Path) -> None:
    with pytest.raises(CompareError, match="one side alone"):
        compare(write(tmp_path / "a.pt", {"r": (f32(-1), mask(1))}), None)
    (tmp_path / "x.jsonl").write_text(json.dumps({"something": 1}))
    with pytest.raises(CompareError, match="lacks request_id"):
        Reading(tmp_path / "x.jsonl")
