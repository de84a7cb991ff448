"""The score and the selector of a query, as the campaign's file names them and its plan pays for them."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from discreet.config import CampaignConfig, CrowdConfig
from discreet.errors import alternatives
from discreet.parts import Part
from discreet.privacy.ledger.plan_terms import query_lines
from discreet.privacy.plan import Plan
from discreet.recipes.learning import named_function
from discreet.roles import Selector
from discreet.scorers import OwnScore
from discreet.scorers.acquisition_functions import score_named
from discreet.selectors import SELECTORS, SelectorRequest
from discreet.selectors.selection_inputs import counted_events
from discreet.selectors.top_k import PAPER_CLIP

if TYPE_CHECKING:
    from discreet.noise import Source
    from discreet.scorers import RandomScore, Score

PRIVATE_POOL = "private-pool"


def check_priced(config: CampaignConfig) -> None:
    """Refuse a selector that the plan does not pay for."""
    table, kind = config.selector.resolved(), config.plan.selection
    name, part = table.name, table.part
    if part is None or PRIVATE_POOL not in part.recipes:
        remedy = alternatives(name, SELECTORS.names(recipe=PRIVATE_POOL))
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


def scorer_of(config: CampaignConfig | CrowdConfig) -> Score | RandomScore | OwnScore:
    """As the campaign's file names it."""
    table, several = config.scorer.resolved(), config.task.kind == "multilabel"
    if isinstance(config, CampaignConfig) and ":" in table.name:
        return _own(config)
    with config.pointing("scorer"):
        part = table.part or score_named(table.name, several_labels=several)
        scorer: Score | RandomScore = part.build(
            classes=len(config.task.classes), several_labels=several, **table.options
        )
        return scorer


def _own(config: CampaignConfig) -> OwnScore:
    table = config.scorer
    if table.clip is not None:
        raise config.error("scorer.clip", "a score of your own is clipped by its range", "Remove it, lower the range")
    options: dict[str, Any] = {} if table.draws is None else {"draws": table.draws}
    assert table.range is not None  # checked with the file
    with config.pointing("scorer.name"):
        return OwnScore(
            function=named_function(table.name),
            range=(table.range[0], table.range[1]),
            needs=table.needs or "proba",
            name=table.name,
            **options,
        )


def selector_of(config: CampaignConfig, plan: Plan, query: int, source: Source) -> Selector:
    """The selector that query number ``query`` of the plan pays for."""
    check_priced(config)
    terms, scorer = plan.selection, scorer_of(config)
    selector: Selector = built(
        config,
        config.selector.declared,
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
        price = counted_events(selector.price(asked_by(plan, query), pool_size))
    if price != planned:
        fact = f"the price of {config.selector.name} is not what the plan pays for query {query}"
        raise config.error("selector.name", fact, "Choose another, or ask the authors of the part")


def asked_by(plan: Plan, query: int) -> int:
    """How many units the query asks."""
    return round(sum(cohort.size for cohort in plan.cohorts if cohort.phase == query))


def built(config: CampaignConfig, part: Part, request: SelectorRequest) -> Any:
    """The selector, built by its declaration; what it refuses is refused at [selector]."""
    with config.pointing("selector"):
        return part.build(request)
