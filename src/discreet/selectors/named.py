"""Selectors by name, for one query of a given (epsilon, delta), as `discreet select` asks for them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from discreet.errors import BadInput
from discreet.noise import Source
from discreet.planning.search import least_noise
from discreet.privacy.events import Event, Gaussian, PoissonSampledGaussian
from discreet.privacy.exact import Number, exact_decimal, exact_minus
from discreet.roles import Selector
from discreet.selectors.hidden import HiddenThresholdSelector
from discreet.selectors.noisy_top import GaussianTopK, LaplaceTopK
from discreet.selectors.plain import RandomSelector
from discreet.selectors.responding import ThresholdSelector
from discreet.selectors.sequential import ExponentialSelector

MECHANISMS = (
    "random",
    "laplace",
    "clipped-laplace",
    "gaussian",
    "subsampled-gaussian",
    "exponential",
    "threshold-response",
)
PAPER_CLIP, PAPER_SUBSAMPLE = 0.8, 0.7
_TOLERANCE = 1e-4


def selector_for(
    name: str,
    *,
    epsilon: Number,
    delta: Number = 0,
    limits: tuple[float, float] = (0.0, 1.0),
    clip: float | None = None,
    threshold_epsilon: Number | None = None,
    subsample: float = PAPER_SUBSAMPLE,
    source: Source | None = None,
) -> Selector:
    """The selector called ``name`` whose one query costs ``epsilon`` (at ``delta``, where it needs one), all told."""
    total, chance = exact_decimal(epsilon, "epsilon"), exact_decimal(delta, "delta")
    if name == HiddenThresholdSelector.name:
        raise BadInput(
            f"the mechanism {name}",
            "its price holds while nobody but owner and annotators sees whom it asks, and here that is shown",
            "Choose threshold-response; plan a hidden selection with `discreet plan --selection hidden`",
        )
    if name not in MECHANISMS:
        raise BadInput(f"the mechanism {name}", "there is none of that name", f"Choose one of {', '.join(MECHANISMS)}")
    if name == "random":
        return RandomSelector(source=source)
    if total <= 0:
        raise BadInput(f"epsilon={total} for {name}", "it must be above 0", "Give more, or choose random")
    if (clip is not None) != (name == "clipped-laplace") and clip is not None:
        raise BadInput(f"{name} with a clip", "only clipped-laplace has one", "Drop it")
    if name in ("gaussian", "subsampled-gaussian"):
        return _gaussian(total, chance, limits, 1.0 if name == "gaussian" else subsample)
    if chance:
        raise BadInput(f"{name} with delta={chance}", "its promise holds at delta 0", "Drop delta")
    if name == "threshold-response":
        tau = default_threshold_epsilon(total) if threshold_epsilon is None else exact_decimal(threshold_epsilon, "eps")
        if not 0 < tau < total:
            raise BadInput(
                f"a threshold for {tau}", f"it must be above 0 and below epsilon={total}", "Give less for it"
            )
        return ThresholdSelector(asked=exact_minus(total, tau), threshold_epsilon=tau, range=limits, tells_dropped=True)
    bottom, top = limits
    if name == "clipped-laplace":
        top = min(top, bottom + (PAPER_CLIP * (top - bottom) if clip is None else clip - bottom))
        return LaplaceTopK(epsilon=total, range=(bottom, top), name=name)
    makes: dict[str, Callable[..., Selector]] = {"laplace": LaplaceTopK, "exponential": ExponentialSelector}
    return makes[name](epsilon=total, range=limits)


def default_threshold_epsilon(total: Decimal) -> Decimal:
    """A fortieth of epsilon, at most 0.05: pools of thousands need no more."""
    return min(Decimal("0.05"), (total / 40).quantize(Decimal("1e-6"))) or Decimal("1e-6")


def _gaussian(epsilon: Decimal, delta: Decimal, limits: tuple[float, float], rate: float) -> GaussianTopK:
    """The least noise whose epsilon, by privacy loss distributions in both directions, is at most ``epsilon``."""
    from discreet.privacy.accounting.pld import pld_epsilons

    if not 0 < delta < 1:
        raise BadInput("a Gaussian selection", "it has no epsilon at delta 0", "Give delta, such as 1e-6")

    def cost(sigma: float) -> float:
        return max(pld_epsilons(_event(sigma, rate), float(delta)))

    sigma = least_noise(cost, float(epsilon), start=1.0, tolerance=_TOLERANCE, least=1e-2, most=1e4)
    if sigma is None:
        raise BadInput(f"a Gaussian selection at epsilon={epsilon}", "no sensible noise is that large", "Give more")
    return GaussianTopK(noise_multiplier=sigma, range=limits, subsample=rate)


def _event(sigma: float, rate: float) -> Event:
    if rate == 1:
        return Gaussian(noise_multiplier=sigma)
    return PoissonSampledGaussian(sampling_rate=rate, noise_multiplier=sigma)
