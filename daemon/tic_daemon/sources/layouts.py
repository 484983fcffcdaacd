"""What a path alone tells of a log: who writes it and to which run it belongs.

Only what the path shows is said; everything else stays unknown. The same path gives the same answer for ever, so that a
restart decides as the first start did.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tic_daemon.sources.rotation import piece_of


@dataclass(frozen=True, slots=True)
class PathFacts:
    """What a path tells. Fields as in table `source`; `why` says in words what was decided from what.

    `run_how`: path | wandb (only W&B's own id, which gives way to any name that a person gave) | "".
    """

    role: str = "unknown"
    framework: str = "plain"
    rank: int | None = None
    pid: int | None = None
    single_process: bool = False
    stream: str = ""
    console: bool = False
    run_hint: str = ""
    run_how: str = ""
    why: tuple[str, ...] = ()


def facts_of(path: str) -> PathFacts:
    """Facts of the canonical path of a log (its base name, without a rotation's suffix)."""
    parts = path.split("/")
    name, above = parts[-1], parts[:-1]
    facts = _by_layout(name, above) or _by_name(name, above)
    run, how, why = run_of(above)
    return replace(facts, run_hint=run, run_how=how, why=(*facts.why, *why))


def log_name(name: str) -> str:
    """How sure a file name (of a base, see `rotation`) says that the file is a log: "log", "maybe" or ""."""
    if _LOG.search(name) or name in _BARE:
        return "log"
    return "maybe" if _MAYBE.search(name) else ""


# --- which names are logs ------------------------------------------------------------------------------------------

_LOG = re.compile(r"(?i)\.(?:log|out|err|stdout|stderr|kmsg)\Z|\A(?:dmesg|kmsg)[\w.-]*\Z")
_BARE = {"stdout", "stderr", "syslog", "messages", "kmsg", "dmesg", "kern"}
_MAYBE = re.compile(
    r"(?i)(?:(?<![a-z])log(?![a-z])|std(?:out|err)|console|output|dmesg|journal|rank|worker|trainer|rollout)"
    r".*\.(?:txt|export)\Z"
)
# W&B's own debug logs speak of W&B, not of the run.
_NOT = re.compile(r"\Adebug(?:-internal|-core|-cli\.[^/]*)?\.log\Z|\Acore-debug-\d{8}_\d{6}[^/]*\.log\Z")


def is_foreign_debug_log(name: str, parent: str) -> bool:
    """W&B's logs about itself."""
    return bool(_NOT.match(name)) and parent in ("logs", "wandb")


# --- layouts of launchers ------------------------------------------------------------------------------------------

_RAY_WORKER = re.compile(r"(?:io_)?worker-[0-9a-f]{20,64}-(?:[0-9a-f]{8}-)?(?P<pid>\d+)\.(?P<stream>out|err)\Z")
_RAY_CORE = re.compile(r"python-core-(?P<kind>driver|worker)-[0-9a-f]+_(?P<pid>\d+)\.log\Z")
_RAY_DRIVER = re.compile(r"job-driver-.+\.log\Z")
_RAY_SERVICE = re.compile(
    r"(?:raylet|gcs_server|monitor|log_monitor|dashboard(?:_agent|_\w+)?|runtime_env_(?:agent|setup)[\w-]*|agent-\d+"
    r"|ray_client_server[\w-]*|old_raylet)\.(?P<ext>log|out|err)\Z"
)
_TORCHRUN_FILE = re.compile(r"(?P<stream>stdout|stderr)\.log\Z")
_SLURM = re.compile(r"slurm-(?P<job>\d+)(?:_(?P<array>\d+))?(?:[.-](?P<task>\d+))?\.(?P<ext>out|err)\Z")
_SLURM_X = re.compile(r".+[-_.](?P<job>\d{4,})(?:_\d+)?\.(?P<ext>out|err)\Z")
_POD = re.compile(r"(?P<ns>[^_/]+)_(?P<pod>[^_/]+)_(?P<uid>[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32})\Z")
_KERNEL = re.compile(
    r"(?i)\A(?:kern(?:\.log)?|dmesg[\w.-]*|kmsg[\w.-]*|.*[._-](?:kmsg|dmesg)(?:\.\w+)?|syslog|messages"
    r"|journal[\w.-]*\.(?:log|txt|export)|xid[\w.-]*\.log)\Z"
)
_PRIME = {"trainer": "trainer", "orchestrator": "driver", "inference": "rollout"}
_STREAM = {"out": "stdout", "err": "stderr", "stdout": "stdout", "stderr": "stderr", "log": ""}


def _by_layout(name: str, above: list[str]) -> PathFacts | None:
    for layout in (_ray, _torchrun, _slurm, _kubernetes, _prime_rl, _kernel):
        facts = layout(name, above)
        if facts is not None:
            return facts
    return None


def _ray(name: str, above: list[str]) -> PathFacts | None:
    if match := _RAY_WORKER.match(name):
        role = "scheduler" if name.startswith("io_") else "unknown"
        pid = int(match["pid"])
        return PathFacts(
            role, "ray", None, pid, True, _STREAM[match["stream"]], why=(f"Ray worker file: pid {pid}, one process",)
        )
    if match := _RAY_CORE.match(name):
        role = "driver" if match["kind"] == "driver" else "unknown"
        return PathFacts(role, "ray", None, int(match["pid"]), True, why=("Ray core log: pid and kind in its name",))
    if _RAY_DRIVER.match(name):
        return PathFacts("driver", "ray", console=True, why=("Ray job driver: a console of forwarded lines",))
    in_session = any(part.startswith("session_") for part in above)
    if (match := _RAY_SERVICE.match(name)) and (in_session or name.startswith(("raylet.", "gcs_server."))):
        return PathFacts("scheduler", "ray", stream=_STREAM[match["ext"]], why=("Ray service log",))
    return None


def _torchrun(name: str, above: list[str]) -> PathFacts | None:
    match = _TORCHRUN_FILE.match(name)
    if not match or len(above) < 2 or not above[-1].isdecimal() or not re.fullmatch(r"attempt_\d+", above[-2]):
        return None
    rank = _int32(above[-1])
    role = _role_in([*above[-5:-2]])
    why = (
        f"torchrun log directory: local rank {above[-1]} of {above[-2]} (its global rank on a single node), one process"
    )
    return PathFacts(role, "torchrun", rank, None, True, match["stream"], why=(why,))


def torchrun_attempt(path: str) -> tuple[str, int] | None:
    """Of a worker's file in torchrun's log directory: which launch, and the count of its restarts.

    `<log_dir>/<rendezvous id>_<random>/attempt_<restarts>/<local rank>/stdout.log`: the random part differs by agent
    (each node, each launch), so that launches of one rendezvous id in one directory are one group.
    """
    parts = path.split("/")
    if len(parts) < 5 or not _TORCHRUN_FILE.match(parts[-1]) or not parts[-2].isdecimal():
        return None
    attempt = re.fullmatch(r"attempt_(\d{1,6})", parts[-3])
    run, under, _ = parts[-4].rpartition("_")
    return ("/".join([*parts[:-4], run]), int(attempt[1])) if attempt and under else None


def _slurm(name: str, above: list[str]) -> PathFacts | None:
    match = _SLURM.match(name)
    if match:
        stream = "stderr" if match["ext"] == "err" else ""
        if match["task"] is not None:
            why = f"Slurm output of job {match['job']}, task {match['task']}"
            return PathFacts("unknown", "slurm", _int32(match["task"]), None, False, stream, why=(why,))
        return PathFacts(
            "unknown", "slurm", None, None, False, stream, True, why=(f"Slurm output of job {match['job']}",)
        )
    if match := _SLURM_X.match(name):
        facts = _by_name(name, above)
        return replace(facts, framework="slurm", why=(*facts.why, f"named after job {match['job']}, as Slurm's %x-%j"))
    return None


def _kubernetes(name: str, above: list[str]) -> PathFacts | None:
    if len(above) < 2 or not (pod := _POD.match(above[-2])) or not re.fullmatch(r"\d+\.log", name):
        return None
    role = _role_in([above[-1], pod["pod"]])
    why = f"Kubernetes pod {pod['pod']}, container {above[-1]}, restart {name.removesuffix('.log')}"
    return PathFacts(role, "kubernetes", why=(why,))


def _prime_rl(name: str, above: list[str]) -> PathFacts | None:
    role = _PRIME.get(name.removesuffix(".log"))
    if role and len(above) >= 2 and re.fullmatch(r"attempt_\d+", above[-1]) and above[-2] == "logs":
        return PathFacts(role, "prime-rl", console=role == "driver", why=(f"prime-rl: {name}",))
    return None


def _kernel(name: str, above: list[str]) -> PathFacts | None:
    return PathFacts("kernel", "kernel", why=("a kernel log by its name",)) if _KERNEL.match(name) else None


# --- plain names ---------------------------------------------------------------------------------------------------

_WORDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("trainer", frozenset(["train", "trainer", "training", "learner", "fsdp", "megatron", "policy", "critic"])),
    (
        "rollout",
        frozenset(
            ["rollout", "rollouts", "vllm", "sglang", "inference", "generator", "generation", "sampler", "engine"]
        ),
    ),
    ("driver", frozenset(["driver", "orchestrator", "controller"])),
)
_CONSOLE = frozenset(["driver", "launcher", "console", "launch", "tee"])
_WORD = re.compile(r"[a-z]+")
_RANK = re.compile(r"(?i)(?:\A|[^a-z])(?P<word>global_?rank|rank|worker)[_.-]?(?P<rank>\d{1,6})(?![0-9a-f])")


def _by_name(name: str, above: list[str]) -> PathFacts:
    why: list[str] = []
    role = _role_in([name])
    if role != "unknown":
        why.append(f"role {role} from the file's name")
    elif (role := _role_in(above[-1:])) != "unknown":
        why.append(f"role {role} from the directory's name")
    rank, single = None, False
    if match := _RANK.search(name):
        rank, single = _int32(match["rank"]), "rank" in match["word"].lower()
        why.append(f"rank {match['rank']} from the file's name")
    stream = "stderr" if name.endswith(".err") else ""
    for word in ("stdout", "stderr"):
        if word in _words(name):
            stream = word
    console = bool(_CONSOLE & _words(name))
    if name == "output.log" and above and above[-1] == "files" and any(part == "wandb" for part in above):
        console = True
        why.append("W&B's copy of the console")
    elif console:
        why.append("a console by its name")
    return PathFacts(role, "plain", rank, None, single, stream, console, why=tuple(why))


def _role_in(texts: list[str]) -> str:
    for text in reversed(texts):
        words = _words(text)
        for role, names in _WORDS:
            if names & words:
                return role
    return "unknown"


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _int32(digits: str) -> int | None:
    """The number, or None if it is too large to be a rank."""
    return value if (value := int(digits[:12])) < 2**31 else None


# --- run -----------------------------------------------------------------------------------------------------------

_WANDB_DIR = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-(?P<id>[\w.-]+)\Z")


def run_of(above: list[str]) -> tuple[str, str, tuple[str, ...]]:
    """The run id that the directories name, nearest first, how, and why. W&B's counts where no other is named."""
    for i in range(len(above) - 1, -1, -1):
        if i >= 1 and above[i - 1] == "results":
            return above[i], "path", (f"run {above[i]} from results/<run>/",)
        if i >= 2 and above[i - 2] == "steps":
            return above[i], "path", (f"run {above[i]} from steps/*/<run>/",)
    for name in reversed(above):
        if match := _WANDB_DIR.match(name):
            why = f"run {match['id']} from the W&B directory, unless a log beside it names another"
            return match["id"], "wandb", (why,)
    return "", "", ()


def base_of(path: str) -> str:
    """The path of the log that `path` is a piece of."""
    head, _, name = path.rpartition("/")
    return f"{head}/{piece_of(name).base}"
