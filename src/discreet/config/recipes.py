"""Which kind of campaign a file is, by the recipe it names; and the file read as that."""

from __future__ import annotations

import pathlib
from typing import Any

from discreet.config.campaign import CampaignConfig
from discreet.config.crowd import NAME, CrowdConfig, crowd_config_from_json, read_crowd_config
from discreet.config.reading import config_from_json, read_config
from discreet.config.schema import word_at
from discreet.config.teachers import NAME as TEACHERS
from discreet.config.teachers import TeachersConfig, read_teachers_config, teachers_config_from_json

AnyCampaign = CampaignConfig | CrowdConfig | TeachersConfig


def read_campaign(path: pathlib.Path | str) -> AnyCampaign:
    """The configuration in the file at ``path``, of whichever recipe."""
    recipe = word_at(path, "recipe", "name")
    if recipe == TEACHERS:
        return read_teachers_config(path)
    return read_crowd_config(path) if recipe == NAME else read_config(path)


def campaign_from_json(
    form: Any, *, name: str = "the stored campaign", directory: pathlib.Path | None = None
) -> AnyCampaign:
    """The inverse of `to_json`, of whichever recipe."""
    recipe = form.get("recipe") if isinstance(form, dict) else None
    if isinstance(recipe, dict) and recipe.get("name") == NAME:
        return crowd_config_from_json(form, name=name, directory=directory)
    if isinstance(recipe, dict) and recipe.get("name") == TEACHERS:
        return teachers_config_from_json(form, name=name, directory=directory)
    return config_from_json(form, name=name, directory=directory)
