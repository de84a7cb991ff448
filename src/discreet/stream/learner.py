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
from discreet.stream import batches, states
from discreet.stream.loop import Loop
from discreet.stream.opening import simulated_receipt
from discreet.stream.persons import Person
from discreet.stream.published import Label, Published
from discreet.stream.settings import StreamSettings
from discreet.stream.units import Floats
from discreet.stream.waiting import Key

Record = NDArray[np.float64] | Sequence[float] | Mapping[str, float] | None
"""A vector, a dict of the declared features (one that is missing is 0), or None: a broken record, a null."""
Labels = Sequence[Label | None] | NDArray[Any]
"""One a record; None where there is none."""


class StreamLearner(Loop):
    """Private online active learning with a linear model.

    ``settings`` are those of `StreamSettings`: features, asking, noise; classes, slab, window, loss, step, radius,
    regularization, ball, drift, patience, person_records. Exactly one of ``receipt`` (of `charge_stream`) and
    ``ledger`` (or a sealed phase; it is charged now) pays.
    """

    def __init__(
        self, *, receipt: Receipt | None = None, ledger: Ledger | SealedPhase | None = None, **settings: Any
    ) -> None:
        self._begin(StreamSettings(**settings), receipt, ledger)

    @classmethod
    def of(
        cls, settings: StreamSettings, *, receipt: Receipt | None = None, ledger: Ledger | SealedPhase | None = None
    ) -> Self:
        """A learner with these settings."""
        made = cls.__new__(cls)
        made._begin(settings, receipt, ledger)
        return made

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
        """Whether the record that arrives now is asked. Audience of the answer: world.

        ``id``: under which its label will come; without one it is known by its number (`arrived` - 1).
        ``person``: whose it is, where persons are protected.
        """
        if person is None and not self._capped:
            return self._ask(x, id)
        self._persons.check(person)
        if id is not None:
            self._waiting.check(id)
        self._reading.vector(x)  # what is refused arrives not, and counts not
        asked = self._ask(x if person is not None and self._persons.looks_at(person) else None, id)
        self._last_record = x if asked else self._last_record
        return asked

    def _ask(self, x: Record, id: str | None) -> bool:  # noqa: A002
        if self._due:
            self.update()
        vector = self._reading.vector(x)
        record = None if vector is None else self._ball.one(vector)
        number = self._arrived
        if id is not None:
            self._waiting.check(id)
        if record is None:
            chance = self._low
        elif self._simple:
            chance = self._high if self._down <= record.dot(self._linear.row) <= self._up else self._low
        else:
            chance = self._chance(record)
        fell = self._coins.toss(number, chance, self._low, self._high)
        self._arrived = number + 1
        self._arrivals_left -= 1
        if fell:
            self._count_asked(1)
            self._waiting.add(number if id is None else id, number, None if record is None else record.copy())
            self._last_record = x
        if self._arrivals_left <= 0 or self._asks_left <= 0 or self._watch_left <= 0:
            self._due = True
        return fell

    def learn_one(self, x: Record, y: Label | None, id: str | None = None) -> None:  # noqa: A002
        """The label of a record that was asked; None: there is none. Without an id it is the one that was asked last,
        and ``x`` is that record.
        """
        key = self._waiting.last if id is None else id
        if key is None or key not in self._waiting.rows:
            raise BadInput(
                "a label", "its record was not asked, or has its label already", "Learn what `ask` said yes to, once"
            )
        if id is None and x is not self._last_record and not self._is_last(x):
            raise BadInput("a label", "its record is not the one that was asked last", "Give the record's id")
        self.learn_late(key, y)

    def learn_late(self, key: Key, y: Label | None) -> bool:
        """The label of an asked record by its id, or its number; None: there is none. Whether it was waited for."""
        code = self._code(y)
        found = self._waiting.take(key, self._arrived)
        if found is None:
            return False
        if code is None:
            return True
        self._labelled += 1
        record = found[1]
        if record is not None:
            self._teach(record, code)
        return True

    def predict_one(self, x: Record) -> Label:
        """The class of a record by the published model. Not an arrival."""
        return self.settings.classes[int(self._linear.predicted(self._scores_of(x))[0])]

    def predict_proba_one(self, x: Record) -> dict[Label, float]:
        """A logistic (or softmax) reading of the scores; of a hinge loss it is not calibrated."""
        chances = batches.probabilities(self._scores_of(x) * self._linear.unit)
        return dict(zip(self.settings.classes, chances[0].tolist(), strict=True))

    # -- many records

    def ask_many(
        self, x: ArrayLike, ids: Sequence[str] | None = None, persons: Sequence[Person] | None = None
    ) -> NDArray[np.bool_]:
        """As `ask` of each row in order, with no label in between. A row that is not finite is a null."""
        return batches.ask_many(self, self._reading.rows(x), None, ids, persons)

    def learn_many(self, x: ArrayLike, y: Labels, ids: Sequence[str] | None = None) -> int:
        """The labels of rows that were asked: by their ids, or all that `ask_many` said yes to last, in its order:
        ``learn_many(x[asked], y[asked])``. How many were waited for.
        """
        return batches.learn_many(self, self._reading.rows(x), y, ids)

    def ask_and_learn_many(
        self,
        x: ArrayLike,
        y: Labels,
        ids: Sequence[str] | None = None,
        persons: Sequence[Person] | None = None,
    ) -> NDArray[np.bool_]:
        """As ``if ask(x): learn_one(x, y)`` for each row. Labels of rows that are not asked are not looked at."""
        return batches.ask_many(self, self._reading.rows(x), y, ids, persons)

    def predict_many(self, x: ArrayLike) -> NDArray[Any]:
        """The class of each row."""
        records, _ = self._ball.many(self._reading.rows(x))
        return np.asarray(self.settings.classes)[self._linear.predicted(self._linear.scores(records))]

    def predict_proba_many(self, x: ArrayLike) -> NDArray[np.float64]:
        """A column a class."""
        records, _ = self._ball.many(self._reading.rows(x))
        return batches.probabilities(self._linear.scores(records) * self._linear.unit)

    # -- the model

    def model(self) -> Published:
        """The model as it is published now. Audience: world."""
        return Published(
            version=self.version,
            weights=self._linear.weights.copy(),
            classes=self.settings.classes,
            features=self.settings.features,
            loss=self.settings.loss.name,
            claim=self._receipt.budget,
            ledger=self._receipt.ledger_id,
            simulation=self.simulation,
        )

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<StreamLearner: {self._arrived} arrived, {self._asked} asked, model {self.version}>"

    # -- stopping and going on

    def state(self) -> dict[str, Any]:
        """Everything to go on with, as JSON values and numpy arrays. Exact to the bit. Private: for the owner alone."""
        return states.state_of(self)

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
        made = cls.of(states.settings_of(state), receipt=receipt, ledger=ledger)
        states.restore(made, state)
        return made

    # -- inside

    def _code(self, y: Label | None) -> int | None:
        if y is None:
            return None
        try:
            return self._codes[y]
        except (KeyError, TypeError):
            raise BadInput("a label", "it is not one of the classes", "Give a declared class, or None") from None

    def _scores_of(self, x: Record) -> Floats:
        vector = self._reading.vector(x)
        record = None if vector is None else self._ball.one(vector)
        rows = np.zeros((1, self.settings.size)) if record is None else record.reshape(1, -1)
        return self._linear.scores(rows)

    def _is_last(self, x: Record) -> bool:
        assert self._waiting.last is not None
        kept = self._waiting.rows[self._waiting.last][1]
        if kept is None and self._persons.capped:  # beyond the cap: whatever it is, it teaches nothing
            return True
        vector = self._reading.vector(x)
        record = None if vector is None else self._ball.one(vector)
        if kept is None or record is None:
            return kept is record
        return bool((kept == record).all())
