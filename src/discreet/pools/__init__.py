"""Readers of people's data: files and folders as pools, under the user's own ids."""

from discreet.pools.declared import Declared
from discreet.pools.joined import JoinedPool
from discreet.pools.manifest import Differences, ManifestKey, compare, macs, macs_at
from discreet.pools.opening import extended, open_pool
from discreet.pools.pool import ArrayPool, Pool
from discreet.pools.verified import VerifiedPool
from discreet.pools.withdrawn import with_withdrawn

__all__ = [
    "ArrayPool",
    "Declared",
    "Differences",
    "JoinedPool",
    "ManifestKey",
    "Pool",
    "VerifiedPool",
    "compare",
    "extended",
    "macs",
    "macs_at",
    "open_pool",
    "with_withdrawn",
]
