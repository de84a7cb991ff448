"""Requests to a Label Studio server: authenticated, bounded in time, repeated only where that changes nothing.

Guarantee: what a server says never reaches an error, for it may repeat a record; a status code does. Tokens are sent in
one header, to the declared address alone: no redirect is followed, no proxy or netrc file is taken from the
environment, and plain HTTP is for this machine unless it is declared otherwise.

Legacy tokens are sent as they are. A personal access token is exchanged for one that lives some minutes; when the
server does not know that one any more (401: nothing was done), it is exchanged again, once a request.

Tokens of Label Studio: from the environment, or from a file that nobody else can read; never from a command line.

Guarantee: a token is in no repr, no error and no log. Whoever has it may read every record that was pushed.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from discreet.errors import BadInput, ServerUnavailable, require

if TYPE_CHECKING:
    import httpx2


VARIABLE = "LABEL_STUDIO_API_KEY"
"""The name that Label Studio's own programs read."""
_MOST = 10_000
_PERSONAL = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_LEGACY = re.compile(r"[A-Za-z0-9_-]{8,200}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{16,200}")
_ASKED = "a token of Label Studio"


@dataclass(frozen=True, kw_only=True)
class Token:
    """What opens the server. ``personal``: a personal access token, which is exchanged for short-lived ones."""

    value: str = field(repr=False)

    def __post_init__(self) -> None:
        if not (_PERSONAL.fullmatch(self.value) or _LEGACY.fullmatch(self.value)):
            raise BadInput(
                _ASKED,
                "it is neither a legacy token nor a whole personal access token",
                "Copy it again from Account & Settings; a personal one is shown once, and has two dots in it",
            )

    @property
    def personal(self) -> bool:
        """By its form: three parts with dots between them."""
        return "." in self.value


def read_token(file: Path | None = None, *, environment: Mapping[str, str] = os.environ) -> Token:
    """The token in ``file``, or in the environment."""
    if file is not None:
        return Token(value=_of_file(file))
    token = environment.get(VARIABLE, "").strip()
    if not token:
        raise BadInput(
            _ASKED, "there is none", f"Set {VARIABLE}, or name a file that only you can read: [oracle] token_file"
        )
    return Token(value=token)


def read_secret(file: Path, option: str) -> str:
    """A secret of one's own, from a file that nobody else can read."""
    secret = _of_file(file, option)
    if not _SECRET.fullmatch(secret):
        raise BadInput(
            f"reading the secret in {file.name}",
            "it is not 16 to 200 letters, digits, - and _",
            "Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return secret


def _of_file(file: Path, option: str = "[oracle] token_file") -> str:
    asked = f"reading the token in {file.name}"
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            content = opened.read(_MOST + 1)
    except OSError as problem:
        raise BadInput(asked, f"it cannot be read ({problem.strerror})", f"Check {option}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise BadInput(asked, "others than its owner can read it", f"chmod 600 {file.name}, and make a new token")
    try:
        text = content.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or len(content) > _MOST:
        raise BadInput(asked, "there is no token in it", "Write the token, and nothing else, into it")
    return text


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
        require("httpx2", extra="labelstudio", asked="Label Studio")
        import httpx2

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
        return self._parsed(self._send(method, path, **how))

    def _parsed(self, answer: httpx2.Response) -> Any:
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
        """The answer to a request with the token; where that one ran out, with a new one."""
        answer = self._tried(method, path, tries, json=body, params=query, headers=self._headers(tries))
        if answer.status_code == 401 and self._token.personal:
            self._access = ""
            answer = self._tried(method, path, tries, json=body, params=query, headers=self._headers(tries))
        if not answer.is_success and answer.status_code not in allowed:
            raise self._refusal(answer.status_code)
        return answer

    def _tried(self, method: str, path: str, tries: int, **how: Any) -> httpx2.Response:
        """The first answer that is not of a passing trouble, in at most ``tries`` requests; or the last one."""
        for number in range(tries):
            last = number + 1 == tries
            try:
                answer = self._http.request(method, path, **how)
            except self._errors as problem:
                if last:
                    raise self._down(type(problem).__name__) from None
            else:
                if last or answer.status_code not in _PASSING:
                    return answer
            self._pause(PAUSE * 2**number)
        raise AssertionError("the last try returns or raises")

    def _headers(self, tries: int) -> dict[str, str]:
        if not self._token.personal:
            return {"Authorization": f"Token {self._token.value}"}
        if not self._access:  # exchanging the token changes nothing, and may be repeated
            answer = self._tried("POST", "/api/token/refresh/", tries, json={"refresh": self._token.value})
            if not answer.is_success:
                raise self._refusal(answer.status_code)
            form = self._parsed(answer)
            access = form.get("access") if isinstance(form, dict) else None
            if not isinstance(access, str) or not access:
                raise self.strange("no token")
            self._access = access
        return {"Authorization": f"Bearer {self._access}"}

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
