"""The release gate as an event: exact curves, stored form, and what each accountant, filter and ledger makes of it."""

import itertools
import json
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from discreet.errors import BadInput, BudgetExceeded, InvalidEvent, UnsupportedEvent
from discreet.gates.calibration import outputs
from discreet.privacy.accounting.filters import RdpFilter, RdpLimit
from discreet.privacy.accounting.pld import hockey_stick, pld_epsilons, pld_pair, rounding
from discreet.privacy.accounting.rdp import rdp_curve, rdp_epsilon
from discreet.privacy.accounting.release_gate import (
    largest_loss,
    release_delta,
    release_deltas,
    release_epsilons,
    smallest_loss,
)
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import certify
from discreet.privacy.certificate.statement import dump_certificate
from discreet.privacy.certificate.verification import verify_certificate, verify_ledger
from discreet.privacy.event_forms import from_json, to_dp_accounting, to_json
from discreet.privacy.events import Composed, Gaussian, Pure, ReleaseGate, Repeated
from discreet.privacy.ledger import Ledger, Line, MemorySink, adaptive, committed

pytestmark = pytest.mark.thorough

WAYS = ("forward", "backward")
SMALL = [(1, 0.3), (2, 0.1), (3, 0.5), (5, 0.9), (8, 0.25), (20, 0.1), (20, 0.3)]


def member_deltas(k, beta, others, losses, *, counts=False):
    """Divergences of one value at this number of others, (2, losses): forward and backward.

    By its distributions, without a closed form.
    """
    present, absent = outputs(k, beta, others, counts=counts)
    at = np.atleast_1d(np.asarray(losses, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.stack([hockey_stick(present, absent, at), hockey_stick(absent, present, at)])


@pytest.mark.parametrize(
    ("k", "beta", "epsilon", "others", "delta"),
    [(20, 0.1, 0.25, 63, 6.3e-8), (20, 0.3, 1, 25, 1.3e-7), (100, 0.3, 0.25, 217, 8.7e-9)],
)
def test_known_answers(k, beta, epsilon, others, delta):
    found = release_delta(k, beta, epsilon, "forward")
    assert found.others == others
    assert found.delta == pytest.approx(delta, rel=0.02)


@pytest.mark.parametrize(("k", "beta"), SMALL)
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.25, 1.0, 3.0])
def test_no_number_of_others_is_worse(k, beta, epsilon):
    """Far beyond the worst one, with bits and with counts."""
    members = np.array([member_deltas(k, beta, n, epsilon)[:, 0] for n in range(600)])
    counted = np.array([member_deltas(k, beta, n, epsilon, counts=True)[:, 0] for n in range(250)])
    for place, way in enumerate(WAYS):
        found = release_delta(k, beta, epsilon, way)
        assert found.delta == pytest.approx(members[:, place].max(), rel=1e-7, abs=1e-14)
        assert counted[:, place].max() <= found.delta * (1 + 1e-9) + 1e-14
        if found.delta > 1e-12 and found.others < 250:  # counts cost as much, and no more
            assert counted[:, place].max() == pytest.approx(found.delta, rel=1e-7)


@pytest.mark.parametrize(("k", "beta"), SMALL)
def test_the_curve_is_that_of_its_worst_members_below_zero_too(k, beta):
    losses = np.linspace(-largest_loss(k, beta), largest_loss(k, beta), 41)
    worst = np.max([member_deltas(k, beta, n, losses) for n in range(400)], axis=0)
    for way, truth in zip(WAYS, worst, strict=True):
        curve = release_deltas(k, beta, losses, way)
        assert np.all(curve >= truth * (1 - 1e-12) - 1e-15)
        assert np.allclose(curve, truth, rtol=1e-6, atol=1e-12)


def _exact(k, beta, n, epsilon, way):
    """By 60 digits and the definition alone."""
    b, factor = mpmath.mpf(beta), mpmath.e ** mpmath.mpf(epsilon)

    def chance(units, low, high):
        terms = (mpmath.binomial(units, j) * b**j * (1 - b) ** (units - j) for j in range(low, min(high, units) + 1))
        return mpmath.fsum(terms)

    if way == "forward":
        return chance(n + 1, k, n + 1) - factor * chance(n, k, n)
    return chance(n, 0, k - 1) - factor * chance(n + 1, 0, k - 1)


@settings(deadline=None, max_examples=60)
@given(
    k=st.sampled_from([1, 2, 3, 7, 20, 50, 100, 250]),
    beta=st.sampled_from([0.003, 0.05, 0.1, 0.3, 0.6, 0.9, 0.99]),
    epsilon=st.sampled_from([0.0, 0.001, 0.05, 0.25, 0.5, 1.0, 2.5]),
)
def test_rounding_is_always_upwards_and_small(k, beta, epsilon):
    with mpmath.workdps(60):
        for way in WAYS:
            found = release_delta(k, beta, epsilon, way)
            if found.delta > 0 and found.others < 2000:
                truth = _exact(k, beta, found.others, epsilon, way)
                assert 0 <= mpmath.mpf(found.delta) / truth - 1 < 1e-6


@pytest.mark.parametrize(
    ("k", "beta", "epsilon"), [(10**4, 0.5, 0.01), (10**5, 0.9, 0.05), (10**6, 0.1, 0.001), (20, 1e-6, 0.1)]
)
def test_large_numbers_are_rounded_upwards_too(k, beta, epsilon):
    found = release_delta(k, beta, epsilon, "forward")
    with mpmath.workdps(80):
        b, n = mpmath.mpf(beta), found.others

        def tail(units):
            term = total = mpmath.mpf(1)
            for j in itertools.count(k):
                term *= mpmath.mpf(units - j) / (j + 1) * b / (1 - b)
                total += term
                if term < total * mpmath.mpf(10) ** -70:
                    break
            log = mpmath.loggamma(units + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(units - k + 1)
            return mpmath.exp(log + k * mpmath.log(b) + (units - k) * mpmath.log(1 - b)) * total

        truth = tail(n + 1) - mpmath.e ** mpmath.mpf(epsilon) * tail(n)
        assert 0 <= mpmath.mpf(found.delta) / truth - 1 < 1e-6


GATES = st.tuples(st.integers(1, 60), st.floats(0.001, 0.98))


@settings(deadline=None, max_examples=80)
@given(gate=GATES, epsilon=st.floats(0, 4), more=st.floats(0, 2), way=st.sampled_from(WAYS))
def test_laws(gate, epsilon, more, way):
    """More units to hide among, a smaller coin or a larger epsilon never cost more; nothing is below beta^k."""
    (k, beta), tiny = gate, 1 + 1e-9
    here = release_delta(k, beta, epsilon, way).delta
    assert release_delta(k + 1, beta, epsilon, way).delta <= here * tiny
    assert release_delta(k, beta * 0.9, epsilon, way).delta <= here * tiny
    assert release_delta(k, beta, epsilon + more, way).delta <= here * tiny
    if way == "forward":
        assert here >= beta**k * (1 - 1e-9)


@settings(deadline=None, max_examples=40)
@given(gate=GATES, delta=st.floats(-12, -0.5))
def test_epsilon_ends_on_the_safe_side(gate, delta):
    (k, beta), chance = gate, 10**delta
    for way, epsilon in zip(WAYS, release_epsilons(k, beta, chance), strict=True):
        if math.isinf(epsilon):
            assert way == "forward"
            assert chance < beta**k * (1 + 1e-9)
            continue
        assert release_delta(k, beta, epsilon, way).delta <= chance
        if epsilon > 1e-6:
            assert release_delta(k, beta, epsilon * (1 - 1e-9), way).delta > chance * (1 - 1e-6)


def test_no_delta_no_epsilon():
    assert release_epsilons(20, 0.1, 0.0) == (math.inf, math.inf)
    assert release_epsilons(20, 0.1, 0.1**20 / 2)[0] == math.inf
    assert release_epsilons(1, 0.5, 0.9) == (0.0, 0.0)


# -- several values


def common(k, beta, epsilon, values, others):
    """Exact convolution of ``values`` releases, each with the same number of others."""
    (_, p), (_, q) = outputs(k, beta, others)
    j = np.arange(values + 1)
    with_it, without = binom.pmf(j, values, p), binom.pmf(j, values, q)
    factor = math.exp(epsilon)
    return float(np.maximum(with_it - factor * without, 0).sum()), float(
        np.maximum(without - factor * with_it, 0).sum()
    )


@pytest.mark.parametrize("values", range(1, 11))
def test_the_envelope_dominates_every_common_number_of_others(values):
    pair = pld_pair(ReleaseGate(k=20, beta=0.1, values=values))
    for epsilon in (0.1, 0.25, 0.6):
        worst = np.max([common(20, 0.1, epsilon, values, n) for n in range(19, 700)], axis=0)
        found = np.array(pair.deltas(epsilon))
        assert np.all(found >= worst - 1e-14)
        assert np.all(found <= 15 * worst + 1e-4)


def test_the_worst_number_of_others_moves_under_composition():
    """The member that is worst for one value would certify ten of them at a twelfth of the truth."""
    assert common(20, 0.1, 0.25, 10, 63)[0] == pytest.approx(6.3e-7, rel=0.01)
    worst = max(range(19, 700), key=lambda n: common(20, 0.1, 0.25, 10, n)[0])
    assert worst == 140
    assert common(20, 0.1, 0.25, 10, 140)[0] == pytest.approx(7.8e-6, rel=0.01)
    assert max(pld_pair(ReleaseGate(k=20, beta=0.1, values=10)).deltas(0.25)) > 7.78e-6


def test_values_with_different_numbers_of_others():
    """All mixtures of three, by the product of their distributions."""
    numbers, epsilon = (19, 20, 25, 40, 63, 100, 140, 200, 300), 0.25
    pair = pld_pair(ReleaseGate(k=20, beta=0.1, values=3))
    found = pair.deltas(epsilon)
    for some in itertools.combinations_with_replacement(numbers, 3):
        sides = [outputs(20, 0.1, n) for n in some]
        present, absent = (np.einsum("a,b,c->abc", *(side[i] for side in sides)).ravel() for i in (0, 1))
        assert np.maximum(present - math.exp(epsilon) * absent, 0).sum() <= found[0] + 1e-15
        assert np.maximum(absent - math.exp(epsilon) * present, 0).sum() <= found[1] + 1e-15


@pytest.mark.parametrize("values", [1, 2, 7])
def test_several_values_are_never_dearer_than_their_sum_nor_cheaper_than_one(values):
    gate = ReleaseGate(k=50, beta=0.2, values=values)
    for delta in (1e-4, 1e-8, 1e-15):
        found = max(pld_epsilons(gate, delta))
        assert max(release_epsilons(50, 0.2, delta)) <= found * (1 + 1e-9)
        assert found <= values * max(release_epsilons(50, 0.2, delta / values)) * (1 + 1e-12)


def test_several_releases_are_several_values():
    gate = ReleaseGate(k=50, beta=0.2, values=2)
    twice = pld_epsilons(Repeated(event=gate, count=3), 1e-6)
    assert twice == pytest.approx(pld_epsilons(ReleaseGate(k=50, beta=0.2, values=6), 1e-6), rel=1e-9)


def test_with_other_events():
    gate, noise = ReleaseGate(k=50, beta=0.2), Gaussian(noise_multiplier=5.0)
    both = max(pld_epsilons(Composed(events=(gate, noise)), 1e-6))
    assert both > max(*pld_epsilons(gate, 1e-6), *pld_epsilons(noise, 1e-6))
    tiny = max(pld_epsilons(Composed(events=(gate, Pure(epsilon="0.5"))), 1e-15))  # too small for convolutions
    assert tiny == pytest.approx(0.5 + max(release_epsilons(50, 0.2, 1e-15)), rel=1e-12)
    with pytest.raises(BadInput, match="rounding hides"):
        pld_epsilons(Composed(events=(gate, noise)), 1e-15)


def test_the_distribution_of_one_value_is_its_curve():
    pair = pld_pair(ReleaseGate(k=20, beta=0.3))
    for epsilon in (0.0, 0.1, 0.3, 1.0, 2.0):
        for way, found in zip(WAYS, pair.deltas(epsilon), strict=True):
            truth = release_delta(20, 0.3, epsilon, way).delta
            assert truth <= found <= truth * 1.0001 + 2 * rounding(1)
    assert smallest_loss(0.3) == pytest.approx(-math.log(0.7))


# -- the event


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0, "beta": 0.1},
        {"k": 2.0, "beta": 0.1},
        {"k": True, "beta": 0.1},
        {"k": 10**7, "beta": 0.1},
        {"k": 2, "beta": 0.0},
        {"k": 2, "beta": 1.0},
        {"k": 2, "beta": math.nan},
        {"k": 2, "beta": "0.1"},
        {"k": 2, "beta": 0.1, "values": 0},
        {"k": 2, "beta": 0.1, "counts": 1},
        {"k": 2, "beta": 0.1, "normalisation": "<b>"},
        {"k": 2, "beta": 0.1, "normalisation": ""},
    ],
)
def test_nonsense_is_no_gate(wrong):
    with pytest.raises(InvalidEvent):
        ReleaseGate(**wrong)


def test_the_stored_form_reads_back():
    gate = ReleaseGate(k=20, beta=0.1, values=3, counts=True, normalisation="nfkc,my.texts:clean")
    form = json.loads(json.dumps(to_json(gate)))
    assert from_json(form) == gate
    assert form["kind"] == "release-gate"
    with pytest.raises(InvalidEvent):
        from_json(form | {"counts": "yes"})
    with pytest.raises(InvalidEvent):
        from_json({name: value for name, value in form.items() if name != "normalisation"})
    with pytest.raises(UnsupportedEvent):
        to_dp_accounting(gate)


def test_rdp_proves_nothing_of_it_and_a_filter_refuses_it():
    gate = ReleaseGate(k=20, beta=0.1)
    assert np.isinf(rdp_curve(gate)).all()
    assert rdp_epsilon(gate, 1e-6) == math.inf
    limit = RdpLimit(Budget(epsilon=1, delta="1e-6"), orders=(8.0,))
    assert not limit.supports(gate)
    assert limit.supports(Gaussian(noise_multiplier=3.0))
    assert limit.supports(Pure(epsilon=1))
    assert not RdpFilter(Budget(epsilon=1, delta="1e-6"), orders=(8.0,)).admits(gate)
    ledger = Ledger.create(MemorySink(), adaptive(Budget(epsilon=1, delta="1e-6")))
    with pytest.raises(BadInput, match="committed"):
        ledger.charge(event=gate, who="queries", why="release")
    assert not ledger.entries
    ledger.charge(event=Pure(epsilon="0.5"), who="queries", why="count")


def book(gate, epsilon, delta, count=1):
    return committed(
        Budget(epsilon=epsilon, delta=delta, unit="person"), [Line(who="queries", event=gate, count=count)]
    )


def test_a_committed_ledger_prices_certifies_and_verifies_it():
    gate = ReleaseGate(k=100, beta=0.3, values=2)
    sink = MemorySink()
    ledger = Ledger.create(sink, book(gate, "0.6", "1e-9", 2))
    cheaper = ReleaseGate(k=120, beta=0.2, values=1)
    ledger.charge(event=gate, who="queries", why="release")
    ledger.charge(event=cheaper, who="queries", why="release")  # more to hide among: covered
    assert ledger.total("everyone").epsilon == ledger.terms.budget.epsilon  # an odometer that never shows more
    with pytest.raises(BudgetExceeded):
        ledger.charge(event=gate, who="queries", why="release")
    form = certify(ledger)
    assert form["claim"]["epsilon"] == pytest.approx(max(pld_epsilons(Repeated(event=gate, count=2), 1e-9)), rel=1e-8)
    assert form["trajectories"][0]["epsilon_rdp"] is None
    (charged,) = form["trajectories"][0]["training"]
    assert charged["event"]["normalisation"] == "nfkc,case,whitespace"
    assert verify_certificate(dump_certificate(form).encode(), lines=list(sink.read())).ok
    assert verify_ledger(b"".join(sink.read())).ok
    form["trajectories"][0]["training"][0]["event"]["k"] = 99
    assert not verify_certificate(dump_certificate(form).encode()).ok


@pytest.mark.parametrize(
    "dearer",
    [
        ReleaseGate(k=99, beta=0.3),
        ReleaseGate(k=100, beta=0.31),
        ReleaseGate(k=100, beta=0.3, values=2),
        ReleaseGate(k=100, beta=0.3, normalisation="none"),
        ReleaseGate(k=100, beta=0.3, counts=True),
    ],
)
def test_a_charge_of_something_else_is_refused(dearer):
    ledger = Ledger.create(MemorySink(), book(ReleaseGate(k=100, beta=0.3), "0.5", "1e-9"))
    with pytest.raises(BudgetExceeded, match="not committed"):
        ledger.charge(event=dearer, who="queries", why="release")


def test_terms_that_do_not_keep_the_promise_are_refused():
    with pytest.raises(BudgetExceeded):
        Ledger.create(MemorySink(), book(ReleaseGate(k=20, beta=0.3), "0.5", "1e-9"))
    Ledger.create(MemorySink(), book(ReleaseGate(k=100, beta=0.3), "0.5", "1e-15"))  # one value: exact at any delta
