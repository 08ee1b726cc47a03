"""Terms of the joints: drive, actuator, spring, limits and friction of one dof, and the bounds of a distance joint.

    drive      u0 = kp (target - q0) + kd target_rate + feed-forward      `terms/drive.py`
    spring     u0 = k (rest - q0),  g = h k;  of a ball -k times its rotation vector
    limits     position and speed                                         `terms/limit.py`
    friction   R = sigma/A_kk                                             `terms/friction.py`

Newton's drive modes: NONE has no drive at all; EFFORT is feed-forward only; POSITION damps towards rest;
VELOCITY has no stiffness; POSITION_VELOCITY follows both targets.
"""

import functools
from types import SimpleNamespace

import newton
import warp as wp

from ...core.kernels.spatial import make_spatial
from ...core.kernels.types import FP64, Types
from ..contact.input import DofInput
from ..contact.rows import make_body_points
from ..contact.stage_data import ContactPrecisions, make_contact_stage
from ..model.links import BALL, DISTANCE, FREE, REVOLUTE
from ..terms.dof import DRIVE, FAR_LOWER, FAR_UPPER, FRICTION, LOWER, MOTOR, PARABOLA, SPEED, UPPER, make_dof_terms
from ..terms.drive import make_drive_term
from ..terms.limit import UNLIMITED, UNLIMITED_SPEED, make_limit_term

MODE_POSITION = wp.constant(int(newton.JointTargetMode.POSITION))
MODE_VELOCITY = wp.constant(int(newton.JointTargetMode.VELOCITY))
MODE_POSITION_VELOCITY = wp.constant(int(newton.JointTargetMode.POSITION_VELOCITY))
MODE_NONE = wp.constant(int(newton.JointTargetMode.NONE))


@wp.func
def rotation_to(target: wp.quatd, at: wp.quatd) -> wp.vec3d:
    """Rotation vector that leads from a rotation to another on the shorter way, in the axes that both map to [rad]."""
    turn = target * wp.quat_inverse(at)
    if turn[3] < wp.float64(0.0):
        turn = -turn
    axis = wp.vec3d(turn[0], turn[1], turn[2])
    sine = wp.length(axis)
    scale = wp.float64(2.0)
    if sine > wp.float64(1e-12):
        scale = wp.float64(2.0) * wp.atan2(sine, turn[3]) / sine
    return axis * scale


@functools.cache
def make_efforts(types: Types) -> SimpleNamespace:
    """What drives and actuators do: struct ``Effort``, and ``motor_effort`` of one dof; ``mobility`` is 1/A_kk."""
    gain_scale = make_drive_term(types).gain_scale
    scalar = types.scalar

    @wp.struct
    class Effort:
        """An effort u0 - g v with a bound."""

        acts: int
        u0: scalar
        g: scalar
        limit: wp.float32

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

    return SimpleNamespace(Effort=Effort, motor_effort=motor_effort)


@functools.cache
def make_drive_effort(precisions: ContactPrecisions):
    """``drive_effort(s, input, e, h, mobility)``: what the joint drive does to dof e."""
    types = precisions.types
    Stage, Effort = make_contact_stage(precisions), make_efforts(types).Effort
    gain_scale, load_quat_64 = make_drive_term(types).gain_scale, make_spatial(FP64).load_quat
    scalar = types.scalar

    @wp.func
    def position_error(s: wp.ref[Stage], input: wp.ref[DofInput], e: int) -> wp.float64:
        """Target minus position of one dof; for a ball joint the rotation vector that leads to the target, in F."""
        coordinate = s.layout.dof_coord[e]
        if coordinate >= 0:
            return wp.float64(input.target_q[coordinate]) - s.q[coordinate]
        b = s.layout.dof_body[e]
        iq = s.joints.joint_q_start[s.layout.body_joint[b]]
        target = wp.quatd(
            wp.float64(input.target_q[iq]),
            wp.float64(input.target_q[iq + 1]),
            wp.float64(input.target_q[iq + 2]),
            wp.float64(input.target_q[iq + 3]),
        )
        if wp.dot(target, target) <= wp.float64(0.0):  # cleared targets
            target = wp.quatd(wp.float64(0.0), wp.float64(0.0), wp.float64(0.0), wp.float64(1.0))
        return rotation_to(wp.normalize(target), load_quat_64(s.q, iq))[e - s.layout.body_dof[b]]

    @wp.func
    def drive_effort(s: wp.ref[Stage], input: wp.ref[DofInput], e: int, h: scalar, mobility: scalar) -> Effort:
        r = Effort()
        dof = s.layout.dof_newton[e]
        mode = input.target_mode[dof]
        if mode != MODE_NONE:
            kp = scalar(0.0)
            kd = scalar(0.0)
            error = scalar(0.0)
            rate = scalar(0.0)
            if mode == MODE_POSITION or mode == MODE_POSITION_VELOCITY:
                kp = scalar(input.target_ke[dof])
                kd = scalar(input.target_kd[dof])
                error = scalar(position_error(s, input, e))
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

    return drive_effort


@functools.cache
def make_joint_terms(precisions: ContactPrecisions):
    """``prepare_dof(s, input, e, h)``: drive, limits and friction of one dof."""
    types = precisions.types
    Stage, Efforts = make_contact_stage(precisions), make_dof_terms(types).Efforts
    efforts, limits, drives = make_efforts(types), make_limit_term(types), make_drive_term(types)
    Effort, motor_effort = efforts.Effort, efforts.motor_effort
    drive_effort = make_drive_effort(precisions)
    is_limited, rest_cost = drives.is_limited, drives.rest_cost
    limit_R, limit_vhat, limit_reach, speed_R = limits.limit_R, limits.limit_vhat, limits.limit_reach, limits.speed_R
    load_quat_64 = make_spatial(FP64).load_quat
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def spring_error(s: wp.ref[Stage], input: wp.ref[DofInput], e: int, dof: int, position: wp.float64) -> wp.float64:
        """Rest minus position of a spring; that of a ball joint rests where the joint's rotation is none."""
        if s.layout.dof_coord[e] >= 0:
            return wp.float64(input.spring_reference[dof]) - wp.float64(input.coordinate_reference[dof]) - position
        b = s.layout.dof_body[e]
        q = load_quat_64(s.q, s.joints.joint_q_start[s.layout.body_joint[b]])
        return rotation_to(wp.quat_identity(wp.float64), q)[e - s.layout.body_dof[b]]

    @wp.func
    def add_effort(t: wp.ref[Efforts], e: int, effort: Effort, bit: int) -> int:
        """An effort with a limit is a term of its own, with ``bit``; one without belongs to the parabola."""
        if effort.acts == 0:
            return 0
        if not is_limited(effort.limit):
            return PARABOLA
        t.u0[e] = effort.u0
        t.g[e] = effort.g
        t.limit[e] = scalar(effort.limit)
        return bit

    @wp.func
    def prepare_limits(
        s: wp.ref[Stage], input: wp.ref[DofInput], e: int, dof: int, position: wp.float64, h: scalar
    ) -> int:
        """Limits of position and speed; returns which there are."""
        terms = int(0)
        mobility = scalar(s.motion.inverse_diagonal[e])
        ke = scalar(input.limit_ke[dof])
        lower = input.limit_lower[dof]
        upper = input.limit_upper[dof]
        bounded = wp.abs(lower) < wp.static(UNLIMITED) or wp.abs(upper) < wp.static(UNLIMITED)
        if ke > scalar(0.0) and bounded:
            kd = scalar(input.limit_kd[dof])
            vhat_lower = limit_vhat(scalar(position - wp.float64(lower)), lower, ke, kd, h)
            vhat_upper = limit_vhat(scalar(wp.float64(upper) - position), upper, ke, kd, h)
            reach = limit_reach(ke, kd, h)
            s.terms.limit_lower[e] = vhat_lower
            s.terms.limit_upper[e] = vhat_upper
            s.terms.limit_R[e] = limit_R(ke, kd, h, mobility)
            s.terms.limit_reach[e] = reach
            speed = wp.abs(scalar(s.motion.v0[e]))
            far = int(FAR_LOWER | FAR_UPPER)
            if s.motion.solved != 0:
                speed = wp.max(speed, wp.abs(scalar(s.motion.v_star[e])))
                far = 0
            terms = wp.where(-vhat_lower <= reach * speed, LOWER, far & FAR_LOWER)
            terms = terms | wp.where(-vhat_upper <= reach * speed, UPPER, far & FAR_UPPER)
        if s.law.enforce_speed != 0 and input.velocity_limit[dof] < wp.static(UNLIMITED_SPEED):
            terms = terms | SPEED
            s.terms.speed[e] = scalar(input.velocity_limit[dof])
            s.terms.speed_R[e] = speed_R(mobility)
        return terms

    @wp.func
    def prepare_dof(s: wp.ref[Stage], input: wp.ref[DofInput], e: int, h64: wp.float64):
        coordinate = s.layout.dof_coord[e]
        kind = REVOLUTE  # or any other joint with scalar coordinates: they are all alike here
        if coordinate < 0:
            kind = s.joints.joint_type[s.layout.body_joint[s.layout.dof_body[e]]]
        if kind == FREE or kind == DISTANCE:
            s.terms.term_mask[e] = 0
            return
        dof = s.layout.dof_newton[e]
        h = scalar(h64)
        mobility = scalar(s.motion.inverse_diagonal[e])
        position = wp.float64(0.0)
        if coordinate >= 0:
            position = s.q[coordinate]
        # three numbers, not a vector: a vector that branches change goes through memory at each of them
        c = scalar(0.0)
        a = scalar(0.0)
        g = scalar(0.0)
        drive = drive_effort(s, input, e, h, mobility)
        terms = add_effort(s.terms.drive, e, drive, DRIVE)
        if terms == PARABOLA:
            c += rest_cost(drive.u0, drive.g)
            a += drive.u0
            g += drive.g
        if input.has_motors != 0:
            motor = motor_effort(input, dof, scalar(position), h, mobility)
            term = add_effort(s.terms.motor, e, motor, MOTOR)
            terms = terms | term
            if term == PARABOLA:
                c += rest_cost(motor.u0, motor.g)
                a += motor.u0
                g += motor.g
        if input.has_springs != 0:
            stiffness = scalar(input.spring_stiffness[dof])
            if stiffness > scalar(0.0):
                terms = terms | PARABOLA
                away = scalar(spring_error(s, input, e, dof, position))
                c += stiffness * away * away / h
                a += stiffness * away
                g += h * stiffness
        if (terms & PARABOLA) != 0:
            s.terms.parabola[e] = vec3(c, a, g)
        if input.friction[dof] > 0.0:
            terms = terms | FRICTION
            s.terms.friction[e] = h * scalar(input.friction[dof])
            s.terms.friction_R[e] = scalar(s.law.sigma) * mobility
        if kind != BALL:
            terms = terms | prepare_limits(s, input, e, dof, position, h)
        s.terms.term_mask[e] = terms

    return prepare_dof


@functools.cache
def make_distance_rows(precisions: ContactPrecisions):
    """``find_bound(s, input, b, upper, h) -> Bound`` of a distance joint, and ``store_bound(s, bound, row)``.

    A bound that takes part, see `terms/limit.py`, becomes a row. The distance is between the joint's anchors. Its upper
    bound pulls the child towards the parent: the child is body a then, so that a positive normal velocity always opens
    the bound.
    """
    pose, contact_pose, dynamics, _, types = precisions
    Stage = make_contact_stage(precisions)
    body_point = make_body_points(pose, contact_pose, dynamics).body_point
    limit_R = make_limit_term(types).limit_R
    to_vec3d, to_pose, to_solve = (make_spatial(t).to_vec3 for t in (FP64, contact_pose, types))
    scalar, vec3 = types.scalar, types.vec3

    @wp.struct
    class Bound:
        takes_part: int
        a: int  # -1 if it cannot move
        b: int
        phi0: scalar
        vhat: scalar
        weight: scalar
        Rn: scalar
        normal: vec3
        r_a: vec3
        r_b: vec3

    @wp.func
    def find_bound(s: wp.ref[Stage], input: wp.ref[DofInput], b: int, upper: bool, h: wp.float64) -> Bound:
        found = Bound()
        joint = s.layout.body_joint[b]
        dof = s.joints.joint_qd_start[joint]
        bound = wp.where(upper, scalar(input.limit_upper[dof]), scalar(input.limit_lower[dof]))
        ke = scalar(input.limit_ke[dof])
        if bound < scalar(0.0) or ke <= scalar(0.0):
            return found
        parent = s.layout.body_parent[b]
        child = body_point(s.motion, b, to_vec3d(wp.transform_get_translation(s.joints.joint_X_c[joint])))
        anchor_local = to_vec3d(wp.transform_get_translation(s.joints.joint_X_p[joint]))
        anchor = to_pose(anchor_local - s.motion.origin[s.layout.body_root[b]])
        moving_parent = int(-1)
        above = int(-1)
        if parent >= 0:
            anchor = body_point(s.motion, parent, anchor_local)
            if s.layout.body_chain[parent] >= 0:
                moving_parent = parent
                above = s.layout.body_chain[parent]
        r_child = to_solve(child)
        r_parent = to_solve(anchor)
        length = wp.length(child - anchor)
        if length <= contact_pose.scalar(0.0):
            return found
        n = to_solve((child - anchor) / length)
        w = scalar(0.0)
        rate0 = scalar(0.0)
        rate_star = scalar(0.0)
        e = s.layout.body_chain[b]
        while e >= 0:
            sw = to_solve(s.motion.Sw[e])
            column = to_solve(s.motion.Sv[e]) + wp.cross(sw, r_child)
            if e == above:
                column -= to_solve(s.motion.Sv[e]) + wp.cross(sw, r_parent)
                above = s.layout.dof_parent[above]
            j = wp.dot(n, column)
            rate0 += j * scalar(s.motion.v0[e])
            rate_star += j * scalar(s.motion.v_star[e])
            w += j * j * scalar(s.motion.inverse_diagonal[e])
            e = s.layout.dof_parent[e]
        kd = scalar(input.limit_kd[dof])
        phi0 = wp.where(upper, scalar(-1.0), scalar(1.0)) * (scalar(length) - bound)
        if phi0 > scalar(2.0) * scalar(h) * wp.max(wp.abs(rate0), wp.abs(rate_star)):
            return found
        found.takes_part = 1
        found.phi0 = phi0
        found.vhat = -phi0 * ke / (scalar(h) * ke + kd)
        found.weight = w
        found.Rn = limit_R(ke, kd, scalar(h), w)
        found.normal = n
        found.a = wp.where(upper, b, moving_parent)
        found.b = wp.where(upper, moving_parent, b)
        found.r_a = wp.where(upper, r_child, r_parent)
        found.r_b = wp.where(upper, r_parent, r_child)
        return found

    @wp.func
    def store_bound(s: wp.ref[Stage], bound: wp.ref[Bound], row: int):
        s.rows.source[row] = -1
        s.rows.drift[row] = vec3()  # a kinematic root carries both ends: the distance does not change by it
        s.rows.phi0[row] = bound.phi0
        s.rows.vhat[row] = bound.vhat
        s.rows.mu[row] = scalar(0.0)
        s.rows.weight[row] = bound.weight
        s.rows.Rt[row] = bound.weight
        s.rows.Rn[row] = bound.Rn
        s.rows.normal[row] = bound.normal
        s.rows.body_a[row] = bound.a
        s.rows.body_b[row] = bound.b
        s.rows.r_a[row] = bound.r_a
        s.rows.r_b[row] = bound.r_b

    return SimpleNamespace(Bound=Bound, find_bound=find_bound, store_bound=store_bound)
