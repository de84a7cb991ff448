"""What an experiment takes: gradients, known before anything runs, and CPU seconds, known after.

A case that has not run is expected to take as long as the finished ones of its problem and method; where there are
none, as long a gradient as those of its problem; and where none of the problem has run, nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.bench.cases import GridCase
from discreet.bench.results import Store
from discreet.bench.tables import Table


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of the cases of one method on one problem; ``seconds``: of one of them, measured or expected, or None."""

    problem: str
    method: str
    cases: int
    done: int
    gradients: int
    seconds: float | None
    measured: bool

    @property
    def left(self) -> float | None:
        """CPU seconds of the cases that have not run."""
        return None if self.seconds is None else self.seconds * (self.cases - self.done)


def costs_of(store: Store, cases: Sequence[GridCase], data: Path | None) -> list[Cost]:
    """Makes plans that are not on the shelf yet; runs nothing."""
    taken = {row["case"]: row.get("cpu_seconds") for row in store.rows(cases)}
    groups: dict[tuple[str, str], list[GridCase]] = {}
    for case in cases:
        groups.setdefault((case.problem.name, case.method.name), []).append(case)
    gradients = {key: mine[0].gradients(data, store.plans) for key, mine in groups.items()}
    measured = {
        key: [seconds for case in mine if (seconds := taken.get(case.digest)) is not None]
        for key, mine in groups.items()
    }
    found = []
    for key, mine in groups.items():
        seconds = float(np.mean(measured[key])) if measured[key] else _expected(key, gradients, measured)
        found.append(
            Cost(
                problem=key[0],
                method=key[1],
                cases=len(mine),
                done=sum(case.digest in taken for case in mine),
                gradients=gradients[key],
                seconds=seconds,
                measured=bool(measured[key]),
            )
        )
    return found


def _expected(
    key: tuple[str, str], gradients: dict[tuple[str, str], int], measured: dict[tuple[str, str], list[float]]
) -> float | None:
    others = [other for other in gradients if other[0] == key[0] and measured[other]]
    if not others:
        return None
    a_gradient = np.mean([np.mean(measured[other]) / gradients[other] for other in others])
    return float(a_gradient * gradients[key])


def cost_table(name: str, costs: Sequence[Cost]) -> Table:
    """A row a method of a problem, and all of it."""
    lines = [
        (
            cost.problem,
            cost.method,
            f"{cost.done} of {cost.cases}",
            f"{cost.gradients:,}",
            "?" if cost.seconds is None else f"{'' if cost.measured else 'about '}{cost.seconds:,.0f}",
        )
        for cost in costs
    ]
    total = total_of(costs)
    left = "?" if total["seconds_left"] is None else f"{total['seconds_left'] / 3600:.1f} hours left"
    lines.append(("all", "", f"{total['done']} of {total['cases']}", f"{total['gradients']:,}", left))
    return Table(
        title=f"{name}: what it takes",
        columns=("problem", "method", "cases done", "gradients a case", "CPU seconds a case"),
        rows=tuple(lines),
        note="Gradients are expected ones, by the plan; in the last line those of all cases. Hours are of one core; "
        "problems of which nothing has run are not in them.",
    )


def total_of(costs: Sequence[Cost]) -> dict[str, Any]:
    """Over everything."""
    left = [cost.left for cost in costs if cost.left is not None]
    return {
        "cases": sum(cost.cases for cost in costs),
        "done": sum(cost.done for cost in costs),
        "gradients": sum(cost.gradients * cost.cases for cost in costs),
        "seconds_left": sum(left) if left else None,
    }
