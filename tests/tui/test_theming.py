"""Themes: all five load, give every tone, and paint; mistakes name the file."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.tui.fake import FakeStore
from tic_daemon.errors import ConfigError
from tic_tui import snapshot, theming
from tic_tui.app import TicApp

LOOKS = theming.load_all()


def test_five_themes_are_shipped() -> None:
    assert set(LOOKS) == {"tic-dark", "tic-light", "tic-high-contrast", "tic-colour-blind", "tic-ansi"}


@pytest.mark.parametrize("name", sorted(LOOKS))
async def test_each_paints_the_dialogs_too(name: str) -> None:
    store = FakeStore()
    store.demo()
    app = TicApp("/ws", look=LOOKS[name], opener=store.open, say=lambda said: "x")
    async with app.run_test() as pilot:
        while app.runs_view is None:
            await pilot.pause(0.02)
        await pilot.press("question_mark")
        await pilot.press("escape", "i")
        until = time.monotonic() + 20
        while not ("reason" in app.frame_text() and "grpo-tiny-a" in app.frame_text()):
            assert time.monotonic() < until, app.frame_text()
            await pilot.pause(0.02)


def test_no_color_always_means_the_theme_without_colours() -> None:
    assert theming.choose(LOOKS, "light", no_color=True).name == "tic-ansi"
    assert theming.choose(LOOKS, "light", no_color=False).name == "tic-light"
    assert theming.choose(LOOKS, "", no_color=False).name == theming.DEFAULT
    with pytest.raises(ConfigError, match="no theme 'pink'"):
        theming.choose(LOOKS, "pink", no_color=False)


def test_a_users_theme_wins_and_mistakes_name_the_file(tmp_path: Path) -> None:
    text = (theming.directory() / "dark.toml").read_text()
    mine = tmp_path / "mine.toml"
    mine.write_text(text.replace('locked = "bold #ff6b6b"', 'locked = "blink red"'))
    assert str(theming.load_all(tmp_path)["tic-dark"].tones["locked"]) == "blink red"
    for bad, words in (
        (text.replace("locked =", "licked ="), "lacks locked"),
        (text + 'extra = "red"\n', "unknown extra"),
        (text.replace('"bold #ff6b6b"', '"very red"'), "tone locked"),
        ("[", "cannot be read as TOML"),
    ):
        mine.write_text(bad)
        with pytest.raises(ConfigError, match=words) as raised:
            theming.load(mine)
        assert str(mine) in str(raised.value)


def test_a_picture_as_text_needs_no_terminal() -> None:
    store = FakeStore()
    store.demo()

    text = snapshot.text("/ws", run_id="grpo-tiny-a", opener=store.open)
    assert "LOCKED attempt 1" in text and len(text.splitlines()) == 24
