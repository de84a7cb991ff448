"""A real Label Studio server, in an environment of its own, on a database that was migrated once and is copied.

`make label-studio` builds the environment (`python tests/integration/label_studio_server.py`): minutes, once.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACE = Path(os.environ.get("DISCREET_LABEL_STUDIO", ROOT / "out" / "label-studio"))
PINS = Path(__file__).with_name("label-studio.txt")
OWNER, PASSWORD = "owner@example.org", "owner-password-1"
LEGACY = "0123456789abcdef0123456789abcdef01234567"
ENVIRONMENT = {
    "COLLECT_ANALYTICS": "false",
    "SENTRY_DSN": "",
    "FRONTEND_SENTRY_DSN": "",
    "LATEST_VERSION_CHECK": "false",
    "OMP_NUM_THREADS": "1",
}


class LabelStudio:
    """On 127.0.0.1. Stopped and started again it has the same data and address."""

    def __init__(self, data, program=None, environment=None):
        self.data, self.program = Path(data), program or PLACE / "venv/bin/label-studio"
        self._environment = os.environ | ENVIRONMENT | {"LABEL_STUDIO_BASE_DATA_DIR": str(data)} | (environment or {})
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process = None

    def start(self, wait=300):
        """Until it answers."""
        options = ["--no-browser", "--port", str(self.port), "--internal-host", "127.0.0.1"]
        options += ["--username", OWNER, "--password", PASSWORD, "--user-token", LEGACY, "--enable-legacy-api-token"]
        with (self.data / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self.program), "start", *options, "--data-dir", str(self.data)],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._wait(time.monotonic() + wait)
        except BaseException:  # nobody else would stop it
            self.stop(kill=True)
            raise
        return self

    def _wait(self, deadline):
        while not self.answers():
            assert self._process.poll() is None, f"Label Studio ended; see {self.data}/server.log"
            assert time.monotonic() < deadline, "Label Studio did not start"
            time.sleep(0.2)

    def answers(self):
        try:
            with urllib.request.urlopen(f"{self.url}/api/version", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def stop(self, kill=False):
        """``kill``: at any instruction."""
        if self._process is not None:
            with suppress(ProcessLookupError):  # it ended by itself
                os.killpg(self._process.pid, signal.SIGKILL if kill else signal.SIGTERM)
            self._process.wait(timeout=60)
            self._process = None


def copied(place, **options):
    """A server with data of its own, as the template has it."""
    if not (PLACE / ".installed").exists():
        import pytest

        pytest.fail("there is no Label Studio: make label-studio builds it")
    shutil.copytree(PLACE / "template", place)
    return LabelStudio(place, **options)


def build():
    """The environment, and a migrated database with one account."""
    PLACE.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", str(PLACE / "venv")], check=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([str(PLACE / "venv/bin/pip"), "install", *quiet, "-r", str(PINS)], check=True)
    shutil.rmtree(PLACE / "template", ignore_errors=True)
    (PLACE / "template").mkdir()
    began = time.monotonic()
    LabelStudio(PLACE / "template").start(wait=900).stop()
    print(f"migrated in {time.monotonic() - began:.0f} s")
    (PLACE / ".installed").touch()


if __name__ == "__main__":
    build()
