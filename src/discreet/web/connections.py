"""Open connections: deadlines for whoever keeps the server waiting, and caps on how many there are.

Guarantee: a connection on which the server waits for the other side has a deadline, from the moment it is accepted: for
the TLS handshake with the head of the first request, the head of a further one, the body, a response that is not read,
and idle time between requests. At a cap the connection that has kept the server waiting for longest is closed for the
new one: of the same address at the cap per address, of all at the cap in total. So sockets that send nothing shut
nobody out, and one address closes its own connections only. The caps hold before TLS, which is where a flood can begin.

A request that was received whole has no deadline: training and certificates take as long as they take.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from uvicorn.protocols.http.h11_impl import H11Protocol

from discreet.web.access import address_key

Awaited = Literal["head", "body", "response", "idle"]
"""What comes next on a connection. ``response``: the application's; everything else is up to the other side."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds and numbers.

    head         from accepting a connection, or the first byte of a further request, to the end of the request's head
    body         from there to the end of its body
    idle         between two requests, and for the other side to read some of a response
    total        connections that are open at a time
    per_address  those of one address; of IPv6, of a network of 64 bits
    """

    head: float = 15.0
    body: float = 30.0
    idle: float = 30.0
    total: int = 1000
    per_address: int = 100


class OpenConnections:
    """All that are open. ``exempt``: addresses without a cap of their own: proxies, which come for many."""

    def __init__(self, limits: Limits, *, exempt: Iterable[str] = ()) -> None:
        self.limits = limits
        self._exempt = frozenset(map(address_key, exempt))
        self._open: dict[Connection, str] = {}
        self._waiting: dict[Connection, None] = {}  # the one that has kept us waiting for longest first
        self._counts: Counter[str] = Counter()

    def admit(self, connection: Connection, host: str | None) -> bool:
        """Whether there is room for another one, if need be by closing one that keeps the server waiting."""
        address = address_key(host)
        capped = address not in self._exempt and self._counts[address] >= self.limits.per_address
        if capped or len(self._open) >= self.limits.total:
            waiting = (waiting_one for waiting_one in self._waiting if not capped or self._open[waiting_one] == address)
            oldest = next(waiting, None)
            if oldest is None:
                return False
            oldest.drop()
        self._open[connection] = address
        self._counts[address] += 1
        return True

    def awaits(self, connection: Connection, *, waiting: bool) -> None:
        """From now on the server waits for the other side, or the other side for the server."""
        self._waiting.pop(connection, None)
        if waiting and connection in self._open:
            self._waiting[connection] = None

    def leave(self, connection: Connection) -> None:
        """It is closed."""
        self._waiting.pop(connection, None)
        address = self._open.pop(connection, None)
        if address is not None:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]


class Connection(H11Protocol):
    """One of them. TLS is begun here, and not by the listening socket, so that a handshake is counted, too."""

    def __init__(self, *args: Any, connections: OpenConnections, tls: ssl.SSLContext | None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._all, self._tls = connections, tls
        self._timer: asyncio.TimerHandle | None = None
        self._awaited: tuple[Awaited, object] | None = None
        self._seconds, self._unsent, self._early = 0.0, 0, b""
        self._securing: asyncio.Task[None] | None = None
        self._ready = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepted."""
        self._socket = transport
        peer = transport.get_extra_info("peername")
        if not self._all.admit(self, peer[0] if isinstance(peer, tuple) else None):
            transport.abort()
            return
        self._await("head")
        if self._tls is None:
            self._begin(transport)
        else:
            transport.pause_reading()  # until the handshake begins
            self._securing = self.loop.create_task(self._secure(self._tls))

    async def _secure(self, tls: ssl.SSLContext) -> None:
        try:
            secured = await self.loop.start_tls(
                self._socket, self, tls, server_side=True, ssl_handshake_timeout=self._all.limits.head
            )
        except OSError:  # also of TLS: whoever speaks something else, or hangs up
            secured = None
        if secured is None or self._socket.is_closing():
            self.drop()
            return
        self._begin(secured)
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def _begin(self, transport: asyncio.Transport) -> None:
        self._ready = True
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Some of a request."""
        if not self._ready:  # the handshake has just ended
            self._early += data
            return
        super().data_received(data)
        self._look("head")

    def on_response_complete(self) -> None:
        """All of a response was written, and perhaps a request begun that had come before."""
        super().on_response_complete()
        self._look("idle")

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed, by whomever."""
        self._end()
        if self._ready:
            super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends: now, unless a response is being made or read. TLS would wait for a farewell."""
        if (self.cycle is None or self.cycle.response_complete) and not self._bytes_unsent():
            self.drop()
        else:
            super().shutdown()

    def drop(self) -> None:
        """Close it at once, whatever is unsent."""
        self._end()
        self._socket.abort()

    def _look(self, otherwise: Literal["head", "idle"]) -> None:
        request = None if self.cycle is None or self.cycle.response_complete else self.cycle
        if request is None:
            self._await(otherwise)
        else:
            self._await("body" if request.more_body else "response", request)

    def _await(self, awaited: Awaited, request: object = None) -> None:
        """Set a deadline; what is awaited already has one, which further bytes do not move."""
        if self._awaited == (awaited, request) or self._socket.is_closing():
            return
        self._awaited = (awaited, request)
        self._all.awaits(self, waiting=awaited != "response")
        limits = self._all.limits
        self._seconds = {"head": limits.head, "body": limits.body}.get(awaited, limits.idle)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._unsent = self._bytes_unsent()
        self._timer = self.loop.call_later(self._seconds, self._expire)

    def _expire(self) -> None:
        """Time is up, unless the application is at work, or some of what was written has been read meanwhile."""
        unsent, at_work = self._bytes_unsent(), self._awaited is not None and self._awaited[0] == "response"
        if (at_work and not unsent) or (unsent and unsent != self._unsent):
            self._set_timer()
        else:
            self.drop()

    def _bytes_unsent(self) -> int:
        return self._socket.get_write_buffer_size()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._all.leave(self)
