"""The inside of a learner: counters, the window, the model, and what is drawn. `learner` is what people use.

Update t, when B > 0 were asked in the window: w - eta_t (lambda w - (sum + z) / B), then the ball. B, the times of
updates and of counts depend on arrivals and ask bits alone; sum and mistakes are private until noise hides them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.noise import EndlessCoins, EndlessCounts, EndlessNoise, SealedPhase
from discreet.privacy.ledger import Ledger, Receipt
from discreet.stream import batches
from discreet.stream.asking import Ends
from discreet.stream.linear import Linear
from discreet.stream.losses import Hinge
from discreet.stream.moving import Mover
from discreet.stream.opening import paid_receipt
from discreet.stream.persons import Persons
from discreet.stream.settings import StreamSettings
from discreet.stream.slabs import Slab
from discreet.stream.terms import ARRIVING, ASKED, COUNTED
from discreet.stream.units import Ball, Floats, Reading
from discreet.stream.waiting import Key, Sums, Waiting
from discreet.stream.windows import ENDLESS

_NOTHING: Any = object()


class Loop:
    """Everything of a stream but how records and labels come in."""

    settings: StreamSettings
    _due: bool
    _arrivals_left: int
    _asks_left: int
    _watch_left: int
    _ends: Ends | None

    def _begin(self, settings: StreamSettings, receipt: Receipt | None, ledger: Ledger | SealedPhase | None) -> None:
        self.settings = settings
        self._receipt = paid_receipt(settings, receipt, ledger)
        self._reading = Reading(settings.features)
        self._ball = Ball(settings.radius, settings.size)
        self._model_ball = Ball(settings.ball, settings.weights)
        self._linear = Linear(self._model_ball, self._ball, settings.rows)
        self._codes = {label: code for code, label in enumerate(settings.classes)}
        self._numbered = settings.classes == tuple(range(len(settings.classes)))
        self._waiting, self._persons = Waiting(settings.patience), Persons(settings.person_records)
        self._capped = self._persons.capped
        self._sums = Sums(settings.rows, settings.size)
        self._coins = EndlessCoins(self._receipt, who=ARRIVING)
        self._noise = EndlessNoise(self._receipt, size=settings.weights, sensitivity=settings.reach, who=ASKED)
        self._mover = Mover(
            self._model_ball,
            step=settings.step,
            regularization=settings.regularization,
            lattice_step=self._noise.step,
        )
        self._counts = None if settings.drift is None else EndlessCounts(self._receipt, who=COUNTED)
        self._hinge = isinstance(settings.loss, Hinge)
        self._slab, self._last_record = settings.slab, _NOTHING
        self._latest: list[Key] = []
        self._simple, self._ends = settings.asking.two_valued and settings.rows == 1, None
        self._arrived = self._asked = self._labelled = 0
        self._updates = self._noises = self._resets = self._checks = 0
        self._room = settings.window.room(0, 0)
        self._begin_window()
        self._begin_watch()
        self._refresh(slab=True)

    # -- what anybody may know

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
    def updates(self) -> int:
        """How many updates there were since the model began: t - 1."""
        return self._updates

    @property
    def version(self) -> int:
        """Of the model: updates and resets so far."""
        return self._noises + self._resets

    @property
    def simulation(self) -> bool:
        """Drawn from a seed: proves nothing about people."""
        return self._receipt.simulation

    # -- what the owner may know

    @property
    def labelled(self) -> int:
        """How many labels came. Audience: owner."""
        return self._labelled

    @property
    def waiting(self) -> tuple[Key, ...]:
        """Asked records whose label has not come, oldest first. Audience: owner and annotator."""
        self._waiting.forget(self._arrived)
        return tuple(self._waiting.rows)

    # -- what changes the model

    def update(self) -> bool:
        """Make what is due now, not when the next record arrives. Whether the model changed.

        When it is called must not depend on labels: by a clock, or never.
        """
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
        noisy = self._noise.hide(self._noises, self._sums.real(self._ball.step))
        self._step(noisy * (1.0 / self._noise.step), asked)  # a power of two
        self._sums.clear()
        return True

    def reset(self) -> None:
        """Throw the model away and begin anew: free, if it is decided by released things alone."""
        self._linear.set(np.zeros(self.settings.weights))
        self._updates, self._resets = 0, self._resets + 1
        self._sums.clear()
        self._begin_window()
        self._begin_watch()
        self._refresh(slab=True)

    def change_slab(self, slab: Slab) -> None:
        """Another slab from now on: free, if it is decided by released things alone."""
        self.settings.asking.check(slab, classes=len(self.settings.classes), radius=self.settings.radius)
        self._slab = slab
        self._refresh(slab=True)

    def _step(self, noisy: Floats, asked: int) -> None:
        """Move the model by a sum that is hidden, in steps of the noise's lattice."""
        self._noises += 1
        self._updates += 1
        self._linear.set(self._mover.move(self._linear.flat, noisy, t=self._updates, asked=asked))
        if self._slab.moves or not self._simple:
            self._refresh(slab=self._slab.moves)
        else:
            self._down, self._up = -self._linear.edge(self._sides[0]), self._linear.edge(self._sides[1])

    def _begin_window(self) -> None:
        self._due, self._window_asked = False, 0
        self._arrivals_left, self._asks_left = self._room

    def _begin_watch(self) -> None:
        self._watch_left = ENDLESS if self.settings.drift is None else self.settings.drift.window
        self._mistakes = 0

    def _count_asked(self, count: int) -> None:
        self._asked += count
        self._window_asked += count
        self._asks_left -= count
        self._watch_left -= count

    def _drifted(self) -> bool:
        assert self.settings.drift is not None
        assert self._counts is not None
        count = self._counts.hide(self._checks, self._mistakes)
        self._checks += 1
        self._begin_watch()
        return self.settings.drift.drifted(count)

    # -- chances and lessons

    def _refresh(self, *, slab: bool) -> None:
        """What follows from model and slab, computed once an update."""
        settings = self.settings
        if slab:
            widths = self._slab.widths(self._updates, len(settings.classes))
            self._widths, self._sides = np.array(widths), widths
            if self._ends is None or settings.asking.follows_slab:
                self._ends = settings.asking.ends(min(widths), settings.radius)
                self._low, self._high = self._ends.low, self._ends.high
                self._coins.check(self._low, self._high)
        if self._simple:
            self._down, self._up = -self._linear.edge(self._sides[0]), self._linear.edge(self._sides[1])

    def _chances(self, scores: Floats) -> NDArray[np.uint64]:
        assert self._ends is not None
        widths = self._widths[self._linear.predicted(scores)]
        distances = self._linear.distances(scores)
        return self.settings.asking.chances(distances, widths, self.settings.radius, self._ends)

    def _chance(self, record: Floats) -> int:
        assert self._ends is not None
        if self.settings.rows > 1:
            return int(self._chances(self._linear.scores(record.reshape(1, -1)))[0])
        score = float(record.dot(self._linear.row))
        distance = abs(score) * self._linear.per_score
        return self.settings.asking.chance(distance, self._sides[score > 0], self.settings.radius, self._ends)

    def _teach(self, record: Floats, code: int) -> None:
        if self._hinge and self._counts is None:  # the same by fewer arrays
            sign = 2.0 * code - 1.0
            if sign * float(record.dot(self._linear.row)) * self._linear.unit < 1.0:
                self._sums.add(record, sign)
            return
        rows = record.reshape(1, -1)
        batches.teach(self, rows, self._linear.scores(rows), np.array([code]))
