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
    def gather_wrench(p: wp.ref[Problem], s: wp.ref[Data], b: int):
        """Wrench that the rows of one body exert on it, about its tree's reference point."""
        fw = vec3()
        fv = vec3()
        i = p.contacts.body_start[b]
        i_end = i + p.contacts.body_count[b]
        while i < i_end:
            side = p.contacts.body_row[i] & 1
            row = p.contacts.body_row[i] >> 1
            if s.projection[row].mode != 0:
                gamma = s.projection[row].gamma * scalar(2 * side - 1)
                fw += wp.cross(wp.where(side == 1, p.contacts.r_b[row], p.contacts.r_a[row]), gamma)
                fv += gamma
            i += 1
        s.fw[b] = fw
        s.fv[b] = fv

    @wp.func
    def accumulate(p: wp.ref[Problem], s: wp.ref[Data], stiff: bool):
        """Wrenches, or stiffnesses, of all subtrees, leaves to root."""
        first_level = p.layout.world_level[p.world]
        last_level = p.layout.world_level[p.world + 1]
        up_end = last_level - first_level
        up = int(0)
        while up < up_end:
            level = last_level - 1 - up
            i_end = p.layout.level_start[level + 1]
            i = int(p.layout.level_start[level] + lane())
            while i < i_end:
                b = p.layout.level_body[i]
                if p.contacts.body_active[b] != 0:
                    child = p.layout.body_child[b]
                    if stiff:
                        gather_stiffness(
                            s.K,
                            b,
                            p.contacts.body_row,
                            p.contacts.body_start[b],
                            p.contacts.body_count[b],
                            s.projection,
                            p.contacts.normal,
                            p.contacts.r_a,
                            p.contacts.r_b,
                        )
                        while child >= 0:
                            if p.contacts.body_active[child] != 0:
                                add_child(s.K, b, child)
                            child = p.layout.body_sibling[child]
                    else:
                        gather_wrench(p, s, b)
                        while child >= 0:
                            if p.contacts.body_active[child] != 0:
                                s.fw[b] = s.fw[b] + s.fw[child]
                                s.fv[b] = s.fv[b] + s.fv[child]
                            child = p.layout.body_sibling[child]
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
    def gradient(p: wp.ref[Problem], s: wp.ref[Data]) -> vec3:
        """Fill s.gradient; returns the squared norms |D g|^2, |D A v|^2, |D j|^2."""
        is_small = fits_a_warp(p.last - p.first)
        if not is_small:
            accumulate(p, s, False)
        constrained = row_count(p) > 0
        if constrained:
            add_impulses(p, s)
        norms = vec3()
        e = int(p.first + lane())
        while e < p.last:
            b = p.layout.dof_body[e]
            j = scalar(0.0)
            if constrained:
                j = s.impulse[e]
            if is_small:
                j += contact_impulse(p, s, e)
            elif p.contacts.body_active[b] != 0:
                j += wp.dot(column_w(p, e), s.fw[b]) + wp.dot(column_v(p, e), s.fv[b])
            if s.kind[e] != 0:
                value = evaluate(p.terms, s.kind[e], e, s.v[e], p.h)
                s.term[e] = value
                j -= value[1]
            g = s.p[e] - j
            s.gradient[e] = g
            s.direction[e] = lscalar(-g)  # right-hand side of the Newton step
            s.impulse[e] = j
            Av = s.p[e] + s.A_v_star[e]
            norms += vec3(g * g, Av * Av, j * j) * scalar(p.motion.inverse_diagonal[e])
            e += lane_count()
        return block_sum(norms, s.scratch, p.world)

    return gradient


@functools.cache
def make_couple_pairs(precisions: Precisions):
    """``couple_pairs(p, s)``: blocks of H between touching bodies."""
    dynamics, types, linear = precisions.dynamics, precisions.types, precisions.linear
    Problem, Data = make_problem(precisions)
    to_linear, stiffness = make_spatial(linear).to_vec3, make_stiffness(dynamics, types, linear)
    Blocks, add_row = stiffness.Blocks, stiffness.add_row
    pattern = "p.contacts.hessian.first.data, p.contacts.hessian.entry.data, p.contacts.place.data"
    dofs = "p.layout.body_chain.data, p.layout.dof_parent.data, p.motion.Sw.data, p.motion.Sv.data"
    rows = "p.row, p.row_end, p.contacts.body_a.data, p.contacts.body_b.data, s.projection.data, "
    rows += "p.contacts.normal.data, p.contacts.r_a.data, p.contacts.r_b.data"

    @wp.func
    def couple_pairs(p: wp.ref[Problem], s: wp.ref[Data]):
        """Subtract X_a^T G X_b between the chains of two touching moving bodies; rows of one pair are summed."""
        if is_native():
            couple_native(p, s)
            return
        row = int(p.row)
        while row < p.row_end:
            a = p.contacts.body_a[row]
            b = p.contacts.body_b[row]
            if a >= 0 and b >= 0:
                K = Blocks()
                same = bool(True)
                while same:
                    if s.projection[row].mode != 0:
                        n = p.contacts.normal[row]
                        add_row(K, s.projection[row], n, p.contacts.r_a[row], p.contacts.r_b[row])
                    row += 1
                    same = bool(False)
                    if row < p.row_end:
                        same = p.contacts.body_a[row] == a and p.contacts.body_b[row] == b
                j = p.layout.body_chain[b]
                while j >= 0:
                    Sw = to_linear(p.motion.Sw[j])
                    Sv = to_linear(p.motion.Sv[j])
                    Fw = K.ww * Sw + K.wv * Sv
                    Fv = K.vw * Sw + K.vv * Sv
                    i = p.layout.body_chain[a]
                    turn = int(0)
                    while i >= 0:
                        if turn % lane_count() == lane():
                            value = wp.dot(to_linear(p.motion.Sw[i]), Fw) + wp.dot(to_linear(p.motion.Sv[i]), Fv)
                            apart = p.contacts.place[i] - p.contacts.place[j]
                            if apart >= 0:
                                k = p.contacts.hessian.entry[i] + i - p.contacts.hessian.first[i] - apart
                                s.H[k] = s.H[k] - value
                            if apart <= 0:
                                k = p.contacts.hessian.entry[j] + j - p.contacts.hessian.first[j] + apart
                                s.H[k] = s.H[k] - value
                        turn += 1
                        i = p.layout.dof_parent[i]
                    barrier()
                    j = p.layout.dof_parent[j]
            else:
                row += 1

    call = f"sap::couple_pairs(s.H.data, {pattern}, {dofs}, {rows}, {int(SLIDING)});"
    couple_native = native_twin(couple_pairs, call)
    return couple_pairs


@functools.cache
def make_tree_rows(precisions: Precisions):
    """``tree_rows(p, s)``: s.H with the addresses of A's rows."""
    Problem, Data = make_problem(precisions)
    shifted = make_shifted(precisions.linear)

    @wp.func
    def tree_rows(p: wp.ref[Problem], s: wp.ref[Data]) -> wp.array(dtype=precisions.linear.scalar):
        return shifted(s.H, p.layout.world_hessian[p.world] - p.layout.world_entry[p.world])

    return tree_rows


@functools.cache
def make_couples(precisions: Precisions):
    """``couples(p, s)``: whether any row couples dofs that are not above one another, at the velocity at hand."""
    Problem, Data = make_problem(precisions)
    row_count = make_constraint_terms(precisions).row_count

    @wp.func
    def couples(p: wp.ref[Problem], s: wp.ref[Data]) -> int:
        if row_count(p) > 0:
            return 1
        row = int(p.row)
        while row < p.row_end:
            if p.contacts.body_a[row] >= 0 and p.contacts.body_b[row] >= 0 and s.projection[row].mode != 0:
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
    def add_tree_rows(p: wp.ref[Problem], s: wp.ref[Data]):
        """Set what A has of s.H, with the stiffness of subtrees."""
        count = p.last - p.first
        Sw = p.motion.Sw
        Sv = p.motion.Sv
        if fits_a_warp(count):
            F = column_force(p, s)
            H_first = p.contacts.hessian.first
            H_entry = p.contacts.hessian.entry
            first = p.layout.rows.first
            entry = p.layout.rows.entry
            add_rows_in_warp(s.H, H_first, H_entry, p.motion.A, first, entry, p.first, count, Sw, Sv, F.w, F.u)
            return
        accumulate(p, s, True)
        e = int(p.first + lane())
        while e < p.last:
            b = p.layout.dof_body[e]
            e_end = e + 1
            if is_native():  # all dofs of a body at once
                e_end = p.layout.body_dof[b] + p.layout.body_dof_count[b]
            if p.contacts.body_active[b] != 0:
                multiply_columns(s.K, b, e, e_end, p.motion.Sw, p.motion.Sv, s.column_force, p.first, count)
                e = e_end - 1 + lane_count()
            else:
                store_force(s.column_force, p.first, count, e, linear.vec3(), linear.vec3())
                e += lane_count()
        barrier()
        if wp.static(not by_value):  # else a second call, which NVRTC would not inline
            if is_native() and s.widened[p.world] == 0:
                H = tree_rows(p, s)
                add_rows(H, p.layout.rows, p.motion.A, p.layout.rows, p.first, count, Sw, Sv, s.column_force, 1)
                return
        add_rows(s.H, p.contacts.hessian, p.motion.A, p.layout.rows, p.first, count, Sw, Sv, s.column_force, 1)

    return add_tree_rows


@functools.cache
def make_hessian(precisions: Precisions, by_value: bool):
    """``hessian(p, s)``: H. ``by_value`` is that of `struct_parameter`."""
    Problem, Data = make_problem(precisions)
    add_tree_rows, couple_pairs = make_add_tree_rows(precisions, by_value), make_couple_pairs(precisions)
    lscalar, add_stiffness = precisions.linear.scalar, make_constraint_terms(precisions).add_stiffness
    tree_rows, couples = make_tree_rows(precisions), make_couples(precisions)

    @wp.func(inline=True)  # a call would need the structs in memory
    def hessian(p: wp.ref[Problem], s: wp.ref[Data]):
        """Fill s.H."""
        coupled = p.contacts.coupled[p.world]
        if wp.static(not by_value):
            if is_native():  # while pairs of moving bodies are only near each other, A's rows are enough
                if coupled != 0:
                    coupled = couples(p, s)
                s.widened[p.world] = coupled
        if coupled != 0:  # left of the subtree
            e = int(p.first + lane())
            while e < p.last:
                i_end = p.layout.rows.first[e] - p.contacts.hessian.first[e]
                i = int(0)
                while i < i_end:
                    s.H[p.contacts.hessian.entry[e] + i] = lscalar(0.0)
                    i += 1
                e += lane_count()
        add_tree_rows(p, s)
        e = int(p.first + lane())
        if wp.static(not by_value):
            if is_native() and coupled == 0:
                H = tree_rows(p, s)
                while e < p.last:
                    if s.kind[e] != 0:
                        address = p.layout.rows.entry[e] + e - p.layout.rows.first[e]
                        H[address] = H[address] + lscalar(s.term[e][2])
                    e += 1
        while e < p.last:
            if s.kind[e] != 0:
                address = p.contacts.hessian.entry[e] + e - p.contacts.hessian.first[e]
                s.H[address] = s.H[address] + lscalar(s.term[e][2])
            e += lane_count()
        barrier()
        if coupled != 0:
            couple_pairs(p, s)
            add_stiffness(p, s)

    return hessian


@functools.cache
def make_newton_direction(precisions: Precisions, by_value: bool):
    """``newton_direction(p, s)``: dv and A dv. ``by_value`` is that of `struct_parameter`."""
    dynamics, types, linear = precisions.dynamics, precisions.types, precisions.linear
    Problem, Data = make_problem(precisions)
    multiply, solve, shifted = make_multiply(dynamics, types), make_solve(linear), make_shifted(linear)
    scalar, factor_and_solve, tree_rows = types.scalar, make_cholesky(linear), make_tree_rows(precisions)

    @wp.func
    def solve_in_places(p: wp.ref[Problem], s: wp.ref[Data]) -> int:
        """Solve for s.direction, with the dofs in the order that keeps the rows short."""
        rows = RowPattern()
        rows.first = p.contacts.placed_first
        rows.entry = p.contacts.placed_entry
        x = shifted(s.column_force, 5 * p.first)  # free by now
        e = int(p.first + lane())
        while e < p.last:
            x[p.contacts.place[e]] = s.direction[e]
            e += lane_count()
        barrier()
        ok = factor_and_solve(s.H, rows, p.first, p.last - p.first, 1, x)
        barrier()
        e = int(p.first + lane())
        while e < p.last:
            s.direction[e] = x[p.contacts.place[e]]
            e += lane_count()
        return ok

    @wp.func
    def newton_direction(p: wp.ref[Problem], s: wp.ref[Data]) -> int:
        """s.dv = -H^-1 g, and A dv; 0 if H is not positive definite."""
        count = p.last - p.first
        ok = int(-1)
        if wp.static(not by_value):
            if is_native() and s.widened[p.world] == 0:
                ok = solve(tree_rows(p, s), p.layout.rows, p.first, count, 0, s.direction)
        if ok < 0:
            if p.contacts.coupled[p.world] != 0 and not fits_a_warp(count):
                ok = solve_in_places(p, s)
            else:
                ok = solve(s.H, p.contacts.hessian, p.first, count, 0, s.direction)
        if ok != 0:
            e = int(p.first + lane())
            while e < p.last:
                s.dv[e] = scalar(s.direction[e])
                e += lane_count()
            barrier()
            multiply(p.motion.A, p.layout.rows, p.first, count, s.dv, s.A_dv)
        return ok

    return newton_direction
