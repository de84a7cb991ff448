"""The store keeps its contract, and the contract fails stores with a planted bug."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from discreet.errors import BadInput, CampaignExists
from discreet.storage import CampaignStore, Storage, TellResult, answers, database, files, open_storage, phases
from discreet.testing import check_storage
from discreet.testing import storage as contract

pytestmark = pytest.mark.thorough


def test_the_sqlite_store_keeps_its_contract(tmp_path):
    check_storage(lambda: open_storage(f"sqlite:///{tmp_path}/scan.db"))


def overwriting(patch):
    """The current answer is all that is kept."""
    real = CampaignStore.history
    patch.setattr(CampaignStore, "history", lambda scope, question: real(scope, question)[-1:])


def in_bits(patch):
    """Answers are stored one by one, until one is refused."""
    real = CampaignStore.tell

    def tell(scope, told, *, at=None):
        counts = [real(scope, [one], at=at) for one in told]
        return TellResult(
            **{what: sum(getattr(one, what) for one in counts) for what in ("new", "repeated", "corrected")}
        )

    patch.setattr(CampaignStore, "tell", tell)


def forgetful(patch):
    """What is told is said to be stored, and lost with the process."""
    real = CampaignStore.tell

    def tell(store, told, *, at=None):
        lost = store.name == "durable"
        return TellResult(new=len(told), repeated=0, corrected=0) if lost else real(store, told, at=at)

    patch.setattr(CampaignStore, "tell", tell)


def repeating(patch):
    """A step that was taken is taken again."""
    patch.setattr(phases, "same_step", lambda scope, before, facts: before)


def disordered(patch):
    real = CampaignStore.questions
    patch.setattr(
        CampaignStore, "questions", lambda scope, phase=None: sorted(real(scope, phase), key=lambda one: one.id)
    )


def trusting(patch):
    """A file is what its row says."""
    patch.setattr(files, "hash_of", lambda path: path.name)


def sharing(patch):
    patch.setattr(CampaignStore, "exclusive", lambda store, purpose, *, wait=0.0: nullcontext())


def unturned(patch):
    """A writer looks before it has the writer's turn."""
    patch.setattr(database.Database, "writing", database.Database.reading)


def unknown(patch):
    """Answers to questions that are not there are left out."""
    real = CampaignStore.tell

    def tell(scope, told, *, at=None):
        try:
            return real(scope, told, at=at)
        except BadInput:
            return real(scope, told[:1], at=at)

    patch.setattr(CampaignStore, "tell", tell)


def undated(patch):
    real = answers._answer
    patch.setattr(answers, "_answer", lambda row: replace(real(row), at=None))


PROMISES = ("_campaigns", "_pool", "_steps", "_questions", "_answers", "_files")
OTHERS = ("check_sink", "check_ledger_in", "check_durable", "check_turns", "check_alone")


@pytest.mark.parametrize(
    ("plant", "promise", "line"),
    [
        (overwriting, "_answers", "every change is kept"),
        (in_bits, "_answers", "refused ones leave nothing"),
        (unknown, "_answers", "an unknown question is refused"),
        (undated, "_answers", "kept apart"),
        (repeating, "_steps", "not recorded with other facts"),
        (disordered, "_questions", "in the order of their places"),
        (trusting, "_files", "a changed file is noticed"),
        (forgetful, "check_durable", "tell is durable when it returns"),
        (unturned, "check_turns", "two processes"),
        (sharing, "check_alone", "one process at a time"),
    ],
)
def test_the_contract_notices(plant, promise, line, tmp_path, monkeypatch):
    def kept(_):
        """Quickly; the other promises are not what this is about."""

    for other in {*PROMISES, *OTHERS} - {promise}:
        monkeypatch.setattr(contract, other, kept)
    kept.__name__ = "others"
    monkeypatch.setattr(Storage, "create", created_or_loaded)
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=line):
        check_storage(lambda: open_storage(tmp_path / "scan.db", patience=0.5))


def created_or_loaded(storage, name, *, config, simulation, real=Storage.create):
    try:
        return real(storage, name, config=config, simulation=simulation)
    except CampaignExists:
        return storage.load(name)
