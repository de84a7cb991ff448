"""Tables of a campaign on public data: the private model it begins with, and the private records it learnt from.

What the checkpoint promised is declared in one of three ways, and joins the budget: its statement, its DP-SGD, or its
certificate.
"""

# ruff: noqa: RUF009 - `key` is dataclasses.field with a check
from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from discreet.config.keys import key
from discreet.config.values import exact, number, text, whole

_PATH = text(what="a path")


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """The private model that a campaign on public data begins with: weights of [model], as safetensors.

    epsilon, delta                              what it states, if that is all one knows
    sampling_rate, noise_multiplier, steps      of the DP-SGD that made it: composes more tightly
    certificate                                 of discreet, which is verified; its claim is taken
    recall                                      what it says itself of unlabelled public records counts, while it is
                                                fine-tuned, as much as so many labels, so that it does not forget
    """

    path: str = key(_PATH, add="path = 'weights.safetensors'")
    epsilon: Decimal | None = key(exact(zero=False, such_as="'3'"), None)
    delta: Decimal | None = key(exact(zero=True, below=1, such_as="'1e-6'"), None)
    sampling_rate: float | None = key(number(1e-12, 1, such_as="0.01"), None)
    noise_multiplier: float | None = key(number(1e-3, 1e9), None)
    steps: int | None = key(whole(most=10**8), None)
    certificate: str | None = key(_PATH, None)
    recall: float = key(number(0, 1e6, such_as="500"), 0.0)

    @property
    def ways(self) -> tuple[bool, bool, bool]:
        """Which of the three ways something was said of: a statement, a training, a certificate."""
        trained = (self.sampling_rate, self.noise_multiplier, self.steps)
        return (
            self.epsilon is not None or self.delta is not None,
            any(one is not None for one in trained),
            self.certificate is not None,
        )


@dataclass(frozen=True, kw_only=True)
class PrivateConfig:
    """The private records that the checkpoint learnt from, declared as the pool's are. near-private counts them."""

    path: str = key(_PATH, add="path = 'private.npz'")
    size: int = key(whole(), add="size = 40000, the number of private records: it is declared, never counted")
