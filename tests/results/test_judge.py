"""One artifact: every state, and that none of them is reached by a way that it should not be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tic_daemon.results.judge import Before, Look, Said, Verdict, judge

A, B, C = "a" * 64, "b" * 64, "c" * 64
NOW = 1_000_000.0
REST = NOW - 3600

FULL = Said(10, A, "the manifest", REST)
SIZE = Said(10, "", "the manifest", REST)
NONE = Said(None, "", "STABLE", REST)
HASH = Said(None, A, "the manifest", REST)
NEVER, ONCE = Before(), Before(A)


def file(size: int = 10, sha256: str = "", modified: float = REST) -> Look:
    return Look(size=size, modified=modified, sha256=sha256)


@pytest.mark.parametrize(
    ("before", "said", "look", "state"),
    [
        (NEVER, FULL, file(), "pending"),
        (NEVER, FULL, file(sha256=A), "verified"),
        (NEVER, FULL, file(sha256=B), "differs"),
        (NEVER, FULL, file(9), "differs"),
        (NEVER, FULL, file(11), "differs"),
        (NEVER, FULL, file(9, modified=NOW - 3), "pending"),
        (NEVER, FULL, file(sha256=B, modified=NOW - 3), "pending"),
        (NEVER, FULL, file(sha256=A, modified=NOW - 3), "verified"),
        (NEVER, FULL, file(9, modified=NOW + 3600), "differs"),  # a clock ahead of ours: not for ever still written
        (ONCE, FULL, file(sha256=B), "changed"),
        (ONCE, FULL, file(sha256=B, modified=NOW - 3), "changed"),
        (ONCE, FULL, file(9), "changed"),
        (ONCE, FULL, file(sha256=A), "verified"),
        (Before(B), FULL, file(sha256=B), "differs"),  # the manifest is another, the file is not
        (Before(B), FULL, file(sha256=A), "verified"),
        (Before(B), FULL, file(sha256=C), "changed"),
        (NEVER, HASH, file(99, sha256=A), "verified"),
        (NEVER, SIZE, file(sha256=B), "recorded"),
        (NEVER, SIZE, file(9), "differs"),
        (NEVER, NONE, file(9, sha256=B), "recorded"),
        (Before(B), NONE, file(9, sha256=B), "recorded"),
        (Before(B), NONE, file(9, sha256=C), "changed"),
        (Before(B), SIZE, file(sha256=C), "changed"),
        (NEVER, FULL, Look(failed="missing"), "missing"),
        (ONCE, FULL, Look(failed="missing"), "missing"),
        (NEVER, Said(10, A, "the manifest", NOW - 3), Look(failed="missing"), "pending"),
        (ONCE, Said(10, A, "the manifest", NOW - 3), Look(failed="missing"), "missing"),
        (NEVER, Said(10, A, "the manifest", NOW + 3600), Look(failed="missing"), "missing"),  # its clock ahead of ours
        (ONCE, FULL, Look(failed="refused", why="it is a FIFO"), "refused"),
        (ONCE, FULL, Look(failed="unreadable", why="denied"), "unreadable"),
    ],
)
def test_states(before: Before, said: Said, look: Look, state: str) -> None:
    told = judge(before, said, look, NOW)
    assert told.state == state and told.why
    if state not in ("verified", "recorded"):
        assert told.kept == before.kept, "what it was verified with is forgotten"
    else:
        assert told.kept == look.sha256
    assert told.hash == (state == "pending" and look == file())


def test_the_reason_has_both_values() -> None:
    assert judge(NEVER, FULL, file(9), NOW).why == "9 bytes, where the manifest says 10"
    assert judge(NEVER, FULL, file(sha256=B), NOW).why == f"SHA-256 {B}, where the manifest says {A}"
    assert judge(Before(B), NONE, file(sha256=C), NOW).why == (
        f"changed after it was recorded: SHA-256 {C}, where it was {B} at first"
    )


hashes = st.sampled_from(["", A, B])


@given(
    hashes,
    st.builds(Said, st.sampled_from([None, 9, 10]), hashes, st.just("m"), st.sampled_from([REST, NOW - 1])),
    st.builds(Look, st.sampled_from(["", "missing", "refused", "unreadable"]), st.just(""), st.sampled_from([9, 10]),
              st.sampled_from([REST, NOW - 1, NOW + 9]), hashes),
)  # fmt: skip
def test_verified_is_what_the_manifest_says_and_nothing_else(kept: str, said: Said, look: Look) -> None:
    told: Verdict = judge(Before(kept), said, look, NOW)
    equal = not look.failed and said.size in (None, look.size) and look.sha256 != ""
    assert (told.state == "verified") == (equal and said.sha256 == look.sha256)
    assert (told.state == "recorded") == (equal and not said.sha256 and kept in ("", look.sha256))
    assert told.why or look.failed in ("refused", "unreadable")
