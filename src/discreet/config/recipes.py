"""Which kind of campaign a file is, by the recipe it names; and the file read as that."""

from __future__ import annotations

import pathlib
from typing import Any

from discreet.config.campaign import CampaignConfig
from discreet.config.crowd import NAME, CrowdConfig, crowd_config_from_json, read_crowd_config
from discreet.config.reading import config_from_json, read_config
from discreet.config.schema import word_at

AnyCampaign = CampaignConfig | CrowdConfig


def read_campaign(path: pathlib.Path | str) -> AnyCampaign:
    """The configuration in the file at ``path``, of whichever recipe."""
    return read_crowd_config(path) if word_at(path, "recipe", "name") == NAME else read_config(path)


def campaign_from_json(
    form: Any, *, name: str = "the stored campaign", directory: pathlib.Path | None = None
) -> AnyCampaign:
    """The inverse of `to_json`, of whichever recipe."""
    recipe = form.get("recipe") if isinstance(form, dict) else None
    if isinstance(recipe, dict) and recipe.get("name") == NAME:
        return crowd_config_from_json(form, name=name, directory=directory)
    return config_from_json(form, name=name, directory=directory)
