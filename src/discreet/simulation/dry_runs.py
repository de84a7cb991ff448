"""A dry run: the campaign of a file, whole, on public records that are split anew for every seed.

It is the campaign's own code from the first question to the last model; only chance comes from a seed, and answers from
the public labels. Some records are kept apart to measure on. The plan of a point is made once and kept beside the
results: it depends on no record. Everything here is public, and everything is marked as a simulation.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.campaign.loop import run
from discreet.config import CampaignConfig
from discreet.errors import BadInput, DiscreetError
from discreet.features.encoders import encoder_files
from discreet.oracles import SimulatedOracle
from discreet.privacy.budget import LooseDelta
from discreet.privacy.plan_files import read_plan, write_plan
from discreet.recipes.feature_rows import encoder_of, on_features
from discreet.recipes.labelled_records import layout_of
from discreet.recipes.learning import cohort_of, named_object
from discreet.recipes.opening import create
from discreet.recipes.private_pool import plan_of
from discreet.simulation.labelled_data import Labelled, LabelledSource, contents_digest, read_labelled
from discreet.simulation.points import Point, form_of
from discreet.simulation.recommendation import metric_columns
from discreet.trainers.accuracy import METRICS

PLANS = "dry-runs.plans"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many public records play the pool, and how many are measured on; persons, where they are protected."""

    pool: int
    test: int
    records: int
    """Records of those that play the pool, on average: the size that a plan is told."""
    without_label: int
    """Records that are left out."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the runs of one dry run have in common."""

    config: CampaignConfig
    data: LabelledSource
    test: float
    label_noise: float = 0.0
    skip: float = 0.0

    def sizes(self) -> Sizes:
        """Of a split, the same for every seed."""
        labelled = _read(self.config, self.data)
        units = _units(self.config, labelled)
        test = max(1, round(self.test * len(units)))
        table = self.config.pool
        declared = (table.persons if self.config.budget.unit == "person" else table.size) or len(units)
        pool = min(len(units) - test, declared)
        each = sum(map(len, units.values())) / len(units)
        return Sizes(
            pool=pool, test=test, records=round(pool * each), without_label=len(labelled.pool) - len(labelled.labels)
        )

    def digest(self) -> str:
        """Of the public records, how they are read, and the contents of files and modules that the campaign names."""
        form = self.config.to_json()
        declared = {key: value for key, value in form["pool"].items() if key not in ("path", "size", "further")}
        parts = [self.data.digest(), declared, form["oracle"].get("separator"), contents_digest(_named(self.config))]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def pool_table(self, sizes: Sizes) -> dict[str, Any]:
        """What a configuration says of the pool of a dry run."""
        table: dict[str, Any] = {"path": "in Python", "kind": "arrays", "size": sizes.records}
        if self.config.features is not None and self.config.pool.schema is not None:
            table["schema"] = self.config.pool.schema.to_json()  # which features are computed by
        if self.config.budget.unit == "person":
            table |= {"person": "person", "persons": sizes.pool}
        return table


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """A campaign at a point with a seed: a case of the bench."""

    setting: Setting
    point: Point
    form: str
    """The configuration, as JSON."""
    data_digest: str
    plan: Path
    seed: int

    @property
    def digest(self) -> str:
        """Names it by everything that its result depends on."""
        setting = self.setting
        parts = [self.form, self.point.name, self.data_digest, setting.test, setting.label_noise, setting.skip, METRICS]
        return hashlib.sha256(json.dumps([*parts, self.seed], sort_keys=True).encode()).hexdigest()[:16]

    def names(self) -> dict[str, Any]:
        """The point and the seed."""
        point = self.point
        return {
            "problem": point.problem,
            "method": point.name,
            "seed": self.seed,
            "epsilon": str(point.epsilon),
            "labels": point.labels,
            "queries": list(point.queries),
        }

    def plan_name(self) -> str | None:
        """Plans of points are made before."""
        return None

    def make_plan(self, data: Path | None, plans: Path) -> None:
        """It is there."""

    def run(self, data: Path | None, plans: Path | None = None) -> list[dict[str, Any]]:
        """The campaign to its end; a row a phase."""
        from discreet.trainers.evaluation import evaluate_public

        setting = self.setting
        labelled = _read(setting.config, setting.data)
        pool_places, test_places = _split(setting, labelled, self.seed)
        pool, held_out = labelled.part(pool_places), labelled.part(test_places)
        with tempfile.TemporaryDirectory(prefix="discreet-dry-run-") as directory, warnings.catch_warnings():
            warnings.simplefilter("ignore", LooseDelta)
            config = self._config(Path(directory), len(pool))
            campaign = create(config, pool=pool, plan=read_plan(self.plan, certify=False))
            oracle = SimulatedOracle(
                labelled.labels,
                classes=config.task.classes,
                seed=self.seed,
                label_noise=setting.label_noise,
                skip=setting.skip,
                multilabel=config.task.kind == "multilabel",
            )
            run(campaign, oracle)
            recipe: Any = campaign.recipe
            measured = cohort_of(recipe.config, held_out, held_out.ids, labelled.labels)
            rows = []
            for phase in range(campaign.recipe.phases):
                model, layout = on_features(campaign.predictor(phase)), layout_of(config)
                evaluation = evaluate_public(model, measured.x, measured.y, classes=layout.classes, layout=layout)
                rows.append({"phase": phase} | metric_columns(evaluation))
            claimed = float(campaign.certificate()["claim"]["epsilon"])
        facts = {"claimed_epsilon": claimed, "pool_size": len(pool), "test_size": len(held_out)}
        return [row | facts for row in rows]

    def _config(self, directory: Path, size: int) -> CampaignConfig:
        form = json.loads(self.form)
        form["pool"]["size"] = size  # of persons, as many records as these have
        form |= {"storage": {"url": f"sqlite:///{directory / 'dry-run.db'}"}, "simulation": {"seed": self.seed}}
        return CampaignConfig.from_json(form, name=str(self), directory=self.setting.config.source.directory)

    def __str__(self) -> str:
        return f"{self.point.problem}, {self.point.name}, seed {self.seed}"


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A point that cannot be, and why."""

    point: Point
    why: str


def dry_runs(
    setting: Setting, points: Sequence[Point], *, seeds: int, results: Path, step: Callable[[], object]
) -> tuple[list[DryRun], list[Refused]]:
    """The runs of all points that a plan can be made for, seed by seed; ``step`` is called after each plan."""
    sizes = setting.sizes()
    digest = setting.digest()
    runs, refused = [], []
    for point in points:
        try:
            form, plan = _planned(setting, point, sizes, results / PLANS)
            runs += [
                DryRun(
                    setting=setting,
                    point=point,
                    form=json.dumps(form, sort_keys=True),
                    data_digest=digest,
                    plan=plan,
                    seed=seed,
                )
                for seed in range(seeds)
            ]
        except DiscreetError as error:
            refused.append(Refused(point=point, why=error.fact or str(error)))
        step()
    return sorted(runs, key=lambda run: run.seed), refused


def _planned(setting: Setting, point: Point, sizes: Sizes, directory: Path) -> tuple[dict[str, Any], Path]:
    """A point's configuration, and the file of its plan: made once, by its digest."""
    if point.labels > sizes.pool:
        raise BadInput(
            f"{point.labels} labels",
            f"only {sizes.pool} public records play the pool: {point.labels} labels cannot be asked for",
            "Ask fewer, bring more public records, or keep fewer of them apart (--test)",
        )
    form = form_of(setting.config, point, pool=setting.pool_table(sizes))
    complete = form | {"simulation": {"seed": 0}}
    config = CampaignConfig.from_json(complete, name=point.problem, directory=setting.config.source.directory)
    path = directory / f"{point.digest(form)}.json"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LooseDelta)
            write_plan(plan_of(config), path)
    return form, path


def _named(config: CampaignConfig) -> list[Path]:
    """Files that a result depends on beside the data: public weights, an encoder, modules of the user's."""
    model, public = config.model, None if config.features is None else config.features.public
    transformer = None if config.features is None else config.features.transformer
    places = [model.init, model.encoder, public, transformer, *(model.options.get(key) for key in ("path", "weights"))]
    files = [config.resolve(path) for path in places if isinstance(path, str)]
    encoder = encoder_of(config)
    files += [] if encoder is None else encoder_files(encoder).values()
    names = {config.scorer.name, model.name, config.trainer.loss or "", *(part.name for part in config.trainer.augment)}
    for name in sorted(name for name in names if ":" in name and not name.startswith("timm:")):
        file = getattr(sys.modules.get(getattr(named_object(name), "__module__", "")), "__file__", None)
        files += [Path(file)] if file else []
    return [file for file in files if file.exists()]


def _split(setting: Setting, labelled: Labelled, seed: int) -> tuple[list[int], list[int]]:
    """Places of the pool's records, and of those to measure on, by units."""
    sizes, units = setting.sizes(), list(_units(setting.config, labelled).values())
    order = np.random.default_rng([seed, 0xD15C]).permutation(len(units)).tolist()
    test, pool = order[: sizes.test], order[sizes.test : sizes.test + sizes.pool]
    pool_places, test_places = ([row for unit in part for row in units[unit]] for part in (pool, test))
    return sorted(pool_places), sorted(test_places)


def _units(config: CampaignConfig, labelled: Labelled) -> dict[str, list[int]]:
    """Places of labelled records, by record or by person."""
    persons = labelled.pool.persons if config.budget.unit == "person" else None
    units: dict[str, list[int]] = {}
    for row, name in enumerate(labelled.pool.ids):
        if name in labelled.labels:
            units.setdefault(name if persons is None else persons[row], []).append(row)
    return units


_KEPT: dict[LabelledSource, Labelled] = {}


def _read(config: CampaignConfig, data: LabelledSource) -> Labelled:
    """Once in a process."""
    if data not in _KEPT:
        _KEPT.clear()
        _KEPT[data] = read_labelled(config, data)
    return _KEPT[data]
