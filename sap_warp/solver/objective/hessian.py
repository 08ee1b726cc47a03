"""The Hessian of the objective, and the Newton direction.

    H = A + J^T G J + terms of dofs       6x6 blocks X^T G X summed over subtrees, leaves to root,
                                          and one 6x6 block per pair of touching moving bodies

Equations, if a world has any, add J_k^T J_k / R_k one by one. What the Hessian costs does not depend on how many
contacts a body has. H lies in packed rows (`model/layout.py`), widened where contacts or equations couple dofs that are
not above one another.

Called by all lanes of a block.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, is_native, lane, lane_count
from ...core.kernels.packed_rows import RowPattern, factor_and_solve, multiply, shifted, solve_packed
from ...core.kernels.structs import by_value
from ...core.kernels.template import device
from ...core.kernels.warps import fits_a_warp
from ..settings.precisions import dynamics, linear, solve
from .contacts import start_hessian, tree_rows
from .families import add_couplings, add_to_diagonal, couples
from .problem import Data, Problem

scalar, linear_scalar = solve.scalar, linear.scalar
multiply_A = multiply.on(matrix=dynamics, vector=solve)
solve_rows, factor_rows, shifted_rows = (f.on(matrix=linear) for f in (solve_packed, factor_and_solve, shifted))


@device
def find_pattern(problem: wp.ref[Problem], data: wp.ref[Data]) -> int:
    """Return 1 if the rows of H have to be those that reach dofs beside the tree, 0 if A's rows will do."""
    coupled = problem.contacts.coupled[problem.world]
    if wp.static(not by_value):
        if is_native():  # while pairs of moving bodies are only near each other, A's rows are enough
            if coupled != 0:
                coupled = couples(problem, data, 0)
            data.widened[problem.world] = coupled
    return coupled


@device
def clear_beside_tree(problem: wp.ref[Problem], data: wp.ref[Data]):
    """Set the entries of H to zero that are left of a dof's subtree."""
    e = int(problem.first + lane())
    while e < problem.last:
        i_end = problem.layout.rows.first[e] - problem.contacts.hessian.first[e]
        i = int(0)
        while i < i_end:
            data.H[problem.contacts.hessian.entry[e] + i] = linear_scalar(0.0)
            i += 1
        e += lane_count()


@device
def add_diagonal(problem: wp.ref[Problem], data: wp.ref[Data], coupled: int):
    """Add the curvature of what acts on single dofs."""
    e = int(problem.first + lane())
    if wp.static(not by_value):
        if is_native() and coupled == 0:
            H = tree_rows(problem, data)
            while e < problem.last:
                address = problem.layout.rows.entry[e] + e - problem.layout.rows.first[e]
                add_to_diagonal(problem, data, H, e, address)
                e += 1
    while e < problem.last:
        address = problem.contacts.hessian.entry[e] + e - problem.contacts.hessian.first[e]
        add_to_diagonal(problem, data, data.H, e, address)
        e += lane_count()


@device(inline=True)  # a call would need the structs in memory
def hessian(problem: wp.ref[Problem], data: wp.ref[Data]):
    """Fill data.H."""
    coupled = find_pattern(problem, data)
    if coupled != 0:
        clear_beside_tree(problem, data)
    start_hessian(problem, data)
    add_diagonal(problem, data, coupled)
    barrier()
    if coupled != 0:
        add_couplings(problem, data)


@device
def solve_in_order(problem: wp.ref[Problem], data: wp.ref[Data]) -> int:
    """Solve for data.direction, with the dofs in the order that keeps the rows short."""
    rows = RowPattern()
    rows.first = problem.contacts.ordered_first
    rows.entry = problem.contacts.ordered_entry
    x = shifted_rows(data.column_force, 5 * problem.first)  # free by now
    e = int(problem.first + lane())
    while e < problem.last:
        x[problem.contacts.dof_position[e]] = data.direction[e]
        e += lane_count()
    barrier()
    ok = factor_rows(data.H, rows, problem.first, problem.last - problem.first, 1, x)
    barrier()
    e = int(problem.first + lane())
    while e < problem.last:
        data.direction[e] = x[problem.contacts.dof_position[e]]
        e += lane_count()
    return ok


@device
def newton_direction(problem: wp.ref[Problem], data: wp.ref[Data]) -> int:
    """Find data.dv = -H^-1 g and A dv; returns 0 if H is not positive definite."""
    count = problem.last - problem.first
    ok = int(-1)
    if wp.static(not by_value):
        if is_native() and data.widened[problem.world] == 0:
            ok = solve_rows(tree_rows(problem, data), problem.layout.rows, problem.first, count, 0, data.direction)
    if ok < 0:
        if problem.contacts.coupled[problem.world] != 0 and not fits_a_warp(count):
            ok = solve_in_order(problem, data)
        else:
            ok = solve_rows(data.H, problem.contacts.hessian, problem.first, count, 0, data.direction)
    if ok != 0:
        e = int(problem.first + lane())
        while e < problem.last:
            data.dv[e] = scalar(data.direction[e])
            e += lane_count()
        barrier()
        multiply_A(problem.motion.A, problem.layout.rows, problem.first, count, data.dv, data.A_dv)
    return ok
