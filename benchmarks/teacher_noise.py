"""The noise that answers of teachers need: the paper's calibration beside the exact one. Writes a table.

python benchmarks/teacher_noise.py
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

from discreet.errors import InfeasiblePlan
from discreet.planning.pate import exact_multiplier, paper_multiplier, price_answers
from discreet.planning.pate.pricing import StablePrice
from discreet.privacy.budget import Budget

PAGE = Path(__file__).parent / "results" / "teacher-noise.md"
HEAD = """# The noise of teachers' answers

Made by benchmarks/teacher_noise.py. Noise multipliers of l Gaussian answers: the standard deviation on the sum of
binary votes; on each count of a class histogram it is sqrt(2) times as much. The exact calibration never needs more
than the paper's: a test tries it on random (l, epsilon, delta), and [the proof](../../docs/proofs/teachers.md) says
why.

| l | epsilon | delta | paper's | exact | ratio |
|---|---|---|---|---|---|
"""
SPARSE = """
Sparse vector, T unstable answers of l = 10,000 at delta 1e-6: lambda, the threshold w, and the least number of
teachers.

| T | epsilon | paper's lambda | w | teachers | exact lambda | w | teachers |
|---|---|---|---|---|---|---|---|
"""


def _stable(name: str, budget: Budget, unstable: int) -> StablePrice:
    price = price_answers(name, budget=budget, teachers=10**6, answers=10_000, unstable=unstable)
    assert isinstance(price, StablePrice)
    return price


def main() -> None:
    rows = []
    for answers, epsilon, delta in product((1, 100, 1_000, 10_000), (0.5, 1.0, 2.0, 4.0, 8.0), (1e-5, 1e-6, 1e-9)):
        paper, exact = paper_multiplier(answers, epsilon, delta), exact_multiplier(answers, epsilon, delta)
        rows.append(f"| {answers:,} | {epsilon:g} | {delta:g} | {paper:.5g} | {exact:.5g} | {exact / paper:.3f} |")
    sparse = []
    for unstable, epsilon in product((1, 20, 100, 500), (0.5, 1, 2, 4, 8)):
        budget, cells = Budget(epsilon=epsilon, delta="1e-6"), []
        for name in ("sparse-paper", "sparse"):
            try:
                price = _stable(name, budget, unstable)
                cells += [f"{price.spread:.4g}", f"{price.threshold:.0f}", f"{price.minimum_teachers:,}"]
            except InfeasiblePlan as refused:
                cells += ["", "", refused.nearest["teachers"]]
        sparse.append(f"| T={unstable} | {epsilon:g} | " + " | ".join(cells) + " |")
    PAGE.write_text(HEAD + "\n".join(rows) + "\n" + SPARSE + "\n".join(sparse) + "\n", encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
