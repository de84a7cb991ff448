"""Random views of one record, averaged before its gradient is clipped (augmentation multiplicity, De et al. 2022).

A record's views are made from the record alone and the step's randomness, so K views cost nothing more than one. The
built-in views are computed for many records at once, row by row. A user's function gets one record at a time: a mixup,
which would put one record into another's gradient, cannot be written.

Every stream of draws has a seed of its own: each built-in augmentation by its place in the sequence, each call of a
user's function by place and row. The call's seed is that of the generator it is given and of torch's global one. So a
record that draws more or less than another changes nobody else's views (docs/proofs/dp-sgd.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from discreet.errors import BadInput
from discreet.noise import derived_seed
from discreet.trainers.tensors import seed_global, seeded_generator

PerRecord = Callable[[Any, Any], Any]
"""A user's augmentation: (views of one record (K, ...), a torch.Generator) -> views of the same shape."""


@dataclass(frozen=True)
class RandomShift:
    """Pictures (n, C, H, W) moved by up to ``pixels`` in each direction; what enters is ``fill``."""

    pixels: int
    fill: float = 0.0

    def __call__(self, rows: Any, generator: Any) -> Any:
        """Shifted rows."""
        count, _, height, width = rows.shape
        padded = torch.nn.functional.pad(rows, (self.pixels,) * 4, value=self.fill)
        reach = 2 * self.pixels + 1
        down, right = torch.randint(0, reach, (2, count), generator=generator).to(rows.device)
        y = down[:, None] + torch.arange(height, device=rows.device)
        x = right[:, None] + torch.arange(width, device=rows.device)
        each = torch.arange(count, device=rows.device)[:, None, None]
        return padded[each, :, y[:, :, None], x[:, None, :]].permute(0, 3, 1, 2)


@dataclass(frozen=True)
class RandomFlip:
    """Pictures (n, C, H, W), every second one mirrored left to right."""

    def __call__(self, rows: Any, generator: Any) -> Any:
        """Rows, about half of them mirrored."""
        coins = torch.randint(0, 2, (rows.shape[0], 1, 1, 1), generator=generator).bool().to(rows.device)
        return torch.where(coins, rows.flip(-1), rows)


Augmentation = RandomShift | RandomFlip | PerRecord


def views_of(rows: Any, augment: Sequence[Augmentation], count: int, seed: int, *, made_up: bool = False) -> Any:
    """``count`` views of every row, (n, K, ...). Without an augmentation: the row itself, once.

    A user's function that fails on a record makes it a null, as an error would tell that it was there. On ``made_up``
    records it is heard.
    """
    if isinstance(rows, dict):
        if augment:
            raise BadInput("augmenting records of several arrays", "views are made of single arrays", "Drop augment")
        return {name: part.unsqueeze(1) for name, part in rows.items()}
    if not augment:
        return rows.unsqueeze(1)
    views = rows.repeat_interleave(count, dim=0)
    for number, part in enumerate(augment):
        views = _changed(views, part, count, seed, number, made_up=made_up)
    return views.reshape(rows.shape[0], count, *rows.shape[1:])


def _changed(views: Any, augment: Augmentation, count: int, seed: int, number: int, *, made_up: bool) -> Any:
    if isinstance(augment, (RandomShift, RandomFlip)):
        return augment(views, seeded_generator(derived_seed(seed, "views", number)))
    call, pieces = _heard if made_up else _hushed, []
    with torch.random.fork_rng(devices=[views.device] if views.is_cuda else []):
        for row, piece in enumerate(views.split(count)):
            row_seed = derived_seed(seed, "views of a row", number, row)
            seed_global(row_seed, views.device)
            pieces.append(call(augment, piece, seeded_generator(row_seed)))
    return torch.cat(pieces) if pieces else views


def _heard(augment: PerRecord, piece: Any, generator: Any) -> Any:
    views = augment(piece, generator)
    if getattr(views, "shape", None) != piece.shape or views.dtype != piece.dtype:
        raise BadInput("augmenting a record", "its views have another shape or type", "Return what came in, changed")
    return views


def _hushed(augment: PerRecord, piece: Any, generator: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _heard(augment, piece, generator)
    except Exception:  # noqa: BLE001 - what it says may quote the record
        return piece * float("nan") if piece.is_floating_point() else piece * 0
