"""Many records where windows are short: those whose coin may fall one after the other, everything else at once.

In a window of few records there is little to score at once, and the calls for arrays cost more than what they do. So
records are read, projected and paired with their coins for thousands at once (`batches.Chunk`), and only those whose
coin may fall are looked at one by one, against the model of their window. Decides bit for bit as `batches` and single
records do: scores are exact, lessons of a hinge are whole numbers, and the update is the same code.

For two classes, rules of two chances and the hinge loss, with labels at once; noise must be at least as fine as records
(`fits`). Everything else goes the other ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.noise.stream import ONE
from discreet.stream.losses import FINE

if TYPE_CHECKING:
    from discreet.stream.batches import Chunk
    from discreet.stream.learner import StreamLearner

Floats = NDArray[np.float64]
_MOST = 24
"""Looked at in a window, on average: above it, arrays are faster."""
_EXACT = 2.0**44
"""Steps of noise, and of a lesson, up to which a sum of some stays exact in floats."""


def fits(learner: StreamLearner, y: Any) -> bool:
    """Whether chunks of this learner are decided here."""
    if y is None or not (learner._simple and learner._hinge) or learner._counts is not None:
        return False
    arrivals, asks = learner.settings.window.room(0, 0)
    looked_at = min(arrivals * (learner._high / ONE), asks)
    finer = learner._ball.step / learner._noise.step
    return looked_at <= _MOST and 1.0 <= finer <= 2.0**16 and learner._noise.most_steps <= _EXACT


class ShortWindows:
    """The window of a learner while a chunk passes, and what was taught in it."""

    def __init__(self, chunk: Chunk, y: Any) -> None:
        learner = chunk._learner
        self._chunk, self._learner, self._y = chunk, learner, y
        self._finer = learner._ball.step / learner._noise.step
        self._period, self._most = learner.settings.window.room(0, 0)
        self._out = np.empty(learner.settings.weights)
        self._lessons: list[tuple[bool, Floats]] = []
        self._asked = self._labelled = self._looked_at = 0
        learner._noise.check()

    def decide(self, found: NDArray[np.bool_]) -> None:
        """Let every row arrive; those that are asked are marked in ``found``."""
        chunk, learner = self._chunk, self._learner
        if learner._due:
            learner.update()
        if learner._sums.whole.any():
            self._lessons.append((True, learner._sums.whole[0] * (self._finer / FINE)))
        self._boundary, self._asks_left = learner._arrivals_left, learner._asks_left
        self._window, self._closed = learner._window_asked, -1
        arrived = chunk._size
        try:
            self._pass_all(found)
        except BaseException:
            arrived = self._looked_at + 1  # what follows the record that cannot be taught did not arrive
            raise
        finally:
            self._leave(arrived)

    def _pass_all(self, found: NDArray[np.bool_]) -> None:
        chunk, learner = self._chunk, self._learner
        linear, unit, start = learner._linear, learner._linear.unit, chunk._start
        nulls = [False] * len(chunk._where) if chunk._nulls is None else chunk._nulls.tolist()
        rows, scaled = list(chunk._records), list(chunk._records * self._finer)
        parts = zip(chunk._where, rows, scaled, chunk._sure.tolist(), nulls, strict=True)
        row, down, up = linear.row, learner._down, learner._up
        for place, record, lesson, sure, null in parts:
            self._looked_at = place
            if (self._closed >= 0 or place >= self._boundary) and self._close(place):
                row, down, up = linear.row, learner._down, learner._up
            score = record.dot(row)
            if not (sure or (down <= score <= up and not null)):
                continue
            found[place + start] = True
            self._asked += 1
            self._window += 1
            self._asks_left -= 1
            if self._asks_left <= 0:
                self._closed = place + 1
            code = self._code(place + start)
            if code is not None and not null and (score if code else -score) * unit < 1.0:
                self._lessons.append((code == 1, lesson))

    def _code(self, place: int) -> int | None:
        """The label of an asked record."""
        y, learner = self._y, self._learner
        label = y.item(place) if isinstance(y, np.ndarray) else y[place]
        code = learner._code(label)
        self._labelled += code is not None
        return code

    def _close(self, place: int) -> bool:
        """Windows that end before the record at ``place``; whether the model moved."""
        moved = self._window > 0
        if moved:
            self._learner._noise.hide_parts(self._learner._noises, self._lessons, self._out)
            self._learner._step(self._out, self._window)
            self._lessons.clear()
        self._boundary = (self._boundary if self._closed < 0 else self._closed) + self._period
        self._window, self._asks_left, self._closed = 0, self._most, -1
        if place >= self._boundary:  # windows in which nobody is asked
            self._boundary += ((place - self._boundary) // self._period + 1) * self._period
        return moved

    def _leave(self, arrived: int) -> None:
        """Hand the window back, after so many records of the chunk."""
        learner = self._learner
        if arrived == self._chunk._size and (0 <= self._closed < arrived or self._boundary < arrived):
            self._close(arrived - 1)
        learner._arrived += arrived
        learner._asked += self._asked
        learner._watch_left -= self._asked
        learner._labelled += self._labelled
        learner._window_asked, learner._asks_left = self._window, self._asks_left
        learner._arrivals_left = self._boundary - arrived
        learner._due = self._closed >= 0 or self._boundary <= arrived
        learner._waiting.last = None if self._asked else learner._waiting.last
        left = sum((lesson if added else -lesson for added, lesson in self._lessons), np.zeros_like(self._out))
        learner._sums.whole[0] = (left * (FINE / self._finer)).astype(np.int64)
