"""From what an owner declares to a campaign: created once, opened as often as needed.

Guarantee: a campaign keeps what it was created with. Its plan is made once and stored; a file that says something
else later is refused, but for where things are and who answers. Creating is done in steps that can each be repeated,
so a process that dies in the middle leaves nothing that the next one cannot finish. Of processes that create the same
campaign at once, one does; the others go on with what it created, or are refused if they wanted a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from discreet.campaign import Campaign
from discreet.campaign.crash_recovery import make_keys
from discreet.campaign.recipe import Recipe, Watch, unwatched
from discreet.campaign.state import CREATED
from discreet.campaign.withdrawal import nulled
from discreet.config import CampaignFile, campaign_from_json
from discreet.config.tables import PartTable
from discreet.errors import BadInput, CampaignExists
from discreet.noise import OperatingSystem, Seeded
from discreet.parts import Origin, third_party_parts
from discreet.pools import Pool
from discreet.privacy.ledger import Ledger
from discreet.privacy.plan import Plan
from discreet.recipes.specification import FORMAT, Confirm, Inputs, RecipeSpec, enrol, form_of, is_recorded, spec_of
from discreet.storage import CampaignStore, Storage, open_storage

_MAY_CHANGE = ("pool.path", "pool.further", "oracle", "storage", "evaluation.path", "evaluation.labels")
"""Keys of every recipe that say where things are and who answers."""


@dataclass(frozen=True, kw_only=True)
class CampaignSlot:
    """The name that a configuration gives, in the store that it names. ``load_if_exists``: or else a new one alone."""

    storage: Storage
    config: CampaignFile
    load_if_exists: bool

    def existing(self) -> CampaignStore | None:
        """The campaign of that name."""
        name = self.config.name
        if name not in self.storage.campaigns():
            return None
        if not self.load_if_exists:
            raise CampaignExists(f"creating the campaign {name}", "there is one of that name", "Load it")
        return self.storage.load(name)

    def created(self, form: Mapping[str, Any]) -> CampaignStore:
        """A new one, or the one of another process that was faster."""
        simulation = self.config.simulation is not None
        try:
            return self.storage.create(self.config.name, config=form, simulation=simulation)
        except CampaignExists:
            if not self.load_if_exists:
                raise
            return self.storage.load(self.config.name)


def slot_of(config: CampaignFile, *, load_if_exists: bool) -> CampaignSlot:
    """In its store, which is opened."""
    storage = open_storage(config.storage_url(), directory=config.storage_directory(), mark=config.storage_mark())
    return CampaignSlot(storage=storage, config=config, load_if_exists=load_if_exists)


def create(
    config: CampaignFile,
    *,
    pool: Pool | None = None,
    plan: Plan | None = None,
    load_if_exists: bool = True,
    watch: Watch = unwatched,
    confirm: Confirm = False,
) -> Campaign:
    """A new campaign, or the one of that name. ``pool``: instead of the file that the configuration names.

    ``confirm``: of a campaign of PATE that is no simulation, who looks at the tallies of the private records before
    it begins: a function from `discreet.recipes.pate_votes.Tallies` to a bool, or True, to start whatever they are.
    ``plan``: the one that `plan_of` made of this configuration before, for simulations that repeat one.
    """
    spec = spec_of(config)
    for name, value in (("pool", pool), ("plan", plan)):
        if value is not None and name not in spec.takes:
            raise BadInput(spec.title, f"it takes no {name} but that of its file", "Leave it out")
    slot = slot_of(config, load_if_exists=load_if_exists)
    if (store := slot.existing()) is not None:
        return _opened(spec, store, config, pool, watch)
    for name in config.tables():
        table = getattr(config, name)
        if isinstance(table, PartTable) and table.is_unloaded and table.resolved() is not table:
            raise config.error(f"{name}.name", "it was read without its part, and not checked", "Read it as a new file")
    further, material = spec.prepare(config, Inputs(pool=pool, plan=plan, confirm=confirm, watch=watch))
    store = slot.created({"format": FORMAT, "config": config.to_json(), **further})
    return _opened(spec, store, config, material, watch)


def load(
    config: CampaignFile, *, pool: Pool | None = None, watch: Watch = unwatched, read_only: bool = False
) -> Campaign:
    """The campaign that the configuration names. ``read_only``: to be looked at; nothing is written to its store."""
    storage = open_storage(
        config.storage_url(),
        directory=config.storage_directory(),
        mark=config.storage_mark(),
        must_exist=True,
        read_only=read_only,
    )
    spec = spec_of(config)
    return _opened(spec, storage.load(config.name), config, pool if "pool" in spec.takes else None, watch)


def stored_config(storage: Storage, name: str, *, directory: Path) -> CampaignFile:
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
    return campaign_from_json(form, name=f"the campaign {name}", directory=directory, stored=True)


def needs_confirmation(config: CampaignFile) -> bool:
    """Whether `create` would begin a campaign whose owner has to confirm it: a new one, no simulation."""
    spec = spec_of(config)
    if config.simulation is not None or spec.confirmation is None or not spec.has_private_files(config):
        return False
    with slot_of(config, load_if_exists=True).storage as storage:
        return config.name not in storage.campaigns()


def question_folder(config: CampaignFile) -> Path | None:
    """Where questions lie in files, if they do."""
    if config.oracle.name != "files":
        return None
    return config.resolve(config.oracle.path or f"{config.name}.questions")


def differences(before: Mapping[str, Any], now: Mapping[str, Any], *, may_change: Iterable[str] = ()) -> list[str]:
    """Keys in which two stored configurations differ and must not. ``may_change``: further keys that may."""
    free_keys = (*_MAY_CHANGE, *may_change)
    first, second = _flat(before), _flat(now)
    keys = sorted(key for key in first | second if first.get(key) != second.get(key))
    return [key for key in keys if not any(key == free or key.startswith(f"{free}.") for free in free_keys)]


def as_stored(config: CampaignFile, form: Mapping[str, Any]) -> CampaignFile:
    """``config``, with what ``form`` has for parts that were not loaded, where the file says the same or nothing.

    Versions that the file does not name are those of the form; numbers that are equal are written as they are there.
    """
    tables: dict[str, Any] = {}
    for kind in (part["kind"] for part in third_party_parts(form)):
        table, stored = getattr(config, kind, None), form[kind]
        if isinstance(table, PartTable) and table.is_unloaded and table.name == stored["name"]:
            origin = Origin(distribution=stored["distribution"], version=stored["version"])
            options = {
                name: stored[name] if _plain(stored.get(name)) == _plain(value) else value
                for name, value in table.options.items()
            }
            tables[kind] = replace(table, origin=table.origin or origin, options=options)
    return replace(config, **tables)


def _plain(value: Any) -> Any:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return value


def _flat(form: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in form.items():
        path = f"{before}{name}"
        values |= _flat(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return values


def _opened(spec: RecipeSpec, store: CampaignStore, config: CampaignFile, material: Any, watch: Watch) -> Campaign:
    """The campaign of a store; its creation is finished first, if a process died in it."""
    config = spec.as_created(store, as_stored(config, form_of(store)["config"]))
    _check_unchanged(store, config)
    recipe, seed = spec.open(store, config), None if config.simulation is None else config.simulation.seed
    pool = spec.records(store, config, material)
    source = material if pool is None else pool
    finish(store, recipe, pool, seed, watch, begin=lambda: spec.begin(store, recipe, source, seed, watch))
    pool = spec.records(store, config, material) if pool is None else pool
    assert pool is not None  # `begin` made it
    campaign = Campaign(
        store,
        recipe=spec.bind(store, recipe, seed),
        pool=nulled(store, pool),  # ids are compared here; contents, of the records that are used
        per_question=config.oracle.per_question,
        per_annotator=config.oracle.per_annotator,
        seed=seed,
        watch=watch,
        folder=question_folder(config),
    )
    campaign.tidy()
    return campaign


def _check_unchanged(store: CampaignStore, config: CampaignFile) -> None:
    """Refuse a configuration that says something else than what a campaign was created with."""
    changed = differences(form_of(store)["config"], config.to_json(), may_change=spec_of(config).may_change)
    if changed:
        others = f", and in {', '.join(changed[1:])}" if changed[1:] else ""
        raise config.error(
            changed[0],
            f"the campaign was created with something else here{others}",
            "A campaign keeps its terms: put it back, or give the new one another name",
        )


def finish(
    store: CampaignStore, recipe: Recipe, pool: Pool | None, seed: int | None, watch: Watch, *, begin: Any = None
) -> None:
    """Enrol the pool, open the ledger and ``begin``, unless that is done."""
    if is_recorded(store, CREATED):
        return
    with store.exclusive("creating", wait=600.0):
        if is_recorded(store, CREATED):
            return
        keys = make_keys(store, seed)
        if pool is not None:
            enrol(store, pool, watch)
        if not store.sink().read():
            source = OperatingSystem() if seed is None else Seeded(seed)
            Ledger.create(store.sink(), recipe.terms(), source=source).close()
        if begin is not None:
            begin()
        store.record(CREATED, phase=0, facts={"keys": keys})
