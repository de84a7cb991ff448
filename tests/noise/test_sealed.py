"""A phase done again after a crash repeats its draws, and only its own."""

import os

import numpy as np
import pytest

from discreet.errors import BadInput, LedgerUnavailable, ReceiptRefused
from discreet.noise import (
    OperatingSystem,
    SealedPhase,
    SecretKey,
    Seeded,
    SparseVector,
    exponential,
    gaussian,
    laplace,
    poisson_mask,
    release_key,
)
from discreet.privacy.budget import Budget
from discreet.privacy.events import Laplace, PoissonSampledGaussian, Pure
from discreet.privacy.ledger import ChargeReason, FileSink, Ledger, MemorySink, adaptive

TERMS = adaptive(Budget(epsilon=50, delta="1e-6"))
COUNT = Laplace(epsilon="0.5")
STEP = PoissonSampledGaussian(sampling_rate=0.5, noise_multiplier=2.0)


def opened(tmp_path):
    place = tmp_path / "a.ledger"
    if place.exists():
        return Ledger.open(FileSink(place), source=OperatingSystem())
    return Ledger.create(FileSink(place), TERMS, source=OperatingSystem())


def work(phase, *, stop=99):
    """Three counts and four steps; stops after ``stop`` draws, as a crash would."""
    drawn = []

    def keep(value):
        drawn.append(value)
        if len(drawn) == stop:
            raise InterruptedError

    try:
        for place in range(3):
            receipt = phase.charge(event=COUNT, who="pool", purpose=f"count {place}")
            keep(laplace(1.0, sensitivity=1.0, receipt=receipt))
        receipt = phase.charge(event=STEP, count=4, who="pool", purpose="train")
        for _ in range(4):
            mask = poisson_mask(20, receipt=receipt)
            keep((mask.tolist(), gaussian(np.zeros(2), sensitivity=1.0, receipt=receipt).tolist()))
    except InterruptedError:
        pass
    return drawn


@pytest.mark.parametrize("stop", range(1, 8))
def test_a_redo_repeats_the_same_draws_and_charges_nothing_twice(tmp_path, stop):
    with opened(tmp_path) as ledger:
        before = work(SealedPhase(ledger, phase=2, directory=tmp_path), stop=stop)
        charged = len(ledger)
    with opened(tmp_path) as ledger, SealedPhase(ledger, phase=2, directory=tmp_path) as phase:
        assert phase.redoing
        after = work(phase)
        assert len(ledger) == 4 >= charged
    assert after[:stop] == before
    assert len(after) == 7
    assert not list(tmp_path.glob("*.key"))


def test_after_the_phase_ended_nothing_can_be_repeated(tmp_path):
    with opened(tmp_path) as ledger:
        with SealedPhase(ledger, phase=2, directory=tmp_path) as phase:
            first = work(phase)
        with SealedPhase(ledger, phase=2, directory=tmp_path) as phase:
            assert not phase.redoing
            assert work(phase) != first
        assert len(ledger) == 8


def test_a_redo_that_charges_otherwise_is_refused(tmp_path):
    with opened(tmp_path) as ledger:
        work(SealedPhase(ledger, phase=2, directory=tmp_path), stop=2)
    with opened(tmp_path) as ledger:
        phase = SealedPhase(ledger, phase=2, directory=tmp_path)
        with pytest.raises(LedgerUnavailable, match="another one"):
            phase.charge(event=Laplace(epsilon="0.4"), who="pool", purpose="count 0")
        assert len(ledger) == 2


def test_a_redo_with_another_scale_is_refused(tmp_path):
    """Equal noise at two scales: 2 f(1) - f(2) would be the exact value."""
    with opened(tmp_path) as ledger:
        receipt = SealedPhase(ledger, phase=2, directory=tmp_path).charge(event=COUNT, who="pool", purpose="count")
        first = laplace(123.456, sensitivity=1.0, receipt=receipt)
    with opened(tmp_path) as ledger:
        receipt = SealedPhase(ledger, phase=2, directory=tmp_path).charge(event=COUNT, who="pool", purpose="count")
        with pytest.raises(LedgerUnavailable, match="other parameters"):
            laplace(123.456, sensitivity=2.0, receipt=receipt)
    with opened(tmp_path) as ledger:
        receipt = SealedPhase(ledger, phase=2, directory=tmp_path).charge(event=COUNT, who="pool", purpose="count")
        assert laplace(123.456, sensitivity=1.0, receipt=receipt) == first


def test_a_redo_cannot_make_a_second_release(tmp_path):
    def again(draw):
        with opened(tmp_path) as ledger:
            phase = SealedPhase(ledger, phase=2, directory=tmp_path)
            return draw(phase.charge(event=Pure(epsilon="0.5"), who=["a", "b"], purpose="count"))

    first = again(lambda receipt: laplace(1.0, sensitivity=1.0, receipt=receipt))
    for other in (
        lambda receipt: laplace(1.0, sensitivity=1.0, receipt=receipt, who="a"),
        lambda receipt: SparseVector(receipt=receipt).above(1.0, 0.0),
        lambda receipt: exponential([1.0, 2.0], sensitivity=1.0, receipt=receipt),
        lambda receipt: release_key(receipt, master=SecretKey(bytes(32))),
    ):
        with pytest.raises(LedgerUnavailable, match="before"):
            again(other)
    (draws,) = tmp_path.glob("*.draws")
    draws.write_bytes(draws.read_bytes()[:-10])  # torn by a crash: an honest redo goes on
    assert again(lambda receipt: laplace(1.0, sensitivity=1.0, receipt=receipt)) == first
    whole = draws.read_bytes()
    draws.write_bytes(b"g" + whole[1:])  # a whole line that was changed is not a torn one
    with pytest.raises(LedgerUnavailable, match="damaged"):
        again(lambda receipt: laplace(1.0, sensitivity=1.0, receipt=receipt))
    assert draws.read_bytes() == b"g" + whole[1:]


def test_a_phase_may_be_ended_by_hand(tmp_path):
    with opened(tmp_path) as ledger, SealedPhase(ledger, phase=2, directory=tmp_path) as phase:
        work(phase)
        phase.end()
        phase.end()
    assert {path.suffix for path in tmp_path.iterdir()} == {".ledger", ".mark"}
    with opened(tmp_path) as ledger, pytest.raises(BadInput, match="directory"):
        SealedPhase(ledger, phase=2, directory=tmp_path / "missing")


def test_the_key_is_private_bound_to_its_ledger_and_never_shown(tmp_path):
    with opened(tmp_path) as ledger:
        phase = SealedPhase(ledger, phase=2, directory=tmp_path)
        (key,) = tmp_path.glob("*.key")
        assert key.stat().st_mode & 0o777 == 0o600
        secret = key.read_text()
        assert repr(phase.key) == "ReplayKey(...)"
        os.chmod(key, 0o644)  # noqa: PTH101
        with pytest.raises(BadInput, match="others may read"):
            SealedPhase(ledger, phase=2, directory=tmp_path)
        os.chmod(key, 0o600)  # noqa: PTH101
        key.write_text(secret.replace(ledger.id, "0" * 32))
        with pytest.raises(BadInput, match="another ledger"):
            SealedPhase(ledger, phase=2, directory=tmp_path)
        key.write_text("not a key")
        with pytest.raises(BadInput) as caught:
            SealedPhase(ledger, phase=2, directory=tmp_path)
        assert "not a key" not in str(caught.value)


def test_an_entry_is_reissued_to_its_own_key_alone(tmp_path):
    with opened(tmp_path) as ledger:
        phase = SealedPhase(ledger, phase=2, directory=tmp_path)
        receipt = phase.charge(event=COUNT, who="pool", purpose="count 0")
        plain = ledger.charge(event=COUNT, who="pool", why=ChargeReason(phase=2, purpose="count"))
        for entry in (plain.entry, receipt.entry):
            with pytest.raises(ReceiptRefused):
                ledger.reissue(entry, source=OperatingSystem())
        with pytest.raises(ReceiptRefused):
            ledger.reissue(plain.entry, source=phase.key)
        first = laplace(1.0, sensitivity=1.0, receipt=receipt)
        again = ledger.reissue(receipt.entry, source=phase.key)
        with pytest.raises(ReceiptRefused, match="later one"):
            receipt.check()
        assert laplace(1.0, sensitivity=1.0, receipt=again) == first


def test_a_checkpoint_goes_on_in_the_middle(tmp_path):
    with opened(tmp_path) as ledger:
        whole = work(SealedPhase(ledger, phase=2, directory=tmp_path))
    with opened(tmp_path) as ledger:
        phase = SealedPhase(ledger, phase=2, directory=tmp_path)
        for place in range(3):
            phase.charge(event=COUNT, who="pool", purpose=f"count {place}")
        receipt = phase.charge(event=STEP, count=4, who="pool", purpose="train")
        receipt.advance(2)
        with pytest.raises(BadInput):
            receipt.advance(5)
        mask = poisson_mask(20, receipt=receipt)
        assert (mask.tolist(), gaussian(np.zeros(2), sensitivity=1.0, receipt=receipt).tolist()) == whole[5]
        with pytest.raises(BadInput):
            receipt.advance(2)
        receipt.advance(4)
        with pytest.raises(BadInput, match="further"):
            receipt.advance(3)


def test_a_seed_needs_no_seal():
    with pytest.raises(BadInput, match="seed"):
        SealedPhase(Ledger.create(MemorySink(), TERMS, source=Seeded(1)), phase=0, directory=None)


def test_a_key_whose_destruction_was_cut_short_is_no_key(tmp_path):
    with opened(tmp_path) as ledger:
        phase = SealedPhase(ledger, phase=2, directory=tmp_path)
        work(phase)
        phase.key.path.write_bytes(b"\0" * phase.key.path.stat().st_size)  # overwritten, its name not yet removed
    with opened(tmp_path) as ledger, SealedPhase(ledger, phase=2, directory=tmp_path) as again:
        assert not again.redoing
        work(again)
        assert len(ledger) == 8
