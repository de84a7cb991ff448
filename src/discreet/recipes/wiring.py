"""Recipes by the name in a campaign's file: made with a new plan, or with the one that a store keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.config import CampaignConfig
from discreet.pools import Pool
from discreet.privacy.ledger.terms import plan_digest
from discreet.privacy.plan import Plan
from discreet.privacy.plan_forms import plan_from_json
from discreet.recipes.model_records import inputs_of
from discreet.recipes.private_pool import PrivatePool
from discreet.recipes.public_data import PublicData
from discreet.recipes.public_plan import FORMAT as PUBLIC_FORMAT
from discreet.recipes.public_plan import PublicPlan, public_plan_of

Wired = PrivatePool | PublicData


def new_recipe(config: CampaignConfig, pool: Pool, plan: Plan | None) -> Wired:
    """With its plan. ``plan``: of a private pool."""
    name = config.recipe.name
    if name not in ("private-pool", "public-data"):
        raise config.error("recipe.name", "its file has another form", "Use private-pool or public-data")
    inputs = inputs_of(config, pool)
    if name == "public-data":
        return PublicData(config=config, plan=public_plan_of(config), inputs=inputs)
    assert plan is not None
    return PrivatePool(config=config, plan=plan, inputs=inputs)


def kept_recipe(config: CampaignConfig, plan: Any, inputs: tuple[int, ...]) -> Wired:
    """With the plan that is stored."""
    if is_public(plan):
        return PublicData(config=config, plan=PublicPlan.from_json(plan), inputs=inputs)
    return PrivatePool(config=config, plan=plan_from_json(plan, certify=False), inputs=inputs)


def digest_of(plan: Any) -> str:
    """Of a stored plan, as a ledger names it."""
    if is_public(plan):
        return PublicPlan.from_json(plan).digest()
    return plan_digest(plan_from_json(plan, certify=False))


def is_public(plan: Any) -> bool:
    """Whether a stored plan is of a campaign on public data."""
    return isinstance(plan, Mapping) and plan.get("format") == PUBLIC_FORMAT
