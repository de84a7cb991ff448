"""The durable loop: ask, tell, train, for weeks, through crashes.

Guarantee: every charge is a line of the ledger in the store before anything is drawn from it; what was drawn
is stored before it is returned; a process that dies anywhere leaves a campaign that the same verbs go on with
(`discreet.campaign.phase_steps`). Every step is recorded once (`discreet.campaign.state`); doing it again changes
nothing.

Two processes are serialised: only one at a time asks a new query or trains. Answers are told at any time.

Guarantee to annotators: who is shown a question is stored before its record is looked at. A record that is not what it
was when it was enrolled is shown to nobody; its question waits, and does not keep its annotator from the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from discreet.campaign.answers import Given, as_answers, question_of
from discreet.campaign.crash_recovery import forget, leftovers, step_begun, withdrawn_elsewhere
from discreet.campaign.journal import Journal, unlogged
from discreet.campaign.phase_steps import PhaseSteps
from discreet.campaign.questions import Questions
from discreet.campaign.recipe import (
    Answering,
    AwaitsRelease,
    Proposal,
    Recipe,
    Watch,
    replan_request,
    replannings,
    unwatched,
)
from discreet.campaign.state import (
    ANSWERED,
    MODEL,
    TRAINED,
    Audience,
    BudgetUsage,
    CampaignState,
    Releases,
    Status,
    budget_usage_of,
    ledger_of,
    public_certificate,
    releases_of,
    status_of,
)
from discreet.campaign.withdrawal import (
    Withdrawal,
    check_can_withdraw,
    erase,
    mark,
    nulled,
    questions_of,
    records_of,
    waiting,
    withdrawn_of,
)
from discreet.errors import BadInput, NotNow, PoolChanged, StoreUnavailable
from discreet.oracles import check_answers
from discreet.pools import Pool
from discreet.pools.frames import is_frame, schema_table
from discreet.records import HANDED_OUT, Exposure, Question, Shown, Value
from discreet.roles import Predictor
from discreet.storage import CampaignStore, TellResult, WithdrawnRecord
from discreet.trainers.layouts import answers_of

_WORK = "working"
PASSED_OVER = 3
"""Questions whose records changed, at most, before an annotator is told to wait: each of them counts as shown."""


class Campaign:
    """One campaign of a store, with its pool and recipe. Made by `create_campaign` and `load_campaign`.

    ``per_question``: how many people answer a question before it is closed. ``per_annotator``: the most questions
    that one of them is shown. ``seed``: of a simulation. ``folder``: of files with questions, for rows about
    withdrawn records to be removed from them.
    """

    def __init__(
        self,
        store: CampaignStore,
        *,
        recipe: Recipe,
        pool: Pool,
        per_question: int = 1,
        seed: int | None = None,
        watch: Watch = unwatched,
        folder: Path | None = None,
        per_annotator: int | None = None,
    ) -> None:
        if store.simulation != (seed is not None):
            raise BadInput(
                f"opening the campaign {store.name}",
                "it is a simulation, and needs its seed" if store.simulation else "it is not a simulation",
                "Give what it was created with",
            )
        self.store, self._recipe, self.pool, self.watch = store, recipe, pool, watch
        self._seed, self._folder = seed, folder
        self.journal: Journal = unlogged
        self._replanned = len(replannings(store.transitions()))
        self.questions = Questions(
            store=store, recipe=recipe, per_question=per_question, per_annotator=per_annotator, seed=seed
        )
        if per_annotator is not None and self.questions.hides_asked:
            raise BadInput(
                f"opening the campaign {store.name} with a cap on questions per annotator",
                "its selection is hidden, and an annotator who stops leaves other records without a label",
                "Remove per_annotator from [oracle], or use another selector",
            )

    # -- what is public

    @property
    def recipe(self) -> Recipe:
        """With what its first query released, once that was asked, in whatever process."""
        recipe = self._recipe
        if isinstance(recipe, AwaitsRelease) and recipe.awaits_release:
            self._recipe = recipe.after(self.store.transitions())
        return self._recipe

    @property
    def name(self) -> str:
        """As it was created."""
        return self.store.name

    @property
    def simulation(self) -> bool:
        """Whether its randomness comes from a seed: then it proves nothing about people."""
        return self.store.simulation

    @property
    def state(self) -> CampaignState:
        """The phase, and what comes next in it."""
        return self.questions.state

    @property
    def done(self) -> bool:
        """Whether the last phase is trained."""
        return self.state.step == "done"

    @property
    def answered(self) -> bool:
        """Whether the recipe itself answered the questions of this phase (`discreet.campaign.recipe.Answering`)."""
        phase = self.state.phase
        return any(step.kind == ANSWERED and step.phase == phase for step in self.store.transitions())

    def certificate(self, *, through: int | None = None) -> dict[str, Any]:
        """What this campaign guarantees, for anybody to check. Audience: public.

        Of a hidden selection, as far as it is released; ``through``: with the entries of this phase, for its model.
        """
        return public_certificate(self.store, through=through)

    def releases(self) -> Releases | None:
        """Of a hidden selection, what is public now; None: every step is."""
        with ledger_of(self.store) as ledger:
            return releases_of(ledger.terms, self.store.transitions())

    def budget_usage(self) -> BudgetUsage:
        """How much of the budget is spent; the guarantee is the whole of it. Under hidden selection, for the owner."""
        with ledger_of(self.store) as ledger:
            return budget_usage_of(ledger)

    def status(self, audience: Audience = "public") -> Status:
        """Where the campaign stands, for an audience."""
        return status_of(self.store, self.recipe, audience, self.questions.counts)

    # -- models: public, as they are paid for

    def predictor(self, phase: int | None = None) -> Predictor:
        """The model after ``phase``; the newest, without one."""
        trained = [step.phase for step in self.store.transitions() if step.kind == TRAINED]
        if not trained or (phase is not None and phase not in trained):
            raise NotNow("a model", "it is not trained yet", "Train first")
        number = max(trained) if phase is None else phase
        return self.recipe.predictor(self.store.file(MODEL, number).read_bytes())

    def predict_proba(self, x: Any) -> Any:
        """Of the newest model. What it says of public records is public; of private ones, private.

        A table in memory is read by the schema of the pool; a record that is a null by it is zeros.
        """
        schema, model = self.pool.declared.schema, self.predictor()
        if schema is not None and is_frame(x):
            x, readable = schema.encode(schema_table(x, schema, asked="predicting"))
            if hasattr(model, "on_features"):  # whose zeros are those of features
                x[~readable] = np.nan
        return model.predict_proba(x)

    def predict(self, x: Any) -> list[str] | list[tuple[str, ...]]:
        """Classes by the newest model, at the declared threshold; of several labels, those above one half."""
        shares, names = np.asarray(self.predict_proba(x)), self.recipe.classes
        if self.recipe.multilabel:
            return [
                tuple(name for name, share in zip(names, row, strict=True) if share > 0.5) for row in shares.tolist()
            ]
        return [names[number] for number in answers_of(shares, self.recipe.threshold).tolist()]

    # -- questions and labels, for the owner

    def open(self) -> list[Question]:
        """Questions that fewer people than wanted have answered. Audience: annotator."""
        return self.questions.open()

    def withdrawn_questions(self) -> frozenset[str]:
        """Ids of questions whose records were withdrawn, or are about to be. Audience: owner."""
        return questions_of(self.store)

    def labels(self) -> dict[str, Value]:
        """What the annotators say, by record: the vote, where several answered. Audience: owner."""
        return dict(self.questions.labels().values)

    def exposures(self, audience: str | None = None) -> list[Exposure]:
        """Who was shown which record, and when first, oldest first. Audience: owner, and an auditor."""
        return self.store.exposures(audience)

    def changed_in_queues(self) -> list[str]:
        """Questions that somebody was to be shown and that are passed over, for their records are not what they were
        when they were enrolled. Records are to be restored or withdrawn: no phase is trained before. Audience: owner.
        """
        if self.done:
            return []
        steps = self._steps()
        return [question.id for question in self.questions.waiting() if steps.is_changed(question)]

    def check_record(self, question: Question) -> None:
        """Refuse a question whose record is not what it was when it was enrolled (`PoolChanged`)."""
        self._steps().check_records([question.record])

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
        their own share (`discreet.campaign.answers`), and without one the list is whole: no ``n``.
        """
        _check_count(n)
        if annotator is not None:
            self.questions.check_person(annotator)
            return self.questions.assigned(annotator, self.due(None), n)
        self.questions.check_lists()
        if n is not None and self.questions.hides_asked:
            raise BadInput(
                f"asking for {n} questions",
                "selection is hidden, and which records are the first of a list depends on all others in it",
                "Leave n out, or name the annotator",
            )
        questions = self.due(n)
        self.show([Shown(question_id=question.id, audience=to, kind=HANDED_OUT) for question in questions])
        return questions

    def due(self, n: int | None = None) -> list[Question]:
        """As `ask`, for whoever says by `show` who sees them, before they do."""
        _check_count(n)
        fresh = False
        if self.state.step == "ask":
            with self.store.exclusive(_WORK):
                self._check_plan()
                state = self.state  # of whoever was faster
                if state.step == "ask":
                    self._erase_marked()
                    fresh = not step_begun(self.store, state)
                    self._steps().publish(state.phase)
                    self._erase_marked()  # withdrawn meanwhile
        self._follow()
        self._tell_known(self.state)
        questions, steps = self.open()[:n], self._steps()
        try:
            steps.check_records(question.record for question in questions)
        except PoolChanged:
            if not fresh:
                raise
            # charged a moment ago: the question of a record that changed since then waits, and the next call refuses
            questions = [question for question in questions if not steps.is_changed(question)]
        return questions

    def show(self, shown: Sequence[Shown]) -> None:
        """Record who is about to be shown which question; durable when it returns. Nobody is shown more than is
        allowed them: `NotNow`, and nothing is recorded.
        """
        self.store.show(shown, cap=self.questions.per_annotator)

    def next_for(self, annotator: str) -> Question | None:
        """A published question for one person: the one that waits for their answer, or a new one, which is stored as
        shown. No query is ever asked here: what people do on a page costs nothing. None: there is none for them now,
        or the last phase is trained, and nothing that is said would count.

        A question whose record changed is passed over, and waits until the record is restored or withdrawn
        (`changed_in_queues`); `PoolChanged` if it is the only one, or one of several.
        """
        self._follow()
        state = self.state
        if state.step == "done":
            return None
        self._tell_known(state)
        passed: list[Question] = []
        steps = self._steps()
        while True:
            question = self.questions.next_of(annotator, [passed_over.id for passed_over in passed])
            if question is None:
                # there are questions for them, and the records that changed are why they see none
                steps.check_records(passed_over.record for passed_over in passed)
                return None
            if not steps.is_changed(question):
                return question
            if len(passed) == PASSED_OVER:
                steps.check_records([question.record])
            passed.append(question)

    def tell(self, answers: Given, *, annotator: str = "", at: datetime | None = None) -> TellResult:
        """Record answers: `Answer`s, or labels by the id of the question or of the record; None is a skip.

        All of them or, with an error, none. What was said before is not said twice; something else is a correction, and
        the former answer stays in the history. Late answers count from the next training on. Answers about withdrawn
        records are passed over.
        """
        withdrawn = questions_of(self.store, self._follow())
        if isinstance(answers, Mapping):
            questions = self.store.questions()
            answers = {name: value for name, value in answers.items() if not self.pool.withdrew(name)}
        else:
            answers = as_answers(answers, ())
            questions = self.questions.questions_of(answers)
        checked = check_answers(
            [
                answer
                for answer in as_answers(answers, questions, annotator=annotator)
                if question_of(answer) not in withdrawn
            ],
            questions=questions,
            classes=self.recipe.classes,
            multilabel=self.recipe.multilabel,
        )
        valid = list(checked.valid)
        self.questions.check_voices(valid, questions)
        self.store.show(self.questions.seen_by_answering(valid), at=at)
        return self.store.tell(valid, at=at)

    def answer(self) -> int:
        """Let the recipe itself answer the questions of the phase, where it can (PATE): charged, drawn and told before
        this returns; after a crash, the same answers. How many were asked; 0: there was nothing to answer.
        """
        if not isinstance(self.recipe, Answering):
            raise BadInput(f"answers of {self.name} itself", "people answer its questions", "Ask, then tell")
        with self.store.exclusive(_WORK):
            state = self.state
            return self._answer(state.phase) if state.step == "answer" and not self.answered else 0

    def _answer(self, phase: int) -> int:
        return self._steps().answer(phase, self.tell)

    def train(self, *, partial: bool = False) -> Predictor:
        """Train the phase whose questions are answered; after a crash, go on where it was.

        ``partial``: although some are open. A record without a label keeps its place and teaches nothing; the plan
        stays as it is, and its guarantee too. Refused where selection is hidden: there a missing label may be another
        record's doing, which nothing pays for.
        """
        if partial:
            self.questions.check_partial()
        with self.store.exclusive(_WORK):
            self._check_plan()
            state, assignment = self.state, None
            if state.step in ("ask", "done"):
                raise NotNow(
                    f"training phase {state.phase}",
                    "nobody was asked in it yet" if state.step == "ask" else "it is the last one, and trained",
                    "Ask first" if state.step == "ask" else "Nothing is left to do",
                )
            if state.step == "answer":
                self._erase_marked()
                self._tell_known(state)
                self._finish_answering(state)
                assignment = self.questions.assignment()
                self.questions.check_answered(state.phase, partial=partial, assignment=assignment)
            self._follow()
            steps = self._steps()
            steps.check_records(question.record for question in self.store.questions())
            if state.step == "answer":
                steps.fix_labels(state.phase, self.questions.labels(assignment), assignment)
            steps.train(state.phase)
            with suppress(StoreUnavailable):  # the model is there; the next process that opens the campaign goes on
                self._erase_marked()
        return self.predictor(state.phase)

    def replan(self, *, dry_run: bool = False, shown: str | None = None, **wish: Any) -> Proposal:
        """Go on otherwise than planned, from the next phase on; with ``dry_run``, only say what that would mean.

        because      "outside": it would have been decided whatever the records are and whatever came out;
                     "released": because of what was released. Nothing else is covered, answers least of all
        epsilon      a larger guarantee; only "outside"
        queries      sizes of the queries to come; none at all: one last training
        labels       instead: so many further labels, shared out
        add_phases   sizes of further queries
        note         public words
        shown        the digest of the proposal that was agreed to: refused if it would be another one now

        From then on the ledger is adaptive, and so is the claim (docs/proofs/replanning.md). Audience: public.
        """
        request = replan_request(**wish)
        with self.store.exclusive(_WORK):
            self._check_plan()
            if dry_run:
                return self._steps().proposed(request)[0]
            proposal, self._recipe = self._steps().replan(request, shown=shown)
            self.questions = replace(self.questions, recipe=self._recipe)
            self._replanned = len(replannings(self.store.transitions()))
        return proposal

    def withdraw(self, ids: Iterable[str] = (), *, persons: Iterable[str] = (), later: bool = False) -> Withdrawal:
        """Take back records, by their ids, or all of some persons: nobody is asked about them, no later phase trains on
        them, and nothing of them stays in the store. Repeating it is safe. Audience: owner.

        A query or training that was begun with them is finished first, as it was begun; with ``later`` they are only
        marked then, and erased when somebody has finished it. While another process works: the same.
        """
        check_can_withdraw(self.name, self.recipe)
        before = withdrawn_of(self.store, persons) if (persons := list(persons)) else {}
        named = [*ids, *(records_of(self.pool, persons, before) if persons else ())]
        new, known = mark(self.store, named) if named or not persons else (0, 0)
        known += sum(before.values())
        left = self.erase_withdrawn(later=later)
        return Withdrawal(new=new, known=known, waiting=left, state=self.state)

    def erase_withdrawn(self, *, later: bool = False) -> int:
        """Erase records that are marked as withdrawn; how many must wait for a step that is under way."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self.store.exclusive(_WORK))
            except StoreUnavailable:  # whoever works now erases them when it is over
                return waiting(self.store)
            self._follow()
            if not later and waiting(self.store):
                self._finish_begun()
            self._erase_marked()
        return waiting(self.store)

    def tidy(self) -> None:
        """Remove what a process that died left of steps that are over: keys, checkpoints, files half written.

        Opening a campaign does it, so that the key of the last phase goes, too. While another process works, or where
        nothing is left: nothing, because showing a campaign must not block its training.
        """
        if leftovers(self.store, ended=self.done) or withdrawn_elsewhere(self.store) or waiting(self.store):
            with suppress(StoreUnavailable, NotNow), self.store.exclusive(_WORK):
                forget(self.store, ended=self.done)
                self._erase_marked()

    # -- inside

    def _steps(self) -> PhaseSteps:
        return PhaseSteps(
            store=self.store,
            recipe=self.recipe,
            pool=self.pool,
            seed=self._seed,
            watch=self.watch,
            journal=self.journal,
        )

    def _follow(self) -> list[WithdrawnRecord]:
        """The pool as other processes left it: with nulls for what was withdrawn meanwhile, which is returned."""
        withdrawn = self.store.withdrawn()
        erased = {record.id for record in withdrawn if record.erased and record.place < len(self.pool)}
        if erased != self.pool.withdrawn:
            self.pool = nulled(self.store, self.pool, first=len(self.pool))
        return withdrawn

    def _check_plan(self) -> None:
        """A process that has the old plan in hand must not go on by it."""
        if len(replannings(self.store.transitions())) != self._replanned:
            raise NotNow(f"going on with {self.name}", "another process re-planned it", "Load the campaign again")

    def _tell_known(self, state: CampaignState) -> None:
        """Labels that were there before the campaign. After a crash, those that are not told yet."""
        if (state.phase, state.step) == (0, "answer") and (left := self.questions.known_answers()):
            self.tell(left)

    def _finish_answering(self, state: CampaignState) -> None:
        """The recipe's own answers that were paid for, perhaps told, and not recorded; or that there was nothing to
        ask.
        """
        if not isinstance(self.recipe, Answering) or self.answered:
            return
        if not step_begun(self.store, state) and self.store.questions(state.phase):
            raise NotNow(
                f"training phase {state.phase}",
                "the owner's models did not answer its questions yet, and nobody else does",
                "Let them answer first (discreet ask, or answer())",
            )
        self._answer(state.phase)

    def _finish_begun(self) -> None:
        state = self.state
        if state.step == "train":
            steps = self._steps()
            steps.check_records(question.record for question in self.store.questions())
            steps.train(state.phase)
        elif step_begun(self.store, state):
            self._answer(state.phase) if state.step == "answer" else self._steps().publish(state.phase)

    def _erase_marked(self) -> None:
        """For whoever holds the campaign: erase withdrawn records, unless a step is under way."""
        if waiting(self.store) and not step_begun(self.store, self.state):
            erase(self.store, self.pool, self._folder)
            self._follow()


def _check_count(n: int | None) -> None:
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise BadInput(f"asking for {n} questions", "it is not a whole number from 1", "Leave it out for all")
