"""Opening a store: a file or a database that is made, brought up to date, or refused.

A file is brought up to date by whoever opens it. A database is not: processes of the version before may be using it. So
that is a verb of its own, `upgrade_storage`, which is refused while anybody else is connected.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from discreet.errors import BadInput, CampaignExists, InvalidStore, NoSuchCampaign, StoreUnavailable
from discreet.privacy.files import sync_directory
from discreet.storage import row_macs, tables
from discreet.storage.campaign_store import CampaignStore
from discreet.storage.database import ARRIVING, NOT_HERE, Database, Scope
from discreet.storage.disk import disk_refusals, make_private
from discreet.storage.files import tidy_copies
from discreet.storage.postgres import SCHEMES, PostgresDatabase, database_at
from discreet.storage.sqlite import ReadOnlySqlite, SqliteFile
from discreet.storage.tables import campaigns, check_text, moment, moves, now, stamp, to_json

MARK = "ledger.mark"
"""The file of a ledger's high-water mark, in the directory of its campaign."""
_SCHEME = "sqlite:///"
_CREATE = "Check the path, or create a campaign in it: discreet init FILE"


def open_storage(
    url: str | Path,
    *,
    directory: Path | str | None = None,
    mark: Path | str | None = None,
    must_exist: bool = False,
    read_only: bool = False,
    patience: float = 10.0,
) -> Storage:
    """The store at ``url``: "sqlite:///scan.db", "sqlite:////absolute/scan.db", a path, or
    "postgresql://ROLE@HOST/DATABASE".

    It is made, for its owner alone, unless it ``must_exist``; an older file is brought up to date. A lock of another
    process, and a server that does not answer, are waited for ``patience`` seconds, then the verb that wants it raises
    `StoreUnavailable`. ``directory``: of a database's campaigns on this host, for keys, checkpoints and copies of
    files; DATABASE.files where the process runs, if it is not said. Beside a file its place is fixed. ``mark``: the
    directory for the high-water marks of ledgers, which exists; hosts that share a store name the same one. Else each
    is in its campaign's directory.

    ``read_only``: the store must exist and be up to date; nothing is written to it or beside it, so that a read-only
    directory or a full disk will do.
    """
    must_exist = must_exist or read_only
    dialect = _dialect_of(url, directory, must_exist=must_exist, read_only=read_only)
    database = Database(replace(dialect, marks=_place_of_marks(mark)), patience=patience)
    try:
        _bring_up_to_date(database, must_exist=must_exist, read_only=read_only)
    except BaseException:
        database.close()
        raise
    return Storage(database, read_only=read_only)


def upgrade_storage(url: str | Path, *, patience: float = 10.0) -> list[str]:
    """Bring a store up to date; the names of the steps that were taken. Refused while others use a database."""
    dialect = _dialect_of(url, None, must_exist=True)
    if isinstance(dialect, PostgresDatabase):
        dialect = replace(dialect, upgrading=True)
    database = Database(dialect, patience=patience)
    try:
        with database.reading(f"opening {dialect.name}") as connection:
            steps = tables.missing(connection, dialect.name)
        if len(steps) == len(tables.MIGRATIONS):
            raise InvalidStore(f"upgrading {dialect.name}", "it is empty", "Check the address")
        if steps:
            with database.writing(f"upgrading {dialect.name}") as connection:
                tables.migrate(connection, dialect.name)
        return [step.__name__ for step in steps]
    finally:
        database.close()


def _place_of_marks(mark: Path | str | None) -> Path | None:
    if mark is not None and not Path(mark).is_dir():
        raise BadInput(
            "the directory for the marks of ledgers",
            f"{Path(mark).name} is not a directory that is there",
            "Create or mount it; all hosts that share the store use the same one",
        )
    return None if mark is None else Path(mark).resolve()


def _dialect_of(
    url: str | Path, directory: Path | str | None, *, must_exist: bool, read_only: bool = False
) -> SqliteFile | PostgresDatabase:
    if str(url).startswith(SCHEMES):
        return database_at(str(url), directory)
    if directory is not None:
        raise BadInput("opening a store", "a file has its directory beside it", "Leave the directory out")
    path = _path_of(url)
    _check_place(path, must_exist=must_exist, read_only=read_only)
    return ReadOnlySqlite(path=path) if read_only else SqliteFile(path=path)


def _path_of(url: str | Path) -> Path:
    text = str(url)
    if text.startswith(_SCHEME):
        text = text[len(_SCHEME) :]
    if not text or "\0" in text or "://" in text or text.startswith((":memory:", "sqlite:")):
        shown = f"an address of {text.partition('://')[0]!r}" if "://" in text else repr(text)  # it may have a password
        raise BadInput(
            f"opening {shown}",
            "a campaign is stored in an SQLite file or in PostgreSQL, so that it outlives its process",
            'Give a path, "sqlite:///scan.db", or "postgresql://ROLE@HOST/DATABASE"',
        )
    return Path(text).resolve()  # one store, one directory of files, whatever links lead to it


def _check_place(path: Path, *, must_exist: bool, read_only: bool) -> None:
    asked = f"opening {path.name}"
    with disk_refusals(asked):
        if not path.parent.is_dir():
            raise BadInput(asked, "its directory does not exist", "Create the directory first")
        if path.exists() and not path.is_file():
            raise BadInput(asked, "it is not an ordinary file", "Name a file")
        if must_exist and not path.exists():
            raise BadInput(asked, "there is no such store", _CREATE)
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            sync_directory(path.parent)
    if read_only and not os.access(path, os.R_OK):
        raise StoreUnavailable(asked, "the file may not be read", "Give yourself the right to read it")
    if read_only:
        return
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreUnavailable(
            asked, "the file or its directory may not be written", "Give yourself the right to write both"
        )


def _bring_up_to_date(database: Database, *, must_exist: bool, read_only: bool) -> None:
    name, shared = database.dialect.name, database.dialect.shared
    with database.reading(f"opening {name}") as connection:
        steps = tables.missing(connection, name)
    empty = len(steps) == len(tables.MIGRATIONS)
    if must_exist and empty:
        raise InvalidStore(f"opening {name}", "it is empty", _CREATE)
    if steps and not empty and (shared or read_only):
        raise InvalidStore(
            f"opening {name}",
            f"its tables are {len(steps)} steps behind this version",
            "Stop the processes that use it, then run discreet storage upgrade"
            + (" where it may be written" if read_only else ""),
        )
    if read_only:
        return
    database.share()
    if steps:
        with database.writing(f"preparing {name}") as connection:
            database.dialect.alone(connection)
            tables.migrate(connection, name)


def insert_campaign(connection: Connection, row: Mapping[str, Any], *, asked: str) -> int:
    """A new row of `tables.campaigns`; its number."""
    keys = connection.execute(campaigns.insert().values(**row)).inserted_primary_key
    if keys is None or keys[0] is None:
        raise InvalidStore(asked, "the database gave the campaign no number", "Report this")
    return int(keys[0])


class Storage:
    """Campaigns in one database. Usable by any number of threads and processes at once."""

    def __init__(self, database: Database, *, read_only: bool = False) -> None:
        self.database, self._read_only = database, read_only

    @property
    def path(self) -> Path:
        """Of the database's file."""
        dialect = self.database.dialect
        if not isinstance(dialect, SqliteFile):
            raise BadInput("the path of a store", "it is a database on a server", "Use its url")
        return dialect.path

    @property
    def url(self) -> str:
        """Where it is; without a password, which an address never has."""
        return self.database.dialect.url

    @property
    def home(self) -> Path:
        """The directory of this host for keys, checkpoints and files of its campaigns."""
        return self.database.dialect.home

    @property
    def marks(self) -> Path | None:
        """The directory for the high-water marks of ledgers; None: each is in its campaign's directory."""
        return self.database.dialect.marks

    @property
    def shared(self) -> bool:
        """Whether several hosts use it."""
        return self.database.dialect.shared

    def campaigns(self) -> list[str]:
        """Their names, sorted."""
        return [state["name"] for state in self.states()]

    def states(self) -> list[dict[str, Any]]:
        """Each campaign's name, whether it is a simulation, and its state: in use, moving, moved, arriving, backup."""
        wanted = select(campaigns.c.name, campaigns.c.simulation, moves.c.state).join(
            moves, moves.c.campaign == campaigns.c.number, isouter=True
        )

        def read() -> list[Any]:
            with self.database.reading("listing campaigns") as connection:
                return list(connection.execute(wanted))

        rows = self.database.steadily(read)
        return sorted(
            ({"name": str(row.name), "simulation": row.simulation, "state": row.state or "in use"} for row in rows),
            key=itemgetter("name"),
        )

    def create(self, name: str, *, config: Mapping[str, Any], simulation: bool) -> CampaignStore:
        """A new campaign, with its directory."""
        row = {
            "id": secrets.token_hex(16),
            "name": check_text(name, "a campaign's name"),
            "config": to_json(config, "a campaign's configuration"),
            "simulation": bool(simulation),
            "created": stamp(now()),
        }
        asked, directory = f"creating campaign {name!r}", self.directory_of(str(row["id"]))
        with disk_refusals(asked):
            make_private(directory)
        try:
            self.database.steadily(lambda: self._insert(asked, row))
        except CampaignExists:
            directory.rmdir()
            raise
        return self.load(name)

    def _insert(self, asked: str, row: dict[str, Any]) -> None:
        with self.database.writing(asked) as connection:
            if not row["simulation"]:
                self.database.dialect.check_durable(connection, asked)
            try:
                number = insert_campaign(connection, row, asked=asked)
            except IntegrityError:
                raise CampaignExists(asked, "there is one of this name", "Load it, or choose another name") from None
            row_macs.begin(
                connection,
                self.scope_of(number=number, campaign_id=row["id"], name=row["name"], simulation=row["simulation"]),
            )

    def load(self, name: str) -> CampaignStore:
        """A campaign that was created before."""
        asked = f"loading campaign {name!r}"
        row = self.database.steadily(lambda: self._row(asked, name))
        if row is None:
            names = ", ".join(map(repr, self.campaigns())) or "none"
            raise NoSuchCampaign(asked, f"this store has {names}", "Check the name, or create it: discreet init FILE")
        if row.state == ARRIVING:
            raise StoreUnavailable(asked, *NOT_HERE[ARRIVING])
        directory = self.directory_of(row.id)
        if self.database.dialect.shared:  # other hosts made it; keys are brought here by hand
            if not self._read_only:
                with disk_refusals(asked):
                    make_private(directory)
        elif not directory.is_dir():
            raise InvalidStore(
                asked,
                f"its directory in {directory.parent.name} is missing",
                "Move or restore that directory together with the database",
            )
        scope = self.scope_of(number=row.number, campaign_id=row.id, name=row.name, simulation=row.simulation)
        if scope.shared and not self._read_only:
            tidy_copies(scope)
        return CampaignStore(**vars(scope), id=row.id, created=moment(row.created), config_text=row.config)

    def _row(self, asked: str, name: str) -> Any:
        wanted = select(campaigns, moves.c.state).join(moves, moves.c.campaign == campaigns.c.number, isouter=True)
        with self.database.reading(asked) as connection:
            return connection.execute(wanted.where(campaigns.c.name == name)).first()

    def scope_of(self, *, number: int, campaign_id: str, name: str, simulation: bool) -> Scope:
        """Where the rows and files of a campaign are."""
        return Scope(
            database=self.database,
            campaign=number,
            name=name,
            directory=self.directory_of(campaign_id),
            mark=self.mark_of(campaign_id),
            simulation=simulation,
        )

    def directory_of(self, campaign_id: str) -> Path:
        """Of a campaign's files on this host."""
        return self.database.dialect.home / campaign_id

    def mark_of(self, campaign_id: str) -> Path:
        """Of the high-water mark of a campaign's ledger."""
        if self.marks is None:
            return self.directory_of(campaign_id) / MARK
        return self.marks / f"{campaign_id}.mark"

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Storage({self.database.dialect.name!r})"
