"""Records of a table as its schema encodes them: codes and states are kept, inputs are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.pools.cells import Codes, States
from discreet.pools.rows import Mask, RecordArray, Span, places_of
from discreet.pools.schema import CellCounts, Schema
from discreet.pools.tables import Blocks, Kept, rows_of_block

CELL_BYTES = 9
_ROWS = 65536
Cells = Callable[[Span], tuple[Codes, States]]


class EncodedRows(RecordArray):
    """The inputs of records. ``cells``: codes and states of a span. It is no error if no record can be read."""

    def __init__(self, schema: Schema, cells: Cells, count: int) -> None:
        super().__init__(shape=(count, schema.width), dtype=np.float32)
        self.schema, self._cells = schema, cells

    @classmethod
    def of_parts(cls, schema: Schema, parts: Sequence[tuple[Codes, States]]) -> EncodedRows:
        """Of parsed cells that are in memory."""
        columns = len(schema.columns)
        codes = np.concatenate([np.zeros((0, columns)), *(part[0] for part in parts)])
        states = np.concatenate([np.zeros((0, columns), dtype=np.uint8), *(part[1] for part in parts)])
        return cls(schema, lambda span: (codes[span], states[span]), len(codes))

    @classmethod
    def of_blocks(cls, schema: Schema, file: Any) -> EncodedRows:
        """Of a file that is read block by block."""
        columns = len(schema.columns)
        blocks: Blocks = file.blocks(list(schema.names), rows_of_block(CELL_BYTES * columns))
        kept = Kept(blocks, lambda batch: (schema.parse(batch), CELL_BYTES * columns * batch.num_rows))

        def cells(span: Span) -> tuple[Codes, States]:
            count = len(places_of(span))
            codes, states = np.empty((count, columns)), np.empty((count, columns), dtype=np.uint8)
            for chosen, local, (block_codes, block_states) in kept.parts(span):
                codes[chosen], states[chosen] = block_codes[local], block_states[local]
            return codes, states

        return cls(schema, cells, sum(blocks.counts))

    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The inputs of a span, nulls as zeros, and which records are none. Audience: owner."""
        return self.schema.expand(*self._cells(span))

    def counts(self) -> CellCounts:
        """What became of all cells. Audience: owner."""
        starts = range(0, len(self), _ROWS)
        first, *others = (self.schema.counts(self._cells(slice(at, min(at + _ROWS, len(self))))[1]) for at in starts)
        return sum(others, start=first)
