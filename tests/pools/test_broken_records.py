"""A record that cannot be read is zeros, silently; its owner may ask which. A reader that cannot read says so."""

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pool_files import (
    COLUMNS,
    COUNT,
    FILES,
    IDS,
    PIXELS,
    SHAPE,
    table,
    write_csv,
    write_images,
    write_npy,
    write_parquet,
)
from pyarrow import csv, parquet

from discreet.errors import BadInput
from discreet.pools import ArrayPool, JoinedPool, cell_counts, open_frame, open_pool
from discreet.testing import check_pool


def blank(pool, broken, fine):
    """The broken ones are zeros, alone and among others; all others are what they were."""
    check_pool(pool)
    assert np.flatnonzero(pool.broken(slice(None))).tolist() == sorted(broken)
    assert not pool.x[sorted(broken)].any()
    others = [place for place in range(len(pool)) if place not in broken]
    assert np.array_equal(pool.x[others], fine[others])
    assert np.array_equal(np.asarray(pool.x)[others], fine[others])


def test_numbers_that_are_not_finite(tmp_path):
    numbers = PIXELS.astype(np.float64)
    numbers[3, 0, 0], numbers[11, 1, 1], numbers[12, 2, 2], numbers[13] = np.nan, np.inf, 1e300, [[np.inf, -np.inf, 0]]
    fine = PIXELS.astype(np.float32)
    blank(open_pool(write_npy(tmp_path / "a.npy", numbers), id="position"), {3, 11, 12, 13}, fine)
    path = write_parquet(tmp_path / "a.parquet", table(numbers))
    for columns in (COLUMNS, ["list"]):
        blank(open_pool(path, id="name", columns=columns, shape=SHAPE), {3, 11, 12, 13}, fine)
    blank(ArrayPool(ids=IDS, x=numbers), {3, 11, 12, 13}, fine)
    write_csv(tmp_path / "a.csv", numbers)
    blank(open_pool(tmp_path / "a.csv", id="name", columns=COLUMNS, shape=SHAPE), {3, 11, 12, 13}, fine)


def test_large_numbers_are_not_broken(tmp_path):
    """Their sum is infinite, they are not."""
    numbers = np.full((9, 4), 3e38, dtype=np.float32)
    pool = open_pool(write_npy(tmp_path / "a.npy", numbers), id="position")
    assert not pool.broken(slice(None)).any()
    assert (pool.x[:] == numbers).all()


def test_gaps_and_lists_of_another_length(tmp_path):
    flat = PIXELS.reshape(COUNT, -1)
    lists = flat.tolist()
    lists[2], lists[8], lists[20], lists[39] = None, [1, 2], lists[20] + [1], [None, *lists[39][1:]]
    first = flat[:, 0].tolist()
    first[5] = None
    content = table().set_column(3, "list", pa.array(lists, pa.list_(pa.uint8())))
    content = content.set_column(4, "c0", pa.array(first, pa.uint8()))
    path = write_parquet(tmp_path / "a.parquet", content)
    blank(open_pool(path, id="name", columns=["list"], shape=SHAPE), {2, 8, 20, 39}, PIXELS)
    blank(open_pool(path, id="name", columns=COLUMNS, shape=SHAPE), {5}, PIXELS)
    fixed = pa.array([None if place == 4 else row for place, row in enumerate(flat.tolist())], pa.list_(pa.uint8(), 12))
    parquet.write_table(pa.table({"name": IDS, "list": fixed}), path, row_group_size=9)
    blank(open_pool(path, id="name", columns=["list"], shape=SHAPE), {4}, PIXELS)


def test_cells_that_are_no_numbers(tmp_path):
    path = write_csv(tmp_path / "a.csv")
    lines = ["name,c0,c1", "a, 1 ,+.5", "b,,2", "c,x,2", "d,1e3,-2.", "e,0x10,1", "f,1_0,1", "g,nan,1", "h,2,3"]
    path.write_text("\n".join(lines))
    expected = np.zeros((8, 2), np.float32)
    expected[[0, 3, 7]] = [[1, 0.5], [1000, -2], [2, 3]]
    blank(open_pool(path, id="name", columns=["c0", "c1"]), {1, 2, 4, 5, 6}, expected)


def test_missing_and_undecodable_texts(tmp_path):
    texts = [None, "a", "", "b"]
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"name": list("wxyz"), "note": texts}), path)
    pool = open_pool(path, id="name", text="note")
    assert pool.broken([0, 1, 2, 3]).tolist() == [True, False, False, False]
    assert pool.text[:] == ["", "a", "", "b"]
    raw = pa.Array.from_buffers(pa.string(), 4, pa.array([b"\xff", b"a", b"b", b"c"], pa.binary()).buffers())
    parquet.write_table(pa.table({"name": list("wxyz"), "note": raw}), path)
    pool = open_pool(path, id="name", text="note")
    assert pool.broken([1, 0]).tolist() == [False, True]
    assert pool.text[:] == ["", "a", "b", "c"]


@pytest.fixture
def pictures(tmp_path):
    folder = write_images(tmp_path / "scans")
    (folder / IDS[1]).write_bytes(b"no picture")
    (folder / IDS[2]).write_bytes((folder / IDS[3]).read_bytes()[:-45])
    Image.fromarray(PIXELS[4].T.copy()).save(folder / IDS[4])
    Image.fromarray(PIXELS[5].astype(np.uint16)).save(folder / IDS[5])
    return folder


def test_pictures(pictures):
    pool = open_pool(pictures, shape=SHAPE)
    (pictures / IDS[6]).unlink()
    blank(pool, {1, 2, 4, 5, 6}, PIXELS)


def test_a_broken_record_of_a_further_cohort(pictures):
    plain = ArrayPool(ids=[f"other {name}" for name in IDS], x=PIXELS)
    blank(JoinedPool([plain, open_pool(pictures, shape=SHAPE)]), {41, 42, 44, 45}, np.concatenate([PIXELS, PIXELS]))


def test_colours_and_palettes(tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    colours = np.random.default_rng(1).integers(0, 256, (4, 3, 3), dtype=np.uint8)
    picture = Image.fromarray(colours)
    picture.save(folder / "a.png")
    picture.convert("RGBA").save(folder / "b.tiff")
    picture.save(folder / "c.bmp")
    picture.save(folder / "d.jpg")
    Image.fromarray(colours[..., 0]).save(folder / "e.pgm")
    indexed = picture.quantize(16)
    indexed.save(folder / "f.png", transparency=bytes(16))
    (folder / "notes.txt").write_text("passed over")
    (folder / ".g.png").write_text("passed over")
    pool = open_pool(folder, shape=(3, 4, 3))
    assert pool.ids == ["a.png", "b.tiff", "c.bmp", "d.jpg", "e.pgm", "f.png"]
    assert not pool.broken(slice(None)).any()
    for place in (0, 1, 2):
        assert (pool.x[place] == np.moveaxis(colours, -1, 0)).all()
    assert (pool.x[4] == colours[..., 0]).all()
    assert (open_pool(folder, shape=(4, 3)).x[0] == np.asarray(picture.convert("L"))).all()
    assert (open_pool(folder, shape=(1, 4, 3)).x[0][0] == np.asarray(picture.convert("L"))).all()


def test_none_of_several_is_the_reader(tmp_path):
    write, file, _ = FILES["images"]
    pool = open_pool(write(tmp_path / file), shape=(5, 5))
    with pytest.raises(BadInput, match="none of 8 could be read"):
        pool.x[:8]
    with pytest.raises(BadInput, match="none of 40"):
        pool.broken(slice(None))
    assert not pool.x[:7].any()
    nothing = open_pool(write_npy(tmp_path / "a.npy", np.full((9, 2), np.nan)), id="position")
    with pytest.raises(BadInput, match="none of 9"):
        nothing.x[:]


class Failing:
    shape, dtype = (20, 3), np.dtype(np.float32)

    def __len__(self):
        return 20

    def __getitem__(self, key):
        places = np.arange(20)[key]
        if (places == 4).any():
            raise RuntimeError("patient Miller")
        return np.repeat(places[:, None], 3, axis=1).astype(np.float32) + 1


def test_the_reader_of_a_user_may_fail_on_a_record():
    pool = ArrayPool(ids=IDS[:20], x=Failing())
    blank(pool, {4}, np.repeat(np.arange(1.0, 21)[:, None], 3, axis=1).astype(np.float32))


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "frame", "texts"])
def test_cells_of_tables_may_all_be_missing(tmp_path, kind):
    """One record that can be read would have turned the error into none: an error of private cells."""
    cells = {"name": [f"r{row}" for row in range(40)], "age": ["24.12.2001"] * 40, "dose": [None] * 40}
    frame = pa.table(cells, schema=pa.schema([(name, pa.string()) for name in cells]))
    numbers = frame.set_column(1, "age", pa.nulls(40, pa.float64())).set_column(2, "dose", pa.nulls(40, pa.float64()))
    options = {"id": "name", "text": "dose"} if kind == "texts" else {"id": "name", "columns": ["age", "dose"]}
    if kind in ("frame", "texts"):
        pool = open_frame(frame, **options)
    elif kind == "csv":
        csv.write_csv(frame, tmp_path / "a.csv")
        pool = open_pool(tmp_path / "a.csv", **options)
    elif kind == "parquet":
        parquet.write_table(numbers, tmp_path / "a.parquet")
        pool = open_pool(tmp_path / "a.parquet", **options)
    else:
        with pa.ipc.new_file(tmp_path / "a.arrow", numbers.schema) as file:
            file.write_table(numbers)
        pool = open_pool(tmp_path / "a.arrow", **options)
    assert pool.broken(slice(None)).all()
    assert cell_counts(pool).nulls == 40
