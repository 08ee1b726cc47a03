"""Symmetric matrices in packed rows: Cholesky factorization, solution and products.

Row ``i`` holds the columns ``first[i] .. i`` at ``entry[i] ..``; what is left of ``first[i]`` is zero. A factor L with
H = L L^T has the same pattern, and its diagonal is stored inverted. While rows are subtrees, the rows that reach back
to column j are the dofs above j, ``above[above_start[j]] ..``; contacts may couple others with them.

One lane on the CPU takes the panels of `native/cholesky.h` and `native/rows.h`. Several lanes share the code below.
"""

from __future__ import annotations

import warp as wp

from .lanes import barrier, lane, lane_count, native_twin, uses, with_native
from .template import device, native
from .warps import (
    LARGEST_PIVOT,
    Numbers,
    Vector,
    fits_a_warp,
    matrix,
    multiply_in_warp,
    scalar,
    solve_in_warp,
    vec3,
    vector,
)


@wp.struct
class RowPattern:
    """Where the entries of packed rows are, by dof."""

    first: wp.array(dtype=wp.int32)  # first column of each row
    entry: wp.array(dtype=wp.int32)  # address of that entry
    # for several lanes that share a tree, else empty (`warps.walks_chains`)
    above: wp.array(dtype=wp.int32)  # rows of the tree that reach back to a column, growing
    above_start: wp.array(dtype=wp.int32)
    staged: wp.array(dtype=wp.int32)  # dofs of each world by the number of rows above them, the most first
    stage_end: wp.array(dtype=wp.int32)  # of the dofs in `staged` with as many rows above them, where they end


number, vector_vec3 = vector.scalar, vector.vec3


uses_cholesky = uses("cholesky")


@native("auto moved = a; moved.data += by; return moved;")
def shifted(a: wp.array(dtype=scalar), by: int) -> wp.array(dtype=scalar):
    """An array whose entry 0 is the entry ``by`` of the given one."""
    ...


@device
def dot(matrix: wp.array[scalar], i: int, j: int, first: int, end: int) -> scalar:
    """Product of two rows between two columns; i and j are the addresses of their column 0."""
    s = scalar(0.0)
    k = int(first)
    while k < end:
        s += matrix[i + k] * matrix[j + k]
        k += 1
    return s


@device
def dot_x(matrix: wp.array[scalar], i: int, x: wp.array[scalar], first: int, end: int) -> scalar:
    """Product of a row and x between two columns."""
    s = scalar(0.0)
    k = int(first)
    while k < end:
        s += matrix[i + k] * x[k]
        k += 1
    return s


@device
def is_bad(pivot: scalar) -> bool:
    """Return True if a pivot is not positive, not finite or as good as infinite."""
    return not (pivot > scalar(0.0)) or pivot > scalar(wp.static(LARGEST_PIVOT[matrix.name]))


@device
def invert_diagonal(matrix: wp.array[scalar], rows: wp.ref[RowPattern], start: int, end: int):
    """Replace the diagonal of a factor, which holds squares, by its inverse."""
    j = int(start + lane())
    while j < end:
        address = rows.entry[j] + j - rows.first[j]
        matrix[address] = scalar(1.0) / wp.sqrt(matrix[address])
        j += lane_count()
    barrier()


@device
def scale_by_diagonal(matrix: wp.array[scalar], rows: wp.ref[RowPattern], start: int, end: int, x: wp.array[scalar]):
    """Multiply x by the inverted diagonal."""
    j = int(start + lane())
    while j < end:
        x[j] = x[j] * matrix[rows.entry[j] + j - rows.first[j]]
        j += lane_count()
    barrier()


@device
def solve_tree(matrix: wp.array[scalar], rows: wp.ref[RowPattern], start: int, end: int, x: wp.array[scalar]) -> int:
    """Columns with as many rows above them belong to different branches and go together, x as another row.

    A pivot that is not positive spoils those of all rows above it, so that the roots tell.
    """
    roots = int(start)
    at = int(start)
    while at < end:
        roots = at
        at_end = rows.stage_end[at]
        j = rows.staged[at]
        width = rows.above_start[j + 1] - rows.above_start[j] + 2  # the row itself, those above, and x
        k = int(lane())
        while k < (at_end - at) * width:
            j = rows.staged[at + k // width]
            fj = rows.first[j]
            aj = rows.entry[j] - fj
            i = k % width - 1
            if i == width - 2:
                x[j] = x[j] - dot_x(matrix, aj, x, fj, j)
            else:
                ai = aj
                if i >= 0:
                    i = rows.above[rows.above_start[j] + i]
                    ai = rows.entry[i] - rows.first[i]
                matrix[ai + j] = matrix[ai + j] - dot(matrix, ai, aj, fj, j)
            k += lane_count()
        barrier()
        k = int(lane())
        while k < (at_end - at) * width:
            j = rows.staged[at + k // width]
            i = k % width - 1
            if i >= 0:
                inverse = scalar(1.0) / wp.sqrt(matrix[rows.entry[j] - rows.first[j] + j])
                if i == width - 2:
                    x[j] = x[j] * inverse
                else:
                    i = rows.above[rows.above_start[j] + i]
                    ai = rows.entry[i] - rows.first[i]
                    matrix[ai + j] = matrix[ai + j] * inverse
            k += lane_count()
        barrier()
        at = at_end
    at = roots
    while at < end:
        j = rows.staged[at]
        if is_bad(matrix[rows.entry[j] - rows.first[j] + j]):
            return 0  # for all lanes alike
        at += 1
    barrier()
    invert_diagonal(matrix, rows, start, end)
    j = rows.staged[start]
    deepest = rows.above_start[j + 1] - rows.above_start[j]
    depth = int(0)
    while depth < deepest:  # what has so many rows above it is known: take it from all below
        j = int(start + lane())
        while j < end:
            last = rows.above_start[j + 1] - 1 - depth
            if last >= rows.above_start[j]:
                i = rows.above[last]
                ai = rows.entry[i] - rows.first[i]
                x[j] = x[j] - matrix[ai + j] * (x[i] * matrix[ai + i])
            j += lane_count()
        barrier()
        depth += 1
    scale_by_diagonal(matrix, rows, start, end, x)
    return 1


@device
def solve_coupled(matrix: wp.array[scalar], rows: wp.ref[RowPattern], start: int, end: int, x: wp.array[scalar]) -> int:
    """Column by column: the rows of a column are independent, and x goes along as another one.

    Until the end x is what its entries are before they are divided by pivots, so that no lane changes what others
    are reading.
    """
    j = int(start)
    while j < end:
        fj = rows.first[j]
        aj = rows.entry[j] - fj
        i = int(j + lane())
        while i < end:
            fi = rows.first[i]
            if fi <= j:
                ai = rows.entry[i] - fi
                matrix[ai + j] = matrix[ai + j] - dot(matrix, ai, aj, wp.max(fi, fj), j)
            i += lane_count()
        barrier()
        pivot = matrix[aj + j]
        if is_bad(pivot):
            return 0  # for all lanes alike
        inverse = scalar(1.0) / wp.sqrt(pivot)
        y = x[j] * inverse
        i = int(j + lane())
        while i < end:
            fi = rows.first[i]
            if i > j and fi <= j:
                address = rows.entry[i] - fi + j
                entry = matrix[address] * inverse
                matrix[address] = entry
                x[i] = x[i] - entry * y
            i += lane_count()
        barrier()
        j += 1
    invert_diagonal(matrix, rows, start, end)
    scale_by_diagonal(matrix, rows, start, end, x)
    j = end - 1
    while j > start:
        fj = rows.first[j]
        aj = rows.entry[j] - fj
        y = x[j] * matrix[aj + j]
        k = int(fj + lane())
        while k < j:
            x[k] = x[k] - matrix[aj + k] * y
            k += lane_count()
        barrier()
        j -= 1
    scale_by_diagonal(matrix, rows, start, end, x)
    return 1


@device
def factor_and_solve(
    matrix: wp.array[scalar], rows: wp.ref[RowPattern], start: int, count: int, coupled: int, x: wp.array[scalar]
) -> int:
    """Factor the matrix in place and overwrite x with the solution; returns 0 if a pivot is bad, else 1.

    ``coupled`` is 0 while rows are subtrees.
    """
    if uses_cholesky():
        return factor_and_solve_native(matrix, rows, start, count, coupled, x)
    if coupled == 0:
        return solve_tree(matrix, rows, start, start + count, x)
    return solve_coupled(matrix, rows, start, start + count, x)


ROWS = "matrix.data, rows.first.data, rows.entry.data, start, count"
factor_and_solve_native = native_twin(
    factor_and_solve, f"if (!sap::factor({ROWS})) return 0; sap::solve({ROWS}, x.data); return 1;", "return 0;"
)


@device
def solve_packed(matrix: Numbers, rows: wp.ref[RowPattern], start: int, count: int, coupled: int, x: Numbers) -> int:
    """Solve as `factor_and_solve` does, for those who do not ask for the factor."""
    if fits_a_warp(count):
        return solve_in_warp(matrix, rows.first, rows.entry, start, count, x)
    return factor_and_solve(matrix, rows, start, count, coupled, x)


@with_native("rows", "sap::multiply(matrix.data, rows.first.data, rows.entry.data, start, count, x.data, y.data);")
@device
def multiply(matrix: Numbers, rows: wp.ref[RowPattern], start: int, count: int, x: Vector, y: Vector):
    """Set y = A x, where the rows are subtrees.

    Lane i, with the block size as stride, may go on with entries start + i of x and y; others wait before they do.
    """
    if fits_a_warp(count):
        multiply_in_warp(matrix, rows.first, rows.entry, start, count, x, y)
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
        j += lane_count()
    barrier()


@device
def store_force(forces: wp.array[scalar], start: int, count: int, e: int, Fw: vec3, Fv: vec3):
    """Store the force of dof e, one of the ``count`` dofs from ``start`` on, for `add_rows`."""
    i = 5 * start + e
    for k in range(3):
        forces[i + k * count] = Fw[k]
        forces[i + (k + 3) * count] = Fv[k]


_ADD_ROWS = "(target.data, target_rows.first.data, target_rows.entry.data, base.data, rows.first.data, "
_ADD_ROWS += "rows.entry.data, start, count, Sw.data, Sv.data, forces.data);"


@with_native("rows", f"if (add_base) sap::add_rows<true>{_ADD_ROWS} else sap::add_rows<false>{_ADD_ROWS}")
@device
def add_rows(
    target: wp.array[scalar],
    target_rows: wp.ref[RowPattern],
    base: wp.array[number],
    rows: wp.ref[RowPattern],
    start: int,
    count: int,
    Sw: wp.array[vector_vec3],
    Sv: wp.array[vector_vec3],
    forces: wp.array[scalar],
    add_base: int,
):
    """Set ``target[i, k] = base[i, k] + S_i . F_k`` for all k in the subtree of i.

    The forces F are those of `store_force`. Without ``add_base`` the base counts as zero. The target lies in rows
    ``target_rows``, which may be wider than those of the tree. ``matrix`` is the precision of target and forces,
    ``vector`` that of base and S.
    """
    end = start + count
    i = int(start + lane())
    while i < end:
        from_row = rows.entry[i] - rows.first[i]
        to_row = target_rows.entry[i] - target_rows.first[i]
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
        i += lane_count()
    barrier()
