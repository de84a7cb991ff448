"""`discreet.tune`: one charge for all runs, the best released, a crash repeats the same search, nonsense refused."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import discreet
from discreet import DPClassifier
from discreet.errors import BadInput, LedgerUnavailable
from discreet.noise import tuned as noise_tuned
from discreet.privacy.certificate import verify, write_certificate
from discreet.privacy.ledger import FileSink, Ledger
from discreet.tuning import searching

pytestmark = pytest.mark.thorough

LUCK = np.random.default_rng(3)
Y = LUCK.integers(0, 2, 160)
X = LUCK.normal(size=(160, 4)) + 3 * Y[:, None]
GRID = {"learning_rate": [0.001, 1.0], "epochs": [1, 2]}


def estimator(**options):
    return DPClassifier(
        **{"epsilon": 8, "delta": "1e-4", "classes": [0, 1], "batch": 40, "epochs": 1, "simulation_seed": 4} | options
    )


def search(model=None, grid=GRID, **options):
    given = {"held_out": (X[100:], Y[100:]), "runs": 4} | options
    return discreet.tune(model or estimator(), grid, X[:100], Y[:100], **given)


def test_a_search_releases_its_best_run_with_one_charge(tmp_path):
    found = search()
    assert found.setting in [{"learning_rate": r, "epochs": e} for r in (0.001, 1.0) for e in (1, 2)]
    assert 0 <= found.score <= 1
    assert found.simulation
    assert found.classifier.predict(X[:5]).shape == (5,)
    assert found.classifier.get_params()["epochs"] == found.setting["epochs"]
    lines = [json.loads(line) for line in found.classifier.account_]
    assert len(lines) == 2  # the opening and one entry, however many runs there were
    made = found.classifier.certificate()
    assert made["claim"]["epsilon"] == 8
    assert [path["name"] for path in made["trajectories"]] == ["initial", "held-out"]
    assert all(path["epsilon_rdp"] <= 8 for path in made["trajectories"])
    schema = Path(__file__).parents[2] / "docs" / "reference" / "certificate.schema.json"
    jsonschema.validate(made, json.loads(schema.read_text()))
    write_certificate(made, tmp_path / "certificate.json")
    assert verify(tmp_path / "certificate.json").ok


def test_the_better_setting_wins_when_it_is_tried():
    """Public scores, many runs: a rate of 1 learns, one of 1e-9 does not."""
    found = search(grid={"learning_rate": [1e-9, 1.0]}, held_out=None, public=(X[100:], Y[100:]), runs=8, law="poisson")
    assert found.setting == {"learning_rate": 1.0}
    assert found.price.score is None
    assert found.score > 0.7


def test_runs_are_compared_by_the_declared_metric_and_the_baseline_is_told():
    for metric in ("balanced-accuracy", "auc", "log-loss"):
        found = search(grid={"learning_rate": [1e-9, 1.0]}, metric=metric, runs=8)
        assert found.setting == {"learning_rate": 1.0}
        assert found.score == found.evaluation.metric(metric).value
        assert found.evaluation.kind == "paid"
    assert search().baseline == pytest.approx(max(np.mean(Y[100:]), 1 - np.mean(Y[100:])), abs=0.1)
    public = search(held_out=None, public=(X[100:], Y[100:]), metric="log-loss")
    assert 0 < public.score < public.baseline < 0.7
    with pytest.raises(BadInput, match="Choose of accuracy, balanced-accuracy"):
        search(metric="rmse")
    thirds = np.arange(160) % 3
    with pytest.raises(BadInput, match="paid for once"):
        discreet.tune(estimator(classes=[0, 1, 2]), GRID, X[:100], thirds[:100], held_out=(X[100:], thirds[100:]),
                      metric="auc")  # fmt: skip


def test_a_seed_repeats_the_search():
    first, second = search(), search()
    assert (first.setting, first.score) == (second.setting, second.score)


def test_a_killed_search_is_repeated_and_then_over(tmp_path, monkeypatch):
    model = estimator(simulation_seed=None, ledger=tmp_path / "ledger.jsonl")
    drawn, scores, one = [], [], searching._Search._run

    def watched(receipt, **options):
        runs = original(receipt, **options)
        drawn.append(runs.choices)
        return runs

    def killed(self, *parts):
        scores.append(one(self, *parts)[1].accuracy)
        raise KeyboardInterrupt

    original = noise_tuned.tuned_runs
    monkeypatch.setattr("discreet.noise.tuned_runs", watched)
    with monkeypatch.context() as patch:
        patch.setattr(searching._Search, "_run", killed)
        with pytest.raises(KeyboardInterrupt):
            search(model)
    with pytest.raises(LedgerUnavailable):  # another list of settings under the same noise
        search(model, grid={"learning_rate": [0.1, 1.0], "epochs": [1, 2]})
    with monkeypatch.context() as patch:
        patch.setattr(searching._Search, "_run", killed)
        with pytest.raises(KeyboardInterrupt):
            search(model)
    found = search(model)
    assert len(set(drawn)) == 1
    assert scores[0] == scores[1] <= found.score
    with Ledger.open(FileSink(model.ledger)) as ledger:
        assert len(ledger) == 1
    assert not list(tmp_path.glob("*.draws"))
    with pytest.raises(LedgerUnavailable):  # it is paid for once
        search(model)


def test_other_records_under_the_same_noise_are_refused(tmp_path, monkeypatch):
    model = estimator(simulation_seed=None, ledger=tmp_path / "ledger.jsonl")
    one = searching._Search._run

    def killed(self, *parts):
        one(self, *parts)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(searching._Search, "_run", killed)
        with pytest.raises(KeyboardInterrupt):
            search(model)
    with pytest.raises(LedgerUnavailable, match="hid something else"):
        discreet.tune(model, GRID, -X[:100], Y[:100], held_out=(X[100:], Y[100:]), runs=4)


def test_persons_are_searched_for_with_public_scores():
    model = estimator(unit="person")
    owners = np.repeat(np.arange(50), 2)
    found = discreet.tune(
        model, {"clip": [0.5, 1.0]}, X[:100], Y[:100], public=(X[100:], Y[100:]), persons=owners, runs=2
    )
    assert found.price.units == 50
    assert found.classifier.certificate()["budget"]["unit"] == "person"
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    "wrong",
    [
        {"held_out": None},
        {"public": (X[100:], Y[100:])},
        {"held_out": X[100:]},
        {"held_out": (X[100:, :2], Y[100:])},
        {"held_out": (X[100:], Y[101:])},
        {"grid": {}, "runs": 1},
        {"grid": []},
        {"grid": "learning_rate"},
        {"grid": [3]},
        {"grid": {"learning_rate": 0.5}},
        {"grid": {"epsilon": [1, 2]}},
        {"grid": {"learning_rate": [-1.0]}},
        {"grid": {"epochs": [0]}},
        {"runs": "many"},
        {"runs": 0},
        {"eta": -2},
        {"law": "fixed"},
        {"model": estimator(watch=print)},
        {"model": estimator(epsilon=None)},
        {"model": estimator(unit="person")},
        {"model": "linear"},
    ],
)
def test_nonsense_is_refused_before_anything_is_charged(wrong, monkeypatch):
    monkeypatch.setattr(Ledger, "create", None)
    with pytest.raises(BadInput) as refused:
        search(**wrong)
    assert "[" not in str(refused.value).replace("classes=[...]", "") or "grid" in wrong
