"""What may leave the house: values that enough people have, counted after a secret coin for each.

`Profile` says what a release costs, `calibrate` finds a setting; `older` has what others use. `CrowdGate` releases.
"""

from discreet.gates.calibrate import Setting, calibrate
from discreet.gates.gate import CrowdGate
from discreet.gates.log_files import open_log
from discreet.gates.profile import Profile
from discreet.gates.query_log import QueryLog, table_log, text_log
from discreet.gates.released import OwnersFigures, Released

__all__ = [
    "CrowdGate",
    "OwnersFigures",
    "Profile",
    "QueryLog",
    "Released",
    "Setting",
    "calibrate",
    "open_log",
    "table_log",
    "text_log",
]
