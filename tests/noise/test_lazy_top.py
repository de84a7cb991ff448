"""The k largest of noisy scores, lazily drawn: the same places as if all noise had been drawn, whatever is guessed."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from discreet.noise import RecordingSource, Seeded, gaussian_top, laplace_top, noisy_top
from discreet.noise.additive_noise import Lattice
from discreet.noise.inversion import GaussianScoreNoise, LaplaceScoreNoise, fallen_far
from discreet.noise.noisy_top import Levels, guessed_levels, heights
from discreet.noise.stream import ONE, Stream
from discreet.privacy.events import Gaussian, Laplace
from discreet.privacy.ledger import Ledger, MemorySink, adaptive
from discreet.testing.neighbours import AMPLE
from discreet.testing.noise import SURELY

pytestmark = pytest.mark.thorough

LUCK = np.random.default_rng(0)
LATTICE = Lattice.under(1.0, "test")
NOISES = [LaplaceScoreNoise(scale=1 << 28), GaussianScoreNoise(steps=2.0**28)]
"""Of one unit of score."""
SHAPES = {
    "even": LUCK.random(700),
    "wide": LUCK.normal(0, 30, 700),
    "constant": np.full(700, 0.25),
    "few values": LUCK.integers(0, 4, 700).astype(float),
    "one on top": np.concatenate([LUCK.random(699), [50.0]]),
    "both ends": np.where(LUCK.random(700) < 0.3, 1e300, LUCK.choice([-1e300, 0.0], 700)),
    "all at the top": np.full(700, 1e300),
    "all at the bottom": np.full(700, -1e300),
    "sorted": np.linspace(-20, 20, 700),
    "short": LUCK.normal(0, 3, 700).astype(np.float32),
}


class Constant(Stream):
    """All words are the same, so that it does not matter who reads which."""

    def __init__(self, word):
        super().__init__(b"", b"")
        self.word = word

    def words(self, count):
        return np.full(count, self.word, dtype=np.uint64)


def parts(seed):
    """Real sampling, coins and first bytes; the bits that follow are everybody's."""
    word = int(np.random.default_rng(seed).integers(0, 1 << 64, dtype=np.uint64))
    real = {noisy_top._SAMPLED, noisy_top._FALLEN, noisy_top._BYTES, noisy_top._REST}
    return lambda part: Stream(b"p" * 32, bytes([seed % 251, part])) if part in real else Constant(word)


def in_full(scores, count, levels, noise, streams):
    """Everybody's noise, and the largest: with numbers made of U = 2^-j U' for those of the far who fell."""
    fell = np.zeros(scores.size, dtype=bool)
    if levels.halvings:
        fell[fallen_far(streams(noisy_top._FALLEN), ONE >> levels.halvings, scores.size)] = True
    bytes_, rest, others = streams(noisy_top._BYTES), streams(noisy_top._REST), streams(noisy_top._OTHERS)
    least, noisy = (256 >> levels.halvings) % 256, []
    for start in range(0, scores.size, noisy_top._BLOCK):
        block = scores[start : start + noisy_top._BLOCK]
        near = [place for place, score in enumerate(block) if not levels.halvings or score > levels.cut]
        own = bytes_.words(-(-len(near) // 8)).view(np.uint8)[: len(near)]
        first = (least + rest.below(np.full(block.size, 256 - least))).astype(np.uint8)
        first[near] = own
        drawn = noise.drawn(first, others)
        for place in np.flatnonzero(fell[start : start + block.size]).tolist():
            if place not in near:
                drawn[place] = noise.drawn_beyond(levels.halvings, 1, others)[0]
        noisy.append(heights(block, LATTICE) + drawn)
    ranked = sorted(range(scores.size), key=lambda place: (-int(np.concatenate(noisy)[place]), place))
    return sorted(ranked[:count])


def both(scores, count, noise, seed, monkeypatch, levels=None):
    streams = parts(seed)
    guessed = levels or guessed_levels(scores, count, LATTICE, noise, streams(noisy_top._SAMPLED))
    monkeypatch.setattr(noisy_top, "guessed_levels", lambda *_: guessed)
    found = noisy_top.lazy_top(scores, count, lattice=LATTICE, noise=noise, streams=streams)
    return found.tolist(), in_full(scores, count, guessed, noise, streams)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("noise", NOISES)
def test_lazy_is_the_same_as_in_full(shape, noise, monkeypatch):
    monkeypatch.setattr(noisy_top, "_BLOCK", 256)
    for seed, count in enumerate((1, 20, 300, 690)):
        found, expected = both(SHAPES[shape], count, noise, seed, monkeypatch)
        assert found == expected


@pytest.mark.parametrize("noise", NOISES)
def test_whatever_the_levels_are(noise, monkeypatch):
    """Levels at random, good and bad: too high, too low, nearly equal. Bad ones are told apart, and all is drawn."""
    monkeypatch.setattr(noisy_top, "_BLOCK", 128)
    drawn_in_full = []
    whole = noisy_top._all_drawn
    monkeypatch.setattr(noisy_top, "_all_drawn", lambda *given: drawn_in_full.append(1) or whole(*given))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scores = rng.normal(0, rng.choice([0.1, 1.0, 10.0]), 250).round(rng.integers(0, 3))
        low = float(rng.normal(0, 6))
        high = None if seed % 3 == 0 else math.ceil((low + rng.exponential(2)) * (1 << 28))
        halvings = int(rng.integers(0, 9))
        cut = low - noise.distance(halvings) - 0.01 if halvings else -math.inf
        levels = Levels(low=math.floor(low * (1 << 28)), high=high, halvings=halvings, cut=cut)
        found, expected = both(scores, int(rng.integers(1, 249)), noise, seed, monkeypatch, levels)
        assert found == expected
    assert 10 < len(drawn_in_full) < 40  # both ways were taken


@pytest.mark.parametrize("planted", ["last", "least", "cut"])
def test_a_bound_that_is_too_tight_is_found(planted, monkeypatch):
    """For every second class of scores, so that the numbers still add up; or for the far, of whom more would rise."""
    noise, tables, odd, wrong = NOISES[0], noisy_top._tables, np.arange(256) % 2 == 1, 0

    def tight(*given):
        last, least = tables(*given)
        if planted == "last":
            last = np.where(odd, 0.65 * last, last).astype(np.uint8)
        if planted == "least":
            least = np.where(odd, np.minimum(1.55 * least, 255), least).astype(np.uint8)
        return last, least

    monkeypatch.setattr(noisy_top, "_tables", tight)
    for seed in range(20):
        scores = np.random.default_rng(seed).normal(0, 1, 3000)
        guess = guessed_levels(scores, 900, LATTICE, noise, parts(seed)(noisy_top._SAMPLED))
        halvings, cut = (3, 0.5) if planted == "cut" else (0, -math.inf)
        levels = Levels(low=guess.low, high=guess.high, halvings=halvings, cut=cut)
        found, expected = both(scores, 900, noise, seed, monkeypatch, levels)
        wrong += found != expected
    assert wrong > 5


# -- the law of the whole


def ledger():
    return Ledger.create(MemorySink(), adaptive(AMPLE), source=Seeded(0))


def high_share(tail, size, count):
    """Of two halves, a unit apart: the expected number of asked from the higher one."""
    level = brentq(lambda z: size / 2 * (tail(z) + tail(z - 1)) - count, -60, 60)
    return size / 2 * tail(level - 1)


@pytest.mark.parametrize("many", [1 << 12, 1 << 20])
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_lazily_and_in_full_the_same_share_is_asked(family, many, monkeypatch):
    """One law is tested of both ways; of the lazy one, often enough to find noise that is 5% off."""
    monkeypatch.setattr("discreet.noise.noisy_top.MANY", many)
    size, runs, count = 1 << 13, 200 if many < 1 << 13 else 50, 2_000
    scores = np.tile([0.0, 1.0], size // 2)
    if family == "laplace":
        event, top, law = Laplace(epsilon=2), laplace_top, stats.laplace(scale=0.5)
    else:
        event, top, law = Gaussian(noise_multiplier=0.5), gaussian_top, stats.norm(scale=0.5)
    receipt = ledger().charge(event=event, count=runs, who="pool", why="test")
    asked = [int((top(scores, count, sensitivity=1.0, receipt=receipt) % 2).sum()) for _ in range(runs)]
    sure = float(stats.norm.isf(SURELY / 2) * np.std(asked)) / math.sqrt(runs)

    def off(factor):
        return abs(np.mean(asked) - high_share(lambda z: law.sf(z / factor), size, count))

    assert off(1.0) < sure + 1  # what is expected is so for a level, not for a number of asked
    if many < size:
        assert min(off(1.05), off(0.95)) > sure + 1


# -- at the door


def test_edges_and_odd_scores_at_the_door():
    book = ledger()
    scores = LUCK.random(1 << 16)

    def top(values, count, epsilon=1):
        receipt = book.charge(event=Laplace(epsilon=epsilon), who="pool", why="test")
        return laplace_top(values, count, sensitivity=1.0, receipt=receipt)

    assert top(scores, 0).size == 0
    assert top(scores, 1 << 17).tolist() == list(range(1 << 16))
    assert top(scores, 65_530).size == 65_530
    assert top(scores, 50, epsilon=10**7).tolist() == sorted(np.argsort(-scores)[:50].tolist())
    assert 0.4 < scores[top(scores, 5000, epsilon="1e-6")].mean() < 0.6
    assert 0.4 < scores[top(scores, 5000, epsilon="1e-12")].mean() < 0.6  # noise beyond what floats decide
    strange = scores.copy()
    strange[:4] = np.nan, np.inf, -np.inf, 1e308
    before = strange.copy()
    assert set(range(4)) & set(top(strange, 50, epsilon=10**7).tolist()) == {3}
    assert np.array_equal(strange, before, equal_nan=True)


def test_one_seed_gives_one_selection_and_the_array_is_not_copied():
    scores = LUCK.random(1 << 17).astype(np.float32)
    found = []
    for _ in range(2):
        receipt = ledger().charge(event=Laplace(epsilon=1), who="pool", why="test")
        found.append(laplace_top(scores, 700, sensitivity=1.0, receipt=receipt).tolist())
    assert found[0] == found[1]
    scores.flags.writeable = False
    source = RecordingSource(Seeded(0))
    receipt = Ledger.create(MemorySink(), adaptive(AMPLE), source=source).charge(
        event=Gaussian(noise_multiplier=1.0), who="pool", why="test"
    )
    output = gaussian_top(scores, 700, sensitivity=1.0, receipt=receipt)
    ((call, kept),) = source.tape.calls
    assert (kept == output).all()
    assert call.inputs.dtype == np.float64  # a tape keeps a copy of its own
    assert not np.shares_memory(call.inputs, scores)
