"""Many records at once, decided as one by one: whole arrays between two updates.

Between updates the model is fixed, so a stretch of records is scored by one product. Coins come first: a record whose
coin is above the highest chance is missed whatever its score is, and is not scored. Where a stretch ends may be known
(arrivals) or not (asked ones): then a guess is scored, and what lies behind the record that closes the window is
decided again with the new model, by the same coins. Nobody saw the first decision.

Where windows are short there is little to score at once, and the calls for arrays cost more than what they do. So
records are read, projected and paired with their coins for thousands at once, and only those whose coin may fall are
looked at one by one, against the model of their window (`ShortWindows`). This decides bit for bit as the other ways do:
scores are exact, gradients of a hinge are whole numbers, and the update is the same code. It is for two classes, rules
of two chances and the hinge loss, with labels at once; noise must be at least as fine as records (`fits`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.stream import ONE
from discreet.stream import loop
from discreet.stream.learner_state import LearnerState
from discreet.stream.linear_model import Floats
from discreet.stream.loop import Codes
from discreet.stream.losses import FINE
from discreet.stream.pending_labels import Key, Person
from discreet.stream.schedules import ENDLESS

Bits = NDArray[np.bool_]
_CHUNK = 4096
_SHORTEST = 8
_MOST_SINGLE = 24
"""Looked at one by one in a window, on average: above it, arrays are faster."""
_EXACT = 2.0**44
"""Steps of noise, and of a gradient, up to which a sum of some stays exact in floats."""


def ask_many(
    state: LearnerState, x: Floats, y: Any, ids: Sequence[str] | None, persons: Sequence[Person] | None = None
) -> Bits:
    """Ask bits of rows; with labels ``y`` each asked row is taught at once."""
    for what, values in (("labels", y), ("ids", ids), ("persons", persons)):
        if values is not None and len(values) != len(x):
            raise BadInput(f"records with {what}", "there is not one for each record", "Give as many")
    if ids is not None:
        if len(set(ids)) != len(ids):
            raise BadInput("records with ids", "two of them have the same", "Give each its own")
        for key in ids:
            state.waiting.check(key)
    if persons is not None or state.persons.capped:
        x = _capped(state, x, persons)
    single, first = fits(state, y), state.arrived
    if state.coins.watched or (_few(state) and not single):
        # each toss is seen by itself, or there is little to do at once
        asked = np.array([_ask_one(state, x, y, ids, row) for row in range(len(x))], dtype=bool)
    else:
        asked = np.zeros(len(x), dtype=bool)
        for start in range(0, len(x), _CHUNK):
            chunk = Chunk(state, x[start : start + _CHUNK], y, ids, start)
            (ShortWindows(chunk, y) if single else chunk).decide(asked)
    rows = asked.nonzero()[0].tolist() if y is None else []  # so that `learn_many` knows whom it is about
    state.latest = [first + row for row in rows] if ids is None else [ids[row] for row in rows]
    state.last_record = object()  # none that was given by itself
    return asked


def _capped(state: LearnerState, x: Floats, persons: Sequence[Person] | None) -> Floats:
    """Rows, with nulls where a person's cap is reached."""
    for person in [None] * min(1, len(x)) if persons is None else persons:
        state.persons.check(person)
    beyond = [not state.persons.looks_at(person) for person in persons or ()]
    return np.where(np.array(beyond, dtype=bool)[:, None], np.nan, x) if any(beyond) else x


def _few(state: LearnerState) -> bool:
    """Whether there are few records between two updates: windows in which nobody is asked have none."""
    arrivals, asks = state.settings.window.room(0, 0)
    seldom = ONE / state.high_chance
    return (max(arrivals, seldom) if arrivals < ENDLESS else asks * seldom) < 3


def _ask_one(state: LearnerState, x: Floats, y: Any, ids: Sequence[str] | None, row: int) -> bool:
    key = None if ids is None else ids[row]
    asked = loop.ask(state, x[row], key)
    if asked and y is not None:
        label = y[row]
        label = label.item() if isinstance(label, np.generic) else label
        loop.learn(state, state.arrived - 1 if key is None else key, label)
    return asked


def learn_many(state: LearnerState, x: Floats, y: Any, ids: Sequence[str] | None) -> int:
    """Labels of asked rows, in their order. How many of them were waited for."""
    if len(y) != len(x) or (ids is not None and len(ids) != len(x)):
        raise BadInput("labels of records", "there is not one for each record", "Give as many")
    keys: list[Key] = state.latest if ids is None else list(ids)
    if ids is None:
        records, nulls = state.ball.many(x)
        if len(keys) != len(x) or not all(
            _matches(state, *row) for row in zip(keys, records, nulls.tolist(), strict=True)
        ):
            raise BadInput("labels of records", "they are not those that `ask_many` said yes to last", "Give their ids")
        state.latest = []
    codes, _ = loop.codes_of(state, y, np.arange(len(x)))
    classes = state.settings.classes
    labels = [None if code < 0 else classes[code] for code in codes.tolist()]
    return sum(loop.learn(state, key, label) for key, label in zip(keys, labels, strict=True))


def _matches(state: LearnerState, key: Key, record: Floats, null: bool) -> bool:
    """Whether the row of ``key`` may be this record: it has its label already, teaches nothing, or is the same."""
    if key not in state.waiting.rows:
        return True
    waiting = state.waiting.rows[key][1]
    if waiting is None:
        return state.persons.capped or null  # beyond the cap a record teaches nothing
    return not null and bool((waiting == record).all())


class Chunk:
    """Some rows, and those of them whose coin may fall: where they stand, their coins, and their records in steps."""

    def __init__(self, state: LearnerState, x: Floats, y: Any, ids: Sequence[str] | None, start: int) -> None:
        self.state, self.size, self.start = state, len(x), start
        self._y, self._ids, self._first = y, ids, state.arrived
        top = ONE if state.settings.asking.follows_slab else state.high_chance
        self._rows, self._words = state.coins.near(self._first, len(x), high=top)
        self.rows = self._rows.tolist()
        self.records, nulls = state.ball.many(x, self._rows)
        self.nulls = nulls if nulls.any() else None
        self.certain = self._words < np.uint64(state.low_chance)
        self._position = self._next = 0

    def decide(self, asked: Bits) -> None:
        """Let every row arrive; those that are asked are marked in ``asked``."""
        state = self.state
        while self._position < self.size:
            if state.due:
                loop.update(state)
            try:
                stretch = self._stretch()
            finally:  # a label that cannot be read leaves a learner that goes on
                if state.arrivals_left <= 0 or state.asks_left <= 0 or state.watch_left <= 0:
                    state.due = True
            if stretch is not None:
                asked[self._rows[stretch] + self.start] = True

    def _stretch(self) -> Codes | None:
        """Let rows arrive, up to the next update at most. Which of those whose coin may fall were asked."""
        state, start = self.state, self._next
        end = min(self.size, self._position + state.arrivals_left)
        last = bisect_left(self.rows, end, start)
        if last == start:
            self._pass(end)
            return None
        left = min(state.asks_left, state.watch_left)
        guess = min(last, start + _SHORTEST + left + left // 2)
        scores = state.linear.scores(self.records[start:guess])
        (asked,) = self._asked(scores, start, guess).nonzero()
        if asked.size >= left:
            asked = asked[:left]
            scores, guess = scores[:guess], start + int(asked[-1]) + 1
            end = self.rows[guess - 1] + 1
        elif guess < last:
            end = self.rows[guess - 1] + 1
        self._arrive(end)
        self._next = guess
        if not asked.size:
            return None
        state.count_asked(asked.size)
        self._take(asked + start, scores.take(asked, axis=0))
        return np.asarray(asked + start)

    def _pass(self, end: int) -> None:
        """Nobody can be asked until ``end``: and where windows stay empty, until the window of the next who can."""
        state = self.state
        period, _ = state.settings.window.room(0, 0)
        further = end
        if period < ENDLESS and state.window_asked == 0 and end < self.size:
            upto = self.rows[self._next] if self._next < len(self.rows) else self.size
            further = end + (upto - end) // period * period
        self._arrive(end)
        state.arrived += further - end
        self._position = further

    def _arrive(self, end: int) -> None:
        arrived = end - self._position
        self._position = end
        self.state.arrived += arrived
        self.state.arrivals_left -= arrived

    def _asked(self, scores: Floats, start: int, end: int) -> Bits:
        state = self.state
        if state.by_score:
            inside = (scores >= state.low_score) & (scores <= state.high_score)
            if self.nulls is not None:
                inside &= ~self.nulls[start:end]
            return np.asarray(inside | self.certain[start:end])
        numerators = loop.chances(state, scores)
        if self.nulls is not None:
            numerators[self.nulls[start:end]] = state.low_chance
        return np.asarray(self._words[start:end] < numerators)

    def _take(self, asked: Codes, scores: Floats) -> None:
        """Asked records: taught now, or waited for."""
        state, rows = self.state, self._rows[asked]
        state.waiting.last = None
        if self._y is None:
            for index, row in zip(asked.tolist(), rows.tolist(), strict=True):
                null = self.nulls is not None and bool(self.nulls[index])
                key = self._first + row if self._ids is None else self._ids[self.start + row]
                state.waiting.add(key, self._first + row, None if null else self.records[index].copy())
            return
        codes, missing = loop.codes_of(state, self._y, rows + self.start)
        state.labelled += asked.size - missing
        if missing or self.nulls is not None:
            taught = codes >= 0 if self.nulls is None else (codes >= 0) & ~self.nulls[asked]
            asked, scores, codes = asked[taught], scores[taught], codes[taught]
        loop.teach(state, self.records.take(asked, axis=0), scores, codes)


def fits(state: LearnerState, y: Any) -> bool:
    """Whether chunks of this learner are decided by `ShortWindows`."""
    if y is None or not (state.by_score and state.plain_hinge):
        return False
    arrivals, asks = state.settings.window.room(0, 0)
    looked_at = min(arrivals * (state.high_chance / ONE), asks)
    finer = state.ball.step / state.noise.step
    return looked_at <= _MOST_SINGLE and 1.0 <= finer <= 2.0**16 and state.noise.most_steps <= _EXACT


class ShortWindows:
    """The window of a learner while a chunk passes, and what was taught in it."""

    def __init__(self, chunk: Chunk, y: Any) -> None:
        self._chunk, self._state, self._y = chunk, chunk.state, y
        state = chunk.state
        self._finer = state.ball.step / state.noise.step
        self._period, self._asks = state.settings.window.room(0, 0)
        self._out = np.empty(state.settings.weights)
        self._gradients: list[tuple[bool, Floats]] = []
        self._asked = self._labelled = self._looked_at = 0
        state.noise.check()

    def decide(self, asked: Bits) -> None:
        """Let every row arrive; those that are asked are marked in ``asked``."""
        state = self._state
        if state.due:
            loop.update(state)
        if state.sums.steps.any():
            self._gradients.append((True, state.sums.steps[0] * (self._finer / FINE)))
        self._boundary, self._asks_left = state.arrivals_left, state.asks_left
        self._window, self._closed = state.window_asked, -1
        arrived = self._chunk.size
        try:
            self._pass_all(asked)
        except BaseException:
            arrived = self._looked_at + 1  # what follows the record that cannot be taught did not arrive
            raise
        finally:
            self._leave(arrived)

    def _pass_all(self, asked: Bits) -> None:
        chunk, state = self._chunk, self._state
        linear, unit, start = state.linear, state.linear.unit, chunk.start
        nulls = [False] * len(chunk.rows) if chunk.nulls is None else chunk.nulls.tolist()
        records, scaled = list(chunk.records), list(chunk.records * self._finer)
        parts = zip(chunk.rows, records, scaled, chunk.certain.tolist(), nulls, strict=True)
        weights, low, high = linear.row, state.low_score, state.high_score
        for row, record, gradient, certain, null in parts:
            self._looked_at = row
            if (self._closed >= 0 or row >= self._boundary) and self._close(row):
                weights, low, high = linear.row, state.low_score, state.high_score
            score = record.dot(weights)
            if not (certain or (low <= score <= high and not null)):
                continue
            asked[row + start] = True
            self._asked += 1
            self._window += 1
            self._asks_left -= 1
            if self._asks_left <= 0:
                self._closed = row + 1
            code = self._code(row + start)
            if code is not None and not null and (score if code else -score) * unit < 1.0:
                self._gradients.append((code == 1, gradient))

    def _code(self, row: int) -> int | None:
        """The label of an asked record."""
        label = self._y.item(row) if isinstance(self._y, np.ndarray) else self._y[row]
        code = loop.code_of(self._state, label)
        self._labelled += code is not None
        return code

    def _close(self, row: int) -> bool:
        """Windows that end before the record at ``row``; whether the model moved."""
        moved = self._window > 0
        if moved:
            self._state.noise.hide_parts(self._state.noises, self._gradients, self._out)
            loop.move(self._state, self._out, self._window)
            self._gradients.clear()
        self._boundary = (self._boundary if self._closed < 0 else self._closed) + self._period
        self._window, self._asks_left, self._closed = 0, self._asks, -1
        if row >= self._boundary:  # windows in which nobody is asked
            self._boundary += ((row - self._boundary) // self._period + 1) * self._period
        return moved

    def _leave(self, arrived: int) -> None:
        """Hand the window back, after so many records of the chunk."""
        state = self._state
        if arrived == self._chunk.size and (0 <= self._closed < arrived or self._boundary < arrived):
            self._close(arrived - 1)
        state.arrived += arrived
        state.asked += self._asked
        state.watch_left -= self._asked
        state.labelled += self._labelled
        state.window_asked, state.asks_left = self._window, self._asks_left
        state.arrivals_left = self._boundary - arrived
        state.due = self._closed >= 0 or self._boundary <= arrived
        state.waiting.last = None if self._asked else state.waiting.last
        left = sum((gradient if added else -gradient for added, gradient in self._gradients), np.zeros_like(self._out))
        state.sums.steps[0] = (left * (FINE / self._finer)).astype(np.int64)
