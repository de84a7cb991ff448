"""ResNet-9 with scale normalisation.

After Klause et al. 2022, Differentially private training of residual networks with scale normalisation:

    conv w - conv 2w, pool - [residual: conv 2w, conv 2w] - scale norm
           - conv 4w, pool - conv 4w, pool - [residual: conv 4w, conv 4w] - scale norm - adaptive max pool 2 x 2 - dense

A conv is 3 x 3 without bias, group normalisation, activation. The residual addition brings two branches of unit scale
together, so its sum has another scale; the scale norm, a group normalisation *after* the addition, brings it back. The
paper found this to be what residual networks lacked under DP-SGD. With ``width`` 64, on 3 x 32 x 32 and ten classes, it
has 2,448,714 parameters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from discreet.models.checks import among, image_shape, whole
from discreet.models.layers import Head, Split, activated_and_pooled, group_norm
from discreet.models.layers import activation as activation_layer

LEAST_SIDE = 16  # three halvings leave the 2 x 2 of the last pooling


class ResidualNetwork(Split):
    """The trunk that both networks share: nine layers, two residual blocks, a scale norm after each addition."""

    def build_trunk(
        self, first: nn.Module, conv: Callable[..., nn.Module], norm: Callable[[int], nn.Module], w: int
    ) -> None:
        """Make the layers of ``w`` to 4 ``w`` channels: ``conv(before, after, pool=...)``, and ``norm(channels)``."""
        self.stem = nn.Sequential(first, conv(w, 2 * w, pool=True))
        self.first_residual = nn.Sequential(conv(2 * w, 2 * w), conv(2 * w, 2 * w))
        self.first_scale = norm(2 * w)
        self.middle = nn.Sequential(conv(2 * w, 4 * w, pool=True), conv(4 * w, 4 * w, pool=True))
        self.second_residual = nn.Sequential(conv(4 * w, 4 * w), conv(4 * w, 4 * w))
        self.second_scale = norm(4 * w)

    def maps(self, x: Tensor) -> Tensor:
        """The last maps."""
        x = self.stem(x)
        x = self.middle(self.first_scale(x + self.first_residual(x)))
        maps: Tensor = self.second_scale(x + self.second_residual(x))
        return maps


class ResNet9(ResidualNetwork):
    """Nine layers, two residual blocks; the embedding is the 2 x 2 pooled last maps, 16 ``width`` numbers."""

    def __init__(
        self,
        *,
        inputs: tuple[int, ...],
        classes: int,
        dropout: float,
        width: int = 64,
        groups: int = 32,
        activation: str = "mish",
    ) -> None:
        super().__init__()
        channels, _, _ = image_shape(inputs, model="resnet9", least=LEAST_SIDE)
        w, groups = whole(width, "width"), whole(groups, "groups")

        def conv(before: int, after: int, *, pool: bool = False) -> nn.Sequential:
            ending = activated_and_pooled(activation, nn.MaxPool2d(2)) if pool else [activation_layer(activation)]
            convolution = nn.Conv2d(before, after, 3, padding=1, bias=False)
            return nn.Sequential(convolution, group_norm(after, groups=groups), *ending)

        self.build_trunk(conv(channels, w), conv, functools.partial(group_norm, groups=groups), w)
        self.pool = nn.AdaptiveMaxPool2d(2)
        self.head = Head(width=16 * w, classes=classes, dropout=dropout)

    def features(self, x: Tensor) -> Tensor:
        """The last maps, pooled to 2 x 2 and flattened."""
        return torch.flatten(self.pool(self.maps(x)), 1)


# ResNet-9 built of group convolutions: turning (D4: or flipping) the image does not change the output.
#
# The layers of `resnet9`, scale norms included, over C4 or D4 (Hoelzl, Rueckert and Kaissis 2023). By default ``width``
# times |G| is 64, so that there are as many maps, and as much work, as in ``resnet9``, from |G| times fewer convolution
# weights. At the end the largest value over orientations and places is kept, where ``resnet9`` keeps 2 x 2 places.
#
# Meant for images without an up: cells, tissue, satellite pictures. On digits, C4 makes 6 and 9 one class.

MAPS = 64  # of the first layer, orientations counted, as in resnet9


class SymmetricBlock(nn.Module):
    """Convolution, normalisation, activation and, if asked, pooling, over the group."""

    def __init__(self, conv: LiftingConv, *, channels: int, groups: int, activation: str, pool: bool = False) -> None:
        super().__init__()
        self.conv, self.pool = conv, pool
        self.norm = SymmetricNorm(channels, group=conv.group, groups=groups)
        self.activation = activation_layer(activation)

    def forward(self, x: Tensor) -> Tensor:
        """The maps, half the size if pooled."""
        maps = self.activation(self.norm(self.conv(x)))
        return symmetric_pool(maps) if self.pool else maps


class EquivariantResNet9(ResidualNetwork):
    """Nine layers over C4 or D4; the embedding is 4 ``width`` numbers that a turn of the image leaves alone."""

    def __init__(
        self,
        *,
        inputs: tuple[int, ...],
        classes: int,
        dropout: float,
        group: str = "d4",
        width: int | None = None,
        groups: int = 32,
        activation: str = "mish",
    ) -> None:
        super().__init__()
        channels, _, _ = image_shape(inputs, model="equivariant_resnet9", least=LEAST_SIDE)
        self.group: Symmetries = symmetries(group)
        w = MAPS // self.group.order if width is None else whole(width, "width")
        groups = whole(groups, "groups")

        def block(before: int, after: int, *, pool: bool = False) -> SymmetricBlock:
            conv = GroupConv(before, after, group=self.group)
            return SymmetricBlock(conv, channels=after, groups=groups, activation=activation, pool=pool)

        lift = LiftingConv(channels, w, group=self.group)
        first = SymmetricBlock(lift, channels=w, groups=groups, activation=activation)
        self.build_trunk(first, block, functools.partial(SymmetricNorm, group=self.group, groups=groups), w)
        self.head = Head(width=4 * w, classes=classes, dropout=dropout)

    def features(self, x: Tensor) -> Tensor:
        """The largest response of each channel, over places and orientations."""
        return invariant_pool(self.maps(x), self.group)


# Convolutions over the rotations, or rotations and flips, of a square: C4 and D4 (Cohen and Welling 2016).
#
# A symmetry g acts on an image as act(g, x): flip left to right if it flips, then turn by quarter turns. A map over the
# group has a copy for each g, stored as channels ``c * |G| + g``. With a filter W,
#
#     lifting:  out[g] = x * act(g, W)                              an image in, a map over the group out
#     group:    out[g] = sum over s of x[s] * act(g, W[inv(g) s])   a map over the group in and out
#
# Guarantee (equivariance): if the input is turned by h, then out'[g] = act(h, out[inv(h) g]), exactly, on any image
# whose
# pooling is symmetric (`symmetric_pool`). One filter thus serves |G| orientations: |G| times fewer parameters for
# as many
# maps, and DP-SGD adds noise to each parameter (Hoelzl, Rueckert and Kaissis 2023, Equivariant differentially private
# deep learning: why DP-SGD needs sparser models).
#
# Written by hand: the filters are turned, then one ordinary ``conv2d`` runs, which `torch.func` differentiates
# record by
# record.


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
        return [self.product(self.inverse(element), element_of) for element_of in range(self.order)]


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


class GroupConv(LiftingConv):
    """Maps over the group (n, before * |G|, h, w) to maps over the group (n, after * |G|, h, w)."""

    def __init__(self, before: int, after: int, *, group: Symmetries, kernel: int = 3) -> None:
        # four axes, so that a module can be moved to channels_last
        super().__init__(before * group.order, after, group=group, kernel=kernel)

    def bank(self) -> Tensor:
        """All orientations of the filters, their group axis turned along."""
        turned, weight = [], by_orientation(self.weight, self.group)
        for element in range(self.group.order):
            # unbinding and stacking, not indexing, whose gradient is a scatter: a quarter faster for each record
            slices = self.group.act(element, weight).unbind(2)
            turned.append(torch.stack([slices[source] for source in self.group.sources(element)], 2))
        return torch.stack(turned, 1).flatten(2, 3).flatten(0, 1)


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
    return functional.max_pool2d(x, [2 + remainder for remainder in odd], stride=2, padding=odd)


def invariant_pool(x: Tensor, group: Symmetries) -> Tensor:
    """The largest value over orientations and places: (n, c * |G|, h, w) to (n, c), blind to turns of the image."""
    return by_orientation(x, group).amax((2, 3, 4))
