"""DP-SGD by cohorts: executes a phase of a plan.

A step: every cohort is sampled with its own rate; each unit's gradient is clipped to C; Gaussian noise of sigma C is
added to the *sum*; the noisy sum is divided by the plan's b, a public number. An empty batch is still a noisy step.
(theory: docs/proofs/dp-sgd.md.)

Guarantee (zero-out relation, the unit of the plan): a step is the Poisson-sampled Gaussian mechanism its receipt was
charged for, and weights, optimizer state and checkpoints are computed from its outputs and public things alone.
Without a draw left on the receipt no step is taken. Nothing else leaves: no loss, no batch size, no count of records
that were zeroed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from discreet.errors import BadInput, ReceiptRefused
from discreet.noise import derived_seed, gaussian, remembers_inputs, same_inputs, shared_secret, step_seed
from discreet.noise.coins import MASK
from discreet.privacy.files import write_whole
from discreet.privacy.ledger import Receipt
from discreet.privacy.plan import TrainingPhase, TrainingStage
from discreet.trainers.dp_sgd.augmentation import views_of
from discreet.trainers.dp_sgd.batches import micro_batches, rows_at_once
from discreet.trainers.dp_sgd.checkpoints import Checkpoints, State
from discreet.trainers.dp_sgd.checks import (
    check_by_trying,
    check_layers,
    check_receipts,
    cohorts_of,
    drawing_with_torch,
    in_full,
    made_up,
    made_up_targets,
    run_name,
)
from discreet.trainers.dp_sgd.cohorts import CohortRecords, PoissonCohortSampler
from discreet.trainers.dp_sgd.distributed import Prepared, Processes, alike, follow, leading, same_weights, sum_of
from discreet.trainers.dp_sgd.engine.fast import REFERENCE, GradientEngine, choose_engine
from discreet.trainers.dp_sgd.gradients import RecordGradients, reach
from discreet.trainers.dp_sgd.optimization import factor_at, loss_named
from discreet.trainers.dp_sgd.settings import Settings
from discreet.trainers.tensors import check_generators, seed_global
from discreet.trainers.torch_predictor import Task, TorchPredictor, device_named

Watch = Callable[[int, int], None]
"""Told after every step how many are done, and of how many: both public."""


class DPSGD:
    """A `Trainer` of torch modules.

    ``model``: a module, or a function that makes one; trained copies are made, the given one stays as it is.
    ``checkpoints``: a directory in which a phase can be resumed after a crash.
    ``processes``: those that train together; each calls `check` and `train`, rank 0 has the receipts. None: this one.
    """

    def __init__(
        self,
        model: nn.Module | Callable[[], nn.Module],
        *,
        classes: int,
        task: Task = "multiclass",
        settings: Settings | None = None,
        checkpoints: Path | str | None = None,
        watch: Watch | None = None,
        processes: Processes | None = None,
    ) -> None:
        if not callable(model) or (isinstance(model, type) and not issubclass(model, nn.Module)):
            raise BadInput(
                "the model", "it is neither a torch module nor a function that makes one", "Give one of them"
            )
        if not isinstance(settings or Settings(), Settings) or not (watch is None or callable(watch)):
            raise BadInput("a trainer", "settings or watch are of the wrong type", "Give Settings(...), and a function")
        if not isinstance(processes or Processes(), Processes):
            raise BadInput("processes", "they are of the wrong type", "Give Processes.of(group), or use join_processes")
        if type(classes) is not int or classes < 1 or task not in get_args(Task):
            raise BadInput(
                "a trainer", "classes or task are not possible", "Give a count, and multiclass or multilabel"
            )
        self._model, self.classes, self.task = model, classes, task
        self.settings = settings or Settings()
        self.loss = loss_named(self.settings.loss)
        self._checkpoints = None if checkpoints is None else Path(checkpoints)
        self._watch = watch or (lambda done, steps: None)
        self.processes = processes or Processes()

    def check(
        self, *, phase: TrainingPhase, cohorts: Mapping[str, CohortRecords], start: TorchPredictor | None = None
    ) -> None:
        """Refuse what cannot be trained. Call it before charging: it draws nothing and reads no record (but several
        processes compare theirs).
        """
        with leading(self.processes):
            self._ready("check", phase, cohorts, start)

    def train(
        self,
        *,
        phase: TrainingPhase,
        cohorts: Mapping[str, CohortRecords],
        start: TorchPredictor | None = None,
        receipt: Receipt | Sequence[Receipt] | None,
    ) -> TorchPredictor:
        """The model after ``phase``. After a crash, call it again the same way: it goes on from its checkpoint.

        Of several processes rank 0 has the receipts, the others None; all return the same model.
        """
        receipts: list[Any] = list(receipt) if isinstance(receipt, Sequence) else [receipt]
        with leading(self.processes):
            module, taken, device, engine = ready = self._ready("train", phase, cohorts, start, receipts)
            state = State(module, self.settings)
            if self.processes.first:
                self._lead(ready, state, phase, receipts)
            else:
                follow(self.processes, _Step(self, phase, taken, state, device, engine)._sum, module)
            trained = same_weights(self.processes, state.result())
        return TorchPredictor(trained, task=self.task, device=str(device))

    def _lead(self, ready: Prepared, state: State, phase: TrainingPhase, receipts: Sequence[Receipt]) -> None:
        """All steps that are left, on rank 0."""
        _, taken, device, engine = ready
        checkpoints = self._resumed(state, phase, taken, receipts)
        if not state.done and any(receipt.used(MASK, who) for receipt in receipts for who in phase.labels):
            raise ReceiptRefused(
                f"training phase {phase.number}", "its receipts were drawn on and are spent in part", "Charge it again"
            )
        step = _Step(self, phase, taken, state, device, engine)
        for stage, paid, before in _stages(phase, receipts):
            for number in range(max(state.done - before, 0), stage.steps):
                step.take(stage, paid)
                self._watch(state.done, phase.steps)
                last = number + 1 == stage.steps
                if checkpoints and (last or state.done % self.settings.checkpoint_every == 0):
                    checkpoints.write(state.progress())

    def _ready(
        self,
        call: str,
        phase: TrainingPhase,
        cohorts: Mapping[str, CohortRecords],
        start: TorchPredictor | None,
        receipts: Sequence[Receipt] | None = None,
    ) -> Prepared:
        """What `_prepared` makes, the same in all processes."""

        def prepare() -> Prepared:
            if receipts is not None:
                check_receipts(phase, receipts, pays=self.processes.first)
            return self._prepared(phase, cohorts, start)

        return alike(
            self.processes,
            prepare,
            lambda: (call, self.settings.digest(), self.task, self.classes, phase),
            lambda: shared_secret(receipts[0] if receipts else None),
        )

    def _prepared(
        self, phase: TrainingPhase, cohorts: Mapping[str, CohortRecords], start: TorchPredictor | None
    ) -> Prepared:
        taken = cohorts_of(phase, cohorts)
        if self.task == "multiclass":
            taken = {label: cohort.of_classes() for label, cohort in taken.items()}
        self.settings.digest()  # what cannot be named is found here, not after the charge
        check_generators()
        device = device_named(self.settings.device)
        module = self._module(start).to(device).train()
        check_layers(module)
        samples = []
        kinds = {cohort.kind: cohort for cohort in taken.values()}  # made-up records of one kind are the same ones
        for cohort in kinds.values():  # each on a copy: a model may keep what it sees, and made-up records, too
            sample = made_up(cohort, device)
            with in_full("copying the model", "Give a module that copy.deepcopy can copy"):
                first, second = copy.deepcopy(module), copy.deepcopy(module)
            drawing_with_torch("the model", partial(check_by_trying, first, sample, self.classes))
            views = drawing_with_torch("the augmentation", partial(self._made_up_views, sample))
            samples.append((views, made_up_targets(cohort, device)))
            reference = RecordGradients(second, self.loss)
            drawing_with_torch("the model or its loss", partial(reference.try_out, *samples[-1]))
        self._rehearse(module, phase)
        if self.settings.engine == "reference" or not samples:
            return module, taken, device, REFERENCE
        engine = choose_engine(module, self.loss, samples, compiled=self.settings.engine == "compiled")
        return module, taken, device, engine

    def _made_up_views(self, sample: Any) -> Any:
        with in_full("the augmentation", "It gets views of one record and a generator"):
            return views_of(sample, self.settings.augmentations, self.settings.views, 0, made_up=True)

    def _rehearse(self, module: nn.Module, phase: TrainingPhase) -> None:
        """Everything else that a step needs, once, on a copy."""
        for step in range(phase.steps):
            factor_at(self.settings.schedule, step, phase.steps)
        with in_full("the optimizer", "Check optimizer and optimizer_options"):
            state = State(copy.deepcopy(module), self.settings)
            size = sum(weights.numel() for weights in module.parameters() if weights.requires_grad)
            state.move(torch.zeros(size, dtype=torch.float64), steps=1)
        if self._checkpoints is None or not self.processes.first:  # which writes them
            return
        with in_full("storing the optimizer's state", "Use options that are plain numbers"):
            json.dumps(state.progress().optimizer)
        try:
            self._checkpoints.mkdir(parents=True, exist_ok=True)
            write_whole(self._checkpoints / ".writable", "")
            (self._checkpoints / ".writable").unlink()
        except OSError:
            raise BadInput("checkpoints", "the directory cannot be written", "Choose another directory") from None

    def _module(self, start: TorchPredictor | None) -> nn.Module:
        if start is not None and not isinstance(start, TorchPredictor):
            raise BadInput("start", "it is not a TorchPredictor", "Give what an earlier phase returned")
        with in_full("making or copying the model", "Give a module that copy.deepcopy can copy"):
            if isinstance(self._model, nn.Module):
                check_layers(self._model)
                module = copy.deepcopy(self._model)
            else:
                with torch.random.fork_rng(devices=[]):  # the first weights are public; a redo begins with the same
                    torch.manual_seed(0)
                    module = copy.deepcopy(self._model())
        if not isinstance(module, nn.Module):
            raise BadInput("the model", "it is not a torch module", "Give an nn.Module or a function that makes one")
        if start is not None:
            try:
                module.load_state_dict(start.module.state_dict())
            except (RuntimeError, TypeError):
                raise BadInput(
                    "start", "it is another kind of model than this trainer's", "Train on with the same model"
                ) from None
        return module

    def _resumed(
        self, state: State, phase: TrainingPhase, cohorts: Mapping[str, CohortRecords], receipts: Sequence[Receipt]
    ) -> Checkpoints | None:
        """Take ``state`` and ``receipts`` to where the checkpoint is, if there is one."""
        if not receipts or (self._checkpoints is None and not remembers_inputs(receipts[0])):
            return None
        facts = (self.settings.digest(), self.task, self.classes, phase.batch, phase.unit)
        name = run_name(state, facts, cohorts, receipts)
        same_inputs(receipts[0], name)
        if self._checkpoints is None:
            return None
        simulation = receipts[0].simulation
        checkpoints = Checkpoints(self._checkpoints, phase=phase.number, made_for=name, simulation=simulation)
        progress = checkpoints.read()
        if progress is not None:
            state.restore(progress)
            for stage, paid, before in _stages(phase, receipts):
                _advance(paid, min(max(state.done - before, 0), stage.steps))
        return checkpoints


class _Step:
    """What all steps of a phase share."""

    def __init__(
        self,
        trainer: DPSGD,
        phase: TrainingPhase,
        cohorts: Mapping[str, CohortRecords],
        state: State,
        device: torch.device,
        engine: GradientEngine,
    ) -> None:
        self._settings, self._cohorts, self._processes = trainer.settings, cohorts, trainer.processes
        self._usable = {label: cohort.labelled(trainer.classes) for label, cohort in cohorts.items()}
        self._state, self._device, self._phase = state, device, phase
        self._by_person = phase.unit == "person"
        self._gradients = engine.gradients(state.module, trainer.loss)
        slots = sum(cohort.units for cohort in cohorts.values())
        rows_per_unit = self._settings.records_per_person if self._by_person else 1
        at_once = rows_at_once(self._settings, by_person=self._by_person)
        exact = reach(
            self._settings.clip, slots=slots * rows_per_unit, parameters=self._gradients.size, at_once=at_once
        )
        self._reach = exact * (1 + engine.margin(at_once))
        joint = self._by_person and self._settings.person_clip == "joint"
        self._clip = self._settings.clip if joint else self._settings.clip / rows_per_unit
        self._together = rows_per_unit if joint else 1

    def take(self, stage: TrainingStage, receipt: Receipt) -> None:
        """One step: sample, sum, hide, move."""
        sampled = PoissonCohortSampler(stage, self._cohorts, receipt).draw()
        total = sum_of(self._processes, self._sum, self._state.module, sampled, step_seed(receipt))
        noisy = gaussian(total.cpu().numpy(), sensitivity=self._reach, receipt=receipt)
        self._state.move(torch.from_numpy(noisy / self._phase.batch), steps=self._phase.steps)

    def _sum(self, sampled: Mapping[str, NDArray[np.int64]], seed: int) -> torch.Tensor:
        """This process's part of the sum of clipped gradients: all of it, if there is no other."""
        total, devices = self._gradients.zero(), [self._device] if self._device.type == "cuda" else []
        pieces = micro_batches(
            sampled,
            self._cohorts,
            self._usable,
            self._settings,
            by_person=self._by_person,
            seed=seed,
            device=self._device,
            share=(self._processes.rank, self._processes.count),
        )
        with torch.random.fork_rng(devices=devices):
            for piece in pieces:
                piece_seed = derived_seed(seed, "micro-batch", piece.number)
                views = views_of(piece.rows, self._settings.augmentations, self._settings.views, piece_seed)
                seed_global(derived_seed(piece_seed, "model"), self._device)
                total += self._gradients.clipped_sum(
                    views, piece.targets, clip=self._clip, usable=piece.usable, together=self._together
                )
        return total


def _advance(receipt: Receipt, draws: int) -> None:
    """Take ``receipt`` to draw ``draws``; one that was drawn on further would serve other draws than before."""
    if any(receipt.used(MASK, charge.who) > draws for charge in receipt.entry.charges):
        raise ReceiptRefused(
            "going on with a phase",
            "these receipts were drawn on further than its checkpoint",
            "Open the sealed phase (or the ledger) again and take its receipts from charge_training",
        )
    if draws:
        receipt.advance(draws)


def _stages(phase: TrainingPhase, receipts: Sequence[Receipt]) -> list[tuple[TrainingStage, Receipt, int]]:
    """Every stage with its receipt and the steps before it."""
    before = [sum(stage.steps for stage in phase.stages[:number]) for number in range(len(phase.stages))]
    return list(zip(phase.stages, receipts, before, strict=True))
