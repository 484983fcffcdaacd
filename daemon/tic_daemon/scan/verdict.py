"""How far a line that looks like a fault is to be believed.

confirmed   anchored behind the wrappers, and written by the runtime: an error-class wrapper, an excepthook's
            `[rankN]: `, the exception of a traceback that such a line opened, or a C print whose shape proves itself
suspect     anchored, but nothing shows who wrote it, or a C print behind a logger's header of no error
mention     everything else: not anchored, quoted in model output, from an actor without a CUDA context, or from a
            record that the program itself calls information

Only confirmed lines lock. Model and tool output can put any text at the start of a line, which is why the writer counts
before the shape.
"""

from __future__ import annotations

from typing import Final

from tic_daemon.scan.rule import Rule
from tic_daemon.scan.traits import SourceTraits
from tic_daemon.scan.wrapped import Wrapped

CONFIRMED: Final = "confirmed"
SUSPECT: Final = "suspect"
MENTION: Final = "mention"

_NO_CUDA: Final = (
    "TaskRunner", "RolloutManager", "AgentLoop", "RewardManager", "RewardLoop", "RewardWorker", "RewardModelManager",
    "main_task", "driver", "Runner", "Sandbox", "ToolAgent",
)  # fmt: skip


_PROGRAMS: Final = frozenset({"ray", "vllm", "syslog"})


def without_cuda(actor: str, wrapped: Wrapped, traits: SourceTraits) -> bool:
    """Whether the writer has no CUDA context, so that its fault texts are copies or quotations."""
    if actor:
        # What such an actor prints stays its own, whatever other process' header it begins with.
        return any(name.startswith(_NO_CUDA) or name.lower().startswith("reward") for name in (actor, wrapped.outer))
    return traits.role == "driver" and traits.framework == "ray" and wrapped.bare


def foreign_rank(rank: int, traits: SourceTraits) -> bool:
    """Whether a `[rankN]:` in a file of one process names another rank than that process'.

    torchrun's directories are named by the local rank r. On a later node the rank is at least the number of processes
    a node, which is at least r + 1, more: n >= 2r + 1. Only stderr shows such prefixes of the process itself.
    """
    if traits.rank is None or rank == traits.rank:
        return False
    return not (traits.framework == "torchrun" and traits.stream == "stderr" and rank > 2 * traits.rank)


def wrap_fits(wrap: str, wrapped: Wrapped, traits: SourceTraits) -> bool:
    """Whether the wrapper class that a rule asks for was peeled."""
    if not wrap:
        return True
    if wrap == "kernel":
        # A system log holds other programs' lines, too, and some of them cite the kernel.
        return "kernel" in wrapped.kinds or (traits.role == "kernel" and not _PROGRAMS & set(wrapped.kinds))
    if wrap == "scheduler":
        return traits.role == "scheduler"
    if wrap == "noactor":
        return wrapped.pid is None and not {"ray", "vllm", "rank", "rank_glog"} & set(wrapped.kinds)
    return wrap in wrapped.kinds


def verdict(
    rule: Rule, wrapped: Wrapped, *, anchored: bool, trusted: bool, quoted: bool, no_cuda: bool, foreign_rank: bool
) -> str:
    """The verdict of one fault line.

    Args:
        rule: the rule that matched; `needs_level` False means that the line's shape proves itself.
        wrapped: the peeled line.
        anchored: the rule matched where its anchor asks, under the wrapper that it asks for.
        trusted: the line stands in a traceback that the runtime opened.
        quoted: the writer is in the middle of printing a prompt, a response or a ground truth.
        no_cuda: see `without_cuda`.
        foreign_rank: a `[rankN]:` of another rank than the one whose file this is.
    """
    if not anchored or quoted or no_cuda or foreign_rank:
        return MENTION
    if not rule.needs_level:
        # What prints to the stream itself has no logger's header: somebody logs what he has read.
        return SUSPECT if wrapped.level_class == "info" and not rule.wrap else CONFIRMED
    if wrapped.level_class == "error" or trusted:
        return CONFIRMED
    if wrapped.level_class == "info":
        return MENTION
    if wrapped.level_class == "none" and wrapped.kinds and wrapped.kinds[-1] == "rank":
        return CONFIRMED
    return SUSPECT
