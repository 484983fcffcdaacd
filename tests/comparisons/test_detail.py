"""Which token ids stand beside the tokens that are kept."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compare import made
from tic_daemon.compare.align import align
from tic_daemon.compare.elements import ELEMENTS
from tic_daemon.compare.figures import measure
from tic_daemon.compare.sides import Held, Sequence, Side
from tic_daemon.comparisons.detail import detail


@pytest.mark.parametrize(
    ("kind", "ids"), [("int64", [-100, 1 << 40]), ("int32", [-1, 7]), ("uint32", [2**32 - 1, 0]), ("int8", [-128, 127])]
)
def test_token_ids_keep_their_sign(kind: str, ids: list[int]) -> None:
    """Ids below 0 mark padding in many trainers; as unsigned ones they fit into no column."""
    tokens = Held.of(ELEMENTS[kind], np.array(ids, kind))
    sides = [
        Side(name, "", "torch", "native", {"r": Sequence("r", own.sequences["r"].logprobs, own.sequences["r"].mask, tokens)})
        for name, own in (("a", made.of_values({"r": [-1, -2]})), ("b", made.of_values({"r": [-1.5, -2.5]})))
    ]  # fmt: skip
    alignment = align(*sides)
    figures = measure(*sides, alignment)
    assert figures is not None
    found = detail("id", *sides, alignment, figures)
    assert [token.token_id for token in found.tokens] == ids
