"""From the sampled units of a step to micro-batches of rows: memory is set by the micro-batch, not by the batch.

A sampled unit has as many places as it may have rows, filled or not: a record without a label is computed like any
other and then counts 0. Cohorts follow one another without gaps. So who is in which micro-batch depends on the masks
alone, and one unit's data moves nothing for the others, neither the rounding of their gradients nor the randomness of
their views. Noise is added once, to the whole sum.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discreet.noise import derived_seed
from discreet.trainers.dp_sgd.cohorts import CohortRecords, Positions, slots_of
from discreet.trainers.dp_sgd.settings import Settings
from discreet.trainers.tensors import each_part, tensor_of


@dataclass(frozen=True, repr=False)
class MicroBatch:
    """Rows, m a unit, their labels, and which of them count. ``number`` is its place in the step."""

    number: int
    rows: Any
    targets: torch.Tensor
    usable: torch.Tensor


def micro_batches(
    sampled: Mapping[str, Positions],
    cohorts: Mapping[str, CohortRecords],
    usable: Mapping[str, NDArray[np.bool_]],
    settings: Settings,
    *,
    by_person: bool,
    seed: int,
    device: torch.device,
    share: tuple[int, int] = (0, 1),
) -> Iterator[MicroBatch]:
    """The rows of the sampled units, m a unit, cut into pieces of whole units.

    ``share`` (r, W): only every W-th piece, from number r; the rows of the others are not read.
    """
    rows_per_unit = settings.records_per_person if by_person else 1
    units_at_once = rows_at_once(settings, by_person=by_person) // rows_per_unit
    parts = []
    for order, (label, units) in enumerate(sampled.items()):
        cohort = cohorts[label]
        if by_person:
            order_by = np.random.default_rng(derived_seed(seed, "records of a person", order)).random(len(cohort))
            rows, counts = slots_of(cohort, units, usable[label], rows_per_unit, order_by)
        else:
            rows, counts = units[:, None], usable[label][units][:, None]
        parts.append(_Part(cohort, rows, counts))
    for number, piece in enumerate(_cut(parts, units_at_once)):
        if number % share[1] == share[0]:
            yield _joined(number, piece, device)


@dataclass(frozen=True, repr=False)
class _Part:
    """Sampled units of one cohort: their rows, (units, m), and which of them count."""

    cohort: CohortRecords
    rows: Positions
    counts: NDArray[np.bool_]


def _cut(parts: list[_Part], units_at_once: int) -> Iterator[list[_Part]]:
    """Pieces of so many units, across cohorts whose records are of one kind: many small cohorts are one batch."""
    for _, same in itertools.groupby(parts, key=lambda part: part.cohort.kind):
        piece: list[_Part] = []
        free = units_at_once
        for part in same:
            start = 0
            while start < len(part.rows):
                stop = min(start + free, len(part.rows))
                piece.append(_Part(part.cohort, part.rows[start:stop], part.counts[start:stop]))
                free -= stop - start
                start = stop
                if not free:
                    yield piece
                    piece, free = [], units_at_once
        if piece:
            yield piece


def _joined(number: int, piece: list[_Part], device: torch.device) -> MicroBatch:
    rows, labels, counted = [], [], []
    for part in piece:
        taken = part.rows.reshape(-1)
        read, readable = part.cohort.readable_rows(taken)
        counts = part.counts.reshape(-1) & readable
        rows.append(_blanked(read, counts))
        labels.append(_zeroed(part.cohort.y[taken], counts))
        counted.append(counts)
    return MicroBatch(
        number=number,
        rows=_tensors(rows, device),
        targets=targets_of(np.concatenate(labels), device),
        usable=torch.from_numpy(np.concatenate(counted)).to(device),
    )


def rows_at_once(settings: Settings, *, by_person: bool) -> int:
    """Rows of a full micro-batch: whole units, at least one."""
    rows_per_unit = settings.records_per_person if by_person else 1
    return rows_per_unit * max(1, settings.micro_batch // (settings.views * rows_per_unit))


def _zeroed(rows: NDArray[Any], counts: NDArray[np.bool_]) -> NDArray[Any]:
    """``rows`` with 0 in place of those that do not count, whatever was in them."""
    return np.where(counts.reshape(-1, *[1] * (rows.ndim - 1)), rows, np.zeros((), dtype=rows.dtype))


def _blanked(rows: Any, counts: NDArray[np.bool_]) -> Any:
    return rows if counts.all() else each_part(lambda part: _zeroed(part, counts), rows)


def _tensors(parts: list[Any], device: torch.device) -> Any:
    if isinstance(parts[0], dict):
        return {name: _tensors([part[name] for part in parts], device) for name in parts[0]}
    return tensor_of(parts[0] if len(parts) == 1 else np.concatenate(parts), device)


def targets_of(y: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Labels as a loss takes them: whole class numbers, or floats."""
    with np.errstate(all="ignore"):
        plain = y.astype(np.int64 if y.dtype.kind in "iu" else np.float32)
    return torch.from_numpy(np.ascontiguousarray(plain)).to(device)
