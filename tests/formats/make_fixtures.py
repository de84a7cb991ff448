"""Writes one file of every stored format, as today's code writes it. Once a version was released, its file is kept
when a format gets a new one: `python tests/formats/make_fixtures.py`. What is there is not written again.
"""

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent / "fixtures"


def plan(path):
    import discreet

    made = discreet.plan(
        epsilon=4, delta="1e-5", initial=1000, queries=[200], batch=100, epochs=3, selection_epsilon=1, accountant="rdp"
    )
    from discreet.privacy.plan_files import write_plan

    write_plan(made, path)


def ledger(path):
    from discreet.noise import Seeded
    from discreet.privacy.budget import Budget
    from discreet.privacy.events import Laplace
    from discreet.privacy.ledger import FileSink, Ledger, adaptive

    with Ledger.create(FileSink(path), adaptive(Budget(epsilon=1, delta="1e-6")), source=Seeded(1)) as book:
        book.charge(event=Laplace(epsilon="0.1"), who="pool", why="count")


def mark(path):
    from discreet.privacy.ledger.high_water_mark import HighWaterMark, Position, head_of

    HighWaterMark(path).create(Position(id="5" * 32, lines=3, head=head_of(b"a line\n")))


def certificate(path):
    from discreet.privacy.budget import Budget
    from discreet.privacy.certificate import certify, write_certificate
    from discreet.privacy.events import Laplace
    from discreet.privacy.ledger import Ledger, MemorySink, adaptive

    book = Ledger.create(MemorySink(), adaptive(Budget(epsilon=1, delta=0)))
    book.charge(event=Laplace(epsilon="0.1"), who="pool", why="count")
    write_certificate(certify(book), path)


def key(path):
    from discreet.noise.keys import write_secret

    write_secret(path, "fixture", key=bytes(32))


def votes(path):
    from discreet.records import Votes
    from discreet.trainers.teachers import write_votes

    made = Votes(ids=("x", "y"), classes=("a", "b"), counts=np.array([[2, 1], [0, 3]]), teachers=3, unit="person")
    write_votes(made, path)


def stopping(path):
    from discreet.campaign.stopping_rules import Labels

    path.write_text(json.dumps(Labels(100).to_json(), indent=1) + "\n")


def export(path):
    import tempfile

    from discreet import create_campaign
    from discreet.exports import export_model
    from discreet.pools import ArrayPool
    from discreet.recipes import private_pool

    ids = [f"r{number}" for number in range(20)]
    with tempfile.TemporaryDirectory() as place:
        campaign = create_campaign(
            "small",
            storage=f"sqlite:///{place}/small.db",
            pool=ArrayPool(ids=ids, x=np.eye(20, 2, dtype=np.float32)),
            budget={"epsilon": "8", "delta": "1e-3"},
            recipe=private_pool(
                classes=["no", "yes"],
                task="binary",
                initial=10,
                batch=5,
                epochs=1,
                model="linear",
                plan={"accountant": "rdp"},
                simulation={"seed": 1},
            ),
        )
        campaign.tell({question.id: "no" for question in campaign.ask()})
        campaign.train()
        export_model(campaign, path, onnx=False)


def predictor(path):
    import torch

    from discreet.trainers.torch_predictor import TorchPredictor

    torch.manual_seed(0)
    TorchPredictor(torch.nn.Linear(2, 2), device="cpu").save(path)


def text_classifier(path):
    from discreet.trainers.text_classifier import TextSettings, train_texts

    made = train_texts(
        ["good day", "bad day"], ["a", "b"], classes=("a", "b"), settings=TextSettings(features=16, epochs=1)
    )
    path.write_bytes(made.to_bytes())


def student(path):
    from discreet.trainers.students.stored import StudentModel
    from discreet.trainers.students.student import Constant

    made = StudentModel(model=Constant(1), classes=2, ids=("x",), codes=np.array([1]), flat=True)
    path.write_bytes(made.to_bytes(np.zeros((1, 2))))


def preparation(path):
    from discreet.stream.preparation import Preparation

    path.write_text(json.dumps(Preparation(inputs=2).to_json(), indent=1) + "\n")


def stream_model(path):
    from discreet.stream import BernoulliAsking, GammaNoise, StreamLearner, StreamSettings

    settings = StreamSettings(features=2, asking=BernoulliAsking(epsilon=1), noise=GammaNoise(epsilon=1))
    made = StreamLearner.simulated(settings, seed=1).model()
    path.write_text(json.dumps(made.to_json(), indent=1) + "\n")


def example_of(name):
    def make(path):
        from discreet.config import example

        path.write_text(example(name))

    return make


MAKES = {
    "plan-1.json": plan,
    "plan-1.toml": plan,
    "ledger-1.jsonl": ledger,
    "mark-1": mark,
    "certificate-1.json": certificate,
    "key-1": key,
    "votes-1.npz": votes,
    "stopping-1.json": stopping,
    "model-1-export": export,
    "predictor-1": predictor,
    "text-classifier-1.npz": text_classifier,
    "student-1.npz": student,
    "preparation-1.json": preparation,
    "stream-model-1.json": stream_model,
    "campaign-1.toml": example_of("private-pool"),
    "campaign-1-public-data.toml": example_of("public-data"),
    "campaign-1-crowd.toml": example_of("crowd"),
    "campaign-1-pate.toml": example_of("pate"),
    "stream-1.toml": example_of("stream"),
}

if __name__ == "__main__":
    for name, make in MAKES.items():
        if not (HERE / name).exists():
            make(HERE / name)
