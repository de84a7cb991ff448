"""How a budget is shared between the private training and a look at private records (the Public paper's Figure 5).

Of one DP-SGD run every checkpoint could be where NearPrivate starts: an early one leaves more for its counts, a late
one needs fewer labels. Which is best is found by simulation on public, labelled records alone: they are cut into
records that play the private ones, the public ones and a test, once a seed, and the whole way is gone from every
checkpoint at the same total epsilon. Nothing private is read, so the answer costs nothing.

What it cannot know: how unlike the private records the public ones are, and, where fewer records play the private ones
than there are, how good the real run becomes: noise weighs more on a smaller batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.bench.intervals import Interval, mean_interval
from discreet.bench.public_problems import PrivateRun, PublicMethod, Tuning
from discreet.bench.public_runs import rows_of, step_of, trained
from discreet.bench.public_scenes import Scene
from discreet.bench.stream_tables import answer, difference
from discreet.bench.tables import Table, percent
from discreet.errors import BadInput

FREE = "diverse-public"
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Allotment:
    """One way of spending the budget, for so many labels.

    ``support_epsilon``: of the counts; None: nothing is paid for looking, and the last checkpoint is taken.
    """

    labels: int
    epochs: int
    checkpoint_epsilon: float
    support_epsilon: float | None
    accuracy: Interval
    by_seed: dict[int, float]


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """All ways that were tried, and the one to take for each number of labels. Audience: world."""

    run: PrivateRun
    ways: tuple[Allotment, ...]

    def best(self, labels: int) -> Allotment:
        """Paying for a look only where it is shown to be better than not paying."""
        mine = [one for one in self.ways if one.labels == labels]
        if not mine:
            raise BadInput(f"{labels} labels", "they were not tried", "Allocate for them")
        free = next(one for one in mine if one.support_epsilon is None)
        paid = max((one for one in mine if one is not free), key=lambda one: one.accuracy.value, default=free)
        return paid if answer(difference(paid.by_seed, free.by_seed)) == "yes" else free

    def table(self) -> Table:
        """Every way, and which to take."""
        lines = []
        for one in self.ways:
            look = "-" if one.support_epsilon is None else f"{one.support_epsilon:.2f}"
            mark = "take it" if self.best(one.labels) is one else ""
            shown = (f"{one.labels}", f"{one.epochs}", f"{one.checkpoint_epsilon:.2f}", look, percent(one.accuracy))
            lines.append((*shown, mark))
        return Table(
            title=f"Checkpoints and counts at epsilon {self.run.epsilon:g}",
            columns=("labels", "epochs", "epsilon of the checkpoint", "of the counts", "accuracy", ""),
            rows=tuple(lines),
            note="Simulated on public records. Without counts: DiversePublic from the last checkpoint, which is free.",
        )


def allocate(
    x: Any,
    y: Any,
    *,
    run: PrivateRun,
    labels: Sequence[int],
    private: int,
    noise: float = 20.0,
    starts: Sequence[int] | None = None,
    test: float = 0.25,
    private_share: float = 0.5,
    tuning: Tuning | None = None,
    seeds: int = 5,
    progress: Progress | None = None,
) -> Allocation:
    """Try every checkpoint of ``run`` on public pictures ``x`` (n, C, H, W) with classes ``y``.

    private         how many private records there really are: their sampling rate is kept
    noise           noise multiplier of the components
    starts          epochs of checkpoints to try; all that are kept
    private_share   of the records that are left beside the test, so many play the private ones
    """
    rows, classes = np.asarray(x, dtype=np.float32), np.asarray(y, dtype=np.int64)
    if len(rows) != len(classes) or not (0 < test < 1 and 0 < private_share < 1) or seeds < 2:
        raise BadInput("allocating", "records, classes, shares or seeds do not fit", "Give one class a record")
    kept = range(run.every, run.epochs + 1, run.every)
    tried = tuple(kept if starts is None else starts)
    if not set(tried) <= set(kept):
        raise BadInput("allocating from these checkpoints", "the run does not keep them", f"Keep every {run.every}th")
    way = PublicMethod(name="near-private", choice="near-private", support="fill", noise=noise)
    found: list[dict[str, Any]] = []
    for seed in range(seeds):
        scene = _cut(rows, classes, seed, test, private_share)
        small = replace(run, batch=max(1, round(run.batch * len(scene.private_y) / private)))
        points = trained(small, scene, seed)
        methods = [PublicMethod(name=FREE, choice="diverse-public"), *(replace(way, start=one) for one in tried)]
        for number, method in enumerate(methods):
            try:
                mine = rows_of(method, scene, points, small, tuning or Tuning(), tuple(labels), seed)
            except BadInput:
                if method.name == FREE:
                    raise
                mine = []  # this checkpoint leaves nothing for counts
            found += [row | {"seed": seed} for row in mine if row["labels"]]
            if progress is not None:
                progress(seed * len(methods) + number + 1, seeds * len(methods))
    return Allocation(run=run, ways=tuple(_ways(found)))


def _cut(rows: Any, classes: Any, seed: int, test: float, share: float) -> Scene:
    order = np.random.default_rng(seed).permutation(len(classes))
    first = round(test * len(order))
    second = first + round(share * (len(order) - first))
    tests, own, public = order[:first], order[first:second], order[second:]
    return Scene(
        private_x=rows[own],
        private_y=classes[own],
        public_x=rows[public],
        public_y=classes[public],
        polluted=np.zeros(len(public), dtype=bool),
        test_x=rows[tests],
        test_y=classes[tests],
        classes=int(classes.max()) + 1,
    )


def _ways(rows: Sequence[dict[str, Any]]) -> list[Allotment]:
    groups: dict[tuple[int, int, bool], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["labels"], row["epochs"], row["support_epsilon"] is None), []).append(row)
    return [
        Allotment(
            labels=labels,
            epochs=epochs,
            checkpoint_epsilon=max(row["checkpoint_epsilon"] for row in mine),
            support_epsilon=None if free else min(row["support_epsilon"] for row in mine),
            accuracy=mean_interval([row["accuracy"] for row in mine]),
            by_seed={row["seed"]: row["accuracy"] for row in mine},
        )
        for (labels, epochs, free), mine in sorted(groups.items())
    ]


def price_of(run: PrivateRun, private: int) -> float:
    """The noise multiplier with which the real run keeps its epsilon."""
    return step_of(run, private)[0].noise_multiplier
