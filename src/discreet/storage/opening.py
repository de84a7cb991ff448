"""Opening a store: a file that is made, brought up to date, or refused."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from discreet.errors import BadInput, CampaignExists, InvalidStore, NoSuchCampaign, StoreUnavailable
from discreet.privacy.ledger.file_sink import sync_directory
from discreet.storage import migrations
from discreet.storage.campaign_store import CampaignStore
from discreet.storage.database import Database
from discreet.storage.disk import disk_refusals, make_private
from discreet.storage.forms import check_text, moment, now, stamp, to_json
from discreet.storage.scope import Scope
from discreet.storage.tables import campaigns

_SCHEME = "sqlite:///"


def open_storage(url: str | Path, *, must_exist: bool = False, patience: float = 10.0) -> Storage:
    """The store at ``url``: "sqlite:///scan.db", "sqlite:////absolute/scan.db", or a path.

    It is made, for its owner alone, unless it ``must_exist``; an older one is brought up to date. A lock of another
    process is waited for ``patience`` seconds, then the verb that wants it raises `StoreUnavailable`.
    """
    path = _path_of(url)
    _check_place(path, must_exist=must_exist)
    database = Database(path, patience=patience)
    try:
        _bring_up_to_date(database, must_exist=must_exist)
    except BaseException:
        database.close()
        raise
    return Storage(database)


def _path_of(url: str | Path) -> Path:
    text = str(url)
    if text.startswith(_SCHEME):
        text = text[len(_SCHEME) :]
    if not text or "\0" in text or "://" in text or text.startswith((":memory:", "sqlite:")):
        raise BadInput(
            f"opening {text!r}",
            "a campaign is stored in an SQLite file, so that it outlives its process",
            'Give a path, or "sqlite:///scan.db"',
        )
    return Path(text).resolve()  # one store, one directory of files, whatever links lead to it


def _check_place(path: Path, *, must_exist: bool) -> None:
    asked = f"opening {path.name}"
    with disk_refusals(asked):
        if not path.parent.is_dir():
            raise BadInput(asked, "its directory does not exist", "Create the directory first")
        if path.exists() and not path.is_file():
            raise BadInput(asked, "it is not an ordinary file", "Name a file")
        if must_exist and not path.exists():
            raise BadInput(asked, "there is no such store", "Check the path, or create a campaign in it")
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            sync_directory(path.parent)
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreUnavailable(
            asked, "the file or its directory may not be written", "Give yourself the right to write both"
        )


def _bring_up_to_date(database: Database, *, must_exist: bool) -> None:
    name = database.path.name
    with database.reading(f"opening {name}") as connection:
        steps = migrations.missing(connection, name)
    if must_exist and len(steps) == len(migrations.MIGRATIONS):
        raise InvalidStore(f"opening {name}", "it is empty", "Check the path, or create a campaign in it")
    database.share()
    if steps:
        with database.writing(f"preparing {name}") as connection:
            migrations.migrate(connection, name)


class Storage:
    """Campaigns in one database. Usable by any number of threads and processes at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def path(self) -> Path:
        """Of the database."""
        return self._database.path

    def campaigns(self) -> list[str]:
        """Their names, sorted."""
        with self._database.reading("listing campaigns") as connection:
            return sorted(connection.scalars(select(campaigns.c.name)))

    def create(self, name: str, *, config: Mapping[str, Any], simulation: bool) -> CampaignStore:
        """A new campaign, with its directory."""
        row = {
            "id": secrets.token_hex(16),
            "name": check_text(name, "a campaign's name"),
            "config": to_json(config, "a campaign's configuration"),
            "simulation": bool(simulation),
            "created": stamp(now()),
        }
        asked, directory = f"creating campaign {name!r}", self._directory(str(row["id"]))
        with disk_refusals(asked):
            make_private(directory)
        try:
            self._insert(asked, row)
        except CampaignExists:
            directory.rmdir()
            raise
        return self.load(name)

    def _insert(self, asked: str, row: dict[str, Any]) -> None:
        with self._database.writing(asked) as connection:
            try:
                connection.execute(campaigns.insert().values(**row))
            except IntegrityError:
                raise CampaignExists(asked, "there is one of this name", "Load it, or choose another name") from None

    def load(self, name: str) -> CampaignStore:
        """A campaign that was created before."""
        asked = f"loading campaign {name!r}"
        with self._database.reading(asked) as connection:
            row = connection.execute(select(campaigns).where(campaigns.c.name == name)).first()
        if row is None:
            there = ", ".join(map(repr, self.campaigns())) or "none"
            raise NoSuchCampaign(asked, f"this store has {there}", "Check the name, or create it")
        directory = self._directory(row.id)
        if not directory.is_dir():
            raise InvalidStore(
                asked,
                f"its directory in {directory.parent.name} is missing",
                "Move or restore that directory together with the database",
            )
        return CampaignStore(
            name=row.name,
            id=row.id,
            simulation=row.simulation,
            created=moment(row.created),
            _config=row.config,
            _scope=Scope(database=self._database, campaign=row.number, name=row.name, directory=directory),
        )

    def _directory(self, campaign_id: str) -> Path:
        return self.path.with_name(f"{self.path.name}.files") / campaign_id

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Storage({self.path.name!r})"
