"""The price of the best of K runs: the published formula, known answers, stored forms, where it may be charged.

Enumeration and attacks are in test_tuned_attack.py.
"""

import math
from decimal import Decimal
from functools import cache
from itertools import islice

import numpy as np
import pytest

from discreet.errors import BadInput, BudgetExceeded, InvalidEvent, UnsupportedEvent
from discreet.privacy.accounting.pld import pld_epsilons
from discreet.privacy.accounting.rdp import ORDERS, epsilon_at, rdp_curve, rdp_epsilon
from discreet.privacy.budget import Budget
from discreet.privacy.event_forms import from_json, to_dp_accounting, to_json
from discreet.privacy.events import Composed, DiscreteLaplace, Gaussian, PoissonSampledGaussian, Pure, Repeated
from discreet.privacy.ledger import Ledger, Line, MemorySink, adaptive, committed
from discreet.privacy.tuned import NegativeBinomialRuns, PoissonRuns, Tuned, runs_of, tuned_rdp

LAWS = [runs_of(mean=m, eta=e) for e in ("-0.5", 0, "0.4", 1) for m in (2, 8)]
LAWS += [runs_of(mean=m, law="poisson") for m in (1.2, 8)]
NAMES = [f"{law.name}-{getattr(law, 'eta', '')}-{law.mean:.3g}" for law in LAWS]


def closed_form(curve, orders, runs):
    """Theorem 2 of Papernot and Steinke (2022): r(a) + (1+eta) min_b ((1-1/b) r(b) + log(1/gamma)/b) + log E[K]/(a-1).

    Never below `tuned_rdp` by more than the width of a cell.
    """
    flat = np.min((1 - 1 / orders) * curve - math.log(runs.gamma) / orders)
    return np.asarray(curve + (1 + float(runs.eta)) * flat + math.log(runs.mean) / (orders - 1))


@cache
def weights(law, tail=1e-10):
    kept, total = [], 0.0
    for one in islice(law.probabilities(), 200_000):
        kept.append(one)
        total += one
        if 1 - total < tail:
            break
    return np.array(kept)


@pytest.mark.parametrize("law", LAWS, ids=NAMES)
def test_a_law_is_a_law_and_its_slope_is_the_derivative_of_its_generating_function(law):
    p = weights(law)
    k = np.arange(1, p.size + 1)
    assert math.isclose(p.sum(), 1, rel_tol=1e-9)
    assert math.isclose((k * p).sum(), law.mean, rel_tol=1e-6)
    for tail in (0.0, 1e-3, 0.1, 0.7):
        slope = (p * k * (1 - tail) ** (k - 1)).sum()
        assert math.isclose(math.exp(law.log_slope(np.array([tail]))[0]), slope, rel_tol=1e-6)
    assert weights(law)[: law.quantile(0.9)].sum() >= 0.9 - 1e-9
    assert weights(law)[: law.quantile(0.9) - 1].sum() < 0.9


@pytest.mark.parametrize("eta", ["-0.5", 0, 1])
@pytest.mark.parametrize("sigma", [1.0, 3.0, 8.0])
def test_it_is_below_the_published_formula(eta, sigma):
    """Papernot and Steinke 2022, Theorem 2, is the same bound with one order for all tails."""
    law = runs_of(mean=10, eta=eta)
    run = rdp_curve(Repeated(event=PoissonSampledGaussian(sampling_rate=0.2, noise_multiplier=sigma), count=100))
    ours, theirs = tuned_rdp(run, ORDERS, run, ORDERS, law), closed_form(run, ORDERS, law)
    assert (ours <= theirs + 0.013 * (1 + float(law.eta)) + 1e-9).all()  # the width of a cell
    assert epsilon_at(ours, 1e-5) < (0.99 if sigma == 1.0 else 0.95) * epsilon_at(theirs, 1e-5)
    assert (ours >= run).all()


def test_known_answers_of_the_formula():
    """By hand. Logarithmic law with gamma = 1/e: E[K] = e - 1. A curve of r(a) = a/10: the best b is sqrt(10)."""
    law = NegativeBinomialRuns(eta=0, gamma=math.ldexp(round(math.ldexp(math.exp(-1), 63)), -63))
    assert math.isclose(law.mean, math.e - 1, rel_tol=1e-12)
    orders = np.array([2.0, math.sqrt(10)])
    found = closed_form(orders / 10, orders, law)[0]
    flat = (1 - 1 / math.sqrt(10)) * math.sqrt(10) / 10 + 1 / math.sqrt(10)
    assert math.isclose(found, 0.2 + flat + math.log(math.e - 1), rel_tol=1e-12)
    assert math.isclose(runs_of(mean=4, eta=1).gamma, 0.25, rel_tol=1e-9)  # geometric


def test_a_pure_search_costs_two_and_eta_times_a_run():
    """Liu and Talwar 2019: three times for the geometric law."""
    for eta, factor in (("-0.5", "1.5"), (0, "2"), (1, "3")):
        event = Tuned(events=(Pure(epsilon="0.1"), Pure(epsilon="0.7")), runs=runs_of(mean=10, eta=eta))
        assert event.pure_epsilon() == Decimal("0.7") * Decimal(factor)
        assert rdp_epsilon(event, 1e-6) <= float(event.pure_epsilon())
        assert math.isclose(pld_epsilons(event, 1e-6)[0], float(event.pure_epsilon()), rel_tol=1e-2)
    assert Tuned(events=(Pure(epsilon=1),), runs=PoissonRuns(rate=3)).pure_epsilon() is None


def test_more_runs_and_dearer_runs_cost_more():
    step = Gaussian(noise_multiplier=4.0)

    def cost(*events, **law):
        return rdp_epsilon(Tuned(events=events, runs=runs_of(**law)), 1e-5)

    by_mean = [cost(step, mean=m) for m in (2, 5, 20, 100)]
    assert by_mean == sorted(by_mean)
    assert rdp_epsilon(step, 1e-5) < by_mean[0]
    assert cost(step, mean=10, eta="-0.5") < cost(step, mean=10) < cost(step, mean=10, eta=1)
    assert cost(step, Gaussian(noise_multiplier=3.0), mean=5) == cost(Gaussian(noise_multiplier=3.0), mean=5)
    grid = rdp_epsilon(Repeated(event=step, count=100), 1e-5)
    assert cost(step, mean=100) < grid / 3


def test_stored_forms_round_trip_and_are_strict():
    step = Repeated(event=PoissonSampledGaussian(sampling_rate=0.1, noise_multiplier=2.0), count=7)
    for law in (runs_of(mean=7, eta="0.25"), runs_of(mean=3, law="poisson")):
        event = Tuned(events=(step, Composed(events=(step, DiscreteLaplace(epsilon="0.5")))), runs=law)
        form = to_json(event)
        assert from_json(form) == event
        for bad in (
            form | {"runs": form["runs"] | {"more": 1}},
            form | {"runs": "log"},
            form | {"runs": {"law": "uniform", "rate": "3"}},
            form | {"events": []},
            form | {"events": [to_json(step), to_json(step)]},
            form | {"events": form["events"][0]},
        ):
            with pytest.raises(InvalidEvent):
                from_json(bad)
    for gamma in (0.0, 1.0, math.nan, 2.0**-20 + 2.0**-70, "0.5", 1):
        with pytest.raises(InvalidEvent):
            NegativeBinomialRuns(eta=0, gamma=gamma)
    for eta in (-1, "1.1", "0.1234567891"):
        with pytest.raises(InvalidEvent):
            NegativeBinomialRuns(eta=eta, gamma=0.5)


@pytest.mark.parametrize(
    "ask", [{"mean": 1}, {"mean": 0}, {"mean": 10**5}, {"mean": 5, "law": "even"}, {"mean": 5000, "eta": "-0.9"}]
)
def test_impossible_laws_are_refused(ask):
    with pytest.raises(BadInput):
        runs_of(**ask)


def test_a_search_lives_in_an_adaptive_ledger_and_not_under_pld():
    budget = Budget(epsilon=4, delta="1e-5")
    event = Tuned(events=(Repeated(event=Gaussian(noise_multiplier=8.0), count=4),), runs=runs_of(mean=5))
    with pytest.raises(UnsupportedEvent, match="adaptive"):
        pld_epsilons(event, 1e-5)
    with pytest.raises(UnsupportedEvent, match="adaptive"):
        Ledger.create(MemorySink(), committed(budget, [Line(who="all", event=event)]))
    with pytest.raises(UnsupportedEvent):
        to_dp_accounting(event)
    with Ledger.create(MemorySink(), adaptive(budget, expect=event)) as ledger:
        price = ledger.price(event=event, who="all")
        assert price.fits
        assert math.isclose(float(price.requested), rdp_epsilon(event, 1e-5, ORDERS), rel_tol=1e-6)
        ledger.charge(event=event, who="all", why="search")
        with pytest.raises(BudgetExceeded):
            ledger.charge(event=event, count=5, who="all", why="search")
