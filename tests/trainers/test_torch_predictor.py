"""A torch module as a predictor: probabilities, draws, features; stored without pickle."""

import copy
import logging
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from discreet.errors import BadInput, InvalidCheckpoint
from discreet.models import build_model
from discreet.models import layers as split
from discreet.models.small_networks import SmallCNN
from discreet.trainers import torch_predictor
from discreet.trainers.torch_predictor import TorchPredictor

ROWS = np.random.default_rng(0).normal(size=(25, 6))


def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 3))


def test_probabilities_in_pieces_are_those_of_the_whole():
    whole, pieces = TorchPredictor(plain()), TorchPredictor(plain(), rows=7)
    np.testing.assert_allclose(pieces.predict_proba(ROWS), whole.predict_proba(ROWS), rtol=1e-6)
    np.testing.assert_allclose(whole.predict_proba(ROWS).sum(axis=1), 1, rtol=1e-6)
    assert whole.predict(ROWS).shape == (25,)
    assert whole.predict_proba(ROWS[:0]).shape == (0, 3)
    labels = TorchPredictor(plain(), task="multilabel")
    assert labels.predict(ROWS).shape == (25, 3)
    assert labels.predict_proba(ROWS).sum(axis=1).std() > 0
    with pytest.raises(BadInput):
        TorchPredictor(plain(), task="regression")


@pytest.mark.parametrize("model", [plain, lambda: build_model("mlp", inputs=(6,), classes=3, dropout=0.5)])
def test_draws_differ_are_repeatable_and_average_out(model):
    predictor = TorchPredictor(model(), rows=10)
    state = torch.random.get_rng_state()
    draws = predictor.sample_proba(ROWS, 200)
    assert draws.shape == (200, 25, 3)
    assert draws.std(axis=0).max() > 0.01
    assert torch.equal(state, torch.random.get_rng_state())
    np.testing.assert_array_equal(draws, predictor.sample_proba(ROWS, 200))
    assert not np.array_equal(draws, predictor.sample_proba(ROWS, 200, seed=1))
    np.testing.assert_allclose(draws.mean(axis=0), predictor.predict_proba(ROWS), atol=0.12)


def test_a_model_without_dropout_has_nothing_to_draw():
    with pytest.raises(BadInput, match="dropout"):
        TorchPredictor(nn.Linear(6, 3)).sample_proba(ROWS, 3)
    with pytest.raises(BadInput):
        TorchPredictor(plain()).sample_proba(ROWS, 0)


def test_features_come_from_the_seam_or_from_before_the_last_layer():
    module = plain().eval()
    expected = module[:3](torch.from_numpy(ROWS).float()).detach().numpy()
    np.testing.assert_allclose(TorchPredictor(module).embed(ROWS), expected, rtol=1e-6)
    assert TorchPredictor(build_model("mlp", inputs=(6,), classes=3, hidden=(5,))).embed(ROWS).shape == (25, 5)
    with pytest.raises(BadInput):
        TorchPredictor(nn.Flatten()).embed(ROWS)


def test_it_is_stored_and_read_back(tmp_path):
    first = TorchPredictor(plain())
    first.save(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"model.json", "weights.safetensors"}
    torch.manual_seed(9)
    other = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 3))
    again = TorchPredictor.load(tmp_path / "model", other)
    np.testing.assert_array_equal(first.predict_proba(ROWS), again.predict_proba(ROWS))
    for wrong in (nn.Linear(6, 3), nn.Sequential()):
        with pytest.raises(InvalidCheckpoint):
            TorchPredictor.load(tmp_path / "model", wrong)
    weights = tmp_path / "model" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(InvalidCheckpoint):
        TorchPredictor.load(tmp_path / "model", other)
    with pytest.raises(InvalidCheckpoint):
        TorchPredictor.load(tmp_path / "nowhere", other)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_trains_what_the_cpu_does():
    from training_runs import blobs, phase_of, trained

    runs = [
        trained(build_model("mlp", inputs=(5,), classes=3), {"a": blobs(40)}, phase_of({"a": 0.5}), device=device)
        for device in ("cpu", "cuda")
    ]
    assert next(runs[1].predictor.module.parameters()).is_cuda
    np.testing.assert_allclose(runs[0].inputs()[0], runs[1].inputs()[0], rtol=1e-3, atol=1e-4)


MODELS = {
    "linear": ("linear", (3, 4), {}),
    "mlp": ("mlp", (3, 4), {"hidden": (8, 5)}),
    "embedding_head": ("embedding_head", (7,), {}),
    "small_cnn": ("small_cnn", (1, 28, 28), {}),
    "small_cnn, odd": ("small_cnn", (2, 15, 18), {"activation": "relu"}),
    "small_cnn, mish": ("small_cnn", (3, 14, 13), {"activation": "mish"}),
    "resnet9": ("resnet9", (3, 17, 16), {"width": 4}),
    "resnet9, relu": ("resnet9", (1, 16, 19), {"width": 4, "activation": "relu"}),
    "equivariant": ("equivariant_resnet9", (1, 16, 17), {"width": 2, "group": "c4"}),
}
BLOCKED = pytest.mark.skipif(not torch._C._has_mkldnn, reason="this torch is without oneDNN")


def built(case, *, dropout=0.25, classes=3):
    name, inputs, options = MODELS[case]
    return build_model(name, inputs=inputs, classes=classes, dropout=dropout, **options).eval()


def records(shape, count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, *shape)).astype(np.float32)


def plainly(module, x):
    with torch.no_grad():
        return module(torch.as_tensor(np.array(x), dtype=torch.float32)).softmax(1).numpy()


class Viewing(nn.Module):
    """Looks at maps as if they were in the usual order, and fails in any other."""

    def __init__(self):
        super().__init__()
        self.conv, self.linear = nn.Conv2d(2, 4, 3), nn.Linear(4 * 36, 3)

    def forward(self, x):
        return self.linear(self.conv(x).view(len(x), -1))


class Assuming(Viewing):
    """Assumes the usual order without failing: other numbers in any other."""

    def forward(self, x):
        maps = self.conv(x)
        return self.linear(maps.as_strided((len(x), 144), (144, 1)))


class Returning(nn.Module):
    """Gives views of what it was given."""

    def forward(self, x):
        return x.flatten(1)[:, ::2]


class Writing(nn.Module):
    """Writes into what it is given."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x):
        return self.linear(x.mul_(2).relu_())


class WritingPictures(SmallCNN):
    """Writes into what it is given, before it does what it may do in any layout."""

    def forward(self, x):
        return super().forward(x.mul_(2))


class Particular(nn.Module):
    """Takes no numbers beyond 1, and so no made-up ones."""

    def __init__(self):
        super().__init__()
        self.conv, self.linear = nn.Conv2d(1, 4, 3), nn.Linear(16, 3)

    def forward(self, x):
        if x.abs().max() > 1:
            raise ValueError("not a picture")
        return self.linear(self.conv(x).relu().flatten(1))


@pytest.mark.parametrize("case", MODELS)
def test_every_model_gives_what_the_plain_module_gives(case):
    module, shape = built(case), MODELS[case][1]
    x = records(shape, 41)
    with torch.no_grad():
        features = module.features(torch.from_numpy(x)).flatten(1).numpy()
    for rows in (None, 16, 7):
        predictor = TorchPredictor(module, rows=rows, device="cpu")
        for count in (41, 16, 1, 0):
            found = predictor.predict_proba(x[:count])
            assert found.shape == (count, 3)
            np.testing.assert_allclose(found, plainly(module, x[:count]), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(predictor.embed(x), features, rtol=1e-4, atol=1e-4)
        assert predictor.sample_proba(x[:0], 2).shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("module", "shape", "layout"),
    [
        pytest.param(lambda: built("small_cnn"), (1, 28, 28), "blocked", marks=BLOCKED),
        pytest.param(lambda: built("small_cnn, odd"), (2, 15, 18), "blocked", marks=BLOCKED),
        (lambda: built("small_cnn, mish"), (3, 14, 13), "channels_last"),
        (lambda: built("resnet9"), (3, 17, 16), "channels_last"),
        (lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.LazyLinear(3)), (1, 8, 8), None),
        (lambda: built("mlp"), (3, 4), "plain"),
        (Viewing, (2, 8, 8), "plain"),
        (Assuming, (2, 8, 8), "plain"),
        (Returning, (2, 3, 3), "plain"),
    ],
)
def test_a_layout_is_used_where_it_gives_the_same(module, shape, layout):
    torch.manual_seed(0)
    module = module()
    x = records(shape, 20)
    module(torch.from_numpy(x))  # a lazy layer finds its width
    predictor = TorchPredictor(module, device="cpu")
    found = predictor.predict_proba(x)
    np.testing.assert_allclose(found, plainly(module, x), rtol=1e-5, atol=1e-5)
    (way,) = predictor._scoring._strategies.values()
    assert way.layout == (layout or "channels_last")


def test_a_module_that_made_up_records_break_runs_as_it_is():
    torch.manual_seed(0)
    module, x = Particular(), np.clip(records((1, 4, 4), 19), -1, 1)
    predictor = TorchPredictor(module, device="cpu")
    np.testing.assert_allclose(predictor.predict_proba(x), plainly(module, x), rtol=1e-5)
    (way,) = predictor._scoring._strategies.values()
    assert way == torch_predictor.ExecutionStrategy(rows=torch_predictor.UNKNOWN_ROWS)


def test_made_up_records_take_nothing_from_a_modules_own_luck():
    class Lucky(nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    predictor, x, found = TorchPredictor(Lucky(), device="cpu"), records((3,), 19), []
    for _ in range(2):
        torch.manual_seed(3)
        found.append(predictor.predict_proba(x))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("case", ["small_cnn", "small_cnn, odd", "resnet9"])
def test_a_row_is_the_same_in_any_company(case):
    module, shape = built(case), MODELS[case][1]
    x = records(shape, 40)
    predictor = TorchPredictor(module, device="cpu")
    together = predictor.predict_proba(x)
    order = np.random.default_rng(1).permutation(40)
    np.testing.assert_allclose(predictor.predict_proba(x[order]), together[order], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        np.concatenate([predictor.predict_proba(x[[i]]) for i in range(40)]), together, atol=1e-5
    )
    for others in (1e3 * x, np.zeros_like(x), np.full_like(x, np.nan), np.full_like(x, 3e38)):
        others[::3] = x[::3]
        np.testing.assert_array_equal(predictor.predict_proba(others)[::3], together[::3])


@pytest.mark.parametrize("case", ["small_cnn", "small_cnn, odd"])
def test_what_is_no_number_stays_so(case):
    module, shape = built(case), MODELS[case][1]
    x = records(shape, 22)
    x[1, 0, 3, 3], x[4, 0, 0, 0], x[7], x[9, -1, -1, -1] = np.nan, np.inf, 1e30, -np.inf
    expected = plainly(module, x)
    assert np.isnan(expected[1]).all()
    predictor = TorchPredictor(module, device="cpu")
    np.testing.assert_allclose(predictor.predict_proba(x), expected, rtol=1e-5, atol=1e-5)
    for broken in (np.nan, np.inf, 1e38):
        with torch.no_grad():
            module.second[0].weight[0, 0, 0, 0] = broken
        np.testing.assert_allclose(predictor.predict_proba(x), plainly(module, x), rtol=1e-5, atol=1e-5)


def test_rows_come_in_many_forms():
    module = built("small_cnn")
    x = records((1, 28, 28), 30)
    expected, predictor = plainly(module, x), TorchPredictor(module, device="cpu")
    sealed = x.copy()
    sealed.flags.writeable = False
    big = x.astype(">f4")
    strided = np.repeat(x, 2, axis=0)[::2]
    for given in (
        x,
        sealed,
        big,
        x.astype(np.float64),
        strided,
        torch.from_numpy(x),
        x.tolist(),
        torch.tensor(x).double(),
    ):
        np.testing.assert_allclose(predictor.predict_proba(given), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(predictor.predict_proba(x[::-1]), expected[::-1], rtol=1e-5, atol=1e-6)
    channels = torch.from_numpy(records((3, 17, 16), 19)).to(memory_format=torch.channels_last).requires_grad_()
    residual = built("resnet9")
    found = TorchPredictor(residual, device="cpu").predict_proba(channels)
    np.testing.assert_allclose(found, plainly(residual, channels.detach().numpy()), rtol=1e-5, atol=1e-5)


def test_records_may_be_dicts():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.linear = nn.Embedding(5, 4), nn.Linear(6, 3)

        def forward(self, x):
            return self.linear(torch.cat([self.words(x["word"]), x["more"]], 1))

    torch.manual_seed(0)
    module = Two()
    x = {"word": np.arange(23) % 5, "more": records((2,), 23)}
    whole = TorchPredictor(module, device="cpu").predict_proba(x)
    with torch.no_grad():
        expected = module({name: torch.from_numpy(part) for name, part in x.items()}).softmax(1).numpy()
    np.testing.assert_allclose(whole, expected, rtol=1e-5)
    np.testing.assert_allclose(TorchPredictor(module, rows=4, device="cpu").predict_proba(x), expected, rtol=1e-5)


@pytest.mark.parametrize("form", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("shape", [(6,), (1, 14, 14)])
def test_a_module_that_writes_into_its_input_does_not_reach_the_pool(form, shape):
    torch.manual_seed(0)
    x = records(shape, 20)
    kept, module = x.copy(), Writing() if shape == (6,) else WritingPictures(inputs=shape, classes=3, dropout=0)
    found = TorchPredictor(module, device="cpu").predict_proba(form(x))
    np.testing.assert_array_equal(x, kept)
    np.testing.assert_allclose(found, plainly(module, kept.copy()), rtol=1e-5)


@pytest.mark.parametrize("case", ["small_cnn", "resnet9"])
def test_the_module_is_left_as_it_was(case, tmp_path):
    module, x = built(case), records(MODELS[case][1], 20)
    predictor = TorchPredictor(module, device="cpu")
    before = {path.name: path.read_bytes() for path in predictor.save(tmp_path / "before").iterdir()}
    facts = [(name, one.data_ptr(), one.stride(), one._version) for name, one in module.named_parameters()]
    rng = torch.random.get_rng_state()
    predictor.predict_proba(x), predictor.embed(x), predictor.sample_proba(x, 3)
    assert torch.equal(rng, torch.random.get_rng_state())
    assert facts == [(name, one.data_ptr(), one.stride(), one._version) for name, one in module.named_parameters()]
    assert "features" not in module.__dict__
    assert not any(layer._forward_hooks or layer._forward_pre_hooks or layer.training for layer in module.modules())
    assert before == {path.name: path.read_bytes() for path in predictor.save(tmp_path / "after").iterdir()}
    again = TorchPredictor.load(tmp_path / "after", built(case), device="cpu")
    np.testing.assert_array_equal(again.predict_proba(x), predictor.predict_proba(x))
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(1.5)  # scoring follows the weights, though the way was found with others
    np.testing.assert_allclose(predictor.predict_proba(x), plainly(module, x), rtol=1e-5, atol=1e-5)


def test_pieces_follow_from_what_layers_put_out():
    found = [torch_predictor.rows_for(size) for size in (0, 4, 16 * 13 * 13 * 4, 1 << 19, 1 << 30)]
    assert found == [torch_predictor.MOST_ROWS, torch_predictor.MOST_ROWS, 1536, 32, torch_predictor.FEWEST_ROWS]
    sizes = []
    module = nn.Sequential(nn.Linear(6, 1 << 15), nn.Linear(1 << 15, 3))
    predictor = TorchPredictor(module, device="cpu")
    predictor.predict_proba(records((6,), 16))
    module.register_forward_hook(lambda _, given, __: sizes.append(len(given[0])))
    predictor.predict_proba(records((6,), 200))
    assert sizes == [128, 72]  # 128 KiB a record


def test_a_model_that_gives_no_row_a_record_is_refused():
    class Mean(nn.Module):
        def forward(self, x):
            return x.mean(0, keepdim=True)

    with pytest.raises(BadInput, match="a row a record"):
        TorchPredictor(Mean(), device="cpu").predict_proba(records((3,), 5))


def test_what_cannot_be_compiled_runs_as_it_is_and_says_so_once(monkeypatch, caplog):
    def broken(*_, **__):
        raise RuntimeError("compiler of 31415 records")

    monkeypatch.setattr(torch, "compile", broken)
    module, x = built("resnet9"), records((3, 17, 16), 20)
    predictor = TorchPredictor(module, compile=True, device="cpu")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            np.testing.assert_allclose(predictor.predict_proba(x), plainly(module, x), rtol=1e-5, atol=1e-5)
    (record,) = caplog.records
    assert record.getMessage() == "ResNet9 cannot be compiled (RuntimeError); it runs as it is"


def test_full_pieces_run_compiled_with_the_weights_of_the_day(monkeypatch):
    sizes = []

    def counting(function, **options):
        assert options == {"dynamic": False}

        def run(piece):
            sizes.append(len(piece))
            return function(piece)

        return run

    monkeypatch.setattr(torch, "compile", counting)
    module, x = built("small_cnn"), records((1, 28, 28), 20)
    predictor = TorchPredictor(module, compile=True, rows=8, device="cpu")
    np.testing.assert_allclose(predictor.predict_proba(x), plainly(module, x), rtol=1e-5, atol=1e-6)
    assert sizes == [8, 8, 8]  # made-up records, two full pieces; the last four rows run as they are
    with torch.no_grad():
        module.first[1].weight.mul_(2)
    np.testing.assert_allclose(predictor.predict_proba(x), plainly(module, x), rtol=1e-5, atol=1e-6)
    predictor.embed(x)
    assert predictor.sample_proba(x, 2).shape == (2, 20, 3)
    assert len(sizes) == 3 + 2 + 3 + 2  # features are compiled once, for both


def test_a_copy_finds_its_own_ways(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    predictor, x = TorchPredictor(built("resnet9"), compile=True, rows=8, device="cpu"), records((3, 17, 16), 16)
    predictor.predict_proba(x)
    for other in (copy.deepcopy(predictor), pickle.loads(pickle.dumps(predictor))):
        with torch.no_grad():
            other.module.head.linear.weight.mul_(2)  # a compiled module that was copied would not follow
        np.testing.assert_allclose(other.predict_proba(x), plainly(other.module, x), rtol=1e-5, atol=1e-5)


def dropping_head(kind, rate):
    if kind == "ours":
        return split.Head(width=8, classes=8, dropout=rate)
    layers = [nn.Dropout(rate), nn.Linear(8, 8)]
    return nn.Sequential(*layers) if kind == "theirs" else nn.Sequential(*layers, nn.Identity())


@pytest.mark.parametrize(("kind", "rate"), [("ours", 0.3), ("ours", 0.25), ("theirs", 0.9), ("another", 0.3)])
@pytest.mark.parametrize("at_once", [500, 7])
def test_draws_have_the_moments_of_dropout(kind, rate, at_once, monkeypatch):
    """Where the affine layer is the identity an output is a unit: 0, or 1 / (1 - p) with probability 1 - p."""
    monkeypatch.setattr(split, "DRAWN_BYTES", 40 * 8 * 4 * at_once)
    head = dropping_head(kind, rate)
    affine = head.linear if kind == "ours" else head[1]
    with torch.no_grad():
        affine.weight.copy_(torch.eye(8))
        affine.bias.zero_()
        torch.manual_seed(1)
        drawn = split.head_draws(head, torch.ones(40, 8), 500)
    assert drawn.shape == (500, 40, 8)
    kept = (drawn > 0).double()
    torch.testing.assert_close(drawn.double(), kept / (1 - rate), rtol=1e-3, atol=1e-6)
    variance = rate * (1 - rate)
    assert abs(kept.mean() - (1 - rate)) < 5 * (variance / kept.numel()) ** 0.5
    centred = kept - kept.mean()
    for shift in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 4), (7, 0, 0), (250, 20, 4)):
        other = centred.roll(shift, (0, 1, 2))
        assert abs((centred * other).mean()) < 5 * variance / kept.numel() ** 0.5  # independent of every neighbour


def test_draws_share_one_pass_of_the_trunk():
    module, x = built("small_cnn", dropout=0.5), records((1, 28, 28), 50)
    sizes = []
    module.dense.register_forward_hook(lambda _, given, __: sizes.append(len(given[0])))
    predictor = TorchPredictor(module, rows=32, device="cpu")
    predictor.embed(x)
    sizes.clear()
    draws = predictor.sample_proba(x, 300)
    assert sizes == [32, 18]
    np.testing.assert_array_equal(draws, predictor.sample_proba(x, 300))
    assert not np.array_equal(draws[0], draws[1])
    np.testing.assert_allclose(draws.sum(axis=2), 1, rtol=1e-5)
    np.testing.assert_allclose(draws.mean(axis=0), predictor.predict_proba(x), atol=0.05)


def test_dropout_before_the_seam_is_drawn_by_whole_passes():
    class Early(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.conv, self.head = nn.Dropout2d(0.5), nn.Conv2d(4, 4, 3), nn.Linear(16, 3)

        def features(self, x):
            return self.conv(self.drop(x)).flatten(1)

        def forward(self, x):
            return self.head(self.features(x))

    torch.manual_seed(0)
    predictor, x = TorchPredictor(Early(), device="cpu", rows=16), records((4, 4, 4), 20)
    draws = predictor.sample_proba(x, 6)
    assert len(np.unique(draws[:, 0], axis=0)) > 1
    np.testing.assert_array_equal(draws, predictor.sample_proba(x, 6))
    np.testing.assert_allclose(predictor.predict_proba(x), plainly(predictor.module, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rate", [1.0, 1e-7, 0.99999])
def test_dropout_rates_at_the_ends(rate):
    head = split.Head(width=6, classes=3, dropout=rate)
    with torch.no_grad():
        drawn = split.head_draws(head, torch.randn(5, 6), 20)
    assert torch.isfinite(drawn).all()
    if rate == 1:
        torch.testing.assert_close(drawn, head.linear.bias.detach().expand(20, 5, 3))


@pytest.mark.parametrize("classes", [2, 10, 15, 16, 40])
def test_probabilities_are_softmax_for_any_number_of_classes(classes):
    torch.manual_seed(0)
    module, x = nn.Linear(4, classes), 30 * records((4,), 50)
    found = TorchPredictor(module, device="cpu").predict_proba(x)
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, plainly(module, x), rtol=1e-5, atol=1e-7)
    alone = [TorchPredictor(nn.Identity(), device="cpu").predict_proba(x[place : place + 1]) for place in range(50)]
    np.testing.assert_array_equal(np.concatenate(alone), TorchPredictor(nn.Identity(), device="cpu").predict_proba(x))


def test_a_handful_of_records_is_computed_without_ado():
    predictor, x = TorchPredictor(built("resnet9"), device="cpu"), records((3, 17, 16), 16)
    np.testing.assert_allclose(predictor.predict_proba(x[:15]), plainly(predictor.module, x[:15]), rtol=1e-6)
    assert not predictor._scoring._strategies
    predictor.predict_proba(x)
    assert len(predictor._scoring._strategies) == 1


def test_a_subclass_with_features_of_its_own_keeps_them():
    class Clamped(SmallCNN):
        def features(self, x):
            return super().features(x.clamp(-0.5, 0.5))

    torch.manual_seed(0)
    module, x = Clamped(inputs=(1, 16, 16), classes=3, dropout=0.0).eval(), 5 * records((1, 16, 16), 20)
    np.testing.assert_allclose(TorchPredictor(module, device="cpu").predict_proba(x), plainly(module, x), rtol=1e-4)


def test_pictures_of_bytes_are_tried_on_bytes():
    class Bytes(nn.Module):
        """Reads maps in the order of memory."""

        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.Linear(256, 3)

        def forward(self, x):
            return self.head(torch.relu(self.conv(x.float() / 255)).as_strided((len(x), 256), (256, 1)))

    torch.manual_seed(0)
    module, x = Bytes().eval(), np.random.default_rng(0).integers(0, 256, (20, 3, 8, 8), dtype=np.uint8)
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).softmax(1).numpy()
    np.testing.assert_allclose(TorchPredictor(module, device="cpu").predict_proba(x), expected, rtol=1e-5)


def test_a_field_of_packed_records():
    packed = np.zeros(20, dtype=[("flag", "u1"), ("x", "f4", (3,))])
    packed["x"] = records((3,), 20)
    module = nn.Linear(3, 2).eval()
    found = TorchPredictor(module, device="cpu").predict_proba(packed["x"])
    np.testing.assert_allclose(found, plainly(module, np.array(packed["x"])), rtol=1e-6)


def test_tied_convolutions_can_be_compiled(monkeypatch):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (nn.Conv2d(2, 2, 3, padding=1) for _ in range(2))
            self.b.weight, self.head = self.a.weight, nn.Linear(2, 3)

        def forward(self, x):
            return self.head(self.b(torch.relu(self.a(x))).mean((2, 3)))

    monkeypatch.setattr(torch, "compile", lambda function, **_: function)  # what is compiled is not the point
    torch.manual_seed(0)
    module, x = Tied().eval(), records((2, 6, 6), 40)
    predictor = TorchPredictor(module, device="cpu", compile=True)
    for _ in range(2):
        np.testing.assert_allclose(predictor.predict_proba(x), plainly(module, x), rtol=1e-5)
        with torch.no_grad():
            module.a.weight.mul_(1.5)
