"""Declarations of parts: registries, options, and parts of other packages, with a faked list of entry points."""

import importlib.metadata
from dataclasses import replace
from types import SimpleNamespace

import pytest

from discreet.checks import number
from discreet.config import CampaignConfig, campaign_from_json, example
from discreet.errors import BadInput, InvalidConfig
from discreet.features import FEATURES
from discreet.noise import Seeded
from discreet.oracles import ORACLES
from discreet.parts import Option, Origin, Part, Registry, third_party_parts
from discreet.scorers import SCORERS
from discreet.selectors import SELECTORS, ExactTopK, LaplaceTopK, ThresholdSelector, selector_for

OPTION = Option(name="share", check=number(0, 1), type="number", default="0.5", meaning="a share")
PART = Part(
    kind="selector",
    name="elsewhere",
    summary="a part of another package",
    build=lambda request: LaplaceTopK(epsilon=request.epsilon, range=request.range, name="elsewhere"),
    options=(OPTION,),
    prices=("paper",),
    mechanism="laplace",
    one_query=True,
)


class Point:
    """An entry point."""

    def __init__(self, name, value, package="other", version="1.2"):
        self.name, self.value = name, value
        self.dist = SimpleNamespace(name=package, version=version)
        self.loads = 0

    def load(self):
        self.loads += 1
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.fixture
def installed(monkeypatch):
    points = []
    monkeypatch.setattr(
        importlib.metadata,
        "entry_points",
        lambda *, group, name: [point for point in points if group == "discreet.parts" and point.name == name],
    )
    return points


def campaign(selector="elsewhere", options="share = 0.25"):
    text = example("private-pool")
    text = text.replace('"threshold-response"', f'"{selector}"').replace("threshold_epsilon", f"{options}  # ")
    return text.replace("\n[selector]", "\nselection = 'paper'\n[selector]", 1)


def in_plan(text):
    """The line of the price goes into [plan]."""
    return text.replace("\nselection = 'paper'\n[selector]", "\n[selector]").replace(
        "\nselection_epsilon", "\nselection = 'paper'\nselection_epsilon", 1
    )


def test_a_name_that_is_not_there_lists_the_alternatives(installed):
    with pytest.raises(BadInput, match="Did you mean laplace"):
        SELECTORS.get("laplce")
    with pytest.raises(BadInput, match="Did you mean laplace"):
        selector_for("laplce", epsilon=1)


@pytest.mark.parametrize(
    "registry", [SELECTORS, SCORERS, ORACLES, FEATURES], ids=["selectors", "scorers", "oracles", "features"]
)
def test_declarations_are_complete(registry):
    for part in registry:
        assert part.kind == registry.kind
        assert part.summary
        assert part.origin is None
        assert set(part.prices) <= {"one-sided", "shards", "paper", "separate-budget", "hidden"}
        assert all(option.meaning and option.type for option in part.options)


def test_options_of_one_name_agree_where_several_parts_have_it():
    for registry in (SELECTORS, SCORERS, ORACLES):
        for name, option in registry.options().items():
            assert {part.option(name) for part in registry if part.option(name)} == {option}


def test_two_parts_of_a_name_are_refused():
    with pytest.raises(AssertionError, match="one name"):
        Registry("selector", (PART, PART))


def test_options_of_a_call_are_checked():
    assert PART.checked({"share": 0.5}) == {"share": 0.5}
    with pytest.raises(BadInput, match="no such option"):
        PART.checked({"shares": 0.5})
    with pytest.raises(BadInput, match="not a number"):
        PART.checked({"share": "much"})


def test_a_part_of_another_package_is_loaded_when_it_is_named(installed):
    mine, other = Point("selector.elsewhere", PART), Point("selector.never", ValueError("loaded"))
    installed += [mine, other]
    assert selector_for("elsewhere", epsilon=1, share=0.25).name == "elsewhere"
    assert (mine.loads, other.loads) == (1, 0)
    assert SELECTORS.get("elsewhere").origin == Origin(distribution="other", version="1.2")
    assert "elsewhere" not in SELECTORS.names()


def test_a_built_in_name_cannot_be_shadowed(installed):
    shadow = Point("selector.random", replace(PART, name="random"))
    installed.append(shadow)
    assert SELECTORS.get("random").origin is None
    assert shadow.loads == 0


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ([PART, PART], "first and second both declare it"),
        ([ImportError("a secret path")], "cannot be loaded: ImportError"),
        (["text"], "no Part"),
        ([replace(PART, kind="scorer")], "no Part of this kind"),
        ([replace(PART, name="otherwise")], "no Part of this kind and name"),
    ],
)
def test_broken_packages_are_named(installed, points, says):
    installed += [
        Point("selector.elsewhere", value, package) for value, package in zip(points, ("first", "second"), strict=False)
    ]
    with pytest.raises(BadInput, match=says) as error:
        SELECTORS.get("elsewhere")
    assert "secret" not in str(error.value)
    with pytest.raises(InvalidConfig, match=says):
        CampaignConfig.from_text(in_plan(campaign()))


def test_a_file_names_a_part_of_another_package(installed):
    installed.append(Point("selector.elsewhere", PART))
    config = CampaignConfig.from_text(in_plan(campaign()))
    assert config.selector.options == {"share": 0.25}
    assert config.selector.declared.prices == ("paper",)
    form = config.to_json()
    assert form["selector"] == {"name": "elsewhere", "share": 0.25, "distribution": "other", "version": "1.2"}
    assert third_party_parts(form) == [
        {
            "kind": "selector",
            "name": "elsewhere",
            "distribution": "other",
            "version": "1.2",
            "note": "its price was declared by a third party",
        }
    ]
    with pytest.raises(InvalidConfig, match=r"shares: there is no such key. The nearest is share"):
        CampaignConfig.from_text(in_plan(campaign(options="shares = 0.25")))
    with pytest.raises(InvalidConfig, match="not a number from 0 to 1"):
        CampaignConfig.from_text(in_plan(campaign(options="share = 7")))


def test_a_stored_campaign_is_read_without_the_package(installed):
    point = Point("selector.elsewhere", PART)
    installed.append(point)
    form, loads = CampaignConfig.from_text(in_plan(campaign())).to_json(), point.loads
    again = campaign_from_json(form, stored=True)
    assert again.to_json() == form
    assert point.loads == loads
    installed.clear()
    assert campaign_from_json(form, stored=True).to_json() == form


def test_a_new_form_is_checked_as_a_file_is(installed):
    point = Point("selector.elsewhere", PART)
    installed.append(point)
    form = CampaignConfig.from_text(in_plan(campaign())).to_json()
    wrong = form | {"plan": form["plan"] | {"selection_epsilon": "0"}}
    with pytest.raises(InvalidConfig, match="nothing pays for elsewhere"):
        CampaignConfig.from_json(wrong)
    with pytest.raises(InvalidConfig, match="not a number from 0 to 1"):
        CampaignConfig.from_json(form | {"selector": form["selector"] | {"share": 7}})
    point.dist.version = "1.3"
    with pytest.raises(InvalidConfig, match=r"version: other 1.3 is installed"):
        CampaignConfig.from_json(form)
    installed.clear()
    with pytest.raises(InvalidConfig, match="no such package is installed"):
        CampaignConfig.from_json(form)


@pytest.mark.parametrize("stored", [False, True])
def test_a_built_in_part_has_no_distribution(stored):
    form = CampaignConfig.from_text(example("private-pool")).to_json()
    named = {"name": "exact", "distribution": "other", "version": "1"}
    for table in ({"name": "exact", "version": "1"}, named):
        with pytest.raises(InvalidConfig, match="version: there is no such key"):
            campaign_from_json(form | {"selector": table}, stored=stored)
    with pytest.raises(InvalidConfig, match="exact selection is not private"):
        campaign_from_json(form | {"selector": {"name": "exact"}}, stored=stored)


def test_a_stored_part_is_resolved_with_its_options_checked_and_in_its_version(installed):
    point = Point("selector.elsewhere", PART)
    installed.append(point)
    form = CampaignConfig.from_text(in_plan(campaign())).to_json()
    selector = campaign_from_json(form, stored=True).selector
    assert selector.is_unloaded
    assert selector.declared.prices == ("paper",)
    assert selector.resolved().resolved() is not selector
    with pytest.raises(BadInput, match="not a number"):
        replace(selector, options={"share": "much"}).resolved()
    point.dist.version = "2.0"
    with pytest.raises(BadInput, match=r"created with other 1.2, and other 2.0 is installed"):
        _ = selector.declared


def test_another_version_than_the_file_names_is_refused(installed):
    installed.append(Point("selector.elsewhere", PART))
    pinned = "share = 0.25\ndistribution = 'other'\nversion = '1.1'\n"
    with pytest.raises(InvalidConfig, match=r"version: other 1.2 is installed"):
        CampaignConfig.from_text(in_plan(campaign(options=pinned)))
    CampaignConfig.from_text(in_plan(campaign(options=pinned.replace("1.1", "1.2"))))


def test_a_file_that_names_a_part_of_nobody_says_so(installed):
    with pytest.raises(InvalidConfig, match="there is no 'elsewhere'. Choose one of laplace"):
        CampaignConfig.from_text(in_plan(campaign(options="")))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"private": False}, "it is not private"),
        ({"prices": ()}, "it is not private"),
        ({}, "its price is nothing"),
    ],
)
def test_one_query_that_reads_scores_unpaid_is_for_simulations(installed, changes, says):
    part = replace(PART, build=lambda request: ExactTopK(range=request.range, source=request.source), **changes)
    installed.append(Point("selector.elsewhere", part))
    with pytest.raises(BadInput, match=says):
        selector_for("elsewhere", epsilon=1)
    assert selector_for("elsewhere", epsilon=1, source=Seeded(1)).price(5, 10) == ()


def test_options_of_one_query_by_threshold_are_used():
    selector = selector_for("threshold-response", epsilon=1, bins=8, share_above=0.2)
    assert isinstance(selector, ThresholdSelector)
    assert (selector.bins, selector.share_above) == (8, 0.2)
    with pytest.raises(BadInput, match="a declared threshold for one query"):
        selector_for("threshold-response", epsilon=1, threshold=0.5)
