"""The loop of a learner: a record is asked, its label teaches, the model is updated. Each takes the learner's state.

Update t, when B > 0 were asked in the window: w - eta_t (lambda w - (sum + z) / B), then the ball. B, the times of
updates and of counts depend on arrivals and ask bits alone; sum and mistakes are private until noise hides them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.stream.learner_state import LearnerState
from discreet.stream.linear_model import Floats, Label
from discreet.stream.pending_labels import Key

Codes = NDArray[np.int64]

# -- asking


def ask(state: LearnerState, x: Any, key: str | None) -> bool:
    """Whether the record that arrives now is asked. ``key``: under which its label will come; None: its number."""
    if state.due:
        update(state)
    vector = state.reader.vector(x)
    record = None if vector is None else state.ball.one(vector)
    number = state.arrived
    if key is not None:
        state.waiting.check(key)
    if record is None:
        chance = state.low_chance
    elif state.by_score:
        inside = state.low_score <= record.dot(state.linear.row) <= state.high_score
        chance = state.high_chance if inside else state.low_chance
    else:
        chance = _chance(state, record)
    asked = state.coins.toss(number, chance, state.low_chance, state.high_chance)
    state.arrived = number + 1
    state.arrivals_left -= 1
    if asked:
        state.count_asked(1)
        state.waiting.add(number if key is None else key, number, None if record is None else record.copy())
        state.last_record = x
    if state.arrivals_left <= 0 or state.asks_left <= 0 or state.watch_left <= 0:
        state.due = True
    return asked


def in_steps(state: LearnerState, x: Any) -> Floats | None:
    """A record in steps of the ball; None: a null. It is written over by the next call."""
    vector = state.reader.vector(x)
    return None if vector is None else state.ball.one(vector)


def chances(state: LearnerState, scores: Floats) -> NDArray[np.uint64]:
    """The chance of each record with these scores."""
    assert state.ends is not None
    widths = state.width_array[state.linear.predicted(scores)]
    distances = state.linear.distances(scores)
    return state.settings.asking.chances(distances, widths, state.settings.radius, state.ends)


def _chance(state: LearnerState, record: Floats) -> int:
    assert state.ends is not None
    if state.settings.rows > 1:
        return int(chances(state, state.linear.scores(record.reshape(1, -1)))[0])
    score = float(record.dot(state.linear.row))
    distance = abs(score) * state.linear.per_score
    return state.settings.asking.chance(distance, state.widths[score > 0], state.settings.radius, state.ends)


def scores_of(state: LearnerState, record: Floats | None) -> Floats:
    """The scores of a record in steps, as one row; of a null as of zeros."""
    return state.linear.scores(np.zeros((1, state.settings.size)) if record is None else record.reshape(1, -1))


# -- learning


def code_of(state: LearnerState, label: Label | None) -> int | None:
    """The number of a label's class; None: there is no label."""
    if label is None:
        return None
    try:
        return state.codes[label]
    except (KeyError, TypeError):
        raise BadInput("a label", "it is not one of the classes", "Give a declared class, or None") from None


def codes_of(state: LearnerState, y: Any, places: Codes) -> tuple[Codes, int]:
    """The numbers of the labels at ``places``, -1 where there is none, and how many of these there are."""
    if isinstance(y, np.ndarray) and y.dtype.kind in "iu" and state.numbered:  # they are their own numbers
        codes = y.take(places).astype(np.int64)
        if codes.size == 0 or (codes.min() >= 0 and codes.max() < len(state.codes)):
            return codes, 0
    labels = y.take(places).tolist() if isinstance(y, np.ndarray) else [y[row] for row in places.tolist()]
    try:
        return np.array([state.codes[label] for label in labels], dtype=np.int64), 0
    except (KeyError, TypeError):
        known = [code_of(state, label) for label in labels]
        return np.array([-1 if code is None else code for code in known], dtype=np.int64), known.count(None)


def learn(state: LearnerState, key: Key, label: Label | None) -> bool:
    """The label of an asked record; None: there is none. Whether it was waited for."""
    code = code_of(state, label)
    pending = state.waiting.take(key, state.arrived)
    if pending is None:
        return False
    if code is not None:
        state.labelled += 1
        if pending[1] is not None:
            teach_one(state, pending[1], code)
    return True


def teach_one(state: LearnerState, record: Floats, code: int) -> None:
    """Add what one label says to the sum of the window."""
    if state.plain_hinge:  # the same by fewer arrays
        sign = 2.0 * code - 1.0
        if sign * float(record.dot(state.linear.row)) * state.linear.unit < 1.0:
            state.sums.add(record, sign)
        return
    rows = record.reshape(1, -1)
    teach(state, rows, state.linear.scores(rows), np.array([code]))


def teach(state: LearnerState, records: Floats, scores: Floats, codes: Codes) -> None:
    """Add what labels say to the sum of the window."""
    if state.count_noise is not None:
        state.mistakes += int((state.linear.predicted(scores) != codes).sum())
    state.sums.add_many(records, state.settings.loss.coefficients(scores * state.linear.unit, codes))


# -- updating


def update(state: LearnerState) -> bool:
    """Make what is due. Whether the model changed."""
    if not state.due:
        return False
    state.due = False
    if state.watch_left <= 0 and _drifted(state):
        reset(state)
        return True
    if state.arrivals_left > 0 and state.asks_left > 0:
        return False
    asked = state.window_asked
    state.begin_window()
    if asked == 0:  # what came late stays for the next window
        return False
    noisy = state.noise.hide(state.noises, state.sums.real(state.ball.step))
    move(state, noisy * (1.0 / state.noise.step), asked)  # a power of two
    state.sums.clear()
    return True


def move(state: LearnerState, noisy: Floats, asked: int) -> None:
    """Move the model by a sum that is hidden, in steps of the noise's lattice."""
    state.noises += 1
    state.updates += 1
    state.linear.set(state.model_update.apply(state.linear.flat, noisy, t=state.updates, asked=asked))
    if state.slab.moves:
        state.set_widths()
    else:
        state.set_scores()


def reset(state: LearnerState) -> None:
    """Throw the model away and begin anew."""
    state.linear.set(np.zeros(state.settings.weights))
    state.updates, state.resets = 0, state.resets + 1
    state.sums.clear()
    state.begin_window()
    state.begin_watch()
    state.set_widths()


def _drifted(state: LearnerState) -> bool:
    assert state.settings.drift is not None
    assert state.count_noise is not None
    count = state.count_noise.hide(state.checks, state.mistakes)
    state.checks += 1
    state.begin_watch()
    return state.settings.drift.drifted(count)
