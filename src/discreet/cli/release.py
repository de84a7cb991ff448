"""`discreet release`: what of a log may be shown to a crowd."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.gates import CrowdGate, Released
    from discreet.gates.release_files import ReleaseFile
    from discreet.privacy.budget import Budget

FORMAT = "discreet.release/1"
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
    table: Annotated[bool, typer.Option("--table", help="Print which k and beta keep which promise.")] = False,
    simulation_seed: Annotated[
        int | None, typer.Option(min=0, help="Draw from a seed: for trying out. Its result is marked as a simulation.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Release the texts that at least k people kept, each by a secret coin, once each. Audience: world.

    Refused, before anything is charged, when k and beta do not keep epsilon and delta. Charged before a coin is
    tossed; killed, the same command makes the same release, and never tosses the same coins for another log.

    Example: discreet release log.parquet --text query --person user --k 100 --beta 0.3 --epsilon 0.5 --delta 1e-9
    --out to_label.parquet
    """
    if table:
        from discreet.cli.release_table import show_table

        show_table(as_json=as_json)
        return
    from discreet.cli.progress import going_on, watching
    from discreet.gates import CrowdGate, open_log
    from discreet.gates.release_files import ReleaseFile, release_to_file
    from discreet.noise import OperatingSystem, Seeded
    from discreet.privacy.budget import Budget

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
    check_promise(gate, budget)
    log = open_log(queries, text=text, person=person, row_id=row_id)
    source = OperatingSystem() if simulation_seed is None else Seeded(simulation_seed)
    with watching() as told, going_on():
        found = release_to_file(
            gate, log, where, budget=budget, source=source, engine=_engine(engine), memory=size, told=told
        )
    form = _form(gate, found, budget, where)
    typer.echo(json.dumps(form) if as_json else _words(form))
    if owner:
        typer.echo(json.dumps({"audience": "owner", **found.figures.to_json()}), err=True)


def _engine(name: str) -> Any:
    if name not in ("local", "spark"):
        raise BadInput(f"--engine {name}", "there is none of that name", "Choose local or spark")
    return name


def _bytes(size: str) -> int:
    found = re.fullmatch(r"(\d{1,12})([KMG]?)(i?B)?", size, re.ASCII | re.IGNORECASE)
    if found is None:
        raise BadInput(f"--memory {size}", "it is not a size", "Try --memory 512M")
    return int(found[1]) * _SIZES[found[2].upper()]


def check_promise(gate: CrowdGate, budget: Budget) -> None:
    """Refuse a setting that does not keep the promise, and name what would."""
    from discreet.errors import InfeasiblePlan
    from discreet.gates import Profile
    from discreet.gates.calibrate import nearest

    if not 0 < budget.delta < 1:
        raise BadInput(f"--delta {budget.delta}", "no gate keeps such a promise", "Give a chance far below 1/units")
    profile = Profile(k=gate.k, beta=gate.beta, values=gate.values)
    epsilon, delta = float(budget.epsilon), float(budget.delta)
    if profile.meets(epsilon, delta):
        return
    would = nearest(profile, epsilon, delta)
    said = [f"{name} {value}" for name, value in would.items()]
    setting = f"k={gate.k}, beta={gate.beta:g}" + (f", {gate.values} values a person" if gate.values > 1 else "")
    raise InfeasiblePlan(
        f"releasing with {setting} at epsilon {budget.epsilon}, delta {budget.delta}",
        "they do not keep that promise",
        f"One of these would: {', '.join(said)}" if said else "Raise k, or lower beta",
        would,
    )


def _form(gate: CrowdGate, found: Released, budget: Budget, where: ReleaseFile) -> dict[str, Any]:
    from discreet.gates import Profile
    from discreet.gates.gate import NOT_PROMISED
    from discreet.privacy.event_forms import to_json
    from discreet.privacy.exact import json_number

    profile = Profile(k=gate.k, beta=gate.beta, values=gate.values)
    return {
        "format": FORMAT,
        "simulation": found.simulation,
        "released": len(found),
        "out": where.out.name,
        "ledger": where.book.name,
        "unit": gate.unit,
        "epsilon": json_number(budget.epsilon),
        "delta": json_number(budget.delta),
        "costs": {"epsilon": profile.epsilon(float(budget.delta)), "delta": profile.delta(float(budget.epsilon))},
        "event": to_json(found.event),
        "not_promised": None if gate.persons else NOT_PROMISED,
    }


def _words(form: dict[str, Any]) -> str:
    note = " A simulation: it proves nothing about people." if form["simulation"] else ""
    lines = [
        f"{form['released']} texts released to {form['out']}, for a crowd to see.",
        f"Every {form['unit']} is promised epsilon {form['epsilon']}, delta {form['delta']} (zero-out, both ways); "
        f"at this delta the release costs epsilon {form['costs']['epsilon']:.6g}. Charged to {form['ledger']}.{note}",
    ]
    if form["not_promised"]:
        lines.append(f"NOT promised: {form['not_promised']}.")
    return "\n".join(lines)
