"""What files of `private-pool` and of `public-data` must agree on, beside the rules of every campaign on a pool."""

from __future__ import annotations

from discreet.config.campaign_tables import (
    BudgetConfig,
    CheckpointConfig,
    InitialConfig,
    PrivateConfig,
    RecipeConfig,
    ScorerConfig,
    SelectorConfig,
)
from discreet.config.cross_field_checks import Problems, at
from discreet.config.schema import Rule
from discreet.errors import alternatives
from discreet.planning.parameters import PlanTable
from discreet.selectors import SELECTORS

_PUBLIC = "public-data"
_UNPLANNED = {
    "selection_epsilon": 0,
    "missed": None,
    "individual_rates": False,
    "high_share": None,
    "shards": "even",
    "releases": None,
}


def _delta(budget: BudgetConfig) -> Problems:
    if budget.delta == 0:
        yield at("budget.delta", "training with Gaussian noise has no guarantee at delta 0", "Write delta = '1e-6'")


def _paid_for(plan: PlanTable, selector: SelectorConfig, recipe: RecipeConfig) -> Problems:
    if selector.part is not None and selector.part.prices == ("hidden",):
        if plan.selection_epsilon > 0:
            yield at("plan.selection_epsilon", "whom it asks is not released, and costs nothing", "Remove it")
        if selector.threshold_epsilon is None:
            yield at("selector.threshold_epsilon", "its thresholds are all it pays for", "Write '0.05'")
        return
    free = selector.part is not None and not selector.part.prices and recipe.name in selector.part.recipes
    if free and plan.selection_epsilon > 0:
        yield at(
            "plan.selection_epsilon", f"{selector.name} selection costs nothing", "Remove it, or choose a selector"
        )
    if not free and plan.selection_epsilon == 0:
        yield at(
            "plan.selection_epsilon", f"nothing pays for {selector.name}", "Give a part of epsilon, about a quarter"
        )
    if plan.selection in ("paper", "separate-budget") and selector.threshold_epsilon is not None:
        fact = (
            "the paper's price has no thresholds" if plan.selection == "paper" else "queries apart have no thresholds"
        )
        yield at("selector.threshold_epsilon", fact, "Use one-sided or shards")


def _initial(plan: PlanTable) -> Problems:
    if plan.initial == 0:
        yield at("plan.initial", "phase 0 has no records to begin with", "Write initial = 1000")


PRIVATE_POOL: tuple[Rule, ...] = (
    (("budget",), _delta),
    (("plan", "selector", "recipe"), _paid_for),
    (("plan",), _initial),
)


def _begins(checkpoint: CheckpointConfig | None) -> Problems:
    if checkpoint is None:
        remedy = "Add [checkpoint] with path, and epsilon and delta as its maker states them"
        yield at("checkpoint", "a campaign on public data begins with a private model", remedy, table=True)


def _choosing(
    selector: SelectorConfig, scorer: ScorerConfig, budget: BudgetConfig, private: PrivateConfig | None
) -> Problems:
    if selector.part is None or _PUBLIC not in selector.part.recipes:
        remedy = alternatives(selector.name, SELECTORS.names(recipe=_PUBLIC))
        yield at("selector.name", f"{_PUBLIC} has none called {selector.name}", remedy)
    if scorer.needs == "draws" or (scorer.part is not None and scorer.part.option("draws") is not None):
        yield at("scorer.name", "it reads draws of the model, and here one prediction is read", "Try 'entropy'")
    if budget.unit != "record":
        yield at("budget.unit", f"{_PUBLIC} protects records", "Write 'record'; divide by the records a person has")
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
            yield at(f"plan.{name}", f"{_PUBLIC} trains on public records, and plans no such thing", "Remove it")


PUBLIC_DATA: tuple[Rule, ...] = (
    (("checkpoint?",), _begins),
    (("selector", "scorer", "budget", "private?"), _choosing),
    (("plan", "initial?"), _planned),
)
