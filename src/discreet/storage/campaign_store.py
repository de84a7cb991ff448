"""Everything one campaign has to remember, under one name. Audience: owner.

Guarantee: a method that returned has stored what it says, on the disk; one that raised, or whose process was killed,
has stored all of it or nothing. Repeating one after a crash is safe. Any number of processes may use a store at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from discreet.errors import BadInput
from discreet.records import Answer, Exposure, Question, Shown
from discreet.storage import answers as told_answers
from discreet.storage import exposures as shown_questions
from discreet.storage import files as kept_files
from discreet.storage import pool, queues, row_macs, withdrawals
from discreet.storage import questions as asked_questions
from discreet.storage import transitions as steps
from discreet.storage.access_log import FILE as ACCESS_FILE
from discreet.storage.access_log import AccessLog
from discreet.storage.forms import from_json
from discreet.storage.ledger_sink import Step, StoreSink
from discreet.storage.row_macs import RowAudit
from discreet.storage.scope import Scope
from discreet.storage.stored import KeptFile, PoolCohort, Told, Transition, WithdrawnRecord
from discreet.storage.users import Users


@dataclass(frozen=True, kw_only=True)
class CampaignStore:
    """One campaign of a store.

    directory   beside the database, for its owner alone: keys, checkpoints, and the files that are named by hash
    """

    name: str
    id: str
    simulation: bool
    created: datetime
    _config: str = field(repr=False)
    _scope: Scope = field(repr=False)

    @property
    def config(self) -> Any:
        """As it was given, in JSON's terms."""
        return from_json(self._config)

    @property
    def directory(self) -> Path:
        """For this campaign's files."""
        return self._scope.directory

    @property
    def shared(self) -> bool:
        """Whether several hosts use the store, each with keys in a directory of its own."""
        return self._scope.shared

    @property
    def users(self) -> Users:
        """People who use the campaign's pages, and their sessions."""
        return Users(_scope=self._scope)

    @property
    def access_log(self) -> AccessLog:
        """Who logged in, and what was done on the owner's pages, on this host."""
        return AccessLog(path=self.directory / ACCESS_FILE)

    def add_records(self, rows: Iterable[tuple[str, bytes]], facts: Mapping[str, Any] | None = None) -> int:
        """Enrol records, ids with their keyed codes, as a cohort of the pool: all or none. The cohort's number.

        Other writers wait until the last row has come.
        """
        return pool.add_records(self._scope, rows, facts)

    def ids(self, cohort: int | None = None) -> list[str]:
        """Of the enrolled records, in the order of enrolment; all, or of a pool cohort. An erased one has its code."""
        return pool.ids(self._scope, cohort)

    def macs(self) -> Iterator[tuple[str, bytes]]:
        """Id and keyed code of every record enrolled now, in the order of enrolment; not all at once. Erased ones have
        none.
        """
        return pool.macs(self._scope)

    def macs_of(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Keyed codes of some of the records; an id that is not enrolled is left out."""
        return pool.macs_of(self._scope, ids)

    def pool_cohorts(self) -> list[PoolCohort]:
        """What was enrolled together, in order."""
        return pool.cohorts(self._scope)

    def mark_withdrawn(self, ids: Iterable[str]) -> int:
        """Mark records as withdrawn, whatever step is under way; how many were not marked before."""
        return withdrawals.mark(self._scope, list(ids))

    def withdrawn(self) -> list[WithdrawnRecord]:
        """Records that were withdrawn, in the order of enrolment."""
        return withdrawals.read(self._scope)

    def erase(self, codes: Mapping[str, tuple[str, bytes]]) -> None:
        """Erase marked records, given the code that takes the place of each id and the code of its person: answers go
        with their history, questions keep their places. Copies in files and free pages: `sweep`, `scrub`.
        """
        withdrawals.erase(self._scope, codes)

    def scrub(self) -> None:
        """Rewrite the database without what was deleted from it, and empty its log. `StoreUnavailable` while another
        process reads.
        """
        self._scope.database.scrub(self._scope.asked("erasing records"))

    def finish_withdrawals(self) -> None:
        """Record that no copy of the erased records is left."""
        withdrawals.finish(self._scope)

    def record(self, kind: str, *, phase: int, facts: Mapping[str, Any] | None = None) -> Transition:
        """Record that a step was taken; the first record of it, if it was before. Other facts: `InvalidStore`."""
        return steps.record(self._scope, kind, phase=phase, facts=facts)

    def transitions(self) -> list[Transition]:
        """Every step that was taken, oldest first."""
        return steps.log(self._scope)

    def publish(
        self,
        phase: int,
        questions: Sequence[Question],
        *,
        above: Collection[str] | None = None,
        cohorts: Mapping[str, str] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Transition:
        """Store the questions of a phase and the step "published" together. The same again changes nothing, others
        are refused (`InvalidStore`).

        above     the records that were asked from above a threshold; None: there was none
        cohorts   the label of the cohort that each asked record enters
        """
        return asked_questions.publish(self._scope, phase, questions, above=above, cohorts=cohorts or {}, facts=facts)

    def questions(self, phase: int | None = None) -> list[Question]:
        """Phase by phase, in the random order in which they are shown."""
        return asked_questions.read(self._scope, phase)

    def question(self, question_id: str) -> Question | None:
        """The one of this id."""
        return asked_questions.find(self._scope, question_id)

    def cohort_members(self, phase: int | None = None) -> dict[str, list[str]]:
        """Records by the label of their cohort, in the order in which they were asked."""
        return asked_questions.cohort_members(self._scope, phase)

    def above(self, phase: int) -> frozenset[str] | None:
        """The records that were asked from above a threshold; None if there was none."""
        return asked_questions.above(self._scope, phase)

    def show(self, shown: Sequence[Shown], *, at: datetime | None = None, most: int | None = None) -> int:
        """Store who is about to be shown which question, before they are; how many rows were new. ``most``: questions
        that one annotator is shown; `NotNow`, and nothing stored, if it would be more.
        """
        return shown_questions.show(self._scope, shown, at=at, most=most)

    def assign(
        self, person: str, open_ids: Sequence[str], *, places: int, n: int | None, most: int | None, hold: timedelta
    ) -> list[str]:
        """Questions for one annotator out of the open ones, chosen and stored as shown together; at most ``n``.

        ``places``: people who answer a question; somebody who was shown it holds a place for ``hold``.
        """
        return shown_questions.assign(self._scope, person, open_ids, places=places, n=n, most=most, hold=hold)

    def next_question(
        self,
        person: str,
        *,
        places: int,
        most: int | None,
        hold: timedelta,
        enough: str,
        besides: Collection[str] = (),
    ) -> Question | None:
        """The question that waits for an annotator, or else a new one, which is stored as shown; None if there is none.
        ``enough``: the annotator whose answer alone closes a question. ``besides``: questions that are passed over.
        """
        return queues.next_question(
            self._scope, person, places=places, most=most, hold=hold, enough=enough, besides=besides
        )

    def left(self, person: str, *, places: int, enough: str, most: int | None = None) -> tuple[int, int]:
        """How many questions an annotator answered, and how many they can be shown yet at most, whatever others do."""
        return queues.left(self._scope, person, places=places, enough=enough, most=most)

    def assigned(self, person: str, question_id: str) -> Question | None:
        """A question that was assigned to an annotator, which is stored before they see it, and is not withdrawn."""
        return queues.assigned(self._scope, person, question_id)

    def waiting_questions(self, *, places: int, enough: str) -> list[Question]:
        """Open questions that somebody was shown and has not answered."""
        return queues.waiting_questions(self._scope, places=places, enough=enough)

    def was_shown(self, question_id: str, person: str) -> bool:
        """Whether a question was assigned to an annotator, which is stored before they see it."""
        return shown_questions.was_shown(self._scope, question_id, person)

    def exposures(self, audience: str | None = None) -> list[Exposure]:
        """Who was shown what, oldest first. A withdrawn record is named by its code."""
        return shown_questions.read(self._scope, audience)

    def tell(self, answers: Sequence[Answer], *, at: datetime | None = None) -> Told:
        """Store answers, told at ``at`` or now. What an annotator says again is not stored; what differs from before
        is a correction, and the former answer stays in the history. An unknown question: nothing is stored.
        """
        return told_answers.tell(self._scope, answers, at=at)

    def answers(self, phase: int | None = None) -> list[Answer]:
        """What each annotator last said to each question, in the order of the questions."""
        return told_answers.read(self._scope, phase)

    def answers_of(self, annotator: str) -> list[Answer]:
        """What one annotator last said to each question, in the order in which they said it."""
        return told_answers.of_annotator(self._scope, annotator)

    def voices(self) -> dict[str, set[str]]:
        """Who answered each question, by its id: what `answers` would tell, without what they said."""
        return told_answers.voices(self._scope)

    def first_told(self) -> dict[str, dict[str, datetime]]:
        """When each annotator was first heard on each question, by its id."""
        return told_answers.first_told(self._scope)

    def history(self, question_id: str) -> list[tuple[Answer, datetime]]:
        """Everything that was said to a question and when it was told, oldest first."""
        return told_answers.history(self._scope, question_id)

    def keep_file(self, kind: str, *, phase: int, data: bytes | Path, replace: bool = False) -> str:
        """Keep bytes, or a copy of a file, as the ``kind`` of ``phase``; the SHA-256 that names it. Other content than
        before is `InvalidStore`, unless it is to ``replace`` that.
        """
        return kept_files.keep(self._scope, kind, phase=phase, data=data, replace=replace)

    def file(self, kind: str, phase: int) -> Path:
        """Where a kept file is; compared with its hash first."""
        return kept_files.path_of(self._scope, kind, phase)

    def files(self, phase: int | None = None) -> list[KeptFile]:
        """What is kept, by phase and kind."""
        return kept_files.read(self._scope, phase)

    def kinds(self, phase: int | None = None) -> list[str]:
        """The kinds of file that are kept."""
        return sorted({one.kind for one in self.files(phase)})

    def sweep(self, *, alone: bool = False) -> int:
        """Overwrite and remove files that nothing names, left by processes that died. How many there were.

        ``alone``: nobody keeps a file meanwhile, so that also what was written a moment ago is a leftover.
        """
        return kept_files.sweep(self._scope, alone=alone)

    def row_head(self) -> str:
        """The MAC over everything that was stored so far, but for the ledger: keyed, so it says nothing of it."""
        return row_macs.head_of(self._scope)

    def check_rows(self, *, heads: Collection[str] = ()) -> RowAudit:
        """Compare everything that is stored, but for the ledger, with the MACs that were written with it. ``heads``:
        kept elsewhere; each must have been the head of these rows once.
        """
        return row_macs.audit(self._scope, heads)

    def check_database(self) -> tuple[bool, list[str]]:
        """Whether the database is undamaged, and tables with rows that name rows which are not there."""
        with self._scope.reading("verifying the database") as connection:
            return self._scope.database.dialect.integrity(connection)

    def sink(self, *, step: Step | None = None) -> StoreSink:
        """Where the campaign's ledger keeps its lines. ``step``: recorded in one transaction with the next ones."""
        return StoreSink(self._scope, step=step)

    @contextmanager
    def exclusive(self, purpose: str, *, wait: float = 0.0) -> Iterator[None]:
        """Be the only process that does ``purpose`` ("training") in this campaign while the block runs, or
        `StoreUnavailable` after ``wait`` seconds. The system lets go when the process ends, however it ends. On a
        server the turn ends with a connection; what is written in the block is written by that one, or not at all.
        """
        if not purpose or not all("a" <= letter <= "z" or letter == "-" for letter in purpose):
            raise BadInput("exclusive use", "the purpose is not made of small letters", 'Say, for instance, "training"')
        asked = self._scope.asked(purpose)
        place = self.directory / "locks" / f"{purpose}.lock"
        dialect = self._scope.database.dialect
        with dialect.turn(place, f"{self.id} {purpose}", asked=asked, doing=purpose, wait=wait):
            yield

    def busy(self, purpose: str) -> bool:
        """Whether somebody does ``purpose`` now, as far as the system tells: for people who look, not for who works."""
        place = self.directory / "locks" / f"{purpose}.lock"
        with self._scope.reading("looking who works") as connection:
            return self._scope.database.dialect.held(connection, place, f"{self.id} {purpose}")
