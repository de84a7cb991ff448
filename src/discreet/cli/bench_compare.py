"""`discreet bench compare`: two methods of an experiment, or two directories of its results, seed by seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.bench_options import RESULTS, Json, Methods, Problems, Results, Seeds
from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.bench.results import Row

FORMAT = "discreet.bench-comparison/1"


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Of an experiment: what is compared."""

    problems: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: str | None


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
    from discreet.bench.comparing import compare_methods, compare_places, comparison_form
    from discreet.bench.comparison_table import comparison_table, draw_comparison

    chosen = _Part(problems=tuple(problem or ()), methods=tuple(method or ()), seeds=seeds)
    if Path(a).is_dir() and Path(b).is_dir():
        first, second = (_rows(experiment, Path(place), chosen) for place in (a, b))
        found = compare_places(first, second, a, b, figure=figure)
    else:
        if method:
            raise BadInput("--method with two methods", "they are named already", "Drop --method")
        found = compare_methods(_rows(experiment, results, chosen), a, b, figure=figure)
    table = comparison_table(found)
    if markdown is not None:
        markdown.write_text(table.markdown(), encoding="utf-8")
    if plot is not None:
        draw_comparison(found, plot)
    if as_json:
        form = {"format": FORMAT, "simulation": True, "experiment": experiment}
        print(json.dumps(form | comparison_form(found)))  # noqa: T201
        return
    typer.echo(table.markdown())
    if plot is not None:
        typer.echo(f"drawn: {plot}", err=True)


def _rows(name: str, place: Path, chosen: _Part) -> list[Row]:
    """Of the finished cases of a part of the experiment; without seeds of its own, of all that were begun."""
    from discreet.bench import experiment_named
    from discreet.bench.parts import part_of
    from discreet.bench.results import Store

    experiment, store = experiment_named(name), Store(place, name)
    there = store.seeds()
    if not there:
        raise BadInput(
            f"a comparison in {name}",
            f"{place} has no results of it",
            f"Run discreet bench run {name} --results {place}",
        )
    seeds = chosen.seeds or str(there)
    rows = store.rows(part_of(experiment, problems=chosen.problems, methods=chosen.methods, seeds=seeds))
    if not rows:
        raise BadInput(f"a comparison in {name}", f"{place} has none of these cases", "Choose other problems or seeds")
    return rows
