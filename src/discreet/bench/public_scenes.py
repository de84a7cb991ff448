"""The records of one seed of a problem: some play the private ones, some are public, some of those of another set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.bench.public_problems import PublicProblem
from discreet.bench.sets import digest_of as files_digest
from discreet.bench.sets import paths_of, read_set
from discreet.errors import BadInput

Rows = NDArray[Any]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Scene:
    """The records of one seed. ``polluted``: which public ones are of another set."""

    private_x: Rows
    private_y: Rows
    public_x: Rows
    public_y: Rows
    polluted: Rows
    test_x: Rows
    test_y: Rows
    made_of: str = ""
    classes: int = 10


def scene_of(problem: PublicProblem, data: Path | None, seed: int) -> Scene:
    """Cut by a public seed; labels of pollution are -1: people would skip it."""
    raw, made_of = _pictures(problem.data, data)
    chance = np.random.default_rng(seed)
    order = chance.permutation(len(raw.y))
    if problem.private + problem.public > len(order):
        raise BadInput(f"the problem {problem.name}", f"{problem.data} has {len(order)} records", "Take fewer")
    mine, theirs = order[: problem.private], order[problem.private : problem.private + problem.public]
    x, y = raw.x[theirs], raw.y[theirs]
    polluted = np.zeros(len(y), dtype=bool)
    if problem.polluted_by is not None:
        other, named = _pictures(problem.polluted_by, data)
        made_of += named
        some = chance.permutation(len(other.y))[: problem.pollution]
        x = np.concatenate([x, other.x[some]])
        y = np.concatenate([y, np.full(len(some), -1)])
        polluted = np.concatenate([polluted, np.ones(len(some), dtype=bool)])
    return Scene(
        private_x=_scaled(raw.x[mine]),
        private_y=raw.y[mine],
        public_x=_scaled(x),
        public_y=y,
        polluted=polluted,
        test_x=_scaled(raw.test_x[: problem.test]),
        test_y=raw.test_y[: problem.test],
        made_of=hashlib.sha256(made_of.encode()).hexdigest()[:16],
    )


@lru_cache(maxsize=4)
def _pictures(name: Any, data: Path | None) -> tuple[Any, str]:
    return read_set(name, data), files_digest(paths_of(name, data))


def _scaled(pictures: Rows) -> Rows:
    """Bytes to [0, 1], with a channel."""
    rows = np.asarray(pictures, dtype=np.float32) / 255
    return rows[:, None] if rows.ndim == 3 else np.moveaxis(rows, -1, 1)
