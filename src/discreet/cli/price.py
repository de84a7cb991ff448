"""`discreet price`: what answers of teachers (PATE) cost; `discreet tune-price`: what a private search over settings
costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import JsonOption, show
from discreet.errors import BadInput, InfeasiblePlan
from discreet.privacy.budget import Budget

if TYPE_CHECKING:
    from discreet.planning.pate import VotePrice
    from discreet.tuning import TuningPrice


def price_command(
    epsilon: Annotated[str, typer.Option(help="What one unit may lose by all answers, such as 1.")],
    delta: Annotated[str, typer.Option(help="The probability that the guarantee fails; no default.")],
    teachers: Annotated[int, typer.Option(help="How many teachers vote, K.")],
    answers: Annotated[int, typer.Option(help="Questions that may be asked at most, l.")],
    classes: Annotated[int, typer.Option(help="How many classes there are.")] = 2,
    unstable: Annotated[
        int | None,
        typer.Option(help="Of a sparse vector: unstable answers at most, T. By default 20, or all if fewer."),
    ] = None,
    lead: Annotated[
        float | None, typer.Option(help="Also: how many answers, if a class that leads by this share shall win.")
    ] = None,
    unit: Annotated[str, typer.Option(help="record or person.")] = "record",
    as_json: JsonOption = False,
) -> None:
    """What answers of teachers cost, by every aggregator: their noise, and how clear a vote must be. Reads no data,
    charges nothing.

    Example: discreet price --epsilon 1 --delta 1e-6 --teachers 250 --answers 1000 --classes 10
    """
    from discreet.planning.pate import AGGREGATORS, price_answers
    from discreet.planning.pate.pricing import answers_bought

    budget = Budget(epsilon=epsilon, delta=delta, unit=unit)  # type: ignore[arg-type]
    shape: dict[str, Any] = {"budget": budget, "teachers": teachers, "classes": classes}
    prices: list[VotePrice] = []
    refused: dict[str, InfeasiblePlan] = {}
    for name in AGGREGATORS:
        try:
            prices.append(price_answers(name, **shape, answers=answers, unstable=unstable))
        except InfeasiblePlan as problem:  # too few teachers for a sparse vector: its minimum is the answer
            refused[name] = problem
    bought = {}
    if lead is not None:
        exact = ("gaussian", "laplace", "sparse")
        bought = {name: answers_bought(name, **shape, lead=lead, unstable=unstable) for name in exact}
    form = {
        "format": "discreet.answers-prices/1",
        "simulation": False,
        "audience": "public",
        "prices": [price.to_json() for price in prices],
        "refused": {name: {"why": str(problem), "nearest": problem.nearest} for name, problem in refused.items()},
        "bought": bought,
    }
    head = (
        f"{answers} answers of {teachers} teachers, {classes} classes, epsilon {budget.epsilon} at delta {budget.delta}"
    )
    lines = [f"{head}, zero-out relation, per {budget.unit}", "", *_table(prices)]
    if not all(price.possible for price in prices):
        lines.append(
            f"IMPOSSIBLE: the lead is more than all {teachers} votes, so that even a unanimous vote is often answered "
            "wrongly. discreet init refuses it: train more teachers, ask fewer questions, or allow more epsilon"
        )
    lines += [f"refused: {problem}" for problem in refused.values()]
    lines += [f"a lead of {lead:.3g} buys {count} answers by {name}" for name, count in bought.items()]
    show(form, "\n".join(lines), as_json=as_json)


def _table(prices: list[VotePrice]) -> list[str]:
    return ["aggregator         costs   lead for 95%, in votes   noise"] + [
        f"{price.aggregator:15}  {price.epsilon:6.4g}   "
        f"{price.lead():8.1f} ({price.lead() / price.teachers:6.1%})      {_noise(price)}"
        f"{'' if price.possible else '; IMPOSSIBLE'}"
        for price in prices
    ]


def _noise(price: VotePrice) -> str:
    from discreet.planning.pate import ConfidentPrice, NoisyMaxPrice, StablePrice

    if isinstance(price, StablePrice):
        return (
            f"lambda {price.spread:.4g}, threshold {price.threshold:.4g}, at least {price.minimum_teachers} teachers, "
            f"at most {price.unstable} unstable"
        )
    if isinstance(price, ConfidentPrice):
        checks = f"{price.checks} checks at {price.least:.4g} votes with {price.check_noise:.4g}"
        return f"{price.noise:.4g} on a count; {checks}"
    assert isinstance(price, NoisyMaxPrice)
    return f"{price.noise:.4g} on a count"


def tune_price_command(
    epsilon: Annotated[str, typer.Option(help="What one unit may lose by the whole search, such as 8.")],
    delta: Annotated[str, typer.Option(help="The probability that the guarantee fails; no default.")],
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
    from discreet.privacy.tuned import runs_of
    from discreet.tuning import RunShape, price_search

    budget = Budget(epsilon=epsilon, delta=delta, unit=unit)  # type: ignore[arg-type]
    budget.warn_if_loose(records)
    means = [part.strip() for part in runs.split(",")]
    if held_out and unit == "person":
        raise BadInput("scoring on held-out persons", "only records can be kept apart here", "Drop --held-out")
    prices = [
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
        "format": "discreet.tuning-prices/1",
        "simulation": False,
        "audience": "public",
        "prices": [price.to_json() for price in prices],
    }
    show(form, "\n".join(_lines(prices)), as_json=as_json)


def _lines(prices: list[TuningPrice]) -> list[str]:
    first = prices[0]
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
        for price in prices
    ]
    if first.score is not None:
        lines.append(f"each run is scored by counts of held-out records at epsilon {first.score.epsilon}")
    return lines
