"""The privacy cost of a release gate, and its calibration: from a target (epsilon, delta) to a setting, and back.

Guarantee (docs/proofs/release-gate.md): `Profile.delta` and `Profile.epsilon` hold in both directions of zero-out,
whatever number of other units has each value, with counts released or not. One value is exact; several use the
envelope over all numbers of others. Everything here is public.

`calibrate` finds the fourth number where three are given:

    epsilon, delta, k    -> the largest beta            the larger it is, the more values are shown
    epsilon, delta, beta -> the smallest k
    k, beta, delta       -> the smallest epsilon
    k, beta, epsilon     -> the smallest delta

The cost grows with beta and with the number of values, and falls with k, so bisection finds it. What is returned was
priced itself, so it meets the target also where rounding breaks that monotonicity.

Symbols: k units must keep a value, each with probability ``beta``; a unit brings at most ``values`` (c) of them.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.privacy.accounting.pld import pld_epsilons, pld_pair
from discreet.privacy.accounting.release_gate import Worst, release_delta
from discreet.privacy.budget import rounded_up
from discreet.privacy.events import MOST_K, ReleaseGate, Repeated
from discreet.privacy.trajectories import Trajectory


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The cost of one setting of the gate."""

    k: int
    beta: float
    values: int = 1

    def __post_init__(self) -> None:
        ReleaseGate(k=self.k, beta=self.beta, values=self.values)  # the same limits

    @property
    def event(self) -> ReleaseGate:
        """As a ledger is charged for it, with everything else as it is by default."""
        return ReleaseGate(k=self.k, beta=self.beta, values=self.values)

    def worst(self, epsilon: float) -> tuple[Worst, Worst]:
        """Of one value, forward and backward: the divergence, and the number of others it is reached at."""
        checked_epsilon(epsilon)
        return (
            release_delta(self.k, self.beta, epsilon, "forward"),
            release_delta(self.k, self.beta, epsilon, "backward"),
        )

    def deltas(self, epsilon: float) -> tuple[float, float]:
        """Forward and backward: of all ``values`` together, the better of the envelope and of a sum."""
        checked_epsilon(epsilon)
        if self.values == 1:
            forward, backward = self.worst(epsilon)
            return forward.delta, backward.delta
        return _several(self.k, self.beta, self.values, epsilon)

    def delta(self, epsilon: float) -> float:
        """The worse direction."""
        return max(self.deltas(epsilon))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at ``delta``, rounded up; infinite where no epsilon will do, as below beta^k."""
        if not 0 < delta < 1:
            raise BadInput(f"delta={delta}", "it must be above 0 and below 1", "Give a chance far below 1/units")
        return _epsilon(self.event, delta)

    def meets(self, epsilon: float, delta: float) -> bool:
        """Whether the guarantee (epsilon, delta) is kept, as a ledger would find."""
        if self.values == 1:
            return self.delta(epsilon) <= delta and self.epsilon(delta) <= epsilon
        return _in_ledger(self.event, epsilon, delta) <= epsilon


@functools.lru_cache(maxsize=4096)
def _epsilon(event: ReleaseGate, delta: float) -> float:
    return rounded_up(max(pld_epsilons(event, delta)))


@functools.lru_cache(maxsize=4096)
def _in_ledger(event: ReleaseGate, epsilon: float, delta: float) -> float:
    """What a ledger of this budget finds: on a grid of its own, which may be coarser."""
    path = Trajectory(name="everyone", training=(Repeated(event=event, count=1),))
    return path.pld(delta, path.interval(epsilon))


@functools.lru_cache(maxsize=256)
def _several(k: int, beta: float, values: int, epsilon: float) -> tuple[float, float]:
    pair = pld_pair(ReleaseGate(k=k, beta=beta, values=values))
    assert pair is not None
    shared = [values * release_delta(k, beta, epsilon / values, way).delta for way in ("forward", "backward")]
    forward, backward = (min(1.0, *both) for both in zip(pair.deltas(epsilon), shared, strict=True))
    return forward, backward


def checked_epsilon(epsilon: float) -> None:
    """Refuse what is no epsilon."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)) or not 0 <= epsilon < math.inf:
        raise BadInput(f"epsilon={epsilon}", "it must be a finite number from 0", "Give what a person may lose")


def outputs(k: int, beta: float, others: int, *, counts: bool = False) -> tuple[NDArray[np.float64], ...]:
    """What is seen of one value that ``others`` units have: with the unit (one more), and without it.

    Probabilities of not shown, then of shown; with ``counts``, of each count from k on. For tests and explanations.
    """
    from scipy import special

    def seen(units: int) -> NDArray[np.float64]:
        if units < k:
            return np.array([1.0, 0.0])
        hidden, shown = (of(k, units - k + 1, beta) for of in (special.betaincc, special.betainc))
        if not counts:
            return np.array([hidden, shown])
        fell = np.arange(k, units + 1)
        logs = special.gammaln(units + 1) - special.gammaln(fell + 1) - special.gammaln(units - fell + 1)
        return np.concatenate([[hidden], np.exp(logs + fell * np.log(beta) + (units - fell) * np.log1p(-beta))])

    with_it, without = seen(others + 1), seen(others)
    return with_it, np.concatenate([without, np.zeros(with_it.size - without.size)])


LEAST_BETA = 1e-9
_DIGITS = 4
"""Of a beta that is found: a part in 10^4 more would show nothing more."""


@dataclass(frozen=True, kw_only=True)
class GateSetting:
    """A setting of the gate, and a guarantee that it keeps."""

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
) -> GateSetting:
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
    return GateSetting(k=k, beta=beta, values=values, epsilon=epsilon, delta=delta)


def _given(value: float | None) -> float:
    assert value is not None  # only one is missing
    return value


def largest_beta(epsilon: float, delta: float, k: int, values: int = 1) -> float:
    """The largest coin, to `_DIGITS` digits, with which k keeps the guarantee."""

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
    """The smallest number of units with which ``beta`` keeps the guarantee."""

    def fits(k: int) -> bool:
        return Profile(k=k, beta=beta, values=values).meets(epsilon, delta)

    low, high = 0, 1
    while not fits(high):
        if high >= MOST_K:
            raise BadInput(
                f"a k for beta={beta} at epsilon={epsilon}, delta={delta}", f"even k={MOST_K} is too few", "Lower beta"
            )
        low, high = high, min(MOST_K, 2 * high)
    return low + 1 + bisect_left(range(low + 1, high), True, key=fits)


def nearest(profile: Profile, epsilon: float, delta: float) -> dict[str, str]:
    """What would keep (epsilon, delta) if one number of ``profile`` were another; and what it does keep."""
    alternatives: dict[str, str] = {}
    with suppress(BadInput):
        alternatives["beta"] = f"{largest_beta(epsilon, delta, profile.k, profile.values):.9g}"
    with suppress(BadInput):
        alternatives["k"] = str(smallest_k(epsilon, delta, profile.beta, profile.values))
    reached, chance = profile.epsilon(delta), _up(profile.delta(epsilon))
    if math.isfinite(reached):
        alternatives["epsilon"] = f"{reached:.9g}"
    return alternatives | {"delta": f"{chance:.9g}"} if chance < 1 else alternatives
