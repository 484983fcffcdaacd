"""tic.toml: what it gives, and that nothing misspelt is ignored."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tic_daemon.config import (
    Config,
    LockConfig,
    PollConfig,
    ResultsConfig,
    glob_match,
    load_config,
    parse_config,
    zone_offset,
)
from tic_daemon.errors import ConfigError

FULL = """\
state_dir = ".tic-elsewhere"
who = "mkl"
host = "node17"
include = ["**/*.trace"]
exclude = ["**/tb/**"]
rules = ["my-rules", "/etc/tic/rules"]

[poll]
sweep_s = 2
network_threads = 4

[lock]
margin_s = 0.5
staleness = 3

[[source]]
path = "logs/**"
role = "rollout"
zone = "+05:30"

[[source]]
path = "logs/trainer*.log"
role = "trainer"
rank = 3
run = "grpo-a"
stream = "stderr"
single_process = true
console = false
network = false
framework = "verl"

[results]
hosts = ["node17", "login1"]

[[run]]
name = "old"
path = "jobs/**"

[[run]]
name = "new"
path = "jobs/2/**"
"""


def test_everything_said_is_kept() -> None:
    config = parse_config(FULL, Path("/w/tic.toml"))
    assert config.base == Path("/w") and config.file == Path("/w/tic.toml")
    assert config.state_dir == Path("/w/.tic-elsewhere")
    assert (config.who, config.host) == ("mkl", "node17")
    assert (
        config.results.hosts == ("node17", "login1") and config.results.on("login1") and not config.results.on("node1")
    )
    assert ResultsConfig().on("any") and not ResultsConfig(watch=False).on("any")
    assert config.include == ("**/*.trace",) and config.exclude == ("**/tb/**",)
    assert config.rules == (Path("/w/my-rules"), Path("/etc/tic/rules"))
    assert config.poll == PollConfig(sweep_s=2, network_threads=4)
    assert config.lock == LockConfig(margin_s=0.5, staleness=3)
    assert [(s.path, s.line) for s in config.sources] == [("logs/**", 16), ("logs/trainer*.log", 21)]
    assert [(r.name, r.line) for r in config.runs] == [("old", 35), ("new", 39)]


def test_later_entries_win_key_by_key() -> None:
    config = parse_config(FULL, Path("/w/tic.toml"))
    said = config.source_for("/w/logs/trainer_0.log")
    assert (said.role, said.rank, said.zone, said.stream, said.network) == ("trainer", 3, "+05:30", "stderr", False)
    assert config.source_for("/w/logs/x/y.log").role == "rollout"
    assert config.source_for("/elsewhere/y.log").role is None
    assert config.run_for("/w/logs/trainer_0.log") == "grpo-a"
    assert config.run_for("/w/jobs/1/a.log") == "old"
    assert config.run_for("/w/jobs/2/a.log") == "new"
    assert config.run_for("/w/x.log") == ""


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("who = 3", 1, "a text"),
        ("\n\nwhoo = 'x'", 3, "state_dir"),
        ("[poll]\nsweep = 1", 2, "sweep_s"),
        ("[poll]\nsweep_s = 'x'", 2, "a number from 0.01"),
        ("[poll]\nsweep_s = true", 2, "a number"),
        ("[poll]\nsweep_s = 0", 2, "a number"),
        ("[poll]\nsweep_s = nan", 2, "a number"),
        ("[lock]\nstaleness = 1.5", 2, "a whole number"),
        ("[[source]]\npath = 'a'\n\n[[source]]\npath = 'b'\nrole = 'boss'", 6, '"trainer"'),
        ("[[source]]\npath = 'a'\nzone = 'Mars/Base'", 3, "Asia/Tokyo"),
        ("[[source]]\nrole = 'trainer'", 1, "path"),
        ("[[run]]\npath = 'a'", 1, "name"),
        ("[source]\npath = 'a'", 1, "two brackets"),
        ("include = 'x'", 1, "a list of texts"),
        ("poll = 3", 1, "[poll]"),
        ("a = = 1", 1, "TOML"),
    ],
)
def test_what_is_not_allowed_is_an_error_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, Path("/w/tic.toml"))
    message = str(caught.value)
    assert f":{line}:" in message or f"line {line}" in message
    assert words in message


def test_files(tmp_path: Path) -> None:
    assert load_config(workspace=tmp_path) == Config(
        base=tmp_path, who=load_config(workspace=tmp_path).who, host=load_config(workspace=tmp_path).host
    )
    (tmp_path / "tic.toml").write_text('who = "me"')
    assert load_config(workspace=tmp_path).who == "me"
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "missing.toml")
    (tmp_path / "tic.toml").write_bytes(b'who = "\xff"')
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(workspace=tmp_path)


@pytest.mark.parametrize(
    ("pattern", "path", "is_match"),
    [
        ("*.log", "/w/deep/a.log", True),
        ("*.log", "/w/deep/a.logx", False),
        ("logs/*.log", "/w/logs/a.log", True),
        ("./logs/*.log", "/w/logs/a.log", True),
        ("logs/*.log", "/w/logs/x/a.log", False),
        ("logs/**", "/w/logs/x/a.log", True),
        ("**/x/*.log", "/anywhere/x/a.log", True),
        ("/abs/**/a.log", "/abs/a.log", True),
        ("/abs/[ab]?.log", "/abs/b1.log", True),
        ("/abs/[!ab]?.log", "/abs/b1.log", False),
        ("/abs/a+(b).log", "/abs/a+(b).log", True),
        ("/abs/[", "/abs/[", True),
        ("/abs/[z-a].log", "/abs/q.log", False),
    ],
)
def test_globs(pattern: str, path: str, is_match: bool) -> None:
    assert glob_match(pattern, path, "/w") is is_match


def test_a_base_with_glob_characters_is_literal() -> None:
    assert glob_match("logs/*", "/w[1]*/logs/a", "/w[1]*")
    assert not glob_match("logs/*", "/w1x/logs/a", "/w[1]*")


def test_zones() -> None:
    assert zone_offset("UTC") == 0
    assert zone_offset("-03:30") == -12600
    assert zone_offset("+9") == 32400
    assert zone_offset("Europe/Berlin", datetime(2026, 7, 1, tzinfo=UTC)) == 7200
    assert zone_offset("Europe/Berlin", datetime(2026, 1, 1, tzinfo=UTC)) == 3600
    for bad in ("+15:00", "nowhere", "../etc/passwd", ""):
        with pytest.raises(ValueError, match="no such"):
            zone_offset(bad)


@pytest.mark.parametrize("kind", ["directory", "pipe", "loop", "nowhere"])
def test_a_tic_toml_that_is_no_file_is_never_ignored(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "tic.toml"
    if kind == "directory":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("tic.toml" if kind == "loop" else "gone")
    with pytest.raises(ConfigError, match="no readable file"):
        load_config(workspace=tmp_path)


def test_a_tic_toml_nested_too_deeply(tmp_path: Path) -> None:
    (tmp_path / "tic.toml").write_text("x = " + "[" * 5000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_config(workspace=tmp_path)
