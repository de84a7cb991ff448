"""Whole campaigns with hidden selection, attacked with exact likelihoods: what is true is within the claim, what is
planted is found.
"""

from collections import Counter
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hidden_plants import (
    AskedSetShown,
    NullCounted,
    NumberShown,
    SlotsAsMany,
    StillCounted,
    ToppedUp,
    Truncated,
)

from discreet.noise import Seeded
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.privacy.selection_terms import HiddenSlots, SelectionTerms
from discreet.selectors import HiddenThresholdSelector
from discreet.testing.neighbours import AMPLE
from discreet.testing.noise import SURELY
from discreet_research.selection_attacks.hidden_attack import HiddenRuns, HiddenScene, attack_hidden, lowest_mean
from discreet_research.selection_attacks.sample_tests import same_law_pvalue

pytestmark = pytest.mark.thorough

DELTA = 0.01
TRAINED = {"k": 1, "bins": 3, "rate": 0.5, "noise": 1.0}
SCENES = {
    "always above": HiddenScene(bins_of=((2, 0, 1),) * 3, gradients=(1, 0.5, -1), epsilon="0.5", **TRAINED),
    "always at the edge": HiddenScene(bins_of=((1, 1, 1),) * 3, gradients=(1, 1, -1), epsilon="0.5", **TRAINED),
    "asked at the end": HiddenScene(
        bins_of=((0, 1, 2), (0, 1, 2), (2, 1, 0)), gradients=(1, 1, -1), epsilon="0.5", **TRAINED
    ),
    "never asked": HiddenScene(bins_of=((0, 2, 2),) * 3, gradients=(1, 1, -1), epsilon="2", **TRAINED),
    "asked if the model says so": HiddenScene(
        bins_of=((0, 2, 2), (2, 2, 1), (2, 1, 0)), gradients=(1, -1, -1), epsilon="0.5", turned=(0, 0, 1), **TRAINED
    ),
}
TIGHT = HiddenScene(bins_of=((1, -1),) * 2, gradients=(1, 0), k=40, epsilon="0.02", bins=2, rate=0.5, noise=1.0)


def terms(scene):
    slots = HiddenSlots(slots=(9,) * scene.queries, bins=max(scene.bins, 2), overflow=Decimal("1e-9"))
    return SelectionTerms(kind="hidden", queries=scene.queries, threshold_epsilon=Decimal(scene.epsilon), hidden=slots)


def claimed(scene):
    return scene.claimed(terms(scene), DELTA)


@pytest.mark.parametrize("name", SCENES)
def test_what_is_true_is_within_the_claim(name):
    found = attack_hidden(HiddenRuns(scene=SCENES[name]), runs=6_000, epsilon=claimed(SCENES[name]))
    assert found.proved <= DELTA
    assert max(found.forward, found.backward) <= DELTA


def test_the_attack_sees_most_of_what_is_claimed():
    found = attack_hidden(HiddenRuns(scene=TIGHT), runs=20_000, epsilon=claimed(TIGHT))
    assert 0.7 * DELTA < found.forward < DELTA
    assert found.proved <= DELTA


def test_it_sees_as_much_backward_where_hardly_anybody_is_left_out():
    """Sampling hides a null better than a record; without it both ways cost the same."""
    scene = replace(TIGHT, rate=0.9999)
    found = attack_hidden(HiddenRuns(scene=scene), runs=20_000, epsilon=claimed(scene))
    assert 0.6 * DELTA < found.forward < DELTA
    assert 0.6 * DELTA < found.backward < DELTA


@pytest.mark.long
@pytest.mark.parametrize("name", [*SCENES, "tight"])
def test_a_million_runs_are_within_the_claim(name):
    scene = SCENES.get(name, TIGHT)
    parts = [attack_hidden(HiddenRuns(scene=scene), runs=50_000, epsilon=claimed(scene), seed=s) for s in range(20)]
    for way in ("forward", "backward"):
        assert np.mean([getattr(part, way) for part in parts]) <= DELTA


ALONE = {"gradients": (1, 0), "k": 1, "bins": 2, "noise": 0.8, "rate": 0.6}
PLANTED = {
    "the asked set is shown": (AskedSetShown, SCENES["always above"]),
    "how many were asked is shown": (NumberShown, SCENES["always above"]),
    "slots as many as asked, and noise by their number": (SlotsAsMany, SCENES["always above"]),
    # in its place another would have been asked, whose gradient is opposite
    "truncation to k": (
        Truncated,
        HiddenScene(bins_of=((2, 2, -1),), gradients=(1, -1, 0), k=1, epsilon="0.1", bins=3, rate=0.9, noise=1.0),
    ),
    "topping up to k": (
        ToppedUp,
        HiddenScene(bins_of=((2, 0),), gradients=(1, -1), k=1, epsilon="0.1", bins=3, rate=0.9, noise=1.0),
    ),
    "a null is counted": (
        NullCounted,
        HiddenScene(bins_of=((2, 1),) * 4, gradients=(1, 0), k=1, epsilon="1", bins=3, rate=0.2, noise=3.0),
    ),
    "counted after it was asked": (StillCounted, HiddenScene(bins_of=((1, -1),) * 2, epsilon="2", **ALONE)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name):
    planted, scene = PLANTED[name]
    epsilon = claimed(scene)
    found = attack_hidden(planted(scene=scene), runs=8_000, epsilon=epsilon)
    assert found.proved > DELTA
    assert max(vars(attack_hidden(HiddenRuns(scene=scene), runs=4_000, epsilon=epsilon)).values()) <= DELTA


def test_a_threshold_that_was_not_charged_is_found():
    scene = HiddenScene(bins_of=((0, 1), (1, 1)), epsilon="2", **ALONE)
    found = attack_hidden(HiddenRuns(scene=scene), runs=8_000, epsilon=claimed(scene) - 2)
    assert found.proved > DELTA


def test_the_runs_have_the_law_of_the_selector():
    """Edges and asked sets of one query, by `select()` and by the runs; another epsilon would be noticed."""
    scene = SCENES["always at the edge"]
    count, epsilon = 1200, scene.epsilon
    selector = HiddenThresholdSelector(threshold_epsilon=epsilon, slots=9, bins=3)
    book = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(5))
    paid = book.charge(event=selector.price(1, 3)[0], count=count, who="pool", why="law")
    scores = (np.array(scene.bins_of[0]) + 0.5) / 3
    real = []
    for _ in range(count):
        found = selector.select(ids=["0", "1", "2"], scores=scores, k=1, receipt=paid)
        real.append(round(found.threshold * 3) * 8 + sum(1 << int(one) for one in found.ids))
    assert len(Counter(real)) > 6
    for own, same in ((epsilon, True), ("1.0", False)):
        made = HiddenScene(**vars(scene) | {"epsilon": own, "bins_of": scene.bins_of[:1]})
        assert (same_law_pvalue(np.array(real), _drawn(made, count)) > SURELY) is same


def _drawn(scene, count):
    """(edge, asked set) of one query, as numbers: by the runs, with the asked set shown."""
    runs = AskedSetShown(scene=scene)
    seen = runs.draw(present=True, runs=count, seed=3)
    edge, _ = runs.decided(seen.histograms[:, 0])
    return edge * 8 + seen.told[:, 0].astype(np.int64)


def test_the_lower_end_of_a_mean_is_below_it():
    rng = np.random.default_rng(0)
    ends = [lowest_mean((rng.random(2000) < 0.1).astype(float), 1e-3) for _ in range(300)]
    assert max(ends) < 0.1
    assert min(ends) > 0.03
