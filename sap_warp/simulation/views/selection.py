"""Selections: the worlds, columns and components of a view that a key stands for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import to_host

Axis = int | slice | np.ndarray
"""One index, indices at equal distances (a slice with positive step), or any indices."""
FindColumns = Callable[[Any, int | None], tuple[np.ndarray, bool]]
"""Function that finds columns by name in a world (None: in all); True if the name stands for one column alone."""

AXES = ("world", "entry", "component")


@dataclass(frozen=True)
class Selection:
    """Indices in an array of shape (worlds, entries, components ...); several lists of indices span a grid."""

    axes: tuple[Axis, ...]
    """Indices along each axis."""
    sizes: tuple[int, ...]
    """Shape of the whole array."""

    @classmethod
    def everything(cls, sizes: Sequence[int]) -> Selection:
        """Select the whole array."""
        return cls(tuple(slice(0, size, 1) for size in sizes), tuple(sizes))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the selection, without axes of which one index was chosen."""
        return tuple(len(self.indices(i)) for i, axis in enumerate(self.axes) if not isinstance(axis, int))

    @property
    def is_strided(self) -> bool:
        """True if the selection can be viewed without a copy."""
        return not any(isinstance(axis, np.ndarray) for axis in self.axes)

    def indices(self, axis: int) -> np.ndarray:
        """Return all indices along one axis."""
        chosen = self.axes[axis]
        if isinstance(chosen, np.ndarray):
            return chosen
        chosen = slice(chosen, chosen + 1, 1) if isinstance(chosen, int) else chosen
        return np.arange(self.sizes[axis])[chosen]

    @property
    def grid(self) -> tuple[np.ndarray, ...]:
        """Return the indices along all axes as a NumPy grid of full dimension."""
        return np.ix_(*(self.indices(i) for i in range(len(self.axes))))

    def take(self, key: Any, find_columns: FindColumns) -> Selection:
        """Return the selection of ``key`` within this one.

        Args:
            key: As for a NumPy array of this `shape`: numbers, slices, masks, lists and ``...``; and names of columns
                in their place, or alone.
            find_columns: Looks up names.

        Raises:
            IndexError: There is no such index, or there are too many keys.
            TypeError: A key is of no known kind.
        """
        free = [i for i, axis in enumerate(self.axes) if not isinstance(axis, int)]
        keys = list(key) if isinstance(key, tuple) and not is_names(key) else [key]
        if keys and is_names(keys[0]):
            if 1 not in free:
                raise IndexError("Columns were chosen before; there is nothing to choose by name.")
            keys = [slice(None)] * free.index(1) + keys
        keys = _expand(keys, len(free))
        axes = list(self.axes)
        for i, each in zip(free, keys, strict=True):
            if not is_names(each):
                axes[i] = _compose(self.indices(i), each, AXES[min(i, 2)])
            elif i != 1:
                raise TypeError(f"{each!r} names a column; it was given for the {AXES[min(i, 2)]}.")
        for i, each in zip(free, keys, strict=True):
            if is_names(each):
                columns, is_one = find_columns(each, axes[0] if isinstance(axes[0], int) else None)
                missing = np.setdiff1d(columns, self.indices(1))
                if len(missing):
                    raise IndexError(f"{each!r} stands for columns {missing.tolist()}, which were not chosen before.")
                axes[i] = int(columns[0]) if is_one else compress(columns)
        return Selection(tuple(axes), self.sizes)


def is_names(key: Any) -> bool:
    """Return True if a key is a name, a pattern, or a list of them."""
    return isinstance(key, str) or (
        isinstance(key, (list, tuple)) and bool(key) and all(isinstance(k, str) for k in key)
    )


def compress(indices: np.ndarray) -> slice | np.ndarray:
    """Return a slice if indices are at equal distances."""
    indices = np.asarray(indices, dtype=np.int64)
    steps = np.diff(indices)
    if len(indices) and (not len(steps) or (steps[0] > 0 and (steps == steps[0]).all())):
        step = int(steps[0]) if len(steps) else 1
        return slice(int(indices[0]), int(indices[-1]) + 1, step)
    return slice(0, 0, 1) if not len(indices) else indices


def _expand(keys: list[Any], count: int) -> list[Any]:
    """Return one key for each axis: ``...`` and missing keys stand for everything."""
    dots = [i for i, key in enumerate(keys) if key is Ellipsis]
    if len(dots) > 1 or len(keys) - len(dots) > count:
        raise IndexError(f"There are {len(keys)} keys; the view has {count} axes: {', '.join(AXES[:count])}.")
    missing = [slice(None)] * (count - len(keys) + len(dots))
    at = dots[0] if dots else len(keys)
    return [*keys[:at], *missing, *keys[at + len(dots) :]]


def _compose(indices: np.ndarray, key: Any, axis: str) -> Axis:
    """Return the ``indices`` that ``key`` selects."""
    if isinstance(key, slice):
        return compress(indices[key])
    if isinstance(key, (bool, np.bool_)) or key is None:
        raise TypeError(f"{key!r} is no key for a {axis}.")
    try:
        index = operator.index(key)
    except TypeError:
        pass
    else:
        if not -len(indices) <= index < len(indices):
            raise IndexError(f"There is no {axis} {index}: there are {len(indices)}.")
        return int(indices[index])
    listed = to_host(key)
    if listed.dtype == bool and listed.shape != indices.shape:
        raise IndexError(f"The mask has shape {listed.shape}; expected ({len(indices)},), one for each {axis}.")
    if listed.ndim != 1 or listed.dtype.kind not in ("biu" if len(listed) else "biuf"):
        raise TypeError(f"{key!r} is no key for a {axis}: give a number, a slice, a mask or a list of numbers.")
    if listed.dtype.kind in "iu" and len(listed) and not (-len(indices) <= listed.min() <= listed.max() < len(indices)):
        raise IndexError(f"There is no {axis} {listed.min()} or {listed.max()}: there are {len(indices)}.")
    return compress(indices[listed if len(listed) else slice(0)])
