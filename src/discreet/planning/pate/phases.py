"""The price of teachers' answers over the phases of a campaign: what each phase may ask is fixed beforehand.

A campaign asks in phases, and its ledger is committed to lines of each. Phase j asks q_j questions:

    noisy maximum     q_j answers
    confident         q_j checks, and at most a share of them answered
    sparse vector     q_j questions, of which T_j may be unstable; after the last of them the rest has no answer. An
                      epoch ends with its phase, so that nothing hidden is carried on; the chance of a mistake is one
                      for all

Guarantee: the lines together are the charges of one `VotePrice` for sum q_j questions, and keep what it keeps.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from discreet.errors import BadInput
from discreet.planning.pate.pricing import (
    WHO,
    ConfidentPrice,
    NoisyMaxPrice,
    StablePrice,
    VotePrice,
    price_answers,
)
from discreet.planning.pate.vote_noise import EventCount
from discreet.privacy.budget import Budget
from discreet.privacy.event_forms import from_json, to_json
from discreet.privacy.ledger import Line, Terms, committed

FORMAT = "discreet.teachers-plan/1"
ANSWERED_SHARE = 0.5
_KINDS: dict[str, type[VotePrice]] = {cls.kind: cls for cls in (NoisyMaxPrice, ConfidentPrice, StablePrice)}


@dataclass(frozen=True, kw_only=True)
class TeacherPlan:
    """Questions by phase, and what all of them cost. Audience: public.

    queries   how many questions each phase asks, at most
    heard     of a confident vote: how many of them are answered, at most
    unstable  of a sparse vector: how many of them may be unstable
    """

    price: VotePrice
    queries: tuple[int, ...]
    heard: tuple[int, ...] = ()
    unstable: tuple[int, ...] = ()

    def part(self, phase: int) -> VotePrice:
        """What one phase may ask, and its charges."""
        price, asked = self.price, self.queries[phase]
        if isinstance(price, ConfidentPrice):
            (check, _), (event, _) = price.charges
            heard = self.heard[phase]
            return replace(price, checks=asked, answers=heard, charges=((check, asked), (event, heard)))
        if isinstance(price, StablePrice):
            (epoch, _), (mistake, _) = price.charges
            allowed = self.unstable[phase]
            charges: tuple[EventCount, ...] = ((epoch, allowed), (mistake, 1 if phase == 0 else 0))
            return replace(price, answers=asked, unstable=allowed, charges=charges)
        event, count = price.charges[0]
        return replace(price, answers=asked, charges=((event, count // price.answers * asked),))

    def terms(self, who: str = WHO) -> Terms:
        """What a ledger commits to: lines of every phase."""
        lines = [
            Line(who=who, phase=phase, event=event, count=count)
            for phase in range(len(self.queries))
            for event, count in self.part(phase).charges
            if count
        ]
        return committed(self.price.budget, lines, plan=self.digest())

    def digest(self) -> str:
        """Names the plan."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        price = self.price
        values = {field.name: getattr(price, field.name) for field in fields(price)}
        values |= {
            "budget": price.budget.to_json(),
            "charges": [{"event": to_json(event), "count": count} for event, count in price.charges],
        }
        return {
            "format": FORMAT,
            "kind": price.kind,
            "price": values,
            "queries": list(self.queries),
            "heard": list(self.heard),
            "unstable": list(self.unstable),
        }

    @classmethod
    def from_json(cls, form: Any) -> Self:
        """The inverse of `to_json`."""
        try:
            if form["format"] != FORMAT:
                raise KeyError
            values = dict(form["price"])
            charges = tuple((from_json(item["event"]), int(item["count"])) for item in values["charges"])
            price = _KINDS[form["kind"]](**values | {"budget": Budget.from_json(values["budget"]), "charges": charges})
            counts = {name: tuple(int(item) for item in form[name]) for name in ("queries", "heard", "unstable")}
            return cls(price=price, **counts)
        except (KeyError, TypeError, ValueError) as problem:
            if isinstance(problem, BadInput):
                raise
            raise BadInput("a plan of teachers", "it is not in its form", "Restore the store") from None


def plan_answers(
    aggregator: str,
    *,
    budget: Budget,
    teachers: int,
    classes: int,
    queries: tuple[int, ...],
    options: Mapping[str, Any] | None = None,
) -> TeacherPlan:
    """The plan that spends ``budget`` on these queries.

    options   unstable: of a sparse vector, how many a phase; answered_share, check_share, confident_share: of a
              confident vote
    """
    extra = dict(options or {})
    total = sum(queries)
    shape: dict[str, Any] = {"budget": budget, "teachers": teachers, "classes": classes}
    if aggregator == "confident":
        share = extra.pop("answered_share", ANSWERED_SHARE)
        heard = tuple(max(1, math.ceil(share * size)) for size in queries)
        price = price_answers(aggregator, **shape, answers=sum(heard), checks=total, **extra)
        return TeacherPlan(price=price, queries=queries, heard=heard)
    if aggregator.startswith("sparse"):
        each = tuple(min(extra["unstable"], size) for size in queries)
        price = price_answers(aggregator, **shape, answers=total, unstable=sum(each))
        return TeacherPlan(price=price, queries=queries, unstable=each)
    return TeacherPlan(price=price_answers(aggregator, **shape, answers=total), queries=queries)
