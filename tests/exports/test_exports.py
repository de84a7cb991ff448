"""An exported model says what its campaign says, from its directory alone, and holds nothing that is private."""

import csv
import hashlib
import json
import os
import re

import numpy as np
import pytest
from exported_campaigns import CLASSES, raw, trained
from pyarrow import parquet

import discreet
from discreet.cli.app import run
from discreet.errors import BadInput, InvalidCheckpoint, NotNow
from discreet.exports import export_model, predict_file
from discreet.exports.model_form import sealed
from discreet.trainers.torch_predictor import TorchPredictor

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("campaign"))


@pytest.fixture(scope="module")
def exported(campaign, tmp_path_factory):
    place = tmp_path_factory.mktemp("out") / "model"
    export_model(campaign, place, onnx=False)
    return place


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    campaign = trained(tmp_path_factory.mktemp("several"), kind="multilabel", phases=1)
    place = tmp_path_factory.mktemp("several-out") / "model"
    return campaign, export_model(campaign, place, onnx=False).directory


def test_it_predicts_what_the_campaign_predicts(campaign, exported):
    model, x = discreet.load_model(exported), raw(20, seed=9)
    scaled = ((x - [1.0, 2.0, 0.0]) / [2.0, 4.0, 1.0]).astype(np.float32)
    wanted = campaign.predict_proba(scaled)
    assert np.ptp(wanted, axis=0).max() > 0.05, "all records alike: the comparison would show nothing"
    np.testing.assert_allclose(model.predict_proba(scaled), wanted, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(x, raw=True), wanted, atol=1e-5)
    assert model.predict(scaled) == campaign.predict(scaled)
    assert model.classes == CLASSES


def test_what_is_in_it(campaign, exported):
    form = json.loads((exported / "model.json").read_text())
    assert sorted(form["files"]) == ["README.md", "certificate.json", "weights.safetensors"]
    for name, kept in form["files"].items():
        content = (exported / name).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (kept["sha256"], kept["bytes"])
    assert (form["phase"], form["simulation"], form["private"]) == (1, False, True)
    card = (exported / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: discreet\n")
    for fact in (
        str(form["claim"]["epsilon"]),
        "zero-out",
        "one record",
        "`unsure`",
        "No accuracy is stated",
        "$ discreet verify DIRECTORY",
    ):
        assert fact in card
    assert run(["verify", str(exported / "certificate.json")]) == 0
    with pytest.raises(InvalidCheckpoint):  # what a predictor saves has a format of its own
        TorchPredictor.load(exported, campaign.predictor().module)


def test_nothing_private_is_in_it(campaign, exported):
    places = [
        re.escape(os.fsencode(str(campaign.store.directory.parent.parent))),
        b"secret-[0-9]",
        b"someone",
        b"objects/",
    ]
    private = re.compile(b"|".join(places))
    assert private.search(campaign.store.file("labels", 0).read_bytes()), "the search finds what is there"
    for path in exported.rglob("*"):
        assert not private.search(path.read_bytes()), path.name


def test_an_earlier_phase_and_one_that_is_not_there(campaign, tmp_path):
    first = export_model(campaign, tmp_path / "first", phase=0, onnx=False)
    assert first.phase == 0
    assert (tmp_path / "first" / "weights.safetensors").read_bytes() == campaign.store.file("model", 0).read_bytes()
    with pytest.raises(NotNow):
        export_model(campaign, tmp_path / "never", phase=5, onnx=False)
    assert not (tmp_path / "never").exists()


def test_a_campaign_in_the_middle_of_a_phase_gives_the_last_finished_model(tmp_path):
    half = trained(tmp_path / "half", phases=1)
    half.ask()
    assert export_model(half, tmp_path / "model", onnx=False).phase == 0


def test_nothing_is_overwritten_but_an_earlier_export_on_demand(campaign, tmp_path):
    place = tmp_path / "model"
    place.mkdir()
    export_model(campaign, place, onnx=False)
    with pytest.raises(BadInput, match="earlier export"):
        export_model(campaign, place, onnx=False)
    export_model(campaign, place, onnx=False, force=True, phase=0)
    assert json.loads((place / "model.json").read_text())["phase"] == 0
    (place / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="of your own"):
        export_model(campaign, place, onnx=False, force=True)
    assert (place / "notes.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"], "scratch directories are gone"


def test_a_failure_leaves_the_earlier_export(campaign, tmp_path, monkeypatch):
    from discreet.exports import writing

    place = tmp_path / "model"
    export_model(campaign, place, onnx=False)
    before = (place / "model.json").read_bytes()
    monkeypatch.setattr(writing, "card", lambda *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_model(campaign, place, onnx=False, force=True)
    assert (place / "model.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("name", ["weights.safetensors", "model.json", "certificate.json"])
def test_a_changed_export_is_noticed(campaign, tmp_path, name):
    export_model(campaign, tmp_path / "model", onnx=False)
    changed = bytearray((tmp_path / "model" / name).read_bytes())
    changed[len(changed) // 2] ^= 1
    (tmp_path / "model" / name).write_bytes(bytes(changed))
    if name == "model.json":
        (tmp_path / "model" / name).write_text("{}")
    with pytest.raises(InvalidCheckpoint):
        discreet.load_model(tmp_path / "model")


@pytest.mark.parametrize("resealed", [False, True])
def test_a_model_does_not_claim_more_than_its_certificate(campaign, tmp_path, capsys, resealed):
    place = export_model(campaign, tmp_path / "model", onnx=False).directory
    assert run(["verify", str(place)]) == 0
    assert f"epsilon {discreet.load_model(place).claim['epsilon']} at" in capsys.readouterr().out
    form = json.loads((place / "model.json").read_text())
    form["claim"]["epsilon"] = "0.1"
    (place / "model.json").write_text(json.dumps(sealed(form) if resealed else form))
    with pytest.raises(InvalidCheckpoint, match="claims something else" if resealed else "edited"):
        discreet.load_model(place)
    assert run(["verify", str(place)]) == 1
    assert "model's claim: it is not the certificate's" in capsys.readouterr().out


def test_a_certificate_of_other_weights_is_no_certificate_of_this_model(campaign, tmp_path, capsys):
    first = export_model(campaign, tmp_path / "first", phase=0, onnx=False).directory
    last = export_model(campaign, tmp_path / "last", onnx=False).directory
    assert run(["verify", str(last), "--json"]) == 0
    content = (last / "weights.safetensors").read_bytes()
    assert json.loads(capsys.readouterr().out)["weights"] == hashlib.sha256(content).hexdigest()
    (last / "certificate.json").write_bytes((first / "certificate.json").read_bytes())
    form = json.loads((last / "model.json").read_text())
    form["files"]["certificate.json"]["sha256"] = hashlib.sha256((last / "certificate.json").read_bytes()).hexdigest()
    (last / "model.json").write_text(json.dumps(sealed(form)))
    with pytest.raises(InvalidCheckpoint, match="claims something else"):
        discreet.load_model(last)
    assert run(["verify", str(last)]) == 1


def test_an_export_is_verified_with_its_signature_and_its_ledger(campaign, tmp_path, capsys):
    key = tmp_path / "key.pem"
    assert run(["ledger", "keygen", str(key)]) == 0
    place = export_model(campaign, tmp_path / "model", onnx=False, sign=key).directory
    other = export_model(campaign, tmp_path / "other", onnx=False).directory
    public = str(tmp_path / "key.pem.pub")
    assert run(["verify", str(place), "--public-key", public]) == 0
    assert run(["verify", str(other), "--public-key", public]) == 1, "nobody signed that one"
    (other / "certificate.json").write_bytes((place / "certificate.json").read_bytes())
    form = json.loads((other / "model.json").read_text())
    form["files"]["certificate.json"]["sha256"] = hashlib.sha256((other / "certificate.json").read_bytes()).hexdigest()
    (other / "model.json").write_text(json.dumps(sealed(form)))
    capsys.readouterr()
    assert run(["verify", str(other)]) == 0
    assert run(["verify", str(other), "--public-key", public]) == 1, "a signed certificate beside another model"
    assert "FAILED  model's signature" in capsys.readouterr().out
    (place / "more.txt").write_text("something else")
    assert run(["verify", str(place), "--public-key", public]) == 1
    assert "added: more.txt" in capsys.readouterr().out
    assert run(["verify", str(tmp_path)]) == 2, "no export"
    with pytest.raises(BadInput, match="no such key"):
        export_model(campaign, tmp_path / "third", onnx=False, sign=tmp_path / "nowhere.pem")
    assert not (tmp_path / "third").exists()


def test_a_directory_names_no_code_that_runs(exported, tmp_path):
    form = json.loads((exported / "model.json").read_text())
    form["model"]["name"] = "antigravity:fly"
    for name in form["files"]:
        (tmp_path / name).write_bytes((exported / name).read_bytes())
    (tmp_path / "model.json").write_text(json.dumps(sealed(form)))
    with pytest.raises(BadInput, match="would be run"):
        discreet.load_model(tmp_path)
    form["files"]["../outside"] = {"sha256": "", "bytes": 0}
    (tmp_path / "model.json").write_text(json.dumps(form))
    with pytest.raises(InvalidCheckpoint):
        discreet.load_model(tmp_path)


def data_in(place, x, ids):
    np.savez(place / "new.npz", x=x, id=np.array(ids))
    return place / "new.npz"


def rows_of(path):
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return parquet.read_table(path).to_pylist()


@pytest.mark.parametrize("name", ["p.csv", "p.jsonl", "p.parquet"])
def test_predictions_in_files(campaign, exported, tmp_path, name):
    x, ids = raw(21, seed=3), [f"n{number}" for number in range(21)]
    x[4] = np.nan
    data, out = data_in(tmp_path, x, ids), tmp_path / name
    assert run(["predict", str(exported), str(data), "--out", str(out), "--probabilities", "--rows", "6"]) == 0
    found, model = rows_of(out), discreet.load_model(exported)
    fine = [number for number in range(21) if number != 4]
    wanted = model.predict(x[fine], raw=True)
    assert [row["id"] for row in found] == ids
    assert [found[number]["label"] for number in fine] == wanted
    assert found[4]["label"] in ("", None), "a record that cannot be read has none"
    chances = found[0]["probabilities"] if name == "p.jsonl" else {one: found[0][f"p_{one}"] for one in CLASSES}
    numbers = [float(chances[one]) for one in CLASSES]
    np.testing.assert_allclose(numbers, model.predict_proba(x[:1], raw=True)[0], atol=1e-6)
    assert out.stat().st_mode & 0o077 == 0
    assert run(["predict", str(exported), str(data), "--out", str(out)]) == 2, "it is there already"


def test_other_kinds_of_files_and_names(exported, tmp_path, capsys):
    x = raw(10, seed=3)
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("key", "u", "v", "w"), *((f"k{n}", *row) for n, row in enumerate(x.tolist()))])
    np.save(tmp_path / "new.npy", x)
    told = discreet.load_model(exported).predict(x, raw=True)
    options = {"new.csv": ["--id", "key", "--columns", "u,v,w"], "new.npy": ["--id", "position"]}
    for name, more in options.items():
        out = tmp_path / f"{name}.out.csv"
        capsys.readouterr()
        assert run(["predict", str(exported), str(tmp_path / name), "--out", str(out), *more, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["records"], said["blank"], said["audience"]) == (10, 0, "owner")
        assert [row["label"] for row in rows_of(out)] == told


def test_several_labels_and_thresholds(several, tmp_path):
    campaign, place = several
    model, x = discreet.load_model(place), raw(30, seed=5)
    scaled = model.scaled(x)
    assert model.predict(scaled) == campaign.predict(scaled)
    chances = model.predict_proba(scaled)
    limit = float(np.median(chances[:, 1]))
    found = model.predict(scaled, threshold={"well": limit})
    assert [("well" in one) for one in found] == (chances[:, 1] > limit).tolist()
    assert {("ill" in one) for one in found} == {("ill" in one) for one in model.predict(scaled)}
    data = data_in(tmp_path, x, [str(n) for n in range(30)])
    assert (
        run(["predict", str(place), str(data), "--out", str(tmp_path / "p.csv"), "--threshold", f"well={limit}"]) == 0
    )
    assert [tuple(filter(None, row["label"].split("|"))) for row in rows_of(tmp_path / "p.csv")] == found
    for wrong in ("2", "x", "nobody=0.5", "=1"):
        assert run(["predict", str(place), str(data), "--out", str(tmp_path / "q.csv"), "--threshold", wrong]) == 2


def test_nonsense_is_refused_and_leaves_no_file(exported, several, tmp_path, capsys):
    data = data_in(tmp_path, raw(10), [str(n) for n in range(10)])
    wide = tmp_path / "wide.npz"
    np.savez(wide, x=np.zeros((5, 7), dtype=np.float32), id=np.array(list("abcde")))
    cases = [
        [str(tmp_path / "nowhere"), str(data), "--out", "p.csv"],
        [str(exported), str(tmp_path / "no.npz"), "--out", "p.csv"],
        [str(exported), str(wide), "--out", "p.csv"],
        [str(exported), str(data), "--out", "p.docx"],
        [str(exported), str(data), "--out", "no/p.csv"],
        [str(exported), str(data), "--out", "p.csv", "--threshold", "0.5"],
        [str(exported), str(data), "--out", "p.csv", "--model", "a:b"],
        [str(exported), str(data), "--out", "p.csv", "--id", "wrong"],
    ]
    for arguments in cases:
        given = [str(tmp_path / one) if one.startswith(("p.", "no/")) else one for one in arguments]
        assert run(["predict", *given]) == 2, arguments
        assert capsys.readouterr().err.count("\n") == 1
    assert not list(tmp_path.glob("*p.*"))


def test_a_simulation_says_so(tmp_path):
    from exported_campaigns import TOML

    text = TOML + "[simulation]\nseed = 1\n"
    campaign = trained(tmp_path / "seeded", text=text, phases=1)
    made = export_model(campaign, tmp_path / "model", onnx=False)
    assert made.form["simulation"]
    assert "**SIMULATION**" in (made.directory / "README.md").read_text()
    assert "- differential-privacy" not in (made.directory / "README.md").read_text()


def test_memory_does_not_grow_with_the_file(exported, tmp_path):
    """Pieces of the size that was asked for reach the model, never the whole."""
    model, sizes = discreet.load_model(exported), []
    ask = model.predict_proba
    model.predict_proba = lambda rows: sizes.append(len(rows)) or ask(rows)
    data = data_in(tmp_path, raw(50), [str(n) for n in range(50)])
    assert predict_file(model, data, tmp_path / "p.csv", rows=16).records == 50
    assert sizes == [16, 16, 16, 2]


def test_weights_that_were_cut_off_beside_their_certificate(campaign, tmp_path, capsys):
    place = export_model(campaign, tmp_path / "model", onnx=False).directory
    certificate, weights = place / "certificate.json", place / "weights.safetensors"
    assert run(["verify", str(certificate)]) == 0
    assert "ok      weights: weights.safetensors has the hash" in capsys.readouterr().out
    weights.write_bytes(weights.read_bytes()[:-10])
    for asked in (certificate, place):
        assert run(["verify", str(asked)]) == 1
    assert "FAILED  weights: weights.safetensors is not what the certificate names" in capsys.readouterr().out
    weights.unlink()
    assert run(["verify", str(certificate)]) == 0, "a certificate may be kept by itself"
    assert "weights: NOT CHECKED" in capsys.readouterr().out


def test_the_ledger_names_the_weights_of_an_export(campaign, tmp_path, capsys):
    ledger = tmp_path / "c.ledger"
    ledger.write_bytes(b"".join(campaign.store.sink().read()))
    place = export_model(campaign, tmp_path / "model", onnx=False).directory
    assert run(["verify", str(place), "--ledger", str(ledger)]) == 0
    assert "ok      released weights" in capsys.readouterr().out
    form = json.loads((place / "model.json").read_text())
    weights = place / "weights.safetensors"
    weights.write_bytes(weights.read_bytes() + b" ")  # all that is unkeyed, written anew
    form["sha256"] = form["files"]["weights.safetensors"]["sha256"] = hashlib.sha256(weights.read_bytes()).hexdigest()
    (place / "model.json").write_text(json.dumps(sealed(form)))
    assert run(["verify", str(place), "--ledger", str(ledger)]) == 1
    assert "FAILED  released weights" in capsys.readouterr().out
