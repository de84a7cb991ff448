"""Audits of recipes: the audit targets of each, and the faults that can be injected into each.

    private-pool    `pool_target`           selection, training, both
    public-data     `near_private_target`   counts near private records, components of them, both
    crowd           `gate_target`           the release gate, by rows and by persons
    pate            `vote_target`           every way of answering
    stream          `stream_target`         ask bits, updates, both

A file says how its campaign chooses, answers, counts or asks, and targets do it that way; sizes, data and budget are
their own. An audit at the campaign's own epsilon could not fail (`discreet.audit.findings`), so targets are planned
at 1/2 to 2, where some hundred guesses refute a false claim. They find faults of the code that campaigns share; they
say nothing of a model of one's own, of another machine, or of what people do with labels.

Faults are part of discreet-research; where it is not installed, there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from discreet.audit.results import (
    CANARIES,
    NO_FAULT,
    Audit,
    Audits,
    Fault,
    Progress,
    Targets,
    check_canaries,
    target_seed,
)
from discreet.config import CampaignFile, StreamConfig
from discreet.errors import BadInput
from discreet.parts import RECIPES as ENTRIES

Subject = CampaignFile | StreamConfig


def injected_faults() -> Mapping[str, Mapping[str, Fault]]:
    """The faults of discreet-research by recipe and name; none where it is not installed."""
    if find_spec("discreet_research") is None:
        return {}
    faults: Mapping[str, Mapping[str, Fault]] = import_module("discreet_research.injected_faults").FAULTS
    return faults


def audit(
    subject: Subject | None = None,
    *,
    recipe: str | None = None,
    plant: str | None = None,
    canaries: int = CANARIES,
    seed: int = 0,
    progress: Progress | None = None,
) -> Audits:
    """Audit the recipe of a file, or one by its name, or all; with a fault, those into which it can be injected."""
    check_canaries(canaries)
    recipes = _recipes(subject, recipe)
    faults = dict.fromkeys(recipes, NO_FAULT)
    if plant is not None:
        known = injected_faults()
        faults = {name: known[name][plant] for name in recipes if plant in known.get(name, {})}
    if not faults:
        names = sorted({fault for name in recipes for fault in known.get(name, {})})
        advice = f"Choose one of {', '.join(names)}" if names else "Install discreet-research, which has them"
        raise BadInput(f"planting {plant}", "there is no such fault", advice)
    audits = [_audit_recipe(name, subject, fault, canaries, seed, progress) for name, fault in faults.items()]
    return Audits(plant=plant, seed=seed, recipes=tuple(audits))


def targets_of(recipe: str, subject: Any = None) -> tuple[str, Targets]:
    """How a file's campaign chooses, answers, counts or asks, or the usual settings do; and the targets, by name."""
    entry = ENTRIES[recipe]
    assert entry.audit is not None
    named: tuple[str, Targets] = entry.audit(subject)
    return named


def _recipes(subject: Subject | None, recipe: str | None) -> tuple[str, ...]:
    if recipe is not None and recipe not in ENTRIES:
        raise BadInput(f"an audit of {recipe}", "there is no such recipe", f"Choose one of {', '.join(RECIPES)}")
    of_file = None if subject is None else subject.recipe_name
    if of_file is not None and recipe not in (None, of_file):
        raise BadInput(f"an audit of {recipe}", f"the file is of {of_file}", "Leave one of them out")
    name = of_file or recipe
    if name is not None and name not in RECIPES:
        raise BadInput(f"an audit of {name}", "it has no audit targets", f"Audit one of {', '.join(RECIPES)}")
    return (name,) if name is not None else RECIPES


def _audit_recipe(
    recipe: str, subject: Subject | None, fault: Fault, canaries: int, seed: int, progress: Progress | None
) -> Audit:
    way, targets = targets_of(recipe, subject)
    results = []
    for number, (name, target) in enumerate(targets.items()):
        if progress is not None:
            progress(recipe, number, len(targets))
        changed = replace(target, canaries=canaries, fault=fault, **fault.settings)
        results.append(changed.audit(name, target_seed(seed, number)))
    if progress is not None:
        progress(recipe, len(targets), len(targets))
    return Audit(recipe=recipe, way=way, plant=fault.name or None, canaries=canaries, seed=seed, targets=tuple(results))


def private_pool_targets(subject: Any) -> tuple[str, Targets]:
    """Training: all canaries are trained on, from the first step. Selection: most of the budget is spent on choosing.
    Campaign: both, as a campaign spends them.
    """
    from discreet.audit.pool_target import HIDDEN, PoolTarget, pays_by_query

    campaign = PoolTarget()
    if subject is not None:
        priced = subject.plan.selection if pays_by_query(subject.selector.name) else None
        campaign = replace(campaign, selector=subject.selector.name, schedule=subject.plan.schedule, selection=priced)
    targets = {"training": replace(campaign, epsilon="0.5", initial=1.0, asked=0.0, batch=0.5, epochs=5)}
    if campaign.declared.reads and campaign.declared.prices != HIDDEN:
        targets["selection"] = replace(campaign, selection_epsilon="0.9", epochs=1)
    return campaign.selector, {**targets, "campaign": campaign}


def crowd_targets(subject: Any) -> tuple[str, Targets]:
    """The release gate, by rows and by persons; of a file, as it counts."""
    from discreet.audit.gate_target import GateTarget

    targets = {"rows": GateTarget(persons=False, k=40, beta=0.4), "persons": GateTarget()}
    if subject is None:
        return "the gate", targets
    unit = "rows" if subject.log.person is None else "persons"
    return f"the gate, by {unit}", {unit: targets[unit]}


def pate_targets(subject: Any) -> tuple[str, Targets]:
    """Every way of answering, or that of a file."""
    from discreet.audit.vote_target import VoteTarget

    targets = {
        "gaussian": VoteTarget(),
        "laplace": VoteTarget(aggregator="laplace"),
        "confident answers": VoteTarget(aggregator="confident"),
        "confident checks": VoteTarget(aggregator="confident", check_share=0.8, confident_share=0.6),
        "sparse": VoteTarget(aggregator="sparse"),
    }
    if subject is None:
        return "all aggregators", targets
    named = subject.answers.aggregator
    chosen = {name: target for name, target in targets.items() if target.aggregator == named}
    if not chosen:  # the paper's calibration of one of them
        chosen = {named: replace(targets[named.removesuffix("-paper")], aggregator=named)}
    return named, chosen


def stream_targets(subject: Any) -> tuple[str, Targets]:
    """Ask bits, updates, and both."""
    from discreet.audit.stream_target import StreamTarget

    usual = StreamTarget()
    if subject is not None:
        usual = replace(usual, rule=subject.asking.name, noise=subject.noise.name)
    updates = replace(usual, rule="everything", asked="0")
    targets = {"updates": updates}
    if subject is None:
        targets["gaussian updates"] = replace(updates, noise="gaussian")
    if usual.rule != "everything":
        targets |= {"asking": replace(usual, asked="0.9"), "both": usual}
    return f"asking {usual.rule}, {usual.noise} noise", targets


def public_data_targets(subject: Any) -> tuple[str, Targets]:
    """The counts near private records, and components of them."""
    from discreet.audit.near_private_target import NearPrivateTarget

    if subject is not None and not subject.selector.reads_private:
        raise BadInput(
            f"an audit of public-data by {subject.selector.name}",
            "it reads no private record: its price is that of its checkpoint",
            "Audit the campaign that made the checkpoint",
        )
    components, counts = NearPrivateTarget(support="0.1"), NearPrivateTarget(support="0.9")
    return "near-private", {"components": components, "counts": counts, "both": NearPrivateTarget()}


RECIPES = tuple(name for name, entry in ENTRIES.items() if entry.audit is not None)
"""Recipes that have audit targets."""
