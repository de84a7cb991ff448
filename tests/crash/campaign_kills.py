"""What test_campaign_kills.py runs, `SCENARIO DIRECTORY KILLS`, in a process that has torch and a plan ready.

Forked children take the verbs of a small campaign (create, ask, tell, train) and are killed: before the n-th durable
write for every n, or at a random moment. Another child goes on. A simulation must end as if nothing had happened. In
production every draw that was made, in whatever process, must be the same draw of the same value for the same charge,
and what was returned to a caller must be what is stored.
"""

import gc
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from sqlalchemy import Engine, event

from discreet.campaign.crash_recovery import leftovers
from discreet.campaign.state import ledger_of
from discreet.config import CampaignConfig
from discreet.noise.replay_key import ReplayKey
from discreet.pools import Pool
from discreet.privacy.ledger.high_water_mark import HighWaterMark
from discreet.recipes import labelled_records, opening
from discreet.recipes.verification import verify_campaign
from discreet.storage.sqlite import WRITES
from discreet.trainers.dp_sgd import trainer

torch.set_num_threads(1)  # threads do not survive a fork

RECORDS, CLASSES = 60, ("a", "b", "c")
CHAIN = 9
"""Kills one after the other, before a campaign is let run to its end."""
WRITERS = ("fdatasync", "fsync", "link", "mkdir", "pwrite", "rename", "replace", "unlink")
POOL: list[Pool] = []
NAMING = ("commit", "link", "rename", "replace")
"""Writes by which something comes to be there for others; before and after them the state is another one."""


def write_data(place):
    """A pool, and records kept apart with their labels."""
    place.mkdir(parents=True)
    chance = np.random.default_rng(5)
    for name, size in (("pool", RECORDS), ("held", 20)):
        ids = np.array([f"{name}-{number}" for number in range(size)])
        np.savez(place / f"{name}.npz", id=ids, x=chance.normal(size=(size, 3)).astype(np.float32))
    rows = [f"held-{number},{CLASSES[number % 3]}" for number in range(20)]
    (place / "held.csv").write_text("\n".join(["record,label", *rows]) + "\n")


def config_in(place, seed):
    form = {
        "format": "discreet.campaign/1",
        "name": "kills",
        "pool": {"path": "../pool.npz", "kind": "npz", "id": "id", "array": "x", "size": RECORDS},
        "task": {"kind": "multiclass", "classes": list(CLASSES)},
        "budget": {"epsilon": "8", "delta": "1e-4"},
        "recipe": {"name": "private-pool"},
        "plan": {
            "initial": 12,
            "queries": [8],
            "batch": 6,
            "epochs": 2,
            "selection_epsilon": "2",
            "accountant": "rdp",
        },
        "scorer": {"name": "entropy"},
        "selector": {"name": "threshold-response", "threshold_epsilon": "0.1"},
        "oracle": {"name": "files"},
        "model": {"name": "linear"},
        "trainer": {"learning_rate": 1.0, "engine": "reference", "checkpoint_every": 3},
        "evaluation": {"kind": "paid", "path": "../held.npz", "labels": "../held.csv", "epsilon": "0.5"},
        "storage": {"url": store_in(place)},
    }
    return CampaignConfig.from_json(form if seed is None else {**form, "simulation": {"seed": seed}}, directory=place)


SERVER = os.environ.get("DISCREET_KILLS_SERVER")
"""The directory of a PostgreSQL server's socket, where campaigns are to be kept by one."""


def admin():
    import psycopg

    return psycopg.connect(f"postgresql://discreet@/postgres?host={SERVER}", autocommit=True)


def store_in(place):
    """A file; or, where a server is named, a database of this place's own."""
    if SERVER is None:
        return "sqlite:///scan.db"
    file = place / "database"
    if not place.is_dir():  # only to make a plan
        return f"postgresql://discreet@/none?host={SERVER}"
    if not file.exists():
        draft = place / f"database.{os.getpid()}"  # a kill in the middle of writing leaves no half a name
        draft.write_text(f"kills_{os.urandom(6).hex()}")
        draft.replace(file)
    name = file.read_text()
    with admin() as connection:
        if not connection.execute("select 1 from pg_database where datname = %s", (name,)).fetchone():
            connection.execute(f"create database {name}")
    return f"postgresql://discreet@/{name}?host={SERVER}"


def wait_for_the_server():
    """It notices a moment later that a process was killed; until then that one has its turn, or makes its database."""
    if SERVER is None:
        return
    with admin() as connection:
        others = "(datname like 'kills%' or datname = 'postgres') and pid <> pg_backend_pid()"
        there, until = f"select count(*) from pg_stat_activity where {others}", time.monotonic() + 30
        while connection.execute(there).fetchone()[0] and time.monotonic() < until:
            time.sleep(0.005)


def label(record):
    return CLASSES[sum(record.encode()) % 3]


def opened(place, seed):
    return opening.create(config_in(place, seed), pool=POOL[0])


def take(campaign, say):
    """The next verb. Whether there was one."""
    now = campaign.state
    if now.step == "done":
        return False
    questions = campaign.ask()
    say("asked", now.phase, [[one.id, one.record] for one in questions])
    if now.step == "answer" and questions:
        campaign.tell({one.id: label(one.record) for one in questions})
        say("told", now.phase, len(questions))
    elif now.step != "ask":
        campaign.train()
        say("trained", now.phase, hashlib.sha256(campaign.store.file("model", now.phase).read_bytes()).hexdigest())
    return True


def all_verbs(campaign, say):
    while take(campaign, say):
        pass


def progress(campaign):
    """Steps that were recorded, and phases whose questions are all answered."""
    asked = {one.phase for one in campaign.store.transitions() if one.kind == "published"}
    return len(campaign.store.transitions()), len(asked - {one.phase for one in campaign.open()})


def state_of(campaign):
    """What a campaign came to, without times and ids; in production, without what is drawn anew in each run."""
    store = campaign.store
    with ledger_of(store) as ledger:
        charged = [(*entry.public, entry.key if store.simulation else "") for entry in ledger.entries]
        left = [(line, count) for line, count in ledger.lines_left() if count]
    state = {
        "steps": [(one.kind, one.phase) for one in store.transitions()],
        "charged": charged,
        "left": left,
        "litter": leftovers(store),
        "keys": list(store.directory.glob("keys-*/*")),
        "names": [(one.kind, one.phase) for one in store.files()],
    }
    if not store.simulation:
        return state
    return state | {
        "facts": [dict(one.facts) for one in store.transitions()],
        "asked": store.questions(),
        "cohorts": store.cohort_members(),
        "answers": [(one.question_id, one.value) for one in store.answers()],
        "files": [one.sha256 for one in store.files()],
    }


# -- children


def kill_before(kill_at, *, every):
    """Kill this process before its durable write number ``kill_at``.

    ``every``: each file synced, made or removed counts; else only `NAMING` writes, and whatever follows a commit (a
    charge is stored and its mark not yet moved; a step is recorded and its key still there) or a mark (its charge is
    not drawn on yet).
    """
    seen, last = [0], [""]

    def hit(kind):
        counts = every or kind in NAMING or last[0] in ("commit", "fdatasync")
        last[0] = kind
        seen[0] += counts
        if counts and seen[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(kind, write):
        def watching(*args, **options):
            hit(kind)
            return write(*args, **options)

        return watching

    for kind in WRITERS:
        setattr(os, kind, watched(kind, getattr(os, kind)))

    @event.listens_for(Engine, "commit")
    def _(connection):
        if connection.get_execution_options().get(WRITES):
            hit("commit")


def telling_draws(say):
    """Every draw from a sealed key, by its place and with what it hid, into the pipe before anybody uses it."""
    perform = ReplayKey.perform

    def performing(self, call, sampler):
        ticket = call.ticket
        mark = HighWaterMark(self.path.parents[1] / "ledger.mark").read()
        assert mark is not None and mark.lines > ticket.entry.sequence, "a draw that the mark does not cover"  # noqa: PT018
        made = perform(self, call, sampler)
        drawn = made if isinstance(made, bytes) else repr(made).encode()
        if isinstance(made, np.ndarray):
            drawn = np.ascontiguousarray(made).tobytes()
        hidden = b"" if call.inputs is None else np.ascontiguousarray(call.inputs).tobytes()
        where = [ticket.entry.hash, ticket.slot, ticket.who, ticket.index, call.parameters.get("asked", 0)]
        say("drew", where, [hashlib.sha256(part).hexdigest() for part in (drawn, hidden)])
        return made

    ReplayKey.perform = performing


def in_child(work, *, delay=None, draws=None):
    """What a forked child said, and whether it was killed: from outside after ``delay`` seconds or at the news of its
    draw number ``draws``, if one is given.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(lambda *words: os.write(write, json.dumps(words).encode() + b"\n"))
            code = 0
        except BaseException:  # noqa: BLE001 - a child must not become a second parent
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    said, drew = [], 0
    with os.fdopen(read) as file:
        for line in file:
            if line.endswith("\n"):
                said.append(json.loads(line))
                drew += said[-1][0] == "drew"
                if drew == draws:
                    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, "a child failed by itself"
    wait_for_the_server()
    return said, os.WIFSIGNALED(status)


def one_verb(place, seed, kill_at, *, every):
    def work(say):
        telling_draws(say)
        kill_before(kill_at, every=every)
        take(opened(place, seed), say)

    return in_child(work)


def all_left(place, seed, **kill):
    def work(say):
        telling_draws(say)
        all_verbs(opened(place, seed), say)

    return in_child(work, **kill)


def the_rest(place, seed, wanted, until):
    """Verbs until as much is done as ``until``; then the state must be the ``wanted`` one."""

    def work(say):
        telling_draws(say)
        campaign = opened(place, seed)
        while progress(campaign) < until:
            take(campaign, say)
        found = state_of(campaign)
        for part, value in wanted.items():
            assert found[part] == value, f"{part} differs"
        tell_stored(campaign.store, say)

    said, killed = in_child(work)
    assert not killed
    return said


def tell_stored(store, say):
    """What the store has, for the parent to compare with what was said before a kill."""
    for one in store.questions():
        say("stored", one.id, one.record)
    for one in store.files():
        say("kept", one.kind, one.phase, one.sha256)
    with ledger_of(store) as ledger:
        say("paid", [entry.hash for entry in ledger.entries])


def check_said(said):
    """Everything that returned is in the store as it was; every draw was paid for, and is the same whenever made."""
    stored = {one[1]: one[2] for one in said if one[0] == "stored"}
    kept = {one[2]: one[3] for one in said if one[0] == "kept" and one[1] == "model"}
    (paid,) = [one[1] for one in said if one[0] == "paid"]
    drawn = {}
    for one in said:
        if one[0] == "asked":
            assert all(stored[question] == record for question, record in one[2]), "other questions are stored"
        elif one[0] == "trained":
            assert kept[one[1]] == one[2], "another model is stored"
        elif one[0] == "drew":
            assert one[1][0] in paid, "a draw was not paid for"
            assert drawn.setdefault(tuple(one[1]), one[2]) == one[2], "another draw for the same charge"
    return sum(one[0] == "drew" for one in said) - len(drawn)


# -- scenarios


def reference(place, seed):
    """States between verbs: a copy of the campaign, what was done, and the state. The last is the end."""
    place.with_name(f"{place.name}-0").mkdir()
    place.mkdir()
    found, campaign = [(place.with_name(f"{place.name}-0"), (0, 0), {})], opened(place, seed)
    while take(campaign, lambda *words: None):
        there = place.with_name(f"{place.name}-{len(found)}")
        shutil.copytree(place, there)
        found.append((there, progress(campaign), state_of(campaign)))
    return found


def before_writes(data, seed, *, every, least=None):
    """From each state between two verbs, the next verb is killed before each of its writes, then taken to its end.

    ``least``: how many draws must have been made again; more than there were kills, if it is not said.
    """
    states, kills, repeated = reference(data / f"whole-{seed}", seed), 0, 0
    for (before, _, _), (_, until, wanted) in pairwise(states):
        kill_at, killed = 0, True
        while killed:
            kill_at += 1
            place = data / f"killed-{seed}"
            shutil.copytree(before, place)
            said, killed = one_verb(place, seed, kill_at, every=every)
            if killed:
                repeated += check_said(said + the_rest(place, seed, wanted, until))
                kills += 1
            shutil.rmtree(place)
    wanted = kills + 1 if least is None else least
    assert seed is not None or repeated >= wanted, f"{repeated} draws were made again, too few to show anything"
    return kills


def at_random_moments(data, seed, most):
    """Campaigns that are killed several times anywhere, and then let run. In production the first kill of each is
    between a draw and its record: moments by lot may all miss it.
    """
    chance, kills, repeated, began = random.Random(31), 0, 0, time.monotonic()
    _, until, wanted = reference(data / f"random-{seed}", seed)[-1]
    whole = time.monotonic() - began
    while kills < most:
        place, said = data / f"chain-{seed}", []
        place.mkdir()
        for number in range(min(CHAIN, most - kills)):
            anywhere = {"delay": whole * chance.random() ** 3}  # early ones cost little
            at_a_draw = {"draws": chance.randint(1, 6)}
            new, killed = all_left(place, seed, **(at_a_draw if seed is None and not number else anywhere))
            said += new
            kills += killed
        repeated += check_said(said + the_rest(place, seed, wanted, until))
        shutil.rmtree(place)
    assert seed is not None or repeated > 0
    return kills


def while_replanning(data, seed):
    """Re-planning killed before each of its writes: old plan or new, in ledger and store alike; then made."""
    before, kills = reference(data / f"replan-{seed}", seed)[3][0], 0  # phase 0 is trained

    def replanning(place, kill_at):
        def work(say):
            kill_before(kill_at, every=True)
            opened(place, seed).replan(because="outside", queries=(4, 4), note="killed")

        return in_child(work)

    def after(place):
        def work(say):
            campaign = opened(place, seed)
            say("found", *replanned_in(campaign))
            campaign.replan(because="outside", queries=(4, 4), note="killed")
            campaign.replan(because="outside", queries=(4, 4), note="killed")
            say("then", *replanned_in(campaign))
            all_verbs(opened(place, seed), lambda *words: None)
            verdict = verify_campaign(config_in(place, seed))
            say("end", opened(place, seed).state.phase, [one.name for one in verdict.checks if not one.ok])

        said, killed = in_child(work)
        assert not killed
        return {one[0]: one[1:] for one in said}

    killed = True
    while killed:
        kills += 1
        place = data / f"replanned-{seed}"
        shutil.copytree(before, place)
        _, killed = replanning(place, kills)
        said = after(place)
        assert said["found"] in ([0, 0, 2], [1, 1, 3]), "ledger, store and plan disagree"
        assert said["then"] == [1, 1, 3]
        assert said["end"] == [2, []]
        shutil.rmtree(place)
    return kills - 1


def replanned_in(campaign):
    """Re-plannings in the store and in the ledger, and the phases the campaign has."""
    with ledger_of(campaign.store) as ledger:
        steps = [one for one in campaign.store.transitions() if one.kind.startswith("replanned")]
        return len(steps), len(ledger.amendments), campaign.recipe.phases


def run(scenario, directory, kills):
    data = directory / "data"
    write_data(data)
    private_pool = sys.modules["discreet.recipes.private_pool"]  # the package has a function of that name
    (data / "warm").mkdir()
    plan = private_pool.plan_of(config_in(data / "warm", None))
    private_pool.plan_of = lambda config: plan  # made once
    trainer.check_by_trying = lambda *made_up: None  # half of the time; reads no record, writes nothing
    POOL.append(labelled_records.pool_like(config_in(data / "warm", None), "../pool.npz", size=RECORDS))
    all_verbs(opened(data / "warm", None), lambda *words: None)  # everything is imported
    gc.freeze()  # a child that looks for garbage among what it was born with copies every page of it
    done = 0
    for seed in (11, None):
        if scenario == "replan":
            done += while_replanning(data, seed)
        elif scenario == "writes":
            done += before_writes(data, seed, every=bool(kills))
        else:
            done += at_random_moments(data, seed, kills // 2)
    print(f"{done} kills")


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
