"""`discreet serve`: pages for annotators and the owner; `discreet user`: who may use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.campaign_files import JsonOption, show
from discreet.errors import BadInput, require

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from discreet.storage import CampaignStore
    from discreet.storage.users import AccessEntry, Action


def serve_command(
    campaigns: Annotated[list[Path], typer.Argument(help="TOML files of campaigns.", show_default=False)],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0: any that is free.", min=0, max=65535)] = 8765,
    public_name: Annotated[
        list[str] | None, typer.Option(help="What browsers call this server, such as labels.example.org.")
    ] = None,
    trusted_proxy: Annotated[
        str | None, typer.Option(help="The address of a proxy that speaks TLS and says who asked.")
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="A certificate, to speak TLS here.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of that certificate.")] = None,
    connections_per_address: Annotated[
        int,
        typer.Option(
            help="Connections that one address may have open; at the cap, the one that sent nothing for longest is "
            "closed. A trusted proxy has no such cap.",
            min=1,
        ),
    ] = 100,
    anonymous_loopback: Annotated[
        bool, typer.Option(help="Whoever is on this machine is the owner, without a token.")
    ] = False,
    quiet: Annotated[bool, typer.Option(help="Log refusals and errors alone.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object when it is ready.")] = False,
) -> None:
    """Serve the labelling page, the owner's pages and the JSON interface of campaigns, until it is stopped.

    Everybody needs a token (discreet user add). Only this machine is listened to, unless browsers come by TLS.

    Example: discreet serve scans.toml --port 8765
    """
    for library in ("fastapi", "uvicorn", "jinja2"):
        require(library, extra="web", asked="serving pages")
    from discreet.web.connections import Limits
    from discreet.web.serving import Listening, hosting_of, listen, serve, server_of

    listening = Listening(
        host=host,
        port=port,
        public_names=tuple(public_name or ()),
        trusted_proxy=trusted_proxy,
        certificate=tls_certificate,
        key=tls_key,
        anonymous=anonymous_loopback,
        limits=Limits(per_address=connections_per_address),
    )
    hosting = hosting_of(campaigns, listening)
    server, bound = server_of(hosting, listening), listen(listening)
    scheme, name = "https" if tls_certificate else "http", f"[{host}]" if ":" in host else host
    address = f"{scheme}://{name}:{bound.getsockname()[1]}/"
    form = {
        "format": "discreet.serving/1",
        "simulation": any(campaign.store.simulation for campaign in hosting.campaigns),
        "audience": "owner",
        "address": address,
        "campaigns": [campaign.store.name for campaign in hosting.campaigns],
    }
    names = ", ".join(campaign.store.name for campaign in hosting.campaigns)
    print(json.dumps(form) if as_json else f"{names}: {address} (Ctrl-C stops it)", flush=True)  # noqa: T201
    try:
        serve(server, bound, quiet=quiet)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


USER_FORMAT = "discreet.user/1"
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
    form = {"format": USER_FORMAT, "simulation": store.simulation, "audience": "owner", "name": name, "active": False}
    show(form, f"{name} is let in no more", as_json=as_json)


@user_app.command("list")
def list_command(campaign: CampaignOption = None, as_json: JsonOption = False) -> None:
    """Everybody who may use the pages, or might once. Audience: owner.

    Example: discreet user list --campaign scans.toml
    """
    store = _store(campaign)
    users = store.users.everybody()
    form = {
        "format": "discreet.users/1",
        "simulation": store.simulation,
        "audience": "owner",
        "users": [
            {"name": user.name, "role": user.role, "active": user.active, "created": user.created.isoformat()}
            for user in users
        ],
    }
    lines = [f"{user.name:24} {user.role:10} {'' if user.active else 'no token'}".rstrip() for user in users]
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
        "entries": [asdict(entry) for entry in shown],
        "damaged_lines": damaged,
        "full": store.access_log.full,
    }
    show(form, "\n".join([_line(entry) for entry in shown] or ["no entries"]), as_json=as_json)
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
    form = {"format": USER_FORMAT, "simulation": store.simulation, "audience": "owner", "name": name, "token": token}
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

    files = [path for path in sorted(Path().glob("*.toml")) if format_of(path) == CAMPAIGN]
    if len(files) != 1:
        raise BadInput(
            "users of a campaign",
            f"{len(files) or 'no'} campaign files are in this directory",
            "Name one: --campaign scans.toml",
        )
    return files[0]
