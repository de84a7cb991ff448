"""What a recipe does in the loop: who is asked in a phase, and what is made of the answers.

The loop (`discreet.campaign.campaign`) keeps everything durable and in order; a recipe charges, draws and trains. It is
called again after a crash with the same desk, and its charges and draws are then the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from discreet.noise import SealedPhase, SecretKey, Source
from discreet.pools import Pool
from discreet.privacy.ledger import Ledger, Terms
from discreet.records import Answer, Question, Value
from discreet.roles import Predictor

if TYPE_CHECKING:
    from discreet.campaign.replanning import Continuation, Wish
    from discreet.trainers.accuracy import Evaluation

Watch = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and of how much: all public."""


def unwatched(what: str, done: int, whole: int) -> None:
    """Nobody looks."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Desk:
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
        return frozenset(one for mine in self.members.values() for one in mine)


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
    def released(self) -> bool:
        """Whether its pool is what a gate let out: free from then on, and not to be taken back."""

    def labels_planned(self, phase: int) -> int:
        """How many are asked in a phase, at most."""

    def terms(self) -> Terms:
        """What the ledger is committed to."""

    def check(self, pool: Pool) -> None:
        """Refuse, before anything is charged, a pool that this recipe cannot take."""

    def known_labels(self) -> Mapping[str, Value]:
        """Labels of phase 0 that were there before the campaign, by record; nobody is asked for them."""

    def labels(self, questions: Sequence[Question], answers: Sequence[Answer], *, key: SecretKey) -> Labels:
        """One label a record from what its annotators say. Of private records: of their own answers alone."""

    def choose(self, desk: Desk) -> Chosen:
        """Charge the query of the phase, then draw who is asked."""

    def train(self, desk: Desk, labels: Mapping[str, Value]) -> Trained:
        """Charge the training of the phase, then train on the labels of the records asked so far."""

    def continued(self, wish: Wish, *, ledger: Ledger, done: int, pool: Pool) -> Continuation:
        """This recipe with another plan behind its ``done`` phases, or a refusal that names the nearest one."""

    def predictor(self, content: bytes) -> Predictor:
        """The model that `train` stored."""


@runtime_checkable
class Answering(Protocol):
    """A recipe whose questions are answered by the house itself, for a price: nobody else is asked."""

    def answers(self, desk: Desk, questions: Sequence[Question]) -> list[Answer]:
        """Charge the answers of the phase, then draw them: one a question, None where there is none."""
