"""Quality against the true top k: by hand, by law, beside random, and refused where people are protected."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import create_ledger, plan
from discreet.errors import BadInput, DiscreetError
from discreet.noise import Seeded
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.records import Selection
from discreet.selectors import ExactTopK, LaplaceTopK, RandomSelector, charge_selection, selection_quality
from discreet.testing.neighbours import AMPLE
from discreet.testing.selectors import run

SIMULATED = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(0))
FOUR = {"ids": ["a", "b", "c", "d"], "scores": [0.9, 0.7, 0.2, 0.0]}


def chose(*ids, **changes):
    return Selection(ids=ids, mechanism="by hand", **{"simulation": True} | changes)


def quality(*ids, k=2, **given):
    return selection_quality(**FOUR | {"selection": chose(*ids), "k": k, "where": SIMULATED} | given)


def test_half_right_by_hand():
    one = quality("a", "c")
    assert one.found.accuracy == 0.5
    assert one.found.iou == pytest.approx(1 / 3)
    assert one.found.mse == pytest.approx(0.5**2 / 2)  # 0.9, 0.2 beside 0.9, 0.7
    assert one.found.mean == pytest.approx(0.55)
    assert one.found.share_kept == one.found.gain_kept == pytest.approx((0.55 - 0.45) / (0.8 - 0.45))
    assert (one.pool, one.k, one.asked, one.mechanism) == (4, 2, 2, "by hand")
    assert one.exact.mean == pytest.approx(0.8)
    assert one.random.accuracy == 0.5
    assert one.random.iou == pytest.approx(1 / 3)
    assert one.random.mean == pytest.approx(0.45)
    assert one.random.mse == pytest.approx(
        (0.7**2 + 0.5**2 + 0.2**2 + 0) / 4
    )  # quarters: 0 0.2 beside 0.7, 0.7 0.9 ...
    assert one.random.share_kept == one.random.gain_kept == 0


def test_fewer_asked_than_planned_are_compared_with_what_was_planned():
    one = quality("a")
    assert one.found.accuracy == 0.5
    assert one.found.iou == 0.5
    assert one.found.mse == pytest.approx(0.2**2 / 2)  # 0.9 for all shares, beside 0.7 and 0.9
    assert one.found.share_kept == pytest.approx((0.9 - 0.45) / (0.8 - 0.45))  # above 1: better on average, but fewer
    assert one.found.gain_kept == pytest.approx(one.found.share_kept / 2)
    assert one.random.accuracy == 0.25
    three = quality("d", "a", k=3)
    assert three.found.mse == pytest.approx(0.2**2 / 3 + (0.7**2 + 0.2**2) / 6 + 0)


def test_nobody_asked_and_nothing_to_gain():
    none = quality()
    assert (none.found.accuracy, none.found.iou, none.found.gain_kept) == (0, 0, 0)
    assert (none.found.mse, none.found.mean, none.found.share_kept) == (None, None, None)
    assert (none.random.accuracy, none.random.gain_kept, none.random.mean) == (0, 0, None)
    everybody = quality("a", "b", "c", "d", k=4)
    assert (everybody.found.accuracy, everybody.found.mse) == (1, 0)
    assert everybody.found.share_kept is everybody.found.gain_kept is everybody.random.gain_kept is None
    equal = quality("a", "c", scores=[0.1] * 4)
    assert (equal.found.accuracy, equal.random.accuracy, equal.random.iou) == (1, 1, 1)
    assert equal.found.share_kept is None
    assert quality("a", "b", k=9) == quality("a", "b", k=4)  # at most all of them, as in a selection


def test_ties_for_the_last_place_are_no_mistake():
    for ids in (("a", "b"), ("a", "c")):
        one = quality(*ids, scores=[0.9, 0.5, 0.5, 0.1])
        assert (one.found.accuracy, one.found.iou, one.found.mse, one.found.share_kept) == (1, 1, 0, 1)
    both = quality("b", "c", scores=[0.9, 0.5, 0.5, 0.1])
    assert both.found.accuracy == 0.5  # one place is theirs, the other is not


def test_the_papers_iou_follows_from_its_accuracy():
    """DP-AL, Table 5, random and DP-AL in four phases: both are over sets of k."""
    printed = [(0.2428, 0.138), (0.2917, 0.171), (0.0863, 0.045), (0.029, 0.015), (0.054, 0.028), (0.053, 0.027)]
    ids = [f"r{place}" for place in range(30000)]
    scores = np.linspace(1, 0, 30000)
    for accuracy, iou in printed:
        right = round(10000 * accuracy)
        asked = chose(*ids[:right], *ids[10000 : 20000 - right])
        one = selection_quality(ids=ids, scores=scores, selection=asked, k=10000, where=SIMULATED)
        assert one.found.accuracy == pytest.approx(accuracy)
        assert round(one.found.iou, 3) == iou


SCORES = st.lists(st.integers(-3, 3).map(lambda whole: whole / 8) | st.floats(-1, 1, width=32), min_size=2, max_size=6)


@given(SCORES, st.data())
@settings(max_examples=40, deadline=None)
def test_the_exact_choice_is_perfect_and_random_ones_average_to_the_baseline(scores, data):
    ids = [str(place) for place in range(len(scores))]
    k = data.draw(st.integers(1, len(scores)))
    count = data.draw(st.integers(1, k))

    def of(selection):
        return selection_quality(ids=ids, scores=scores, selection=selection, k=k, where=SIMULATED)

    exact = of(run(ExactTopK(range=(-1.0, 1.0), source=Seeded(0)), ids, scores, k))
    assert exact.found == exact.exact
    assert (exact.found.accuracy, exact.found.iou) == (1, 1)
    assert exact.found.mse == pytest.approx(0, abs=1e-12)
    nothing_to_gain = k == len(scores) or len(set(scores)) == 1
    assert exact.found.share_kept is None if nothing_to_gain else exact.found.share_kept == pytest.approx(1)

    every = [of(chose(*some)) for some in combinations(ids, count)]
    expected = every[0].random
    assert all(one.random == expected for one in every)
    means = {name: np.mean([getattr(one.found, name) for one in every]) for name in ("accuracy", "iou", "mse", "mean")}
    assert means["accuracy"] == pytest.approx(expected.accuracy)
    assert means["mean"] == pytest.approx(expected.mean, abs=1e-9)
    assert means["iou"] >= expected.iou - 1e-9  # of the average draw: from below
    assert means["mse"] >= expected.mse - 1e-9
    if not nothing_to_gain:
        assert np.mean([one.found.share_kept for one in every]) == pytest.approx(0, abs=1e-6)
    for one in every:
        assert 0 <= one.found.iou <= one.found.accuracy <= count / k
        assert one.found.share_kept is None or count < k or one.found.share_kept <= 1 + 1e-9


def test_random_of_a_large_pool_is_near_its_baseline_and_the_figures_do_not_depend_on_order():
    rng = np.random.default_rng(3)
    scores = np.minimum(rng.beta(1, 4, 20000), 0.6)  # clipped: many tie at the top
    ids = [f"r{place}" for place in range(20000)]
    asked = run(RandomSelector(source=Seeded(2)), ids, scores, 1500)
    one = selection_quality(ids=ids, scores=scores, selection=asked, k=1500, where=SIMULATED)
    for name, near in (("accuracy", 0.02), ("iou", 0.01), ("mse", 0.01), ("mean", 0.01), ("share_kept", 0.04)):
        assert getattr(one.found, name) == pytest.approx(getattr(one.random, name), abs=near), name
    mixed = rng.permutation(20000)
    again = selection_quality(
        ids=[ids[place] for place in mixed], scores=scores[mixed], selection=replace(asked, ids=asked.ids[::-1]),
        k=1500, where=SIMULATED,
    )  # fmt: skip
    assert again == one


def test_a_shift_or_scale_of_scores_keeps_the_shares():
    usual, moved = quality("a", "c"), quality("a", "c", scores=[1e6 + 3 * s for s in FOUR["scores"]])
    assert moved.found.share_kept == pytest.approx(usual.found.share_kept, abs=1e-8)
    assert moved.found.accuracy == usual.found.accuracy


def test_what_it_says_names_its_audience():
    one = quality("a", "c")
    assert "audience='owner'" in repr(one)
    assert "simulation=True" in repr(one)
    form = json.loads(json.dumps(one.to_json(), allow_nan=False))
    assert (form["format"], form["simulation"], form["audience"]) == ("discreet.selection-quality/1", True, "owner")
    assert form["found"]["accuracy"] == 0.5
    assert form["random"]["accuracy"] == 0.5
    assert not form["public"]
    open_pool = quality("a", "c", selection=chose("a", "c", simulation=False), where=None, public=True)
    assert (open_pool.audience, open_pool.simulation, open_pool.to_json()["public"]) == ("public", False, True)
    assert open_pool.found == one.found


@pytest.mark.parametrize("kind", ["committed", "adaptive"])
def test_a_production_ledger_gets_no_figures(tmp_path, kind):
    made = plan(epsilon=4, delta="1e-5", initial=1000, queries=[2], batch=100, epochs=3, accountant="rdp")
    terms = {"plan": made} if kind == "committed" else {"epsilon": 8, "delta": "1e-6"}
    with create_ledger(tmp_path / "a.ledger", **terms) as ledger:
        assert len(ledger) == 0  # a ledger without entries is falsy, and still says what it is
        for selection in (chose("a", "c"), chose("a", "c", simulation=False)):
            with pytest.raises(BadInput, match="ledger is not a simulation") as refused:
                quality(selection=selection, where=ledger)
            assert not any(f"{score}" in str(refused.value) for score in FOUR["scores"][:3])
        assert quality("a", "c", where=ledger, public=True).audience == "public"
        if kind == "adaptive":
            real = LaplaceTopK(epsilon=1)
            paid = charge_selection(ledger, real, k=2, pool_size=4, who="pool", why="query")
            found = real.select(**FOUR, k=2, receipt=paid)
            for where in (ledger, SIMULATED):
                with pytest.raises(DiscreetError, match="not a simulation"):
                    quality(selection=found, where=where)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"where": None}, "nothing says"),
        ({"where": None, "public": 1}, "nothing says"),
        ({"where": SIMULATED.opening}, "of the Ledger"),
        ({"selection": FOUR["ids"]}, "of a Selection"),
        ({"selection": chose("a", simulation=False)}, "selection is not a simulation"),
        ({"selection": chose("a", "z")}, "not in the pool"),
        ({"selection": chose("a", "a")}, "one twice"),
        ({"selection": chose("a", "b", "c")}, "only 2 were planned"),
        ({"selection": chose(), "k": 0}, "nobody was to be asked"),
        ({"k": 1.5}, "not a whole number"),
        ({"scores": [0.9, 0.7, np.nan, 0.0]}, "ordinary numbers"),
        ({"scores": [0.9, 0.7, 1e200, 0.0]}, "ordinary numbers"),
        ({"scores": ["x"] * 4}, "not numbers"),
        ({"scores": [0.9]}, "one for each id"),
        ({"limits": (1, 0)}, "bottom below top"),
    ],
)
def test_nonsense_is_refused(given, says):
    with pytest.raises(BadInput, match=says):
        quality(**{"selection": chose("a", "b")} | given)


def test_limits_bring_scores_into_range_as_a_selector_does():
    odd = quality("a", "b", scores=[np.inf, 0.7, np.nan, -5.0], limits=(0.0, 0.9))
    assert odd.exact.mean == pytest.approx(0.8)
    assert (odd.found.accuracy, odd.random.mean) == (1, pytest.approx(0.4))
