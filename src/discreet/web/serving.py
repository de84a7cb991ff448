"""From the command line to a running server: what is refused, and the socket it listens on.

Guarantee: without TLS, here or at a proxy that is named, only this machine is listened to; whoever opens pages to
everybody does so on this machine alone, by saying so. Connections have deadlines and caps (`connections`), and there
are fewer of them than files that the process may open.
"""

from __future__ import annotations

import ipaddress
import logging
import resource
import socket
import ssl
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.config import read_campaign
from discreet.errors import BadInput
from discreet.recipes.opening import load
from discreet.web.app import create_app
from discreet.web.connections import Connection, Limits, OpenConnections
from discreet.web.hosting import LOOPBACK_NAMES, Hosted, Hosting

if TYPE_CHECKING:
    import uvicorn

_ASKED = "serving"
_FILES = 4096
"""Files that a server would like to be able to open; connections may take half of what it is given."""


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where, and how browsers come to it.

    public_names     what browsers call it, if not by its address
    trusted_proxy    the address of a proxy that speaks TLS and says who asked; nobody else's word is taken. Several
                     are separated by commas
    certificate, key of TLS here
    limits           on connections; a trusted proxy has no cap per address
    """

    host: str = "127.0.0.1"
    port: int = 8765
    public_names: Sequence[str] = ()
    trusted_proxy: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    anonymous: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise BadInput(_ASKED, "a certificate and its key go together", "Give both, or neither")
        if self.trusted_proxy is not None and not _are_addresses(self.trusted_proxy):
            raise BadInput(
                "serving behind a proxy",
                "--trusted-proxy is no address, so that anybody's word could be taken about who asks, and how",
                "Give the address the proxy comes from, such as 127.0.0.1; several with commas",
            )
        here = is_loopback(self.host)
        if self.anonymous and (not here or self.public_names or self.trusted_proxy):
            raise BadInput(
                "serving to anybody", "others could reach it", "Leave out --anonymous-loopback, or all of the others"
            )
        if not here and not self.secure:
            raise BadInput(
                f"serving on {self.host}",
                "tokens and records would pass the network in the clear",
                "Name a proxy with --trusted-proxy, or give --tls-certificate and --tls-key",
            )
        if not here and not self.public_names:
            raise BadInput(f"serving on {self.host}", "nobody says what browsers call it", "Give --public-name")

    @property
    def secure(self) -> bool:
        """Whether browsers use TLS."""
        return self.certificate is not None or self.trusted_proxy is not None

    def names(self) -> frozenset[str]:
        """What the Host header may say."""
        loopback = LOOPBACK_NAMES if is_loopback(self.host) else ()
        return frozenset(name.lower() for name in (*loopback, *self.public_names))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _are_addresses(text: str) -> bool:
    try:
        return all(ipaddress.ip_address(part.strip()) for part in text.split(","))
    except ValueError:
        return False


def hosting_of(files: Sequence[Path], listening: Listening) -> Hosting:
    """The campaigns of ``files``, opened."""
    if not files:
        raise BadInput(_ASKED, "no campaign is named", "Name the TOML file of one")
    if listening.anonymous and len(files) > 1:
        raise BadInput("serving to anybody", "nobody would say which campaign they mean", "Serve one of them")
    configs = [read_campaign(path) for path in files]
    for config in configs:
        if config.oracle.name != "web":
            raise config.error(
                "oracle.name", f"it is {config.oracle.name}, so its questions go elsewhere", "Write name = 'web'"
            )
    return Hosting(
        campaigns=[Hosted(partial(load, config)) for config in configs],
        names=listening.names(),
        secure=listening.secure,
        anonymous=listening.anonymous,
    )


def listen(listening: Listening) -> socket.socket:
    """The socket, bound; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    try:
        bound = socket.create_server((listening.host, listening.port), family=family)
    except OSError as problem:
        raise BadInput(
            f"serving on {listening.host}, port {listening.port}", f"{problem.strerror}", "Choose another --port"
        ) from None
    # Connections inherit it. Without, the body of a short answer waits for an acknowledgement of its head: 40 ms.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def serve(server: uvicorn.Server, bound: socket.socket, *, quiet: bool = False) -> None:
    """Until somebody stops it."""
    levels = {"discreet.web": logging.WARNING if quiet else logging.INFO, "uvicorn.error": logging.WARNING}
    for name, level in levels.items():
        log = logging.getLogger(name)
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        log.handlers, log.propagate = [handler], False
        log.setLevel(level)
    server.run(sockets=[bound])


def server_of(hosting: Hosting, listening: Listening) -> uvicorn.Server:
    """The server, not running yet."""
    import uvicorn

    files = _most_files()
    limits = replace(listening.limits, total=min(listening.limits.total, files // 2))
    proxies = (listening.trusted_proxy or "").split(",")
    protocol: Any = partial(
        Connection,
        connections=OpenConnections(limits, exempt=[proxy.strip() for proxy in proxies if proxy.strip()]),
        tls=_tls(listening),
    )
    config = uvicorn.Config(
        create_app(hosting),
        http=protocol,
        log_config=None,
        log_level="warning",
        access_log=False,  # it would write addresses; ours writes routes
        server_header=False,
        proxy_headers=listening.trusted_proxy is not None,
        forwarded_allow_ips=listening.trusted_proxy or "",
        timeout_keep_alive=round(limits.idle),
        backlog=max(16, min(256, files // 16)),  # also how many are accepted before any of them is counted
        h11_max_incomplete_event_size=32 << 10,
        ws="none",
    )
    return uvicorn.Server(config)


def _most_files() -> int:
    """How many files this process may open, after asking for enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _FILES if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def _tls(listening: Listening) -> ssl.SSLContext | None:
    if listening.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(listening.certificate, listening.key)
    except OSError:  # also of TLS
        raise BadInput(
            "serving by TLS",
            "--tls-certificate and --tls-key are no certificate and its key that can be read",
            "Give two PEM files that belong together",
        ) from None
    return context
