"""Noise calibration: the least noise that keeps a budget. Searches end on the side that keeps the guarantee."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from decimal import Decimal

from discreet.errors import BadInput
from discreet.privacy.budget import Accountant, float_below
from discreet.privacy.events import BlockEvent, Composed, Event, Gaussian, PoissonSampledGaussian
from discreet.privacy.trajectories import block_epsilon


def least_noise(
    cost: Callable[[float], float], target: float, *, start: float, tolerance: float, smallest: float, largest: float
) -> float | None:
    """Smallest x in [smallest, largest] with ``cost(x) <= target``, for a cost that falls as x grows.

    The result always satisfies ``cost(x) <= target``; where cost is continuous it is within ``tolerance`` (relative)
    of the target. None when even ``largest`` costs too much; ``smallest`` where that costs less already.
    Secant steps in log x against log cost, kept inside a bracket.
    """
    safe, unsafe = _bracket(cost, target, min(max(start, smallest), largest), smallest, largest)
    if safe is None:
        return None
    in_a_row = 0  # updates of the same end; after two the secant is lopsided and the middle is taken
    for _ in range(200):
        (x_safe, c_safe), (x_unsafe, c_unsafe) = safe, unsafe
        if c_safe >= target * (1 - tolerance) or x_unsafe >= x_safe * (1 - 1e-13):
            break
        if abs(in_a_row) >= 2:
            x, in_a_row = math.sqrt(x_safe * x_unsafe), 0
        else:
            x = _secant(x_unsafe, c_unsafe, x_safe, c_safe, target * (1 - tolerance / 2))
        value = cost(x)
        if value <= target:
            safe, in_a_row = (x, value), max(in_a_row, 0) + 1
        else:
            unsafe, in_a_row = (x, value), min(in_a_row, 0) - 1
    return safe[0]


def least_gaussian(
    price: Callable[[Event], float],
    epsilon: float,
    *,
    rate: float = 1.0,
    tolerance: float = 1e-3,
    limits: tuple[float, float] = (1e-2, 1e5),
) -> Event | None:
    """The Gaussian release (of a Poisson sample, if ``rate`` is below 1) with least noise that is priced at ``epsilon``
    or less; None, if no noise multiplier within ``limits`` is enough.

    ``price``: epsilon of all that is to be done with such an event.
    """

    def event(sigma: float) -> Event:
        if rate == 1:
            return Gaussian(noise_multiplier=sigma)
        return PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=sigma)

    least, largest = limits
    sigma = least_noise(
        lambda s: price(event(s)), epsilon, start=2.0, tolerance=tolerance, smallest=least, largest=largest
    )
    return None if sigma is None else event(sigma)


@functools.lru_cache(maxsize=256)
def gaussian_query(
    epsilon: Decimal,
    delta: Decimal,
    queries: int,
    *,
    rate: float = 1.0,
    accountant: Accountant = "pld",
    tolerance: float = 1e-3,
) -> Event:
    """The Gaussian query (of a Poisson sample, if ``rate`` is below 1) with least noise of which ``queries`` cost
    ``epsilon`` at ``delta``, by the accountant, in both directions.
    """

    def price(query: Event) -> float:
        block = BlockEvent(event=Composed(events=(query,) * queries), epsilon=epsilon, delta=delta)
        return block_epsilon(block, by_pld=accountant == "pld")

    query = least_gaussian(price, float_below(epsilon), rate=rate, tolerance=tolerance)
    if query is None:
        fact = "no sensible noise is that large"
        raise BadInput(f"Gaussian selections for epsilon={epsilon} at delta={delta}", fact, "Give more")
    return query


Point = tuple[float, float]


def _bracket(
    cost: Callable[[float], float], target: float, x: float, least: float, largest: float
) -> tuple[Point | None, Point]:
    value = cost(x)
    factor = 1.15
    if value <= target:
        safe: Point = (x, value)
        while True:
            if x <= least:
                return safe, (least, value)
            x = max(least, x / factor)
            value = cost(x)
            if value > target:
                return safe, (x, value)
            safe, factor = (x, value), factor**1.5
    unsafe: Point = (x, value)
    while x < largest:
        x = min(largest, x * factor)
        value = cost(x)
        if value <= target:
            return (x, value), unsafe
        unsafe, factor = (x, value), factor**1.5
    return None, unsafe


def _secant(x0: float, c0: float, x1: float, c1: float, target: float) -> float:
    middle = math.sqrt(x0 * x1)
    if not (0 < c1 < c0 < math.inf):
        return middle
    share = math.log(c0 / target) / math.log(c0 / c1)
    x = x0 * (x1 / x0) ** share
    return x if x0 < x < x1 else middle
