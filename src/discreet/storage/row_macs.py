"""MACs over a campaign's rows, written in the transaction that writes the rows. Audience: owner.

What is covered, in blocks (`discreet.noise.keys`): the campaign itself, its pool (records by the thousand), steps,
questions with cohorts and what was above a threshold, answers with their history, who was shown what, and which files
are kept. The ledger has a hash chain of its own; users and sessions are not part of any claim.

Guarantee: every verb that changes such rows calls `cover` in the same transaction, so no crash comes between rows and
MACs. Writers of one campaign come one after another (`Scope.writing`), on one host or several, so the chain never
forks.

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

from sqlalchemy import Connection, Select, Table, bindparam, select, update

from discreet.errors import BadInput, InvalidStore
from discreet.noise.keys import RowMacs, SecretKey
from discreet.storage import tables
from discreet.storage.database import AFTER, NAMED, Scope, chunks, of_campaign, steady
from discreet.storage.disk import disk_refusals
from discreet.storage.tables import row_mac_heads
from discreet.storage.tables import row_macs as entries

KEY, MARK = "rows.key", "rows.mark"
_PLACES = 1000
"""Of a pool that are one block: a pool of a million has a thousand MACs."""
_AT_ONCE = 200
_ROWS = 1000
_START = {"whole": True}
"""What the head of an empty list covers."""

State = Literal["covered", "no key", "lost key", "another key", "removed"]


@dataclass(frozen=True, kw_only=True)
class RowAudit:
    """What became of a campaign's rows. Audience: owner.

    state   covered; no key: this copy has none of the campaign's keys, so nothing was checked; lost key, another key,
            removed: the MACs cannot be checked, and should be
    wrong   kind and phase (None: of the pool or the whole campaign) of blocks that are not as they were written
    chain   whether the list of MACs is whole: nothing deleted, and every known head was its head once
    """

    state: State
    wrong: tuple[tuple[str, int | None], ...] = ()
    chain: bool = True


Stored = dict[str, Any]
"""A row, by column."""


@dataclass(frozen=True)
class _Kind:
    """Rows of one table, and how they make blocks.

    order    rows of a block follow one another in it
    name     of the block that a row is in
    within   the column that says which blocks a row may be in
    values   of that column, for a block: the first and the last
    """

    table: Table
    order: str
    name: Callable[[Stored], str]
    within: str
    values: Callable[[str], tuple[Any, Any]]
    campaign: str = "campaign"

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Those that are covered."""
        return tuple(column.name for column in self.table.c if column.name != self.campaign)

    @cached_property
    def all(self) -> Select[Any]:
        """Every row of a campaign."""
        columns = self.table.c
        rows = select(*(columns[name] for name in self.columns)).where(columns[self.campaign] == bindparam("campaign"))
        return rows.order_by(*(columns[name] for name in self.order.split()))

    @cached_property
    def named(self) -> Select[Any]:
        """Rows with some values; built once, because somebody waits for it."""
        return self.all.where(self.table.c[self.within].in_(NAMED))

    @cached_property
    def between(self) -> Select[Any]:
        """Rows with values from ``first`` to ``last``."""
        return self.all.where(self.table.c[self.within].between(bindparam("first"), bindparam("last")))


def _first_number(name: str) -> tuple[int, int]:
    number = int(name.split(" ", maxsplit=1)[0])
    return number, number


def _places(name: str) -> tuple[int, int]:
    return _PLACES * int(name), _PLACES * (int(name) + 1) - 1


def _question(row: Stored) -> str:
    return str(row["question"])


def _step(row: Stored) -> str:
    return f"{row['phase']} {row['kind']}"


CAMPAIGN, COHORTS, POOL, STEPS = "campaign", "pool cohorts", "pool", "steps"
QUESTIONS, ANSWERS, EXPOSURES, FILES = "questions", "answers", "exposures", "files"
_KINDS: Mapping[str, _Kind] = {
    CAMPAIGN: _Kind(tables.campaigns, "number", lambda _: "", "simulation", lambda _: (False, True), "number"),
    COHORTS: _Kind(tables.pool_cohorts, "number", lambda row: str(row["number"]), "number", _first_number),
    POOL: _Kind(tables.records, "place", lambda row: str(row["place"] // _PLACES), "place", _places),
    STEPS: _Kind(tables.transitions, "number", _step, "phase", _first_number),
    QUESTIONS: _Kind(tables.questions, "phase place", lambda row: str(row["phase"]), "phase", _first_number),
    ANSWERS: _Kind(tables.answers, "question number", _question, "question", lambda name: (name, name)),
    EXPOSURES: _Kind(tables.exposures, "question kind audience", _question, "question", lambda name: (name, name)),
    FILES: _Kind(tables.files, "phase kind", _step, "phase", _first_number),
}


def begin(connection: Connection, scope: Scope) -> None:
    """Cover a campaign from its first row on; in the transaction that creates it."""
    macs = RowMacs(_key(scope, make=True))
    head = macs.start(_START)
    row = {"campaign": scope.campaign, "position": 0, "head": head, "key": macs.fingerprint}
    connection.execute(row_mac_heads.insert(), row)
    _append(connection, scope, macs, (0, head), CAMPAIGN, [""])


def cover(connection: Connection, scope: Scope, kind: str, names: Iterable[object], *, forget: bool = False) -> None:
    """Cover some blocks as they are now. ``forget``: rows of them were erased, so what was there cannot be told."""
    blocks = sorted(set(map(str, names)))
    if not blocks:
        return
    state = _state(connection, scope)
    if state is None:
        raise InvalidStore(scope.asked("changing rows"), "the MACs of its rows were removed", "Restore a copy")
    macs = _checked(scope, state)
    if forget:
        for part in chunks(blocks, _AT_ONCE):
            covered = scope.rows(entries), entries.c.kind == kind, entries.c.name.in_(part)
            connection.execute(update(entries).where(*covered).values(nonce=None))
    _append(connection, scope, macs, (state.position, state.head), kind, blocks)


def places(numbers: Iterable[int]) -> set[int]:
    """Blocks of the records at these places."""
    return {number // _PLACES for number in numbers}


def _state(connection: Connection, scope: Scope) -> Any:
    """Position, head and key of the newest MAC; None: there is none."""
    return connection.execute(_HEAD, scope.values()).first()


_HEAD = select(row_mac_heads).where(of_campaign(row_mac_heads))


def _append(
    connection: Connection, scope: Scope, macs: RowMacs, tip: tuple[int, bytes], kind: str, blocks: Sequence[str]
) -> None:
    position, head = tip
    for part in chunks(blocks, _AT_ONCE):
        rows, added = _rows_of(connection, scope, kind, part), []
        for name in part:
            nonce = macs.nonce()
            leaf = macs.leaf((kind, name), rows.get(name, ()), nonce)
            head, position = macs.after(head, (kind, name), leaf), position + 1
            row = {"position": position, "kind": kind, "name": name, "nonce": nonce, "leaf": leaf}
            added.append({"campaign": scope.campaign, **row})
        connection.execute(entries.insert(), added)
    connection.execute(_MOVE, {"of_campaign": scope.campaign, "now_at": position, "now_head": head})
    if not scope.simulation:
        connection.info[AFTER] = lambda: _write_mark(scope.directory / MARK, head)


_MOVE = (
    update(row_mac_heads)
    .where(row_mac_heads.c.campaign == bindparam("of_campaign"))
    .values(position=bindparam("now_at"), head=bindparam("now_head"))
)


def _rows_of(connection: Connection, scope: Scope, kind: str, names: Sequence[str]) -> dict[str, list[Stored]]:
    """Rows of some blocks, and perhaps of others."""
    of, blocks = _KINDS[kind], dict[str, list[Stored]]()
    spans = [of.values(name) for name in names]
    if all(first == last for first, last in spans):
        results = [connection.execute(of.named, scope.values(names=sorted({first for first, _ in spans})))]
    else:
        results = [connection.execute(of.between, scope.values(first=first, last=last)) for first, last in spans]
    for result in results:
        for row in result:
            stored = dict(zip(of.columns, row, strict=True))
            blocks.setdefault(of.name(stored), []).append(stored)
    return blocks


def _write_mark(path: Path, head: bytes) -> None:
    """Remember the head outside of the database. Not synced: a mark that is behind, or lost with the power, only finds
    less; what it names was committed, so a store that never had this head was put back.
    """
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(file, head.hex().encode("ascii"), 0)  # one write of one length: another process's, or this one
        finally:
            os.close(file)


def _mark(scope: Scope) -> set[str]:
    try:
        head = (scope.directory / MARK).read_text(encoding="ascii", errors="replace")
    except OSError:
        return set()
    return {head} if re.fullmatch("[0-9a-f]{64}", head) else set()


def _key(scope: Scope, *, make: bool = False) -> SecretKey:
    if scope.simulation:
        return SecretKey(hashlib.sha256(f"discreet rows {scope.directory.name}".encode()).digest())
    path = scope.directory / KEY
    if make and not path.exists():
        with disk_refusals(scope.asked("making its key of rows")):
            SecretKey.fresh().write(path)
    try:
        stat = path.stat()
    except OSError:
        raise BadInput(f"reading {KEY}", "it cannot be opened", "Check the path") from None
    return _read(path, stat.st_mtime_ns, stat.st_ino, stat.st_mode)


@lru_cache(maxsize=64)
def _read(path: Path, *_: int) -> SecretKey:
    """Somebody waits for every answer; the file is read again when it is another."""
    return SecretKey.read(path)


def _checked(scope: Scope, state: Any) -> RowMacs:
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


@steady
def head_of(scope: Scope) -> str:
    """The MAC over everything that was stored so far, but for the ledger: keyed, so it says nothing of it."""
    with scope.reading("reading the MACs of rows") as connection:
        state = _state(connection, scope)
    if state is None:
        raise InvalidStore(scope.asked("reading the MACs of rows"), "there are none", "Restore a copy")
    return str(state.head.hex())


@steady
def audit(scope: Scope, *, heads: Collection[str] = ()) -> RowAudit:
    """Compare everything that is stored, but for the ledger, with the MACs that were written with it. ``heads``: kept
    elsewhere; each must have been the head of these rows once.
    """
    marked = _mark(scope)  # first: while this reads, others may write
    with scope.reading("verifying rows") as connection:
        state = _state(connection, scope)
        if state is None:
            return RowAudit(state="removed")
        try:
            macs = RowMacs(_key(scope))
        except BadInput:
            others = any(scope.directory.glob("*.key"))
            return RowAudit(state="lost key" if others else "no key")
        if macs.fingerprint != state.key:
            return RowAudit(state="another key")
        return _audited(connection, scope, macs, state, set(heads) | marked)


def _audited(connection: Connection, scope: Scope, macs: RowMacs, state: Any, known: set[str]) -> RowAudit:
    newest: dict[tuple[str, str], tuple[bytes, bytes | None]] = {}
    head, position = macs.start(_START), 0
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
    ordered = sorted(named, key=lambda block: (block[0], -1 if block[1] is None else block[1]))
    return RowAudit(state="covered", wrong=tuple(ordered), chain=chain)


def _blocks(connection: Connection, scope: Scope, kind: str) -> Iterator[tuple[str, list[Stored]]]:
    """Every block of a kind that has rows, one after another: a pool need not fit in memory."""
    of = _KINDS[kind]
    rows = connection.execution_options(yield_per=_ROWS).execute(of.all, scope.values())
    for name, block in groupby((dict(zip(of.columns, row, strict=True)) for row in rows), key=of.name):
        yield name, list(block)


def _phases(connection: Connection, scope: Scope, blocks: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The phase of a block, as far as the store still says it."""
    phases: dict[tuple[str, str], int] = {}
    for kind, name in blocks:
        if kind in (QUESTIONS, STEPS, FILES) and (number := name.split(" ")[0]).isdecimal():
            phases[kind, name] = int(number)
    questions = tables.questions
    for row in connection.execute(select(questions.c.id, questions.c.phase).where(scope.rows(questions))):
        for kind in (ANSWERS, EXPOSURES):
            phases[kind, row.id] = row.phase
    return phases
