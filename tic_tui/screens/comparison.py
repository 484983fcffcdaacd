"""One comparison and what lies in it: numbers, sequences or probes, a sequence's tokens, a token's bits, files.

    comparison -> sequence -> token -> files of both sides
    comparison of traces -> probe -> files

Each is kept as it was when it was opened, unless a newer reading has it. Below 30 lines and 120 columns a comparison
shows its sequences or its numbers, and Tab turns between them.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from tic_tui import bindings
from tic_tui.comparison_model import Boundary, CompareAsk, Comparison, ComparisonView, SequenceRow, TokenRow
from tic_tui.model import Demand
from tic_tui.render import chrome, comparison, comparisons, response, sequences, token
from tic_tui.render.text import Builder, Line, count, text_of
from tic_tui.screens.base import TABLE, View
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Painted, tic_app
from tic_tui.widgets.virtual import VirtualList


class _Within(View):
    """A view of something within one comparison."""

    def __init__(self, one: Comparison) -> None:
        super().__init__()
        self.one = one

    def asks(self) -> CompareAsk:
        """What of the comparison it needs."""
        return CompareAsk(self.one.comparison_id)

    def demand(self) -> Demand:
        return Demand("comparison", self.one.run_id, compare=self.asks())

    def view_shown(self) -> ComparisonView | None:
        """The reading, if it is of this comparison."""
        view = tic_app(self).comparison_view
        return view if view is not None and view.ask.comparison_id == self.one.comparison_id else None

    def newer(self) -> ComparisonView | None:
        """The reading; what it says of the comparison is taken over."""
        view = self.view_shown()
        if view is not None and view.row is not None:
            self.one = view.row
        return view

    def place(self) -> Sequence[str]:
        """Where in the comparison it is."""
        raise NotImplementedError

    def crumbs(self) -> Sequence[str]:
        step = "step unknown" if self.one.step is None else f"step {self.one.step}"
        group = comparisons.group(self.one)
        place = self.place() or ([group] if group else ())
        return ("tic", self.one.run_id or "run unknown", f"{step} compared", *place)

    def target_run(self) -> tuple[str, int | None, str] | None:
        return None if self.one.run_id is None else (self.one.run_id, self.one.attempt, self.one.target)

    def action_back(self) -> None:
        tic_app(self).pop_screen()


class ComparisonScreen(_Within):
    """One comparison: verdict, all numbers, and its sequences or probes."""

    name_in_table = bindings.COMPARISON
    BINDINGS = TABLE.textual(bindings.COMPARISON)

    def __init__(self, one: Comparison) -> None:
        super().__init__(one)
        self.worst = True
        self._pointed = False  # the cursor was put on the first probe that differs

    def body(self) -> ComposeResult:
        yield Painted(id="verdict")
        with Container(id="split"):
            with Vertical(id="records"):
                yield Painted(id="within-head")
                yield VirtualList(self._row, id="within")
                yield Painted(id="within-none")
            with Vertical(id="side"):
                yield Painted(id="side-head")
                yield LineList(id="numbers", cursor=False)

    def on_mount(self) -> None:
        self.within.focus()

    @property
    def within(self) -> VirtualList[SequenceRow | Boundary]:
        """Sequences, or probes of a trace."""
        return self.query_one(VirtualList)

    @property
    def numbers(self) -> LineList:
        """All that is known of the comparison."""
        return self.query_one("#numbers", LineList)

    @property
    def trace(self) -> bool:
        """It compares traces."""
        return self.one.kind == "trace"

    def place(self) -> Sequence[str]:
        return ()

    def asks(self) -> CompareAsk:
        return CompareAsk(self.one.comparison_id, worst=self.worst, first=self.within.at)

    # --- drawing ---

    def sync(self) -> None:
        view, glyphs = self.newer(), tic_app(self).glyphs
        self._arrange()
        self.query_one("#verdict", Painted).paint(comparison.head(self.one, self.size.width, glyphs))
        asked = self.asks()
        if view is not None and (view.ask.worst, view.ask.first) == (asked.worst, asked.first):
            self.within.show(view.boundaries if self.trace else view.sequences, view.first, view.total)
            self._point_at_divergence(view)
        self._draw_within(view)
        self._draw_numbers(view)

    def _arrange(self) -> None:
        """Beside from 120 columns on, below each other from 30 lines on; else one of them, that with the focus."""
        wide, tall = self.size.width >= 120, self.size.height >= 30
        self.set_class(wide, "-beside")
        self.set_class(tall and not wide, "-below")
        both, reads = wide or tall, self.focused is self.numbers
        self.query_one("#records").display = both or not reads
        self.query_one("#side").display = both or reads

    def _point_at_divergence(self, view: ComparisonView) -> None:
        """Of a trace: the cursor begins at the first probe that differs."""
        if self._pointed or view.divergence is None or not view.total:
            return
        self._pointed = True
        self.within.move_to(view.divergence_at)
        self.call_after_refresh(self.within.centre)

    def _row(self, row: SequenceRow | Boundary, width: int, selected: bool) -> Line:
        glyphs, view = tic_app(self).glyphs, self.view_shown()
        if isinstance(row, Boundary):
            return sequences.boundary_row(
                row, view.divergence if view is not None else None, width, glyphs, selected=selected
            )
        return sequences.sequence_row(row, width, glyphs, selected=selected)

    def _draw_within(self, view: ComparisonView | None) -> None:
        app, within, none = tic_app(self), self.within, self.query_one("#within-none", Painted)
        width = within.size.width or self.size.width
        key = bindings.shown(app.keymap.find("order").keys[0])
        if self.trace:
            said = f"{count(within.total)}, in the order of execution"
        else:
            order = "worst first" if self.worst else "by request"
            said = f"{count(within.total)}, {order} ({key} turns)"
        said += self._other("all numbers")
        head = chrome.panel_head(
            "probes" if self.trace else "sequences", said, width, app.glyphs, focused=self.focused is within
        )
        cells = within.line_width if within.row_count else width
        names = (
            sequences.boundary_header(cells, app.glyphs) if self.trace else sequences.sequence_header(cells, app.glyphs)
        )
        lines = [head, names]
        if self.trace and view is not None:
            lines[1:1] = sequences.divergence(view.divergence, width, app.glyphs)
        self.query_one("#within-head", Painted).paint(lines)
        legend = [] if self.trace or self.size.height < 16 else [response.legend(width, app.glyphs)]
        none.paint(
            legend if within.row_count else [Builder(width, app.glyphs).add(f"  {self._nothing(view)}", "dim").line()]
        )

    def _other(self, name: str) -> str:
        """Where there is room for one panel alone: which key shows the other."""
        if self.size.width >= 120 or self.size.height >= 30:
            return ""
        return f"; {bindings.shown(tic_app(self).keymap.find('next_panel').keys[0])} {name}"

    def _nothing(self, view: ComparisonView | None) -> str:
        if view is None:
            return self.unread()
        if view.row is None:
            return "this comparison is not in the store any more"
        return "no probe is kept" if self.trace else "no sequence was compared"

    def _draw_numbers(self, view: ComparisonView | None) -> None:
        side = self.query_one("#side-head", Painted)
        if not self.query_one("#side").display:
            return
        width, glyphs = side.size.width or self.size.width, tic_app(self).glyphs
        other = self._other("probes" if self.trace else "sequences").removeprefix("; ")
        side.paint([chrome.panel_head("all of it", other, width, glyphs, focused=self.focused is self.numbers)])
        self.numbers.show(lambda cells: self._detail(view, cells))

    def _detail(self, view: ComparisonView | None, width: int) -> list[Line]:
        glyphs = tic_app(self).glyphs
        board = [] if view is None else comparisons.board(view.board, self.one.step, width, glyphs)
        return comparison.detail(self.one, width, glyphs, board, () if view is None else view.versions)

    # --- what the lists say ---

    def on_sought(self) -> None:
        tic_app(self).demand_changed()

    def on_descendant_focus(self) -> None:
        self.sync()

    # --- actions ---

    def copy_text(self) -> str:
        return text_of(self._detail(self.view_shown(), 200))

    async def action_open(self) -> None:
        row = self.within.selected
        if self.focused is self.numbers or not self.within.row_count:
            await tic_app(self).push_screen(TokenScreen(self.one, None))
        elif isinstance(row, Boundary):
            await tic_app(self).push_screen(TokenScreen(self.one, row))
        elif row is not None:
            await tic_app(self).push_screen(SequenceScreen(self.one, row))

    def action_next_panel(self) -> None:
        to_numbers = self.focused is not self.numbers
        # Shown before it is focused: what is not displayed cannot be.
        self.query_one("#side").display = self.query_one("#side").display or to_numbers
        self.query_one("#records").display = self.query_one("#records").display or not to_numbers
        self.set_focus(self.numbers if to_numbers else self.within)

    def action_order(self) -> None:
        if self.trace:
            tic_app(self).tell("probes stand in the order of execution")
            return
        self.worst = not self.worst
        self.within.clear()
        tic_app(self).demand_changed()
        self.refresh_all()


class SequenceScreen(_Within):
    """One sequence: where in its response it differs, and the tokens of it that are kept."""

    name_in_table = bindings.SEQUENCE
    BINDINGS = TABLE.textual(bindings.SEQUENCE)

    def __init__(self, one: Comparison, row: SequenceRow) -> None:
        super().__init__(one)
        self.row = row

    def body(self) -> ComposeResult:
        yield Painted(id="sequence-head")
        yield Painted(id="tokens-head")
        yield VirtualList(self._line, id="tokens")
        yield Painted(id="no-token")

    def on_mount(self) -> None:
        self.tokens.focus()

    @property
    def tokens(self) -> VirtualList[TokenRow]:
        """The tokens that are kept."""
        return self.query_one(VirtualList)

    def place(self) -> Sequence[str]:
        return (self.row.request,)

    def asks(self) -> CompareAsk:
        return CompareAsk(self.one.comparison_id, request=self.row.request)

    def sync(self) -> None:
        view, app, width = self.newer(), tic_app(self), self.size.width
        told = view.tokens if view is not None and view.ask.request == self.row.request else None
        head = sequences.sequence_detail(self.row, width, self.size.height, app.glyphs)
        self.query_one("#sequence-head", Painted).paint(head)
        if told is not None:
            self.tokens.show(told, 0, len(told))
        number = self.row.mismatched_tokens
        of = "" if number is None else f" of {count(number)} that differ"
        said = f"{count(self.tokens.total)}{of}: the first, and the largest differences"
        focused = self.focused is self.tokens
        panel = chrome.panel_head("tokens kept", said, width, app.glyphs, focused=focused)
        names = sequences.token_header(self.tokens.line_width if self.tokens.total else width, app.glyphs)
        self.query_one("#tokens-head", Painted).paint([panel, names])
        none = self.query_one("#no-token", Painted)
        none.display = not self.tokens.total
        text = "reading ..." if told is None else "no token of it differs" if number == 0 else "no token of it is kept"
        none.paint([Builder(width, app.glyphs).add(f"  {text}", "dim").line()])

    def _line(self, row: TokenRow, width: int, selected: bool) -> Line:
        return sequences.token_row(row, width, tic_app(self).glyphs, selected=selected)

    def copy_text(self) -> str:
        glyphs = tic_app(self).glyphs
        rows = [sequences.token_row(row, 200, glyphs, selected=False) for row in self.tokens.rows]
        head = sequences.sequence_detail(self.row, 200, 60, glyphs)
        return text_of([*head, sequences.token_header(200, glyphs), *rows])

    async def action_open(self) -> None:
        if (row := self.tokens.selected) is not None:
            await tic_app(self).push_screen(TokenScreen(self.one, row))


class TokenScreen(_Within):
    """A token with both values and their bits, or a probe; from there, and of None: the files of both sides."""

    name_in_table = bindings.TOKEN
    BINDINGS = TABLE.textual(bindings.TOKEN)

    def __init__(self, one: Comparison, row: TokenRow | Boundary | None) -> None:
        super().__init__(one)
        self.row = row

    def body(self) -> ComposeResult:
        yield LineList(id="bottom", cursor=False)

    def on_mount(self) -> None:
        self.bottom.focus()

    @property
    def bottom(self) -> LineList:
        """The lines."""
        return self.query_one(LineList)

    def place(self) -> Sequence[str]:
        if isinstance(self.row, TokenRow):
            return (self.row.request, f"position {self.row.position}")
        return (f"probe {self.row.boundary}",) if self.row is not None else ("files",)

    def asks(self) -> CompareAsk:
        return CompareAsk(self.one.comparison_id, artifacts=self.row is None)

    def sync(self) -> None:
        self.newer()
        self.bottom.show(self._lines)

    def _lines(self, width: int) -> Sequence[Line]:
        glyphs, view = tic_app(self).glyphs, self.view_shown()
        if isinstance(self.row, TokenRow):
            return token.token(self.one, self.row, max(width, token.WIDEST), glyphs)
        if self.row is not None:
            said, _ = sequences.state(self.row, view.divergence if view is not None else None, glyphs)
            return token.probe(self.row, said, width, glyphs)
        return token.files(self.one, view.artifacts if view is not None else None, width, glyphs)

    def copy_text(self) -> str:
        return text_of(self._lines(200))

    async def action_open(self) -> None:
        if self.row is None:
            tic_app(self).tell("these are the files: nothing lies below them")
        else:
            await tic_app(self).push_screen(TokenScreen(self.one, None))

    def action_left(self) -> None:
        self.bottom.shift(-20)

    def action_right(self) -> None:
        self.bottom.shift(20)
