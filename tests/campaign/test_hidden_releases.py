"""Hidden selection and time: public outputs follow the plan, never the work."""

import functools
import json
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest

from discreet.cli.app import run
from discreet.config import read_campaign
from discreet.errors import InvalidConfig, NotNow
from discreet.exports import export_model
from discreet.privacy.certificate import statement
from discreet.privacy.ledger import ledger as ledgers
from discreet.recipes.opening import create, load
from discreet.recipes.verification import ledger_lines, verify_campaign
from discreet.report.page import to_html
from discreet.report.report_data import report_of
from discreet.storage import phases
from discreet.web import owner as owner_pages

pytestmark = pytest.mark.thorough

TOML = """format = "discreet.campaign/1"
name = "visits"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 60
[task]
kind = "multiclass"
classes = ["healthy", "ill"]
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 20
queries = [12]
batch = 10
epochs = 2
selection = "hidden"
accountant = "rdp"
{dates}
[scorer]
name = "entropy"
[selector]
name = "hidden-threshold"
threshold_epsilon = "0.5"
bins = 16
[oracle]
name = "files"
[model]
name = "linear"
[trainer]
engine = "reference"
[simulation]
seed = 3
"""
START = date(2027, 1, 1)
DATES = ("2027-01-11", "2027-01-21")
PLANNED = f"releases = {list(DATES)}"
FAST = {"ask": 0, "answer": 0, "train": 1}
SLOW = {"ask": 2, "answer": 7, "train": 8}
"""Days after the start of a phase on which its work is done; a phase has ten."""
COMMITTED = functools.cache(statement.committed_paths)
"""It takes seconds, and all certificates here are of two plans."""
DAYS = (0, 1, 2, 7, 8, 9, 10, 11, 12, 17, 18, 19, 20, 23)


@pytest.fixture
def clock(monkeypatch):
    """Day 0 is the start; what is stored as a time is that of the day."""
    state = {"day": 0, "micro": 0}

    def now():
        state["micro"] += 1
        start = datetime(START.year, START.month, START.day, 9, tzinfo=UTC)
        return start + timedelta(days=state["day"], microseconds=state["micro"])

    monkeypatch.setattr("discreet.campaign.state.today", lambda: START + timedelta(days=state["day"]))
    monkeypatch.setattr("discreet.recipes.pool_campaigns.today", lambda: START + timedelta(days=state["day"]))
    monkeypatch.setattr(owner_pages, "today", lambda: START + timedelta(days=state["day"]))
    monkeypatch.setattr(phases, "now", now)
    monkeypatch.setattr(ledgers, "_now", lambda: now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    monkeypatch.setattr(statement, "committed_paths", COMMITTED)
    monkeypatch.setattr(ledgers.secrets, "token_hex", lambda n: "0" * 2 * n)
    return state


def campaign_in(place, *, dates=PLANNED, changed=None, text=TOML):
    place.mkdir()
    x = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    if changed is not None:
        x[changed] = 50.0
    np.savez(place / "pool.npz", id=np.array([f"r{number}" for number in range(60)]), x=x)
    file = place / "visits.toml"
    file.write_text(text.format(dates=dates))
    create(read_campaign(file))
    return file


def seen(file, capsys):
    """Everything that is public: bytes by name."""
    found, out = {}, file.parent / "out"
    out.mkdir(exist_ok=True)
    capsys.readouterr()
    for name, arguments in {
        "status": ["status", str(file)],
        "status --json": ["status", str(file), "--json"],
        "certificate": ["ledger", "export", str(file), "--out", str(out / "certificate.json"), "--json"],
        "entries": ["ledger", "export", str(file), "--out", str(out / "entries.csv")],
        "report": ["report", str(file), "--out", str(out / "report.html")],
        "report --json": ["report", str(file), "--json"],
    }.items():
        assert run(arguments) == 0
        found[name] = capsys.readouterr().out
    campaign = load(read_campaign(file))
    found |= {f"file {path.name}": path.read_text() for path in sorted(out.iterdir())}
    found["campaign.certificate()"] = json.dumps(campaign.certificate())
    found["certificate of a page"] = json.dumps(owner_pages.certificate_of(campaign))
    page = report_of(campaign, certificate=owner_pages.certificate_of(campaign))
    found["report of a page"] = to_html(page, links=owner_pages.LINKS)
    return found


def work(file, step):
    campaign = load(read_campaign(file))
    if step == "ask":
        campaign.ask()
    elif step == "answer":
        campaign.tell({one.id: ("healthy", "ill")[int(one.record[1:]) % 2] for one in campaign.ask()})
    else:
        campaign.train()


def by_day(file, speed, clock, capsys):
    """What the public sees on each day, and after each step, of a campaign that is worked at with some speed."""
    found = []
    for day in DAYS:
        clock["day"], polls = day, []
        for step in ("ask", "answer", "train"):
            if day // 10 < 2 and day % 10 == speed[step]:
                work(file, step)
                polls.append(seen(file, capsys))
        polls.append(seen(file, capsys))
        assert all(poll == polls[0] for poll in polls), f"a step shows on day {day}"
        found.append(polls[0])
    return found


def without_counts(name, text):
    """``text`` without what a query released, which one record may change."""
    if name == "report --json":
        form = json.loads(text)
        for phase in form["phases"]:
            if phase["query"]:
                phase["query"] |= {"histogram": None, "threshold": None}
        return form
    return None if "report" in name else text


def test_the_public_sees_nothing_of_the_work_but_planned_releases(tmp_path, clock, capsys):
    quick = by_day(campaign_in(tmp_path / "quick"), FAST, clock, capsys)
    clock.update(day=0, micro=0)
    slow = by_day(campaign_in(tmp_path / "slow"), SLOW, clock, capsys)
    assert quick == slow
    clock.update(day=0, micro=0)
    other = by_day(campaign_in(tmp_path / "other", changed=31), SLOW, clock, capsys)
    before = DAYS.index(20)
    assert other[:before] == quick[:before]
    for mine, theirs in zip(other[before:], quick[before:], strict=True):
        for name, text in mine.items():
            assert without_counts(name, text) == without_counts(name, theirs[name]), name
    released = [json.loads(day["status --json"])["releases"]["released"] for day in quick]
    assert released == [min(day // 10, 2) for day in DAYS]
    assert "phase 0 is released on 2027-01-11" in quick[3]["status"]
    assert all("time is covered" in day["file certificate.json"] for day in quick)
    assert {json.loads(day["file certificate.json"])["issued"] for day in quick} == {START.isoformat(), *DATES}


def test_without_dates_the_public_sees_the_plan_until_the_end(tmp_path, clock, capsys):
    file = campaign_in(tmp_path / "undated", dates="")
    first = seen(file, capsys)
    for step in ("ask", "answer", "train", "ask", "answer"):
        clock["day"] += 1
        work(file, step)
        assert seen(file, capsys) == first, step
    clock["day"] += 1
    work(file, "train")
    last = seen(file, capsys)
    assert json.loads(last["status --json"])["step"] == "done"
    assert "time is not covered" in last["file certificate.json"]
    assert "no release dates were planned" in last["file report.html"]


PRODUCTION = TOML.replace("[simulation]\nseed = 3\n", "")


@pytest.mark.parametrize(("text", "named"), [(TOML, 0), (PRODUCTION, 1)], ids=["simulation", "production"])
def test_ledger_lines_carry_no_time_and_still_verify(tmp_path, clock, text, named):
    file = campaign_in(tmp_path / "lines", text=text)
    for step in ("ask", "answer", "train"):
        work(file, step)
    lines = [json.loads(line) for line in ledger_lines(read_campaign(file))]
    assert len(lines) > 1
    assert [line["at"] for line in lines[1:]] == [""] * len(lines[1:])
    assert sum("released" in line for line in lines) == named
    assert verify_campaign(read_campaign(file)).ok
    owner = report_of(load(read_campaign(file)), "owner")
    assert owner.owned.phases[0].trained_at == "2027-01-01 09:00"
    assert owner.step == "ask"


def test_the_owner_sees_the_live_step(tmp_path, clock):
    file = campaign_in(tmp_path / "owner")
    work(file, "ask")
    campaign = load(read_campaign(file))
    assert (campaign.status("owner").step, campaign.status().step) == ("answer", "planned")


@pytest.mark.parametrize("trained_on", [10, 13])
def test_after_an_overrun_the_certificate_says_that_time_is_not_covered(tmp_path, clock, capsys, trained_on):
    file = campaign_in(tmp_path / "late")
    work(file, "ask")
    work(file, "answer")
    clock["day"] = 9
    assert "time is covered" in seen(file, capsys)["file certificate.json"]
    clock["day"] = 10
    waiting = seen(file, capsys)
    assert "time is not covered" in waiting["file certificate.json"]
    assert "a phase is late" in waiting["status"]
    clock["day"] = trained_on
    for step in ("train", "ask", "answer", "train"):
        work(file, step)
    for day in (trained_on, 20, 300):  # phase 1 is on time, and nothing mends phase 0
        clock["day"] = day
        found = seen(file, capsys)
        assert json.loads(found["file certificate.json"])["not_released"]["time"] == "time is not covered"
        assert json.loads(found["file certificate.json"])["issued"] == START.isoformat()
        assert json.loads(found["status --json"])["releases"]["released"] == (1 if day < 20 else 2)
    assert "a phase was not trained before its planned date" in found["file report.html"]


def test_a_model_leaves_on_its_date(tmp_path, clock):
    file = campaign_in(tmp_path / "export")
    for step in ("ask", "answer", "train"):
        work(file, step)
    campaign = load(read_campaign(file))
    with pytest.raises(NotNow, match="planned release date is 2027-01-11"):
        export_model(campaign, tmp_path / "early", onnx=False)
    clock["day"] = 10
    made = export_model(campaign, tmp_path / "model", onnx=False)
    certificate = json.loads((made.directory / "certificate.json").read_text())
    assert certificate["issued"] == "2027-01-11"
    assert run(["verify", str(made.directory), "--ledger", str(file)]) == 0


def test_a_model_without_dates_is_exported_with_its_entries(tmp_path, clock):
    file = campaign_in(tmp_path / "export", dates="")
    for step in ("ask", "answer", "train", "ask"):
        work(file, step)
    made = export_model(load(read_campaign(file)), tmp_path / "model", onnx=False)
    certificate = json.loads((made.directory / "certificate.json").read_text())
    phases = [json.loads(line)["phase"] for line in ledger_lines(read_campaign(file))[1:]]
    assert certificate["ledger"]["entries"] == phases.index(1)
    assert certificate["not_released"]["time"] == "time is not covered"


@pytest.mark.parametrize(
    ("dates", "says"),
    [
        ("releases = ['2027-01-11']", "1 dates for 2 phases"),
        ("releases = ['2027-01-11', '2027-01-11']", "not later than the one before"),
        ("releases = ['2027-01-11', '2027-02-30']", "not a day of the calendar"),
        ("releases = ['2027-01-01', '2027-01-11']", "not in the future"),
    ],
)
def test_dates_that_no_campaign_can_keep_are_refused(tmp_path, clock, dates, says):
    with pytest.raises(InvalidConfig, match=says):
        campaign_in(tmp_path / "refused", dates=dates)


def test_dates_may_be_written_as_toml_dates(tmp_path, clock):
    file = campaign_in(tmp_path / "toml", dates="releases = [2027-01-11, 2027-01-21]")
    assert load(read_campaign(file)).releases().dates == tuple(map(date.fromisoformat, DATES))
