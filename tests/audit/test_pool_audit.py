"""Twins of the private pool: what is right is not called broken, and every planted mistake is caught."""

import json

import numpy as np
import pytest

from discreet.audit.audited import Audits
from discreet.audit.canaries import Canaries
from discreet.audit.planted import PLANTS, planted
from discreet.audit.pool_audit import audit_pool, twins_of
from discreet.audit.variances import batch_variance, noise_variance
from discreet.cli.app import run
from discreet.errors import BadInput
from discreet.report.audit_figure import audit_bars, draw_audit

pytestmark = pytest.mark.thorough

SOME = 3000


@pytest.fixture(scope="module")
def sound():
    return audit_pool(canaries=SOME, seed=11)


def test_what_is_right_is_not_called_broken(sound):
    assert sound.verdict == "holds"
    assert [one.twin for one in sound.twins] == ["training", "selection", "campaign"]
    for twin in sound.twins:
        assert all(found.verdict == "not exceeded" for found in twin.findings)  # and none without a verdict
        assert all(found.highest > twin.claimed for found in twin.findings)
        noise = next(test for test in twin.variances if test.test == "noise")
        assert 0.9 < noise.ratio < 1.2


def test_selection_leaks_nearly_what_it_claims(sound):
    """Asked and missed by coins of 0.9: the guesses are as good as such coins allow, so the attack is a strong one."""
    asked = next(found for found in sound.twins[1].findings if found.attack == "asked")
    coin = 1 / (1 + np.exp(-0.9))
    assert asked.guesses.right / asked.guesses.made == pytest.approx(coin, abs=0.05)


@pytest.mark.parametrize("plant", PLANTS)
def test_planted_mistakes_are_caught(plant):
    found = audit_pool(plant=plant, canaries=SOME, seed=12)
    assert found.verdict == "broken"
    by_variance = any(test.verdict == "smaller" for twin in found.twins for test in twin.variances)
    by_bound = any(one.verdict == "exceeded" for twin in found.twins for one in twin.findings)
    assert by_bound if plant in PLANTS[:4] else by_variance


def test_nothing_stays_planted():
    from discreet.trainers.dp_sgd import DPSGD, cohorts, trainer

    before = (DPSGD.train, vars(cohorts)["poisson_mask"], vars(trainer)["gaussian"], trainer._Step)
    for plant in PLANTS:
        with planted(plant, []):
            pass
    assert before == (DPSGD.train, vars(cohorts)["poisson_mask"], vars(trainer)["gaussian"], trainer._Step)


def test_canaries_are_there_by_fair_coins_and_alone_on_their_axes():
    many = Canaries(count=600, seed=3)
    rows = many.rows()
    assert 240 < many.coins.sum() < 360
    assert np.isnan(rows[~many.coins]).all()
    there = rows[many.coins]
    assert (np.count_nonzero(there, axis=1) == 1).all()
    assert (there.argmax(axis=1) == np.flatnonzero(many.coins)).all()
    weights = np.zeros((2, 600))
    weights[many.labels, np.arange(600)] = 1.0
    assert (many.along(weights) > 0).all()


def test_variances_see_a_tenth():
    luck = np.random.default_rng(0)
    noise = luck.normal(size=5000)
    assert noise_variance(noise).verdict == "not smaller"
    assert noise_variance(0.9 * noise).verdict == "smaller"
    assert noise_variance(1.2 * noise).verdict == "not smaller"  # too much noise breaks no promise
    counts = [(int(luck.binomial(1000, 0.2)), 1000, 0.2) for _ in range(100)]
    assert batch_variance(counts).verdict == "not smaller"
    assert batch_variance([(200, 1000, 0.2)] * 100).verdict == "smaller"


def test_twins_of_a_file_that_hides_whom_it_asks():
    from dataclasses import replace

    usual = twins_of()["campaign"]
    assert replace(usual, selector="hidden-threshold").tables(1)["selector"]["name"] == "hidden-threshold"


def test_drawn(sound, tmp_path):
    form = json.loads(json.dumps(Audits(plant=None, seed=11, recipes=(sound,)).to_json()))
    assert len(audit_bars(form)) == sum(len(one.findings) for one in sound.twins)
    draw_audit(form, tmp_path / "audit.png")
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "wrong", [["--plant", "typo"], ["--canaries", "3"], ["--plot", "here.txt"], ["nowhere.toml"], ["--seed", "-1"]]
)
def test_nonsense_is_refused(wrong, capsys):
    assert run(["audit", *wrong]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_nonsense_in_python():
    with pytest.raises(BadInput):
        planted("typo", [])
