"""What is not documented fails here: settings, commands, exit codes; and links that lead nowhere."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

import pytest

from tests.e2e.harness import ROOT
from tic_daemon import cli, config

DOCS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("samples/*.md")])


@pytest.mark.parametrize(
    "section",
    [
        config.Config,
        config.PollConfig,
        config.LockConfig,
        config.EndpointConfig,
        config.StoreConfig,
        config.GpuConfig,
        config.WandbConfig,
        config.WandbRunConfig,
        config.ResultsConfig,
        config.CompareConfig,
        config.ComparisonConfig,
        config.SourceConfig,
        config.RunConfig,
        config.PairConfig,
    ],
)
def test_every_setting_is_documented(section: type) -> None:
    text = (ROOT / "docs/reference/tic-toml.md").read_text()
    internal = {
        "base",
        "file",
        "line",
        "poll",
        "lock",
        "endpoint",
        "store",
        "gpu",
        "wandb",
        "results",
        "compare",
        "comparisons",
        "sources",
        "runs",
        "pairs",
    }
    for field in dataclasses.fields(section):  # type: ignore[arg-type]
        if field.name not in internal:
            assert f"| `{field.name}` |" in text, f"{section.__name__}.{field.name}"


@pytest.mark.parametrize(("section", "instance"), [("poll", config.PollConfig()), ("lock", config.LockConfig())])
def test_documented_defaults_are_the_defaults(section: str, instance: object) -> None:
    text = (ROOT / "docs/reference/tic-toml.md").read_text().split(f"## [{section}]")[1].split("\n## ")[0]
    told = {key: float(value) for key, value in re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", text, flags=re.MULTILINE)}
    assert told == {field.name: float(getattr(instance, field.name)) for field in dataclasses.fields(instance)}  # type: ignore[arg-type]


def test_documented_defaults_of_gpus_are_the_defaults() -> None:
    text = (ROOT / "docs/reference/tic-toml.md").read_text().split("## [gpu]")[1].split("\n## ")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", text, flags=re.MULTILINE))
    settings = config.GpuConfig()
    assert told == {"watch": str(settings.watch).lower(), "every_s": f"{settings.every_s:g}"}


def test_documented_defaults_of_wandb_are_the_defaults() -> None:
    text = (ROOT / "docs/reference/tic-toml.md").read_text().split("## [wandb]")[1].split("\n## ")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", text, flags=re.MULTILINE))
    settings = config.WandbConfig()
    values = {each.name: getattr(settings, each.name) for each in dataclasses.fields(settings)}
    assert told == {
        name: str(value).lower() if isinstance(value, bool) else f"{value:g}" if value != "" else '""'
        for name, value in values.items()
        if name not in ("runs", "keys")
    }


def test_every_command_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    (commands,) = (a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name in commands.choices:
        assert f"`tic-daemon {name}" in text, name


def test_each_command_is_found_where_the_command_line_looks_for_it() -> None:
    def choices(parser: argparse.ArgumentParser) -> list[str]:
        (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        return list(commands.choices)

    whole = choices(cli.parser())
    assert whole == [*("watch", "doctor"), *(name for names in cli.COMMANDS.values() for name in names)]
    for name in whole:
        assert name in choices(cli.parser(name))
        assert set(choices(cli.parser(name))) >= cli.OWN
    assert len(choices(cli.parser("watch"))) == len(cli.OWN) == 2
    assert choices(cli.parser("nonsense")) == ["watch", "doctor"]


def test_readme_shows_demo_and_test_first() -> None:
    first = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first[1].splitlines()] == ["make demo", "make test"]


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
