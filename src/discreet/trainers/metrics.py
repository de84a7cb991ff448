"""Metrics of a classifier and their intervals, from a table of counts that is exact or has Laplace noise.

Guarantee: arithmetic alone. That the counts are public, or were paid for, is for whoever made them
(`discreet.trainers.evaluation`). With a column for every distinct score and no noise, values are those of
scikit-learn.

A table has a row for each true class and columns that are answers or bins of a score. Intervals have two parts: the
records are a sample, and cells have noise. Shares (accuracy, recall, precision, F1) solve one quadratic inequality:
Wilson's interval for the sample with Fieller's treatment of the noise. The others use the delta method. What the
order of records within a bin could change is added. Formulas: docs/proofs/evaluation.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_PSEUDO = 0.5
_FEW = 8.0
"""With few positives the linear variance of average precision is too small: 1 + 8 / positives of it were measured."""
_CLEAR = 4.0
"""Standard deviations of noise by which a sum of counts that is divided by must be above 0."""
_SMALLEST = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric with its 95% interval. ``value`` is None where the table cannot tell it: a class has no records.

    ``baseline``: what a constant answer by the class shares would have; None where that is not known.
    """

    name: str
    value: float | None
    low: float
    high: float
    baseline: float | None = None


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """``noise``: the variance of what was added to each cell. ``each``: records of one unit, which may go together."""

    noise: float = 0.0
    each: float = 1

    @classmethod
    def of_laplace(cls, scale: float, *, each: int) -> Uncertainty:
        """Of discrete Laplace noise."""
        decay = math.exp(-1.0 / scale)
        return cls(noise=2.0 * decay / (1.0 - decay) ** 2, each=each)

    @property
    def z(self) -> float:
        """Standard deviations of a 95% interval: 97.5% of a Gaussian, for Laplace noise has longer tails; without
        noise 96%, for with few records the formulas are a little too narrow.
        """
        return 2.241402727604947 if self.noise else 2.0537489106318225


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value with its interval; standard deviations of sample and noise; how far the order within bins reaches."""

    value: float | None = None
    low: float = 0.0
    high: float = 1.0
    sampling: float = math.inf
    noise: float = math.inf
    below: float = 0.0
    above: float = 0.0

    def named(self, name: str, baseline: float | None = None) -> Metric:
        """As it is shown."""
        return Metric(name=name, value=self.value, low=self.low, high=self.high, baseline=baseline)


def share(cells: Floats, inside: ArrayLike, among: ArrayLike, uncertainty: Uncertainty) -> Estimate:
    """The share of records ``inside`` of those ``among``: two masks of cells, the first part of the second."""
    top, base = np.broadcast_to(inside, cells.shape).astype(float), np.broadcast_to(among, cells.shape).astype(float)
    total = float((cells * base).sum())
    if total <= 0:
        return Estimate()
    right = min(max(float((cells * top).sum()), 0.0), total)
    value, square = right / total, uncertainty.z**2
    noisy, noisy_base, sample = uncertainty.noise * top.sum(), uncertainty.noise * base.sum(), uncertainty.each * total
    # |right - v total|^2 <= z^2 (each v (1 - v) total + noise |top - v base|^2), as a v^2 - b v + c <= 0
    a = total**2 + square * (sample - noisy_base)
    b = 2 * right * total + square * (sample - 2 * noisy)
    root = b**2 - 4 * a * (right**2 - square * noisy)
    low, high = 0.0, 1.0
    if a > 0 and root >= 0:
        low, high = max((b - math.sqrt(root)) / (2 * a), 0.0), min((b + math.sqrt(root)) / (2 * a), 1.0)
    damped = (right + 2) / (total + 4)
    return Estimate(
        value=value,
        low=min(low, value),
        high=max(high, value),
        sampling=math.sqrt(uncertainty.each * damped * (1 - damped) / total),
        noise=math.sqrt(uncertainty.noise * float(((top - value * base) ** 2).sum())) / total,
    )


def f1_of(jaccard: Estimate) -> Estimate:
    """F1 = 2 J / (1 + J), where J is the share of hits among hits, misses and false alarms."""
    if jaccard.value is None:
        return jaccard
    slope = 2 / (1 + jaccard.value) ** 2
    value, low, high = (2 * part / (1 + part) for part in (jaccard.value, jaccard.low, jaccard.high))
    return Estimate(value=value, low=low, high=high, sampling=slope * jaccard.sampling, noise=slope * jaccard.noise)


def macro_f1(cells: Floats, answers: NDArray[np.int64], uncertainty: Uncertainty) -> Estimate:
    """The mean F1 of classes that share one table: a wrong answer counts against two of them."""
    values, gradient, relative = [], np.zeros_like(cells), 0.0
    for number in range(len(cells)):
        own, answered = (np.arange(len(cells)) == number)[:, None], (answers == number)[None, :]
        hits, either = (own & answered).astype(float), (own | answered).astype(float)
        total = float((cells * either).sum())
        if total <= 0:
            return Estimate()
        jaccard = min(max(float((cells * hits).sum()) / total, 0.0), 1.0)
        values.append(2 * jaccard / (1 + jaccard))
        gradient += 2 / (1 + jaccard) ** 2 * (hits - jaccard * either) / (total * len(cells))
        relative += float(either.sum()) / total**2 / len(cells)
    return _delta(math.fsum(values) / len(values), gradient, cells, uncertainty, relative=relative)


def macro(estimates: Sequence[Estimate], uncertainty: Uncertainty, *, apart: bool = False, most: float = 1) -> Estimate:
    """The mean over classes. ``apart``: each has records of its own, so that errors are added squared; otherwise those
    of the sample may all go together.
    """
    known = [(each.value, each) for each in estimates if each.value is not None]
    if len(known) < len(estimates) or not known:
        return Estimate(high=most)
    count, value = len(known), math.fsum(value for value, _ in known) / len(known)
    noise = math.hypot(*(each.noise for each in estimates)) / count
    if apart:
        below = [max(value - each.low, uncertainty.z * each.noise) for value, each in known]  # ends are cut at 0 and 1
        above = [max(each.high - value, uncertainty.z * each.noise) for value, each in known]
        low = max(value - math.hypot(*below) / count, math.fsum(each.low for each in estimates) / count)
        high = min(value + math.hypot(*above) / count, math.fsum(each.high for each in estimates) / count)
        sampling = math.hypot(*(each.sampling for each in estimates)) / count
        return Estimate(value=value, low=max(low, 0.0), high=min(high, most), sampling=sampling, noise=noise)
    return _within(
        value,
        math.fsum(each.sampling for each in estimates) / count,
        noise,
        uncertainty,
        below=math.fsum(each.below for each in estimates) / count,
        above=math.fsum(each.above for each in estimates) / count,
        most=most,
    )


def _within(
    value: float,
    sampling: float,
    noise: float,
    uncertainty: Uncertainty,
    *,
    below: float = 0.0,
    above: float = 0.0,
    most: float = 1.0,
) -> Estimate:
    spread = math.hypot(sampling, noise)
    value = min(max(value, 0.0), most)
    low, high = value - uncertainty.z * spread, value + uncertainty.z * spread
    if most == 1.0 and not noise and spread < 0.5:  # symmetric in log-odds: samples near 0 and 1 are skewed
        middle = min(max(value, spread), 1.0 - spread)
        odds, half = math.log(middle / (1 - middle)), uncertainty.z * spread / (middle * (1 - middle))
        low = 1 / (1 + math.exp(half - odds)) if middle <= value else 0.0
        high = 1 / (1 + math.exp(-half - odds)) if middle >= value else 1.0
    low, high = max(low - below, 0.0), min(high + above, most)
    return Estimate(value=value, low=low, high=high, sampling=sampling, noise=noise, below=below, above=above)


def _delta(
    value: float,
    gradient: Floats,
    cells: Floats,
    uncertainty: Uncertainty,
    *,
    relative: float,
    below: float = 0.0,
    above: float = 0.0,
    most: float = 1.0,
) -> Estimate:
    """The delta method. ``relative``: the cells of what was divided by, over its square. Noise there widens."""
    loose, width = uncertainty.z**2 * uncertainty.noise * relative, cells.shape[-1]
    if loose >= 1:
        return Estimate(value=min(max(value, 0.0), most), high=most)
    weights = np.maximum(cells, 0.0) + _PSEUDO / width  # so that the variance is not 0 where all are right
    sampling = math.sqrt(uncertainty.each * float((weights * gradient**2).sum()))
    noise = math.sqrt(uncertainty.noise * float((gradient**2).sum())) / (1 - loose)
    return _within(value, sampling, noise, uncertainty, below=below, above=above, most=most)


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Records by score: ``cells`` (it is not | it is the class, bin), bins from low to high scores.

    ``low`` and ``high`` are the ends of a bin, and ``score`` stands for it: all equal where the scores are known.
    ``binned``: the order of records within a bin is not known.
    """

    cells: Floats
    low: Floats
    high: Floats
    score: Floats
    binned: bool = False

    @classmethod
    def of_scores(cls, scores: ArrayLike, positive: ArrayLike) -> Curve:
        """Exact: a bin for every distinct score."""
        values, place = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
        place, hits = place.reshape(-1), np.asarray(positive, dtype=bool)
        cells = [np.bincount(place[hits == side], minlength=len(values)).astype(float) for side in (False, True)]
        return cls(cells=np.stack(cells), low=values, high=values, score=values)

    @classmethod
    def of_bins(cls, cells: ArrayLike, edges: Sequence[float]) -> Curve:
        """From counts by bin."""
        ends = np.array([0.0, *edges, 1.0])
        low, high = ends[:-1], ends[1:]
        counts = np.asarray(cells, dtype=np.float64)
        return cls(cells=counts, low=low, high=high, score=(low + high) / 2, binned=True)

    def auc(self, uncertainty: Uncertainty) -> Estimate:
        """Area under the ROC curve: the chance that a positive has a higher score than a negative, ties half."""
        negatives, positives = self.cells.sum(axis=1).tolist()
        if negatives <= 0 or positives <= 0:
            return Estimate()
        value, gradient = area_under_roc(self.cells)
        tied = float(np.maximum(self.cells, 0).prod(axis=0).sum()) if self.binned else 0.0
        slack = tied / (2 * negatives * positives)
        relative = len(self.score) * (1 / negatives**2 + 1 / positives**2)
        return _delta(value, gradient, self.cells, uncertainty, relative=relative, below=slack, above=slack)

    def average_precision(self, uncertainty: Uncertainty) -> Estimate:
        """The mean precision at the positives, in the order of scores. Top bins that are lost in noise are joined."""
        positives, bins = float(self.cells[1].sum()), len(self.score)
        answered = _from_top(self.cells.sum(axis=0))
        clear = answered >= _CLEAR * np.sqrt(2 * uncertainty.noise * np.arange(bins, 0, -1))
        lost = int(np.logical_and.accumulate(clear).sum())  # the first bin from which on they are
        if positives <= 0 or (uncertainty.noise and not lost):
            return Estimate()
        starts = np.arange(min(lost, bins)) if uncertainty.noise else np.arange(bins)
        cells = np.add.reduceat(self.cells, starts, axis=1)
        value, gradient = average_precision(cells)
        below, above = _tied_precision(cells) if self.binned else (0.0, 0.0)
        return _delta(
            value,
            gradient.repeat(np.diff(starts, append=bins), axis=1),
            self.cells,
            replace(uncertainty, each=uncertainty.each * (1 + _FEW / positives)),
            relative=bins / positives**2,
            below=below,
            above=above,
        )

    def calibration_error(self, edges: Sequence[float], uncertainty: Uncertainty) -> Estimate:
        """The mean distance, over bins, between the mean score and the share of positives."""
        total = float(self.cells.sum())
        if total <= 0:
            return Estimate()
        bins = np.searchsorted(np.asarray(edges), self.score, side="right")
        count, weights = len(edges) + 1, np.maximum(self.cells, 0.0)
        negative, positive = self.cells

        def by_bin(values: Floats) -> Floats:
            return np.bincount(bins, values, minlength=count).astype(np.float64)

        gaps = np.abs(by_bin(positive * (1 - self.score) - negative * self.score))
        noise = uncertainty.noise * by_bin((1 - self.score) ** 2 + self.score**2)
        sample = uncertainty.each * by_bin(weights[1] * (1 - self.score) ** 2 + weights[0] * self.score**2)
        errors = np.sqrt(noise + sample)
        half = uncertainty.z * math.sqrt(float((errors**2).sum())) / total
        slack = float((weights.sum(axis=0) * (self.high - self.low)).sum()) / 2
        bias = math.sqrt(2 / math.pi) * float(errors.sum())  # distances grow by errors, and never shrink on average
        value = min(float(np.sqrt(np.maximum(gaps**2 - noise, 0.0)).sum()) / total, 1.0)
        below, above = value - (float(gaps.sum()) - bias - slack) / total, (float(gaps.sum()) + slack) / total - value
        return Estimate(
            value=value,
            low=max(value - below - half, 0.0),
            high=min(value + above + half, 1.0),
            sampling=math.sqrt(float(sample.sum())) / total,
            noise=math.sqrt(float(noise.sum())) / total,
            below=below,
            above=above,
        )


def area_under_roc(cells: Floats) -> tuple[float, Floats]:
    """The area and its gradient by cells (negative | positive, bin)."""
    negative, positive = cells
    negatives, positives = negative.sum(), positive.sum()
    under = negative.cumsum() - negative / 2
    over = positives - positive.cumsum() + positive / 2
    value = float((positive * under).sum() / (positives * negatives))
    gradient = [over / (positives * negatives) - value / negatives, under / (positives * negatives) - value / positives]
    return value, np.stack(gradient)


def average_precision(cells: Floats) -> tuple[float, Floats]:
    """The average precision and its gradient by cells (negative | positive, bin)."""
    positive, positives = cells[1], cells[1].sum()
    alarms, hits = _from_top(cells)
    answered = np.maximum(hits + alarms, 1.0)
    precision = np.clip(hits / answered, 0.0, 1.0)
    value = float((positive * precision).sum() / positives)
    lost = (positive * alarms / answered**2).cumsum()  # over this bin and those below it
    fallen = (positive * hits / answered**2).cumsum()
    gradient = np.stack([-fallen / positives, (precision + lost - value) / positives])
    return value, gradient


def _tied_precision(cells: Floats) -> tuple[float, float]:
    """How far average precision falls and rises if the positives of each bin come last, or first."""
    negative, positive = np.maximum(cells, 0.0)
    alarms, hits = _from_top(np.stack([negative, positive]))

    def gained(false: Floats) -> Floats:  # of the j-th positive of a bin: j / (j + false), all of them as an integral
        return np.asarray(positive - false * np.log1p(positive / np.maximum(hits - positive + false, 1.0)))

    middle = positive * hits / np.maximum(hits + alarms, 1.0)
    worst, best = np.clip([gained(alarms), gained(alarms - negative)], 0.0, positive)
    total = float(np.maximum(positive.sum(), 1.0))
    return max(float((middle - worst).sum()), 0.0) / total, max(float((best - middle).sum()), 0.0) / total


def _from_top(cells: Floats) -> Floats:
    """Sums over each bin and those above it."""
    return np.asarray(cells[..., ::-1].cumsum(axis=-1)[..., ::-1])


def log_loss(curves: Sequence[Curve], uncertainty: Uncertainty) -> Estimate:
    """The mean of -log of the probability that the true class was given.

    One curve: of the second of two classes. Several: of each class, of which the rows of records of that class count.
    Of bins, scores are clipped to the outermost edges.
    """
    cells, losses = [], []
    for curve in curves:
        limits = (curve.high[0], curve.low[-1]) if curve.binned else (_SMALLEST, 1 - _SMALLEST)
        ends = np.clip(np.stack([curve.score, curve.low, curve.high]), *limits)
        hit, miss = -np.log(ends), -np.log1p(-ends)[[0, 2, 1]]
        cells.append(curve.cells[1:] if len(curves) > 1 else curve.cells[::-1])
        losses.append(hit[:, None] if len(curves) > 1 else np.stack([hit, miss], axis=1))
    counts = np.concatenate([part.reshape(-1) for part in cells])
    middle, worst, best = np.concatenate([part.reshape(3, -1) for part in losses], axis=1)
    total = float(counts.sum())
    if total <= 0:
        return Estimate(high=math.inf)
    value, weights = float(counts @ middle) / total, np.maximum(counts, 0.0)
    return _delta(
        value,
        (middle - value) / total,
        counts,
        uncertainty,
        relative=counts.size / total**2,
        below=float(weights @ (middle - best)) / total,
        above=float(weights @ (worst - middle)) / total,
        most=math.inf,
    )
