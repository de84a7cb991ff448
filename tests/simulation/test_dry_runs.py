"""A dry run is the campaign's own code on public records; what it recommends follows from its rows alone."""

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.errors import BadInput
from discreet.simulation.dry_runs import Setting
from discreet.simulation.labelled_data import LabelledSource, read_labelled
from discreet.simulation.points import (
    EXACT,
    METHODS,
    OWN,
    RANDOM,
    SUBSET,
    Point,
    form_of,
    mean_interval,
    next_interval,
    points_of,
    shown,
)
from discreet.simulation.recommendation import advice, outcome_chart, outcome_tables, outcomes
from discreet.trainers.accuracy import METRICS

pytestmark = pytest.mark.thorough

TOML = """
format = "discreet.campaign/1"
name = "tiny"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 120
[task]
kind = "multiclass"
classes = ["0", "1"]
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 40
queries = [20]
batch = 20
epochs = 2
accountant = "rdp"
selection_epsilon = "2"
[scorer]
name = "entropy"
[selector]
name = "threshold-response"
threshold_epsilon = "0.1"
[oracle]
name = "files"
[model]
name = "linear"
[trainer]
learning_rate = 1.0
engine = "reference"
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    x[:, 0] += 3 * y
    np.savez("public.npz", id=np.array([f"p{number}" for number in range(200)]), x=x, label=y)
    (tmp_path / "c.toml").write_text(TOML)
    return CampaignConfig.from_text(TOML, name="c.toml", directory=tmp_path)


def said(capsys, *words, code=0):
    capsys.readouterr()
    assert run([*map(str, words)]) == code
    return capsys.readouterr()


def test_a_dry_run_ends_in_a_recommendation_and_goes_on_where_it_was(config, capsys, tmp_path):
    words = ["simulate", "c.toml", "--data", "public.npz", "--seeds", 2, "--epsilons", 4, "--queries", 10]
    words += ["--methods", "own", "--processes", 1]
    form = json.loads(said(capsys, *words, "--json").out)
    assert (form["format"], form["simulation"]) == ("discreet.simulated/1", True)
    assert [(one["method"], one["epsilon"], one["labels"]) for one in form["outcomes"]] == [
        (way, epsilon, labels) for epsilon, labels in (("8", 60), ("8", 50), ("4", 60)) for way in (RANDOM, OWN)
    ]
    assert all(0.3 < one["mean"]["value"] <= 1 for one in form["outcomes"])
    assert form["recommendation"]["method"] in (RANDOM, OWN)
    assert any("140 records" not in one and "measured on" in one for one in form["warnings"])
    assert not (tmp_path / "tiny.db").exists(), "the campaign itself is not begun"
    (plans,) = {one for one in (tmp_path / "tiny.simulation").iterdir() if one.is_dir()}
    kept = {one: one.stat().st_mtime_ns for one in plans.glob("*.json")}
    assert len(kept) == 6
    text = said(capsys, *words, "--plot", "s.png").out
    assert "Recommendation for tiny" in text
    assert "A campaign as recommended ends between" in text
    assert (tmp_path / "s.png").stat().st_size > 1000
    assert kept == {one: one.stat().st_mtime_ns for one in plans.glob("*.json")}
    assert "| asked by | accuracy, % | majority, % |" in text
    assert "Always the largest class (majority) has " in text
    rows = parquet.read_table(tmp_path / "tiny.simulation" / "dry-runs.parquet").to_pylist()
    assert all({f"test_{name.replace('-', '_')}" for name in METRICS} < set(row) for row in rows)
    text = said(capsys, *words, "--metric", "log-loss", "--within", 5).out
    assert "| asked by | log loss | constant answer |" in text
    assert "A constant answer by the class shares has 0.68" in text
    form = json.loads(said(capsys, *words, "--metric", "balanced-accuracy", "--json").out)
    assert all((one["metric"], one["baseline"]) == ("balanced-accuracy", 0.5) for one in form["outcomes"])
    assert all(set(one["metrics"]) == set(METRICS) for one in form["outcomes"])
    assert len(list(plans.glob("*.json"))) == 6


def test_what_cannot_be_tried_is_said_and_the_rest_is_run(config, capsys):
    words = ["simulate", "c.toml", "--data", "public.npz", "--seeds", 2, "--epsilons", 8, "--methods", "random"]
    form = json.loads(said(capsys, *words, "--queries", 200, "--json", "--processes", 1).out)
    assert len(form["outcomes"]) == 1
    assert "only 120 public records" in form["impossible"][0]["why"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--data", "none.npz"], "it is not there"),
        (["--data", "public.npz", "--label", "y"], "nothing called y"),
        (["--data", "public.npz", "--methods", "best"], "none of that name"),
        (["--data", "public.npz", "--queries", "a"], "not a list of sizes"),
        (["--data", "public.npz", "--epsilons", "much"], "epsilon"),
        (["--data", "public.npz", "--plot", "s.gif"], "no known form"),
        (["--data", "public.npz", "--vary", "trainer.clip"], "does not say what to try"),
        (["--data", "public.npz", "--vary", "pool.size=3"], "no setting of training"),
        (["--data", "public.npz", "--seeds", "1"], "seeds"),
        (["--data", "none.npz", "--metric", "rmse"], "Choose of accuracy, balanced-accuracy, auc"),
    ],
)
def test_nonsense_is_refused(config, capsys, words, told):
    shown_to = said(capsys, "simulate", "c.toml", *words, code=2)
    assert told in shown_to.err
    assert "Traceback" not in shown_to.err


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_a_configuration_of_the_same_campaign(config, method):
    point = Point(epsilon=Decimal(4), queries=(10, 10), initial=40, method=method)
    pool = {"path": "in Python", "kind": "arrays", "size": 120}
    made = CampaignConfig.from_json(form_of(config, point, pool=pool) | {"simulation": {"seed": 1}})
    assert made.budget.epsilon == 4
    assert made.plan.initial + sum(made.plan.queries) == 60
    assert (made.task, made.model, made.trainer) == (config.task, config.model, config.trainer)
    if method == OWN:
        assert made.plan.selection_epsilon == 1, "a quarter of epsilon, as in the file"


def test_points_change_one_thing_at_a_time(config):
    points = points_of(config)
    assert {one.method for one in points} == {RANDOM, SUBSET, OWN}
    assert {(one.epsilon, one.queries) for one in points} == {
        (8, (20,)),
        (4, (20,)),
        (16, (20,)),
        (8, (10,)),
        (8, (40,)),
    }
    assert len(points_of(config, every=True)) == 27
    assert (shown((5, 5)), shown(()), shown((5, 6))) == ("5x2", "none", "5,6")


def rows_of(finals, measured=1000, metric="accuracy", **columns):
    """Finals: a metric by (epsilon, queries, method), a list by seed, each measured on so many records."""
    points = [Point(epsilon=Decimal(e), queries=q, initial=100, method=m) for e, q, m in finals]
    rows = [
        {
            "problem": point.problem,
            "method": point.method,
            "seed": seed,
            "phase": phase,
            f"test_{metric.replace('-', '_')}": value - (1 - phase),
            "test_size": measured,
        }
        | columns
        for point, values in zip(points, finals.values(), strict=True)
        for seed, value in enumerate(values)
        for phase in (0, 1)
    ]
    return outcomes(rows, points, metric)


def test_of_a_loss_the_lowest_is_the_best():
    losses = {(e, (50,), RANDOM): [base, base + 0.01, base + 0.02] for e, base in ((2, 0.5), (4, 0.305), (8, 0.3))}
    losses |= {(8, (50,), OWN): [0.1, 0.111, 0.12]}
    found = rows_of(losses, metric="log-loss", baseline_log_loss=0.25, error_log_loss=0.001)
    told = advice(found, epsilon=Decimal(8), queries=(50,), within=0.01)
    assert told.chosen.point.method == OWN
    assert "-0.200 (" in told.sentences[0]
    assert told.sentences[-1] == "A constant answer by the class shares has 0.250."
    del losses[8, (50,), OWN]
    found = rows_of(losses, metric="log-loss", baseline_log_loss=0.25, error_log_loss=0.001)
    told = advice(found, epsilon=Decimal(8), queries=(50,), within=0.01)
    assert any("epsilon 4, epsilon 4 would do" in one for one in told.sentences)
    assert told.sentences[-1].endswith("one campaign is not surely better than that.")
    assert "| random | 0.510 (" in outcome_tables(found)[0].markdown()
    panel = outcome_chart(found, epsilon=Decimal(8), queries=(50,)).panels[0]
    assert (panel.y_label, panel.series[-1].name, panel.series[-1].y) == ("log loss", "constant answer", (0.25,) * 3)


def test_a_metric_is_as_uncertain_as_its_own_intervals_say():
    finals = {(8, (50,), RANDOM): [0.9, 0.9, 0.9]}
    wide = rows_of(finals, metric="auc", error_auc=0.05)[0]
    narrow = rows_of(finals, metric="auc", error_auc=0.005)[0]
    assert narrow.mean.high - narrow.mean.low == pytest.approx((wide.mean.high - wide.mean.low) / 10)
    assert wide.mean.value - wide.mean.low == pytest.approx(0.05 * 4.3027 / 3**0.5, rel=1e-3)
    with pytest.raises(BadInput, match="no run tells it"):
        rows_of({(8, (50,), RANDOM): [0.9, 0.9]}, metric="accuracy", test_accuracy=None)


def test_a_way_of_choosing_is_recommended_only_where_it_is_surely_better():
    noisy = {(8, (50,), RANDOM): [0.70, 0.72, 0.74, 0.71], (8, (50,), OWN): [0.73, 0.71, 0.76, 0.72]}
    told = advice(rows_of(noisy), epsilon=Decimal(8), queries=(50,), within=0.01)
    assert told.chosen.point.method == RANDOM
    assert told.sentences[0].startswith("Use random")
    clear = noisy | {(8, (50,), OWN): [0.75, 0.771, 0.79, 0.76], (8, (50,), EXACT): [0.9, 0.9, 0.91, 0.92]}
    told = advice(rows_of(clear), epsilon=Decimal(8), queries=(50,), within=0.01)
    assert told.chosen.point.method == OWN, "and never what is not private"
    assert "+5.0 points" in told.sentences[0]
    assert told.sentences[1].startswith("Without privacy of selection")


def test_few_runs_that_end_alike_by_chance_recommend_nothing():
    """Two runs, one record of 77 more right in each: no spread at all between the differences."""
    alike = {(8, (50,), RANDOM): [57 / 77, 60 / 77], (8, (50,), OWN): [58 / 77, 61 / 77]}
    found = rows_of(alike, measured=77)
    assert found[1].gain.low < 0 < found[1].gain.value
    assert advice(found, epsilon=Decimal(8), queries=(50,), within=0.01).chosen.point.method == RANDOM
    same = rows_of({(8, (50,), RANDOM): [0.75, 0.75, 0.75]}, measured=100)[0]
    assert same.mean.low < 0.74
    assert same.mean.high > 0.76
    assert same.campaign.low < same.mean.low
    assert rows_of({(8, (50,), RANDOM): [0.75, 0.75, 0.75]}, measured=10**9)[0].mean.low > 0.749


def test_other_settings_are_recommended_only_where_they_are_surely_better(config):
    points = points_of(config, methods=["own"], varied={"trainer.clip": [1.0, 2.0], "plan.batch": [10]})
    assert [one.name for one in points if one.changes][:2] == [
        "random, trainer.clip = 1.0, plan.batch = 10",
        "own, trainer.clip = 1.0, plan.batch = 10",
    ]
    changed = next(one for one in points if one.changes and one.method == OWN)
    form = form_of(config, changed, pool={"path": "in Python", "kind": "arrays", "size": 120})
    assert (form["trainer"]["clip"], form["plan"]["batch"]) == (1.0, 10)
    with pytest.raises(BadInput, match="no setting of training"):
        points_of(config, varied={"budget.delta": ["1e-3"]})
    file = Point(epsilon=Decimal(8), queries=(50,), initial=100, method=RANDOM)
    for values, chosen in (([0.8, 0.81, 0.83], ()), ([0.9, 0.92, 0.91], (("trainer.clip", 2.0),))):
        other = replace(file, changes=(("trainer.clip", 2.0),))
        finals = {file: [0.8, 0.82, 0.81], other: values}
        rows = [
            {
                "problem": one.problem,
                "method": one.name,
                "seed": seed,
                "phase": 0,
                "test_accuracy": value,
                "test_size": 900,
            }
            for one, mine in finals.items()
            for seed, value in enumerate(mine)
        ]
        told = advice(outcomes(rows, list(finals)), epsilon=Decimal(8), queries=(50,), within=0.01)
        assert told.chosen.point.changes == chosen


def test_the_smallest_budget_that_is_good_enough_is_named():
    finals = {(e, (50,), RANDOM): [base, base + 0.01, base + 0.02] for e, base in ((2, 0.5), (4, 0.795), (8, 0.8))}
    told = advice(rows_of(finals), epsilon=Decimal(8), queries=(50,), within=0.01)
    assert any("epsilon 4, epsilon 4 would do" in one for one in told.sentences)
    assert advice(rows_of(finals), epsilon=Decimal(9), queries=(50,), within=0.01) is None
    chart = outcome_chart(rows_of(finals), epsilon=Decimal(8), queries=(50,))
    assert chart.panels[0].series[0].x == (2.0, 4.0, 8.0)
    assert "random" in outcome_tables(rows_of(finals))[0].markdown()


def test_where_one_campaign_ends_is_wider_than_where_the_mean_is():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        values = rng.normal(0.8, 0.02, size=6).tolist()
        found = next_interval(values[:5])
        covered += found.low <= values[5] <= found.high
        assert found.high - found.low > mean_interval(values[:5]).high - mean_interval(values[:5]).low
    assert 0.93 < covered / 2000 < 0.97


def test_labels_come_from_where_they_are(config, tmp_path):
    found = read_labelled(config, LabelledSource(path=tmp_path / "public.npz"))
    assert set(found.labels.values()) == {"0", "1"}
    (tmp_path / "l.csv").write_text("record,label\np0,1\np1,0\nother,1\n")
    beside = read_labelled(config, LabelledSource(path=tmp_path / "public.npz", labels=tmp_path / "l.csv"))
    assert beside.labels == {"p0": "1", "p1": "0"}
    part = beside.part([1, 0])
    assert part.ids == ["p1", "p0"]
    np.testing.assert_array_equal(np.asarray(part.x[0:1]), np.asarray(beside.pool.x[1:2]))
    (tmp_path / "l.csv").write_text("record,label\np0,7\n")
    with pytest.raises(BadInput, match="outside the campaign's classes"):
        read_labelled(config, LabelledSource(path=tmp_path / "public.npz", labels=tmp_path / "l.csv"))


def test_another_declaration_or_another_folder_is_another_dry_run(config, tmp_path):
    def digest(config):
        return Setting(config=config, data=LabelledSource(path=tmp_path / "public.npz"), test=0.3).digest()

    assert digest(config) == digest(replace(config, pool=replace(config.pool, path="elsewhere.npz")))
    assert digest(config) != digest(replace(config, pool=replace(config.pool, scale=2.0)))
    folders = []
    for name in ("cat", "dog"):
        (tmp_path / name / name).mkdir(parents=True)
        (tmp_path / name / name / "1.png").write_bytes(b"a picture")
        folders.append(LabelledSource(path=tmp_path / name, label="folder").digest())
    assert folders[0] != folders[1]


def test_modules_and_weights_of_the_users_belong_to_a_dry_run(config, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "dry_score.py").write_text("def score(found):\n    return found[:, 0]\n")
    (tmp_path / "weights.safetensors").write_bytes(b"some")
    own = replace(
        config,
        scorer=replace(config.scorer, name="dry_score:score", range=(0.0, 1.0)),
        model=replace(config.model, init="weights.safetensors"),
    )
    setting = Setting(config=own, data=LabelledSource(path=tmp_path / "public.npz"), test=0.3)
    seen = [setting.digest()]
    (tmp_path / "dry_score.py").write_text("def score(found):\n    return found[:, 1]\n")
    seen.append(setting.digest())
    (tmp_path / "weights.safetensors").write_bytes(b"others")
    seen.append(setting.digest())
    assert len(set(seen)) == 3
    assert seen[-1] == setting.digest()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_record_with_none_of_the_labels_is_not_one_without_a_label(config, tmp_path, kind):
    numbers = {"u": [0.5, 1.5, 2.5, 3.5], "v": [1.0, 2.0, 3.0, 4.0]}
    columns = ["id", *numbers]
    if kind == "csv":
        cells = ["0|1", "none", "", "1"]
        rows = zip(["p0", "p1", "p2", "p3"], *numbers.values(), cells, strict=True)
        text = "".join(",".join(map(str, row)) + "\n" for row in rows)
        (tmp_path / "p.csv").write_text(",".join([*columns, "label"]) + "\n" + text)
    else:
        cells = [["0", "1"], [], None, ["1"]]
        parquet.write_table(
            pyarrow.table({"id": ["p0", "p1", "p2", "p3"], **numbers, "label": cells}), tmp_path / "p.parquet"
        )
    task = replace(config.task, kind="multilabel")
    pool = replace(config.pool, kind=kind, columns=("u", "v"), array=None)
    data = LabelledSource(path=tmp_path / f"p.{kind}")
    several = replace(config, task=task, pool=pool)
    assert read_labelled(several, data).labels == {"p0": ("0", "1"), "p1": (), "p3": ("1",)}
    assert Setting(config=several, data=data, test=0.3).sizes().without_label == 1
    (tmp_path / "p.csv").write_text("id,u,v,label\np0,1,2,0||1\n")
    with pytest.raises(BadInput, match="nothing between two separators"):
        read_labelled(replace(several, pool=replace(pool, kind="csv")), LabelledSource(path=tmp_path / "p.csv"))
