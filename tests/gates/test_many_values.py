"""Each of many values beside its own count: codes of thousands meet one another in a table."""

import numpy as np
import pytest
from gate_reference import paid, reference_release

from discreet.gates import CrowdGate, text_log
from discreet.noise import release_key


@pytest.mark.parametrize("persons", [True, False])
def test_counts_stand_beside_their_values(persons):
    generator = np.random.default_rng(1)
    texts = [f"text {number}" for number in np.repeat(np.arange(2000), generator.integers(4, 12, 2000))]
    people = [f"p{number}" for number in range(len(texts))] if persons else None
    gate = CrowdGate(k=3, beta=0.7, counts=True, persons=persons)
    receipt, _ledger = paid(gate)
    found = gate.release(text_log(texts, people), receipt=receipt)
    again, _other = paid(gate)
    rows = list(zip(people or [None] * len(texts), texts, strict=True))
    wanted = reference_release(gate, release_key(again), [rows])
    assert dict(zip(found.texts.to_pylist(), found.counts.tolist(), strict=True)) == wanted
    assert len(set(wanted.values())) > 3
