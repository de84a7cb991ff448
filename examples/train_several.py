"""One private classifier of scikit-learn's digits, trained by several processes.

Run: torchrun --nproc-per-node 2 examples/train_several.py [DIRECTORY]

Every process runs all of this file. Rank 0 has the ledger and draws masks and noise; all of them compute gradients.
If it was interrupted, run it again: the phase goes on where it was. By `python` alone it is one process.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from discreet import DiscreetError, create_ledger, open_ledger, plan
from discreet.models import build_model
from discreet.noise import SealedPhase
from discreet.privacy.certificate import certify, write_certificate
from discreet.privacy.plan import TrainingPhase
from discreet.trainers.dp_sgd import DPSGD, CohortRecords, Settings, charge_training, join_processes

TRAINED = 1400


def main() -> None:
    """Plan, compare, charge, train, certify."""
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "out") / "several"
    if (place / "certificate.json").exists():
        print(f"{place} has a finished model, which is not trained twice. Give another directory.")
        return
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)  # a public constant: pixels are 0 to 16
    cohorts = {"initial": CohortRecords(x=x[:TRAINED], y=y[:TRAINED])}
    made = plan(epsilon=8, delta="1e-5", initial=TRAINED, batch=256, epochs=20)
    phase = TrainingPhase.of(made, 0)

    with join_processes() as processes:
        trainer = DPSGD(
            lambda: build_model("linear", inputs=(64,), classes=10),  # a function: the same first weights everywhere
            classes=10,
            settings=Settings(learning_rate=2.0, micro_batch=32),  # 256 sampled records are 8 pieces to share out
            checkpoints=place / "checkpoints",
            processes=processes,
        )
        trainer.check(phase=phase, cohorts=cohorts)  # by all of them, before anything is charged
        if not processes.first:
            trainer.train(phase=phase, cohorts=cohorts, receipt=None)
            return
        (place / "keys").mkdir(parents=True, exist_ok=True, mode=0o700)
        book = place / "digits.ledger"
        with open_ledger(book) if book.exists() else create_ledger(book, plan=made) as ledger:
            with SealedPhase(ledger, phase=0, directory=place / "keys") as sealed:
                model = trainer.train(phase=phase, cohorts=cohorts, receipt=charge_training(sealed, phase))
            write_certificate(certify(ledger), place / "certificate.json")
        right = (model.predict(x[TRAINED:]) == y[TRAINED:]).mean()
        print(f"{phase.steps} steps by {processes.count} processes, claim epsilon {made.claim:.3f} of 8")
        majority = np.bincount(y[TRAINED:]).max() / len(y[TRAINED:])
        print(f"accuracy on digits it has not seen: {right:.1%} (majority {majority:.1%})")
        print(f"promise: discreet verify {place / 'certificate.json'}")


if __name__ == "__main__":
    try:
        main()
    except DiscreetError as refused:
        raise SystemExit(str(refused)) from None
