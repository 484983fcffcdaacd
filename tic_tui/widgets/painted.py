"""From lines to the terminal: the two widgets that everything is drawn with.

`Painted` shows as many lines as it is given. `Listing` scrolls over rows that it asks for one at a time. Both compare a
line with what stands there already and refresh only what changed: an idle screen sends nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from tic_tui.render.text import Builder, Line

if TYPE_CHECKING:
    from tic_tui.app import TicApp


def tic_app(widget: Widget) -> TicApp:
    """The app, typed. Widgets read from it the look and the glyphs, nothing else."""
    return cast("TicApp", widget.app)


def strip_of(line: Line, width: int, base: Style, widget: Widget, *, cursor: bool = False) -> Strip:
    """A line in the colours of the theme, filled up to `width`."""
    tones = tic_app(widget).look.tones
    over = base + tones["cursor"] if cursor else base
    segments = [Segment(span.text, over + tones[span.tone]) for span in line]
    return Strip(segments).adjust_cell_length(width, over)


class Painted(Widget):
    """A fixed panel of lines; as high as its lines unless CSS says otherwise."""

    DEFAULT_CSS = "Painted { height: auto; width: 100%; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: Sequence[Line] = ()

    def paint(self, lines: Sequence[Line]) -> None:
        """Shows these lines."""
        before, self._lines = self._lines, tuple(lines)
        if len(before) != len(self._lines):
            self.refresh(layout=True)
            return
        for y, (old, new) in enumerate(zip(before, self._lines, strict=True)):
            if old != new:
                self.refresh(Region(0, y, self.size.width, 1))

    @property
    def lines(self) -> Sequence[Line]:
        """What is shown."""
        return self._lines

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else ()
        return strip_of(line, self.size.width, self.rich_style, self)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()


class Listing(ScrollView, can_focus=True, inherit_bindings=False):
    """A scrolled list with a cursor. Subclasses give `row_count` and `row_line`."""

    DEFAULT_CSS = "Listing { height: 1fr; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }"

    class Moved(Message):
        """The cursor moved, by a key or the mouse."""

        def __init__(self, listing: Listing) -> None:
            super().__init__()
            self.listing = listing

        @property
        def control(self) -> Listing:
            return self.listing

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cursor = 0
        self._drawn: dict[int, tuple[Line, bool]] = {}

    # --- what subclasses give ---

    @property
    def row_count(self) -> int:
        """How many rows there are now."""
        raise NotImplementedError

    def row_line(self, index: int, width: int, *, selected: bool) -> Line:
        """One row."""
        raise NotImplementedError

    # --- drawing ---

    @property
    def line_width(self) -> int:
        """Cells for a row, beside the scrollbar."""
        return max(1, self.scrollable_content_region.width)

    def repaint(self) -> None:
        """Call after rows changed: refreshes the visible lines that differ."""
        self.cursor = max(0, min(self.cursor, self.row_count - 1))
        size = Size(self.line_width, self.row_count)
        if self.virtual_size != size:
            self.virtual_size = size
            self.refresh()
            return
        top = self.scroll_offset.y
        for y in range(top, top + self.size.height):
            if self._drawn.get(y) != self._at(y):
                self.refresh_line(y)

    def _at(self, y: int) -> tuple[Line, bool]:
        if y >= self.row_count:
            return (), False
        selected = y == self.cursor and self.shows_cursor
        return self.row_line(y, self.line_width, selected=selected), selected

    @property
    def shows_cursor(self) -> bool:
        """Only the list that the keys act on shows its cursor."""
        return self.screen.focused is self

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        if len(self._drawn) > 4 * max(50, self.size.height):
            self._drawn.clear()
        line, selected = self._drawn[y] = self._at(y)
        return strip_of(line, self.size.width, self.rich_style, self, cursor=selected)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._drawn.clear()
        self.refresh()

    def on_resize(self) -> None:
        self._drawn.clear()
        self.repaint()
        self.reveal()

    def watch_show_vertical_scrollbar(self) -> None:
        """The scrollbar takes a cell from every row, or gives it back: rows are made anew for what is left."""
        self.call_after_refresh(self.repaint)

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()

    # --- moving ---

    def move(self, rows: int) -> None:
        """Moves the cursor by `rows`, and scrolls as little as needed."""
        self.move_to(self.cursor + rows)

    def move_to(self, index: int) -> None:
        """Puts the cursor on a row, and scrolls as little as needed."""
        self.cursor = max(0, min(index, self.row_count - 1))
        self.reveal()
        self.repaint()
        self.post_message(self.Moved(self))

    def page(self, pages: int) -> None:
        """Moves by whole pages."""
        self.move(pages * max(1, self.size.height - 1))

    def to_top(self) -> None:
        """To the first row."""
        self.move_to(0)

    def to_end(self) -> None:
        """To the last row."""
        self.move_to(self.row_count - 1)

    def reveal(self) -> None:
        """Scrolls so that the cursor is visible."""
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False)

    def on_click(self, event: Message) -> None:
        y = getattr(event, "y", 0) + self.scroll_offset.y
        if y < self.row_count:
            self.move_to(y)

    def empty_line(self, text: str, width: int) -> Line:
        """A dim line for a list without rows."""
        return Builder(width, tic_app(self).glyphs).add(text, "dim").line()
