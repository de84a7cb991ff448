"""Teachers: disjoint parts, votes that are those of the models, nulls, caching, refusals."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from discreet.errors import BadInput
from discreet.noise import SecretKey
from discreet.records import Votes
from discreet.trainers.teachers import read_votes, split, train_teachers, write_votes
from discreet.trainers.teachers.fitting import (
    LinearVoter,
    TeacherTask,
    TrainedTeacher,
    constant_voter,
    fit_teacher,
    linear_counts,
    linear_voter,
)
from discreet.trainers.teachers.training import _counted

pytestmark = pytest.mark.thorough

KEY = SecretKey(b"k" * 32)
NAMES = ("red", "green", "blue")


def problem(classes=2, records=400, public=60, inputs=5, seed=0):
    rng = np.random.default_rng(seed)
    middles = rng.normal(size=(classes, inputs)) * 2
    y, py = rng.integers(classes, size=records), rng.integers(classes, size=public)
    x, px = middles[y] + rng.normal(size=(records, inputs)), middles[py] + rng.normal(size=(public, inputs))
    return {
        "x": x,
        "y": [NAMES[code] for code in y],
        "units": [f"unit {place}" for place in range(records)],
        "public": px,
        "public_ids": [f"public {place}" for place in range(public)],
        "classes": NAMES[:classes],
        "key": KEY,
    }


def test_a_unit_is_with_one_teacher_whatever_else_is_there():
    units = [f"person {place % 700}" for place in range(2000)]
    of = split(units, teachers=37, key=KEY)
    assert len({(unit, teacher) for unit, teacher in zip(units, of.tolist(), strict=True)}) == 700
    assert set(of.tolist()) == set(range(37))
    assert (split(units[500:], teachers=37, key=KEY) == of[500:]).all()
    assert (split(units, teachers=37, key=SecretKey(b"o" * 32)) != of).mean() > 0.9


def test_thousands_of_teachers_are_split_evenly_and_fast():
    of = split([f"u{place}" for place in range(60_000)], teachers=3000, key=KEY)
    sizes = np.bincount(of, minlength=3000)
    assert sizes.min() >= 1
    assert abs(sizes.var() / 20 - 1) < 0.15  # as a multinomial's


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), RidgeClassifier(), make_pipeline(StandardScaler(), LogisticRegression())],
    ids=["logistic", "ridge", "pipeline"],
)
def test_votes_are_those_of_the_models(classes, estimator):
    given = problem(classes)
    votes = train_teachers(**given, teachers=10, estimator=estimator)
    of = split(given["units"], teachers=10, key=KEY)
    codes = np.array([NAMES.index(name) for name in given["y"]])
    expected = np.zeros((60, classes), dtype=np.int64)
    for teacher in range(10):
        mine = of == teacher
        found = type(estimator)(**estimator.get_params(deep=False)).fit(given["x"][mine], codes[mine])
        expected[np.arange(60), found.predict(given["public"])] += 1
    assert (votes.counts == expected).all()


def test_stacked_products_are_the_single_ones():
    """Also for teachers that know only some classes."""
    rng = np.random.default_rng(3)
    x, public = rng.normal(size=(300, 4)), rng.normal(size=(500, 4))
    y = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5)
    voters, expected = [], np.zeros((500, 3), dtype=np.int64)
    for known in ([0, 1, 2], [0, 2], [1, 2], [0, 1]):
        mine = np.isin(y, known)
        model = LogisticRegression().fit(x[mine], y[mine])
        voters.append(linear_voter(model, 3))
        expected[np.arange(500), model.predict(public)] += 1
    voters.append(constant_voter(1, 3, 4))
    expected[:, 1] += 1
    assert (linear_counts(voters, public, 3) == expected).all()
    assert linear_counts([constant_voter(1, 2, 4), constant_voter(0, 2, 4)], public, 2)[0].tolist() == [1, 1]


def test_forests_and_seeds_repeat():
    given = problem(3)
    estimator = RandomForestClassifier(n_estimators=5)
    first, again = (train_teachers(**given, teachers=8, estimator=estimator) for _ in range(2))
    assert (first.counts == again.counts).all()
    assert (first.counts.sum(axis=1) == 8).all()


def test_several_processes_give_the_same_and_report_progress():
    given, seen = problem(3), []
    alone = train_teachers(**given, teachers=20, estimator=LogisticRegression())
    both = train_teachers(
        **given,
        teachers=20,
        estimator=LogisticRegression(),
        processes=2,
        progress=lambda done, of: seen.append((done, of)),
    )
    assert (alone.counts == both.counts).all()
    assert seen == [(done, 20) for done in range(1, 21)]


def test_nulls_are_not_learnt_from():
    """An unknown label, or a number that is not finite: as if the record were not there, for its one teacher."""
    given = problem(2)
    votes = train_teachers(**given, teachers=10, estimator=LogisticRegression())
    without = {**given, "y": [None, *given["y"][1:]]}
    strange = {**given, "y": ["purple", *given["y"][1:]]}
    broken = {**given, "x": given["x"].copy()}
    broken["x"][0, 0] = np.nan
    found = [train_teachers(**one, teachers=10, estimator=LogisticRegression()) for one in (without, strange, broken)]
    assert all((one.counts == found[0].counts).all() for one in found)
    assert np.abs(found[0].counts - votes.counts).sum(axis=1).max() <= 2


class Touchy(ClassifierMixin, BaseEstimator):
    """Raises, quoting the record, when it meets a large number."""

    def fit(self, x, y):
        if np.abs(x).max() > 100:
            raise ValueError(f"secret {x.max()}")
        self.classes_ = np.unique(y)
        return self

    def predict(self, x):
        return np.full(len(x), self.classes_[-1])


def test_a_teacher_that_fails_votes_all_the_same():
    given = problem(2)
    given["x"][7] = 1e6
    votes = train_teachers(**given, teachers=10, estimator=Touchy())
    assert (votes.counts == [1, 9]).all()


def test_a_teacher_without_records_or_with_one_class_votes():
    public = np.zeros((4, 3))
    for y, vote in (([], 0), ([1, 1], 1)):
        lesson = TeacherTask(number=0, x=np.zeros((len(y), 3)), y=np.array(y, dtype=np.int64), seed=0)
        taught = fit_teacher(LogisticRegression(), lesson, public, 2)
        assert linear_counts([taught.linear], public, 2)[:, vote].tolist() == [1] * 4
    given = problem(2, records=6)
    assert (train_teachers(**given, teachers=50, estimator=LogisticRegression()).counts.sum(axis=1) == 50).all()


def test_cached_teachers_are_not_trained_again(tmp_path, monkeypatch):
    given = problem(3)
    place = tmp_path / "kept"
    first = train_teachers(**given, teachers=6, estimator=LogisticRegression(), cache=place)
    files = sorted(place.iterdir())
    assert len(files) == 6
    assert all(file.stat().st_mode & 0o077 == 0 for file in [place, *files])
    assert not any(unit.split()[1] == file.stem for unit in given["units"] for file in files)
    monkeypatch.setattr("discreet.trainers.teachers.training.fit_teacher", None)  # nobody is taught
    again = train_teachers(**given, teachers=6, estimator=LogisticRegression(), cache=place)
    assert (first.counts == again.counts).all()
    monkeypatch.undo()
    changed = {**given, "y": [None, *given["y"][1:]]}
    train_teachers(**changed, teachers=6, estimator=LogisticRegression(), cache=place)
    assert len(list(place.iterdir())) == 7  # one teacher learnt again
    files[0].write_bytes(b"broken")
    assert (
        train_teachers(**given, teachers=6, estimator=LogisticRegression(), cache=place).counts == first.counts
    ).all()
    other = {**given, "key": SecretKey(b"o" * 32)}
    train_teachers(**other, teachers=6, estimator=LogisticRegression(), cache=place)
    assert len(list(place.iterdir())) == 13


def test_a_torn_file_of_the_cache_is_as_good_as_none(tmp_path):
    given = problem(2) | {"teachers": 4, "estimator": LogisticRegression(), "cache": tmp_path / "kept"}
    first = train_teachers(**given)
    for length, file in zip((0, 30, 200, 400), sorted((tmp_path / "kept").iterdir()), strict=True):
        file.write_bytes(file.read_bytes()[:length])
    assert (train_teachers(**given).counts == first.counts).all()


def test_cached_teachers_are_of_as_many_classes(tmp_path):
    """The same records and class numbers, with one more class declared: another way to write a linear teacher."""
    given = problem(2) | {"teachers": 6, "estimator": LogisticRegression()}
    wide, narrow = {"classes": NAMES}, {"classes": NAMES[:2]}
    for order in ([wide, narrow], [narrow, wide]):
        for number, shape in enumerate(order):
            cache = tmp_path / str(order[0] is wide)
            kept = train_teachers(**(given | shape), cache=cache)
            assert (kept.counts == train_teachers(**(given | shape)).counts).all(), number


def test_who_is_done_first_moves_no_vote():
    """A product rounds by the place of a column. So teachers keep theirs, in whatever order they come."""
    rng = np.random.default_rng(0)
    public, weights = rng.normal(size=(300, 37)), rng.normal(size=(37, 251))
    order = rng.permutation(251)
    here, there = public @ weights, np.empty((300, 251))
    there[:, order] = public @ np.ascontiguousarray(weights[:, order])
    rows, columns = np.nonzero(here != there)
    if not len(rows):
        pytest.skip("this library rounds alike in all places")
    offsets = np.zeros(251)
    offsets[columns] = -here[rows, columns]  # the score of a record is 0, or a hair beside it
    taught = [
        TrainedTeacher(
            number=place, linear=LinearVoter(weights=weights[None, :, place], offsets=offsets[place : place + 1])
        )
        for place in range(251)
    ]
    plain = _counted(iter(taught), public, 2, 251, lambda done, of: None)
    mixed = _counted(iter([taught[place] for place in order]), public, 2, 251, lambda done, of: None)
    assert (plain == mixed).all()
    assert (linear_counts([taught[place].linear for place in order], public, 2) != plain).any()  # it would be seen


@pytest.mark.parametrize(("kind", "huge"), [(np.float32, 1e39), (np.float64, 1e308)])
def test_huge_weights_warn_nobody(kind, huge):
    one = LinearVoter(weights=np.array([[huge, -huge, 1.0]]), offsets=np.zeros(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert linear_counts([one], np.full((5, 3), 100, dtype=kind), 2).sum() == 5


def test_votes_in_a_file(tmp_path):
    votes = train_teachers(**problem(3), teachers=6, estimator=LogisticRegression())
    write_votes(votes, tmp_path / "votes.npz")
    assert (tmp_path / "votes.npz").stat().st_mode & 0o077 == 0
    found = read_votes(tmp_path / "votes.npz")
    assert (found.ids, found.classes, found.teachers) == (votes.ids, votes.classes, votes.teachers)
    assert (found.counts == votes.counts).all()
    assert repr(found) == "Votes(records=60, classes=3, teachers=6)"
    (tmp_path / "other.npz").write_bytes(b"no votes")
    with pytest.raises(BadInput):
        read_votes(tmp_path / "other.npz")
    with pytest.raises(FileExistsError):
        write_votes(votes, tmp_path / "votes.npz")
    (tmp_path / "torn.npz").write_bytes((tmp_path / "votes.npz").read_bytes()[:150])
    for name in ("torn.npz", "none.npz"):
        with pytest.raises(BadInput, match=name):
            read_votes(tmp_path / name)


def test_torch_modules_teach():
    pytest.importorskip("torch")
    import torch

    from discreet.trainers.teachers.torch_teacher import TorchClassifier

    given = problem(2, records=200)
    estimator = TorchClassifier(lambda classes: torch.nn.Linear(5, classes), epochs=30, learning_rate=0.05)
    state = torch.get_rng_state()
    votes = train_teachers(**given, teachers=4, estimator=estimator)
    assert torch.equal(state, torch.get_rng_state())
    linear = train_teachers(**given, teachers=4, estimator=LogisticRegression())
    assert (votes.counts.argmax(axis=1) == linear.counts.argmax(axis=1)).mean() > 0.9


class Useless(BaseEstimator):
    def fit(self, x, y):
        raise RuntimeError("never")


@pytest.mark.parametrize(
    "wrong",
    [
        {"teachers": 1},
        {"teachers": 2.0},
        {"units": ["one"]},
        {"classes": ("red",)},
        {"classes": ("red", "red")},
        {"public": np.zeros((60, 4))},
        {"public": np.full((60, 5), np.nan)},
        {"public_ids": ["one"]},
        {"estimator": Useless()},
        {"estimator": object()},
        {"units": [1] * 400},
        {"y": np.arange(400) % 2},
    ],
)
def test_nonsense_is_refused_without_data(wrong):
    with pytest.raises(BadInput) as refused:
        train_teachers(**({**problem(2), "teachers": 5, "estimator": LogisticRegression()} | wrong))
    assert "unit 1" not in str(refused.value)


def test_votes_are_checked():
    shape = {"ids": ("a",), "classes": ("x", "y"), "teachers": 3}
    for counts in ([[1, 1]], [[4, -1]], [[1, 2, 0]], [[1.5, 1.5]]):
        with pytest.raises(BadInput):
            Votes(**shape, counts=np.array(counts))
    with pytest.raises(BadInput):
        Votes(ids=("a", "a"), classes=("x", "y"), teachers=1, counts=np.array([[1, 0], [0, 1]]))
