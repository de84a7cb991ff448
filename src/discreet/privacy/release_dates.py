"""Planned release dates of a hidden selection: when each phase becomes public, fixed before data is touched.

How long labelling takes depends on how many were asked, which a hidden selection does not release
(docs/proofs/hidden-selection.md). So what is public changes on planned dates only. A phase is released at the start of
its date (00:00 UTC), and must be trained before that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from itertools import pairwise

from discreet.errors import BadInput

TIME_COVERED = "time is covered: phases are released on planned dates"
TIME_NOT_COVERED = "time is not covered"
"""What a certificate of a hidden selection says about time."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def release_date(value: str | date) -> date:
    """A date, or one written as 2027-01-15."""
    if type(value) is date:
        return value
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise BadInput("a release date", "it is not a day of the calendar", "Write it like 2027-01-15")


def release_dates(values: Iterable[str | date], *, phases: int) -> tuple[date, ...]:
    """One date a phase, each later than the one before; or none."""
    dates = tuple(release_date(value) for value in values)
    if dates and len(dates) != phases:
        raise BadInput(
            f"{len(dates)} release dates",
            f"the plan has {phases} phases, and each is released on a date of its own",
            f"Give {phases} dates, or none",
        )
    if any(later <= earlier for earlier, later in pairwise(dates)):
        raise BadInput("release dates", "one is not later than the date before it", "Give them in order")
    return dates


def due_phases(dates: tuple[date, ...], today: date) -> int:
    """How many phases have reached their date."""
    return sum(planned <= today for planned in dates)
