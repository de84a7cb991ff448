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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from discreet.audit.canaries import Canaries
from discreet.audit.planted import Plant
from discreet.audit.pool_twin import PoolTwin, attack, run_twin
from discreet.audit.variances import Variance, batch_variance, noise_variance
from discreet.audit.verdict import Finding
from discreet.config import CampaignConfig
from discreet.errors import BadInput

FORMAT = "discreet.audit/1"
CANARIES, FEWEST, MOST = 5000, 500, 20_000
_UNSEEN = ("hidden-threshold",)
Told = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Audited:
    """One twin, what was tried on it and what came of it."""

    twin: str
    claimed: float
    findings: tuple[Finding, ...]
    variances: tuple[Variance, ...]

    @property
    def failed(self) -> bool:
        """Whether anything was surely wrong."""
        return any(one.verdict == "exceeded" for one in self.findings) or any(
            one.verdict == "smaller" for one in self.variances
        )


@dataclass(frozen=True, kw_only=True)
class Audit:
    """All twins of a recipe. Audience: world, for it is of made-up records."""

    recipe: str
    selector: str
    plant: Plant | None
    canaries: int
    seed: int
    twins: tuple[Audited, ...]

    @property
    def verdict(self) -> Literal["holds", "broken"]:
        """Holds: nothing was found that could have been."""
        return "broken" if any(one.failed for one in self.twins) else "holds"

    def to_json(self) -> dict[str, Any]:
        """As it is stored and printed."""
        return {
            "format": FORMAT,
            "simulation": True,
            "recipe": self.recipe,
            "selector": self.selector,
            "plant": self.plant,
            "canaries": self.canaries,
            "seed": self.seed,
            "verdict": self.verdict,
            "twins": [
                {
                    "twin": one.twin,
                    "claimed": one.claimed,
                    "attacks": [found.to_json() for found in one.findings],
                    "variances": [found.to_json() for found in one.variances],
                }
                for one in self.twins
            ],
        }


def twins_of(config: CampaignConfig | None = None) -> dict[str, PoolTwin]:
    """The twins of a campaign's file, or of the usual settings."""
    asking = PoolTwin()
    if config is not None:
        if config.recipe.name != "private-pool":
            raise BadInput(
                f"an audit of {config.recipe.name}", "only private-pool has twins so far", "Audit a private pool"
            )
        asking = replace(asking, selector=config.selector.name, schedule=config.plan.schedule)
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
    if type(canaries) is not int or not FEWEST <= canaries <= MOST:
        raise BadInput(f"{canaries} canaries", f"an audit has {FEWEST} to {MOST}", f"Try {CANARIES}")
    wanted, done = twins_of(config), []
    for number, (name, twin) in enumerate(wanted.items()):
        if told is not None:
            told("auditing", number, len(wanted))
        done.append(_audited(name, replace(twin, canaries=canaries, plant=plant), seed + number))
    if told is not None:
        told("auditing", len(wanted), len(wanted))
    selector = next(iter(wanted.values())).selector
    return Audit(recipe="private-pool", selector=selector, plant=plant, canaries=canaries, seed=seed, twins=tuple(done))


def _audited(name: str, twin: PoolTwin, seed: int) -> Audited:
    crowd = Canaries(count=twin.canaries, seed=seed)
    seen = run_twin(twin, crowd, seed=seed)
    return Audited(
        twin=name,
        claimed=seen.claimed,
        findings=tuple(attack(twin, crowd, seen)),
        variances=(noise_variance(seen.noise_alone(crowd.coins)), batch_variance(seen.counts)),
    )
