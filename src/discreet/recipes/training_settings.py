"""What a campaign's file leaves open about training: batch, epochs, learning rate, clip and average.

They follow from public numbers alone: of a linear model by the rule (docs/reference/automatic-settings.md), of others
by default. They are chosen once, when the campaign is created, and stored with it. A campaign that goes on never
changes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from discreet.config import CampaignConfig
from discreet.pools import Pool
from discreet.recipes.pool_records import inputs_of
from discreet.storage import CampaignStore

if TYPE_CHECKING:
    from discreet.trainers.dp_sgd import AutomaticSettings

OF_PLAN, OF_TRAINER = ("batch", "epochs"), ("learning_rate", "clip", "ema")
_KEY = "settings"
_RULE, _DEFAULT = "rule", "default"


def with_settings(config: CampaignConfig, pool: Pool) -> tuple[CampaignConfig, dict[str, Any]]:
    """``config`` with nothing left open, for records as those of ``pool``; and what is stored of it."""
    chosen = _automatic(config, dimension=math.prod(inputs_of(config, pool)), norm_bound=_norm_bound(config, pool))
    values = {"batch": chosen.batch, "epochs": chosen.epochs}
    values |= {name: getattr(chosen.settings, name) for name in OF_TRAINER}
    opened = {name: values[name] for name in values if _declared(config, name) is None and values[name] is not None}
    if not opened:
        return config, {}
    return _completed(config, opened), {_KEY: {"by": _RULE if is_by_rule(config) else _DEFAULT} | opened}


def with_stored_settings(store: CampaignStore, config: CampaignConfig) -> CampaignConfig:
    """``config`` with what was chosen when its campaign was created."""
    return _completed(config, {name: value for name, value in chosen_settings(store).items() if name != "by"})


def as_declared(store: CampaignStore, config: Any) -> Any:
    """The inverse: ``config`` as its file says, what was chosen left open."""
    chosen = [name for name in chosen_settings(store) if name != "by"]
    return _completed(config, dict.fromkeys(chosen)) if chosen else config


def chosen_settings(store: CampaignStore) -> Mapping[str, Any]:
    """What was chosen, and by what (``by``: rule or default); nothing where the file says everything."""
    chosen: Mapping[str, Any] = store.config.get(_KEY, {})
    return chosen


def settings_facts(store: CampaignStore) -> tuple[dict[str, Any], list[str]]:
    """The same for people: keys of a form, and lines. Audience: public."""
    chosen = dict(chosen_settings(store))
    if not chosen:
        return {}, []
    return {_KEY: chosen}, [f"settings  {settings_words(chosen)}"]


def settings_words(chosen: Mapping[str, Any]) -> str:
    """What was chosen, in words."""
    words = {"batch": "batch {}", "epochs": "{} epochs a phase", "learning_rate": "learning rate {:.3g}"}
    words |= {"clip": "clip {:.3g}", "ema": "average {:g}"}
    how = "by rule from public numbers" if chosen["by"] == _RULE else "by default"
    return f"{', '.join(words[name].format(chosen[name]) for name in words if name in chosen)}: chosen {how}"


def batch_and_epochs(config: CampaignConfig) -> tuple[int, int]:
    """Of the plan. They do not depend on what a record is like."""
    chosen = _automatic(config)
    return chosen.batch, chosen.epochs


def is_by_rule(config: CampaignConfig) -> bool:
    """Whether the rule is for this campaign: one linear layer that starts anew, trained with noise for one class."""
    return (
        config.recipe.name == "private-pool"
        and config.trainer.settings == "auto"
        and config.model.name == "linear"
        and config.model.init is None
        and config.task.kind != "multilabel"
    )


def _automatic(config: CampaignConfig, *, dimension: int = 1, norm_bound: float | None = None) -> AutomaticSettings:
    from discreet.trainers.dp_sgd import automatic_settings

    plan = config.plan
    anew = plan.schedule == "scout"  # the last phase trains a new model with nearly all of the budget
    with config.pointing("trainer"):
        return automatic_settings(
            labels=max(plan.initial + sum(plan.queries), 1),
            epsilon=float(config.budget.epsilon),
            delta=float(config.budget.delta),
            classes=len(config.task.classes),
            dimension=dimension,
            norm_bound=norm_bound,
            phases=1 if anew else 1 + len(plan.queries),
            initial=None if anew else max(plan.initial, 1),
            linear=is_by_rule(config),
            weighted=config.trainer.class_weights is not None,
            batch=plan.batch,
            epochs=plan.epochs,
            given=_given(config),
        )


def _given(config: CampaignConfig) -> dict[str, Any]:
    """What the file says of the settings that the rule looks at."""
    table, usual = config.trainer, type(config.trainer)()
    names = (*OF_TRAINER, "optimizer", "optimizer_options", "schedule", "adaptive_clip", "loss")
    return {name: getattr(table, name) for name in names if getattr(table, name) != getattr(usual, name)}


def _declared(config: CampaignConfig, name: str) -> Any:
    return getattr(config.plan if name in OF_PLAN else config.trainer, name)


def _completed(config: CampaignConfig, opened: Mapping[str, Any]) -> CampaignConfig:
    plan = {name: value for name, value in opened.items() if name in OF_PLAN}
    trainer = {name: value for name, value in opened.items() if name in OF_TRAINER}
    return replace(config, plan=replace(config.plan, **plan), trainer=replace(config.trainer, **trainer))


def _norm_bound(config: CampaignConfig, pool: Pool) -> float | None:
    """How long a row can be, as far as that is declared. A sentence encoder's vectors are of length 1."""
    if config.features is not None:
        assert config.features.fitted is not None  # built before
        return config.features.fitted.norm_bound
    if config.model.encoder is not None:
        return 1.0
    schema = pool.declared.schema or config.pool.schema
    if schema is None:
        return None
    return math.sqrt(max(sum(column.type != "text" for column in schema.columns), 1))
