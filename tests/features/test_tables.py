"""Feature maps of tables: known answers, missing and other cells, crosses, fitting on public rows, the contract."""

import numpy as np
import pandas as pd
import pytest

from discreet.errors import BadInput
from discreet.features import Bins, OneHot, Spline, Standardise, build_feature_map, feature_map_from_json
from discreet.features.table_options import public_edges
from discreet.pools import Schema
from discreet.testing import check_feature_map

SCHEMA = Schema.of(
    {
        "age": {"type": "number", "low": 0, "high": 100},
        "job": {"type": "category", "values": ["nurse", "cook"]},
        "since": {"type": "date", "low": "2020-01-01", "high": "2021-01-01", "missing": "null"},
        "note": {"type": "text"},
    }
)
NAMES = ("bins", "spline", "standardise", "one-hot")
ROWS = np.array(
    [
        [17.0, "nurse", "2020-02-01", ""],
        [65.5, "cook", "2020-12-31", "x"],
        [None, None, "2020-07-01", None],
        [-1e9, "pilot", "2020-07-01", "y"],
        [40, "nurse", "2020-05-05", "z"],
    ],
    dtype=object,
)


def built(name, rows=ROWS, **options):
    return build_feature_map(name, schema=SCHEMA, **options).readable(rows)


def test_a_thermometer_is_the_definition():
    values, fine = built("bins", edges={"age": [18, 30, 65], "since": [18_500.0]})
    assert fine.all()
    share = 1 / np.sqrt(3)  # three groups
    age = np.array([[-1, -1, -1], [1, 1, 1], [0, 0, 0], [-1, -1, -1], [1, 1, -1]]) / np.sqrt(3)
    assert values[:, :3] == pytest.approx(share * age, abs=1e-6)
    assert values[:, 3] == pytest.approx(share * np.array([0, 0, 1, 0, 0]))  # missing
    job = np.array(
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0]]
    )  # nurse, cook, other, missing
    assert values[:, 4:8] == pytest.approx(share * job)
    assert np.linalg.norm(values, axis=1) == pytest.approx(np.ones(5), abs=1e-6)


def test_hats_are_the_definition():
    values, _ = built("spline", edges={"age": [20, 40, 60]})
    hats = [[1, 0, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert values[:, :3] == pytest.approx(np.array(hats) / np.sqrt(3), abs=1e-6)
    between, _ = built("spline", np.array([[25, "cook", "2020-02-02", ""]], dtype=object), edges={"age": [20, 40, 60]})
    assert between[0, :3] == pytest.approx(np.array([0.75, 0.25, 0]) / np.sqrt(3))


def test_scales_are_the_definition():
    values, _ = built("standardise", scales={"age": [40, 10]})
    assert values[:, 0] == pytest.approx(np.array([-23 / 40, 25.5 / 40, 0, -1, 0]) / np.sqrt(3), abs=1e-6)


def test_one_hot_keeps_the_place_within_the_bounds():
    values, _ = built("one-hot")
    assert values[:, 0] == pytest.approx(np.array([-0.66, 0.31, 0, -1, -0.2]) / np.sqrt(3), abs=1e-6)


def test_a_cross_has_an_indicator_for_each_combination():
    made = build_feature_map("bins", schema=SCHEMA, edges={"age": [18, 65]}, crosses=[["age", "job"]])
    values = made.transform(ROWS)[:, -16:] * 2  # (3 intervals + missing) x (2 values + other + missing), four groups
    assert values.argmax(axis=1).tolist() == [0, 9, 15, 2, 4]
    assert values.sum(axis=1) == pytest.approx(np.ones(5))


def test_a_null_of_the_schema_is_a_null():
    rows = ROWS.copy()
    rows[1, 2] = None
    values, fine = built("bins", rows)
    assert fine.tolist() == [True, False, True, True, True]
    assert not values[1].any()


def test_frames_arrays_and_columns_are_the_same_records():
    frame = pd.DataFrame(ROWS, columns=SCHEMA.names)
    columns = {name: ROWS[:, place] for place, name in enumerate(SCHEMA.names)}
    expected = built("bins")[0]
    for table in (frame, columns):
        assert np.array_equal(built("bins", table)[0], expected)


@pytest.mark.parametrize("name", NAMES)
def test_it_keeps_the_contract(name):
    kinds = {kind.name: kind for kind in (Bins, Spline, Standardise, OneHot)}
    nulls = np.array([[17.0, "nurse", None, ""], [None, None, "soon", None]], dtype=object)
    check_feature_map(lambda: kinds[name](schema=SCHEMA, crosses=(("age", "job"),)), ROWS, nulls=nulls)
    numbers = Schema.of({word: {"type": "number", "low": -3, "high": 3} for word in "abc"})
    check_feature_map(lambda: kinds[name](schema=numbers), np.random.default_rng(0).normal(size=(9, 3)), nulls=[])


@pytest.mark.parametrize("name", NAMES)
def test_a_fitted_map_reads_back(name):
    rng = np.random.default_rng(0)
    public = pd.DataFrame(
        {"age": rng.normal(40, 9, 500), "job": "cook", "since": pd.Timestamp("2020-03-01"), "note": ""}
    )
    made = build_feature_map(name, schema=SCHEMA, public=public, edges=7)
    assert len(made.edges["age"]) == 7
    assert np.mean(public["age"] > made.edges["age"][3]) == pytest.approx(0.5, abs=0.01)
    assert made.edges["since"] != ()  # one value says nothing: the bounds do
    assert feature_map_from_json(made.identity()) == made
    if name == "standardise":
        assert made.scales["age"] == pytest.approx((public["age"].mean(), public["age"].std(ddof=0)))


def test_edges_tell_frequent_values_from_others():
    assert public_edges(np.array([0.0, 1.0] * 9), 16) == (0.5,)
    zeros = public_edges(np.array([0.0] * 900 + list(range(1, 101))), 4)
    assert zeros == (0.5, 24.5, 49.5, 74.5)
    middle = public_edges(np.array([5.0] * 900 + list(np.linspace(0, 10, 101))), 3)
    assert {round(edge, 2) for edge in middle} >= {4.95, 5.05}
    rng = np.random.default_rng(0)
    for count in range(1, 20):  # whatever the values are
        some = rng.choice(rng.normal(size=30), 100)
        assert len(public_edges(some, count)) <= count
    values = rng.normal(size=10_000)
    edges = public_edges(values, 16)
    assert len(edges) == 16
    counts = np.bincount(np.searchsorted(np.array(edges), values), minlength=17)
    assert counts.max() - counts.min() <= 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"edges": {"ages": [1]}}, "no column of numbers"),
        ({"edges": {"age": [30, 18]}}, "do not rise"),
        ({"edges": {"age": [30, 180]}}, "bounds"),
        ({"edges": {"age": []}}, "entries"),
        ({"edges": "many"}, "not a table"),
        ({"edges": 0}, "whole number"),
        ({"crosses": [["age"]]}, "entries"),
        ({"crosses": [["age", "size"]]}, "no such column"),
        ({"crosses": [["age", "age"]]}, "twice"),
        ({"edges": 999, "crosses": [["age", "since"]]}, "Cross fewer"),
        ({"public": [[1, 2]]}, "4 columns"),
    ],
)
def test_what_cannot_be_is_refused(options, says):
    with pytest.raises(BadInput, match=says):
        build_feature_map("bins", schema=SCHEMA, **options)


@pytest.mark.parametrize("scales", [{"age": [1]}, {"age": [1, 0]}, {"job": [1, 1]}, [1, 2]])
def test_scales_that_cannot_be_are_refused(scales):
    with pytest.raises(BadInput, match="scale"):
        build_feature_map("standardise", schema=SCHEMA, scales=scales)


def test_a_schema_is_needed():
    with pytest.raises(BadInput, match="no schema"):
        build_feature_map("bins", shape=(3,))
    with pytest.raises(BadInput, match="text alone"):
        build_feature_map("bins", schema={"note": {"type": "text"}})


def test_cells_are_in_no_error():
    with pytest.raises(BadInput) as refused:
        built("bins", np.array([["secret"] * 3], dtype=object))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", NAMES)
def test_encoded_rows_have_the_features_of_their_cells(name):
    """Also where a value is an edge: 18, 40 and 65 are not exact in the inputs of a model."""
    rng = np.random.default_rng(1)
    ages = [18, 40, 65, 17.99, 65.01, None, "x", 180, *rng.integers(0, 100, 40)]
    table = {
        "age": ages,
        "job": rng.choice(["cook", "nurse", "king", ""], len(ages)),
        "since": rng.choice(["2020-03-01", "2001-09-30", "soon", "2020-12-31"], len(ages)),
        "note": ["a"] * len(ages),
    }
    options = {"crosses": [["age", "job"]]} | (
        {} if name in ("standardise", "one-hot") else {"edges": {"age": [18, 40, 65]}}
    )
    made = build_feature_map(name, schema=SCHEMA, **options)
    rows, readable = SCHEMA.encode(table)
    rows[~readable] = np.nan
    values, fine = made.of_inputs(rows)
    expected, present = made.readable(table)
    assert fine.tolist() == present.tolist()
    assert np.abs(values - expected).max() < 1e-5
    on_top = build_feature_map("random-fourier", base=made, size=8)
    assert np.abs(on_top.of_inputs(rows)[0] - on_top.readable(table)[0]).max() < 1e-5
    assert on_top.record_map is made
    assert (on_top.record_map.reads, build_feature_map("hashed-text").reads) == ("tables", "texts")
    with pytest.raises(BadInput, match="rows of the"):
        made.of_inputs(rows[:, 1:])
