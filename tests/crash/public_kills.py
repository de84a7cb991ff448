"""What test_public_kills.py runs, `DIRECTORY EVERY`: near-private on public data, killed before every write.

As in campaign_kills.py, whose children and comparisons these are. The checkpoint is charged in phase 0; the look at
private records is charged and drawn in the first round, and whatever is killed there, the same noise is drawn again for
the same counts. Later rounds go down the stored ranking, and fine-tuning draws from a public seed: neither charges.
"""

import gc
import sys
from pathlib import Path

import campaign_kills as kills
import small_public

from discreet.config import CampaignConfig
from discreet.recipes import opening, public_plan
from discreet.recipes.verification import verify_campaign

LEAST = 2
"""Draws that must have been made again: components and counts, when the verb that looks dies before it is recorded."""


def config_in(place, seed):
    form = {
        "format": "discreet.campaign/1",
        "name": "kills",
        "pool": {"path": "../public.npz", "kind": "npz", "id": "id", "array": "x", "size": small_public.PUBLIC},
        "task": {"kind": "multiclass", "classes": ["a", "b"]},
        "checkpoint": {"path": "../weights.safetensors", "epsilon": "1.5", "delta": "1e-6"},
        "private": {"path": "../private.npz", "size": small_public.PRIVATE},
        "budget": {"epsilon": "3", "delta": "1e-5"},
        "recipe": {"name": "public-data"},
        "plan": {"initial": 0, "queries": [6, 6], "batch": 4, "epochs": 1},
        "scorer": {"name": "entropy"},
        "selector": {"name": "near-private", "uncertain": 40, "components": 3, "support_epsilon": "0.5"},
        "oracle": {"name": "files"},
        "model": {"name": "mlp", "options": {"hidden": [8]}},
        "trainer": {"learning_rate": 0.1},
        "evaluation": {"kind": "none"},
        "storage": {"url": "sqlite:///scan.db"},
    }
    return CampaignConfig.from_json(form if seed is None else {**form, "simulation": {"seed": seed}}, directory=place)


def opened(place, seed):
    return opening.create(config_in(place, seed))


def charges(place, seed):
    """Of a campaign that was killed and went on: what was charged, and whether it verifies."""

    def work(say):
        campaign = opened(place, seed)
        kills.all_verbs(campaign, lambda *words: None)
        verdict = verify_campaign(config_in(place, seed))
        with kills.ledger_of(campaign.store) as ledger:
            charged = sum(bool(entry.charges) for entry in ledger.entries)
            say("end", charged, [one.name for one in verdict.checks if not one.ok])

    said, _ = kills.in_child(work)
    return said[0][1:]


def between_charge_and_draw(data, seed):
    """Killed as soon as the look is paid for: it is not paid for again."""
    place = data / f"paid-{seed}"
    place.mkdir()
    kills.in_child(lambda say: (kills.take(opened(place, seed), say), kills.take(opened(place, seed), say)))

    def dying(say):
        from discreet.selectors.near_private import NearPrivate

        NearPrivate.support = lambda *a, **o: kills.os.kill(kills.os.getpid(), kills.signal.SIGKILL)
        campaign = opened(place, seed)
        while kills.take(campaign, say):
            pass

    assert kills.in_child(dying)[1], "nothing was looked at"
    assert charges(place, seed) == [3, []], "the checkpoint, the components, the counts: once each"


def run(directory, every):
    data = directory / "data"
    data.mkdir()
    small_public.write_records(data)
    kills.opened, kills.label = opened, lambda record: "ab"[sum(record.encode()) % 2]
    (data / "warm").mkdir()
    plan = public_plan.public_plan_of(config_in(data / "warm", None))
    sys.modules["discreet.recipes.public_data"].public_plan_of = lambda config: plan  # made once
    kills.all_verbs(opened(data / "warm", None), lambda *words: None)  # everything is imported
    gc.freeze()
    done = sum(kills.before_writes(data, seed, every=every, least=LEAST) for seed in (11, None))
    for seed in (11, None):
        between_charge_and_draw(data, seed)
    print(f"{done} kills")


if __name__ == "__main__":
    run(Path(sys.argv[1]), bool(int(sys.argv[2])))
