"""The campaign store: everything a campaign remembers, in a SQLite file and a directory beside it, or in PostgreSQL."""

from discreet.storage.campaign_store import CampaignStore
from discreet.storage.ledger_sink import StoreSink
from discreet.storage.opening import Storage, open_storage, upgrade_storage
from discreet.storage.stored import KeptFile, PoolCohort, Told, Transition, WithdrawnRecord
from discreet.storage.users import User, Users

__all__ = [
    "CampaignStore",
    "KeptFile",
    "PoolCohort",
    "Storage",
    "StoreSink",
    "Told",
    "Transition",
    "User",
    "Users",
    "WithdrawnRecord",
    "open_storage",
    "upgrade_storage",
]
