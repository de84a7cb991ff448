"""`discreet audit`: attack the privacy claim of a recipe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.campaign_files import JsonOption, is_campaign, is_stream
from discreet.cli.plan import check_plot
from discreet.cli.progress import watching
from discreet.cli.storage import scratch
from discreet.errors import BadInput
from discreet.parts import RECIPES

if TYPE_CHECKING:
    from discreet.audit import Audit, Audits, TargetResult
    from discreet.audit.auditing import Subject

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
