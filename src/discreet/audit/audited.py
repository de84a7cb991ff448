"""What an audit is, as a value: recipes, their twins, and what was tried on each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from discreet.audit.reaches import Reach
from discreet.audit.variances import Variance
from discreet.audit.verdict import Finding
from discreet.errors import BadInput
from discreet.noise import derived_seed

FORMAT = "discreet.audit/1"
CANARIES, FEWEST, MOST = 5000, 500, 20_000
Told = Callable[[str, int, int], None]
Broken = Literal["holds", "broken"]


@dataclass(frozen=True, kw_only=True)
class Audited:
    """One twin, what was tried on it and what came of it."""

    twin: str
    claimed: float
    findings: tuple[Finding, ...]
    variances: tuple[Variance, ...] = ()
    reaches: tuple[Reach, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether anything was surely wrong."""
        return (
            any(one.verdict == "exceeded" for one in self.findings)
            or any(one.verdict == "smaller" for one in self.variances)
            or any(one.verdict == "too far" for one in self.reaches)
        )

    def to_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "twin": self.twin,
            "claimed": self.claimed,
            "attacks": [found.to_json() for found in self.findings],
            "variances": [found.to_json() for found in self.variances],
            "reaches": [found.to_json() for found in self.reaches],
        }


@dataclass(frozen=True, kw_only=True)
class Audit:
    """All twins of a recipe. Audience: world, for it is of made-up records. ``way``: how it chooses, or answers."""

    recipe: str
    way: str
    plant: str | None
    canaries: int
    seed: int
    twins: tuple[Audited, ...]

    @property
    def verdict(self) -> Broken:
        """Holds: nothing was found that could have been."""
        return "broken" if any(one.failed for one in self.twins) else "holds"

    def to_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "recipe": self.recipe,
            "way": self.way,
            "plant": self.plant,
            "canaries": self.canaries,
            "verdict": self.verdict,
            "twins": [one.to_json() for one in self.twins],
        }


@dataclass(frozen=True, kw_only=True)
class Audits:
    """Of one recipe or several."""

    plant: str | None
    seed: int
    recipes: tuple[Audit, ...]

    @property
    def verdict(self) -> Broken:
        """Holds: of no recipe anything was found."""
        return "broken" if any(one.verdict == "broken" for one in self.recipes) else "holds"

    def to_json(self) -> dict[str, Any]:
        """As it is stored and printed."""
        return {
            "format": FORMAT,
            "simulation": True,
            "audience": "world",
            "plant": self.plant,
            "seed": self.seed,
            "verdict": self.verdict,
            "recipes": [one.to_json() for one in self.recipes],
        }


def twin_seed(seed: int, number: int) -> int:
    """The seed of the twin with this number in an audit: no two of them share draws."""
    return derived_seed(seed, "audit", number, bits=63)


def check_canaries(canaries: int) -> None:
    """Refuse too few to find anything, and more than a machine likes."""
    if type(canaries) is not int or not FEWEST <= canaries <= MOST:
        raise BadInput(f"{canaries} canaries", f"an audit has {FEWEST} to {MOST}", f"Try {CANARIES}")
