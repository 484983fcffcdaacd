"""What `tic-daemon report` says of runs and candidates, against what the workspace's files were written with."""

from __future__ import annotations

import os
import re
import stat
import tarfile
from datetime import datetime, tzinfo
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.report.conftest import HOSTILE, VALUES, Workspace
from tic_daemon import cli


class Page(HTMLParser):
    """Tags with their attributes, and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def report(ws: Workspace, capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert cli.main(["report", *argv, "--at", str(ws.root)]) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def broken(locked: Path) -> dict[str, str]:
    """Both forms of the report of the run that a fault locks."""
    return {name: (locked / name).read_text(encoding="utf-8") for name in ("report.md", "report.html")}


def sections(markdown: str) -> dict[str, str]:
    """The sections of a report by title."""
    parts = re.split(r"^## (.*)$", markdown, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_a_locked_run(broken: dict[str, str]) -> None:
    found = sections(broken["report.md"])
    measured = found["Measured"]
    assert "4 records, of which 2 are evidence" in measured
    for step, value in VALUES.items():
        line = next(line for line in measured.splitlines() if line.startswith(f"| 1 | {step} | `{step}` |"))
        assert f"| {value:.6g} |" in line and f"| {value / 0.0625:.6g} |" in line, "value and ratio, as printed"
        assert ("**locked**: after the fault" in line) == (step == 4)
        assert ("**suspect**: fault reported in or before this step" in line) == (step == 3)
        assert "stderr.log:" in line
    lock = found["Faults and the lock"]
    assert "Attempt 1 is **locked** by 1 fault" in lock and "an illegal memory access was encountered" in lock
    assert "| shown to be before the fault, and not locked | 3 |" in lock
    assert "| after the fault: kept, and no evidence | 1 |" in lock
    assert "| note | the run | " in found["Marks"] and "owned\\x07" in found["Marks"]
    assert "Next step: " in found["Summary"] and "**locked by a fault**" in found["Summary"]
    assert "No verdict" in found["Hints"] or "no verdict" in found["Hints"]


def test_every_part_is_there(broken: dict[str, str]) -> None:
    wanted = {
        "Summary", "Measured", "Comparisons", "Faults and the lock", "Marks", "Execution state", "Attempts", "What it was made of",
        "Steps and W&B", "Gaps of the evidence", "Ledger", "Hints", "Where this is from",
    }  # fmt: skip
    assert {title.replace("\\", "") for title in sections(broken["report.md"])} == wanted
    page = Page(broken["report.html"])
    assert wanted <= set(page.words)


def test_the_page_runs_nothing_and_fetches_nothing(broken: dict[str, str]) -> None:
    page = Page(broken["report.html"])
    names = {tag for tag, _ in page.tags}
    assert not names & {
        "script",
        "iframe",
        "object",
        "embed",
        "link",
        "img",
        "form",
        "base",
        "foreignobject",
        "image",
        "use",
    }
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "src", "xlink:href"):
                assert value is not None and value.startswith("#"), (tag, value)
    assert "default-src 'none'" in broken["report.html"]
    told = "".join(page.words)
    assert HOSTILE.replace("\x1b", "\\x1b").replace("\x07", "\\x07") in told, (
        "as text, and a terminal does nothing either"
    )
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", broken["report.html"] + broken["report.md"])


def test_markdown_holds_no_more_than_text(broken: dict[str, str]) -> None:
    parsed = MarkdownIt("commonmark").enable("table").parse(broken["report.md"])
    inline = [child for token in parsed for child in (token.children or [])]
    assert not {child.type for child in inline} & {"link_open", "html_inline"}
    images = {str(child.attrs["src"]) for child in inline if child.type == "image"}
    assert images == {"plots/mismatch-0.svg"}, "of the bundle's own"
    assert "html_block" not in {token.type for token in parsed}
    shown = HOSTILE.replace("\x1b", "\\x1b").replace("\x07", "\\x07").replace("|", "\\x7c")
    assert shown in {child.content for child in inline if child.type == "code_inline"}, "one cell, whole"
    rows = [token for token in parsed if token.type == "tr_open"]
    assert len(rows) > 20


def test_a_candidate(packed: Path) -> None:
    with tarfile.open(packed) as tar:
        found = sections(tar.extractfile("report.md").read().decode())  # type: ignore[union-attr]
    assert "| image.digest | `7` | `8` |" in found["What it is"] and "Made from `base (" in found["What it is"]
    assert "module/all cells" in found["Exemptions"] and "kernel.cu" not in found["Exemptions"]
    assert "Nothing was judged of it" in found["Evidence"]
    gates = found["Gates"]
    assert gates.count("| not run") >= 16 and "which has no pass here to carry over" in gates


def test_what_was_superseded_stays(ws: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    text = report(ws, capsys, "base")
    found = sections(text)
    evidence = found["Evidence"]
    assert "**superseded**" in evidence and "counts no more" in evidence
    ledger = found["What people said in the ledger"]
    assert "the image was another" in ledger and "supersede" in ledger
    assert (
        "pending review" in found["Baselines"]
        and "not shown" in found["Case record"]
        and "`the mask`" in found["Case record"]
    )
    assert "zero\\_update/replay" in found["Criteria"] and "`one bit`" in found["Criteria"]


def test_a_comparison(made: Path) -> None:
    found = sections((made / "report.md").read_text(encoding="utf-8"))["Comparisons"]
    assert "| 1 of 4 |" in found and "`r` position 2" in found
    assert "mean 0.125, largest 0.5" in found, "of differences 0, 0, 0.5 and 0"
    assert "| 2^0 | 1 |" in found, "0.5 is below 1 and not below a half"
    assert "Not yet proven:" in found


def _moment_of(markdown: str) -> str:
    """The moment that a report says it is of."""
    found = re.search(r"as of ([0-9: .-]+) UTC", sections(markdown)["Where this is from"])
    assert found is not None
    return found[1]


def test_the_same_moment_gives_the_same_report(
    ws: Workspace, broken: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    first = broken["report.md"]
    again = report(ws, capsys, "broken", "--as-of", _moment_of(first))
    assert again == first.replace("![logprob\\_mae: the largest value of each step](plots/mismatch-0.svg)\n\n", "")
    assert cli.main(["report", "broken", "--at", str(ws.root), "--as-of", "2020-01-01"]) == 15
    assert "no run and no candidate 'broken' as of 2020-01-01" in capsys.readouterr().err


def test_names_that_are_not_clear(ws: Workspace, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def error(*argv: str) -> tuple[int, str]:
        code = cli.main(["report", *argv, "--at", str(ws.root)])
        return code, capsys.readouterr().err

    code, said = error("nobody")
    assert (
        code == 15
        and "no run and no candidate 'nobody'" in said
        and "runs: broken, compared, empty" in said
        and "base" in said
    )
    code, said = error("b")
    assert code == 2 and "may be 2: candidate base, run broken" in said and "name more" in said
    code, said = error("")
    assert code == 15 and "no run" in said
    code, said = error("broken", "--as-of", "2999-01-01")
    assert code == 2 and "still to come" in said
    taken = tmp_path / "r.md"
    taken.write_text("mine")
    code, said = error("broken", "-o", str(taken))
    assert code == 2 and "exists" in said and taken.read_text() == "mine"
    assert error("empty", "-o", str(taken), "--force")[0] == 0 and taken.read_text().startswith("# Run `empty`")
    assert taken.stat().st_mode & 0o777 == 0o600 and list(tmp_path.iterdir()) == [taken], "nothing is left beside it"
    nothing = sections(taken.read_text())
    assert (
        "Nothing: no log of the run has a" in nothing["Measured"]
        and "No fault locks it" in nothing["Faults and the lock"]
    )
    assert "No dumps of both sides were compared" in nothing["Comparisons"]
    assert (
        "| **inconclusive** | the run | `nobody looked` |" in nothing["Marks"]
        and "**marked inconclusive**" in nothing["Summary"]
    )
    os.mkfifo(tmp_path / "pipe")
    code, said = error("empty", "-o", str(tmp_path / "pipe"), "--force")
    assert code == 2 and "no regular file" in said and stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)
    code, said = error("broken", "-o", str(tmp_path / "no" / "r.md"))
    assert code == 2 and "cannot write" in said
    assert error("broken", "--artifacts")[0] == 2
    assert error("broken", "--bundle", str(tmp_path / "b"), "-o", str(taken))[0] == 2


def test_a_clock_that_is_behind_leaves_nothing_out(
    ws: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the store's host, or of who marked a run: what they said by then is in the report."""
    there = report(ws, capsys, "broken")

    class Behind(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Behind:
            return cls.fromtimestamp(datetime.now().timestamp() - 86400, tz)

    monkeypatch.setattr("tic_daemon.report.moment.datetime", Behind)
    assert report(ws, capsys, "broken") == there
