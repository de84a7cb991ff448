"""The update of a model: the noise on its sum, the size of its step, and the step itself.

The noise is on the sum of what the labels of a window say, before it is divided by B:

GammaNoise      a length from Gamma(dimension, M / epsilon), a uniform direction: pure epsilon. Under zero-out a record
                moves the sum by at most M; relation="replace-one" draws for 2M, as the paper does, for comparisons
GaussianNoise   standard deviation noise_multiplier x M a coordinate, certified by PLD: less noise from about 20
                dimensions on

Each record teaches in one update, so an update's event is charged once, however many updates the stream has.

The step size depends on t, which counts updates since the model began, from 1:

ConstantStep     for streams that drift: the model forgets
InverseStep      size / t; with size = 1 / lambda, Pegasos; the paper's
SquareRootStep   size / sqrt(t); the default

The step is w - eta_t (lambda w - (sum + z) / B), then the ball, then steps of the ball, in arrays made once. The noisy
sum comes in steps of the noise's lattice, the model in steps of its ball. Steps are powers of two, so it does not
matter where a product with one is taken: the result is the same to the bit as with each factor by itself. Numbers that
differ from update to update are laid into arrays, which is faster than handing them over as they are.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.privacy.budget import Number, Relation, exact_decimal
from discreet.privacy.events import Event, Gaussian, Pure
from discreet.stream.linear_model import Ball, Floats
from discreet.stream.parts import StreamPart, part_from_json, positive, set_fields


class UpdateNoise(StreamPart):
    """What hides a window's sum."""

    group = "noise"

    @abstractmethod
    def event(self) -> Event:
        """What it costs a record that is asked."""

    def reach(self, radius: float) -> float:
        """The sensitivity that it is drawn for."""
        return radius


@dataclass(frozen=True, kw_only=True)
class GammaNoise(UpdateNoise):
    """Density proportional to exp(-epsilon |z| / reach): pure epsilon."""

    name = "gamma"

    epsilon: Decimal
    relation: Relation = "zero-out"

    def __init__(self, *, epsilon: Number, relation: Relation = "zero-out") -> None:
        number = exact_decimal(epsilon, "epsilon")
        if number <= 0 or relation not in ("zero-out", "replace-one"):
            raise BadInput("Gamma noise", "its epsilon is not above 0, or its relation is unknown", "Check both")
        set_fields(self, epsilon=number, relation=relation)

    def event(self) -> Pure:
        """Pure epsilon."""
        return Pure(epsilon=self.epsilon)

    def reach(self, radius: float) -> float:
        """M, or 2M to compare with the paper."""
        return radius if self.relation == "zero-out" else 2 * radius


@dataclass(frozen=True, kw_only=True)
class GaussianNoise(UpdateNoise):
    """Normal noise of standard deviation ``noise_multiplier`` x M."""

    name = "gaussian"

    noise_multiplier: float

    def __post_init__(self) -> None:
        Gaussian(noise_multiplier=self.noise_multiplier)
        set_fields(self, noise_multiplier=float(self.noise_multiplier))

    def event(self) -> Gaussian:
        """A Gaussian sum."""
        return Gaussian(noise_multiplier=self.noise_multiplier)


def noise_from_json(form: Mapping[str, Any]) -> UpdateNoise:
    """The inverse of `UpdateNoise.to_json`."""
    return part_from_json(form, GammaNoise, GaussianNoise, what="update noise")


@dataclass(frozen=True)
class Step(StreamPart):
    """A step size."""

    group = "step"
    size: float

    def __post_init__(self) -> None:
        positive(self.size, "a step size")

    @abstractmethod
    def at(self, t: int) -> float:
        """eta_t."""


@dataclass(frozen=True)
class ConstantStep(Step):
    """``size``, always."""

    name = "constant"

    def at(self, t: int) -> float:
        """The same."""
        return self.size


@dataclass(frozen=True)
class InverseStep(Step):
    """``size`` / t."""

    name = "inverse"

    def at(self, t: int) -> float:
        """Falls as 1/t."""
        return self.size / t


@dataclass(frozen=True)
class SquareRootStep(Step):
    """``size`` / sqrt(t)."""

    name = "square-root"

    def at(self, t: int) -> float:
        """Falls as 1/sqrt(t)."""
        return self.size / math.sqrt(t)


def step_from_json(form: Mapping[str, Any]) -> Step:
    """The inverse of `Step.to_json`."""
    return part_from_json(form, ConstantStep, InverseStep, SquareRootStep, what="step size")


class ModelUpdate:
    """Moves a model of a fixed size. What it returns is written over two updates later."""

    def __init__(self, ball: Ball, *, step: Step, regularization: float, lattice_step: float) -> None:
        self._ball, self._at, self._regularization = ball, step.at, regularization
        self._lattice, self._steps = lattice_step, 1.0 / ball.step
        self._nearly = ball.radius * (1 - 2.0**-50)
        self._factor, self._one, self._other = (np.empty(ball.size) for _ in range(3))

    def apply(self, weights: Floats, noisy: Floats, *, t: int, asked: int) -> Floats:
        """The model after update ``t``, from ``whole``. ``noisy`` is used up."""
        rate, factor = self._at(t), self._factor
        moved = self._other if weights is self._one else self._one
        factor.fill((1.0 - rate * self._regularization) * self._ball.step)
        np.multiply(weights, factor, moved)
        factor.fill(rate / asked * self._lattice)
        np.multiply(noisy, factor, noisy)
        np.add(moved, noisy, moved)
        length = math.sqrt(moved.dot(moved))
        factor.fill(self._steps if length <= self._ball.radius else self._nearly / length * self._steps)
        np.multiply(moved, factor, moved)
        np.trunc(moved, moved)
        return moved
