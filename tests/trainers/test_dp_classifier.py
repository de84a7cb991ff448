"""`DPClassifier` under scikit-learn's own checks, and under ours.

All of scikit-learn's checks pass, given what privacy demands be declared: epsilon and delta (no default), and
``classes="from-labels"`` (the checks never declare classes; by default labels of private records may not name them).
One check contradicts privacy and is answered by a tag, `allow_nan`: an estimator should raise an error for NaN in X.
Ours trains such a record as a null, because the error would tell that it was there.
"""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import BaggingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import discreet
from discreet import DPClassifier
from discreet.classifier import _numbers, _shaped
from discreet.errors import BadInput, LedgerUnavailable
from discreet.privacy.certificate import verify, write_certificate
from discreet.trainers.dp_sgd import MISSING, Settings

pytestmark = pytest.mark.thorough

FREE = {"epsilon": 50, "delta": "1e-3", "accountant": "rdp", "batch": 64, "epochs": 8, "simulation_seed": 0}


@parametrize_with_checks([DPClassifier(classes="from-labels", **FREE)])
def test_scikit_learns_checks(estimator, check):
    if "check_class_weight_classifiers" in repr(check):  # its records are not scaled: the spread is declared
        estimator.set_params(scale=20.0, epochs=30)
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    return x, y


def test_it_learns_digits_and_certifies_it(digits, tmp_path):
    x, y = digits
    model = DPClassifier(
        epsilon=8, delta="1e-5", classes=range(10), scale=16, batch=256, epochs=30, accountant="rdp", simulation_seed=1
    )
    model.fit(x[:1400], y[:1400])
    assert model.score(x[1400:], y[1400:]) > 0.8
    assert model.simulation_
    made = model.certificate()
    assert made["budget"]["epsilon"] == 8
    assert made["simulation"]
    file = tmp_path / "certificate.json"
    write_certificate(made, file)
    assert verify(file).ok
    assert model.predict_proba(x[:3]).shape == (3, 10)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(x[:9]), model.predict(x[:9]))


def test_the_promise_and_the_classes_are_declared(digits):
    x, y = digits
    with pytest.raises(BadInput, match="epsilon or delta"):
        DPClassifier(classes=range(10)).fit(x, y)
    with pytest.raises(BadInput, match="from-labels"):
        DPClassifier(epsilon=1, delta="1e-5").fit(x, y)
    for wrong in ([0, 0, 1], "digits"):
        with pytest.raises(BadInput):
            DPClassifier(epsilon=1, delta="1e-5", classes=wrong).fit(x, y)


def test_a_label_that_was_not_declared_is_a_null(digits):
    x, y = digits[0][:300], digits[1][:300]
    assert (y == 9).any()
    few = DPClassifier(classes=list(range(9)), **FREE).fit(x, y)
    assert list(few.classes_) == list(range(9))
    other_labels = np.where(y == 9, 77, y)
    same = DPClassifier(classes=list(range(9)), **FREE).fit(x, other_labels)
    np.testing.assert_array_equal(few.predict_proba(x[:5]), same.predict_proba(x[:5]))


def test_classes_keep_the_order_they_were_declared_in(digits):
    assert _numbers([1, 9, 5, 7, [1], None], np.array([5, 1, 9])).tolist() == [1, 2, 0, MISSING, MISSING, MISSING]
    x, y = digits
    order = [3, 0, 9, 1, 8, 2, 7, 4, 6, 5]
    model = DPClassifier(classes=order, scale=16, **(FREE | {"epochs": 20})).fit(x[:1400], y[:1400])
    assert list(model.classes_) == order
    assert model.score(x[1400:], y[1400:]) > 0.7


def test_ensembles_do_not_turn_it_into_a_simulation(digits):
    x, y = digits[0][:200], digits[1][:200]
    member = DPClassifier(classes=range(10), **(FREE | {"simulation_seed": None, "epochs": 1}))
    both = BaggingClassifier(member, n_estimators=2, random_state=0).fit(x, y)
    assert [one.simulation_ for one in both.estimators_] == [False, False]


def test_nonsense_is_refused_and_nothing_of_the_data_is_said(digits):
    x, y = digits[0][:60], digits[1][:60]
    for wrong in (
        {"scale": 0},
        {"center": np.nan},
        {"scale": "x"},
        {"center": np.zeros(3)},
        {"batch": "x"},
        {"classes": 2},
        {"classes": [[0, 1]]},
        {"ledger": "nowhere/at/all.ledger"},
    ):
        with pytest.raises(BadInput):
            DPClassifier(**({"classes": range(10)} | FREE | wrong)).fit(x, y)
    with pytest.raises(BadInput, match="person"):
        DPClassifier(classes=range(10), **FREE).fit(x, y, persons=y)
    named = x.astype(object)
    named[3, 3] = "Alice Smith"
    with pytest.raises(ValueError, match="convert") as caught:
        DPClassifier(classes=range(10), **FREE).fit(named, y)
    assert "Alice" not in str(caught.value)
    assert caught.value.__suppress_context__
    for wrong in (x[:, 0] + 0.1257, x.astype(complex) + 0.1257):
        with pytest.raises(ValueError, match="2D|Complex") as caught:
            DPClassifier(classes=range(10), **FREE).fit(wrong, y)
        assert "1257" not in str(caught.value)


def test_declared_class_weights_teach_the_rare_class():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(2000) < 0.07, "yes", "no")
    x = rng.normal(size=(2000, 5)) * 0.5 + (y == "yes")[:, None] * np.eye(5)[0]
    options = FREE | {"epsilon": 3, "delta": "1e-6", "batch": 200, "epochs": 20, "classes": ["no", "yes"]}
    recall = {}
    for weight in (None, {"yes": 8}):
        model = clone(DPClassifier(class_weight=weight, **options)).fit(x, y)
        recall[weight is None] = (model.predict(x) == y)[y == "yes"].mean()
    assert recall[False] > recall[True] + 0.25
    for wrong in ("balanced", {"maybe": 2}, {"yes": 0}, {"yes": "many"}, [1, 8]):
        with pytest.raises(BadInput, match="class.weight"):
            DPClassifier(class_weight=wrong, **options).fit(x, y)
    with pytest.raises(BadInput, match="usual loss"):
        DPClassifier(class_weight={"yes": 8}, settings=Settings(loss="multilabel-bce"), **options).fit(x, y)


def test_a_refit_that_fails_leaves_the_model_as_it_was(digits):
    x, y = digits[0][:100], digits[1][:100]
    model = DPClassifier(classes=range(10), **(FREE | {"epochs": 1})).fit(x, y)
    before = model.predict(x)
    model.set_params(classes=[f"d{k}" for k in range(10)], settings=Settings(optimizer="foo"))
    with pytest.raises(BadInput):
        model.fit(x, np.array([f"d{k}" for k in y]))
    np.testing.assert_array_equal(model.predict(x), before)


def test_what_fails_is_found_before_the_ledger_is_charged(digits, tmp_path):
    x, y = digits[0][:100], digits[1][:100]
    options = FREE | {"epochs": 1, "ledger": tmp_path / "a.ledger", "classes": range(10)}
    with pytest.raises(BadInput):
        DPClassifier(settings=Settings(optimizer="foo"), **options).fit(x, y)
    assert DPClassifier(**options).fit(x, y).predict(x[:2]).shape == (2,)


def test_a_record_with_nan_is_a_null_and_nobody_hears_of_it(digits, recwarn):
    x, y = digits[0][:300].copy(), digits[1][:300]
    x[7, 3] = np.nan
    with_nan = DPClassifier(classes=range(10), **FREE).fit(x, y)
    x[7] = np.inf
    with_inf = DPClassifier(classes=range(10), **FREE).fit(x, y)
    np.testing.assert_array_equal(with_nan.predict_proba(digits[0][:5]), with_inf.predict_proba(digits[0][:5]))
    x[7], unlabelled = digits[0][7], y.copy()
    unlabelled[7] = 77
    null = DPClassifier(classes=range(10), **FREE).fit(x, unlabelled)
    np.testing.assert_array_equal(with_nan.predict_proba(digits[0][:5]), null.predict_proba(digits[0][:5]))
    x[7] = 1e300  # too large for the floats we train with
    huge = DPClassifier(classes=range(10), **FREE).fit(x, y)
    np.testing.assert_array_equal(with_nan.predict_proba(digits[0][:5]), huge.predict_proba(digits[0][:5]))
    assert np.isfinite(with_nan.predict_proba(digits[0][:5])).all()
    assert not [w for w in recwarn if not issubclass(w.category, discreet.privacy.budget.LooseDelta)]


def test_labels_that_are_none_are_nulls_and_nobody_hears_of_them(digits):
    x, y = digits[0][:300], digits[1][:300]
    fits = []
    for odd in (np.nan, 0.5, 99.0):
        labels = y.astype(float)
        labels[7] = odd
        fits.append(DPClassifier(classes=range(10), **FREE).fit(x, labels).predict_proba(x[:5]))
    named = np.array([f"d{k}" for k in y], dtype=object)
    named[7] = None
    fits.append(DPClassifier(classes=[f"d{k}" for k in range(10)], **FREE).fit(x, named).predict_proba(x[:5]))
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0], other)
    with pytest.raises(BadInput, match="a row"):
        DPClassifier(classes=range(10), **FREE).fit(x, y[:9])
    nothing = np.full((1, 64), np.nan)
    model = DPClassifier(classes=range(10), **(FREE | {"epochs": 1})).fit(x, y)
    np.testing.assert_allclose(model.predict_proba(nothing), 0.1)


def test_one_odd_label_changes_no_other():
    """Codes of 18 digits among which one is missing: as one array of numpy they would all be rounded floats."""
    x, _ = make_classification(60, random_state=0)
    one, other = 123456789012345678, 123456789012345679
    fits = []
    for odd in (float("nan"), "odd", None, [1], -1):
        labels = [one] * 30 + [other] * 29 + [odd]
        fits.append(DPClassifier(classes=[one, other], **FREE).fit(x, labels).predict_proba(x))
    for found in fits[1:]:
        np.testing.assert_array_equal(fits[0], found)
    assert np.abs(fits[0][:, 0] - 0.5).max() > 0.05  # something was learnt


def test_production_is_not_a_simulation_and_two_fits_differ():
    x, y = make_classification(200, random_state=0)
    options = FREE | {"simulation_seed": None, "epochs": 2}
    fits = [DPClassifier(classes=[0, 1], **options).fit(x, y) for _ in range(2)]
    assert not fits[0].simulation_
    assert not np.array_equal(fits[0].predict_proba(x), fits[1].predict_proba(x))
    assert fits[0].__sklearn_tags__().non_deterministic


def test_pictures_in_rows(digits):
    x, y = digits
    options = FREE | {"epochs": 1, "batch": 32}
    model = DPClassifier(
        classes=range(10), model="mlp", inputs=(1, 8, 8), model_options={"hidden": (8,), "dropout": 0.5}, **options
    ).fit(x[:100], y[:100])
    assert model.predictor_.sample_proba(_shaped(model, x[:4].astype(np.float32)), 5).shape == (5, 4, 10)
    with pytest.raises(BadInput, match="64 numbers"):
        DPClassifier(classes=range(10), inputs=(3, 8), **options).fit(x[:100], y[:100])


def test_persons(digits):
    x, y = digits
    persons = np.arange(len(y)) // 10
    model = DPClassifier(classes=range(10), unit="person", settings=Settings(records_per_person=4), **FREE)
    with pytest.raises(BadInput, match="persons"):
        model.fit(x, y)
    model.fit(x, y, persons=persons)
    assert model.plan_.budget.unit == "person"
    assert model.plan_.cohorts[0].size == 180


def test_in_a_pipeline_and_cloned(digits):
    x, y = digits
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), DPClassifier(classes=range(10), **(FREE | {"epochs": 2})))
    assert clone(pipeline).fit(x, y).predict(x[:3]).shape == (3,)


class Killed(BaseException):
    """As good as death."""


@pytest.mark.parametrize("seed", [None, 5])
def test_a_killed_fit_goes_on_and_a_finished_one_is_not_repeated(tmp_path, digits, seed):
    x, y = digits[0][:400], digits[1][:400]
    options = {
        **FREE,
        "classes": range(10),
        "simulation_seed": seed,
        "ledger": tmp_path / "fit.ledger",
        "checkpoints": tmp_path / "kept",
        "settings": Settings(checkpoint_every=5),
    }

    def dies(done, steps):
        if done == 17:
            raise Killed

    with pytest.raises(Killed):
        DPClassifier(watch=dies, **options).fit(x, y)
    steps = []
    model = DPClassifier(watch=lambda done, _: steps.append(done), **options).fit(x, y)
    assert steps[0] == 16  # from the checkpoint of step 15
    assert len((tmp_path / "fit.ledger").read_text().splitlines()) == 2
    assert not [path for path in (tmp_path / "kept").iterdir() if path.suffix == ".key"]
    with pytest.raises(BadInput, match="Give ledger"):
        DPClassifier(**(options | {"ledger": None})).fit(x, y)
    if seed is None:
        with pytest.raises(LedgerUnavailable, match="over"):
            DPClassifier(**options).fit(x, y)
    with pytest.raises(LedgerUnavailable, match="another plan"):
        DPClassifier(**(options | {"epochs": 9})).fit(x, y)
    assert model.predict(x[:2]).shape == (2,)
