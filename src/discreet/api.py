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
    persons: int | None = None,
    **declared: Any,
) -> Campaign:
    """A campaign that survives this process: made when it is first called, the same one ever after.

    storage   ``sqlite:///scan.db``, the path of a file, or ``postgresql://ROLE@HOST/DATABASE``
    pool      a `discreet.pools.Pool`, a table in memory (pandas, polars, Arrow, Hugging Face), or the table ``[pool]``
              of a campaign's file as a dict
    budget    a `Budget`, or the table ``[budget]``
    recipe    the other tables: `discreet.recipes.private_pool` makes them
    persons   how many persons there are, where the unit is the person: a public number
    declared  of a table in memory: ``id``, and ``schema`` or other options of `discreet.pools.open_frame`
    """
    from discreet.campaign.recipe import unwatched
    from discreet.config import CampaignConfig
    from discreet.pools import Pool
    from discreet.recipes.opening import create

    value = _pool_of(pool, declared)
    form: dict[str, Any] = {
        "format": "discreet.campaign/1",
        "name": name,
        "pool": _pool_table(value) if isinstance(value, Pool) else dict(value),
        "budget": _budget_table(budget),
        "storage": {"url": str(storage)},
        **{table: dict(keys) for table, keys in recipe.items()},
    }
    if persons is not None:
        form["pool"]["persons"] = persons
    config = CampaignConfig.from_json(form, name=f"the campaign {name}", directory=Path())
    pool_value = value if isinstance(value, Pool) else None
    return create(config, pool=pool_value, load_if_exists=load_if_exists, watch=watch or unwatched)


def load_campaign(
    name: str, *, storage: str | Path, pool: Any | None = None, watch: Watch | None = None, **declared: Any
) -> Campaign:
    """A campaign that exists, with what it was created with. ``pool``: where that was given in Python; a table in
    memory is read as it was declared then, and ``declared`` may say so again (``id="customer"``).
    """
    from discreet.campaign.recipe import unwatched
    from discreet.pools import Pool
    from discreet.recipes.opening import load, stored_config
    from discreet.storage import open_storage

    with open_storage(storage, must_exist=True) as opened:
        config = stored_config(opened, name, directory=Path())
    if pool is not None and not isinstance(pool, Pool):
        stored = getattr(config, "pool", None)
        known = {key: getattr(stored, key) for key in _DECLARED if getattr(stored, key, None) is not None}
        pool = _pool_of(pool, known | declared)
    return load(config, pool=pool, watch=watch or unwatched)


_DECLARED = ("id", "columns", "text", "person", "shape", "center", "scale", "schema")


def _pool_of(pool: Any, declared: Mapping[str, Any]) -> Any:
    """A pool, of a table in memory as it is ``declared``; or the table of a campaign's file."""
    from discreet.pools import Pool, open_frame
    from discreet.pools.frames import is_frame

    if not isinstance(pool, Pool) and is_frame(pool):
        if "id" not in declared:
            raise BadInput("the pool of a campaign", "nothing says which column holds the ids", 'Give id="..."')
        return open_frame(pool, **declared)
    if declared:
        fact = f"{', '.join(declared)} are of a table in memory, and this is none"
        raise BadInput("the pool of a campaign", fact, "Declare them where the pool is made")
    if not isinstance(pool, (Pool, Mapping)):
        fact = "it is neither a Pool nor a table"
        raise BadInput("the pool of a campaign", fact, "Give a DataFrame and id=, or ArrayPool(ids=..., x=...)")
    return pool


def _pool_table(pool: Any) -> dict[str, Any]:
    """The table ``[pool]`` of a pool that is given in Python: its size, and how a table in memory was declared."""
    declared = pool.declared.public() if pool.declared.kind == "arrays" else {}
    return declared | {"path": "in Python", "kind": "arrays", "size": len(pool)}


def export_model(campaign: Campaign, directory: Path | str, *, phase: int | None = None, force: bool = False) -> Path:
    """Write a trained model, its card and its certificate into a new directory that may be given away."""
    from discreet.exports import export_model as write

    return write(campaign, directory, phase=phase, force=force).directory


def load_model(directory: Path | str, *, model: str | None = None, encoder: Path | str | None = None) -> ExportedModel:
    """A model that was exported, from its directory alone; it has ``predict`` and ``predict_proba``.

    model     of somebody's own model: its ``module:callable``, as a sign that its code may run
    encoder   where the public encoder is (a path, or module:callable), if the export has no copy
    """
    from discreet.exports import load_model as load

    return load(directory, model=model, encoder=encoder)


def _budget_table(budget: Mapping[str, Any] | Budget) -> dict[str, Any]:
    if isinstance(budget, Budget):
        return {"epsilon": str(budget.epsilon), "delta": str(budget.delta), "unit": budget.unit}
    return {key: value if isinstance(value, (int, str)) else str(value) for key, value in budget.items()}
