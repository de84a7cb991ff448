"""The gallery of asked public records: who is in it, what it says, what has none, and that it loads nothing."""

import base64
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "recipes"))

from small_public import TOML, blobs, truth, write_labels, written

from discreet.cli.app import run
from discreet.config import CampaignConfig
from discreet.errors import BadInput, NotNow
from discreet.recipes.opening import create
from discreet.report.gallery import gallery_html, gallery_of, gallery_png


def pictures(place):
    """The small campaign on pictures of 5 by 5."""
    from discreet.models import build_model
    from discreet.recipes.learning import to_bytes

    x, y = blobs(60, 0)
    rows = np.repeat(x[:, None, None, :], 5, axis=2).reshape(60, 1, 5, 5).astype(np.float32)
    ids = [f"<p{number}>" for number in range(60)]
    np.savez(place / "public.npz", id=np.array(ids), x=rows)
    write_labels(place / "truth.csv", ids, y)
    module = build_model("linear", inputs=(1, 5, 5), classes=2)
    (place / "weights.safetensors").write_bytes(to_bytes(module))
    text = TOML.replace("NAME", "diverse-public").replace("OPTIONS", "each = 2")
    text = text.replace("CHECKPOINT", 'epsilon = "1"\ndelta = "1e-6"').replace("size = 120", "size = 60")
    text = text.replace('name = "mlp"\noptions = { hidden = [8] }', 'name = "linear"')
    text = text[: text.index("[evaluation]")]
    (place / "small.toml").write_text(text)
    return create(CampaignConfig.read(place / "small.toml"))


@pytest.fixture
def campaign(tmp_path):
    made = pictures(tmp_path)
    made.ask()
    made.train()
    made.ask()
    return made


def test_a_gallery_shows_the_most_central_of_each_cluster(campaign, tmp_path):
    shown = gallery_of(campaign)
    facts = next(one.facts for one in campaign.store.transitions() if (one.kind, one.phase) == ("published", 1))
    clusters = facts["clusters"]
    assert len(shown.shown) == len({cluster for cluster, _ in clusters.values()})
    for one in shown.shown:
        rank = clusters[one.id][1]
        assert rank == min(other for cluster, other in clusters.values() if cluster == one.cluster)
    assert {one.verdict for one in shown.shown} == {"open"}
    labels = truth(tmp_path)
    campaign.tell({one.id: labels[one.record] for one in campaign.open()})
    told = gallery_of(campaign)
    assert {one.verdict for one in told.shown} <= {"right", "wrong"}
    assert all(one.label == labels[one.id] for one in told.shown)
    before = campaign.predictor(0)
    rows = campaign.pool.rows(campaign.pool.places([one.id for one in told.shown]))
    said = [("a", "b")[place] for place in before.predict_proba(rows).argmax(axis=1)]
    assert [one.predicted for one in told.shown] == said


def test_the_page_holds_everything_and_escapes_what_it_is_given(campaign):
    page = gallery_html(gallery_of(campaign))
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert "&lt;p" in page
    assert "<p1>" not in page
    assert "img-src data:;" in page
    assert page == gallery_html(gallery_of(campaign))
    picture = re.search(r"data:image/png;base64,([^\"]+)", page)[1]
    assert Image.open(io.BytesIO(base64.b64decode(picture))).size == (5, 5)


def test_the_sheet_has_a_frame_in_the_colour_of_the_verdict(campaign, tmp_path):
    labels = truth(tmp_path)
    campaign.tell({one.id: labels[one.record] for one in campaign.open()})
    found = gallery_of(campaign)
    sheet = Image.open(io.BytesIO(gallery_png(found))).convert("RGB")
    colors = {"right": (11, 110, 99), "wrong": (155, 28, 49)}
    assert sheet.getpixel((9, 9)) == colors[found.shown[0].verdict]


def test_verbs(campaign, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["gallery", "small.toml", "--json"]) == 0
    form = json.loads(capsys.readouterr().out)
    assert (form["format"], form["mechanism"], form["asked"]) == ("discreet.gallery/1", "diverse-public", 10)
    assert "picture" not in form["records"][0]
    for name in ("gallery.html", "sheet.png"):
        assert run(["gallery", "small.toml", "--out", name]) == 0
    assert run(["gallery", "small.toml"]) == 0  # an older page is replaced
    (tmp_path / "mine.html").write_text("mine")
    for words in (["--out", "mine.html"], ["--out", "sheet.png"], ["--out", "x.txt"], ["--phase", "2"]):
        assert run(["gallery", "small.toml", *words]) == 2


def test_what_has_no_gallery(tmp_path):
    from discreet.campaign.campaign import Campaign

    made = create(CampaignConfig.read(written(tmp_path, selector="near-private", simulation=True)))
    with pytest.raises(NotNow):
        gallery_of(made)
    made.ask()
    made.train()
    made.ask()
    near = gallery_of(made)
    assert all(one.support is not None for one in near.shown)
    supports = [one.support for one in near.shown]
    assert supports == sorted(supports, reverse=True)
    with pytest.raises(BadInput, match="no pictures"):
        gallery_png(near)
    assert "cluster" not in gallery_html(near)
    assert isinstance(made, Campaign)
    made._recipe = object()
    with pytest.raises(BadInput, match="private"):
        gallery_of(made)
