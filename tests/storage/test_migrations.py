"""Stores of every released schema are opened and brought up to date; what is not ours is left alone."""

import shutil
import sqlite3

import pytest
from make_fixture import EARLY, FIXTURES, LATE, QUESTIONS, fill
from sqlalchemy import create_engine, inspect, text

from discreet.errors import InvalidStore
from discreet.privacy.ledger import Ledger
from discreet.storage import open_storage, tables

RELEASED = sorted(FIXTURES.glob("*.sqlite"))


def copied(fixture, tmp_path):
    place = tmp_path / "old.sqlite"
    shutil.copy(fixture, place)
    shutil.copytree(f"{fixture}.files", f"{place}.files")
    return place


def check_content(storage):
    """All that `make_fixture.fill` puts in."""
    store = storage.load("shells")
    assert store.config == {"name": "shells", "classes": ["whelk", "limpet"]}
    assert store.simulation
    assert store.ids() == [f"shell-{number}" for number in range(11)]
    assert dict(store.macs())["shell-3"] == b"\x03" * 16
    assert [(one.size, one.facts) for one in store.pool_cohorts()] == [(10, {"kind": "npz"}), (1, {})]
    assert [(step.kind, step.facts) for step in store.transitions()] == [("charged", {"entry": 1}), ("published", {})]
    assert store.questions() == QUESTIONS
    assert store.cohort_members() == {"high": ["shell-9", "shell-8"], "low": ["shell-7", "shell-6"]}
    assert store.above(0) == {"shell-9", "shell-8"}
    assert [(one.question_id, one.value, one.at) for one in store.answers()] == [
        ("q0", None, LATE),
        ("q1", "limpet", LATE),
    ]
    assert [(one.value, at) for one, at in store.history("q1")] == [("whelk", EARLY), ("limpet", LATE)]
    assert store.file("model", 0).read_bytes() == b"made-up weights"
    with Ledger.open(store.sink()) as ledger:
        assert len(ledger) == 1


def test_every_schema_has_a_fixture():
    assert [fixture.stem for fixture in RELEASED] == [step.__name__ for step in tables.MIGRATIONS]


@pytest.mark.parametrize("fixture", RELEASED, ids=lambda path: path.stem)
def test_a_released_store_is_opened_with_all_it_holds(fixture, tmp_path):
    with open_storage(copied(fixture, tmp_path)) as storage:
        check_content(storage)
        seen = [(one.question_id, one.kind, one.audience, one.at) for one in storage.load("shells").exposures()]
        shown = [("q0", "annotator", "ann", EARLY), ("q1", "annotator", "ann", EARLY)]
        shown.append(("q1", "hand-out", "questions-0001.csv", LATE))
        assert seen == shown
        people = [(one.name, one.role, one.active) for one in storage.load("shells").users.everybody()]
        assert people == [("ann", "annotator", True)]
        assert storage.load("shells").check_rows().state == "covered"


def shape(engine):
    seen = inspect(engine)
    return {
        table: (
            [(column["name"], str(column["type"]), column["nullable"]) for column in seen.get_columns(table)],
            seen.get_pk_constraint(table)["constrained_columns"],
            sorted(tuple(one["column_names"]) for one in seen.get_unique_constraints(table)),
            sorted((tuple(one["constrained_columns"]), one["referred_table"]) for one in seen.get_foreign_keys(table)),
        )
        for table in sorted(seen.get_table_names())
    }


def test_the_steps_come_to_the_tables_that_are_used(tmp_path):
    open_storage(tmp_path / "migrated.db").close()
    declared = create_engine(f"sqlite:///{tmp_path}/declared.db")
    tables.METADATA.create_all(declared)
    migrated = create_engine(f"sqlite:///{tmp_path}/migrated.db")
    assert shape(migrated) == shape(declared)
    without_rowid = "select name from sqlite_schema where sql like '%WITHOUT ROWID%' order by name"
    with migrated.connect() as one, declared.connect() as other:
        assert one.scalars(text(without_rowid)).all() == other.scalars(text(without_rowid)).all() != []
    migrated.dispose()
    declared.dispose()


def m998_planted(connection):
    """What a later schema may do: a column, and rows that are rewritten."""
    connection.execute(text("alter table answers add column confidence integer"))
    connection.execute(text("update answers set confidence = 3"))


def m999_failing(connection):
    connection.execute(text("alter table answers add column another integer"))
    connection.execute(text("update answers set nonsense = 3"))


def rows(place, statement):
    connection = sqlite3.connect(place)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def planted(monkeypatch, *steps):
    monkeypatch.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, *steps))


def test_an_older_store_is_upgraded_and_then_refused_by_an_older_program(tmp_path, monkeypatch):
    place = copied(FIXTURES / "m001_tables.sqlite", tmp_path)
    with monkeypatch.context() as later:
        planted(later, m998_planted)
        with open_storage(place) as storage:
            check_content(storage)
        assert rows(place, "select distinct confidence from answers") == [(3,)]
        assert len(rows(place, "select * from migrations")) == len(tables.MIGRATIONS)
    with pytest.raises(InvalidStore, match="newer") as caught:
        open_storage(place)
    known = len(tables.MIGRATIONS)
    assert f"{known + 1} steps, {known} known here" in str(caught.value)
    assert rows(place, "select distinct confidence from answers") == [(3,)]


def test_an_upgrade_that_fails_leaves_the_older_store(tmp_path, monkeypatch):
    place = copied(FIXTURES / "m001_tables.sqlite", tmp_path)
    with monkeypatch.context() as later:
        planted(later, m998_planted, m999_failing)
        with pytest.raises(InvalidStore):
            open_storage(place)
    assert rows(place, "select name from migrations") == [("m001_tables",)]
    with open_storage(place) as storage:
        check_content(storage)


def test_a_new_store_takes_every_step(tmp_path, monkeypatch):
    planted(monkeypatch, m998_planted)
    with open_storage(tmp_path / "new.db") as storage:
        fill(storage)
        check_content(storage)
    assert [name for (name,) in rows(tmp_path / "new.db", "select name from migrations")] == [
        step.__name__ for step in tables.MIGRATIONS
    ]


def test_databases_of_others_are_left_as_they_are(tmp_path):
    place = tmp_path / "theirs.db"
    connection = sqlite3.connect(place)
    connection.execute("create table recipes (title text)")
    connection.commit()
    connection.close()
    before = place.read_bytes()
    with pytest.raises(InvalidStore, match="something else"):
        open_storage(place)
    assert place.read_bytes() == before
    assert list(tmp_path.iterdir()) == [place]


def test_somebody_elses_migrations_are_not_ours(tmp_path):
    for number, columns in enumerate(["name text, at text", "version integer"]):
        place = tmp_path / f"{number}.db"
        connection = sqlite3.connect(place)
        connection.execute(f"create table migrations ({columns})")
        if not number:
            connection.execute("insert into migrations values ('0001_initial', 'now')")
        connection.commit()
        connection.close()
        with pytest.raises(InvalidStore):
            open_storage(place)
