"""Settings by a rule: from public numbers alone, of the right size, and better than the defaults on a public set."""

import inspect
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from discreet import DPClassifier
from discreet.classifier import chosen_settings, private_data
from discreet.errors import BadInput
from discreet.trainers.dp_sgd import Settings, automatic_settings
from discreet.trainers.dp_sgd.automatic import gaussian_budget
from discreet.tuning import tune

pytestmark = pytest.mark.thorough

NUMBERS = {"labels": 1000, "epsilon": 3.0, "delta": 1e-5, "classes": 10, "dimension": 64}


def test_it_takes_public_numbers_and_no_data():
    kinds = {name: parameter.annotation for name, parameter in inspect.signature(automatic_settings).parameters.items()}
    assert set(kinds.values()) <= {"int", "float", "float | None", "int | None", "bool", "Mapping[str, Any]"}
    assert automatic_settings(**NUMBERS) == automatic_settings(**NUMBERS)


def test_scaling_the_features_changes_nothing_but_units():
    """Features ten times as long: weights a tenth as long make the same logits."""
    short = automatic_settings(**NUMBERS, norm_bound=100.0).settings
    long = automatic_settings(**NUMBERS, norm_bound=1000.0).settings
    assert long.clip / short.clip == pytest.approx(10, rel=1e-3)
    assert long.learning_rate / short.learning_rate == pytest.approx(1 / 100, rel=1e-3)
    assert automatic_settings(**NUMBERS) == automatic_settings(**NUMBERS, norm_bound=math.sqrt(64 / 3))


def test_more_budget_more_labels_and_fewer_phases_go_further():
    def far(**changes):
        chosen = automatic_settings(**NUMBERS | changes)
        phases = changes.get("phases", 1)
        return chosen.epochs * phases, chosen.epochs * phases * chosen.settings.learning_rate * chosen.settings.clip

    steps, travel = far()
    for more in ({"labels": 4000}, {"epsilon": 8.0}, {"delta": 1e-2}):
        assert far(**more)[0] >= steps
        assert far(**more)[1] > travel
    assert far(phases=4)[1] < travel
    assert automatic_settings(**NUMBERS, phases=4).batch == 250
    assert automatic_settings(**NUMBERS).batch == 1000
    assert far(labels=10**9)[0] <= 100  # and a learning rate that Settings take


def test_the_learning_rate_follows_the_steps_of_a_batch_and_epochs_that_are_given():
    full, tenth = automatic_settings(**NUMBERS, epochs=20), automatic_settings(**NUMBERS, batch=100, epochs=20)
    assert (full.batch, tenth.batch, tenth.epochs) == (1000, 100, 20)
    assert full.settings.learning_rate == pytest.approx(10 * tenth.settings.learning_rate)


def test_other_models_have_the_defaults():
    chosen = automatic_settings(**NUMBERS, linear=False)
    assert (chosen.batch, chosen.epochs, chosen.settings) == (256, 20, Settings())
    assert automatic_settings(**NUMBERS | {"labels": 50}, linear=False).batch == 50


def test_the_gaussian_budget():
    """Known answers: sensitivity 1 at (1, 1e-5) takes sigma 3.73 by exact calibration (Balle and Wang 2018)."""
    assert 1 / gaussian_budget(1.0, 1e-5) == pytest.approx(3.7306, rel=1e-4)
    assert gaussian_budget(1e-6, 1e-5) == pytest.approx(1e-5 * math.sqrt(2 * math.pi), rel=0.1)
    assert 10 < gaussian_budget(100.0, 1e-5) < 11
    assert math.isfinite(gaussian_budget(1e4, 1e-5))


@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": 0},
        {"classes": True},
        {"phases": 1.5},
        {"batch": 0},
        {"epochs": True},
        {"epsilon": 0.0},
        {"epsilon": math.inf},
        {"delta": 1.0},
        {"norm_bound": 0.0},
        {"norm_bound": math.nan},
    ],
)
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(BadInput):
        automatic_settings(**NUMBERS | wrong)


FITTED = {"delta": "1e-5", "classes": range(10), "scale": 16, "accountant": "rdp", "simulation_seed": 1}


def test_a_classifier_with_the_rule_beats_the_defaults_and_looks_at_no_record():
    x, y = load_digits(return_X_y=True)
    by_rule = DPClassifier(epsilon=2, **FITTED).fit(x[:1000], y[:1000])
    by_default = DPClassifier(epsilon=2, settings=None, **FITTED).fit(x[:1000], y[:1000])
    assert by_rule.score(x[1000:], y[1000:]) > by_default.score(x[1000:], y[1000:]) + 0.02
    assert by_rule.certificate()["budget"]["epsilon"] == 2
    other = DPClassifier(epsilon=2, settings="auto", **FITTED).fit(np.full((1000, 64), np.nan), y[:1000] * 0)
    assert other.plan_ == by_rule.plan_


def test_what_is_given_is_kept():
    x, y = load_digits(return_X_y=True)
    model = DPClassifier(epsilon=2, settings="auto", batch=100, epochs=3, **FITTED).fit(x[:300], y[:300])
    assert model.n_iter_ == 9
    mlp = DPClassifier(epsilon=2, settings="auto", model="mlp", epochs=1, **FITTED).fit(x[:300], y[:300])
    assert mlp.n_iter_ == 1
    assert model.settings == "auto"
    with pytest.raises(BadInput, match='or "auto"'):
        DPClassifier(epsilon=2, settings="best", **FITTED).fit(x[:300], y[:300])
    weighted = DPClassifier(epsilon=2, settings="auto", epochs=2, class_weight={3: 2}, **FITTED)
    assert weighted.fit(x[:300], y[:300]).n_iter_ == 2


def test_the_norm_bound_is_that_of_the_features():
    x, y = load_digits(return_X_y=True)
    records = {"inputs": (8, 8), "features": "scattering", "feature_options": {"scales": 1}, "epochs": 1}
    model = DPClassifier(epsilon=2, settings="auto", **records, **FITTED).fit(x[:200], y[:200])
    assert private_data(model, x[:200], y[:200], None).norm_bound == model.feature_map_.norm_bound
    assert private_data(DPClassifier(**FITTED), x[:200], y[:200], None).norm_bound is None
    schema = {f"column {number}": {"type": "number", "low": 0, "high": 16} for number in range(64)}
    table = pd.DataFrame(x[:200], columns=list(schema))
    for features, bound in ((None, 8), ("auto", 1.00001)):
        declared = DPClassifier(schema=schema, features=features, **FITTED | {"scale": 1})
        assert private_data(declared, table, y[:200], None).norm_bound == bound


def test_settings_that_are_chosen_are_kept_and_the_rest_follows():
    rule = automatic_settings(**NUMBERS)
    clipped = automatic_settings(**NUMBERS, given={"clip": 1.0, "micro_batch": 7})
    assert (clipped.settings.clip, clipped.settings.micro_batch, clipped.settings.ema) == (1.0, 7, 0.9)
    travel = rule.settings.clip * rule.settings.learning_rate
    assert clipped.settings.learning_rate == pytest.approx(travel)
    for own in ({"learning_rate": 2.0}, {"optimizer": "adam"}, {"optimizer_options": {"momentum": 0.9}}):
        chosen = automatic_settings(**NUMBERS, given=own)
        assert chosen.settings == Settings(**own)
        assert (chosen.batch, chosen.epochs) == (rule.batch, rule.epochs)
    weighted = automatic_settings(**NUMBERS, weighted=True).settings  # a small clip would cut the weights away
    assert weighted.clip == pytest.approx(10 * rule.settings.clip)
    assert weighted.clip * weighted.learning_rate == pytest.approx(travel)


def test_of_several_phases_no_batch_is_larger_than_the_first():
    assert automatic_settings(**NUMBERS, phases=3, initial=100).batch == 100
    assert automatic_settings(**NUMBERS, phases=3, initial=600).batch == 333
    assert automatic_settings(**NUMBERS, phases=3, initial=100, linear=False).batch == 100


def test_the_classifier_takes_a_dict_of_what_is_chosen():
    x, y = load_digits(return_X_y=True)
    model = DPClassifier(epsilon=2, settings={"clip": 2.0}, epochs=1, **FITTED)
    data = private_data(model, x[:300], y[:300], None)
    assert chosen_settings(model, data)[2].clip == 2.0
    with pytest.raises(BadInput, match="Did you mean clip"):
        DPClassifier(epsilon=2, settings={"clop": 2.0}, **FITTED).fit(x[:300], y[:300])


def test_a_search_changes_what_it_names_and_the_rest_follows():
    x, y = load_digits(return_X_y=True)
    public = {"public": (x[300:], y[300:]), "runs": 2}
    rates = tune(
        DPClassifier(epsilon=2, **FITTED), {"learning_rate": [0.5, 1.0], "clip": [2.0]}, x[:300], y[:300], **public
    )
    assert rates.classifier.settings == Settings(**rates.setting)
    search = tune(DPClassifier(epsilon=2, **FITTED), {"epochs": [2, 4]}, x[:300], y[:300], **public)
    numbers = NUMBERS | {"labels": 300, "epsilon": 2.0}
    assert search.classifier.settings == automatic_settings(**numbers, epochs=search.setting["epochs"]).settings
