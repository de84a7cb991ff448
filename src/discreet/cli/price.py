"""`discreet price`: how many answers of teachers does a budget buy, before any is bought?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import JsonOption, show

if TYPE_CHECKING:
    from discreet.planning.teachers import VotePrice

FORMAT = "discreet.answers-prices/1"


def price_command(
    epsilon: Annotated[str, typer.Option(help="What one unit may lose by all answers, such as 1.")],
    delta: Annotated[str, typer.Option(help="The chance that the promise fails; no default.")],
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
    from discreet.errors import InfeasiblePlan
    from discreet.planning.teachers import AGGREGATORS, price_answers
    from discreet.planning.teachers.pricing import answers_bought
    from discreet.privacy.budget import Budget

    budget = Budget(epsilon=epsilon, delta=delta, unit=unit)  # type: ignore[arg-type]
    shape: dict[str, Any] = {"budget": budget, "teachers": teachers, "classes": classes}
    found: list[VotePrice] = []
    refused: dict[str, InfeasiblePlan] = {}
    for name in AGGREGATORS:
        try:
            found.append(price_answers(name, **shape, answers=answers, unstable=unstable))
        except InfeasiblePlan as problem:  # too few teachers for a sparse vector: its minimum is the answer
            refused[name] = problem
    bought = {}
    if lead is not None:
        exact = ("gaussian", "laplace", "sparse")
        bought = {name: answers_bought(name, **shape, lead=lead, unstable=unstable) for name in exact}
    form = {
        "format": FORMAT,
        "simulation": False,
        "audience": "world",
        "prices": [price.to_json() for price in found],
        "refused": {name: {"why": str(problem), "nearest": problem.nearest} for name, problem in refused.items()},
        "bought": bought,
    }
    head = (
        f"{answers} answers of {teachers} teachers, {classes} classes, epsilon {budget.epsilon} at delta {budget.delta}"
    )
    lines = [f"{head}, zero-out relation, per {budget.unit}", "", *_table(found)]
    if not all(price.possible for price in found):
        lines.append(
            f"IMPOSSIBLE: the lead is more than all {teachers} votes, so that even a unanimous vote is often answered "
            "wrongly. discreet init refuses it: train more teachers, ask fewer questions, or allow more epsilon"
        )
    lines += [f"refused: {problem}" for problem in refused.values()]
    lines += [f"a lead of {lead:.3g} buys {count} answers by {name}" for name, count in bought.items()]
    show(form, "\n".join(lines), as_json=as_json)


def _table(found: list[VotePrice]) -> list[str]:
    lines = ["aggregator         costs   lead for 95%, in votes   noise"]
    return lines + [
        f"{price.aggregator:15}  {price.epsilon:6.4g}   "
        f"{price.lead():8.1f} ({price.lead() / price.teachers:6.1%})      {_noise(price)}"
        f"{'' if price.possible else '; IMPOSSIBLE'}"
        for price in found
    ]


def _noise(price: VotePrice) -> str:
    from discreet.planning.teachers import ConfidentPrice, NoisyMaxPrice, StablePrice

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
