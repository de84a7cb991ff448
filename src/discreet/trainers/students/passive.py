"""Passive student queries (PSQ, the paper's Algorithm 3): ask about records at random, learn from the answers.

With ``pseudo_labels`` it also learns from records that it did not ask about, where it is sure of them itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.trainers.students.asking import Ask, Pupil, Student, Unstable, checked_cap
from discreet.trainers.students.inferring import with_pseudo_labels


def passive_student(
    x: Any,
    ask: Ask,
    *,
    classes: Sequence[str],
    estimator: Any,
    answers: int,
    seed: int = 0,
    unstable: Unstable = "dropped",
    pseudo_labels: bool = False,
) -> Student:
    """Ask about ``answers`` of the public records ``x``, drawn at random (all of them, if it is as many)."""
    pupil = Pupil(x=x, ask=ask, classes=classes, estimator=estimator, seed=seed, unstable=unstable)
    order = np.random.default_rng([seed, 2]).permutation(len(x))  # not the order in which active students look
    pupil.question(order[: checked_cap(answers, len(x))].tolist())
    model = pupil.model()
    return pupil.done(with_pseudo_labels(pupil, model) if pseudo_labels else model)
