"""What is in the files of a shared store: in the database, in pieces, so that every host finds it.

Guarantee: pieces are stored in the transaction in which a row comes to name their file, and go in the one in which none
does any more. A host has a copy under the file's hash, which is compared whenever it is asked for and fetched again if
it is missing or another. Keys are never among them: whoever reads the database must not be able to repeat a draw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, func, select

from discreet.errors import InvalidStore
from discreet.storage.objects import write_object
from discreet.storage.scope import Scope
from discreet.storage.tables import file_pieces as table
from discreet.storage.tables import files

PIECE = 1 << 20
"""Bytes."""


def put(connection: Connection, scope: Scope, sha256: str, path: Path) -> None:
    """Store what is in the file ``path``, which has that hash, unless it is there."""
    mine = scope.rows(table), table.c.sha256 == sha256
    if connection.scalar(select(func.count()).select_from(table).where(*mine)):
        return
    with path.open("rb") as file:
        number = 0
        while (piece := file.read(PIECE)) or not number:  # an empty file has one empty piece
            row = {"campaign": scope.campaign, "sha256": sha256, "number": number, "piece": piece}
            connection.execute(table.insert().values(**row))
            number += 1


def fetch(scope: Scope, sha256: str, directory: Path, *, asked: str) -> None:
    """Bring a file to this host."""
    with scope.reading("reading a file") as connection:
        found, _ = write_object(directory, _read(connection, scope, sha256), asked=asked)
    if found != sha256:
        (directory / found).unlink(missing_ok=True)
        raise _damaged(asked)


def check(scope: Scope, sha256: str, *, asked: str) -> None:
    """Compare what is in the database with the hash that names it."""
    digest = hashlib.sha256()
    with scope.reading("comparing a file") as connection:
        for piece in _read(connection, scope, sha256):
            digest.update(piece)
    if digest.hexdigest() != sha256:
        raise _damaged(asked)


def _damaged(asked: str) -> InvalidStore:
    return InvalidStore(asked, "the file in the database was changed, or is damaged", "Restore a copy of the database")


def _read(connection: Connection, scope: Scope, sha256: str) -> Iterator[bytes]:
    mine = scope.rows(table), table.c.sha256 == sha256
    count = connection.scalar(select(func.count()).select_from(table).where(*mine)) or 0
    for number in range(count):
        piece = connection.scalar(select(table.c.piece).where(*mine, table.c.number == number))
        yield b"" if piece is None else bytes(piece)


def sweep(connection: Connection, scope: Scope) -> None:
    """Delete the pieces of files that no row names."""
    named = select(files.c.sha256).where(scope.rows(files))
    connection.execute(table.delete().where(scope.rows(table), table.c.sha256.not_in(named)))
