"""A campaign that teachers label, on scikit-learn's digits: 60 models of private digits vote, and a student learns.

The private digits are read once, when the campaign is created. Each phase the student asks about public digits; every
answer is charged before it is drawn. Killed and called again it goes on, with the same answers.
Run: python examples/label_by_teachers.py [DIRECTORY]
"""

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from discreet.campaign.loop import InternalOracle, run
from discreet.config import PateConfig
from discreet.recipes.opening import create
from discreet.recipes.verification import verify_campaign
from discreet.trainers.metric_words import evaluation_words

FILE = """
format = "discreet.campaign/1"
name = "digits"
[pool]
path = "public.npz"
kind = "npz"
id = "id"
array = "x"
size = 400
center = 5.0
scale = 16.0
[private]
path = "private.npz"
size = 1100
labels = "private.csv"
[task]
kind = "binary"
classes = ["even", "odd"]
[budget]
epsilon = "4"
delta = "1e-5"
[recipe]
name = "pate"
[teachers]
count = 60
[plan]
queries = [40, 40, 40]
[student]
ask = "margin"
[evaluation]
kind = "public"
path = "test.npz"
labels = "test.csv"
"""


def write(place):
    """Private digits with labels, public ones without, and others to measure on."""
    pixels, digit = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digit))
    for name, mine in {"private": order[:1100], "public": order[1100:1500], "test": order[1500:]}.items():
        ids = [f"digit-{number}" for number in mine]
        np.savez(place / f"{name}.npz", id=np.array(ids), x=pixels[mine].astype(np.float32))
        with (place / f"{name}.csv").open("w", newline="") as file:
            said = ["odd" if one % 2 else "even" for one in digit[mine]]
            csv.writer(file).writerows([("record", "label"), *zip(ids, said, strict=True)])
    (place / "public.csv").unlink()  # nobody knows these


def looked_at(tallies):
    """The owner looks at tallies of the private labels and cells before the campaign begins, and decides."""
    print(tallies.text(), file=sys.stderr)
    return True


def main(place):
    """The campaign, from wherever it stands to its end."""
    if not (place / "digits.db").exists():
        write(place)
    config = PateConfig.from_text(FILE, directory=place)
    campaign = create(config, confirm=looked_at)
    price = campaign.recipe.plan.price
    print(
        f"{price.teachers} teachers, {price.answers} answers, epsilon {price.epsilon:.2f}, delta {price.budget.delta}"
    )
    run(campaign, InternalOracle(campaign))
    for one in campaign.store.transitions():
        if one.kind == "trained":
            print(f"phase {one.phase}: {evaluation_words(one.facts['evaluation'])}, on digits")
    print("verified" if verify_campaign(config).ok else "NOT verified", "without reading a record")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(Path(directory))
