"""Paid components: the sensitivity is C^2, every path pays, and the noise is what was charged."""

import numpy as np
import pytest

from discreet.components import reach, second_moment_event
from discreet.components import released as moment_of
from discreet.errors import BadInput, BudgetExceeded, ReceiptRefused
from discreet.noise import RecordingSource, Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import certify, verify
from discreet.privacy.ledger import FileSink, Ledger, MemorySink, adaptive
from discreet.stream import (
    GammaNoise,
    OneSidedAsking,
    StreamLearner,
    charge_preparation,
    charge_stream,
    stream_terms,
)
from discreet.stream.preparation import Preparation, private_components
from discreet.testing.neighbours import AMPLE, NotPrivate, check_neighbours
from discreet.testing.noise import SURELY, ks_pvalue

EVENT = second_moment_event(4.0)


def made(records, ledger, *, norm=1.5, count=2):
    return private_components(records, count=count, norm=norm, receipt=charge_preparation(ledger, EVENT))


def records(n=40, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * [3, 2, 1, 0.5]


def released(rows, ledger):
    found = made(rows, ledger)
    return found.components, found.spectrum


def test_neighbours_differ_by_at_most_the_norm_squared():
    far = records()
    far[0] = [1e6, 0, 0, 0]
    far[1] = [np.nan, 1, 1, 1]
    report = check_neighbours(released, far, null=np.zeros(4))
    assert report.releases == 1


def test_the_replay_sees_a_sensitivity_that_is_too_small():
    """Planted: the norm itself in place of its square, where that is less."""

    def wrong(rows, ledger):
        with pytest.MonkeyPatch().context() as patch:
            patch.setattr("discreet.components.reach", lambda norm, records: norm)
            return released(rows, ledger)

    with pytest.raises(NotPrivate, match="sensitivity"):
        check_neighbours(wrong, records(), null=np.zeros(4))


def test_one_record_of_the_longest_length_moves_the_moment_by_exactly_the_sensitivity():
    calls = []
    for rows in (np.array([[9.0, 9.0, 0.0]]), np.zeros((1, 3))):
        source = RecordingSource(Seeded(0))
        made(rows, Ledger.create(MemorySink(), adaptive(AMPLE), source=source), norm=2.0, count=1)
        calls.append(source.tape.calls[0][0])
    moved = np.linalg.norm(calls[0].inputs - calls[1].inputs)
    assert moved == pytest.approx(4.0, rel=1e-12)
    assert moved <= calls[0].sensitivity == pytest.approx(4.0, rel=1e-9)


def test_reach_grows_with_what_sums_can_round():
    assert 1 < reach(1.0, records=10) < reach(1.0, records=10**6) < 1.001


def test_noise_is_as_large_as_charged_and_smaller_off_the_diagonal():
    """Of no records at all, the released moment is noise: sigma C^2 on the diagonal, over sqrt 2 beside it."""
    from scipy import stats

    ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(7))
    moment = moment_of(np.zeros((300, 300)), 1.5, charge_preparation(ledger, EVENT), records=3, who="prepared")
    assert np.array_equal(moment, moment.T)
    sigma = 4.0 * 1.5**2
    beside = moment[np.triu_indices(300, 1)]
    assert ks_pvalue(beside, stats.norm(scale=sigma / np.sqrt(2)).cdf) > SURELY
    assert ks_pvalue(beside, stats.norm(scale=sigma).cdf) < SURELY  # what noise without the factor would be
    assert ks_pvalue(np.diag(moment), stats.norm(scale=sigma).cdf) > SURELY
    assert ks_pvalue(np.diag(moment), stats.norm(scale=sigma / 2).cdf) < SURELY


def test_with_enough_records_the_components_are_the_true_ones():
    rows = np.random.default_rng(2).normal(size=(20_000, 4)) * [0.1, 0.4, 0.2, 0.05]
    ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(1))
    found = made(rows, ledger, norm=1.0, count=3)
    assert np.abs(found.components).argmax(axis=1).tolist() == [1, 2, 0]
    assert found.spectrum[0] > found.spectrum[1] > found.spectrum[2]
    assert (found.noise_multiplier, found.norm, found.simulation) == (4.0, 1.0, True)


def test_a_receipt_pays_once_and_for_this():
    ledger = Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(1))
    receipt = charge_preparation(ledger, EVENT)
    private_components(records(), count=2, norm=1.0, receipt=receipt)
    with pytest.raises(ReceiptRefused):
        private_components(records(), count=2, norm=1.0, receipt=receipt)
    other = ledger.charge(event=EVENT, who="asked", why="something else")
    with pytest.raises(ReceiptRefused):
        private_components(records(), count=2, norm=1.0, receipt=other)
    fresh = charge_preparation(ledger, EVENT)
    for broken in ({"count": 5}, {"count": 0}, {"norm": 0.0}):
        with pytest.raises(BadInput):
            private_components(records(), **({"count": 2, "norm": 1.0} | broken), receipt=fresh)
    with pytest.raises(BadInput):
        private_components([1.0, 2.0], count=1, norm=1.0, receipt=fresh)
    private_components(records(), count=2, norm=1.0, receipt=fresh)  # refused calls cost nothing


# -- the ledger

ASKING, NOISE = OneSidedAsking(asked=1, missed="1.5"), GammaNoise(epsilon=1)


def terms(epsilon=4, **options):
    given = {"preparation": [EVENT], "preparation_delta": "5e-7"} | options
    return stream_terms(Budget(epsilon=epsilon, delta="1e-6"), asking=ASKING, noise=NOISE, **given)


def test_every_path_pays_for_the_moment():
    alone = certify(Ledger.create(MemorySink(), terms(preparation=[])))["claim"]["epsilon"]
    ledger = Ledger.create(MemorySink(), terms(), source=Seeded(1))
    block = float(ledger.terms.apart.epsilon)
    assert block == pytest.approx(1.096, abs=0.01)  # of a Gaussian with sigma 4 at 5e-7, by PLD
    assert certify(ledger)["claim"]["epsilon"] == pytest.approx(alone + block, abs=1e-5)
    made(records(), ledger)
    charge_stream(ledger, asking=ASKING, noise=NOISE)
    paths = {total.path: total for total in ledger.totals()}
    assert float(paths["asked"].forward) == pytest.approx(1 + block)
    assert float(paths["missed"].backward) == pytest.approx(1.5 + block)


def test_its_ledger_is_verified_like_any_other(tmp_path):
    place = tmp_path / "stream.ledger"
    with Ledger.create(FileSink(place), terms(), source=Seeded(1)) as ledger:
        made(records(), ledger)
        charge_stream(ledger, asking=ASKING, noise=NOISE)
    assert verify(place).ok


def test_a_budget_that_does_not_hold_it_is_refused_before_anything_is_written():
    sink = MemorySink()
    with pytest.raises(BudgetExceeded):
        Ledger.create(sink, terms(epsilon=2))
    assert not sink.read()


def test_records_held_out_for_it_pay_for_nothing_else():
    ledger = Ledger.create(MemorySink(), terms(epsilon=2, prepared="held-out"), source=Seeded(1))
    made(records(), ledger)
    charge_stream(ledger, asking=ASKING, noise=NOISE)
    paths = {total.path: float(total.epsilon) for total in ledger.totals()}
    assert 1.0 < paths["held-out"] < 1.2  # the Gaussian alone, by the odometer
    assert paths["asked"] == pytest.approx(2, abs=1e-4)


def test_paid_components_prepare_a_stream():
    rows = np.random.default_rng(3).normal(size=(3000, 4)) * [0.1, 0.4, 0.2, 0.05]
    ledger = Ledger.create(MemorySink(), terms(), source=Seeded(1))
    plain = Preparation(inputs=4)
    found = made(plain.scaled(rows), ledger, norm=1.0)
    prepared = plain.with_components(found.components, origin="paid")
    learner = StreamLearner(features=prepared.width, asking=ASKING, noise=NOISE, ledger=ledger)
    assert prepared.to_json()["components_origin"] == "paid"
    for row in rows[:50]:
        vector = prepared.one(row)
        if learner.ask(vector):
            learner.learn_one(vector, int(row[1] > 0))
    assert learner.arrived == 50
    assert learner.asked > 0
    before = learner.asked
    learner.ask_many(prepared.many([None, "broken"]))  # nulls, as the learner knows them
    assert learner.arrived == 52
    assert learner.asked - before <= 2
