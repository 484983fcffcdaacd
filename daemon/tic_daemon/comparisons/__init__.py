"""Comparisons that the daemon makes by itself: which files belong together, a process that compares them, rows.

    pairing    which artifacts and declared files form a comparison, and why others do not; pure
    files      what a pair hangs on: states and contents of its files, as the store and the file system have them
    sayings    what manifests say of compared files, as the store is told
    desk       the queue, in a thread of the daemon, and the process that works on it
    process    that process from the outside: started, heard with a deadline, ended
    worker     that process: one thread, low priority, limited memory
    made       one pair compared, with its report; asked, rows: what goes in and what comes out
    detail     sequences and tokens in detail, while the files are open
    alone      whether one file holds both sides

The comparing itself is `tic_daemon.compare`, as in `tic-daemon compare`; the judge is `tic_daemon.evidence.judge`.
"""
