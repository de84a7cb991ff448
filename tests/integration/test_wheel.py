"""The wheel, installed alone into a new environment: what a user gets from `pip install discreet`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.integration


def run(*command, **options):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", place, ROOT, check=True)
    (wheel,) = place.glob("*.whl")
    run(sys.executable, "-m", "venv", place / "env", check=True)
    run(place / "env/bin/pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, check=True)
    return place / "env/bin/discreet"


def test_a_base_install_plans(command, tmp_path):
    done = run(command, "plan", "--preset", "dpal-bloodcell", "--json", "--out", "plan.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert max(path["epsilon_pld"] for path in made["trajectories"]) <= 8
    assert (tmp_path / "plan.toml").exists()


def test_a_base_install_has_neither_torch_nor_matplotlib(command, tmp_path):
    done = run(command, "plan", "--preset", "dpal-bloodcell", "--plot", "plan.png", cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install 'discreet[plot]'" in done.stderr
    listed = run(command.parent / "pip", "list", check=True).stdout.lower().split()
    assert "torch" not in listed
    assert "matplotlib" not in listed


def test_a_base_install_says_what_training_needs(command):
    code = (
        "import numpy as np, discreet\n"
        "try:\n"
        "    discreet.DPClassifier(epsilon=1, delta='1e-5', classes=[0, 1]).fit(np.zeros((9, 2)), np.zeros(9))\n"
        "except discreet.DiscreetError as missing:\n"
        "    print(type(missing).__name__, missing)\n"
    )
    done = run(command.parent / "python", "-c", code)
    assert "MissingExtra" in done.stdout, done.stderr
    assert "pip install 'discreet[torch]'" in done.stdout


def test_the_package_is_typed_and_licensed(command):
    site = next((command.parents[1] / "lib").glob("python*/site-packages"))
    assert (site / "discreet/py.typed").exists()
    assert list(site.glob("discreet-*.dist-info/licenses/LICENSE"))


def test_a_closed_pipe_is_not_a_crash(command):
    done = run("bash", "-c", f"'{command}' plan --preset dpal-snli --accountant rdp --json | head -c 10")
    assert "Traceback" not in done.stderr


def test_an_interrupt_is_clean(command):
    import signal
    import time

    started = subprocess.Popen(
        [command, "plan", "--preset", "dpal-cifar10"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while "pypocketfft" not in Path(f"/proc/{started.pid}/maps").read_text() and time.monotonic() < deadline:
        time.sleep(0.02)  # until it is in the middle of its work: distributions are being convolved
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert started.returncode in (0, 130)  # 0: it had just finished
    assert "Traceback" not in err
