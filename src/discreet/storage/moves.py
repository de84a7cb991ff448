"""Which campaigns are not in ordinary use: on their way to another store, moved, or copies to be read.

    source   (in use) -> moving -> moved
    target   arriving -> (in use)             a backup: backup, for good

Guarantee: at no moment do two stores take charges for one campaign. The source takes nothing from before the first row
is copied; the target takes nothing before the source says, durably, that it was moved. A move that was cut off is
finished by the same move again, or taken back by `abandon` as long as the source does not say that it was moved. Both
sides of a move have one token; nobody ends another's move.

Copies
------
A campaign goes to another store, all of it, or a copy of it to be read does.

Guarantee: rows are read in one state and stored in one transaction; then both stores are read again, and every table's
hash, every file's hash and the ledger's chain must agree before anything else happens. Of a move, only then does the
source say that it was moved, and only after that does the target take charges. A process that dies leaves the
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
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, delete, select, update

from discreet.errors import BadInput, CampaignExists, InvalidStore, StoreUnavailable
from discreet.noise.keys import destroy
from discreet.privacy.files import sync_directory
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.privacy.ledger.high_water_mark import HighWaterMark
from discreet.storage import cached_rows, files, row_macs
from discreet.storage.campaign_store import CampaignStore
from discreet.storage.database import ARRIVING, BACKUP, MOVED, MOVING, NOT_HERE, Scope, chunks
from discreet.storage.disk import disk_refusals, make_private, write_object
from discreet.storage.files import check_pieces, put_pieces
from discreet.storage.opening import MARK, Storage, insert_campaign
from discreet.storage.tables import METADATA, campaigns, moves, now, stamp
from discreet.storage.tables import ledger_lines as lines_table

OF_STEPS = ("keys-", "checkpoints", cached_rows.DIRECTORY)
"""How the names of directories begin that are of a step under way, or can be computed again."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The state of a campaign that is not in ordinary use."""

    state: str
    token: str


def mark_of(connection: Connection, number: int) -> Mark | None:
    """None: it is in use."""
    row = connection.execute(select(moves.c.state, moves.c.token).where(moves.c.campaign == number)).first()
    return None if row is None else Mark(state=row.state, token=row.token)


def put_mark(connection: Connection, number: int, mark: Mark) -> None:
    """Of a campaign that has none."""
    row = {"campaign": number, "state": mark.state, "token": mark.token, "at": stamp(now())}
    connection.execute(moves.insert().values(**row))


def begin(scope: Scope) -> Mark:
    """Let the source take nothing any more; the mark of this move, or of the one that was cut off."""
    asked = scope.asked("moving it")
    with scope.database.writing(asked) as connection:
        _lock(connection, scope)
        before = mark_of(connection, scope.campaign)
        if before is not None and before.state not in (MOVING, MOVED):
            raise StoreUnavailable(asked, *NOT_HERE[before.state])
        if before is not None:
            return before
        mark = Mark(state=MOVING, token=secrets.token_hex(16))
        put_mark(connection, scope.campaign, mark)
    return mark


def leave(scope: Scope, token: str) -> None:
    """The source says that it was moved; if this is still the move that it is in."""
    asked = scope.asked("moving it")
    with scope.database.writing(asked) as connection:
        _lock(connection, scope)
        this_move = moves.c.campaign == scope.campaign, moves.c.token == token, moves.c.state.in_((MOVING, MOVED))
        changed = connection.execute(update(moves).where(*this_move).values(state=MOVED, at=stamp(now()))).rowcount
        if changed != 1:
            raise StoreUnavailable(asked, "this move was taken back meanwhile", "Begin again")


def arrive(scope: Scope, token: str) -> None:
    """The target takes charges from now on. For who has made the source say that it was moved."""
    with scope.database.writing(scope.asked("moving it")) as connection:
        _lock(connection, scope)
        connection.execute(
            delete(moves).where(moves.c.campaign == scope.campaign, moves.c.token == token, moves.c.state == ARRIVING)
        )


def forget_steps(asked: str, directory: Path, other: Path) -> None:
    """Keys and checkpoints of a step that is under way are from now on in ``other`` alone, the directory of the
    campaign in another store; features are computed again there. Nothing happens if both stores have one directory.
    """
    if directory.resolve() == other.resolve():
        return
    with disk_refusals(asked):
        for path in sorted(directory.rglob("*")):
            if path.is_file() and path.relative_to(directory).parts[0].startswith(OF_STEPS):
                destroy(path)


def abandon(source: Scope, target: Scope | None, *, directory: Path | None = None) -> bool:
    """Take back a move that was cut off and remove what had arrived, with keys of a step in ``directory``, the
    campaign's own in the target; whether there was anything to take back. What was moved stays so.

    The target is emptied before the source is in use again: who dies in between finds the move where it was, and takes
    it back again, or finishes it. What an abandoned move left in the target all the same is removed, too.
    """
    asked = source.asked("taking back its move")
    with source.database.writing(asked) as connection:
        _lock(connection, source)
        mark = mark_of(connection, source.campaign)
        if mark is not None and mark.state != MOVING:
            raise StoreUnavailable(asked, *NOT_HERE[mark.state])
        arrived = None if target is None else _mark_at(target)
        ours = arrived is not None and arrived.state == ARRIVING and (mark is None or mark.token == arrived.token)
        if mark is None and not ours:
            return False
        if directory is not None and (ours or target is None):  # keys first: what is emptied is not looked at again
            forget_steps(asked, directory, source.directory)
        if target is not None and arrived is not None and ours:
            _remove(target, arrived)
        connection.execute(delete(moves).where(moves.c.campaign == source.campaign))
    if target is not None and not ours:
        raise BadInput(
            target.asked("removing what had arrived"),
            "it did not come by this move",
            "The move is taken back; leave that one alone",
        )
    return True


def _mark_at(scope: Scope) -> Mark | None:
    with scope.reading("looking for its move") as connection:
        return mark_of(connection, scope.campaign)


def _remove(target: Scope, arrived: Mark) -> None:
    asked = target.asked("removing what had arrived")
    with target.database.writing(asked) as connection:
        _lock(connection, target)
        if mark_of(connection, target.campaign) != arrived:
            raise StoreUnavailable(asked, "it changed at this moment", "Try again")
        for table in reversed(METADATA.sorted_tables):
            if "campaign" in table.c:
                connection.execute(delete(table).where(table.c.campaign == target.campaign))
        connection.execute(delete(campaigns).where(campaigns.c.number == target.campaign))


def _lock(connection: Connection, scope: Scope) -> None:
    row = select(campaigns.c.number).where(campaigns.c.number == scope.campaign)
    connection.execute(row.with_for_update())


NOT_COPIED = {"moves", "file_pieces", "sessions"}
"""Tables of a campaign that stay: states of a store's own, contents that go with their files, browsers that log in
again.
"""
_ROWS = 1000
_STAYING = ("objects", "locks", cached_rows.DIRECTORY)
"""Directories of a store's own, and what is computed again."""
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
    if not store.shared and not target.shared and source.path == target.path:
        raise BadInput(f"copying {name!r}", "both stores are the same one", "Name another one")
    with store.exclusive("working"):
        arrival = _arrival(target, store)
        before = _mark_at(store)
        was_moved = before is not None and before.state == MOVED
        if not backup and arrival is not None and arrival[1].state == _IN_USE and was_moved:
            # to its end: what is in the target now, for it may have gone on
            forget_steps(store.asked("removing keys of a step"), store.directory, arrival[0].directory)
            copied = _compared(store, arrival[0], _digests_of(arrival[0]), backup=False)
            return replace(copied, moved_before=True)
        _check_keys(store)
        if backup:
            if arrival is not None and arrival[1].state == BACKUP:
                return _backed_up_before(store, arrival[0])
            if arrival is not None:
                raise _exists(name)
            arrived, read = _stored(store, target, Mark(state=BACKUP, token=store.id), backup=True)
            return _compared(store, arrived, read, backup=True)
        if arrival is not None and arrival[1].state != ARRIVING:
            raise _exists(name)
        mark = begin(store)
        if arrival is not None and arrival[1].token != mark.token:
            raise CampaignExists(
                f"copying {name!r}",
                "another move of it to this store was cut off",
                "Finish that one, or take another store",
            )
        if arrival is None and mark.state == MOVED:
            raise BadInput(f"copying {name!r}", "it was moved to another store before", "Copy it from there")
        if arrival is None:
            arrived, read = _stored(store, target, Mark(state=ARRIVING, token=mark.token), backup=False)
        else:
            arrived, read = arrival[0], _digests_of(store)
            if mark.state == MOVING:  # taking it back may have begun, too
                with disk_refusals(f"copying {name!r}"):
                    _copy_directory(store.directory, arrived.directory, backup=False)
                    _carry_mark(store, arrived.mark)
        copied = _compared(store, arrived, read, backup=False)
        leave(store, mark.token)
        forget_steps(store.asked("removing keys of a step"), store.directory, arrived.directory)
        if store.mark.exists() and store.mark.resolve() != arrived.mark.resolve():
            # a backup of the source from before the move must not be charged: its mark says that it was moved
            with disk_refusals(store.asked("moving it")), HighWaterMark(store.mark).held() as source_mark:
                source_mark.retire()
        arrive(arrived, mark.token)
    return copied


def _backed_up_before(store: CampaignStore, arrived: Scope) -> Copied:
    """Of a backup that is there: whole by itself, and of this campaign as it is, or was."""
    now, then = _digests_of(store), _digests_of(arrived)
    lines = _ledger(arrived)
    if _ledger(store)[: len(lines)] != lines:
        raise InvalidStore(
            f"copying {store.name!r}", "the ledger of the backup is not the beginning of its own", "Take another store"
        )
    return replace(_compared(store, arrived, then, backup=True), made_before=True, behind=now != then)


def abandon_move(source: Storage, target: Storage | None, name: str) -> bool:
    """Take back a move that was cut off; whether there was one."""
    store = source.load(name)
    with store.exclusive("working"):
        if target is None:
            return abandon(store, None)
        arrival = _arrival(target, store)
        arrived = arrival[0] if arrival is not None and arrival[1].state else None
        return abandon(store, arrived, directory=target.directory_of(store.id))


def _exists(name: str) -> CampaignExists:
    return CampaignExists(
        f"copying {name!r}", "the other store has a campaign of this name or origin", "Copy into another store"
    )


def _check_keys(store: CampaignStore) -> None:
    keys = [path for path in store.directory.glob("*.key") if path.name != row_macs.KEY]
    if not store.simulation and store.pool_cohorts() and not keys:
        raise BadInput(
            f"copying {store.name!r}",
            "the keys it was created with are not in its directory on this host",
            "Copy it on the host that has them; without them nobody can go on with it",
        )


def _arrival(target: Storage, store: CampaignStore) -> tuple[Scope, Mark] | None:
    """Where the campaign is in the target, and its state there; "": another one of its name is."""
    with target.database.reading("copying a campaign") as connection:
        same = (campaigns.c.name == store.name) | (campaigns.c.id == store.id)
        row = connection.execute(select(campaigns.c.number, campaigns.c.id).where(same)).first()
        if row is None:
            return None
        mark = mark_of(connection, row.number) or Mark(state=_IN_USE, token="")
    scope = target.scope_of(number=row.number, campaign_id=row.id, name=store.name, simulation=store.simulation)
    return scope, mark if row.id == store.id else Mark(state="", token="")


def _stored(store: CampaignStore, target: Storage, mark: Mark, *, backup: bool) -> tuple[Scope, Digests]:
    """Everything, in the directory of the target and in one transaction of it; and what was read, table by table."""
    asked, directory = f"copying {store.name!r}", target.directory_of(store.id)
    with disk_refusals(asked):
        make_private(directory)
        _copy_directory(store.directory, directory, backup=backup)
        if not backup:
            _carry_mark(store, target.mark_of(store.id))
    row = {"id": store.id, "name": store.name, "config": store.config_text, "simulation": store.simulation}
    paths: dict[str, Path] = {}
    with store.reading("copying it") as old, target.database.writing(asked) as new:
        if not store.simulation:
            target.database.dialect.check_durable(new, asked)
        created = old.scalar(select(campaigns.c.created).where(campaigns.c.id == store.id))
        number = insert_campaign(new, {**row, "created": created}, asked=asked)
        scope = target.scope_of(number=number, campaign_id=store.id, name=store.name, simulation=store.simulation)
        put_mark(new, number, mark)
        for table in _tables():
            for rows in chunks(_rows(old, table, store.campaign), _ROWS):
                new.execute(table.insert(), [{**row, "campaign": number} for row in rows])
        for file in store.files():
            paths[file.sha256] = store.file(file.kind, file.phase)
        for sha256, path in paths.items():
            write_object(directory / "objects", path, asked=asked)
            if target.shared:
                put_pieces(new, scope, sha256, directory / "objects" / sha256)
        read = _digests(old, store.campaign)
    return scope, read


def _carry_mark(store: CampaignStore, path: Path) -> None:
    """The high-water mark of the ledger goes along: no line that it counts can be missing in the copy unnoticed."""
    refused = store.sink().compared().refused
    if refused is not None:
        raise refused
    source, target = HighWaterMark(store.mark), HighWaterMark(path)
    position = source.read()
    if position is None or source.path.resolve() == target.path.resolve():
        return
    target.create(position)
    with target.held() as mark:  # what an abandoned move left may be older
        if mark.position.id != position.id:
            raise InvalidStore(
                f"copying {store.name!r}", f"{path.name} there is the mark of another ledger", "Remove that file"
            )
        mark.follow(position)


def _tables() -> list[Table]:
    return [table for table in METADATA.sorted_tables if "campaign" in table.c and table.name not in NOT_COPIED]


def _rows(connection: Connection, table: Table, campaign: int) -> Iterator[dict[str, Any]]:
    wanted = select(table).where(table.c.campaign == campaign).order_by(*table.primary_key.columns)
    for row in connection.execution_options(yield_per=_ROWS).execute(wanted).mappings():
        yield {name: value for name, value in row.items() if name != "campaign"}


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
    files_there = files.read(arrived)
    for file in files_there:
        files.path_of(arrived, file.kind, file.phase)
        if arrived.shared:
            check_pieces(arrived, file.sha256, asked=asked)
    total = hashlib.sha256(json.dumps({name: digest for name, (_, digest) in after.items()}, sort_keys=True).encode())
    return Copied(
        name=store.name,
        id=store.id,
        simulation=store.simulation,
        backup=backup,
        rows={name: count for name, (count, _) in after.items()},
        files=len(files_there),
        ledger_lines=len(lines),
        ledger_head=head,
        digest=total.hexdigest(),
    )


def _digests_of(scope: Scope) -> Digests:
    with scope.reading("comparing it") as connection:
        return _digests(connection, scope.campaign)


def _digests(connection: Connection, campaign: int) -> Digests:
    """Rows and hash of every table, in the order of its key; equal in every database."""
    digests = {}
    for table in _tables():
        digest, count = hashlib.sha256(), 0
        for row in _rows(connection, table, campaign):
            plain = {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}
            digest.update(json.dumps(plain, sort_keys=True).encode() + b"\n")
            count += 1
        digests[table.name] = count, digest.hexdigest()
    return digests


def _ledger(scope: Scope) -> list[bytes]:
    lines = select(lines_table.c.line).where(scope.rows(lines_table)).order_by(lines_table.c.position)
    return [row.line for row in scope.fetch("comparing it", lines)]


def _copy_directory(source: Path, target: Path, *, backup: bool) -> None:
    """Keys and checkpoints, for their owner alone; durable when it returns. Two stores may have one directory."""
    if source.resolve() == target.resolve():
        return
    for path in sorted(source.rglob("*")):
        inner = path.relative_to(source)
        if (
            inner.parts[0] in (*_STAYING, MARK)
            or not path.is_file()
            or (backup and inner.parts[0].startswith(OF_STEPS))
        ):
            continue
        copied = target / inner
        make_private(copied.parent)
        part = copied.with_name(f".{copied.name}.part")
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as copy, path.open("rb") as original:
            shutil.copyfileobj(original, copy)
            copy.flush()
            os.fsync(copy.fileno())
        part.rename(copied)
        sync_directory(copied.parent)
