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

from torch import Tensor, nn

from discreet.models.checks import image_shape, whole
from discreet.models.parts import activated_and_pooled, group_norm
from discreet.models.parts import activation as activation_layer
from discreet.models.split import Head, Split

LEAST_SIDE = 16  # three halvings leave the 2 x 2 of the last pooling


class ResNet9(Split):
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

        self.stem = nn.Sequential(conv(channels, w), conv(w, 2 * w, pool=True))
        self.first_residual = nn.Sequential(conv(2 * w, 2 * w), conv(2 * w, 2 * w))
        self.first_scale = group_norm(2 * w, groups=groups)
        self.middle = nn.Sequential(conv(2 * w, 4 * w, pool=True), conv(4 * w, 4 * w, pool=True))
        self.second_residual = nn.Sequential(conv(4 * w, 4 * w), conv(4 * w, 4 * w))
        self.second_scale = group_norm(4 * w, groups=groups)
        self.pool = nn.AdaptiveMaxPool2d(2)
        self.head = Head(width=16 * w, classes=classes, dropout=dropout)

    def features(self, x: Tensor) -> Tensor:
        """The last maps, pooled to 2 x 2 and flattened."""
        x = self.stem(x)
        x = self.first_scale(x + self.first_residual(x))
        x = self.middle(x)
        x = self.second_scale(x + self.second_residual(x))
        maps: Tensor = self.pool(x)
        return maps.flatten(1)
