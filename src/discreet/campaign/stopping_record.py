"""That a campaign stopped, why, and what it claims: never less because it stopped.

*Committed*: the claim is the worst path of the whole plan, as if it had run to its end. *Adaptive*: the whole budget of
the filter. When and why a run stops is itself decided by what it released, so a claim that depends on it would be
chosen by the outputs (docs/proofs/ledger.md, docs/proofs/adaptive-filters.md). What was spent is a gauge: it says how
much may still be charged to the same ledger, not what is promised.

Guarantee: `Stop.claimed_epsilon` is the epsilon of the certificate that `certify` gives of the same ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from discreet.campaign.stopping import Rule
from discreet.campaign.stopping_progress import Progress
from discreet.errors import BadInput
from discreet.privacy.exact import json_number
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger.terms import Mode

if TYPE_CHECKING:
    from discreet.trainers.accuracy import Evaluation

FORMAT = "discreet.stop/1"


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Audience: world. ``claimed_epsilon`` and ``claimed_delta`` are the promise, ``spent_epsilon`` is a gauge."""

    rule: Rule
    reason: str
    labels: int
    phases: int
    mode: Mode
    claimed_epsilon: Decimal
    claimed_delta: Decimal
    spent_epsilon: Decimal
    simulation: bool

    def to_json(self) -> dict[str, Any]:
        """A form for ``--json`` and reports."""
        return {
            "format": FORMAT,
            "simulation": self.simulation,
            "audience": "world",
            "rule": self.rule.to_json(),
            "reason": self.reason,
            "labels": self.labels,
            "phases": self.phases,
            "mode": self.mode,
            "claim": {"epsilon": json_number(self.claimed_epsilon), "delta": json_number(self.claimed_delta)},
            "spent_epsilon": json_number(self.spent_epsilon),
        }


def progress_of(
    ledger: Ledger, *, labels: int, phases: int, evaluations: Mapping[int, Evaluation] | None = None
) -> Progress:
    """Progress of a campaign under ``ledger``: its gauge is that of the path that spent most."""
    return Progress(
        labels=labels,
        phases=phases,
        epsilon=max(total.epsilon for total in ledger.totals()),
        evaluations=evaluations or {},
        simulation=ledger.simulation,
    )


def check_stop(rule: Rule, progress: Progress, *, ledger: Ledger) -> Stop | None:
    """A record of stopping now, with its claim, if ``rule`` is met; else None. Charges nothing, changes nothing.

    The claim is computed as for a certificate: seconds, where PLD is the accountant.
    """
    from discreet.privacy.certificate import certify

    if progress.simulation != ledger.simulation:
        raise BadInput("stopping a campaign", "one of progress and ledger is a simulation and the other is not",
                       "Use progress_of(ledger, ...)")  # fmt: skip
    if not rule.met(progress):
        return None
    claim = certify(ledger)["claim"]
    return Stop(
        rule=rule,
        reason=rule.reason(progress),
        labels=progress.labels,
        phases=progress.phases,
        mode=ledger.terms.mode,
        claimed_epsilon=Decimal(str(claim["epsilon"])),
        claimed_delta=Decimal(str(claim["delta"])),
        spent_epsilon=progress.epsilon,
        simulation=ledger.simulation,
    )
