"""Private quantiles of a pool: the first query charges every record, counts, and finds the edges of its features.

    ask (phase 0)   count the pool -> charge `whole-pool` -> noise -> edges -> published with the first questions

Guarantee: no model and no score reads features before the edges are there, and every path pays for them before its
first choice, in both directions (docs/proofs/trajectories.md). A unit is counted in at most d cells for each of its
records: d columns, the first m records of a person. Nulls, missing cells, withdrawn records are counted nowhere. After
a crash the charge and the noise are found again; other counts are refused (`discreet.noise.replay_key`). How many edges
a column has is declared, so the model has the same inputs whatever comes out. Edges are bounds of cells, read off the
noisy counts alone: post-processing.

Laplace noise, not Gaussian, whose sensitivity is the root of the number of columns: at epsilon .1 and delta 1e-6
Gaussian noise has the smaller deviation from 7 columns on, and half of it from 27 on. But it would take that delta from
training, and is not pure, as what stands before a branch is best.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.campaign.recipe import PhaseContext
from discreet.campaign.state import PUBLISHED, QUANTILES, released_features, released_quantiles
from discreet.config import CampaignConfig
from discreet.errors import DiscreetError, InvalidPlan
from discreet.features import TableMap, feature_map_from_json
from discreet.features.table_options import USUAL_EDGES, edges_within, numeric_columns
from discreet.noise import charge_once, discrete_laplace
from discreet.pools import Pool
from discreet.pools.columns import Column, ResolvedCells
from discreet.pools.rows import Mask, readable_rows
from discreet.privacy.certificate import Check
from discreet.privacy.event_forms import to_json
from discreet.privacy.events import DiscreteLaplace
from discreet.privacy.ledger import ChargeReason
from discreet.privacy.ledger.charges import request
from discreet.privacy.ledger.plan_terms import WHOLE_POOL
from discreet.privacy.plan import Plan
from discreet.recipes.pool_records import Units, records_each
from discreet.storage import CampaignStore

Counts = NDArray[np.int64]
USUAL_BINS = 256
_ROWS = 1 << 14
"""Records that are read at once."""


@dataclass(frozen=True, kw_only=True)
class QuantileGrid:
    """Histograms of ``columns`` of numbers with ``bins`` cells each. A value on a bound is of the cell below it."""

    columns: tuple[Column, ...]
    bins: int = USUAL_BINS

    def counts(self, resolved: Mapping[str, ResolvedCells], nulls: Mask) -> Counts:
        """How many records of a batch are in each cell, a row a column: without nulls and missing cells. Private."""
        return np.array([self._counts(column, resolved[column.name], ~nulls) for column in self.columns])

    def _counts(self, column: Column, cells: ResolvedCells, present: Mask) -> Counts:
        values = cells.codes[cells.known & present]
        return np.bincount(np.searchsorted(self._bounds(column), values), minlength=self.bins)

    def edges(self, noisy: NDArray[np.int64], count: int) -> dict[str, tuple[float, ...]]:
        """``count`` edges of each column, from noisy counts, at ranks that cut the noisy total into equal parts.

        A cell that several ranks fall into is cut off on both sides. Edges that are left over lie evenly within the
        bounds: there are always ``count``, equal ones among them, so that the number of features tells nothing.
        """
        return {
            column.name: self._edges(column, places_of_ranks(row, count), count)
            for column, row in zip(self.columns, noisy, strict=True)
        }

    def _edges(self, column: Column, places: NDArray[np.int64], count: int) -> tuple[float, ...]:
        reached, times = np.unique(places, return_counts=True)
        before = reached[times > 1] - 1
        chosen = self._bounds(column)[np.union1d(reached, before[before >= 0])].tolist()
        low, high = column.code(column.low), column.code(column.high)
        return tuple(sorted((*chosen, *edges_within(low, high, count - len(chosen)))))

    def _bounds(self, column: Column) -> NDArray[np.float64]:
        """Bounds between cells: an edge at one of the ends of the grid would tell nobody from anybody."""
        return np.linspace(column.code(column.low), column.code(column.high), self.bins + 1)[1:-1]


def places_of_ranks(noisy: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The bounds at which noisy sums reach the ranks: places of bounds between cells, which rise.

    A noisy sum may fall where a true one cannot. What is read is the middle of the largest sum so far and the smallest
    one to come, in whole numbers, so that every machine finds the same.
    """
    sums = np.cumsum(np.asarray(noisy, dtype=np.int64))
    doubled = np.maximum.accumulate(sums) + np.minimum.accumulate(sums[::-1])[::-1]
    doubled = np.maximum(doubled, 0)
    if doubled[-1] == 0:  # noise alone: evenly spaced
        return (np.arange(1, count + 1) * len(sums) // (count + 1) - 1).clip(min=0)
    ranks = np.arange(1, count + 1) * doubled[-1]
    places: NDArray[np.int64] = np.searchsorted(doubled * (count + 1), ranks).clip(max=len(sums) - 2)
    return places


def grid_of(config: CampaignConfig) -> QuantileGrid | None:
    """The histograms that the campaign's file asks for; None: its edges are public."""
    table, schema = config.features, config.pool.schema
    if table is None or table.quantiles_epsilon is None or schema is None:
        return None
    declared = _declared_edges(config)
    columns = tuple(column for name, column in numeric_columns(schema).items() if name not in declared)
    return QuantileGrid(columns=columns, bins=table.quantile_bins or USUAL_BINS)


def event_of(config: CampaignConfig) -> DiscreteLaplace | None:
    """What they cost a unit of the pool."""
    grid, table = grid_of(config), config.features
    if grid is None or table is None or table.quantiles_epsilon is None:
        return None
    return DiscreteLaplace(epsilon=table.quantiles_epsilon, sensitivity=len(grid.columns) * records_each(config))


def parameters_of(config: CampaignConfig) -> dict[str, Any]:
    """What a plan must know of them."""
    event = event_of(config)
    return {} if event is None else {"quantiles_epsilon": event.epsilon, "quantile_cells": event.sensitivity}


def released(context: PhaseContext, config: CampaignConfig, plan: Plan, units: Units) -> dict[str, Any]:
    """Count, charge and draw: public facts of the first query; no facts, where edges are public."""
    grid, event = grid_of(config), event_of(config)
    if event != plan.selection.quantiles:
        raise InvalidPlan("private quantiles", "the plan pays for others than the file declares", "Plan it again")
    if grid is None or event is None:
        return {}
    counts = counted(context.pool, units, _map_of(config), grid)
    why = ChargeReason(phase=context.phase, purpose=QUANTILES)
    (paid,) = charge_once(context.charges, [request({WHOLE_POOL: event}, why=why)])
    noisy = np.asarray(discrete_laplace(counts, receipt=paid, who=WHOLE_POOL))
    by_column = {column.name: row for column, row in zip(grid.columns, noisy.tolist(), strict=True)}
    fitted = with_edges(_map_of(config), grid, by_column, _edges_wanted(config))
    return {"features": fitted.identity(), QUANTILES: {"event": to_json(event), "counts": by_column}}


def counted(pool: Pool, units: Units, feature_map: TableMap, grid: QuantileGrid) -> NDArray[np.int64]:
    """How many records are in each cell, a row a column. Audience: owner."""
    gone = units.gone(pool)
    left = [number for number, name in enumerate(units.names) if name not in gone]
    places = np.sort(units.places(np.array(left, dtype=np.int64)))
    counts = np.zeros((len(grid.columns), grid.bins), dtype=np.int64)
    for start in range(0, len(places), _ROWS):
        some = places[start : start + _ROWS]
        rows, fine = readable_rows(pool.x, some)
        resolved, nulls = feature_map.resolve_inputs(rows)
        counts += grid.counts(resolved, nulls | ~fine)
    return counts


def with_edges(feature_map: TableMap, grid: QuantileGrid, counts: Mapping[str, Any], wanted: int) -> TableMap:
    """The map with ``wanted`` edges a column, read off noisy counts by column: post-processing."""
    noisy = np.array([counts[column.name] for column in grid.columns], dtype=np.int64)
    return replace(feature_map, edges={**feature_map.edges, **grid.edges(noisy, wanted)})


def quantile_checks(store: CampaignStore, config: CampaignConfig) -> Iterator[Check]:
    """Of `verify`: the released edges are those that follow from the released counts, which were paid for."""
    grid, event, steps = grid_of(config), event_of(config), store.transitions()
    asked = any((step.kind, step.phase) == (PUBLISHED, 0) for step in steps)
    if grid is None or event is None or not asked:
        return
    try:
        facts, created = released_quantiles(steps), feature_map_from_json(store.config["features"])
        assert isinstance(created, TableMap)
        again = with_edges(created, grid, facts["counts"], _edges_wanted(config)).identity()
        ok = facts["event"] == to_json(event) and released_features(steps) == again
    except (DiscreetError, AssertionError, KeyError, TypeError, ValueError):
        ok = False
    detail = f"edges of {len(grid.columns)} columns follow from counts at epsilon {event.epsilon}"
    yield Check(name=QUANTILES, ok=ok, detail=detail if ok else "the edges do not follow from what was released")


def _map_of(config: CampaignConfig) -> TableMap:
    assert config.features is not None
    assert isinstance(config.features.fitted, TableMap)  # checked with the file
    return config.features.fitted


def _edges_wanted(config: CampaignConfig) -> int:
    edges = USUAL_EDGES if config.features is None else config.features.options.get("edges", USUAL_EDGES)
    return edges if isinstance(edges, int) else USUAL_EDGES


def _declared_edges(config: CampaignConfig) -> frozenset[str]:
    edges = {} if config.features is None else config.features.options.get("edges", {})
    return frozenset(edges) if isinstance(edges, Mapping) else frozenset()
