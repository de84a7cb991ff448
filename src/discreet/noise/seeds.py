"""Randomness of a training step that hides nobody: which augmentation, which dropout mask, which of a person's records.

No promise rests on it, yet it goes through the same door, so that a redo after a crash repeats it, a simulation is
reproducible, and a replay on a neighbour gets the same. It is drawn apart from masks and noise (a kind of its own), so
knowing it tells nothing about them.

`step_seal` gives bytes that stay secret: a keyed digest of what a phase was trained on, kept in its checkpoint, cannot
be used to confirm a guess of the data.
"""

from __future__ import annotations

from discreet.noise.door import paid_events, release
from discreet.noise.sources import Streams
from discreet.privacy.events import Gaussian, PoissonSampledGaussian
from discreet.privacy.ledger.receipts import Receipt

SEED, SEAL = "seed", "seal"


def step_seed(receipt: Receipt) -> int:
    """A number below 2^63 for this step's public randomness; one a step."""
    return int.from_bytes(_drawn(receipt, SEED, "step-seed", 1), "little") >> 1


def step_seal(receipt: Receipt) -> bytes:
    """32 secret bytes, the same whenever this phase is done again from the same key."""
    return _drawn(receipt, SEAL, "step-seal", 4)


def _drawn(receipt: Receipt, slot: str, mechanism: str, words: int) -> bytes:
    paid_events(receipt, (Gaussian, PoissonSampledGaussian), mechanism)

    def sampler(streams: Streams) -> bytes:
        return streams(0).words(words).tobytes()

    return release(receipt, mechanism, sampler, inputs=None, measure="none", sensitivity=0.0, slot=slot)
