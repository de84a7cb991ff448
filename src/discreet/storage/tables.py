"""The tables as they are now. What made them is in `migrations`; a test compares the two.

Column types are explicit and portable; text is compared by its bytes everywhere (`column_types`). Orders are columns
(`place`, `number`, `position`), never the order of rows. Times are UTC in ISO form, JSON is text. Audience of every
table: owner.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
)

from discreet.storage.column_types import Text
from discreet.storage.sqlite import TABLE_OPTIONS

METADATA = MetaData()


def _campaign() -> Column[Any]:
    return Column("campaign", Integer, ForeignKey("campaigns.number"), primary_key=True)


migrations = Table(
    "migrations",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("at", Text, nullable=False),
)

campaigns = Table(
    "campaigns",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False, unique=True),
    Column("config", Text, nullable=False),
    Column("simulation", Boolean, nullable=False),
    Column("created", Text, nullable=False),
)

pool_cohorts = Table(
    "pool_cohorts",
    METADATA,
    _campaign(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("first_place", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    Column("facts", Text, nullable=False),
    Column("at", Text, nullable=False),
    **TABLE_OPTIONS,
)

records = Table(
    "records",
    METADATA,
    _campaign(),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    Column("withdrawn", Text),
    UniqueConstraint("campaign", "id"),
    **TABLE_OPTIONS,
)

Index(
    "records_withdrawn",  # few, and looked for at every click
    *(records.c.campaign, records.c.withdrawn),
    sqlite_where=records.c.withdrawn.is_not(None),
    postgresql_where=records.c.withdrawn.is_not(None),
)

transitions = Table(
    "transitions",
    METADATA,
    _campaign(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("phase", Integer, nullable=False),
    Column("facts", Text, nullable=False),
    Column("at", Text, nullable=False),
    UniqueConstraint("campaign", "kind", "phase"),
    **TABLE_OPTIONS,
)

questions = Table(
    "questions",
    METADATA,
    _campaign(),
    Column("id", Text, primary_key=True),
    Column("record", Text, nullable=False),
    Column("phase", Integer, nullable=False),
    Column("place", Integer, nullable=False),
    Column("above", Boolean),
    Column("cohort", Text),
    UniqueConstraint("campaign", "phase", "place"),
    UniqueConstraint("campaign", "phase", "record"),
    ForeignKeyConstraint(["campaign", "record"], ["records.campaign", "records.id"]),
    **TABLE_OPTIONS,
)

answers = Table(
    "answers",
    METADATA,
    _campaign(),
    Column("question", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("annotator", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("given", Text),
    Column("told", Text, nullable=False),
    ForeignKeyConstraint(["campaign", "question"], ["questions.campaign", "questions.id"]),
    **TABLE_OPTIONS,
)

exposures = Table(
    "exposures",
    METADATA,
    _campaign(),
    Column("question", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("audience", Text, primary_key=True),
    Column("at", Text, nullable=False),
    ForeignKeyConstraint(["campaign", "question"], ["questions.campaign", "questions.id"]),
    **TABLE_OPTIONS,
)

files = Table(
    "files",
    METADATA,
    _campaign(),
    Column("kind", Text, primary_key=True),
    Column("phase", Integer, primary_key=True, autoincrement=False),
    Column("sha256", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("at", Text, nullable=False),
    **TABLE_OPTIONS,
)

ledger_lines = Table(
    "ledger_lines",
    METADATA,
    _campaign(),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("line", LargeBinary, nullable=False),
    **TABLE_OPTIONS,
)

ledger_marks = Table(
    "ledger_marks",
    METADATA,
    _campaign(),
    Column("mark", Text, nullable=False),
    Column("lines", Integer, nullable=False),
    **TABLE_OPTIONS,
)
"""The high-water mark of a campaign's ledger, which is a file outside of the database: its random id (empty where no
charge was made since marks are kept), and how many lines it had when the last ones were added.
"""

file_pieces = Table(
    "file_pieces",
    METADATA,
    _campaign(),
    Column("sha256", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("piece", LargeBinary, nullable=False),
    **TABLE_OPTIONS,
)
"""What is in the files of a shared store; where a store is a file, they lie beside it."""

moves = Table(
    "moves",
    METADATA,
    _campaign(),
    Column("state", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("at", Text, nullable=False),
    **TABLE_OPTIONS,
)
"""Campaigns that are not in ordinary use: on their way to another store or from one, moved, copies to be read."""

commits = Table(
    "commits",
    METADATA,
    Column("session", Text, primary_key=True),
    Column("token", Text, nullable=False),
    Column("at", Text, nullable=False),
    **TABLE_OPTIONS,
)
"""The last transaction of every connection to a server, by a random token: what a COMMIT without an answer did."""

row_macs = Table(
    "row_macs",
    METADATA,
    _campaign(),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("nonce", LargeBinary),
    Column("leaf", LargeBinary, nullable=False),
    **TABLE_OPTIONS,
)
"""MACs of blocks of rows, in the order in which they were written (`discreet.storage.row_macs`)."""

row_mac_heads = Table(
    "row_mac_heads",
    METADATA,
    _campaign(),
    Column("position", Integer, nullable=False),
    Column("head", LargeBinary, nullable=False),
    Column("key", Text, nullable=False),
    Column("whole", Boolean, nullable=False),
    **TABLE_OPTIONS,
)
"""The MAC over all of a campaign's `row_macs`: how many there are, and under which key."""
