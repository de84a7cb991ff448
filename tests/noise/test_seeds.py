"""One seed becomes many: no two uses or places share a stream, and nobody makes seeds by arithmetic."""

import ast
import itertools
from pathlib import Path

import pytest

import discreet
import discreet_research
from discreet.errors import BadInput
from discreet.noise import Seeded, derived_seed, step_seed
from discreet.privacy.budget import Budget
from discreet.privacy.events import PoissonSampledGaussian
from discreet.privacy.ledger import Ledger, MemorySink, adaptive

SOURCES = (Path(discreet.__file__).parent, Path(discreet_research.__file__).parent)


def test_seeds_of_different_uses_and_places_differ():
    seeds = [0, 1, -1, 2**31, 2**32, 2**32 + 1, 2**63 - 1, 2**255]
    uses = ["", "a", "ab", "a\0"]
    places = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (256,), (-1,), (1, 2, 3)]
    made = [derived_seed(seed, use, *where) for seed, use, where in itertools.product(seeds, uses, places)]
    assert len(set(made)) == len(seeds) * len(uses) * len(places)
    assert {seed.bit_length() for seed in made} <= set(range(230, 257))


def test_a_use_and_its_places_cannot_be_taken_for_another():
    """A place's bytes at the end of a use's name are another text."""
    tail = (7).to_bytes(8, "little").decode()
    assert derived_seed(1, f"a{tail}") != derived_seed(1, "a", 7)
    assert derived_seed(1, f"a{tail}", 7) != derived_seed(1, "a", 7, 7)


def test_it_stays_what_it_is_and_keeps_the_first_bits():
    assert derived_seed(5, "views", 2, 3) == derived_seed(5, "views", 2, 3)
    assert derived_seed(5, "views", 2, 3, bits=63) == derived_seed(5, "views", 2, 3) >> 193
    assert derived_seed(5, "views", 2, 3, bits=63) < 2**63


def test_numbers_without_room_are_refused():
    for seed, place in ((2**400, 0), (0, 2**64)):
        with pytest.raises(BadInput, match="too many bits"):
            derived_seed(seed, "views", place)


def test_a_step_seed_has_256_bits():
    ledger = Ledger.create(MemorySink(), adaptive(Budget(epsilon=10**6, delta="1e-9")), source=Seeded(1))
    event = PoissonSampledGaussian(sampling_rate=0.5, noise_multiplier=1.0)
    receipt = ledger.charge(event=event, count=8, who="a", why="training")
    drawn = [step_seed(receipt) for _ in range(8)]
    assert len({seed % 2**32 for seed in drawn}) == 8
    assert 240 < max(seed.bit_length() for seed in drawn) <= 256


ALLOWED = {
    ("bench/automatic_settings.py", "1000 + seed"),  # noise of a simulation; small seeds below 1,000 choose its records
    ("bench/automatic_tables.py", "seed % 2"),  # no seed: tells seeds that choose from seeds that measure
    ("bench/opacus_trainer.py", "self._seed * 1000003"),  # small seeds of a simulation: no two sums are equal
    ("bench/plans.py", "seed + _APART_SEED"),  # the same
}


def named_seed(node):
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.lower().lstrip("_") == "seed" or name.lower().endswith("_seed")


def test_nobody_makes_a_seed_by_arithmetic():
    """seed + 1 of one stream is seed + 1 of another; `derived_seed` is for that."""
    found = set()
    for path, source in ((path, root) for root in SOURCES for path in sorted(root.rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.BinOp) and any(named_seed(part) for part in (node.left, node.right)):
                found.add((path.relative_to(source).as_posix(), ast.unparse(node)))
    assert found == ALLOWED
