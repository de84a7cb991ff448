"""Records through a public map: the rows of features that a model learns from, and the map that a campaign declares.

Two things are such maps: the one that [features] names, and a frozen public encoder of texts. Rows are computed when
they are asked for, a piece at a time; those of a campaign's pool may be kept (`discreet.recipes.feature_cache`).
Guarantee: a row depends on its own record and on public constants alone; a null stays a null, with features of zeros.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.config import CampaignConfig, FeaturesConfig
from discreet.errors import BadInput
from discreet.features import FEATURES, FeatureMap, FeatureRequest, TableMap, feature_map_from_json
from discreet.pools import Pool
from discreet.pools.file_columns import columns_of
from discreet.pools.opening import kind_of
from discreet.pools.rows import Mask, RecordArray, Span, length_of, places_of
from discreet.pools.schema_proposal import same_content
from discreet.recipes.feature_cache import FeatureCache, PoolCache, Read, check_disk
from discreet.storage import CampaignStore


class FeatureRows(RecordArray):
    """The features of ``records``, which are an array or texts; ``read`` computes those of some that are not kept."""

    def __init__(self, records: Any, read: Read, inputs: tuple[int, ...], cached: PoolCache | None = None) -> None:
        super().__init__(shape=(len(records), *inputs), dtype=np.float32)
        self._records, self._read, self._cached = records, read, cached

    def readable(self, span: Span) -> tuple[NDArray[Any], Mask]:
        """The features of a span, nulls as zeros, and which records are none. Audience: owner."""
        if hasattr(self._records, "readable"):
            records, present = self._records.readable(span)
        else:
            records, present = self._records[span], np.ones(length_of(span), dtype=bool)
        if self._cached is not None:
            return self._cached.readable(places_of(span), records, np.asarray(present), self._read)
        values, fine = self._read(records)
        fine = fine & present
        values[~fine] = 0
        return values, fine


class MapReader:
    """Reads records by a feature map."""

    def __init__(self, feature_map: FeatureMap) -> None:
        self._map, self.reads = feature_map, str(feature_map.record_map.reads)
        self.inputs = feature_map.output_shape

    @property
    def identity(self) -> str:
        """Its hash, and the versions of the libraries that compute it."""
        return f"{self._map.identity()['sha256']} {versions_of('numpy', 'scipy')}"

    def rows(self, records: Any, cached: PoolCache | None = None) -> FeatureRows:
        """Their features."""
        return FeatureRows(records, self._map.of_inputs, self.inputs, cached)

    def made_up(self, count: int) -> NDArray[np.float32]:
        """Normal numbers."""
        return np.random.default_rng(0).normal(size=(count, *self.inputs)).astype(np.float32)


def versions_of(*packages: str) -> str:
    """Of packages that are installed."""
    return " ".join(f"{package} {version(package)}" for package in packages)


def record_shape(feature_map: FeatureMap) -> tuple[int, ...]:
    """The shape of a record as a pool gives it to the map; none of a text."""
    lowest = feature_map.record_map
    return (lowest.schema.width,) if isinstance(lowest, TableMap) else getattr(lowest, "input_shape", ())


def on_features(model: Any) -> Any:
    """The model as it takes rows of a campaign's pool (`pool_records.rows_of`)."""
    return getattr(model, "on_features", model)


# -- the map that [features] names


def with_features(config: CampaignConfig, pool: Pool) -> CampaignConfig:
    """``config`` with the map that its [features] declares, for records as those of ``pool``; fitted to public rows."""
    table = config.features
    if table is None:
        return config
    with config.pointing("features"):
        feature_map = _built(config, table.resolved(), pool)
    if table.cache:
        with config.pointing("features.cache"):
            check_disk(config, feature_map.output_size, len(pool))
    return _with_map(config, table, feature_map)


def stored_features(store: CampaignStore, config: CampaignConfig) -> CampaignConfig:
    """``config`` with the map that the campaign was created with, whatever its public file says now, and with what is
    kept of the pool's features.
    """
    form = store.config.get("features")
    config = replace(config, cache=FeatureCache(store, None if config.features is None else config.features.cache))
    if config.features is None or form is None:
        return config
    with config.pointing("features"):
        return _with_map(config, config.features, feature_map_from_json(form))


def features_form(config: CampaignConfig) -> dict[str, Any]:
    """What is stored with a campaign: everything that its features depend on beside the records, and its hash."""
    fitted = None if config.features is None else config.features.fitted
    return {} if fitted is None else {"features": fitted.identity()}


def _with_map(config: CampaignConfig, table: FeaturesConfig, feature_map: FeatureMap) -> CampaignConfig:
    return replace(config, features=replace(table, fitted=feature_map))


def _built(config: CampaignConfig, table: FeaturesConfig, pool: Pool) -> FeatureMap:
    declared: dict[str, Any] = {
        "shape": None if pool.x is None else tuple(int(size) for size in pool.x.shape[1:]),
        "schema": pool.declared.schema or config.pool.schema,
        "public": _public_table(config, table),
    }
    base = None
    if table.base is not None:
        options = {name: value for name, value in table.base.items() if name != "name"}
        base = FEATURES.get(table.base["name"]).build(FeatureRequest(options=options, **declared))
    feature_map: FeatureMap = table.declared.build(FeatureRequest(options=table.options, base=base, **declared))
    records = pool.text if feature_map.record_map.reads == "texts" else pool.x
    if records is None:
        has = "texts" if pool.x is None else "numbers"
        raise BadInput(f"{table.name} features", f"the records are {has}", "Choose a map of such records")
    return feature_map


def _public_table(config: CampaignConfig, table: FeaturesConfig) -> Any:
    """The columns of the public table, which must be no file of private records."""
    if table.public is None:
        return None
    import pyarrow

    path = config.resolve(table.public)
    with config.pointing("features.public"):
        _check_public(config, path)
        kind = kind_of(path, None)
        assert config.pool.schema is not None  # checked with the file
        names = config.pool.schema.names
        blocks = list(columns_of(path, kind, names))
        if not any(len(block[name]) for block in blocks for name in names):
            raise BadInput(f"fitting features on {path.name}", "it has no rows", "Name a table of public rows")
        return {name: pyarrow.chunked_array(_chunks(block[name] for block in blocks)) for name in names}


def _chunks(columns: Any) -> list[Any]:
    """Arrow arrays of columns that are some, or were chunked."""
    return [chunk for column in columns for chunk in getattr(column, "chunks", [column])]


def _check_public(config: CampaignConfig, path: Path) -> None:
    private = {
        "pool.path": None if config.recipe.name == "public-data" or config.pool.kind == "arrays" else config.pool.path,
        "evaluation.path": config.evaluation.path if config.evaluation.kind == "paid" else None,
        "private.path": None if config.private is None else config.private.path,
    }
    for key, name in private.items():
        if name is not None and same_content(config.resolve(name), path):
            fact = f"it is the file of {key}, whose records are private: edges would tell of them"
            raise config.error("features.public", fact, "Name public rows, or leave it out: edges follow from bounds")
