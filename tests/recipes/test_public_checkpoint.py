"""The checkpoint of a campaign on public data: bound to its certificate, and nothing paid for nothing."""

import json

import numpy as np
import pytest
import torch
from small_public import config_in, truth, written

from discreet import Budget
from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.errors import BadInput, InvalidConfig
from discreet.models import build_model
from discreet.pools import ArrayPool
from discreet.privacy.certificate import bound, certify, verify, write_certificate
from discreet.privacy.events import Gaussian
from discreet.privacy.ledger import Ledger, Line, MemorySink, committed
from discreet.recipes.learning import to_bytes
from discreet.recipes.opening import create, load
from discreet.recipes.public_plan import PublicPlan, public_plan_of

CERTIFIED = 'certificate = "certificate.json"'


def certificate():
    terms = committed(Budget(epsilon=2, delta="1e-6"), [Line(who="all", event=Gaussian(noise_multiplier=4.0))])
    return certify(Ledger.create(MemorySink(), terms))


# -- a certificate is of its weights


def test_a_certificate_of_other_weights_is_refused(tmp_path):
    config = config_in(tmp_path, checkpoint=CERTIFIED)
    weights = (tmp_path / "weights.safetensors").read_bytes()
    write_certificate(bound(certificate(), weights), tmp_path / "certificate.json")
    assert verify(tmp_path / "certificate.json").ok
    plan = public_plan_of(config)
    assert plan.bound is True
    assert PublicPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    write_certificate(bound(certificate(), weights + b" "), tmp_path / "certificate.json")
    assert verify(tmp_path / "certificate.json").ok  # it is a good certificate, of another model
    with pytest.raises(InvalidConfig, match="another model"):
        public_plan_of(config)


def test_one_that_names_no_weights_is_taken_and_said(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, checkpoint=CERTIFIED)
    write_certificate(certificate(), tmp_path / "certificate.json")
    assert public_plan_of(CampaignConfig.read(file)).bound is False
    assert run(["init", str(file)]) == 0
    assert "names no weights" in capsys.readouterr().out
    assert run(["init", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checkpoint_bound"] is False


def test_a_promise_that_is_only_stated_is_bound_to_nothing(tmp_path):
    config = config_in(tmp_path)
    plan = public_plan_of(config)
    assert plan.bound is None
    assert "bound" not in plan.to_json()  # as plans were before: their digests stay
    with pytest.raises(Exception, match="form"):
        PublicPlan.from_json(plan.to_json() | {"bound": "yes"})


@pytest.mark.parametrize("weights", ["", "0" * 63, "Z" * 64, 5, None, ["0" * 64]])
def test_a_hash_that_is_none_is_a_failed_check(tmp_path, weights):
    from discreet.privacy.certificate.statement import digest_of

    form = bound(certificate(), b"")
    form["weights"] = weights
    form["digest"] = digest_of(form)
    write_certificate(form, tmp_path / "certificate.json")
    assert not verify(tmp_path / "certificate.json").ok


def test_the_hash_has_its_place(tmp_path):
    form = bound(certificate(), b"")
    moved = {"weights": form["weights"]} | {name: value for name, value in form.items() if name != "weights"}
    write_certificate(moved, tmp_path / "certificate.json")
    assert not verify(tmp_path / "certificate.json").ok


def test_a_classifier_is_certified_with_its_weights(tmp_path):
    from discreet import DPClassifier

    chance = np.random.default_rng(0)
    x, y = chance.normal(size=(60, 5)).astype(np.float32), chance.integers(0, 2, 60)
    made = DPClassifier(
        epsilon=2, delta="1e-4", classes=[0, 1], model="mlp", model_options={"hidden": [8]}, batch=20, epochs=1
    ).fit(x, y)
    file = written(tmp_path, checkpoint='certificate = "certificate.json"')
    text = file.read_text().replace('delta = "1e-5"', 'delta = "1e-3"')
    file.write_text(text.replace("weights.s", "model/weights.s"))
    made.predictor_.save(tmp_path / "model")
    write_certificate(made.certificate(), tmp_path / "certificate.json")
    assert public_plan_of(CampaignConfig.read(file)).bound is True


# -- private records of a pool that was given in Python


def test_the_declared_number_of_private_records_is_checked_beside_arrays(tmp_path):
    file = written(tmp_path, selector="near-private")
    text = file.read_text()
    start, end = text.index("[pool]"), text.index("[task]")
    public = np.load(tmp_path / "public.npz")
    pool = ArrayPool(ids=public["id"].tolist(), x=public["x"])
    arrays = '[pool]\nkind = "arrays"\npath = "given"\nsize = 120\n'
    file.write_text(text[:start] + arrays + text[end:].replace("size = 300", "size = 299"))
    with pytest.raises(InvalidConfig, match="private"):
        create(CampaignConfig.read(file), pool=pool)
    file.write_text(text[:start] + arrays + text[end:])
    assert create(CampaignConfig.read(file), pool=pool).ask() == []


# -- where nobody can be counted for, nothing is paid


def test_a_model_that_says_nothing_is_found_before_the_charge(tmp_path):
    file = written(tmp_path, selector="near-private")
    broken = build_model("mlp", inputs=(5,), classes=2, hidden=[8])
    with torch.no_grad():
        for one in broken.parameters():
            one.fill_(float("nan"))
    (tmp_path / "weights.safetensors").write_bytes(to_bytes(broken))
    campaign = create(CampaignConfig.read(file))
    assert campaign.ask() == []
    campaign.train()
    before = len(list(campaign.store.sink().read()))
    with pytest.raises(BadInput, match="no public record"):
        campaign.ask()
    assert len(list(load(CampaignConfig.read(file)).store.sink().read())) == before
    assert truth(tmp_path)
