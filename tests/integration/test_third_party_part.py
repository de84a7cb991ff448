"""A second package that declares a selector: built as a wheel, installed beside discreet, and used by a campaign."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.integration

CAMPAIGN = """
import sys
from pathlib import Path
from small_campaigns import finish, made, pool_and_truth
from discreet.privacy.certificate import write_certificate

pool, truth = pool_and_truth()
campaign = made(
    Path(sys.argv[1]), pool, scorer="entropy", selection_epsilon="2", plan={"selection": "paper"},
    selector="halved-laplace",
)
finish(campaign, truth)
write_certificate(campaign.certificate(), Path(sys.argv[1]) / "certificate.json")
"""

FEATURES = """
import sys
from pathlib import Path
import numpy as np
from small_campaigns import finish, made, pool_and_truth
from discreet import export_model, load_model
from discreet.features import build_feature_map
from discreet.privacy.certificate import write_certificate
from discreet.testing import check_feature_map

records = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
check_feature_map(lambda: build_feature_map("signs", shape=4, threshold=0.5), records)
pool, truth = pool_and_truth()
campaign = made(Path(sys.argv[1]), pool, features={"name": "signs", "threshold": 0.1})
finish(campaign, truth)
export_model(campaign, Path(sys.argv[1]) / "model")
model = load_model(Path(sys.argv[1]) / "model")
assert np.array_equal(model.predict_proba(pool.x), campaign.predict_proba(pool.x))
assert set(np.unique(np.sign(model.features.transform(pool.x)))) == {-1, 1}
write_certificate(campaign.certificate(), Path(sys.argv[1]) / "certificate.json")
"""


def run(*command, path=(), **options):
    env = os.environ | {"PYTHONPATH": os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run([*map(str, command)], capture_output=True, text=True, env=env, **options)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The folder that the wheel is installed into."""
    folder = tmp_path_factory.mktemp("package")
    built = run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, HERE / "third_party_part")
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    pip = run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder / "target", wheel)
    assert pip.returncode == 0, pip.stderr
    return folder / "target"


def test_a_campaign_selects_by_it_and_its_certificate_says_so(package, tmp_path):
    done = run(sys.executable, "-c", CAMPAIGN, tmp_path, path=(package, HERE.parent / "recipes"))
    assert done.returncode == 0, done.stderr
    (part,) = json.loads((tmp_path / "certificate.json").read_text())["third_party"]
    assert part == {
        "kind": "selector",
        "name": "halved-laplace",
        "distribution": "discreet-example-part",
        "version": "0.3.1",
        "note": "its price was declared by a third party",
    }
    verified = run(sys.executable, "-m", "discreet", "verify", tmp_path / "certificate.json", "--json")
    assert verified.returncode == 0, verified.stderr


def test_a_model_learns_on_a_map_of_another_package(package, tmp_path):
    done = run(sys.executable, "-c", FEATURES, tmp_path, path=(package, HERE.parent / "recipes"))
    assert done.returncode == 0, done.stderr
    certificate = json.loads((tmp_path / "certificate.json").read_text())
    assert [(part["kind"], part["name"]) for part in certificate["third_party"]] == [("features", "signs")]
    assert certificate["features"]["name"] == "signs"
    verified = run(sys.executable, "-m", "discreet", "verify", tmp_path / "model", "--json")
    assert verified.returncode in (0, 1), verified.stderr
    # without the package the map's hash cannot be checked, and `verify` says so
    failed = [check["name"] for check in json.loads(verified.stdout)["checks"] if not check["ok"]]
    assert "features" in failed


def test_the_command_selects_by_it_and_a_built_in_name_stays_built_in(package, tmp_path):
    import pyarrow
    from pyarrow import parquet

    ids, scores = [f"r{number}" for number in range(50)], [number / 50 for number in range(50)]
    parquet.write_table(pyarrow.table({"id": ids, "score": scores}), tmp_path / "pool.parquet")
    for name, path in (("halved-laplace", (package,)), ("random", (package,))):
        command = ["select", tmp_path / "pool.parquet", "--id", "id", "--scores", "score", "--k", 5, "--json"]
        done = run(sys.executable, "-m", "discreet", *command, "--mechanism", name, path=path)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["mechanism"] == name
    done = run(sys.executable, "-m", "discreet", *command, "--mechanism", "halved-laplace")
    assert done.returncode == 2
    assert "there is none of that name" in done.stderr
