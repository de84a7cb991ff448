"""`discreet serve`: pages for people who label, and for the owner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from discreet.errors import MissingExtra

FORMAT = "discreet.serving/1"


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
    _require_extra()
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
        "format": FORMAT,
        "simulation": any(one.store.simulation for one in hosting.campaigns),
        "audience": "owner",
        "address": address,
        "campaigns": [one.store.name for one in hosting.campaigns],
    }
    names = ", ".join(one.store.name for one in hosting.campaigns)
    print(json.dumps(form) if as_json else f"{names}: {address} (Ctrl-C stops it)", flush=True)  # noqa: T201
    try:
        serve(server, bound, quiet=quiet)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _require_extra() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("fastapi", "uvicorn", "jinja2") if find_spec(name) is None]
    if missing:
        raise MissingExtra("serving pages", f"{missing[0]} is not installed", "pip install 'discreet[web]'")
