"""The release gate as an event: what may be shown to a crowd hides among k units.

Each unit (a person, or a row where no person is known) brings at most ``values`` values. For every value a unit brings
a coin of ``beta`` is tossed, and a value is shown, once, if at least ``k`` coins fell for it; with ``counts``, beside
how many fell. `discreet.privacy.accounting.release_gate` prices it, at the worst number of other units.

Guarantee: as of every event, public numbers only. ``normalisation`` says what texts were brought to before they were
counted: part of what was released, and no part of the price.

Symbols: ``k``, ``beta`` as in Li, Qardaji and Su, "On Sampling, Anonymization, and Differential Privacy", 2012;
``values`` c.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from discreet.errors import InvalidEvent
from discreet.privacy.events import Event

MOST_K = 10**6
MOST_VALUES = 10**6
PLAIN = "nfkc,case,whitespace"
"""The normalisation that is taken where nothing else is said."""
_STEPS = re.compile(r"[A-Za-z0-9_.:,-]{1,200}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class ReleaseGate(Event):
    """Values that at least ``k`` units kept, each with probability ``beta``; one unit brings at most ``values``."""

    kind: ClassVar[str] = "release-gate"
    k: int
    beta: float
    values: int = 1
    counts: bool = False
    normalisation: str = PLAIN

    def __post_init__(self) -> None:
        for name, most in (("k", MOST_K), ("values", MOST_VALUES)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise InvalidEvent(f"{self.kind}.{name}", f"it must be a whole number from 1 to {most}", "Count again")
        beta = self.beta
        if isinstance(beta, bool) or not isinstance(beta, (int, float)) or not 0 < beta < 1:
            raise InvalidEvent(f"{self.kind}.beta", "it must be above 0 and below 1: a coin hides", "Lower beta")
        if type(self.counts) is not bool:
            raise InvalidEvent(f"{self.kind}.counts", "it must be true or false", "Say whether counts are shown")
        if not isinstance(self.normalisation, str) or not _STEPS.fullmatch(self.normalisation):
            raise InvalidEvent(
                f"{self.kind}.normalisation", "it does not name steps, with commas between", f"Write it like {PLAIN}"
            )
        object.__setattr__(self, "beta", float(beta))
