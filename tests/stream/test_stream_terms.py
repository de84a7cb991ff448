"""One entry a stream, at the price of the worst path, certified and verified like any other."""

import json
import math
from decimal import Decimal

import pytest

from discreet.errors import BadInput, BudgetExceeded, InvalidLedger
from discreet.noise import OperatingSystem, SealedPhase, Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import certify
from discreet.privacy.certificate.statement import dump_certificate
from discreet.privacy.certificate.verification import verify_certificate, verify_ledger
from discreet.privacy.events import DiscreteLaplace, Gaussian, Pure, ThresholdResponse
from discreet.privacy.ledger import ChargeReason, FileSink, Ledger, Line, MemorySink, Terms, committed
from discreet.stream import (
    AskEverything,
    BernoulliAsking,
    DriftWatch,
    ExponentialAsking,
    GammaNoise,
    GaussianNoise,
    OneSidedAsking,
    charge_preparation,
    charge_stream,
    gaussian_noise_for,
    stream_price,
    stream_terms,
)
from discreet.stream.terms import ARRIVING, ASKED, STREAM

pytestmark = pytest.mark.thorough

BERNOULLI, GAMMA = BernoulliAsking(epsilon=1), GammaNoise(epsilon=1)
DRIFT = DriftWatch(epsilon="0.25", window=100, most=0.4)


@pytest.mark.parametrize(
    ("asking", "noise", "drift", "epsilon"),
    [
        (BERNOULLI, GAMMA, None, "2"),
        (OneSidedAsking(asked=1, missed=2), GAMMA, None, "2"),
        (OneSidedAsking(asked=1, missed=3), GAMMA, None, "3"),
        (ExponentialAsking(epsilon=1), GAMMA, None, "2"),
        (AskEverything(), GAMMA, None, "1"),
        (OneSidedAsking(asked=0, low=0.1), GAMMA, None, "1"),
        (BERNOULLI, GAMMA, DRIFT, "2.25"),
        (BERNOULLI, GammaNoise(epsilon=1, relation="replace-one"), None, "2"),
    ],
)
def test_the_price_is_the_worst_path_and_nothing_is_rounded(asking, noise, drift, epsilon):
    """max(eps_a + eps_g, eps_n): theory.md, section 7."""
    price = stream_price(delta=0, asking=asking, noise=noise, drift=drift)
    assert price.epsilon == Decimal(epsilon)
    terms = stream_terms(Budget(epsilon=epsilon, delta=0), asking=asking, noise=noise, drift=drift)
    terms.check_claim()
    less = Budget(epsilon=Decimal(epsilon) - Decimal("1e-9"), delta=0)
    with pytest.raises(BudgetExceeded):
        stream_terms(less, asking=asking, noise=noise, drift=drift).check_claim()


def test_the_price_in_words():
    price = stream_price(delta=0, asking=OneSidedAsking(asked=1, missed="1.5"), noise=GAMMA)
    assert (price.asked, price.missed) == (2, Decimal("1.5"))
    words = price.in_words()
    assert "epsilon=2 at delta=0 (zero-out), however long" in words
    assert "1.5 if it is not" in words


def test_gaussian_updates_are_certified_by_pld_after_the_selection_loss():
    """theory.md, section 7: at (1, 1e-6) the update alone has a mean length of 30 in 50 dimensions."""
    noise = gaussian_noise_for(Budget(epsilon=1, delta="1e-6"), asking=AskEverything())
    assert noise.noise_multiplier * math.sqrt(49.5) == pytest.approx(30, abs=0.5)
    with_asking = gaussian_noise_for(Budget(epsilon=2, delta="1e-6"), asking=OneSidedAsking(asked=1, missed=2))
    assert with_asking.noise_multiplier == pytest.approx(noise.noise_multiplier, rel=1e-3)
    price = stream_price(delta="1e-6", asking=OneSidedAsking(asked=1, missed=2), noise=with_asking)
    assert Decimal("1.99") < price.asked <= price.epsilon <= 2
    terms = stream_terms(
        Budget(epsilon=price.epsilon, delta="1e-6"), asking=OneSidedAsking(asked=1, missed=2), noise=with_asking
    )
    terms.check_claim()
    less = GaussianNoise(noise_multiplier=0.999 * with_asking.noise_multiplier)
    with pytest.raises(BudgetExceeded):
        stream_terms(
            Budget(epsilon=2, delta="1e-6"), asking=OneSidedAsking(asked=1, missed=2), noise=less
        ).check_claim()
    with pytest.raises(BadInput, match="that much alone"):
        gaussian_noise_for(Budget(epsilon=1, delta="1e-6"), asking=BERNOULLI)


def test_a_ledger_holds_one_entry_and_its_certificate_is_verified(tmp_path):
    noise = gaussian_noise_for(Budget(epsilon=2, delta="1e-6"), asking=BERNOULLI)
    terms = stream_terms(Budget(epsilon=2, delta="1e-6"), asking=BERNOULLI, noise=noise)
    place = tmp_path / "stream.ledger"
    with Ledger.create(FileSink(place), terms, source=OperatingSystem()) as ledger:
        receipt = charge_stream(ledger, asking=BERNOULLI, noise=noise)
        assert len(ledger) == 1
        assert {charge.who for charge in receipt.entry.charges} == {ARRIVING, ASKED}
        with pytest.raises((BudgetExceeded, BadInput)):
            charge_stream(ledger, asking=BERNOULLI, noise=noise)
        form = certify(ledger)
    assert Decimal(str(form["claim"]["epsilon"])) <= 2
    assert form["claim"]["trajectory"] == "asked"
    lines = place.read_bytes().splitlines(keepends=True)
    assert verify_certificate(dump_certificate(form).encode(), lines=lines).ok
    assert verify_ledger(place.read_bytes()).ok
    assert Terms.from_json(json.loads(lines[0])["terms"]) == terms


def test_a_dearer_charge_is_refused_and_a_cheaper_one_taken():
    terms = stream_terms(Budget(epsilon=2, delta=0), asking=BERNOULLI, noise=GAMMA)
    ledger = Ledger.create(MemorySink(), terms, source=Seeded(1))
    with pytest.raises(BudgetExceeded):
        charge_stream(ledger, asking=BERNOULLI, noise=GammaNoise(epsilon="1.1"))
    with pytest.raises(BudgetExceeded):
        charge_stream(ledger, asking=BernoulliAsking(epsilon="1.1"), noise=GAMMA)
    with pytest.raises(BadInput):
        charge_stream(ledger, asking=BERNOULLI, noise=GAMMA, drift=DRIFT)
    charge_stream(ledger, asking=BernoulliAsking(epsilon="0.9"), noise=GAMMA)


def test_only_a_streamed_phase_takes_a_choice_and_what_follows_in_one_entry():
    terms = stream_terms(Budget(epsilon=2, delta=0), asking=BERNOULLI, noise=GAMMA)
    apart = committed(terms.budget, terms.lines, paths=terms.paths)
    ledger = Ledger.create(MemorySink(), apart)
    events = {ARRIVING: BERNOULLI.price(), ASKED: GAMMA.event()}
    with pytest.raises(BadInput, match="Choose first"):
        ledger.charge_together(events, why=ChargeReason(phase=STREAM, purpose="both"))
    streamed = Ledger.create(MemorySink(), terms)
    streamed.charge(event=GAMMA.event(), who=ASKED, why=ChargeReason(phase=STREAM, purpose="teach first"))
    with pytest.raises(BadInput, match="Choose first"):  # in entries of their own the order still counts
        streamed.charge(event=BERNOULLI.price(), who=ARRIVING, why=ChargeReason(phase=STREAM, purpose="then ask"))
    with pytest.raises(BadInput, match="nothing is committed there"):
        committed(terms.budget, terms.lines, paths=terms.paths, streamed=(7,))
    broken = terms.to_json() | {"streamed": ["1"]}
    with pytest.raises(InvalidLedger):
        Terms.from_json(broken)
    assert Terms.from_json(terms.to_json()).streamed == (STREAM,)


def test_a_paid_preparation_joins_every_path_or_has_its_own():
    pure = stream_price(delta=0, asking=BERNOULLI, noise=GAMMA, preparation=[DiscreteLaplace(epsilon="0.5")])
    assert (pure.epsilon, pure.asked, pure.missed) == (Decimal("2.5"), Decimal("2.5"), Decimal("1.5"))
    event = Gaussian(noise_multiplier=10.0)
    parts = {"asking": BERNOULLI, "noise": GAMMA, "preparation": [event]}
    joined = stream_price(delta="1e-6", preparation_delta="5e-7", **parts)
    alone = stream_price(delta="1e-6", prepared="held-out", **parts)
    assert alone.epsilon <= 2 < joined.epsilon
    assert alone.held_out is not None
    assert joined.missed > 1 + alone.held_out  # at half of delta
    assert "only prepares" in alone.in_words()
    with pytest.raises(BadInput, match="part of delta"):
        stream_terms(Budget(epsilon=9, delta="1e-6"), **parts)
    with pytest.raises(BadInput, match="held-out"):
        stream_terms(Budget(epsilon=9, delta="1e-6"), prepared="others", **parts)

    terms = stream_terms(Budget(epsilon=joined.epsilon, delta="1e-6"), preparation_delta="5e-7", **parts)
    ledger = Ledger.create(MemorySink(), terms, source=Seeded(2))
    charge_preparation(ledger, event, purpose="components")
    charge_stream(ledger, asking=BERNOULLI, noise=GAMMA)
    assert len(ledger) == 2
    assert verify_certificate(dump_certificate(certify(ledger)).encode()).ok
    with pytest.raises(BadInput, match="after phase"):
        charge_preparation(ledger, event)


def test_a_sealed_phase_gives_the_same_entry_again(tmp_path):
    terms = stream_terms(Budget(epsilon=2, delta=0), asking=BERNOULLI, noise=GAMMA)
    place = tmp_path / "a.ledger"
    entries = []
    for _ in range(2):
        source = OperatingSystem()
        made = Ledger.open(FileSink(place), source=source) if place.exists() else None
        with made or Ledger.create(FileSink(place), terms, source=source) as ledger:
            phase = SealedPhase(ledger, phase=STREAM, directory=tmp_path)
            entries.append(charge_stream(phase, asking=BERNOULLI, noise=GAMMA).entry.hash)
            assert len(ledger) == 1
    assert entries[0] == entries[1]


def test_persons_are_refused_by_name():
    with pytest.raises(BadInput, match="unit person"):
        stream_terms(Budget(epsilon=2, delta=0, unit="person"), asking=BERNOULLI, noise=GAMMA)


def test_the_missed_path_cannot_be_left_out():
    terms = stream_terms(Budget(epsilon=2, delta=0), asking=BERNOULLI, noise=GAMMA)
    with pytest.raises(BadInput, match="outcome"):
        committed(terms.budget, terms.lines, paths=terms.paths[:1], streamed=(STREAM,))
    assert [type(line.event) for line in terms.lines] == [ThresholdResponse, Pure]
    assert all(isinstance(line, Line) for line in terms.lines)
