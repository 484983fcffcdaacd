"""`tic-daemon verify`: a change of any byte of ledger, artifact or receipt is found, and named."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tests.ledger.made import declared, entry, frozen, sha, store
from tic_daemon import cli, verifying
from tic_daemon.ledger.entries import artifact
from tic_daemon.store.comparison_rows import ComparisonFileRow, ComparisonRow, ComparisonSaidRow
from tic_daemon.store.layout import StoreLayout, local_host
from tic_daemon.store.publish import Publisher
from tic_daemon.store.rows import ResultFileRow
from tic_daemon.store.writer import Writer
from tic_daemon.verifying import Found, verify

Damage = Callable[[duckdb.DuckDBPyConnection], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with results that were verified, and a ledger."""
    root = tmp_path_factory.mktemp("ws")
    results = root / "results" / "r1"
    results.mkdir(parents=True)
    data = random.Random(7).randbytes(300_000)
    (results / "a.pt").write_bytes(data)
    named = {"a": {"path": "a.pt", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
    (results / "manifest.json").write_text(json.dumps({"run": "r1", "artifacts": named}))
    assert cli.main(["watch", "--once", str(root)]) == 0
    shown = root / "closure.txt"
    shown.write_text("kernel.cu is not reached\n")
    digest = hashlib.sha256(shown.read_bytes()).hexdigest()
    parent, child = declared("a", 1, run="r1"), declared("b", 2)
    rows = [
        frozen(),
        parent,
        child,
        *(entry("case", 3 + n, body={"name": f"c{n}", "parts": {"fix": "x" * n}}) for n in range(1, 40)),
    ]
    rows.append(
        entry(
            "exemption", 99, candidate=child.candidate, target=parent.candidate, gate="module", reason="r",
            body={"closure": digest}, artifacts=[artifact(str(shown), shown.stat().st_size, digest, local_host())],
        )
    )  # fmt: skip
    with store(root, rows):
        pass
    return root


@pytest.fixture
def workspace(made: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged; its artifacts stay where they are."""
    shutil.copytree(made / ".tic", tmp_path / ".tic", symlinks=True)
    return tmp_path


def database(workspace: Path) -> Path:
    (found,) = workspace.glob(".tic/*/tic.duckdb")
    return found


def one(workspace: Path, head: str = "") -> Found:
    (found,) = verify(str(workspace), head)
    return found


def test_all_is_well(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = one(made)
    assert (found.rows, found.files, found.broken, found.exit_code) == (43, 3, 0, 0), found.breaks
    assert (
        found.bytes
        == 300_000 + (made / "closure.txt").stat().st_size + (made / "results/r1/manifest.json").stat().st_size
    )
    assert cli.main(["verify", str(made)]) == 0
    assert f"43 rows of the ledger hold, the last is {found.head}" in capsys.readouterr().out
    assert one(made, found.head).broken == 0
    assert one(database(made)).broken == 0, "the file alone"


@pytest.mark.parametrize(
    ("damage", "row"),
    [
        ("UPDATE ledger_row SET reason = 'other' WHERE seq = 7", 7),
        ("UPDATE ledger_row SET said_at = said_at + INTERVAL 1 MICROSECOND WHERE seq = 2", 2),
        ("UPDATE ledger_row SET label = 'PASS' WHERE seq = 43", 43),
        ("UPDATE ledger_row SET step = 1 WHERE seq = 43", 43),
        ("UPDATE ledger_row SET seq = NULL WHERE seq = 9", 10),
        ("UPDATE ledger_row SET id = NULL WHERE seq = 9", 9),
        ("DELETE FROM ledger_row WHERE seq = 1", 2),
        ("DELETE FROM ledger_row WHERE seq = 20", 21),
        ("INSERT INTO ledger_row SELECT * REPLACE ('again' AS id) FROM ledger_row WHERE seq = 5", 5),
        ("INSERT INTO ledger_row SELECT * REPLACE (44 AS seq) FROM ledger_row WHERE seq = 5", 44),
        ("UPDATE store SET store_id = 'aaaaaaaaaaaa'", 1),
    ],
)
def test_rows_that_were_changed(workspace: Path, damage: str, row: int) -> None:
    with duckdb.connect(str(database(workspace))) as con:
        con.execute(damage)
    found = one(workspace)
    assert found.exit_code == 10
    assert found.breaks[0].what == "chain" and f"row {row} " in f"{found.breaks[0].where} ", found.breaks


def test_rows_missing_at_the_end_are_found_by_a_hash_that_was_kept(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = one(workspace).head
    with duckdb.connect(str(database(workspace))) as con:
        con.execute("DELETE FROM ledger_row WHERE seq > 40")
    assert one(workspace).exit_code == 0, "a chain alone cannot show it"
    assert cli.main(["verify", str(workspace), "--head", head]) == 10
    assert "rows are missing at the end" in capsys.readouterr().out
    assert cli.main(["verify", str(workspace), "--head", "abc"]) == 2


def test_random_bytes_of_the_store(workspace: Path) -> None:
    """Where a byte of the ledger is hit, it is found; a byte of anything else may change nothing."""
    path = database(workspace)
    whole = path.read_bytes()
    rows = duckdb.connect(str(path), read_only=True).execute("SELECT * FROM ledger_row ORDER BY seq").fetchall()
    rng = random.Random(1)
    found_some = 0
    for _ in range(12):
        at = rng.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
        code = one(workspace).exit_code
        if code:
            found_some += 1
            continue
        with duckdb.connect(str(path), read_only=True) as con:
            assert con.execute("SELECT * FROM ledger_row ORDER BY seq").fetchall() == rows, at
    assert found_some > 2


def test_a_copy_that_holds_says_nothing_of_the_store(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that cannot be opened is read from what was published of it; to walk that is not to walk the store."""
    published(workspace)
    path = database(workspace)
    assert one(workspace).exit_code == 0
    whole = path.read_bytes()
    path.write_bytes(b"\0" * 4096 + whole[4096:])
    found = one(workspace)
    assert found.rows == 43 and found.exit_code == 15 and found.breaks[0].what == "store", found.breaks
    assert "walked is what was published of 20" in found.breaks[0].why
    path.unlink()
    found = one(workspace)
    assert (found.rows, found.breaks, found.exit_code) == (43, [], 12)
    assert cli.main(["verify", str(workspace)]) == 12
    assert "not the store itself: its file is not here; walked is what was published" in capsys.readouterr().out


def published(workspace: Path) -> None:
    """As a daemon leaves it that was killed: what it published is there beside its file."""
    layout = StoreLayout.find(workspace)
    with contextlib.closing(Writer.open(layout)) as writer:
        assert Publisher(writer.reader_cursor, layout, lambda: 1).publish()


def test_random_bytes_of_an_artifact(made: Path) -> None:
    path = made / "results/r1/a.pt"
    whole = path.read_bytes()
    rng = random.Random(2)
    try:
        for _ in range(6):
            at = rng.randrange(len(whole))
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
            found = one(made)
            assert found.exit_code == 14 and [b.where for b in found.breaks] == [str(path)]
            assert found.breaks[0].what == "artifact" and "SHA-256" in found.breaks[0].why
        path.write_bytes(whole[:-1])
        assert "299999 bytes, where 300000 are said" in one(made).breaks[0].why
        path.unlink()
        assert one(made).breaks[0].why == "there is no such file"
        path.mkdir()
        assert "no regular file" in one(made).breaks[0].why
        path.rmdir()
    finally:
        path.write_bytes(whole)
    assert one(made).exit_code == 0


def test_receipts_and_what_an_exemption_rests_on(made: Path) -> None:
    for path, what in ((made / "results/r1/manifest.json", "receipt"), (made / "closure.txt", "artifact")):
        whole = path.read_bytes()
        path.write_bytes(whole + b" ")
        try:
            found = one(made)
            assert found.exit_code == 14 and (found.breaks[0].what, found.breaks[0].where) == (what, str(path))
        finally:
            path.write_bytes(whole)


def test_a_manifest_that_grew_is_no_break_of_what_rests_on_it(tmp_path: Path) -> None:
    """Unless it says something else of the compared files, or nobody looked at what it says now."""
    path, side = tmp_path / "manifest.json", str(tmp_path / "a.pt")
    path.write_bytes(b"grown")
    here = local_host()
    now = ResultFileRow(here, str(tmp_path), str(path), "manifest", digest=sha("grown"), run="r1")
    row = entry("evidence", 1, target="c" * 16, run_id="r1", label="PASS", reason="r", manifest_sha256=sha("was"))
    files = [("manifest", str(path), sha("was")), ("said", side, "s" * 32)]
    compared = ComparisonRow(here, str(tmp_path), "c" * 16, "t" * 16, manifest=str(path), side_a=side, kind="tokens")
    told = [compared, *(ComparisonFileRow("c" * 16, *one) for one in files)]

    def breaks(*more: ComparisonSaidRow) -> list[str]:
        with store(tmp_path) as writer:
            writer.commit([], compared=list(more))
        return [one.words() for one in one(tmp_path).breaks]

    with store(tmp_path, [row]) as writer:
        writer.commit([], results=[now], compared=told)
    (found,) = breaks()
    assert found == f"receipt {path}: its SHA-256 is {sha('grown')}, where {sha('was')} is said"
    looked = ComparisonSaidRow(here, str(path), sha("grown"))
    assert breaks(ComparisonSaidRow(here, side, "s" * 32), looked) == []
    assert breaks(ComparisonSaidRow(here, side, "other")) == [found]


def test_files_that_are_too_many_are_not_left_out_unsaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        folder = tmp_path / "results" / name
        folder.mkdir(parents=True)
        (folder / "x.pt").write_bytes(b"1234")
        artifacts = {"x.pt": {"path": "x.pt", "size": 4, "sha256": hashlib.sha256(b"1234").hexdigest()}}
        (folder / "manifest.json").write_text(json.dumps({"run": name, "step": 1, "artifacts": artifacts}))
    assert cli.main(["watch", "--once", str(tmp_path)]) == 0
    assert cli.main(["verify", str(tmp_path)]) == 0 and "4 files" in capsys.readouterr().out
    monkeypatch.setattr(verifying, "FILES", 1)
    assert cli.main(["verify", str(tmp_path)]) == 15 and "over 1 files" in capsys.readouterr().out


def test_files_of_other_machines_are_no_break(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    away = artifact("/nowhere/at all\x1b[31m", 1, sha("x"), "another-host")
    here = artifact("/nowhere/here", 1, sha("x"), local_host())
    with store(tmp_path, [entry("case", 1, body={"name": "c", "parts": {"fix": "x"}}, artifacts=[away])]):
        pass
    assert cli.main(["verify", str(tmp_path)]) == 12
    assert "1 files are not seen from this machine" in capsys.readouterr().out
    with store(tmp_path, [entry("case", 2, body={"name": "c", "parts": {"fix": "x"}}, artifacts=[here])]):
        pass
    assert cli.main(["verify", str(tmp_path), "--json"]) == 14
    said = json.loads(capsys.readouterr().out)
    assert said["stores"][0]["breaks"] == [
        {"what": "artifact", "where": "/nowhere/here", "why": "there is no such file"}
    ]


def test_nothing_to_verify_and_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", str(tmp_path)]) == 15
    with store(tmp_path):
        pass
    assert cli.main(["verify", str(tmp_path)]) == 15
    assert "no evidence" in capsys.readouterr().out
    StoreLayout.find(tmp_path).database.write_bytes(b"no DuckDB at all")
    assert cli.main(["verify", str(tmp_path)]) == 15


def test_while_a_daemon_writes_it_is_asked(tmp_path: Path) -> None:
    """A store that is open elsewhere is read as every reader reads it; here there is no endpoint, so it cannot be."""
    with store(tmp_path, [frozen()]):
        assert one(tmp_path).exit_code == 15
    assert one(tmp_path).exit_code == 0
