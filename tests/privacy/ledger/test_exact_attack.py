"""Committed claims against the truth: small campaigns whose every output is enumerated, both directions.

A pool is asked T times by coins at the caps that were committed; whoever is asked at query j trains by a mechanism of
two outcomes, whoever never is by another. The claim must hold for every pattern of scores and choice of coins; and the
attack must come close, or it shows nothing.
"""

import math
import random

import pytest

from discreet.privacy.budget import Budget
from discreet.privacy.events import PmfFamily, ThresholdResponse
from discreet.privacy.ledger import Line, Path, PathSegment, committed
from discreet.privacy.trajectories import cost_of

pytestmark = pytest.mark.thorough


def mechanism(chance):
    """Two outcomes with and without the record: a rare full disclosure, a response, or anything."""
    kind = chance.random()
    if kind < 0.4:
        lost = 10 ** chance.uniform(-4, -1)
        return (1 - lost, lost), (1.0, 0.0)
    if kind < 0.7:
        share = 1 / (1 + math.exp(-chance.uniform(0.2, 4)))
        return (share, 1 - share), (1 - share, share)
    a, b = chance.uniform(0.02, 0.5), chance.uniform(0.02, 0.5)
    return (a, 1 - a), (b, 1 - b)


def family(pair):
    return PmfFamily(present=(pair[0],), absent=(pair[1],))


class Campaign:
    def __init__(self, chance):
        self.queries = chance.choice([1, 2, 3])
        self.asked = round(chance.uniform(0.3, 2.5), 3)
        self.missed = [round(chance.uniform(0.2, 2), 3) for _ in range(self.queries)]
        self.below = chance.random() < 0.5
        numbers = range(1, self.queries + 1)
        self.high = {j: mechanism(chance) for j in numbers}
        self.low = {j: mechanism(chance) for j in numbers} if self.below else self.high
        self.never = mechanism(chance)
        self.delta = round(10 ** chance.uniform(-4, -1.5), 8)

    def terms(self):
        paths, lines = [], []
        for j in range(1, self.queries + 1):
            ask = ThresholdResponse(asked=str(self.asked), missed=str(self.missed[j - 1]))
            lines.append(Line(who="pool", phase=j, event=ask))
            for part, choice, mechanisms in (("h", "asked", self.high), ("l", "asked-below", self.low)):
                if part == "l" and not self.below:
                    continue
                stay = PathSegment(who="pool", first=1, last=j, choice=choice)
                paths.append(Path(name=f"{part}{j}", stays=(stay, PathSegment(who=f"{part}{j}", first=j))))
                lines.append(Line(who=f"{part}{j}", phase=j, event=family(mechanisms[j])))
        stays = (PathSegment(who="pool", first=1, choice="missed"), PathSegment(who="n", first=self.queries))
        paths.append(Path(name="never", stays=stays))
        lines.append(Line(who="n", phase=self.queries, event=family(self.never)))
        return committed(Budget(epsilon=50, delta=repr(self.delta)), lines, paths=paths)

    def transcripts(self, chance):
        """Probabilities of every transcript with the record and with its null, for one pattern and choice of coins."""
        present, absent, alive, null_alive = {}, {}, 1.0, 1.0
        for j in range(1, self.queries + 1):
            grow, keep = math.exp(self.asked), math.exp(-self.missed[j - 1])
            low = chance.choice([chance.random(), 10 ** chance.uniform(-3, -0.1), (1 - keep) / (grow - keep)])
            high = max(low, min(grow * low, 1 - (1 - low) * keep))
            above = chance.random() < 0.7 or not self.below
            coin, trained = (high, self.high[j]) if above else (low, self.low[j])
            for outcome in (0, 1):
                present[j, outcome] = alive * coin * trained[0][outcome]
                absent[j, outcome] = null_alive * low * trained[1][outcome]
            alive, null_alive = alive * (1 - coin), null_alive * (1 - low)
        for outcome in (0, 1):
            present["n", outcome] = alive * self.never[0][outcome]
            absent["n", outcome] = null_alive * self.never[1][outcome]
        return present, absent


def excess(left, right, epsilon):
    return sum(max(0.0, left[key] - math.exp(epsilon) * right[key]) for key in left)


@pytest.mark.parametrize("seed", range(3))
def test_no_pattern_of_scores_beats_a_committed_claim(seed):
    chance, tried, closest = random.Random(seed), 0, 0.0
    while tried < 40:
        campaign = Campaign(chance)
        terms = campaign.terms()
        claim = float(max(cost_of(path, terms.budget, by_pld=True) for path in terms.trajectories()))
        if claim > 50:
            continue
        tried += 1
        for _ in range(12):
            present, absent = campaign.transcripts(chance)
            assert sum(present.values()) == pytest.approx(1)
            assert sum(absent.values()) == pytest.approx(1)
            for left, right in ((present, absent), (absent, present)):
                found = excess(left, right, claim)
                assert found <= campaign.delta * (1 + 1e-9)
                closest = max(closest, found / campaign.delta)
    assert closest > 0.5  # the attack is not idle
