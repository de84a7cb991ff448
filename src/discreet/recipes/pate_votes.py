"""Private records of a PATE campaign: what their owner is shown, and the votes of teachers that are trained on them.

Guarantee: everything that can be refused is refused first, and the plan is committed in the ledger before a private
record teaches anybody. Then, each step durable before the next: teachers (cached one by one, so that an interrupted
training goes on), their votes in a file by its hash, for the owner alone, the step "voted". Nothing is released here,
so nothing is drawn and nothing charged: a process that dies leaves what the next one goes on with. When the votes are
there, cached teachers are destroyed.

Labels that are no declared class, and cells that hold no number, make nulls of their records. Nobody but the owner may
learn how many there are, so nothing refuses because of them: the owner sees the tallies on a terminal and decides. That
decision is not covered by the guarantee, and the certificate says so. Tallies are not stored, logged or exported.

Audience: owner.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.campaign.recipe import Watch
from discreet.config import PateConfig
from discreet.errors import BadInput, InvalidStore, NotNow, PoolChanged
from discreet.noise import SecretKey
from discreet.noise.keys import destroy
from discreet.oracles.answer_files import PrivateLabels, read_private_labels
from discreet.pools import CellCounts, Pool, cell_counts
from discreet.pools.rows import SEVERAL, Mask, readable_rows
from discreet.pools.unread_cells import readable
from discreet.recipes.labelled_records import answer_words, check_proposal
from discreet.recipes.pate_student import (
    evaluation_records,
    is_flat,
    public_rows,
    records_like,
    rows_of,
    student_of,
    teacher_of,
)
from discreet.recipes.specification import Confirm, is_recorded
from discreet.records import Votes
from discreet.storage import CampaignStore
from discreet.storage.disk import disk_refusals
from discreet.trainers.students.stored import flattened
from discreet.trainers.teachers import read_votes, train_teachers
from discreet.trainers.teachers.training import rehearse, votes_to_bytes

VOTES, VOTED, CACHE = "votes", "voted", "teachers"


@dataclass(frozen=True, kw_only=True)
class Tallies:
    """What private labelled records look like. Audience: owner; the repr has nothing of it.

    records      how many there are: declared
    classes      records by the declared class of their label
    elsewhere    records whose label is no declared class
    unlabelled   records without a label
    rows         rows of the file of labels that could not be read
    cells        what became of the cells, by column, and how many records are nulls by them
    usable       records that teach: readable, with a label of a declared class
    """

    records: int
    classes: Mapping[str, int] = field(repr=False)
    elsewhere: int = field(repr=False)
    unlabelled: int = field(repr=False)
    rows: int = field(repr=False)
    cells: CellCounts = field(repr=False)
    usable: int = field(repr=False)

    def text(self) -> str:
        """For a terminal."""
        lines = [f"Private records, for the owner alone: {self.usable} of {self.records} can be learnt from."]
        lines += [f"  label {name}: {count}" for name, count in self.classes.items()]
        lines.append(f"  label of no declared class: {self.elsewhere}")
        lines.append(f"  without a label: {self.unlabelled}; rows of labels that cannot be read: {self.rows}")
        lines.append(self.cells.text())
        return "\n".join(lines)


def tallies_of(pool: Pool, labels: PrivateLabels, classes: tuple[str, ...]) -> Tallies:
    """Count labels and cells. Reads every private record, and keeps none."""
    values = [labels.values.get(name) for name in pool.ids]
    known = Counter(value for value in values if value is not None)
    fine = [
        value in classes and ok
        for value, ok in zip(values, readable(pool.text if pool.x is None else pool.x).tolist(), strict=True)
    ]
    return Tallies(
        records=len(pool),
        classes={name: known[name] for name in classes},
        elsewhere=sum(count for name, count in known.items() if name not in classes),
        unlabelled=sum(value is None for value in values),
        rows=labels.unreadable,
        cells=cell_counts(pool),
        usable=sum(fine),
    )


def private_rows(rows: Any) -> tuple[NDArray[Any], Mask]:
    """All rows, and which of them can be read. Where none of several can, a reader refuses; that would be an error of
    private cells, so they are read a few at a time then.
    """
    try:
        return readable_rows(rows, slice(0, len(rows)))
    except BadInput:
        few = SEVERAL - 1
        parts = [readable_rows(rows, slice(at, min(at + few, len(rows)))) for at in range(0, len(rows), few)]
        read, fine = zip(*parts, strict=True)
        return np.concatenate(read), np.concatenate(fine)


# -- files of records


def check_confirmed(config: PateConfig, confirm: Confirm) -> None:
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


def public_pool(config: PateConfig) -> Pool:
    """The records that teachers vote on."""
    return records_like(config, config.pool.path, "pool", size=config.pool.size)


def kept_votes(store: CampaignStore) -> Votes:
    """Audience: owner."""
    return read_votes(store.file(VOTES, 0))


def check(config: PateConfig, pool: Pool) -> None:
    """Refuse, before there is a campaign, what could not work. Nothing of a private record is told."""
    if len(pool) != config.pool.size:
        raise config.error("pool.size", f"the pool has {len(pool)} records", "Declare as many")
    rows = _whole_public(config, pool)
    with config.pointing("teachers.name"):
        rehearse(teacher_of(config), rows, len(config.task.classes))
    with config.pointing("student.name"):
        rehearse(student_of(config), public_rows(config, pool), len(config.task.classes))
    evaluation_records(config)
    check_proposal(config, "private.path")
    private = private_pool(config)
    here, public_file = config.resolve(config.private.path), config.resolve(config.pool.path)
    same = here.exists() and public_file.exists() and here.samefile(public_file)
    if same or (config.pool.id != "position" and set(private.ids) & set(pool.ids)):
        raise config.error("private.path", "records of the public pool are in it", "Keep them apart")
    if private_labels(config).records.isdisjoint(private.ids):
        raise config.error("private.labels", "none of them is of a record in private.path", "Check the ids")


def private_pool(config: PateConfig) -> Pool:
    """The private records, as declared."""
    table = config.private
    return records_like(config, table.path, "private", size=table.size, person=table.person)


def private_labels(config: PateConfig) -> PrivateLabels:
    """Their labels; a cell that cannot be read makes its record a null."""
    file = config.resolve(config.private.labels)
    if not file.is_file():
        remedy = "Name a CSV or JSONL file with columns record and label"
        raise config.error("private.labels", "there is no such file", remedy)
    with config.pointing("private.labels"):
        return read_private_labels(file, words=answer_words(config))


def _whole_public(config: PateConfig, pool: Pool) -> Any:
    """Rows that teachers vote on."""
    broken = int(pool.broken(slice(None)).sum())
    if broken:
        raise config.error("pool.path", f"{broken} of its records cannot be read", "Mend them, or leave them out")
    return public_rows(config, pool, "teachers")


def count_votes(store: CampaignStore, config: PateConfig, pool: Pool, seed: int | None, watch: Watch) -> None:
    """Train, let vote, keep, unless that is done; the step is recorded last."""
    if len(pool) != sum(cohort.size for cohort in store.pool_cohorts()):
        raise PoolChanged(f"creating {store.name}", "other public records were enrolled", "Put them back")
    if not is_recorded(store, VOTED):
        _count(store, config, pool, seed, watch)
    _forget_teachers(store)


def _count(store: CampaignStore, config: PateConfig, pool: Pool, seed: int | None, watch: Watch) -> None:
    x, labels, units = _training_records(config)
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


def _training_records(config: PateConfig) -> tuple[Any, list[str | None], list[str]]:
    """Private rows, their labels (None: a null), and the unit of each."""
    pool, labels = private_pool(config), private_labels(config).values
    stored, readable = private_rows(rows_of(config, pool))
    rows = np.asarray(stored, dtype=np.float32)
    values = [labels.get(name) for name in pool.ids]
    known = [value if isinstance(value, str) and fine else None for value, fine in zip(values, readable, strict=True)]
    units = pool.ids if config.budget.unit == "record" else pool.persons
    assert units is not None  # a person column is declared, and the pool was read with it
    return (flattened(rows) if is_flat(config, "teachers") else rows), known, list(units)


def _teacher_key(store: CampaignStore, seed: int | None) -> SecretKey:
    """Cuts the private records, seeds teachers and names cached ones: the key of the campaign that cuts."""
    if seed is not None:
        return SecretKey(hashlib.sha256(f"discreet teachers {seed}".encode()).digest())
    file = store.directory / "shards.key"
    if not file.exists():
        raise InvalidStore(f"the campaign {store.name}", f"{file.name} is missing", "Restore it from a backup")
    return SecretKey.read(file)


def _forget_teachers(store: CampaignStore) -> None:
    """Teachers know private records, and are not needed any more."""
    folder = store.directory / CACHE
    with disk_refusals(f"removing teachers of campaign {store.name!r}"):
        for file in folder.glob("*") if folder.is_dir() else ():
            destroy(file)
        shutil.rmtree(folder, ignore_errors=True)
