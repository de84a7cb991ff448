"""What a file of the recipe `private-pool` must agree on, beside the rules of every campaign on a pool."""

from __future__ import annotations

from discreet.config.campaign_tables import BudgetConfig, RecipeConfig, SelectorConfig
from discreet.config.cross_field_checks import Problems, at
from discreet.config.schema import Rule
from discreet.planning.parameters import PlanTable


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


def _begins(plan: PlanTable) -> Problems:
    if plan.initial == 0:
        yield at("plan.initial", "phase 0 has no records to begin with", "Write initial = 1000")


RULES: tuple[Rule, ...] = ((("budget",), _delta), (("plan", "selector", "recipe"), _paid_for), (("plan",), _begins))
