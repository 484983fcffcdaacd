"""Results directories: what their manifests, sidecars and indexes say, and whether the files are as they say.

    layout     which names are looked at, which run a place belongs to
    manifest   a manifest as values, and what is wrong with it
    sidecar    a .meta.json: which run, and what of its provenance is missing
    index      an INDEX.md or summary.md: what it names, and which verdicts name nothing
    safefile   a file of the watched roots: looked at, opened and hashed without leaving them
    judge      one artifact: what it should be and what it is
    archive    all of it: one look after the other, told as rows

Nothing is ever moved, changed or deleted, and nothing of an artifact is interpreted: its bytes are counted and hashed.
sources/results.py runs it in a thread of the daemon.
"""
