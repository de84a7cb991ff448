"""Where a threshold response puts its threshold, and that it seldom asks fewer than planned."""

import numpy as np
import pytest

from discreet.errors import BadInput
from discreet.noise import Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.selectors import ThresholdSelector, charge_selection
from discreet.selectors.selection_inputs import tails_of
from discreet.selectors.threshold_selector import threshold_at

POOL = 8000
SCORES = np.random.default_rng(5).beta(1, 4, POOL)
IDS = [str(place) for place in range(POOL)]


def asked(selector, seed, k=300):
    ledger = Ledger.create(MemorySink(), adaptive(Budget(epsilon=9, delta="1e-6")), source=Seeded(seed))
    paid = charge_selection(ledger, selector, k=k, pool_size=POOL, who="pool", why="query")
    return selector.select(ids=IDS, scores=SCORES, k=k, receipt=paid)


def test_tails_of_noisy_counts_are_not_lifted_by_empty_bins():
    noisy = np.array([900.0, 100.0, -30.0, 25.0, -20.0, 15.0])
    assert tails_of(noisy, 2000).tolist() == [990.0, 90.0, 20.0, 20.0, 15.0, 15.0]
    noise = np.random.default_rng(0).laplace(scale=50, size=(2000, 32))
    noise[:, :4] += 500  # only four bins hold anybody
    seen = tails_of(noise, 5000)[:, 0].mean()
    lifted = np.cumsum(np.maximum(noise, 0)[:, ::-1], axis=1)[:, -1].mean()
    assert abs(seen - 2000) < 150  # never falling costs a little
    assert lifted > 2600  # what raising to 0 would have said
    assert (tails_of(noise, 1000) <= 1000).all()


def test_a_threshold_for_a_share_of_the_pool():
    assert threshold_at(np.array([100.0, 60.0, 20.0, 5.0]), (0.0, 1.0), 22.0) == (0.5, 20)
    found = asked(ThresholdSelector(asked=2, share_above=0.4, threshold_epsilon="0.1"), seed=1)
    assert 0.35 < (found.threshold <= SCORES).mean() < 0.45
    assert found.threshold < asked(ThresholdSelector(asked=2, threshold_epsilon="0.1"), seed=1).threshold


@pytest.mark.parametrize("share", [0, 1, 1.5, -0.1])
def test_shares_that_cannot_be(share):
    with pytest.raises(BadInput, match="between 0 and 1"):
        ThresholdSelector(asked=2, share_above=share)
    with pytest.raises(BadInput, match="only for a threshold that is found"):
        ThresholdSelector(asked=2, threshold=0.5, share_above=0.2)


def test_seldom_fewer_than_planned():
    """Without the aim above k half of all queries would fall short."""
    counts = [len(asked(ThresholdSelector(asked=2, threshold_epsilon="0.05"), seed)) for seed in range(40)]
    assert max(counts) == 300
    assert sum(count == 300 for count in counts) >= 34
    assert min(counts) > 270
