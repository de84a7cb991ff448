"""Learning-rate schedules: functions of the share of a phase that is done, and of nothing else.

They hold no state, so a resumed phase is at the right place, and they read no losses: a schedule that waits for a
plateau would have to pay for looking.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from discreet.errors import BadInput

Schedule = Callable[[float], float]
WARM_UP = 0.1


def _cosine(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * share))


def _warm_up_then_cosine(share: float) -> float:
    if share < WARM_UP:
        return max(share, 1e-3) / WARM_UP
    return _cosine((share - WARM_UP) / (1 - WARM_UP))


SCHEDULES: dict[str, Schedule] = {
    "constant": lambda share: 1.0,
    "linear": lambda share: 1.0 - share,
    "cosine": _cosine,
    "warmup-cosine": _warm_up_then_cosine,
}


def factor_at(schedule: str | Schedule, step: int, steps: int) -> float:
    """What the learning rate is multiplied by in step ``step`` (0 is the first) of ``steps``."""
    share = step / steps
    try:
        factor = SCHEDULES[schedule](share) if isinstance(schedule, str) else float(schedule(share))
    except Exception as failed:
        raise BadInput(
            "a learning-rate schedule", f"it ended with {type(failed).__name__}: {failed}", "Try it"
        ) from failed
    if not 0 <= factor < math.inf:
        raise BadInput("a learning-rate schedule", "it gave a negative or infinite factor", "Give factors from 0")
    return factor
