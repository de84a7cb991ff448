"""What test_withdrawal_kills.py runs, `SCENARIO DIRECTORY`, in a process that has torch and a plan ready.

*killed*: a withdrawal is killed before each of its durable writes, from every state between two verbs; another process
only opens the campaign, or repeats it, and nothing of the record is left. *begun*: a verb is killed before each of its
writes, then a record is withdrawn that the verb was begun with: what was begun is finished with the same draws of the
same values, then the record goes, and the campaign comes to its end.
"""

import gc
import os
import shutil
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import campaign_kills as kit
import numpy as np
from campaign_kills import POOL, config_in, in_child, kill_before, one_verb, opened, take, telling_draws

from discreet.recipes.labelled_records import pool_like
from discreet.storage.database import Database
from discreet.trainers.dp_sgd import trainer


def traces(place, record):
    """Files beside the store in which a record's id stands."""
    return [path.name for path in place.rglob("*") if path.is_file() and record.encode() in path.read_bytes()]


def rename_records(path):
    """Ids of one length: "pool-1" and a byte after it, of its code, may read as "pool-17"."""
    with np.load(path) as found:
        x = found["x"]
    np.savez(path, id=np.array([f"record-{number:04d}-{number * 7919 % 10007:05d}" for number in range(len(x))]), x=x)


def rewriting_counts():
    """Rewriting the database is a durable write, too: killed before it, and after it."""
    scrub = Database.scrub

    def scrubbing(self, asked):
        with suppress(OSError):
            os.unlink("")  # noqa: PTH108 - counted, and nothing else
        scrub(self, asked)
        with suppress(OSError):
            os.unlink("")  # noqa: PTH108

    Database.scrub = scrubbing


def candidate(place, seed):
    """A record that was asked; one of the pool before anybody was."""

    def work(say):
        campaign = opened(place, seed)
        asked = [one.record for one in campaign.store.questions()]
        say("record", (asked or campaign.pool.ids)[0])

    found, _ = in_child(work)
    return found[0][1]


def withdrawing(place, seed, record, kill_at):
    def work(say):
        telling_draws(say)
        kill_before(kill_at, every=True)
        rewriting_counts()
        campaign = opened(place, seed)
        campaign.withdraw([record])

    return in_child(work)


def finished(place, seed, record, *, repeat):
    """What a second process finds: opened alone, or asked again; then all verbs to the end."""

    def work(say):
        telling_draws(say)
        campaign = opened(place, seed)
        if repeat:
            done = campaign.withdraw([record])
            assert done.waiting == 0
            assert done.new + done.known == 1
        assert all(one.done for one in campaign.store.withdrawn()), "opening did not finish it"
        say("left", traces(place, record))
        while take(campaign, say):
            assert record not in {one.record for one in campaign.open()}
        say("end", traces(place, record))
        kit.tell_stored(campaign.store, say)

    said, killed = in_child(work)
    assert not killed
    assert [one[1] for one in said if one[0] in ("left", "end")] == [[], []], "something of the record is left"
    return said


def state_at(place, seed):
    """How many records are marked, and how many erased."""

    def work(say):
        from discreet.storage import open_storage

        with open_storage(place / "scan.db") as storage:
            gone = storage.load("kills").withdrawn()
        say("gone", len(gone), sum(one.erased for one in gone), sum(one.done for one in gone))

    (said,), _ = in_child(work)
    return tuple(said[1:])


def killed(data, seed):
    """Kills of the withdrawal itself."""
    states, kills, seen = kit.reference(data / f"whole-{seed}", seed), 0, set()
    for before, _, _ in states[1:]:
        record = candidate(before, seed)
        assert traces(before, record), "the test has no power"
        kill_at, dead = 0, True
        while dead:
            kill_at += 1
            place = data / f"killed-{seed}"
            shutil.copytree(before, place)
            _, dead = withdrawing(place, seed, record, kill_at)
            if dead:
                marked = state_at(place, seed)
                seen.add(marked)
                finished(place, seed, record, repeat=marked[0] == 0 or kill_at % 2 == 0)
                kills += 1
            shutil.rmtree(place)
    assert {(0, 0, 0), (1, 0, 0), (1, 1, 0)} <= seen, "some steps of the way were not met"
    return kills


def begun(data, seed):
    """Verbs that were killed, then a withdrawal."""
    states, kills, repeated, under_way = kit.reference(data / f"whole-{seed}", seed), 0, 0, 0
    for (before, _, _), (after, _, _) in list(pairwise(states))[1:]:
        record = candidate(after, seed)
        kill_at, dead = 0, True
        while dead:
            kill_at += 1
            place = data / f"begun-{seed}"
            shutil.copytree(before, place)
            said, dead = one_verb(place, seed, kill_at, every=False)
            if dead:
                later, waited = marked_only(place, seed, record)
                under_way += waited
                more = finished(place, seed, record, repeat=True)
                repeated += kit.check_said(without(said, record) + later + without(more, record))
                kills += 1
            shutil.rmtree(place)
    assert under_way > 5, "no step was under way"
    assert seed is not None or repeated > 0
    return kills


def marked_only(place, seed, record):
    """Marked, with ``later``: while a step is under way it waits, and its record is still there."""

    def work(say):
        telling_draws(say)
        done = opened(place, seed).withdraw([record], later=True)
        say("waits", done.waiting)

    said, dead = in_child(work)
    assert not dead
    (waits,) = [one[1] for one in said if one[0] == "waits"]
    assert bool(waits) == bool(traces(place, record)), "waiting is being there"
    return said, waits


def without(said, record):
    """What was said before, but of the withdrawn record: its question is stored under another name."""
    return [[*one[:2], [pair for pair in one[2] if pair[1] != record]] if one[0] == "asked" else one for one in said]


def run(scenario, directory):
    data = directory / "data"
    kit.write_data(data)
    rename_records(data / "pool.npz")
    private_pool = sys.modules["discreet.recipes.private_pool"]  # the package has a function of that name
    (data / "warm").mkdir()
    plan = private_pool.plan_of(config_in(data / "warm", None))
    private_pool.plan_of = lambda config: plan
    trainer.check_by_trying = lambda *made_up: None
    POOL.append(pool_like(config_in(data / "warm", None), "../pool.npz", size=kit.RECORDS))
    kit.all_verbs(opened(data / "warm", None), lambda *words: None)
    gc.freeze()
    print(f"{(killed if scenario == 'killed' else begun)(data, None)} kills")


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]))
