"""Peers for real: Opacus' sums beside ours, its traps, and scikit-activeml's choices beside ours."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from discreet.errors import BadInput, ReceiptRefused
from discreet_research.bench.peer_cases import DIGITS, METHODS, PeerCase

pytestmark = pytest.mark.integration
SMALL = replace(DIGITS, queries=(30, 20), epochs=3)


@pytest.fixture(autouse=True)
def installed():
    """Without them a test is skipped, but never in CI."""
    for name in ("opacus", "skactiveml"):
        if find_spec(name) is None:
            told = f"{name} is not installed: pip install 'discreet-research[peers]'"
            pytest.fail(told) if os.environ.get("CI") else pytest.skip(told)


def records(count, shape, seed=0):
    import torch

    chance = torch.Generator().manual_seed(seed)
    x = torch.randn((count, *shape), generator=chance) * torch.logspace(-2, 2, count).reshape(-1, *[1] * len(shape))
    return x, torch.randint(0, 10, (count,), generator=chance)


def sums_of(name, x, y, usable, clip=0.7):
    """Opacus' sum of clipped gradients, and ours by the reference and by the fast engine."""
    import torch

    from discreet.models import build_model
    from discreet.trainers.dp_sgd.engine.fast import FastGradients
    from discreet.trainers.dp_sgd.gradients import RecordGradients
    from discreet.trainers.dp_sgd.optimization import cross_entropy
    from discreet_research.bench.opacus_trainer import OpacusSums

    if name == "linear":
        module = torch.nn.Linear(x.shape[1], 10, bias=False)
    else:
        module = build_model(name, inputs=tuple(x.shape[1:]), classes=10, seed=3)
    module.train()
    ours = RecordGradients(module, cross_entropy).clipped_sum(x[:, None], y, clip=clip, usable=usable)
    fast = FastGradients(module, cross_entropy).clipped_sum(x[:, None], y, clip=clip, usable=usable)
    theirs = OpacusSums(module, clip, learning_rate=0.0).sum_of(x, y, usable)
    return theirs.double(), ours, fast


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize(("name", "shape"), [("linear", (40,)), ("mlp", (1, 12, 12)), ("small_cnn", (1, 28, 28))])
def test_opacus_and_both_our_engines_sum_the_same_clipped_gradients(name, shape):
    import torch

    x, y = records(24, shape)
    usable = torch.arange(24) % 5 != 0  # some records have no label
    theirs, ours, fast = sums_of(name, x, y, usable)
    assert torch.linalg.vector_norm(ours) > 0.5  # there is something to compare
    assert (theirs - ours).abs().max() < 1e-5
    assert (fast - ours).abs().max() < 1e-5
    longer, *_ = sums_of(name, x, y, usable, clip=1.4)
    assert (longer - theirs).abs().max() > 1e-2  # clipping acts: the test can fail


@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_one_record_that_is_not_finite_poisons_opacus_and_adds_nothing_to_ours():
    import torch

    x, y = records(8, (40,))
    usable = torch.ones(8, dtype=torch.bool)
    without, *_ = sums_of("linear", x, y, usable & (torch.arange(8) != 3))
    x[3, 0] = torch.inf
    theirs, ours, fast = sums_of("linear", x, y, usable)
    assert torch.isnan(theirs).any()
    for mine in (ours, fast):
        assert torch.isfinite(mine).all()
    assert torch.isfinite(without).all()


def phase(steps=1, sigma=3.0, rate=0.5, batch=50):
    from discreet.privacy.events import PoissonSampledGaussian
    from discreet.privacy.plan import TrainingPhase, TrainingStage

    event = PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=sigma)
    stage = TrainingStage(steps=steps, cohorts=(("a", event),))
    return TrainingPhase(number=0, batch=batch, unit="record", stages=(stage,))


def trained(phase, cohort, source, **changes):
    import torch

    from discreet.privacy.budget import Budget
    from discreet.privacy.ledger import Ledger, Line, MemorySink, Path, PathSegment, committed
    from discreet.trainers.dp_sgd import Settings, charge_training
    from discreet_research.bench.opacus_trainer import OpacusTrainer

    def model():
        made = torch.nn.Linear(60, 10, bias=False)
        torch.nn.init.zeros_(made.weight)
        return made

    lines = [Line(who=who, phase=0, event=event, count=phase.steps) for who, event in phase.stages[0].cohorts]
    terms = committed(
        Budget(epsilon="1000", delta="1e-5"), lines, paths=[Path(name="a", stays=(PathSegment(who="a"),))]
    )
    ledger = Ledger.create(MemorySink(), terms, source=source)
    settings = Settings(learning_rate=0.5, clip=2.0, **changes)
    trainer = OpacusTrainer(model, classes=10, settings=settings, seed=1)
    return trainer.train(phase=phase, cohorts={"a": cohort}, receipt=charge_training(ledger, phase))


def nobody(slots=40):
    from discreet.trainers.dp_sgd import MISSING, CohortRecords

    return CohortRecords(x=np.ones((slots, 60), dtype=np.float32), y=np.full(slots, MISSING))


def test_noise_rate_and_divisor_are_the_plans():
    from discreet.noise import Seeded
    from discreet.trainers.dp_sgd import CohortRecords

    moved = trained(phase(sigma=3.0, batch=50), nobody(), Seeded(0)).module.weight.detach().numpy()
    assert 0.9 < moved.std() / (0.5 * 3.0 * 2.0 / 50) < 1.1  # 600 numbers: 3 standard errors are 9%
    x, y = np.eye(60, dtype=np.float32)[np.zeros(400, dtype=int)], np.full(400, 4)
    crowd = CohortRecords(x=x, y=y)  # all alike: the sum tells how many were sampled
    moved = trained(phase(sigma=0.5, rate=0.25, batch=100), crowd, Seeded(0)).module.weight.detach().numpy()
    gradient = 0.9  # of the right class at weight 0
    assert abs(moved[4, 0] / (0.5 * gradient / 100) - 100) < 4 * np.sqrt(400 * 0.25 * 0.75)


def test_what_is_no_simulation_is_refused():
    from discreet.noise import OperatingSystem, Seeded

    with pytest.raises(ReceiptRefused, match="simulation"):
        trained(phase(), nobody(), OperatingSystem())
    with pytest.raises(BadInput, match="adaptive_clip"):
        trained(phase(), nobody(), Seeded(0), adaptive_clip=0.1)


def named(name):
    return next(one for one in METHODS if one.name == name)


@pytest.mark.parametrize("strategy", ["least-confidence", "margin", "entropy"])
def test_scikit_activeml_asks_whom_we_ask(strategy):
    rows = {
        loop: PeerCase(problem=SMALL, method=named(f"{loop}, {strategy}"), seed=2).run(None)
        for loop in ("scikit-activeml", "discreet")
    }
    theirs, ours = (
        [set(json.loads(row["asked_places"])) for row in rows[loop][1:]] for loop in ("scikit-activeml", "discreet")
    )
    for mine, other, k in zip(ours, theirs, SMALL.queries, strict=True):
        assert len(mine) == len(other) == k
        assert len(mine & other) >= k - 1  # scores that are equal but for rounding
    final = [rows[loop][-1]["test_accuracy"] for loop in rows]
    assert abs(final[0] - final[1]) < 0.02


def test_the_bench_runs_peers(tmp_path):
    command = [sys.executable, "-m", "discreet", "bench"]
    part = ["--problem", "digits", "--method", "random, Opacus", "--method", "core-set", "--seeds", "1"]
    place = ["--results", str(tmp_path), "--json"]
    done = subprocess.run(
        [*command, "run", "peers", *part, "--processes", "1", *place], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["failed"] == []
    table = subprocess.run([*command, "table", "peers", *place], capture_output=True, text=True, check=True)
    assert "core-set" in table.stdout
