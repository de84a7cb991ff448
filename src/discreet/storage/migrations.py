"""How a database came to have its tables: named steps, in order, each once.

Guarantee: an older database is brought up to date in one transaction, so a crash leaves the old one or the new one. A
newer one, and one that is somebody else's, are refused before anything is written.

A step is never changed once it was released, so it says its tables itself instead of reading `tables`, which is what
all steps together come to. The next one: `def m008_...(connection)`, added to `MIGRATIONS`, with `tables` changed
alike and a fixture of the schema before it (`tests/storage/make_fixture.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
    inspect,
    literal,
    select,
)
from sqlalchemy.schema import SchemaItem

from discreet.errors import InvalidStore
from discreet.storage import tables
from discreet.storage.column_types import Text
from discreet.storage.forms import now, stamp
from discreet.storage.sqlite import TABLE_OPTIONS
from discreet.storage.user_tables import m003_users

Migration = Callable[[Connection], None]


def m001_first_tables(connection: Connection) -> None:
    """Campaigns, their pools, transitions, questions, answers, files and ledgers."""
    made = MetaData()
    Table("migrations", made, _key("name", Text), _fact("at", Text))
    Table(
        "campaigns",
        made,
        Column("number", Integer, primary_key=True),
        Column("id", Text, nullable=False, unique=True),
        Column("name", Text, nullable=False, unique=True),
        _fact("config", Text),
        _fact("simulation", Boolean),
        _fact("created", Text),
    )

    def table(name: str, *items: SchemaItem) -> None:
        campaign = Column("campaign", Integer, ForeignKey("campaigns.number"), primary_key=True)
        Table(name, made, campaign, *items, **TABLE_OPTIONS)

    table(
        "pool_cohorts",
        *(_key("number", Integer), _fact("first_place", Integer), _fact("size", Integer)),
        *(_fact("facts", Text), _fact("at", Text)),
    )
    table(
        "records",
        *(_key("place", Integer), _fact("id", Text), _fact("mac", LargeBinary), Column("withdrawn", Text)),
        UniqueConstraint("campaign", "id"),
    )
    table(
        "transitions",
        *(_key("number", Integer), _fact("kind", Text), _fact("phase", Integer)),
        *(_fact("facts", Text), _fact("at", Text)),
        UniqueConstraint("campaign", "kind", "phase"),
    )
    table(
        "questions",
        *(_key("id", Text), _fact("record", Text), _fact("phase", Integer), _fact("place", Integer)),
        *(Column("above", Boolean), Column("cohort", Text)),
        UniqueConstraint("campaign", "phase", "place"),
        UniqueConstraint("campaign", "phase", "record"),
        ForeignKeyConstraint(["campaign", "record"], ["records.campaign", "records.id"]),
    )
    table(
        "answers",
        *(_key("question", Text), _key("number", Integer), _fact("annotator", Text), _fact("value", Text)),
        *(Column("given", Text), _fact("told", Text)),
        ForeignKeyConstraint(["campaign", "question"], ["questions.campaign", "questions.id"]),
    )
    table(
        "files",
        *(_key("kind", Text), _key("phase", Integer), _fact("sha256", Text)),
        *(_fact("size", BigInteger), _fact("at", Text)),
    )
    table("ledger_lines", _key("position", Integer), _fact("line", LargeBinary))
    made.create_all(connection)


def m002_exposures(connection: Connection) -> None:
    """Who was shown which question, and when."""
    made = MetaData()
    Table("campaigns", made, Column("number", Integer, primary_key=True))
    Table("questions", made, Column("campaign", Integer, primary_key=True), _key("id", Text))
    Table(
        "exposures",
        made,
        Column("campaign", Integer, ForeignKey("campaigns.number"), primary_key=True),
        *(_key("question", Text), _key("kind", Text), _key("audience", Text), _fact("at", Text)),
        ForeignKeyConstraint(["campaign", "question"], ["questions.campaign", "questions.id"]),
        **TABLE_OPTIONS,
    )
    made.tables["exposures"].create(connection)


def m004_shared_stores(connection: Connection) -> None:
    """What is in files, for stores that several hosts share; and which campaigns are not in ordinary use."""
    made = MetaData()
    Table("campaigns", made, Column("number", Integer, primary_key=True))
    for name, *columns in (
        ("file_pieces", _key("sha256", Text), _key("number", Integer), _fact("piece", LargeBinary)),
        ("moves", _fact("state", Text), _fact("token", Text), _fact("at", Text)),
    ):
        campaign = Column("campaign", Integer, ForeignKey("campaigns.number"), primary_key=True)
        Table(name, made, campaign, *columns, **TABLE_OPTIONS).create(connection)


def m005_commits(connection: Connection) -> None:
    """What a COMMIT without an answer did."""
    made = MetaData()
    Table("commits", made, _key("session", Text), _fact("token", Text), _fact("at", Text), **TABLE_OPTIONS)
    made.create_all(connection)


def m006_ledger_marks(connection: Connection) -> None:
    """Which high-water mark a campaign's ledger has; of ledgers that are there already, none before the next charge."""
    made = MetaData()
    Table("campaigns", made, Column("number", Integer, primary_key=True))
    lines = Table("ledger_lines", made, Column("campaign", Integer, primary_key=True), _key("position", Integer))
    campaign = Column("campaign", Integer, ForeignKey("campaigns.number"), primary_key=True)
    marks = Table("ledger_marks", made, campaign, _fact("mark", Text), _fact("lines", Integer), **TABLE_OPTIONS)
    marks.create(connection)
    begun = select(lines.c.campaign, literal(""), literal(0)).where(lines.c.position == 0)
    connection.execute(marks.insert().from_select(["campaign", "mark", "lines"], begun))


def m007_row_macs(connection: Connection) -> None:
    """MACs over the rows of campaigns, and the head that covers them."""
    made = MetaData()
    Table("campaigns", made, Column("number", Integer, primary_key=True))
    for name, *columns in (
        (
            "row_macs",
            *(_key("position", Integer), _fact("kind", Text), _fact("name", Text)),
            *(Column("nonce", LargeBinary), _fact("leaf", LargeBinary)),
        ),
        (
            "row_mac_heads",
            *(_fact("position", Integer), _fact("head", LargeBinary), _fact("key", Text), _fact("whole", Boolean)),
        ),
    ):
        campaign = Column("campaign", Integer, ForeignKey("campaigns.number"), primary_key=True)
        Table(name, made, campaign, *columns, **TABLE_OPTIONS).create(connection)


def _key(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _fact(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, nullable=False)


MIGRATIONS: tuple[Migration, ...] = (
    m001_first_tables,
    m002_exposures,
    m003_users,
    m004_shared_stores,
    m005_commits,
    m006_ledger_marks,
    m007_row_macs,
)


def missing(connection: Connection, name: str) -> tuple[Migration, ...]:
    """The steps that a database lacks: all of them if it is empty. Raises `InvalidStore` if it is not ours."""
    there = inspect(connection).get_table_names()
    if not there:
        return MIGRATIONS
    if "migrations" not in there:
        raise InvalidStore(f"opening {name}", "it is a database of something else", "Choose another file")
    applied = sorted(map(str, connection.scalars(select(tables.migrations.c.name))))  # a damaged one may be of any type
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
        connection.execute(tables.migrations.insert().values(name=step.__name__, at=stamp(now())))
