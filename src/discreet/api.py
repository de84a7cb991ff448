"""The facade: what a script needs, under short names.

>>> from discreet import plan
>>> made = plan(epsilon=8, delta="4e-6", initial=10000, queries=[3750] * 4, batch=4096, epochs=30, accountant="rdp")
>>> [phase.steps for phase in made.phases]
[73, 132, 189, 243, 296]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import BadInput
from discreet.planning import make_plan, plan_request
from discreet.privacy.budget import Budget, Number, Unit
from discreet.privacy.plan import Plan

if TYPE_CHECKING:
    from discreet.campaign import Campaign
    from discreet.campaign.recipe import Watch
    from discreet.exports import ExportedModel
    from discreet.privacy.events import Event
    from discreet.privacy.ledger import Ledger

__all__ = [
    "create_campaign",
    "create_ledger",
    "export_model",
    "load_campaign",
    "load_model",
    "open_ledger",
    "plan",
    "plan_request",
]


def plan(*, epsilon: Number, delta: Number, unit: Unit = Budget.unit, **parameters: Any) -> Plan:
    """What this budget buys: a certified, committed `Plan`. Touches no data; warns (`LooseDelta`) of a loose delta.

    ``parameters`` are the fields of `discreet.planning.PlanParameters`: initial, queries, batch, epochs, schedule,
    selection, selection_epsilon, threshold_epsilon, accountant, pool_size ...
    """
    ask = plan_request(epsilon=epsilon, delta=delta, unit=unit, **parameters)
    ask.budget.warn_if_loose(ask.units)
    return make_plan(ask)


def create_ledger(
    path: Path | str,
    *,
    plan: Plan | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    unit: Unit = "record",
    seed: int | None = None,
    held_out: Event | None = None,
) -> Ledger:
    """A new ledger in a file: committed to ``plan``, or adaptive under (``epsilon``, ``delta``).

    ``held_out``: with a plan, what evaluating on records kept apart costs them in every phase
    (`discreet.trainers.evaluation.evaluation_event`).

    Its noise comes from the operating system, unless ``seed`` is given: then it is a simulation for ever.
    """
    from discreet.noise import source_of
    from discreet.privacy.ledger import FileSink, Ledger, adaptive, terms_of

    if (plan is None) == (epsilon is None or delta is None):
        raise BadInput("creating a ledger", "it needs a plan, or an epsilon and a delta", "Give one of the two")
    if plan is not None:
        terms = terms_of(plan, held_out=held_out)
    else:
        assert epsilon is not None
        assert delta is not None
        terms = adaptive(Budget(epsilon=epsilon, delta=delta, unit=unit))
    return Ledger.create(FileSink(path), terms, source=source_of(seed))


def open_ledger(path: Path | str, *, seed: int | None = None) -> Ledger:
    """The ledger in a file, to go on charging it. A simulation is opened with its seed."""
    from discreet.noise import source_of
    from discreet.privacy.ledger import FileSink, Ledger

    return Ledger.open(FileSink(path, must_exist=True), source=source_of(seed))


def create_campaign(
    name: str,
    *,
    storage: str | Path,
    pool: Any,
    budget: Mapping[str, Any] | Budget,
    recipe: Mapping[str, Mapping[str, Any]],
    load_if_exists: bool = True,
    watch: Watch | None = None,
) -> Campaign:
    """A campaign that survives this process: made when it is first called, the same one ever after.

    storage   ``sqlite:///scan.db``, the path of a file, or ``postgresql://ROLE@HOST/DATABASE``
    pool      a `discreet.pools.Pool`, or the table ``[pool]`` of a campaign's file as a dict
    budget    a `Budget`, or the table ``[budget]``
    recipe    the other tables: `discreet.recipes.private_pool` makes them
    """
    from discreet.campaign.recipe import unwatched
    from discreet.config import CampaignConfig
    from discreet.pools import Pool
    from discreet.recipes.opening import create

    pool_value = pool if isinstance(pool, Pool) else None
    if pool_value is None and not isinstance(pool, Mapping):
        raise BadInput("the pool of a campaign", "it is neither a Pool nor a table", "Try ArrayPool(ids=..., x=...)")
    form = {
        "format": "discreet.campaign/1",
        "name": name,
        "pool": dict(pool) if pool_value is None else {"path": "in Python", "kind": "arrays", "size": len(pool_value)},
        "budget": _budget_table(budget),
        "storage": {"url": str(storage)},
        **{table: dict(keys) for table, keys in recipe.items()},
    }
    config = CampaignConfig.from_json(form, name=f"the campaign {name}", directory=Path())
    return create(config, pool=pool_value, load_if_exists=load_if_exists, watch=watch or unwatched)


def load_campaign(name: str, *, storage: str | Path, pool: Any | None = None, watch: Watch | None = None) -> Campaign:
    """A campaign that exists, with what it was created with. ``pool``: where that was given in Python."""
    from discreet.campaign.recipe import unwatched
    from discreet.recipes.opening import load, stored_config
    from discreet.storage import open_storage

    with open_storage(storage, must_exist=True) as opened:
        config = stored_config(opened, name, directory=Path())
    return load(config, pool=pool, watch=watch or unwatched)


def export_model(campaign: Campaign, directory: Path | str, *, phase: int | None = None, force: bool = False) -> Path:
    """Write a trained model, its card and its certificate into a new directory that may be given away."""
    from discreet.exports import export_model as write

    return write(campaign, directory, phase=phase, force=force).directory


def load_model(directory: Path | str, *, model: str | None = None, encoder: Path | str | None = None) -> ExportedModel:
    """A model that was exported, from its directory alone; it has ``predict`` and ``predict_proba``.

    model     of somebody's own model: its ``module:callable``, as a sign that its code may run
    encoder   the folder of the public encoder of texts, where the export has no copy
    """
    from discreet.exports import load_model as load

    return load(directory, model=model, encoder=encoder)


def _budget_table(budget: Mapping[str, Any] | Budget) -> dict[str, Any]:
    if isinstance(budget, Budget):
        return {"epsilon": str(budget.epsilon), "delta": str(budget.delta), "unit": budget.unit}
    return {key: value if isinstance(value, (int, str)) else str(value) for key, value in budget.items()}
