"""`discreet serve` in a process of its own, and a real Chromium that looks at it."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from discreet.config import CampaignConfig
from discreet.recipes.opening import create

POOLS = {
    "pictures": 'path = "pool.npz"\nkind = "npz"\nid = "id"\narray = "x"\nshape = [1, 8, 8]\nscale = 16',
    "texts": 'path = "pool.csv"\nkind = "csv"\nid = "id"\ntext = "words"',
    "numbers": 'path = "pool.csv"\nkind = "csv"\nid = "id"\ncolumns = ["age", "dose", "weight"]',
}
TOML = """format = "discreet.campaign/1"
name = "{name}"
[pool]
{pool}
size = {size}
[task]
kind = "{kind}"
classes = {classes}
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = {initial}
queries = 20
phases = 1
batch = 20
epochs = 3
accountant = "rdp"
[oracle]
name = "web"
{oracle}
[model]
name = "linear"
{model}
[trainer]
learning_rate = 1.0
engine = "reference"
"""


def campaign_file(place, **facts):
    """A campaign's file, which is created with its first questions asked."""
    given = {"name": "shown", "size": 400, "initial": 52, "kind": "multiclass", "oracle": "", "model": ""} | facts
    path = place / f"{given['name']}.toml"
    given["classes"] = json.dumps(given["classes"])
    path.write_text(TOML.format(**given | {"pool": POOLS[given["pool"]]}), encoding="utf-8")
    return path


def digits(place, size=400):
    """Handwritten digits in an npz file; the true labels by record."""
    from sklearn.datasets import load_digits

    found = load_digits()
    names = [f"scan-{number}" for number in range(size)]
    pixels = found.images[:size, None].astype(np.float32)
    np.savez(place / "pool.npz", id=np.array(names), x=pixels)
    return dict(zip(names, map(str, found.target[:size]), strict=True))


def created(path, **people):
    """The campaign, with its first questions asked; tokens by name."""
    campaign = create(CampaignConfig.read(path))
    campaign.due()
    return campaign, {name: campaign.store.users.add(name, role) for name, role in people.items()}


@contextlib.contextmanager
def serving(path, *options):
    """A server; its address, and where its log goes."""
    log = Path(path).with_suffix(".log")
    command = [sys.executable, "-m", "discreet", "serve", str(path), "--port", "0", "--json", *options]
    with log.open("wb") as errors:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            line = server.stdout.readline()
            assert line, log.read_text()
            yield json.loads(line)["address"].rstrip("/"), log
        finally:
            server.terminate()
            server.wait(20)
            server.stdout.close()


@contextlib.contextmanager
def chromium(**context):
    """A new page of a headless browser."""
    from playwright.sync_api import sync_playwright

    place = shutil.which("chromium")
    assert place, "these tests need chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=["--no-sandbox"])
        try:
            yield browser.new_context(**context).new_page()
        finally:
            browser.close()


def log_in(page, address, name, token):
    """By the form, as people do."""
    page.goto(f"{address}/login")
    page.fill("input[name=name]", name)
    page.fill("input[name=token]", token)
    page.press("input[name=token]", "Enter")
    page.wait_for_url(lambda url: not url.endswith("/login"))


def screenshot(page, name):
    """Kept where SCREENSHOTS says, to be looked at."""
    if place := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{place}/{name}.png")
