"""A crowd campaign from a log to a classifier: what strangers see passed the gate, and everything else is refused."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import crowd_parts
import pytest
from crowd_parts import COMMON, RARE, make, rows_of, toml

from discreet.campaign.loop import run
from discreet.campaign.state import ledger_of
from discreet.cli.app import run as command
from discreet.cli.campaign_files import oracle_of
from discreet.config import CampaignConfig, CrowdConfig, read_campaign
from discreet.errors import InvalidConfig, InvalidStore, NotNow
from discreet.gates.values import Normaliser
from discreet.privacy.events import ReleaseGate
from discreet.recipes import crowd, opening
from discreet.recipes.crowd_release import released_texts
from discreet.recipes.verification import verify_campaign
from discreet.records import Answer
from discreet.trainers import text_classifier

pytestmark = pytest.mark.thorough

SIMULATED = {"name": "'simulated'", "path": "'truth.csv'"}


def finished(file):
    config = read_campaign(file)
    campaign = opening.create(config)
    run(campaign, oracle_of(config, campaign))
    return campaign


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    return finished(make(tmp_path_factory.mktemp("ended")))


def test_what_is_released_is_what_many_people_asked(ended):
    texts = released_texts(ended.store)
    assert set(texts) == {Normaliser().one(text) for text in COMMON[:60]}
    assert not set(texts) & set(RARE)
    assert ended.pool.ids == [f"text-{place + 1}" for place in range(60)]


def test_it_learns_from_the_crowd(ended):
    measured = [one.facts["evaluation"]["accuracy"] for one in ended.store.transitions() if one.kind == "trained"]
    assert ended.done
    assert len(measured) == 3
    assert measured[-1] > measured[0] + 0.1
    assert ended.predict(["please dim the lamp"]) == ["light"]


def test_the_claim_is_that_of_the_gate_and_nothing_else_is_charged(ended):
    with ledger_of(ended.store) as ledger:
        (entry,) = (one for one in ledger.entries if one.charges)
        assert [charge.event for charge in entry.charges] == [ReleaseGate(k=10, beta=0.5)]
    certificate = ended.certificate()
    assert (certificate["mode"], certificate["claim"]["epsilon"] <= 1) == ("committed", True)
    assert verify_campaign(ended.recipe.config).ok


def test_three_people_answer_each_text_and_every_look_is_recorded(ended):
    seen = ended.exposures()
    assert len(seen) == 3 * 24
    assert {(one.question_id, one.audience) for one in seen} == {
        (one.question_id, one.annotator) for one in ended.store.answers()
    }
    assert {one.record for one in seen} <= set(ended.pool.ids)


def test_a_verb_at_a_time_by_other_processes_ends_alike(tmp_path, ended):
    file = make(tmp_path)
    for _ in range(20):
        config = read_campaign(file)
        campaign = opening.create(config)
        oracle = oracle_of(config, campaign)
        if campaign.done:
            break
        questions = campaign.due()
        if questions:
            oracle.ask(questions)
            campaign.tell(list(oracle.collect()))
        elif campaign.state.step != "ask":
            campaign.train()
    assert campaign.done
    assert [one.sha256 for one in campaign.store.files() if one.kind == "model"] == [
        one.sha256 for one in ended.store.files() if one.kind == "model"
    ]


# -- refused before anything is charged


@pytest.mark.parametrize(
    ("change", "said", "line"),
    [
        ({"gold": {"public": "false"}}, "private labels", "public"),
        ({"gate": {"k": 1}}, "not a whole number from 2", "k ="),
        ({"gate": {"beta": 1.0}}, "not a number between", "beta"),
        ({"task": {"kind": "'multilabel'"}}, "one label a text", "kind = 'multilabel'"),
        ({"budget": {"unit": "'record'"}}, "a person column is named", "unit"),
        ({"budget": {"delta": "'0'"}}, "no guarantee at delta 0", "delta"),
        ({"scorer": {"draws": 5}}, "reads one prediction", "draws"),
        ({"oracle": SIMULATED | {"accuracy": "[0.65, 0.01]", "label_noise": 0.1}}, "both say", "accuracy"),
        ({"oracle": SIMULATED | {"per_annotator": 5}}, "does not ask people by name", "per_annotator"),
        ({"plan": {"initial": 100}}, "no such key", "initial"),
        ({"pool": {"path": "'x'"}}, "no such table", "[pool]"),
    ],
)
def test_mistakes_are_told_at_their_lines(tmp_path, change, said, line):
    text = toml(**change)
    with pytest.raises(InvalidConfig, match=said.replace("[", r"\[")) as caught:
        CrowdConfig.from_text(text, directory=tmp_path)
    assert line in text.splitlines()[caught.value.line - 1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"budget": {"epsilon": "'0.1'", "delta": "'1e-9'"}}, "One of these alone would do: beta = "),
        ({"gold": {"path": "'none.csv'"}}, "no such file"),
        ({"log": {"text": "'nothing'"}}, "column nothing"),
        ({"log": {"path": "'none.parquet'"}}, "none.parquet"),
        ({"evaluation": {"path": "'gold.csv'"}}, "gold ones, too"),
        ({"task": {"classes": "['warm', 'light']"}}, "label outside the classes"),
    ],
)
def test_what_cannot_be_is_refused_and_no_store_is_left(tmp_path, change, said):
    file = make(tmp_path, **change)
    with pytest.raises(InvalidConfig, match=said):
        opening.create(read_campaign(file))
    assert "home" not in opening.open_storage(read_campaign(file).storage_url()).campaigns()


def test_verbs_of_private_pools_say_so(tmp_path):
    file = make(tmp_path)
    with pytest.raises(InvalidConfig, match="private-pool") as caught:
        CampaignConfig.read(file)
    assert "crowd" in file.read_text().splitlines()[caught.value.line - 1]
    campaign = opening.create(read_campaign(file))
    assert campaign.ask() == []
    campaign.train()
    with pytest.raises(NotNow, match="paid at the gate"):
        campaign.replan(because="outside", queries=(4,))
    with pytest.raises(NotNow, match="cannot be taken back"):
        campaign.withdraw(["text-1"])


def test_a_gate_that_releases_nothing_says_so(tmp_path):
    file = make(tmp_path, rows=[(f"p{number}", text) for number, text in enumerate(RARE)])
    for _ in range(2):
        with pytest.raises(NotNow, match="released nothing"):
            opening.create(read_campaign(file))
    assert verify_campaign(read_campaign(file)).ok


def test_another_gate_later_is_refused(tmp_path):
    file = make(tmp_path)
    opening.create(read_campaign(file))
    file.write_text(file.read_text().replace("k = 10", "k = 12"))
    with pytest.raises(InvalidConfig, match="created with something else"):
        opening.load(read_campaign(file))


# -- attacks


def read_texts(monkeypatch):
    """Every text that a model is trained on or asked about."""
    seen, before = set(), text_classifier.features_of

    def watching(texts, settings):
        seen.update(texts)
        return before(texts, settings)

    monkeypatch.setattr(text_classifier, "features_of", watching)
    return seen


def allowed(file):
    with (file.parent / "gold.csv").open() as gold, (file.parent / "held-out.csv").open() as held_out:
        return {Normaliser().one(row["text"]) for part in (gold, held_out) for row in csv.DictReader(part)}


def test_models_read_released_and_public_texts_alone(tmp_path, monkeypatch):
    seen, file = read_texts(monkeypatch), make(tmp_path)
    campaign = finished(file)
    assert seen
    assert seen <= set(released_texts(campaign.store)) | allowed(file)


def test_a_ranking_that_looks_at_the_log_would_be_caught(tmp_path, monkeypatch):
    seen, file = read_texts(monkeypatch), make(tmp_path)
    scores = crowd.Crowd._scores

    def peeking(self, desk, names):
        desk.model.predict_proba(RARE[:3])
        return scores(self, desk, names)

    monkeypatch.setattr(crowd.Crowd, "_scores", peeking)
    campaign = finished(file)
    assert not seen <= set(released_texts(campaign.store)) | allowed(file)


def story(file):
    """Everything that leaves a campaign: what was released, asked, charged and learnt."""
    campaign = finished(file)
    store = campaign.store
    texts = dict(zip(campaign.pool.ids, released_texts(store), strict=True))
    with ledger_of(store) as ledger:
        charged = [entry.public for entry in ledger.entries]
    asked = [(one.phase, one.place, texts[one.record]) for one in store.questions()]
    models = [one.sha256 for one in store.files() if one.kind == "model"]
    return {"released": set(texts.values()), "charged": charged, "asked": asked, "models": models}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return story(make(tmp_path_factory.mktemp("told")))


@pytest.mark.parametrize(
    "person", [0, 700, len(rows_of()) - 1], ids=["of a common text", "of another", "of a rare one"]
)
def test_without_one_person_only_their_text_may_differ(tmp_path, told, person):
    """The same coins on a neighbour: other people's coins do not move, and what follows reads the release alone."""
    rows = rows_of()
    mine = Normaliser().one(rows[person][1])
    neighbour = story(make(tmp_path, rows=rows[:person] + rows[person + 1 :]))
    assert neighbour["released"] ^ told["released"] <= {mine}
    assert neighbour["charged"] == told["charged"]
    if neighbour["released"] == told["released"]:
        assert neighbour == told


def test_a_text_that_hangs_on_one_person_does_differ(tmp_path):
    """The attack has power: with a gate that almost always tosses heads, the tenth person decides."""
    rows = [(f"p{number}", COMMON[0]) for number in range(10)] + [(f"q{number}", COMMON[1]) for number in range(90)]
    sure = {"gate": {"k": 10, "beta": 0.999999}, "budget": {"epsilon": "'1'", "delta": "'0.9999999'"}}
    found = []
    for name, mine in (("whole", rows), ("without", rows[1:])):
        (tmp_path / name).mkdir()
        campaign = opening.create(read_campaign(make(tmp_path / name, rows=mine, **sure)))
        found.append(set(released_texts(campaign.store)))
    assert found[0] ^ found[1] == {COMMON[0]}


def test_a_person_with_many_rows_is_one_person(tmp_path):
    rows = [("loud", RARE[0])] * 500 + rows_of()
    campaign = opening.create(read_campaign(make(tmp_path, rows=rows)))
    assert RARE[0] not in released_texts(campaign.store)


def test_a_released_file_that_was_edited_is_noticed(tmp_path):
    file = make(tmp_path)
    campaign = opening.create(read_campaign(file))
    place = campaign.store.file("released", 0)
    texts = json.loads(place.read_bytes())
    place.chmod(0o600)
    place.write_text(json.dumps([*texts[:-1], RARE[0]]))
    assert not verify_campaign(read_campaign(file)).ok
    with pytest.raises(InvalidStore):
        opening.load(read_campaign(file))


# -- labels


def test_dawid_skene_trusts_people_who_agree_with_the_truth(tmp_path):
    config = replace(read_campaign(make(tmp_path)))
    recipe = crowd.Crowd(config=config)
    from discreet.noise import SecretKey
    from discreet.records import Question

    questions = [Question(id=f"q{n}", record=f"r{n}", phase=1, place=n) for n in range(40)]
    truth = {one.id: ("heat", "light")[one.place % 2] for one in questions}
    answers = []
    for one in questions:
        answers += [Answer(question_id=one.id, value=truth[one.id], annotator=who) for who in ("ada", "bo")]
        answers.append(Answer(question_id=one.id, value="heat", annotator="lazy"))
    answers[0] = Answer(question_id="q0", value=None, annotator="ada")
    labels = recipe.labels(questions, answers, key=SecretKey(bytes(32)))
    assert labels.values == {one.record: truth[one.id] for one in questions}
    assert all(0 <= part <= 1 for part in labels.trust.values())
    assert labels.trust["r1"] < labels.trust["r2"], "two against one, and all three"
    assert recipe.labels(questions, [], key=SecretKey(bytes(32))).values == {}


# -- the command line


def test_verbs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(Path(crowd_parts.__file__).parent)
    make(tmp_path, simulation=False, oracle={"name": "'files'", "per_question": 2, "per_annotator": 8})

    def say(*words):
        capsys.readouterr()
        code = command([*words, "--json"])
        return code, json.loads(capsys.readouterr().out)

    assert say("init", "home.toml")[1]["released"] == {"values": 60, "k": 10, "beta": 0.5, "persons": True}
    assert say("ask", "home.toml")[1]["questions"] == []
    assert say("train", "home.toml")[0] == 0
    first = say("ask", "home.toml", "--annotator", "ada", "--n", "5")[1]["questions"]
    again = say("ask", "home.toml", "--annotator", "ada", "--n", "5")[1]["questions"]
    other = say("ask", "home.toml", "--annotator", "bo")[1]["questions"]
    assert first == again
    assert len(other) == 8, "no more than per_annotator"
    assert {"id", "record", "phase", "place", "text"} == set(other[0])
    assert not {"label", "answers"} & set(other[0]), "blind"
    answers = tmp_path / "bo.csv"
    with answers.open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ["question_id", "label", "annotator"],
                *([one["id"], crowd_parts.label(one["text"]), "bo"] for one in other),
            ]
        )
    assert say("tell", "home.toml", "bo.csv")[1]["new"] == 8
    assert say("ask", "home.toml", "--annotator", "cy", "--n", "3")[1]["questions"]
    seen = say("exposure", "home.toml", "--out", "seen.csv")[1]
    assert {(one["audience"], one["questions"]) for one in seen["shown"]} == {("ada", 5), ("bo", 8), ("cy", 3)}
    with (tmp_path / "seen.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    assert {row["kind"] for row in rows} == {"annotator"}
    assert command(["exposure", "home.toml", "--out", "seen.csv"]) == 2, "not over another file"
    assert command(["ask", "home.toml", "--annotator", "bo"]) == 2, "bo was shown all that is allowed"
    assert say("exposure", "home.toml", "--annotator", "cy")[1]["exposures"][0]["record"].startswith("text-")
    assert say("run", "home.toml")[1]["waiting"] == 12
    assert say("exposure", "home.toml")[1]["shown"][-1]["audience"] == "questions-0001.csv"
    with (tmp_path / "home.questions" / "questions-0001.csv").open() as file:
        assert all(row["text"] for row in csv.DictReader(file))
    assert say("status", "home.toml", "--audience", "owner")[1]["log"]["rows"] == len(rows_of())
    assert "log" not in say("status", "home.toml")[1]
    assert say("verify", "home.toml")[1]["ok"]
    assert command(["report", "home.toml", "--out", "report.html"]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "60 texts, charged once" in page
    assert not any(text in page for text in (*COMMON[:60], *RARE))


def test_an_export_stands_by_itself(ended, tmp_path, capsys):
    from discreet.exports import export_model, load_model

    made = export_model(ended, tmp_path / "model")
    assert set(made.files) == {"classifier.npz", "certificate.json", "README.md", "model.json"}
    model = load_model(tmp_path / "model")
    assert model.predict(["Dim  the LAMP", COMMON[0]]) == ended.predict(["dim the lamp", COMMON[0]])
    assert command(["verify", str(tmp_path / "model")]) == 0
    data, out = tmp_path / "data.csv", tmp_path / "out.csv"
    data.write_text("id,query\na,dim the lamp\nb,clean my oven\n")
    assert command(["predict", str(tmp_path / "model"), str(data), "--out", str(out), "--id", "id"]) == 0
    assert out.read_text().splitlines()[1].startswith("a,light")
    page = (tmp_path / "model" / "README.md").read_text()
    assert "strangers" in page
    assert not any(text in page for text in COMMON)
    (tmp_path / "model" / "classifier.npz").write_bytes(b"another")
    assert command(["verify", str(tmp_path / "model")]) == 1
