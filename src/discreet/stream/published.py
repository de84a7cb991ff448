"""A model as it is released: versioned, hashed, with the promise it was made under. Audience: world."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.budget import Budget
from discreet.privacy.ledger.entries import canonical

FORMAT = "discreet.stream-model/1"
Label = str | int


@dataclass(frozen=True, kw_only=True)
class Published:
    """A linear model of a stream.

    version     how many updates and resets there were; 0 before the first
    weights     (d,) of two classes: a positive score is the second class; else (K, d), a row a class
    classes     as they were declared
    loss        by which it was learned
    claim       the budget of the ledger that pays for it
    ledger      its id
    simulation  drawn from a seed: proves nothing about people
    """

    version: int
    weights: NDArray[np.float64] = field(repr=False)
    classes: tuple[Label, ...]
    features: tuple[str, ...] | int
    loss: str
    claim: Budget
    ledger: str
    simulation: bool

    @property
    def sha256(self) -> str:
        """The hash of everything else, in one form."""
        return hashlib.sha256(canonical(self._form())).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Everything, with its hash."""
        return self._form() | {"sha256": self.sha256}

    def _form(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": self.version,
            "weights": self.weights.tolist(),
            "classes": list(self.classes),
            "features": self.features if isinstance(self.features, int) else list(self.features),
            "loss": self.loss,
            "claim": self.claim.to_json(),
            "ledger": self.ledger,
            "simulation": self.simulation,
        }
