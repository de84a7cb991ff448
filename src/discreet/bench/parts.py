"""Parts of an experiment: some problems, some methods, some seeds, so that its results can land in parts."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.bench.cases import GridCase
from discreet.bench.experiments import EXPERIMENTS, Experiment
from discreet.errors import BadInput

MOST_SEEDS = 10_000


def part_of(
    experiment: Experiment, *, problems: Sequence[str] = (), methods: Sequence[str] = (), seeds: str | None = None
) -> list[GridCase]:
    """Its cases whose problem's and method's names hold one of the given texts; all, where none is given."""
    cases = experiment.cases(None if seeds is None else seeds_named(seeds))
    for kind, texts in (("problem", problems), ("method", methods)):
        names = list(dict.fromkeys(getattr(case, kind).name for case in cases))
        wanted: set[str] = set()
        for text in texts:
            found = {name for name in names if text.casefold() in name.casefold()}
            if not found:
                raise BadInput(
                    f"the {kind} {text} of {experiment.name}",
                    "none has a name like that",
                    f"Choose of: {'; '.join(names)}",
                )
            wanted |= {text} if text in found else found
        cases = [case for case in cases if not wanted or getattr(case, kind).name in wanted]
    return cases


def sharing(experiment: Experiment) -> list[str]:
    """Experiments that have cases in common with it."""
    mine = {case.digest for case in experiment.cases([0])}
    return [
        name
        for name, other in EXPERIMENTS.items()
        if name != experiment.name and mine & {case.digest for case in other.cases([0])}
    ]


def seeds_named(text: str) -> tuple[int, ...]:
    """``5``: the first five; ``3-4``: these; ``0,2-4``: these; ``3,``: that one."""
    parts = [part for part in text.replace(" ", "").split(",") if part]
    try:
        if "," not in text and "-" not in text:
            found = list(range(_whole(text)))
        else:
            found = [seed for part in parts for seed in _range(part)]
    except ValueError:
        found = []
    if not found or max(found) >= MOST_SEEDS:
        raise BadInput(
            f"--seeds {text}", f"it names no seeds below {MOST_SEEDS}", "Give a count, such as 5, or which: 3-4, or 0,2"
        )
    return tuple(dict.fromkeys(found))


def _range(part: str) -> range:
    first, dash, last = part.partition("-")
    low = _whole(first)
    return range(low, (_whole(last) if dash else low) + 1)


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 5:  # no signs, and nothing that would not fit into memory
        raise ValueError
    return int(text)
