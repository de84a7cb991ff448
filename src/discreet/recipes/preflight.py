"""Everything that could be refused later is refused before a campaign begins, at the line that says it.

Nothing here reads a record: models, losses and scores are tried on made-up ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.config import CampaignConfig
from discreet.models.build import check_model_name
from discreet.pools import Pool
from discreet.privacy.events import PoissonSampledGaussian
from discreet.privacy.training_phase import TrainingPhase, TrainingStage
from discreet.recipes import labelled_records, learning
from discreet.recipes.labelled_records import known_units
from discreet.recipes.pool_records import Units, inputs_of, made_up_rows, rows_among
from discreet.recipes.selecting import check_priced, scorer_of
from discreet.scorers import pool_scores

if TYPE_CHECKING:
    from discreet.roles import Predictor

_ROWS = 20
"""Enough for a way of scoring to be found, as for a pool."""


def check_names(config: CampaignConfig) -> None:
    """Refuse names of selectors, scores, models and functions that are not there, before minutes of planning."""
    check_priced(config)
    scorer_of(config)
    with config.pointing("model.name"):
        check_model_name(config.model.name)
    if config.oracle.function is not None:
        with config.pointing("oracle.function"):
            learning.named_function(config.oracle.function)


def preflight(config: CampaignConfig, pool: Pool) -> None:
    """Refuse a pool, model, loss, score, evaluation or file of labels that would fail; before a plan is made."""
    check_names(config)
    inputs = inputs_of(config, pool)
    if config.budget.unit == "person" and pool.persons is None:
        raise config.error("pool.person", "nothing says whose records they are", "Declare the column of persons")
    if config.initial is not None:
        known_units(config, pool, Units.of(pool, config.budget.unit, config.budget.records_per_person))
    _training(config, inputs)
    if config.plan.queries and config.selector.declared.reads:
        _choosing(config, learning.predictor_of(config, learning.model_of(config, inputs)), inputs)
    labelled_records.check(config, pool)


def _choosing(config: CampaignConfig, predictor: Predictor, inputs: tuple[int, ...]) -> None:
    """What a query computes of records, on made-up ones that are read as a pool's are."""
    rows = rows_among(made_up_rows(config, inputs, _ROWS), np.arange(_ROWS))
    if "embeddings" in config.selector.declared.reads:
        with config.pointing("selector.name"):
            predictor.embed(rows)
    else:
        with config.pointing("scorer.name"):
            pool_scores(scorer_of(config), predictor, rows)


def _training(config: CampaignConfig, inputs: tuple[int, ...]) -> None:
    """A step on made-up records: with the usual loss, which tries the model, then with the one that is named."""
    from discreet.trainers.dp_sgd import DPSGD, CohortRecords
    from discreet.trainers.dp_sgd.optimization import loss_named, optimizer_named

    settings = learning.settings_of(config)
    with config.pointing("trainer.optimizer"):
        optimizer_named(settings.optimizer)
    with config.pointing("trainer.loss"):
        loss_named(settings.loss)
    rows: Any = made_up_rows(config, inputs, 2)
    labels = learning.targets([None, None], config)
    persons = np.array(["a", "b"]) if config.budget.unit == "person" else None
    event = PoissonSampledGaussian(sampling_rate=0.5, noise_multiplier=1.0)
    stage = TrainingStage(steps=1, cohorts=(("initial", event),))
    phase = TrainingPhase(number=0, batch=config.plan.batch, unit=config.budget.unit, stages=(stage,))
    cohorts = {label: CohortRecords(x=rows, y=labels, persons=persons) for label in phase.labels}
    is_named_object = config.trainer.loss is not None and ":" in config.trainer.loss
    usual = replace(settings, loss=learning.usual_loss(config)) if is_named_object else settings
    for key, tried in [("model.name", usual), ("trainer.loss", settings)][: 1 + is_named_object]:
        with config.pointing(key):
            DPSGD(
                learning.model_of(config, inputs),
                classes=len(config.task.classes),
                task=learning.task_of(config),
                settings=tried,
            ).check(phase=phase, cohorts=cohorts)
