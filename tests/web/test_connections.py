"""Connections that keep the server waiting: real sockets, with and without TLS."""

import contextlib
import datetime
import http.client
import ipaddress
import json
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from discreet.errors import BadInput
from discreet.web.connections import Limits, OpenConnections
from discreet.web.hosting import Hosting
from discreet.web.serving import Listening, listen, server_of

pytestmark = pytest.mark.thorough

LOGIN = b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SHORT = Limits(head=1.0, body=1.0, idle=1.0)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of this machine, and its key."""
    place, key = tmp_path_factory.mktemp("tls"), ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([]), datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    signed = made.add_extension(here, critical=True).sign(key, hashes.SHA256())
    (place / "certificate.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    (place / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return place / "certificate.pem", place / "key.pem"


@pytest.fixture(params=["plain", "tls"])
def tls(request, certificate):
    """The certificate, or none."""
    return certificate if request.param == "tls" else None


@contextlib.contextmanager
def serving(house, limits, tls=None, **options):
    """A server in a thread; its port."""
    certificate, key = tls or (None, None)
    listening = Listening(port=0, certificate=certificate, key=key, limits=limits, **options)
    hosting = Hosting(campaigns=[house.hosted], names=listening.names(), secure=listening.secure)
    server, bound = server_of(hosting, listening), listen(listening)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    port = bound.getsockname()[1]
    thread.start()
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def connected(port, tls=None):
    """A client; with TLS, after the handshake."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=5)
    if tls is None:
        return raw
    return ssl.create_default_context(cafile=tls[0]).wrap_socket(raw, server_hostname="127.0.0.1")


def answered(client, request=LOGIN):
    """The status of the answer, which is read to its end."""
    client.sendall(request)
    return _status(client)


def _status(client):
    response = http.client.HTTPResponse(client)
    response.begin()
    response.read()
    return response.status


def seconds_until_closed(client, most=6.0, **trickle):
    """How long until the server hangs up, if a byte is sent now and then."""
    began = time.monotonic()
    client.settimeout(trickle.get("every", most))
    while time.monotonic() < began + most:
        try:
            if trickle:
                client.sendall(trickle["byte"])
            while client.recv(1 << 16):
                pass
            break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - began


@pytest.fixture
def sockets():
    """What is opened in it is closed."""
    with contextlib.ExitStack() as stack:
        yield stack


def test_idle_sockets_shut_nobody_out(house, tls, sockets):
    """More than the process may open, as `discreet serve` runs with what the system gives it."""
    command = f"ulimit -n 256; exec {sys.executable} -m discreet serve {house.path} --port 0 --json --quiet"
    if tls is not None:
        command += f" --tls-certificate {tls[0]} --tls-key {tls[1]}"
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        try:
            port = int(json.loads(server.stdout.readline())["address"].rpartition(":")[2].strip("/"))
            for _ in range(300):
                sockets.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            for _ in range(3):
                client = sockets.enter_context(connected(port, tls))
                assert answered(client) == 200
        finally:
            server.terminate()
        assert server.wait(20) is not None
        assert server.stderr.read() == b""


def test_one_address_closes_its_own(house, tls, sockets):
    with serving(house, Limits(per_address=20), tls) as port:
        idle = [sockets.enter_context(connected(port)) for _ in range(60)]
        client = sockets.enter_context(connected(port, tls))
        assert answered(client) == 200
        idle[0].settimeout(5)
        assert idle[0].recv(1) == b"", "the oldest is closed"
        idle[-1].settimeout(0.2)
        with pytest.raises(TimeoutError):
            idle[-1].recv(1)
        for _ in range(30):
            sockets.enter_context(connected(port))
        assert answered(sockets.enter_context(connected(port, tls))) == 200


def test_a_proxy_has_no_cap_of_its_own(house, sockets):
    limits = Limits(per_address=3)
    with serving(house, limits, trusted_proxy="127.0.0.1", public_names=("x.org",)) as port:
        idle = [sockets.enter_context(connected(port)) for _ in range(20)]
        request = b"GET /login HTTP/1.1\r\nHost: x.org\r\nX-Forwarded-Proto: https\r\n\r\n"
        assert [answered(one, request) for one in idle] == [200] * 20


def test_whoever_waits_for_the_server_is_not_closed(house, sockets, monkeypatch):
    begun, go = threading.Event(), threading.Event()

    def slow(*_):
        begun.set()
        assert go.wait(20)

    monkeypatch.setattr(Hosting, "by_session", slow)
    with serving(house, Limits(head=0.5, body=0.5, idle=0.5, per_address=5)) as port:
        working = sockets.enter_context(connected(port))
        working.sendall(b"GET /label HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: %s=x\r\n\r\n" % _cookie(house))
        assert begun.wait(5)
        for _ in range(20):
            sockets.enter_context(connected(port))
        time.sleep(1.5)
        go.set()
        assert _status(working) == 303


def _cookie(house):
    return f"discreet-{house.hosted.store.id[:8]}".encode()


def test_first_bytes_have_a_deadline(house, tls):
    with serving(house, SHORT, tls) as port, connected(port, tls) as client:
        assert 0.5 < seconds_until_closed(client) < 4


def test_a_handshake_has_a_deadline(house, certificate):
    with serving(house, SHORT, certificate) as port, connected(port) as silent, connected(port) as slow:
        assert 0.5 < seconds_until_closed(silent) < 4
        slow.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # how a handshake begins
        assert seconds_until_closed(slow, byte=b"\0", every=0.1) < 4


def test_a_head_that_trickles_has_a_deadline(house, tls):
    with serving(house, SHORT, tls) as port, connected(port, tls) as client:
        client.sendall(b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        assert 0.5 < seconds_until_closed(client, byte=b"a", every=0.1) < 4


def test_a_body_that_trickles_has_a_deadline_and_is_no_error(house, tls, caplog):
    head = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"
    with serving(house, SHORT, tls) as port:
        with connected(port, tls) as client:
            client.sendall(head)
            assert 0.5 < seconds_until_closed(client, byte=b"a", every=0.1) < 4
        with connected(port, tls) as client:
            client.sendall(head + b"name=")
            time.sleep(0.3)
        with connected(port, tls) as client:
            client.sendall(head + b"name=")
            time.sleep(0.3)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
    assert [one.getMessage() for one in caplog.records if one.levelname != "INFO"] == []


def test_idle_time_between_requests_has_a_deadline(house, tls):
    with serving(house, SHORT, tls) as port, connected(port, tls) as client:
        for _ in range(3):
            assert answered(client) == 200
            time.sleep(0.3)
        assert 0.2 < seconds_until_closed(client) < 4


def test_a_response_that_nobody_reads_has_a_deadline(house, sockets):
    with serving(house, SHORT) as port:
        client = sockets.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(1.0)
        client.connect(("127.0.0.1", port))
        asked = b"GET /static/htmx.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        with contextlib.suppress(TimeoutError):
            for _ in range(500):
                client.sendall(asked)
        time.sleep(3.0)
        client.settimeout(5.0)
        received = 0
        with contextlib.suppress(ConnectionError):
            while part := client.recv(1 << 20):
                received += len(part)
        assert received < 500 * 50_000


def test_a_certificate_that_is_none_is_refused_before_anything_listens(house, tmp_path):
    (tmp_path / "x.pem").write_text("no certificate")
    for key in (tmp_path / "x.pem", tmp_path / "missing.pem"):
        with pytest.raises(BadInput, match="no certificate"):
            server_of(Hosting(campaigns=[house.hosted]), Listening(certificate=tmp_path / "x.pem", key=key))


class Noted:
    """A connection that notes when it is dropped."""

    def __init__(self, connections):
        self.connections, self.dropped = connections, False

    def drop(self):
        self.dropped = True
        self.connections.leave(self)


def test_who_is_dropped():
    connections = OpenConnections(Limits(total=6, per_address=3), exempt=["192.0.2.9"])

    def opened(host, waiting=True):
        made = Noted(connections)
        admitted = connections.admit(made, host)
        connections.awaits(made, waiting=waiting)
        return made if admitted else None

    busy = [opened("192.0.2.1", waiting=False) for _ in range(3)]
    assert opened("192.0.2.1") is None, "all of them are at work"
    older, newer = opened("192.0.2.2"), opened("192.0.2.2")
    connections.awaits(older, waiting=True)  # a further request: it has waited for less time now
    last = opened("192.0.2.3")
    many = [opened("192.0.2.9") for _ in range(2)]
    assert (older.dropped, newer.dropped, last.dropped, many[0].dropped) == (True, True, False, False)
    assert not any(one.dropped for one in busy)
    for one in (*busy, last, *many):
        connections.leave(one)
        connections.leave(one)
    assert all(opened(f"2001:db8::{number}") for number in range(3))
    first = next(iter(connections._waiting))
    assert opened("2001:db8::77")
    assert first.dropped, "a network is one address"


def test_an_address_in_another_form_is_the_same():
    from discreet.web.access import address_key

    assert address_key("::ffff:192.0.2.1") == address_key("192.0.2.1") != address_key("::ffff:192.0.2.2")
