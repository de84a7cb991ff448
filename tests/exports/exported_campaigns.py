"""Campaigns that are trained in a blink, to be exported: one class a record, and several labels."""

import numpy as np

from discreet.config import CampaignConfig
from discreet.recipes.opening import create

CLASSES = ("ill", "well", "unsure")
TOML = """format = "discreet.campaign/1"
name = "visits"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 60
center = [1.0, 2.0, 0.0]
scale = [2.0, 4.0, 1.0]
[task]
kind = "KIND"
classes = ["ill", "well", "unsure"]
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 12
queries = [8]
batch = 6
epochs = 2
accountant = "rdp"
[oracle]
name = "files"
[model]
name = "linear"
[trainer]
engine = "reference"
"""


def raw(size=60, seed=4):
    return np.random.default_rng(seed).normal(size=(size, 3)).astype(np.float32) * 3


def trained(place, *, kind="multiclass", phases=2, text=TOML):
    """A campaign with so many phases trained."""
    place.mkdir(parents=True, exist_ok=True)
    np.savez(place / "pool.npz", x=raw(), id=np.array([f"secret-{number}" for number in range(60)]))
    (place / "visits.toml").write_text(text.replace("KIND", kind))
    campaign = create(CampaignConfig.from_text(text.replace("KIND", kind), directory=place))
    for _ in range(phases):
        questions = campaign.ask()
        said = ("ill",) if kind == "multilabel" else "ill"
        campaign.tell({one.id: said for one in questions}, annotator="someone-secret")
        campaign.train()
    return campaign
