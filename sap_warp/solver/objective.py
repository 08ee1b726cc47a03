"""Gradient and Hessian of the objective, without a Jacobian.

    gradient   g = A (v - v*) - J^T gamma + dof terms       wrenches gamma summed over each dof's subtree
    Hessian    H = A + J^T G J + dof terms                  6x6 blocks X^T G X summed over subtrees, leaves to root,
                                                            and one 6x6 block per pair of touching moving bodies

Bilateral constraints, if a world has any, add J_k^T gamma_k and J_k^T J_k / R_k row by row (`constraint_terms`).

The cost of the Hessian does not depend on how many contacts a body has. H lies in packed rows (`layout`), widened
where contacts couple dofs that are not above one another.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ..kernels.lanes import barrier, is_native, lane, make_block_sum
from ..kernels.packed_rows import RowPattern, make_add_rows, make_cholesky, make_multiply, make_shifted, make_solve
from ..kernels.spatial import make_spatial
from ..kernels.types import Types
from ..kernels.warps import fits_a_warp, make_warp_add_rows
from .constraint_terms import make_constraint_terms
from .held_contacts import make_was_held
from .small_worlds import make_small_worlds
from .solve_data import make_problem
from .stiffness import make_stiffness
from .terms.contact import SLIDING, make_contact_term
from .terms.dof import make_dof_terms


@functools.cache
def make_project_row(dynamics: Types, types: Types, linear: Types, pose: Types):
    """``project_row(p, row, vc)``: impulse, cost and curvature of a contact row at relative velocity vc."""
    Problem, vec3 = make_problem(dynamics, types, linear, pose).Problem, types.vec3
    term = make_contact_term(types)
    Projection, project = term.Projection, term.project

    @wp.func
    def project_row(p: wp.ref[Problem], row: int, vc: vec3) -> Projection:
        return project(
            vc, p.contacts.normal[row], p.contacts.vhat[row], p.contacts.mu[row], p.contacts.Rt[row], p.contacts.Rn[row]
        )

    return project_row


@functools.cache
def make_objective(dynamics: Types, types: Types, linear: Types, pose: Types, by_value: bool):
    """Parts of the Newton iteration; each is called by all lanes of a block. Precisions are those of `make_problem`.

    ``by_value`` is that of `struct_parameter`: a call would need such structs in memory.
    """
    called_twice = wp.func(inline=True) if by_value else wp.func
    scalar, vec3 = types.scalar, types.vec3
    lscalar = linear.scalar
    structs = make_problem(dynamics, types, linear, pose)
    Problem, Data = structs.Problem, structs.Data
    evaluate = make_dof_terms(types).evaluate
    term = make_contact_term(types)
    Projection, held, track = term.Projection, term.held, term.track
    project_row = make_project_row(dynamics, types, linear, pose)
    was_held = make_was_held(dynamics, types, linear, pose)
    to_vec3 = make_spatial(types).to_vec3
    multiply, solve, shifted = make_multiply(dynamics, types), make_solve(linear), make_shifted(linear)
    factor_and_solve = make_cholesky(linear)
    columns = make_add_rows(linear, dynamics)
    store_force, add_rows = columns.store_force, columns.add_rows
    stiffness = make_stiffness(dynamics, types, linear)
    gather_stiffness, add_child, multiply_columns = stiffness.gather, stiffness.add_child, stiffness.multiply
    Blocks, add_row = stiffness.Blocks, stiffness.add_row
    to_linear = make_spatial(linear).to_vec3
    block_sum = make_block_sum(vec3)
    rows = make_constraint_terms(dynamics, types, linear, pose)
    row_count, start_rows = rows.row_count, rows.start_rows
    add_impulses, add_stiffness = rows.add_impulses, rows.add_stiffness
    small = make_small_worlds(dynamics, types, linear, pose)
    row_velocities, contact_impulse, column_force = small.row_velocities, small.contact_impulse, small.column_force
    add_rows_in_warp = make_warp_add_rows(linear, dynamics)

    @wp.func
    def column_w(p: wp.ref[Problem], e: int) -> vec3:
        return to_vec3(p.motion.Sw[e])

    @wp.func
    def column_v(p: wp.ref[Problem], e: int) -> vec3:
        return to_vec3(p.motion.Sv[e])

    @wp.func
    def hold_row(p: wp.ref[Problem], row: int, vc: vec3) -> Projection:
        """The same of a row that has to stick."""
        return held(vc, p.contacts.normal[row], p.contacts.vhat[row], p.contacts.Rt[row], p.contacts.Rn[row])

    @wp.func
    def body_velocities(p: wp.ref[Problem], s: wp.ref[Data], v: wp.array(dtype=scalar)):
        """Spatial velocities at v of all bodies that rows ask for, from the root down."""
        level_end = p.layout.world_level[p.world + 1]
        level = int(p.layout.world_level[p.world])
        while level < level_end:
            i_end = p.layout.level_start[level + 1]
            i = int(p.layout.level_start[level] + lane())
            while i < i_end:
                b = p.layout.level_body[i]
                if p.contacts.body_active[b] != 0:
                    w = vec3()
                    u = vec3()
                    parent = p.layout.body_parent[b]
                    if parent >= 0:
                        w = s.Vw[parent]
                        u = s.Vv[parent]
                    e = p.layout.body_dof[b]
                    e_end = e + p.layout.body_dof_count[b]
                    while e < e_end:
                        w += column_w(p, e) * v[e]
                        u += column_v(p, e) * v[e]
                        e += 1
                    s.Vw[b] = w
                    s.Vv[b] = u
                i += wp.block_dim()
            barrier()
            level += 1

    @wp.func
    def relative_velocity(p: wp.ref[Problem], s: wp.ref[Data], row: int) -> vec3:
        """J v of one row, from the velocities of its bodies."""
        value = vec3()
        b = p.contacts.body_b[row]
        if b >= 0:
            value = s.Vv[b] + wp.cross(s.Vw[b], p.contacts.r_b[row])
        a = p.contacts.body_a[row]
        if a >= 0:
            value -= s.Vv[a] + wp.cross(s.Vw[a], p.contacts.r_a[row])
        return value

    @called_twice
    def start_at_v0(p: wp.ref[Problem], s: wp.ref[Data], hold: bool) -> bool:
        """Start from the incoming velocity, where A (v - v*) is minus free motion's impulse.

        With ``hold``, contacts that stuck a step ago do so still; returns whether there are any that seem to slide.
        """
        e = int(p.first + lane())
        while e < p.last:
            s.v[e] = scalar(p.motion.v0[e])
            e += wp.block_dim()
        barrier()
        multiply(p.motion.A, p.layout.rows, p.first, p.last - p.first, s.v, s.A_v_star)
        e = int(p.first + lane())
        while e < p.last:
            Av = -scalar(p.motion.impulse[e])
            s.p[e] = Av
            s.A_v_star[e] = s.A_v_star[e] - Av
            e += wp.block_dim()
        is_small = fits_a_warp(p.last - p.first)
        if is_small:
            row_velocities(p, s.v, s.vc)
        else:
            body_velocities(p, s, s.v)
        kept = vec3()
        row = int(p.row + lane())
        while row < p.row_end:
            vc = p.contacts.drift[row]
            if is_small:
                vc += s.vc[row]
            else:
                vc += relative_velocity(p, s, row)
            s.vc[row] = vc
            at = project_row(p, row, vc)
            if hold:
                if was_held(p, row, vc, at):
                    at = hold_row(p, row, vc)
                    kept[0] += scalar(1.0)
            s.projection[row] = at
            row += wp.block_dim()
        start_rows(p, s)
        barrier()
        return block_sum(kept, s.scratch, p.world)[0] > scalar(0.0)

    @wp.func
    def aim_contacts(p: wp.ref[Problem], s: wp.ref[Data]):
        """What the rows need to know of the direction s.dv."""
        is_small = fits_a_warp(p.last - p.first)
        if is_small:
            row_velocities(p, s.dv, s.dvc)
        else:
            body_velocities(p, s, s.dv)
        row = int(p.row + lane())
        while row < p.row_end:
            if not is_small:
                s.dvc[row] = relative_velocity(p, s, row)
            dvc = s.dvc[row]
            c = track(
                s.vc[row],
                dvc,
                p.contacts.normal[row],
                p.contacts.vhat[row],
                p.contacts.mu[row],
                p.contacts.Rt[row],
                p.contacts.Rn[row],
            )
            s.track[row] = c
            row += wp.block_dim()

    @wp.func
    def overshoots(p: wp.ref[Problem], s: wp.ref[Data], row: int) -> bool:
        """Whether the whole step along s.dv turns the slip of a sliding contact round."""
        slides = s.projection[row].mode == SLIDING and p.contacts.mu[row] > scalar(0.0)
        return slides and s.track[row].vv < -s.track[row].vd

    @wp.func
    def any_overshoots(p: wp.ref[Problem], s: wp.ref[Data]) -> bool:
        count = vec3()
        row = int(p.row + lane())
        while row < p.row_end:
            if overshoots(p, s, row):
                count[0] += scalar(1.0)
            row += wp.block_dim()
        return block_sum(count, s.scratch, p.world)[0] > scalar(0.0)

    @wp.func
    def advance_contacts(p: wp.ref[Problem], s: wp.ref[Data], alpha: scalar, renew: bool):
        """Move the rows along their direction, and if asked to, see what they do there."""
        row = int(p.row + lane())
        while row < p.row_end:
            vc = s.vc[row] + s.dvc[row] * alpha
            s.vc[row] = vc
            if renew:
                s.projection[row] = project_row(p, row, vc)
            row += wp.block_dim()

    @wp.func
    def hold_contacts(p: wp.ref[Problem], s: wp.ref[Data], hold: bool) -> bool:
        """Likewise the whole way; with ``hold``, contacts that overshoot stick. Returns whether there are any."""
        kept = vec3()
        row = int(p.row + lane())
        while row < p.row_end:
            vc = s.vc[row] + s.dvc[row]
            s.vc[row] = vc
            at = project_row(p, row, vc)
            if hold and at.mode == SLIDING:
                if overshoots(p, s, row):
                    at = hold_row(p, row, vc)
                    kept[0] += scalar(1.0)
            s.projection[row] = at
            row += wp.block_dim()
        return block_sum(kept, s.scratch, p.world)[0] > scalar(0.0)

    @wp.func
    def gather_wrench(p: wp.ref[Problem], s: wp.ref[Data], b: int):
        """Wrench that the rows of one body exert on it, about its tree's reference point."""
        fw = vec3()
        fv = vec3()
        i = p.contacts.body_start[b]
        i_end = i + p.contacts.body_count[b]
        while i < i_end:
            side = p.contacts.body_row[i] % 2
            row = p.contacts.body_row[i] // 2
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
                i += wp.block_dim()
            barrier()
            up += 1

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
            e += wp.block_dim()
        return block_sum(norms, s.scratch, p.world)

    @wp.func
    def couple_pairs(p: wp.ref[Problem], s: wp.ref[Data]):
        """Subtract X_a^T G X_b between the chains of two touching moving bodies; rows of one pair are summed."""
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
                        if turn % wp.block_dim() == lane():
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
                e = e_end - 1 + wp.block_dim()
            else:
                store_force(s.column_force, p.first, count, e, linear.vec3(), linear.vec3())
                e += wp.block_dim()
        barrier()
        add_rows(s.H, p.contacts.hessian, p.motion.A, p.layout.rows, p.first, count, Sw, Sv, s.column_force, 1)

    @wp.func(inline=True)  # a call would need the structs in memory
    def hessian(p: wp.ref[Problem], s: wp.ref[Data]):
        """Fill s.H."""
        coupled = p.contacts.coupled[p.world]
        if coupled != 0:  # left of the subtree
            e = int(p.first + lane())
            while e < p.last:
                i_end = p.layout.rows.first[e] - p.contacts.hessian.first[e]
                i = int(0)
                while i < i_end:
                    s.H[p.contacts.hessian.entry[e] + i] = lscalar(0.0)
                    i += 1
                e += wp.block_dim()
        add_tree_rows(p, s)
        e = int(p.first + lane())
        while e < p.last:
            if s.kind[e] != 0:
                address = p.contacts.hessian.entry[e] + e - p.contacts.hessian.first[e]
                s.H[address] = s.H[address] + lscalar(s.term[e][2])
            e += wp.block_dim()
        barrier()
        if coupled != 0:
            couple_pairs(p, s)
            add_stiffness(p, s)

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
            e += wp.block_dim()
        barrier()
        ok = factor_and_solve(s.H, rows, p.first, p.last - p.first, 1, x)
        barrier()
        e = int(p.first + lane())
        while e < p.last:
            s.direction[e] = x[p.contacts.place[e]]
            e += wp.block_dim()
        return ok

    @wp.func
    def newton_direction(p: wp.ref[Problem], s: wp.ref[Data]) -> int:
        """s.dv = -H^-1 g, and A dv; 0 if H is not positive definite."""
        count = p.last - p.first
        ok = int(0)
        if p.contacts.coupled[p.world] != 0 and not fits_a_warp(count):
            ok = solve_in_places(p, s)
        else:
            ok = solve(s.H, p.contacts.hessian, p.first, count, 0, s.direction)
        if ok != 0:
            e = int(p.first + lane())
            while e < p.last:
                s.dv[e] = scalar(s.direction[e])
                e += wp.block_dim()
            barrier()
            multiply(p.motion.A, p.layout.rows, p.first, count, s.dv, s.A_dv)
        return ok

    return SimpleNamespace(
        start_at_v0=start_at_v0,
        aim_contacts=aim_contacts,
        advance_contacts=advance_contacts,
        any_overshoots=any_overshoots,
        hold_contacts=hold_contacts,
        gradient=gradient,
        hessian=hessian,
        newton_direction=newton_direction,
    )
