"""A campaign of the private pool that trains in a blink: forty records, two phases, a linear model, files on disk."""

import numpy as np

from discreet.config import CampaignConfig

TOML = """format = "discreet.campaign/1"
name = "small"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 40
[task]
kind = "multiclass"
classes = ["a", "b"]
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 8
queries = 4
phases = 1
batch = 4
epochs = 2
selection_epsilon = "2"
accountant = "rdp"
[scorer]
name = "entropy"
[selector]
name = "threshold-response"
threshold_epsilon = "0.1"
[oracle]
name = "files"
[model]
name = "linear"
[trainer]
learning_rate = 1.0
engine = "reference"
checkpoint_every = 2
"""


def write_pool(path, names, seed=1):
    numbers = np.random.default_rng(seed).normal(size=(len(names), 3)).astype(np.float32)
    np.savez(path, id=np.array(names), x=numbers)


def written(place, text=TOML):
    """The campaign's file and its pool."""
    write_pool(place / "pool.npz", [f"r{number}" for number in range(40)])
    (place / "small.toml").write_text(text)
    return place / "small.toml"


def changed(place, table, key, value):
    """The configuration with one key changed, as a program would have it."""
    config = CampaignConfig.read(place / "small.toml")
    form = config.to_json()
    form.setdefault(table, {})[key] = value
    return CampaignConfig.from_json(form, directory=place)
