"""What a score is: a number for each record, higher = ask first, from that record's own values alone.

Guarantee: a score lies in its declared range whatever the values are, and depends on nothing but the record's own row
and public numbers. A row that is not finite, or holds no probability at all, gets the bottom, as a null would: an error
would tell that such a record is there. Selection is priced by the range; it never looks at the scores to find it.

``values`` are what ``needs`` says: class probabilities (n, C), draws of them (J, n, C), or embeddings (n, d). Rows are
brought to sum 1; of several labels every entry is brought to [0, 1].
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.roles import Scorer

Floats = NDArray[np.float64]
Needs = Literal["proba", "draws", "embedding", "nothing"]
AXES = {"proba": 2, "draws": 3, "embedding": 2}
FEWEST_DRAWS = 2


@dataclass(frozen=True, kw_only=True)
class Score(ABC):
    """``classes``: C, the labels a record may have. ``clip``: scores above it are brought down to it, which makes the
    range, and so the noise, smaller; public, declared.
    """

    name: ClassVar[str]
    needs: ClassVar[Needs] = "proba"
    usual_clip: ClassVar[float | None] = None
    """What the DP-AL paper clips it at."""
    fewest_classes: ClassVar[int] = 2
    classes: int
    clip: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.classes, bool) or not isinstance(self.classes, int) or self.classes < self.fewest_classes:
            raise BadInput(
                f"{self.name} with classes={self.classes}",
                f"it needs a whole number, at least {self.fewest_classes}",
                "Count the classes",
            )
        number = isinstance(self.clip, (int, float)) and not isinstance(self.clip, bool)
        if self.clip is not None and not (number and 0 < self.clip <= self._top()):
            raise BadInput(
                f"{self.name} with clip={self.clip}",
                f"it must be above 0 and at most {self._top():g}",
                "Declare another clip",
            )

    @property
    def range(self) -> tuple[float, float]:
        """Bottom and top; declared, never measured."""
        return 0.0, self._top() if self.clip is None else float(self.clip)

    def score(self, values: Any) -> Floats:
        """(n,), all in the range."""
        checked = as_values(values, AXES[self.needs], self.name)
        if checked.shape[-1] != self.classes:
            raise BadInput(
                f"{self.name} of {self.classes} classes",
                f"the model gives {checked.shape[-1]} numbers a record",
                "Declare the classes of the model",
            )
        finite = np.isfinite(checked).all(axis=tuple(axis for axis in range(checked.ndim) if axis != checked.ndim - 2))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            scores = self._of(np.where(np.isfinite(checked), checked, 0.0))
        return in_range(np.where(finite, scores, np.nan), self.range)

    def _top(self) -> float:
        """The most a record can score, before clipping."""
        return 1.0

    @abstractmethod
    def _of(self, values: Floats) -> Floats:
        """(n,), of finite values; NaN for a row that says nothing."""


def as_values(values: Any, axes: int, name: str) -> Floats:
    """Values as an array of floats with ``axes`` axes."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"values for {name}", "they are not numbers", "Give what the model predicts") from None
    if array.ndim != axes:
        shapes = {2: "(n, C)", 3: "(draws, n, C)"}
        raise BadInput(f"values for {name}", f"they have {array.ndim} axes, not {axes}", f"Give {shapes[axes]}")
    return array


def in_range(scores: Floats, limits: tuple[float, float]) -> Floats:
    """Scores in their range; what is no number is at the bottom."""
    bottom, top = limits
    limited: Floats = np.clip(np.nan_to_num(scores, nan=bottom, posinf=top, neginf=bottom), bottom, top)
    return limited


def normalised(values: Floats) -> Floats:
    """Rows of probabilities; NaN where a row has nothing above 0."""
    positive = np.maximum(values, 0.0)
    return np.asarray(positive / positive.sum(axis=-1, keepdims=True))


def entropy(probabilities: Floats) -> Floats:
    """In bits, along the last axis; 0 log 0 = 0, and NaN stays."""
    logs = np.log2(np.where(probabilities > 0, probabilities, 1.0))
    return np.asarray(-(probabilities * logs).sum(axis=-1))


def binary_entropy(probabilities: Floats) -> Floats:
    """In bits, of each entry."""
    return entropy(np.stack([probabilities, 1 - probabilities], axis=-1))


def declared_range(limits: Any) -> tuple[float, float]:
    """Bottom and top, finite, in that order."""
    try:
        bottom, top = (float(value) for value in limits)
    except (TypeError, ValueError):
        raise BadInput("the range of a score", "it is not a pair of numbers", "Declare (bottom, top)") from None
    if not (math.isfinite(bottom) and math.isfinite(top) and bottom < top):
        raise BadInput("the range of a score", "bottom and top must be finite, bottom below top", "Declare (0.0, 1.0)")
    return bottom, top


assert set(get_args(Needs)) == {*AXES, "nothing"}


# Scores of a whole pool: piece by piece through a model, in memory that does not grow with the pool.
#
# Audience: owner. Scores are private; what leaves is what a selector draws from them.

ROWS, FEWEST_ROWS, DRAWS = 4096, 256, 20
PIECE_BYTES = 24 << 20
_METHODS: dict[Needs, str] = {"proba": "predict_proba", "draws": "sample_proba", "embedding": "embed"}

Values = Callable[[Any], Any]
"""From a piece of records to their values."""
Progress = Callable[[int, int], None]
"""Records done, and all."""


def pool_scores(
    scorer: Scorer, model: Any, records: Any, *, rows: int | None = None, progress: Progress | None = None
) -> Floats:
    """(n,): the score of every record, in their order.

    ``model``: what has the method the score needs (`predict_proba`, `sample_proba`, `embed`), or a function from
    records to values (`from_logits` makes one of a function that gives logits). ``records``: an array, a memory-mapped
    one, a table, or a dict of arrays; slices of it go to the model.
    """
    rows = rows_of_piece(records) if rows is None else rows
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise BadInput(f"rows={rows}", "a piece has at least one record", "Leave it out")
    size, values = count_of(records), values_of(scorer, model)
    all_scores = np.empty(size, dtype=np.float64)
    for start in range(0, size, rows):
        stop = min(start + rows, size)
        piece = rows_of(records, slice(start, stop))
        scores = scorer.score(piece if scorer.needs == "nothing" else values(piece))
        if scores.shape != (stop - start,):
            raise BadInput(f"the score {scorer.name}", "the model does not give a row a record", "Give it a batch axis")
        all_scores[start:stop] = scores
        if progress is not None:
            progress(stop, size)
    return all_scores


def rows_of_piece(records: Any) -> int:
    """How many are read at once, by the public shape of one: memory for more than `PIECE_BYTES` costs page faults."""
    shape, dtype = getattr(records, "shape", None), getattr(records, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        return ROWS
    fit = PIECE_BYTES // max(1, math.prod(int(size) for size in shape[1:]) * getattr(dtype, "itemsize", 4))
    return max(FEWEST_ROWS, min(ROWS, 1 << max(fit, 1).bit_length() - 1))


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


# What a model makes of records, made when it is asked for: embeddings of a pool that never lie in memory at once.
#
# Audience: owner. Embeddings of private records are private, whatever made them; of public ones, public.


AnyFloats = NDArray[np.floating[Any]]


def rows_of(records: Any, key: Any) -> Any:
    """Some of ``records``: an array, a table, or a dict of arrays."""
    if isinstance(records, Mapping):
        return {name: part[key] for name, part in records.items()}
    return records.iloc[key] if hasattr(records, "iloc") else records[key]


class EmbeddedRows:
    """(n, d): ``model.embed`` of ``records``, by slices. A row that is not finite is a null, all zeros."""

    def __init__(
        self, model: Any, records: Any, *, nulls: NDArray[np.bool_] | None = None, width: int | None = None
    ) -> None:
        """``nulls``: records that are not there: whatever a model says of their blank rows, they are zeros.

        ``width``: d, if it is known; else one record is embedded to find it.
        """
        embed = getattr(model, "embed", None)
        if embed is None:
            raise BadInput("embedding records", "the model has no embed()", "Give it embed(X), (n, d)")
        self._embed, self._records, self._nulls = embed, records, nulls
        size = count_of(records)
        if width is None:
            if not size:
                raise BadInput("embedding records", "there are none", "Give at least one")
            width = self._made(rows_of(records, slice(0, 1))).shape[1]
        self.shape = (size, int(width))
        self.ndim = 2

    def __len__(self) -> int:
        """The number of records."""
        return self.shape[0]

    def __getitem__(self, key: Any) -> AnyFloats:
        """Rows by a slice, or by an array of places."""
        rows = rows_of(self._records, key)
        if not count_of(rows):
            return np.zeros((0, self.shape[1]))
        vectors = self._made(rows)
        if vectors.shape != (count_of(rows), self.shape[1]):
            raise BadInput("embedding records", "embed() does not give equal rows, one a record", "Give (n, d)")
        return vectors if self._nulls is None else np.where(self._nulls[key][:, None], np.zeros_like(vectors), vectors)

    def _made(self, rows: Any) -> AnyFloats:
        vectors = np.asarray(self._embed(rows))
        if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
            raise BadInput("embedding records", "embed() does not give rows of numbers", "Give (n, d)")
        return vectors

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<EmbeddedRows: {self.shape[0]} records, {self.shape[1]} numbers each>"
