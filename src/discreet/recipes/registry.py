"""The specification of a recipe. Its module is imported when a file or a campaign names it."""

from __future__ import annotations

from typing import Any

from discreet.campaign import Campaign
from discreet.config import CampaignFile
from discreet.parts import RECIPES
from discreet.recipes.specification import RecipeSpec

OWN = RecipeSpec(name="own", title="a recipe of one's own")
"""Of a campaign whose recipe is an object of the caller's."""


def recipe_named(name: str) -> RecipeSpec | None:
    """The specification of a recipe; None: there is none of that name."""
    entry = RECIPES.get(name)
    if entry is None or entry.spec is None:
        return None
    spec: RecipeSpec = entry.spec.load()
    return spec


def spec_of(config: CampaignFile) -> RecipeSpec:
    """Of a campaign's file."""
    spec = recipe_named(config.recipe.name)
    if spec is None:
        campaigns = [name for name, entry in RECIPES.items() if entry.spec is not None]
        raise config.error("recipe.name", "its file has another form", f"Use {' or '.join(campaigns)}")
    return spec


def spec_of_campaign(campaign: Campaign) -> RecipeSpec:
    """Of an open campaign."""
    config: Any = getattr(campaign.recipe, "config", None)
    return OWN if config is None else spec_of(config)
