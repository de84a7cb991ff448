"""Coins that are tossed 64 at a time: each falls with exactly its probability, apart from all others."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.noise.stream import ONE, Stream
from discreet.testing.noise import SURELY, coin_pvalue, independence_pvalue


class Counting(Stream):
    """A stream of a known number of bits: every pattern of its words is as likely as any other."""

    def __init__(self, words):
        super().__init__(b"", b"")
        self.given = list(words)

    def words(self, count):
        taken, self.given = self.given[:count], self.given[count:]
        return np.array(taken + [0] * (count - len(taken)), dtype=np.uint64)


@pytest.mark.parametrize("eighths", range(9))
def test_one_coin_falls_with_its_probability_exactly(eighths):
    """All patterns of the bits that are read: the last word is compared with p, so its top three bits tell."""
    numerator = eighths * (ONE // 8)
    low = min(numerator, ONE - numerator)
    bits = 63 - (low - 1).bit_length() if low else 0
    share = Fraction(0)
    for pattern in range(1 << bits):
        for top in range(8):
            words = [(pattern >> place) & 1 for place in range(bits)]
            if all(words) and bits:
                words.append(top << 61)
            elif bits:
                words = words[: words.index(0) + 1]  # nothing is left: no more words are read
            found = Counting(words).fallen(numerator, 1)
            share += Fraction(int(found.size), 8 << bits)
    assert share == Fraction(eighths, 8)


@pytest.mark.parametrize("probability", [0.9, 0.5, 0.26, 0.04, 0.003, 2.0**-9])
def test_many_coins_fall_as_often_as_they_should_and_apart(probability):
    count, numerator = 3_000_001, int(probability * ONE)
    found = Stream(b"a" * 32, b"fallen").fallen(numerator, count)
    assert coin_pvalue(found.size, count, numerator / ONE) > SURELY
    assert (np.diff(found) > 0).all()
    assert 0 <= found[0] < found[-1] < count
    for place in (0, 1, 63, 64):  # no place of a word is favoured, nor the next one shunned
        assert coin_pvalue(int((found % 128 == place).sum()), len(range(place, count, 128)), numerator / ONE) > SURELY
    after = int(np.isin(found + 1, found).sum())
    assert coin_pvalue(after, found.size, numerator / ONE) > SURELY


def test_the_check_has_power():
    found = Stream(b"a" * 32, b"fallen").fallen(int(0.041 * ONE), 3_000_001)
    assert coin_pvalue(found.size, 3_000_001, 0.04) < SURELY


def test_edges():
    stream = Stream(b"a" * 32, b"edges")
    assert stream.fallen(0, 100).size == 0
    assert stream.fallen(ONE, 100).tolist() == list(range(100))
    assert stream.fallen(ONE // 3, 0).size == 0
    assert stream.fallen(1, 1000).size == 0
    assert stream.fallen(ONE - 1, 1000).size == 1000


def test_two_tosses_are_apart():
    stream = Stream(b"a" * 32, b"twice")
    tosses = [np.isin(np.arange(40_000), stream.fallen(ONE // 3, 40_000)).astype(float) for _ in range(2)]
    assert independence_pvalue(*tosses) > SURELY
