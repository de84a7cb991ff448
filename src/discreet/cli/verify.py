"""`discreet verify`: is this certificate, or this ledger, what it says?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from discreet.privacy.certificate import Verdict


def verify_command(
    file: Annotated[Path, typer.Argument(help="A certificate or a ledger.", show_default=False)],
    ledger: Annotated[Path | None, typer.Option(help="Check a certificate against this ledger, too.")] = None,
    public_key: Annotated[
        Path | None, typer.Option(help="Demand a signature by this Ed25519 public key (PEM).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Compute everything again from the events alone. Exit code 0: all checks passed; 1: one failed.

    Example: discreet verify certificate.json --ledger scans.ledger --public-key signing.pem.pub
    """
    from discreet.cli.progress import working
    from discreet.privacy.certificate import verify

    with working("verifying"):
        verdict = verify(file, ledger=ledger, public_key=public_key)
    if as_json:
        print(json.dumps(_form(verdict)))  # noqa: T201
    else:
        _show(file.name, verdict)
    if not verdict.ok:
        raise typer.Exit(1)


def _form(verdict: Verdict) -> dict[str, Any]:
    return {
        "format": "discreet.verdict/1",
        "simulation": verdict.simulation,
        "what": verdict.what,
        "ok": verdict.ok,
        "mode": verdict.mode or None,
        "signed": verdict.signed,
        "claim": verdict.claim,
        "budget": verdict.budget.to_json() if verdict.budget else None,
        "not_released": verdict.not_released or None,
        "checks": [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in verdict.checks],
    }


def _show(name: str, verdict: Verdict) -> None:
    lines = [f"{'ok    ' if check.ok else 'FAILED'}  {check.name}: {check.detail}" for check in verdict.checks]
    if verdict.ok and verdict.claim and verdict.budget:
        budget, claim = verdict.budget, verdict.claim
        lines.append(
            f"{name} holds: epsilon {claim['epsilon']} at delta {claim['delta']} per {budget.unit}, relation "
            f"{budget.relation}, {verdict.mode} mode."
        )
    elif verdict.ok:
        lines.append(f"{name} holds, {verdict.mode} mode.")
    else:
        lines.append(f"{name} does not hold. Do not rely on it.")
    if verdict.ok and verdict.not_released:
        lines.append(f"It holds for models and thresholds: {verdict.not_released}, and must not be.")
    if verdict.simulation:
        lines.append("SIMULATION: its noise was seeded; it proves nothing about people.")
    print("\n".join(lines))  # noqa: T201
