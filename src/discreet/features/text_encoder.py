"""The map `text-encoder`: the vector that a frozen sentence encoder makes of a text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.checks import whole
from discreet.errors import BadInput
from discreet.features.encoders import (
    ENCODER,
    NO_ENCODER,
    PRETRAINING,
    FrozenEncoder,
    hashes_of,
    one_vector,
    place_and_options,
)
from discreet.features.feature_map import UNIT_LENGTH, FeatureRequest, Features, at_length_one, checked, in_threads
from discreet.models.encoders import SentenceEncoder
from discreet.models.image_encoders import Run, is_named, named_callable, refuse_mixing, vectors_of
from discreet.parts import Option, Part
from discreet.pools.rows import Mask

_AT_ONCE = 256
MAX_LENGTH = whole(3, 100_000)


@dataclass(frozen=True, kw_only=True)
class TextEncoder(FrozenEncoder):
    """Of texts. ``max_length``: the most tokens that are read of one."""

    name = "text-encoder"
    reads = "texts"
    max_length: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(f"{self.name} features", {"max_length": (MAX_LENGTH, self.max_length)})

    def readable(self, batch: Any) -> tuple[Features, Mask]:
        """The features of texts, and which records are texts: others are nulls. Audience: owner."""
        if isinstance(batch, str) or not hasattr(batch, "__len__"):
            raise BadInput(f"{self.name} features", "the records are not a list of texts", "Put them in a list")
        fine = np.array([isinstance(words, str) for words in batch], dtype=bool)
        values = np.zeros((len(batch), self.width), dtype=np.float32)
        places, run = np.flatnonzero(fine), self._run

        def compute(some: NDArray[np.int64]) -> None:
            for place in some.tolist():
                values[place] = one_vector(run, [str(batch[place])], self.width)[0]

        in_threads([(compute, places[start : start + _AT_ONCE]) for start in range(0, len(places), _AT_ONCE)])
        fine &= np.isfinite(values).all(axis=1)
        values[~fine] = 0
        return (at_length_one(values) if self.unit_length else values), fine

    @cached_property
    def _run(self) -> Run:
        return _opened_texts(self._verified(), self.kind, self.max_length, tuple(self.files.items()))

    def probe(self) -> None:
        """Refuse an encoder that mixes records."""
        refuse_mixing(self._run, ["a text", "another and much longer text, of many words", ""], f"{self.name} features")


@lru_cache(maxsize=2)
def _opened_texts(encoder: Path | str, kind: str, max_length: int, _files: tuple[tuple[str, str], ...]) -> Run:
    if kind == "callable":
        return named_callable(str(encoder))
    encode = SentenceEncoder(encoder, max_length=max_length, normalise=False)
    encode.embed(["a text"])  # read now, by one thread: an encoder that cannot be read is no null of a record
    return encode.embed


def text_encoder(encoder: Path | str, **options: Any) -> TextEncoder:
    """The map by the encoder in a local directory, or by a function of a list of texts."""
    kind, files = "callable" if is_named(encoder) and not Path(encoder).exists() else "transformers", {}
    if kind == "transformers":
        SentenceEncoder(encoder)  # refuses what is no directory of a model
    files = hashes_of(encoder)
    run = _opened_texts(encoder, kind, options.get("max_length", 128), tuple(files.items()))
    width = vectors_of(run, ["a text"], f"the encoder {Path(encoder).name}").shape[1]
    feature_map = TextEncoder(encoder=encoder, kind=kind, files=files, width=width, **options)
    feature_map.probe()
    return feature_map


def _built_text(request: FeatureRequest) -> TextEncoder:
    place, options = place_and_options(request, "text-encoder")
    return text_encoder(place, **options)


PARTS = (
    Part(
        kind="feature",
        name="text-encoder",
        summary="texts: the vector of a frozen sentence encoder",
        build=_built_text,
        options=(
            ENCODER,
            PRETRAINING,
            Option(
                name="max_length", check=MAX_LENGTH, type="whole number", default="128", meaning="the most tokens read"
            ),
            UNIT_LENGTH,
        ),
        required={"encoder": NO_ENCODER},
        reads=(),
        makes=(TextEncoder,),
    ),
)
