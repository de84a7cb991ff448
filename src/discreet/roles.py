"""The roles of the loop, page one for a newcomer: who plugs in where, and what each must answer to.

    candidates -> Gate -> Scorer -> Selector -> Oracle -> Trainer -> (again)

A role is a Protocol: any object with these methods fits, whatever it is made of. Here are the roles that are played so
far; the others join with their rooms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.events import Event
from discreet.privacy.ledger.receipts import Receipt
from discreet.privacy.plan import TrainingPhase
from discreet.records import Answer, Question, Selection

Floats = NDArray[np.floating[Any]]


class Predictor(Protocol):
    """A trained model. What it says of public records is post-processing; of private ones, private."""

    def predict_proba(self, x: Any) -> Floats:
        """Class probabilities, (n, C)."""

    def sample_proba(self, x: Any, draws: int) -> Floats:
        """Probabilities of ``draws`` models from its posterior, (J, n, C)."""

    def embed(self, x: Any) -> Floats:
        """Features, (n, d)."""


class Scorer(Protocol):
    """What is worth asking: a number a record, higher = ask first, of that record's own values alone."""

    @property
    def name(self) -> str:
        """As a campaign's file says it."""

    @property
    def range(self) -> tuple[float, float]:
        """Bottom and top of all scores, declared; a null scores the bottom."""

    @property
    def needs(self) -> Literal["proba", "draws", "embedding", "nothing"]:
        """What `score` reads: (n, C), (J, n, C), (n, d), or anything with n rows."""

    def score(self, values: Any) -> NDArray[np.float64]:
        """(n,)."""


class Selector(Protocol):
    """Who is asked. What is released is the asked set, and nothing else of the scores."""

    @property
    def name(self) -> str:
        """As a campaign's file says it."""

    def price(self, k: int, pool_size: int) -> tuple[Event, ...]:
        """What asking k of a pool costs everybody in it: one charge each, before anything is drawn."""

    def select(
        self, *, ids: Any, scores: Any, k: int, receipt: Receipt | Sequence[Receipt], phase: int = 0
    ) -> Selection:
        """At most k of ``ids``, in random order, for receipts in the order of the price.

        ``scores``: a number a record; for a selector by distances, such as k-centre, an embedding a record.
        """


class Gate(Protocol):
    """Releases values of private rows that may be shown to anybody."""

    def price(self) -> Event:
        """What one release costs."""

    def release(self, rows: Any, *, receipt: Receipt) -> Any:
        """The values that pass, charged for: `discreet.gates.Released`."""


class Oracle(Protocol):
    """Who answers. Asking is handing over; answers come when they come, in any order, some never."""

    def ask(self, questions: Sequence[Question]) -> None:
        """Hand over questions, in the order in which they are to be shown. The same question twice is one question."""

    def collect(self) -> Iterable[Answer]:
        """The answers that have come since the last time."""


class Trainer(Protocol):
    """Turns labelled cohorts into a model, for what its receipts were charged and no more."""

    def train(
        self,
        *,
        phase: TrainingPhase,
        cohorts: Mapping[str, Any],
        start: Any | None,
        receipt: Receipt | Sequence[Receipt],
    ) -> Predictor:
        """Train ``phase`` on ``cohorts`` (by label), beginning at ``start``; one receipt a stage."""
