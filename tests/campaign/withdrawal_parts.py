"""A campaign of files whose records can be recognised wherever they are: by id, text, numbers, and who answered."""

import csv
import secrets
from dataclasses import dataclass, field

import numpy as np
import pyarrow
from pyarrow import parquet

from discreet.cli.app import run

SIZE, CLASSES = 40, ("a", "b", "c")
TOML = """format = "discreet.campaign/1"
name = "marked"
[pool]
path = "pool.parquet"
kind = "parquet"
id = "id"
columns = ["u", "v", "w"]
size = 40
[task]
kind = "multilabel"
classes = ["a", "b", "c"]
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 30
queries = [8]
batch = 10
epochs = 2
selection_epsilon = "2"
accountant = "rdp"
[scorer]
name = "entropy"
[selector]
name = "threshold-response"
threshold_epsilon = "0.5"
[oracle]
name = "files"
per_question = 2
[model]
name = "linear"
[trainer]
engine = "reference"
checkpoint_every = 2
"""


@dataclass
class Marked:
    """A folder with a campaign, and the records of its pool."""

    place: object
    ids: list = field(default_factory=lambda: [f"scan-{secrets.token_hex(8)}" for _ in range(SIZE)])

    def __post_init__(self):
        self.texts = [f"words {secrets.token_hex(12)}" for _ in self.ids]
        self.x = np.random.default_rng(secrets.randbits(32)).normal(size=(SIZE, 3)).astype(np.float32)
        self.write_pool(range(SIZE))
        (self.place / "c.toml").write_text(TOML)

    @property
    def file(self):
        return str(self.place / "c.toml")

    def write_pool(self, places):
        places = list(places)
        columns = {name: self.x[places, number] for number, name in enumerate("uvw")}
        names = {"id": [self.ids[p] for p in places], "words": [self.texts[p] for p in places]}
        table = pyarrow.table({**names, **columns})
        parquet.write_table(table, self.place / "pool.parquet", compression="none", use_dictionary=False)

    def verb(self, name, *options, code=0):
        assert run([name, self.file, *options]) == code

    def answer_files(self, phase):
        """Two people fill in the questions of a phase in files of their own; each one's name is unique to a record."""
        folder = self.place / "marked.questions"
        rows = [row for path in sorted(folder.glob("questions-*.csv")) for row in read(path)]
        for who in ("ida", "bo"):
            with (folder / f"answers-{phase}-{who}.csv").open("w", newline="") as file:
                out = csv.writer(file)
                out.writerow(["question_id", "record", "label", "annotator", "words"])
                out.writerows(
                    (row["question_id"], row["record"], "a|c", self.annotator(row["record"], who), self.text(row))
                    for row in rows
                    if row["phase"] == str(phase)
                )

    def text(self, row):
        return self.texts[self.ids.index(row["record"])] + "\n, over two lines"

    def annotator(self, record, who):
        return f"{who}-{self.ids.index(record):02d}-{self.texts[self.ids.index(record)][-8:]}"

    def traces(self, record):
        """Bytes by which a record is known."""
        place = self.ids.index(record)
        return {
            "id": record.encode(),
            "text": self.texts[place].encode(),
            "numbers": self.x[place].tobytes(),
            "annotator": self.annotator(record, "ida").encode(),
            "another": self.annotator(record, "bo").encode(),
        }

    def found(self, record, *, code=None, people=False):
        """Which traces are in which files beside the store, the owner's own pool left out. Names of annotators stay in
        the store, with ``people``: who was shown a record is not forgotten, under its code.
        """
        wanted = self.traces(record) | ({} if code is None else {"code": code})
        hits = set()
        for path in self.place.rglob("*"):
            if path.is_file() and path.name not in ("pool.parquet", "c.toml"):
                content = path.read_bytes()
                hits |= {(name, path.suffix) for name, trace in wanted.items() if trace in content}
        return hits if people else hits - {("annotator", ".db"), ("another", ".db")}


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
