"""Private training on MNIST or Fashion-MNIST: the tutorial CNN of 26,010 parameters, epsilon 3, delta 1e-6.

    python examples/train_mnist.py --data DIRECTORY --set mnist

DIRECTORY holds the data sets' own files (train-images-idx3-ubyte.gz ...) in a folder of that name. About NN minutes on
two cores. Stop it with Ctrl-C, or kill it, and call it again: it goes on from its last checkpoint with the draws it had.
When it is done, `discreet verify` checks what it promises.

Every number below was chosen on MNIST's training set alone (50,000 to train, the last 10,000 to validate), as if that were
public; Fashion-MNIST took no part in it. The test sets are looked at once, at the end.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from discreet import create_ledger, open_ledger, plan
from discreet.models import build_model
from discreet.noise import SealedPhase
from discreet.pools.idx import read_idx
from discreet.privacy.certificate import certify, write_certificate
from discreet.privacy.training_phase import TrainingPhase
from discreet.trainers.dp_sgd import DPSGD, CohortRecords, Settings, charge_training
from discreet.trainers.evaluation import evaluate_public

RECORDS = 60_000
SETTINGS = Settings(
    clip=1.0,
    optimizer="sgd",
    learning_rate=2.0,
    ema=0.99,
    micro_batch=512,
    checkpoint_every=20,
)


def pictures(place: Path, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Pictures as (n, 1, 28, 28) in [-1, 1], by constants and not by statistics of the data; and their classes."""
    images = read_idx(place / f"{kind}-images-idx3-ubyte.gz")
    labels = read_idx(place / f"{kind}-labels-idx1-ubyte.gz")
    return (images[:, None].astype(np.float32) / 127.5 - 1), labels.astype(np.int64)


def main() -> None:
    """Plan, charge, train, evaluate, certify."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--data", type=Path, required=True, help="directory of the data sets")
    words.add_argument("--set", choices=["mnist", "fashion-mnist"], default="mnist")
    words.add_argument("--epsilon", default="3")
    words.add_argument("--delta", default="1e-6")
    words.add_argument("--batch", type=int, default=2048)
    words.add_argument("--epochs", type=int, default=40)
    words.add_argument("--out", type=Path, help="where ledger, checkpoints and model go (default: out/SET)")
    words.add_argument("--seed", type=int, help="simulate with this seed: repeatable, and protects nobody")
    asked = words.parse_args()
    out = asked.out or Path("out") / asked.set
    out.mkdir(parents=True, exist_ok=True)

    x, y = pictures(asked.data / asked.set, "train")
    made = plan(epsilon=asked.epsilon, delta=asked.delta, initial=RECORDS, batch=asked.batch, epochs=asked.epochs)
    phase = TrainingPhase.of(made, 0)
    print(
        f"{phase.steps} steps, sigma {made.noise_multiplier:.3f}, claim epsilon {made.claim:.4f} at delta {asked.delta}"
    )

    book = out / "training.ledger"
    ledger = open_ledger(book, seed=asked.seed) if book.exists() else create_ledger(book, plan=made, seed=asked.seed)
    cohorts, began = {"initial": CohortRecords(x=x, y=y)}, time.monotonic()
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"), TimeRemainingColumn())
    with ledger, Progress(*columns) as bar:
        task = bar.add_task("training", total=phase.steps)
        trainer = DPSGD(
            build_model("small_cnn", inputs=(1, 28, 28), classes=10, activation="tanh"),
            classes=10,
            settings=SETTINGS,
            checkpoints=out / "checkpoints",
            watch=lambda done, _: bar.update(task, completed=done),
        )
        trainer.check(phase=phase, cohorts=cohorts)  # before anything is charged
        if asked.seed is None:
            (out / "checkpoints").mkdir(exist_ok=True)
            with SealedPhase(ledger, phase=0, directory=out / "checkpoints") as sealed:
                model = trainer.train(phase=phase, cohorts=cohorts, receipt=charge_training(sealed, phase))
                model.save(out / "model")
        else:
            model = trainer.train(phase=phase, cohorts=cohorts, receipt=charge_training(ledger, phase))
            model.save(out / "model")
        write_certificate(certify(ledger), out / "certificate.json")

    found = evaluate_public(model, *pictures(asked.data / asked.set, "t10k"), classes=10)
    print(f"test accuracy {found.accuracy:.2%} ({found.low:.2%} to {found.high:.2%}), {time.monotonic() - began:.0f} s")
    print(f"model: {out / 'model'}; promise: discreet verify {out / 'certificate.json'} --ledger {book}")


if __name__ == "__main__":
    main()
