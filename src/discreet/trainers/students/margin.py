"""Margin-based active queries, the practical default: ask where the student is torn, in batches that grow.

The first batch is random; each later one is of the unasked records with the smallest margins, with a share at random
so that a wrong first model is found out. Batches grow geometrically, so that a model is trained O(log l) times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.trainers.students.asking import Ask, Pupil, Student, Unstable, checked_cap
from discreet.trainers.students.inferring import margins, with_pseudo_labels

FIRST, GROWTH, RANDOM_SHARE = 50, 1.6, 0.2


def margin_student(
    x: Any,
    ask: Ask,
    *,
    classes: Sequence[str],
    estimator: Any,
    answers: int,
    seed: int = 0,
    unstable: Unstable = "dropped",
    pseudo_labels: bool = False,
    first: int = FIRST,
    growth: float = GROWTH,
    random_share: float = RANDOM_SHARE,
) -> Student:
    """Ask about at most ``answers`` of the public records ``x``, most of them where the model so far is torn."""
    pupil = Pupil(x=x, ask=ask, classes=classes, estimator=estimator, seed=seed, unstable=unstable)
    cap = checked_cap(answers, len(x))
    order = pupil.rng.permutation(len(x))
    more = pupil.question(order[: min(first, cap)].tolist())
    model = pupil.model()
    while more and len(pupil.asked) < cap:
        size = min(max(1, int(len(pupil.asked) * (growth - 1))), cap - len(pupil.asked))
        unasked = np.setdiff1d(order, pupil.asked)
        pupil.rng.shuffle(unasked)
        drawn = unasked[: int(size * random_share)]
        rest = unasked[len(drawn) :]
        torn = rest[np.argsort(margins(model, x[rest]), kind="stable")[: size - len(drawn)]]
        more = pupil.question(np.concatenate([drawn, torn]).tolist())
        model = pupil.model()
    return pupil.done(with_pseudo_labels(pupil, model) if pseudo_labels else model)
