"""The durable loop: ask, tell, train, for weeks, through crashes.

Guarantee (law 1): every charge is a line of the ledger in the store before anything is drawn from it; what was drawn is
stored before it is returned; a process that dies anywhere leaves a campaign that the same verbs go on with. A query or
training that was begun is repeated with the same draws, from a key sealed in a file until it is over (a simulation:
from its seed). Every step is recorded once (`discreet.campaign.standing`); doing it again changes nothing.

Two processes are serialised: only one at a time asks a new query or trains. Answers are told at any time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discreet.campaign.recipe import Chosen, Desk, Recipe, Watch, unwatched
from discreet.campaign.sealed_steps import (
    ASK,
    CHECKPOINTS,
    TRAIN,
    charging,
    forget,
    ledger_of,
    leftovers,
    naming_checkpoints,
    place_in,
)
from discreet.campaign.secret_keys import secret_key
from discreet.campaign.standing import TRAINED, TRAINING, Standing, standing
from discreet.campaign.told import (
    IMPORTED,
    Given,
    as_answers,
    labels_from_bytes,
    labels_of,
    labels_to_bytes,
    open_questions,
)
from discreet.errors import BadInput, NotNow, PoolChanged, StoreUnavailable
from discreet.noise import OperatingSystem, SealedPhase, SecretKey, Seeded, Source
from discreet.oracles import check_answers
from discreet.pools import ManifestKey, Pool, macs_at
from discreet.privacy.ledger import Ledger
from discreet.records import Answer, Question, Value
from discreet.roles import Predictor
from discreet.storage import CampaignStore, Told, Transition

if TYPE_CHECKING:
    from discreet.campaign.status import Status

_WORK = "working"
MODEL, LABELS, MANIFEST = "model", "labels", "manifest.key"


@dataclass(frozen=True, kw_only=True)
class Gauge:
    """What was promised, and what the path that spent most has spent of it. Audience: world."""

    epsilon: Decimal
    delta: Decimal
    spent: Decimal


class Campaign:
    """One campaign of a store, with its pool and recipe. Made by `create_campaign` and `load_campaign`.

    ``per_question``: how many people answer a question before it is closed. ``seed``: of a simulation.
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
    ) -> None:
        if store.simulation != (seed is not None):
            raise BadInput(
                f"opening the campaign {store.name}",
                "it is a simulation, and needs its seed" if store.simulation else "it is not a simulation",
                "Give what it was created with",
            )
        self.store, self.recipe, self.pool, self.watch = store, recipe, pool, watch
        self._per_question, self._seed = per_question, seed

    # -- what is public

    @property
    def name(self) -> str:
        """As it was created."""
        return self.store.name

    @property
    def simulation(self) -> bool:
        """Whether its chance comes from a seed: then it proves nothing about people."""
        return self.store.simulation

    @property
    def standing(self) -> Standing:
        """The phase, and what comes next in it."""
        return standing(self.store.transitions(), self.recipe.phases)

    @property
    def done(self) -> bool:
        """Whether the last phase is trained."""
        return self.standing.step == "done"

    def certificate(self) -> dict[str, Any]:
        """What this campaign promises, for anybody to check. Audience: world."""
        from discreet.privacy.certificate import certify

        with ledger_of(self.store) as ledger:
            return certify(ledger)

    def gauge(self) -> Gauge:
        """How much of the budget is spent; the promise is the whole of it."""
        with ledger_of(self.store) as ledger:
            budget, spent = ledger.terms.budget, max(total.epsilon for total in ledger.totals())
            # the odometer reads RDP, which is loose; the whole plan is certified within the budget
            return Gauge(epsilon=budget.epsilon, delta=budget.delta, spent=min(spent, budget.epsilon))

    def status(self, audience: Literal["world", "owner"] = "world") -> Status:
        """Where the campaign stands, for an audience."""
        from discreet.campaign.status import status_of

        return status_of(self, audience)

    # -- the verbs

    def ask(self, n: int | None = None) -> list[Question]:
        """The open questions, oldest phase first, in the random order they are shown in; at most ``n`` of them.

        Asks the next query first, if it is time for it: it is charged, drawn and published before this returns. The
        same questions come again until they are answered. Empty: everything asked is answered. A question about a
        record that changed is not shown (`PoolChanged`) until the record is restored. Audience: annotator.
        """
        if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
            raise BadInput(f"asking for {n} questions", "it is not a whole number from 1", "Leave it out for all")
        if self.standing.step == "ask":
            with self.store.exclusive(_WORK):
                now = self.standing  # of whoever was faster
                if now.step == "ask":
                    self._publish(now.phase)
        self._tell_known()
        shown = self.open()[:n]
        # after publishing: refusing a query that was drawn would leave noise that fits neither the changed records
        # nor the restored ones, and nobody could go on
        self._check_records(question.record for question in shown)
        return shown

    def tell(self, answers: Given, *, annotator: str = "", at: datetime | None = None) -> Told:
        """Record answers: `Answer`s, or labels by the id of the question or of the record; None is a skip.

        All of them or, with an error, none. What was said before is not said twice; something else is a correction, and
        the former answer stays in the history. Late answers count from the next training on.
        """
        questions = self.store.questions()
        given = as_answers(answers, questions, annotator=annotator)
        checked = check_answers(
            given, questions=questions, classes=self.recipe.classes, multilabel=self.recipe.multilabel
        )
        return self.store.tell(list(checked.valid), at=at)

    def train(self, *, partial: bool = False) -> Predictor:
        """Train the phase whose questions are answered; after a crash, go on where it was.

        ``partial``: although some are open. A record without a label keeps its place and teaches nothing; the plan
        stays as it is, and what it promises too.
        """
        with self.store.exclusive(_WORK):
            now = self.standing
            if now.step in ("ask", "done"):
                raise NotNow(
                    f"training phase {now.phase}",
                    "nobody was asked in it yet" if now.step == "ask" else "it is the last one, and trained",
                    "Ask first" if now.step == "ask" else "Nothing is left to do",
                )
            if now.step == "answer":
                self._tell_known()
                self._check_answered(now.phase, partial=partial)
            self._check_records(question.record for question in self.store.questions())
            if now.step == "answer":
                self._fix_labels(now.phase)
            self._train(now.phase)
        return self.predictor(now.phase)

    def predictor(self, phase: int | None = None) -> Predictor:
        """The model after ``phase``; the newest, without one."""
        trained = [one.phase for one in self.store.transitions() if one.kind == TRAINED]
        if not trained or (phase is not None and phase not in trained):
            raise NotNow("a model", "it is not trained yet", "Train first")
        number = max(trained) if phase is None else phase
        return self.recipe.predictor(self.store.file(MODEL, number).read_bytes())

    def predict_proba(self, x: Any) -> Any:
        """Of the newest model. What it says of public records is public; of private ones, private."""
        return self.predictor().predict_proba(x)

    def predict(self, x: Any) -> list[str] | list[tuple[str, ...]]:
        """Classes by the newest model; of several labels, those above one half."""
        found, names = np.asarray(self.predict_proba(x)), self.recipe.classes
        if self.recipe.multilabel:
            return [tuple(name for name, one in zip(names, row, strict=True) if one > 0.5) for row in found.tolist()]
        return [names[number] for number in found.argmax(axis=1).tolist()]

    # -- what the owner sees

    def open(self) -> list[Question]:
        """Questions that fewer people than wanted have answered. Audience: annotator."""
        return open_questions(self.store.questions(), self.store.answers(), self._per_question)

    def labels(self) -> dict[str, Value]:
        """What the annotators say, by record: the vote, where several answered. Audience: owner."""
        return labels_of(self.store.questions(), self.store.answers(), self._votes())

    # -- inside

    def _publish(self, phase: int) -> None:
        forget(self.store)
        self._check_whole()
        with charging(self.store, phase, ASK, self._source()) as charges:
            found = self.recipe.choose(self._desk(phase, charges))
            self.store.publish(
                phase,
                _questions(phase, found, self.pool.ids),
                above=found.above,
                cohorts=found.cohorts,
                facts=found.facts,
            )

    def _tell_known(self) -> None:
        """Labels that were there before the campaign. After a crash, those that are not told yet."""
        now = self.standing
        if (now.phase, now.step) != (0, "answer") or not (known := self.recipe.known_labels()):
            return
        told = {answer.question_id for answer in self.store.answers(0) if answer.annotator == IMPORTED}
        left = [one for one in self.store.questions(0) if one.id not in told and one.record in known]
        if left:
            self.tell([Answer(question_id=one.id, value=known[one.record], annotator=IMPORTED) for one in left])

    def _check_answered(self, phase: int, *, partial: bool) -> None:
        mine = [question for question in self.open() if question.phase == phase]
        if mine and not partial:
            raise NotNow(
                f"training phase {phase}",
                "some of its questions are open",  # how many is the owner's: see status
                "Tell their answers (a skip is one), or train with partial=True (--partial)",
            )

    def _fix_labels(self, phase: int) -> None:
        """From here on the phase is trained on these labels: equal noise on other ones would show their difference."""
        self.store.keep_file(LABELS, phase=phase, data=labels_to_bytes(self.labels()), replace=True)
        self.store.record(TRAINING, phase=phase)

    def _train(self, phase: int) -> None:
        labels = labels_from_bytes(self.store.file(LABELS, phase).read_bytes())
        forget(self.store)
        with charging(self.store, phase, TRAIN, self._source()) as charges:
            desk = self._desk(phase, charges)
            with naming_checkpoints(self.store):
                made = self.recipe.train(desk, labels)
            name = self.store.keep_file(MODEL, phase=phase, data=made.content, replace=True)
            evaluation = None if made.evaluation is None else made.evaluation.to_json()
            self.store.record(TRAINED, phase=phase, facts={"model": name, "evaluation": evaluation})
        forget(self.store)

    def _desk(self, phase: int, charges: Ledger | SealedPhase) -> Desk:
        return Desk(
            phase=phase,
            pool=self.pool,
            charges=charges,
            source=self._source(),
            members=self.store.cohort_members(),
            model=self.predictor(phase - 1) if phase else None,
            directory=place_in(self.store, CHECKPOINTS),
            watch=self.watch,
        )

    def tidy(self) -> None:
        """Remove what a process that died left of steps that are over: keys, checkpoints, files half written.

        Opening a campaign does it, so that the key of the last phase goes, too. While another process works: nothing.
        """
        if leftovers(self.store):  # looked for first: whoever only looks must not stand in the way of a worker
            with suppress(StoreUnavailable), self.store.exclusive(_WORK):
                forget(self.store)

    def _check_whole(self) -> None:
        """A query that is begun without the newest records could not be gone on with by a process that has them."""
        enrolled = sum(cohort.size for cohort in self.store.pool_cohorts())
        if enrolled != len(self.pool):
            raise PoolChanged(
                f"asking in {self.name}",
                f"{enrolled} records are enrolled, and this process has {len(self.pool)}",
                "Load the campaign again",
            )

    def _check_records(self, ids: Iterable[str]) -> None:
        """Refuse records that are not what they were when they were enrolled."""
        wanted = list(ids)
        key = ManifestKey.read(self.store.directory / MANIFEST)
        stored = self.store.macs_of(wanted)
        now = macs_at(self.pool, key, self.pool.places(wanted))
        if any(stored.get(name) != code for name, code in now):
            raise PoolChanged(  # how many are used, or changed, is the owner's
                f"using records of {self.name}",
                "some of them are not what they were when they were enrolled",
                "Restore them; discreet pool check looks at all of them",
            )

    def _source(self) -> Source:
        return OperatingSystem() if self._seed is None else Seeded(self._seed)

    def _votes(self) -> SecretKey:
        """Decides ties, each by a coin of its own question."""
        return secret_key(self.store, "votes", self._seed)


def _questions(phase: int, found: Chosen, ids: Iterable[str]) -> list[Question]:
    """Their ids say nothing of a record, and are no record's own: a label must not reach another one."""
    prefix = ""
    while any(_LIKE_OURS.fullmatch(one.removeprefix(prefix)) for one in ids if one.startswith(prefix)):
        prefix += "q"
    return [
        Question(id=f"{prefix}{phase}.{place}", record=record, phase=phase, place=place)
        for place, record in enumerate(found.ids)
    ]


_LIKE_OURS = re.compile(r"[0-9]+\.[0-9]+")


def evaluations_of(transitions: list[Transition]) -> Mapping[int, Mapping[str, Any]]:
    """What was measured and paid for, or is public, by phase. Audience: world."""
    return {
        one.phase: one.facts["evaluation"] for one in transitions if one.kind == TRAINED and one.facts["evaluation"]
    }
