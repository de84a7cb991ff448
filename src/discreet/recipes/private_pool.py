"""DP-AL: a private pool, people who are trusted with its records, and a model that may be published.

Phase 0 asks initial records drawn by lot (or imports labels whose choosing was declared); every later phase asks by
score, for what its plan pays, and trains all cohorts with their own rates. Guarantee: the plan's claim (zero-out
relation, committed mode); assumptions in docs/proofs/trajectories.md and theirs.

Baselines are the same recipe with other words: ``selector = "random"`` is random active learning; no queries at all is
DP-SGD on a random subset; ``selector = "exact"`` is not private, and taken in simulations alone. Noisy top-k, the
exponential mechanism and k-centre are the DP-AL paper's selections, each at an honest price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet.campaign.recipe import Chosen, Desk, Labels, Trained
from discreet.campaign.replanning import Continuation, Wish
from discreet.campaign.told import labels_of
from discreet.config import CampaignConfig
from discreet.noise import OperatingSystem, SecretKey
from discreet.planning import make_plan, plan_request
from discreet.pools import Pool
from discreet.privacy.ledger import Ledger, Terms, terms_of
from discreet.privacy.plan import Plan
from discreet.privacy.training_phase import TrainingPhase
from discreet.recipes import choosing, learning, measuring, selecting
from discreet.recipes.known_labels import known_labels
from discreet.recipes.rehearsing import check_names
from discreet.recipes.units import Units
from discreet.records import Answer, Question, Value
from discreet.roles import Predictor


def plan_of(config: CampaignConfig) -> Plan:
    """The plan that the campaign's file asks for. Touches no data."""
    table = config.plan
    check_names(config)
    units = config.pool.size if config.budget.unit == "record" else config.pool.persons
    with config.pointing("plan"):
        ask = plan_request(
            epsilon=config.budget.epsilon,
            delta=config.budget.delta,
            unit=config.budget.unit,
            initial=table.initial,
            queries=table.queries,
            batch=table.batch,
            epochs=table.epochs,
            schedule=table.schedule,
            accountant=table.accountant,
            selection=table.selection,
            selection_epsilon=table.selection_epsilon,
            threshold_epsilon=config.selector.threshold_epsilon or 0,
            missed=table.missed,
            shards=table.shards,
            individual_rates=table.individual_rates,
            high_share=table.high_share,
            # k-centre looks at labelled records, too: everybody pays every query
            reads_training_data=table.reads_training_data or config.selector.name == "k-centre",
            whole_batches=table.whole_batches,
            pool_size=units,
            releases=table.releases,
            **({} if config.selector.bins is None else {"bins": config.selector.bins}),
            **selecting.mechanism_of(config),
        )
        ask.budget.warn_if_loose(ask.units)
        return make_plan(ask)


@dataclass(frozen=True, kw_only=True)
class PrivatePool:
    """A `Recipe`. ``inputs``: the public shape of a record. ``shards``: the key that cuts the pool, if it is cut."""

    config: CampaignConfig
    plan: Plan
    inputs: tuple[int, ...]
    shards: SecretKey | None = field(default=None, repr=False)

    @property
    def phases(self) -> int:
        """One without a query, and one a query."""
        return len(self.plan.phases)

    @property
    def classes(self) -> tuple[str, ...]:
        """Declared."""
        return self.config.task.classes

    @property
    def multilabel(self) -> bool:
        """Whether an answer is a set of classes."""
        return self.config.task.kind == "multilabel"

    @property
    def released(self) -> bool:
        """Never: records stay with their owner."""
        return False

    def labels_planned(self, phase: int) -> int:
        """Labels that are asked for in a phase: of persons, as many as they may have records."""
        return self.units_planned(phase) * self.labels_each

    def units_planned(self, phase: int) -> int:
        """Records or persons that are asked in a phase."""
        return round(sum(cohort.size for cohort in self.plan.cohorts if cohort.phase == phase))

    @property
    def labels_each(self) -> int:
        """Labels that a unit has at most."""
        return self.config.budget.records_per_person if self.config.budget.unit == "person" else 1

    def terms(self) -> Terms:
        """Of the plan, and of evaluation where it is paid for."""
        return terms_of(self.plan, held_out=measuring.price_of(self.config))

    def known_labels(self) -> Mapping[str, Value]:
        """Of phase 0, where the campaign's file names some."""
        return known_labels(self.config)

    def labels(self, questions: Sequence[Question], answers: Sequence[Answer], *, key: SecretKey) -> Labels:
        """The majority of a record's own answers: no other record has a say in it."""
        return Labels(values=labels_of(questions, answers, key))

    def check(self, pool: Pool) -> None:
        """What `discreet.recipes.rehearsing` could not try without a plan: the selector of every query."""
        for query in range(1, len(self.plan.phases)):
            selecting.selector_of(self.config, self.plan, query, OperatingSystem())

    def choose(self, desk: Desk) -> Chosen:
        """The initial records by lot, or those whose labels are there; later ones by score."""
        units = self._units(desk.pool)
        if not self.labels_planned(desk.phase):  # re-planned: a last training, for which nobody is asked
            return Chosen(ids=(), cohorts={}, facts={"mechanism": "none", "private": True, "threshold": None})
        if desk.phase == 0 and self.config.initial is not None:
            return choosing.chosen_before(desk, self.config, self.plan, units)
        if desk.phase == 0:
            return choosing.chosen_at_random(desk, self.plan, units)
        return choosing.chosen_by_score(desk, self.config, self.plan, units, self.shards)

    def continued(self, wish: Wish, *, ledger: Ledger, done: int, pool: Pool) -> Continuation:
        """With another plan behind the phases that are done."""
        from discreet.recipes.continuing import continuation

        return continuation(self, wish, ledger=ledger, done=done, units=len(self._units(pool).names))

    def _units(self, pool: Pool) -> Units:
        return Units.of(pool, self.config.budget.unit, self.config.budget.records_per_person)

    def train(self, desk: Desk, labels: Mapping[str, Value]) -> Trained:
        """Charge and train a phase, and measure the model where that was asked for."""
        from discreet.trainers.dp_sgd import charge_training

        phase = TrainingPhase.of(self.plan, desk.phase)
        trainer = learning.trainer_of(self.config, desk, self.inputs)
        cohorts = {
            label: learning.cohort_of(self.config, desk.pool, desk.members.get(label, ()), labels)
            for label in phase.labels
        }
        measured = measuring.held_out(self.config, desk, last=desk.phase == self.phases - 1)
        start: Any = desk.model
        trainer.check(phase=phase, cohorts=learning.in_slots(phase, cohorts, desk.source), start=start)
        paid = charge_training(desk.charges, phase)
        filled = learning.in_slots(phase, cohorts, paid[0])  # places that a redo draws again
        made = trainer.train(phase=phase, cohorts=filled, start=start, receipt=paid)
        evaluation = measuring.evaluated(self.config, made, desk, measured)
        return Trained(content=learning.to_bytes(made.module), evaluation=evaluation)

    def predictor(self, content: bytes) -> Predictor:
        """The model that `train` stored."""
        return learning.predictor_of(
            self.config, learning.from_bytes(content, learning.model_of(self.config, self.inputs))
        )
