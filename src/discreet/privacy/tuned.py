"""The best of a random number of runs: the event, and the laws by which that number is drawn.

A run (training with a setting drawn at random from a public list, and its score) is done K times, K is drawn from a
public law and stays secret, and only the run with the best score is released. That costs far less than releasing all
runs, and more than one: `discreet.privacy.accounting.rdp` prices it (docs/proofs/private-tuning.md).

Guarantee: a law is an exact value. gamma is a whole number of 2^-63, eta and the Poisson rate are decimals, so that K
can be drawn by integer arithmetic with exactly the law that was priced (`discreet.noise.tuned`).

Symbols: ``eta``, ``gamma`` as in Papernot and Steinke, "Hyperparameter Tuning with Rényi Differential Privacy", 2022;
``log_slope(p)`` is log f'(1 - p) of the generating function f(x) = E[x^K].
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, InvalidEvent
from discreet.privacy.budget import Number, exact_decimal, exact_product, exact_sum
from discreet.privacy.events import Event

Array = NDArray[np.float64]
MOST_MEAN = 10_000
LEAST_GAMMA = 1e-6
"""The time to draw K grows as 1/gamma: seconds, from here on."""
_DIGITS = 9
_ROUNDING = 1e-12
"""Far above what the few operations of a law can be off by."""


class RunLaw:
    """A law of K, from 1."""

    name: ClassVar[str]

    @property
    def mean(self) -> float:
        """E[K] = f'(1)."""
        raise NotImplementedError

    def log_slope(self, tail: Array) -> Array:
        """log f'(1 - tail), to rounding; it falls as ``tail`` grows."""
        raise NotImplementedError

    def probabilities(self) -> Iterator[float]:
        """P[K = 1], P[K = 2] ...: for people and tests, not for drawing."""
        raise NotImplementedError

    def pure_factor(self) -> Decimal | None:
        """How many times a pure run's epsilon the whole costs at most, if anything is known of that."""
        return None

    def quantile(self, share: float) -> int:
        """The smallest k with P[K <= k] of at least ``share``."""
        total = 0.0
        for count, probability in enumerate(self.probabilities(), start=1):
            total += probability
            if total >= share - _ROUNDING:
                return count
        raise AssertionError("laws have no end")

    def to_json(self) -> dict[str, Any]:
        """A form that `law_from_json` reads back to an equal value."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class NegativeBinomialRuns(RunLaw):
    """P[K = k] proportional to (1-gamma)^k times the product over l < k of (l + eta) / (l + 1), from k = 1.

    eta = 1 is the geometric law, eta = 0 the logarithmic one; a smaller eta costs less and often makes one run only.
    """

    name: ClassVar[str] = "negative-binomial"
    eta: Decimal
    gamma: float

    def __init__(self, *, eta: Number = 0, gamma: float) -> None:
        shape = exact_decimal(eta, "eta", InvalidEvent)
        exponent = shape.as_tuple().exponent
        if not -1 < shape <= 1 or not isinstance(exponent, int) or exponent < -_DIGITS:
            raise InvalidEvent(f"eta={shape}", f"it is in (-1, 1], with at most {_DIGITS} digits", "Try 0")
        if type(gamma) is not float or not LEAST_GAMMA <= gamma < 1 or not math.ldexp(gamma, 63).is_integer():
            raise InvalidEvent("gamma", "it is no multiple of 2^-63 below 1, or too small", "Use runs_of(mean=...)")
        object.__setattr__(self, "eta", shape)
        object.__setattr__(self, "gamma", gamma)

    @property
    def mean(self) -> float:
        """(1/gamma - 1) / log(1/gamma) for eta = 0; else eta (1-gamma) / (gamma (1 - gamma^eta))."""
        shape, log = float(self.eta), math.log(self.gamma)
        fall = -log if shape == 0 else -math.expm1(shape * log) / shape
        return (1 - self.gamma) / (self.gamma * fall)

    def log_slope(self, tail: Array) -> Array:
        """log E[K] + (1+eta) log(gamma / (gamma + (1-gamma) p))."""
        grown = np.log1p((1 - self.gamma) / self.gamma * tail)
        return np.asarray(math.log(self.mean) - (1 + float(self.eta)) * grown)

    def probabilities(self) -> Iterator[float]:
        """By their recursion."""
        shape, log = float(self.eta), math.log(self.gamma)
        probability = (1 - self.gamma) / (-log if shape == 0 else math.expm1(-shape * log) / shape)
        count = 1
        while True:
            yield probability
            probability *= (1 - self.gamma) * (count + shape) / (count + 1)
            count += 1

    def pure_factor(self) -> Decimal:
        """2 + eta."""
        return exact_sum((Decimal(2), self.eta))

    def to_json(self) -> dict[str, Any]:
        """Its name and parameters."""
        return {"law": self.name, "eta": str(self.eta), "gamma": self.gamma}


@dataclass(frozen=True, kw_only=True)
class PoissonRuns(RunLaw):
    """A Poisson number of ``rate``, drawn again while it is 0. It hardly ever makes many more runs than its mean."""

    name: ClassVar[str] = "poisson"
    rate: Decimal

    def __init__(self, *, rate: Number) -> None:
        exact_rate = exact_decimal(rate, "rate", InvalidEvent)
        exponent = exact_rate.as_tuple().exponent
        if not 0 < exact_rate <= MOST_MEAN or not isinstance(exponent, int) or exponent < -_DIGITS:
            raise InvalidEvent(
                f"rate={exact_rate}", f"it is in (0, {MOST_MEAN}], with at most {_DIGITS} digits", "Try 10"
            )
        object.__setattr__(self, "rate", exact_rate)

    @property
    def mean(self) -> float:
        """rate / (1 - e^-rate)."""
        return float(self.rate) / -math.expm1(-float(self.rate))

    def log_slope(self, tail: Array) -> Array:
        """log E[K] - rate p."""
        return np.asarray(math.log(self.mean) - float(self.rate) * tail)

    def probabilities(self) -> Iterator[float]:
        """By their logarithms: e^-rate is 0 as a float for large rates."""
        rate, count = float(self.rate), 1
        scale = -rate - math.log(-math.expm1(-rate))
        while True:
            yield math.exp(scale + count * math.log(rate) - math.lgamma(count + 1))
            count += 1

    def to_json(self) -> dict[str, Any]:
        """Its name and rate."""
        return {"law": self.name, "rate": str(self.rate)}


def law_from_json(form: Any) -> RunLaw:
    """The law a stored form names; strict."""
    if isinstance(form, dict) and set(form) == {"law", "eta", "gamma"} and form["law"] == NegativeBinomialRuns.name:
        law: RunLaw = NegativeBinomialRuns(eta=_text(form["eta"]), gamma=form["gamma"])
    elif isinstance(form, dict) and set(form) == {"law", "rate"} and form["law"] == PoissonRuns.name:
        law = PoissonRuns(rate=_text(form["rate"]))
    else:
        raise InvalidEvent("a stored law of runs", "it is not one of those that are written here", "Restore the file")
    return law


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidEvent("a stored law of runs", "a number of it is not written as text", "Restore the file")
    return value


def runs_of(*, mean: Number, eta: Number = 0, law: str = NegativeBinomialRuns.name) -> RunLaw:
    """The law of this name (and eta) whose mean is ``mean``, or just below it."""
    wanted = exact_decimal(mean, "the mean number of runs")
    if law not in (NegativeBinomialRuns.name, PoissonRuns.name):
        raise BadInput(f"law {law}", "there is no such law of runs", "Choose negative-binomial or poisson")
    if not Decimal("1.01") <= wanted <= MOST_MEAN:
        raise BadInput(f"{wanted} runs on average", f"a search needs more than one, and at most {MOST_MEAN}", "Try 10")
    if law == PoissonRuns.name:
        rate = _largest(0.0, float(wanted), lambda x: PoissonRuns(rate=_rounded(x)).mean <= wanted)
        return PoissonRuns(rate=_rounded(rate))
    log = _largest(-math.log1p(-1e-9), -math.log(LEAST_GAMMA), lambda x: _of_gamma(eta, math.exp(-x)).mean <= wanted)
    runs = _of_gamma(eta, math.exp(-log))
    if runs.mean < 0.99 * float(wanted):
        raise BadInput(
            f"{wanted} runs on average at eta={eta}", "their law has too long a tail", "Raise eta, or ask less"
        )
    return runs


def _of_gamma(eta: Number, gamma: float) -> NegativeBinomialRuns:
    """gamma rounded up to a multiple of 2^-63: fewer runs."""
    return NegativeBinomialRuns(eta=eta, gamma=min(math.ldexp(math.ceil(math.ldexp(gamma, 63)), -63), 1 - 2.0**-53))


def _rounded(rate: float) -> Decimal:
    return max(Decimal(repr(rate)).quantize(Decimal("1e-9")), Decimal("1e-9")).normalize()


def _largest(low: float, high: float, fits: Any) -> float:
    """The largest number that fits, up to a part in 10^12: the side that does."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
        if high - low <= 1e-12 * high:
            break
    return low


@dataclass(frozen=True, kw_only=True)
class Tuned(Event):
    """The best of K runs; K has the law ``runs``, and is not released.

    ``events``: all that one run does to the record, one event a kind of setting: which setting a run has is drawn at
    random without looking, so the run costs what its dearest setting does. A run's score is part of it: computed from
    public records, or from noisy numbers whose events stand here, too.
    """

    kind: ClassVar[str] = "tuned"
    events: tuple[Event, ...]
    runs: RunLaw

    def __post_init__(self) -> None:
        if not isinstance(self.events, tuple) or not self.events or not all(isinstance(e, Event) for e in self.events):
            raise InvalidEvent(self.kind, "its runs are not a tuple of events", "Give what one run does")
        if len(set(self.events)) != len(self.events):
            raise InvalidEvent(self.kind, "two of its events are the same", "Name each once")
        if not isinstance(self.runs, RunLaw):
            raise InvalidEvent(self.kind, "it has no law of the number of runs", "Use runs_of(mean=...)")

    def pure_epsilon(self) -> Decimal | None:
        """(2 + eta) times the dearest run, where all are pure and the law is negative binomial."""
        factor = self.runs.pure_factor()
        parts = [event.pure_epsilon() for event in self.events]
        if factor is None or None in parts:
            return None
        return exact_product(factor, max(part for part in parts if part is not None))


_CELLS, _LOWEST = 4096, -50.0
"""Cells are a hundredth wide in log p, down to e^-50; one more reaches to 0."""
_TUNED_ROUNDING = 1e-11


def tuned_rdp(curve: Array, orders: Array, wide: Array, wide_orders: Array, runs: RunLaw) -> Array:
    """Divergences of the best of K runs at ``orders``, where one run's are ``curve``.

    ``wide``, at ``wide_orders``, are one run's as well, and bound the probabilities of events. Guarantee
    (docs/proofs/private-tuning.md): let one run have divergences of at most r(a) at every order a, in both directions
    of the zero-out relation, and let K have the generating function f. The best of K runs has, at order a and in both
    directions, at most

        r(a) + 1/(a-1) sup over p in [0, 1] of  a log f'(1-p) - (a-1) log f'(1-h(p)),

    where h(p) = min over orders b of (e^r(b) p)^(1-1/b) bounds the probability of an event under one neighbour whose
    probability under the other is p. With one b for all p, and h's bound taken at its worst, this is the theorem of
    Papernot and Steinke (2022); b for each p saves 2 to 25% of epsilon, and serves any law. The supremum is taken over
    cells [p_i, p_i+1], the numerator at the lower end and the denominator at the upper one, so a grid errs upwards.
    """
    upper = np.linspace(_LOWEST, 0.0, _CELLS + 1)
    lower_slope = runs.log_slope(np.exp(other_tail(upper, wide, wide_orders)))
    upper_slope = runs.log_slope(np.concatenate([[0.0], np.exp(upper[:-1])]))
    shift = upper_slope - lower_slope
    worst = np.max(upper_slope + (orders[:, None] - 1) * shift, axis=1)
    return np.asarray((curve + np.maximum(worst, 0.0) / (orders - 1)) * (1 + _TUNED_ROUNDING) + _TUNED_ROUNDING)


def other_tail(log_tail: Array, curve: Array, orders: Array) -> Array:
    """log h(p) for each log p: at most this is an event's probability under the one neighbour, if it is p under the
    other. It grows with p.
    """
    known = np.isfinite(curve)
    slopes, rises = 1 - 1 / orders[known], curve[known]
    if not slopes.size:
        return np.zeros(log_tail.size)
    best = np.min(slopes[:, None] * (rises[:, None] + log_tail), axis=0)
    return np.asarray(np.minimum(best, 0.0))
