"""What training frameworks write: both sides, or the rollout's, in the dumps that they already have.

Each reader knows the traps of its format and says in `notes` what it left out. Masks of integers are turned into bool
here, since the format says that they are masks; the canonical input is held to its own rule.

Formats were read in these sources: prime-rl `trainer/rl/token_export.py` (559b447), NeMo-RL `utils/logger.py` and
`algorithms/grpo.py` (7ea279a), slime `observability/train_data_utils.py` and `rollout_data_utils.py` (624b824), miles
`utils/train_dump_utils.py`, `backends/training_utils/debug_dump.py` and `ray/rollout/debug_data.py` (31f1ca9), verl
`trainer/ppo/ray_trainer.py` (1dda039).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import isnan
from typing import Any, Final

import numpy as np

from tic_daemon.compare.elements import ELEMENTS
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.plainfiles import ids_of, mask_of, numbers, versions
from tic_daemon.compare.sides import Held, Sequence, Tensor, count, in_order
from tic_daemon.compare.torchfile import plain
from tic_daemon.errors import CompareError

_NEMO: Final = ("token_loss_mask", "sample_loss_mask", "generation_logprobs", "prev_logprobs")
ROLLOUT: Final = "rollout"
TRAINER: Final = "trainer"


class Part:
    """One side of a dump while it is read."""

    def __init__(self, name: str, provenance: str) -> None:
        self.name, self.provenance = name, provenance
        self.sequences: list[Sequence] = []
        self.notes: list[str] = []

    def ordered(self) -> tuple[dict[str, Sequence], tuple[str, ...]]:
        """By request, and ids that stand there twice."""
        return in_order(self.sequences)


_NONE: Final = Held.of(ELEMENTS["int64"], np.zeros(0, np.int64))
"""The prompt of a sequence whose tokens begin with it."""

Parts = list[Part]
Rows = Iterable[tuple[str, Mapping[str, Any]]]


def prime_rl(lines: Iterable[Mapping[str, Any]], where: str) -> Parts:
    """Token exports: one object a sequence. `null` is a value that was not finite; floats were cast to float32.

    The key of a sequence is its place in the export, since there is no id of a request: step, rank, micro step, index.
    A sequence of which no token enters the loss was never written, so that nothing shows how many there were. Tokens
    that enter it by cross entropy alone do not count: those of the environment were scored by no engine and hold 0.0,
    and nothing tells them from others.
    """
    rollout, trainer = Part(ROLLOUT, "cast_f32"), Part(TRAINER, "cast_f32")
    unscored = 0
    for line in lines:
        if line.get("schema_version") != 1:
            raise CompareError(f"{where}: token export of schema {line.get('schema_version')!r}: only 1 is known")
        request = "-".join(str(line.get(key)) for key in ("step", "rank", "micro_step", "micro_sequence_idx"))
        own = f"{where}: sequence {request}"
        tokens = ids_of(line.get("token_ids"), f"{own}: token_ids")
        mask = mask_of(line.get("loss_mask"), f"{own}: loss_mask")
        given = _given(line.get("losses"), count(mask), f"{own}: losses")
        if given is not None:
            unscored += int(np.count_nonzero(mask.flat & given))
            mask = Held(mask.element, mask.shape, mask.flat & ~given & 1)
            if not mask.flat.any():
                continue
        for part, key in ((rollout, "inference_logprobs"), (trainer, "trainer_logprobs")):
            values, exact = numbers(line.get(key), f"{own}: {key}", float32=True)
            if not exact:
                part.provenance = "unknown"
            part.sequences.append(Sequence(request, values, mask, tokens, _NONE))
    for part in (rollout, trainer):
        part.notes.append("sequences without a token in the loss are not in a token export")
        if unscored:
            part.notes.append(f"{unscored} tokens do not count: they enter the loss by cross entropy alone")
    return [rollout, trainer]


def _given(losses: Any, size: int, where: str) -> np.ndarray | None:
    """Which tokens enter the loss by cross entropy alone, as 0 and 1; None where the export does not say it.

    Raises:
        CompareError: it says it in another way.
    """
    if losses is None:
        return None
    if not isinstance(losses, list) or len(losses) != size or not all(isinstance(one, dict) for one in losses):
        raise CompareError(f"{where} is no list of losses, one of each token")
    found = np.zeros(size, np.uint8)
    for place, one in enumerate(losses):
        names = {name for name, own in one.items() if isinstance(own, dict) and own.get("mask")}
        found[place] = names == {"ce"}
    return found


def nemo_rl(lines: Iterable[Mapping[str, Any]], where: str) -> Parts:
    """`train_data_stepN.jsonl`: one object a sample, each value with a leading dimension of 1.

    Index t holds the log-probability of token t, and index 0 a placeholder: it never counts. The valid tokens are those
    of token_loss_mask where sample_loss_mask is not 0. Samples that it takes out are left out and counted.
    """
    rollout, trainer = Part(ROLLOUT, "json_exact_f32"), Part(TRAINER, "json_exact_f32")
    out = 0
    for number, line in enumerate(lines):
        own = f"{where}: sample {number}"
        one = {key: _only(value) for key, value in line.items()}
        lacking = [key for key in _NEMO if key not in one]
        if lacking:
            raise CompareError(f"{own} lacks {', '.join(lacking)}", "older versions of NeMo-RL do not write them")
        mask = mask_of(one.get("token_loss_mask"), f"{own}: token_loss_mask")
        counts = one.get("sample_loss_mask")
        if type(counts) not in {int, float, bool} or counts not in {0, 1}:
            raise CompareError(f"{own}: sample_loss_mask is {counts!r}, neither 0 nor 1")
        if not counts:
            out += 1
            continue
        flags = mask.flat.copy()
        flags[:1] = 0
        # With rollouts over a data plane they may be missing.
        tokens = ids_of(one["token_ids"], f"{own}: token_ids") if one.get("token_ids") is not None else None
        for part, key in ((rollout, "generation_logprobs"), (trainer, "prev_logprobs")):
            values, exact = numbers(one.get(key), f"{own}: {key}", float32=True)
            if not exact:
                part.provenance = "unknown"
            part.sequences.append(
                Sequence(
                    f"sample{number:06}",
                    values,
                    Held(mask.element, mask.shape, flags),
                    tokens,
                    None if tokens is None else _NONE,
                )
            )
    if out:
        for part in (rollout, trainer):
            part.notes.append(f"{out} samples were taken out by sample_loss_mask")
    return [rollout, trainer]


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def slime_train(root: Mapping[str, Any], where: str) -> Parts:
    """slime's train dump, format 2: one dict a sample, restored over context parallel ranks.

    The trainer's log-probabilities keep their type. The rollout's came as Python floats and were made float32. With
    `--use-rollout-logprobs` both are one thing: compare finds equal bytes and asks for receipts.
    """
    samples = _samples(root, where)
    rows = []
    for place, sample in enumerate(samples):
        index = sample.get("sample_index")
        rows.append((str(index if index is not None else f"position{place}"), sample))
    parts = _both(rows, where, "log_probs", "rollout_log_probs", "loss_masks")
    if any(sample.get("sample_index") is None for sample in samples):
        for part in parts:
            part.notes.append("samples without an index are named by their place in the dump")
    return parts


def miles_train(root: Mapping[str, Any], where: str) -> Parts:
    """miles' train dump: columns, one list a rank. Only whole responses of the last pipeline stage can be compared."""
    if root.get("cp_size") not in {None, 1}:
        raise CompareError(
            f"{where} holds slices of context parallel rank {root.get('cp_rank')} of {root.get('cp_size')}",
            "dump a run with context parallel size 1, or restore the whole responses first",
        )
    columns = root["rollout_data"]
    if not isinstance(columns, dict) or not isinstance(columns.get("sample_indices"), list):
        raise CompareError(f"{where} is a train dump without sample_indices")
    lacking = [
        key for key in ("log_probs", "rollout_log_probs", "loss_masks") if not isinstance(columns.get(key), list)
    ]
    if lacking:
        raise CompareError(
            f"{where} lacks {', '.join(lacking)}", "only the last pipeline stage has log-probabilities: give its file"
        )
    total = len(columns["sample_indices"])
    per_sample = {key: value for key, value in columns.items() if isinstance(value, list) and len(value) == total}
    rows = [
        (str(index), {key: value[place] for key, value in per_sample.items()})
        for place, index in enumerate(columns["sample_indices"])
    ]
    return _both(rows, where, "log_probs", "rollout_log_probs", "loss_masks")


def miles_debug(root: Mapping[str, Any], where: str) -> Parts:
    """miles' policy_loss_debug: what entered the loss, cast to float32, of one context parallel rank."""
    rows = [(str(sample.get("index")), sample) for sample in _samples(root, where)]
    parts = _both(rows, where, "train_log_probs", "rollout_log_probs", "local_loss_mask", slices=True)
    for part in parts:
        part.provenance = "cast_f32"
        part.notes.append(
            "train_log_probs are of the forward that is being updated; slices of one context parallel rank"
        )
    return parts


def rollout_dump(root: Mapping[str, Any], where: str) -> Parts:
    """slime's and miles' rollout dump: the engine's side, as Python floats."""
    part = Part(ROLLOUT, "json_exact_f32")
    skipped = 0
    for place, sample in enumerate(_samples(root, where)):
        index = sample.get("index")
        own = f"{where}: sample {index if index is not None else place}"
        if sample.get("rollout_log_probs") is None:
            skipped += 1
            continue
        part.sequences.append(
            _sequence(str(index if index is not None else place), sample, "rollout_log_probs", "loss_mask", own, part)
        )
    if skipped:
        part.notes.append(f"{skipped} samples hold no log-probabilities")
    if not part.sequences:
        raise CompareError(f"{where} is a rollout dump without rollout_log_probs", "sample with log-probabilities on")
    return [part]


def _samples(root: Mapping[str, Any], where: str) -> list[Mapping[str, Any]]:
    samples = root.get("samples")
    if not isinstance(samples, list) or not all(isinstance(sample, dict) for sample in samples):
        raise CompareError(f"{where} holds no list of samples")
    return samples


def _both(rows: Rows, where: str, trained: str, rolled: str, mask: str, *, slices: bool = False) -> Parts:
    """Both sides of samples that hold them under these keys. `slices`: a sample may be a part of its response."""
    sides = [Part(ROLLOUT, "cast_f32"), Part(TRAINER, "native")]
    for part, key in zip(sides, (rolled, trained), strict=True):
        for request, sample in rows:
            if sample.get(key) is None:
                raise CompareError(
                    f"{where}: sample {request} lacks {key}",
                    "only the last pipeline stage has log-probabilities, and only if the run asks for them",
                )
            own = f"{where}: sample {request}"
            sequence = _sequence(request, sample, key, mask, own, part, slices=slices)
            # The versions of a sample are those that sampled it; nothing says which one the trainer scored with.
            part.sequences.append(sequence if part.name == ROLLOUT else replace(sequence, policy=()))
    return sides


def _sequence(
    request: str, sample: Mapping[str, Any], key: str, mask_key: str, where: str, part: Part, *, slices: bool = False
) -> Sequence:
    logprobs = _floats(sample[key], f"{where}: {key}", part)
    raw = plain(sample.get(mask_key))
    length = count(logprobs)
    whole = sample.get("response_lengths", sample.get("response_length"))
    if not slices and type(whole) is int and whole != length:
        raise CompareError(
            f"{where}: {length} log-probabilities of a response of {whole} tokens: a slice of a context parallel rank",
            "dump a run with context parallel size 1, or restore the whole responses first",
        )
    if raw is None:
        mask: Tensor = Held.of(ELEMENTS["bool"], np.ones(length, np.bool_))
        part.notes.append(f"sample {request} has no mask: all its tokens count")
    else:
        mask = _flags(raw, f"{where}: {mask_key}")
    tokens, prompt = _tokens(sample, length, where)
    return Sequence(
        request,
        _flat(logprobs),
        _flat(mask),
        tokens,
        prompt,
        group="" if sample.get("group_index") is None else str(sample["group_index"]),
        policy=versions(sample.get("weight_versions")),
    )


def _floats(value: Any, where: str, part: Part) -> Tensor:
    """A tensor as it is, a list of Python floats as float32 where that is exact."""
    value = plain(value)
    if hasattr(value, "bits"):
        return value  # type: ignore[no-any-return]
    if not isinstance(value, list):
        raise CompareError(f"{where} holds no numbers")
    held, exact = numbers([None if type(one) is float and isnan(one) else one for one in value], where, float32=True)
    part.provenance = "json_exact_f32" if exact and part.provenance != "unknown" else "unknown"
    return held


def _flags(value: Any, where: str) -> Tensor:
    """A mask of any number type as bool."""
    if not hasattr(value, "bits"):
        return mask_of(value, where)
    if value.element.kind == "bool":
        return value  # type: ignore[no-any-return]
    bits = value.bits()
    numbers_ = value.element.values(bits) if value.element.kind == "float" else bits
    if not bool(np.isin(numbers_, (0, 1)).all()):
        raise CompareError(f"{where} holds other values than 0 and 1")
    return Held.of(ELEMENTS["bool"], np.asarray(numbers_) == 1)


def _flat(tensor: Tensor) -> Tensor:
    """One dimension: dumps keep a leading one of 1 at times."""
    if len(tensor.shape) == 1:
        return tensor
    return Held(tensor.element, (count(tensor),), tensor.bits())


def _tokens(sample: Mapping[str, Any], length: int, where: str) -> tuple[Tensor | None, Tensor | None]:
    """Response and prompt ids of all of a sample's tokens: the response is the end of them."""
    raw = plain(sample.get("tokens"))
    if raw is None:
        return None, None
    if hasattr(raw, "bits"):
        if raw.element.kind != "int":
            raise CompareError(f"{where}: tokens are no integers")
        signed = raw.element.name.startswith("int")
        whole = raw.bits().view(f"<{'i' if signed else 'u'}{raw.element.size}").astype(np.int64)
    else:
        whole = ids_of(raw, f"{where}: tokens").flat.view("<i8")
    if len(whole) < length:
        raise CompareError(f"{where}: {length} log-probabilities of {len(whole)} tokens")
    split = len(whole) - length
    element = ELEMENTS["int64"]
    return Held.of(element, whole[split:]), Held.of(element, whole[:split])


def refuse_text_only(line: Mapping[str, Any], file: Opened) -> None:
    """verl's rollout_data_dir and others hold texts alone.

    Raises:
        CompareError: always for such a file; tokens are never made from text again.
    """
    if {"input", "output"} <= line.keys() or {"prompt", "completion"} <= line.keys():
        raise CompareError(
            f"{file.path} holds texts without token ids and log-probabilities: nothing in it can be compared",
            "texts are never tokenised again; dump the log-probabilities of both sides (docs/reference/compare.md)",
        )


TORCH_LAYOUTS: Final[
    tuple[tuple[str, Callable[[Mapping[Any, Any]], bool], Callable[[Mapping[str, Any], str], Parts]], ...]
] = (
    ("slime", lambda root: root.get("format_version") == 2 and "samples" in root, slime_train),
    ("miles", lambda root: "rollout_data" in root, miles_train),
    ("miles-debug", lambda root: "samples" in root and _first_has(root, "train_log_probs"), miles_debug),
    ("rollout-dump", lambda root: "samples" in root and "rollout_id" in root, rollout_dump),
)
"""Names, how each is known, and its reader, in the order in which they are tried."""


def _first_has(root: Mapping[Any, Any], key: str) -> bool:
    samples = root.get("samples")
    return isinstance(samples, list) and bool(samples) and isinstance(samples[0], dict) and key in samples[0]
