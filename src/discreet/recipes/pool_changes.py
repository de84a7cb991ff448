"""More records for a campaign, and whether the ones it has are what they were. Audience: owner."""

from __future__ import annotations

import os
from pathlib import Path

from discreet.campaign import Campaign
from discreet.campaign.campaign import MANIFEST
from discreet.config import CampaignConfig
from discreet.errors import BadInput
from discreet.pools import Differences, JoinedPool, ManifestKey, compare, macs
from discreet.recipes.measuring import pool_like


def extend(campaign: Campaign, config: CampaignConfig, file: Path) -> tuple[int, int]:
    """Enrol the records of a file as a further cohort of the pool: its number, and how many there are.

    They meet the queries that are still to come. The plan and its claim stay: a record that joined later lost less.
    """
    if config.pool.kind == "arrays":
        raise BadInput("extending a pool", "it was given in Python", "Give the longer pool to create_campaign")
    place = Path(os.path.relpath(file.absolute(), config.resolve(".").absolute()))
    further = pool_like(config, str(place))
    JoinedPool([campaign.pool, further])  # ids are new, shapes fit
    key = ManifestKey.read(campaign.store.directory / MANIFEST)
    with campaign.store.exclusive("working"):
        codes = macs(further, key, progress=lambda done, whole: campaign.watch("enrolling", done, whole))
        number = campaign.store.add_records(codes, {"path": str(place), "pool": further.public()})
    return number, len(further)


def changes(campaign: Campaign) -> Differences:
    """Every record against its keyed code."""
    key = ManifestKey.read(campaign.store.directory / MANIFEST)
    return compare(
        campaign.store.macs(), campaign.pool, key, progress=lambda done, whole: campaign.watch("comparing", done, whole)
    )
