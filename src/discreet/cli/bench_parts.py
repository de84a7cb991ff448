"""`discreet bench cost` and `discreet bench join`: what a part of an experiment takes, and parts put together."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.bench_options import FORMAT, RESULTS, Data, Json, Methods, Name, Problems, Results, Seeds, check_data
from discreet.errors import BadInput


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
    from discreet.bench import experiment_named
    from discreet.bench.costs import cost_table, costs_of, total_of
    from discreet.bench.parts import part_of
    from discreet.bench.results import Store

    chosen = experiment_named(name)
    check_data(data)
    cases = part_of(chosen, problems=problem or (), methods=method or (), seeds=seeds)
    costs = costs_of(Store(results, name), cases, data)
    if as_json:
        form = {"format": FORMAT, "simulation": True, "experiment": name, "total": total_of(costs)}
        print(json.dumps(form | {"costs": [asdict(cost) for cost in costs]}))  # noqa: T201
        return
    typer.echo(cost_table(name, costs).markdown())


def join_command(
    name: Name,
    parts: Annotated[list[Path], typer.Option("--from", help="Another directory of results; may be repeated.")],
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Put together what several machines have run of an experiment. Cases that are here already stay as they are.

    Example: discreet bench join try-out --from other-results --results bench-results
    """
    from discreet.bench import experiment_named
    from discreet.bench.results import Store
    from discreet.bench.running import alone

    chosen = experiment_named(name)
    others = [Store(place, name) for place in parts]
    for place, other in zip(parts, others, strict=True):
        if not other.whole.exists() and not other.pieces.is_dir():
            raise BadInput(
                f"joining {place.name}", f"it has no results of {name}", "Give the directory of its bench run"
            )
    store = Store(results, name)
    with alone(store):
        seeds = max([store.seeds(), *(other.seeds() for other in others), chosen.seeds])
        count = store.take(others, chosen.cases(range(seeds)))
        store.gather()
    if as_json:
        form = {"format": FORMAT, "simulation": True, "experiment": name, "joined": count, "results": str(store.whole)}
        print(json.dumps(form))  # noqa: T201
        return
    typer.echo(f"{name}: {count} cases joined. Results: {store.whole}")
