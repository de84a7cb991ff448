"""Labelled records that the owner brings: labels of phase 0 that exist already, and records to measure the model on.

Known labels: the guarantee rests on how their records were chosen, which the owner declares: uniformly at random, or
by a public rule. Records that were chosen by looking at them would have to be paid for. A file that does not fit the
plan is refused before anything is charged, with counts alone.

Evaluation is on public records, or on private ones kept apart from the pool, for a price; as the campaign's file says.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.campaign.recipe import PhaseContext
from discreet.config import CampaignConfig, CampaignFile
from discreet.config.campaign_tables import groups_of
from discreet.errors import BadInput
from discreet.noise import charge_once
from discreet.oracles import AnswerWords, read_labels
from discreet.oracles.answer_files import read_private_labels
from discreet.pools import Pool, cell_counts, open_pool
from discreet.pools.checks import existing_file
from discreet.pools.file_columns import categories_of_records, check_columns_of
from discreet.pools.opening import kind_of
from discreet.pools.schema_proposal import looked_at
from discreet.pools.unread_cells import HeldOutCounts
from discreet.privacy.events import Event
from discreet.privacy.ledger import ChargeReason
from discreet.privacy.ledger.charges import request
from discreet.privacy.ledger.plan_terms import HELD_OUT
from discreet.recipes.feature_rows import on_features
from discreet.recipes.learning import cohort_of
from discreet.recipes.pool_records import Units
from discreet.records import Value

if TYPE_CHECKING:
    from discreet.trainers.accuracy import Evaluation
    from discreet.trainers.dp_sgd import CohortRecords
    from discreet.trainers.layouts import Layout

MECHANISM = "imported"


def answer_words(config: CampaignFile) -> AnswerWords:
    """How cells of answers and labels are written."""
    return AnswerWords() if config.oracle.separator is None else AnswerWords(separator=config.oracle.separator)


def labels_in(config: CampaignConfig, path: str, key: str) -> dict[str, Value]:
    """Labels by record of a file that ``key`` names, all of declared classes."""
    labels = file_labels(config, path, key)
    known = set(config.task.classes)
    strange = sum(not set(value if isinstance(value, tuple) else (value,)) <= known for value in labels.values())
    if strange:
        raise config.error(
            key, f"{strange} of its {len(labels)} labels are outside the classes", "Declare the class, or correct them"
        )
    return labels


def file_labels(config: CampaignFile, path: str, key: str) -> dict[str, Value]:
    """Labels by record of a file that ``key`` names, whatever they say."""
    file = config.resolve(path)
    if not file.is_file():
        raise config.error(key, "there is no such file", "Name a CSV or JSONL file with columns record and label")
    with config.pointing(key):
        return read_labels(file, multilabel=config.task.kind == "multilabel", words=answer_words(config))


def known_labels(config: CampaignConfig) -> dict[str, Value]:
    """Of phase 0, by record; none where people are asked."""
    return {} if config.initial is None else labels_in(config, config.initial.path, "initial.path")


def known_units(config: CampaignConfig, pool: Pool, units: Units) -> list[str]:
    """The units whose labels are known, in the pool's order: exactly as many as the plan begins with."""
    labels = known_labels(config)
    ids = set(pool.ids)
    lost = {record for record in labels if record not in ids and pool.withdrew(record)}
    strange = sum(record not in ids for record in labels) - len(lost)
    if strange:
        raise config.error(
            "initial.path", f"{strange} of its {len(labels)} records are not in the pool", "Use the pool's own ids"
        )
    if units.records is None:
        labelled = [name for name in units.names if name in labels]
    else:
        places = {place for place, record in enumerate(pool.ids) if record in labels}
        labelled = [name for name in units.names if not places.isdisjoint(units.records[name])]
    planned, each = config.plan.initial, units.records is None
    # without those that were withdrawn there are fewer: smaller batches, and the same guarantee
    if not planned - len(pool.withdrawn) <= len(labelled) <= planned - (len(lost) if each else 0):
        raise config.error(
            "initial.path",
            f"it has labels of {len(labelled)} {config.budget.unit}s, and plan.initial = {config.plan.initial}",
            f"Write initial = {len(labelled)}, or bring as many labels as the plan says",
        )
    return labelled


# -- evaluation


def price_of(config: CampaignConfig) -> Event | None:
    """What one evaluation costs a held-out unit; None where none is paid for."""
    if config.evaluation.kind != "paid":
        return None
    from discreet.trainers.evaluation import evaluation_event

    with config.pointing("evaluation"):
        return evaluation_event(
            epsilon=config.evaluation.epsilon or Decimal(0),
            layout=layout_of(config),
            records_per_person=config.budget.records_per_person,
        )


def layout_of(config: CampaignConfig) -> Layout:
    """What an evaluation counts."""
    from discreet.trainers.layouts import Layout

    table = config.evaluation
    return Layout(
        classes=len(config.task.classes),
        multilabel=config.task.kind == "multilabel",
        table=table.table,
        edges=table.edges,
        threshold=config.task.threshold,
        groups=groups_of(table, config.pool),
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class HeldOut:
    """Records to measure on; the number of each record's subgroup, or -1, where groups are declared."""

    records: CohortRecords
    groups: NDArray[np.int64] | None


def check(config: CampaignConfig, pool: Pool) -> None:
    """Read the records once, before a campaign begins."""
    if config.evaluation.kind != "none":
        _measured(config)
        check_apart(config, pool)


def check_apart(config: CampaignConfig, pool: Pool, *, path: str | None = None) -> None:
    """Refuse an evaluation on records of the pool: they would be trained and measured, and pay for one of the two.

    Ids are compared, and persons where they are protected; and the files, for ids may be positions. ``path``: of the
    records of ``pool``, if it is not the one that the campaign's file names.
    """
    if config.evaluation.kind == "none":
        return
    held_out = _held_out(config)
    shared = 0 if config.pool.id == "position" else len(set(held_out.ids) & set(pool.ids))
    if config.budget.unit == "person" and held_out.persons is not None and pool.persons is not None:
        shared += len(set(held_out.persons) & set(pool.persons))
    if shared or _same_file(config, path or config.pool.path):
        raise config.error(
            "evaluation.path",
            "records or persons of the pool are in it, too",
            "Keep the records to measure on apart from the pool",
        )


def check_proposal(config: CampaignFile, *keys: str, path: Path | None = None) -> None:
    """Refuse a schema that `discreet schema` proposed from private records: its bounds and values are facts of them.

    ``keys`` name the files of private records; ``path``: another one.
    """
    table = config.pool  # type: ignore[attr-defined]  # every recipe's that has a schema
    named = {key: getattr(getattr(config, key.partition(".")[0]), key.partition(".")[2]) for key in keys}
    files = [config.resolve(name) for name in named.values() if name is not None] + ([path] if path else [])
    kind = None if table.kind == "arrays" else table.kind
    for file in files if table.schema is not None else ():
        if file.exists() and looked_at(table.schema, file, kind_of(file, kind)):
            raise config.error(
                "pool.schema",
                f"discreet schema proposed it from {file.name}, which holds private records",
                "Propose it from a public file, and declare what is publicly known",
            )


def _same_file(config: CampaignConfig, path: str) -> bool:
    here, pool_file = config.resolve(config.evaluation.path or ""), config.resolve(path)
    return config.pool.kind != "arrays" and pool_file.exists() and here.exists() and here.samefile(pool_file)


def held_out(config: CampaignConfig, context: PhaseContext, *, last: bool) -> HeldOut | None:
    """The records to measure on in this phase, or None: of the phases it is asked for, and of the last one.

    Read before the training is charged: where they are may have changed, and what is refused must cost nothing.
    """
    if config.evaluation.kind == "none" or (not last and context.phase % config.evaluation.every):
        return None
    check_apart(config, context.pool)
    return _measured(config)


def evaluated(config: CampaignConfig, model: Any, context: PhaseContext, measured: HeldOut | None) -> Evaluation | None:
    """How good the model is on ``measured``, the records of `held_out`."""
    from discreet.trainers.evaluation import evaluate_paid, evaluate_public

    if measured is None:
        return None
    model = on_features(model)
    common: dict[str, Any] = {
        "classes": len(config.task.classes),
        "layout": layout_of(config),
        "groups": measured.groups,
        "records_per_person": config.budget.records_per_person,
    }
    if config.evaluation.kind == "public":
        return evaluate_public(model, measured.records.x, measured.records.y, **common)
    event = price_of(config)
    assert event is not None
    why = ChargeReason(phase=context.phase, purpose="evaluation")
    (paid,) = charge_once(context.charges, [request({HELD_OUT: event}, why=why)])
    return evaluate_paid(model, measured.records, receipt=paid, who=HELD_OUT, **common)


def held_out_counts(config: CampaignConfig) -> HeldOutCounts | None:
    """Of the records of a paid evaluation; None where none is paid for."""
    if config.evaluation.kind != "paid":
        return None
    assert config.evaluation.labels is not None  # checked with the file
    pool = _held_out(config)
    groups = _group_numbers(config, pool)
    labels, _ = _private_labels(config, config.evaluation.labels)
    return HeldOutCounts(
        cells=cell_counts(pool),
        unlabelled=sum(record not in labels for record in pool.ids),
        ungrouped=None if groups is None else int((groups < 0).sum()),
    )


def _measured(config: CampaignConfig) -> HeldOut:
    table, pool = config.evaluation, _held_out(config)
    assert table.labels is not None  # checked with the file
    if table.kind == "paid":
        labels, named = _private_labels(config, table.labels)
    else:
        labels = labels_in(config, table.labels, "evaluation.labels")
        named = frozenset(labels)
    if named.isdisjoint(pool.ids):
        raise config.error("evaluation.labels", "none of them is of a record in evaluation.path", "Check the ids")
    return HeldOut(records=cohort_of(config, pool, pool.ids, labels), groups=_group_numbers(config, pool))


def _private_labels(config: CampaignConfig, path: str) -> tuple[dict[str, Value], frozenset[str]]:
    """Labels of private records that are of declared classes, and all records that the file names. A label that is
    not, or cannot be read, is none: an error would tell of it.
    """
    file, known = config.resolve(path), set(config.task.classes)
    with config.pointing("evaluation.labels"):
        read = read_private_labels(
            existing_file(file), multilabel=config.task.kind == "multilabel", words=answer_words(config)
        )
    fine: dict[str, Value] = {
        record: value
        for record, value in read.values.items()
        if value is not None and set(value if isinstance(value, tuple) else (value,)) <= known
    }
    return fine, read.records


def _group_numbers(config: CampaignConfig, pool: Pool) -> NDArray[np.int64] | None:
    """Of each record; a value that is not declared, or cannot be read, is no group."""
    table = config.evaluation
    if table.group is None or table.path is None:
        return None
    path, names = config.resolve(table.path), groups_of(table, config.pool)
    with config.pointing("evaluation.group"):
        kind = kind_of(path, None) if config.pool.kind == "arrays" else config.pool.kind
        check_columns_of(path, kind, config.pool.id, [table.group])
        numbers = categories_of_records(path, kind, config.pool.id or "", table.group, names)
    return np.array([numbers.get(record, -1) for record in pool.ids], dtype=np.int64)


def _held_out(config: CampaignConfig) -> Pool:
    assert config.evaluation.path is not None  # checked with the file
    with config.pointing("evaluation.path"):
        if config.pool.kind == "arrays":
            return beside_arrays(config, config.resolve(config.evaluation.path))
        return pool_like(config, config.evaluation.path)


def beside_arrays(config: CampaignConfig, path: Path, *, size: int | None = None) -> Pool:
    """Where the pool was given in Python: a file declared as the table in memory was, or arrays of fixed names."""
    if config.pool.id is not None:
        return pool_like(config, str(path.absolute()), size=size)
    if path.suffix != ".npz":
        raise BadInput(f"measuring on {path.name}", "the pool was given in Python", "Save an npz of arrays id and x")
    persons = "person" if config.budget.unit == "person" else None
    return open_pool(path, kind="npz", id="id", array="x", person=persons, size=size)


def pool_like(config: CampaignConfig, path: str, *, size: int | None = None) -> Pool:
    """Records in another file that is declared as the pool is."""
    table = config.pool
    return open_pool(
        config.resolve(path),
        kind=None if table.kind == "arrays" else table.kind,  # type: ignore[arg-type]
        id=table.id,
        columns=table.columns,
        text=table.text,
        person=table.person,
        array=table.array,
        shape=table.shape,
        center=table.center,
        scale=table.scale,
        size=size,
        schema=table.schema,
    )
