"""What can be seen of a campaign, by audience, without changing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discreet.campaign.assignment import Assignment, Rankings
from discreet.campaign.journal import Journal, unlogged
from discreet.campaign.recipe import Labels, Recipe, Watch, unwatched
from discreet.campaign.releases import Releases, public_certificate, releases_of
from discreet.campaign.replanning import replannings
from discreet.campaign.sealed_steps import ledger_of
from discreet.campaign.secret_keys import secret_key
from discreet.campaign.standing import ANSWERED, TRAINED, Standing, standing
from discreet.campaign.told import open_questions
from discreet.campaign.withdrawing import questions_of
from discreet.errors import BadInput, NotNow
from discreet.noise import OperatingSystem, SecretKey, Seeded, Source
from discreet.pools import Pool
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger.terms import Mode
from discreet.records import Exposure, Question, Value
from discreet.roles import Predictor
from discreet.storage import CampaignStore, Transition

if TYPE_CHECKING:
    from discreet.campaign.status import Status

MODEL = "model"


@dataclass(frozen=True, kw_only=True)
class Gauge:
    """What was promised, and what the path that spent most has spent of it. Audience: world."""

    epsilon: Decimal
    delta: Decimal
    spent: Decimal
    mode: Mode = "committed"


def gauge_of(ledger: Ledger) -> Gauge:
    """How much of its budget a ledger has spent."""
    budget, spent = ledger.terms.budget, max(total.epsilon for total in ledger.totals())
    # the odometer reads RDP, which is loose; the whole plan is certified within the budget
    spent, mode = min(spent, budget.epsilon), ledger.terms.mode
    return Gauge(epsilon=budget.epsilon, delta=budget.delta, spent=spent, mode=mode)


class CampaignView:
    """A campaign as it stands: its promise, its models, and for the owner its questions and labels."""

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
        self.store, self.recipe, self.pool, self.watch = store, recipe, pool, watch
        self._per_question, self._seed, self._folder = per_question, seed, folder
        self._per_annotator = per_annotator
        self.journal: Journal = unlogged
        self._replanned = len(replannings(store.transitions()))
        self._rankings: Rankings = {}
        if per_annotator is not None and self.hides_asked:
            raise BadInput(
                f"opening the campaign {store.name} with a cap on questions per annotator",
                "its selection is hidden, and an annotator who stops leaves other records without a label",
                "Remove per_annotator from [oracle], or use another selector",
            )

    # -- what is public

    @cached_property
    def hides_asked(self) -> bool:
        """Whether selection is hidden: asked sets are not paid for, and never released."""
        return self.recipe.terms().overflow > 0

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

    @property
    def answered(self) -> bool:
        """Whether the house answered the questions of this phase (`discreet.campaign.recipe.Answering`)."""
        now = self.standing
        return any(one.kind == ANSWERED and one.phase == now.phase for one in self.store.transitions())

    def certificate(self, *, through: int | None = None) -> dict[str, Any]:
        """What this campaign promises, for anybody to check. Audience: world.

        Of a hidden selection, as far as it is released; ``through``: with the entries of this phase, for its model.
        """
        return public_certificate(self.store, through=through)

    def releases(self) -> Releases | None:
        """Of a hidden selection, what is public now; None: every step is."""
        with ledger_of(self.store) as ledger:
            return releases_of(ledger.terms, self.store.transitions())

    def gauge(self) -> Gauge:
        """How much of the budget is spent; the promise is the whole of it. Under hidden selection, for the owner."""
        with ledger_of(self.store) as ledger:
            return gauge_of(ledger)

    def status(self, audience: Literal["world", "owner"] = "world") -> Status:
        """Where the campaign stands, for an audience."""
        from discreet.campaign.status import status_of

        return status_of(self, audience)

    # -- models: public, as they are paid for

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

    def open(self, assignment: Assignment | None = None) -> list[Question]:
        """Questions that fewer people than wanted have answered. Audience: annotator.

        ``assignment``: of a hidden selection, as it was read before.
        """
        gone, assignment = self.withdrawn_questions(), assignment or self.assignment()
        questions, voices = self.store.questions(), self.store.voices()
        if assignment is None:
            found = open_questions(questions, voices, self._per_question)
        else:
            found = assignment.open(questions, voices)
        return [one for one in found if one.id not in gone]

    def assignment(self) -> Assignment | None:
        """Who answers which question, where selection is hidden; None: whoever comes next. Audience: owner."""
        if not self.hides_asked:
            return None
        return Assignment.of(self.store, self._votes(), per_question=self._per_question, known=self._rankings)

    def withdrawn_questions(self) -> frozenset[str]:
        """Ids of questions whose records were withdrawn, or are about to be. Audience: owner."""
        return questions_of(self.store)

    def labels(self) -> dict[str, Value]:
        """What the annotators say, by record: the vote, where several answered. Audience: owner."""
        return dict(self._labelled().values)

    def exposures(self, audience: str | None = None) -> list[Exposure]:
        """Who was shown which record, and when first, oldest first. Audience: owner, and an auditor."""
        return self.store.exposures(audience)

    def _labelled(self, assignment: Assignment | None = None) -> Labels:
        questions, answers = self.store.questions(), self.store.answers()
        assignment = assignment or self.assignment()
        if assignment is not None:
            answers = assignment.counted(questions, answers)
        return self.recipe.labels(questions, answers, key=self._votes())

    def _source(self) -> Source:
        return OperatingSystem() if self._seed is None else Seeded(self._seed)

    def _votes(self) -> SecretKey:
        """Decides ties, each by a coin of its own question."""
        return secret_key(self.store, "votes", self._seed)


def evaluations_of(transitions: list[Transition]) -> Mapping[int, Mapping[str, Any]]:
    """What was measured and paid for, or is public, by phase. Audience: world."""
    return {
        one.phase: one.facts["evaluation"] for one in transitions if one.kind == TRAINED and one.facts["evaluation"]
    }
