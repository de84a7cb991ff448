"""One update of the model, in arrays made once: w - eta_t (lambda w - (sum + z) / B), then the ball, then steps.

The noisy sum comes in steps of the noise's lattice, the model in steps of its ball. Steps are powers of two, so it does
not matter where a product with one is taken: the result is the same to the bit as with each factor by itself. Numbers
that differ from update to update are laid into arrays, which is faster than handing them over as they are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.stream.steps import Step
from discreet.stream.units import Ball

Floats = NDArray[np.float64]


class Mover:
    """Moves a model of a fixed size. What it gives is written over two moves later."""

    def __init__(self, ball: Ball, *, step: Step, regularization: float, lattice_step: float) -> None:
        self._ball, self._at, self._regularization = ball, step.at, regularization
        self._lattice, self._steps = lattice_step, 1.0 / ball.step
        self._nearly = ball.radius * (1 - 2.0**-50)
        self._factor, self._one, self._other = (np.empty(ball.size) for _ in range(3))

    def move(self, whole: Floats, noisy: Floats, *, t: int, asked: int) -> Floats:
        """The model after update ``t``, from ``whole``. ``noisy`` is used up."""
        rate, factor = self._at(t), self._factor
        moved = self._other if whole is self._one else self._one
        factor.fill((1.0 - rate * self._regularization) * self._ball.step)
        np.multiply(whole, factor, moved)
        factor.fill(rate / asked * self._lattice)
        np.multiply(noisy, factor, noisy)
        np.add(moved, noisy, moved)
        length = math.sqrt(moved.dot(moved))
        factor.fill(self._steps if length <= self._ball.radius else self._nearly / length * self._steps)
        np.multiply(moved, factor, moved)
        np.trunc(moved, moved)
        return moved
