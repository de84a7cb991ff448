"""From the sampled units of a step to micro-batches of rows: memory is set by the micro-batch, not by the batch.

A sampled unit has as many places as it may have rows, filled or not: a record without a label is computed like any
other and then counts 0. So who is in which micro-batch depends on the masks alone, and one unit's data moves nothing
for the others, neither the rounding of their gradients nor the randomness of their views. Noise is added once, to the
whole sum.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discreet.trainers.dp_sgd.cohorts import CohortRecords, Positions, slots_of
from discreet.trainers.dp_sgd.settings import Settings
from discreet.trainers.tensors import tensor_of


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
    most = settings.records_per_person if by_person else 1
    units_at_once = rows_at_once(settings, by_person=by_person) // most
    numbers = itertools.count()
    for place, (label, units) in enumerate(sampled.items()):
        cohort = cohorts[label]
        if by_person:
            luck = np.random.default_rng([seed, place]).random(len(cohort))
            rows, counts = slots_of(cohort, units, usable[label], most, luck)
        else:
            rows, counts = units[:, None], usable[label][units][:, None]
        for start in range(0, len(units), units_at_once):
            if (number := next(numbers)) % share[1] != share[0]:
                continue
            piece = rows[start : start + units_at_once]
            taken, kept = piece.reshape(-1), counts[start : start + units_at_once].reshape(-1)
            read, readable = cohort.readable_rows(taken)
            kept = kept & readable
            yield MicroBatch(
                number=number,
                rows=_tensors(read, kept, device),
                targets=targets_of(_zeroed(cohort.y[taken], kept), device),
                usable=torch.from_numpy(kept).to(device),
            )


def rows_at_once(settings: Settings, *, by_person: bool) -> int:
    """Rows of a full micro-batch: whole units, at least one."""
    most = settings.records_per_person if by_person else 1
    return most * max(1, settings.micro_batch // (settings.views * most))


def _zeroed(rows: NDArray[Any], kept: NDArray[np.bool_]) -> NDArray[Any]:
    """``rows`` with 0 in place of those that do not count, whatever was in them."""
    return np.where(kept.reshape(-1, *[1] * (rows.ndim - 1)), rows, np.zeros((), dtype=rows.dtype))


def _tensors(rows: Any, kept: NDArray[np.bool_], device: torch.device) -> Any:
    if isinstance(rows, dict):
        return {name: _tensors(part, kept, device) for name, part in rows.items()}
    return tensor_of(_zeroed(rows, kept), device)


def targets_of(y: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Labels as a loss takes them: whole class numbers, or floats."""
    with np.errstate(all="ignore"):
        plain = y.astype(np.int64 if y.dtype.kind in "iu" else np.float32)
    return torch.from_numpy(np.ascontiguousarray(plain)).to(device)
