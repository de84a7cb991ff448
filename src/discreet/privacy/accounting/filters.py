"""Adaptive mode: filters that let the next step depend on what came before.

PLD composition needs parameters fixed in advance; a filter does not. Two are offered.

`RdpFilter` (Feldman and Zrnic 2021): at orders A fixed beforehand, with delta shared out over them, spending goes on
while some order alpha still has  sum r_alpha <= eps - c_alpha(delta / |A|).  Proof for several orders: cut the
outputs by the order that is alive at the end; on each part the run equals the run of that order's own filter, which
is (eps, delta / |A|)-DP; the parts add up. One well-chosen order (`best_order`) costs nothing for the choice.

`BlockFilter`: blocks of (eps, delta), each committed before it starts, added up exactly.

Guarantee: `spend` raises `BudgetExceeded` before anything changes; whatever was accepted stays within the budget
however the events were chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from discreet.errors import BadInput, BudgetExceeded
from discreet.privacy.accounting.rdp import ORDERS, Array, RdpSpending, conversion, rdp_curve
from discreet.privacy.budget import (
    Budget,
    Number,
    divided_down,
    exact_decimal,
    exact_minus,
    exact_sum,
    float_below,
)
from discreet.privacy.events import Event

MOST_ORDER = 1e7


def best_order(event: Event, delta: float) -> float:
    """The order at which RDP prices ``event`` lowest: the one to fix for a filter that expects such events."""
    return float(ORDERS[int(np.argmin(rdp_curve(event) + conversion(delta)))])


def spread_orders(budget: Budget) -> tuple[float, ...]:
    """Around the order at which a Gaussian run that spends the whole budget is proven best, and half and twice that.

    With RDP rho alpha and the conversion L / (alpha - 1), L = log(1/delta), that run has eps = rho + 2 sqrt(rho L).
    """
    log = -math.log(float(budget.delta))
    rho = (math.sqrt(log + float(budget.epsilon)) - math.sqrt(log)) ** 2
    wanted = [1 + math.sqrt(log / rho) * factor for factor in (0.5, 1.0, 2.0)]
    return tuple(sorted({float(ORDERS[int(abs(ORDERS - order).argmin())]) for order in wanted}))


class RdpLimit:
    """The rule of an RDP filter, without its state: what a spending costs, and what it would cost after one event.

    A run of pure events is also stopped by its exact sum. That is one more order, infinity, whose share of delta is 0,
    so it costs the others nothing; at delta 0 it is the only one.
    """

    def __init__(self, budget: Budget, *, orders: Sequence[float]) -> None:
        if not all(1 < order <= MOST_ORDER for order in orders) or (not orders and budget.delta > 0):
            raise BadInput("an RDP filter", "it needs orders above 1, fixed beforehand", "Use best_order(...)")
        if budget.delta <= 0 and orders:
            raise BadInput("an RDP filter at delta=0", "RDP proves nothing there", "Give a delta above 0")
        if budget.relation != "zero-out":
            raise BadInput(f"an RDP filter under {budget.relation}", "its curves are for zero-out", "Use zero-out")
        self.budget = budget
        self.orders: Array = np.array(sorted(set(orders)), dtype=np.float64)
        # delta is shared out because the order alive at the end is chosen by what happened
        self._delta = float_below(divided_down(budget.delta, self.orders.size)) if orders else 0.0
        self.nothing = RdpSpending(np.zeros(self.orders.size))

    def supports(self, event: Event) -> bool:
        """Whether a spending with ``event`` in it could be proven anything of: a release gate has no divergence."""
        done = event.pure_epsilon() is not None
        return done or bool(np.isfinite(rdp_curve(event, self.orders)).any())

    def after(self, spent: RdpSpending, event: Event, count: int = 1) -> RdpSpending:
        """``spent`` and ``count`` of ``event``."""
        return spent.plus(event, count, self.orders)

    def epsilon(self, spent: RdpSpending) -> Decimal:
        """What ``spent`` proves at each order's share of delta."""
        return spent.epsilon(self._delta, self.orders)

    def refusal(self, what: str, spent: RdpSpending, after: RdpSpending) -> BudgetExceeded | None:
        """Why ``after`` is too much, or None when it fits."""
        then, now = self.epsilon(after), self.epsilon(spent)
        if then <= self.budget.epsilon:
            return None
        return BudgetExceeded(
            what,
            requested=exact_minus(then, now),
            remaining=exact_minus(self.budget.epsilon, now),
            total=self.budget.epsilon,
        )


class RdpFilter:
    """An odometer with a lock: spends RDP at fixed orders until no order has room."""

    def __init__(self, budget: Budget, *, orders: Sequence[float]) -> None:
        self.limit = RdpLimit(budget, orders=orders)
        self._spent = self.limit.nothing

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""
        return self.limit.budget

    @property
    def orders(self) -> Array:
        """The orders fixed beforehand."""
        return self.limit.orders

    @property
    def spent(self) -> Decimal:
        """Epsilon of what was accepted so far, rounded up: an odometer. The promise of a run that stops when its
        outputs say so is the whole budget, not this.
        """
        return self.limit.epsilon(self._spent)

    def admits(self, event: Event, count: int = 1) -> bool:
        """Whether ``count`` of ``event`` would fit. Changes nothing."""
        return self.limit.refusal("", self._spent, self.limit.after(self._spent, event, count)) is None

    def spend(self, event: Event, count: int = 1) -> None:
        """Accept ``count`` of ``event``, or raise and change nothing."""
        after = self.limit.after(self._spent, event, count)
        refusal = self.limit.refusal(f"spending {count} x {event.kind}", self._spent, after)
        if refusal:
            raise refusal
        self._spent = after


class BlockFilter:
    """(epsilon, delta) blocks added up exactly; each is fixed before it starts, the next may depend on it."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.epsilon, self.delta = Decimal(0), Decimal(0)

    def spend(self, *, epsilon: Number, delta: Number = 0) -> None:
        """Accept a block, or raise and change nothing."""
        eps, dlt = exact_decimal(epsilon, "a block's epsilon"), exact_decimal(delta, "a block's delta")
        if eps < 0 or dlt < 0:
            raise BadInput("a block", "its epsilon and delta cannot be negative", "Give 0 or more")
        left, left_delta = exact_minus(self.budget.epsilon, self.epsilon), exact_minus(self.budget.delta, self.delta)
        if eps > left or dlt > left_delta:
            short = "a block" if eps > left else f"a block (delta {dlt}, of which {left_delta} remains)"
            raise BudgetExceeded(short, requested=eps, remaining=left, total=self.budget.epsilon)
        self.epsilon, self.delta = exact_sum((self.epsilon, eps)), exact_sum((self.delta, dlt))
