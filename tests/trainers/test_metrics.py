"""Metrics: known answers of scikit-learn, gradients by differences, what an evaluation says where nothing is known."""

import json
import math

import numpy as np
import pytest
from sklearn import metrics as sk

from discreet.errors import BadInput
from discreet.trainers.accuracy import METRICS
from discreet.trainers.layouts import Layout, choose_threshold, measure
from discreet.trainers.metrics import Curve, Uncertainty, area_under_roc, average_precision

EXACT = {"rtol": 0, "atol": 1e-12}


def two_classes(records, share, seed=0, digits=3):
    rng = np.random.default_rng(seed)
    y = (rng.random(records) < share).astype(int)
    scores = np.round(1 / (1 + np.exp(-(1.5 * y - 1 + rng.normal(size=records)))), digits)  # with ties
    return np.stack([1 - scores, scores], axis=1), y


def several_classes(records=1500, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y, powers = rng.integers(0, classes, records), rng.normal(size=(records, classes))
    powers[np.arange(records), y] += 1
    return np.exp(powers) / np.exp(powers).sum(axis=1, keepdims=True), y


def values_of(metrics):
    return {metric.name: metric.value for metric in metrics}


def same(metrics, expected):
    found = values_of(metrics)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, err_msg=name, **EXACT)


@pytest.mark.parametrize("threshold", [None, 0.3])
@pytest.mark.parametrize(("records", "share"), [(60, 0.5), (500, 0.3), (3000, 0.05)])
def test_two_classes_are_those_of_scikit_learn(records, share, threshold):
    probabilities, y = two_classes(records, share)
    scores = probabilities[:, 1]
    answers = probabilities.argmax(axis=1) if threshold is None else (scores >= threshold).astype(int)
    evaluation = measure(probabilities, y, Layout(classes=2, threshold=threshold))
    expected = {
        "accuracy": sk.accuracy_score(y, answers),
        "balanced-accuracy": sk.balanced_accuracy_score(y, answers),
        "auc": sk.roc_auc_score(y, scores),
        "average-precision": sk.average_precision_score(y, scores),
        "f1": sk.f1_score(y, answers),
        "log-loss": sk.log_loss(y, probabilities),
    }
    same(evaluation.metrics, expected)
    assert [metric.name for metric in evaluation.metrics] == list(METRICS)
    assert np.array_equal(evaluation.confusion, sk.confusion_matrix(y, answers))
    precision, recall, f1, _ = sk.precision_recall_fscore_support(y, answers)
    for number, part in enumerate(evaluation.per_class):
        same(part, {"precision": precision[number], "recall": recall[number], "f1": f1[number]})


def test_the_binned_calibration_error_is_its_definition():
    probabilities, y = two_classes(800, 0.4)
    scores, edges = probabilities[:, 1], (0.2, 0.5, 0.7)
    evaluation = measure(probabilities, y, Layout(classes=2, edges=edges))
    inside = [np.digitize(scores, edges) == number for number in range(4)]
    expected = sum(part.mean() * abs(scores[part].mean() - y[part].mean()) for part in inside if part.any())
    same(evaluation.metrics, {"calibration-error": expected})


def test_several_classes_are_those_of_scikit_learn():
    probabilities, y = several_classes()
    answers, table = probabilities.argmax(axis=1), np.eye(4)[y]
    evaluation = measure(probabilities, y, Layout(classes=4))
    expected = {
        "accuracy": sk.accuracy_score(y, answers),
        "balanced-accuracy": sk.balanced_accuracy_score(y, answers),
        "auc": sk.roc_auc_score(y, probabilities, multi_class="ovr"),
        "average-precision": sk.average_precision_score(table, probabilities),
        "f1": sk.f1_score(y, answers, average="macro"),
        "log-loss": sk.log_loss(y, probabilities),
    }
    same(evaluation.metrics, expected)
    assert np.array_equal(evaluation.confusion, sk.confusion_matrix(y, answers))
    for number, part in enumerate(evaluation.per_class):
        same(part, {"auc": sk.roc_auc_score(y == number, probabilities[:, number])})


def test_several_labels_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y = (rng.random((900, 3)) < 0.3).astype(float)
    scores = np.clip(0.3 * y + 0.6 * rng.random((900, 3)), 0, 1)
    evaluation = measure(scores, y, Layout(classes=3, multilabel=True))
    expected = {
        "accuracy": ((scores > 0.5) == y).mean(),
        "balanced-accuracy": np.mean([sk.balanced_accuracy_score(y[:, k], scores[:, k] > 0.5) for k in range(3)]),
        "auc": sk.roc_auc_score(y, scores),
        "average-precision": sk.average_precision_score(y, scores),
        "f1": sk.f1_score(y, scores > 0.5, average="macro"),
        "log-loss": np.mean([sk.log_loss(y[:, k], scores[:, k]) for k in range(3)]),
    }
    same(evaluation.metrics, expected)
    y[:200, 1] = np.nan
    part = measure(scores, y, Layout(classes=3, multilabel=True)).per_class[1]
    same(part, {"auc": sk.roc_auc_score(y[200:, 1], scores[200:, 1])})


def test_baselines_are_those_of_a_constant_answer():
    probabilities, y = two_classes(1000, 0.2)
    share = y.mean()
    evaluation = measure(probabilities, y, Layout(classes=2))
    never = measure(np.tile([1 - share, share], (1000, 1)), y, Layout(classes=2))
    found = {metric.name: metric.baseline for metric in evaluation.metrics}
    for name, value in values_of(never.metrics).items():
        np.testing.assert_allclose(found[name], value, err_msg=name, **EXACT)
    probabilities, y = several_classes()
    found = {metric.name: metric.baseline for metric in measure(probabilities, y, Layout(classes=4)).metrics}
    constant = np.tile(np.bincount(y) / len(y), (len(y), 1))
    for name, value in values_of(measure(constant, y, Layout(classes=4)).metrics).items():
        np.testing.assert_allclose(found[name], value, err_msg=name, atol=1e-9)


@pytest.mark.parametrize("function", [area_under_roc, average_precision])
def test_gradients_are_those_of_differences(function):
    cells = np.random.default_rng(0).integers(3, 40, (2, 12)).astype(float)
    _, gradient = function(cells)
    for place in np.ndindex(cells.shape):
        moved = [cells.copy(), cells.copy()]
        moved[0][place] += 1e-4
        moved[1][place] -= 1e-4
        difference = (function(moved[0])[0] - function(moved[1])[0]) / 2e-4
        np.testing.assert_allclose(gradient[place], difference, rtol=1e-6, atol=1e-9)


def test_what_cannot_be_told_is_none_with_the_whole_range():
    probabilities, y = two_classes(50, 0.5)
    evaluation = measure(probabilities, np.zeros(50, dtype=int), Layout(classes=2))
    for name in ("auc", "average-precision", "balanced-accuracy"):
        metric = evaluation.metric(name)
        assert (metric.value, metric.low, metric.high) == (None, 0.0, 1.0)
    nothing = measure(probabilities[:0], y[:0], Layout(classes=2))
    assert (nothing.accuracy, nothing.low, nothing.high) == (0.0, 0.0, 1.0)
    form = json.loads(json.dumps(nothing.to_json(), allow_nan=False))
    assert form["metrics"]["log-loss"] == {"value": None, "low": 0.0, "high": None, "baseline": None}
    with pytest.raises(BadInput, match="It tells accuracy"):
        nothing.metric("recall")


def test_where_everything_is_right_the_interval_is_not_a_point():
    scores = np.repeat([0.1, 0.9], 20)
    evaluation = measure(np.stack([1 - scores, scores], 1), np.repeat([0, 1], 20), Layout(classes=2))
    for name in ("accuracy", "balanced-accuracy", "auc", "average-precision", "f1"):
        metric = evaluation.metric(name)
        assert metric.value == metric.high == 1.0
        assert 0.5 < metric.low < 0.99, name


def test_bins_enclose_the_exact_metrics():
    """Whatever the order within bins: intervals of a binned table hold the exact values, with no sample and noise."""
    for seed in range(20):
        probabilities, y = two_classes(2000, 0.3, seed=seed, digits=6)
        layout = Layout(classes=2, edges=(0.25, 0.5, 0.75))
        exact = measure(probabilities, y, layout)
        curve = Curve.of_bins(layout.count(probabilities, y).reshape(2, 4), layout.bins)
        none = Uncertainty()
        for name, estimate in (
            ("auc", curve.auc(none)),
            ("average-precision", curve.average_precision(none)),
            ("calibration-error", curve.calibration_error(layout.bins, none)),
        ):
            value = exact.metric(name).value
            assert estimate.value - estimate.below - 1e-3 <= value <= estimate.value + estimate.above + 1e-3, name


def test_records_in_the_outermost_bins_are_tied():
    """Of a good model most scores are beyond the outermost edges: there, too, the order within a bin is not known."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    logits = 12 * (y - 0.5) + 3 * rng.normal(size=4000)
    probabilities = np.stack([1 / (1 + np.exp(logits)), 1 / (1 + np.exp(-logits))], axis=1)
    layout = Layout(classes=2, edges=(0.4, 0.6))
    exact = measure(probabilities, y, layout)
    curve = Curve.of_bins(layout.count(probabilities, y).reshape(2, 4), layout.bins)
    auc, calibration = curve.auc(Uncertainty()), curve.calibration_error(layout.bins, Uncertainty())
    assert auc.below == auc.above > 0.001
    assert abs(auc.value - exact.metric("auc").value) <= auc.above
    assert calibration.low <= exact.metric("calibration-error").value <= calibration.high


def test_with_few_edges_answers_are_as_they_were():
    probabilities, y = two_classes(1000, 0.4)
    for layout in (Layout(classes=2, edges=(0.3, 0.4)), Layout(classes=2, edges=(0.5, 0.9))):
        binned = layout.evaluation("paid", layout.count(probabilities, y), uncertainty=Uncertainty())
        assert binned.confusion == measure(probabilities, y, layout).confusion


def expected_of_one_class(y, scores):
    """By scikit-learn; None where it warns that a class has no records or answers, and leaves it out or says 0."""
    classes, answers = scores.shape[1], scores.argmax(axis=1)
    truth, named = np.eye(classes, dtype=int)[y], np.eye(classes, dtype=int)[answers]
    everywhere, told = truth.any(axis=0).all(), truth.any(axis=0) | named.any(axis=0)
    second = classes == 2
    f1 = sk.f1_score(y, answers, average="binary" if second else "macro", zero_division=0)
    aucs = [sk.roc_auc_score(truth[:, one], scores[:, one]) for one in range(classes)] if everywhere else []
    precisions = [sk.average_precision_score(truth[:, one], scores[:, one]) for one in range(classes)]
    return {
        "accuracy": sk.accuracy_score(y, answers),
        "balanced-accuracy": sk.balanced_accuracy_score(y, answers) if everywhere else None,
        "auc": np.mean(aucs) if everywhere else None,
        "average-precision": (precisions[1] if second else np.mean(precisions)) if everywhere else None,
        "f1": f1 if (told[1] if second else told.all()) else None,
        "log-loss": sk.log_loss(y, scores / scores.sum(axis=1, keepdims=True), labels=range(classes)),
    }


def expected_of_labels(y, scores):
    """By scikit-learn, as above."""
    named, labels = (scores > 0.5).astype(int), range(y.shape[1])
    both, told = y.any(axis=0).all() and not y.all(axis=0).any(), (y.any(axis=0) | named.any(axis=0)).all()
    losses = [sk.log_loss(y[:, one], scores[:, one], labels=[0, 1]) for one in labels]
    recalls = [sk.balanced_accuracy_score(y[:, one], named[:, one]) for one in labels]
    return {
        "accuracy": (y == named).mean(),
        "balanced-accuracy": np.mean(recalls) if both else None,
        "auc": sk.roc_auc_score(y, scores) if both else None,
        "average-precision": sk.average_precision_score(y, scores) if y.any(axis=0).all() else None,
        "f1": sk.f1_score(y, named, average="macro", zero_division=0) if told else None,
        "log-loss": np.mean(losses),
    }


SHAPES = {"two classes": (2, False), "five classes": (5, False), "three labels": (3, True)}


@pytest.mark.parametrize(("classes", "multilabel"), SHAPES.values(), ids=SHAPES)
@pytest.mark.filterwarnings("ignore::UserWarning")  # scikit-learn's, about classes without records
def test_random_tables_are_those_of_scikit_learn(classes, multilabel):
    """Ties, classes without records, one class alone, few records, records that the model fails on."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        records = int(rng.integers(2, 60))
        if multilabel:
            y = (rng.random((records, classes)) < rng.choice([0.1, 0.5])).astype(int)
            scores = np.round(rng.random((records, classes)), int(rng.integers(1, 4)))
        else:
            y = rng.choice(np.arange(classes)[: rng.integers(1, classes + 1)], records)
            scores = rng.integers(1, rng.choice([4, 100]), (records, classes))
            scores = scores / scores.sum(axis=1, keepdims=True)
        lost = (rng.random(records) < 0.1) & (np.arange(records) > 0)
        broken = np.where(lost[:, None], rng.choice([np.nan, np.inf, -np.inf]), scores)
        found = measure(broken, y, Layout(classes=classes, multilabel=multilabel)).metrics
        expected = (expected_of_labels if multilabel else expected_of_one_class)(y[~lost], scores[~lost])
        for name, value in expected.items():
            if value is None:
                assert values_of(found)[name] is None, (seed, name)
            else:
                np.testing.assert_allclose(values_of(found)[name], value, err_msg=f"{seed} {name}", **EXACT)


def test_nonsense_in_a_layout_is_refused():
    for wrong in (
        {"classes": 1},
        {"classes": 2, "table": "roc"},
        {"classes": 2, "multilabel": True, "table": "confusion"},
        {"classes": 2, "edges": (0.5, 0.2)},
        {"classes": 2, "edges": (0.5,)},
        {"classes": 2, "edges": (0.0, 0.2)},
        {"classes": 3, "threshold": 0.3},
        {"classes": 2, "threshold": 1.0},
        {"classes": 2, "threshold": math.nan},
        {"classes": 2, "groups": ("a", "a")},
    ):
        with pytest.raises(BadInput):
            Layout(**wrong)


def test_a_threshold_is_chosen_on_one_table_and_measured_on_another():
    probabilities, y = two_classes(4000, 0.05, digits=9)
    first = measure(probabilities[:2000], y[:2000], Layout(classes=2))
    chosen = choose_threshold(first)
    edges = first.table["edges"]
    by_hand = {edge: sk.f1_score(y[:2000], probabilities[:2000, 1] >= edge) for edge in edges}
    assert chosen in edges
    assert by_hand[chosen] == max(by_hand.values()) > by_hand[0.5]
    later = measure(probabilities[2000:], y[2000:], Layout(classes=2, threshold=chosen))
    same(later.metrics, {"f1": sk.f1_score(y[2000:], probabilities[2000:, 1] >= chosen)})
    assert later.metric("f1").value < by_hand[chosen]  # the best of several is too good to be true
    for layout in (Layout(classes=2, threshold=chosen), Layout(classes=2, threshold=chosen, groups=("a",))):
        with pytest.raises(BadInput, match="chosen on this table"):
            measure(probabilities[:2000], y[:2000], layout, np.zeros(2000, dtype=int))
    several, labels = several_classes()
    for evaluation, metric in ((first, "auc"), (measure(several, labels, Layout(classes=4)), "f1")):
        with pytest.raises(BadInput):
            choose_threshold(evaluation, metric)


def test_a_threshold_is_chosen_on_the_stored_form_of_an_evaluation():
    rng = np.random.default_rng(7)
    y = (rng.random(2_000) < 0.1).astype(int)
    score = 1 / (1 + np.exp(2 - 2 * y - rng.normal(size=2_000)))
    evaluation = measure(np.stack([1 - score, score], axis=1), y, Layout(classes=2))
    chosen = choose_threshold(json.loads(json.dumps(evaluation.to_json())), "f1")
    assert chosen == choose_threshold(evaluation, "f1") != 0.5
    with pytest.raises(BadInput, match="chosen on this table"):
        measure(np.stack([1 - score, score], axis=1), y, Layout(classes=2, threshold=chosen))


def test_a_record_that_the_model_fails_on_counts_nowhere():
    probabilities, y = two_classes(300, 0.4)
    broken = probabilities.copy()
    broken[:50], broken[50:80], broken[80:100] = np.nan, np.inf, -np.inf
    groups = np.zeros(300, dtype=int)
    layout = Layout(classes=2, groups=("a",))
    expected = measure(probabilities[100:], y[100:], layout, groups[100:]).to_json()
    assert measure(broken, y, layout, groups).to_json() == expected


def test_subgroups_are_measured_by_themselves():
    probabilities, y = two_classes(600, 0.4)
    groups = np.random.default_rng(0).integers(-1, 2, 600)
    evaluation = measure(probabilities, y, Layout(classes=2, groups=("a", "b")), groups)
    for number, name in enumerate(("a", "b")):
        alone = measure(probabilities[groups == number], y[groups == number], Layout(classes=2))
        assert evaluation.groups[name] == alone.metrics
