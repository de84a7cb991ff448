"""Public sets as streams: a part that plays the public, from which everything is tuned, the records that arrive in a
random order of each seed, and a test set.

    mnist-0-9   the digits 0 and 9 (11,872 and 1,989 pictures); 50 principal components of the public part's pictures
    kdd99       the 10% set of KDD Cup 99, 120 features (`kdd99`); attacks are the second class

Every vector is brought into the unit ball. The public part is in no stream and in no test: its pictures, labels and
error rates may be looked at freely. Components may also be *paid* for: then they are of records that arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.stream.preparation import Preparation, components_of
from discreet_research.bench.sets import Data, Raw, digest_of, paths_of, read_set

StreamData = Literal["mnist-0-9", "kdd99"]
Floats = NDArray[np.float64]
Signs = NDArray[np.int64]
_SPLIT_SEED = 40_000
"""Which records play the public is the same for every seed."""
_DIGITS = (0, 9)
_TEST = {"mnist-0-9": 2_000, "kdd99": 10_000}
"""Errors are measured on at most so many of the test set."""
_FILES: dict[StreamData, Data] = {"mnist-0-9": "mnist", "kdd99": "kddcup99"}


@dataclass(frozen=True, kw_only=True, repr=False)
class StreamSet:
    """Prepared vectors and classes of 0 and 1. ``arriving`` are not prepared before a seed has put them in order."""

    public_x: Floats
    public_y: Signs
    test_x: Floats
    test_raw: Floats
    test_y: Signs
    arriving_y: Signs
    raw: Any
    places: NDArray[np.int64]
    preparation: Preparation
    made_of: str

    def stream(self, seed: int, count: int) -> tuple[Floats, Signs]:
        """The first ``most`` arrivals of a seed's permutation, prepared."""
        order = self._order(seed)[:count]
        return self.preparation.rows(_rows(self.raw, self.places[order])), self.arriving_y[order]

    def last(self, seed: int, count: int) -> Floats:
        """The last ``count`` of that permutation, as they came."""
        return _rows(self.raw, self.places[self._order(seed)[-count:]])

    def with_preparation(self, preparation: Preparation) -> StreamSet:
        """The same, arriving prepared otherwise."""
        return replace(self, preparation=preparation)

    def _order(self, seed: int) -> NDArray[np.int64]:
        return np.random.default_rng([seed, _SPLIT_SEED]).permutation(len(self.places))


@lru_cache(maxsize=4)
def stream_set(name: StreamData, data: Path | None, *, public: int, components: int) -> StreamSet:
    """``public``: how many records play the public; ``components``: how many the vectors have, 0 for all features."""
    raw = _read(name, data)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(raw.y))
    if not 10 <= public <= len(order) // 2:
        raise BadInput(f"{public} public records of {name}", f"it has {len(order)} in all", "Take fewer, and some")
    shown, hidden = order[:public], order[public:]
    sample = _rows(raw.x, shown)
    prepared = Preparation(inputs=sample.shape[1])
    if components:
        prepared = prepared.with_constants(sample.mean(axis=0), 1.0, origin="public")
        prepared = prepared.with_components(components_of(prepared.scaled(sample), components), origin="public")
    test = np.random.default_rng(_SPLIT_SEED).permutation(len(raw.test_y))[: _TEST[name]]
    test_raw = _rows(raw.test_x, test)
    return StreamSet(
        public_x=prepared.rows(sample),
        public_y=raw.y[shown],
        test_x=prepared.rows(test_raw),
        test_raw=test_raw,
        test_y=raw.test_y[test],
        arriving_y=raw.y[hidden],
        raw=raw.x,
        places=hidden,
        preparation=prepared,
        made_of=digest_of(paths_of(_FILES[name], data))[:16],
    )


@lru_cache(maxsize=2)
def _read(name: StreamData, data: Path | None) -> Raw:
    raw = read_set(_FILES[name], data)
    if name == "kdd99":
        return raw
    train, held = (np.flatnonzero(np.isin(classes, _DIGITS)) for classes in (raw.y, raw.test_y))
    return Raw(
        x=raw.x[train],
        y=(raw.y[train] == _DIGITS[1]).astype(np.int64),
        test_x=raw.test_x[held],
        test_y=(raw.test_y[held] == _DIGITS[1]).astype(np.int64),
    )


def _rows(records: Any, places: NDArray[np.int64]) -> Floats:
    """(n, inputs): pictures as numbers from 0 to 1, or the features of connections as they came."""
    if hasattr(records, "rows"):
        return np.asarray(records.rows(places))
    return np.asarray(records[places].reshape(len(places), -1) / 255.0)
