"""Keys of [plan] that must agree with one another and with the pool, the budget and the selector.

The planner refuses most of it too, without knowing the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from discreet.config.data_tables import InitialConfig, OracleConfig, PoolConfig
from discreet.config.learning_tables import BudgetConfig, PlanConfig, RecipeConfig, SelectorConfig
from discreet.config.table_reading import Problem
from discreet.privacy.exact import exact_sum
from discreet.privacy.hidden_slots import BINS, HiddenSlots

Problems = Iterator[Problem]
_NO_CAPS = ("paper", "apart", "hidden")
_AMPLIFIED = ("step-amplification", "noise-reduction")


def _at(key: str, fact: str, remedy: str, table: str = "plan") -> Problem:
    return Problem(path=(table, key), fact=fact, remedy=remedy)


def _sizes(plan: PlanConfig) -> Problems:
    if 0 < plan.initial < plan.batch:
        fact = f"phase 0 has {plan.initial}, too few for an expected batch of {plan.batch}"
        yield _at("batch", fact, f"Write at most {plan.initial}, or raise initial")
    if plan.whole_batches and plan.schedule != "naive":
        yield _at("whole_batches", f"{plan.schedule} does not round its rates", "Remove it, or use schedule = 'naive'")


def _rates(plan: PlanConfig) -> Problems:
    if plan.high_share is not None and not plan.individual_rates:
        yield _at("high_share", "without individual rates it changes nothing", "Add individual_rates = true")
    if plan.individual_rates and (plan.selection in _NO_CAPS or plan.selection_epsilon == 0):
        fact = "only one-sided selection that is paid for gives records rates of their own"
        yield _at("individual_rates", fact, "Use selection one-sided or shards, and a selection_epsilon")
    if plan.individual_rates and plan.schedule not in _AMPLIFIED:
        yield _at("individual_rates", f"{plan.schedule} has one rate for all", f"Use {' or '.join(_AMPLIFIED)}")


def _releases(plan: PlanConfig) -> Problems:
    if plan.releases is None:
        return
    phases = len(plan.queries) + 1
    if plan.selection != "hidden":
        yield _at("releases", f"{plan.selection} selection is public when it is made", "Remove it")
    elif len(plan.releases) != phases:
        yield _at("releases", f"it has {len(plan.releases)} dates for {phases} phases", "Give one a phase")
    elif list(plan.releases) != sorted(set(plan.releases)):
        yield _at("releases", "a date is not later than the one before it", "Give them in order")


def _prices(plan: PlanConfig) -> Problems:
    count = len(plan.queries)
    if plan.missed is not None and (plan.selection in _NO_CAPS or plan.selection_epsilon == 0):
        yield _at("missed", "there are caps on misses where one-sided selection is paid for, alone", "Remove it")
    elif plan.missed is not None and len(plan.missed) != count:
        yield _at("missed", f"it has {len(plan.missed)} caps for {count} queries", "Give one a query")
    if plan.reads_training_data and plan.selection != "paper":
        fact = "one-sided prices hold for scores of the record alone"
        yield _at("reads_training_data", fact, "Use selection = 'paper', where every record pays every query")
    if isinstance(plan.shards, str):
        return
    if plan.selection != "shards":
        yield _at("shards", f"{plan.selection} does not cut the pool", "Remove it, or use selection = 'shards'")
    elif len(plan.shards) != count or exact_sum(plan.shards) != 1:
        yield _at("shards", f"it needs {count} shares, one a query, that sum to exactly 1", "Write 'even'")


def _within_the_pool(plan: PlanConfig, pool: PoolConfig, budget: BudgetConfig) -> Problems:
    units = pool.size if budget.unit == "record" else pool.persons
    wanted = plan.initial + sum(plan.queries)
    if units is not None and wanted > units:
        fact = f"initial and queries come to {wanted}, and the pool has {units} {budget.unit}s"
        yield _at("queries", fact, "Ask fewer")


def _within_the_budget(plan: PlanConfig, budget: BudgetConfig, initial: InitialConfig | None) -> Problems:
    if plan.selection_epsilon >= budget.epsilon:
        fact = f"it leaves nothing of epsilon {budget.epsilon} for training"
        yield _at("selection_epsilon", fact, "Give a part of it, about a quarter")
    asked = sum(plan.queries) + (0 if initial else plan.initial)
    each = budget.records_per_person if budget.unit == "person" else 1
    if budget.labels is not None and asked * each > budget.labels:
        persons = f" about {asked} persons, each with {each} records at most" if each > 1 else ""
        fact = f"the plan asks {asked * each} questions{persons}, and people answer {budget.labels}"
        yield _at("labels", fact, "Ask fewer in [plan], or raise it", table="budget")


def _hides_asked(plan: PlanConfig, selector: SelectorConfig) -> bool:
    return plan.selection == "hidden" or selector.name == "hidden-threshold"


def _hidden_caps(plan: PlanConfig, selector: SelectorConfig, oracle: OracleConfig) -> Problems:
    if _hides_asked(plan, selector) and oracle.per_annotator is not None:
        fact = "selection is hidden, and an annotator who stops at a cap leaves other records without a label"
        yield _at("per_annotator", fact, "Remove it, or use another selector", "oracle")


def _hidden_labels(
    plan: PlanConfig, selector: SelectorConfig, budget: BudgetConfig, initial: InitialConfig | None
) -> Problems:
    """Whoever is asked is labelled: the limit must allow for as many as may be asked."""
    if budget.labels is None or not _hides_asked(plan, selector) or not plan.queries:
        return
    if selector.threshold_epsilon is None or selector.threshold_epsilon <= 0 or budget.delta <= 0:
        return  # refused elsewhere
    slots = HiddenSlots.of(
        tuple(plan.queries),
        threshold_epsilon=selector.threshold_epsilon,
        delta=budget.delta,
        bins=selector.bins or BINS,
    ).slots
    most = sum(slots) + (0 if initial else plan.initial)
    if most > budget.labels:
        fact = f"a hidden selection may ask up to {most} questions, all of which are answered"
        yield _at("labels", fact, f"Raise it to {most}, or leave it out", table="budget")


def _paid_for(plan: PlanConfig, selector: SelectorConfig, recipe: RecipeConfig) -> Problems:
    if recipe.name != "private-pool":
        return
    if selector.name == "hidden-threshold":
        if plan.selection_epsilon > 0:
            yield _at("selection_epsilon", "whom it asks is not released, and costs nothing", "Remove it")
        if selector.threshold_epsilon is None:
            yield _at("threshold_epsilon", "its thresholds are all it pays for", "Write '0.05'", "selector")
        return
    free = selector.name in ("random", "exact")
    if free and plan.selection_epsilon > 0:
        yield _at("selection_epsilon", f"{selector.name} selection costs nothing", "Remove it, or choose a selector")
    if not free and plan.selection_epsilon == 0:
        yield _at("selection_epsilon", f"nothing pays for {selector.name}", "Give a part of epsilon, about a quarter")
    if plan.selection in ("paper", "apart") and selector.threshold_epsilon is not None:
        fact = (
            "the paper's price has no thresholds" if plan.selection == "paper" else "queries apart have no thresholds"
        )
        yield _at("threshold_epsilon", fact, "Use one-sided or shards", "selector")


PLAN_RULES: tuple[tuple[tuple[str, ...], Callable[..., Problems]], ...] = (
    (("plan",), _sizes),
    (("plan",), _rates),
    (("plan",), _releases),
    (("plan",), _prices),
    (("plan", "pool", "budget"), _within_the_pool),
    (("plan", "budget", "initial?"), _within_the_budget),
    (("plan", "selector", "recipe"), _paid_for),
    (("plan", "selector", "oracle"), _hidden_caps),
    (("plan", "selector", "budget", "initial?"), _hidden_labels),
)
