"""Who is asked in a round of a campaign on public data: scored and embedded by the model, then chosen.

Free selectors read the newest model. near-private reads the checkpoint, in the first round alone: what it released then
is a ranking of all its candidates, and later rounds go down the same ranking, which is free.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.campaign.recipe import Chosen, PhaseContext
from discreet.config import CampaignConfig
from discreet.errors import InvalidStore
from discreet.noise import random_places
from discreet.pools import Pool
from discreet.privacy.ledger import ChargeReason
from discreet.recipes.feature_rows import on_features
from discreet.recipes.labelled_records import beside_arrays, pool_like
from discreet.recipes.learning import scorer_of, selector_built
from discreet.recipes.pool_records import rows_at
from discreet.recipes.public_plan import FIRST_QUERY, PRIVATE, PublicPlan
from discreet.records import Selection
from discreet.scorers import EmbeddedRows, pool_scores
from discreet.selectors import (
    DiversePublic,
    NearPrivate,
    RandomSelector,
    SelectorRequest,
    charge_selection,
)
from discreet.selectors.public_selectors import shown
from discreet.selectors.selection_inputs import check_chosen

COHORT = "round {}"


def chosen_public(context: PhaseContext, config: CampaignConfig, plan: PublicPlan, k: int) -> Chosen:
    """Round number ``context.phase``."""
    if config.selector.reads_private:
        return _near_private(context, config, plan, k)
    gone = context.asked | context.pool.withdrawn
    places = np.array([position for position, name in enumerate(context.pool.ids) if name not in gone], dtype=np.int64)
    places = places[~context.pool.broken(places)]
    names = [context.pool.ids[position] for position in places.tolist()]
    facts: dict[str, Any] = {}
    if not config.selector.declared.reads:
        selection = RandomSelector(source=context.source).select(ids=names, k=k, phase=context.phase)
        return _entered(context, selection, facts)
    rows = rows_at(config, context.pool, places)
    arguments: dict[str, Any] = {"ids": names, "k": k, "phase": context.phase, "scores": None}
    reads = config.selector.declared.reads
    if "scores" in reads:
        arguments["scores"] = scores_of(context, config, rows)
    request = SelectorRequest(options=config.selector.resolved().options, source=context.source, seed=config.model.seed)
    selector = selector_built(config, request)
    if "embeddings" in reads:
        arguments["embeddings"] = EmbeddedRows(on_features(context.model), rows)
    if "centres" in reads and context.asked:
        known = context.pool.places(sorted(context.asked - context.pool.withdrawn))
        arguments["centres"] = np.asarray(
            EmbeddedRows(on_features(context.model), rows_at(config, context.pool, known))[:]
        )
    if not isinstance(selector, DiversePublic):
        selection = selector.select(**arguments)
        check_chosen(selection, names, k)
        return _entered(context, selection, facts)
    seen, clusters = selector.clusters(scores=arguments["scores"], embeddings=arguments["embeddings"], k=k)
    taken = clusters.taken(k)
    selection = shown(names, seen[taken], selector.name, context.source, context.phase)
    homes = zip(clusters.labels[taken].tolist(), clusters.ranks[taken].tolist(), strict=True)
    facts["clusters"] = {
        names[position]: list(home) for position, home in zip(seen[taken].tolist(), homes, strict=True)
    }
    return _entered(context, selection, facts)


def near_private_of(config: CampaignConfig, plan: PublicPlan) -> NearPrivate:
    """The selector that the plan pays for."""
    assert plan.support_epsilon is not None
    assert plan.components_noise is not None
    request = SelectorRequest(
        epsilon=plan.support_epsilon,
        noise_multiplier=plan.components_noise,
        range=scorer_of(config).range,
        options=config.selector.options,
    )
    selector: NearPrivate = selector_built(config, request)
    return selector


def scores_of(context: PhaseContext, config: CampaignConfig, rows: Any, what: str = "scoring") -> Any:
    """How uncertain the model is about rows."""
    return pool_scores(
        scorer_of(config),
        on_features(context.model),
        rows,
        progress=lambda done, total: context.watch(what, done, total),
    )


def _near_private(context: PhaseContext, config: CampaignConfig, plan: PublicPlan, k: int) -> Chosen:
    if context.phase != FIRST_QUERY:
        return _further(context, k)
    planned = sum(config.plan.queries)
    places = np.arange(len(context.pool))
    places = places[~context.pool.broken(places)]
    rows, selector = rows_at(config, context.pool, places), near_private_of(config, plan)
    private_records = private_pool(config)
    private_rows = rows_at(config, private_records, np.arange(len(private_records)))
    own_scores = scores_of(context, config, private_rows, "scoring private records")
    nulls = np.asarray(private_records.broken(np.arange(len(private_records))), dtype=np.bool_)
    own_scores[nulls] = np.nan
    arguments: dict[str, Any] = {
        "ids": [context.pool.ids[position] for position in places.tolist()],
        "scores": scores_of(context, config, rows),
        "k": planned,
        "embeddings": EmbeddedRows(on_features(context.model), rows),
    }
    candidates = selector.candidates(**arguments)  # where there are none nothing is paid
    why = ChargeReason(phase=context.phase, purpose="selection")
    paid = charge_selection(context.charges, selector, k=k, pool_size=len(places), who=PRIVATE, why=why)
    support_set = selector.support(
        **arguments,
        candidates=candidates,
        receipt=paid,
        private_scores=own_scores,
        private_embeddings=EmbeddedRows(on_features(context.model), private_rows, nulls=nulls),
    )
    ranked = [name for name in support_set.ids if name not in context.pool.withdrawn][:planned]
    counts = dict(zip(support_set.ids, support_set.counts, strict=True))
    support = {"ids": ranked, "counts": [counts[name] for name in ranked]}
    facts = {"threshold": support_set.threshold, "norm": support_set.norm, "support": support}
    return _entered(context, _in_order(context, ranked[:k]), facts)


def _further(context: PhaseContext, k: int) -> Chosen:
    """Down the ranking of the first round."""
    support = context.facts.get(FIRST_QUERY, {}).get("support")
    if support is None:
        raise InvalidStore(f"asking in phase {context.phase}", "the counts of round 1 are missing", "Restore the store")
    gone = context.asked | context.pool.withdrawn
    left = [name for name in support["ids"] if name not in gone]
    return _entered(context, _in_order(context, left[:k]), {"threshold": context.facts[FIRST_QUERY].get("threshold")})


def _in_order(context: PhaseContext, ids: list[str]) -> Selection:
    order = random_places(len(ids), len(ids), where=context.source, kind=f"near-private {context.phase}")
    return Selection(
        ids=tuple(ids[position] for position in order.tolist()),
        mechanism=NearPrivate.name,
        simulation=context.source.simulation,
    )


def private_pool(config: CampaignConfig) -> Pool:
    """The records that the checkpoint learnt from, read as the pool is. Audience: owner."""
    assert config.private is not None  # checked with the file
    with config.pointing("private.path"):
        if config.pool.kind == "arrays":
            return beside_arrays(config, config.resolve(config.private.path), size=config.private.size)
        return pool_like(config, config.private.path, size=config.private.size)


def _entered(context: PhaseContext, selection: Selection, facts: dict[str, Any]) -> Chosen:
    label = COHORT.format(context.phase)
    public_facts = {"mechanism": selection.mechanism, "private": selection.private, "threshold": None}
    return Chosen(ids=selection.ids, cohorts=dict.fromkeys(selection.ids, label), facts=public_facts | facts)
