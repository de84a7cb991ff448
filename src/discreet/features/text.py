"""A feature map of texts: hashed words and letters. Nothing is downloaded, and there is no vocabulary.

Words and neighbouring words, and runs of letters within a word, are counted in places that a public hash assigns
(MurmurHash3, by scikit-learn's `HashingVectorizer`, with a sign that makes collisions cancel on average). Each kind has
one half of the features and is brought to length 1 for each text; together they are divided by the root of 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.checks import whole
from discreet.errors import BadInput
from discreet.features.feature_map import ROUNDING, FeatureMap, FeatureRequest, Features, checked
from discreet.parts import Option, Part
from discreet.pools.rows import Mask

_PIECE = 4096
SIZE, WORDS, LETTERS = whole(2, 2**20), whole(0, 5), whole(0, 8)
_SHORTEST = 3


@dataclass(frozen=True, kw_only=True)
class HashedText(FeatureMap):
    """Counts of hashed n-grams, in ``size`` features.

    words     the most neighbouring words that count as one feature; 0: no words
    letters   the longest run of letters, from 3; 0: no letters
    """

    name = "hashed-text"
    reads = "texts"
    size: int = 4096
    words: int = 2
    letters: int = 4

    def __post_init__(self) -> None:
        asked = f"{self.name} features"
        checked(asked, {"size": (SIZE, self.size), "words": (WORDS, self.words), "letters": (LETTERS, self.letters)})
        if not self._kinds or 0 < self.letters < _SHORTEST:
            fact = "letters run from 3" if self.letters else "they count neither words nor letters"
            raise BadInput(f"{asked} with words={self.words}, letters={self.letters}", fact, "Give words = 2")
        if self.size % len(self._kinds):
            raise BadInput(f"{asked} with size={self.size}", "it is not even", "Words and letters have one half each")

    @property
    def output_shape(self) -> tuple[int, ...]:
        """One axis."""
        return (self.size,)

    @property
    def norm_bound(self) -> float:
        """1."""
        return ROUNDING

    def options(self) -> dict[str, Any]:
        """What was chosen."""
        return {"size": self.size, "words": self.words, "letters": self.letters}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> HashedText:
        """The inverse of `options`."""
        return cls(**options)

    def readable(self, batch: Any) -> tuple[Features, Mask]:
        """The features of texts, and which records are texts: others are nulls. Audience: owner."""
        from sklearn.feature_extraction.text import HashingVectorizer

        if isinstance(batch, str) or not hasattr(batch, "__len__"):
            raise BadInput(f"{self.name} features", "the records are not a list of texts", "Put them in a list")
        width = self.size // len(self._kinds)
        hashing = [HashingVectorizer(analyzer=kind, ngram_range=span, n_features=width) for kind, span in self._kinds]
        fine = np.array([isinstance(text, str) for text in batch], dtype=bool)
        values = np.zeros((len(batch), self.size), dtype=np.float32)
        for start in range(0, len(batch), _PIECE):
            texts = [text if isinstance(text, str) else "" for text in batch[start : start + _PIECE]]
            for place, each in enumerate(hashing):
                counts = each.transform(texts).toarray() / math.sqrt(len(hashing))
                values[start : start + _PIECE, place * width : (place + 1) * width] = counts
        return values, fine

    @property
    def _kinds(self) -> list[tuple[str, tuple[int, int]]]:
        """scikit-learn's analyzers, and the lengths of n-grams."""
        kinds = [("word", (1, self.words))] if self.words else []
        return kinds + ([("char_wb", (_SHORTEST, self.letters))] if self.letters else [])


def _built(request: FeatureRequest) -> HashedText:
    return HashedText(**request.options)


PARTS = (
    Part(
        kind="feature",
        name="hashed-text",
        summary="texts: hashed words and letters",
        build=_built,
        options=(
            Option(name="size", check=SIZE, type="whole number", default="4096", meaning="how many features"),
            Option(
                name="words",
                check=WORDS,
                type="whole number",
                default="2",
                meaning="the most neighbouring words; 0: none",
            ),
            Option(
                name="letters",
                check=LETTERS,
                type="whole number",
                default="4",
                meaning="the longest run of letters, from 3; 0: none",
            ),
        ),
        reads=(),
        makes=(HashedText,),
    ),
)
