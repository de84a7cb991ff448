"""Sentences to vectors by a public, frozen encoder: the mean over a text's tokens, brought to length 1.

On top goes a model of vectors (``embedding_head``, ``linear``, ``mlp``), and only that one is trained privately. The
encoder never sees a gradient, so embedding costs no budget as long as the vectors stay with the owner: a vector is
private data like the text it came from.

Guarantee: a text's vector depends on that text alone. Texts are padded to the next multiple of 16 of their own length
and batched with their equals, not padded to the longest neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.models.checks import require, whole
from discreet.models.tokens import Tokens, encode, load_tokenizer

STEP = 16


class SentenceEncoder:
    """Embeds texts with the encoder in the local directory ``path``; it is read at first use."""

    def __init__(self, path: Any, *, max_length: int = 128, batch_size: int = 64, normalise: bool = True) -> None:
        require("torch", extra="torch", asked="a sentence encoder")
        require("transformers", extra="text", asked="a sentence encoder")
        from discreet.models.encoders import local_directory

        self.path = local_directory(path)
        self.max_length = whole(max_length, "max_length", least=3)
        self.batch_size = whole(batch_size, "batch_size")
        self.normalise = normalise

    @property
    def width(self) -> int:
        """The length of a vector."""
        return int(self._encoder.config.hidden_size)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector a text, (n, width), in the order of the texts."""
        tokens = encode(self._tokenizer, texts, max_length=self.max_length)
        vectors = np.zeros((len(tokens["input_ids"]), self.width), dtype=np.float32)
        for rows, length in self._batches(tokens):
            vectors[rows] = self._means({name: values[rows, :length] for name, values in tokens.items()})
        return vectors

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self.path)

    @cached_property
    def _encoder(self) -> Any:
        from discreet.models.encoders import load_encoder, longest

        encoder = load_encoder(path=self.path).eval().requires_grad_(False)
        if self.max_length > longest(encoder):
            raise BadInput(
                f"a sentence encoder with max_length={self.max_length}",
                f"this one takes at most {longest(encoder)} tokens",
                "Give a smaller max_length",
            )
        return encoder

    def _batches(self, tokens: Tokens) -> Iterator[tuple[NDArray[np.int64], int]]:
        """Rows of about equal length, and the length they are cut to."""
        own = tokens["attention_mask"].sum(1)
        lengths = np.minimum(-(-own // STEP) * STEP, self.max_length)
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            for start in range(0, len(rows), self.batch_size):
                yield rows[start : start + self.batch_size], int(length)

    def _means(self, tokens: Tokens) -> NDArray[np.float32]:
        import torch

        given = {name: torch.from_numpy(values) for name, values in tokens.items()}
        with torch.inference_mode():
            hidden = self._encoder(**given).last_hidden_state
            mask = given["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
            if self.normalise:
                mean = torch.nn.functional.normalize(mean, dim=1)
            vectors: NDArray[np.float32] = mean.numpy()
            return vectors
