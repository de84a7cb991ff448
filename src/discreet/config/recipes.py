"""Files of campaigns by the recipe that they name: reading one, and a commented example of each to begin with."""

from __future__ import annotations

import pathlib
from importlib import resources
from typing import Any

from discreet.checks import nearest
from discreet.config.campaign import CampaignConfig, CampaignFile
from discreet.config.schema import word_at
from discreet.errors import BadInput
from discreet.parts import RECIPES

EXAMPLES = tuple(RECIPES)


def _config_class(recipe: object) -> type[CampaignFile]:
    """What a campaign's file is read as; of a recipe that does not exist as that of a private pool, which says so."""
    entry = RECIPES.get(recipe) if isinstance(recipe, str) else None
    if entry is None or entry.spec is None:
        return CampaignConfig
    config: type[CampaignFile] = entry.config.load()
    return config


def read_campaign(path: pathlib.Path | str, *, stored: bool = False) -> CampaignFile:
    """The configuration in the file at ``path``, of whichever recipe.

    ``stored``: to look at a campaign that exists; no part of another package is loaded.
    """
    return _config_class(word_at(path, "recipe", "name")).read(path, stored=stored)


def campaign_from_json(
    form: Any, *, name: str = "", directory: pathlib.Path | None = None, stored: bool = False
) -> CampaignFile:
    """The inverse of `to_json`, of whichever recipe. ``stored``: of a campaign that exists, as in `read_campaign`."""
    recipe = form.get("recipe") if isinstance(form, dict) else None
    config_class = _config_class(recipe.get("name") if isinstance(recipe, dict) else None)
    return config_class.from_json(form, name=name, directory=directory, stored=stored)


def example(name: str = "private-pool") -> str:
    """The text of a file for this recipe."""
    if name not in EXAMPLES:
        raise BadInput(f"an example called {name}", "there is none", nearest(name, EXAMPLES))
    return (resources.files("discreet.config") / f"{name}.toml").read_text(encoding="utf-8")
