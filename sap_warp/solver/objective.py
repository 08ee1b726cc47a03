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

from ..kernels.lanes import barrier, lane, make_block_sum
from ..kernels.types import Types
from .block import make_add_rows, make_multiply
from .constraint_terms import make_constraint_terms
from .contact_data import make_contact_data
from .free_motion import make_free_motion_data
from .layout import Layout
from .stiffness import make_stiffness
from .terms.contact import SLIDING, make_contact_term
from .terms.dof import make_dof_terms


@functools.cache
def make_solve_data(types: Types, linear: Types):
    """Struct of the solve's own buffers."""
    scalar, vec3 = types.scalar, types.vec3
    term = make_contact_term(types)
    Projection, Track = term.Projection, term.Track

    @wp.struct
    class SolveData:
        shared: int  # whether all worlds use the same entries of the fields in SCRATCH
        # by dof, solver order
        v: wp.array(dtype=scalar)
        p: wp.array(dtype=scalar)  # A (v - v*)
        A_v_star: wp.array(dtype=scalar)
        gradient: wp.array(dtype=scalar)
        impulse: wp.array(dtype=scalar)  # generalized impulse of all terms
        dv: wp.array(dtype=scalar)
        A_dv: wp.array(dtype=scalar)
        direction: wp.array(dtype=linear.scalar)
        term: wp.array(dtype=vec3)  # cost, derivative and curvature of a dof's terms at v, where it has any
        # by contact row
        projection: wp.array(dtype=Projection)  # impulse and curvature at v
        track: wp.array(dtype=Track)  # the row along the Newton direction
        # Hessian rows
        H: wp.array(dtype=linear.scalar)
        A_factor: wp.array(dtype=linear.scalar)  # in the same memory, for a world that asks for v*
        column_force: wp.array(dtype=scalar)  # stiffness of the subtree times motion column, six runs for each world
        # by body, solver order
        Vw: wp.array(dtype=vec3)
        Vv: wp.array(dtype=vec3)
        fw: wp.array(dtype=vec3)
        fv: wp.array(dtype=vec3)
        K: wp.array(dtype=scalar)  # contact stiffness of the subtree, see `stiffness`
        scratch: wp.array(dtype=vec3)  # one entry per lane of each world

    return SolveData


SCRATCH = (
    *((name, "dof") for name in ("p", "A_v_star", "impulse", "A_dv", "direction", "term")),
    *((name, "row") for name in ("projection", "track")),
    *((name, "body") for name in ("Vw", "Vv", "fw", "fv")),
    ("K", "48 * body"),
    ("column_force", "6 * dof"),
    ("H", "hessian"),
)
"""Fields that nothing reads after the solve, and where a world's entries begin."""


@functools.cache
def make_objective(dynamics: Types, types: Types, linear: Types, pose: Types):
    """Parts of the Newton iteration; each is called by all lanes of a block."""
    scalar, vec3, mat33 = types.scalar, types.vec3, types.mat33
    lscalar = linear.scalar
    FreeMotion = make_free_motion_data(pose, dynamics)
    Contacts = make_contact_data(types)
    Solve = make_solve_data(types, linear)
    dof_terms = make_dof_terms(types)
    Terms, evaluate = dof_terms.DofTerms, dof_terms.evaluate
    term = make_contact_term(types)
    Projection, project, track = term.Projection, term.project, term.track
    multiply = make_multiply(dynamics, types)
    columns = make_add_rows(linear, dynamics, types)
    store_force, add_rows = columns.store_force, columns.add_rows
    stiffness = make_stiffness(dynamics, types)
    gather_stiffness, add_child, multiply_columns = stiffness.gather, stiffness.add_child, stiffness.multiply
    block_sum = make_block_sum(vec3)
    rows = make_constraint_terms(types, linear)
    Rows, row_count = rows.Rows, rows.row_count
    add_impulses, add_stiffness = rows.add_impulses, rows.add_stiffness

    @wp.func
    def column_w(d: wp.ref[FreeMotion], e: int) -> vec3:
        s = d.Sw[e]
        return vec3(scalar(s[0]), scalar(s[1]), scalar(s[2]))

    @wp.func
    def column_v(d: wp.ref[FreeMotion], e: int) -> vec3:
        s = d.Sv[e]
        return vec3(scalar(s[0]), scalar(s[1]), scalar(s[2]))

    @wp.func
    def skew(a: vec3) -> mat33:
        z = scalar(0.0)
        return mat33(z, -a[2], a[1], a[2], z, -a[0], -a[1], a[0], z)

    @wp.func
    def body_velocities(
        layout: wp.ref[Layout],
        d: wp.ref[FreeMotion],
        c: wp.ref[Contacts],
        s: wp.ref[Solve],
        world: int,
        v: wp.array(dtype=scalar),
    ):
        """Spatial velocities at v of all bodies that rows ask for, from the root down."""
        level_end = layout.world_level[world + 1]
        level = int(layout.world_level[world])
        while level < level_end:
            i_end = layout.level_start[level + 1]
            i = int(layout.level_start[level] + lane())
            while i < i_end:
                b = layout.level_body[i]
                if c.body_active[b] != 0:
                    w = vec3()
                    u = vec3()
                    parent = layout.body_parent[b]
                    if parent >= 0:
                        w = s.Vw[parent]
                        u = s.Vv[parent]
                    e = layout.body_dof[b]
                    e_end = e + layout.body_dof_count[b]
                    while e < e_end:
                        w += column_w(d, e) * v[e]
                        u += column_v(d, e) * v[e]
                        e += 1
                    s.Vw[b] = w
                    s.Vv[b] = u
                i += wp.block_dim()
            barrier()
            level += 1

    @wp.func
    def relative_velocity(c: wp.ref[Contacts], s: wp.ref[Solve], row: int) -> vec3:
        """J v of one row, from the velocities of its bodies."""
        value = vec3()
        b = c.body_b[row]
        if b >= 0:
            value = s.Vv[b] + wp.cross(s.Vw[b], c.r_b[row])
        a = c.body_a[row]
        if a >= 0:
            value -= s.Vv[a] + wp.cross(s.Vw[a], c.r_a[row])
        return value

    @wp.func
    def start_at(layout: wp.ref[Layout], d: wp.ref[FreeMotion], c: wp.ref[Contacts], s: wp.ref[Solve], world: int):
        """Everything that follows from s.v. Rows hold the prescribed part of their velocity when this begins."""
        first = layout.world_dof[world]
        last = layout.world_dof[world + 1]
        # the guess is v0, where A (v - v*) is minus free motion's impulse
        multiply(
            d.A,
            layout.dof_first,
            layout.dof_entry,
            layout.dof_above,
            layout.dof_above_start,
            first,
            last - first,
            s.v,
            s.A_v_star,
        )
        e = int(first + lane())
        while e < last:
            p = -scalar(d.impulse[e])
            s.p[e] = p
            s.A_v_star[e] = s.A_v_star[e] - p
            e += wp.block_dim()
        body_velocities(layout, d, c, s, world, s.v)
        base = world * c.capacity
        row_end = base + c.count[world]
        row = int(base + lane())
        while row < row_end:
            vc = c.vc[row] + relative_velocity(c, s, row)
            c.vc[row] = vc
            s.projection[row] = project(vc, c.normal[row], c.vhat[row], c.mu[row], c.Rt[row], c.Rn[row])
            row += wp.block_dim()
        barrier()

    @wp.func
    def aim_at(layout: wp.ref[Layout], d: wp.ref[FreeMotion], c: wp.ref[Contacts], s: wp.ref[Solve], world: int):
        """What the rows need to know of the direction s.dv."""
        body_velocities(layout, d, c, s, world, s.dv)
        base = world * c.capacity
        row_end = base + c.count[world]
        row = int(base + lane())
        while row < row_end:
            dvc = relative_velocity(c, s, row)
            c.dvc[row] = dvc
            s.track[row] = track(c.vc[row], dvc, c.normal[row], c.vhat[row], c.mu[row], c.Rt[row], c.Rn[row])
            row += wp.block_dim()
        barrier()

    @wp.func
    def advance_contacts(c: wp.ref[Contacts], s: wp.ref[Solve], world: int, alpha: scalar, renew: bool):
        """Move the rows along their direction, and if asked to, see what they do there."""
        base = world * c.capacity
        row_end = base + c.count[world]
        row = int(base + lane())
        while row < row_end:
            vc = c.vc[row] + c.dvc[row] * alpha
            c.vc[row] = vc
            if renew:
                s.projection[row] = project(vc, c.normal[row], c.vhat[row], c.mu[row], c.Rt[row], c.Rn[row])
            row += wp.block_dim()

    @wp.func
    def gather_wrench(c: wp.ref[Contacts], s: wp.ref[Solve], b: int):
        """Wrench that the rows of one body exert on it, about its tree's reference point."""
        fw = vec3()
        fv = vec3()
        i = c.body_start[b]
        i_end = i + c.body_count[b]
        while i < i_end:
            side = c.body_row[i] % 2
            row = c.body_row[i] // 2
            gamma = s.projection[row].gamma * scalar(2 * side - 1)
            fw += wp.cross(wp.where(side == 1, c.r_b[row], c.r_a[row]), gamma)
            fv += gamma
            i += 1
        s.fw[b] = fw
        s.fv[b] = fv

    @wp.struct
    class Stiffness:
        """X_a^T G X_b of contact rows, X = (-[r]x, 1): angular, mixed and linear blocks."""

        ww: mat33
        wv: mat33
        vw: mat33
        vv: mat33

    @wp.func
    def add_direction(K: wp.ref[Stiffness], arm_a: vec3, arm_b: vec3, u: vec3, k: scalar):
        """Stiffness k along u."""
        ku = u * k
        a = wp.cross(arm_a, ku)
        b = wp.cross(arm_b, u)
        K.ww += wp.outer(a, b)
        K.wv += wp.outer(a, u)
        K.vw += wp.outer(ku, b)
        K.vv += wp.outer(ku, u)

    @wp.func
    def add_row_stiffness(K: wp.ref[Stiffness], r: wp.ref[Projection], n: vec3, arm_a: vec3, arm_b: vec3):
        """Stiffness of one row at the two arms: equal in all directions, and along a few."""
        k = r.across
        # -[a]x [b]x = a.b 1 - b a^T
        ww = wp.outer(arm_b, arm_a) * (-k)
        spread = k * wp.dot(arm_a, arm_b)
        for i in range(3):
            ww[i, i] += spread
            K.vv[i, i] += k
        K.ww += ww
        K.wv += skew(arm_a * k)
        K.vw -= skew(arm_b * k)
        add_direction(K, arm_a, arm_b, n, r.along_n)
        if r.mode == SLIDING:
            add_direction(K, arm_a, arm_b, r.t, -k)
            add_direction(K, arm_a, arm_b, r.s, r.along_s)

    @wp.func
    def accumulate(layout: wp.ref[Layout], c: wp.ref[Contacts], s: wp.ref[Solve], world: int, stiff: bool):
        """Wrenches, or stiffnesses, of all subtrees, leaves to root."""
        first_level = layout.world_level[world]
        last_level = layout.world_level[world + 1]
        up_end = last_level - first_level
        up = int(0)
        while up < up_end:
            level = last_level - 1 - up
            i_end = layout.level_start[level + 1]
            i = int(layout.level_start[level] + lane())
            while i < i_end:
                b = layout.level_body[i]
                if c.body_active[b] != 0:
                    child = layout.body_child[b]
                    if stiff:
                        gather_stiffness(
                            s.K,
                            b,
                            c.body_row,
                            c.body_start[b],
                            c.body_count[b],
                            s.projection,
                            c.normal,
                            c.r_a,
                            c.r_b,
                        )
                        while child >= 0:
                            if c.body_active[child] != 0:
                                add_child(s.K, b, child)
                            child = layout.body_sibling[child]
                    else:
                        gather_wrench(c, s, b)
                        while child >= 0:
                            if c.body_active[child] != 0:
                                s.fw[b] = s.fw[b] + s.fw[child]
                                s.fv[b] = s.fv[b] + s.fv[child]
                            child = layout.body_sibling[child]
                i += wp.block_dim()
            barrier()
            up += 1

    @wp.func
    def gradient(
        layout: wp.ref[Layout],
        d: wp.ref[FreeMotion],
        c: wp.ref[Contacts],
        t: wp.ref[Terms],
        k: wp.ref[Rows],
        s: wp.ref[Solve],
        world: int,
        h: scalar,
    ) -> vec3:
        """Fill s.gradient; returns the squared norms |D g|^2, |D A v|^2, |D j|^2."""
        first = layout.world_dof[world]
        last = layout.world_dof[world + 1]
        accumulate(layout, c, s, world, False)
        constrained = row_count(k, world) > 0
        if constrained:
            add_impulses(k, world, first, last, s.impulse)
        norms = vec3()
        e = int(first + lane())
        while e < last:
            b = layout.dof_body[e]
            j = scalar(0.0)
            if constrained:
                j = s.impulse[e]
            if c.body_active[b] != 0:
                j += wp.dot(column_w(d, e), s.fw[b]) + wp.dot(column_v(d, e), s.fv[b])
            if t.kind[e] != 0:
                value = evaluate(t, e, s.v[e], h)
                s.term[e] = value
                j -= value[1]
            g = s.p[e] - j
            s.gradient[e] = g
            s.direction[e] = lscalar(-g)  # right-hand side of the Newton step
            s.impulse[e] = j
            Av = s.p[e] + s.A_v_star[e]
            norms += vec3(g * g, Av * Av, j * j) * scalar(d.inverse_diagonal[e])
            e += wp.block_dim()
        return block_sum(norms, s.scratch, world)

    @wp.func
    def couple_pairs(layout: wp.ref[Layout], d: wp.ref[FreeMotion], c: wp.ref[Contacts], s: wp.ref[Solve], world: int):
        """Subtract X_a^T G X_b between the chains of two touching moving bodies; rows of one pair are summed."""
        base = world * c.capacity
        last = base + c.count[world]
        row = base
        while row < last:
            a = c.body_a[row]
            b = c.body_b[row]
            if a >= 0 and b >= 0:
                K = Stiffness()
                same = bool(True)
                while same:
                    if s.projection[row].mode != 0:
                        add_row_stiffness(K, s.projection[row], c.normal[row], c.r_a[row], c.r_b[row])
                    row += 1
                    same = bool(False)
                    if row < last:
                        same = c.body_a[row] == a and c.body_b[row] == b
                j = layout.body_chain[b]
                while j >= 0:
                    Fw = K.ww * column_w(d, j) + K.wv * column_v(d, j)
                    Fv = K.vw * column_w(d, j) + K.vv * column_v(d, j)
                    i = layout.body_chain[a]
                    turn = int(0)
                    while i >= 0:
                        if turn % wp.block_dim() == lane():
                            value = lscalar(wp.dot(column_w(d, i), Fw) + wp.dot(column_v(d, i), Fv))
                            if i >= j:
                                k = c.hessian_entry[i] + j - c.hessian_first[i]
                                s.H[k] = s.H[k] - value
                            if j >= i:
                                k = c.hessian_entry[j] + i - c.hessian_first[j]
                                s.H[k] = s.H[k] - value
                        turn += 1
                        i = layout.dof_parent[i]
                    barrier()
                    j = layout.dof_parent[j]
            else:
                row += 1

    @wp.func
    def hessian(
        layout: wp.ref[Layout],
        d: wp.ref[FreeMotion],
        c: wp.ref[Contacts],
        t: wp.ref[Terms],
        k: wp.ref[Rows],
        s: wp.ref[Solve],
        world: int,
        h: scalar,
    ):
        """Fill s.H."""
        first = layout.world_dof[world]
        last = layout.world_dof[world + 1]
        coupled = c.coupled[world]
        accumulate(layout, c, s, world, True)
        b_end = layout.world_body[world + 1]
        b = int(layout.world_body[world] + lane())
        while b < b_end:
            e = layout.body_dof[b]
            e_end = e + layout.body_dof_count[b]
            if layout.body_prescribed[b] != 0:
                pass
            elif c.body_active[b] != 0:
                multiply_columns(s.K, b, e, e_end, d.Sw, d.Sv, s.column_force, first, last - first)
            else:
                while e < e_end:
                    store_force(s.column_force, first, last - first, e, vec3(), vec3())
                    e += 1
            b += wp.block_dim()
        if coupled != 0:  # left of the subtree
            e = int(first + lane())
            while e < last:
                i_end = layout.dof_first[e] - c.hessian_first[e]
                i = int(0)
                while i < i_end:
                    s.H[c.hessian_entry[e] + i] = lscalar(0.0)
                    i += 1
                e += wp.block_dim()
        barrier()
        add_rows(
            s.H,
            c.hessian_first,
            c.hessian_entry,
            d.A,
            layout.dof_first,
            layout.dof_entry,
            first,
            last - first,
            d.Sw,
            d.Sv,
            s.column_force,
            1,
        )
        e = int(first + lane())
        while e < last:
            if t.kind[e] != 0:
                address = c.hessian_entry[e] + e - c.hessian_first[e]
                s.H[address] = s.H[address] + lscalar(s.term[e][2])
            e += wp.block_dim()
        barrier()
        if coupled != 0:
            couple_pairs(layout, d, c, s, world)
            add_stiffness(k, world, c.hessian_first, c.hessian_entry, s.H)

    return SimpleNamespace(
        FreeMotion=FreeMotion,
        Contacts=Contacts,
        Terms=Terms,
        Solve=Solve,
        start_at=start_at,
        aim_at=aim_at,
        advance_contacts=advance_contacts,
        gradient=gradient,
        hessian=hessian,
        multiply=multiply,
        block_sum=block_sum,
        rows=rows,
    )
