"""`discreet user`: who may use the pages of a campaign, and the tokens they come in with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.campaign_files import JsonOption, show
from discreet.errors import BadInput

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from discreet.storage import CampaignStore
    from discreet.storage.access_log import AccessEntry, Action

FORMAT = "discreet.user/1"
user_app = typer.Typer(name="user", no_args_is_help=True, help="Who may use the pages of a campaign.")
Name = Annotated[str, typer.Argument(help="The user's name; what they see and say is recorded under it.")]
CampaignOption = Annotated[
    Path | None, typer.Option("--campaign", help="The campaign's TOML file; else the only one in this directory.")
]


@user_app.command("add")
def add_command(
    name: Name,
    role: Annotated[str, typer.Option(help="owner, or annotator.")],
    campaign: CampaignOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a user, and print their token: once, for it is not stored. Audience: owner.

    Example: discreet user add ida --role annotator --campaign scans.toml
    """
    store = _store(campaign)
    with _recorded(store, "user-add", name):
        token = store.users.add(name, role)
    _token(store, name, token, as_json=as_json)


@user_app.command("token")
def token_command(name: Name, campaign: CampaignOption = None, as_json: JsonOption = False) -> None:
    """Print another token; the old one and all sessions of the user end. Lets a removed user in again.

    Example: discreet user token ida --campaign scans.toml
    """
    store = _store(campaign)
    with _recorded(store, "user-token", name):
        token = store.users.renew(name)
    _token(store, name, token, as_json=as_json)


@user_app.command("remove")
def remove_command(name: Name, campaign: CampaignOption = None, as_json: JsonOption = False) -> None:
    """Let a user in no more. What they saw and said stays, under their name.

    Example: discreet user remove ida --campaign scans.toml
    """
    store = _store(campaign)
    with _recorded(store, "user-remove", name):
        store.users.remove(name)
    form = {"format": FORMAT, "simulation": store.simulation, "audience": "owner", "name": name, "active": False}
    show(form, f"{name} is let in no more", as_json=as_json)


@user_app.command("list")
def list_command(campaign: CampaignOption = None, as_json: JsonOption = False) -> None:
    """Everybody who may use the pages, or might once. Audience: owner.

    Example: discreet user list --campaign scans.toml
    """
    store = _store(campaign)
    found = store.users.everybody()
    form = {
        "format": "discreet.users/1",
        "simulation": store.simulation,
        "audience": "owner",
        "users": [
            {"name": one.name, "role": one.role, "active": one.active, "created": one.created.isoformat()}
            for one in found
        ],
    }
    lines = [f"{one.name:24} {one.role:10} {'' if one.active else 'no token'}".rstrip() for one in found]
    show(form, "\n".join(lines or ["no users"]), as_json=as_json)


@user_app.command("log")
def log_command(
    campaign: CampaignOption = None,
    last: Annotated[int | None, typer.Option(help="Show so many entries, the newest.", min=1)] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the access log: logins, what was done on the owner's pages, and changes of users. Audience: owner.

    Example: discreet user log --campaign scans.toml --last 20
    """
    from dataclasses import asdict

    store = _store(campaign)
    entries, damaged = store.access_log.read()
    shown = entries if last is None else entries[-last:]
    form = {
        "format": "discreet.access-log/1",
        "simulation": store.simulation,
        "audience": "owner",
        "entries": [asdict(one) for one in shown],
        "damaged_lines": damaged,
        "full": store.access_log.full,
    }
    show(form, "\n".join([_line(one) for one in shown] or ["no entries"]), as_json=as_json)
    if damaged:
        typer.echo(f"{damaged} lines of the access log cannot be read.", err=True)
    if store.access_log.full:
        typer.echo(f"Failed logins are not recorded any more: move {store.access_log.path} away.", err=True)


def _line(entry: AccessEntry) -> str:
    names = (entry.actor or "?", entry.address or "?", entry.user or "")
    actor, address, user = (ascii(name)[1:-1] for name in names)  # nothing that a terminal would obey
    phase = "" if entry.phase is None else f"phase {entry.phase}"
    time = ascii(entry.time)[1:-1]
    return f"{time} {entry.action:16} {entry.outcome:10} {actor:16} {address:15} {user}{phase}".rstrip()


def _recorded(store: CampaignStore, action: Action, name: str) -> AbstractContextManager[None]:
    """Into the access log, under the name that the system knows whoever runs this by."""
    import os
    import pwd

    try:
        actor = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        actor = str(os.getuid())
    return store.access_log.recorded(action, actor=actor, address="terminal", user=name)


def _token(store: CampaignStore, name: str, token: str, *, as_json: bool) -> None:
    form = {"format": FORMAT, "simulation": store.simulation, "audience": "owner", "name": name, "token": token}
    show(form, token, as_json=as_json)
    if not as_json:
        typer.echo(f"{name}'s token for {store.name}, shown once; discreet user token makes another.", err=True)


def _store(path: Path | None) -> CampaignStore:
    from discreet.config import read_campaign
    from discreet.storage import open_storage

    config = read_campaign(_only_file() if path is None else path)
    return open_storage(config.storage_url(), must_exist=True).load(config.name)


def _only_file() -> Path:
    """The one campaign's file here."""
    from discreet.config.campaign import FORMAT as CAMPAIGN
    from discreet.config.schema import format_of

    found = [path for path in sorted(Path().glob("*.toml")) if format_of(path) == CAMPAIGN]
    if len(found) != 1:
        raise BadInput(
            "users of a campaign",
            f"{len(found) or 'no'} campaign files are in this directory",
            "Name one: --campaign scans.toml",
        )
    return found[0]
