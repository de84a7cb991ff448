"""DP-AL: a private pool, people who are trusted with its records, and a model that may be published.

Phase 0 asks initial records drawn uniformly at random (or imports labels whose choosing was declared); every later
phase asks by score, for what its plan pays, and trains all cohorts with their own rates. Guarantee: the plan's claim
(zero-out relation, committed mode); assumptions in docs/proofs/trajectories.md and theirs.

Baselines are the same recipe with other words: ``selector = "random"`` is random active learning; no queries at all is
DP-SGD on a random subset; ``selector = "exact"`` is not private, and taken in simulations alone. Noisy top-k, the
exponential mechanism and k-centre are the DP-AL paper's selections, each at an honest price.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.campaign import Campaign
from discreet.campaign.crash_recovery import secret_key
from discreet.campaign.recipe import Chosen, Continuation, PhaseContext, ReplanRequest, Trained, unwatched
from discreet.campaign.state import QUANTILES
from discreet.config import CampaignConfig
from discreet.errors import BadInput
from discreet.noise import OperatingSystem, SecretKey
from discreet.planning import make_plan, plan_request
from discreet.pools import Pool, cell_counts
from discreet.pools.unread_cells import owner_words
from discreet.privacy.events import PoissonSampledGaussian
from discreet.privacy.ledger import Ledger, Line, Terms, terms_of
from discreet.privacy.ledger.plan_terms import lines_of
from discreet.privacy.ledger.terms import plan_digest
from discreet.privacy.plan import Plan, TrainingPhase, TrainingStage
from discreet.privacy.plan_files import plan_from_json
from discreet.recipes import learning, pool_campaigns, pool_queries, private_quantiles
from discreet.recipes.feature_rows import features_form, on_features, with_features, with_released_edges
from discreet.recipes.labelled_records import check as check_labelled
from discreet.recipes.labelled_records import (
    check_proposal,
    evaluated,
    held_out,
    held_out_counts,
    known_labels,
    known_units,
    price_of,
)
from discreet.recipes.pool_records import Units, inputs_of, made_up_rows, records_each, rows_among
from discreet.recipes.pool_replan import replanned
from discreet.recipes.specification import FileRecipe, Inputs, RecipeSpec, newest_plan
from discreet.recipes.training_settings import (
    batch_and_epochs,
    chosen_settings,
    settings_facts,
    settings_words,
    with_settings,
    with_stored_settings,
)
from discreet.records import Value
from discreet.roles import Predictor
from discreet.scorers import pool_scores
from discreet.storage import CampaignStore, Transition

_ROWS = 20
"""Enough for a way of scoring to be found, as for a pool."""


def plan_of(config: CampaignConfig) -> Plan:
    """The plan that the campaign's file asks for. Touches no data."""
    learning.check_named(config, pool_queries.check_priced, pool_file=False)
    units = config.pool.size if config.budget.unit == "record" else config.pool.persons
    # a selector that looks at labelled records, too: everybody pays every query
    reads_labelled = config.plan.reads_training_data or "centres" in config.selector.declared.reads
    batch, epochs = batch_and_epochs(config)
    table: dict[str, Any] = vars(config.plan) | {"batch": batch, "epochs": epochs}
    table["reads_training_data"] = reads_labelled
    if config.selector.bins is not None:
        table["bins"] = config.selector.bins
    with config.pointing("plan"):
        ask = plan_request(
            epsilon=config.budget.epsilon,
            delta=config.budget.delta,
            unit=config.budget.unit,
            **table,
            threshold_epsilon=config.selector.threshold_epsilon or 0,
            pool_size=units,
            **private_quantiles.parameters_of(config),
            **pool_queries.mechanism_of(config),
        )
        ask.budget.warn_if_loose(ask.units)
        return make_plan(ask)


@dataclass(frozen=True, kw_only=True)
class PrivatePool(FileRecipe):
    """A `Recipe`. ``inputs``: the public shape of a record. ``shards``: the key that cuts the pool, if it is cut."""

    config: CampaignConfig
    plan: Plan
    inputs: tuple[int, ...]
    shards: SecretKey | None = field(default=None, repr=False)

    @property
    def phases(self) -> int:
        """One without a query, and one a query."""
        return len(self.plan.phases)

    def labels_planned(self, phase: int) -> int:
        """Labels that are asked for in a phase: of persons, as many as they may have records."""
        return pool_queries.units_asked(self.plan, phase) * records_each(self.config)

    def terms(self) -> Terms:
        """Of the plan, and of evaluation where it is paid for."""
        return terms_of(self.plan, held_out=price_of(self.config))

    def known_labels(self) -> Mapping[str, Value]:
        """Of phase 0, where the campaign's file names some."""
        return known_labels(self.config)

    def choose(self, context: PhaseContext) -> Chosen:
        """The initial records uniformly at random, or those whose labels are there; later ones by score."""
        units = self._units(context.pool)
        if not self.labels_planned(context.phase):  # re-planned: a last training, for which nobody is asked
            return Chosen(ids=(), cohorts={}, facts={"mechanism": "none", "private": True, "threshold": None})
        if context.phase == 0:
            known = self.config.initial is not None
            chosen = (
                pool_queries.chosen_before(context, self.config, self.plan, units)
                if known
                else pool_queries.chosen_at_random(context, self.plan, units)
            )
            edges = private_quantiles.released(context, self.config, self.plan, units)
            return replace(chosen, facts={**chosen.facts, **edges})
        return pool_queries.chosen_by_score(context, self.config, self.plan, units, self.shard())

    def shard(self) -> pool_queries.Shard:
        """Which units of a pool that is cut meet a query."""
        key, count = self.shards, self.plan.selection.shards
        if key is None:
            return None

        def meets(names: Sequence[str], query: int) -> NDArray[np.bool_]:
            return np.asarray(key.shards(names, count) == query - 1)

        return meets

    def continued(self, wish: ReplanRequest, *, ledger: Ledger, done: int, pool: Pool) -> Continuation:
        """With another plan behind the phases that are done."""
        units = len(self._units(pool).names)
        after = replanned(self.config, self.plan, wish, ledger=ledger, done=done, units=units)
        recipe = replace(self, plan=after.plan)
        return Continuation(recipe=recipe, terms=after.terms, plan=after.plan.to_json(), figures=after.figures)

    @property
    def awaits_release(self) -> bool:
        """Whether the edges of its features are private quantiles, and not known yet."""
        features = self.config.features
        return features is not None and features.quantiles_epsilon is not None and not features.drawn

    def after(self, steps: Iterable[Transition]) -> PrivatePool:
        """With those edges, once the first query released them."""
        return replace(self, config=with_released_edges(self.config, steps))

    def _units(self, pool: Pool) -> Units:
        return Units.of(pool, self.config.budget.unit, self.config.budget.records_per_person)

    def train(self, context: PhaseContext, labels: Mapping[str, Value]) -> Trained:
        """Charge and train a phase, and measure the model where that was asked for."""
        from discreet.trainers.dp_sgd import charge_training

        assert not self.awaits_release, "a model reads features whose edges the first query found"
        phase = TrainingPhase.of(self.plan, context.phase)
        trainer = learning.trainer_of(self.config, context, self.inputs)
        hidden = dict(phase.slots)  # cohorts whose size no progress may tell
        cohorts = {
            label: learning.cohort_of(
                self.config,
                context.pool,
                context.members.get(label, ()),
                labels,
                unwatched if label in hidden else context.watch,
            )
            for label in phase.labels
        }
        measured = held_out(self.config, context, last=context.phase == self.phases - 1)
        start: Any = None if self.plan.schedule == "scout" else context.model  # a scout only chooses
        trainer.check(phase=phase, cohorts=learning.in_slots(phase, cohorts, context.source), start=start)
        paid = charge_training(context.charges, phase)
        filled = learning.in_slots(phase, cohorts, paid[0])  # slots that a redo draws again
        predictor = trainer.train(phase=phase, cohorts=filled, start=start, receipt=paid)
        evaluation = evaluated(self.config, predictor, context, measured)
        return Trained(content=learning.to_bytes(predictor.module), evaluation=evaluation)

    def predictor(self, content: bytes) -> Predictor:
        """The model that `train` stored."""
        return learning.stored_predictor(self.config, content, self.inputs)


# -- whatever could be refused later is refused first, on made-up records


def _preflight(config: CampaignConfig, pool: Pool) -> None:
    """Refuse a pool, model, loss, score, evaluation or file of labels that would fail; before a plan is made."""
    inputs = inputs_of(config, pool)
    if config.budget.unit == "person" and pool.persons is None:
        raise config.error("pool.person", "nothing says whose records they are", "Declare the column of persons")
    if config.initial is not None:
        known_units(config, pool, Units.of(pool, config.budget.unit, config.budget.records_per_person))
    _try_training(config, inputs)
    if config.plan.queries and config.selector.declared.reads:
        model = learning.model_of(config, inputs)
        _try_choosing(config, on_features(learning.predictor_of(config, model)), inputs)
    check_labelled(config, pool)


def _unread(config: CampaignConfig) -> str:
    """What of the private records cannot be read, once everything that can be refused was refused. Audience: owner."""
    learning.check_named(config, pool_queries.check_priced, pool_file=True)
    pool = pool_campaigns.base_pool(config, None)
    _preflight(with_features(config, pool), pool)
    return owner_words({"Private records": cell_counts(pool), "Held-out records": held_out_counts(config)})


def _try_choosing(config: CampaignConfig, predictor: Predictor, inputs: tuple[int, ...]) -> None:
    """What a query computes of records, on made-up ones that are read as a pool's are."""
    rows = rows_among(made_up_rows(config, inputs, _ROWS), np.arange(_ROWS))
    if "embeddings" in config.selector.declared.reads:
        with config.pointing("selector.name"):
            predictor.embed(rows)
    else:
        with config.pointing("scorer.name"):
            pool_scores(learning.scorer_of(config), predictor, rows)


def _try_training(config: CampaignConfig, inputs: tuple[int, ...]) -> None:
    """A step on made-up records: with the usual loss, which tries the model, then with the one that is named."""
    from discreet.trainers.dp_sgd import DPSGD, CohortRecords

    settings = learning.settings_of(config)
    rows: Any = made_up_rows(config, inputs, 2)
    labels = learning.targets([None, None], config)
    persons = np.array(["a", "b"]) if config.budget.unit == "person" else None
    event = PoissonSampledGaussian(sampling_rate=0.5, noise_multiplier=1.0)
    stage = TrainingStage(steps=1, cohorts=(("initial", event),))
    phase = TrainingPhase(number=0, batch=batch_and_epochs(config)[0], unit=config.budget.unit, stages=(stage,))
    cohorts = {label: CohortRecords(x=rows, y=labels, persons=persons) for label in phase.labels}
    is_named_object = config.trainer.loss is not None and ":" in config.trainer.loss
    usual = replace(settings, loss=learning.usual_loss(config)) if is_named_object else settings
    for key, tried in [("model.name", usual), ("trainer.loss", settings)][: 1 + is_named_object]:
        with config.pointing(key):
            DPSGD(
                learning.model_of(config, inputs),
                classes=len(config.task.classes),
                task=learning.task_of(config),
                settings=tried,
            ).check(phase=phase, cohorts=cohorts)


# -- the specification


def _prepare(config: CampaignConfig, inputs: Inputs) -> tuple[dict[str, Any], Pool]:
    learning.check_named(config, pool_queries.check_priced, pool_file=inputs.pool is None)
    paid = ("evaluation.path",) if config.evaluation.kind == "paid" else ()
    check_proposal(config, *paid, *(("pool.path",) if inputs.pool is None else ()))
    pool = pool_campaigns.base_pool(config, inputs.pool)
    if inputs.plan is not None and config.simulation is None:
        raise BadInput("a plan that was made before", "only simulations take one", "Leave it out")
    config, chosen = with_settings(with_features(config, pool), pool)
    _preflight(config, pool)
    plan = inputs.plan or plan_of(config)
    pool_campaigns.check_releases(config)
    for query in range(1, len(plan.phases)):  # the selector of every query, which needs a plan
        selector = pool_queries.selector_of(config, plan, query, OperatingSystem())
        pool_queries.check_price(config, plan, query, selector, config.pool.size)
    form = {"plan": plan.to_json(), "inputs": list(inputs_of(config, pool)), **chosen, **features_form(config)}
    return form, pool


def _open(store: CampaignStore, config: CampaignConfig) -> PrivatePool:
    plan = plan_from_json(newest_plan(store), certify=False)
    config = with_stored_settings(store, config)
    return PrivatePool(config=config, plan=plan, inputs=tuple(store.config["inputs"]))


def _bind(store: CampaignStore, recipe: PrivatePool, seed: int | None) -> PrivatePool:
    if recipe.plan.selection.kind != "shards":
        return recipe
    return replace(recipe, shards=secret_key(store, "shards", seed))


def _checks(store: CampaignStore, config: CampaignConfig, ledger: Ledger) -> Any:
    def digest_of(form: Any) -> str:
        return plan_digest(plan_from_json(form, certify=False))

    yield from pool_campaigns.plan_checks(store, ledger, digest_of=digest_of, needed=_needed)
    yield from pool_campaigns.feature_checks(store, config)
    yield from pool_campaigns.hidden_checks(store, config, ledger)


def _needed(form: Any, taken: set[tuple[str, int]]) -> set[tuple[int, str]]:
    plan = plan_from_json(form, certify=False)
    published, trained = pool_campaigns.phases_taken(taken)
    needed = {(phase, "training") for phase in trained}
    if plan.selection.quantiles is not None:
        needed |= {(phase, QUANTILES) for phase in published & {0}}
    if not plan.selection.is_free:
        needed |= {(phase, "selection") for phase in published & ({cohort.phase for cohort in plan.cohorts} - {0})}
    return needed


def _planned_lines(recipe: PrivatePool, phase: int) -> Sequence[Line]:
    return lines_of(recipe.plan, held_out=price_of(recipe.config), first=phase)


def _exact_counts(campaign: Campaign, query: int, bins: int) -> tuple[tuple[float, float], tuple[int, ...]] | None:
    recipe: Any = campaign.recipe
    if not pool_queries.reads_scores(recipe.config):
        return None
    counts = pool_queries.exact_counts(campaign, query, bins, config=recipe.config, shard=recipe.shard())
    return learning.scorer_of(recipe.config).range, counts


def _about(campaign: Campaign) -> dict[str, str]:
    recipe: Any = campaign.recipe
    config, plan = recipe.config, recipe.plan
    if recipe.phases == 1:
        questions = "the initial records alone"
    else:
        by_score = f", by {config.scorer.name}" if pool_queries.reads_scores(config) else ""
        questions = f"{config.selector.name}{by_score}"
    paid = plan.selection.quantiles
    edges = "" if paid is None else f" with edges for epsilon {paid.epsilon}"
    chosen = chosen_settings(campaign.store)
    return {
        "recipe": config.recipe.name,
        "task": f"{config.task.kind}, {len(recipe.classes)} classes",
        "pool": f"{config.pool.size:,} records, as declared",
        "model": config.model.name + ("" if config.features is None else f" on {config.features.name} features{edges}"),
        "schedule": f"{plan.schedule}, accounted by {plan.accountant.upper()}",
        **({"settings": settings_words(chosen)} if chosen else {}),
        "questions": questions,
        "evaluation": {"none": "none", "public": "on public records", "paid": "on held-out records, paid for"}[
            config.evaluation.kind
        ],
    }


def _created(campaign: Campaign) -> tuple[dict[str, Any], list[str]]:
    """What was chosen by rule, and what features will take."""
    chosen, chosen_lines = settings_facts(campaign.store)
    announced, announced_lines = pool_campaigns.features_announced(campaign)
    return chosen | announced, [*chosen_lines, *announced_lines]


SPEC = RecipeSpec(
    name="private-pool",
    may_change=pool_campaigns.MAY_CHANGE,
    title="a campaign on a private pool",
    takes=frozenset({"pool", "plan"}),
    prepare=_prepare,
    open=_open,
    records=pool_campaigns.records_of,
    bind=_bind,
    as_created=pool_campaigns.as_created,
    checks=_checks,
    created=_created,
    confirmation=_unread,
    settings=lambda campaign: settings_facts(campaign.store),
    plan=lambda recipe: recipe.plan,
    planned_lines=_planned_lines,
    exact_counts=_exact_counts,
    about=_about,
    exported=pool_campaigns.exported,
    simulates=True,
)
