"""Scores of a query that is over, computed again from the stored model, without noise. Audience: owner.

Nothing is charged, because nothing is released: whoever shows this to others breaks the promise. Scores that draw
(dropout) are other draws than those of the query.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.campaign import Campaign
from discreet.campaign.standing import PUBLISHED
from discreet.errors import NotNow
from discreet.recipes.model_records import null_scores, rows_at
from discreet.recipes.private_pool import PrivatePool
from discreet.recipes.selecting import scorer_of
from discreet.recipes.units import Units
from discreet.scorers import pool_scores

_WITHOUT_SCORES = ("random", "k-centre")


def reads_scores(recipe: PrivatePool) -> bool:
    """Whether its queries look at scores at all."""
    return recipe.config.selector.name not in _WITHOUT_SCORES


def exact_counts(campaign: Campaign, recipe: PrivatePool, query: int, bins: int) -> tuple[int, ...]:
    """How many units of the pool of ``query`` had their score in each bin, from the bottom up. Owner only."""
    config = recipe.config
    units = Units.of(campaign.pool, config.budget.unit, config.budget.records_per_person)
    left = np.array(_pool_of(campaign, units, query), dtype=np.int64)
    if recipe.shards is not None and left.size:
        names = [units.names[number] for number in left.tolist()]
        left = left[recipe.shards.shards(names, recipe.plan.selection.shards) == query - 1]
    places = units.places(left)
    scorer, rows = scorer_of(config), rows_at(config, campaign.pool, places)
    found = pool_scores(
        scorer,
        campaign.predictor(query - 1),
        rows,
        progress=lambda done, whole: campaign.watch("scoring", done, whole),
    )
    return counted(units.scores(left, null_scores(found, rows, campaign.pool, places)), scorer.range, bins)


def counted(scores: NDArray[np.float64], limits: tuple[float, float], bins: int) -> tuple[int, ...]:
    """By bin; as in a query, a score at the bottom is counted nowhere."""
    bottom, top = limits
    with np.errstate(all="ignore"):
        seen = scores[scores > bottom]
        places = np.minimum((seen - bottom) * (bins / (top - bottom)), bins - 1).astype(np.int64)
    return tuple(np.bincount(places, minlength=bins).tolist())


def _pool_of(campaign: Campaign, units: Units, query: int) -> list[int]:
    """Numbers of the units that were in the pool when the query was drawn: enrolled by then, and not asked before."""
    steps = [one for one in campaign.store.transitions() if (one.kind, one.phase) == (PUBLISHED, query)]
    if not steps:
        raise NotNow(f"scores of query {query}", "it was not asked yet", "Ask first")
    there = sum(cohort.size for cohort in campaign.store.pool_cohorts() if cohort.at <= steps[0].at)
    asked = {question.record for question in campaign.store.questions() if question.phase < query}
    ids = campaign.pool.ids
    first = range(len(units.names)) if units.records is None else [units.records[name][0] for name in units.names]
    return [number for number, place in enumerate(first) if place < there and ids[place] not in asked]
