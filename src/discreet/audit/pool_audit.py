"""An audit of the private-pool recipe: three twins of it, every attack on each, and two tests of variances.

    training     every canary is trained on, from the first step: the most that training can show
    selection    nearly all of the budget is spent on who is asked, and the asked are known
    campaign     both, as a campaign spends them

What the twins take from a campaign's own file: how people are asked, and the schedule. What they do not take: its size,
its model, its budget. An audit at the campaign's own epsilon could not fail (`discreet.audit.bound`), so twins are
planned at 1/2 to 1, where some hundred guesses refute a false claim. They find mistakes of the code that campaigns
share; they say nothing of a model of one's own, of a machine that is not this one, or of what people do with labels.
"""

from __future__ import annotations

from dataclasses import replace

from discreet.audit.audited import CANARIES, Audit, Audited, Told, check_canaries, twin_seed
from discreet.audit.canaries import Canaries
from discreet.audit.planted import Plant
from discreet.audit.pool_twin import FREE, PoolTwin, attack, run_twin
from discreet.audit.variances import batch_variance, noise_variance
from discreet.config import CampaignConfig

_UNSEEN = ("hidden-threshold",)


def twins_of(config: CampaignConfig | None = None) -> dict[str, PoolTwin]:
    """The twins of a campaign's file, or of the usual settings."""
    asking = PoolTwin()
    if config is not None:
        priced = config.plan.selection if config.selector.name not in FREE else None
        asking = replace(asking, selector=config.selector.name, schedule=config.plan.schedule, selection=priced)
    training = replace(asking, epsilon="0.5", initial=1.0, asked=0.0, batch=0.5, epochs=5)
    if asking.selector in ("random", *_UNSEEN):
        return {"training": training, "campaign": asking}
    return {"training": training, "selection": replace(asking, selection_epsilon="0.9", epochs=1), "campaign": asking}


def audit_pool(
    config: CampaignConfig | None = None,
    *,
    plant: Plant | None = None,
    canaries: int = CANARIES,
    seed: int = 0,
    told: Told | None = None,
) -> Audit:
    """Run every twin once, with ``plant`` in the code if that is asked, and attack it."""
    check_canaries(canaries)
    wanted, done = twins_of(config), []
    for number, (name, twin) in enumerate(wanted.items()):
        if told is not None:
            told("private-pool", number, len(wanted))
        done.append(audit_pool_twin(name, replace(twin, canaries=canaries, plant=plant), twin_seed(seed, number)))
    if told is not None:
        told("private-pool", len(wanted), len(wanted))
    selector = next(iter(wanted.values())).selector
    return Audit(recipe="private-pool", way=selector, plant=plant, canaries=canaries, seed=seed, twins=tuple(done))


def audit_pool_twin(name: str, twin: PoolTwin, seed: int) -> Audited:
    """Run it once and attack it."""
    crowd = Canaries(count=twin.canaries, seed=seed)
    seen = run_twin(twin, crowd, seed=seed)
    return Audited(
        twin=name,
        claimed=seen.claimed,
        findings=attack(twin, crowd, seen),
        variances=(noise_variance(seen.noise_alone(crowd.coins)), batch_variance(seen.counts)),
    )
