"""Active questions and a sparse vector: do they pay for the same points, and do they combine? The paper leaves it open.

A sparse vector pays for unstable questions, where teachers nearly tie. An active student pays for questions where
models that fit the answers still disagree. Both are near the boundary, so the questions that an active student asks
could be just those that a sparse vector must pay for. Measured, on one set of votes, at equal (epsilon, delta):

    overlap     the share of questions below a sparse vector's threshold, among all public records and among those
                that each student asks
    unstable    the share of unstable answers among what each student asks
    accuracy    of each student with each aggregator, for caps fixed beforehand

Everything is a simulation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.bench.intervals import mean_interval
from discreet.bench.results import Row, values_in
from discreet.bench.tables import Table, percent
from discreet.bench.teacher_cases import TeacherCase, TeacherProblem, asked_of, priced, votes_of
from discreet.bench.teacher_sets import TeacherSet, teacher_set
from discreet.bench.teacher_tables import TUNING_SEED, chosen_cap
from discreet.errors import InfeasiblePlan
from discreet.oracles.teachers import distances
from discreet.records import Votes


@dataclass(frozen=True, kw_only=True)
class OverlapMethod:
    """Epsilons; caps of a noisy maximum; of a sparse vector, pairs (cap, T)."""

    name: str
    epsilons: tuple[str, ...]
    caps: tuple[int, ...]
    sparse: tuple[tuple[int, int], ...]
    students: tuple[str, ...] = ("passive", "margin", "disagreement")

    def settings(self) -> dict[str, Any]:
        """All that distinguishes it from another."""
        return {name: getattr(self, name) for name in ("name", "epsilons", "caps", "sparse", "students")}


@dataclass(frozen=True, kw_only=True)
class OverlapCase(TeacherCase):
    """A cell: one set of votes, every student with both aggregators."""

    method: OverlapMethod  # type: ignore[assignment]

    @property
    def digest(self) -> str:
        """Names the case."""
        told = {"overlap": self.problem.settings(), "method": self.method.settings(), "seed": self.seed}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Records that are learnt from."""
        return 180_000 + 20 * sum(self.method.caps)

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """Rows of every price and student."""
        whole, votes = teacher_set(self.problem.data, data, self.seed), votes_of(self.problem, data, self.seed)
        common = {"made_of": whole.made_of, "teachers": self.problem.teachers}
        return [row | common for row in self._rows(whole, votes)]

    def _rows(self, whole: TeacherSet, votes: Votes) -> Iterator[dict[str, Any]]:
        majority, away = votes.counts.argmax(axis=1), distances(votes.counts)
        wanted = [("gaussian", cap, 0) for cap in self.method.caps]
        wanted += [("sparse", cap, allowed) for cap, allowed in self.method.sparse]
        for epsilon in self.method.epsilons:
            for aggregator, cap, allowed in wanted:
                about = {"aggregator": aggregator, "epsilon": float(epsilon), "cap": cap, "unstable": allowed or None}
                try:
                    price = priced(aggregator, epsilon, self.problem.teachers, len(whole.classes), cap, max(allowed, 1))
                except InfeasiblePlan as refused:
                    yield about | {"student": "refused", "needed": int(refused.nearest["teachers"])}
                    continue
                threshold = getattr(price, "threshold", None)
                for student in self.method.students:
                    row = asked_of(whole, votes, price, student, self.seed, majority)
                    places = np.array(json.loads(row["asked_places"]), dtype=np.int64)
                    near = None if threshold is None else away <= threshold
                    row |= {
                        "unstable_asked": row["asked"] - row["answered"],
                        "near": None if near is None else float(near.mean()),
                        "near_asked": None if near is None or not len(places) else float(near[places].mean()),
                        "near_covered": None if near is None or not near.any() else _covered(near, places),
                    }
                    yield about | row


def _covered(near: Any, places: Any) -> float:
    """Of the questions whose distance is below the threshold, the share that was asked."""
    return float(np.isin(np.flatnonzero(near), places).mean())


PROBLEMS = (TeacherProblem(name="normal, K=3000", data="normal", teachers=3000, answers=(), unstable=()),)
METHODS = (
    OverlapMethod(
        name="both",
        epsilons=("1", "2", "4"),
        caps=(100, 300, 1000),
        sparse=((300, 5), (300, 20), (300, 60), (2000, 5), (2000, 20), (2000, 60)),
    ),
)


def overlap_tables(rows: Sequence[Row]) -> list[Table]:
    """Accuracy at equal budgets, then who pays for what."""
    shown = [row for row in rows if row["student"] != "refused"]
    return [_accuracies(rows), _paid(shown)] if shown else []


def _accuracies(rows: Sequence[Row]) -> Table:
    lines, epsilons = [], sorted({row["epsilon"] for row in rows})
    for problem in values_in(rows, "problem"):
        for aggregator in ("gaussian", "sparse"):
            of = [row for row in rows if row["problem"] == problem and row["aggregator"] == aggregator]
            for student in [name for name in values_in(of, "student") if name != "refused"]:
                cells = [_best([row for row in of if row["epsilon"] == epsilon], student) for epsilon in epsilons]
                lines.append((problem, aggregator, student, *cells))
    return Table(
        title="Student accuracy at equal (epsilon, 1e-6)",
        columns=("votes", "aggregator", "student", *(f"eps {epsilon:g}" for epsilon in epsilons)),
        rows=tuple(lines),
        note="In percent, with 95% intervals over seeds; in brackets the cap on questions, T, and how many were "
        "answered. Caps and T are those that were best with seed 0, which is not in the means.",
    )


def _best(rows: Sequence[Row], student: str) -> str:
    by_cap: dict[Any, list[Row]] = {}
    for row in [row for row in rows if row["student"] == student]:
        by_cap.setdefault((row["cap"], row["unstable"]), []).append(row)
    cap = chosen_cap(by_cap)
    if cap is None:
        return "refused"
    mine = [row for row in by_cap[cap] if row["seed"] != TUNING_SEED]
    told = f"{cap[0]}" if cap[1] is None else f"{cap[0]}, T {cap[1]}"
    answered = float(np.mean([row["answered"] for row in mine]))
    return f"{percent(mean_interval([row['accuracy'] for row in mine]))} [{told}; {answered:.0f}]"


def _paid(rows: Sequence[Row]) -> Table:
    """Means over seeds of what a sparse vector must pay for, by who asks."""
    found: dict[tuple[str, float, int, int, str], list[Row]] = {}
    for row in rows:
        if row["aggregator"] == "sparse" and row["seed"] != TUNING_SEED:
            key = (row["problem"], row["epsilon"], row["cap"], row["unstable"], row["student"])
            found.setdefault(key, []).append(row)
    lines = []
    for key, mine in found.items():
        means = [float(np.mean([row[name] or 0.0 for row in mine])) for name in _FIGURES]
        asked = means[0]
        lines.append(
            (
                key[0],
                f"{key[1]:g}",
                str(key[2]),
                str(key[3]),
                key[4],
                f"{asked:.0f}",
                f"{means[1]:.1f}",
                f"{means[1] / asked:.1%}" if asked else "-",
                f"{means[2]:.1%}",
                f"{means[3]:.1%}",
                f"{means[4]:.1%}",
            )
        )
    return Table(
        title="Who pays for what: questions below a sparse vector's threshold",
        columns=("votes", "eps", "cap", "T", "student", "asked", "unstable", "share", "below w", "of asked", "covered"),
        rows=tuple(lines),
        note="Asked: until the cap, or until T were unstable. Share: of the asked that were unstable. Below w: the "
        "share of all public records whose distance to instability is below the threshold; of asked: the same among "
        "what the student asked; covered: of those records, the share that it asked. Means over seeds.",
    )


_FIGURES = ("asked", "unstable_asked", "near", "near_asked", "near_covered")
