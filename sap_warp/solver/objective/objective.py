"""Gradient and Hessian of the objective, without a Jacobian.

    gradient   g = A (v - v*) - J^T gamma + dof terms       wrenches gamma summed over each dof's subtree
    Hessian    H = A + J^T G J + dof terms                  6x6 blocks X^T G X summed over subtrees, leaves to root,
                                                            and one 6x6 block per pair of touching moving bodies

Bilateral constraints, if a world has any, add J_k^T gamma_k and J_k^T J_k / R_k row by row (`equations`).

The cost of the Hessian does not depend on how many contacts a body has. H lies in packed rows (`layout`), widened
where contacts couple dofs that are not above one another.
"""

import functools

import warp as wp

from ...core.kernels.lanes import barrier, is_native, lane, lane_count, make_block_sum, native_twin
from ...core.kernels.packed_rows import (
    RowPattern,
    make_add_rows,
    make_cholesky,
    make_multiply,
    make_shifted,
    make_solve,
)
from ...core.kernels.spatial import make_spatial
from ...core.kernels.warps import fits_a_warp, make_warp_add_rows
from ..terms.contact import SLIDING
from ..terms.dof import make_dof_terms
from .contacts import make_motion_columns
from .equations import make_constraint_terms
from .problem import Precisions, make_problem
from .small_worlds import make_column_force, make_contact_impulse
from .stiffness import make_stiffness


@functools.cache
def make_accumulate(precisions: Precisions):
    """``accumulate(p, s, stiff)``: what contacts do to subtrees."""
    dynamics, types, linear = precisions.dynamics, precisions.types, precisions.linear
    Problem, Data = make_problem(precisions)
    scalar, vec3, stiffness = types.scalar, types.vec3, make_stiffness(dynamics, types, linear)
    gather_stiffness, add_child = stiffness.gather, stiffness.add_child

    @wp.func
    def gather_wrench(problem: wp.ref[Problem], data: wp.ref[Data], b: int):
        """Wrench that the rows of one body exert on it, about its tree's reference point."""
        fw = vec3()
        fv = vec3()
        i = problem.contacts.body_start[b]
        i_end = i + problem.contacts.body_count[b]
        while i < i_end:
            side = problem.contacts.body_row[i] & 1
            row = problem.contacts.body_row[i] >> 1
            if data.projection[row].mode != 0:
                gamma = data.projection[row].gamma * scalar(2 * side - 1)
                fw += wp.cross(wp.where(side == 1, problem.contacts.r_b[row], problem.contacts.r_a[row]), gamma)
                fv += gamma
            i += 1
        data.fw[b] = fw
        data.fv[b] = fv

    @wp.func
    def accumulate(problem: wp.ref[Problem], data: wp.ref[Data], stiff: bool):
        """Wrenches, or stiffnesses, of all subtrees, leaves to root."""
        first_level = problem.layout.world_level[problem.world]
        last_level = problem.layout.world_level[problem.world + 1]
        up_end = last_level - first_level
        up = int(0)
        while up < up_end:
            level = last_level - 1 - up
            i_end = problem.layout.level_start[level + 1]
            i = int(problem.layout.level_start[level] + lane())
            while i < i_end:
                b = problem.layout.level_body[i]
                if problem.contacts.body_active[b] != 0:
                    child = problem.layout.body_child[b]
                    if stiff:
                        gather_stiffness(
                            data.K,
                            b,
                            problem.contacts.body_row,
                            problem.contacts.body_start[b],
                            problem.contacts.body_count[b],
                            data.projection,
                            problem.contacts.normal,
                            problem.contacts.r_a,
                            problem.contacts.r_b,
                        )
                        while child >= 0:
                            if problem.contacts.body_active[child] != 0:
                                add_child(data.K, b, child)
                            child = problem.layout.body_sibling[child]
                    else:
                        gather_wrench(problem, data, b)
                        while child >= 0:
                            if problem.contacts.body_active[child] != 0:
                                data.fw[b] = data.fw[b] + data.fw[child]
                                data.fv[b] = data.fv[b] + data.fv[child]
                            child = problem.layout.body_sibling[child]
                i += lane_count()
            barrier()
            up += 1

    return accumulate


@functools.cache
def make_gradient(precisions: Precisions):
    """``gradient(p, s)``: g and its norms."""
    types, linear = precisions.types, precisions.linear
    Problem, Data = make_problem(precisions)
    scalar, vec3, lscalar = types.scalar, types.vec3, linear.scalar
    columns, rows = make_motion_columns(precisions), make_constraint_terms(precisions)
    column_w, column_v, row_count, add_impulses = columns.column_w, columns.column_v, rows.row_count, rows.add_impulses
    accumulate, contact_impulse = make_accumulate(precisions), make_contact_impulse(precisions)
    evaluate, block_sum = make_dof_terms(types).evaluate, make_block_sum(vec3)

    @wp.func
    def gradient(problem: wp.ref[Problem], data: wp.ref[Data]) -> vec3:
        """Fill s.gradient; returns the squared norms |D g|^2, |D A v|^2, |D j|^2."""
        is_small = fits_a_warp(problem.last - problem.first)
        if not is_small:
            accumulate(problem, data, False)
        constrained = row_count(problem) > 0
        if constrained:
            add_impulses(problem, data)
        norms = vec3()
        e = int(problem.first + lane())
        while e < problem.last:
            b = problem.layout.dof_body[e]
            j = scalar(0.0)
            if constrained:
                j = data.impulse[e]
            if is_small:
                j += contact_impulse(problem, data, e)
            elif problem.contacts.body_active[b] != 0:
                j += wp.dot(column_w(problem, e), data.fw[b]) + wp.dot(column_v(problem, e), data.fv[b])
            if data.active_terms[e] != 0:
                value = evaluate(problem.terms, data.active_terms[e], e, data.v[e], problem.h)
                data.term[e] = value
                j -= value[1]
            g = data.momentum[e] - j
            data.gradient[e] = g
            data.direction[e] = lscalar(-g)  # right-hand side of the Newton step
            data.impulse[e] = j
            Av = data.momentum[e] + data.A_v_star[e]
            norms += vec3(g * g, Av * Av, j * j) * scalar(problem.motion.inverse_diagonal[e])
            e += lane_count()
        return block_sum(norms, data.scratch, problem.world)

    return gradient


@functools.cache
def make_couple_pairs(precisions: Precisions):
    """``couple_pairs(p, s)``: blocks of H between touching bodies."""
    dynamics, types, linear = precisions.dynamics, precisions.types, precisions.linear
    Problem, Data = make_problem(precisions)
    to_linear, stiffness = make_spatial(linear).to_vec3, make_stiffness(dynamics, types, linear)
    Blocks, add_row = stiffness.Blocks, stiffness.add_row
    pattern = "problem.contacts.hessian.first.data, problem.contacts.hessian.entry.data, problem.contacts.place.data"
    dofs = "problem.layout.body_chain.data, problem.layout.dof_parent.data, problem.motion.Sw.data, problem.motion.Sv.data"
    rows = "problem.row, problem.row_end, problem.contacts.body_a.data, problem.contacts.body_b.data, data.projection.data, "
    rows += "problem.contacts.normal.data, problem.contacts.r_a.data, problem.contacts.r_b.data"

    @wp.func
    def couple_pairs(problem: wp.ref[Problem], data: wp.ref[Data]):
        """Subtract X_a^T G X_b between the chains of two touching moving bodies; rows of one pair are summed."""
        if is_native():
            couple_native(problem, data)
            return
        row = int(problem.row)
        while row < problem.row_end:
            a = problem.contacts.body_a[row]
            b = problem.contacts.body_b[row]
            if a >= 0 and b >= 0:
                K = Blocks()
                same = bool(True)
                while same:
                    if data.projection[row].mode != 0:
                        n = problem.contacts.normal[row]
                        add_row(K, data.projection[row], n, problem.contacts.r_a[row], problem.contacts.r_b[row])
                    row += 1
                    same = bool(False)
                    if row < problem.row_end:
                        same = problem.contacts.body_a[row] == a and problem.contacts.body_b[row] == b
                j = problem.layout.body_chain[b]
                while j >= 0:
                    Sw = to_linear(problem.motion.Sw[j])
                    Sv = to_linear(problem.motion.Sv[j])
                    Fw = K.ww * Sw + K.wv * Sv
                    Fv = K.vw * Sw + K.vv * Sv
                    i = problem.layout.body_chain[a]
                    turn = int(0)
                    while i >= 0:
                        if turn % lane_count() == lane():
                            value = wp.dot(to_linear(problem.motion.Sw[i]), Fw) + wp.dot(
                                to_linear(problem.motion.Sv[i]), Fv
                            )
                            apart = problem.contacts.place[i] - problem.contacts.place[j]
                            if apart >= 0:
                                k = problem.contacts.hessian.entry[i] + i - problem.contacts.hessian.first[i] - apart
                                data.H[k] = data.H[k] - value
                            if apart <= 0:
                                k = problem.contacts.hessian.entry[j] + j - problem.contacts.hessian.first[j] + apart
                                data.H[k] = data.H[k] - value
                        turn += 1
                        i = problem.layout.dof_parent[i]
                    barrier()
                    j = problem.layout.dof_parent[j]
            else:
                row += 1

    call = f"sap::couple_pairs(data.H.data, {pattern}, {dofs}, {rows}, {int(SLIDING)});"
    couple_native = native_twin(couple_pairs, call)
    return couple_pairs


@functools.cache
def make_tree_rows(precisions: Precisions):
    """``tree_rows(p, s)``: s.H with the addresses of A's rows."""
    Problem, Data = make_problem(precisions)
    shifted = make_shifted(precisions.linear)

    @wp.func
    def tree_rows(problem: wp.ref[Problem], data: wp.ref[Data]) -> wp.array(dtype=precisions.linear.scalar):
        return shifted(data.H, problem.layout.world_hessian[problem.world] - problem.layout.world_entry[problem.world])

    return tree_rows


@functools.cache
def make_couples(precisions: Precisions):
    """``couples(p, s)``: whether any row couples dofs that are not above one another, at the velocity at hand."""
    Problem, Data = make_problem(precisions)
    row_count = make_constraint_terms(precisions).row_count

    @wp.func
    def couples(problem: wp.ref[Problem], data: wp.ref[Data]) -> int:
        if row_count(problem) > 0:
            return 1
        row = int(problem.row)
        while row < problem.row_end:
            if (
                problem.contacts.body_a[row] >= 0
                and problem.contacts.body_b[row] >= 0
                and data.projection[row].mode != 0
            ):
                return 1
            row += 1
        return 0

    return couples


@functools.cache
def make_add_tree_rows(precisions: Precisions, by_value: bool):
    """``add_tree_rows(p, s)``: A and the stiffness of subtrees. ``by_value`` is that of `struct_parameter`."""
    dynamics, types, linear = precisions.dynamics, precisions.types, precisions.linear
    Problem, Data = make_problem(precisions)
    columns, multiply_columns = make_add_rows(linear, dynamics), make_stiffness(dynamics, types, linear).multiply
    store_force, add_rows = columns.store_force, columns.add_rows
    add_rows_in_warp = make_warp_add_rows(linear, dynamics)
    accumulate, column_force = make_accumulate(precisions), make_column_force(precisions)
    tree_rows = make_tree_rows(precisions)

    @wp.func
    def add_tree_rows(problem: wp.ref[Problem], data: wp.ref[Data]):
        """Set what A has of s.H, with the stiffness of subtrees."""
        count = problem.last - problem.first
        Sw = problem.motion.Sw
        Sv = problem.motion.Sv
        if fits_a_warp(count):
            F = column_force(problem, data)
            H_first = problem.contacts.hessian.first
            H_entry = problem.contacts.hessian.entry
            first = problem.layout.rows.first
            entry = problem.layout.rows.entry
            add_rows_in_warp(
                data.H, H_first, H_entry, problem.motion.A, first, entry, problem.first, count, Sw, Sv, F.w, F.u
            )
            return
        accumulate(problem, data, True)
        e = int(problem.first + lane())
        while e < problem.last:
            b = problem.layout.dof_body[e]
            e_end = e + 1
            if is_native():  # all dofs of a body at once
                e_end = problem.layout.body_dof[b] + problem.layout.body_dof_count[b]
            if problem.contacts.body_active[b] != 0:
                multiply_columns(
                    data.K, b, e, e_end, problem.motion.Sw, problem.motion.Sv, data.column_force, problem.first, count
                )
                e = e_end - 1 + lane_count()
            else:
                store_force(data.column_force, problem.first, count, e, linear.vec3(), linear.vec3())
                e += lane_count()
        barrier()
        if wp.static(not by_value):  # else a second call, which NVRTC would not inline
            if is_native() and data.widened[problem.world] == 0:
                H = tree_rows(problem, data)
                add_rows(
                    H,
                    problem.layout.rows,
                    problem.motion.A,
                    problem.layout.rows,
                    problem.first,
                    count,
                    Sw,
                    Sv,
                    data.column_force,
                    1,
                )
                return
        add_rows(
            data.H,
            problem.contacts.hessian,
            problem.motion.A,
            problem.layout.rows,
            problem.first,
            count,
            Sw,
            Sv,
            data.column_force,
            1,
        )

    return add_tree_rows


@functools.cache
def make_hessian(precisions: Precisions, by_value: bool):
    """``hessian(p, s)``: H. ``by_value`` is that of `struct_parameter`."""
    Problem, Data = make_problem(precisions)
    add_tree_rows, couple_pairs = make_add_tree_rows(precisions, by_value), make_couple_pairs(precisions)
    lscalar, add_stiffness = precisions.linear.scalar, make_constraint_terms(precisions).add_stiffness
    tree_rows, couples = make_tree_rows(precisions), make_couples(precisions)

    @wp.func(inline=True)  # a call would need the structs in memory
    def hessian(problem: wp.ref[Problem], data: wp.ref[Data]):
        """Fill s.H."""
        coupled = problem.contacts.coupled[problem.world]
        if wp.static(not by_value):
            if is_native():  # while pairs of moving bodies are only near each other, A's rows are enough
                if coupled != 0:
                    coupled = couples(problem, data)
                data.widened[problem.world] = coupled
        if coupled != 0:  # left of the subtree
            e = int(problem.first + lane())
            while e < problem.last:
                i_end = problem.layout.rows.first[e] - problem.contacts.hessian.first[e]
                i = int(0)
                while i < i_end:
                    data.H[problem.contacts.hessian.entry[e] + i] = lscalar(0.0)
                    i += 1
                e += lane_count()
        add_tree_rows(problem, data)
        e = int(problem.first + lane())
        if wp.static(not by_value):
            if is_native() and coupled == 0:
                H = tree_rows(problem, data)
                while e < problem.last:
                    if data.active_terms[e] != 0:
                        address = problem.layout.rows.entry[e] + e - problem.layout.rows.first[e]
                        H[address] = H[address] + lscalar(data.term[e][2])
                    e += 1
        while e < problem.last:
            if data.active_terms[e] != 0:
                address = problem.contacts.hessian.entry[e] + e - problem.contacts.hessian.first[e]
                data.H[address] = data.H[address] + lscalar(data.term[e][2])
            e += lane_count()
        barrier()
        if coupled != 0:
            couple_pairs(problem, data)
            add_stiffness(problem, data)

    return hessian


@functools.cache
def make_newton_direction(precisions: Precisions, by_value: bool):
    """``newton_direction(p, s)``: dv and A dv. ``by_value`` is that of `struct_parameter`."""
    dynamics, types, linear = precisions.dynamics, precisions.types, precisions.linear
    Problem, Data = make_problem(precisions)
    multiply, solve, shifted = make_multiply(dynamics, types), make_solve(linear), make_shifted(linear)
    scalar, factor_and_solve, tree_rows = types.scalar, make_cholesky(linear), make_tree_rows(precisions)

    @wp.func
    def solve_in_places(problem: wp.ref[Problem], data: wp.ref[Data]) -> int:
        """Solve for s.direction, with the dofs in the order that keeps the rows short."""
        rows = RowPattern()
        rows.first = problem.contacts.placed_first
        rows.entry = problem.contacts.placed_entry
        x = shifted(data.column_force, 5 * problem.first)  # free by now
        e = int(problem.first + lane())
        while e < problem.last:
            x[problem.contacts.place[e]] = data.direction[e]
            e += lane_count()
        barrier()
        ok = factor_and_solve(data.H, rows, problem.first, problem.last - problem.first, 1, x)
        barrier()
        e = int(problem.first + lane())
        while e < problem.last:
            data.direction[e] = x[problem.contacts.place[e]]
            e += lane_count()
        return ok

    @wp.func
    def newton_direction(problem: wp.ref[Problem], data: wp.ref[Data]) -> int:
        """s.dv = -H^-1 g, and A dv; 0 if H is not positive definite."""
        count = problem.last - problem.first
        ok = int(-1)
        if wp.static(not by_value):
            if is_native() and data.widened[problem.world] == 0:
                ok = solve(tree_rows(problem, data), problem.layout.rows, problem.first, count, 0, data.direction)
        if ok < 0:
            if problem.contacts.coupled[problem.world] != 0 and not fits_a_warp(count):
                ok = solve_in_places(problem, data)
            else:
                ok = solve(data.H, problem.contacts.hessian, problem.first, count, 0, data.direction)
        if ok != 0:
            e = int(problem.first + lane())
            while e < problem.last:
                data.dv[e] = scalar(data.direction[e])
                e += lane_count()
            barrier()
            multiply(problem.motion.A, problem.layout.rows, problem.first, count, data.dv, data.A_dv)
        return ok

    return newton_direction
