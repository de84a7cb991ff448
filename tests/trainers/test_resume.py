"""Killed anywhere and resumed equals uninterrupted, bit for bit; and no step is taken that was not charged."""

import contextlib
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import _pop_mode
from training_runs import blobs, phase_of

from discreet.errors import BadInput, DiscreetError, InvalidCheckpoint, LedgerUnavailable, ReceiptRefused
from discreet.noise import OperatingSystem, SealedPhase, Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.ledger import FileSink, Ledger, Line, MemorySink, Path, PathSegment, committed
from discreet.trainers.dp_sgd import DPSGD, CohortRecords, Settings, charge_training, checks
from discreet.trainers.dp_sgd.checkpoints import State
from discreet.trainers.dp_sgd.checks import run_name

pytestmark = pytest.mark.thorough

HERE = pathlib.Path(__file__).parent
STEPS = 8
PHASE = phase_of({"a": 0.6, "b": 0.8}, steps=STEPS // 2, sigma=2.0, stages=2)
TERMS = committed(
    Budget(epsilon=50, delta="1e-3"),
    [
        Line(who=who, phase=0, event=event, count=stage.steps)
        for stage in PHASE.stages[:1]
        for who, event in stage.cohorts
        for _ in PHASE.stages
    ],
    paths=[Path(name=who, stays=(PathSegment(who=who),)) for who in ("a", "b")],
    accountant="rdp",
)
COHORTS = {"a": blobs(12), "b": blobs(9, seed=1)}


class Killed(BaseException):
    """Nobody catches it: as good as death, in one process."""


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Dropout(0.3), nn.Linear(4, 3))


def settings(**changes):
    base = {"optimizer": "nadam", "learning_rate": 0.05, "ema": 0.9, "schedule": "cosine", "checkpoint_every": 3}
    return Settings(**(base | changes))


def run(place, *, kill_at=0, only="", count=False, cohorts=COHORTS, sealed=False, chosen=None):
    """Train from wherever ``place`` is; returns the weights, or None if it was killed at line ``kill_at``.

    And how many lines were executed, if that was asked for or it was to be killed: counting takes most of the time.
    """
    ledger_file, source = place / "a.ledger", OperatingSystem() if sealed else Seeded(7)
    if ledger_file.exists():
        ledger = Ledger.open(FileSink(ledger_file), source=source)
    else:
        ledger = Ledger.create(FileSink(ledger_file), TERMS, source=source)
    trainer = DPSGD(model(), classes=3, settings=chosen or settings(), checkpoints=place / "kept")
    seen = [0]

    def act():
        if sealed:
            (place / "keys").mkdir(exist_ok=True)
            with SealedPhase(ledger, phase=0, directory=place / "keys") as phase:
                return trainer.train(phase=PHASE, cohorts=cohorts, receipt=charge_training(phase, PHASE))
        return trainer.train(phase=PHASE, cohorts=cohorts, receipt=charge_training(ledger, PHASE))

    try:
        with counting(seen, kill_at, only) if kill_at or count else contextlib.nullcontext():
            made = act()
    except Killed:
        while torch._C._len_torch_function_stack():  # what a dead process had entered is gone
            _pop_mode()
        return None, seen[0]
    finally:
        ledger._sink.close()
    return [value.numpy().tobytes() for value in made.module.state_dict().values()], seen[0]


class counting:  # noqa: N801 - reads as a word
    """Counts lines executed in discreet's files, and dies at one of them."""

    def __init__(self, seen, kill_at, only):
        self.seen, self.kill_at, self.only = seen, kill_at, only

    def __enter__(self):
        sys.settrace(self.on_event)

    def __exit__(self, *_):
        sys.settrace(None)

    def on_event(self, frame, event, _):
        name = frame.f_code.co_filename
        if "discreet" not in name or self.only not in name:
            return None
        if event == "line":
            self.seen[0] += 1
            if self.seen[0] == self.kill_at:
                sys.settrace(None)
                raise Killed
        return self.on_event


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    torch.set_num_threads(1)
    return run(tmp_path_factory.mktemp("whole"), count=True)


def test_the_same_seed_gives_the_same_bits(uninterrupted, tmp_path):
    assert run(tmp_path)[0] == uninterrupted[0]


@pytest.mark.parametrize("only", ["", "trainers"])
def test_killed_anywhere_and_resumed_it_ends_the_same(uninterrupted, tmp_path, only):
    weights = uninterrupted[0]
    whole = run_counted(tmp_path / "count", only)
    rng = random.Random(only)
    for trial in range(12):
        place = tmp_path / str(trial)
        place.mkdir()
        for kill_at in sorted(rng.sample(range(1, whole), 2), reverse=bool(trial % 2)):
            assert run(place, kill_at=kill_at, only=only)[0] in (None, weights)
        assert run(place)[0] == weights
        entries = [json.loads(line) for line in (place / "a.ledger").read_text().splitlines()[1:]]
        assert len(entries) == 2  # nothing was charged twice, and nothing was trained that was not charged


def run_counted(place, only):
    place.mkdir()
    return run(place, only=only, count=True)[1]


def test_a_finished_phase_is_read_back_without_a_draw(uninterrupted, tmp_path):
    run(tmp_path)
    assert run(tmp_path)[0] == uninterrupted[0]


def test_production_resumes_with_the_sealed_key(tmp_path):
    """Two kills, then a run that is not killed; after it the key is gone and the phase cannot be done again."""
    whole = run_counted(tmp_path / "count", "trainers")
    rng = random.Random(3)
    place = tmp_path / "a"
    place.mkdir()
    for kill_at in sorted(rng.sample(range(whole // 4, whole // 2), 2)):
        assert run(place, kill_at=kill_at, only="trainers", sealed=True)[0] is None
    assert any((place / "keys").iterdir())
    done, _ = run(place, sealed=True)
    assert done is not None
    assert not any(path.suffix == ".key" and path.stat().st_size for path in (place / "keys").iterdir())
    # the phase is over: its key is gone, and doing it again is refused
    with pytest.raises(DiscreetError):
        run(place, sealed=True)


def test_a_sealed_phase_ends_the_same_however_often_it_is_killed(tmp_path):
    """Killed once, then copied: one copy goes on to its end, the other is killed twice more on the way."""
    whole = run_counted(tmp_path / "count", "trainers")
    place, copy = tmp_path / "a", tmp_path / "b"
    place.mkdir()
    assert run(place, kill_at=whole // 3, only="trainers", sealed=True)[0] is None
    shutil.copytree(place, copy)
    for kill_at in (whole // 5, whole // 4):
        assert run(copy, kill_at=kill_at, only="trainers", sealed=True)[0] is None
    assert run(copy, sealed=True)[0] == run(place, sealed=True)[0]


def test_a_run_is_named_by_all_it_depends_on_under_a_secret_key(monkeypatch):
    ledger = Ledger.create(MemorySink(), TERMS, source=Seeded(7))
    receipts = charge_training(ledger, PHASE)
    base = {"facts": ("a", 1), "module": model(), "cohorts": COHORTS}
    a, other = COHORTS["a"], model()
    with torch.no_grad():
        other[0].weight[0, 0] += 1
    y, x = a.y.copy(), a.x.copy()
    y[0], x[0, 0] = (y[0] + 1) % 3, x[0, 0] + 1
    half = np.array(["p"] * 6 + ["q"] * 6)
    changed = [
        base,
        base | {"facts": ("a", 2)},
        base | {"module": other},
        base | {"cohorts": COHORTS | {"a": CohortRecords(x=a.x, y=y)}},
        base | {"cohorts": COHORTS | {"a": CohortRecords(x=x, y=a.y)}},
        base | {"cohorts": COHORTS | {"a": CohortRecords(x=a.x, y=a.y, persons=half)}},
        base | {"cohorts": COHORTS | {"a": CohortRecords(x=a.x, y=a.y, persons=half[::-1])}},
    ]

    def name(parts):
        return run_name(State(parts["module"], settings()), parts["facts"], parts["cohorts"], receipts)

    assert name(base) == name(base)
    names = {name(parts) for parts in changed[:-1]}
    assert len(names) == len(changed) - 1
    monkeypatch.setattr(checks, "step_seal", lambda receipt: b"k" * 32)
    assert name(base) not in names  # without the key nobody can tell which data it was


def test_in_a_simulation_a_charge_is_found_again_once_and_only_with_its_seed(tmp_path):
    from training_runs import AMPLE

    def opened(seed):
        sink = FileSink(tmp_path / "a.ledger")
        make = Ledger.open if sink.read() else (lambda sink, source: Ledger.create(sink, AMPLE, source=source))
        return make(sink, source=Seeded(seed))

    for seed, calls, entries in ((7, 1, 2), (7, 1, 2), (7, 2, 4), (8, 1, 6), (7, 1, 6)):
        with opened(seed) as ledger:
            for _ in range(calls):
                charge_training(ledger, PHASE)
            assert len(ledger) == entries


def test_receipts_that_were_drawn_on_are_not_gone_on_with(tmp_path):
    """Interrupted in a notebook: the same receipts again are refused in words, those of a newly opened ledger go on."""
    ledger = Ledger.create(FileSink(tmp_path / "a.ledger"), TERMS, source=Seeded(7))
    receipts = charge_training(ledger, PHASE)

    def stops(done, steps):
        if done == 5:
            raise KeyboardInterrupt

    options = {"classes": 3, "settings": settings(), "checkpoints": tmp_path / "kept"}
    with pytest.raises(KeyboardInterrupt):
        DPSGD(model(), watch=stops, **options).train(phase=PHASE, cohorts=COHORTS, receipt=receipts)
    with pytest.raises(ReceiptRefused, match="further"):
        DPSGD(model(), **options).train(phase=PHASE, cohorts=COHORTS, receipt=receipts)
    ledger.close()
    assert run(tmp_path)[0] is not None


def test_a_sealed_redo_with_other_labels_is_refused_even_without_its_checkpoint(tmp_path):
    """Equal noise on two inputs would show their difference: the key itself remembers what it was used for."""
    whole = run_counted(tmp_path / "count", "trainers")
    place = tmp_path / "a"
    place.mkdir()
    assert run(place, kill_at=int(whole * 0.8), only="trainers", sealed=True)[0] is None
    shutil.rmtree(place / "kept")
    y = COHORTS["a"].y.copy()
    y[0] = (y[0] + 1) % 3
    with pytest.raises(LedgerUnavailable, match="other records"):
        run(place, sealed=True, cohorts=COHORTS | {"a": CohortRecords(x=COHORTS["a"].x, y=y)})
    assert run(place, sealed=True)[0] is not None


@pytest.mark.parametrize("change", ["module", "global", "journal"])
def test_a_sealed_redo_that_would_hide_something_else_is_refused_at_the_draw(tmp_path, monkeypatch, change):
    """What no digest of settings can see: other code, a global. And a key without its journal is not used at all."""
    whole = run_counted(tmp_path / "count", "trainers")
    place = tmp_path / "a"
    place.mkdir()
    chosen = settings(loss=scaled_loss)
    assert run(place, kill_at=whole * 9 // 10, only="trainers", sealed=True, chosen=chosen)[0] is None
    shutil.rmtree(place / "kept")
    if change == "module":
        changed = nn.Sequential(*model()[:1], nn.ReLU(), *model()[2:])
        monkeypatch.setattr(sys.modules[__name__], "model", lambda: changed)
    if change == "global":
        monkeypatch.setitem(SCALE, "of the loss", 0.01)
    if change == "journal":
        next((place / "keys").glob("*.draws")).unlink()
    with pytest.raises(LedgerUnavailable, match="journal|draws|hid something else"):
        run(place, sealed=True, chosen=chosen)


SCALE = {"of the loss": 1.0}


def scaled_loss(outputs, target):
    return SCALE["of the loss"] * nn.functional.cross_entropy(outputs, target.expand(len(outputs)))


def test_production_without_a_seal_cannot_do_a_phase_twice(tmp_path):
    ledger = Ledger.create(FileSink(tmp_path / "a.ledger"), TERMS, source=OperatingSystem())
    charge_training(ledger, PHASE)
    with pytest.raises(DiscreetError, match="remains|planned|left|commit"):
        charge_training(ledger, PHASE)
    ledger.close()


@pytest.mark.parametrize("change", ["labels", "records", "settings", "weights"])
def test_other_inputs_do_not_get_the_same_noise(tmp_path, change):
    whole = run_counted(tmp_path / "count", "trainers")
    place = tmp_path / "a"
    place.mkdir()
    run(place, kill_at=int(whole * 0.8), only="trainers")
    cohorts, chosen = COHORTS, None
    if change == "labels":
        y = COHORTS["a"].y.copy()
        y[0] = (y[0] + 1) % 3
        cohorts = COHORTS | {"a": CohortRecords(x=COHORTS["a"].x, y=y)}
    if change == "records":
        x = COHORTS["a"].x.copy()
        x[3, 0] += 1
        cohorts = COHORTS | {"a": CohortRecords(x=x, y=COHORTS["a"].y)}
    if change == "settings":
        chosen = settings(clip=2.0)
    if change == "weights":
        state = json.loads((place / "kept" / "phase-0.json").read_text())
        file = place / "kept" / state["tensors"]
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
    with pytest.raises(InvalidCheckpoint):
        run(place, cohorts=cohorts, chosen=chosen)


def test_a_checkpoint_may_come_more_often_without_changing_a_bit(uninterrupted, tmp_path):
    run(tmp_path, kill_at=int(uninterrupted[1] * 0.7))
    assert run(tmp_path, chosen=settings(checkpoint_every=1))[0] == uninterrupted[0]


def test_broken_checkpoints_are_refused_in_words(tmp_path):
    run(tmp_path)
    state, rng = tmp_path / "kept" / "phase-0.json", random.Random(0)
    sound = state.read_bytes()
    refused = 0
    for _ in range(60):
        broken = bytearray(sound)
        broken[rng.randrange(len(broken))] = rng.randrange(256)
        if rng.random() < 0.3:
            broken = broken[: rng.randrange(len(broken))]
        state.write_bytes(broken)
        try:
            run(tmp_path)
        except (BadInput, LedgerUnavailable) as error:
            assert isinstance(error, InvalidCheckpoint)
            refused += 1
    assert refused > 30  # some bytes do not matter: spaces, the learning rate that is set anew
    state.write_bytes(sound)
    next((tmp_path / "kept").glob("*.safetensors")).unlink()
    with pytest.raises(InvalidCheckpoint, match="Remove it"):
        run(tmp_path)


def test_no_pickle_is_written(tmp_path):
    run(tmp_path)
    assert {path.suffix for path in (tmp_path / "kept").iterdir()} == {".json", ".safetensors"}


@pytest.mark.integration
def test_sigkill_from_outside(uninterrupted, tmp_path):
    """A real process, really killed, twice."""
    script = tmp_path / "child.py"
    script.write_text(
        "import sys, time\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(HERE)!r})\n"
        "import torch\n"
        "torch.set_num_threads(1)\n"
        "import test_resume\n"
        "from discreet.trainers.dp_sgd.checkpoints import State\n"
        "honest = State.move\n"
        "def slowly(self, *a, **k):\n"
        "    print('step', flush=True)\n"
        "    time.sleep(0.02)\n"
        "    honest(self, *a, **k)\n"
        "State.move = slowly\n"
        "test_resume.run(Path(sys.argv[1]))\n"
    )
    place = tmp_path / "run"
    place.mkdir()
    for steps in (2, 4):
        child = subprocess.Popen([sys.executable, str(script), str(place)], stdout=subprocess.PIPE, text=True)
        for _ in range(steps):
            child.stdout.readline()
        time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        child.stdout.close()
    assert run(place)[0] == uninterrupted[0]


def test_it_learns_something(uninterrupted):
    """The run above is a real one: its weights moved."""
    assert uninterrupted[0] != [value.numpy().tobytes() for value in model().state_dict().values()]
    assert all(np.isfinite(np.frombuffer(part, dtype=np.float32)).all() for part in uninterrupted[0])
