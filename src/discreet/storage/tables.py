"""The tables of a campaign store, and how values are written in their columns.

Column types are explicit and portable; text is compared by its bytes everywhere (`Text`). Orders are columns
(`place`, `number`, `position`), never the order of rows. Times are UTC in ISO form, JSON is text. Audience of every
table: owner.

Migrations
----------
Named steps, in order, each once, make a database's tables.

Guarantee: an older database is brought up to date in one transaction, so a crash leaves the old one or the new one. A
newer one, and one that is somebody else's, are refused before anything is written.

A step is never changed once it was released. Whoever adds the second one (`def m002_...(connection)`, at the end of
`MIGRATIONS`) changes the tables alike, gives the first step its own copy of the tables as they were, and adds a fixture
of the new schema (`tests/storage/make_fixture.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
    inspect,
    select,
)
from sqlalchemy import Text as AnyText

from discreet.errors import BadInput, InvalidStore
from discreet.records import Value

Text = AnyText().with_variant(AnyText(collation="C"), "postgresql")
"""Text that is compared and sorted by its bytes, as SQLite does: a locale of the server's must not decide which id
comes first, nor break an index when its library is replaced.
"""
_TYPES: Mapping[str, Any] = {
    "text": Text,
    "int": Integer,
    "long": BigInteger,
    "bytes": LargeBinary,
    "bool": Boolean,
}
ONE_TREE: dict[str, Any] = {"sqlite_with_rowid": False}
"""Of tables with a key of several columns: one tree instead of two, an eighth less on the disk. Others ignore it."""
METADATA = MetaData()


def columns_of(text: str) -> list[Column[Any]]:
    """Columns as they are declared: ``name:type``, and ``!`` in the primary key, ``*`` unique, ``?`` nullable."""
    return [
        Column(
            name,
            _TYPES[kind.rstrip("!*?")],
            primary_key=kind.endswith("!"),
            unique=kind.endswith("*") or None,
            nullable=kind.endswith("?"),
            autoincrement=False,
        )
        for name, _, kind in (declared.partition(":") for declared in text.split())
    ]


def _of_campaign(
    name: str, columns: str, *, unique: tuple[str, ...] = (), refers: tuple[str, str] | None = None
) -> Table:
    """A table of campaigns' rows. ``refers``: a column, and where in the campaign its values are."""
    campaign: Column[Any] = Column("campaign", Integer, ForeignKey("campaigns.number"), primary_key=True)
    constraints: list[Any] = [UniqueConstraint("campaign", *names.split()) for names in unique]
    if refers is not None:
        column, (table, _, named) = refers[0], refers[1].partition(".")
        constraints.append(ForeignKeyConstraint(["campaign", column], [f"{table}.campaign", f"{table}.{named}"]))
    return Table(name, METADATA, campaign, *columns_of(columns), *constraints, **ONE_TREE)


migrations = Table("migrations", METADATA, *columns_of("name:text! at:text"))
campaigns = Table(
    "campaigns",
    METADATA,
    Column("number", Integer, primary_key=True),
    *columns_of("id:text* name:text* config:text simulation:bool created:text"),
)
pool_cohorts = _of_campaign("pool_cohorts", "number:int! first_place:int size:int facts:text at:text")
records = _of_campaign("records", "place:int! id:text mac:bytes withdrawn:text?", unique=("id",))
_is_withdrawn = records.c.withdrawn.is_not(None)
Index(
    "records_withdrawn",  # few, and looked for at every click
    *(records.c.campaign, records.c.withdrawn),
    sqlite_where=_is_withdrawn,
    postgresql_where=_is_withdrawn,
)
transitions = _of_campaign("transitions", "number:int! kind:text phase:int facts:text at:text", unique=("kind phase",))
questions = _of_campaign(
    "questions",
    "id:text! record:text phase:int place:int above:bool? cohort:text?",
    unique=("phase place", "phase record"),
    refers=("record", "records.id"),
)
answers = _of_campaign(
    "answers",
    "question:text! number:int! annotator:text value:text given:text? told:text",
    refers=("question", "questions.id"),
)
exposures = _of_campaign(
    "exposures", "question:text! kind:text! audience:text! at:text", refers=("question", "questions.id")
)
files = _of_campaign("files", "kind:text! phase:int! sha256:text size:long at:text")
ledger_lines = _of_campaign("ledger_lines", "position:int! line:bytes")
ledger_marks = _of_campaign("ledger_marks", "mark:text lines:int")
"""The high-water mark of a campaign's ledger, which is a file outside of the database: its random id, and how many
lines it had when the last ones were added.
"""
file_pieces = _of_campaign("file_pieces", "sha256:text! number:int! piece:bytes")
"""What is in the files of a shared store; where a store is a file, they lie beside it."""
moves = _of_campaign("moves", "state:text token:text at:text")
"""Campaigns that are not in ordinary use: on their way to another store or from one, moved, copies to be read."""
commits = Table("commits", METADATA, *columns_of("session:text! token:text at:text"), **ONE_TREE)
"""The last transaction of every connection to a server, by a random token: what a COMMIT without an answer did."""
row_macs = _of_campaign("row_macs", "position:int! kind:text name:text nonce:bytes? leaf:bytes")
"""MACs of blocks of rows, in the order in which they were written (`discreet.storage.row_macs`)."""
row_mac_heads = _of_campaign("row_mac_heads", "position:int head:bytes key:text")
"""The MAC over all of a campaign's `row_macs`: how many there are, and under which key."""
users = _of_campaign("users", "name:text! role:text token:text? created:text", unique=("token",))
sessions = _of_campaign("sessions", "secret:text! person:text began:text seen:text", refers=("person", "users.name"))


Migration = Callable[[Connection], None]


def m001_tables(connection: Connection) -> None:
    """The first tables."""
    METADATA.create_all(connection, checkfirst=False)


MIGRATIONS: tuple[Migration, ...] = (m001_tables,)


def missing(connection: Connection, name: str) -> tuple[Migration, ...]:
    """The steps that a database lacks: all of them if it is empty. Raises `InvalidStore` if it is not ours."""
    names = inspect(connection).get_table_names()
    if not names:
        return MIGRATIONS
    if "migrations" not in names:
        raise InvalidStore(f"opening {name}", "it is a database of something else", "Choose another file")
    applied = sorted(map(str, connection.scalars(select(migrations.c.name))))  # a damaged one may be of any type
    known = [step.__name__ for step in MIGRATIONS]
    if applied != known[: len(applied)]:
        raise InvalidStore(
            f"opening {name}",
            f"its tables were made by another program or a newer one ({len(applied)} steps, {len(known)} known here)",
            "Use the version of discreet that wrote it, or a newer one",
        )
    return MIGRATIONS[len(applied) :]


def migrate(connection: Connection, name: str) -> None:
    """Take the missing steps, all in the transaction of ``connection``."""
    for step in missing(connection, name):
        step(connection)
        connection.execute(migrations.insert().values(name=step.__name__, at=stamp(now())))


# -- values in columns


MOST_BYTES = 1000
"""Of an id or a name: what any database can index."""

MOST = 2**31 - 1
"""Of a phase or a place: what any database calls an integer."""


def now() -> datetime:
    """The time, with its zone."""
    return datetime.now(UTC)


def stamp(at: datetime) -> str:
    """A time as it is stored: UTC, of one length, so that text sorts as time does."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise BadInput(
            "a time to store", "it has no time zone", "Give a datetime with tzinfo, such as datetime.now(UTC)"
        )
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment(text: str) -> datetime:
    """A stored time."""
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise changed("a time") from None


def canonical(value: Mapping[str, Any] | None, what: str) -> str:
    """Plain facts as text that is equal if and only if the facts are."""
    return to_json({} if value is None else value, what, ordered=True)


def to_json(value: Mapping[str, Any], what: str, *, ordered: bool = False) -> str:
    """Plain facts as they are stored, in the order they were given unless they are to be ``ordered``."""
    try:
        return json.dumps(dict(value), sort_keys=ordered, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise BadInput(what, "it is not plain JSON", "Use strings, finite numbers, lists and mappings") from None


def from_json(text: str) -> Any:
    """What `to_json` stored."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise changed("a fact") from None


def value_to_json(value: Value) -> str:
    """An answer's value: a class, several, or null for a skip."""
    several = isinstance(value, (tuple, list)) and all(isinstance(name, str) for name in value)
    if not (value is None or isinstance(value, str) or several):
        raise BadInput("storing answers", "a value is no class, tuple of classes or None", "Give strings")
    return json.dumps(value)


def value_from_json(text: str) -> Value:
    """What `value_to_json` stored."""
    value = from_json(text)
    if isinstance(value, list):
        return tuple(value)
    if value is None or isinstance(value, str):
        return value
    raise changed("an answer")


def unstorable(text: object, *, empty: bool = False) -> str | None:
    """Why some database could not store and index an id or a name, so that none has it; None: all can."""
    if not isinstance(text, str):
        return "it is not a string"
    if not text and not empty:
        return "it is empty"
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        return "it has characters that cannot be stored"
    if len(text.encode()) > MOST_BYTES:
        return f"it is longer than {MOST_BYTES} bytes"
    return None


def check_text(text: object, what: str, *, empty: bool = False) -> str:
    """An id or a name that every database can store and index."""
    if (fact := unstorable(text, empty=empty)) is not None:
        raise BadInput(what, fact, "Use another one")
    return str(text)


def check_number(number: object, what: str) -> int:
    """A phase or a place."""
    if type(number) is not int or not 0 <= number <= MOST:
        raise BadInput(what, "it is not a whole number from 0 on", "Count from 0")
    return number


def changed(what: str) -> InvalidStore:
    """Something was stored by another hand."""
    return InvalidStore("reading a campaign store", f"{what} in it is not in its stored form", "Restore a copy")
