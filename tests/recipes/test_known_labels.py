"""Labels that were there before: imported once, through any crash, or refused before the campaign begins."""

import pytest
from small_campaigns import BUDGET, again, finish, pool_and_truth, tables

from discreet.api import create_campaign
from discreet.errors import InvalidConfig
from discreet.pools import ArrayPool


def labels_file(tmp_path, rows):
    path = tmp_path / "labels.csv"
    path.write_text("record,label\n" + "".join(f"{record},{label}\n" for record, label in rows))
    return str(path)


def imported(tmp_path, pool, rows, *, chosen="uniformly", budget=BUDGET, **changes):
    recipe = tables(initial=40, batch=20, queries=[30], **changes)
    recipe["initial"] = {"path": labels_file(tmp_path, rows), "chosen": chosen}
    return create_campaign("known", storage=tmp_path / "c.db", pool=pool, budget=budget, recipe=recipe)


def rows_of(truth, count=40, every=3):
    return [(one, truth[one]) for one in list(truth)[::every][:count]]


def test_phase_0_is_the_file_and_nobody_is_asked(tmp_path):
    pool, truth = pool_and_truth()
    rows = rows_of(truth)
    campaign = imported(tmp_path, pool, rows, chosen="by-public-rule", per_question=3)
    assert campaign.ask() == []
    asked = campaign.store.questions(0)
    assert {one.record for one in asked} == {record for record, _ in rows}
    assert [one.record for one in asked] != [record for record, _ in rows]  # in random order
    assert campaign.labels() == dict(rows)
    assert {answer.annotator for answer in campaign.store.answers()} == {"imported"}
    campaign.train()
    assert len(campaign.ask()) == 30  # the next phase asks people
    assert not {one.record for one in campaign.ask()} & {record for record, _ in rows}
    status = campaign.status()
    assert status.imported == "by-public-rule"
    assert status.to_json()["labels_imported"] == "by-public-rule"


@pytest.mark.parametrize("verb", ["ask", "train"])
def test_a_crash_between_publishing_and_telling_loses_nothing(verb, tmp_path, monkeypatch):
    pool, truth = pool_and_truth()
    rows = rows_of(truth)
    campaign = imported(tmp_path, pool, rows)
    with monkeypatch.context() as patch:
        patch.setattr(type(campaign), "_tell_known", lambda self, now: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            campaign.ask()
    order = campaign.store.questions(0)
    assert len(order) == 40
    assert campaign.store.answers() == []
    getattr(again(tmp_path, pool, "known"), verb)()
    assert again(tmp_path, pool, "known").store.questions(0) == order
    assert campaign.labels() == dict(rows)
    finish(campaign, truth)


def test_labels_told_twice_are_told_once(tmp_path):
    pool, truth = pool_and_truth()
    campaign = imported(tmp_path, pool, rows_of(truth))
    for _ in range(3):
        campaign.ask()
    assert len(campaign.store.history(campaign.store.questions(0)[0].id)) == 1


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda rows: rows[:39], "labels of 39 records, and plan.initial = 40"),
        (lambda rows: [*rows, ("r1", "a")], "labels of 41 records"),
        (lambda rows: [("unmistakable", "a"), *rows[1:]], "1 of its 40 records are not in the pool"),
        (lambda rows: [(rows[0][0], "unmistakable"), *rows[1:]], "1 of its 40 labels are outside the classes"),
        (lambda rows: [*rows, rows[0]], "stands there twice"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_at_once_with_counts_alone(change, word, tmp_path):
    pool, truth = pool_and_truth()
    with pytest.raises(InvalidConfig, match=word) as refused:
        imported(tmp_path, pool, change(rows_of(truth)))
    assert "[initial] path" in str(refused.value)
    assert "unmistakable" not in str(refused.value)


def test_persons_come_with_all_their_records(tmp_path):
    """A person of the file enters with the records that have no label, too: those are asked."""
    pool, truth = pool_and_truth()
    persons = [f"p{number // 2}" for number in range(300)]
    pool = ArrayPool(ids=pool.ids, x=pool.x, persons=persons)
    rows = [(f"r{2 * number}", truth[f"r{2 * number}"]) for number in range(40)]
    recipe = tables(initial=40, batch=20, queries=[20])
    recipe["initial"] = {"path": labels_file(tmp_path, rows), "chosen": "uniformly"}
    budget = {**BUDGET, "unit": "person", "records_per_person": 2}
    declared = {"path": "none", "kind": "arrays", "size": 300, "person": "p", "persons": 150}
    campaign = create_campaign(
        "known", storage=tmp_path / "c.db", pool=pool, budget=budget, recipe=recipe | {"pool": declared}
    )
    assert {one.record for one in campaign.ask()} == {f"r{2 * number + 1}" for number in range(40)}
    assert len(campaign.store.questions(0)) == 80


@pytest.mark.parametrize(("rows_more", "removed"), [(0, False), (0, True), (1, False), (2, True), (200, False)])
def test_after_a_withdrawal_the_file_still_has_to_fit(tmp_path, rows_more, removed):
    """One record fewer than planned is what it must have; its row may be there still, but nobody takes its place."""
    pool, truth = pool_and_truth()
    rows = rows_of(truth)
    campaign = imported(tmp_path, pool, rows)
    campaign.withdraw([rows[0][0]])
    more = [(one, truth[one]) for one in truth if one not in dict(rows)][:rows_more]
    labels_file(tmp_path, [*rows[removed:], *more])
    if rows_more > removed:
        with pytest.raises(InvalidConfig, match=f"labels of {39 + rows_more} records"):
            again(tmp_path, pool, "known").ask()
        return
    assert again(tmp_path, pool, "known").ask() == []
    assert len(campaign.store.questions(0)) == 39
