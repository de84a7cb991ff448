"""Which files a campaign has: a row for each kind and phase names one by its hash.

Guarantee: a file is on the disk before a row names it, and stays as long as one does; in a shared store, what is in it
is in the database, too in pieces, and the file is this host's copy. It is compared with its hash whenever it is asked
for. A kind of file is kept once in a phase; other content is refused, unless it is to replace it.

Pieces
------
What is in the files of a shared store: in the database, in pieces, so that every host finds it.

Guarantee: pieces are stored in the transaction in which a row comes to name their file, and go in the one in which none
does any more. A host has a copy under the file's hash, which is compared whenever it is asked for and fetched again if
it is missing or another. Keys are never among them: whoever reads the database must not be able to repeat a draw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, func, select

from discreet.errors import BadInput, InvalidStore, StoreUnavailable
from discreet.noise.keys import destroy
from discreet.storage import row_macs
from discreet.storage.database import Scope, steady
from discreet.storage.disk import disk_refusals, hash_of, leftovers, write_object
from discreet.storage.tables import changed, check_number, check_text, file_pieces, files, moment, now, stamp


@dataclass(frozen=True, kw_only=True)
class KeptFile:
    """A file that the store names by its hash."""

    kind: str
    phase: int
    sha256: str
    size: int
    at: datetime


@steady
def keep(scope: Scope, kind: str, *, phase: int, data: bytes | Path, replace: bool = False) -> str:
    """Keep bytes, or a copy of a file, as the ``kind`` of ``phase``; the SHA-256 that names it. Other content than
    before is `InvalidStore`, unless it is to ``replace`` that.
    """
    check_text(kind, "a kind of file")
    check_number(phase, "the phase of a file")
    asked = scope.asked(f"keeping the {kind} of phase {phase}")
    sha256, size = write_object(_objects(scope), data, asked=asked)
    with scope.writing(f"keeping the {kind} of phase {phase}") as connection:
        if not (_objects(scope) / sha256).exists():  # nothing named it yet, and another process swept
            write_object(_objects(scope), data, asked=asked)
        if scope.shared:
            put_pieces(connection, scope, sha256, _objects(scope) / sha256)
        before = connection.scalar(select(files.c.sha256).where(*_is(scope, kind, phase)))
        if before not in (None, sha256) and not replace:
            raise InvalidStore(asked, "another one is kept already", "Go on with that one, or replace it on purpose")
        if before != sha256:
            connection.execute(files.delete().where(*_is(scope, kind, phase)))
            row = {"kind": kind, "phase": phase, "sha256": sha256, "size": size, "at": stamp(now())}
            connection.execute(files.insert().values(campaign=scope.campaign, **row))
            row_macs.cover(connection, scope, row_macs.FILES, [f"{phase} {kind}"], forget=before is not None)
    if before not in (None, sha256):
        sweep(scope)
    return sha256


@steady
def path_of(scope: Scope, kind: str, phase: int) -> Path:
    """Where a kept file is; compared with its hash first."""
    asked = scope.asked(f"reading the {kind} of phase {phase}")
    with scope.reading(f"reading the {kind} of phase {phase}") as connection:
        sha256 = connection.scalar(select(files.c.sha256).where(*_is(scope, kind, phase)))
    if sha256 is None:
        raise BadInput(asked, "none is kept", "See files()")
    path: Path = _objects(scope) / sha256
    digest = hash_of(path)
    if digest != sha256 and scope.shared:
        fetch_pieces(scope, sha256, _objects(scope), asked=asked)
        digest = hash_of(path)
    if digest != sha256:
        fact = "the file is gone" if digest is None else "the file was changed or is damaged"
        raise InvalidStore(asked, fact, "Restore the directory beside the database")
    return path


@steady
def read(scope: Scope, phase: int | None = None) -> list[KeptFile]:
    """What is kept, by phase and kind."""
    wanted = select(files).where(scope.rows(files))
    if phase is not None:
        wanted = wanted.where(files.c.phase == check_number(phase, "a phase"))
    rows = scope.fetch("reading the files", wanted)
    if not all(isinstance(row.kind, str) and type(row.phase) is int for row in rows):
        raise changed("the name of a file")
    files_kept = [
        KeptFile(kind=row.kind, phase=row.phase, sha256=row.sha256, size=row.size, at=moment(row.at)) for row in rows
    ]
    return sorted(files_kept, key=lambda file: (file.phase, file.kind))


@steady
def sweep(scope: Scope, *, alone: bool = False) -> int:
    """Overwrite and remove what no row names: replaced files, and those of processes that died while they wrote.

    How many. ``alone``: nobody keeps a file meanwhile, so that also what was written a moment ago goes. Overwritten,
    because labels of records that were withdrawn may be in them.
    """
    with scope.writing("removing files") as connection, disk_refusals(scope.asked("removing files")):
        if scope.shared:
            sweep_pieces(connection, scope)
        # nobody can come to name one of these meanwhile: `keep` looks for its file when it has the writer's turn
        spare = _unnamed(connection, scope) + leftovers(
            _objects(scope), asked=scope.asked("removing files"), alone=alone
        )
        for path in spare:
            destroy(path)
    return len(spare)


@steady
def tidy_copies(scope: Scope) -> None:
    """Remove this host's copies of files that are named no more: other hosts replaced them."""
    with scope.reading("reading the files") as connection:
        spare = _unnamed(connection, scope)
    if spare:
        with suppress(StoreUnavailable):  # moved away, or somebody holds it; the next one who opens it does
            sweep(scope)


def _unnamed(connection: Connection, scope: Scope) -> list[Path]:
    """This host's files that no row names."""
    named = set(connection.scalars(select(files.c.sha256).where(scope.rows(files))))
    return [path for path in _objects(scope).glob("[!.]*") if path.name not in named]


def _is(scope: Scope, kind: str, phase: int) -> tuple[ColumnElement[bool], ...]:
    return scope.rows(files), files.c.kind == kind, files.c.phase == phase


def _objects(scope: Scope) -> Path:
    return scope.directory / "objects"


PIECE = 1 << 20
"""Bytes."""


def put_pieces(connection: Connection, scope: Scope, sha256: str, path: Path) -> None:
    """Store what is in the file ``path``, which has that hash, unless it is there."""
    of_file = scope.rows(file_pieces), file_pieces.c.sha256 == sha256
    if connection.scalar(select(func.count()).select_from(file_pieces).where(*of_file)):
        return
    with path.open("rb") as file:
        number = 0
        while (piece := file.read(PIECE)) or not number:  # an empty file has one empty piece
            row = {"campaign": scope.campaign, "sha256": sha256, "number": number, "piece": piece}
            connection.execute(file_pieces.insert().values(**row))
            number += 1


def fetch_pieces(scope: Scope, sha256: str, directory: Path, *, asked: str) -> None:
    """Bring a file to this host."""
    with scope.reading("reading a file") as connection:
        digest, _ = write_object(directory, _read_pieces(connection, scope, sha256), asked=asked)
    if digest != sha256:
        (directory / digest).unlink(missing_ok=True)
        raise _damaged(asked)


def check_pieces(scope: Scope, sha256: str, *, asked: str) -> None:
    """Compare what is in the database with the hash that names it."""
    digest = hashlib.sha256()
    with scope.reading("comparing a file") as connection:
        for piece in _read_pieces(connection, scope, sha256):
            digest.update(piece)
    if digest.hexdigest() != sha256:
        raise _damaged(asked)


def _damaged(asked: str) -> InvalidStore:
    return InvalidStore(asked, "the file in the database was changed, or is damaged", "Restore a copy of the database")


def _read_pieces(connection: Connection, scope: Scope, sha256: str) -> Iterator[bytes]:
    of_file = scope.rows(file_pieces), file_pieces.c.sha256 == sha256
    count = connection.scalar(select(func.count()).select_from(file_pieces).where(*of_file)) or 0
    for number in range(count):
        piece = connection.scalar(select(file_pieces.c.piece).where(*of_file, file_pieces.c.number == number))
        yield b"" if piece is None else bytes(piece)


def sweep_pieces(connection: Connection, scope: Scope) -> None:
    """Delete the pieces of files that no row names."""
    named = select(files.c.sha256).where(scope.rows(files))
    connection.execute(file_pieces.delete().where(scope.rows(file_pieces), file_pieces.c.sha256.not_in(named)))
