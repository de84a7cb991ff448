"""The declared schema of a table: known answers, cells of any kind, and declarations that cannot be taken."""

import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput, InvalidConfig
from discreet.pools.schema import MOST_INPUTS, Schema

PEOPLE = {
    "missing_values": ["?", "-9"],
    "age": {"type": "number", "low": 0, "high": 100},
    "job": {"type": "category", "values": ["admin", 1]},
    "since": {"type": "date", "low": "2000-01-01", "high": datetime.date(2000, 1, 11)},
    "note": {"type": "text"},
}
SCHEMA = Schema.of(PEOPLE)


def one(column: dict, *cells: object, missing_values: tuple = ()) -> tuple[list, list]:
    """The inputs of some cells of one column, and whether their records can be read."""
    form = {"missing_values": list(missing_values), "value": column}
    matrix, readable = Schema.of(form).encode({"value": list(cells)})
    return matrix.tolist(), readable.tolist()


def test_inputs_have_names() -> None:
    assert SCHEMA.inputs == (
        "age",
        "age is missing",
        "job=admin",
        "job=1",
        "job is other",
        "job is missing",
        "since",
        "since is missing",
    )
    assert (SCHEMA.width, SCHEMA.text, SCHEMA.names) == (8, "note", ("age", "job", "since", "note"))


def test_a_number_is_scaled_clipped_or_missing() -> None:
    column = {"type": "number", "low": 0, "high": 100}
    rows, readable = one(column, "75", " 0 ", "1e3", "-3", "x", None, float("inf"), True, Decimal("25.0"))
    assert rows == [[0.5, 0], [-1, 0], [1, 0], [-1, 0], [0, 1], [0, 1], [1, 0], [np.float32(-0.98), 0], [-0.5, 0]]
    assert all(readable)


def test_what_is_declared_of_a_number_is_kept() -> None:
    column = {"type": "number", "low": 0, "high": 100}
    assert one(column | {"fill": 50, "outside": "missing"}, 100, 101, None)[0] == [[1], [0], [0]]
    assert one(column | {"fill": 50}, 101, -7, 100, None)[0] == [[1], [-1], [1], [0]]
    assert one(column | {"missing": "null", "outside": "null"}, 100, 101, None) == (
        [[1], [0], [0]],
        [True, False, False],
    )
    assert one(column | {"missing": "null", "outside": "missing"}, 100, 101) == ([[1], [0]], [True, False])
    assert one(column, -9, -9.0, "-9", missing_values=("-9",))[0] == [[0, 1]] * 3


def test_a_category_is_one_of_its_values_other_or_missing() -> None:
    column = {"type": "category", "values": ["a", 2, True]}
    rows, _ = one(column, "a", " 2", 2.0, "true", True, "b", "", None, "?", missing_values=("?",))
    assert rows == np.eye(5)[[0, 1, 1, 2, 2, 3, 4, 4, 4]].tolist()


def test_what_is_declared_of_a_category_is_kept() -> None:
    column = {"type": "category", "values": ["a", "b"]}
    assert one(column | {"fill": "b", "outside": "missing"}, "a", None, "c")[0] == [[1, 0], [0, 1], [0, 1]]
    assert one(column | {"fill": "b"}, "a", None, "c")[0] == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert one(column | {"missing": "null"}, "a", None, "c") == ([[1, 0, 0], [0, 0, 0], [0, 0, 1]], [True, False, True])
    assert one(column | {"outside": "null"}, "a", "c") == ([[1, 0, 0], [0, 0, 0]], [True, False])


def test_a_date_is_scaled_in_days() -> None:
    column = {"type": "date", "low": "2000-01-01", "high": "2000-01-11"}
    day = datetime.datetime(2000, 1, 6, 23)
    cells = [
        "2000-01-11",
        "2000-01-06T10:30",
        "2000-01-06 10:30:00",
        day,
        day.date(),
        "1999-01-01",
        "2000-02-31",
        "6.1.2000",
        5,
    ]
    assert one(column, *cells)[0] == [[1, 0], [0, 0], [0, 0], [0, 0], [0, 0], [-1, 0], [0, 1], [0, 1], [0, 1]]
    typed = pyarrow.array([day, None], pyarrow.timestamp("us"))
    assert Schema.of({"value": column}).encode({"value": typed})[0].tolist() == [[0, 0], [0, 1]]


def test_texts_that_are_missing_are_empty_or_nulls() -> None:
    cells = {"note": ["a b ", None, "", "?"]}
    assert Schema.of({"missing_values": ["?"], "note": {"type": "text"}}).texts(cells) == ["a b ", "", "", ""]
    strict = Schema.of({"note": {"type": "text", "missing": "null"}})
    assert strict.texts(cells) == ["a b ", None, None, "?"]
    assert strict.encode(cells)[1].tolist() == [True, False, False, True]


def test_counts_are_by_column_and_hold_no_record() -> None:
    table = {"age": [5, None, "x", 200], "job": ["admin", "b", None, 1], "since": ["2000-01-01"] * 4, "note": [""] * 4}
    strict = Schema.of(
        PEOPLE | {"age": PEOPLE["age"] | {"missing": "null"}, "job": PEOPLE["job"] | {"outside": "null"}}
    )
    counts = strict.count(table)
    assert counts.columns["age"] == {"missing": 1, "unreadable": 1, "outside": 1, "nulls": 2}
    assert counts.columns["job"] == {"missing": 1, "unreadable": 0, "outside": 1, "nulls": 1}
    assert (counts.records, counts.nulls) == (4, 2)
    assert ((counts + counts).nulls, (counts + counts).columns["age"]["outside"]) == (4, 2)
    assert "age" not in repr(counts)


def test_people_see_what_was_read() -> None:
    table = {
        "age": [5.25, None, 200],
        "job": ["admin", "b", 1],
        "since": ["2000-01-02", "", "2030-01-01"],
        "note": [""] * 3,
    }
    assert [SCHEMA.shown(inputs) for inputs in SCHEMA.encode(table)[0]] == [
        {"age": "5.25", "job": "admin", "since": "2000-01-02"},
        {"age": "(missing)", "job": "(other)", "since": "(missing)"},
        {"age": "100", "job": "1", "since": "2000-01-11"},
    ]


def test_the_stored_form_reads_back_and_keeps_the_order() -> None:
    form = SCHEMA.to_json()
    assert Schema.from_json(form) == SCHEMA
    assert [column["name"] for column in form["columns"]] == ["age", "job", "since", "note"]
    filled = Schema.of({"age": PEOPLE["age"] | {"fill": 3}})
    assert Schema.from_json(filled.to_json()) == filled


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.text(),
    st.text("0123456789-+.eE T:", max_size=12),
    st.dates().map(str),
    st.dates(),
    st.datetimes(),
    st.binary(),
    st.lists(st.integers(), max_size=2),
    st.just(object()),
    st.just(np.array([1.0])),
    st.just(np.float32(3)),
    st.just(np.datetime64("NaT")),
    st.sampled_from(["admin", "1", "?", "2000-01-03", float("nan"), 1 + 2j]),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=12))
def test_any_cells_are_read_and_a_row_is_of_its_own_record_alone(records: list) -> None:
    def table(rows: list) -> dict:
        return dict(zip(SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True))

    matrix, readable = SCHEMA.encode(table(records))
    assert matrix.shape == (len(records), SCHEMA.width)
    assert np.isfinite(matrix).all()
    assert (abs(matrix) <= 1).all()
    assert readable.all()
    texts = SCHEMA.texts(table(records))
    SCHEMA.count(table(records))
    for row, record in enumerate(records):
        alone, _ = SCHEMA.encode(table([record]))
        assert (alone[0] == matrix[row]).all()
        assert SCHEMA.texts(table([record])) == [texts[row]]


TYPES = [
    pyarrow.int8(), pyarrow.uint64(), pyarrow.float16(), pyarrow.float32(), pyarrow.float64(), pyarrow.bool_(),
    pyarrow.null(), pyarrow.string(), pyarrow.large_string(), pyarrow.string_view(), pyarrow.binary(), pyarrow.date32(),
    pyarrow.date64(), pyarrow.timestamp("ns"), pyarrow.timestamp("s", tz="Asia/Tokyo"), pyarrow.time32("s"),
    pyarrow.duration("s"), pyarrow.decimal128(10, 2), pyarrow.list_(pyarrow.int8()),
    pyarrow.struct([("a", pyarrow.int8())]),
    pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), pyarrow.dictionary(pyarrow.int8(), pyarrow.int64()),
]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_columns_of_any_type_are_read(kind: pyarrow.DataType) -> None:
    values = [None, None, None]
    if pyarrow.types.is_dictionary(kind):
        cells = pyarrow.array(values, kind.value_type).dictionary_encode()
    elif pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
        cells = pyarrow.array([None, 1, 0] if not pyarrow.types.is_temporal(kind) else values, kind)
    else:
        cells = pyarrow.array(values, kind)
    for column in (cells, pyarrow.chunked_array([cells, cells]), pyarrow.chunked_array([], kind)):
        table = dict.fromkeys(SCHEMA.names, column)
        matrix, readable = SCHEMA.encode(table)
        assert len(matrix) == len(readable) == len(column)
        assert len(SCHEMA.texts(table)) == len(column)


def test_a_text_that_is_not_utf8_is_missing() -> None:
    cells = pyarrow.array([b"\xff", b"admin"], pyarrow.binary()).view(pyarrow.string())
    table = dict.fromkeys(SCHEMA.names, cells)
    assert SCHEMA.encode(table)[0][:, 2].tolist() == [0, 1]
    assert SCHEMA.texts(table) == ["", "admin"]


DECLARATIONS = {
    "not a table of columns": [1],
    "declares no column": {},
    "is not a column": {"age": 5},
    "there is no 'numbr'": {"age": {"type": "numbr"}},
    "[age] type: it is missing": {"age": {}},
    "is not a word": {"age": {"type": 3}},
    "low = 0.0 is not below high = 5e-324": {"age": {"type": "number", "low": 0, "high": 5e-324}},
    "values: '?' is one of missing_values": {
        "missing_values": ["?"],
        "job": {"type": "category", "values": ["?", "a"]},
    },
    "[age] high: it is missing": {"age": {"type": "number", "low": 0}},
    "low = 5.0 is not below high = 5.0": {"age": {"type": "number", "low": 5, "high": 5}},
    "is not a number from": {"age": {"type": "number", "low": "a", "high": 5}},
    "is not a day of the calendar": {"age": {"type": "date", "low": "2000-02-31", "high": "2001-01-01"}},
    "stands in it twice": {"job": {"type": "category", "values": [1, "1"]}},
    "[job] values: it has 0 entries": {"job": {"type": "category", "values": []}},
    "has no such key": {"job": {"type": "category", "values": ["a"], "low": 3}},
    "it and missing both say": {"job": {"type": "category", "values": ["a"], "fill": "a", "missing": "null"}},
    "'b' is outside of what is declared": {"job": {"type": "category", "values": ["a"], "fill": "b"}},
    "7.0 is outside of what is declared": {"age": {"type": "number", "low": 0, "high": 5, "fill": 7}},
    "several columns of text": {"a": {"type": "text"}, "b": {"type": "text"}},
    "is not a list": {"missing_values": "?", "a": {"type": "text"}},
}


@pytest.mark.parametrize("fact", DECLARATIONS)
def test_a_declaration_that_cannot_be_taken_says_why(fact: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        Schema.of(DECLARATIONS[fact])
    assert fact in str(refused.value)


@pytest.mark.parametrize("count", [MOST_INPUTS - 1, 100_000])
def test_too_many_categories_are_refused_with_what_to_do(count: int) -> None:
    with pytest.raises(InvalidConfig, match="Declare the frequent"):
        Schema.of({"zip": {"type": "category", "values": list(range(count))}})


def test_every_mistake_of_a_file_is_told_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "schema.toml"
    file.write_bytes(
        b'\xef\xbb\xbfmissing_values = 3\n[age]\ntype = "number"\nlow = 9\nhigh = 1\n[job]\ntype = "word"\n'
    )
    with pytest.raises(InvalidConfig) as refused:
        Schema.of(file)
    lines = str(refused.value).split("\n")
    assert [line.split(":")[0] for line in lines] == [f"schema.toml, line {number}" for number in (1, 4, 7)]


def test_every_wrong_value_of_a_list_is_told_at_once() -> None:
    with pytest.raises(InvalidConfig) as refused:
        Schema.of({"job": {"type": "category", "values": ["a", "", 1, float("nan"), "a", 1.0]}})
    assert [line.split(":")[1] for line in str(refused.value).split("\n")] == [
        f" [job] values {place}" for place in (1, 3, 4, 5)
    ]


@pytest.mark.parametrize("content", [b"\xff", b"[age", b"x = " + b"[" * 5000])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "schema.toml").write_bytes(content)
    with pytest.raises(InvalidConfig, match=r"schema\.toml"):
        Schema.of(tmp_path / "schema.toml")
    with pytest.raises(InvalidConfig, match="no such file"):
        Schema.of(str(tmp_path / "other.toml"))


FORMS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.dates()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "low", "high", "values", "missing", "fill", "outside", "name", "x"]), inner
        )
    ),
    max_leaves=8,
)

COLUMNS = st.fixed_dictionaries(
    {"type": st.sampled_from(["number", "category", "date", "text"])},
    optional=dict.fromkeys(["low", "high", "values", "fill"], FORMS),
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["age", "columns", "missing_values", ""]), FORMS | COLUMNS))
def test_any_declaration_is_taken_or_refused(form: dict) -> None:
    try:
        schema = Schema.of(form)
    except InvalidConfig as refused:
        str(refused)
    else:
        assert Schema.from_json(schema.to_json()) == schema


def test_a_table_without_a_column_is_refused() -> None:
    with pytest.raises(BadInput, match="'job'"):
        SCHEMA.encode({"age": [1]})
