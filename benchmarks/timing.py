"""What benchmarks share: how long work takes, rounds in which contenders take turns, and the machine in words."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

Contenders = Mapping[str, Callable[[], Any]]


def seconds(work: Callable[[], Any]) -> float:
    """Wall time of one call."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def interleaved(contenders: Contenders, rounds: int) -> dict[str, list[float]]:
    """Seconds of each in every round, one contender after the other."""
    times = [{name: seconds(work) for name, work in contenders.items()} for _ in range(rounds)]
    return {name: [of_round[name] for of_round in times] for name in contenders}


def medians(times: Mapping[str, list[float]]) -> dict[str, float]:
    """Of each contender."""
    return {name: statistics.median(values) for name, values in times.items()}


def hardware(**versions: str) -> str:
    """The machine, Python, and further libraries with their versions."""
    libraries = "".join(f", {name} {version}" for name, version in versions.items())
    machine = f"{platform.machine()}, {os.cpu_count()} cores, no GPU"
    return f"Hardware: {machine}. Python {platform.python_version()}{libraries}."
