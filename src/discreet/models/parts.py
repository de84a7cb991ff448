"""Layers shared by the models: activations that do not write in place, and normalisation that does not mix records.

In-place activations overwrite what a per-record gradient engine saved for the backward pass; batch statistics make one
record's gradient depend on the others, which breaks the sensitivity that clipping gives. Neither occurs here.
"""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from discreet.models.checks import among

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "mish": nn.Mish, "gelu": nn.GELU}


def activation(name: Any) -> nn.Module:
    """A fresh activation layer, never in place."""
    return ACTIVATIONS[among(name, "activation", sorted(ACTIVATIONS))]()


def group_norm(channels: int, *, groups: int) -> nn.GroupNorm:
    """Group normalisation with the most groups that divide both ``channels`` and ``groups``: 32 of 48 gives 16."""
    return nn.GroupNorm(math.gcd(channels, groups), channels)
