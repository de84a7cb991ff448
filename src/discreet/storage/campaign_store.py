"""Everything one campaign has to remember, under one name. Audience: owner.

Guarantee: a method that returned has stored what it says, on the disk; one that raised, or whose process was killed,
has stored all of it or nothing. Repeating one after a crash is safe. Any number of processes may use a store at once.

The ledger's lines are rows of the store, with the guarantee of every sink. The position is the key, so of two writers
one wins. A forked child has no part in the ledgers of its parent: it opens its own, or two processes would draw for one
charge.

A database that lost its last transactions, or was restored from a backup, looks whole. So the number of lines and the
last one's hash are kept in a file outside of it, the high-water mark, too: lines are committed, then the mark is moved,
then `append` returns. Lines that do not reach the mark are refused. The database remembers the mark's random id and
where it stood at the last append: a host with another mark, or with an old copy of it, is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select, update

from discreet.errors import BadInput, InvalidLedger, LedgerUnavailable
from discreet.privacy.ledger.high_water_mark import HighWaterMark, Position, compared, missing, refusal
from discreet.privacy.ledger.sinks import not_the_end
from discreet.storage import answers, exposures, files, phases, pool, queues, row_macs
from discreet.storage.database import BACKUP, Scope
from discreet.storage.disk import disk_refusals
from discreet.storage.phases import insert_step
from discreet.storage.tables import canonical, from_json, ledger_lines, ledger_marks, moves
from discreet.storage.users import ACCESS_FILE, AccessLog, Users

Step = tuple[str, int, Mapping[str, Any]]
"""Kind, phase and facts of a transition."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A ledger's lines beside its mark. ``note``: what was found; ``refused``: why nothing may be done with them."""

    lines: list[bytes]
    note: str
    refused: InvalidLedger | None = None


class StoreSink:
    """Keeps the lines of a campaign's ledger. ``step``: recorded together with the next lines, or not at all."""

    def __init__(self, scope: Scope, *, step: Step | None = None) -> None:
        self._scope, self._process, self._step = scope, os.getpid(), step
        self._mark = HighWaterMark(scope.mark)
        self._broken = self._closed = False

    def read(self) -> list[bytes]:
        """Every line, oldest first. `InvalidLedger` if they do not reach the mark."""
        ledger = self.compared()
        if ledger.refused is not None:
            raise ledger.refused
        return ledger.lines

    def compared(self) -> Compared:
        """Every line, whatever the mark says, and what it says. Changes nothing."""
        self._check_open()
        asked = self._scope.asked("reading the ledger")
        with disk_refusals(asked):
            position = self._mark.read()  # before the lines: some may be added meanwhile
        wanted = select(ledger_lines.c.line).where(self._scope.rows(ledger_lines)).order_by(ledger_lines.c.position)

        def read() -> tuple[list[bytes], Any, str | None]:
            with self._scope.reading("reading the ledger") as connection:
                state = connection.scalar(select(moves.c.state).where(self._scope.rows(moves)))
                return list(connection.scalars(wanted)), self._known(connection), state

        lines, known, state = self._scope.database.steadily(read)
        if state == BACKUP:
            return Compared(lines=lines, note="it is a backup, and was not compared with a mark")
        refused = compared(position, lines, asked=asked, path=self._mark.path) or self._other(asked, position, known)
        if refused is not None and position is None:
            refused = self._elsewhere(asked, refused)
        note = f"every line that its mark counts is there ({0 if position is None else position.lines})"
        return Compared(lines=lines, note=note if refused is None else refused.fact, refused=refused)

    def append(self, at: int, lines: Sequence[bytes]) -> None:
        """Keep ``lines`` after the first ``at``; committed, and counted by the mark, when it returns."""
        self._check_open()
        rows = [
            {"campaign": self._scope.campaign, "position": at + number, "line": bytes(line)}
            for number, line in enumerate(lines)
        ]
        asked = self._scope.asked("charging the ledger")
        database = self._scope.database
        self._broken = True  # until database and mark have said otherwise
        with disk_refusals(asked, kept="if the charge was stored, it counts as spent"):
            self._begin_mark(asked)
            with self._mark.held(wait=database.patience) as mark:
                last = database.steadily(lambda: self._insert(at, rows, mark.position))
                mark.advance(at + len(lines), last)
        self._broken = False
        if rows:
            self._step = None

    def _begin_mark(self, asked: str) -> None:
        """Make the mark of a ledger that has no lines. Any other has one."""
        if self._mark.path.exists():
            return

        def read() -> tuple[Any, int | None]:
            with self._scope.reading("charging the ledger") as connection:
                self._scope.check_in_use(connection, asked)
                return self._known(connection), self._last(connection)

        known, last = self._scope.database.steadily(read)
        if known is not None or last is not None:
            self._broken = False
            raise self._elsewhere(asked, missing(asked, self._mark.path))
        self._mark.create()

    def _insert(self, at: int, rows: list[dict[str, Any]], mark: Position) -> bytes | None:
        """The ledger's last line. Again, whole, when the connection was lost and nothing was stored."""
        with self._scope.writing("charging the ledger") as connection:
            last = self._last(connection)
            if at != (0 if last is None else last + 1):
                self._broken = False
                raise not_the_end()
            self._compare(connection, at, mark)
            if not rows:
                return self._line(connection, at - 1)
            connection.execute(ledger_lines.insert(), rows)
            self._remember(connection, mark)
            if self._step is not None:
                kind, phase, facts = self._step
                stored = canonical(facts, "facts of a transition")
                insert_step(connection, self._scope, kind=kind, phase=phase, facts=stored)
        return bytes(rows[-1]["line"])

    def _compare(self, connection: Connection, lines: int, mark: Position) -> None:
        """Refuse if the database does not reach the mark, or if either is another one."""
        asked = self._scope.asked("charging the ledger")
        line, path = self._line(connection, mark.lines - 1), self._mark.path
        refused = refusal(mark, asked=asked, path=path, lines=lines, at_mark=line)
        refused = refused or self._other(asked, mark, self._known(connection))
        if refused is None and mark.moved:
            refused = InvalidLedger(
                asked,
                f"{path.name} says that the campaign was moved to another store",
                "Name that store in [storage] url",
            )
        if refused is not None:
            self._broken = False
            raise refused

    def _other(self, asked: str, position: Position | None, known: Any) -> InvalidLedger | None:
        """Why the mark is not the one of this ledger, or not as it was at the last charge."""
        if position is None or known is None:
            return None
        name = self._mark.path.name
        if position.id != known.mark:
            return self._elsewhere(asked, InvalidLedger(asked, f"{name} is the mark of another ledger", _PUT_BACK))
        if position.lines < known.lines:
            return self._elsewhere(asked, InvalidLedger(asked, f"{name} is an old copy of the mark", _PUT_BACK))
        return None

    def _elsewhere(self, asked: str, refused: InvalidLedger) -> InvalidLedger:
        """The same; where several hosts use the store, with what to do about that."""
        if not self._scope.shared:
            return refused
        return InvalidLedger(
            asked,
            refused.fact,
            "Hosts that share a store share one mark: name a directory that all of them reach in [storage] mark, and "
            "move the mark of the host that charged last there",
        )

    def _known(self, connection: Connection) -> Any:
        """What the database remembers of the mark: its id and its number of lines; None: nothing."""
        wanted = select(ledger_marks.c.mark, ledger_marks.c.lines).where(self._scope.rows(ledger_marks))
        return connection.execute(wanted).first()

    def _remember(self, connection: Connection, mark: Position) -> None:
        now = {"mark": mark.id, "lines": mark.lines}
        of_campaign = self._scope.rows(ledger_marks)
        if not connection.execute(update(ledger_marks).where(of_campaign).values(**now)).rowcount:
            connection.execute(ledger_marks.insert().values(campaign=self._scope.campaign, **now))

    def _last(self, connection: Connection) -> int | None:
        last: int | None = connection.scalar(
            select(func.max(ledger_lines.c.position)).where(self._scope.rows(ledger_lines))
        )
        return last

    def _line(self, connection: Connection, position: int) -> bytes | None:
        line = select(ledger_lines.c.line).where(self._scope.rows(ledger_lines), ledger_lines.c.position == position)
        return connection.scalar(line)

    def close(self) -> None:
        """Take no more lines."""
        self._closed = True

    def _check_open(self) -> None:
        fact = None
        if self._process != os.getpid():
            fact = "it was opened by the process this one was forked from"
        elif self._closed:
            fact = "it is closed"
        elif self._broken:
            fact = "its last write may not have landed"
        if fact is not None:
            remedy = "Open the ledger again; what was written counts as spent"
            raise LedgerUnavailable(self._scope.asked("using the ledger"), fact, remedy)


_PUT_BACK = "Put back the file that was there when the campaign was last charged"


@dataclass(frozen=True, kw_only=True)
class CampaignStore(Scope):
    """One campaign of a store: its verbs, by the module that knows their tables.

    directory   beside the database, for its owner alone: keys, checkpoints, and the files that are named by hash
    """

    id: str
    created: datetime
    config_text: str = field(repr=False)

    @property
    def config(self) -> Any:
        """As it was given, in JSON's terms."""
        return from_json(self.config_text)

    @property
    def users(self) -> Users:
        """People who use the campaign's pages, and their sessions."""
        return Users(_scope=self)

    @property
    def access_log(self) -> AccessLog:
        """Who logged in, and what was done on the owner's pages, on this host."""
        return AccessLog(path=self.directory / ACCESS_FILE)

    # -- the pool

    add_records = pool.add_records
    ids = pool.ids
    macs = pool.macs
    macs_of = pool.macs_of
    pool_cohorts = pool.cohorts
    withdrawn = pool.read
    erase = pool.erase
    finish_withdrawals = pool.finish

    def mark_withdrawn(self, ids: Iterable[str]) -> int:
        """Mark records as withdrawn, whatever step is under way; how many were not marked before."""
        return pool.mark(self, list(ids))

    def scrub(self) -> None:
        """Rewrite the database without what was deleted from it, and empty its log. `StoreUnavailable` while another
        process reads.
        """
        self.database.scrub(self.asked("erasing records"))

    # -- steps and questions

    record = phases.record
    transitions = phases.steps
    publish = phases.publish
    questions = phases.read
    question = phases.find
    cohort_members = phases.cohort_members
    above = phases.above

    # -- who is shown what

    show = exposures.show
    assign = exposures.assign
    next_question = queues.next_question
    left = queues.left
    assigned = queues.assigned
    waiting_questions = queues.waiting_questions
    was_shown = exposures.was_shown
    exposures = exposures.read

    # -- answers

    tell = answers.tell
    answers_of = answers.of_annotator
    voices = answers.voices
    first_told = answers.first_told
    history = answers.history
    answers = answers.read

    # -- files

    keep_file = files.keep
    file = files.path_of
    sweep = files.sweep
    files = files.read

    def kinds(self, phase: int | None = None) -> list[str]:
        """The kinds of file that are kept."""
        return sorted({file.kind for file in self.files(phase)})

    # -- authenticity, the ledger, turns

    row_head = row_macs.head_of
    check_rows = row_macs.audit

    def check_database(self) -> tuple[bool, list[str]]:
        """Whether the database is undamaged, and tables with rows that name rows which are not there."""
        with self.reading("verifying the database") as connection:
            return self.database.dialect.integrity(connection)

    def sink(self, *, step: Step | None = None) -> StoreSink:
        """Where the campaign's ledger keeps its lines. ``step``: recorded in one transaction with the next ones."""
        return StoreSink(self, step=step)

    @contextmanager
    def exclusive(self, purpose: str, *, wait: float = 0.0) -> Iterator[None]:
        """Be the only process that does ``purpose`` ("training") in this campaign while the block runs, or
        `StoreUnavailable` after ``wait`` seconds. The system lets go when the process ends, however it ends. On a
        server the turn ends with a connection; what is written in the block is written by that one, or not at all.
        """
        if not purpose or not all("a" <= letter <= "z" or letter == "-" for letter in purpose):
            raise BadInput("exclusive use", "the purpose is not made of small letters", 'Say, for instance, "training"')
        asked = self.asked(purpose)
        lock = self.directory / "locks" / f"{purpose}.lock"
        dialect = self.database.dialect
        with dialect.turn(lock, f"{self.id} {purpose}", asked=asked, doing=purpose, wait=wait):
            yield

    def busy(self, purpose: str) -> bool:
        """Whether somebody does ``purpose`` now, as far as the system tells: for people who look, not for who works."""
        lock = self.directory / "locks" / f"{purpose}.lock"
        with self.reading("looking who works") as connection:
            return self.database.dialect.held(connection, lock, f"{self.id} {purpose}")
