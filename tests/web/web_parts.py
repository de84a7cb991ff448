"""A campaign of small pictures, texts or numbers that is served: real stores, real sessions, no network."""

import csv
import json
import re

import numpy as np
from starlette.testclient import TestClient

from discreet.config import read_campaign
from discreet.recipes.opening import create, load
from discreet.web.app import create_app
from discreet.web.hosting import Hosted, Hosting

HOME = "http://127.0.0.1"
TOML = """format = "discreet.campaign/1"
name = "{name}"
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
queries = 4
phases = 1
batch = 4
epochs = 2
accountant = "rdp"
[oracle]
name = "web"
{oracle}
[model]
name = "linear"
[trainer]
learning_rate = 1.0
engine = "reference"
"""
PICTURES = '[pool]\npath = "pool.npz"\nkind = "npz"\nid = "id"\narray = "x"\nshape = [1, 8, 8]\nscale = 16'
NUMBERS = '[pool]\npath = "pool.csv"\nkind = "csv"\nid = "id"\ncolumns = ["age", "dose"]'


def written(
    place, *, pool=PICTURES, size=40, initial=8, kind="multiclass", classes=("a", "b"), oracle="", name="small"
):
    """The campaign's file; its records are there already, or small pictures are made."""
    if pool is PICTURES and not (place / "pool.npz").exists():
        pixels = np.random.default_rng(1).integers(0, 17, size=(size, 1, 8, 8)).astype(np.float32)
        np.savez(place / "pool.npz", id=np.array([f"record-{n}" for n in range(size)]), x=pixels)
    path = place / f"{name}.toml"
    listed = "[" + ", ".join(f'"{one}"' for one in classes) + "]"
    facts = {"pool": pool, "size": size, "kind": kind, "classes": listed, "initial": initial, "oracle": oracle}
    path.write_text(TOML.format(name=name, **facts))
    return path


SCRIPTS = (
    "<script>window.ran = 1</script> lamp",
    "<img src=x onerror='window.ran = 2'> lamp",
    '"><svg onload="window.ran = 3"> lamp',
    "{{ 7 * 7 }} ${7 * 7} lamp",
    "<a href='javascript:window.ran = 4'>oven</a>",
    "</div></main><iframe srcdoc='<script>parent.ran = 5</script>'></iframe> oven",
    "<style>body { display: none }</style> oven",
    "<form hx-post='/logout' hx-trigger='load'>oven</form>",
)
LABELS = ("<script>window.ran = 6</script>", "<img src=x onerror='window.ran = 7'>")
CROWD = """format = "discreet.campaign/1"
name = "home"
[log]
path = "log.csv"
text = "query"
person = "user"
[gate]
k = 10
beta = 0.5
[gold]
path = "gold.csv"
public = true
[task]
kind = "binary"
classes = {classes}
[budget]
epsilon = "1"
delta = "1e-2"
unit = "person"
[recipe]
name = "crowd"
[plan]
queries = [8]
[oracle]
name = "web"
[model]
features = 64
epochs = 2
"""


def crowd_of_scripts(place):
    """A crowd campaign whose gate let out texts that are scripts, with classes that are scripts, too."""
    with (place / "log.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["user", "query"])
        out.writerows([f"person-{place}-{number}", text] for place, text in enumerate(SCRIPTS) for number in range(80))
    with (place / "gold.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["text", "label"])
        out.writerows([f"buy {number} of these", LABELS[number % 2]] for number in range(8))
    (place / "home.toml").write_text(CROWD.format(classes=json.dumps(LABELS)), encoding="utf-8")
    return place / "home.toml"


class House:
    """What is served, and the tokens of those who may come: an owner, and three annotators."""

    def __init__(self, path, **hosting):
        self.path, self._hosting = path, {"names": frozenset({"127.0.0.1"})} | hosting
        self.campaign = create(read_campaign(path))
        self.serve()
        people = {"olga": "owner", "ada": "annotator", "bo": "annotator", "cy": "annotator"}
        self.tokens = {name: self.campaign.store.users.add(name, role) for name, role in people.items()}

    def serve(self):
        """As a server that is started, or started again."""
        self.hosted = Hosted(lambda: load(read_campaign(self.path)))
        self.app = create_app(Hosting(campaigns=[self.hosted], **self._hosting))

    def client(self, **options):
        """A browser that nobody logged in."""
        return TestClient(self.app, base_url=HOME, follow_redirects=False, **options)

    def browser(self, name):
        """A browser in which somebody is logged in."""
        client = self.client()
        sent = {"name": name, "token": self.tokens[name], "csrf": hidden(client.get("/login").text, "csrf")}
        assert client.post("/login", data=sent).status_code == 303
        return client

    def program(self, name):
        """A program with a token."""
        return self.client(headers={"Authorization": f"Bearer {self.tokens[name]}"})


def hidden(text, name):
    """A hidden field of a page."""
    found = re.search(rf'name="{name}" value="([^"]*)"', text)
    return found and found[1]


def fields(page):
    """What a form of the labelling page sends."""
    return {"csrf": hidden(page.text, "csrf"), "question": hidden(page.text, "question")}
