"""Keyed hashing: uniform, exact in its shares, one key a release, never shown."""

import pickle
from decimal import Decimal

import numpy as np
import pytest
from scipy import stats

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import OperatingSystem, SecretKey, numerator, release_key
from discreet.noise.stream import ONE
from discreet.privacy.budget import Budget
from discreet.privacy.events import Pure
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.testing.noise import SURELY

IDS = [f"patient-{number}" for number in range(60_000)]
SHARES = [Decimal("0.6"), Decimal("0.3"), Decimal("0.1")]


def test_shards_have_their_shares_and_belong_to_the_key():
    key, other = SecretKey(b"a" * 32), SecretKey(b"b" * 32)
    found = key.shards(IDS, SHARES)
    counts = np.bincount(found, minlength=3)
    assert stats.chisquare(counts, np.array([0.6, 0.3, 0.1]) * len(IDS)).pvalue > SURELY
    assert stats.chisquare(counts, np.array([0.58, 0.32, 0.1]) * len(IDS)).pvalue < SURELY  # it can fail
    assert np.array_equal(found, key.shards(IDS, SHARES))
    table = stats.contingency.crosstab(found, other.shards(IDS, SHARES)).count
    assert stats.chi2_contingency(table).pvalue > SURELY
    assert np.array_equal(found[:10], key.shards(iter(IDS[:10]), SHARES))


def test_shards_meet_their_ends_exactly():
    key = SecretKey(b"a" * 32)
    words = key.words(IDS, "shards") >> np.uint64(1)
    found = key.shards(IDS, SHARES)
    for end, below in ((Decimal("0.6"), 1), (Decimal("0.9"), 2)):
        assert np.array_equal(words < numerator(end, up=False), found < below)
    assert set(key.shards(IDS[:50], [Decimal(1)])) == {0}


@pytest.mark.parametrize("shares", [[], [Decimal("0.5")], [Decimal("0.5"), Decimal("0.6")], [Decimal(2), Decimal(-1)]])
def test_shares_must_cut_the_whole(shares):
    with pytest.raises(BadInput, match="sum"):
        SecretKey(b"a" * 32).shards(IDS[:3], shares)


def test_coins_fall_with_their_probability():
    key = SecretKey(b"a" * 32)
    heads = key.coins(IDS, numerator(0.1, up=False))
    assert stats.binomtest(int(heads.sum()), len(IDS), 0.1).pvalue > SURELY
    assert stats.binomtest(int(heads.sum()), len(IDS), 0.11).pvalue < SURELY
    assert key.coins(IDS[:9], ONE).all()
    assert not key.coins(IDS[:9], 0).any()


def test_a_release_has_one_key_and_no_two_have_the_same():
    ledger = Ledger.create(MemorySink(), adaptive(Budget(epsilon=9, delta="1e-6")), source=OperatingSystem())
    master = SecretKey.fresh()
    words = []
    for number in range(4):
        receipt = ledger.charge(event=Pure(epsilon=1), who="queries", why="gate")
        key = release_key(receipt, master=master if number % 2 else None)
        words.append(tuple(key.words(IDS[:3]).tolist()))
        with pytest.raises(ReceiptRefused, match="spent"):
            release_key(receipt, master=master if number % 2 else None)
    assert len(set(words)) == 4
    for forgery in (None, "receipt"):
        with pytest.raises(ReceiptRefused):
            release_key(forgery, master=master)


def test_secrets_stay_secret(tmp_path):
    key = SecretKey(bytes(range(32)))
    assert repr(key) == "SecretKey(...)"
    with pytest.raises(TypeError):
        pickle.dumps(key)
    place = tmp_path / "master.key"
    key.write(place)
    assert place.stat().st_mode & 0o777 == 0o600
    assert np.array_equal(SecretKey.read(place).words(IDS[:5]), key.words(IDS[:5]))
    with pytest.raises(BadInput, match="already"):
        SecretKey.fresh().write(place)
    place.chmod(0o640)
    with pytest.raises(BadInput, match="others"):
        SecretKey.read(place)
    with pytest.raises(BadInput):
        SecretKey(b"short")
    assert not np.array_equal(key.derive("a").words(IDS[:5]), key.derive("b").words(IDS[:5]))
