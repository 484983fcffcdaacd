"""Traces in the forms that frameworks write, made here as their own code makes them.

SGLang's files follow `_Dumper._dump_single` and `_format_tags` of python/sglang/srt/debug_utils/dumper.py (sgl-project/sglang
00d35548) and `TensorDumper` with `_dump_hook` of tensor_dump_forward_hook.py (19fed5ff); msprobe's follow `get_save_file_path`
and `_analyze_and_save_tensor` of its data processors and `write_json` of json_writer.py (Ascend/msprobe 4400e05c, 19c86271,
3228c1a1).
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compare.ptfile import T, write
from tests.compare.test_command import run
from tic_daemon.compare.keyed import file_name
from tic_daemon.compare.probes import Trace
from tic_daemon.compare.trace_reading import read_trace
from tic_daemon.compare.traces import compare_traces, compared
from tic_daemon.errors import CompareError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports go to the working directory."""
    monkeypatch.chdir(tmp_path)


def _f(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class Dumper:
    """SGLang's dumper: one counter over all dumps of a rank, a step that goes up when `step` is called."""

    def __init__(self, folder: Path, rank: int = 0, **meta: Any) -> None:
        self.folder, self.rank, self.meta, self.index, self.at = folder, rank, meta, 0, 0
        folder.mkdir(parents=True, exist_ok=True)

    def dump(self, name: str, value: Any, dims: str | None = None, status: str = "disabled", **tags: Any) -> Path:
        self.index += 1
        full = {
            "step": self.at,
            "rank": self.rank,
            "dump_index": self.index,
            "name": name,
            "recompute_status": status,
            **tags,
        }
        meta = {**full, "world_rank": self.rank, "world_size": 1, **self.meta, **({"dims": dims} if dims else {})}
        kind = {"f": "float32", "i": "int64"}
        held = T(value, kind[value.dtype.kind]) if isinstance(value, np.ndarray) else value
        path = self.folder / ("___".join(f"{key}={own}" for key, own in full.items()) + ".pt")
        return write(path, {"value": held, "meta": meta})


def _forward(folder: Path, change: str = "", by: float = 1e-3, **more: Any) -> Path:
    """Two layers of one step; the value named by `change` is moved."""
    dumper = Dumper(folder, **more)
    dumper.dump("input_ids", np.arange(4))
    hidden = _f(4, 8)
    for layer in range(2):
        for name, value in (
            ("non_intrusive__attn.inputs.0", hidden), ("non_intrusive__attn.output", hidden * 2),
            ("topk_ids", np.arange(8).reshape(4, 2)), ("mlp_output", hidden * 3),
        ):  # fmt: skip
            moved = value + (by if value.dtype.kind == "f" else 1) if f"{layer}.{name}" == change else value
            dumper.dump(name, moved.astype(value.dtype), layer_id=layer)
    return folder


def test_sglangs_dumper_names_the_first_boundary(tmp_path: Path) -> None:
    a, b = _forward(tmp_path / "a"), _forward(tmp_path / "b", "1.non_intrusive__attn.output")
    found = compare_traces(a, b)
    assert (found.unfit, found.probes, found.readers) == ((), 9, ("sglang-dumper",) * 2)
    assert found.first == ("step=0", "layer1.non_intrusive__attn.output", "all")
    assert found.last_equal == ("step=0", "layer1.non_intrusive__attn.inputs.0", "all")
    assert "its input is equal" in found.differences[0].operator
    own = found.differences[0].figures
    assert own is not None and (own.mismatched, own.first) == (32, (0, 0))
    assert own.max_abs == pytest.approx(1e-3, rel=1e-4, abs=0)


def test_the_order_is_the_counters_and_not_that_of_the_names(tmp_path: Path) -> None:
    """dump_index 10 comes after 2, and the file of 10 stands before it in the directory."""
    dumper = Dumper(tmp_path / "a")
    for place in range(11):
        dumper.dump(f"n{place}", _f(2))
    assert [probe.key[1] for probe in read_trace(tmp_path / "a").probes] == [f"n{place}" for place in range(11)]


def test_calls_and_recomputations_are_probes_of_their_own(tmp_path: Path) -> None:
    dumper = Dumper(tmp_path / "a")
    dumper.dump("x", _f(2), status="original")
    dumper.dump("x", _f(2), status="original")
    dumper.dump("x", _f(2), status="recompute")
    dumper.dump("x", _f(2), expert=3)
    keys = [probe.key[2] for probe in read_trace(tmp_path / "a").probes]
    assert keys == ["all", "call=1", "recompute", "expert=3"]
    other = Dumper(tmp_path / "b")
    for _ in range(2):
        other.dump("x", _f(2))
    found = compare_traces(tmp_path / "a", tmp_path / "b")
    assert len(found.unfit) == 2 and all("lacks probe" in word for word in found.unfit)


def test_a_tensor_that_was_not_saved_spoils_the_trace(tmp_path: Path) -> None:
    a, b = _forward(tmp_path / "a"), _forward(tmp_path / "b")
    next(b.glob("*name=mlp_output*layer_id=1.pt")).unlink()
    assert compare_traces(a, b).unfit == ("side B lacks probe ('step=0', 'layer1.mlp_output', 'all')",)


def test_other_inputs_are_no_difference_of_the_model(tmp_path: Path) -> None:
    a, b = _forward(tmp_path / "a"), _forward(tmp_path / "b")
    for path in b.glob("*name=input_ids*"):
        path.unlink()
    Dumper(b).dump("input_ids", np.arange(1, 5))
    found = compare_traces(a, b)
    assert found.first is None and found.unfit == ("inputs differ: ('step=0', 'input_ids', 'all')",)


def test_what_is_no_tensor_is_left_out_and_said(tmp_path: Path) -> None:
    for side in "ab":
        dumper = Dumper(tmp_path / side)
        dumper.dump("rids", [side])
        dumper.dump("x", _f(2))
    found = compare_traces(tmp_path / "a", tmp_path / "b")
    assert found.probes == 1 and found.first is None and "1 values that are no tensors" in found.notes[0][0]


def test_what_follows_another_choice_of_experts_is_downstream(tmp_path: Path) -> None:
    a, b = _forward(tmp_path / "a"), _forward(tmp_path / "b", "0.topk_ids")
    for path in b.glob("*name=mlp_output*layer_id=0.pt"):
        path.unlink()
    dumper = Dumper(b)
    dumper.index = 4
    dumper.dump("mlp_output", _f(4, 8) * 7, layer_id=0)
    found = compare_traces(a, b)
    assert [(one.key[1], one.downstream) for one in found.differences] == [
        ("layer0.topk_ids", False), ("layer0.mlp_output", True),
    ]  # fmt: skip


def _sharded(folder: Path, whole: np.ndarray, ranks: int, dims: str | None, **more: Any) -> Path:
    for rank, shard in enumerate(np.split(whole, ranks, axis=1)):
        info = {"sglang_parallel_info": {"tp_rank": rank, "tp_size": ranks}}
        Dumper(folder, rank, **info, **more).dump("o_proj", np.ascontiguousarray(shard), dims=dims)
    return folder


def test_shards_are_put_together_where_their_dims_say_how(tmp_path: Path) -> None:
    whole = _f(4, 8)
    one, two = (_sharded(tmp_path / str(ranks), whole, ranks, "t h[tp]") for ranks in (1, 4))
    found = compare_traces(one, two)
    assert (found.unfit, found.first, found.probes) == ((), None, 1)
    moved = whole.copy()
    moved[2, 5] += 1
    found = compare_traces(one, _sharded(tmp_path / "moved", moved, 4, "t h[tp:sharded]"))
    assert found.first is not None and found.differences[0].figures is not None
    assert found.differences[0].figures.first == (2, 5)
    next((tmp_path / "4").glob("*rank=3*")).unlink()
    assert "3 shards of 4 along tp" in compare_traces(one, two).unfit[0]
    for dims in (None, "t h[cp:zigzag]", "t h[ep]"):
        by_rank = _sharded(tmp_path / f"by_rank {dims}", whole, 2, dims)
        assert [probe.key[2] for probe in read_trace(by_rank).probes] == ["all rank=0", "all rank=1"]


def test_copies_of_another_axis_are_kept_apart(tmp_path: Path) -> None:
    """Two data parallel groups of two shards each: whether they hold the same is not known, so nothing is put together."""
    for rank in range(4):
        info = {"sglang_parallel_info": {"tp_rank": rank % 2, "tp_size": 2, "dp_rank": rank // 2, "dp_size": 2}}
        Dumper(tmp_path / "a", rank, **info).dump("o_proj", _f(2, 4, seed=rank), dims="t h[tp]")
    keys = [probe.key[2] for probe in read_trace(tmp_path / "a").probes]
    assert keys == [f"all rank={rank}" for rank in range(4)]


def test_the_dumper_of_before_2026_says_it_in_the_name_alone(tmp_path: Path) -> None:
    for side, value in (("a", 1.0), ("b", 2.0)):
        folder = tmp_path / side / "sglang_dump_1764000000.1"
        folder.mkdir(parents=True)
        for index, name in ((1, "embed"), (2, "attn")):
            held = T(np.array([value if name == "attn" else 0.0], np.float32), "float32")
            write(folder / f"forward_pass_id=3___rank=0___name={name}___dump_index={index}___layer_id=7.pt", held)
    found = compare_traces(*(tmp_path / side / "sglang_dump_1764000000.1" for side in "ab"))
    assert found.first == ("step=3", "layer7.attn", "all") and found.last_equal == ("step=3", "layer7.embed", "all")


def _passes(folder: Path, forwards: list[dict[str, Any]], name: str = "TP0_PP0_Rank0_pid41") -> Path:
    """SGLang's hooks: those of leaves add outputs as modules end; that of `model` writes what there is, and only then adds its
    own output, which with what follows (the logits) goes into the next file."""
    place = folder / name
    place.mkdir(parents=True)
    current: dict[str, Any] = {}
    for number, forward in enumerate(forwards):
        for module, value in forward.items():
            if module == "model":
                current["model.forward_batch_info.input_ids"] = T(np.arange(3), "int64")
                write(place / f"Pass{number:05d}.pt", current)
                current = {}
            several = value if isinstance(value, list) else [value]
            held = [T(one, "float32") for one in several]
            current[module] = held if isinstance(value, list) else held[0]
    return folder


def _modules(seed: int) -> dict[str, Any]:
    return {
        "model.embed_tokens": _f(3, 4, seed=seed), "model.layers.0.input_layernorm": [_f(3, 4, seed=seed + 1), _f(3, 4, seed=seed + 2)],
        "model.layers.0.mlp": _f(3, 4, seed=seed + 3), "model": _f(3, 4, seed=seed + 4), "logits_processor": _f(1, 9, seed=seed + 5),
    }  # fmt: skip


def test_logits_are_put_back_into_their_own_pass(tmp_path: Path) -> None:
    """The logits of pass 0 lie in the file of pass 1: a difference in them is one of pass 0, before all of pass 1."""
    clean, moved = ([_modules(10 * place) for place in range(3)] for _ in range(2))
    moved[0]["logits_processor"] = moved[0]["logits_processor"] + 1
    moved[1]["model.layers.0.mlp"] = moved[1]["model.layers.0.mlp"] + 1
    a, b = _passes(tmp_path / "a", clean), _passes(tmp_path / "b", moved, "TP0_PP0_Rank0_pid77")
    found = compare_traces(a, b)
    assert found.first == ("pass=0", "logits_processor", "all") and found.last_equal == ("pass=0", "model", "all")
    assert [one.key[:2] for one in found.differences[1:]] == [("pass=1", "model.layers.0.mlp")]
    assert found.probes == 3 * 5 + 2 * 2 and "last pass has no output" in found.notes[0][0]
    single = next((b / "TP0_PP0_Rank0_pid77").glob("Pass00001.pt"))
    assert [probe.key[1] for probe in read_trace(single).probes][:2] == [
        "model.embed_tokens",
        "model.layers.0.input_layernorm.0",
    ]
    assert "2 modules at the front belong to the pass before" in read_trace(single).notes[0]


def test_processes_are_kept_apart_and_two_of_one_place_refused(tmp_path: Path) -> None:
    forwards = [_modules(0), _modules(10)]
    _passes(tmp_path / "a", forwards, "TP0_PP0_Rank0_pid1")
    _passes(tmp_path / "a", forwards, "TP1_PP0_Rank1_pid2")
    slices = [probe.key for probe in read_trace(tmp_path / "a").probes]
    assert slices[:2] == [
        ("pass=0", "model.embed_tokens", "tp=0 pp=0"),
        ("pass=0", "model.embed_tokens", "tp=1 pp=0"),
    ]
    _passes(tmp_path / "a", forwards, "TP1_PP0_Rank1_pid3")
    with pytest.raises(CompareError, match="two processes of tp=1 pp=0"):
        read_trace(tmp_path / "a")


class Probe:
    """msprobe's tensor task: a call's entry when it ends, each tensor under the name of its place."""

    def __init__(self, folder: Path, framework: str = "pytorch") -> None:
        self.folder, self.framework, self.data = folder, framework, {}  # type: ignore[var-annotated]
        (folder / "dump_tensor_data").mkdir(parents=True)

    def entry(self, name: str, value: np.ndarray, dtype: str = "torch.float32") -> dict[str, Any]:
        data_name = f"{name}.{'pt' if self.framework == 'pytorch' else 'npy'}"
        path = self.folder / "dump_tensor_data" / data_name
        if self.framework == "pytorch":
            write(path, T(value, "float32"))
        else:
            np.save(path, value)
        return {
            "type": "torch.Tensor", "dtype": dtype, "shape": list(value.shape), "Max": float(value.max()), "requires_grad": False,
            "data_name": data_name,
        }  # fmt: skip

    def call(self, name: str, inputs: list[np.ndarray], outputs: list[np.ndarray], **more: str) -> None:
        self.data[name] = {
            "input_args": [self.entry(f"{name}.input.{place}", one, **more) for place, one in enumerate(inputs)],
            "input_kwargs": {"scale": {"type": "float", "value": 0.5}},
            "output": [self.entry(f"{name}.output.{place}", one, **more) for place, one in enumerate(outputs)],
        }

    def stop(self, **more: Any) -> Path:
        body = {
            "task": "tensor", "level": "mix", "framework": self.framework, "dump_data_dir": "/root/elsewhere/dump_tensor_data",
            "data": self.data, **more,
        }  # fmt: skip
        (self.folder / "dump.json").write_text(json.dumps(body, indent=1))
        return self.folder


def _probed(folder: Path, moved: float = 0.0, **more: Any) -> Path:
    probe = Probe(folder / "step0" / "rank0", **more)
    hidden = _f(2, 3)
    probe.call("Functional.linear.0.forward", [hidden], [hidden * 2])
    probe.call("Functional.silu.0.forward", [hidden * 2], [hidden * 3 + np.float32(moved)])
    probe.call("Module.mlp.MLP.forward.0", [hidden], [hidden * 3 + np.float32(moved)])
    return probe.stop()


@pytest.mark.parametrize("framework", ["pytorch", "mindspore"])
def test_msprobe_names_the_first_call(tmp_path: Path, framework: str) -> None:
    a, b = (_probed(tmp_path / side, moved, framework=framework) for side, moved in (("a", 0.0), ("b", 0.25)))
    found = compare_traces(a, b)
    assert (found.unfit, found.probes, found.provenance) == ((), 6, ("native", "native"))
    assert found.first == ("dump", "Functional.silu.0.forward.output.0", "all")
    assert found.last_equal == ("dump", "Functional.silu.0.forward.input_args.0", "all")
    assert "its input is equal" in found.differences[0].operator
    assert found.differences[0].figures is not None and found.differences[0].figures.max_abs == pytest.approx(
        0.25, rel=1e-6
    )
    whole = compare_traces(tmp_path / "a", tmp_path / "b")
    assert whole.first == ("step0", "Functional.silu.0.forward.output.0", "rank0")
    assert compare_traces(a / "dump.json", b / "dump.json").first == found.first


def test_msprobes_traps(tmp_path: Path) -> None:
    """A tensor that is missing, one that the JSON does not name, no JSON, names that lead outside, statistics alone."""
    a, b = _probed(tmp_path / "a"), _probed(tmp_path / "b")
    gone = b / "dump_tensor_data" / "Functional.silu.0.forward.output.0.pt"
    gone.rename(b / "dump_tensor_data" / "Functional.gelu.0.forward.output.0.pt")
    found = compare_traces(a, b)
    assert found.first is None and "silu.0.forward.output.0.pt is missing" in found.unfit[0]
    assert "1 tensors that dump.json does not name" in found.unfit[1]
    (b / "dump.json").unlink()
    with pytest.raises(CompareError, match="ended before stop"):
        read_trace(b)
    probe = Probe(tmp_path / "c")
    probe.call("Functional.linear.0.forward", [_f(2)], [_f(2)])
    probe.data["Functional.linear.0.forward"]["output"][0]["data_name"] = "../../a/step0/rank0/dump.json"
    with pytest.raises(CompareError, match="leads outside"):
        read_trace(probe.stop())
    statistics = Probe(tmp_path / "d")
    statistics.data["Functional.linear.0.forward"] = {"output": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0}]}  # fmt: skip
    with pytest.raises(CompareError, match="statistics alone"):
        read_trace(statistics.stop())


def test_msprobes_checksums_show_a_difference_and_prove_no_equality(tmp_path: Path) -> None:
    def summed(side: str, values: np.ndarray) -> Path:
        probe = Probe(tmp_path / side)
        entry = {
            "type": "torch.Tensor",
            "dtype": "torch.bfloat16",
            "shape": [2],
            "md5": f"{zlib.crc32(values.tobytes()):08x}",
        }
        probe.data["Functional.linear.0.forward"] = {"output": [entry]}
        return probe.stop()

    a, b, c = summed("a", _f(2)), summed("b", _f(2)), summed("c", _f(2, seed=1))
    equal, other = compare_traces(a, b), compare_traces(a, c)
    assert equal.first is None and not equal.of_bits and "prove nothing" in equal.notes[0][0]
    assert (
        other.first == ("dump", "Functional.linear.0.forward.output.0", "all") and other.differences[0].figures is None
    )
    code, out, _errors = run(a, b, "--no-report")
    assert code == 12 and "no claim on bits" in out and "bit for bit" not in out


def test_msprobes_array_of_another_type_is_a_cast(tmp_path: Path) -> None:
    for side in "ab":
        probe = Probe(tmp_path / side, "mindspore")
        probe.call("Functional.linear.0.forward", [_f(2)], [_f(2)], dtype="BFloat16")
        probe.stop()
    found = compare_traces(tmp_path / "a", tmp_path / "b")
    assert found.provenance == ("cast_f32", "cast_f32") and not found.of_bits


def _keyed(folder: Path, values: dict[tuple[str, str, str], np.ndarray], saved: set[str]) -> Path:
    folder.mkdir()
    lines = []
    for order, (key, value) in enumerate(values.items()):
        lines.append(
            {
                "request": key[0], "boundary": key[1], "slice": key[2], "order": order, "shape": list(value.shape), "dtype": "float32",
                "sha256": hashlib.sha256(value.tobytes()).hexdigest(),
            }
        )  # fmt: skip
        if key[1] in saved:
            write(folder / file_name(key), T(value, "float32"))
    (folder / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_a_keyed_trace_measures_the_tensors_that_were_saved(tmp_path: Path) -> None:
    values = {
        ("step7/p2__s3", boundary, "tokens=0:4"): _f(4, seed=place)
        for place, boundary in enumerate(("embed", "layer2.attn.out"))
    }
    moved = {key: value + np.float32(key[1] != "embed") for key, value in values.items()}
    a, b = (_keyed(tmp_path / side, own, {"layer2.attn.out"}) for side, own in (("a", values), ("b", moved)))
    assert [path.name for path in a.glob("*.pt")] == ["step7%2Fp2%5F%5Fs3__layer2.attn.out__tokens=0:4.pt"]
    found = compare_traces(a, b)
    assert found.first == ("step7/p2__s3", "layer2.attn.out", "tokens=0:4") and found.readers == ("keyed", "keyed")
    assert found.differences[0].figures is not None and found.differences[0].figures.max_abs == pytest.approx(1)
    code, out, _errors = run(a, b, "--no-report")
    assert code == 12 and "layer2.attn.out" in out
    write(b / file_name(("step7/p2__s3", "layer2.attn.out", "tokens=0:4")), T(_f(4, seed=9), "float32"))
    write(b / "x__y__z.pt", T(_f(4), "float32"))
    unfit = compare_traces(a, b).unfit
    assert "is not the tensor of its line" in unfit[0] and "has no line" in unfit[1]


def test_hostile_files_are_refused(tmp_path: Path) -> None:
    """A pickle that would run code, a link that leads out, a loop of links, a cut file: refused, and nothing is executed."""
    folder = _forward(tmp_path / "a")
    evil = folder / "step=0___rank=0___dump_index=99___name=x.pt"
    call = b"cposix\nsystem\n" + b"X" + struct.pack("<I", 12) + b"touch hacked" + b"\x85R."
    write(evil, None, raw_pickle=b"\x80\x02" + call)
    with pytest.raises(CompareError, match=r"posix\.system"):
        read_trace(folder)
    evil.unlink()
    evil.symlink_to(tmp_path / "secret.pt")
    assert "is a link" in read_trace(folder).refused[0]
    assert compare_traces(folder, folder).unfit
    evil.unlink()
    evil.symlink_to(evil)
    assert "is a link" in read_trace(folder).refused[0]
    evil.unlink()
    whole = next(folder.glob("*name=mlp_output*"))
    whole.write_bytes(whole.read_bytes()[:-40])
    with pytest.raises(CompareError, match="no whole file"):
        read_trace(folder)
    assert not Path("hacked").exists()


def test_a_tensor_that_changed_after_it_was_hashed_is_not_measured(tmp_path: Path) -> None:
    a, b = _forward(tmp_path / "a"), _forward(tmp_path / "b", "1.mlp_output")
    one, other = read_trace(a), read_trace(b)
    path = next(b.glob("*name=mlp_output*layer_id=1.pt"))
    Dumper(b).dump("y", _f(1)).replace(path)
    with pytest.raises(CompareError, match="changed while it was compared"):
        compared(one, other)
    assert isinstance(one, Trace)


def test_the_command_takes_directories(tmp_path: Path) -> None:
    a, b = _forward(tmp_path / "a"), _forward(tmp_path / "b", "0.mlp_output")
    code, out, _errors = run(a, b, "--no-report")
    assert code == 12 and "first difference at step=0 layer0.mlp_output all" in out and "sglang-dumper, native" in out
    (tmp_path / "empty").mkdir()
    code, _out, errors = run(tmp_path / "empty", b)
    assert code == 2 and "without a layer trace" in errors
