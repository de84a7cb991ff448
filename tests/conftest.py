"""One thread for each worker: two workers with two threads each wait for one another on two cores.

Set before numpy or torch is imported, and inherited by the processes that tests start.
"""

import os

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
