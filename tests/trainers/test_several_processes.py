"""Several processes are one: the same draws, the same sum but for rounding, noise once; and they end together."""

import itertools
import json
import threading

import numpy as np
import pytest
import torch
from processes_in_threads import together, well
from torch import nn
from training_runs import AMPLE, FOR_PERSONS, Run, blobs, phase_of, trained

from discreet.errors import BadInput, LedgerUnavailable, ProcessFailed, ReceiptRefused
from discreet.noise import OperatingSystem, RecordingSource, SealedPhase, Seeded
from discreet.privacy.ledger import FileSink, Ledger, MemorySink
from discreet.testing import NotPrivate, check_neighbours
from discreet.trainers.dp_sgd import (
    DPSGD,
    MISSING,
    CohortRecords,
    Processes,
    Settings,
    charge_training,
    join_processes,
)
from discreet.trainers.dp_sgd import trainer as trainer_module
from discreet.trainers.dp_sgd.batches import micro_batches
from discreet.trainers.dp_sgd.engine.fast import GradientEngine

pytestmark = pytest.mark.thorough

TWO = {"a": blobs(40), "b": blobs(33, seed=1)}
PERSONS = {"a": blobs(60, person_size=4)}
PHASE = phase_of({"a": 0.6, "b": 0.9}, steps=3)


def dropping():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Dropout(0.4), nn.Linear(6, 3))


def jittered(views, generator):
    return views + 0.3 * torch.randn(views.shape, generator=generator)


CASES = {
    "records": (lambda: nn.Linear(5, 3), TWO, PHASE, {"micro_batch": 4}),
    "reference": (dropping, TWO, PHASE, {"micro_batch": 6, "engine": "reference"}),
    "nadam-ema": (dropping, TWO, PHASE, {"micro_batch": 7, "optimizer": "nadam", "learning_rate": 0.02, "ema": 0.9}),
    "joint": (
        dropping,
        PERSONS,
        phase_of({"a": 0.8}, unit="person"),
        {"micro_batch": 8, "records_per_person": 3, "person_clip": "joint"},
    ),
    "views": (dropping, TWO, PHASE, {"micro_batch": 9, "views": 3, "augment": jittered}),
}


def several(count, model, cohorts, phase, *, said=None, **options):
    """As `trained`, in ``count`` processes: the run of rank 0, and what the others returned."""
    own = {name: options.pop(name) for name in ("checkpoints", "watch") if name in options}
    source = RecordingSource(Seeded(0))
    ledger = Ledger.create(MemorySink(), FOR_PERSONS if phase.unit == "person" else AMPLE, source=source)

    def work(processes):
        trainer = DPSGD(model, classes=3, settings=Settings(**options), processes=processes, **own)
        receipts = charge_training(ledger, phase) if processes.first else None
        return trainer.train(phase=phase, cohorts=cohorts, receipt=receipts)

    made = well(together(count, work, said=said))
    return Run(made[0], source.tape.calls), [Run(one) for one in made[1:]]


@pytest.mark.parametrize(("case", "count"), [*itertools.product(CASES, [2, 3]), ("records", 20)])
def test_it_is_one_process_but_for_the_order_of_additions(case, count):
    """Twenty are more than there are micro-batches: at most 73 records, four at a time."""
    make, cohorts, phase, options = CASES[case]
    torch.manual_seed(0)
    model = make()
    alone = trained(model, cohorts, phase, **options)
    run, others = several(count, model, cohorts, phase, **options)
    seal, *kinds = [call.mechanism for call, _ in run.calls]
    assert seal == "step-seal"  # by which they compare their records
    assert kinds == [call.mechanism for call, _ in alone.calls]
    for kind in ("poisson-mask", "step-seed"):
        for one, other in zip(run.outputs(kind), alone.outputs(kind), strict=True):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(run.inputs(), alone.inputs(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
        assert other.any()
    np.testing.assert_allclose(run.weights(), alone.weights(), rtol=1e-12)
    for other in others:
        np.testing.assert_array_equal(other.weights(), run.weights())


def test_rank_r_computes_every_wth_micro_batch_and_reads_no_other(linear):
    cohort = blobs(50)

    class Reader:
        shape, dtype = cohort.x.shape, cohort.x.dtype

        def __init__(self):
            self.read = []

        def __len__(self):
            return 50

        def __getitem__(self, rows):
            self.read.append(rows)
            return cohort.x[rows]

    readers, phase = {}, phase_of({"a": 0.7}, steps=1)
    source = RecordingSource(Seeded(0))
    ledger = Ledger.create(MemorySink(), AMPLE, source=source)

    def work(processes):
        readers[processes.rank] = Reader()
        cohorts = {"a": CohortRecords(x=readers[processes.rank], y=cohort.y)}
        trainer = DPSGD(linear, classes=3, settings=Settings(micro_batch=5), processes=processes)
        receipts = charge_training(ledger, phase) if processes.first else None
        trainer.train(phase=phase, cohorts=cohorts, receipt=receipts)

    well(together(3, work))
    sampled = np.flatnonzero(next(output for call, output in source.tape.calls if call.mechanism == "poisson-mask"))
    pieces = [sampled[start : start + 5] for start in range(0, len(sampled), 5)]
    for rank, reader in readers.items():
        compared, *steps = reader.read  # first the few rows by which the processes see that they have the same
        assert len(compared) == 50
        assert [rows.tolist() for rows in steps] == [rows.tolist() for rows in pieces[rank::3]]


def test_micro_batches_are_counted_over_the_whole_step():
    """Their number seeds their views: each has its own, the same in whatever share it is."""
    sampled = {"a": np.arange(11), "b": np.arange(7)}
    usable = {label: np.ones(len(cohort), dtype=bool) for label, cohort in TWO.items()}

    def pieces(share):
        options = {"by_person": False, "seed": 0, "device": torch.device("cpu"), "share": share}
        return {
            piece.number: piece for piece in micro_batches(sampled, TWO, usable, Settings(micro_batch=4), **options)
        }

    whole = pieces((0, 1))
    assert [(number, len(piece.targets)) for number, piece in whole.items()] == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 2)]
    shared = [pieces((rank, 3)) for rank in range(3)]
    assert [list(part) for part in shared] == [[0, 3], [1, 4], [2]]
    for part in shared:
        for number, piece in part.items():
            assert torch.equal(piece.rows, whole[number].rows)
    both = np.concatenate([TWO["a"].rows(sampled["a"]), TWO["b"].rows(sampled["b"])])
    assert np.array_equal(torch.cat([piece.rows for piece in whole.values()]).numpy(), both)


def test_only_cohorts_of_one_kind_share_a_micro_batch():
    others = TWO | {"b": CohortRecords(x=TWO["b"].x.astype(np.float64), y=TWO["b"].y)}
    sampled = {"a": np.arange(11), "b": np.arange(7)}
    usable = {label: np.ones(len(cohort), dtype=bool) for label, cohort in others.items()}
    options = {"by_person": False, "seed": 0, "device": torch.device("cpu")}
    pieces = micro_batches(sampled, others, usable, Settings(micro_batch=4), **options)
    assert [len(piece.targets) for piece in pieces] == [4, 4, 3, 4, 3]


def test_noise_is_drawn_once_and_has_the_scale_of_one_process():
    """30,000 noises: a second draw would make the scale 41% larger, and 4% are seen at ten standard errors."""
    torch.manual_seed(0)
    model, sigma, batch = nn.Linear(100, 300, bias=False), 2.0, 16
    cohorts = {"a": CohortRecords(x=np.zeros((20, 100), np.float32), y=np.full(20, MISSING))}
    source = RecordingSource(Seeded(0))
    ledger, phase = (
        Ledger.create(MemorySink(), AMPLE, source=source),
        phase_of({"a": 0.5}, steps=1, sigma=2.0, batch=16),
    )

    def work(processes):
        trainer = DPSGD(model, classes=300, settings=Settings(micro_batch=2, learning_rate=1.0), processes=processes)
        receipts = charge_training(ledger, phase) if processes.first else None
        return trainer.train(phase=phase, cohorts=cohorts, receipt=receipts)

    made = well(together(3, work))
    kinds = [call.mechanism for call, _ in source.tape.calls]
    assert kinds == ["step-seal", "poisson-mask", "step-seed", "gaussian"]
    for one in made:
        moved = (one.module.weight - model.weight).detach().numpy() * batch
        assert abs(moved.std() / sigma - 1) < 0.04
        assert abs(moved.mean()) < 5 * sigma / np.sqrt(moved.size)


def test_only_gradients_and_orders_travel(linear):
    """No receipt, no key, no noise: the others get masks, seeds and weights, and give sums."""
    said = []
    several(2, linear, TWO, PHASE, said=said, micro_batch=4)
    to_others = [json.loads(thing) for source, _, thing in said if source == 0 and isinstance(thing, str)]
    assert [order["do"] for order in to_others] == ["go", "go", *["step", "send"] * 3, "end"]
    assert {name for order in to_others for name in order} == {"do", "secret", "seed", "sampled"}
    sent = [thing.dtype for source, _, thing in said if source == 1 and isinstance(thing, torch.Tensor)]
    assert sent == [torch.float64] * 3


def attempt(count, phase=PHASE, *, call="train", model=None, cohorts=TWO, change=lambda rank: {}):
    """Everybody's result or error, and what was drawn. ``change(rank)`` gives a process other arguments."""
    source = RecordingSource(Seeded(0))
    ledger = Ledger.create(MemorySink(), AMPLE, source=source)
    torch.manual_seed(0)
    shared = model or nn.Linear(5, 3)

    def work(processes):
        facts = {"phase": phase, "cohorts": cohorts, "model": shared, "settings": Settings(micro_batch=4), "call": call}
        facts |= change(processes.rank)
        trainer = DPSGD(facts["model"], classes=3, settings=facts["settings"], processes=processes)
        arguments = {"phase": facts["phase"], "cohorts": facts["cohorts"]}
        if facts["call"] == "check":
            return trainer.check(**arguments)
        paid = charge_training(ledger, phase) if processes.first else None
        return trainer.train(**arguments, receipt=facts.get("receipt", paid))

    return together(count, work), [call.mechanism for call, _ in source.tape.calls]


class Kin(nn.Linear):
    """The same weights, other code."""

    def __init__(self, *sizes):
        torch.manual_seed(0)
        super().__init__(*sizes)


def half_frozen():
    torch.manual_seed(0)
    model = nn.Linear(5, 3)
    model.bias.requires_grad_(False)
    return model


def changed(name):
    x, y = TWO["a"].x.copy(), TWO["a"].y.copy()
    if name == "records":
        x[3, 2] += 1
    if name == "labels":
        y[5] = (y[5] + 1) % 3
    cohort = {"cohorts": TWO | {"a": CohortRecords(x=x, y=y)}}
    return {
        "records": cohort,
        "labels": cohort,
        "settings": {"settings": Settings(micro_batch=5)},
        "phase": {"phase": phase_of({"a": 0.6, "b": 0.9}, steps=4)},
        "weights": {"model": nn.Linear(5, 3)},
        "layers": {"model": Kin(5, 3)},
        "frozen": {"model": half_frozen()},
        "engine": {},
        "call": {"call": "check"},
    }[name]


@pytest.mark.parametrize("call", ["check", "train"])
@pytest.mark.parametrize(
    "name", ["records", "labels", "settings", "phase", "weights", "layers", "frozen", "engine", "call"]
)
def test_processes_with_something_else_are_refused_before_any_draw(monkeypatch, name, call):
    if name == "engine":  # a machine on which the trial of the fast engine ends otherwise: noise is scaled to it
        strange = "rank 2"
        here = lambda *_, **__: GradientEngine(fast=threading.current_thread().name == strange)  # noqa: E731
        monkeypatch.setattr(trainer_module, "choose_engine", here)
    different = changed(name)
    if name == "call":
        different = {"call": "check" if call == "train" else "train", "receipt": None}
    found, drawn = attempt(3, call=call, change=lambda rank: different if rank == 2 else {})
    assert not set(drawn) - {"step-seal"}
    for one in found:
        assert isinstance(one, ProcessFailed)
        assert one.rank == 2
        assert "rank 2 has other" in str(one)
        assert ("records" in str(one)) == (name in ("records", "labels"))


def test_mapped_records_in_another_order_are_refused(tmp_path):
    """A unit would be in a step twice, once for each process: 2 C."""
    np.save(tmp_path / "0.npy", TWO["a"].x)
    np.save(tmp_path / "1.npy", np.roll(TWO["a"].x, 1, axis=0))
    mapped = [np.load(tmp_path / f"{k}.npy", mmap_mode="r") for k in (0, 1)]
    cohorts = [TWO | {"a": CohortRecords(x=x, y=TWO["a"].y)} for x in mapped]
    found, drawn = attempt(2, change=lambda rank: {"cohorts": cohorts[rank]})
    assert all("rank 1 has other records" in str(one) for one in found)
    assert drawn == ["step-seal"]
    well(attempt(2, change=lambda rank: {"cohorts": cohorts[1]})[0])


@pytest.mark.parametrize("rank", [0, 1])
def test_who_cannot_prepare_says_so_and_all_end_before_any_draw(rank):
    found, drawn = attempt(3, change=lambda one: {"cohorts": {"a": TWO["a"]}} if one == rank else {})
    assert not drawn
    for one, error in enumerate(found):
        assert isinstance(error, BadInput if one == rank else ProcessFailed)
        assert "no records of cohort b" in str(error)
    assert found[2].rank == rank


def test_only_rank_0_pays():
    found, drawn = attempt(2, change=lambda rank: {"receipt": None} if rank == 0 else {})
    assert isinstance(found[0], ReceiptRefused)
    assert isinstance(found[1], ProcessFailed)
    found, drawn = attempt(2, change=lambda rank: {"receipt": []} if rank == 1 else {})
    assert isinstance(found[1], ReceiptRefused)
    assert "rank 0 pays" in str(found[0])
    assert not drawn


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("kind", [RuntimeError, MemoryError, KeyboardInterrupt, BadInput])
def test_who_fails_in_the_middle_of_a_step_ends_all_and_tells_the_kind_alone(monkeypatch, rank, kind):
    honest, steps = trainer_module._Step._sum, []

    def failing(self, sampled, seed):
        if self._processes.rank == rank:
            steps.append(seed)
            if len(steps) == 2:
                raise kind("reading", "that failed") if kind is BadInput else kind("patient 1234")
        return honest(self, sampled, seed)

    monkeypatch.setattr(trainer_module._Step, "_sum", failing)
    found, drawn = attempt(3)
    assert drawn.count("gaussian") == 1
    for one, error in enumerate(found):
        assert isinstance(error, kind if one == rank and kind in (KeyboardInterrupt, BadInput) else ProcessFailed)
        if isinstance(error, ProcessFailed):
            assert error.rank == rank
            assert f"rank {rank} ended with {kind.__name__}" in str(error)
            assert "1234" not in str(error)
            assert error.__cause__ is error.__context__ is None


def test_what_fails_on_rank_0_after_the_sum_ends_all(monkeypatch):
    def refuses(*_, **__):
        raise LedgerUnavailable("repeating", "it hid something else before")

    monkeypatch.setattr(trainer_module, "gaussian", refuses)
    found, _ = attempt(2)
    assert isinstance(found[0], LedgerUnavailable)
    assert isinstance(found[1], ProcessFailed)
    assert "hid something else" in str(found[1])


@pytest.mark.parametrize("case", ["records", "joint", "views"])
def test_the_replay_kit_over_two_processes(monkeypatch, case):
    make, cohorts, phase, options = CASES[case]
    torch.manual_seed(0)
    model = make()

    def run(data, ledger):
        def work(processes):
            trainer = DPSGD(model, classes=3, settings=Settings(**options), processes=processes)
            receipts = charge_training(ledger, phase) if processes.first else None
            made = trainer.train(phase=phase, cohorts=data, receipt=receipts)
            return [value.detach().numpy() for value in made.module.state_dict().values()]

        return well(together(2, work))

    y = cohorts["a"].y.copy()
    y[cohorts["a"].owners == 1] = MISSING
    other = cohorts | {"a": CohortRecords(x=cohorts["a"].x, y=y, persons=cohorts["a"].persons)}
    check_neighbours(run, cohorts, neighbours=[other], terms=FOR_PERSONS if phase.unit == "person" else None)
    if case == "records":  # and it can fail: one of the two does not clip
        honest = trainer_module._Step._sum

        def careless(self, sampled, seed):
            self._clip = 1e9 if self._processes.rank else self._clip
            return honest(self, sampled, seed)

        monkeypatch.setattr(trainer_module._Step, "_sum", careless)
        with pytest.raises(NotPrivate) as caught:
            check_neighbours(run, cohorts, neighbours=[zeroed(cohorts, row) for row in range(8)])
        assert {finding.kind for finding in caught.value.findings} == {"sensitivity"}


def zeroed(cohorts, row):
    y = cohorts["a"].y.copy()
    y[row] = MISSING
    return cohorts | {"a": CohortRecords(x=cohorts["a"].x, y=y)}


def run_sealed(place, count, *, end_at=None, every=100):
    """Production in ``count`` processes, ended after step ``end_at``."""
    (place / "keys").mkdir(exist_ok=True, mode=0o700)
    file = place / "a.ledger"
    open_it = Ledger.open if file.exists() else lambda sink, source: Ledger.create(sink, AMPLE, source=source)
    phase = phase_of({"a": 0.6, "b": 0.9}, steps=6)

    def ends(done, steps):
        if done == end_at:
            raise KeyboardInterrupt

    def work(processes):
        chosen = Settings(micro_batch=4, checkpoint_every=every, optimizer="adam", learning_rate=0.05)
        trainer = DPSGD(
            dropping, classes=3, settings=chosen, checkpoints=place / "kept", watch=ends, processes=processes
        )
        if not processes.first:
            return trainer.train(phase=phase, cohorts=TWO, receipt=None)
        ledger = open_it(FileSink(file), source=OperatingSystem())
        try:
            with SealedPhase(ledger, phase=0, directory=place / "keys") as sealed:
                return trainer.train(phase=phase, cohorts=TWO, receipt=charge_training(sealed, phase))
        finally:
            ledger.close()

    return together(count, work)


@pytest.mark.parametrize("every", [100, 2])
def test_a_phase_goes_on_with_another_number_of_processes(tmp_path, every):
    """The key compares every sum with the one it hid before, to a millionth of C: another order is no difference."""
    for count, end_at in ((3, 5), (1, 5), (2, 5), (7, None)):
        found = run_sealed(tmp_path, count, end_at=end_at, every=every)
        if end_at:
            assert isinstance(found[0], KeyboardInterrupt)
            assert all("rank 0 ended with KeyboardInterrupt" in str(one) for one in found[1:])
        else:
            well(found)
    assert len((tmp_path / "a.ledger").read_text().splitlines()) == 2  # its head, and one charge


def test_ended_and_resumed_with_another_number_it_has_the_same_weights(tmp_path):
    def run(place, counts):
        place.mkdir()
        for count in counts:
            source = Seeded(3)
            file = place / "a.ledger"
            if file.exists():
                ledger = Ledger.open(FileSink(file), source=source)
            else:
                ledger = Ledger.create(FileSink(file), AMPLE, source=source)
            last = count is counts[-1]

            def ends(done, steps, last=last):
                if done == 5 and not last:
                    raise KeyboardInterrupt

            def work(processes, ledger=ledger, ends=ends):
                chosen = Settings(micro_batch=4, checkpoint_every=2, optimizer="nadam", learning_rate=0.02, ema=0.9)
                trainer = DPSGD(
                    dropping, classes=3, settings=chosen, checkpoints=place / "kept", watch=ends, processes=processes
                )
                phase = phase_of({"a": 0.6, "b": 0.9}, steps=4, stages=2)
                paid = charge_training(ledger, phase) if processes.first else None
                return trainer.train(phase=phase, cohorts=TWO, receipt=paid)

            found = together(count, work)
            ledger.close()
        return [Run(one).weights() for one in well(found)]

    whole = run(tmp_path / "whole", [1])[0]
    for resumed in run(tmp_path / "parts", [3, 2]):
        np.testing.assert_allclose(resumed, whole, rtol=1e-12)


def test_rank_0_alone_writes_checkpoints(tmp_path, linear, monkeypatch):
    made = []
    honest = trainer_module.Checkpoints.write
    monkeypatch.setattr(
        trainer_module.Checkpoints, "write", lambda self, progress: (made.append(progress.done), honest(self, progress))
    )
    several(3, linear, TWO, PHASE, checkpoints=tmp_path / "kept", checkpoint_every=1)
    assert made == [1, 2, 3]


def test_watch_is_told_once(linear):
    seen = []
    several(3, linear, TWO, PHASE, watch=lambda *facts: seen.append(facts))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_one_process_is_the_default_whatever_torch_distributed_does(linear, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "2")
    assert DPSGD(linear, classes=3).processes == Processes(rank=0, count=1)
    monkeypatch.setenv("WORLD_SIZE", "1")
    with join_processes() as processes:
        assert processes == Processes()
        assert processes.first
    with pytest.raises(BadInput, match="torchrun"):
        Processes.of()
    with pytest.raises(BadInput, match="join_processes"):
        DPSGD(linear, classes=3, processes="all")
    assert "wire" not in repr(Processes())


def test_sums_of_ranks_stay_within_reach():
    """Badly scaled vectors that point the same way, in as many ranks as hurt most: rounding is far below `reach`."""
    from discreet.trainers.dp_sgd.gradients import reach

    rng, rows, at_once = np.random.default_rng(0), 4096, 4
    for count in (1, 2, 32, 1024):
        parts = np.abs(rng.normal(size=(rows // at_once, 5))) * 10.0 ** rng.integers(-3, 1, (rows // at_once, 1))
        exact = np.array([float(sum(map(np.longdouble, column))) for column in parts.T])
        sums = np.zeros((count, 5))
        for number, part in enumerate(parts):
            sums[number % count] += part
        total = sums[0].copy()
        for one in sums[1:]:
            total += one
        clip = float(np.abs(parts).max()) * np.sqrt(5)
        allowed = reach(clip, slots=rows, parameters=5, at_once=at_once) - clip
        assert np.linalg.norm(total - exact) < allowed


def test_the_depth_of_additions_is_never_more_than_in_one_process():
    """What the proof says of M micro-batches in W ranks: the roundings of a term's way are at most M - 1."""
    for pieces in range(1, 60):
        for count in range(1, 80):
            used = min(count, pieces)  # adding a rank that had nothing is exact
            own = -(-pieces // count)
            assert (own - 1) + (used - 1) <= pieces - 1
