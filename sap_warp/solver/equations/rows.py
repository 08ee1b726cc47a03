"""Violation, rate and mobility of every equation without bounds at the start of a step.

With F fixed in body a, M in body b, n and the axes in W, and w = w_b - w_a:

    LINEAR     g = n.(p_M - p_F)                    rate n.(v_b - v_a), both at p_M
    ANGLE      g = n.theta, R_FM = exp(theta)       rate w.(J^-T n), J the left Jacobian of the rotation vector
    SWING      g = n.(a_F x a_M)                    rate w.(a_M x (n x a_F))
    UNIVERSAL  g = n.a_M - its value at rest        rate w.(a_M x n)
    COUPLER    g = q_1 - p(q_2)                     rate v_1 - p'(q_2) v_2

All of these vanish for a motion that a and b share, so J has entries for the dofs above one of the two bodies only. An
equation asks for the rate that makes half of g go in a step, up to `CATCH_UP_SPEED`. What kinematic dofs do to g is
taken off the rate that is asked of the others. R is `NEAR_RIGID` times the mobility of the equation, see `LEAST_SHARE`.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import kernel
from ...core.kernels.spatial import to_vec3
from ...core.kernels.template import Constant, device
from ...core.kernels.types import FP64
from ..settings.precisions import solve
from ..terms.near_rigid import NEAR_RIGID
from .data import (
    ANGLE,
    COUPLER,
    IMMOBILE,
    LINEAR,
    SWING,
    TRANSMISSION,
    EquationInput,
    Equations,
    EquationSource,
    EquationStage,
    body_point,
    body_rotation,
)

F, vec3 = wp.float64, wp.vec3d
scalar = solve.scalar
to_vec3_64 = to_vec3.on(number=Constant(FP64))

CATCH_UP_SPEED = 1.0
"""Most rate that a violated equation asks for [m/s]: a loop that is far from closed would else be shot together."""
TURN_SPEED = 5.0
"""Most rate that is asked for by equations of angles and joint coordinates [rad/s or m/s]."""
LEAST_SHARE = 0.01
"""An equation counts as no less mobile than this share of its mobility in all directions. No dof of a planar linkage
moves its pivots out of the plane but by rounding, and an equation that were rigid in units of that would throw it
apart."""


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


@device
def kinematic_rate(given: wp.ref[EquationInput], b: int, spin: vec3, push: vec3, p: vec3, o: vec3) -> F:
    """Rate that a kinematic root gives an equation at one of its bodies."""
    if b < 0:
        return F(0.0)
    root = given.layout.body_root[b]
    if given.layout.body_kinematic[root] == 0:
        return F(0.0)
    w = to_vec3_64(given.motion.Vw[root])
    return wp.dot(spin, w) + wp.dot(
        push, to_vec3_64(given.motion.Vv[root]) + wp.cross(w, p + (o - given.motion.origin[root]))
    )


@device
def prepare_equation(
    given: wp.ref[EquationInput], source: wp.ref[EquationSource], equations: wp.ref[Equations], row: int, h: F
):
    """Find J, violation, vhat and R of an equation."""
    g = F(0.0)
    kinematic = F(0.0)
    spin = vec3()  # the rate is spin . w + push . v, of b less of a
    push = vec3()
    p_M = vec3()
    o = vec3()
    slope = F(0.0)
    if source.kind == COUPLER:
        g = given.q[source.coord_1] - source.c0
        if source.coord_2 >= 0:
            x = given.q[source.coord_2]
            g -= x * (source.c1 + x * (source.c2 + x * (source.c3 + x * source.c4)))
            slope = source.c1 + x * (F(2.0) * source.c2 + x * (F(3.0) * source.c3 + x * F(4.0) * source.c4))
            if source.dof_2 >= given.free_dofs:
                kinematic -= slope * given.motion.v0[source.dof_2]
        if source.dof_1 >= given.free_dofs:
            kinematic += given.motion.v0[source.dof_1]
    else:
        if source.b >= 0:
            o = given.motion.origin[given.layout.body_root[source.b]]
        else:
            o = given.motion.origin[given.layout.body_root[source.a]]
        r_F = source.r_aF
        r_M = source.r_bM
        if source.a >= 0:
            r_F = body_rotation(given, source.a) * r_F
        if source.b >= 0:
            r_M = body_rotation(given, source.b) * r_M
        n = wp.quat_rotate(r_F, source.n)
        if source.kind == LINEAR:
            p_M = body_point(given, source.b, source.p_bM, o)
            g = wp.dot(n, p_M - body_point(given, source.a, source.p_aF, o))
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
        kinematic = kinematic_rate(given, source.b, spin, push, p_M, o)
        kinematic -= kinematic_rate(given, source.a, spin, push, p_M, o)

    mobility = F(0.0)
    reach = F(0.0)  # mobility of the equation in all directions together
    for i in range(equations.row_entry[row], equations.row_entry[row + 1]):
        e = equations.entry_dof[i]
        J = F(1.0)
        if source.kind == COUPLER:
            if equations.entry_side[i] > 0:
                J = -slope
        else:
            arm = p_M + (o - given.motion.origin[given.layout.body_root[given.layout.dof_body[e]]])
            sw = to_vec3_64(given.motion.Sw[e])
            sv = to_vec3_64(given.motion.Sv[e]) + wp.cross(sw, arm)
            J = F(equations.entry_side[i]) * (wp.dot(spin, sw) + wp.dot(push, sv))
            every = wp.dot(spin, spin) * wp.dot(sw, sw) + wp.dot(push, push) * wp.dot(sv, sv)
            reach += every / F(given.motion.A[given.layout.rows.entry[e] + e - given.layout.rows.first[e]])
        equations.J[i] = scalar(J)
        mobility += J * J / F(given.motion.A[given.layout.rows.entry[e] + e - given.layout.rows.first[e]])
    equations.violation[row] = scalar(g)
    catch_up = F(wp.static(TURN_SPEED))
    if source.kind == LINEAR:
        catch_up = F(wp.static(CATCH_UP_SPEED))
    equations.vhat[row] = scalar(wp.clamp(-g / (F(2.0) * h), -catch_up, catch_up) - kinematic)  # tau = h
    equations.R[row] = scalar(0.0)
    if source.enabled != 0 and mobility > F(wp.static(IMMOBILE)):
        equations.R[row] = scalar(F(wp.static(NEAR_RIGID)) * wp.max(mobility, F(wp.static(LEAST_SHARE)) * reach))


@kernel
def prepare_equations(
    first_world: int, stage: wp.array[EquationStage], sources: wp.array[EquationSource], dt: wp.float64
):
    """Prepare all equations but those along transmissions: one block per world, a lane for each equation."""
    world = first_world + wp.tid() // lane_count()
    equations = stage[0].equations
    row_end = equations.world_row[world + 1]
    row = int(equations.world_row[world] + lane())
    while row < row_end:
        if sources[row].kind != TRANSMISSION:
            prepare_equation(stage[0].input, sources[row], equations, row, dt)
        row += lane_count()
