"""Records that people take back: what is erased, in which order, and what stays.

Marked at once (a durable line in the store), a record is shown to nobody any more and its answers are not taken. It is
erased as soon as no query or training is under way that was begun with it: such a step is finished as it was begun, for
the same noise on other records would show their difference (docs/proofs/withdrawal.md). Then, in this order:

1. its id becomes a keyed code in the store, its answers and their history go: one transaction;
2. labels that phases were trained on are stored again without its own, question files in the oracle's folder, too;
3. features of its record that are kept are overwritten, files that nothing names are overwritten and removed, the
   database is rewritten and its log emptied;
4. it is recorded that this was done.

Guarantee: killed anywhere, the next process that opens the campaign goes on. Everything after 1 finds its work by the
codes, so nothing has to remember an id. Places in the pool and in cohorts stay: a null, no smaller cohort.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from discreet.campaign.answers import labels_from_bytes, to_bytes
from discreet.campaign.recipe import Answering, Recipe
from discreet.campaign.state import CampaignState
from discreet.errors import BadInput, NotNow
from discreet.oracles import remove_rows
from discreet.pools import ManifestKey, Pool, with_withdrawn
from discreet.storage import CampaignStore, WithdrawnRecord
from discreet.storage.cached_rows import erase_rows
from discreet.storage.disk import disk_refusals

LABELS, MANIFEST = "labels", "manifest.key"


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """What became of a request. Audience: owner.

    new      records that were not withdrawn before
    known    records that were
    waiting  records that are marked, and erased when the step that is under way is over
    state    where the campaign stands then
    """

    new: int
    known: int
    waiting: int
    state: CampaignState


def manifest_key(store: CampaignStore) -> ManifestKey:
    """Of the campaign: its codes tell records that are known."""
    return ManifestKey.read(store.directory / MANIFEST)


def check_can_withdraw(name: str, recipe: Recipe) -> None:
    """Only records of a private pool can be taken back."""
    asked = f"withdrawing from {name}"
    if recipe.released:
        raise NotNow(
            asked,
            "its texts were released, which cannot be taken back, and nothing reads the log any more",
            "Remove the rows from your log: the next campaign will not count them",
        )
    if isinstance(recipe, Answering):
        raise NotNow(
            asked,
            "its questions are about public records; private ones are in votes that were counted at its creation",
            "Take their records out of [private] and create a campaign of another name; what was paid stays paid",
        )


def mark(store: CampaignStore, ids: Iterable[str]) -> tuple[int, int]:
    """Mark records as withdrawn, all of them or, with an unknown id, none: how many are new, and how many known."""
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        raise BadInput("withdrawing records", "none is named", "Give their ids")
    if not all(isinstance(name, str) for name in wanted):
        raise BadInput("withdrawing records", "an id is not text", "Ids are texts everywhere")
    before = store.withdrawn()
    gone, marked = {name.id for name in before if name.erased}, {name.id for name in before if not name.erased}
    key = manifest_key(store) if gone else None
    enrolled = set(store.ids()) - gone
    known = [name for name in wanted if name in marked or (key is not None and key.withdrawn_id(name) in gone)]
    strange = sum(name not in enrolled for name in wanted) - sum(name not in enrolled for name in known)
    if strange:
        raise BadInput(
            "withdrawing records",
            f"{strange} of {len(wanted)} ids are not in the pool",
            "Give the ids of the pool; none was withdrawn. Records kept apart to measure on are in your own file alone",
        )
    return store.mark_withdrawn([name for name in wanted if name in enrolled]), len(known)


def waiting(store: CampaignStore) -> int:
    """Withdrawn records of which something is left."""
    return sum(not record.done for record in store.withdrawn())


def questions_of(store: CampaignStore, withdrawn: Iterable[WithdrawnRecord] | None = None) -> frozenset[str]:
    """Ids of questions whose records were withdrawn, or are about to be; ``withdrawn``: of those that are known."""
    gone = {record.id for record in (store.withdrawn() if withdrawn is None else withdrawn)}
    return frozenset(question.id for question in store.questions() if question.record in gone) if gone else frozenset()


def nulled(store: CampaignStore, pool: Pool, *, first: int | None = None) -> Pool:
    """``pool`` as it is enrolled, withdrawn records as nulls. ``first``: of so many records alone."""
    gone = store.withdrawn()
    ids = store.ids() if first is None else store.ids()[:first]
    marked = [record.place for record in gone if not record.erased and record.place < len(ids)]
    erased = {record.place: record.person for record in gone if record.erased and record.place < len(ids)}
    return with_withdrawn(pool, ids, marked=marked, erased=erased, key=manifest_key(store), name=store.name)


def erase(store: CampaignStore, pool: Pool, folder: Path | None) -> None:
    """Erase what is marked, and every copy. For whoever holds the campaign, while no step is under way."""
    key, gone = manifest_key(store), store.withdrawn()
    marked = [one for one in gone if not one.erased]
    if marked:
        store.erase({one.id: (key.withdrawn_id(one.id), _person_of(one, pool, key)) for one in marked})
    codes = {record.id for record in store.withdrawn()}
    _remove_labels(store, key, codes)
    if folder is not None:
        questions = {question.id for question in store.questions() if question.record in codes}
        remove_rows(folder, questions=questions, withdrew=lambda record: key.withdrawn_id(record) in codes)
    with disk_refusals(f"erasing features in campaign {store.name!r}"):
        erase_rows(store.directory, [record.place for record in store.withdrawn() if not record.done])
    store.sweep(alone=True)
    store.scrub()
    store.finish_withdrawals()


def _person_of(record: WithdrawnRecord, pool: Pool, key: ManifestKey) -> bytes:
    """The code of its person, so that a person who was asked is not asked again when their first record is gone."""
    if pool.persons is None:
        return b""
    name = pool.persons[int(pool.places([record.id])[0])]
    if name == f"withdrawn-{record.place}":
        raise NotNow(
            "withdrawing a record of a person",
            "the pool has no record of that id any more, so nothing says whose it was",
            "Restore its row, withdraw it, then remove it; its numbers may be blank",
        )
    return key.person_code(name)


def _remove_labels(store: CampaignStore, key: ManifestKey, codes: set[str]) -> None:
    for file in store.files():
        if file.kind != LABELS:
            continue
        labels = labels_from_bytes(store.file(LABELS, file.phase).read_bytes())
        left = {name: value for name, value in labels.items() if key.withdrawn_id(name) not in codes}
        if len(left) != len(labels):
            store.keep_file(LABELS, phase=file.phase, data=to_bytes(left), replace=True)


def withdrawn_of(store: CampaignStore, persons: Iterable[str]) -> dict[str, int]:
    """How many records of each person were erased; persons without any are not in it. Their rows may be gone."""
    codes = Counter(record.person for record in store.withdrawn() if record.erased and record.person)
    if not codes:
        return {}
    key = manifest_key(store)
    counts = {name: codes[key.person_code(name)] for name in set(persons)}
    return {name: count for name, count in counts.items() if count}


def records_of(pool: Pool, persons: Iterable[str], known: Collection[str] = ()) -> list[str]:
    """Ids of all records of persons that are still there. ``known``: persons who may have none left."""
    names = set(persons)
    if pool.persons is None:
        raise BadInput(
            "withdrawing a person", "the pool says of no record whose it is", "Give the ids of their records"
        )
    records = [
        name
        for name, person in zip(pool.ids, pool.persons, strict=True)
        if person in names and name not in pool.withdrawn
    ]
    missing = len(names - set(pool.persons) - set(known))
    if missing:
        raise BadInput(
            "withdrawing a person", f"{missing} of {len(names)} are not in the pool", "Check the names; none was"
        )
    return records
