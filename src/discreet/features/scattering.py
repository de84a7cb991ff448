"""Wavelet scattering of pictures: what is kept of a picture when small shifts and deformations are not to matter.

The first layer is the modulus of the picture filtered by Morlet wavelets of J scales and L angles; the second filters
each of these again by the wavelets of coarser scales. The picture and both layers are low-passed and sampled every 2^J
pixels: 1 + J L + L^2 J (J - 1) / 2 channels (Mallat 2012, Bruna and Mallat 2013; for private learning Tramer and Boneh
2021). A picture is padded by reflection.

The numbers are those of kymatio's `Scattering2D` in the same order, up to 3e-5 of a picture's range; the way there is
another: pictures are the last axis, the sums over folded frequencies are small products of matrices, and the low-pass
with its sampling is one matrix an axis. It needs numpy and scipy alone.

``groups`` normalises each record within itself: its channels in that many groups of neighbours, each to mean 0 and
variance 1 over the group (`torch.nn.GroupNorm`), which bounds the norm by the root of the number of features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.checks import whole
from discreet.errors import BadInput
from discreet.features.feature_map import ROUNDING, ArrayMap, FeatureRequest, Features, checked, checked_shape, product
from discreet.features.morlet import coarser, low_pass_matrix, padded_size, wavelet_spectra
from discreet.parts import Option, Part

_FAST_AREA = 4096
_VARIANCE = np.float32(1e-5)
SCALES, ANGLES, ORDER, GROUPS = whole(1, 8), whole(1, 64), whole(1, 2), whole(0, 1_000_000)


@dataclass(frozen=True, kw_only=True)
class Scattering(ArrayMap):
    """Scattering of pictures (rows, columns) or (channels, rows, columns).

    scales   J, the log2 of the sampling step
    angles   L
    order    layers: 1 or 2
    groups   of channels, normalised within the record; 0: none; None: groups of three channels, or of as many more as
             divide the channels evenly
    """

    name = "scattering"
    input_shape: tuple[int, ...]
    scales: int = 2
    angles: int = 8
    order: int = 2
    groups: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "input_shape", checked_shape(self.input_shape, "scattering"))
        checked("scattering", {"scales": (SCALES, self.scales), "angles": (ANGLES, self.angles)})
        checked("scattering", {"order": (ORDER, self.order)})
        if len(self.input_shape) not in (2, 3):
            raise BadInput(
                f"scattering of records of shape {self.input_shape}",
                "they are not pictures",
                "Declare shape = [rows, columns] or [channels, rows, columns]",
            )
        if min(self._picture) < 2**self.scales:
            raise BadInput(
                f"scattering of pictures of {self._picture[0]} x {self._picture[1]} with scales={self.scales}",
                f"its samples are {2**self.scales} pixels apart",
                "Give fewer scales",
            )
        if self.groups is None:
            object.__setattr__(self, "groups", self._channels // _fewest(self._paths))
        checked("scattering", {"groups": (GROUPS, self.groups)})
        if self.groups and self._channels % self.groups:
            raise BadInput(
                f"scattering with groups={self.groups}",
                f"it has {self._channels} channels, which so many groups do not divide",
                "Give a divisor, or 0 for no normalisation",
            )

    @property
    def output_shape(self) -> tuple[int, ...]:
        """(channels, rows, columns)."""
        rows, columns = (size // 2**self.scales - 2 for size in self._padded)
        return (self._channels, rows, columns)

    @property
    def norm_bound(self) -> float | None:
        """The root of the number of features, where they are normalised."""
        return float(np.sqrt(self.output_size)) * ROUNDING if self.groups else None

    @property
    def block(self) -> int:
        """Pictures at once: whole vectors of a processor, within its caches."""
        return 32 if self._padded[0] * self._padded[1] <= _FAST_AREA else 16

    def options(self) -> dict[str, Any]:
        """The shape of a picture, and what was chosen."""
        names = ("scales", "angles", "order", "groups")
        return {"shape": list(self.input_shape)} | {name: getattr(self, name) for name in names}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Scattering:
        """The inverse of `options`."""
        return cls(**{"input_shape" if name == "shape" else name: value for name, value in options.items()})

    def features(self, records: Features) -> Features:
        """Of a block of pictures."""
        from scipy import fft

        pictures = records.reshape(-1, *self._picture)  # every channel is a picture
        rows, columns = self._mirrored
        field = np.ascontiguousarray(pictures.transpose(1, 2, 0)[rows[:, None], columns])
        paths = np.empty((self._paths, *self.output_shape[1:], len(pictures)), dtype=np.float32)
        paths[0] = self._low_pass(field[:, :, None], 0)[0]
        first, second = 1, 1 + self.scales * self.angles
        spectrum = fft.fft2(field, axes=(0, 1))
        for scale in range(self.scales):
            layer = _filtered(spectrum, self._filters[scale, None])
            paths[first : first + self.angles] = self._low_pass(layer, scale)
            first += self.angles
            for angle in range(self.angles if self.order == 2 and scale < self.scales - 1 else 0):
                spectrum_of_angle = fft.fft2(np.ascontiguousarray(layer[:, :, angle]), axes=(0, 1))
                for other in range(scale + 1, self.scales):
                    deeper = _filtered(spectrum_of_angle, self._filters[other, scale])
                    paths[second : second + self.angles] = self._low_pass(deeper, other)
                    second += self.angles
        return self._normalised(paths)

    def _normalised(self, paths: Features) -> Features:
        """Records first, channels of a picture in the order of its colours; each record normalised within itself."""
        size = self._channels // self._paths
        by_record = paths.reshape(*paths.shape[:-1], self.block, size)
        values = np.ascontiguousarray(np.moveaxis(by_record, -1, 0)).reshape(self._channels, -1, self.block)
        if self.groups:
            values = values.reshape(self.groups, -1, self.block)
            values = values - values.mean(axis=1, keepdims=True)
            values /= np.sqrt((values * values).mean(axis=1, keepdims=True) + _VARIANCE)
        return np.ascontiguousarray(values.reshape(-1, self.block).T)

    def _low_pass(self, layer: Features, scale: int) -> Features:
        """(angles, rows, columns, pictures) of a layer (rows, columns, angles, pictures) at this scale's resolution."""
        down, across = self._low_passes[scale]
        rows, columns = layer.shape[:2]
        lines = product(down, layer.reshape(rows, -1)).reshape(len(down), columns, -1)
        sampled = product(across, lines).reshape(len(down), len(across), *layer.shape[2:])
        return np.moveaxis(sampled, 2, 0)

    @cached_property
    def _filters(self) -> dict[tuple[int, int | None], Features]:
        """By scale, and for the second layer by the scale of the first: (rows, columns, angles, folded copies)."""
        filters: dict[tuple[int, int | None], Features] = {}
        for scale in range(self.scales):
            spectra = wavelet_spectra(self._padded, scale, self.angles)
            filters[scale, None] = _folding(spectra, scale)
            for before in range(scale if self.order == 2 else 0):
                filters[scale, before] = _folding(coarser(spectra, before), scale - before)
        return filters

    @cached_property
    def _low_passes(self) -> list[list[Features]]:
        """By resolution: matrices of both axes."""
        return [[low_pass_matrix(size, self.scales, scale) for size in self._padded] for scale in range(self.scales)]

    @cached_property
    def _mirrored(self) -> list[NDArray[np.int64]]:
        """Which pixels are in a padded picture, by axis."""
        sizes = zip(self._picture, self._padding, self._padded, strict=True)
        return [np.pad(np.arange(size), (before, all_ - size - before), mode="reflect") for size, before, all_ in sizes]

    @property
    def _picture(self) -> tuple[int, int]:
        return (self.input_shape[-2], self.input_shape[-1])

    @property
    def _padded(self) -> tuple[int, int]:
        return (padded_size(self._picture[0], self.scales), padded_size(self._picture[1], self.scales))

    @property
    def _padding(self) -> tuple[int, int]:
        """The larger one of both sides is behind."""
        before = [(padded - size) // 2 for padded, size in zip(self._padded, self._picture, strict=True)]
        return (before[0], before[1])

    @property
    def _paths(self) -> int:
        """Channels of one colour."""
        first = self.scales * self.angles
        return 1 + first + (self.angles * first * (self.scales - 1) // 2 if self.order == 2 else 0)

    @property
    def _channels(self) -> int:
        return self._paths * (self.input_shape[0] if len(self.input_shape) == 3 else 1)


def _fewest(channels: int) -> int:
    """The least divisor of at least three."""
    return next(size for size in range(3, channels + 1) if channels % size == 0) if channels >= 3 else channels


def _folding(spectra: NDArray[np.float64], halvings: int) -> Features:
    """Spectra (angles, rows, columns) as matrices that multiply and fold: (rows, columns, angles, folded copies)."""
    angles, rows, columns = spectra.shape
    step = 2**halvings
    parts = spectra.reshape(angles, step, rows // step, step, columns // step) / step**2
    matrices = parts.transpose(2, 4, 0, 1, 3).reshape(rows // step, columns // step, angles, step**2)
    return np.ascontiguousarray(matrices, dtype=np.float32)


def _filtered(spectrum: NDArray[np.complex64], folding: Features) -> Features:
    """The modulus of a field, by its spectrum (rows, columns, pictures), filtered and sampled by ``folding``."""
    from scipy import fft

    rows, columns, _, copies = folding.shape
    step = spectrum.shape[0] // rows
    parts = spectrum.view(np.float32).reshape(step, rows, step, columns, -1).transpose(1, 3, 0, 2, 4)
    filtered = product(folding, parts.reshape(rows, columns, copies, -1)).view(np.complex64)
    return np.asarray(np.abs(fft.ifft2(filtered, axes=(0, 1), overwrite_x=True)), dtype=np.float32)


def _built(request: FeatureRequest) -> Scattering:
    return Scattering(input_shape=request.record_shape("scattering"), **request.options)


PARTS = (
    Part(
        kind="feature",
        name="scattering",
        summary="pictures: Morlet wavelet scattering",
        build=_built,
        options=(
            Option(name="scales", check=SCALES, type="whole number", default="2", meaning="J: samples are 2^J apart"),
            Option(name="angles", check=ANGLES, type="whole number", default="8", meaning="L, of the wavelets"),
            Option(name="order", check=ORDER, type="1 or 2", default="2", meaning="layers"),
            Option(
                name="groups",
                check=GROUPS,
                type="whole number",
                default="a third of the channels",
                meaning="of channels, each normalised within the record; 0: none, and no bound of the norm",
            ),
        ),
        reads=(),
        makes=(Scattering,),
    ),
)
