"""From clone to certificate: how long the tutorial takes on a fresh clone, installation included.

Clones this repository, builds an environment, installs with the lightest extra that trains, and does everything that
docs/tutorial/first-campaign.md shows, each command as it is printed, in a process of its own. Wall time is what one
waits, on a machine that does nothing else; processor time is beside it, because machines differ in what else they do.

    python benchmarks/first_campaign.py             # writes benchmarks/results/first_campaign.md; minutes
"""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/tutorial/first-campaign.md"
RESULT = Path(__file__).parent / "results" / "first_campaign.md"
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def installing() -> list[str]:
    """The page's own lines, but for where the repository is; quietly."""
    lines = next(text for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if kind == "sh").splitlines()
    return [line.replace("<this repository>", str(ROOT)).replace("pip install", "pip install -q") for line in lines]


def playing() -> str:
    """The page as one shell script: files are written, Python goes on from block to block, commands are commands."""
    script, python = ["set -e"], ""
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "toml":
            script.append(f"cat > {text.splitlines()[0][2:]} <<'END'\n{text}END")
        elif kind == "python":
            python += text  # a reader keeps one interpreter open; a script says it again, quietly
            script.append(f"python - <<'END'\n{python}END")
        elif kind == "console":
            script += [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    return "\n".join(script)


def timed(script: str, place: Path) -> tuple[float, float]:
    """Seconds of wall and of processor time."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["bash", "-c", script], cwd=place, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, spent


def main() -> None:
    busy = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        install = timed("\n".join(["set -e", *installing()]), place)
        campaign = timed(f". ../.venv/bin/activate\n{playing()}", place / "discreet" / "first")
    rows = [("clone, environment, installation", *install), ("the campaign, to a verified certificate", *campaign)]
    rows.append(("together", install[0] + campaign[0], install[1] + campaign[1]))
    lines = [f"| {what} | {wall:.0f} | {spent:.0f} |" for what, wall, spent in rows]
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, load {busy:.1f} when it began"
    RESULT.write_text(
        "# From clone to certificate\n\n"
        f"Made by benchmarks/first_campaign.py. {machine}; packages from an index on this machine.\n\n"
        "| | wall time, seconds | processor time, seconds |\n|---|---|---|\n" + "\n".join(lines) + "\n",
        encoding="utf-8",
    )
    sys.stdout.write(RESULT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
