"""One run of one method on one problem with one seed, named by everything that its result depends on.

`GridCase` is what cases of all papers share; `Case` is a campaign of this package.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from discreet_research.bench.plans import gradients_of, plan_of, same_plan
from discreet_research.bench.problems import Method, Problem, pool_size


@dataclass(frozen=True, kw_only=True)
class GridCase:
    """A cell of an experiment's grid. ``kind``: what tells the cases of one paper from those of another."""

    problem: Any
    method: Any
    seed: int
    kind: ClassVar[str] = "problem"

    def identity(self) -> Any:
        """All that its result depends on: another setting anywhere is another case, and old results are left aside."""
        return {self.kind: self.problem.settings(), "method": self.method.settings(), "seed": self.seed}

    @property
    def digest(self) -> str:
        """Names the case."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()[:16]

    def names(self) -> dict[str, Any]:
        """Columns that every row of it has."""
        return {"problem": self.problem.name, "method": self.method.name, "seed": self.seed}

    def plan_name(self) -> str | None:
        """The same for cases that share a plan; None: there is nothing to plan."""
        return None

    def make_plan(self, data: Path | None, plans: Path) -> None:
        """Make that plan, once, and keep it in the directory ``plans``."""

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of single records, as expected before it runs."""
        raise NotImplementedError

    def expected_seconds(self, gradients: int) -> float | None:
        """CPU seconds with so many gradients, where they are known before any case has run."""
        return None

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """Its rows."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.problem.name}, {self.method.name}, seed {self.seed}"


@dataclass(frozen=True, kw_only=True)
class Case(GridCase):
    """A campaign of this package."""

    problem: Problem
    method: Method

    def plan_name(self) -> str | None:
        """By what a plan depends on."""
        return same_plan(self.problem, self.method)

    def make_plan(self, data: Path | None, plans: Path) -> None:
        """By privacy loss distributions, once."""
        plan_of(self.problem, self.method, pool_size(self.problem, data), plans)

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of its plan, or of the first phase where it stops there."""
        plan = plan_of(self.problem, self.method, pool_size(self.problem, data), plans)
        return gradients_of(plan, phases=1 if self.problem.first_only else None)

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """A row a phase."""
        from discreet_research.bench.campaigns import run_case

        return run_case(self, data, plans)
