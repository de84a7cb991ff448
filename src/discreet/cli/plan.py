"""`discreet plan`: what can I afford?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.planning.request import PlanRequest

EXAMPLE = (
    "Example: discreet plan --epsilon 8 --delta 4e-6 --initial 10000 --queries 3750,3750,3750,3750 "
    "--batch 4096 --epochs 30 --selection-epsilon 2 --plot plan.png"
)


def plan_command(
    epsilon: Annotated[str | None, typer.Option(help="What one unit may lose in all, such as 8.")] = None,
    delta: Annotated[
        str | None, typer.Option(help="The chance that the promise fails; no default. Below 1/(10 x units).")
    ] = None,
    initial: Annotated[int | None, typer.Option(help="Records labelled before the first training phase.")] = None,
    queries: Annotated[
        str | None, typer.Option(help="Labels asked for after each phase: 3750,3750 or 3750x4; 'none' for one phase.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Expected batch, b. Public; never recomputed.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs per phase of the naive schedule, e.")] = None,
    schedule: Annotated[
        str, typer.Option(help="naive, step-amplification, noise-reduction or continual.")
    ] = "step-amplification",
    selection_epsilon: Annotated[
        str | None, typer.Option(help="What being asked may cost (0: records are asked at random).")
    ] = None,
    selection: Annotated[
        str | None, typer.Option(help="How asking is priced: one-sided (default), shards, paper, apart, or hidden.")
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(help="With paper: laplace, exponential, k-centre; apart: gaussian, subsampled-gaussian."),
    ] = None,
    subsample: Annotated[
        float | None, typer.Option(help="Share of the pool that a subsampled-gaussian query looks at.")
    ] = None,
    selection_delta: Annotated[
        str | None, typer.Option(help="With apart: the part of delta for queries; half of it by default.")
    ] = None,
    shards: Annotated[
        str | None, typer.Option(help="Shares of the pool each query sees: even, or 0.6,0.2,.. summing to 1.")
    ] = None,
    threshold_epsilon: Annotated[
        str, typer.Option(help="Price of each private threshold; 0 when thresholds are public.")
    ] = "0",
    missed: Annotated[
        str | None, typer.Option(help="Caps on what each miss may cost (eps_n per query); default: the free ones.")
    ] = None,
    individual_rates: Annotated[
        bool, typer.Option("--individual-rates", help="Records asked from below the threshold get their own rate.")
    ] = False,
    high_share: Annotated[
        float | None, typer.Option(help="Expected share of a cohort asked from above; default from the pool size.")
    ] = None,
    reads_training_data: Annotated[
        bool, typer.Option("--reads-training-data", help="Scores read training records: everyone pays every query.")
    ] = False,
    pool_size: Annotated[
        int | None, typer.Option(help="Records (or persons) in the pool: checks delta, sizes and shards.")
    ] = None,
    releases: Annotated[
        str | None,
        typer.Option(
            help="With hidden: the day on which each phase becomes public, 2027-01-15,2027-02-15; none: time "
            "is not covered."
        ),
    ] = None,
    unit: Annotated[
        str, typer.Option(help="What is protected: record, or person (sizes then count persons).")
    ] = "record",
    accountant: Annotated[str, typer.Option(help="pld (the claim) or rdp (fast, looser).")] = "pld",
    whole_batches: Annotated[
        bool, typer.Option("--whole-batches", help="Naive rates as 1/floor(|D|/b), as the DP-AL paper counts.")
    ] = False,
    preset: Annotated[str | None, typer.Option(help="Start from a row of the DP-AL paper's Table 3.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="All schedules side by side, and what changes would cost.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw losses, rates and steps (.png, .svg, .pdf).")] = None,
    out: Annotated[Path | None, typer.Option(help="Store the plan (.json or .toml) for training.")] = None,
) -> None:
    """What labels, phases and training does a privacy budget buy? Touches no data.

    Prints the phases (size, rate per cohort, steps, noise multiplier) and what every path a record can take costs,
    by PLD (the claim) and RDP (the cross-check).
    """
    _check_files(plot, out, compare=compare)
    ask = _request(
        preset=preset,
        options={
            "epsilon": epsilon,
            "delta": delta,
            "initial": initial,
            "queries": None if queries is None else parse_sizes(queries),
            "batch": batch,
            "epochs": epochs,
            "selection_epsilon": selection_epsilon,
            "pool_size": pool_size,
        },
        schedule=schedule,
        selection=_selection(selection, shards),
        shards=_shares(shards),
        **_mechanism(
            mechanism or ("gaussian" if selection == "apart" else None),
            subsample=subsample,
            selection_delta=selection_delta,
        ),
        threshold_epsilon=threshold_epsilon,
        missed=None if missed is None else tuple(missed.split(",")),
        individual_rates=individual_rates,
        high_share=high_share,
        reads_training_data=reads_training_data or mechanism == "k-centre",  # it looks at labelled records, too
        unit=unit,
        accountant=accountant,
        whole_batches=whole_batches,
        releases=None if releases is None else tuple(day.strip() for day in releases.split(",")),
    )
    if compare:
        _print_comparison(ask, as_json=as_json)
    else:
        _print_plan(ask, as_json=as_json, plot=plot, out=out)


plan_command.__doc__ = f"{plan_command.__doc__}\n\n    {EXAMPLE}"


def _request(*, preset: str | None, options: dict[str, Any], **choices: Any) -> PlanRequest:
    from discreet.api import plan_request

    filled = dict(options)
    if preset is not None:
        from discreet.planning.presets import preset as find

        row = find(preset)
        given = {"selection_epsilon": "0"} if choices["selection"] == "hidden" else {}  # it has none
        filled = {name: given.get(name, getattr(row, name)) if v is None else v for name, v in filled.items()}
    if filled["selection_epsilon"] is None:
        filled["selection_epsilon"] = "0"
    filled["queries"] = filled["queries"] or ()
    for name in ("epsilon", "delta", "initial", "batch", "epochs"):
        if filled[name] is None:
            raise BadInput(
                f"discreet plan without --{name}", "there is no default for it", f"Give --{name} or --preset"
            )
    return plan_request(**filled, **choices)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Query sizes: '3750,3750' or '3750x2', 'none' for none."""
    if text.strip() in ("none", "0"):
        return ()
    sizes: list[int] = []
    for part in text.split(","):
        size, times = part.strip().split("x") if part.count("x") == 1 else (part.strip(), "1")
        digits = (size + times).isascii() and size.isdecimal() and times.isdecimal()
        if not digits or len(size) > 15 or len(times) > 4 or int(times) == 0:
            raise BadInput(f"--queries {text}", "it is not a list of sizes", "Write 3750,3750,1000 or 3750x4")
        sizes += [int(size)] * int(times)
    return tuple(sizes)


def _selection(selection: str | None, shards: str | None) -> str:
    if shards is not None and selection not in (None, "shards"):
        raise BadInput(f"--shards with --selection {selection}", "only selection by shards has them", "Drop one")
    return selection or ("shards" if shards is not None else "one-sided")


def _mechanism(mechanism: str | None, **options: Any) -> dict[str, Any]:
    """What a query is, where a plan must know it."""
    return {name: value for name, value in {"mechanism": mechanism, **options}.items() if value is not None}


def _shares(shards: str | None) -> str | tuple[str, ...]:
    return "even" if shards in (None, "even") else tuple(part.strip() for part in str(shards).split(","))


def _check_files(plot: Path | None, out: Path | None, *, compare: bool) -> None:
    """Bad file names are refused before the work, not after it."""
    check_file(out, (".json", ".toml"))
    if compare and (plot or out):
        raise BadInput("--compare with --plot or --out", "a comparison is not a plan", "Leave --compare out")
    check_plot(plot)


def check_plot(plot: Path | None) -> None:
    """Refuse a picture that could not be drawn."""
    check_file(plot, (".png", ".svg", ".pdf"))
    if plot is not None:
        from discreet.report.draw import require_matplotlib

        require_matplotlib()


def check_file(path: Path | None, endings: tuple[str, ...]) -> None:
    """Refuse a file that could not be written."""
    if path is None:
        return
    if path.suffix not in endings or path.is_dir():
        asked = f"writing {path.name}"
        raise BadInput(asked, "it is a directory, or of no known form", f"Use a file in {', '.join(endings)}")
    if not path.absolute().parent.is_dir():
        raise BadInput(f"writing {path.name}", "its directory does not exist", "Create the directory first")


def _print_plan(ask: PlanRequest, *, as_json: bool, plot: Path | None, out: Path | None) -> None:
    from discreet.cli.progress import working
    from discreet.planning import make_plan

    with working("planning"):
        made = make_plan(ask)
    warning = ask.budget.loose_delta(ask.units)
    if out:
        from discreet.privacy.plan_forms import write_plan

        write_plan(made, out)
    if plot:
        from discreet.report.draw import draw_plan
        from discreet.report.plan_figure import plan_figure

        with working("drawing"):
            draw_plan(plan_figure(ask, made), plot)
    if as_json:
        print(json.dumps(made.to_json() | {"warnings": [warning] if warning else []}))  # noqa: T201
    else:
        from discreet.cli.plan_tables import show_plan

        show_plan(ask, made)
    if warning:
        print(f"discreet: warning: {warning}.", file=sys.stderr)  # noqa: T201


def _print_comparison(ask: PlanRequest, *, as_json: bool) -> None:
    from discreet.cli.plan_tables import comparison_form, show_comparison
    from discreet.cli.progress import stepping
    from discreet.planning.compare import compare_schedules, price_list

    with stepping("comparing", total=9) as step:
        schedules = [step(option) for option in compare_schedules(ask)]
        prices = [step(option) for option in price_list(ask)]
    if as_json:
        print(json.dumps(comparison_form(ask, schedules, prices)))  # noqa: T201
    else:
        show_comparison(ask, schedules, prices)
