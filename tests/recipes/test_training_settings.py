"""What a campaign's file leaves open about training: chosen once from public numbers, stored and shown."""

import math

import numpy as np
import pytest
from small_campaigns import CLASSES, SIZE, again, finish, ids_of, made, pool_and_truth, tables

from discreet.api import create_campaign
from discreet.config import CampaignConfig
from discreet.errors import InvalidConfig
from discreet.pools import ArrayPool
from discreet.recipes import learning
from discreet.recipes.training_settings import settings_facts
from discreet.report.report_data import report_of
from discreet.trainers.dp_sgd import Settings, automatic, automatic_settings

OPEN = {"batch": None, "epochs": None, "trainer": {"engine": "reference"}}
NUMBERS = {"labels": 120, "epsilon": 8.0, "delta": 1e-4, "classes": 3, "dimension": 4, "phases": 3, "initial": 60}


def training(campaign):
    """Settings and plan that a campaign trains by."""
    plan, settings = campaign.recipe.plan, learning.settings_of(campaign.recipe.config)
    return plan.batch, plan.epochs, settings.learning_rate, settings.clip, settings.ema


def by_rule(**numbers):
    rule = automatic_settings(**NUMBERS | numbers)
    return rule.batch, rule.epochs, rule.settings.learning_rate, rule.settings.clip, rule.settings.ema


def test_what_is_left_open_follows_from_public_numbers_and_is_stored_and_shown(tmp_path, monkeypatch):
    pool, truth = pool_and_truth()
    campaign = made(tmp_path, pool, **OPEN)
    first = training(campaign)
    assert first == by_rule()
    assert first[0] <= 60
    monkeypatch.setattr(automatic, "NOISE", 7.0)  # a later version has another rule
    monkeypatch.setattr(automatic, "STEPS", 9.0)
    campaign = again(tmp_path, pool)
    assert training(campaign) == first
    finish(campaign, truth)
    facts, (line,) = settings_facts(campaign.store)
    assert facts["settings"]["by"] == "rule"
    assert (facts["settings"]["batch"], facts["settings"]["learning_rate"]) == (first[0], first[2])
    assert line.endswith("chosen by rule from public numbers")
    assert line.endswith(report_of(campaign).about["settings"])


def test_records_have_no_say(tmp_path):
    numbers = []
    for name, rows in (
        ("zeros", np.zeros((SIZE, 4))),
        ("far", np.full((SIZE, 4), 1e6)),
        ("ones", np.ones((SIZE, 4))),
    ):
        pool = ArrayPool(ids=ids_of(), x=rows.astype(np.float32))
        numbers.append(training(made(tmp_path, pool, name=name, **OPEN)))
    assert len(set(numbers)) == 1


def test_what_the_file_says_is_kept_and_the_rest_follows(tmp_path):
    pool, _ = pool_and_truth()
    campaign = made(tmp_path, pool, name="batch", **OPEN | {"batch": 20, "epochs": 4})
    assert training(campaign) == by_rule(batch=20, epochs=4)
    campaign = made(tmp_path, pool, name="clip", **OPEN | {"trainer": {"clip": 1.0}})
    assert training(campaign) == by_rule(given={"clip": 1.0})
    campaign = made(tmp_path, pool, name="rate", **OPEN | {"trainer": {"learning_rate": 2.0}})
    assert training(campaign) == (*by_rule()[:2], 2.0, 1.0, None)
    assert settings_facts(made(tmp_path, pool, name="all", trainer={"learning_rate": 2.0, "clip": 1.0}).store) == (
        {},
        [],
    )


@pytest.mark.parametrize(
    "other", [{"model": "mlp"}, {"trainer": {"settings": "default"}}, {"model": "small_cnn", "model_options": {}}]
)
def test_other_models_and_default_have_the_defaults(tmp_path, other):
    pool = (
        ArrayPool(ids=ids_of(), x=np.zeros((SIZE, 1, 16, 16), np.float32))
        if "cnn" in str(other)
        else pool_and_truth()[0]
    )
    campaign = made(tmp_path, pool, **OPEN | other)
    assert training(campaign) == (60, 20, Settings.learning_rate, Settings.clip, None)
    assert settings_facts(campaign.store)[1][0].endswith("chosen by default")


def test_the_norm_bound_is_that_of_the_declared_map(tmp_path):
    pictures = ArrayPool(ids=ids_of(), x=np.zeros((SIZE, 8, 8), np.float32))
    campaign = made(tmp_path, pictures, **OPEN, features={"name": "scattering"})
    feature_map = campaign.recipe.config.features.fitted
    assert training(campaign) == by_rule(dimension=feature_map.output_size, norm_bound=feature_map.norm_bound)
    assert training(campaign)[3] == pytest.approx(0.1 * math.hypot(feature_map.norm_bound, 1))


def test_scouts_leave_the_last_phase_a_training_of_its_own(tmp_path):
    campaign = made(tmp_path, pool_and_truth()[0], **OPEN, plan={"schedule": "scout"})
    assert training(campaign) == by_rule(phases=1, initial=None)
    assert training(campaign)[0] == 120


def test_classes_with_weights_have_a_longer_clip(tmp_path):
    weighted = OPEN | {"trainer": {"class_weights": [1, 2, 3]}}
    assert training(made(tmp_path, pool_and_truth()[0], **weighted)) == by_rule(weighted=True)


def test_public_data_says_batch_and_epochs():
    form = tables(**OPEN) | {"recipe": {"name": "public-data"}}
    with pytest.raises(InvalidConfig, match="batch = 64"):
        CampaignConfig.from_json({"format": "discreet.campaign/1", "name": "x", **form})


def test_a_linear_campaign_with_nothing_said_learns(tmp_path):
    pool, truth = pool_and_truth()
    recipe = tables(**OPEN)
    campaign = create_campaign(
        "x", storage=tmp_path / "x.db", pool=pool, budget={"epsilon": "8", "delta": "1e-4"}, recipe=recipe
    )
    finish(campaign, truth)
    guesses = campaign.predict(np.asarray(pool.x))
    assert np.mean([truth[name] == guess for name, guess in zip(pool.ids, guesses, strict=True)]) > 0.85
    assert set(guesses) <= set(CLASSES)
