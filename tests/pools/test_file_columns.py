"""Columns beside what the model reads: every kind of table, every kind of cell, and no error that a cell makes."""

import datetime

import pyarrow as pa
import pytest
from pool_files import COUNT, FILES, FOLDERS, IDS, PERSONS, TEXTS, write_images, write_npz
from pyarrow import csv, feather, parquet

from discreet.errors import BadInput
from discreet.pools.file_columns import categories_of_records, cells_of_records, check_columns_of, columns_of
from discreet.pools.opening import kind_of

TABLES = {name: case for name, case in (FILES | FOLDERS).items() if "id" in case[2] and "array" not in case[2]}
TABLES.pop("npy")


@pytest.mark.parametrize("name", TABLES)
def test_columns_of_every_kind_of_table(name, tmp_path):
    write, file, options = TABLES[name]
    path = write(tmp_path / file)
    kind = kind_of(path, options.get("kind"))
    blocks = list(columns_of(path, kind, ["who", "note"]))
    assert [cell for block in blocks for cell in block["who"].to_pylist()] == PERSONS
    cells = cells_of_records(path, kind, "name", ["note", "c0"], {IDS[30], IDS[2], "nobody"})
    assert cells["note"] == {IDS[30]: TEXTS[30], IDS[2]: TEXTS[2]}
    assert cells["c0"].keys() == cells["note"].keys()
    check_columns_of(path, kind, "name", ["note"])
    with pytest.raises(BadInput, match="no column 'nothing'"):
        check_columns_of(path, kind, "name", ["note", "nothing"])


def test_cells_of_any_type_are_text_and_raise_nothing(tmp_path):
    far = pa.array([2**62, 0, None], pa.timestamp("s"))
    ends = pa.array([0, 2, 3, 3], pa.int32()).buffers()[1]
    broken = pa.Array.from_buffers(pa.string(), 3, [None, ends, pa.py_buffer(b"\xff\xfea")])
    columns = {
        "id": [7, 8, 9],
        "real": [1.5, float("nan"), None],
        "day": [datetime.date(2026, 1, 2), None, datetime.date(1, 1, 1)],
        "far": far,
        "list": [["a", None], [], None],
        "record": [{"a": 1}, None, {"a": 2}],
        "bytes": [b"\xff", b"ok", None],
        "broken": broken,
        "flag": [True, None, False],
    }
    feather.write_feather(pa.table(columns), tmp_path / "a.arrow")
    names = [name for name in columns if name != "id"]
    cells = cells_of_records(tmp_path / "a.arrow", "arrow", "id", names, {"7", "8", "9"})
    assert cells["real"] == {"7": "1.5", "8": "", "9": ""}
    assert cells["day"] == {"7": "2026-01-02", "8": "", "9": "0001-01-01"}
    assert cells["far"]["8"] == "1970-01-01 00:00:00"
    assert cells["list"] == {"7": '["a", null]', "8": "[]", "9": ""}
    assert cells["record"]["7"] == '{"a": 1}'
    assert cells["bytes"] == {"7": "", "8": "ok", "9": ""}
    assert cells["broken"] == {"7": "", "8": "a", "9": ""}
    assert cells["flag"]["9"] == "false"


def test_pictures_have_their_path_and_arrays_have_no_columns(tmp_path):
    folder = write_images(tmp_path / "scans")
    check_columns_of(folder, "images", None, ["path"])
    assert cells_of_records(folder, "images", "", ["path"], {IDS[3]})["path"] == {IDS[3]: str(folder / IDS[3])}
    with pytest.raises(BadInput, match="Pictures have path alone"):
        check_columns_of(folder, "images", None, ["path", "note"])
    with pytest.raises(BadInput, match="a pool of kind npz has no such columns"):
        check_columns_of(write_npz(tmp_path / "a.npz"), "npz", "name", ["note"])
    assert COUNT > 3


@pytest.mark.parametrize("cells", [[1, 2, None], [1.0, 2.0, float("nan")], [" 1", "2 ", "\ud7ff"], ["1", "2", ""]])
def test_a_category_is_that_of_the_cell_whatever_the_column_holds(cells, tmp_path):
    columns = {"id": ["a", "b", "c"], "ward": cells, "note": ["x"] * 3}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert categories_of_records(tmp_path / "a.parquet", "parquet", "id", "ward", ["1", "2"]) == {"a": 0, "b": 1}
    csv.write_csv(pa.table(columns), tmp_path / "a.csv")
    assert categories_of_records(tmp_path / "a.csv", "csv", "id", "ward", ["1", "2"]) == {"a": 0, "b": 1}
