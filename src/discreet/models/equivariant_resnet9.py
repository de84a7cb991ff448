"""ResNet-9 built of group convolutions: turning (D4: or flipping) the image does not change the output.

The layers of `resnet9`, scale norms included, over C4 or D4 (Hoelzl, Rueckert and Kaissis 2023). By default ``width``
times |G| is 64, so that there are as many maps, and as much work, as in ``resnet9``, from |G| times fewer convolution
weights. At the end the largest value over orientations and places is kept, where ``resnet9`` keeps 2 x 2 places.

Meant for images without an up: cells, tissue, satellite pictures. On digits, C4 makes 6 and 9 one class.
"""

from __future__ import annotations

from torch import Tensor, nn

from discreet.models.checks import image_shape, whole
from discreet.models.group_convolution import (
    GroupConv,
    LiftingConv,
    SymmetricNorm,
    Symmetries,
    invariant_pool,
    symmetric_pool,
    symmetries,
)
from discreet.models.parts import activation as activation_layer
from discreet.models.split import Head, Split

LEAST_SIDE = 16
MAPS = 64  # of the first layer, orientations counted, as in resnet9


class Block(nn.Module):
    """Convolution, normalisation, activation and, if asked, pooling, over the group."""

    def __init__(
        self, conv: GroupConv | LiftingConv, *, channels: int, groups: int, activation: str, pool: bool = False
    ) -> None:
        super().__init__()
        self.conv, self.pool = conv, pool
        self.norm = SymmetricNorm(channels, group=conv.group, groups=groups)
        self.activation = activation_layer(activation)

    def forward(self, x: Tensor) -> Tensor:
        """The maps, half the size if pooled."""
        maps: Tensor = self.activation(self.norm(self.conv(x)))
        return symmetric_pool(maps) if self.pool else maps


class EquivariantResNet9(Split):
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

        def block(before: int, after: int, *, pool: bool = False) -> Block:
            conv = GroupConv(before, after, group=self.group)
            return Block(conv, channels=after, groups=groups, activation=activation, pool=pool)

        lift = LiftingConv(channels, w, group=self.group)
        first = Block(lift, channels=w, groups=groups, activation=activation)
        self.stem = nn.Sequential(first, block(w, 2 * w, pool=True))
        self.first_residual = nn.Sequential(block(2 * w, 2 * w), block(2 * w, 2 * w))
        self.first_scale = SymmetricNorm(2 * w, group=self.group, groups=groups)
        self.middle = nn.Sequential(block(2 * w, 4 * w, pool=True), block(4 * w, 4 * w, pool=True))
        self.second_residual = nn.Sequential(block(4 * w, 4 * w), block(4 * w, 4 * w))
        self.second_scale = SymmetricNorm(4 * w, group=self.group, groups=groups)
        self.head = Head(width=4 * w, classes=classes, dropout=dropout)

    def features(self, x: Tensor) -> Tensor:
        """The largest response of each channel, over places and orientations."""
        x = self.stem(x)
        x = self.first_scale(x + self.first_residual(x))
        x = self.middle(x)
        x = self.second_scale(x + self.second_residual(x))
        return invariant_pool(x, self.group)
