"""Stage 3: contact data. Rows of the contact problem with their weights, and the terms of every dof.

No Jacobian is stored: a row keeps its normal and the points where its two bodies' velocities are taken,

    vc = [u_b + w_b x r_b] - [u_a + w_a x r_a],

and J^T gamma or J^T G J are sums over bodies (`contact_solve`). `SapContactJacobian.dense` writes J out for inspection.
"""

import functools
import math
from typing import Any

import newton
import numpy as np
import warp as wp

from ..precision import FP32, FP64, TYPES, Types
from .block import barrier, lane
from .contact_data import NO_BODY, make_contact_data
from .free_motion import make_free_motion_data
from .kinematics import BALL, DISTANCE, FREE, JointParameters, Links, make_kinematics, make_link
from .layout import Layout, LayoutSizes
from .options import CONTACT_POINT_MODES, CONTACT_WEIGHT_MODES
from .terms.dof import DRIVE, FRICTION, LIMIT, SPEED, make_dof_terms
from .terms.drive import NEAR_RIGID, make_drive_term
from .terms.limit import NO_LIMIT

BODY_INERTIA = wp.constant(CONTACT_WEIGHT_MODES.index("body_inertia"))
DIAG_DELASSUS = wp.constant(CONTACT_WEIGHT_MODES.index("diag_delassus"))
MIDPOINT = wp.constant(CONTACT_POINT_MODES.index("contact_midpoint"))
WEIGHT_FLOOR = 1e-12
"""Smallest contact weight [1/kg]."""
UNLIMITED = 1e9
"""Joint limits at or beyond this are none; Newton writes 1e10 for "no limit"."""
UNLIMITED_SPEED = 1e6
"""Velocity limits at or beyond this are none: it is Newton's default."""

MODE_POSITION = wp.constant(int(newton.JointTargetMode.POSITION))
MODE_VELOCITY = wp.constant(int(newton.JointTargetMode.VELOCITY))
MODE_POSITION_VELOCITY = wp.constant(int(newton.JointTargetMode.POSITION_VELOCITY))
MODE_NONE = wp.constant(int(newton.JointTargetMode.NONE))


@wp.struct
class ContactInput:
    """Newton's contact buffer and shape materials, by reference."""

    count: wp.array(dtype=wp.int32)
    shape0: wp.array(dtype=wp.int32)
    shape1: wp.array(dtype=wp.int32)
    point0: wp.array(dtype=wp.vec3f)
    point1: wp.array(dtype=wp.vec3f)
    offset0: wp.array(dtype=wp.vec3f)
    offset1: wp.array(dtype=wp.vec3f)
    normal: wp.array(dtype=wp.vec3f)
    margin0: wp.array(dtype=wp.float32)
    margin1: wp.array(dtype=wp.float32)
    stiffness: wp.array(dtype=wp.float32)  # per-contact overrides, empty if the buffer has none
    damping: wp.array(dtype=wp.float32)
    friction: wp.array(dtype=wp.float32)
    has_overrides: int
    shape_body: wp.array(dtype=wp.int32)
    shape_ke: wp.array(dtype=wp.float32)
    shape_mu: wp.array(dtype=wp.float32)
    shape_tau: wp.array(dtype=wp.float32)


@wp.struct
class DofInput:
    """Newton's joint term parameters and the control's targets, by reference."""

    target_ke: wp.array(dtype=wp.float32)
    target_kd: wp.array(dtype=wp.float32)
    target_mode: wp.array(dtype=wp.int32)
    target_q: wp.array(dtype=wp.float32)
    target_qd: wp.array(dtype=wp.float32)
    act: wp.array(dtype=wp.float32)
    effort_limit: wp.array(dtype=wp.float32)
    velocity_limit: wp.array(dtype=wp.float32)
    friction: wp.array(dtype=wp.float32)
    limit_lower: wp.array(dtype=wp.float32)
    limit_upper: wp.array(dtype=wp.float32)
    limit_ke: wp.array(dtype=wp.float32)
    limit_kd: wp.array(dtype=wp.float32)


@wp.struct
class ContactLaw:
    """The contact options of the solver."""

    weight_mode: int
    point_mode: int
    beta: wp.float64
    sigma: wp.float64
    tau_d: wp.float64
    fallback_mu: wp.float64
    fallback_stiffness: wp.float64
    enforce_speed: int


@wp.kernel(enable_backward=False)
def bin_contacts(
    layout: Layout,
    c: ContactInput,
    contact_max: int,
    threads: int,
    found_out: wp.array(dtype=wp.int32),
    slot_out: wp.array(dtype=wp.int32),
):
    """Give every contact that can move something a slot in its world. The number of threads is not the capacity."""
    capacity = slot_out.shape[0] // found_out.shape[0]
    for i in range(wp.tid(), wp.min(c.count[0], contact_max), threads):
        world = int(-1)
        for side in range(2):
            shape = wp.where(side == 0, c.shape0[i], c.shape1[i])
            if shape >= 0:
                body = c.shape_body[shape]
                if body >= 0:
                    b = layout.newton_body[body]
                    if layout.body_chain[b] >= 0:
                        world = layout.body_world[b]
        if world >= 0:
            slot = wp.atomic_add(found_out, world, 1)
            if slot < capacity:
                slot_out[world * capacity + slot] = i


@functools.cache
def make_contact_kernel(pose: Types, contact_pose: Types, dynamics: Types, weight: Types, types: Types):
    """The kernel of the stage: one block per world.

    ``pose`` and ``dynamics`` are the precisions of free motion's data, ``contact_pose`` the one poses are rounded to,
    ``weight`` the one w is computed in, ``types`` the one of the contact solve.
    """
    FreeMotion = make_free_motion_data(pose, dynamics)
    Contacts = make_contact_data(types)
    Link = make_link(weight)
    dof_terms = make_dof_terms(types)
    Terms = dof_terms.DofTerms
    gain_scale = make_drive_term(types).gain_scale
    K64 = make_kinematics(FP64)
    to_vec3_64, load_quat_64 = K64.to_vec3, K64.load_quat
    scalar, vec3 = types.scalar, types.vec3
    T, V, Q = contact_pose.scalar, contact_pose.vec3, contact_pose.quat
    wscalar, wvec3, wmat33 = weight.scalar, weight.vec3, weight.mat33

    @wp.func
    def cast(v: wp.vec3d) -> V:
        return V(T(v[0]), T(v[1]), T(v[2]))

    @wp.func
    def body_point(d: wp.ref[FreeMotion], b: int, point: wp.vec3d) -> V:
        """Position of a body-fixed point relative to its tree's reference point."""
        p = d.p[b]
        r = d.r[b]
        rotation = wp.normalize(Q(T(r[0]), T(r[1]), T(r[2]), T(r[3])))
        return V(T(p[0]), T(p[1]), T(p[2])) + wp.quat_rotate(rotation, cast(point))

    @wp.func
    def moving_body(layout: wp.ref[Layout], c: wp.ref[ContactInput], shape: int) -> int:
        if shape < 0:
            return NO_BODY
        body = c.shape_body[shape]
        if body < 0:
            return NO_BODY
        b = layout.newton_body[body]
        return wp.where(layout.body_chain[b] >= 0, b, NO_BODY)

    @wp.func
    def shape_point(layout: wp.ref[Layout], d: wp.ref[FreeMotion], c: wp.ref[ContactInput], shape: int, point: wp.vec3d, o: wp.vec3d) -> V:
        """Position of a contact point relative to o, the reference point of the shape's tree or of its partner's."""
        body = int(-1)
        if shape >= 0:
            body = c.shape_body[shape]
        if body >= 0:
            b = layout.newton_body[body]
            return body_point(d, b, point) + cast(d.origin[layout.body_root[b]] - o)
        return cast(point - o)

    @wp.func
    def body_mobility(link: wp.ref[Link], d: wp.ref[FreeMotion], b: int, r: wvec3) -> wscalar:
        """Mean over three orthogonal directions of 1/m + (x x c)^T I^-1 (x x c), x the lever arm of the point."""
        q = d.r[b]
        p_B = d.p[b]
        arm = (
            wp.quat_rotate_inv(
                weight.quat(wscalar(q[0]), wscalar(q[1]), wscalar(q[2]), wscalar(q[3])),
                r - wvec3(wscalar(p_B[0]), wscalar(p_B[1]), wscalar(p_B[2])),
            )
            - link.com
        )
        # sum over c of (x x c)(x x c)^T is |x|^2 1 - x x^T
        spin = wp.dot(arm, arm) * wp.trace(link.inv_inertia) - wp.dot(arm, link.inv_inertia * arm)
        return wscalar(1.0) / link.mass + spin / wscalar(3.0)

    @wp.func
    def jacobian_column(
        layout: wp.ref[Layout], d: wp.ref[FreeMotion], e: int, on_a: bool, on_b: bool, r_a: wvec3, r_b: wvec3
    ) -> wvec3:
        """dvc / dv_e in world axes."""
        sw = wvec3(wscalar(d.Sw[e][0]), wscalar(d.Sw[e][1]), wscalar(d.Sw[e][2]))
        sv = wvec3(wscalar(d.Sv[e][0]), wscalar(d.Sv[e][1]), wscalar(d.Sv[e][2]))
        column = wvec3()
        if on_b:
            column += sv + wp.cross(sw, r_b)
        if on_a:
            column -= sv + wp.cross(sw, r_a)
        return column

    @wp.func
    def delassus_weight(
        layout: wp.ref[Layout], d: wp.ref[FreeMotion], a: int, b: int, r_a: wvec3, r_b: wvec3, exact: bool, y: wp.array(dtype=wvec3)
    ) -> wscalar:
        """|W|_F / 3 with W = J diag(A)^-1 J^T, or W = J A^-1 J^T if exact.

        The exact W is Y^T Y with Y = L^-1 J^T: forward substitution along the two chains, which reach the root in
        growing order; ``y`` holds Y's rows.
        """
        W = wmat33()
        start_a = int(-1)
        start_b = int(-1)
        if a >= 0:
            start_a = layout.body_chain[a]
        if b >= 0:
            start_b = layout.body_chain[b]
        i = start_a
        j = start_b
        while i >= 0 or j >= 0:
            e = wp.where(j < 0 or (i >= 0 and i < j), i, j)
            on_a = i == e
            on_b = j == e
            column = jacobian_column(layout, d, e, on_a, on_b, r_a, r_b)
            address = layout.dof_entry[e] - layout.dof_first[e]
            if exact:
                k = start_a
                while k >= 0 and k < e:
                    if k >= layout.dof_first[e]:
                        column -= y[k] * wscalar(d.A_factor[address + k])
                    k = layout.dof_parent[k]
                k = start_b
                while k >= 0 and k < e:
                    # what the two chains share was counted above
                    if k >= layout.dof_first[e] and not (start_a >= 0 and k >= start_a and is_above(layout, start_a, k)):
                        column -= y[k] * wscalar(d.A_factor[address + k])
                    k = layout.dof_parent[k]
                column = column * wscalar(d.A_factor[address + e])
                y[e] = column
                W += wp.outer(column, column)
            else:
                W += wp.outer(column, column) / wscalar(d.A[address + e])
            if on_a:
                i = layout.dof_parent[i]
            if on_b:
                j = layout.dof_parent[j]
        return wp.sqrt(wp.ddot(W, W)) / wscalar(3.0)

    @wp.func
    def is_above(layout: wp.ref[Layout], start: int, dof: int) -> bool:
        """Whether ``dof`` is on the chain from ``start`` to the root."""
        return layout.dof_first[dof] <= start and start <= dof

    @wp.func
    def shape_stiffness(c: wp.ref[ContactInput], law: wp.ref[ContactLaw], shape: int) -> wp.float64:
        k = wp.float64(0.0)
        if shape >= 0:
            k = wp.float64(c.shape_ke[shape])
        return wp.where(k > wp.float64(0.0), k, law.fallback_stiffness)

    @wp.func
    def shape_friction(c: wp.ref[ContactInput], law: wp.ref[ContactLaw], shape: int) -> wp.float64:
        mu = wp.float64(-1.0)
        if shape >= 0:
            mu = wp.float64(c.shape_mu[shape])
        return wp.where(mu >= wp.float64(0.0), mu, law.fallback_mu)

    @wp.func
    def shape_dissipation(c: wp.ref[ContactInput], law: wp.ref[ContactLaw], shape: int) -> wp.float64:
        tau = wp.float64(-1.0)
        if shape >= 0:
            tau = wp.float64(c.shape_tau[shape])
        return wp.where(tau >= wp.float64(0.0), tau, law.tau_d)

    @wp.func
    def prepare_contact(
        layout: wp.ref[Layout],
        links: wp.array(dtype=Link),
        c: wp.ref[ContactInput],
        law: wp.ref[ContactLaw],
        d: wp.ref[FreeMotion],
        out: wp.ref[Contacts],
        row: int,
        i: int,
        h: wp.float64,
        y: wp.array(dtype=wvec3),
    ):
        """Geometry, material and weight of one contact."""
        shape0 = c.shape0[i]
        shape1 = c.shape1[i]
        a = moving_body(layout, c, shape0)
        b = moving_body(layout, c, shape1)
        # an immobile side is measured about the other side's reference point: differences of near points only
        o_a = wp.vec3d()
        o_b = wp.vec3d()
        if a >= 0:
            o_a = d.origin[layout.body_root[a]]
            o_b = o_a
        if b >= 0:
            o_b = d.origin[layout.body_root[b]]
            if a < 0:
                o_a = o_b
        shift = cast(o_b - o_a)
        n = wp.normalize(V(T(c.normal[i][0]), T(c.normal[i][1]), T(c.normal[i][2])))
        # phi0 is measured between core points less the margins, which hold the radius of round shapes
        point0 = to_vec3_64(c.point0[i])
        point1 = to_vec3_64(c.point1[i])
        core0 = shape_point(layout, d, c, shape0, point0, o_a)
        core1 = shape_point(layout, d, c, shape1, point1, o_b)
        phi0 = wp.dot(n, core1 + shift - core0) - T(c.margin0[i]) - T(c.margin1[i])
        # velocities are measured on the surfaces
        x0 = shape_point(layout, d, c, shape0, point0 + to_vec3_64(c.offset0[i]), o_a)
        x1 = shape_point(layout, d, c, shape1, point1 + to_vec3_64(c.offset1[i]), o_b)
        k0 = shape_stiffness(c, law, shape0)
        k1 = shape_stiffness(c, law, shape1)
        if law.point_mode == MIDPOINT:
            alpha0 = T(k0 / (k0 + k1))
            midpoint = x0 * alpha0 + (x1 + shift) * (T(1.0) - alpha0)
            x0 = midpoint
            x1 = midpoint - shift

        mu0 = shape_friction(c, law, shape0)
        mu1 = shape_friction(c, law, shape1)
        mu = wp.float64(0.0)
        if mu0 + mu1 > wp.float64(0.0):
            mu = wp.float64(2.0) * mu0 * mu1 / (mu0 + mu1)
        k = k0 * k1 / (k0 + k1)
        tau = shape_dissipation(c, law, shape0) + shape_dissipation(c, law, shape1)
        if c.has_overrides != 0:  # Newton's meaning: stiffness and damping replace, friction scales, 0 leaves alone
            if c.stiffness[i] > 0.0:
                k = wp.float64(c.stiffness[i])
            if c.damping[i] > 0.0:
                tau = wp.float64(c.damping[i]) / k
            if c.friction[i] > 0.0:
                mu = mu * wp.float64(c.friction[i])

        r_a = wvec3(wscalar(x0[0]), wscalar(x0[1]), wscalar(x0[2]))
        r_b = wvec3(wscalar(x1[0]), wscalar(x1[1]), wscalar(x1[2]))
        w = wscalar(0.0)
        if law.weight_mode == BODY_INERTIA:
            if a >= 0:
                w += body_mobility(links[a], d, a, r_a)
            if b >= 0:
                w += body_mobility(links[b], d, b, r_b)
        else:
            w = delassus_weight(layout, d, a, b, r_a, r_b, law.weight_mode != DIAG_DELASSUS, y)
        w64 = wp.max(wp.float64(w), wp.float64(wp.static(WEIGHT_FLOOR)))
        near_rigid = law.beta * law.beta * w64 / wp.float64(wp.static(4.0 * math.pi * math.pi))

        out.source[row] = i
        out.body_a[row] = a
        out.body_b[row] = b
        out.normal[row] = wp.normalize(vec3(scalar(n[0]), scalar(n[1]), scalar(n[2])))
        out.r_a[row] = vec3(scalar(x0[0]), scalar(x0[1]), scalar(x0[2]))
        out.r_b[row] = vec3(scalar(x1[0]), scalar(x1[1]), scalar(x1[2]))
        out.phi0[row] = scalar(phi0)
        out.vhat[row] = scalar(-wp.float64(phi0) / (h + tau))
        out.mu[row] = scalar(mu)
        out.weight[row] = scalar(w64)
        out.Rt[row] = scalar(law.sigma * w64)
        out.Rn[row] = scalar(wp.max(near_rigid, wp.float64(1.0) / (h * k * (h + tau))))

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
            w += j * j / scalar(d.A[layout.dof_entry[e] + e - layout.dof_first[e]])
            e = layout.dof_parent[e]
        if phi0 > scalar(2.0) * scalar(h) * wp.max(wp.abs(rate0), wp.abs(rate_star)):
            return 0
        tau = wp.float64(input.limit_kd[dof]) / ke
        out.source[row] = -1
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
        layout: wp.ref[Layout], p: wp.ref[JointParameters], input: wp.ref[DofInput], q: wp.array(dtype=wp.float64), e: int
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
        kind = p.joint_type[layout.body_joint[layout.dof_body[e]]]
        dof = layout.dof_newton[e]
        terms = int(0)
        if kind != FREE and kind != DISTANCE:
            h = scalar(h64)
            A_kk = scalar(d.A[layout.dof_entry[e] + e - layout.dof_first[e]])
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
                scale = gain_scale(kp, kd, h, A_kk)
                kp = kp * scale
                kd = kd * scale
                feed_forward = scalar(input.act[dof])
                if kp > scalar(0.0) or kd > scalar(0.0) or feed_forward != scalar(0.0):
                    terms = terms | DRIVE
                    t.drive_u0[e] = kp * error + kd * rate + feed_forward
                    t.drive_g[e] = h * kp + kd
                    t.drive_limit[e] = scalar(input.effort_limit[dof])
            if input.friction[dof] > 0.0:
                terms = terms | FRICTION
                t.friction[e] = h * scalar(input.friction[dof])
                t.friction_R[e] = scalar(law.sigma) / A_kk
            if kind != BALL:
                near_rigid = scalar(wp.static(NEAR_RIGID)) / A_kk
                ke = scalar(input.limit_ke[dof])
                if ke > scalar(0.0):
                    coordinate = layout.dof_coord[e]
                    tau = scalar(input.limit_kd[dof]) / ke
                    reach = scalar(2.0) * h * wp.max(wp.abs(scalar(d.v0[e])), wp.abs(scalar(d.v_star[e])))
                    lower = scalar(q[coordinate] - wp.float64(input.limit_lower[dof]))
                    upper = scalar(wp.float64(input.limit_upper[dof]) - q[coordinate])
                    t.limit_lower[e] = scalar(wp.static(NO_LIMIT))
                    t.limit_upper[e] = scalar(wp.static(NO_LIMIT))
                    if lower <= reach and wp.abs(input.limit_lower[dof]) < wp.static(UNLIMITED):
                        terms = terms | LIMIT
                        t.limit_lower[e] = -lower / (h + tau)
                    if upper <= reach and wp.abs(input.limit_upper[dof]) < wp.static(UNLIMITED):
                        terms = terms | LIMIT
                        t.limit_upper[e] = -upper / (h + tau)
                    t.limit_R[e] = wp.max(near_rigid, scalar(1.0) / (h * ke * (h + tau)))
                if law.enforce_speed != 0 and input.velocity_limit[dof] < wp.static(UNLIMITED_SPEED):
                    terms = terms | SPEED
                    t.speed[e] = scalar(input.velocity_limit[dof])
                    t.speed_R[e] = near_rigid
        t.kind[e] = terms

    @wp.func
    def list_by_body(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int):
        """Rows of each body, and which subtrees have any: a counting sort in row order."""
        first_body = layout.world_body[world]
        last_body = layout.world_body[world + 1]
        base = world * out.capacity
        for b in range(first_body, last_body):
            out.body_count[b] = 0
            out.body_active[b] = 0
        for row in range(base, base + out.count[world]):
            for side in range(2):
                b = wp.where(side == 0, out.body_a[row], out.body_b[row])
                if b >= 0:
                    out.body_count[b] = out.body_count[b] + 1
        total = 2 * base
        for b in range(first_body, last_body):
            out.body_start[b] = total
            total += out.body_count[b]
            if out.body_count[b] > 0:
                out.body_active[b] = 1
            parent = layout.body_parent[b]
            if out.body_active[b] != 0 and parent >= 0:
                out.body_active[parent] = 1
            out.body_count[b] = 0
        for row in range(base, base + out.count[world]):
            for side in range(2):
                b = wp.where(side == 0, out.body_a[row], out.body_b[row])
                if b >= 0:
                    out.body_row[out.body_start[b] + out.body_count[b]] = 2 * row + side
                    out.body_count[b] = out.body_count[b] + 1

    @wp.func
    def widen_rows(layout: wp.ref[Layout], out: wp.ref[Contacts], world: int):
        """Hessian rows: the subtree of a dof, and to the left of it what contacts between moving bodies couple it with."""
        start = layout.world_dof[world]
        end = layout.world_dof[world + 1]
        base = world * out.capacity
        coupled = int(0)
        for e in range(start, end):
            out.hessian_first[e] = layout.dof_first[e]
        for row in range(base, base + out.count[world]):
            if out.body_a[row] >= 0 and out.body_b[row] >= 0:
                coupled = 1
                chain_a = layout.body_chain[out.body_a[row]]
                chain_b = layout.body_chain[out.body_b[row]]
                for side in range(2):
                    e = wp.where(side == 0, chain_a, chain_b)
                    other = wp.where(side == 0, chain_b, chain_a)
                    while e >= 0:
                        if other < out.hessian_first[e]:
                            out.hessian_first[e] = other
                        e = layout.dof_parent[e]
        address = layout.world_hessian[world]
        for e in range(start, end):
            out.hessian_entry[e] = address
            address += e - out.hessian_first[e] + 1
        out.coupled[world] = coupled

    @wp.kernel(module="unique", enable_backward=False)
    def contact_data(
        layout: Layout,
        p: JointParameters,
        links: wp.array(dtype=Link),
        c: ContactInput,
        input: DofInput,
        law: ContactLaw,
        q_in: wp.array(dtype=wp.float64),
        dt: wp.float64,
        d: FreeMotion,
        found_in: wp.array(dtype=wp.int32),
        slot_in: wp.array(dtype=wp.int32),
        y: wp.array(dtype=wvec3),
        out: Contacts,
        t: Terms,
        contact_count_out: wp.array(dtype=wp.int32),
        truncated_out: wp.array(dtype=wp.int32),
    ):
        world = wp.tid() // wp.block_dim()
        start = layout.world_dof[world]
        end = layout.world_dof[world + 1]
        base = world * out.capacity
        slots = slot_in.shape[0] // found_in.shape[0]
        first_slot = world * slots
        kept = wp.min(found_in[world], slots)
        rows_before = int(0)
        for e in range(start + lane(), end, wp.block_dim()):
            prepare_dof(layout, p, input, law, d, t, q_in, e, dt)
        if lane() == 0:
            # Ascending contact order, whatever order the threads came in: results do not depend on scheduling.
            for i in range(first_slot + 1, first_slot + kept):
                value = slot_in[i]
                j = i - 1
                while j >= first_slot and slot_in[wp.max(j, 0)] > value:
                    slot_in[j + 1] = slot_in[j]
                    j -= 1
                slot_in[j + 1] = value
            rows = int(0)
            for i in range(layout.world_distance[world], layout.world_distance[world + 1]):
                b = layout.distance_body[i]
                rows += prepare_distance(layout, p, input, d, out, b, False, base + rows, dt)
                rows += prepare_distance(layout, p, input, d, out, b, True, base + rows, dt)
            out.count[world] = rows + kept
            contact_count_out[world] = kept
            truncated_out[world] = found_in[world] - kept
        barrier()
        rows_before = out.count[world] - kept
        if law.weight_mode == BODY_INERTIA or law.weight_mode == DIAG_DELASSUS:
            for i in range(lane(), kept, wp.block_dim()):
                prepare_contact(layout, links, c, law, d, out, base + rows_before + i, slot_in[first_slot + i], dt, y)
        elif lane() == 0:  # the exact weight needs the world's one scratch column
            for i in range(kept):
                prepare_contact(layout, links, c, law, d, out, base + rows_before + i, slot_in[first_slot + i], dt, y)
        barrier()
        if lane() == 0:
            found_in[world] = 0  # ready for the next step's binning
            list_by_body(layout, out, world)
            widen_rows(layout, out, world)
            count = int(0)
            for e in range(start, end):
                if t.kind[e] != 0:
                    t.list[start + count] = e
                    count += 1
            t.count[world] = count

    return contact_data


class SapContactJacobian:
    """Owns the contact rows and dof terms; `data` and `terms` can be read after a step."""

    def __init__(self, model: Any, layout: Any, sizes: LayoutSizes, parameters: Any, links: Links, options: Any, free_motion: Any):
        """Allocate everything once."""
        self.model, self.layout, self.sizes, self.parameters = model, layout, sizes, parameters
        self.free_motion = free_motion
        self.types = TYPES[options.contact_solve_precision]
        weight = TYPES[options.sap_contact_weight_precision]
        contact_pose = FP64 if options.use_f64_boundary_pose else FP32
        device = model.device
        worlds = sizes.world_count
        self.capacity = options.max_rigid_contact + sizes.distance_rows_max

        self.data: Any = make_contact_data(self.types)()
        self.data.capacity = self.capacity
        counts = dict.fromkeys(("count", "coupled"), worlds)
        counts |= dict.fromkeys(("body_start", "body_count", "body_active"), sizes.body_count)
        counts |= dict.fromkeys(("hessian_first", "hessian_entry"), sizes.dof_count)
        counts["body_row"] = 2 * worlds * self.capacity
        _allocate(self.data, counts, worlds * self.capacity, device)
        self.terms: Any = make_dof_terms(self.types).DofTerms()
        _allocate(self.terms, {"count": worlds}, sizes.dof_count, device)

        self.contact_count = wp.zeros(worlds, dtype=wp.int32, device=device)
        """Contacts of each world in the last step."""
        self.truncated_count = wp.zeros(worlds, dtype=wp.int32, device=device)
        """Contacts of each world that found no place in the last step."""
        self._found = wp.zeros(worlds, dtype=wp.int32, device=device)
        self._slot = wp.zeros(worlds * options.max_rigid_contact, dtype=wp.int32, device=device)
        exact = options.contact_weight_mode == "delassus"
        self._scratch = wp.zeros(sizes.dof_count if exact else 1, dtype=weight.vec3, device=device)
        self._law = _contact_law(options)
        self._links = links.get(weight)[0]
        self._kernel = make_contact_kernel(
            free_motion.pose_types, contact_pose, free_motion.types, weight, self.types
        )
        self._empty = newton.Contacts(0, 0, device=device)
        self._last_count: wp.array | None = None
        self._last_capacity = 0

    def compute(self, boundary: Any, control: Any, contacts: Any, dt: float, block_dim: int) -> None:
        """Fill `data` and `terms`. ``contacts`` may be None."""
        device = self.model.device
        source = self._contact_input(contacts)
        capacity = source.shape0.shape[0]
        self._last_count, self._last_capacity = source.count, capacity
        if capacity:
            # One thread on the CPU walks just the contacts there are; on CUDA a fixed grid strides over them.
            threads = 1 if device.is_cpu else min(capacity, 1 << 16)
            wp.launch(
                bin_contacts,
                dim=threads,
                inputs=[self.layout, source, capacity, threads],
                outputs=[self._found, self._slot],
                device=device,
            )
        wp.launch(
            self._kernel,
            dim=self.sizes.world_count * block_dim,
            inputs=[
                self.layout,
                self.parameters,
                self._links,
                source,
                self._dof_input(control),
                self._law,
                boundary.joint_q,
                dt,
                self.free_motion.data,
                self._found,
                self._slot,
                self._scratch,
            ],
            outputs=[self.data, self.terms, self.contact_count, self.truncated_count],
            block_dim=block_dim,
            device=device,
        )

    def overflow_count(self) -> int:
        """Contacts that the collision pipeline found but its own buffer could not hold in the last step."""
        if self._last_count is None:
            return 0
        return max(0, int(self._last_count.numpy()[0]) - self._last_capacity)

    def dense(self, world: int = 0) -> np.ndarray:
        """Contact Jacobian of one world for inspection, shape [rows, 3, dofs].

        Row blocks give the relative velocity in world axes, columns are in Newton's dof order of that world.
        """
        layout, motion = self.layout, self.free_motion.data
        start, end = layout.world_dof.numpy()[world : world + 2]
        order = np.argsort(layout.dof_newton.numpy()[start:end])
        Sw, Sv = motion.Sw.numpy().astype(np.float64), motion.Sv.numpy().astype(np.float64)
        chain, parent = layout.body_chain.numpy(), layout.dof_parent.numpy()
        rows = range(world * self.capacity, world * self.capacity + int(self.data.count.numpy()[world]))
        J = np.zeros((len(rows), 3, end - start))
        sides = ((self.data.body_a, self.data.r_a, -1.0), (self.data.body_b, self.data.r_b, 1.0))
        for bodies, arms, sign in sides:
            bodies, arms = bodies.numpy(), arms.numpy()
            for i, row in enumerate(rows):
                e = chain[bodies[row]] if bodies[row] >= 0 else -1
                while e >= 0:
                    J[i, :, e - start] += sign * (Sv[e] + np.cross(Sw[e], arms[row]))
                    e = parent[e]
        return J[:, :, order]

    def _contact_input(self, contacts: Any) -> Any:
        source: Any = ContactInput()
        if contacts is None:
            contacts = self._empty
        names = ("shape0", "shape1", "point0", "point1", "offset0", "offset1", "normal", "margin0", "margin1", "count")
        for name in names:
            setattr(source, name, getattr(contacts, f"rigid_contact_{name}"))
        source.has_overrides = int(contacts.rigid_contact_stiffness is not None)
        if source.has_overrides:
            source.stiffness = contacts.rigid_contact_stiffness
            source.damping = contacts.rigid_contact_damping
            source.friction = contacts.rigid_contact_friction
        source.shape_body = self.model.shape_body
        source.shape_ke = self.model.shape_material_ke
        source.shape_mu = self.model.shape_material_mu
        source.shape_tau = self.model.shape_material_tau
        return source

    def _dof_input(self, control: Any) -> Any:
        model = self.model
        source: Any = DofInput()
        for name in ("target_ke", "target_kd", "target_mode", "effort_limit", "velocity_limit", "friction"):
            setattr(source, name, getattr(model, f"joint_{name}"))
        for name in ("limit_lower", "limit_upper", "limit_ke", "limit_kd"):
            setattr(source, name, getattr(model, f"joint_{name}"))
        source.target_q = control.joint_target_pos
        source.target_qd = control.joint_target_vel
        source.act = control.joint_act
        return source


def _allocate(struct: Any, counts: dict[str, int], default: int, device: Any) -> None:
    for name, variable in struct._cls.vars.items():
        if isinstance(variable.type, wp.array):
            setattr(struct, name, wp.zeros(counts.get(name, default), dtype=variable.type.dtype, device=device))


def _contact_law(options: Any) -> Any:
    law: Any = ContactLaw()
    law.weight_mode = CONTACT_WEIGHT_MODES.index(options.contact_weight_mode)
    law.point_mode = CONTACT_POINT_MODES.index(options.contact_point_mode)
    law.beta = options.contact_beta
    law.sigma = options.contact_sigma
    law.tau_d = options.contact_tau_d
    law.fallback_mu = options.fallback_mu
    law.fallback_stiffness = options.fallback_stiffness
    law.enforce_speed = int(options.velocity_limit_mode == "enforce")
    return law
