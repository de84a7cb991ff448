"""Vectors of a public set by a public, frozen encoder: computed once by benchmarks/embed.py, read from a directory.

A directory is named by the set, the encoder, and a hash of both and of how records are prepared, so other weights,
other files or another size of pictures are another directory. Reading compares its hash with the set's own files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.bench.sets import Data, digest_of, paths_of
from discreet.errors import BadInput
from discreet.privacy.files import write_whole

FORMAT = "discreet.embeddings/1"
PLACE = "embeddings"
PARTS = ("train", "test")
ENCODERS: dict[str, str] = {"clinc150": "minilm-l6-v2", "banking77": "minilm-l6-v2", "cifar10": "efficientnet-lite0"}
"""Which encoder is a set's."""


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """What vectors were made of. ``weights``: a hash of the encoder's files; ``data``: of the set's."""

    data_set: Data
    encoder: str
    weights: str
    data: str
    prepared: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Names all of it."""
        told = json.dumps([self.encoder, self.weights, self.data, dict(self.prepared)], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    @property
    def directory(self) -> str:
        """The name of its directory."""
        return f"{self.data_set}-{self.encoder}-{self.digest}"


def keep_embedding(place: Path, made: Embedding, vectors: Mapping[str, NDArray[np.float32]]) -> Path:
    """Write vectors below ``place``; what describes them comes last, so that half of them are never read."""
    directory = place / PLACE / made.directory
    directory.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        np.save(directory / f"{part}.npy", vectors[part].astype(np.float32))
    form = {
        "format": FORMAT,
        "data_set": made.data_set,
        "encoder": made.encoder,
        "weights": made.weights,
        "data": made.data,
        "prepared": dict(made.prepared),
    }
    write_whole(directory / "embedding.json", json.dumps(form, indent=1) + "\n")
    return directory


def read_embedding(name: Data, place: Path | None) -> tuple[Embedding, NDArray[np.float32], NDArray[np.float32]]:
    """The vectors of the set's files as they are now: of the pool, and of the test."""
    encoder = ENCODERS.get(name)
    if encoder is None:
        raise BadInput(f"vectors of {name}", "no encoder is its", f"Choose one of {', '.join(ENCODERS)}")
    data = digest_of(paths_of(name, place))
    assert place is not None  # these sets have files
    found = [path for path in sorted((place / PLACE).glob(f"{name}-{encoder}-*")) if (path / "embedding.json").exists()]
    fitting = [(path, made) for path in found if (made := _described(path)).data == data]
    if len(fitting) != 1:
        so = "there are none of these files" if not fitting else "there are several, made in different ways"
        do = f"Make them with benchmarks/embed.py {name}" if not fitting else "Keep one of the directories"
        raise BadInput(f"vectors of {name}", so, do)
    path, made = fitting[0]
    try:
        train, test = (np.load(path / f"{part}.npy", allow_pickle=False) for part in PARTS)
    except (OSError, ValueError):
        raise BadInput(f"vectors of {name}", "a file of theirs cannot be read", "Make them again") from None
    return made, train, test


def _described(path: Path) -> Embedding:
    try:
        form = json.loads((path / "embedding.json").read_text(encoding="utf-8"))
        if form.pop("format") != FORMAT:
            raise ValueError
        made = Embedding(**form)
        if made.directory != path.name:
            raise ValueError
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise BadInput(f"the vectors in {path.name}", "they are not what their name says", "Make them again") from None
    return made
