"""Improve a private model with public data (the Public paper): label a few public records, and fine-tune.

Phase 0 takes the checkpoint up and charges what it cost; every later phase chooses public records, people label them,
and the checkpoint is fine-tuned on all labels so far. Guarantee: fine-tuning and the free selectors are post-processing
of the checkpoint; near-private pays for its components and counts in the first round (docs/proofs/near-private.md).
The claim is the committed path of a private record (zero-out): checkpoint, and what looking cost.

Assumptions: the pool is public, and so are its labels; the checkpoint's guarantee is what was declared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.campaign import Campaign
from discreet.campaign.recipe import Chosen, Continuation, PhaseContext, ReplanRequest, Trained
from discreet.config import CampaignConfig
from discreet.errors import BadInput, InvalidCheckpoint
from discreet.noise import charge_once, derived_seed
from discreet.pools import Pool, cell_counts
from discreet.pools.unread_cells import owner_words
from discreet.privacy.certificate import Check
from discreet.privacy.ledger import ChargeReason, Ledger, Terms
from discreet.privacy.ledger.charges import request
from discreet.recipes import labelled_records, learning, pool_campaigns, public_choice
from discreet.recipes.feature_rows import features_form, on_features, with_features
from discreet.recipes.learning import scorer_of
from discreet.recipes.pool_records import inputs_of, made_up_rows
from discreet.recipes.public_plan import FIRST_QUERY, PRIVATE, PublicPlan, checkpoint_bytes, public_plan_of
from discreet.recipes.specification import FileRecipe, Inputs, RecipeSpec, newest_plan
from discreet.recipes.training_settings import batch_and_epochs, with_settings, with_stored_settings
from discreet.records import Value
from discreet.roles import Predictor
from discreet.scorers import pool_scores
from discreet.selectors.public_selectors import looked_at
from discreet.storage import CampaignStore

_ROWS = 20
RECALLED = 20_000
"""So many unlabelled public records are enough to remember by; texts among them are read into memory."""


@dataclass(frozen=True, kw_only=True)
class PublicData(FileRecipe):
    """A `Recipe`. ``inputs``: the public shape of a record."""

    config: CampaignConfig
    plan: PublicPlan
    inputs: tuple[int, ...]

    @property
    def phases(self) -> int:
        """The checkpoint, and one a query."""
        return 1 + len(self.config.plan.queries)

    def labels_planned(self, phase: int) -> int:
        """Public records that are asked in a phase; none in phase 0."""
        return self.config.plan.queries[phase - 1] if phase else 0

    def terms(self) -> Terms:
        """Of the checkpoint, of looking, and of evaluation where that is paid for."""
        return self.plan.terms(self.config, phases=self.phases, held_out=labelled_records.price_of(self.config))

    def check(self, pool: Pool) -> None:
        """Everything that could be refused later is refused before a campaign begins."""
        inputs_of(self.config, pool)
        predictor = on_features(learning.predictor_of(self.config, self._checkpoint()))
        self._tuning(0)
        rows = made_up_rows(self.config, self.inputs, _ROWS)
        with self.config.pointing("scorer.name"):
            pool_scores(scorer_of(self.config), predictor, rows)
        if "embeddings" in self.config.selector.declared.reads:
            with self.config.pointing("selector.name"):
                predictor.embed(rows)
        self._check_candidates(len(pool))
        if self.config.selector.reads_private:
            public_choice.near_private_of(self.config, self.plan)
            self._check_apart(pool)
        labelled_records.check(self.config, pool)

    def _check_candidates(self, size: int) -> None:
        """As many candidates as will be asked of them: found out later, near-private would have paid for nothing."""
        uncertain, queries = self.config.selector.uncertain, self.config.plan.queries
        if uncertain is None:
            return
        with self.config.pointing("selector.uncertain"):
            looked_at(uncertain, sum(queries) if self.config.selector.reads_private else max(queries), size)

    def _check_apart(self, pool: Pool) -> None:
        """A private record in the public pool would be shown to everybody."""
        private_records = public_choice.private_pool(self.config)
        assert self.config.private is not None
        here, pool_file = self.config.resolve(self.config.private.path), self.config.resolve(self.config.pool.path)
        same = self.config.pool.kind != "arrays" and here.exists() and pool_file.exists() and here.samefile(pool_file)
        if same or (self.config.pool.id != "position" and set(private_records.ids) & set(pool.ids)):
            raise self.config.error("private.path", "records of the public pool are in it", "Keep them apart")
        if inputs_of(self.config, private_records) != self.inputs:
            fact = "its records have another shape than the public ones"
            raise self.config.error("private.path", fact, "Prepare both in one way")

    def choose(self, context: PhaseContext) -> Chosen:
        """Nobody in phase 0; later, public records, for nothing or for what the plan pays."""
        if context.phase == 0:
            return Chosen(ids=(), cohorts={}, facts={"mechanism": "checkpoint", "private": True, "threshold": None})
        return public_choice.chosen_public(context, self.config, self.plan, self.labels_planned(context.phase))

    def continued(self, wish: ReplanRequest, *, ledger: Ledger, done: int, pool: Pool) -> Continuation:
        """Refused: what is private here is spent in the first round."""
        raise BadInput(
            "re-planning a campaign on public data",
            "its private cost is spent in its first round, and labels of public records cost nothing",
            "Start another campaign from the model of this one",
        )

    def train(self, context: PhaseContext, labels: Mapping[str, Value]) -> Trained:
        """Phase 0: charge the checkpoint, and take it up. Later: fine-tune it on all labels so far, which is free."""
        start = self._checkpoint()
        measured = labelled_records.held_out(self.config, context, last=context.phase == self.phases - 1)
        if context.phase == 0:
            event, count = self.plan.charged
            why = ChargeReason(phase=0, purpose="training of the checkpoint")
            charge_once(context.charges, [request({PRIVATE: event}, count=count, why=why)])
            predictor = learning.predictor_of(self.config, start)
        else:
            ids = [
                record
                for cohort in context.members.values()
                for record in cohort
                if record not in context.pool.withdrawn
            ]
            records = learning.cohort_of(self.config, context.pool, ids, labels)
            tuned = self._tuning(context.phase).train(
                start,
                records,
                pool=self._recalled(context, set(ids)),
                progress=lambda done, total: context.watch("fine-tuning", done, total),
            )
            predictor = learning.predictor_of(self.config, tuned.module)
        evaluation = labelled_records.evaluated(self.config, predictor, context, measured)
        return Trained(content=learning.to_bytes(predictor.module), evaluation=evaluation)

    def _recalled(self, context: PhaseContext, asked: set[str]) -> Any:
        """Public records that nobody was asked about, to remind the checkpoint of; of a large pool, some at random."""
        assert self.config.checkpoint is not None  # checked with the file
        if not self.config.checkpoint.recall:
            return None
        gone = asked | context.pool.withdrawn
        places = np.array(
            [position for position, name in enumerate(context.pool.ids) if name not in gone], dtype=np.int64
        )
        places = places[~context.pool.broken(places)]
        if len(places) > RECALLED:
            chance = np.random.default_rng(derived_seed(self.config.model.seed, "recalled records", context.phase))
            places = np.sort(chance.choice(places, RECALLED, replace=False))
        return learning.cohort_of(
            self.config, context.pool, [context.pool.ids[position] for position in places.tolist()], {}
        )

    def predictor(self, content: bytes) -> Predictor:
        """The model that `train` stored."""
        return learning.stored_predictor(self.config, content, self.inputs)

    def _tuning(self, phase: int) -> Any:
        from discreet.trainers.fine_tune import FineTuning

        batch, epochs = batch_and_epochs(self.config)
        with self.config.pointing("plan"):
            return FineTuning(
                settings=learning.settings_of(self.config),
                epochs=epochs,
                batch=batch,
                task=learning.task_of(self.config),
                seed=derived_seed(self.config.model.seed, "fine-tuning", phase, bits=63),
                recall=0.0 if self.config.checkpoint is None else self.config.checkpoint.recall,
            )

    def _checkpoint(self) -> Any:
        """The private model as it was given."""
        content = checkpoint_bytes(self.config)
        if hashlib.sha256(content).hexdigest() != self.plan.weights:
            raise self.config.error(
                "checkpoint.path", "it is not the model that the campaign was created with", "Put that one back"
            )
        module = learning.model_of(self.config, self.inputs)
        try:
            return learning.from_bytes(content, module)
        except InvalidCheckpoint:
            fact = "its weights are not of the model in [model]"
            raise self.config.error("checkpoint.path", fact, "Name the model that it is of") from None


def _prepare(config: CampaignConfig, inputs: Inputs) -> tuple[dict[str, Any], Pool]:
    learning.check_named(config, pool_file=inputs.pool is None)
    paid = ("evaluation.path",) if config.evaluation.kind == "paid" else ()
    labelled_records.check_proposal(config, *paid, *(("private.path",) if config.private is not None else ()))
    pool = pool_campaigns.base_pool(config, inputs.pool)
    pool_campaigns.check_releases(config)
    config, chosen = with_settings(with_features(config, pool), pool)
    recipe = PublicData(config=config, plan=public_plan_of(config), inputs=inputs_of(config, pool))
    recipe.check(pool)
    return {"plan": recipe.plan.to_json(), "inputs": list(recipe.inputs), **chosen, **features_form(config)}, pool


def _unread(config: CampaignConfig) -> str:
    """What of the private records cannot be read, once everything that can be refused was refused. Audience: owner."""
    _prepare(config, Inputs())
    counts = None if config.private is None else cell_counts(public_choice.private_pool(config))
    held_out = labelled_records.held_out_counts(config)
    return owner_words({"Private records": counts, "Held-out records": held_out})


def _open(store: CampaignStore, config: CampaignConfig) -> PublicData:
    plan = PublicPlan.from_json(newest_plan(store))
    config = with_stored_settings(store, config)
    return PublicData(config=config, plan=plan, inputs=tuple(store.config["inputs"]))


def _checks(store: CampaignStore, config: CampaignConfig, ledger: Ledger) -> Iterable[Check]:
    def digest_of(form: Any) -> str:
        return PublicPlan.from_json(form).digest()

    yield from pool_campaigns.plan_checks(store, ledger, digest_of=digest_of, needed=_needed)
    yield from pool_campaigns.feature_checks(store, config)


def _needed(form: Any, taken: set[tuple[str, int]]) -> set[tuple[int, str]]:
    """The checkpoint and the first look alone."""
    published, trained = pool_campaigns.phases_taken(taken)
    looks = {FIRST_QUERY} if PublicPlan.from_json(form).looks else set()
    return {(phase, "training") for phase in trained & {0}} | {(phase, "selection") for phase in published & looks}


UNBOUND = "the certificate names no weights: that it is of this checkpoint is your word"


def _created(campaign: Campaign) -> tuple[dict[str, Any], list[str]]:
    """What its features take, and whether the checkpoint's certificate, where there is one, names its weights."""
    recipe: Any = campaign.recipe
    bound = recipe.plan.bound
    facts, lines = pool_campaigns.features_announced(campaign)
    facts |= {} if bound is None else {"checkpoint_bound": bound}
    return facts, [*lines, *([UNBOUND] if bound is False else [])]


SPEC = RecipeSpec(
    name="public-data",
    may_change=pool_campaigns.MAY_CHANGE,
    title="a campaign on public data",
    takes=frozenset({"pool"}),
    prepare=_prepare,
    open=_open,
    records=pool_campaigns.records_of,
    as_created=pool_campaigns.as_created,
    checks=_checks,
    confirmation=_unread,
    has_private_files=lambda config: config.private is not None or config.evaluation.kind == "paid",
    created=_created,
    public_records=True,
    exported=pool_campaigns.exported,
)
