"""How often somebody may be wrong about who they are, by address.

Names are not counted: anybody may say another's name, and would keep them out.

Guarantee: after `MOST` failures within `WINDOW` seconds further attempts are refused unheard, for as long as that
window lasts. Memory is bounded: the key that failed longest ago is forgotten first. A token has 256 bits, so this
spares the machine and the log; it is not what keeps guessers out.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

WINDOW = 300.0
MOST = 20
_KEYS = 10_000


class Attempts:
    """Failures that are remembered. ``clock``: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._guard = clock, threading.Lock()
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, keys: Iterable[str]) -> float:
        """Seconds until another attempt is heard; 0: now."""
        with self._guard:
            return max((self._wait(key) for key in keys), default=0.0)

    def failed(self, keys: Iterable[str]) -> bool:
        """Remember a failure; whether the next attempt is refused unheard."""
        keys = list(keys)
        with self._guard:
            for key in keys:
                self._failed.setdefault(key, deque(maxlen=MOST)).append(self._clock())
                self._failed.move_to_end(key)
            while len(self._failed) > _KEYS:
                self._failed.popitem(last=False)
            return any(self._wait(key) for key in keys)

    def _wait(self, key: str) -> float:
        times = self._failed.get(key)
        if times is None or len(times) < MOST:
            return 0.0
        return max(0.0, times[0] + WINDOW - self._clock())


def address_key(host: str | None) -> str:
    """An address; of IPv6 its network, for one customer has many."""
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        return "address ?"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped  # as a proxy may write it that listens to both
    if address.version == 6:
        return f"address {ipaddress.ip_network((address, 64), strict=False)}"
    return f"address {address}"
