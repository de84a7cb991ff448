"""The score and the selector of a query, as the campaign's file names them and its plan pays for them."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from discreet.config import CampaignConfig
from discreet.errors import alternatives
from discreet.privacy.events import Gaussian, PoissonSampledGaussian
from discreet.privacy.plan import Plan
from discreet.recipes.learning import named_function
from discreet.roles import Selector
from discreet.scorers import PAPER_CLIPS, OwnScore, build_scorer
from discreet.selectors import (
    ExactTopK,
    ExponentialSelector,
    GaussianTopK,
    HiddenThresholdSelector,
    KCentreSelector,
    LaplaceTopK,
    RandomSelector,
    ThresholdSelector,
)
from discreet.selectors.named import PAPER_CLIP

if TYPE_CHECKING:
    from discreet.noise import Source
    from discreet.scorers.own import RandomScore
    from discreet.scorers.score import Score

FREE = ("random", "exact")
PRICED: dict[str, tuple[str, ...]] = {
    "threshold-response": ("one-sided", "shards"),
    "hidden-threshold": ("hidden",),
    "laplace": ("paper",),
    "clipped-laplace": ("paper",),
    "exponential": ("paper",),
    "k-centre": ("paper",),
    "gaussian": ("apart",),
    "subsampled-gaussian": ("apart",),
}
"""Selectors, and the prices of a plan that pay for them."""


def check_priced(config: CampaignConfig) -> None:
    """Refuse a selector that the plan does not pay for."""
    name, kind = config.selector.name, config.plan.selection
    if name not in (*FREE, *PRICED):
        remedy = alternatives(name, (*FREE, *PRICED))
        raise config.error("selector.name", f"a private pool has none called {name}", remedy)
    if name == "exact" and config.simulation is None:
        raise config.error("selector.name", "exact selection is not private", "Add [simulation], or choose another")
    if name in FREE and kind in ("hidden", "apart"):
        raise config.error("plan.selection", f"{name} selection is free, and not {kind}", "Remove it")
    if name in PRICED and kind not in PRICED[name]:
        words = " or ".join(f"'{one}'" for one in PRICED[name])
        raise config.error(
            "selector.name", f"plan.selection = '{kind}' does not price {name}", f"Write selection = {words} in [plan]"
        )
    if name == "k-centre" and (config.selector.delta or Decimal(0)) > 0:
        raise config.error("selector.delta", "in a campaign the draws of k-centre are paid for at delta 0", "Remove it")
    if name == "k-centre" and config.budget.unit == "person":
        raise config.error("selector.name", "k-centre places one record a unit", "Choose a score, or protect records")


def mechanism_of(config: CampaignConfig) -> dict[str, Any]:
    """What a plan must know of a selector whose queries every record pays."""
    table, name = config.selector, config.selector.name
    if name not in PRICED or PRICED[name][0] not in ("paper", "apart"):
        return {}
    options: dict[str, Any] = {"mechanism": "laplace" if name == "clipped-laplace" else name}
    if PRICED[name] == ("apart",):
        options |= {"subsample": table.subsample, "selection_delta": table.delta}
    return options


def scorer_of(config: CampaignConfig) -> Score | RandomScore | OwnScore:
    """As the campaign's file names it."""
    table = config.scorer
    if ":" in table.name:
        return _own(config)
    with config.pointing("scorer"):
        return build_scorer(
            table.name,
            classes=len(config.task.classes),
            several_labels=config.task.kind == "multilabel",
            clip=table.clip,
            draws=table.draws,
        )


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
    name, terms, table = config.selector.name, plan.selection, config.selector
    check_priced(config)
    limits = scorer_of(config).range
    if name == "random":
        return RandomSelector(source=source)
    if name == "exact":
        return ExactTopK(range=limits, source=source)
    if name == "hidden-threshold":
        return HiddenThresholdSelector.of_plan(plan, query, range=limits)
    if name == "exponential":
        return ExponentialSelector(epsilon=terms.per_query(), range=limits)
    if name == "k-centre":
        with config.pointing("selector"):
            return KCentreSelector(epsilon=terms.per_query(), radius=table.radius or 1.0, anchored=bool(table.anchored))
    if PRICED[name] == ("apart",):
        event = terms.query_event(query)
        assert isinstance(event, (Gaussian, PoissonSampledGaussian))
        share = event.sampling_rate if isinstance(event, PoissonSampledGaussian) else 1.0
        return GaussianTopK(noise_multiplier=event.noise_multiplier, range=limits, subsample=share)
    if name == "threshold-response":
        return _response(config, plan, query, limits)
    bottom, top = limits
    clip = table.clip or PAPER_CLIPS.get(config.scorer.name, PAPER_CLIP) if name != "laplace" else 1.0
    return LaplaceTopK(epsilon=terms.per_query(), range=(bottom, bottom + clip * (top - bottom)), name=name)


def _response(config: CampaignConfig, plan: Plan, query: int, limits: tuple[float, float]) -> ThresholdSelector:
    terms, table = plan.selection, config.selector
    options: dict[str, Any] = {} if table.bins is None else {"bins": table.bins}
    return ThresholdSelector(
        asked=terms.epsilon,
        missed=terms.missed[query - 1],
        threshold_epsilon=terms.threshold_epsilon,
        threshold=table.threshold,
        range=limits,
        share_above=table.share_above,
        **options,
    )
