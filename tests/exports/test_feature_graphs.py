"""Feature maps in ONNX files: records in, and what the model says of them out; other maps take features."""

import numpy as np
import pytest
import torch

from discreet.exports.feature_graphs import graph_of, made_up_records
from discreet.features import build_feature_map

SCHEMA = {
    "age": {"type": "number", "low": 0, "high": 90},
    "pay": {"type": "number", "low": -3, "high": 1000, "fill": 10, "outside": "missing"},
    "day": {"type": "date", "low": "2020-01-01", "high": "2021-01-01", "missing": "null"},
    "job": {"type": "category", "values": ["a", "b", "c"]},
    "sex": {"type": "category", "values": ["f", "m"], "missing": "null", "outside": "missing"},
    "said": {"type": "text"},
}
CROSSES = [["age", "job"], ["day", "sex", "pay"]]
EDGES = {"age": [0, 18, 18, 67.3, 90], "pay": [100.1], "day": [18300, 18400.5]}
TABLES = ("bins", "spline", "standardise", "one-hot")


def table_map(name, **options):
    return build_feature_map(name, schema=SCHEMA, edges=EDGES, crosses=CROSSES, **options)


MAPS = {name: table_map(name) for name in TABLES}
MAPS |= {"fourier of bins": build_feature_map("random-fourier", base=MAPS["bins"], size=32)}
MAPS |= {"fourier": build_feature_map("random-fourier", shape=(2, 3), size=32, lengthscale=2.0)}


@pytest.mark.parametrize("name", MAPS)
def test_a_graph_says_what_the_map_says(name):
    feature_map = MAPS[name]
    records = made_up_records(feature_map, 300)
    records[7].flat[0] = np.nan
    if records.ndim == 2:  # numbers that are the input of an edge, and the ends; a row of zeros is a record, too
        lowest = feature_map.record_map
        place = np.float32((18 - 45) / 45)
        for row, cell in enumerate((place, np.nextafter(place, np.float32(1)), -1, 1)):
            records[row, :2] = (cell, 0)
        records[5] = 0
        assert lowest.schema.width == records.shape[1]
        assert (records[:, 1] == 1).any()  # some are missing
    values, fine = graph_of(feature_map)(torch.from_numpy(records))
    expected, present = feature_map.of_inputs(records)
    assert np.array_equal(fine.numpy().ravel(), present)
    assert not present[7]
    assert np.allclose(values.numpy()[present], expected[present], atol=2e-6)
    assert len(np.unique(expected[present], axis=0)) > 100


def test_maps_without_a_graph():
    scattering = build_feature_map("scattering", shape=(8, 8), angles=2)
    assert graph_of(scattering) is None
    assert graph_of(build_feature_map("hashed-text")) is None
    assert graph_of(build_feature_map("random-fourier", base=scattering, size=8)) is None


def test_features_that_are_not_finite_are_a_null_in_a_network_too(tmp_path):
    """A picture whose vector overflows is a null of the map, so it is one of the graph."""
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **small)).save_pretrained(tmp_path / "vit")
    feature_map = build_feature_map("image-encoder", shape=(3, 8, 8), encoder=tmp_path / "vit")
    records = np.stack([np.full((3, 8, 8), value, dtype=np.float32) for value in (0.5, 3e38)])
    expected, present = feature_map.of_inputs(records)
    values, fine = graph_of(feature_map)(torch.from_numpy(records))
    assert present.tolist() == fine.numpy().ravel().tolist() == [True, False]
    assert np.allclose(values.numpy(), expected, atol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MAPS)
def test_an_onnx_file_takes_records(name, tmp_path):
    from discreet.exports.side_files import write_onnx_of_records
    from discreet.models import build_model
    from discreet.recipes.feature_rows import MapReader
    from discreet.recipes.record_predictor import RecordPredictor

    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    feature_map = MAPS[name]
    module = build_model("linear", inputs=feature_map.output_shape, classes=3)
    with torch.no_grad():
        for weights in module.parameters():
            weights.normal_(std=3.0)
    model = RecordPredictor(module, reader=MapReader(feature_map), task="multiclass", device="cpu")
    assert write_onnx_of_records(model, feature_map, tmp_path / "m.onnx")
    records = made_up_records(feature_map, 50)
    records[3].flat[0] = np.inf
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, {"records": records})[0], model.predict_proba(records), atol=1e-5)
