"""The release gate: the values of a log that enough people kept, each by a secret coin of their own.

    gate = CrowdGate(k=100, beta=0.3, persons=True)
    receipt = ledger.charge(event=gate.price(), who="queries", why="release")
    found = gate.release(open_log("queries.parquet", text="query", person="user"), receipt=receipt)

Guarantee (docs/proofs/release-gate.md): what is released costs a unit what `price` says, under zero-out, both ways. A
unit is a person where the log names them, else a row; a unit brings at most ``values`` values, chosen from its own rows
by secret words; one coin of ``beta`` is tossed for each (unit, value), and a value passes if at least ``k`` fell.
One closed batch per key: `release_key` hands out a key once a receipt, and a redo that would show anything else than
the first time is refused.

Symbols: as in `discreet.privacy.events`.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from discreet.errors import BadInput, ReceiptRefused
from discreet.gates.query_log import OwnersFigures, Progress, QueryLog, unwatched
from discreet.gates.spark import check_log, release_spark, require_spark
from discreet.gates.values import Normaliser
from discreet.noise import SecretKey, numerator, release_key, same_inputs
from discreet.noise.sources import paid_events
from discreet.noise.unit_words import require_aes
from discreet.privacy.events import PLAIN, ReleaseGate
from discreet.privacy.ledger.receipts import Receipt

Engine = Literal["local", "spark"]
LEAST_MEMORY = 32 << 20
NOT_GUARANTEED = (
    "no person column was given: each row hides among k rows, not each person among k persons. Whoever wrote a text "
    "many times counts many times, and to them as a person nothing is guaranteed"
)
"""What has to be said wherever rows are the units."""


@dataclass(frozen=True, kw_only=True)
class Released:
    """The values that passed, in the order of their UTF-8 bytes: the order says nothing. Paid for; for anybody.

    ``texts`` is an Arrow array of strings; ``counts``, where they were paid for, how many units kept each (numpy).
    ``figures`` are the owner's and stay behind.
    """

    texts: Any
    counts: Any | None
    event: ReleaseGate
    simulation: bool
    figures: OwnersFigures

    def __len__(self) -> int:
        """How many values passed."""
        return len(self.texts)

    def __repr__(self) -> str:
        """Public facts only."""
        return f"<Released {len(self)} values, k={self.event.k}, beta={self.event.beta}>"


@dataclass(frozen=True, kw_only=True)
class CrowdGate:
    """A setting of the gate: public numbers only. ``persons``: whether the log says whose each row is."""

    k: int
    beta: float
    values: int = 1
    counts: bool = False
    normalisation: str = PLAIN
    persons: bool = True

    def __post_init__(self) -> None:
        if not self.persons and self.values != 1:
            raise BadInput(
                f"{self.values} values a row",
                "without persons the unit is a row, which has one",
                "Drop it, or --person",
            )
        object.__setattr__(self, "normalisation", Normaliser(self.normalisation).name)
        object.__setattr__(self, "beta", self.price().beta)  # the same limits

    def price(self) -> ReleaseGate:
        """What one release is charged for."""
        return ReleaseGate(
            k=self.k, beta=self.beta, values=self.values, counts=self.counts, normalisation=self.normalisation
        )

    @property
    def unit(self) -> Literal["person", "record"]:
        """Whom the guarantee is about."""
        return "person" if self.persons else "record"

    @property
    def coin(self) -> int:
        """A coin falls where the upper 63 bits of its word are below this: beta, rounded down."""
        return numerator(self.beta, up=False)

    def release(
        self,
        rows: QueryLog | Any,
        *,
        receipt: Receipt,
        master: SecretKey | None = None,
        engine: Engine = "local",
        memory: int | None = None,
        progress: Progress = unwatched,
        **options: Any,
    ) -> Released:
        """The values of ``rows`` that pass, each once.

        ``rows``: a `QueryLog` (`open_log` of files, `table_log` of an Arrow table, `text_log` of a list); for Spark a
        DataFrame too (`discreet.gates.spark.frame_log`), with ``options`` of its own. ``memory``: bytes that the local
        engine may use (fixed memory).
        """
        self.check_engine(engine, memory)
        self.check_log(rows, engine)
        self._check_paid(receipt)
        key = release_key(receipt, master=master)  # from here on the receipt is spent
        if engine == "spark":
            texts, counts, figures = release_spark(
                self.price(), rows, coin=self.coin, key=key, progress=progress, **options
            )
        else:
            from discreet.gates.local_engine import release_locally

            texts, counts, figures = release_locally(
                self.price(), rows, coin=self.coin, key=key, memory=memory, progress=progress, **options
            )
        same_inputs(receipt, output_digest(key, texts, counts if self.counts else None))
        return Released(
            texts=texts,
            counts=counts if self.counts else None,
            event=self.price(),
            simulation=receipt.simulation,
            figures=figures,
        )

    def check_engine(self, engine: str, memory: int | None = None) -> None:
        """Refuse one that is not there, before anything is charged."""
        if engine not in get_args(Engine):
            raise BadInput(f"the engine {engine}", "there is none of that name", "Choose local or spark")
        if memory is not None and (engine != "local" or memory < LEAST_MEMORY):
            raise BadInput(
                f"{memory} bytes of memory for the engine {engine}",
                "fixed memory is the local engine's, and it counts in no less than 32 MB",
                "Give more, or drop it",
            )
        if memory is not None and memory > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
            raise BadInput(f"{memory} bytes of memory", "this machine has less", "Give what it may use")
        require_aes()
        if engine == "spark":
            require_spark()

    def check_log(self, rows: Any, engine: str = "local") -> None:
        """Refuse a log that the engine cannot read, or whose units are not this gate's, before anything is charged."""
        if engine == "spark":
            check_log(rows)
        elif not isinstance(rows, QueryLog):
            raise BadInput("releasing locally", "it is not given a log", "Use open_log, table_log or text_log")
        if (rows.person is not None) != self.persons:
            has = "no person column" if self.persons else "a person column"
            raise BadInput(
                "releasing this log", f"it has {has}, and the gate was set otherwise", "Set persons as the log has them"
            )

    def _check_paid(self, receipt: Receipt) -> None:
        if any(event != self.price() for event in paid_events(receipt, (ReleaseGate,), "release-gate")):
            raise ReceiptRefused(
                f"releasing on receipt {receipt.entry.sequence}",
                "it was charged for another gate",
                "Charge gate.price()",
            )
        if receipt.unit != self.unit:
            raise ReceiptRefused(
                f"releasing with {self.unit}s as units",
                f"the ledger guarantees something to {receipt.unit}s",
                f"Charge a ledger whose unit is {self.unit}",
            )


def output_digest(key: SecretKey, texts: Any, counts: Any | None) -> str:
    """Names an output without confirming a guess of it: what a key was used for, and may be used for again."""
    digest = hashlib.blake2b(key=key.derive("gate/output").reveal(), digest_size=16)
    for text in texts.to_pylist():
        raw = text.encode()
        digest.update(len(raw).to_bytes(8, "little") + raw)
    if counts is not None:
        digest.update(np.asarray(counts, dtype="<i8").tobytes())
    return digest.hexdigest()
