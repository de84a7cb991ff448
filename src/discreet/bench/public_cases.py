"""One way of choosing public records on one problem with one seed: a case of the bench. Its plan is the private run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.bench.public_problems import PublicMethod, PublicProblem


@dataclass(frozen=True, kw_only=True)
class PublicCase:
    """A cell of the grid."""

    problem: PublicProblem
    method: PublicMethod
    seed: int

    @property
    def digest(self) -> str:
        """Names the case: another setting anywhere is another case, and its old results are left aside."""
        told = {"public": self.problem.settings(), "method": self.method.settings(), "seed": self.seed}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    def names(self) -> dict[str, Any]:
        """Of the problem and the method, and the seed."""
        return {"problem": self.problem.name, "method": self.method.name, "seed": self.seed}

    def plan_name(self) -> str | None:
        """The private run that it starts from."""
        from discreet.bench.public_runs import run_name

        return run_name(self.problem, self.seed)

    def make_plan(self, data: Path | None, plans: Path) -> None:
        """Train that run, once for all methods."""
        from discreet.bench.public_runs import checkpoints_of
        from discreet.bench.public_scenes import scene_of

        checkpoints_of(self.problem, scene_of(self.problem, data, self.seed), self.seed, _shelf(plans))

    @property
    def labels(self) -> tuple[int, ...]:
        """How many are asked, each time anew."""
        return self.problem.labels if self.method.labels is None else self.method.labels

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of fine-tuning; those of the private run are shared by all methods."""
        tuning = self.problem.tuning
        return sum(tuning.epochs_for(count) * count * (1 + bool(tuning.recall)) for count in self.labels)

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """A row for the checkpoint, and one a number of labels."""
        from discreet.bench.public_runs import checkpoints_of, rows_of
        from discreet.bench.public_scenes import scene_of

        problem, scene = self.problem, scene_of(self.problem, data, self.seed)
        points = checkpoints_of(problem, scene, self.seed, None if plans is None else _shelf(plans))
        return rows_of(self.method, scene, points, problem.run, problem.tuning, self.labels, self.seed)

    def __str__(self) -> str:
        return f"{self.problem.name}, {self.method.name}, seed {self.seed}"


def _shelf(plans: Path) -> Path:
    """Beside the plans of all experiments: they start from the same private runs."""
    return plans.parent / "public-runs"
