"""Students: what they ask, what unstable answers become, voting that fails and voting that wins."""

import math

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.tree import DecisionTreeClassifier

from discreet.errors import BadInput
from discreet.trainers.students import disagreement_student, margin_student, passive_student, voting_student
from discreet.trainers.students.disagreement import _quadratic, allowed_rise
from discreet.trainers.students.student import ActiveStudent

CLASSES = ("no", "yes")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 4))
Y = (X @ [2.0, -1.0, 0.5, 0.0] > 0.3).astype(int)
FRESH = RNG.normal(size=(2000, 4))
FRESH_Y = (FRESH @ [2.0, -1.0, 0.5, 0.0] > 0.3).astype(int)


class Asked:
    """Answers by the truth, and remembers; ``silent`` are unstable."""

    def __init__(self, silent=()):
        self.places, self.silent = [], set(silent)

    def __call__(self, places):
        self.places += list(places)
        return [None if place in self.silent else CLASSES[Y[place]] for place in places]


def accuracy(student):
    return (student.predict(FRESH) == FRESH_Y).mean()


@pytest.mark.parametrize("way", [passive_student, margin_student, disagreement_student])
@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), DecisionTreeClassifier(max_depth=5), RandomForestClassifier(n_estimators=8)],
    ids=["linear", "tree", "forest"],
)
def test_students_learn_within_their_cap(way, estimator):
    asked = Asked()
    student = way(X, asked, classes=CLASSES, estimator=estimator, answers=200, seed=3)
    assert len(asked.places) == len(set(asked.places)) <= 200
    assert student.asked == tuple(asked.places)
    assert student.answered == len(asked.places)
    assert student.fits <= 90  # geometrically often, committees included
    assert accuracy(student) > (0.9 if isinstance(estimator, LogisticRegression) else 0.8)


def test_asking_where_it_is_torn_beats_asking_at_random():
    shape = {"classes": CLASSES, "estimator": LogisticRegression(C=100.0), "answers": 100}
    gain = [
        accuracy(margin_student(X, Asked(), **shape, seed=seed))
        - accuracy(passive_student(X, Asked(), **shape, seed=seed))
        for seed in range(5)
    ]
    assert np.mean(gain) > 0.005


def test_disagreement_asks_less_than_everything_and_infers_rightly():
    asked = Asked()
    student = disagreement_student(
        X, asked, classes=CLASSES, estimator=LogisticRegression(C=100.0), answers=1500, seed=1
    )
    assert len(asked.places) < 750
    assert student.inferred > 750
    assert accuracy(student) > 0.98


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(C=0.003), LogisticRegression(C=0.03), DecisionTreeClassifier(min_samples_leaf=20)],
    ids=["always one class", "at first one class", "tree"],
)
def test_a_first_model_that_says_one_class_everywhere_is_not_believed(estimator):
    """It labelled everything after 50 answers, by itself, and stopped."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4000, 6))
    y = (x @ [2.0, -1.0, 0.5, 0, 0, 0] > 2.4).astype(int)
    student = disagreement_student(
        x, lambda places: [CLASSES[y[p]] for p in places], classes=CLASSES, estimator=estimator, answers=600, seed=1
    )
    assert len(student.asked) == len(set(student.asked)) > 300
    if not isinstance(estimator, LogisticRegression) or estimator.C > 0.01:
        assert student.predict(x[y == 1]).any()
    else:  # no answers make it say another: all were bought, and nothing was inferred
        assert (len(student.asked), student.inferred) == (600, 0)


def test_the_quadratic_oracle_is_that_of_refitting():
    """On records far from the boundary and near it, the rise of the loss says what training again says."""
    student = ActiveStudent(x=X, ask=Asked(), classes=CLASSES, estimator=LogisticRegression(), seed=0)
    student.question(range(300))
    model = student.model()
    batch = np.arange(300, 1500)
    region = _quadratic(student, model, batch, 0.3)
    scores = np.abs(model.decision_function(X[batch]))
    assert 0.02 < region.mean() < 0.6
    assert scores[region].mean() < 0.5 * scores[~region].mean()
    places, codes = student.training_set()
    allowed = allowed_rise(places, codes, student, model, 0.3)

    def loss(fitted):
        z = fitted.decision_function(X[places]) * (2 * codes - 1)
        return np.logaddexp(0, -z).sum() + (fitted.coef_**2).sum() / 2

    right = 0
    tried = [*np.flatnonzero(region)[:6], *np.flatnonzero(~region)[:6]]
    for number in tried:
        place = batch[number]
        turned = 1 - int(model.predict(X[[place]])[0])
        held = model
        for weight in np.geomspace(0.2, 200, 25):  # the least weight with which the record is held on the other side
            if held.predict(X[[place]])[0] == turned:
                break
            weights = [1.0] * len(places) + [weight]
            held = LogisticRegression().fit(X[[*places, place]], [*codes, turned], sample_weight=weights)
        right += (loss(held) - loss(model) <= allowed) == region[number]
    assert right >= 0.8 * len(tried)


def test_the_exact_oracle_refits():
    asked = Asked()
    student = disagreement_student(
        X[:160], asked, classes=CLASSES, estimator=LogisticRegression(), answers=160, oracle="refit", caution=0.05
    )
    assert len(asked.places) < 160
    assert student.fits > 50


@pytest.mark.parametrize(("unstable", "learnt"), [("arbitrary", 100), ("dropped", 80), ("pseudo-label", 100)])
def test_what_an_unstable_answer_becomes(unstable, learnt):
    silent = np.random.default_rng(2).permutation(1500)[:20]
    student = ActiveStudent(
        x=X, ask=Asked(silent), classes=CLASSES, estimator=LogisticRegression(), seed=2, unstable=unstable
    )
    others = [place for place in range(300) if place not in set(silent.tolist())][:80]
    student.question([*silent.tolist(), *others])
    places, codes = student.training_set()
    assert len(places) == learnt
    turned = (codes[np.isin(places, silent)] != Y[places[np.isin(places, silent)]]).mean() if learnt > 80 else 0
    assert turned <= (0.9 if unstable == "arbitrary" else 0.3)
    if unstable == "arbitrary":
        assert turned > 0.2


def test_pseudo_labels_are_free():
    asked = Asked()
    student = passive_student(
        X, asked, classes=CLASSES, estimator=LogisticRegression(), answers=60, pseudo_labels=True, seed=1
    )
    assert len(asked.places) == 60
    assert student.inferred > 300
    scored = margin_student(X, Asked(), classes=CLASSES, estimator=RidgeClassifier(), answers=60, pseudo_labels=True)
    assert accuracy(scored) > 0.85


def test_nothing_heard_is_no_failure():
    student = passive_student(X, Asked(range(1500)), classes=CLASSES, estimator=LogisticRegression(), answers=20)
    assert student.answered == 0
    assert set(student.predict(FRESH)) == {0}
    disagreement_student(X, Asked(range(1500)), classes=CLASSES, estimator=LogisticRegression(), answers=20)


def test_a_voting_student_fits_what_no_single_model_does():
    """Theorem 13: the vote of three thresholds is in no class of single ones."""
    x = np.random.default_rng(4).uniform(size=(2000, 3))
    y = (x > 0.5).sum(axis=1) >= 2
    names = [CLASSES[int(code)] for code in y]
    shape = {"classes": CLASSES, "answers": 1000, "seed": 0}
    single, vote = (
        passive_student(x, lambda places: [names[place] for place in places], estimator=estimator, **shape)
        for estimator in (DecisionTreeClassifier(max_depth=1), voting_student(rounds=30, depth=1))
    )
    assert (single.predict(x) == y).mean() < 0.8
    assert (vote.predict(x) == y).mean() > 0.95


def test_nonsense_is_refused():
    with pytest.raises(BadInput):
        passive_student(X, Asked(), classes=CLASSES, estimator=LogisticRegression(), answers=0)
    with pytest.raises(BadInput):
        passive_student(X, Asked(), classes=CLASSES, estimator=LogisticRegression(), answers=5, unstable="guess")
    with pytest.raises(BadInput):
        disagreement_student(X, Asked(), classes=CLASSES, estimator=LogisticRegression(), answers=5, oracle="crystal")
    for wrong in ({"growth": 1.0}, {"first": 0}, {"growth": float("inf")}):  # would go on for ever
        with pytest.raises(BadInput):
            disagreement_student(X, Asked(), classes=CLASSES, estimator=LogisticRegression(), answers=5, **wrong)
    with pytest.raises(BadInput):
        voting_student(rounds=0)


# -- the paper's two examples


def votes_of_erm(teachers, examples, rng):
    """Example 8: four points, always 1; three hypotheses, each right on two. ERM is a uniform draw: all err alike."""
    hypotheses = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]])
    votes = np.zeros(4, dtype=int)
    for _ in range(teachers):
        drawn = rng.integers(4, size=examples)
        errors = (hypotheses[:, drawn] == 0).sum(axis=1)
        best = np.flatnonzero(errors == errors.min())
        votes += hypotheses[rng.choice(best)]
    return votes


def test_voting_can_fail():
    """Every hypothesis errs on half of the points, and their vote on three quarters (Example 8)."""
    rng = np.random.default_rng(8)
    votes = votes_of_erm(teachers=3001, examples=50, rng=rng)
    majority = votes * 2 > 3001
    assert majority.tolist() == [True, False, False, False]
    assert 1 - majority.mean() == 0.75


def test_voting_can_win():
    """Teachers that are right with chance 0.6 at every point: the vote errs below exp(-2 K 0.1^2) (Example 9)."""
    rng = np.random.default_rng(9)
    for teachers in (11, 101, 501):
        right = rng.binomial(teachers, 0.6, size=20_000)
        error = (2 * right <= teachers).mean()
        assert error <= math.exp(-2 * teachers * 0.01)
    assert error < 1e-3
