"""A campaign goes to another store, all of it, or a copy of it to be read does.

Guarantee: rows are read in one state and stored in one transaction; then both stores are read again, and every table's
hash, every file's hash and the ledger's chain must agree before anything else happens. Of a move, only then does the
source say that it was moved, and only after that does the target take charges (`moves`). A process that dies leaves the
source whole and the target refusing. A backup that is there is looked through and left as it is: the same again
finishes what was cut off, and overwrites no older state.

Keys and checkpoints are in the directory of a host, and go with a move; those of a step that is under way are then
destroyed where they were. A backup has the keys that a campaign is created with, and no key of a step: it would outlive
the step, and with it noise could be taken off what was published.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, select

from discreet.errors import BadInput, CampaignExists, InvalidStore, NoSuchCampaign
from discreet.privacy.files import sync_directory
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.privacy.ledger.high_water_mark import HighWaterMark
from discreet.storage import files, moves, pieces, row_macs
from discreet.storage.campaign_store import CampaignStore
from discreet.storage.disk import disk_refusals, make_private
from discreet.storage.moves import OF_STEPS, Mark
from discreet.storage.objects import write_object
from discreet.storage.opening import MARK, Storage
from discreet.storage.scope import ARRIVING, BACKUP, MOVED, MOVING, Scope, chunks
from discreet.storage.tables import METADATA, campaigns

NOT_COPIED = {"moves", "file_pieces", "sessions"}
"""Tables of a campaign that stay: states of a store's own, contents that go with their files, browsers that log in
again.
"""
_ROWS = 1000
_OWN = ("objects", "locks")
"""Directories of a store's own."""
_IN_USE = "in use"


Digests = dict[str, tuple[int, str]]
"""By table: how many rows, and their hash."""


@dataclass(frozen=True, kw_only=True)
class Copied:
    """What was compared. Audience: owner.

    moved_before, made_before   the move, or the backup, had come to its end before
    behind                      of a backup made before: the campaign has gone on since
    """

    name: str
    id: str
    simulation: bool
    backup: bool
    moved_before: bool = False
    made_before: bool = False
    behind: bool = False
    rows: dict[str, int]
    files: int
    ledger_lines: int
    ledger_head: str | None
    digest: str = field(repr=False)


def copy_campaign(source: Storage, target: Storage, name: str, *, backup: bool = False) -> Copied:
    """Move the campaign ``name``, or with ``backup`` make a copy of it that is only read. The same again finishes what
    was cut off.
    """
    store = source.load(name)
    scope = store._scope
    if not scope.shared and not target.shared and source.path == target.path:
        raise BadInput(f"copying {name!r}", "both stores are the same one", "Name another one")
    with store.exclusive("working"):
        there = _there(target, store)
        if not backup and there is not None and there.state == _IN_USE and _was_moved(scope):
            return _moved_before(store, _scope_in(target, store))
        _check_keys(store)
        if backup:
            if there is not None and there.state == BACKUP:
                return _backed_up_before(store, _scope_in(target, store))
            if there is not None:
                raise _exists(name)
            arrived, read = _stored(store, target, Mark(state=BACKUP, token=store.id), backup=True)
            return _compared(store, arrived, read, backup=True)
        if there is not None and there.state != ARRIVING:
            raise _exists(name)
        mark = moves.begin(scope)
        if there is not None and there.token != mark.token:
            raise CampaignExists(
                f"copying {name!r}",
                "another move of it to this store was cut off",
                "Finish that one, or take another store",
            )
        if there is None and mark.state == MOVED:
            raise BadInput(f"copying {name!r}", "it was moved to another store before", "Copy it from there")
        if there is None:
            arrived, read = _stored(store, target, Mark(state=ARRIVING, token=mark.token), backup=False)
        else:
            arrived, read = _scope_in(target, store), _digests_of(scope)
            if mark.state == MOVING:  # taking it back may have begun, too
                with disk_refusals(f"copying {name!r}"):
                    _copy_directory(store.directory, arrived.directory, backup=False)
                    _carry_mark(store, arrived.mark)
        found = _compared(store, arrived, read, backup=False)
        moves.leave(scope, mark.token)
        moves.forget_steps(scope, arrived.directory)
        _retire_mark(scope, arrived)
        moves.arrive(arrived, mark.token)
    return found


def _was_moved(scope: Scope) -> bool:
    with scope.reading("copying it") as connection:
        mark = moves.mark_of(connection, scope.campaign)
    return mark is not None and mark.state == MOVED


def _moved_before(store: CampaignStore, arrived: Scope) -> Copied:
    """Of a move that came to its end: what is there now, for it may have gone on."""
    moves.forget_steps(store._scope, arrived.directory)
    return replace(_compared(store, arrived, _digests_of(arrived), backup=False), moved_before=True)


def _backed_up_before(store: CampaignStore, arrived: Scope) -> Copied:
    """Of a backup that is there: whole by itself, and of this campaign as it is, or was."""
    now, then = _digests_of(store._scope), _digests_of(arrived)
    lines = _ledger(arrived)
    if _ledger(store._scope)[: len(lines)] != lines:
        raise InvalidStore(
            f"copying {store.name!r}", "the ledger of the backup is not the beginning of its own", "Take another store"
        )
    found = _compared(store, arrived, then, backup=True)
    return replace(found, made_before=True, behind=now != then)


def abandon_move(source: Storage, target: Storage | None, name: str) -> bool:
    """Take back a move that was cut off; whether there was one."""
    store = source.load(name)
    with store.exclusive("working"):
        arrived, there = None, None if target is None else _there(target, store)
        if target is not None and there is not None and there.state:
            arrived = _scope_in(target, store)
        place = None if target is None else target.directory_of(store.id)
        return moves.abandon(store._scope, arrived, place=place)


def _exists(name: str) -> CampaignExists:
    return CampaignExists(
        f"copying {name!r}", "the other store has a campaign of this name or origin", "Copy into another store"
    )


def _check_keys(store: CampaignStore) -> None:
    kept = [path for path in store.directory.glob("*.key") if path.name != row_macs.KEY]
    if not store.simulation and store.pool_cohorts() and not kept:
        raise BadInput(
            f"copying {store.name!r}",
            "the keys it was created with are not in its directory on this host",
            "Copy it on the host that has them; without them nobody can go on with it",
        )


def _there(target: Storage, store: CampaignStore) -> Mark | None:
    """How the campaign stands in the target; None if it is not there. "": another one of its name is."""
    with target._database.reading("copying a campaign") as connection:
        row = connection.execute(
            select(campaigns.c.number, campaigns.c.id).where(
                (campaigns.c.name == store.name) | (campaigns.c.id == store.id)
            )
        ).first()
        if row is None:
            return None
        mark = moves.mark_of(connection, row.number)
        if row.id != store.id:
            return Mark(state="", token="")
        return mark or Mark(state=_IN_USE, token="")


def _scope_in(target: Storage, store: CampaignStore) -> Scope:
    with target._database.reading("copying a campaign") as connection:
        number = connection.scalar(select(campaigns.c.number).where(campaigns.c.id == store.id))
    if number is None:
        raise NoSuchCampaign(f"copying {store.name!r}", "it is not there", "Begin again")
    return target.scope_of({"number": number, "id": store.id, "name": store.name, "simulation": store.simulation})


def _stored(store: CampaignStore, target: Storage, mark: Mark, *, backup: bool) -> tuple[Scope, Digests]:
    """Everything, in the directory of the target and in one transaction of it; and what was read, table by table."""
    asked, place = f"copying {store.name!r}", target.directory_of(store.id)
    with disk_refusals(asked):
        make_private(place)
        _copy_directory(store.directory, place, backup=backup)
        if not backup:
            _carry_mark(store, target.mark_of(store.id))
    row = {"id": store.id, "name": store.name, "config": store._config, "simulation": store.simulation}
    names: dict[str, Path] = {}
    with store._scope.reading("copying it") as old, target._database.writing(asked) as new:
        if not store.simulation:
            target._database.dialect.check_durable(new, asked)
        created = old.scalar(select(campaigns.c.created).where(campaigns.c.id == store.id))
        made = new.execute(campaigns.insert().values(**row, created=created))
        number = made.inserted_primary_key[0] if made.inserted_primary_key else None
        if number is None:
            raise InvalidStore(asked, "the database gave the campaign no number", "Report this")
        scope = target.scope_of({**row, "number": number})
        moves.put_mark(new, number, mark)
        for table in _tables():
            for rows in chunks(_rows(old, table, store._scope.campaign), _ROWS):
                new.execute(table.insert(), [{**one, "campaign": number} for one in rows])
        for kept in store.files():
            names[kept.sha256] = store.file(kept.kind, kept.phase)
        for sha256, path in names.items():
            write_object(place / "objects", path, asked=asked)
            if target.shared:
                pieces.put(new, scope, sha256, place / "objects" / sha256)
        read = _digests(old, store._scope.campaign)
    return scope, read


def _carry_mark(store: CampaignStore, place: Path) -> None:
    """The high-water mark of the ledger goes along: no line that it counts can be missing in the copy unnoticed."""
    refused = store.sink().compared().refused
    if refused is not None:
        raise refused
    source, target = HighWaterMark(store._scope.mark), HighWaterMark(place)
    position = source.read()
    if position is None or _same_place(source.path, target.path):
        return
    target.create(position)
    with target.held() as mark:  # what an abandoned move left may be older
        if mark.position.id != position.id:
            raise InvalidStore(
                f"copying {store.name!r}", f"{place.name} there is the mark of another ledger", "Remove that file"
            )
        mark.follow(position)


def _retire_mark(scope: Scope, arrived: Scope) -> None:
    """A backup of the source from before the move must not be charged: its mark says that it was moved."""
    if scope.mark.exists() and not _same_place(scope.mark, arrived.mark):
        with disk_refusals(scope.asked("moving it")), HighWaterMark(scope.mark).held() as mark:
            mark.retire()


def _same_place(one: Path, other: Path) -> bool:
    """Whether two stores have one mark."""
    return one.resolve() == other.resolve()


def _tables() -> list[Table]:
    return [one for one in METADATA.sorted_tables if "campaign" in one.c and one.name not in NOT_COPIED]


def _rows(connection: Connection, table: Table, campaign: int) -> Iterator[dict[str, Any]]:
    wanted = select(table).where(table.c.campaign == campaign).order_by(*table.primary_key.columns)
    for row in connection.execution_options(yield_per=_ROWS).execute(wanted):
        yield {name: value for name, value in row._mapping.items() if name != "campaign"}


def _compared(store: CampaignStore, arrived: Scope, read: Digests, *, backup: bool) -> Copied:
    """What was read from the one store and what is in the other: equal, or `InvalidStore`."""
    asked, after = f"copying {store.name!r}", _digests_of(arrived)
    if read != after:
        different = sorted(name for name in read if read[name] != after.get(name))
        raise InvalidStore(asked, f"the copy differs in {', '.join(different)}", "Take the move back: storage abandon")
    lines = _ledger(arrived)
    head = None
    if lines:
        with Ledger.open(MemorySink(lines)) as ledger:  # every hash, and that the terms allow each entry
            head = ledger.head
    kept = files.read(arrived, None)
    for one in kept:
        files.path_of(arrived, one.kind, one.phase)
        if arrived.shared:
            pieces.check(arrived, one.sha256, asked=asked)
    total = hashlib.sha256(json.dumps({name: digest for name, (_, digest) in after.items()}, sort_keys=True).encode())
    return Copied(
        name=store.name,
        id=store.id,
        simulation=store.simulation,
        backup=backup,
        rows={name: count for name, (count, _) in after.items()},
        files=len(kept),
        ledger_lines=len(lines),
        ledger_head=head,
        digest=total.hexdigest(),
    )


def _digests_of(scope: Scope) -> Digests:
    with scope.reading("comparing it") as connection:
        return _digests(connection, scope.campaign)


def _digests(connection: Connection, campaign: int) -> Digests:
    """Rows and hash of every table, in the order of its key; equal in every database."""
    found = {}
    for table in _tables():
        digest, count = hashlib.sha256(), 0
        for row in _rows(connection, table, campaign):
            plain = {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}
            digest.update(json.dumps(plain, sort_keys=True).encode() + b"\n")
            count += 1
        found[table.name] = count, digest.hexdigest()
    return found


def _ledger(scope: Scope) -> list[bytes]:
    table = METADATA.tables["ledger_lines"]
    with scope.reading("comparing it") as connection:
        wanted = select(table.c.line).where(table.c.campaign == scope.campaign).order_by(table.c.position)
        return list(connection.scalars(wanted))


def _copy_directory(source: Path, target: Path, *, backup: bool) -> None:
    """Keys and checkpoints, for their owner alone; durable when it returns. Two stores may have one directory."""
    if source.resolve() == target.resolve():
        return
    for path in sorted(source.rglob("*")):
        inner = path.relative_to(source)
        if inner.parts[0] in (*_OWN, MARK) or not path.is_file() or (backup and inner.parts[0].startswith(OF_STEPS)):
            continue
        place = target / inner
        make_private(place.parent)
        part = place.with_name(f".{place.name}.part")
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as copy, path.open("rb") as original:
            shutil.copyfileobj(original, copy)
            copy.flush()
            os.fsync(copy.fileno())
        part.rename(place)
        sync_directory(place.parent)
