"""Headers and addresses that are garbage: refused in words, and never an error that nobody expected."""

import asyncio
import logging
import random

import pytest
from web_parts import fields

from discreet.web.access import cookie_name
from discreet.web.hosting import Hosting

pytestmark = pytest.mark.thorough

NASTY = (
    *(b"", b" ", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"%", b"%00", b"%ff", b"{", b'"', b"'", b";", b"=", b",", b"\\"),
    *(b"[", b"]", b"[::1", b"[::1]:x", b"[v1.x]", b"http://[", b"http://[::1", b"http://]", b"http://\xbd.org", b"//["),
    *(b"http://127.0.0.1:x", b"http://127.0.0.1:99999999", b"http://127.0.0.1:-1", b"http://", b"://", b"127.0.0.1:["),
    *(b"-1", b"+1", b"1_0", b"1e9", b"\xb2", b"9" * 5000, b"0" * 5000, b"NaN", b"1" * 20, b" 5", b"0x10"),
    *(b"bytes=", b"bytes=-", b"bytes=0-0,1-1," * 50, b"bytes=9999999999999999999-", b"bytes=a-b", b"bytes=5-1"),
    *(b"Thu, 99 Foo 99999 99:99:99 GMT", b"0", b"Thu, 01 Jan 0000 00:00:00 +9999", b'W/"', b"*", b'W/"a",' * 500),
    *(b"Bearer", b"Bearer ", b"Bearer \xff", b"Bearer a b c", b"Basic !!!", b"bearer " + b"x" * 9000, b"Digest a=b"),
    *(b"application/json; charset=\xff", b"application/", b"/", b"multipart/form-data", b"text/x; boundary="),
    *(b"application/json; a=" + b'"' * 99, b"application/\xe9+json", b"a" * 9000, b"a=b; " * 500, b"=; ;;=a", b"\x7f"),
    *(b'a="\\777"', b'a="\\', b"gzip, deflate, br;q=x", b"en;q=9e999,*;q=nan", b"100-continue", b"chunked, gzip"),
)
PARSED = (
    *("host", "origin", "referer", "content-length", "content-type", "cookie", "authorization", "range", "if-range"),
    *("if-none-match", "if-modified-since", "if-match", "accept", "accept-language", "accept-encoding", "hx-request"),
    *("sec-fetch-site", "x-csrf-token", "x-forwarded-for", "x-forwarded-proto", "forwarded", "transfer-encoding"),
    *("expect", "upgrade", "connection", "user-agent", "x-http-method-override"),
)
PATHS = ("/login", "/label", "/owner/now", "/static/htmx.min.js", "/api/v1/progress", "/api/v1/openapi.json")
POSTED = ("/login", "/logout", "/label/answer", "/label/undo", "/owner/ask", "/api/v1/undo", "/api/v1/owner/ask")


def asked(app, method, path, headers, *, query=b"", body=b""):
    """The status, as any ASGI server would ask: below h11, which refuses some of it before."""
    statuses, sent = [], iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive():
        return next(sent, {"type": "http.disconnect"})

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    base = {b"host": b"127.0.0.1", b"content-length": str(len(body)).encode()}
    given = list((base | headers).items())
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path}
    scope |= {"raw_path": path.encode("utf-8", "surrogatepass"), "query_string": query, "headers": given}
    scope |= {"scheme": "http", "root_path": "", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
    asyncio.run(app(scope, receive, send))
    return statuses[0]


@pytest.fixture
def known(house):
    """Cookie and CSRF token of a browser in which the owner is logged in, and a program's header."""
    browser = house.browser("olga")
    name = cookie_name(Hosting(campaigns=[house.hosted]))
    headers = {b"cookie": f"{name}={browser.cookies[name]}".encode()}
    headers |= {b"x-csrf-token": fields(browser.get("/label"))["csrf"].encode()}
    return headers, {b"authorization": f"Bearer {house.tokens['olga']}".encode()}


@pytest.fixture(autouse=True)
def no_surprises(caplog):
    """Nothing is logged that nobody expected."""
    caplog.set_level(logging.WARNING)
    yield
    assert [one.getMessage() for one in caplog.records if one.name == "discreet.web"] == []


def mine(path, known):
    return dict(known[path.startswith("/api/")])


@pytest.mark.parametrize("header", PARSED)
def test_a_header_of_garbage_is_no_error(house, known, header):
    values = [*NASTY, *_random(header)]
    for number, value in enumerate(values):
        path, posted = PATHS[number % len(PATHS)], POSTED[number % len(POSTED)]
        assert asked(house.app, "GET", path, mine(path, known) | {header.encode(): value}) < 500, (path, value)
        sent = mine(posted, known) | {header.encode(): value}
        assert asked(house.app, "POST", posted, sent, body=b"question=0.0&value=0") < 500, (posted, value)


def _random(seed):
    drawn = random.Random(seed)
    return [drawn.randbytes(drawn.randrange(1, 40)) for _ in range(20)]


@pytest.mark.parametrize(
    "origin",
    [
        b"http://[",
        b"http://[::1",
        b"http://127.0.0.1:x",
        b"http://127.0.0.1:99999",
        b"http://\xe9.org",
        b"x",
        b"",
        b"://",
    ],
)
def test_an_origin_that_is_none_is_refused(house, known, origin):
    for path in POSTED:
        assert asked(house.app, "POST", path, mine(path, known) | {b"origin": origin}) == 400, path


def test_a_host_whose_port_is_none_is_no_error(house, known):
    for path in (*PATHS, "/api/v1/nothing", "/nothing"):
        for headers in ({}, mine(path, known)):
            for port in (b":[", b":]", b":x", b":\xff", b":", b":1:2"):
                for method in ("GET", "POST"):
                    given = headers | {b"host": b"127.0.0.1" + port}
                    assert asked(house.app, method, path, given) < 500, (path, port)


@pytest.mark.parametrize(("length", "status"), [(b"x", 400), (b"-1", 400), (b"\xb2", 400), (b"9" * 5000, 413)])
def test_a_length_that_is_none_is_refused(house, known, length, status):
    for path in POSTED:
        assert asked(house.app, "POST", path, mine(path, known) | {b"content-length": length}) == status, path


def test_queries_and_addresses_of_garbage_are_no_error(house, known):
    for value in (*NASTY, *_random("addresses")):
        text = value.decode("utf-8", "surrogateescape")
        for path in ("/label", "/owner/now", "/api/v1/owner/report", "/login"):
            for query in (value, b"seen=" + value, b"audience=" + value, value + b"&" * 2000):
                assert asked(house.app, "GET", path, mine(path, known), query=query) < 500, (path, query)
        for path in ("/label/picture/", "/static/", "/owner/report/", "/owner/exposures.", "/api/v1/questions/", "/"):
            for end in (text, text + "/picture"):
                assert asked(house.app, "GET", path + end, mine(path, known)) < 500, (path, end)


@pytest.mark.parametrize("path", POSTED)
def test_bodies_of_garbage_are_no_error(house, known, path):
    bodies = [b"[" * 60_000, b'{"a":' * 10_000, b'{"question": "\\ud800"}', b'{"phase": ' + b"9" * 5000 + b"}"]
    bodies += [b'{"phase": 1e999, "price": "x"}', b"=&" * 30_000, b"csrf=%ff", b'"\\u0000"', b"\xff\xfe{\0}\0"]
    for body in (*bodies, *NASTY):
        for kind in (b"application/json", b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x"):
            given = mine(path, known) | {b"content-type": kind}
            if path == "/logout":
                given.pop(b"x-csrf-token")
            assert asked(house.app, "POST", path, given, body=body) < 500, body[:40]
