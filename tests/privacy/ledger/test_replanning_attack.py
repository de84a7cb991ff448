"""The claim of a re-planned ledger against exact enumeration, a second accountant, random plans and a planted bug.

Known answers come from definitions and from dp_accounting, never from the code under test.
"""

import math
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replanned_ledgers import begun, charge, replanned, rest_of
from scipy.stats import norm

from discreet.planning.replanning import continued_plan
from discreet.planning.request import TooLittleLeft
from discreet.privacy.certificate.verification import verify_ledger
from discreet.privacy.events import DiscreteLaplace, PoissonSampledGaussian, ThresholdResponse
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.privacy.ledger import ledger as ledger_module
from discreet.privacy.ledger.plan_terms import lines_of

pytestmark = pytest.mark.thorough


def test_a_ledger_that_forgot_the_earlier_charges_would_be_found(monkeypatch):
    """A planted bug: the new terms begin from nothing. The totals then say less than a second accountant."""

    def forgets(self, terms):
        rule = ledger_module.ChargeRule(terms)
        return rule, rule.start, [[] for _ in terms.paths]

    honest, _, _ = replanned()
    assert agrees(honest, "initial")
    monkeypatch.setattr(Ledger, "_under", forgets)
    buggy, _, _ = replanned()
    assert not agrees(buggy, "initial")


def delta_of(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def worst_delta(order, p_high, *, counted=True, epsilon=8.0, delta=1e-3, queries=3, asked=1.0):
    """The true delta of a run that spends all a filter of one order lets it, over every pattern of scores.

    Queries by threshold response; whoever is asked at query j gets one Gaussian of exactly what the filter has left on
    that path, so its strength depends on what came out. ``counted``: whether choices were.
    """
    p_low = p_high * math.exp(-asked)
    missed = math.log((1 - p_low) / (1 - p_high))
    limit = epsilon - (math.log(1 - 1 / order) - (math.log(delta) + math.log(order)) / (order - 1))

    def strength(j):
        lost = max(asked, j * missed)
        assert lost < limit, "the filter would not have admitted this run"
        return math.sqrt(2 * (limit - (lost if counted else 0.0)) / order)

    def truth(pattern, forward):
        total, reached, loss = 0.0, 1.0, 0.0
        for j, high in enumerate(pattern):
            present = p_high if high else p_low
            p, q = (present, p_low) if forward else (p_low, present)
            total += reached * p * delta_of(strength(j), epsilon - loss - math.log(p / q))
            reached, loss = reached * (1 - p), loss + math.log((1 - p) / (1 - q))
        return total

    return max(truth(pattern, way) for pattern in product((True, False), repeat=queries) for way in (True, False))


@pytest.mark.parametrize("order", [2.5, 5.0, 9.0])
@pytest.mark.parametrize("p_high", [0.05, 0.5, 0.9])
def test_choices_priced_by_their_outcome_keep_the_filters_promise(order, p_high):
    assert worst_delta(order, p_high) <= 1e-3


def test_the_enumeration_can_fail():
    assert worst_delta(5.0, 0.9, counted=False) > 1e-3


def second_accountant(ledger, path):
    """Epsilon of what a path was charged, by dp_accounting at the filter's order; choices by their table of prices."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, rdp

    (order,), terms = ledger.terms.orders, ledger.terms
    found = next(one for one in terms.paths if one.name == path)
    accountant, divergence, forward, backward = rdp.RdpAccountant(orders=[order]), 0.0, 0.0, 0.0
    for entry in ledger.entries:
        for one in entry.charges:
            stay = found.stay_of(one.who, entry.why.phase)
            if stay is None:
                continue
            if isinstance(one.event, ThresholdResponse):
                asked = stay.choice == "asked" and entry.why.phase == stay.last
                forward += float(one.event.asked) * asked
                backward += float(one.event.missed) * (not asked)
            elif isinstance(one.event, PoissonSampledGaussian):
                noise = GaussianDpEvent(one.event.noise_multiplier)
                accountant.compose(PoissonSampledDpEvent(one.event.sampling_rate, noise), one.count)
            else:  # any epsilon-DP mechanism: randomized response is the worst of them
                assert isinstance(one.event, DiscreteLaplace)
                e = float(one.event.epsilon)
                p = 1 / (1 + math.exp(-e))
                q = 1 - p
                divergence += math.log(p**order * q ** (1 - order) + q**order * p ** (1 - order)) / (order - 1)
    sums = divergence + float(accountant._rdp[0])
    delta = float(terms.accounted.delta)
    converted = math.log(1 - 1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return max(forward, backward) + sums + converted


def agrees(ledger, path):
    """dp_accounting's fractional orders are a little above exact integration, and never below."""
    ours, theirs = float(ledger.total(path).epsilon), second_accountant(ledger, path)
    return theirs * 0.99 <= ours <= theirs * (1 + 1e-6)


@pytest.mark.parametrize(("done", "queries", "epsilon"), [(1, (80, 80, 80), 8), (2, (), 9), (3, (60,), 10)])
def test_a_second_accountant_agrees_and_pld_is_below(done, queries, epsilon):
    from dp_accounting.pld import privacy_loss_distribution as pld

    ledger, made, _ = replanned(done, queries, epsilon=epsilon)
    charge(ledger, lines_of(made, first=done))
    for path in ("initial", made.cohorts[-1].label):
        total = float(ledger.total(path).epsilon)
        assert agrees(ledger, path)
        assert total <= epsilon
    steps = [charge for entry in ledger.entries for charge in entry.charges if charge.who == "initial"]
    composed = None
    for one in steps:
        part = pld.from_gaussian_mechanism(
            one.event.noise_multiplier,
            sampling_prob=one.event.sampling_rate,
            pessimistic_estimate=False,  # a lower bound
            value_discretization_interval=1e-3,
            use_connect_dots=False,
        ).self_compose(one.count)
        composed = part if composed is None else composed.compose(part)
    assert composed.get_epsilon_for_delta(1e-5) < ledger.terms.budget.epsilon


sizes = st.lists(st.integers(20, 150), max_size=3).map(tuple)


@settings(max_examples=8, deadline=None)
@given(sizes, st.integers(1, 3), st.sampled_from(["8", "8.5", "12"]), st.booleans())
def test_any_rest_stays_within_its_promise_and_above_what_was_spent(queries, done, epsilon, released):
    because = "released" if released and epsilon == "8" else "outside"
    ledger, lines = begun(done=done)
    spent = {total.path: total.epsilon for total in ledger.totals()}
    try:
        made, terms = continued_plan(rest_of(ledger, done, queries, because=because, epsilon=epsilon))
    except TooLittleLeft:
        return
    ledger.amend(terms, phase=done)
    for total in ledger.totals():
        assert total.epsilon <= Decimal(epsilon)
        assert ledger.terms.budget.epsilon >= max(spent.values())
    charge(ledger, lines_of(made, first=done))
    assert max(total.epsilon for total in ledger.totals()) <= Decimal(epsilon)
    assert verify_ledger(b"".join(lines)).ok
    again = Ledger.open(MemorySink(list(lines)))
    assert [total.epsilon for total in again.totals()] == [total.epsilon for total in ledger.totals()]
