"""Tensor dumps of SGLang as traces: its dumper, and `--debug-tensor-dump-output-folder`.

The dumper writes one file a tensor, `k=v___k=v....pt`. Today's hold {"value": tensor, "meta": {step, rank,
dump_index, name, recompute_status, ...}}, and what they say of themselves counts, not their names; those of before
2026 hold the tensor alone, and their names count. A dump has no request ids: a step (a forward pass, in older ones)
is the request, the name with the layer is the boundary, and what else was tagged is the slice, with the number of the
call where a name comes again within a step. Tensors of several ranks are kept apart by rank, unless their `dims` say
along which one axis they were cut, e.g. "t h[tp]": then the shards are put together. A tensor that could not be
saved is missing (SGLang only prints it), and a missing probe spoils the comparison.

The debug folder has a directory a process, `TPt_PPp_Rankr_pidN`, and in it `PassNNNNN.pt` for each forward pass:
{module: tensor or list of tensors}. The file is written by the hook of the inner `model` before that hook adds its
own output, so that the output of `model` and what follows it, logits among them, stands at the front of the next
pass' file. It is put back here, and the last pass has none.

Sources: sgl-project/sglang python/sglang/srt/debug_utils/dumper.py (00d35548) and tensor_dump_forward_hook.py
(19fed5ff), debug_utils/comparator/dims_spec (36fdf39c); the dumper of before 2026: fzyzcjy/sglang (60d36e7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from tic_daemon.compare.opened import Opened
from tic_daemon.compare.probes import Kept, Key, Probe, Trace, folders, kept, listing, probe, with_input
from tic_daemon.compare.sides import Held, Tensor
from tic_daemon.compare.torchfile import TorchFile, plain
from tic_daemon.errors import CompareError

_PASS: Final = re.compile(r"Pass(\d+)\.pt", re.ASCII)
_PROCESS: Final = re.compile(r"TP(\d+)_PP(\d+)_Rank\d+_pid\d+", re.ASCII)
_TAGGED: Final = re.compile(r"[^=/]+=.*\.pt")
_DIMS: Final = re.compile(r"([A-Za-z_]\w*|1)(?:\[(\w+)(?::sharded)?\])?", re.ASCII)
_PLAIN: Final = frozenset({"step", "forward_pass_id", "rank", "dump_index", "name", "recompute_status", "layer_id"})
_RANKS: Final = frozenset({"pp_rank", "tp_rank", "cp_rank", "ep_rank", "etp_rank"})
_META: Final = frozenset({"world_rank", "world_size", "tokenizer_path", "dims", "dims_grad"})
_OUTER: Final = frozenset({"model", "lm_head", "logits_processor", "pooler"})


def is_dump(folder: Path) -> bool:
    """Whether files of the dumper lie there."""
    names, _links = listing(folder, ".pt")
    return any(_TAGGED.fullmatch(name) and "name=" in name and "dump_index=" in name for name in names)


def is_passes(folder: Path) -> bool:
    """Whether forward passes lie there, or directories of processes that dumped them."""
    return bool(_passes(folder)) or any(_PROCESS.fullmatch(name) for name in folders(folder))


@dataclass(frozen=True, slots=True, eq=False)
class _Dumped:
    """One file of the dumper. `tags` are its own: name, step, rank, ..."""

    tags: Mapping[str, Any]
    meta: Mapping[str, Any]
    tensor: Tensor
    held: Kept


def dump(folder: Path) -> Trace:
    """The dumper's files of one experiment.

    Raises:
        CompareError: a file cannot be read or is none of the dumper's.
    """
    names, refused = listing(folder, ".pt")
    notes, found, others = [], [], 0
    for name in names:
        with Opened(folder / name) as file:
            one = _dumped(file)
            if one is None:
                others += 1
                continue
            found.append((one, _without_rank(one, probe(("", "", ""), one.tensor, one.held))))
    if others:
        notes.append(f"{others} values that are no tensors are left out")
    found.sort(key=lambda pair: (_integer(pair[0].tags, "dump_index"), _integer(pair[0].tags, "rank")))
    ranks = {_integer(one.tags, "rank") for one, _probe in found}
    probes, unlike = _joined(found, several=len(ranks) > 1)
    return Trace(
        str(folder), "sglang-dumper", tuple(_with_inputs(probes)), notes=tuple(notes), refused=(*refused, *unlike)
    )


def _dumped(file: Opened) -> _Dumped | None:
    root = plain(TorchFile(file).root)
    if isinstance(root, dict) and {"value", "meta"} <= root.keys() and isinstance(root["meta"], dict):
        meta, value = root["meta"], plain(root["value"])
        tags = {key: own for key, own in meta.items() if key not in _META and not isinstance(own, dict)}
    else:
        meta, value = {}, root
        tags = dict(part.split("=", 1) for part in file.path.name.removesuffix(".pt").split("___") if "=" in part)
    if not isinstance(tags.get("name"), str) or not {"step", "forward_pass_id"} & tags.keys():
        raise CompareError(f"{file.path} names no tensor and no step", "it is no file of SGLang's dumper")
    if not hasattr(value, "bits"):
        return None
    return _Dumped(tags, meta, value, kept(value, file, "value") if meta else kept(value, file))


def _integer(tags: Mapping[str, Any], key: str) -> int:
    try:
        return int(tags.get(key, 0))
    except (TypeError, ValueError) as error:
        raise CompareError(f"{key} {tags.get(key)!r} of a dumped tensor is no number") from error


def _without_rank(one: _Dumped, made: Probe) -> Probe:
    """The probe under its name, without what tells ranks apart."""
    tags = one.tags
    step = tags.get("step", tags.get("forward_pass_id"))
    layer = f"layer{tags['layer_id']}." if "layer_id" in tags else ""
    rest = [f"{key}={own}" for key, own in tags.items() if key not in _PLAIN and key not in _RANKS]
    if tags.get("recompute_status") == "recompute":
        rest.append("recompute")  # backward's second forward is no other call of the first
    return replace(made, key=(f"step={step}", f"{layer}{tags['name']}", " ".join(rest)))


def _joined(found: list[tuple[_Dumped, Probe]], *, several: bool) -> tuple[list[Probe], list[str]]:
    """Calls numbered, and shards put together where their dims say how."""
    calls: dict[tuple[Key, int], int] = {}
    shards: dict[Key, list[tuple[_Dumped, Probe]]] = {}
    for one, made in found:
        rank = _integer(one.tags, "rank")
        number = calls.get((made.key, rank), 0)
        calls[made.key, rank] = number + 1
        request, boundary, piece = made.key
        key = (request, boundary, " ".join(filter(None, (piece, f"call={number}" if number else ""))) or "all")
        shards.setdefault(key, []).append((one, made))
    probes: list[Probe] = []
    unlike: list[str] = []
    for key, parts in shards.items():
        whole = _whole(key, parts) if several else parts[0][1]
        if isinstance(whole, str):
            unlike.append(whole)
        elif whole is not None:
            probes.append(replace(whole, key=key))
        else:
            probes += [
                replace(made, key=(key[0], key[1], f"{key[2]} rank={_integer(one.tags, 'rank')}"))
                for one, made in parts
            ]
    return probes, unlike


def _whole(key: Key, parts: list[tuple[_Dumped, Probe]]) -> Probe | str | None:
    """One probe of the shards of several ranks; None where nothing says how they were cut; a word where shards are
    missing or do not fit.

    More tensors than shards are copies of other axes, and whether those hold the same (experts) or not (data parallel)
    is not known here: they are kept apart.
    """
    cut = _cut(parts)
    if cut is None:
        return None
    place, axis, size = cut
    by_rank = {_axis(one.meta, axis): (one, made) for one, made in parts}
    if len(parts) > size:
        return None
    if len(by_rank) < size or len(by_rank) < len(parts):
        return f"{key}: {len(by_rank)} shards of {size} along {axis} are there"
    # Opened again: nothing of a dump stays in memory.
    arrays = [by_rank[rank, size][0].held.bits().reshape(by_rank[rank, size][0].held.shape) for rank in range(size)]
    unlike = {made.dtype for _one, made in parts}, {_without(array.shape, place) for array in arrays}
    if any(len(own) > 1 for own in unlike):
        return f"{key}: shards have different types or shapes"
    return probe(key, Held.of(parts[0][0].tensor.element, np.concatenate(arrays, axis=place)))


def _without(shape: tuple[int, ...], place: int) -> tuple[int, ...]:
    return shape[:place] + shape[place + 1 :]


def _cut(parts: list[tuple[_Dumped, Probe]]) -> tuple[int, str, int] | None:
    """Dimension, parallel axis and number of shards, if all tensors say that they were cut so and no other way."""
    dims = parts[0][0].meta.get("dims")
    if not isinstance(dims, str) or any(one.meta.get("dims") != dims for one, _made in parts):
        return None
    words = dims.partition("#")[0].split()
    named = [match for word in words if (match := _DIMS.fullmatch(word))]
    if len(named) != len(words) or any(len(words) != len(made.shape) for _one, made in parts):
        return None  # a cut that is not known here, e.g. in zigzag
    cut = [(place, match[2]) for place, match in enumerate(named) if match[2]]
    if len(cut) != 1:
        return None
    sizes = {known[1] if (known := _axis(one.meta, cut[0][1])) else 0 for one, _made in parts}
    return (*cut[0], sizes.pop()) if len(sizes) == 1 and 0 not in sizes else None


def _axis(meta: Mapping[str, Any], axis: str) -> tuple[int, int] | None:
    """Rank and size of a parallel axis, as the process knew them."""
    for key, own in meta.items():
        if key.endswith("_parallel_info") and isinstance(own, dict):
            rank, size = own.get(f"{axis}_rank"), own.get(f"{axis}_size")
            if type(rank) is int and type(size) is int and 0 <= rank < size:
                return rank, size
    return None


def _with_inputs(probes: list[Probe]) -> Iterator[Probe]:
    """A module's output with the hash of its inputs; the hooks call them `MODULE.inputs.0` and `MODULE.output`."""
    inputs: dict[tuple[str, str, str], list[Probe]] = {}
    for one in probes:
        request, boundary, piece = one.key
        module, _dot, _rest = boundary.partition(".inputs.")
        if _rest:
            inputs.setdefault((request, module, piece), []).append(one)
        module, dot, _rest = boundary.partition(".output")
        yield with_input(one, inputs.get((request, module, piece), ())) if dot else one


def passes(folder: Path) -> Trace:
    """The forward passes of one process, or of all processes of a debug folder.

    Raises:
        CompareError: a file cannot be read or is no pass.
    """
    processes = [name for name in folders(folder) if _PROCESS.fullmatch(name)] if not _passes(folder) else [""]
    probes: list[tuple[int, int, Probe]] = []
    refused: list[str] = []
    notes = ["the last pass has no output of model and no logits: they are written with the next one"]
    seen: set[str] = set()
    for name in processes:
        match = _PROCESS.fullmatch(name)
        piece = f"tp={match[1]} pp={match[2]}" if match and len(processes) > 1 else "all"
        if piece in seen:
            raise CompareError(f"{folder} holds two processes of {piece}", "give the directory of one run's processes")
        seen.add(piece)
        names, links = listing(folder / name, ".pt")
        refused += links
        others = [other for other in names if not _PASS.fullmatch(other)]
        if others:
            notes.append(f"{folder / name}: {len(others)} files that are no passes are left out, first {others[0]!r}")
        probes += _process(folder / name, piece)
    # Passes in their order; within one, what the processes ran side by side.
    probes.sort(key=lambda found: found[:2])
    return Trace(
        str(folder), "sglang-passes", tuple(one for _pass, _place, one in probes), notes=tuple(notes),
        refused=tuple(refused),
    )  # fmt: skip


def _passes(folder: Path) -> list[str]:
    return [name for name in listing(folder, ".pt")[0] if _PASS.fullmatch(name)]


def _process(folder: Path, piece: str) -> list[tuple[int, int, Probe]]:
    """Pass, place within it, and probe."""
    by_pass: dict[int, list[Probe]] = {}
    for name in _passes(folder):
        number = int(_PASS.fullmatch(name)[1])  # type: ignore[index]
        with Opened(folder / name) as file:
            root = TorchFile(file).root
            if not isinstance(root, dict):
                raise CompareError(f"{file.path} holds no modules", "it is no forward pass of SGLang's debug folder")
            before, own = late(list(root))
            for at, modules in ((number - 1, before), (number, own)):
                for one in modules:
                    by_pass.setdefault(at, []).extend(module(root, one, at, piece, file))
    return [(number, place, one) for number, own in by_pass.items() for place, one in enumerate(own)]


def late(modules: list[str]) -> tuple[list[str], list[str]]:
    """Modules of one file: those of the pass before (the output of `model` and what came after it), and its own."""
    first = next((place for place, name in enumerate(modules) if str(name).startswith("model.")), len(modules))
    outer = [place for place in range(first) if str(modules[place]).partition(".")[0] in _OUTER]
    cut = outer[-1] + 1 if outer else 0
    return modules[:cut], modules[cut:]


def module(root: Mapping[Any, Any], name: Any, number: int, piece: str, file: Opened) -> Iterator[Probe]:
    """The probes of one module's output: one tensor, or several in a list."""
    value = plain(root[name])
    several = value if isinstance(value, list | tuple) else [value]
    for place, raw in enumerate(several):
        tensor = plain(raw)
        if not isinstance(name, str) or not hasattr(tensor, "bits"):
            raise CompareError(f"{file.path}: {name!r} holds no tensor", "it is no forward pass of SGLang")
        within = (name, place) if isinstance(value, list | tuple) else (name,)
        boundary = f"{name}.{place}" if isinstance(value, list | tuple) else name
        yield probe((f"pass={number}", boundary, piece), tensor, kept(tensor, file, *within))
