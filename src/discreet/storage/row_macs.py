"""MACs over a campaign's rows, written in the transaction that writes the rows. Audience: owner.

What is covered, in blocks (`discreet.noise.row_macs`): the campaign itself, its pool (records by the thousand), steps,
questions with cohorts and what was above a threshold, answers with their history, who was shown what, and which files
are kept. The ledger has a hash chain of its own; users and sessions are not part of any claim.

Guarantee: every verb that changes such rows calls `cover` in the same transaction, so no crash comes between rows and
MACs. Writers of one campaign come one after another (`Scope.writing`), on one host or several, so the chain never
forks. A campaign that is older than these MACs is covered, as it is found, by the first verb that changes it.

The key is `rows.key` in the campaign's directory, made with the campaign. A simulation has no secrets: its key follows
from its id, and its MACs find accidents alone. `rows.mark` beside it has the head of what this host last committed, so
that older rows which are put back with their MACs are found, too.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Column, Connection, Select, Table, bindparam, select, update

from discreet.errors import BadInput, InvalidStore
from discreet.noise.keyed import SecretKey
from discreet.noise.row_macs import RowMacs
from discreet.storage import tables
from discreet.storage.disk import disk_refusals
from discreet.storage.scope import AFTER, NAMED, Scope, chunks, of_campaign, steady
from discreet.storage.tables import row_mac_heads as heads
from discreet.storage.tables import row_macs as entries

KEY, MARK = "rows.key", "rows.mark"
_PLACES = 1000
"""Of a pool that are one block: a pool of a million has a thousand MACs."""
_AT_ONCE = 200
_ROWS = 1000

State = Literal["covered", "adopted", "uncovered", "no key", "lost key", "another key", "removed"]


@dataclass(frozen=True, kw_only=True)
class RowAudit:
    """What became of a campaign's rows. Audience: owner.

    state   covered, from the first row on; adopted: covered as they were found by the first change after an upgrade;
            uncovered: older than MACs, and not changed since; no key: this copy has none of the campaign's keys, so
            nothing was checked; lost key, another key, removed: the MACs cannot be checked, and should be
    wrong   kind and phase (None: of the pool or the whole campaign) of blocks that are not as they were written
    chain   whether the list of MACs is whole: nothing deleted, and every known head was its head once
    """

    state: State
    wrong: tuple[tuple[str, int | None], ...] = ()
    chain: bool = True


Stored = dict[str, Any]
"""A row, by column."""


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """Rows of one table, and how they make blocks.

    order    rows of a block follow one another in it
    within   the column that says which blocks a row may be in
    values   of that column, for a block: the first and the last
    """

    table: Table
    order: tuple[Column[Any], ...]
    name: Callable[[Stored], str]
    within: Column[Any]
    values: Callable[[str], tuple[Any, Any]]
    campaign: str = "campaign"

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Those that are covered."""
        return tuple(column.name for column in self.table.c if column.name != self.campaign)

    @cached_property
    def all(self) -> Select[Any]:
        """Every row of a campaign."""
        mine = self.table.c[self.campaign] == bindparam("campaign")
        return select(*(self.table.c[name] for name in self.columns)).where(mine).order_by(*self.order)

    @cached_property
    def named(self) -> Select[Any]:
        """Rows with some values; built once, because somebody waits for it."""
        return self.all.where(self.within.in_(NAMED))

    @cached_property
    def between(self) -> Select[Any]:
        """Rows with values from ``first`` to ``last``."""
        return self.all.where(self.within.between(bindparam("first"), bindparam("last")))


def _itself(name: str) -> tuple[str, str]:
    return name, name


def _phase(name: str) -> tuple[int, int]:
    number = int(name.split(" ", maxsplit=1)[0])
    return number, number


def _places(name: str) -> tuple[int, int]:
    return _PLACES * int(name), _PLACES * (int(name) + 1) - 1


CAMPAIGN, COHORTS, POOL, STEPS = "campaign", "pool cohorts", "pool", "steps"
QUESTIONS, ANSWERS, EXPOSURES, FILES = "questions", "answers", "exposures", "files"
_KINDS: Mapping[str, _Kind] = {
    CAMPAIGN: _Kind(
        table=tables.campaigns,
        order=(tables.campaigns.c.number,),
        name=lambda row: "",
        within=tables.campaigns.c.simulation,
        values=lambda name: (False, True),
        campaign="number",
    ),
    COHORTS: _Kind(
        table=tables.pool_cohorts,
        order=(tables.pool_cohorts.c.number,),
        name=lambda row: str(row["number"]),
        within=tables.pool_cohorts.c.number,
        values=_phase,
    ),
    POOL: _Kind(
        table=tables.records,
        order=(tables.records.c.place,),
        name=lambda row: str(row["place"] // _PLACES),
        within=tables.records.c.place,
        values=_places,
    ),
    STEPS: _Kind(
        table=tables.transitions,
        order=(tables.transitions.c.number,),
        name=lambda row: f"{row['phase']} {row['kind']}",
        within=tables.transitions.c.phase,
        values=_phase,
    ),
    QUESTIONS: _Kind(
        table=tables.questions,
        order=(tables.questions.c.phase, tables.questions.c.place),
        name=lambda row: str(row["phase"]),
        within=tables.questions.c.phase,
        values=_phase,
    ),
    ANSWERS: _Kind(
        table=tables.answers,
        order=(tables.answers.c.question, tables.answers.c.number),
        name=lambda row: str(row["question"]),
        within=tables.answers.c.question,
        values=_itself,
    ),
    EXPOSURES: _Kind(
        table=tables.exposures,
        order=(tables.exposures.c.question, tables.exposures.c.kind, tables.exposures.c.audience),
        name=lambda row: str(row["question"]),
        within=tables.exposures.c.question,
        values=_itself,
    ),
    FILES: _Kind(
        table=tables.files,
        order=(tables.files.c.phase, tables.files.c.kind),
        name=lambda row: f"{row['phase']} {row['kind']}",
        within=tables.files.c.phase,
        values=_phase,
    ),
}


# -- writing


def begin(connection: Connection, scope: Scope) -> None:
    """Cover a campaign from its first row on; in the transaction that creates it."""
    macs = RowMacs(_key(scope, make=True))
    _begin(connection, scope, macs, whole=True)
    _append(connection, scope, macs, _State.read(connection, scope), [(CAMPAIGN, "")])


def cover(connection: Connection, scope: Scope, kind: str, names: Iterable[object], *, forget: bool = False) -> None:
    """Cover some blocks as they are now. ``forget``: rows of them were erased, so what was there cannot be told."""
    blocks = [(kind, name) for name in sorted({str(name) for name in names})]
    if not blocks:
        return
    state = _State.read(connection, scope)
    if state is None:
        macs = RowMacs(_key(scope, make=True))
        _begin(connection, scope, macs, whole=False)
        state, blocks = _State.read(connection, scope), _everything(connection, scope)
    else:
        macs = _checked(scope, state)
    if forget:
        _forget(connection, scope, blocks)
    _append(connection, scope, macs, state, blocks)


def places(numbers: Iterable[int]) -> set[int]:
    """Blocks of the records at these places."""
    return {number // _PLACES for number in numbers}


@dataclass(frozen=True, kw_only=True)
class _State:
    position: int
    head: bytes
    key: str
    whole: bool

    @classmethod
    def read(cls, connection: Connection, scope: Scope) -> _State | None:
        row = connection.execute(_HEAD, scope.values()).first()
        return None if row is None else cls(position=row.position, head=row.head, key=row.key, whole=row.whole)


_HEAD = select(heads).where(of_campaign(heads))


def _begin(connection: Connection, scope: Scope, macs: RowMacs, *, whole: bool) -> None:
    row = {"position": 0, "head": macs.start({"whole": whole}), "key": macs.fingerprint, "whole": whole}
    connection.execute(heads.insert(), {"campaign": scope.campaign, **row})


def _append(
    connection: Connection, scope: Scope, macs: RowMacs, state: _State | None, blocks: Iterable[tuple[str, str]]
) -> None:
    assert state is not None  # `_begin` stored it
    head, position = state.head, state.position
    for kind, part in groupby(blocks, key=lambda block: block[0]):
        for names in chunks((name for _, name in part), _AT_ONCE):
            rows = _rows_of(connection, scope, kind, names)
            made = []
            for name in names:
                nonce = macs.nonce()
                leaf = macs.leaf((kind, name), rows.get(name, ()), nonce)
                head, position = macs.after(head, (kind, name), leaf), position + 1
                made.append({"position": position, "kind": kind, "name": name, "nonce": nonce, "leaf": leaf})
            connection.execute(entries.insert(), [{"campaign": scope.campaign, **row} for row in made])
    connection.execute(_MOVE, {"of_campaign": scope.campaign, "now_at": position, "now_head": head})
    if not scope.simulation:
        connection.info[AFTER] = lambda: _write_mark(scope.directory / MARK, head)


_MOVE = (
    update(heads)
    .where(heads.c.campaign == bindparam("of_campaign"))
    .values(position=bindparam("now_at"), head=bindparam("now_head"))
)


def _rows_of(connection: Connection, scope: Scope, kind: str, names: Sequence[str]) -> dict[str, list[Stored]]:
    """Rows of some blocks, and perhaps of others."""
    of, found = _KINDS[kind], dict[str, list[Stored]]()
    spans = [of.values(name) for name in names]
    if all(first == last for first, last in spans):
        results = [connection.execute(of.named, scope.values(names=sorted({first for first, _ in spans})))]
    else:
        results = [connection.execute(of.between, scope.values(first=first, last=last)) for first, last in spans]
    for result in results:
        for row in result:
            stored = dict(zip(of.columns, row, strict=True))
            found.setdefault(of.name(stored), []).append(stored)
    return found


def _everything(connection: Connection, scope: Scope) -> list[tuple[str, str]]:
    return [(kind, name) for kind in _KINDS for name, _ in _blocks(connection, scope, kind)]


def _forget(connection: Connection, scope: Scope, blocks: Iterable[tuple[str, str]]) -> None:
    for kind, part in groupby(blocks, key=lambda block: block[0]):
        for names in chunks((name for _, name in part), _AT_ONCE):
            old = scope.rows(entries), entries.c.kind == kind, entries.c.name.in_(names)
            connection.execute(update(entries).where(*old).values(nonce=None))


# -- the key, and the mark beside it


def _write_mark(place: Path, head: bytes) -> None:
    """Remember the head outside of the database. Not synced: a mark that is behind, or lost with the power, only finds
    less; what it names was committed, so a store that never had this head was put back.
    """
    with suppress(OSError):
        file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(file, head.hex().encode("ascii"), 0)  # one write of one length: another process's, or this one
        finally:
            os.close(file)


def _mark(scope: Scope) -> set[str]:
    try:
        found = (scope.directory / MARK).read_text(encoding="ascii", errors="replace")
    except OSError:
        return set()
    return {found} if re.fullmatch("[0-9a-f]{64}", found) else set()


def _key(scope: Scope, *, make: bool = False) -> SecretKey:
    if scope.simulation:
        return SecretKey(hashlib.sha256(f"discreet rows {scope.directory.name}".encode()).digest())
    place = scope.directory / KEY
    if make and not place.exists():
        with disk_refusals(scope.asked("making its key of rows")):
            SecretKey.fresh().write(place)
    try:
        found = place.stat()
    except OSError:
        raise BadInput(f"reading {KEY}", "it cannot be opened", "Check the path") from None
    return _read(place, found.st_mtime_ns, found.st_ino, found.st_mode)


@lru_cache(maxsize=64)
def _read(place: Path, *_: int) -> SecretKey:
    """Somebody waits for every answer; the file is read again when it is another."""
    return SecretKey.read(place)


def _checked(scope: Scope, state: _State) -> RowMacs:
    try:
        macs = RowMacs(_key(scope))
        fits = macs.fingerprint == state.key
    except BadInput:
        fits = False
    if not fits:
        raise InvalidStore(
            scope.asked("changing rows"),
            f"{KEY}, which its rows are authenticated with, is missing here or another",
            f"Bring {KEY} from the campaign's directory on the host that made it, or from a backup; nothing was stored",
        )
    return macs


# -- checking


@steady
def head_of(scope: Scope) -> str:
    """The head now; in hexadecimal digits."""
    with scope.reading("reading the MACs of rows") as connection:
        state = _State.read(connection, scope)
    if state is None:
        raise InvalidStore(scope.asked("reading the MACs of rows"), "there are none", "Restore a copy")
    return state.head.hex()


@steady
def audit(scope: Scope, known: Collection[str] = ()) -> RowAudit:
    """Compare every row with its MAC, and the chain with heads that are ``known`` from elsewhere."""
    marked = _mark(scope)  # first: while this reads, others may write
    with scope.reading("verifying rows") as connection:
        state = _State.read(connection, scope)
        if state is None:
            began = connection.execute(select(entries.c.position).where(scope.rows(entries)).limit(1)).first()
            gone = began is not None or bool(known) or (not scope.simulation and (scope.directory / KEY).exists())
            return RowAudit(state="removed" if gone else "uncovered")
        try:
            macs = RowMacs(_key(scope))
        except BadInput:
            others = any(scope.directory.glob("*.key"))
            return RowAudit(state="lost key" if others else "no key")
        if macs.fingerprint != state.key:
            return RowAudit(state="another key")
        return _audited(connection, scope, macs, state, set(known) | marked)


def _audited(connection: Connection, scope: Scope, macs: RowMacs, state: _State, known: set[str]) -> RowAudit:
    newest: dict[tuple[str, str], tuple[bytes, bytes | None]] = {}
    head, position = macs.start({"whole": state.whole}), 0
    wanted = select(entries).where(scope.rows(entries)).order_by(entries.c.position)
    for row in connection.execution_options(yield_per=_ROWS).execute(wanted):
        head, position = macs.after(head, (row.kind, row.name), row.leaf), position + 1
        newest[row.kind, row.name] = row.leaf, row.nonce
        known.discard(head.hex())
    chain = (head, position) == (state.head, state.position) and not known
    wrong: set[tuple[str, str]] = set()
    for kind in _KINDS:
        for name, rows in _blocks(connection, scope, kind):
            leaf, nonce = newest.pop((kind, name), (b"", None))
            if nonce is None or macs.leaf((kind, name), rows, nonce) != leaf:
                wrong.add((kind, name))
    for block, (leaf, nonce) in newest.items():  # no rows any more: covered as empty, or deleted
        if nonce is None or macs.leaf(block, (), nonce) != leaf:
            wrong.add(block)
    phases = _phases(connection, scope, wrong) if wrong else {}
    named = {(kind, phases.get((kind, name))) for kind, name in wrong}
    found = tuple(sorted(named, key=lambda one: (one[0], -1 if one[1] is None else one[1])))
    return RowAudit(state="covered" if state.whole else "adopted", wrong=found, chain=chain)


def _blocks(connection: Connection, scope: Scope, kind: str) -> Iterator[tuple[str, list[Stored]]]:
    """Every block of a kind that has rows, one after another: a pool need not fit in memory."""
    of = _KINDS[kind]
    rows = connection.execution_options(yield_per=_ROWS).execute(of.all, scope.values())
    for name, block in groupby((dict(zip(of.columns, row, strict=True)) for row in rows), key=of.name):
        yield name, list(block)


def _phases(connection: Connection, scope: Scope, blocks: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The phase of a block, as far as the store still says it."""
    found: dict[tuple[str, str], int] = {}
    for kind, name in blocks:
        if kind in (QUESTIONS, STEPS, FILES) and (number := name.split(" ")[0]).isdecimal():
            found[kind, name] = int(number)
    questions = tables.questions
    for row in connection.execute(select(questions.c.id, questions.c.phase).where(scope.rows(questions))):
        for kind in (ANSWERS, EXPOSURES):
            found[kind, row.id] = row.phase
    return found
