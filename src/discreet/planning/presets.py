"""The DP-AL paper's settings (Table 3), as starting points.

delta is 1/B with B the labelling budget, as the paper chose it (the planner warns: it is above 1/(10 x units)).
Pools are the training splits less the paper's validation records. The table's epochs with active learning are totals
over the five phases (its Figs. 3 to 6 use 30 a phase for 150 in all); a plan wants them per phase.
"""

from __future__ import annotations

from dataclasses import dataclass

from discreet.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What one row of the table says about planning."""

    initial: int
    queries: tuple[int, ...]
    batch: int
    epochs: int
    delta: str
    pool_size: int
    epsilon: str = "8"
    selection_epsilon: str = "2"


PRESETS: dict[str, Preset] = {
    "dpal-cifar10": Preset(
        initial=10_000, queries=(10_000, 3_000, 1_000, 1_000), batch=4096, epochs=30, delta="4e-5", pool_size=40_000
    ),
    "dpal-cifar10-equivariant": Preset(
        initial=10_000, queries=(10_000, 3_000, 1_000, 1_000), batch=4096, epochs=60, delta="4e-5", pool_size=40_000
    ),
    "dpal-bloodcell": Preset(
        initial=1_024, queries=(1_024, 300, 100, 52), batch=512, epochs=21, delta="4e-4", pool_size=11_959
    ),
    "dpal-retinaloct": Preset(
        initial=10_000, queries=(10_000, 3_000, 1_000, 1_000), batch=4096, epochs=30, delta="4e-5", pool_size=97_477
    ),
    "dpal-chexpert": Preset(
        initial=10_000, queries=(10_000, 3_000, 1_000, 1_000), batch=4096, epochs=30, delta="4e-5", pool_size=223_582
    ),
    "dpal-snli": Preset(
        initial=20_000, queries=(20_000, 6_000, 2_000, 2_000), batch=4096, epochs=15, delta="2e-5", pool_size=550_152
    ),
}


def preset(name: str) -> Preset:
    """The preset of this name."""
    if name not in PRESETS:
        raise BadInput(f"preset {name}", "there is no such preset", f"Choose one of {', '.join(PRESETS)}")
    return PRESETS[name]
