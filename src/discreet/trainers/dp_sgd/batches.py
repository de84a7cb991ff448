"""From the sampled units of a step to micro-batches of rows: memory is set by the micro-batch, not by the batch.

Only rows with a label come here; a unit without any adds 0 by not being summed. How many micro-batches a step takes
depends on who was sampled; nobody outside sees it, and noise is added once, to the whole sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discreet.trainers.dp_sgd.cohorts import CohortRecords, Positions, capped_rows
from discreet.trainers.dp_sgd.settings import Settings


@dataclass(frozen=True, repr=False)
class MicroBatch:
    """Rows, their labels, and where persons are clipped as one, whose they are (0, 1, ...)."""

    rows: Any
    targets: torch.Tensor
    owners: torch.Tensor | None


def micro_batches(
    sampled: Mapping[str, Positions],
    cohorts: Mapping[str, CohortRecords],
    usable: Mapping[str, NDArray[np.bool_]],
    settings: Settings,
    *,
    by_person: bool,
    seed: int,
    device: torch.device,
) -> Iterator[MicroBatch]:
    """All labelled rows of the sampled units (at most m a person), cut into pieces."""
    joint = by_person and settings.person_clip == "joint"
    rows_at_once = max(1, settings.micro_batch // settings.views)
    for place, (label, units) in enumerate(sampled.items()):
        cohort = cohorts[label]
        if by_person:
            generator = np.random.default_rng([seed, place])
            rows = capped_rows(cohort, units, usable[label], settings.records_per_person, generator)
        else:
            rows = units[usable[label][units]]
        for piece in _pieces(rows, cohort.owners, rows_at_once, whole=joint):
            yield MicroBatch(
                rows=_tensors(cohort.rows(piece), device),
                targets=_targets(cohort.y[piece], device),
                owners=_numbered(cohort.owners[piece], device) if joint else None,
            )


def _pieces(rows: Positions, owners: Positions, size: int, *, whole: bool) -> Iterator[Positions]:
    """``rows`` in pieces of at most ``size``; with ``whole``, a unit's rows stay together even if they are more."""
    start = 0
    while start < rows.size:
        end = min(start + size, rows.size)
        if whole and end < rows.size:
            cut = end
            while cut > start and owners[rows[cut]] == owners[rows[cut - 1]]:
                cut -= 1
            if cut == start:  # one unit is larger than a piece
                cut = end
                while cut < rows.size and owners[rows[cut]] == owners[rows[cut - 1]]:
                    cut += 1
            end = cut
        yield rows[start:end]
        start = end


def _numbered(owners: Positions, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.unique(owners, return_inverse=True)[1].reshape(-1)).to(device)


def _tensors(rows: Any, device: torch.device) -> Any:
    if isinstance(rows, dict):
        return {name: _tensors(part, device) for name, part in rows.items()}
    made = torch.from_numpy(np.ascontiguousarray(rows))
    if made.dtype in (torch.float64, torch.float16):
        made = made.float()
    return made.to(device)


def _targets(y: NDArray[Any], device: torch.device) -> torch.Tensor:
    wanted = np.int64 if y.dtype.kind in "iu" else np.float32
    return torch.from_numpy(np.ascontiguousarray(y.astype(wanted))).to(device)
