"""How often intervals of metrics hold the true value: drawn records of a known population, real noise, many runs.

python tests/trainers/metric_coverage.py [runs]    # prints the table of docs/proofs/evaluation.md
"""

import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np

from discreet.trainers.accuracy import METRICS
from discreet.trainers.layouts import Layout, measure
from discreet.trainers.metrics import Uncertainty

HUGE = 1_000_000
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Population:
    """Logits of a model whose true class moves its own by ``skill``; probabilities are calibrated up to ``sharp``."""

    layout: Layout
    share: float = 0.5
    skill: float = 1.5
    sharp: float = 1.3

    def draw(self, rng, records):
        classes = self.layout.classes
        if self.layout.multilabel:
            truth = (rng.random((records, classes)) < self.share).astype(np.float64)
            logits = self._logit(truth, rng)
            return 1 / (1 + np.exp(-logits)), truth
        if classes == 2:
            truth = (rng.random(records) < self.share).astype(np.int64)
            second = 1 / (1 + np.exp(-self._logit(truth, rng)))
            return np.stack([1 - second, second], axis=1), truth
        weights = np.r_[self.share, np.full(classes - 1, (1 - self.share) / (classes - 1))]
        truth = rng.choice(classes, records, p=weights)
        logits = rng.normal(size=(records, classes)) + np.log(weights)
        logits[np.arange(records), truth] += self.skill
        powers = np.exp(self.sharp * logits)
        return powers / powers.sum(axis=1, keepdims=True), truth

    def _logit(self, truth, rng):
        """Of N(+-d/2, 1) the true log odds are d z + log of the prior odds."""
        middle = (truth - 0.5) * self.skill + rng.normal(size=truth.shape)
        return self.sharp * (self.skill * middle + np.log(self.share / (1 - self.share)))


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Shares of runs whose interval held the truth and that had a value, and half the mean width of an interval."""

    held: float
    half: float
    told: float


@dataclass(frozen=True, kw_only=True)
class Case:
    """One cell of the study. ``epsilon`` None: public. ``each``: copies of a record, all of one person."""

    population: Population
    records: int
    epsilon: float | None = None
    each: int = 1
    noise_known: bool = True
    each_known: bool = True
    """Whether intervals are told of the noise and of copies: not, to show that the study would see it."""

    def coverage(self, runs, seed=0):
        """By metric."""
        layout, rng = self.population.layout, np.random.default_rng(seed)
        truth = true_values(self.population, clipped=self.epsilon is not None)
        held, widths, told = Counter(), Counter(), Counter()
        for _ in range(runs):
            probabilities, labels = self.population.draw(rng, self.records // self.each)
            each = self.each if self.each_known else 1
            if self.epsilon is None:
                probabilities, labels = (
                    np.repeat(probabilities, self.each, axis=0),
                    np.repeat(labels, self.each, axis=0),
                )
                evaluation = measure(probabilities, labels, layout, records_per_person=each)
            else:
                cells = layout.count(probabilities, labels) * self.each
                scale = layout.sensitivity * self.each / self.epsilon
                parameter = 1 - np.exp(-1 / scale)
                cells = cells + rng.geometric(parameter, cells.size) - rng.geometric(parameter, cells.size)
                known = Uncertainty.of_laplace(scale, each=each)
                uncertainty = known if self.noise_known else Uncertainty(each=each)
                evaluation = layout.evaluation("paid", cells, uncertainty=uncertainty)
            for metric in evaluation.metrics:
                held[metric.name] += metric.low - ROUNDING <= truth[metric.name] <= metric.high + ROUNDING
                widths[metric.name] += min(metric.high, 5) - metric.low
                told[metric.name] += metric.value is not None
        return {
            name: Coverage(held=held[name] / runs, half=widths[name] / runs / 2, told=told[name] / runs)
            for name in held
        }


@cache
def true_values(population, clipped):
    """By a million records; of log loss on scores that are clipped to the outermost edges, if ``clipped``."""
    probabilities, labels = population.draw(np.random.default_rng(12345), HUGE)
    evaluation = measure(probabilities, labels, population.layout)
    values = {metric.name: metric.value for metric in evaluation.metrics}
    if clipped:
        edges = population.layout.bins
        cut = measure(np.clip(probabilities, edges[0], edges[-1]), labels, population.layout)
        values["log-loss"] = cut.metric("log-loss").value
    return values


EVEN = Population(layout=Layout(classes=2))
RARE = Population(layout=Layout(classes=2), share=0.05)
GOOD = Population(layout=Layout(classes=2), skill=3.5)
BETTER = Population(layout=Layout(classes=2), skill=6)
FOUR = Population(layout=Layout(classes=4), share=0.25)
FOUR_SCORES = Population(layout=Layout(classes=4, table="scores"), share=0.25)
UNEVEN_SCORES = Population(layout=Layout(classes=4, table="scores"), share=0.7)
LABELS = Population(layout=Layout(classes=3, multilabel=True), share=0.3)
PAID = {"two classes": EVEN, "5% positives": RARE, "good model": GOOD, "better model": BETTER, "four classes": FOUR}
RARE_CONFUSION = Population(layout=Layout(classes=2, table="confusion"), share=0.05)
CASES = {
    "two classes, public, 200": Case(population=EVEN, records=200),
    "two classes, public, 2,000": Case(population=EVEN, records=2000),
    "5% positives, public, 1,000": Case(population=RARE, records=1000),
    "5% positives, public, 5,000": Case(population=RARE, records=5000),
    "four classes, public, 1,000": Case(population=FOUR, records=1000),
    "three labels, public, 1,000": Case(population=LABELS, records=1000),
    "persons with 4 records, 1,000, public": Case(population=EVEN, records=1000, each=4),
    **{
        f"{name}, {records:,}, epsilon {epsilon}": Case(population=population, records=records, epsilon=epsilon)
        for name, population in PAID.items()
        for records in (500, 2_000, 20_000)
        for epsilon in (0.1, 0.5, 1)
    },
    "two classes, 5,000, epsilon 1": Case(population=EVEN, records=5000, epsilon=1),
    "two classes, 5,000, epsilon 0.1": Case(population=EVEN, records=5000, epsilon=0.1),
    "5% positives, 5,000, epsilon 1": Case(population=RARE, records=5000, epsilon=1),
    "5% positives, 5,000, epsilon 0.1": Case(population=RARE, records=5000, epsilon=0.1),
    "5% positives, 50,000, epsilon 0.1": Case(population=RARE, records=50_000, epsilon=0.1),
    "5% positives, confusion, 5,000, epsilon 0.1": Case(population=RARE_CONFUSION, records=5000, epsilon=0.1),
    "four classes, scores, 5,000, epsilon 1": Case(population=FOUR_SCORES, records=5000, epsilon=1),
    "four classes, scores, 5,000, epsilon 0.1": Case(population=FOUR_SCORES, records=5000, epsilon=0.1),
    "uneven classes, scores, 5,000, epsilon 1": Case(population=UNEVEN_SCORES, records=5000, epsilon=1),
    "three labels, 5,000, epsilon 1": Case(population=LABELS, records=5000, epsilon=1),
    "three labels, 5,000, epsilon 0.1": Case(population=LABELS, records=5000, epsilon=0.1),
    "persons with 4 records, 6,000, epsilon 1": Case(population=EVEN, records=6000, epsilon=1, each=4),
}


if __name__ == "__main__":
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print("| records |", " | ".join(name.replace("-", " ") for name in METRICS), "|")
    print("|---" * (len(METRICS) + 1) + "|")
    for title, case in CASES.items():
        results = case.coverage(runs)
        cells = (f"{100 * results[name].held:.1f}" if name in results else "" for name in METRICS)
        print(f"| {title} |", " | ".join(cells), "|", flush=True)
