"""What must not be imported is not imported. Counted in modules, not in seconds."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.thorough

HEAVY = ("torch", "dp_accounting", "opacus", "sklearn", "pyarrow", "sqlalchemy", "matplotlib", "pandas")
LIGHTEST = (*HEAVY, "numpy")
PROBE = """
import sys
from discreet.cli.app import run
code = run({arguments!r})
loaded = [name for name in {heavy!r} if name in sys.modules]
assert code == 0, code
print("LOADED", loaded)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["plan", "--help"],
        ["ledger", "--help"],
        ["verify", "--help"],
        ["select", "--help"],
        ["stream", "--help"],
        ["plan", "--preset", "dpal-cifar10", "--accountant", "rdp", "--individual-rates"],
    ],
)
def test_light_commands_import_nothing_heavy(arguments):
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(arguments=arguments, heavy=HEAVY)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "LOADED []" in done.stdout


def test_help_imports_no_numbers():
    probe = PROBE.format(arguments=["--help"], heavy=LIGHTEST)
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout


def test_a_ledger_is_kept_shown_and_verified_without_anything_heavy(tmp_path):
    create = ["ledger", "create", "a.ledger", "--epsilon", "1", "--delta", "1e-6"]
    for arguments in (create, ["ledger", "show", "a.ledger"], ["verify", "a.ledger"]):
        done = subprocess.run(
            [sys.executable, "-c", PROBE.format(arguments=arguments, heavy=HEAVY)],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        assert "LOADED []" in done.stdout


def test_importing_the_package_is_light():
    code = f"import discreet, sys; print([n for n in {HEAVY!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
