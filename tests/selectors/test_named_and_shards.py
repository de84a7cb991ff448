"""Selectors by name cost what was asked for, all told; shards are disjoint and keyed."""

from dataclasses import replace

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.noise import SecretKey, Seeded
from discreet.privacy.accounting.pld import pld_epsilons
from discreet.privacy.events import Composed
from discreet.selectors import MECHANISMS, ExponentialSelector, selector_for
from discreet.selectors.selection_inputs import even_shares, in_shard
from discreet.testing import check_selector
from discreet.testing.selectors import run

pytestmark = pytest.mark.thorough

IDS = [f"r{place}" for place in range(6000)]


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "random"])
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_one_query_costs_what_was_asked_for(name, epsilon):
    delta = "1e-6" if "gaussian" in name else 0
    price = Composed(events=selector_for(name, epsilon=epsilon, delta=delta).price(100, 5000))
    pure = price.pure_epsilon()
    spent = max(pld_epsilons(price, float(delta))) if pure is None else float(pure)
    assert 0.999 * float(epsilon) < spent <= float(epsilon)


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_contract_holds(name):
    delta = "1e-6" if "gaussian" in name else 0
    made = selector_for(name, epsilon=2, delta=delta, source=Seeded(0))  # once: the noise of some is searched by PLD
    assert made.__dataclass_params__.frozen
    check_selector(lambda: replace(made))


def test_the_exponential_mechanism_in_sequence_prefers_high_scores():
    """The paper's k-centre example: k = 100, epsilon 1, scores .1, .5 and 1 in equal parts are hardly told apart."""
    scores = np.repeat([0.1, 0.5, 1.0], 300)
    found = [run(ExponentialSelector(epsilon=1), IDS[:900], scores, 100, seed=seed).ids for seed in range(20)]
    shares = np.bincount([int(one[1:]) // 300 for ids in found for one in ids]) / 2000
    np.testing.assert_allclose(shares, [0.3326, 0.3333, 0.3341], atol=0.04)
    sharp = run(ExponentialSelector(epsilon=2000), IDS[:900], scores, 100).ids
    assert sum(int(one[1:]) >= 600 for one in sharp) > 95


def test_shards_are_disjoint_and_cover_the_pool():
    key = SecretKey(b"k" * 32)
    parts = [in_shard(IDS, number, 7, key) for number in range(1, 8)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(6000))
    assert all(700 < len(part) < 1000 for part in parts)
    assert not np.array_equal(parts[0], in_shard(IDS, 1, 7, SecretKey(b"j" * 32)))
    assert in_shard(IDS, 1, 1, key).tolist() == list(range(6000))
    assert in_shard([], 1, 3, key).size == 0


def test_shares_sum_to_one_exactly():
    assert all(sum(even_shares(count)) == 1 for count in (1, 2, 3, 7, 999))
    for count in (0, -1, 1.5, True, 10**6):
        with pytest.raises(BadInput):
            even_shares(count)
    with pytest.raises(BadInput, match="none of that number"):
        in_shard(IDS, 4, 3, SecretKey(b"k" * 32))
