"""Withdrawing while a query or a training is under way, on a recipe without torch; and files of questions."""

import pytest
from loop_parts import Counting, Stopped, campaign_in, truth

from discreet.errors import BadInput
from discreet.oracles.file_oracle import remove_rows

pytestmark = pytest.mark.thorough


def begun(place, what):
    """A campaign whose next query, or training, died after its draw."""
    recipe = Counting(stops=set())
    campaign = campaign_in(place, recipe=recipe)
    campaign.tell(truth(campaign.ask()))
    campaign.train()
    if what == "training":
        campaign.tell(truth(campaign.ask()))
    recipe.stops.add(what)
    with pytest.raises(Stopped):
        campaign.ask() if what == "choosing" else campaign.train()
    return recipe.drawn[-1]


@pytest.mark.parametrize("what", ["choosing", "training"])
def test_what_was_begun_is_finished_with_the_same_draw_and_then_the_record_goes(what, tmp_path):
    drawn = begun(tmp_path, what)
    recipe = Counting()
    campaign = campaign_in(tmp_path, recipe=recipe)
    record = campaign.store.questions(0)[0].record
    waits = campaign.withdraw([record], later=True)
    assert (waits.new, waits.waiting) == (1, 1)
    assert campaign.store.withdrawn()[0].id == record, "marked, and still there"
    assert record not in {one.record for one in campaign.open()}
    done = campaign_in(tmp_path, recipe=recipe).withdraw([record])
    assert (done.new, done.known, done.waiting) == (0, 1, 0)
    assert recipe.drawn == [drawn], "the same noise on the same values, once"
    assert campaign.store.withdrawn()[0].id != record


@pytest.mark.parametrize("what", ["choosing", "training"])
def test_a_marked_record_goes_when_the_verb_itself_goes_on(what, tmp_path):
    drawn = begun(tmp_path, what)
    recipe = Counting()
    campaign = campaign_in(tmp_path, recipe=recipe)
    record = campaign.store.questions(0)[1].record
    campaign.withdraw([record], later=True)
    campaign.ask() if what == "choosing" else campaign.train()
    assert recipe.drawn == [drawn]
    assert campaign.store.withdrawn()[0].done
    assert campaign.pool.withdrew(record)


def test_a_record_that_was_never_asked_is_never_asked(tmp_path):
    campaign = campaign_in(tmp_path)
    campaign.ask()
    asked = {one.record for one in campaign.store.questions()}
    gone = [one for one in campaign.pool.ids if one not in asked][:3]
    campaign.withdraw(gone)
    assert [name.startswith("withdrawn-") for name in campaign.pool.ids].count(True) == 3
    assert not campaign.store.questions()[0].record.startswith("withdrawn-")
    assert len(campaign.pool) == 20


def test_while_another_process_works_it_is_only_marked(tmp_path):
    campaign = campaign_in(tmp_path)
    with campaign.store.exclusive("working"):
        assert campaign.withdraw(["r3"]).waiting == 1
    campaign_in(tmp_path)  # whoever opens it next
    assert campaign.store.withdrawn()[0].done


def test_none_and_what_is_no_id(tmp_path):
    campaign = campaign_in(tmp_path)
    for wrong in ([], [3], ["r1", "r99"]):
        with pytest.raises(BadInput):
            campaign.withdraw(wrong)
    assert campaign.store.withdrawn() == []


def test_rows_go_from_files_of_any_spreadsheet_and_others_keep_their_bytes(tmp_path):
    excel = b'\xef\xbb\xbfsep=;\r\n"question_id";"record";"label"\r\n"0.0";"r1";"a\r\nb"\r\n\r\n0.1;r2;\r\n0.2;r3;c'
    (tmp_path / "questions-0001.csv").write_bytes(excel)
    (tmp_path / "answers.jsonl").write_bytes(b'{"record": "r2", "label": "a"}\n\n{"question_id": "0.9", "label": "b"}')
    (tmp_path / "answers-old.csv").write_bytes(b"question_id,label\r0.0,a\r0.1,b\r")
    (tmp_path / ".answers.jsonl.77.part").write_bytes(b"r2")
    assert remove_rows(tmp_path, questions={"0.1"}, withdrew=lambda record: record == "r2") == 3
    left = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert left == {
        "questions-0001.csv": excel.replace(b"0.1;r2;\r\n", b""),
        "answers.jsonl": b'{"question_id": "0.9", "label": "b"}',
        "answers-old.csv": b"question_id,label\r0.0,a\r",
    }
    assert remove_rows(tmp_path, questions={"0.1"}, withdrew=lambda record: False) == 0
    (tmp_path / "answers-broken.csv").write_bytes(b"no header\n")
    with pytest.raises(BadInput, match="answers-broken"):
        remove_rows(tmp_path, questions={"0.1"}, withdrew=lambda record: False)
