"""From what an owner declares to a campaign: created once, opened as often as needed.

Guarantee: a campaign keeps what it was created with. Its plan is made once and stored; a file that says something else
later is refused, but for where things are and who answers. Creating is done in steps that can each be repeated, so a
process that dies in the middle leaves nothing that the next one cannot finish; nothing is charged before it is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from discreet.campaign import Campaign
from discreet.campaign.recipe import Recipe, Watch, unwatched
from discreet.campaign.releases import today
from discreet.campaign.replanning import replannings
from discreet.campaign.secret_keys import make_keys, secret_key
from discreet.campaign.standing import CREATED
from discreet.campaign.withdrawing import MANIFEST, nulled
from discreet.config import AnyCampaign, CampaignConfig, CrowdConfig, TeachersConfig, campaign_from_json
from discreet.errors import BadInput, InvalidStore
from discreet.noise import OperatingSystem, Seeded
from discreet.pools import Pool, extended
from discreet.pools.manifest import ManifestKey, macs
from discreet.privacy.ledger import Ledger
from discreet.privacy.plan import Plan
from discreet.recipes.measuring import pool_like
from discreet.recipes.one_of_a_name import OneOfAName
from discreet.recipes.private_pool import PrivatePool, plan_of
from discreet.recipes.rehearsing import rehearse
from discreet.recipes.tallies import Confirm
from discreet.recipes.wiring import Wired, kept_recipe, new_recipe
from discreet.storage import CampaignStore, Storage, open_storage

FORMAT = "discreet.campaign-state/1"
_MAY_CHANGE = (
    "log.path",
    "gold.path",
    "pool.path",
    "pool.further",
    "oracle",
    "storage",
    "trainer.device",
    "trainer.checkpoint_every",
    "evaluation.path",
    "evaluation.labels",
    "initial.path",
    "model.init",
    "model.encoder",
    "checkpoint.path",
    "checkpoint.certificate",
    "private.path",
    "private.labels",
    "teachers.processes",
)


def create(
    config: AnyCampaign,
    *,
    pool: Pool | None = None,
    plan: Plan | None = None,
    load_if_exists: bool = True,
    watch: Watch = unwatched,
    confirm: Confirm = False,
) -> Campaign:
    """A new campaign, or the one of that name. ``pool``: instead of the file that the configuration names.

    ``confirm``: of a campaign of teachers that is no simulation, who looks at the tallies of the private records before
    it begins: a function from `discreet.recipes.tallies.Tallies` to a bool, or True, to start whatever they are.
    ``plan``: the one that `plan_of` made of this configuration before, for simulations that repeat one.
    """
    if isinstance(config, CrowdConfig):
        from discreet.recipes.crowd_opening import create_crowd

        if pool is not None or plan is not None:
            raise BadInput("a crowd campaign", "it has a log and a gate, no pool and no plan", "Leave them out")
        return create_crowd(config, load_if_exists=load_if_exists, watch=watch)
    if isinstance(config, TeachersConfig):
        from discreet.recipes.teachers_opening import create_teachers

        if plan is not None:
            raise BadInput("a campaign of teachers", "its plan is made of its file", "Leave it out")
        return create_teachers(config, pool=pool, load_if_exists=load_if_exists, watch=watch, confirm=confirm)
    named = OneOfAName.of(config, load_if_exists=load_if_exists)
    if (kept := named.there()) is not None:
        return _opened(kept, config, pool, watch)
    records = _base_pool(config, pool)
    if plan is not None and config.simulation is None:
        raise BadInput("a plan that was made before", "only simulations take one", "Leave it out")
    if config.recipe.name == "private-pool":
        rehearse(config, records)
        plan = plan or plan_of(config)
    _check_releases(config)
    recipe = new_recipe(config, records, plan)
    recipe.check(records)
    form = {
        "format": FORMAT,
        "config": config.to_json(),
        "plan": recipe.plan.to_json(),
        "inputs": list(recipe.inputs),
    }
    return _opened(named.created(form), config, records, watch)


def _check_releases(config: CampaignConfig) -> None:
    """A date that has come already would be late before anybody is asked."""
    if config.plan.releases and config.plan.releases[0] <= today().isoformat():
        raise config.error("plan.releases", f"{config.plan.releases[0]} is not in the future", "Plan later dates")


def load(
    config: AnyCampaign, *, pool: Pool | None = None, watch: Watch = unwatched, read_only: bool = False
) -> Campaign:
    """The campaign that the configuration names. ``read_only``: to be looked at; nothing is written to its store."""
    storage = open_storage(
        config.storage_url(),
        directory=config.storage_directory(),
        mark=config.storage_mark(),
        must_exist=True,
        read_only=read_only,
    )
    if isinstance(config, CrowdConfig):
        from discreet.recipes.crowd_opening import opened_crowd

        return opened_crowd(storage.load(config.name), config, watch=watch)
    if isinstance(config, TeachersConfig):
        from discreet.recipes.teachers_opening import opened_teachers

        return opened_teachers(storage.load(config.name), config, pool=pool, watch=watch)
    return _opened(storage.load(config.name), config, pool, watch)


def stored_config(storage: Storage, name: str, *, directory: Path) -> AnyCampaign:
    """What a campaign was created with, but for the store, which is where it is now. Paths are seen from
    ``directory``.
    """
    form = dict(form_of(storage.load(name))["config"])
    mark = storage.marks or (form.get("storage") or {}).get("mark")
    form["storage"] = {
        "url": storage.url,
        **({"directory": str(storage.home)} if storage.shared else {}),
        **({"mark": str(mark)} if mark else {}),
    }
    return campaign_from_json(form, name=f"the campaign {name}", directory=directory)


def _opened(store: CampaignStore, config: CampaignConfig, pool: Pool | None, watch: Watch) -> Campaign:
    withdrawn = len(store.withdrawn())
    if config.pool.kind == "arrays":
        config = _as_created(store, config, withdrawn)
    recipe: Wired = _kept(store, config)
    records = _with_extensions(store, config, _base_pool(config, pool, withdrawn=withdrawn))
    seed = None if config.simulation is None else config.simulation.seed
    _finish(store, recipe, records, seed, watch)
    if isinstance(recipe, PrivatePool) and recipe.plan.selection.kind == "shards":
        recipe = replace(recipe, shards=secret_key(store, "shards", seed))
    made = Campaign(
        store,
        recipe=recipe,
        pool=nulled(store, records),  # ids are compared here; contents, of the records that are used
        per_question=config.oracle.per_question,
        per_annotator=config.oracle.per_annotator,
        seed=seed,
        watch=watch,
        folder=question_folder(config),
    )
    made.tidy()
    return made


def _kept(store: CampaignStore, config: CampaignConfig) -> Wired:
    """The recipe the campaign was created with, if the configuration still says the same."""
    form = form_of(store)
    check_kept(form["config"], config)
    return kept_recipe(config, newest_plan(store), tuple(form["inputs"]))


def check_kept(before: Mapping[str, Any], config: AnyCampaign) -> None:
    """Refuse a configuration that says something else than what a campaign was created with."""
    changed = differences(before, config.to_json())
    if changed:
        raise config.error(
            changed[0],
            f"the campaign was created with something else here{_others(changed[1:])}",
            "A campaign keeps its terms: put it back, or give the new one another name",
        )


def newest_plan(store: CampaignStore) -> Any:
    """The stored form of the plan the campaign goes by: the first one, or that of its last re-planning."""
    later = replannings(store.transitions())
    return later[-1].facts["plan"] if later else form_of(store)["plan"]


def _as_created(store: CampaignStore, config: CampaignConfig, withdrawn: int) -> CampaignConfig:
    """A pool given in Python says its own length: longer by what joined later, shorter by what was withdrawn."""
    first = int(form_of(store)["config"]["pool"]["size"])
    whole = sum(cohort.size for cohort in store.pool_cohorts()) or first
    fits = any(most - withdrawn <= config.pool.size <= most for most in (first, whole))
    return replace(config, pool=replace(config.pool, size=first)) if fits else config


def form_of(store: CampaignStore) -> dict[str, Any]:
    """What a campaign was created with, in its stored form."""
    form = store.config
    if not isinstance(form, dict) or form.get("format") != FORMAT:
        raise InvalidStore(f"opening the campaign {store.name}", "it is not in its form", "Restore the store")
    return form


def _others(paths: list[str]) -> str:
    return f", and in {', '.join(paths)}" if paths else ""


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Keys in which two stored configurations differ and must not."""
    flat = [_flat(form) for form in (before, now)]
    keys = sorted({key for one in flat for key in one if flat[0].get(key) != flat[1].get(key)})
    return [key for key in keys if not any(key == free or key.startswith(f"{free}.") for free in _MAY_CHANGE)]


def _flat(form: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in form.items():
        path = f"{before}{name}"
        found |= _flat(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return found


def question_folder(config: AnyCampaign) -> Path | None:
    """Where questions lie in files, if they do."""
    if config.oracle.name != "files":
        return None
    return config.resolve(config.oracle.path or f"{config.name}.questions")


def _base_pool(config: CampaignConfig, pool: Pool | None, *, withdrawn: int = 0) -> Pool:
    """The records that the campaign began with. Of withdrawn ones some may be gone; `nulled` knows which."""
    if pool is not None:
        if len(pool) < config.pool.size - withdrawn:
            raise config.error("pool.size", f"the pool has {len(pool)} records", "Declare as many")
        return pool
    if config.pool.kind == "arrays":
        raise BadInput(f"the campaign {config.name}", "its pool was given in Python", "Give pool=ArrayPool(...)")
    with config.pointing("pool"):
        return pool_like(config, config.pool.path, size=None if withdrawn else config.pool.size)


def _with_extensions(store: CampaignStore, config: CampaignConfig, pool: Pool) -> Pool:
    joined = [cohort for cohort in store.pool_cohorts()[1:] if cohort.facts.get("path")]
    moved = config.pool.further
    if moved is not None and len(moved) != len(joined):
        raise config.error(
            "pool.further",
            f"{len(moved)} files are named, and {len(joined)} joined",
            "Name each file that joined, in their order; new ones join with discreet pool extend",
        )
    if not joined or len(pool) > config.pool.size:  # a pool that was given whole has them
        return pool
    whole, withdrawn = pool, bool(store.withdrawn())
    for cohort, path in zip(joined, moved or [str(cohort.facts["path"]) for cohort in joined], strict=True):
        place = config.resolve(path)
        if not place.exists():
            raise config.error(
                "pool.further",
                f"{place.name}, which joined the pool later, is not there",
                "Put it back, or say where the files that joined are now: further = ['...']",
            )
        whole = extended(whole, place, size=None if withdrawn else cohort.size)
    return whole


def _finish(store: CampaignStore, recipe: Recipe, pool: Pool, seed: int | None, watch: Watch) -> None:
    """Enrol the pool and open the ledger, unless that is done."""
    if any(one.kind == CREATED for one in store.transitions()):
        return
    with store.exclusive("creating", wait=60.0):
        enrol(store, pool, watch)
        sink = store.sink()
        if not sink.read():
            source = OperatingSystem() if seed is None else Seeded(seed)
            Ledger.create(sink, recipe.terms(), source=source).close()
        store.record(CREATED, phase=0, facts={"keys": make_keys(store, seed)})


def enrol(store: CampaignStore, pool: Pool, watch: Watch) -> None:
    """Keep the keyed code of every record, unless that is done."""
    if store.pool_cohorts():
        return
    place = store.directory / MANIFEST
    if not place.exists():
        ManifestKey.fresh().write(place)
    codes = macs(pool, ManifestKey.read(place), progress=partial(watch, "enrolling"))
    store.add_records(list(codes), {"pool": pool.public()})  # computed first: meanwhile others may write
