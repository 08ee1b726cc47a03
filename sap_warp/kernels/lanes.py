"""Lanes of a block. One world is one block.

On the CPU a block has one lane and every loop over its work is a plain serial loop. On CUDA (and in tests, on
cooperative CPU fibers) the lanes of a block share the same loops, with barriers where one phase needs what another
has found.
"""

import functools
import inspect
import linecache
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import warp as wp

from .types import Types

ONE_LANE = "#if WP_TILE_BLOCK_DIM == 1 && !defined(__CUDA_ARCH__)\n"
"""Opens the part of a native snippet that is for one lane on the CPU, where the headers of `sap_warp.native` are."""


@wp.func_native("return WP_TILE_THREAD_IDX;")
def lane() -> int:
    """Index of this thread within its block."""
    ...


@wp.func_native("#ifdef __CUDA_ARCH__\n    return blockDim.x;\n#else\n    return WP_TILE_BLOCK_DIM;\n#endif\n")
def lane_count() -> int:
    """Lanes that share a world, the stride of loops over its work."""
    ...


ONE_WARP = "#if WP_TILE_BLOCK_DIM == 32 && defined(__CUDA_ARCH__)\n"
"""Opens the part of a native snippet that is for blocks of one warp, the default on CUDA for worlds of usual size."""


@wp.func_native(f"{ONE_WARP}    __syncwarp();\n#else\n    WP_TILE_SYNC();\n#endif\n")
def barrier():
    """Wait for all lanes of the block; lanes see then what others have written."""
    ...


@wp.func_native(f"{ONE_LANE}    return true;\n#else\n    return false;\n#endif\n")
def is_native() -> bool:
    """Whether this build has one lane on the CPU, for which native functions are; known to the compiler."""
    ...


def native_twin(function: Any, call: str, otherwise: str = "") -> Any:
    """The native function with the parameters of a Warp function, which is to call it where `is_native` holds.

    Args:
        function: Code for several lanes and CUDA.
        call: Statement that calls a function of the headers, with the same names; it may return an integer.
        otherwise: Statement for builds that have no headers; it never runs.
    """
    snippet = f"{ONE_LANE}    {call}\n#else\n    {otherwise}\n#endif\n"
    # Warp sees by the decorator that there is a result
    stub = _written(function.func, "native", "@wp.func_native(snippet)\ndef {name}({names}): ...\n", snippet="")
    return wp.func_native(snippet)(stub)


def with_native(call: str, otherwise: str = "") -> Callable[[Any], Any]:
    """Decorate a Warp function: its `native_twin` takes its place where `is_native` holds."""

    def decorate(function: Any) -> Any:
        twin = native_twin(function, call, otherwise)
        if otherwise:
            text = "    if is_native():\n        return twin({names})\n    return lanes({names})\n"
        else:
            text = "    if is_native():\n        twin({names})\n    else:\n        lanes({names})\n"
        either = "def {name}({names}):\n" + text
        return wp.func(_written(function.func, "either", either, twin=twin, lanes=function, is_native=is_native))

    return decorate


def _written(plain: Any, kind: str, text: str, **known: Any) -> Any:
    """A function made from ``text``, with the parameters of ``plain``. Warp reads the source of what it compiles."""
    name = f"{plain.__qualname__}_{kind}"
    names = ", ".join(inspect.signature(plain).parameters)
    lines = text.format(name="stub", names=names).splitlines(keepends=True)
    file = f"<{name}>"
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    namespace: dict[str, Any] = {"wp": SimpleNamespace(func_native=lambda _: lambda f: f), **known}
    exec(compile("".join(lines), file, "exec"), namespace)
    stub = namespace["stub"]
    stub.__qualname__, stub.__module__, stub.__annotations__ = name, plain.__module__, plain.__annotations__
    return stub


# Lanes whose values a block sum adds by shuffles: a warp on CUDA, if the block consists of whole ones.
_SHUFFLES = "#if defined(__CUDA_ARCH__) && WP_TILE_BLOCK_DIM % 32 == 0\n"


def shuffle_double(name: str, parameters: str, mode: str) -> str:
    """A lambda of that name for a double of another lane: the intrinsic takes it apart by four instructions.

    ``mode`` is that of PTX's shfl.sync; ``parameters`` have ``double value, int k``.
    """
    return f"""
    const auto {name} = []({parameters}) {{
        double other;
        asm volatile(
            "{{ .reg .b32 low, high; mov.b64 {{low, high}}, %1; shfl.sync.{mode}.b32 low, low, %2, 31, -1;"
            " shfl.sync.{mode}.b32 high, high, %2, 31, -1; mov.b64 %0, {{low, high}}; }}"
            : "=d"(other) : "d"(value), "r"(k));
        return other;
    }};
    (void){name};
"""


SWAP_DOUBLE = shuffle_double("swap_double", "unsigned, double value, int k", "bfly")
"""``swap_double(mask, value, k)``: __shfl_xor_sync."""


# The sum of three numbers by 6 additions instead of 15: half of the lanes goes on with one part of them, then
# half of these with one number. Number c is found on the lanes from 8 c on.
_ADD_THREE = """
    const bool is_upper = WP_TILE_THREAD_IDX & 16, is_odd = WP_TILE_THREAD_IDX & 8;
    const decltype(sum[0] + sum[0]) zero = 0;
    auto first = (is_upper ? sum[2] : sum[0]) + SWAP(0xffffffffu, is_upper ? sum[0] : sum[2], 16);
    auto second = (is_upper ? zero : sum[1]) + SWAP(0xffffffffu, is_upper ? sum[1] : zero, 16);
    auto one = (is_odd ? second : first) + SWAP(0xffffffffu, is_odd ? first : second, 8);
    #pragma unroll
    for (int k = 4; k > 0; k >>= 1) one += SWAP(0xffffffffu, one, k);
    #pragma unroll
    for (int c = 0; c < 3; ++c) sum[c] = __shfl_sync(0xffffffffu, one, 8 * c);
"""


@wp.func_native("return WP_TILE_BLOCK_DIM;")
def _lane_count() -> int:
    """As `lane_count`, and known to NVRTC, which would keep all ways to add else."""
    ...


@wp.func_native(f"{_SHUFFLES}    return 32;\n#else\n    return 1;\n#endif\n")
def _summed_by_shuffles() -> int: ...


@functools.cache
def _make_warp_sum(dtype):
    """``warp_sum(value) -> dtype``: the sum over the lanes that add by shuffles, on all of them."""
    parts = [f"sum[{i}]" for i in range(dtype._length_)] if wp.types.type_is_vector(dtype) else ["sum"]
    swap = "swap_double" if getattr(dtype, "_wp_scalar_type_", dtype) is wp.float64 else "__shfl_xor_sync"
    add = " ".join(f"{part} += {swap}(0xffffffffu, {part}, k);" for part in parts)
    loop = f"#pragma unroll\nfor (int k = 16; k > 0; k >>= 1) {{ {add} }}"
    if len(parts) == 3:
        loop = _ADD_THREE.replace("SWAP", swap)

    @wp.func_native(f"auto sum = value;\n{_SHUFFLES}{SWAP_DOUBLE}{loop}\n#endif\nreturn sum;")
    def add_shuffled(value: dtype) -> dtype: ...

    # Not inlined: a solve has so many sums that NVRTC would leave out of line what the structs must not be passed to.
    @wp.func(inline=False)
    def warp_sum(value: dtype) -> dtype:
        return add_shuffled(value)

    return warp_sum


@functools.cache
def make_block_sum(dtype):
    """``block_sum(value, scratch, world) -> dtype``: the sum over the lanes of a block, the same bits on every lane.

    ``scratch`` has one entry per lane of every world. All lanes have come to this place then, and see what others have
    written before.
    """
    warp_sum = _make_warp_sum(dtype)

    @wp.func
    def block_sum(value: dtype, scratch: wp.array[dtype], world: int):
        lanes = _lane_count()
        if lanes == 1:
            return value
        group = _summed_by_shuffles()
        share = warp_sum(value)
        if lanes == group:
            barrier()
            return share
        base = world * lanes
        if lane() % group == 0:
            scratch[base + lane() // group] = share
        barrier()
        total = scratch[base]
        i = int(1)
        while i < lanes // group:
            total += scratch[base + i]
            i += 1
        barrier()
        return total

    return block_sum


@functools.cache
def make_scalar_sum(types: Types):
    """``scalar_sum(value, scratch, world)``: the sum of one number, with the scratch of a `make_block_sum` for three.

    What lanes have written before, others do not see for that.
    """
    scalar, vec3 = types.scalar, types.vec3
    warp_sum, block_sum = _make_warp_sum(scalar), make_block_sum(vec3)

    @wp.func
    def scalar_sum(value: scalar, scratch: wp.array[vec3], world: int):
        lanes = _lane_count()
        if lanes == 1:
            return value
        if lanes == _summed_by_shuffles():
            return warp_sum(value)
        return block_sum(vec3(value, scalar(0.0), scalar(0.0)), scratch, world)[0]

    return scalar_sum
