"""Kernel arguments that are structs of many arrays: passed by address, not by value.

A struct passed to a kernel is copied for every block, and a dozen arrays are kilobytes. Here it lies in a one-element
array on the device instead. A kernel makes a local copy of that element, which the compiler takes apart into the few
pointers that are used, and device functions take the copy by reference.
"""

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp


@functools.cache
def make_flat(struct: Any) -> Any:
    """``flat(s)``: tell the compiler that the one-dimensional arrays of a local struct have no gaps.

    Warp's indexing multiplies by a stride and lets negative indices count from the end, both read from memory for
    every access: a fifth of a step. With a constant stride, and nothing to add to a negative index, the compiler
    keeps only the pointer. Negative indices are invalid from then on, and so is the array's shape.
    """
    arrays = [name for name, v in struct.vars.items() if wp.types.is_array(v.type) and v.type.ndim == 1]
    fixed = "".join(f"s.{name}.strides[0] = sizeof(*s.{name}.data); s.{name}.shape.dims[0] = 0;\n" for name in arrays)

    # a debug build keeps Warp's checks of index against shape
    @wp.func_native(f"#ifdef NDEBUG\n{fixed}#endif\n")
    def flat(s: wp.ref[struct]): ...

    return flat


@functools.cache
def make_window(struct: Any, scratch: tuple[tuple[str, str], ...]) -> Any:
    """``window(s, body, dof)``: let arrays of a local struct that all worlds share hold the entries of one world.

    ``scratch`` lists these arrays with the number of the first entry that they hold, in terms of ``body`` and ``dof``,
    the world's first body and dof. Both are 0 where every world has its own entries. To be called before ``flat``.
    If ``scratch`` also speaks of ``row`` or ``hessian``, the world's first contact row and first entry of the Hessian,
    these are two more arguments.
    """
    shifts = "".join(f"s.{name}.data -= {at}; s.{name}.shape.dims[0] += {at};\n" for name, at in scratch)
    if any(at in ("row", "hessian") for _, at in scratch):

        @wp.func_native(shifts)
        def window_of_rows(s: wp.ref[struct], body: int, dof: int, row: int, hessian: int): ...

        return window_of_rows

    @wp.func_native(shifts)
    def window(s: wp.ref[struct], body: int, dof: int): ...

    return window


class Scratch:
    """How much room the scratch of the stages takes.

    The CPU works on one world after the other: one world's scratch serves them all and stays in the cache.
    """

    sharing = True
    """Tests that look at the scratch of every world after a step turn this off."""

    def __init__(self, layout: Any, sizes: Any, device: Any):
        """Measure the largest world."""
        self.shared = int(device.is_cpu and self.sharing)
        self.body_count, self.dof_count = sizes.body_count, sizes.dof_count
        if self.shared:
            self.body_count = int(np.diff(layout.world_body.numpy()).max())
            self.dof_count = int(np.diff(layout.world_dof.numpy()).max())


PADDING = 8
"""Entries after the end of an array that `wide` may read, and write in scratch."""


def padded_zeros(count: int, dtype: Any, device: Any) -> wp.array:
    """An array with room for `PADDING` entries after its end."""
    return wp.zeros(count + PADDING, dtype=dtype, device=device)[:count]


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
                    if not array.is_contiguous:  # kernels take the stride as known, see `make_flat`
                        raise ValueError(f"{name} is a view with gaps; pass a contiguous array.")
                    setattr(struct, name, array)
                    weakref.finalize(array, self._made.pop, key, None)
            self._made[key] = wp.array([struct], dtype=struct._cls, device=self._device)
        return self._made[key]
