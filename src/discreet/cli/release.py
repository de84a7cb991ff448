"""`discreet release`: release the texts of a log that enough people have, or print which settings give which
guarantee.
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import JsonOption
from discreet.errors import BadInput, InfeasiblePlan
from discreet.privacy.budget import Budget, json_number

if TYPE_CHECKING:
    from discreet.gates import CrowdGate, Released
    from discreet.gates.published_bounds import Cell
    from discreet.gates.release_files import ReleaseFile

_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def release_command(
    queries: Annotated[
        list[Path] | None,
        typer.Argument(help="The log: Parquet, CSV or JSONL (.gz, .zst), or directories of them.", show_default=False),
    ] = None,
    text: Annotated[str | None, typer.Option(help="The column of texts.", show_default=False)] = None,
    person: Annotated[
        str | None, typer.Option(help="The column of persons. Without it rows are protected, not people.")
    ] = None,
    values: Annotated[
        int, typer.Option("--max-values-per-person", help="How many texts a person brings, at most.", min=1)
    ] = 1,
    row_id: Annotated[
        str | None, typer.Option(help="Without persons: a column that names rows; else (file, row number).")
    ] = None,
    k: Annotated[int | None, typer.Option("--k", help="How many units must keep a text.", show_default=False)] = None,
    beta: Annotated[float | None, typer.Option(help="The coin of each unit: below 1.", show_default=False)] = None,
    epsilon: Annotated[str | None, typer.Option(help="What a unit may lose.", show_default=False)] = None,
    delta: Annotated[str | None, typer.Option(help="The chance that this fails.", show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write here: .parquet, .csv or .jsonl. Never over a file.", show_default=False)
    ] = None,
    counts: Annotated[bool, typer.Option("--counts", help="Show how many units kept each text.")] = False,
    annotators: Annotated[
        int | None, typer.Option(help="A column that says how many people each row is meant for.", min=1)
    ] = None,
    engine: Annotated[str, typer.Option(help="local or spark.")] = "local",
    memory: Annotated[
        str | None, typer.Option(help="local: count in about so much memory, such as 512M, by reading the log twice.")
    ] = None,
    normalise: Annotated[
        str, typer.Option(help="Steps before counting: nfkc, case, whitespace, module:function; or none.")
    ] = "nfkc,case,whitespace",
    ledger: Annotated[
        Path | None, typer.Option(help="Charge this ledger, or create it; else one beside the output.")
    ] = None,
    owner: Annotated[
        bool, typer.Option("--owner", help="Say on standard error what the owner alone may know: rows read, broken.")
    ] = False,
    table: Annotated[bool, typer.Option("--table", help="Print which k and beta give which guarantee.")] = False,
    simulation_seed: Annotated[
        int | None, typer.Option(min=0, help="Draw from a seed: for trying out. Its result is marked as a simulation.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Release the texts that at least k people kept, each by a secret coin, once each. Audience: public.

    Refused, before anything is charged, when k and beta do not keep epsilon and delta. Charged before a coin is
    tossed; killed, the same command makes the same release, and never tosses the same coins for another log.

    Example: discreet release log.parquet --text query --person user --k 100 --beta 0.3 --epsilon 0.5 --delta 1e-9
    --out to_label.parquet
    """
    if table:
        show_table(as_json=as_json)
        return
    from discreet.cli.progress import interruptible, watching
    from discreet.gates import CrowdGate, open_log
    from discreet.gates.release_files import ReleaseFile, release_to_file
    from discreet.noise import source_of

    needed: dict[str, Any] = {"QUERIES": queries, "--text": text, "--k": k, "--beta": beta}
    needed |= {"--epsilon": epsilon, "--delta": delta, "--out": out}
    missing = [name for name, value in needed.items() if value in (None, "", [])]
    if missing:
        raise BadInput("a release", f"{', '.join(missing)} is not given", "See discreet release --help")
    assert queries and text and out  # noqa: PT018 - for the type checker
    assert k is not None
    assert beta is not None
    assert epsilon is not None
    assert delta is not None
    if person is None and values != 1:
        raise BadInput(f"--max-values-per-person {values}", "no person is known", "Give --person, or drop it")
    size = None if memory is None else _bytes(memory)
    gate = CrowdGate(k=k, beta=beta, values=values, counts=counts, normalisation=normalise, persons=person is not None)
    budget = Budget(epsilon=epsilon, delta=delta, unit=gate.unit)
    where = ReleaseFile(out=out, text=text, annotators=annotators, ledger=ledger)
    where.check_free()
    check_guarantee(gate, budget)
    log = open_log(queries, text=text, person=person, row_id=row_id)
    source = source_of(simulation_seed)
    with watching() as progress, interruptible():
        released = release_to_file(
            gate, log, where, budget=budget, source=source, engine=_engine(engine), memory=size, progress=progress
        )
    form = _form(gate, released, budget, where)
    typer.echo(json.dumps(form) if as_json else _words(form))
    if owner:
        typer.echo(json.dumps({"audience": "owner", **released.figures.to_json()}), err=True)


def _engine(name: str) -> Any:
    if name not in ("local", "spark"):
        raise BadInput(f"--engine {name}", "there is none of that name", "Choose local or spark")
    return name


def _bytes(size: str) -> int:
    match = re.fullmatch(r"(\d{1,12})([KMG]?)(i?B)?", size, re.ASCII | re.IGNORECASE)
    if match is None:
        raise BadInput(f"--memory {size}", "it is not a size", "Try --memory 512M")
    return int(match[1]) * _SIZES[match[2].upper()]


def check_guarantee(gate: CrowdGate, budget: Budget) -> None:
    """Refuse a setting without the requested guarantee, and name what would have it."""
    from discreet.gates import Profile
    from discreet.gates.calibration import nearest

    if not 0 < budget.delta < 1:
        raise BadInput(f"--delta {budget.delta}", "no gate has such a guarantee", "Give a chance far below 1/units")
    profile = Profile(k=gate.k, beta=gate.beta, values=gate.values)
    epsilon, delta = float(budget.epsilon), float(budget.delta)
    if profile.meets(epsilon, delta):
        return
    would = nearest(profile, epsilon, delta)
    options = [f"{name} {value}" for name, value in would.items()]
    setting = f"k={gate.k}, beta={gate.beta:g}" + (f", {gate.values} values a person" if gate.values > 1 else "")
    raise InfeasiblePlan(
        f"releasing with {setting} at epsilon {budget.epsilon}, delta {budget.delta}",
        "they do not give that guarantee",
        f"One of these would: {', '.join(options)}" if options else "Raise k, or lower beta",
        would,
    )


def _form(gate: CrowdGate, released: Released, budget: Budget, where: ReleaseFile) -> dict[str, Any]:
    from discreet.gates import Profile
    from discreet.gates.gate import NOT_GUARANTEED
    from discreet.privacy.event_forms import to_json

    profile = Profile(k=gate.k, beta=gate.beta, values=gate.values)
    return {
        "format": "discreet.release/1",
        "simulation": released.simulation,
        "released": len(released),
        "out": where.out.name,
        "ledger": where.book.name,
        "unit": gate.unit,
        "epsilon": json_number(budget.epsilon),
        "delta": json_number(budget.delta),
        "costs": {"epsilon": profile.epsilon(float(budget.delta)), "delta": profile.delta(float(budget.epsilon))},
        "event": to_json(released.event),
        "not_promised": None if gate.persons else NOT_GUARANTEED,
    }


def _words(form: dict[str, Any]) -> str:
    note = " A simulation: it proves nothing about people." if form["simulation"] else ""
    lines = [
        f"{form['released']} texts released to {form['out']}, for a crowd to see.",
        f"Every {form['unit']} is guaranteed epsilon {form['epsilon']}, delta {form['delta']} (zero-out, both ways); "
        f"at this delta the release costs epsilon {form['costs']['epsilon']:.6g}. Charged to {form['ledger']}.{note}",
    ]
    if form["not_promised"]:
        lines.append(f"NOT guaranteed: {form['not_promised']}.")
    return "\n".join(lines)


_MARKS = {(True, True): "x", (False, True): "+", (True, False): "!", (False, False): "."}
"""(the paper shades it, it is so)."""


def show_table(*, as_json: bool) -> None:
    """Print all 256 cells."""
    from discreet.gates.published_bounds import BETAS, EPSILONS, cells

    table = list(cells())
    if as_json:
        form = {
            "format": "discreet.release-table/1",
            "simulation": False,
            "cells": [vars(cell) | {"holds": cell.holds, "by_theorem": cell.by_theorem} for cell in table],
        }
        typer.echo(json.dumps(form))
        return
    typer.echo("Which k and beta keep (epsilon, delta): Table 1 of Feyisetan et al. (2019) beside exact values.")
    typer.echo("x shaded there, and so   + so, though not shaded   ! shaded, though not so   . neither\n")
    heads = "".join(f" epsilon {epsilon:<12g}" for epsilon in EPSILONS)
    betas = "".join(" " + "".join(f"{beta:<5g}" for beta in BETAS) for _ in EPSILONS)
    for delta, rows in groupby(table, key=lambda cell: cell.delta):
        typer.echo(f"delta {delta:<8g}{heads}".rstrip())
        typer.echo(f"          beta{betas}".rstrip())
        for k, row in groupby(rows, key=lambda cell: cell.k):
            typer.echo(f"     k {k:<7d}{_line(list(row), len(BETAS))}".rstrip())
        typer.echo("")
    more = sum(cell.holds and not cell.shaded for cell in table)
    less = sum(cell.shaded and not cell.holds for cell in table)
    theorem = sum(cell.by_theorem for cell in table)
    holds = sum(cell.holds for cell in table)
    typer.echo(
        f"{holds} of {len(table)} cells keep the guarantee, {theorem} by the older theorem; "
        f"the paper shades {less} that do not, and leaves {more} out that do."
    )


def _line(row: list[Cell], width: int) -> str:
    parts = [row[start : start + width] for start in range(0, len(row), width)]
    return "".join(" " + "".join(f"{_MARKS[cell.shaded, cell.holds]:<5}" for cell in part) for part in parts)
