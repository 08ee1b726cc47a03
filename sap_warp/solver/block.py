"""Block primitives: lane, barrier, sums over a block, and the packed-row Cholesky factorization.

One world is one block. On the CPU a block has one lane and every loop below is a plain serial loop; on CUDA (and in
tests, on cooperative CPU fibers) the lanes of a block share the same loops. All native snippets of the package are
in this file, and each numerical one has a plain Warp twin next to it that tests compare it with.

Packed rows: row ``i`` of a symmetric matrix holds the columns ``first[i] .. i`` at ``adr[i] ..``; what is left of
``first[i]`` is zero. A factor L with H = L L^T has the same pattern, and its diagonal is stored inverted.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ..precision import Types


@wp.func_native("return WP_TILE_THREAD_IDX;")
def lane() -> int:
    """Index of this thread within its block."""
    ...


@wp.func_native("WP_TILE_SYNC();")
def barrier():
    """Wait for all lanes of the block."""
    ...


# The dot product keeps four partial sums: without them the compiler may not vectorize it, because it would have to
# reorder additions.
_DOT = """
    auto dot = [](const T* a, const T* b, int n) {
        T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        int k = 0;
        for (; k + 4 <= n; k += 4) {
            s0 += a[k] * b[k]; s1 += a[k + 1] * b[k + 1]; s2 += a[k + 2] * b[k + 2]; s3 += a[k + 3] * b[k + 3];
        }
        for (; k < n; ++k) s0 += a[k] * b[k];
        return (s0 + s1) + (s2 + s3);
    };
"""

# Column by column: the rows of a column are independent, so the lanes share them; one barrier per column.
# `next` leads from a row to the next one that can have an entry in the column: the chain to the root while rows are
# subtrees (coupled == 0), else simply the following row.
_FACTOR = (
    """
    typedef SCALAR T;
"""
    + _DOT
    + """
    const int lane = WP_TILE_THREAD_IDX;
    const int lanes = WP_TILE_BLOCK_DIM;
    const int* fst = first.data;
    const int* nxt = next.data;
    const int end = start + count;
    int ok = 1;
    for (int j = start; j < end; ++j) {
        const int fj = fst[j];
        T* Lj = matrix.data + adr.data[j] - fj;
        const T pivot = Lj[j] - dot(Lj + fj, Lj + fj, j - fj);
        if (!(pivot > T(0)) || pivot > T(MAXIMUM)) { ok = 0; break; }
        const T inv = T(1) / sqrt(pivot);
        int i = coupled ? j + 1 : nxt[j];
        for (int skip = 0; skip < lane && i >= 0 && i < end; ++skip) i = coupled ? i + 1 : nxt[i];
        while (i >= 0 && i < end) {
            const int fi = fst[i];
            if (fi <= j) {
                T* Li = matrix.data + adr.data[i] - fi;
                const int m = fi > fj ? fi : fj;
                Li[j] = (Li[j] - dot(Li + m, Lj + m, j - m)) * inv;
            }
            for (int skip = 0; skip < lanes && i >= 0 && i < end; ++skip) i = coupled ? i + 1 : nxt[i];
        }
        WP_TILE_SYNC();
        if (lane == 0) Lj[j] = inv;
    }
    WP_TILE_SYNC();
    return ok;
"""
)

_SOLVE = """
    typedef SCALAR T;
    const int lane = WP_TILE_THREAD_IDX;
    const int lanes = WP_TILE_BLOCK_DIM;
    const int* fst = first.data;
    const int* nxt = next.data;
    const int end = start + count;
    T* v = x.data;
    for (int j = start; j < end; ++j) {
        const T y = v[j] * matrix.data[adr.data[j] + j - fst[j]];
        WP_TILE_SYNC();
        if (lane == 0) v[j] = y;
        int i = coupled ? j + 1 : nxt[j];
        for (int skip = 0; skip < lane && i >= 0 && i < end; ++skip) i = coupled ? i + 1 : nxt[i];
        while (i >= 0 && i < end) {
            const int fi = fst[i];
            if (fi <= j) v[i] -= matrix.data[adr.data[i] + j - fi] * y;
            for (int skip = 0; skip < lanes && i >= 0 && i < end; ++skip) i = coupled ? i + 1 : nxt[i];
        }
        WP_TILE_SYNC();
    }
    for (int j = end - 1; j >= start; --j) {
        const int fj = fst[j];
        const T* Lj = matrix.data + adr.data[j] - fj;
        const T y = v[j] * Lj[j];
        WP_TILE_SYNC();
        if (lane == 0) v[j] = y;
        for (int k = fj + lane; k < j; k += lanes) v[k] -= Lj[k] * y;
        WP_TILE_SYNC();
    }
"""

# y = A x with A in packed tree rows: own row by a contiguous sum, the rows above by walking the chain to the root.
_MULTIPLY = (
    """
    typedef SCALAR T;
    typedef SCALAR_X X;
    const int lane = WP_TILE_THREAD_IDX;
    const int lanes = WP_TILE_BLOCK_DIM;
    const int* fst = first.data;
    const int* nxt = next.data;
    const int end = start + count;
    const T* a = matrix.data;
    const X* v = x.data;
    for (int j = start + lane; j < end; j += lanes) {
        const int fj = fst[j];
        const T* Aj = a + adr.data[j] - fj;
        X s = 0;
        for (int k = fj; k <= j; ++k) s += X(Aj[k]) * v[k];
        for (int i = nxt[j]; i >= 0; i = nxt[i]) s += X(a[adr.data[i] + j - fst[i]]) * v[i];
        y.data[j] = s;
    }
    WP_TILE_SYNC();
"""
)


@functools.cache
def make_cholesky(types: Types, native: bool = True) -> SimpleNamespace:
    """Factorization and solve on packed rows for one precision.

    ``factor(matrix, first, adr, next, start, count, coupled) -> int`` factors in place and returns 0 if a pivot is
    not positive or not finite. ``solve(matrix, first, adr, next, start, count, coupled, x)`` overwrites x with the
    solution. ``native=False`` gives the plain Warp twins, which must be run with one lane.
    """
    scalar = types.scalar
    maximum = "1e30f" if types.name == "fp32" else "1e300"

    def filled(snippet: str) -> str:
        return snippet.replace("SCALAR", types.c_name).replace("MAXIMUM", maximum)

    if native:

        @wp.func_native(filled(_FACTOR))
        def factor(
            matrix: wp.array(dtype=scalar),
            first: wp.array(dtype=wp.int32),
            adr: wp.array(dtype=wp.int32),
            next: wp.array(dtype=wp.int32),
            start: int,
            count: int,
            coupled: int,
        ) -> int: ...

        @wp.func_native(filled(_SOLVE))
        def solve(
            matrix: wp.array(dtype=scalar),
            first: wp.array(dtype=wp.int32),
            adr: wp.array(dtype=wp.int32),
            next: wp.array(dtype=wp.int32),
            start: int,
            count: int,
            coupled: int,
            x: wp.array(dtype=scalar),
        ): ...

        return SimpleNamespace(factor=factor, solve=solve)

    @wp.func
    def factor_plain(
        matrix: wp.array(dtype=scalar),
        first: wp.array(dtype=wp.int32),
        adr: wp.array(dtype=wp.int32),
        next: wp.array(dtype=wp.int32),
        start: int,
        count: int,
        coupled: int,
    ) -> int:
        for i in range(start, start + count):
            fi = first[i]
            ai = adr[i] - fi
            for j in range(fi, i + 1):
                aj = adr[j] - first[j]
                s = matrix[ai + j]
                for k in range(wp.max(fi, first[j]), j):
                    s -= matrix[ai + k] * matrix[aj + k]
                if i == j:
                    if not (s > scalar(0.0)) or not wp.isfinite(s):
                        return 0
                    matrix[ai + j] = scalar(1.0) / wp.sqrt(s)
                else:
                    matrix[ai + j] = s * matrix[aj + j]
        return 1

    @wp.func
    def solve_plain(
        matrix: wp.array(dtype=scalar),
        first: wp.array(dtype=wp.int32),
        adr: wp.array(dtype=wp.int32),
        next: wp.array(dtype=wp.int32),
        start: int,
        count: int,
        coupled: int,
        x: wp.array(dtype=scalar),
    ):
        for i in range(start, start + count):
            ai = adr[i] - first[i]
            s = x[i]
            for k in range(first[i], i):
                s -= matrix[ai + k] * x[k]
            x[i] = s * matrix[ai + i]
        for r in range(count):
            i = start + count - 1 - r
            ai = adr[i] - first[i]
            y = x[i] * matrix[ai + i]
            x[i] = y
            for k in range(first[i], i):
                x[k] = x[k] - matrix[ai + k] * y

    return SimpleNamespace(factor=factor_plain, solve=solve_plain)


@functools.cache
def make_multiply(types: Types, vector_types: Types, native: bool = True):
    """``multiply(matrix, first, adr, next, start, count, x, y)``: y = A x for a matrix in packed tree rows."""
    scalar, vector = types.scalar, vector_types.scalar
    if native:
        snippet = _MULTIPLY.replace("SCALAR_X", vector_types.c_name).replace("SCALAR", types.c_name)

        @wp.func_native(snippet)
        def multiply(
            matrix: wp.array(dtype=scalar),
            first: wp.array(dtype=wp.int32),
            adr: wp.array(dtype=wp.int32),
            next: wp.array(dtype=wp.int32),
            start: int,
            count: int,
            x: wp.array(dtype=vector),
            y: wp.array(dtype=vector),
        ): ...

        return multiply

    @wp.func
    def multiply_plain(
        matrix: wp.array(dtype=scalar),
        first: wp.array(dtype=wp.int32),
        adr: wp.array(dtype=wp.int32),
        next: wp.array(dtype=wp.int32),
        start: int,
        count: int,
        x: wp.array(dtype=vector),
        y: wp.array(dtype=vector),
    ):
        for j in range(start + lane(), start + count, wp.block_dim()):
            s = vector(0.0)
            for k in range(first[j], j + 1):
                s += vector(matrix[adr[j] + k - first[j]]) * x[k]
            i = next[j]
            while i >= 0:
                s += vector(matrix[adr[i] + j - first[i]]) * x[i]
                i = next[i]
            y[j] = s
        barrier()

    return multiply_plain


@functools.cache
def make_block_sum(dtype):
    """``block_sum(value, scratch, world) -> dtype``: the sum over the lanes of a block, the same bits on every lane.

    ``scratch`` has one entry per lane of every world.
    """

    @wp.func
    def block_sum(value: dtype, scratch: wp.array(dtype=dtype), world: int):
        lanes = wp.block_dim()
        if lanes == 1:
            return value
        base = world * lanes
        scratch[base + lane()] = value
        barrier()
        total = scratch[base]
        for i in range(1, lanes):
            total += scratch[base + i]
        barrier()
        return total

    return block_sum
