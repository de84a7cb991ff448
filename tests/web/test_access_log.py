"""The access log: who logged in, and what the owner had done; without records, labels, tokens or unknown names."""

import errno
import json
import os
import stat
import time

import pytest
from web_parts import House, fields, hidden, written

from discreet.cli.app import run
from discreet.errors import StoreUnavailable
from discreet.storage import users
from discreet.web.access import MOST
from discreet.web.hosting import Hosting

pytestmark = pytest.mark.thorough


def entries(house):
    found, damaged = house.campaign.store.access_log.read()
    assert damaged == 0
    return found


def told(house):
    return [(one.action, one.outcome, one.actor) for one in entries(house)]


def tried(house, name, token, client=None):
    client = client or house.client(client=("192.0.2.7", 5000))
    sent = {"name": name, "token": token, "csrf": hidden(client.get("/login").text, "csrf")}
    return client.post("/login", data=sent)


def test_logins_and_failures_are_told(house):
    browser = house.browser("ada")
    assert tried(house, "ada", "dt_wrong").status_code == 401
    assert tried(house, "dt_pasted-into-the-wrong-field", "x").status_code == 401
    assert tried(house, 'x"}\n{"format": "discreet.access/1"\u2028', "x").status_code == 401
    assert house.client(headers={"Authorization": "Bearer dt_nobody"}).get("/api/v1/progress").status_code == 401
    assert browser.post("/logout", data=fields(browser.get("/label"))).status_code == 303
    assert told(house) == [
        ("login", "done", "ada"),
        ("login", "refused", "ada"),
        ("login", "refused", None),
        ("login", "refused", None),
        ("token", "refused", None),
        ("logout", "done", "ada"),
    ]
    assert entries(house)[1].address == "192.0.2.7"
    log = house.campaign.store.access_log
    text = log.path.read_text()
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert len(text.splitlines()) == 6
    for secret in (*house.tokens.values(), "dt_", "pasted"):
        assert secret not in text


def test_a_login_in_the_same_browser_ends_the_other(house):
    browser = house.browser("ada")
    assert tried(house, "olga", house.tokens["olga"], browser).status_code == 303
    assert told(house) == [("login", "done", "ada"), ("logout", "done", "ada"), ("login", "done", "olga")]


def test_guessing_is_told_until_it_is_refused_unheard(house):
    for _ in range(MOST + 30):
        tried(house, "ada", "dt_wrong")
    assert told(house) == [("login", "refused", "ada")] * MOST + [("login", "locked-out", "ada")]


def test_what_anybody_can_write_is_bounded(house, monkeypatch):
    monkeypatch.setattr(users, "LOG_BYTES", 1000)
    for _ in range(MOST):
        tried(house, "ada", "dt_wrong")
    log = house.campaign.store.access_log
    assert 1000 <= log.path.stat().st_size < 1300
    assert log.full
    house.browser("olga")
    assert told(house)[-1] == ("login", "done", "olga"), "what matters is written"


def test_what_the_owner_does_is_told(house):
    program, browser = house.program("olga"), house.browser("olga")
    price = program.get("/api/v1/owner/status").json()["price"]
    assert program.post("/api/v1/owner/train", json={"phase": 0, "price": "0" * 64}).status_code == 409
    assert program.post("/api/v1/owner/train", json={"phase": 9, "price": price}).status_code == 409
    house.campaign.tell({one.id: "a" for one in house.campaign.open()}, annotator="ada")
    price = program.get("/api/v1/owner/status").json()["price"]
    assert program.post("/api/v1/owner/train", json={"phase": 0, "price": price}).status_code == 202
    while program.get("/api/v1/owner/progress").json()["state"] == "running":
        time.sleep(0.05)
    csrf = hidden(browser.get("/owner/papers").text, "csrf") or fields(browser.get("/label"))["csrf"]
    assert browser.post("/owner/stop", data={"csrf": csrf}).status_code == 303
    assert browser.post("/owner/ask", data={"csrf": csrf, "token": "x"}).status_code == 409
    for path in ("/owner/exposures.csv", "/owner/exposures.json", "/owner/report/owner"):
        assert browser.get(path).status_code == 200
    assert program.get("/api/v1/owner/exposures").status_code == 200
    expected = [("login", "done"), ("train", "refused"), ("train", "refused"), ("train", "begun"), ("train", "done")]
    expected += [("stop", "done"), ("ask", "refused"), *[("read-exposures", "done")] * 2, ("read-report", "done")]
    assert [(one.action, one.outcome) for one in entries(house)] == [*expected, ("read-exposures", "done")]
    assert {one.actor for one in entries(house)} == {"olga"}
    assert [one.phase for one in entries(house) if one.outcome == "begun"] == [0]
    text = house.campaign.store.access_log.path.read_text()
    assert "record-" not in text
    assert '"a"' not in text


def test_routes_that_change_something_for_the_owner_are_told(house):
    """Whoever adds a route of the owner that changes something adds it to the log, or here."""
    from test_web_attacks import routes

    changing = {path for method, path in routes(house.app) if method == "POST" and "owner" in path}
    assert {path.rpartition("/")[2] for path in changing} <= {"ask", "train", "stop"}


def test_nothing_is_begun_that_cannot_be_told(house, monkeypatch):
    program = house.program("olga")
    house.campaign.tell({one.id: "a" for one in house.campaign.open()}, annotator="ada")
    price = program.get("/api/v1/owner/status").json()["price"]

    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(users.os, "fsync", full)
        assert program.post("/api/v1/owner/train", json={"phase": 0, "price": price}).status_code == 503
        assert tried(house, "ada", house.tokens["ada"]).status_code == 503
        assert program.get("/api/v1/owner/exposures").status_code == 503
    assert program.get("/api/v1/owner/progress").json()["state"] == "idle"
    assert house.campaign.state.step == "answer"


def test_every_campaign_hears_of_failures_but_knows_its_own_names_alone(tmp_path):
    places = [tmp_path / "one", tmp_path / "two"]
    houses = []
    for place in places:
        place.mkdir()
        houses.append(House(written(place)))
    houses[1].campaign.store.users.add("dora", "annotator")
    from discreet.web.app import create_app

    houses[0].app = create_app(Hosting(campaigns=[one.hosted for one in houses]))
    tried(houses[0], "dora", "dt_wrong")
    assert [told(one) for one in houses] == [[("login", "refused", None)], [("login", "refused", "dora")]]


def test_whoever_is_on_this_machine_is_told(tmp_path):
    house = House(written(tmp_path), anonymous=True)
    assert house.client().get("/login").status_code == 303
    assert told(house) == [("login", "done", "loopback")]


def test_commands_about_users_are_told_and_shown(house, monkeypatch, capsys):
    monkeypatch.chdir(house.path.parent)
    campaign = ["--campaign", str(house.path)]
    assert run(["user", "add", "ida", "--role", "annotator", *campaign]) == 0
    assert run(["user", "token", "ida", *campaign]) == 0
    assert run(["user", "remove", "ida", *campaign]) == 0
    assert run(["user", "remove", "dt_pasted", *campaign]) == 2
    capsys.readouterr()
    assert run(["user", "log", *campaign, "--json"]) == 0
    form = json.loads(capsys.readouterr().out)
    assert (form["format"], form["audience"], form["damaged_lines"]) == ("discreet.access-log/1", "owner", 0)
    assert [(one["action"], one["outcome"], one["user"], one["address"]) for one in form["entries"]] == [
        ("user-add", "done", "ida", "terminal"),
        ("user-token", "done", "ida", "terminal"),
        ("user-remove", "done", "ida", "terminal"),
        ("user-remove", "refused", None, "terminal"),
    ]
    assert run(["user", "log", *campaign, "--last", "1"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 1
    assert "user-remove" in shown[0]


def test_an_empty_log_is_shown(house, capsys):
    assert run(["user", "log", "--campaign", str(house.path)]) == 0
    assert capsys.readouterr().out == "no entries\n"


def test_a_torn_line_takes_no_other_with_it(house, capsys):
    log = house.campaign.store.access_log
    log.write("login", "done", actor="ada", address="::1")
    with log.path.open("ab") as file:
        file.write(b'{"format": "discreet.acc')
    log.write("logout", "done", actor="ada\x1b[2J", address="::1")
    found, damaged = log.read()
    assert [one.action for one in found] == ["login", "logout"]
    assert damaged == 1
    assert run(["user", "log", "--campaign", str(house.path)]) == 0
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out
    assert "1 lines" in shown.err


def test_a_write_that_falls_short_leaves_nothing(house, monkeypatch):
    log = house.campaign.store.access_log
    log.write("login", "done", actor="ada")
    before = log.path.read_bytes()
    write = os.write
    monkeypatch.setattr(users.os, "write", lambda file, data: write(file, data[:10]))
    with pytest.raises(StoreUnavailable, match="full"):
        log.write("login", "done", actor="ada")
    assert log.path.read_bytes() == before
