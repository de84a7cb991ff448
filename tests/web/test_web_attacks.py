"""Attacks on the pages and the JSON interface: nothing gets in, and nothing leaks a record."""

import io
import json
import logging
import re
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image
from web_parts import House, fields, hidden, written

from discreet.web.access import MOST, PUBLIC
from discreet.web.app import HEADERS
from discreet.web.queue import Queue

pytestmark = pytest.mark.thorough

HTMX = {"HX-Request": "true"}
SECRET = "patient Mustermann"
STRANGE = (
    *("' or '1'='1", "0.0'; drop table questions; --", '" union select token from users --', "%", "0.0%00", "%7f"),
    *("..%2f..%2fpool.npz", "%2e%2e/%2e%2e/etc/passwd", "....//pool.npz", "file:///etc/passwd", "C:%5Cpool.npz"),
    *("%ff%fe", "q" * 3000, "0.0%2f..%2f0.0", "{{7*7}}", "<script>alert(1)</script>", "\u202e0.0", "-1", "0.999"),
)


def routes(app):
    """(method, path) of everything that is served, also in routers that are included."""
    found = []
    for one in app.routes:
        inner = getattr(one, "original_router", None)
        for route in [one] if inner is None else inner.routes:
            found += [(method, route.path) for method in sorted(getattr(route, "methods", None) or ["GET"])]
    return found


def filled(path):
    return re.sub(r"{\w+}", "0.0", path)


def test_the_routes_are_all_found(house):
    found = {path for _, path in routes(house.app)}
    assert {"/", "/login", "/logout", "/label", "/label/answer", "/label/picture/{question}", "/owner"} <= found
    described = set(house.app.openapi()["paths"])
    assert {"/api/v1/next", "/api/v1/questions/{question}/answer", "/api/v1/owner/report"} <= described <= found


def test_nobody_is_nobody_on_every_route(house):
    house.browser("ada").get("/label")  # so that there is something to see
    asked = 0
    for method, path in routes(house.app):
        if path.startswith(PUBLIC):
            continue
        for headers in ({}, HTMX, {"Authorization": "Bearer dt_wrong"}, {"Cookie": "discreet=x; session=1"}):
            client = house.client(headers=headers)
            response = client.request(method, filled(path))
            asked += 1
            assert response.status_code in (401, 303), (method, path)
            if response.status_code == 303:
                assert response.headers["location"] == "/login"
            assert len(response.content) < 200
            assert not client.cookies
    assert asked > 50
    assert len(house.campaign.exposures()) == 1
    assert house.campaign.store.answers() == []


def test_an_annotator_is_no_owner_on_every_route_of_the_owner(house):
    browser, program = house.browser("ada"), house.program("ada")
    csrf = hidden(browser.get("/label").text, "csrf")
    found = [(method, path) for method, path in routes(house.app) if "/owner" in path]
    assert len(found) >= 5
    for method, path in found:
        client = program if path.startswith("/api/") else browser
        response = client.request(method, filled(path), headers={"X-CSRF-Token": csrf})
        assert response.status_code == 403, path
        assert "small" not in response.text
    assert house.campaign.state.phase == 0


def test_cookies_are_no_tokens_and_tokens_no_cookies(house):
    assert house.browser("olga").get("/api/v1/owner/status").status_code == 401
    assert house.program("olga").get("/owner").status_code == 303


def test_anothers_question_is_no_question(house):
    ada, bo = house.browser("ada"), house.browser("bo")
    mine = fields(ada.get("/label"))
    theirs = fields(bo.get("/label"))
    for verb in ("answer", "skip"):
        stolen = bo.post(f"/label/{verb}", data=theirs | {"question": mine["question"], "value": "0"}, headers=HTMX)
        unknown = bo.post(f"/label/{verb}", data=theirs | {"question": "0.77", "value": "0"}, headers=HTMX)
        assert (stolen.status_code, stolen.text) == (unknown.status_code, unknown.text)
        assert stolen.status_code == 404
    back = bo.post("/label/undo", data=theirs | {"question": mine["question"]}, headers=HTMX)
    assert fields(back)["question"] == theirs["question"]
    program = house.program("bo")
    for path in (f"/label/picture/{mine['question']}", "/label/picture/0.77"):
        assert bo.get(path).status_code == 404
    for path in ("answer", "skip"):
        stolen = program.post(f"/api/v1/questions/{mine['question']}/{path}", json={"value": "a"})
        unknown = program.post(f"/api/v1/questions/0.77/{path}", json={"value": "a"})
        assert (stolen.status_code, stolen.json()) == (unknown.status_code, unknown.json()) == (404, stolen.json())
    assert program.get(f"/api/v1/questions/{mine['question']}/picture").status_code == 404
    owner = house.browser("olga")
    assert owner.get(f"/label/picture/{mine['question']}").status_code == 404, "an owner who labels has a queue, too"
    assert house.campaign.store.answers() == []


def test_forms_of_others_change_nothing(house):
    ada, bo = house.browser("ada"), house.browser("bo")
    mine, theirs = fields(ada.get("/label")), fields(bo.get("/label"))
    for method, path in routes(house.app):
        if method != "POST" or path.startswith("/api/") or path == "/login":
            continue
        for sent in ({}, {"csrf": ""}, {"csrf": theirs["csrf"]}, {"csrf": mine["csrf"][:-1]}):
            response = ada.post(path, data=mine | {"value": "0", "csrf": ""} | sent)
            assert response.status_code == 403, path
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1.evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site", "Origin": "null"},
        ):
            assert ada.post(path, data=mine | {"value": "0"}, headers=headers).status_code == 403, (path, headers)
    assert ada.get("/label/answer").status_code == 405
    assert house.campaign.store.answers() == []
    fine = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}  # as browsers send our own forms
    assert ada.post("/label/answer", data=mine | {"value": "0"}, headers=fine).status_code == 303


def test_a_login_form_of_others_logs_nobody_in(house):
    client = house.client()
    sent = {"name": "ada", "token": house.tokens["ada"], "csrf": hidden(house.client().get("/login").text, "csrf")}
    assert client.post("/login", data=sent).status_code == 403
    client.get("/login")
    assert client.post("/login", data=sent).status_code == 403, "the token of another browser's form"


def test_another_name_is_not_answered(house):
    for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "localhost@evil", "::1"):
        response = house.client().get("/login", headers={"Host": host})
        assert response.status_code == 400
        assert "html" not in response.text


def test_guessing_is_refused_unheard(house):
    client = house.client()
    sent = {"name": "ada", "token": "dt_wrong", "csrf": hidden(client.get("/login").text, "csrf")}
    answers = []
    for _ in range(MOST + 1):
        response = client.post("/login", data=sent)
        answers.append((response.status_code, len(response.text)))
        sent["csrf"] = hidden(response.text, "csrf") or sent["csrf"]
    assert {status for status, _ in answers[:-1]} == {401}
    assert answers[-1][0] == 429
    assert int(client.post("/login", data=sent).headers["retry-after"]) > 100
    right = sent | {"token": house.tokens["ada"], "csrf": hidden(client.get("/login").text, "csrf")}
    assert client.post("/login", data=right).status_code == 429, "not even heard"
    program = house.client(headers={"Authorization": "Bearer dt_wrong"})
    assert program.post("/api/v1/next").status_code == 429, "the same address"


def test_a_program_that_guesses_is_refused_unheard(house):
    program = house.client(headers={"Authorization": "Bearer dt_wrong"})
    assert [program.get("/api/v1/progress").status_code for _ in range(MOST + 1)] == [401] * MOST + [429]


def test_nobody_keeps_another_out_by_failing(house):
    client = house.client()
    for _ in range(MOST):
        sent = {"name": "ada", "token": "dt_wrong", "csrf": hidden(client.get("/login").text, "csrf")}
        client.post("/login", data=sent)
    elsewhere = house.client(client=("192.0.2.7", 5000))
    sent = {"name": "ada", "token": house.tokens["ada"], "csrf": hidden(elsewhere.get("/login").text, "csrf")}
    assert elsewhere.post("/login", data=sent).status_code == 303
    assert house.program("ada").get("/api/v1/progress").status_code == 200, "a valid token, from the same address"


def test_an_unknown_name_is_told_as_a_wrong_token_is(house):
    told = set()
    for name in ("ada", "nobody", "' or 1=1 --", "a\0b", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")):
        client = house.client()
        sent = {"name": name, "token": "dt_wrong", "csrf": hidden(client.get("/login").text, "csrf")}
        response = client.post("/login", data=sent)
        told.add((response.status_code, re.sub(r'value="\w{64}"', "", response.text)))
    assert len(told) == 1
    assert next(iter(told))[0] == 401


def test_strange_ids_find_nothing(house):
    browser, program = house.browser("ada"), house.program("ada")
    mine = fields(browser.get("/label"))
    for name in STRANGE:
        check_strange(browser, program, mine, name)
    assert house.campaign.store.answers() == []
    assert len(house.campaign.store.questions()) == 8


def check_strange(browser, program, mine, name):
    asked = [browser.get(f"/label/picture/{name}"), program.get(f"/api/v1/questions/{name}/picture")]
    asked += [program.post(f"/api/v1/questions/{name}/answer", json={"value": "a"}), browser.get(f"/static/{name}")]
    sent = mine | {"question": name, "value": "0"}
    asked += [browser.post("/label/answer", data=sent, headers=HTMX), browser.post("/label/skip", data=sent)]
    for response in asked:
        assert response.status_code in (400, 404, 405, 422), (response.request.url, response.status_code)
        assert "drop table" not in response.text
        assert "root:" not in response.text
        assert b"PNG" not in response.content
        assert "<script>alert" not in response.text
    back = program.post("/api/v1/undo", json={"question": name})
    assert back.status_code in (200, 422)


def test_bodies_that_are_too_long_are_not_read(house):
    browser, program = house.browser("ada"), house.program("ada")
    csrf = hidden(browser.get("/label").text, "csrf")
    long = "x" * (65 << 10)

    def pieces():
        for _ in range(200):
            yield b"x" * 1024

    for path in ("/login", "/label/answer", "/logout"):
        assert browser.post(path, content=long, headers={"X-CSRF-Token": csrf}).status_code == 413
        assert browser.post(path, content=pieces(), headers={"X-CSRF-Token": csrf}).status_code == 413
    for given in ({"content": long}, {"content": pieces()}, {"json": {"value": long}}):
        assert program.post("/api/v1/questions/0.0/answer", **given).status_code == 413
    many = "&".join(f"a{n}=1" for n in range(3000))
    assert browser.post("/label/answer", content=many).status_code == 403


@pytest.mark.parametrize(
    "body",
    [
        {"value": {"note": SECRET}},
        {"value": [1, SECRET]},
        {"value": "a", SECRET: SECRET},
        {"value": SECRET},
        {"value": [SECRET] * 3},
        [SECRET],
        SECRET,
        {"value": "x" * 2000 + SECRET},
        {"value": float("1e308")},
    ],
)
def test_what_does_not_fit_is_refused_without_repeating_it(house, body):
    program = house.program("ada")
    question = program.post("/api/v1/next").json()["question"]["id"]
    for path in (f"/api/v1/questions/{question}/answer", "/api/v1/undo"):
        response = program.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
        if response.status_code == 200:
            assert path.endswith("/undo")
            continue
        assert response.status_code in (400, 422)
        assert SECRET.split()[1] not in response.text
        assert "xxx" not in response.text
    broken = program.post("/api/v1/undo", content=f"{{{SECRET}", headers={"Content-Type": "application/json"})
    assert broken.status_code == 422
    assert "Mustermann" not in broken.text
    assert house.campaign.store.answers() == []


def test_every_response_forbids_what_is_not_ours(house):
    browser = house.browser("ada")
    asked = [browser.get(path) for path in ("/label", "/login", "/static/label.js", "/owner", "/nothing", "/")]
    asked += [
        browser.get("/login", headers={"Host": "evil.example"}),
        browser.post("/label/answer", content="x" * 99_999),
    ]
    asked += [house.client().get("/api/v1/next"), house.client().options("/api/v1/next")]
    asked.append(browser.get(f"/label/picture/{fields(asked[0])['question']}"))
    for response in asked:
        for name, value in HEADERS.items():
            if (name, response.request.url.path) != ("cache-control", "/static/label.js"):
                assert response.headers.get_list(name) == [value]
        assert "server" not in response.headers
        assert "access-control-allow-origin" not in response.headers
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_pages_have_no_script_or_style_of_their_own(house):
    browser, owner = house.browser("ada"), house.browser("olga")
    for page in (browser.get("/label"), browser.get("/login"), owner.get("/owner"), browser.get("/nothing")):
        assert not re.search(r"<script(?! src=\"/static/)|<style|\sstyle=|\son\w+=|javascript:|https?://", page.text)


def test_the_log_and_addresses_hold_nothing_of_a_record(house, caplog):
    caplog.set_level(logging.DEBUG)
    browser, program = house.browser("ada"), house.program("ada")
    page = browser.get("/label")
    addresses = re.findall(r'(?:src|href|action|hx-post)="([^"]*)"', page.text)
    question = fields(page)["question"]
    browser.get(f"/label/picture/{question}?note={SECRET}")
    browser.post("/label/answer", data=fields(page) | {"value": "1"}, headers=HTMX)
    browser.get(f"/{SECRET}")
    program.post("/api/v1/questions/Mustermann/answer", json={"value": SECRET})
    browser.request("MUSTERMANN", "/label")
    lines = [one.getMessage() for one in caplog.records if one.name.startswith("discreet")]
    assert any("GET /label/picture/{question} 200" in line for line in lines)
    told = "\n".join([*lines, *addresses])
    for secret in ("record-", "Mustermann", "MUSTERMANN", house.tokens["ada"], "ada", *browser.cookies.values()):
        assert secret not in told
    assert question not in "\n".join(lines)


def test_what_nobody_expected_is_not_quoted(house, caplog, monkeypatch):
    def broken(self):
        raise ValueError(f"could not read {SECRET}")

    browser, program = house.browser("ada"), house.program("ada")
    monkeypatch.setattr(Queue, "upcoming", broken)
    for response in (browser.get("/label"), program.post("/api/v1/next")):
        assert response.status_code == 500
        assert "Mustermann" not in response.text
    assert "unexpected ValueError at test_web_attacks.py" in caplog.text
    assert "Mustermann" not in caplog.text


def test_owners_hear_why_and_annotators_that(house):
    house.campaign.store.users.add("ob", "annotator")
    refused = house.program("olga").post("/api/v1/questions/0.0/answer", json={"value": "a"})
    assert "there is none of this name for you" in refused.json()["error"]
    assert house.program("ada").post("/api/v1/questions/0.0/answer", json={"value": "a"}).json() == {
        "format": "discreet.error/1",
        "error": "there is no such question for you",
    }


NAMES = (
    "x..%2f..%2fsecret.png",
    "%2e%2e%2fsecret.png",
    "x\\..\\..\\secret.png",
    "<img src=x onerror=alert(1)>.png",
    "' or 1=1 --.png",
    "{{ 7 * 7 }}.png",
    "a\nSet-Cookie: x=1.png",
    "patient Mustermann.png",
)


@pytest.fixture
def folder(tmp_path):
    """Pictures whose names would like to be paths, tags, statements or headers; one file is no picture at all."""
    (tmp_path / "scans").mkdir()
    (tmp_path / "secret.png").write_bytes(b"root: not a record")
    for copy in ("", "1", "2", "3", "4"):  # four records of the pool are not asked about
        for place, name in enumerate(NAMES):
            pixels = np.full((8, 8), 20 * place, dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "scans" / name.replace(".png", f"{copy}.png"), format="PNG")
        (tmp_path / "scans" / f"link{copy}.png").symlink_to(tmp_path / "secret.png")
    pool = '[pool]\npath = "scans"\nkind = "images"\nshape = [8, 8]'
    size = 5 * (len(NAMES) + 1)
    house = House(written(tmp_path, pool=pool, size=size, initial=size - 4))
    house.campaign.due()
    return house


def test_names_of_picture_files_name_nothing_and_are_seen_by_nobody(folder, caplog):
    caplog.set_level(0)
    program, browser, shades = folder.program("ada"), folder.browser("ada"), set()
    asked = program.post("/api/v1/next").json()
    texts = []
    while asked["question"]:
        one = asked["question"]
        texts += [json.dumps(asked), *([browser.get("/label").text] if len(texts) < 20 else [])]
        if one["kind"] == "picture":
            found = program.get(one["picture"])
            shades.add(np.asarray(Image.open(io.BytesIO(found.content))).flat[0])
            texts.append(str(found.headers))
        else:
            assert one["kind"] == "broken"
            refused = program.get(f"/api/v1/questions/{one['id']}/picture")
            texts.append(refused.text)
        asked = program.post(f"/api/v1/questions/{one['id']}/answer", json={"value": "a"}).json()
    log = "\n".join(one.getMessage() for one in caplog.records if one.name.startswith("discreet"))
    assert "/picture 200" in log
    assert shades >= {20 * place for place in range(len(NAMES))}, "all of them were shown"
    for word in ("secret", "onerror", "1=1", "7 * 7", "Set-Cookie: x", "Mustermann", "link.png", "link1", "root:"):
        assert word not in "\n".join(texts) + log, word
    for name in (*NAMES, "../secret.png", "..%2fsecret.png", "%2e%2e%2f%2e%2e%2fsecret.png", "link.png"):
        for path in (f"/label/picture/{name}", f"/api/v1/questions/{name}/picture", f"/static/{name}"):
            client = program if path.startswith("/api") else browser
            response = client.get(quote(path, safe="/%"))
            assert response.status_code in (400, 404, 405, 422), (path, response.status_code)
            assert b"PNG" not in response.content
            assert b"root:" not in response.content
