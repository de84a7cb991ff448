"""What a model makes of records, made when it is asked for: embeddings of a pool that never lie in memory at once.

Audience: owner. Embeddings of private records are private, whatever made them; of public ones, public.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.scorers.streaming import count_of

Floats = NDArray[np.floating[Any]]


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

    def __getitem__(self, key: Any) -> Floats:
        """Rows by a slice, or by an array of places."""
        rows = rows_of(self._records, key)
        if not count_of(rows):
            return np.zeros((0, self.shape[1]))
        made = self._made(rows)
        if made.shape != (count_of(rows), self.shape[1]):
            raise BadInput("embedding records", "embed() does not give equal rows, one a record", "Give (n, d)")
        return made if self._nulls is None else np.where(self._nulls[key][:, None], np.zeros_like(made), made)

    def _made(self, rows: Any) -> Floats:
        made = np.asarray(self._embed(rows))
        if made.ndim != 2 or made.dtype.kind not in "fiu":
            raise BadInput("embedding records", "embed() does not give rows of numbers", "Give (n, d)")
        return made

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<EmbeddedRows: {self.shape[0]} records, {self.shape[1]} numbers each>"
