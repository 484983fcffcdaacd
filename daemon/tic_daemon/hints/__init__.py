"""Hints: from what is stored, the pattern of a mismatch, the first step, and the next cheapest probe. Never a verdict.

router.toml   patterns, steps, probes and limits, which are data
router.py     facts in, hints out; pure
facts.py      the facts of a run out of the views
"""
