"""`discreet plan`: what can I afford? Its options are the fields of `PlanParameters` and of `Budget`."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import Field, fields
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.checks import required_keys
from discreet.cli.campaign_files import JsonOption
from discreet.cli.progress import stepping, working
from discreet.errors import BadInput
from discreet.planning.parameters import PlanParameters
from discreet.planning.parameters import preset as preset_of
from discreet.privacy.budget import Budget

if TYPE_CHECKING:
    from discreet.planning.request import PlanRequest

EXAMPLE = (
    "Example: discreet plan --epsilon 8 --delta 4e-6 --initial 10000 --queries 3750,3750,3750,3750 "
    "--batch 4096 --epochs 30 --selection-epsilon 2 --plot plan.png"
)
_NO_OPTIONS = ("budget", "bins", "quantile_cells", "relation")
_FOLLOWS = ("selection", "selection_epsilon", "mechanism", "shards")
"""Options whose default follows from other options."""
_FORMS = {"queries": " Write 3750,3750 or 3750x4; 'none' for one phase."}
_KINDS: dict[Any, type] = {"int": int, "int | None": int, "float | None": float, "bool": bool}


def _option(field: Field[Any]) -> inspect.Parameter:
    """The option of a parameter: text, where the command line has no type for it."""
    kind = _KINDS.get(field.type, str)
    shown = isinstance(field.default, (bool, str, Decimal)) and field.name not in _FOLLOWS
    default = None if not shown else field.default if kind is bool else str(field.default)
    help_text = field.metadata["meaning"] + _FORMS.get(field.name, "")
    option = typer.Option(f"--{field.name.replace('_', '-')}", help=help_text)
    annotation = Annotated[kind if kind is bool else kind | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _with_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with an option for every parameter of a plan, in place of its ``**parameters``."""
    declared = [field for field in (*fields(Budget), *fields(PlanParameters)) if field.name not in _NO_OPTIONS]
    *others, _ = inspect.signature(command, eval_str=True).parameters.values()
    command.__signature__ = inspect.Signature([*map(_option, declared), *others])  # type: ignore[attr-defined]
    command.__doc__ = f"{command.__doc__}\n\n    {EXAMPLE}"
    return command


@_with_parameters
def plan_command(
    *,
    preset: Annotated[str | None, typer.Option(help="Start from a row of the DP-AL paper's Table 3.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="All schedules side by side, and what changes would cost.")
    ] = False,
    as_json: JsonOption = False,
    plot: Annotated[Path | None, typer.Option(help="Draw losses, rates and steps (.png, .svg, .pdf).")] = None,
    out: Annotated[Path | None, typer.Option(help="Store the plan (.json or .toml) for training.")] = None,
    **parameters: Any,
) -> None:
    """What labels, phases and training does a privacy budget buy? Touches no data.

    Prints the phases (size, rate per cohort, steps, noise multiplier) and what every path a record can take costs,
    by PLD (the claim) and RDP (the cross-check).
    """
    _check_files(plot, out, compare=compare)
    ask = _request(preset, {name: value for name, value in parameters.items() if value is not None})
    if compare:
        _print_comparison(ask, as_json=as_json)
    else:
        _print_plan(ask, as_json=as_json, plot=plot, out=out)


def _request(preset: str | None, options: dict[str, Any]) -> PlanRequest:
    from discreet.planning.request import plan_request

    options = {name: _LISTS[name](value) if name in _LISTS else value for name, value in options.items()}
    if "shards" in options and options.setdefault("selection", "shards") != "shards":
        raise BadInput(
            f"--shards with --selection {options['selection']}", "only selection by shards has them", "Drop one"
        )
    if options.get("selection") == "separate-budget":
        options.setdefault("mechanism", "gaussian")
    options["reads_training_data"] |= options.get("mechanism") == "k-centre"  # it looks at labelled records, too
    if preset is not None:
        hidden = {"selection_epsilon": "0"} if options.get("selection") == "hidden" else {}  # it has none
        options = vars(preset_of(preset)) | hidden | options
    needed = [name for name in required_keys(PlanParameters) if name not in _NO_OPTIONS]
    for name in ("epsilon", "delta", *needed):
        if name not in options:
            raise BadInput(
                f"discreet plan without --{name}", "there is no default for it", f"Give --{name} or --preset"
            )
    return plan_request(**options)


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


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


_LISTS: dict[str, Callable[[str], Any]] = {
    "queries": parse_sizes,
    "missed": _parts,
    "releases": _parts,
    "shards": lambda text: text if text == "even" else _parts(text),
}


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
        from discreet.report.plan_figure import require_matplotlib

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
    from discreet.planning import make_plan

    with working("planning"):
        plan = make_plan(ask)
    warning = ask.budget.loose_delta(ask.units)
    if out:
        from discreet.privacy.plan_files import write_plan

        write_plan(plan, out)
    if plot:
        from discreet.report.plan_figure import draw_plan, plan_figure

        with working("drawing"):
            draw_plan(plan_figure(ask, plan), plot)
    if as_json:
        print(json.dumps(plan.to_json() | {"warnings": [warning] if warning else []}))  # noqa: T201
    else:
        from discreet.cli.tables import show_plan

        show_plan(ask, plan)
    if warning:
        print(f"discreet: warning: {warning}.", file=sys.stderr)  # noqa: T201


def _print_comparison(ask: PlanRequest, *, as_json: bool) -> None:
    from discreet.cli.tables import comparison_form, show_comparison
    from discreet.planning.planner import compare_schedules, price_list

    with stepping("comparing", total=9) as step:
        schedules = [step(option) for option in compare_schedules(ask)]
        prices = [step(option) for option in price_list(ask)]
    if as_json:
        print(json.dumps(comparison_form(ask, schedules, prices)))  # noqa: T201
    else:
        show_comparison(ask, schedules, prices)
