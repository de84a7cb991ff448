"""The durable loop: ask, tell, train, for weeks, through crashes.

Guarantee (law 1): every charge is a line of the ledger in the store before anything is drawn from it; what was drawn is
stored before it is returned; a process that dies anywhere leaves a campaign that the same verbs go on with. A query or
training that was begun is repeated with the same draws, from a key sealed in a file until it is over (a simulation:
from its seed). Every step is recorded once (`discreet.campaign.standing`); doing it again changes nothing.

Two processes are serialised: only one at a time asks a new query or trains. Answers are told at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from discreet.campaign.annotators import HOLD, AnnotatedCampaign
from discreet.campaign.assignment import Assignment
from discreet.campaign.journal import Asked, Trained, TrainingBegun
from discreet.campaign.question_names import named_questions, question_of
from discreet.campaign.recipe import Answering, Desk
from discreet.campaign.replanning import Proposal, propose, replan, replannings, wish_of
from discreet.campaign.sealed_steps import (
    ANSWER,
    ASK,
    CHECKPOINTS,
    TRAIN,
    charging,
    forget,
    leftovers,
    naming_checkpoints,
    place_in,
    query_begun,
    record_release,
    step_begun,
)
from discreet.campaign.standing import ANSWERED, PUBLISHED, TRAINED, TRAINING, Standing
from discreet.campaign.told import (
    HOUSE,
    IMPORTED,
    Given,
    as_answers,
    labels_from_bytes,
    labels_to_bytes,
    trust_from_bytes,
    trust_to_bytes,
)
from discreet.campaign.view import MODEL
from discreet.campaign.withdrawing import (
    LABELS,
    Withdrawal,
    erase,
    mark,
    questions_of,
    records_of,
    waiting,
    withdrawn_of,
)
from discreet.errors import BadInput, NotNow, PoolChanged, StoreUnavailable
from discreet.noise import SealedPhase
from discreet.oracles import check_answers
from discreet.privacy.ledger import Ledger
from discreet.records import HANDED_OUT, PROGRAM, Answer, Question, Shown
from discreet.roles import Predictor
from discreet.storage import Told

_WORK, TRUST = "working", "trust"
_FEW = 4


class Campaign(AnnotatedCampaign):
    """One campaign of a store, with its pool and recipe. Made by `create_campaign` and `load_campaign`.

    ``per_question``: how many people answer a question before it is closed. ``per_annotator``: the most questions that
    one of them is shown. ``seed``: of a simulation. ``folder``: of
    files with questions, for rows about withdrawn records to be removed from them.
    """

    # -- the verbs

    def ask(self, n: int | None = None, *, annotator: str | None = None, to: str = "") -> list[Question]:
        """The open questions, oldest phase first, in the random order they are shown in; at most ``n`` of them.

        Asks the next query first, if it is time for it: it is charged, drawn and published before this returns. The
        same questions come again until they are answered. Empty: everything asked is answered. A pool with records that
        changed since they were enrolled is refused before the charge (`PoolChanged`); a question about a record that
        changed later is not shown until the record is restored. Audience: annotator.

        annotator   only what this person may see and has not answered: as many people as answer a question get it
        to          of questions for people who are not known here: what they are handed out as, such as a file's name

        Who is shown what is on the disk before this returns (`exposures`). Where selection is hidden, an annotator gets
        their own share (`discreet.campaign.assignment`), and without one the list is whole: no ``n``.
        """
        _check_many(n)
        if annotator is not None:
            self._check_annotator(annotator)
            self._check_room_of(annotator)
            return self._assigned(annotator, self.due(None), n)
        self.check_lists()
        if n is not None and self.hides_asked:
            raise BadInput(
                f"asking for {n} questions",
                "selection is hidden, and which records are the first of a list depends on all others in it",
                "Leave n out, or name the annotator",
            )
        found = self.due(n)
        self.show([Shown(question_id=one.id, audience=to, kind=HANDED_OUT) for one in found])
        return found

    def due(self, n: int | None = None) -> list[Question]:
        """As `ask`, for whoever says by `show` who sees them, before they do."""
        _check_many(n)
        fresh = False
        if self.standing.step == "ask":
            with self.store.exclusive(_WORK):
                self._check_plan()
                now = self.standing  # of whoever was faster
                if now.step == "ask":
                    self._erase_marked()
                    fresh = not step_begun(self.store, now)
                    self._publish(now.phase)
                    self._erase_marked()  # withdrawn meanwhile
        self._follow()
        self._tell_known(self.standing)
        shown = self.open()[:n]
        try:
            self._check_records(question.record for question in shown)
        except PoolChanged:
            if not fresh:
                raise
            # charged a moment ago: the question of a record that changed since then waits, and the next call refuses
            shown = [question for question in shown if not self._changed(question)]
        return shown

    def show(self, shown: Sequence[Shown]) -> None:
        """Record who is about to be shown which question; durable when it returns. Nobody is shown more than is
        allowed them: `NotNow`, and nothing is recorded.
        """
        self.store.show(shown, most=self._per_annotator)

    def next_for(self, annotator: str) -> Question | None:
        """A published question for one person: the one that waits for their answer, or a new one, which is stored as
        shown. No query is ever asked here: what people do on a page costs nothing. None: there is none for them now,
        or the last phase is trained, and nothing that is said would count.

        A question whose record changed is passed over, and waits until the record is restored or withdrawn
        (`changed_in_queues`); `PoolChanged` if it is the only one, or one of several.
        """
        self._follow()
        now = self.standing
        if now.step == "done":
            return None
        self._tell_known(now)
        return self._handed_out(annotator)

    def _assigned(self, annotator: str, open_now: Sequence[Question], n: int | None) -> list[Question]:
        if self.hides_asked:
            found = self._share_of(annotator, open_now)[:n]
            self.show([Shown(question_id=one.id, audience=annotator) for one in found])
            return found
        questions = {one.id: one for one in open_now}
        mine = self.store.assign(
            annotator, list(questions), places=self._per_question, n=n, most=self._per_annotator, hold=HOLD
        )
        return [questions[name] for name in mine]

    def tell(self, answers: Given, *, annotator: str = "", at: datetime | None = None) -> Told:
        """Record answers: `Answer`s, or labels by the id of the question or of the record; None is a skip.

        All of them or, with an error, none. What was said before is not said twice; something else is a correction, and
        the former answer stays in the history. Late answers count from the next training on. Answers about withdrawn
        records are passed over.
        """
        gone = questions_of(self.store, self._follow())
        if not isinstance(answers, Mapping):
            answers = as_answers(answers, ())
        questions = self.store.questions() if isinstance(answers, Mapping) else self._questions_of(answers)
        if isinstance(answers, Mapping):
            answers = {name: value for name, value in answers.items() if not self.pool.withdrew(name)}
        given = [one for one in as_answers(answers, questions, annotator=annotator) if question_of(one) not in gone]
        checked = check_answers(
            given, questions=questions, classes=self.recipe.classes, multilabel=self.recipe.multilabel
        )
        valid = list(checked.valid)
        self._check_voices(valid, questions)
        named = {(one.question_id, one.annotator) for one in valid if one.annotator not in ("", IMPORTED, HOUSE)}
        if len(named) <= _FEW:  # mostly stored when it was handed out: one transaction less on a page
            named = {one for one in named if not self.store.was_shown(*one)}
        # who answers has seen it, whoever handed it to them
        self.store.show([Shown(question_id=question, audience=person) for question, person in sorted(named)], at=at)
        return self.store.tell(valid, at=at)

    def answer(self) -> int:
        """Let the house answer the questions of the phase, where the recipe can (teachers): charged, drawn and told
        before this returns; after a crash, the same answers. How many were asked; 0: there was nothing to answer.
        """
        if not isinstance(self.recipe, Answering):
            raise BadInput(f"answers of {self.name} itself", "people answer its questions", "Ask, then tell")
        with self.store.exclusive(_WORK):
            now = self.standing
            return self._answer(now.phase) if now.step == "answer" and not self.answered else 0

    def _questions_of(self, answers: Sequence[Answer]) -> list[Question]:
        """Those that are answered: a page tells one at a time."""
        if len(answers) > _FEW:
            return self.store.questions()
        names = {name for one in answers if isinstance(name := question_of(one), str)}
        return [found for name in names if (found := self.store.question(name)) is not None]

    def train(self, *, partial: bool = False) -> Predictor:
        """Train the phase whose questions are answered; after a crash, go on where it was.

        ``partial``: although some are open. A record without a label keeps its place and teaches nothing; the plan
        stays as it is, and its guarantee too. Refused where selection is hidden: there a missing label may be another
        record's doing, which nothing pays for.
        """
        if partial:
            self.check_partial()
        with self.store.exclusive(_WORK):
            self._check_plan()
            now, assignment = self.standing, None
            if now.step in ("ask", "done"):
                raise NotNow(
                    f"training phase {now.phase}",
                    "nobody was asked in it yet" if now.step == "ask" else "it is the last one, and trained",
                    "Ask first" if now.step == "ask" else "Nothing is left to do",
                )
            if now.step == "answer":
                self._erase_marked()
                self._tell_known(now)
                self._finish_answering(now)
                assignment = self.assignment()
                self._check_answered(now.phase, partial=partial, assignment=assignment)
            self._follow()
            self._check_records(question.record for question in self.store.questions())
            if now.step == "answer":
                self._fix_labels(now.phase, assignment)
            self._train(now.phase)
            with suppress(StoreUnavailable):  # the model is there; the next process that opens the campaign goes on
                self._erase_marked()
        return self.predictor(now.phase)

    def replan(self, *, dry_run: bool = False, shown: str | None = None, **wish: Any) -> Proposal:
        """Go on otherwise than planned, from the next phase on; with ``dry_run``, only say what that would mean.

        because      "outside": it would have been decided whatever the records are and whatever came out;
                     "released": because of what was released. Nothing else is covered, answers least of all
        epsilon      a larger promise; only "outside"
        queries      sizes of the queries to come; none at all: one last training
        labels       instead: so many further labels, shared out
        add_phases   sizes of further queries
        note         public words
        shown        the digest of the proposal that was agreed to: refused if it would be another one now

        From then on the ledger is adaptive, and so is the claim (docs/proofs/replanning.md). Audience: world.
        """
        wanted = wish_of(**wish)
        with self.store.exclusive(_WORK):
            self._check_plan()
            if dry_run:
                return propose(self, wanted)
            made, self.recipe = replan(self, wanted, shown=shown)
            self._replanned = len(replannings(self.store.transitions()))
        return made

    def withdraw(self, ids: Iterable[str] = (), *, persons: Iterable[str] = (), later: bool = False) -> Withdrawal:
        """Take back records, by their ids, or all of some persons: nobody is asked about them, no later phase trains on
        them, and nothing of them stays in the store. Repeating it is safe. Audience: owner.

        A query or training that was begun with them is finished first, as it was begun; with ``later`` they are only
        marked then, and erased when somebody has finished it. While another process works: the same.
        """
        self._check_can_withdraw()
        before = withdrawn_of(self.store, persons) if (persons := list(persons)) else {}
        named = [*ids, *(records_of(self.pool, persons, before) if persons else ())]
        new, known = mark(self.store, named) if named or not persons else (0, 0)
        known += sum(before.values())
        left = self.erase_withdrawn(later=later)
        return Withdrawal(new=new, known=known, waiting=left, standing=self.standing)

    def erase_withdrawn(self, *, later: bool = False) -> int:
        """Erase records that are marked as withdrawn; how many must wait for a step that is under way."""
        with ExitStack() as held:
            try:
                held.enter_context(self.store.exclusive(_WORK))
            except StoreUnavailable:  # whoever works now erases them when it is over
                return waiting(self.store)
            self._follow()
            if not later and waiting(self.store):
                self._finish_begun()
            self._erase_marked()
        return waiting(self.store)

    # -- inside

    def _publish(self, phase: int) -> None:
        forget(self.store)
        self._check_whole()
        checked = query_begun(self.store, phase)

        def check() -> None:
            """Once, before the first charge. A query that was charged before is repeated with nulls for changed
            records: refused, its noise would fit neither those nor the restored ones, and nobody could go on.
            """
            nonlocal checked
            if not checked:
                self._check_verified(pool)
            checked = True

        with charging(self.store, phase, ASK, self._source()) as charges:
            pool = self._verified_pool()
            found = self.recipe.choose(replace(self._desk(phase, charges), pool=pool, check=check))
            check()  # of a query that is free
            self.store.publish(
                phase,
                named_questions(phase, found, self.pool.ids),
                above=found.above,
                cohorts=found.cohorts,
                facts=found.facts,
            )
        self.journal(Asked(phase=phase, labels_planned=self.recipe.labels_planned(phase)))

    def _answer(self, phase: int) -> int:
        assert isinstance(self.recipe, Answering)
        questions = self.store.questions(phase)
        self._check_records(one.record for one in questions)
        self.show([Shown(question_id=one.id, audience=HOUSE, kind=PROGRAM) for one in questions])
        forget(self.store)
        with charging(self.store, phase, ANSWER, self._source()) as charges:
            found = self.recipe.answers(self._desk(phase, charges), questions)
            self.tell(found)
            answered = sum(one.value is not None for one in found)  # public: it was paid for
            self.store.record(ANSWERED, phase=phase, facts={"asked": len(questions), "answered": answered})
        forget(self.store)
        return len(questions)

    def _finish_answering(self, now: Standing) -> None:
        """Answers of the house that were paid for, perhaps told, and not recorded; or that there was nothing to ask."""
        due = isinstance(self.recipe, Answering) and not self.answered
        if due and (step_begun(self.store, now) or not self.store.questions(now.phase)):
            self._answer(now.phase)

    def _tell_known(self, now: Standing) -> None:
        """Labels that were there before the campaign. After a crash, those that are not told yet."""
        if (now.phase, now.step) != (0, "answer") or not (known := self.recipe.known_labels()):
            return
        told = {answer.question_id for answer in self.store.answers(0) if answer.annotator == IMPORTED}
        left = [one for one in self.store.questions(0) if one.id not in told and one.record in known]
        if left:
            self.tell([Answer(question_id=one.id, value=known[one.record], annotator=IMPORTED) for one in left])

    def _fix_labels(self, phase: int, assignment: Assignment | None) -> None:
        """From here on the phase is trained on these labels: equal noise on other ones would show their difference."""
        found, gone = self._labelled(assignment), {one.id for one in self.store.withdrawn()}
        values = {name: value for name, value in found.values.items() if name not in gone}
        self.store.keep_file(LABELS, phase=phase, data=labels_to_bytes(values), replace=True)
        if trust := {name: one for name, one in found.trust.items() if name not in gone}:
            self.store.keep_file(TRUST, phase=phase, data=trust_to_bytes(trust), replace=True)
        self.store.record(TRAINING, phase=phase, facts={} if assignment is None else assignment.facts())

    def _train(self, phase: int) -> None:
        labels = labels_from_bytes(self.store.file(LABELS, phase).read_bytes())
        forget(self.store)
        self.journal(TrainingBegun(phase=phase))
        with charging(self.store, phase, TRAIN, self._source()) as charges:
            desk = replace(self._desk(phase, charges), trust=self._trust(phase))
            with naming_checkpoints(self.store):
                made = self.recipe.train(desk, labels)
            name = self.store.keep_file(MODEL, phase=phase, data=made.content, replace=True)
            evaluation = None if made.evaluation is None else made.evaluation.to_json()
            facts = {"model": name, "evaluation": evaluation}
            record_release(self.store, TRAINED, phase=phase, facts=facts, released={MODEL: name})
        self.journal(Trained.of(phase, name, evaluation))
        forget(self.store)

    def _trust(self, phase: int) -> dict[str, float]:
        """How far the labels of the phase are trusted, as it was fixed with them."""
        kept = TRUST in self.store.kinds(phase)
        return trust_from_bytes(self.store.file(TRUST, phase).read_bytes()) if kept else {}

    def _desk(self, phase: int, charges: Ledger | SealedPhase) -> Desk:
        return Desk(
            phase=phase,
            pool=self.pool,
            ledger=charges,
            source=self._source(),
            members=self.store.cohort_members(),
            model=self.predictor(phase - 1) if phase else None,
            directory=place_in(self.store, CHECKPOINTS),
            watch=self.watch,
            facts={one.phase: one.facts for one in self.store.transitions() if one.kind == PUBLISHED},
        )

    def tidy(self) -> None:
        """Remove what a process that died left of steps that are over: keys, checkpoints, files half written.

        Opening a campaign does it, so that the key of the last phase goes, too. While another process works: nothing.
        """
        if leftovers(self.store) or waiting(self.store):  # first: whoever only looks must not stand in a worker's way
            with suppress(StoreUnavailable, NotNow), self.store.exclusive(_WORK):
                forget(self.store)
                self._erase_marked()

    def _finish_begun(self) -> None:
        now = self.standing
        if now.step == "train":
            self._check_records(question.record for question in self.store.questions())
            self._train(now.phase)
        elif step_begun(self.store, now):
            self._answer(now.phase) if now.step == "answer" else self._publish(now.phase)

    def _erase_marked(self) -> None:
        """For whoever holds the campaign: erase withdrawn records, unless a step is under way."""
        if waiting(self.store) and not step_begun(self.store, self.standing):
            erase(self.store, self.pool, self._folder)
            self._follow()


def _check_many(n: int | None) -> None:
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise BadInput(f"asking for {n} questions", "it is not a whole number from 1", "Leave it out for all")
