import doctest

import discreet
from discreet import api


def test_the_exported_names_are_these_and_sorted():
    assert discreet.__all__ == [
        "BadInput",
        "Budget",
        "BudgetExceeded",
        "DPClassifier",
        "DiscreetError",
        "InfeasiblePlan",
        "Plan",
        "__version__",
        "create_campaign",
        "create_ledger",
        "export_model",
        "load_campaign",
        "load_model",
        "open_ledger",
        "plan",
        "tune",
    ]
    assert all(hasattr(discreet, name) for name in discreet.__all__)


def test_the_facades_example_is_true():
    assert doctest.testmod(api).failed == 0


def test_every_error_is_in_the_drawn_tree():
    from discreet import errors

    drawn = errors.__doc__
    classes = [
        value for value in vars(errors).values() if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    assert len(classes) == 24
    for cls in classes:
        assert issubclass(cls, errors.DiscreetError)
        assert cls.__name__ in drawn
