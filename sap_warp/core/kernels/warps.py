"""What one warp does with worlds of at most 32 dofs: lane i has dof i, and what lanes tell each other goes by shuffles.

A part of a warp does the same with a world that has no more dofs than it has lanes (`lanes.IN_A_WARP`).

A matrix in packed rows (`packed_rows`) is read into registers, all of row i by lane i. That is dense work on a sparse
matrix, and yet a quarter of the instructions: no addresses, no levels and no barriers. Blocks of other sizes, larger
worlds and the CPU have none of it (`fits_a_warp`).
"""

from __future__ import annotations

from typing import Any

import warp as wp

from .. import native as headers
from .lanes import IN_A_WARP, dtype, for_warps, shuffle_double, swap_lanes
from .template import Parameter, Template, array_of, device, native
from .types import Ints

LARGEST_PIVOT = {"fp32": 1e30, "fp64": 1e300}
"""A larger pivot is as good as infinite."""

CHUNK = 8
"""Columns of the factorization that are skipped together where a row has nothing in them."""


@wp.func_native(for_warps("return count <= WIDTH;", "return false;"))
def fits_a_warp(count: int) -> bool:
    """Whether a world in one warp has a lane for each of ``count`` dofs; only then the others of this module work."""
    ...


@wp.func_native(for_warps("__builtin_assume(count <= WIDTH);"))
def assume_fits_a_warp(count: int):
    """Tell the compiler that `fits_a_warp` holds, so that it leaves out what is for larger worlds."""
    ...


def in_a_warp(lanes: int, device: Any) -> bool:
    """Whether ``lanes`` that share a world are a warp or a part of one, so that `is_warp` holds."""
    return not device.is_cpu and lanes in (32, *IN_A_WARP)


def walks_chains(lanes: int, most_dofs: int, device: Any) -> bool:
    """Return True if ``lanes`` that share a world need the tables of `RowPattern` by which they walk a tree together.

    One lane on the CPU does not (`core/native/cholesky.h`), nor does a warp whose worlds have at most ``most_dofs``
    dofs, if each has a lane (`fits_a_warp`).
    """
    if device.is_cpu:
        return lanes > 1 or bool({"cholesky", "rows"} & headers.left_out())
    return not in_a_warp(lanes, device) or most_dofs > lanes


@wp.func_native(for_warps("return true;", "return false;"))
def is_warp() -> bool:
    """Whether a world is in one warp, known to the compiler; what is below works for any number of dofs then."""
    ...


@wp.func_native(for_warps("return __ffs(__ballot_sync(MASK, value) >> SHIFT) - 1;", "return -1;"))
def first_lane(value: bool) -> int:
    """The first lane on which ``value`` holds, -1 if there is none; all lanes ask."""
    ...


@wp.func_native(for_warps("return __any_sync(MASK, value);", "return value;"))
def any_lane(value: bool) -> bool:
    """Whether ``value`` holds on any lane; all lanes ask."""
    ...


@wp.func_native(for_warps("return __popc(__ballot_sync(MASK, value));", "return value;"))
def count_lanes(value: bool) -> int:
    """On how many lanes ``value`` holds; all lanes ask."""
    ...


@wp.func_native(for_warps("return __popc(__ballot_sync(MASK, value) >> SHIFT & ((1u << LANE) - 1u));", "return 0;"))
def lanes_before(value: bool) -> int:
    """On how many lanes before this one ``value`` holds; all lanes ask."""
    ...


# tell_float(value, k), tell_double(value, k): the value of lane k. Written out, since the intrinsic moves a number to
# integer registers and back, a double by four instructions.
_TELL = """
    const auto tell_float = [](float value, int k) {
        float told;
        asm volatile("shfl.sync.idx.b32 %0, %1, %2, SEGMENT, MEMBERS;" : "=f"(told) : "f"(value), "r"(k)MEMBERS_INPUT);
        return told;
    };
    const auto tell_int = [](int value, int k) { return __shfl_sync(MASK, value, k, WIDTH); };
    (void)tell_float, (void)tell_int;
""" + shuffle_double("tell_double", "idx")
_TOLD = {wp.float32: "tell_float", wp.float64: "tell_double", int: "tell_int"}


def _ask_lane(dtype: Any) -> str:
    """Native code that asks the lane ``source`` for its value."""
    parts = [f"got[{i}]" for i in range(dtype._length_)] if wp.types.type_is_vector(dtype) else ["got"]
    tell = _TOLD[getattr(dtype, "_wp_scalar_type_", dtype)]
    ask = " ".join(f"{part} = {tell}({part}, source);" for part in parts)
    return "auto got = value;\n" + for_warps(_TELL + ask) + "return got;"


@native(Template(lambda variant: _ask_lane(variant["dtype"])))
def from_lane(value: dtype, source: int) -> dtype:
    """The value of another lane; all lanes ask, each for the one it likes."""
    ...


@wp.func_native(for_warps("return WIDTH == 32 ? 3 : WIDTH == 16 ? 2 : 1;", "return 0;"))
def quarter_bits() -> int:
    """Bits of the number of a lane in its quarter of the world's lanes; two more are those in the world."""
    ...


def _sum_quarter(dtype: Any) -> str:
    """Native code that sums ``value`` over a quarter of the lanes, or over all of them."""
    swaps, swap = swap_lanes(dtype)
    add = f"#pragma unroll\nfor (int k = WIDTH / FIRST; k > LAST; k >>= 1) sum += {swap}(sum, k);\n"
    whole = add.replace("FIRST", "2").replace("LAST", "WIDTH / 8")
    quarter = add.replace("FIRST", "8").replace("LAST", "0")
    return "auto sum = value;\n" + for_warps(f"{swaps}if (is_whole) {{\n{whole}}}\n{quarter}") + "return sum;"


@native(Template(lambda variant: _sum_quarter(variant["dtype"])))
def quarter_sum(value: dtype, is_whole: bool) -> dtype:
    """The sum over a quarter of the lanes, or over all, on all of them."""
    ...


# Row i of a symmetric matrix, all columns: left of the diagonal from packed row i, right of it from the other rows.
_READ_ROW = """
    const int i = LANE;
    const bool is_dof = i < count;
    const int low = is_dof ? first_of[start + i] - start : 0;
    const int row = is_dof ? entry_of[start + i] - low : 0;
    MATRIX a[WIDTH];
    #pragma unroll
    for (int k = 0; k < WIDTH; ++k) {
        a[k] = 0;
        if (k < count) {
            const int other_low = __shfl_sync(MASK, low, k, WIDTH);
            const int other_row = __shfl_sync(MASK, row, k, WIDTH);
            const bool is_left = k <= i;
            if (is_dof && (is_left ? k >= low : i >= other_low)) a[k] = matrix_of[is_left ? row + k : other_row + i];
        }
    }
"""

# L D L^T from the first column on. Where column j is done, lane j keeps d_j times its row of L^T.
_SOLVE = """
    MATRIX b = is_dof ? x_of[start + i] : (MATRIX)(0), inverse = 0;
    bool is_bad = false;
    #pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        if (j < count) {
            const MATRIX pivot = tell_MATRIX(a[j], j);
            is_bad |= !(pivot > 0) || pivot > (MATRIX)(LARGEST);
            const MATRIX share = 1 / pivot;
            const MATRIX minus = i > j ? -a[j] * share : (MATRIX)(0);
            inverse = i == j ? share : inverse;
            b = fma(minus, tell_MATRIX(b, j), b);
            const unsigned used = __ballot_sync(MASK, minus != 0) >> SHIFT;
            #pragma unroll
            for (int from = j + 1 - (j + 1) % CHUNK; from < WIDTH; from += CHUNK) {
                if (used >> from & ((1u << CHUNK) - 1)) {
                    #pragma unroll
                    for (int k = from; k < from + CHUNK; ++k)
                        if (k > j) a[k] = fma(minus, tell_MATRIX(a[j], k), a[k]);
                }
            }
        }
    }
    if (is_bad) return 0;  // of all lanes alike
    #pragma unroll
    for (int k = WIDTH - 1; k > 0; --k) {
        if (k < count) {
            const MATRIX solved = tell_MATRIX(b * inverse, k);
            b = fma(i < k ? -a[k] : (MATRIX)(0), solved, b);
        }
    }
    if (is_dof) x_of[start + i] = b * inverse;
    return 1;
"""

_MULTIPLY = """
    const VECTOR own = is_dof ? x_of[start + i] : (VECTOR)(0);
    VECTOR sum = 0;
    #pragma unroll
    for (int k = 0; k < WIDTH; ++k)
        if (k < count) sum = fma((VECTOR)(a[k]), tell_VECTOR(own, k), sum);
    if (is_dof) y_of[start + i] = sum;
"""

_ADD_ROWS = """
    const int i = LANE, e = start + i;
    const bool is_dof = i < count;
    const int low = is_dof ? rows_first.data[e] - start : WIDTH;
    const int from = is_dof ? rows_entry.data[e] - low : 0;
    const int to = is_dof ? target_entry.data[e] + start - target_first.data[e] : 0;
    MATRIX s[6];
    #pragma unroll
    for (int c = 0; c < 3; ++c) {
        s[c] = is_dof ? (MATRIX)(Sw.data[e][c]) : (MATRIX)(0);
        s[c + 3] = is_dof ? (MATRIX)(Sv.data[e][c]) : (MATRIX)(0);
    }
    #pragma unroll 4
    for (int k = 0; k < count; ++k) {
        MATRIX value = 0;
        #pragma unroll
        for (int c = 0; c < 3; ++c) {
            value = fma(s[c], tell_MATRIX(Fw[c], k), value);
            value = fma(s[c + 3], tell_MATRIX(Fv[c], k), value);
        }
        if (k >= low && k <= i) target.data[to + k] = (MATRIX)(base.data[from + k]) + value;
    }
"""


def _snippet(code: str, otherwise: str, **names: Any) -> str:
    for name, value in names.items():
        code = code.replace(name, str(value))
    return for_warps(_TELL + code, otherwise)


matrix, vector = Parameter("matrix"), Parameter("vector")
"""The types of a matrix, and of what it is multiplied with; for `add_rows` that of base and motion columns."""
scalar, vec3, Numbers = matrix.scalar, matrix.vec3, array_of(matrix.scalar)
vector_scalar, vector_vec3 = vector.scalar, vector.vec3
Vector = array_of(vector_scalar)


@native("return (wp::uint64)array.data;")
def address(array: wp.array[dtype]) -> wp.uint64:
    """Functions that are not inlined take it, since an array is 14 registers."""
    ...


matrix_address, vector_address = address.on(dtype=scalar), address.on(dtype=vector.scalar)
table_address = address.on(dtype=Template(lambda _: int))


def _pointers(**arrays: Any) -> str:
    """Pointers from addresses of that name, to numbers, or with None to integers."""
    kinds = {name: types.c_name if types else "int" for name, types in arrays.items()}
    return "".join(f"    {kind}* const {name}_of = ({kind}*){name};\n" for name, kind in kinds.items())


def _solve_snippet(variant: Any) -> str:
    types = variant["matrix"]
    names = {"MATRIX": types.c_name, "LARGEST": LARGEST_PIVOT[types.name], "CHUNK": CHUNK}
    code = _pointers(matrix=types, first=None, entry=None, x=types) + _READ_ROW + _SOLVE
    return _snippet(code, "return 0;", **names)


@native(Template(_solve_snippet))
def solve_native(matrix: wp.uint64, first: wp.uint64, entry: wp.uint64, start: int, count: int, x: wp.uint64) -> int:
    """`solve_in_warp` from addresses."""
    ...


# Not inlined: several places call it.
@device(inline=False)
def solve_at(matrix: wp.uint64, first: wp.uint64, entry: wp.uint64, start: int, count: int, x: wp.uint64) -> int:
    """`solve_native`, as a call."""
    return solve_native(matrix, first, entry, start, count, x)


@device
def solve_in_warp(matrix: Numbers, first: Ints, entry: Ints, start: int, count: int, x: Numbers) -> int:
    """Solve as `packed_rows.factor_and_solve` does, for any rows.

    Every lane reads and writes its own entry of x; of the matrix nothing is written.
    """
    return solve_at(matrix_address(matrix), table_address(first), table_address(entry), start, count, matrix_address(x))


def _multiply_snippet(variant: Any) -> str:
    types, vectors = variant["matrix"], variant["vector"]
    code = _pointers(matrix=types, first=None, entry=None, x=vectors, y=vectors) + _READ_ROW + _MULTIPLY
    return _snippet(code, "", MATRIX=types.c_name, VECTOR=vectors.c_name)


@native(Template(_multiply_snippet))
def multiply_native(
    matrix: wp.uint64, first: wp.uint64, entry: wp.uint64, start: int, count: int, x: wp.uint64, y: wp.uint64
):
    """`multiply_in_warp` from addresses."""
    ...


@device(inline=False)
def multiply_at(
    matrix: wp.uint64, first: wp.uint64, entry: wp.uint64, start: int, count: int, x: wp.uint64, y: wp.uint64
):
    """`multiply_native`, as a call."""
    multiply_native(matrix, first, entry, start, count, x, y)


@device
def multiply_in_warp(matrix: Numbers, first: Ints, entry: Ints, start: int, count: int, x: Vector, y: Vector):
    """Set y = A x, each lane with its own entries of x and y."""
    multiply_at(
        matrix_address(matrix),
        table_address(first),
        table_address(entry),
        start,
        count,
        vector_address(x),
        vector_address(y),
    )


@native(Template(lambda variant: _snippet(_ADD_ROWS, "", MATRIX=variant["matrix"].c_name)))
def add_rows_in_warp(
    target: wp.array[scalar],
    target_first: Ints,
    target_entry: Ints,
    base: wp.array[vector_scalar],
    rows_first: Ints,
    rows_entry: Ints,
    start: int,
    count: int,
    Sw: wp.array[vector_vec3],
    Sv: wp.array[vector_vec3],
    Fw: vec3,
    Fv: vec3,
):
    """Add rows as `packed_rows.add_rows` does with a base, the force of a dof given by its lane."""
    ...
