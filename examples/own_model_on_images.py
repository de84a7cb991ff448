"""Your own torch module and a folder of pictures: FOLDER/CLASS/*.png, one folder a class.

    python examples/own_model_on_images.py [FOLDER] [--out DIRECTORY]

Without a FOLDER it draws one: 1,500 little discs, squares and triangles. Pictures are read when they are sampled, so
the folder may be larger than memory. Needs: pip install 'discreet[torch,images]'
"""

import argparse
import random
import shutil
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn

from discreet import DiscreetError, create_ledger, plan
from discreet.models import replace_batch_norm
from discreet.noise import SealedPhase
from discreet.privacy.certificate import certify, write_certificate
from discreet.privacy.plan import TrainingPhase
from discreet.trainers.dp_sgd import DPSGD, CohortRecords, RandomFlip, Settings, charge_training
from discreet.trainers.evaluation import evaluate_public

SIDE = 32


class Pictures:
    """Files as an array of records: it has a shape, a type, and rows by position. Nothing is kept in memory."""

    def __init__(self, files: list[Path]) -> None:
        self.files, self.shape, self.dtype = files, (len(files), 1, SIDE, SIDE), np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, positions: np.ndarray | slice) -> np.ndarray:
        chosen = np.array(self.files, dtype=object)[positions]
        read = [np.asarray(Image.open(file).convert("L").resize((SIDE, SIDE))) for file in chosen]
        return (np.stack(read)[:, None] / 127.5 - 1).astype(np.float32)  # public constants, not statistics


def my_model(classes: int) -> nn.Module:
    """An ordinary network, as it might lie in your drawer: with batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(512, classes),
    )


def draw(folder: Path, count: int) -> Path:
    """Made-up pictures of three shapes."""
    rng = random.Random(0)
    for number in range(count):
        shape = ("disc", "square", "triangle")[number % 3]
        picture = Image.new("L", (SIDE, SIDE), rng.randrange(60))
        pen, size = ImageDraw.Draw(picture), rng.randrange(8, 14)
        x, y = rng.randrange(2, 16), rng.randrange(2, 16)
        if shape == "triangle":
            pen.polygon([(x, y + size), (x + size, y + size), (x + size // 2, y)], fill=200)
        else:
            (pen.ellipse if shape == "disc" else pen.rectangle)([x, y, x + size, y + size], fill=200)
        (folder / shape).mkdir(parents=True, exist_ok=True)
        picture.save(folder / shape / f"{number}.png")
    return folder


def main() -> None:
    """Read, plan, charge, train, evaluate, certify."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("folder", type=Path, nargs="?", help="FOLDER/CLASS/*.png")
    words.add_argument("--pictures", type=int, default=1500, help="how many to draw, without a folder")
    words.add_argument("--out", type=Path, default=Path("out") / "images")
    asked = words.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    folder = asked.folder or draw(asked.out / "pictures", asked.pictures)

    if not any(folder.glob("*/*.png")):
        raise SystemExit(f"{folder} holds no pictures: they are looked for as {folder}/CLASS/*.png")
    classes = sorted(place.name for place in folder.iterdir() if place.is_dir())  # folder names: public
    files = sorted(folder.glob("*/*.png"), key=lambda file: file.stem)
    labels = np.array([classes.index(file.parent.name) for file in files])
    test = np.arange(len(files)) % 5 == 0  # every fifth is kept out, by its place in the list
    x, y = Pictures([file for file, kept in zip(files, test, strict=True) if not kept]), labels[~test]

    made = plan(epsilon=8, delta="1e-5", initial=len(x), batch=min(256, len(x)), epochs=25)
    phase = TrainingPhase.of(made, 0)
    torch.manual_seed(0)
    trainer = DPSGD(
        replace_batch_norm(my_model(len(classes)), groups=4),  # without this: refused, by the layer's name
        classes=len(classes),
        settings=Settings(
            clip=0.5,
            optimizer="sgd",
            learning_rate=1.0,
            optimizer_options={"momentum": 0.9},
            ema=0.9,
            augment=RandomFlip(),  # a picture and its mirror image say the same here
        ),
        checkpoints=asked.out / "checkpoints",
    )
    cohorts = {"initial": CohortRecords(x=x, y=y)}
    trainer.check(phase=phase, cohorts=cohorts)  # before anything is charged
    book = asked.out / "images.ledger"
    for left in (book, asked.out / f"{book.name}.mark"):  # an example begins anew; yours is kept, and goes on
        left.unlink(missing_ok=True)
    shutil.rmtree(asked.out / "checkpoints", ignore_errors=True)
    with create_ledger(book, plan=made) as ledger:
        with SealedPhase(ledger, phase=0, directory=asked.out) as sealed:
            model = trainer.train(phase=phase, cohorts=cohorts, receipt=charge_training(sealed, phase))
        write_certificate(certify(ledger), asked.out / "certificate.json")
    model.save(asked.out / "model")

    unseen = Pictures([file for file, kept in zip(files, test, strict=True) if kept])
    found = evaluate_public(model, unseen, labels[test], classes=len(classes))  # drawn by us: public
    print(f"{phase.steps} steps, claim epsilon {made.claim:.2f} for every one of {len(x)} pictures")
    majority = found.metric("accuracy").baseline
    interval = f"{found.low:.1%} to {found.high:.1%}, majority {majority:.1%}"
    print(f"accuracy {found.accuracy:.1%} ({interval}) on {len(unseen)} others")
    print(f"model: {asked.out / 'model'}; promise: discreet verify {asked.out / 'certificate.json'}")


if __name__ == "__main__":
    try:
        main()
    except DiscreetError as refused:
        raise SystemExit(str(refused)) from None
