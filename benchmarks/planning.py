"""Speed of the step-amplification search, as ratios in one interleaved run.

The peer is the *same search* (same targets, same brackets, same order of decisions) asking Opacus 1.6 for the RDP of
every probe, as the DP-AL paper's code does. Both must give the same answer. The physical limit shown is the time to
evaluate, once, the divergences of the final plan (nothing can plan without pricing its own answer).

    python benchmarks/planning.py            # writes benchmarks/results/planning.md
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from discreet.api import plan_request
from discreet.planning import make_plan, spending
from discreet.planning import naive as naive_module
from discreet.planning import rates as rates_module
from discreet.planning.request import PlanRequest
from discreet.privacy.accounting import rdp as rdp_module
from discreet.privacy.accounting.rdp import rdp_epsilon
from discreet.privacy.accounting.sampled_gaussian import Array, sampled_gaussian_rdp
from discreet.privacy.plan import Phase

EXAMPLE = {
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


def opacus_search(ask: PlanRequest) -> tuple[float, list[int], list[tuple[float, ...]]]:
    """Step amplification by bisection, every probe priced by Opacus: sigma, steps, rates."""
    delta, target = float(ask.budget.delta), float(ask.budget.epsilon)
    naive = [(ask.naive_rate(i), float(ask.naive_steps(i))) for i in range(len(ask.sizes))]

    def bisect(low: float, high: float, safe_high: Callable[[float], bool], width: float) -> tuple[float, float]:
        while high / low > 1 + width:
            middle = (low * high) ** 0.5
            low, high = (low, middle) if safe_high(middle) else (middle, high)
        return low, high

    def naive_epsilon(sigma: float, count: int) -> float:
        return opacus_epsilon([(q, sigma, n) for q, n in naive[:count]], delta)

    _, sigma = bisect(0.5, 50.0, lambda s: naive_epsilon(s, len(naive)) <= target, 1e-4)
    targets = [naive_epsilon(sigma, i + 1) for i in range(len(naive))]
    histories: list[list[tuple[float, float, float]]] = [[(naive[0][0], sigma, naive[0][1])]]
    steps, rates = [int(naive[0][1])], [(naive[0][0],)]

    def phase_rates(i: int, n: float) -> list[float]:
        found = []
        for past in [*histories, []]:
            fits = lambda q, past=past: opacus_epsilon([*past, (q, sigma, n)], delta) > targets[i]  # noqa: E731
            found.append(bisect(1e-4, 1.0, fits, 1e-4)[0])
        return found

    for i in range(1, len(naive)):
        sizes = [float(ask.initial), *map(float, ask.queries[:i])]
        batch = lambda n, i=i, sizes=sizes: sum(q * k for q, k in zip(phase_rates(i, n), sizes, strict=True))  # noqa: E731
        low, high = bisect(naive[i][1] * 0.8, naive[i][1] * 2.5, lambda n: batch(n) <= ask.batch, 2e-3)
        n = round((low * high) ** 0.5)
        q = phase_rates(i, n)
        histories = [[*past, (rate, sigma, float(n))] for past, rate in zip([*histories, []], q, strict=True)]
        steps.append(n)
        rates.append(tuple(q))
    return sigma, steps, rates


def with_opacus_orders() -> None:
    """Plan with Opacus's orders, so that both searches answer the same question."""
    for module in (naive_module, spending, rdp_module):
        module.ORDERS = OPACUS_ORDERS  # type: ignore[attr-defined]


def limit(phases: tuple[Phase, ...]) -> None:
    """Price the final plan once."""
    for phase in phases:
        sampled_gaussian_rdp(np.array(phase.last.rates), phase.last.noise_multiplier, OPACUS_ORDERS)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def start_up(command: list[str]) -> float:
    return timed(lambda: subprocess.run(command, check=True, capture_output=True))


def main() -> None:
    warnings.simplefilter("ignore")
    by_rdp = plan_request(**EXAMPLE, accountant="rdp")
    by_pld = plan_request(**EXAMPLE, selection_epsilon=2)
    ours, peer, least, tight = [], [], [], []
    made, theirs = make_plan(by_rdp), opacus_search(by_rdp)
    make_plan(by_pld)  # imports dp_accounting once, outside the clock
    for turn in range(3):
        peer.append(timed(lambda: opacus_search(by_rdp)))
        for _ in range(7):
            ours.append(timed(lambda: make_plan(by_rdp)))
            least.append(timed(lambda: limit(made.phases)))
        _forget()
        tight.append(timed(lambda: make_plan(by_pld)))
        print(f"turn {turn + 1} of 3", file=sys.stderr)
    numpy_scipy = [sys.executable, "-c", "import numpy, scipy.special"]
    discreet = str(Path(sys.executable).parent / "discreet")
    help_, plan_ = [discreet, "--help"], [discreet, "plan", "--preset", "dpal-cifar10", "--accountant", "rdp"]
    starts = [(start_up(numpy_scipy), start_up(help_), start_up(plan_)) for _ in range(9)]
    base, help_time, plan_time = (statistics.median(column) for column in zip(*starts, strict=True))
    _write(by_rdp, made, theirs, ours, peer, least, tight, (base, help_time, plan_time))


def _forget() -> None:
    from discreet.privacy.accounting import pld

    pld.single.cache_clear()
    rdp_module._sampled.cache_clear()


def _write(ask, made, theirs, ours, peer, least, tight, starts) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    sigma, steps, rates = theirs
    pairs = [
        (a, b)
        for ours_, theirs_ in zip(made.phases, rates, strict=True)
        for a, b in zip(ours_.last.rates, theirs_, strict=True)
    ]
    gap = max(abs(a / b - 1) for a, b in pairs)
    check = rdp_epsilon(made.trajectories[0].trained, float(ask.budget.delta), OPACUS_ORDERS)
    same = opacus_epsilon(
        [(p.event.sampling_rate, p.event.noise_multiplier, p.count) for p in made.trajectories[0].training],
        float(ask.budget.delta),
    )
    our, their, floor, pld = (statistics.median(values) for values in (ours, peer, least, tight))
    base, help_time, plan_time = starts
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(
        f"""# Planning: speed and agreement

Made by `make bench` (benchmarks/planning.py): contenders interleaved in one process, medians. The example is the
DP-AL paper's: |D1| = 10,000, k = 3,750 x 4, b = 4,096, e = 30, (8, 4e-5).
Hardware: {platform.machine()}, 2 cores, no GPU, Python {platform.python_version()}.

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
| largest relative gap of a rate | {gap:.1e} | (its brackets are 1e-4 wide) |
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
