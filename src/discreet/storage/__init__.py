"""The campaign store: everything a campaign remembers, in a SQLite file and a directory beside it, or in PostgreSQL."""

from discreet.storage.answers import TellResult
from discreet.storage.campaign_store import CampaignStore, StoreSink
from discreet.storage.files import KeptFile
from discreet.storage.opening import Storage, open_storage, upgrade_storage
from discreet.storage.phases import Transition
from discreet.storage.pool import PoolCohort, WithdrawnRecord
from discreet.storage.users import User, Users

__all__ = [
    "CampaignStore",
    "KeptFile",
    "PoolCohort",
    "Storage",
    "StoreSink",
    "TellResult",
    "Transition",
    "User",
    "Users",
    "WithdrawnRecord",
    "open_storage",
    "upgrade_storage",
]
