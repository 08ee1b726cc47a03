"""Lanes that share a world.

On the CPU a world has one lane and every loop over its work is a plain serial loop. On CUDA (and in tests, on
cooperative CPU fibers) the lanes of a world share the same loops, with barriers where one phase needs what another
has found. One world is one block, or on CUDA a part of a warp, if it is tiny (`IN_A_WARP`): its lanes wait for each
other then, and for no other lane of the warp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import warp as wp

from .. import native as headers
from .template import (
    Device,
    Parameter,
    Template,
    Variant,
    annotations_of,
    device,
    instance,
    native,
    native_stub,
    with_types,
    written,
)

ONE_LANE = "#if WP_TILE_BLOCK_DIM == 1 && !defined(__CUDA_ARCH__)\n"
"""Opens the part of a native snippet that is for one lane on the CPU, where the headers of `sap_warp.native` are."""


IN_A_WARP = {8: 96, 16: 160}
"""Lanes of a world that has only a part of a warp on CUDA, and threads of a block of such worlds.

The compiler knows the size of a block alone, and tells by it how many lanes a world has; see `block_size`.
"""


def block_size(lanes: int, device: Any) -> int:
    """Threads of a block in which ``lanes`` share a world."""
    return lanes if device.is_cpu else IN_A_WARP.get(lanes, lanes)


def for_warps(code: str, otherwise: str = "", several: bool = False) -> str:
    """A native snippet with ``code`` for worlds that have a warp on CUDA or a part of one, and ``otherwise``.

    With ``several`` the code for a warp is also for worlds that have several.

    In ``code``, WIDTH is the number of lanes of a world, LANE the number of this one, MASK has the bits of the world's
    lanes in its warp, of which SHIFT is the first; SEGMENT and MEMBERS are the last operands of PTX's shfl.sync, with
    MEMBERS_INPUT behind the inputs of the assembler statement, of which it is the fourth.
    """
    parts = []
    for width, block in (*IN_A_WARP.items(), (32, 32)):
        whole = width == 32
        shift = "0" if whole else f"(threadIdx.x & {32 - width}u)"
        names = {
            "WIDTH": str(width),
            "LANE": "threadIdx.x" if whole else f"(threadIdx.x & {width - 1}u)",
            "MEMBERS_INPUT": "" if whole else f', "r"({2**width - 1}u << {shift})',
            "MEMBERS": "-1" if whole else "%3",
            "MASK": "0xffffffffu" if whole else f"({2**width - 1}u << {shift})",
            "SHIFT": shift,
            "SEGMENT": str((32 - width << 8) + 31),
        }
        own = code
        for name, value in names.items():
            own = own.replace(name, value)
        size = "WP_TILE_BLOCK_DIM % 32 == 0" if whole and several else f"WP_TILE_BLOCK_DIM == {block}"
        parts.append(f"if {size} && defined(__CUDA_ARCH__)\n{own}\n")
    return "#" + "#el".join(parts) + f"#else\n{otherwise}\n#endif\n"


@wp.func_native(for_warps("return LANE;", "return WP_TILE_THREAD_IDX;"))
def lane() -> int:
    """Number of this thread among those of its world."""
    ...


@wp.func_native(
    "#ifdef __CUDA_ARCH__\n"
    + for_warps("return blockDim.x / (WP_TILE_BLOCK_DIM / WIDTH);", "return blockDim.x;")
    + "#else\n    return WP_TILE_BLOCK_DIM;\n#endif\n"
)
def lane_count() -> int:
    """Lanes that share a world, the stride of loops over its work."""
    ...


@wp.func_native(for_warps("__syncwarp(MASK);", "WP_TILE_SYNC();"))
def barrier():
    """Wait for all lanes of the world; lanes see then what others have written."""
    ...


@wp.func_native(f"{ONE_LANE}    return true;\n#else\n    return false;\n#endif\n")
def is_native() -> bool:
    """Whether this build has one lane on the CPU, for which native functions are; known to the compiler."""
    ...


Variant.DEFAULTS["left_out"] = headers.left_out


@wp.func_native("return false;")
def _never() -> bool: ...


def uses(header: str) -> Any:
    """The device function ``uses_it()``: whether one lane on the CPU takes the functions of a header of `core.native`.

    It is `is_native` unless the header is left out (`core.native.without`); known to the compiler.
    """
    return Template(lambda variant: _never if header in variant["left_out"] else is_native)


def native_twin(function: Any, call: Any, otherwise: str = "") -> Any:
    """The native function with the parameters of a device function, which is to call it where it `uses` the header.

    Args:
        function: Code for several lanes and CUDA.
        call: Statement that calls a function of the headers, with the same names, or a template for one; it may return
            an integer. ``$name`` stands for the scalar type of that parameter of the variant.
        otherwise: Statement for builds that have no headers; it never runs.
    """
    if not isinstance(function, Device):
        return _native_twin(function.func, function.func.__annotations__, call, otherwise)

    def make(variant: Any) -> Any:
        statement, annotations = (
            with_types(instance(call, variant), variant),
            annotations_of(function.function, variant),
        )
        return _native_twin(function.function, annotations, statement, otherwise)

    return Template(make)


def with_native(header: str, call: Any, otherwise: str = "") -> Callable[[Any], Any]:
    """Decorate a device function: its `native_twin` takes its place where it `uses` the header."""
    uses_header = uses(header)

    def decorate(function: Any) -> Any:
        twin = native_twin(function, call, otherwise)
        if not isinstance(function, Device):
            return _either(function.func, function.func.__annotations__, twin, function, is_native, bool(otherwise))

        def make(variant: Any) -> Any:
            annotations = annotations_of(function.function, variant)
            known = twin.of(variant), function.of(variant), uses_header.of(variant)
            return _either(function.function, annotations, *known, bool(otherwise))

        return Template(make)

    return decorate


def _native_twin(plain: Any, annotations: dict[str, Any], call: str, otherwise: str) -> Any:
    snippet = f"{ONE_LANE}    {call}\n#else\n    {otherwise}\n#endif\n"
    return native_stub(plain, annotations, snippet, suffix="_native")


def _either(plain: Any, annotations: dict[str, Any], twin: Any, lanes: Any, uses_header: Any, returns: bool) -> Any:
    if returns:
        text = "    if uses_header():\n        return twin({names})\n    return lanes({names})\n"
    else:
        text = "    if uses_header():\n        twin({names})\n    else:\n        lanes({names})\n"
    known = {"twin": twin, "lanes": lanes, "uses_header": uses_header}
    return wp.func(written(plain, annotations, "_either", "def {name}({names}):\n" + text, **known))


def shuffle_double(name: str, mode: str) -> str:
    """A lambda ``name(value, k)`` for a double of another lane: the intrinsic takes it apart by four instructions.

    ``mode`` is that of PTX's shfl.sync. For `for_warps`.
    """
    return f"""
    const auto {name} = [](double value, int k) {{
        double other;
        asm volatile(
            "{{ .reg .b32 low, high; mov.b64 {{low, high}}, %1; shfl.sync.{mode}.b32 low, low, %2, SEGMENT, MEMBERS;"
            " shfl.sync.{mode}.b32 high, high, %2, SEGMENT, MEMBERS; mov.b64 %0, {{low, high}}; }}"
            : "=d"(other) : "d"(value), "r"(k)MEMBERS_INPUT);
        return other;
    }};
    (void){name};
"""


_SWAP = "    const auto swap_number = [](auto value, int k) { return __shfl_xor_sync(MASK, value, k); };\n"
_SWAP += "    (void)swap_number;\n" + shuffle_double("swap_double", "bfly")


def swap_lanes(dtype: Any) -> tuple[str, str]:
    """Code and name of a lambda ``(value, k)`` for the number of the lane whose number differs in the bits of k."""
    return _SWAP, "swap_double" if getattr(dtype, "_wp_scalar_type_", dtype) is wp.float64 else "swap_number"


# The sum of three numbers by 6 additions instead of 15: half of the lanes goes on with one part of them, then
# half of these with one number. Number c is found on the lanes from c quarters on.
_ADD_THREE = """
    const bool is_upper = LANE & (WIDTH / 2), is_odd = LANE & (WIDTH / 4);
    const decltype(sum[0] + sum[0]) zero = 0;
    auto first = (is_upper ? sum[2] : sum[0]) + SWAP(is_upper ? sum[0] : sum[2], WIDTH / 2);
    auto second = (is_upper ? zero : sum[1]) + SWAP(is_upper ? sum[1] : zero, WIDTH / 2);
    auto one = (is_odd ? second : first) + SWAP(is_odd ? first : second, WIDTH / 4);
    #pragma unroll
    for (int k = WIDTH / 8; k > 0; k >>= 1) one += SWAP(one, k);
    #pragma unroll
    for (int c = 0; c < 3; ++c) sum[c] = __shfl_sync(MASK, one, WIDTH / 4 * c, WIDTH);
"""


@wp.func_native(for_warps("return WIDTH;", "return WP_TILE_BLOCK_DIM;"))
def _known_lane_count() -> int:
    """Return `lane_count` as a number known to NVRTC, which would keep all ways to add else."""
    ...


@wp.func_native(for_warps("return WIDTH;", "return 1;", several=True))
def _summed_by_shuffles() -> int:
    """Lanes whose values a block sum adds by shuffles."""
    ...


dtype = Parameter("dtype")
"""What is summed or told between lanes: a scalar or a vector of three."""


def _sum_by_shuffles(dtype: Any) -> str:
    """Native code that sums ``value`` over the lanes that add by shuffles."""
    parts = [f"sum[{i}]" for i in range(dtype._length_)] if wp.types.type_is_vector(dtype) else ["sum"]
    swaps, swap = swap_lanes(dtype)
    add = " ".join(f"{part} += {swap}({part}, k);" for part in parts)
    loop = f"#pragma unroll\nfor (int k = WIDTH / 2; k > 0; k >>= 1) {{ {add} }}"
    if len(parts) == 3:
        loop = _ADD_THREE.replace("SWAP", swap)
    return "auto sum = value;\n" + for_warps(swaps + loop, several=True) + "return sum;"


@native(Template(lambda variant: _sum_by_shuffles(variant["dtype"])))
def add_shuffled(value: dtype) -> dtype:
    """The sum over the lanes that add by shuffles, on all of them."""
    ...


# Not inlined: a solve has so many sums that NVRTC would leave out of line what the structs must not be passed to.
@device(inline=False)
def warp_sum(value: dtype) -> dtype:
    """`add_shuffled`, as a call."""
    return add_shuffled(value)


@device
def block_sum(value: dtype, scratch: wp.array[dtype], world: int):
    """The sum over the lanes of a world, the same bits on every lane.

    ``scratch`` has one entry per lane of every world. All lanes have come to this place then, and see what others have
    written before.
    """
    lanes = _known_lane_count()
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


number = Parameter("number")
"""The types of what `scalar_sum` sums."""
scalar, vec3 = number.scalar, number.vec3
scalar_warp_sum, vector_sum = warp_sum.on(dtype=scalar), block_sum.on(dtype=vec3)


@device
def scalar_sum(value: scalar, scratch: wp.array[vec3], world: int):
    """The sum of one number, with the scratch of a `block_sum` for three.

    What lanes have written before, others do not see for that.
    """
    lanes = _known_lane_count()
    if lanes == 1:
        return value
    if lanes == _summed_by_shuffles():
        return scalar_warp_sum(value)
    return vector_sum(vec3(value, scalar(0.0), scalar(0.0)), scratch, world)[0]
