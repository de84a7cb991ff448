"""How quick the labelling page is in a real Chromium: the page, and the next question after a key.

The server and the browser are processes of one machine, the campaign has handwritten digits and 5,000 questions. *Page
ready*: from the request of the page until its picture is decoded. *Next question*: from a key until the next picture is
decoded, as the browser sees it; and the part of it that the server took, by its own log. What the server's processor
did for an answer is measured apart, without the waiting that other work on the machine makes.

    python benchmarks/web.py                  # writes benchmarks/results/web.md; a minute
"""

from __future__ import annotations

import math
import os
import platform
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))

RESULT = Path(__file__).parent / "results" / "web.md"
QUESTIONS, LOADS, KEYS = 5000, 10, 60
NEXT = """() => new Promise((done) => {
  setTimeout(() => done(NaN), 10000);
  const began = performance.now();
  document.addEventListener("htmx:afterSettle", () => {
    document.querySelector("#task img").decode().then(() => done(performance.now() - began));
  }, {once: true});
  document.dispatchEvent(new KeyboardEvent("keydown", {key: "3", bubbles: true}));
})"""
READY = """() => document.querySelector("#task img").decode().then(() => performance.now())"""


def pool(place: Path) -> None:
    """Digits, repeated until there are enough."""
    import numpy as np
    from sklearn.datasets import load_digits

    images = load_digits().images
    size = QUESTIONS + 500
    pixels = images[np.arange(size) % len(images), None].astype(np.float32)
    np.savez(place / "pool.npz", id=np.array([f"scan-{number}" for number in range(size)]), x=pixels)


def measured(place: Path) -> dict[str, list[float]]:
    """Milliseconds of everything."""
    from labelling_server import (  # type: ignore[import-not-found]
        campaign_file,
        chromium,
        created,
        log_in,
        serving,
    )

    pool(place)
    facts: dict[str, Any] = {"pool": "pictures", "classes": [str(n) for n in range(10)], "size": QUESTIONS + 500}
    path = campaign_file(place, initial=QUESTIONS, **facts)
    _, tokens = created(path, zoe="annotator")
    found: dict[str, list[float]] = {"page ready": [], "next question": []}
    with serving(path) as (address, log), chromium(viewport={"width": 1280, "height": 800}) as page:
        log_in(page, address, "zoe", tokens["zoe"])
        for _ in range(LOADS):
            page.goto(f"{address}/label", wait_until="commit")
            page.wait_for_selector("#task img")
            found["page ready"].append(page.evaluate(READY))
        page.wait_for_load_state("networkidle")  # a key before the page's script has run is nobody's
        for _ in range(KEYS):
            page.wait_for_selector("#task:not([aria-busy])")  # nor is one before the record can be seen
            found["next question"].append(page.evaluate(NEXT))
        assert not any(map(math.isnan, found["next question"])), "a key was not answered"
        lines = log.read_text()
    found["server: an answer"] = [float(one) for one in re.findall(r"POST /label/answer\S* 200 ([\d.]+) ms", lines)]
    return found


def processor(place: Path) -> list[float]:
    """Of the server alone, for an answer with the next question, its picture in it; a request in memory, no network."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "web"))
    from web_parts import House, fields  # type: ignore[import-not-found]

    house = House(place / "shown.toml")
    browser, taken = house.browser("bo"), []
    page = browser.get("/label")
    for _ in range(KEYS):
        began = time.process_time()
        page = browser.post("/label/answer", data=fields(page) | {"value": "1"}, headers={"HX-Request": "true"})
        taken.append(1000 * (time.process_time() - began))
    return taken


def main() -> None:
    """Measure, and write the table."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        found = measured(Path(place))
        found["processor: an answer"] = processor(Path(place))
    lines = [
        "# The labelling page in Chromium",
        "",
        f"`python benchmarks/web.py`. {QUESTIONS} questions, pictures of 8 x 8, one annotator, SQLite.",
        f"{platform.machine()}, {os.cpu_count()} cores; load before {before:.1f}, after {os.getloadavg()[0]:.1f}.",
        "Above the number of cores, times of the clock are mostly waiting for others; processor time does not wait.",
        "Goals, of medians: a page in 300 ms, the next question in 50 ms.",
        "",
        "| milliseconds | median | best | nine of ten below |",
        "|---|---:|---:|---:|",
    ]
    for name, times in found.items():
        tenth = sorted(times)[int(0.9 * len(times))]
        lines.append(f"| {name} | {statistics.median(times):.0f} | {min(times):.0f} | {tenth:.0f} |")
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(RESULT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
