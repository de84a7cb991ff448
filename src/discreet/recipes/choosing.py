"""Who is asked in a query of a plan: the scorer, the selector its terms pay for, and the cohorts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.campaign.recipe import Chosen, Desk
from discreet.config import CampaignConfig
from discreet.privacy.ledger import Why
from discreet.privacy.ledger.plan_terms import pool_of
from discreet.privacy.plan import Plan
from discreet.records import Selection
from discreet.recipes.units import RowsAt, Units
from discreet.roles import Selector
from discreet.scorers import build_scorer, pool_scores
from discreet.selectors import (
    ExactTopK,
    LaplaceTopK,
    RandomSelector,
    ThresholdSelector,
    charge_selection,
    into_cohorts,
)
from discreet.selectors.named import PAPER_CLIP

if TYPE_CHECKING:
    from discreet.noise import SecretKey, Source
    from discreet.scorers.own import RandomScore
    from discreet.scorers.score import Score

FREE = ("random", "exact")
PAID = ("threshold-response", "laplace", "clipped-laplace")
_PAPER_CLIPS = {"entropy": 0.8, "bald": 0.5}


def scorer_of(config: CampaignConfig) -> Score | RandomScore:
    """As the campaign's file names it."""
    several = config.task.kind == "multilabel"
    with config.pointing("scorer"):
        return build_scorer(
            config.scorer.name,
            classes=len(config.task.classes),
            several_labels=several,
            clip=config.scorer.clip,
            draws=config.scorer.draws,
        )


def selector_of(config: CampaignConfig, plan: Plan, query: int, source: Source) -> Selector:
    """The selector that query number ``query`` of the plan pays for."""
    name, terms = config.selector.name, plan.selection
    limits = scorer_of(config).range
    if name not in FREE + PAID:
        raise config.error("selector.name", f"a private pool has none called {name}", f"Choose of {FREE + PAID}")
    if name == "random":
        return RandomSelector(source=source)
    if name == "exact":
        if config.simulation is None:
            raise config.error("selector.name", "exact selection is not private", "Add [simulation], or choose another")
        return ExactTopK(range=limits, source=source)
    if (terms.kind == "paper") != (name != "threshold-response"):
        raise config.error(
            "selector.name", f"plan.selection = '{terms.kind}' does not price {name}", "Change one of the two"
        )
    if name == "threshold-response":
        options: dict[str, Any] = {} if config.selector.bins is None else {"bins": config.selector.bins}
        return ThresholdSelector(
            asked=terms.epsilon,
            missed=terms.missed[query - 1],
            threshold_epsilon=terms.threshold_epsilon,
            threshold=config.selector.threshold,
            range=limits,
            share_above=config.selector.share_above,
            **options,
        )
    bottom, top = limits
    clip = config.selector.clip or _PAPER_CLIPS.get(config.scorer.name, PAPER_CLIP) if name != "laplace" else 1.0
    return LaplaceTopK(epsilon=terms.per_query(), range=(bottom, bottom + clip * (top - bottom)), name=name)


def chosen_at_random(desk: Desk, plan: Plan, units: Units) -> Chosen:
    """The initial units: all equally likely, at no price."""
    k = int(plan.cohorts[0].size)
    found = RandomSelector(source=desk.source).select(ids=units.names, k=k, phase=0)
    return _entered(desk, plan, units, found)


def chosen_by_score(desk: Desk, config: CampaignConfig, plan: Plan, units: Units, key: SecretKey | None) -> Chosen:
    """Query number ``desk.phase``: scored, charged, drawn."""
    number, asked = desk.phase, desk.asked
    k = round(sum(cohort.size for cohort in plan.cohorts if cohort.phase == number))
    left = np.array(_left(desk, units, asked), dtype=np.int64)
    if key is not None:  # shards: a unit meets one query
        names = [units.names[place] for place in left.tolist()]
        left = left[key.shards(names, plan.selection.shards) == number - 1]
    selector = selector_of(config, plan, number, desk.source)
    scores = None if selector.name == "random" else _scores(desk, config, units, left)
    names = [units.names[place] for place in left.tolist()]
    paid = charge_selection(
        desk.charges,
        selector,
        k=k,
        pool_size=len(names),
        who=pool_of(plan.selection, number),
        why=Why(phase=number, purpose="selection"),
    )
    found = selector.select(ids=names, scores=scores, k=k, receipt=paid, phase=number)
    return _entered(desk, plan, units, found)


def _left(desk: Desk, units: Units, asked: frozenset[str]) -> list[int]:
    """Numbers of the units nobody was asked about."""
    if units.records is None:
        return [number for number, name in enumerate(units.names) if name not in asked]
    ids = desk.pool.ids
    return [
        number for number, name in enumerate(units.names) if ids[units.records[name][0]] not in asked
    ]


def _scores(desk: Desk, config: CampaignConfig, units: Units, left: Any) -> Any:
    places = units.places(left)
    rows = RowsAt(desk.pool.x, places)
    found = pool_scores(
        scorer_of(config), desk.model, rows, progress=lambda done, whole: desk.watch("scoring", done, whole)
    )
    return units.scores(left, found)


def _entered(desk: Desk, plan: Plan, units: Units, found: Selection) -> Chosen:
    """Units into records, in random order: records of a person stay together."""
    if desk.phase == 0:
        by_label = {plan.cohorts[0].label: found.ids}
    else:
        by_label = dict(into_cohorts(plan, desk.phase, found))
    cohorts = {one: label for label, names in by_label.items() for one in units.record_ids(desk.pool, names)}
    above = None if found.above is None else frozenset(units.record_ids(desk.pool, found.above))
    facts = {"mechanism": found.mechanism, "private": found.private, "threshold": found.threshold}
    return Chosen(ids=tuple(units.record_ids(desk.pool, found.ids)), cohorts=cohorts, above=above, facts=facts)
