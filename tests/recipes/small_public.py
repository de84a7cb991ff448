"""A campaign on public data that runs in a blink: two blobs of private records, public ones of which a third is far."""

import csv

import numpy as np

from discreet.config import CampaignConfig

PUBLIC, PRIVATE, FAR = 120, 300, 40
TOML = """format = "discreet.campaign/1"
name = "small"
[pool]
path = "public.npz"
kind = "npz"
id = "id"
array = "x"
size = 120
[task]
kind = "multiclass"
classes = ["a", "b"]
[checkpoint]
path = "weights.safetensors"
CHECKPOINT
[budget]
epsilon = "3"
delta = "1e-5"
[recipe]
name = "public-data"
[plan]
initial = 0
queries = [10, 10]
batch = 8
epochs = 5
[scorer]
name = "entropy"
[selector]
name = "NAME"
OPTIONS
[oracle]
name = "files"
[model]
name = "mlp"
options = { hidden = [8] }
[trainer]
learning_rate = 0.1
[evaluation]
kind = "public"
path = "test.npz"
labels = "test.csv"
"""
STATED = 'epsilon = "1.5"\ndelta = "1e-6"'
TRAINED = "sampling_rate = 0.1\nnoise_multiplier = 4.0\nsteps = 50"
NEAR = "uncertain = 60\ncomponents = 4\nsupport_epsilon = '0.5'"


def blobs(count, seed):
    chance = np.random.default_rng(seed)
    y = chance.integers(0, 2, count)
    x = chance.normal(size=(count, 5)) + 2.0 * np.eye(2, 5)[y]
    return x.astype(np.float32), np.array(["a", "b"])[y]


def write_labels(path, ids, labels):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["record", "label"])
        writer.writerows(zip(ids, labels, strict=True))


def write_records(place):
    """Public, private and test records, and the checkpoint's weights."""
    x, y = blobs(PUBLIC, 0)
    x[-FAR:] += 25.0  # pollution
    ids = [f"p{number}" for number in range(PUBLIC)]
    np.savez(place / "public.npz", id=np.array(ids), x=x)
    write_labels(place / "truth.csv", ids, y)
    own, _ = blobs(PRIVATE, 1)
    np.savez(place / "private.npz", id=np.array([f"r{number}" for number in range(PRIVATE)]), x=own)
    tests, wanted = blobs(200, 2)
    names = [f"t{number}" for number in range(200)]
    np.savez(place / "test.npz", id=np.array(names), x=tests)
    write_labels(place / "test.csv", names, wanted)
    write_weights(place / "weights.safetensors")


def write_weights(path, seed=0):
    from discreet.models import build_model
    from discreet.recipes.learning import to_bytes

    path.write_bytes(to_bytes(build_model("mlp", inputs=(5,), classes=2, hidden=[8], seed=seed)))


def written(place, *, selector="diverse-public", options="", checkpoint=STATED, simulation=False, more=""):
    """The campaign's file and all that it names."""
    write_records(place)
    private = '[private]\npath = "private.npz"\nsize = 300\n' if selector == "near-private" else ""
    options = options or (NEAR if selector == "near-private" else "")
    text = TOML.replace("NAME", selector).replace("OPTIONS", options).replace("CHECKPOINT", checkpoint)
    if selector in ("random", "k-means", "greedy-k-centre"):
        text = text.replace('name = "entropy"', 'name = "random"')
    if simulation:
        text = text.replace('name = "files"', 'name = "simulated"\npath = "truth.csv"') + "[simulation]\nseed = 3\n"
    (place / "small.toml").write_text(text + private + more)
    return place / "small.toml"


def config_in(place, **options):
    return CampaignConfig.read(written(place, **options))


def truth(place):
    with (place / "truth.csv").open() as file:
        return {row["record"]: row["label"] for row in csv.DictReader(file)}
