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
        from discreet.bench.public_runs import checkpoints_of, scene_of

        checkpoints_of(self.problem, scene_of(self.problem, data, self.seed), self.seed, plans)

    @property
    def labels(self) -> tuple[int, ...]:
        """How many are asked, each time anew."""
        return self.problem.labels if self.method.labels is None else self.method.labels

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of fine-tuning; those of the private run are shared by all methods."""
        return self.problem.tuning.epochs * sum(self.labels)

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """A row for the checkpoint, and one a number of labels."""
        from discreet.bench.public_runs import (
            CLASSES,
            accuracy,
            checkpoints_of,
            chosen,
            scene_of,
            start_of,
            total,
            tuned,
        )
        from discreet.models import build_model
        from discreet.recipes.learning import from_bytes
        from discreet.trainers.torch_predictor import TorchPredictor

        scene = scene_of(self.problem, data, self.seed)
        points = checkpoints_of(self.problem, scene, self.seed, plans)
        epochs, looks = start_of(self.method, points, self.problem.run)
        shape = tuple(scene.public_x.shape[1:])
        start = from_bytes(
            points.weights[epochs], build_model(self.problem.run.model, inputs=shape, classes=CLASSES, seed=self.seed)
        )
        model = TorchPredictor(start)
        before = accuracy(model, scene)
        common = {
            "epochs": epochs,
            "checkpoint": before,
            "checkpoint_epsilon": total(points, epochs, (), self.problem.run.delta),
            "epsilon": total(points, epochs, looks, self.problem.run.delta),
            "made_of": scene.made_of,
        }
        rows: list[dict[str, Any]] = [{"labels": 0, "accuracy": before, "polluted": None} | common]
        for count in self.labels:
            places = chosen(self.method, scene, model, count, looks, self.seed)
            made = tuned(start, scene, places, self.problem.tuning, self.seed)
            share = float(scene.polluted[places].mean()) if scene.polluted.any() else None
            rows.append({"labels": count, "accuracy": accuracy(made, scene), "polluted": share} | common)
        return rows

    def __str__(self) -> str:
        return f"{self.problem.name}, {self.method.name}, seed {self.seed}"
