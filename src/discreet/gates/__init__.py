"""What may leave the house: values that enough people have, counted after a secret coin for each.

`Profile` says what a release costs, `calibrate` finds a setting; `older` has what others use. `CrowdGate` releases.
"""

from discreet.gates.calibrate import Setting, calibrate
from discreet.gates.profile import Profile

__all__ = ["Profile", "Setting", "calibrate"]
