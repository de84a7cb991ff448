import copy
import json
import random

import pytest

from discreet import plan
from discreet.errors import BadInput, InvalidPlan
from discreet.privacy.plan_files import plan_from_json, read_plan, write_plan

BASE = {"epsilon": 8, "delta": "1e-6", "initial": 1000, "queries": [300, 200], "batch": 200, "epochs": 5}
PLANS = {
    "amplified": plan(**BASE, selection_epsilon=2, accountant="rdp"),
    "individual": plan(**BASE, selection_epsilon=2, individual_rates=True, accountant="rdp", threshold_epsilon="0.1"),
    "continual": plan(**BASE, schedule="continual", accountant="rdp", selection="paper", selection_epsilon=1),
    "shards": plan(**BASE, selection="shards", selection_epsilon="0.7", unit="person", accountant="rdp"),
    "hidden": plan(**BASE, selection="hidden", threshold_epsilon="0.1", accountant="rdp"),
    "certified": plan(**BASE, schedule="naive"),
    "scout": plan(**BASE | {"batch": 1400}, schedule="scout", accountant="rdp"),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_a_stored_plan_reads_back_equal(name, suffix, tmp_path):
    path = tmp_path / f"plan{suffix}"
    write_plan(PLANS[name], path)
    assert read_plan(path) == PLANS[name]


def test_the_form_has_what_programs_rely_on():
    form = PLANS["amplified"].to_json()
    assert form["format"] == "discreet.plan/1"
    assert form["simulation"] is False
    assert form["mode"] == "committed"
    assert form["budget"] == {"epsilon": 8, "delta": 1e-06, "unit": "record", "relation": "zero-out"}
    assert [len(phase["rates"]) for phase in form["phases"]] == [1, 2, 3]
    assert {"size", "steps", "noise_multiplier", "rates"} <= set(form["phases"][0])
    assert [path["name"] for path in form["trajectories"]] == ["initial", "phase-1", "phase-2", "never-asked"]
    assert {"forward", "backward", "epsilon_pld", "epsilon_rdp"} <= set(form["trajectories"][0])
    assert form["trajectories"][0]["epsilon_pld"] is None  # by RDP
    labelled = PLANS["individual"].to_json()["phases"][1]["rates"]
    assert [(r["cohort"], r["part"]) for r in labelled] == [("initial", "all"), ("phase-1", "high"), ("phase-1", "low")]


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path


def changed(form, path, value):
    form = copy.deepcopy(form)
    spot = form
    for key in path[:-1]:
        spot = spot[key]
    spot[path[-1]] = value
    return form


@pytest.mark.parametrize("name", ["amplified", "individual", "certified", "scout"])
def test_any_single_edit_of_a_number_is_noticed(name):
    """A plan says most things twice, and its claims are computed anew: an edit leaves something at odds."""
    form = PLANS[name].to_json()
    own = {("batch",), ("epochs",)}  # facts of their own, no promise rests on them
    noticed = 0
    for path in leaves(form):
        value = form
        for key in path:
            value = value[key]
        if path in own or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        for other in (value * 0.9 if isinstance(value, float) else value - 1, value * 2 + 1):
            if other == value or (path == ("budget", "epsilon") and other > value):
                continue  # no edit, or a larger budget than was spent is true
            with pytest.raises(BadInput):
                plan_from_json(changed(form, path, other))
            noticed += 1
    assert noticed > 60


@pytest.mark.parametrize("name", ["amplified", "certified", "scout"])
@pytest.mark.parametrize("batch", [0, 1, 10**30])
def test_a_batch_that_a_phase_does_not_have_is_refused(name, batch):
    form = copy.deepcopy(PLANS[name].to_json())
    form["phases"][-1]["batch"] = batch
    with pytest.raises(InvalidPlan, match="batch"):
        plan_from_json(form)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("budget", "relation"), "replace-one"),
        (("accountant",), "pld"),
        (("accountant",), "rdp"),
        (("mode",), "adaptive"),
        (("simulation",), True),
        (("trajectories", 0, "epsilon_rdp"), "abc"),
        (("trajectories", 0, "epsilon_rdp"), None),
        (("trajectories", 0, "epsilon_pld"), 1.0),
        (("selection", "queries"), 1000),
        (("selection", "kind"), "shards"),
        (("cohorts", 1, "name"), "phase-9"),
    ],
)
def test_other_promises_are_refused(path, value):
    name = "certified" if value == "rdp" else "amplified"
    with pytest.raises(BadInput):
        plan_from_json(changed(PLANS[name].to_json(), path, value))


def test_a_changed_pld_claim_is_noticed_only_when_certified():
    form = changed(PLANS["certified"].to_json(), ("trajectories", 0, "epsilon_pld"), 2.0)
    assert plan_from_json(form, certify=False).trajectories[0].epsilon_pld == 2.0
    with pytest.raises(InvalidPlan):
        plan_from_json(form)


def test_what_the_command_prints_reads_back():
    form = PLANS["amplified"].to_json() | {"warnings": ["delta ..."]}
    assert plan_from_json(form) == PLANS["amplified"]


def test_a_failed_write_keeps_the_older_plan(tmp_path, monkeypatch):
    path = tmp_path / "plan.json"
    write_plan(PLANS["amplified"], path)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="space"):
        write_plan(PLANS["shards"], path)
    monkeypatch.undo()
    assert read_plan(path) == PLANS["amplified"]
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def test_damaged_files_are_refused_without_a_traceback(tmp_path):
    """Bytes changed, cut and doubled at random: an error of ours, or a plan that is consistent."""
    rng = random.Random(5)
    for name, made in PLANS.items():
        for suffix in (".json", ".toml"):
            path = tmp_path / f"{name}{suffix}"
            write_plan(made, path)
            text = path.read_bytes()
            for _ in range(60):
                damaged = bytearray(text)
                for _ in range(rng.randint(1, 3)):
                    spot = rng.randrange(len(damaged))
                    match rng.randrange(3):
                        case 0:
                            damaged[spot] = rng.randrange(256)
                        case 1:
                            del damaged[spot : spot + rng.randint(1, 50)]
                        case _:
                            damaged[spot:spot] = damaged[spot : spot + rng.randint(1, 50)]
                path.write_bytes(bytes(damaged))
                try:
                    read = read_plan(path, certify=name != "certified")
                except BadInput:
                    continue
                assert plan_from_json(json.loads(json.dumps(read.to_json())), certify=False) == read


@pytest.mark.parametrize("data", [None, [], {}, {"format": "discreet.plan/2"}, {"format": "discreet.plan/1"}])
def test_what_is_not_a_plan_is_refused(data):
    with pytest.raises(InvalidPlan):
        plan_from_json(data)


def test_unreadable_files(tmp_path):
    with pytest.raises(InvalidPlan):
        read_plan(tmp_path / "nowhere.json")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(InvalidPlan):
        read_plan(tmp_path / "x.json")
    with pytest.raises(BadInput, match=".json"):
        write_plan(PLANS["amplified"], tmp_path / "x.yaml")
