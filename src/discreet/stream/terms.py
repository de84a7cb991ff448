"""What a stream costs a record: one entry, charged before the first record, however long the stream runs.

    missed: the ask bit alone                           forward 0,     backward eps_n
    asked:  the ask bit, then one update (and a count)  forward eps_a, backward 0, then the update's event

So the price is max(eps_a + eps_g, eps_n) with Gamma noise; with Gaussian noise the asked path is certified by PLD after
its selection loss. A person, of whom m records are looked at, pays m times for bits in either direction, and once for
the updates, whose noise is for m records: one path. A preparation that was paid for joins every path before the branch,
or has a path of its own where the records it looks at never arrive. Proof: docs/proofs/streams.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from discreet.errors import BadInput
from discreet.noise import SealedPhase, charge_once
from discreet.privacy.budget import Budget, Number, exact_decimal, exact_sum, float_above, rounded_up, shown_up
from discreet.privacy.events import BlockEvent, Composed, Event
from discreet.privacy.ledger import (
    Charge,
    ChargeReason,
    Ledger,
    Line,
    Path,
    PathSegment,
    Receipt,
    Request,
    Terms,
    committed,
    request,
)
from discreet.privacy.trajectories import block_epsilon, cost_of
from discreet.stream.ask_rules import Asking
from discreet.stream.optimizer import GaussianNoise, UpdateNoise
from discreet.stream.schedules import DriftWatch

ARRIVING, ASKED, COUNTED, PREPARED = "arriving", "asked", "counted", "prepared"
"""The groups of a stream's ledger: every record; those who were asked; the same, where mistakes are counted; those a
paid preparation looked at.
"""
PREPARATION, STREAM = 0, 1
"""Its phases."""
Prepared = Literal["arriving", "held-out"]
"""Whom a paid preparation looked at: records that arrive later, or others that never will."""
AMPLE = 10**9
MOST_EACH = 1 << 16
"""Records of a person that are looked at."""
_HALVINGS = 50


@dataclass(frozen=True, kw_only=True)
class StreamPrice:
    """What each path of a record costs at ``delta``, and the worst of them. ``asked``, ``missed``: the two paths."""

    epsilon: Decimal
    delta: Decimal
    asked: Decimal
    missed: Decimal
    held_out: Decimal | None = None
    person_records: int | None = None

    def in_words(self) -> str:
        """One sentence for people."""
        if self.person_records is not None:
            return (
                f"A person loses at most epsilon={_shown(self.epsilon)} at delta={self.delta:.6g} (zero-out), however "
                f"long the stream runs: at most {self.person_records} of their records are looked at."
            )
        apart = "" if self.held_out is None else f"; one that only prepares it loses {_shown(self.held_out)}"
        return (
            f"A record loses at most epsilon={_shown(self.epsilon)} at delta={self.delta:.6g} (zero-out), however long "
            f"the stream runs: {_shown(self.asked)} if it is asked and taught, {_shown(self.missed)} if it is "
            f"not{apart}."
        )


def _shown(epsilon: Decimal) -> str:
    return shown_up(float_above(epsilon)).rstrip("0").rstrip(".")


def stream_terms(
    budget: Budget,
    *,
    asking: Asking,
    noise: UpdateNoise,
    drift: DriftWatch | None = None,
    preparation: Sequence[Event] = (),
    prepared: Prepared = "arriving",
    preparation_delta: Number = 0,
    person_records: int | None = None,
) -> Terms:
    """The committed terms of a stream's ledger, which are certified when the ledger is created.

    preparation        what a paid preparation does (`charge_preparation`), before the first record
    prepared           whom it looks at. Records that arrive later pay it on every path; there, what is not pure is one
                       block of (epsilon, ``preparation_delta``). Held-out ones pay nothing else
    person_records     of a budget for persons: how many records of each are looked at; later ones are nulls
    """
    _check_unit(budget, person_records, prepared=bool(preparation))
    if prepared not in ("arriving", "held-out"):
        raise BadInput(f"a preparation of {prepared}", "it is not arriving or held-out", "Choose one of them")
    lines = [Line(who=PREPARED, phase=PREPARATION, event=event) for event in preparation]
    charged = stream_charges(asking=asking, noise=noise, drift=drift, person_records=person_records)
    lines += [Line(who=charge.who, phase=STREAM, event=charge.event, count=charge.count) for charge in charged]
    joined = bool(preparation) and prepared == "arriving"
    block = _block(preparation, exact_decimal(preparation_delta, "preparation_delta")) if joined else None
    taught = [PathSegment(who=group, first=STREAM) for group in ([ASKED, COUNTED] if drift else [ASKED])]
    paths = _paths(taught, joined=joined, held_out=bool(preparation) and not joined)
    if person_records is not None:
        # bits of a person's records come before, between and after what others of them teach: pure losses in both
        # directions, whatever they were
        bits = PathSegment(who=ARRIVING, first=STREAM, last=STREAM, choice="touched")
        paths = [Path(name="person", stays=(bits, *taught))]
    return committed(budget, lines, paths=paths, apart=block, streamed=(STREAM,))


def _check_unit(budget: Budget, person_records: int | None, *, prepared: bool) -> None:
    if (budget.unit == "person") != (person_records is not None):
        raise BadInput(
            f"a stream for the unit {budget.unit}",
            "how many records of a person are looked at is said for persons, and for nobody else",
            'Give person_records with unit="person", and neither of them to protect records',
        )
    if person_records is not None and (type(person_records) is not int or not 1 <= person_records <= MOST_EACH):
        raise BadInput(
            "the records of a person", f"it is not a whole number from 1 to {MOST_EACH}", "Give one such as 5"
        )
    if person_records is not None and prepared:
        raise BadInput(
            "a paid preparation of a stream for persons",
            "how many records of a person it looked at is not bounded, and a person who is held out may arrive",
            "Use constants that are declared or public",
        )


def stream_charges(
    *, asking: Asking, noise: UpdateNoise, drift: DriftWatch | None = None, person_records: int | None = None
) -> tuple[Charge, ...]:
    """What the stream's entry charges. The bits of a person are charged once a record; what hides updates and counts is
    drawn for all of their records, and charged once.
    """
    each = person_records or 1
    charges = [Charge(who=ARRIVING, event=asking.price(), count=each), Charge(who=ASKED, event=noise.event(), count=1)]
    return (*charges,) if drift is None else (*charges, Charge(who=COUNTED, event=drift.event(each), count=1))


def _paths(taught: list[PathSegment], *, joined: bool, held_out: bool) -> list[Path]:
    before = (PathSegment(who=PREPARED, last=PREPARATION, choice="touched"),) if joined else ()
    bit = PathSegment(who=ARRIVING, first=STREAM, last=STREAM, choice="asked")
    missed = PathSegment(who=ARRIVING, first=STREAM, choice="missed")
    apart = [Path(name="held-out", stays=(PathSegment(who=PREPARED, last=PREPARATION),))] if held_out else []
    return [Path(name="asked", stays=(*before, bit, *taught)), Path(name="missed", stays=(*before, missed)), *apart]


def preparation_loss(preparation: Sequence[Event], delta: Number) -> Decimal:
    """What a preparation costs a record that arrives later, on every path: pure events, and a block of the others."""
    block = _block(preparation, exact_decimal(delta, "preparation_delta"))
    pure = [event.pure_epsilon() for event in preparation]
    return exact_sum(
        [*(epsilon for epsilon in pure if epsilon is not None), *([] if block is None else [block.epsilon])]
    )


def _block(preparation: Sequence[Event], delta: Decimal) -> BlockEvent | None:
    rough = tuple(event for event in preparation if event.pure_epsilon() is None)
    if not rough:
        return None
    if not 0 < delta < 1:
        raise BadInput(
            "a preparation that is not pure", "it has no part of delta", "Give preparation_delta, such as half of delta"
        )
    event = Composed(events=rough)
    needed = block_epsilon(BlockEvent(event=event, epsilon=0, delta=delta), by_pld=True)
    return BlockEvent(event=event, epsilon=Decimal(repr(needed)), delta=delta)


def stream_price(
    *,
    delta: Number,
    asking: Asking,
    noise: UpdateNoise,
    drift: DriftWatch | None = None,
    preparation: Sequence[Event] = (),
    prepared: Prepared = "arriving",
    preparation_delta: Number = 0,
    person_records: int | None = None,
) -> StreamPrice:
    """What a stream costs a record (a person, with ``person_records``) at ``delta``: certified, rounded up. A ledger
    with this budget can be created.
    """
    guess, tries = Decimal(AMPLE), 0
    while True:
        budget = Budget(epsilon=guess, delta=delta, unit="record" if person_records is None else "person")
        terms = stream_terms(
            budget,
            asking=asking,
            noise=noise,
            drift=drift,
            preparation=preparation,
            prepared=prepared,
            preparation_delta=preparation_delta,
            person_records=person_records,
        )
        costs = {path.name: cost_of(path, terms.accounted, by_pld=True) for path in terms.trajectories()}
        worst = max(costs.values())
        if tries and worst <= guess:  # certified as finely as a ledger of this budget is
            break
        tries += 1
        guess = worst if tries < 3 else Decimal(repr(rounded_up(float(worst) * (1 + 1e-6))))
    return StreamPrice(
        epsilon=guess,
        delta=budget.delta,
        asked=costs["asked" if person_records is None else "person"],
        missed=costs["missed" if person_records is None else "person"],
        held_out=costs.get("held-out"),
        person_records=person_records,
    )


def charge_stream(
    where: Ledger | SealedPhase,
    *,
    asking: Asking,
    noise: UpdateNoise,
    drift: DriftWatch | None = None,
    person_records: int | None = None,
) -> Receipt:
    """Charge the stream's one entry; durable when it returns. After a restart (a sealed phase with number `STREAM`, or
    a simulation opened with its seed) the same entry's receipt again.
    """
    charges = stream_charges(asking=asking, noise=noise, drift=drift, person_records=person_records)
    return charge_once(where, [Request(charges=charges, why=ChargeReason(phase=STREAM, purpose="stream"))])[0]


def charge_preparation(where: Ledger | SealedPhase, event: Event, *, purpose: str = "preparation") -> Receipt:
    """Charge one event of a paid preparation, before the stream (a sealed phase has number `PREPARATION`)."""
    return charge_once(where, [request({PREPARED: event}, why=ChargeReason(phase=PREPARATION, purpose=purpose))])[0]


def gaussian_noise_for(
    budget: Budget,
    *,
    asking: Asking,
    drift: DriftWatch | None = None,
    preparation: Sequence[Event] = (),
    prepared: Prepared = "arriving",
    preparation_delta: Number = 0,
    person_records: int | None = None,
) -> GaussianNoise:
    """The least Gaussian noise with which the stream keeps ``budget``, by PLD; the side of the search that does."""

    def keeps(multiplier: float) -> bool:
        terms = stream_terms(
            budget,
            asking=asking,
            noise=GaussianNoise(noise_multiplier=multiplier),
            drift=drift,
            preparation=preparation,
            prepared=prepared,
            preparation_delta=preparation_delta,
            person_records=person_records,
        )
        return all(cost_of(path, terms.accounted, by_pld=True) <= budget.epsilon for path in terms.trajectories())

    lower, upper = 0.05, 1.0
    while not keeps(upper):
        lower, upper = upper, 4 * upper
        if upper > 1e6:
            raise BadInput(
                f"Gaussian updates under epsilon={budget.epsilon}, delta={budget.delta}",
                "being asked, counted, missed or prepared for costs that much alone",
                "Lower what asking costs, or raise the budget",
            )
    for _ in range(_HALVINGS):
        if upper - lower <= 1e-4 * upper:
            break
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if keeps(middle) else (middle, upper)
    return GaussianNoise(noise_multiplier=upper)
