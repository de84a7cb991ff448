"""What cannot be taken is refused in three parts, and no error carries what a file holds."""

import os
import sys
import traceback

import numpy as np
import pyarrow as pa
import pytest
from pool_files import (
    COLUMNS,
    COUNT,
    FILES,
    FOLDERS,
    IDS,
    NAMED,
    PIXELS,
    table,
    write_csv,
    write_npy,
    write_npz,
    write_parquet,
)
from pyarrow import parquet

from discreet.errors import BadInput, MissingExtra
from discreet.pools import ArrayPool, extended, open_pool

SECRET = "Miller"


def refused(fact, action):
    """The message; all that Python would print is free of what is secret."""
    with pytest.raises(BadInput) as caught:
        action()
    error = caught.value
    assert all((error.asked, error.fact, error.remedy))
    assert fact in str(error), str(error)
    printed = "".join(traceback.format_exception(error, chain=True)[-1:]) + str(error)
    assert error.__suppress_context__ or error.__context__ is None
    assert SECRET not in printed
    return str(error)


@pytest.fixture(params=FILES)
def kind(request, tmp_path):
    write, name, options = FILES[request.param]
    return write, tmp_path / name, options


def test_what_is_not_there_or_may_not_be_read(kind, monkeypatch):
    write, path, options = kind
    name = "images" if path.suffix == "" else None
    refused("it is not there", lambda: open_pool(path, kind=name, **options))
    write(path)

    def deny(*_, **__):
        raise PermissionError(13, SECRET)

    monkeypatch.setattr(os, "stat", deny)
    monkeypatch.setattr(os, "walk", deny)
    refused("may not read it", lambda: open_pool(path, kind=name, **options))


def test_a_folder_for_a_file_and_a_file_for_a_folder(kind):
    _, path, options = kind
    if path.suffix:
        path.mkdir()
        refused("it is a folder", lambda: open_pool(path, **options))
    else:
        path.write_text(SECRET)
        refused("it is a file", lambda: open_pool(path, kind="images", **options))
        refused("does not say its kind", lambda: open_pool(path, **options))


def test_other_content_and_files_that_end_early(kind):
    write, path, options = kind
    if not path.suffix:
        path.mkdir()
        refused("there is no record in it", lambda: open_pool(path, **options))
        return
    whole = write(path).read_bytes()
    path.write_bytes(SECRET.encode() * 30)
    refused("", lambda: open_pool(path, **options))
    path.write_bytes(b"")
    refused("", lambda: open_pool(path, **options))
    path.write_bytes(whole[: len(whole) // 2 - 3])
    if path.suffix != ".csv":
        refused("", lambda: open_pool(path, **options))


def test_another_size_than_declared(kind):
    write, path, options = kind
    write(path)
    refused(f"size = 41 is declared, and it has {COUNT} records", lambda: open_pool(path, **options, size=41))


def test_a_pool_that_goes_away_while_it_is_used(kind):
    write, path, options = kind
    pool = open_pool(write(path), **options)
    away = path.with_name("away")
    path.rename(away)
    if pool.declared.kind == "csv":  # it is in memory
        assert (pool.x[:1] == PIXELS[:1]).all()
        return
    refused("it is not there", lambda: pool.x[:1])
    refused("it is not there", lambda: pool.rows([0]))
    refused("it is not there", lambda: pool.broken([0]))


def test_a_pool_that_is_written_to_while_it_is_used(kind):
    write, path, options = kind
    pool = open_pool(write(path), **options)
    if pool.declared.kind in ("csv", "images"):
        return
    with path.open("r+b") as file:
        file.truncate(100)
    refused("changed since it was opened", lambda: pool.x[20:])


TABLES = [name for name in FILES if "parquet" in name or "arrow" in name or name == "csv"]


@pytest.mark.parametrize("name", TABLES)
def test_columns_must_be_there_and_are_listed(name, tmp_path):
    write, file, options = FILES[name]
    path = write(tmp_path / file)
    for wrong in ({"id": "nome"}, {"person": "whom"}, {"columns": ["c0", "c99"], "shape": None}, {"text": "notes"}):
        said = refused("column", lambda wrong=wrong: open_pool(path, **{**options, **wrong}))
        assert "Its columns: " in said
        assert SECRET not in said
    refused("which column holds the ids", lambda: open_pool(path, **{**options, "id": None}))
    refused("what of it a model may read", lambda: open_pool(path, id="name"))


def test_a_csv_file_without_a_header_does_not_show_its_first_record(tmp_path):
    (tmp_path / "a.csv").write_text(f"{SECRET},1\nb,2\n")
    refused("no column 'c0'", lambda: open_pool(tmp_path / "a.csv", id="name", columns=["c0"]))


def test_uneven_lines_double_columns_and_other_encodings(tmp_path):
    path = tmp_path / "a.csv"
    options = {"id": "name", "columns": ["c0"]}
    path.write_text(f"name,c0\na,1\n{SECRET}\nb,2,{SECRET}\n")
    assert open_pool(path, **options).broken(slice(None)).tolist() == [False, True, True]
    refused("its id is not sure", lambda: open_pool(path, id="c0", columns=["name"]))
    path.write_text("name,c0,c0\na,1,2\n")
    refused("2 column 'c0'", lambda: open_pool(path, **options))
    path.write_bytes(b"name,c0\nM\xfcller,1\n")
    refused("1 names in column 'name' are not UTF-8", lambda: open_pool(path, **options))
    for content in ("name,c0\n", "name,c0", "\ufeffname,c0"):  # a header alone
        path.write_text(content, encoding="utf-8")
        refused("there is no record in it", lambda: open_pool(path, **options))
    path.write_text("", encoding="utf-8")
    refused("its first line is empty", lambda: open_pool(path, **options))
    for content in ("näme,c0\na,1\n".encode("latin-1"), "name,c0\na,1\n".encode("utf-16")):
        path.write_bytes(content)
        refused("not text in UTF-8", lambda: open_pool(path, **options))
    parquet.write_table(pa.table([["a"], [1], [2]], names=["name", "c0", "c0"]), tmp_path / "a.parquet")
    refused("2 column 'c0'", lambda: open_pool(tmp_path / "a.parquet", **options))


def test_folders_without_parts_splits_and_ids_that_are_in_two_parts(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    options = {"id": "name", "columns": ["c0"]}
    refused("no file in it ends in .csv", lambda: open_pool(folder, kind="csv", **options))
    refused("it is no folder of Dataset.save_to_disk", lambda: open_pool(folder, kind="huggingface", **options))
    for part in range(2):
        (folder / f"part-{part}.csv").write_text(f"name,c0\n{SECRET},1\nb{part},2\n")
    refused("1 ids are in more than one", lambda: open_pool(folder, kind="csv", **options))
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    refused("it holds the splits train, test", lambda: open_pool(folder, kind="huggingface", **options))
    refused("it holds the splits train, test", lambda: open_pool(folder, **options))  # by what is in it


def test_a_data_set_whose_files_changed_is_refused(tmp_path):
    write, name, options = FOLDERS["huggingface"]
    pool = open_pool(write(tmp_path / name), **options)
    file = next((tmp_path / name).glob("*.arrow"))
    file.write_bytes(file.read_bytes()[:-1])
    refused("it was changed", lambda: pool.x[:5])


def names(*values):
    return [*values, *IDS[len(values) :]]


@pytest.mark.parametrize(
    ("ids", "fact"),
    [
        (names(SECRET, SECRET, SECRET), "2 repeat"),
        (names(None, SECRET, None), "2 are missing"),
        (names("", SECRET), "1 are empty"),
        (names("\ud800"), "1 are not writable"),
        ([1.5, *range(1, COUNT)], "neither"),
        (names(7), "1 are neither all text nor all whole numbers"),
        ([True] * COUNT, "neither"),
        (5, "not a list"),
        (SECRET, "not a list"),
    ],
)
def test_ids_of_arrays(ids, fact):
    refused(fact, lambda: ArrayPool(ids=ids, x=PIXELS))


@pytest.mark.parametrize("write", [write_parquet, FILES["arrow"][0]])
def test_ids_of_tables(write, tmp_path):
    path = tmp_path / ("a.parquet" if write is write_parquet else "a.arrow")
    for ids, fact in (
        (pa.array(names(SECRET, SECRET)), "1 repeat an id"),
        (pa.array(names(None, SECRET)), "1 are missing"),
        (pa.array(np.arange(COUNT) + 0.5), "neither text nor whole numbers"),
        (pa.array([None, *range(1, COUNT)]), "1 are missing"),
    ):
        write(path, table().set_column(0, "name", ids))
        refused(fact, lambda: open_pool(path, id="name", columns=["c0"]))
    write(path, table(persons=names(None)))
    refused("1 are missing", lambda: open_pool(path, **NAMED, columns=["c0"]))
    write(path)
    refused("does not hold numbers", lambda: open_pool(path, **NAMED, columns=["c0", "note"]))
    refused("does not hold text", lambda: open_pool(path, **NAMED, text="c0"))
    refused("one holds lists", lambda: open_pool(path, **NAMED, columns=["c0", "list"]))
    refused("holds lists", lambda: open_pool(path, **NAMED, columns=["list"]))


def test_ids_of_array_files(tmp_path):
    write_npy(tmp_path / "a.npy")
    refused("has no ids", lambda: open_pool(tmp_path / "a.npy"))
    refused("has no ids", lambda: open_pool(tmp_path / "a.npy", id="name"))
    path = write_npz(
        tmp_path / "a.npz", real=np.zeros(COUNT), short=np.array(IDS[1:]), twice=np.array(names(SECRET, SECRET))
    )
    for options, fact in (
        ({"id": "name"}, "none was named"),
        ({"array": "x"}, "which array holds the ids"),
        ({"array": "y", "id": "name"}, "no array named 'y'"),
        ({"array": "x", "id": "y"}, "no array named 'y'"),
        ({"array": "name", "id": "name"}, "does not hold numbers"),
        ({"array": "real", "id": "name"}, "a bare number"),
        ({"array": "x", "id": "real"}, "neither text nor whole numbers"),
        ({"array": "x", "id": "short"}, "not equally many"),
        ({"array": "x", "id": "twice"}, "1 repeat"),
        ({"array": "x", "id": "name", "shape": [5]}, "as many numbers"),
    ):
        refused(fact, lambda options=options: open_pool(path, **options))
    assert open_pool(path, array="x", id="position").ids[-1] == "39"


def test_objects_are_not_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (sys.exit, (3,))

    np.save(tmp_path / "a.npy", np.array([Trap()] * 3, dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", x=np.array([Trap()] * 3, dtype=object))
    np.savez_compressed(tmp_path / "b.npz", x=np.array([Trap()] * 3, dtype=object))
    refused("npy file", lambda: open_pool(tmp_path / "a.npy", id="position"))
    for name in ("a.npz", "b.npz"):
        refused("npz file", lambda name=name: open_pool(tmp_path / name, id="position", array="x"))


def test_pictures_are_declared(tmp_path):
    write, file, _ = FILES["images"]
    path = write(tmp_path / file)
    refused("no shape", lambda: open_pool(path))
    refused("not one of pictures", lambda: open_pool(path, shape=[2, 4, 3]))
    refused("its path", lambda: open_pool(path, shape=[4, 3], id="name"))
    refused("the folder it is in", lambda: open_pool(path, shape=[4, 3], person="who"))
    refused("40 pictures are in no person's folder", lambda: open_pool(path, shape=[4, 3], person="folder"))
    for person in ("a", "b"):
        (path / person / "left").mkdir(parents=True)
    for place, name in enumerate(IDS):
        (path / name).rename(path / "ab"[place % 2] / "left" / name)
    pool = open_pool(path, shape=[4, 3], person="folder")
    assert (pool.ids[0], pool.persons[0], pool.persons[-1]) == (f"a/left/{IDS[0]}", "a", "b")


def test_pillow_is_an_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtra, match="images"):
        open_pool(tmp_path, shape=[4, 3])


def test_places_that_are_none(tmp_path):
    pool = ArrayPool(ids=IDS, x=PIXELS)
    with pytest.raises(IndexError):
        pool.x[[40]]
    with pytest.raises(IndexError):
        pool.x[-41]
    for wrong in ([0.5], "a", [[1, 2]]):
        refused("positions", lambda wrong=wrong: pool.x[wrong])
    assert pool.x[[]].shape == (0, 4, 3)


def test_kinds(tmp_path):
    refused("no such kind", lambda: open_pool(tmp_path / "a", kind="xlsx"))
    refused("does not say its kind", lambda: open_pool(write_csv(tmp_path / "a.txt")))
    assert len(open_pool(tmp_path / "a.txt", kind="csv", id="name", columns=COLUMNS)) == COUNT
    refused("not of a file", lambda: extended(ArrayPool(ids=IDS, x=PIXELS), tmp_path / "a.txt"))
