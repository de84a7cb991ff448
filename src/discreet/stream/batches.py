"""Many records at once, decided as one by one: whole arrays between two updates.

Between updates the model is fixed, so a stretch of records is scored by one product. Where it ends may be known
(arrivals) or not (asked ones): then a guess is scored, and what lies behind the record that closes the window is
decided again with the new model, by the same coins. Nobody saw the first decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.stream.learner import StreamLearner
    from discreet.stream.published import Label

Floats = NDArray[np.float64]
_CHUNK = 4096
_SHORTEST = 8


def ask_many(
    learner: StreamLearner, x: Floats, y: Sequence[Label | None] | None, ids: Sequence[str] | None
) -> NDArray[np.bool_]:
    """Ask bits of rows; with labels ``y`` each asked row is taught at once."""
    for what, given in (("labels", y), ("ids", ids)):
        if given is not None and len(given) != len(x):
            raise BadInput(f"records with {what}", "there is not one for each record", "Give as many")
    if ids is not None:
        if len(set(ids)) != len(ids):
            raise BadInput("records with ids", "two of them have the same", "Give each its own")
        for key in ids:
            learner._waiting.check(key)
    found = np.zeros(len(x), dtype=bool)
    for start in range(0, len(x), _CHUNK):
        records, nulls = learner._ball.many(x[start : start + _CHUNK])
        place = 0
        while place < len(records):
            place += _stretch(learner, records[place:], nulls[place:], found[start + place :], start + place, y, ids)
    if found.any():
        learner._last_record = object()  # none that was given by itself
    return found


def _stretch(
    learner: StreamLearner,
    records: Floats,
    nulls: NDArray[np.bool_],
    found: NDArray[np.bool_],
    offset: int,
    y: Sequence[Label | None] | None,
    ids: Sequence[str] | None,
) -> int:
    """Decide records up to the next update; how many they were."""
    if learner._due:
        learner.update()
    asks_left = min(learner._asks_left, learner._watch_left)
    span = min(len(records), learner._arrivals_left, _guess(learner, asks_left))
    scores = learner._linear.scores(records[:span])
    bits = _tossed(learner, scores, nulls[:span])
    places = np.flatnonzero(bits)
    if places.size >= asks_left:
        places = places[:asks_left]
        span = int(places[-1]) + 1
    first = learner._arrived
    learner._arrived = first + span
    learner._arrivals_left -= span
    if places.size:
        found[places] = True
        learner._count_asked(places.size)
        _taken(learner, records, nulls, scores, places, first, offset, y, ids)
    learner._due = learner._arrivals_left <= 0 or learner._asks_left <= 0 or learner._watch_left <= 0
    return span


def _guess(learner: StreamLearner, asks_left: int) -> int:
    """How many records until so many are asked, and some more."""
    if learner._coins.watched:  # each toss is seen, so none is made in vain
        return 1 if asks_left < 1 << 60 else _CHUNK
    rate = (learner._asked + 1) / (learner._arrived + 2)
    return int(min(1.2 * asks_left / rate, _CHUNK)) + _SHORTEST


def _tossed(learner: StreamLearner, scores: Floats, nulls: NDArray[np.bool_]) -> NDArray[np.bool_]:
    low, high, first = learner._low, learner._high, learner._arrived
    if learner._simple:
        inside = (scores >= learner._down) & (scores <= learner._up) & ~nulls
        return learner._coins.toss_two(first, inside, null=low, high=high)
    numerators = learner._chances(scores)
    numerators[nulls] = low
    return learner._coins.toss_many(first, numerators, null=low, high=high)


def _taken(
    learner: StreamLearner,
    records: Floats,
    nulls: NDArray[np.bool_],
    scores: Floats,
    places: NDArray[np.int64],
    first: int,
    offset: int,
    y: Sequence[Label | None] | None,
    ids: Sequence[str] | None,
) -> None:
    """Asked records: taught now, or waited for."""
    if y is None:
        for place in places.tolist():
            key = first + place if ids is None else ids[offset + place]
            learner._waiting.add(key, first + place, None if nulls[place] else records[place].copy())
        return
    codes = _codes(learner, y, places + offset)
    learner._labelled += int((codes >= 0).sum())
    taught = (codes >= 0) & ~nulls[places]
    if not taught.all():
        places, codes = places[taught], codes[taught]
    if places.size:
        _teach(learner, records[places], scores[places], codes)


def _teach(learner: StreamLearner, records: Floats, scores: Floats, codes: NDArray[np.int64]) -> None:
    if learner._counts is not None:
        learner._mistakes += int((learner._linear.predicted(scores) != codes).sum())
    learner._sums.add_many(records, learner.settings.loss.coefficients(scores * learner._linear.unit, codes))


def _codes(learner: StreamLearner, y: Any, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of the labels at ``places``; -1 where there is none."""
    if isinstance(y, np.ndarray) and y.dtype.kind in "iub" and learner._plain:
        codes = y[places].astype(np.int64)
        if codes.min(initial=0) >= 0 and codes.max(initial=0) < len(learner._codes):
            return np.asarray(codes)
    labels = [y[place] for place in places.tolist()]
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    found = [learner._code(label) for label in plain]
    return np.array([-1 if code is None else code for code in found], dtype=np.int64)


def learn_many(learner: StreamLearner, x: Floats, y: Sequence[Label | None], ids: Sequence[str] | None) -> None:
    """Labels of asked rows, in their order."""
    waiting = learner._waiting
    if len(y) != len(x) or (ids is not None and len(ids) != len(x)):
        raise BadInput("labels of records", "there is not one for each record", "Give as many")
    keys = list(waiting.rows)[len(waiting.rows) - len(x) :] if ids is None else list(ids)
    if len(keys) != len(x) or len(set(keys)) != len(keys) or not all(key in waiting.rows for key in keys):
        raise BadInput(
            "labels of records", "not all of them were asked and wait for a label", "Give rows that were asked"
        )
    records, nulls = learner._ball.many(x)
    if ids is None and not all(
        _same(waiting.rows[key][1], records[place], bool(nulls[place])) for place, key in enumerate(keys)
    ):
        raise BadInput("labels of records", "they are not the records that were asked last", "Give their ids")
    codes = _codes(learner, y, np.arange(len(x)))
    for key, code in zip(keys, codes.tolist(), strict=True):
        found = waiting.take(key, learner._arrived)
        if found is not None and code >= 0:
            learner._labelled += 1
            if found[1] is not None:
                learner._teach(found[1], code)


def _same(kept: Floats | None, record: Floats, null: bool) -> bool:
    return null if kept is None else not null and bool((kept == record).all())


def probabilities(scores: Floats) -> Floats:
    """A column a class: logistic of one score, softmax of several."""
    both = np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else scores
    raised = np.exp(both - both.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
