"""Parts of an experiment: some problems, some methods, some seeds, so that its results can land in parts.

What an experiment takes: gradients, known before anything runs, and CPU seconds, known after.

A case that has not run is expected to take as long as the finished ones of its problem and method; where there are
none, as long a gradient as those of its problem; and where none of the problem has run, what the case itself expects,
if it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.simulation.results import Store, Table
from discreet_research.bench.cases import GridCase
from discreet_research.bench.experiments import EXPERIMENTS, Experiment

MOST_SEEDS = 10_000


def part_of(
    experiment: Experiment, *, problems: Sequence[str] = (), methods: Sequence[str] = (), seeds: str | None = None
) -> list[GridCase]:
    """Its cases whose problem's and method's names hold one of the given texts; all, where none is given."""
    cases = experiment.cases(None if seeds is None else seeds_named(seeds))
    for kind, texts in (("problem", problems), ("method", methods)):
        names = list(dict.fromkeys(getattr(case, kind).name for case in cases))
        wanted: set[str] = set()
        for text in texts:
            matching = {name for name in names if text.casefold() in name.casefold()}
            if not matching:
                raise BadInput(
                    f"the {kind} {text} of {experiment.name}",
                    "none has a name like that",
                    f"Choose of: {'; '.join(names)}",
                )
            wanted |= {text} if text in matching else matching
        cases = [case for case in cases if not wanted or getattr(case, kind).name in wanted]
    return cases


def sharing(experiment: Experiment) -> list[str]:
    """Experiments that have cases in common with it."""
    own_cases = {case.digest for case in experiment.cases([0])}
    return [
        name
        for name, other in EXPERIMENTS.items()
        if name != experiment.name and own_cases & {case.digest for case in other.cases([0])}
    ]


def seeds_named(text: str) -> tuple[int, ...]:
    """``5``: the first five; ``3-4``: these; ``0,2-4``: these; ``3,``: that one."""
    parts = [part for part in text.replace(" ", "").split(",") if part]
    try:
        if "," not in text and "-" not in text:
            seeds = list(range(_whole(text)))
        else:
            seeds = [seed for part in parts for seed in _range(part)]
    except ValueError:
        seeds = []
    if not seeds or max(seeds) >= MOST_SEEDS:
        raise BadInput(
            f"--seeds {text}", f"it names no seeds below {MOST_SEEDS}", "Give a count, such as 5, or which: 3-4, or 0,2"
        )
    return tuple(dict.fromkeys(seeds))


def _range(part: str) -> range:
    first, dash, last = part.partition("-")
    low = _whole(first)
    return range(low, (_whole(last) if dash else low) + 1)


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 5:  # no signs, and nothing that would not fit into memory
        raise ValueError
    return int(text)


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
    """Makes plans that are not on the cache yet; runs nothing."""
    taken = {row["case"]: row.get("cpu_seconds") for row in store.rows(cases)}
    groups: dict[tuple[str, str], list[GridCase]] = {}
    for case in cases:
        groups.setdefault((case.problem.name, case.method.name), []).append(case)
    gradients = {key: group[0].gradients(data, store.plans) for key, group in groups.items()}
    measured = {
        key: [seconds for case in group if (seconds := taken.get(case.digest)) is not None]
        for key, group in groups.items()
    }
    costs = []
    for key, group in groups.items():
        seconds = float(np.mean(measured[key])) if measured[key] else _expected(key, gradients, measured)
        if seconds is None:
            seconds = group[0].expected_seconds(gradients[key])
        costs.append(
            Cost(
                problem=key[0],
                method=key[1],
                cases=len(group),
                done=sum(case.digest in taken for case in group),
                gradients=gradients[key],
                seconds=seconds,
                measured=bool(measured[key]),
            )
        )
    return costs


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
        "a case of which nothing is known is not in them.",
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
