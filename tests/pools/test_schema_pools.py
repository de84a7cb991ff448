"""Pools that a schema declares: CSV, Parquet and Arrow files give the same records; private cells are never errors."""

from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import csv, feather, parquet

from discreet.errors import BadInput
from discreet.pools import ManifestKey, Schema, compare, extended, macs, open_pool
from discreet.testing import check_pool

FORM = {
    "missing_values": ["?"],
    "age": {"type": "number", "low": 0, "high": 100},
    "job": {"type": "category", "values": ["admin", "clerk"]},
    "since": {"type": "date", "low": "2000-01-01", "high": "2020-01-01", "missing": "null"},
    "note": {"type": "text"},
}
SCHEMA = Schema.of(FORM)
COLUMNS = {
    "id": [f"r{number}" for number in range(40)],
    "age": ["30", "", "x", "250"] * 10,
    "job": ["admin", " clerk", "?", "new"] * 10,
    "since": ["2010-01-01", "2001-12-24", None, "1.1.2011"] * 10,
    "note": ["good", "", "?", "bad, and\nworse"] * 10,
    "owner": ["a", "b"] * 20,
}
WRITERS = {"csv": csv.write_csv, "parquet": parquet.write_table, "arrow": feather.write_feather}


def written(folder: Path, kind: str, columns: dict = COLUMNS) -> Path:
    file = folder / f"people.{kind}"
    WRITERS[kind](pyarrow.table(columns), file)
    return file


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_file_gives_the_same_records(tmp_path: Path, kind: str) -> None:
    pool = open_pool(written(tmp_path, kind), id="id", person="owner", schema=FORM)
    matrix, readable = SCHEMA.encode(COLUMNS)
    assert (pool.x.shape, pool.x.dtype) == ((40, SCHEMA.width), np.float32)
    assert (np.asarray(pool.x) == matrix).all()
    assert (pool.broken(slice(None)) == ~readable).all()
    assert pool.broken([2, 3, 0]).tolist() == [True, True, False]
    assert pool.text[:4] == ["good", "", "", "bad, and\nworse"]
    assert pool.x.counts().columns == SCHEMA.count(COLUMNS).columns
    assert pool.public()["schema"] == SCHEMA.to_json()
    check_pool(pool)


def test_a_file_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.pools.tables._MOST", 7)
    monkeypatch.setattr("discreet.pools.tables._ROWS", 3)
    pool = open_pool(written(tmp_path, "parquet"), id="id", schema=SCHEMA)
    places = np.random.default_rng(0).permutation(40)
    assert (pool.x[places] == SCHEMA.encode(COLUMNS)[0][places]).all()
    assert pool.x.counts().nulls == 20


@pytest.mark.parametrize("kind", WRITERS)
def test_records_that_are_all_missing_are_no_error(tmp_path: Path, kind: str) -> None:
    columns = {"id": COLUMNS["id"]} | {name: [None] * 40 for name in SCHEMA.names}
    if kind == "csv":
        columns = {name: [cell or "" for cell in cells] for name, cells in columns.items()}
    strict = {name: form | {"missing": "null"} for name, form in FORM.items() if name != "missing_values"}
    pool = open_pool(written(tmp_path, kind, columns), id="id", schema=strict)
    assert pool.broken(slice(None)).all()
    assert not np.asarray(pool.x).any()
    assert pool.text[0] == ""


def test_texts_alone_have_no_numbers(tmp_path: Path) -> None:
    pool = open_pool(written(tmp_path, "csv"), id="id", schema={"note": {"type": "text"}})
    assert pool.x is None
    assert pool.text[2] == "?"


def test_a_manifest_notices_what_a_model_would_see(tmp_path: Path) -> None:
    key = ManifestKey.fresh()
    stored = dict(macs(open_pool(written(tmp_path, "csv"), id="id", schema=FORM), key))
    assert not compare(stored, open_pool(written(tmp_path, "parquet"), id="id", schema=FORM), key)
    changed = COLUMNS | {"age": ["31", *COLUMNS["age"][1:]]}
    assert compare(stored, open_pool(written(tmp_path, "csv", changed), id="id", schema=FORM), key).changed == ("r0",)


def test_a_further_file_is_read_by_the_same_schema(tmp_path: Path) -> None:
    pool = open_pool(written(tmp_path, "arrow"), id="id", schema=FORM)
    first = pool.x[:]
    (tmp_path / "people.arrow").rename(tmp_path / "first.arrow")
    pool = open_pool(tmp_path / "first.arrow", id="id", schema=FORM)
    more = written(tmp_path, "arrow", COLUMNS | {"id": [f"n{number}" for number in range(40)]})
    joined = extended(pool, more)
    assert joined.x.shape == (80, SCHEMA.width)
    assert (joined.x[40:] == first).all()


def test_a_path_names_a_schema(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text('[age]\ntype = "number"\nlow = 0\nhigh = 100\n')
    pool = open_pool(written(tmp_path, "csv"), id="id", schema=tmp_path / "schema.toml")
    assert pool.x.shape == (40, 2)


def test_a_schema_that_fits_no_column_lists_the_columns(tmp_path: Path) -> None:
    other = {"pulse": {"type": "number", "low": 0, "high": 1}}
    for kind in WRITERS:
        with pytest.raises(BadInput, match="no column 'pulse'.*Its columns: id, age, job, since, note, owner"):
            open_pool(written(tmp_path, kind), id="id", schema=other)


def test_a_first_line_that_may_be_a_record_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("39,Miller,flu\n40,Smith,cold\n")
    with pytest.raises(BadInput) as refused:
        open_pool(tmp_path / "people.csv", id="id", schema=FORM)
    assert "Miller" not in str(refused.value)
    assert "has a header" in str(refused.value)


def test_a_header_alone_and_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,age\n")
    form = {"age": FORM["age"]}
    with pytest.raises(BadInput, match="no record"):
        open_pool(tmp_path / "people.csv", id="id", schema=form)
    (tmp_path / "people.csv").write_bytes(b"\xef\xbb\xbfage,id\n50,a\n")
    assert open_pool(tmp_path / "people.csv", id="id", schema=form).x[:].tolist() == [[0, 0]]


def test_a_column_of_another_type_is_refused_by_its_type(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'age' is declared as number, and holds list"):
        open_pool(written(tmp_path, "parquet", COLUMNS | {"age": [[1]] * 40}), id="id", schema=FORM)


@pytest.mark.parametrize("spare", [{"columns": ["age"]}, {"text": "note"}, {"shape": [5]}, {"scale": 2}])
def test_what_the_schema_declares_is_declared_once(tmp_path: Path, spare: dict) -> None:
    with pytest.raises(BadInput, match="a schema declares"):
        open_pool(written(tmp_path, "csv"), id="id", schema=FORM, **spare)


def test_arrays_have_no_schema(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((9, 2)))
    with pytest.raises(BadInput, match="schema means nothing"):
        open_pool(tmp_path / "x.npy", id="position", schema=FORM)
