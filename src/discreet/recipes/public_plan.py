"""What a campaign on public data commits to, before anything is read: the checkpoint's price, and that of looking.

    the checkpoint's own event  +  [near-private: components (Gaussian) + counts (discrete Laplace)]   <=   the budget

Guarantee: one path, on which every private record is, with all of it; certified by PLD when the ledger is created.
Fine-tuning and free selectors add nothing. Where the noise of the components is not declared it is the least that keeps
the budget, found on the safe side.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from discreet.config import CampaignConfig
from discreet.config.campaign_tables import CheckpointConfig
from discreet.errors import BadInput, DiscreetError, InvalidStore, UnsupportedEvent
from discreet.planning.calibration import least_noise
from discreet.privacy.budget import exact_decimal, float_above, float_below
from discreet.privacy.event_forms import from_json, to_json
from discreet.privacy.events import DiscreteLaplace, Event, Gaussian, PoissonSampledGaussian, Repeated, Stated
from discreet.privacy.ledger import Line, PathSegment, Terms, committed
from discreet.privacy.ledger import Path as LedgerPath
from discreet.privacy.ledger.charges import canonical
from discreet.privacy.ledger.plan_terms import HELD_OUT
from discreet.privacy.trajectories import cost_of

FORMAT = "discreet.public-plan/1"
PRIVATE = "private"
"""The group of all records that the checkpoint learnt from."""
FIRST_QUERY = 1
_TOLERANCE, _LEAST, _MOST = 1e-3, 0.05, 1e5


@dataclass(frozen=True, kw_only=True)
class PublicPlan:
    """Everything that will be charged. Public.

    checkpoint          what the private model cost; charged when the campaign takes it up
    weights             the hash of its file
    bound               whether its certificate names these weights; None: there is no certificate
    support_epsilon     of near-private's counts; None: a free selector
    components_noise    noise multiplier of its components
    """

    checkpoint: Event
    weights: str
    bound: bool | None = None
    support_epsilon: Decimal | None = None
    components_noise: float | None = None

    @property
    def looks(self) -> tuple[Event, ...]:
        """What near-private costs, once; nothing for free selectors."""
        if self.support_epsilon is None or self.components_noise is None:
            return ()
        return Gaussian(noise_multiplier=self.components_noise), DiscreteLaplace(epsilon=self.support_epsilon)

    def lines(self) -> tuple[Line, ...]:
        """Charges of the private records, in their order."""
        event, count = self.charged
        checkpoint = Line(who=PRIVATE, phase=0, event=event, count=count)
        return (checkpoint, *(Line(who=PRIVATE, phase=FIRST_QUERY, event=look) for look in self.looks))

    @property
    def charged(self) -> tuple[Event, int]:
        """The checkpoint's event and how often it happened."""
        checkpoint = self.checkpoint
        return (checkpoint.event, checkpoint.count) if isinstance(checkpoint, Repeated) else (checkpoint, 1)

    def terms(self, config: CampaignConfig, *, phases: int, held_out: Event | None = None) -> Terms:
        """The ledger's. ``held_out``: what one evaluation costs records kept apart, made once a phase."""
        paths = [LedgerPath(name=PRIVATE, stays=(PathSegment(who=PRIVATE),))]
        lines = list(self.lines())
        if held_out is not None:
            paths.append(LedgerPath(name=HELD_OUT, stays=(PathSegment(who=HELD_OUT),)))
            lines += [Line(who=HELD_OUT, phase=number, event=held_out) for number in range(phases)]
        lines.sort(key=lambda line: line.phase)
        return committed(config.budget.budget(), lines, paths=paths, plan=self.digest())

    def digest(self) -> str:
        """By which the ledger names it."""
        return hashlib.sha256(canonical(self.to_json())).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """A form that reads back to an equal value."""
        bound = {} if self.bound is None else {"bound": self.bound}
        return {
            "format": FORMAT,
            "checkpoint": to_json(self.checkpoint),
            "weights": self.weights,
            **bound,
            "support_epsilon": None if self.support_epsilon is None else str(self.support_epsilon),
            "components_noise": self.components_noise,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> PublicPlan:
        """The inverse of `to_json`."""
        try:
            if form["format"] != FORMAT:
                raise ValueError
            support, bound = form["support_epsilon"], form.get("bound")
            if bound is not None and type(bound) is not bool:
                raise ValueError
            return cls(
                checkpoint=from_json(form["checkpoint"]),
                weights=str(form["weights"]),
                bound=bound,
                support_epsilon=None if support is None else exact_decimal(support, "support_epsilon"),
                components_noise=form["components_noise"],
            )
        except (KeyError, TypeError, ValueError, DiscreetError):
            raise InvalidStore("a plan on public data", "it is not in its form", "Restore the store") from None


def public_plan_of(config: CampaignConfig) -> PublicPlan:
    """The plan that the campaign's file asks for. Touches no record."""
    weights = hashlib.sha256(checkpoint_bytes(config)).hexdigest()
    event, bound = _checkpoint(config, weights)
    plan = PublicPlan(checkpoint=event, weights=weights, bound=bound)
    _check(config, plan, "budget.epsilon", "Raise it, or take an earlier checkpoint")
    if not config.selector.reads_private:
        return plan
    support, noise = config.selector.support_epsilon, config.selector.components_noise
    assert support is not None  # checked with the file
    plan = replace(plan, support_epsilon=support)
    if noise is None:
        return replace(plan, components_noise=_noise(config, plan))
    declared = replace(plan, components_noise=noise)
    _check(config, declared, "selector.components_noise", "Raise it, lower support_epsilon, or raise epsilon")
    return declared


def checkpoint_bytes(config: CampaignConfig) -> bytes:
    """The file of the private model's weights."""
    assert config.checkpoint is not None  # checked with the file
    path = config.resolve(config.checkpoint.path)
    if not path.is_file():
        raise config.error("checkpoint.path", "there is no such file", "Name its weights, as safetensors")
    return path.read_bytes()


def _noise(config: CampaignConfig, plan: PublicPlan) -> float:
    """The least noise of the components with which everything together keeps the budget."""

    def cost(noise: float) -> float:
        return spent(config, replace(plan, components_noise=noise))

    limit = float_below(config.budget.epsilon)
    found = least_noise(cost, limit, start=10.0, tolerance=_TOLERANCE, smallest=_LEAST, largest=_MOST)
    if found is None:
        raise config.error(
            "selector.support_epsilon",
            f"checkpoint and counts leave nothing of epsilon {config.budget.epsilon} for components",
            "Lower it, raise epsilon, or take an earlier checkpoint",
        )
    return found


def spent(config: CampaignConfig, plan: PublicPlan) -> float:
    """What a private record loses by this plan, as the ledger will certify it."""
    terms = plan.terms(config, phases=1)
    try:
        return float_above(max(cost_of(path, terms.accounted, by_pld=True) for path in terms.trajectories()))
    except UnsupportedEvent:  # its losses reach further than any budget
        return math.inf


def _check(config: CampaignConfig, plan: PublicPlan, key: str, remedy: str) -> None:
    with config.pointing("checkpoint"):
        cost = spent(config, plan)
    if cost > float_above(config.budget.epsilon):
        shown = f"{cost:.4g}" if cost < 1e9 else "more than any epsilon at this delta"
        raise config.error(key, f"what is committed costs {shown}, and epsilon is {config.budget.epsilon}", remedy)


def _checkpoint(config: CampaignConfig, weights: str) -> tuple[Event, bool | None]:
    """What it cost, and whether that is proven of these very weights."""
    table = config.checkpoint
    assert table is not None  # checked with the file
    if table.certificate is not None:
        return _certified(config, config.resolve(table.certificate), weights)
    return _declared(table), None


def _declared(table: CheckpointConfig) -> Event:
    if table.steps is not None:
        assert table.sampling_rate is not None
        assert table.noise_multiplier is not None
        step = PoissonSampledGaussian(sampling_rate=table.sampling_rate, noise_multiplier=table.noise_multiplier)
        return Repeated(event=step, count=table.steps)
    assert table.epsilon is not None
    assert table.delta is not None
    return Stated(epsilon=table.epsilon, delta=table.delta)


def _certified(config: CampaignConfig, path: Path, weights: str) -> tuple[Stated, bool]:
    """The claim of a certificate, if it holds when it is computed again and is of no other model."""
    from discreet.privacy.certificate.verification import verify_certificate

    key = "checkpoint.certificate"
    if not path.is_file():
        raise config.error(key, "there is no such file", "Name the certificate.json of an export")
    with config.pointing(key):
        verdict = verify_certificate(path.read_bytes())
    if verdict.claim is None or verdict.budget is None:
        raise config.error(key, "it does not hold when it is computed again", "Run discreet verify on it")
    if verdict.weights not in ("", weights):
        remedy = "Name the certificate.json and the weights of one export"
        raise config.error(key, "it is of another model than the one in path", remedy)
    _check_features(config, verdict.features)
    if verdict.simulation and config.simulation is None:
        raise config.error(key, "it is of a simulation, and proves nothing about people", "Add [simulation]")
    if verdict.budget.relation != "zero-out" or verdict.budget.unit != config.budget.unit:
        raise config.error(key, f"it protects a {verdict.budget.unit}", "Protect the same unit in [budget]")
    try:
        claim = Stated(epsilon=str(verdict.claim["epsilon"]), delta=str(verdict.claim["delta"]))
    except BadInput as error:
        raise config.error(key, error.fact, "Export the model again") from None
    return claim, bool(verdict.weights)


def _check_features(config: CampaignConfig, named: str) -> None:
    """Refuse another feature map than the one, by its hash, that the checkpoint's certificate names."""
    fitted = None if config.features is None else config.features.fitted
    if not named or (fitted is not None and fitted.identity()["sha256"] == named):
        return
    if fitted is None:
        fact, remedy = "its model reads features, and this campaign has none", "Add the [features] it was trained with"
        raise config.error("checkpoint.certificate", fact, remedy)
    remedy = (
        "Write the [features] it was trained with; what was fitted to public rows is in the model.json of its export"
    )
    raise config.error("features.name", "the checkpoint's certificate names another map, by its SHA-256", remedy)
