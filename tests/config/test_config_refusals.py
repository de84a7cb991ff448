"""What is refused by name, with its replacement; keys that must agree."""

import random
from decimal import Decimal

import pytest

from discreet.config import CampaignConfig, example
from discreet.config.campaign import SCHEMA
from discreet.config.unsupported_keys import KEYS
from discreet.errors import InvalidConfig
from discreet.recipes.training_settings import batch_and_epochs
from discreet.toml_lines import line_index

keys_of = CampaignConfig.SCHEMA.keys_of

NUMBERS = {"schema.age": "columns = ['age', 'dose', 'weight']", "schema.dose": "center = 5", "schema.ward": "scale = 2"}
"""What stands in the place of the example's schema here: columns with numbers, and no features."""


def _of_numbers(line):
    return NUMBERS.get(line.split(" ")[0], "# " + line if line.startswith(("[features]", 'name = "bins"')) else line)


EXAMPLE = "\n".join(map(_of_numbers, example().splitlines()))
INDEX = line_index(EXAMPLE)


def edited(changes):
    """The example with keys, as ``plan.batch``, given other TOML values; None removes a key or a table."""
    lines = EXAMPLE.splitlines()
    more = {}
    for name, value in changes.items():
        table, _, key = name.partition(".")
        path = (table, key) if key else (table,)
        if path in INDEX:
            lines[INDEX[path] - 1] = f"{path[-1]} = {value}" if value is not None else ""
        elif (table,) in INDEX:
            lines[INDEX[table,] - 1] += f"\n{key} = {value}"
        else:
            more.setdefault(table, []).append(f"{key} = {value}")
    for table, keys in more.items():
        lines += [f"[{table}]", *keys]
    return "\n".join(lines)


def refused(changes):
    with pytest.raises(InvalidConfig) as caught:
        CampaignConfig.from_text(edited(changes))
    return caught.value


def accepted(changes):
    return CampaignConfig.from_text(edited(changes))


BY_NAME = [
    ("trainer.class_weight", "'balanced'", "class_weights in [trainer]: one public number a class"),
    ("trainer.class_weights", "'balanced'", "class_weights in [trainer]: one public number a class"),
    ("task.class_weights", "[1, 2, 3]", "class_weights in [trainer]"),
    ("pool.scaler", "'standard'", "Declare center and scale"),
    ("pool.normalize", "true", "Declare center and scale"),
    ("trainer.standardize", "true", "Declare center and scale"),
    ("pool.scale", "'auto'", "Declare center and scale"),
    ("pool.center", "'mean'", "Declare center and scale"),
    ("pool.vocabulary", "'fit'", "public tokenizer"),
    ("model.vocabulary", "'fit'", "public tokenizer"),
    ("pool.size", "'auto'", "Write size = 20000"),
    ("pool.columns", "'all'", "Name them"),
    ("task.kind", "'regression'", "Cut the target into classes"),
    ("task.classes", "'auto'", "Declare them all"),
    ("plan.batch", "'auto'", "batch = 256"),
    ("plan.noise_multiplier", "1.0", "state epsilon and delta"),
    ("plan.pool_size", "100", "size in [pool]"),
    ("plan.threshold_epsilon", "'0.1'", "It belongs in [selector]"),
    ("budget.relation", "'replace-one'", "Remove it"),
    ("trainer.lr", "0.1", "learning_rate in [trainer]"),
    ("trainer.warmup", "0.1", "warmup-cosine"),
    ("trainer.momentum", "0.9", "optimizer_options"),
    ("trainer.early_stopping", "true", "[evaluation]"),
    ("trainer.batch", "12", "It belongs in [plan]"),
    ("plan.epoch", "12", "The nearest is epochs"),
    ("initial.chosen", "'by-content'", "drawn uniformly at random"),
    ("initial.chosen", "'unknown'", "drawn uniformly at random"),
]


@pytest.mark.parametrize(("key", "value", "remedy"), BY_NAME, ids=[f"{key}={value}" for key, value, _ in BY_NAME])
def test_what_cannot_be_private_is_refused_by_name_with_its_replacement(key, value, remedy):
    error = refused({key: value} | ({"initial.path": "'x.csv'"} if key.startswith("initial") else {}))
    table, name = key.split(".")
    assert f"[{table}] {name}" in error.asked
    assert remedy in error.remedy
    assert not error.others


def test_no_refused_key_hides_one_that_is_taken():
    for name in KEYS:
        assert [table for table in SCHEMA if name in keys_of(table)] in (
            [],
            ["trainer"],
            ["checkpoint"],
        ), name
    assert accepted({"trainer.class_weights": "[1.0, 2.0, 3.0]"}).trainer.class_weights == (1.0, 2.0, 3.0)


RANGES = [
    ("budget.epsilon", ["0", "-1.0", "'-1'", "'0x8'", "true", "[8]", "nan", "'1e400'"], ["8", "2.1", "'30e-1'"]),
    ("budget.delta", ["1", "1.5", "-1e-6", "'x'", "0"], ["1e-6", "'1e-12'", "0.5"]),
    ("pool.size", ["0", "-5", "1e4", "'20000'", "true", "10000000000000", "2999"], ["3000", "1_000_000"]),
    ("pool.scale", ["0", "-1", "[1, 2]", "[1, 0, 1]", "true", "inf"], ["2", "0.5", "[1, 2, 3.5]"]),
    ("pool.kind", ["'Parquet'", "'excel'", "3", "'images'"], ["'csv'", "'arrow'"]),
    ("pool.columns", ["[]", "['a', 'a', 'b']", "[1, 2, 3]", "['a', '', 'b']"], ["['x', 'y', 'z']"]),
    ("task.classes", ["[]", "['a']", "['a', 'a']", "['a', 1]", "[' a']", "['a', \"b\\u0007\"]", "{}"], ["['a', 'b']"]),
    ("task.kind", ["'binary'", "''", "1"], ["'multilabel'"]),
    ("plan.initial", ["0", "1.0", "18001"], ["1", "18000"]),
    ("plan.queries", ["[0]", "[500]", "-1", "'500'", "[[1]]"], ["1", "4000"]),
    ("plan.phases", ["-1", "101", "'4'", "2.0", "true"], ["0", "1", "38"]),
    ("plan.schedule", ["'stepamplification'", "1"], ["'naive'", "'continual'"]),
    ("plan.selection_epsilon", ["'8'", "'-1'", "0", "'nan'"], ["'7.9'", "0.5"]),
    ("plan.accountant", ["'gdp'"], ["'rdp'"]),
    ("plan.selection", ["'exact'"], ["'one-sided'", "'shards'"]),
    ("selector.name", ["'random'", "'exact'", "'laplace'", "''"], ["'mine:selector'"]),
    ("selector.threshold_epsilon", ["0", "'-0.1'"], ["'0.1'"]),
    ("scorer.name", ["'random'", "'mine:score'", "5"], ["'margin'"]),
    ("oracle.name", ["'crowd'", "'simulated'", "'callable'", "'label-studio'"], ["'web'"]),
    ("oracle.per_question", ["0", "1001", "1.5"], ["3"]),
    ("model.options", ["[1]", "{ inputs = 3 }", "{ 'a b' = 1 }", "{ x = nan }", "{ d = 07:32:00 }"], ["{ x = [1] }"]),
    ("trainer.ema", ["0", "1", "'0.9'", "0.99999999999999999999"], ["0.5"]),
    ("trainer.clip", ["0", "-1.0", "1e10", "true"], ["5"]),
    ("evaluation.kind", ["'public'", "'paid'", "'private'"], ["'none'"]),
    ("storage.url", ["''", "5", "'postgresql://me:secret@host/db'", "'postgresql://h/d?password=secret'"], ["'x.db'"]),
    ("storage.url", ["'postgresql://[x/db'", "'postgresql://me:secret@host/db '"], ["'postgresql://me@host/db'"]),
]  # fmt: skip


@pytest.mark.parametrize(("key", "wrong", "right"), RANGES)
def test_types_ranges_and_agreement(key, wrong, right):
    for value in right:
        accepted({key: value})
    for value in wrong:
        error = refused({key: value})
        assert "secret" not in str(error)
        assert error.fact
        assert error.remedy


_EVALUATED = {"evaluation.kind": "'public'", "evaluation.path": "'x'", "evaluation.labels": "'y'"}
AGREE = [
    ({"pool.text": "'note'", "pool.center": None, "pool.scale": None}, "pool.columns"),
    ({"pool.columns": None, "pool.center": None, "pool.scale": None, "pool.text": "'note'"}, None),
    ({"pool.columns": None, "pool.center": None, "pool.text": "'note'"}, "pool.text"),
    ({"pool.id": None}, "pool.id"),
    ({"pool.array": "'x'"}, "pool.array"),
    ({"pool.kind": "'npz'", "pool.columns": None, "pool.array": "'x'"}, None),
    ({"pool.kind": "'npy'", "pool.columns": None}, "pool.id"),
    ({"pool.kind": "'npy'", "pool.columns": None, "pool.id": "'position'"}, None),
    ({"pool.kind": "'images'", "pool.columns": None}, "pool.shape"),
    ({"pool.kind": "'images'", "pool.columns": None, "pool.shape": "[28, 28]"}, None),
    ({"task.classes": "['a', 'b']", "task.kind": "'binary'"}, None),
    ({"task.classes": "['a']", "task.kind": "'multilabel'"}, None),
    ({"pool.person": "'who'"}, "pool.person"),
    ({"budget.records_per_person": "2"}, "budget.records_per_person"),
    ({"trainer.person_clip": "'joint'"}, "trainer.person_clip"),
    ({"budget.unit": "'person'", "pool.persons": "3000"}, "pool.person"),
    ({"budget.unit": "'person'", "pool.person": "'who'"}, "pool.persons"),
    ({"budget.unit": "'person'", "pool.person": "'who'", "pool.persons": "2999"}, "plan.queries"),
    ({"budget.unit": "'person'", "pool.person": "'who'", "pool.persons": "20001"}, "pool.persons"),
    ({"budget.unit": "'person'", "pool.person": "'who'", "pool.persons": "3000",
      "budget.records_per_person": "4"}, None),
    ({"budget.labels": "2999"}, "budget.labels"),
    ({"budget.labels": "3000"}, None),
    ({"budget.labels": "2000", "initial.path": "'a.csv'", "initial.chosen": "'uniformly'"}, None),
    ({"budget.labels": "1999", "initial.path": "'a.csv'", "initial.chosen": "'uniformly'"}, "budget.labels"),
    ({"oracle.name": "'label-studio'", "oracle.url": "'https://labels.example.org'"}, None),
    ({"oracle.name": "'label-studio'", "oracle.url": "'http://10.0.0.7:8080'", "oracle.project": "12",
      "oracle.token_file": "'t'", "oracle.plain_http": "true", "oracle.per_annotator": "9"}, None),
    ({"oracle.name": "'label-studio'"}, "oracle.url"),
    ({"oracle.name": "'label-studio'", "oracle.url": "'https://me:secret@labels.example.org'"}, "oracle.url"),
    ({"oracle.name": "'label-studio'", "oracle.url": "'https://['"}, "oracle.url"),
    ({"oracle.name": "'label-studio'", "oracle.url": "'https://a.b'", "oracle.path": "'x'"}, "oracle.path"),
    ({"oracle.url": "'https://labels.example.org'"}, "oracle.url"),
    ({"oracle.project": "12"}, "oracle.project"),
    ({"oracle.token_file": "'t'"}, "oracle.token_file"),
    ({"oracle.plain_http": "true"}, "oracle.plain_http"),
    ({"plan.queries": "[1, 2]"}, "plan.phases"),
    ({"plan.phases": None}, "plan.queries"),
    ({"plan.queries": "[]", "plan.phases": None}, None),
    ({"plan.high_share": "0.5"}, "plan.high_share"),
    ({"plan.high_share": "0.5", "plan.individual_rates": "true"}, None),
    ({"plan.individual_rates": "true", "plan.schedule": "'naive'"}, "plan.individual_rates"),
    ({"plan.individual_rates": "true", "plan.selection": "'paper'", "selector.threshold_epsilon": None},
     "plan.individual_rates"),
    ({"plan.selection": "'paper'"}, "selector.threshold_epsilon"),
    ({"plan.reads_training_data": "true"}, "plan.reads_training_data"),
    ({"plan.whole_batches": "true"}, "plan.whole_batches"),
    ({"plan.whole_batches": "true", "plan.schedule": "'naive'"}, None),
    ({"plan.missed": "['0.1']"}, "plan.missed"),
    ({"plan.missed": "['0.1', 0.1, '1e-1', '0.2']"}, None),
    ({"plan.shards": "['0.5', '0.5', '0.5', '0.5']", "plan.selection": "'shards'"}, "plan.shards"),
    ({"plan.shards": "[0.1, '0.2', 0.3, '0.4']", "plan.selection": "'shards'"}, None),
    ({"plan.shards": "[0.1, '0.2', 0.3, '0.4']"}, "plan.shards"),
    ({"plan.shards": "'odd'"}, "plan.shards"),
    ({"selector.threshold": "0.5"}, "selector.threshold"),
    ({"selector.threshold": "0.5", "selector.threshold_epsilon": None}, None),
    ({"selector.share_above": "0.2", "selector.bins": "32"}, None),
    ({"selector.radius": "1.0"}, "selector.radius"),
    ({"selector.name": "'mine:best'", "selector.radius": "1.0"}, None),
    ({"selector.name": "'k-centre'", "selector.threshold_epsilon": None, "scorer.name": "'random'"}, None),
    ({"selector.name": "'random'", "selector.threshold_epsilon": None, "plan.selection_epsilon": None}, None),
    ({"selector.name": "'random'", "selector.threshold_epsilon": None}, "plan.selection_epsilon"),
    ({"plan.selection_epsilon": None}, "plan.selection_epsilon"),
    ({"selector.name": "'exact'", "selector.threshold_epsilon": None, "plan.selection_epsilon": None}, "selector.name"),
    ({"selector.name": "'exact'", "selector.threshold_epsilon": None, "plan.selection_epsilon": None,
      "simulation.seed": "1"}, None),
    ({"scorer.name": "'mine:score'", "scorer.range": "[0, 1]", "scorer.needs": "'draws'"}, None),
    ({"scorer.name": "'mine:score'", "scorer.range": "[1, 0]"}, "scorer.range"),
    ({"scorer.range": "[0, 1]"}, "scorer.range"),
    ({"oracle.name": "'simulated'", "simulation.seed": "1"}, "oracle.path"),
    ({"oracle.name": "'simulated'", "simulation.seed": "1", "oracle.path": "'y'", "oracle.label_noise": "0.1"}, None),
    ({"oracle.name": "'simulated'", "oracle.path": "'y.csv'"}, "oracle.name"),
    ({"oracle.name": "'simulated'", "simulation.seed": "-1", "oracle.path": "'y.csv'"}, "simulation.seed"),
    ({"oracle.name": "'simulated'", "simulation.seed": "1", "oracle.path": "'y.csv'", "oracle.annotators": "2",
      "oracle.per_question": "3"}, "oracle.per_question"),
    ({"oracle.late": "0.1"}, "oracle.late"),
    ({"oracle.name": "'callable'", "oracle.function": "'mine:answer'"}, None),
    ({"oracle.name": "'callable'", "oracle.function": "'mine.answer'"}, "oracle.function"),
    ({"oracle.function": "'mine:answer'"}, "oracle.function"),
    ({**_EVALUATED, "evaluation.kind": "'paid'", "evaluation.epsilon": "'0.1'"}, None),
    ({**_EVALUATED, "evaluation.kind": "'paid'"}, "evaluation.epsilon"),
    ({**_EVALUATED, "evaluation.kind": "'paid'", "evaluation.epsilon": "'8.1'"}, "evaluation.epsilon"),
    ({**_EVALUATED}, None),
    ({**_EVALUATED, "evaluation.table": "'scores'"}, "evaluation.table"),
    ({**_EVALUATED, "evaluation.edges": "[0.5, 0.1]"}, "evaluation.edges"),
    ({"evaluation.kind": "'public'", "evaluation.path": "'x'"}, "evaluation.labels"),
    ({"evaluation.path": "'x'"}, "evaluation.path"),
    ({"trainer.class_weights": "[1, 2]"}, "trainer.class_weights"),
    ({"trainer.class_weights": "[1, 2, 3]", "trainer.loss": "'mine:loss'"}, "trainer.loss"),
    ({"trainer.views": "4"}, "trainer.views"),
    ({"trainer.views": "4", "trainer.augment": "[{ name = 'flip' }]"}, None),
    ({"trainer.augment": "[{ name = 'flip' }, { name = 'shift' }]"}, "trainer.augment[1]"),
    ({"trainer.augment": "[{ name = 'flip', pixel = 2 }]"}, "trainer.augment[0].pixel"),
    ({"trainer.augment": "[{ name = 'turn' }]"}, "trainer.augment[0].name"),
    ({"trainer.augment": "['flip']"}, "trainer.augment[0]"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "key"), AGREE, ids=[f"{number}: {key}" for number, (_, key) in enumerate(AGREE)])
def test_keys_that_must_agree(changes, key):
    if key is None:
        accepted(changes)
        return
    error = refused(changes)
    table, name = key.split(".", 1)
    assert error.asked.endswith(f"[{table}] {name}"), str(error)
    assert not error.others


def request(config):
    from discreet.planning.request import PlanRequest

    plan = {name: getattr(config.plan, name) for name in keys_of("plan") if name != "phases"}
    plan["batch"], plan["epochs"] = batch_and_epochs(config)
    price = config.selector.threshold_epsilon or 0
    return PlanRequest(budget=config.budget.budget(), threshold_epsilon=price, pool_size=config.pool.size, **plan)


def test_what_is_accepted_here_the_planner_takes_and_what_it_refuses_is_refused():
    """The planner alone knows whether a promise can be kept; whether a request is one, both must say alike."""
    chance = random.Random(7)
    ways = {
        "plan.batch": ["256", "1001"], "plan.phases": ["0", "1", "39"], "plan.schedule": ["'naive'", "'continual'"],
        "plan.selection": ["'shards'", "'paper'", "'one-sided'"], "plan.individual_rates": ["true"],
        "plan.high_share": ["0.4"], "plan.reads_training_data": ["true"], "plan.whole_batches": ["true"],
        "plan.missed": ["[0.1]", "[0.1, 0.1, 0.1, 0.1]"], "plan.shards": ["[0.25, 0.25, 0.25, 0.25]", "[1]"],
        "selector.threshold_epsilon": [None],
    }  # fmt: skip
    seen = {"accepted": 0, "refused": 0}
    for _ in range(300):
        changes = {key: chance.choice(ways[key]) for key in chance.sample(sorted(ways), chance.choice([1, 2, 3, 4]))}
        try:
            config = CampaignConfig.from_text(edited(changes))
        except InvalidConfig:
            seen["refused"] += 1
        else:
            seen["accepted"] += 1
            request(config)
    assert min(seen.values()) > 50


def test_options_of_the_parts_have_a_place():
    """A part that gains an option gains a key, or a reason to have none."""
    from dataclasses import fields

    from discreet.planning.request import PlanRequest
    from discreet.selectors import ThresholdSelector
    from discreet.selectors.k_centre import KCentreSelector
    from discreet.trainers.dp_sgd.settings import Settings

    def options(cls, *without):
        return {field.name for field in fields(cls) if field.init} - set(without)

    elsewhere = ("budget", "pool_size", "threshold_epsilon", "bins")  # of [budget], [pool], [selector]
    elsewhere += ("mechanism", "subsample", "selection_delta")  # of [selector]: its name, its delta
    elsewhere += ("quantiles_epsilon", "quantile_cells")  # of [features]
    assert options(PlanRequest, *elsewhere) == set(keys_of("plan")) - {"phases"}
    assert options(Settings, "records_per_person") == set(keys_of("trainer")) - {
        "class_weights",
        "settings",
    }  # m is in [budget]
    assert options(ThresholdSelector, "asked", "missed", "range", "tells_dropped") <= set(keys_of("selector"))
    assert options(KCentreSelector, "epsilon") <= set(keys_of("selector"))


def test_defaults_of_training_and_planning_are_those_of_the_parts():
    from dataclasses import MISSING, fields

    from discreet.planning.request import PlanRequest
    from discreet.trainers.dp_sgd.settings import Settings

    other = ("loss", "class_weights", "optimizer_options", "settings")
    other += ("batch", "epochs", "learning_rate", "clip")  # left open, they follow from public numbers
    for table, part in (("plan", PlanRequest), ("trainer", Settings)):
        theirs = {field.name: field.default for field in fields(part) if field.init}
        for field in fields(SCHEMA[table]):
            if field.name not in other and field.default is not MISSING:
                assert field.default == theirs[field.name], field.name


def test_the_reference_page_has_the_table_of_the_plan_as_it_is_declared():
    from dataclasses import MISSING, fields
    from pathlib import Path

    from discreet.planning.parameters import PlanTable

    page = (Path(__file__).parents[2] / "docs/reference/campaign-file.md").read_text(encoding="utf-8").splitlines()
    for field in fields(PlanTable):
        shown = f"`{field.default}`" if isinstance(field.default, (str, Decimal)) else "none"
        shown = "" if field.default is MISSING else "false" if field.default is False else shown
        shown = "chosen" if field.name in ("batch", "epochs") else shown
        meaning = field.metadata["meaning"].replace("|", "&#124;")
        rows = [
            row.split(" | ") for row in page if row.startswith(f"| `{field.name}` |") and row.endswith(f" {meaning} |")
        ]
        assert [row[2].strip() for row in rows] == [shown], field.name
