"""From a crowd campaign's file to a campaign: the gate is charged and drawn once, when it is created.

Guarantee: everything that can be refused is refused before the charge. Then, in this order, each step durable before
the next: the ledger, the charge, the released texts in a file by their hash, the records that are enrolled, the step
"released". A process that dies anywhere leaves a campaign that the next one goes on with: the same charge is found
again, the same coins fall (their key is sealed in a file until the step is recorded), and a log that changed meanwhile
is refused, for the same coins on other rows would show their difference. After that nothing reads the log any more.

Ids of released texts are numbers in the order of the texts: a function of what was released.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from discreet.campaign import Campaign
from discreet.campaign.recipe import Watch, unwatched
from discreet.campaign.sealed_steps import RELEASE, charging, record_release
from discreet.campaign.secret_keys import make_keys
from discreet.campaign.standing import CREATED, RELEASED
from discreet.config import CrowdConfig
from discreet.errors import InvalidStore, NotNow
from discreet.gates import open_log
from discreet.gates.query_log import QueryLog
from discreet.gates.release_register import register_release, warn_if_released
from discreet.noise import OperatingSystem, Seeded, charge_once
from discreet.noise.unit_words import require_aes
from discreet.pools import ArrayPool, Pool
from discreet.privacy.event_forms import to_json
from discreet.privacy.ledger import Ledger, Why
from discreet.privacy.ledger.requests import request
from discreet.recipes.crowd import LOG, Crowd, evaluation_texts, gate_of
from discreet.recipes.labelled_texts import labelled_texts
from discreet.recipes.one_of_a_name import OneOfAName
from discreet.recipes.opening import FORMAT, check_kept, enrol, form_of, question_folder
from discreet.storage import CampaignStore

TEXTS, FIGURES = "released", "log-figures"


def create_crowd(
    config: CrowdConfig, *, log: QueryLog | None = None, load_if_exists: bool = True, watch: Watch = unwatched
) -> Campaign:
    """A new campaign, its gate charged and drawn; or the one of that name. ``log``: instead of the file's."""
    named = OneOfAName.of(config, load_if_exists=load_if_exists)
    if (kept := named.there()) is not None:
        return opened_crowd(kept, config, log=log, watch=watch)
    recipe = Crowd(config=config)
    recipe.terms()
    recipe.settings()
    labelled_texts(config, config.gold.path, "gold.path")
    evaluation_texts(config)
    require_aes()
    given = _whole(config, log_of(config) if log is None else log)
    form = {"format": FORMAT, "config": config.to_json()}
    return opened_crowd(named.created(form), config, log=given, watch=watch)


def log_of(config: CrowdConfig) -> QueryLog:
    """The log that the file names."""
    table = config.log
    with config.pointing("log"):
        return open_log(config.resolve(table.path), text=table.text, person=table.person, row_id=table.row_id)


def _whole(config: CrowdConfig, log: QueryLog) -> QueryLog:
    """``log``, if the gate can take all of it: what cannot be read is refused before the charge."""
    gate_of(config).check_log(log)
    with config.pointing("log.path"):
        log.check_readable()
    return log


def opened_crowd(
    store: CampaignStore, config: CrowdConfig, *, log: QueryLog | None = None, watch: Watch = unwatched
) -> Campaign:
    """The campaign of a store; its creation is finished first, if a process died in it."""
    check_kept(form_of(store)["config"], config)
    recipe, seed = Crowd(config=config), None if config.simulation is None else config.simulation.seed
    _finish(store, recipe, log, seed, watch)
    texts = released_texts(store)
    if not texts:
        raise NotNow(
            f"going on with {store.name}",
            f"the gate released nothing: no text was kept by {config.gate.k} units",
            "Make a campaign of another name with a smaller k or more rows; this one is paid for",
        )
    made = Campaign(
        store,
        recipe=recipe,
        pool=pool_of(texts),
        per_question=config.oracle.per_question,
        per_annotator=config.oracle.per_annotator,
        seed=seed,
        watch=watch,
        folder=question_folder(config),
    )
    made.tidy()
    return made


def released_texts(store: CampaignStore) -> list[str]:
    """What the gate let out, in the order of its bytes: paid for, and for anybody."""
    return texts_from_bytes(store.file(TEXTS, 0).read_bytes())


def texts_from_bytes(content: bytes) -> list[str]:
    """The stored form."""
    try:
        found = json.loads(content)
        if isinstance(found, list) and all(isinstance(text, str) for text in found):
            return found
    except ValueError:
        pass
    raise InvalidStore("reading released texts", "they are not in their form", "Restore the file")


def pool_of(texts: Sequence[str]) -> Pool:
    """Released texts under ids of their own."""
    return ArrayPool(ids=[f"text-{place + 1}" for place in range(len(texts))], text=list(texts))


def _finish(store: CampaignStore, recipe: Crowd, log: QueryLog | None, seed: int | None, watch: Watch) -> None:
    """Open the ledger and draw the gate, unless that is done."""
    if _taken(store, CREATED):
        return
    with store.exclusive("creating", wait=600.0):
        if _taken(store, CREATED):
            return
        keys = make_keys(store, seed)
        source = OperatingSystem() if seed is None else Seeded(seed)
        if not store.sink().read():
            Ledger.create(store.sink(), recipe.terms(), source=source).close()
        if not _taken(store, RELEASED):
            with charging(store, 0, RELEASE, source) as charges:
                _release(store, recipe.config, charges, log, watch)
        store.record(CREATED, phase=0, facts={"keys": keys})


def _release(store: CampaignStore, config: CrowdConfig, charges: Any, log: QueryLog | None, watch: Watch) -> None:
    """Charge, then draw, then keep; the step is recorded last."""
    rows, gate = _whole(config, log_of(config)) if log is None else log, gate_of(config)
    wanted = request({LOG: gate.price()}, why=Why(phase=0, purpose="release"))
    home = store.directory.parent
    if not store.simulation:
        warn_if_released(rows, directory=home, ledger=store.id)
    (paid,) = charge_once(charges, [wanted])
    if not store.simulation:
        register_release(rows, out=store.name, directory=home, ledger=store.id)
    found = gate.release(rows, receipt=paid, told=watch)
    texts = [str(text) for text in found.texts.to_pylist()]
    name = store.keep_file(TEXTS, phase=0, data=json.dumps(texts, ensure_ascii=False).encode(), replace=True)
    store.keep_file(FIGURES, phase=0, data=json.dumps(found.figures.to_json()).encode(), replace=True)
    if texts:
        enrol(store, pool_of(texts), watch)
    facts = {"values": len(texts), "event": to_json(gate.price())}
    record_release(store, RELEASED, phase=0, facts=facts, released={TEXTS: name})


def _taken(store: CampaignStore, kind: str) -> bool:
    return any(one.kind == kind for one in store.transitions())
