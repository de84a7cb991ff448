"""A noisy histogram and a private mean: charge, draw, certify, verify.

Ages of 500 made-up people, epsilon 1 in all. Run: python examples/private_count.py
"""

import tempfile
from pathlib import Path

import numpy as np

from discreet import create_ledger
from discreet.noise import discrete_laplace, laplace
from discreet.privacy.certificate import certify, verify, write_certificate
from discreet.privacy.events import DiscreteLaplace, Laplace

PEOPLE = 500  # declared, never counted
OLDEST = 100
BINS = np.arange(0, OLDEST + 1, 20)

ages = np.random.default_rng(7).gamma(8.0, 5.5, PEOPLE)  # made-up data; noise never comes from here
ages = np.clip(np.where(np.isfinite(ages), ages, 0.0), 0, OLDEST)  # each record by itself, before any sum

with tempfile.TemporaryDirectory() as directory:
    place = Path(directory)
    with create_ledger(place / "ages.ledger", epsilon=1, delta=0) as ledger:
        receipt = ledger.charge(event=DiscreteLaplace(epsilon="0.5"), who="pool", why="histogram of ages")
        bars = discrete_laplace(np.histogram(ages, BINS)[0], receipt=receipt)  # a person is in one bin: L1 is 1

        receipt = ledger.charge(event=Laplace(epsilon="0.5"), who="pool", why="mean age")
        mean = laplace(ages.sum(), sensitivity=OLDEST, receipt=receipt) / PEOPLE

        write_certificate(certify(ledger), place / "ages.json")
    verdict = verify(place / "ages.json", ledger=place / "ages.ledger")

for low, bar in zip(BINS, bars, strict=False):
    print(f"{low:3d} to {low + 20:3d}  {max(bar, 0):4d}  {'#' * (max(bar, 0) // 5)}")
print(f"mean age about {mean:.1f} (noise: about {OLDEST / 0.5 / PEOPLE:.1f})")
print("verified:", verdict.claim)
assert verdict.ok
