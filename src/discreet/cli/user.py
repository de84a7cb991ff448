"""`discreet user`: who may use the pages of a campaign, and the tokens they come in with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.campaign_files import JsonOption, show
from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.storage import CampaignStore

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
    _token(store, name, store.users.add(name, role), as_json=as_json)


@user_app.command("token")
def token_command(name: Name, campaign: CampaignOption = None, as_json: JsonOption = False) -> None:
    """Print another token; the old one and all sessions of the user end. Lets a removed user in again.

    Example: discreet user token ida --campaign scans.toml
    """
    store = _store(campaign)
    _token(store, name, store.users.renew(name), as_json=as_json)


@user_app.command("remove")
def remove_command(name: Name, campaign: CampaignOption = None, as_json: JsonOption = False) -> None:
    """Let a user in no more. What they saw and said stays, under their name.

    Example: discreet user remove ida --campaign scans.toml
    """
    store = _store(campaign)
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
