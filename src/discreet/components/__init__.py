"""Principal components of records: of public ones for nothing, of private ones for a price."""

from discreet.components.private import (
    PaidComponents,
    charge_components,
    private_components,
    second_moment_event,
)
from discreet.components.public import leading, public_components

__all__ = [
    "PaidComponents",
    "charge_components",
    "leading",
    "private_components",
    "public_components",
    "second_moment_event",
]
