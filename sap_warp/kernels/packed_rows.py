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
def make_cholesky(types: Types) -> SimpleNamespace:
    """Factorization and solve on packed rows for one precision.

    ``factor(matrix, rows, start, count, coupled) -> int`` factors in place and returns 0 if a pivot is not positive or
    not finite. ``solve(matrix, rows, start, count, coupled, x)`` overwrites x with the solution. ``coupled`` is 0 while
    rows are subtrees.
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
    def factor(matrix: wp.array(dtype=scalar), rows: wp.ref[RowPattern], start: int, count: int, coupled: int) -> int:
        if is_native():
            return factor_native(matrix, rows, start, count, coupled)
        # Column by column: the rows of a column are independent, one barrier per column.
        end = start + count
        j = int(start)
        while j < end:
            fj = rows.first[j]
            aj = rows.entry[j] - fj
            pivot = matrix[aj + j] - dot(matrix, aj, aj, fj, j)
            if not (pivot > scalar(0.0)) or pivot > scalar(wp.static(LARGEST_PIVOT[types.name])):
                return 0  # for all lanes alike
            inverse = scalar(1.0) / wp.sqrt(pivot)
            n = wp.where(coupled != 0, end - j - 1, rows.above_start[j + 1] - rows.above_start[j])
            k = int(lane())
            while k < n:
                i = j + 1 + k
                if coupled == 0:
                    i = rows.above[rows.above_start[j] + k]
                fi = rows.first[i]
                if fi <= j:
                    ai = rows.entry[i] - fi
                    s = matrix[ai + j] - dot(matrix, ai, aj, wp.max(fi, fj), j)
                    matrix[ai + j] = s * inverse
                k += wp.block_dim()
            barrier()
            if lane() == 0:
                matrix[aj + j] = inverse
            j += 1
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
    ):
        if is_native():
            solve_native(matrix, rows, start, count, coupled, x)
            return
        end = start + count
        j = int(start)
        while j < end:
            y = x[j] * matrix[rows.entry[j] + j - rows.first[j]]
            barrier()
            if lane() == 0:
                x[j] = y
            n = wp.where(coupled != 0, end - j - 1, rows.above_start[j + 1] - rows.above_start[j])
            k = int(lane())
            while k < n:
                i = j + 1 + k
                if coupled == 0:
                    i = rows.above[rows.above_start[j] + k]
                if rows.first[i] <= j:
                    x[i] = x[i] - matrix[rows.entry[i] + j - rows.first[i]] * y
                k += wp.block_dim()
            barrier()
            j += 1
        j = end - 1
        while j >= start:
            fj = rows.first[j]
            aj = rows.entry[j] - fj
            y = x[j] * matrix[aj + j]
            barrier()
            if lane() == 0:
                x[j] = y
            k = int(fj + lane())
            while k < j:
                x[k] = x[k] - matrix[aj + k] * y
                k += wp.block_dim()
            barrier()
            j -= 1

    arguments = "matrix.data, rows.first.data, rows.entry.data, start, count"
    factor_native = native_twin(factor, f"return sap::factor({arguments});", "return 0;")
    solve_native = native_twin(solve, f"sap::solve({arguments}, x.data);")
    return SimpleNamespace(factor=factor, solve=solve)


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
def make_add_rows(types: Types, column_types: Types, force_types: Types | None = None):
    """Products of motion columns with forces in packed tree rows, and where the forces are put.

    ``store_force(forces, start, count, e, Fw, Fv)`` stores the force of dof e, one of the ``count`` dofs from ``start``
    on. ``add_rows(target, wide, base, rows, start, count, Sw, Sv, forces, add_base)`` sets
    ``target[i, k] = base[i, k] + S_i . F_k`` for all k in the subtree of i, without ``base`` if ``add_base`` is 0.
    ``types`` is the target's precision, ``column_types`` that of base and S, ``force_types`` that of F and of the sum.
    The target lies in rows ``wide``, which may be wider than those of the tree.
    """
    force_types = force_types or types
    scalar, column, F = types.scalar, column_types.vec3, force_types.scalar

    @wp.func
    def store_force(
        forces: wp.array(dtype=F), start: int, count: int, e: int, Fw: force_types.vec3, Fv: force_types.vec3
    ):
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
        forces: wp.array(dtype=F),
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
            k = int(rows.first[i])
            while k <= i:
                s = F(0.0)
                for c in range(3):
                    s += F(Sw[i][c]) * forces[5 * start + c * count + k]
                    s += F(Sv[i][c]) * forces[5 * start + (c + 3) * count + k]
                value = scalar(s)
                if add_base != 0:
                    value += scalar(base[from_row + k])
                target[to_row + k] = value
                k += 1
            i += wp.block_dim()
        barrier()

    arguments = "(target.data, wide.first.data, wide.entry.data, base.data, rows.first.data, rows.entry.data, start, "
    arguments += "count, Sw.data, Sv.data, forces.data);"
    call = f"if (add_base) sap::add_rows<true>{arguments} else sap::add_rows<false>{arguments}"
    add_rows_native = native_twin(add_rows, call)
    return SimpleNamespace(store_force=store_force, add_rows=add_rows)
