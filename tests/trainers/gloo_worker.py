"""Real processes on demand: every line of standard input asks for some, with the environment torchrun gives each.

They are forked from this one, which has trained once in one thread: importing what that takes is most of the time.
Each writes what it found to DIRECTORY/SCENARIO-RANK.json, and what it says to DIRECTORY/SCENARIO-RANK.txt.
"""

import json
import os
import signal
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from test_several_processes import CASES, TWO, dropping
from training_runs import AMPLE, FOR_PERSONS, Run, phase_of, trained

from discreet.errors import DiscreetError
from discreet.noise import RecordingSource, Seeded
from discreet.privacy.ledger import FileSink, Ledger, MemorySink
from discreet.trainers.dp_sgd import DPSGD, CohortRecords, Processes, Settings, charge_training, join_processes
from discreet.trainers.dp_sgd import trainer as trainer_module

TIMEOUT = timedelta(seconds=20)
LONG = phase_of({"a": 0.6, "b": 0.9}, steps=4, stages=2)


def case_of(name, processes):
    """Weights after a case, and the draws that were made here."""
    make, cohorts, phase, options = CASES[name]
    torch.manual_seed(0)
    trainer = DPSGD(make(), classes=3, settings=Settings(**options), processes=processes)
    trainer.check(phase=phase, cohorts=cohorts)
    source, paid = RecordingSource(Seeded(0)), None
    if processes is None or processes.first:
        ledger = Ledger.create(MemorySink(), FOR_PERSONS if phase.unit == "person" else AMPLE, source=source)
        paid = charge_training(ledger, phase)
    made = trainer.train(phase=phase, cohorts=cohorts, receipt=paid)
    return {"weights": Run(made).weights().tolist(), "draws": [call.mechanism for call, _ in source.tape.calls]}


def equal(everybody, place):
    """All cases by three, and by two of them; and one process beside a group that is not its business."""
    found = {f"{name} 3": case_of(name, everybody) for name in CASES}
    pair = dist.new_group([0, 1])
    if everybody.rank < 2:
        two = Processes.of(pair, timeout=TIMEOUT)
        found |= {f"{name} 2": case_of(name, two) for name in CASES}
    if everybody.rank == 2:
        found["records 1"] = case_of("records", None)
        try:
            Processes.of(pair)
        except DiscreetError as refused:
            found["outside"] = str(refused)
    return found


def refused(everybody, place):
    """Another label on rank 2; then rank 1 fails in a step; then, as if nothing had been, a run."""
    found, honest = {}, trainer_module._Step._sum
    y = TWO["a"].y.copy()
    y[0] = (y[0] + (everybody.rank == 2)) % 3
    found["differs"] = attempted(everybody, TWO | {"a": CohortRecords(x=TWO["a"].x, y=y)})

    def failing(self, sampled, seed):
        if self._processes.rank == 1:
            raise RuntimeError("patient 1234")
        return honest(self, sampled, seed)

    trainer_module._Step._sum = failing
    found["fails"] = attempted(everybody, TWO)
    trainer_module._Step._sum = honest
    return found | {"after": attempted(everybody, TWO)}


def attempted(processes, cohorts):
    source, paid = RecordingSource(Seeded(0)), None
    if processes.first:
        paid = charge_training(Ledger.create(MemorySink(), AMPLE, source=source), LONG)
    try:
        DPSGD(dropping, classes=3, settings=Settings(micro_batch=4), processes=processes).train(
            phase=LONG, cohorts=cohorts, receipt=paid
        )
    except DiscreetError as failed:
        words = f"{type(failed).__name__}: {failed}"
    else:
        words = "trained"
    return {"words": words, "draws": [call.mechanism for call, _ in source.tape.calls]}


def durable(processes, place):
    """A run on disk. The process named by VICTIM is killed, or falls silent, in step 6."""
    victim, honest, steps = os.environ["VICTIM"], trainer_module._Step._sum, []

    def deadly(self, sampled, seed):
        steps.append(seed)
        if str(processes.rank) == victim and len(steps) == 6:
            if os.environ["HOW"] == "silence":
                time.sleep(3 * TIMEOUT.total_seconds())
            os.kill(os.getpid(), signal.SIGKILL)
        return honest(self, sampled, seed)

    trainer_module._Step._sum = deadly
    paid, file = None, place / "a.ledger"
    if processes.first:
        open_it = Ledger.open if file.exists() else lambda sink, source: Ledger.create(sink, AMPLE, source=source)
        paid = charge_training(open_it(FileSink(file), source=Seeded(3)), LONG)
    chosen = Settings(micro_batch=4, checkpoint_every=2, optimizer="nadam", learning_rate=0.02, ema=0.9)
    trainer = DPSGD(dropping, classes=3, settings=chosen, checkpoints=place / "kept", processes=processes)
    try:
        made = trainer.train(phase=LONG, cohorts=TWO, receipt=paid)
    except DiscreetError as failed:
        return {"words": f"{type(failed).__name__}: {failed}"}
    return {"weights": Run(made).weights().tolist(), "steps": len(steps)}


def act(place, scenario):
    """One process, from its start to its end."""
    patience = timedelta(seconds=2) if os.environ["HOW"] == "silence" else TIMEOUT
    with join_processes(timeout=patience) as processes:
        found = {"equal": equal, "refused": refused, "durable": durable}[scenario](processes, place)
    (place / f"{scenario}-{os.environ['RANK']}.json").write_text(json.dumps(found))


def forked(place, scenario, environment):
    child = os.fork()
    if child:
        return child
    os.environ.update(environment)
    said = os.open(place / f"{scenario}-{environment['RANK']}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    try:
        act(place, scenario)
    except BaseException:  # noqa: BLE001 - a forked process must not go on as its mother
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def main():
    torch.set_num_threads(1)
    trained(torch.nn.Linear(5, 3), TWO, LONG)
    for line in sys.stdin:
        asked = json.loads(line)
        place, count = Path(asked["place"]), asked["count"]
        shared = {name: str(value) for name, value in asked["environment"].items()} | {"WORLD_SIZE": str(count)}
        ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
        children = [forked(place, asked["scenario"], shared | rank) for rank in ranks]
        codes = {}
        for rank in sorted(range(count), key=lambda rank: rank == asked["victim"]):
            if rank == asked["victim"]:  # the others have ended; if it is only silent, this is the end of it
                os.kill(children[rank], signal.SIGKILL)
            codes[rank] = os.waitstatus_to_exitcode(os.waitpid(children[rank], 0)[1])
        print(json.dumps([codes[rank] for rank in range(count)]), flush=True)


if __name__ == "__main__":
    main()
