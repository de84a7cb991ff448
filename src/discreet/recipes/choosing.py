"""Who is asked in a query of a plan: scored, charged, drawn, and put into cohorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.campaign.recipe import Chosen, Desk
from discreet.config import CampaignConfig
from discreet.noise import random_places
from discreet.privacy.ledger import Why
from discreet.privacy.ledger.plan_terms import pool_of
from discreet.privacy.plan import Plan
from discreet.recipes.known_labels import MECHANISM, known_units
from discreet.recipes.model_records import null_scores, rows_at
from discreet.recipes.selecting import scorer_of, selector_of
from discreet.recipes.units import Places, Units
from discreet.records import Selection
from discreet.scorers import pool_scores
from discreet.selectors import KCentreSelector, RandomSelector, charge_selection, into_cohorts, without_asked

if TYPE_CHECKING:
    from discreet.noise import SecretKey


def chosen_at_random(desk: Desk, plan: Plan, units: Units) -> Chosen:
    """The initial units: all equally likely, at no price."""
    k, gone = int(plan.cohorts[0].size), units.gone(desk.pool)
    names = [name for name in units.names if name not in gone] if gone else units.names
    found = RandomSelector(source=desk.source).select(ids=names, k=k, phase=0)
    return _entered(desk, plan, units, found)


def chosen_before(desk: Desk, config: CampaignConfig, plan: Plan, units: Units) -> Chosen:
    """The initial units of a campaign that imports their labels, in random order. How they were chosen was declared."""
    assert config.initial is not None
    mine = known_units(config, desk.pool, units)
    order = random_places(len(mine), len(mine), where=desk.source, kind=MECHANISM)
    ids = tuple(mine[place] for place in order.tolist())
    found = Selection(ids=ids, mechanism=MECHANISM, simulation=desk.source.simulation)
    return _entered(desk, plan, units, found, chosen=config.initial.chosen)


def chosen_by_score(desk: Desk, config: CampaignConfig, plan: Plan, units: Units, key: SecretKey | None) -> Chosen:
    """Query number ``desk.phase``: scored, charged, drawn."""
    number, hidden = desk.phase, plan.selection.hidden is not None
    k = round(sum(cohort.size for cohort in plan.cohorts if cohort.phase == number))
    # where asked sets are hidden all but the initial ones keep their places: how many are left would tell
    gone = frozenset(desk.members.get(plan.cohorts[0].label, ())) if hidden else desk.asked
    lost = units.gone(desk.pool)  # where asked sets are hidden, they keep their places, too
    left = np.array(_left(desk, units, gone, frozenset() if hidden else lost), dtype=np.int64)
    if key is not None:  # shards: a unit meets one query
        names = [units.names[place] for place in left.tolist()]
        left = left[key.shards(names, plan.selection.shards) == number - 1]
    names = [units.names[place] for place in left.tolist()]
    selector = selector_of(config, plan, number, desk.source)
    further: dict[str, Any] = {}
    scores = None
    if isinstance(selector, KCentreSelector):
        scores = _embedded(desk, config, units.places(left))
        further["centres"] = _embedded(desk, config, desk.pool.places(sorted(desk.asked - desk.pool.withdrawn)))
    elif selector.name != RandomSelector.name:
        scores = _scores(desk, config, units, left)
    if hidden:
        scores = without_asked(names, scores, desk.asked | lost, range=scorer_of(config).range)
    paid = charge_selection(
        desk.charges,
        selector,
        k=k,
        pool_size=len(names),
        who=pool_of(plan.selection, number),
        why=Why(phase=number, purpose="selection"),
    )
    found = selector.select(ids=names, scores=scores, k=k, receipt=paid, phase=number, **further)
    return _entered(desk, plan, units, found)


def _left(desk: Desk, units: Units, gone: frozenset[str], lost: frozenset[str]) -> list[int]:
    """Numbers of the units that are still in the pool. ``gone``: asked records. ``lost``: units that were withdrawn."""
    if units.records is None:
        return [number for number, name in enumerate(units.names) if name not in gone and name not in lost]
    ids = desk.pool.ids
    return [
        number for number, name in enumerate(units.names) if ids[units.first[name]] not in gone and name not in lost
    ]


def _scores(desk: Desk, config: CampaignConfig, units: Units, left: Places) -> Any:
    places = units.places(left)
    rows = rows_at(config, desk.pool, places)
    found = pool_scores(
        scorer_of(config), desk.model, rows, progress=lambda done, whole: desk.watch("scoring", done, whole)
    )
    return units.scores(left, null_scores(found, rows, desk.pool, places))


def _embedded(desk: Desk, config: CampaignConfig, places: Places) -> Any:
    assert desk.model is not None
    found = np.array(desk.model.embed(rows_at(config, desk.pool, places)))
    found[desk.pool.broken(places)] = np.nan
    return found


def _entered(desk: Desk, plan: Plan, units: Units, found: Selection, **facts: Any) -> Chosen:
    """Units into records, in random order: records of a person stay together."""
    initial: dict[str, Sequence[str]] = {plan.cohorts[0].label: found.ids}
    by_label = into_cohorts(plan, desk.phase, found) if desk.phase else initial
    cohorts = {one: label for label, names in by_label.items() for one in units.record_ids(desk.pool, names)}
    above = None if found.above is None else frozenset(units.record_ids(desk.pool, found.above))
    facts |= {"mechanism": found.mechanism, "private": found.private, "threshold": found.threshold}
    if found.histogram is not None:  # paid for and released, so that anybody may see it: kept for reports
        facts["histogram"] = found.histogram.to_json()
    return Chosen(ids=tuple(units.record_ids(desk.pool, found.ids)), cohorts=cohorts, above=above, facts=facts)
