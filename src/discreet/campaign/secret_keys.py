"""Keys that a campaign is created with: what cuts its pool, and what decides its votes. Audience: owner.

Guarantee: made once, before the campaign is recorded as created, and named there by their fingerprints. A key that is
lost or replaced is noticed: another one would cut the pool anew, and records would meet queries that nobody paid for.
"""

from __future__ import annotations

import hashlib

from discreet.campaign.standing import CREATED
from discreet.errors import InvalidStore
from discreet.noise import SecretKey
from discreet.storage import CampaignStore
from discreet.storage.disk import disk_refusals

PURPOSES = ("shards", "votes")


def make_keys(store: CampaignStore, seed: int | None) -> dict[str, str]:
    """The keys of a new campaign, in files for the owner alone, each named by its fingerprint."""
    if seed is not None:
        return {}
    for purpose in PURPOSES:
        place = store.directory / f"{purpose}.key"
        if not place.exists():
            with disk_refusals(f"making a key of campaign {store.name!r}"):
                SecretKey.fresh().write(place)
    return {purpose: SecretKey.read(store.directory / f"{purpose}.key").fingerprint for purpose in PURPOSES}


def secret_key(store: CampaignStore, purpose: str, seed: int | None) -> SecretKey:
    """A key that the campaign was created with. Another one would cut the pool anew, or decide votes anew: refused."""
    if seed is not None:
        return SecretKey(hashlib.sha256(f"discreet {purpose} {seed}".encode()).digest())
    place = store.directory / f"{purpose}.key"
    created = [one for one in store.transitions() if one.kind == CREATED]
    made = created[0].facts.get("keys", {}) if created else {}
    if not place.exists() or SecretKey.read(place).fingerprint != made.get(purpose):
        raise InvalidStore(
            f"the campaign {store.name}",
            f"{place.name}, which it was created with, is missing or another",
            "Restore it from a backup; a new one would break the promise",
        )
    return SecretKey.read(place)
