"""Evidence bundles: what is in them, that they verify anywhere, and that no change of one goes unseen."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.report.conftest import VALUES, Workspace, make
from tic_daemon import cli
from tic_daemon.report import evidence_files
from tic_daemon.report.checking import verify
from tic_daemon.report.container import is_bundle
from tic_daemon.store.united import public_views
from tic_daemon.verifying import Found

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


def files_of(bundle: Path) -> dict[str, bytes]:
    return {path.relative_to(bundle).as_posix(): path.read_bytes() for path in bundle.rglob("*") if path.is_file()}


def index_of(bundle: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((bundle / "bundle.json").read_text())
    return told


def sha(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def test_what_is_in_it(ws: Workspace, made: Path) -> None:
    files = files_of(made)
    folder = ws.root / "results" / "compared" / "step_1"
    for name in ("manifest.json", "rollout.pt", "trainer.pt"):
        raw = (folder / name).read_bytes()
        assert files[f"files/{sha(raw)}"] == raw, name
    criterion = (ws.root / "criterion.toml").read_bytes()
    assert files[f"criteria/{sha(criterion)}.toml"] == criterion
    (chain,) = [name for name in files if name.startswith("ledger/")]
    rows = [json.loads(line) for line in files[chain].splitlines()]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1)) and len(rows) == 8
    before = ""
    for row in rows:  # as docs/reference/bundle.md says it, with nothing of the program
        hashed = {key: row[key] for key in ("entry", "prev", "seq", "store")}
        assert row["row_hash"] == sha(json.dumps(hashed, sort_keys=True, separators=(",", ":")).encode())
        assert row["prev"] == before
        before = row["row_hash"]
    assert {row["entry"]["kind"] for row in rows} >= {"criterion", "candidate", "evidence", "supersede", "exemption"}
    index = index_of(made)
    assert index["stores"][0]["head"] == before and index["stores"][0]["rows"] == 8
    assert {one["path"] for one in index["files"]} == files.keys() - {"bundle.json", "statement.json"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in made.rglob("*")) and made.stat().st_mode & 0o077 == 0


def test_tables_are_those_of_the_run_alone(ws: Workspace, made: Path, locked: Path) -> None:
    assert pl.read_parquet(made / "tables" / "mismatches.parquet")["value"].to_list() == [0.5]
    assert pl.read_parquet(made / "tables" / "runs.parquet")["run_id"].to_list() == ["compared"]
    compared = pl.read_parquet(made / "tables" / "comparisons.parquet")
    assert compared["logprob_mae"].to_list() == [0.125] and compared["mismatched_tokens"].to_list() == [1]
    assert pl.read_parquet(made / "tables" / "gates.parquet")["candidate_id"].unique().to_list() == [ws.base]
    values = pl.read_parquet(locked / "tables" / "mismatches.parquet").sort("step")["value"].to_list()
    assert values == list(VALUES.values())
    assert pl.read_parquet(locked / "tables" / "locks.parquet")["run_id"].to_list() == ["broken"]
    assert pl.read_parquet(locked / "tables" / "gates.parquet").height == 0, "an empty table has its columns"
    for name, rows in ((one["file"], one["rows"]) for one in index_of(locked)["tables"]):
        assert pl.read_parquet(locked / name).height == rows, name


def test_the_statement_is_one_of_in_toto(made: Path) -> None:
    told = json.loads((made / "statement.json").read_text())
    assert told.keys() == {"_type", "subject", "predicateType", "predicate"}
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    digests = {one["name"]: one["digest"] for one in told["subject"]}
    assert digests == {name: {"sha256": sha(raw)} for name, raw in files_of(made).items() if name != "statement.json"}
    page = (Path(__file__).parents[2] / "docs" / "reference" / "bundle.md").read_text()
    assert f"`{told['predicateType']}`" in page
    assert all(f"`{name}`" in page for name in (*told["predicate"], *index_of(made))), "each field is documented"
    assert told["predicate"]["subject"]["runs"] == ["compared"]


def test_it_verifies_elsewhere(made: Path, packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(made, tmp_path / "there")
    assert cli.main(["verify", str(tmp_path / "there")]) == 0
    said = capsys.readouterr().out
    digest = sha((made / "statement.json").read_bytes())
    assert said.startswith("well") and f"bundle {digest}" in said and "8 rows of the ledger hold" in said
    assert cli.main(["verify", str(packed)]) == 0
    head = index_of(made)["stores"][0]["head"]
    for known in (digest, head):
        assert cli.main(["verify", str(made), "--head", known]) == 0
    assert cli.main(["verify", str(made), "--head", sha(b"")]) == 10
    capsys.readouterr()
    assert cli.main(["verify", str(packed), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["stores"]
    assert told["rows"] == 8 and told["breaks"] == [] and "hashes" not in told


def test_a_plain_tar_holds_it(packed: Path, tmp_path: Path) -> None:
    with tarfile.open(packed) as tar:
        tar.extractall(tmp_path / "out", filter="data")
    assert cli.main(["verify", str(tmp_path / "out")]) == 0


def test_what_is_left_out_and_what_changed_since(
    ws: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ws.root / "results" / "compared" / "step_1"
    before = (folder / "manifest.json").read_bytes()
    try:
        (folder / "manifest.json").write_bytes(before + b" ")
        bundle = make(ws, "compared", tmp_path / "b")
    finally:
        (folder / "manifest.json").write_bytes(before)
    said = capsys.readouterr().out
    assert "2 dumps are known by their SHA-256" in said and f"not in it: manifest {folder}/manifest.json" in said
    found = {one["path"]: one for one in index_of(bundle)["references"]}
    dump = folder / "rollout.pt"
    assert found[str(dump)]["file"] is None and found[str(dump)]["sha256"] == sha(dump.read_bytes())
    assert cli.main(["verify", str(bundle)]) == 12, "nothing is broken, and it is not whole"
    said = capsys.readouterr().out
    assert "2 dumps were left out" in said and f"its bytes are others by now: SHA-256 {sha(before + b' ')}" in said


def test_nothing_else_is_replaced(
    ws: Workspace,
    packed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = tmp_path / "mine"
    target.mkdir()
    (target / "thesis.tex").write_text("years")
    base = ["report", "fp8", "--at", str(ws.root), "--bundle"]
    assert cli.main([*base, str(target)]) == 2 and cli.main([*base, str(target), "--force"]) == 2
    assert (
        "no bundle, and is not replaced" in capsys.readouterr().err and (target / "thesis.tex").read_text() == "years"
    )
    with tarfile.open(packed) as tar:
        tar.extractall(tmp_path / "b", filter="data")
    assert cli.main([*base, str(tmp_path / "b")]) == 2
    (tmp_path / "b" / "report.md").unlink()
    (tmp_path / "b" / "notes.txt").write_text("mine")
    assert cli.main([*base, str(tmp_path / "b"), "--force"]) == 2 and "holds notes.txt" in capsys.readouterr().err
    (tmp_path / "b" / "notes.txt").unlink()
    kept, rename = files_of(tmp_path / "b"), Path.rename

    def refused(self: Path, target: Path) -> Path:
        if self.name == "bundle":
            raise OSError("the disk went away")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refused)
    assert cli.main([*base, str(tmp_path / "b"), "--force"]) == 2 and files_of(tmp_path / "b") == kept
    monkeypatch.undo()
    assert cli.main([*base, str(tmp_path / "b"), "--force"]) == 0
    with tarfile.open(packed) as tar:
        again = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    assert files_of(tmp_path / "b") == again, "the same store gives the same bytes"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "mine"], "nothing is left beside them"


def test_every_view_of_a_run_is_a_table(made: Path) -> None:
    """A view that comes later is to be in bundles, or to be named here."""
    left_out = {
        "ledger",  # the chain has it
        "attempt_states", "run_states",  # part of attempts and runs
        "arm_facts", "transport_pairs",  # of many runs
        "gpu_events", "gpu_samples",  # of no run
    }  # fmt: skip
    assert {one["view"] for one in index_of(made)["tables"]} == public_views().keys() - left_out


# --- what is found ------------------------------------------------------------------------------------------------


def first(bundle: Path) -> tuple[str, str, int]:
    """The first break, as its kind and place, and the exit code."""
    found = verify(bundle)
    assert found.breaks, "nothing was found"
    return found.breaks[0].what, found.breaks[0].where, int(found.exit_code)


@QUICK
@given(data=st.data())
def test_any_byte_of_a_file(made: Path, data: st.DataObject) -> None:
    """In place, and put back: 80 copies of a bundle would be the whole cost of the test."""
    name = data.draw(st.sampled_from(sorted(files_of(made))))
    path = made / name
    raw = path.read_bytes()
    at = data.draw(st.integers(0, len(raw) - 1))
    flip = data.draw(st.integers(1, 255))
    path.write_bytes(raw[:at] + bytes([raw[at] ^ flip]) + raw[at + 1 :])
    try:
        found = verify(made)
    finally:
        path.write_bytes(raw)
    assert found.breaks and found.exit_code in (10, 14, 15), (name, at, flip)


@QUICK
@given(at=st.integers(0, 1 << 30), flip=st.integers(1, 255))
@example(at=0, flip=1)
@example(at=136, flip=1)
@example(at=-1, flip=255)
def test_any_byte_of_a_tar(packed: Path, at: int, flip: int) -> None:
    """Headers, padding and the zeros at the end, too."""
    raw = packed.read_bytes()
    at %= len(raw)
    packed.write_bytes(raw[:at] + bytes([raw[at] ^ flip]) + raw[at + 1 :])
    try:
        found = verify(packed)
    finally:
        packed.write_bytes(raw)
    assert found.breaks and found.exit_code in (10, 14, 15), (at, flip)


@QUICK
@given(data=st.data())
def test_files_dropped_added_renamed_swapped(
    made: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    names = sorted(files_of(made))
    name = data.draw(st.sampled_from(names))
    path, aside = made / name, tmp_path_factory.getbasetemp() / "aside"
    what = data.draw(st.sampled_from(["drop", "add", "rename", "swap", "cut", "grow"]))
    raw = path.read_bytes()
    other = made / data.draw(st.sampled_from([one for one in names if one != name]))
    if what == "swap" and other.read_bytes() == raw:
        return  # two tables without rows may be the same
    second = other.read_bytes()
    added = path.with_name(f"x{path.name}")
    try:
        if what == "drop":
            path.unlink()
        elif what == "add":
            added.write_bytes(raw)
        elif what == "rename":
            path.rename(added)
        elif what == "swap":
            path.write_bytes(second)
            other.write_bytes(raw)
        else:
            path.write_bytes(raw[:-1] if what == "cut" else raw + b"\n")
        found = verify(made)
    finally:
        added.unlink(missing_ok=True)
        aside.unlink(missing_ok=True)
        path.write_bytes(raw)
        other.write_bytes(second)
    assert found.breaks and found.exit_code in (10, 14, 15), (what, name)
    assert not verify(made).breaks


def test_names_of_breaks(copy: Path) -> None:
    (copy / "report.md").write_text("all is well\n")
    assert first(copy) == ("file", "report.md", 14)
    (copy / "tables" / "mismatches.parquet").unlink()
    found = verify(copy)
    assert [one.where for one in found.breaks] == ["report.md", "tables/mismatches.parquet"]
    assert found.breaks[1].why == "it is missing"


def restated(bundle: Path, change: Any) -> None:
    """The index changed by somebody who knows how the statement follows from it."""
    told = index_of(bundle)
    change(told)
    raw = (json.dumps(told, indent=1) + "\n").encode()
    (bundle / "bundle.json").write_bytes(raw)
    stated = json.loads((bundle / "statement.json").read_text())
    listed = [(one["path"], one["sha256"]) for one in told.get("files", [])] + [("bundle.json", sha(raw))]
    stated["subject"] = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(listed)]
    stated["predicate"] = {name: told.get(name) for name in stated["predicate"]}
    (bundle / "statement.json").write_text(json.dumps(stated, indent=1) + "\n")


def rewritten(bundle: Path, name: str, raw: bytes) -> None:
    """A file changed together with what is said of it."""

    def change(told: dict[str, Any]) -> None:
        (one,) = [one for one in told["files"] if one["path"] == name]
        one["size"], one["sha256"] = len(raw), sha(raw)

    (bundle / name).write_bytes(raw)
    restated(bundle, change)


def test_a_row_of_the_ledger_that_was_changed_with_all_hashes_of_files(copy: Path) -> None:
    (name,) = [name for name in files_of(copy) if name.startswith("ledger/")]
    lines = (copy / name).read_bytes().splitlines(keepends=True)
    rows = [json.loads(line) for line in lines]
    (number,) = [number for number, row in enumerate(rows) if row["entry"]["kind"] == "supersede"]
    rows[number]["entry"]["reason"] = "never mind"
    changed = (json.dumps(rows[number], sort_keys=True, separators=(",", ":")) + "\n").encode()
    rewritten(copy, name, b"".join([*lines[:number], changed, *lines[number + 1 :]]))
    what, where, code = first(copy)
    assert (what, code) == ("chain", 10) and f"row {number + 1} " in where
    rewritten(copy, name, b"".join([*lines[:number], *lines[number + 1 :]]))
    assert first(copy)[0] == "chain"
    rewritten(
        copy, name, b"".join([*lines[: number + 1], lines[number + 1].replace(b":", b": ", 1), *lines[number + 2 :]])
    )
    assert first(copy)[0] == "chain", "one form only"
    rewritten(copy, name, b"".join(lines[:-1]))
    found = verify(copy)
    assert found.breaks[0].what == "chain" and "it ends at row 7, where 8 is said" in found.breaks[0].why
    restated(copy, lambda told: told["stores"][0].update(rows=7, head=rows[6]["row_hash"]))
    assert not verify(copy).breaks, "a shorter ledger is a ledger: that is what --head is for"
    assert verify(copy, rows[7]["row_hash"]).exit_code == 10


def test_what_rows_rest_on_must_be_there(copy: Path) -> None:
    manifest = next(one for one in index_of(copy)["references"] if one["what"] == "manifest")

    def without(told: dict[str, Any]) -> None:
        told["references"] = [one for one in told["references"] if one["sha256"] != manifest["sha256"]]
        told["files"] = [one for one in told["files"] if one["path"] != manifest["file"]]

    (copy / manifest["file"]).unlink()
    restated(copy, without)
    found = verify(copy)
    assert found.breaks[0].what == "artifact" and found.breaks[0].where == manifest["sha256"]
    assert found.exit_code == 14


def test_a_hash_of_several_receipts(copy: Path) -> None:
    """As the ledger names the receipts of several workers: one hash over theirs, sorted, a line each."""
    known = sorted(one["sha256"] for one in index_of(copy)["references"] if one["file"] is not None)[:2]
    digest = sha("\n".join(known).encode())
    files = [{"sha256": one, "role": "rollout"} for one in reversed(known)] + [{"sha256": sha(b"t"), "role": "trainer"}]
    found = evidence_files._together(digest, {*known, sha(b"t")}, files)
    assert (found.what, found.sha256, found.file) == ("receipts", digest, None)

    def told(*parts: str) -> Any:
        one = {**evidence_files.as_json([found])[0], "path": " ".join(parts)}
        return lambda index: index.update(
            references=[*(r for r in index["references"] if r["what"] != "receipts"), one]
        )

    restated(copy, told(*known))
    assert not verify(copy).breaks and verify(copy).exit_code == 0
    for parts in (known[:1], [*known, sha(b"x")], [sha(b"x"), sha(b"y")]):
        restated(copy, told(*parts))
        assert verify(copy).breaks[0].what == "artifact"
    other = evidence_files._together(sha(b"other"), set(known), files)
    assert other.what == "receipt" and other.why == "nothing says where it lies"


def test_a_criterion_that_was_exchanged(copy: Path) -> None:
    (name,) = [name for name in files_of(copy) if name.startswith("criteria/")]
    rewritten(copy, name, b'metric = "logprob_mae"\nat_most = 9.0\n')
    found = verify(copy)
    assert any(one.where == name and "not named by its own SHA-256" in one.why for one in found.breaks)


@pytest.mark.parametrize("version", [2, 0, "1", None, True])
def test_versions(copy: Path, version: Any) -> None:
    restated(copy, lambda told: told.update(version=version))
    found = verify(copy)
    if version == 2:
        assert found.exit_code == 15 and "version 2, and this program knows 1" in found.breaks[0].why
    else:
        assert found.exit_code == 10 and found.breaks[0].where == "bundle.json"


HOSTILE_INDEXES: list[Any] = [
    [],
    {"format": "tic-bundle", "version": 1},
    {"files": None},
    {"files": [{"path": "../../etc/passwd", "size": 1, "sha256": "0" * 64}]},
    {"files": [{"path": "/etc/passwd", "size": 1, "sha256": "0" * 64}]},
    {"files": [{"path": "report.md", "size": -1, "sha256": "0" * 64}]},
    {"files": [{"path": "report.md", "size": 1, "sha256": "zz"}]},
    {"files": [{"path": "report.md", "size": 1, "sha256": "0" * 64}] * 2},
    {"stores": [{"store_id": "../x", "rows": 1, "head": "h", "ledger": "ledger/../../x.jsonl"}]},
    {"stores": [{"store_id": 7}]},
    {"references": [{}]},
    {"subject": None},
    {"missing": [1]},
]


@pytest.mark.parametrize("said", HOSTILE_INDEXES, ids=range(len(HOSTILE_INDEXES)))
def test_hostile_indexes(copy: Path, said: Any) -> None:
    told = said if isinstance(said, list) or "format" in said else {**index_of(copy), **said}
    (copy / "bundle.json").write_text(json.dumps(told))
    found = verify(copy)
    assert found.breaks and found.exit_code in (10, 14)


def test_hostile_places(copy: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")

    def broken(where: str) -> None:
        found = verify(copy)
        assert where in {one.where for one in found.breaks}, found.breaks

    raw = (copy / "report.md").read_bytes()
    (copy / "report.md").unlink()
    (copy / "report.md").symlink_to(secret)
    broken("report.md")
    (copy / "report.md").unlink()
    os.mkfifo(copy / "report.md")
    broken("report.md")
    (copy / "report.md").unlink()
    (copy / "report.md").write_bytes(raw)
    (copy / "tables").rename(tmp_path / "tables")
    (copy / "tables").symlink_to(tmp_path / "tables")
    broken("tables")
    (copy / "tables").unlink()
    (tmp_path / "tables").rename(copy / "tables")
    assert not verify(copy).breaks
    (copy / "tables" / "more").mkdir()
    broken("tables/more")
    (copy / "tables" / "more").rmdir()
    (copy / "empty").mkdir()
    broken("empty")
    (copy / "empty").rmdir()
    (copy / "files" / "x\n\x1b[2J").write_text("")
    broken("files/x\n\x1b[2J")
    (copy / "files" / "x\n\x1b[2J").unlink()
    with (copy / "report.html").open("ab") as file:
        file.truncate(1 << 40)
    broken("report.html")  # and at once: what is longer than said is not read


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return raw.getvalue()


def member(name: str, data: bytes = b"{}", **other: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o600
    for key, value in other.items():
        setattr(info, key, value)
    return info, data


@pytest.mark.parametrize(
    "raw",
    [
        tar_of(member("../../evil")),
        tar_of(member("/etc/passwd")),
        tar_of(member("report.md", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")),
        tar_of(member("report.md", b"", type=tarfile.FIFOTYPE)),
        tar_of(member("report.md"), member("bundle.json")),
        tar_of(member("report.md"), member("report.md")),
        tar_of(member("report.md", mtime=1)),
        tar_of(member("files/" + "a" * 200)),
        member("report.md", b"", size=1 << 50)[0].tobuf(tarfile.GNU_FORMAT),
        tar_of(member("report.md"))[:700],
        b"\0" * 10240,
        b"",
        b"ustar" * 400,
    ],
    ids=range(13),
)
def test_hostile_tars(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "b.tar"
    path.write_bytes(raw)
    assert is_bundle(path)
    found: Found = verify(path)
    assert found.breaks and found.exit_code in (10, 14), found.breaks
    assert list(tmp_path.iterdir()) == [path], "nothing is unpacked"


def _made_anew(bundle: Path, index: dict[str, Any]) -> None:
    """Another index, with the statement that fits it."""

    def change(told: dict[str, Any]) -> None:
        told.clear()
        told.update(index)

    restated(bundle, change)


def test_an_index_that_was_made_anew_still_has_to_fit_the_files(copy: Path) -> None:
    whole = index_of(copy)
    _made_anew(copy, whole)
    assert verify(copy).breaks == [], "what was all made anew holds together: its hash tells it apart"
    table = next(one for one in whole["tables"] if one["view"] == "lamps")
    for change, why in (
        ({"stores": []}, "is not both a file and a table or ledger"),
        ({"tables": [one for one in whole["tables"] if one != table]}, "tables/lamps.parquet is not both"),
        ({"tables": [*whole["tables"], table]}, "twice"),
        (
            {"files": [one for one in whole["files"] if one["path"] != table["file"]]},
            "tables/lamps.parquet is not both",
        ),
        ({"files": [one for one in whole["files"] if one["path"] != "report.md"]}, "it does not name report.md"),
        ({"stores": [{**whole["stores"][0], "rows": -1}]}, "where a ledger ends"),
        ({"stores": [{**whole["stores"][0], "rows": float("nan")}]}, "it is no JSON"),
    ):
        _made_anew(copy, {**whole, **change})
        (one, *_) = verify(copy).breaks
        assert one.where == "bundle.json" and why in one.why, one


def test_what_a_bundle_says_begins_no_line_of_its_own(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = index_of(copy)
    forged = {
        "what": "receipt",
        "sha256": "",
        "path": "/x\nwell (exit code 0)\x1b[2J",
        "host": "",
        "size": None,
        "file": None,
        "why": "gone",
    }
    _made_anew(copy, {**index, "references": [*index["references"], forged]})
    assert cli.main(["verify", str(copy)]) == 12
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "inconclusive (exit code 12)" and not any(line.startswith("well") for line in lines)
    assert any(r"/x\nwell (exit code 0)\x1b[2J: gone" in line for line in lines)


def test_no_bundle_is_looked_for_in_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "b.tar")
    assert not is_bundle(tmp_path / "b.tar")
