"""What a file of the recipe `public-data` must agree on, beside the rules of every campaign on a pool."""

from __future__ import annotations

from discreet.config.campaign_tables import (
    BudgetConfig,
    CheckpointConfig,
    InitialConfig,
    PrivateConfig,
    ScorerConfig,
    SelectorConfig,
)
from discreet.config.cross_field_checks import Problems, at
from discreet.config.schema import Rule
from discreet.errors import alternatives
from discreet.planning.parameters import PlanTable
from discreet.selectors import SELECTORS

NAME = "public-data"
_UNPLANNED = {
    "selection_epsilon": 0,
    "missed": None,
    "individual_rates": False,
    "high_share": None,
    "shards": "even",
    "releases": None,
}


def _begins(checkpoint: CheckpointConfig | None) -> Problems:
    if checkpoint is None:
        remedy = "Add [checkpoint] with path, and epsilon and delta as its maker states them"
        yield at("checkpoint", "a campaign on public data begins with a private model", remedy, table=True)


def _choosing(
    selector: SelectorConfig, scorer: ScorerConfig, budget: BudgetConfig, private: PrivateConfig | None
) -> Problems:
    if selector.part is None or NAME not in selector.part.recipes:
        remedy = alternatives(selector.name, SELECTORS.names(recipe=NAME))
        yield at("selector.name", f"{NAME} has none called {selector.name}", remedy)
    if scorer.needs == "draws" or (scorer.part is not None and scorer.part.option("draws") is not None):
        yield at("scorer.name", "it reads draws of the model, and here one prediction is read", "Try 'entropy'")
    if budget.unit != "record":
        yield at("budget.unit", f"{NAME} protects records", "Write 'record'; divide by the records a person has")
    if selector.reads_private:
        if private is None:
            remedy = "Add [private] with path and size"
            yield at("private", f"{selector.name} looks at the records the checkpoint learnt from", remedy, table=True)
        if selector.support_epsilon is None:
            fact = f"{selector.name} pays for its counts"
            yield at("selector.support_epsilon", fact, "Write support_epsilon = '0.5'")
    elif private is not None:
        paying = " or ".join(part.name for part in SELECTORS if "private" in part.reads)
        yield at("private", f"{selector.name} reads no private record", f"Remove it, or use {paying}", table=True)


def _planned(plan: PlanTable, initial: InitialConfig | None) -> Problems:
    if plan.initial:
        yield at("plan.initial", "phase 0 is the checkpoint, and asks nobody", "Write initial = 0")
    if not plan.queries:
        yield at("plan.queries", "nothing is asked", "Write queries = [500, 500]")
    if initial is not None:
        yield at("initial", "phase 0 is the checkpoint", "Remove it", table=True)
    for name, line in (("batch", "batch = 64"), ("epochs", "epochs = 20")):
        if getattr(plan, name) is None:
            yield at(f"plan.{name}", "it is missing", f"Add a line such as {line}, of fine-tuning")
    for name, usual in _UNPLANNED.items():
        if getattr(plan, name) != usual:
            yield at(f"plan.{name}", f"{NAME} trains on public records, and plans no such thing", "Remove it")


RULES: tuple[Rule, ...] = (
    (("checkpoint?",), _begins),
    (("selector", "scorer", "budget", "private?"), _choosing),
    (("plan", "initial?"), _planned),
)
