"""Speed of the step-amplification search, as ratios in one interleaved run.

The peer is the same search (the naive first cohort's targets, every cohort with its own history, bisection on steps
and rates) asking Opacus 1.6 for the RDP of every probe, histories kept. Both must give the same answer to the width of
the peer's brackets; our orders contain Opacus's. The physical limit shown is the time to
evaluate, once, the divergences of the final plan (nothing can plan without pricing its own answer).

    python benchmarks/planning.py            # writes benchmarks/results/planning.md
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from discreet.api import plan_request
from discreet.planning import make_plan
from discreet.planning.request import PlanRequest
from discreet.privacy.accounting import rdp as rdp_module
from discreet.privacy.accounting.rdp import Array, epsilon_at, rdp_epsilon, sampled_gaussian_rdp
from discreet.privacy.events import PoissonSampledGaussian
from discreet.privacy.plan import Phase, Plan
from timing import hardware, seconds

EXAMPLE: dict[str, Any] = {
    "epsilon": 8,
    "delta": "4e-5",
    "initial": 10000,
    "queries": [3750] * 4,
    "batch": 4096,
    "epochs": 30,
}
OPACUS_ORDERS: Array = np.array([1 + x / 10.0 for x in range(1, 100)] + list(range(12, 64)), dtype=np.float64)
RESULT = Path(__file__).parent / "results" / "planning.md"


def opacus_epsilon(parts: list[tuple[float, float, float]], delta: float) -> float:
    """Epsilon of (rate, sigma, steps) parts as Opacus's analysis computes it."""
    from opacus.accountants.analysis import rdp

    total = sum(rdp.compute_rdp(q=q, noise_multiplier=s, steps=n, orders=list(OPACUS_ORDERS)) for q, s, n in parts)
    return float(rdp.get_privacy_spent(orders=list(OPACUS_ORDERS), rdp=total, delta=delta)[0])


def opacus_step(rate: float, sigma: float) -> Array:
    """RDP of one step by Opacus: the one thing the peer asks for at each probe."""
    from opacus.accountants.analysis import rdp

    return np.asarray(rdp.compute_rdp(q=rate, noise_multiplier=sigma, steps=1, orders=list(OPACUS_ORDERS)))


def bisect(low: float, high: float, high_is_safe: Callable[[float], bool], width: float) -> tuple[float, float]:
    """Halve a bracket geometrically until it is ``width`` (relative) wide."""
    while high / low > 1 + width:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if high_is_safe(middle) else (middle, high)
    return low, high


def opacus_search(ask: PlanRequest) -> tuple[float, list[int], list[tuple[float, ...]]]:
    """Step amplification by bisection, every probe priced by Opacus, histories kept: sigma, steps, rates."""
    delta, target = float(ask.budget.delta), float(ask.budget.epsilon)
    count = len(ask.sizes)
    rate = [ask.naive_rate(i) for i in range(count)]
    naive_steps = [ask.naive_steps(i) for i in range(count)]

    def naive_curves(sigma: float) -> Array:
        return np.cumsum([n * opacus_step(q, sigma) for q, n in zip(rate, naive_steps, strict=True)], axis=0)

    _, sigma = bisect(2.0, 8.0, lambda s: epsilon_at(naive_curves(s)[-1], delta, OPACUS_ORDERS) <= target, 1e-5)
    targets = [epsilon_at(curve, delta, OPACUS_ORDERS) for curve in naive_curves(sigma)]
    histories = [naive_steps[0] * opacus_step(rate[0], sigma)]
    steps = [naive_steps[0]]
    rates: list[tuple[float, ...]] = [(rate[0],)]
    for i in range(1, count):
        sizes = [float(ask.initial), *map(float, ask.queries[:i])]
        histories.append(np.zeros(OPACUS_ORDERS.size))
        finder = Finder(histories, sigma, targets[i], delta)
        low, high = bisect(naive_steps[i] * 0.9, naive_steps[i] * 2.0, finder.small_enough(sizes, ask.batch), 2e-3)
        n = round((low * high) ** 0.5)
        found = finder.rates(n)
        histories = [past + n * opacus_step(q, sigma) for past, q in zip(histories, found, strict=True)]
        steps.append(n)
        rates.append(tuple(found))
    return sigma, steps, rates


class Finder:
    """Rates of one phase by bisection, as the paper's get_sampleRate does."""

    def __init__(self, histories: list[Array], sigma: float, target: float, delta: float) -> None:
        self.histories, self.sigma, self.target, self.delta = histories, sigma, target, delta

    def rates(self, steps: float) -> list[float]:
        return [bisect(0.02, 1.0, self._too_much(past, steps), 1e-4)[0] for past in self.histories]

    def _too_much(self, past: Array, steps: float) -> Callable[[float], bool]:
        def probe(q: float) -> bool:
            curve = past + steps * opacus_step(q, self.sigma)
            return epsilon_at(curve, self.delta, OPACUS_ORDERS) > self.target

        return probe

    def small_enough(self, sizes: list[float], batch: int) -> Callable[[float], bool]:
        return lambda n: sum(q * k for q, k in zip(self.rates(n), sizes, strict=True)) <= batch


def limit(phases: tuple[Phase, ...]) -> None:
    """Price the final plan once."""
    for phase in phases:
        sampled_gaussian_rdp(np.array(phase.last.rates), phase.last.noise_multiplier, OPACUS_ORDERS)


def start_up(command: list[str]) -> float:
    return seconds(lambda: subprocess.run(command, check=True, capture_output=True))


def main() -> None:
    warnings.simplefilter("ignore")
    by_rdp = plan_request(**EXAMPLE, accountant="rdp")
    by_pld = plan_request(**EXAMPLE, selection_epsilon=2)
    ours, peer, least, tight = [], [], [], []
    made, theirs = make_plan(by_rdp), opacus_search(by_rdp)
    make_plan(by_pld)  # imports dp_accounting once, outside the clock
    for turn in range(3):
        peer.append(seconds(lambda: opacus_search(by_rdp)))
        for _ in range(7):
            ours.append(seconds(lambda: make_plan(by_rdp)))
            least.append(seconds(lambda: limit(made.phases)))
        _forget()
        tight.append(seconds(lambda: make_plan(by_pld)))
        print(f"turn {turn + 1} of 3", file=sys.stderr)
    numpy_scipy = [sys.executable, "-c", "import numpy, scipy.special"]
    discreet = str(Path(sys.executable).parent / "discreet")
    help_, plan_ = [discreet, "--help"], [discreet, "plan", "--preset", "dpal-cifar10", "--accountant", "rdp"]
    starts = [(start_up(numpy_scipy), start_up(help_), start_up(plan_)) for _ in range(9)]
    base, help_time, plan_time = (statistics.median(column) for column in zip(*starts, strict=True))
    our, their, floor, pld = (statistics.median(values) for values in (ours, peer, least, tight))
    _write(by_rdp, made, theirs, (our, their, floor, pld), (base, help_time, plan_time))


def _forget() -> None:
    from discreet.privacy.accounting import pld

    pld.single.cache_clear()
    rdp_module._sampled.cache_clear()


def _write(
    ask: PlanRequest,
    made: Plan,
    theirs: tuple[float, list[int], list[tuple[float, ...]]],
    times: tuple[float, float, float, float],
    starts: tuple[float, float, float],
) -> None:
    sigma, steps, rates = theirs
    pairs = [
        (a, b)
        for ours_, theirs_ in zip(made.phases, rates, strict=True)
        for a, b in zip(ours_.last.rates, theirs_, strict=True)
    ]
    gap = max(abs(a / b - 1) for a, b in pairs)
    check = rdp_epsilon(made.trajectories[0].trained, float(ask.budget.delta), OPACUS_ORDERS)
    same = opacus_epsilon(
        [
            (part.event.sampling_rate, part.event.noise_multiplier, part.count)
            for part in made.trajectories[0].training
            if isinstance(part.event, PoissonSampledGaussian)
        ],
        float(ask.budget.delta),
    )
    our, their, floor, pld = times
    base, help_time, plan_time = starts
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(
        f"""# Planning: speed and agreement

Made by `make bench` (benchmarks/planning.py): contenders interleaved in one process, medians. The example is the
DP-AL paper's: |D1| = 10,000, k = 3,750 x 4, b = 4,096, e = 30, (8, 4e-5).
{hardware()}

| step amplification by RDP | median | ratio |
|---|---|---|
| the same search, Opacus 1.6 at every probe | {their:.2f} s | 1 |
| discreet | {our * 1000:.0f} ms | **{their / our:.0f} times faster** |
| pricing the final plan once (nothing plans in less) | {floor * 1000:.1f} ms | {their / floor:.0f} |

| with tightening against PLD (selection epsilon 2, cold cache) | {pld:.1f} s |
|---|---|

| same answers | discreet | Opacus search |
|---|---|---|
| sigma | {made.noise_multiplier:.4f} | {sigma:.4f} |
| steps | {[p.steps for p in made.phases]} | {steps} |
| largest relative gap of a rate | {gap:.1e} | (brackets of 1e-4; remainder in its batch, our sigma) |
| epsilon of the first cohort, same events | {check:.9f} | {same:.9f} |

| start-up (median of 9) | seconds | ratio |
|---|---|---|
| `python -c "import numpy, scipy.special"` | {base:.2f} | 1 |
| `discreet --help` | {help_time:.2f} | {help_time / base:.2f} |
| `discreet plan --preset dpal-cifar10 --accountant rdp` | {plan_time:.2f} | {plan_time / base:.2f} |
""",
        encoding="utf-8",
    )
    print(RESULT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
