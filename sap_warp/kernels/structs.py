"""Kernel arguments that are structs of many arrays: by address on the CPU, by value on CUDA.

On the CPU a struct passed to a kernel is copied for every block, and a dozen arrays are kilobytes. Here it lies in a
one-element array instead. A kernel makes a local copy of that element, which the compiler takes apart into the few
pointers that are used, and device functions take the copy by reference.

On CUDA all those pointers would fill the registers from begin to end. Passed by value they lie in the constant bank,
where every instruction can read them, so kernels with many arrays have a variant with such parameters
(`struct_parameter`).
"""

import functools
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import warp as wp


@functools.cache
def make_flat(struct: Any) -> Any:
    """``flat(s)``: tell the compiler that the one-dimensional arrays of a local struct have no gaps.

    Warp's indexing multiplies by a stride and lets negative indices count from the end, both read from memory for
    every access: a fifth of a step. With a constant stride, and nothing to add to a negative index, the compiler
    keeps only the pointer. Negative indices are invalid from then on, and so is the array's shape. Structs within the
    struct are treated alike.
    """
    fixed = "".join(
        f"s.{name}.strides[0] = sizeof(*s.{name}.data); s.{name}.shape.dims[0] = 0;\n" for name in _flat_arrays(struct)
    )

    # a debug build keeps Warp's checks of index against shape
    @wp.func_native(f"#ifdef NDEBUG\n{fixed}#endif\n")
    def flat(s: wp.ref[struct]): ...

    return flat


def _flat_arrays(struct: Any) -> Iterator[str]:
    """Names of the one-dimensional arrays in ``struct``, with those of the structs in it before them."""
    for name, variable in struct.vars.items():
        if wp.types.is_array(variable.type) and variable.type.ndim == 1:
            yield name
        elif hasattr(variable.type, "vars"):
            yield from (f"{name}.{inner}" for inner in _flat_arrays(variable.type))


@functools.cache
def struct_parameter(struct: Any, by_value: bool) -> tuple[Any, Any]:
    """Type of a kernel's parameter for a struct, and ``read(parameter)``, which makes a local copy of the struct."""
    if by_value:

        @wp.func
        def read(parameter: struct) -> struct:
            return parameter

        return struct, read

    @wp.func
    def read(parameter: wp.array(dtype=struct)) -> struct:
        return parameter[0]

    return wp.array(dtype=struct), read


@functools.cache
def make_window(struct: Any, scratch: tuple[tuple[str, str], ...]) -> Any:
    """``window(s, starts)``: let arrays of a local struct that all worlds share hold the entries of one world.

    ``scratch`` lists these arrays with the number of the first entry that they hold, in terms of the fields of
    `WorldStarts`. To be called before ``flat``.
    """
    shifts = "".join(f"s.{name}.data -= {at}; s.{name}.shape.dims[0] += {at};\n" for name, at in scratch)
    names = "const int body = starts.body, dof = starts.dof, row = starts.row, hessian = starts.hessian;\n"
    unused = "(void)body; (void)dof; (void)row; (void)hessian;\n"

    @wp.func_native(names + unused + shifts)
    def window(s: wp.ref[struct], starts: wp.ref[WorldStarts]): ...

    return window


@wp.struct
class WorldStarts:
    """Where a world's own entries begin; all zero where every world has its own."""

    body: int
    dof: int
    row: int  # contact row
    hessian: int  # entry of the Hessian


class Scratch:
    """How much memory the scratch of the stages takes.

    The CPU works on one world after the other: one world's scratch serves them all and stays in the cache.
    """

    def __init__(self, layout: Any, sizes: Any, device: Any):
        """Measure the largest world."""
        self.shared = int(device.is_cpu)
        self.body_count, self.dof_count = sizes.body_count, sizes.dof_count
        if self.shared:
            self.body_count = int(np.diff(layout.world_body.numpy()).max())
            self.dof_count = int(np.diff(layout.world_dof.numpy()).max())


PADDING = 8
"""Entries after the end of an array that `native/tree8.h` may read, and write in scratch."""


def padded_zeros(count: int, dtype: Any, device: Any) -> wp.array:
    """An array with room for `PADDING` entries after its end."""
    return wp.zeros(count + PADDING, dtype=dtype, device=device)[:count]


def allocate_arrays(struct: Any, counts: Mapping[str, int], default: int, device: Any) -> None:
    """Give every array of ``struct`` that is not set yet so many zeros, padded."""
    for name, variable in struct._cls.vars.items():
        if isinstance(variable.type, wp.array):
            setattr(struct, name, padded_zeros(counts.get(name, default), variable.type.dtype, device))


class StructArgument:
    """A struct on the device. Keeps the struct, and with it the arrays it points to, alive."""

    def __init__(self, struct: Any, device: Any):
        """Copy ``struct`` (its array descriptors, not the arrays) to ``device``."""
        self.struct = struct
        self.array = wp.array([struct], dtype=struct._cls, device=device)
        self.best = self.array if device.is_cpu else struct
        """For kernels that have the variant of `struct_parameter` for this device."""


class StructCache:
    """Structs made from arrays that callers pass again and again: made once for each set of arrays.

    An entry lives as long as the arrays it points to, so captured graphs stay valid and memory does not grow.
    """

    def __init__(self, device: Any):
        """Start empty."""
        self._device = device
        self._made: dict[tuple[Hashable, ...], wp.array] = {}

    def get(self, arrays: Mapping[str, wp.array | None], make: Callable[[], Any], also: Hashable = None) -> wp.array:
        """The struct ``make()`` with all ``arrays`` as its fields; None leaves a field empty.

        ``also`` is what else ``make`` depends on.
        """
        key = (also, *map(id, arrays.values()))
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
