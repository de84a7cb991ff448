"""What a network and a broken server can do to requests. How the real one behaves: `tests/integration`."""

import json
import sys

import httpx2
import pytest

from discreet.errors import BadInput, DiscreetError, MissingExtra, ServerUnavailable
from discreet.oracles.label_studio import Client, LabelStudioOracle, Server, Token
from discreet.records import Question

URL = "http://127.0.0.1:1"
LEGACY = "legacy0123456789abcdef0123456789abcdef01"
PERSONAL = "eyJhbGciOi.eyJ0b2tlbl90.c2lnbmF0dXJl"
SECRET = "patient Ida Gruen, 41"


class Answers:
    """A transport that plays a list: statuses, bodies or exceptions; the last one again and again."""

    def __init__(self, *played):
        self.played, self.requests = list(played), []

    def __call__(self, request):
        self.requests.append(request)
        one = self.played.pop(0) if len(self.played) > 1 else self.played[0]
        if isinstance(one, Exception):
            raise one
        if isinstance(one, int):
            return httpx2.Response(one, json={"detail": SECRET})
        return httpx2.Response(200, content=one) if isinstance(one, bytes) else httpx2.Response(200, json=one)


def client(*played, token=LEGACY, **options):
    answers, pauses = Answers(*played), []
    made = Client(URL, Token(value=token), transport=httpx2.MockTransport(answers), pause=pauses.append, **options)
    return made, answers, pauses


@pytest.mark.parametrize(
    "failure", [httpx2.ConnectError("x"), httpx2.ReadTimeout("x"), httpx2.RemoteProtocolError("x"), 500, 502, 503, 429]
)
def test_what_passes_is_tried_again_where_that_changes_nothing(failure):
    made, answers, pauses = client(failure, failure, {"fine": 1})
    assert made.get("/api/x") == {"fine": 1}
    assert len(answers.requests) == 3
    assert pauses == [0.3, 0.6]
    made, answers, _ = client(failure, {"fine": 1})
    assert made.patch("/api/x", {}) == {"fine": 1}
    made, answers, _ = client(failure, {"fine": 1})
    assert made.delete("/api/x")


@pytest.mark.parametrize("failure", [httpx2.ReadTimeout("x"), httpx2.ReadError("x"), 500, 503])
def test_making_something_is_never_repeated(failure):
    made, answers, pauses = client(failure, {"fine": 1})
    with pytest.raises(ServerUnavailable):
        made.post("/api/x", [])
    assert (len(answers.requests), pauses) == (1, [])


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_looks_first_is_begun_anew_where_the_server_failed(status):
    made, answers, pauses = client({"there": 0}, status, {"there": 0}, status, {"there": 1}, {"fine": 1})
    looks = []

    def work():
        looks.append(made.get("/api/x")["there"])
        return made.post("/api/x", [])

    assert made.again(work) == {"fine": 1}
    assert (looks, pauses) == ([0, 0, 1], [0.3, 0.6])
    made, answers, _ = client(status)
    with pytest.raises(ServerUnavailable) as caught:
        made.again(lambda: made.post("/api/x", []))
    assert (caught.value.status, len(answers.requests)) == (status, 3)


@pytest.mark.parametrize("failure", [httpx2.ReadTimeout("x"), httpx2.ReadError("x"), 502, 504, b"<html>", 404])
def test_what_may_still_be_under_way_is_not_begun_anew(failure):
    made, answers, pauses = client(failure, {"fine": 1})
    with pytest.raises((ServerUnavailable, BadInput)):
        made.again(lambda: made.post("/api/x", []))
    assert (len(answers.requests), pauses) == (1, [])


def test_tries_are_bounded():
    made, answers, _ = client(httpx2.ConnectError("x"))
    with pytest.raises(ServerUnavailable, match=r"does not answer \(ConnectError\)"):
        made.get("/api/x")
    assert len(answers.requests) == 3


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 418, 429, 500, 503])
def test_no_error_repeats_what_a_server_says_or_a_token(status):
    for token in (LEGACY, PERSONAL):
        made, _, _ = client(status, token=token)
        with pytest.raises(DiscreetError) as problem:
            made.get("/api/x")
        words = str(problem.value) + repr(problem.value) + repr(problem.value.__cause__) + repr(made)
        assert SECRET not in words
        assert token not in words
        assert problem.value.remedy


@pytest.mark.parametrize("body", [b"", b'{"tasks": [{"id": 1', b"<html>", b"\xff\xfe"])
def test_a_body_that_is_cut_off_is_refused(body):
    made, _, _ = client(body)
    with pytest.raises(ServerUnavailable, match="not in its form"):
        made.get("/api/x")


def test_a_personal_token_is_exchanged_once_and_again_when_it_ran_out():
    made, answers, _ = client(
        {"access": "one"}, {"fine": 1}, {"fine": 2}, 401, {"access": "two"}, {"fine": 3}, token=PERSONAL
    )
    assert [made.get("/api/x")["fine"] for _ in range(3)] == [1, 2, 3]
    sent = [request.headers.get("Authorization") for request in answers.requests]
    assert sent == [None, "Bearer one", "Bearer one", "Bearer one", None, "Bearer two"]
    assert json.loads(answers.requests[0].content) == {"refresh": PERSONAL}


def test_a_post_is_sent_again_after_401_alone():
    made, answers, _ = client({"access": "one"}, 401, {"access": "two"}, {"made": 1}, token=PERSONAL)
    assert made.post("/api/x", []) == {"made": 1}  # 401: nothing was done
    made, answers, _ = client({"access": "one"}, 401, {"access": "two"}, 401, token=PERSONAL)
    with pytest.raises(BadInput, match="refused the personal access token"):
        made.post("/api/x", [])
    assert len(answers.requests) == 4


def test_an_exchange_that_fails():
    for played in ([401], [httpx2.ConnectError("x")], [b"<html>"], [{"other": 1}], [[]]):
        made, answers, _ = client(*played, token=PERSONAL)
        with pytest.raises(DiscreetError) as problem:
            made.get("/api/x")
        assert PERSONAL not in str(problem.value)
        assert len(answers.requests) <= 12
    made, answers, _ = client(503, {"access": "one"}, {"fine": 1}, token=PERSONAL)
    assert made.get("/api/x") == {"fine": 1}


def test_a_legacy_token_is_sent_as_it_is_and_401_is_final():
    made, answers, _ = client(401)
    with pytest.raises(BadInput, match="refused the legacy token"):
        made.get("/api/x")
    assert [request.headers["Authorization"] for request in answers.requests] == [f"Token {LEGACY}"]


@pytest.mark.parametrize(
    ("url", "fact"),
    [
        ("ftp://labels.example.org", "it is not one"),
        ("labels.example.org", "it is not one"),
        ("http://[", "it is not one"),
        ("https://x:y@labels.example.org", "a name or password"),
        ("https://labels.example.org/?token=abc", "behind the path"),
        ("http://labels.example.org", "plain HTTP to another machine"),
        ("http://10.0.0.7:8080", "plain HTTP to another machine"),
    ],
)
def test_addresses_that_are_refused(url, fact):
    with pytest.raises(BadInput, match=fact) as problem:
        Client(url, Token(value=LEGACY))
    assert "x:y" not in str(problem.value)


def test_addresses_that_are_taken():
    for url in ("https://labels.example.org/", "http://localhost:8080", "http://[::1]:8080", "http://127.0.0.2"):
        assert Client(url, Token(value=LEGACY)).url == url.rstrip("/")
    assert Client("http://10.0.0.7", Token(value=LEGACY), plain_http=True).url == "http://10.0.0.7"


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtra, match=r"pip install 'discreet\[labelstudio\]'"):
        Client(URL, Token(value=LEGACY))


def test_nothing_is_taken_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:2")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:2")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    made = Client(URL, Token(value=LEGACY), pause=lambda seconds: None)
    with pytest.raises(ServerUnavailable, match="127.0.0.1:1"):
        made.get("/api/x")
    made, answers, _ = client({"fine": 1})
    made.get("/api/x")
    assert answers.requests[0].headers["Authorization"] == f"Token {LEGACY}"


@pytest.mark.parametrize(
    ("form", "fact"),
    [
        ({"release": "1.22.0"}, "tested with 1.23"),
        ({"release": "0.9.1"}, "tested with 1.23"),
        ({"release": "2.0.0"}, "tested with 1.23"),
        ({"release": "1.23.2", "edition": "Enterprise"}, "not the community one"),
    ],
)
def test_versions_that_are_refused(form, fact):
    made, _, _ = client(form)
    with pytest.raises(BadInput, match=fact):
        Server(made).version()


def test_versions_that_are_taken():
    for release in ("1.23.0", "1.23.2.post0", "1.40.1"):
        made, answers, _ = client({"release": release})
        server = Server(made)
        assert server.version() == server.version() == release
        assert len(answers.requests) == 1


@pytest.mark.parametrize(
    "page",
    [
        [],
        {"total": 1},
        {"total": "1", "tasks": []},
        {"total": 1, "tasks": [[]]},
        {"total": 1, "tasks": [{"id": 1}]},
        {"total": 1, "tasks": [{"id": 1, "annotations": [{"id": 2, "updated_at": "yesterday"}]}]},
        {"total": 1, "tasks": [{"id": True, "annotations": []}]},
    ],
)
def test_forms_that_are_not_label_studios_are_refused(page):
    made, _, _ = client(page)
    with pytest.raises(ServerUnavailable, match="not in its form"):
        Server(made).tasks(1)


def test_an_import_that_took_another_number_is_noticed():
    made, _, _ = client({"task_count": 1})
    with pytest.raises(ServerUnavailable, match="another number of tasks"):
        Server(made).import_tasks(1, [("0.0", {"text": "a"}), ("0.1", {"text": "b"})])


def test_a_list_that_shrinks_while_it_is_read_ends():
    made, _, _ = client({"total": 5, "tasks": [{"id": 1, "annotations": []}]}, {"total": 5, "tasks": []})
    assert [task.id for task in Server(made).tasks(1)] == [1]


def test_a_listing_that_never_shows_what_was_made_ends():
    """A copy that lags behind, or a proxy that keeps old pages: what is refused is said, after a few projects."""
    made = []

    def handle(request):
        path = request.url.path
        if path == "/api/version":
            return httpx2.Response(200, json={"release": "1.23.0", "edition": "Community"})
        if path == "/api/projects/" and request.method == "GET":
            return httpx2.Response(200, json={"results": [], "count": 0})
        if path == "/api/projects/":
            form = json.loads(request.content)
            made.append({"id": len(made) + 1, **{name: form[name] for name in ("description", "label_config")}})
            return httpx2.Response(201, json=made[-1] | {"maximum_annotations": 1})
        return (
            httpx2.Response(413) if path.endswith("/import") else httpx2.Response(200, json={"tasks": [], "total": 0})
        )

    with Client(URL, Token(value=LEGACY), transport=httpx2.MockTransport(handle)) as there:
        oracle = LabelStudioOracle(
            Server(there),
            campaign="c",
            title="scans",
            kind="text",
            render=lambda ids: [{"text": "x"}],
            classes=("a", "b"),
        )
        with pytest.raises(BadInput, match="413"):
            oracle.push([Question(id="q", record="r", phase=0, place=0)])
    assert len(made) == 3
