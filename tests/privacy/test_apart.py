"""Gaussian selections in a plan: one block of (epsilon, delta) on every path of the pool, and the claim is the sum."""

import math
from dataclasses import replace
from decimal import Decimal

import pytest

from discreet.api import plan
from discreet.errors import BadInput, BudgetExceeded, InvalidEvent, InvalidLedger
from discreet.planning.calibration import gaussian_query
from discreet.privacy.accounting.rdp import rdp_epsilon
from discreet.privacy.event_forms import from_json, to_json
from discreet.privacy.events import BlockEvent, Composed, Gaussian, Repeated
from discreet.privacy.ledger import ChargeReason, Ledger, MemorySink, terms_of
from discreet.privacy.ledger.terms import Terms
from discreet.privacy.plan_files import plan_from_json
from discreet.privacy.trajectories import Branch, Trajectory, block_epsilon

EPSILON, DELTA, SELECTION = 8, "1e-5", "2"


def planned(mechanism="gaussian", **changes):
    given = {
        "initial": 200,
        "queries": [50, 50],
        "batch": 50,
        "epochs": 3,
        "accountant": "rdp",
        "selection": "separate-budget",
    }
    given |= {"selection_epsilon": SELECTION, "mechanism": mechanism, **changes}
    return plan(epsilon=EPSILON, delta=DELTA, **given)


def exact_delta(epsilon, sigma):
    """Of a Gaussian with sensitivity 1 (Balle and Wang 2018), from its definition."""

    def below(x):
        return math.erfc(-x / math.sqrt(2)) / 2

    return below(1 / (2 * sigma) - epsilon * sigma) - math.exp(epsilon) * below(-1 / (2 * sigma) - epsilon * sigma)


@pytest.mark.parametrize("mechanism", ["gaussian", "subsampled-gaussian"])
def test_the_claim_of_a_path_is_the_sum_of_its_two_parts(mechanism):
    made = planned(mechanism)
    for path in made.trajectories:
        if path.name == "initial":
            assert path.blocks == ()
            assert path.epsilon_rdp == pytest.approx(rdp_epsilon(path.trained, 1e-5), rel=1e-8)
            continue
        assert [block.epsilon for block in path.blocks] == [2]
        trained = rdp_epsilon(path.trained, 5e-6) if path.training else 0
        assert path.epsilon_rdp == pytest.approx(2 + trained, rel=1e-8)
        assert path.epsilon_rdp <= 8
    assert plan_from_json(made.to_json()) == made


def test_the_noise_is_enough_by_an_accountant_of_another_kind():
    """T Gaussians are one of sigma / sqrt T, whose delta has a formula; by PLD hardly any noise is wasted."""
    for accountant, slack in (("pld", 1.005), ("rdp", 1.10)):
        event = gaussian_query(Decimal(2), Decimal("5e-6"), 4, accountant=accountant)
        sigma = event.noise_multiplier / 2  # sqrt 4
        assert exact_delta(2, sigma) <= 5e-6
        assert exact_delta(2, sigma / slack) > 5e-6


def test_a_block_that_says_too_little_pays_what_its_events_cost():
    honest = planned().selection.block()
    liar = replace_epsilon(honest, Decimal("0.5"))
    cost = block_epsilon(liar, by_pld=False)
    assert cost == pytest.approx(2, rel=2e-3)
    path = Trajectory(name="never-asked", selection=(Branch(event=liar),))
    assert path.rdp(1e-5) == pytest.approx(cost, rel=1e-8)
    assert path.pld(1e-5) > 1.8
    assert path.pld(4e-6) == math.inf  # and it takes more delta than there is


def replace_epsilon(block, epsilon):
    return BlockEvent(event=block.event, epsilon=epsilon, delta=block.delta)


def test_terms_read_back_and_a_block_without_its_lines_is_refused():
    terms = terms_of(planned())
    assert Terms.from_json(terms.to_json()) == terms
    fewer = BlockEvent(event=Composed(events=terms.apart.event.events[:1]), epsilon=2, delta="5e-6")
    with pytest.raises(BadInput, match="exactly|not of the lines"):
        replace(terms, apart=fewer)
    with pytest.raises(InvalidEvent):
        replace(terms, apart=None).trajectories()
    form = terms.to_json()
    form["apart"] = to_json(Gaussian(noise_multiplier=1.0))
    with pytest.raises(InvalidLedger):
        Terms.from_json(form)


def test_terms_that_overspend_are_refused():
    terms = terms_of(planned())
    with pytest.raises(BudgetExceeded):
        replace(terms, apart=replace_epsilon(terms.apart, Decimal("2.1"))).check_claim()
    loud = tuple(
        replace(line, event=Gaussian(noise_multiplier=1.0)) if isinstance(line.event, Gaussian) else line
        for line in terms.lines
    )
    block = BlockEvent(event=Composed(events=(Gaussian(noise_multiplier=1.0),) * 2), epsilon=2, delta="5e-6")
    with pytest.raises(BudgetExceeded):
        replace(terms, lines=loud, apart=block).check_claim()


def test_the_odometer_counts_the_whole_block_from_its_first_query_on():
    terms = terms_of(planned())
    event = terms.apart.event.events[0]
    with Ledger.create(MemorySink(), terms) as ledger:
        assert ledger.total("never-asked").epsilon == 0
        for phase in (1, 2):
            ledger.charge(event=event, who="pool", why=ChargeReason(phase=phase, purpose="selection"))
            assert ledger.total("never-asked").epsilon == 2
            assert ledger.total("phase-2").epsilon == 2
        assert ledger.total("initial").epsilon == 0
        with pytest.raises(BudgetExceeded):
            ledger.charge(event=event, who="pool", why=ChargeReason(phase=2, purpose="selection"))


def test_a_block_is_stored_and_read_and_is_no_training():
    block = planned().selection.block()
    assert from_json(to_json(block)) == block
    assert block.pure_epsilon() is None
    with pytest.raises(InvalidEvent):
        Branch(event=Repeated(event=block, count=2))
    with pytest.raises(InvalidEvent):
        BlockEvent(event=block, epsilon=1, delta="1e-6")
    with pytest.raises(InvalidEvent):
        BlockEvent(event=Gaussian(noise_multiplier=1.0), epsilon=1, delta=0)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"selection": "paper"}, "priced as paper"),
        ({"mechanism": "laplace"}, "priced as separate-budget"),
        ({"mechanism": "nonsense"}, "nonsense"),
        ({"subsample": 0.5}, "looks at all records"),
        ({"selection_delta": "1e-4"}, "no part of delta"),
        ({"threshold_epsilon": "0.1"}, "has neither|have neither"),
        ({"reads_training_data": True}, "record alone"),
        ({"individual_rates": True}, "one-sided prices"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, word):
    with pytest.raises(BadInput, match=word):
        planned(**changes)


@pytest.mark.parametrize("mechanism", ["exponential", "k-centre"])
def test_pure_draws_are_priced_the_papers_way(mechanism):
    made = planned(mechanism, selection="paper", reads_training_data=mechanism == "k-centre")
    terms = terms_of(made)
    lines = [line for line in terms.lines if line.event.pure_epsilon() is not None]
    assert [(line.phase, line.count, line.event.pure_epsilon()) for line in lines] == [
        (1, 50, Decimal("0.02")),
        (2, 50, Decimal("0.02")),
    ]
    losses = {path.name: path.forward for path in terms.trajectories()}
    everybody = mechanism == "k-centre"
    assert losses == {"initial": 2 * everybody, "phase-1": 1 + everybody, "phase-2": 2, "never-asked": 2}
