"""Step size and lambda of every method, from the public part alone: no table looks at those records.

A fifth of the public part is measured on; the rest arrives, in a few orders. The pair with the lowest error, on average
over the label axis and the orders, is kept beside the results. It is the same for all seeds.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.bench.stream_methods import StreamMethod, StreamProblem
from discreet.bench.stream_runs import Part, batch_error, learned, svm_error
from discreet.bench.stream_sets import StreamSet
from discreet.errors import BadInput

STEPS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
LAMBDAS = (1e-3, 1e-1)
BATCH_LAMBDAS = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
ORDERS = 10
_FIRST_ORDER = 50_000
"""Seeds of orders that no table has."""


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """``step``: eta of eta/t; ``regularization``: lambda, of one batch one for each of the problem's marks; ``error``:
    on the public part.
    """

    step: float
    regularization: tuple[float, ...]
    error: float


def tuned_name(problem: StreamProblem, method: StreamMethod) -> str:
    """The same for cases that are tuned alike."""
    told = [
        {key: value for key, value in problem.settings().items() if key not in ("name", "paid")},
        {key: value for key, value in method.settings().items() if key != "name"},
    ]
    return json.dumps([told, STEPS, LAMBDAS, BATCH_LAMBDAS, ORDERS], sort_keys=True)


def tuned(problem: StreamProblem, method: StreamMethod, data: StreamSet, shelf: Path | None) -> Tuned:
    """From the shelf, or made and put there."""
    name = tuned_name(problem, method)
    path = None if shelf is None else shelf / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
    found = _on_shelf(path) or _made(name, problem, method, data)
    if path is not None and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        form = {"step": found.step, "regularization": list(found.regularization), "error": found.error}
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(form | {"of": json.loads(name)}))
        draft.replace(path)
    return found


def _on_shelf(path: Path | None) -> Tuned | None:
    if path is None or not path.exists():
        return None
    try:
        form = json.loads(path.read_text())
        return Tuned(step=form["step"], regularization=tuple(form["regularization"]), error=form["error"])
    except (ValueError, KeyError, TypeError):
        path.unlink()  # broken: it is made again
        return None


_KEPT: dict[str, Tuned] = {}


def _made(name: str, problem: StreamProblem, method: StreamMethod, data: StreamSet) -> Tuned:
    if name not in _KEPT:
        _KEPT[name] = _search(problem, method, data)
    return _KEPT[name]


def _search(problem: StreamProblem, method: StreamMethod, data: StreamSet) -> Tuned:
    parts = [_part(data, order) for order in range(ORDERS)]
    if method.kind == "stream":

        def error(step: float, strength: float) -> float:
            runs = [
                learned(problem, method, part, step=step, regularization=strength, seed=_FIRST_ORDER + order)
                for order, part in enumerate(parts)
            ]
            return float(np.mean([run.mean_error(problem) for run in runs]))

        errors = {pair: error(*pair) for pair in itertools.product(STEPS, LAMBDAS)}
        best = min(errors, key=lambda pair: errors[pair])
        return Tuned(step=best[0], regularization=(best[1],), error=errors[best])
    strengths = [_best_lambda(method, parts, mark) for mark in _marks(problem, method)]
    return Tuned(step=0.0, regularization=tuple(one for one, _ in strengths), error=strengths[-1][1])


def _marks(problem: StreamProblem, method: StreamMethod) -> Sequence[int]:
    return problem.marks if method.kind == "one batch" else (0,)


def _best_lambda(method: StreamMethod, parts: Sequence[Part], mark: int) -> tuple[float, float]:
    def error(strength: float) -> float:
        if method.kind == "not private":
            return float(np.mean([svm_error(part, strength) for part in parts]))
        runs = [
            batch_error(method, part, mark, regularization=strength, seed=_FIRST_ORDER + order)
            for order, part in enumerate(parts)
        ]
        return float(np.mean(runs))

    errors = {strength: error(strength) for strength in BATCH_LAMBDAS}
    best = min(errors, key=lambda strength: errors[strength])
    return best, errors[best]


def _part(data: StreamSet, order: int) -> Part:
    """The public part in one order: four fifths arrive, a fifth is measured on."""
    count = len(data.public_y)
    if count < 10:
        raise BadInput("tuning on the public part", "it has fewer than 10 records", "Give it more")
    places = np.random.default_rng(_FIRST_ORDER + order).permutation(count)
    held, kept = places[: count // 5], places[count // 5 :]
    x, y = data.public_x, data.public_y
    return Part(x=x[kept], y=y[kept], test_x=x[held], test_y=y[held])


def tuned_columns(found: Tuned) -> dict[str, Any]:
    """For rows of results."""
    return {"step": found.step, "regularization": found.regularization[-1], "public_error": found.error}
