"""What a recipe does in the loop, and how a campaign asks it for another plan.

The loop (`discreet.campaign.campaign`) keeps everything durable and in order; a recipe charges, draws and trains. It is
called again after a crash with the same context, and its charges and draws are then the same ones.

Guarantee of re-planning (docs/proofs/replanning.md): it reads the plan, the ledger and the request, all public, and no
answer. It is written in one transaction, so a process that dies leaves the old plan or the new one; of two processes
one wins, and the other is told. Repeating the last request before anything was charged changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from discreet.errors import BadInput
from discreet.noise import SealedPhase, SecretKey, Source
from discreet.pools import Pool
from discreet.privacy.budget import Number, exact_decimal, json_number
from discreet.privacy.ledger import Ledger, Terms
from discreet.privacy.ledger.terms import Because, Continued
from discreet.records import Answer, Question, Value
from discreet.roles import Predictor
from discreet.storage import Transition

if TYPE_CHECKING:
    from discreet.trainers.accuracy import Evaluation


Watch = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and of how much: all public."""


def unwatched(what: str, done: int, total: int) -> None:
    """Nobody looks."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PhaseContext:
    """All that a recipe has before it in one phase. Audience: owner.

    ledger      where it charges: a sealed phase, or the ledger of a simulation
    source      of chance that costs nothing: orders, uniform draws, keys
    members     records asked so far, by the label of their cohort, in the order in which they were asked
    model       of the phase before; None in phase 0
    directory   for keys and checkpoints, for the owner alone
    trust       how far labels are trusted, in [0, 1], by record, where the recipe says so; fixed with the labels
    facts       of earlier queries, by phase: public, as they were recorded
    check       refuses what must be refused before a charge, such as records that changed
    """

    phase: int
    pool: Pool
    ledger: Ledger | SealedPhase
    source: Source
    members: Mapping[str, Sequence[str]]
    model: Predictor | None
    directory: Path
    watch: Watch = unwatched
    trust: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None

    @property
    def charges(self) -> Ledger | SealedPhase:
        """Where it charges, once everything that is refused before a charge was looked at."""
        self.check()
        return self.ledger

    @property
    def asked(self) -> frozenset[str]:
        """Everybody who was asked."""
        return frozenset(record for cohort in self.members.values() for record in cohort)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Who is asked, in the random order in which they are shown, and the cohort each enters. Audience: owner."""

    ids: tuple[str, ...]
    cohorts: Mapping[str, str] = field(repr=False)
    above: frozenset[str] | None = field(default=None, repr=False)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Public: the mechanism, the threshold and the noisy counts that were paid for."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A model as bytes, and how good it is, if that was asked and paid for."""

    content: bytes = field(repr=False)
    evaluation: Evaluation | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Labels:
    """What annotators say, by record, and how far that is trusted (1 where nothing is said). Audience: owner."""

    values: Mapping[str, Value]
    trust: Mapping[str, float] = field(default_factory=dict)


@runtime_checkable
class AwaitsRelease(Protocol):
    """A recipe of which a part follows from what a query releases, such as the edges of features."""

    @property
    def awaits_release(self) -> bool:
        """Whether that query was not asked when the recipe was made."""

    def after(self, steps: Iterable[Transition]) -> Recipe:
        """The recipe as these steps leave it."""


class Recipe(Protocol):
    """One of the ways of wiring the loop. Everything it holds is public."""

    @property
    def phases(self) -> int:
        """How many trainings: the first without a query, and one after each query."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Declared, in order."""

    @property
    def multilabel(self) -> bool:
        """Whether an answer is a set of classes."""

    @property
    def threshold(self) -> float | None:
        """Of two classes: from which probability of the second it is the answer; None: the likelier one is."""

    @property
    def released(self) -> bool:
        """Whether its pool is what a gate let out: free from then on, and not to be taken back."""

    def labels_planned(self, phase: int) -> int:
        """How many are asked in a phase, at most."""

    def terms(self) -> Terms:
        """What the ledger is committed to."""

    def known_labels(self) -> Mapping[str, Value]:
        """Labels of phase 0 that were there before the campaign, by record; nobody is asked for them."""

    def labels(self, questions: Sequence[Question], answers: Sequence[Answer], *, key: SecretKey) -> Labels:
        """One label a record from what its annotators say. Of private records: of their own answers alone."""

    def choose(self, context: PhaseContext) -> Chosen:
        """Charge the query of the phase, then draw who is asked."""

    def train(self, context: PhaseContext, labels: Mapping[str, Value]) -> Trained:
        """Charge the training of the phase, then train on the labels of the records asked so far."""

    def continued(self, wish: ReplanRequest, *, ledger: Ledger, done: int, pool: Pool) -> Continuation:
        """This recipe with another plan behind its ``done`` phases, or a refusal that names the nearest one."""

    def predictor(self, content: bytes) -> Predictor:
        """The model that `train` stored."""


@runtime_checkable
class Answering(Protocol):
    """A recipe whose questions are answered by the recipe itself, for a price: nobody else is asked."""

    def answers(self, context: PhaseContext, questions: Sequence[Question]) -> list[Answer]:
        """Charge the answers of the phase, then draw them: one a question, None where there is none."""


FORMAT = "discreet.replan/1"
REPLANNED = "replanned-"
"""Kinds of the step, by their number: a phase may be re-planned more than once before it begins."""


@dataclass(frozen=True, kw_only=True)
class ReplanRequest:
    """What an owner wants from the next phase on. All of it becomes public.

    epsilon   the new guarantee; None keeps it
    queries   sizes of the queries to come instead of the planned ones; empty: nobody is asked any more
    labels    instead of sizes: so many labels, shared out evenly over the queries that were planned
    add       sizes of further queries, behind these
    """

    because: Because
    note: str = ""
    epsilon: Decimal | None = None
    queries: tuple[int, ...] | None = None
    labels: int | None = None
    add: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        Continued(because=self.because, note=self.note)
        if self.queries is not None and self.labels is not None:
            raise BadInput("re-planning", "both queries and labels are given", "Give sizes, or a number of labels")
        for size in (*(self.queries or ()), *self.add):
            if type(size) is not int or size < 1:
                raise BadInput("re-planning", "the size of a query is not a whole number from 1", "Count again")
        if self.labels is not None and (type(self.labels) is not int or self.labels < 0):
            raise BadInput("re-planning", "the number of labels is not a whole number from 0", "Count again")
        if self.epsilon is None and self.queries is None and self.labels is None and not self.add:
            raise BadInput("re-planning", "nothing is to change", "Give --epsilon, --queries, --labels or --add-phases")

    def sizes(self, planned: Sequence[int]) -> tuple[int, ...]:
        """Of the queries to come, of which these were planned. Planned numbers, never counted ones."""
        if self.queries is not None:
            return (*self.queries, *self.add)
        if self.labels is None:
            return (*planned, *self.add)
        count = min(len(planned) or 1, self.labels)
        shared = [self.labels // count + (number < self.labels % count) for number in range(count)] if count else []
        return (*shared, *self.add)

    def to_json(self) -> dict[str, Any]:
        """For the store and ``--json``."""
        return {
            "because": self.because,
            "note": self.note,
            "epsilon": None if self.epsilon is None else json_number(self.epsilon),
            "queries": None if self.queries is None else list(self.queries),
            "labels": self.labels,
            "add": list(self.add),
        }


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """What a recipe makes of a wish: itself with another plan, the ledger's new terms, and both plans in figures."""

    recipe: Recipe
    terms: Terms
    plan: Mapping[str, Any] = field(repr=False)
    figures: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A re-planning that was not made yet, or (``made``) was. Audience: public.

    figures   both plans and every path in numbers, and what the change costs
    """

    wish: ReplanRequest
    phase: int
    made: bool
    simulation: bool
    figures: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Names it, so that what is made is what was shown."""
        form = {key: value for key, value in self.to_json().items() if key != "made"}
        return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """For ``--json`` and reports."""
        form = {"format": FORMAT, "simulation": self.simulation, "audience": "public", "made": self.made}
        return form | {"phase": self.phase, "wish": self.wish.to_json()} | dict(self.figures)


def replan_request(
    *,
    because: Any,
    note: str = "",
    epsilon: Number | None = None,
    queries: Iterable[int] | None = None,
    labels: int | None = None,
    add_phases: Iterable[int] = (),
) -> ReplanRequest:
    """A checked wish, in plain words."""
    return ReplanRequest(
        because=because,
        note=note,
        epsilon=None if epsilon is None else exact_decimal(epsilon, "epsilon"),
        queries=None if queries is None else tuple(queries),
        labels=labels,
        add=tuple(add_phases),
    )


def replannings(transitions: Iterable[Transition]) -> list[Transition]:
    """Every re-planning of a campaign, oldest first."""
    return [step for step in transitions if step.kind.startswith(REPLANNED)]
