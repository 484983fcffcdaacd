"""Screen 6, third page: declared pairs of arms, and of the one under the cursor the nine rules and its numbers.

Left out in this order: the numbers below 120 columns and 30 lines; the rules below 16 lines. Enter shows all of a pair.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical

from tic_tui import bindings
from tic_tui.evidence_model import Pair, PairsView, PairValue, Rule
from tic_tui.glyphs import Glyphs
from tic_tui.model import Demand
from tic_tui.render import chrome, pairs
from tic_tui.render.text import Line, some, text_of
from tic_tui.screens.base import TABLE
from tic_tui.screens.pages import PageView, RecordScreen
from tic_tui.widgets.lists import LineList
from tic_tui.widgets.painted import Listing, Painted, tic_app
from tic_tui.widgets.rows import RowList


class PairsScreen(PageView):
    """Pairs of arms. Enter opens a pair, or the rule under the cursor."""

    name_in_table = bindings.PAIRS
    BINDINGS = TABLE.textual(bindings.PAIRS)

    def body(self) -> ComposeResult:
        yield Painted(id="pages")
        yield Painted(id="pairs-head")
        yield Painted(id="nothing")
        yield RowList(self._pair_line, lambda one: one.pair, id="pairs")
        with Vertical(id="rules-panel"):
            yield Painted(id="rules-head")
            yield RowList(self._rule_line, lambda rule: rule.number, id="rules")
        yield LineList(id="numbers", cursor=False)

    @property
    def main(self) -> RowList[Pair]:
        """The pairs."""
        return self.query_one("#pairs", RowList)

    @property
    def rules(self) -> RowList[Rule]:
        """The nine rules of the pair under the cursor."""
        return self.query_one("#rules", RowList)

    @property
    def numbers(self) -> LineList:
        """Its numbers."""
        return self.query_one("#numbers", LineList)

    def crumbs(self) -> Sequence[str]:
        return ("tic", "evidence", "pairs of arms")

    def demand(self) -> Demand:
        return Demand("pairs")

    # --- drawing ---

    def sync(self) -> None:
        app, view = tic_app(self), tic_app(self).readings.pairs
        glyphs, width = app.glyphs, self.size.width
        self.draw_pages()
        if view is not None:
            self.main.show(view.pairs)
        rows = self.main.row_count
        self._arrange(rows)
        self.settled((rows > 0, self.size))
        self.say_nothing(view, rows, pairs.nothing)
        said = "" if view is None else some(rows, "declared pair")
        head = chrome.panel_head("pairs", said, width, glyphs, focused=self.focused is self.main)
        names = [pairs.pair_header(self.main.cells, glyphs)] if rows else []
        self.query_one("#pairs-head", Painted).paint([head, *names])
        self._draw_rest(view)

    def _arrange(self, rows: int) -> None:
        height, there = self.size.height, rows > 0
        self.main.display = there
        self.query_one("#rules-panel").display = there and height >= 16
        self.numbers.display = there and height >= 30
        self.main.styles.height = min(rows, max(2, height // 5)) if height >= 16 else "1fr"
        self.query_one("#rules-panel").styles.height = 11 if height >= 30 else "1fr"

    def _draw_rest(self, view: PairsView | None) -> None:
        one, app = self.main.selected, tic_app(self)
        if view is None or one is None:
            return
        self.rules.show((view.rules or {}).get(one.pair, ()))
        said = f"of {one.pair}: {one.met} met, {one.unmet} unmet, {one.unknown} unknown"
        said += "" if view.rules is not None else "; reading ..."
        head = chrome.panel_head("rules", said, self.size.width, app.glyphs, focused=self.focused is self.rules)
        self.query_one("#rules-head", Painted).paint([head, pairs.rule_header(self.rules.cells, app.glyphs)])
        values = None if view.values is None else view.values.get(one.pair, ())
        self.numbers.show(lambda width: self._numbers(one, values, width))

    def _numbers(self, one: Pair, values: Sequence[PairValue] | None, width: int) -> list[Line]:
        glyphs = tic_app(self).glyphs
        return [*pairs.differing(one, width, glyphs), *pairs.numbers(values, width, glyphs)]

    def _pair_line(self, one: Pair, width: int, selected: bool) -> Line:
        return pairs.pair_row(one, width, tic_app(self).glyphs, selected=selected)

    def _rule_line(self, one: Rule, width: int, selected: bool) -> Line:
        return pairs.rule_row(one, width, tic_app(self).glyphs, selected=selected)

    def on_listing_moved(self) -> None:
        self._draw_rest(tic_app(self).readings.pairs)

    def on_descendant_focus(self) -> None:
        self.sync()

    # --- actions ---

    def _whole(self, name: str, width: int, glyphs: Glyphs) -> Sequence[Line]:
        """All of a pair, as it is in the newest reading."""
        view = tic_app(self).readings.pairs
        one = next((pair for pair in view.pairs if pair.pair == name), None) if view is not None else None
        if view is None or one is None:
            return ()
        values = None if view.values is None else view.values.get(name, ())
        return pairs.detail(one, (view.rules or {}).get(name, ()), values, width, glyphs)

    def target_run(self) -> tuple[str, int | None, str] | None:
        one = self.main.selected
        return (one.runs_a[0], None, "") if one is not None and one.runs_a else None

    def copy_text(self) -> str:
        one = self.main.selected
        return "" if one is None else text_of(self._whole(one.pair, 200, tic_app(self).glyphs))

    def action_next_panel(self) -> None:
        shown = {"rules": self.query_one("#rules-panel").display, "numbers": self.numbers.display}
        order: list[Listing] = [self.main, self.rules, self.numbers]
        there = [panel for panel in order if panel.row_count and shown.get(str(panel.id), True)]
        at = next((n for n, panel in enumerate(there) if panel is self.focused), 0)
        if there:
            self.set_focus(there[(at + 1) % len(there)])

    async def action_open(self) -> None:
        one, rule = self.main.selected, self.rules.selected
        if one is None:
            return
        name, demand = one.pair, self.demand()
        if self.focused is self.rules and rule is not None:
            number = rule.number
            await tic_app(self).push_screen(
                RecordScreen(f"{name} rule {number}", lambda w, g: self._rule_whole(name, number, w, g), demand)
            )
            return
        await tic_app(self).push_screen(RecordScreen(f"pair {name}", lambda w, g: self._whole(name, w, g), demand))

    def _rule_whole(self, name: str, number: int, width: int, glyphs: Glyphs) -> Sequence[Line]:
        view = tic_app(self).readings.pairs
        rules = (view.rules or {}).get(name, ()) if view is not None else ()
        return next((pairs.rule_detail(rule, width, glyphs) for rule in rules if rule.number == number), ())
