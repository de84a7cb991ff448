"""Principal components of private records for a stream: `discreet.components`, charged to those who prepare it.

The moment is released before a record of the stream is asked or missed, and Gaussian noise has no pure loss: so every
path of the ledger pays a block of (epsilon, delta) for it (`stream_terms(preparation=...)`, docs/proofs/apart.md).
"""

from __future__ import annotations

from typing import Any

from discreet import components
from discreet.components import PaidComponents, second_moment_event
from discreet.privacy.ledger import Receipt
from discreet.stream.terms import PREPARED

__all__ = ["PaidComponents", "private_components", "second_moment_event"]


def private_components(records: Any, *, count: int, norm: float, receipt: Receipt) -> PaidComponents:
    """The ``count`` leading components of (n, inputs) private numbers, as `Preparation.scaled` gives them.

    ``norm``: C. The receipt is of `charge_preparation` with a `second_moment_event`; n is public, as slots are.
    """
    return components.private_components(records, count=count, norm=norm, receipt=receipt, who=PREPARED)
