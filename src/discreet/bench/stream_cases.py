"""One method on one stream in one order: a case of the bench. Its plan is what it was tuned to on the public part."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.bench.stream_methods import StreamMethod, StreamProblem
from discreet.bench.stream_paid import paid_part
from discreet.bench.stream_runs import Part, Run, axis, batch_error, learned, svm_error
from discreet.bench.stream_sets import StreamSet, stream_set
from discreet.bench.stream_tuning import Tuned, tuned, tuned_columns, tuned_name
from discreet.privacy.ledger import Ledger

FIRST_ARRIVALS = 1_000
"""Labels are counted over so many arrivals (the paper's Fig. 5a)."""


@dataclass(frozen=True, kw_only=True)
class StreamCase:
    """A cell of the grid."""

    problem: StreamProblem
    method: StreamMethod
    seed: int

    @property
    def digest(self) -> str:
        """Names the case: another setting anywhere is another case, and its old results are left aside."""
        told = {"stream": self.problem.settings(), "method": self.method.settings(), "seed": self.seed}
        whole = json.dumps([told, tuned_name(self.problem, self.method)], sort_keys=True)
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    def names(self) -> dict[str, Any]:
        """Of the problem and the method, the seed, and what is promised."""
        method = self.method
        return {
            "problem": self.problem.name,
            "method": method.name,
            "seed": self.seed,
            "private": method.private,
            "epsilon": method.total if method.private else None,
            "delta": method.delta if method.private else None,
            "relation": method.relation if method.private else None,
            "zero_out_epsilon": float(method.zero_out()) if method.private else None,
        }

    def plan_name(self) -> str | None:
        """By what it is tuned for."""
        return tuned_name(self.problem, self.method)

    def make_plan(self, data: Path | None, plans: Path) -> None:
        """Tune it, once."""
        tuned(self.problem, self.method, self._set(data), plans)

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of single records, in one case: as many as labels."""
        return self.problem.labels

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """A row a point of an axis."""
        whole = self._set(data)
        found = tuned(self.problem, self.method, whole, plans)
        common = tuned_columns(found) | {"made_of": whole.made_of}
        if self.problem.paid:
            part, ledger = paid_part(self.problem, self.method, whole, self.seed)
            return [row | common for row in self._rows(part, found, ledger)]
        x, y = whole.stream(self.seed, self.problem.arrivals)
        part = Part(x=x, y=y, test_x=whole.test_x, test_y=whole.test_y)
        return [row | common for row in self._rows(part, found)]

    def _set(self, data: Path | None) -> StreamSet:
        problem = self.problem
        return stream_set(problem.data, data, public=problem.public, components=problem.components)

    def _rows(self, part: Part, found: Tuned, ledger: Ledger | None = None) -> list[dict[str, Any]]:
        if self.method.kind == "not private":
            return [_row("all", len(part.y), svm_error(part, found.regularization[0]))]
        if self.method.kind == "one batch":
            return [
                _row("labels", mark, batch_error(self.method, part, mark, regularization=strength, seed=self.seed))
                for mark, strength in zip(self.problem.marks, found.regularization, strict=True)
            ]
        run = learned(
            self.problem,
            self.method,
            part,
            step=found.step,
            regularization=found.regularization[0],
            seed=self.seed,
            ledger=ledger,
        )
        return [*_by_labels(self.problem, run), *_by_updates(self.problem, run), *_by_arrivals(run)]

    def __str__(self) -> str:
        return f"{self.problem.name}, {self.method.name}, seed {self.seed}"


def _row(along: str, at: float, error: float | None, asked: float | None = None) -> dict[str, Any]:
    return {"axis": along, "at": float(at), "error": error, "asked": asked}


def _by_labels(problem: StreamProblem, run: Run) -> list[dict[str, Any]]:
    points = np.unique(np.concatenate([axis(problem.labels), problem.marks]))
    return [_row("labels", at, _or_none(error)) for at, error in zip(points, run.error_at_labels(points), strict=True)]


def _by_updates(problem: StreamProblem, run: Run) -> list[dict[str, Any]]:
    points = axis(problem.updates)
    return [
        _row("updates", at, _or_none(error)) for at, error in zip(points, run.error_at_updates(points), strict=True)
    ]


def _by_arrivals(run: Run) -> list[dict[str, Any]]:
    """How many were asked of the first thousand."""
    points = axis(FIRST_ARRIVALS).astype(np.int64)
    counts = run.asked_by_arrival
    return [_row("arrivals", at, None, float(counts[at - 1])) for at in points.tolist() if at <= len(counts)]


def _or_none(error: float) -> float | None:
    return None if np.isnan(error) else float(error)
