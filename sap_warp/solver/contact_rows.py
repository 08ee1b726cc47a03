"""One contact row: geometry, material and weight (the formulas of the contact law's data).

    phi0 = n.(c1 - c0) - margins        between core points; the margins hold the radius of round shapes
    R_n  = max(beta^2/(4 pi^2) w, 1/(h k (h + tau))),   R_t = sigma w,   vhat = -phi0/(h + tau)
    k = k_a k_b/(k_a + k_b),   tau = tau_a + tau_b,   mu = 2 mu_a mu_b/(mu_a + mu_b)

Velocities are measured on the surfaces, at each body's witness or at one stiffness-weighted point of both. What of the
relative velocity is prescribed, by kinematic bodies or by a moving surface, is known beforehand: rows start with it.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ..kernels.types import FP64, Types
from .contact_data import make_contact_data
from .contact_input import ContactInput, ContactLaw, ShapeOwner
from .free_motion import make_free_motion_data
from .kinematics import make_kinematics
from .layout import Layout
from .mobility import make_mobility
from .options import CONTACT_POINT_MODES, CONTACT_WEIGHT_MODES
from .terms.limit import NO_LIMIT

BODY_INERTIA = wp.constant(CONTACT_WEIGHT_MODES.index("body_inertia"))
DELASSUS = wp.constant(CONTACT_WEIGHT_MODES.index("delassus"))
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
def make_contact_rows(
    pose: Types, contact_pose: Types, dynamics: Types, weight: Types, types: Types
) -> SimpleNamespace:
    """Device functions that fill the rows of a world's contacts, in this order.

    ``assign_contacts`` and ``place_contacts`` do what most contacts need, ``refine_contacts`` what only some do.
    """
    FreeMotion = make_free_motion_data(pose, dynamics)
    Contacts = make_contact_data(types)
    Mobility, body_mobility = make_mobility(weight).Mobility, make_mobility(weight).body_mobility
    points = make_body_point(pose, contact_pose, dynamics)
    cast, body_rotation = points.cast, points.body_rotation
    to_vec3_64 = make_kinematics(FP64).to_vec3
    scalar, vec3 = types.scalar, types.vec3
    T, V = contact_pose.scalar, contact_pose.vec3
    wscalar, wvec3, wmat33 = weight.scalar, weight.vec3, weight.mat33

    @wp.func
    def side_points(d: wp.ref[FreeMotion], side: wp.ref[ShapeOwner], reference: int, core: wp.vec3d, offset: wp.vec3d):
        """A contact's point on the core of a shape and the one on its surface.

        They are measured about the reference point of the tree with the root ``reference``: a moving body's own tree,
        else its partner's, so that only near points are subtracted.
        """
        if side.body < 0:
            x = cast(core - d.origin[reference])
            return x, x + cast(offset)
        R = body_rotation(d, side.body)
        p = d.p[side.body]
        y = V(T(p[0]), T(p[1]), T(p[2])) + R * cast(core)
        if side.moving < 0:
            y = y + cast(d.origin[side.root] - d.origin[reference])
        return y, y + R * cast(offset)

    @wp.func
    def reference(side: wp.ref[ShapeOwner], other: wp.ref[ShapeOwner]) -> int:
        """Root whose reference point a side is measured about."""
        return wp.where(side.moving >= 0, side.root, other.root)

    @wp.struct
    class Material:
        k: wp.float64  # stiffness [N/m]
        mu: wp.float64
        tau: wp.float64  # dissipation time [s]

    @wp.func
    def shape_material(c: wp.ref[ContactInput], law: wp.ref[ContactLaw], shape: int) -> Material:
        m = Material()
        m.k = law.fallback_stiffness
        m.mu = law.fallback_mu
        m.tau = law.tau_d
        if shape >= 0:
            k = wp.float64(c.shape_ke[shape])
            mu = wp.float64(c.shape_mu[shape])
            tau = wp.float64(c.shape_tau[shape])
            m.k = wp.where(k > wp.float64(0.0), k, m.k)
            m.mu = wp.where(mu >= wp.float64(0.0), mu, m.mu)
            m.tau = wp.where(tau >= wp.float64(0.0), tau, m.tau)
        return m

    @wp.func
    def combine(a: Material, b: Material) -> Material:
        """The material of a contact of two shapes."""
        m = Material()
        m.k = a.k * b.k / (a.k + b.k)
        m.mu = wp.float64(0.0)
        if a.mu + b.mu > wp.float64(0.0):
            m.mu = wp.float64(2.0) * a.mu * b.mu / (a.mu + b.mu)
        m.tau = a.tau + b.tau
        return m

    @wp.func
    def prescribed_velocity(d: wp.ref[FreeMotion], side: wp.ref[ShapeOwner], reference: int, x: vec3) -> vec3:
        """Velocity that a kinematic root gives the point x of a body, x measured as in `side_points`."""
        v = vec3()
        if side.carried != 0:
            root = side.root
            between = cast(d.origin[reference] - d.origin[root])
            arm = x + vec3(scalar(between[0]), scalar(between[1]), scalar(between[2]))
            w = vec3(scalar(d.Vw[root][0]), scalar(d.Vw[root][1]), scalar(d.Vw[root][2]))
            u = vec3(scalar(d.Vv[root][0]), scalar(d.Vv[root][1]), scalar(d.Vv[root][2]))
            v = u + wp.cross(w, arm)
        return v

    @wp.func
    def in_body(d: wp.ref[FreeMotion], b: int, r: vec3) -> wvec3:
        """A point of a body relative to its origin, in its own axes."""
        q = d.r[b]
        p = d.p[b]
        return wp.quat_rotate_inv(
            weight.quat(wscalar(q[0]), wscalar(q[1]), wscalar(q[2]), wscalar(q[3])),
            wvec3(wscalar(r[0]), wscalar(r[1]), wscalar(r[2])) - wvec3(wscalar(p[0]), wscalar(p[1]), wscalar(p[2])),
        )

    @wp.func
    def to_weight(x: wp.vec3d) -> wvec3:
        return wvec3(wscalar(x[0]), wscalar(x[1]), wscalar(x[2]))

    @wp.func
    def jacobian_column(d: wp.ref[FreeMotion], e: int, on_a: bool, on_b: bool, r_a: wvec3, r_b: wvec3) -> wvec3:
        """Dvc / dv_e in world axes."""
        sw = wvec3(wscalar(d.Sw[e][0]), wscalar(d.Sw[e][1]), wscalar(d.Sw[e][2]))
        sv = wvec3(wscalar(d.Sv[e][0]), wscalar(d.Sv[e][1]), wscalar(d.Sv[e][2]))
        # factors, not branches: a vector that branches change goes through memory
        a = wp.where(on_a, wscalar(1.0), wscalar(0.0))
        b = wp.where(on_b, wscalar(1.0), wscalar(0.0))
        return sv * (b - a) + wp.cross(sw, r_b * b - r_a * a)

    @wp.func
    def chain_start(layout: wp.ref[Layout], body: int) -> int:
        if body < 0:
            return -1
        return layout.body_chain[body]

    @wp.func
    def diagonal_weight(
        layout: wp.ref[Layout], d: wp.ref[FreeMotion], a: int, b: int, r_a: wvec3, r_b: wvec3
    ) -> wscalar:
        """|W|_F / 3 with W = J diag(A)^-1 J^T."""
        xx = wscalar(0.0)
        yy = wscalar(0.0)
        zz = wscalar(0.0)
        yz = wscalar(0.0)
        zx = wscalar(0.0)
        xy = wscalar(0.0)
        i = int(chain_start(layout, a))
        j = int(chain_start(layout, b))
        while i >= 0 or j >= 0:
            e = wp.where(j < 0 or (i >= 0 and i < j), i, j)
            on_a = i == e
            on_b = j == e
            next = layout.dof_parent[e]
            c = jacobian_column(d, e, on_a, on_b, r_a, r_b)
            f = c * wscalar(d.inverse_diagonal[e])
            xx += c[0] * f[0]
            yy += c[1] * f[1]
            zz += c[2] * f[2]
            yz += c[1] * f[2]
            zx += c[2] * f[0]
            xy += c[0] * f[1]
            i = wp.where(on_a, next, i)
            j = wp.where(on_b, next, j)
        return wp.sqrt(xx * xx + yy * yy + zz * zz + wscalar(2.0) * (yz * yz + zx * zx + xy * xy)) / wscalar(3.0)

    @wp.func
    def delassus_weight(
        layout: wp.ref[Layout],
        d: wp.ref[FreeMotion],
        a: int,
        b: int,
        r_a: wvec3,
        r_b: wvec3,
        y: wp.array(dtype=wvec3),
    ) -> wscalar:
        """|W|_F / 3 with W = J A^-1 J^T.

        W is Y^T Y with Y = L^-1 J^T: forward substitution along the two chains, which reach the root in growing order;
        ``y`` holds Y's rows.
        """
        W = wmat33()
        start_a = chain_start(layout, a)
        start_b = chain_start(layout, b)
        i = int(start_a)
        j = int(start_b)
        while i >= 0 or j >= 0:
            e = wp.where(j < 0 or (i >= 0 and i < j), i, j)
            on_a = i == e
            on_b = j == e
            column = jacobian_column(d, e, on_a, on_b, r_a, r_b)
            address = layout.dof_entry[e] - layout.dof_first[e]
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
    def at_least(x: scalar, bound: scalar) -> scalar:
        """The larger one; nan if x is."""
        return wp.where(x < bound, bound, x)

    @wp.func
    def to_solve(x: V) -> vec3:
        return vec3(scalar(x[0]), scalar(x[1]), scalar(x[2]))

    @wp.func
    def assign_contacts(
        c: wp.ref[ContactInput],
        law: wp.ref[ContactLaw],
        out: wp.ref[Contacts],
        slot: wp.array(dtype=wp.int32),
        to_slot: int,
        begin: int,
        end: int,
        stride: int,
        h: wp.float64,
    ) -> int:
        """Bodies and materials of the rows ``begin``, ``begin + stride``, ... before ``end``.

        vhat is 1/(h + tau) then, and R_n that of the stiffness alone. The result is not 0 if a kinematic body takes
        part, whose velocity `refine_contacts` knows.
        """
        carried = int(0)
        # contacts of the same two shapes come in a row and share all this
        last0 = int(-2)
        last1 = int(-2)
        a = int(-1)
        b = int(-1)
        mu = scalar(0.0)
        rate = scalar(0.0)
        soft = scalar(0.0)
        row = int(begin)
        while row < end:
            i = slot[row + to_slot]
            shape0 = c.shape0[i]
            shape1 = c.shape1[i]
            if shape0 != last0 or shape1 != last1:
                last0 = shape0
                last1 = shape1
                a = c.shape_owner[shape0 + 1].moving
                b = c.shape_owner[shape1 + 1].moving
                carried = carried | c.shape_owner[shape0 + 1].carried | c.shape_owner[shape1 + 1].carried
                m = combine(shape_material(c, law, shape0), shape_material(c, law, shape1))
                mu = scalar(m.mu)
                rate = scalar(wp.float64(1.0) / (h + m.tau))
                soft = scalar(wp.float64(1.0) / (h * m.k * (h + m.tau)))
            out.source[row] = i
            out.body_a[row] = a
            out.body_b[row] = b
            out.mu[row] = mu
            out.vhat[row] = rate
            out.Rn[row] = soft
            row += stride
        return carried

    @wp.func
    def place_contacts(
        mobility: wp.array(dtype=Mobility),
        c: wp.ref[ContactInput],
        law: wp.ref[ContactLaw],
        d: wp.ref[FreeMotion],
        out: wp.ref[Contacts],
        begin: int,
        end: int,
        stride: int,
    ):
        """Geometry of assigned rows, and weights from their two bodies."""
        row = int(begin)
        while row < end:
            i = out.source[row]
            n = V(T(c.normal[i][0]), T(c.normal[i][1]), T(c.normal[i][2]))
            square = wp.dot(n, n)
            n = n * (T(1.0) / wp.sqrt(wp.where(square < T(1e-30), T(1e-30), square)))
            out.normal[row] = to_solve(n)
            if wp.static(contact_pose is not types):  # rounded, so no longer of unit length
                out.normal[row] = wp.normalize(to_solve(n))
            # phi0 is measured between core points less the margins, which hold the radius of round shapes; velocities
            # on the surfaces
            side0 = c.shape_owner[c.shape0[i] + 1]
            side1 = c.shape_owner[c.shape1[i] + 1]
            o_a = reference(side0, side1)
            o_b = reference(side1, side0)
            w = wscalar(0.0)
            point0 = to_vec3_64(c.point0[i])
            offset0 = to_vec3_64(c.offset0[i])
            core0, x0 = side_points(d, side0, o_a, point0, offset0)
            if side0.moving >= 0:
                w += body_mobility(mobility[side0.moving], to_weight(point0 + offset0))
            out.r_a[row] = to_solve(x0)
            point1 = to_vec3_64(c.point1[i])
            offset1 = to_vec3_64(c.offset1[i])
            core1, x1 = side_points(d, side1, o_b, point1, offset1)
            if side1.moving >= 0:
                w += body_mobility(mobility[side1.moving], to_weight(point1 + offset1))
            out.r_b[row] = to_solve(x1)
            phi0 = wp.dot(n, core1 - core0) - T(c.margin0[i]) - T(c.margin1[i])
            if o_a != o_b:
                phi0 += wp.dot(n, cast(d.origin[o_b] - d.origin[o_a]))
            out.vc[row] = vec3()
            out.phi0[row] = scalar(phi0)
            out.vhat[row] = scalar(-phi0) * out.vhat[row]
            wc = at_least(scalar(w), scalar(wp.static(WEIGHT_FLOOR)))
            out.weight[row] = wc
            out.Rt[row] = scalar(law.sigma) * wc
            out.Rn[row] = at_least(scalar(law.near_rigid) * wc, out.Rn[row])
            row += stride

    @wp.func
    def refine_contacts(
        layout: wp.ref[Layout],
        mobility: wp.array(dtype=Mobility),
        c: wp.ref[ContactInput],
        law: wp.ref[ContactLaw],
        d: wp.ref[FreeMotion],
        out: wp.ref[Contacts],
        begin: int,
        end: int,
        stride: int,
        h: wp.float64,
        y: wp.array(dtype=wvec3),
    ):
        """What only some contacts need: a midpoint, prescribed velocities, other materials and other weights."""
        row = int(begin)
        while row < end:
            i = out.source[row]
            a = out.body_a[row]
            b = out.body_b[row]
            side0 = c.shape_owner[c.shape0[i] + 1]
            side1 = c.shape_owner[c.shape1[i] + 1]
            o_a = reference(side0, side1)
            o_b = reference(side1, side0)
            m0 = shape_material(c, law, c.shape0[i])
            m1 = shape_material(c, law, c.shape1[i])
            m = combine(m0, m1)
            n = out.normal[row]
            r_a = out.r_a[row]
            r_b = out.r_b[row]
            if law.point_mode == MIDPOINT:
                shift = to_solve(cast(d.origin[o_b] - d.origin[o_a]))
                share = m0.k / (m0.k + m1.k)
                midpoint = r_a * scalar(share) + (r_b + shift) * scalar(wp.float64(1.0) - share)
                r_a = midpoint
                r_b = midpoint - shift
                out.r_a[row] = r_a
                out.r_b[row] = r_b

            moved = prescribed_velocity(d, side1, o_b, r_b) - prescribed_velocity(d, side0, o_a, r_a)
            if c.has_surface_velocity != 0:  # of shape 1 relative to shape 0, along the surface
                glide = c.surface_velocity[i]
                slip = vec3(scalar(glide[0]), scalar(glide[1]), scalar(glide[2]))
                moved += slip - n * wp.dot(n, slip)
            out.vc[row] = moved

            if c.has_overrides != 0:  # Newton's meaning: stiffness and damping replace, friction scales, 0 leaves alone
                if c.stiffness[i] > 0.0:
                    m.k = wp.float64(c.stiffness[i])
                if c.damping[i] > 0.0:
                    m.tau = wp.float64(c.damping[i]) / m.k
                if c.friction[i] > 0.0:
                    m.mu = m.mu * wp.float64(c.friction[i])

            out.mu[row] = scalar(m.mu)
            out.vhat[row] = -out.phi0[row] * scalar(wp.float64(1.0) / (h + m.tau))
            wc = out.weight[row]
            if law.weight_mode != BODY_INERTIA or law.point_mode == MIDPOINT:
                w = wscalar(0.0)
                if law.weight_mode == BODY_INERTIA:
                    if a >= 0:
                        w += body_mobility(mobility[a], in_body(d, a, r_a))
                    if b >= 0:
                        w += body_mobility(mobility[b], in_body(d, b, r_b))
                else:
                    x_a = wvec3(wscalar(r_a[0]), wscalar(r_a[1]), wscalar(r_a[2]))
                    x_b = wvec3(wscalar(r_b[0]), wscalar(r_b[1]), wscalar(r_b[2]))
                    if law.weight_mode == DELASSUS:
                        w = delassus_weight(layout, d, a, b, x_a, x_b, y)
                    else:
                        w = diagonal_weight(layout, d, a, b, x_a, x_b)
                wc = at_least(scalar(w), scalar(wp.static(WEIGHT_FLOOR)))
                if wp.float64(w) < wp.float64(wp.static(IMMOBILE_WEIGHT)):
                    # Bodies that cannot move relative to each other here: J is round-off, and its square over a floored
                    # weight would be noise. In exact arithmetic such a contact does nothing, so it is kept apart.
                    out.vhat[row] = scalar(wp.static(NO_LIMIT))
                    out.mu[row] = scalar(0.0)
            out.weight[row] = wc
            out.Rt[row] = scalar(law.sigma) * wc
            out.Rn[row] = at_least(scalar(law.near_rigid) * wc, scalar(wp.float64(1.0) / (h * m.k * (h + m.tau))))
            row += stride

    return SimpleNamespace(
        assign_contacts=assign_contacts, place_contacts=place_contacts, refine_contacts=refine_contacts
    )
