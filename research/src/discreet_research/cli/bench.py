"""`discreet bench`: run experiments on public data, compare them, and make tables and charts of their results."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.simulation.results import Row, Store
    from discreet_research.bench import Experiment
    from discreet_research.bench.cases import GridCase


FORMAT = "discreet.bench/1"
RESULTS = Path("bench-results")

Name = Annotated[str, typer.Argument(help="An experiment; see discreet bench list.", show_default=False)]
Results = Annotated[Path, typer.Option("--results", help="Where results are kept.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="A directory with a directory for each set of data; digits need none."),
]
Problems = Annotated[
    list[str] | None, typer.Option("--problem", help="Only problems with this in their names; may be repeated.")
]
Methods = Annotated[
    list[str] | None, typer.Option("--method", help="Only methods with this in their names; may be repeated.")
]
Seeds = Annotated[
    str | None,
    typer.Option("--seeds", help="How many seeds (5), or which (3-4, or 0,2); default: the experiment's own."),
]


def _print(form: dict[str, Any], *, kind: str = FORMAT) -> None:
    print(json.dumps({"format": kind, "simulation": True} | form))  # noqa: T201


def _cases(
    chosen: Experiment, data: Path | None, problem: list[str] | None, method: list[str] | None, seeds: str | None
) -> list[GridCase]:
    """The part of an experiment that is asked for, of data that are there."""
    from discreet_research.bench.parts import part_of

    if data is not None and not data.is_dir():
        raise BadInput(f"--data {data.name}", "there is no such directory", "Check the path")
    return part_of(chosen, problems=problem or (), methods=method or (), seeds=seeds)


def _begun(store: Store, asked: str) -> int:
    """How many seeds there are results of; refuses none."""
    seeds = store.seeds()
    if not seeds:
        run = f"Run discreet bench run {store.name} --results {store.directory}"
        raise BadInput(asked, f"{store.directory} has no results of it", run)
    return seeds


bench_app = typer.Typer(
    name="bench",
    no_args_is_help=True,
    help="Experiments on public data: run them, resume them, and make tables of what came out.",
)


@bench_app.command("list")
def list_command(as_json: Json = False) -> None:
    """Which experiments there are.

    Example: discreet bench list
    """
    from discreet_research.bench import EXPERIMENTS

    if as_json:
        forms = [
            {"name": experiment.name, "about": experiment.about, "cases": len(experiment.cases())}
            for experiment in EXPERIMENTS.values()
        ]
        _print({"experiments": forms})
    else:
        for experiment in EXPERIMENTS.values():
            typer.echo(f"{experiment.name:18} {len(experiment.cases()):4} cases  {experiment.about}")


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
    from discreet.cli.progress import BETWEEN_CASES, counting, interruptible
    from discreet.simulation.results import Store
    from discreet.simulation.runner import run_cases
    from discreet_research.bench import experiment_named
    from discreet_research.bench.parts import sharing

    chosen = experiment_named(name)
    cases, store = _cases(chosen, data, problem, method, seeds), Store(results, name)
    before = len({case.digest for case in cases} & store.done())
    with interruptible(BETWEEN_CASES), counting(name, len(cases)) as progress:
        failures = run_cases(
            store,
            cases,
            data=data,
            processes=processes or os.cpu_count() or 1,
            progress=progress,
            others=[Store(results, other) for other in sharing(chosen)],
        )
    place = str(store.pieces if failures else store.whole)
    if as_json:
        failed = [{"case": failure.case, "why": failure.why} for failure in failures]
        counts = {"experiment": name, "cases": len(cases), "already_done": before}
        _print(counts | {"failed": failed, "results": place})
    else:
        typer.echo(f"{name}: {len(cases)} cases, {before} of them done before. Results: {place}")
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
    from discreet_research.bench import experiment_named

    chosen = experiment_named(name)
    rows, missing = _rows(chosen, results)
    tables = chosen.all_tables(rows)
    if markdown is not None:
        markdown.write_text(_page(chosen, tables_text=[table.markdown() for table in tables], missing=missing))
    drawn = _draw(chosen, rows, charts) if charts is not None else []
    if as_json:
        made = {"tables": [table.to_json() for table in tables], "charts": [str(path) for path in drawn]}
        _print({"experiment": name, "missing": missing} | made)
        return
    for table in tables:
        typer.echo(table.markdown())
    if missing:
        typer.echo(f"{missing} cases are not finished: discreet bench run {name}", err=True)
    for path in drawn:
        typer.echo(f"drawn: {path}", err=True)


def _rows(chosen: Experiment, results: Path) -> tuple[list[Row], int]:
    """Rows of all finished cases, for as many seeds as were begun; and how many of those seeds' cases are missing."""
    from discreet.simulation.results import Store

    store = Store(results, chosen.name)
    cases = chosen.cases(range(_begun(store, f"a table of {chosen.name}")))
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
    origin = f"Made by `discreet bench table {chosen.name}` of the results of `discreet bench run {chosen.name}`."
    return f"# {chosen.name}\n\n{chosen.about[0].upper()}{chosen.about[1:]}. {origin}\n{note}\n" + "\n".join(
        tables_text
    )


def _draw(chosen: Experiment, rows: list[Row], folder: Path) -> list[Path]:
    from discreet.report.plan_figure import require_matplotlib
    from discreet.simulation.results import draw

    require_matplotlib()
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {folder / f"{chart.name}.png": chart for chart in chosen.charts(rows)}
    for path, chart in drawn.items():
        draw(chart, path)
    return list(drawn)


# `discreet bench cost` and `discreet bench join`: what a part of an experiment takes, and parts put together.


@bench_app.command("cost")
def cost_command(
    name: Name,
    data: Data = None,
    results: Results = RESULTS,
    problem: Problems = None,
    method: Methods = None,
    seeds: Seeds = None,
    as_json: Json = False,
) -> None:
    """What an experiment takes: gradients before it runs, CPU seconds of what has run. Makes plans, and keeps them.

    Example: discreet bench cost try-out --results bench-results
    """
    from discreet.simulation.results import Store
    from discreet_research.bench import experiment_named
    from discreet_research.bench.parts import cost_table, costs_of, total_of

    cases = _cases(experiment_named(name), data, problem, method, seeds)
    costs = costs_of(Store(results, name), cases, data)
    if as_json:
        _print({"experiment": name, "total": total_of(costs), "costs": [asdict(cost) for cost in costs]})
    else:
        typer.echo(cost_table(name, costs).markdown())


@bench_app.command("join")
def join_command(
    name: Name,
    parts: Annotated[list[Path], typer.Option("--from", help="Another directory of results; may be repeated.")],
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Put together what several machines have run of an experiment. Cases that are here already stay as they are.

    Example: discreet bench join try-out --from other-results --results bench-results
    """
    from discreet.simulation.results import Store
    from discreet.simulation.runner import alone
    from discreet_research.bench import experiment_named

    chosen = experiment_named(name)
    others = [Store(folder, name) for folder in parts]
    for folder, other in zip(parts, others, strict=True):
        if not other.whole.exists() and not other.pieces.is_dir():
            raise BadInput(
                f"joining {folder.name}", f"it has no results of {name}", "Give the directory of its bench run"
            )
    store = Store(results, name)
    with alone(store):
        seeds = max([store.seeds(), *(other.seeds() for other in others), chosen.seeds])
        count = store.take(others, chosen.cases(range(seeds)))
        store.gather()
    if as_json:
        _print({"experiment": name, "joined": count, "results": str(store.whole)})
    else:
        typer.echo(f"{name}: {count} cases joined. Results: {store.whole}")


# `discreet bench compare`: two methods of an experiment, or two directories of its results, seed by seed.


COMPARISON_FORMAT = "discreet.bench-comparison/1"


@bench_app.command("compare")
def compare_command(
    a: Annotated[str, typer.Argument(help="A method, by any unambiguous part of its name; or a directory of results.")],
    b: Annotated[str, typer.Argument(help="What it is compared with: of the same kind.")],
    experiment: Annotated[str, typer.Option("--in", help="The experiment; see discreet bench list.")],
    results: Results = RESULTS,
    problem: Problems = None,
    method: Methods = None,
    seeds: Seeds = None,
    figure: Annotated[str, typer.Option(help="Which column: the last that each case tells of it.")] = "test_accuracy",
    markdown: Annotated[Path | None, typer.Option(help="Write the table to this file, too.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the differences into this file.")] = None,
    as_json: Json = False,
) -> None:
    """Compare two methods of an experiment, or two directories of its results: paired over seeds, with intervals, an
    exact test, and a correction for comparing on several problems at once. Says so where nothing is shown.

    Example: discreet bench compare "threshold response" random --in try-out
    """
    from discreet_research.bench.comparing import (
        compare_methods,
        compare_places,
        comparison_form,
        comparison_table,
        draw_comparison,
    )

    part: dict[str, Any] = {"problem": problem, "method": method, "seeds": seeds}
    if Path(a).is_dir() and Path(b).is_dir():
        first, second = (_compared_rows(experiment, Path(folder), **part) for folder in (a, b))
        comparison = compare_places(first, second, a, b, figure=figure)
    else:
        if method:
            raise BadInput("--method with two methods", "they are named already", "Drop --method")
        comparison = compare_methods(_compared_rows(experiment, results, **part), a, b, figure=figure)
    table = comparison_table(comparison)
    if markdown is not None:
        markdown.write_text(table.markdown(), encoding="utf-8")
    if plot is not None:
        draw_comparison(comparison, plot)
    if as_json:
        _print({"experiment": experiment} | comparison_form(comparison), kind=COMPARISON_FORMAT)
        return
    typer.echo(table.markdown())
    if plot is not None:
        typer.echo(f"drawn: {plot}", err=True)


def _compared_rows(name: str, folder: Path, *, seeds: str | None, **part: Any) -> list[Row]:
    """Of the finished cases of a part of the experiment; without seeds of its own, of all that were begun."""
    from discreet.simulation.results import Store
    from discreet_research.bench import experiment_named

    experiment, store = experiment_named(name), Store(folder, name)
    begun = _begun(store, f"a comparison in {name}")
    rows = store.rows(_cases(experiment, None, **part, seeds=seeds or str(begun)))
    if not rows:
        raise BadInput(f"a comparison in {name}", f"{folder} has none of these cases", "Choose other problems or seeds")
    return rows
