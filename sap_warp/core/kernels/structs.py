"""Kernel arguments that are structs of many arrays: by address on the CPU, by value on CUDA.

On the CPU a struct passed to a kernel is copied for every block, and a dozen arrays are kilobytes. Here it lies in a
one-element array instead. A kernel makes a local copy of that element, which the compiler takes apart into the few
pointers that are used, and device functions take the copy by reference.

On CUDA all those pointers would fill the registers from begin to end. Passed by value they lie in the constant bank,
where every instruction can read them, so kernels with many arrays have a variant with such parameters
(`argument`).
"""

import ctypes
import functools
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import warp as wp

from .template import Parameter, Template, instance

by_value = Parameter("by_value")
"""Whether the large structs of kernels are parameters: on CUDA, see above."""

LARGEST_VALUE = 8192
"""Bytes of a struct that kernels take by value: of a larger one NVRTC keeps copies in local memory, word by word, which
took contact data from 2,000 to 55,000 instructions for each world."""


def assume_contiguous(struct: Any) -> Any:
    """The device function ``assume_contiguous(s)`` for a struct, or the template of one.

    It tells the compiler that the one-dimensional arrays of a local struct have no gaps.

    Warp's indexing multiplies by a stride and lets negative indices count from the end, both read from memory for
    every access: a fifth of a step. With a constant stride, and nothing to add to a negative index, the compiler
    keeps only the pointer. Negative indices are invalid from then on, and so is the array's shape. Structs within the
    struct are treated alike. Fields have to be written as ``wp.array(dtype=...)``: of ``wp.array[...]`` the number of
    dimensions is not known here.
    """
    if isinstance(struct, Template):
        return Template(lambda variant: _assume_contiguous(struct.of(variant)))
    return _assume_contiguous(struct)


@functools.cache
def _assume_contiguous(struct: Any) -> Any:
    fixed = "".join(
        f"s.{name}.strides[0] = sizeof(*s.{name}.data); s.{name}.shape.dims[0] = 0;\n"
        for name in _contiguous_arrays(struct)
    )

    # a debug build keeps Warp's checks of index against shape
    @wp.func_native(f"#ifdef NDEBUG\n{fixed}#endif\n")
    def assume_contiguous(s: wp.ref[struct]): ...

    return assume_contiguous


def _contiguous_arrays(struct: Any) -> Iterator[str]:
    """Names of the one-dimensional arrays in ``struct``, with those of the structs in it before them."""
    for name, variable in struct.vars.items():
        if wp.types.is_array(variable.type) and variable.type.ndim == 1:
            yield name
        elif hasattr(variable.type, "vars"):
            yield from (f"{name}.{inner}" for inner in _contiguous_arrays(variable.type))


def argument(struct: Any) -> tuple[Any, Any]:
    """Type of a kernel's parameter for a struct or template, and ``read(parameter)``, which makes a local copy.

    Raises:
        ValueError: The struct is too large to be passed by value.
    """

    def both(variant: Any) -> tuple[Any, Any]:
        return _argument(instance(struct, variant), by_value.of(variant))

    return Template(lambda variant: both(variant)[0]), Template(lambda variant: both(variant)[1])


@functools.cache
def _argument(struct: Any, by_value: bool) -> tuple[Any, Any]:
    if by_value and ctypes.sizeof(struct.ctype) > LARGEST_VALUE:
        size = ctypes.sizeof(struct.ctype)
        raise ValueError(f"{struct.key} has {size} bytes, more than the {LARGEST_VALUE} that CUDA takes by value well.")
    if by_value:

        @wp.func
        def read_value(parameter: struct) -> struct:
            return parameter

        return struct, read_value

    @wp.func
    def read(parameter: wp.array[struct]) -> struct:
        return parameter[0]

    return wp.array(dtype=struct), read


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


def array_struct(name: str, dtypes: Mapping[str, Any]) -> Any:
    """A Warp struct of arrays from a table of their names and dtypes, for those whose names are known elsewhere.

    In place of a dtype there may be ``int``, for a number, or a type of arrays.
    """
    fields = {
        field: dtype if dtype is int or wp.types.is_array(dtype) else wp.array(dtype=dtype)
        for field, dtype in dtypes.items()
    }
    return wp.struct(type(name, (), {"__annotations__": fields}))


class StructArgument:
    """A struct on the device. Keeps the struct, and with it the arrays it points to, alive."""

    def __init__(self, struct: Any, device: Any):
        """Copy ``struct`` (its array descriptors, not the arrays) to ``device``."""
        self.struct = struct
        if device.is_cpu:
            # no copy by Warp: one that a capture records would be repeated from memory that is gone
            memory = struct._cls.ctype.from_buffer_copy(struct.__ctype__())
            self.array = wp.array(ptr=ctypes.addressof(memory), dtype=struct._cls, shape=1, device=device)
            self.array.memory = memory  # lives as long as the array
        else:
            self.array = wp.array([struct], dtype=struct._cls, device=device)
        self.kernel_argument = self.array if device.is_cpu else struct
        """For kernels that have the variant of `argument` for this device."""


class StructCache:
    """Structs made from arrays that callers pass again and again: made once for each set of arrays.

    An entry lives as long as the arrays it points to, so captured graphs stay valid and memory does not grow.
    """

    def __init__(self, device: Any):
        """Start empty."""
        self._device = device
        self._made: dict[tuple[Hashable, ...], StructArgument] = {}

    def get(self, arrays: Mapping[str, wp.array | None], make: Callable[[], Any], also: Hashable = None) -> wp.array:
        """The `argument` by address."""
        return self.argument(arrays, make, also).array

    def argument(
        self, arrays: Mapping[str, wp.array | None], make: Callable[[], Any], also: Hashable = None
    ) -> StructArgument:
        """The struct ``make()`` with all ``arrays`` as its fields; None leaves a field empty.

        A field of a struct within it is named with a dot. ``also`` is what else ``make`` depends on.
        """
        key = (also, *map(id, arrays.values()))
        if key not in self._made:
            struct = make()
            for name, array in arrays.items():
                if array is not None:
                    if not array.is_contiguous:  # kernels take the stride as known, see `assume_contiguous`
                        raise ValueError(f"{name} is a view with gaps; pass a contiguous array.")
                    *path, field = name.split(".")
                    setattr(functools.reduce(getattr, path, struct), field, array)
                    weakref.finalize(array, self._made.pop, key, None)
            self._made[key] = StructArgument(struct, self._device)
        return self._made[key]
