"""A whole plan is executed: every committed line is charged and drawn with its own parameters, and nothing is left."""

import numpy as np
import pytest
from torch import nn
from training_runs import blobs

from discreet import plan
from discreet.errors import BudgetExceeded
from discreet.noise import RecordingSource, Seeded
from discreet.privacy.certificate import certify, verify, write_certificate
from discreet.privacy.events import PoissonSampledGaussian
from discreet.privacy.ledger import ChargeReason, Ledger, MemorySink, terms_of
from discreet.privacy.plan import TrainingPhase
from discreet.trainers.dp_sgd import DPSGD, Settings, charge_training
from discreet.trainers.evaluation import evaluate_paid, evaluation_event

pytestmark = pytest.mark.thorough

SIZES = {"epsilon": 8, "delta": "1e-4", "initial": 120, "queries": [60, 60], "batch": 40, "epochs": 2}
PLANS = {
    "step-amplification": {},
    "noise-reduction": {"schedule": "noise-reduction"},
    "continual": {"schedule": "continual"},
    "scout": {"schedule": "scout", "batch": 200},
    "selection": {"selection_epsilon": 1, "threshold_epsilon": "0.05"},
    "individual": {"selection_epsilon": 1, "threshold_epsilon": "0.05", "individual_rates": True, "high_share": 0.6},
    "shards": {"selection": "shards", "selection_epsilon": 1},
}


@pytest.mark.parametrize("kind", PLANS)
def test_a_plan_is_executed_to_the_last_line(kind, tmp_path):
    made = plan(**SIZES | PLANS[kind], accountant="rdp")
    held_out, source = evaluation_event(epsilon="0.5"), RecordingSource(Seeded(1))
    terms = terms_of(made, held_out=held_out)
    ledger = Ledger.create(MemorySink(), terms, source=source)
    cohorts = {cohort.label: blobs(round(cohort.size), seed=number) for number, cohort in enumerate(made.cohorts)}
    trainer, model = DPSGD(nn.Linear(5, 3), classes=3, settings=Settings(ema=0.9)), None
    for number in range(len(made.phases)):
        for line in terms.lines:  # what questions cost, which another room asks
            if line.phase == number and not isinstance(line.event, PoissonSampledGaussian) and line.who != "held-out":
                ledger.charge(event=line.event, who=line.who, why=ChargeReason(phase=number, purpose="question"))
        phase = TrainingPhase.of(made, number)
        assert phase.steps == made.phases[number].steps
        model = trainer.train(phase=phase, cohorts=cohorts, start=model, receipt=charge_training(ledger, phase))
        receipt = ledger.charge(event=held_out, who="held-out", why=ChargeReason(phase=number, purpose="evaluation"))
        evaluate_paid(model, blobs(50, seed=9), classes=3, receipt=receipt)
        if number == 0:
            with pytest.raises(BudgetExceeded):
                charge_training(ledger, phase)
    assert all(left == 0 for _, left in ledger.lines_left())
    assert executed(source.tape) == planned(made)
    if kind == "continual":  # computing a claim by PLD takes a while, and one stands for all
        write_certificate(certify(ledger), tmp_path / "certificate.json")
        assert verify(tmp_path / "certificate.json").ok
    assert np.isfinite(model.predict_proba(blobs(5).x)).all()


def executed(tape):
    """For every step: the rate of each cohort's mask, and the multiplier of the noise that followed."""
    steps, rates = [], {}
    for call, _ in tape.calls:
        if call.mechanism == "poisson-mask":
            rates[call.ticket.who] = call.parameters["rate"]
        if call.mechanism == "gaussian":
            steps.append((rates, call.parameters["noise_multiplier"]))
            rates = {}
    return steps


def planned(made):
    return [
        (
            {cohort.label: rate for cohort, rate in zip(made.cohorts, stage.rates, strict=False) if rate > 0},
            stage.noise_multiplier,
        )
        for phase in made.phases
        for stage in phase.stages
        for _ in range(stage.steps)
    ]
