"""The ways of wiring the loop. So far: the private pool."""

from discreet.recipes.private_pool import PrivatePool, plan_of

__all__ = ["PrivatePool", "plan_of"]
