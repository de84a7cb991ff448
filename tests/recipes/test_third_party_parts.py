"""Campaigns with parts of another package, with a faked list of entry points: what is charged, checked and loaded."""

import importlib.metadata
from dataclasses import replace
from types import SimpleNamespace

import crowd_parts
import numpy as np
import pytest
from small_campaigns import BUDGET, again, finish, ids_of, pool_and_truth, tables

from discreet.api import create_campaign
from discreet.checks import exact, number, text
from discreet.cli.app import run
from discreet.config import campaign_from_json, read_campaign
from discreet.errors import BadInput, DiscreetError, InvalidConfig
from discreet.parts import Option, Part
from discreet.privacy.certificate import write_certificate
from discreet.recipes.opening import create
from discreet.records import Answer, Selection
from discreet.scorers import SCORERS
from discreet.selectors import LaplaceTopK


class Unpaid(LaplaceTopK):
    """Shows the highest scores at no price."""

    def price(self, k, pool_size):
        return ()

    def select(self, *, ids, scores, k, receipt=(), phase=0):
        best = np.argsort(-np.asarray(scores))[:k]
        return Selection(ids=tuple(ids[place] for place in best), mechanism=self.name)


class Later(Unpaid):
    """Has the right price until it is asked for the second time."""

    prices = 0

    def price(self, k, pool_size):
        Later.prices += 1
        return LaplaceTopK.price(self, k, pool_size) if Later.prices <= 2 else ()


def returning(chosen):
    """A selector that pays, and returns what ``chosen`` makes of the ids and k."""

    class Returning(LaplaceTopK):
        def select(self, *, ids, scores, k, receipt, phase=0):
            return Selection(ids=tuple(chosen(list(ids), k)), mechanism=self.name, simulation=True)

    return Returning


def part(selector=LaplaceTopK, times=1, **changes):
    def build(request):
        return selector(epsilon=request.epsilon * times, range=request.range, name="elsewhere")

    options = (Option(name="share", check=exact(zero=False, such_as="'0.1'"), type="decimal", meaning="a share"),)
    fields = {"kind": "selector", "name": "elsewhere", "summary": "a part of another package", "build": build}
    return Part(**fields | {"options": options, "prices": ("paper",), "mechanism": "laplace"} | changes)


@pytest.fixture
def point(monkeypatch):
    """The only entry point; ``value`` is what it loads, ``loads`` how often."""
    only = SimpleNamespace(dist=SimpleNamespace(name="other", version="1.2"), value=part(), loads=0)

    def load():
        only.loads += 1
        if isinstance(only.value, Exception):
            raise only.value
        return only.value

    only.load = load

    def entry_points(*, group, name=None):
        return [only] if group == "discreet.parts" and name == f"{only.value.kind}.{only.value.name}" else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    return only


PAID = {"scorer": "entropy", "selector": "elsewhere", "selection_epsilon": "2", "plan": {"selection": "paper"}}


def campaign(tmp_path, *, simulated=False, further=None, **changes):
    """A campaign, private unless it is ``simulated``, and the true labels. ``further``: keys of tables."""
    pool, truth = pool_and_truth()
    recipe = tables(**{**PAID, **changes})
    if not simulated:
        del recipe["simulation"]
    recipe |= {table: recipe[table] | keys for table, keys in (further or {}).items()}
    return create_campaign("small", storage=tmp_path / "c.db", pool=pool, budget=BUDGET, recipe=recipe), truth


def test_what_reads_scores_unpaid_is_for_simulations_alone(tmp_path, point):
    point.value = part(Unpaid, prices=(), mechanism="")
    free = {"selection_epsilon": "0", "plan": {}}
    with pytest.raises(BadInput, match="elsewhere selection is not private"):
        campaign(tmp_path, **free)
    begun, truth = campaign(tmp_path, **free, simulated=True)
    finish(begun, truth)


@pytest.mark.parametrize("wrong", [part(Unpaid), part(times=2)], ids=["nothing", "twice"])
def test_another_price_than_the_plan_has_is_refused_when_the_campaign_is_created(tmp_path, point, wrong):
    point.value = wrong
    with pytest.raises(BadInput, match="price of elsewhere is not what the plan pays for query 1"):
        campaign(tmp_path)


def test_another_price_later_is_refused_before_anything_is_charged(tmp_path, point):
    Later.prices, point.value = 0, part(Later)
    begun, truth = campaign(tmp_path)
    begun.tell({question.id: truth[question.record] for question in begun.ask()})
    begun.train()
    lines = begun.store.sink().read()
    with pytest.raises(BadInput, match="price of elsewhere is not what the plan pays"):
        begun.ask()
    assert begun.store.sink().read() == lines


@pytest.mark.parametrize(
    "chosen",
    [lambda ids, k: ids, lambda ids, k: [ids[0]] * 2, lambda ids, k: ["nobody"]],
    ids=["too many", "twice", "not of the pool"],
)
def test_other_records_than_were_given_are_not_published(tmp_path, point, chosen):
    point.value = part(returning(chosen))
    begun, truth = campaign(tmp_path)
    begun.tell({question.id: truth[question.record] for question in begun.ask()})
    begun.train()
    with pytest.raises(DiscreetError, match="not of distinct records of the pool") as error:
        begun.ask()
    assert not any(name in str(error.value) for name in ids_of())
    assert len(begun.store.questions()) == 60


def test_a_campaign_goes_on_from_its_store_in_the_same_version_alone(tmp_path, point):
    begun, truth = campaign(tmp_path)
    begun.tell({question.id: truth[question.record] for question in begun.ask()})
    begun.train()
    pool, _ = pool_and_truth()
    point.dist.version = "2.0"
    with pytest.raises(BadInput, match=r"created with other 1.2, and other 2.0 is installed"):
        again(tmp_path, pool).ask()
    point.dist.version = "1.2"
    assert len(again(tmp_path, pool).ask()) == 30


def test_a_campaign_is_not_created_from_a_form_that_was_read_without_its_parts(tmp_path, point):
    begun, _ = campaign(tmp_path)
    form = dict(begun.store.config["config"]) | {"name": "another"}
    with pytest.raises(BadInput, match="read without its part"):
        create(campaign_from_json(form, stored=True), pool=pool_and_truth()[0])


def test_a_score_is_built_with_every_option_that_it_declares(tmp_path, point):
    built = []

    def build(*, temperature, **options):
        built.append(temperature)
        return SCORERS.get("entropy").build(**options)

    option = Option(name="temperature", check=number(0, 10), type="number", meaning="a temperature")
    point.value = Part(kind="scorer", name="elsewhere", summary="a score", build=build, options=(option,))
    campaign(tmp_path, scorer="elsewhere", selector="laplace", further={"scorer": {"temperature": 2.0}})
    assert set(built) == {2.0}


FILE = """format = "discreet.campaign/1"
name = "small"
[pool]
path = "pool.npz"
kind = "npz"
id = "id"
array = "x"
size = 40
[task]
kind = "binary"
classes = ["a", "b"]
[budget]
epsilon = 8
delta = "1e-4"
[recipe]
name = "private-pool"
[plan]
initial = 8
queries = [4]
batch = 4
epochs = 2
selection_epsilon = "2"
selection = "paper"
accountant = "rdp"
[scorer]
name = "entropy"
[selector]
name = "elsewhere"
share = "1e-1"
[oracle]
name = "files"
[model]
name = "linear"
[trainer]
engine = "reference"
"""


def test_a_campaign_is_looked_at_without_loading_its_parts(tmp_path, point, capsys):
    rows = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
    np.savez(tmp_path / "pool.npz", id=np.array([f"r{number}" for number in range(40)]), x=rows)
    file = tmp_path / "small.toml"
    file.write_text(FILE)
    begun = create(read_campaign(file))
    begun.tell({question.id: "a" for question in begun.ask()})
    begun.train()
    certificate = tmp_path / "certificate.json"
    write_certificate(begun.certificate(), certificate)
    value, point.value = point.value, RuntimeError("loaded")
    point.value.kind, point.value.name = value.kind, value.name
    point.loads = 0
    commands = [["verify", str(file)], ["verify", str(certificate), "--ledger", str(file)]]
    commands += [["status", str(file)], ["ledger", "show", str(file)]]
    for command in commands:
        assert run(command) == 0, command
    assert point.loads == 0
    capsys.readouterr()
    file.write_text(FILE.replace('"1e-1"', '"0.2"'))
    assert run(["verify", str(file)]) == 1
    assert "something else in selector.share" in capsys.readouterr().out


class Panel:
    """Answers every question at once. ``answer``: its option."""

    asked = 0

    def __init__(self, *, classes, multilabel, answer):
        assert (answer in classes, multilabel) == (True, False)
        self.answer, self.ready = answer, []

    def ask(self, questions):
        Panel.asked += len(questions)
        self.ready += [Answer(question_id=question.id, value=self.answer, annotator="panel") for question in questions]

    def collect(self):
        ready, self.ready = self.ready, []
        return ready


def test_a_file_names_an_oracle_of_another_package(tmp_path, point, capsys):
    np.savez(tmp_path / "pool.npz", id=np.array([f"r{n}" for n in range(40)]), x=np.zeros((40, 3), dtype=np.float32))
    file, chosen = tmp_path / "small.toml", '[selector]\nname = "elsewhere"\nshare = "1e-1"\n[oracle]\nname = "files"\n'
    free = FILE.replace('selection_epsilon = "2"\nselection = "paper"\n', "")
    free = free.replace('[scorer]\nname = "entropy"\n', "")
    file.write_text(free.replace(chosen, '[oracle]\nname = "panel"\nanswer = "a"\n'))
    assert run(["init", str(file)]) == 2
    assert "there is no 'panel'" in capsys.readouterr().err
    options = (Option(name="answer", check=text(what="a class"), type="text", meaning="what it always says"),)
    point.value = Part(kind="oracle", name="panel", summary="one answer", build=Panel, options=options)
    point.value = replace(point.value, required={"answer": ("a panel says one thing", "Name a class")})
    file.write_text(file.read_text().replace('answer = "a"\n', ""))
    assert run(["init", str(file)]) == 2
    assert "[oracle] answer: a panel says one thing. Name a class" in capsys.readouterr().err
    file.write_text(file.read_text().replace('"panel"\n', '"panel"\nanswer = "a"\n'))
    point.value = replace(point.value, private=False)
    assert run(["init", str(file)]) == 2
    assert "[oracle] name: panel people answer in simulations only" in capsys.readouterr().err
    point.value = replace(point.value, private=True)
    for verb in ("init", "run"):
        assert run([verb, str(file)]) == 0, capsys.readouterr()
    assert Panel.asked == 12, "8 at first, 4 by the query"


def test_a_crowd_campaign_ranks_texts_by_a_score_of_another_package(tmp_path, point):
    file = crowd_parts.make(tmp_path, scorer={"name": "'elsewhere'", "temperature": 2.0})
    with pytest.raises(InvalidConfig, match="there is no 'elsewhere'. Choose one of entropy"):
        read_campaign(file)
    built = []

    def build(*, temperature, **options):
        built.append(temperature)
        return SCORERS.get("margin").build(**options)

    option = Option(name="temperature", check=number(0, 10), type="number", meaning="a temperature")
    score = Part(kind="scorer", name="elsewhere", summary="a score", build=build, options=(option,))
    point.value = score
    with pytest.raises(InvalidConfig, match="there is no 'elsewhere'"):  # it is for private pools
        read_campaign(file)
    point.value = replace(score, recipes=("crowd",))
    begun = create(read_campaign(file))
    assert not begun.ask()
    begun.train()
    assert len(begun.ask()) == 12
    assert set(built) == {2.0}


def test_only_the_recipe_is_refused_where_it_does_not_exist(tmp_path):
    file = crowd_parts.make(tmp_path)
    file.write_text(
        file.read_text().replace('name = "crowd"', 'name = "crowds"').replace("name = 'crowd'", 'name = "crowds"')
    )
    with pytest.raises(InvalidConfig, match=r"there is no 'crowds'. Did you mean crowd\?") as refused:
        read_campaign(file)
    assert not refused.value.others
