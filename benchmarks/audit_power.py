"""How often audits catch an injected fault, and how often they call correct code broken.

    python benchmarks/audit_power.py --out benchmarks/results/audit.md

Every injected fault of every recipe is run with many seeds, in the target that is made to see it, and every target of
the sound code, every selector and rule among them, with many seeds, too. Fewer canaries than `discreet audit` has by
default, which makes audits weaker, not stronger: a bound from r guesses grows with r, and a variance with its numbers;
the last columns show the default beside it. Runs are kept in a file beside the table (--kept), and a second start goes
on where the first one stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

FIRST_SEED = 5000
"""Seeds before it served to set the targets up; none of them is in the table."""
POWER, SOUND, DEFAULT = 60, 16, 2
"""Runs of a fault, of a sound target, and of a fault with as many canaries as `discreet audit` has."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """An audit target, and the fault that is injected, if any."""

    recipe: str
    target: str
    canaries: int
    plant: str | None
    settings: Any

    @property
    def name(self) -> str:
        """Under which runs are kept."""
        return f"{self.recipe}/{self.target}/{self.plant or 'sound'}/{self.canaries}"

    def run(self, seed: int) -> dict[str, Any]:
        """One run: whether it failed, by what, and how many tests there were."""
        start = time.process_time()
        settings = replace(self.settings, canaries=self.canaries)
        if self.plant:
            from discreet_research.injected_faults import FAULTS

            fault = FAULTS[self.recipe][self.plant]
            settings = replace(settings, fault=fault, **fault.settings)
        found = settings.audit(self.target, FIRST_SEED + seed)
        by = [one.attack for one in found.findings if one.verdict == "exceeded"]
        by += [f"{one.test} (variance)" for one in found.variances if one.verdict == "smaller"]
        by += [f"{one.test} (sensitivity)" for one in found.sensitivity_checks if one.verdict == "too far"]
        tests = sum(one.level for one in found.findings) + sum(one.level for one in found.variances)
        return {
            "case": self.name,
            "seed": seed,
            "failed": found.failed,
            "by": by,
            "alarms": tests,
            "claimed": found.claimed,
            "proved": max((one.proved for one in found.findings), default=0.0),
            "highest": max((one.highest for one in found.findings), default=0.0),
            "seconds": time.process_time() - start,
        }


def pool_cases() -> Iterator[Case]:
    """The private pool: faults, then every selector."""
    from discreet.audit import targets_of

    targets = dict(targets_of("private-pool")[1])
    targets["training, one epoch"] = replace(targets["training"], epochs=1)  # as much noise, five times as fast
    seen_in = {
        "no-noise": ("training", 600),
        "no-clipping": ("training", 600),
        "half-noise": ("training", 600),
        "uncharged-selection": ("selection", 600),
        "fixed-batches": ("campaign", 600),
        "redraw": ("training, one epoch", 5000),
    }
    for plant, (name, canaries) in seen_in.items():
        yield _case("private-pool", name, canaries, plant, targets[name])
    for name in ("training", "selection", "campaign"):
        yield _case("private-pool", name, 600, None, targets[name])
    others = ["laplace", "clipped-laplace", "gaussian", "subsampled-gaussian", "exponential", "k-centre"]
    others += ["hidden-threshold", "random"]
    for selector in others:
        target = replace(
            targets["campaign" if selector in ("hidden-threshold", "random") else "selection"], selector=selector
        )
        yield _case("private-pool", selector, 600, None, target)
    yield _case("private-pool", "shards", 600, None, replace(targets["selection"], selection="shards", queries=2))


def other_cases() -> Iterator[Case]:
    """Everything else: faults in the target that sees them, then all sound targets."""
    from discreet.audit import targets_of

    seen_in = {
        "stream": {
            "no-noise": ("updates", 1000),
            "uncharged-asking": ("both", 1000),
            "skipped-nulls": ("both", 1000),
            "half-noise": ("both", 1000),
        },
        "public-data": {
            "no-noise": ("both", 1000),
            "no-clipping": ("components", 1000),
            "private-top": ("counts", 1000),
            "half-noise": ("both", 1000),
        },
        "pate": {
            "no-noise": ("gaussian", 1000),
            "shared-records": ("gaussian", 600),
            "uncounted-unstable": ("sparse", 1000),
            "half-noise": ("gaussian", 600),
        },
        "crowd": {
            "no-subsampling": ("rows", 1000),
            "reused-coins": ("rows", 5000),
            "occurrence-coins": ("persons", 1000),
            "occurrences-counted": ("persons", 1000),
        },
    }
    for recipe, plants in seen_in.items():
        targets = targets_of(recipe)[1]
        for plant, (name, canaries) in plants.items():
            target = targets[name]
            yield _case(recipe, name, canaries, plant, target)
        for name, target in targets.items():
            yield _case(recipe, name, 1000, None, target)
        if recipe == "stream":
            target = targets["both"]
            for rule in ("bernoulli", "exponential"):
                yield _case(recipe, rule, 1000, None, replace(target, rule=rule))
        if recipe == "pate":
            for name in ("no-noise", "half-noise"):
                for other in ("laplace", "confident answers", "confident checks", "sparse"):
                    target = targets[other]
                    yield _case(recipe, other, 1000, name, target)


def _case(recipe: str, target: str, canaries: int, plant: str | None, settings: Any) -> Case:
    return Case(recipe=recipe, target=target, canaries=canaries, plant=plant, settings=settings)


def clopper_pearson(caught: int, runs: int, level: float = 0.05) -> float:
    """The one-sided lower end of a 95% interval."""
    from scipy import stats

    return 0.0 if caught == 0 else float(stats.beta.ppf(level, caught, runs - caught + 1))


def wanted() -> tuple[list[tuple[str, int]], dict[str, Case]]:
    """Every run by case and seed, in an order that has some of everything early; and the cases by name."""
    cases = [*other_cases(), *pool_cases()]
    injected = [case for case in cases if case.plant]
    usual = [replace(case, canaries=5000) for case in injected if case.canaries < 5000]
    sound = [case for case in cases if not case.plant]
    quick = [case for case in injected if case.recipe in ("stream", "public-data")]  # a fifth of a second each
    first = [(case, seed) for seed in range(POWER) for case in quick]
    first += [(case, seed) for seed in range(POWER // 3) for case in injected]
    first += [(case, seed) for seed in range(SOUND // 3) for case in sound]
    first += [(case, seed) for seed in range(DEFAULT) for case in usual]
    rest = [(case, seed) for seed in range(POWER) for case in injected + (sound if seed < SOUND else [])]
    return list(dict.fromkeys((case.name, seed) for case, seed in first + rest)), {
        case.name: case for case in cases + usual
    }


def read(path: Path) -> list[dict[str, Any]]:
    """Runs that are kept."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(path: Path, until: float, part: int = 0, of: int = 1) -> None:
    """Make what is missing, up to a time: every so-manieth run, into a file of its own, if it is done in parts."""
    known = {(one["case"], one["seed"]) for one in read(path)}
    runs, cases = wanted()
    missing = [one for one in runs if one not in known][part::of]
    mine = path if of == 1 else path.with_suffix(f".{part}{path.suffix}")
    known = {(one["case"], one["seed"]) for one in read(mine)}
    with mine.open("a") as kept:
        for name, seed in missing:
            if (name, seed) in known:
                continue
            if time.time() > until:
                return
            kept.write(json.dumps(cases[name].run(seed)) + "\n")
            kept.flush()


def table(runs: list[dict[str, Any]], command: str) -> str:
    """All runs as two tables."""
    by_case = defaultdict(list)
    for one in runs:
        by_case[one["case"]].append(one)
    lines = ["# Audits: what they catch, and how often they call correct code broken", "", f"Made by `{command}`."]
    lines += _faults(by_case) + _sound(by_case)
    seconds = sum(one["seconds"] for one in runs)
    return "\n".join([*lines, "", f"{len(runs)} runs, {seconds / 60:.1f} minutes of one core.", ""])


def _faults(by_case: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = ["", "## Injected faults", ""]
    lines += [
        "One target, one run, 99.9%. *Power*: the lower end of a one-sided 95% interval (Clopper and Pearson).",
        "",
    ]
    lines += [
        "| recipe | fault | target | canaries | caught | power | by | with 5,000 canaries |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, mine in by_case.items():
        recipe, target, plant, canaries = name.split("/")
        others = [one for one in by_case if one.startswith(f"{recipe}/{target}/{plant}/") and one != name]
        if plant == "sound" or (canaries == "5000" and others):
            continue
        caught = sum(one["failed"] for one in mine)
        tests: defaultdict[str, int] = defaultdict(int)
        for one in mine:
            for test in one["by"]:
                tests[test] += 1
        usual = by_case.get(f"{recipe}/{target}/{plant}/5000", [])
        again = f"{sum(one['failed'] for one in usual)} of {len(usual)}" if usual else "-"
        shown = ", ".join(f"{test} {count}" for test, count in sorted(tests.items(), key=lambda one: -one[1]))
        lowest = clopper_pearson(caught, len(mine))
        lines.append(
            f"| {recipe} | {plant} | {target} | {canaries} | {caught} of {len(mine)} | {lowest:.3f} | {shown} "
            f"| {again} |"
        )
    return lines


def _sound(by_case: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = ["", "## No fault injected", ""]
    lines += [
        "| recipe | target | canaries | claims | runs | exceeded | highest proved | could prove |",
        "|---|---|---|---|---|---|---|---|",
    ]
    runs = exceeded = 0
    alarms = 0.0
    for name, mine in by_case.items():
        recipe, target, plant, canaries = name.split("/")
        if plant != "sound":
            continue
        failed = sum(one["failed"] for one in mine)
        runs, exceeded, alarms = runs + len(mine), exceeded + failed, alarms + sum(one["alarms"] for one in mine)
        lines.append(
            f"| {recipe} | {target} | {canaries} | {mine[0]['claimed']:.3f} | {len(mine)} | {failed} | "
            f"{max(one['proved'] for one in mine):.3f} | {min(one['highest'] for one in mine):.2f} |"
        )
    said = f"{runs} runs, {exceeded} called broken; at 99.9% a test, at most {alarms:.2f} were to be expected."
    return [*lines, "", said]


def main() -> None:
    """From the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path("benchmarks/results/audit.md"))
    options.add_argument("--kept", type=Path, default=Path("benchmarks/results/audit.jsonl"))
    options.add_argument("--minutes", type=float, default=600.0, help="Stop after so many; start again to go on.")
    options.add_argument("--part", default="0/1", help="0/2 and 1/2, started at once, share the work; then cat them.")
    given = options.parse_args()
    part, of = map(int, given.part.split("/"))
    run(given.kept, time.time() + 60 * given.minutes, part, of)
    if of > 1:
        return
    given.out.write_text(table(read(given.kept), "python benchmarks/audit_power.py"))


if __name__ == "__main__":
    main()
