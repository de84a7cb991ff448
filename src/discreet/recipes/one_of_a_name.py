"""A store has one campaign of a name: whoever creates it, and whoever comes a moment later.

Guarantee: of processes that create the same campaign at once, one does; the others go on with what it created, or are
refused if they wanted a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.config import AnyCampaign
from discreet.errors import CampaignExists
from discreet.storage import CampaignStore, Storage, open_storage


@dataclass(frozen=True, kw_only=True)
class OneOfAName:
    """The name that a configuration gives, in the store that it names. ``load_if_exists``: or else a new one alone."""

    storage: Storage
    config: AnyCampaign
    load_if_exists: bool

    @classmethod
    def of(cls, config: AnyCampaign, *, load_if_exists: bool) -> OneOfAName:
        """In its store, which is opened."""
        storage = open_storage(config.storage_url(), directory=config.storage_directory(), mark=config.storage_mark())
        return cls(storage=storage, config=config, load_if_exists=load_if_exists)

    def there(self) -> CampaignStore | None:
        """The one that is there already."""
        name = self.config.name
        if name not in self.storage.campaigns():
            return None
        if not self.load_if_exists:
            raise CampaignExists(f"creating the campaign {name}", "there is one of that name", "Load it")
        return self.storage.load(name)

    def created(self, form: Mapping[str, Any]) -> CampaignStore:
        """A new one, or the one of another process that was faster."""
        simulation = self.config.simulation is not None
        try:
            return self.storage.create(self.config.name, config=form, simulation=simulation)
        except CampaignExists:
            if not self.load_if_exists:
                raise
            return self.storage.load(self.config.name)
