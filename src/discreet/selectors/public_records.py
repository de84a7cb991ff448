"""What goes into a selection among public records: ids, scores and embeddings, checked; and those worth clustering.

Public records may be shown and named; what an error says of them is still nothing but numbers of records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.components import public_components
from discreet.components.rows import Floats, shape_of
from discreet.errors import BadInput
from discreet.noise import OperatingSystem, Source, random_places
from discreet.records import Selection
from discreet.selectors.candidates import chosen, some_of

Places = NDArray[np.int64]
TIMES = 5
"""So many times as many as are asked are looked at, where nothing else is said."""
PIECE = 8192
_EMBEDDINGS = "embeddings of public records"


def checked_public(ids: Any, scores: Any, embeddings: Any, k: Any) -> tuple[Sequence[str], Floats, int]:
    """Ids, a score each, and at most all of them."""
    names, count = some_of(ids, k)
    if embeddings is not None and shape_of(embeddings, _EMBEDDINGS)[0] != len(names):
        raise BadInput(_EMBEDDINGS, "there is not one row for each id", "Give them in one order")
    return names, scored(scores, len(names)), count


def scored(scores: Any, size: int) -> Floats:
    """A score each: -inf where there is no number; zeros, where nothing is scored."""
    if scores is None:
        return np.zeros(size)
    try:
        values = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("scores of public records", "they are not numbers", "Give one number a record") from None
    if values.shape != (size,):
        raise BadInput("scores of public records", "there is not one for each id", "Give them in one order")
    values[np.isnan(values)] = -np.inf
    return values


def most_uncertain(scores: Floats, count: int) -> Places:
    """Places of the ``count`` largest scores, largest first; of equal ones, the first. None without a score."""
    whole = min(count, int((scores > -np.inf).sum()))
    if whole < len(scores):
        rough = np.argpartition(-scores, whole - 1)[:whole] if whole else np.empty(0, dtype=np.int64)
        limit = scores[rough].min() if whole else np.inf
        rough = np.flatnonzero(scores >= limit)  # all of the equal ones, in their order
    else:
        rough = np.arange(len(scores))
    return np.asarray(rough[np.argsort(-scores[rough], kind="stable")][:whole], dtype=np.int64)


def looked_at(uncertain: int | None, count: int, size: int) -> int:
    """How many of the most uncertain are candidates."""
    if uncertain is not None and (isinstance(uncertain, bool) or not isinstance(uncertain, int) or uncertain < 1):
        raise BadInput(f"the {uncertain} most uncertain", "it is not a whole number from 1", "Try ten times as many")
    if uncertain is not None and uncertain < count <= size:
        raise BadInput(
            f"asking {count} of the {uncertain} most uncertain", "there are not so many", "Raise uncertain, or ask less"
        )
    return min(size, TIMES * count if uncertain is None else uncertain)


def in_pieces(embeddings: Any, places: Places) -> Iterator[tuple[Places, NDArray[Any]]]:
    """Rows at places, a piece at a time and forwards; each with where its rows stand among ``places``."""
    order = np.argsort(places, kind="stable")
    for start in range(0, len(places), PIECE):
        some = order[start : start + PIECE]
        yield some, np.asarray(embeddings[places[some]])


def finite_lengths(embeddings: Any, places: Places) -> tuple[Places, Floats]:
    """Places whose rows are finite, and how long those rows are."""
    found = np.empty(len(places))
    for some, rows in in_pieces(embeddings, places):
        found[some] = np.linalg.norm(rows.astype(np.float64), axis=1)
    whole = np.isfinite(found)
    return (places, found) if whole.all() else (places[whole], found[whole])


def projected(embeddings: Any, places: Places, components: int) -> tuple[Places, Floats]:
    """Places whose rows are finite, and those rows on the leading components of all public embeddings.

    Only the projections lie in memory at once.
    """
    _, width = shape_of(embeddings, _EMBEDDINGS)
    axes = public_components(FiniteRows(embeddings), min(components, width))
    found = np.empty((len(places), len(axes)))
    for some, rows in in_pieces(embeddings, places):
        found[some] = np.asarray(rows, dtype=np.float64) @ axes.T
    whole = np.isfinite(found).all(axis=1)
    return (places, found) if whole.all() else (places[whole], found[whole])


class FiniteRows:
    """Rows with zeros in place of broken ones."""

    def __init__(self, rows: Any) -> None:
        self._rows, self.shape = rows, rows.shape

    def __getitem__(self, key: Any) -> Floats:
        """Rows by a slice."""
        piece = np.asarray(self._rows[key], dtype=np.float64)
        return np.where(np.isfinite(piece).all(axis=1, keepdims=True), piece, 0.0)


def shown(
    names: Sequence[str], places: Places, mechanism: str, source: Source | None, phase: int, **facts: Any
) -> Selection:
    """A free selection, in random order."""
    where = source or OperatingSystem()
    order = random_places(len(places), len(places), where=where, kind=f"{mechanism} {phase}")
    return Selection(ids=chosen(names, places[order]), mechanism=mechanism, simulation=where.simulation, **facts)
