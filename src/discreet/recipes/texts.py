"""Texts as a transformer takes them: tokens of one public length.

They are computed from a text when its row is asked for, a piece at a time, and never kept on disk. Guarantee:
a row depends on its own text and on public files alone. A text that is missing is a null: zeros.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import require
from discreet.models.encoders import encode, load_tokenizer, local_directory
from discreet.pools.rows import Mask, RecordArray, Span
from discreet.recipes.feature_cache import PoolCache

MAX_LENGTH = 128
_COLUMNS = ("input_ids", "attention_mask")


class TokenReader:
    """From texts to ids of tokens, by the tokenizer in a local directory."""

    def __init__(self, path: Path, *, max_length: int) -> None:
        require("torch", extra="torch", asked="a transformer")
        require("transformers", extra="text", asked="a transformer")
        self._path, self.max_length = local_directory(path), max_length

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self._path)

    reads = "texts"

    @property
    def inputs(self) -> tuple[int, ...]:
        """The shape of a row."""
        return (self.max_length,)

    def read(self, texts: Any) -> Any:
        """A table of tokens."""
        strings = [str(text) for text in texts]
        if not strings:
            return {name: np.zeros((0, self.max_length), dtype=np.int64) for name in _COLUMNS}
        tokens = encode(self._tokenizer, strings, max_length=self.max_length)
        return {name: tokens[name] for name in _COLUMNS}

    @property
    def identity(self) -> None:
        """Tokens are not kept: they are made quickly."""

    def rows(self, texts: Any, _cached: PoolCache | None = None) -> Any:
        """All ``texts`` of a pool as rows that are read when they are asked for."""
        return {name: TokenRows(texts, self, name) for name in _COLUMNS}

    def made_up(self, count: int) -> Any:
        """Rows of nobody's texts."""
        return self.read(["a text"] * count)


class TokenRows(RecordArray):
    """A column of tokens."""

    def __init__(self, texts: Any, reader: TokenReader, name: str) -> None:
        super().__init__(shape=(len(texts), *reader.inputs), dtype=np.int64)
        self._texts, self._reader, self._name = texts, reader, name

    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The tokens of a span; a text that is missing has those of an empty one."""
        texts, fine = self._texts.readable(span)
        return self._reader.read(texts)[self._name], fine
