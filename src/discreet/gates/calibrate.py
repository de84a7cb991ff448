"""From what is promised to a setting of the gate, and back. Every search ends on the side that keeps the promise.

    epsilon, delta, k   ->  the largest beta            more values are shown the larger it is
    epsilon, delta, beta -> the smallest k
    k, beta, delta      ->  the smallest epsilon
    k, beta, epsilon    ->  the smallest delta

The cost grows with beta and with the number of values, and falls with k (docs/proofs/release-gate.md), so bisection
finds it; what is returned was priced itself, and keeps the promise also where rounding bends that law.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from discreet.errors import BadInput
from discreet.gates.profile import Profile, checked_epsilon
from discreet.privacy.release_gate import MOST_K

LEAST_BETA = 1e-9
_DIGITS = 4
"""Of a beta that is found: a part in 10^4 more would show nothing more."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of the gate, and a promise that it keeps."""

    k: int
    beta: float
    values: int
    epsilon: float
    delta: float

    @property
    def profile(self) -> Profile:
        """What it costs."""
        return Profile(k=self.k, beta=self.beta, values=self.values)


def calibrate(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    k: int | None = None,
    beta: float | None = None,
    values: int = 1,
) -> Setting:
    """The setting in which the one number that is not given is best; exactly one is not given."""
    missing = [
        name for name, value in (("epsilon", epsilon), ("delta", delta), ("k", k), ("beta", beta)) if value is None
    ]
    if len(missing) != 1:
        raise BadInput(
            f"calibrating with {len(missing)} numbers missing",
            "of epsilon, delta, k and beta three are given, and the fourth is found",
            "Leave out the one that you look for",
        )
    if epsilon is not None:
        checked_epsilon(epsilon)
    if delta is not None and not 0 < delta < 1:
        raise BadInput(f"delta={delta}", "it must be above 0 and below 1", "Give a chance far below 1/units")
    if k is None:
        assert beta is not None
        k = smallest_k(_given(epsilon), _given(delta), beta, values)
    elif beta is None:
        beta = largest_beta(_given(epsilon), _given(delta), k, values)
    profile = Profile(k=k, beta=beta, values=values)
    if epsilon is None:
        epsilon = profile.epsilon(_given(delta))
        if not math.isfinite(epsilon):
            raise BadInput(
                f"an epsilon for k={k}, beta={beta}, delta={delta}",
                "there is none: with chance beta^k a value of k units is shown that would not be of k - 1",
                "Raise k or delta, or lower beta",
            )
    if delta is None:
        delta = _up(profile.delta(epsilon))
    return Setting(k=k, beta=beta, values=values, epsilon=epsilon, delta=delta)


def _given(value: float | None) -> float:
    assert value is not None  # only one is missing
    return value


def largest_beta(epsilon: float, delta: float, k: int, values: int = 1) -> float:
    """The largest coin, to `_DIGITS` digits, with which k keeps the promise."""

    def fits(beta: float) -> bool:
        return Profile(k=k, beta=beta, values=values).meets(epsilon, delta)

    low, high = LEAST_BETA, 1 - 1e-9
    if values > 1:  # between what a sum allows and what one value would
        low = max(low, _one_value(epsilon / values, delta / values, k))
        high = _one_value(epsilon, delta, k)
    elif fits(high):
        return high
    while not fits(low):
        if low <= LEAST_BETA:
            raise BadInput(
                f"a beta for k={k} at epsilon={epsilon}, delta={delta}", "even a coin of 1e-9 is too much", "Raise k"
            )
        low, high = max(LEAST_BETA, low / 2), low
    return _rounded(_bisected(low, high, fits), fits)


def _one_value(epsilon: float, delta: float, k: int) -> float:
    return largest_beta(epsilon, delta, k) if epsilon > 0 and delta > 0 else LEAST_BETA


def _bisected(low: float, high: float, fits: Callable[[float], bool]) -> float:
    """The largest number that fits, from below, in odds: near 0 and near 1 alike."""
    bottom, top = math.log(low / (1 - low)), math.log(high / (1 - high))
    best = low
    while top - bottom > 10.0**-_DIGITS:
        middle = (bottom + top) / 2
        beta = 1 / (1 + math.exp(-middle))
        if fits(beta):
            bottom, best = middle, beta
        else:
            top = middle
    return best


def _rounded(beta: float, fits: Callable[[float], bool]) -> float:
    """``beta`` with few digits, rounded down: a number people can write."""
    short = float(Context(prec=_DIGITS, rounding=ROUND_FLOOR).create_decimal(Decimal(repr(beta))))
    return short if short >= LEAST_BETA and fits(short) else beta


def _up(delta: float) -> float:
    if delta == 0:
        return 0.0
    return float(Context(prec=9, rounding=ROUND_CEILING).create_decimal(Decimal(repr(delta))))


def smallest_k(epsilon: float, delta: float, beta: float, values: int = 1) -> int:
    """The smallest number of units with which ``beta`` keeps the promise."""

    def fits(k: int) -> bool:
        return Profile(k=k, beta=beta, values=values).meets(epsilon, delta)

    low, high = 0, 1
    while not fits(high):
        if high >= MOST_K:
            raise BadInput(
                f"a k for beta={beta} at epsilon={epsilon}, delta={delta}", f"even k={MOST_K} is too few", "Lower beta"
            )
        low, high = high, min(MOST_K, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def nearest(profile: Profile, epsilon: float, delta: float) -> dict[str, str]:
    """What would keep (epsilon, delta) if one number of ``profile`` were another; and what it does keep."""
    found: dict[str, str] = {}
    with suppress(BadInput):
        found["beta"] = f"{largest_beta(epsilon, delta, profile.k, profile.values):.9g}"
    with suppress(BadInput):
        found["k"] = str(smallest_k(epsilon, delta, profile.beta, profile.values))
    reached, chance = profile.epsilon(delta), _up(profile.delta(epsilon))
    if math.isfinite(reached):
        found["epsilon"] = f"{reached:.9g}"
    return found | {"delta": f"{chance:.9g}"} if chance < 1 else found
