"""A recipe without torch for tests of the loop: real charges and real draws, a model of three numbers."""

import json
from dataclasses import dataclass, field

import numpy as np

from discreet.campaign import Campaign, Chosen, Trained
from discreet.campaign.answers import labels_of
from discreet.campaign.recipe import Labels, unwatched
from discreet.noise import charge_once, laplace
from discreet.pools import ArrayPool
from discreet.privacy.budget import Budget
from discreet.privacy.events import Laplace
from discreet.privacy.ledger import ChargeReason, adaptive
from discreet.privacy.ledger.charges import request
from discreet.recipes.opening import finish
from discreet.selectors import RandomSelector
from discreet.storage import open_storage

CLASSES = ("a", "b", "c")


class Stopped(Exception):
    """A process that died, as far as the loop can tell."""


def paid(context, purpose):
    why = ChargeReason(phase=context.phase, purpose=purpose)
    return charge_once(context.charges, [request({"pool": Laplace(epsilon="0.5")}, why=why)])[0]


@dataclass
class Counting:
    """Asks the records with the highest noisy numbers; its model is the noisy count of each class.

    ``stops``: where it dies, once: "choosing" or "training", when the charge is made and the draw is, too.
    """

    phases: int = 3
    multilabel: bool = False
    classes: tuple = CLASSES
    stops: set = field(default_factory=set)
    drawn: list = field(default_factory=list)

    released = False
    threshold = None

    def labels_planned(self, phase):
        return 2 if phase else 4

    def terms(self):
        return adaptive(Budget(epsilon=20, delta="1e-6"))

    def check(self, pool):
        pass

    def known_labels(self):
        return {}

    def labels(self, questions, answers, *, key):
        return Labels(values=labels_of(questions, answers, key))

    def choose(self, context):
        left = [name for name in context.pool.ids if name not in context.asked]
        if context.phase == 0:
            ids = RandomSelector(source=context.source).select(ids=left, k=4, phase=0).ids
            return Chosen(ids=ids, cohorts=dict.fromkeys(ids, "initial"), facts={"private": True})
        scores = np.asarray(context.pool.x[context.pool.places(left)], dtype=np.float64)[:, 0]
        noisy = self.draw(context, scores, "choosing")
        ids = tuple(left[place] for place in np.argsort(-noisy)[:2])
        return Chosen(ids=ids, cohorts=dict.fromkeys(ids, f"query {context.phase}"), facts={"private": True})

    def train(self, context, labels):
        said = [one if isinstance(value, tuple) else value for value in labels.values() for one in (value,)]
        counts = np.array([sum(name == one or name in one for one in said) for name in CLASSES], dtype=np.float64)
        return Trained(content=json.dumps(self.draw(context, counts, "training").tolist()).encode())

    def draw(self, context, values, purpose):
        receipt = paid(context, purpose)
        noisy = np.asarray(laplace(values, sensitivity=1.0, receipt=receipt))
        self.drawn.append((purpose, context.phase, noisy.tolist()))
        if purpose in self.stops:
            self.stops.discard(purpose)
            raise Stopped
        return noisy

    def predictor(self, content):
        return Counts(json.loads(content))


class Counts:
    """Says the same of everybody."""

    def __init__(self, counts):
        self.counts = counts

    def predict_proba(self, x):
        raised = np.exp(np.array(self.counts) - max(self.counts))
        return np.tile(raised / raised.sum(), (len(x), 1))


def pool_of(size=20, changed=()):
    numbers = np.arange(size * 2, dtype=np.float32).reshape(size, 2) / size
    ids = [f"r{number}" for number in range(size)]
    for name in changed:
        numbers[ids.index(name)] += 1.0
    return ArrayPool(ids=ids, x=numbers)


def campaign_in(place, *, seed=None, pool=None, recipe=None, per_question=1, name="loop"):
    """The campaign in ``place``: new, or as the last process left it."""
    storage = open_storage(place / "loop.db", patience=0.5)
    if name not in storage.campaigns():
        storage.create(name, config={}, simulation=seed is not None)
    store, own, records = storage.load(name), recipe or Counting(), pool or pool_of()
    finish(store, own, records, seed, unwatched)
    made = Campaign(store, recipe=own, pool=records, per_question=per_question, seed=seed)
    made.tidy()
    return made


def truth(questions, value="a"):
    return {one.id: value for one in questions}
