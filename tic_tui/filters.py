"""What a person filters rows by: a column, an operator, a value; and the SQL that it means.

    Filter("metric", "is", "logprob_mae").sql()  ->  ("coalesce(nullif(metric, ''), 'unknown') = ?", ("logprob_mae",))

Columns and operators are closed lists; a value never becomes SQL text, only a parameter. `unknown` finds what is drawn
as the word: nothing said, nothing printed, or the view's own 'unknown'.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from tic_daemon.errors import ConfigError

Op = Literal["is", "is not", "contains", ">=", "<="]
Kind = Literal["text", "number", "yes or no"]
UNKNOWN: Final = "unknown"

# name -> (column of view `mismatches`, what it holds). `rank` is text there: numbers in it compare as numbers.
COLUMNS: Final[dict[str, tuple[str, Kind]]] = {
    "metric": ("metric", "text"),
    "phase": ("phase", "text"),
    "rank": ("rank", "text"),
    "scope": ("scope", "text"),
    "classification": ("classification", "text"),
    "state": ("parse_state", "text"),
    "admissibility": ("admissibility", "text"),
    "run_id": ("run_id", "text"),
    "attempt": ("attempt", "number"),
    "step": ("step", "number"),
    "value": ("value", "number"),
    "noise_ratio": ("noise_ratio", "number"),
    "host": ("host", "text"),
    "intervention": ("intervention", "text"),
    "is_evidence": ("is_evidence", "yes or no"),
    "graph_mode": ("graph_mode", "text"),
    "step_kind": ("step_kind", "text"),
    "prefix_cache": ("prefix_cache", "text"),
    "weight_phase": ("weight_phase", "text"),
    "policy": ("policy", "text"),
    "path": ("path", "text"),
    "raw": ("raw", "text"),
}
# The same of view `comparisons`.
COMPARISON_COLUMNS: Final[dict[str, tuple[str, Kind]]] = {
    "label": ("label", "text"),
    "kind": ("kind", "text"),
    "goal": ("goal", "text"),
    "step": ("step", "number"),
    "dtype": ("CASE WHEN dtype_a = dtype_b THEN dtype_a ELSE concat_ws(' and ', dtype_a, dtype_b) END", "text"),
    "admissibility": ("admissibility", "text"),
    "is_evidence": ("is_evidence", "yes or no"),
    "reason": ("reason", "text"),
    "run_id": ("run_id", "text"),
    "attempt": ("attempt", "number"),
    "policy": ("policy", "text"),
    "group": ("control_group", "text"),
    "mismatched_tokens": ("mismatched_tokens", "number"),
    "logprob_mae": ("logprob_mae", "number"),
    "logprob_max": ("logprob_max", "number"),
    "noise_ratio": ("noise_ratio", "number"),
    "file_a": ("side_a", "text"),
    "file_b": ("side_b", "text"),
}
# The same of the ledger's rows, as the screen reads them (evidence_queries.LEDGER).
LEDGER_COLUMNS: Final[dict[str, tuple[str, Kind]]] = {
    "kind": ("kind", "text"),
    "standing": ("standing", "text"),
    "label": ("label", "text"),
    "gate": ("gate", "text"),
    "cell": ("cell", "text"),
    "run_id": ("run_id", "text"),
    "candidate": ("candidate_id", "text"),
    "criterion": ("criterion_id", "text"),
    "plane": ("plane", "text"),
    "step": ("step", "number"),
    "policy": ("policy", "text"),
    "reason": ("reason", "text"),
    "who": ("who", "text"),
    "host": ("host", "text"),
    "id": ("id", "text"),
    "body": ("body", "text"),
}
TABLES: Final = {"mismatches": COLUMNS, "comparisons": COMPARISON_COLUMNS, "ledger": LEDGER_COLUMNS}
OPS: Final[dict[Kind, tuple[Op, ...]]] = {
    "text": ("is", "is not", "contains"),
    "number": ("is", "is not", ">=", "<="),
    "yes or no": ("is", "is not"),
}
_COMPARE: Final[dict[Op, str]] = {"is": "=", "is not": "<>", ">=": ">=", "<=": "<="}
_WORDS: Final = {"yes": True, "true": True, "no": False, "false": False}
_MANY: Final = frozenset(
    {
        "step", "value", "noise_ratio", "policy", "path", "raw", "reason", "mismatched_tokens", "logprob_mae",
        "logprob_max", "file_a", "file_b", "id", "body",
    }
)  # fmt: skip


def chosen(table: str) -> tuple[str, ...]:
    """The columns of a table whose values are few enough to choose from."""
    return tuple(name for name in TABLES[table] if name not in _MANY)


CHOICES: Final = chosen("mismatches")


def operators(column: str, table: str = "mismatches") -> tuple[Op, ...]:
    """The operators that a column has.

    Raises:
        ConfigError: there is no such column.
    """
    columns = TABLES[table]
    if column not in columns:
        raise ConfigError(f"no column {column!r} to filter by", f"one of {', '.join(columns)}")
    return (*OPS["text"], ">=", "<=") if column == "rank" else OPS[columns[column][1]]


@dataclass(frozen=True, slots=True)
class Filter:
    """One line of the filter stack. `on` is False for one that is kept but not applied; `table`: what it filters.

    Raises:
        ConfigError: an unknown column, an operator that the column has not, or a value that is no number, yes or no.
    """

    column: str
    op: Op
    value: str
    on: bool = True
    table: str = "mismatches"

    def __post_init__(self) -> None:
        allowed = operators(self.column, self.table)
        if self.op not in allowed:
            raise ConfigError(f"{self.column} has no {self.op!r}", f"one of {', '.join(allowed)}")
        self._value()

    def sql(self) -> tuple[str, tuple[object, ...]]:
        """(condition, its parameters). The condition is never NULL: what is unknown does not meet a comparison."""
        name, kind = TABLES[self.table][self.column]
        value = self._value()
        if kind == "text" and self.op == "contains":
            return f"contains(coalesce({name}, ''), ?)", (value,)
        if kind == "text" and self.op in {"is", "is not"}:
            return f"coalesce(nullif({name}, ''), '{UNKNOWN}') {_COMPARE[self.op]} ?", (value,)
        name = f"try_cast({name} AS DOUBLE)" if kind == "text" else name
        if value is None:
            return f"{name} IS {'NOT ' if self.op == 'is not' else ''}NULL", ()
        if self.op == "is not":
            return f"{name} IS DISTINCT FROM ?", (value,)
        return f"coalesce({name} {_COMPARE[self.op]} ?, false)", (value,)

    def _value(self) -> object:
        _, kind = TABLES[self.table][self.column]
        if kind == "text" and self.op in {"is", "is not", "contains"}:
            return self.value
        if self.value == UNKNOWN and self.op in {"is", "is not"}:
            return None
        if kind == "yes or no":
            if self.value.lower() not in _WORDS:
                raise ConfigError(f"{self.column} is yes or no, not {self.value!r}")
            return _WORDS[self.value.lower()]
        try:
            number: int | float = int(self.value)
        except ValueError:
            try:
                number = float(self.value)
            except ValueError:
                raise ConfigError(f"{self.column} is a number, not {self.value!r}") from None
        try:
            return number if -(2**63) <= number < 2**63 else float(number)
        except OverflowError:
            raise ConfigError(f"{self.column}: {self.value[:20]} ... is too large a number") from None


def where(filters: Iterable[Filter]) -> tuple[str, tuple[object, ...]]:
    """All filters that are on, as one condition that begins with AND, or "" without any."""
    parts = [f.sql() for f in filters if f.on]
    return "".join(f" AND ({text})" for text, _ in parts), tuple(p for _, params in parts for p in params)
