"""Injected faults: each is put into the running code while an audit target runs, and `discreet audit` must catch it.

Guarantee: a fault changes only what is paid for by a receipt of a simulation; everything else in the process stays as
it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from discreet.audit import Fault
from discreet_research.injected_faults import (
    gate_faults,
    near_private_faults,
    stream_faults,
    training_faults,
    vote_faults,
)

FAULTS: Mapping[str, Mapping[str, Fault]] = {
    "private-pool": training_faults.FAULTS,
    "public-data": near_private_faults.FAULTS,
    "crowd": gate_faults.FAULTS,
    "pate": vote_faults.FAULTS,
    "stream": stream_faults.FAULTS,
}
"""Faults by recipe and name."""
