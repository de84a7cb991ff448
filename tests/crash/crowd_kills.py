"""What test_crowd_kills.py runs, `DIRECTORY EVERY`: a crowd campaign, killed before every write from its creation on.

As in campaign_kills.py, whose children and comparisons these are. The gate is charged and drawn while the campaign is
created: whatever is killed there, the same coins fall again, and a process that goes on releases the same texts.
"""

import hashlib
import shutil
import sys
import warnings
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import campaign_kills as kills
import crowd_parts

from discreet.config import CrowdConfig
from discreet.errors import LedgerUnavailable, PoolChanged
from discreet.gates import gate
from discreet.gates.release_files import RepeatedRelease
from discreet.recipes import crowd_release, opening
from discreet.recipes.verification import verify_campaign
from discreet.records import Answer

PEOPLE = ("ada", "bo")
warnings.simplefilter("ignore", RepeatedRelease)  # of one log there are many campaigns here


def config_in(place, seed):
    text = crowd_parts.toml(
        simulation=seed is not None,
        oracle={"name": "'files'", "per_question": 2, "per_annotator": 50},
        queries="[6]",
        log={"path": "'../log.parquet'"},
        gold={"path": "'../gold.csv'"},
        evaluation={"path": "'../held-out.csv'"},
        model={"features": 256, "epochs": 1},
        storage={"url": "'sqlite:///scan.db'"},
    )
    return CrowdConfig.from_text(text, directory=place)


def opened(place, seed):
    return opening.create(config_in(place, seed))


def take(campaign, say):
    """The next verb. Whether there was one. Two people have their own queues."""
    now = campaign.state
    if now.step == "done":
        return False
    asked = {who: campaign.ask(annotator=who) for who in PEOPLE}
    seen = {(one.question_id, one.audience) for one in campaign.exposures()}
    for who, questions in asked.items():
        assert {(one.id, who) for one in questions} <= seen, "somebody was shown what is not in the ledger of exposures"
        say("asked", now.phase, [[one.id, one.record] for one in questions])
    if now.step == "answer" and any(asked.values()):
        texts = dict(zip(campaign.pool.ids, campaign.pool.rows(slice(None)), strict=True))
        campaign.tell(
            [
                Answer(question_id=one.id, value=crowd_parts.label(texts[one.record]), annotator=who)
                for who, questions in asked.items()
                for one in questions
            ]
        )
        say("told", now.phase, len(asked))
    elif now.step != "ask":
        campaign.train()
        say("trained", now.phase, hashlib.sha256(campaign.store.file("model", now.phase).read_bytes()).hexdigest())
    return True


def state_of(campaign, whole=kills.state_of):
    seen = sorted((one.question_id, one.kind, one.audience) for one in campaign.exposures())
    found = whole(campaign) | {"released": crowd_release.released_texts(campaign.store)}
    return found | ({"seen": seen} if campaign.done else {})  # before: whoever was not asked yet


def before_writes(data, seed, *, every):
    states, done, repeated = kills.reference(data / f"whole-{seed}", seed), 0, 0
    for number, ((before, _, _), (_, until, wanted)) in enumerate(pairwise(states)):
        kill_at, killed = 0, True
        while killed:
            kill_at += 1
            place = data / f"killed-{seed}"
            shutil.copytree(before, place)
            said, killed = kills.one_verb(place, seed, kill_at, every=every)
            if killed:
                # in production every new campaign has coins of its own
                mine = {part: value for part, value in wanted.items() if seed or number or part != "released"}
                repeated += kills.check_said(said + kills.the_rest(place, seed, mine, until))
                done += 1
            shutil.rmtree(place)
    assert seed is not None or repeated >= 5, "too few draws were made again to show anything"
    return done


def grown(data):
    """Killed between the draw and its record; then somebody adds rows. The same coins must not be tossed for them."""
    place = data / "grown"
    place.mkdir()

    def dying(say):
        crowd_release.record_release = lambda *a, **o: kills.os.kill(kills.os.getpid(), kills.signal.SIGKILL)
        opened(place, None)

    assert kills.in_child(dying)[1]
    log, rows = data / "log.parquet", crowd_parts.rows_of()
    first = [(f"late-{number}", crowd_parts.RARE[0]) for number in range(40)]
    crowd_parts.write_log(log, rows + first)

    def unguarded(say):
        gate.same_inputs = lambda *inputs: None
        with suppress(PoolChanged):  # what was enrolled before the kill shows it, when the text is out already
            opened(copy, None)
        with opening.open_storage(config_in(copy, None).storage_url()) as storage:
            say("released", crowd_parts.RARE[0] in crowd_release.released_texts(storage.load("home")))

    copy = data / "planted"
    shutil.copytree(place, copy)
    assert kills.in_child(unguarded)[0] == [["released", True]], "without the guard there would be nothing to catch"

    def going_on(say):
        try:
            opened(place, None)
        except LedgerUnavailable:
            say("refused")

    said, _ = kills.in_child(going_on)
    assert said == [["refused"]], "the gate was drawn again on a grown log with the same key"
    crowd_parts.write_log(log, rows)

    def restored(say):
        campaign = opened(place, None)
        say(
            "released",
            len(campaign.pool),
            [one.name for one in verify_campaign(config_in(place, None)).checks if not one.ok],
        )

    said, _ = kills.in_child(restored)
    assert said[0][1] > 0
    assert said[0][2] == []


def run(directory, every):
    data = directory / "data"
    data.mkdir()
    crowd_parts.make(data)
    kills.opened, kills.take, kills.state_of = opened, take, state_of
    done = sum(before_writes(data, seed, every=every) for seed in (11, None))
    grown(data)
    print(f"{done} kills")


if __name__ == "__main__":
    run(Path(sys.argv[1]), bool(int(sys.argv[2])))
