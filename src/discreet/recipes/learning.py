"""From a campaign's file to what it names: the score, the selector, the model, its trainer, and cohorts with labels."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.campaign.recipe import PhaseContext, Watch, unwatched
from discreet.config import AugmentConfig, CampaignConfig, CrowdConfig
from discreet.errors import BadInput, InvalidCheckpoint
from discreet.models.build import check_model_name
from discreet.noise import Source
from discreet.pools import Pool
from discreet.privacy.ledger import Receipt
from discreet.privacy.plan import TrainingPhase
from discreet.recipes.pool_records import TRANSFORMER, reader_of, training_rows
from discreet.records import Value
from discreet.scorers import OwnScore
from discreet.scorers.acquisition_functions import score_named
from discreet.selectors import SelectorRequest

if TYPE_CHECKING:
    from torch import nn

    from discreet.scorers import RandomScore, Score
    from discreet.trainers.dp_sgd import DPSGD, CohortRecords, Settings
    from discreet.trainers.torch_predictor import Task, TorchPredictor


def check_named(config: CampaignConfig, *checks: Callable[[CampaignConfig], object], pool_file: bool = True) -> None:
    """Refuse parts, functions and files that are named and not there, all at once, before a record is read."""
    evaluation, initial = config.evaluation, config.initial
    files = {
        "pool.path": config.pool.path if pool_file and config.pool.kind != "arrays" else None,
        "initial.path": initial.path if initial is not None else None,
        "evaluation.path": evaluation.path,
        "evaluation.labels": evaluation.labels,
        "model.init": config.model.init,
        "model.encoder": config.model.encoder,
        "features.public": None if config.features is None else config.features.public,
    }
    named = (scorer_of, _check_model, _check_optimizer, _check_loss, _check_function)
    config.check_all(
        *(partial(check, config) for check in (*checks, *named)),
        *(partial(config.check_file, key, path) for key, path in files.items()),
    )


def _check_model(config: CampaignConfig) -> None:
    with config.pointing("model.name"):
        check_model_name(config.model.name)


def _check_optimizer(config: CampaignConfig) -> None:
    from discreet.trainers.dp_sgd.optimization import optimizer_named

    with config.pointing("trainer.optimizer"):
        optimizer_named(config.trainer.optimizer)


def _check_loss(config: CampaignConfig) -> None:
    from discreet.trainers.dp_sgd.optimization import loss_named

    settings = settings_of(config)
    with config.pointing("trainer.loss"):
        loss_named(settings.loss)


def _check_function(config: CampaignConfig) -> None:
    if config.oracle.function is not None:
        with config.pointing("oracle.function"):
            named_function(config.oracle.function)


def scorer_of(config: CampaignConfig | CrowdConfig) -> Score | RandomScore | OwnScore:
    """As the campaign's file names it."""
    table, several = config.scorer.resolved(), config.task.kind == "multilabel"
    if ":" in table.name:  # a crowd's file has none
        return _own_score(config)
    with config.pointing("scorer"):
        part = table.part or score_named(table.name, several_labels=several)
        scorer: Score | RandomScore = part.build(
            classes=len(config.task.classes), several_labels=several, **table.options
        )
        return scorer


def _own_score(config: Any) -> OwnScore:
    table = config.scorer
    if table.clip is not None:
        raise config.error("scorer.clip", "a score of your own is clipped by its range", "Remove it, lower the range")
    options: dict[str, Any] = {} if table.draws is None else {"draws": table.draws}
    assert table.range is not None  # checked with the file
    with config.pointing("scorer.name"):
        return OwnScore(
            function=named_function(table.name),
            range=(table.range[0], table.range[1]),
            needs=table.needs or "proba",
            name=table.name,
            **options,
        )


def selector_built(config: CampaignConfig, request: SelectorRequest) -> Any:
    """The selector, built by its declaration; what it refuses is refused at [selector]."""
    with config.pointing("selector"):
        return config.selector.declared.build(request)


def task_of(config: CampaignConfig) -> Task:
    """Binary tasks are of two classes."""
    return "multilabel" if config.task.kind == "multilabel" else "multiclass"


def model_of(config: CampaignConfig, inputs: Sequence[int]) -> nn.Module:
    """The model with its first weights: drawn from a public seed, or public pre-trained ones."""
    from discreet.models import build_model

    is_named_object = ":" in config.model.name and not config.model.name.startswith("timm:")
    with config.pointing("model.name" if is_named_object else "model"):
        module = build_model(
            config.model.name,
            inputs=tuple(inputs),
            classes=len(config.task.classes),
            dropout=config.model.dropout,
            seed=config.model.seed,
            **_options(config),
        )
    if config.model.init is not None:
        _fill(module, config, config.resolve(config.model.init))
    return module


def _options(config: CampaignConfig) -> dict[str, Any]:
    """Of the model; a transformer is the encoder whose tokens are read, unless it says otherwise."""
    options = dict(config.model.options)
    if config.model.name == TRANSFORMER and config.model.encoder is not None and not {"path", "config"} & set(options):
        options["path"] = config.resolve(config.model.encoder)
    return options


def _fill(module: nn.Module, config: CampaignConfig, path: Path) -> None:
    """Public weights by name and shape. What the file does not have, such as a new head, stays as it was drawn."""
    from safetensors.torch import load

    if not path.is_file():
        raise config.error("model.init", "there is no such file", "Name a safetensors file of public weights")
    try:
        weights = load(path.read_bytes())
    except Exception:  # noqa: BLE001 - whatever is wrong with the file
        raise config.error("model.init", "it is not a safetensors file", "Store the weights as safetensors") from None
    known = module.state_dict()
    fitting = {name for name, value in weights.items() if name in known and known[name].shape == value.shape}
    if not fitting or fitting != set(weights):
        strange = len(weights) - len(fitting)
        raise config.error(
            "model.init",
            f"{strange} of its {len(weights)} tensors are not of this model",
            "Store the tensors of this model alone",
        )
    module.load_state_dict({**known, **weights})


def settings_of(config: CampaignConfig) -> Settings:
    """Choices of the trainer; those of `Settings` where the file leaves them open (`automatic_training` fills them)."""
    from discreet.trainers.dp_sgd import Settings

    table = config.trainer
    with config.pointing("trainer"):
        return Settings(
            clip=Settings.clip if table.clip is None else table.clip,
            optimizer=table.optimizer,
            learning_rate=Settings.learning_rate if table.learning_rate is None else table.learning_rate,
            optimizer_options=dict(table.optimizer_options),
            schedule=table.schedule,
            adaptive_clip=table.adaptive_clip,
            ema=table.ema,
            micro_batch=table.micro_batch,
            augment=tuple(_view(view) for view in table.augment),
            views=table.views,
            records_per_person=config.budget.records_per_person,
            person_clip=table.person_clip,
            loss=_loss(config),
            device=table.device,
            engine=table.engine,
            checkpoint_every=table.checkpoint_every,
        )


def _view(table: AugmentConfig) -> Any:
    return named_object(table.name) if table.part is None else table.part.build(**table.options)


def _loss(config: CampaignConfig) -> Any:
    table = config.trainer
    if table.class_weights is not None:
        from discreet.trainers.dp_sgd import WeightedCrossEntropy

        return WeightedCrossEntropy(table.class_weights)
    if table.loss is not None and ":" in table.loss:
        with config.pointing("trainer.loss"):
            return named_function(table.loss)
    return table.loss or usual_loss(config)


def usual_loss(config: CampaignConfig) -> str:
    """Of the task."""
    return "multilabel-bce" if config.task.kind == "multilabel" else "cross-entropy"


def named_object(path: str) -> Any:
    """``module:name`` of the user's."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as problem:  # noqa: BLE001 - whatever a module of the user's does when it is imported
        fact = f"it cannot be imported ({type(problem).__name__})"
        raise BadInput(path, fact, "Give module:name, importable from here") from None


def named_function(path: str) -> Any:
    """``module:name`` of something that can be called."""
    function = named_object(path)
    if not callable(function):
        raise BadInput(path, f"it is a {type(function).__name__}, and cannot be called", "Name a function")
    return function


def trainer_of(config: CampaignConfig, context: PhaseContext, inputs: Sequence[int]) -> DPSGD:
    """The trainer of a phase; checkpoints lie in the campaign's directory until the phase is over."""
    from discreet.trainers.dp_sgd import DPSGD

    return DPSGD(
        model_of(config, inputs),
        classes=len(config.task.classes),
        task=task_of(config),
        settings=settings_of(config),
        checkpoints=context.directory,
        watch=lambda done, total: context.watch("training", done, total),
    )


def cohort_of(
    config: CampaignConfig, pool: Pool, ids: Sequence[str], labels: Mapping[str, Value], watch: Watch = unwatched
) -> CohortRecords:
    """Asked records with what was said of them; one without a label keeps its place and teaches nothing."""
    from discreet.trainers.dp_sgd import CohortRecords

    places = pool.places(ids)
    known = {record: labels.get(record) for record in ids}
    rows, broken = training_rows(config, pool, places, watch)
    for record in np.asarray(ids, dtype=object)[broken].tolist():
        known[record] = None
    persons = None
    if config.budget.unit == "person":
        assert pool.persons is not None
        persons = np.array([pool.persons[position] for position in places.tolist()], dtype=object)
    return CohortRecords(x=rows, y=targets([known[record] for record in ids], config), persons=persons)


def in_slots(
    phase: TrainingPhase, cohorts: Mapping[str, CohortRecords], where: Receipt | Source
) -> dict[str, CohortRecords]:
    """Cohorts whose size is hidden, padded to their committed slots; the others as they are."""
    from discreet.trainers.dp_sgd import padded

    slots = dict(phase.slots)
    return {
        label: padded(cohort, slots[label], where=where, kind=f"slots {label}") if label in slots else cohort
        for label, cohort in cohorts.items()
    }


def targets(values: Sequence[Value], config: CampaignConfig) -> Any:
    """Class numbers, or a table with a column a label."""
    from discreet.trainers.dp_sgd import MISSING

    number = {name: code for code, name in enumerate(config.task.classes)}
    if config.task.kind != "multilabel":
        return np.array([number[value] if isinstance(value, str) else MISSING for value in values], dtype=np.int64)
    table = np.full((len(values), len(number)), np.nan, dtype=np.float32)
    for row, value in enumerate(values):
        if value is not None:
            table[row] = 0
            table[row, [number[name] for name in value]] = 1
    return table


def predictor_of(config: CampaignConfig, module: nn.Module) -> TorchPredictor:
    """A module as a predictor of the campaign's records, numbers or texts."""
    from discreet.trainers.torch_predictor import TorchPredictor

    task, device, reader = task_of(config), config.trainer.device, reader_of(config)
    with config.pointing("trainer.device"):
        if reader is None:
            return TorchPredictor(module, task=task, device=device)
        from discreet.recipes.record_predictor import RecordPredictor

        return RecordPredictor(module, reader=reader, task=task, device=device)


def to_bytes(module: nn.Module) -> bytes:
    """Weights as safetensors."""
    from safetensors.torch import save

    return save({name: value.detach().cpu().contiguous().clone() for name, value in module.state_dict().items()})


def from_bytes(content: bytes, module: nn.Module) -> nn.Module:
    """The module with stored weights."""
    from safetensors.torch import load

    try:
        module.load_state_dict(load(content))
    except Exception:  # noqa: BLE001 - whatever is wrong, it is not this model
        raise InvalidCheckpoint("loading a model", "it is not of this campaign's model", "Restore its file") from None
    return module


def stored_predictor(config: CampaignConfig, content: bytes, inputs: Sequence[int]) -> TorchPredictor:
    """The model of stored weights."""
    return predictor_of(config, from_bytes(content, model_of(config, inputs)))
