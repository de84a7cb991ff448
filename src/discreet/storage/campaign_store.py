"""Everything one campaign has to remember, under one name. Audience: owner.

Guarantee: a method that returned has stored what it says, on the disk; one that raised, or whose process was killed,
has stored all of it or nothing. Repeating one after a crash is safe. Any number of processes may use a store at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from discreet.errors import BadInput
from discreet.storage import answers, exposures, files, phases, pool, row_macs
from discreet.storage.database import Scope
from discreet.storage.ledger_sink import Step, StoreSink
from discreet.storage.tables import from_json
from discreet.storage.users import ACCESS_FILE, AccessLog, Users


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
    next_question = exposures.next_question
    left = exposures.left
    assigned = exposures.assigned
    waiting_questions = exposures.waiting_questions
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
