"""`discreet bench`: experiments on public data, whose results are kept and made into tables and charts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.bench_compare import compare_command
from discreet.cli.bench_options import (
    FORMAT,
    RESULTS,
    Data,
    Json,
    Methods,
    Name,
    Problems,
    Results,
    Seeds,
    check_data,
)
from discreet.cli.bench_parts import cost_command, join_command
from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.bench import Experiment
    from discreet.bench.results import Row

bench_app = typer.Typer(
    name="bench",
    no_args_is_help=True,
    help="Experiments on public data: run them, resume them, and make tables of what came out.",
)

bench_app.command("compare")(compare_command)
bench_app.command("cost")(cost_command)
bench_app.command("join")(join_command)


@bench_app.command("list")
def list_command(as_json: Json = False) -> None:
    """Which experiments there are.

    Example: discreet bench list
    """
    from discreet.bench import EXPERIMENTS

    if as_json:
        told = [{"name": one.name, "about": one.about, "cases": len(one.cases())} for one in EXPERIMENTS.values()]
        print(json.dumps({"format": FORMAT, "simulation": True, "experiments": told}))  # noqa: T201
        return
    for one in EXPERIMENTS.values():
        typer.echo(f"{one.name:18} {len(one.cases()):4} cases  {one.about}")


@bench_app.command("run")
def run_command(
    name: Name,
    data: Data = None,
    results: Results = RESULTS,
    problem: Problems = None,
    method: Methods = None,
    seeds: Seeds = None,
    processes: Annotated[
        int | None, typer.Option(help="How many at once; default: one a core.", min=1, max=256)
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the cases of an experiment, or of a part of it, that are not finished yet. Stop it when you like; called
    again, it goes on.

    Example: discreet bench run try-out --results bench-results
    """
    from discreet.bench import experiment_named
    from discreet.bench.parts import part_of, sharing
    from discreet.bench.results import Store
    from discreet.bench.running import run_cases
    from discreet.cli.progress import InterruptedBetweenCases, counting

    chosen = experiment_named(name)
    check_data(data)
    cases = part_of(chosen, problems=problem or (), methods=method or (), seeds=seeds)
    store = Store(results, name)
    before = len({case.digest for case in cases} & store.done())
    try:
        with counting(name, len(cases)) as progress:
            failures = run_cases(
                store,
                cases,
                data=data,
                processes=processes or os.cpu_count() or 1,
                progress=progress,
                others=[Store(results, other) for other in sharing(chosen)],
            )
    except KeyboardInterrupt:
        raise InterruptedBetweenCases from None
    form = {
        "format": FORMAT,
        "simulation": True,
        "experiment": name,
        "cases": len(cases),
        "already_done": before,
        "failed": [{"case": failure.case, "why": failure.why} for failure in failures],
        "results": str(store.whole if not failures else store.pieces),
    }
    if as_json:
        print(json.dumps(form))  # noqa: T201
    else:
        typer.echo(f"{name}: {len(cases)} cases, {before} of them done before. Results: {form['results']}")
        for failure in failures:
            typer.echo(f"failed: {failure.case}: {failure.why}", err=True)
    if failures:
        raise typer.Exit(1)


@bench_app.command("table")
def table_command(
    name: Name,
    results: Results = RESULTS,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this file, too.")] = None,
    charts: Annotated[Path | None, typer.Option(help="Draw the charts into this directory.")] = None,
    as_json: Json = False,
) -> None:
    """Make tables and charts of results, and of nothing else; of an unfinished run, of what there is.

    Example: discreet bench table try-out --results bench-results --charts charts
    """
    from discreet.bench import experiment_named

    chosen = experiment_named(name)
    rows, missing = _rows(chosen, results)
    tables = chosen.tables(rows)
    if markdown is not None:
        markdown.write_text(_page(chosen, tables_text=[table.markdown() for table in tables], missing=missing))
    drawn = _draw(chosen, rows, charts) if charts is not None else []
    if as_json:
        form = {
            "format": FORMAT,
            "simulation": True,
            "experiment": name,
            "missing": missing,
            "tables": [table.to_json() for table in tables],
            "charts": [str(path) for path in drawn],
        }
        print(json.dumps(form))  # noqa: T201
        return
    for table in tables:
        typer.echo(table.markdown())
    if missing:
        typer.echo(f"{missing} cases are not finished: discreet bench run {name}", err=True)
    for path in drawn:
        typer.echo(f"drawn: {path}", err=True)


def _rows(chosen: Experiment, results: Path) -> tuple[list[Row], int]:
    """Rows of all finished cases, for as many seeds as were begun; and how many of those seeds' cases are missing."""
    from discreet.bench.results import Store

    store = Store(results, chosen.name)
    seeds = store.seeds()
    if not seeds:
        raise BadInput(
            f"a table of {chosen.name}",
            f"{results} has no results of it",
            f"Run discreet bench run {chosen.name} --results {results}",
        )
    cases = chosen.cases(range(seeds))
    rows = store.rows(cases)
    if not rows:
        raise BadInput(
            f"a table of {chosen.name}",
            "its results were made under other settings",
            f"Run discreet bench run {chosen.name}",
        )
    return rows, len(cases) - len({row["case"] for row in rows})


def _page(chosen: Experiment, *, tables_text: list[str], missing: int) -> str:
    note = f"\n{missing} cases are not finished.\n" if missing else ""
    made = f"Made by `discreet bench table {chosen.name}` of the results of `discreet bench run {chosen.name}`."
    return f"# {chosen.name}\n\n{chosen.about[0].upper()}{chosen.about[1:]}. {made}\n{note}\n" + "\n".join(tables_text)


def _draw(chosen: Experiment, rows: list[Row], place: Path) -> list[Path]:
    from discreet.bench.charts import draw
    from discreet.report.draw import require_matplotlib

    require_matplotlib()
    place.mkdir(parents=True, exist_ok=True)
    drawn = []
    for chart in chosen.charts(rows):
        path = place / f"{chart.name}.png"
        draw(chart, path)
        drawn.append(path)
    return drawn
