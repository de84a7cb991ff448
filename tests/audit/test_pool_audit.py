"""Audit targets of the private pool: correct code is not called broken, and nonsense is refused."""

import json

import numpy as np
import pytest

from discreet.audit import Audits, audit, targets_of
from discreet.audit.checks import batch_variance, noise_variance
from discreet.audit.pool_target import Canaries
from discreet.cli.app import run
from discreet.report.plan_figure import audit_bars, draw_audit

pytestmark = pytest.mark.thorough

SOME = 3000


@pytest.fixture(scope="module")
def sound():
    return audit(recipe="private-pool", canaries=SOME, seed=11).recipes[0]


def test_what_is_right_is_not_called_broken(sound):
    assert sound.verdict == "holds"
    assert [target.target for target in sound.targets] == ["training", "selection", "campaign"]
    for target in sound.targets:
        assert all(found.verdict == "not exceeded" for found in target.findings)  # and none without a verdict
        assert all(found.highest > target.claimed for found in target.findings)
        noise = next(test for test in target.variances if test.test == "noise")
        assert 0.9 < noise.ratio < 1.2


def test_selection_leaks_nearly_what_it_claims(sound):
    """Asked and missed by coins of 0.9: the guesses are as good as such coins allow, so the attack is a strong one."""
    asked = next(found for found in sound.targets[1].findings if found.attack == "asked")
    coin = 1 / (1 + np.exp(-0.9))
    assert asked.guesses.right / asked.guesses.count == pytest.approx(coin, abs=0.05)


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
    rng = np.random.default_rng(0)
    noise = rng.normal(size=5000)
    assert noise_variance(noise).verdict == "not smaller"
    assert noise_variance(0.9 * noise).verdict == "smaller"
    assert noise_variance(1.2 * noise).verdict == "not smaller"  # too much noise breaks no claim
    counts = [(int(rng.binomial(1000, 0.2)), 1000, 0.2) for _ in range(100)]
    assert batch_variance(counts).verdict == "not smaller"
    assert batch_variance([(200, 1000, 0.2)] * 100).verdict == "smaller"


def test_targets_of_a_file_that_hides_whom_it_asks():
    from dataclasses import replace

    usual = targets_of("private-pool")[1]["campaign"]
    assert replace(usual, selector="hidden-threshold").tables(1)["selector"]["name"] == "hidden-threshold"


def test_drawn(sound, tmp_path):
    form = json.loads(json.dumps(Audits(plant=None, seed=11, recipes=(sound,)).to_json()))
    assert len(audit_bars(form)) == sum(len(one.findings) for one in sound.targets)
    draw_audit(form, tmp_path / "audit.png")
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "wrong", [["--plant", "typo"], ["--canaries", "3"], ["--plot", "here.txt"], ["nowhere.toml"], ["--seed", "-1"]]
)
def test_nonsense_is_refused(wrong, capsys):
    assert run(["audit", *wrong]) == 2
    assert "Traceback" not in capsys.readouterr().err
