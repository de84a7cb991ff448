"""Keyed hashing (a PRF): the same secret coin for the same unit, wherever and whenever it is tossed.

Shards: a pool is cut once by the keyed hash of each unit's id. Gates: each release has a key of its own, derived from
a master key and the very entry that paid for it, so that no key ever serves two releases
(docs/proofs/keyed-hashing.md).

Assumption: ids are unique, public and not derived from content; the master key stays secret. BLAKE2b, keyed.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.noise.coins import numerator
from discreet.noise.door import RELEASE, paid_events, release
from discreet.noise.key_files import read_secret, write_secret
from discreet.noise.sources import Streams
from discreet.privacy.events import PmfFamily, Pure
from discreet.privacy.exact import exact_sum
from discreet.privacy.ledger.receipts import Receipt
from discreet.privacy.release_gate import ReleaseGate


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

    def derive(self, label: str) -> SecretKey:
        """Another key, for one purpose."""
        return SecretKey(hashlib.blake2b(label.encode(), key=self._bytes, digest_size=32, person=b"derive").digest())

    def code(self, data: bytes) -> bytes:
        """A message authentication code (MAC) of ``data``: 32 bytes. Derive a key for each use."""
        return hashlib.blake2b(data, key=self._bytes, digest_size=32, person=b"code").digest()

    def words(self, ids: Iterable[str], use: str = "words") -> NDArray[np.uint64]:
        """64 pseudorandom bits for every id, unrelated to those of any other ``use`` of the key."""
        person = use.encode()
        made = [hashlib.blake2b(i.encode(), key=self._bytes, digest_size=8, person=person).digest() for i in ids]
        return np.frombuffer(b"".join(made), dtype="<u8").astype(np.uint64)

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
        return master.derive(f"release/{ticket.ledger}/{ticket.entry.hash}/{ticket.who}/{ticket.index}")._bytes

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
