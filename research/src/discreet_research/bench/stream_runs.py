"""One stream, learned to its end: what was asked, and how wrong the model was after every update.

Draws come from a seed, and every ledger is a simulation. Errors are on a test set, and are for the bench alone: on
private records they would have to be paid for.

Components that are paid for: of records that came before the stream, and never arrive in it.

Those records pay for a noisy second moment, the stream's records for the stream, out of one ledger: the claim is the
worse of the two, and each may use the whole budget. No public record is looked at but for step size and lambda, which
are those that were found for public components.

Step size and lambda of every method, from the public part alone: no table looks at those records.

A fifth of the public part is measured on; the rest arrives, in a few orders. The pair with the lowest error, on average
over the label axis and the orders, is kept beside the results. It is the same for all seeds.

One method on one stream in one order: a case of the bench. Its plan is what it was tuned to on the public part.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.components import second_moment_event
from discreet.errors import BadInput
from discreet.noise import Seeded
from discreet.privacy.events import Gaussian
from discreet.privacy.files import write_whole
from discreet.privacy.ledger import Ledger, MemorySink
from discreet.stream import InverseStep, StreamLearner, StreamSettings, charge_preparation, stream_terms
from discreet.stream.preparation import Preparation, private_components
from discreet_research.bench.cases import GridCase
from discreet_research.bench.objective_perturbation import ObjectivePerturbation
from discreet_research.bench.stream_baselines import batch_svm
from discreet_research.bench.stream_methods import StreamMethod, StreamProblem
from discreet_research.bench.stream_sets import StreamSet, stream_set

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
GRID = 40
"""Points of an axis, but for 0."""
UNTAUGHT = 0.5
"""The error of a model that was not taught: a coin."""
_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True, repr=False)
class Part:
    """Records in the order they arrive, and those that errors are measured on; classes are 0 and 1."""

    x: Floats
    y: Integers
    test_x: Floats
    test_y: Integers


@dataclass(frozen=True, kw_only=True, repr=False)
class Run:
    """After each update: how many had arrived and been asked, and the error. The first entry is before any."""

    arrived: Integers
    asked: Integers
    errors: Floats
    asked_by_arrival: Integers

    def error_at_labels(self, labels: Any) -> Floats:
        """Straight lines between updates, as the paper draws them; nothing beyond the last."""
        return np.asarray(np.interp(labels, self.asked, self.errors, right=np.nan))

    def error_at_updates(self, updates: Any) -> Floats:
        """The same, by updates."""
        return np.asarray(np.interp(updates, np.arange(len(self.errors)), self.errors, right=np.nan))

    def mean_error(self, problem: StreamProblem) -> float:
        """Over the label axis, as far as the stream went; what lies beyond counts as the last error."""
        errors = self.error_at_labels(axis(problem.labels))
        return float(np.mean(np.where(np.isnan(errors), self.errors[-1], errors)))


def axis(end: int) -> Floats:
    """Equal distances up to ``end``, without 0."""
    return np.linspace(0, end, GRID + 1)[1:]


def learned(
    problem: StreamProblem,
    method: StreamMethod,
    part: Part,
    *,
    step: float,
    regularization: float,
    seed: int,
    ledger: Ledger | None = None,
) -> Run:
    """Learn until the labels and the updates of the problem's axes are there, or the stream is over.

    ``ledger``: one that is drawn from the seed and has the stream in its terms; without one there is one of its own.
    """
    settings = StreamSettings(
        features=part.x.shape[1],
        asking=method.rule(),
        noise=method.noise(),
        slab=method.slab(),
        window=method.windows(),
        step=InverseStep(step),
        regularization=regularization,
        ball=method.ball,
    )
    learner = (
        StreamLearner.simulated(settings, seed=seed) if ledger is None else StreamLearner.of(settings, ledger=ledger)
    )
    arrived, asked, models, bits = [0], [0], [np.zeros(part.x.shape[1])], []
    for vector, label in zip(part.x, part.y.tolist(), strict=True):
        bit = learner.ask(vector)
        bits.append(bit)
        if bit:
            learner.learn_one(vector, label)
        if learner.update():
            arrived.append(learner.arrived)
            asked.append(learner.asked)
            models.append(learner.model().weights)
            if learner.asked >= problem.labels and len(models) > problem.updates:
                break
    return Run(
        arrived=np.array(arrived),
        asked=np.array(asked),
        errors=_errors(np.array(models), part),
        asked_by_arrival=np.cumsum(bits),
    )


def _errors(models: Floats, part: Part) -> Floats:
    errors = np.empty(len(models))
    for start in range(0, len(models), _AT_ONCE):
        scores = part.test_x @ models[start : start + _AT_ONCE].T
        errors[start : start + _AT_ONCE] = ((scores >= 0) != (part.test_y[:, None] == 1)).mean(axis=0)
    errors[0] = UNTAUGHT
    return errors


def batch_error(method: StreamMethod, part: Part, labels: int, *, regularization: float, seed: int) -> float:
    """Of one private batch of the first ``labels`` records."""
    learner = ObjectivePerturbation(
        features=part.x.shape[1], records=labels, epsilon=method.total, regularization=regularization
    )
    ledger = Ledger.create(MemorySink(), learner.terms(), source=Seeded(seed))
    model = learner.train(part.x[:labels], 2 * part.y[:labels] - 1, receipts=learner.charge(ledger))
    return _wrong(model.predict_many(part.test_x), part)


def svm_error(part: Part, regularization: float) -> float:
    """Of the batch SVM of all records; **not private**."""
    model = batch_svm(part.x, 2 * part.y - 1, regularization=regularization)
    return _wrong(model.predict_many(part.test_x), part)


def _wrong(predicted: Integers, part: Part) -> float:
    return float((predicted != 2 * part.test_y - 1).mean())


NORM = 1.0
"""Records are brought to this length before their second moment is taken."""


def paid_part(problem: StreamProblem, method: StreamMethod, data: StreamSet, seed: int) -> tuple[Part, Ledger]:
    """The stream of a seed, by components that its last records pay for, and the ledger that holds both."""
    if not method.gaussian:
        raise BadInput(f"paid components with {method.name}", "its budget has no delta for them", "Use Gaussian noise")
    if problem.paid + problem.arrivals > len(data.places):
        raise BadInput(f"{problem.paid} held-out records", f"{len(data.places)} are all there are", "Take fewer")
    event = _event(method.total, method.delta)
    terms = stream_terms(
        method.budget(), asking=method.rule(), noise=method.noise(), preparation=[event], prepared="held-out"
    )
    ledger = Ledger.create(MemorySink(), terms, source=Seeded(seed))
    plain = Preparation(inputs=data.preparation.inputs)
    held_out = plain.scaled(data.last(seed, problem.paid))
    receipt = charge_preparation(ledger, event, purpose="second moment")
    paid = private_components(held_out, count=problem.components, norm=NORM, receipt=receipt)
    preparation = plain.with_components(paid.components, origin="paid")
    return _part(data, preparation, seed, problem.arrivals), ledger


def _part(data: StreamSet, preparation: Preparation, seed: int, arrivals: int) -> Part:
    x, y = data.with_preparation(preparation).stream(seed, arrivals)
    return Part(x=x, y=y, test_x=preparation.rows(data.test_raw), test_y=data.test_y)


@lru_cache(maxsize=8)
def _event(epsilon: str, delta: str) -> Gaussian:
    """The least noise with which one second moment keeps the budget, by PLD."""
    from discreet.privacy.accounting.pld import pld_epsilons

    low, high = 0.05, 1000.0
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        fits = max(pld_epsilons(second_moment_event(middle), float(delta), interval=1e-4)) <= float(epsilon)
        low, high = (low, middle) if fits else (middle, high)
    return second_moment_event(high)


STEPS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
LAMBDAS = (1e-3, 1e-1)
BATCH_LAMBDAS = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
ORDERS = 10
_FIRST_ORDER = 50_000
"""Seeds of orders that no table has."""


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """``step``: eta of eta/t; ``regularization``: lambda, of one batch one for each of the problem's marks; ``error``:
    on the public part.
    """

    step: float
    regularization: tuple[float, ...]
    error: float


def tuned_name(problem: StreamProblem, method: StreamMethod) -> str:
    """The same for cases that are tuned alike."""
    identity = [
        {key: value for key, value in problem.settings().items() if key not in ("name", "paid")},
        {key: value for key, value in method.settings().items() if key != "name"},
    ]
    return json.dumps([identity, STEPS, LAMBDAS, BATCH_LAMBDAS, ORDERS], sort_keys=True)


def tuned(problem: StreamProblem, method: StreamMethod, data: StreamSet, cache: Path | None) -> Tuned:
    """From the cache, or made and put there."""
    name = tuned_name(problem, method)
    path = None if cache is None else cache / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
    result = _TUNED[name] = _on_shelf(path) or _TUNED.get(name) or _search(problem, method, data)
    if path is not None and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(asdict(result) | {"of": json.loads(name)}))
    return result


_TUNED: dict[str, Tuned] = {}
"""What this process has tuned."""


def _on_shelf(path: Path | None) -> Tuned | None:
    if path is None or not path.exists():
        return None
    try:
        form = json.loads(path.read_text())
        return Tuned(step=form["step"], regularization=tuple(form["regularization"]), error=form["error"])
    except (ValueError, KeyError, TypeError):
        path.unlink()  # broken: it is made again
        return None


def _search(problem: StreamProblem, method: StreamMethod, data: StreamSet) -> Tuned:
    parts = [_public_part(data, order) for order in range(ORDERS)]
    if method.kind == "stream":

        def error(step: float, strength: float) -> float:
            runs = [
                learned(problem, method, part, step=step, regularization=strength, seed=_FIRST_ORDER + order)
                for order, part in enumerate(parts)
            ]
            return float(np.mean([run.mean_error(problem) for run in runs]))

        errors = {pair: error(*pair) for pair in itertools.product(STEPS, LAMBDAS)}
        step, strength = min(errors, key=errors.__getitem__)
        return Tuned(step=step, regularization=(strength,), error=errors[step, strength])
    marks = problem.marks if method.kind == "one batch" else (0,)
    strengths = [_best_lambda(method, parts, mark) for mark in marks]
    return Tuned(step=0.0, regularization=tuple(strength for _, strength in strengths), error=strengths[-1][0])


def _best_lambda(method: StreamMethod, parts: Sequence[Part], mark: int) -> tuple[float, float]:
    """The lowest mean error, and where it is."""

    def error(strength: float) -> float:
        runs = [
            svm_error(part, strength)
            if method.kind == "not private"
            else batch_error(method, part, mark, regularization=strength, seed=_FIRST_ORDER + order)
            for order, part in enumerate(parts)
        ]
        return float(np.mean(runs))

    return min((error(strength), strength) for strength in BATCH_LAMBDAS)


def _public_part(data: StreamSet, order: int) -> Part:
    """The public part in one order: four fifths arrive, a fifth is measured on."""
    count = len(data.public_y)
    if count < 10:
        raise BadInput("tuning on the public part", "it has fewer than 10 records", "Give it more")
    places = np.random.default_rng(_FIRST_ORDER + order).permutation(count)
    held, arriving = places[: count // 5], places[count // 5 :]
    x, y = data.public_x, data.public_y
    return Part(x=x[arriving], y=y[arriving], test_x=x[held], test_y=y[held])


FIRST_ARRIVALS = 1_000
"""Labels are counted over so many arrivals (the paper's Fig. 5a)."""


@dataclass(frozen=True, kw_only=True)
class StreamCase(GridCase):
    """A cell of the grid."""

    problem: StreamProblem
    method: StreamMethod
    kind = "stream"

    def identity(self) -> Any:
        """With what it is tuned to."""
        return [super().identity(), tuned_name(self.problem, self.method)]

    def names(self) -> dict[str, Any]:
        """Of the problem and the method, the seed, and what is promised."""
        method = self.method
        return super().names() | {
            "private": method.private,
            "epsilon": method.total if method.private else None,
            "delta": method.delta if method.private else None,
            "relation": method.relation if method.private else None,
            "zero_out_epsilon": float(method.zero_out()) if method.private else None,
        }

    def plan_name(self) -> str | None:
        """By what it is tuned for."""
        return tuned_name(self.problem, self.method)

    def make_plan(self, data: Path | None, plans: Path) -> None:
        """Tune it, once."""
        tuned(self.problem, self.method, self._set(data), plans)

    def gradients(self, data: Path | None, plans: Path) -> int:
        """Of single records, in one case: as many as labels."""
        return self.problem.labels

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """A row a point of an axis."""
        data_set = self._set(data)
        result = tuned(self.problem, self.method, data_set, plans)
        common = {"step": result.step, "regularization": result.regularization[-1], "public_error": result.error}
        if self.problem.paid:
            part, ledger = paid_part(self.problem, self.method, data_set, self.seed)
        else:
            x, y = data_set.stream(self.seed, self.problem.arrivals)
            part, ledger = Part(x=x, y=y, test_x=data_set.test_x, test_y=data_set.test_y), None
        return [row | common | {"made_of": data_set.made_of} for row in self._rows(part, result, ledger)]

    def _set(self, data: Path | None) -> StreamSet:
        problem = self.problem
        return stream_set(problem.data, data, public=problem.public, components=problem.components)

    def _rows(self, part: Part, result: Tuned, ledger: Ledger | None) -> list[dict[str, Any]]:
        if self.method.kind == "not private":
            return [_row("all", len(part.y), svm_error(part, result.regularization[0]))]
        if self.method.kind == "one batch":
            return [
                _row("labels", mark, batch_error(self.method, part, mark, regularization=strength, seed=self.seed))
                for mark, strength in zip(self.problem.marks, result.regularization, strict=True)
            ]
        run = learned(
            self.problem,
            self.method,
            part,
            step=result.step,
            regularization=result.regularization[0],
            seed=self.seed,
            ledger=ledger,
        )
        points = np.unique(np.concatenate([axis(self.problem.labels), self.problem.marks]))
        updates = axis(self.problem.updates)
        return [
            *_errors_along("labels", points, run.error_at_labels(points)),
            *_errors_along("updates", updates, run.error_at_updates(updates)),
            *_by_arrivals(run),
        ]


def _row(along: str, at: float, error: float | None, asked: float | None = None) -> dict[str, Any]:
    return {"axis": along, "at": float(at), "error": error, "asked": asked}


def _errors_along(along: str, points: Floats, errors: Floats) -> list[dict[str, Any]]:
    known = (None if np.isnan(error) else float(error) for error in errors)
    return [_row(along, at, error) for at, error in zip(points, known, strict=True)]


def _by_arrivals(run: Run) -> list[dict[str, Any]]:
    """How many were asked of the first thousand."""
    points = axis(FIRST_ARRIVALS).astype(np.int64)
    counts = run.asked_by_arrival
    return [_row("arrivals", at, None, float(counts[at - 1])) for at in points.tolist() if at <= len(counts)]
