"""Small runs of everything that draws noise, for the replay kit: records in, what is released out.

Each scene names the modules whose draws it goes through; that it does, and that its neighbours move what is hidden, is
checked when it runs. So a scene that tests nothing fails.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from learning_scenes import X, cohort, nulled, search_terms, searched, trained
from scene import Scene

from discreet import Budget
from discreet.campaign.recipe import PhaseContext
from discreet.components import charge_components, private_components
from discreet.config import CampaignConfig
from discreet.gates import CrowdGate, text_log
from discreet.noise import SecretKey, Seeded
from discreet.oracles.data_dependent import cost_release, release_cost
from discreet.oracles.teachers import build_aggregator
from discreet.planning.pate import price_answers
from discreet.pools import open_frame
from discreet.privacy.ledger import committed, terms_of
from discreet.privacy.ledger.terms import Line
from discreet.recipes import private_pool
from discreet.recipes.feature_rows import with_features
from discreet.recipes.pool_records import Units
from discreet.recipes.private_pool import plan_of
from discreet.recipes.private_quantiles import released as released_edges
from discreet.selectors import (
    ExponentialSelector,
    GaussianTopK,
    HiddenThresholdSelector,
    KCentreSelector,
    LaplaceTopK,
    NearPrivate,
    ThresholdSelector,
    charge_selection,
)
from discreet.testing.selectors import run
from discreet.trainers.evaluation import evaluate_paid, evaluation_event

IDS = [f"r{place}" for place in range(20)]
SCORES = np.linspace(0.05, 0.95, 20)


# -- selectors


def selecting(make, module, reads=lambda scores: scores, most=3):
    def mechanism(scores, ledger):
        selector = make()
        found = run(selector, IDS[: len(scores)], reads(scores), 6, ledger=ledger)
        hidden = getattr(selector, "hides_asked", False)
        return (None if hidden else found.ids), found.threshold, found.dropped

    return Scene(mechanism=mechanism, data=SCORES, null=0.0, modules=(f"selectors.{module}",), most=most)


def near_private(table, ledger):
    selector = NearPrivate(support_epsilon="0.5", noise_multiplier=4.0, uncertain=10, components=2, norm=2.0)
    paid = charge_selection(ledger, selector, k=4, pool_size=20, who="private", why="near private")
    rng = np.random.default_rng(4)
    return selector.select(
        ids=IDS,
        scores=SCORES,
        k=4,
        receipt=paid,
        embeddings=rng.normal(size=(20, 3)),
        private_scores=table[:, 0],
        private_embeddings=table[:, 1:],
    ).ids


def private_rows():
    rng = np.random.default_rng(1)
    return np.hstack([np.full((8, 1), 0.9), 3 * rng.normal(size=(8, 3))])


SELECTING = {
    "laplace top-k": selecting(lambda: LaplaceTopK(epsilon=2), "top_k"),
    "gaussian top-k": selecting(lambda: GaussianTopK(noise_multiplier=1.0), "top_k"),
    "gaussian top-k of a subsample": selecting(
        lambda: GaussianTopK(noise_multiplier=1.0, subsample=0.7),
        "top_k",
        most=9,  # some are not looked at
    ),
    "threshold response": selecting(lambda: ThresholdSelector(asked=2, threshold_epsilon="0.1"), "threshold_selector"),
    "threshold response, declared": selecting(lambda: ThresholdSelector(asked=2, threshold=0.7), "threshold_selector"),
    "hidden threshold": selecting(lambda: HiddenThresholdSelector(threshold_epsilon=1, slots=20), "hidden_threshold"),
    "exponential": selecting(lambda: ExponentialSelector(epsilon=2), "top_k"),
    "k-centre": selecting(
        lambda: KCentreSelector(epsilon=2, delta="1e-6"), "k_centre", lambda s: np.column_stack([s, 0 * s])
    ),
}
NEAR = Scene(
    mechanism=near_private,
    data=private_rows(),
    null=np.zeros(4),
    modules=("selectors.near_private", "components"),
)

# -- components, evaluation


def components(rows, ledger):
    made = private_components(rows, count=2, norm=1.0, receipt=charge_components(ledger, 2.0, who="pool"))
    return made.components, made.spectrum


class Sign:
    def predict_proba(self, x):
        up = (np.asarray(x)[:, 0] > 0).astype(float)
        return np.column_stack([1 - up, up])


def held_out(change=None):
    from discreet.trainers.dp_sgd import CohortRecords

    rng = np.random.default_rng(2)
    x = rng.normal(size=(12, 2)).astype(np.float32)
    y = (x[:, 0] > 0.2).astype(np.int64)
    if change is not None:
        x[change], y[change] = 0, -1
    return CohortRecords(x=x, y=y)


def evaluated(records, ledger):
    receipt = ledger.charge(event=evaluation_event(epsilon=1), who="held-out", why="evaluation")
    return evaluate_paid(Sign(), records, classes=2, receipt=receipt)


# -- teachers


@cache
def answers_price(aggregator):
    budget = Budget(epsilon=200, delta="1e-3")
    return price_answers(aggregator, budget=budget, teachers=12, classes=3, answers=4, unstable=2)


VOTES = np.array([[9, 2, 1], [4, 4, 4], [0, 12, 0], [5, 6, 1]])
MOVED = np.array([[8, 3, 1], [4, 5, 3], [1, 11, 0], [6, 5, 1]])


def answering(aggregator):
    def mechanism(counts, ledger):
        made = build_aggregator(answers_price(aggregator), ledger, "private")
        return made.answer(counts[: made.left])

    return Scene(
        mechanism=mechanism,
        data=VOTES,
        neighbours=[MOVED],
        terms=lambda: answers_price(aggregator).terms(),
        modules=("oracles.teachers",),
        slow=aggregator != "sparse",  # the others search for their noise
    )


def told_cost(counts, ledger):
    price = answers_price("gaussian")
    return release_cost(counts, price=price, plan=cost_plan(), ledger=ledger)


@cache
def cost_plan():
    return cost_release(Budget(epsilon=4, delta="1e-5"), price=answers_price("gaussian"), order=3.0)


def votes_of(records):
    """Of teachers of these records."""
    from sklearn.linear_model import RidgeClassifier

    from discreet.trainers.teachers import train_teachers

    return train_teachers(
        np.array([record[:2] for record in records]),
        [record[2] for record in records],
        units=[f"unit {place}" for place in range(len(records))],
        public=np.random.default_rng(6).normal(size=(4, 2)),
        public_ids=list("abcd"),
        classes=("x", "y", "z"),
        teachers=12,
        estimator=RidgeClassifier(),
        key=SecretKey(b"n" * 32),
    )


def taught(records, ledger):
    """What they answer."""
    return build_aggregator(answers_price("gaussian"), ledger, "private").answer(votes_of(records).counts)


def people():
    """A first call of scikit-learn, here, asks the operating system for names of its own."""
    rng = np.random.default_rng(5)
    found = [(float(a), float(b), "xyz"[place % 3]) for place, (a, b) in enumerate(rng.normal(size=(60, 2)) * 2)]
    votes_of(found)
    return found


# -- a gate: its coins hang on the key, so what is compared is that charges, receipts and parameters are the same


def released(rows, ledger):
    gate = CrowdGate(k=3, beta=0.5)
    receipt = ledger.charge(event=gate.price(), who="log", why="release")
    gate.release(text_log([text for _, text in rows], [unit for unit, _ in rows]), receipt=receipt)


def gate_terms():
    budget = Budget(epsilon=10**6, delta="0.5", unit="person")
    return committed(budget, [Line(who="log", event=CrowdGate(k=3, beta=0.5).price(), count=1)])


LOG = [(f"u{unit}", f"word {unit % 2}") for unit in range(12)]


# -- edges of features


@cache
def quantile_campaign():
    """A configuration with its map, and the plan that pays for private quantiles of two columns."""
    form = {
        "format": "discreet.campaign/1",
        "name": "n",
        "pool": {"path": "-", "kind": "arrays", "size": 20, "id": "id", "schema": COLUMNS},
        "budget": {"epsilon": "8", "delta": "1e-4"},
        **private_pool(
            classes=["no", "yes"],
            initial=8,
            batch=6,
            epochs=2,
            plan={"accountant": "rdp"},
            features={"name": "bins", "edges": 3, "quantiles_epsilon": "1", "quantile_bins": 10},
        ),
    }
    config = CampaignConfig.from_json(form)
    return with_features(config, open_frame(table_of(X[:20]), id="id", schema=COLUMNS)), plan_of(config)


COLUMNS = {name: {"type": "number", "low": -3, "high": 3, "missing": "null"} for name in "ab"}


def table_of(rows):
    return pd.DataFrame({"id": IDS[: len(rows)], "a": rows[:, 0], "b": rows[:, 1]})


def quantiles(rows, ledger):
    config, plan = quantile_campaign()
    pool = open_frame(table_of(rows), id="id", schema=COLUMNS)
    context = PhaseContext(
        phase=0, pool=pool, ledger=ledger, source=Seeded(1), members={}, model=None, directory=Path()
    )
    return released_edges(context, config, plan, Units.of(pool, "record", 1))


SCENES = {
    **SELECTING,
    "private quantiles": Scene(
        mechanism=quantiles,
        data=X[:20],
        null=np.full(X.shape[1], np.nan),
        terms=lambda: terms_of(quantile_campaign()[1]),
        modules=("recipes.private_quantiles",),
    ),
    "near private": NEAR,
    "components": Scene(
        mechanism=components,
        data=3 * np.random.default_rng(0).normal(size=(9, 4)),
        null=np.zeros(4),
        modules=("components",),
    ),
    "paid evaluation": Scene(
        mechanism=evaluated,
        data=held_out,
        neighbours=lambda: [held_out(0), held_out(7)],
        modules=("trainers.evaluation",),
    ),
    **{f"answers, {name}": answering(name) for name in ("gaussian", "laplace", "confident", "sparse")},
    "cost of answers": Scene(
        mechanism=told_cost,
        data=VOTES,
        neighbours=[MOVED],
        terms=lambda: cost_plan().terms(),
        modules=("oracles.data_dependent",),
        slow=True,
    ),
    "teachers": Scene(
        mechanism=taught,
        data=people,
        null=(0.0, 0.0, None),
        terms=lambda: answers_price("gaussian").terms(),
        modules=("oracles.teachers",),
        most=8,
        slow=True,
    ),
    "private search": Scene(
        mechanism=searched,
        data=X,
        neighbours=lambda: [nulled(2), nulled(18)],
        terms=search_terms,
        modules=("tuning.searching", "trainers.dp_sgd.trainer", "trainers.evaluation"),
        slow=True,
    ),
    "dp-sgd": Scene(
        mechanism=trained,
        data=cohort,
        neighbours=lambda: [cohort(0), cohort(20)],
        modules=("trainers.dp_sgd.trainer", "trainers.dp_sgd.cohorts"),
    ),
    "gate": Scene(
        mechanism=released,
        data=LOG,
        neighbours=[[(unit, None if unit == "u1" else text) for unit, text in LOG]],
        terms=gate_terms,
        modules=("gates.gate",),
    ),
}
