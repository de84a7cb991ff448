"""What answers cost *on these votes*: smaller than the claim where teachers agree, and private itself.

**Audience: owner.** This number is computed from votes. It is no claim: told to others, it tells about the votes.
Nothing in discreet's ledgers, certificates or reports uses it. `release_cost` releases a noisy form of it, for a charge
of its own.

Gaussian noisy maximum (Papernot et al. 2018, Theorem 6). q is the chance that the answer is not the winner, at most
sum_i erfc(lead_i/(2 sigma))/2. With mu2 = sigma sqrt(log(1/q)), mu1 = mu2 + 1, e1 = mu1/sigma^2, e2 = mu2/sigma^2, for
orders a <= mu1 and q small enough,

    RDP(a) <= log( (1-q) A^(a-1) + q B^(a-1) ) / (a-1),
    A = (1-q)/(1 - (q e^e2)^((mu2-1)/mu2)),   B = e^e1 / q^(1/(mu1-1)),

and always RDP(a) <= a/sigma^2.

Smooth sensitivity:

The data-dependent price of Gaussian answers, released for a price of its own: smooth sensitivity.

What answers cost *on these votes* (`data_dependent_epsilon`) tells about the votes. Here it is hidden by noise that
fits how much one unit can change it near these votes (Nissim, Raskhodnikova and Smith 2007; Papernot et al. 2018). It
is no part of any claim: ledgers and certificates promise what holds whatever the votes are. Audience of `smooth_cost`:
owner; of `release_cost`: public, for its charges.

f(D) is the RDP cost of all answers at one order, fixed beforehand. For each question, with q the union bound on the
chance that the answer is not the winner, let t be the lead at which C-1 rivals with equal leads give this q. One unit
moves one vote, every lead by at most 2, and t by at most 2 (docs/proofs/smooth-price.md). A question's cost is a step
function of t, so with tables over steps

    A_d   the largest change of the cost by one more vote, anywhere within d votes of here, summed over questions
    S     max_d e^(-beta d) A_d:   S is at least the local sensitivity, and S(D) <= e^beta S(D') for neighbours

Released are, in this order: log S with Laplace noise (one unit changes it by at most beta), from which follows a public
B that is below S with a chance of at most ``mistake``; then f with Laplace noise for sensitivity B. Together
(e1 + e2, mistake)-DP, zero-out, both directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, minimum_filter1d
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from discreet.errors import BadInput
from discreet.noise import laplace
from discreet.planning.pate import NoisyMaxPrice
from discreet.planning.pate.pricing import WHO
from discreet.planning.pate.vote_noise import EventCount, failure_event
from discreet.privacy.accounting.rdp import ORDERS, epsilon_at
from discreet.privacy.budget import Budget, exact_minus, float_below
from discreet.privacy.events import Gaussian, Laplace
from discreet.privacy.ledger import Ledger, Line, Terms, committed, request

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class DataDependentEpsilon:
    """Audience: owner. ``on_these_votes`` is not a claim; ``claimed`` holds whatever the votes are, by the same RDP."""

    on_these_votes: float
    claimed: float
    answers: int
    audience: str = "owner"


def data_dependent_epsilon(counts: Any, *, price: NoisyMaxPrice) -> DataDependentEpsilon:
    """What answering these rows with a Gaussian noisy maximum costs on these very votes, by RDP at its delta."""
    votes, sigma, delta = np.asarray(counts), _gaussian(price), float(price.budget.delta)
    plain = ORDERS / sigma**2
    costs = (np.minimum(plain, dependent_rdp(log_chance(row, sigma), sigma, ORDERS)) for row in votes)
    total = sum(costs, np.zeros(ORDERS.size))
    return DataDependentEpsilon(
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
    mu2 = sigma * math.sqrt(max(-log_q, 0.0))
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


_STEP = 0.25
_MOVED = round(2 / _STEP) + 1
"""Steps that one vote moves t by, at most; one more than that, for t is computed in floating point."""
_LEAST = 1e-12
"""S is at least this: a logarithm must have something to read."""
_FIRST_SHARE = Decimal("0.25")


@dataclass(frozen=True, kw_only=True)
class SmoothCost:
    """Audience: owner. ``rdp`` at ``order``, and ``bound``: its smooth sensitivity. ``by_distance``: A_d."""

    order: float
    beta: float
    rdp: float
    bound: float
    by_distance: Floats


@dataclass(frozen=True, kw_only=True)
class CostRelease:
    """What releasing the cost of answers costs: (budget.epsilon, budget.delta). Public, fixed beforehand."""

    budget: Budget
    order: float
    beta: float
    mistake: float
    charges: tuple[EventCount, ...]

    def terms(self, who: str = WHO) -> Terms:
        """What a ledger of this release alone commits to."""
        return committed(self.budget, [Line(who=who, event=event, count=count) for event, count in self.charges])


@dataclass(frozen=True, kw_only=True)
class ReleasedCost:
    """Audience: public. With a chance of 1 - ``gamma`` answers cost at most ``epsilon`` at the delta of their price.

    It holds for these votes: it is an estimate of what was lost, and no promise beforehand. ``release``: what telling
    it cost, on top. ``claimed``: what is promised whatever the votes are.
    """

    epsilon: float
    rdp: float
    sensitivity: float
    order: float
    gamma: float
    release: Budget
    claimed: float


def cost_release(budget: Budget, *, price: NoisyMaxPrice, order: float | None = None) -> CostRelease:
    """How ``budget`` is spent on telling what ``price``'s answers cost. ``order``: by default the claim's best."""
    _gaussian(price)
    if not 0 < budget.delta < Decimal("0.25"):
        raise BadInput(f"a release at delta {budget.delta}", "it is for a delta above 0, below 0.25", "Give 1e-7")
    if order is not None and not 1 < order < 1e6:
        raise BadInput(f"the order {order}", "it is not above 1", "Give one such as 20, beforehand")
    first = (budget.epsilon * _FIRST_SHARE).normalize()
    second = exact_minus(budget.epsilon, first)
    delta = float_below(budget.delta)
    mistake = delta / 2 * (1 - 2 * delta)
    charges: tuple[EventCount, ...] = (
        (Laplace(epsilon=first), 1),
        (Laplace(epsilon=second), 1),
        (failure_event(mistake, delta), 1),
    )
    beta = float_below(first) / math.log(1 / (2 * mistake))  # then B is e times S where the noise is 0
    best = _best_order(price) if order is None else float(order)
    return CostRelease(budget=budget, order=best, beta=beta, mistake=mistake, charges=charges)


def smooth_cost(counts: Any, *, price: NoisyMaxPrice, order: float, beta: float) -> SmoothCost:
    """The cost of answering these rows at ``order``, and its smooth sensitivity. Audience: owner."""
    votes, sigma = np.asarray(counts), _gaussian(price)
    if votes.ndim != 2 or votes.shape[1] != price.classes or votes.dtype.kind not in "iu":
        raise BadInput("votes to price", "they are not counts, a column a class", "Give counts")
    if not 0 < beta < 100 or not 1 < order < 1e6:
        raise BadInput(f"smoothness {beta:.3g} at order {order:.3g}", "they are out of range", "Give such as 0.02, 20")
    costs = step_costs(price.teachers, price.classes, sigma, order)
    places = [step_of(row, price.classes, sigma, len(costs)) for row in votes]
    here = np.bincount(places, minlength=len(costs)).astype(np.float64)
    around, changes = _changes(costs), list[float]()
    for _ in range(math.ceil(len(costs) / _MOVED) + 1):
        changes.append(float(here @ around))
        around = maximum_filter1d(around, 2 * _MOVED + 1, mode="nearest")  # within one vote more
    by_distance = np.array(changes)
    bound = float((by_distance * np.exp(-beta * np.arange(len(changes)))).max())
    return SmoothCost(
        order=order, beta=beta, rdp=float(here @ costs), bound=max(bound, _LEAST), by_distance=by_distance
    )


def release_cost(
    counts: Any, *, price: NoisyMaxPrice, plan: CostRelease, ledger: Ledger, gamma: float = 0.05, who: str = WHO
) -> ReleasedCost:
    """Charge ``plan`` to ``ledger``, then tell what answering ``counts`` costs, with noise. Audience: public."""
    if not 0 < gamma < 1:
        raise BadInput(f"gamma {gamma}", "it is no chance", "Give one such as 0.05")
    cost = smooth_cost(counts, price=price, order=plan.order, beta=plan.beta)  # refuses before anything is charged
    (first, _), (second, _), (mistake, _) = plan.charges
    _, receipt, last = ledger.charge_all(  # all of them or none
        [
            request({who: mistake}, why="cost of answers (chance of a mistake)"),
            request({who: first}, why="cost of answers (sensitivity)"),
            request({who: second}, why="cost of answers"),
        ]
    )
    noisy = float(laplace(math.log(cost.bound), sensitivity=plan.beta, receipt=receipt))
    reach = plan.beta / float_below(first.epsilon) * math.log(1 / (2 * plan.mistake))  # type: ignore[attr-defined]
    sensitivity = math.exp(min(noisy + reach, 700.0))
    noisy_cost = float(laplace(cost.rdp, sensitivity=sensitivity, receipt=last))
    largest = len(np.asarray(counts)) * plan.order / _gaussian(price) ** 2
    above = sensitivity / float_below(second.epsilon) * math.log(1 / (2 * gamma))  # type: ignore[attr-defined]
    rdp = min(max(noisy_cost + max(above, 0.0), 0.0), largest)  # never above what holds whatever the votes are
    delta = float_below(price.budget.delta)
    return ReleasedCost(
        epsilon=_epsilon_at(rdp, plan.order, delta),
        rdp=rdp,
        sensitivity=sensitivity,
        order=plan.order,
        gamma=gamma,
        release=plan.budget,
        claimed=price.epsilon,
    )


@lru_cache(maxsize=16)
def step_costs(teachers: int, classes: int, sigma: float, order: float) -> Floats:
    """The cost of a question at each step of t, from 0 to a unanimous vote's."""
    steps = np.arange(math.floor(teachers / _STEP) + 1) * _STEP
    logs = np.minimum(math.log(classes - 1) + log_ndtr(-steps / (math.sqrt(2) * sigma)), 0.0)
    orders = np.array([order])
    plain = order / sigma**2
    return np.array([min(plain, float(dependent_rdp(float(log), sigma, orders)[0])) for log in logs])


def step_of(row: Any, classes: int, sigma: float, steps: int) -> int:
    """The step of a question's t, from below: a smaller lead has a larger q, for which the bound holds as well."""
    log_q = log_chance(row, sigma) - math.log(classes - 1)
    lead = -math.sqrt(2) * sigma * float(ndtri_exp(min(log_q, math.log(0.5))))
    return min(max(math.floor((lead - 1e-9) / _STEP), 0), steps - 1)


def _changes(costs: Floats) -> Floats:
    """The largest change by one vote at each step."""
    size = 2 * _MOVED + 1
    high, low = maximum_filter1d(costs, size, mode="nearest"), minimum_filter1d(costs, size, mode="nearest")
    return np.asarray(np.maximum(high - costs, costs - low))


def _gaussian(price: NoisyMaxPrice) -> float:
    """The noise on a count."""
    event = price.charges[0][0] if isinstance(price, NoisyMaxPrice) else None
    if not isinstance(event, Gaussian):
        raise BadInput("the cost of answers on these votes", "it is known for Gaussian noise", "Use gaussian")
    return math.sqrt(2) * event.noise_multiplier


def _best_order(price: NoisyMaxPrice) -> float:
    """Where the plain bound of all answers is best: by public numbers."""
    sigma, delta = _gaussian(price), float_below(price.budget.delta)
    orders = np.geomspace(1.5, 500.0, 200)
    costs = [_epsilon_at(price.answers * order / sigma**2, float(order), delta) for order in orders]
    return float(orders[int(np.argmin(costs))])


def _epsilon_at(rdp: float, order: float, delta: float) -> float:
    """From RDP at one order (Canonne, Kamath and Steinke 2020)."""
    return max(rdp + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1), 0.0)
