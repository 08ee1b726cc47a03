"""Terms of the joints: drive, actuator, spring, limits and friction of one dof, and the bounds of a distance joint.

    drive      u0 = kp (target - q0) + kd target_rate + feed-forward      `terms/drive.py`
    spring     u0 = k (rest - q0),  g = h k
    limits     position and speed                                         `terms/limit.py`
    friction   R = sigma/A_kk                                             `terms/friction.py`

Newton's drive modes: NONE has no drive at all; EFFORT is feed-forward only; POSITION damps towards rest;
VELOCITY has no stiffness; POSITION_VELOCITY follows both targets.
"""

import functools
from types import SimpleNamespace

import newton
import warp as wp

from ..kernels.spatial import make_spatial
from ..kernels.types import FP64, Types
from .contact_data import make_contact_data
from .contact_input import DofInput
from .contact_rows import make_body_points
from .layout import Layout
from .links import BALL, DISTANCE, FREE, REVOLUTE, JointParameters
from .motion_data import make_motion_data
from .terms.contact import ContactLaw
from .terms.dof import (
    DRIVE,
    FAR_LOWER,
    FAR_UPPER,
    FRICTION,
    LOWER,
    MOTOR,
    PARABOLA,
    SPEED,
    UPPER,
    make_dof_terms,
)
from .terms.drive import make_drive_term
from .terms.limit import UNLIMITED, UNLIMITED_SPEED, make_limit_term

MODE_POSITION = wp.constant(int(newton.JointTargetMode.POSITION))
MODE_VELOCITY = wp.constant(int(newton.JointTargetMode.VELOCITY))
MODE_POSITION_VELOCITY = wp.constant(int(newton.JointTargetMode.POSITION_VELOCITY))
MODE_NONE = wp.constant(int(newton.JointTargetMode.NONE))


@functools.cache
def make_efforts(types: Types) -> SimpleNamespace:
    """What drives and actuators do: ``drive_effort`` and ``motor_effort`` of one dof, ``mobility`` is 1/A_kk."""
    gain_scale = make_drive_term(types).gain_scale
    load_quat_64 = make_spatial(FP64).load_quat
    scalar = types.scalar

    @wp.struct
    class Effort:
        """An effort u0 - g v with a bound."""

        acts: int
        u0: scalar
        g: scalar
        limit: wp.float32

    @wp.func
    def position_error(
        layout: wp.ref[Layout],
        p: wp.ref[JointParameters],
        input: wp.ref[DofInput],
        q: wp.array(dtype=wp.float64),
        e: int,
    ) -> wp.float64:
        """Target minus position of one dof; for a ball joint the rotation vector that leads to the target, in F."""
        coordinate = layout.dof_coord[e]
        if coordinate >= 0:
            return wp.float64(input.target_q[coordinate]) - q[coordinate]
        b = layout.dof_body[e]
        iq = p.joint_q_start[layout.body_joint[b]]
        target = wp.quatd(
            wp.float64(input.target_q[iq]),
            wp.float64(input.target_q[iq + 1]),
            wp.float64(input.target_q[iq + 2]),
            wp.float64(input.target_q[iq + 3]),
        )
        if wp.dot(target, target) <= wp.float64(0.0):  # cleared targets
            target = wp.quatd(wp.float64(0.0), wp.float64(0.0), wp.float64(0.0), wp.float64(1.0))
        turn = wp.normalize(target) * wp.quat_inverse(load_quat_64(q, iq))
        if turn[3] < wp.float64(0.0):
            turn = -turn
        axis = wp.vec3d(turn[0], turn[1], turn[2])
        sine = wp.length(axis)
        scale = wp.float64(2.0)
        if sine > wp.float64(1e-12):
            scale = wp.float64(2.0) * wp.atan2(sine, turn[3]) / sine
        return axis[e - layout.body_dof[b]] * scale

    @wp.func
    def drive_effort(
        layout: wp.ref[Layout],
        p: wp.ref[JointParameters],
        input: wp.ref[DofInput],
        q: wp.array(dtype=wp.float64),
        e: int,
        h: scalar,
        mobility: scalar,
    ) -> Effort:
        """Of the joint drive."""
        r = Effort()
        dof = layout.dof_newton[e]
        mode = input.target_mode[dof]
        if mode != MODE_NONE:
            kp = scalar(0.0)
            kd = scalar(0.0)
            error = scalar(0.0)
            rate = scalar(0.0)
            if mode == MODE_POSITION or mode == MODE_POSITION_VELOCITY:
                kp = scalar(input.target_ke[dof])
                kd = scalar(input.target_kd[dof])
                error = scalar(position_error(layout, p, input, q, e))
            if mode == MODE_VELOCITY:
                kd = scalar(input.target_kd[dof])
            if mode == MODE_VELOCITY or mode == MODE_POSITION_VELOCITY:
                rate = scalar(input.target_qd[dof])
            scale = gain_scale(kp, kd, h, mobility)
            kp = kp * scale
            kd = kd * scale
            feed_forward = scalar(input.act[dof])
            if kp > scalar(0.0) or kd > scalar(0.0) or feed_forward != scalar(0.0):
                r.acts = 1
                r.u0 = kp * error + kd * rate + feed_forward
                r.g = h * kp + kd
                r.limit = input.effort_limit[dof]
        return r

    @wp.func
    def motor_effort(input: wp.ref[DofInput], dof: int, position: scalar, h: scalar, mobility: scalar) -> Effort:
        """Of MuJoCo's actuator on the dof."""
        r = Effort()
        actuator = input.motor_index[dof]
        works = int(0)
        if actuator >= 0:
            works = wp.where(input.motor_idle[dof] == 0 or input.ctrl[actuator] != 0.0, 1, 0)
        if works != 0:
            ctrl = wp.clamp(input.ctrl[actuator], input.motor_low[dof], input.motor_high[dof])
            kp = scalar(input.motor_kp[dof])
            kd = scalar(input.motor_kd[dof])
            push = scalar(input.motor_u0[dof]) + scalar(input.motor_gain[dof]) * scalar(ctrl) - kp * position
            if kp > scalar(0.0) or kd > scalar(0.0) or push != scalar(0.0):
                scale = gain_scale(kp, kd, h, mobility)
                r.acts = 1
                r.u0 = push * scale
                r.g = (h * kp + kd) * scale
                r.limit = wp.min(input.motor_limit[dof], input.effort_limit[dof])
        return r

    return SimpleNamespace(Effort=Effort, drive_effort=drive_effort, motor_effort=motor_effort)


@functools.cache
def make_joint_terms(pose: Types, dynamics: Types, types: Types):
    """``prepare_dof(layout, p, input, law, d, t, q, e, h)``: drive, limits and friction of one dof."""
    Motion, Terms = make_motion_data(pose, dynamics), make_dof_terms(types).DofTerms
    efforts, limits, drives = make_efforts(types), make_limit_term(types), make_drive_term(types)
    drive_effort, motor_effort = efforts.drive_effort, efforts.motor_effort
    is_limited, rest_cost = drives.is_limited, drives.rest_cost
    limit_R, limit_vhat, limit_reach, speed_R = limits.limit_R, limits.limit_vhat, limits.limit_reach, limits.speed_R
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def prepare_limits(
        input: wp.ref[DofInput],
        law: wp.ref[ContactLaw],
        d: wp.ref[Motion],
        t: wp.ref[Terms],
        e: int,
        dof: int,
        position: wp.float64,
        h: scalar,
    ) -> int:
        """Limits of position and speed; returns which there are."""
        terms = int(0)
        mobility = scalar(d.inverse_diagonal[e])
        ke = scalar(input.limit_ke[dof])
        lower = input.limit_lower[dof]
        upper = input.limit_upper[dof]
        bounded = wp.abs(lower) < wp.static(UNLIMITED) or wp.abs(upper) < wp.static(UNLIMITED)
        if ke > scalar(0.0) and bounded:
            kd = scalar(input.limit_kd[dof])
            vhat_lower = limit_vhat(scalar(position - wp.float64(lower)), lower, ke, kd, h)
            vhat_upper = limit_vhat(scalar(wp.float64(upper) - position), upper, ke, kd, h)
            reach = limit_reach(ke, kd, h)
            t.limit_lower[e] = vhat_lower
            t.limit_upper[e] = vhat_upper
            t.limit_R[e] = limit_R(ke, kd, h, mobility)
            t.limit_reach[e] = reach
            speed = wp.abs(scalar(d.v0[e]))
            far = int(FAR_LOWER | FAR_UPPER)
            if d.solved != 0:
                speed = wp.max(speed, wp.abs(scalar(d.v_star[e])))
                far = 0
            terms = wp.where(-vhat_lower <= reach * speed, LOWER, far & FAR_LOWER)
            terms = terms | wp.where(-vhat_upper <= reach * speed, UPPER, far & FAR_UPPER)
        if law.enforce_speed != 0 and input.velocity_limit[dof] < wp.static(UNLIMITED_SPEED):
            terms = terms | SPEED
            t.speed[e] = scalar(input.velocity_limit[dof])
            t.speed_R[e] = speed_R(mobility)
        return terms

    @wp.func
    def prepare_dof(
        layout: wp.ref[Layout],
        p: wp.ref[JointParameters],
        input: wp.ref[DofInput],
        law: wp.ref[ContactLaw],
        d: wp.ref[Motion],
        t: wp.ref[Terms],
        q: wp.array(dtype=wp.float64),
        e: int,
        h64: wp.float64,
    ):
        coordinate = layout.dof_coord[e]
        kind = REVOLUTE  # or any other joint with scalar coordinates: they are all alike here
        if coordinate < 0:
            kind = p.joint_type[layout.body_joint[layout.dof_body[e]]]
        if kind == FREE or kind == DISTANCE:
            t.kind[e] = 0
            return
        dof = layout.dof_newton[e]
        h = scalar(h64)
        mobility = scalar(d.inverse_diagonal[e])
        position = wp.float64(0.0)
        if coordinate >= 0:
            position = q[coordinate]
        terms = int(0)
        # three numbers, not a vector: a vector that branches change goes through memory at each of them
        c = scalar(0.0)
        a = scalar(0.0)
        g = scalar(0.0)
        drive = drive_effort(layout, p, input, q, e, h, mobility)
        if drive.acts != 0:
            if is_limited(drive.limit):
                terms = terms | DRIVE
                t.drive_u0[e] = drive.u0
                t.drive_g[e] = drive.g
                t.drive_limit[e] = scalar(drive.limit)
            else:
                terms = terms | PARABOLA
                c += rest_cost(drive.u0, drive.g)
                a += drive.u0
                g += drive.g
        if input.has_motors != 0:
            motor = motor_effort(input, dof, scalar(position), h, mobility)
            if motor.acts != 0:
                if is_limited(motor.limit):
                    terms = terms | MOTOR
                    t.motor_u0[e] = motor.u0
                    t.motor_g[e] = motor.g
                    t.motor_limit[e] = scalar(motor.limit)
                else:
                    terms = terms | PARABOLA
                    c += rest_cost(motor.u0, motor.g)
                    a += motor.u0
                    g += motor.g
        if input.has_springs != 0 and coordinate >= 0:
            stiffness = scalar(input.spring_stiffness[dof])
            if stiffness > scalar(0.0):
                rest = wp.float64(input.spring_reference[dof]) - wp.float64(input.coordinate_reference[dof])
                terms = terms | PARABOLA
                away = scalar(rest - position)
                c += stiffness * away * away / h
                a += stiffness * away
                g += h * stiffness
        if (terms & PARABOLA) != 0:
            t.parabola[e] = vec3(c, a, g)
        if input.friction[dof] > 0.0:
            terms = terms | FRICTION
            t.friction[e] = h * scalar(input.friction[dof])
            t.friction_R[e] = scalar(law.sigma) * mobility
        if kind != BALL:
            terms = terms | prepare_limits(input, law, d, t, e, dof, position, h)
        t.kind[e] = terms

    return prepare_dof


@functools.cache
def make_distance_rows(pose: Types, contact_pose: Types, dynamics: Types, types: Types):
    """``prepare_distance(layout, p, input, d, out, b, upper, row, h) -> int``: row of one bound of a distance joint.

    Returns 1 if the bound takes part, see `terms/limit.py`. The distance is between the joint's anchors. Its upper
    bound pulls the child towards the parent: the child is body a then, so that a positive normal velocity always opens
    the bound.
    """
    Motion, Contacts = make_motion_data(pose, dynamics), make_contact_data(types)
    body_point = make_body_points(pose, contact_pose, dynamics).body_point
    limit_R = make_limit_term(types).limit_R
    to_vec3d, to_pose, to_solve = (make_spatial(t).to_vec3 for t in (FP64, contact_pose, types))
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def prepare_distance(
        layout: wp.ref[Layout],
        p: wp.ref[JointParameters],
        input: wp.ref[DofInput],
        d: wp.ref[Motion],
        out: wp.ref[Contacts],
        b: int,
        upper: bool,
        row: int,
        h: wp.float64,
    ) -> int:
        joint = layout.body_joint[b]
        dof = p.joint_qd_start[joint]
        bound = wp.where(upper, scalar(input.limit_upper[dof]), scalar(input.limit_lower[dof]))
        ke = scalar(input.limit_ke[dof])
        if bound < scalar(0.0) or ke <= scalar(0.0):
            return 0
        parent = layout.body_parent[b]
        child = body_point(d, b, to_vec3d(wp.transform_get_translation(p.joint_X_c[joint])))
        anchor_local = to_vec3d(wp.transform_get_translation(p.joint_X_p[joint]))
        anchor = to_pose(anchor_local - d.origin[layout.body_root[b]])
        moving_parent = int(-1)
        above = int(-1)
        if parent >= 0:
            anchor = body_point(d, parent, anchor_local)
            if layout.body_chain[parent] >= 0:
                moving_parent = parent
                above = layout.body_chain[parent]
        r_child = to_solve(child)
        r_parent = to_solve(anchor)
        length = wp.length(child - anchor)
        if length <= contact_pose.scalar(0.0):
            return 0
        n = to_solve((child - anchor) / length)
        w = scalar(0.0)
        rate0 = scalar(0.0)
        rate_star = scalar(0.0)
        e = layout.body_chain[b]
        while e >= 0:
            sw = to_solve(d.Sw[e])
            column = to_solve(d.Sv[e]) + wp.cross(sw, r_child)
            if e == above:
                column -= to_solve(d.Sv[e]) + wp.cross(sw, r_parent)
                above = layout.dof_parent[above]
            j = wp.dot(n, column)
            rate0 += j * scalar(d.v0[e])
            rate_star += j * scalar(d.v_star[e])
            w += j * j * scalar(d.inverse_diagonal[e])
            e = layout.dof_parent[e]
        kd = scalar(input.limit_kd[dof])
        phi0 = wp.where(upper, scalar(-1.0), scalar(1.0)) * (scalar(length) - bound)
        if phi0 > scalar(2.0) * scalar(h) * wp.max(wp.abs(rate0), wp.abs(rate_star)):
            return 0
        out.source[row] = -1
        out.drift[row] = vec3()  # a kinematic root carries both ends: the distance does not change by it
        out.phi0[row] = phi0
        out.vhat[row] = -phi0 * ke / (scalar(h) * ke + kd)
        out.mu[row] = scalar(0.0)
        out.weight[row] = w
        out.Rt[row] = w
        out.Rn[row] = limit_R(ke, kd, scalar(h), w)
        out.normal[row] = n
        out.body_a[row] = wp.where(upper, b, moving_parent)
        out.body_b[row] = wp.where(upper, moving_parent, b)
        out.r_a[row] = wp.where(upper, r_child, r_parent)
        out.r_b[row] = wp.where(upper, r_parent, r_child)
        return 1

    return prepare_distance
