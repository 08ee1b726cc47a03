"""Random numbers for many worlds at once, with an independent stream for each world.

A number depends on the seed of its world, on the episode, on the step and on how many were drawn before, and on nothing
else: neither on how many worlds there are nor on when the others start again. No state has to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_STRIDE = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: successive multiples are spread evenly
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
_TO_UNIT = np.float32(2.0**-24)


def mix(values: np.ndarray) -> np.ndarray:
    """Hash 64-bit numbers (the finalizer of SplitMix64): equal bits of input and output are independent."""
    values = (values ^ (values >> _SHIFTS[0])) * _FACTORS[0]
    values = (values ^ (values >> _SHIFTS[1])) * _FACTORS[1]
    return values ^ (values >> _SHIFTS[2])


def world_keys(keys: Sequence[int] | np.ndarray, *counts: Any) -> np.ndarray:
    """Return one key per world from its seed, or from a key, and from counters such as the episode, shape (worlds,)."""
    keys = np.asarray(keys, np.uint64)
    for count in counts:
        count = np.atleast_1d(np.asarray(count, np.uint64))  # of scalars NumPy would tell that they overflow
        keys = mix(keys ^ (count + np.uint64(1)) * _STRIDE)
    return keys


class Draws:
    """Draws numbers for some worlds; every call gives new ones."""

    def __init__(
        self,
        keys: np.ndarray | Callable[[], np.ndarray],
        to_array: Callable[[np.ndarray], Any] = lambda values: values,
    ):
        """Begin streams.

        Args:
            keys: One for each world, or a function that computes them when the first number is drawn.
            to_array: Turns results into arrays of the kind that the task uses.
        """
        self._keys, self._to_array, self._drawn = keys, to_array, 0

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: int | None = None) -> Any:
        """Draw evenly between ``low`` and ``high``, shape (worlds,) or (worlds, size), float32.

        Bounds may be arrays of length ``size``.
        """
        unit = self._unit(size)
        low = np.asarray(low, np.float32)
        return self._to_array(low + (np.asarray(high, np.float32) - low) * unit)

    def normal(self, mean: Any = 0.0, deviation: Any = 1.0, size: int | None = None) -> Any:
        """Draw from a normal distribution, shape (worlds,) or (worlds, size), float32."""
        radius = np.sqrt(-2.0 * np.log1p(-self._unit(size)))
        values = radius * np.cos(np.float32(2.0 * np.pi) * self._unit(size))
        return self._to_array(np.asarray(mean, np.float32) + np.asarray(deviation, np.float32) * values)

    def integers(self, low: int, high: int) -> Any:
        """Draw whole numbers from ``low`` to ``high - 1``, shape (worlds,)."""
        return self._to_array(np.minimum(low + (self._unit(None) * (high - low)).astype(np.int64), high - 1))

    def chance(self, probability: float) -> Any:
        """Draw True with that probability, shape (worlds,)."""
        return self._to_array(self._unit(None) < np.float32(probability))

    def _unit(self, size: int | None) -> np.ndarray:
        """Draw float32 numbers in [0, 1)."""
        if callable(self._keys):
            self._keys = self._keys()
        columns = 1 if size is None else size
        counter = np.arange(self._drawn + 1, self._drawn + columns + 1, dtype=np.uint64)
        self._drawn += columns
        bits = mix(self._keys[:, None] + counter * _STRIDE) >> np.uint64(40)
        unit = bits.astype(np.float32) * _TO_UNIT
        return unit[:, 0] if size is None else unit
