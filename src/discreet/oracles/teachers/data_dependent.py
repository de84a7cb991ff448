"""What answers cost *on these votes*: smaller than the claim where teachers agree, and private itself.

**Audience: owner.** This number is computed from votes. It is no claim: told to others, it tells about the votes.
Nothing in discreet's ledgers, certificates or reports uses it. `smooth_price` tells a noisy form of it, for a charge of
its own.

Gaussian noisy maximum (Papernot et al. 2018, Theorem 6). q is the chance that the answer is not the winner, at most
sum_i erfc(lead_i/(2 sigma))/2. With mu2 = sigma sqrt(log(1/q)), mu1 = mu2 + 1, e1 = mu1/sigma^2, e2 = mu2/sigma^2, for
orders a <= mu1 and q small enough,

    RDP(a) <= log( (1-q) A^(a-1) + q B^(a-1) ) / (a-1),
    A = (1-q)/(1 - (q e^e2)^((mu2-1)/mu2)),   B = e^e1 / q^(1/(mu1-1)),

and always RDP(a) <= a/sigma^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from discreet.errors import BadInput
from discreet.planning.teachers import NoisyMaxPrice
from discreet.privacy.accounting.rdp import ORDERS, epsilon_at
from discreet.privacy.events import Gaussian

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class OwnersEpsilon:
    """Audience: owner. ``on_these_votes`` is not a claim; ``claimed`` holds whatever the votes are, by the same RDP."""

    on_these_votes: float
    claimed: float
    answers: int
    audience: str = "owner"


def owners_epsilon(counts: Any, *, price: NoisyMaxPrice) -> OwnersEpsilon:
    """What answering these rows with a Gaussian noisy maximum costs on these very votes, by RDP at its delta."""
    event = price.charges[0][0]
    if not isinstance(event, Gaussian):
        raise BadInput(
            f"a data-dependent price of {price.aggregator}", "it is known for Gaussian noise", "Use gaussian"
        )
    votes, sigma = np.asarray(counts), math.sqrt(2) * event.noise_multiplier
    delta = float(price.budget.delta)
    plain = ORDERS / sigma**2
    total = np.zeros(ORDERS.size)
    for row in votes:
        total += np.minimum(plain, dependent_rdp(log_chance(row, sigma), sigma, ORDERS))
    return OwnersEpsilon(
        on_these_votes=epsilon_at(total, delta), claimed=epsilon_at(len(votes) * plain, delta), answers=len(votes)
    )


def log_chance(row: Any, sigma: float) -> float:
    """log of the union bound on the chance of another answer than the winner."""
    top = int(row.argmax())
    leads = np.delete(row[top] - row, top) / (math.sqrt(2) * sigma)
    return min(0.0, float(logsumexp(log_ndtr(-leads))))


def dependent_rdp(log_q: float, sigma: float, orders: Floats) -> Floats:
    """The theorem's bound at each order; infinite where it does not apply."""
    nothing = np.full(orders.size, math.inf)
    if log_q >= 0:
        return nothing
    mu2 = sigma * math.sqrt(-log_q)
    mu1 = mu2 + 1
    e1, e2 = mu1 / sigma**2, mu2 / sigma**2
    if mu2 <= 1:
        return nothing
    largest = (mu2 - 1) * e2 - mu2 * math.log(mu1 / (mu1 - 1) * mu2 / (mu2 - 1))
    inner = (log_q + e2) * (mu2 - 1) / mu2
    if log_q > largest or inner >= 0:
        return nothing
    q = math.exp(log_q)
    log_a = math.log1p(-q) - math.log1p(-math.exp(inner))
    log_b = e1 - log_q / (mu1 - 1)
    both = np.logaddexp(math.log1p(-q) + log_a * (orders - 1), log_q + log_b * (orders - 1)) / (orders - 1)
    return np.where(orders <= mu1, np.maximum(both, 0.0), math.inf)
