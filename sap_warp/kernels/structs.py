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
    """Where a world's own entries begin, minus where its block's share begins; all zero where worlds share nothing."""

    body: int
    dof: int
    row: int  # contact row
    hessian: int  # entry of the Hessian


@wp.struct
class Slot:
    """What one block has of the scratch that worlds share, one after the other; see `Scratch`."""

    shared: int  # 0 if every world has its own
    body: int
    dof: int
    row: int
    hessian: int


@wp.func_native("#ifdef __CUDA_ARCH__\n    return blockIdx.x;\n#else\n    return 0;\n#endif\n")
def block() -> int:
    """Number of this block; the CPU has one, which works on one world after the other."""
    ...


@wp.func
def world_starts(slot: Slot, body: int, dof: int, row: int, hessian: int) -> WorldStarts:
    """The shift of a `make_window` for a world whose own entries begin at these numbers."""
    starts = WorldStarts()
    if slot.shared != 0:
        k = block()
        starts.body = body - k * slot.body
        starts.dof = dof - k * slot.dof
        starts.row = row - k * slot.row
        starts.hessian = hessian - k * slot.hessian
    return starts


BLOCKS_PER_MULTIPROCESSOR = 16
"""Blocks of a kernel with scratch on CUDA. About half of them run at a time; the others even out unlike worlds."""


def most_blocks(device: Any) -> int:
    """Blocks of a kernel with scratch on a device that may have many worlds; one on the CPU."""
    return 1 if device.is_cpu else device.sm_count * BLOCKS_PER_MULTIPROCESSOR


class Scratch:
    """How much memory the scratch of the stages takes: that of the largest world, for each block that runs.

    The CPU works on one world after the other: one world's scratch serves them all and stays in the cache. On CUDA
    there is a number of blocks that does not grow with the worlds, and each works on one world after the other.
    Where worlds differ so much that this would take more memory, or are few, every world has its own scratch.
    """

    def __init__(self, layout: Any, sizes: Any, device: Any, rows: int = 0):
        """Measure the largest world; ``rows`` are contact rows that each can hold."""
        most: Any = Slot()
        most.body, most.dof = (
            int(np.diff(start.numpy()).max(initial=0)) for start in (layout.world_body, layout.world_dof)
        )
        most.row, most.hessian = rows, most.dof * (most.dof + 1) // 2
        worlds = sizes.world_count
        self.blocks = min(worlds, most_blocks(device))
        own = (sizes.body_count, sizes.dof_count, sizes.hessian_count)
        common = (self.blocks * count for count in (most.body, most.dof, most.hessian))
        most.shared = int(device.is_cpu or all(ours <= all_ for ours, all_ in zip(common, own, strict=True)))
        self.slot = most
        """For the struct of a stage."""
        share = self.blocks if most.shared else 0
        self.body_count = share * most.body or sizes.body_count
        self.dof_count = share * most.dof or sizes.dof_count
        self.row_count = (share or worlds) * rows
        self.hessian_count = share * most.hessian or sizes.hessian_count

    @property
    def max_blocks(self) -> int:
        """Blocks that a launch may have, for `WorldRange.launch`."""
        return self.blocks if self.slot.shared else 0


LARGEST_INDEX = 2**31 - 1
PADDING = 8
"""Entries after the end of an array that `native/tree8.h` may read, and write in scratch."""


def padded_zeros(count: int, dtype: Any, device: Any) -> wp.array:
    """An array with room for `PADDING` entries after its end."""
    return wp.zeros(count + PADDING, dtype=dtype, device=device)[:count]


def allocate_arrays(struct: Any, counts: Mapping[str, int], default: int, device: Any) -> None:
    """Give every array of ``struct`` that is not set yet so many zeros, padded.

    Raises:
        ValueError: An array would have entries that kernels cannot number: offsets are 32-bit integers.
    """
    for name, variable in struct._cls.vars.items():
        if isinstance(variable.type, wp.array):
            count = counts.get(name, default)
            if count + PADDING > LARGEST_INDEX:
                raise ValueError(
                    f"{name} would have {count:,} entries, too many for 32-bit indices (at most {LARGEST_INDEX:,}): "
                    "lower max_rigid_contact, or split the worlds over several solvers."
                )
            setattr(struct, name, padded_zeros(count, variable.type.dtype, device))


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
