"""Texts as a model takes them: vectors of a public, frozen encoder, or tokens of one public length.

Both are computed from a text when its row is asked for, a piece at a time. Vectors of a campaign's pool may be kept
(`discreet.recipes.feature_cache`); tokens are computed by each query and each training phase.
Guarantee: a row depends on its own text and on public files alone. A text that is missing is a null: zeros.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.models.encoders import SentenceEncoder, encode, load_tokenizer
from discreet.pools.rows import Mask, RecordArray, Span
from discreet.recipes.feature_cache import PoolCache
from discreet.recipes.feature_rows import FeatureRows, versions_of
from discreet.storage.disk import hash_of

MAX_LENGTH = 128
_FILES = (".json", ".model", ".safetensors", ".txt")
"""Of an encoder: what its vectors depend on."""
_COLUMNS = ("input_ids", "attention_mask")


class TextReader:
    """From texts to what the model takes. ``tokens``: ids of tokens, for a transformer; else vectors."""

    def __init__(self, path: Path, *, max_length: int, tokens: bool) -> None:
        self._encoder = SentenceEncoder(path, max_length=max_length)
        self.tokens, self.max_length = tokens, self._encoder.max_length

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self._encoder.path)

    reads = "texts"

    @property
    def inputs(self) -> tuple[int, ...]:
        """The shape of a row."""
        return (self.max_length,) if self.tokens else (self._encoder.width,)

    def read(self, texts: Any) -> Any:
        """Rows of ``texts``: an array, or a table of tokens."""
        strings = [str(text) for text in texts]
        if not self.tokens:
            return self._encoder.embed(strings) if strings else np.zeros((0, *self.inputs), dtype=np.float32)
        if not strings:
            return {name: np.zeros((0, self.max_length), dtype=np.int64) for name in _COLUMNS}
        tokens = encode(self._tokenizer, strings, max_length=self.max_length)
        return {name: tokens[name] for name in _COLUMNS}

    @cached_property
    def identity(self) -> str | None:
        """The hash of the encoder's files, the longest text, and the versions of the libraries that compute vectors."""
        if self.tokens:
            return None
        digest = hashlib.sha256(f"{self.max_length} {versions_of('torch', 'transformers', 'tokenizers')}".encode())
        for path in sorted(path for path in self._encoder.path.iterdir() if path.suffix in _FILES):
            digest.update(f" {path.name} {hash_of(path)}".encode())
        return f"encoder {digest.hexdigest()}"

    def rows(self, texts: Any, cached: PoolCache | None = None) -> Any:
        """All ``texts`` of a pool as rows that are read when they are asked for."""
        if not self.tokens:
            return FeatureRows(
                texts, lambda some: (self.read(some), np.ones(len(some), dtype=bool)), self.inputs, cached
            )
        return {name: TokenRows(texts, self, name) for name in _COLUMNS}

    def made_up(self, count: int) -> Any:
        """Rows of nobody's texts."""
        return self.read(["a text"] * count)


class TokenRows(RecordArray):
    """A column of tokens."""

    def __init__(self, texts: Any, reader: TextReader, name: str) -> None:
        super().__init__(shape=(len(texts), *reader.inputs), dtype=np.int64)
        self._texts, self._reader, self._name = texts, reader, name

    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The tokens of a span; a text that is missing has those of an empty one."""
        texts, fine = self._texts.readable(span)
        return self._reader.read(texts)[self._name], fine
