"""Principal components of records: of public ones for nothing, of private ones for a price."""

from discreet.components.principal_components import (
    PaidComponents,
    charge_components,
    leading,
    private_components,
    public_components,
    second_moment_event,
)

__all__ = [
    "PaidComponents",
    "charge_components",
    "leading",
    "private_components",
    "public_components",
    "second_moment_event",
]
