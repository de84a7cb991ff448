"""The journal of a stream, and its keys.

The journal of a stream: decisions, open questions, and the state after them, durable together.

Guarantee. A decision is durable before it is shown, and so is the state that the next one depends on: they are one
transaction. A process that is killed leaves everything up to some batch, and nothing of the next. Coins and noise are
functions of a sealed key and of numbers (`discreet.noise.indexed_noise`), so a batch that was lost is decided again by
the same coins; nobody has seen the first time.

Which records it was lost with is written down *before* they are decided (`Marks`, keyed hashes only: a plain one would
confirm a guess): the same coins are not tossed for other records, unless the owner says that those are gone.

The key of a stream's journal: what the journal knows of records again, it knows by codes that need this key.

Marks of records that are being decided, persons, and records that were set apart for a preparation stand in files as
keyed hashes (BLAKE2b). A plain hash would confirm a guess: of records with few values, the record itself. Whoever has
the files and not the key learns which codes are the same, and nothing else.

The key is in a file of mode 0600 beside that of coins and noise, and ends with the stream: then nobody can test a guess
any more. Its fingerprint is in the journal; a key that is missing or another one is refused, because under a new one
every person would be new.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import InvalidStore, LedgerUnavailable
from discreet.noise.keys import SecretKey, read_secret, write_secret
from discreet.noise.stream import Floats
from discreet.storage.disk import disk_refusals
from discreet.storage.stream_store import StreamStore

_HEAD = 64


def pack(state: Any) -> tuple[Any, bytes]:
    """JSON values and numpy arrays as JSON and bytes; `unpack` gives them back to the bit."""
    parts: list[bytes] = []

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            content = np.ascontiguousarray(value)
            parts.append(content.tobytes())
            return {"array": [content.dtype.str, list(content.shape), len(parts) - 1, content.nbytes]}
        if isinstance(value, dict):
            return {"table": {key: plain(part) for key, part in value.items()}}
        if isinstance(value, (list, tuple)):
            return [plain(part) for part in value]
        return value

    return plain(state), b"".join(parts)


def unpack(body: Any, arrays: bytes) -> Any:
    """The inverse of `pack`."""
    position = 0

    def full(value: Any) -> Any:
        nonlocal position
        if isinstance(value, list):
            return [full(part) for part in value]
        if not isinstance(value, dict):
            return value
        if "table" in value:
            return {key: full(part) for key, part in value["table"].items()}
        kind, shape, _, size = value["array"]
        array = np.frombuffer(arrays[position : position + size], dtype=np.dtype(kind)).reshape(shape).copy()
        position += size
        return array

    try:
        return full(body)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise InvalidStore("reading a stream's state", "it is not in the form we write", "Restore a copy") from None


class Marks:
    """Keyed hashes of the records that are being decided: in a file, written before, so that a kill leaves them.

    The file survives the process; it is not synced, so after a power failure it may be older than the journal, and is
    passed over then.
    """

    def __init__(self, path: Path, *, decided: int) -> None:
        with disk_refusals("opening a stream's marks"):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            data = os.pread(self._file, os.fstat(self._file).st_size, 0)
        first, marks = _read(data)
        if first > decided + 1:
            os.close(self._file)
            raise InvalidStore(
                "going on with a stream",
                "its journal ends before what was being decided when it was stopped",
                "It is an old copy, whose coins were used since: restore the newest one, or begin a new stream",
            )
        self._lost = marks[decided + 1 - first :] if first else []

    @property
    def lost(self) -> int:
        """How many records were being decided when the process was killed, and have not come again."""
        return len(self._lost)

    def forget(self) -> None:
        """They will not come again. Nobody saw what was decided for them."""
        self._lost = []

    def write(self, first: int, marks: Sequence[bytes]) -> None:
        """These records are about to be decided, from place ``first`` on. Refuses others than those that were lost."""
        compared = min(len(marks), len(self._lost))
        if list(marks[:compared]) != self._lost[:compared]:
            raise LedgerUnavailable(
                "going on with a stream",
                f"it was stopped while {self.lost} records were decided, and others come now: the same coins would be "
                "tossed for them",
                "Send those records again, in their order; or, if they are gone, add --forget-lost: nobody has seen "
                "what was decided for them",
            )
        body = b"".join([*marks, *self._lost[compared:]])
        digest = hashlib.blake2b(body, digest_size=MARK_BYTES).hexdigest()
        view = memoryview(json.dumps([first, len(body), digest]).encode().ljust(_HEAD) + body)
        with disk_refusals("writing a stream's marks"):
            done = 0
            while done < len(view):  # a disk that is nearly full takes a part, and refuses the next
                done += os.pwrite(self._file, view[done:], done)

    def decided(self, count: int) -> None:
        """So many of them are durable."""
        self._lost = self._lost[count:]

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def _read(data: bytes) -> tuple[int, list[bytes]]:
    """The first place and the hashes; nothing, if a kill left the file half written."""
    try:
        first, size, digest = json.loads(data[:_HEAD])
        body = data[_HEAD : _HEAD + size]
    except (ValueError, TypeError):
        return 0, []
    if type(first) is not int or digest != hashlib.blake2b(body, digest_size=MARK_BYTES).hexdigest():
        return 0, []
    return first, [body[start : start + MARK_BYTES] for start in range(0, len(body), MARK_BYTES)]


MARK_BYTES, CODE_BYTES = 8, 16
_PURPOSE, _NOTE = "journal", "journal key"
_MAC_PURPOSE = "journal-mac"


class JournalKey(SecretKey):
    """The secret key by which the journal knows records and persons again."""

    __slots__ = ()

    def mark(self, identifier: str, vector: Floats) -> bytes:
        """A record as it is decided, in a few bytes."""
        text = identifier.encode() + b"\0" + vector.tobytes()
        return hashlib.blake2b(text, key=self.reveal(), digest_size=MARK_BYTES, person=b"mark").digest()

    def person(self, name: str) -> bytes:
        """A person."""
        return self._code(name, b"person")

    def set_apart(self, identifier: str) -> bytes:
        """A record that a preparation was made of."""
        return self._code(identifier, b"set apart")

    def _code(self, name: str, use: bytes) -> bytes:
        return hashlib.blake2b(name.encode(), key=self.reveal(), digest_size=CODE_BYTES, person=use).digest()


def journal_key(keys: Path, store: StreamStore, *, ledger: str, asked: str) -> JournalKey:
    """The key of a journal: the one it names, or a new one where it names none: it is new."""
    path, note = keys / f"journal-{ledger[:8]}.key", store.note(_NOTE)
    if path.exists():
        key = JournalKey(read_secret(path, _PURPOSE)["key"])
    elif note is None:
        key = JournalKey(os.urandom(32))
        write_secret(path, _PURPOSE, key=key.reveal())
    else:
        raise LedgerUnavailable(
            asked,
            "the key of its journal is missing: records and persons it knows would be new to it",
            f"Restore {keys.name} from a backup, or begin a new stream in another directory",
        )
    if note is None:
        store.keep_note(_NOTE, {"fingerprint": key.fingerprint})
    elif note != {"fingerprint": key.fingerprint}:
        raise LedgerUnavailable(asked, "the key of its journal is that of another one", f"Restore {keys.name}")
    return key


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
