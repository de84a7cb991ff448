"""The release gate: values that enough people have are released, counted after a secret coin for each.

`Profile` says what a release costs, `calibrate` finds a setting, `CrowdGate` releases. `published_bounds` has what
earlier papers compute.
"""

from discreet.gates.calibration import GateSetting, Profile, calibrate
from discreet.gates.gate import CrowdGate, Released
from discreet.gates.log_files import open_log
from discreet.gates.query_log import OwnersFigures, QueryLog, table_log, text_log

__all__ = [
    "CrowdGate",
    "GateSetting",
    "OwnersFigures",
    "Profile",
    "QueryLog",
    "Released",
    "calibrate",
    "open_log",
    "table_log",
    "text_log",
]
