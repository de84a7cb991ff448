"""Keys that a campaign on public data must have, and that no other may."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from discreet.config.data_tables import InitialConfig
from discreet.config.learning_tables import BudgetConfig, PlanConfig, RecipeConfig, ScorerConfig, SelectorConfig
from discreet.config.public_tables import CheckpointConfig, PrivateConfig
from discreet.config.table_reading import Problem
from discreet.errors import alternatives

PUBLIC = "public-data"
PUBLIC_SELECTORS = ("random", "uncertain", "k-means", "greedy-k-centre", "diverse-public", "near-private")
OPTIONS: dict[str, tuple[str, ...]] = {
    "uncertain": (),
    "k-means": ("each", "components"),
    "greedy-k-centre": ("components",),
    "diverse-public": ("uncertain", "each", "components"),
    "near-private": ("uncertain", "components", "support_epsilon", "components_noise", "norm"),
}
"""Of selectors among public records."""
_PLANNED = {
    "selection_epsilon": 0,
    "missed": None,
    "individual_rates": False,
    "high_share": None,
    "shards": "even",
    "releases": None,
}
Problems = Iterator[Problem]


def _at(path: str, fact: str, remedy: str, *, table: bool = False) -> Problem:
    return Problem(path=tuple(path.split(".")), fact=fact, remedy=remedy, table=table)


def _tables(recipe: RecipeConfig, checkpoint: CheckpointConfig | None, private: PrivateConfig | None) -> Problems:
    if recipe.name == PUBLIC and checkpoint is None:
        remedy = "Add [checkpoint] with path, and epsilon and delta as its maker states them"
        yield _at("checkpoint", "a campaign on public data begins with a private model", remedy, table=True)
    for name, there in (("checkpoint", checkpoint), ("private", private)):
        if recipe.name != PUBLIC and there is not None:
            yield _at(name, f"{recipe.name} has none", f"Remove it; it is for {PUBLIC}", table=True)


def _checkpoint(checkpoint: CheckpointConfig) -> Problems:
    if sum(checkpoint.ways) != 1:
        fact = "its promise is said in none of three ways, or in several"
        remedy = "Give epsilon and delta; or sampling_rate, noise_multiplier and steps; or certificate"
        yield _at("checkpoint.epsilon", fact, remedy)
    elif checkpoint.ways[0] and (checkpoint.epsilon is None or checkpoint.delta is None):
        yield _at("checkpoint.delta", "a promise has an epsilon and a delta", "Give both, as its maker states them")
    elif checkpoint.ways[1] and None in (checkpoint.sampling_rate, checkpoint.noise_multiplier, checkpoint.steps):
        fact = "a training is a sampling rate, a noise multiplier and a number of steps"
        yield _at("checkpoint.steps", fact, "Give all three")


def _choosing(
    recipe: RecipeConfig,
    selector: SelectorConfig,
    scorer: ScorerConfig,
    budget: BudgetConfig,
    private: PrivateConfig | None,
) -> Problems:
    if recipe.name != PUBLIC:
        return
    if selector.name not in PUBLIC_SELECTORS:
        yield _at(
            "selector.name", f"{PUBLIC} has none called {selector.name}", alternatives(selector.name, PUBLIC_SELECTORS)
        )
    if scorer.needs == "draws" or scorer.name in ("bald", "predictive-variance", "variation-ratio"):
        yield _at("scorer.name", "it reads draws of the model, and here one prediction is read", "Try 'entropy'")
    if budget.unit != "record":
        yield _at("budget.unit", f"{PUBLIC} protects records", "Write 'record'; divide by the records a person has")
    if selector.name == "near-private":
        if private is None:
            remedy = "Add [private] with path and size"
            yield _at("private", "near-private looks at the records the checkpoint learnt from", remedy, table=True)
        if selector.support_epsilon is None:
            yield _at("selector.support_epsilon", "near-private pays for its counts", "Write support_epsilon = '0.5'")
    elif private is not None:
        yield _at("private", f"{selector.name} reads no private record", "Remove it, or use near-private", table=True)


def _planned(recipe: RecipeConfig, plan: PlanConfig, initial: InitialConfig | None) -> Problems:
    if recipe.name == PUBLIC:
        if plan.initial:
            yield _at("plan.initial", "phase 0 is the checkpoint, and asks nobody", "Write initial = 0")
        if not plan.queries:
            yield _at("plan.queries", "nothing is asked", "Write queries = [500, 500]")
        if initial is not None:
            yield _at("initial", "phase 0 is the checkpoint", "Remove it", table=True)
        for name, usual in _PLANNED.items():
            if getattr(plan, name) != usual:
                yield _at(f"plan.{name}", f"{PUBLIC} trains on public records, and plans no such thing", "Remove it")
    elif recipe.name == "private-pool" and plan.initial == 0:
        yield _at("plan.initial", "phase 0 has no records to begin with", "Write initial = 1000")


PUBLIC_RULES: tuple[tuple[tuple[str, ...], Callable[..., Problems]], ...] = (
    (("recipe", "checkpoint?", "private?"), _tables),
    (("checkpoint",), _checkpoint),
    (("recipe", "selector", "scorer", "budget", "private?"), _choosing),
    (("recipe", "plan", "initial?"), _planned),
)
