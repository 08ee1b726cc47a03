"""Terms of the joints: drive, limits and friction of one dof, and the bounds of a distance joint.

    drive      u0 = kp (target - q0) + kd target_rate + feed-forward,  g = h kp + kd, gains capped at near-rigid
    spring     u0 = k (rest - q0),  g = h k
    limit      takes part where its gap <= 2 h max(|v0|, |v*|);  R = max(near-rigid, 1/(h ke (h + tau))), tau = kd/ke;
               where v* is not known yet, limits beyond 2 h |v0| are watched: the solve adds one that its result crosses
    speed      R near-rigid
    friction   R = sigma/A_kk

Newton's drive modes: NONE has no drive at all; EFFORT is feed-forward only; POSITION damps towards rest;
VELOCITY has no stiffness; POSITION_VELOCITY follows both targets.
"""

import functools
from types import SimpleNamespace

import newton
import warp as wp

from ..kernels.types import FP64, Types
from .contact_data import make_contact_data
from .contact_input import ContactLaw, DofInput
from .contact_rows import make_body_point
from .free_motion import make_free_motion_data
from .kinematics import BALL, DISTANCE, FREE, REVOLUTE, JointParameters, make_kinematics
from .layout import Layout
from .terms.dof import DRIVE, FRICTION, LIMIT, MOTOR, NO_GAP, PARABOLA, SPEED, make_dof_terms
from .terms.drive import NEAR_RIGID, make_drive_term
from .terms.limit import NO_LIMIT

UNLIMITED = 1e9
"""Joint limits at or beyond this are none; Newton writes 1e10 for "no limit"."""
UNLIMITED_SPEED = 1e6
"""Velocity limits at or beyond this are none: it is Newton's default."""
UNLIMITED_EFFORT = 1e9
"""Effort limits at or beyond this are none [N, N m]."""

MODE_POSITION = wp.constant(int(newton.JointTargetMode.POSITION))
MODE_VELOCITY = wp.constant(int(newton.JointTargetMode.VELOCITY))
MODE_POSITION_VELOCITY = wp.constant(int(newton.JointTargetMode.POSITION_VELOCITY))
MODE_NONE = wp.constant(int(newton.JointTargetMode.NONE))


@functools.cache
def make_joint_rows(pose: Types, contact_pose: Types, dynamics: Types, types: Types) -> SimpleNamespace:
    """Device functions ``prepare_dof`` and ``prepare_distance``."""
    FreeMotion = make_free_motion_data(pose, dynamics)
    Contacts = make_contact_data(types)
    dof_terms = make_dof_terms(types)
    Terms, Watch = dof_terms.DofTerms, dof_terms.Watch
    gain_scale = make_drive_term(types).gain_scale
    points = make_body_point(pose, contact_pose, dynamics)
    cast, body_point = points.cast, points.body_point
    K64 = make_kinematics(FP64)
    to_vec3_64, load_quat_64 = K64.to_vec3, K64.load_quat
    scalar, vec3 = types.scalar, types.vec3
    T, V = contact_pose.scalar, contact_pose.vec3

    @wp.func
    def prepare_distance(
        layout: wp.ref[Layout],
        p: wp.ref[JointParameters],
        input: wp.ref[DofInput],
        d: wp.ref[FreeMotion],
        out: wp.ref[Contacts],
        b: int,
        upper: bool,
        row: int,
        h: wp.float64,
    ) -> int:
        """Row of one bound of a distance joint; returns 1 if the bound takes part.

        The distance is between the joint's anchors. Its upper bound pulls the child towards the parent: the child is
        body a then, so that a positive normal velocity always opens the bound.
        """
        joint = layout.body_joint[b]
        dof = p.joint_qd_start[joint]
        bound = scalar(input.limit_lower[dof])
        if upper:
            bound = scalar(input.limit_upper[dof])
        ke = wp.float64(input.limit_ke[dof])
        if bound < scalar(0.0) or ke <= wp.float64(0.0):
            return 0
        parent = layout.body_parent[b]
        child = body_point(d, b, to_vec3_64(wp.transform_get_translation(p.joint_X_c[joint])))
        o = d.origin[layout.body_root[b]]
        anchor = V()
        moving_parent = int(-1)
        if parent >= 0:
            anchor = body_point(d, parent, to_vec3_64(wp.transform_get_translation(p.joint_X_p[joint])))
            if layout.body_chain[parent] >= 0:
                moving_parent = parent
        else:
            anchor = cast(to_vec3_64(wp.transform_get_translation(p.joint_X_p[joint])) - o)
        span = child - anchor
        length = wp.length(span)
        if length <= T(0.0):
            return 0
        n = vec3(scalar(span[0] / length), scalar(span[1] / length), scalar(span[2] / length))
        r_child = vec3(scalar(child[0]), scalar(child[1]), scalar(child[2]))
        r_parent = vec3(scalar(anchor[0]), scalar(anchor[1]), scalar(anchor[2]))
        sign = wp.where(upper, scalar(-1.0), scalar(1.0))
        phi0 = sign * (scalar(length) - bound)
        rate0 = scalar(0.0)
        rate_star = scalar(0.0)
        w = scalar(0.0)
        e = layout.body_chain[b]
        above = int(-1)
        if moving_parent >= 0:
            above = layout.body_chain[parent]
        while e >= 0:
            sw = vec3(scalar(d.Sw[e][0]), scalar(d.Sw[e][1]), scalar(d.Sw[e][2]))
            sv = vec3(scalar(d.Sv[e][0]), scalar(d.Sv[e][1]), scalar(d.Sv[e][2]))
            column = sv + wp.cross(sw, r_child)
            if e == above:
                column -= sv + wp.cross(sw, r_parent)
                above = layout.dof_parent[above]
            j = wp.dot(n, column)
            rate0 += j * scalar(d.v0[e])
            rate_star += j * scalar(d.v_star[e])
            w += j * j * scalar(d.inverse_diagonal[e])
            e = layout.dof_parent[e]
        if phi0 > scalar(2.0) * scalar(h) * wp.max(wp.abs(rate0), wp.abs(rate_star)):
            return 0
        tau = wp.float64(input.limit_kd[dof]) / ke
        out.source[row] = -1
        out.vc[row] = vec3()  # a kinematic root carries both ends: the distance does not change by it
        out.phi0[row] = phi0
        out.vhat[row] = scalar(-wp.float64(phi0) / (h + tau))
        out.mu[row] = scalar(0.0)
        out.weight[row] = w
        out.Rt[row] = w
        out.Rn[row] = wp.max(w * scalar(wp.static(NEAR_RIGID)), scalar(wp.float64(1.0) / (h * ke * (h + tau))))
        out.normal[row] = n
        if upper:
            out.body_a[row] = b
            out.body_b[row] = moving_parent
            out.r_a[row] = r_child
            out.r_b[row] = r_parent
        else:
            out.body_a[row] = moving_parent
            out.body_b[row] = b
            out.r_a[row] = r_parent
            out.r_b[row] = r_child
        return 1

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
    def rest_cost(u0: scalar, g: scalar) -> scalar:
        """The c of an effort u0 - g v without a bound."""
        if g > scalar(0.0):
            return u0 * u0 / g
        return scalar(0.0)

    @wp.func
    def prepare_dof(
        layout: wp.ref[Layout],
        p: wp.ref[JointParameters],
        input: wp.ref[DofInput],
        law: wp.ref[ContactLaw],
        d: wp.ref[FreeMotion],
        t: wp.ref[Terms],
        q: wp.array(dtype=wp.float64),
        e: int,
        h64: wp.float64,
    ):
        """Drive, limits and friction of one dof."""
        coordinate = layout.dof_coord[e]
        kind = REVOLUTE  # or any other joint with scalar coordinates: they are all alike here
        if coordinate < 0:
            kind = p.joint_type[layout.body_joint[layout.dof_body[e]]]
        dof = layout.dof_newton[e]
        terms = int(0)
        # three numbers, not a vector: a vector that branches change goes through memory at each of them
        c = scalar(0.0)
        a = scalar(0.0)
        g = scalar(0.0)
        gap_lower = scalar(wp.static(NO_GAP))  # of bounds that are watched
        gap_upper = scalar(wp.static(NO_GAP))
        gap_ke = scalar(1.0)
        gap_rate = scalar(0.0)
        if kind != FREE and kind != DISTANCE:
            h = scalar(h64)
            mobility = scalar(d.inverse_diagonal[e])
            position = wp.float64(0.0)
            if coordinate >= 0:
                position = q[coordinate]
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
                    u0 = kp * error + kd * rate + feed_forward
                    if input.effort_limit[dof] >= wp.static(UNLIMITED_EFFORT):
                        c += rest_cost(u0, h * kp + kd)
                        a += u0
                        g += h * kp + kd
                        terms = terms | PARABOLA
                    else:
                        terms = terms | DRIVE
                        t.drive_u0[e] = u0
                        t.drive_g[e] = h * kp + kd
                        t.drive_limit[e] = scalar(input.effort_limit[dof])
            if input.has_motors != 0:
                actuator = input.motor_index[dof]
                works = int(0)
                if actuator >= 0:
                    works = wp.where(input.motor_idle[dof] == 0 or input.ctrl[actuator] != 0.0, 1, 0)
                if works != 0:
                    ctrl = wp.clamp(input.ctrl[actuator], input.motor_low[dof], input.motor_high[dof])
                    motor_kp = scalar(input.motor_kp[dof])
                    motor_kd = scalar(input.motor_kd[dof])
                    push = scalar(input.motor_u0[dof]) + scalar(input.motor_gain[dof]) * scalar(ctrl)
                    push -= motor_kp * scalar(position)
                    if motor_kp > scalar(0.0) or motor_kd > scalar(0.0) or push != scalar(0.0):
                        motor_scale = gain_scale(motor_kp, motor_kd, h, mobility)
                        motor_g = (h * motor_kp + motor_kd) * motor_scale
                        if input.motor_limit[dof] >= wp.static(UNLIMITED_EFFORT):
                            c += rest_cost(push * motor_scale, motor_g)
                            a += push * motor_scale
                            g += motor_g
                            terms = terms | PARABOLA
                        else:
                            terms = terms | MOTOR
                            t.motor_u0[e] = push * motor_scale
                            t.motor_g[e] = motor_g
                            t.motor_limit[e] = scalar(input.motor_limit[dof])
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
                ke = scalar(input.limit_ke[dof])
                if ke > scalar(0.0):
                    speed = wp.abs(scalar(d.v0[e]))
                    if d.solved != 0:
                        speed = wp.max(speed, wp.abs(scalar(d.v_star[e])))
                    reach = scalar(2.0) * h * speed
                    lower = scalar(position - wp.float64(input.limit_lower[dof]))
                    upper = scalar(wp.float64(input.limit_upper[dof]) - position)
                    gap_lower = lower
                    gap_upper = upper
                    gap_ke = ke
                    gap_rate = h * ke + scalar(input.limit_kd[dof])
                    if lower <= reach or upper <= reach:
                        at_lower = lower <= reach and wp.abs(input.limit_lower[dof]) < wp.static(UNLIMITED)
                        at_upper = upper <= reach and wp.abs(input.limit_upper[dof]) < wp.static(UNLIMITED)
                        if at_lower or at_upper:
                            terms = terms | LIMIT
                            time = gap_rate / ke  # h + tau
                            none = scalar(wp.static(NO_LIMIT))
                            t.limit_lower[e] = wp.where(at_lower, -lower / time, none)
                            t.limit_upper[e] = wp.where(at_upper, -upper / time, none)
                            near_rigid = scalar(wp.static(NEAR_RIGID)) * mobility
                            t.limit_R[e] = wp.max(near_rigid, scalar(1.0) / (h * gap_rate))
                            gap_lower = wp.where(at_lower, scalar(wp.static(NO_GAP)), lower)
                            gap_upper = wp.where(at_upper, scalar(wp.static(NO_GAP)), upper)
                if law.enforce_speed != 0 and input.velocity_limit[dof] < wp.static(UNLIMITED_SPEED):
                    terms = terms | SPEED
                    t.speed[e] = scalar(input.velocity_limit[dof])
                    t.speed_R[e] = scalar(wp.static(NEAR_RIGID)) * mobility
        t.kind[e] = terms
        t.watch[e] = Watch(gap_lower, gap_upper, gap_ke, gap_rate)

    return SimpleNamespace(prepare_dof=prepare_dof, prepare_distance=prepare_distance)
