"""Message authentication codes over a stream's journal, brought up to date by every transaction. Audience: owner.

Guarantee: whoever changes, adds, removes or swaps rows of the journal without the key is noticed by `differences`. The
codes say nothing without the key: a plain hash would confirm a guess of who was asked.

- Decisions are only ever added, so they are chained: blocks of `BLOCK` rows, each begun with the code of the last one.
- Rows that come and go (open questions, early labels, persons, published models) are added up: the sum of a keyed hash
  of each row, modulo 2^256, stored under a fresh mask, so that sums of two moments cannot be subtracted.
- The state and what the journal is for have a code each. One code covers all of these.

What it cannot notice: a journal that is put back whole as it was at an earlier moment. The marks file and the published
models show that (`discreet.stream`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

BLOCK = 1 << 16
_BITS = 256
SUMMED = {
    "questions": "number, id, vector",
    "early_labels": "id, label",
    "persons": "code, records",
    "published": "version, sha256",
}
"""Tables whose rows come and go, and their columns."""
_WHOLE = {"stream": "number, format, facts", "set_apart": "code"}
"""Tables that are written a few times: what the journal is for."""
_READ = 10_000


@dataclass(frozen=True)
class Tip:
    """What is covered so far."""

    places: int
    chain: bytes
    block: Any
    sums: Mapping[str, int]
    state: str
    facts: str


@dataclass
class Moves:
    """What a transaction changed: decisions that were added, rows by table, the state's row, what it is for."""

    decided: Sequence[tuple[int, str, int]] = ()
    added: dict[str, Sequence[Sequence[Any]]] = field(default_factory=dict)
    removed: dict[str, Sequence[Sequence[Any]]] = field(default_factory=dict)
    state: Sequence[Any] | None = None
    facts: bool = False


class JournalMac:
    """The codes of one journal under one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def read(self, connection: Connection) -> Tip | None:
        """What was stored last; None if nothing was, or if the state, the declaration or the newest decisions are not
        what this key stored. (`differences` compares everything.)
        """
        body = self._body(connection)
        if body is None:
            return None
        start = body["places"] - body["places"] % BLOCK
        chain = bytes.fromhex(body["chain"])
        tip = Tip(start, chain, self._block(chain), {}, body["state"], body["facts"])
        rows = connection.exec_driver_sql(
            "SELECT place, id, asked FROM records WHERE place > ? ORDER BY place", (start,)
        )
        tip = self._extended(tip, [tuple(row) for row in rows])
        newest = (tip.places, tip.block.hexdigest(), self._state(connection), self.facts(connection))
        if newest != (body["places"], body["head"], body["state"], body["facts"]):
            return None
        nonce = bytes.fromhex(body["nonce"])
        sums = {table: int(value, 16) ^ self._mask(nonce, table) for table, value in body["sums"].items()}
        return replace(tip, sums=sums)

    def computed(self, connection: Connection) -> Tip:
        """Of everything that is there, row by row."""
        chain = bytes(32)
        tip = Tip(0, chain, self._block(chain), dict.fromkeys(SUMMED, 0), "", "")
        decisions = connection.exec_driver_sql("SELECT place, id, asked FROM records ORDER BY place")
        while rows := decisions.fetchmany(_READ):
            tip = self._extended(tip, [tuple(row) for row in rows])
        sums = {
            table: self._sum(table, connection.exec_driver_sql(f"SELECT {columns} FROM {table}"))
            for table, columns in SUMMED.items()
        }
        return replace(tip, sums=sums, state=self._state(connection), facts=self.facts(connection))

    def moved(self, tip: Tip, moves: Moves, connection: Connection) -> Tip:
        """After a transaction that changed this much."""
        sums = dict(tip.sums)
        for sign, rows in ((1, moves.added), (-1, moves.removed)):
            for table, some in rows.items():
                sums[table] = (sums[table] + sign * self._sum(table, some)) % (1 << _BITS)
        state = tip.state if moves.state is None else self._row("state", moves.state)
        facts = self.facts(connection) if moves.facts else tip.facts
        return replace(self._extended(tip, moves.decided), sums=sums, state=state, facts=facts)

    def facts(self, connection: Connection) -> str:
        """The code of what the journal is for, whether it has ended, and which records were set apart."""
        code = self._hash(b"facts")
        for table, columns in _WHOLE.items():
            for row in connection.exec_driver_sql(f"SELECT {columns} FROM {table} ORDER BY 1"):
                code.update(_plain((table, *row)))
        return str(code.hexdigest())

    def store(self, connection: Connection, tip: Tip) -> None:
        """Under a fresh mask, in the transaction of what it covers."""
        nonce = os.urandom(16)
        body = json.dumps(
            {
                "places": tip.places,
                "chain": tip.chain.hex(),
                "head": tip.block.hexdigest(),
                "nonce": nonce.hex(),
                "sums": {table: f"{value ^ self._mask(nonce, table):064x}" for table, value in tip.sums.items()},
                "state": tip.state,
                "facts": tip.facts,
            },
            sort_keys=True,
        )
        connection.exec_driver_sql(
            "INSERT OR REPLACE INTO codes (number, body, mac) VALUES (1,?,?)", (body, self._code(body))
        )

    def differences(self, connection: Connection) -> list[str]:
        """Which parts of the journal are not what was stored."""
        body = self._body(connection)
        if body is None:
            return ["codes"]
        tip, nonce = self.computed(connection), bytes.fromhex(body["nonce"])
        records = (tip.places, tip.chain.hex(), tip.block.hexdigest())
        same = {
            "decisions": records == (body["places"], body["chain"], body["head"]),
            "state": tip.state == body["state"],
            "declaration": tip.facts == body["facts"],
        } | {
            table.replace("_", " "): f"{value ^ self._mask(nonce, table):064x}" == body["sums"].get(table)
            for table, value in tip.sums.items()
        }
        return [name for name, ok in same.items() if not ok]

    def _body(self, connection: Connection) -> dict[str, Any] | None:
        row = connection.exec_driver_sql("SELECT body, mac FROM codes WHERE number = 1").first()
        if row is None or not hmac.compare_digest(bytes(row[1]), self._code(str(row[0]))):
            return None
        return dict(json.loads(row[0]))

    def _extended(self, tip: Tip, rows: Sequence[tuple[int, str, int]]) -> Tip:
        places, chain, block = tip.places, tip.chain, tip.block.copy()
        done = 0
        while done < len(rows):
            part = rows[done : done + BLOCK - places % BLOCK]
            # ids are printable, so these characters part them
            block.update("".join([f"{number}\x1f{asked}\x1f{name}\x1e" for number, name, asked in part]).encode())
            places, done = places + len(part), done + len(part)
            if places % BLOCK == 0:
                chain = block.digest()
                block = self._block(chain)
        return replace(tip, places=places, chain=chain, block=block)

    def _state(self, connection: Connection) -> str:
        row = connection.exec_driver_sql("SELECT number, body, arrays FROM state").first()
        return "" if row is None else self._row("state", tuple(row))

    def _sum(self, table: str, rows: Iterable[Sequence[Any]]) -> int:
        return sum(int(self._row(table, row), 16) for row in rows) % (1 << _BITS)

    def _row(self, table: str, row: Sequence[Any]) -> str:
        return str(self._hash(b"row", _plain((table, *row))).hexdigest())

    def _block(self, chain: bytes) -> Any:
        return self._hash(b"decisions", chain)

    def _mask(self, nonce: bytes, table: str) -> int:
        return int.from_bytes(self._hash(b"mask", nonce + table.encode()).digest(), "big")

    def _code(self, body: str) -> bytes:
        return bytes(self._hash(b"codes", body.encode()).digest())

    def _hash(self, use: bytes, data: bytes = b"") -> Any:
        return hashlib.blake2b(data, key=self._key, digest_size=_BITS // 8, person=use)

    def __repr__(self) -> str:
        """Never the key."""
        return "JournalMac(...)"


def _plain(values: Iterable[Any]) -> bytes:
    """One text for each list of numbers, strings, bytes and nothings."""
    parts = []
    for value in values:
        raw = b"" if value is None else value if isinstance(value, bytes) else str(value).encode()
        parts.append(f"{type(value).__name__} {len(raw)} ".encode() + raw)
    return b"".join(parts)
