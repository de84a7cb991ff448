import json
import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadInput, InvalidEvent
from discreet.privacy.event_forms import REGISTRY, flatten, from_json, to_dp_accounting, to_json
from discreet.privacy.events import (
    BoundedRange,
    Composed,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    PmfFamily,
    PoissonSampledGaussian,
    Pure,
    ReleaseGate,
    Repeated,
    Stated,
    ThresholdResponse,
)

positive = st.floats(min_value=1e-6, max_value=1e6)
losses = st.decimals(min_value=0, max_value=50, places=9)
elementary = st.one_of(
    st.builds(Gaussian, noise_multiplier=positive),
    st.builds(PoissonSampledGaussian, sampling_rate=st.floats(1e-9, 1), noise_multiplier=positive),
    st.builds(Laplace, epsilon=losses),
    st.builds(DiscreteLaplace, epsilon=losses, sensitivity=st.integers(1, 9)),
    st.builds(Pure, epsilon=losses),
    st.builds(Stated, epsilon=losses, delta=st.decimals(min_value=0, max_value="0.5", places=9)),
    st.builds(BoundedRange, epsilon=losses),
    st.builds(ThresholdResponse, asked=losses, missed=losses),
    st.builds(ReleaseGate, k=st.integers(1, 10**6), beta=st.floats(1e-9, 0.999), counts=st.booleans()),
    st.just(PmfFamily(present=((0.25, 0.75),), absent=((0.5, 0.5),))),
)
events = st.recursive(
    elementary,
    lambda inner: st.one_of(
        st.builds(Repeated, event=inner, count=st.integers(0, 10**6)),
        st.builds(Composed, events=st.lists(inner, max_size=4).map(tuple)),
    ),
    max_leaves=8,
)


@given(events)
def test_stored_forms_read_back_equal(event):
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


def test_every_kind_is_in_the_registry_and_nothing_else():
    def below(cls):
        return set(cls.__subclasses__()).union(*map(below, cls.__subclasses__()))

    # a class without a kind of its own, such as PureEvent, is a base of others and is never stored
    ours = {cls for cls in below(Event) if cls.__module__.startswith("discreet.") and "kind" in vars(cls)}
    assert set(REGISTRY.values()) == ours


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)


@given(elementary, st.text(max_size=8), json_values, st.booleans())
def test_a_damaged_form_is_an_error_of_ours_or_the_same_event(event, key, value, replace_known):
    form = to_json(event)
    form[sorted(form)[len(key) % len(form)] if replace_known else key] = value
    try:
        read = from_json(form)
    except BadInput:
        return
    assert isinstance(read, Event)
    assert from_json(to_json(read)) == read


@pytest.mark.parametrize(
    "form", [None, [], "x", {}, {"kind": "os.system", "version": 1}, {"kind": "pure", "version": 2}]
)
def test_only_registered_kinds_are_read(form):
    with pytest.raises(InvalidEvent):
        from_json(form)


def test_forms_that_nest_without_end_are_refused():
    form = to_json(Pure(epsilon=1))
    for _ in range(40):
        form = {"kind": "repeated", "version": 1, "event": form, "count": 1}
    with pytest.raises(InvalidEvent):
        from_json(form)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gaussian(noise_multiplier=0),
        lambda: Gaussian(noise_multiplier=math.nan),
        lambda: Gaussian(noise_multiplier=True),
        lambda: Gaussian(noise_multiplier="2"),
        lambda: PoissonSampledGaussian(sampling_rate=1.1, noise_multiplier=1),
        lambda: Laplace(epsilon=-1),
        lambda: DiscreteLaplace(epsilon=1, sensitivity=0),
        lambda: Repeated(event=Pure(epsilon=1), count=-1),
        lambda: Repeated(event=3, count=1),
        lambda: Composed(events=[Pure(epsilon=1)]),
        lambda: PmfFamily(present=((0.5, 0.6),), absent=((0.5, 0.5),)),
        lambda: PmfFamily(present=(), absent=()),
        lambda: PmfFamily(present=((1.0,),), absent=((0.5, 0.5),)),
    ],
)
def test_parameters_that_mean_nothing_are_refused(make):
    with pytest.raises(InvalidEvent):
        make()


def test_pure_sums_are_exact():
    ten = Repeated(event=Laplace(epsilon="0.1"), count=10)
    assert Composed(events=(ten, Pure(epsilon="0.3"), DiscreteLaplace(epsilon=0.7))).pure_epsilon() == Decimal(2)
    assert Composed(events=(ten, Gaussian(noise_multiplier=1))).pure_epsilon() is None
    assert ThresholdResponse(asked="2", missed="0.2").pure_epsilon() == 2


def test_flattening_counts():
    inner = Composed(events=(Pure(epsilon=1), Repeated(event=Pure(epsilon=2), count=3)))
    assert list(flatten(Repeated(event=inner, count=2))) == [(Pure(epsilon=1), 2), (Pure(epsilon=2), 6)]


@settings(deadline=None)  # the first one imports dp_accounting
@given(elementary.filter(lambda e: not isinstance(e, (PmfFamily, ReleaseGate, Stated))))
def test_conversion_keeps_the_mechanism(event):
    import dp_accounting as dpa

    other = to_dp_accounting(event)
    match event:
        case Gaussian():
            assert other.noise_multiplier == event.noise_multiplier
        case PoissonSampledGaussian():
            assert other.sampling_probability == event.sampling_rate
            assert other.event.noise_multiplier == event.noise_multiplier
        case _ if event.pure_epsilon() == 0:
            assert isinstance(other, dpa.NoOpDpEvent)
        case Laplace():
            assert 1 / other.noise_multiplier == pytest.approx(float(event.epsilon))
        case DiscreteLaplace():
            assert other.noise_parameter * other.sensitivity == pytest.approx(float(event.epsilon))
        case _:  # randomized response: e^eps = (2 - lambda) / lambda for two buckets
            ratio = (2 - other.noise_parameter) / other.noise_parameter
            assert math.log(ratio) == pytest.approx(float(event.pure_epsilon()), abs=1e-6)
