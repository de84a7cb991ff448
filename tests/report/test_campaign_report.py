"""A report as each audience gets it, and the log of the campaign it is about.

One campaign is played once. Whatever the world must not depend on is changed in copies of it. Certificates are priced
by RDP alone here, which is quick; `tests/integration/test_report_certificate.py` has real ones.
"""

import json
import shutil
import sqlite3
from contextlib import contextmanager
from pathlib import Path

import pytest
from report_parts import ASKED, CLASSES, SIZE, answer, names, play, rows, write

from discreet.cli import campaign_files
from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.errors import BadInput
from discreet.privacy.trajectories import Trajectory
from discreet.recipes.opening import load
from discreet.report.page import to_html
from discreet.report.report_data import report_of

pytestmark = pytest.mark.thorough

SKIPPED = (3, 8, 13)
LOG = "what-happened.jsonl"
FULL = Path("/dev/full")
WORLD = {
    "format simulation audience private name phase step about classes budget paths labels_planned phases assumptions "
    "certificate"
}
PHASE = "phase state labels_planned labelled_planned steps batch noise_multipliers sampling_rates query evaluation"
FIELDS = {
    "begun": {"verb", "version"},
    "opened": {"campaign", "simulation", "phase", "phases", "step"},
    "progress": {"what", "percent"},
    "asked": {"phase", "labels_planned"},
    "training": {"phase"},
    "trained": {"phase", "model"},
    "ended": {"code"},
    "failed": {"code", "error"},
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(Trajectory, "pld", lambda path, delta, _interval: path.rdp(delta))


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    place = tmp_path_factory.mktemp("played")
    play(place, "--log-json", str(place / LOG), skip=SKIPPED)
    return place


@pytest.fixture
def here(played, tmp_path, monkeypatch):
    shutil.copytree(played, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def reported(place, audience="public", **options):
    return report_of(load(CampaignConfig.read(place / "visits.toml")), audience, **options)


def change(place, *statements):
    with sqlite3.connect(place / "visits.db") as database:
        for statement in statements:
            assert database.execute(statement).rowcount > 0
    database.close()


def both(report):
    return to_html(report), json.dumps(report.to_json())


# -- the world


def test_the_world_sees_the_same_whatever_the_owner_has(here):
    """Other records, answers, sides, times, and fewer questions: not a byte differs. The draws are those recorded."""
    before = both(reported(here))
    x = rows()
    asked = {question.record for question in load(CampaignConfig.read(here / "visits.toml")).store.questions()}
    never = next(number for number, name in enumerate(names()) if name not in asked)
    x[never] = 0.0
    write(here, x=x)
    assert both(reported(here)) == before
    write(here, x=rows(seed=5))
    change(
        here,
        "DELETE FROM answers WHERE question LIKE '0.1%'",
        "UPDATE answers SET value = '\"ill\"', annotator = 'someone else'",
        "UPDATE questions SET above = NOT above WHERE above IS NOT NULL",
        "DELETE FROM questions WHERE id LIKE '1._'",
        "UPDATE transitions SET at = '2001-02-03T04:05:06.000000+00:00'",
    )
    assert both(reported(here)) == before
    assert both(reported(here, "owner")) != before


def test_the_worlds_report_holds_nothing_of_a_record(here):
    for text in both(reported(here)):
        assert not [name for name in names() if name in text]
        assert "patient" not in text
        assert "ida-lovelace" not in text
        assert not [value for value in rows().ravel().tolist() if f"{value:.4f}" in text]
        assert "pool.npz" not in text


def test_the_worlds_report_has_declared_keys_only(here):
    form = reported(here).to_json()
    assert " ".join(form) in WORLD
    assert {" ".join(phase) for phase in form["phases"]} == {PHASE}
    query = form["phases"][1]["query"]
    assert set(query) == {"mechanism", "private", "threshold", "histogram", "chosen", "note"}
    assert set(query["histogram"]) == {"range", "counts", "epsilon", "every"}
    assert (form["audience"], form["simulation"], form["labels_planned"]) == ("public", False, 32)


def test_histograms_of_the_world_are_those_that_were_paid_for(here):
    report = reported(here)
    kept = [
        one.facts
        for one in load(CampaignConfig.read(here / "visits.toml")).store.transitions()
        if "histogram" in one.facts
    ]
    shown = report.phases[1].query.histogram
    assert [one["histogram"] for one in kept] == [shown.to_json()]
    assert len(shown.counts) == 16
    exact = reported(here, "owner", scores=True).owned.scores[0].counts
    assert sum(exact) == SIZE - 20  # all who were not asked before
    assert tuple(exact) != shown.counts
    assert report.phases[0].query.histogram is None


def test_meters_stay_within_what_is_committed(here):
    paths = {path.name: path for path in reported(here).paths}
    assert list(paths) == ["initial", "phase-1", "never-asked"]
    for path in paths.values():
        assert 0 < path.spent <= path.committed <= path.limit == 8
        assert path.spent + path.remaining == path.limit
    assert paths["phase-1"].spent < paths["initial"].spent  # it is asked, and not trained yet
    assert paths["never-asked"].spent == paths["never-asked"].committed


# -- the owner


def test_the_owner_sees_what_became_of_the_questions(here):
    asked = answer(here, "q1.csv")  # as many as fell by chance, and not told yet
    owned = reported(here, "owner").owned
    first, second = owned.phases
    assert (first.asked, first.labelled, first.skipped, first.open) == (20, 17, 3, 0)
    assert 0 < asked <= ASKED
    assert (second.asked, second.open) == (asked, asked)
    assert first.trained_at is not None
    assert second.trained_at is None
    assert sum(owned.classes.values()) == 17
    assert owned.annotators == {"ida-lovelace": 20}
    assert "ida-lovelace" in to_html(reported(here, "owner"))


def test_withdrawn_questions_are_not_skipped_ones(here):
    record = next(iter(load(CampaignConfig.read(here / "visits.toml")).labels()))
    assert run(["withdraw", str(here / "visits.toml"), record]) == 0
    first = reported(here, "owner").owned.phases[0]
    assert (first.asked, first.labelled, first.skipped, first.withdrawn, first.open) == (20, 16, 3, 1, 0)


def test_exact_scores_are_for_an_owner_who_asks(here):
    assert reported(here, "owner").owned.scores == ()
    with pytest.raises(BadInput, match="they are the owner's"):
        reported(here, scores=True)
    with pytest.raises(BadInput, match="no such audience"):
        reported(here, "press")


# -- the verb


def said(capsys, *arguments, code=0):
    capsys.readouterr()
    assert run(list(arguments)) == code, capsys.readouterr()
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return printed


def test_the_verb_writes_a_page_and_prints_one_object(here, capsys):
    said(capsys, "report", "visits.toml")
    assert (here / "report.html").read_text() == to_html(reported(here))
    said(capsys, "report", "visits.toml", "--audience", "owner", "--out", "mine.html")
    assert (here / "mine.html").stat().st_mode & 0o077 == 0
    (here / "report.html").unlink()
    form = json.loads(said(capsys, "report", "visits.toml", "--json").out)
    assert form == reported(here).to_json()
    assert not (here / "report.html").exists()
    said(capsys, "report", "visits.toml", "--out", "mine.html")  # an older report is replaced
    assert "for the public" in (here / "mine.html").read_text()


def test_nonsense_is_one_line(here, capsys):
    (here / "other.html").write_text("<p>mine</p>")
    (here / "old.json").write_text("{}")
    for wrong in (
        ["--out", "visits.toml"],
        ["--out", "other.html"],
        ["--out", "nowhere/report.html"],
        ["--audience", "press"],
        ["--scores"],
        ["--certificate", "none.json"],
        ["--certificate", "old.json"],
    ):
        printed = said(capsys, "report", "visits.toml", *wrong, code=2)
        assert printed.err.count("\n") == 1
        assert not printed.out
    assert (here / "other.html").read_text() == "<p>mine</p>"
    assert not (here / "report.html").exists()


# -- the log


def lines_in(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def told(lines):
    """Without what time and chance decide."""
    return [{name: value for name, value in one.items() if name not in ("time", "model")} for one in lines]


def test_a_log_has_declared_fields_and_nothing_of_a_record(played):
    lines = lines_in(played / LOG)
    assert {one["event"] for one in lines} == set(FIELDS) - {"failed"}
    for one in lines:
        assert one["format"] == "discreet.log/1"
        assert set(one) == {"format", "time", "level", "event"} | FIELDS[one["event"]]
    text = (played / LOG).read_text()
    assert not [word for word in (*names(), *CLASSES, "patient", "ida-lovelace", "pool.npz") if word in text]
    assert [one["labels_planned"] for one in lines if one["event"] == "asked"] == [20, 12]
    assert (played / LOG).stat().st_mode & 0o077 == 0


@pytest.mark.thorough  # plays the campaign a second time
def test_the_lines_do_not_depend_on_answers_or_on_who_was_asked(played, tmp_path):
    play(tmp_path, "--log-json", str(tmp_path / LOG), skip=range(11))
    assert told(lines_in(tmp_path / LOG)) == told(lines_in(played / LOG))


def test_refusals_and_interrupts_are_logged_by_their_type(here, capsys, monkeypatch):
    said(capsys, "train", "visits.toml", "--log-json", "log", code=2)
    assert lines_in(here / "log")[-1]["error"] == "NotNow"

    @contextmanager
    def impatient():
        def watch(what, done, of):
            raise KeyboardInterrupt

        yield watch

    monkeypatch.setattr(campaign_files, "watching", impatient)
    said(capsys, "train", "visits.toml", "--partial", "--log-json", "log", code=130)
    last = lines_in(here / "log")[-1]
    assert (last["event"], last["level"], last["code"], last["error"]) == ("failed", "error", 130, "Interrupted")
    assert sum(one["event"] == "begun" for one in lines_in(here / "log")) == 2  # appended


def test_a_log_on_standard_error_leaves_standard_output_alone(here, capsys):
    printed = said(capsys, "ask", "visits.toml", "--json", "--log-json", "-")
    assert json.loads(printed.out)["format"] == "discreet.questions/1"
    assert [json.loads(line)["event"] for line in printed.err.splitlines()] == ["begun", "opened", "ended"]


def test_a_log_that_cannot_be_kept_is_refused_before_anything_is_done(here, capsys):
    before = (here / "visits.toml").read_bytes()
    for wrong in ("visits.toml", "visits.db", "nowhere/log", "."):
        assert "a log in" in said(capsys, "ask", "visits.toml", "--log-json", wrong, code=2).err
    assert (here / "visits.toml").read_bytes() == before


@pytest.mark.thorough
@pytest.mark.skipif(not FULL.exists(), reason="no such device here")
def test_a_full_disk_ends_the_log_and_not_the_work(here, capsys):
    printed = said(capsys, "train", "visits.toml", "--partial", "--log-json", str(FULL))
    assert "phase 1 is trained" in printed.out
    assert printed.err.count("cannot be written any more") == 1
    assert all(phase.state == "trained" for phase in reported(here).phases)
