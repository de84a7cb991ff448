"""The page as a browser reads it: well formed, closed to the outside, escaped, with words for every picture."""

import base64
import hashlib
import math
import re
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser

import pytest

from discreet.errors import BadInput
from discreet.privacy.budget import Budget
from discreet.privacy.certificate.statement import digest_of
from discreet.records import NoisyHistogram
from discreet.report.campaign_report import (
    Owned,
    OwnedPhase,
    PathMeter,
    PhaseReport,
    QueryReport,
    Report,
    ScoreCounts,
    rounded,
)
from discreet.report.markup import accuracy_figure, draw_meter, noise_within, score_figures, tag
from discreet.report.page import to_html

EVIL = "<script>alert(1)</script>"
QUOTES = "\" onload='x' & <img src=x>"
VOID = {"meta", "br", "hr", "link"}


def certificate():
    form = {
        "format": "discreet.certificate/1",
        "simulation": True,
        "issued": "2026-01-01",
        "ledger": {"id": "0" * 32, "entries": 3, "head": "1" * 64},
        "mode": "committed",
        "accountant": "rdp",
        "plan": "2" * 64,
        "claim": {"epsilon": 7.99991, "delta": 1e-05, "trajectory": EVIL},
    }
    return form | {"digest": digest_of(form), "signature": None}


def phase(number, **changes):
    accuracy = {"value": 0.5, "low": 0.25, "high": 0.75, "baseline": 0.625}
    loss = {"value": 0.6931, "low": 0.5, "high": None, "baseline": 0.6616}
    each = {"recall": accuracy | {"value": None, "baseline": None}, "f1": accuracy}
    measured = {
        "kind": "paid",
        "accuracy": 0.5,
        "interval": [0.25, 0.75],
        "metrics": {"accuracy": accuracy, "log-loss": loss},
        "per_class": [each, each],
        "confusion": [[12, -3], [4, 1]],
        "groups": {EVIL: {"accuracy": accuracy}},
        "epsilon": "0.3",
    }
    query = QueryReport(
        mechanism="threshold-response",
        private=False,
        threshold=0.5,
        histogram=NoisyHistogram(range=(0.0, 1.0), counts=(4, -3, 0, 90), epsilon=Decimal("0.1")) if number else None,
        chosen=QUOTES if number == 2 else None,
        note=EVIL,
    )
    given = {
        "number": number,
        "state": "trained",
        "labels_planned": 10,
        "size": 10,
        "steps": 5,
        "batch": 4,
        "noise": (1.5,),
        "rates": {EVIL: 0.25},
        "query": query,
        "evaluation": measured,
    }
    return PhaseReport(**{**given, **changes})


def report(**changes):
    given = {
        "name": EVIL,
        "audience": "owner",
        "simulation": True,
        "private": False,
        "phase": 2,
        "step": "done",
        "about": {EVIL: QUOTES},
        "classes": (EVIL, QUOTES),
        "budget": Budget(epsilon=8, delta="1e-5"),
        "paths": (PathMeter(name=EVIL, spent=Decimal(2), committed=7.5, limit=Decimal(8)),),
        "phases": tuple(phase(number) for number in range(3)),
        "certificate": certificate(),
        "assumptions": (EVIL,),
        "owned": Owned(
            phases=tuple(
                OwnedPhase(
                    phase=n, asked=1, labelled=1, skipped=0, withdrawn=0, open=0, asked_at=QUOTES, trained_at=None
                )
                for n in range(3)
            ),
            classes={EVIL: 1},
            annotators={QUOTES: 1},
            scores=(ScoreCounts(phase=1, range=(0.0, 1.0), counts=(1, 2), threshold=None),),
        ),
    }
    return Report(**{**given, **changes})


class Reader(HTMLParser):
    """Elements in their order, with a check that each is closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.said = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, name, attributes):
        self.found.append((name, dict(attributes), tuple(self.open)))
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.found.append((name, dict(attributes), tuple(self.open)))

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, text):
        self.said.append((self.open[-1] if self.open else "", text))


@pytest.fixture(scope="module", params=["owner", "public"])
def page(request):
    changes = {} if request.param == "owner" else {"audience": "public", "owned": None}
    return to_html(report(**changes))


def test_what_people_wrote_stays_text(page):
    found = Reader(page)
    assert not {"script", "img", "iframe", "object", "embed", "form", "link", "base"} & {one[0] for one in found.found}
    assert ("h1", EVIL) in found.said
    for _, attributes, _ in found.found:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]


def test_nothing_is_loaded_from_elsewhere(page):
    for name, attributes, _ in Reader(page).found:
        assert not {"src", "srcset", "action", "background", "poster"} & set(attributes)
        if "href" in attributes:
            assert name == "a"
            assert attributes["href"].startswith("data:application/json;base64,")
    assert "@import" not in page
    assert "url(" not in page


def test_the_content_policy_allows_this_style_and_nothing_else(page):
    style = re.search("<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = (
        one[1]["content"] for one in Reader(page).found if one[1].get("http-equiv") == "Content-Security-Policy"
    )
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_every_picture_has_words(page):
    found = Reader(page).found
    pictures = [place for place, one in enumerate(found) if one[0] == "svg"]
    assert len(pictures) >= 6
    for place in pictures:
        assert found[place][1]["role"] == "img"
        assert found[place + 1][0] == "title"
    ids = [one[1]["id"] for one in found if "id" in one[1]]
    assert len(ids) == len(set(ids))
    named = [name for one in found for name in one[1].get("aria-labelledby", "").split()]
    assert set(named) <= set(ids)
    drawn = [one[1] for one in found if "svg" in one[2]]
    numbers = [float(one[name]) for one in drawn for name in ("x", "y", "x1", "y1", "cx", "r") if name in one]
    assert len(numbers) > 50
    assert all(map(math.isfinite, numbers))
    assert all(float(one[name]) >= 0 for one in drawn for name in ("width", "height") if name in one)


def test_the_page_carries_its_certificate(page):
    (link,) = (one[1]["href"] for one in Reader(page).found if one[0] == "a")
    assert EVIL.encode() in base64.b64decode(link.partition(",")[2])
    assert certificate()["digest"] in page


def test_an_owners_facts_are_in_no_report_for_the_world():
    with pytest.raises(BadInput, match="belongs to an owner's report alone"):
        report(audience="public")
    with pytest.raises(BadInput, match="belongs to an owner's report alone"):
        report(owned=None)


def test_a_campaign_that_has_only_begun_has_a_page():
    ahead = [phase(n, state="ahead", query=None, evaluation=None, noise=(), rates={}, steps=None) for n in range(3)]
    text = to_html(report(audience="public", owned=None, phases=tuple(ahead), step="ask", phase=0))
    Reader(text)
    assert "No query was chosen by scores yet." in text
    assert "Nothing was measured" in text


def test_many_phases_and_cohorts_fit_on_a_page():
    rates = {f"phase-{number}": 0.01 * number for number in range(40)}
    many = to_html(report(phases=tuple(phase(n, rates=rates) for n in range(40)), owned=None, audience="public"))
    Reader(many)
    assert "and 36 more" in many
    assert many.count('class="value middle"') == 2  # the first and the last


def test_figures_show_what_the_report_holds():
    made = report()
    assert "epsilon 2 spent of 8, 7.5 committed" in draw_meter(made.paths[0])
    assert [(one.low, one.high) for one in accuracy_figure(made).points] == [(0.25, 0.75)] * 3
    assert accuracy_figure(made).majority == 0.625
    assert [(one.phase, one.noisy) for one in score_figures(made)] == [(1, True), (1, False), (2, True)]
    assert [one.noisy for one in score_figures(report(audience="public", owned=None))] == [True, True]


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.5, 2.0, 9.0])
def test_the_band_of_noise_is_the_least_that_holds(epsilon):
    """Against the sum of its probabilities."""
    share = math.exp(-epsilon)

    def outside(t):
        return sum(2 * (1 - share) / (1 + share) * share**k for k in range(int(t) + 1, int(t) + 2000))

    found = noise_within(epsilon)
    assert outside(found) <= 0.05 + 1e-9
    assert found == 0 or outside(found - 1) > 0.05


def test_numbers_are_rounded_on_the_safe_side():
    assert (rounded(7.9991, up=True), rounded(Decimal("0.9999"), up=False)) == ("8.000", "0.999")
    assert tag("p", EVIL, title=QUOTES) == (
        '<p title="&quot; onload=&#x27;x&#x27; &amp; &lt;img src=x&gt;">&lt;script&gt;alert(1)&lt;/script&gt;</p>'
    )


def test_a_re_planning_is_told_with_its_reason():
    form = {"phase": 1, "because": "outside", "note": "the board"}
    sides = {"before": {"epsilon": 8, "delta": 1e-5}, "after": {"epsilon": 10, "delta": 1e-5}}
    shown = replace(report(), replanned=({**form, **sides},))
    text = to_html(shown)
    assert "until it was re-planned" in text
    assert "because: outside (the board); epsilon 10 at delta 1e-05, was epsilon 8 at delta 1e-05" in text
    assert shown.to_json()["replanned"][0]["phase"] == 1
    assert "re-planned" not in to_html(report())
