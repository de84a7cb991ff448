"""Which campaigns are not in ordinary use: on their way to another store, moved, or copies to be read.

    source   (in use) -> moving -> moved
    target   arriving -> (in use)             a backup: backup, for good

Guarantee: at no moment do two stores take charges for one campaign. The source takes nothing from before the first row
is copied; the target takes nothing before the source says, durably, that it was moved. A move that was cut off is
finished by the same move again, or taken back by `abandon` as long as the source does not say that it was moved. Both
sides of a move have one token; nobody ends another's move.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, delete, select, update

from discreet.errors import BadInput, StoreUnavailable
from discreet.noise.key_files import destroy
from discreet.storage.disk import disk_refusals
from discreet.storage.forms import now, stamp
from discreet.storage.scope import ARRIVING, MOVED, MOVING, NOT_HERE, Scope
from discreet.storage.tables import METADATA, campaigns
from discreet.storage.tables import moves as table

OF_STEPS = ("keys-", "checkpoints")
"""How the names of directories begin that are of a step under way."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The state of a campaign that is not in ordinary use."""

    state: str
    token: str


def mark_of(connection: Connection, number: int) -> Mark | None:
    """None: it is in use."""
    row = connection.execute(select(table.c.state, table.c.token).where(table.c.campaign == number)).first()
    return None if row is None else Mark(state=row.state, token=row.token)


def put_mark(connection: Connection, number: int, mark: Mark) -> None:
    """Of a campaign that has none."""
    row = {"campaign": number, "state": mark.state, "token": mark.token, "at": stamp(now())}
    connection.execute(table.insert().values(**row))


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
        mine = table.c.campaign == scope.campaign, table.c.token == token, table.c.state.in_((MOVING, MOVED))
        found = connection.execute(update(table).where(*mine).values(state=MOVED, at=stamp(now()))).rowcount
        if found != 1:
            raise StoreUnavailable(asked, "this move was taken back meanwhile", "Begin again")


def arrive(scope: Scope, token: str) -> None:
    """The target takes charges from now on. For who has made the source say that it was moved."""
    with scope.database.writing(scope.asked("moving it")) as connection:
        _lock(connection, scope)
        connection.execute(
            delete(table).where(table.c.campaign == scope.campaign, table.c.token == token, table.c.state == ARRIVING)
        )


def forget_steps(scope: Scope, other: Path) -> None:
    """Keys and checkpoints of a step that is under way are from now on in ``other`` alone, the directory of the
    campaign in another store. Nothing happens if both stores have one directory.
    """
    with disk_refusals(scope.asked("removing keys of a step")):
        _destroy_steps(scope.directory, other)


def _destroy_steps(here: Path, other: Path) -> None:
    if here.resolve() == other.resolve():
        return
    for path in sorted(here.rglob("*")):
        if path.is_file() and path.relative_to(here).parts[0].startswith(OF_STEPS):
            destroy(path)


def abandon(source: Scope, target: Scope | None, *, place: Path | None = None) -> bool:
    """Take back a move that was cut off and remove what had arrived, with keys of a step in ``place``, the campaign's
    directory there; whether there was anything to take back. What was moved stays so.

    The target is emptied before the source is in use again: who dies in between finds the move where it was, and takes
    it back again, or finishes it. What an abandoned move left in the target all the same is removed, too.
    """
    asked = source.asked("taking back its move")
    with source.database.writing(asked) as connection:
        _lock(connection, source)
        mark = mark_of(connection, source.campaign)
        if mark is not None and mark.state != MOVING:
            raise StoreUnavailable(asked, *NOT_HERE[mark.state])
        there = None if target is None else _mark_at(target)
        ours = there is not None and there.state == ARRIVING and (mark is None or mark.token == there.token)
        if mark is None and not ours:
            return False
        if place is not None and (ours or target is None):  # keys first: what is emptied is not looked at again
            with disk_refusals(asked):
                _destroy_steps(place, source.directory)
        if target is not None and there is not None and ours:
            _remove(target, there)
        connection.execute(delete(table).where(table.c.campaign == source.campaign))
    if target is not None and not ours:
        raise BadInput(
            target.asked("removing what had arrived"),
            "it did not come by this move",
            "The move is taken back; leave that one alone",
        )
    return True


def _mark_at(target: Scope) -> Mark | None:
    with target.reading("taking back its move") as connection:
        return mark_of(connection, target.campaign)


def _remove(target: Scope, there: Mark) -> None:
    asked = target.asked("removing what had arrived")
    with target.database.writing(asked) as connection:
        _lock(connection, target)
        if mark_of(connection, target.campaign) != there:
            raise StoreUnavailable(asked, "it changed at this moment", "Try again")
        for one in reversed(METADATA.sorted_tables):
            if "campaign" in one.c:
                connection.execute(delete(one).where(one.c.campaign == target.campaign))
        connection.execute(delete(campaigns).where(campaigns.c.number == target.campaign))


def _lock(connection: Connection, scope: Scope) -> None:
    mine = select(campaigns.c.number).where(campaigns.c.number == scope.campaign)
    connection.execute(mine.with_for_update())
