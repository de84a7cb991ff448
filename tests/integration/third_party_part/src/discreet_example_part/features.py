"""A feature map: which numbers are above a threshold."""

from dataclasses import dataclass

import numpy as np

from discreet.checks import number
from discreet.features import ArrayMap
from discreet.parts import Option, Part


@dataclass(frozen=True, kw_only=True)
class Signs(ArrayMap):
    """+1 where a number is above ``threshold``, else -1, divided by the root of their number."""

    name = "signs"
    block = 64
    norm_bound = 1.00001
    input_shape: tuple[int, ...]
    threshold: float = 0.0

    @property
    def output_shape(self):
        return self.input_shape

    def options(self):
        return {"shape": list(self.input_shape), "threshold": self.threshold}

    @classmethod
    def from_options(cls, options):
        return cls(input_shape=tuple(options["shape"]), threshold=options["threshold"])

    def features(self, records):
        signs = np.where(records > self.threshold, np.float32(1), np.float32(-1))
        return signs / np.float32(np.sqrt(self.output_size))


def build(request):
    return Signs(input_shape=request.record_shape("signs"), **request.options)


PART = Part(
    kind="feature",
    name="signs",
    summary="numbers: which are above a threshold",
    build=build,
    options=(
        Option(name="threshold", check=number(-9, 9), type="number", default="0", meaning="what is compared with"),
    ),
    reads=(),
    makes=(Signs,),
)
