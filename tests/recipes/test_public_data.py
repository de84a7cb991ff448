"""The recipe public-data: a whole campaign, through crashes, at the price that was committed."""

import json
from dataclasses import replace

import numpy as np
import pytest
from small_public import NEAR, PRIVATE, STATED, TRAINED, config_in, truth, write_weights, written

from discreet.campaign.loop import run as run_loop
from discreet.campaign.recipe import PhaseContext
from discreet.campaign.state import ledger_of
from discreet.cli.app import run
from discreet.cli.campaign_files import oracle_of
from discreet.errors import BadInput, InvalidConfig, LedgerUnavailable
from discreet.noise import Seeded
from discreet.pools import ArrayPool
from discreet.privacy.accounting.pld import pld_epsilons
from discreet.privacy.events import Composed, Stated
from discreet.recipes import public_choice
from discreet.recipes.opening import create, load
from discreet.recipes.public_data import PublicData
from discreet.recipes.public_plan import PublicPlan, public_plan_of, spent
from discreet.recipes.verification import verify_campaign
from discreet.storage import CampaignStore
from discreet.testing.neighbours import NotPrivate, check_neighbours

pytestmark = pytest.mark.thorough


def answered(campaign, place):
    labels = truth(place)
    campaign.tell({one.id: labels[one.record] for one in campaign.open()})


def begun(place, **options):
    """A production campaign whose checkpoint is taken up."""
    campaign = create(config_in(place, **options))
    assert campaign.ask() == []
    campaign.train()
    return campaign


def facts_of(campaign, phase):
    return next(one.facts for one in campaign.store.transitions() if (one.kind, one.phase) == ("published", phase))


# -- every selector, from the beginning to the end

SELECTORS = ["random", "uncertain", "k-means", "greedy-k-centre", "diverse-public", "near-private"]


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_campaign_with_every_selector(tmp_path, selector):
    config = config_in(tmp_path, selector=selector, simulation=True)
    campaign = create(config)
    assert run_loop(campaign, oracle_of(config, campaign)).done
    questions = campaign.store.questions()
    assert len({one.record for one in questions}) == len(questions) == 20
    assert set(campaign.status().evaluations) == {0, 1, 2}
    assert facts_of(campaign, 1)["mechanism"] == selector
    assert campaign.status().private
    assert verify_campaign(config).ok
    charges = len(list(campaign.store.sink().read())) - 1
    assert charges == (3 if selector == "near-private" else 1)


def test_an_evaluation_that_is_paid_for_has_a_path_of_its_own(tmp_path):
    from discreet.config import CampaignConfig

    file = written(tmp_path, simulation=True)
    file.write_text(file.read_text().replace('kind = "public"\npath', 'kind = "paid"\nepsilon = "0.5"\npath'))
    config = CampaignConfig.read(file)
    campaign = create(config)
    assert run_loop(campaign, oracle_of(config, campaign)).done
    assert {found["kind"] for found in campaign.status().evaluations.values()} == {"paid"}
    assert verify_campaign(config).ok
    assert {one["name"] for one in campaign.certificate()["trajectories"]} == {"private", "held-out"}


def test_near_private_passes_over_what_is_far(tmp_path):
    campaign = begun(tmp_path, selector="near-private")
    asked = [one.record for one in campaign.ask()]
    assert sum(int(one[1:]) >= 80 for one in asked) <= 1  # a third of the pool is pollution
    first = facts_of(campaign, 1)["support"]
    assert len(first["ids"]) == 20  # what may ever be asked, and no more is kept
    assert first["counts"] == sorted(first["counts"], reverse=True)
    answered(campaign, tmp_path)
    campaign.train()
    later = [one.record for one in campaign.ask()]
    assert sorted(later) == sorted(first["ids"][10:])
    assert sorted(asked) == sorted(first["ids"][:10])


def test_verbs_of_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = str(written(tmp_path, simulation=True))
    assert run(["init", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels_planned"] == [0, 10, 10]
    assert run(["run", file]) == 0
    assert run(["status", file, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (shown["step"], shown["labels_asked"]) == ("done", 20)
    for verb in (["verify", file], ["report", file, "--out", "r.html"], ["export", file, "model", "--no-onnx"]):
        assert run(verb) == 0, capsys.readouterr().err
    assert "diverse-public" in (tmp_path / "r.html").read_text()
    assert run(["simulate", file, "--data", "test.npz"]) == 2
    assert "dry run" in capsys.readouterr().err
    assert run(["replan", file, "--because", "outside", "--labels", "5", "--yes"]) == 2
    assert "re-plann" in capsys.readouterr().err


def test_the_commented_example_is_a_campaign_that_can_be_read(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["init", "x.toml", "--example", "public-data"]) == 0
    text = (tmp_path / "x.toml").read_text()
    assert max(map(len, text.splitlines())) <= 120
    from discreet.config import CampaignConfig

    assert CampaignConfig.read(tmp_path / "x.toml").recipe.name == "public-data"
    assert run(["init", "x.toml"]) == 2  # its files are not there
    assert "public.npz" in capsys.readouterr().err


# -- through crashes


class Stopped(Exception):
    pass


def test_a_query_that_was_cut_off_repeats_the_same_draws(tmp_path, monkeypatch):
    campaign = begun(tmp_path, selector="near-private")
    seen = []

    def publish(self, phase, questions, **options):
        seen.append(options["facts"]["support"])
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(CampaignStore, "publish", publish)
        with pytest.raises(Stopped):
            campaign.ask()
    again = load(config_of(tmp_path))
    again.ask()
    assert facts_of(again, 1)["support"] == seen[0]
    with ledger_of(again.store) as ledger:
        assert sum(bool(entry.charges) for entry in ledger.entries) == 3  # checkpoint, components, counts
    assert verify_campaign(config_of(tmp_path)).ok


def config_of(place):
    from discreet.config import CampaignConfig

    return CampaignConfig.read(place / "small.toml")


def test_other_private_records_are_refused_after_a_crash(tmp_path, monkeypatch):
    campaign = begun(tmp_path, selector="near-private")
    with monkeypatch.context() as patch:
        patch.setattr(CampaignStore, "publish", lambda *_, **__: (_ for _ in ()).throw(Stopped()))
        with pytest.raises(Stopped):
            campaign.ask()
    stored = dict(np.load(tmp_path / "private.npz"))
    np.savez(tmp_path / "private.npz", id=stored["id"], x=stored["x"] + 1)
    with pytest.raises(LedgerUnavailable, match="something else"):
        load(config_of(tmp_path)).ask()


def test_fine_tuning_again_gives_the_same_model(tmp_path):
    campaign = begun(tmp_path)
    campaign.ask()
    answered(campaign, tmp_path)
    recipe, labels = campaign.recipe, campaign.labels()
    made = []
    for _ in range(2):
        context = PhaseContext(
            phase=1,
            pool=campaign.pool,
            ledger=None,
            source=Seeded(0),
            members=campaign.store.cohort_members(),
            model=None,
            directory=tmp_path,
        )
        made.append(recipe.train(context, labels).content)
    assert made[0] == made[1]


def test_a_skipped_label_teaches_nothing_and_none_at_all_leaves_the_checkpoint(tmp_path):
    campaign = begun(tmp_path)
    questions = campaign.ask()
    campaign.tell({one.id: None for one in questions})
    campaign.train()
    first, second = (campaign.store.file("model", phase).read_bytes() for phase in (0, 1))
    assert first == second


# -- the price


def test_the_noise_of_components_is_what_the_budget_leaves(tmp_path):
    config = config_in(tmp_path, selector="near-private")
    plan = public_plan_of(config)
    assert 2.99 < spent(config, plan) <= 3
    assert PublicPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    events = Composed(events=(Stated(epsilon="1.5", delta="1e-6"), *plan.looks))
    assert max(pld_epsilons(events, 1e-5, interval=1e-4)) == pytest.approx(3, abs=0.01)


def test_a_training_composes_more_tightly_than_its_statement(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    exact = config_in(tmp_path / "a", selector="near-private", checkpoint=TRAINED)
    alone = public_plan_of(replace(exact, selector=replace(exact.selector, name="diverse-public")))
    price = spent(exact, alone)
    stated = config_in(tmp_path / "b", selector="near-private", checkpoint=f'epsilon = "{price:.4f}"\ndelta = "9.9e-6"')
    assert public_plan_of(exact).components_noise < public_plan_of(stated).components_noise


def test_a_certificate_is_verified_and_its_claim_taken(tmp_path):
    from discreet import Budget
    from discreet.privacy.certificate import certify
    from discreet.privacy.certificate.statement import write_certificate
    from discreet.privacy.events import Gaussian
    from discreet.privacy.ledger import Ledger, Line, MemorySink, committed

    terms = committed(Budget(epsilon=2, delta="1e-6"), [Line(who="all", event=Gaussian(noise_multiplier=4.0))])
    form = certify(Ledger.create(MemorySink(), terms))
    config = config_in(tmp_path, checkpoint='certificate = "certificate.json"')
    with pytest.raises(InvalidConfig, match="no such file"):
        public_plan_of(config)
    write_certificate(form, tmp_path / "certificate.json")
    event = public_plan_of(config).checkpoint
    assert float(event.epsilon) == form["claim"]["epsilon"]
    text = (tmp_path / "certificate.json").read_text()
    (tmp_path / "certificate.json").write_text(text.replace(f"{form['claim']['epsilon']}", "0.1"))
    with pytest.raises(InvalidConfig, match="certificate"):
        public_plan_of(config)


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"checkpoint": 'epsilon = "4"\ndelta = "1e-6"'}, "epsilon"),
        ({"checkpoint": 'epsilon = "1"\ndelta = "1e-4"'}, "epsilon"),
        ({"selector": "near-private", "options": NEAR.replace("0.5", "2.9")}, "support_epsilon"),
        ({"selector": "near-private", "options": NEAR + "\ncomponents_noise = 0.5"}, "components_noise"),
        ({"selector": "near-private", "options": NEAR.replace("60", "19")}, "uncertain"),  # of 10 and 10
        ({"selector": "diverse-public", "options": "uncertain = 9"}, "uncertain"),
    ],
)
def test_a_budget_that_does_not_hold_it_is_refused_at_its_line(tmp_path, options, where):
    with pytest.raises(InvalidConfig, match=where):
        create(config_in(tmp_path, **options))
    assert not (tmp_path / "small.db").exists() or "small" not in (tmp_path / "small.db").read_bytes().decode("latin1")


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"checkpoint": ""}, "checkpoint"),
        ({"checkpoint": STATED + "\n" + TRAINED}, "checkpoint"),
        ({"checkpoint": 'epsilon = "1"'}, "delta"),
        ({"checkpoint": "steps = 5"}, "steps"),
        ({"selector": "threshold-response"}, "selector"),
        ({"selector": "diverse-public", "options": "support_epsilon = '1'"}, "support_epsilon"),
        ({"selector": "near-private", "options": "uncertain = 60"}, "support_epsilon"),
        ({"more": '[private]\npath = "private.npz"\nsize = 300\n'}, "private"),
        ({"more": '[initial]\npath = "x.csv"\nchosen = "uniformly"\n'}, "initial"),
    ],
)
def test_what_does_not_go_together_is_refused_when_it_is_read(tmp_path, changes, where):
    with pytest.raises(InvalidConfig, match=where):
        config_in(tmp_path, **changes)


def test_tables_of_public_data_are_for_it_alone(tmp_path):
    from discreet.config import CampaignConfig, example

    with pytest.raises(InvalidConfig, match="checkpoint"):
        CampaignConfig.from_text(
            example("private-pool") + '\n[checkpoint]\npath = "x"\nepsilon = "1"\ndelta = "1e-6"\n'
        )
    with pytest.raises(InvalidConfig, match="initial"):
        CampaignConfig.from_text(example("private-pool").replace("initial = 1000 ", "initial = 0 "))


def test_another_checkpoint_is_refused(tmp_path):
    campaign = begun(tmp_path)
    write_weights(tmp_path / "weights.safetensors", seed=9)
    campaign.ask()
    answered(campaign, tmp_path)
    with pytest.raises(InvalidConfig, match="created with"):
        campaign.train()
    write_weights(tmp_path / "weights.safetensors")
    campaign.train()
    (tmp_path / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(InvalidConfig, match="weights are not of the model"):
        create(replace(config_of(tmp_path), name="other"))


def test_private_records_in_the_public_pool_are_refused(tmp_path):
    config = config_in(tmp_path, selector="near-private")
    stored = dict(np.load(tmp_path / "private.npz"))
    stored["id"] = stored["id"].astype("U8")
    stored["id"][0] = "p3"
    np.savez(tmp_path / "private.npz", **stored)
    with pytest.raises(InvalidConfig, match=r"private.*path"):
        create(config)


# -- the replay kit, through choosing, scoring and embedding


def test_neighbours_through_the_whole_recipe(tmp_path):
    config = config_in(tmp_path, selector="near-private")
    recipe = PublicData(config=config, plan=public_plan_of(config), inputs=(5,))
    model = recipe.predictor((tmp_path / "weights.safetensors").read_bytes())
    public = np.load(tmp_path / "public.npz")
    pool = ArrayPool(ids=public["id"].tolist(), x=public["x"])
    private = np.load(tmp_path / "private.npz")["x"][:40].astype(np.float64)

    def chosen(rows, ledger):
        own = ArrayPool(ids=[f"r{number}" for number in range(len(rows))], x=rows.astype(np.float32))
        with pytest.MonkeyPatch().context() as patch:
            patch.setattr(public_choice, "private_pool", lambda config: own)
            context = PhaseContext(
                phase=1,
                pool=pool,
                ledger=ledger,
                source=Seeded(0),
                members={},
                model=model,
                directory=tmp_path,
            )
            found = recipe.choose(context)
        return found.ids, found.facts["support"], found.facts["threshold"], found.facts["norm"]

    report = check_neighbours(chosen, private, null=np.full(5, np.nan))
    assert (report.charges, report.releases) == (2, 2)


def test_a_null_that_is_embedded_like_a_record_is_seen(tmp_path, monkeypatch):
    """Planted: what a model says of a blank row, counted as somebody's."""
    real = public_choice.EmbeddedRows
    monkeypatch.setattr(public_choice, "EmbeddedRows", lambda model, rows, nulls=None: real(model, rows))
    with pytest.raises(NotPrivate, match="sensitivity"):
        test_neighbours_through_the_whole_recipe(tmp_path)


def test_re_planning_is_refused(tmp_path):
    campaign = begun(tmp_path)
    with pytest.raises(BadInput, match="re-planning"):
        campaign.replan(because="outside", labels=5)
    assert PRIVATE == 300


def test_the_owner_is_told_what_of_the_private_records_cannot_be_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("discreet.cli.init._attended", lambda: True)
    asked = []
    monkeypatch.setattr("typer.confirm", lambda text, **_: asked.append(text) or False)
    file = written(tmp_path, selector="near-private")
    rows = dict(np.load(tmp_path / "private.npz"))
    rows["x"][:17] = np.nan
    np.savez(tmp_path / "private.npz", **rows)
    assert run(["init", str(file)]) == 0
    assert f"Private records, for the owner alone: 17 of {PRIVATE} records are nulls" in capsys.readouterr().err
    assert len(asked) == 1
    (tmp_path / "other").mkdir()
    assert run(["init", str(written(tmp_path / "other"))]) == 0  # nothing private is in its files
    assert len(asked) == 1
