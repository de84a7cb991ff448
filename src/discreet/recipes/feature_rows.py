"""Records through a public map: the rows of features that a model learns from, and the map that a campaign declares.

Rows are computed when they are asked for, a piece at a time; those of a campaign's pool may be kept
(`discreet.recipes.feature_cache`). Guarantee: a row depends on its own record and on public constants alone; a null
stays a null, with features of zeros.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.campaign.state import released_features
from discreet.config import CampaignConfig, FeaturesConfig, PateConfig
from discreet.errors import BadInput
from discreet.features import FeatureMap, TableMap, feature_map_from_json
from discreet.pools import Pool
from discreet.pools.file_columns import table_columns
from discreet.pools.opening import kind_of
from discreet.pools.rows import ListedTexts, Mask, RecordArray, Span, length_of, places_of
from discreet.pools.schema_proposal import same_content
from discreet.recipes.feature_cache import FeatureCache, PoolCache, Read, Reader, check_disk
from discreet.storage import CampaignStore, Transition

Config = TypeVar("Config", CampaignConfig, PateConfig)
"""Of a recipe whose file may have [features]."""


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
        packages = dict.fromkeys((*self._map.packages, *self._map.record_map.packages))
        return f"{self._map.identity()['sha256']} {versions_of(*packages)}"

    def rows(self, records: Any, cached: PoolCache | None = None) -> FeatureRows:
        """Their features."""
        return FeatureRows(records, self._map.of_inputs, self.inputs, cached)

    def made_up(self, count: int) -> NDArray[np.float32]:
        """Normal numbers."""
        return np.random.default_rng(0).normal(size=(count, *self.inputs)).astype(np.float32)


def rows_read(reader: Reader, x: Any) -> Any:
    """Rows of records that somebody has: scaled numbers, rows of a table as its schema encodes them, or texts."""
    if reader.reads != "texts":
        return reader.rows(x if hasattr(x, "shape") else np.asarray(x))
    if isinstance(x, str):
        raise BadInput("texts to predict", "one text is no list of texts", "Put it in a list")
    return reader.rows(x if hasattr(x, "readable") else ListedTexts(list(x), name=""))


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

_PUBLIC_POOLS = ("public-data", "pate")
"""Recipes whose [pool] is public; their private records are those of [private]."""


def with_features(config: Config, pool: Pool) -> Config:
    """``config`` with the map that its [features] declares, for records as those of ``pool``; fitted to public rows."""
    table = config.features
    if table is None:
        return config
    with config.pointing("features"):
        feature_map = _built(config, table.resolved(), pool)
    if table.cache and isinstance(config, CampaignConfig):
        with config.pointing("features.cache"):
            check_disk(config, feature_map.output_size, len(pool))
    return _with_map(config, table, feature_map)


def stored_features(store: CampaignStore, config: Config) -> Config:
    """``config`` with the map that the campaign was created with, whatever its public file says now, or with the edges
    that it released; and with what is kept of the pool's features.
    """
    if isinstance(config, CampaignConfig):
        config = replace(config, cache=FeatureCache(store, None if config.features is None else config.features.cache))
    return with_released_edges(_with_form(config, store.config.get("features")), store.transitions())


def with_released_edges(config: Config, steps: Iterable[Transition]) -> Config:
    """``config`` with the map whose edges the first query released, if they are private quantiles and it was asked."""
    config = _with_form(config, form := released_features(steps))
    if form is None or config.features is None:
        return config
    return replace(config, features=replace(config.features, drawn=True))


def _with_form(config: Config, form: Any) -> Config:
    if config.features is None or form is None:
        return config
    with config.pointing("features"):
        feature_map = config.features.located(feature_map_from_json(form), config.resolve(""))
        return _with_map(config, config.features, feature_map)


def encoder_of(config: CampaignConfig | PateConfig) -> Path | str | None:
    """Where the encoder of [features] is, or ``module:callable``; None where the map has none."""
    return None if config.features is None else config.features.encoder_from(config.resolve(""))


def features_form(config: CampaignConfig | PateConfig) -> dict[str, Any]:
    """What is stored with a campaign: everything that its features depend on beside the records, and its hash."""
    fitted = None if config.features is None else config.features.fitted
    return {} if fitted is None else {"features": fitted.identity()}


def _with_map(config: Config, table: FeaturesConfig, feature_map: FeatureMap) -> Config:
    return replace(config, features=replace(table, fitted=feature_map))


def _built(config: CampaignConfig | PateConfig, table: FeaturesConfig, pool: Pool) -> FeatureMap:
    declared: dict[str, Any] = {
        "shape": None if pool.x is None else tuple(int(size) for size in pool.x.shape[1:]),
        "schema": pool.declared.schema or config.pool.schema,
        "public": _public_table(config, table),
        "directory": config.resolve(""),
    }
    feature_map = table.build(**declared)
    records = pool.text if feature_map.record_map.reads == "texts" else pool.x
    if records is None:
        has = "texts" if pool.x is None else "numbers"
        raise BadInput(f"{table.name} features", f"the records are {has}", "Choose a map of such records")
    return feature_map


def _public_table(config: CampaignConfig | PateConfig, table: FeaturesConfig) -> Any:
    """The columns of the public table, which must be no file of private records."""
    if table.public is None:
        return None
    path = config.resolve(table.public)
    with config.pointing("features.public"):
        _check_public(config, path)
        assert config.pool.schema is not None  # checked with the file
        return table_columns(path, kind_of(path, None), config.pool.schema.names)


def _check_public(config: CampaignConfig | PateConfig, path: Path) -> None:
    is_public = config.recipe.name in _PUBLIC_POOLS or config.pool.kind == "arrays"
    private = {
        "pool.path": None if is_public else config.pool.path,
        "evaluation.path": config.evaluation.path if config.evaluation.kind == "paid" else None,
        "private.path": None if config.private is None else config.private.path,
    }
    for key, name in private.items():
        if name is not None and same_content(config.resolve(name), path):
            fact = f"it is the file of {key}, whose records are private: edges would tell of them"
            raise config.error("features.public", fact, "Name public rows, or leave it out: edges follow from bounds")
