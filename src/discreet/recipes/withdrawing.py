"""Withdrawing records of the campaign that a file names, also when they are gone from the owner's file already."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.campaign import Campaign, Withdrawal
from discreet.campaign.recipe import Watch, unwatched
from discreet.campaign.withdrawing import mark
from discreet.config import CampaignConfig
from discreet.errors import BadInput
from discreet.recipes.opening import load
from discreet.storage import open_storage

REMAINS = (
    "models that were trained with a record stay; what they tell of it is bounded by the campaign's epsilon and delta",
    "no later query scores it and no later training uses it; its place stays, empty, so the claim stays as it was",
)
"""What a person who withdraws can be told."""

ELSEWHERE = (
    "your own pool and label files: its row is passed over from now on, and may be removed",
    "files written with ask --out or elsewhere, answer files, and copies that annotators have",
    "backups and snapshots of the store, other campaigns, and what the disk keeps of deleted files",
    "exported models, which hold no record",
)
"""What discreet cannot reach."""

AT_LABEL_STUDIO = (
    "tasks about it at Label Studio: discreet labelstudio remove deletes them, and so does every push and sync; the"
    " server's exports, backups and free database pages are its operator's"
)
"""Where people label there."""


def elsewhere(config: CampaignConfig) -> tuple[str, ...]:
    """What this command does not reach."""
    return (AT_LABEL_STUDIO, *ELSEWHERE) if config.oracle.name == "label-studio" else ELSEWHERE


def withdraw(
    config: CampaignConfig,
    ids: Sequence[str],
    *,
    persons: Sequence[str] = (),
    later: bool = False,
    watch: Watch = unwatched,
) -> tuple[Campaign, Withdrawal]:
    """Take back records by id, and all records of persons. Marked before the pool is read: its file may lack them."""
    if ids and persons:  # marking cannot be undone, and a person who is not there is found only after it
        raise BadInput("withdrawing", "both records and persons are named", "Withdraw them one after the other")
    new = known = 0
    if ids or not persons:
        with open_storage(
            config.storage_url(), directory=config.storage_directory(), mark=config.storage_mark(), must_exist=True
        ) as storage:
            new, known = mark(storage.load(config.name), ids)
    campaign = load(config, watch=watch)  # erases what is marked, if no step is under way
    found = campaign.withdraw(persons=persons, later=later) if persons else None
    waiting = campaign.erase_withdrawn(later=later)
    return campaign, Withdrawal(
        new=new + (found.new if found else 0),
        known=known + (found.known if found else 0),
        waiting=waiting,
        standing=campaign.standing,
    )
