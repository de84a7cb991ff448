"""What peers showed: the loop without privacy twice, what privacy costs, and one campaign by two trainers.

Differences are paired over seeds: the same pool, first labels, query sizes and test set.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from discreet.simulation.points import mean_interval
from discreet.simulation.results import Row, Table, percent
from discreet_research.bench.rows import BySeed, by_seed, difference, grouped, values_in

Final = dict[int, Row]
"""The row of the last phase, by seed."""
_BEST = "margin"
"""The strategy that campaigns use, too."""


def peer_tables(rows: Sequence[Row]) -> list[Table]:
    """Three tables a problem."""
    tables = []
    for problem, of_problem in grouped(rows, "problem").items():
        tables += [_loops(problem, of_problem), _prices(problem, of_problem), _trainers(problem, of_problem)]
    return [table for table in tables if table.rows]


def _loops(problem: str, rows: Sequence[Row]) -> Table:
    theirs, ours = _by_strategy(rows, "scikit-activeml"), _by_strategy(rows, "discreet")
    lines = []
    for strategy, finals in theirs.items():
        other = ours.get(strategy, {})
        same = _asked_in_common(rows, strategy) if other and strategy != "random" else None
        lines.append(
            (
                strategy,
                _accuracy(finals),
                _accuracy(other) if other else "-",
                _difference(other, finals) if other else "-",
                "-" if same is None else f"{100 * same:.1f}",
            )
        )
    return Table(
        title=f"{problem}: active learning without privacy, played twice",
        columns=("strategy", "scikit-activeml, %", "discreet, %", "difference, points", "asked by both, %"),
        rows=tuple(lines),
        note=f"{_seeds(rows)} The classifier of both is the same logistic regression. Random asking draws other "
        "records on each side. A dash: we have no such score.",
    )


def _prices(problem: str, rows: Sequence[Row]) -> Table:
    best = _by_strategy(rows, "discreet").get(_BEST, {})
    lines = []
    for (loop, strategy), finals in _by_loop(rows).items():
        if (loop, strategy) in (("discreet", "random"), ("discreet", _BEST)) or loop == "DP-SGD":
            epsilon = next(iter(finals.values())).get("claimed_epsilon")
            private = "-" if epsilon is None else f"{epsilon:.2f}"
            training = "logistic regression" if epsilon is None else "DP-SGD"
            asked = np.mean([_labels_of(rows, loop, strategy, seed) for seed in finals])
            lines.append((strategy, training, private, f"{asked:.0f}", _accuracy(finals), _difference(finals, best)))
    return Table(
        title=f"{problem}: what privacy costs",
        columns=(
            "asked by",
            "trained by",
            "epsilon",
            "labels asked",
            "accuracy, %",
            f"to {_BEST} without privacy, points",
        ),
        rows=tuple(lines),
        note=f"{_seeds(rows)} Epsilon is that of the whole campaign; of `exact` it is that of training alone, for its "
        "choices are not private.",
    )


def _trainers(problem: str, rows: Sequence[Row]) -> Table:
    by_loop = _by_loop(rows)
    lines = []
    for (loop, strategy), theirs in by_loop.items():
        ours = by_loop.get(("DP-SGD", strategy), {})
        if loop != "Opacus" or not ours:
            continue
        steps = [_step_time(rows, name, strategy) for name in ("DP-SGD", "Opacus")]
        times = (f"{1000 * steps[0]:.1f}", f"{1000 * steps[1]:.1f}")
        lines.append((strategy, _accuracy(ours), _accuracy(theirs), _difference(theirs, ours), *times))
    return Table(
        title=f"{problem}: one campaign, two trainers",
        columns=("asked by", "DP-SGD, %", "Opacus, %", "difference, points", "DP-SGD, ms a step", "Opacus, ms a step"),
        rows=tuple(lines),
        note=f"{_seeds(rows)} Random asking asks the same records on both sides; elsewhere each asks by its own model. "
        "CPU time of one thread between two steps: sampling, gradients, noise, optimizer; the median of a phase, and "
        "of phases and seeds.",
    )


def _by_loop(rows: Sequence[Row]) -> dict[tuple[str, str], Final]:
    last = max(row["phase"] for row in rows)
    groups = grouped([row for row in rows if row["phase"] == last], "loop", "strategy")
    return {key: {row["seed"]: row for row in of} for key, of in groups.items()}


def _by_strategy(rows: Sequence[Row], loop: str) -> dict[str, Final]:
    return {strategy: finals for (name, strategy), finals in _by_loop(rows).items() if name == loop}


def _accuracies(final: Final) -> BySeed:
    return by_seed(final.values(), "test_accuracy")


def _accuracy(final: Final) -> str:
    return percent(mean_interval(list(_accuracies(final).values())))


def _difference(final: Final, other: Final) -> str:
    if all(final[seed]["case"] == other[seed]["case"] for seed in set(final) & set(other)):
        return "-"
    return percent(difference(_accuracies(final), _accuracies(other), least=1))


def _asked_in_common(rows: Sequence[Row], strategy: str) -> float:
    """The share of all asked records that both loops asked, over queries and seeds."""
    asked: dict[tuple[str, int], set[int]] = {}
    for row in rows:
        if row["strategy"] == strategy and row.get("asked_places"):
            asked.setdefault((row["loop"], row["seed"]), set()).update(json.loads(row["asked_places"]))
    shares = [
        len(by_us & asked["scikit-activeml", seed]) / len(by_us)
        for (loop, seed), by_us in asked.items()
        if loop == "discreet" and ("scikit-activeml", seed) in asked
    ]
    return float(np.mean(shares))


def _labels_of(rows: Sequence[Row], loop: str, strategy: str, seed: int) -> int:
    matching = (row for row in rows if (row["loop"], row["strategy"], row["seed"]) == (loop, strategy, seed))
    return sum(row.get("asked") or 0 for row in matching)


def _step_time(rows: Sequence[Row], loop: str, strategy: str) -> float:
    seconds = [row["step_seconds"] for row in rows if (row["loop"], row["strategy"]) == (loop, strategy)]
    return float(np.median(seconds))


def _seeds(rows: Sequence[Row]) -> str:
    return f"Accuracy after the last query: means over {len(values_in(rows, 'seed'))} seeds with 95% intervals."
