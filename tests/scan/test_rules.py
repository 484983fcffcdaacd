"""The loader: what it refuses and how it says so; overriding; the sense of literals and patterns."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tic_daemon.errors import RuleError
from tic_daemon.scan import rule_lint
from tic_daemon.scan.rule import Rule
from tic_daemon.scan.rules import BUILT_IN, RuleSet, read_pack
from tic_daemon.scan.scanner import Scanner
from tic_daemon.scan.selftest import require
from tic_daemon.scan.traits import SourceTraits

HEAD = 'pack = "mine"\nversion = 1\n'
GOOD = """
[[rule]]
name = "mine.spill"
yields = "fault"
title = "the tank spilled"
severity = "L"
locks = "always"
literal = ["tank spilled"]
pattern = 'tank spilled at (?P<code>[0-9]{1,4})'
product = "tank 1"
source = "tank.cc"
match = ['[rank0]: tank spilled at 12']
no_match = ['the tank spilled nothing']
"""


def pack(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(RuleError) as caught:
        read_pack(pack(folder, text))
    assert "mine.toml" in caught.value.what
    assert caught.value.hint
    return str(caught.value)


def test_built_in_packs_pass_every_check_that_a_users_pack_must_pass() -> None:
    """A start does not check them: what it loads is what the checks let through."""
    paths = sorted(BUILT_IN.glob("*.toml"))
    assert tuple(read_pack(path) for path in paths) == RuleSet.load().packs and len(paths) > 15


def test_a_pattern_is_compiled_when_a_line_asks_for_it() -> None:
    rules = read_pack(BUILT_IN / "cuda.toml", checked=True).rules
    assert not any(_has(rule, "regex") for rule in rules)
    assert rules[0].find("nothing of the kind") is None
    assert [_has(rule, "regex") for rule in rules] == [True] + [False] * (len(rules) - 1)
    for rule in RuleSet.load().rules:
        assert rule.tells_who == bool({"pid", "rank"} & set(re.compile(rule.pattern, re.ASCII).groupindex))
    with pytest.raises(AttributeError, match="regexp"):
        rules[0].regexp  # type: ignore[attr-defined]  # noqa: B018


def _has(rule: Rule, name: str) -> bool:
    """Whether the attribute has its value, which a look at it would give it."""
    try:
        getattr(Rule, name).__get__(rule, Rule)
    except AttributeError:
        return False
    return True


def test_built_in_packs_load_and_fault_rules_are_rows() -> None:
    rules = RuleSet.load()
    rows = rules.fault_rules()
    assert len({row.kind for row in rows}) == len(rows) > 80
    assert all(row.title and row.product and row.severity in {"L", "LH", "N", "S", "E", "I"} for row in rows)
    assert [rule.order for rule in rules.rules] == sorted(rule.order for rule in rules.rules)
    assert {pack.name for pack in rules.packs} >= {
        "tic",
        "cuda",
        "engine",
        "nccl",
        "kernel",
        "process",
        "steps",
        "vllm",
    }


def test_good_pack_is_read(tmp_path: Path) -> None:
    rule = read_pack(pack(tmp_path, HEAD + GOOD)).rules[0]
    hit = rule.find("tank spilled at 12")
    assert hit is not None
    assert hit["code"] == "12"
    assert (rule.severity, rule.locks, rule.anchor, rule.needs_level) == ("L", "always", "start", True)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "mine.spill"\n', "", "no usable name"),
        ('name = "mine.spill"', 'name = "Mine Spill"', "no usable name"),
        ('yields = "fault"', 'yields = "disaster"', "'disaster' is not known"),
        ('severity = "L"', 'severity = "X"', "severity = 'X'"),
        ('severity = "L"\n', "", "severity = ''"),
        ('locks = "always"', 'locks = "sometimes"', "locks = 'sometimes'"),
        ('title = "the tank spilled"\n', "", "no title"),
        ('literal = ["tank spilled"]', 'literal = ["tan"]', "shorter than 4 bytes"),
        ('literal = ["tank spilled"]', "literal = []", "no literal"),
        ('literal = ["tank spilled"]\n', "", "no literal"),
        ('literal = ["tank spilled"]', 'literal = ["tank spilled", "never there"]', "no match line holds the literal"),
        ('literal = ["tank spilled"]', 'literal = "tank spilled"', "must be a list of texts"),
        ("pattern = 'tank spilled at", "pattern = 'tank (spilled at", "does not compile"),
        ("pattern = 'tank spilled at", "pattern = 'tank burst at", "does not match its own line"),
        ("{1,4})'", "{1,4}).*.*'", "can take minutes"),
        ("{1,4})'", "{1,4})(?:x+)+'", "can take minutes"),
        ('product = "tank 1"\n', "", "no product"),
        ('source = "tank.cc"\n', "", "no source"),
        ("match = ['[rank0]: tank spilled at 12']\n", "", "no match"),
        ("no_match = ['the tank spilled nothing']\n", "", "no no_match"),
        ("no_match = ['the tank spilled nothing']", "no_match = []", "no no_match"),
        ('source = "tank.cc"', 'source = "tank.cc"\nedge = "end"', "unknown key 'edge'"),
        ('source = "tank.cc"', 'source = "tank.cc"\nneeds_level = "no"', "must be true or false"),
        ('source = "tank.cc"', 'source = "tank.cc"\norder = true', "must be a whole number"),
        ("pattern = 'tank", "pattern = '{{TANK}}tank", "unknown macro {{TANK}}"),
    ],
)
def test_each_refusal_names_file_rule_and_remedy(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in GOOD
    message = refusal(tmp_path, HEAD + GOOD.replace(old, new, 1))
    assert words in message
    if "name = " not in old:
        assert "mine.spill" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pack = ", "no valid TOML"),
        ("", "no pack name"),
        (HEAD, "no rules"),
        (HEAD + "colour = 1\n" + GOOD, "unknown key 'colour'"),
        (HEAD + GOOD + GOOD, "stands twice"),
        (HEAD + "[define]\nA = '{{B}}'\nB = '{{A}}'\n" + GOOD.replace("'tank", "'{{A}}tank", 1), "in a circle"),
        (HEAD + "[define]\nA = 3\n" + GOOD, "must hold texts only"),
    ],
)
def test_file_refusals(tmp_path: Path, text: str, words: str) -> None:
    assert words in refusal(tmp_path, text)


def test_rules_of_other_kinds_say_what_they_miss(tmp_path: Path) -> None:
    def other(kind: str, more: str) -> str:
        rule = GOOD.replace('yields = "fault"', f'yields = "{kind}"')
        rule = rule.replace('severity = "L"\nlocks = "always"\n', more)
        return refusal(tmp_path, HEAD + rule)

    assert "no group 'step'" in other("step", 'edge = "end"\n')
    assert "edge = ''" in other("step", "")
    assert "no group 'bus'" in other("device", "")
    assert "either claimed or observed" in other("exec_state", 'role = "rollout"\nfield = "dtype"\n')
    assert "field = 'colour'" in other("exec_state", 'role = "rollout"\nfield = "colour"\n')
    assert "no group 'mode'" in other("exec_state", 'role = "rollout"\nfield = "dtype"\nclaimed = "{mode}"\n')
    assert "phase = 'boiled'" in other("weight_phase", 'role = "rollout"\ntrack = "cache"\nphase = "boiled"\n')
    assert "needs phase and seconds" in other("timing", "")


def test_macros_nest(tmp_path: Path) -> None:
    define = "[define]\nA = '{{B}} at'\nB = 'tank spilled'\n"
    rule = read_pack(pack(tmp_path, HEAD + define + GOOD.replace("'tank spilled at ", "'{{A}} "))).rules[0]
    assert rule.pattern.startswith("tank spilled at (?P<code>")


def test_shared_macros_are_there_and_a_packs_own_go_before_them(tmp_path: Path) -> None:
    use = GOOD.replace("'tank spilled", "'{{EXC}}tank spilled", 1)
    shared = read_pack(pack(tmp_path, HEAD + use)).rules[0]
    assert shared.regex.match("torch.AcceleratorError: tank spilled at 7")
    own = read_pack(pack(tmp_path, HEAD + "[define]\nEXC = '(?:oh: )?'\n" + use)).rules[0]
    assert own.regex.match("oh: tank spilled at 7")
    assert not own.regex.match("torch.AcceleratorError: tank spilled at 7")


def test_user_pack_extends_and_overrides_only_when_it_says_so(tmp_path: Path) -> None:
    pack(tmp_path, HEAD + GOOD)
    assert "mine.spill" in RuleSet.load([tmp_path]).by_name
    second = tmp_path / "second"
    second.mkdir()
    pack(second, HEAD + GOOD.replace('severity = "L"', 'severity = "LH"'))
    with pytest.raises(RuleError, match="name is taken") as caught:
        RuleSet.load([tmp_path, second])
    assert str(tmp_path / "mine.toml") in str(caught.value)
    assert "override = true" in caught.value.hint
    pack(second, HEAD + GOOD.replace('severity = "L"', 'severity = "LH"\noverride = true'))
    assert RuleSet.load([tmp_path, second]).by_name["mine.spill"].severity == "LH"
    with pytest.raises(RuleError, match="does not exist"):
        RuleSet.load([second])


def test_missing_directory_and_unreadable_file_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no directory"):
        RuleSet.load([tmp_path / "nowhere"])
    with pytest.raises(RuleError, match="cannot be read"):
        read_pack(tmp_path / "nothing.toml")


def test_pack_whose_lines_do_not_behave_is_refused_by_name(tmp_path: Path) -> None:
    # A wrapper that no line has: the rule would sleep for ever.
    pack(tmp_path, HEAD + GOOD + 'wrap = "kernal"\n')
    rules = RuleSet.load([tmp_path])
    with pytest.raises(RuleError, match=r"pack mine: rule mine\.spill: verdict mention instead of confirmed") as caught:
        require(rules, Scanner(rules))
    assert "rules test" in caught.value.hint
    good = tmp_path / "good"
    good.mkdir()
    pack(good, HEAD + GOOD)
    rules = RuleSet.load([good])
    require(rules, Scanner(rules))


# Patterns that cannot blow up


@pytest.mark.parametrize(
    "pattern", [r"(a+)+", r"(?:ab|c.*)+", r".*.*x", r"\w+\d+", r"a[^,]*[, ][^,]*", r"(?!x).*a.*", r"(?:\w{0,40}x?)*"]
)
def test_dangerous_patterns_are_refused(pattern: str) -> None:
    assert rule_lint.complaint(pattern)


@pytest.mark.parametrize("pattern", [r"a.*b.*c", r"(?:\w{1,80}: ){0,4}x", r"\w+ \w+", r"(?!x)a.*", r"[a-z]{3}\d+$"])
def test_harmless_patterns_pass(pattern: str) -> None:
    assert rule_lint.complaint(pattern) == ""


RULES = RuleSet.load().rules


def test_no_pattern_takes_long_on_hostile_lines() -> None:
    """4 KiB is all that a pattern is ever shown at once."""
    worst = {}
    for rule in RULES:
        text = re.sub(r"\s*$", "", rule.match[0])
        lines = [
            (text * 80)[:4096], (text + "a" * 4096)[:4096], (text + " " * 4096)[:4096], ("A: " * 2048)[:4096],
            ("CUDA error (" * 512)[:4096], ("[PG " * 1024)[:4096], "x" * 4096, ("a.b(c): " * 512)[:4096],
        ]  # fmt: skip
        for line in lines:
            begin = time.process_time()
            rule.regex.search(line)
            rule.find(line)
            worst[rule.name] = max(worst.get(rule.name, 0.0), time.process_time() - begin)
    name = max(worst, key=lambda key: worst[key])
    assert worst[name] < 0.5, (name, worst[name])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_whatever_a_pattern_matches_holds_one_of_its_literals(rule: Rule) -> None:
    """The literal decides which lines are looked at: a pattern that can match without one would miss lines."""

    @settings(
        max_examples=10, database=None, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.from_regex(rule.regex))
    def holds(text: str) -> None:
        assert any(literal in text for literal in rule.literals)

    holds()


def test_patterns_of_the_program_are_harmless() -> None:
    complaints = {rule.name: rule_lint.complaint(rule.pattern) for rule in RuleSet.load().rules}
    assert len(complaints) > 100 and not any(complaints.values())


def test_a_users_copy_of_a_pack_is_checked(tmp_path: Path) -> None:
    text = HEAD + GOOD.replace("'tank spilled at ", "'.*.*tank spilled at ")
    assert "minutes" in refusal(tmp_path, text)


def test_five_hundred_more_rules_run_beside_the_packs(tmp_path: Path) -> None:
    rules = [
        GOOD.replace("mine.spill", f"mine.r{n}").replace("tank spilled", f"plant number {n} spilled")
        for n in range(500)
    ]
    (tmp_path / "many.toml").write_text(HEAD + "\n".join(rules))
    loaded = RuleSet.load([tmp_path])
    assert len(loaded.rules) == len(RULES) + 500
    many = Scanner(loaded)
    require(loaded, many)
    data = (Path(__file__).parents[1] / "corpus" / "samples" / "03_torchrun_ima_rank3.log").read_bytes()
    events = many.open(SourceTraits()).feed(data)
    assert list(map(repr, events)) == list(map(repr, Scanner(RuleSet.load()).open(SourceTraits()).feed(data)))
