"""The evidence ledger: what was judged of which candidate, and what is no longer current. Pure: no I/O, no DuckDB.

    entries    what one row says, and whether it may be said
    chain      each row carries the hash of the row before it; the first break is named
    closure    what a candidate is: the hash of what executes, with what is unknown listed, and what a change is called
    criterion  metric, bound, what it covers and the cell that it is for
    gates      the five gates with their cells, and what must be run again after a change

The store keeps the rows (store/ledger.py), its views say what is current, people declare through the spool.
"""
