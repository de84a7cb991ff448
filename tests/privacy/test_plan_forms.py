import copy
import json
import random

import pytest

from discreet import plan
from discreet.errors import BadInput, InvalidPlan
from discreet.privacy.plan_forms import plan_from_json, plan_to_json, read_plan, write_plan

BASE = {"epsilon": 8, "delta": "1e-6", "initial": 1000, "queries": [300, 200], "batch": 200, "epochs": 5}
PLANS = {
    "amplified": plan(**BASE, selection_epsilon=2, accountant="rdp"),
    "individual": plan(**BASE, selection_epsilon=2, individual_rates=True, accountant="rdp", threshold_epsilon="0.1"),
    "continual": plan(**BASE, schedule="continual", accountant="rdp", selection="paper", selection_epsilon=1),
    "shards": plan(**BASE, selection="shards", selection_epsilon="0.7", unit="person", accountant="rdp"),
    "certified": plan(**BASE, schedule="naive"),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_a_stored_plan_reads_back_equal(name, suffix, tmp_path):
    path = tmp_path / f"plan{suffix}"
    write_plan(PLANS[name], path)
    assert read_plan(path) == PLANS[name]


def test_the_form_has_what_programs_rely_on():
    form = plan_to_json(PLANS["amplified"])
    assert form["format"] == "discreet.plan/1"
    assert form["simulation"] is False
    assert form["mode"] == "committed"
    assert form["budget"] == {"epsilon": 8, "delta": 1e-06, "unit": "record", "relation": "zero-out"}
    assert [len(phase["rates"]) for phase in form["phases"]] == [1, 2, 3]
    assert {"size", "steps", "noise_multiplier", "rates"} <= set(form["phases"][0])
    assert [path["name"] for path in form["trajectories"]] == ["initial", "phase-1", "phase-2", "never-asked"]
    assert {"forward", "backward", "epsilon_pld", "epsilon_rdp"} <= set(form["trajectories"][0])
    assert form["trajectories"][0]["epsilon_pld"] is None  # by RDP
    labelled = plan_to_json(PLANS["individual"])["phases"][1]["rates"]
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


def test_any_single_edit_of_what_a_plan_does_is_noticed():
    """A plan says many things twice (rates in phases and in trajectories): an edit leaves them at odds."""
    form = plan_to_json(PLANS["amplified"])
    free = {"epsilon_pld", "epsilon_rdp", "schedule", "accountant", "epochs", "batch", "unit", "reads_training_data"}
    free |= {"relation", "name", "epsilon", "delta"}  # facts of their own; a certificate recomputes the claims
    noticed = 0
    for path in leaves(form):
        if path[-1] in free or path[:1] == ("budget",):
            continue
        value = form
        for key in path:
            value = value[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        with pytest.raises(BadInput):
            plan_from_json(changed(form, path, value * 2 + 1 if value else 1))
        noticed += 1
    assert noticed > 40


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
                    read = read_plan(path)
                except BadInput:
                    continue
                assert plan_from_json(json.loads(json.dumps(plan_to_json(read)))) == read


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
