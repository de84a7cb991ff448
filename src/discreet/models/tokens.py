"""Texts to token ids of one fixed, public length: the shape of the result tells nothing about a text.

The tokenizer is read from a local directory; it is public, so tokenising costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.models.checks import require, whole

Tokens = dict[str, NDArray[np.int64]]


def tokenize(texts: Sequence[str], *, path: Any, max_length: int, pairs: Sequence[str] | None = None) -> Tokens:
    """``input_ids`` and ``attention_mask`` of shape (n, max_length), cut and padded on the right.

    ``pairs`` gives each text a second one (a premise its hypothesis); where the model tells the two apart,
    ``token_type_ids`` is in the result too.
    """
    return encode(load_tokenizer(path), texts, max_length=whole(max_length, "max_length", least=3), pairs=pairs)


def load_tokenizer(path: Any) -> Any:
    """The tokenizer of a local model directory."""
    require("torch", extra="torch", asked="a tokenizer")
    require("transformers", extra="text", asked="a tokenizer")
    from discreet.models.encoders import local_directory

    directory = local_directory(path)
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    except Exception as problem:
        raise BadInput(
            f"the tokenizer in {str(path)!r}",
            f"it could not be read ({type(problem).__name__})",
            "Put tokenizer.json, or the vocabulary, beside config.json",
        ) from problem
    # without its vocabulary a tokenizer is made all the same, and reads every word as unknown
    files = {"tokenizer.json", *tokenizer.vocab_files_names.values()}
    if not any((directory / name).is_file() for name in files):
        raise BadInput(f"the tokenizer in {str(path)!r}", "its vocabulary is missing", f"Add one of {sorted(files)}")
    if tokenizer.pad_token_id is None:
        raise BadInput(f"the tokenizer in {str(path)!r}", "it has no padding token", "Use an encoder's tokenizer")
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    return tokenizer


def encode(tokenizer: Any, texts: Sequence[str], *, max_length: int, pairs: Sequence[str] | None = None) -> Tokens:
    """`tokenize` with a tokenizer at hand."""
    first = _texts(texts, "texts")
    second = None if pairs is None else _texts(pairs, "pairs")
    if second is not None and len(second) != len(first):
        raise BadInput(f"{len(first)} texts and {len(second)} pairs", "each text has one pair", "Give as many of both")
    wanted = ["input_ids", "attention_mask"]
    if second is not None and "token_type_ids" in tokenizer.model_input_names:
        wanted.append("token_type_ids")
    if not first:
        return {name: np.zeros((0, max_length), dtype=np.int64) for name in wanted}
    given = tokenizer(first, second, padding="max_length", truncation=True, max_length=max_length)
    return {name: np.asarray(given[name], dtype=np.int64) for name in wanted}


def _texts(texts: Any, name: str) -> list[str]:
    """The texts as a list; what is not text is refused without being shown."""
    if isinstance(texts, str) or not hasattr(texts, "__iter__"):
        raise BadInput(f"{name} of type {type(texts).__name__}", "a sequence of strings is needed", "Put it in a list")
    found = [str(text) for text in texts if isinstance(text, str)]
    if len(found) != len(texts):
        raise BadInput(
            f"{len(texts)} {name}", f"{len(texts) - len(found)} of them are not strings", "Give every text as a string"
        )
    return found
