"""Scores of a whole pool: piece by piece through a model, in memory that does not grow with the pool.

Audience: owner. Scores are private; what leaves is what a selector draws from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from discreet.errors import BadInput
from discreet.roles import Scorer
from discreet.scorers.score import Floats, Needs

ROWS, DRAWS = 4096, 20
_METHODS: dict[Needs, str] = {"proba": "predict_proba", "draws": "sample_proba", "embedding": "embed"}

Values = Callable[[Any], Any]
"""From a piece of records to their values."""
Progress = Callable[[int, int], None]
"""Records done, and all."""


def pool_scores(
    scorer: Scorer, model: Any, records: Any, *, rows: int = ROWS, progress: Progress | None = None
) -> Floats:
    """(n,): the score of every record, in their order.

    ``model``: what has the method the score needs (`predict_proba`, `sample_proba`, `embed`), or a function from
    records to values (`from_logits` makes one of a function that gives logits). ``records``: an array, a memory-mapped
    one, a table, or a dict of arrays; slices of it go to the model.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise BadInput(f"rows={rows}", "a piece has at least one record", "Leave it out")
    size, values = count_of(records), values_of(scorer, model)
    found = np.empty(size, dtype=np.float64)
    for start, stop in _pieces(size, rows):
        piece = _slice(records, start, stop)
        scores = scorer.score(piece if scorer.needs == "nothing" else values(piece))
        if scores.shape != (stop - start,):
            raise BadInput(f"the score {scorer.name}", "the model does not give a row a record", "Give it a batch axis")
        found[start:stop] = scores
        if progress is not None:
            progress(stop, size)
    return found


def values_of(scorer: Scorer, model: Any) -> Values:
    """What the score asks the model for."""
    if scorer.needs == "nothing":
        return lambda piece: piece
    method: Callable[..., Any] | None = getattr(model, _METHODS[scorer.needs], None)
    if method is None:
        if callable(model) and not any(hasattr(model, other) for other in _METHODS.values()):
            method = model
            assert method is not None
            return method
        raise BadInput(
            f"the score {scorer.name}",
            f"it needs {scorer.needs}, and the model has no {_METHODS[scorer.needs]}",
            "Choose a score that reads what the model has, or another model",
        )
    if scorer.needs == "draws":
        return partial(method, draws=getattr(scorer, "draws", DRAWS))
    return method


def from_logits(function: Values, *, several_labels: bool = False) -> Values:
    """Probabilities of a function that gives logits, (..., C): softmax, or a sigmoid a label."""
    return lambda piece: probabilities_of(function(piece), several_labels=several_labels)


def probabilities_of(logits: Any, *, several_labels: bool = False) -> Floats:
    """Softmax along the last axis, or a sigmoid of each. An infinite logit is certainty; NaN stays."""
    values = np.asarray(logits, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        if several_labels:
            return np.asarray(1 / (1 + np.exp(-values)))
        limited = np.clip(values, -1e300, 1e300)
        raised = np.exp(limited - limited.max(axis=-1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def count_of(records: Any) -> int:
    """How many records there are."""
    part = next(iter(records.values())) if isinstance(records, Mapping) and records else records
    try:
        return len(part)
    except TypeError:
        raise BadInput("a pool", "it has no length", "Give an array, a table or a dict of arrays") from None


def _slice(records: Any, start: int, stop: int) -> Any:
    if isinstance(records, Mapping):
        return {name: part[start:stop] for name, part in records.items()}
    return records.iloc[start:stop] if hasattr(records, "iloc") else records[start:stop]


def _pieces(size: int, rows: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + rows, size)) for start in range(0, size, rows))
