"""Who is asked in a query of a plan: by a selector that the plan pays for, scored, charged, drawn, put into cohorts.

`exact_counts` computes the scores of a query that is over again from the stored model, without noise. Audience: owner.
Nothing is charged for that, because nothing is released: whoever shows it to others breaks the guarantee. Scores that
draw (dropout) are other draws than those of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.campaign import Campaign
from discreet.campaign.recipe import Chosen, PhaseContext
from discreet.campaign.state import PUBLISHED
from discreet.config import CampaignConfig
from discreet.errors import NotNow, alternatives
from discreet.noise import Source, random_places
from discreet.privacy.ledger import ChargeReason
from discreet.privacy.ledger.plan_terms import pool_of, query_lines
from discreet.privacy.plan import Plan
from discreet.recipes.feature_rows import on_features
from discreet.recipes.labelled_records import MECHANISM, known_units
from discreet.recipes.learning import scorer_of, selector_built
from discreet.recipes.pool_records import Places, Units, null_scores, rows_at
from discreet.records import Selection
from discreet.roles import Selector
from discreet.scorers import pool_scores
from discreet.selectors import (
    SELECTORS,
    RandomSelector,
    SelectorRequest,
    charge_selection,
    into_cohorts,
    without_asked,
)
from discreet.selectors.selection_inputs import check_chosen, counted_events
from discreet.selectors.top_k import PAPER_CLIP

Shard = Callable[[Sequence[str], int], NDArray[np.bool_]] | None
"""Which units of a pool that is cut meet a query; None: the pool is not cut."""


def units_asked(plan: Plan, phase: int) -> int:
    """How many records or persons are asked in a phase."""
    return round(sum(cohort.size for cohort in plan.cohorts if cohort.phase == phase))


def check_priced(config: CampaignConfig) -> None:
    """Refuse a selector that the plan does not pay for."""
    table, kind = config.selector.resolved(), config.plan.selection
    name, part = table.name, table.part
    if part is None or config.recipe.name not in part.recipes:
        remedy = alternatives(name, SELECTORS.names(recipe=config.recipe.name))
        raise config.error("selector.name", f"a private pool has none called {name}", remedy)
    if part.simulations_only and config.simulation is None:
        raise config.error("selector.name", f"{name} selection is not private", "Add [simulation], or choose another")
    if not part.prices and kind in ("hidden", "separate-budget"):
        raise config.error("plan.selection", f"{name} selection is free, and not {kind}", "Remove it")
    if part.prices and kind not in part.prices:
        words = " or ".join(f"'{price}'" for price in part.prices)
        raise config.error(
            "selector.name", f"plan.selection = '{kind}' does not price {name}", f"Write selection = {words} in [plan]"
        )
    if part.prices == ("paper",) and (table.delta or Decimal(0)) > 0:
        raise config.error("selector.delta", f"in a campaign the draws of {name} are paid for at delta 0", "Remove it")
    if config.budget.unit not in part.units:
        raise config.error("selector.name", f"{name} places one record a unit", "Choose a score, or protect records")


def mechanism_of(config: CampaignConfig) -> dict[str, Any]:
    """What a plan must know of a selector whose queries every record pays."""
    part, table = config.selector.declared, config.selector.resolved()
    if part.prices == ("separate-budget",):
        return {"mechanism": part.mechanism, "subsample": table.subsample, "selection_delta": table.delta}
    return {"mechanism": part.mechanism} if part.prices == ("paper",) else {}


def selector_of(config: CampaignConfig, plan: Plan, query: int, source: Source) -> Selector:
    """The selector that query number ``query`` of the plan pays for."""
    check_priced(config)
    terms, scorer = plan.selection, scorer_of(config)
    selector: Selector = selector_built(
        config,
        SelectorRequest(
            epsilon=terms.per_query() if terms.kind == "paper" else terms.epsilon,
            range=scorer.range,
            options=config.selector.resolved().options,
            source=source,
            plan=plan,
            query=query,
            usual_clip=scorer.usual_clip or PAPER_CLIP,
        ),
    )
    return selector


def check_price(config: CampaignConfig, plan: Plan, query: int, selector: Selector, pool_size: int) -> None:
    """Refuse a selector whose price is not what the plan pays for this query. Nothing is charged before."""
    planned = [(line.event, line.count) for line in query_lines(plan.selection, query)]
    with config.pointing("selector"):
        price = counted_events(selector.price(units_asked(plan, query), pool_size))
    if price != planned:
        fact = f"the price of {config.selector.name} is not what the plan pays for query {query}"
        raise config.error("selector.name", fact, "Choose another, or ask the authors of the part")


def chosen_at_random(context: PhaseContext, plan: Plan, units: Units) -> Chosen:
    """The initial units: all equally likely, at no price."""
    k, gone = int(plan.cohorts[0].size), units.gone(context.pool)
    names = [name for name in units.names if name not in gone] if gone else units.names
    selection = RandomSelector(source=context.source).select(ids=names, k=k, phase=0)
    return _entered(context, plan, units, selection)


def chosen_before(context: PhaseContext, config: CampaignConfig, plan: Plan, units: Units) -> Chosen:
    """The initial units of a campaign that imports their labels, in random order. How they were chosen was declared."""
    assert config.initial is not None
    labelled = known_units(config, context.pool, units)
    order = random_places(len(labelled), len(labelled), where=context.source, kind=MECHANISM)
    ids = tuple(labelled[position] for position in order.tolist())
    selection = Selection(ids=ids, mechanism=MECHANISM, simulation=context.source.simulation)
    return _entered(context, plan, units, selection, chosen=config.initial.chosen)


def chosen_by_score(context: PhaseContext, config: CampaignConfig, plan: Plan, units: Units, shard: Shard) -> Chosen:
    """Query number ``context.phase``: scored, charged, drawn."""
    number, hidden = context.phase, plan.selection.hidden is not None
    k = units_asked(plan, number)
    # where asked sets are hidden all but the initial ones keep their places: how many are left would tell
    gone = frozenset(context.members.get(plan.cohorts[0].label, ())) if hidden else context.asked
    lost = units.gone(context.pool)  # where asked sets are hidden, they keep their places, too
    left = np.array(_left(context, units, gone, frozenset() if hidden else lost), dtype=np.int64)
    if shard is not None:  # a unit meets one query
        left = left[shard([units.names[unit] for unit in left.tolist()], number)]
    names = [units.names[unit] for unit in left.tolist()]
    selector = selector_of(config, plan, number, context.source)
    check_price(config, plan, number, selector, len(names))
    further: dict[str, Any] = {}
    scores = None
    reads = config.selector.declared.reads
    if "embeddings" in reads:
        scores = _embedded(context, config, units.places(left))
    elif "scores" in reads:
        scores = _scores(context, config, units, left)
    if "centres" in reads:
        further["centres"] = _embedded(
            context, config, context.pool.places(sorted(context.asked - context.pool.withdrawn))
        )
    if hidden:
        scores = without_asked(names, scores, context.asked | lost, range=scorer_of(config).range)
    paid = charge_selection(
        context.charges,
        selector,
        k=k,
        pool_size=len(names),
        who=pool_of(plan.selection, number),
        why=ChargeReason(phase=number, purpose="selection"),
    )
    selection = selector.select(ids=names, scores=scores, k=k, receipt=paid, phase=number, **further)
    check_chosen(selection, names, k if plan.selection.hidden is None else plan.selection.hidden.slots[number - 1])
    return _entered(context, plan, units, selection)


def _left(context: PhaseContext, units: Units, gone: frozenset[str], lost: frozenset[str]) -> list[int]:
    """Numbers of the units that are still in the pool. ``gone``: asked records. ``lost``: units that were withdrawn."""
    if units.records is None:
        return [number for number, name in enumerate(units.names) if name not in gone and name not in lost]
    ids = context.pool.ids
    return [
        number for number, name in enumerate(units.names) if ids[units.first[name]] not in gone and name not in lost
    ]


def _scores(context: PhaseContext, config: CampaignConfig, units: Units, left: Places) -> Any:
    places = units.places(left)
    rows = rows_at(config, context.pool, places)
    scores = pool_scores(
        scorer_of(config),
        on_features(context.model),
        rows,
        progress=lambda done, total: context.watch("scoring", done, total),
    )
    return units.scores(left, null_scores(scores, rows, context.pool, places))


def _embedded(context: PhaseContext, config: CampaignConfig, places: Places) -> Any:
    assert context.model is not None
    rows = rows_at(config, context.pool, places)
    embeddings = np.array(on_features(context.model).embed(rows))
    embeddings[np.isnan(null_scores(np.zeros(len(places)), rows, context.pool, places))] = np.nan
    return embeddings


def _entered(context: PhaseContext, plan: Plan, units: Units, selection: Selection, **facts: Any) -> Chosen:
    """Units into records, in random order: records of a person stay together."""
    initial: dict[str, Sequence[str]] = {plan.cohorts[0].label: selection.ids}
    by_label = into_cohorts(plan, context.phase, selection) if context.phase else initial
    cohorts = {record: label for label, names in by_label.items() for record in units.record_ids(context.pool, names)}
    above = None if selection.above is None else frozenset(units.record_ids(context.pool, selection.above))
    facts |= {"mechanism": selection.mechanism, "private": selection.private, "threshold": selection.threshold}
    if selection.histogram is not None:  # paid for and released, so that anybody may see it: kept for reports
        facts["histogram"] = selection.histogram.to_json()
    return Chosen(ids=tuple(units.record_ids(context.pool, selection.ids)), cohorts=cohorts, above=above, facts=facts)


# -- again, for the owner


def reads_scores(config: CampaignConfig) -> bool:
    """Whether its queries look at scores at all."""
    return "scores" in config.selector.declared.reads


def exact_counts(campaign: Campaign, query: int, bins: int, *, config: CampaignConfig, shard: Shard) -> tuple[int, ...]:
    """How many units of the pool of ``query`` had their score in each bin, from the bottom up. Owner only.

    ``shard``: of the names of units, which of them meet a query.
    """
    units = Units.of(campaign.pool, config.budget.unit, config.budget.records_per_person)
    left = np.array(_pool_of(campaign, units, query), dtype=np.int64)
    if shard is not None and left.size:
        left = left[shard([units.names[number] for number in left.tolist()], query)]
    places = units.places(left)
    scorer, rows = scorer_of(config), rows_at(config, campaign.pool, places)
    scores = pool_scores(
        scorer,
        on_features(campaign.predictor(query - 1)),
        rows,
        progress=lambda done, total: campaign.watch("scoring", done, total),
    )
    return counted(units.scores(left, null_scores(scores, rows, campaign.pool, places)), scorer.range, bins)


def counted(scores: NDArray[np.float64], limits: tuple[float, float], bins: int) -> tuple[int, ...]:
    """By bin; as in a query, a score at the bottom is counted nowhere."""
    bottom, top = limits
    with np.errstate(all="ignore"):
        seen = scores[scores > bottom]
        places = np.minimum((seen - bottom) * (bins / (top - bottom)), bins - 1).astype(np.int64)
    return tuple(np.bincount(places, minlength=bins).tolist())


def _pool_of(campaign: Campaign, units: Units, query: int) -> list[int]:
    """Numbers of the units that were in the pool when the query was drawn: enrolled by then, and not asked before."""
    steps = [step for step in campaign.store.transitions() if (step.kind, step.phase) == (PUBLISHED, query)]
    if not steps:
        raise NotNow(f"scores of query {query}", "it was not asked yet", "Ask first")
    enrolled = sum(cohort.size for cohort in campaign.store.pool_cohorts() if cohort.at <= steps[0].at)
    asked = {question.record for question in campaign.store.questions() if question.phase < query}
    ids = campaign.pool.ids
    first = range(len(units.names)) if units.records is None else [units.records[name][0] for name in units.names]
    return [number for number, position in enumerate(first) if position < enrolled and ids[position] not in asked]
