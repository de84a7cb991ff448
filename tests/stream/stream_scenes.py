"""Streams for tests: records of a known boundary, and settings over every part."""

import numpy as np

from discreet.stream import (
    BernoulliAsking,
    ExponentialAsking,
    GammaNoise,
    GaussianNoise,
    Immediate,
    MiniBatch,
    OneSidedAsking,
    SlidingWindow,
    StreamLearner,
    StreamSettings,
)

BERNOULLI, GAMMA = BernoulliAsking(epsilon=1), GammaNoise(epsilon=1)
ASKINGS = {
    "one-sided": OneSidedAsking(asked=1, low=0.1),
    "bernoulli": BERNOULLI,
    "exponential": ExponentialAsking(epsilon=1),
}
WINDOWS = {"sliding": SlidingWindow(7), "mini-batch": MiniBatch(5), "immediate": Immediate()}
NOISES = {"gamma": GAMMA, "gaussian": GaussianNoise(noise_multiplier=1.0)}


def records(n=600, d=4, classes=2, seed=0, outside=0.3):
    """Records, some of them outside the ball and some broken, and their labels."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1)[:, None]
    x *= rng.random(n)[:, None] * (1 + outside)
    directions = rng.normal(size=(classes, d))
    y = (x @ directions.T).argmax(axis=1)
    x[rng.choice(n, n // 50, replace=False), 0] = np.nan
    return x, y


def settings(**parts):
    return StreamSettings(**({"features": 4, "asking": BERNOULLI, "noise": GAMMA} | parts))


def learner(seed=1, **parts):
    return StreamLearner.simulated(settings(**parts), seed=seed)


def one_by_one(learner, x, y):
    """The loop of the docs."""
    bits = []
    for row, label in zip(x, y.tolist(), strict=True):
        bits.append(learner.ask(row))
        if bits[-1]:
            learner.learn_one(row, label)
    return np.array(bits)


def plain(state):
    """A state whose arrays can be compared."""
    return {
        key: plain(value) if isinstance(value, dict) else value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in state.items()
        if key != "ledger"
    }
