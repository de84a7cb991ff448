"""Settings of DP-SGD by a rule: from public numbers alone, so nothing is tuned on private data.

The rule is for one linear layer on features of bounded norm. It was fitted on three public sets and checked on others:
docs/reference/automatic-settings.md has its derivation, the figures, and where it is weak.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from discreet.checks import shown
from discreet.errors import BadInput
from discreet.trainers.dp_sgd.settings import Settings

CLIP = 0.1
"""The clip, as a share of the longest (record, 1)."""
WEIGHTED_CLIP = 1.0
"""The same where classes have weights: a smaller clip cuts them away again."""
NOISE = 2.0
"""Standard deviation of the noise in a logit of the longest record, after the last step and before averaging."""
MOST_TRAVEL = 5000.0
"""The most that the logit of a class may move without noise, if all gradients agreed."""
STEPS = 5.0
LEAST_STEPS, MOST_STEPS = 30, 100
"""STEPS times the root of the signal, between these."""
AVERAGE = 0.9
"""Decay of the moving average of the weights."""
OTHER_BATCH, OTHER_EPOCHS = 256, 20
"""For models the rule was not fitted on."""
OWN_TRAVEL = ("learning_rate", "optimizer", "optimizer_options", "schedule", "adaptive_clip")
"""Settings that say how far the weights move. Who gives one of them chooses clip and averaging, too."""
LOSS = "cross-entropy"
"""The loss that the rule is for."""


@dataclass(frozen=True, kw_only=True)
class AutomaticSettings:
    """``batch`` (expected) and ``epochs`` (a phase) for the plan, ``settings`` for the trainer."""

    batch: int
    epochs: int
    settings: Settings


def automatic_settings(
    *,
    labels: int,
    epsilon: float,
    delta: float,
    classes: int,
    dimension: int,
    norm_bound: float | None = None,
    phases: int = 1,
    initial: int | None = None,
    linear: bool = True,
    weighted: bool = False,
    batch: int | None = None,
    epochs: int | None = None,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> AutomaticSettings:
    """Settings that follow from these numbers. All of them must be public: planned, declared, never counted.

    labels      planned number of units that are trained on in the last phase
    epsilon     of the whole plan
    delta       of the whole plan
    classes     of the task
    dimension   how many numbers a record has
    norm_bound  the longest that a record's features can be; None: what numbers spread evenly from -1 to 1 would have,
                the root of a third of ``dimension``
    phases      how often the model is trained
    initial     of several phases, the units of the first: no batch is larger; None: all ``labels``
    linear      whether the model is one linear layer; for others the defaults are returned, which were not fitted
    weighted    whether classes have weights
    batch       expected, if it is chosen already; the learning rate follows the steps that it makes
    epochs      a phase, if they are chosen already
    given       fields of `Settings` that are chosen already, by name. The learning rate follows a clip; who gives one
                of `OWN_TRAVEL` has the defaults of `Settings` for what is not given
    """
    initial = labels if initial is None else initial
    counts = {"labels": labels, "classes": classes, "dimension": dimension, "phases": phases, "initial": initial}
    counts |= {name: count for name, count in (("batch", batch), ("epochs", epochs)) if count is not None}
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise BadInput(f"automatic settings with {name}={shown(count)}", "it is not a count from 1", "Count again")
    if not linear:
        return AutomaticSettings(
            batch=batch or min(OTHER_BATCH, initial), epochs=epochs or OTHER_EPOCHS, settings=Settings(**given)
        )
    if not (0 < epsilon < math.inf and 0 < delta < 1):
        raise BadInput(
            f"automatic settings for ({epsilon}, {delta})", "this is no guarantee", "Give epsilon and delta above 0"
        )
    bound = math.sqrt(dimension / 3) if norm_bound is None else norm_bound
    if not 0 < bound < math.inf:
        raise BadInput(f"norm_bound={norm_bound}", "it is not a number above 0", "Leave it out, or give the map's")
    budget = gaussian_budget(epsilon, delta) / math.sqrt(phases)
    most = min(max(STEPS * math.sqrt(budget * labels / classes), LEAST_STEPS), MOST_STEPS)
    batch = min(batch or max(labels // phases, 1), initial)
    epochs = epochs or max(round(most * batch / labels), 1)
    if any(name in given for name in OWN_TRAVEL) or given.get("loss", LOSS) != LOSS:
        return AutomaticSettings(batch=batch, epochs=epochs, settings=Settings(**given))
    steps = max(epochs * labels // batch, 1)  # of the last phase, where rates and steps are those of a naive plan
    longest = math.hypot(bound, 1)  # of a record and the 1 of the intercept
    settings = Settings(**{"clip": (WEIGHTED_CLIP if weighted else CLIP) * longest, "ema": AVERAGE} | dict(given))
    travel = min(NOISE * budget * labels, MOST_TRAVEL * classes)
    settings = replace(settings, learning_rate=travel / (steps * settings.clip * longest))
    return AutomaticSettings(batch=batch, epochs=epochs, settings=settings)


def gaussian_budget(epsilon: float, delta: float) -> float:
    """mu: one release of sensitivity 1 under Gaussian noise of scale 1 / mu is (epsilon, delta)-private.

    The largest mu with Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) <= delta (Balle and Wang 2018). Used
    to choose settings, never as a claim.
    """
    low, high = 0.0, 1.0
    while _delta_of(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if _delta_of(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def _delta_of(mu: float, epsilon: float) -> float:
    if mu <= 0:
        return 0.0
    above, below = _normal(mu / 2 - epsilon / mu), _normal(-mu / 2 - epsilon / mu)
    return above - math.exp(epsilon + math.log(below)) if below > 0 else above


def _normal(value: float) -> float:
    """The distribution function of the standard normal."""
    return math.erfc(-value / math.sqrt(2)) / 2
