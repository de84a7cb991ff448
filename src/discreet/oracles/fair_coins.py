"""Coins that fall the same whenever they are tossed: keyed hashes of public ids.

A coin belongs to what it is tossed for (a question, an annotator, a class) and to a key, never to the order of asking
or to earlier tosses. So a restart repeats it, and a label stays a function of its own record's answers and of things
that are independent of all records: an assumption of every claim (docs/proofs/index.md).

A campaign gives its own secret key. A seed is for simulations.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from discreet.errors import BadInput
from discreet.noise import SecretKey


def seeded_key(seed: int) -> SecretKey:
    """The key of a simulation."""
    if type(seed) is not int:
        raise BadInput("a simulation seed", "it is not a whole number", "Give a seed such as 7")
    return SecretKey(hashlib.blake2b(str(seed).encode(), digest_size=32, person=b"simulated oracle").digest())


def coin_key(*, key: SecretKey | None, seed: int | None, asked: str) -> SecretKey:
    """The one that was given of the two."""
    if key is not None and seed is None:
        return key
    if seed is not None and key is None:
        return seeded_key(seed)
    raise BadInput(asked, "ties are broken by a key or by a seed", "Give key=SecretKey(...), or seed= in a simulation")


def chance(key: SecretKey, use: str, *parts: str) -> float:
    """A number in [0, 1) for these parts, unrelated to that of any others."""
    return (_word(key, use, parts) >> 11) * 2.0**-53


def first_of(key: SecretKey, use: str, question_id: str, tied: Iterable[str]) -> str:
    """One of ``tied``, each as likely as the others, whatever their order."""
    return min(tied, key=lambda name: (_word(key, use, (question_id, name)), name))


def _word(key: SecretKey, use: str, parts: tuple[str, ...]) -> int:
    text = json.dumps(parts)  # one text for one list of parts; plain ASCII whatever is in them
    return int(key.words([text], use)[0])
