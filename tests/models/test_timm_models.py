"""The timm adapter: against timm itself where it is installed, and its refusals where it is not."""

import importlib.util

import pytest
import torch
from model_cases import one_by_one, vmapped, worst_difference

from discreet.errors import BadInput, MissingExtra
from discreet.models import build_model


def _importable():
    try:
        import timm  # noqa: F401
    except ImportError:  # not installed, or without the torchvision it needs
        return False
    return True


INSTALLED = _importable()
needs_timm = pytest.mark.skipif(not INSTALLED, reason="timm needs torchvision, which has no wheel for this torch")
IMAGE = {"inputs": (3, 32, 32), "classes": 3}


@pytest.mark.skipif(INSTALLED, reason="timm is installed")
def test_without_timm_the_extra_is_named():
    with pytest.raises(MissingExtra, match="timm") as refused:
        build_model("timm:dm_nfnet_f0", **IMAGE)
    assert "discreet[timm]" in refused.value.remedy


def test_a_timm_that_cannot_be_imported_names_what_it_lacks(monkeypatch, tmp_path):
    """timm without torchvision is found but fails at import."""
    (tmp_path / "timm.py").write_text("import torchvision_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "timm", raising=False)
    assert importlib.util.find_spec("timm")
    with pytest.raises(MissingExtra, match="torchvision_that_is_not_there"):
        build_model("timm:dm_nfnet_f0", **IMAGE)


@needs_timm
@pytest.mark.parametrize(
    ("name", "options"), [("nf_resnet26", {}), ("resnet50_gn", {}), ("vit_tiny_patch16_224", {"img_size": 32})]
)
def test_per_record_gradients_of_timm_models(name, options):
    model = build_model(f"timm:{name}", **IMAGE, **options).double()
    x, labels = torch.randn(2, 3, 32, 32, dtype=torch.float64), torch.tensor([0, 2])
    assert worst_difference(vmapped(model, x, labels), one_by_one(model, x, labels)) < 1e-6


@needs_timm
@pytest.mark.parametrize(
    ("name", "options", "part"),
    [
        ("resnet18", {}, "mixes the records"),
        ("no_such_model", {}, "timm has no such model"),
        ("hf-hub:somebody/something", {}, "nothing is downloaded"),
        ("nf_resnet26", {"pretrained": True}, "not an option here"),
        ("nf_resnet26", {"weights": "nowhere.safetensors"}, "there is no file"),
        ("nf_resnet26", {"model": "resnet18"}, "its options are weights"),
    ],
)
def test_what_timm_may_not_do_is_refused(name, options, part):
    with pytest.raises(BadInput) as refused:
        build_model(f"timm:{name}", **IMAGE, **options)
    assert part in refused.value.fact


@needs_timm
def test_weights_come_from_a_local_file_but_for_the_classifier(tmp_path):
    import timm
    from safetensors.torch import save_file

    whole = timm.create_model("nf_resnet26", num_classes=1000).eval()
    save_file(whole.state_dict(), tmp_path / "weights.safetensors")
    model = build_model("timm:nf_resnet26", **IMAGE, weights=tmp_path / "weights.safetensors").eval()
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected = whole.forward_head(whole.forward_features(x), pre_logits=True)
        torch.testing.assert_close(model.features(x), expected)
    with pytest.raises(BadInput, match="do not fit"):
        build_model("timm:nf_resnet26", inputs=(1, 32, 32), classes=3, weights=tmp_path / "weights.safetensors")
