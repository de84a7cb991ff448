"""What a ledger admits: the rule that prices a charge against the terms, and the rule of a re-planning.

Guarantee: `ChargeRule.weigh` changes nothing. It returns the balances after a charge, or raises `BudgetExceeded`. Each
step costs time in the number of paths and orders, never in the number of entries.

Guarantee of a re-planning (docs/proofs/replanning.md): the new terms are adaptive; their filter counts every charge
that was ever made, on paths that tell the past as the old ones did; its order follows from the terms that were there
before any data was touched, by one rule; epsilon and delta only grow, as `continued_budget` says. A line that breaks
one of these is refused when it is written and whenever it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from discreet.errors import BadInput, BudgetExceeded, UnsupportedEvent
from discreet.privacy.accounting.filters import RdpLimit
from discreet.privacy.accounting.rdp import ORDERS, UNBOUNDED, Array, RdpSpending, conversion, rdp_curve, rdp_epsilon
from discreet.privacy.budget import exact_minus, exact_sum, float_below, rounded_up
from discreet.privacy.events import BlockEvent, Event, Repeated, ThresholdResponse
from discreet.privacy.ledger.charges import MOST_PHASE, Charge, ChargeReason
from discreet.privacy.ledger.entries import Entry
from discreet.privacy.ledger.paths import Line, Path, PathReading, covers
from discreet.privacy.ledger.terms import Terms, continued_budget
from discreet.privacy.trajectories import Branch, Trajectory


@dataclass(frozen=True)
class PathTotal:
    """What one path was charged so far. ``forward`` and ``backward`` are losses before its branch (committed mode)."""

    spending: RdpSpending
    forward: Decimal = Decimal(0)
    backward: Decimal = Decimal(0)
    entries: int = 0
    begun: bool = False
    """Whether something of the block was charged: then all of it counts."""


@dataclass(frozen=True)
class Balances:
    """All paths, what is left of each committed line, and how far the phases have come."""

    totals: tuple[PathTotal, ...]
    left: dict[int, int]
    phase: int = 0
    trained: bool = False
    """Whether something that follows a choice was charged in this phase."""
    responded: frozenset[tuple[str, int]] = frozenset()
    """Groups and phases in which records were chosen, where terms were re-planned."""


class ChargeRule:
    """The filter of one ledger: prices a charge against its terms."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._limit = RdpLimit(terms.accounted, orders=terms.orders) if terms.mode == "adaptive" else None
        self._delta = float_below(terms.accounted.delta)
        block_delta = terms.apart.delta if terms.apart else Decimal(0)
        self._apart_delta = float_below(max(Decimal(0), exact_minus(terms.accounted.delta, block_delta)))
        self._lines: dict[tuple[str, int], list[int]] = {}
        for number, line in enumerate(terms.lines):
            self._lines.setdefault((line.who, line.phase), []).append(number)
        stays = [stay for path in terms.paths for stay in path.stays]
        self._chosen = not self._limit and any(stay.choice for stay in stays)
        self._ordered = any(stay.choice or stay.first > 0 or stay.last < MOST_PHASE for stay in stays)
        self._readings = {path.name: PathReading(path, terms.lines) for path in terms.paths}
        nothing = self._limit.nothing if self._limit else RdpSpending(np.zeros(ORDERS.size))
        self.start = Balances(tuple(PathTotal(nothing) for _ in terms.paths), {})

    def weigh(self, balances: Balances, charges: Iterable[Charge], why: ChargeReason) -> Balances:
        """The balances after ``charges``, or `BudgetExceeded`."""
        charges = tuple(charges)
        totals, left = list(balances.totals), dict(balances.left) if self.terms.lines else {}
        trained = self._in_order(balances, charges, why)
        touched: set[int] = set()
        for charge in charges:
            paths = self.terms.touched(charge.who, why.phase)
            if self._limit is None:
                self._take(left, charge, why)
            for number in paths:
                totals[number] = self._added(totals[number], self.terms.paths[number], charge, why.phase)
            touched |= set(paths)
        for number in touched:
            totals[number] = replace(totals[number], entries=balances.totals[number].entries + 1)
            if self._limit:
                what = f"{why.purpose} in phase {why.phase}, path {self.terms.paths[number].name}"
                self._check_filter(what, balances.totals[number], totals[number])
        responded = self._responded(balances, charges, why)
        return Balances(tuple(totals), left, max(balances.phase, why.phase), trained, responded)

    def _check_filter(self, what: str, before: PathTotal, after: PathTotal) -> None:
        then, now, limit = self.epsilon(after), self.epsilon(before), self.terms.budget.epsilon
        if then > limit:
            raise BudgetExceeded(
                what, requested=exact_minus(then, now), remaining=max(Decimal(0), exact_minus(limit, now)), total=limit
            )

    def _responded(
        self, balances: Balances, charges: tuple[Charge, ...], why: ChargeReason
    ) -> frozenset[tuple[str, int]]:
        """Where records were chosen so far; after a re-planning, once in a group and phase, and on a path for each
        outcome: else nobody could say what the outcome costs.
        """
        responded = balances.responded
        for charge in charges if self.terms.continued else ():
            if not isinstance(charge.event, ThresholdResponse):
                continue
            stays = [path.stay_of(charge.who, why.phase) for path in self.terms.paths]
            chosen = {stay.choice for stay in stays if stay and (stay.choice == "missed" or stay.last == why.phase)}
            if charge.count > 1 or (charge.who, why.phase) in responded or not {"asked", "missed"} <= chosen:
                raise BadInput(
                    f"a choice among {charge.who} in phase {why.phase}",
                    "there was one before, or no declared path says what being asked or missed costs",
                    "Choose once a phase, with a path for every outcome",
                )
            responded = responded | {(charge.who, why.phase)}
        return responded

    def _in_order(self, balances: Balances, charges: tuple[Charge, ...], why: ChargeReason) -> bool:
        """Whether something that follows a choice was charged in this phase; refuses what comes too late.

        Where paths are chosen, a path's price holds for what happens in the order of the phases, and within a phase
        for the choice before the training: an output that came earlier could decide the path.
        """
        if self._ordered and why.phase < balances.phase:
            raise BadInput(
                f"charging phase {why.phase} after phase {balances.phase}",
                "records have moved on, and their paths are priced in the order of the phases",
                "Charge phases in their order",
            )
        if not self._chosen:
            return False
        trained = balances.trained and why.phase == balances.phase
        follows = [self._follows(charge.who, why.phase) for charge in charges]
        alone = why.phase not in self.terms.streamed  # where records pass one by one, each is chosen before it teaches
        for position, (every, _) in enumerate(follows):
            others = follows[:position] + follows[position + 1 :] if alone else []
            if not every and (trained or any(some for _, some in others)):
                raise BadInput(
                    f"charging {charges[position].who} in phase {why.phase}",
                    "what follows the choices of this phase has begun, and they come before it",
                    "Choose first, by a charge of its own, then train",
                )
        return trained or any(some for _, some in follows)

    def _follows(self, who: str, phase: int) -> tuple[bool, bool]:
        """Whether a charge follows the last branch of every path it touches, and of some."""
        paths = [self.terms.paths[number] for number in self.terms.touched(who, phase)]
        after = [self._readings[path.name].composes(who, phase) for path in paths]
        return all(after), any(after)

    def _take(self, left: dict[int, int], charge: Charge, why: ChargeReason) -> None:
        """Use up committed lines that cover ``charge``: equal ones first, then the cheapest."""
        lines = self.terms.lines
        fitting = [n for n in self._lines.get((charge.who, why.phase), []) if covers(lines[n].event, charge.event)]
        if len(fitting) > 1:
            fitting.sort(key=lambda n: (lines[n].event != charge.event, self.alone(lines[n].event, 1)))
        rests = {number: left.get(number, lines[number].count) for number in fitting}
        wanted = charge.count
        if sum(rests.values()) >= wanted:
            for number, rest in rests.items():
                left[number] = rest - min(rest, wanted)
                wanted -= min(rest, wanted)
            return
        remaining = max((self.alone(lines[n].event, rest) for n, rest in rests.items()), default=Decimal(0))
        raise BudgetExceeded(
            f"{why.purpose}, {charge.count} x {charge.event.kind} to {charge.who} in phase {why.phase}",
            requested=self.alone(charge.event, charge.count),
            remaining=remaining,
            total=self.terms.budget.epsilon,
            reason="the ledger is not committed to that"
            if not remaining
            else "more than is left of what was committed",
        )

    def _added(self, total: PathTotal, path: Path, charge: Charge, phase: int) -> PathTotal:
        if self._limit:
            return self._filtered(total, path, charge, phase)
        reading = self._readings[path.name]
        if reading.composes(charge.who, phase):
            return replace(total, spending=total.spending.plus(charge.event, charge.count, ORDERS))
        line = Line(who=charge.who, phase=phase, event=charge.event, count=charge.count)
        apart = self.terms.apart
        if apart is None or charge.event.pure_epsilon() is not None:
            branches = list(reading.branches(line))
        else:
            branches = [] if total.begun else [Branch(event=apart)]
            total = replace(total, begun=True)
        return replace(
            total,
            forward=exact_sum((total.forward, *(branch.forward for branch in branches))),
            backward=exact_sum((total.backward, *(branch.backward for branch in branches))),
        )

    def _filtered(self, total: PathTotal, path: Path, charge: Charge, phase: int) -> PathTotal:
        """By the filter. After a re-planning a choice costs what its outcome on this path loses, each way by itself."""
        assert self._limit is not None
        stay = path.stay_of(charge.who, phase)
        by_outcome = self.terms.continued and stay and stay.choice in ("asked", "asked-below", "missed")
        if not by_outcome or not isinstance(charge.event, ThresholdResponse):
            after = self._limit.after(total.spending, charge.event, charge.count)
            self._check_supported(after, charge.event)
            return replace(total, spending=after)
        line = Line(who=charge.who, phase=phase, event=charge.event, count=charge.count)
        (branch,) = self._readings[path.name].branches(line)
        return replace(
            total,
            forward=exact_sum((total.forward, branch.forward)),
            backward=exact_sum((total.backward, branch.backward)),
        )

    def _check_supported(self, after: RdpSpending, event: Event) -> None:
        assert self._limit is not None
        if self._limit.orders.size and not np.isfinite(after.curve).any() and not self._limit.supports(event):
            raise BadInput(
                f"charging a {event.kind} event to an adaptive ledger",
                "its filter adds up Rényi divergences, and this has none that is finite",
                "Charge it to a ledger that is committed to it, by PLD",
            )

    def epsilon(self, total: PathTotal) -> Decimal:
        """An odometer: epsilon of what a path was charged so far, rounded up.

        Where Rényi divergences prove nothing, as of a release gate, it is what the committed lines were certified at.
        """
        if self._limit:
            return exact_sum((max(total.forward, total.backward), self._limit.epsilon(total.spending)))
        composed = total.spending.epsilon(self._apart_delta if total.begun else self._delta, ORDERS)
        if composed >= UNBOUNDED:
            return self.terms.budget.epsilon
        return exact_sum((max(total.forward, total.backward), composed))

    def alone(self, event: Event, count: int) -> Decimal:
        """Epsilon of ``count`` times ``event`` by itself, at the budget's delta."""
        if count == 0:
            return Decimal(0)
        done = Repeated(event=event, count=count)
        pure = done.pure_epsilon()
        try:
            by_rdp = rounded_up(rdp_epsilon(done, self._delta))
        except UnsupportedEvent:
            by_rdp = float("inf")
        epsilon = Decimal(repr(by_rdp)) if np.isfinite(by_rdp) else UNBOUNDED
        return epsilon if pure is None else min(epsilon, pure)

    def lines_left(self, balances: Balances) -> list[tuple[Line, int]]:
        """Committed lines with how much of each is left."""
        return [(line, balances.left.get(n, line.count)) for n, line in enumerate(self.terms.lines)]

    def remaining(self, total: PathTotal) -> Decimal:
        """The budget less the odometer; never below 0."""
        return max(Decimal(0), exact_minus(self.terms.budget.epsilon, self.epsilon(total)))


_NEAR = 1e-6
"""How far (relative) an order's price may be from the best one's: other machines round the last digits otherwise."""


def filter_order(terms: Terms, epsilon: Decimal) -> float:
    """The order of the filter that ``terms`` go on under, if they are re-planned with ``epsilon``.

    Fixed before data is touched, as a filter needs: a function of the committed terms and the new promise alone. It is
    the order that prices the dearest committed path lowest when its events are scaled until they cost ``epsilon``.
    """
    return float(ORDERS[int(np.argmin(_prices(terms, epsilon)))])


def _prices(terms: Terms, epsilon: Decimal) -> Array:
    added, target = conversion(float_below(terms.accounted.delta)), float(epsilon)
    paths = [loss_and_curve for loss_and_curve in map(_curve, terms.trajectories()) if loss_and_curve[1].any()]
    if not paths:
        raise BadInput("re-planning a ledger", "none of its paths is guarded by a Renyi order", "Create a new ledger")
    loss, curve = max(paths, key=lambda loss_and_curve: loss_and_curve[0] + float(np.min(loss_and_curve[1] + added)))
    low, high = 0.0, 1.0
    while loss + float(np.min(high * curve + added)) < target and high < 1e9:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if loss + float(np.min(middle * curve + added)) < target else (low, middle)
    return np.asarray(high * curve + added)


def _curve(path: Trajectory) -> tuple[float, Array]:
    """The losses of being asked or missed, and the Rényi sums of everything else."""
    forward, backward, curve = Decimal(0), Decimal(0), np.zeros(ORDERS.size)
    for branch in path.selection:
        if isinstance(branch.event, ThresholdResponse):
            forward, backward = forward + branch.forward, backward + branch.backward
        else:
            curve = curve + rdp_curve(branch.event.event if isinstance(branch.event, BlockEvent) else branch.event)
    return float(max(forward, backward)), np.asarray(curve + rdp_curve(path.trained))


def check_amendment(first: Terms, before: Terms, after: Terms, entries: Sequence[Entry]) -> None:
    """Raise `BadInput` unless ``after`` may follow ``before``. ``first``: the terms the ledger began with."""
    if before.mode == "committed" and (before.overflow or before.apart):
        kind = "a hidden selection" if before.overflow else "selections priced apart"
        raise BadInput(
            f"re-planning {kind}",
            "its claim keeps a part of delta for queries that were committed together",
            "Finish the plan, or stop: the claim stays as it is",
        )
    if first.mode != "committed" or after.continued is None or after.mode != "adaptive":
        raise BadInput("re-planning a ledger", "it goes from committed to adaptive mode, once", "Use continued terms")
    leaves = before.mode == "committed"
    budget, kept_delta = continued_budget(before.budget, after.budget.epsilon, after.continued.because, first=leaves)
    kept_delta = kept_delta if leaves or before.continued is None else before.continued.kept
    if after.budget != budget or after.continued.kept != kept_delta:
        raise BadInput("re-planning a ledger", "its delta does not follow from what was promised", "Plan it again")
    if leaves and len(after.orders) == 1:
        prices = _prices(first, after.budget.epsilon)
        chosen_price = prices[after.orders[0] == ORDERS]
        fits = chosen_price.size == 1 and bool(
            chosen_price[0] <= prices.min() + _NEAR * max(1.0, abs(float(prices.min())))
        )
    else:
        fits = not leaves and after.orders == before.orders
    if not fits:
        raise BadInput("re-planning a ledger", "its order is not the one that was fixed beforehand", "Plan it again")
    _check_histories(before.paths, after.paths, entries)


def _check_histories(before: Iterable[Path], after: Sequence[Path], entries: Sequence[Entry]) -> None:
    """Every way a record can have gone so far must be told by some new path, charge by charge, or one would be free."""
    charges = [(entry.why.phase, charge) for entry in entries for charge in entry.charges]
    histories = {_history(path, charges) for path in after}
    if any(_history(path, charges) not in histories for path in before):
        raise BadInput(
            "re-planning a ledger", "its paths forget what some records were charged", "Declare every path so far"
        )


def _history(path: Path, charges: Iterable[tuple[int, Charge]]) -> tuple[str, ...]:
    return tuple(_happened(path, charge.who, phase) for phase, charge in charges)


def _happened(path: Path, who: str, phase: int) -> str:
    stay = path.stay_of(who, phase)
    if stay is None:
        return ""
    if stay.choice in ("asked", "asked-below") and phase < stay.last:
        return "missed"
    return stay.choice or "open"
