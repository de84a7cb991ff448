"""Records of a pool: the units that are asked and protected, and rows as the campaign's model takes them.

A unit is a record, or a person with all of their records. A person has one score, the highest of their records', one
place in a histogram and one coin, and enters one cohort with all records. So persons pay for selection what records
pay, and nothing m-fold. A person with more records than ``limit`` takes part with the first ones; the others are never
asked.

Rows are numbers as they are, features of them, and texts through a public map or encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.campaign.recipe import Watch, unwatched
from discreet.config import CampaignConfig, PoolConfig
from discreet.pools import Pool, VerifiedPool
from discreet.privacy.budget import Unit
from discreet.recipes.feature_cache import Reader
from discreet.recipes.feature_rows import MapReader

Scores = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, repr=False)
class Units:
    """Units of a pool by name, and the places of their records."""

    names: list[str]
    records: dict[str, list[int]] | None = field(default=None)
    """None: every unit is a record, in the pool's order. Withdrawn records are left out."""
    first: dict[str, int] = field(default_factory=dict)
    """The first record of a person, also if it was withdrawn: who was asked by it stays asked."""

    @classmethod
    def of(cls, pool: Pool, unit: Unit, limit: int) -> Units:
        """The units of ``pool``."""
        if unit == "record":
            return cls(names=pool.ids)
        assert pool.persons is not None  # checked when the campaign was created
        by_person: dict[str, list[int]] = {}
        for position, person in enumerate(pool.persons):
            records = by_person.setdefault(person, [])
            if len(records) < limit:
                records.append(position)
        first = {person: records[0] for person, records in by_person.items()}
        gone = pool.withdrawn
        left = (
            {person: [p for p in records if pool.ids[p] not in gone] for person, records in by_person.items()}
            if gone
            else by_person
        )
        return cls(names=list(by_person), records=left, first=first)

    def gone(self, pool: Pool) -> frozenset[str]:
        """Units all of whose records were withdrawn."""
        if self.records is None:
            return pool.withdrawn
        return frozenset(name for name, records in self.records.items() if not records)

    def places(self, numbers: Places) -> Places:
        """Places of the records of units, given by their numbers; units in that order."""
        if self.records is None:
            return numbers
        positions = [position for number in numbers.tolist() for position in self.records[self.names[number]]]
        return np.array(positions, dtype=np.int64)

    def scores(self, numbers: Places, of_records: NDArray[np.float64]) -> NDArray[np.float64]:
        """A score a unit, of the scores of the records at `places`; NaN of a unit that has none left."""
        if self.records is None:
            return of_records
        counts = np.array([len(self.records[self.names[number]]) for number in numbers.tolist()], dtype=np.int64)
        by_unit = np.full(counts.size, np.nan)
        nonempty = np.flatnonzero(counts)
        if nonempty.size:
            by_unit[nonempty] = np.fmax.reduceat(of_records, (np.cumsum(counts) - counts)[nonempty])
        return by_unit

    def record_ids(self, pool: Pool, names: Iterable[str]) -> list[str]:
        """Ids of the records of units, units in that order."""
        if self.records is None:
            return list(names)
        return [pool.ids[position] for name in names for position in self.records[name]]


class RowsAt:
    """Rows of ``x`` at places, in one type, read when they are asked for: a part of a pool, never copied whole.

    ``broken``: which of the rows that were read so far could not be, and are blank. Audience: owner.
    """

    def __init__(self, x: Any, places: Places | Sequence[int], *, dtype: Any = np.float32) -> None:
        self._x, self._places = x, np.asarray(places, dtype=np.int64)
        self.broken = np.zeros(len(self._places), dtype=np.bool_)
        self.shape = (len(self._places), *x.shape[1:])
        self.dtype = np.dtype(dtype)
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._places)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Rows by a slice, a mask or places; one row by its number."""
        if isinstance(key, int | np.integer):
            return np.asarray(self._x[int(self._places[key])], dtype=self.dtype)
        places = self._places[key]
        contiguous = len(places) and isinstance(key, slice) and (np.diff(places) == 1).all()
        span = slice(int(places[0]), int(places[-1]) + 1) if contiguous else places
        if not hasattr(self._x, "readable"):
            return np.asarray(self._x[span], dtype=self.dtype)
        rows, fine = self._x.readable(span)
        self.broken[key] = ~np.asarray(fine)
        return np.asarray(rows, dtype=self.dtype)

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<RowsAt: {len(self)} records>"


# -- rows for the model

TRANSFORMER = "transformer"
PIECE = 4096
"""Records whose features are computed at once."""


def reader_of(config: CampaignConfig) -> Reader | None:
    """What makes rows of records: a feature map, or a tokenizer of texts; None where rows are records as they are."""
    if config.features is not None:
        assert config.features.fitted is not None  # built before records are read, or stored with the campaign
        return MapReader(config.features.fitted)
    if config.model.encoder is None:
        return None
    with config.pointing("model.encoder"):
        return _reader(config.resolve(config.model.encoder), config.model.max_length)


@lru_cache(maxsize=4)
def _reader(path: Path, max_length: int | None) -> Reader:
    """Read once in a process."""
    from discreet.recipes.texts import MAX_LENGTH, TokenReader

    return TokenReader(path, max_length=max_length or MAX_LENGTH)


def inputs_of(config: CampaignConfig, pool: Pool) -> tuple[int, ...]:
    """The public shape of a record, as the model takes it."""
    if pool.x is not None and config.model.encoder is not None:
        raise config.error("model.encoder", "the pool has numbers, and it reads texts", "Remove it")
    reader = reader_of(config)
    if reader is not None:
        with config.pointing("model.encoder"):
            return reader.inputs
    if pool.x is None:
        raise config.error(
            "pool.text",
            "nothing turns texts into numbers",
            "Add [features] with name = 'hashed-text', or with name = 'text-encoder' and encoder = 'DIRECTORY'",
        )
    return tuple(int(size) for size in pool.x.shape[1:])


def rows_of(config: CampaignConfig, pool: Pool, *, working: bool = False) -> Any:
    """All records, read when they are asked for: an array, or a table of columns. ``working``: by the process that
    queries or trains, which may keep their features; a pool that is verified is read by no other.
    """
    reader = reader_of(config)
    if reader is None:
        return pool.x
    working = working or isinstance(pool, VerifiedPool)
    cached = None if config.cache is None else config.cache.of_pool(reader, pool, working=working)
    return reader.rows(pool.text if reader.reads == "texts" else pool.x, cached)


def rows_at(config: CampaignConfig, pool: Pool, places: Places) -> Any:
    """Some records, in float32 where they are numbers; never copied whole."""
    return rows_among(rows_of(config, pool), places)


def rows_among(rows: Any, places: Places) -> Any:
    """Some of ``rows``, an array or a table of tokens; never copied whole."""
    if isinstance(rows, Mapping):
        return {name: RowsAt(part, places, dtype=np.int64) for name, part in rows.items()}
    return RowsAt(rows, places)


def null_scores(scores: Scores, rows: Any, pool: Pool, places: Places) -> Scores:
    """The scores of ``rows``, once all were read, with NaN for records that could not be: nulls, and never worth
    asking. Of a blank in its place a model may be as unsure as of anything.
    """
    broken = rows.broken if isinstance(rows, RowsAt) else pool.broken(places)
    if isinstance(rows, RowsAt) and pool.x is not None and pool.text is not None:  # the model reads one of them
        broken = broken | pool.broken(places)
    return np.where(broken, np.nan, scores)


def training_rows(
    config: CampaignConfig, pool: Pool, places: Places, watch: Watch = unwatched
) -> tuple[Any, NDArray[np.bool_]]:
    """Records of a cohort, and which are none: numbers where they are; features are computed once, for every step asks
    for them again.
    """
    rows, broken = rows_of(config, pool, working=True), pool.broken(places)
    if reader_of(config) is None:
        return RowsAt(rows, places), broken
    if isinstance(rows, Mapping):
        return {name: part[places] for name, part in rows.items()}, broken
    features = np.zeros((len(places), *rows.shape[1:]), dtype=np.float32)
    for start in range(0, len(places), PIECE):
        some = slice(start, start + PIECE)
        features[some], fine = rows.readable(places[some])
        broken[some] |= ~fine
        watch("features", min(start + PIECE, len(places)), len(places))
    return features, broken


def made_up_rows(config: CampaignConfig, inputs: tuple[int, ...], count: int) -> Any:
    """Made-up records of the right shape."""
    reader = reader_of(config)
    if reader is not None:
        return reader.made_up(count)
    return np.random.default_rng(0).normal(size=(count, *inputs)).astype(np.float32)


def reading_of(pool: PoolConfig) -> dict[str, Any]:
    """How records are read, as the pool's were declared, for model.json."""
    keys = {"id": pool.id, "columns": pool.columns, "array": pool.array, "text": pool.text, "shape": pool.shape}
    schema = {} if pool.schema is None else {"schema": pool.schema.to_json()}
    return {"kind": pool.kind} | {key: _listed(value) for key, value in keys.items() if value} | schema


def scaling_of(pool: PoolConfig) -> dict[str, Any]:
    """How numbers are scaled, as declared."""
    return {} if pool.schema is not None else {"center": _listed(pool.center), "scale": _listed(pool.scale)}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else value


def records_each(config: CampaignConfig) -> int:
    """How many records of a unit are used, and so how many labels it has, at most."""
    return config.budget.records_per_person if config.budget.unit == "person" else 1
