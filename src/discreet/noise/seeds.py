"""A step's other randomness: which augmentation, which dropout mask, which of a person's records.

It is as secret as the mask is. A unit that is not sampled gives up its place, and those behind it get other draws; the
proof that this changes nothing (docs/proofs/dp-sgd.md) averages over the seed, so whoever knew it would see more. It
comes from the same source as noise, so that a redo after a crash repeats it and a replay on a neighbour gets the same.

`step_seal` gives bytes for keyed digests of what a phase was trained on: they cannot be used to confirm a guess of it.
`same_inputs` binds such a digest to a sealed key: equal noise on two different inputs would show their difference.
`shared_secret` gives bytes for digests that several processes compare.

`derived_seed` is how one seed becomes many: the seed of every stream is a hash of the first seed, of what the stream is
for, and of its place. Sums such as seed + number are not used: two streams whose sums agree would be one stream.
"""

from __future__ import annotations

import hashlib
import os
from weakref import WeakKeyDictionary

from discreet.errors import BadInput
from discreet.noise.sources import Source, Streams, paid_events, release
from discreet.privacy.events import Gaussian, PoissonSampledGaussian
from discreet.privacy.ledger.receipts import Receipt

SEED, SEAL = "seed", "seal"
SEED_BYTES = 40
"""A seed as bytes: 256 bits of a derived one, and room for the sign of a user's own."""
_PLACE_BYTES = 8
_SEALS: WeakKeyDictionary[Receipt, bytes] = WeakKeyDictionary()


def step_seed(receipt: Receipt) -> int:
    """A secret number of 256 bits, one a step."""
    return int.from_bytes(_drawn(receipt, SEED, "step-seed", 4), "little")


def derived_seed(seed: int, use: str, *places: int, bits: int = 256) -> int:
    """The seed of one stream: a keyed hash (BLAKE2b) of its ``use`` and ``places`` under ``seed``.

    Another seed, use, place or number of places gives an unrelated seed. ``bits``: fewer, for a library that takes no
    more.
    """
    name = use.encode()
    try:
        key = seed.to_bytes(SEED_BYTES, "little", signed=True)
        numbers = b"".join(index.to_bytes(_PLACE_BYTES, "little", signed=True) for index in places)
    except OverflowError:
        raise BadInput("a seed", "it or a place of it has too many bits", "Give a seed of at most 63 bits") from None
    text = len(name).to_bytes(4, "little") + name + numbers
    digest = hashlib.blake2b(text, key=key, digest_size=32, person=b"derived seed").digest()
    return int.from_bytes(digest, "little") >> (256 - bits)


def step_seal(receipt: Receipt) -> bytes:
    """32 secret bytes, the same whenever this phase is done again from the same key."""
    receipt.check()
    if receipt not in _SEALS:
        _SEALS[receipt] = _drawn(receipt, SEAL, "step-seal", 4)
    return _SEALS[receipt]


def shared_secret(receipt: Receipt | None) -> bytes:
    """32 bytes by which processes of one owner compare what they hold: derived from the seal, which stays where it is,
    or fresh where nothing is paid for yet.
    """
    secret = os.urandom(32) if receipt is None else step_seal(receipt)
    return hashlib.blake2b(key=secret, digest_size=32, person=b"processes").digest()


def remembers_inputs(receipt: Receipt) -> bool:
    """Whether the receipt's key outlives the process, so that its draws may be repeated."""
    return isinstance(receipt.source, Source) and receipt.source.repeats


def same_inputs(receipt: Receipt, digest: str) -> None:
    """Refuse to draw on ``receipt`` if its key was used before for inputs of another (keyed) digest."""
    receipt.check()
    if isinstance(receipt.source, Source):
        receipt.source.remember(receipt.entry, digest)


def _drawn(receipt: Receipt, slot: str, mechanism: str, words: int) -> bytes:
    paid_events(receipt, (Gaussian, PoissonSampledGaussian), mechanism)

    def sampler(streams: Streams) -> bytes:
        return streams(0).words(words).tobytes()

    return release(receipt, mechanism, sampler, inputs=None, measure="none", sensitivity=0.0, slot=slot)
