"""Many records at once, decided as one by one: whole arrays between two updates.

Between updates the model is fixed, so a stretch of records is scored by one product. Coins come first: a record whose
coin is above the highest chance is missed whatever its score is, and is not scored. Where a stretch ends may be known
(arrivals) or not (asked ones): then a guess is scored, and what lies behind the record that closes the window is
decided again with the new model, by the same coins. Nobody saw the first decision.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.stream import ONE
from discreet.stream.short_windows import ShortWindows, fits
from discreet.stream.windows import ENDLESS

if TYPE_CHECKING:
    from discreet.stream.learner import StreamLearner
    from discreet.stream.loop import Loop
    from discreet.stream.persons import Person
    from discreet.stream.waiting import Key

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
_CHUNK = 4096
_SHORTEST = 8


def ask_many(
    learner: StreamLearner, x: Floats, y: Any, ids: Sequence[str] | None, persons: Sequence[Person] | None = None
) -> NDArray[np.bool_]:
    """Ask bits of rows; with labels ``y`` each asked row is taught at once."""
    for what, given in (("labels", y), ("ids", ids), ("persons", persons)):
        if given is not None and len(given) != len(x):
            raise BadInput(f"records with {what}", "there is not one for each record", "Give as many")
    if ids is not None:
        if len(set(ids)) != len(ids):
            raise BadInput("records with ids", "two of them have the same", "Give each its own")
        for key in ids:
            learner._waiting.check(key)
    if persons is not None or learner._persons.capped:
        x = _looked_at(learner, x, persons)
    short = fits(learner, y)
    if learner._coins.watched or (
        _short(learner) and not short
    ):  # each toss is seen by itself, or there is little to do at once
        first = learner._arrived
        bits = np.array([_one(learner, x, y, ids, place) for place in range(len(x))], dtype=bool)
        return _remembered(learner, bits, first, ids if y is None else ())
    found, first = np.zeros(len(x), dtype=bool), learner._arrived
    for start in range(0, len(x), _CHUNK):
        chunk = Chunk(learner, x[start : start + _CHUNK], y, ids, start)
        (ShortWindows(chunk, y) if short else chunk).decide(found)
    return _remembered(learner, found, first, ids if y is None else ())


def _remembered(
    learner: StreamLearner, found: NDArray[np.bool_], first: int, ids: Sequence[str] | None
) -> NDArray[np.bool_]:
    """So that `learn_many` knows whom it is about."""
    places = found.nonzero()[0].tolist()
    learner._latest = [first + place for place in places] if ids is None else [ids[p] for p in places if ids]
    learner._last_record = object()  # none that was given by itself
    return found


def _looked_at(learner: StreamLearner, x: Floats, persons: Sequence[Person] | None) -> Floats:
    """Rows, with nulls where a person's cap is reached."""
    for person in [None] * min(1, len(x)) if persons is None else persons:
        learner._persons.check(person)
    beyond = [not learner._persons.looks_at(person) for person in persons or ()]
    return np.where(np.array(beyond, dtype=bool)[:, None], np.nan, x) if any(beyond) else x


def _short(learner: StreamLearner) -> bool:
    """Whether there are few records between two updates: windows in which nobody is asked have none."""
    arrivals, asks = learner.settings.window.room(0, 0)
    seldom = ONE / learner._high
    return (max(arrivals, seldom) if arrivals < ENDLESS else asks * seldom) < 3


def _one(learner: StreamLearner, x: Floats, y: Any, ids: Sequence[str] | None, place: int) -> bool:
    fell = learner._ask(x[place], None if ids is None else ids[place])
    if fell and y is not None:
        label = y[place]
        learner.learn_one(
            x[place],
            label.item() if isinstance(label, np.generic) else label,
            id=None if ids is None else ids[place],
        )
    return fell


class Chunk:
    """Some rows, and those of them whose coin may fall."""

    def __init__(self, learner: StreamLearner, x: Floats, y: Any, ids: Sequence[str] | None, start: int) -> None:
        self._learner, self._size, self._y, self._ids, self._start = learner, len(x), y, ids, start
        self._first = learner._arrived
        top = ONE if learner.settings.asking.follows_slab else learner._high
        self._places, self._words = learner._coins.near(self._first, len(x), high=top)
        self._where = self._places.tolist()
        self._records, nulls = learner._ball.many(x, self._places)
        self._nulls = nulls if nulls.any() else None
        self._sure = self._words < np.uint64(learner._low)
        self._position = self._next = 0

    def decide(self, found: NDArray[np.bool_]) -> None:
        """Let every row arrive; those that are asked are marked in ``found``."""
        learner = self._learner
        while self._position < self._size:
            if learner._due:
                learner.update()
            asked = self._stretch()
            if asked is not None:
                found[self._places[asked] + self._start] = True
            if learner._arrivals_left <= 0 or learner._asks_left <= 0 or learner._watch_left <= 0:
                learner._due = True

    def _stretch(self) -> Places | None:
        """Let rows arrive, up to the next update at most. Which of those whose coin may fall were asked."""
        learner, start = self._learner, self._next
        end = min(self._size, self._position + learner._arrivals_left)
        last = bisect_left(self._where, end, start)
        if last == start:
            self._pass(end)
            return None
        most = min(learner._asks_left, learner._watch_left)
        guess = min(last, start + _SHORTEST + most + most // 2)
        scores = learner._linear.scores(self._records[start:guess])
        (asked,) = self._fallen(scores, start, guess).nonzero()
        if asked.size >= most:
            asked = asked[:most]
            scores, guess = scores[:guess], start + int(asked[-1]) + 1
            end = self._where[guess - 1] + 1
        elif guess < last:
            end = self._where[guess - 1] + 1
        self._arrive(end)
        self._next = guess
        if not asked.size:
            return None
        learner._count_asked(asked.size)
        self._take(asked + start, scores.take(asked, axis=0))
        return np.asarray(asked + start)

    def _pass(self, end: int) -> None:
        """Nobody can be asked until ``end``: and where windows stay empty, until the window of the next who can."""
        learner = self._learner
        period, _ = learner.settings.window.room(0, 0)
        further = end
        if period < ENDLESS and learner._window_asked == 0 and end < self._size:
            upto = self._where[self._next] if self._next < len(self._where) else self._size
            further = end + (upto - end) // period * period
        self._arrive(end)
        learner._arrived += further - end
        self._position = further

    def _arrive(self, end: int) -> None:
        arrived = end - self._position
        self._position = end
        self._learner._arrived += arrived
        self._learner._arrivals_left -= arrived

    def _fallen(self, scores: Floats, start: int, end: int) -> NDArray[np.bool_]:
        learner = self._learner
        if learner._simple:
            inside = (scores >= learner._down) & (scores <= learner._up)
            if self._nulls is not None:
                inside &= ~self._nulls[start:end]
            return np.asarray(inside | self._sure[start:end])
        numerators = learner._chances(scores)
        if self._nulls is not None:
            numerators[self._nulls[start:end]] = learner._low
        return np.asarray(self._words[start:end] < numerators)

    def _take(self, asked: Places, scores: Floats) -> None:
        """Asked records: taught now, or waited for."""
        learner, rows = self._learner, self._places[asked]
        learner._waiting.last = None
        if self._y is None:
            for one, row in zip(asked.tolist(), rows.tolist(), strict=True):
                null = self._nulls is not None and bool(self._nulls[one])
                key = self._first + row if self._ids is None else self._ids[self._start + row]
                learner._waiting.add(key, self._first + row, None if null else self._records[one].copy())
            return
        codes, missing = codes_of(learner, self._y, rows + self._start)
        learner._labelled += asked.size - missing
        if missing or self._nulls is not None:
            taught = codes >= 0 if self._nulls is None else (codes >= 0) & ~self._nulls[asked]
            asked, scores, codes = asked[taught], scores[taught], codes[taught]
        teach(learner, self._records.take(asked, axis=0), scores, codes)


def teach(learner: Loop, records: Floats, scores: Floats, codes: Places) -> None:
    """Add what labels say to the sum of the window."""
    if learner._counts is not None:
        learner._mistakes += int((learner._linear.predicted(scores) != codes).sum())
    learner._sums.add_many(records, learner.settings.loss.coefficients(scores * learner._linear.unit, codes))


def codes_of(learner: StreamLearner, y: Any, places: Places) -> tuple[Places, int]:
    """The numbers of the labels at ``places``, -1 where there is none, and how many of these there are."""
    if isinstance(y, np.ndarray) and y.dtype.kind in "iu" and learner._numbered:  # they are their own numbers
        codes = y.take(places).astype(np.int64)
        if codes.size == 0 or (codes.min() >= 0 and codes.max() < len(learner._codes)):
            return codes, 0
    labels = y.take(places).tolist() if isinstance(y, np.ndarray) else [y[place] for place in places.tolist()]
    known = learner._codes
    try:
        return np.array([known[label] for label in labels], dtype=np.int64), 0
    except (KeyError, TypeError):
        found = [learner._code(label) for label in labels]
        return np.array([-1 if code is None else code for code in found], dtype=np.int64), found.count(None)


def learn_many(learner: StreamLearner, x: Floats, y: Any, ids: Sequence[str] | None) -> int:
    """Labels of asked rows, in their order. How many of them were waited for."""
    if len(y) != len(x) or (ids is not None and len(ids) != len(x)):
        raise BadInput("labels of records", "there is not one for each record", "Give as many")
    keys: list[Key] = learner._latest if ids is None else list(ids)
    if ids is None:
        records, nulls = learner._ball.many(x)
        kept = learner._waiting.rows
        if len(keys) != len(x) or not all(
            key not in kept
            or (learner._persons.capped and kept[key][1] is None)  # beyond the cap: it teaches nothing
            or _same(kept[key][1], records[place], bool(nulls[place]))
            for place, key in enumerate(keys)
        ):
            raise BadInput("labels of records", "they are not those that `ask_many` said yes to last", "Give their ids")
        learner._latest = []
    codes, _ = codes_of(learner, y, np.arange(len(x)))
    labels = learner.settings.classes
    told = zip(keys, codes.tolist(), strict=True)
    return sum(learner.learn_late(key, None if code < 0 else labels[code]) for key, code in told)


def _same(kept: Floats | None, record: Floats, null: bool) -> bool:
    return null if kept is None else not null and bool((kept == record).all())


def probabilities(scores: Floats) -> Floats:
    """A column a class: logistic of one score, softmax of several."""
    both = np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else scores
    raised = np.exp(both - both.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
