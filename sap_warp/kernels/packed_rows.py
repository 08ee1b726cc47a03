"""Symmetric matrices in packed rows: Cholesky factorization, solution and products.

Row ``i`` holds the columns ``first[i] .. i`` at ``entry[i] ..``; what is left of ``first[i]`` is zero. A factor L with
H = L L^T has the same pattern, and its diagonal is stored inverted. While rows are subtrees, the rows that reach back
to column j are the dofs above j, ``above[above_start[j]] ..``; contacts may couple others with them.

One lane on the CPU takes the panels of `native/cholesky.h` and `native/rows.h`. Several lanes share the code below.
"""

import functools
from types import SimpleNamespace

import warp as wp

from .lanes import barrier, is_native, lane, native_twin
from .types import Types

LARGEST_PIVOT = {"fp32": 1e30, "fp64": 1e300}
"""A larger pivot is as good as infinite."""


@wp.struct
class RowPattern:
    """Where the entries of packed rows are, by dof."""

    first: wp.array(dtype=wp.int32)  # first column of each row
    entry: wp.array(dtype=wp.int32)  # address of that entry
    above: wp.array(dtype=wp.int32)  # rows of the tree that reach back to a column, growing
    above_start: wp.array(dtype=wp.int32)


@functools.cache
def make_cholesky(types: Types):
    """``solve(matrix, rows, start, count, coupled, x) -> int`` for one precision.

    Factors the matrix in place and overwrites x with the solution; returns 0 if a pivot is not positive or not finite.
    ``coupled`` is 0 while rows are subtrees.
    """
    scalar = types.scalar

    @wp.func
    def dot(matrix: wp.array(dtype=scalar), i: int, j: int, first: int, end: int) -> scalar:
        """Product of two rows between two columns; i and j are the addresses of their column 0."""
        s = scalar(0.0)
        k = int(first)
        while k < end:
            s += matrix[i + k] * matrix[j + k]
            k += 1
        return s

    @wp.func
    def row_of(rows: wp.ref[RowPattern], j: int, k: int, coupled: int) -> int:
        """The k-th row that may reach back to column j; the first one is row j itself."""
        i = j + k
        if coupled == 0 and k > 0:
            i = rows.above[rows.above_start[j] + k - 1]
        return i

    @wp.func
    def solve_by_lanes(
        matrix: wp.array(dtype=scalar),
        rows: wp.ref[RowPattern],
        start: int,
        count: int,
        coupled: int,
        x: wp.array(dtype=scalar),
    ) -> int:
        """Column by column: the rows of a column are independent, and x goes along as if it were another row.

        Until the end x is what its entries are before they are divided by pivots, so that no lane changes what others
        are reading.
        """
        end = start + count
        j = int(start)
        while j < end:
            fj = rows.first[j]
            aj = rows.entry[j] - fj
            n = wp.where(coupled != 0, end - j, rows.above_start[j + 1] - rows.above_start[j] + 1)
            k = int(lane())
            while k < n:
                i = row_of(rows, j, k, coupled)
                fi = rows.first[i]
                if fi <= j:
                    ai = rows.entry[i] - fi
                    matrix[ai + j] = matrix[ai + j] - dot(matrix, ai, aj, wp.max(fi, fj), j)
                k += wp.block_dim()
            barrier()
            pivot = matrix[aj + j]
            if not (pivot > scalar(0.0)) or pivot > scalar(wp.static(LARGEST_PIVOT[types.name])):
                return 0  # for all lanes alike
            inverse = scalar(1.0) / wp.sqrt(pivot)
            y = x[j] * inverse
            k = int(lane())
            while k < n:
                i = row_of(rows, j, k, coupled)
                fi = rows.first[i]
                if k > 0 and fi <= j:
                    address = rows.entry[i] - fi + j
                    entry = matrix[address] * inverse
                    matrix[address] = entry
                    x[i] = x[i] - entry * y
                k += wp.block_dim()
            barrier()
            j += 1
        j = int(start + lane())
        while j < end:
            address = rows.entry[j] + j - rows.first[j]
            inverse = scalar(1.0) / wp.sqrt(matrix[address])
            matrix[address] = inverse
            x[j] = x[j] * inverse
            j += wp.block_dim()
        barrier()
        j = end - 1
        while j > start:
            fj = rows.first[j]
            aj = rows.entry[j] - fj
            y = x[j] * matrix[aj + j]
            k = int(fj + lane())
            while k < j:
                x[k] = x[k] - matrix[aj + k] * y
                k += wp.block_dim()
            barrier()
            j -= 1
        j = int(start + lane())
        while j < end:
            x[j] = x[j] * matrix[rows.entry[j] + j - rows.first[j]]
            j += wp.block_dim()
        barrier()
        return 1

    @wp.func
    def solve(
        matrix: wp.array(dtype=scalar),
        rows: wp.ref[RowPattern],
        start: int,
        count: int,
        coupled: int,
        x: wp.array(dtype=scalar),
    ) -> int:
        if is_native():
            return solve_native(matrix, rows, start, count, coupled, x)
        return solve_by_lanes(matrix, rows, start, count, coupled, x)

    arguments = "matrix.data, rows.first.data, rows.entry.data, start, count"
    call = f"if (!sap::factor({arguments})) return 0; sap::solve({arguments}, x.data); return 1;"
    solve_native = native_twin(solve, call, "return 0;")
    return solve


@functools.cache
def make_multiply(types: Types, vector_types: Types):
    """``multiply(matrix, rows, start, count, x, y)``: y = A x, where the rows are subtrees."""
    scalar, number = types.scalar, vector_types.scalar

    @wp.func
    def multiply(
        matrix: wp.array(dtype=scalar),
        rows: wp.ref[RowPattern],
        start: int,
        count: int,
        x: wp.array(dtype=number),
        y: wp.array(dtype=number),
    ):
        if is_native():
            multiply_native(matrix, rows, start, count, x, y)
            return
        # Each lane gathers the terms of an entry: its own row's product and one term from each row above.
        end = start + count
        j = int(start + lane())
        while j < end:
            s = number(0.0)
            address = rows.entry[j] - rows.first[j]
            k = int(rows.first[j])
            while k <= j:
                s += number(matrix[address + k]) * x[k]
                k += 1
            k_end = rows.above_start[j + 1]
            k = int(rows.above_start[j])
            while k < k_end:
                i = rows.above[k]
                s += number(matrix[rows.entry[i] + j - rows.first[i]]) * x[i]
                k += 1
            y[j] = s
            j += wp.block_dim()
        barrier()

    arguments = "matrix.data, rows.first.data, rows.entry.data, start, count, x.data, y.data"
    multiply_native = native_twin(multiply, f"sap::multiply({arguments});")
    return multiply


@functools.cache
def make_add_rows(types: Types, column_types: Types):
    """Products of motion columns with forces in packed tree rows, and where the forces are put.

    ``store_force(forces, start, count, e, Fw, Fv)`` stores the force of dof e, one of the ``count`` dofs from ``start``
    on. ``add_rows(target, wide, base, rows, start, count, Sw, Sv, forces, add_base)`` sets
    ``target[i, k] = base[i, k] + S_i . F_k`` for all k in the subtree of i, without ``base`` if ``add_base`` is 0.
    ``types`` is the precision of target and forces, ``column_types`` that of base and S. The target lies in rows
    ``wide``, which may be wider than those of the tree.
    """
    scalar, vec3, column = types.scalar, types.vec3, column_types.vec3

    @wp.func
    def store_force(forces: wp.array(dtype=scalar), start: int, count: int, e: int, Fw: vec3, Fv: vec3):
        i = 5 * start + e
        for k in range(3):
            forces[i + k * count] = Fw[k]
            forces[i + (k + 3) * count] = Fv[k]

    @wp.func
    def add_rows(
        target: wp.array(dtype=scalar),
        wide: wp.ref[RowPattern],
        base: wp.array(dtype=column_types.scalar),
        rows: wp.ref[RowPattern],
        start: int,
        count: int,
        Sw: wp.array(dtype=column),
        Sv: wp.array(dtype=column),
        forces: wp.array(dtype=scalar),
        add_base: int,
    ):
        if is_native():
            add_rows_native(target, wide, base, rows, start, count, Sw, Sv, forces, add_base)
            return
        end = start + count
        i = int(start + lane())
        while i < end:
            from_row = rows.entry[i] - rows.first[i]
            to_row = wide.entry[i] - wide.first[i]
            sw = Sw[i]
            sv = Sv[i]
            k = int(rows.first[i])
            while k <= i:
                at = 5 * start + k
                value = scalar(0.0)
                if add_base != 0:
                    value = scalar(base[from_row + k])
                for c in range(3):
                    value += scalar(sw[c]) * forces[at + c * count] + scalar(sv[c]) * forces[at + (c + 3) * count]
                target[to_row + k] = value
                k += 1
            i += wp.block_dim()
        barrier()

    arguments = "(target.data, wide.first.data, wide.entry.data, base.data, rows.first.data, rows.entry.data, start, "
    arguments += "count, Sw.data, Sv.data, forces.data);"
    call = f"if (add_base) sap::add_rows<true>{arguments} else sap::add_rows<false>{arguments}"
    add_rows_native = native_twin(add_rows, call)
    return SimpleNamespace(store_force=store_force, add_rows=add_rows)
