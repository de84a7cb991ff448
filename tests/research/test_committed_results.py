"""What is committed of the bench: its pages follow from its results, and its results show what is said of them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from discreet.cli.app import run
from discreet.simulation.results import Store, _rows
from discreet_research.bench import experiment_named
from discreet_research.bench.feature_pictures import CHOSEN
from discreet_research.bench.feature_results import best_rate, best_settings
from discreet_research.bench.feature_tables import RATE
from discreet_research.bench.paper_problems import beats_random, finals_of
from discreet_research.bench.peer_cases import UNCERTAINTY
from discreet_research.bench.rows import grouped
from discreet_research.bench.selection_kept import CLIPPED, RESPONSE
from discreet_research.bench.stream_tables import answer, by_problem, difference

pytestmark = pytest.mark.thorough

PLACE = Path(__file__).parents[2] / "benchmarks" / "results"
KEPT = sorted(path.stem for path in PLACE.glob("*.parquet"))


@pytest.mark.parametrize("name", KEPT)
def test_a_page_is_made_of_its_results(name, tmp_path, capsys):
    page = tmp_path / "page.md"
    assert run(["bench", "table", name, "--results", str(PLACE), "--markdown", str(page)]) == 0
    assert "not finished" not in capsys.readouterr().err
    assert page.read_text() == (PLACE / f"{name}.md").read_text()


@pytest.mark.parametrize(("problem", "least"), [("fashion-mnist", 0.25), ("mnist", 0.25)])
def test_threshold_response_keeps_five_times_what_clipped_laplace_keeps(problem, least):
    rows = Store(PLACE, "selection-quality").rows(experiment_named("selection-quality").cases())
    mine = [row for row in rows if row["problem"] == problem and row["phase"] > 0]
    kept = {
        method: [
            np.mean([row["gain_kept"] for row in mine if (row["method"], row["phase"]) == (method, phase)])
            for phase in (1, 2, 3, 4)
        ]
        for method in (CLIPPED, RESPONSE)
    }
    assert len({row["seed"] for row in mine}) == 10
    assert np.mean(kept[RESPONSE]) >= 5 * np.mean(kept[CLIPPED])
    assert min(kept[RESPONSE]) >= least
    spent = {method: max(r["selection_epsilon"] for r in mine if r["method"] == method) for method in kept}
    assert spent[RESPONSE] <= spent[CLIPPED] == 2
    assert max(row["claimed_epsilon"] for row in mine) <= 8


STREAM_ANSWERS = [
    ("mnist-0-9", "paper: Bernoulli, FLMB", "ours: one-sided 0.5, Gaussian, FLMB", "yes"),
    ("kdd99", "paper: Bernoulli, FLMB", "ours: one-sided 0.5, Gaussian, FLMB", "yes"),
    ("mnist-0-9", "ours: one-sided 0.5, Gaussian, FLSW", "ours: one-sided 0.5, Gaussian, FLMB", "yes"),
    ("kdd99", "paper: Bernoulli, FLSW", "paper: Bernoulli, FLMB", "not shown"),
    ("kdd99", "paper: Bernoulli, FLSW", "paper: Bernoulli, FLSW, shrinking", "the opposite"),
    ("mnist-0-9", "one batch, objective perturbation", "ours: one-sided 0.5, Gaussian, FLMB", "the opposite"),
]


def test_streams_show_what_their_page_says():
    found = {one.problem: one for one in by_problem(_rows(PLACE / "stream-questions.parquet"))}
    for problem, higher, lower, said in STREAM_ANSWERS:
        first, second = found[problem].both(higher, lower, "mean")
        assert len(set(first) & set(second)) == 50
        assert answer(difference(first, second)) == said, (problem, higher, lower)
    fixed, shrinking = (found["kdd99"].asked(f"paper: Bernoulli, FLMB{end}", 1000.0) for end in ("", ", shrinking"))
    assert answer(difference(fixed, shrinking)) == "yes"


POLLUTED, PAPERS = "mnist 40k/20k, 30% fashion", "mnist 22.5k/30k, 7.5k fashion"
PUBLIC_ANSWERS = [
    ("public-labels", "mnist 40k/20k", 500, "DiversePublic", "random", "yes"),
    ("public-labels", "mnist 40k/20k", 1000, "DiversePublic", "entropy", "the opposite"),
    ("public-labels", "mnist 40k/20k", 500, "NearPrivate", "logit difference", "the opposite"),
    ("public-pollution", POLLUTED, 500, "NearPrivate", "random", "yes"),
    ("public-pollution", POLLUTED, 7000, "NearPrivate", "random", "yes"),
    ("public-pollution", POLLUTED, 500, "NearPrivate", "DiversePublic", "not shown"),
    ("public-pollution", POLLUTED, 7000, "NearPrivate", "k-centre", "not shown"),
    ("public-pollution", PAPERS, 7000, "NearPrivate", "DiversePublic", "the opposite"),
    ("public-clusters", "mnist 40k/20k", 2000, "5 of each cluster", "20 of each cluster", "yes"),
    ("public-clusters", "mnist 40k/20k", 1000, "5 of each cluster", "10 of each cluster", "not shown"),
]


def public_rows(name, problem, labels, method):
    rows = _rows(PLACE / f"{name}.parquet")
    found = [r for r in rows if (r["problem"], r["labels"], r["method"]) == (problem, labels, method)]
    assert len(found) == 5
    return {row["seed"]: row for row in found}


@pytest.mark.parametrize(("name", "problem", "labels", "better", "other", "said"), PUBLIC_ANSWERS)
def test_public_data_show_what_their_page_says(name, problem, labels, better, other, said):
    first, second = (
        {seed: row["accuracy"] for seed, row in public_rows(name, problem, labels, method).items()}
        for method in (better, other)
    )
    assert answer(difference(first, second)) == said


def test_checkpoints_show_what_their_page_says():
    rows = _rows(PLACE / "public-checkpoints.parquet")

    def by_seed(problem, epochs, labels):
        mine = [r for r in rows if (r["problem"], r["epochs"], r["labels"]) == (problem, epochs, labels)]
        assert len(mine) == 5
        return {row["seed"]: row["accuracy"] for row in mine}

    fixed, whole = "mnist 40k/20k", "mnist 40k/20k, total 5"
    first = difference(by_seed(fixed, 30, 1000), by_seed(fixed, 5, 1000))
    assert 0 < first.low < first.high < 0.002
    assert answer(difference(by_seed(fixed, 30, 10_000), by_seed(fixed, 5, 10_000))) == "not shown"
    for labels in (1000, 4000, 10_000):
        assert answer(difference(by_seed(whole, 25, labels), by_seed(whole, 5, labels))) == "yes"
    assert max(row["epsilon"] for row in rows if row["problem"] == whole) <= 5


def test_fine_tuning_gains_a_point_over_its_checkpoint():
    rows = public_rows("public-labels", "mnist 40k/20k", 7000, "DiversePublic").values()
    assert np.mean([row["accuracy"] - row["checkpoint"] for row in rows]) >= 0.01
    assert max(row["epsilon"] for row in rows) <= 3


def test_scikit_activeml_and_we_ask_the_same_records():
    rows = _rows(PLACE / "peers.parquet")
    for strategy in UNCERTAINTY:
        asked = {loop: {} for loop in ("scikit-activeml", "discreet")}
        for row in rows:
            if row["loop"] in asked and row["strategy"] == strategy and row["phase"]:
                mine = set(json.loads(row["asked_places"])), row["test_accuracy"]
                asked[row["loop"]][row["problem"], row["seed"], row["phase"]] = mine
        theirs, ours = asked.values()
        assert set(theirs) == set(ours)
        assert len(theirs) >= 2 * 3 * 3  # problems, seeds, queries
        for place, (records, accuracy) in ours.items():
            assert len(records & theirs[place][0]) >= 0.98 * len(records), (strategy, place)
            assert abs(accuracy - theirs[place][1]) < 0.01


def test_settings_of_features_are_the_best_on_other_records():
    choices = grouped(_rows(PLACE / "features-choice.parquet"), "problem")
    best = {problem.removesuffix(", held out"): best_settings(rows) for problem, rows in choices.items()}
    assert best == {data: method.name for data, method in CHOSEN.items()}
    assert best_rate(_rows(PLACE / "features-rates.parquet")) == RATE


def test_figures_of_the_page_on_features_are_those_of_the_results():
    page = (PLACE.parents[1] / "docs" / "reference" / "features-results.md").read_text(encoding="utf-8")
    names = ("private-quantiles", "features_of_recipes", "table-1", "headline")
    sources = [*PLACE.glob("features-*.md"), *(PLACE / f"{name}.md" for name in names)]
    results = "".join(path.read_text(encoding="utf-8") for path in sources)
    figures = re.findall(r"[-+]?\d*\.\d{4}|\d\d\.\d\d", "".join(re.findall(r"^\|.*$", page, flags=re.MULTILINE)))
    assert len(figures) > 50
    assert [figure for figure in figures if figure not in results] == []


def test_whitened_bins_are_as_good_as_their_page_says():
    rows = _rows(PLACE / "features-tables.parquet")

    def by_seed(table, method):
        seeds = {row["seed"]: row["auc"] for row in rows if (row["problem"], row["method"]) == (table, method)}
        assert len(seeds) == 5
        return seeds

    for table, missed in (("adult", 0.002), ("flights", 0.002), ("diamonds", 0.0)):
        whitened = by_seed(table, "whitened bins, private, auto")
        gaps = {
            other: difference(whitened, by_seed(table, other))
            for other in ("whitened bins, not private", "bins, private", "bins, private, auto", "raw, private")
        }
        assert gaps["whitened bins, not private"].value > -0.01 - missed
        assert gaps["bins, private"].value > 0
        assert (gaps["bins, private"].low > 0) == (table != "adult")
        assert min(gaps["bins, private, auto"].low, gaps["raw, private"].low) > 0


def test_rare_classes_on_features_show_what_their_page_says():
    rows = _rows(PLACE / "features-rare.parquet")
    before = finals_of(_rows(PLACE / "table-1.parquet"), "fashion-mnist, eps 8")
    for data in ("fashion-mnist", "mnist"):
        for epsilon in ("3", "8"):
            finals = finals_of(rows, f"{data} 20:1, eps {epsilon}")
            assert {len(by_seed) for by_seed in finals.values()} == {5}
            assert beats_random(finals, "entropy, hidden threshold") == "yes"
            if data == "fashion-mnist":
                hidden = np.mean(list(finals["entropy, hidden threshold"].values()))
                assert hidden > np.mean(list(before["entropy, hidden threshold"].values())) + 0.02


def test_cifar10_is_as_far_from_its_aim_as_its_page_says():
    rows = _rows(PLACE / "features-cifar10.parquet")
    assert {(row["records"], row["measured_on"], row["claimed_epsilon"]) for row in rows} == {(50_000, "test set", 3.0)}
    assert len({row["seed"] for row in rows}) == 3
    assert 0.66 - np.mean([row["accuracy"] for row in rows]) == pytest.approx(0.026, abs=0.001)
