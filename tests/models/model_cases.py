"""Every built-in model at a small size, and its gradients record by record, two ways."""

import torch
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy
from torch.utils._pytree import tree_map

from discreet.models import build_model

LENGTH = 9
BERT = {
    "model_type": "bert",
    "vocab_size": 40,
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
DISTILBERT = {
    "model_type": "distilbert",
    "vocab_size": 40,
    "dim": 8,
    "n_layers": 3,
    "n_heads": 2,
    "hidden_dim": 12,
    "max_position_embeddings": 16,
}
TEXT = {
    "bert": BERT,
    "camembert": {**BERT, "model_type": "camembert"},
    "distilbert": DISTILBERT,
    "roberta": {**BERT, "model_type": "roberta"},
    "xlm-roberta": {**BERT, "model_type": "xlm-roberta"},
}
IMAGES = {
    "small_cnn": ("small_cnn", (2, 15, 14), {}),
    "resnet9": ("resnet9", (3, 17, 16), {"width": 4}),
    "equivariant c4": ("equivariant_resnet9", (1, 16, 17), {"width": 2, "group": "c4"}),
    "equivariant d4": ("equivariant_resnet9", (2, 16, 16), {"width": 1, "group": "d4"}),
}
CASES = {
    "linear": ("linear", (3, 4), {}),
    "mlp": ("mlp", (3, 4), {"hidden": (8, 5)}),
    "embedding_head": ("embedding_head", (7,), {"scale": 3.0}),
    **IMAGES,
    **{family: ("transformer", (LENGTH,), {"config": config}) for family, config in TEXT.items()},
}


def make(case, *, dropout=0.0, classes=3, seed=0):
    name, inputs, options = CASES[case]
    return build_model(name, inputs=inputs, classes=classes, dropout=dropout, seed=seed, **options)


def records(case, count, *, dtype=torch.float64):
    generator = torch.Generator().manual_seed(7)
    name, inputs, _ = CASES[case]
    if name != "transformer":
        return torch.randn(count, *inputs, generator=generator, dtype=dtype)
    lengths = torch.arange(count) % (LENGTH - 3) + 4  # texts of unequal length, so that padding matters
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    return {"input_ids": torch.randint(3, 40, (count, LENGTH), generator=generator) * mask, "attention_mask": mask}


def pick(x, rows):
    return tree_map(lambda values: values[rows], x)


def trained(model):
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def vmapped(model, x, y):
    """Per-record gradients by torch.func, as a trainer takes them."""

    def loss(weights, one, label):
        logits = functional_call(model, weights, (tree_map(lambda values: values.unsqueeze(0), one),))
        return cross_entropy(logits, label.unsqueeze(0))

    weights = {name: weight.detach() for name, weight in trained(model).items()}
    return vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")(weights, x, y)


def one_by_one(model, x, y):
    """Per-record gradients by plain autograd, each record alone."""
    weights = trained(model)
    rows = []
    for row in range(len(y)):
        only = slice(row, row + 1)
        rows.append(torch.autograd.grad(cross_entropy(model(pick(x, only)), y[only]), list(weights.values())))
    return {name: torch.stack(parts) for name, parts in zip(weights, zip(*rows, strict=True), strict=True)}


def worst_difference(found, expected):
    """The largest relative difference of a weight's gradient, or of a thousandth of the record's if that is more."""
    norms = {name: values.flatten(1).norm(dim=1) for name, values in expected.items()}
    whole = torch.stack(list(norms.values())).norm(dim=0)
    return max(
        ((found[name] - expected[name]).flatten(1).norm(dim=1) / torch.maximum(norms[name], whole / 1000)).max().item()
        for name in expected
    )
