"""`discreet labelstudio`: questions pushed to a Label Studio server, answers pulled from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show, where
from discreet.cli.progress import interruptible

if TYPE_CHECKING:
    from discreet.campaign import Campaign
    from discreet.oracles.label_studio import LabelStudioOracle, Read
    from discreet.recipes.label_studio import PulledAnswers, PushedQuestions

labelstudio_app = typer.Typer(
    name="labelstudio",
    no_args_is_help=True,
    help="Questions in a Label Studio server. Its token: LABEL_STUDIO_API_KEY, or [oracle] token_file.",
)
_SHOWN = 5


@labelstudio_app.command("push")
def push_command(config: ConfigArgument, as_json: JsonOption = False) -> None:
    """Give every open question a task on the server; the next query first, if it is time for it. Audience: owner.

    Everybody with an account there can see the tasks, and is recorded first (discreet exposure). Repeating it pushes
    nothing twice; tasks of withdrawn records are deleted.

    Example: discreet labelstudio push scans.toml
    """
    from discreet.recipes.label_studio import push

    with _both(config) as (campaign, oracle), interruptible():
        done = push(campaign, oracle)
    form = _form("discreet.labelstudio-push/1", campaign) | pushed_form(done)
    show(form, "\n".join([*pushed_lines(done), where(campaign)]), as_json=as_json)


@labelstudio_app.command("pull")
def pull_command(config: ConfigArgument, as_json: JsonOption = False) -> None:
    """Tell the campaign what people submitted. Pulling again changes nothing. Audience: owner.

    A label outside the classes is no answer: its question stays open, and is named. Exit code 1 if there is one.

    Example: discreet labelstudio pull scans.toml
    """
    from discreet.recipes.label_studio import pull

    with _both(config) as (campaign, oracle), interruptible():
        done = pull(campaign, oracle)
        left = len(campaign.open())
    form = _form("discreet.labelstudio-pull/1", campaign) | pulled_form(done) | {"open": left}
    lines = [*pulled_lines(done), f"{left} questions are open", where(campaign, answered=not left)]
    show(form, "\n".join(lines), as_json=as_json)
    if done.read.refused:
        raise typer.Exit(1)


@labelstudio_app.command("sync")
def sync_command(
    config: ConfigArgument,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = 30.0,
    until_done: Annotated[
        bool,
        typer.Option("--until-done", help="End when every question is answered; with --train, when all is trained."),
    ] = False,
    train: Annotated[bool, typer.Option("--train", help="Train each phase when its questions are answered.")] = False,
    patience: Annotated[
        float, typer.Option(help="Seconds that the server may be away before it is given up.", min=0)
    ] = 600.0,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Listen for webhooks, and look at once when one comes. A port alone: on 127.0.0.1.",
            show_default=False,
        ),
    ] = None,
    hint_url: Annotated[
        str | None,
        typer.Option(help="How the server reaches that: makes its webhook, and deletes it again.", show_default=False),
    ] = None,
    hint_secret_file: Annotated[
        Path | None,
        typer.Option(help="Of a webhook that you made: what its header X-Discreet-Hint says.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Push and pull, again and again, until it is interrupted. Interrupting it loses nothing. Audience: owner.

    A webhook is only a hint to look: what it says is not read.

    Example: discreet labelstudio sync scans.toml --every 60 --until-done
    """
    from discreet.cli.labelstudio_sync import Sync, listening

    with _both(config) as (campaign, oracle), interruptible(), listening(listen, hint_url, hint_secret_file) as heard:
        sync = Sync(campaign, oracle, every=every, train=train, patience=patience, **heard)
        sync.run(until_done=until_done)
        left = len(campaign.open())
    form = _form("discreet.labelstudio-sync/1", campaign) | sync.counts() | {"open": left}
    text = ", ".join(f"{count} {name}" for name, count in sync.counts().items())
    show(form, f"{text}; {left} questions are open\n{where(campaign, answered=not left)}", as_json=as_json)


@labelstudio_app.command("status")
def status_command(config: ConfigArgument, as_json: JsonOption = False) -> None:
    """What is on the server; changes nothing, there or here. Audience: owner.

    Example: discreet labelstudio status scans.toml
    """
    with _both(config) as (campaign, oracle), interruptible():
        status = oracle.status()
        names = {question.id for question in campaign.open()}
    on_server = status.read.questions if status.read is not None else frozenset()
    form = _form("discreet.labelstudio-status/1", campaign) | {
        "server": oracle.audience,
        "project": status.project,
        "people": status.people,
        "tasks": status.tasks,
        "open": len(names),
        "open_there": len(names & on_server),
    }
    lines = [
        f"{oracle.audience}, project {status.project or '(none yet: push makes it)'}",
        f"{status.tasks} tasks, which {status.people} people can see; "
        f"{len(names & on_server)} of {len(names)} open questions have one",
    ]
    if status.read is not None:
        form |= read_form(status.read)
        lines += read_lines(status.read)
    show(form, "\n".join([*lines, where(campaign)]), as_json=as_json)


@labelstudio_app.command("remove")
def remove_command(
    config: ConfigArgument,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything of this campaign: its project, or its tasks in a named one.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete tasks from the server: those of withdrawn records, or with --all every one. Pull before that.

    The server's own backups, exports and free database pages are not reached. Audience: owner.

    Example: discreet labelstudio remove scans.toml
    """
    from discreet.recipes.label_studio import remove

    with _both(config) as (campaign, oracle), interruptible():
        count = remove(campaign, oracle, everything=everything)
    form = _form("discreet.labelstudio-remove/1", campaign) | {"removed": count, "all": everything}
    show(form, f"{count} tasks were deleted", as_json=as_json)


@contextmanager
def _both(config: Path) -> Iterator[tuple[Campaign, LabelStudioOracle]]:
    from discreet.config import read_campaign
    from discreet.recipes.label_studio import oracle_of

    read = read_campaign(config)
    with opened(config) as campaign:
        yield campaign, oracle_of(read, campaign)


def _form(name: str, campaign: Campaign) -> dict[str, Any]:
    now = campaign.state
    return {
        "format": name,
        "simulation": campaign.simulation,
        "audience": "owner",
        "phase": now.phase,
        "step": now.step,
    }


def pushed_form(done: PushedQuestions) -> dict[str, Any]:
    """As JSON."""
    return {
        "project": done.pushed.project,
        "pushed": len(done.pushed.new),
        "pushed_again": len(done.again),
        "there": done.pushed.existing,
        "tidied": done.pushed.tidied,
        "removed": done.removed,
        "beside": list(done.pushed.beside),
    }


def pushed_lines(done: PushedQuestions) -> list[str]:
    """In words."""
    lines = [
        f"{len(done.pushed.new)} questions pushed, {done.pushed.existing} were there (project {done.pushed.project})"
    ]
    if done.again:
        lines.append(f"{len(done.again)} of them again: their tasks had been deleted")
    if done.pushed.tidied:
        lines.append(f"{done.pushed.tidied} doubled tasks that nobody had touched were deleted")
    if done.removed:
        lines.append(f"{done.removed} tasks of withdrawn records were deleted")
    if done.pushed.beside:
        names = ", ".join(map(str, done.pushed.beside))
        lines.append(f"further projects with this campaign's mark are read, too: {names}. Delete them when nobody does")
    return lines


def pulled_form(done: PulledAnswers) -> dict[str, Any]:
    """As JSON."""
    counts = {"new": done.told.new, "repeated": done.told.repeated, "corrected": done.told.corrected}
    return counts | {"skips": done.skips} | read_form(done.read)


def pulled_lines(done: PulledAnswers) -> list[str]:
    """In words."""
    counts = done.told
    return [
        f"{counts.new} new answers, {counts.repeated} known, {counts.corrected} corrected; "
        f"{done.skips} of all are skips",
        *read_lines(done.read),
    ]


def read_form(read: Read) -> dict[str, Any]:
    """What stands on the server, without what it says."""
    return {
        "refused": list(read.refused),
        "strange": read.strange,
        "doubled": read.doubled,
        "ground_truth": read.gold,
        "drafts": read.drafts,
    }


def read_lines(read: Read) -> list[str]:
    """What an owner should look at."""
    lines = []
    if read.refused:
        more = len(read.refused) - _SHOWN
        names = ", ".join(read.refused[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        lines.append(f"{len(read.refused)} questions have a label outside the classes, which is no answer: {names}")
    if read.strange:
        lines.append(f"{read.strange} tasks belong to no question of this campaign, and are left alone")
    if read.doubled:
        lines.append(f"{read.doubled} tasks are there twice; one voice a person counts")
    if read.gold or read.drafts:
        lines.append(f"{read.gold} ground-truth annotations and {read.drafts} drafts are nobody's answers")
    return lines
