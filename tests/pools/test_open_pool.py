"""What was written is read, from every kind of file, in any order, and only as it was declared."""

import json

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
    PERSONS,
    PIXELS,
    SHAPE,
    TEXTS,
    table,
    write_npy,
    write_parquet,
)

from discreet.errors import BadInput
from discreet.pools import ArrayPool, open_pool
from discreet.pools import tables as pool_tables
from discreet.testing import check_pool


@pytest.fixture(params=FILES | FOLDERS)
def opened(request, tmp_path):
    write, name, options = (FILES | FOLDERS)[request.param]
    return open_pool(write(tmp_path / name), **options, size=COUNT)


def test_every_kind_keeps_the_contract(opened):
    check_pool(opened)


def test_every_kind_gives_what_was_written(opened):
    kind = opened.declared.kind
    assert opened.x.dtype == (np.float32 if kind == "csv" else np.uint8)
    assert (np.asarray(opened.x) == PIXELS).all()
    places = np.array([39, 0, 13, 13, 6, 7, -1])
    assert (opened.x[places] == PIXELS[places]).all()
    assert (opened.x[5:30:7] == PIXELS[5:30:7]).all()
    assert (opened.x[np.arange(COUNT) % 2 == 1] == PIXELS[1::2]).all()
    assert (opened.x[17] == PIXELS[17]).all()
    assert opened.ids == (IDS if kind != "npy" else [str(place) for place in range(COUNT)])
    assert opened.persons == (None if kind in ("npy", "images") else PERSONS)
    assert not opened.broken(slice(None)).any()
    if opened.text is not None:
        assert list(opened.text) == TEXTS
        assert opened.text[places] == [TEXTS[place] for place in places]
        assert opened.text[-3:] == TEXTS[-3:]


def test_declared_constants_scale_and_nothing_is_fitted(tmp_path):
    for name, (write, file, options) in FILES.items():
        folder = tmp_path / name
        folder.mkdir()
        pool = open_pool(write(folder / file), **options, center=10, scale=255)
        assert pool.x.dtype == np.float32
        assert np.allclose(pool.x[3:9], (PIXELS[3:9].astype(float) - 10) / 255)


def test_one_constant_a_column_or_a_channel(tmp_path):
    write_npy(tmp_path / "a.npy", np.arange(24.0).reshape(2, 3, 2, 2))
    pool = open_pool(tmp_path / "a.npy", id="position", center=[0, 1, 2], scale=[1, 2, 4])
    assert np.allclose(pool.x[1][:, 0, 0], [12, (16 - 1) / 2, (20 - 2) / 4])
    table_pool = open_pool(write_parquet(tmp_path / "a.parquet"), id="name", columns=["c0", "c1"], center=[1, 2])
    assert (table_pool.x[:] == PIXELS.reshape(COUNT, -1)[:, :2] - np.array([1, 2])).all()
    with pytest.raises(BadInput, match="one for each column"):
        open_pool(tmp_path / "a.npy", id="position", center=[0, 1])


def test_wide_numbers_are_scaled_before_they_are_rounded(tmp_path):
    times = np.array([[1_700_000_001], [1_700_000_003]], dtype=np.int64)
    pool = open_pool(write_npy(tmp_path / "a.npy", times), id="position", center=1_700_000_000)
    assert pool.x[:].ravel().tolist() == [1, 3]


def test_columns_come_in_the_declared_order(tmp_path):
    path = write_parquet(tmp_path / "a.parquet")
    pool = open_pool(path, id="name", columns=["c5", "c0"])
    assert (pool.x[:] == PIXELS.reshape(COUNT, -1)[:, [5, 0]]).all()


def test_text_alone_is_a_pool(tmp_path):
    pool = open_pool(write_parquet(tmp_path / "a.parquet"), id="name", text="note")
    check_pool(pool)
    assert pool.x is None
    assert pool.rows([2, 1]) == [TEXTS[2], TEXTS[1]]
    assert pool.public()["shape"] is None


def test_whole_numbers_in_an_id_column_become_text(tmp_path):
    for ids in (pa.array(range(COUNT), pa.uint8()), pa.array(IDS).dictionary_encode()):
        path = write_parquet(tmp_path / "a.parquet", table().set_column(0, "name", ids))
        assert open_pool(path, id="name", columns=["c0"]).ids == [str(name) for name in ids.to_pylist()]


def test_ids_of_a_csv_file_stay_as_they_are_written(tmp_path):
    (tmp_path / "a.csv").write_text("name,c0\n007,1\n7,2\n", encoding="utf-8-sig")
    assert open_pool(tmp_path / "a.csv", id="name", columns=["c0"]).ids == ["007", "7"]


def test_cells_that_are_not_utf_8_are_nulls_and_lines_may_be_long(tmp_path, monkeypatch):
    from discreet.pools import csv_files

    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 400)
    lines = [f"r{place},näme {place},{place}\n".encode() for place in range(60)]
    lines[40] = b"r40,M\xfcller,40\n"
    lines[41] = b"r41,fine,4\xa01\n"
    lines[42] = b"r42," + b"long" * 4000 + b",42\n"
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfname,n\xc3\xb6te,c0\n" + b"".join(lines))
    pool = open_pool(tmp_path / "a.csv", id="name", text="nöte", columns=["c0"], size=60)
    assert np.flatnonzero(pool.broken(slice(None))).tolist() == [40, 41]
    assert pool.text[59] == "näme 59"
    assert len(pool.text[42]) == 16000
    assert pool.x[:].ravel().tolist() == [place if place != 41 else 0 for place in range(60)]


def test_a_folder_may_have_parts_without_records(tmp_path):
    for part in range(3):
        (tmp_path / f"part-{part}.csv").write_text("name,c0\n" + ("a,1\nb,2\n" if part == 1 else ""))
    pool = open_pool(tmp_path, kind="csv", id="name", columns=["c0"], size=2)
    assert pool.ids == ["a", "b"]
    assert pool.x[:].tolist() == [[1], [2]]
    assert "cohorts" not in pool.public()


def test_a_data_set_that_hugging_face_stored(tmp_path):
    datasets = pytest.importorskip("datasets")
    columns = {"name": IDS, "note": TEXTS, "list": PIXELS.reshape(COUNT, -1).tolist(), "y": [0, 1] * (COUNT // 2)}
    datasets.disable_progress_bars()
    whole = datasets.Dataset.from_dict(columns)
    whole.save_to_disk(tmp_path / "whole", num_shards=3)
    whole.select([5, 3, 4]).save_to_disk(tmp_path / "chosen")
    options = {"kind": "huggingface", "id": "name", "columns": ["list"], "text": "note", "shape": SHAPE}
    pool = open_pool(tmp_path / "whole", **options, size=COUNT)
    check_pool(pool)
    assert pool.ids == IDS
    assert (pool.x[:] == PIXELS).all()
    assert list(pool.text) == TEXTS
    chosen = open_pool(tmp_path / "chosen", **options)
    assert chosen.ids == [IDS[place] for place in (5, 3, 4)]
    assert (chosen.x[:] == PIXELS[[5, 3, 4]]).all()


def test_blocks_of_any_size_give_the_same(tmp_path, monkeypatch):
    """Large row groups are walked through in pieces, and few blocks are kept: no order of asking may show it."""
    monkeypatch.setattr(pool_tables, "BLOCK_BYTES", 60)
    monkeypatch.setattr(pool_tables, "_FEWEST", 1)
    monkeypatch.setattr(pool_tables, "CACHE_BYTES", 100)
    rng = np.random.default_rng(3)
    for name in ("parquet", "parquet lists", "arrow", "arrow lists"):
        write, file, options = FILES[name]
        size = {"row_group_size": 23} if "parquet" in name else {"chunksize": 23}
        pool = open_pool(write(tmp_path / f"{name}{file}", **size), **options)
        for _ in range(20):
            places = rng.integers(0, rng.choice([8, 23, COUNT]), 9)  # also backwards within a row group
            assert (pool.x[places] == PIXELS[places]).all()
        assert len(pool.x._blocks._kept) <= 2


def test_arrays_in_other_orders_and_types(tmp_path):
    numbers = np.random.default_rng(0).normal(size=(9, 4, 3))
    for array in (np.asfortranarray(numbers), numbers.astype(">f8"), numbers.astype(np.float16)):
        pool = open_pool(write_npy(tmp_path / "a.npy", array), id="position", shape=[12])
        assert pool.x.shape == (9, 12)
        assert np.array_equal(pool.x[[8, 1]], array[[8, 1]].reshape(2, 12).astype(np.float32))
    assert open_pool(write_npy(tmp_path / "a.npy", numbers > 0), id="position").x.dtype == np.uint8


def test_arrays_in_memory(tmp_path):
    import torch

    for x in (PIXELS, PIXELS.tolist(), torch.from_numpy(PIXELS)):
        pool = ArrayPool(ids=IDS, x=x, persons=PERSONS, text=TEXTS)
        check_pool(pool)
        assert (pool.x[:] == PIXELS).all()
    assert ArrayPool(ids=range(COUNT), x=PIXELS).ids[:2] == ["0", "1"]
    with pytest.raises(BadInput, match="not equally many"):
        ArrayPool(ids=IDS[1:], x=PIXELS)


def test_positions_of_ids(opened):
    assert opened.places([opened.ids[7], opened.ids[0]]).tolist() == [7, 0]
    with pytest.raises(BadInput, match="1 of them are not in the pool"):
        opened.places([opened.ids[7], "nobody"])


def test_public_facts_are_what_was_declared(opened):
    facts = json.loads(json.dumps(opened.public()))
    assert (facts["kind"], facts["size"], facts["shape"]) == (opened.declared.kind, COUNT, list(SHAPE))
    assert not any(name in json.dumps(facts) + repr(opened) for name in (*IDS, *PERSONS))


def test_a_pool_feeds_scores_and_training(tmp_path):
    from discreet.scorers import build_scorer
    from discreet.scorers.score import pool_scores
    from discreet.trainers.dp_sgd import CohortRecords

    write, file, options = FILES["parquet"]
    pool = open_pool(write(tmp_path / file), **options, scale=255)
    seen = []
    scorer = build_scorer("entropy", classes=2)
    pool_scores(scorer, lambda piece: seen.append(piece) or np.full((len(piece), 2), 0.5), pool.x, rows=16)
    assert np.array_equal(np.concatenate(seen), pool.x[:])
    cohort = CohortRecords(x=pool.x, y=np.zeros(COUNT, int), persons=np.array(pool.persons))
    rows, readable = cohort.readable_rows(np.array([30, 2]))
    assert np.array_equal(rows, pool.x[[30, 2]])
    assert readable.all()


def test_an_option_that_means_nothing_is_not_passed_over(tmp_path):
    path = write_npy(tmp_path / "a.npy")
    for options in ({"columns": ["c0"]}, {"text": "note"}, {"person": "who"}, {"array": "x"}):
        with pytest.raises(BadInput, match="means nothing"):
            open_pool(path, id="position", **options)
    for options in ({"scale": 0}, {"scale": "fit"}, {"center": float("nan")}, {"shape": [0]}, {"size": True}):
        with pytest.raises(BadInput):
            open_pool(path, id="position", **options)
    with pytest.raises(BadInput, match="only text"):
        open_pool(write_parquet(tmp_path / "a.parquet"), **NAMED, text="note", scale=2)
    with pytest.raises(BadInput, match="as many numbers"):
        open_pool(tmp_path / "a.parquet", **NAMED, columns=COLUMNS, shape=[5, 2])
