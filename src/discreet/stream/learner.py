"""The online learner: asks, learns, publishes. River's habits, and numpy batches that decide the same.

    learner = StreamLearner(features=50, asking=..., noise=..., ledger=ledger)
    for x, y in stream:
        if learner.ask(x):
            learner.learn_one(x, y)

Guarantee (docs/proofs/streams.md, zero-out, both directions): the ask bits and every published model together cost a
record the price of `discreet.stream.terms`, however long the stream runs. B and the times of updates depend on ask bits
alone: a label that does not come teaches nothing, a late one enters a later window without counting in its B.

An update is made before the next record is looked at, so that labels which come at once are in time.

Not for several threads at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import BadInput
from discreet.noise import SealedPhase
from discreet.privacy.ledger import Ledger, Receipt
from discreet.stream import batches, loop
from discreet.stream.learner_state import (
    new_state,
    paid_receipt,
    restore,
    simulated_receipt,
    stored_form,
    stored_settings,
)
from discreet.stream.linear_model import Floats, Label, StreamModel
from discreet.stream.pending_labels import Key, Person
from discreet.stream.schedules import Slab
from discreet.stream.settings import StreamSettings

Record = NDArray[np.float64] | Sequence[float] | Mapping[str, float] | None
"""A vector, a dict of the declared features (one that is missing is 0), or None: a broken record, a null."""
Labels = Sequence[Label | None] | NDArray[Any]
"""One a record; None where there is none."""


class StreamLearner:
    """Private online active learning with a linear model.

    ``settings`` are those of `StreamSettings`: features, asking, noise; classes, slab, window, loss, step, radius,
    regularization, ball, drift, patience, person_records. Exactly one of ``receipt`` (of `charge_stream`) and
    ``ledger`` (or a sealed phase; it is charged now) pays.

    ``live_state`` is what all verbs work on. It holds private records: for the owner alone.
    """

    def __init__(
        self, *, receipt: Receipt | None = None, ledger: Ledger | SealedPhase | None = None, **settings: Any
    ) -> None:
        self._begin(StreamSettings(**settings), receipt, ledger)

    def _begin(self, settings: StreamSettings, receipt: Receipt | None, ledger: Ledger | SealedPhase | None) -> None:
        self.settings = settings
        self.live_state = new_state(settings, paid_receipt(settings, receipt, ledger))

    @classmethod
    def of(
        cls, settings: StreamSettings, *, receipt: Receipt | None = None, ledger: Ledger | SealedPhase | None = None
    ) -> Self:
        """A learner with these settings."""
        learner = cls.__new__(cls)
        learner._begin(settings, receipt, ledger)
        return learner

    @classmethod
    def simulated(
        cls, settings: StreamSettings, *, seed: int, delta: str = "1e-6", state: Mapping[str, Any] | None = None
    ) -> Self:
        """A learner whose draws come from a seed, with a ledger in memory: for simulations and benches.

        ``state``: go on from it, with the settings it was made with.
        """
        receipt = simulated_receipt(settings, seed=seed, delta=delta)
        return cls.of(settings, receipt=receipt) if state is None else cls.from_state(state, receipt=receipt)

    # -- one record

    def ask(self, x: Record, id: str | None = None, person: Person | None = None) -> bool:  # noqa: A002
        """Whether the record that arrives now is asked. Audience of the answer: public.

        ``id``: under which its label will come; without one it is known by its number (`arrived` - 1).
        ``person``: whose it is, where persons are protected.
        """
        state = self.live_state
        if person is None and not state.persons.capped:
            return loop.ask(state, x, id)
        state.persons.check(person)
        if id is not None:
            state.waiting.check(id)
        state.reader.vector(x)  # what is refused arrives not, and counts not
        asked = loop.ask(state, x if person is not None and state.persons.looks_at(person) else None, id)
        state.last_record = x if asked else state.last_record
        return asked

    def learn_one(self, x: Record, y: Label | None, id: str | None = None) -> None:  # noqa: A002
        """The label of a record that was asked; None: there is none. Without an id it is the one that was asked last,
        and ``x`` is that record.
        """
        state = self.live_state
        key = state.waiting.last if id is None else id
        if key is None or key not in state.waiting.rows:
            raise BadInput(
                "a label", "its record was not asked, or has its label already", "Learn what `ask` said yes to, once"
            )
        if id is None and x is not state.last_record and not self._is_record_of(key, x):
            raise BadInput("a label", "its record is not the one that was asked last", "Give the record's id")
        self.learn_late(key, y)

    def _is_record_of(self, key: Key, x: Record) -> bool:
        waiting = self.live_state.waiting.rows[key][1]
        if waiting is None and self.live_state.persons.capped:  # beyond the cap: whatever it is, it teaches nothing
            return True
        record = loop.in_steps(self.live_state, x)
        if waiting is None or record is None:
            return waiting is record
        return bool((waiting == record).all())

    def learn_late(self, key: Key, y: Label | None) -> bool:
        """The label of an asked record by its id, or its number; None: there is none. Whether it was waited for."""
        return loop.learn(self.live_state, key, y)

    def predict_one(self, x: Record) -> Label:
        """The class of a record by the published model. Not an arrival."""
        return self.settings.classes[int(self.live_state.linear.predicted(self._scores_of(x))[0])]

    def predict_proba_one(self, x: Record) -> dict[Label, float]:
        """A logistic (or softmax) reading of the scores; of a hinge loss it is not calibrated."""
        chances = _probabilities(self._scores_of(x) * self.live_state.linear.unit)
        return dict(zip(self.settings.classes, chances[0].tolist(), strict=True))

    def _scores_of(self, x: Record) -> Floats:
        return loop.scores_of(self.live_state, loop.in_steps(self.live_state, x))

    # -- many records

    def ask_many(
        self, x: ArrayLike, ids: Sequence[str] | None = None, persons: Sequence[Person] | None = None
    ) -> NDArray[np.bool_]:
        """As `ask` of each row in order, with no label in between. A row that is not finite is a null."""
        return batches.ask_many(self.live_state, self.live_state.reader.rows(x), None, ids, persons)

    def learn_many(self, x: ArrayLike, y: Labels, ids: Sequence[str] | None = None) -> int:
        """The labels of rows that were asked: by their ids, or all that `ask_many` said yes to last, in its order:
        ``learn_many(x[asked], y[asked])``. How many were waited for.
        """
        return batches.learn_many(self.live_state, self.live_state.reader.rows(x), y, ids)

    def ask_and_learn_many(
        self,
        x: ArrayLike,
        y: Labels,
        ids: Sequence[str] | None = None,
        persons: Sequence[Person] | None = None,
    ) -> NDArray[np.bool_]:
        """As ``if ask(x): learn_one(x, y)`` for each row. Labels of rows that are not asked are not looked at."""
        return batches.ask_many(self.live_state, self.live_state.reader.rows(x), y, ids, persons)

    def predict_many(self, x: ArrayLike) -> NDArray[Any]:
        """The class of each row."""
        return np.asarray(self.settings.classes)[self.live_state.linear.predicted(self._scores_of_many(x))]

    def predict_proba_many(self, x: ArrayLike) -> NDArray[np.float64]:
        """A column a class."""
        return _probabilities(self._scores_of_many(x) * self.live_state.linear.unit)

    def _scores_of_many(self, x: ArrayLike) -> Floats:
        state = self.live_state
        return state.linear.scores(state.ball.many(state.reader.rows(x))[0])

    # -- the model

    def update(self) -> bool:
        """Make what is due now, not when the next record arrives. Whether the model changed.

        When it is called must not depend on labels: by a clock, or never.
        """
        return loop.update(self.live_state)

    def reset(self) -> None:
        """Throw the model away and begin anew: free, if it is decided by released things alone."""
        loop.reset(self.live_state)

    def change_slab(self, slab: Slab) -> None:
        """Another slab from now on: free, if it is decided by released things alone."""
        self.live_state.change_slab(slab)

    def model(self) -> StreamModel:
        """The model as it is published now. Audience: public."""
        receipt = self.live_state.receipt
        return StreamModel(
            version=self.version,
            weights=self.live_state.linear.weights.copy(),
            classes=self.settings.classes,
            features=self.settings.features,
            loss=self.settings.loss.name,
            claim=receipt.budget,
            ledger=receipt.ledger_id,
            simulation=receipt.simulation,
        )

    # -- what anybody may know

    @property
    def slab(self) -> Slab:
        """The slab in use."""
        return self.live_state.slab

    @property
    def arrived(self) -> int:
        """How many records arrived."""
        return self.live_state.arrived

    @property
    def asked(self) -> int:
        """How many of them were asked."""
        return self.live_state.asked

    @property
    def updates(self) -> int:
        """How many updates there were since the model began: t - 1."""
        return self.live_state.updates

    @property
    def version(self) -> int:
        """Of the model: updates and resets so far."""
        return self.live_state.noises + self.live_state.resets

    @property
    def simulation(self) -> bool:
        """Drawn from a seed: proves nothing about people."""
        return self.live_state.receipt.simulation

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<StreamLearner: {self.arrived} arrived, {self.asked} asked, model {self.version}>"

    # -- what the owner may know

    @property
    def labelled(self) -> int:
        """How many labels came. Audience: owner."""
        return self.live_state.labelled

    @property
    def waiting(self) -> tuple[Key, ...]:
        """Asked records whose label has not come, oldest first. Audience: owner and annotator."""
        self.live_state.waiting.forget(self.arrived)
        return tuple(self.live_state.waiting.rows)

    def state(self) -> dict[str, Any]:
        """Everything to go on with, as JSON values and numpy arrays. Exact to the bit. Private: for the owner alone."""
        return stored_form(self.live_state)

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        *,
        receipt: Receipt | None = None,
        ledger: Ledger | SealedPhase | None = None,
    ) -> Self:
        """Go on where `state` was taken, with the draws of the same entry: from its sealed key, or its seed.

        A state is gone on from once: the same coins for other records, or the same noise for another sum, would show
        what they hide. `discreet.stream.journal` keeps to that.
        """
        learner = cls.of(stored_settings(state), receipt=receipt, ledger=ledger)
        restore(learner.live_state, state)
        return learner


def _probabilities(scores: Floats) -> Floats:
    """A column a class: logistic of one score, softmax of several."""
    both = np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else scores
    raised = np.exp(both - both.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
