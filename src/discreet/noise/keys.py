"""Secret keys: keyed hashing (a PRF), key files, and message authentication codes over stored rows.

Shards: a pool is cut once by the keyed hash of each unit's id. Gates: each release has a key of its own, derived from
a master key and the very entry that paid for it, so that no key ever serves two releases
(docs/proofs/keyed-hashing.md).

Assumption: ids are unique, public and not derived from content; the master key stays secret. BLAKE2b, keyed.

Key files have mode 0600, are written whole or not at all, never over another, and never echoed in an error.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.coins import numerator
from discreet.noise.sources import RELEASE, Streams, paid_events, release
from discreet.privacy.budget import exact_sum
from discreet.privacy.events import PmfFamily, Pure, ReleaseGate
from discreet.privacy.files import create_whole, sync_directory
from discreet.privacy.ledger.receipts import Receipt


class SecretKey:
    """32 secret bytes. They never appear in a repr, an error or a log."""

    __slots__ = ("_bytes",)

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes) or len(secret) != 32:
            raise BadInput("a secret key", "it is not 32 bytes", "Use SecretKey.fresh()")
        self._bytes = secret

    @classmethod
    def fresh(cls) -> SecretKey:
        """A new key of the operating system's entropy."""
        return cls(os.urandom(32))

    @classmethod
    def read(cls, path: Path) -> SecretKey:
        """A key that `write` stored."""
        return cls(read_secret(path, "master")["key"])

    def write(self, path: Path) -> None:
        """Store the key, readable by its owner alone; an existing file is never overwritten."""
        write_secret(path, "master", key=self._bytes)

    @property
    def fingerprint(self) -> str:
        """Names the key without giving it away."""
        return hashlib.blake2b(b"", key=self._bytes, digest_size=8, person=b"fingerprint").hexdigest()

    def reveal(self) -> bytes:
        """The secret bytes, for a cipher, a hash or a key file. Never print or log them."""
        return self._bytes

    def derive(self, label: str) -> SecretKey:
        """Another key, for one purpose."""
        return SecretKey(hashlib.blake2b(label.encode(), key=self._bytes, digest_size=32, person=b"derive").digest())

    def code(self, data: bytes) -> bytes:
        """A message authentication code (MAC) of ``data``: 32 bytes. Derive a key for each use."""
        return hashlib.blake2b(data, key=self._bytes, digest_size=32, person=b"code").digest()

    def words(self, ids: Iterable[str], use: str = "words") -> NDArray[np.uint64]:
        """64 pseudorandom bits for every id, unrelated to those of any other ``use`` of the key."""
        person = use.encode()
        digests = [hashlib.blake2b(i.encode(), key=self._bytes, digest_size=8, person=person).digest() for i in ids]
        return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)

    def shards(self, ids: Iterable[str], shares: Sequence[Decimal]) -> NDArray[np.int64]:
        """Which shard (from 0) each id falls into; ``shares`` sum to exactly 1."""
        if not shares or exact_sum(shares) != 1 or min(shares) <= 0:
            raise BadInput("cutting into shards", "the shares are not positive with sum 1", "Give shares that sum to 1")
        sums = itertools.accumulate(shares[:-1], lambda total, share: exact_sum((total, share)))
        ends = [numerator(total, up=False) for total in sums]
        words = self.words(ids, "shards") >> np.uint64(1)
        return np.asarray(np.searchsorted(np.array(ends, dtype=np.uint64), words, "right"))

    def coins(self, ids: Iterable[str], probability: int) -> NDArray[np.bool_]:
        """A coin of ``probability`` (a numerator over 2^63) for every id."""
        return np.asarray((self.words(ids, "coins") >> np.uint64(1)) < np.uint64(probability))

    def __repr__(self) -> str:
        """Never the bytes."""
        return "SecretKey(...)"

    def __reduce_ex__(self, protocol: object) -> str:
        """Keys are written with `write`, to a sealed file, or not at all."""
        raise TypeError("a secret key is not pickled; use write()")


def release_key(receipt: Receipt, *, master: SecretKey | None = None, who: str | None = None) -> SecretKey:
    """The key of one release: PRF(master, entry), handed out once a receipt.

    Without a master key it is drawn from the ledger's source. Tossing the same coins for another batch would void the
    promise, so a second call is refused.
    """
    paid_events(receipt, (PmfFamily, Pure, ReleaseGate), "keyed", who)
    ticket = receipt.take(RELEASE, who)

    def sampler(streams: Streams) -> bytes:
        if master is None:
            return streams(0).words(4).tobytes()
        return master.derive(f"release/{ticket.ledger}/{ticket.entry.hash}/{ticket.who}/{ticket.index}").reveal()

    drawn = release(
        receipt,
        "release-key",
        sampler,
        inputs=None,
        measure="none",
        sensitivity=0.0,
        parameters={"master": "" if master is None else master.fingerprint},
        ticket=ticket,
    )
    return SecretKey(drawn)


# -- key files

FORMAT = "discreet.key/1"
_BLOCK = 1 << 20


def write_secret(path: Path, purpose: str, *, key: bytes, **public: Any) -> None:
    """Store a secret for ``purpose``; durable when it returns. Refuses to replace a file."""
    form = {"format": FORMAT, "purpose": purpose, "key": key.hex(), **public}
    if not create_whole(path, json.dumps(form, sort_keys=True).encode() + b"\n"):
        raise BadInput(f"writing {path.name}", "there is a key already", "Use it, or choose another place")


def read_secret(path: Path, purpose: str) -> dict[str, Any]:
    """The parts of a stored secret; ``key`` is bytes. Refuses a file that others may read."""
    try:
        if path.stat().st_mode & 0o077:
            raise BadInput(
                f"reading {path.name}", "others may read this key", f"Make it private: chmod 600 {path.name}"
            )
        form = json.loads(path.read_bytes())
        key = bytes.fromhex(form["key"])
        if form["format"] != FORMAT or form["purpose"] != purpose or len(key) != 32:
            raise KeyError
    except OSError:
        raise BadInput(f"reading {path.name}", "it cannot be opened", "Check the path") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"reading {path.name}", f"it is not a {purpose} key of ours", "Restore the file") from None
    return {**form, "key": key}


def was_destroyed(path: Path) -> bool:
    """Whether a crash left an overwritten secret whose name was not yet removed."""
    return path.exists() and not path.read_bytes().strip(b"\0")


def destroy(path: Path) -> None:
    """Overwrite a secret and remove it; durable when it returns. What is gone already stays gone."""
    if not path.exists():
        return
    size = path.stat().st_size
    with path.open("r+b") as file:
        for start in range(0, size, _BLOCK):
            file.write(b"\0" * min(_BLOCK, size - start))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
    sync_directory(path.absolute().parent)


# -- a key for the workers of a cluster


class CarriedKey:
    """A secret key that may be pickled, for the serialised functions of one cluster job and nowhere else.

    `SecretKey` refuses to be pickled, so that no key is stored by accident. Workers need the key of a release to toss
    its coins. Its repr never shows the key. The sender must keep it out of plans, settings and files: as part of a
    function it travels as the data does, and is as safe as the cluster's own traffic.
    """

    __slots__ = ("_bytes",)

    def __init__(self, key: SecretKey) -> None:
        self._bytes = key.reveal()

    def key(self) -> SecretKey:
        """The key, where it arrived."""
        return SecretKey(self._bytes)

    def __repr__(self) -> str:
        """Never the bytes."""
        return "CarriedKey(...)"

    def __reduce__(self) -> tuple[object, ...]:
        """The bytes, for the job's own serialiser."""
        return _arrived, (self._bytes,)


def _arrived(secret: bytes) -> CarriedKey:
    return CarriedKey(SecretKey(secret))


# -- message authentication codes over stored rows

Name = tuple[str, ...]
"""Of a block, such as ("answers", "q-17")."""
Row = Mapping[str, Any]
"""By column. A column without a value counts as one that is not there, so that a table can gain columns."""


class RowMacs:
    """Makes and checks the MACs of one list of blocks. ``key`` serves nothing else.

    Rows are covered in named blocks: the answers to one question, the questions of one phase, a batch of a journal.
    Each time a block changes, an entry is added to the end of a list: the block's name, a fresh random nonce, and
    the block's leaf, which is a MAC of nonce, name and rows. One head covers the list: a chain over all leaves in
    their order.

        leaf = MAC(leaf key, nonce, name, rows)          head = MAC(head key, head before, name, leaf)

    Guarantee: without the key, nobody can change, add, delete or move rows, or delete, reorder or shorten the list,
    so that the newest leaf of every block and the head still fit. An entry costs the same however long the list is.
    Rows can be erased: a new entry covers what is left, the nonces of the block's older entries are deleted, and
    their leaves stay for the chain. Leaves are keyed and have nonces, so they confirm no guess about rows, not even
    for two equal blocks.

    Not found: an older state of rows, list and head together, put back by somebody who kept a copy. Compare the
    head with one that was kept elsewhere. Audience of nonces, leaves and heads: owner; their number says how much
    was written.
    """

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
