"""From a file to a campaign of teachers: the private records are read once, when it is created, and never again.

Guarantee: everything that can be refused is refused first, and the plan is committed in the ledger before a private
record teaches anybody. Then, each step durable before the next: teachers (cached one by one, so that an interrupted
training goes on), their votes in a file by its hash, for the owner alone, the step "voted". Nothing is released here,
so nothing is drawn and nothing charged: a process that dies leaves what the next one goes on with. When the votes are
there, cached teachers are destroyed.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from typing import Any

import numpy as np

from discreet.campaign import Campaign
from discreet.campaign.recipe import Watch, unwatched
from discreet.campaign.secret_keys import make_keys
from discreet.campaign.standing import CREATED
from discreet.campaign.withdrawing import nulled
from discreet.config import TeachersConfig
from discreet.errors import BadInput, InvalidStore, NotNow, PoolChanged
from discreet.noise import OperatingSystem, SecretKey, Seeded
from discreet.noise.key_files import destroy
from discreet.oracles.label_files import PrivateLabels, read_private_labels
from discreet.planning.teachers.phases import TeacherPlan
from discreet.pools import Pool
from discreet.privacy.ledger import Ledger
from discreet.recipes.asking_students import public_rows
from discreet.recipes.known_labels import answer_words
from discreet.recipes.one_of_a_name import OneOfAName
from discreet.recipes.opening import FORMAT, check_kept, enrol, form_of
from discreet.recipes.tallies import Confirm, Tallies, private_rows, tallies_of
from discreet.recipes.teacher_estimators import is_flat, student_of, teacher_of
from discreet.recipes.teachers import Teachers, evaluation_records, records_like, teacher_plan
from discreet.records import Votes
from discreet.storage import CampaignStore
from discreet.storage.disk import disk_refusals
from discreet.trainers.students.stored import flattened
from discreet.trainers.teachers import read_votes, train_teachers
from discreet.trainers.teachers.training import rehearse
from discreet.trainers.teachers.votes_files import votes_to_bytes

VOTES, VOTED, CACHE = "votes", "voted", "teachers"


def create_teachers(
    config: TeachersConfig,
    *,
    pool: Pool | None = None,
    load_if_exists: bool = True,
    watch: Watch = unwatched,
    confirm: Confirm = False,
) -> Campaign:
    """A new campaign, its teachers trained and their votes counted; or the one of that name.

    ``confirm``: who looks at the tallies of private records before it begins; True: nobody has to. Without it a
    campaign that is no simulation is refused, whatever its records are.
    """
    named = OneOfAName.of(config, load_if_exists=load_if_exists)
    if (kept := named.there()) is not None:
        return opened_teachers(kept, config, pool=pool, watch=watch)
    plan = teacher_plan(config)
    records = public_pool(config) if pool is None else pool
    check(config, records)
    _check_confirmed(config, confirm)
    form = {"format": FORMAT, "config": config.to_json(), "plan": plan.to_json()}
    return opened_teachers(named.created(form), config, pool=records, watch=watch)


def opened_teachers(
    store: CampaignStore, config: TeachersConfig, *, pool: Pool | None = None, watch: Watch = unwatched
) -> Campaign:
    """The campaign of a store; its creation is finished first, if a process died in it."""
    form = form_of(store)
    check_kept(form["config"], config)
    plan, seed = TeacherPlan.from_json(form["plan"]), None if config.simulation is None else config.simulation.seed
    recipe = replace(Teachers(config=config, plan=plan), votes=lambda: kept_votes(store))
    records = public_pool(config) if pool is None else pool
    _finish(store, recipe, records, seed, watch)
    made = Campaign(store, recipe=recipe, pool=nulled(store, records), seed=seed, watch=watch)
    made.tidy()
    return made


def begins(config: TeachersConfig) -> bool:
    """Whether `create_teachers` would begin a campaign whose owner has to confirm it: a new one, no simulation."""
    if config.simulation is not None:
        return False
    with OneOfAName.of(config, load_if_exists=True).storage as storage:
        return config.name not in storage.campaigns()


def private_tallies(config: TeachersConfig) -> Tallies:
    """Of the private records, once everything that can be refused was refused. Audience: owner."""
    teacher_plan(config)
    check(config, public_pool(config))
    return tallies_of(private_pool(config), private_labels(config), config.task.classes)


def _check_confirmed(config: TeachersConfig, confirm: Confirm) -> None:
    """Nothing here but the owner's own function depends on what private cells hold."""
    if config.simulation is not None or confirm is True:
        return
    asked = f"beginning the campaign {config.name}"
    if not callable(confirm):
        raise BadInput(
            asked,
            "its owner did not confirm it",
            "Run discreet init in a terminal and look at the tallies of the private records, or give --yes "
            "(confirm=True in Python), which starts whatever they are",
        )
    private = tallies_of(private_pool(config), private_labels(config), config.task.classes)
    if not confirm(private):
        raise NotNow(asked, "its owner did not confirm it", "Nothing was begun or charged; correct the files first")


def public_pool(config: TeachersConfig) -> Pool:
    """The records that teachers vote on."""
    return records_like(config, config.pool.path, "pool", size=config.pool.size)


def kept_votes(store: CampaignStore) -> Votes:
    """Audience: owner."""
    return read_votes(store.file(VOTES, 0))


def check(config: TeachersConfig, pool: Pool) -> None:
    """Refuse, before there is a campaign, what could not work. Nothing of a private record is told."""
    if len(pool) != config.pool.size:
        raise config.error("pool.size", f"the pool has {len(pool)} records", "Declare as many")
    rows = _whole_public(config, pool)
    with config.pointing("teachers.name"):
        rehearse(teacher_of(config), rows, len(config.task.classes))
    with config.pointing("student.name"):
        rehearse(student_of(config), public_rows(config, pool), len(config.task.classes))
    evaluation_records(config)
    private = private_pool(config)
    here, there = config.resolve(config.private.path), config.resolve(config.pool.path)
    same = here.exists() and there.exists() and here.samefile(there)
    if same or (config.pool.id != "position" and set(private.ids) & set(pool.ids)):
        raise config.error("private.path", "records of the public pool are in it", "Keep them apart")
    if private_labels(config).records.isdisjoint(private.ids):
        raise config.error("private.labels", "none of them is of a record in private.path", "Check the ids")


def private_pool(config: TeachersConfig) -> Pool:
    """The private records, as declared."""
    table = config.private
    return records_like(config, table.path, "private", size=table.size, person=table.person)


def private_labels(config: TeachersConfig) -> PrivateLabels:
    """Their labels; a cell that cannot be read makes its record a null."""
    place = config.resolve(config.private.labels)
    if not place.is_file():
        remedy = "Name a CSV or JSONL file with columns record and label"
        raise config.error("private.labels", "there is no such file", remedy)
    with config.pointing("private.labels"):
        return read_private_labels(place, words=answer_words(config))


def _whole_public(config: TeachersConfig, pool: Pool) -> Any:
    """Rows that teachers vote on."""
    broken = int(pool.broken(slice(None)).sum())
    if broken:
        raise config.error("pool.path", f"{broken} of its records cannot be read", "Mend them, or leave them out")
    return public_rows(config, pool, "teachers")


def _finish(store: CampaignStore, recipe: Teachers, pool: Pool, seed: int | None, watch: Watch) -> None:
    """Enrol the public records, open the ledger, and count votes, unless that is done."""
    if _taken(store, CREATED):
        return
    with store.exclusive("creating", wait=600.0):
        if _taken(store, CREATED):
            return
        keys = make_keys(store, seed)
        enrol(store, pool, watch)
        if len(pool) != sum(cohort.size for cohort in store.pool_cohorts()):
            raise PoolChanged(f"creating {store.name}", "other public records were enrolled", "Put them back")
        if not store.sink().read():
            source = OperatingSystem() if seed is None else Seeded(seed)
            Ledger.create(store.sink(), recipe.terms(), source=source).close()
        if not _taken(store, VOTED):
            _count(store, recipe, pool, seed, watch)
        _forget_teachers(store)
        store.record(CREATED, phase=0, facts={"keys": keys})


def _count(store: CampaignStore, recipe: Teachers, pool: Pool, seed: int | None, watch: Watch) -> None:
    """Train, let vote, keep; the step is recorded last."""
    config = recipe.config
    x, labels, units = _lessons(config)
    votes = train_teachers(
        x,
        labels,
        units=units,
        public=_whole_public(config, pool),
        public_ids=pool.ids,
        classes=config.task.classes,
        teachers=config.teachers.count,
        estimator=teacher_of(config),
        key=_teacher_key(store, seed),
        unit=config.budget.unit,
        processes=config.teachers.processes,
        cache=store.directory / CACHE,
        progress=lambda done, of: watch("training teachers", done, of),
    )
    store.keep_file(VOTES, phase=0, data=votes_to_bytes(votes), replace=True)
    facts = {"teachers": votes.teachers, "records": len(votes.ids), "unit": votes.unit}
    store.record(VOTED, phase=0, facts=facts)


def _lessons(config: TeachersConfig) -> tuple[Any, list[str | None], list[str]]:
    """Private rows, their labels (None: a null), and the unit of each."""
    pool, labels = private_pool(config), private_labels(config).values
    stored, readable = private_rows(pool)
    rows = np.asarray(stored, dtype=np.float32)
    said = [labels.get(name) for name in pool.ids]
    known = [one if isinstance(one, str) and fine else None for one, fine in zip(said, readable, strict=True)]
    units = pool.ids if config.budget.unit == "record" else pool.persons
    assert units is not None  # a person column is declared, and the pool was read with it
    return (flattened(rows) if is_flat(config, "teachers") else rows), known, list(units)


def _teacher_key(store: CampaignStore, seed: int | None) -> SecretKey:
    """Cuts the private records, seeds teachers and names cached ones: the key of the campaign that cuts."""
    if seed is not None:
        return SecretKey(hashlib.sha256(f"discreet teachers {seed}".encode()).digest())
    place = store.directory / "shards.key"
    if not place.exists():
        raise InvalidStore(f"the campaign {store.name}", f"{place.name} is missing", "Restore it from a backup")
    return SecretKey.read(place)


def _forget_teachers(store: CampaignStore) -> None:
    """Teachers know private records, and are not needed any more."""
    place = store.directory / CACHE
    with disk_refusals(f"removing teachers of campaign {store.name!r}"):
        for file in place.glob("*") if place.is_dir() else ():
            destroy(file)
        shutil.rmtree(place, ignore_errors=True)


def _taken(store: CampaignStore, kind: str) -> bool:
    return any(one.kind == kind for one in store.transitions())
