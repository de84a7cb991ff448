"""What a stream remembers, in one SQLite file: which records came, who was asked, what is open, where the model stands.

Guarantee: `commit` stores decisions, open questions, labels and the state after them in one transaction, durable when
it returns: a process that is killed anywhere leaves the state before it or after it, never between. An id is decided
once; a second decision for it is refused by the table itself. Rows of answered questions are overwritten with zeros.
Persons and records that were set apart stand here by codes, which need a key.

The vectors of open questions are private. The file is its owner's alone (mode 0600).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, MetaData, Row, Select, Table, func, inspect, select

from discreet.errors import BadInput, InvalidStore
from discreet.privacy.files import sync_directory
from discreet.storage.database import CHUNK, Database, chunks
from discreet.storage.disk import disk_refusals
from discreet.storage.journal_mac import SUMMED, JournalMac, Moves, Tip
from discreet.storage.sqlite import ReadOnlySqlite, SqliteFile
from discreet.storage.tables import MOST_BYTES, ONE_TREE, columns_of, from_json, to_json

FORMAT = "discreet.stream-journal/1"
_CACHE = -(1 << 16)
"""Kibibytes of pages held in memory: ids of some million records are looked up without the disk."""
_LOG_PAGES = 1 << 13
"""Of the log beside the database, after which it is brought into the file: 32 MB, so that pages are gathered."""

_BEGUN = 1
_ENDED = (2, FORMAT, "{}")
_NOTES = {"journal key": 3, "preparation": 4}
"""Rows of the table that says what the journal is for, whether its stream has ended, and what else was fixed."""

METADATA = MetaData()
stream = Table("stream", METADATA, *columns_of("number:int! format:text facts:text"))
records = Table("records", METADATA, *columns_of("place:int! id:text* asked:int"))
questions = Table("questions", METADATA, *columns_of("number:int! id:text vector:bytes?"))
early_labels = Table("early_labels", METADATA, *columns_of("id:text! label:text?"), **ONE_TREE)
state = Table("state", METADATA, *columns_of("number:int! body:text arrays:bytes"))
persons = Table("persons", METADATA, *columns_of("code:bytes! records:int"), **ONE_TREE)
set_apart = Table("set_apart", METADATA, *columns_of("code:bytes!"), **ONE_TREE)
published = Table("published", METADATA, *columns_of("version:int! sha256:text"))
codes = Table("codes", METADATA, *columns_of("number:int! body:text mac:bytes"))


Decided = tuple[int, str, int]
"""place (from 1), id, asked (0 or 1)."""
Question = tuple[int, str, bytes | None]
"""number (from 0), id, the record as bytes (None: a null)."""


@dataclass(kw_only=True)
class Changes:
    """What one transaction stores: decisions in the order of their places, and what became of questions and labels.

    ``closed``: numbers of questions that were answered; below ``forgotten`` nobody waits for them any more. ``early``:
    labels that came before their records; ``used``: those whose records came. ``persons``: how many records of a person
    (by code) were looked at.
    """

    decided: list[Decided] = field(default_factory=list)
    opened: list[Question] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    forgotten: int = 0
    early: dict[str, str | None] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)
    persons: dict[bytes, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to store."""
        return bool(self.decided or self.closed or self.early)


class StreamStore:
    """The journal of one stream. One process writes it at a time; its caller holds the lock."""

    def __init__(self, path: Path, *, patience: float = 10.0, read_only: bool = False) -> None:
        """``read_only``: of a journal that is there; nothing is written to it or beside it."""
        self.path = path
        asked = self._asked("opening")
        with disk_refusals(asked):
            if path.exists() and not path.is_file():
                raise BadInput(asked, "it is not an ordinary file", "Choose another directory")
            if read_only and not path.exists():
                raise BadInput(asked, "there is no such journal", "Check the path")
            if not path.exists():
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                sync_directory(path.parent)
        self._mac: JournalMac | None = None
        self._tip: Tip | None = None
        self._database = Database(
            ReadOnlySqlite(path=path.resolve()) if read_only else SqliteFile(path=path), patience=patience
        )
        try:
            self._prepare(read_only=read_only)
        except BaseException:
            self._database.close()
            raise

    def _prepare(self, *, read_only: bool) -> None:
        with self._database.reading(self._asked("opening")) as connection:
            names = set(inspect(connection).get_table_names())
        wanted = {table.name for table in METADATA.sorted_tables}
        if names and names != wanted:
            raise InvalidStore(self._asked("opening"), "it is no journal of a stream", "Check the path")
        if read_only and not names:
            raise InvalidStore(self._asked("opening"), "it is empty", "Run discreet stream where it may be written")
        if read_only:
            return
        self._database.share()
        with self._database.reading(self._asked("opening")) as connection:
            connection.exec_driver_sql(f"PRAGMA cache_size = {_CACHE}")
            connection.exec_driver_sql(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        if not names:
            with self._database.writing(self._asked("making")) as connection:
                METADATA.create_all(connection)

    def protect(self, key: bytes) -> None:
        """From here on every transaction brings the journal's authentication codes up to date. Refuses a journal that
        is not what was stored under this key.
        """
        mac = JournalMac(key)
        with self._database.reading(self._asked("checking")) as connection:
            tip = mac.read(connection)
            new = connection.execute(select(codes.c.number)).first() is None
        if tip is None and (not new or self.last_place()):
            raise InvalidStore(
                self._asked("opening"),
                "its content is not what was stored, or the key of its codes is that of another journal",
                "Restore the newest copies of the journal and of its keys, or begin a new stream in another directory",
            )
        if tip is None:
            with self._database.writing(self._asked("checking")) as connection:
                tip = mac.computed(connection)
                mac.store(connection, tip)
        self._mac, self._tip = mac, tip

    def differences(self, key: bytes) -> list[str]:
        """Parts of the journal that are not what was stored under this key. Reads every row."""
        with self._database.reading(self._asked("checking")) as connection:
            if connection.exec_driver_sql("PRAGMA integrity_check").scalar() != "ok":
                return ["database"]
            return JournalMac(key).differences(connection)

    @contextmanager
    def _writing(self, doing: str, *, facts: bool = False) -> Iterator[tuple[Connection, Moves]]:
        """One transaction, and in it the codes of what it changes."""
        moves, tip = Moves(facts=facts), None
        with self._database.writing(self._asked(doing)) as connection:
            yield connection, moves
            if self._mac is not None and self._tip is not None:
                tip = self._mac.moved(self._tip, moves, connection)
                self._mac.store(connection, tip)
        self._tip = tip

    # -- who it is

    def facts(self) -> dict[str, Any] | None:
        """What it was made for, or None as long as it is new."""
        rows = self._fetch(select(stream.c.format, stream.c.facts).where(stream.c.number == _BEGUN))
        if not rows:
            return None
        facts = from_json(rows[0].facts)
        if rows[0].format != FORMAT or not isinstance(facts, dict):
            raise InvalidStore(
                self._asked("reading"), "it was made by another version of this program", "Use that version"
            )
        return facts

    def _fetch(self, wanted: Select[Any]) -> Sequence[Row[Any]]:
        with self._database.reading(self._asked("reading")) as connection:
            return connection.execute(wanted).all()

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Say what it is made for, once; durable when it returns."""
        row = {"number": _BEGUN, "format": FORMAT, "facts": to_json(facts, "a stream's facts")}
        with self._writing("beginning", facts=True) as (connection, _):
            connection.execute(stream.insert().values(**row))

    def end(self) -> None:
        """No more will be decided; durable when it returns."""
        with self._writing("ending", facts=True) as (connection, _):
            _many(connection, "INSERT OR REPLACE INTO stream (number, format, facts) VALUES (?,?,?)", [_ENDED])

    def ended(self) -> bool:
        """Whether no more will be decided."""
        return bool(self._fetch(select(stream).where(stream.c.number == _ENDED[0])))

    def note(self, name: str) -> Any:
        """What was fixed under ``name``, or None."""
        rows = self._fetch(select(stream.c.facts).where(stream.c.number == _NOTES[name]))
        return from_json(rows[0].facts) if rows else None

    def keep_note(self, name: str, form: Mapping[str, Any], *, apart: Iterable[bytes] = ()) -> None:
        """Fix something once, with the codes of records that are set apart for it; durable when it returns."""
        row = {"number": _NOTES[name], "format": FORMAT, "facts": to_json(form, f"a stream's {name}")}
        with self._writing("writing", facts=True) as (connection, _):
            connection.execute(stream.insert().values(**row))
            _many(connection, "INSERT OR IGNORE INTO set_apart (code) VALUES (?)", [(code,) for code in apart])

    # -- what it knows

    def state(self) -> tuple[dict[str, Any], bytes] | None:
        """The state that was committed last."""
        rows = self._fetch(select(state.c.body, state.c.arrays))
        return (from_json(rows[0].body), bytes(rows[0].arrays)) if rows else None

    def decided(self, ids: Iterable[str]) -> dict[str, Decided]:
        """Decisions for those of ``ids`` that there are some for."""
        return {row[1]: row for row in self._rows("place, id, asked", "records", ids)}

    def persons(self, codes: Iterable[bytes]) -> dict[bytes, int]:
        """How many records of these persons were looked at; those of whom none was are left out."""
        return {bytes(row[0]): row[1] for row in self._rows("code, records", "persons", codes, by="code")}

    def set_apart(self, codes: Iterable[bytes]) -> set[bytes]:
        """Those of ``codes`` that are of records a preparation was made of."""
        return {bytes(row[0]) for row in self._rows("code", "set_apart", codes, by="code")}

    def open_questions(self) -> list[Question]:
        """Records that were asked and not answered, in the order of their numbers."""
        rows = self._fetch(select(questions).order_by(questions.c.number))
        return [(row.number, row.id, row.vector) for row in rows]

    def labels_before(self, ids: Iterable[str]) -> dict[str, str | None]:
        """Labels of those of ``ids`` whose labels came before their records."""
        return {row[0]: row[1] for row in self._rows("id, label", "early_labels", ids)}

    def _rows(self, columns: str, table: str, ids: Iterable[str | bytes], by: str = "id") -> list[Any]:
        with self._database.reading(self._asked("reading")) as connection:
            return _found(connection, table, by, ids, columns)

    def decisions_after(self, place: int, *, most: int) -> list[Decided]:
        """At most ``most`` decisions that follow ``place``, in their order."""
        wanted = select(records).where(records.c.place > place).order_by(records.c.place).limit(most)
        return [(row.place, row.id, row.asked) for row in self._fetch(wanted)]

    def last_place(self) -> int:
        """How many records were decided."""
        return int(self._fetch(select(func.max(records.c.place)))[0][0] or 0)

    # -- what it learns

    def commit(self, changes: Changes, body: Mapping[str, Any], arrays: bytes) -> None:
        """All of it, or nothing; durable when it returns."""
        row = (1, to_json(body, "a stream's state"), arrays)
        early, persons = list(changes.early.items()), list(changes.persons.items())
        with self._writing("writing") as (connection, moves):
            counted = _found(connection, "persons", "code", changes.persons)
            _many(connection, "INSERT INTO records (place, id, asked) VALUES (?,?,?)", changes.decided)
            _many(connection, "INSERT INTO questions (number, id, vector) VALUES (?,?,?)", changes.opened)
            _many(connection, "INSERT INTO early_labels (id, label) VALUES (?,?)", early)
            over = _found(connection, "questions", "number", changes.closed)
            over += _below(connection, changes.forgotten, besides={one[0] for one in over})
            used = _found(connection, "early_labels", "id", changes.used)
            _many(connection, "DELETE FROM questions WHERE number = ?", [one[:1] for one in over])
            _many(connection, "DELETE FROM early_labels WHERE id = ?", [(one,) for one in changes.used])
            _many(connection, "INSERT OR REPLACE INTO persons (code, records) VALUES (?,?)", persons)
            _many(connection, "INSERT OR REPLACE INTO state (number, body, arrays) VALUES (?,?,?)", [row])
            moves.decided, moves.state = changes.decided, row
            moves.added = {"questions": changes.opened, "early_labels": early, "persons": persons}
            moves.removed = {"questions": over, "early_labels": used, "persons": counted}

    def publish(self, version: int, sha256: str) -> None:
        """Fix the hash of a model before its file is written; durable when it returns. A version has one content."""
        with self._writing("writing") as (connection, moves):
            known = _found(connection, "published", "version", [version])
            if not known:
                row = (version, sha256)
                moves.added = {"published": [row]}
                _many(connection, "INSERT INTO published (version, sha256) VALUES (?,?)", [row])
            elif known != [(version, sha256)]:
                raise InvalidStore(
                    self._asked("publishing from"),
                    f"model {version} was published with other weights",
                    "Restore the newest copy of the journal, or begin a new stream in another directory",
                )

    def published(self) -> dict[int, str]:
        """The hash of every model that was published, by version."""
        return {row.version: row.sha256 for row in self._fetch(select(published))}

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def _asked(self, doing: str) -> str:
        return f"{doing} {self.path.name}"


def _many(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """By the driver itself: a layer between costs more than the rows."""
    if rows:
        connection.exec_driver_sql(statement, list(rows))


def _found(
    connection: Connection, table: str, by: str, values: Iterable[Any], columns: str | None = None
) -> list[tuple[Any, ...]]:
    """Rows of a table by a column; without ``columns``, as the codes cover them, where rows come and go."""
    columns, rows = columns or SUMMED[table], list[tuple[Any, ...]]()
    for chunk in chunks(values, CHUNK):
        marks = ",".join("?" * len(chunk))
        wanted = f"SELECT {columns} FROM {table} WHERE {by} IN ({marks})"
        rows += [tuple(row) for row in connection.exec_driver_sql(wanted, tuple(chunk))]
    return rows


def _below(connection: Connection, number: int, *, besides: Collection[int]) -> list[tuple[Any, ...]]:
    """Questions that nobody waits for any more."""
    if not number:
        return []
    rows = connection.exec_driver_sql(f"SELECT {SUMMED['questions']} FROM questions WHERE number < ?", (number,))
    return [tuple(row) for row in rows if row[0] not in besides]


def storable(identifier: str) -> bool:
    """Whether an id can be stored: some bytes of text, and not too many."""
    if not identifier or not identifier.isprintable():
        return False
    if identifier.isascii():
        return len(identifier) <= MOST_BYTES
    try:
        return len(identifier.encode()) <= MOST_BYTES
    except UnicodeEncodeError:  # half of a character
        return False
