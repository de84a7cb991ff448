"""What a ledger promises, fixed before its first entry.

*Committed*: every charge that may ever be made is listed, and the claim is the worst path through that list, certified
when the ledger is created. A charge must be one of the lines, or one that costs no more (a rate may only fall, noise
only rise). Stopping early still claims the whole list.

*Adaptive*: charges may depend on what was released before. An RDP filter at orders fixed here guards every path, and
the exact sum guards runs of pure events; the claim is the whole budget. Committed terms that were re-planned go on so
(`continued`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal

from discreet.errors import BadInput, BudgetExceeded, DiscreetError, InvalidLedger
from discreet.privacy.accounting.filters import UNBOUNDED, RdpLimit, best_order
from discreet.privacy.accounting.rdp import ORDERS
from discreet.privacy.budget import Budget
from discreet.privacy.event_forms import flatten, from_json, to_json
from discreet.privacy.events import Block, Event, ThresholdResponse
from discreet.privacy.exact import exact_decimal, exact_minus, json_number
from discreet.privacy.ledger.continued import Continued
from discreet.privacy.ledger.entries import BROKEN, Charge, Why, canonical
from discreet.privacy.ledger.paths import ANYONE, EVERYONE, Line, Path, Reading, trajectory_of
from discreet.privacy.plan import Accountant, Plan
from discreet.privacy.release_dates import release_date, release_dates
from discreet.privacy.trajectories import Trajectory

Mode = Literal["committed", "adaptive"]
OVERFLOW, RELEASES, APART, CONTINUED, STREAMED = "overflow", "releases", "apart", "continued", "streamed"
KEYS = {"mode", "budget", "accountant", "paths", "lines", "orders", "plan"}


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The promise of a ledger: a budget, the paths of a record, and committed lines or a filter's orders.

    ``overflow``: the part of delta that a hidden selection keeps for its slots; above 0, asked sets are not released
    (docs/proofs/hidden-selection.md), and the promise is about what is.
    ``releases``: of a hidden selection, the planned release date of each phase; none: time is not covered.
    ``apart``: the block that all committed lines before a branch make which are not pure (docs/proofs/apart.md).
    ``continued``: of terms that follow committed ones in the same ledger (docs/proofs/replanning.md).
    ``streamed``: phases in which records pass one by one, each asked or missed before it teaches: there one entry
    charges the choice and what follows it (docs/proofs/streams.md).
    """

    mode: Mode
    budget: Budget
    accountant: Accountant
    paths: tuple[Path, ...] = EVERYONE
    lines: tuple[Line, ...] = ()
    orders: tuple[float, ...] = ()
    plan: str = ""
    overflow: Decimal = Decimal(0)
    releases: tuple[date, ...] = ()
    apart: Block | None = None
    continued: Continued | None = None
    streamed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.budget.relation != "zero-out":
            raise BadInput(f"a ledger under {self.budget.relation}", "its proofs are for zero-out", "Use zero-out")
        names = [path.name for path in self.paths]
        if not names or len(set(names)) != len(names):
            raise BadInput("the paths of a ledger", "there are none, or two share a name", "Name each path")
        if not 0 <= self.overflow <= self.budget.delta / 2 or (self.overflow and self.mode != "committed"):
            raise BadInput("the overflow of a ledger", "it is no part of a committed delta", "Make the terms of a plan")
        if self.releases and not self.overflow:
            raise BadInput("the release dates of a ledger", "they are for a hidden selection", "Leave them out")
        release_dates(self.releases, phases=self.phases)
        if self.streamed and (self.mode != "committed" or not {line.phase for line in self.lines} >= {*self.streamed}):
            raise BadInput("the streamed phases of a ledger", "nothing is committed there", "Use stream_terms")
        if self.mode == "committed" and self.continued is None:
            self._check_lines()
            self._check_apart()
        elif self.mode == "adaptive" and not self.lines and self.accountant == "rdp" and self.apart is None:
            RdpLimit(self.accounted, orders=self.orders)
        else:
            raise BadInput("the terms of a ledger", "their mode and parts do not fit", "Use committed() or adaptive()")

    def _check_lines(self) -> None:
        if not self.lines or self.orders:
            raise BadInput("committing to nothing", "a committed ledger lists its charges", "Give lines, or a plan")
        for line in self.lines:
            Charge(who=line.who, event=line.event, count=line.count)
            Why(phase=line.phase, purpose="check")
            self.touched(line.who, line.phase)
        _check_outcomes(self.paths, self.lines)

    def _check_apart(self) -> None:
        """A block is of exactly the lines before a branch that are not pure: one that is left out would be free."""
        if self.apart is None:
            return
        found: dict[Event, int] = {}
        readings = [Reading(path, self.lines) for path in self.paths]
        for line in self.lines:
            touched = [readings[place] for place in self.touched(line.who, line.phase)]
            before = not all(reading.composes(line.who, line.phase) for reading in touched)
            if line.event.pure_epsilon() is None and before:
                found[line.event] = found.get(line.event, 0) + line.count
        claimed: dict[Event, int] = {}
        for event, count in flatten(self.apart.event):
            claimed[event] = claimed.get(event, 0) + count
        if found != claimed:
            raise BadInput(
                "a block of a ledger", "it is not of the lines before a branch that are not pure", "Use terms_of(plan)"
            )

    def touched(self, who: str, phase: int) -> tuple[int, ...]:
        """Positions of the paths that a charge to ``who`` in ``phase`` touches; refuses one that touches none."""
        found = tuple(i for i, path in enumerate(self.paths) if path.stay_of(who, phase))
        if not found:
            raise BadInput(
                f"charging {who} in phase {phase}",
                "no declared path of a record is there then",
                f"Charge one of {', '.join(sorted(self.groups))}",
            )
        return found

    @property
    def accounted(self) -> Budget:
        """What paths are priced at: the budget, less the overflow, or less what a claim keeps that was left."""
        return self.budget.keeping(self.overflow if self.continued is None else self.continued.kept)

    @property
    def phases(self) -> int:
        """The number of committed phases; 0 where charges are not committed."""
        return max((line.phase + 1 for line in self.lines), default=0)

    @property
    def groups(self) -> set[str]:
        """The groups some path stays in."""
        named = {stay.who for path in self.paths for stay in path.stays}
        return {"any group"} if ANYONE in named else named

    def trajectories(self, lines: Iterable[Line] | None = None) -> tuple[Trajectory, ...]:
        """Every path under ``lines`` (the committed ones by default), not yet priced."""
        found = tuple(self.lines if lines is None else lines)
        return tuple(trajectory_of(path, found, self.apart) for path in self.paths)

    def check_claim(self) -> None:
        """Raise `BudgetExceeded` unless every committed path keeps the promise, by the terms' accountant."""
        if self.mode == "adaptive":
            return
        budget = self.accounted
        for path in self.trajectories():
            needed = cost_of(path, budget, by_pld=self.accountant == "pld")
            if needed > budget.epsilon:
                raise BudgetExceeded(
                    f"committing path {path.name}",
                    requested=needed,
                    remaining=budget.epsilon,
                    total=budget.epsilon,
                    reason=f"over by {exact_minus(needed, budget.epsilon):.6g}",
                )

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value."""
        form: dict[str, Any] = {
            "mode": self.mode,
            "budget": self.budget.to_json(),
            "accountant": self.accountant,
            "paths": [path.to_json() for path in self.paths],
            "lines": [[line.who, line.phase, to_json(line.event), line.count] for line in self.lines],
            "orders": list(self.orders),
            "plan": self.plan,
        }
        if self.overflow:
            form[OVERFLOW] = json_number(self.overflow)
        if self.releases:
            form[RELEASES] = [day.isoformat() for day in self.releases]
        if self.continued is not None:
            form[CONTINUED] = self.continued.to_json()
        if self.streamed:
            form[STREAMED] = list(self.streamed)
        return form if self.apart is None else form | {APART: to_json(self.apart)}

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> Terms:
        """The inverse of `to_json`: strict, and any part that no ledger could have is `InvalidLedger`."""
        try:
            terms = _read(cls, form)
        except InvalidLedger:
            raise
        except DiscreetError as error:
            raise InvalidLedger("reading a ledger's terms", error.fact, BROKEN) from None
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError):
            raise InvalidLedger("reading a ledger's terms", "a part is missing or of the wrong type", BROKEN) from None
        if canonical(terms.to_json()) != canonical(form):
            raise InvalidLedger("reading a ledger's terms", "they are not in the one form we write", BROKEN)
        return terms


def _check_outcomes(paths: Sequence[Path], lines: Sequence[Line]) -> None:
    """A claim is the worst of *all* paths: for every path, and every choice on it, there must be a path that went the
    same way until then and the other way there. And a response that decides between paths never composes with what
    follows it (docs/proofs/trajectories.md): each stay it touches says how it was chosen.
    """
    occasions = sorted({(line.phase, line.who) for line in lines})
    histories = {path.name: [_outcome(path, who, phase) for phase, who in occasions] for path in paths}
    for line in lines:
        stays = [stay for stay in (path.stay_of(line.who, line.phase) for path in paths) if stay is not None]
        if isinstance(line.event, ThresholdResponse) and len(paths) > 1 and any(s.choice is None for s in stays):
            raise BadInput(
                f"a choice among {line.who} in phase {line.phase}",
                "a path that stays there does not say how it was chosen",
                "Give its stay a choice: asked, asked-below or missed",
            )
    for name, history in histories.items():
        for place, outcome in enumerate(history):
            for needed in _OTHERS.get(outcome, ()):
                if not any(other[: place + 1] == [*history[:place], needed] for other in histories.values()):
                    phase, who = occasions[place]
                    raise BadInput(
                        f"a choice among {who} in phase {phase}",
                        f"no declared path goes the way of {name} until then and is {needed} there",
                        "Declare a path for every outcome: the one left out could be the worst",
                    )


_OTHERS: dict[str, tuple[str, ...]] = {"asked": ("missed",), "asked-below": ("asked", "missed"), "missed": ("asked",)}


def _outcome(path: Path, who: str, phase: int) -> str:
    """What a choice among ``who`` in ``phase`` did to ``path``: nothing, or asked, asked-below, missed."""
    stay = path.stay_of(who, phase)
    if stay is None or stay.choice in (None, "touched"):
        return ""
    return "missed" if stay.choice == "missed" or phase < stay.last else str(stay.choice)


def _read(cls: type[Terms], form: dict[str, Any]) -> Terms:
    if (
        set(form) - {OVERFLOW, RELEASES, APART, CONTINUED, STREAMED} != KEYS
        or form["accountant"] not in ("pld", "rdp")
        or not isinstance(form["plan"], str)
    ):
        raise InvalidLedger("reading a ledger's terms", "their keys are not the expected ones", BROKEN)
    if not all(type(order) is float for order in form["orders"]):
        raise InvalidLedger("reading a ledger's terms", "an order is not a number", BROKEN)
    if not all(type(phase) is int for phase in form.get(STREAMED, [])):
        raise InvalidLedger("reading a ledger's terms", "a streamed phase is not a whole number", BROKEN)
    apart = from_json(form[APART]) if APART in form else None
    if not (apart is None or isinstance(apart, Block)):
        raise InvalidLedger("reading a ledger's terms", "what is apart is not a block", BROKEN)
    return cls(
        mode=form["mode"],
        budget=Budget.from_json(form["budget"]),
        accountant=form["accountant"],
        paths=tuple(Path.from_json(path) for path in form["paths"]),
        lines=tuple(
            Line(who=who, phase=phase, event=from_json(event), count=count)
            for who, phase, event, count in form["lines"]
        ),
        orders=tuple(form["orders"]),
        plan=form["plan"],
        overflow=exact_decimal(form.get(OVERFLOW, 0), OVERFLOW),
        releases=tuple(release_date(day) for day in form.get(RELEASES, ())),
        apart=apart,
        continued=Continued.from_json(form[CONTINUED]) if CONTINUED in form else None,
        streamed=tuple(form.get(STREAMED, ())),
    )


def cost_of(path: Trajectory, budget: Budget, *, by_pld: bool) -> Decimal:
    """What ``path`` costs by one accountant, at the budget's delta; exactly, where it is a sum of pure losses."""
    if not path.training and not path.blocks:
        return max(path.forward, path.backward)
    delta = float(budget.delta)
    claim = path.pld(delta, path.interval(float(budget.epsilon))) if by_pld else path.rdp(delta)
    return Decimal(repr(claim)) if math.isfinite(claim) else UNBOUNDED


def committed(
    budget: Budget,
    lines: Sequence[Line],
    *,
    paths: Sequence[Path] = EVERYONE,
    accountant: Accountant = "pld",
    plan: str = "",
    overflow: Decimal = Decimal(0),
    releases: Sequence[date] = (),
    apart: Block | None = None,
    streamed: Sequence[int] = (),
) -> Terms:
    """Terms that list every charge."""
    return Terms(
        mode="committed",
        budget=budget,
        accountant=accountant,
        paths=tuple(paths),
        lines=tuple(lines),
        plan=plan,
        overflow=overflow,
        releases=tuple(releases),
        apart=apart,
        streamed=tuple(streamed),
    )


def adaptive(
    budget: Budget,
    *,
    expect: Event | None = None,
    orders: Sequence[float] = (),
    paths: Sequence[Path] = EVERYONE,
) -> Terms:
    """Terms guarded by a filter. ``expect`` is a guess at all that will be spent: the order best for it is fixed.

    Without a guess three orders share delta. At delta 0 only pure events can be charged, and they add up.
    """
    if budget.delta == 0:
        chosen: tuple[float, ...] = ()
    elif orders:
        chosen = tuple(sorted({float(order) for order in orders}))
    elif expect is not None:
        chosen = (best_order(expect, float(budget.delta)),)
    else:
        chosen = _spread_orders(budget)
    return Terms(mode="adaptive", budget=budget, accountant="rdp", paths=tuple(paths), orders=chosen)


def _spread_orders(budget: Budget) -> tuple[float, ...]:
    """Around the order at which a Gaussian run that spends the whole budget is proven best, and half and twice that.

    With RDP rho alpha and the conversion L / (alpha - 1), L = log(1/delta), that run has eps = rho + 2 sqrt(rho L).
    """
    log = -math.log(float(budget.delta))
    rho = (math.sqrt(log + float(budget.epsilon)) - math.sqrt(log)) ** 2
    wanted = [1 + math.sqrt(log / rho) * factor for factor in (0.5, 1.0, 2.0)]
    return tuple(sorted({float(ORDERS[int(abs(ORDERS - order).argmin())]) for order in wanted}))


def plan_digest(plan: Plan) -> str:
    """The hash by which a ledger names the plan it executes."""
    return hashlib.sha256(canonical(plan.to_json())).hexdigest()
