"""The noise of an update: on the sum of what the labels of a window say, before it is divided by B.

GammaNoise      a length from Gamma(dimension, M / epsilon), a uniform direction: pure epsilon. Under zero-out a record
                moves the sum by at most M; relation="replace-one" draws for 2M, as the paper does, for comparisons
GaussianNoise   standard deviation noise_multiplier x M a coordinate, certified by PLD: less noise from about 20
                dimensions on

Each record teaches in one update, so an update's event is charged once, however many updates the stream has.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from discreet.errors import BadInput
from discreet.privacy.budget import Relation
from discreet.privacy.events import Event, Gaussian, Pure
from discreet.privacy.exact import Number, exact_decimal


class UpdateNoise(ABC):
    """What hides a window's sum."""

    @abstractmethod
    def event(self) -> Event:
        """What it costs a record that is asked."""

    def reach(self, radius: float) -> float:
        """The sensitivity that it is drawn for."""
        return radius

    @abstractmethod
    def mean_length(self, dimension: int, radius: float = 1.0) -> float:
        """How long the noise is on average."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """A form that `noise_from_json` reads back to an equal value."""


@dataclass(frozen=True, kw_only=True)
class GammaNoise(UpdateNoise):
    """Density proportional to exp(-epsilon |z| / reach): pure epsilon."""

    epsilon: Decimal
    relation: Relation = "zero-out"

    def __init__(self, *, epsilon: Number, relation: Relation = "zero-out") -> None:
        number = exact_decimal(epsilon, "epsilon")
        if number <= 0 or relation not in ("zero-out", "replace-one"):
            raise BadInput("Gamma noise", "its epsilon is not above 0, or its relation is unknown", "Check both")
        object.__setattr__(self, "epsilon", number)
        object.__setattr__(self, "relation", relation)

    def event(self) -> Pure:
        """Pure epsilon."""
        return Pure(epsilon=self.epsilon)

    def reach(self, radius: float) -> float:
        """M, or 2M to compare with the paper."""
        return radius if self.relation == "zero-out" else 2 * radius

    def mean_length(self, dimension: int, radius: float = 1.0) -> float:
        """Of Gamma(dimension, reach / epsilon)."""
        return dimension * self.reach(radius) / float(self.epsilon)

    def to_json(self) -> dict[str, Any]:
        """Its numbers."""
        return {"noise": "gamma", "epsilon": str(self.epsilon), "relation": self.relation}


@dataclass(frozen=True, kw_only=True)
class GaussianNoise(UpdateNoise):
    """Normal noise of standard deviation ``noise_multiplier`` x M."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        Gaussian(noise_multiplier=self.noise_multiplier)
        object.__setattr__(self, "noise_multiplier", float(self.noise_multiplier))

    def event(self) -> Gaussian:
        """A Gaussian sum."""
        return Gaussian(noise_multiplier=self.noise_multiplier)

    def mean_length(self, dimension: int, radius: float = 1.0) -> float:
        """Of the chi distribution."""
        log = math.lgamma((dimension + 1) / 2) - math.lgamma(dimension / 2)
        return self.noise_multiplier * radius * math.sqrt(2) * math.exp(log)

    def to_json(self) -> dict[str, Any]:
        """Its number."""
        return {"noise": "gaussian", "noise_multiplier": self.noise_multiplier}


def noise_from_json(form: dict[str, Any]) -> UpdateNoise:
    """The inverse of `UpdateNoise.to_json`."""
    made = dict(form)
    kinds: dict[Any, type[Any]] = {"gamma": GammaNoise, "gaussian": GaussianNoise}
    try:
        found: UpdateNoise = kinds[made.pop("noise", None)](**made)
    except (KeyError, TypeError):
        raise BadInput("a stored update noise", "it is not one of ours", "Restore the file") from None
    return found
