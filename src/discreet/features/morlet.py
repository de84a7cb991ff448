"""Morlet wavelets and the Gaussian low-pass of a scattering transform, by their published formulas.

A Morlet wavelet is psi(u) = g(u) (exp(i xi.u) - beta): an oriented Gaussian g times a plane wave, less what makes its
sum 0 (Bruna and Mallat 2013). At scale j the Gaussian is .8 * 2^j wide along the wave and L/4 times that across, and
the wave's frequency is 3 pi / 4 / 2^j. The low-pass of J scales is a round Gaussian of width .8 * 2^(J-1).

Filters are periodic on a padded picture. At a coarser resolution they keep the low half (or quarter, ...) of the
frequencies. All are computed in double precision and used in single precision.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_WIDTH, _FREQUENCY, _TILES = 0.8, 0.75 * math.pi, 2
_NEGLIGIBLE = 8.0
"""Gaussians end at so many widths."""


def padded_size(size: int, scales: int) -> int:
    """The side of a picture with its padding: a multiple of 2^scales, at least one more of them."""
    step: int = 2**scales
    return ((size + step) // step + 1) * step


def wavelet_spectra(shape: tuple[int, int], scale: int, angles: int) -> Floats:
    """(angles, rows, columns): the Fourier transforms of the wavelets of one scale; they are real."""
    turns = [(max(angles // 2 - 1, 0) - place) * math.pi / angles for place in range(angles)]
    wavelets = [_morlet(shape, _WIDTH * 2**scale, turn, _FREQUENCY / 2**scale, 4 / angles) for turn in turns]
    return np.ascontiguousarray(np.fft.fft2(np.stack(wavelets)).real)


def coarser(spectra: Floats, halvings: int) -> Floats:
    """Spectra (.., rows, columns) on a grid that is 2^halvings times coarser: their low frequencies."""
    for axis in (-2, -1):
        spectra = np.moveaxis(_coarser(np.moveaxis(spectra, axis, -1), halvings), -1, axis)
    return spectra


def low_pass_matrix(size: int, scales: int, halvings: int) -> NDArray[np.float32]:
    """(kept, size / 2^halvings): low-pass along one axis, a sample every 2^scales, those in the padding left out.

    ``size``: of the padded axis at full resolution.
    """
    width = _WIDTH * 2 ** (scales - 1)
    far = np.arange(-_TILES * size, (_TILES + 1) * size)
    kernel = np.exp(-(far**2) / (2 * width**2)).reshape(-1, size).sum(axis=0) / (math.sqrt(2 * math.pi) * width)
    spectrum = _coarser(np.fft.fft(kernel).real, halvings)
    rows, step = len(spectrum), 2 ** (scales - halvings)
    filtered = np.fft.fft(np.eye(rows), axis=0) * spectrum[:, None]
    folded = filtered.reshape(step, rows // step, rows).mean(axis=0)
    return np.ascontiguousarray(np.fft.ifft(folded, axis=0).real[1:-1], dtype=np.float32)


def _coarser(spectra: Floats, halvings: int) -> Floats:
    """Along the last axis: the middle, high frequencies are left out, and the rest is folded."""
    if halvings == 0:
        return spectra
    size, times = spectra.shape[-1], 2**halvings
    start = int(size / (2 * times))
    kept = np.ones(size)
    kept[start : start + int(size * (1 - 1 / times))] = 0
    return np.asarray((spectra * kept).reshape(*spectra.shape[:-1], times, size // times).sum(axis=-2))


def _morlet(
    shape: tuple[int, int], width: float, turn: float, frequency: float, slant: float
) -> NDArray[np.complex128]:
    wave = _gabor(shape, width, turn, frequency, slant)
    envelope = _gabor(shape, width, turn, 0.0, slant)
    return np.asarray(wave - wave.sum() / envelope.sum() * envelope)


def _gabor(shape: tuple[int, int], width: float, turn: float, frequency: float, slant: float) -> NDArray[np.complex128]:
    """A Gaussian times a plane wave along ``turn``, summed over the tiles of the plane that it reaches."""
    along, across = np.array([math.cos(turn), math.sin(turn)]), np.array([-math.sin(turn), math.cos(turn)])
    reach = [min(_TILES, math.ceil(_NEGLIGIBLE * width / min(slant, 1) / size)) for size in shape]
    total = np.zeros(shape, dtype=np.complex128)
    for tile_row in range(-reach[0], reach[0] + 1):
        for tile_column in range(-reach[1], reach[1] + 1):
            row = np.arange(shape[0])[:, None] + tile_row * shape[0]
            column = np.arange(shape[1])[None, :] + tile_column * shape[1]
            forth, aside = along[0] * row + along[1] * column, across[0] * row + across[1] * column
            total += np.exp(-(forth**2 + (slant * aside) ** 2) / (2 * width**2) + 1j * frequency * forth)
    return np.asarray(total * slant / (2 * math.pi * width**2))
