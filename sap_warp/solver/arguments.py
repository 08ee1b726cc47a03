"""Kernel arguments that are structs of many arrays: passed by address, not by value.

A struct passed to a kernel is copied for every block, and a dozen arrays are kilobytes. Here it lies in a one-element
array on the device instead, and device functions take its element by reference.
"""

import weakref
from collections.abc import Callable
from typing import Any

import warp as wp


class StructArgument:
    """A struct on the device. Keeps the struct, and with it the arrays it points to, alive."""

    def __init__(self, struct: Any, device: Any):
        """Copy ``struct`` (its array descriptors, not the arrays) to ``device``."""
        self.struct = struct
        self.array = wp.array([struct], dtype=struct._cls, device=device)


class StructCache:
    """Structs made from arrays that callers pass again and again: made once for each set of arrays.

    An entry lives as long as the arrays it points to, so captured graphs stay valid and memory does not grow.
    """

    def __init__(self, device: Any):
        """Start empty."""
        self._device = device
        self._made: dict[tuple[int, ...], wp.array] = {}

    def get(self, arrays: dict[str, wp.array | None], make: Callable[[], Any]) -> wp.array:
        """The struct ``make()`` with all ``arrays`` as its fields; None leaves a field empty."""
        key = tuple(id(array) for array in arrays.values())
        if key not in self._made:
            struct = make()
            for name, array in arrays.items():
                if array is not None:
                    setattr(struct, name, array)
                    weakref.finalize(array, self._made.pop, key, None)
            self._made[key] = wp.array([struct], dtype=struct._cls, device=self._device)
        return self._made[key]
