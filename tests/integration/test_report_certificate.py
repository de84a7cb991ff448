"""The certificate that a page carries: saved from the page it verifies, and a signed one is shown as it is."""

import base64
import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from report_parts import play

from discreet.cli.app import run

pytestmark = pytest.mark.integration


def test_a_saved_certificate_verifies_and_a_signed_one_is_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    play(tmp_path)
    assert run(["report", "visits.toml"]) == 0
    Path("saved.json").write_bytes(carried(Path("report.html").read_text()))
    assert run(["verify", "saved.json", "--ledger", "visits.toml"]) == 0
    assert run(["ledger", "keygen", "signing.pem"]) == 0
    assert run(["ledger", "export", "visits.toml", "--out", "signed.json", "--sign", "signing.pem"]) == 0
    assert run(["report", "visits.toml", "--certificate", "signed.json"]) == 0
    assert carried(Path("report.html").read_text()) == Path("signed.json").read_bytes()
    assert "ed25519" in Path("report.html").read_text()
    form = json.loads(Path("signed.json").read_text())
    form["claim"]["epsilon"] = 1.0
    Path("forged.json").write_text(json.dumps(form, indent=1) + "\n")
    assert run(["report", "visits.toml", "--certificate", "forged.json"]) == 2
    assert "digest" in capsys.readouterr().err


def carried(page):
    return base64.b64decode(re.search(r"data:application/json;base64,([^\"]+)", page)[1])
