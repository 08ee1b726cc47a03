"""One contact row: geometry, material and weight (the formulas of the contact law's data).

    phi0 = n.(c1 - c0) - margins        between core points; the margins hold the radius of round shapes
    R_n  = max(beta^2/(4 pi^2) w, 1/(h k (h + tau))),   R_t = sigma w,   vhat = -phi0/(h + tau)
    k = k_a k_b/(k_a + k_b),   tau = tau_a + tau_b,   mu = 2 mu_a mu_b/(mu_a + mu_b)

Velocities are measured on the surfaces, at each body's witness or at one stiffness-weighted point of both. What of the
relative velocity is prescribed, by kinematic bodies or by a moving surface, is known beforehand: rows start with it.
"""

import functools
import math
from types import SimpleNamespace

import warp as wp

from ..precision import FP64, Types
from .contact_data import NO_BODY, make_contact_data
from .contact_input import ContactInput, ContactLaw
from .free_motion import make_free_motion_data
from .kinematics import make_kinematics, make_link
from .layout import Layout
from .options import CONTACT_POINT_MODES, CONTACT_WEIGHT_MODES
from .terms.limit import NO_LIMIT

BODY_INERTIA = wp.constant(CONTACT_WEIGHT_MODES.index("body_inertia"))
DIAG_DELASSUS = wp.constant(CONTACT_WEIGHT_MODES.index("diag_delassus"))
MIDPOINT = wp.constant(CONTACT_POINT_MODES.index("contact_midpoint"))
WEIGHT_FLOOR = 1e-12
"""Smallest contact weight [1/kg]."""
IMMOBILE_WEIGHT = 1e-20
"""Below this a computed weight is the square of round-off [1/kg]."""


@functools.cache
def make_body_point(pose: Types, contact_pose: Types, dynamics: Types) -> SimpleNamespace:
    """Positions of body-fixed points, with poses rounded to ``contact_pose`` precision."""
    FreeMotion = make_free_motion_data(pose, dynamics)
    T, V, Q, M = contact_pose.scalar, contact_pose.vec3, contact_pose.quat, contact_pose.mat33
    rotation_matrix = make_kinematics(contact_pose).rotation_matrix

    @wp.func
    def cast(v: wp.vec3d) -> V:
        return V(T(v[0]), T(v[1]), T(v[2]))

    @wp.func
    def body_rotation(d: wp.ref[FreeMotion], b: int) -> M:
        """R_WB of a body."""
        r = d.r[b]
        q = Q(T(r[0]), T(r[1]), T(r[2]), T(r[3]))
        if wp.static(contact_pose is not pose):  # rounded, so no longer of unit length
            q = wp.normalize(q)
        return rotation_matrix(q)

    @wp.func
    def body_point(d: wp.ref[FreeMotion], b: int, point: wp.vec3d) -> V:
        """Position of a body-fixed point relative to its tree's reference point."""
        p = d.p[b]
        return V(T(p[0]), T(p[1]), T(p[2])) + body_rotation(d, b) * cast(point)

    return SimpleNamespace(cast=cast, body_rotation=body_rotation, body_point=body_point)


@functools.cache
def make_prepare_contact(pose: Types, contact_pose: Types, dynamics: Types, weight: Types, types: Types):
    """``prepare_contact(layout, links, c, law, d, out, row, i, h, y)`` fills one row from contact i."""
    FreeMotion = make_free_motion_data(pose, dynamics)
    Contacts = make_contact_data(types)
    Link = make_link(weight)
    points = make_body_point(pose, contact_pose, dynamics)
    cast, body_rotation = points.cast, points.body_rotation
    to_vec3_64 = make_kinematics(FP64).to_vec3
    scalar, vec3 = types.scalar, types.vec3
    T, V = contact_pose.scalar, contact_pose.vec3
    wscalar, wvec3, wmat33 = weight.scalar, weight.vec3, weight.mat33

    @wp.func
    def shape_owner(layout: wp.ref[Layout], c: wp.ref[ContactInput], shape: int) -> int:
        """Body of a shape in solver order, or -1."""
        if shape < 0:
            return -1
        body = c.shape_body[shape]
        if body < 0:
            return -1
        return layout.newton_body[body]

    @wp.func
    def moving_body(layout: wp.ref[Layout], owner: int) -> int:
        if owner < 0:
            return NO_BODY
        return wp.where(layout.body_chain[owner] >= 0, owner, NO_BODY)

    @wp.func
    def shape_points(
        layout: wp.ref[Layout], d: wp.ref[FreeMotion], owner: int, core: wp.vec3d, offset: wp.vec3d, o: wp.vec3d
    ):
        """A contact's point on the core of a shape and the one on its surface, relative to o.

        o is the reference point of the shape's tree or of its partner's.
        """
        if owner < 0:
            x = cast(core - o)
            return x, x + cast(offset)
        R = body_rotation(d, owner)
        p = d.p[owner]
        y = V(T(p[0]), T(p[1]), T(p[2])) + R * cast(core) + cast(d.origin[layout.body_root[owner]] - o)
        return y, y + R * cast(offset)

    @wp.func
    def prescribed_velocity(layout: wp.ref[Layout], d: wp.ref[FreeMotion], owner: int, x: V, o: wp.vec3d) -> vec3:
        """Velocity that a kinematic root gives the point o + x of a body."""
        v = vec3()
        if owner >= 0:
            root = layout.body_root[owner]
            if layout.body_prescribed[root] != 0:
                arm = x + cast(o - d.origin[root])
                w = vec3(scalar(d.Vw[root][0]), scalar(d.Vw[root][1]), scalar(d.Vw[root][2]))
                u = vec3(scalar(d.Vv[root][0]), scalar(d.Vv[root][1]), scalar(d.Vv[root][2]))
                v = u + wp.cross(w, vec3(scalar(arm[0]), scalar(arm[1]), scalar(arm[2])))
        return v

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
        """Dvc / dv_e in world axes."""
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
        layout: wp.ref[Layout],
        d: wp.ref[FreeMotion],
        a: int,
        b: int,
        r_a: wvec3,
        r_b: wvec3,
        exact: bool,
        y: wp.array(dtype=wvec3),
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
                    if k >= layout.dof_first[e] and not (
                        start_a >= 0 and k >= start_a and is_above(layout, start_a, k)
                    ):
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
        owner0 = shape_owner(layout, c, shape0)
        owner1 = shape_owner(layout, c, shape1)
        a = moving_body(layout, owner0)
        b = moving_body(layout, owner1)
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
        # phi0 is measured between core points less the margins, which hold the radius of round shapes; velocities on
        # the surfaces
        core0, x0 = shape_points(layout, d, owner0, to_vec3_64(c.point0[i]), to_vec3_64(c.offset0[i]), o_a)
        core1, x1 = shape_points(layout, d, owner1, to_vec3_64(c.point1[i]), to_vec3_64(c.offset1[i]), o_b)
        phi0 = wp.dot(n, core1 + shift - core0) - T(c.margin0[i]) - T(c.margin1[i])
        k0 = shape_stiffness(c, law, shape0)
        k1 = shape_stiffness(c, law, shape1)
        if law.point_mode == MIDPOINT:
            alpha0 = T(k0 / (k0 + k1))
            midpoint = x0 * alpha0 + (x1 + shift) * (T(1.0) - alpha0)
            x0 = midpoint
            x1 = midpoint - shift

        moved = prescribed_velocity(layout, d, owner1, x1, o_b) - prescribed_velocity(layout, d, owner0, x0, o_a)
        if c.has_surface_velocity != 0:  # of shape 1 relative to shape 0, along the surface
            n_c = wp.normalize(vec3(scalar(n[0]), scalar(n[1]), scalar(n[2])))
            glide = c.surface_velocity[i]
            slip = vec3(scalar(glide[0]), scalar(glide[1]), scalar(glide[2]))
            moved += slip - n_c * wp.dot(n_c, slip)

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
        # Bodies that cannot move relative to each other here: J is round-off, and its square over a floored weight
        # would be noise. In exact arithmetic such a contact does nothing, so it is kept apart.
        immobile = wp.float64(w) < wp.float64(wp.static(IMMOBILE_WEIGHT))
        w64 = wp.max(wp.float64(w), wp.float64(wp.static(WEIGHT_FLOOR)))
        near_rigid = law.beta * law.beta * w64 / wp.float64(wp.static(4.0 * math.pi * math.pi))

        out.source[row] = i
        out.body_a[row] = a
        out.body_b[row] = b
        out.normal[row] = wp.normalize(vec3(scalar(n[0]), scalar(n[1]), scalar(n[2])))
        out.r_a[row] = vec3(scalar(x0[0]), scalar(x0[1]), scalar(x0[2]))
        out.r_b[row] = vec3(scalar(x1[0]), scalar(x1[1]), scalar(x1[2]))
        out.vc[row] = moved
        out.phi0[row] = scalar(phi0)
        out.vhat[row] = wp.where(immobile, scalar(wp.static(NO_LIMIT)), scalar(-wp.float64(phi0) / (h + tau)))
        out.mu[row] = wp.where(immobile, scalar(0.0), scalar(mu))
        out.weight[row] = scalar(w64)
        out.Rt[row] = scalar(law.sigma * w64)
        out.Rn[row] = scalar(wp.max(near_rigid, wp.float64(1.0) / (h * k * (h + tau))))

    return prepare_contact
