"""The attack on private selection, with 10^6 runs of each world for every case, and with every planted mistake.

python benchmarks/selection_attack.py    # writes docs/reference/selection-attack.md; some minutes on two cores
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from pathlib import Path

from discreet_research.selection_attacks.planted_selections import planted_mistakes
from discreet_research.selection_attacks.selection_attack import PathLoss, SelectionAttack, SelectionClaim
from discreet_research.selection_attacks.selection_cases import selection_cases

RESULT = Path(__file__).parents[1] / "docs" / "reference" / "selection-attack.md"
RUNS, PLANTED_RUNS = 10**6, 10**5
Ways = ("forward", "backward")
Found = tuple[SelectionAttack, SelectionClaim]


def case(place: int) -> Found:
    return selection_cases()[place].attacked(runs=RUNS)


def mistake(place: int) -> Found:
    return planted_mistakes()[place].attacked(runs=PLANTED_RUNS)


def number(value: float) -> str:
    return "none" if value == float("-inf") else f"{value:.3f}".replace("-0.000", "0.000")


def tightest(found: SelectionAttack, claim: SelectionClaim) -> str:
    """The path and direction in which the largest share of a claim above 0 was proved."""
    shares = [
        (getattr(mine, way) / getattr(theirs, way), mine.name, way, getattr(mine, way), getattr(theirs, way))
        for mine, theirs in zip(found.paths, claim.paths, strict=True)
        for way in Ways
        if getattr(theirs, way) > 0
    ]
    share, name, way, proved, claimed = max(shares)
    return f"{name}, {way}: {proved:.3f} of {claimed:.3f} ({share:.0%})"


def worst(found: SelectionAttack, claim: SelectionClaim) -> str:
    """Where a claim is broken by most."""
    pairs: list[tuple[PathLoss, PathLoss]] = list(zip(found.paths, claim.paths, strict=True))
    over = [
        (getattr(mine, way) - getattr(theirs, way), f"{mine.name}, {way}", getattr(mine, way), getattr(theirs, way))
        for mine, theirs in pairs
        for way in Ways
    ]
    _, where, proved, claimed = max(over)
    return f"{where} | {proved:.3f} | {claimed:.3f} | {'**missed**' if found.within(claim) else 'caught'}"


def case_row(name: str, found: SelectionAttack, claim: SelectionClaim) -> str:
    ways = [f"{number(getattr(found.whole, way))} of {getattr(claim.whole, way):.3f}" for way in Ways]
    queries = sum(loss.name.startswith("asked") and "below" not in loss.name for loss in claim.paths)
    held = "holds" if found.within(claim) else "**broken**"
    return f"| {name} | {queries} | {ways[0]} | {ways[1]} | {tightest(found, claim)} | {held} |"


def cases() -> list[str]:
    names = [one.name for one in selection_cases()]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(case, range(len(names)), chunksize=1)
    return [
        f"## What was proved, {RUNS:,} runs of each world",
        "",
        "| case | queries | forward, of the claim | backward, of the claim | tightest path | claim |",
        "|---|---|---|---|---|---|",
        *(case_row(name, *one) for name, one in zip(names, found, strict=True)),
    ]


def planted() -> list[str]:
    names = [one.name for one in planted_mistakes()]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(mistake, range(len(names)), chunksize=1)
    return [
        f"## Planted mistakes, {PLANTED_RUNS:,} runs of each world",
        "",
        "| mistake | where most was proved | proved | claimed | |",
        "|---|---|---|---|---|",
        *(f"| {name} | {worst(*one)} |" for name, one in zip(names, found, strict=True)),
    ]


def main() -> None:
    began = time.monotonic()
    parts = {"cases": cases, "planted": planted}
    for part in sys.argv[1:] or parts:
        mark = f"<!-- {part}: written by benchmarks/selection_attack.py -->\n"
        before, _, after = RESULT.read_text(encoding="utf-8").partition(mark)
        rest = after.partition(mark)[2]
        RESULT.write_text(f"{before}{mark}\n" + "\n".join(parts[part]()) + f"\n\n{mark}{rest}", encoding="utf-8")
    print(f"{RESULT.name}: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
