"""Which files a campaign has: a row for each kind and phase names one by its hash.

Guarantee: a file is on the disk before a row names it, and stays as long as one does; in a shared store, what is in it
is in the database, too (`pieces`), and the file is this host's copy. It is compared with its hash whenever it is asked
for. A kind of file is kept once in a phase; other content is refused, unless it is to replace it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, select

from discreet.errors import BadInput, InvalidStore, StoreUnavailable
from discreet.noise.key_files import destroy
from discreet.storage import pieces, row_macs
from discreet.storage.disk import disk_refusals
from discreet.storage.forms import changed, check_number, check_text, moment, now, stamp
from discreet.storage.objects import hash_of, leftovers, write_object
from discreet.storage.scope import Scope, steady
from discreet.storage.stored import KeptFile
from discreet.storage.tables import files


@steady
def keep(scope: Scope, kind: str, *, phase: int, data: bytes | Path, replace: bool) -> str:
    """Keep a file; the hash that names it."""
    check_text(kind, "a kind of file")
    check_number(phase, "the phase of a file")
    asked = scope.asked(f"keeping the {kind} of phase {phase}")
    sha256, size = write_object(_objects(scope), data, asked=asked)
    with scope.writing(f"keeping the {kind} of phase {phase}") as connection:
        if not (_objects(scope) / sha256).exists():  # nothing named it yet, and another process swept
            write_object(_objects(scope), data, asked=asked)
        if scope.shared:
            pieces.put(connection, scope, sha256, _objects(scope) / sha256)
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
    """Where a file is, unchanged."""
    asked = scope.asked(f"reading the {kind} of phase {phase}")
    with scope.reading(f"reading the {kind} of phase {phase}") as connection:
        sha256 = connection.scalar(select(files.c.sha256).where(*_is(scope, kind, phase)))
    if sha256 is None:
        raise BadInput(asked, "none is kept", "See files()")
    path: Path = _objects(scope) / sha256
    found = hash_of(path)
    if found != sha256 and scope.shared:
        pieces.fetch(scope, sha256, _objects(scope), asked=asked)
        found = hash_of(path)
    if found is None:
        raise InvalidStore(asked, "the file is gone", "Restore the directory beside the database")
    if found != sha256:
        raise InvalidStore(asked, "the file was changed or is damaged", "Restore the directory beside the database")
    return path


@steady
def read(scope: Scope, phase: int | None) -> list[KeptFile]:
    """All of them, or those of a phase."""
    wanted = select(files).where(scope.rows(files))
    if phase is not None:
        wanted = wanted.where(files.c.phase == check_number(phase, "a phase"))
    with scope.reading("reading the files") as connection:
        rows = connection.execute(wanted).all()
    if not all(isinstance(row.kind, str) and type(row.phase) is int for row in rows):
        raise changed("the name of a file")
    kept = [
        KeptFile(kind=row.kind, phase=row.phase, sha256=row.sha256, size=row.size, at=moment(row.at)) for row in rows
    ]
    return sorted(kept, key=lambda one: (one.phase, one.kind))


@steady
def sweep(scope: Scope, *, alone: bool = False) -> int:
    """Overwrite and remove what no row names: replaced files, and those of processes that died while they wrote.

    How many. Overwritten, because labels of records that were withdrawn may be in them.
    """
    with scope.writing("removing files") as connection, disk_refusals(scope.asked("removing files")):
        if scope.shared:
            pieces.sweep(connection, scope)
        spare = _unnamed(connection, scope, alone=alone)
        for path in spare:
            destroy(path)
    return len(spare)


@steady
def tidy_copies(scope: Scope) -> None:
    """Remove this host's copies of files that are named no more: other hosts replaced them."""
    with scope.reading("reading the files") as connection:
        named = set(connection.scalars(select(files.c.sha256).where(scope.rows(files))))
    if any(path.name not in named for path in _objects(scope).glob("[!.]*")):
        with suppress(StoreUnavailable):  # moved away, or somebody holds it; the next one who opens it does
            sweep(scope)


def _unnamed(connection: Connection, scope: Scope, *, alone: bool) -> list[Path]:
    """Nobody can come to name one of these meanwhile: `keep` looks for its file when it has the writer's turn."""
    named = set(connection.scalars(select(files.c.sha256).where(scope.rows(files))))
    whole = [path for path in _objects(scope).glob("[!.]*") if path.name not in named]
    return whole + leftovers(_objects(scope), asked=scope.asked("removing files"), alone=alone)


def _is(scope: Scope, kind: str, phase: int) -> tuple[ColumnElement[bool], ...]:
    return scope.rows(files), files.c.kind == kind, files.c.phase == phase


def _objects(scope: Scope) -> Path:
    return scope.directory / "objects"
