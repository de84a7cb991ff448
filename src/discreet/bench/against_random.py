"""Accuracies beside random asking: paired over seeds, with intervals, and said plainly where nothing is gained.

Every method of a problem is compared with two baselines that choose at random: DP-SGD on as many records labelled at
once, and active learning that asks at random. A method *beats random* where the paired difference to both is above 0
with its whole 95% interval. Intervals are each for itself: of forty rows two may seem better or worse by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from discreet.bench.intervals import Interval, mean_interval
from discreet.bench.paper_problems import AUTHORS, EXACT, HIDDEN, NAIVE, PASSIVE, RANDOM_AL
from discreet.bench.results import Row, values_in
from discreet.bench.tables import Table, percent

Finals = dict[str, dict[int, float]]
"""Accuracy after the last phase, by method and seed."""
MARKS = {"yes": "+", "not shown": "=", "worse": "-"}


def finals_of(rows: Sequence[Row], problem: str) -> Finals:
    """Of the last phase that a case has."""
    last: dict[tuple[str, int], tuple[int, float]] = {}
    for row in rows:
        if row["problem"] == problem and row.get("test_accuracy") is not None:
            key, found = (row["method"], row["seed"]), (row["phase"], row["test_accuracy"])
            last[key] = max(last.get(key, found), found)
    finals: Finals = {}
    for (method, seed), (_, accuracy) in last.items():
        finals.setdefault(method, {})[seed] = accuracy
    return finals


def difference(finals: Finals, method: str, baseline: str) -> Interval | None:
    """Method less baseline, over the seeds that both have."""
    mine, other = finals.get(method, {}), finals.get(baseline, {})
    seeds = sorted(set(mine) & set(other))
    return mean_interval([mine[seed] - other[seed] for seed in seeds]) if seeds else None


def beats_random(finals: Finals, method: str) -> str:
    """`yes`, `worse` (surely below one of the two), or `not shown`."""
    found = [difference(finals, method, baseline) for baseline in (RANDOM_AL, PASSIVE)]
    if any(one is not None and one.high < 0 for one in found):
        return "worse"
    return "yes" if all(one is not None and one.low > 0 for one in found) else "not shown"


def release_of(method: str) -> str:
    """What of the asked set may be seen, as a word for a table."""
    if method in (PASSIVE, NAIVE, RANDOM_AL):
        return "free"
    if EXACT in method:
        return "none"
    if AUTHORS in method:
        return "not certified"
    return "hidden" if HIDDEN in method else "private"


def problem_table(rows: Sequence[Row], problem: str) -> Table:
    """A method a row, random beside it."""
    finals = finals_of(rows, problem)
    lines = []
    for method, by_seed in finals.items():
        told = [percent(mean_interval(list(by_seed.values())), 2), _beside(finals, method)]
        told += [_points(difference(finals, method, baseline)) for baseline in (RANDOM_AL, PASSIVE)]
        verdict = "" if release_of(method) == "free" else beats_random(finals, method)
        lines.append((method, release_of(method), str(len(by_seed)), *told, verdict))
    return Table(
        title=problem,
        columns=(
            "method",
            "selection",
            "seeds",
            "accuracy, %",
            RANDOM_AL,
            "less random AL",
            "less DP-SGD",
            "beats random",
        ),
        rows=tuple(lines),
        note=NOTE,
    )


NOTE = (
    "Means with 95% intervals by Student's t. Differences are in points, paired over seeds. `selection`: *private* "
    "pays for a release of the asked set; *hidden* keeps it with owner and annotators, which is another promise; "
    "*none* is not private and only shows what there is to gain. `beats random`: *yes* where both differences are "
    "above 0 with their whole interval, *worse* where one is below 0 with its whole interval, otherwise *not shown*."
)


def summary_table(rows: Sequence[Row], title: str) -> Table:
    """The paper's form: a method a row, a problem a column."""
    problems = values_in(rows, "problem")
    finals = {problem: finals_of(rows, problem) for problem in problems}
    methods = list(dict.fromkeys(method for problem in problems for method in finals[problem]))
    lines = [
        (method, release_of(method), *(_cell(finals[problem], method) for problem in problems)) for method in methods
    ]
    return Table(
        title=title,
        columns=("method", "selection", *problems),
        rows=tuple(lines),
        note="Accuracy in %, mean and half of its 95% interval. Behind it, paired over seeds against both ways of "
        "random asking: + beats them, - is worse than one of them, = neither is shown.",
    )


def _cell(finals: Finals, method: str) -> str:
    if method not in finals:
        return "-"
    found = mean_interval(list(finals[method].values()))
    text = f"{100 * found.value:.2f}"
    if math.isfinite(found.high):
        text += f" ± {100 * (found.high - found.value):.2f}"
    return text if release_of(method) == "free" else f"{text} {MARKS[beats_random(finals, method)]}"


def _beside(finals: Finals, method: str) -> str:
    """Random AL over the same seeds."""
    seeds = sorted(set(finals[method]) & set(finals.get(RANDOM_AL, {})))
    if not seeds:
        return "-"
    return f"{100 * mean_interval([finals[RANDOM_AL][seed] for seed in seeds]).value:.2f}"


def _points(found: Interval | None) -> str:
    if found is None:
        return "-"
    if not math.isfinite(found.high):
        return f"{100 * found.value:+.2f}"
    return f"{100 * found.value:+.2f} ({100 * found.low:+.2f} to {100 * found.high:+.2f})"
