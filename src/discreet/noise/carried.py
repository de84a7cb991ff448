"""A secret key on its way to the workers of one job, inside that job's own serialised functions and nowhere else.

`SecretKey` refuses to be pickled, so that no key is stored by accident. A cluster's workers need the key of a release,
though, to toss its coins. This is the one way: whoever writes `CarriedKey(key)` says so.

Guarantee: nothing that is printed of it shows the key. Whoever sends it must keep it out of plans, settings and files:
as part of a function it travels as the data does, and is as safe as the cluster's own traffic.
"""

from __future__ import annotations

from discreet.noise.keyed import SecretKey


class CarriedKey:
    """May be pickled. Its repr never shows the key."""

    __slots__ = ("_bytes",)

    def __init__(self, key: SecretKey) -> None:
        self._bytes = key._bytes

    def key(self) -> SecretKey:
        """The key, where it arrived."""
        return SecretKey(self._bytes)

    def __repr__(self) -> str:
        """Never the bytes."""
        return "CarriedKey(...)"

    def __reduce__(self) -> tuple[object, ...]:
        """The bytes, for the job's own serialiser."""
        return _arrived, (self._bytes,)


def _arrived(secret: bytes) -> CarriedKey:
    return CarriedKey(SecretKey(secret))
