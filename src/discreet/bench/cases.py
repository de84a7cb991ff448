"""One run of one method on one problem with one seed, named by everything that its result depends on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from discreet.bench.methods import Method
from discreet.bench.problems import Problem


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

    def __str__(self) -> str:
        return f"{self.problem.name}, {self.method.name}, seed {self.seed}"
