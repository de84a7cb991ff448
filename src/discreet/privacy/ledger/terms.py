"""What a ledger promises, fixed before its first entry.

*Committed*: every charge that may ever be made is listed, and the claim is the worst path through that list, certified
when the ledger is created. A charge must be one of the lines, or one that costs no more (a rate may only fall, noise
only rise). Stopping early still claims the whole list.

*Adaptive*: charges may depend on what was released before. An RDP filter at orders fixed here guards every path, and
the exact sum guards runs of pure events; the claim is the whole budget.

Committed terms that were re-planned go on adaptively (`Continued`, docs/proofs/replanning.md). The reason is public and
part of the promise. *outside*: that the campaign is re-planned, and with what budget, would have been decided whatever
the records are and whatever was released. *released*: what was released decided it. Then the committed claim has to
hold where nobody re-planned, too, and keeps its delta for that. Private facts, such as how many answered, are no
reason: no claim covers them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal, get_args

from discreet.errors import BadInput, BudgetExceeded, DiscreetError, InvalidLedger
from discreet.privacy.accounting.filters import RdpLimit, best_order, spread_orders
from discreet.privacy.budget import Accountant, Budget, exact_decimal, exact_minus, exact_sum, json_number
from discreet.privacy.event_forms import flatten, from_json, to_json
from discreet.privacy.events import BlockEvent, Event
from discreet.privacy.ledger.charges import BROKEN, Charge, ChargeReason, canonical
from discreet.privacy.ledger.paths import ANYONE, EVERYONE, Line, Path, PathReading, check_outcomes, trajectory_of
from discreet.privacy.plan import Plan
from discreet.privacy.selection_terms import release_date, release_dates
from discreet.privacy.trajectories import Trajectory, cost_of

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
    apart: BlockEvent | None = None
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
            ChargeReason(phase=line.phase, purpose="check")
            self.touched(line.who, line.phase)
        check_outcomes(self.paths, self.lines)

    def _check_apart(self) -> None:
        """A block is of exactly the lines before a branch that are not pure: one that is left out would be free."""
        if self.apart is None:
            return
        impure: dict[Event, int] = {}
        readings = [PathReading(path, self.lines) for path in self.paths]
        for line in self.lines:
            touched = [readings[position] for position in self.touched(line.who, line.phase)]
            before = not all(reading.composes(line.who, line.phase) for reading in touched)
            if line.event.pure_epsilon() is None and before:
                impure[line.event] = impure.get(line.event, 0) + line.count
        claimed: dict[Event, int] = {}
        for event, count in flatten(self.apart.event):
            claimed[event] = claimed.get(event, 0) + count
        if impure != claimed:
            raise BadInput(
                "a block of a ledger", "it is not of the lines before a branch that are not pure", "Use terms_of(plan)"
            )

    def touched(self, who: str, phase: int) -> tuple[int, ...]:
        """Positions of the paths that a charge to ``who`` in ``phase`` touches; refuses one that touches none."""
        positions = tuple(i for i, path in enumerate(self.paths) if path.stay_of(who, phase))
        if not positions:
            raise BadInput(
                f"charging {who} in phase {phase}",
                "no declared path of a record is there then",
                f"Charge one of {', '.join(sorted(self.groups))}",
            )
        return positions

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
        charged = tuple(self.lines if lines is None else lines)
        return tuple(trajectory_of(path, charged, self.apart) for path in self.paths)

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
    if not (apart is None or isinstance(apart, BlockEvent)):
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


def committed(
    budget: Budget,
    lines: Sequence[Line],
    *,
    paths: Sequence[Path] = EVERYONE,
    accountant: Accountant = "pld",
    plan: str = "",
    overflow: Decimal = Decimal(0),
    releases: Sequence[date] = (),
    apart: BlockEvent | None = None,
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
        chosen = spread_orders(budget)
    return Terms(mode="adaptive", budget=budget, accountant="rdp", paths=tuple(paths), orders=chosen)


def plan_digest(plan: Plan) -> str:
    """The hash by which a ledger names the plan it executes."""
    return hashlib.sha256(canonical(plan.to_json())).hexdigest()


Because = Literal["outside", "released"]
_NOTE = re.compile(r"[A-Za-z0-9 ._:/+()*,-]{0,120}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Continued:
    """``note``: public words. ``kept``: the part of delta of the committed claim, where that may still be the one."""

    because: Because
    note: str = ""
    kept: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        if self.because not in get_args(Because):
            raise BadInput(
                f"re-planning because of {self.because}",
                "only reasons that do not depend on private facts are covered",
                "Give outside or released; for missing answers, train with --partial and keep the plan",
            )
        if not isinstance(self.note, str) or not _NOTE.fullmatch(self.note):
            raise BadInput(
                "the note of a re-planning",
                "it is public, and not a short plain text",
                "Use up to 120 letters, digits, spaces and ._:/+()*,-",
            )
        if not 0 <= self.kept < 1:
            raise BadInput("a re-planning", "what it keeps is no part of delta", "Use continued_budget")

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value."""
        return {"because": self.because, "note": self.note, "kept": json_number(self.kept)}

    @classmethod
    def from_json(cls, form: Any) -> Continued:
        """The inverse of `to_json`; strict about its keys."""
        if not isinstance(form, dict) or set(form) != {"because", "note", "kept"}:
            raise BadInput("a stored re-planning", "its keys are not the expected ones", "Restore the file")
        return cls(because=form["because"], note=form["note"], kept=exact_decimal(form["kept"], "kept"))


def continued_budget(before: Budget, epsilon: Decimal, because: Because, *, first: bool) -> tuple[Budget, Decimal]:
    """The promise after a re-planning, and what of its delta the committed claim keeps. ``first``: it leaves that.

    Refused: a smaller epsilon (a claim would be chosen by what came out), and a larger one because of what came out.
    """
    if epsilon < before.epsilon:
        raise BadInput(
            f"re-planning with epsilon {epsilon}",
            f"{before.epsilon} was promised, and stopping or changing early does not make a promise smaller",
            f"Give {before.epsilon} or more",
        )
    if because == "released" and epsilon != before.epsilon:
        raise BadInput(
            f"raising epsilon from {before.epsilon} to {epsilon} because of what was released",
            "a promise whose size the outputs choose is none",
            "Keep epsilon; or let somebody decide who does not look at results, and give --because outside",
        )
    kept_delta = before.delta if first and because == "released" else Decimal(0)
    delta = exact_sum((before.delta, kept_delta))
    return Budget(epsilon=epsilon, delta=delta, unit=before.unit, relation=before.relation), kept_delta
