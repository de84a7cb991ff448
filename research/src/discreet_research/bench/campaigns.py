"""A whole campaign in one process: ask, label (by the public labels), train, and measure; a row a phase.

Everything that would cost a private pool is charged to a ledger of a simulation by the same code: planning, receipts,
selectors, DP-SGD. What is measured beside it (test accuracy, the true top k) is free because the data are public.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.noise import Seeded
from discreet.privacy.ledger import ChargeReason, Receipt
from discreet.privacy.plan import TrainingPhase
from discreet.records import Selection
from discreet.scorers.score import pool_scores
from discreet.selectors import RandomSelector, charge_selection, into_cohorts, selection_quality, without_asked
from discreet_research.bench.cases import Case
from discreet_research.bench.majority import largest_class
from discreet_research.bench.plans import Priced, campaign_of, gradients_of, priced, projected
from discreet_research.bench.problems import Pool, drawing, model_of, pool_of, settings_of

if TYPE_CHECKING:
    from discreet.trainers.dp_sgd import CohortRecords

BINS = 40
_ROWS = 8192


def run_case(
    case: Case, data: Path | None, plans: Path | None = None, *, begin: Callable[..., Campaign] | None = None
) -> list[dict[str, Any]]:
    """Rows of phases 1, 2 ...; phase 0 has the accuracy before anything was chosen. ``plans``: where plans are kept.

    ``begin``: makes the campaign, where it is another kind than `Campaign`.
    """
    pool = pool_of(case.problem, case.seed, data)
    books = priced(case.problem, case.method, len(pool.y), case.seed, plans)
    run = (begin or Campaign)(case, pool, books)
    rows = [run.train(0)]
    for number, k in enumerate(run.problem.queries, start=1):
        asked = run.ask(number, k)
        rows.append(asked if case.problem.first_only else asked | run.train(number))
        if case.problem.first_only:
            break
    facts = {
        "claimed_epsilon": books.claimed,
        "selection_epsilon": books.selection_claimed,
        "pool_size": len(pool.y),
        "gradients": gradients_of(books.plan),
        "made_of": pool.made_of,
    }
    if books.claimed_rdp is not None:
        facts["claimed_rdp"] = books.claimed_rdp
    return [row | facts for row in rows]


class Campaign:
    """Who is in which cohort, and the model so far."""

    def __init__(self, case: Case, pool: Pool, books: Priced) -> None:
        self.case, self.pool, self.books = case, pool, books
        self.problem = campaign_of(case.problem, case.method)
        self.ids = pool.ids
        self.place_of = {name: index for index, name in enumerate(self.ids)}
        first = RandomSelector(source=Seeded(case.seed)).select(ids=self.ids, k=self.problem.initial)
        labels = [cohort.label for cohort in books.plan.cohorts]
        self.cohorts: dict[str, list[int]] = {label: [] for label in labels}
        self.cohorts[labels[0]] = self._places(first.ids)
        self.padded: dict[str, Any] = {}
        self.model: Any = None

    def ask(self, number: int, k: int) -> dict[str, Any]:
        """Query ``number``: charged, drawn, entered into its cohort, measured."""
        left = self._left()
        names = [self.ids[index] for index in left.tolist()]
        selector = self.books.selectors[number - 1]
        scores, further = self._values(left)
        earlier = {self.ids[index] for cohort in self.cohorts.values() for index in cohort}
        if self.hidden:
            scores = without_asked(names, scores, earlier, range=self.books.scorer.range)
        paid = charge_selection(
            self.books.selection,
            selector,
            k=k,
            pool_size=len(names),
            who=self.books.pool_at(number),
            why=ChargeReason(phase=number, purpose="selection"),
        )
        selection = selector.select(ids=names, scores=scores, k=k, receipt=paid, phase=number, **further)
        self._enter(number, selection, paid)
        if further:
            return {"phase": number, "k": k, "asked": len(selection.ids), "left": len(names)}
        still = [index for index, name in enumerate(names) if name not in earlier]
        return {"phase": number} | self._measured([names[index] for index in still], scores[still], selection, k)

    def _values(self, left: NDArray[np.int64]) -> tuple[Any, dict[str, Any]]:
        """A score a record that is left; for k-centre where it lies, and where the labelled ones lie."""
        if self.case.method.mechanism.endswith("k-centre"):
            labelled = sorted(index for cohort in self.cohorts.values() for index in cohort)
            centres = projected(self.model.embed(self.pool.x[labelled]))
            return projected(self.model.embed(self.pool.x[left])), {"centres": centres}
        model = drawing(self.model) if self.books.scorer.needs == "draws" else self.model
        return pool_scores(self.books.scorer, model, self.pool.x[left], rows=_ROWS), {}

    @property
    def hidden(self) -> bool:
        """Whether asked sets are not released."""
        return self.books.plan.selection.hidden is not None

    def _left(self) -> NDArray[np.int64]:
        """Who is scored: those who were not asked; where that is hidden, all but the initial ones keep their places."""
        taken = np.zeros(len(self.ids), dtype=bool)
        gone = list(self.cohorts.values())[: 1 if self.hidden else None]
        taken[[index for matching in gone for index in matching]] = True
        return np.flatnonzero(~taken)

    def train(self, number: int) -> dict[str, Any]:
        """Train phase ``number`` and measure the model on the test set."""
        from discreet.trainers.dp_sgd import charge_training

        phase = TrainingPhase.of(self.books.plan, number)
        trainer = self.trainer()
        cohorts = {label: self.padded.get(label) or self._records(label) for label in phase.labels}
        paid = charge_training(self.books.ledger, phase)
        start = None if self.books.plan.schedule == "scout" else self.model
        self.model = trainer.train(phase=phase, cohorts=cohorts, start=start, receipt=paid)
        guesses = self.model.predict_proba(self.pool.test_x).argmax(axis=1)
        return {"phase": number} | accuracy_and_recall(guesses, self.pool.test_y)

    def trainer(self, **further: Any) -> Any:
        """DP-SGD; another kind of campaign has another trainer."""
        from discreet.trainers.dp_sgd import DPSGD

        return DPSGD(classes=self.problem.classes, **self.learning(), **further)

    def learning(self) -> dict[str, Any]:
        """What every trainer of this campaign is made of: the model, and how it is trained."""
        phases = self.books.plan.phases
        steps = phases[-1].steps if self.books.plan.schedule == "scout" else sum(phase.steps for phase in phases)
        model = model_of(self.problem, self.pool.x.shape[1:], self.case.seed)
        return {"model": model, "settings": settings_of(self.problem, steps)}

    def _enter(self, number: int, selection: Selection, paid: list[Receipt]) -> None:
        """Asked records into their cohorts; where how many there are is hidden, into slots."""
        from discreet.trainers.dp_sgd import padded

        for label, ids in into_cohorts(self.books.plan, number, selection).items():
            self.cohorts[label] = self._places(ids)
            if self.hidden:
                slots = dict(TrainingPhase.of(self.books.plan, number).slots)[label]
                self.padded[label] = padded(self._records(label), slots, where=paid[0])

    def _records(self, label: str) -> CohortRecords:
        from discreet.trainers.dp_sgd import CohortRecords

        places = self.cohorts[label]
        return CohortRecords(x=self.pool.x[places], y=self.pool.y[places])

    def _places(self, ids: Any) -> list[int]:
        return sorted(self.place_of[name] for name in ids)

    def _measured(self, names: list[str], scores: NDArray[np.float64], selection: Selection, k: int) -> dict[str, Any]:
        limits = self.books.scorer.range
        quality = selection_quality(
            ids=names, scores=scores, selection=selection, k=k, where=self.books.selection, limits=limits
        )
        chosen = set(selection.ids)
        asked = scores[[index for index, name in enumerate(names) if name in chosen]]
        top = np.sort(scores)[::-1][:k]
        classes = self.pool.y[self._places(selection.ids)]
        return {
            "k": quality.k,
            "asked": quality.asked,
            "left": quality.pool,
            "accuracy": quality.found.accuracy,
            "iou": quality.found.iou,
            "mse": quality.found.mse,
            "share_kept": quality.found.share_kept,
            "gain_kept": quality.found.gain_kept,
            "ceiling": coin_ceiling(scores, quality.k, self.books.selection_claimed),
            "random_accuracy": quality.random.accuracy,
            "random_iou": quality.random.iou,
            "random_mse": quality.random.mse,
            "rare_asked": float((classes % 2 == 1).mean()) if classes.size else 0.0,
            "pool_counts": _counts(scores, limits),
            "top_counts": _counts(top, limits),
            "asked_counts": _counts(asked, limits),
        }


def accuracy_and_recall(guesses: NDArray[np.int64], classes: NDArray[np.int64]) -> dict[str, float]:
    """The share that is right, its mean over classes (balanced accuracy), and the share of the largest class."""
    right = guesses == classes
    shares = [right[classes == number].mean() for number in np.unique(classes)]
    recall = float(np.mean(shares))
    return {"test_accuracy": float(right.mean()), "mean_recall": recall, "majority": largest_class(classes)}


def coin_ceiling(scores: NDArray[np.float64], k: int, epsilon: float) -> float:
    """The largest share of the gain in mean score that coins e^epsilon apart can keep: the best threshold is known, and
    misses cost nothing. 0 where nothing can be gained.
    """
    ordered = np.sort(scores)[::-1]
    summed, size = np.cumsum(ordered), len(ordered)
    above = np.arange(1, size + 1)
    low = k / (above * np.exp(epsilon) + size - above)
    high = low * np.exp(epsilon)
    gained = (high * summed + low * (summed[-1] - summed)) / k - summed[-1] / size
    full_gain = summed[k - 1] / k - summed[-1] / size if 0 < k < size else 0.0
    return float(gained[high <= 1].max(initial=0.0) / full_gain) if full_gain > 0 else 0.0


def _counts(scores: NDArray[np.float64], limits: tuple[float, float]) -> list[int]:
    return [int(count) for count in np.histogram(scores, bins=BINS, range=limits)[0]]
