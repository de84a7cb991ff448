"""Convolutions over the rotations, or rotations and flips, of a square: C4 and D4 (Cohen and Welling 2016).

A symmetry g acts on an image as act(g, x): flip left to right if it flips, then turn by quarter turns. A map over the
group has a copy for each g, stored as channels ``c * |G| + g``. With a filter W,

    lifting:  out[g] = x * act(g, W)                              an image in, a map over the group out
    group:    out[g] = sum over s of x[s] * act(g, W[inv(g) s])   a map over the group in and out

Guarantee (equivariance): if the input is turned by h, then out'[g] = act(h, out[inv(h) g]), exactly, on any image whose
pooling is symmetric (`symmetric_pool`). One filter thus serves |G| orientations: |G| times fewer parameters for as many
maps, and DP-SGD adds noise to each parameter (Hoelzl, Rueckert and Kaissis 2023, Equivariant differentially private
deep learning: why DP-SGD needs sparser models).

Written by hand: the filters are turned, then one ordinary ``conv2d`` runs, which `torch.func` differentiates record by
record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from discreet.models.checks import among

QUARTERS = 4


@dataclass(frozen=True, kw_only=True)
class Symmetries:
    """C4 (order 4) or D4 (order 8). Element g turns by ``g % 4`` quarters, after a flip if ``g >= 4``."""

    name: str
    order: int

    def act(self, element: int, x: Tensor) -> Tensor:
        """``x`` turned, on its last two axes."""
        flipped = x.flip(-1) if element >= QUARTERS else x
        return torch.rot90(flipped, element % QUARTERS, (-2, -1)) if element % QUARTERS else flipped

    def product(self, left: int, right: int) -> int:
        """The element that acts as ``right``, then ``left``."""
        flips = (left >= QUARTERS) != (right >= QUARTERS)
        turns = left + (-right if left >= QUARTERS else right)  # a flip turns the other way round
        return turns % QUARTERS + QUARTERS * flips

    def inverse(self, element: int) -> int:
        """The element that undoes this one: a flip, with or without a turn, undoes itself."""
        return element if element >= QUARTERS else -element % QUARTERS

    def sources(self, element: int) -> list[int]:
        """For each s, the place of inv(g) s."""
        return [self.product(self.inverse(element), place) for place in range(self.order)]


GROUPS = {"c4": Symmetries(name="c4", order=4), "d4": Symmetries(name="d4", order=8)}


def symmetries(name: Any) -> Symmetries:
    """C4: quarter turns. D4: quarter turns and flips."""
    return GROUPS[among(name, "group", sorted(GROUPS))]


def by_orientation(x: Tensor, group: Symmetries) -> Tensor:
    """(n, c * |G|, h, w) as (n, c, |G|, h, w)."""
    return x.reshape(x.shape[0], x.shape[1] // group.order, group.order, *x.shape[2:])


class LiftingConv(nn.Module):
    """An image (n, before, h, w) to maps over the group (n, after * |G|, h, w); side ``kernel`` is odd, no bias."""

    def __init__(self, before: int, after: int, *, group: Symmetries, kernel: int = 3) -> None:
        super().__init__()
        self.group, self.padding = group, kernel // 2
        self.weight = nn.Parameter(torch.empty(after, before, kernel, kernel))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))  # as nn.Conv2d does

    def bank(self) -> Tensor:
        """All orientations of the filters, as an ordinary convolution's weights."""
        turned = [self.group.act(element, self.weight) for element in range(self.group.order)]
        return torch.stack(turned, 1).flatten(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The lifted maps."""
        return functional.conv2d(x, self.bank(), padding=self.padding)


class GroupConv(nn.Module):
    """Maps over the group (n, before * |G|, h, w) to maps over the group (n, after * |G|, h, w)."""

    def __init__(self, before: int, after: int, *, group: Symmetries, kernel: int = 3) -> None:
        super().__init__()
        self.group, self.padding = group, kernel // 2
        # four axes, so that a module can be moved to channels_last
        self.weight = nn.Parameter(torch.empty(after, before * group.order, kernel, kernel))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def bank(self) -> Tensor:
        """All orientations of the filters, their group axis turned along."""
        turned, weight = [], by_orientation(self.weight, self.group)
        for element in range(self.group.order):
            # unbinding and stacking, not indexing, whose gradient is a scatter: a quarter faster for each record
            slices = self.group.act(element, weight).unbind(2)
            turned.append(torch.stack([slices[source] for source in self.group.sources(element)], 2))
        return torch.stack(turned, 1).flatten(2, 3).flatten(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The maps, convolved over the plane and the group."""
        return functional.conv2d(x, self.bank(), padding=self.padding)


class SymmetricNorm(nn.Module):
    """Group normalisation whose statistics and affine weights are shared by all orientations of a channel."""

    def __init__(self, channels: int, *, group: Symmetries, groups: int) -> None:
        super().__init__()
        self.order, self.groups = group.order, math.gcd(channels, groups)
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """The maps, each record normalised by itself."""
        return functional.group_norm(x, self.groups, self._spread(self.weight), self._spread(self.bias))

    def _spread(self, values: Tensor) -> Tensor:
        return values.unsqueeze(1).expand(-1, self.order).flatten()


def symmetric_pool(x: Tensor) -> Tensor:
    """Max pooling by 2 that a turn of the image commutes with: windows of 2 on even sides, padded ones of 3 on odd."""
    odd = [side % 2 for side in x.shape[-2:]]
    return functional.max_pool2d(x, [2 + one for one in odd], stride=2, padding=odd)


def invariant_pool(x: Tensor, group: Symmetries) -> Tensor:
    """The largest value over orientations and places: (n, c * |G|, h, w) to (n, c), blind to turns of the image."""
    return by_orientation(x, group).amax((2, 3, 4))
