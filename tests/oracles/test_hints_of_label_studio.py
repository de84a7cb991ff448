"""Hints: a knock wakes who waits, and nothing else that is sent does anything."""

import http.client
import socket
import threading
import time

import pytest

from discreet.errors import BadInput, StoreUnavailable
from discreet.oracles.label_studio import PATH, Hints, address_of, read_secret
from discreet.oracles.label_studio import hints as module
from discreet.oracles.label_studio.hints import HEADER, LONGEST

SECRET = "a-secret-of-this-test"


@pytest.fixture
def hints():
    with Hints(("127.0.0.1", 0), SECRET, deadline=1.0, least=0.0) as listening:
        yield listening


def sent(hints, method="POST", path=PATH, body=b"", secret=SECRET, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", hints.port, timeout=10)
    try:
        connection.request(method, path, body, {HEADER: secret} | headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_knock_wakes_who_waits(hints):
    threading.Timer(0.2, lambda: sent(hints, body=b'{"action": "ANNOTATION_CREATED"}')).start()
    began = time.monotonic()
    assert hints.wait(30.0)
    assert time.monotonic() - began < 20
    assert not hints.wait(0.0), "it was taken"


def test_what_came_during_a_look_is_not_forgotten(hints):
    assert sent(hints) == (204, b"")
    assert sent(hints) == (204, b"")
    assert hints.wait(5.0)
    assert not hints.wait(0.0)


@pytest.mark.parametrize(
    "request_",
    [
        {"secret": ""},
        {"secret": SECRET[:-1]},
        {"secret": SECRET + "x"},
        {"secret": "s\xe4cret"},
        {"path": "/"},
        {"path": PATH + "/x"},
        {"path": PATH + "?" + SECRET},
        {"method": "GET"},
        {"method": "PUT"},
        {"method": "record-7"},
    ],
)
def test_who_does_not_know_the_secret_or_the_place_hears_the_same(hints, request_):
    assert sent(hints, **request_) == (404, b"")
    assert not hints.wait(0.0)


def test_bodies_are_bounded_and_nothing_of_them_is_kept(hints, capfd, caplog):
    caplog.set_level(0)
    assert sent(hints, body=b"record-7" * (LONGEST // 8)) == (204, b"")
    assert hints.wait(0.0)
    assert sent(hints, body=b"", **{"Content-Length": str(LONGEST + 1)}) == (413, b"")
    for length in ("-1", "x", "9" * 30, "1e3"):
        assert sent(hints, body=b"", **{"Content-Length": length}) == (413, b"")
    assert sent(hints, body=iter([b"record-7"]), **{"Transfer-Encoding": "chunked"})[0] == 404
    assert not hints.wait(0.0)
    written = capfd.readouterr()
    assert "record-7" not in written.out + written.err + caplog.text
    assert (written.out, written.err) == ("", "")
    assert SECRET not in repr(hints)


def test_a_body_that_is_not_json_is_as_good_as_any(hints):
    assert sent(hints, body=b"{ not json \xff")[0] == 204
    assert hints.wait(0.0)


@pytest.mark.parametrize("start", [b"", b"POST /hint HTTP/1.1\r\nX: ", b"\xff\xfe\x00" * 50 + b"\r\n\r\n"])
def test_who_dawdles_is_hung_up_on_and_the_next_one_is_heard(hints, start):
    with socket.create_connection(("127.0.0.1", hints.port)) as slow:
        slow.sendall(start)
        ending = threading.Event()

        def dawdle():
            while not ending.wait(0.2):
                try:
                    slow.sendall(b"a")
                except OSError:
                    return

        thread = threading.Thread(target=dawdle, daemon=True)
        thread.start()
        assert sent(hints)[0] == 204, "after the deadline of the other"
        ending.set()
        thread.join()
    assert hints.wait(5.0)


def test_a_flood_of_hints_is_a_look_now_and_then():
    with Hints(("127.0.0.1", 0), SECRET, least=0.5) as hints:
        began = time.monotonic()
        for _ in range(4):
            hints.knock()
            assert hints.wait(30.0)
        assert time.monotonic() - began >= 1.5
        hints.knock()
        began = time.monotonic()
        hints.wait(0.1)
        assert time.monotonic() - began < 0.4, "never longer than without them"


def test_secrets_are_compared_in_constant_time(hints, monkeypatch):
    compared = []
    real = module.secrets.compare_digest

    def watched(one, other):
        compared.append(len(one))
        return real(one, other)

    monkeypatch.setattr(module.secrets, "compare_digest", watched)
    sent(hints, path="/elsewhere", secret="x")
    assert compared == [1], "also where the place is wrong"


def test_a_secret_is_made_up_where_none_is_given():
    first, second = Hints(("127.0.0.1", 0)), Hints(("127.0.0.1", 0))
    assert len(first.secret) > 40
    assert first.secret != second.secret
    for one in (first, second):
        one._server.server_close()


def test_a_port_that_is_taken_is_said(hints):
    with pytest.raises(StoreUnavailable, match="Take another port"):
        Hints(("127.0.0.1", hints.port))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("8766", ("127.0.0.1", 8766)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:80", ("[::1]", 80)),
        ("home.example.org:80", ("home.example.org", 80)),
    ],
)
def test_addresses(text, found):
    assert address_of(text) == found


@pytest.mark.parametrize("text", ["", "x", "99999", ":80", "http://x:80", "a b:80", "::1:80"])
def test_what_is_no_address(text):
    with pytest.raises(BadInput, match="no address"):
        address_of(text)


def test_a_secret_of_ones_own_is_in_a_file_of_ones_own(tmp_path):
    place = tmp_path / "hint.secret"
    place.write_text("short\n")
    place.chmod(0o600)
    with pytest.raises(BadInput, match="16 to 200"):
        read_secret(place, "--hint-secret-file")
    place.write_text("a" * 32 + "\n")
    assert read_secret(place, "--hint-secret-file") == "a" * 32
    place.chmod(0o644)
    with pytest.raises(BadInput, match="others than its owner"):
        read_secret(place, "--hint-secret-file")
