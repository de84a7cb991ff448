"""Tables of people who use a campaign's pages: users, and the sessions of their browsers.

As in `tables`, what is there now stands beside the step that made it, which says its tables itself and is never changed
once it was released. Tokens and sessions are stored as SHA-256 alone (`users` says why that is enough).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, ForeignKey, ForeignKeyConstraint, Index, Integer, MetaData, Table
from sqlalchemy import UniqueConstraint as Unique

from discreet.storage.column_types import Text
from discreet.storage.sqlite import TABLE_OPTIONS
from discreet.storage.tables import METADATA

users = Table(
    "users",
    METADATA,
    Column("campaign", Integer, ForeignKey("campaigns.number"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("token", Text),
    Column("created", Text, nullable=False),
    Unique("campaign", "token"),
    **TABLE_OPTIONS,
)

sessions = Table(
    "sessions",
    METADATA,
    Column("campaign", Integer, ForeignKey("campaigns.number"), primary_key=True),
    Column("secret", Text, primary_key=True),
    Column("person", Text, nullable=False),
    Column("began", Text, nullable=False),
    Column("seen", Text, nullable=False),
    ForeignKeyConstraint(["campaign", "person"], ["users.campaign", "users.name"]),
    **TABLE_OPTIONS,
)


def m003_users(connection: Connection) -> None:
    """People who use a campaign's pages, and their sessions; withdrawn records are found without looking at all."""
    made = MetaData()
    Table("campaigns", made, Column("number", Integer, primary_key=True))
    Table(
        "users",
        made,
        *(_campaign(), Column("name", Text, primary_key=True), Column("role", Text, nullable=False)),
        *(Column("token", Text), Column("created", Text, nullable=False)),
        Unique("campaign", "token"),
        **TABLE_OPTIONS,
    )
    Table(
        "sessions",
        made,
        *(_campaign(), Column("secret", Text, primary_key=True), Column("person", Text, nullable=False)),
        *(Column("began", Text, nullable=False), Column("seen", Text, nullable=False)),
        ForeignKeyConstraint(["campaign", "person"], ["users.campaign", "users.name"]),
        **TABLE_OPTIONS,
    )
    for name in ("users", "sessions"):
        made.tables[name].create(connection)
    records = Table("records", made, Column("campaign", Integer), Column("withdrawn", Text)).c
    there = records.withdrawn.is_not(None)
    Index(
        "records_withdrawn",
        *(records.campaign, records.withdrawn),
        sqlite_where=there,
        postgresql_where=there,
    ).create(connection)


def _campaign() -> Column[Any]:
    return Column("campaign", Integer, ForeignKey("campaigns.number"), primary_key=True)
