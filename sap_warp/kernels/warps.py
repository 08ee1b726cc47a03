"""What one warp does with worlds of at most 32 dofs: lane i has dof i, and what lanes tell each other goes by shuffles.

A matrix in packed rows (`packed_rows`) is read into registers, all of row i by lane i. That is dense work on a sparse
matrix, and yet a quarter of the instructions: no addresses, no levels and no barriers. Blocks of other sizes, larger
worlds and the CPU have none of it (`fits_a_warp`).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from .lanes import ONE_WARP, SWAP_DOUBLE, shuffle_double
from .types import Ints, Types

LARGEST_PIVOT = {"fp32": 1e30, "fp64": 1e300}
"""A larger pivot is as good as infinite."""

CHUNK = 8
"""Columns of the factorization that are skipped together where a row has nothing in them."""


@wp.func_native(f"{ONE_WARP}    return count <= 32;\n#else\n    return false;\n#endif\n")
def fits_a_warp(count: int) -> bool:
    """Whether a block of one warp has a lane for each of ``count`` dofs; only then the others of this module work."""
    ...


@wp.func_native(f"{ONE_WARP}    __builtin_assume(count <= 32);\n#endif\n")
def assume_fits_a_warp(count: int):
    """Tell the compiler that `fits_a_warp` holds, so that it leaves out what is for larger worlds."""
    ...


def walks_chains(lanes: int, most_dofs: int, device: Any) -> bool:
    """Whether ``lanes`` that share a world need the tables of `RowPattern` by which they go through a tree together.

    One lane on the CPU does not (`lanes.is_native`), nor does a warp whose worlds have at most ``most_dofs`` dofs, if
    each has a lane (`fits_a_warp`).
    """
    return lanes > 1 if device.is_cpu else lanes != 32 or most_dofs > 32


@wp.func_native(f"{ONE_WARP}    return true;\n#else\n    return false;\n#endif\n")
def is_warp() -> bool:
    """Whether a block is one warp, known to the compiler; what is below works for any number of dofs then."""
    ...


@wp.func_native(f"{ONE_WARP}    return __ffs(__ballot_sync(0xffffffffu, value)) - 1;\n#else\n    return -1;\n#endif\n")
def first_lane(value: bool) -> int:
    """The first lane on which ``value`` holds, -1 if there is none; all lanes ask."""
    ...


@wp.func_native(f"{ONE_WARP}    return __any_sync(0xffffffffu, value);\n#else\n    return value;\n#endif\n")
def any_lane(value: bool) -> bool:
    """Whether ``value`` holds on any lane; all lanes ask."""
    ...


@wp.func_native(f"{ONE_WARP}    return __popc(__ballot_sync(0xffffffffu, value));\n#else\n    return value;\n#endif\n")
def count_lanes(value: bool) -> int:
    """On how many lanes ``value`` holds; all lanes ask."""
    ...


@wp.func_native(
    f"{ONE_WARP}    return __popc(__ballot_sync(0xffffffffu, value) & ((1u << threadIdx.x) - 1u));\n"
    "#else\n    return 0;\n#endif\n"
)
def lanes_before(value: bool) -> int:
    """On how many lanes before this one ``value`` holds; all lanes ask."""
    ...


# tell_float(value, k), tell_double(value, k): the value of lane k. Written out, since the intrinsic moves a number to
# integer registers and back, a double by four instructions.
_TELL = """
    const auto tell_float = [](float value, int k) {
        float told;
        asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, -1;" : "=f"(told) : "f"(value), "r"(k));
        return told;
    };
    const auto tell_int = [](int value, int k) { return __shfl_sync(0xffffffffu, value, k); };
    (void)tell_float, (void)tell_int;
""" + shuffle_double("tell_double", "double value, int k", "idx")
_TOLD = {wp.float32: "tell_float", wp.float64: "tell_double", int: "tell_int"}


@functools.cache
def make_from_lane(dtype: Any) -> Any:
    """``from_lane(value, source) -> dtype``: the value of another lane; all lanes ask, each for the one it likes."""
    parts = [f"got[{i}]" for i in range(dtype._length_)] if wp.types.type_is_vector(dtype) else ["got"]
    tell = _TOLD[getattr(dtype, "_wp_scalar_type_", dtype)]
    ask = " ".join(f"{part} = {tell}({part}, source);" for part in parts)

    @wp.func_native(f"auto got = value;\n{ONE_WARP}{_TELL}{ask}\n#endif\nreturn got;")
    def from_lane(value: dtype, source: int) -> dtype: ...

    return from_lane


GROUP_BITS = wp.constant(3)
GROUP = wp.constant(1 << GROUP_BITS)
"""Lanes of the groups of `make_group_sum`."""


@functools.cache
def make_group_sum(dtype: Any) -> Any:
    """``group_sum(value, is_whole) -> dtype``: the sum over a group of lanes, or over the warp, on all of them."""
    swap = "swap_double" if dtype is wp.float64 else "__shfl_xor_sync"
    add = f"#pragma unroll\nfor (int k = FIRST; k > LAST; k >>= 1) sum += {swap}(0xffffffffu, sum, k);\n"
    whole, group = (
        add.replace("FIRST", str(first)).replace("LAST", str(last))
        for first, last in ((16, GROUP // 2), (GROUP // 2, 0))
    )

    @wp.func_native(
        f"auto sum = value;\n{ONE_WARP}{SWAP_DOUBLE}if (is_whole) {{\n{whole}}}\n{group}#endif\nreturn sum;"
    )
    def group_sum(value: dtype, is_whole: bool) -> dtype: ...

    return group_sum


# Row i of a symmetric matrix, all 32 columns: left of the diagonal from packed row i, right of it from the other rows.
_READ_ROW = """
    const int i = threadIdx.x;
    const bool is_dof = i < count;
    const int low = is_dof ? first_of[start + i] - start : 0;
    const int row = is_dof ? entry_of[start + i] - low : 0;
    MATRIX a[32];
    #pragma unroll
    for (int k = 0; k < 32; ++k) {
        a[k] = 0;
        if (k < count) {
            const int other_low = __shfl_sync(0xffffffffu, low, k);
            const int other_row = __shfl_sync(0xffffffffu, row, k);
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
    for (int j = 0; j < 32; ++j) {
        if (j < count) {
            const MATRIX pivot = tell_MATRIX(a[j], j);
            is_bad |= !(pivot > 0) || pivot > (MATRIX)(LARGEST);
            const MATRIX share = 1 / pivot;
            const MATRIX minus = i > j ? -a[j] * share : (MATRIX)(0);
            inverse = i == j ? share : inverse;
            b = fma(minus, tell_MATRIX(b, j), b);
            const unsigned used = __ballot_sync(0xffffffffu, minus != 0);
            #pragma unroll
            for (int from = j + 1 - (j + 1) % CHUNK; from < 32; from += CHUNK) {
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
    for (int k = 31; k > 0; --k) {
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
    for (int k = 0; k < 32; ++k)
        if (k < count) sum = fma((VECTOR)(a[k]), tell_VECTOR(own, k), sum);
    if (is_dof) y_of[start + i] = sum;
"""

_ADD_ROWS = """
    const int i = threadIdx.x, e = start + i;
    const bool is_dof = i < count;
    const int low = is_dof ? rows_first.data[e] - start : 32;
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
    return f"{ONE_WARP}{_TELL}{code}\n#else\n{otherwise}\n#endif\n"


@functools.cache
def _make_address(dtype: Any) -> Any:
    """``address(array)``: functions that are not inlined take it, since an array is 14 registers."""

    @wp.func_native("return (wp::uint64)array.data;")
    def address(array: wp.array[dtype]) -> wp.uint64: ...

    return address


def _pointers(**arrays: Types | None) -> str:
    """Pointers from addresses of that name, to numbers, or with None to integers."""
    kinds = {name: types.c_name if types else "int" for name, types in arrays.items()}
    return "".join(f"    {kind}* const {name}_of = ({kind}*){name};\n" for name, kind in kinds.items())


@functools.cache
def make_warp_solve(types: Types) -> Any:
    """``solve(matrix, first, entry, start, count, x) -> int``: as that of `packed_rows.make_cholesky`, for any rows.

    Every lane reads and writes its own entry of x; of the matrix nothing is written.
    """
    Numbers = wp.array[types.scalar]
    address, tables = _make_address(types.scalar), _make_address(int)
    names = {"MATRIX": types.c_name, "LARGEST": LARGEST_PIVOT[types.name], "CHUNK": CHUNK}
    code = _pointers(matrix=types, first=None, entry=None, x=types) + _READ_ROW + _SOLVE

    @wp.func_native(_snippet(code, "return 0;", **names))
    def solve_native(
        matrix: wp.uint64, first: wp.uint64, entry: wp.uint64, start: int, count: int, x: wp.uint64
    ) -> int: ...

    # Not inlined: several places call it.
    @wp.func(inline=False)
    def solve_at(matrix: wp.uint64, first: wp.uint64, entry: wp.uint64, start: int, count: int, x: wp.uint64) -> int:
        return solve_native(matrix, first, entry, start, count, x)

    @wp.func
    def solve(matrix: Numbers, first: Ints, entry: Ints, start: int, count: int, x: Numbers) -> int:
        return solve_at(address(matrix), tables(first), tables(entry), start, count, address(x))

    return solve


@functools.cache
def make_warp_multiply(types: Types, vector_types: Types) -> Any:
    """``multiply(matrix, first, entry, start, count, x, y)``: y = A x, each lane with its own entries of x and y."""
    Matrix, Vector = wp.array[types.scalar], wp.array[vector_types.scalar]
    entries, vector, tables = _make_address(types.scalar), _make_address(vector_types.scalar), _make_address(int)
    names = {"MATRIX": types.c_name, "VECTOR": vector_types.c_name}
    code = _pointers(matrix=types, first=None, entry=None, x=vector_types, y=vector_types) + _READ_ROW + _MULTIPLY

    @wp.func_native(_snippet(code, "", **names))
    def multiply_native(
        matrix: wp.uint64, first: wp.uint64, entry: wp.uint64, start: int, count: int, x: wp.uint64, y: wp.uint64
    ): ...

    @wp.func(inline=False)
    def multiply_at(
        matrix: wp.uint64, first: wp.uint64, entry: wp.uint64, start: int, count: int, x: wp.uint64, y: wp.uint64
    ):
        multiply_native(matrix, first, entry, start, count, x, y)

    @wp.func
    def multiply(matrix: Matrix, first: Ints, entry: Ints, start: int, count: int, x: Vector, y: Vector):
        multiply_at(entries(matrix), tables(first), tables(entry), start, count, vector(x), vector(y))

    return multiply


@functools.cache
def make_warp_add_rows(types: Types, column_types: Types) -> SimpleNamespace:
    """``add_rows(...)``: as that of `packed_rows.make_add_rows` with a base, the force of a dof given by its lane."""
    scalar, vec3, column = types.scalar, types.vec3, column_types.vec3

    @wp.func_native(_snippet(_ADD_ROWS, "", MATRIX=types.c_name))
    def add_rows(
        target: wp.array[scalar],
        target_first: Ints,
        target_entry: Ints,
        base: wp.array[column_types.scalar],
        rows_first: Ints,
        rows_entry: Ints,
        start: int,
        count: int,
        Sw: wp.array[column],
        Sv: wp.array[column],
        Fw: vec3,
        Fv: vec3,
    ): ...

    return add_rows
