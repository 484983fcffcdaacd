"""Comparison of two dumps of log-probabilities: what was read, what differs, and what may be said of it.

    elements.py     element types: integer view of the own width, exact float64 values
    sides.py        value types: a tensor that is read when asked for, a sequence, a side
    opened.py       a file held open while it is read: bounded reads, SHA-256, changed or cut files
    archive.py      the members of a zip archive
    pickles.py      a pickle read by a machine that can build data and nothing else
    torchfile.py    files of torch.save, without torch
    plainfiles.py   safetensors, npz and JSON lines
    parquetfile.py  miles' parquet columns
    frameworks.py   what prime-rl, NeMo-RL, slime and miles write
    reading.py      which reader takes a file
    said.py, manifests.py   what manifests and receipts say of a file
    align.py        whether two sides may be held against each other at all
    exact.py        exact sums and quantiles, in any order and in pieces
    blocks.py       whole sequences, some at a time
    terms.py, runs.py, means.py   what the numbers are made of
    gather.py       what one block adds
    kept.py         quantiles of numbers that come once
    figures.py      the numbers of a pair of sides
    sweep.py, signs.py   diagnostics, never verdicts
    noise.py        the floor of one side from its repeats
    replay.py       receipts of a replay: frozen weights, one thing changed
    updates.py      two policy versions on the same tokens
    criteria.py     a frozen criterion and its planted error
    comparison.py   one comparison from files to verdict; version.py: which comparing it is
    reporting.py    the report, the summary and the `[mismatch]` record
    tensors.py      two tensors of one boundary; the vocabulary's distribution
    probes.py, trace_reading.py   layer traces: value types, and which reader takes one
    sglang.py, msprobe.py, keyed.py   traces as frameworks and hooks write them
    traces.py, trace_report.py    layer traces: the first boundary that differs
    scores.py, score_report.py    scored problems of two sides, pair by pair

The judge is `tic_daemon.evidence.judge`. Nothing here knows of a store or of a screen, and torch is never needed.
"""
