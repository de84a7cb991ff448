"""The key of a stream's journal: what the journal knows of records again, it knows by codes that need this key.

Marks of records that are being decided, persons, and records that were set apart for a preparation stand in files as
keyed hashes (BLAKE2b). A plain hash would confirm a guess: of records with few values, the record itself. Whoever has
the files and not the key learns which codes are the same, and nothing else.

The key is in a file of mode 0600 beside that of coins and noise, and ends with the stream: then nobody can test a guess
any more. Its fingerprint is in the journal; a key that is missing or another one is refused, because under a new one
every person would be new.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, LedgerUnavailable
from discreet.noise.key_files import read_secret, write_secret
from discreet.storage.stream_store import StreamStore

MARK_BYTES, CODE_BYTES = 8, 16
_PURPOSE, _NOTE = "journal", "journal key"
_MAC_PURPOSE = "journal-mac"


class JournalKey:
    """32 secret bytes. They never appear in a repr, an error or a log."""

    __slots__ = ("_bytes",)

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes) or len(secret) != 32:
            raise BadInput("the key of a journal", "it is not 32 bytes", "Use JournalKey.fresh()")
        self._bytes = secret

    @classmethod
    def fresh(cls) -> JournalKey:
        """A new key of the operating system's entropy."""
        return cls(os.urandom(32))

    @property
    def fingerprint(self) -> str:
        """Names the key without giving it away."""
        return hashlib.blake2b(b"", key=self._bytes, digest_size=8, person=b"fingerprint").hexdigest()

    def mark(self, identifier: str, vector: NDArray[np.float64]) -> bytes:
        """A record as it is decided, in a few bytes."""
        text = identifier.encode() + b"\0" + vector.tobytes()
        return hashlib.blake2b(text, key=self._bytes, digest_size=MARK_BYTES, person=b"mark").digest()

    def person(self, name: str) -> bytes:
        """A person."""
        return self._code(name, b"person")

    def set_apart(self, identifier: str) -> bytes:
        """A record that a preparation was made of."""
        return self._code(identifier, b"set apart")

    def _code(self, name: str, use: bytes) -> bytes:
        return hashlib.blake2b(name.encode(), key=self._bytes, digest_size=CODE_BYTES, person=use).digest()

    def __repr__(self) -> str:
        """Never the key."""
        return "JournalKey(...)"

    def __reduce_ex__(self, protocol: object) -> str:
        """It is in its file, or nowhere."""
        raise TypeError("the key of a journal is not pickled")


def journal_key(keys: Path, store: StreamStore, *, ledger: str, asked: str) -> JournalKey:
    """The key of a journal: the one it names, or a new one where it names none (it is new, or older than such keys)."""
    path, note = keys / f"journal-{ledger[:8]}.key", store.note(_NOTE)
    if path.exists():
        found = JournalKey(read_secret(path, _PURPOSE)["key"])
    elif note is None:
        found = JournalKey.fresh()
        write_secret(path, _PURPOSE, key=found._bytes)
    else:
        raise LedgerUnavailable(
            asked,
            "the key of its journal is missing: records and persons it knows would be new to it",
            f"Restore {keys.name} from a backup, or begin a new stream in another directory",
        )
    if note is None:
        store.keep_note(_NOTE, {"fingerprint": found.fingerprint})
    elif note != {"fingerprint": found.fingerprint}:
        raise LedgerUnavailable(asked, "the key of its journal is that of another one", f"Restore {keys.name}")
    return found


def mac_key(keys: Path, store: StreamStore, *, ledger: str, asked: str) -> bytes:
    """The key of the journal's authentication codes, made for a new journal.

    It outlives the stream, so that the journal can still be checked. It tests no guess of a person: those codes need
    the other key.
    """
    path = mac_key_path(keys, ledger)
    if not path.exists():
        if store.last_place():
            raise LedgerUnavailable(
                asked,
                "the key of its journal's authentication codes is missing: changes could not be noticed",
                f"Restore {keys.name} from a backup, or begin a new stream in another directory",
            )
        write_secret(path, _MAC_PURPOSE, key=os.urandom(32))
    return read_mac_key(path)


def mac_key_path(keys: Path, ledger: str) -> Path:
    """Where the key of the authentication codes is."""
    return keys / f"mac-{ledger[:8]}.key"


def read_mac_key(path: Path) -> bytes:
    """The key of the authentication codes."""
    return bytes(read_secret(path, _MAC_PURPOSE)["key"])
