"""A small campaign for tests: 300 records of four numbers, three classes that a line can tell apart."""

import numpy as np

from discreet.api import create_campaign, load_campaign
from discreet.noise import Seeded
from discreet.pools import ArrayPool
from discreet.privacy.ledger import Ledger
from discreet.recipes import private_pool

SIZE, CLASSES = 300, ("a", "b", "c")
BUDGET = {"epsilon": "8", "delta": "1e-4"}
TRAINER = {"learning_rate": 1.0, "engine": "reference"}


def records(size=SIZE, seed=0):
    """Rows, and a class for each."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(CLASSES), size)
    x = rng.normal(size=(size, 4)) * 0.5
    x[np.arange(size), y] += 2
    return x.astype(np.float32), y


def ids_of(size=SIZE):
    return [f"r{number}" for number in range(size)]


def truth_of(y):
    return {one: CLASSES[int(label)] for one, label in zip(ids_of(len(y)), y, strict=True)}


def pool_and_truth(**options):
    x, y = records()
    return ArrayPool(ids=ids_of(), x=x, **options), truth_of(y)


def tables(**changes):
    """Of a campaign with two queries, by RDP; a change is a table, merged, or an argument of `private_pool`."""
    given = {
        "classes": CLASSES,
        "initial": 60,
        "queries": [30, 30],
        "batch": 30,
        "epochs": 2,
        "trainer": TRAINER,
        "simulation": {"seed": 3},
    }
    return private_pool(**{**given, **changes, "plan": {"accountant": "rdp", **changes.get("plan", {})}})


def made(tmp_path, pool, *, budget=BUDGET, name="small", **changes):
    return create_campaign(name, storage=tmp_path / "c.db", pool=pool, budget=budget, recipe=tables(**changes))


def again(tmp_path, pool, name="small"):
    return load_campaign(name, storage=tmp_path / "c.db", pool=pool)


def finish(campaign, truth):
    """Ask, tell and train to the end; the questions of every phase."""
    asked = []
    while not campaign.done:
        questions = campaign.ask()
        asked.append(campaign.store.questions(campaign.state.phase))
        campaign.tell({one.id: truth[one.record] for one in questions})
        campaign.train()
    return asked


def opened_ledger(campaign):
    return Ledger.open(campaign.store.sink(), source=Seeded(3))


def accuracy(campaign, pool, truth):
    found = campaign.predict(np.asarray(pool.x))
    return np.mean([truth[one] == guess for one, guess in zip(pool.ids, found, strict=True)])
