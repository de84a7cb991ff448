"""`discreet verify`: is this certificate, ledger, campaign, stream or exported model what it says? `discreet audit`:
attack the privacy claim of a recipe.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import JsonOption, is_campaign, is_stream, lines_of
from discreet.cli.plan import check_plot
from discreet.cli.progress import watching
from discreet.cli.storage import scratch
from discreet.errors import BadInput, TooMuchWork
from discreet.parts import RECIPES

if TYPE_CHECKING:
    from discreet.audit import Audit, Audits, TargetResult
    from discreet.audit.auditing import Subject
    from discreet.privacy.certificate import Verdict


_PATIENCE = 4
"""How many times the estimated limit a check may compute: the estimate is of an ordinary core."""


def verify_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="A certificate, a ledger, a campaign's or stream's TOML file, or the directory of an export.",
            show_default=False,
        ),
    ],
    ledger: Annotated[
        Path | None, typer.Option(help="Check a certificate against this ledger (or this campaign's), too.")
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option(help="Demand a signature by this Ed25519 public key (PEM).")
    ] = None,
    max_seconds: Annotated[
        float,
        typer.Option(min=1, help="Refuse what would compute longer than about this on one core, before it begins."),
    ] = 300.0,
    as_json: JsonOption = False,
) -> None:
    """Compute everything again from the events alone. Exit code 0: all checks passed; 1: one failed.

    Of a campaign: the ledger in its store, the plan, what was paid for each step, every row (answers, questions,
    exposures, steps, pool) with its MAC, the database itself, and the hash of every file, released or kept. Of a
    stream: its ledger, that it pays for what the file declares, its journal, and every published model. Of an export:
    its certificate, the hash of every file, and that it claims what the certificate proves. Of a certificate alone, no
    other file but weights beside it.

    A file that cannot be checked within --max-seconds is refused with exit code 2; nothing is said about its claim.

    Example: discreet verify certificate.json --ledger scans.toml --public-key signing.pem.pub
    """
    from discreet.cli.progress import working

    with working("verifying"), _limited(max_seconds):
        verdict = _verdict(file, ledger, public_key, max_seconds)
    if as_json:
        print(json.dumps(_form(verdict)))  # noqa: T201
    else:
        _show(file.name, verdict)
    if not verdict.ok:
        raise typer.Exit(1)


class _Expired(BaseException):
    """No part of a check may take it for a finding."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End what the estimate did not foresee, after some times as much time of the processor."""

    def expire(*_: object) -> None:
        raise _Expired

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPROF, expire)
    signal.setitimer(signal.ITIMER_PROF, _PATIENCE * seconds)
    try:
        yield
    except _Expired:
        raise TooMuchWork(
            "verifying",
            f"it cannot be checked within the limit: {_PATIENCE * seconds:g} seconds of the processor were not enough",
            "If you trust who sent it, raise the limit: --max-seconds",
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _verdict(file: Path, ledger: Path | None, public_key: Path | None, seconds: float) -> Verdict:
    from discreet.privacy.certificate import verify
    from discreet.privacy.certificate.verification import lines_in, verify_certificate

    if is_campaign(file):
        from discreet.config import StreamConfig, read_campaign
        from discreet.recipes.verification import verify_campaign

        if ledger is not None or public_key is not None:
            raise BadInput("verifying a campaign", "--ledger and --public-key go with a certificate", "Leave them out")
        if is_stream(file):
            from discreet.stream.stream_directory import verify_stream

            return verify_stream(StreamConfig.read(file), most_seconds=seconds)
        return verify_campaign(read_campaign(file, stored=True), most_seconds=seconds)
    if file.is_dir():
        from discreet.exports.model_form import verify_export

        lines = None
        if ledger is not None:
            lines = lines_of(ledger) if is_campaign(ledger) else lines_in(ledger)
        return verify_export(file, lines=lines, public_key=public_key, most_seconds=seconds)
    if ledger is None or not is_campaign(ledger):
        return _beside(file, verify(file, ledger=ledger, public_key=public_key, most_seconds=seconds))
    from discreet.privacy.certificate.signatures import read_public

    if not file.is_file():
        raise BadInput(f"reading {file.name or file}", "there is no such file", "Check the path")
    known = None if public_key is None else read_public(public_key)
    verdict = verify_certificate(file.read_bytes(), lines=lines_of(ledger), public_key=known, most_seconds=seconds)
    return _beside(file, verdict)


def _beside(file: Path, verdict: Verdict) -> Verdict:
    """With what is in the same directory: the weights that a certificate names, the files that a ledger names."""
    if verdict.what == "ledger" and verdict.ok and not verdict.simulation:
        from discreet.gates.release_files import released_check

        return replace(verdict, checks=(*verdict.checks, released_check(file)))
    if not verdict.weights:
        return verdict
    from discreet.exports.model_form import weights_beside

    return weights_beside(file, verdict)


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
        "time": verdict.time or None,
        "weights": verdict.weights or None,
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
    if verdict.ok and verdict.time:
        lines.append(f"{verdict.time[0].upper()}{verdict.time[1:]}.")
    if verdict.simulation:
        lines.append("SIMULATION: its noise was seeded; it proves nothing about people.")
    print("\n".join(lines))  # noqa: T201


AUDITED = ", ".join(name for name, recipe in RECIPES.items() if recipe.audit is not None)


def audit_command(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="CONFIG|STORE",
            help="A campaign's or a stream's TOML file; or a store, with --campaign. Else the usual settings.",
            show_default=False,
        ),
    ] = None,
    campaign: Annotated[
        str | None,
        typer.Option(help="The name of a campaign in the store; needless if it has one.", show_default=False),
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help=f"Without a file: {AUDITED}. Else all of them.", show_default=False)
    ] = None,
    plant: Annotated[
        str | None,
        typer.Option(
            help="Inject this fault into the running code, such as no-noise: the audit must catch it. A wrong name "
            "lists all.",
            hidden=find_spec("discreet_research") is None,
        ),
    ] = None,
    canaries: Annotated[int, typer.Option(help="Made-up records, each present by a fair coin.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of coins and noise.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw claims and what was proved (.png, .svg or .pdf).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Attack the privacy claim of a recipe: small audit targets on made-up records, each present by a fair coin.

    Prints for each attack the epsilon it proves, and the most it could have proved. Exit code 1: a claim is broken. Of
    a store it reads only the settings that the campaign was created with. Audience: public.

    Example: discreet audit --recipe stream
    """
    from discreet.audit import audit

    subject = _subject(what, campaign)
    check_plot(plot)
    with watching() as progress:
        audits = audit(subject, recipe=recipe, plant=plant, canaries=canaries, seed=seed, progress=progress)
    if plot is not None:
        from discreet.report.plan_figure import draw_audit

        draw_audit(audits.to_json(), plot)
    typer.echo(json.dumps(audits.to_json()) if as_json else _text(audits))
    if audits.verdict == "broken":
        raise typer.Exit(1)


def _subject(what: str | None, campaign: str | None) -> Subject | None:
    from discreet.config import StreamConfig, read_campaign

    if campaign is not None and (what is None or is_campaign(Path(what))):
        raise BadInput(f"the campaign {campaign}", "there is no store to look for it in", "Name the store, too")
    if what is None:
        return None
    if not is_campaign(Path(what)):
        return _stored(what, campaign)
    return StreamConfig.read(Path(what)) if is_stream(Path(what)) else read_campaign(Path(what))


def _stored(url: str, campaign: str | None) -> Subject:
    """The settings that a campaign was created with."""
    from discreet.recipes.opening import stored_config
    from discreet.storage import open_storage

    with open_storage(url, directory=scratch(url), must_exist=True) as storage:
        names = storage.campaigns()
        if campaign is None and len(names) != 1:
            raise BadInput(
                "an audit of a campaign in a store", f"the store has {len(names)} of them", "Name one by --campaign"
            )
        return stored_config(storage, campaign or names[0], directory=Path.cwd())


def _text(audits: Audits) -> str:
    lines = [line for audit in audits.recipes for line in _lines_of(audit)]
    end = "A claim is broken." if audits.verdict == "broken" else "No claim was shown to be broken, at 99.9%."
    return "\n".join([*lines, end])


def _lines_of(audit: Audit) -> Iterator[str]:
    fault = f" Injected fault: {audit.plant}." if audit.plant else ""
    yield f"{audit.recipe}, {audit.way}; {audit.canaries} canaries.{fault}"
    for result in audit.targets:
        yield f"  {result.target}: claims epsilon {result.claimed:.3f}"
        yield from (f"    {name:<8} {text}" for name, text in _checks_of(result))


def _checks_of(result: TargetResult) -> Iterator[tuple[str, str]]:
    verdicts = {"exceeded": "EXCEEDED", "not exceeded": "not exceeded", "none": "no verdict"}
    for finding in result.findings:
        yield (
            finding.attack,
            f"{finding.guesses.right} of {finding.guesses.count} guesses right: above {finding.proved:.3f}; "
            f"could prove {finding.highest:.2f} at most. {verdicts[finding.verdict]}.",
        )
    for variance in result.variances:
        verdict = "TOO SMALL" if variance.verdict == "smaller" else "Not too small"
        numbers = f"variance {variance.ratio:.2f} of the planned, of {variance.numbers} numbers. {verdict}."
        yield variance.test, numbers if variance.numbers else "no noise was seen by itself."
    for check in result.sensitivity_checks:
        verdict = "TOO FAR" if check.verdict == "too far" else "Not too far"
        yield (
            check.test,
            f"one canary moves them by {check.furthest:g} at most, of {check.canaries} tried; "
            f"{check.allowed:g} is paid for. {verdict}.",
        )
