"""A step that was cut off is repeated: the same charge, the same noise, on the same values, or not at all."""

import errno
import os
import signal

import numpy as np
import pytest
from loop_parts import Counting, Stopped, campaign_in, pool_of, truth

from discreet.campaign.crash_recovery import leftovers
from discreet.campaign.state import ledger_of
from discreet.errors import BudgetExceeded, InvalidStore, LedgerUnavailable, NotNow, PoolChanged, StoreUnavailable
from discreet.pools import ArrayPool
from discreet.recipes.pool_changes import join

pytestmark = pytest.mark.thorough


@pytest.fixture(params=[7, None], ids=["simulation", "production"])
def seed(request):
    return request.param


def charges(campaign):
    with ledger_of(campaign.store) as ledger:
        return [(entry.why.phase, entry.why.purpose) for entry in ledger.entries if entry.charges]


def begun(place, *, stops, seed=None, **options):
    """A campaign in phase 1 whose ``stops`` was cut off when its noise was drawn; and that noise."""
    campaign = campaign_in(place, seed=seed, recipe=Counting(stops=set()), **options)
    campaign.tell(truth(campaign.ask()))
    campaign.train()
    if stops == "training":
        campaign.tell(truth(campaign.ask()))
    campaign.recipe.stops.add(stops)
    with pytest.raises(Stopped):
        (campaign.ask if stops == "choosing" else campaign.train)()
    return campaign.recipe.drawn[-1]


def test_a_query_that_was_cut_off_is_charged_once_and_drawn_the_same(tmp_path, seed):
    drawn = begun(tmp_path, stops="choosing", seed=seed)
    again = campaign_in(tmp_path, seed=seed)
    assert again.state.step == "ask"
    assert again.store.questions(1) == []
    assert len(again.ask()) == 2
    assert again.recipe.drawn == [drawn]
    assert charges(again) == [(0, "training"), (1, "choosing")]


def test_a_training_that_was_cut_off_is_charged_once_and_drawn_the_same(tmp_path, seed):
    drawn = begun(tmp_path, stops="training", seed=seed)
    again = campaign_in(tmp_path, seed=seed)
    assert again.state.step == "train"
    again.train()
    assert again.recipe.drawn == [drawn]
    assert again.predictor().counts == drawn[2]
    assert charges(again) == [(0, "training"), (1, "choosing"), (1, "training")]


def test_a_full_disk_in_the_middle_of_a_step_is_said_in_words(tmp_path, monkeypatch):
    begun(tmp_path, stops="choosing")
    again = campaign_in(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("discreet.noise.replay_key.DrawJournal._write", _no_space)
        with pytest.raises(StoreUnavailable, match="the disk is full.*found again"):
            again.ask()
    assert len(again.ask()) == 2


def _no_space(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/a/path/of/ours")


def test_corrections_after_a_training_began_do_not_enter_it(tmp_path, seed):
    """Equal noise on other labels would show their difference."""
    drawn = begun(tmp_path, stops="training", seed=seed)
    again = campaign_in(tmp_path, seed=seed)
    fixed = again.store.file("labels", 1).read_bytes()
    assert again.tell(truth(again.store.questions(), "c")).corrected == 6
    again.train(partial=True)
    assert again.recipe.drawn == [drawn]
    assert again.store.file("labels", 1).read_bytes() == fixed
    again.tell(truth(again.ask(), "c"))
    again.train()
    assert again.store.file("labels", 2).read_bytes().count(b'"c"') == 8


def test_a_query_is_not_repeated_on_records_that_changed(tmp_path):
    """The noise of the first time on other numbers would show their difference: refused, until they are restored."""
    drawn = begun(tmp_path, stops="choosing")
    changed = campaign_in(tmp_path, pool=pool_of(changed=[f"r{number}" for number in range(20)]))
    with pytest.raises(LedgerUnavailable, match="hid something else"):
        changed.ask()
    assert changed.store.questions(1) == []
    again = campaign_in(tmp_path)
    again.ask()
    assert again.recipe.drawn == [drawn]
    assert charges(again).count((1, "choosing")) == 1


def test_a_training_is_not_repeated_on_records_that_changed(tmp_path, seed):
    begun(tmp_path, stops="training", seed=seed)
    asked = campaign_in(tmp_path, seed=seed).store.questions()[0].record
    changed = campaign_in(tmp_path, seed=seed, pool=pool_of(changed=[asked]))
    with pytest.raises(PoolChanged, match="some of them"):
        changed.train()
    assert changed.recipe.drawn == []
    campaign_in(tmp_path, seed=seed).train()


def test_a_record_that_changed_is_noticed_before_labels_are_fixed(tmp_path):
    campaign = campaign_in(tmp_path)
    asked = campaign.ask()
    campaign.tell(truth(asked))
    changed = campaign_in(tmp_path, pool=pool_of(changed=[asked[0].record]))
    with pytest.raises(PoolChanged) as refused:
        changed.train()
    assert asked[0].record not in str(refused.value)
    assert changed.state.step == "answer"
    assert charges(changed) == []
    assert campaign_in(tmp_path).train() is not None


@pytest.mark.parametrize("changed", ["r19", "asked", "everybody"])
def test_a_query_on_a_pool_that_changed_is_refused_before_it_is_charged(tmp_path, seed, changed):
    """Also where the record that changed was asked before, and no later query would read it."""
    campaign = campaign_in(tmp_path, seed=seed)
    asked = campaign.ask()
    campaign.tell(truth(asked))
    campaign.train()
    before = charges(campaign)
    names = {"r19": ["r19"], "asked": [asked[0].record], "everybody": [f"r{number}" for number in range(20)]}[changed]
    other = campaign_in(tmp_path, seed=seed, pool=pool_of(changed=names))
    for _ in range(2):
        with pytest.raises(PoolChanged, match="some of them") as refused:
            other.ask()
        assert not any(name in str(refused.value) for name in names)
    assert charges(other) == before
    assert other.recipe.drawn == []
    assert other.store.questions(1) == []
    restored = campaign_in(tmp_path, seed=seed)
    assert [one.phase for one in restored.ask()] == [1, 1]
    assert charges(restored) == [*before, (1, "choosing")]


def test_a_free_query_on_a_pool_that_changed_is_not_published(tmp_path):
    changed = campaign_in(tmp_path, pool=pool_of())
    changed = campaign_in(tmp_path, pool=pool_of(changed=["r3"]))
    with pytest.raises(PoolChanged):
        changed.ask()
    assert changed.store.questions() == []
    assert len(campaign_in(tmp_path).ask()) == 4


class Moving:
    """Rows that change when they were read so often."""

    shape, dtype = (20, 2), np.dtype(np.float32)

    def __init__(self, rows, after):
        self.rows, self.after, self.reads = rows, after, 0

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, key):
        self.reads += 1
        found = np.array(self.rows[key])
        return found + 100 if self.reads > self.after else found


def test_records_that_change_after_the_check_are_charged_once_and_wait(tmp_path):
    """Read for the query: nothing refuses any more. Their questions are shown when the records are restored."""
    campaign = campaign_in(tmp_path)
    campaign.tell(truth(campaign.ask()))
    campaign.train()
    plain = pool_of()
    moving = Moving(np.asarray(plain.x), after=2)  # the query's own read, and that of the records it does not read
    racing = campaign_in(tmp_path, pool=ArrayPool(ids=plain.ids, x=moving))
    assert racing.ask() == []
    with pytest.raises(PoolChanged):
        racing.ask()
    restored = campaign_in(tmp_path)
    assert [one.phase for one in restored.ask()] == [1, 1]
    assert charges(restored).count((1, "choosing")) == 1


def more(size=2):
    return ArrayPool(ids=[f"new{number}" for number in range(size)], x=pool_of().x[:size])


def longer():
    both = [pool_of(), more()]
    numbers = [[*map(list, part.x[:])] for part in both]
    return ArrayPool(ids=[*both[0].ids, *both[1].ids], x=[*numbers[0], *numbers[1]])


def test_a_pool_is_not_extended_in_the_middle_of_a_query(tmp_path, seed):
    """What was begun without the new records cannot be repeated with them, and they cannot be taken out again."""
    begun(tmp_path, stops="choosing", seed=seed)
    again = campaign_in(tmp_path, seed=seed)
    with pytest.raises(NotNow, match="query 1 was begun"):
        join(again, more())
    again.ask()
    assert join(again, more()) == (1, 2)


def test_a_process_with_the_old_pool_does_not_begin_a_query(tmp_path):
    old = campaign_in(tmp_path)
    assert join(campaign_in(tmp_path), more()) == (1, 2)
    assert join(campaign_in(tmp_path), more()) == (1, 2), "the same records again are the same cohort"
    with pytest.raises(PoolChanged, match="22 records are enrolled, and this process has 20"):
        old.ask()
    assert len(old.store.questions()) == 0


def test_a_training_goes_on_when_the_pool_was_extended_meanwhile(tmp_path, seed):
    drawn = begun(tmp_path, stops="training", seed=seed)
    assert join(campaign_in(tmp_path, seed=seed), more()) == (1, 2)
    again = campaign_in(tmp_path, seed=seed)
    again.train()
    assert again.recipe.drawn == [drawn]


def test_a_lost_key_never_gives_second_noise_for_the_same_charge(tmp_path):
    drawn = begun(tmp_path, stops="training")
    again = campaign_in(tmp_path)
    (key,) = again.store.directory.glob("keys-training/*.key")
    key.unlink()
    again.train()
    assert again.recipe.drawn[0] != drawn
    assert charges(again).count((1, "training")) == 2, "other noise is another charge, and stands in the ledger"


@pytest.mark.parametrize("stops", ["choosing", "training"])
def test_a_lost_key_is_named_where_a_second_charge_does_not_fit(tmp_path, stops, monkeypatch):
    """Not a lack of budget: what the owner can do is to look for the key."""
    begun(tmp_path, stops=stops)
    again = campaign_in(tmp_path)
    for key in again.store.directory.glob("keys-*/*.key"):
        key.unlink()
    before = charges(again)

    def spent(*_, **__):
        raise BudgetExceeded("charging", requested=1, remaining=0, total=1, reason="spent")

    monkeypatch.setattr("discreet.privacy.ledger.Ledger.charge_all", spent)
    with pytest.raises(InvalidStore, match="is missing"):
        (again.ask if stops == "choosing" else again.train)()
    assert charges(again) == before
    assert again.recipe.drawn == []


def test_what_a_dead_process_left_is_removed_when_the_campaign_is_opened(tmp_path, monkeypatch):
    """Of the last phase, too, after which nothing is asked or trained any more."""
    from discreet.noise import SealedPhase

    campaign = campaign_in(tmp_path, recipe=Counting(phases=1))
    campaign.tell(truth(campaign.ask()))
    monkeypatch.setattr(SealedPhase, "end", lambda self: (_ for _ in ()).throw(Stopped()))
    with pytest.raises(Stopped):
        campaign.train()
    monkeypatch.undo()
    half = campaign.store.directory / "checkpoints" / ".phase-0-3.safetensors.77.part"
    half.write_bytes(b"half")
    (campaign.store.directory / "checkpoints" / "phase-0.json").write_text("{}")
    assert len(leftovers(campaign.store)) == 4
    again = campaign_in(tmp_path, recipe=Counting(phases=1))
    assert again.done
    assert leftovers(again.store) == []
    assert not list(again.store.directory.glob("keys-*/*"))


def test_opening_leaves_the_key_of_a_step_that_is_not_over(tmp_path):
    begun(tmp_path, stops="training")
    assert len(list(campaign_in(tmp_path).store.directory.glob("keys-training/*.key"))) == 1


def in_child(act):
    child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def test_one_process_works_and_others_look_and_tell(tmp_path):
    campaign = campaign_in(tmp_path)
    asked = campaign.ask()
    read, write = os.pipe()

    def hold():
        with campaign_in(tmp_path).store.exclusive("working"):
            os.write(write, b"!")
            signal.pause()

    child = in_child(hold)
    try:
        assert os.read(read, 1) == b"!"
        assert campaign.ask() == asked
        assert campaign.tell(truth(asked)).new == 4
        assert campaign_in(tmp_path).status("owner").answers["labelled"] == 4
        with pytest.raises(StoreUnavailable, match="another process is working"):
            campaign.train()
        with pytest.raises(StoreUnavailable, match="another process is working"):
            join(campaign, more())
        assert charges(campaign) == []
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)
    campaign.train()
    other = campaign_in(tmp_path)
    with campaign.store.exclusive("working"):
        child = in_child(lambda: refused_to(other.ask))
        assert os.waitpid(child, 0)[1] == 0
    assert len(campaign.ask()) == 2


def refused_to(act):
    with pytest.raises(StoreUnavailable):
        act()
