"""Going on otherwise than planned: shown first, then taken as one step, in the ledger and the store at once.

Guarantee (docs/proofs/replanning.md): a re-planning reads the plan, the ledger and the wish, all public, and no answer.
It is written in one transaction, so a process that dies leaves the old plan or the new one; of two processes one wins,
and the other is told. The wish that was fulfilled last, said again before anything was charged, changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from discreet.campaign.sealed_steps import ledger_of, query_begun
from discreet.errors import BadInput, NotNow
from discreet.privacy.exact import Number, exact_decimal, json_number
from discreet.privacy.ledger import Ledger, Terms
from discreet.privacy.ledger.continued import Because, Continued
from discreet.storage import Transition

if TYPE_CHECKING:
    from discreet.campaign.campaign import Campaign
    from discreet.campaign.recipe import Recipe

FORMAT = "discreet.replan/1"
REPLANNED = "replanned-"
"""Kinds of the step, by their number: a phase may be re-planned more than once before it begins."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What an owner wants from the next phase on. All of it becomes public.

    epsilon   the new promise; None keeps it
    queries   sizes of the queries to come instead of the planned ones; empty: nobody is asked any more
    labels    instead of sizes: so many labels, shared out evenly over the queries that were planned
    add       sizes of further queries, behind these
    """

    because: Because
    note: str = ""
    epsilon: Decimal | None = None
    queries: tuple[int, ...] | None = None
    labels: int | None = None
    add: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        Continued(because=self.because, note=self.note)
        if self.queries is not None and self.labels is not None:
            raise BadInput("re-planning", "both queries and labels are given", "Give sizes, or a number of labels")
        for size in (*(self.queries or ()), *self.add):
            if type(size) is not int or size < 1:
                raise BadInput("re-planning", "the size of a query is not a whole number from 1", "Count again")
        if self.labels is not None and (type(self.labels) is not int or self.labels < 0):
            raise BadInput("re-planning", "the number of labels is not a whole number from 0", "Count again")
        if self.epsilon is None and self.queries is None and self.labels is None and not self.add:
            raise BadInput("re-planning", "nothing is to change", "Give --epsilon, --queries, --labels or --add-phases")

    def sizes(self, planned: Sequence[int]) -> tuple[int, ...]:
        """Of the queries to come, of which these were planned. Planned numbers, never counted ones."""
        if self.queries is not None:
            return (*self.queries, *self.add)
        if self.labels is None:
            return (*planned, *self.add)
        count = min(len(planned) or 1, self.labels)
        shared = [self.labels // count + (place < self.labels % count) for place in range(count)] if count else []
        return (*shared, *self.add)

    def to_json(self) -> dict[str, Any]:
        """For the store and ``--json``."""
        return {
            "because": self.because,
            "note": self.note,
            "epsilon": None if self.epsilon is None else json_number(self.epsilon),
            "queries": None if self.queries is None else list(self.queries),
            "labels": self.labels,
            "add": list(self.add),
        }


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """What a recipe makes of a wish: itself with another plan, the ledger's new terms, and both plans in figures."""

    recipe: Recipe
    terms: Terms
    plan: Mapping[str, Any] = field(repr=False)
    figures: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A re-planning that was not made yet, or (``made``) was. Audience: world.

    figures   both plans and every path in numbers, and what the change costs
    """

    wish: Wish
    phase: int
    made: bool
    simulation: bool
    figures: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Names it, so that what is made is what was shown."""
        form = {key: value for key, value in self.to_json().items() if key != "made"}
        return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """For ``--json`` and reports."""
        form = {"format": FORMAT, "simulation": self.simulation, "audience": "world", "made": self.made}
        return form | {"phase": self.phase, "wish": self.wish.to_json()} | dict(self.figures)


def wish_of(
    *,
    because: Any,
    note: str = "",
    epsilon: Number | None = None,
    queries: Iterable[int] | None = None,
    labels: int | None = None,
    add_phases: Iterable[int] = (),
) -> Wish:
    """A checked wish, in plain words."""
    return Wish(
        because=because,
        note=note,
        epsilon=None if epsilon is None else exact_decimal(epsilon, "epsilon"),
        queries=None if queries is None else tuple(queries),
        labels=labels,
        add=tuple(add_phases),
    )


def propose(campaign: Campaign, wish: Wish) -> Proposal:
    """What ``wish`` would cost and change. Changes nothing."""
    with ledger_of(campaign.store) as ledger:
        return _looked_at(campaign, wish, ledger)[0]


def replan(campaign: Campaign, wish: Wish, *, shown: str | None = None) -> tuple[Proposal, Recipe]:
    """Make it so, for whoever holds the campaign. ``shown``: the digest of the proposal that was agreed to."""
    store = campaign.store
    with ledger_of(store) as ledger:
        found, made = _looked_at(campaign, wish, ledger)
    if shown is not None and found.digest != shown:
        raise NotNow("re-planning", "the campaign went on since it was shown", "Look at it again, with --dry-run")
    if made is None:
        return found, campaign.recipe
    number = sum(one.kind.startswith(REPLANNED) for one in store.transitions()) + 1
    facts = {"plan": dict(made.plan), "wish": wish.to_json(), "figures": dict(made.figures)}
    with Ledger.open(store.sink(step=(f"{REPLANNED}{number}", found.phase, facts))) as ledger:
        ledger.amend(made.terms, phase=found.phase)
    done = Proposal(wish=wish, phase=found.phase, made=True, simulation=found.simulation, figures=found.figures)
    return done, made.recipe


def replannings(transitions: Iterable[Transition]) -> list[Transition]:
    """Every re-planning of a campaign, oldest first."""
    return [one for one in transitions if one.kind.startswith(REPLANNED)]


def _looked_at(campaign: Campaign, wish: Wish, ledger: Ledger) -> tuple[Proposal, Continuation | None]:
    earlier = replannings(campaign.store.transitions())
    fresh = bool(ledger.entries) and ledger.entries[-1].terms is not None
    if earlier and fresh and earlier[-1].facts["wish"] == wish.to_json():
        last = earlier[-1]
        figures = last.facts["figures"]
        return Proposal(wish=wish, phase=last.phase, made=True, simulation=campaign.simulation, figures=figures), None
    done = _phases_done(campaign)
    made = campaign.recipe.continued(wish, ledger=ledger, done=done, pool=campaign.pool)
    return Proposal(wish=wish, phase=done, made=False, simulation=campaign.simulation, figures=made.figures), made


def _phases_done(campaign: Campaign) -> int:
    """How many phases are over. A phase that was begun is finished first: its charges count, and buy a model."""
    now = campaign.standing
    if now.step == "done":
        return campaign.recipe.phases
    if now.step != "ask" or query_begun(campaign.store, now.phase):
        train = "Train it" if campaign.hides_asked else "Train it (--partial, where answers are missing)"
        remedy = "Ask, to finish the query" if now.step == "ask" else train
        raise NotNow("re-planning", f"phase {now.phase} was begun, and is paid for as it was planned", remedy)
    if now.phase == 0:
        raise NotNow("re-planning", "nothing was done yet", "Create a campaign of another name with the new plan")
    return now.phase
