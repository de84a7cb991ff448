"""What test_teacher_kills.py runs, `DIRECTORY EVERY`: a campaign of teachers, killed before every write of its own.

As in campaign_kills.py, whose children and comparisons these are. Creating reads the private records; answering charges
and draws: whatever is killed there, every answer that was drawn, in whatever process, is the same answer for the same
charge, and what a caller was told is what is stored.
"""

import hashlib
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import campaign_kills as kills
import pate_parts

from discreet.config import PateConfig
from discreet.recipes import opening, pate_votes
from discreet.recipes.verification import verify_campaign

AGGREGATORS = {
    "gaussian": {"answers": {"aggregator": "'gaussian'"}, "budget": {"epsilon": "'20'"}},
    "sparse": {
        "answers": {"aggregator": "'sparse'", "unstable": 2},
        "budget": {"epsilon": "'60'"},
        "teachers": {"count": 60},
    },
}
CHANGE: dict[str, object] = {}


def config_in(place, seed):
    shape = {
        "teachers": {"count": 5},
        "plan": {"queries": "[4, 3]"},
        "pool": {"path": "'../public.npz'"},
        "private": {"path": "'../private.npz'", "labels": "'../private.csv'"},
        "evaluation": {"path": "'../held.npz'", "labels": "'../held.csv'"},
        "storage": {"url": "'sqlite:///scan.db'"},
    }
    for name, keys in CHANGE.items():
        shape[name] = shape.get(name, {}) | keys
    return PateConfig.from_text(pate_parts.toml(simulation=seed is not None, **shape), directory=place)


def opened(place, seed):
    return opening.create(config_in(place, seed), confirm=True)


def take(campaign, say):
    """The next verb. Whether there was one."""
    now = campaign.state
    if now.step == "done":
        return False
    if now.step == "ask":
        say("asked", now.phase, [[one.id, one.record] for one in campaign.due()])
    elif now.step == "answer" and not campaign.answered:
        campaign.answer()
        say("answered", now.phase, told_in(campaign, now.phase))
    else:
        campaign.train()
        say("trained", now.phase, hashlib.sha256(campaign.store.file("model", now.phase).read_bytes()).hexdigest())
    return True


def told_in(campaign, phase):
    return sorted([one.question_id, one.value] for one in campaign.store.answers(phase))


def state_of(campaign, whole=kills.state_of):
    seen = sorted((one.question_id, one.kind, one.audience) for one in campaign.exposures())
    cache = (campaign.store.directory / pate_votes.CACHE).exists()
    return whole(campaign) | {"seen": seen, "cache": cache}


def check_answers(said, place, seed):
    """What a process that was killed had returned is what is stored."""
    campaign = opened(place, seed)
    for one in said:
        if one[0] == "answered":
            assert told_in(campaign, one[1]) == one[2], "other answers are stored"
    return [one.name for one in verify_campaign(config_in(place, seed)).checks if not one.ok]


def before_writes(data, seed, *, every, created):
    """``created``: from there on; creating is the same whatever answers."""
    states, done, repeated = kills.reference(data / f"whole-{seed}", seed), 0, 0
    for (before, _, _), (_, until, wanted) in pairwise(states[created:]):
        kill_at, killed = 0, True
        while killed:
            kill_at += 1
            place = data / f"killed-{seed}"
            shutil.copytree(before, place)
            said, killed = kills.one_verb(place, seed, kill_at, every=every)
            if killed:
                repeated += kills.check_said(said + kills.the_rest(place, seed, wanted, until))
                assert check_answers(said, place, seed) == []
                done += 1
            shutil.rmtree(place)
    assert seed is not None or repeated >= 8, "too few draws were made again to show anything"
    return done


def run(directory, every):
    done = 0
    kills.opened, kills.take, kills.state_of = opened, take, state_of
    for name, change in AGGREGATORS.items():
        CHANGE.clear()
        CHANGE.update(change)
        data = directory / name
        data.mkdir()
        pate_parts.write_data(data)
        warm = data / "warm"
        warm.mkdir()
        while take(opened(warm, None), lambda *words: None):  # everything is imported
            pass
        kills.gc.freeze()
        done += sum(before_writes(data, seed, every=every, created=name == "sparse") for seed in (11, None))
    print(f"{done} kills")


if __name__ == "__main__":
    run(Path(sys.argv[1]), bool(int(sys.argv[2])))
