"""Crowd: what many people asked may be shown to strangers, who label it; a classifier learns from them.

    gate (charged once) -> rank what was released -> several answers a text -> train, least confident first -> again

Guarantee (docs/proofs/release-gate.md): the log is read once, by the gate, after its price is in the ledger; the claim
is that of the `ReleaseGate` event, zero-out, committed. All that follows reads released texts, answers about them and
public gold labels: post-processing, whoever answers and however often. So labels of many texts may decide one another's
(Dawid-Skene), and the classifier adds no noise.

Assumptions: gold and evaluation texts are public, as declared; strangers who answer know the log no better than anybody
who sees the released texts; a closed batch is released once (a later log is another campaign, and another charge).

Algorithm 1 of Feyisetan et al. (2019); phase 0 bootstraps the model, later phases ask and retrain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np

from discreet.campaign.recipe import Chosen, Desk, Labels, Trained
from discreet.campaign.replanning import Continuation, Wish
from discreet.config import CrowdConfig
from discreet.errors import BudgetExceeded, NotNow
from discreet.gates import CrowdGate
from discreet.gates.calibrate import nearest
from discreet.gates.profile import Profile
from discreet.noise import SecretKey, random_places
from discreet.oracles.dawid_skene import dawid_skene, trust_in
from discreet.pools import Pool
from discreet.privacy.ledger import Ledger, Line, Terms, committed
from discreet.recipes.labelled_texts import LabelledTexts, labelled_texts
from discreet.records import Answer, Question, Value
from discreet.scorers import build_scorer, pool_scores
from discreet.trainers.accuracy import Evaluation, evaluation_of
from discreet.trainers.text_classifier import TextClassifier, TextSettings, public_cells, train_texts

LOG, COHORT, MECHANISM = "log", "asked", "uncertainty"
_CERTAIN = 1e12
"""Answers that a vote believes everybody gave beforehand: then nobody's own answers change how far they count."""


def gate_of(config: CrowdConfig) -> CrowdGate:
    """The gate that the file declares."""
    table = config.gate
    with config.pointing("gate"):
        return CrowdGate(
            k=table.k,
            beta=table.beta,
            values=table.values,
            normalisation=table.normalisation,
            persons=config.log.person is not None,
        )


def terms_of_gate(config: CrowdConfig) -> Terms:
    """One charge, committed beforehand; refused, with what would do, where it does not keep the promise."""
    gate, budget = gate_of(config), config.budget.budget()
    terms = committed(budget, [Line(who=LOG, phase=0, event=gate.price())])
    try:
        terms.check_claim()
    except BudgetExceeded:
        profile = Profile(k=gate.k, beta=gate.beta, values=gate.values)
        would = nearest(profile, float(budget.epsilon), float(budget.delta))
        remedy = "; or ".join(f"{name} = {value}" for name, value in would.items())
        raise config.error(
            "gate",
            f"k = {gate.k} and beta = {gate.beta:g} do not keep epsilon {budget.epsilon} at delta {budget.delta}",
            f"One of these alone would do: {remedy}",
        ) from None
    if config.log.units is not None:
        budget.warn_if_loose(config.log.units)
    return terms


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """A `Recipe`."""

    config: CrowdConfig

    @property
    def phases(self) -> int:
        """One with gold labels alone, and one a query."""
        return 1 + len(self.config.plan.queries)

    @property
    def classes(self) -> tuple[str, ...]:
        """Declared."""
        return self.config.task.classes

    @property
    def multilabel(self) -> bool:
        """Never: a crowd's answers are made one label."""
        return False

    @property
    def released(self) -> bool:
        """What a gate let out."""
        return True

    def labels_planned(self, phase: int) -> int:
        """Texts that are asked about in a phase, if so many are left."""
        return self.config.plan.queries[phase - 1] if phase else 0

    def terms(self) -> Terms:
        """One charge for the gate."""
        return terms_of_gate(self.config)

    def check(self, pool: Pool) -> None:
        """What could be refused was refused before the gate was charged (`discreet.recipes.crowd_opening`)."""

    def known_labels(self) -> Mapping[str, Value]:
        """None: gold labels are of texts that are not in the pool."""
        return {}

    def labels(self, questions: Sequence[Question], answers: Sequence[Answer], *, key: SecretKey) -> Labels:
        """One label a text and how far it is trusted, from all answers together: free, for the texts were released."""
        table, record = self.config.answers, {one.id: one.record for one in questions}
        said = [one for one in answers if one.value is not None and one.question_id in record]
        if not said:
            return Labels(values={})
        found = dawid_skene(
            said,
            classes=self.classes,
            records_released=True,
            believed=_CERTAIN if table.aggregation == "majority" else table.believed,
            accuracy=table.accuracy,
            even=True,
        )
        trust = trust_in(found.posterior)
        return Labels(
            values={record[name]: label for name, label in found.labels(key=key).items()},
            trust={record[name]: float(part) for name, part in zip(found.questions, trust, strict=True)},
        )

    def choose(self, desk: Desk) -> Chosen:
        """The released texts that the model is least sure of, shown in random order."""
        facts = {"mechanism": "bootstrap" if desk.phase == 0 else MECHANISM, "private": True, "threshold": None}
        if desk.phase == 0:
            return Chosen(ids=(), cohorts={}, facts=facts)
        asked = desk.asked
        left = [name for name in desk.pool.ids if name not in asked]
        order = self._drawn(desk, len(left))  # ties fall at random
        names = [left[place] for place in order]
        scores = self._scores(desk, names)
        most = np.argsort(-scores, kind="stable")[: self.labels_planned(desk.phase)].tolist()
        ids = tuple(names[most[place]] for place in self._drawn(desk, len(most)))
        return Chosen(ids=ids, cohorts=dict.fromkeys(ids, COHORT), facts=facts)

    def _drawn(self, desk: Desk, count: int) -> list[int]:
        if not count:
            return []
        found: list[int] = random_places(count, count, where=desk.source, kind=MECHANISM).tolist()
        return found

    def _scores(self, desk: Desk, names: list[str]) -> Any:
        table = self.config.scorer
        with self.config.pointing("scorer"):
            scorer = build_scorer(table.name, classes=len(self.classes), draws=table.draws)
        texts = _texts(desk.pool, names)
        if not texts:
            return np.zeros(0)
        return pool_scores(scorer, desk.model, texts, progress=lambda done, whole: desk.watch("scoring", done, whole))

    def train(self, desk: Desk, labels: Mapping[str, Value]) -> Trained:
        """On gold labels and the crowd's, least confident first."""
        gold = labelled_texts(self.config, self.config.gold.path, "gold.path")
        asked = [name for name in desk.pool.ids if isinstance(labels.get(name), str)]
        texts = [*gold.texts, *_texts(desk.pool, asked)]
        told = [*gold.labels, *(str(labels[name]) for name in asked)]
        weights = [*(1.0 for _ in gold.texts), *(desk.trust.get(name, 1.0) for name in asked)]
        desk.watch("training", 0, 1)
        model = train_texts(
            texts, told, classes=self.classes, settings=self.settings(), start=_text_model(desk.model), weights=weights
        )
        desk.watch("training", 1, 1)
        return Trained(content=model.to_bytes(), evaluation=self._evaluated(model))

    def settings(self) -> TextSettings:
        """Of the classifier."""
        table = self.config.model
        with self.config.pointing("model"):
            return TextSettings(
                features=table.features,
                epochs=table.epochs,
                regularization=table.regularization,
                dropout=table.dropout,
                order=table.order,
                seed=table.seed,
            )

    def _evaluated(self, model: TextClassifier) -> Evaluation | None:
        held_out = evaluation_texts(self.config)
        if held_out is None:
            return None
        cells = public_cells(model, held_out.texts, held_out.labels, self.classes)
        return evaluation_of("public", cells, noise=0.0, each=1, epsilon=Decimal(0), simulation=False)

    def continued(self, wish: Wish, *, ledger: Ledger, done: int, pool: Pool) -> Continuation:
        """There is nothing to re-plan: the gate is the whole price, and it is paid."""
        _refuse(
            "re-planning",
            "its whole price was paid at the gate, and further questions are free",
            "Make a campaign of another name with more queries",
        )

    def predictor(self, content: bytes) -> TextClassifier:
        """The model that `train` stored."""
        return TextClassifier.from_bytes(content)


def evaluation_texts(config: CrowdConfig) -> LabelledTexts | None:
    """Public labelled texts to measure on, if there are some; none of them a gold one."""
    if config.evaluation.path is None:
        return None
    found = labelled_texts(config, config.evaluation.path, "evaluation.path")
    shared = len(set(found.texts) & set(labelled_texts(config, config.gold.path, "gold.path").texts))
    if shared:
        raise config.error("evaluation.path", f"{shared} of its texts are gold ones, too", "Keep them apart")
    return found


def _text_model(model: Any) -> TextClassifier | None:
    return model if isinstance(model, TextClassifier) else None


def _texts(pool: Pool, names: Sequence[str]) -> list[str]:
    return [str(text) for text in pool.rows(pool.places(names))] if names else []


def _refuse(what: str, fact: str, remedy: str) -> NoReturn:
    raise NotNow(f"{what} a crowd campaign", fact, remedy)
