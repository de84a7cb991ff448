"""Readers of people's data: files and folders as pools, under the user's own ids."""

from discreet.pools.derived import JoinedPool, with_withdrawn
from discreet.pools.frames import open_frame
from discreet.pools.manifest import Differences, ManifestKey, VerifiedPool, compare, macs
from discreet.pools.opening import extended, open_pool
from discreet.pools.pool import ArrayPool, Pool, PoolDeclaration
from discreet.pools.schema import CellCounts, Schema
from discreet.pools.unread_cells import cell_counts

__all__ = [
    "ArrayPool",
    "CellCounts",
    "Differences",
    "JoinedPool",
    "ManifestKey",
    "Pool",
    "PoolDeclaration",
    "Schema",
    "VerifiedPool",
    "cell_counts",
    "compare",
    "extended",
    "macs",
    "open_frame",
    "open_pool",
    "with_withdrawn",
]
