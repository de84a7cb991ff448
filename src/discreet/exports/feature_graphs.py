"""Feature maps as torch modules, so that an ONNX file takes records: rows of a table as its schema encodes them, or
arrays that are scaled.

Maps of tables (`bins`, `spline`, `standardise`, `one-hot`, with crosses) and `random-fourier` on top of them or of
arrays are a few operations each, and a map that is a network of torch is its own graph (`torch_module`). Scattering,
hashed texts and other encoders have no graph: an ONNX file of a model on those takes features. A graph computes in
single precision, so it is close to the map, not the same bits; an export compares both and leaves the graph out where
they differ.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from discreet.features import Bins, FeatureMap, OneHot, RandomFourier, Spline, Standardise, TableMap
from discreet.features.bins import CLIP
from discreet.pools.columns import Column


def graph_of(feature_map: FeatureMap) -> nn.Module | None:
    """A module from records to their features and, (n, 1), whether each is no null; None for a map without a graph."""
    if type(feature_map) in (Bins, Spline, Standardise, OneHot):
        assert isinstance(feature_map, TableMap)
        return _TableGraph(feature_map)
    if type(feature_map) is RandomFourier:
        below = _Arrays() if feature_map.base is None else graph_of(feature_map.base)
        return None if below is None else _FourierGraph(feature_map, below)
    network = feature_map.torch_module()
    return None if network is None else _Network(network)


def made_up_records(feature_map: FeatureMap, count: int) -> NDArray[np.float32]:
    """Made-up records, as a pool gives them: every kind of cell is among them."""
    chance, lowest = np.random.default_rng(0), feature_map.record_map
    if not isinstance(lowest, TableMap):
        return chance.normal(size=(count, *getattr(lowest, "input_shape", ()))).astype(np.float32)
    parts = [np.zeros((count, 0), dtype=np.float32)]
    for column in lowest.schema.columns:
        width, cells = len(column.inputs), np.zeros((count, len(column.inputs)), dtype=np.float32)
        missing = _has_indicator(column) & (chance.random(count) < 0.2)
        if column.values:
            cells[np.arange(count), chance.integers(0, width - _has_indicator(column), count)] = 1
        elif width:
            cells[:, 0] = chance.uniform(-1, 1, count)
        cells[missing] = 0
        if width:
            cells[missing, -1] = 1
        parts.append(cells)
    return np.concatenate(parts, axis=1)


class OnRecords(nn.Module):
    """A model of features as one of records. A null is one by zeros of features."""

    def __init__(self, graph: nn.Module, model: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.graph, self.model, self.shape = graph, model, shape

    def forward(self, records: Any) -> Any:
        """What the model says of the features."""
        values, fine = self.graph(records)
        return self.model(torch.where(fine, values, 0.0).reshape(-1, *self.shape))


class _Arrays(nn.Module):
    """Records that are arrays, as rows."""

    def forward(self, records: Any) -> tuple[Any, Any]:
        return _finite(records.flatten(1))


class _Network(nn.Module):
    """A map that is a network of torch itself."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, records: Any) -> tuple[Any, Any]:
        _, fine = _finite(records.flatten(1))
        values, known = _finite(self.network(records).flatten(1))
        return values, fine & known


class _FourierGraph(nn.Module):
    def __init__(self, feature_map: RandomFourier, below: nn.Module) -> None:
        super().__init__()
        self.below, self.scale = below, 1 / math.sqrt(feature_map.size / 2)
        self.register_buffer("directions", torch.from_numpy(feature_map.directions.T.copy()))

    def forward(self, records: Any) -> tuple[Any, Any]:
        values, fine = self.below(records)
        angles = values @ self.directions
        return torch.cat([angles.cos(), angles.sin()], dim=1) * self.scale, fine


class _TableGraph(nn.Module):
    """The groups of a map of tables, in its order: columns, then crosses."""

    def __init__(self, feature_map: TableMap) -> None:
        super().__init__()
        columns = [column for column in feature_map.schema.columns if column.type != "text"]
        starts = np.cumsum([0, *(len(column.inputs) for column in columns)])
        self.kind, self.crosses = type(feature_map), feature_map.crosses
        self.columns = {
            column.name: (column, int(start), feature_map) for column, start in zip(columns, starts[:-1], strict=True)
        }
        self.scale = 1 / math.sqrt(len(columns) + len(feature_map.crosses))

    def forward(self, records: Any) -> tuple[Any, Any]:
        rows, fine = _finite(records)
        groups, levels = [], {}
        for name, (column, start, feature_map) in self.columns.items():
            cells = rows[:, start : start + len(column.inputs)]
            missing = cells[:, -1:] if _has_indicator(column) else None
            values = _categories(column, cells) if column.values else _numbers(feature_map, column, cells[:, :1])
            intervals = values if column.values else _intervals(feature_map, column, cells[:, :1])
            groups.append(_with_missing(values, missing))
            levels[name] = _with_missing(intervals, missing)
        for names in self.crosses:
            product = levels[names[0]]
            for name in names[1:]:
                product = (product.unsqueeze(2) * levels[name].unsqueeze(1)).flatten(1)
            groups.append(product)
        return torch.cat(groups, dim=1) * self.scale, fine


def _finite(rows: Any) -> tuple[Any, Any]:
    fine = torch.isfinite(rows).all(dim=1, keepdim=True)
    return torch.where(fine, rows, 0.0), fine


def _has_indicator(column: Column) -> bool:
    return column.missing in ("indicator", "category")


def _with_missing(values: Any, missing: Any) -> Any:
    if missing is None:
        return values
    gone = (missing != 0).float()
    return torch.cat([values * (1 - gone), gone], dim=1)


def _categories(column: Column, cells: Any) -> Any:
    """One-hot: the largest input, unless the category is another one."""
    count = len(column.values)
    largest = cells[:, :count].argmax(dim=1, keepdim=True)
    known = (torch.arange(count) == largest).float()
    if column.outside != "other":
        return known
    other = (cells[:, count : count + 1] != 0).float()
    return torch.cat([known * (1 - other), other], dim=1)


def _numbers(feature_map: TableMap, column: Column, cells: Any) -> Any:
    """Features of a number from its place within its bounds, in [-1, 1]."""
    within = cells.clamp(-1, 1)
    if isinstance(feature_map, Bins):
        edges = torch.from_numpy(_places(feature_map, column))
        return torch.where(within > edges, 1.0, -1.0) / math.sqrt(edges.shape[1])
    if isinstance(feature_map, Spline):
        knots = torch.from_numpy(np.unique(_places(feature_map, column)).reshape(1, -1))
        if knots.shape[1] == 1:
            return torch.ones_like(within)
        risen = ((within - knots[:, :-1]) / (knots[:, 1:] - knots[:, :-1])).clamp(0, 1)
        return torch.cat([1 - risen[:, :1], risen[:, :-1] - risen[:, 1:], risen[:, -1:]], dim=1)
    if isinstance(feature_map, Standardise):
        mean, scale = feature_map.scales[column.name]
        middle, half = _middle_and_half(column)
        return (within * (half / (CLIP * scale)) + (middle - mean) / (CLIP * scale)).clamp(-1, 1)
    return within


def _intervals(feature_map: TableMap, column: Column, cells: Any) -> Any:
    """One-hot: the interval between edges that a number is in."""
    above = (cells.clamp(-1, 1) > torch.from_numpy(_places(feature_map, column))).float()
    return torch.cat([1 - above[:, :1], above[:, :-1] - above[:, 1:], above[:, -1:]], dim=1)


def _places(feature_map: TableMap, column: Column) -> NDArray[np.float32]:
    """The edges as a record's input has them, in single precision: (1, edges)."""
    edges = np.array(feature_map.edges[column.name])
    into = np.zeros((len(edges), len(column.inputs)), dtype=np.float32)
    column.expand(into, edges, np.zeros(len(edges), dtype=np.uint8))
    return into[:, :1].T.copy()


def _middle_and_half(column: Column) -> tuple[float, float]:
    low, high = column.code(column.low), column.code(column.high)
    return (low + high) / 2, (high - low) / 2
