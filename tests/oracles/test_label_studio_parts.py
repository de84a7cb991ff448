"""Tokens, configs, renderings and annotations of Label Studio, without a server."""

import base64
import io
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import BadInput
from discreet.oracles.label_studio import (
    VARIABLE,
    Token,
    kind_of,
    labeling_config,
    mark_of,
    misfit,
    one_voice_each,
    read_tasks,
    read_token,
    rendered,
)
from discreet.oracles.label_studio.server import Annotation, Task
from discreet.pools import ArrayPool, open_pool
from discreet.records import Answer

LEGACY = "0123456789abcdef0123456789abcdef01234567"
MOMENT = datetime(2026, 5, 1, tzinfo=UTC)


# -- tokens


def test_a_token_is_in_no_repr_and_is_known_by_its_form():
    assert not Token(value=LEGACY).personal
    personal = Token(value="eyJh.eyJ0.c2ln")
    assert personal.personal
    assert "eyJ" not in repr(personal)


@pytest.mark.parametrize(
    "value", ["", "short", "a b c d e f g h", "eyJh.eyJ0", "x" * 300, "a\r\nX-Injected: 1", "é" * 20]
)
def test_what_is_no_token_is_refused_and_not_repeated(value):
    with pytest.raises(BadInput) as problem:
        Token(value=value)
    assert not value or value not in str(problem.value)


def test_tokens_are_read_from_the_environment_or_a_file_of_ones_own(tmp_path):
    assert read_token(environment={VARIABLE: f" {LEGACY}\n"}).value == LEGACY
    with pytest.raises(BadInput, match="there is none"):
        read_token(environment={})
    file = tmp_path / "token"
    with pytest.raises(BadInput, match="cannot be read"):
        read_token(file)
    file.write_text(f"{LEGACY}\n")
    for mode in (0o644, 0o640, 0o604, 0o620):
        file.chmod(mode)
        with pytest.raises(BadInput, match="others than its owner"):
            read_token(file)
    file.chmod(0o600)
    assert read_token(file, environment={}).value == LEGACY
    for content in (b"", b"\xff\xfe", b"x" * 20_000):
        file.write_bytes(content)
        with pytest.raises(BadInput, match="no token"):
            read_token(file)


# -- configs

NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff$"), min_size=1, max_size=12
).filter(lambda name: "{{" not in name)


@given(st.lists(NAMES, min_size=2, max_size=5, unique=True), st.sampled_from(["image", "text", "table"]), st.booleans())
def test_a_config_says_its_classes_whatever_their_names(classes, kind, multilabel):
    made = labeling_config(kind, classes, multilabel=multilabel)
    found = [tag.get("value") for tag in ElementTree.fromstring(made).iter("Choice")]
    assert found == classes
    assert misfit(made, kind, classes, multilabel=multilabel) == ""
    assert misfit(made, kind, [*classes, "one more than there are"], multilabel=multilabel)
    assert misfit(made, kind, classes, multilabel=not multilabel)


@pytest.mark.parametrize("name", ["$image", "a $word", "{{x}}", "a\x00b", "\x1b[0m", "\ufffe"])
def test_names_that_label_studio_would_misread_are_refused_by_number(name):
    with pytest.raises(BadInput, match="class number 2"):
        labeling_config("text", ["fine", name], multilabel=False)
    assert labeling_config("text", ["5 $", "$"], multilabel=False)


def test_classes_that_are_a_key_are_chosen_by_it():
    assert '<Choice value="7" hotkey="7"/>' in labeling_config("image", [str(n) for n in range(10)], multilabel=False)
    assert "hotkey" not in labeling_config("image", ["0", "10"], multilabel=False)


FINE = labeling_config("text", ["a", "b"], multilabel=False).replace(' hotkey="a"', "").replace(' hotkey="b"', "")


@pytest.mark.parametrize(
    ("config", "fact"),
    [
        ("", "cannot be read"),
        ("<View>", "cannot be read"),
        ('<!DOCTYPE x [<!ENTITY a "b">]>' + FINE, "not a plain config"),
        (FINE.replace("$text", "$other"), "shows"),
        (FINE.replace('name="record"', 'name="thing"'), "shows"),
        (FINE.replace('toName="record"', 'toName="other"'), "no choices"),
        (FINE.replace('name="label"', 'name="other"'), "no choices"),
        (FINE.replace("<Choices ", '<Choices perRegion="true" '), "parts of a record"),
        (FINE.replace("<Choices ", '<Choices value="$options" '), "come with the tasks"),
        (FINE.replace('value="b"', 'value="c"'), "classes"),
        (FINE.replace('value="b"', 'value="b" alias="c"'), "classes"),
        (FINE.replace('<Choice value="b"/>', ""), "classes"),
        (FINE.replace('<Choice value="b"/>', '<Choice value="b"/><Choice value="b"/>'), "classes"),
    ],
)
def test_changes_that_answers_could_not_be_read_under(config, fact):
    assert fact in misfit(config, "text", ["a", "b"], multilabel=False)


def test_changes_that_do_no_harm():
    more = FINE.replace("<View>", '<View><!-- ours --><Header value="Look"/><TextArea name="why" toName="record"/>')
    assert misfit(more, "text", ["b", "a"], multilabel=False) == ""
    assert misfit(FINE.replace('"single"', '"single-radio"'), "text", ["a", "b"], multilabel=False) == ""


def test_a_mark_hides_the_campaigns_id():
    assert mark_of("abc") == mark_of("abc") != mark_of("abd")
    assert "abc" not in mark_of("abc").replace("discreet:", "")


# -- renderings


def picture_of(shown):
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(base64.b64decode(shown["image"].split(",")[1]))))


def test_pictures_keep_their_shades_or_are_spread_by_themselves():
    rng = np.random.default_rng(0)
    ids, x = ["a", "b", "c"], rng.integers(0, 200, (3, 8, 8)).astype(np.uint8)
    pool = ArrayPool(ids=ids, x=x)
    assert kind_of(pool) == "image"
    for name, shown in zip(("c", "a"), rendered(pool, ["c", "a"]), strict=True):
        found = picture_of(shown)
        assert found.shape == (240, 240)
        assert (found[::30, ::30] == x[ids.index(name)]).all()
    floats = ArrayPool(ids=ids, x=x.astype(np.float32) / 7 - 3)
    row = x[1].astype(float)
    found = picture_of(rendered(floats, ["b"])[0])[::30, ::30]
    assert np.abs(found - (row - row.min()) * 255 / (row.max() - row.min())).max() <= 1
    alone, together = rendered(floats, ["b"])[0], rendered(floats, ["a", "b"])[1]
    assert alone == together  # nothing of another record is in it


def test_pictures_with_colours_and_large_ones():
    x = np.random.default_rng(0).integers(0, 256, (2, 3, 300, 200)).astype(np.uint8)
    found = picture_of(rendered(ArrayPool(ids=["a", "b"], x=x), ["b"])[0])
    assert found.shape == (300, 200, 3)
    assert (np.moveaxis(found, -1, 0) == x[1]).all()
    flat = ArrayPool(ids=["a"], x=np.zeros((1, 4, 4), dtype=np.float32))
    assert picture_of(rendered(flat, ["a"])[0]).max() == 0


def test_numbers_stand_under_the_names_of_their_columns_as_the_owner_knows_them(tmp_path):
    (tmp_path / "p.csv").write_text("id,age,dose\nx,41,0.5\ny,67,1.25\n")
    pool = open_pool(tmp_path / "p.csv", id="id", columns=["age", "dose"], center=[50, 1], scale=[10, 2])
    assert kind_of(pool) == "table"
    assert rendered(pool, ["y", "x"]) == [
        {"table": {"age": "67", "dose": "1.25"}},
        {"table": {"age": "41", "dose": "0.5"}},
    ]
    bare = ArrayPool(ids=["a"], x=np.array([[1.0, 2.5]]))
    assert rendered(bare, ["a"]) == [{"table": {"value 1": "1", "value 2": "2.5"}}]


def test_texts_are_shown_as_they_are():
    pool = ArrayPool(ids=["a", "b", "c"], text=["<b>one</b>", "two", None])
    assert kind_of(pool) == "text"
    assert rendered(pool, ["b", "a", "c"]) == [{"text": "two"}, {"text": "<b>one</b>"}, {"text": " "}]
    assert rendered(pool, []) == []


# -- annotations


def annotation(number, *labels, by=1, minute=0, skipped=False, gold=False, result=None):
    chosen = [{"from_name": "label", "to_name": "record", "type": "choices", "value": {"choices": list(labels)}}]
    at = MOMENT + timedelta(minutes=minute)
    return Annotation(id=number, by=by, result=result or chosen, skipped=skipped, gold=gold, at=at)


def task(number, question, *annotations, drafts=0):
    return Task(id=number, question=question, annotations=annotations, drafts=drafts)


def read(*tasks, known=("q", "r"), multilabel=False):
    people = {1: "ida@example.org", 2: "bo@example.org"}
    return read_tasks(tasks, known=known, people=people, classes=["a", "b"], multilabel=multilabel)


def said(found):
    return [(one.question_id, one.annotator.split("@")[0], one.value) for one in found.answers]


def test_the_last_word_of_each_person_counts_in_any_order():
    many = [annotation(1, "a", minute=5), annotation(2, "b", minute=9), annotation(3, "a", by=2, minute=1)]
    wanted = [("q", "bo", "a"), ("q", "ida", "b")]
    assert said(read(task(1, "q", *many))) == wanted
    assert said(read(task(1, "q", *reversed(many)))) == wanted
    assert said(read(task(1, "q", many[0]), task(2, "q", *many[1:]))) == wanted
    same = [annotation(1, "a"), annotation(2, "b")]
    assert said(read(task(1, "q", *same))) == said(read(task(1, "q", *reversed(same)))) == [("q", "ida", "b")]


def test_what_counts_and_what_is_only_counted():
    found = read(
        task(1, "q", annotation(1, "a", gold=True), annotation(2, "b", by=None), annotation(3, "a", by=9), drafts=2),
        task(2, "r", annotation(4, skipped=True, minute=3), annotation(5, "b", minute=2)),
        task(3, "other", annotation(6, "a")),
        task(4, None),
        task(5, "r"),
    )
    assert said(found) == [("q", "label-studio", "b"), ("q", "label-studio user 9", "a"), ("r", "ida", None)]
    assert (found.gold, found.drafts, found.strange, found.doubled, found.refused) == (1, 2, 2, 1, ())
    assert found.questions == {"q", "r"}


LISTED = {7: "ann@example.org", 8: "bo@example.org"}


def pulled(told, people, *annotations):
    """What is stored after a pull, by voice, while the server lists these people."""
    read = read_tasks(
        [task(1, "q", *annotations)], known=("q",), people=people, classes=["a", "b"], multilabel=False
    ).answers
    new = one_voice_each(read, [Answer(question_id="q", value=value, annotator=who) for who, value in told.items()])
    return told | {one.annotator: one.value for one in new}


def test_an_account_that_is_listed_no_more_is_not_a_second_voice():
    ann = annotation(1, "a", by=7)
    first = pulled({}, LISTED, ann)
    assert first == {"ann@example.org": "a"}
    assert pulled(first, {}, ann) == first
    assert pulled(first, {}, annotation(1, "a", by=None)) == first
    assert pulled(first, LISTED, ann) == first


def test_nor_is_one_that_is_listed_again_or_deleted_then():
    first = pulled({}, {}, annotation(1, "a", by=7))
    assert first == {"label-studio user 7": "a"}
    assert pulled(first, LISTED, annotation(1, "a", by=7)) == first
    assert pulled(first, {}, annotation(1, "a", by=None)) == first
    assert pulled(first, {}, annotation(1, "b", by=7)) == {"label-studio user 7": "b"}  # a change of mind


def test_two_people_of_one_mind_are_two_voices_whoever_is_listed():
    both = annotation(1, "a", by=7), annotation(2, "a", by=8)
    for people in (LISTED, {8: LISTED[8]}, {}):
        assert list(pulled({}, people, *both).values()) == ["a", "a"]
        assert len(pulled(pulled({}, LISTED, *both), people, *both)) == 2
        assert len(pulled(pulled({}, people, *both), LISTED, *both)) == 2
        assert len(pulled(pulled({}, people, both[0]), people, *both)) == 2


@pytest.mark.parametrize(
    "result",
    [
        "a",
        ["a"],
        [{"from_name": "label"}],
        [{"from_name": "label", "value": {"choices": "a"}}],
        [{"from_name": "label", "value": {"choices": ["a", "b"]}}],
        [{"from_name": "label", "value": {"choices": [1]}}],
        [{"from_name": "label", "value": {"choices": ["A"]}}],
        [{"from_name": "label", "value": {"choices": ["a"]}}] * 2,
        [{"from_name": "other", "type": "choices", "value": {"choices": ["a"]}}],
    ],
)
def test_results_that_are_no_answer(result):
    found = read(task(1, "q", annotation(1, result=result)))
    assert (found.answers, found.refused) == ((), ("q",))
    several = read(
        task(1, "q", annotation(1, result=[*result, {"type": "choices"}] if result == [{}] else result)),
        multilabel=True,
    )
    assert len(several.answers) == (result == [{"from_name": "label", "value": {"choices": ["a", "b"]}}])


def test_several_labels_stand_in_the_order_of_the_classes():
    both, none = annotation(1, "b", "a", "b"), Annotation(id=2, by=2, result=[], skipped=False, gold=False, at=MOMENT)
    found = read(task(1, "q", both, none), multilabel=True)
    assert said(found) == [("q", "bo", ()), ("q", "ida", ("a", "b"))]
    hint = [{"from_name": "why", "type": "textarea", "value": {"text": ["unclear"]}}]
    assert said(read(task(1, "q", annotation(1, result=hint)), multilabel=True)) == [("q", "ida", ())]


def test_an_answer_that_the_last_word_of_somebody_spoils_is_not_replaced_by_an_older_one():
    found = read(task(1, "q", annotation(1, "a"), annotation(2, "outside", minute=1)))
    assert (found.answers, found.refused) == ((), ("q",))
    assert "outside" not in repr(found)
