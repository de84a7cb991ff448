"""Two whole campaigns on scikit-learn's digits, side by side: questions chosen privately, and uniformly at random.

The pool is uneven: of every second digit only 30 records are in it, of the others about 130. Both campaigns ask for 330
labels and promise epsilon 8. Both are played with several seeds, by simulated annotators who know the truth; the test
digits are public. Run: python examples/demo.py [DIRECTORY] [--seeds N] [--json]

Stop it, kill it, run it again: it goes on where it was. Once it has ended, the next run begins anew.
"""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

from discreet import create_campaign
from discreet.campaign.loop import run
from discreet.cli.progress import watching
from discreet.errors import DiscreetError
from discreet.oracles import SimulatedOracle
from discreet.pools import ArrayPool
from discreet.privacy.certificate import verify, write_certificate
from discreet.recipes import private_pool
from discreet.simulation.points import mean_interval

BUDGET = {"epsilon": "8", "delta": "1e-5"}
CLASSES = [str(digit) for digit in range(10)]
TESTED, RARE = 500, 30
STORE, RESULT, CERTIFICATE = "demo.db", "demo.json", "demo-certificate.json"
METHODS = {  # what choosing costs is taken from the same budget
    "chosen privately": {"selection_epsilon": "2", "threshold_epsilon": "0.1"},
    "uniform random": {},
}


def digits(seed):
    """A pool with its true labels, and test digits; pixels go from 0 to 16, which is public."""
    pictures, y = load_digits().images, load_digits().target
    x, order = (pictures / 16).astype(np.float32), np.random.default_rng(seed).permutation(len(y))
    test, rest = order[:TESTED], order[TESTED:]
    of_class = [rest[y[rest] == digit] for digit in range(10)]
    pool = np.concatenate([mine[:RARE] if digit % 2 else mine for digit, mine in enumerate(of_class)])
    ids = [f"digit-{number}" for number in pool]
    truth = dict(zip(ids, map(str, y[pool]), strict=True))
    return ArrayPool(ids=ids, x=x[pool]), truth, x[test], y[test]


def play(place, method, seed, watch):
    """One campaign, from wherever it stands to its end: accuracy after each phase, and the certificate's verdict."""
    pool, truth, test, test_y = digits(seed)
    recipe = private_pool(
        classes=CLASSES,
        initial=150,
        queries=[60, 60, 60],
        features={"name": "scattering", "scales": 1},  # a public map; batch, epochs and settings follow by a rule
        plan={"accountant": "rdp"},  # plans in a blink; the default, PLD, claims less for the same noise
        simulation={"seed": seed},
        **METHODS[method],
    )
    campaign = create_campaign(
        f"{method} {seed}", storage=place / STORE, pool=pool, budget=BUDGET, recipe=recipe, watch=watch
    )
    run(campaign, SimulatedOracle(truth, classes=CLASSES, seed=seed))
    phases = range(campaign.recipe.phases)
    guesses = [campaign.predictor(phase).predict_proba(test).argmax(axis=1) for phase in phases]
    rare = sum(int(label) % 2 for label in campaign.labels().values())
    accuracies = [float((guess == test_y).mean()) for guess in guesses]
    return {"accuracy": accuracies, "majority": float(np.bincount(test_y).max() / TESTED), "rare": rare}, campaign


def certified(campaign, path):
    """Write what the campaign promises, and check it as anybody could: from the events alone."""
    if not path.exists():
        write_certificate(campaign.certificate(), path)
    return verify(path)


def demo(place, seeds, show):
    """All campaigns, their figures and their verdict."""
    started, found = time.monotonic(), {method: [] for method in METHODS}
    with watching() as watch:
        for seed in range(1, seeds + 1):
            for method, runs in found.items():
                result, campaign = play(place, method, seed, watch)
                runs.append(result)
                show(
                    f"seed {seed}, {method}: accuracy {result['accuracy'][-1]:.1%}, {result['rare']} rare digits asked"
                )
                if seed == 1 and method == "chosen privately":
                    verdict = certified(campaign, place / CERTIFICATE)
    ends = {method: np.array([one["accuracy"][-1] for one in runs]) for method, runs in found.items()}
    gain = mean_interval((ends["chosen privately"] - ends["uniform random"]).tolist())
    return {
        "format": "discreet.demo/1",
        "simulation": True,
        "seeds": seeds,
        "methods": {
            method: {
                "accuracy": np.mean([one["accuracy"] for one in runs], axis=0).round(4).tolist(),
                "majority": round(float(np.mean([one["majority"] for one in runs])), 4),
                "rare_digits_asked": round(float(np.mean([one["rare"] for one in runs])), 1),
            }
            for method, runs in found.items()
        },
        "gain": {"mean": gain.value, "interval": [gain.low, gain.high] if seeds > 1 else None},
        "certificate": {"ok": verdict.ok, "claim": verdict.claim},
        "seconds": round(time.monotonic() - started, 1),
    }


def tell(form, place):
    """The end, for people."""
    count = f"{form['seeds']} seeds" if form["seeds"] > 1 else "1 seed"
    table = Table(title=f"Accuracy on {TESTED} test digits (mean of {count})", title_justify="left")
    for heading in ("questions", "150 labels", "210", "270", "330", "majority", "rare digits asked"):
        table.add_column(heading, justify="left" if heading == "questions" else "right")
    for method, figures in form["methods"].items():
        shares = [*figures["accuracy"], figures["majority"]]
        table.add_row(method, *(f"{share:.1%}" for share in shares), f"{figures['rare_digits_asked']:.0f}")
    console, claim = Console(), form["certificate"]["claim"]
    console.print(table)
    gain, interval = form["gain"]["mean"], form["gain"]["interval"]
    spread = f" (95% interval {100 * interval[0]:+.1f} to {100 * interval[1]:+.1f})" if interval else ""
    print(f"Choosing against drawing uniformly at random: {100 * gain:+.1f} points{spread}.")
    print(f"Certificate of the first campaign: {place / CERTIFICATE}")
    if form["certificate"]["ok"]:
        print(f"verified: epsilon {claim['epsilon']} of 8 at delta {claim['delta']} per record, zero-out.")
    else:
        print("it does NOT hold.")
    print(f"A simulation: its noise was seeded, and protects nobody. {form['seconds']} seconds.")


def forget(place):
    """What an earlier run left, and nothing else; its result last, or the next run would take the rest for its own."""
    shutil.rmtree(place / f"{STORE}.files", ignore_errors=True)
    for name in (STORE, f"{STORE}-wal", f"{STORE}-shm", CERTIFICATE, RESULT):
        (place / name).unlink(missing_ok=True)


def main():
    """Go on, or begin."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("directory", nargs="?", default="out", type=Path)
    options.add_argument("--seeds", type=int, default=3, choices=range(1, 101), metavar="N")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    torch.set_num_threads(1)  # for 650 weights, two threads mostly wait for each other
    place, done = given.directory, given.directory / RESULT
    place.mkdir(parents=True, exist_ok=True)
    if done.exists():  # the last run came to its end
        forget(place)
    form = demo(place, given.seeds, show=lambda line: print(line, file=sys.stderr))
    done.write_text(json.dumps(form, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(form)) if given.json else tell(form, place)
    return 0 if form["certificate"]["ok"] else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DiscreetError as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit("demo: stopped. Run it again, and it goes on.")
