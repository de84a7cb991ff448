"""The paper's tables: campaigns in its proportions on made-up vectors, and tables that do not flatter."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from discreet.noise import Seeded
from discreet_research.bench import EXPERIMENTS, Problem, plans
from discreet_research.bench import paper_problems as papers
from discreet_research.bench.campaigns import run_case
from discreet_research.bench.cases import Case
from discreet_research.bench.embeddings import Embedding, keep_embedding
from discreet_research.bench.paper_problems import beats_random, difference, finals_of, problem_table, summary_table
from discreet_research.bench.paper_tables import LABELS, fig_7_charts, fig_8_charts, table_2_charts
from discreet_research.bench.plans import ExactKCentre, gradients_of, plan_of, projected, same_plan
from discreet_research.bench.sets import digest_of, paths_of

pytestmark = pytest.mark.thorough

TINY = Problem(
    name="tiny, eps 8",
    data="cifar10",
    rare=1,
    initial=80,
    queries=(40, 20),
    epsilon="8",
    batch=60,
    epochs=3,
    score="entropy",
    pictures="vectors",
    model="embedding_head",
    travel=300.0,
    accountant="rdp",
)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """Ten clouds in eight dimensions, as if an encoder had made them of 400 pictures."""
    place, chance = tmp_path_factory.mktemp("data"), np.random.default_rng(1)
    (place / "cifar10").mkdir()
    labels = {part: np.arange(count) % 10 for part, count in (("train", 400), ("test", 100))}
    images = {part: np.zeros((len(y), 2, 2, 3), np.uint8) for part, y in labels.items()}
    named = {f"{part}_images": x for part, x in images.items()} | {f"{part}_labels": y for part, y in labels.items()}
    np.savez(place / "cifar10" / "cifar10.npz", **named)
    centres = chance.normal(size=(10, 8))
    made = {part: (centres[y] + 0.3 * chance.normal(size=(len(y), 8))).astype(np.float32) for part, y in labels.items()}
    keep_embedding(place, described(place), made)
    return place


def described(place):
    data = digest_of(paths_of("cifar10", place))
    return Embedding(data_set="cifar10", encoder="efficientnet-lite0", weights="w", data=data, prepared={"side": 2})


METHODS = {
    method.name: method
    for method in (
        *papers.baselines(),
        papers.exact("bald"),
        papers.laplace("bald"),
        papers.response("entropy", "0.1"),
        papers.hidden("margin", "0.2"),
        *papers.k_centre(),
        papers.laplace("entropy", schedule="continual"),
    )
}


@pytest.mark.parametrize("name", METHODS)
def test_every_kind_of_method_runs_within_its_budget(name, vectors, tmp_path):
    case = Case(problem=TINY, method=METHODS[name], seed=0)
    rows = run_case(case, vectors, tmp_path / "plans")
    assert [row["phase"] for row in rows] == ([0] if METHODS[name].passive else [0, 1, 2])
    assert rows[-1]["claimed_epsilon"] <= 8
    assert rows[-1]["test_accuracy"] > 0.3  # a tenth is chance
    assert rows[-1]["gradients"] > 0
    assert len({row["made_of"] for row in rows}) == 1
    (kept,) = (tmp_path / "plans").iterdir()
    assert json.loads(kept.read_text())["format"] == "discreet.plan/1"
    if not METHODS[name].passive:
        assert 0 < rows[1]["asked"] <= 60  # hidden ones ask about 40


def test_a_plan_is_made_once_and_shared(tmp_path, monkeypatch):
    entropy, margin = papers.laplace("entropy"), papers.laplace("margin")
    made = plan_of(TINY, entropy, 400, tmp_path)

    def again(method):
        plans._kept.cache_clear()  # as another process would
        return plan_of(TINY, method, 400, tmp_path)

    with monkeypatch.context() as patch:
        patch.setattr(plans, "make_plan", None)
        assert again(margin) == made  # read, not made
        with pytest.raises(TypeError):  # another price is another plan
            again(papers.laplace("margin", "3"))
    (path,) = tmp_path.iterdir()
    path.write_text("{}")  # a broken one is made again
    assert again(entropy) == made


def test_cases_that_share_a_plan_say_so():
    exact, random_al = papers.exact("entropy"), papers.baselines()[2]
    assert same_plan(TINY, exact) == same_plan(TINY, random_al)
    assert same_plan(TINY, papers.response("entropy", "0.1")) == same_plan(TINY, papers.response("bald", "0.1"))
    others = [exact, papers.baselines()[0], papers.baselines()[1], papers.laplace("entropy"), *papers.k_centre()[1:]]
    assert len({same_plan(TINY, method) for method in others}) == len(others)
    assert same_plan(TINY, exact) != same_plan(replace(TINY, epsilon="3"), exact)


def test_gradients_are_those_of_the_plan():
    plan = plan_of(TINY, papers.baselines()[0], 400)
    assert gradients_of(plan) == sum(phase.steps for phase in plan.phases) * 60
    assert plan.phases[0].size == 140
    assert plan.epochs == 6  # two thirds of three phases of 3


def test_older_experiments_keep_the_names_of_their_cases():
    """Settings that came later are left out at their defaults: results of before stay what they are."""
    known = {"try-out": "8e6169272bad", "selection-quality": "38ec67d72017", "accuracy-kept": "817a6ef2a5e4"}
    for name, digest in known.items():
        told = "".join(case.digest for case in EXPERIMENTS[name].cases())
        assert hashlib.sha256(told.encode()).hexdigest()[:12] == digest


def test_problems_have_the_papers_proportions():
    assert (papers.CIFAR.initial, papers.CIFAR.queries, papers.CIFAR.batch) == (
        10_000,
        (10_000, 3_000, 1_000, 1_000),
        4096,
    )
    for (problem,), methods in EXPERIMENTS["table-1"].blocks:
        sizes = np.array([problem.initial, *problem.queries]) / problem.labels
        assert np.allclose(sizes, papers.SHARES, atol=1e-3)
        assert abs(problem.batch / problem.initial - 0.4096) < 1e-3
        assert len({method.name for method in methods}) == len(methods) == 21
    shared = {case.digest for case in EXPERIMENTS["table-1"].cases([0])}
    for name in ("table-2", "table-4", "fig-7", "fig-8"):  # what table 1 has is not run again
        assert shared & {case.digest for case in EXPERIMENTS[name].cases([0])}


def test_the_greedy_choice_is_far_apart():
    points = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 0.0], [0.0, 4.0], [5.0, 0.1]])
    found = ExactKCentre(source=Seeded(0)).select(ids=list("abcde"), scores=points, k=2, centres=points[:1])
    assert not found.private
    assert set(found.ids) == {"e", "d"}
    wide = np.random.default_rng(0).normal(size=(6, 100))
    assert projected(wide).shape == (6, 32)
    assert np.allclose(np.linalg.norm(projected(wide), axis=1), 1)


# -- tables


def rows_of(problem, finals):
    return [
        {"problem": problem, "method": method, "seed": seed, "phase": phase, "test_accuracy": value - 0.1 * (1 - phase)}
        for method, values in finals.items()
        for seed, value in enumerate(values)
        for phase in (0, 1)
    ]


FINALS = {
    papers.PASSIVE: (0.700, 0.720, 0.710),
    papers.RANDOM_AL: (0.705, 0.722, 0.713),
    "entropy, not private": (0.755, 0.773, 0.764),
    "entropy, Laplace": (0.706, 0.719, 0.714),
    "entropy, threshold response": (0.735, 0.753, 0.744),
    "entropy, hidden threshold": (0.650, 0.671, 0.661),
}


def test_a_method_beats_random_only_where_both_differences_are_sure():
    finals = finals_of(rows_of("p, eps 8", FINALS), "p, eps 8")
    assert finals["entropy, Laplace"][1] == pytest.approx(0.719)  # of the last phase
    assert beats_random(finals, "entropy, threshold response") == "yes"
    assert beats_random(finals, "entropy, Laplace") == "not shown"
    assert beats_random(finals, "entropy, hidden threshold") == "worse"
    found = difference(finals, "entropy, threshold response", papers.RANDOM_AL)
    assert found.value == pytest.approx((0.030 + 0.031 + 0.031) / 3)
    assert found.high - found.low < 0.005  # paired: seeds differ by far more
    del finals[papers.PASSIVE]  # without the other baseline nothing is claimed
    assert beats_random(finals, "entropy, threshold response") == "not shown"


def test_differences_are_over_the_seeds_that_both_have():
    finals = {papers.RANDOM_AL: {0: 0.5, 1: 0.6}, "m": {1: 0.7, 2: 0.1}}
    assert difference(finals, "m", papers.RANDOM_AL).value == pytest.approx(0.1)
    assert difference(finals, "m", papers.PASSIVE) is None


def test_tables_have_random_beside_every_row_and_mark_what_gains_nothing():
    rows = rows_of("p, eps 8", FINALS)
    lines = {line[0]: line for line in problem_table(rows, "p, eps 8").rows}
    assert all(line[4] == "71.33" for line in lines.values())
    assert lines["entropy, threshold response"][-1] == "yes"
    assert lines["entropy, Laplace"][-1] == "not shown"
    assert lines[papers.RANDOM_AL][-1] == ""
    assert lines["entropy, hidden threshold"][1] == "hidden"
    marks = {line[0]: line[2][-1] for line in summary_table(rows, "all").rows if line[1] != "free"}
    assert marks == {
        "entropy, not private": "+",
        "entropy, Laplace": "=",
        "entropy, threshold response": "+",
        "entropy, hidden threshold": "-",
    }


@pytest.mark.parametrize("name", ["table-1", "table-2", "table-4", "fig-7", "fig-8"])
def test_tables_and_charts_of_every_experiment(name):
    """Of results of two seeds, made up: every case has a place, and every line of a chart its points."""
    experiment = EXPERIMENTS[name]
    rows = [
        {"problem": case.problem.name, "method": case.method.name, "seed": case.seed, "phase": 1, "test_accuracy": 0.5}
        for case in experiment.cases([0, 1])
    ]
    summary, *each = experiment.tables(rows)
    assert len(each) == len(experiment.blocks) == len(summary.columns) - 2
    assert sum(len(table.rows) for table in each) == len(experiment.cases([0]))
    assert f"### {summary.title}" in summary.markdown()
    for chart in experiment.charts(rows):
        for panel in chart.panels:
            assert all(len(line.x) == len(line.y) >= 2 for line in panel.series)


def test_charts_know_their_axes():
    def made(name):
        cases = EXPERIMENTS[name].cases([0, 1])
        return [
            {"problem": c.problem.name, "method": c.method.name, "seed": c.seed, "phase": 1, "test_accuracy": 0.5}
            for c in cases
        ]

    (seven,), (eight,), (two,) = (
        fig_7_charts(made("fig-7")),
        fig_8_charts(made("fig-8")),
        table_2_charts(made("table-2")),
    )
    assert seven.panels[0].series[0].x == (0.5, 1, 2, 3, 4)
    assert eight.panels[0].series[0].x == LABELS
    assert [series.x for series in two.panels[0].series] == [(3, 5, 8, 16)] * 6
