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

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from discreet.errors import BadInput, BudgetExceeded
from discreet.privacy.accounting.rdp import ORDERS, conversion, epsilon_at, rdp_curve
from discreet.privacy.accounting.sampled_gaussian import Array
from discreet.privacy.budget import Budget
from discreet.privacy.events import Event, Repeated
from discreet.privacy.exact import Number, exact_decimal, exact_minus, float_below, rounded_up


def best_order(event: Event, delta: float) -> float:
    """The order at which RDP prices ``event`` lowest: the one to fix for a filter that expects such events."""
    return float(ORDERS[int(np.argmin(rdp_curve(event) + conversion(delta)))])


class RdpFilter:
    """An odometer with a lock: spends RDP at fixed orders until no order has room."""

    def __init__(self, budget: Budget, *, orders: Sequence[float]) -> None:
        if not orders or not all(order > 1 for order in orders):
            raise BadInput("an RDP filter", "it needs orders above 1, fixed beforehand", "Use best_order(...)")
        if budget.delta <= 0:
            raise BadInput("an RDP filter at delta=0", "RDP proves nothing there", "Give a delta above 0")
        if budget.relation != "zero-out":
            raise BadInput(f"an RDP filter under {budget.relation}", "its curves are for zero-out", "Use zero-out")
        self.budget = budget
        self.orders: Array = np.array(sorted(set(orders)), dtype=np.float64)
        # delta is shared out because the order alive at the end is chosen by what happened
        self._delta = float_below(budget.delta / self.orders.size)
        self._spent: Array = np.zeros(self.orders.size)

    @property
    def spent(self) -> Decimal:
        """Epsilon of what was accepted so far, rounded up: an odometer. The promise of a run that stops when its
        outputs say so is the whole budget, not this.
        """
        return self._epsilon(self._spent)

    def admits(self, event: Event, count: int = 1) -> bool:
        """Whether ``count`` of ``event`` would fit. Changes nothing."""
        return self._epsilon(self._after(event, count)) <= self.budget.epsilon

    def spend(self, event: Event, count: int = 1) -> None:
        """Accept ``count`` of ``event``, or raise and change nothing."""
        after = self._after(event, count)
        if self._epsilon(after) > self.budget.epsilon:
            raise BudgetExceeded(
                f"spending {count} x {event.kind}",
                requested=exact_minus(self._epsilon(after), self.spent),
                remaining=exact_minus(self.budget.epsilon, self.spent),
                total=self.budget.epsilon,
            )
        self._spent = after

    def _after(self, event: Event, count: int) -> Array:
        return np.asarray(self._spent + rdp_curve(Repeated(event=event, count=count), self.orders))

    def _epsilon(self, curve: Array) -> Decimal:
        epsilon = rounded_up(epsilon_at(curve, self._delta, self.orders))
        return Decimal(repr(epsilon)) if np.isfinite(epsilon) else Decimal("1e100")


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
        self.epsilon, self.delta = exact_minus(self.epsilon, -eps), exact_minus(self.delta, -dlt)
