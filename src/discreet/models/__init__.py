"""Small models that train well under DP-SGD, built by name: `build_model`.

Every model here gives three guarantees. It never mixes records (no batch normalisation), so that a record's gradient is
its own. It splits at a seam, ``forward(x) = head(features(x))``, with the only dropout in the head, so that many
Bayesian draws cost one pass of the trunk. And its initial weights follow from a public seed alone.

Importing this room does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.lazy_imports import lazy_names
from discreet.models.build import build_model, model_names
from discreet.models.encoders import SentenceEncoder, tokenize

if TYPE_CHECKING:
    from discreet.models.layers import replace_batch_norm

__all__ = ["SentenceEncoder", "build_model", "model_names", "replace_batch_norm", "tokenize"]
__getattr__ = lazy_names(__name__, {"replace_batch_norm": "discreet.models.layers"})
