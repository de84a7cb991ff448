"""The ways of wiring the loop. So far: the private pool."""

from discreet.recipes.private_pool import PrivatePool, plan_of
from discreet.recipes.tables import private_pool

__all__ = ["PrivatePool", "plan_of", "private_pool"]
