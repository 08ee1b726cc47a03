"""Host arrays that follow memory which NumPy cannot see: that of a GPU, or columns that lie apart.

Whoever asks a view for a NumPy array there gets one that is kept up to date as long as somebody holds it: at the end of
each step, reset and assignment. Only then something is copied, and only then a step on CUDA waits.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np

Fill = Callable[[np.ndarray], None]


class Mirrors:
    """Host arrays of one simulation that are in use."""

    def __init__(self) -> None:
        """Begin without mirrors."""
        self._live: list[tuple[weakref.ref[np.ndarray], Fill]] = []

    def __bool__(self) -> bool:
        """Return True if a mirror may still be in use."""
        return bool(self._live)

    def make(self, shape: tuple[int, ...], dtype: np.dtype, fill: Fill) -> np.ndarray:
        """Return a new array that ``fill`` keeps up to date, with the present values."""
        made = np.empty(shape, dtype)
        fill(made)
        self._live.append((weakref.ref(made), fill))
        return made

    def refresh(self) -> bool:
        """Update all mirrors that are still in use; returns True if there are any."""
        if not self._live:
            return False
        held = []
        for each in self._live:
            array = each[0]()
            if array is not None:
                each[1](array)
                held.append(each)
        self._live = held
        return bool(held)


class Mirror:
    """One host array that exists as long as somebody holds it."""

    def __init__(self, mirrors: Mirrors, shape: tuple[int, ...], dtype: np.dtype, fill: Fill):
        """Store the source; nothing is copied yet."""
        self._mirrors, self._shape, self._dtype, self._fill = mirrors, shape, dtype, fill
        self._held: weakref.ref[np.ndarray] | None = None

    def read(self) -> np.ndarray:
        """Return the read-only array with the present values; slices of it keep it alive."""
        array = None if self._held is None else self._held()
        if array is None:
            array = self._mirrors.make(self._shape, self._dtype, self._fill)
            self._held = weakref.ref(array)
        else:
            self._fill(array)
        shown = array.view()
        shown.flags.writeable = False
        return shown
