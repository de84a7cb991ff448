"""Whole campaigns whose people label in a real Label Studio server, by the command line."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from label_studio_people import People
from label_studio_server import LEGACY

from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.errors import ServerUnavailable
from discreet.oracles.label_studio import LabelStudioOracle
from discreet.recipes.label_studio import oracle_of, pull
from discreet.recipes.opening import load
from discreet.storage import open_storage

pytestmark = pytest.mark.integration
FILE = """format = "discreet.campaign/1"
name = "digits"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 300
center = 8.0
scale = 8.0
[task]
kind = "multiclass"
classes = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 20
queries = [8, 8]
batch = 10
epochs = 2
selection_epsilon = "2"
accountant = "rdp"
[scorer]
name = "entropy"
[selector]
name = "threshold-response"
threshold_epsilon = "0.5"
[oracle]
name = "label-studio"
url = "URL"
[model]
name = "linear"
"""
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@pytest.fixture
def place(label_studio, tmp_path, monkeypatch):
    """A campaign on digits, created; nothing is asked yet."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    ids = np.array([f"patient-{number}" for number in range(300)])
    np.savez(tmp_path / "pool.npz", x=x[:300].reshape(-1, 8, 8).astype(np.uint8), id=ids)
    (tmp_path / "truth.json").write_text(json.dumps(dict(zip(ids.tolist(), [WORDS[n] for n in y[:300]], strict=True))))
    (tmp_path / "c.toml").write_text(FILE.replace("URL", label_studio.url))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", LEGACY)
    assert run(["init", "c.toml"]) == 0
    return tmp_path


@pytest.fixture
def people(label_studio):
    return People(label_studio)


def form(capsys, *arguments, code=0):
    capsys.readouterr()
    found = run([*arguments, "--json"])
    printed = capsys.readouterr()
    assert found == code, printed
    return json.loads(printed.out)


def told(capsys, *arguments, code=2):
    capsys.readouterr()
    assert run(list(arguments)) == code
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    assert LEGACY not in printed.err + printed.out
    return printed.err


def records(place):
    """The record behind each question; for a test that must know what people see."""
    with open_storage(f"sqlite:///{place}/digits.db", must_exist=True) as storage:
        return {one.id: one.record for one in storage.load("digits").questions()}


def edit(place, old, new):
    text = (place / "c.toml").read_text()
    assert old in text
    (place / "c.toml").write_text(text.replace(old, new))


def test_three_phases_on_digits_with_a_restart_in_the_middle(label_studio, place, people, capsys):
    truth, given, phases = json.loads((place / "truth.json").read_text()), {}, 0
    ida, _ = people.join("ida")
    while True:
        pushed = form(capsys, "labelstudio", "push", "c.toml")
        if pushed["step"] == "done":
            break
        project, asked = pushed["project"], records(place)
        tasks = people.tasks(project)
        assert all(task["data"]["image"].startswith("data:image/png;base64,") for task in tasks.values())
        fresh = [name for name in asked if asked[name] not in given]
        if phases == 1:  # somebody thinks better of an answer of the phase before: it counts from now on
            given[asked["0.3"]] = "five" if given[asked["0.3"]] != "five" else "six"
            people.change(tasks["0.3"]["annotations"][0]["id"], given[asked["0.3"]])
        assert len(fresh) == pushed["pushed"] > 0
        for number, name in enumerate(fresh):
            if (phases, number) == (1, len(fresh) // 2):  # half of the answers of the second phase are given
                label_studio.stop()
                assert "does not answer" in told(capsys, "labelstudio", "pull", "c.toml")
                label_studio.start()
            said = truth[asked[name]] if number else "nine"  # somebody is wrong now and then
            first = people.choose(tasks[name], "eight" if number == 1 else said, by=ida)
            if number == 1:
                people.change(first, said)
            given[asked[name]] = said
        pulled = form(capsys, "labelstudio", "pull", "c.toml")
        assert (pulled["new"], pulled["open"], pulled["refused"]) == (len(fresh), 0, [])
        assert pulled["corrected"] == (phases == 1)
        again = form(capsys, "labelstudio", "pull", "c.toml")
        assert (again["new"], again["corrected"]) == (0, 0)
        assert form(capsys, "labelstudio", "push", "c.toml")["pushed"] == 0
        assert run(["train", "c.toml"]) == 0
        phases += 1
        if load(CampaignConfig.read(place / "c.toml")).done:
            break
    assert phases == 3
    assert load(CampaignConfig.read(place / "c.toml")).labels() == given
    assert people.count(project) == len(given)
    assert "patient-" not in people.database()  # no id of a record is there
    assert run(["verify", "c.toml"]) == 0


def test_pictures_are_seen_as_they_are(place, people, capsys):
    import base64
    import io

    from PIL import Image

    project = form(capsys, "labelstudio", "push", "c.toml")["project"]
    asked, x = records(place), np.load(place / "pool.npz")
    name, task = next(iter(people.tasks(project).items()))
    picture = Image.open(io.BytesIO(base64.b64decode(task["data"]["image"].split(",")[1])))
    row = x["x"][list(x["id"]).index(asked[name])].astype(float)
    seen = np.asarray(picture)[::30, ::30]
    assert picture.size == (240, 240)
    assert np.abs(seen - (row - row.min()) * 255 / (row.max() - row.min())).max() <= 1


def test_who_can_see_a_question_is_recorded_before_it_is_pushed(place, people, capsys, monkeypatch):
    from discreet.oracles.label_studio import server

    _, name = people.join("ida")
    seen = []

    def importing(self, number, tasks):
        campaign = load(CampaignConfig.read(place / "c.toml"))
        seen.extend({one.question_id for one in campaign.exposures(name)} >= {one for one, _ in tasks} for _ in "x")
        raise KeyboardInterrupt

    monkeypatch.setattr(server.Server, "import_tasks", importing)
    assert run(["labelstudio", "push", "c.toml"]) == 130
    assert seen == [True]
    monkeypatch.undo()
    monkeypatch.chdir(place)
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", LEGACY)
    count = form(capsys, "labelstudio", "push", "c.toml")["pushed"]
    _, late = people.join("bo")
    form(capsys, "labelstudio", "pull", "c.toml")  # somebody who came later is found at the next look
    shown = {(one["kind"], one["audience"]): one["questions"] for one in form(capsys, "exposure", "c.toml")["shown"]}
    assert shown["annotator", name] == shown["annotator", late] == count


def test_nobody_is_shown_more_than_they_may_be(place, people, capsys):
    edit(place, 'name = "label-studio"\n', 'name = "label-studio"\nper_annotator = 5\n')
    assert "per_annotator = 5 is less" in told(capsys, "labelstudio", "push", "c.toml")
    found = form(capsys, "labelstudio", "status", "c.toml")
    assert (found["tasks"], found["open_there"]) == (0, 0)


def test_a_label_outside_the_classes_is_named_and_its_question_stays_open(place, people, capsys):
    project = form(capsys, "labelstudio", "push", "c.toml")["project"]
    tasks = people.tasks(project)
    people.choose(tasks["0.3"], "ninety")
    people.skip(tasks["0.4"])
    found = form(capsys, "labelstudio", "pull", "c.toml", code=1)
    assert (found["refused"], found["new"], found["skips"], found["open"]) == (["0.3"], 1, 1, 19)
    capsys.readouterr()
    assert run(["labelstudio", "pull", "c.toml"]) == 1
    assert "ninety" not in "".join(capsys.readouterr())
    status = form(capsys, "labelstudio", "status", "c.toml")
    assert (status["tasks"], status["open"], status["open_there"], status["refused"]) == (20, 19, 19, ["0.3"])


def test_what_was_read_and_could_not_be_told_is_read_again(place, people, capsys, monkeypatch):
    """In one process, as `sync` is: the server dies between two requests of a pull."""
    project = form(capsys, "labelstudio", "push", "c.toml")["project"]
    people.choose(people.tasks(project)["0.0"], "one")
    config = CampaignConfig.read(place / "c.toml")
    campaign = load(config)
    oracle = oracle_of(config, campaign)
    with monkeypatch.context() as broken:
        broken.setattr(LabelStudioOracle, "shown_to", dying)
        with pytest.raises(ServerUnavailable):
            pull(campaign, oracle)
    assert campaign.store.answers() == []
    assert pull(campaign, oracle).told.new == 1
    assert pull(campaign, oracle).told.repeated == 1


def dying(self, questions):
    raise ServerUnavailable("reaching it", "it does not answer", "Wait")


def test_an_account_that_is_deleted_has_one_voice_still(place, people, capsys):
    tasks = people.tasks(form(capsys, "labelstudio", "push", "c.toml")["project"])
    (ida, _), (bo, _) = people.join("ida"), people.join("bo")
    people.choose(tasks["0.0"], "one", by=ida)
    assert form(capsys, "labelstudio", "pull", "c.toml")["new"] == 1
    people.choose(tasks["0.1"], "two", by=bo)
    for number in (ida, bo):
        people.send("DELETE", f"/api/users/{number}/")
    for new in (1, 0):  # bo's, which was not pulled yet
        assert form(capsys, "labelstudio", "pull", "c.toml")["new"] == new
    answers = load(CampaignConfig.read(place / "c.toml")).store.answers()
    assert [(one.question_id, one.value) for one in answers] == [("0.0", "one"), ("0.1", "two")]


def test_a_withdrawn_record_is_deleted_there_too(place, people, capsys):
    project = form(capsys, "labelstudio", "push", "c.toml")["project"]
    asked = records(place)
    gone = asked["0.7"]
    people.choose(people.tasks(project)["0.7"], "nine")
    form(capsys, "labelstudio", "pull", "c.toml")
    said = form(capsys, "withdraw", "c.toml", gone)
    assert any("discreet labelstudio remove" in line for line in said["elsewhere"])
    assert people.count(project) == 20
    assert form(capsys, "labelstudio", "remove", "c.toml")["removed"] == 1
    assert "0.7" not in people.tasks(project)
    assert form(capsys, "labelstudio", "push", "c.toml")["pushed"] == 0
    assert form(capsys, "labelstudio", "remove", "c.toml", "--all")["removed"] == 19
    assert form(capsys, "labelstudio", "status", "c.toml")["project"] is None


def test_a_server_that_is_down_costs_nothing(label_studio, place, capsys):
    edit(place, label_studio.url, "http://127.0.0.1:9")
    for verb in ("push", "pull", "status", "remove"):
        said = told(capsys, "labelstudio", verb, "c.toml")
        assert "it does not answer" in said
        assert "then the same command goes on" in said
    assert "it does not answer" in told(capsys, "run", "c.toml")
    assert "it does not answer" in told(capsys, "labelstudio", "sync", "c.toml", "--patience", "0")
    assert records(place) == {}  # no query was asked, and nothing charged


def test_tokens_come_from_a_file_that_is_ones_own(place, capsys, monkeypatch):
    monkeypatch.delenv("LABEL_STUDIO_API_KEY")
    assert "there is none" in told(capsys, "labelstudio", "push", "c.toml")
    edit(place, 'name = "label-studio"\n', 'name = "label-studio"\ntoken_file = "token"\n')
    (place / "token").write_text(LEGACY + "\n")
    (place / "token").chmod(0o644)
    assert "others than its owner can read it" in told(capsys, "labelstudio", "push", "c.toml")
    (place / "token").chmod(0o600)
    assert form(capsys, "labelstudio", "push", "c.toml")["pushed"] == 20


def test_run_hands_over_and_goes_on_when_people_have_answered(place, people, capsys):
    first = form(capsys, "run", "c.toml")
    assert (first["phase"], first["waiting"]) == (0, 20)
    project = form(capsys, "labelstudio", "status", "c.toml")["project"]
    for task in people.tasks(project).values():
        people.choose(task, "one")
    second = form(capsys, "run", "c.toml")
    assert second["phase"] == 1
    assert people.count(project) == 20 + second["waiting"]


class Labeller(threading.Thread):
    """Somebody who labels whatever appears, and is not put off when the server is away."""

    def __init__(self, people, place):
        super().__init__(daemon=True)
        self._people, self._place, self.given, self.ending = people, place, {}, False

    def run(self):
        truth = json.loads((self._place / "truth.json").read_text())
        while not self.ending:
            with suppress(Exception):  # the server is away, or there is no task yet
                self._label(truth)
            time.sleep(0.5)

    def _label(self, truth):
        project = max(one["id"] for one in self._people.send("GET", "/api/projects/", page_size=1000)["results"])
        asked = records(self._place)
        for name, task in self._people.tasks(project).items():
            if not task["annotations"] and asked[name] not in self.given:
                self._people.choose(task, truth[asked[name]])
                self.given[asked[name]] = truth[asked[name]]


def test_sync_goes_on_by_itself_through_a_server_that_dies(label_studio, place, people):
    command = [sys.executable, "-m", "discreet", "labelstudio", "sync", "c.toml", "--every", "0.5", "--train"]
    going = subprocess.Popen(
        [*command, "--until-done", "--json"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"LABEL_STUDIO_API_KEY": LEGACY},
    )
    labeller = Labeller(people, place)
    labeller.start()
    try:
        deadline = time.monotonic() + 200
        while len(labeller.given) < 24:  # some of the second phase
            assert time.monotonic() < deadline
            assert going.poll() is None, going.communicate()
            time.sleep(0.2)
        label_studio.stop(kill=True)
        time.sleep(3)
        label_studio.start()
        out, err = going.communicate(timeout=300)
    finally:
        labeller.ending = True
        labeller.join()
        if going.poll() is None:
            going.kill()
            going.communicate()
    assert going.returncode == 0, err
    found = json.loads(out)
    assert (found["step"], found["trained"], found["open"]) == ("done", 3, 0)
    assert found["failed"] > 0  # it was away
    labels, truth = load(CampaignConfig.read(place / "c.toml")).labels(), json.loads((place / "truth.json").read_text())
    assert labels == {one: truth[one] for one in records(place).values()}
