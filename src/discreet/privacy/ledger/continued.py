"""Why a committed ledger went on in adaptive mode: what a re-planning declares, as a value in its terms.

What it says is public and part of the promise (docs/proofs/replanning.md). *outside*: that the campaign is re-planned,
and with what budget, would have been decided whatever the records are and whatever was released. *released*: what was
released decided it. Then the committed claim has to hold where nobody re-planned, too, and keeps its delta for that.
There is no word for private facts, such as how many answered: no claim covers them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, get_args

from discreet.errors import BadInput
from discreet.privacy.budget import Budget
from discreet.privacy.exact import exact_decimal, exact_sum, json_number

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
    kept = before.delta if first and because == "released" else Decimal(0)
    delta = exact_sum((before.delta, kept))
    return Budget(epsilon=epsilon, delta=delta, unit=before.unit, relation=before.relation), kept
