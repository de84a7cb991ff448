"""Changes of a campaign's pool: records that join it, records that are withdrawn, and whether the others are what they
were when they were enrolled. Audience: owner.

Withdrawal works also when the records are gone from the owner's file already.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from discreet.campaign import Campaign, Withdrawal
from discreet.campaign.crash_recovery import query_begun
from discreet.campaign.recipe import Watch, unwatched
from discreet.campaign.withdrawal import manifest_key, mark
from discreet.config import CampaignConfig, CampaignFile
from discreet.errors import BadInput, NotNow
from discreet.pools import CellCounts, Differences, JoinedPool, Pool, cell_counts, compare, extended, macs
from discreet.pools.unread_cells import HeldOutCounts
from discreet.recipes.labelled_records import check_apart, check_proposal, held_out_counts, pool_like
from discreet.recipes.opening import load
from discreet.recipes.specification import spec_of
from discreet.storage import CampaignStore, open_storage


def extend(campaign: Campaign, config: CampaignConfig, file: Path) -> tuple[int, int]:
    """Enrol the records of a file as a further cohort of the pool: its number, and how many there are.

    They meet the queries that are still to come. The plan and its claim stay: a record that joined later lost less.
    The same file again, after a crash, is the same cohort.
    """
    if config.pool.kind == "arrays":
        raise BadInput("extending a pool", "it was given in Python", "Call join(campaign, pool) with the new records")
    path = Path(os.path.relpath(file.absolute(), config.resolve(".").absolute()))
    known = [cohort for cohort in campaign.store.pool_cohorts()[1:] if cohort.facts.get("path") == str(path)]
    if known and config.pool.id == "position":  # its records would be taken for new ones
        return known[0].number, known[0].size
    if config.pool.id == "position":  # they run on from the last record
        further = extended(campaign.pool, config.resolve(str(path))).parts[-1]
    else:
        further = pool_like(config, str(path))
    check_apart(config, further, path=str(path))
    if not spec_of(config).public_records:
        check_proposal(config, path=config.resolve(str(path)))
    return join(campaign, further, path=str(path))


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
        codes = list(macs(further, key, progress=lambda done, total: campaign.watch("enrolling", done, total)))
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
        lost = {record.person for record in campaign.store.withdrawn() if record.person}
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
    now = campaign.state
    if now.step == "ask" and query_begun(campaign.store, now.phase):
        raise NotNow("extending a pool", f"query {now.phase} was begun without the new records", "Finish it: ask first")


def changes(campaign: Campaign) -> Differences:
    """Every record against its keyed code."""
    key = manifest_key(campaign.store)
    return compare(
        campaign.store.macs(), campaign.pool, key, progress=lambda done, total: campaign.watch("comparing", done, total)
    )


def unread(campaign: Campaign, config: CampaignFile) -> CellCounts | None:
    """What of the pool's files cannot be read, by column; None of a campaign whose records are in no file."""
    pool = spec_of(config).records(campaign.store, config, None) if hasattr(config, "pool") else None
    return None if pool is None else cell_counts(pool)


def unread_held_out(config: CampaignFile) -> HeldOutCounts | None:
    """What of the held-out records of a paid evaluation cannot be read; None where none is paid for."""
    return held_out_counts(config) if isinstance(config, CampaignConfig) else None


# -- withdrawal

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
    of_persons = campaign.withdraw(persons=persons, later=later) if persons else None
    waiting = campaign.erase_withdrawn(later=later)
    return campaign, Withdrawal(
        new=new + (of_persons.new if of_persons else 0),
        known=known + (of_persons.known if of_persons else 0),
        waiting=waiting,
        state=campaign.state,
    )
