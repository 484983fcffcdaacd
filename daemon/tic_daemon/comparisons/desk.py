"""Comparisons that the daemon makes by itself: a queue in a thread of its own, and the process that works on it.

    desk = Desk(host, config, roots, reports, results, tasks, connect, wake)
    desk.note(rows)      what is new of results
    desk.begin()         all logs are read and committed: from now on numbers can be held against faults
    desk.take()          rows that nobody took yet; a comparison with all that belongs to it at once

The queue is what pairs there are without those that are done with the same content; so it survives any end, and what is
done is never done again. A file that crashes the process or cannot be read is a failure with its reason, tried again
when a file of it changes. What a criterion has judged is not judged by another one while the compared bytes, what is
declared and what manifests say of them are the same: a threshold that is chosen afterwards can always pass.
What waits for a planted error is judged once that was judged FAIL. What a result hangs on is said in files.Stand.
"""

from __future__ import annotations

import glob
import logging
import os
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import duckdb

from tic_daemon.comparisons import wire
from tic_daemon.comparisons.files import READY, Contents, Stand, compared
from tic_daemon.comparisons.pair import Pair, digest, plain
from tic_daemon.comparisons.pairing import ALONE, DECLARED, MOST, Known, names_side, pairs, pattern, unpaired
from tic_daemon.comparisons.process import Stopped, TooSlow, Worker, WorkerDied
from tic_daemon.comparisons.sayings import KNOWN, Sayings
from tic_daemon.config import PLACE, ComparisonConfig, Config
from tic_daemon.evidence.judge import Standing
from tic_daemon.results.judge import RECORDED, VERIFIED
from tic_daemon.results.safefile import stamp
from tic_daemon.store import proofs
from tic_daemon.store.comparison_rows import ComparisonRow, ComparisonTaskRow, ComparisonTold
from tic_daemon.store.comparison_standing import Made, standing_of
from tic_daemon.store.rows import ArtifactRow, ResultRow

log = logging.getLogger("tic-daemon")

EVERY_S: Final = 5.0
"""Pause between two looks at declared files. A look that took long is followed by a pause twenty times as long."""
_REST: Final = 20.0
TELL_S: Final = 1.0
"""How often it is told how far a comparison is."""
CRASHES: Final = 2
"""So often a pair may end its process before it counts as failed: the first time may be another's fault."""
MOST_FILES: Final = 20_000
"""Files that one `[[comparison]]` may match."""
_ONCE: Final = ":once"
_OVER: Final = ("done", "judged", "failed")
_GONE: Final = "gone"
"""In place of what is said of a pair: its manifest makes none of it any more."""
_PENDING: Final = "inconclusive: pending re-check"


class Desk:
    """See the module. For one thread besides its own.

    Args:
        host: of the rows.
        roots: watched directories; nothing outside is looked at.
        reports: directory that reports go to.
        results, tasks: the newest row of each key that the store has.
        connect: gives a connection of the store, which sees what is committed.
        wake: called from the thread when there are rows.
    """

    def __init__(
        self,
        host: str,
        config: Config,
        roots: Sequence[str],
        reports: Path,
        results: Iterable[ResultRow],
        tasks: Iterable[ComparisonTaskRow],
        connect: Callable[[], duckdb.DuckDBPyConnection],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._host, self._config, self._roots, self._reports = host, config, list(roots), reports
        self._connect, self._wake = connect, wake
        self._contents = Contents(host, self._roots)
        self._contents.take(results)
        # What the machine and no file was to blame for is tried again by the next daemon.
        self._tasks = {
            row.task: replace(row, content="") if row.content.endswith(_ONCE) else row
            for row in tasks
            if row.host == host
        }
        self._both: dict[tuple[str, str], str] = {
            (row.side_a, row.content): row.why for row in self._tasks.values() if row.state in ("held", "none")
        }
        self._sayings: Sayings | None = None  # once the store was asked
        self._patterns: list[re.Pattern[str]] = [pattern(entry, str(config.base)) for entry in config.comparisons]
        self._changed = threading.Condition()
        self._news: list[ResultRow] = []
        self._rows: list[ComparisonTold] = []
        self._queue: deque[tuple[Pair, Stand]] = deque()
        self._sniff: deque[ArtifactRow] = deque()
        self._crashes: Counter[str] = Counter()
        self._again: dict[str, str] = {}  # by task the planted error that it waited for
        self._proving = False  # rows were taken, and not yet kept, that may end such a wait
        self._worker: Worker | None = None
        self._dirty = bool(self._contents.artifacts) or bool(config.comparisons)
        self._active = self._dirty
        self._begun = self._stop = self._hurry = self._working = False
        self._told_at = 0.0
        self._look_from = self._look_by = self._rests_until = 0.0
        self._thread: threading.Thread | None = None

    # --- from the daemon's thread ------------------------------------------------------------------------------------

    def note(self, rows: Sequence[ResultRow]) -> None:
        """What results directories told."""
        if rows:
            with self._changed:
                self._news.extend(rows)
                self._dirty = self._active = True
                self._start()

    def begin(self) -> None:
        """From now on things are compared; a second call does nothing."""
        if not self._begun:
            with self._changed:
                self._begun = True
                self._start()

    def take(self) -> list[ComparisonTold]:
        """Rows that nobody took yet."""
        with self._changed:
            rows, self._rows = self._rows, []
            self._proving |= any(isinstance(row, ComparisonRow) and _ends_a_wait(row) for row in rows)
        return rows

    def kept(self) -> None:
        """What was taken is committed: what waits for a planted error may find it there."""
        with self._changed:
            if self._proving:
                self._proving, self._dirty = False, True
                self._start()

    def busy(self) -> bool:
        """Whether something is not looked at, waits for its turn, or is compared now."""
        with self._changed:
            return (
                self._active
                and self._rests_until <= time.monotonic()
                and bool(self._dirty or self._working or self._queue or self._sniff or self._rows or self._proving)
            )

    def hurry(self) -> None:
        """From now on what is young counts as at rest."""
        with self._changed:
            self._hurry = self._dirty = True
            self._start()

    def close(self) -> None:
        """Ends what is compared; the next daemon takes it up."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(5.0)

    def _start(self) -> None:
        if self._begun and self._active and self._thread is None and not self._stop:
            self._thread = threading.Thread(target=self._run, name="tic-compare", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._await():
                try:
                    if self._look_is_due():
                        began = time.monotonic()
                        self._look()
                        now = time.monotonic()
                        # A look is at all pairs: while results pour in, they are not looked at all the time.
                        self._look_from = now + (1.0 if self._hurry else _REST) * (now - began)
                        self._look_by = max(now + EVERY_S, self._look_from)
                    self._work()
                except Stopped:
                    return
                except Exception:  # a defect must not end the watch in silence, nor the daemon
                    log.exception("comparisons could not be looked at; it is tried again")
                    self._let_go()  # in the middle of an answer it would take the next question for one
                    self._rests_until = time.monotonic() + _REST * EVERY_S
                    with self._changed:
                        self._queue.clear()
                        self._sniff.clear()
                        self._dirty = True
                finally:
                    with self._changed:
                        self._working = False
        finally:
            self._let_go()

    def _await(self) -> bool:
        """Until there is something to do. False: the end."""
        with self._changed:
            while not self._stop and (left := self._rests_until - time.monotonic()) > 0:
                self._changed.wait(left)
            while not (self._stop or self._queue or self._sniff or self._look_is_due()):
                times = [self._look_from] if self._dirty else []
                times += [self._look_by] if self._patterns else []
                self._changed.wait(max(0.005, min(times) - time.monotonic()) if times else None)
            self._working = True
            return not self._stop

    def _look_is_due(self) -> bool:
        """Something is new; or declared files may have changed, of which no row tells."""
        now = time.monotonic()
        return (self._dirty and now >= self._look_from) or (bool(self._patterns) and now >= self._look_by)

    def _look(self) -> None:
        """All pairs there are, and which of them are to be compared."""
        with self._changed:
            news, self._news, self._dirty = self._news, [], False
        self._contents.take(news)
        compare = self._config.compare
        known = Known(
            self._host, list(self._contents.by_path.values()), self._contents.said(), self._both,
            self._config.comparisons,
            [self._matching(entry, own) for entry, own in zip(self._config.comparisons, self._patterns, strict=True)],
            self._config.run_for, str(self._config.base), str(compare.criterion or ""), str(compare.planted or ""),
            self._contents.goal_of(str(compare.criterion)) if compare.criterion else "",
        )  # fmt: skip
        made = pairs(known)
        self._again = self._proved()
        queue: list[tuple[Pair, Stand]] = []
        for pair in made:
            stand = self._contents.of(pair, final=self._hurry)
            stand = replace(stand, content=self._with_proof(pair, stand))
            if self._wanted(pair, stand):
                queue.append((pair, stand))
        self._no_more(made)
        self._tell_said(made)
        sniff = [row for row in unpaired(known, made) if self._unknown(row)]
        with self._changed:
            self._queue = deque(queue)
            self._sniff = deque(sniff)

    def _no_more(self, made: Sequence[Pair]) -> None:
        """Pairs that there were: what waits is waited for no more, and what was compared is not what is declared."""
        here = {pair.task for pair in made}
        for row in [row for row in self._tasks.values() if row.task not in here]:
            if row.state in ("waiting", "running", "failed", "refused"):
                self._tell(replace(row, state="gone", why="its files are declared no more", content=""))
            elif row.state in _OVER and len(made) <= MOST and (row.manifest or row.how != DECLARED):
                data, said, *more = row.content.split(":")
                if said != _GONE:
                    why = "no manifest and no [[comparison]] makes this pair any more"
                    self._tell(replace(row, why=why, content=":".join([data, _GONE, *more])))

    def _tell_said(self, made: Sequence[Pair]) -> None:
        """What manifests say now, where it is something else than the store has."""
        if self._sayings is None:
            known = self._asked_of_store(KNOWN)
            if known is None:
                return
            self._sayings = Sayings(self._host, known)
        if news := self._sayings.news(made, self._contents):
            with self._changed:
                self._rows += news
            self._wake()

    def _proved(self) -> dict[str, str]:
        """Tasks that were pending and need be no more: by task the comparison that shows it."""
        if not any(row.state == "done" and row.why.startswith(_PENDING) for row in self._tasks.values()):
            return {}
        return self._asked_of_store(proofs.AGAIN) or {}

    def _asked_of_store(self, sql: str, *more: object) -> dict[str, Any] | None:
        """Two columns of the store, of this host; None: it cannot be asked."""
        try:
            con = self._connect()
            try:
                return dict(con.execute(sql, [self._host, *more]).fetchall())
            finally:
                con.close()
        except duckdb.Error as error:
            log.warning("the store cannot be asked of comparisons: %s", error)
            return None

    def _with_proof(self, pair: Pair, stand: Stand) -> str:
        """What a result hangs on: after a wait, also the planted error that ended it."""
        before = self._tasks.get(pair.task)
        if stand.state != READY or before is None:
            return stand.content
        if before.state in ("done", "judged", "waiting", "running") and _bare(before.content) == stand.content:
            proof = self._again.get(pair.task) if before.state == "done" else None
            return f"{stand.content}:{proof}" if proof else before.content
        return stand.content

    def _wanted(self, pair: Pair, stand: Stand) -> bool:
        """Whether the pair is to be compared now; tells why not."""
        before = self._tasks.get(pair.task)
        over = before is not None and before.state in _OVER
        if stand.state != READY:
            if not over:
                self._tell(self._task(pair, stand.state, stand.why))
            return False
        if before is not None and over:
            # What failed under other limits than today's may well do now.
            same = (
                (self._failed(stand.content), f"{stand.content}{_ONCE}")
                if before.state == "failed"
                else (stand.content,)
            )
            judged = before.state == "judged" and compared(before.content) == stand.compared
            if before.content in same or judged:
                return False
        self._tell(self._task(pair, "waiting", "its turn comes", stand.content))
        return True

    def _failed(self, content: str) -> str:
        """The content of a failure: it hangs on the limits of [compare], too."""
        own = self._config.compare
        return f"{content}:{own.deadline_s:g} s, {own.memory_mb} MB"

    def _unknown(self, row: ArtifactRow) -> bool:
        return bool(row.state in (VERIFIED, RECORDED) and row.sha256 and (row.path, row.sha256) not in self._both)

    def _matching(self, entry: ComparisonConfig, matching: re.Pattern[str]) -> list[tuple[str, str]]:
        """Files that `a` of an entry matches, each with its watched root."""
        text = os.path.normpath(os.path.join(str(self._config.base), entry.a))  # noqa: PTH118  names need not be text
        shape = PLACE.sub("*", glob.escape(text).replace("[*]", "*").replace("[?]", "?"))
        found = []
        for path in glob.iglob(shape, recursive=True):  # noqa: PTH207  names need not be valid text
            root = self._contents.root_of(path)
            if root and matching.fullmatch(path):
                found.append((path, root))
                if len(found) >= MOST_FILES:
                    log.warning(
                        "[[comparison]] a = %r matches more than %d files; the rest is left out", entry.a, MOST_FILES
                    )
                    break
        return found

    # --- work --------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """One after the other, until something is new."""
        while True:
            with self._changed:
                if self._stop:
                    raise Stopped("the daemon ends")
                if self._look_is_due() or not (self._queue or self._sniff):
                    break
                artifact = self._sniff.popleft() if self._sniff else None
                item = None if artifact is not None else self._queue.popleft()
            if artifact is not None:
                self._look_into(artifact)
            elif item is not None:
                self._compare(*item)
        with self._changed:
            idle = not (self._queue or self._sniff or self._dirty)
        if idle:
            self._let_go()

    def _child(self) -> Worker:
        if self._worker is None or not self._worker.alive:
            self._let_go()
            self._worker = Worker(self._config.compare.memory_mb, lambda: self._stop)
        return self._worker

    def _let_go(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _look_into(self, row: ArtifactRow) -> None:
        """Whether an artifact holds both sides."""
        try:
            (answer,) = self._child().ask({"alone": row.path}, self._config.compare.deadline_s)
            reader = str(answer.get("held") or "")
        except (WorkerDied, TooSlow) as error:
            log.warning("%s could not be looked into: %s", row.path, error)
            reader = ""
        if stamp(row.path, row.root) != row.stamp:
            return  # it is looked at again
        self._both[row.path, row.sha256] = reader
        self._tell(
            ComparisonTaskRow(
                self._host, row.root, digest("holds", row.path), ALONE, row.run, row.run_how, row.step, row.manifest,
                row.path, content=row.sha256, state="held" if reader else "none", why=reader,
            )
        )  # fmt: skip
        if reader or names_side(row):
            with self._changed:
                self._dirty = True

    def _compare(self, pair: Pair, stand: Stand) -> None:
        again = self._contents.of(pair, final=self._hurry)
        if again != replace(stand, content=_bare(stand.content)):
            with self._changed:
                self._dirty = True
            time.sleep(0.05)  # whoever writes it may still be at it
            return
        log.debug("comparing %s with %s", pair.a, pair.b or "its other side")
        running = self._task(pair, "running", "", stand.content)
        self._tell(running)
        child = self._child()
        try:
            self._hear(child, pair, stand, running)
        except TooSlow as error:
            self._fail(running, error.what)
        except WorkerDied as error:
            self._crashes[pair.task] += 1
            if self._crashes[pair.task] < CRASHES:
                self._tell(replace(running, state="waiting", why=f"{error.what}; it is tried once more"))
                with self._changed:
                    self._queue.append((pair, stand))
            else:
                self._fail(running, error.what)
        except Stopped:
            raise
        except Exception as error:  # a defect costs this comparison, and is told
            log.exception("%s could not be compared", pair.a)
            self._let_go()  # in the middle of an answer it would take the next question for one
            self._fail(running, f"a defect of the program: {type(error).__name__}: {error}")

    def _hear(self, child: Worker, pair: Pair, stand: Stand, running: ComparisonTaskRow) -> None:
        """Asks the process, and takes all that it says until it answers."""
        parts: list[Any] = []
        for message in child.ask({"compare": self._asked(pair, stand)}, self._config.compare.deadline_s):
            if "at" in message:
                running = self._progress(running, *message["at"])
            elif "where" in message:
                child.say({"standing": self._standing(message["where"])})
            elif "row" in message:
                parts.append(wire.unpacked(message["row"]))
            elif "done" in message:
                self._done(running, wire.unpacked(message["done"]), parts)
            elif "changed" in message:
                self._tell(replace(running, state="waiting", why=message["changed"], content=""))
            elif message.get("machine"):
                self._tell(
                    replace(running, state="failed", why=str(message["failed"]), content=f"{running.content}{_ONCE}")
                )
            else:
                self._fail(running, str(message["failed"]))

    def _fail(self, running: ComparisonTaskRow, why: str) -> None:
        content = self._failed(running.content)
        self._tell(replace(running, state="failed", why=why, content=content))

    def _asked(self, pair: Pair, stand: Stand) -> dict[str, Any]:
        named = {plain(path): self._contents.manifest_of(path) for path in pair.claimed}
        return {
            "pair": asdict(pair), "id": self._name(pair, stand), "content": stand.content,
            "manifests": {path: manifest for path, manifest in named.items() if manifest},
            "sha256": self._contents.hashes(pair),
            "said": {plain(path): self._contents.claim(path, pair.root) for path in pair.claimed},
            "reports": str(self._reports),
        }  # fmt: skip

    def _name(self, pair: Pair, stand: Stand) -> str:
        """The id of what comes of it. What was compared, changed, and is as it was is a comparison of its own."""
        made = self._asked_of_store(
            "SELECT host, count(*) FROM comparison WHERE host = ? AND task = ? AND content = ? GROUP BY host",
            pair.task, stand.content,
        )  # fmt: skip
        times = (made or {}).get(self._host, 0)
        return digest(pair.task, stand.content, times) if times else digest(pair.task, stand.content)

    def _standing(self, where: Mapping[str, Any]) -> tuple[Standing, str, str, str]:
        values = {key: wire.clean(value) for key, value in where.items()}
        values = {**values, **{key: wire.time_of(where[key]) for key in ("produced_a", "produced_b")}}
        judging = values.pop("judging", None)
        made = Made(**values)
        try:
            con = self._connect()
            try:
                shown = _proofs(con, made, judging) if judging else proofs.Proofs()
                return (*standing_of(con, made), shown.order, shown.planted)
            finally:
                con.close()
        except duckdb.Error as error:
            log.warning("the store cannot say where a comparison stands: %s", error)
            return Standing.UNKNOWN, "the store could not be asked", "", ""

    def _progress(self, running: ComparisonTaskRow, done: int, total: int | None) -> ComparisonTaskRow:
        running = replace(running, tokens_done=done, tokens_total=total)
        now = time.monotonic()
        if now - self._told_at >= TELL_S:
            self._told_at = now
            self._tell(running)
        return running

    def _done(self, running: ComparisonTaskRow, row: ComparisonRow, parts: Sequence[Any]) -> None:
        state = "judged" if row.rule == 11 else "done"
        words = f"{row.label or 'inconclusive'}: {row.reason}"
        task = replace(
            running, state=state, why=words, step=row.step, run=row.run, run_how=row.run_how,
            tokens_done=row.valid_tokens, tokens_total=row.valid_tokens,
        )  # fmt: skip
        self._tasks[task.task] = task
        self._crashes.pop(task.task, None)
        with self._changed:
            self._rows += [row, *parts, task]
        self._wake()

    def _task(self, pair: Pair, state: str, why: str, content: str = "") -> ComparisonTaskRow:
        return ComparisonTaskRow(
            self._host, pair.root, pair.task, pair.how, pair.run, pair.run_how, pair.step, pair.manifest, pair.a,
            pair.b, content, state, why,
        )  # fmt: skip

    def _tell(self, row: ComparisonTaskRow) -> None:
        if self._tasks.get(row.task) == row:
            return
        self._tasks[row.task] = row
        with self._changed:
            self._rows.append(row)
        self._wake()


def _bare(content: str) -> str:
    """A content without the planted error that it waited for."""
    return ":".join(content.split(":")[:3])


def _ends_a_wait(row: ComparisonRow) -> bool:
    """Whether it shows a planted error to be found; or waits for one, which may have been found meanwhile."""
    return row.rule == 10 or bool(row.plant and row.label == "FAIL" and row.rule == 11)


def _proofs(con: duckdb.DuckDBPyConnection, made: Made, judging: Mapping[str, Any]) -> proofs.Proofs:
    """What the store shows of a criterion."""
    receipts = (
        made.produced_a if made.produced_how_a == "receipt" else None,
        made.produced_b if made.produced_how_b == "receipt" else None,
    )
    (a, b), (type_a, type_b) = judging["readers"], judging["dtypes"]
    through = proofs.Through(
        made.run, judging["criterion"], judging["metric"], (a, b), (type_a, type_b), judging["comparator"], receipts
    )
    row = con.execute(proofs.ONE, through.params()).fetchone()
    return proofs.proofs(row or (), through)
