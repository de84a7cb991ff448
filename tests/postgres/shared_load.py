"""What test_shared_campaign.py starts several of: `annotators|trainer NAME URL DIRECTORY SECONDS`, on one campaign.

Says "ready", waits for a line, works for so many seconds, and prints what it did as one JSON object: every answer with
whether it was taken, and every draw. The campaign is no simulation: its keys are sealed files, its draws are real.
"""

import json
import random
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "campaign"))

from loop_parts import Counting, pool_of

from discreet.campaign import Campaign, Chosen, Trained
from discreet.campaign.recipe import unwatched
from discreet.errors import NotNow, StoreUnavailable
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import adaptive
from discreet.recipes.opening import finish
from discreet.records import Answer
from discreet.storage import open_storage

LABELS = tuple("abcdefghij")
EACH, PHASES, RECORDS, THREADS, PER_QUESTION = 6, 150, 1500, 5, 2
PATIENCE = 60.0


@dataclass
class Busy(Counting):
    """Phases of six questions; between a charge and what it pays for there is time to lose a turn in."""

    phases: int = PHASES
    classes: tuple = LABELS

    def labels_planned(self, phase):
        return EACH

    def terms(self):
        return adaptive(Budget(epsilon=500, delta="1e-6"))

    def choose(self, desk):
        left = [name for name in desk.pool.ids if name not in desk.asked]
        scores = np.asarray(desk.pool.x[desk.pool.places(left)], dtype=np.float64)[:, 0]
        noisy = self.draw(desk, scores, "choosing")
        ids = tuple(left[place] for place in np.argsort(-noisy)[:EACH])
        return Chosen(ids=ids, cohorts=dict.fromkeys(ids, f"query {desk.phase}"), facts={"private": True})

    def train(self, desk, labels):
        counts = np.array([sum(value == one for value in labels.values()) for one in LABELS], dtype=np.float64)
        noisy = self.draw(desk, counts, "training")
        time.sleep(0.3)
        return Trained(content=json.dumps(noisy.tolist()).encode())


def opened(storage, name="shared"):
    if name not in storage.campaigns():
        storage.create(name, config={}, simulation=False)
    recipe, pool = Busy(), pool_of(RECORDS)
    store = storage.load(name)
    finish(store, recipe, pool, None, unwatched)
    return Campaign(store, recipe=recipe, pool=pool, per_question=PER_QUESTION)


def annotate(campaign, name, until, did):
    """Answer what one is shown; with nothing to answer, change one's mind about something."""
    chance, said = random.Random(name), {}
    while time.monotonic() < until:
        try:
            shown = [one.id for one in campaign.ask(3, annotator=name)]
        except (StoreUnavailable, NotNow) as error:
            did["refused"].append(str(error)[:200])
            shown = []
            time.sleep(0.1)
        known = list(said)
        for question in shown or ([chance.choice(known)] if known else []):
            value = chance.choice([one for one in LABELS if one not in said.get(question, ())])
            try:
                campaign.tell([Answer(question_id=question, value=value, annotator=name)])
                taken = True
                said[question] = (value,)
            except StoreUnavailable as error:
                taken = str(error)[:200]
                said[question] = (*said.get(question, ()), value)[-2:]
            did["answers"].append([question, name, value, taken])
        time.sleep(0.01)


def train(campaign, until, did):
    while time.monotonic() < until:
        try:
            if campaign.state.step == "ask":
                campaign.ask(1)
            else:
                campaign.train()
                did["trained"] += 1
        except NotNow:
            time.sleep(0.2)
        except StoreUnavailable as error:
            did["refused"].append(str(error)[:200])
            time.sleep(0.1)


def main(role, name, url, directory, seconds):
    did = {"answers": [], "refused": [], "drawn": [], "trained": 0}
    with open_storage(url, directory=directory, patience=PATIENCE) as storage:
        if role == "trainer":
            campaign = opened(storage)
            recipes, work = [campaign.recipe], [lambda until: train(campaign, until, did)]
        else:
            people = [(opened(storage), f"{name}-{number}") for number in range(THREADS)]
            recipes = [one.recipe for one, _ in people]
            work = [lambda until, who=who: annotate(*who, until, did) for who in people]
        print("ready", flush=True)
        sys.stdin.readline()
        until, failed = time.monotonic() + seconds, []

        def guarded(act):
            try:
                act(until)
            except BaseException as error:  # noqa: BLE001
                failed.append(repr(error))

        threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    did["drawn"] = [drawn for recipe in recipes for drawn in recipe.drawn]
    print(json.dumps({**did, "failed": failed}))


if __name__ == "__main__":
    main(*sys.argv[1:5], float(sys.argv[5]))
