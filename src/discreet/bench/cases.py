"""One run of one method on one problem with one seed, named by everything that its result depends on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from discreet.bench.methods import Method
from discreet.bench.problems import Problem


class Runnable(Protocol):
    """What a bench runs and stores: named by its digest, and by words in the columns of its rows."""

    @property
    def digest(self) -> str:
        """Names the case: another setting anywhere is another case."""
        ...

    def names(self) -> dict[str, Any]:
        """Columns that every row of it has."""
        ...

    def plan_name(self) -> str | None:
        """The same for cases that wait for the same plan; None: its plan is there."""
        ...

    def make_plan(self, data: Path | None, plans: Path) -> None:
        """Make that plan, and keep it in the directory ``plans``."""
        ...

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """Its rows."""
        ...


class Named(Protocol):
    """A problem or a method: something with a name."""

    @property
    def name(self) -> str:
        """By which parts of an experiment are chosen."""
        ...


class GridCase(Runnable, Protocol):
    """A cell of an experiment's grid."""

    @property
    def problem(self) -> Named:
        """What is learned."""
        ...

    @property
    def method(self) -> Named:
        """How."""
        ...

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of single records, as expected before it runs. Makes its plan."""
        ...


@dataclass(frozen=True, kw_only=True)
class Case:
    """A cell of the grid."""

    problem: Problem
    method: Method
    seed: int

    @property
    def digest(self) -> str:
        """Names the case: another setting anywhere is another case, and its old results are left aside."""
        told = {"problem": self.problem.settings(), "method": self.method.settings(), "seed": self.seed}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    def names(self) -> dict[str, Any]:
        """Of the problem and the method, and the seed."""
        return {"problem": self.problem.name, "method": self.method.name, "seed": self.seed}

    def plan_name(self) -> str | None:
        """By what a plan depends on."""
        from discreet.bench.plans import same_plan

        return same_plan(self.problem, self.method)

    def make_plan(self, data: Path | None, plans: Path) -> None:
        """By privacy loss distributions, once."""
        from discreet.bench.plans import plan_of
        from discreet.bench.problems import pool_size

        plan_of(self.problem, self.method, pool_size(self.problem, data), plans)

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of its plan, or of the first phase where it stops there."""
        from discreet.bench.plans import gradients_of, plan_of
        from discreet.bench.problems import pool_size

        plan = plan_of(self.problem, self.method, pool_size(self.problem, data), plans)
        if self.problem.first_only:
            first = plan.phases[0]
            return round(sum(stage.steps * stage.expected_batch(plan.cohorts) for stage in first.stages))
        return gradients_of(plan)

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """A row a phase."""
        from discreet.bench.campaigns import run_case

        return run_case(self, data, plans)

    def __str__(self) -> str:
        return f"{self.problem.name}, {self.method.name}, seed {self.seed}"
