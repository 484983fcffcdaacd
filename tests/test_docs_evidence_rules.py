"""docs/reference/rules-of-evidence.md: every rule names a test, and the test is there."""

from __future__ import annotations

import re

from tests.e2e.harness import ROOT

PAGE = (ROOT / "docs/reference/rules-of-evidence.md").read_text()
ROWS = [row for row in re.findall(r"^\| (.+) \|$", PAGE, flags=re.MULTILINE) if not row.startswith(("it says", "-"))]
IDS = ("manifest_sha256", "policy_content_id", "receipt_sha256")


def test_every_rule_names_a_test_that_is_there() -> None:
    assert len(ROWS) > 40
    for row in ROWS:
        said, kept, test = row.split(" | ")
        path, name = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", test).groups()  # type: ignore[union-attr]
        assert said and kept
        assert re.search(rf"^(?:async )?def {name}\(", (ROOT / path).read_text(), flags=re.MULTILINE), test


def test_no_rule_stands_twice() -> None:
    assert len({row.split(" | ")[0] for row in ROWS}) == len(ROWS)


def test_the_three_ids_are_never_compared() -> None:
    """No SQL and no code of the program holds two of them against each other, by join, equality or as one set."""
    for path in [
        *(ROOT / "daemon").rglob("*.sql"),
        *(ROOT / "daemon").rglob("*.py"),
        *(ROOT / "tic_tui").rglob("*.py"),
    ]:
        text = path.read_text()
        for one in IDS:
            for other in IDS:
                if one != other:
                    held = rf"{one}\W{{0,20}}(?:=|==|<>|!=|\bin\b|IS NOT DISTINCT FROM)\W{{0,20}}[\w.]*{other}"
                    assert not re.search(held, text), (path, one, other)
