"""The one page says what the framework says: the same plan and claim, and a model as good.

The accuracies that the quick test compares with are those of twelve campaigns, which `make long` plays again.
"""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from discreet import create_campaign, plan
from discreet.pools import ArrayPool
from discreet.recipes import private_pool

PAGE = Path(__file__).parents[2] / "examples" / "one_page.py"
CAMPAIGNS = 0.850  # mean accuracy of the framework, seeds 0 to 11
ONE_POINT = 0.01


@pytest.fixture
def page():
    spec = importlib.util.spec_from_file_location("one_page", PAGE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["one_page"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    yield module
    del sys.modules["one_page"]


def accuracy(page, phases, seed):
    x, y, test, truth = page.digits()
    return (page.softmax(test, page.campaign(phases, x, y, seed)).argmax(1) == truth).mean()


def test_it_is_one_page_without_the_framework():
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 300
    assert "import discreet" not in text
    assert "from discreet" not in text


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"QUERIES": (50, 50, 50, 80), "MISSED": (0.5, 0.5, 0.5, 2.0), "EPOCHS": 25},
        {"EPSILON": 3.0, "DELTA": 1e-6, "INITIAL": 1000, "BATCH": 128, "ASKED": 0.5, "MISSED": (0.25, 0.5)},
        {"QUERIES": (200,), "MISSED": (3.0,), "ASKED": 3.0, "THRESHOLD": 0.02},
        {"QUERIES": (), "MISSED": ()},
    ],
)
def test_the_plan_and_the_claim_are_the_planners(page, monkeypatch, changes):
    for name, value in changes.items():
        monkeypatch.setattr(page, name, value)
    paid = bool(page.QUERIES)
    theirs = plan(
        epsilon=page.EPSILON,
        delta=page.DELTA,
        initial=page.INITIAL,
        queries=page.QUERIES,
        batch=page.BATCH,
        epochs=page.EPOCHS,
        selection_epsilon=page.ASKED if paid else 0,
        threshold_epsilon=page.THRESHOLD if paid else 0,
        missed=page.MISSED if paid else None,
        accountant="rdp",
    )
    phases, claim = page.make_plan()
    assert [phase.steps for phase in phases] == [phase.steps for phase in theirs.phases]
    for mine, phase in zip(phases, theirs.phases, strict=True):
        assert mine.sigma == pytest.approx(phase.last.noise_multiplier, rel=1e-9)
        assert mine.rates == pytest.approx(phase.last.rates, rel=1e-9)
    assert claim == pytest.approx(theirs.claim, rel=1e-9)
    assert claim <= page.EPSILON
    ends = [theirs.claim_of(path) for path in theirs.trajectories[:-1]]
    assert page.claims(phases) == pytest.approx(ends, rel=1e-9)


def test_coins_keep_their_caps_and_ask_about_k(page):
    for k, pool, above, missed in (
        (100, 1200, 200, 1.0),
        (100, 1200, 0, 2.0),
        (60, 100, 30, 0.5),
        (10, 10_000, 20, 0.1),
    ):
        high, low = page.coins(k, pool, above, missed)
        assert 0 <= low <= high <= 1
        assert high <= low * math.exp(page.ASKED) * (1 + 1e-12)
        assert (1 - low) <= (1 - high) * math.exp(missed) * (1 + 1e-12)
        assert above * high + (pool - above) * low == pytest.approx(k)


def test_high_scores_are_asked_more_often_and_never_more_than_k(page):
    rng = np.random.default_rng(0)
    scores = rng.random(1000) ** 4
    found = [page.choose(scores, 100, 1.0, rng) for _ in range(30)]
    assert max(len(one) for one in found) == 100
    assert np.mean([scores[one].mean() for one in found]) > 1.5 * scores.mean()
    assert all(len(set(one.tolist())) == len(one) for one in found)


def test_its_model_is_as_good_as_the_campaigns(page):
    phases, _ = page.make_plan()
    assert abs(np.mean([accuracy(page, phases, seed) for seed in range(20)]) - CAMPAIGNS) < ONE_POINT


@pytest.mark.long
def test_campaigns_of_the_framework_are_as_good(page, tmp_path):
    phases, _ = page.make_plan()
    x, y, test, truth = page.digits()
    ids = [f"d{number}" for number in range(len(y))]
    known = dict(zip(ids, map(str, y), strict=True))
    found = []
    for seed in range(12):
        recipe = private_pool(
            classes=[str(digit) for digit in range(10)],
            initial=page.INITIAL,
            queries=page.QUERIES,
            batch=page.BATCH,
            epochs=page.EPOCHS,
            selection_epsilon=page.ASKED,
            threshold_epsilon=page.THRESHOLD,
            trainer={"learning_rate": page.RATE, "ema": page.AVERAGE, "clip": page.CLIP},
            plan={"accountant": "rdp", "missed": [str(cap) for cap in page.MISSED]},
            simulation={"seed": seed},
        )
        campaign = create_campaign(
            f"digits {seed}",
            storage=tmp_path / "digits.db",
            pool=ArrayPool(ids=ids, x=x[:, :-1].astype(np.float32)),
            budget={"epsilon": page.EPSILON, "delta": page.DELTA},
            recipe=recipe,
        )
        assert [phase.steps for phase in campaign.recipe.plan.phases] == [phase.steps for phase in phases]
        while questions := campaign.ask():
            campaign.tell({question.id: known[question.record] for question in questions})
            campaign.train()
        guesses = campaign.predict(test[:, :-1].astype(np.float32))
        found.append(np.mean(np.array(guesses) == truth.astype(str)))
    assert abs(np.mean(found) - CAMPAIGNS) < 0.005  # seeded, so nearly the same everywhere
    ours = np.mean([accuracy(page, phases, seed) for seed in range(200)])
    assert abs(np.mean(found) - ours) < ONE_POINT
