"""Numbers by inversion: exact at the very edges between two of them, and of the law they name."""

from decimal import Context, Decimal

import numpy as np
import pytest
from scipy import stats

from discreet.noise.inversion import GaussianScoreNoise, LaplaceScoreNoise, _Gaps, fallen_far
from discreet.noise.stream import ONE, Stream
from discreet.testing.noise import (
    ENOUGH,
    SURELY,
    chi_square_pvalue,
    coin_pvalue,
    discrete_laplace_pmf,
    independence_pvalue,
    ks_pvalue,
)

PRECISE = Context(prec=200)


class Given(Stream):
    """A stream whose words are dictated, and end."""

    def __init__(self, words):
        super().__init__(b"", b"")
        self.given = list(words)

    def words(self, count):
        assert count <= len(self.given), "it reads on"
        taken, self.given = self.given[:count], self.given[count:]
        return np.array(taken, dtype=np.uint64)


def fresh(label=b"inversion"):
    return Stream(b"k" * 32, label)


def first_bytes(count, label=b"bytes"):
    return fresh(label).words(-(-count // 8)).view(np.uint8)[:count]


def laplace_edge(scale, size):
    """P[noise >= size], for a size of at least 1: exp(-size / scale) / (1 + exp(-1 / scale))."""
    falls = PRECISE.exp(PRECISE.divide(Decimal(-size), Decimal(scale)))
    return PRECISE.divide(falls, PRECISE.add(Decimal(1), PRECISE.exp(PRECISE.divide(Decimal(-1), Decimal(scale)))))


# -- Laplace


@pytest.mark.parametrize("scale", [1, 3, 1 << 28, (1 << 32) - 5])
@pytest.mark.parametrize("share", [0.0, 0.4, 3.0, 9.0, 60.0])
def test_laplace_noise_changes_at_its_exact_probabilities(scale, share):
    """136 bits of U just below and just above an edge, where no float can tell: the byte and two words."""
    size = max(int(scale * share), 1)
    bits = int(PRECISE.multiply(laplace_edge(scale, size), Decimal(1 << 136)))
    for below, expected in ((bits - 2, size), (bits + 2, size - 1)):
        first, word, more = below >> 128, below >> 64 & (1 << 64) - 1, below & (1 << 64) - 1
        plus = LaplaceScoreNoise(scale=scale).drawn(np.array([first], np.uint8), Given([word, more, 1]))
        minus = LaplaceScoreNoise(scale=scale).drawn(
            np.array([255 - first], np.uint8), Given([word ^ (1 << 64) - 1, more, 1])
        )
        assert (int(plus[0]), int(minus[0])) == (expected, -expected)


@pytest.mark.parametrize("halvings", [1, 5, 8])
def test_laplace_noise_beyond_changes_there_too(halvings):
    scale = 1 << 28
    size = int(scale * 7.7)
    bits = int(PRECISE.multiply(laplace_edge(scale, size), Decimal(1 << 128 + halvings)))
    for below, expected in ((bits - 2, size), (bits + 2, size - 1)):
        given = Given([below >> 64, below & (1 << 64) - 1, 1])
        assert LaplaceScoreNoise(scale=scale).drawn_beyond(halvings, 1, given).tolist() == [expected]


@pytest.mark.parametrize("scale", [2, 1 << 28])
def test_floats_and_decimals_agree(scale, monkeypatch):
    """What floats decide, decimals decide alike: once with no float trusted, on the same words."""
    first, noise = first_bytes(300), LaplaceScoreNoise(scale=scale)
    quick = noise.drawn(first, fresh()), noise.drawn_beyond(3, 300, fresh())
    gaps = fallen_far(fresh(), ONE // 50, 5000)
    monkeypatch.setattr("discreet.noise.inversion._DOUBT", 1.0)
    slow = noise.drawn(first, fresh()), noise.drawn_beyond(3, 300, fresh())
    assert all((one == other).all() for one, other in zip(quick, slow, strict=True))
    assert gaps.tolist() == fallen_far(fresh(), ONE // 50, 5000).tolist()


def test_laplace_noise_has_its_law():
    drawn = LaplaceScoreNoise(scale=9).drawn(first_bytes(5 * ENOUGH), fresh())
    assert chi_square_pvalue(drawn, discrete_laplace_pmf(1 / 9)) > SURELY
    assert chi_square_pvalue(drawn, discrete_laplace_pmf(1.05 / 9)) < SURELY
    assert chi_square_pvalue(drawn, discrete_laplace_pmf(0.95 / 9)) < SURELY


def test_noise_beyond_has_the_law_of_what_is_beyond():
    scale = 1 << 28
    drawn = LaplaceScoreNoise(scale=scale).drawn_beyond(6, 2 * ENOUGH, fresh()) / scale - LaplaceScoreNoise(
        scale=scale
    ).distance(6)
    assert ks_pvalue(drawn, stats.expon.cdf) > SURELY
    assert ks_pvalue(drawn, stats.expon(scale=1.05).cdf) < SURELY
    normal = GaussianScoreNoise(steps=2.0**28).drawn_beyond(6, 2 * ENOUGH, fresh()) / 2.0**28
    assert normal.min() >= GaussianScoreNoise(steps=2.0**28).distance(6) - 1e-6
    assert ks_pvalue(normal, lambda x: 1 - stats.norm.sf(x) * 64) > SURELY
    assert ks_pvalue(normal, lambda x: 1 - np.minimum(stats.norm.sf(x / 1.02) * 64, 1)) < SURELY


# -- Gaussian


def test_normals_are_those_of_the_stream():
    stream = fresh()
    words = stream.words(16_000)  # small tails go on with the words after these, in both
    made = stream.normals_at(words >> np.uint64(1), (words & np.uint64(1)) == 0)
    assert (made == fresh().normals(16_000)).all()
    drawn = GaussianScoreNoise(steps=2.0**28).drawn(first_bytes(2 * ENOUGH), fresh()) / 2.0**28
    assert ks_pvalue(drawn, stats.norm.cdf) > SURELY
    assert ks_pvalue(drawn, stats.norm(scale=1.05).cdf) < SURELY


def test_a_gaussian_falls_with_its_first_byte():
    words = np.zeros(256, dtype=np.uint64) + np.uint64(1 << 63)
    drawn = GaussianScoreNoise(steps=2.0**28).drawn(np.arange(256, dtype=np.uint8), Given(words))
    assert (np.diff(drawn) < 0).all()


# -- gaps


@pytest.mark.parametrize("gap", [1, 3, 40, 900])
def test_gaps_change_at_their_exact_probabilities(gap):
    """P[gap >= g] is (1 - p)^g: words just below and above it."""
    numerator = ONE // 77
    stays = PRECISE.power(PRECISE.divide(Decimal(ONE - numerator), Decimal(ONE)), Decimal(gap))
    bits = int(PRECISE.multiply(stays, Decimal(1 << 128)))
    for below, expected in ((bits - 2, gap), (bits + 2, gap - 1)):
        given = Given([below >> 64, below & (1 << 64) - 1, 1])
        assert _Gaps(numerator).drawn(given, 1, 10**6).tolist() == [expected]


@pytest.mark.parametrize("probability", [0.9, 0.5, 0.26, 0.04, 0.003, 2.0**-9])
def test_many_coins_fall_as_often_as_they_should_and_apart(probability):
    count, numerator = 1_000_001, int(probability * ONE)
    found = fallen_far(fresh(), numerator, count)
    assert coin_pvalue(found.size, count, numerator / ONE) > SURELY
    assert (np.diff(found) > 0).all()
    assert 0 <= found[0] < found[-1] < count
    after = int(np.isin(found + 1, found).sum())
    assert coin_pvalue(after, found.size, numerator / ONE) > SURELY
    first = [int(fallen_far(fresh(bytes([seed])), numerator, 1).size) for seed in range(200)]
    assert coin_pvalue(sum(first), 200, numerator / ONE) > SURELY


def test_the_gaps_have_their_law_and_the_check_has_power():
    gaps = np.diff(fallen_far(fresh(), ONE // 20, 4_000_000)) - 1
    assert chi_square_pvalue(gaps, lambda g: 0.05 * 0.95 ** np.asarray(g, float)) > SURELY
    assert chi_square_pvalue(gaps, lambda g: 0.0525 * 0.9475 ** np.asarray(g, float)) < SURELY


def test_edges_of_gaps():
    assert fallen_far(fresh(), 0, 100).size == 0
    assert fallen_far(fresh(), ONE, 100).tolist() == list(range(100))
    assert fallen_far(fresh(), ONE // 3, 0).size == 0
    assert fallen_far(fresh(), 1, 1000).size == 0
    assert fallen_far(fresh(), ONE - 1, 1000).size == 1000


def test_two_tosses_are_apart():
    stream = fresh()
    tosses = [np.isin(np.arange(40_000), fallen_far(stream, ONE // 3, 40_000)).astype(float) for _ in range(2)]
    assert independence_pvalue(*tosses) > SURELY
