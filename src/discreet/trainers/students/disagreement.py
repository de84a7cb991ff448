"""Active student queries (ASQ, the paper's Algorithm 4): ask only where hypotheses that fit the answers still disagree.

Disagreement-based active learning (Hanneke 2014) over the public records in random order, in batches that grow, so
that a model is trained O(log m) times and not at every record. Records outside the region of disagreement are labelled
by the model, for free, and learnt from. ``answers`` is a cap fixed beforehand.

Whether hypotheses disagree on a record is asked of an ERM oracle (what it costs the training fit to say otherwise
there):

    quadratic   linear students of two classes: the least rise of the logistic loss that flips a record with margin z is
                z^2 / (2 x' H^-1 x) to second order, H the loss's Hessian. One factorisation serves all records
    committee   any student (trees, networks): models of resampled answers, which fit nearly as well; a record is in the
                region if one of them disagrees. From inside: what no member sees is missed
    refit       any student, exact and slow: the model is trained again with the record's label turned and held

The rise that is allowed is ``caution`` (log n + sqrt(n err log n)), n what was learnt from and err its training error.

A model that says one class of everything it was shown has not found the region of disagreement, however sure it is:
a rare class looks like noise to few answers. Then nothing counts as agreed. What was inferred is taken back, the model
is made of answers alone (and what was inferred is looked at once more), and if it still says one class the whole batch
is asked. Else it would label the rest by itself, learn from its own labels, and never ask again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.trainers.students.student import (
    ActiveStudent,
    Ask,
    Integers,
    Student,
    Unstable,
    checked_cap,
    probabilities,
)
from discreet.trainers.teachers.fitting import seeded

Oracle = Literal["quadratic", "committee", "refit"]
Bools = NDArray[np.bool_]
FIRST, GROWTH, CAUTION, MEMBERS = 50, 2.0, 0.1, 8
_HELD = 1e3
"""The weight of a record whose label is held: more than all others can outvote in practice."""


def disagreement_student(
    x: Any,
    ask: Ask,
    *,
    classes: Sequence[str],
    estimator: Any,
    answers: int,
    seed: int = 0,
    unstable: Unstable = "dropped",
    oracle: Oracle | None = None,
    first: int = FIRST,
    growth: float = GROWTH,
    caution: float = CAUTION,
) -> Student:
    """Ask about at most ``answers`` of the public records ``x``. ``oracle``: by default the one that suits."""
    if type(first) is not int or first < 1 or not 1 < growth < math.inf:  # else batches would be empty for ever
        raise BadInput(
            f"batches from {first} that grow by {growth}", "they begin with 1 at least and grow", "Try 50 and 2"
        )
    student = ActiveStudent(x=x, ask=ask, classes=classes, estimator=estimator, seed=seed, unstable=unstable)
    disagrees = disagreeing(oracle, caution, estimator, len(classes))
    cap = checked_cap(answers, len(x))
    order = student.rng.permutation(len(x))
    seen = min(first, cap)
    more = student.question(order[:seen].tolist())
    returned = False
    while more and seen < len(order) and len(student.asked) < cap:
        batch = order[seen : math.ceil(seen * growth)]
        seen += len(batch)
        model, tells_apart, taken_back = decided(student, order[:seen])
        if len(taken_back) and not returned:  # once, so that this ends
            order, returned = np.append(order, taken_back), True
        region = disagrees(student, model, batch) if tells_apart else np.ones(len(batch), dtype=bool)
        outside = batch[~region]
        if len(outside):
            student.inferred |= dict(zip(outside.tolist(), model.predict(x[outside]).tolist(), strict=True))
        more = student.question(batch[region][: cap - len(student.asked)].tolist())
    return student.done(decided(student, order[:seen])[0])


def decided(student: ActiveStudent, seen: Integers) -> tuple[Any, bool, Integers]:
    """A model of everything learnt so far; whether it tells some of the records seen from others; what it took back.

    It is of answers alone, if what was inferred kept it from that.
    """
    model = student.model()
    if not student.inferred or not says_one_class(model, student.x[seen]):
        return model, not says_one_class(model, student.x[seen]), np.zeros(0, dtype=np.int64)
    taken_back = np.array(sorted(student.inferred), dtype=np.int64)
    student.inferred.clear()
    model = student.model()
    return model, not says_one_class(model, student.x[seen]), student.rng.permutation(taken_back)


def says_one_class(model: Any, x: Any) -> bool:
    """Whether a model makes no difference between these records."""
    return len(np.unique(model.predict(x))) < 2


def _suited(estimator: Any, classes: int) -> Oracle:
    from sklearn.linear_model import LogisticRegression

    return "quadratic" if classes == 2 and isinstance(estimator, LogisticRegression) else "committee"


def disagreeing(
    oracle: str | None, caution: float, estimator: Any, classes: int
) -> Callable[[ActiveStudent, Any, Integers], Bools]:
    """Whether hypotheses that fit a student's training set disagree on each record of a batch."""
    name = oracle or _suited(estimator, classes)
    ways = {"quadratic": _quadratic, "committee": _committee, "refit": _refit}
    if name not in ways or not 0 < caution < math.inf:
        raise BadInput(
            f"the oracle {name}", "there is none, or its caution is not positive", f"Choose {', '.join(ways)}"
        )

    return lambda student, model, batch: ways[name](student, model, batch, caution)


def allowed_rise(places: Integers, codes: Integers, student: ActiveStudent, model: Any, caution: float) -> float:
    """How much worse, in records, a hypothesis may fit and still be thought of."""
    n = len(places)
    error = float((model.predict(student.x[places]) != codes).mean())
    log = math.log(n + 1)
    return caution * (log + math.sqrt(n * error * log))


def _quadratic(student: ActiveStudent, model: Any, batch: Integers, caution: float) -> Bools:
    places, codes = student.training_set()
    rows = _with_one(student.x[places])
    weights = np.append(model.coef_[0], model.intercept_[0])
    p = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
    hessian = (rows * (p * (1 - p))[:, None]).T @ rows
    ridge = 1 / float(getattr(model, "C", 1.0))
    hessian[np.diag_indices_from(hessian)] += np.append(np.full(len(weights) - 1, ridge), 1e-9)
    asked = _with_one(student.x[batch])
    reach = np.einsum("ij,ji->i", asked, np.linalg.solve(hessian, asked.T))
    rise = (asked @ weights) ** 2 / (2 * np.maximum(reach, 1e-300))
    return np.asarray(rise <= allowed_rise(places, codes, student, model, caution))


def _with_one(x: Any) -> NDArray[np.float64]:
    rows = np.asarray(x, dtype=np.float64)
    return np.concatenate([rows, np.ones((len(rows), 1))], axis=1)


def _committee(student: ActiveStudent, model: Any, batch: Integers, caution: float) -> Bools:
    places, codes = student.training_set()
    predicted, region = model.predict(student.x[batch]), np.zeros(len(batch), dtype=bool)
    for _ in range(MEMBERS):
        drawn = student.rng.integers(len(places), size=len(places))
        region |= student.fitted(places[drawn], codes[drawn]).predict(student.x[batch]) != predicted
    return region


def _refit(student: ActiveStudent, model: Any, batch: Integers, caution: float) -> Bools:
    places, codes = student.training_set()
    allowed = allowed_rise(places, codes, student, model, caution)
    wrong = int((model.predict(student.x[places]) != codes).sum())
    ordered = np.asarray(model.classes_)[np.argsort(probabilities(model, student.x[batch]), axis=1)]
    region = np.zeros(len(batch), dtype=bool)
    for number, (record, second) in enumerate(zip(batch, ordered[:, -2], strict=True)):
        held = np.append(places, record)
        student.fits += 1
        other = seeded(student.estimator, student.seed).fit(
            student.x[held], np.append(codes, second), sample_weight=np.append(np.ones(len(places)), _HELD)
        )
        rise = int((other.predict(student.x[places]) != codes).sum()) - wrong
        region[number] = rise <= allowed
    return region
