"""Exact samplers are exact: their whole decision tree is walked with exact fractions, no statistics involved."""

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.noise.stream import ONE, Stream
from discreet.testing.noise import SURELY, chi_square_pvalue, discrete_laplace_pmf

pytestmark = pytest.mark.thorough


class NeedsMore(Exception):
    """The script ended; the next choice has this many equally likely outcomes."""

    def __init__(self, outcomes):
        self.outcomes = outcomes


class Scripted(Stream):
    """A stream whose uniform choices are dictated, so that every branch can be visited."""

    def __init__(self, script):
        super().__init__(b"", b"")
        self.script = list(script)

    def _next(self, outcomes):
        if not self.script:
            raise NeedsMore(outcomes)
        return self.script.pop(0)

    def below(self, bounds):
        return np.array([self._next(int(bound)) for bound in bounds], dtype=bounds.dtype)

    def bernoulli(self, numerators):
        return np.array([self._next(2) == 1 for number in numerators if number == ONE >> 1])


def law_of(sampler, least):
    """The exact distribution of ``sampler(stream)``, but for branches less likely than ``least``."""
    law, pending = {}, [((), Fraction(1))]
    while pending:
        script, weight = pending.pop()
        if weight < least:
            continue
        try:
            value = sampler(Scripted(script))
        except NeedsMore as more:
            pending += [((*script, choice), weight / more.outcomes) for choice in range(more.outcomes)]
        else:
            law[value] = law.get(value, 0) + weight
    return law


@pytest.mark.parametrize(("over", "under"), [(0, 3), (1, 3), (1, 2), (2, 3), (3, 3), (4, 3), (5, 2)])
def test_a_coin_of_exp_falls_with_that_probability(over, under):
    law = law_of(lambda stream: bool(stream.bernoulli_exp(np.array([over]), np.array([under]))[0]), Fraction(1, 10**7))
    lost = 1 - sum(law.values())
    assert lost < 2e-3
    truth = math.exp(-over / under)
    assert law.get(True, 0) <= truth + 1e-12
    assert law.get(True, 0) + lost >= truth - 1e-12


@pytest.mark.parametrize("rarest", [20_000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(("over", "under"), [(1, 1), (2, 1), (1, 2)])
def test_discrete_laplace_has_its_law(over, under, rarest):
    """Branches of less than 1/20,000 are left out, 7, 20 and 14% in all; of less than 1/100,000 less than that."""
    law = law_of(lambda stream: int(stream.discrete_laplace(over, under, 1)[0]), Fraction(1, rarest))
    lost = float(1 - sum(law.values()))
    assert lost < 0.2  # rare and long branches, and restarts
    for value in range(-3, 4):
        truth = float(discrete_laplace_pmf(under / over)(value))
        assert float(law.get(value, 0)) <= truth + 1e-12
        assert float(law.get(value, 0)) + lost >= truth
    for value in (1, 2):
        assert law.get(value, 0) == law.get(-value, 0)


def words(values):
    stream = Stream(b"k" * 32, b"")
    stream._rest = np.array(values, dtype=np.uint64)
    return stream


def test_a_coin_is_one_integer_comparison():
    """Of the 2^63 values a word's upper bits take, exactly ``numerator`` are heads: the last is numerator - 1."""
    for numerator in (1, 12345, ONE >> 1, ONE - 1):
        edge = [(numerator - 1) << 1, ((numerator - 1) << 1) | 1, numerator << 1, (numerator << 1) | 1]
        tosses = words(edge).bernoulli(np.full(4, numerator, dtype=np.uint64))
        assert tosses.tolist() == [True, True, False, False]
    extreme = [0, 2**64 - 1]
    assert words(extreme).bernoulli(np.full(2, ONE, dtype=np.uint64)).all()
    assert not words(extreme).bernoulli(np.zeros(2, dtype=np.uint64)).any()


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 2**63 - 25, 2**62])
def test_uniform_numbers_reject_the_words_that_would_favour_some(bound):
    unfair = 2**64 % bound
    stream = words([*([unfair - 1] if unfair else []), unfair, 2**64 - 1])
    drawn = stream.below(np.array([bound, bound]))
    last = (2**64 - 1) % bound  # drawn again in place of the unfair first word
    assert drawn.tolist() == ([last, unfair % bound] if unfair else [unfair % bound, last])
    assert (2**64 - unfair) % bound == 0  # as many words for every result


def test_big_uniform_numbers_and_scales():
    stream = Stream(b"k" * 32, b"big")
    bound = 10**40
    drawn = stream.below(np.array([bound] * 2000, dtype=object))
    assert all(0 <= value < bound for value in drawn)
    assert abs(sum(int(value) for value in drawn) / 2000 / bound - 0.5) < 0.04
    scale = 3 * 10**20
    noise = stream.discrete_laplace(scale, 1, 4000)
    assert abs(np.mean(np.abs(noise.astype(float))) / scale - 1) < 0.1


@pytest.mark.parametrize(("over", "under"), [(1, 1), (7, 3), (10, 1), (1, 4)])
def test_discrete_laplace_by_many_draws(over, under):
    drawn = Stream(b"s" * 32, f"{over}/{under}".encode()).discrete_laplace(over, under, 100_000)
    assert chi_square_pvalue(drawn, discrete_laplace_pmf(under / over)) > SURELY


def test_far_tails_have_more_words_than_values():
    """A 63-bit tail alone has fewer words than lattice steps beyond 6.9 sigma; small tails take a second word."""
    stream = Stream(b"k" * 32, b"tails")
    stream._rest = np.concatenate([np.full(500, 6 << 1, dtype=np.uint64), Stream(b"j" * 32, b"").words(20)])
    far = stream.normals(500)
    assert len(np.unique(far)) == 500
    assert far.min() > 8.5
    stream._rest = np.array([0, 0, 0], dtype=np.uint64)
    assert 9 < stream.normals(1)[0] < 14


def test_a_stream_is_the_same_however_it_is_read():
    whole = Stream(b"k" * 32, b"label").words(3000)
    parts = Stream(b"k" * 32, b"label")
    pieces = np.concatenate([parts.words(size) for size in (1, 0, 511, 1, 700, 1024, 763)])
    assert np.array_equal(whole, pieces)
    assert not np.array_equal(whole[:10], Stream(b"k" * 32, b"other").words(10))
    assert not np.array_equal(whole[:10], Stream(b"j" * 32, b"label").words(10))


def test_keys_and_labels_cannot_be_confused():
    assert not np.array_equal(Stream(b"ab", b"c").words(4), Stream(b"a", b"bc").words(4))


def test_a_known_answer():
    """Pinned: a sealed key must give the same draws in the next release of discreet."""
    drawn = Stream(bytes(range(32)), b"known answer").words(2)
    assert [int(word) for word in drawn] == KNOWN_WORDS
    assert Stream(bytes(range(32)), b"known answer").discrete_laplace(5, 1, 6).tolist() == KNOWN_NOISE


KNOWN_WORDS = [15458129152741079549, 13483680602211276803]
KNOWN_NOISE = [4, 8, 3, 0, -20, 2]
