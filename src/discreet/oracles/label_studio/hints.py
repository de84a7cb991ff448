"""Webhooks of Label Studio, as hints: something may have happened there, so look now.

Guarantee: a hint carries nothing in. What is sent is read up to a bound and thrown away, never parsed, stored or
logged; answers come from looking at the server alone, so a hint that is lost, repeated or forged costs a look, or the
wait for the next one. Who knocks without the secret hears the same as at an address that does not exist; it is compared
in constant time. One request at a time, each with a deadline, so nobody can make this process grow.

The secret is a header of the webhook; whoever has an account at that server can read it there, and could cause looks.
"""

from __future__ import annotations

import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Self

from discreet.errors import BadInput, StoreUnavailable

HEADER = "X-Discreet-Hint"
PATH = "/hint"
"""Where a webhook knocks."""
LONGEST = 64 << 10
"""Bytes of a body that are read; a longer one is refused. Our own webhooks send the name of an action alone."""
DEADLINE = 5.0
"""Seconds for one request."""
LEAST = 1.0
"""Seconds between two looks, however many hints come."""
_HERE = "127.0.0.1"


def address_of(text: str) -> tuple[str, int]:
    """Of ``8766``, ``127.0.0.1:8766`` or ``[::1]:8766``; a port alone is of this machine."""
    match = re.fullmatch(r"(?:(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):)?(?P<port>\d{1,5})", text)
    if match is None or int(match["port"]) > 65535:
        raise BadInput("where to listen for hints", "it is no address", "Write --listen 8766, or --listen HOST:8766")
    return match["host"] or _HERE, int(match["port"])


class Hints:
    """Listens in a thread of its own while it is entered; `wait` ends when a hint comes, or after a while.

    secret    what the header says; made up if none is given
    """

    def __init__(
        self,
        address: tuple[str, int],
        secret: str | None = None,
        *,
        deadline: float = DEADLINE,
        least: float = LEAST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.secret = secret or secrets.token_urlsafe(32)
        self._knocked, self._least, self._clock = threading.Event(), least, clock
        self._last = clock() - least
        handler = type("Knocking", (_Knock,), {"hints": self, "timeout": deadline})
        family = socket.AF_INET6 if address[0].startswith("[") else socket.AF_INET
        kind = type("Listening", (_Listener,), {"address_family": family})
        try:
            self._server: TCPServer = kind((address[0].strip("[]"), address[1]), handler)
        except OSError as problem:
            raise StoreUnavailable(
                f"listening for hints on port {address[1]}", f"{problem.strerror or 'it failed'}", "Take another port"
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="discreet-hints", daemon=True
        )

    def __repr__(self) -> str:
        """Never the secret."""
        return f"Hints(port={self.port})"

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def wait(self, seconds: float) -> bool:
        """Until a hint comes, at most ``seconds``; whether one came. Two waits end at least `LEAST` apart."""
        began = self._clock()
        came = self._knocked.wait(seconds)
        rest = self._last + self._least - self._clock()
        if came and rest > 0:
            time.sleep(min(rest, max(0.0, began + seconds - self._clock())))
        self._knocked.clear()  # before the look: what comes during it causes another one
        self._last = self._clock()
        return came

    def knock(self) -> None:
        """Somebody who knows the secret says: look."""
        self._knocked.set()


class _Knock(BaseHTTPRequestHandler):
    """One request. Nothing that it says is kept."""

    hints: Hints
    timeout = DEADLINE
    server_version, sys_version = "discreet", ""

    def handle(self) -> None:
        """Until its deadline, however slowly it comes."""
        ending = threading.Timer(self.timeout, self._hang_up)
        ending.daemon = True
        ending.start()
        try:
            super().handle()
        finally:
            ending.cancel()

    def _hang_up(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_POST(self) -> None:  # the name that http.server calls
        """A hint, or nothing."""
        sent_secret = self.headers.get(HEADER, "")
        known = secrets.compare_digest(sent_secret.encode("utf-8", "replace"), self.hints.secret.encode())
        length = self.headers.get("Content-Length", "0")
        if not known or self.path != PATH or self.headers.get("Transfer-Encoding"):
            self._end(404)
        elif not length.isascii() or not length.isdigit() or len(length) > 9 or int(length) > LONGEST:
            self._end(413)
        else:
            self.rfile.read(int(length))
            self.hints.knock()
            self._end(204)

    def __getattr__(self, name: str) -> Any:
        """Every other method is answered as an address that does not exist."""
        if name.startswith("do_"):
            return lambda: self._end(404)
        raise AttributeError(name)

    def _end(self, status: int) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What cannot be read as a request: without a page that repeats it."""
        self._end(code)

    def log_message(self, *_: Any) -> None:
        """A request is not logged: its path or headers may be anything."""


class _Listener(TCPServer):
    """One request after the other."""

    allow_reuse_address = True

    def handle_error(self, *_: Any) -> None:
        """A connection that breaks off, or takes too long, is no news."""
