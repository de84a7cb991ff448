"""Small models that train well under DP-SGD, one door to them: `build_model`.

Every model here keeps three promises. It never mixes records (no batch normalisation), so that a record's gradient is
its own. It splits at a seam, ``forward(x) = head(features(x))``, with the only dropout in the head, so that many
Bayesian draws cost one pass of the trunk. And its initial weights follow from a public seed alone.

Importing this room does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.models.build import build_model, model_names
from discreet.models.sentences import SentenceEncoder
from discreet.models.tokens import tokenize

if TYPE_CHECKING:
    from discreet.models.mixing import replace_batch_norm

__all__ = ["SentenceEncoder", "build_model", "model_names", "replace_batch_norm", "tokenize"]


def __getattr__(name: str) -> Any:
    """`replace_batch_norm` brings torch with it, so it is imported when it is asked for."""
    if name == "replace_batch_norm":
        from discreet.models.mixing import replace_batch_norm

        return replace_batch_norm
    raise AttributeError(f"module 'discreet.models' has no attribute {name!r}")
