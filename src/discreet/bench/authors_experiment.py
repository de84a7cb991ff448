"""What the authors' rules cost and give: a plan by their code beside ours, for the same selection and epsilon.

On banking77, by entropy. *Laplace* is their selection in a plan of ours, certified by privacy loss distributions;
*authors' rules* is the same selection in a plan of theirs, which is priced anew and claims what it costs.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.bench.against_random import summary_table
from discreet.bench.paper_problems import AUTHORS, BANKING, LAPLACE, authors_rules, baselines, laplace, with_epsilon
from discreet.bench.paper_tables import SELECTION_EPSILONS, Blocks
from discreet.bench.results import Row, values_in
from discreet.bench.tables import Table

AUTHORS_BLOCKS: Blocks = tuple(
    (
        (with_epsilon(BANKING, epsilon),),
        (baselines()[0], baselines()[2], laplace("entropy", selection), authors_rules("entropy", selection)),
    )
    for epsilon, selection in SELECTION_EPSILONS.items()
)


def authors_tables(rows: Sequence[Row]) -> list[Table]:
    """Costs, then accuracies."""
    return [_costs(rows), summary_table(rows, "Accuracy")]


def _costs(rows: Sequence[Row]) -> Table:
    lines = []
    for problem in values_in(rows, "problem"):
        asked = problem.rpartition("eps ")[2]
        for row in {row["method"]: row for row in rows if row["problem"] == problem}.values():
            kind = next((kind for kind in (LAPLACE, AUTHORS) if kind in row["method"]), None)
            if kind is None:
                continue
            by_rdp = row.get("claimed_rdp")
            told = "-" if by_rdp is None else f"{by_rdp:.3f}" + (" **passes it**" if by_rdp > float(asked) else "")
            passed = " **passes it**" if row["claimed_epsilon"] > float(asked) else ""
            lines.append((problem, row["method"], asked, told, f"{row['claimed_epsilon']:.3f}{passed}"))
    return Table(
        title="What the plans cost",
        columns=("problem", "method", "asked for", "by RDP, as the authors account", "by PLD"),
        rows=tuple(lines),
        note="The worst cohort, selection included. The authors' code plans by RDP and passes what it was asked for by "
        "its own accounting; it is not certified. PLD is tighter than RDP, and what it leaves over may hide that. "
        "Plans of ours are made to end at the budget by PLD.",
    )
