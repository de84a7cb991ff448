"""Declared columns: a record's row depends on that record alone, and nothing that is wrong with it is told."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput
from discreet.stream.columns import ChoiceColumn, NumberColumn, RecordSchema

SCHEMA = RecordSchema(
    columns=(
        NumberColumn(name="amount", center=10, scale=4),
        ChoiceColumn(name="service", values=("http", "smtp", "80")),
        ChoiceColumn(name="guest", values=(True, False)),
    )
)


def test_numbers_are_scaled_and_choices_are_one_hot():
    assert SCHEMA.width == 6
    rows = SCHEMA.many(
        [
            {"amount": 14, "service": "smtp", "guest": True, "other": object()},
            {"amount": "6", "service": 80, "guest": "false"},
        ]
    )
    assert rows.tolist() == [[1, 0, 1, 0, 1, 0], [-1, 0, 0, 1, 0, 1]]


STRANGE = [
    {},
    None,
    7,
    "text",
    [1, 2],
    {"amount": None, "service": None, "guest": None},
    {"amount": "secret", "service": "secret", "guest": "secret"},
    {"amount": float("nan"), "service": float("nan"), "guest": float("inf")},
    {"amount": float("inf"), "service": ["http"], "guest": {}},
    {"amount": 10**400, "service": 10**5000, "guest": 2},
    {"amount": np.ones(1), "service": b"http", "guest": 0.5},
]


@pytest.mark.parametrize("record", STRANGE)
def test_what_is_missing_or_unknown_gives_zeros_and_no_error(record):
    assert SCHEMA.many([record])[0].tolist() == [0.0] * 6


def test_a_strange_record_leaves_the_others_as_they_are():
    fine = {"amount": 11, "service": "http", "guest": False}
    alone = SCHEMA.many([fine])[0]
    for strange in STRANGE:
        assert SCHEMA.many([strange, fine])[1].tolist() == alone.tolist()


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(["http", "80", "true", "x"]))


@settings(deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional={"amount": VALUES, "service": VALUES, "guest": VALUES}), max_size=6))
def test_rows_alone_and_among_others_are_the_same_to_the_bit(records):
    together = SCHEMA.many(records)
    assert np.isfinite(together).all()
    for record, row in zip(records, together, strict=True):
        assert SCHEMA.many([record])[0].tobytes() == row.tobytes()


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.bool_, "U8", object])
def test_tables_of_columns_give_the_same_rows(kind):
    values = np.array([0, 1, 1, 0]).astype(kind)
    schema = RecordSchema(columns=(ChoiceColumn(name="flag", values=("0", "1", "true")), NumberColumn(name="flag2")))
    records = [{"flag": value, "flag2": value} for value in values.tolist()]
    assert schema.table({"flag": values, "flag2": values}, 4).tolist() == schema.many(records).tolist()


def test_a_column_that_is_not_there_is_missing_everywhere():
    rows = SCHEMA.table({"service": ["http", "http"]}, 2)
    assert rows.sum(axis=0).tolist() == [0, 2, 0, 0, 0, 0]
    with pytest.raises(BadInput, match="it has not 3 values"):
        SCHEMA.table({"service": ["http"]}, 3)


def test_it_reads_back_from_json():
    form = json.loads(json.dumps(SCHEMA.to_json()))
    assert RecordSchema.from_json(form) == SCHEMA
    for broken in ([], {}, [{}], [form[0] | {"extra": 1}], [{"name": "a", "kind": "text"}], [form[0], form[0]]):
        with pytest.raises(BadInput):
            RecordSchema.from_json(broken)


@pytest.mark.parametrize(
    "make",
    [
        lambda: NumberColumn(name=""),
        lambda: NumberColumn(name="a", scale=0),
        lambda: NumberColumn(name="a", center=float("nan")),
        lambda: NumberColumn(name="a", scale=True),
        lambda: ChoiceColumn(name="a", values=()),
        lambda: ChoiceColumn(name="a", values="http"),
        lambda: ChoiceColumn(name="a", values=("1", 1)),
        lambda: ChoiceColumn(name="a", values=(0.5,)),
        lambda: RecordSchema(columns=()),
        lambda: RecordSchema(columns=("amount",)),
    ],
)
def test_declarations_that_mean_nothing_are_refused(make):
    with pytest.raises(BadInput):
        make()
