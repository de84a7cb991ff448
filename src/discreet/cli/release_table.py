"""The paper's Table 1 beside what is so: which k and beta keep which (epsilon, delta)."""

from __future__ import annotations

import json
from itertools import groupby

import typer

from discreet.gates.paper_table import BETAS, EPSILONS, Cell, cells

FORMAT = "discreet.release-table/1"
_MARKS = {(True, True): "x", (False, True): "+", (True, False): "!", (False, False): "."}
"""(the paper shades it, it is so)."""


def show_table(*, as_json: bool) -> None:
    """Print all 256 cells."""
    found = list(cells())
    if as_json:
        form = {"format": FORMAT, "simulation": False, "cells": [_form(cell) for cell in found]}
        typer.echo(json.dumps(form))
        return
    typer.echo("Which k and beta keep (epsilon, delta): Table 1 of Feyisetan et al. (2019) beside exact values.")
    typer.echo("x shaded there, and so   + so, though not shaded   ! shaded, though not so   . neither\n")
    heads = "".join(f" epsilon {epsilon:<12g}" for epsilon in EPSILONS)
    betas = "".join(" " + "".join(f"{beta:<5g}" for beta in BETAS) for _ in EPSILONS)
    for delta, rows in groupby(found, key=lambda cell: cell.delta):
        typer.echo(f"delta {delta:<8g}{heads}".rstrip())
        typer.echo(f"          beta{betas}".rstrip())
        for k, row in groupby(rows, key=lambda cell: cell.k):
            typer.echo(f"     k {k:<7d}{_line(list(row))}".rstrip())
        typer.echo("")
    more = sum(cell.holds and not cell.shaded for cell in found)
    less = sum(cell.shaded and not cell.holds for cell in found)
    theorem = sum(cell.by_theorem for cell in found)
    holds = sum(cell.holds for cell in found)
    typer.echo(
        f"{holds} of {len(found)} cells keep the promise, {theorem} by the older theorem; "
        f"the paper shades {less} that do not, and leaves {more} out that do."
    )


def _line(row: list[Cell]) -> str:
    parts = [row[start : start + len(BETAS)] for start in range(0, len(row), len(BETAS))]
    return "".join(" " + "".join(f"{_MARKS[cell.shaded, cell.holds]:<5}" for cell in part) for part in parts)


def _form(cell: Cell) -> dict[str, float | int | bool | None]:
    return {**cell.__dict__, "holds": cell.holds, "by_theorem": cell.by_theorem}
