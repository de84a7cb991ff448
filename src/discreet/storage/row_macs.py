"""MACs over a campaign's rows, written in the transaction that writes the rows. Audience: owner.

What is covered, in blocks (`discreet.noise.row_macs`): the campaign itself, its pool (records by the thousand), steps,
questions with cohorts and what was above a threshold, answers with their history, who was shown what, and which files
are kept. The ledger has a hash chain of its own; users and sessions are not part of any claim.

Guarantee: every verb that changes such rows calls `cover` in the same transaction, so no crash comes between rows and
MACs. Writers of one campaign come one after another (`Scope.writing`), on one host or several, so the chain never
forks. A campaign that is older than these MACs is covered, as it is found, by the first verb that changes it.

The key is `rows.key` in the campaign's directory, made with the campaign. A simulation has no secrets: its key follows
from its id, and its MACs find accidents alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Column, ColumnElement, Connection, Table, and_, bindparam, or_, select, update

from discreet.errors import BadInput, InvalidStore
from discreet.noise.keyed import SecretKey
from discreet.noise.row_macs import RowMacs
from discreet.storage import tables
from discreet.storage.disk import disk_refusals
from discreet.storage.scope import Scope, chunks, of_campaign, steady
from discreet.storage.tables import row_mac_heads as heads
from discreet.storage.tables import row_macs as entries

KEY = "rows.key"
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


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """Rows of one table, and how they make blocks. ``order``: rows of a block follow one another in it."""

    table: Table
    order: tuple[Column[Any], ...]
    name: Callable[[Any], str]
    these: Callable[[Sequence[str]], ColumnElement[bool]]
    campaign: str = "campaign"


def _named(column: Column[Any], plain: Callable[[str], Any] = str) -> Callable[[Sequence[str]], ColumnElement[bool]]:
    return lambda names: column.in_([plain(name) for name in names])


def _some_places(names: Sequence[str]) -> ColumnElement[bool]:
    place = tables.records.c.place
    return or_(*(place.between(_PLACES * int(name), _PLACES * (int(name) + 1) - 1) for name in names))


def in_phase(row: Any) -> str:
    """The block of a step or a file, which has a kind and a phase."""
    return f"{row.phase} {row.kind}"


def _in_phases(table: Table, names: Sequence[str]) -> ColumnElement[bool]:
    parts = [name.split(" ", 1) for name in names]
    return or_(*(and_(table.c.phase == int(phase), table.c.kind == kind) for phase, kind in parts))


CAMPAIGN, COHORTS, POOL, STEPS = "campaign", "pool cohorts", "pool", "steps"
QUESTIONS, ANSWERS, EXPOSURES, FILES = "questions", "answers", "exposures", "files"
_KINDS: Mapping[str, _Kind] = {
    CAMPAIGN: _Kind(
        table=tables.campaigns,
        order=(tables.campaigns.c.number,),
        name=lambda row: "",
        these=lambda names: tables.campaigns.c.number.is_not(None),
        campaign="number",
    ),
    COHORTS: _Kind(
        table=tables.pool_cohorts,
        order=(tables.pool_cohorts.c.number,),
        name=lambda row: str(row.number),
        these=_named(tables.pool_cohorts.c.number, int),
    ),
    POOL: _Kind(
        table=tables.records,
        order=(tables.records.c.place,),
        name=lambda row: str(row.place // _PLACES),
        these=_some_places,
    ),
    STEPS: _Kind(
        table=tables.transitions,
        order=(tables.transitions.c.number,),
        name=in_phase,
        these=lambda names: _in_phases(tables.transitions, names),
    ),
    QUESTIONS: _Kind(
        table=tables.questions,
        order=(tables.questions.c.phase, tables.questions.c.place),
        name=lambda row: str(row.phase),
        these=_named(tables.questions.c.phase, int),
    ),
    ANSWERS: _Kind(
        table=tables.answers,
        order=(tables.answers.c.question, tables.answers.c.number),
        name=lambda row: str(row.question),
        these=_named(tables.answers.c.question),
    ),
    EXPOSURES: _Kind(
        table=tables.exposures,
        order=(tables.exposures.c.question, tables.exposures.c.kind, tables.exposures.c.audience),
        name=lambda row: str(row.question),
        these=_named(tables.exposures.c.question),
    ),
    FILES: _Kind(
        table=tables.files,
        order=(tables.files.c.phase, tables.files.c.kind),
        name=in_phase,
        these=lambda names: _in_phases(tables.files, names),
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


_MOVE = (
    update(heads)
    .where(heads.c.campaign == bindparam("of_campaign"))
    .values(position=bindparam("now_at"), head=bindparam("now_head"))
)


def _rows_of(connection: Connection, scope: Scope, kind: str, names: Sequence[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    of = _KINDS[kind]
    mine = of.table.c[of.campaign] == scope.campaign
    for row in connection.execute(_select(kind).where(mine, of.these(names)).order_by(*of.order)):
        found.setdefault(of.name(row), []).append(row._mapping)
    return found


def _select(kind: str) -> Any:
    of = _KINDS[kind]
    return select(*(column for column in of.table.c if column.name != of.campaign))


def _everything(connection: Connection, scope: Scope) -> list[tuple[str, str]]:
    return [(kind, name) for kind in _KINDS for name, _ in _blocks(connection, scope, kind)]


def _forget(connection: Connection, scope: Scope, blocks: Iterable[tuple[str, str]]) -> None:
    for kind, part in groupby(blocks, key=lambda block: block[0]):
        for names in chunks((name for _, name in part), _AT_ONCE):
            old = scope.rows(entries), entries.c.kind == kind, entries.c.name.in_(names)
            connection.execute(update(entries).where(*old).values(nonce=None))


# -- the key


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
    with scope.reading("verifying rows") as connection:
        state = _State.read(connection, scope)
        if state is None:
            began = connection.execute(select(entries.c.position).where(scope.rows(entries)).limit(1)).first()
            gone = began is not None or (not scope.simulation and (scope.directory / KEY).exists())
            return RowAudit(state="removed" if gone else "uncovered")
        try:
            macs = RowMacs(_key(scope))
        except BadInput:
            others = any(scope.directory.glob("*.key"))
            return RowAudit(state="lost key" if others else "no key")
        if macs.fingerprint != state.key:
            return RowAudit(state="another key")
        return _audited(connection, scope, macs, state, set(known))


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


def _blocks(connection: Connection, scope: Scope, kind: str) -> Iterator[tuple[str, list[Any]]]:
    """Every block of a kind that has rows, one after another: a pool need not fit in memory."""
    of = _KINDS[kind]
    wanted = _select(kind).where(of.table.c[of.campaign] == scope.campaign).order_by(*of.order)
    rows = connection.execution_options(yield_per=_ROWS).execute(wanted)
    for name, block in groupby(rows, key=of.name):
        yield name, [row._mapping for row in block]


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
