"""One thread for each worker: two workers with two threads each wait for one another on two cores.

Set before numpy or torch is imported, and inherited by the processes that tests start.

Attacks, kills, fuzzing, statistics with shown power, whole pages of the documentation, committed tables, and files of
tests that take more than about seven seconds have `pytestmark = pytest.mark.thorough`. They run in CI and by
`make thorough`, not in `make test`.
"""

import os
import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background work; what tests start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
