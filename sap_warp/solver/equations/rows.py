"""Violation, rate and mobility of every bilateral row at the start of a step.

With F fixed in body a, M in body b, n and the axes in W, and w = w_b - w_a:

    LINEAR     g = n.(p_M - p_F)                    rate n.(v_b - v_a), both at p_M
    ANGLE      g = n.theta, R_FM = exp(theta)       rate w.(J^-T n), J the left Jacobian of the rotation vector
    SWING      g = n.(a_F x a_M)                    rate w.(a_M x (n x a_F))
    UNIVERSAL  g = n.a_M - its value at rest        rate w.(a_M x n)
    COUPLER    g = q_1 - p(q_2)                     rate v_1 - p'(q_2) v_2

All of these vanish for a motion that a and b share, so J has entries for the dofs above one of the two bodies only. A
row asks for the rate that makes half of g go in a step, up to `CATCH_UP_SPEED`. What prescribed dofs do to g is taken
off the rate that is asked of the others. R is `NEAR_RIGID` times the mobility of the row, see `LEAST_SHARE`.
"""

import functools

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import solver_kernel
from ...core.kernels.types import Types
from ..terms.near_rigid import NEAR_RIGID
from .data import (
    ANGLE,
    COUPLER,
    IMMOBILE,
    LENGTH,
    LINEAR,
    SWING,
    RowSource,
    make_constraint_data,
    make_row_input,
    make_row_points,
    make_row_stage,
)

CATCH_UP_SPEED = 1.0
"""Most rate that a violated row asks for [m/s]: a loop that is far from closed would else be shot together."""
TURN_SPEED = 5.0
"""The same of rows that hold angles and joint coordinates [rad/s or m/s]."""
LEAST_SHARE = 0.01
"""A row counts as no less mobile than this share of its mobility in all directions. No dof of a planar linkage moves
its pivots out of the plane but by rounding, and a row that were rigid in units of that would throw it apart."""


@wp.func
def rotation_vector(q_in: wp.quatd) -> wp.vec3d:
    """Axis times angle of a rotation, by the shorter way."""
    q = q_in
    if q[3] < wp.float64(0.0):
        q = -q
    v = wp.vec3d(q[0], q[1], q[2])
    sine = wp.length(v)
    if sine < wp.float64(1e-12):
        return v * wp.float64(2.0)
    return v * (wp.float64(2.0) * wp.atan2(sine, q[3]) / sine)


@wp.func
def inverse_jacobian_transposed(theta: wp.vec3d, n: wp.vec3d) -> wp.vec3d:
    """J^-T n of the left Jacobian of the rotation vector theta."""
    angle2 = wp.dot(theta, theta)
    c = wp.float64(1.0 / 12.0)
    if angle2 > wp.float64(1e-8):
        half = wp.float64(0.5) * wp.sqrt(angle2)
        c = (wp.float64(1.0) - half / wp.tan(half)) / angle2
    turned = wp.cross(theta, n)
    return n + turned * wp.float64(0.5) + wp.cross(theta, turned) * c


@functools.cache
def make_prepare_row(pose: Types, dynamics: Types, types: Types):
    """``prepare_row(s, source, k, row, h)``: J, violation, vhat and R of a row."""
    Input, Rows = make_row_input(pose, dynamics), make_constraint_data(types)
    points = make_row_points(pose, dynamics)
    to_vec3, rotation, point = points.to_vec3, points.rotation, points.point
    scalar = types.scalar
    F, vec3 = wp.float64, wp.vec3d

    @wp.func
    def prescribed_rate(s: wp.ref[Input], b: int, spin: vec3, push: vec3, p: vec3, o: vec3) -> F:
        """Rate that a kinematic root gives a row at one of its bodies."""
        if b < 0:
            return F(0.0)
        root = s.layout.body_root[b]
        if s.layout.body_prescribed[root] == 0:
            return F(0.0)
        w = to_vec3(s.motion.Vw[root])
        return wp.dot(spin, w) + wp.dot(push, to_vec3(s.motion.Vv[root]) + wp.cross(w, p + (o - s.motion.origin[root])))

    @wp.func
    def prepare_row(s: wp.ref[Input], source: wp.ref[RowSource], k: wp.ref[Rows], row: int, h: F):
        g = F(0.0)
        prescribed = F(0.0)
        spin = vec3()  # the rate is spin . w + push . v, of b less of a
        push = vec3()
        p_M = vec3()
        o = vec3()
        slope = F(0.0)
        if source.kind == COUPLER:
            g = s.q[source.coord_1] - source.c0
            if source.coord_2 >= 0:
                x = s.q[source.coord_2]
                g -= x * (source.c1 + x * (source.c2 + x * (source.c3 + x * source.c4)))
                slope = source.c1 + x * (F(2.0) * source.c2 + x * (F(3.0) * source.c3 + x * F(4.0) * source.c4))
                if source.dof_2 >= s.free_dofs:
                    prescribed -= slope * s.motion.v0[source.dof_2]
            if source.dof_1 >= s.free_dofs:
                prescribed += s.motion.v0[source.dof_1]
        else:
            if source.b >= 0:
                o = s.motion.origin[s.layout.body_root[source.b]]
            else:
                o = s.motion.origin[s.layout.body_root[source.a]]
            r_F = source.r_aF
            r_M = source.r_bM
            if source.a >= 0:
                r_F = rotation(s, source.a) * r_F
            if source.b >= 0:
                r_M = rotation(s, source.b) * r_M
            n = wp.quat_rotate(r_F, source.n)
            if source.kind == LINEAR:
                p_M = point(s, source.b, source.p_bM, o)
                g = wp.dot(n, p_M - point(s, source.a, source.p_aF, o))
                push = n
            elif source.kind == ANGLE:
                theta = rotation_vector(wp.quat_inverse(r_F) * r_M)
                g = wp.dot(source.n, theta)
                spin = wp.quat_rotate(r_F, inverse_jacobian_transposed(theta, source.n))
            elif source.kind == SWING:
                a_F = wp.quat_rotate(r_F, source.axis)
                a_M = wp.quat_rotate(r_M, source.axis)
                g = wp.dot(n, wp.cross(a_F, a_M))
                spin = wp.cross(a_M, wp.cross(n, a_F))
            else:
                a_M = wp.quat_rotate(r_M, source.axis)
                g = wp.dot(n, a_M) - wp.dot(source.n, source.axis)
                spin = wp.cross(a_M, n)
            prescribed = prescribed_rate(s, source.b, spin, push, p_M, o)
            prescribed -= prescribed_rate(s, source.a, spin, push, p_M, o)

        mobility = F(0.0)
        reach = F(0.0)  # mobility of the row in all directions together
        for i in range(k.row_entry[row], k.row_entry[row + 1]):
            e = k.entry_dof[i]
            J = F(1.0)
            if source.kind == COUPLER:
                if k.entry_side[i] > 0:
                    J = -slope
            else:
                arm = p_M + (o - s.motion.origin[s.layout.body_root[s.layout.dof_body[e]]])
                sw = to_vec3(s.motion.Sw[e])
                sv = to_vec3(s.motion.Sv[e]) + wp.cross(sw, arm)
                J = F(k.entry_side[i]) * (wp.dot(spin, sw) + wp.dot(push, sv))
                every = wp.dot(spin, spin) * wp.dot(sw, sw) + wp.dot(push, push) * wp.dot(sv, sv)
                reach += every / F(s.motion.A[s.layout.rows.entry[e] + e - s.layout.rows.first[e]])
            k.J[i] = scalar(J)
            mobility += J * J / F(s.motion.A[s.layout.rows.entry[e] + e - s.layout.rows.first[e]])
        k.violation[row] = scalar(g)
        catch_up = F(wp.static(TURN_SPEED))
        if source.kind == LINEAR:
            catch_up = F(wp.static(CATCH_UP_SPEED))
        k.vhat[row] = scalar(wp.clamp(-g / (F(2.0) * h), -catch_up, catch_up) - prescribed)  # tau = h
        k.R[row] = scalar(0.0)
        if source.enabled != 0 and mobility > F(wp.static(IMMOBILE)):
            k.R[row] = scalar(F(wp.static(NEAR_RIGID)) * wp.max(mobility, F(wp.static(LEAST_SHARE)) * reach))

    return prepare_row


@functools.cache
def make_constraint_kernel(pose: Types, dynamics: Types, types: Types):
    """The kernel: one block per world."""
    Stage, prepare_row = make_row_stage(pose, dynamics, types), make_prepare_row(pose, dynamics, types)
    F = wp.float64

    @solver_kernel
    def constraint_data(first_world: int, stage: wp.array[Stage], sources: wp.array[RowSource], dt: F):
        world = first_world + wp.tid() // lane_count()
        k = stage[0].rows
        row_end = k.world_row[world + 1]
        row = int(k.world_row[world] + lane())
        while row < row_end:
            if sources[row].kind != LENGTH:
                prepare_row(stage[0].input, sources[row], k, row, dt)
            row += lane_count()

    return constraint_data
