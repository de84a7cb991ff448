"""Label Studio, with a real server: every way in which it differs from what one would hope for."""

import dataclasses
import threading
import uuid

import httpx2
import pytest
from label_studio_people import CLASSES, People, oracle_at, questions, server_at, texts
from label_studio_server import LEGACY

from discreet.errors import BadInput, ServerUnavailable
from discreet.oracles.label_studio import Client, LabelStudioOracle, Server, Token, labeling_config, mark_of
from discreet.oracles.label_studio import server as calls
from discreet.oracles.label_studio.oracle import Pushed
from discreet.testing import check_oracle

pytestmark = pytest.mark.integration


@pytest.fixture
def people(label_studio):
    return People(label_studio)


@pytest.fixture
def pushed(label_studio, people):
    """An oracle that pushed six questions; the project, and its tasks."""
    oracle = oracle_at(label_studio)
    project = oracle.push(questions(6)).project
    return oracle, project, people.tasks(project)


def said(oracle):
    return {(one.question_id, one.annotator): one.value for one in oracle.collect()}


def test_what_is_pushed_is_there_once_however_often_it_is_pushed(label_studio, people, pushed):
    oracle, project, tasks = pushed
    assert [task["data"]["text"] for task in tasks.values()] == [
        one["text"] for one in texts([f"x-{n}" for n in range(6)])
    ]
    assert sorted(task["id"] for task in tasks.values()) == [tasks[f"0.{n}"]["id"] for n in range(6)]  # in their order
    assert oracle.push(questions(6)).new == ()
    assert oracle.push(questions(8)).new == ("0.6", "0.7")
    assert people.count(project) == 8


def test_a_task_has_the_questions_id_and_not_the_records(people, pushed):
    _, _, tasks = pushed
    assert set(tasks["0.0"]["data"]) == {"text", "question_id"}
    assert "secret-id" not in people.database()
    assert "words of number 3" in people.database()  # the look can see something


def test_a_label_outside_the_config_is_accepted_there_and_refused_here(people, pushed):
    oracle, _, tasks = pushed
    people.choose(tasks["0.0"], "ill")
    people.choose(tasks["0.1"], "anything at all")
    people.choose(tasks["0.2"], "ill", "healthy")
    people.choose(tasks["0.3"], "ill", control="another")
    people.submit(tasks["0.4"], [])
    assert [(one.question_id, one.value) for one in oracle.collect()] == [("0.0", "ill")]
    assert oracle.read.refused == ("0.1", "0.2", "0.3", "0.4")
    assert "anything" not in repr(oracle.read) + repr(oracle)


def test_a_reimport_doubles_tasks_there_and_nothing_here(people, pushed):
    oracle, project, tasks = pushed
    ida, bo = people.join("ida"), people.join("bo")
    first = people.choose(tasks["0.0"], "ill", by=ida[0])
    people.choose(tasks["0.1"], "ill", by=ida[0])
    exported = people.send("GET", f"/api/projects/{project}/export", exportType="JSON", download_all_tasks="true")
    for one in exported:
        one.pop("id")
    people.send("POST", f"/api/projects/{project}/import", exported)
    assert people.count(project) == 12  # the trap
    assert said(oracle) == {("0.0", ida[1]): "ill", ("0.1", ida[1]): "ill"}
    assert oracle.read.doubled == 6
    kept = {task["id"] for task in people.send("GET", "/api/tasks", project=project, page_size=100)["tasks"]}
    copies = [number for number in kept if number not in {task["id"] for task in tasks.values()}]
    done = oracle.push(questions(6))
    assert (done.new, done.tidied) == ((), 4)  # nobody touched those four
    left = {task["id"] for task in people.send("GET", "/api/tasks", project=project, page_size=100)["tasks"]}
    assert left >= {task["id"] for task in tasks.values()}
    (copy,) = [n for n in left & set(copies) if people.send("GET", f"/api/tasks/{n}")["data"]["question_id"] == "0.0"]
    people.choose({"id": copy}, "healthy", by=bo[0])
    assert said(oracle) == {("0.0", bo[1]): "healthy"}  # two people, two answers, wherever they said it
    people.choose({"id": copy}, "healthy", by=ida[0])
    assert said(oracle) == {("0.0", ida[1]): "healthy"}  # and of one person, the last word
    people.change(first, "ill")
    assert said(oracle) == {("0.0", ida[1]): "ill"}


def test_several_annotations_of_a_task_are_one_voice_a_person(people, pushed):
    oracle, _, tasks = pushed
    ida, bo = people.join("ida"), people.join("bo")
    people.choose(tasks["0.0"], "ill", by=ida[0])
    people.choose(tasks["0.0"], "ill", by=bo[0])
    people.choose(tasks["0.0"], "healthy", by=ida[0])
    assert said(oracle) == {("0.0", ida[1]): "healthy", ("0.0", bo[1]): "ill"}
    assert said(oracle) == {}


def test_a_changed_annotation_is_a_new_answer_and_an_unchanged_one_is_none(people, pushed):
    oracle, _, tasks = pushed
    number = people.choose(tasks["0.0"], "ill")
    assert list(said(oracle).values()) == ["ill"]
    people.change(number, "ill")
    assert said(oracle) == {}
    people.change(number, "healthy")
    assert list(said(oracle).values()) == ["healthy"]


def test_a_skip_is_an_answer_and_what_follows_it_another(people, pushed):
    oracle, _, tasks = pushed
    people.skip(tasks["0.0"])
    assert list(said(oracle).values()) == [None]
    people.choose(tasks["0.0"], "ill")
    assert list(said(oracle).values()) == ["ill"]


def test_ground_truth_predictions_and_drafts_are_nobodys_answers(people, pushed):
    oracle, project, tasks = pushed
    people.choose(tasks["0.0"], "ill", ground_truth=True)
    result = [{"from_name": "label", "to_name": "record", "type": "choices", "value": {"choices": ["ill"]}}]
    people.send("POST", f"/api/tasks/{tasks['0.1']['id']}/drafts", {"result": result})
    people.send("POST", "/api/predictions/", {"task": tasks["0.2"]["id"], "result": result, "model_version": "m"})
    assert said(oracle) == {}
    assert (oracle.read.gold, oracle.read.drafts, oracle.read.refused) == (1, 1, ())
    people.send("POST", f"/api/projects/{project}/import", [{"data": {"text": "by hand"}}])
    oracle.collect()
    assert oracle.read.strange == 1


def test_an_export_omits_what_nobody_labelled_and_leaves_a_copy_behind_so_none_is_made(people, pushed):
    oracle, project, tasks = pushed
    people.choose(tasks["0.0"], "ill")
    before = len(people.exports())
    oracle.collect()
    oracle.push(questions(6))
    assert oracle.status().tasks == 6  # all of them are seen
    assert len(people.exports()) == before  # and no copy was made
    exported = people.send("GET", f"/api/projects/{project}/export", exportType="JSON")
    assert len(exported) == 1  # the first trap
    left = [place for place in people.exports() if place.name.startswith(f"project-{project}-")]
    assert any("words of number 0" in place.read_text() for place in left)  # the second
    assert oracle.remove({"0.0"}) == 1
    assert any("words of number 0" in place.read_text() for place in left)  # which no deletion reaches


def test_deleted_tasks_are_pushed_again(people, pushed):
    oracle, project, tasks = pushed
    people.send("DELETE", f"/api/tasks/{tasks['0.2']['id']}/")
    assert oracle.push(questions(6)).new == ("0.2",)
    assert people.count(project) == 6
    people.send("DELETE", f"/api/projects/{project}/")
    assert oracle.collect() == []
    done = oracle.push(questions(6))
    assert done.project != project
    assert len(done.new) == 6


def test_removing_deletes_a_tasks_data_and_annotations(people, pushed):
    oracle, project, tasks = pushed
    people.choose(tasks["0.4"], "ill")
    word = uuid.uuid4().hex
    people.send("PATCH", f"/api/tasks/{tasks['0.4']['id']}/", {"data": {"text": word, "question_id": "0.4"}})
    assert word in people.database()
    assert oracle.remove({"0.4", "7.7"}) == 1
    assert word not in people.database()
    assert people.count(project) == 5
    assert oracle.remove_all() == 5
    assert oracle.status().project is None


class Dropping(httpx2.HTTPTransport):
    """Does what is asked, and loses the answer to the first import."""

    lost = 0

    def handle_request(self, request):
        answer = super().handle_request(request)
        if request.url.path.endswith("/import") and not self.lost:
            self.lost += 1
            answer.read()
            answer.close()
            raise httpx2.ReadTimeout("lost", request=request)
        return answer


def test_an_import_whose_answer_is_lost_is_found_again(label_studio, people):
    campaign, transport = uuid.uuid4().hex, Dropping()
    options = {"campaign": campaign, "title": "scans", "kind": "text", "render": texts, "classes": CLASSES}
    with Client(label_studio.url, Token(value=LEGACY), transport=transport) as client:
        oracle = LabelStudioOracle(Server(client), **options)
        with pytest.raises(ServerUnavailable, match="does not answer"):
            oracle.push(questions(6))
    assert transport.lost == 1  # and it was not sent again by itself
    other = oracle_at(label_studio, campaign=campaign)
    done = other.push(questions(6))
    assert (done.new, done.existing) == ((), 6)
    assert people.count(done.project) == 6


class Failing(httpx2.HTTPTransport):
    """Says that making a project or tasks failed, the first time: before it did so, or after it."""

    def __init__(self, done):
        super().__init__()
        self.done, self.failed = done, []

    def handle_request(self, request):
        path = request.url.path
        if request.method != "POST" or path in self.failed:
            return super().handle_request(request)
        self.failed.append(path)
        if self.done:
            answer = super().handle_request(request)
            answer.read()
            answer.close()
        return httpx2.Response(500, json={"detail": "database is locked"})


@pytest.mark.parametrize("done", [False, True], ids=["undone", "done all the same"])
def test_a_server_that_fails_for_a_moment_is_looked_at_and_the_rest_is_pushed(label_studio, people, done):
    campaign, transport = uuid.uuid4().hex, Failing(done)
    options = {"campaign": campaign, "title": "scans", "kind": "text", "render": texts, "classes": CLASSES}
    with Client(label_studio.url, Token(value=LEGACY), transport=transport) as client:
        pushed = LabelStudioOracle(Server(client), **options).push(questions(6))
    assert len(transport.failed) == 2  # the project, and the tasks
    assert (len(pushed.new), pushed.existing, pushed.beside) == (6, 0, ())
    assert people.count(pushed.project) == 6
    assert [one.id for one in server_at(label_studio).projects() if mark_of(campaign) in one.description] == [
        pushed.project
    ]


def test_a_server_that_dies_in_the_middle_loses_and_doubles_nothing(label_studio, people, monkeypatch):
    monkeypatch.setattr("discreet.oracles.label_studio.oracle._TASKS", 2)
    monkeypatch.setattr("discreet.oracles.label_studio.client.PAUSE", 0.01)
    campaign, sent = uuid.uuid4().hex, []

    def dying(records):
        sent.append(records)
        if len(sent) == 3:
            label_studio.stop(kill=True)
        return texts(records)

    oracle = oracle_at(label_studio, campaign=campaign, render=dying)
    try:
        with pytest.raises(ServerUnavailable) as problem:
            oracle.push(questions(6))
        with pytest.raises(ServerUnavailable):
            oracle.collect()
    finally:
        label_studio.start()
    assert "words of" not in str(problem.value)
    assert LEGACY not in str(problem.value)
    done = oracle.push(questions(6))
    assert 0 < len(done.new) < 6
    assert people.count(done.project) == 6
    people.choose(people.tasks(done.project)["0.5"], "ill")
    assert list(said(oracle).values()) == ["ill"]


def test_two_at_once_double_nothing_that_stays(label_studio, people):
    campaign = uuid.uuid4().hex
    first = oracle_at(label_studio, campaign=campaign)
    first.push([])
    threads = [
        threading.Thread(target=oracle_at(label_studio, campaign=campaign).push, args=(questions(6),)) for _ in range(3)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    done = first.push(questions(6))
    assert people.count(done.project) == 6
    assert first.push(questions(6)).tidied == 0
    mark = mark_of(campaign)
    there = [one.id for one in server_at(label_studio).projects() if mark in one.description]
    assert sorted(there) == [done.project, *done.beside], "a younger one with tasks stays, and is read"


def test_a_project_that_gives_way_while_it_is_pushed_to(label_studio, people):
    """Its process did not see the older one; now it does, or makes another."""
    campaign, seen = uuid.uuid4().hex, []

    def vanishing(records):
        if not seen:
            seen.extend(one.id for one in server_at(label_studio).projects() if mark_of(campaign) in one.description)
            people.send("DELETE", f"/api/projects/{seen[0]}/")
        return texts(records)

    done = oracle_at(label_studio, campaign=campaign, render=vanishing).push(questions(6))
    assert done.project not in seen
    assert (len(done.new), people.count(done.project)) == (6, 6)


def test_a_younger_project_that_somebody_else_deletes_first(label_studio, people, monkeypatch):
    oracle = oracle_at(label_studio)
    project = oracle.push(questions(6)).project
    there = server_at(label_studio).project(project)
    gone = dataclasses.replace(there, id=10**6)
    monkeypatch.setattr(Server, "projects", lambda self: iter([there, gone]))
    assert oracle.push(questions(6)) == Pushed(project=project, existing=6)


def test_tasks_are_read_in_pages(label_studio, people, pushed, monkeypatch):
    monkeypatch.setattr(calls, "PAGE", 4)
    oracle, project, tasks = pushed
    for name in tasks:
        people.choose(tasks[name], "ill")
    assert len(oracle.collect()) == 6
    assert len(server_at(label_studio).tasks(project)) == 6
    assert len(list(server_at(label_studio).projects())) >= 5  # of all tests here, also in pages


def test_a_project_is_changed_so_that_answers_cannot_be_read_any_more(label_studio, people, pushed):
    oracle, project, _ = pushed
    fine = labeling_config("text", ["ill", "healthy"], multilabel=False)
    added = '<View><Header value="Look closely"/><TextArea name="why" toName="record"/>' + fine[len("<View>") :]
    people.send("PATCH", f"/api/projects/{project}/", {"label_config": added})
    assert oracle.push(questions(6)).existing == 6  # more is welcome
    for config, fact in (
        (labeling_config("text", ["ill", "sick"], multilabel=False), "its classes are not those of the campaign"),
        (labeling_config("text", CLASSES, multilabel=True), "several classes can be chosen"),
        (fine.replace('name="label"', 'name="verdict"'), "no choices called 'label'"),
    ):
        people.send("PATCH", f"/api/projects/{project}/", {"label_config": config})
        for verb in (lambda: oracle.push(questions(7)), oracle.collect, oracle.check):
            with pytest.raises(BadInput, match=fact):
                verb()
    assert people.count(project) == 6


def test_a_project_that_is_named_is_used_and_only_its_own_tasks_are_removed(label_studio, people):
    config = labeling_config("text", CLASSES, multilabel=False)
    made = people.send("POST", "/api/projects/", {"title": "by hand", "label_config": config})["id"]
    people.send("POST", f"/api/projects/{made}/import", [{"data": {"text": "by hand"}}])
    oracle = oracle_at(label_studio, project=made, per_question=3)
    assert oracle.push(questions(6)).project == made
    assert people.send("GET", f"/api/projects/{made}/")["maximum_annotations"] == 3
    assert oracle.remove_all() == 6
    assert people.count(made) == 1
    with pytest.raises(BadInput, match="not there"):
        oracle_at(label_studio, project=10**6).push(questions(1))


def test_of_two_projects_with_the_mark_the_older_one_is_it(label_studio, people, pushed):
    oracle, project, _ = pushed
    form = people.send("GET", f"/api/projects/{project}/")
    same = {name: form[name] for name in ("title", "description", "label_config")}
    people.send("POST", "/api/projects/", same)
    done = oracle.push(questions(6))
    assert (done.project, done.new) == (project, ())


NASTY = ('cat & "dog"', "<b>'x'</b>", "a,b|c", "猫 ü", "tab\tand\nline", " led", 'name="label"', "0", "{}")


@pytest.mark.parametrize(("kind", "multilabel"), [("image", False), ("text", True), ("table", False)])
def test_classes_of_any_name_come_back_as_they_were(label_studio, people, kind, multilabel):
    data = {"image": "data:image/png;base64,iVBORw0KGgo=", "text": "<script>alert(1)</script>", "table": {"a&b": "1"}}
    oracle = oracle_at(
        label_studio,
        kind=kind,
        render=lambda records: [{kind: data[kind]} for _ in records],
        classes=NASTY,
        multilabel=multilabel,
    )
    project = oracle.push(questions(len(NASTY))).project
    for number, task in enumerate(people.tasks(project).values()):
        assert task["data"][kind] == data[kind]
        people.choose(task, *(NASTY[: number + 1] if multilabel else [NASTY[number]]))
    found = {one.question_id: one.value for one in oracle.collect()}
    wanted = [NASTY[: number + 1] if multilabel else NASTY[number] for number in range(len(NASTY))]
    assert [found[f"0.{number}"] for number in range(len(NASTY))] == wanted


def test_of_several_labels_none_is_an_answer(label_studio, people):
    oracle = oracle_at(label_studio, multilabel=True)
    tasks = people.tasks(oracle.push(questions(3)).project)
    people.submit(tasks["0.0"], [])
    people.choose(tasks["0.1"], "ill", control="another")
    assert [(one.question_id, one.value) for one in oracle.collect()] == [("0.0", ())]
    assert oracle.read.refused == ("0.1",)


def test_everybody_with_an_account_is_said_to_be_shown_a_task(label_studio, people, pushed):
    oracle, _, _ = pushed
    _, name = people.join("ida")
    shown = {(one.question_id, one.kind, one.audience) for one in oracle.shown_to(questions(1))}
    assert ("0.0", "annotator", name) in shown
    assert ("0.0", "annotator", "owner@example.org") in shown
    assert ("0.0", "hand-out", f"label-studio at {label_studio.url}") in shown


def test_somebody_whose_account_is_gone_keeps_a_voice(people, pushed):
    oracle, _, tasks = pushed
    number, name = people.join("ida")
    people.choose(tasks["0.0"], "ill", by=number)
    assert said(oracle) == {("0.0", name): "ill"}
    people.send("DELETE", f"/api/users/{number}/")
    assert said(oracle) == {("0.0", "label-studio"): "ill"}  # by another name


def test_personal_tokens_are_exchanged_and_exchanged_again(label_studio, people):
    personal = people.send("POST", "/api/token/", {})["token"]
    client = Client(label_studio.url, Token(value=personal))
    server = Server(client)
    assert server.people()
    client._access = "expired.access.token"  # as it is after five minutes: the server answers 401
    assert server.people()
    assert personal not in repr(client) + repr(server) + repr(Token(value=personal))
    oracle = oracle_at(label_studio, token=personal)
    assert len(oracle.push(questions(2)).new) == 2
    people.send("POST", "/api/token/blacklist/", {"refresh": personal})
    with pytest.raises(BadInput, match="refused the personal access token") as problem:
        oracle_at(label_studio, token=personal).push(questions(2))
    assert personal not in str(problem.value)


def test_legacy_tokens_that_are_wrong_or_switched_off_are_refused(label_studio, people):
    personal = people.send("POST", "/api/token/", {})["token"]
    with pytest.raises(BadInput, match="refused the legacy token"):
        oracle_at(label_studio, token="f" * 40).push(questions(1))
    people.send("POST", "/api/jwt/settings", {"legacy_api_tokens_enabled": False, "api_tokens_enabled": True})
    try:
        with pytest.raises(BadInput, match="switched legacy tokens off") as problem:
            oracle_at(label_studio).push(questions(1))
        assert LEGACY not in str(problem.value)
    finally:
        client = Client(label_studio.url, Token(value=personal))
        client.post("/api/jwt/settings", {"legacy_api_tokens_enabled": True, "api_tokens_enabled": True})
    assert oracle_at(label_studio).push(questions(1)).new == ("0.0",)


def test_it_keeps_the_contract_of_oracles(label_studio, people):
    truth = {}

    def answer(oracle, some):
        tasks = people.tasks(oracle._projects()[0].id) if some else {}
        for one in some:
            if one.id in tasks and (id(oracle), one.id) not in truth:
                truth[id(oracle), one.id] = people.choose(tasks[one.id], "ill")

    made = []

    def make():
        made.append(oracle_at(label_studio, render=lambda records: [{"text": "some words"} for _ in records]))
        return made[-1]  # kept: an id may come again otherwise

    check_oracle(make, classes=CLASSES, questions=questions(4), answer=answer, rounds=2)
