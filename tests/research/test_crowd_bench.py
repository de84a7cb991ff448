"""The crowd paper's experiment: a log of the shape that is said, cases that repeat, tables and charts of their rows."""

import gzip
import json

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet_research.bench import EXPERIMENTS
from discreet_research.bench.crowd_cases import CrowdCase
from discreet_research.bench.crowd_log import (
    GATE,
    GRID,
    ORDERS,
    CrowdProblem,
    LogShape,
    counts_of,
    gated,
    query_log,
    variant,
)
from discreet_research.bench.crowd_tables import asking_charts, asking_tables, gate_charts, gate_tables

pytestmark = pytest.mark.thorough

SHAPE = LogShape(rows=60_000, distinct=600, once=0.6, bootstrap=40, evaluation=60)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Files like CLINC150's, of made-up queries: ten intents, each with words of its own."""
    place = tmp_path_factory.mktemp("data")
    (place / "clinc150").mkdir()
    things = ["lamp", "bread", "train", "river", "coat", "violin", "garden", "window", "rabbit", "engine"]
    sizes = {"train": 20, "val": 12, "test": 6}
    held = {
        part: [[f"{part} {number} asks about the {thing} again", thing] for thing in things for number in range(size)]
        for part, size in sizes.items()
    }
    (place / "clinc150" / "data_full.json.gz").write_bytes(gzip.compress(json.dumps(held).encode()))
    return place


def test_counts_are_a_power_law_down_to_those_seen_once():
    counts = counts_of(LogShape())
    assert (len(counts), counts.sum(), (counts == 1).sum()) == (58_000, 2_500_000, 34_800)
    assert (np.diff(counts) <= 0).all()
    several = counts[counts > 1]
    slope = np.polyfit(np.log(np.arange(10, 2_000)), np.log(several[10:2_000]), 1)[0]
    assert -1.3 < slope < -1.2
    with pytest.raises(BadInput):
        counts_of(LogShape(rows=58_000))


def test_a_log_keeps_gold_and_evaluation_apart(data):
    log = query_log(data, SHAPE, 0)
    assert len(set(log.texts)) == 600
    assert not set(log.texts) & {*log.bootstrap, *log.evaluation}
    assert not set(log.bootstrap) & set(log.evaluation)
    assert (len(log.bootstrap), len(log.evaluation), log.counts.sum()) == (40, 60, 60_000)
    assert log.texts != query_log(data, SHAPE, 1).texts
    chance = np.random.default_rng(0)
    made = [variant("turn on the lamp in the kitchen", chance) for _ in range(200)]
    assert len(set(made)) > 100


def rows_of(data, problem, methods, seeds=(0, 1)):
    rows = []
    for seed in seeds:
        for method in methods:
            case = CrowdCase(problem=problem, method=method, seed=seed)
            rows += [{"case": case.digest, **case.names(), **row} for row in case.run(data)]
    return rows


def test_every_case_of_the_grid_gives_tables_and_charts(data):
    problem = CrowdProblem(name="small", shape=SHAPE, people=6, rounds=2)
    rows = rows_of(data, problem, GRID)
    released = {row["method"]: row["released"] for row in rows if row["axis"] == "labels"}
    assert released["k=1, beta=1"] == 600
    assert released["k=20, beta=0.9"] >= released["k=20, beta=0.1"] >= released["k=500, beta=0.1"]
    assert {row["method"]: row["private"] for row in rows}["k=1, beta=0.1"] is False
    pages = [table.markdown() for table in gate_tables(rows)]
    assert "NOT PRIVATE" in pages[0]
    assert "no promise" in pages[0]
    assert [chart.name for chart in gate_charts(rows)] == ["crowd-fig-1", "crowd-fig-2-3-4"]


def test_scores_and_orders_give_tables_and_charts(data):
    problem = CrowdProblem(name="small", shape=SHAPE, people=6, rounds=2, asked=30)
    methods = [method for _, methods in ORDERS[:1] for method in methods]
    rows = rows_of(data, problem, methods, seeds=(0,))
    assert max(row["at"] for row in rows if row["axis"] == "labels") == 30
    assert len(asking_tables(rows)) == 1
    assert len(asking_charts(rows)[0].panels) == 2


def test_a_case_repeats_and_is_named_by_its_settings(data):
    problem = CrowdProblem(name="small", shape=SHAPE, people=6, rounds=2)
    case = CrowdCase(problem=problem, method=gated(20, 0.9), seed=0)
    assert case.run(data) == case.run(data)
    other = CrowdCase(problem=problem, method=gated(20, 0.6), seed=0)
    assert case.digest != other.digest
    assert case.plan_name() is None


def test_they_are_in_the_register():
    assert len(EXPERIMENTS["crowd-gate"].cases([0])) == len(GATE[0][1]) == 21
    assert EXPERIMENTS["crowd-asking"].cases([0])
