"""More records for a campaign, and whether the ones it has are what they were. Audience: owner."""

from __future__ import annotations

import os
from pathlib import Path

from discreet.campaign import Campaign
from discreet.campaign.sealed_steps import query_begun
from discreet.campaign.withdrawing import manifest_key
from discreet.config import CampaignConfig
from discreet.errors import BadInput, NotNow
from discreet.pools import Differences, JoinedPool, Pool, compare, extended, macs
from discreet.recipes.measuring import check_apart, pool_like
from discreet.storage import CampaignStore


def extend(campaign: Campaign, config: CampaignConfig, file: Path) -> tuple[int, int]:
    """Enrol the records of a file as a further cohort of the pool: its number, and how many there are.

    They meet the queries that are still to come. The plan and its claim stay: a record that joined later lost less.
    The same file again, after a crash, is the same cohort.
    """
    if config.pool.kind == "arrays":
        raise BadInput("extending a pool", "it was given in Python", "Call join(campaign, pool) with the new records")
    place = Path(os.path.relpath(file.absolute(), config.resolve(".").absolute()))
    known = [one for one in campaign.store.pool_cohorts()[1:] if one.facts.get("path") == str(place)]
    if known and config.pool.id == "position":  # its records would be taken for new ones
        return known[0].number, known[0].size
    if config.pool.id == "position":  # they run on from the last record
        further = extended(campaign.pool, config.resolve(str(place))).parts[-1]
    else:
        further = pool_like(config, str(place))
    check_apart(config, further, path=str(place))
    return join(campaign, further, path=str(place))


def join(campaign: Campaign, further: Pool, *, path: str | None = None) -> tuple[int, int]:
    """Enrol the records of ``further``. Load the campaign again then; one whose pool is given in Python, with the
    longer pool.
    """
    store = campaign.store
    known = [_enrolled(campaign.pool, name, store) for name in further.ids] if campaign.pool.withdrawn else further.ids
    for cohort in store.pool_cohorts()[1:]:
        if store.ids(cohort.number) == known:
            return cohort.number, cohort.size
    _check_withdrawn(campaign, further)
    JoinedPool([campaign.pool, further])  # ids are new, shapes fit
    key = manifest_key(store)
    with store.exclusive("working"):
        _check_between_queries(campaign)
        codes = list(macs(further, key, progress=lambda done, whole: campaign.watch("enrolling", done, whole)))
        facts = {"pool": further.public()} | ({} if path is None else {"path": path})
        number = store.add_records(codes, facts)
    return number, len(further)


def _enrolled(pool: Pool, name: str, store: CampaignStore) -> str:
    return manifest_key(store).withdrawn_id(name) if pool.withdrew(name) else name


def _check_withdrawn(campaign: Campaign, further: Pool) -> None:
    """Whoever withdrew does not come back by another file: neither a record, nor a person without any left."""
    pool = campaign.pool
    again = sum(pool.withdrew(name) for name in further.ids)
    if further.persons is not None and pool.persons is not None:
        gone = pool.withdrawn
        left = {person for one, person in zip(pool.ids, pool.persons, strict=True) if one not in gone}
        lost = {one.person for one in campaign.store.withdrawn() if one.person}
        key = manifest_key(campaign.store)
        again += sum(person not in left and key.person_code(person) in lost for person in further.persons)
    if again:
        raise BadInput(
            "extending a pool",
            f"{again} of its records, or their persons, were withdrawn",
            "Leave them out of the file",
        )


def _check_between_queries(campaign: Campaign) -> None:
    """A query that was begun is repeated on the records it was begun with, or could never be finished."""
    now = campaign.standing
    if now.step == "ask" and query_begun(campaign.store, now.phase):
        raise NotNow("extending a pool", f"query {now.phase} was begun without the new records", "Finish it: ask first")


def changes(campaign: Campaign) -> Differences:
    """Every record against its keyed code."""
    key = manifest_key(campaign.store)
    return compare(
        campaign.store.macs(), campaign.pool, key, progress=lambda done, whole: campaign.watch("comparing", done, whole)
    )
