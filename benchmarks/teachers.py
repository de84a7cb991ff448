"""Votes of 250 linear teachers of 100,000 records on 100,000 public ones, beside the same products in plain numpy.

OMP_NUM_THREADS=1 python benchmarks/teachers.py
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeClassifier

from discreet.noise import SecretKey
from discreet.trainers.teachers import split, train_teachers
from discreet.trainers.teachers.fitting import LinearVoter, linear_counts, linear_voter

PAGE = Path(__file__).parent / "results" / "teachers.md"
TEACHERS, RECORDS, PUBLIC = 250, 100_000, 100_000
HEAD = """# Votes of linear teachers: speed

Made by benchmarks/teachers.py: contenders interleaved in one process, medians of 5, one thread. 250 linear teachers of
100,000 records vote on 100,000 public ones. *Plain numpy* is the products alone, `x @ weights` for each class:
no maximum, no counting. Hardware: {machine}.

| classes | inputs | plain numpy, products alone | discreet, votes | ratio | one `predict` a teacher |
|---|---|---|---|---|---|
"""


def timed(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def fitted(classes: int, inputs: int) -> tuple[list[LinearVoter], Any, list[Any]]:
    rng = np.random.default_rng(0)
    middles = rng.normal(size=(classes, inputs))
    y = rng.integers(classes, size=RECORDS)
    x = middles[y] + 2 * rng.normal(size=(RECORDS, inputs))
    of = split([str(place) for place in range(RECORDS)], teachers=TEACHERS, key=SecretKey(b"b" * 32))
    models = [RidgeClassifier().fit(x[of == k], y[of == k]) for k in range(TEACHERS)]
    voters = [voter for voter in (linear_voter(model, classes) for model in models) if voter is not None]
    return voters, rng.normal(size=(PUBLIC, inputs)), models


def measured(classes: int, inputs: int) -> str:
    voters, public, models = fitted(classes, inputs)
    weights = [np.ascontiguousarray(one) for one in np.stack([v.weights for v in voters], axis=1).transpose(0, 2, 1)]

    def products() -> None:
        for one in weights:
            public @ one

    plain, ours = [], []
    for _ in range(5):
        plain.append(timed(products))
        ours.append(timed(lambda: linear_counts(voters, public, classes)))
    single = timed(lambda: [model.predict(public) for model in models])
    before, after = statistics.median(plain), statistics.median(ours)
    return f"| {classes} | {inputs} | {before:.3f} s | {after:.3f} s | **{after / before:.2f}** | {single:.2f} s |"


def training() -> str:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(RECORDS, 100)), rng.integers(2, size=RECORDS)
    taken = timed(
        lambda: train_teachers(
            x,
            np.array(["no", "yes"])[y].tolist(),
            units=[str(place) for place in range(RECORDS)],
            public=rng.normal(size=(PUBLIC, 100)),
            public_ids=[str(place) for place in range(PUBLIC)],
            classes=("no", "yes"),
            teachers=TEACHERS,
            estimator=RidgeClassifier(),
            key=SecretKey(b"b" * 32),
        )
    )
    what = "split, 250 fits of ridge classifiers, votes; two classes, 100 inputs"
    return f"\nAll of `train_teachers` ({what}): {taken:.1f} s.\n"


def main() -> None:
    machine = f"{platform.machine()}, one core, Python {platform.python_version()}, numpy {np.__version__}"
    rows = [measured(classes, inputs) for classes, inputs in ((2, 100), (10, 100))]
    PAGE.write_text(HEAD.format(machine=machine) + "\n".join(rows) + "\n" + training(), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
