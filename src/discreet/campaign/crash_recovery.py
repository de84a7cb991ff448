"""Where a step of the loop charges and draws, and what is left of it when it is over.

Guarantee: in production the key of a query or of a training lies in a file of its owner's from before its first charge
until the step is recorded; a redo after a crash finds the same charges and makes the same draws, and is refused if it
would hide something else. In a store that several hosts share, a host without that key is refused. A step that is
recorded leaves nothing: what a dead process could not remove is removed when the campaign is next opened or goes on. A
simulation has no keys; its seed repeats the draws.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from discreet.campaign.state import ANSWERED, CREATED, PUBLISHED, RELEASED, TRAINED, CampaignState, ledger_of
from discreet.errors import BudgetExceeded, InvalidCheckpoint, InvalidStore
from discreet.noise import SealedPhase, SecretKey, Source
from discreet.noise.keys import destroy
from discreet.noise.replay_key import sealed_with
from discreet.privacy.ledger import Ledger
from discreet.storage import CampaignStore
from discreet.storage.cached_rows import DIRECTORY as FEATURES
from discreet.storage.cached_rows import erase_rows
from discreet.storage.disk import disk_refusals, make_private

ASK, ANSWER, TRAIN, RELEASE = "asking", "answering", "training", "releasing"
CHECKPOINTS = "checkpoints"
_ENDED = {PUBLISHED: (ASK,), ANSWERED: (ANSWER,), TRAINED: (ANSWER, TRAIN), RELEASED: (RELEASE,)}
"""Parts of a phase that are over when a step is recorded."""


@contextmanager
def charging(store: CampaignStore, phase: int, part: str, source: Source) -> Iterator[Ledger | SealedPhase]:
    """Where a part of a phase charges. Its key is kept until the block is left without an error."""
    with ledger_of(store, source) as ledger:
        if store.simulation:
            yield ledger
            return
        folder = place_in(store, _keys(part))
        lost = _lost_key(ledger, phase, part, folder)
        if store.shared:
            _check_host(store, phase, part, lost=lost)
        consequence = "what was charged is found again"
        try:
            with (
                disk_refusals(f"{part} in campaign {store.name!r}", kept=consequence),
                SealedPhase(ledger, phase=phase, directory=folder) as sealed,
            ):
                yield sealed
        except BudgetExceeded:
            if not lost:
                raise
            raise InvalidStore(
                f"{part} in phase {phase} of {store.name}",
                f"it was charged and cut off, the key in {folder.name}, which repeats its draws, is missing, and "
                "other draws cannot be paid for",
                "Go on where it was begun, or restore the key from a backup",
            ) from None


ROWS = "rows"
"""In a line that names what was released: the head of the MACs over all rows so far, which is keyed."""


def record_release(
    store: CampaignStore, kind: str, *, phase: int, facts: Mapping[str, Any], released: Mapping[str, str]
) -> None:
    """Record a step and, in the same transaction, a line of the ledger with the hash of every file that it released.

    Not in a simulation, whose draws follow from the numbers of the ledger's lines and which proves nothing.
    """
    if store.simulation or any((step.kind, step.phase) == (kind, phase) for step in store.transitions()):
        store.record(kind, phase=phase, facts=facts)
        return
    with Ledger.open(store.sink(step=(kind, phase, facts))) as ledger:
        ledger.record_release({**released, ROWS: store.row_head()}, phase=phase)


def _check_host(store: CampaignStore, phase: int, part: str, *, lost: bool) -> None:
    """Refuse, before anything is charged, on a host that lacks the keys others have: it would pay for the same."""
    asked = f"{part} in phase {phase} of {store.name}"
    if part != RELEASE and not any(store.directory.glob("*.key")):
        raise InvalidStore(
            asked,
            "the keys that the campaign was created with are not on this host",
            f"Bring *.key from {store.id} in the [storage] directory of the host that has them; nothing was charged",
        )
    if lost:
        raise InvalidStore(
            asked,
            "it was begun on another host, which has the key that repeats its draws",
            "Go on there; if that host is lost, discreet storage copy brings the campaign to a file, to be paid again",
        )


def _lost_key(ledger: Ledger, phase: int, part: str, folder: Path) -> bool:
    """Whether a step was charged and not finished, and its key is not here. Other draws are another charge.

    A key that is here may be another one: of a process that was cut off before its first charge, when another host went
    on. Of a step that was paid for again the last charge says which key is its.
    """
    charged = [
        entry
        for entry in ledger.entries
        if entry.charges and entry.why.phase == phase and _part(entry.why.purpose) == part
    ]
    here = sealed_with(folder, ledger=ledger, phase=phase)
    if here is None:
        return bool(charged)
    keys = [entry.key for entry in charged if entry.key]
    return bool(keys) and keys[-1] != here


_PARTS = {"answers": ANSWER, "training": TRAIN, "evaluation": TRAIN, "release": RELEASE}
"""By the first word of a charge's purpose; all others are of asking."""


def _part(words: str) -> str:
    return _PARTS.get(words.split(maxsplit=1)[0], ASK)


def query_begun(store: CampaignStore, phase: int) -> bool:
    """Whether something of a phase that asked nobody yet was charged: a query that was cut off, and will be redone."""
    with ledger_of(store) as ledger:
        return any(
            entry.why.phase == phase and entry.charges and _part(entry.why.purpose) not in (RELEASE, ANSWER)
            for entry in ledger.entries
        )


def step_begun(store: CampaignStore, now: CampaignState) -> bool:
    """Whether a query, answers of the recipe itself or a training were begun: they go on with what they were begun
    with, or not at all.
    """
    if now.step == "answer":
        return answering_begun(store, now.phase)
    return now.step == "train" or (now.step == "ask" and query_begun(store, now.phase))


def answering_begun(store: CampaignStore, phase: int) -> bool:
    """Whether answers of the recipe itself were charged in a phase, and not all of them told."""
    if any(step.kind == ANSWERED and step.phase == phase for step in store.transitions()):
        return False
    with ledger_of(store) as ledger:
        return any(entry.why.phase == phase and _part(entry.why.purpose) == ANSWER for entry in ledger.entries)


def leftovers(store: CampaignStore, *, ended: bool = False) -> list[Path]:
    """What processes that died left of steps that are over: keys, checkpoints, files half written; of a campaign that
    has ``ended``, features that were kept.
    """
    paths: list[Path] = []
    for step in store.transitions():
        for part in _ENDED.get(step.kind, ()):
            paths += (store.directory / _keys(part)).glob(f"phase-{step.phase}-*")
        if step.kind == TRAINED:
            paths += (store.directory / CHECKPOINTS).glob(f"phase-{step.phase}[.-]*")
    for name in (CHECKPOINTS, *(_keys(part) for part in (ASK, ANSWER, TRAIN, RELEASE))):
        paths += (store.directory / name).glob(".*")  # the names of whole files have no dot before them
    return paths + (list((store.directory / FEATURES).glob("*")) if ended else [])


def forget(store: CampaignStore, *, ended: bool = False) -> None:
    """Erase what a killed process left, keys and features. Only the process that has the campaign calls it."""
    with disk_refusals(f"tidying campaign {store.name!r}"):
        erase_rows(store.directory, withdrawn_elsewhere(store))
        for path in leftovers(store, ended=ended):
            if path.suffix == ".key" or path.parent.name == FEATURES:
                destroy(path)
            path.unlink(missing_ok=True)


def withdrawn_elsewhere(store: CampaignStore) -> list[int]:
    """Places of records that another host may have erased while this one keeps features."""
    if not store.shared or not any((store.directory / FEATURES).glob("*")):
        return []
    return [record.place for record in store.withdrawn() if record.erased]


def place_in(store: CampaignStore, name: str) -> Path:
    """A directory of the campaign's, for its owner alone."""
    folder = store.directory / name
    with disk_refusals(f"using campaign {store.name!r}"):
        make_private(folder)
    return folder


@contextmanager
def naming_checkpoints(store: CampaignStore) -> Iterator[None]:
    """Say where a checkpoint is that cannot be used: its file's name alone is not found."""
    try:
        yield
    except InvalidCheckpoint as error:
        where = "/".join((store.directory / CHECKPOINTS).parts[-3:])
        remedy = f"{error.remedy}. It is in {where}; nothing is charged again"
        raise InvalidCheckpoint(error.asked, error.fact, remedy) from None


def _keys(part: str) -> str:
    return f"keys-{part}"


# Keys that a campaign is created with. They are made once, before the campaign is recorded as created, and named
# there by their fingerprints. A key that is lost or replaced is noticed: another one would cut the pool anew, and
# records would meet queries that nobody paid for. Audience: owner.


PURPOSES = ("shards", "votes")


def make_keys(store: CampaignStore, seed: int | None) -> dict[str, str]:
    """The keys of a new campaign, in files for the owner alone, each named by its fingerprint."""
    if seed is not None:
        return {}
    for purpose in PURPOSES:
        file = store.directory / f"{purpose}.key"
        if not file.exists():
            with disk_refusals(f"making a key of campaign {store.name!r}"):
                SecretKey.fresh().write(file)
    return {purpose: SecretKey.read(store.directory / f"{purpose}.key").fingerprint for purpose in PURPOSES}


def secret_key(store: CampaignStore, purpose: str, seed: int | None) -> SecretKey:
    """A key that the campaign was created with. Another one would cut the pool anew, or decide votes anew: refused."""
    if seed is not None:
        return SecretKey(hashlib.sha256(f"discreet {purpose} {seed}".encode()).digest())
    file = store.directory / f"{purpose}.key"
    created = [step for step in store.transitions() if step.kind == CREATED]
    fingerprints = created[0].facts.get("keys", {}) if created else {}
    if not file.exists() or SecretKey.read(file).fingerprint != fingerprints.get(purpose):
        raise InvalidStore(
            f"the campaign {store.name}",
            f"{file.name}, which it was created with, is missing or another",
            "Restore it from a backup; a new one would break the guarantee",
        )
    return SecretKey.read(file)
