"""Each rule of the lock by example: small runs, answers worked out by hand, asked of the views and of both definitions.

Every example breaks if its rule does. What a case says of a record is in the call that makes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.evidence.oracle import Attempt, Oracle, Row, Rule, Src, World
from tests.evidence.worlds import NOON, RULES, SECOND
from tests.evidence.worldstore import Key, State, WorldStore
from tic_daemon.evidence import bounds, lock, writers

ADMISSIBLE = ("admissible", "")
AFTER = ("locked", "after the fault")
UNKNOWN = ("locked", "order unknown")
LATE = ("suspect", "fault reported in or before this step")
VOIDED = ("suspect", "step voided by a fault")
CASES: dict[str, Callable[[Case], None]] = {}


def at(seconds: float) -> int:
    return NOON + int(seconds * SECOND)


def case(function: Callable[[Case], None]) -> Callable[[Case], None]:
    CASES[function.__name__] = function
    return function


class Case:
    """A run of its own, and what is expected of its records. `whole` False: of what the package's definitions are not given
    (kernel lines, copies, several runs)."""

    def __init__(self, number: int) -> None:
        self.number, self.world, self.whole = number, World(rules=dict(RULES)), True
        self.expected: dict[Key, tuple[str, str]] = {}
        self.attempts: dict[Key, int] = {}

    def file(self, **traits: object) -> int:
        number = self.number * 100 + len(self.world.sources)
        host = f"c{self.number}{traits.pop('host', 'a')}"
        self.world.sources[number] = Src(number, host, f"/c{self.number}/run{self.number}", **traits)  # type: ignore[arg-type]
        return number

    def row(self, table: str, src: int, off: int, **fields: object) -> Row:
        row = Row(table, src, int(str(fields.pop("gen", 0))), off, **fields)  # type: ignore[arg-type]
        self.world.rows.append(row)
        shown = any(
            r.table == "process_seen" and (r.src, r.gen, r.proc) == (src, row.gen, row.proc) for r in self.world.rows
        )
        if row.proc and not shown and table != "process_seen":
            self.world.rows.append(
                Row("process_seen", src, row.gen, off, row.proc, row.pid, row.stream, row.stamp, row.res, row.utc)
            )
        return row

    def record(self, src: int, off: int, expected: tuple[str, str], attempt: int = 1, **fields: object) -> None:
        row = self.row("mismatch", src, off, **fields)
        self.expected[src, row.gen, off] = expected
        self.attempts[src, row.gen, off] = attempt

    def fault(self, src: int, off: int, kind: str = "illegal", **fields: object) -> None:
        self.row("fault", src, off, kind=kind, **fields)

    def ends(self, src: int, off: int, step: int, **fields: object) -> None:
        self.row("step_event", src, off, step=step, **fields)

    def declare(self, *cut: tuple[int, int, int], time: int | None = None) -> None:
        run = f"run{self.number}"
        self.world.attempts.append(
            Attempt(run, f"{run}-{len(self.world.attempts)}", NOON + len(self.world.attempts), time, cut)
        )


# -- order by bytes


@case
def one_stream_of_one_process_has_one_order(c: Case) -> None:
    f = c.file(single=True, stream="stderr")
    c.record(f, 10, ADMISSIBLE, step=1)
    c.fault(f, 100, step=3)
    c.record(f, 200, AFTER, step=1)


@case
def where_bytes_decide_a_clock_that_jumped_back_unlocks_nothing(c: Case) -> None:
    f = c.file(single=True, stream="stderr")
    c.fault(f, 100, step=3, stamp=at(50), utc=True)
    c.record(f, 200, AFTER, step=1, stamp=at(10), utc=True)


@case
def what_stands_above_standard_error_was_made_before_it(c: Case) -> None:
    f = c.file(single=True)
    c.record(f, 10, ADMISSIBLE, step=1)
    c.record(f, 20, ADMISSIBLE, step=2, stream="stdout")
    c.fault(f, 100, step=3, stream="stderr")


@case
def what_stands_below_it_may_have_waited_in_a_buffer(c: Case) -> None:
    f = c.file(single=True)
    c.fault(f, 100, step=3, stream="stderr")
    c.record(f, 200, UNKNOWN, step=3, stream="stdout")
    c.record(f, 300, AFTER, step=3, stream="stderr")


@case
def standard_output_orders_itself_alone(c: Case) -> None:
    f = c.file(single=True)
    c.record(f, 10, ADMISSIBLE, step=1, stream="stdout")
    c.record(f, 20, UNKNOWN, stream="stderr")
    c.record(f, 30, UNKNOWN)
    c.fault(f, 100, step=3, stream="stdout")


@case
def a_fault_of_unknown_stream_orders_nothing_by_bytes(c: Case) -> None:
    f = c.file(single=True)
    c.record(f, 10, UNKNOWN)
    c.fault(f, 100, step=3)


@case
def in_a_file_of_several_offsets_order_lines_of_one_process(c: Case) -> None:
    f = c.file()
    c.record(f, 10, UNKNOWN, proc="rank:1")
    c.record(f, 20, LATE, proc="rank:0")
    c.fault(f, 100, proc="rank:0", stream="stderr")


@case
def an_unmarked_line_among_several_is_nobodys(c: Case) -> None:
    f = c.file()
    c.row("process_seen", f, 0, proc="rank:0")
    c.row("process_seen", f, 5, proc="rank:1")
    c.record(f, 10, UNKNOWN)
    c.fault(f, 100, proc="rank:0", stream="stderr")


@case
def a_console_held_what_it_forwards(c: Case) -> None:
    f = c.file(console=True)
    c.record(f, 10, UNKNOWN, proc="rank:0", stream="stdout")
    c.record(f, 20, LATE, proc="rank:0", stream="stderr")
    c.fault(f, 100, proc="rank:0", stream="stderr")


@case
def a_process_goes_on_in_the_next_generation(c: Case) -> None:
    f = c.file(single=True, stream="stderr", pid=7)
    c.record(f, 500, ADMISSIBLE, step=1, proc="pid:7", pid=7)
    c.fault(f, 10, gen=1, step=3, proc="pid:7", pid=7)
    c.record(f, 20, AFTER, gen=1, step=3, proc="pid:7", pid=7)


# -- order by time


@case
def a_stamp_in_whole_seconds_is_a_second_long(c: Case) -> None:
    f, g = c.file(), c.file()
    c.fault(f, 10, step=9, stamp=at(9.4), utc=True)
    c.record(g, 10, UNKNOWN, step=8, stamp=at(9), res=SECOND, utc=True)
    c.record(g, 20, ADMISSIBLE, step=8, stamp=at(8), res=SECOND, utc=True)
    c.record(g, 30, AFTER, step=8, stamp=at(9.5), utc=True)


@case
def clocks_of_two_hosts_may_differ_by_two_seconds(c: Case) -> None:
    f, g = c.file(host="a"), c.file(host="b")
    c.fault(f, 10, step=9, stamp=at(10), utc=True)
    c.record(g, 10, UNKNOWN, step=8, stamp=at(8.1), utc=True)
    c.record(g, 20, ADMISSIBLE, step=8, stamp=at(7.9), utc=True)
    c.record(g, 30, UNKNOWN, step=8, stamp=at(11.9), utc=True)
    c.record(g, 40, AFTER, step=8, stamp=at(12.1), utc=True)


@case
def a_console_has_the_clock_of_no_host(c: Case) -> None:
    f, g = c.file(), c.file(console=True)
    c.fault(f, 10, step=9, stamp=at(10), utc=True)
    c.record(g, 10, UNKNOWN, step=8, stamp=at(8.1), utc=True)


@case
def times_of_an_unknown_zone_compare_within_their_source(c: Case) -> None:
    f, g = c.file(), c.file(zone_s=3600)
    c.fault(f, 10, step=9, stamp=at(10), proc="rank:0")
    c.record(f, 20, ADMISSIBLE, step=8, stamp=at(5), proc="rank:1")
    c.record(g, 20, UNKNOWN, step=8, stamp=at(5), utc=True)


@case
def a_known_zone_is_taken_off(c: Case) -> None:
    f, g = c.file(zone_s=3600), c.file()
    c.fault(f, 10, step=9, stamp=at(3610))
    c.record(g, 10, ADMISSIBLE, step=8, stamp=at(9), utc=True)
    c.record(g, 20, AFTER, step=8, stamp=at(11), utc=True)


@case
def an_unstamped_record_is_older_than_the_next_stamp_of_its_stream(c: Case) -> None:
    f, g = c.file(), c.file(single=True, stream="stdout")
    c.fault(f, 10, step=9, stamp=at(10), utc=True)
    c.record(g, 10, ADMISSIBLE, step=8)
    c.row("stamp_after", g, 20, stamp=at(5), utc=True, stream="stdout")
    c.record(g, 30, UNKNOWN, step=8)
    c.row("stamp_after", g, 40, stamp=at(15), utc=True, stream="stdout")


@case
def and_not_older_than_the_whole_second_that_it_prints(c: Case) -> None:
    f, g = c.file(), c.file(single=True, stream="stdout")
    c.fault(f, 10, step=9, stamp=at(5.5), utc=True)
    c.record(g, 10, UNKNOWN, step=8)
    c.row("stamp_after", g, 20, stamp=at(5), res=SECOND, utc=True, stream="stdout")


@case
def standard_output_with_an_old_stamp_bounds_no_other_stream(c: Case) -> None:
    f, g = c.file(), c.file(single=True)
    c.fault(f, 10, step=9, stamp=at(10), utc=True)
    c.record(g, 10, UNKNOWN, step=8, stream="stderr")
    c.row("stamp_after", g, 20, stamp=at(5), utc=True, stream="stdout")


@case
def standard_error_bounds_all_above_it(c: Case) -> None:
    f, g = c.file(), c.file(single=True)
    c.fault(f, 10, step=9, stamp=at(10), utc=True)
    c.record(g, 10, ADMISSIBLE, step=8, stream="stdout")
    c.row("stamp_after", g, 20, stamp=at(5), utc=True, stream="stderr")


@case
def the_greatest_stamp_so_far_bounds_a_line(c: Case) -> None:
    f, g = c.file(), c.file(single=True, stream="stderr")
    c.fault(f, 10, step=9, stamp=at(10), utc=True)
    c.row("stamp_after", g, 5, stamp=at(20), utc=True)
    c.record(g, 10, UNKNOWN, step=8)
    c.row("stamp_after", g, 20, stamp=at(5), utc=True)


@case
def an_unstamped_fault_is_younger_than_the_stamp_before_it(c: Case) -> None:
    f, g = c.file(single=True, stream="stderr"), c.file()
    c.fault(f, 10, step=9, after=at(10), after_utc=True)
    c.record(g, 10, ADMISSIBLE, step=8, stamp=at(9), utc=True)


@case
def unless_it_was_held_in_a_buffer(c: Case) -> None:
    f, g = c.file(single=True), c.file()
    c.fault(f, 10, step=9, after=at(10), after_utc=True, stream="stdout")
    c.record(g, 10, UNKNOWN, step=8, stamp=at(9), utc=True)


# -- order by step


@case
def two_processes_may_be_a_step_apart(c: Case) -> None:
    f, g = c.file(), c.file()
    c.fault(f, 10, step=3)
    c.record(g, 10, ADMISSIBLE, step=1)
    c.record(g, 20, UNKNOWN, step=2)
    c.record(g, 30, UNKNOWN, step=4)
    c.record(g, 40, AFTER, step=5)


@case
def within_a_process_steps_are_strict(c: Case) -> None:
    f = c.file(single=True)
    c.fault(f, 10, step=3, stream="stdout")
    c.record(f, 20, ADMISSIBLE, step=2, stream="stderr")
    c.record(f, 30, UNKNOWN, step=3)


@case
def a_carried_step_is_one_of_two(c: Case) -> None:
    f, g = c.file(), c.file(single=True, stream="stderr")
    c.fault(f, 10, step=4)
    c.record(g, 10, ADMISSIBLE, step=1, carried=True)
    c.record(g, 20, UNKNOWN, step=2, carried=True)


@case
def a_step_carried_past_a_buffer_has_no_end(c: Case) -> None:
    f, g = c.file(), c.file(single=True)
    c.fault(f, 10, step=9)
    c.record(g, 10, UNKNOWN, step=1, carried=True, stream="stderr")


@case
def a_fault_without_a_step_follows_the_last_that_surely_ended(c: Case) -> None:
    f = c.file(single=True, stream="stderr")
    c.record(f, 10, ADMISSIBLE, step=4)
    c.ends(f, 20, 4)
    c.record(f, 30, ADMISSIBLE, step=4)
    c.ends(f, 40, 5)
    c.record(f, 50, LATE, step=5)
    c.fault(f, 60)


@case
def without_any_step_what_stands_before_is_suspect_and_never_locked(c: Case) -> None:
    f = c.file(single=True, stream="stderr")
    c.record(f, 10, LATE, step=4)
    c.record(f, 20, LATE)
    c.fault(f, 60)
    c.record(f, 70, AFTER)


@case
def steps_of_other_processes_count_by_time(c: Case) -> None:
    f, g = c.file(), c.file()
    c.ends(g, 10, 6, stamp=at(5), utc=True)
    c.ends(g, 20, 7, stamp=at(11), utc=True)
    c.fault(f, 10, stamp=at(10), utc=True)
    c.record(f, 20, ADMISSIBLE, step=5, stamp=at(4), utc=True, proc="")
    c.record(g, 30, LATE, step=6, stamp=at(4), utc=True)


@case
def a_record_of_the_faults_step_is_suspect(c: Case) -> None:
    f = c.file(single=True, stream="stderr")
    c.record(f, 10, ADMISSIBLE, step=2)
    c.record(f, 20, LATE, step=3)
    c.record(f, 30, LATE)
    c.fault(f, 100, step=3)


@case
def it_is_so_for_any_fault_not_for_all(c: Case) -> None:
    f = c.file(single=True, stream="stderr")
    c.record(f, 10, ADMISSIBLE, step=2)
    c.record(f, 20, LATE, step=4)
    c.fault(f, 100, step=3)
    c.fault(f, 110, step=7)


# -- what locks, what voids


@case
def only_confirmed_lines_act(c: Case) -> None:
    f = c.file(single=True, stream="stderr")
    c.fault(f, 10, verdict="suspect")
    c.fault(f, 20, verdict="mention")
    c.record(f, 30, ADMISSIBLE)


@case
def an_unknown_kind_locks(c: Case) -> None:
    f = c.file(single=True, stream="stderr")
    c.fault(f, 10, "unheard-of", step=1)
    c.record(f, 30, AFTER)


@case
def information_does_nothing(c: Case) -> None:
    f = c.file(single=True, stream="stderr")
    c.fault(f, 10, "note")
    c.record(f, 30, ADMISSIBLE)


@case
def a_fault_of_severity_n_s_or_e_voids_its_step(c: Case) -> None:
    for kind in ("skipped", "oom", "dead"):
        f = c.file(single=True, stream="stderr")
        c.fault(f, 10, kind, step={"skipped": 10, "oom": 20, "dead": 30}[kind])
    g = c.file()
    for off, step in enumerate((9, 11, 19, 21, 29, 31)):
        c.record(g, off, ADMISSIBLE, step=step)
    for off, step in enumerate((10, 20, 30), start=10):
        c.record(g, off, VOIDED, step=step)
    c.record(g, 20, VOIDED)


@case
def without_a_step_it_voids_all_that_is_not_provably_of_another(c: Case) -> None:
    f = c.file(single=True, stream="stderr")
    c.record(f, 10, ADMISSIBLE, step=4)
    c.ends(f, 20, 5)
    c.record(f, 30, VOIDED, step=6)
    c.fault(f, 40, "oom")
    c.ends(f, 50, 7)
    c.record(f, 60, ADMISSIBLE, step=8)


@case
def a_timeout_locks_if_its_process_goes_on(c: Case) -> None:
    f, g = c.file(single=True, stream="stderr"), c.file()
    c.ends(f, 5, 1)
    c.fault(f, 10, "timeout", step=2)
    c.record(f, 20, AFTER, step=2)
    c.record(g, 20, UNKNOWN, step=2)


@case
def a_step_that_ends_shows_that_it_goes_on(c: Case) -> None:
    f, g = c.file(single=True, stream="stderr"), c.file()
    c.fault(f, 10, "timeout", step=2)
    c.ends(f, 20, 2)
    c.record(g, 20, UNKNOWN, step=2)


@case
def a_timeout_of_a_process_that_stops_voids_its_step(c: Case) -> None:
    f, g = c.file(single=True, stream="stderr"), c.file(single=True, stream="stderr")
    c.ends(f, 5, 1)
    c.fault(f, 10, "timeout", step=2)
    c.row("step_event", f, 20, step=3, edge="begin")
    c.record(g, 20, VOIDED, step=2)
    c.record(g, 30, ADMISSIBLE, step=9)


@case
def a_fault_locks_its_own_run(c: Case) -> None:
    f, g = c.file(run_hint=f"one{c.number}", run_how="path"), c.file(run_hint=f"other{c.number}", run_how="path")
    c.fault(f, 10)
    c.record(f, 20, UNKNOWN)
    c.record(g, 30, ADMISSIBLE)
    c.whole = False


@case
def a_replaced_row_counts_for_nothing(c: Case) -> None:
    f = c.file(single=True, stream="stderr")
    c.fault(f, 10, live=False)
    c.record(f, 20, ADMISSIBLE)


@case
def a_consoles_copy_of_a_workers_line_does_nothing_of_itself(c: Case) -> None:
    f, g, h = c.file(single=True, stream="stderr", pid=7), c.file(console=True), c.file(host="b")
    c.fault(f, 10, step=3, text="boom", proc="pid:7", pid=7, stamp=at(10), utc=True)
    c.fault(g, 10, text="boom", proc="pid:7", pid=7)
    c.record(h, 10, ADMISSIBLE, step=1)
    c.whole = False


@case
def and_acts_if_the_workers_line_is_not_watched(c: Case) -> None:
    g, h = c.file(console=True), c.file(host="b")
    c.fault(g, 10, text="boom", proc="pid:7", pid=7)
    c.record(h, 10, UNKNOWN, step=1)


@case
def a_launchers_console_that_names_ranks_copies_too(c: Case) -> None:
    f, g, h = c.file(single=True, stream="stderr", rank=3), c.file(console=True), c.file(host="b")
    c.fault(f, 10, step=3, text="boom", proc="rank:3", rank=3, stamp=at(10), utc=True)
    c.fault(g, 10, text="boom", proc="rank:3", rank=3)
    c.record(h, 10, ADMISSIBLE, step=1)
    c.whole = False


@case
def but_not_what_another_rank_said(c: Case) -> None:
    f, g, h = c.file(single=True, stream="stderr", rank=3), c.file(console=True), c.file(host="b")
    c.fault(f, 10, step=3, text="boom", proc="rank:3", rank=3, stamp=at(10), utc=True)
    c.fault(g, 10, text="boom", proc="rank:4", rank=4)
    c.record(h, 10, UNKNOWN, step=1)
    c.whole = False


@case
def a_rank_of_the_next_attempt_is_another_process(c: Case) -> None:
    """The console's line may be of either attempt, the worker's is of the first: the second is locked by the console."""
    f, g, h = c.file(single=True, pid=7, stream="stderr", rank=3), c.file(console=True), c.file(single=True, pid=9)
    c.fault(f, 10, step=3, text="boom", rank=3, stamp=at(10), utc=True)
    c.fault(g, 200, text="boom", proc="rank:3", rank=3)
    c.record(h, 300, UNKNOWN, attempt=2, step=1)
    c.declare((f, 0, 100), (g, 0, 100))
    c.whole = False


@case
def what_reports_of_another_process_copies_its_own_line(c: Case) -> None:
    f, g, h = c.file(single=True, stream="stderr", pid=7), c.file(single=True, pid=8), c.file(host="b")
    c.fault(f, 10, step=3, text="boom", proc="pid:7", pid=7, stamp=at(10), utc=True)
    c.row("process_seen", g, 0, proc="pid:8", pid=8)
    c.fault(g, 10, text="boom", proc="pid:7", pid=7)
    c.record(h, 10, ADMISSIBLE, step=1)
    c.whole = False


@case
def and_so_does_a_log_of_several_processes(c: Case) -> None:
    f, g, h = c.file(single=True, stream="stderr", pid=7), c.file(), c.file(host="b")
    c.fault(f, 10, step=3, text="boom", proc="pid:7", pid=7, stamp=at(10), utc=True)
    c.row("process_seen", g, 0, proc="pid:8", pid=8)
    c.fault(g, 10, text="boom", proc="pid:7", pid=7)
    c.record(h, 10, ADMISSIBLE, step=1)
    c.whole = False


@case
def two_logs_of_several_processes_copy_nothing_of_each_other(c: Case) -> None:
    f, g, h = c.file(), c.file(), c.file(host="b")
    for file in (f, g):
        c.row("process_seen", file, 0, proc="pid:8", pid=8)
    c.fault(f, 10, step=3, text="boom", proc="pid:7", pid=7, stamp=at(10), utc=True)
    c.fault(g, 10, text="boom", proc="pid:7", pid=7)
    c.record(h, 10, UNKNOWN, step=1)
    c.whole = False


# -- kernel lines


def kernel(c: Case, bus: str, line_bus: str, expected: tuple[str, str], **where: object) -> None:
    c.whole = False
    f, k = c.file(host="a"), c.file(host=str(where.pop("host", "a")), run_hint=f"kernel{c.number}", run_how="path")
    c.row("device", f, 5, bus=bus, proc="rank:0", stamp=at(0), utc=True)
    c.record(f, 10, expected, proc="rank:0")
    c.fault(k, 10, "xid", bus=line_bus, **({"stamp": at(10), "utc": True} | where))


@case
def a_kernel_line_locks_the_run_that_holds_its_gpu(c: Case) -> None:
    kernel(c, "5d000", "00000000:5D:00.0", UNKNOWN)


@case
def forms_of_a_bus_id_are_one_gpu(c: Case) -> None:
    kernel(c, "0000:5d:00", "5d:00.0", UNKNOWN)


@case
def another_gpu_is_not_the_runs(c: Case) -> None:
    kernel(c, "5d000", "0000:5e:00.0", ADMISSIBLE)


@case
def nor_is_that_of_another_node(c: Case) -> None:
    kernel(c, "5d000", "0000:5d:00.0", ADMISSIBLE, host="b")


@case
def a_kernel_line_before_the_attempt_is_not_its(c: Case) -> None:
    kernel(c, "5d000", "0000:5d:00.0", ADMISSIBLE, stamp=at(-60))


@case
def nor_is_one_of_unknown_time(c: Case) -> None:
    kernel(c, "5d000", "0000:5d:00.0", ADMISSIBLE, stamp=None, utc=False)


# -- attempts


@case
def a_new_attempt_starts_clean_for_processes_that_start_in_it(c: Case) -> None:
    f = c.file()
    c.fault(f, 10, proc="pid:1", pid=1, stream="stderr")
    c.declare((f, 0, 50))
    c.record(f, 60, ADMISSIBLE, 2, proc="pid:2", pid=2)
    c.record(f, 70, AFTER, 1, proc="pid:1", pid=1, stream="stderr")


@case
def a_process_seen_before_the_cut_in_any_log_of_its_host_is_older(c: Case) -> None:
    f, g = c.file(), c.file()
    c.row("process_seen", g, 5, proc="pid:2", pid=2)
    c.row("process_seen", g, 6, proc="pid:3", pid=3)
    c.fault(f, 10, proc="pid:1", pid=1, stream="stderr")
    c.declare((f, 0, 50), (g, 0, 50))
    c.record(f, 60, UNKNOWN, 1, proc="pid:2", pid=2)
    c.record(f, 80, ADMISSIBLE, 2, proc="pid:4", pid=4)


@case
def a_log_that_rotates_after_the_cut_is_still_its_old_process(c: Case) -> None:
    f = c.file(single=True, stream="stderr")
    c.fault(f, 10)
    c.declare((f, 0, 50))
    c.record(f, 60, AFTER, 1)
    c.record(f, 10, UNKNOWN, 1, gen=1)


@case
def a_log_without_a_cut_appeared_later(c: Case) -> None:
    f, g = c.file(), c.file(single=True, pid=5)
    c.fault(f, 10, proc="pid:1", pid=1, stream="stderr")
    c.declare((f, 0, 50))
    c.record(g, 10, ADMISSIBLE, 2, proc="pid:5", pid=5)


@case
def a_record_of_an_unknown_process_stays_in_the_older_attempt(c: Case) -> None:
    f = c.file()
    c.fault(f, 10, proc="rank:0", stream="stderr")
    c.row("process_seen", f, 20, proc="rank:1")
    c.declare((f, 0, 50))
    c.record(f, 60, UNKNOWN, 1, proc="rank:1")


@case
def a_fault_of_an_unknown_process_after_the_cut_acts_on_both(c: Case) -> None:
    f, g = c.file(), c.file()
    c.row("process_seen", f, 5, proc="rank:0")
    c.row("process_seen", f, 6, proc="pid:1", pid=1)
    c.declare((f, 0, 50))
    c.record(f, 40, UNKNOWN, 1, proc="pid:1", pid=1)
    c.fault(f, 60, proc="rank:0", stream="stderr")
    c.record(g, 70, UNKNOWN, 2, proc="pid:9", pid=9)


@case
def one_before_it_acts_on_the_older(c: Case) -> None:
    f, g = c.file(), c.file()
    c.row("process_seen", f, 5, proc="rank:0")
    c.row("process_seen", f, 6, proc="pid:1", pid=1)
    c.declare((f, 0, 50))
    c.fault(f, 20, proc="rank:0", stream="stderr")
    c.record(f, 40, UNKNOWN, 1, proc="pid:1", pid=1)
    c.record(g, 70, ADMISSIBLE, 2, proc="pid:9", pid=9)


@case
def a_record_of_an_unknown_process_is_held_against_the_newer_attempt_too(c: Case) -> None:
    f = c.file()
    c.declare((f, 0, 50))
    c.row("process_seen", f, 5, proc="rank:0")
    c.fault(f, 60, proc="pid:2", pid=2, stream="stderr")
    c.record(f, 70, UNKNOWN, 1, proc="rank:0")
    c.record(f, 20, ADMISSIBLE, 1, proc="pid:1", pid=1)


@case
def a_cut_by_time_takes_the_first_stamp_of_a_process(c: Case) -> None:
    f, g = c.file(), c.file()
    c.fault(f, 10, proc="pid:1", pid=1, stamp=at(1), utc=True, stream="stderr")
    c.declare(time=at(30))
    c.row("process_seen", f, 20, proc="pid:2", pid=2, stamp=at(31), utc=True)
    c.record(f, 30, ADMISSIBLE, 2, proc="pid:2", pid=2, stamp=at(40), utc=True)
    c.row("process_seen", g, 20, proc="pid:3", pid=3, stamp=at(29), utc=True)
    c.record(g, 30, AFTER, 1, proc="pid:3", pid=3, stamp=at(40), utc=True)


@case
def a_process_whose_first_line_tells_no_time_acts_on_both_sides_of_it(c: Case) -> None:
    f = c.file()
    c.declare(time=at(30))
    c.row("process_seen", f, 10, proc="pid:1", pid=1)
    c.fault(f, 20, proc="pid:1", pid=1, stream="stderr")
    c.row("process_seen", f, 25, proc="pid:2", pid=2, stamp=at(31), utc=True)
    c.record(f, 30, UNKNOWN, 2, proc="pid:2", pid=2)


@case
def unless_the_fault_is_surely_older(c: Case) -> None:
    f = c.file()
    c.declare(time=at(30))
    c.row("process_seen", f, 10, proc="pid:1", pid=1)
    c.fault(f, 20, proc="pid:1", pid=1, stream="stderr", stamp=at(29), utc=True)
    c.row("process_seen", f, 25, proc="pid:2", pid=2, stamp=at(31), utc=True)
    c.record(f, 30, ADMISSIBLE, 2, proc="pid:2", pid=2)


@case
def the_third_attempt_is_clean_of_the_second(c: Case) -> None:
    f = c.file()
    c.declare((f, 0, 50))
    c.declare((f, 0, 150))
    c.record(f, 10, ADMISSIBLE, 1, proc="pid:1", pid=1)
    c.fault(f, 60, proc="pid:2", pid=2, stream="stderr")
    c.record(f, 70, AFTER, 2, proc="pid:2", pid=2, stream="stderr")
    c.record(f, 160, ADMISSIBLE, 3, proc="pid:3", pid=3)


# -- asking


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    made = {}
    for number, (name, build) in enumerate(CASES.items(), start=1):
        made[name] = Case(number)
        build(made[name])
    return made


@pytest.fixture(scope="module")
def seen(cases: dict[str, Case]) -> dict[Key, State]:
    store = WorldStore()
    store.fill([c.world for c in cases.values()], random.Random(1))
    return store.states()


def package(world: World) -> dict[Key, tuple[int, str, str]]:
    """The package's own definitions, for one run."""

    def line(r: Row) -> bounds.Line:
        return bounds.Line(
            r.src, r.gen, r.off, r.proc, r.stream, r.stamp, r.res, r.utc, r.after, r.after_utc, r.step, r.carried
        )

    def rule(r: Row) -> Rule:
        return world.rules.get(r.kind, Rule())

    sources = {
        s.id: bounds.Source(s.id, s.host, s.stream, s.console, s.single, s.pid, s.zone_s)
        for s in world.sources.values()
    }
    attempts = [writers.Declaration({s: (g, o) for s, g, o in a.cut}, a.time) for a in world.attempts]
    who = writers.Writers(sources, [writers.FirstLine(line(r), r.pid) for r in world.of("process_seen")], attempts)
    numbers = [line(r) for r in world.of("mismatch", "metric")]
    model = lock.Lock(
        who,
        [lock.FaultLine(line(r), r.verdict, rule(r).severity, rule(r).locks) for r in world.of("fault")],
        [lock.StepLine(line(r), r.step, r.edge == "end") for r in world.of("step_event") if r.step is not None],
        [line(r) for r in world.of("stamp_after")],
        numbers,
    )
    found = {}
    for r in world.of("mismatch"):
        said = model.judge(line(r))
        found[r.src, r.gen, r.off] = (model.place(line(r)).attempts[0], said.admissibility, said.reason)
    return found


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str, cases: dict[str, Case], seen: dict[Key, State]) -> None:
    c = cases[name]
    expected = {key: (c.attempts[key], *c.expected[key]) for key in c.expected}
    assert {key: seen[key][1:] for key in expected} == expected, "the views"
    assert {key: state[1:] for key, state in Oracle(c.world).all().items()} == expected, "the definitions of the tests"
    if c.whole:
        assert package(c.world) == expected, "the definitions of the package"


def test_a_kind_classed_anew_reaches_old_rows() -> None:
    c = Case(1)
    f = c.file(single=True, stream="stderr")
    c.fault(f, 10, "unheard-of", step=1)
    c.record(f, 20, AFTER)
    store = WorldStore()
    store.fill([c.world], random.Random(1))
    assert store.states()[f, 0, 20][2:] == AFTER
    c.world.rules["unheard-of"] = Rule("I", "never")
    store.fill([c.world], random.Random(2))
    assert store.states()[f, 0, 20][2:] == ADMISSIBLE
