"""One draw without end: the same coin for the same number, whoever asks for how many, and nothing for nothing."""

import os
from decimal import Decimal

import numpy as np
import pytest
from scipy import stats

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import (
    IndexedCoins,
    IndexedCounts,
    IndexedNoise,
    OperatingSystem,
    RecordingSource,
    ReplayingSource,
    SealedPhase,
    Seeded,
    numerator,
)
from discreet.noise.stream import ONE
from discreet.privacy.budget import Budget
from discreet.privacy.events import DiscreteLaplace, Gaussian, Laplace, Pure, ThresholdResponse
from discreet.privacy.ledger import FileSink, Ledger, MemorySink, adaptive
from discreet.testing.noise import SURELY, chi_square_pvalue, coin_pvalue, discrete_laplace_pmf, ks_pvalue

pytestmark = pytest.mark.thorough

TERMS = adaptive(Budget(epsilon=10**6, delta="1e-6"))
ASK = ThresholdResponse(asked=1, missed=1)
LOW, HIGH = numerator(Decimal("0.26894142136999513"), up=True), numerator(Decimal("0.7310585786300048"), up=False)
SIZE = 6


def paid(event, source=None, who="stream"):
    ledger = Ledger.create(MemorySink(), TERMS, source=Seeded(3) if source is None else source)
    return ledger.charge(event=event, who=who, why="stream")


def coins(source=None):
    return IndexedCoins(paid(ASK, source), who="stream")


def noise(event, source=None, size=SIZE):
    return IndexedNoise(paid(event, source), size=size, sensitivity=2.0, who="stream")


def test_coins_fall_with_their_chance_and_whoever_counts_gets_the_same():
    chances = np.resize(np.array([LOW, HIGH, ONE // 2], dtype=np.uint64), 30_000)
    together = coins().toss_many(0, chances, LOW, HIGH)
    tossed = coins()
    single = [tossed.toss(place, int(chance), LOW, HIGH) for place, chance in enumerate(chances[:3_000])]
    assert single == together[:3_000].tolist()
    odd = coins()
    for first, last in ((29_999, 30_000), (512, 513), (5_000, 9_123), (0, 30_000), (511, 1_025)):
        assert np.array_equal(odd.toss_many(first, chances[first:last], LOW, HIGH), together[first:last])
    for kind, chance in enumerate((LOW, HIGH, ONE // 2)):
        assert coin_pvalue(int(together[kind::3].sum()), 10_000, chance / ONE) > SURELY
    places, words = coins().near(700, 5_000, high=HIGH)
    assert np.array_equal(places, np.flatnonzero(coins().toss_many(700, np.full(5_000, HIGH, np.uint64), LOW, HIGH)))
    assert (words < HIGH).all()


def test_chances_are_kept_between_their_ends_and_the_ends_within_what_was_charged():
    drawn = coins()
    outside = np.array([0, ONE] * 5_000, dtype=np.uint64)
    moved = np.array([LOW, HIGH] * 5_000, dtype=np.uint64)
    assert np.array_equal(drawn.toss_many(0, outside, LOW, HIGH), drawn.toss_many(0, moved, LOW, HIGH))
    assert [drawn.toss(k, 0, LOW, HIGH) for k in range(2_000)] == drawn.toss_many(
        0, np.full(2_000, LOW, np.uint64), LOW, HIGH
    ).tolist()
    with pytest.raises(BadInput, match="cost more"):
        drawn.toss(0, LOW, LOW, HIGH + (ONE >> 40))
    with pytest.raises(BadInput, match="cost more"):
        drawn.toss_many(0, outside, LOW - (ONE >> 40), HIGH)
    with pytest.raises(BadInput, match="does not hold"):
        drawn.check(HIGH, LOW)
    with pytest.raises(BadInput, match="whole number"):
        drawn.toss(-1, LOW, LOW, HIGH)


@pytest.mark.parametrize("event", [Gaussian(noise_multiplier=1.5), Pure(epsilon=0.5)])
def test_noise_is_known_by_its_number_and_has_its_distribution(event):
    size = 3
    drawn, again = noise(event, size=size), noise(event, size=size)
    values = np.array([0.3, -7.0, 1e5])
    several = 20_000
    found = np.array([drawn.hide(number, values) for number in range(several)])
    for number in (19_999, 0, 2_730, 2_731, 5):
        assert np.array_equal(again.hide(number, values), found[number])
    z = found - values
    if isinstance(event, Gaussian):
        assert ks_pvalue(z.ravel(), stats.norm(scale=3.0).cdf) > SURELY
        assert ks_pvalue(1.1 * z.ravel(), stats.norm(scale=3.0).cdf) < SURELY
        return
    lengths = np.linalg.norm(z, axis=1)
    law = stats.gamma(size, scale=2.0 / 0.5).cdf
    assert ks_pvalue(lengths, law) > SURELY
    assert ks_pvalue(1.1 * lengths, law) < SURELY
    assert ks_pvalue((z[:, 0] / lengths + 1) / 2, stats.uniform.cdf) > SURELY  # Archimedes: even along an axis
    assert abs(np.mean(z, axis=0)).max() < 5 * 4.0 * 3 / np.sqrt(several)


def test_noise_and_coins_of_other_seeds_and_groups_are_others():
    zeros = np.zeros(SIZE)
    event = Pure(epsilon=1)
    rows = [noise(event, Seeded(seed)).hide(0, zeros) for seed in (1, 2)]
    other = IndexedNoise(paid(event, Seeded(1), who="others"), size=SIZE, sensitivity=2.0, who="others").hide(0, zeros)
    assert len({row.tobytes() for row in [*rows, other]}) == 3
    os_drawn = [noise(event, OperatingSystem()).hide(0, zeros).tobytes() for _ in range(2)]
    assert os_drawn[0] != os_drawn[1]


def test_counts_have_their_distribution():
    drawn = IndexedCounts(paid(DiscreteLaplace(epsilon="0.5")), who="stream")
    found = np.array([drawn.hide(number, 40) for number in range(20_000)])
    assert chi_square_pvalue(found - 40, discrete_laplace_pmf(0.5)) > SURELY
    assert chi_square_pvalue(found - 40, discrete_laplace_pmf(0.45)) < SURELY
    again = IndexedCounts(paid(DiscreteLaplace(epsilon="0.5")), who="stream")
    assert again.hide(77, 40) == found[77]


def test_it_is_one_draw_off_a_receipt_and_of_what_was_charged():
    receipt = paid(ASK)
    IndexedCoins(receipt, who="stream")
    with pytest.raises(ReceiptRefused, match="spent"):
        IndexedCoins(receipt, who="stream")
    for forgery in (None, "receipt", 7):
        with pytest.raises(ReceiptRefused):
            IndexedCoins(forgery, who="stream")
    with pytest.raises(ReceiptRefused, match="charged for"):
        IndexedCoins(paid(Laplace(epsilon=1)), who="stream")
    with pytest.raises(ReceiptRefused, match="charged for"):
        IndexedNoise(paid(ASK), size=2, sensitivity=1.0, who="stream")
    with pytest.raises(ReceiptRefused, match="charged for"):
        IndexedCounts(paid(Pure(epsilon=1)), who="stream")
    with pytest.raises(ReceiptRefused, match="epsilon=0"):
        IndexedNoise(paid(Pure(epsilon=0)), size=2, sensitivity=1.0, who="stream")
    with pytest.raises(BadInput):
        IndexedNoise(paid(Pure(epsilon=1)), size=0, sensitivity=1.0, who="stream")
    with pytest.raises(BadInput, match="declared size"):
        noise(Pure(epsilon=1)).hide(0, np.zeros(SIZE + 1))
    with pytest.raises(BadInput, match="2\\^40"):
        IndexedCounts(paid(DiscreteLaplace(epsilon="1e-20")), who="stream")


def test_a_closed_ledger_ends_it_at_once():
    ledger = Ledger.create(MemorySink(), TERMS, source=Seeded(3))
    drawn = IndexedCoins(ledger.charge(event=ASK, who="stream", why="stream"), who="stream")
    hidden = IndexedNoise(
        ledger.charge(event=Pure(epsilon=1), who="stream", why="stream"), size=2, sensitivity=1.0, who="stream"
    )
    drawn.toss(0, LOW, LOW, HIGH)
    ledger.close()
    with pytest.raises(ReceiptRefused, match="closed"):
        drawn.toss(1, LOW, LOW, HIGH)
    with pytest.raises(ReceiptRefused, match="closed"):
        drawn.near(2, 3, high=HIGH)
    with pytest.raises(ReceiptRefused, match="closed"):
        hidden.hide(0, np.zeros(2))


def test_a_forked_child_tosses_none_of_its_parents_coins():
    drawn = coins(OperatingSystem())
    drawn.toss(0, LOW, LOW, HIGH)
    child = os.fork()
    if child == 0:
        try:
            drawn.toss(1, LOW, LOW, HIGH)
        except ReceiptRefused:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    drawn.toss(1, LOW, LOW, HIGH)


def test_a_recorder_sees_each_use_and_a_replay_gives_it_back():
    tape = RecordingSource(Seeded(3))
    receipt = paid(ASK, tape)
    watched = IndexedCoins(receipt, who="stream")
    chances = np.resize(np.array([LOW, HIGH], dtype=np.uint64), 40)
    seen = [*watched.toss_many(10, chances, LOW, HIGH).tolist(), watched.toss(3, HIGH, LOW, HIGH)]
    plain = coins()
    assert seen == [*plain.toss_many(10, chances, LOW, HIGH).tolist(), plain.toss(3, HIGH, LOW, HIGH)]
    calls = [call for call, _ in tape.tape.calls]
    assert [call.parameters["first"] for call in calls] == [10, 3]
    assert calls[0].measure == "one-record"
    assert calls[0].parameters["null"] == LOW
    replayed = IndexedCoins(paid(ASK, ReplayingSource(tape.tape)), who="stream")
    other = np.full(40, LOW, dtype=np.uint64)
    assert [*replayed.toss_many(10, other, LOW, HIGH).tolist(), replayed.toss(3, LOW, LOW, HIGH)] == seen

    for event in (Gaussian(noise_multiplier=1.5), Pure(epsilon=0.5)):
        tape = RecordingSource(Seeded(3))
        hidden = noise(event, tape).hide(5, np.ones(SIZE))
        assert np.array_equal(hidden, noise(event).hide(5, np.ones(SIZE)))
        (call, _) = tape.tape.calls[0]
        assert (call.measure, call.sensitivity, call.parameters["number"]) == ("l2", 2.0, 5)
        assert np.array_equal(noise(event, ReplayingSource(tape.tape)).hide(5, np.zeros(SIZE)), hidden)
    tape = RecordingSource(Seeded(3))
    count = IndexedCounts(paid(DiscreteLaplace(epsilon=1), tape), who="stream").hide(2, 9)
    assert count == IndexedCounts(paid(DiscreteLaplace(epsilon=1)), who="stream").hide(2, 9)
    assert IndexedCounts(paid(DiscreteLaplace(epsilon=1), ReplayingSource(tape.tape)), who="stream").hide(2, 8) == count


def test_a_sealed_key_repeats_the_same_draws_after_a_restart(tmp_path):
    def drawn():
        place = tmp_path / "a.ledger"
        source = OperatingSystem()
        make = Ledger.open(FileSink(place), source=source) if place.exists() else None
        with make or Ledger.create(FileSink(place), TERMS, source=source) as ledger:
            phase = SealedPhase(ledger, phase=0, directory=tmp_path)
            receipt = phase.charge(event=ASK, who="stream", purpose="stream")
            taught = phase.charge(event=Pure(epsilon=1), who="stream", purpose="learn")
            bits = IndexedCoins(receipt, who="stream").toss_many(5, np.full(200, HIGH, np.uint64), LOW, HIGH)
            hidden = IndexedNoise(taught, size=2, sensitivity=1.0, who="stream").hide(4, np.zeros(2))
            return bits.tolist(), hidden.tolist(), len(ledger)

    first = drawn()
    assert drawn() == first
    assert first[2] == 2
