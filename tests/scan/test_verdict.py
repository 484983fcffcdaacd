"""When a line about a fault is believed: who wrote it counts before what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest

from tests.scan.support import of, scan
from tic_daemon.scan.events import Fault
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.scanner import Scanner
from tic_daemon.scan.traits import SourceTraits

IMA = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
TRACE = ["Traceback (most recent call last):", '  File "/srv/train.py", line 4, in main', "    loss.backward()", IMA]


def verdicts(text: str, kind: str = "cuda.illegal_address", **traits: object) -> list[str]:
    return [event.verdict for event in of(scan(text, **traits), Fault) if event.kind == kind]


def lines(prefix: str, parts: list[str]) -> str:
    return "".join(f"{prefix}{part}\n" for part in parts)


CONFIRMED = {
    "excepthook": lines("[rank3]: ", [IMA]),
    "excepthook behind tee": lines("[default3]:[rank3]: ", TRACE),
    "vLLM error record": f"(Worker_TP0 pid=881) ERROR 11-29 16:20:11 [a.py:1] {IMA}\n",
    "glog": "[rank3]:[E1129 14:07:29.123456789 ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0 Rank 3] "
    "Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n",
    "what()": "  what():  CUDA error: an illegal memory access was encountered\n",
    "Ray worker's traceback": lines("(WorkerDict pid=184142, ip=10.31.4.12) ", TRACE),
    "traceback behind an error record": lines("", ["ERROR:root:step failed", *TRACE]),
    "traceback behind an error record of a named process": lines(
        "", [f"[2026-11-29 10:00:00,123 E 44 55] (raylet) node.cc:3: failed {TRACE[0]}", *TRACE[1:]]
    ),
    "in a pod's log": lines("2026-11-29T16:20:11.123456789Z stderr F ", ["ERROR:root:step failed", *TRACE]),
    "SGLang in a pod": lines(
        "2026-11-29T16:20:11.123456789Z stderr F ",
        [f"[2026-11-29 08:20:33 TP2] Scheduler hit an exception: {TRACE[0]}", *TRACE[1:]],
    ),
    "SGLang": lines("", [f"[2026-11-29 08:20:33 TP2] Scheduler hit an exception: {TRACE[0]}", *TRACE[1:]]),
    "torchrun's tee before there is a rank": lines("[default3]:", TRACE),
    "torchrun's tee in a pod's log": lines("2026-11-29T16:20:11.123456789Z stderr F [default3]:", TRACE),
    "srun --label": lines("3: ", TRACE),
    "srun --label, padded": lines("  3: ", TRACE),
    "srun --label around torchrun's tee": lines("0: [default3]:", TRACE),
    "chained": lines(
        "[rank3]: ", [*TRACE[:3], "ValueError: x", "", "During handling of the above exception, another:", ""]
    )
    + lines("[rank3]: ", TRACE),
}


@pytest.mark.parametrize("shape", CONFIRMED)
def test_written_by_the_runtime(shape: str) -> None:
    assert set(verdicts(CONFIRMED[shape])) == {"confirmed"}


def test_bare_traceback_of_a_workers_own_file() -> None:
    assert verdicts(lines("", TRACE), single_process=True, pid=7) == ["confirmed"]
    assert verdicts(lines("", TRACE), single_process=False) == ["suspect"]
    assert verdicts(lines("", [TRACE[0], IMA]), single_process=True, pid=7) == ["suspect"]
    assert verdicts(IMA + "\n", single_process=True, pid=7) == ["suspect"]


def test_bars_of_others_do_not_end_a_traceback() -> None:
    text = lines("", [*TRACE[:2], "train:  12%|#| 1/9 [00:01<00:02]", "step 3 of 9 done", *TRACE[2:]])
    assert verdicts(text, single_process=True) == ["confirmed"]


LAUNCHED = ["[default{}]:", "{}: "]


@pytest.mark.parametrize("prefix", LAUNCHED)
def test_launchers_tracebacks_between_each_other(prefix: str) -> None:
    text = "".join(f"{prefix.format(number)}{part}\n" for part in TRACE for number in range(8))
    assert verdicts(text) == ["confirmed"] * 8


@pytest.mark.parametrize("prefix", LAUNCHED)
def test_a_launchers_prefix_must_be_the_same_on_every_line(prefix: str) -> None:
    one, other = prefix.format(3), prefix.format(4)
    assert verdicts(lines(one, [TRACE[0]]) + lines(other, TRACE[1:])) == ["suspect"]
    assert verdicts(lines(one, TRACE[:3]) + lines(other, TRACE[3:])) == ["suspect"]
    assert verdicts(lines(one, [TRACE[0]]) + lines(other, TRACE[1:3]) + lines(one, TRACE[3:])) == ["suspect"]
    assert verdicts(lines(one, TRACE[:3]) + lines("", TRACE[3:])) == ["suspect"]
    assert verdicts(lines(one, [TRACE[0], IMA])) == ["suspect"]
    assert verdicts(lines(one, [IMA])) == ["suspect"]
    assert verdicts("".join(f"{prefix.format(number)}{part}\n" for number, part in enumerate(TRACE, 1))) == ["suspect"]


@pytest.mark.parametrize("prefix", LAUNCHED)
def test_a_launchers_prefix_does_not_prove_what_the_model_says(prefix: str) -> None:
    own = prefix.format(3)
    text = lines(own, ["[prompt] debug this", *TRACE, "[response] it is", *TRACE, "[ground_truth] n/a", *TRACE])
    assert verdicts(text) == ["mention"] * 3
    assert verdicts(text + lines(prefix.format(4), TRACE))[-1] == "confirmed"
    assert verdicts(text + lines(own, ["[score] 1.0", *TRACE]))[-1] == "confirmed"
    assert verdicts(lines(f"{own}(TaskRunner pid=51002) ", TRACE)) == ["mention"]
    assert verdicts(lines(f"{own}the log: ", TRACE)) == ["mention"]


def test_a_traceback_ends_with_its_exception() -> None:
    text = lines("", [*TRACE[:3], "ValueError: x", *["text"] * 9, IMA])
    assert verdicts(text, single_process=True) == ["suspect"]


def test_a_traceback_has_at_most_200_lines() -> None:
    frames = ['  File "/srv/x.py", line 4, in f', "    f()"] * 110
    assert verdicts(lines("", [TRACE[0], *frames, IMA]), single_process=True) == ["suspect"]
    assert verdicts(lines("", [TRACE[0], *frames[:120], IMA]), single_process=True) == ["confirmed"]


def test_tracebacks_of_many_ranks_between_each_other() -> None:
    prefixes = [f"(WorkerDict pid={pid}) " for pid in range(100, 116)]
    text = "".join(f"{prefix}{part}\n" for part in TRACE for prefix in prefixes)
    assert verdicts(text) == ["confirmed"] * 16


MENTIONS = {
    "no CUDA context": lines("(TaskRunner pid=51002) ", TRACE),
    "reward worker": lines("(RewardManagerWorker pid=51002) ", TRACE),
    "excepthook copied by a TaskRunner": f"(TaskRunner pid=51002) [rank1]: {IMA}\n",
    "grep": f"/var/log/jobs/0001.log:77:[rank3]: {IMA}\n",
    "information": f"(Worker_TP0 pid=881) INFO 11-29 16:20:11 [a.py:1] {IMA}\n",
    "quoted": f'  "{IMA}"\n',
    "sentence": f"we saw RuntimeError and {IMA} yesterday\n",
    "forged kernel line": "(TaskRunner pid=5) NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python, Ch 00000008\n",
}


@pytest.mark.parametrize("shape", MENTIONS)
def test_talk(shape: str) -> None:
    faults = of(scan(MENTIONS[shape]), Fault)
    assert faults and {fault.verdict for fault in faults} == {"mention"}


def test_printed_prompts_and_responses() -> None:
    sample = [
        "[prompt] system",
        "debug this",
        f"[rank0]: {IMA}",
        "[response] it is",
        *TRACE,
        "[ground_truth] n/a",
        "[score] 1.0",
    ]
    text = lines("", sample)
    assert set(verdicts(text, single_process=True, rank=0)) == {"mention"}
    assert verdicts(text + lines("", TRACE), single_process=True, rank=0)[-1] == "confirmed"


def test_quoting_does_not_go_on_for_ever() -> None:
    text = "[prompt] x\n" + "filler text\n" * 6000 + lines("", TRACE)
    assert verdicts(text, single_process=True) == ["confirmed"]


def test_another_ranks_excepthook_in_a_workers_file_is_a_quotation() -> None:
    assert verdicts(f"[rank1]: {IMA}\n", single_process=True, rank=3) == ["mention"]
    assert verdicts(f"[rank3]: {IMA}\n", single_process=True, rank=3) == ["confirmed"]


def test_a_ray_file_learns_its_actor_from_its_first_lines() -> None:
    text = ":job_id:01000000\n:actor_name:TaskRunner\n" + lines("", TRACE)
    assert verdicts(text, single_process=True, pid=5) == ["mention"]
    text = ":job_id:01000000\n:actor_name:WorkerDict\n" + lines("", TRACE)
    (fault,) = of(scan(text, single_process=True, pid=5), Fault)
    assert (fault.verdict, fault.at.actor, fault.at.proc) == ("confirmed", "WorkerDict", "pid:5")


def test_a_driver_of_ray_has_no_cuda_context() -> None:
    assert verdicts(lines("", TRACE), role="driver", framework="ray", single_process=True) == ["mention"]


def test_a_bare_traceback_is_not_a_prefixed_writers() -> None:
    text = lines("(WorkerDict pid=9) ", TRACE[:3]) + lines("", TRACE[1:])
    (fault,) = of(scan(text), Fault)
    assert (fault.verdict, fault.at.proc) == ("suspect", "")


def test_kernel_lines_need_the_kernel() -> None:
    line = "NVRM: Xid (PCI:0000:5d:00): 31, pid=3318842, name=python, Ch 0000000a\n"
    assert verdicts(line, "xid.app") == ["mention"]
    assert verdicts(line, "xid.app", role="kernel") == ["confirmed"]
    (fault,) = of(scan("[918233.112011] " + line), Fault)
    assert (fault.verdict, fault.bus, fault.code) == ("confirmed", "0000:5d:00", "31")


def test_exception_of_a_named_process_without_prefix_keeps_its_name() -> None:
    text = lines("", [f"[2026-11-29 08:20:33 TP2] Scheduler hit an exception: {TRACE[0]}", *TRACE[1:]])
    fault = of(scan(text), Fault)[-1]
    assert (fault.at.proc, fault.at.actor) == ("actor:TP2", "TP2")


def test_prints_that_prove_themselves() -> None:
    line = "/pytorch/x/Indexing.cu:1553: f: block: [3,0,0], thread: [17,0,0] Assertion `srcIndex < n` failed.\n"
    assert verdicts(line, "cuda.device_assert_line") == ["confirmed"]
    assert verdicts("(TaskRunner pid=4) " + line, "cuda.device_assert_line") == ["mention"]


def test_one_fault_a_piece_and_its_bytes() -> None:
    text = f"x\n[rank3]: {IMA}\n"
    (fault,) = of(scan(text), Fault)
    assert text[fault.at.byte_offset :][: fault.at.byte_length] == f"[rank3]: {IMA}\n"
    assert (fault.text, fault.raw) == (IMA, f"[rank3]: {IMA}")


def test_two_faults_in_one_torn_line_keep_their_own_bytes() -> None:
    part = "(Worker_TP{} pid=88{}) ERROR 11-29 16:20:11 [a.py:1] " + IMA
    text = part.format(0, 0) + part.format(1, 1) + "\n"
    one, two = of(scan(text), Fault)
    assert (one.at.pid, two.at.pid, one.at.line_no, two.at.line_no) == (880, 881, 1, 1)
    assert text[one.at.byte_offset :][: one.at.byte_length] == part.format(0, 0)
    assert text[two.at.byte_offset :][: two.at.byte_length] == part.format(1, 1) + "\n"


def test_colours_hide_nothing() -> None:
    assert verdicts(
        "\x1b[31m[rank3]: torch.AcceleratorError: \x1b[1mCUDA\x1b[0m \x1b[1merror:\x1b[0m an illegal memory access was "
        "encountered\x1b[0m\n"
    ) == ["confirmed"]


def test_a_rule_that_fails_costs_its_line() -> None:
    data = f"[rank3]: {IMA}\n".encode()

    class Broken:
        groupindex: ClassVar[dict[str, int]] = {}

        def match(self, *_args: object) -> None:
            raise RuntimeError("boom")

        search = match

    rules = [replace(rule) for rule in RuleSet.load().rules]
    for rule in rules:
        if rule.name == "cuda.illegal_address":
            object.__setattr__(rule, "regex", Broken())
    events = Scanner(RuleSet(tuple(rules))).open(SourceTraits()).feed(data)
    gaps = [event for event in events if event.table == "source_gap"]
    assert [(gap.kind, gap.first_byte, gap.last_byte) for gap in gaps] == [("rule_error", 0, len(data))]  # type: ignore[union-attr]
    assert "boom" in gaps[0].detail  # type: ignore[union-attr]


def test_the_local_rank_of_a_directory_is_no_global_rank() -> None:
    """On the second node of eight processes the directory 3 is rank 11's."""
    own: dict[str, object] = {"framework": "torchrun", "single_process": True, "rank": 3}
    for prefix in ("[rank11]: ", "[rank3]: "):
        assert verdicts(lines(prefix, TRACE), **own, stream="stderr") == ["confirmed"]
    assert verdicts(lines("[rank5]: ", TRACE), **own, stream="stderr") == ["mention"]  # no node holds both
    assert verdicts(lines("[rank11]: ", TRACE), **own, stream="stdout") == ["mention"]
    assert verdicts(lines("[rank11]: ", TRACE), single_process=True, rank=3, stream="stderr") == ["mention"]
    event = next(event for event in of(scan(lines("[rank11]: ", TRACE), **own, stream="stderr"), Fault))
    assert event.at.rank == 11


def test_a_traceback_printed_to_stdout_is_text() -> None:
    """The interpreter writes tracebacks to stderr; a worker's stdout holds what models and tools say."""
    own: dict[str, object] = {"framework": "ray", "single_process": True, "pid": 7}
    said = lines("", [":actor_name:WorkerDict", "the model answered:", *TRACE])
    assert verdicts(said, **own, stream="stdout") == ["suspect"]
    assert verdicts(said, **own, stream="stderr") == ["confirmed"]
    assert verdicts(lines("", ["ERROR:root:failed", *TRACE]), **own, stream="stdout") == ["confirmed"]


def test_a_program_that_cites_the_kernel_in_a_system_log() -> None:
    xid = "NVRM: Xid (PCI:0000:5d:00): 31, pid=3318842, name=python, Ch 0000000a"
    assert verdicts(f"Nov 29 14:07:29 gpu-b07 kernel: {xid}\n", "xid.app", role="kernel") == ["confirmed"]
    assert verdicts(f"Nov 29 14:07:29 gpu-b07 gpu-watch[71]: {xid}\n", "xid.app", role="kernel") == ["mention"]


RAY_COPY = [
    "ray.exceptions.RayTaskError(AcceleratorError): \x1b[36mray::WorkerDict.update_actor()\x1b[39m (pid=184142, "
    "ip=10.31.4.12, actor_id=9c, repr=<verl.WorkerDict object at 0x7f>)",
    '  File "/srv/verl/workers/actor/dp_actor.py", line 412, in update_policy',
    IMA,
]


@pytest.mark.parametrize("prefix", ["", "(TaskRunner pid=51002) "])
def test_a_ray_task_error_is_the_named_process_fault(prefix: str) -> None:
    """Ray hands a method's exception to the caller and prints it nowhere else."""
    whole = lines(prefix, ["step:4 - actor/grad_norm:0.1", TRACE[0], TRACE[1], *RAY_COPY, "and then"])
    fault = next(event for event in of(scan(whole), Fault) if event.kind == "cuda.illegal_address")
    assert (fault.verdict, fault.at.pid, fault.at.proc, fault.at.actor) == (
        "confirmed", 184142, "pid:184142", "WorkerDict",
    )  # fmt: skip
    assert fault.at.step == (4 if prefix else None)
    nested = ["ray.exceptions.RayTaskError(X): ray::TaskRunner.run() (pid=51002, ip=10.0.0.1, actor_id=ab)", TRACE[1]]
    assert verdicts(lines(prefix, [*nested, *RAY_COPY])) == ["confirmed"]
    unhandled = RAY_COPY[0].split(": ", 1)[1]
    head = f"Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): {unhandled}"
    assert verdicts(lines(prefix, [head, *RAY_COPY[1:]])) == ["confirmed"]
    # What an actor's constructor raises: its name holds a colon where it was given one.
    made = (
        "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, "
        "ray::lm_policy-0-2:DTensorPolicyWorker.__init__() (pid=2791977, ip=10.65.6.13, actor_id=79, repr=X[rank=2])"
    )
    copy = [
        event for event in of(scan(lines(prefix, [made, *RAY_COPY[1:]])), Fault) if event.kind == "cuda.illegal_address"
    ]
    assert [(fault.verdict, fault.at.pid) for fault in copy] == [("confirmed", 2791977)]


def test_a_ray_task_error_of_no_cuda_process_or_in_a_response() -> None:
    runner = [
        "ray.exceptions.RayTaskError(X): ray::TaskRunner.run() (pid=51002, ip=10.0.0.1, actor_id=ab)",
        TRACE[1],
        IMA,
    ]
    assert verdicts(lines("", runner)) == ["mention"]
    prefix = "(TaskRunner pid=51002) "
    assert verdicts(lines(prefix, ["[response] sure:", *RAY_COPY, "[score] 1.0"])) == ["mention"]
    assert verdicts(lines("", [RAY_COPY[0], IMA])) == ["suspect"]  # no frame: somebody's text
    assert verdicts(lines("", [f"he saw {RAY_COPY[0]}", *RAY_COPY[1:]])) == ["suspect"]


OLD_TORCH = {
    "2.2": "[rank3]:[E ProcessGroupNCCL.cpp:1182] [Rank 3] NCCL watchdog thread terminated with exception: ",
    "2.1": "[E ProcessGroupNCCL.cpp:916] [Rank 3] NCCL watchdog thread terminated with exception: ",
    "2.4": "[rank3]:[E1129 14:17:34.123456789 ProcessGroupNCCL.cpp:1515] [PG 0 (default_pg) Rank 3] Process group "
    "watchdog thread terminated with exception: ",
}


@pytest.mark.parametrize("version", OLD_TORCH)
def test_watchdogs_of_older_torch(version: str) -> None:
    text = "CUDA error: an illegal memory access was encountered"
    assert verdicts(f"{OLD_TORCH[version]}{text}\n") == ["confirmed"]


XID = "NVRM: Xid (PCI:0000:5d:00): 31, pid=3318842, name=python, Ch 0000000a"
KERNEL = {
    "dmesg -x": f"kern  :err   : [918233.112011] {XID}",
    "dmesg -x -T": f"kern  :warn  : [Sun Nov 29 20:12:03 2026] {XID}",
    "dmesg --time-format iso": f"2026-11-29T20:12:03,123456+00:00 {XID}",
    "CONFIG_PRINTK_CALLER": f"[918233.112011][T1234] {XID}",
    "CONFIG_PRINTK_CALLER, cpu": f"[918233.112011] [   C12] {XID}",
    "RFC 5424": f"<4>1 2026-11-29T20:12:03.123Z gpu-a01 kernel - - - {XID}",
    "short-full": f"Sun 2026-11-29 20:12:03 UTC gpu-a01 kernel: {XID}",
    "short-unix": f"1796000000.123456 gpu-a01 kernel: {XID}",
}


@pytest.mark.parametrize("shape", KERNEL)
def test_shapes_of_kernel_lines(shape: str) -> None:
    assert verdicts(KERNEL[shape] + "\n", "xid.app") == ["confirmed"]
    assert verdicts(f'see "{KERNEL[shape]}"\n', "xid.app") == ["mention"]


TORN = f"INFO 11-29 16:20:11 [loggers.py:3] Engine 000: Avg prom[rank3]: {IMA}\n"


def test_a_ranks_line_behind_a_torn_one() -> None:
    assert verdicts(TORN) == ["confirmed"]
    fault = of(scan(TORN), Fault)[0]
    assert (fault.at.rank, fault.at.byte_offset) == (3, TORN.index("[rank3]"))
    for cited in (
        f'log: "x[rank3]: {IMA}"\n', f"{{'stderr': 'x\\n[rank3]: {IMA}'}}\n", f"a.log:3:[rank3]: {IMA}\n",
        f"see [rank3]: {IMA}\n", f"+[rank3]: {IMA}\n", f"-[rank3]: {IMA}\n", f"a/[rank3]: {IMA}\n",
    ):  # fmt: skip
        assert verdicts(cited) == ["mention"], cited


def test_a_writer_without_cuda_context_stays_one_behind_a_progress_bar() -> None:
    bar = "Rollout:  12%|#         | 3/25 [00:11<01:20,  3.66s/it]"
    text = "Failed: Cuda error /w/csrc/custom_all_reduce.cuh:455 'misaligned address'\n"
    assert verdicts(f"(TaskRunner pid=1) {bar}{text}", "cuda.vllm_csrc") == ["mention"]
    assert verdicts(f"(WorkerDict pid=1) {bar}{text}", "cuda.vllm_csrc") == ["confirmed"]


@pytest.mark.parametrize(
    "line",
    [
        "(Worker_TP0 pid=881) ERROR 11-29 16:20:11 [multiproc_executor.py:1189] " + IMA,
        "Nov 29 14:07:29 node1 python[311]: Failed: Cuda error /w/custom_all_reduce.cuh:455 'misaligned address'",
        "Nov 29 14:07:29 gpu-b07 kernel: [918233.112011] NVRM: Xid (PCI:0000:5d:00): 31, pid=3318842, name=python",
        "<6>Nov 29 14:07:29 gpu-b07 kernel: [918233.112011] NVRM: Xid (PCI:0000:5d:00): 31, pid=3318842, name=python",
        "2026-11-29T14:07:29+0100 node1 kernel: NVRM: Xid (PCI:0000:5d:00): 31, pid=3318842, name=python",
    ],
)
def test_whatever_header_an_actor_prints_the_line_stays_its_own(line: str) -> None:
    def found(prefix: str) -> set[str]:
        return {event.verdict for event in of(scan(f"{prefix}{line}\n"), Fault)}

    assert found("") == {"confirmed"}
    assert found("(TaskRunner pid=51002) ") == found("(RewardLoopWorker pid=7) ") == {"mention"}
    if line.startswith("(Worker_"):  # vLLM's workers do write through the actor that started them
        assert found("(vLLMHttpServer pid=185511) ") == {"confirmed"}
