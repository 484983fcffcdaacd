"""`tic-daemon rules`: what people see of the packs."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tic_daemon.cli import main
from tic_daemon.errors import RuleError
from tic_daemon.rules_command import Trial, _forget_rare, explain, report, safe, try_file
from tic_daemon.scan.rule import COMMON_KEYS, KEYS
from tic_daemon.scan.rules import RuleSet
from tic_daemon.scan.rules_docs import KEY_TEXTS, markdown

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "tests" / "corpus" / "samples"
RULES = RuleSet.load()


def test_reference_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "reference" / "rules.md").read_text()
    assert page == markdown(RULES), "run: tic-daemon rules list --markdown > docs/reference/rules.md"
    assert all(f"`{rule.name}`" in page for rule in RULES.rules)


def test_every_key_of_a_rule_is_documented() -> None:
    assert set(KEY_TEXTS) == COMMON_KEYS.union(*KEYS.values())


def test_example_pack_of_the_how_to_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "how-to" / "add-a-rule.md").read_text()
    example = next(block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[[rule]]" in block)
    (tmp_path / "allocator.toml").write_text(example)
    assert main(["rules", "test", str(tmp_path)]) == 0
    assert f"{len(RULES.rules) + 1} rules" in capsys.readouterr().out


def test_test_says_which_line_of_which_rule_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "how-to" / "add-a-rule.md").read_text()
    example = next(block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[[rule]]" in block)
    # A bare exception line is not proved to come from the runtime: the pack promises too much.
    (tmp_path / "allocator.toml").write_text(example.replace("'[rank3]: Runtime", "'Runtime"))
    assert main(["rules", "test", str(tmp_path)]) == 2
    out = capsys.readouterr().out
    assert "FAIL allocator: allocator.poisoned: verdict suspect instead of confirmed" in out
    assert "RuntimeError: PoolAllocator" in out


def test_list_and_its_filter(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(RULES.rules)
    assert main(["rules", "list", "--pack", "kernel"]) == 0
    assert {line.split(".")[0] for line in capsys.readouterr().out.splitlines()} == {"xid", "sxid", "kern"}
    assert main(["rules", "list", "--pack", "nothing"]) == 2
    assert "no pack named 'nothing'" in capsys.readouterr().err


def test_explain_says_all_that_a_rule_says() -> None:
    rule = RULES.by_name["cuda.illegal_address"]
    text = explain(RULES, rule.name)
    for part in (rule.pattern, rule.source, rule.product, "severity   L, locks: always", *rule.match, *rule.no_match):
        assert part in text
    with pytest.raises(RuleError, match="no rule named") as caught:
        explain(RULES, "illegal_address")
    assert "cuda.illegal_address" in caught.value.hint


def test_rules_of_the_configuration_are_in_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "p.toml").write_text('pack = "p"\nversion = 1\n')
    (tmp_path / "tic.toml").write_text('rules = ["mine"]\n')
    assert main(["rules", "list", "--config", str(tmp_path / "tic.toml")]) == 2
    assert "p.toml: no rules" in capsys.readouterr().err


def test_try_counts_hits_and_unknown_lines() -> None:
    path = SAMPLES / "03_torchrun_ima_rank3.log"
    text = path.read_text()
    trial = try_file(RULES, path)
    assert trial.lines == len(text.splitlines())
    assert trial.hits["step.megatron", ""] == text.count("| consumed samples:")
    assert trial.hits["nccl.watchdog_timeout", "confirmed"] == text.count(
        "Watchdog caught collective operation timeout"
    )
    line = text.splitlines()[trial.first["cuda.illegal_address", "confirmed"] - 1]
    assert line.endswith("torch.AcceleratorError: CUDA error: an illegal memory access was encountered")
    assert trial.hits["transport.net", ""] == text.count("] via NET/")  # also where they say nothing new
    assert trial.unknown["Connected all rings, use ring PXN N GDR N"] == text.count("Connected all rings, use ring PXN")
    assert trial.known + trial.unknown.total() + sum(not one.strip() for one in text.splitlines()) == trial.lines
    shown = report(trial, 5)
    assert f"{trial.lines} lines, {trial.known} known" in shown
    assert "Connected all rings" in shown


def test_try_reads_gz_the_same(tmp_path: Path) -> None:
    path = SAMPLES / "04_sglang_server.log"
    packed = tmp_path / "a.log.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    one, two = try_file(RULES, path), try_file(RULES, packed)
    assert (one.lines, one.known, one.hits, one.unknown) == (two.lines, two.known, two.hits, two.unknown)


def test_try_survives_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\x00\xff\x1b]0;title\x07 x\n" * 3 + b"y" * 3_000_000 + b"\n[rank0]: step:3 - a:1\nstep:4 - a:1")
    trial = try_file(RULES, path)
    assert trial.lines == 6
    assert trial.hits["step.verl", ""] == 2
    assert "\x1b" not in report(trial, 9)
    assert "\x07" not in report(trial, 9)


def test_try_of_nothing_is_an_error_not_a_crash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "try", str(tmp_path / "none.log")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    (tmp_path / "broken.gz").write_bytes(b"no gzip")
    assert main(["rules", "try", str(tmp_path / "broken.gz")]) == 2


def test_rare_shapes_are_dropped_and_counted() -> None:
    trial = Trial()
    for number in range(50_001):
        trial.unknown[str(number)] = 2 if number < 10 else 1
        trial.examples[str(number)] = (number, "x")
    total = trial.unknown.total()
    _forget_rare(trial)
    assert len(trial.unknown) == len(trial.examples) == 25_000
    assert trial.unknown.total() + trial.dropped == total
    assert all(trial.unknown[str(number)] == 2 for number in range(10))


def test_control_characters_are_shown_not_sent() -> None:
    assert safe("a\x1b[2Jb\u202ec\td\n") == "a\\x1b[2Jb\\x202ec\td\n"
