"""Webhooks of a real Label Studio server, as hints; and projects that processes made without seeing one another."""

import json
import os
import subprocess
import sys
import time
import uuid

import pytest
from label_studio_people import People, oracle_at, questions, server_at
from label_studio_server import LEGACY, copied
from test_label_studio_campaigns import place, records  # noqa: F401

from discreet.errors import BadInput
from discreet.oracles.label_studio import PATH, Hints, mark_of

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def calling(tmp_path_factory):
    """A server that may call its own machine."""
    running = copied(
        tmp_path_factory.mktemp("label-studio") / "data", environment={"SSRF_PROTECTION_ENABLED": "false"}
    ).start()
    yield running
    running.stop()


def hooks(people, project):
    return people.send("GET", "/api/webhooks/", project=project)


def test_a_webhook_is_made_once_wakes_and_goes(calling):
    people, oracle = People(calling), oracle_at(calling)
    with Hints(("127.0.0.1", 0), least=0.0) as hints:
        url = f"http://127.0.0.1:{hints.port}{PATH}"
        assert not oracle.hint_at(url, hints.secret), "there is no project yet"
        project = oracle.push(questions(3)).project
        tasks = people.tasks(project)
        assert oracle.hint_at(url, "a secret that is old")
        assert oracle.hint_at(url, hints.secret)
        (hook,) = hooks(people, project)
        assert (hook["send_payload"], hook["send_for_all_actions"]) == (False, False)
        assert not hints.wait(1.0)
        annotation = people.choose(tasks["0.0"], "ill")
        assert hints.wait(60.0)
        assert [one.value for one in oracle.collect()] == ["ill"]
        hints.wait(1.0)  # the server may say it twice
        people.change(annotation, "healthy")
        assert hints.wait(60.0)
        assert [one.value for one in oracle.collect()] == ["healthy"]
        people.send("POST", "/api/webhooks/", {"project": project, "url": url})  # by hand
        other = people.send("POST", "/api/webhooks/", {"project": project, "url": "http://example.org/theirs"})
        oracle.hint_at(url, hints.secret)
        assert len(hooks(people, project)) == 2
        assert oracle.no_hints_at(url) == 1
        assert [one["id"] for one in hooks(people, project)] == [other["id"]], "somebody else's stays"
        hints.wait(1.0)
        people.choose(tasks["0.1"], "ill")
        assert not hints.wait(3.0)
    assert [one.value for one in oracle.collect()] == ["ill"], "without a hint, the next look has it"


def test_a_server_that_must_not_call_its_own_machine_says_so(label_studio):
    oracle = oracle_at(label_studio)
    oracle.push(questions(1))
    with pytest.raises(BadInput, match="SSRF_PROTECTION_ENABLED"):
        oracle.hint_at("http://127.0.0.1:9/hint", "secret")


def test_sync_looks_when_it_is_called_and_takes_its_webhook_away(calling, place):  # noqa: F811
    people = People(calling)
    file = place / "c.toml"
    file.write_text(file.read_text().replace(url_of(file), calling.url))
    command = [sys.executable, "-m", "discreet", "labelstudio", "sync", "c.toml", "--every", "600", "--until-done"]
    port = free_port()
    going = subprocess.Popen(
        [*command, "--listen", str(port), "--hint-url", f"http://127.0.0.1:{port}", "--json"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"LABEL_STUDIO_API_KEY": LEGACY},
    )
    try:
        deadline, made = time.monotonic() + 200, []
        while not made:
            assert time.monotonic() < deadline
            assert going.poll() is None, going.communicate()
            time.sleep(0.3)
            made = [one for one in people.send("GET", "/api/webhooks/") if str(port) in one["url"]]
        truth, asked = json.loads((place / "truth.json").read_text()), records(place)
        for name, task in people.tasks(made[0]["project"]).items():
            people.choose(task, truth[asked[name]])
        out, err = going.communicate(timeout=120)  # ten minutes are not over
    finally:
        if going.poll() is None:
            going.kill()
            going.communicate()
    assert going.returncode == 0, err
    found = json.loads(out)
    assert (found["open"], found["hints"] > 0) == (0, True)
    assert not [one for one in people.send("GET", "/api/webhooks/") if str(port) in one["url"]]


def url_of(file):
    return next(line.split('"')[1] for line in file.read_text().splitlines() if line.startswith("url"))


def free_port():
    with Hints(("127.0.0.1", 0)) as found:
        return found.port


@pytest.fixture
def two_projects(label_studio):
    """Of one campaign, both with tasks: as of processes of which neither saw the other's."""
    people, campaign = People(label_studio), uuid.uuid4().hex
    oracle = oracle_at(label_studio, campaign=campaign)
    older = oracle.push(questions(3)).project
    form = people.send("GET", f"/api/projects/{older}/")
    same = {name: form[name] for name in ("title", "description", "label_config")}
    younger = people.send("POST", "/api/projects/", same)["id"]
    server_at(label_studio).import_tasks(younger, [(f"0.{n}", {"text": f"words {n}"}) for n in range(3)])
    empty = people.send("POST", "/api/projects/", same)["id"]
    return oracle, people, (older, younger, empty), mark_of(campaign)


def marked(label_studio, mark):
    return [one.id for one in server_at(label_studio).projects() if mark in one.description]


def test_work_in_a_younger_project_is_read_and_never_deleted(label_studio, two_projects, monkeypatch):
    """Also what is submitted at the moment in which it would have been deleted."""
    oracle, people, (older, younger, empty), mark = two_projects
    tasks, server = people.tasks(younger), oracle._server
    listed, seen = [], server.tasks

    def while_it_is_looked_at(number):
        found = seen(number)
        if number == younger and not listed:
            listed.append(people.choose(tasks["0.1"], "ill"))
        return found

    monkeypatch.setattr(server, "tasks", while_it_is_looked_at)
    done = oracle.push(questions(3))
    assert (done.project, done.new, done.beside) == (older, (), (younger,))
    assert sorted(marked(label_studio, mark)) == [older, younger], "the empty one is gone"
    assert [(one.question_id, one.value) for one in oracle.collect()] == [("0.1", "ill")]
    assert oracle.remove({"0.2"}) == 2, "a withdrawn record goes from both"
    assert oracle.remove_all() == 4
    assert marked(label_studio, mark) == []
    assert empty


def test_a_push_lists_projects_once(label_studio, pushed_before, monkeypatch):
    oracle, listed = pushed_before, []
    real = oracle._server.projects

    def counted():
        listed.append(1)
        return real()

    monkeypatch.setattr(oracle._server, "projects", counted)
    oracle.push(questions(4))
    assert len(listed) == 1
    oracle.remove(set())
    assert len(listed) == 1, "nothing is to be removed"


@pytest.fixture
def pushed_before(label_studio):
    oracle = oracle_at(label_studio)
    oracle.push(questions(3))
    return oracle


def test_a_doubled_task_that_somebody_takes_up_meanwhile_is_not_deleted(label_studio, pushed_before, monkeypatch):
    oracle, people = pushed_before, People(label_studio)
    server = oracle._server
    (project,) = [one.id for one in oracle._projects()]
    server.import_tasks(project, [("0.1", {"text": "words"})])
    doubled = max(server.tasks(project), key=lambda one: one.id)
    seen = server.tasks

    def while_it_is_looked_at(number):
        found = seen(number)
        people.choose({"id": doubled.id}, "ill")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(server, "tasks", while_it_is_looked_at)
        assert oracle.push(questions(3)).tidied == 0
    assert [(one.question_id, one.value) for one in oracle.collect()] == [("0.1", "ill")]
    assert oracle.push(questions(3)).tidied == 1, "the other one, which nobody took up"
