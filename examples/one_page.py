"""The whole idea on one page: private active learning with step amplification, in plain numpy, without the framework.

A pool of little pictures must stay private. A few are labelled, a model is trained with noise, the model says which
others would teach it most, some of them are asked by coins, and so on; all of it within one budget (epsilon, delta) for
every record. Read downward: price of a step, plan, question, training, campaign. Run: python examples/one_page.py

Promise: zero-out (a record against a null that scores lowest and has gradient 0), both directions, the worst path.
A test compares plan and claim with `discreet.plan(..., accountant="rdp")`. What the framework adds: certificates by
privacy loss distributions, noise without floating-point leaks, secret keys, a ledger, crashes, people. Here the noise
comes from a seed, so this is a simulation and protects nobody.
"""

from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal

import numpy as np
from scipy.optimize import brentq
from sklearn.datasets import load_digits

EPSILON, DELTA = 8.0, 1e-5
INITIAL, QUERIES = 200, (100, 100)  # labelled at random; asked after each training but the last
BATCH, EPOCHS = 100, 10  # expected batch b, which is public and never recomputed; epochs of the naive plan
ASKED, MISSED, THRESHOLD = 2.0, (1.0, 2.0), 0.1  # what being asked, each miss, and each threshold may cost
CLIP, RATE, AVERAGE, BINS, CLASSES = 1.0, 4.0, 0.95, 64, 10

ORDERS = np.array(
    [1.005, 1.01, 1.02, 1.03, 1.05, 1.07] + [1 + x / 10 for x in range(1, 100)] + list(range(11, 64)), dtype=float
)


# -- what a step costs -------------------------------------------------------------------------------------------------


def step_rdp(rate, sigma, orders=ORDERS):
    """Rényi divergence of a Poisson-sampled Gaussian step, by the trapezoid rule, which is exact here to 15 digits.

    A(alpha) = E[f(z)^alpha] for z ~ N(0, sigma^2) and f(z) = 1 - q + q exp((2z - 1) / (2 sigma^2)).
    """
    if rate >= 1:
        return orders / (2 * sigma**2)
    h = min(0.5, sigma / 2)
    t = np.arange(-9.0, orders.max() / sigma + 9.0 + h, h)
    log_f = np.logaddexp(np.log(rate) + t / sigma - 0.5 / sigma**2, np.log1p(-rate))
    grown = orders[:, None] * log_f + np.log(h) - 0.5 * t**2 - 0.5 * np.log(2 * np.pi)
    log_a = np.logaddexp.reduce(grown, axis=1)
    return np.minimum(np.maximum(log_a, 0) / (orders - 1), orders / (2 * sigma**2))


def conversion(orders=ORDERS):
    """What each order adds when its divergence becomes an epsilon at DELTA (Balle et al. 2020)."""
    return np.log1p(-1 / orders) - (np.log(DELTA) + np.log(orders)) / (orders - 1)


def claim(steps, loss):
    """Epsilon of a path: its selection loss, and its training [(count, rate, sigma), ...] at the best order of all."""
    grid, best = ORDERS, np.inf
    for _ in range(3):
        curve = sum(n * step_rdp(q, sigma, grid) for n, q, sigma in steps) + conversion(grid)
        at, best = int(np.argmin(curve)), min(best, float(curve.min()))
        grid = np.geomspace(grid[max(at - 1, 0)], grid[min(at + 1, grid.size - 1)], 17)  # look closer around it
    return float(Context(prec=9, rounding=ROUND_CEILING).create_decimal(Decimal(repr(loss + best))))  # never down


# -- the plan ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """So many noisy steps; a sampling rate for every cohort that is there, oldest first."""

    steps: int
    sigma: float
    rates: tuple


def losses():
    """l(path) of the initial cohort and of each query's: asked once forward, earlier misses backward; thresholds both.

    The record that is never asked loses all thresholds and misses, and trains never.
    """
    assert len(QUERIES) * THRESHOLD + sum(MISSED) <= EPSILON, "the caps alone would break the promise"
    return [0.0, *(j * THRESHOLD + max(ASKED, sum(MISSED[: j - 1])) for j in range(1, len(QUERIES) + 1))]


def least(cost, target, start, tolerance):
    """Smallest x with cost(x) <= target, for a cost that falls in x: the last point that keeps it, never the guess."""
    x, factor, seen = start, 1.15, {start: cost(start)}
    down = seen[x] <= target
    while (seen[x] <= target) == down:  # out, in growing steps, until the target lies between two points
        before, x = x, x / factor if down else x * factor
        seen[x], factor = cost(x), factor**1.5
    safe, unsafe = (before, x) if down else (x, before)
    in_a_row = 0
    while seen[safe] < target * (1 - tolerance) and unsafe < safe * (1 - 1e-13):
        share = np.log(seen[unsafe] / (target * (1 - tolerance / 2))) / np.log(seen[unsafe] / seen[safe])
        x = unsafe * (safe / unsafe) ** share  # a secant in logarithms
        if abs(in_a_row) >= 2:  # it creeps along one side: take the middle
            x, in_a_row = (safe * unsafe) ** 0.5, 0
        seen[x] = cost(x)
        if seen[x] <= target:
            safe, in_a_row = x, max(in_a_row, 0) + 1
        else:
            unsafe, in_a_row = x, min(in_a_row, 0) - 1
    return float(safe)


def largest_rate(room, sigma):
    """The largest q whose step costs at most ``room`` at some order."""
    if (room >= ORDERS / (2 * sigma**2)).any():
        return 1.0

    def beyond(log_q):
        return (step_rdp(np.exp(log_q), sigma) - room).min()

    return float(np.exp(brentq(beyond, np.log(1e-7), 0.0, xtol=1e-13, rtol=1e-13))) * (1 - 2e-11)  # the safe side


def draft():
    """Step amplification by RDP: in each phase every cohort gets the rate its own history allows."""
    sizes = [INITIAL + sum(QUERIES[:i]) for i in range(len(QUERIES) + 1)]
    naive = [(EPOCHS * size // BATCH, BATCH / size) for size in sizes]

    def spent(sigma, orders):  # of the first cohort under the naive plan, after each phase
        return np.cumsum([n * step_rdp(q, sigma, orders) for n, q in naive], axis=0) + conversion(orders)

    rough = least(lambda s: spent(s, ORDERS[::8])[-1].min(), EPSILON, 2.0, 1e-3)
    centre = int(spent(rough, ORDERS)[-1].argmin())
    near = ORDERS[max(0, centre - 4) : centre + 5]
    sigma = least(lambda s: spent(s, near)[-1].min(), EPSILON, rough, 1e-9)
    targets = [min(float(row.min()), EPSILON) for row in spent(sigma, ORDERS)]
    lost, cohorts = losses(), np.array([INITIAL, *QUERIES], dtype=float)
    history = np.zeros((len(cohorts), ORDERS.size))
    phases = [Phase(naive[0][0], sigma, (naive[0][1],))]
    for i, target in enumerate(targets):
        if i:
            phases.append(amplified(target, naive[i][0], sigma, cohorts[: i + 1], history, lost))
        for c, q in enumerate(phases[i].rates):
            history[c] += phases[i].steps * step_rdp(q, phases[i].sigma)
    return phases


def amplified(target, naive_steps, sigma, sizes, history, lost):
    """More steps until the rates add up to b; what whole numbers leave over goes into sigma."""

    def rates(steps, s):
        return np.array(
            [largest_rate((target - lost[c] - conversion() - history[c]) / steps, s) for c in range(sizes.size)]
        )

    steps = max(1, round(least(lambda n: rates(n, sigma) @ sizes, BATCH, naive_steps * 1.3, 2e-4)))
    sigma = 1 / least(lambda x: rates(steps, 1 / x) @ sizes / BATCH, 1.0, 1 / sigma, 1e-6)
    found = rates(steps, sigma)
    return Phase(steps, sigma, tuple((found * min(1.0, BATCH / (found @ sizes))).tolist()))


def claims(phases):
    """Epsilon of every path that trains: of the initial cohort, then of those who are asked."""
    cohorts = range(len(QUERIES) + 1)
    return [claim([(p.steps, p.rates[c], p.sigma) for p in phases if c < len(p.rates)], losses()[c]) for c in cohorts]


def make_plan():
    """The draft with its noise scaled until the worst path stands at the budget; and the claim."""
    phases, factor, kept = draft(), 1.0, None

    def scaled(by):
        return [replace(phase, sigma=phase.sigma * by) for phase in phases]

    first = claims(phases)
    worst = max(range(len(first)), key=lambda c: (round(first[c], 3), -losses()[c]))
    for _ in range(20):
        found = least(lambda by, path=worst: claims(scaled(by))[path], EPSILON, factor, 5e-4)
        if kept is not None and found == factor:
            break
        factor = found
        ends = claims(scaled(factor))
        worst = int(np.argmax(ends))
        if max(ends) <= EPSILON:
            kept = scaled(factor), max(ends)
            if max(ends) >= EPSILON * (1 - 1e-3):
                break
    return kept


# -- the question ------------------------------------------------------------------------------------------------------


def coins(k, pool, above, missed):
    """(p_hi, p_lo) that ask k of ``pool`` on average, if ``above`` of them are above the threshold; within the caps."""
    grow, keep, below = np.exp(ASKED), np.exp(-missed), pool - above
    low = k / (above * grow + below)
    if low > (1 - keep) / (grow - keep):
        low = min(max((k - above * (1 - keep)) / (above * keep + below), 0.0), 1.0)
    return min(grow * low, 1 - (1 - low) * keep), low


def choose(scores, k, missed, rng):
    """Places of about k records: a private threshold, then a coin for each; too many are dropped at random."""
    pool, geometric = scores.size, 1 - np.exp(-THRESHOLD)
    counts = np.bincount(np.minimum((scores[scores > 0] * BINS).astype(int), BINS - 1), minlength=BINS)
    noisy = counts + rng.geometric(geometric, BINS) - rng.geometric(geometric, BINS)  # discrete Laplace
    tails = np.clip(np.maximum.accumulate(np.cumsum(noisy[::-1]))[::-1], 0, pool).astype(int)
    gains, each = [], -np.diff(tails, append=0) * (np.arange(BINS) + 0.5) / BINS
    for edge in range(BINS):  # post-processing: the edge that makes the expected sum of asked scores largest
        high, low = coins(k, pool, tails[edge], missed)
        gains.append(high * each[edge:].sum() + low * each[:edge].sum())
    edge = int(np.argmax(gains))
    doubt = round(np.sqrt(2 * (BINS - edge)) / THRESHOLD)  # rather too many than too few: dropping is free
    high, low = coins(k + round(2 * np.sqrt(k)), pool, max(tails[edge] - doubt, 0), missed)
    fell = np.flatnonzero(rng.random(pool) < np.where((scores >= edge / BINS) & (scores > 0), high, low))
    return rng.permutation(fell)[:k]


def entropy(x, weights):
    """Of the model's answer, from 0 to 1: high where it is unsure."""
    p = softmax(x, weights)
    return np.clip(-(p * np.log(np.maximum(p, 1e-300))).sum(axis=1) / np.log(CLASSES), 0, 1)


# -- training ----------------------------------------------------------------------------------------------------------


def softmax(x, weights):
    """Probabilities of a linear model; x ends with a column of ones."""
    logits = x @ weights
    grown = np.exp(logits - logits.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def train(phase, cohorts, x, y, weights, rng):
    """DP-SGD: everybody tosses a coin in every step; gradients are clipped one by one; noise on the sum; over b."""
    members, rates = np.concatenate(cohorts), np.repeat(phase.rates, [len(mine) for mine in cohorts])
    average = weights.copy()
    for step in range(1, phase.steps + 1):
        batch = members[rng.random(members.size) < rates]  # may be empty: it is a step all the same
        error = softmax(x[batch], weights)
        error[np.arange(batch.size), y[batch]] -= 1
        norm = np.linalg.norm(error, axis=1) * np.linalg.norm(x[batch], axis=1)  # of a record's outer product
        error *= np.minimum(1, CLIP / np.maximum(norm, 1e-12))[:, None]
        noise = rng.normal(0, phase.sigma * CLIP, weights.shape)
        weights = weights - RATE * (x[batch].T @ error + noise) / BATCH
        kept = min(AVERAGE, (1 + step) / (10 + step))
        average = kept * average + (1 - kept) * weights
    return average


# -- the campaign ------------------------------------------------------------------------------------------------------


def campaign(phases, x, y, seed, *, random=False):
    """The model after all phases. ``random``: ask uniformly at random, for comparison."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(x))
    cohorts, pool = [order[:INITIAL]], order[INITIAL:]
    weights = train(phases[0], cohorts, x, y, np.zeros((x.shape[1], CLASSES)), rng)
    for phase, k, missed in zip(phases[1:], QUERIES, MISSED, strict=True):
        here = choose(entropy(x[pool], weights), k, missed, rng)
        if random:
            here = rng.permutation(pool.size)[:k]
        cohorts.append(pool[here])  # people label these
        pool = np.delete(pool, here)
        weights = train(phase, cohorts, x, y, weights, rng)
    return weights


def digits():
    """Pictures scaled by public constants, with a column of ones; the last 397 are for testing."""
    pixels, y = load_digits(return_X_y=True)
    x = np.hstack([(pixels - 5) / 16, np.ones((len(y), 1))])
    return x[:1400], y[:1400], x[1400:], y[1400:]


if __name__ == "__main__":
    plan, promised = make_plan()
    for number, phase in enumerate(plan):
        print(f"phase {number}: {phase.steps} steps, sigma {phase.sigma:.4f}, rates {np.round(phase.rates, 4)}")
    print(f"claim: epsilon {promised} of {EPSILON:g} at delta {DELTA:g}, zero-out, by RDP, committed")
    x, y, test, truth = digits()
    found = [(softmax(test, campaign(plan, x, y, s)).argmax(1) == truth).mean() for s in range(5)]
    majority = np.bincount(truth).max() / len(truth)
    shown = f"{np.mean(found):.1%} (5 seeds, {np.round(found, 3)}; majority {majority:.1%})"
    print(f"accuracy on digits nobody was asked about: {shown}")
