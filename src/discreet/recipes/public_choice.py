"""Who is asked in a round of a campaign on public data: scored and embedded by the model, then chosen.

Free selectors read the newest model. near-private reads the checkpoint, in the first round alone: what it released then
is a ranking of all its candidates, and later rounds go down the same ranking, which is free.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.campaign.recipe import Chosen, Desk
from discreet.config import CampaignConfig
from discreet.errors import InvalidStore
from discreet.noise import random_places
from discreet.pools import Pool
from discreet.privacy.ledger import Why
from discreet.recipes.measuring import beside_arrays, pool_like
from discreet.recipes.model_records import rows_at
from discreet.recipes.public_plan import FIRST_QUERY, PRIVATE, PublicPlan
from discreet.recipes.selecting import scorer_of
from discreet.records import Selection
from discreet.scorers import EmbeddedRows, pool_scores
from discreet.selectors import (
    DiversePublic,
    GreedyKCentre,
    NearPrivate,
    RandomSelector,
    UncertainPublic,
    charge_selection,
    k_means_public,
)
from discreet.selectors.public_records import shown

COHORT = "round {}"


def chosen_public(desk: Desk, config: CampaignConfig, plan: PublicPlan, k: int) -> Chosen:
    """Round number ``desk.phase``."""
    if config.selector.name == "near-private":
        return _near_private(desk, config, plan, k)
    gone = desk.asked | desk.pool.withdrawn
    places = np.array([place for place, name in enumerate(desk.pool.ids) if name not in gone], dtype=np.int64)
    places = places[~desk.pool.broken(places)]
    names = [desk.pool.ids[place] for place in places.tolist()]
    facts: dict[str, Any] = {}
    if config.selector.name == "random":
        found = RandomSelector(source=desk.source).select(ids=names, k=k, phase=desk.phase)
        return _entered(desk, found, facts)
    rows = rows_at(config, desk.pool, places)
    given: dict[str, Any] = {"ids": names, "k": k, "phase": desk.phase, "scores": None}
    if _reads_scores(config):
        given["scores"] = scores_of(desk, config, rows)
    selector = selector_of(config, desk)
    if not isinstance(selector, UncertainPublic):
        given["embeddings"] = EmbeddedRows(desk.model, rows)
    if isinstance(selector, GreedyKCentre) and desk.asked:
        known = desk.pool.places(sorted(desk.asked - desk.pool.withdrawn))
        given["centres"] = np.asarray(EmbeddedRows(desk.model, rows_at(config, desk.pool, known))[:])
    if not isinstance(selector, DiversePublic):
        return _entered(desk, selector.select(**given), facts)
    seen, clusters = selector.clusters(scores=given["scores"], embeddings=given["embeddings"], k=k)
    taken = clusters.taken(k)
    found = shown(names, seen[taken], selector.name, desk.source, desk.phase)
    homes = zip(clusters.labels[taken].tolist(), clusters.ranks[taken].tolist(), strict=True)
    facts["clusters"] = {names[place]: list(home) for place, home in zip(seen[taken].tolist(), homes, strict=True)}
    return _entered(desk, found, facts)


def selector_of(config: CampaignConfig, desk: Desk) -> UncertainPublic | DiversePublic | GreedyKCentre:
    """As the campaign's file names it."""
    table, options = config.selector, {}
    for name in ("uncertain", "each", "components"):
        if getattr(table, name) is not None:
            options[name] = getattr(table, name)
    with config.pointing("selector"):
        if table.name == "uncertain":
            return UncertainPublic(source=desk.source)
        if table.name == "greedy-k-centre":
            return GreedyKCentre(source=desk.source, **options)
        make = k_means_public if table.name == "k-means" else DiversePublic
        return make(source=desk.source, seed=config.model.seed, **options)


def near_private_of(config: CampaignConfig, plan: PublicPlan) -> NearPrivate:
    """The selector that the plan pays for."""
    table = config.selector
    assert plan.support_epsilon is not None
    assert plan.components_noise is not None
    options = {} if table.components is None else {"components": table.components}
    with config.pointing("selector"):
        return NearPrivate(
            support_epsilon=plan.support_epsilon,
            noise_multiplier=plan.components_noise,
            uncertain=table.uncertain,
            norm=table.norm,
            bottom=scorer_of(config).range[0],
            **options,
        )


def _reads_scores(config: CampaignConfig) -> bool:
    return config.selector.name in ("uncertain", "diverse-public", "near-private")


def scores_of(desk: Desk, config: CampaignConfig, rows: Any, what: str = "scoring") -> Any:
    """How uncertain the model is about rows."""
    return pool_scores(scorer_of(config), desk.model, rows, progress=lambda done, whole: desk.watch(what, done, whole))


def _near_private(desk: Desk, config: CampaignConfig, plan: PublicPlan, k: int) -> Chosen:
    if desk.phase != FIRST_QUERY:
        return _further(desk, k)
    most = sum(config.plan.queries)
    places = np.arange(len(desk.pool))
    places = places[~desk.pool.broken(places)]
    rows, selector = rows_at(config, desk.pool, places), near_private_of(config, plan)
    own = private_pool(config)
    mine = rows_at(config, own, np.arange(len(own)))
    own_scores = scores_of(desk, config, mine, "scoring private records")
    nulls = np.asarray(own.broken(np.arange(len(own))), dtype=np.bool_)
    own_scores[nulls] = np.nan
    given: dict[str, Any] = {
        "ids": [desk.pool.ids[place] for place in places.tolist()],
        "scores": scores_of(desk, config, rows),
        "k": most,
        "embeddings": EmbeddedRows(desk.model, rows),
    }
    candidates = selector.candidates(**given)  # where there are none nothing is paid
    why = Why(phase=desk.phase, purpose="selection")
    paid = charge_selection(desk.charges, selector, k=k, pool_size=len(places), who=PRIVATE, why=why)
    found = selector.support(
        **given,
        candidates=candidates,
        receipt=paid,
        private_scores=own_scores,
        private_embeddings=EmbeddedRows(desk.model, mine, nulls=nulls),
    )
    ranked = [name for name in found.ids if name not in desk.pool.withdrawn][:most]
    counts = dict(zip(found.ids, found.counts, strict=True))
    support = {"ids": ranked, "counts": [counts[name] for name in ranked]}
    facts = {"threshold": found.threshold, "norm": found.norm, "support": support}
    return _entered(desk, _in_order(desk, ranked[:k]), facts)


def _further(desk: Desk, k: int) -> Chosen:
    """Down the ranking of the first round."""
    support = desk.facts.get(FIRST_QUERY, {}).get("support")
    if support is None:
        raise InvalidStore(f"asking in phase {desk.phase}", "the counts of round 1 are missing", "Restore the store")
    gone = desk.asked | desk.pool.withdrawn
    left = [name for name in support["ids"] if name not in gone]
    return _entered(desk, _in_order(desk, left[:k]), {"threshold": desk.facts[FIRST_QUERY].get("threshold")})


def _in_order(desk: Desk, ids: list[str]) -> Selection:
    order = random_places(len(ids), len(ids), where=desk.source, kind=f"near-private {desk.phase}")
    return Selection(
        ids=tuple(ids[place] for place in order.tolist()),
        mechanism=NearPrivate.name,
        simulation=desk.source.simulation,
    )


def private_pool(config: CampaignConfig) -> Pool:
    """The records that the checkpoint learnt from, read as the pool is. Audience: owner."""
    assert config.private is not None  # checked with the file
    with config.pointing("private.path"):
        if config.pool.kind == "arrays":
            return beside_arrays(config, config.resolve(config.private.path), size=config.private.size)
        return pool_like(config, config.private.path, size=config.private.size)


def _entered(desk: Desk, found: Selection, facts: dict[str, Any]) -> Chosen:
    label = COHORT.format(desk.phase)
    told = {"mechanism": found.mechanism, "private": found.private, "threshold": None}
    return Chosen(ids=found.ids, cohorts=dict.fromkeys(found.ids, label), facts=told | facts)
