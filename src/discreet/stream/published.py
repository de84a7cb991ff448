"""A model as it is released: versioned, hashed, with the promise it was made under. Audience: world."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidCheckpoint
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

    @classmethod
    def from_json(cls, form: Any) -> Self:
        """The inverse of `to_json`; refuses one whose hash is another."""
        try:
            model = cls(
                version=form["version"],
                weights=np.array(form["weights"], dtype=np.float64),
                classes=tuple(form["classes"]),
                features=form["features"] if isinstance(form["features"], int) else tuple(form["features"]),
                loss=form["loss"],
                claim=Budget.from_json(form["claim"]),
                ledger=form["ledger"],
                simulation=form["simulation"],
            )
            same = form == model.to_json()
        except (KeyError, TypeError, ValueError):
            same = False
        if not same:
            raise InvalidCheckpoint("a published model", "its parts or its hash are not right", "Get it anew")
        return model

    def predict(self, x: Any) -> NDArray[Any]:
        """The class of each row of ``x``."""
        scores = np.asarray(x, dtype=np.float64) @ self.weights.T
        codes = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(np.asarray(self.classes)[codes])

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
