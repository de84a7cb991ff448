"""The online learner: asks, learns, publishes. River's habits, and numpy batches that decide the same.

    learner = StreamLearner(features=50, asking=..., noise=..., ledger=ledger)
    for x, y in stream:
        if learner.ask(x):
            learner.learn_one(x, y)

Guarantee (docs/proofs/streams.md, zero-out, both directions): the ask bits and every published model together cost a
record the price of `discreet.stream.terms`, however long the stream runs. B and the times of updates depend on ask bits
alone: a label that does not come teaches nothing, a late one enters a later window without counting in its B.

Update t, when B > 0 were asked in the window: w - eta_t (lambda w - (sum + z) / B), then the ball. It is made before
the next record is looked at, so that labels which come at once are in time.

Not for several threads at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import BadInput
from discreet.noise import EndlessCoins, EndlessCounts, EndlessNoise, SealedPhase
from discreet.privacy.ledger import Ledger, Receipt
from discreet.stream import batches, states
from discreet.stream.linear import Linear
from discreet.stream.losses import Hinge
from discreet.stream.opening import paid_receipt, simulated_receipt
from discreet.stream.published import Label, Published
from discreet.stream.settings import StreamSettings
from discreet.stream.slabs import Slab
from discreet.stream.terms import ARRIVING, ASKED, COUNTED
from discreet.stream.units import Ball, Floats, Reading
from discreet.stream.waiting import Key, Sums, Waiting

Record = NDArray[np.float64] | Sequence[float] | Mapping[str, float] | None
"""A vector, a dict of the declared features (one that is missing is 0), or None: a broken record, a null."""


_NOTHING: Any = object()


class StreamLearner:
    """Private online active learning with a linear model.

    ``settings`` are those of `StreamSettings`: features, asking, noise; classes, slab, window, loss, step, radius,
    regularization, ball, drift, patience. Exactly one of ``receipt`` (of `charge_stream`) and ``ledger`` (or a sealed
    phase; it is charged now) pays.
    """

    _due: bool
    _arrivals_left: int
    _asks_left: int
    _watch_left: int

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
    def simulated(cls, settings: StreamSettings, *, seed: int, delta: str = "1e-6") -> Self:
        """A learner whose draws come from a seed, with a ledger in memory: for simulations and benches."""
        return cls.of(settings, receipt=simulated_receipt(settings, seed=seed, delta=delta))

    def _begin(self, settings: StreamSettings, receipt: Receipt | None, ledger: Ledger | SealedPhase | None) -> None:
        self.settings = settings
        self._receipt = paid_receipt(settings, receipt, ledger)
        self._reading = Reading(settings.features)
        self._ball = Ball(settings.radius, settings.size)
        self._model_ball = Ball(settings.ball, settings.weights)
        self._linear = Linear(self._model_ball, self._ball, settings.rows)
        self._codes = {label: code for code, label in enumerate(settings.classes)}
        self._plain = settings.classes == tuple(range(len(settings.classes)))
        self._waiting = Waiting(settings.patience)
        self._sums = Sums(settings.rows, settings.size)
        self._coins = EndlessCoins(self._receipt, who=ARRIVING)
        reach = settings.noise.reach(settings.radius)
        self._noise = EndlessNoise(self._receipt, size=settings.weights, sensitivity=reach, who=ASKED)
        self._counts = None if settings.drift is None else EndlessCounts(self._receipt, who=COUNTED)
        self._hinge = isinstance(settings.loss, Hinge)
        self._slab, self._last_record = settings.slab, _NOTHING
        self._arrived = self._asked = self._labelled = 0
        self._updates = self._noises = self._resets = self._checks = 0
        self._begin_window()
        self._begin_watch()
        self._refresh(ends=True)

    # -- one record

    def ask(self, x: Record, id: str | None = None) -> bool:  # noqa: A002
        """Whether the record that arrives now is asked. Audience of the answer: world.

        ``id``: under which its label will come; without one it is known by its number (`arrived` - 1).
        """
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
            chance = int(self._chances(self._linear.scores(record.reshape(1, -1)))[0])
        fell = self._coins.toss(number, chance, null=self._low, high=self._high)
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

    def ask_many(self, x: ArrayLike, ids: Sequence[str] | None = None) -> NDArray[np.bool_]:
        """As `ask` of each row in order, with no label in between. A row that is not finite is a null."""
        return batches.ask_many(self, self._reading.rows(x), None, ids)

    def learn_many(self, x: ArrayLike, y: Sequence[Label | None], ids: Sequence[str] | None = None) -> None:
        """The labels of rows that were asked, in the order in which they were: ``learn_many(x[asked], y[asked])``.

        Without ids they are those that were asked last.
        """
        batches.learn_many(self, self._reading.rows(x), y, ids)

    def ask_and_learn_many(
        self, x: ArrayLike, y: Sequence[Label | None], ids: Sequence[str] | None = None
    ) -> NDArray[np.bool_]:
        """As ``if ask(x): learn_one(x, y)`` for each row. Labels of rows that are not asked are not looked at."""
        return batches.ask_many(self, self._reading.rows(x), y, ids)

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

    def update(self) -> bool:
        """Make what is due now, not when the next record arrives. Whether the model changed."""
        if not self._due:
            return False
        self._due = False
        if self._watch_left <= 0 and self._drifted():
            self.reset()
            return True
        if self._arrivals_left > 0 and self._asks_left > 0:
            return False
        asked = self._window_asked
        self._begin_window()
        if asked == 0:  # what came late stays for the next window
            return False
        self._step(self._noise.hide(self._noises, self._sums.real(self._ball.step)), asked)
        self._sums.clear()
        return True

    def _step(self, noisy: Floats, asked: int) -> None:
        settings = self.settings
        self._noises += 1
        self._updates += 1
        rate = settings.step.at(self._updates)
        moved = self._linear.flat * ((1.0 - rate * settings.regularization) * self._model_ball.step)
        moved += noisy * (rate / asked)
        self._linear.set(self._model_ball.model(moved))
        self._refresh(ends=self._slab.moves and settings.asking.follows_slab)

    def reset(self) -> None:
        """Throw the model away and begin anew: free, if it is decided by released things alone."""
        self._linear.set(np.zeros(self.settings.weights))
        self._updates, self._resets = 0, self._resets + 1
        self._sums.clear()
        self._begin_window()
        self._begin_watch()
        self._refresh(ends=True)

    def change_slab(self, slab: Slab) -> None:
        """Another slab from now on: free, if it is decided by released things alone."""
        self.settings.asking.check(slab, classes=len(self.settings.classes), radius=self.settings.radius)
        self._slab = slab
        self._refresh(ends=True)

    @property
    def slab(self) -> Slab:
        """The slab in use."""
        return self._slab

    @property
    def arrived(self) -> int:
        """How many records arrived."""
        return self._arrived

    @property
    def asked(self) -> int:
        """How many of them were asked."""
        return self._asked

    @property
    def labelled(self) -> int:
        """How many labels came. Audience: owner."""
        return self._labelled

    @property
    def updates(self) -> int:
        """How many updates there were since the model began: t - 1."""
        return self._updates

    @property
    def version(self) -> int:
        """Of the model: updates and resets so far."""
        return self._noises + self._resets

    @property
    def waiting(self) -> tuple[Key, ...]:
        """Asked records whose label has not come, oldest first. Audience: owner and annotator."""
        return tuple(self._waiting.rows)

    @property
    def simulation(self) -> bool:
        """Drawn from a seed: proves nothing about people."""
        return self._receipt.simulation

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

    def _begin_window(self) -> None:
        self._due, self._window_asked = False, 0
        self._arrivals_left, self._asks_left = self.settings.window.room(0, 0)

    def _begin_watch(self) -> None:
        self._watch_left = 1 << 62 if self.settings.drift is None else self.settings.drift.window
        self._mistakes = 0

    def _count_asked(self, count: int) -> None:
        self._asked += count
        self._window_asked += count
        self._asks_left -= count
        self._watch_left -= count

    def _refresh(self, *, ends: bool) -> None:
        """What follows from model and slab, computed once an update."""
        settings = self.settings
        widths = self._slab.widths(self._updates, len(settings.classes))
        self._widths = np.array(widths)
        if ends:
            self._ends = settings.asking.ends(min(widths), settings.radius)
            self._low, self._high = self._ends.low, self._ends.high
            self._coins.check(self._low, self._high)
        self._simple = settings.asking.two_valued and settings.rows == 1
        if self._simple:
            down, self._up = self._linear.edges(widths)
            self._down = -down

    def _chances(self, scores: Floats) -> NDArray[np.uint64]:
        widths = self._widths[self._linear.predicted(scores)]
        distances = self._linear.distances(scores)
        return self.settings.asking.chances(distances, widths, self.settings.radius, self._ends)

    def _drifted(self) -> bool:
        assert self.settings.drift is not None
        assert self._counts is not None
        count = self._counts.hide(self._checks, self._mistakes)
        self._checks += 1
        self._begin_watch()
        return self.settings.drift.drifted(count)

    def _code(self, y: Label | None) -> int | None:
        if y is None:
            return None
        try:
            return self._codes[y]
        except (KeyError, TypeError):
            raise BadInput("a label", "it is not one of the classes", "Give a declared class, or None") from None

    def _teach(self, record: Floats, code: int) -> None:
        if self._simple or self.settings.rows == 1:
            score = float(record.dot(self._linear.row))
            self._mistakes += (score > 0) != code
            if self._hinge:
                sign = 2.0 * code - 1.0
                if sign * score * self._linear.unit < 1.0:
                    self._sums.add(record, sign)
                return
        self._teach_many(record.reshape(1, -1), np.array([code]), mistakes=self.settings.rows > 1)

    def _teach_many(self, records: Floats, codes: NDArray[np.int64], *, mistakes: bool = True) -> None:
        scores = self._linear.scores(records)
        if mistakes:
            self._mistakes += int((self._linear.predicted(scores) != codes).sum())
        self._sums.add_many(records, self.settings.loss.coefficients(scores * self._linear.unit, codes))

    def _scores_of(self, x: Record) -> Floats:
        vector = self._reading.vector(x)
        record = None if vector is None else self._ball.one(vector)
        rows = np.zeros((1, self.settings.size)) if record is None else record.reshape(1, -1)
        return self._linear.scores(rows)

    def _is_last(self, x: Record) -> bool:
        assert self._waiting.last is not None
        kept = self._waiting.rows[self._waiting.last][1]
        vector = self._reading.vector(x)
        record = None if vector is None else self._ball.one(vector)
        if kept is None or record is None:
            return kept is record
        return bool((kept == record).all())
