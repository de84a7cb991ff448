"""The owner is told, by column, how many cells cannot be read and how many records are nulls by them."""

import numpy as np
import pytest
from pyarrow import csv, parquet, table

from discreet.pools import ArrayPool, JoinedPool, cell_counts, open_frame, open_pool

CELLS = {
    "id": [f"r{row}" for row in range(12)],
    "age": ["17", "", "x", "1e400", "NaN", "2001-01-01", "120", "53", "53", "53", "53", "53"],
    "job": ["a", "b", "", "?", "a", "a", "a", "a", "a", "a", "a", "a"],
    "note": ["x", "", "x", "x", "x", "x", "x", "x", "x", "x", "x", "x"],
}
SCHEMA = {
    "missing_values": ["?"],
    "age": {"type": "number", "low": 17, "high": 90, "missing": "null"},
    "job": {"type": "category", "values": ["a"]},
    "note": {"type": "text", "missing": "null"},
}


def counts(missing=0, unreadable=0, outside=0, nulls=0):
    return {"missing": missing, "unreadable": unreadable, "outside": outside, "nulls": nulls}


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder", "frame", "joined"])
def test_of_a_schema(tmp_path, kind):
    columns = table(CELLS)
    if kind == "folder":
        (tmp_path / "pool").mkdir()
        csv.write_csv(columns.slice(0, 2), tmp_path / "pool" / "a.csv")
        csv.write_csv(columns.slice(2), tmp_path / "pool" / "b.csv")
        pool = open_pool(tmp_path / "pool", kind="csv", id="id", schema=SCHEMA)
    elif kind == "joined":
        pool = JoinedPool(
            [open_frame(part, id="id", schema=SCHEMA) for part in (columns.slice(0, 5), columns.slice(5))]
        )
    elif kind == "frame":
        pool = open_frame(columns, id="id", schema=SCHEMA)
    else:
        path = tmp_path / f"pool.{kind}"
        (csv.write_csv if kind == "csv" else parquet.write_table)(columns, path)
        pool = open_pool(path, id="id", schema=SCHEMA)
    told = cell_counts(pool)
    assert (told.records, told.nulls) == (12, int(pool.broken(slice(None)).sum())) == (12, 4)
    assert told.columns == {
        "age": counts(missing=1, unreadable=3, outside=2, nulls=4),
        "job": counts(missing=2, outside=1),
        "note": counts(missing=1, nulls=1),
    }
    assert "4 of 12 records are nulls" in told.text()
    assert "column age, cells: 1 are missing, 3 cannot be read, 2 are outside of what is declared; 4" in told.text()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_of_columns_of_numbers_also_where_none_can_be_read(tmp_path, kind):
    columns = {"id": CELLS["id"], "age": [1.0, None] * 6, "pay": [None] * 12}
    path = tmp_path / f"pool.{kind}"
    (csv.write_csv if kind == "csv" else parquet.write_table)(
        table({name: np.array(cells, dtype=float) if name == "pay" else cells for name, cells in columns.items()}), path
    )
    pool = open_pool(path, id="id", columns=["age", "pay"])
    told = cell_counts(pool)
    assert (told.records, told.nulls) == (12, 12)
    assert told.columns == {"age": counts(unreadable=6, nulls=6), "pay": counts(unreadable=12, nulls=12)}


def test_of_arrays_and_texts():
    x = np.ones((20, 3, 4, 5), dtype=np.float32)
    x[4, 1, 0] = np.nan
    pool = ArrayPool(ids=range(20), x=x, text=["a", None] * 10)
    told = cell_counts(pool)
    assert (told.records, told.nulls) == (20, 11)
    assert told.columns["text"] == counts(missing=10, nulls=10)
    assert sum(column["unreadable"] for column in told.columns.values()) == 5


def test_clean_records_are_told_in_one_line():
    assert (
        cell_counts(ArrayPool(ids=range(3), x=np.ones((3, 2)))).text() == "0 of 3 records are nulls, and teach nothing"
    )
