"""Arrays of the host that follow memory which NumPy cannot see: that of a GPU, or columns that lie apart.

Whoever asks a view for a NumPy array there gets one that is kept up to date as long as somebody holds it: at the end of
each step, reset and assignment. Only then something is copied, and only then a step on CUDA waits.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np

Fill = Callable[[np.ndarray], None]


class Mirrors:
    """The host arrays of one simulation that are in use."""

    def __init__(self) -> None:
        """None yet."""
        self._live: list[tuple[weakref.ref[np.ndarray], Fill]] = []

    def __bool__(self) -> bool:
        """Whether somebody may hold one."""
        return bool(self._live)

    def make(self, shape: tuple[int, ...], dtype: np.dtype, fill: Fill) -> np.ndarray:
        """A new array that ``fill`` keeps up to date; it has the present values."""
        made = np.empty(shape, dtype)
        fill(made)
        self._live.append((weakref.ref(made), fill))
        return made

    def refresh(self) -> bool:
        """Bring all up to date that are still held; whether there are any."""
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
    """One array for as long as it is held, then none, then another one."""

    def __init__(self, mirrors: Mirrors, shape: tuple[int, ...], dtype: np.dtype, fill: Fill):
        """Nothing is copied yet."""
        self._mirrors, self._shape, self._dtype, self._fill = mirrors, shape, dtype, fill
        self._held: weakref.ref[np.ndarray] | None = None

    def read(self) -> np.ndarray:
        """The array with the present values, read-only; slices of it keep it alive."""
        array = None if self._held is None else self._held()
        if array is None:
            array = self._mirrors.make(self._shape, self._dtype, self._fill)
            self._held = weakref.ref(array)
        else:
            self._fill(array)
        shown = array.view()
        shown.flags.writeable = False
        return shown
