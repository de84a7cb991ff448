"""A pretrained text encoder whose last layers, pooler and classifier train; the rest is public and frozen.

A record is a table of two rows of ``length`` numbers: ``input_ids`` and ``attention_mask`` (see `tokens.tokenize`), and
``token_type_ids`` for pairs of texts. ``inputs`` is (length,), a public number.

Two traps are closed here. Position ids are made for each record: the library's (1, length) row, broadcast over the
batch, has no record axis, and engines that take per-record gradients by hooks on layers fail on it. And the mask is
given in the additive form of plain attention: the library's own way from a mask looks at its values, which
``torch.func.vmap`` refuses.

Fewer trained weights means less noise for the same promise: Schwethelm et al. (Differentially private active learning:
balancing effective data selection and privacy) train BERT's last two layers on SNLI, the default here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from discreet.errors import BadInput
from discreet.models.checks import vector_width, whole
from discreet.models.encoders import PADDED_POSITIONS, encoder_layers, load_encoder, longest
from discreet.models.split import Head, Split

NEEDED = ("input_ids", "attention_mask")


class TransformerClassifier(Split):
    """A BERT-like encoder with a fresh classifier; the embedding is the pooled first token."""

    def __init__(
        self,
        *,
        inputs: tuple[int, ...],
        classes: int,
        dropout: float,
        path: Any = None,
        config: Any = None,
        train_layers: int = 2,
    ) -> None:
        super().__init__()
        length = vector_width(inputs, model="transformer")
        self.encoder = load_encoder(path=path, config=config)
        if length > longest(self.encoder):
            raise BadInput(
                f"the model 'transformer' on {length} tokens",
                f"this encoder takes at most {longest(self.encoder)}",
                "Cut the texts: a smaller max_length in tokenize, and the same in inputs",
            )
        width = int(self.encoder.config.hidden_size)
        self.pooler: nn.Module | None = None
        if getattr(self.encoder, "pooler", None) is None:  # DistilBERT
            self.pooler = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        self.head = Head(width=width, classes=classes, dropout=dropout)
        self._freeze(whole(train_layers, "train_layers", least=0))
        self.train()

    def _freeze(self, train_layers: int) -> None:
        layers = encoder_layers(self.encoder)
        if train_layers > len(layers):
            raise BadInput(
                f"train_layers={train_layers}", f"the encoder has {len(layers)} layers", "Train at most as many"
            )
        self.encoder.requires_grad_(False)
        for layer in layers[len(layers) - train_layers :]:
            layer.requires_grad_(True)
        if self.pooler is None:
            self.encoder.pooler.requires_grad_(True)

    def features(self, x: Mapping[str, Tensor]) -> Tensor:
        """The pooled first token."""
        if not isinstance(x, Mapping) or any(name not in x for name in NEEDED):
            raise BadInput(
                "the model 'transformer' on a batch", f"it takes a table of {' and '.join(NEEDED)}", "Use tokenize"
            )
        output = self.encoder(**self._arguments(x))
        pooled: Tensor = output.pooler_output if self.pooler is None else self.pooler(output.last_hidden_state[:, 0])
        return pooled

    def _arguments(self, x: Mapping[str, Tensor]) -> dict[str, Tensor]:
        tokens, family = x["input_ids"], self.encoder.config.model_type
        given = {"input_ids": tokens, "attention_mask": self._additive(x["attention_mask"])}
        if family not in PADDED_POSITIONS:  # those count real tokens, already for each record
            given["position_ids"] = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
        if family != "distilbert":
            given["token_type_ids"] = x.get("token_type_ids", torch.zeros_like(tokens))
        return given

    def _additive(self, mask: Tensor) -> Tensor:
        """0 where there is a token, the most negative number where there is padding: (n, 1, length, length)."""
        kind: torch.dtype = next(self.head.parameters()).dtype
        hidden: Tensor = (1 - mask.to(kind)) * torch.finfo(kind).min
        return hidden[:, None, None, :].expand(-1, 1, mask.shape[1], -1)
