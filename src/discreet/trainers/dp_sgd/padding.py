"""A cohort brought to its committed number of slots, for plans whose asked sets are hidden.

How many were asked is private there, and the scale of the noise depends (in its last digits) on the number of slots. So
the asked are put into random places of ``slots``, and all other places hold nulls: zeros without a label.

Guarantee (docs/proofs/hidden-selection.md): the number of slots is the plan's. Places are drawn at random, so a run in
which a record is missing can be drawn as the run in which it is there, with a null in its place and all others in
theirs: masks, micro-batches and the rounding of the others' gradients are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise import Source, random_places
from discreet.privacy.ledger import Receipt
from discreet.trainers.dp_sgd.cohorts import MISSING, CohortRecords, Positions


def padded(records: CohortRecords, slots: int, *, where: Receipt | Source, kind: str = "slots") -> CohortRecords:
    """``records`` in random places of ``slots``, the others nulls. ``where``: the receipt of the selection, so that a
    redo after a crash has the same places. ``kind`` keeps the draws of several cohorts apart.
    """
    if type(slots) is not int or slots < 1 or records.persons is not None:
        raise BadInput("padding a cohort", "it is for records, to a whole number of slots", "Give the plan's slots")
    if len(records) > slots:
        raise BadInput(
            "padding a cohort", "it has more records than slots", "Select with the plan's slots, which drops at random"
        )
    places = random_places(slots, slots, where=where, kind=kind)[: len(records)]
    x = {name: _spread(part, places, slots) for name, part in records.arrays.items()}
    return CohortRecords(x=x if isinstance(records.x, Mapping) else x[""], y=_labels(records.y, places, slots))


def _labels(y: NDArray[Any], places: Positions, slots: int) -> NDArray[Any]:
    kind = y.dtype if y.dtype.kind in "if" else np.dtype(np.int64)  # one that can say that a label is missing
    made = np.full((slots, *y.shape[1:]), MISSING if kind.kind == "i" else np.nan, dtype=kind)
    made[places] = y
    return made


def _spread(part: Any, places: Positions, slots: int) -> Any:
    if type(part) is not np.ndarray:
        return PaddedRows(part, places, slots)
    made = np.zeros((slots, *part.shape[1:]), dtype=part.dtype)
    made[places] = part
    return made


class PaddedRows:
    """Rows of a mapped file or a reader in their slots, read when they are asked for; the others are zeros."""

    def __init__(self, rows: Any, places: Positions, slots: int) -> None:
        self._rows = rows
        self._row_of = np.full(slots, -1, dtype=np.int64)
        self._row_of[places] = np.arange(len(places))
        self.shape, self.dtype = (slots, *rows.shape[1:]), rows.dtype

    def __len__(self) -> int:
        """The number of slots."""
        return int(self.shape[0])

    def __getitem__(self, positions: Any) -> NDArray[Any]:
        """The rows at ``positions``, an array of them."""
        wanted = self._row_of[positions]
        filled = wanted >= 0
        made = np.zeros((len(wanted), *self.shape[1:]), dtype=self.dtype)
        if filled.any():
            made[filled] = self._rows[wanted[filled]]
        return made
