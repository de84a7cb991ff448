"""Learners with a mistake each, of the kind that is easily made. The tests must find every one."""

import math
from dataclasses import dataclass

import numpy as np

from discreet.noise import numerator
from discreet.stream import BernoulliAsking, StreamLearner
from discreet.stream.ask_rules import Ends
from discreet.stream.loop import teach_one


class CountsLabels(StreamLearner):
    """B is the number of labels that came, not of records that were asked."""

    _came = 0

    def _begin(self, *arguments):
        super()._begin(*arguments)
        apply = self.live_state.model_update.apply

        def by_labels(weights, noisy, *, t, asked):
            came, self._came = max(self._came, 1), 0
            return apply(weights, noisy, t=t, asked=came)

        self.live_state.model_update.apply = by_labels

    def learn_late(self, key, y):
        rows = self.live_state.waiting.rows
        self._came += key in rows and rows[key][1] is not None and y is not None
        return super().learn_late(key, y)


class WaitsForLabels(StreamLearner):
    """The window closes when so many labels came."""

    _came = 0

    def learn_late(self, key, y):
        null = self.live_state.waiting.rows[key][1] is None
        done = super().learn_late(key, y)
        self._came += y is not None and not null
        if self._came >= 2:
            self._came, self.live_state.due, self.live_state.asks_left = 0, True, 0
        return done

    def ask(self, x, id=None):  # noqa: A002
        self.live_state.due = self._came == 0 and self.live_state.due
        return super().ask(x, id)


class HalfNoise(StreamLearner):
    """The noise is drawn for half of what a record may change."""

    def _begin(self, *arguments):
        super()._begin(*arguments)
        self.live_state.noise._steps /= 2


class HalfReach(StreamLearner):
    """The same, said openly: half the sensitivity is declared."""

    def _begin(self, *arguments):
        super()._begin(*arguments)
        self.live_state.noise.reach /= 2


class NullInside(StreamLearner):
    """A null is taken for a record at the origin, which is inside every slab."""

    def _begin(self, *arguments):
        super()._begin(*arguments)
        ball, reader = self.live_state.ball, self.live_state.reader
        many, one, vector = ball.many, ball.one, reader.vector
        ball.many = lambda *rows: (many(*rows)[0], np.zeros(len(many(*rows)[0]), dtype=bool))
        ball.one = lambda x: np.zeros(x.size) if one(x) is None else one(x)
        reader.vector = lambda x: np.zeros(self.settings.size) if x is None else vector(x)


class TeachesTwice(StreamLearner):
    """A label is learned in two windows."""

    def learn_late(self, key, y):
        pending = self.live_state.waiting.rows.get(key)
        done = super().learn_late(key, y)
        if pending is not None and pending[1] is not None and y is not None:
            teach_one(self.live_state, pending[1], self.live_state.codes[y])
        return done


@dataclass(frozen=True, kw_only=True, init=False)
class UncheckedPaper(BernoulliAsking):
    """The paper's exponential form at its own b = .2, charged its eps = 1."""

    two_valued = False

    def ends(self, width=0.2, radius=1.0):
        return Ends(numerator(math.exp(-1.25), up=True), numerator(math.exp(-0.25), up=False))

    def chances(self, distances, widths, radius, ends):
        with np.errstate(invalid="ignore"):
            found = np.exp(-np.maximum(0.2, distances) / 0.8)
        found[np.isnan(found)] = math.exp(-1.25)
        return (found * 2.0**63).astype(np.uint64)
