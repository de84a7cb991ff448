"""Private training on MNIST or Fashion-MNIST: the tutorial CNN of 26,010 parameters, epsilon 3, delta 1e-6.

    python examples/train_mnist.py --data DIRECTORY --set mnist

DIRECTORY holds the data sets' own files (train-images-idx3-ubyte.gz ...) in a folder of that name. Stop it with Ctrl-C,
or kill it, and call it again: it goes on from its last checkpoint with the draws it had. When it is done, `discreet
verify` checks what it promises. How its numbers were chosen, and what they reach: docs/howto/train-privately.md.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from discreet import DiscreetError, create_ledger, open_ledger, plan
from discreet.models import build_model
from discreet.noise import SealedPhase
from discreet.pools.array_files import read_idx
from discreet.privacy.certificate import certify, write_certificate
from discreet.privacy.plan import TrainingPhase
from discreet.trainers.dp_sgd import DPSGD, CohortRecords, Settings, charge_training
from discreet.trainers.evaluation import evaluate_public
from discreet.trainers.torch_predictor import TorchPredictor

SETTINGS = Settings(
    clip=0.1,
    optimizer="sgd",
    optimizer_options={"momentum": 0.9},
    learning_rate=8.0,
    schedule="linear",
    checkpoint_every=20,
)
MEAN, DEVIATION = 0.1307, 0.3081  # of MNIST, published long ago; used for both sets


def pictures(place: Path, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Pictures as (n, 1, 28, 28), moved by constants and not by statistics of the data; and their classes."""
    images = read_idx(place / f"{kind}-images-idx3-ubyte.gz")
    labels = read_idx(place / f"{kind}-labels-idx1-ubyte.gz")
    return ((images[:, None] / 255 - MEAN) / DEVIATION).astype(np.float32), labels.astype(np.int64)


def main() -> None:
    """Plan, charge, train, evaluate, certify."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--data", type=Path, required=True, help="directory of the data sets")
    words.add_argument("--set", choices=["mnist", "fashion-mnist"], default="mnist")
    words.add_argument("--epsilon", default="3")
    words.add_argument("--delta", default="1e-6")
    words.add_argument("--records", type=int, default=60_000, help="how many there are: a public number")
    words.add_argument("--batch", type=int, default=2048)
    words.add_argument("--epochs", type=int, default=40)
    words.add_argument("--out", type=Path, help="where ledger, checkpoints and model go (default: out/SET)")
    words.add_argument("--seed", type=int, help="simulate with this seed: repeatable, and protects nobody")
    asked = words.parse_args()
    out = asked.out or Path("out") / asked.set
    if (out / "certificate.json").exists():
        raise SystemExit(f"{out} holds a finished model: what it was charged for is spent. Choose another --out.")
    out.mkdir(parents=True, exist_ok=True)

    x, y = pictures(asked.data / asked.set, "train")
    made = plan(epsilon=asked.epsilon, delta=asked.delta, initial=asked.records, batch=asked.batch, epochs=asked.epochs)
    phase, cohorts = TrainingPhase.of(made, 0), {"initial": CohortRecords(x=x, y=y)}
    print(f"{phase.steps} steps, noise {made.noise_multiplier:.3f}, epsilon {made.claim:.4f} at delta {asked.delta}")

    book, began = out / "training.ledger", time.monotonic()
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("training", total=phase.steps)
        network = build_model("small_cnn", inputs=(1, 28, 28), classes=10, activation="tanh")
        trainer = DPSGD(
            network,
            classes=10,
            settings=SETTINGS,
            checkpoints=out / "checkpoints",
            watch=lambda done, _: bar.update(task, completed=done),
        )
        trainer.check(phase=phase, cohorts=cohorts)  # before anything is charged
        new = not book.exists()
        with create_ledger(book, plan=made, seed=asked.seed) if new else open_ledger(book, seed=asked.seed) as ledger:
            if (out / "model" / "model.json").exists():  # killed at the very end: what is left is to burn the key
                if asked.seed is None:
                    SealedPhase(ledger, phase=0, directory=out).end()
                model = TorchPredictor.load(out / "model", network)
            elif asked.seed is None:
                with SealedPhase(ledger, phase=0, directory=out) as sealed:
                    model = trainer.train(phase=phase, cohorts=cohorts, receipt=charge_training(sealed, phase))
                    model.save(out / "model")
            else:
                model = trainer.train(phase=phase, cohorts=cohorts, receipt=charge_training(ledger, phase))
                model.save(out / "model")
            write_certificate(certify(ledger), out / "certificate.json")

    found = evaluate_public(model, *pictures(asked.data / asked.set, "t10k"), classes=10)
    majority = found.metric("accuracy").baseline
    interval = f"{found.low:.2%} to {found.high:.2%}, majority {majority:.2%}"
    print(f"test accuracy {found.accuracy:.2%} ({interval}), {time.monotonic() - began:.0f} s")
    print(f"model: {out / 'model'}; promise: discreet verify {out / 'certificate.json'} --ledger {book}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("Stopped. Call it again the same way to go on.") from None
    except DiscreetError as refused:
        raise SystemExit(str(refused)) from None
