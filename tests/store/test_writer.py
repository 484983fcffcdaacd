"""One transaction a tick: what is written, what is left out, and what a failure leaves behind."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from tests.store.samples import NOON, delta, fault, mismatch, source
from tic_daemon.errors import StoreError, StoreOwnedError
from tic_daemon.scan.events import At, Gap, Metric, Mismatch, ProcessSeen
from tic_daemon.store import writer as writer_module
from tic_daemon.store.layout import StoreLayout
from tic_daemon.store.rows import AttemptRow, MarkRow, SourceDelta
from tic_daemon.store.writer import Writer

Opener = Callable[[], Writer]


def ask(writer: Writer, sql: str) -> list[tuple[object, ...]]:
    cursor = writer.reader_cursor()
    try:
        return cursor.execute(sql).fetchall()
    finally:
        cursor.close()


def test_every_field_of_an_event_comes_back(open_writer: Opener) -> None:
    at = At(
        11, 22, 3, proc="pid:9", pid=9, rank=5, actor="TaskRunner", stream="stderr", stamp=NOON, stamp_res_us=1_000_000,
        stamp_utc=True, after_stamp=NOON - timedelta(hours=1), after_utc=True, step=8, step_carried=True, policy="v3",
    )  # fmt: skip
    event = Mismatch(
        at, run="r", input="i", phase="prefill", rank_text="5", repeat="2", scope="fixed-input", intervention="none",
        metric="logprob_mae", value=0.125, value_text="0.125", reference="ref", self_repeat=0.5,
        self_repeat_text="5e-1", report="p",
        classification="c", extra='{"a": 1}', parse_state="ok", raw="[mismatch] é 漢字",
    )  # fmt: skip
    writer = open_writer()
    assert writer.commit([delta(event, generation=4, offset=33)]) == 1
    ((row),) = ask(writer, "SELECT * FROM mismatch")
    observed = row[22]
    assert isinstance(observed, datetime)
    assert row == (
        1, writer.store_id, "node7", source().source_id, 4, 11, 22, 3, None, "pid:9", 9, 5, "TaskRunner", "stderr",
        NOON, 1_000_000, True, NOON - timedelta(hours=1), True, 8, True, "v3", observed,
        "r", "i", "prefill", "5", "2", "fixed-input", "none", "logprob_mae", 0.125, "0.125", "ref", 0.5, "5e-1",
        "p", "c", '{"a": 1}', "ok", "[mismatch] é 漢字",
    )  # fmt: skip
    assert ask(writer, "SELECT bytes, lines, events, sources, observed_at FROM ingest") == [(100, 2, 1, 1, observed)]


def test_values_that_do_not_fit_never_stop_a_tick(open_writer: Opener) -> None:
    writer = open_writer()
    hostile = [
        Metric(At(0, 1, 1, rank=10**30, step=-(10**40)), "k", math.nan, "nan\0\udc80'); DROP TABLE metric; --"),
        Metric(At(1, 1, 2, rank=3, step=4), "\ud800", math.inf, ""),
        Metric(At(2, 1, 3), "k" * 100_000, None, "\x1b]0;title\x07"),
    ]
    writer.commit([delta(*hostile, rank=2**40, path="/jobs/\udcff.log")])
    rows = ask(writer, "SELECT proc_rank, step, key, value, value_text FROM metric ORDER BY rec_id")
    assert rows[0][:3] == (None, None, "k")
    assert isinstance(rows[0][3], float) and math.isnan(rows[0][3])
    assert rows[0][4] == "nan\0\\udc80'); DROP TABLE metric; --"
    assert rows[1] == (3, 4, "\\ud800", math.inf, "")
    assert rows[2][2:] == ("k" * 100_000, None, "\x1b]0;title\x07")
    assert ask(writer, "SELECT rank, path FROM source") == [(None, "/jobs/\\udcff.log")]


def test_rec_id_increases_over_all_tables_and_restarts(open_writer: Opener) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0), fault(40), mismatch(80)), delta(fault(0), name="b.log")])
    writer.close()
    writer = open_writer()
    assert writer.commit([delta(mismatch(120))]) == 5
    ids = ask(
        writer, "SELECT rec_id, byte_offset FROM mismatch UNION ALL SELECT rec_id, byte_offset FROM fault ORDER BY 1"
    )
    assert ids == [(1, 0), (2, 40), (3, 80), (4, 0), (5, 120)]


def test_observed_at_never_decreases_when_the_clock_jumps(open_writer: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0))])
    monkeypatch.setattr(writer_module, "_utcnow", lambda: datetime(1999, 1, 1))
    writer.commit([delta(mismatch(40))])
    writer.close()
    writer = open_writer()
    writer.commit([delta(mismatch(80))])
    times = [row[0] for row in ask(writer, "SELECT observed_at FROM mismatch ORDER BY rec_id")]
    assert times == sorted(set(times), key=str) and len(set(times)) == 3


def test_cursors_and_sources_are_one_row_a_key_and_survive(open_writer: Opener) -> None:
    writer = open_writer()
    first = delta(mismatch(0), offset=40, state="growing", first_seen_at=NOON)
    writer.commit([first])
    second = delta(mismatch(40), offset=80, state="idle", first_seen_at=NOON, zone_s=3600)
    assert second.cursor is not None
    writer.commit([replace(second, cursor=replace(second.cursor, state='{"open": 1}', tail_hash="aa", closed=True))])
    writer.close()
    writer = open_writer()
    ((key, cursor),) = writer.cursors().items()
    assert key == (source().source_id, 0)
    assert (cursor.byte_offset, cursor.state, cursor.tail_hash, cursor.closed) == (80, '{"open": 1}', "aa", True)
    assert writer.sources() == {source().source_id: second.source}
    assert ask(writer, "SELECT state, zone_s FROM source_change ORDER BY observed_at") == [
        ("growing", None),
        ("idle", 3600),
    ]
    writer.commit([second])
    assert ask(writer, "SELECT count(*) FROM source_change") == [(2,)], "nothing of it has changed"


def test_deltas_of_one_generation_in_one_tick_are_joined(open_writer: Opener) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0), offset=40, provisional=(mismatch(40),)), delta(mismatch(40), offset=80)])
    assert ask(writer, "SELECT byte_offset FROM b_mismatch ORDER BY 1") == [(0,), (40,)]
    assert writer.cursors()[source().source_id, 0].byte_offset == 80


def test_provisional_rows_replace_each_other_and_give_way_to_final_ones(open_writer: Opener) -> None:
    writer = open_writer()
    seen = "SELECT byte_offset, byte_length FROM b_mismatch ORDER BY 1"
    open_record = Mismatch(At(40, 10, 2))
    writer.commit([delta(mismatch(0), offset=40, provisional=(open_record,))])
    assert ask(writer, seen) == [(0, 40), (40, 10)]
    longer = Mismatch(At(40, 25, 2))
    writer.commit([delta(offset=40, provisional=(longer, fault(90)))])
    assert ask(writer, seen) == [(0, 40), (40, 25)]
    before = ask(writer, "SELECT count(*) FROM mismatch")
    writer.commit([delta(offset=40, provisional=(longer, fault(90)))])
    assert ask(writer, "SELECT count(*) FROM mismatch") == before, "the same set is not written again"
    assert writer.cursors()[source().source_id, 0].prov is not None
    # After a restart a new set must not bring an old one back.
    writer.close()
    writer = open_writer()
    assert ask(writer, seen) == [(0, 40), (40, 25)]
    writer.commit([delta(Mismatch(At(40, 40, 2)), offset=80)])
    assert ask(writer, seen) == [(0, 40), (40, 40)]
    assert ask(writer, "SELECT count(*) FROM b_fault") == [(0,)]
    assert writer.cursors()[source().source_id, 0].prov is None
    writer.close()
    writer = open_writer()
    writer.commit([delta(offset=80, provisional=(Mismatch(At(80, 5, 3)),))])
    assert ask(writer, seen) == [(0, 40), (40, 40), (80, 5)]


def test_a_delta_without_cursor_leaves_cursor_and_provisional_rows_alone(open_writer: Opener) -> None:
    writer = open_writer()
    writer.commit([delta(offset=40, provisional=(mismatch(40),))])
    writer.commit([SourceDelta(source(state="vanished"))])
    assert ask(writer, "SELECT count(*) FROM b_mismatch") == [(1,)]
    assert ask(writer, "SELECT state FROM b_source") == [("vanished",)]
    with pytest.raises(ValueError, match="without a cursor"):
        writer.commit([SourceDelta(source(), None, (), (mismatch(0),))])


def test_nothing_to_write_writes_nothing(open_writer: Opener) -> None:
    writer = open_writer()
    assert writer.commit([]) == 0
    assert ask(writer, "SELECT count(*) FROM ingest") == [(0,)]


def test_marks_and_attempts_are_taken_once(open_writer: Opener) -> None:
    mark = MarkRow("m1", "r1", 2, "attempt", "", "inconclusive", "'; DROP TABLE mark; --", "eve", NOON, "login1")
    attempt = AttemptRow("a1", "r1", "now", None, "restarted", "eve", NOON, "login1", ((5, 0, 100), (6, 1, 0)))
    writer = open_writer()
    writer.commit([], marks=[mark], attempts=[attempt])
    assert writer.commit([], marks=[mark], attempts=[attempt]) == 2
    writer.close()
    writer = open_writer()
    writer.commit([], marks=[mark, replace(mark, id="m2")], attempts=[attempt])
    assert ask(writer, "SELECT rec_id, id, attempt, reason, marked_at FROM mark ORDER BY rec_id") == [
        (1, "m1", 2, mark.reason, NOON),
        (3, "m2", 2, mark.reason, NOON),
    ]
    assert ask(writer, "SELECT rec_id, id, run_id, who FROM run_attempt") == [(2, "a1", "r1", "eve")]
    assert ask(writer, "SELECT source_id, generation, byte_offset FROM attempt_cut ORDER BY 1") == [
        (5, 0, 100),
        (6, 1, 0),
    ]


def test_a_tick_that_fails_leaves_nothing_and_can_be_tried_again(
    open_writer: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0), offset=40)])
    cursors, tables = writer.cursors(), "SELECT (SELECT count(*) FROM mismatch), (SELECT count(*) FROM ingest)"
    insert = writer._insert

    def failing(sql: str, table: object) -> None:
        insert(sql, table)
        if " cursor " in sql:
            raise duckdb.IOException("the cable was pulled")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "_insert", failing)
        with pytest.raises(StoreError, match="cable"):
            writer.commit([delta(mismatch(40), offset=80)])
    assert ask(writer, tables) == [(1, 1)]
    assert writer.cursors() == cursors
    assert writer.commit([delta(mismatch(40), offset=80)]) == 2
    assert ask(writer, tables) == [(2, 2)]


@dataclass(frozen=True)
class Rule:
    kind: str
    severity: str = "L"
    locks: str = "always"
    node_scope: bool = False
    title: str = "t"
    pack: str = "cuda"
    product: str = "CUDA 12"


def test_fault_rules_are_those_of_today(open_writer: Opener) -> None:
    writer = open_writer()
    writer.put_fault_rules([Rule("a"), Rule("b")])
    writer.put_fault_rules([Rule("b", severity="I", locks="never"), Rule("c")])
    assert ask(writer, "SELECT kind, severity, locks FROM b_fault_rule ORDER BY 1") == [
        ("b", "I", "never"),
        ("c", "L", "always"),
    ]


def test_a_second_writer_is_refused_with_pid_and_host(workspace: Path, open_writer: Opener) -> None:
    writer = open_writer()
    script = (
        "import sys; from pathlib import Path\n"
        "from tic_daemon.store.layout import StoreLayout; from tic_daemon.store.writer import Writer\n"
        "Writer.open(StoreLayout.find(Path(sys.argv[1])))"
    )
    child = subprocess.run([sys.executable, "-c", script, str(workspace)], capture_output=True, text=True, check=False)
    assert child.returncode == 1
    assert "StoreOwnedError" in child.stderr
    assert f"pid {os.getpid()} on {writer.layout.host}" in child.stderr
    # Also when owner.json is gone: DuckDB's own lock is the second net.
    writer.layout.owner_file.unlink()
    child = subprocess.run([sys.executable, "-c", script, str(workspace)], capture_output=True, text=True, check=False)
    assert "StoreOwnedError" in child.stderr and f"pid {os.getpid()}" in child.stderr
    writer.commit([delta(mismatch(0))])


def test_a_writer_that_lost_its_store_writes_no_more(open_writer: Opener) -> None:
    writer = open_writer()
    writer.layout.owner_file.write_text('{"host": "other", "pid": 7, "token": "theirs"}')
    writer._owner.check()
    with pytest.raises(StoreOwnedError, match="taken over"):
        writer.commit([delta(mismatch(0))])
    writer.close()
    assert "theirs" in writer.layout.owner_file.read_text(), "the new owner's file is not removed"


def test_what_a_query_may_not_do(open_writer: Opener, tmp_path: Path) -> None:
    writer = open_writer()
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for sql in (
        f"SELECT * FROM read_csv('{secret}')",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        f"ATTACH '{tmp_path}/other.duckdb'",
        "SET threads = 8",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ):
        with pytest.raises(duckdb.Error):
            ask(writer, sql)
    staged = writer.layout.staging_dir / "faults.parquet"
    ask(writer, f"COPY (SELECT * FROM b_fault) TO '{staged}'")
    assert staged.exists(), "the staging directory alone may be written"


def test_state_is_private(open_writer: Opener) -> None:
    layout = open_writer().layout
    assert layout.state_dir.stat().st_mode & 0o777 == 0o700
    assert layout.directory.stat().st_mode & 0o777 == 0o700
    assert layout.database.stat().st_mode & 0o777 == 0o600
    assert layout.owner_file.stat().st_mode & 0o777 == 0o600


def test_checkpoint_when_the_wal_is_large_or_nothing_comes(
    open_writer: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0))])
    assert not writer.checkpoint_if_due()
    monkeypatch.setattr(writer_module, "WAL_BYTES", 100)
    assert writer.checkpoint_if_due()
    assert not writer.layout.wal.exists() or writer.layout.wal.stat().st_size == 0
    monkeypatch.undo()
    writer.commit([delta(mismatch(40))])
    monkeypatch.setattr(writer_module, "IDLE_S", 0.0)
    monkeypatch.setattr(writer._engine, "free_bytes", lambda: 10)
    assert not writer.checkpoint_if_due(), "not without twice the WAL free"
    assert writer.layout.wal.stat().st_size > 0


def test_large_checkpoints_write_nothing_again_and_quiet_ones_put_it_together(
    open_writer: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a backlog each checkpoint writes what is new, as a group of rows; every eighth, or one in quiet, makes one of
    them all."""
    writer = open_writer()
    groups = "SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('mismatch')"

    def write(first: int) -> None:
        writer.commit([delta(*(mismatch(40 * n) for n in range(first, first + 3)))])
        assert writer.checkpoint_if_due()

    monkeypatch.setattr(writer_module, "WAL_BYTES", 100)
    found = []
    for turn in range(9):
        write(3 * turn)
        found += ask(writer, groups)
    assert found == [(n,) for n in (1, 2, 3, 4, 5, 6, 7, 1, 2)]
    monkeypatch.setattr(writer_module, "WAL_BYTES", 1 << 20)
    monkeypatch.setattr(writer_module, "IDLE_S", 0.0)
    write(27)
    assert ask(writer, groups) == [(1,)]
    assert ask(writer, "SELECT count(*), count(DISTINCT byte_offset) FROM mismatch") == [(30, 30)]


def test_after_a_fatal_error_the_file_is_opened_again(open_writer: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = open_writer()
    writer.commit([delta(mismatch(0), offset=40)])
    held = writer.reader_cursor()

    def dying(*, merge: bool) -> None:
        raise duckdb.FatalException("database has been invalidated")

    with monkeypatch.context() as patch:
        patch.setattr(writer_module, "WAL_BYTES", 1)
        patch.setattr(writer._engine, "checkpoint", dying)
        assert not writer.checkpoint_if_due()
    with pytest.raises(duckdb.Error):
        held.execute("SELECT 1")
    assert writer.cursors()[source().source_id, 0].byte_offset == 40
    assert writer.commit([delta(mismatch(40), offset=80)]) == 2
    assert ask(writer, "SELECT count(*) FROM b_mismatch") == [(2,)]


def test_a_commit_that_landed_before_the_instance_died_is_not_repeated(
    open_writer: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_writer()
    write = writer._write

    def landed(*args: object, **kwargs: object) -> None:
        write(*args, **kwargs)  # type: ignore[arg-type]
        raise duckdb.FatalException("database has been invalidated")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "_write", landed)
        patch.setattr(writer._engine, "rollback", lambda: False)
        assert writer.commit([delta(mismatch(0), offset=40)]) == 1
    assert ask(writer, "SELECT count(*) FROM mismatch") == [(1,)]
    assert writer.cursors()[source().source_id, 0].byte_offset == 40


def test_a_file_that_is_no_store_is_refused_and_the_owner_file_goes(workspace: Path) -> None:
    layout = StoreLayout.find(workspace)
    layout.database.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="cannot open"):
        Writer.open(layout)
    assert not layout.owner_file.exists()


def test_gap_and_process_rows_have_their_tables(open_writer: Opener) -> None:
    writer = open_writer()
    writer.commit([delta(Gap(At(0, 1, 1), "truncated", 10, 20, "why"), ProcessSeen(At(0, 1, 1, proc="pid:1")))])
    assert ask(writer, "SELECT kind, first_byte, last_byte, detail FROM b_source_gap") == [("truncated", 10, 20, "why")]
    assert ask(writer, "SELECT proc FROM b_process_seen") == [("pid:1",)]
