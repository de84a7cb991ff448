"""Private quantiles in campaigns: what they find, what every path pays, and what happens when a process dies."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from small_campaigns import finish

from discreet.api import create_campaign, load_campaign
from discreet.campaign.state import released_features, released_quantiles
from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.errors import InvalidConfig, InvalidStore, PoolChanged
from discreet.exports import export_model, load_model
from discreet.noise import discrete_laplace
from discreet.pools import Schema, open_frame
from discreet.privacy.certificate.signatures import Check
from discreet.privacy.certificate.statement import digest_of, dump_certificate
from discreet.privacy.certificate.verification import verify_certificate
from discreet.privacy.events import DiscreteLaplace
from discreet.recipes import private_pool, private_quantiles
from discreet.recipes.pool_records import Units
from discreet.recipes.private_quantiles import QuantileGrid, counted, grid_of, places_of_ranks
from discreet.recipes.verification import verify_campaign

SIZE = 400
SCHEMA = {
    "age": {"type": "number", "low": 0, "high": 100},
    "gain": {"type": "number", "low": 0, "high": 1000, "missing": "null"},
    "day": {"type": "date", "low": "2020-01-01", "high": "2021-01-01"},
    "job": {"type": "category", "values": ["clerk", "smith"]},
}
QUANTILES = {"name": "bins", "edges": 6, "quantiles_epsilon": "4", "quantile_bins": 50}
BUDGET = {"epsilon": "12", "delta": "1e-4"}


def frame(size=SIZE, seed=0):
    """Ages crowd below 20; most gains are 0; some cells are missing, and record 7 is a null."""
    rng = np.random.default_rng(seed)
    age = np.where(rng.random(size) < 0.9, rng.uniform(0, 20, size), rng.uniform(20, 100, size))
    gain = np.where(rng.random(size) < 0.8, 0, rng.uniform(0, 1000, size))
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 365, size), unit="D")
    table = pd.DataFrame({"id": [f"r{row}" for row in range(size)], "age": age, "gain": gain, "day": days})
    table["job"] = rng.choice(["clerk", "smith"], size)
    table["age"] = table["age"].mask(rng.random(size) < 0.1)
    table.loc[7, "gain"] = np.nan
    return table


def truth(table):
    return {name: "yes" if age > 10 else "no" for name, age in zip(table["id"], table["age"].fillna(0), strict=True)}


def recipe(**changes):
    usual = {
        "classes": ["no", "yes"], "initial": 80, "queries": [40], "batch": 40, "epochs": 3, "selection_epsilon": "1",
        "trainer": {"learning_rate": 2.0, "engine": "reference"}, "features": QUANTILES, "simulation": {"seed": 3},
    }  # fmt: skip
    return private_pool(**(usual | {"plan": {"accountant": "rdp"} | changes.pop("plan", {})} | changes))


def made(place, table, *, production=False, budget=BUDGET, **changes):
    tables = recipe(**changes)
    if production:
        del tables["simulation"]
    return create_campaign(
        "q", storage=place / "c.db", pool=table, id="id", schema=SCHEMA, budget=budget, recipe=tables
    )


def again(place, table):
    return load_campaign("q", storage=place / "c.db", pool=table, id="id")


def entries(campaign):
    from discreet.campaign.state import ledger_of

    with ledger_of(campaign.store) as ledger:
        return list(ledger.entries)


def checks_of(campaign):
    config = CampaignConfig.from_json(campaign.store.config["config"])  # as it is read from a file
    return {check.name: check for check in verify_campaign(config).checks}


# -- what is counted and read


def test_ranks_of_counts_that_are_known():
    assert places_of_ranks(np.array([10, 10, 10, 10]), 3).tolist() == [0, 1, 2]
    assert places_of_ranks(np.array([0, 90, 0, 10, 0]), 4).tolist() == [1, 1, 1, 1]
    # noise below 0: the sums 10, 4, 12, 20 are read as 7, 7, 12, 20, in whole numbers
    assert places_of_ranks(np.array([10, -6, 8, 8]), 1).tolist() == [2]
    assert (
        places_of_ranks(np.array([-5, -5, -5]), 2).tolist() == places_of_ranks(np.zeros(3, int), 2).tolist() == [0, 1]
    )
    assert places_of_ranks(np.array([0, 0, 0, 9]), 2).tolist() == [2, 2]


def test_exact_counts_give_quantiles_and_many_records_hide_the_noise():
    schema = Schema.of({"age": {"type": "number", "low": 0, "high": 100}})
    grid = QuantileGrid(columns=schema.columns, bins=500)
    values = np.random.default_rng(0).gamma(2.0, 8.0, 50_000).clip(0, 100)
    exact = np.histogram(values, np.linspace(0, 100, 501))[0]
    wanted = np.quantile(values, np.arange(1, 17) / 17)
    noise = np.random.default_rng(1).laplace(scale=10, size=500).round().astype(np.int64)
    for counts in (exact, exact + noise):
        edges = np.array(grid.edges(counts[None], 16)["age"])
        shares = np.searchsorted(np.sort(values), edges) / 50_000
        assert len(edges) == 16
        assert np.abs(shares - np.arange(1, 17) / 17).max() < 0.02
    assert np.abs(np.array(grid.edges(exact[None], 16)["age"]) - wanted).max() <= 0.2


def test_nulls_and_missing_cells_are_counted_nowhere(tmp_path):
    table = frame()
    table.loc[3, "age"] = -50  # outside: as the schema says, at the bound
    campaign = made(tmp_path, table)
    config = campaign.recipe.config
    grid = grid_of(config)
    assert [column.name for column in grid.columns] == ["age", "gain", "day"]
    counts = counted(campaign.pool, Units.of(campaign.pool, "record", 1), config.features.fitted, grid)
    here = table.index != 7
    known = table["age"][here].dropna().clip(0, 100)
    assert counts.sum(axis=1).tolist() == [len(known), SIZE - 1, SIZE - 1]
    assert counts[0].tolist() == np.bincount(np.ceil(known / 2).clip(lower=1).astype(int) - 1, minlength=50).tolist()


# -- a campaign


def test_from_the_first_question_to_an_export(tmp_path):
    table = frame()
    campaign = made(tmp_path, table)
    watching = again(tmp_path, table)
    even = campaign.recipe.config.features.fitted
    assert not entries(campaign)
    assert "features" not in campaign.certificate()
    campaign.ask()
    # one line, before anything was drawn, that every path pays
    (line,) = entries(campaign)
    event = DiscreteLaplace(epsilon="4", sensitivity=3)
    assert [(charge.who, charge.event, charge.count) for charge in line.charges] == [("whole-pool", event, 1)]
    assert (line.why.phase, line.why.purpose) == (0, "quantiles")
    steps = campaign.store.transitions()
    noisy = released_quantiles(steps)["counts"]
    assert {name: len(counts) for name, counts in noisy.items()} == {"age": 50, "gain": 50, "day": 50}
    assert campaign.status().to_json()["quantiles_epsilon"] == "4"
    # the map of this process, and of one that was open before, has the edges that were found
    fitted = campaign.recipe.config.features.fitted
    assert fitted == watching.recipe.config.features.fitted != even
    assert fitted.output_shape == even.output_shape == campaign.recipe.inputs
    assert max(fitted.edges["age"][:4]) <= 20
    # four in five gains are 0: one edge cuts them off, and the edges that are left over are spread
    assert min(fitted.edges["gain"]) == 20
    assert len(fitted.edges["gain"]) == 6
    assert max(fitted.edges["gain"]) > 600
    finish(campaign, truth(table))
    chances = campaign.predict_proba(table)
    assert np.array_equal(again(tmp_path, table).predict_proba(table), chances)
    export_model(campaign, tmp_path / "model", onnx=False)
    assert np.array_equal(load_model(tmp_path / "model").predict_proba(table), chances)
    assert "private quantiles" in (tmp_path / "model" / "README.md").read_text()
    assert all(check.ok for check in checks_of(campaign).values())
    assert "3 columns" in checks_of(campaign)["quantiles"].detail
    certificate = json.loads((tmp_path / "model" / "certificate.json").read_text())
    assert certificate["features"]["sha256"] == released_features(steps)["sha256"] == fitted.identity()["sha256"]
    assert certificate["features"]["quantiles"]["epsilon"] == "4"
    schema = Path(__file__).parents[2] / "docs/reference/certificate.schema.json"
    jsonschema.validate(certificate, json.loads(schema.read_text()))
    paid = [[branch["event"] for branch in path["selection"]] for path in certificate["trajectories"]]
    assert all(certificate["features"]["quantiles"] in events for events in paid)


def test_a_certificate_whose_edges_are_not_paid_for_is_refused(tmp_path):
    table = frame()
    campaign = made(tmp_path, table)
    campaign.ask()
    form = campaign.certificate()
    assert verify_certificate(dump_certificate(form).encode()).ok

    def verdict(features):
        forged = {name: value for name, value in form.items() if name not in ("digest", "signature")}
        forged["features"] = features
        forged |= {"digest": digest_of(forged), "signature": None}
        return verify_certificate(dump_certificate(forged).encode())

    cheaper = form["features"] | {"quantiles": form["features"]["quantiles"] | {"epsilon": "0.5"}}
    found = [check for check in verdict(cheaper).checks if not check.ok]
    assert found == [Check(name="quantiles", ok=False, detail="the path initial does not pay for them")]
    assert [c.name for c in verdict(form["features"] | {"reads": "one record alone"}).checks if not c.ok] == ["form"]


def test_edges_that_do_not_follow_from_the_counts_are_found(tmp_path, monkeypatch):
    from discreet.campaign import state

    campaign = made(tmp_path, frame())
    campaign.ask()
    config, store = campaign.recipe.config, campaign.store
    (check,) = private_quantiles.quantile_checks(store, config)
    assert check.ok
    facts = released_quantiles(store.transitions())
    other = {**facts, "counts": {**facts["counts"], "age": facts["counts"]["age"][::-1]}}
    monkeypatch.setattr(private_quantiles, "released_quantiles", lambda steps: other)
    assert not next(iter(private_quantiles.quantile_checks(store, config))).ok
    assert state.released_quantiles(store.transitions()) == facts


@pytest.mark.parametrize("selection", ["hidden", "paper", "shards", "separate-budget", "random"])
def test_every_selection_pays_for_them_and_verifies(selection, tmp_path):
    table = frame()
    ways = {
        "hidden": {
            "selection_epsilon": 0, "threshold_epsilon": "2", "selector": "hidden-threshold", "scorer": "entropy",
            "plan": {"selection": "hidden"},
        },
        "paper": {"selector": "laplace", "plan": {"selection": "paper"}},
        "shards": {"queries": [20, 20], "plan": {"selection": "shards"}},
        "separate-budget": {"selector": "gaussian", "plan": {"selection": "separate-budget"}},
        "random": {"selection_epsilon": 0},
    }  # fmt: skip
    campaign = made(tmp_path, table, **ways[selection])
    finish(campaign, truth(table))
    assert all(check.ok for check in checks_of(campaign).values())
    plan, certificate = campaign.recipe.plan, campaign.certificate()
    for path in (*plan.trajectories, *campaign.recipe.terms().trajectories()):
        assert path.selection[0].event == plan.selection.quantiles
    assert plan.claim <= 12
    assert certificate["features"]["quantiles"]["epsilon"] == "4"


def test_a_hidden_selection_shows_the_edges_with_its_first_phase_alone(tmp_path):
    table = frame()
    campaign = made(
        tmp_path, table, selection_epsilon=0, threshold_epsilon="2", selector="hidden-threshold", scorer="entropy",
        plan={"selection": "hidden"},
    )  # fmt: skip
    campaign.ask()
    assert "features" not in campaign.certificate()
    assert campaign.certificate(through=0)["features"]["quantiles"]["epsilon"] == "4"


def test_a_campaign_goes_on_with_its_edges_when_it_is_re_planned(tmp_path):
    table = frame()
    campaign = made(tmp_path, table)
    campaign.tell(truth_of_open(campaign, table))
    campaign.train()
    before = campaign.recipe.config.features.fitted
    campaign.replan(because="outside", epsilon="14", queries=[20, 10])
    assert campaign.recipe.config.features.fitted == before
    finish(campaign, truth(table))
    assert all(check.ok for check in checks_of(campaign).values())
    verdict = verify_certificate(dump_certificate(campaign.certificate()).encode())
    assert verdict.ok
    assert verdict.mode == "adaptive"


def test_features_that_are_kept_on_disk_are_those_of_the_edges_that_were_found(tmp_path):
    table, models = frame(), []
    for cache in (True, False):
        place = tmp_path / str(cache)
        place.mkdir()
        campaign = made(place, table, features=QUANTILES | {"cache": cache})
        finish(campaign, truth(table))
        models.append(campaign.predict_proba(table))
    assert np.array_equal(*models)


def truth_of_open(campaign, table):
    labels = truth(table)
    return {question.id: labels[question.record] for question in campaign.ask()}


def test_persons_pay_for_all_their_records(tmp_path):
    table = frame()
    table["who"] = [f"p{row // 4}" for row in range(SIZE)]
    tables = recipe(initial=30, queries=[10], batch=20)
    campaign = create_campaign(
        "q", storage=tmp_path / "c.db", pool=table, id="id", schema=SCHEMA, person="who", persons=SIZE // 4,
        budget=BUDGET | {"unit": "person", "records_per_person": 2}, recipe=tables,
    )  # fmt: skip
    assert campaign.recipe.plan.selection.quantiles == DiscreteLaplace(epsilon="4", sensitivity=6)
    config, pool = campaign.recipe.config, campaign.pool
    counts = counted(pool, Units.of(pool, "person", 2), config.features.fitted, grid_of(config))
    assert counts[1].sum() == SIZE // 2  # two of four records; the null is a fourth one
    finish(campaign, truth(table))


# -- refusals and crashes


class Died(BaseException):
    """The process dies here."""


def test_a_crash_between_the_charge_and_the_release_repeats_the_draw(tmp_path, monkeypatch):
    table = frame()
    campaign = made(tmp_path, table, production=True)
    drawn = []

    def dies(counts, **options):
        drawn.append(np.asarray(discrete_laplace(counts, **options)))
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(private_quantiles, "discrete_laplace", dies)
        with pytest.raises(Died):
            campaign.ask()
    assert len(entries(campaign)) == 1
    assert campaign.recipe.awaits_release
    going_on = again(tmp_path, table)
    going_on.ask()
    assert len(entries(going_on)) == 1
    counts = released_quantiles(going_on.store.transitions())["counts"]
    assert [counts[name] for name in ("age", "gain", "day")] == drawn[0].tolist()


def test_without_its_key_a_charged_draw_is_not_made_anew(tmp_path, monkeypatch):
    table = frame()
    campaign = made(tmp_path, table, production=True)

    def dies(counts, **options):
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(private_quantiles, "discrete_laplace", dies)
        with pytest.raises(Died):
            campaign.ask()
    for key in campaign.store.directory.glob("keys-asking/*"):
        key.unlink()
    with pytest.raises(InvalidStore, match="charged and cut off"):
        again(tmp_path, table).ask()
    assert len(entries(campaign)) == 1


def test_a_changed_record_is_refused_before_the_charge(tmp_path):
    table = frame()
    made(tmp_path, table, production=True)
    table.loc[0, "age"] = 99
    campaign = again(tmp_path, table)
    with pytest.raises(PoolChanged):
        campaign.ask()
    assert not entries(campaign)


def test_withdrawn_records_are_counted_nowhere(tmp_path):
    table = frame()
    campaign = made(tmp_path, table)
    campaign.withdraw(["r0", "r1"])
    config, pool = campaign.recipe.config, campaign.pool
    counts = counted(pool, Units.of(pool, "record", 1), config.features.fitted, grid_of(config))
    assert counts[1].sum() == SIZE - 3


@pytest.mark.parametrize(
    ("features", "says"),
    [
        ({"name": "spline"}, "spline features have no edges"),
        ({"name": "bins", "public": "public.csv"}, "fitted on public rows"),
        ({"name": "bins", "edges": {"age": [1], "gain": [1], "day": [18500]}}, "without declared edges"),
        ({"name": "bins", "quantiles_epsilon": "0"}, "quantiles_epsilon"),
        ({"name": "bins", "quantiles_epsilon": None, "quantile_bins": 9}, "no private quantiles"),
        ({"name": "bins", "quantile_bins": 1}, "quantile_bins"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(features, says, tmp_path):
    table = {key: value for key, value in ({"quantiles_epsilon": "0.1"} | features).items() if value is not None}
    with pytest.raises(InvalidConfig, match=says):
        made(tmp_path, frame(), features=table)
    assert not (tmp_path / "c.db").exists()


def test_a_price_above_the_budget_is_refused_by_the_planner(tmp_path):
    with pytest.raises(InvalidConfig, match="would lose 13 to private quantiles"):
        made(tmp_path, frame(), features=QUANTILES | {"quantiles_epsilon": "13"})


def test_other_recipes_say_that_they_have_none(tmp_path, capsys):
    from discreet.config import example

    text = example("public-data") + '\n[features]\nname = "bins"\nquantiles_epsilon = "0.1"\n'
    (tmp_path / "c.toml").write_text(text)
    assert run(["init", str(tmp_path / "c.toml")]) == 2
    assert "quantiles_epsilon" in capsys.readouterr().err


def test_columns_with_declared_edges_are_not_counted(tmp_path):
    features = QUANTILES | {"edges": {"age": [10.0, 20.0]}}
    campaign = made(tmp_path, frame(), features=features)
    campaign.ask()
    assert campaign.recipe.plan.selection.quantiles.sensitivity == 2
    assert campaign.recipe.config.features.fitted.edges["age"] == (10.0, 20.0)
    assert set(released_quantiles(campaign.store.transitions())["counts"]) == {"gain", "day"}


def test_a_pool_of_another_library_is_counted_alike(tmp_path):
    campaign = made(tmp_path, frame())
    grid, config = grid_of(campaign.recipe.config), campaign.recipe.config
    pools = [campaign.pool, open_frame(frame().astype({"job": "category"}), id="id", schema=SCHEMA)]
    first, second = (counted(pool, Units.of(pool, "record", 1), config.features.fitted, grid) for pool in pools)
    assert np.array_equal(first, second)


def test_the_command_line_plans_with_them(capsys, tmp_path):
    asked = ["plan", "--epsilon", "2", "--delta", "1e-5", "--accountant", "rdp"]
    asked += ["--initial", "500", "--queries", "100", "--batch", "100", "--epochs", "2"]
    assert run([*asked, "--quantiles-epsilon", "0.1", "--json"]) == 0
    form = json.loads(capsys.readouterr().out)
    assert {path["forward"] for path in form["trajectories"]} == {0.1}
    assert {path["backward"] for path in form["trajectories"]} == {0.1}
    assert run([*asked, "--quantiles-epsilon", "0.1"]) == 0
    assert "private quantiles" in capsys.readouterr().out
    assert run([*asked, "--quantiles-epsilon", "3"]) == 2
    assert "private quantiles" in capsys.readouterr().err
