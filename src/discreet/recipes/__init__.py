"""The ways of wiring the loop: private pool, public data. `private_pool` and `public_data` make their tables."""

from discreet.recipes.private_pool import PrivatePool, plan_of
from discreet.recipes.public_data import PublicData
from discreet.recipes.tables import private_pool, public_data

__all__ = ["PrivatePool", "PublicData", "plan_of", "private_pool", "public_data"]
