"""A checkpoint that was trained on features is improved on the same features, and on no others."""

import numpy as np
import pytest
from test_feature_campaigns import FEATURES, config_of, filled, finish, records_of, text_of, truth, write_table

from discreet.config import CampaignConfig
from discreet.errors import InvalidConfig
from discreet.exports import export_model, load_model
from discreet.exports.model_form import verify_export
from discreet.privacy.certificate import verify
from discreet.recipes.opening import create, load
from discreet.recipes.verification import verify_campaign

SELECTORS = {
    "diverse-public": 'name = "diverse-public"',
    "near-private": "name = \"near-private\"\nuncertain = 60\ncomponents = 3\nsupport_epsilon = '0.5'",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with an exported model of bins of private records."""
    folder = filled(tmp_path_factory.mktemp("trained"))
    campaign = create(config_of(folder, "tables"))
    finish(campaign)
    export_model(campaign, folder / "export", onnx=False)
    write_table(folder / "others.csv", 150, 4, "o")
    return folder


def improved(folder, name="improved", selector="diverse-public", features=FEATURES["tables"]):
    """The file of a campaign that begins with the exported model."""
    table = f"[features]\n{features}\n" if features else ""
    text = (
        text_of("tables")
        .replace(f"[features]\n{FEATURES['tables']}\n", "@")
        .replace('"private-pool"', '"public-data"')
        .replace('"featured"', f'"{name}"')
    )
    text = text.replace("initial = 40", "initial = 0").replace('accountant = "rdp"\nselection_epsilon = "2"\n', "")
    text = text.replace('name = "threshold-response"\nthreshold_epsilon = "0.5"', SELECTORS[selector])
    text = text.replace('"pool.csv"', '"others.csv"').replace("size = 90", "size = 150").replace("= 20\nd", "= 40\nd")
    text = text.replace('"1e-4"', '"1e-3"').replace("@", table)
    text += '[checkpoint]\npath = "export/weights.safetensors"\ncertificate = "export/certificate.json"\n'
    text += '[private]\npath = "pool.csv"\nsize = 90\n' if selector == "near-private" else ""
    (folder / f"{name}.toml").write_text(text)
    return CampaignConfig.read(folder / f"{name}.toml")


@pytest.mark.parametrize("selector", SELECTORS)
def test_from_a_checkpoint_on_features_to_an_export(trained, selector):
    config = improved(trained, selector, selector)
    campaign = create(config)
    finish(campaign)
    again = load(CampaignConfig.read(trained / f"{selector}.toml"))
    frame = records_of(trained, "tables")[0]
    right = [truth(f"r{number}") for number in range(len(frame))]
    assert np.mean([guess == wanted for guess, wanted in zip(again.predict(frame), right, strict=True)]) > 0.75
    sha256 = verify(trained / "export" / "certificate.json").features
    assert sha256 == campaign.certificate()["features"]["sha256"] == campaign.store.config["features"]["sha256"]
    checks = {check.name: check.ok for check in verify_campaign(config).checks}
    assert checks["features"]
    assert all(checks.values())
    export_model(again, trained / f"{selector}-export", onnx=False)
    assert verify_export(trained / f"{selector}-export").ok
    model = load_model(trained / f"{selector}-export")
    assert np.allclose(model.predict_proba(frame), again.predict_proba(frame))


@pytest.mark.parametrize(
    ("features", "key"),
    [
        (FEATURES["tables"].replace("edges = 7", "edges = 8"), "names another map"),
        (FEATURES["tables"].replace('public = "public.csv"\n', ""), "names another map"),
        ("", "this campaign has none"),
    ],
)
def test_other_features_than_the_certificate_names_are_refused(trained, features, key):
    with pytest.raises(InvalidConfig, match=key) as refused:
        create(improved(trained, "refused", features=features))
    assert refused.value.line


def test_the_private_pool_is_no_public_table(trained):
    features = FEATURES["tables"].replace("public.csv", "pool.csv")
    with pytest.raises(InvalidConfig, match="whose records are private"):
        create(improved(trained, "refused", "near-private", features))
