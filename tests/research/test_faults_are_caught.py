"""Injected faults are caught by the audit, each in the target that is made to see it."""

from dataclasses import replace

import pytest

from discreet.audit import RECIPES, audit, targets_of
from discreet_research.injected_faults import FAULTS
from discreet_research.injected_faults.training_faults import FAULTS as TRAINING_FAULTS

pytestmark = pytest.mark.thorough

CAUGHT_IN = {
    ("stream", "no-noise"): ("updates", 1000),
    ("stream", "uncharged-asking"): ("asking", 1000),
    ("stream", "skipped-nulls"): ("both", 1000),
    ("stream", "half-noise"): ("both", 1000),
    ("public-data", "no-noise"): ("both", 1000),
    ("public-data", "no-clipping"): ("components", 1000),
    ("public-data", "private-top"): ("counts", 1000),
    ("public-data", "half-noise"): ("both", 1000),
    ("pate", "no-noise"): ("gaussian", 1000),
    ("pate", "shared-records"): ("gaussian", 600),
    ("pate", "uncounted-unstable"): ("sparse", 1000),
    ("pate", "half-noise"): ("gaussian", 600),
    ("crowd", "no-subsampling"): ("rows", 1000),
    ("crowd", "reused-coins"): ("rows", 5000),
    ("crowd", "occurrence-coins"): ("persons", 1000),
    ("crowd", "occurrences-counted"): ("persons", 1000),
}
BY_BOUND = [case for case in CAUGHT_IN if case[1] not in ("half-noise", "shared-records", "private-top")]


def audited(recipe, target, plant, *, canaries, seed=21):
    fault = FAULTS[recipe][plant]
    settings = replace(targets_of(recipe)[1][target], canaries=canaries, fault=fault, **fault.settings)
    return settings.audit(target, seed)


def test_every_fault_has_a_target_that_sees_it():
    others = {(recipe, plant) for recipe in RECIPES if recipe != "private-pool" for plant in FAULTS[recipe]}
    assert set(CAUGHT_IN) == others


@pytest.mark.parametrize(("recipe", "plant"), CAUGHT_IN)
def test_injected_faults_are_caught(recipe, plant):
    target, canaries = CAUGHT_IN[recipe, plant]
    found = audited(recipe, target, plant, canaries=canaries)
    assert found.failed
    if (recipe, plant) in BY_BOUND:
        assert any(one.verdict == "exceeded" for one in found.findings)


@pytest.mark.parametrize("aggregator", ["laplace", "confident answers", "confident checks", "sparse"])
@pytest.mark.parametrize("plant", ["no-noise", "half-noise"])
def test_noise_of_every_way_of_answering(aggregator, plant):
    assert audited("pate", aggregator, plant, canaries=600).failed


@pytest.mark.parametrize("plant", TRAINING_FAULTS)
def test_faults_of_the_private_pool_are_caught(plant):
    found = audit(recipe="private-pool", plant=plant, canaries=3000, seed=12)
    assert found.verdict == "broken"
    by_variance = any(test.verdict == "smaller" for target in found.recipes[0].targets for test in target.variances)
    by_bound = any(one.verdict == "exceeded" for target in found.recipes[0].targets for one in target.findings)
    assert by_bound if plant in list(TRAINING_FAULTS)[:4] else by_variance


def test_no_fault_stays():
    from discreet.trainers.dp_sgd import DPSGD, cohorts, trainer

    before = (DPSGD.train, vars(cohorts)["poisson_mask"], vars(trainer)["gaussian"], trainer._Step)
    for fault in TRAINING_FAULTS.values():
        with fault.inject():
            pass
    assert before == (DPSGD.train, vars(cohorts)["poisson_mask"], vars(trainer)["gaussian"], trainer._Step)
