"""Who comes in, who stays, and what a server refuses to be."""

import socket
from datetime import timedelta

import pytest
from starlette.testclient import TestClient
from web_parts import House, fields, hidden, written

from discreet.errors import BadInput
from discreet.storage import users
from discreet.web.access import MOST, WINDOW, Attempts, address_key, cookie_name
from discreet.web.app import create_app
from discreet.web.hosting import Hosting
from discreet.web.serving import Listening, listen


def cookie(response):
    return next(line for line in response.headers.get_list("set-cookie") if "-login" not in line.split("=")[0])


def logged_in(house, name="ada", **options):
    client = house.client(**options)
    sent = {"name": name, "token": house.tokens[name], "csrf": hidden(client.get("/login").text, "csrf")}
    return client.post("/login", data=sent)


def test_a_session_is_a_cookie_that_scripts_and_other_sites_cannot_use(house):
    response = logged_in(house)
    assert (response.status_code, response.headers["location"]) == (303, "/label")
    assert "HttpOnly" in cookie(response)
    assert "SameSite=strict" in cookie(response)
    assert "Secure" not in cookie(response), "no TLS on one's own machine"
    assert logged_in(house, "olga").headers["location"] == "/owner"


def test_by_tls_cookies_are_for_tls_alone(tmp_path):
    house = House(written(tmp_path), secure=True)
    client = house.client()
    client.base_url = "https://127.0.0.1"
    sent = {"name": "ada", "token": house.tokens["ada"], "csrf": hidden(client.get("/login").text, "csrf")}
    found = cookie(client.post("/login", data=sent))
    assert found.startswith("__Host-discreet-")
    assert "Secure" in found
    assert "Domain" not in found


def test_neither_tokens_nor_sessions_are_in_the_store(house, tmp_path):
    browser = house.browser("ada")
    secrets = [house.tokens["ada"], *browser.cookies.values()]
    assert len(secrets) == 2
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("small.db*") if path.is_file())
    assert b"ada" in kept
    for secret in secrets:
        assert secret.encode() not in kept
        assert secret.removeprefix("dt_").encode() not in kept


def ended(browser):
    response = browser.get("/label")
    return response.status_code == 303 and response.headers["location"] == "/login"


def test_sessions_end_by_logging_out_removal_another_token_and_time(house, monkeypatch):
    out, removed, renewed, idle, old = (house.browser(name) for name in ("ada", "bo", "cy", "olga", "olga"))
    assert out.post("/logout", data=fields(out.get("/label"))).status_code == 303
    house.campaign.store.users.remove("bo")
    again = house.campaign.store.users.renew("cy")
    assert ended(out)
    assert ended(removed)
    assert ended(renewed)
    assert house.campaign.store.users.known("bo", house.tokens["bo"]) is None
    assert house.campaign.store.users.known("cy", house.tokens["cy"]) is None
    assert house.campaign.store.users.known("cy", again).name == "cy"
    assert not ended(idle)
    real = users.now
    for step in range(1, 9):  # used every two hours: it lasts for a working day
        monkeypatch.setattr(users, "now", lambda step=step: real() + timedelta(hours=2 * step))
        assert ended(old) == (step == 8)
    assert ended(idle)


def test_another_login_ends_the_session_that_a_browser_had(house):
    browser, other = house.browser("ada"), house.browser("ada")
    (old,) = (value for name, value in browser.cookies.items() if "-login" not in name)
    sent = {"name": "bo", "token": house.tokens["bo"], "csrf": hidden(browser.get("/login").text, "csrf")}
    assert browser.post("/login", data=sent).status_code == 303
    assert house.campaign.store.users.of_session(old) is None
    assert not ended(browser)
    assert not ended(other), "another browser's goes on"


def test_an_idle_session_ends(house, monkeypatch):
    browser, real = house.browser("ada"), users.now
    monkeypatch.setattr(users, "now", lambda: real() + users.IDLE + timedelta(seconds=1))
    assert ended(browser)


def test_a_removed_name_is_nobody_elses(house):
    people = house.campaign.store.users
    people.remove("ada")
    with pytest.raises(BadInput, match="taken"):
        people.add("ada", "annotator")
    assert ("ada", False) in [(one.name, one.active) for one in people.everybody()]
    assert people.known("ada", people.renew("ada")).active


@pytest.mark.parametrize("name", ["", "a b", "<b>", "x" * 65, "imported", "Teachers", "Loopback", "a\0", "../x", "a\n"])
def test_names_that_are_none_are_refused(house, name):
    with pytest.raises(BadInput, match="no name of a user"):
        house.campaign.store.users.add(name, "annotator")
    with pytest.raises(BadInput, match="no role"):
        house.campaign.store.users.add("fine", "admin")


def test_an_annotator_of_one_campaign_is_nobody_in_another(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first, second = House(written(tmp_path / "one")), House(written(tmp_path / "two"))
    client = second.client()
    sent = {"name": "ada", "token": first.tokens["ada"], "csrf": hidden(client.get("/login").text, "csrf")}
    assert client.post("/login", data=sent).status_code == 401
    assert (
        second.client(headers={"Authorization": f"Bearer {first.tokens['ada']}"}).get("/api/v1/progress").status_code
        == 401
    )


def test_whoever_is_on_this_machine_is_the_owner_where_that_was_said(tmp_path):
    house = House(written(tmp_path), anonymous=True)
    client = house.client()
    assert client.get("/owner").status_code == 303
    assert client.get("/login").headers["location"] == "/owner"
    page = client.get("/owner")
    assert "loopback" in page.text
    assert client.post("/logout", data={"csrf": "wrong"}).status_code == 403, "other sites' pages stay out"
    assert house.client().get("/api/v1/progress").status_code == 401, "programs have tokens"
    house.campaign.due()
    client.get("/label")
    assert {one.audience for one in house.campaign.exposures()} == {"loopback"}


@pytest.mark.parametrize("secure", [False, True])
def test_a_session_without_a_token_ends_with_the_server_that_allowed_it(tmp_path, secure):
    house = House(written(tmp_path), anonymous=True)
    (secret,) = dict(house.client().get("/login").cookies).values()
    people = house.campaign.store.users
    assert people.of_session(secret, loopback=True).role == "owner"
    assert people.of_session(secret) is None
    again = Hosting(campaigns=[house.hosted], secure=secure)
    assert again.by_session(secret) is None, "also while the other server goes on"
    app = create_app(again)
    client = TestClient(app, base_url=f"http{'s' * secure}://127.0.0.1", follow_redirects=False)
    sent = {"Cookie": f"{cookie_name(again)}={secret}"}
    assert client.get("/owner/exposures.csv", headers=sent).headers["location"] == "/login"
    assert people.of_session(secret, loopback=True) is None, "and it does not come back"


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"host": "0.0.0.0"}, "in the clear"),
        ({"host": "192.0.2.1", "public_names": ("x.org",)}, "in the clear"),
        ({"host": "0.0.0.0", "trusted_proxy": "192.0.2.9"}, "what browsers call it"),
        ({"host": "0.0.0.0", "anonymous": True}, "others could reach it"),
        ({"anonymous": True, "public_names": ("x.org",)}, "others could reach it"),
        ({"anonymous": True, "trusted_proxy": "127.0.0.1"}, "others could reach it"),
        ({"certificate": "x.pem"}, "go together"),
        ({"trusted_proxy": "*"}, "is no address"),
        ({"trusted_proxy": "192.0.2.9, *"}, "is no address"),
        ({"trusted_proxy": "0.0.0.0/0"}, "is no address"),
        ({"trusted_proxy": ""}, "is no address"),
    ],
)
def test_servers_that_would_show_too_much_are_refused(options, fact):
    with pytest.raises(BadInput, match=fact):
        Listening(**options)


def test_by_tls_nothing_is_served_in_the_clear(tmp_path):
    house = House(written(tmp_path), secure=True)
    house.campaign.due()
    refused = [house.client().get("/login"), house.program("ada").post("/api/v1/next")]
    for response in refused:
        assert response.status_code == 400
        assert "use https" in response.text
        assert not response.cookies
    assert house.campaign.exposures() == []
    program = house.program("ada")
    program.base_url = "https://127.0.0.1"
    response = program.post("/api/v1/next")
    assert response.status_code == 200
    assert response.headers["strict-transport-security"] == "max-age=31536000"
    assert "strict-transport-security" not in refused[0].headers, "in the clear it means nothing"


def test_what_a_server_is_called():
    assert Listening().names() == {"127.0.0.1", "localhost", "[::1]"}
    behind = Listening(host="0.0.0.0", public_names=("Labels.example.org",), trusted_proxy="192.0.2.9")
    assert (behind.names(), behind.secure) == ({"labels.example.org"}, True)
    assert Listening(trusted_proxy="127.0.0.1, ::1").secure


def test_attempts_are_counted_forgotten_and_bounded():
    time = [0.0]
    attempts = Attempts(clock=lambda: time[0])
    for _ in range(MOST - 1):
        assert not attempts.failed("a")
        assert not attempts.failed("b")
    assert attempts.wait("a") == 0
    assert attempts.failed("a")
    assert attempts.wait("a") == WINDOW
    assert attempts.wait("b") == 0
    time[0] = WINDOW + 1
    assert attempts.wait("a") == 0
    for number in range(30_000):
        attempts.failed(f"name {number}")
        if number % 100 == 0:
            attempts.failed("busy")
    assert len(attempts._failed) <= 10_000
    assert attempts.wait("busy") > 0, "who goes on failing is not forgotten for others"


def test_one_customer_has_many_addresses_of_version_six():
    assert address_key("2001:db8::1") == address_key("2001:db8::ffff:1") != address_key("2001:db8:0:1::1")
    assert address_key("192.0.2.1") != address_key("192.0.2.2")
    assert address_key(None) == address_key("testclient")


def test_no_answer_waits_for_an_acknowledgement_of_its_head():
    with listen(Listening(port=0)) as bound, socket.create_connection(bound.getsockname()):
        connection, _ = bound.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "small parts leave at once"
