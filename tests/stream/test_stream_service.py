"""The durable loop: what a line does, once, whatever the batches; what a restart finds."""

import math

import numpy as np
import pytest
from small_streams import EVERYTHING, SEEDED, TEXT, config_in, label, mixed, record, state_of, taken

from discreet.errors import InvalidStore, LedgerUnavailable, StoreUnavailable
from discreet.storage.stream_store import Changes, StreamStore
from discreet.stream import StreamLearner
from discreet.stream.declaration import preparation_of, settings_of
from discreet.stream.service import StreamService


@pytest.mark.parametrize("text", [SEEDED, EVERYTHING], ids=["one-sided", "everything"])
def test_batches_change_nothing(tmp_path, text):
    ends = []
    for batch in (1, 7, 1000):
        with StreamService(config_in(tmp_path / str(batch), text)) as service:
            decisions = taken(service, mixed(150), batch=batch)
            ends.append((decisions, *state_of(service), service.counts()))
    assert ends[0] == ends[1] == ends[2]
    assert ends[0][-1]["labelled"] > 10
    assert ends[0][-1]["version"] > 3


def test_it_decides_as_the_learner_itself_does(tmp_path):
    config = config_in(tmp_path)
    preparation = preparation_of(config)
    learner = StreamLearner.simulated(settings_of(config, preparation), seed=7)
    expected = []
    for number in range(120):
        x = preparation.one(record(number))
        expected.append(learner.ask(x))
        if expected[-1]:
            learner.learn_one(x, label(number)["label"])
    with StreamService(config) as service:
        forms = [record(number, label=label(number)["label"]) for number in range(120)]
        assert [bool(one[2]) for one in taken(service, forms)] == expected
        assert (service.learner.model().weights == learner.model().weights).all()


def test_a_restart_goes_on_with_the_same_state(tmp_path):
    with StreamService(config_in(tmp_path / "whole")) as service:
        whole = taken(service, mixed(100))
        end = state_of(service)
    found = []
    for start in range(0, len(mixed(100)), 31):
        with StreamService(config_in(tmp_path / "parts")) as service:
            found += taken(service, mixed(100)[start : start + 31])
    with StreamService(config_in(tmp_path / "parts")) as service:
        assert (found, state_of(service)) == (whole, end)
        assert service.learner.arrived == 100


def test_a_restart_with_the_same_lines_repeats_the_decisions_and_changes_nothing(tmp_path):
    with StreamService(config_in(tmp_path)) as service:
        first = taken(service, mixed(60))
        end = state_of(service)
    with StreamService(config_in(tmp_path)) as service:
        assert taken(service, mixed(60)) == first
        assert state_of(service) == end
        assert service.without_effect > 0


def test_in_production_a_restart_repeats_the_draws_of_the_same_key(tmp_path):
    """A batch that was lost before it was durable is decided again by the same coins."""
    commit = StreamStore.commit
    made = []

    def failing(self, changes, body, arrays):
        made.append(list(changes.decided))
        raise StoreUnavailable("writing", "the disk is full", "Make room")

    with StreamService(config_in(tmp_path, TEXT)) as service:
        before = taken(service, mixed(80))
        StreamStore.commit = failing
        try:
            with pytest.raises(StoreUnavailable, match="disk is full"):
                taken(service, [record(number) for number in range(80, 160)])
        finally:
            StreamStore.commit = commit
        with pytest.raises(StoreUnavailable, match="in doubt"):
            taken(service, [record(160)])
    with StreamService(config_in(tmp_path, TEXT)) as service:
        assert service.lost == 80
        assert taken(service, mixed(80)) == before
        again = taken(service, [record(number) for number in range(80, 160)], batch=13)
        assert again == made[0]
        assert service.lost == 0


def test_other_records_than_those_that_were_lost_are_refused(tmp_path, monkeypatch):
    with StreamService(config_in(tmp_path, TEXT)) as service:
        taken(service, [record(0)])
        monkeypatch.setattr(StreamStore, "commit", lambda *_: (_ for _ in ()).throw(StoreUnavailable("a", "b")))
        with pytest.raises(StoreUnavailable):
            taken(service, [record(number) for number in range(1, 9)])
        monkeypatch.undo()
    changed = [record(1), record(2, amount=55.5)]
    for forms in (changed, [record(30)], [record(2)]):
        with StreamService(config_in(tmp_path, TEXT)) as service:
            with pytest.raises(LedgerUnavailable, match="8 records were decided, and others come now") as refused:
                taken(service, forms)
            assert "55.5" not in str(refused.value)
            assert service.store.last_place() == 1
    with StreamService(config_in(tmp_path, TEXT)) as service:  # some of them, then others
        taken(service, [record(1), record(2), record(3)], batch=2)
        with pytest.raises(LedgerUnavailable, match="5 records"):
            taken(service, [record(30)])
    with StreamService(config_in(tmp_path, TEXT), forget_lost=True) as service:
        assert [one[0] for one in taken(service, [record(30)])] == [5]


def test_an_id_is_decided_once(tmp_path):
    with StreamService(config_in(tmp_path)) as service:
        found = taken(service, [record(1), record(2), record(1), record(1, amount=-5)])
        assert found[0] == found[2] == found[3]
        assert service.learner.arrived == 2
        assert taken(service, [record(2, amount=7)]) == [found[1]]
        with pytest.raises(InvalidStore):
            service.store.commit(Changes(decided=[(3, "p1", 1)]), {}, b"")


def test_labels_in_every_order(tmp_path):
    with StreamService(config_in(tmp_path, EVERYTHING)) as service:
        taken(service, [label(0), label(0), {"id": "p0", "label": "fraud"}])
        assert service.counts()["early"] == 1
        taken(service, [record(0), record(1)])
        assert service.counts() | {"wrong": 0} == {
            "arrived": 2, "asked": 2, "labelled": 1, "waiting": 1, "version": 0, "wrong": 0, "skipped": 0, "early": 0,
        }  # fmt: skip
        taken(service, [{"id": "p1", "label": None}, label(1)])
        assert (service.counts()["skipped"], service.counts()["labelled"]) == (1, 1)
        assert service.without_effect == 3


def test_a_label_of_a_record_that_was_not_asked_teaches_nothing(tmp_path):
    with StreamService(config_in(tmp_path)) as service:
        decisions = taken(service, [record(number) for number in range(40)])
        missed = [one[1] for one in decisions if not one[2]]
        end = state_of(service)
        taken(service, [{"id": one, "label": "fraud"} for one in missed])
        assert state_of(service) == end
        assert service.without_effect == len(missed) > 0


def test_questions_are_forgotten_after_the_declared_patience(tmp_path):
    config = config_in(tmp_path, EVERYTHING, ("patience = 100000", "patience = 10"))
    with StreamService(config) as service:
        taken(service, [record(number) for number in range(50)], batch=4)
        assert 10 <= len(service.learner.waiting) <= 11
        assert len(service.store.open_questions()) <= 11
    with StreamService(config) as service:
        taken(service, [label(0), label(49)])
        assert (service.counts()["labelled"], service.without_effect) == (1, 1)


def test_records_that_cannot_be_read_arrive_like_others(tmp_path):
    broken = [{"id": "a"}, {"id": "b", "amount": None}, {"id": "c", "amount": "x", "hour": [1], "country": 7}]
    broken += [{"id": "d", "amount": math.nan, "hour": math.inf}, {"id": "e", "amount": 10**400, "country": "xx"}]
    broken += [{"id": "f", "amount": {"a": 1}, "hour": True}, {"id": "g", "amount": [1, 2], "hour": "3"}]
    with StreamService(config_in(tmp_path, EVERYTHING)) as service:
        assert [one[2] for one in taken(service, broken)] == [1] * 7
        taken(service, [{"id": one["id"], "label": "ok"} for one in broken])
        taken(service, [record(number) for number in range(20)])
        assert np.isfinite(service.learner.model().weights).all()
        assert service.counts()["labelled"] == 7


def test_columns_of_numbers_are_prepared_as_one_by_one(tmp_path):
    preparation = preparation_of(config_in(tmp_path))
    records = [record(number) for number in range(9)] + [
        {"amount": "3", "hour": None},
        {"amount": True, "hour": [1]},
        {},
    ]
    records += [{"amount": 2**70, "hour": math.nan, "country": "it"}]
    for chosen in (records, records[:9], records[9:10], records[10:], records[:10]):
        one_by_one = np.array([preparation.one(each) for each in chosen])
        assert (preparation.many(chosen) == one_by_one).all()
