"""Tables in memory as pools: the same records by every library, and no cell that raises or is shown."""

import datetime
import decimal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pool_files import COUNT, IDS, PIXELS, table
from pyarrow import parquet
from test_pool_refusals import SECRET, refused

from discreet.pools import JoinedPool, ManifestKey, macs, open_frame, open_pool
from discreet.testing import check_pool

SCHEMA = {
    "age": {"type": "number", "low": 0, "high": 100},
    "job": {"type": "category", "values": ["clerk", "smith"]},
    "since": {"type": "date", "low": "2000-01-01", "high": "2030-01-01"},
    "note": {"type": "text"},
}
DAY = datetime.date(2015, 1, 1)
ROWS = {
    "id": [f"r{row}" for row in range(30)],
    "who": [row // 3 for row in range(30)],
    "age": [None if row % 7 == 0 else row * 5 for row in range(30)],
    "job": ["clerk", "smith", "other", None, "clerk"] * 6,
    "since": [None if row % 5 == 0 else DAY + datetime.timedelta(days=row) for row in range(30)],
    "note": [f"note {row}" if row % 4 else None for row in range(30)],
}


def as_dataset(columns):
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_dict(columns).select(range(30))  # with indices, as after a filter


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas of arrow": lambda columns: pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas, index": lambda columns: pd.DataFrame(columns).set_index("id"),
    "polars": pl.DataFrame,
    "arrow table": pa.table,
    "arrow batch": pa.RecordBatch.from_pydict,
    "dataset": as_dataset,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_library_gives_the_records_of_a_file(kind, tmp_path):
    parquet.write_table(pa.table(ROWS), tmp_path / "a.parquet")
    for options in ({"schema": SCHEMA}, {"columns": ["age"], "text": "note", "center": 50, "scale": 25.0}):
        file = open_pool(tmp_path / "a.parquet", id="id", person="who", **options)
        pool = open_frame(FRAMES[kind](ROWS), id="id", person="who", **options)
        check_pool(pool)
        assert (pool.ids, pool.persons) == (file.ids, file.persons)
        assert np.array_equal(pool.x[:], file.x[:])
        assert list(pool.text) == list(file.text)
        assert pool.broken(slice(None)).tolist() == file.broken(slice(None)).tolist()
        key = ManifestKey(b"k" * 32)
        assert dict(macs(pool, key)) == dict(macs(file, key))
        assert pool.public()["kind"] == "arrays"


def test_lists_of_numbers_are_records():
    for frame in (pd.DataFrame({"id": IDS, "v": list(PIXELS.reshape(COUNT, -1))}), pl.from_arrow(table()), table()):
        name = "v" if "v" in frame else "list"
        pool = open_frame(frame, id="id" if name == "v" else "name", columns=[name], shape=PIXELS.shape[1:])
        assert (pool.x[:] == PIXELS).all()
    mixed = pd.DataFrame({"id": range(4), "v": [[1, 2], [SECRET, 2], [1, 2, 3], None]})
    broken = open_frame(mixed, id="id", columns=["v"], shape=[2]).broken(slice(None))
    assert broken.tolist() == [False, True, True, True]


class Raising:
    """A cell that cannot be used in any way."""

    def __float__(self):
        raise RuntimeError(SECRET)

    __str__ = __repr__ = __bool__ = __eq__ = __hash__ = __float__


NONSENSE = [
    "12", 13, 14.0, True, None, float("nan"), float("inf"), "", "  15 ", SECRET, "2015-01-01", DAY, b"\xff", [SECRET],
    {}, 10**400, decimal.Decimal("1.5"), np.float32(2), np.array([1]), "\ud800", object(), Raising(), pd.NA, pd.NaT,
    1 + 2j, pd.Timestamp(DAY),
]  # fmt: skip


def test_cells_of_any_type_are_read_or_missing_and_raise_nothing():
    count = len(NONSENSE)
    cells = pd.DataFrame({"id": range(count), "age": NONSENSE, "job": NONSENSE, "since": NONSENSE, "note": NONSENSE})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pool = open_frame(cells, id="id", schema=SCHEMA)
        pool.x[:]
        list(pool.text)
        counts = pool.x.counts()
        plain = open_frame(cells, id="id", columns=["age"], text="note")
        readable = np.flatnonzero(~plain.broken(slice(None)))
    numbers = {0: 12, 1: 13, 2: 14, 8: 15}
    assert {row: plain.x[row].item() for row in readable if row in numbers} == numbers
    assert counts.nulls == 0
    assert counts.columns["since"]["unreadable"] == 10
    assert SECRET not in repr(pool) + repr(pool.public()) + repr(pool.x)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_that_are_missing_altogether_are_missing(make):
    empty = {"id": list(range(20)), "age": [None] * 20, "job": [None] * 20, "since": [None] * 20, "note": [None] * 20}
    pool = open_frame(make(empty), id="id", schema=SCHEMA)
    assert not pool.broken(slice(None)).any()
    assert pool.x.counts().columns["age"] == {"missing": 20, "unreadable": 0, "outside": 0, "nulls": 0}


def test_an_object_column_of_polars_is_read_cell_by_cell():
    cells = pl.DataFrame({"id": range(3), "age": pl.Series([1, SECRET, object()], dtype=pl.Object)})
    assert open_frame(cells, id="id", columns=["age"]).broken(slice(None)).tolist() == [False, True, True]


def test_what_is_declared_is_refused_in_words_without_a_cell():
    frame = pd.DataFrame(ROWS | {"id": [SECRET] * 30})
    refused("29 repeat an id", lambda: open_frame(frame, id="id", columns=["age"]))
    refused("no column 'nothing'", lambda: open_frame(frame, id="nothing", columns=["age"]))
    message = refused("no column 'patient'", lambda: open_frame(frame, id="id", columns=["patient"]))
    assert "id, who, age, job, since, note" in message
    refused("2 column 'age'", lambda: open_frame(frame[["id", "age", "age"]], id="id", columns=["age"]))
    refused("there is no record", lambda: open_frame(frame[:0], id="id", columns=["age"]))
    refused("6 are missing", lambda: open_frame(frame, id="since", columns=["age"]))
    refused("what of it a model may read", lambda: open_frame(frame, id="id"))
    refused("it is not one table in memory", lambda: open_frame([[SECRET]], id="id", columns=["age"]))
    refused("it is not one table in memory", lambda: open_frame(pl.DataFrame(ROWS).lazy(), id="id", columns=["age"]))
    refused("a schema declares", lambda: open_frame(frame, id="id", schema=SCHEMA, center=3))


def test_a_further_frame_joins():
    first = open_frame(pd.DataFrame(ROWS), id="id", schema=SCHEMA)
    more = open_frame(pl.DataFrame(ROWS | {"id": [f"n{row}" for row in range(30)]}), id="id", schema=SCHEMA)
    assert len(JoinedPool([first, more])) == 60


DECLARED = {
    "number": {"c": {"type": "number", "low": 0, "high": 100}},
    "category": {"c": {"type": "category", "values": ["1", "2.5", "true", "a"]}},
    "date": {"c": {"type": "date", "low": "1990-01-01", "high": "2030-01-01"}},
    "text": {"c": {"type": "text"}, "k": {"type": "number", "low": 0, "high": 1}},
}
TIMES = pd.to_datetime(["2001-01-01 23:30", "2005-05-05 00:10", "2010-01-01 12:00"])
TYPED = [
    pd.Series([1, 2, 20240131]),
    pd.Series([1.0, 2.5, 0.1]),
    pd.Series([True, False, True]),
    pd.Series([1, 2, None], dtype="Int64"),
    pd.Series([True, None, True], dtype="boolean"),
    pd.Series(["1", " a ", "x"], dtype="string"),
    pd.Series(TIMES),
    pd.Series(TIMES.tz_localize("America/New_York")),
    pd.Series(pd.to_timedelta([1, 2, 3], unit="D")),
    pd.Series(pd.period_range("2001-01-01", periods=3, freq="D")),
    pd.Series(pd.Categorical(["1", "a", "a"], categories=["1", "a", 7, SECRET])),
    pd.Series([b"1", b"a", b"\xff"], dtype=pd.ArrowDtype(pa.binary())),
]


def opened(cells, **options):
    """What is read of three records, and what is told of them."""
    pool = open_frame(pd.DataFrame({"id": range(3), "c": cells, "k": [0.0, 0.5, 1.0]}), id="id", **options)
    numbers = None if pool.x is None else pool.x[:].tolist()
    return numbers, None if pool.text is None else list(pool.text), pool.public()


@pytest.mark.parametrize("kind", DECLARED)
@pytest.mark.parametrize("cells", TYPED, ids=lambda cells: str(cells.dtype))
def test_the_type_of_a_column_depends_on_private_cells_and_changes_nothing(cells, kind):
    """One word in a column makes it one of objects: neither an error nor another record may follow from that."""
    plain = cells.astype(object)
    assert opened(cells, schema=DECLARED[kind]) == opened(plain, schema=DECLARED[kind])
    assert opened(cells, columns=["c", "k"], center=1, scale=3) == opened(plain, columns=["c", "k"], center=1, scale=3)
    assert opened(cells, text="c") == opened(plain, text="c")
    spoilt = plain.copy()
    spoilt[0] = SECRET
    for options in ({"schema": DECLARED[kind]}, {"columns": ["c"]}):
        (before, texts, public), (after, others, told) = opened(cells, **options), opened(spoilt, **options)
        assert (before[1:], public) == (after[1:], told)
        assert texts is None or texts[1:] == others[1:]


def test_a_stream_of_a_data_set_is_refused_as_no_table():
    datasets = pytest.importorskip("datasets")
    stream = datasets.Dataset.from_dict({"id": ["a"], "age": [1]}).to_iterable_dataset()
    refused("it is not one table in memory", lambda: open_frame(stream, id="id", columns=["age"]))


@pytest.mark.parametrize("shape", [None, [2]])
def test_a_complex_number_in_a_cell_is_missing_and_warns_of_nothing(shape):
    cells = np.empty(4, dtype=object)
    for row in range(4):
        cells[row] = 1.0 if shape is None else [1.0, 2.0]
    cells[2] = np.complex128(3 + 1j)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pool = open_frame(pd.DataFrame({"id": list("abcd"), "a": cells}), id="id", columns=["a"], shape=shape)
    assert pool.broken(slice(None)).tolist() == [False, False, True, False]
    assert not told
