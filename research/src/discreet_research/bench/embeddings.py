"""Maps from pictures to numbers that no data was used for: edges in cells, plain pixels, random features.

They are public, the same for every seed, and look at one record at a time.

Vectors of a public set by a public, frozen encoder: computed once by benchmarks/embed.py, read from a directory.

A directory is named by the set, the encoder, and a hash of both and of how records are prepared, so other weights,
other files or another size of pictures are another directory. Reading compares its hash with the set's own files.

Scattering is computed once for each file of data, and kept as .npy in ``features`` of the directory of data; its name
says the map, the part and the files.
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

from discreet.errors import BadInput
from discreet.privacy.files import write_whole
from discreet_research.bench.sets import Data, digest_of, paths_of, read_set

Floats = NDArray[np.float32]
_FEATURE_SEED = 20_000
"""Random features are a public map, the same for every seed."""
_DIRECTIONS, _PIECE = 8, 5_000
_PICTURES_AT_ONCE = 2_048


class random_features:  # noqa: N801 - a function with its tables
    """A random layer of rectified sums, centred and brought to length 1, record by record: a public map."""

    def __init__(self, inputs: int, outputs: int) -> None:
        chance = np.random.default_rng(_FEATURE_SEED)
        self._weights = chance.normal(size=(inputs, outputs)).astype(np.float32)

    def __call__(self, x: Floats) -> Floats:
        """(n, inputs) to (n, outputs)."""
        features = np.maximum(x @ self._weights, 0)
        features -= features.mean(axis=1, keepdims=True)
        return to_length_one(features)


def cells(images: NDArray[Any]) -> Floats:
    """(n, 28, 28) pictures of bytes to (n, 441): how strong edges of eight directions are in each of 7 x 7 cells, and
    how bright it is there. Nothing is fitted to data.
    """
    return np.concatenate([_cells(images[start : start + _PIECE]) for start in range(0, len(images), _PIECE)])


def _cells(images: NDArray[Any]) -> Floats:
    light = images.astype(np.float32) / np.float32(255)
    across, down = np.zeros_like(light), np.zeros_like(light)
    across[:, :, 1:-1] = light[:, :, 2:] - light[:, :, :-2]
    down[:, 1:-1] = light[:, 2:] - light[:, :-2]
    strength = np.hypot(across, down)
    turn = np.mod(np.arctan2(down, across), np.pi) * np.float32(_DIRECTIONS / np.pi)
    direction = np.floor(turn)
    part, first = turn - direction, direction.astype(np.int64) % _DIRECTIONS
    edges = np.zeros((len(light), _DIRECTIONS, 28, 28), dtype=np.float32)
    where = np.indices(light.shape)
    edges[where[0], first, where[1], where[2]] += strength * (1 - part)
    edges[where[0], (first + 1) % _DIRECTIONS, where[1], where[2]] += strength * part
    summed = np.sqrt(edges.reshape(-1, _DIRECTIONS, 7, 4, 7, 4).sum(axis=(3, 5)))
    bright = light.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)) - np.float32(0.3)
    parts = [to_length_one(part.reshape(len(light), -1)) for part in (summed, bright)]
    return to_length_one(np.concatenate(parts, axis=1))


def to_length_one(rows: Floats) -> Floats:
    """Every row by its own length; a row of zeros stays."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6), dtype=np.float32)


def pixels(images: NDArray[Any]) -> Floats:
    """(n, 28, 28) pictures of bytes to (n, 784), of length 1."""
    return to_length_one(images.reshape(len(images), -1).astype(np.float32) / np.float32(255) - np.float32(0.3))


def standing(images: NDArray[Any]) -> Floats:
    """(n, h, w) or (n, h, w, c) pictures of bytes to (n, c, h, w), from -1 to 1, as a convolution reads them."""
    light = images.astype(np.float32) / np.float32(127.5) - np.float32(1)
    if light.ndim == 3:
        return np.asarray(light[:, None])
    return np.ascontiguousarray(light.transpose(0, 3, 1, 2))


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
        identity = json.dumps([self.encoder, self.weights, self.data, dict(self.prepared)], sort_keys=True)
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    @property
    def directory(self) -> str:
        """The name of its directory."""
        return f"{self.data_set}-{self.encoder}-{self.digest}"


def keep_embedding(path: Path, embedding: Embedding, vectors: Mapping[str, NDArray[np.float32]]) -> Path:
    """Write vectors below ``place``; what describes them comes last, so that half of them are never read."""
    directory = path / PLACE / embedding.directory
    directory.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        np.save(directory / f"{part}.npy", vectors[part].astype(np.float32))
    form = {
        "format": FORMAT,
        "data_set": embedding.data_set,
        "encoder": embedding.encoder,
        "weights": embedding.weights,
        "data": embedding.data,
        "prepared": dict(embedding.prepared),
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
    directories = [
        path for path in sorted((place / PLACE).glob(f"{name}-{encoder}-*")) if (path / "embedding.json").exists()
    ]
    fitting = [(path, embedding) for path in directories if (embedding := _described(path)).data == data]
    if len(fitting) != 1:
        so = "there are none of these files" if not fitting else "there are several, made in different ways"
        do = f"Make them with benchmarks/embed.py {name}" if not fitting else "Keep one of the directories"
        raise BadInput(f"vectors of {name}", so, do)
    path, embedding = fitting[0]
    try:
        train, test = (np.load(path / f"{part}.npy", allow_pickle=False) for part in PARTS)
    except (OSError, ValueError):
        raise BadInput(f"vectors of {name}", "a file of theirs cannot be read", "Make them again") from None
    return embedding, train, test


def _described(path: Path) -> Embedding:
    try:
        form = json.loads((path / "embedding.json").read_text(encoding="utf-8"))
        if form.pop("format") != FORMAT:
            raise ValueError
        embedding = Embedding(**form)
        if embedding.directory != path.name:
            raise ValueError
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise BadInput(f"the vectors in {path.name}", "they are not what their name says", "Make them again") from None
    return embedding


def scattering_of(name: Data, data: Path | None, part: str, groups: int | None = None) -> Floats:
    """Scattering of the part ``train`` or ``test``, one row a picture: computed once, kept in the directory of data.

    ``groups``: of channels, which are normalised together; None: those of the map.
    """
    from discreet.features import build_feature_map

    held = read_set(name, data)
    pictures = held.x if part == "train" else held.test_x
    pictures = pictures if pictures.ndim == 3 else np.moveaxis(pictures, -1, 1)
    scattering = build_feature_map("scattering", shape=pictures.shape[1:], groups=groups)
    made_of = {"map": scattering.identity()["sha256"], "part": part, "files": digest_of(paths_of(name, data))}
    named = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]
    assert data is not None  # paths_of
    path = Path(data) / "features" / f"{name}-scattering-{part}-{named}.npy"
    if not path.exists():
        _write_features(path, scattering, pictures)
    stored: Floats = np.load(path, mmap_mode="r", allow_pickle=False)
    return stored


def _write_features(path: Path, scattering: Any, pictures: NDArray[Any]) -> None:
    draft = path.with_name(f".{path.name}")
    shape = (len(pictures), scattering.output_size)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = np.lib.format.open_memmap(draft, mode="w+", dtype=np.float32, shape=shape)
    except OSError:
        raise BadInput(
            "features of pictures",
            "the directory of data cannot be written, and they are kept in it",
            "Give --data a directory of links to the data",
        ) from None
    for start in range(0, len(pictures), _PICTURES_AT_ONCE):
        piece = np.asarray(pictures[start : start + _PICTURES_AT_ONCE], dtype=np.float32) / np.float32(255)
        rows[start : start + len(piece)] = scattering.transform(piece).reshape(len(piece), -1)
    rows.flush()
    draft.replace(path)
