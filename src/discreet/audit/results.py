"""Audit targets, injected faults, and the result of an audit as a value: recipes, targets, and what was tried on
each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from discreet.audit.checks import SensitivityCheck, Variance
from discreet.audit.findings import Finding
from discreet.errors import BadInput
from discreet.noise import derived_seed

FORMAT = "discreet.audit/1"
CANARIES, FEWEST, MOST = 5000, 500, 20_000
Progress = Callable[[str, int, int], None]
"""Called with a recipe, how many of its targets are done, and how many there are."""
AuditVerdict = Literal["holds", "broken"]
ShownModels = Sequence[tuple[int, Any]]
"""Models that a run shows besides the campaign's own, each with its phase."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fault:
    """A fault that is injected while a target runs, to show that the audit catches it (`discreet_research`).

    inject      a context in which the running code has the fault
    settings    settings of the target that the fault changes
    """

    name: str = ""
    inject: Callable[[], AbstractContextManager[ShownModels | None]] = nullcontext
    settings: Mapping[str, Any] = field(default_factory=dict)


NO_FAULT = Fault()


@dataclass(frozen=True, kw_only=True)
class TargetResult:
    """One target, what was tried on it and what was found."""

    target: str
    claimed: float
    findings: tuple[Finding, ...]
    variances: tuple[Variance, ...] = ()
    sensitivity_checks: tuple[SensitivityCheck, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether an attack or a check refuted the claim."""
        checks: list[Finding | Variance | SensitivityCheck] = [
            *self.findings,
            *self.variances,
            *self.sensitivity_checks,
        ]
        return any(check.verdict in ("exceeded", "smaller", "too far") for check in checks)

    def to_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "target": self.target,
            "claimed": self.claimed,
            "attacks": [finding.to_json() for finding in self.findings],
            "variances": [variance.to_json() for variance in self.variances],
            "sensitivity_checks": [check.to_json() for check in self.sensitivity_checks],
        }


class AuditTarget(Protocol):
    """A small part or a whole campaign on made-up records, with sizes, data and a budget of its own."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def audit(self, name: str, seed: int) -> TargetResult:
        """Run the target once and attack it."""
        ...


Targets = Mapping[str, AuditTarget]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """All targets of a recipe. Audience: public, for the records are made up. ``way``: how it chooses, or answers."""

    recipe: str
    way: str
    plant: str | None
    canaries: int
    seed: int
    targets: tuple[TargetResult, ...]

    @property
    def verdict(self) -> AuditVerdict:
        """Holds: nothing was found that could have been."""
        return "broken" if any(target.failed for target in self.targets) else "holds"

    def to_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "recipe": self.recipe,
            "way": self.way,
            "plant": self.plant,
            "canaries": self.canaries,
            "verdict": self.verdict,
            "targets": [target.to_json() for target in self.targets],
        }


@dataclass(frozen=True, kw_only=True)
class Audits:
    """Of one recipe or several."""

    plant: str | None
    seed: int
    recipes: tuple[Audit, ...]

    @property
    def verdict(self) -> AuditVerdict:
        """Holds: of no recipe anything was found."""
        return "broken" if any(audit.verdict == "broken" for audit in self.recipes) else "holds"

    def to_json(self) -> dict[str, Any]:
        """As it is stored and printed."""
        return {
            "format": FORMAT,
            "simulation": True,
            "audience": "public",
            "plant": self.plant,
            "seed": self.seed,
            "verdict": self.verdict,
            "recipes": [audit.to_json() for audit in self.recipes],
        }


def target_seed(seed: int, number: int) -> int:
    """The seed of the target with this number in an audit: no two of them share draws."""
    return derived_seed(seed, "audit", number, bits=63)


def check_canaries(canaries: int) -> None:
    """Refuse too few to find anything, and more than a machine can hold."""
    if type(canaries) is not int or not FEWEST <= canaries <= MOST:
        raise BadInput(f"{canaries} canaries", f"an audit has {FEWEST} to {MOST}", f"Try {CANARIES}")
