"""Requests to a Label Studio server: authenticated, bounded in time, repeated only where that changes nothing.

Guarantee: what a server says never reaches an error, for it may repeat a record; a status code does. Tokens are sent in
one header, to the declared address alone: no redirect is followed, no proxy or netrc file is taken from the
environment, and plain HTTP is for this machine unless it is declared otherwise.

Legacy tokens are sent as they are. A personal access token is exchanged for one that lives some minutes; when the
server does not know that one any more (401: nothing was done), it is exchanged again, once a request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from discreet.errors import BadInput, MissingExtra, ServerUnavailable
from discreet.oracles.label_studio.tokens import Token

if TYPE_CHECKING:
    import httpx2

Result = TypeVar("Result")
TIMEOUT = 60.0
TRIES, PAUSE = 3, 0.3
"""Of a request that may be repeated; the pause doubles."""
_PASSING = (429, 500, 502, 503, 504)
"""500 too: a server on SQLite says it when its database is locked for a moment."""
_FAILED = (429, 500, 503)
"""Of these, what the server itself says when it is done with a request: nothing of that is still under way."""


def checked_address(url: str, *, plain_http: bool = False) -> str:
    """Of a server, without a slash at its end; or BadInput."""
    asked = "the address of Label Studio"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if not host or parts.scheme not in ("http", "https"):
        raise BadInput(asked, "it is not one", "Write [oracle] url = 'https://labels.example.org'")
    if parts.username is not None or parts.password is not None:
        raise BadInput(asked, "it has a name or password in it", "Leave them out; the token is all that is needed")
    if parts.query or parts.fragment:
        raise BadInput(asked, "something stands behind the path", "Write where the server is, and no page of it")
    if parts.scheme == "http" and not plain_http and not _here(host):
        raise BadInput(
            asked,
            "it is plain HTTP to another machine: token and records could be read on the way",
            "Use https, or say plain_http = true where the network between is your own",
        )
    return url.rstrip("/")


def _here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Client:
    """One server and one token. ``transport`` and ``pause``: for tests of what a network can do."""

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        plain_http: bool = False,
        timeout: float = TIMEOUT,
        transport: httpx2.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            import httpx2
        except ImportError:
            raise MissingExtra(
                "Label Studio", "httpx2 is not installed", "pip install 'discreet[labelstudio]'"
            ) from None
        self.url = checked_address(url, plain_http=plain_http)
        self._token, self._access, self._pause = token, "", pause
        self._errors = httpx2.TransportError, httpx2.DecodingError
        self._http = httpx2.Client(
            base_url=self.url,
            timeout=timeout,
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            limits=httpx2.Limits(max_keepalive_connections=0),  # a kept one that the server had closed fails an import
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()

    def __repr__(self) -> str:
        """The address; never the token."""
        return f"Client({self.url})"

    # -- requests

    def get(self, path: str, **query: Any) -> Any:
        """Read. Repeated if the network or the server fails for a moment."""
        return self._json("GET", path, query=query, tries=TRIES)

    def post(self, path: str, body: Any, **query: Any) -> Any:
        """Make something. Never repeated by itself: whether it was done is then to be looked up."""
        return self._json("POST", path, body=body, query=query, tries=1)

    def patch(self, path: str, body: Any) -> Any:
        """Set something: repeating it changes nothing."""
        return self._json("PATCH", path, body=body, tries=TRIES)

    def delete(self, path: str) -> bool:
        """Whether there was something to delete. Repeating it changes nothing."""
        return self._send("DELETE", path, tries=TRIES, allowed=(404,)).status_code != 404

    def again(self, work: Callable[[], Result]) -> Result:
        """Work that makes things, and looks first for what is there already: begun anew where the server said that a
        request failed. An answer that was lost is not waited for: what was asked may still be under way.
        """
        for number in range(TRIES - 1):
            try:
                return work()
            except ServerUnavailable as problem:
                if problem.status not in _FAILED:
                    raise
            self._pause(PAUSE * 2**number)
        return work()

    def _json(self, method: str, path: str, **how: Any) -> Any:
        answer = self._send(method, path, **how)
        try:
            return answer.json()
        except (ValueError, *self._errors):
            raise self.strange("it is not JSON") from None

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        tries: int,
        allowed: tuple[int, ...] = (),
    ) -> httpx2.Response:
        renewed = False
        for number in range(tries + 1):  # one more: a token that ran out costs none
            last = number + 1 >= tries + renewed
            try:
                answer = self._http.request(method, path, json=body, params=query, headers=self._headers(last))
            except self._errors as problem:
                if last:
                    raise self._down(type(problem).__name__) from None
                self._pause(PAUSE * 2**number)
                continue
            if answer.status_code == 401 and self._token.personal and not renewed:
                renewed, self._access = True, ""
                continue
            if answer.status_code in _PASSING and not last:
                self._pause(PAUSE * 2**number)
                continue
            if not answer.is_success and answer.status_code not in allowed:
                raise self._refusal(answer.status_code)
            return answer
        raise self._refusal(401)

    def _headers(self, last: bool) -> dict[str, str]:
        if not self._token.personal:
            return {"Authorization": f"Token {self._token.value}"}
        if not self._access:
            self._access = self._exchanged(1 if last else TRIES)
        return {"Authorization": f"Bearer {self._access}"}

    def _exchanged(self, tries: int) -> str:
        """A personal token for one that lives some minutes. It changes nothing, and may be repeated."""
        for number in range(tries):
            last = number + 1 == tries
            try:
                answer = self._http.post("/api/token/refresh/", json={"refresh": self._token.value})
                found = answer.json().get("access") if answer.is_success else None
            except self._errors as problem:
                if last:
                    raise self._down(type(problem).__name__) from None
            except (ValueError, AttributeError):
                raise self.strange("it is not JSON") from None
            else:
                if isinstance(found, str) and found:
                    return found
                if last or answer.status_code not in _PASSING:
                    raise self._refusal(answer.status_code) if not answer.is_success else self.strange("no token")
            self._pause(PAUSE * 2**number)
        raise AssertionError("the last try returns or raises")

    # -- errors

    def _down(self, kind: str) -> ServerUnavailable:
        return ServerUnavailable(
            f"reaching Label Studio at {self.url}",
            f"it does not answer ({kind})",
            "See that it runs and that [oracle] url is right; then the same command goes on",
        )

    def strange(self, fact: str) -> ServerUnavailable:
        """For an answer that is not what this server says."""
        return ServerUnavailable(
            f"talking to Label Studio at {self.url}",
            f"its answer is not in its form: {fact}",
            "See that the address is that of Label Studio, and try again",
        )

    def _refusal(self, status: int) -> BadInput | ServerUnavailable:
        asked = f"talking to Label Studio at {self.url}"
        if status in (401, 403):
            kind = "personal access" if self._token.personal else "legacy"
            return BadInput(
                asked,
                f"it refused the {kind} token ({status})",
                "Make a new one under Account & Settings; an organisation may have switched legacy tokens off",
            )
        if 300 <= status < 400:
            return BadInput(asked, f"it points to another address ({status})", "Name that one as [oracle] url")
        if status == 404:
            return BadInput(asked, "what was asked for is not there (404)", "Check [oracle] url and project")
        if status < 500 and status != 429:
            return BadInput(asked, f"it refused the request ({status})", "See the log of the server")
        return ServerUnavailable(
            asked, f"it failed ({status})", "See the log of the server; then the same command goes on", status=status
        )
