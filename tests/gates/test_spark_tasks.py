"""What Spark's workers do, without Spark: tasks of any cut of a log add up to the same, and quote nothing."""

import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from gate_reference import paid, reference_release
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput, MissingExtra
from discreet.gates import CrowdGate
from discreet.gates.query_log import valid_rows
from discreet.gates.spark import _path, _runs, check_log, require_spark
from discreet.gates.spark_tasks import Job, Survey, TaskRows, counted, merged, paired, quietly, surveyed
from discreet.noise import release_key
from discreet.noise.keys import CarriedKey

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cy", "", None]), st.sampled_from(["a", "A", "ß", "SS", " ", None, "日本"])
    ),
    max_size=40,
)
CUTS = st.lists(st.integers(0, 40), max_size=3)


def job_of(gate, *, units, width=8):
    receipt, _ledger = paid(gate)
    key = release_key(receipt)
    return Job(event=gate.price(), coin=gate.coin, key=CarriedKey(key), units=units, width=width, depth=2), key


def cut(rows, cuts):
    """Consecutive parts of rows, and where each begins."""
    ends = sorted({0, len(rows), *(end for end in cuts if end < len(rows))})
    return [(start, rows[start:end]) for start, end in pairwise(ends)]


def source(batches, *, units):
    for first, rows in batches:
        texts = pa.array([text for _, text in rows], pa.string())
        who = pa.array([unit for unit, _ in rows], pa.string()) if units else None
        yield TaskRows(valid_rows(first, texts, who), [(0, first, len(rows))])


def survey_of(job, parts, read):
    """Each part a task of its own; merged."""
    pieces = [batch for part in parts for batch in surveyed(job, read)(iter([part]))]
    found = Survey(job)
    for batch in merged()(iter(pieces)):
        found.take(zip(batch["piece"].to_pylist(), batch["cells"].to_pylist(), strict=True))
    return found


@settings(deadline=None, max_examples=60)
@given(ROWS, CUTS, st.booleans())
def test_surveys_of_parts_are_that_of_the_whole(rows, cuts, units):
    gate = CrowdGate(k=2, beta=0.5, values=2 if units else 1, persons=units)
    job, _ = job_of(gate, units=units)

    def read(batches):
        return source(batches, units=units)

    whole, parts = survey_of(job, cut(rows, []), read), survey_of(job, cut(rows, cuts), read)
    assert whole.figures == parts.figures
    assert np.array_equal(whole.values.registers, parts.values.registers)
    assert np.array_equal(whole.units.registers, parts.units.registers)
    assert (parts.sketch.cells >= whole.sketch.cells).all()  # a unit's value counts once in every part
    if not units:
        assert np.array_equal(parts.sketch.cells, whole.sketch.cells)


@settings(deadline=None, max_examples=60)
@given(ROWS, CUTS, st.integers(1, 3), st.sampled_from([1, 8, 64]))
def test_pairs_of_parts_hold_what_each_unit_brings(rows, cuts, values, width):
    """Cut to its values once more, as Spark does, they release what a plain gate does."""
    gate = CrowdGate(k=1, beta=0.5, values=values, counts=True)
    job, key = job_of(gate, units=True, width=width)

    def read(batches):
        return source(batches, units=True)

    parts = cut(rows, cuts)
    bounds = survey_of(job, parts, read).sketch
    brought = {}
    for part in parts:
        for batch in paired(job, read, lambda: bounds)(iter([part])):
            for one in batch.to_pylist():
                brought.setdefault((one["unit"], one["more"]), {})[one["cap"]] = one["text"]
    counts = {}
    for of_unit in brought.values():
        for cap in sorted(of_unit)[:values]:
            if of_unit[cap] is not None:
                counts[of_unit[cap]] = counts.get(of_unit[cap], 0) + 1
    named = [(unit, text) for unit, text in rows if unit]
    assert counts == (reference_release(gate, key, [named]) if named else {})


@settings(deadline=None, max_examples=60)
@given(ROWS, CUTS, st.sampled_from([1, 8]))
def test_counts_of_parts_add_up(rows, cuts, width):
    gate = CrowdGate(k=2, beta=0.5, counts=True, persons=False)
    job, key = job_of(gate, units=False, width=width)

    def read(batches):
        return source(batches, units=False)

    parts = cut(rows, cuts)
    bounds = survey_of(job, parts, read).sketch
    counts = {}
    for part in parts:
        for batch in counted(job, read, lambda: bounds)(iter([part])):
            for one in batch.to_pylist():
                counts[one["text"]] = counts.get(one["text"], 0) + one["kept"]
    wanted = reference_release(gate, key, [[(None, text) for _, text in rows]])
    assert {text: count for text, count in counts.items() if count >= gate.k} == wanted


def test_runs_are_of_consecutive_rows_of_one_file():
    assert _runs(np.array([0, 0, 0, 1, 1]), np.array([4, 5, 7, 8, 9])) == [(0, 4, 2), (0, 7, 1), (1, 8, 2)]
    assert _runs(np.zeros(0, np.int64), np.zeros(0, np.int64)) == []


@pytest.mark.parametrize("address", ["file:///logs/a%20b%2520.parquet", "file:/logs/a%20b%2520.parquet"])
def test_paths_are_those_of_files(address):
    assert _path(address) == "/logs/a b%20.parquet"


def test_errors_of_tasks_quote_nothing():
    def task(batches):
        raise KeyError("somebody's text")
        yield

    with pytest.raises(BadInput, match="a task failed with KeyError") as caught:
        list(quietly(task)(iter([])))
    assert "somebody" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_what_is_missing_is_said_before_anything_is_charged(monkeypatch):
    with pytest.raises(BadInput, match="not given a log"):
        check_log([1, 2])
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match="discreet\\[spark\\]"):
        require_spark()
