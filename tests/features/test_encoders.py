"""Frozen encoders as feature maps: ONNX files, transformers, timm, functions; alone as in a batch, hashed, refused."""

import hashlib
import importlib.util
import json
import pickle

import numpy as np
import pytest

from discreet import DPClassifier
from discreet.errors import BadInput
from discreet.features import (
    ImageEncoder,
    TextEncoder,
    build_feature_map,
    feature_map_from_json,
    read_feature_map,
    write_feature_map,
)
from discreet.privacy.certificate import verify, write_certificate
from discreet.testing import check_feature_map

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("transformers")

RNG = np.random.default_rng(0)
PICTURES = RNG.random((5, 3, 12, 12)).astype(np.float32)
GREY = RNG.random((5, 12, 12)).astype(np.float32)
TEXTS = ["the cat sat", "a dog ran home fast ! the cat ran home slowly . ! the cat sat on the mat", "mat", ""]
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran on mat home fast slowly . !"
STATED = "public data without these records"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small encoders with weights at random: a BERT, a ViT, a ResNet with batch normalisation."""
    import torch
    from transformers import BertConfig, BertModel, ResNetConfig, ResNetModel, ViTConfig, ViTModel

    place, small = tmp_path_factory.mktemp("encoders"), {"num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(1)
    bert = BertConfig(vocab_size=18, max_position_embeddings=32, hidden_size=16, intermediate_size=16, **small)
    BertModel(bert).save_pretrained(place / "bert")
    (place / "bert" / "vocab.txt").write_text(WORDS.replace(" ", "\n"))
    (place / "bert" / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    vit = ViTConfig(hidden_size=16, intermediate_size=16, image_size=16, patch_size=4, **small)
    ViTModel(vit).save_pretrained(place / "vit")
    reading = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}
    (place / "vit" / "preprocessor_config.json").write_text(json.dumps(reading))
    ViTModel(vit, add_pooling_layer=False).save_pretrained(place / "headless")
    ResNetModel(
        ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    ).save_pretrained(place / "resnet")
    return place


def onnx_file(path, nodes, *, shape=("n", 3, 12, 12), output=("n", 432), weights=None):
    from onnx import TensorProto, checker, helper, numpy_helper, save

    tensors = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(
        [helper.make_node(kind, list(taken), list(given), **more) for kind, taken, given, more in nodes],
        "encoder",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    save(model, path)
    return path


KERNEL = {
    "w": RNG.normal(size=(8, 3, 3, 3)).astype(np.float32),
    "p": RNG.normal(size=(800, 24)).astype(np.float32),
}
NETWORK = [
    ("Conv", ("x", "w"), ("c",), {}),
    ("Relu", ("c",), ("r",), {}),
    ("Flatten", ("r",), ("f",), {}),
    ("MatMul", ("f", "p"), ("y",), {}),
]


def network(path, batch="n"):
    return onnx_file(path, NETWORK, shape=(batch, 3, 12, 12), output=(batch, 24), weights=KERNEL)


def images(encoder, shape=(3, 12, 12), **options):
    return build_feature_map("image-encoder", shape=shape, encoder=encoder, **options)


@pytest.mark.parametrize("batch", ["n", 1, 4])
def test_an_onnx_file_keeps_the_contract(tmp_path, batch):
    path = network(tmp_path / "small.onnx", batch)
    check_feature_map(lambda: images(path), PICTURES)
    encoder = images(path)
    assert isinstance(encoder, ImageEncoder)
    expected = np.maximum(_convolved(PICTURES), 0).reshape(5, -1) @ KERNEL["p"]
    np.testing.assert_allclose(images(path, unit_length=False).transform(PICTURES), expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(encoder.transform(PICTURES), axis=1), 1, atol=1e-5)
    assert (encoder.output_shape, images(path, unit_length=False).norm_bound) == ((24,), None)


def _convolved(pictures):
    windows = np.lib.stride_tricks.sliding_window_view(pictures, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,kcij->nkhw", windows, KERNEL["w"])


@pytest.mark.parametrize("name", ["vit", "headless", "resnet"])
def test_a_transformers_model_of_pictures_keeps_the_contract(folder, name):
    check_feature_map(lambda: images(folder / name), PICTURES)


def test_a_picture_is_prepared_as_the_model_declares(folder):
    """Against transformers itself, fed by hand."""
    import torch
    from transformers import ViTModel

    encoder = images(folder / "vit", (12, 12), unit_length=False)
    assert (encoder.resize, encoder.channels, encoder.std) == ((16, 16), 3, (0.2, 0.3, 0.4))
    coloured = torch.tensor(GREY)[:, None].repeat(1, 3, 1, 1)
    bigger = torch.nn.functional.interpolate(coloured, (16, 16), mode="bilinear", antialias=True)
    mean, std = (torch.tensor(values)[:, None, None] for values in ([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]))
    with torch.inference_mode():
        model = ViTModel.from_pretrained(folder / "vit", attn_implementation="eager").eval()
        expected = model((bigger - mean) / std).pooler_output
    np.testing.assert_allclose(encoder.transform(GREY), expected.numpy(), atol=1e-5)


def test_a_sentence_encoder_keeps_the_contract(folder):
    def make():
        return build_feature_map("text-encoder", encoder=folder / "bert", max_length=16, pretraining=STATED)

    check_feature_map(make, TEXTS, nulls=[None, 7])
    assert isinstance(make(), TextEncoder)
    on_top = build_feature_map("random-fourier", base=make(), size=32)
    check_feature_map(lambda: on_top, TEXTS, nulls=[None, 7])
    assert make().identity()["encoder"] == on_top.identity()["encoder"]


def test_a_function_is_an_encoder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_encoders.py").write_text(
        "import numpy as np\n"
        "def corners(x): return x[:, :2, :2].reshape(len(x), -1)\n"
        "def lengths(texts): return np.array([[len(text), 1.0] for text in texts])\n"
        "def scaled(x): return x.reshape(len(x), -1) / (1 + abs(x).max())\n"
        "def flat(x): return x.sum()\n"
    )
    corners = images("own_encoders:corners", (12, 12))
    check_feature_map(lambda: corners, GREY)
    check_feature_map(lambda: build_feature_map("text-encoder", encoder="own_encoders:lengths"), TEXTS, nulls=[None])
    digest = hashlib.sha256((tmp_path / "own_encoders.py").read_bytes()).hexdigest()
    facts = {"hash_of": "source of a module", "sha256": digest, "pretraining": "not stated"}
    assert corners.identity()["encoder"] == facts
    with pytest.raises(BadInput, match="depends on the records beside it"):
        images("own_encoders:scaled", (12, 12))
    with pytest.raises(BadInput, match="not one vector a record"):
        images("own_encoders:flat", (12, 12))
    with pytest.raises(BadInput, match="cannot be imported"):
        images("own_encoders:missing", (12, 12))
    with pytest.raises(BadInput, match="not those that the map was made with"):
        corners.located("own_encoders:flat").transform(GREY)


MIXING = {
    "DynamicQuantizeLinear": [
        ("DynamicQuantizeLinear", ("x",), ("q", "s", "z"), {}),
        ("DequantizeLinear", ("q", "s", "z"), ("d",), {}),
        ("Flatten", ("d",), ("y",), {}),
    ],
    "RandomNormalLike": [
        ("RandomNormalLike", ("x",), ("r",), {}),
        ("Add", ("x", "r"), ("a",), {}),
        ("Flatten", ("a",), ("y",), {}),
    ],
    "depends on the records beside it": [
        ("ReduceMean", ("x",), ("m",), {"axes": [0]}),
        ("Sub", ("x", "m"), ("d",), {}),
        ("Flatten", ("d",), ("y",), {}),
    ],
    "not one vector a record": [("Relu", ("x",), ("y",), {})],
}


@pytest.mark.parametrize("says", MIXING)
def test_an_onnx_file_that_mixes_records_is_refused(tmp_path, says):
    output = ("n", 3, 12, 12) if says.startswith("not one") else ("n", 432)
    path = onnx_file(tmp_path / "mixing.onnx", MIXING[says], output=output)
    with pytest.raises(BadInput, match=says):
        images(path)


def test_a_dynamically_quantised_network_is_refused(tmp_path):
    """As onnxruntime's own tool writes it."""
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(network(tmp_path / "small.onnx"), tmp_path / "quick.onnx")
    with pytest.raises(BadInput, match="DynamicQuantizeLinear finds scales in a whole batch"):
        images(tmp_path / "quick.onnx")


def test_a_map_is_stored_without_its_place_and_compares_the_hash(tmp_path, folder):
    path = network(tmp_path / "small.onnx")
    made = images(path, pretraining=STATED)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert made.identity()["encoder"] == {"hash_of": "weights", "sha256": digest, "pretraining": STATED}
    write_feature_map(tmp_path / "map.json", made)
    assert str(tmp_path) not in (tmp_path / "map.json").read_text()
    assert read_feature_map(tmp_path / "map.json") == made
    with pytest.raises(BadInput, match="where the encoder is was not said"):
        read_feature_map(tmp_path / "map.json").transform(PICTURES)
    moved = path.rename(tmp_path / "moved" / "small.onnx") if (tmp_path / "moved").mkdir() is None else None
    again = read_feature_map(tmp_path / "map.json", encoder=moved)
    assert np.array_equal(again.transform(PICTURES), pickle.loads(pickle.dumps(again)).transform(PICTURES))
    moved.write_bytes(moved.read_bytes() + b"\0")
    with pytest.raises(BadInput, match="not those that the map was made with"):
        read_feature_map(tmp_path / "map.json", encoder=moved).transform(PICTURES)
    for change in ({"encoder": {}}, {"options": made.options() | {"files": {}}}):
        with pytest.raises(BadInput):
            feature_map_from_json(made.identity() | change)
    weights = hashlib.sha256((folder / "bert" / "model.safetensors").read_bytes()).hexdigest()
    assert (
        build_feature_map("text-encoder", encoder=folder / "bert", max_length=16).encoder_facts()["sha256"] == weights
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"encoder": "google/vit-base"}, "nothing is downloaded"),
        ({"encoder": "no_such_module_here:function"}, "no source here"),
        ({}, "no encoder is named"),
        ({"encoder": "small.onnx", "output": "z"}, "Its outputs: y"),
        ({"encoder": "small.onnx", "pretraining": "a, b"}, "a certificate takes"),
        ({"encoder": "small.onnx", "std": [0.0]}, "not above 0"),
        ({"encoder": "small.onnx", "shape": (2, 12, 12)}, "2 channels, and the encoder takes 3"),
        ({"encoder": "small.onnx", "shape": (7,)}, "not pictures"),
        ({"encoder": "small.onnx", "resize": 9}, "does not take records of this shape"),
        ({"encoder": "broken.onnx"}, "no ONNX file"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, monkeypatch, options, says):
    monkeypatch.chdir(tmp_path)
    network(tmp_path / "small.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    with pytest.raises(BadInput, match=says):
        build_feature_map("image-encoder", **{"shape": (3, 12, 12)} | options)


def test_weights_that_are_missing_are_refused_not_drawn(folder, tmp_path):
    from safetensors.torch import load_file, save_file

    for name, build in {
        "vit": images,
        "bert": lambda place: build_feature_map("text-encoder", encoder=place, max_length=16),
    }.items():
        place = tmp_path / name
        place.mkdir()
        for file in (folder / name).iterdir():
            (place / file.name).write_bytes(file.read_bytes())
        state = load_file(place / "model.safetensors")
        lost = next(key for key in state if "layer" in key and "weight" in key)
        save_file({key: value for key, value in state.items() if key != lost}, place / "model.safetensors")
        with pytest.raises(BadInput, match="1 of its tensors are in none of its files"):
            build(place)


def _has_timm():
    try:
        import timm  # noqa: F401
    except ImportError:
        return False
    return importlib.util.find_spec("timm") is not None


@pytest.mark.skipif(not _has_timm(), reason="timm needs torchvision, which has no wheel for this torch")
def test_a_timm_network_keeps_the_contract(tmp_path):
    import timm
    from safetensors.torch import save_file

    network = timm.create_model("resnet10t", pretrained=False).eval()  # with batch normalisation: it is frozen
    save_file(network.state_dict(), tmp_path / "model.safetensors")
    reading = {"input_size": [3, 32, 32], "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "resnet10t", "pretrained_cfg": reading}))
    check_feature_map(lambda: images(tmp_path), PICTURES)
    file = images(tmp_path / "model.safetensors", model="resnet10t", mean=[0.5], std=[0.5], resize=32)
    assert np.array_equal(file.transform(PICTURES), images(tmp_path).transform(PICTURES))


def test_a_classifier_learns_on_a_frozen_encoder(tmp_path):
    """Pictures that are bright above or below; the same as on the features themselves."""
    path, rng = network(tmp_path / "small.onnx"), np.random.default_rng(1)
    x, y = rng.random((240, 3, 12, 12)).astype(np.float32), rng.integers(0, 2, 240)
    x[y == 1, :, :6] += 2
    x[y == 0, :, 6:] += 2
    common = {"epsilon": 20, "delta": 1e-3, "classes": [0, 1], "settings": "auto", "simulation_seed": 1}
    options = {"encoder": path, "pretraining": STATED}
    model = DPClassifier(features="image-encoder", feature_options=options, inputs=(3, 12, 12), **common)
    model.fit(x.reshape(240, -1), y)
    assert model.score(x.reshape(240, -1), y) > 0.9
    certificate = model.certificate()
    assert certificate["features"]["encoder"]["pretraining"] == STATED
    write_certificate(certificate, tmp_path / "certificate.json")
    assert {check.name: check.ok for check in verify(tmp_path / "certificate.json").checks}["form"]
    certificate["features"]["encoder"]["pretraining"] = "none\nVERIFIED"
    write_certificate(certificate, tmp_path / "certificate.json")
    assert not {check.name: check.ok for check in verify(tmp_path / "certificate.json").checks}["form"]


def test_an_encoder_that_cannot_be_read_makes_no_nulls(folder, monkeypatch):
    """A null would be kept, and say of each record that it is none, for a cause that is not in the records."""
    import transformers

    from discreet.features import text_encoder

    form = build_feature_map("text-encoder", encoder=folder / "bert", max_length=16).to_json()
    text_encoder._opened_texts.cache_clear()

    def fails(*_args, **_options):
        raise OSError(24, "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(transformers.AutoModel, "from_pretrained", fails)
        with pytest.raises(BadInput, match=r"could not be read \(OSError\)"):
            feature_map_from_json(form).located(folder / "bert").readable(TEXTS)
    assert feature_map_from_json(form).located(folder / "bert").readable(TEXTS)[1].all()


@pytest.mark.parametrize("place", ["weights", "constant", "branch"])
def test_weights_in_another_file_are_refused_wherever_they_are(tmp_path, place):
    """The hash of the ONNX file would not vouch for them."""
    from onnx import TensorProto, helper, numpy_helper

    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 3], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="w.bin")
    x, y, inner = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ("n", n)) for name, n in (("x", 4), ("y", 3), ("o", 3))
    )
    product = helper.make_node("MatMul", ["x", "w"], ["o" if place == "branch" else "y"])
    nodes, tensors = [product], [weights]
    if place == "constant":
        nodes, tensors = [helper.make_node("Constant", [], ["w"], value=weights), product], []
    if place == "branch":
        branch = helper.make_graph([product], "branch", [], [inner], [weights])
        nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
        tensors = [numpy_helper.from_array(np.array(True), "c")]
    graph = helper.make_graph(nodes, "encoder", [x], [y], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(BadInput, match="its weights are in another file"):
        images(tmp_path / "m.onnx", shape=4)
