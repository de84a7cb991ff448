"""What a release costs a person: exact for one value, by the envelope over all numbers of others for several.

Guarantee (docs/proofs/release-gate.md): `Profile.delta` and `Profile.epsilon` hold in both directions of zero-out,
whatever number of other units has each value, with counts released or not. Everything here is public.

Symbols: k units must keep a value, each with probability ``beta``; a unit brings at most ``values`` (c) of them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput
from discreet.privacy.accounting.pld import hockey_stick, pld_epsilons, pld_pair
from discreet.privacy.accounting.release_gate import Worst, release_delta
from discreet.privacy.events import Repeated
from discreet.privacy.exact import rounded_up
from discreet.privacy.release_gate import ReleaseGate
from discreet.privacy.trajectories import Trajectory


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The cost of one setting of the gate."""

    k: int
    beta: float
    values: int = 1

    def __post_init__(self) -> None:
        ReleaseGate(k=self.k, beta=self.beta, values=self.values)  # the same limits

    @property
    def event(self) -> ReleaseGate:
        """As a ledger is charged for it, with everything else as it is by default."""
        return ReleaseGate(k=self.k, beta=self.beta, values=self.values)

    def worst(self, epsilon: float) -> tuple[Worst, Worst]:
        """Of one value, forward and backward: the divergence, and the number of others it is reached at."""
        checked_epsilon(epsilon)
        return (
            release_delta(self.k, self.beta, epsilon, "forward"),
            release_delta(self.k, self.beta, epsilon, "backward"),
        )

    def deltas(self, epsilon: float) -> tuple[float, float]:
        """Forward and backward: of all ``values`` together, the better of the envelope and of a sum."""
        checked_epsilon(epsilon)
        if self.values == 1:
            forward, backward = self.worst(epsilon)
            return forward.delta, backward.delta
        return _several(self.k, self.beta, self.values, epsilon)

    def delta(self, epsilon: float) -> float:
        """The worse direction."""
        return max(self.deltas(epsilon))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at ``delta``, rounded up; infinite where no epsilon will do, as below beta^k."""
        if not 0 < delta < 1:
            raise BadInput(f"delta={delta}", "it must be above 0 and below 1", "Give a chance far below 1/units")
        return _epsilon(self.event, delta)

    def meets(self, epsilon: float, delta: float) -> bool:
        """Whether the promise (epsilon, delta) is kept, as a ledger would find."""
        if self.values == 1:
            return self.delta(epsilon) <= delta and self.epsilon(delta) <= epsilon
        return _in_ledger(self.event, epsilon, delta) <= epsilon


@functools.lru_cache(maxsize=4096)
def _epsilon(event: ReleaseGate, delta: float) -> float:
    return rounded_up(max(pld_epsilons(event, delta)))


@functools.lru_cache(maxsize=4096)
def _in_ledger(event: ReleaseGate, epsilon: float, delta: float) -> float:
    """What a ledger of this budget finds: on a grid of its own, which may be coarser."""
    path = Trajectory(name="everyone", training=(Repeated(event=event, count=1),))
    return path.pld(delta, path.interval(epsilon))


@functools.lru_cache(maxsize=256)
def _several(k: int, beta: float, values: int, epsilon: float) -> tuple[float, float]:
    pair = pld_pair(ReleaseGate(k=k, beta=beta, values=values))
    assert pair is not None
    shared = [values * release_delta(k, beta, epsilon / values, way).delta for way in ("forward", "backward")]
    forward, backward = (min(1.0, *both) for both in zip(pair.deltas(epsilon), shared, strict=True))
    return forward, backward


def checked_epsilon(epsilon: float) -> None:
    """Refuse what is no epsilon."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)) or not 0 <= epsilon < math.inf:
        raise BadInput(f"epsilon={epsilon}", "it must be a finite number from 0", "Give what a person may lose")


def outputs(k: int, beta: float, others: int, *, counts: bool = False) -> tuple[NDArray[np.float64], ...]:
    """What is seen of one value that ``others`` units have: with the unit (one more), and without it.

    Probabilities of not shown, then of shown; with ``counts``, of each count from k on. For tests and explanations.
    """
    from scipy import special

    def seen(units: int) -> NDArray[np.float64]:
        if units < k:
            return np.array([1.0, 0.0])
        hidden, shown = (of(k, units - k + 1, beta) for of in (special.betaincc, special.betainc))
        if not counts:
            return np.array([hidden, shown])
        fell = np.arange(k, units + 1)
        logs = special.gammaln(units + 1) - special.gammaln(fell + 1) - special.gammaln(units - fell + 1)
        return np.concatenate([[hidden], np.exp(logs + fell * np.log(beta) + (units - fell) * np.log1p(-beta))])

    with_it, without = seen(others + 1), seen(others)
    return with_it, np.concatenate([without, np.zeros(with_it.size - without.size)])


def member_deltas(k: int, beta: float, others: int, losses: Any, *, counts: bool = False) -> NDArray[np.float64]:
    """Divergences of one value at this number of others, (2, losses): forward and backward.

    By its distributions, without a closed form.
    """
    present, absent = outputs(k, beta, others, counts=counts)
    at = np.atleast_1d(np.asarray(losses, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.stack([hockey_stick(present, absent, at), hockey_stick(absent, present, at)])
