"""Message authentication codes (MACs) over stored rows: whoever has the owner's key finds every change.

Rows are covered in named blocks: the answers to one question, the questions of one phase, a batch of a journal. Each
time a block changes, an entry is added to the end of a list: the block's name, a fresh random nonce, and the block's
leaf, which is a MAC of nonce, name and rows. One head covers the list: a chain over all leaves in their order.

    leaf = MAC(leaf key, nonce, name, rows)          head = MAC(head key, head before, name, leaf)

Guarantee: without the key, nobody can change, add, delete or move rows, or delete, reorder or shorten the list, so that
the newest leaf of every block and the head still fit. An entry costs the same however long the list is. Rows can be
erased: a new entry covers what is left, the nonces of the block's older entries are deleted, and their leaves stay for
the chain. Leaves are keyed and have nonces, so they confirm no guess about rows, not even for two equal blocks.

Not found: an older state of rows, list and head together, put back by somebody who kept a copy. Compare the head with
one that was kept elsewhere. Audience of nonces, leaves and heads: owner; their number says how much was written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from discreet.noise.keyed import SecretKey

Name = tuple[str, ...]
"""Of a block, such as ("answers", "q-17")."""
Row = Mapping[str, Any]
"""By column. A column without a value counts as one that is not there, so that a table can gain columns."""


class RowMacs:
    """Makes and checks the MACs of one list of blocks. ``key`` serves nothing else."""

    def __init__(self, key: SecretKey) -> None:
        self.fingerprint = key.fingerprint
        self._leaves, self._heads = key.derive("row leaves"), key.derive("row heads")

    @staticmethod
    def nonce() -> bytes:
        """A fresh one, for one entry."""
        return os.urandom(16)

    def leaf(self, name: Name, rows: Iterable[Row], nonce: bytes) -> bytes:
        """Of a block that has these rows now, in this order; no rows: it is empty."""
        plain = [{column: value for column, value in row.items() if value is not None} for row in rows]
        return self._leaves.code(_joined(nonce, _text([name, plain])))

    def start(self, facts: Mapping[str, Any]) -> bytes:
        """The head of an empty list; ``facts`` are covered by every later head."""
        return self._heads.code(_joined(b"start", _text(facts)))

    def after(self, head: bytes, name: Name, leaf: bytes) -> bytes:
        """The head when an entry was added."""
        return self._heads.code(_joined(b"after", head, _text(name), leaf))


def _joined(*parts: bytes) -> bytes:
    """Parts of any length, so that no two lists of parts give the same bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": bytes(value).hex()}
    raise TypeError("a row holds what no column does")
