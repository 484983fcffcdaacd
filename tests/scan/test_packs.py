"""The packs through the real scanner: no fault missed, no line that merely talks of one locks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tic_daemon.scan.events import Device, Event, ExecState, Fault, Metric, Timing, WeightPhase
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.scanner import Scanner
from tic_daemon.scan.selftest import PLAIN, check, scan

CORPUS = Path(__file__).parents[1] / "corpus"
RULES = RuleSet.load()
SCANNER = Scanner(RULES)
LOCKING = {rule.kind for rule in RULES.fault_rules() if rule.locks == "always"}
MARKERS = [
    tuple(line.split("\t"))
    for line in (CORPUS / "faults" / "markers.tsv").read_text().splitlines()
    if line and not line.startswith("#")
]


def faults(text: str, **traits: object) -> list[Fault]:
    found = scan(SCANNER, text, replace(PLAIN, **traits))  # type: ignore[arg-type]
    return [event for event in found if isinstance(event, Fault)]


def confirmed(text: str, **traits: object) -> set[str]:
    return {event.kind for event in faults(text, **traits) if event.verdict == "confirmed"}


def cases(name: str) -> Iterator[tuple[str, str]]:
    title, lines = "", []
    for line in [*(CORPUS / "faults" / name).read_text().splitlines(), "### end"]:
        if line.startswith("### "):
            if lines:
                yield title, "\n".join(lines)
            title, lines = line[4:], []
        elif title:
            lines.append(line)


def payload(line: str) -> str:
    """The exception text of a marker's example, without the example's own wrapper."""
    return line.removeprefix("[rank3]: ").removeprefix("[rank0]: ")


# What the packs say of themselves, and what the reference says of each marker


def test_every_line_of_every_pack_keeps_its_word() -> None:
    assert check(RULES, SCANNER) == []


def test_severity_and_locking_of_all_markers() -> None:
    table = {rule.kind: rule for rule in RULES.fault_rules()}
    assert len(MARKERS) > 75
    for kind, severity, _line in MARKERS:
        assert table[kind].severity == severity, kind
    for rule in RULES.fault_rules():
        if rule.severity in {"L", "LH"}:
            assert rule.locks == "always", rule.kind
        elif rule.kind in {"nccl.watchdog_timeout", "nccl.data_warn", "nccl.work_failed"}:
            assert rule.locks == "if_continues"
        else:
            assert rule.locks == "never", rule.kind
        assert rule.node_scope == rule.kind.startswith(("xid.", "sxid.", "kern."))


@pytest.mark.parametrize(("kind", "severity", "line"), MARKERS, ids=[marker[0] for marker in MARKERS])
def test_example_of_each_marker_yields_it(kind: str, severity: str, line: str) -> None:
    rule = RULES.by_name[kind]
    if rule.wrap == "kernel" and not line.startswith(("kernel: ", "[")):
        line = f"Nov 29 14:07:29 gpu-b07 kernel: [918233.112011] {line}"
    if rule.wrap == "kernel" and line.startswith("kernel: "):
        line = f"Nov 29 14:07:29 gpu-b07 {line}"
    found = faults(line)
    assert [event.kind for event in found] == [kind]
    assert found[0].verdict in {"confirmed", "suspect"}


NEEDS_LEVEL = [m for m in MARKERS if m[1] in {"L", "LH"} and RULES.by_name[m[0]].needs_level]
TORCH = [m for m in NEEDS_LEVEL if RULES.by_name[m[0]].wrap == "" and not m[2].startswith("nccl")]
SELF = [m for m in MARKERS if m[1] in {"L", "LH"} and not RULES.by_name[m[0]].needs_level]
C_PRINTS = [m for m in SELF if RULES.by_name[m[0]].wrap == "" and m[0] not in {"cuda.warn_destroy", "sgl.dangling"}]
KERNEL = [m for m in SELF if RULES.by_name[m[0]].wrap == "kernel"]


def ids(markers: list[tuple[str, ...]]) -> list[str]:
    return [marker[0] for marker in markers]


def wrapped(text: str) -> dict[str, tuple[str, dict[str, object]]]:
    """A traceback with this exception, in the shapes in which it really arrives."""
    trace = [
        "Traceback (most recent call last):",
        '  File "/srv/train.py", line 412, in step',
        "    loss.backward()",
        *text.split("\n"),
    ]

    def each(prefix: str, tail: str = "") -> str:
        return "\n".join(prefix + line + tail for line in trace)

    vllm = "(Worker_TP0 pid=881) ERROR 11-29 16:20:11 [multiproc_executor.py:1189] "
    return {
        "worker file": (each(""), {"single_process": True, "pid": 902203}),
        "worker file, crlf": (each("", "\r"), {"single_process": True, "pid": 902203}),
        "excepthook": (each("[rank3]: "), {}),
        "excepthook under torchrun": (each("[default3]:[rank3]: "), {}),
        "ray": (each("(WorkerDict pid=184142, ip=10.31.4.12) "), {}),
        "ray, coloured": (each("\x1b[36m(WorkerDict pid=184142)\x1b[0m "), {}),
        "vllm": (vllm + "WorkerProc hit an exception.\n" + each(vllm), {}),
        "vllm, headed once": (vllm + "WorkerProc hit an exception.\n" + each("(Worker_TP0 pid=881) "), {}),
        "sglang": (f"[2026-11-29 08:20:33 TP2] Scheduler hit an exception: {each('')}", {}),
        "srun label": (each("3: [rank3]: "), {}),
        "pdsh": (each("gpu-b07: [rank3]: "), {}),
        "mpirun": (each("[1,3]<stderr>:[rank3]: "), {}),
        "prterun": (each("[prterun-gpu-b07-12@1,3]<stderr>: [rank3]: "), {}),
        "kubectl": (each("[pod/train-worker-3/pytorch] [rank3]: "), {}),
        "compose": (each("trainer-1      | [rank3]: "), {}),
        "docker": (each("2026-11-29T16:20:11.123456789Z [rank3]: "), {}),
        "cri": (each("2026-11-29T16:20:11.123456789Z stderr F [rank3]: "), {}),
        "what": (f"terminate called after throwing an instance of 'c10::Error'\n  what():  {text}", {}),
    }


@pytest.mark.parametrize(("kind", "severity", "line"), TORCH, ids=ids(TORCH))
def test_locking_exception_is_confirmed_however_it_is_wrapped(kind: str, severity: str, line: str) -> None:
    for shape, (text, traits) in wrapped(payload(line)).items():
        assert kind in confirmed(text, **traits), shape


RAISED = [
    m for m in MARKERS
    if RULES.by_name[m[0]].needs_level and re.match(r"(?:[a-zA-Z_]\w*\.)*[A-Za-z_]\w*: ", payload(m[2]))
    and not m[2].startswith(("ERROR:", "srun:"))
]  # fmt: skip
HEADED = [m for m in MARKERS if m not in RAISED and RULES.by_name[m[0]].wrap != "kernel"]


@pytest.mark.parametrize(("kind", "severity", "line"), RAISED, ids=ids(RAISED))
def test_whatever_is_raised_is_confirmed_however_it_is_wrapped(kind: str, severity: str, line: str) -> None:
    """Not what locks alone: a process that died of its environment ends the step in flight."""
    text = payload(line)
    if text.startswith("nccl"):  # NCCL's own text stands below the exception
        text = f"torch.distributed.DistBackendError: NCCL error in: /p/NCCLUtils.cpp:181, see below, NCCL version 2\n{text}"
    for shape, (log, traits) in wrapped(text).items():
        if "\n" not in text or shape != "what":
            assert kind in confirmed(log, **traits), shape


@pytest.mark.parametrize(("kind", "severity", "line"), HEADED, ids=ids(HEADED))
def test_a_line_with_its_own_header_is_confirmed_wherever_it_is_forwarded(kind: str, severity: str, line: str) -> None:
    for prefix in (
        "",
        "[default3]:",
        "[pod/train-3/pytorch] ",
        "vllm-1  | ",
        "2026-11-29T16:20:11.123456789Z stderr F ",
    ):
        assert confirmed(prefix + line) == {kind}, prefix
    assert confirmed(f"{line}\r") == {kind}


@pytest.mark.parametrize(("kind", "severity", "line"), TORCH, ids=ids(TORCH))
def test_locking_exception_is_confirmed_in_glog_of_the_watchdog(kind: str, severity: str, line: str) -> None:
    text = payload(line)
    text = text.split(": ", 1)[1] if text.startswith(("torch.", "Runtime")) else text
    head = "[PG ID 0 PG GUID 0(default_pg) Rank 3] Process group watchdog thread terminated with exception: "
    for shape in ("[rank3]:", "[default3]:[rank3]:", ""):
        log = f"{shape}[E1129 14:19:29.856571527 ProcessGroupNCCL.cpp:2068] {head}{text}"
        found = [event for event in faults(log) if event.verdict == "confirmed"]
        assert [(event.kind, event.at.rank) for event in found] == [(kind, 3)], shape


@pytest.mark.parametrize(("kind", "severity", "line"), C_PRINTS, ids=ids(C_PRINTS))
def test_c_print_is_confirmed_bare_and_wrapped(kind: str, severity: str, line: str) -> None:
    for prefix in (
        "",
        "[default3]:",
        "[1,3]<stderr>:",
        "[pod/train-3/pytorch] ",
        "trainer-1      | ",
        "(WorkerDict pid=184142) ",
        "\x1b[36m(WorkerDict pid=184142)\x1b[0m ",
        "3: [rank3]: ",
    ):
        assert confirmed(prefix + line) == {kind}, prefix


def test_nccl_errors_are_confirmed_however_they_are_wrapped() -> None:
    warn = "gpu-b07:902203:903116 [3] src/transport/p2p.cc:274 NCCL WARN Cuda failure 700 'an illegal memory access'"
    for prefix in ("", "[2026-11-29 14:19:31] ", "[default3]:", "(WorkerDict pid=184142) ", "3: ", "[1,3]<stdout>:"):
        assert confirmed(prefix + warn) == {"nccl.cuda_warn"}, prefix
    tail = [
        "ncclUnhandledCudaError: Call to CUDA function failed.",
        "Last error:",
        "Cuda failure 700 'an illegal memory'",
    ]
    error = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:181, unhandled cuda error, NCCL 2.28.9"
    for shape, (text, traits) in wrapped(error).items():
        assert "nccl.cuda" in confirmed(text, **traits), shape
    lines = [f"[rank3]: {line}" for line in (error, *tail)]
    assert confirmed("\n".join(lines)) == {"nccl.cuda"}


GLUED = [m for m in C_PRINTS if RULES.by_name[m[0]].anchor == "any"]


@pytest.mark.parametrize(("kind", "severity", "line"), GLUED, ids=ids(GLUED))
def test_c_print_is_confirmed_behind_a_bar_and_not_in_quotes(kind: str, severity: str, line: str) -> None:
    bar = "Rollout:  12%|#2        | 12/100 [00:01<00:09,  9.60it/s]"
    assert confirmed(bar + line) == {kind}
    assert confirmed(bar + "\r" + bar + line) == {kind}
    for quote in (f'the log says "{line}"', f"`{line}`", f"/var/log/a.log:77:{line}", f"we saw {line}", f"> {line}"):
        assert confirmed(quote) == set(), quote


@pytest.mark.parametrize(("kind", "severity", "line"), KERNEL, ids=ids(KERNEL))
def test_kernel_line_is_confirmed_with_its_prefix_only(kind: str, severity: str, line: str) -> None:
    bare = line.removeprefix("kernel: ")
    bare = bare.split("] ", 1)[1] if bare.startswith("[") else bare
    for prefix in (
        "Nov 29 14:07:29 gpu-b07 kernel: [918233.112011] ",
        "Nov  9 14:07:29 gpu-b07 kernel: ",
        "2026-11-29T14:07:29+0000 gpu-b07 kernel: ",
        "[918233.112011] ",
        "kernel: [918233.112011] ",
    ):
        assert confirmed(prefix + bare) == {kind}, prefix
    for prefix in ("", "(TaskRunner pid=1) ", "(TaskRunner pid=1) [918233.112011] ", '"', "dmesg said: "):
        assert confirmed(prefix + bare) == set(), prefix


@pytest.mark.parametrize("number", [1, 160 + 17, 999, 4242])
def test_unknown_xid_locks(number: int) -> None:
    found = faults(f"[918233.112011] NVRM: Xid (PCI:0000:5d:00): {number}, pid=1, name=x, a text of next year")
    assert [(f.kind, f.verdict, f.code, f.bus) for f in found] == [
        ("xid.other", "confirmed", str(number), "0000:5d:00")
    ]
    assert "xid.other" in LOCKING


def test_xid_classes_are_those_of_the_reference() -> None:
    app = {11, 13, 25, 31, 32, 39, 40, 41, 69, 70, 71, 72, 75, 76, 77, 80, 85, *range(126, 136)}
    hard = {
        46,
        48,
        62,
        64,
        74,
        79,
        94,
        95,
        109,
        110,
        119,
        120,
        136,
        140,
        143,
        *range(144, 151),
        155,
        156,
        158,
        171,
        172,
    }
    info = {63, 92, 93, 106, 107, 121, 137, 141, 154, 157, *range(160, 166)}
    want = {**dict.fromkeys(app, "app"), **dict.fromkeys(hard, "hw"), **dict.fromkeys(info, "info")}
    want |= dict.fromkeys({43, 44, 45}, "secondary")
    for number in range(1, 200):
        found = faults(f"[918233.112011] NVRM: Xid (PCI:0000:5d:00): {number}, pid=1, name=python, text")
        assert [f.kind for f in found] == [f"xid.{want.get(number, 'other')}"], number


def test_mig_instance_names_its_gpu() -> None:
    line = (
        "[918233.112011] NVRM: Xid (PCI:0000:5d:00 GPU-I:02 GPU-CI:00): 13, pid=3318842, name=python, Graphics SM Warp"
    )
    found = faults(line)
    assert [(f.kind, f.bus, f.code) for f in found] == [("xid.app", "0000:5d:00", "13")]


# The runtime's own table of errors

CUDA_ERRORS = [
    tuple(line.split("\t"))
    for line in (CORPUS / "faults" / "cuda_errors.tsv").read_text().splitlines()
    if line and not line.startswith("#")
]


def test_every_error_of_the_cuda_runtime_has_its_class() -> None:
    """A false lock throws away a good run, a missed one lets rubbish in: all 132 texts, in four printers' shapes."""
    severity = {rule.kind: rule.severity for rule in RULES.fault_rules()}
    assert len(CUDA_ERRORS) == 132
    for code, group, text in CUDA_ERRORS:
        locking = group == "lock"
        wanted = {"lock": {"L", "LH"}, "capture": {"N"}, "usable": {"E"}}[group]
        for shape in ("torch.AcceleratorError: CUDA error", "RuntimeError: HIP error"):
            kinds = confirmed(f"[rank3]: {shape}: {text}")
            assert {severity[kind] for kind in kinds} <= wanted and kinds, (code, text, kinds)
        for line in (
            f"CUDA Error: {text.translate({40: '', 41: ''})} ({code}) /fi/prefill.cuh: line 23 at function cudaFoo",
            f"gpu-b07:902203:903116 [3] src/transport/p2p.cc:274 NCCL WARN Cuda failure {code} '{text}'",
            f"gpu-b07:902203:903116 [3] src/transport/p2p.cc:274 NCCL WARN Cuda failure '{text}'",
            f"gpu-b07:902203:903116 [3] rccl/src/transport/p2p.cc:274 NCCL WARN HIP failure '{text}'",
            f"[rank5]: RuntimeError: CUDA runtime exception (csrc/launch.cuh:88): {code} (cudaErrorFoo, {text})",
        ):
            kinds = confirmed(line)
            assert kinds, line
            assert bool(kinds & LOCKING) == locking, line


# What must not lock


@pytest.mark.parametrize(("title", "text"), list(cases("mentions.txt")), ids=[c[0] for c in cases("mentions.txt")])
def test_talk_of_faults_does_not_lock(title: str, text: str) -> None:
    assert not confirmed(text) & LOCKING
    for line in text.splitlines():
        assert not confirmed(line) & LOCKING, line


HARMLESS = list(cases("harmless.txt"))
MAY_LOCK = {rule.kind for rule in RULES.fault_rules() if rule.locks != "never"}
# How a line may come that a launcher, a container runtime or Ray forwards.
FORWARDED = (
    "", "[default3]:", "(TaskRunner pid=51002) ", "\x1b[36m(TaskRunner pid=51002)\x1b[0m ", "[pod/train-3/pytorch] ",
    "2026-11-29T16:20:11.123456789Z stdout F ", "2026-11-29T16:20:11.123456789Z ",
)  # fmt: skip


def test_the_corpus_of_harmless_lines_is_large() -> None:
    assert sum(len(text.splitlines()) for _reason, text in HARMLESS) >= 300
    assert len({line for _reason, text in HARMLESS for line in text.splitlines()}) >= 300


@pytest.mark.parametrize(("reason", "text"), HARMLESS, ids=[reason.split(":")[0] for reason, _text in HARMLESS])
def test_no_harmless_line_locks(reason: str, text: str) -> None:
    alone = [] if reason.startswith("context: ") else text.splitlines()
    for traits in ({}, {"role": "driver", "framework": "ray"}, {"single_process": True, "stream": "stdout", "pid": 7}):
        assert not confirmed(text, **traits) & MAY_LOCK, traits
        for line in alone:
            assert not confirmed(line, **traits) & MAY_LOCK, (traits, line)
    for prefix in FORWARDED:
        assert not confirmed("\n".join(prefix + line for line in text.splitlines())) & MAY_LOCK, prefix
        for line in alone:
            assert not confirmed(prefix + line) & MAY_LOCK, prefix + line


@pytest.mark.parametrize(("kind", "severity", "line"), TORCH, ids=ids(TORCH))
def test_locking_text_from_elsewhere_is_no_fault(kind: str, severity: str, line: str) -> None:
    text = payload(line)
    for quote in (
        f"(TaskRunner pid=51002) {text}",
        f"(TaskRunner pid=51002) Traceback (most recent call last):\n(TaskRunner pid=51002)   File \"a\", line 1\n"
        f"(TaskRunner pid=51002) {text}",
        f"(WorkerDict pid=7) [prompt] user\n(WorkerDict pid=7) Traceback (most recent call last):\n"
        f'(WorkerDict pid=7)   File "a.py", line 1, in f\n(WorkerDict pid=7) {text}\n(WorkerDict pid=7) [score] 1.0',
        f"/var/log/a.log:77:[rank3]: {text}", f"hint: [rank3]: {text}", f"77-[rank3]: {text}",
        f"see [1,3]<stderr>: {text}",
        f'{{"text": "{text}"}}',
        f"+ {text}", f"> {text}", f"# {text}", f"E       {text}", f"- {text}", text,
        f"INFO 11-29 20:12:03 [a.py:1] {text}", f"WARNING 11-29 20:12:03 [a.py:1] {text}",
    ):  # fmt: skip
        assert kind not in confirmed(quote), quote


# The sample logs; what is expected of them is in `test_samples`


def sample(name: str) -> list[Event]:
    source = SCANNER.open(PLAIN)
    return [*source.feed((CORPUS / "samples" / name).read_bytes()), *source.finish(b"")]


def test_vllm_sample_claims() -> None:
    name = "01_vllm_v1_server_sleep_wake.log"
    claims = {e.field: e.claimed for e in sample(name) if isinstance(e, ExecState) and e.claimed is not None}
    assert claims == {
        "graph_mode": "FULL_AND_PIECEWISE", "capture_sizes": "[1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]",
        "prefix_cache": "on", "dtype": "bfloat16", "quantization": "None", "parallel_layout": "TP2 PP1 DP1",
        "compile_mode": "VLLM_COMPILE", "spec_decode": "None",
    }  # fmt: skip


def test_torchrun_sample_buses() -> None:
    name = "03_torchrun_ima_rank3.log"
    buses = {e.at.rank: e.bus for e in sample(name) if isinstance(e, Device)}
    text = (CORPUS / "samples" / name).read_text()
    for rank in range(8):
        printed = text.split(f"rank {rank} nranks 16 cudaDev {rank} nvmlDev {rank} busId ", 1)[1].split()[0]
        assert buses[rank] == f"0000:{int(printed, 16) >> 12:02x}:00"


def test_false_positive_sample_confirms_information_only() -> None:
    found = [e for e in sample("06_false_positives.log") if isinstance(e, Fault)]
    kinds = {e.kind for e in found if e.verdict == "confirmed"}
    assert kinds == {
        "xid.info", "sxid.info", "proc.slurm_cancel", "proc.srun_terminated", "proc.torchrun_closed"
    }  # fmt: skip
    assert [e.kind for e in found if e.verdict == "suspect"] == ["cuda.oom"]
    assert sum(e.verdict == "mention" for e in found) > 80


# Values, beyond that a line yields its rule


def test_verl_values() -> None:
    line = (
        "(TaskRunner pid=1) step:31 - a/x:np.float64(0.4121) - a/kl:-1e-05 - b:nan - c:inf - d:-inf - "
        "training/rollout_probs_diff_mean:0.0311 - e/f@2:3"
    )
    got = {e.key: e.value_text for e in scan(SCANNER, line) if isinstance(e, Metric)}
    assert got == {
        "a/x": "np.float64(0.4121)", "a/kl": "-1e-05", "b": "nan", "c": "inf", "d": "-inf",
        "training/rollout_probs_diff_mean": "0.0311", "e/f@2": "3",
    }  # fmt: skip
    values = {e.key: e.value for e in scan(SCANNER, line) if isinstance(e, Metric)}
    assert values["a/x"] == 0.4121
    assert values["a/kl"] == -1e-05


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        (
            "09:12:03 SUCCESS Step 14 |  31.02s | Loss 0.0031 | Entropy 0.3121 | Mismatch KL 0.0009 | LR 1.00e-06",
            "Mismatch KL", 0.0009,
        ),
        (
            "[2026-11-29 16:04:11] model.py:918 - step 7: {'train/train_rollout_logprob_abs_diff': 0.0113}",
            "train/train_rollout_logprob_abs_diff", 0.0113,
        ),
        (
            " [2026-11-29 14:12:31.123456] iteration       12/     100 | consumed samples:          768 | "
            "lm loss: 1.234567E+00 | grad norm: 0.312 |",
            "lm loss", 1.234567,
        ),
        ("step: 12  loss:  3.12345  grad_norm:  0.1234  memory: 41.20GiB(52.02%)", "grad_norm", 0.1234),
        ("step: 12  loss:  3.12345  grad_norm:  0.1234  memory: 41.20GiB(52.02%)", "loss", 3.12345),
        ("INFO 11-29 14:07:29 ppo_trainer.py:412] ✨ Global step 12: {'vllm_kl': 0.0003}", "vllm_kl", 0.0003),
        (
            "{'loss': 0.01, 'sampling/sampling_logp_difference/mean': 0.003, 'epoch': 0.12}",
            "sampling/sampling_logp_difference/mean", 0.003,
        ),
    ],
)  # fmt: skip
def test_metric_of_a_framework(line: str, key: str, value: float) -> None:
    got = {e.key: e.value for e in scan(SCANNER, line) if isinstance(e, Metric)}
    assert got[key] == value


def test_a_phase_is_named_by_its_line() -> None:
    line = "[2026-11-29 16:04:11] timer.py:48 - Timer update_weights end (elapsed: 3.2s)"
    assert [(e.phase, e.seconds) for e in scan(SCANNER, line) if isinstance(e, Timing)] == [("update_weights", 3.2)]


def test_every_template_of_every_pack_is_filled() -> None:
    for rule in RULES.rules:
        for line in rule.match:
            for event in scan(SCANNER, line):
                if isinstance(event, (ExecState, WeightPhase, Timing)):
                    shown = repr(replace(event, at=None, **({} if isinstance(event, Timing) else {"rule": ""})))
                    assert not re.search(r"'[^']*\{\w+\}[^']*'", shown), (rule.name, shown)


def test_step_edges_and_gpu_proof() -> None:
    table = {rule.name: (rule.edge, rule.gpu) for rule in RULES.rules if rule.yields == "step"}
    assert table["step.nemo"] == ("begin", False)
    assert table["step.prime_orchestrator"] == ("end", False)
    assert table["step.verl"] == table["step.megatron"] == table["step.slime"] == ("end", True)


def test_a_config_dump_is_a_claim_and_an_override_is_observed() -> None:
    for rule in RULES.rules:
        if rule.name.startswith(("vllm.dump", "vllm.args", "sglang.args")):
            assert rule.claimed and not rule.observed, rule.name
    line = (
        "(Worker_TP0 pid=4521) WARNING 11-29 09:12:13 [gpu_model_runner.py:3900] CUDAGraphMode.FULL is not supported "
        "with FLASHINFER backend (support: X); setting cudagraph_mode=PIECEWISE"
    )
    states = [(e.field, e.observed) for e in scan(SCANNER, line) if isinstance(e, ExecState)]
    assert states == [("graph_mode", "PIECEWISE")]


@pytest.mark.parametrize(
    ("tail", "level"), [("0.00", "2"), ("0.01", "1"), ("0.10", "1"), ("8.13", "1"), ("61.02", "1")]
)
def test_sleep_level_is_read_from_what_was_backed_up(tail: str, level: str) -> None:
    line = (
        "(Worker_TP0 pid=4521) INFO 11-29 09:14:02 [cumem.py:228] CuMemAllocator: sleep freed 61.02 GiB memory in "
        f"total, of which {tail} GiB is backed up in CPU and the rest 52.89 GiB is discarded directly."
    )
    assert [e.level for e in scan(SCANNER, line) if isinstance(e, WeightPhase)] == [level]


# Schedulers


@pytest.mark.parametrize(
    "name",
    ["TaskRunner", "RolloutManager", "AgentLoopWorker", "RewardManagerWorker", "RewardLoopWorker", "rewardWorker",
     "main_task", "SandboxFusionWorker", "ToolAgentLoop", "driver"],
)  # fmt: skip
def test_an_actor_that_has_no_gpu_has_no_fault_of_one(name: str) -> None:
    """What it prints is a copy, a model's or a tool's; of a worker the same lines are a fault."""
    lines = [
        "Traceback (most recent call last):", '  File "/srv/a.py", line 4, in step',
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ]  # fmt: skip
    for who, found in ((name, set()), ("WorkerDict", {"cuda.illegal_address"})):
        assert confirmed("\n".join(f"({who} pid=5) {line}" for line in lines)) == found


STREAMS = {  # of what prints by itself: a device's printf and C's printf to stdout, std::cerr and the runtimes to stderr
    "stdout": "cuda.device_assert_line cuda.vllm_csrc ep.deepep_masked ep.deepep_timeout ep.device_assert num.verl_grad",
    "stderr": "cuda.flash_attn cuda.flashinfer cuda.cumem cuda.tms cuda.kernel_env hip.memfault hip.hang hip.queue "
    "ep.nvshmem_timeout proc.cpp_terminate proc.fatal_python proc.ray_signal proc.srun proc.slurm_oom proc.slurm_cancel",
}
ROLES = {"vllm": "rollout", "sglang": "rollout", "megatron": "trainer", "prime": "rollout", "slime": "trainer"}


def test_who_prints_and_where_to() -> None:
    """The engines speak of the rollout, trainers of themselves: verl's worker and prime-rl's of the engine in them."""
    for stream, names in STREAMS.items():
        assert {RULES.by_name[name].stream for name in names.split()} == {stream}
    for rule in RULES.rules:
        if rule.yields in {"exec_state", "weight_phase"}:
            who = "trainer" if rule.name == "verl.async_updated" else ROLES.get(rule.name.split(".")[0], "rollout")
            assert rule.role == who, rule.name


def test_kubectl_counts_in_a_source_of_the_scheduler_alone() -> None:
    """It prints the state of every pod there is, in whosoever's console."""
    lines = {
        "k8s.pod": "rl-trainer-0   0/1     OOMKilled   0          5m12s",
        "k8s.event": "3m12s       Warning   Evicted   pod/rl-0          The node was low on resource: memory.",
    }
    for kind, line in lines.items():
        assert confirmed(line, role="scheduler") == {kind}
        assert confirmed(line) == confirmed(line, role="trainer") == set()


def test_a_signal_that_the_scheduler_sent_is_no_death() -> None:
    for line in (
        "(WorkerDict pid=184142) *** SIGTERM received at time=1796000000 on cpu 31 ***",
        "slurmstepd: error: *** STEP 88121.0 ON gpu-a01 CANCELLED AT 2026-11-29T20:14:00 DUE TO PREEMPTION ***",
        "W1129 14:17:40.000001 902110 torch/distributed/elastic/multiprocessing/api.py:1013] Sending process 902200 "
        "closing signal SIGTERM",
    ):
        severities = {RULES.by_name[kind].severity for kind in confirmed(line)}
        assert severities <= {"I"}, line


# Rules share literals and macros


def test_what_a_library_calls_usable_does_not_lock() -> None:
    """The same text of the same library, with a sticky and with a usable error in it."""
    for text, locking in (
        ("RuntimeError: CUDA driver error (/dg/csrc/jit/handle.hpp:61): 700 (X, y)", True),
        ("RuntimeError: CUDA driver error (/dg/csrc/jit/handle.hpp:61): 209 (X, y)", False),
        ("RuntimeError: CUDA driver error (/dg/csrc/jit/handle.hpp:61): 4711 (X, y)", True),
        ("RuntimeError: cuBLASLt error (/dg/csrc/apis/gemm.hpp:88): 14 (CUBLAS_STATUS_INTERNAL_ERROR)", True),
        ("RuntimeError: cuBLASLt error (/dg/csrc/apis/gemm.hpp:88): 7 (CUBLAS_STATUS_INVALID_VALUE)", False),
        ("RuntimeError: Triton Error [HIP]:  Code: 719, Messsage: unspecified launch failure", True),
        ("RuntimeError: Triton Error [HIP]:  Code: 2, Messsage: out of memory", False),
        ("RuntimeError: Triton Error [HIP]: out of memory", False),
        ("RuntimeError: HIP error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate(handle)`", False),
        ("RuntimeError: HIP error: HIPBLAS_STATUS_UNKNOWN when calling `hipblasCreate(handle)`", True),
        ("RuntimeError: HIP error: HIPBLAS_STATUS_A_NAME_OF_NEXT_YEAR when calling `f(handle)`", True),
    ):
        kinds = confirmed(f"[rank3]: {text}")
        assert kinds and bool(kinds & LOCKING) == locking, text
