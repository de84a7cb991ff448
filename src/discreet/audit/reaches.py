"""How far one canary moves what a mechanism is given: the same run with it and without it, before any noise.

A test of sensitivity, which needs no luck: whoever moves the input further than the mechanism was told pays too little,
though one run may hide it. Reads what only an auditor of made-up records can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Reach:
    """``found``: the furthest of ``canaries`` that were taken out one by one; ``allowed``: what is charged for."""

    test: str
    found: float
    allowed: float
    canaries: int

    @property
    def verdict(self) -> Literal["too far", "within"]:
        """Too far: further than what was paid for, and more than rounding."""
        return "too far" if self.found > self.allowed * (1 + 1e-9) else "within"

    def to_json(self) -> dict[str, Any]:
        """As it is stored and printed."""
        return {
            "test": self.test,
            "found": self.found,
            "allowed": self.allowed,
            "canaries": self.canaries,
            "verdict": self.verdict,
        }
