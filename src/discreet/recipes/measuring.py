"""How good the model is: on public records, or on private ones kept apart, for a price; as the campaign's file says."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.campaign.recipe import Desk
from discreet.config import CampaignConfig
from discreet.errors import BadInput
from discreet.noise import charge_once
from discreet.pools import Pool, open_pool
from discreet.privacy.events import Event
from discreet.privacy.ledger import Why
from discreet.privacy.ledger.plan_terms import HELD_OUT
from discreet.privacy.ledger.requests import request
from discreet.recipes.known_labels import labels_in
from discreet.recipes.learning import cohort_of

if TYPE_CHECKING:
    from discreet.trainers.accuracy import Evaluation
    from discreet.trainers.dp_sgd import CohortRecords


def price_of(config: CampaignConfig) -> Event | None:
    """What one evaluation costs a held-out unit; None where none is paid for."""
    if config.evaluation.kind != "paid":
        return None
    from discreet.trainers.evaluation import evaluation_event

    labels = len(config.task.classes) if config.task.kind == "multilabel" else 1
    with config.pointing("evaluation"):
        return evaluation_event(
            epsilon=config.evaluation.epsilon or Decimal(0),
            labels=labels,
            records_per_person=config.budget.records_per_person,
        )


def check(config: CampaignConfig, pool: Pool) -> None:
    """Read the records once, before a campaign begins."""
    if config.evaluation.kind != "none":
        _records(config)
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


def _same_file(config: CampaignConfig, path: str) -> bool:
    here, there = config.resolve(config.evaluation.path or ""), config.resolve(path)
    return config.pool.kind != "arrays" and there.exists() and here.exists() and here.samefile(there)


def held_out(config: CampaignConfig, desk: Desk, *, last: bool) -> CohortRecords | None:
    """The records to measure on in this phase, or None: of the phases it is asked for, and of the last one.

    Read before the training is charged: where they are may have changed, and what is refused must cost nothing.
    """
    if config.evaluation.kind == "none" or (not last and desk.phase % config.evaluation.every):
        return None
    check_apart(config, desk.pool)
    return _records(config)


def evaluated(config: CampaignConfig, model: Any, desk: Desk, records: CohortRecords | None) -> Evaluation | None:
    """How good the model is on ``records``, those of `held_out`."""
    from discreet.trainers.evaluation import evaluate_paid, evaluate_public

    if records is None:
        return None
    classes = len(config.task.classes)
    if config.evaluation.kind == "public":
        return evaluate_public(model, records.x, records.y, classes=classes)
    event = price_of(config)
    assert event is not None
    why = Why(phase=desk.phase, purpose="evaluation")
    (paid,) = charge_once(desk.charges, [request({HELD_OUT: event}, why=why)])
    return evaluate_paid(
        model,
        records,
        classes=classes,
        receipt=paid,
        who=HELD_OUT,
        by_class=config.evaluation.by_class,
        records_per_person=config.budget.records_per_person,
    )


def _records(config: CampaignConfig) -> CohortRecords:
    table, found = config.evaluation, _held_out(config)
    assert table.labels is not None  # checked with the file
    labels = labels_in(config, table.labels, "evaluation.labels")
    if not set(found.ids) & set(labels):
        raise config.error("evaluation.labels", "none of them is of a record in evaluation.path", "Check the ids")
    return cohort_of(config, found, found.ids, labels)


def _held_out(config: CampaignConfig) -> Pool:
    assert config.evaluation.path is not None  # checked with the file
    with config.pointing("evaluation.path"):
        if config.pool.kind == "arrays":
            return beside_arrays(config, config.resolve(config.evaluation.path))
        return pool_like(config, config.evaluation.path)


def beside_arrays(config: CampaignConfig, path: Path, *, size: int | None = None) -> Pool:
    """Where the pool was given in Python nothing declares a file: its arrays have fixed names."""
    if path.suffix != ".npz":
        raise BadInput(f"measuring on {path.name}", "the pool was given in Python", "Save an npz of arrays id and x")
    persons = "person" if config.budget.unit == "person" else None
    return open_pool(path, kind="npz", id="id", array="x", person=persons, size=size)


def pool_like(config: CampaignConfig, path: str, *, size: int | None = None) -> Pool:
    """Records in another file that is declared as the pool is."""
    table = config.pool
    return open_pool(
        config.resolve(path),
        kind=table.kind,  # type: ignore[arg-type]
        id=table.id,
        columns=table.columns,
        text=table.text,
        person=table.person,
        array=table.array,
        shape=table.shape,
        center=table.center,
        scale=table.scale,
        size=size,
    )
