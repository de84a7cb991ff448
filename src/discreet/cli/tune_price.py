"""`discreet tune-price`: what would a private search over settings cost?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import JsonOption, show
from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.tuning import TuningPrice

FORMAT = "discreet.tuning-prices/1"


def tune_price_command(
    epsilon: Annotated[str, typer.Option(help="What one unit may lose by the whole search, such as 8.")],
    delta: Annotated[str, typer.Option(help="The chance that the promise fails; no default.")],
    records: Annotated[int, typer.Option(help="Units that are trained on.")],
    batch: Annotated[int, typer.Option(help="Expected batch, b.")],
    epochs: Annotated[int, typer.Option(help="Epochs of one run.")],
    settings: Annotated[int, typer.Option(help="How many settings the public list has.")],
    runs: Annotated[str, typer.Option(help="Runs on average: one number, or several with commas.")] = "3,10,30",
    eta: Annotated[str, typer.Option(help="Shape of the law of the number of runs: above -1, up to 1.")] = "1",
    law: Annotated[str, typer.Option(help="negative-binomial or poisson.")] = "negative-binomial",
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Runs are scored on private records kept apart, not on public ones.")
    ] = False,
    unit: Annotated[str, typer.Option(help="record or person.")] = "record",
    as_json: JsonOption = False,
) -> None:
    """What a private search over settings costs; `discreet.tune` in Python does it. Reads no data, charges nothing.

    Example: discreet tune-price --epsilon 8 --delta 1e-5 --records 1100 --batch 256 --epochs 8 --settings 8
    """
    from discreet.privacy.budget import Budget
    from discreet.privacy.tuned import runs_of
    from discreet.tuning import RunShape, price_search

    budget = Budget(epsilon=epsilon, delta=delta, unit=unit)  # type: ignore[arg-type]
    budget.warn_if_loose(records)
    means = [part.strip() for part in runs.split(",")]
    if held_out and unit == "person":
        raise BadInput("scoring on held-out persons", "only records can be kept apart here", "Drop --held-out")
    found = [
        price_search(
            budget=budget,
            units=records,
            settings=settings,
            shapes=[RunShape(batch=batch, epochs=epochs)],
            law=runs_of(mean=mean, eta=eta, law=law),
            held_out=held_out,
        )
        for mean in means
    ]
    form: dict[str, Any] = {
        "format": FORMAT,
        "simulation": False,
        "audience": "world",
        "prices": [price.to_json() for price in found],
    }
    show(form, "\n".join(_lines(found)), as_json=as_json)


def _lines(found: list[TuningPrice]) -> list[str]:
    first = found[0]
    lines = [
        f"a search over {first.settings} settings, epsilon {first.budget.epsilon} at delta {first.budget.delta}, "
        f"zero-out relation, per {first.budget.unit}",
        f"one run with all of it would have noise multiplier {first.alone:.4g}",
        "",
        " runs    median   99% below     noise   one run costs   every setting in turn",
    ]
    lines += [
        f"{price.law.mean:5.4g}  {price.law.quantile(0.5):8d}  {price.law.quantile(0.99):10d}"
        f"  {price.runs[0].step.noise_multiplier:8.4g}  {price.one_run:14.4g}  {price.all_settings:22.4g}"
        for price in found
    ]
    if first.score is not None:
        lines.append(f"each run is scored by counts of held-out records at epsilon {first.score.epsilon}")
    return lines
