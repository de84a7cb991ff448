"""Maps from pictures to numbers that no data was used for: edges in cells, plain pixels, random features.

They are public, the same for every seed, and look at one record at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
_FEATURE_SEED = 20_000
"""Random features are a public map, the same for every seed."""
_DIRECTIONS, _PIECE = 8, 5_000


class random_features:  # noqa: N801 - a function with its tables
    """A random layer of rectified sums, centred and brought to length 1, record by record: a public map."""

    def __init__(self, inputs: int, outputs: int) -> None:
        chance = np.random.default_rng(_FEATURE_SEED)
        self._weights = chance.normal(size=(inputs, outputs)).astype(np.float32)

    def __call__(self, x: Floats) -> Floats:
        """(n, inputs) to (n, outputs)."""
        made = np.maximum(x @ self._weights, 0)
        made -= made.mean(axis=1, keepdims=True)
        return to_length_one(made)


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
    whole = np.floor(turn)
    part, first = turn - whole, whole.astype(np.int64) % _DIRECTIONS
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
