"""One contact row: geometry, material and weight.

    phi0 = n.(c1 - c0) - margins        between core points (`core/kernels/contact_gap.py`)

Velocities are measured on the surfaces, at each body's witness or at one stiffness-weighted point of both. What of the
relative velocity is prescribed, by kinematic bodies or by a moving surface, is known beforehand: the drift of a row.

Friction makes the relative velocity J(q0) v of a contact that sticks zero. In the step the bodies turn on, so that
their points move by h J v + h^2/2 a, with a the relative acceleration of two points whose dofs do not accelerate: the
contact slips by the part a_t of it along the surface, in every step the same way. The stiction mode "displacement" adds
h/2 a_t to the drift, which takes that away; h a_t if positions are integrated with the mean of old and new velocity,
since the old one has then left the contact by h a_t as well.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.contact_gap import contact_gap
from ...core.kernels.lanes import lane_count
from ...core.kernels.spatial import make_spatial
from ...core.kernels.types import FP64, Types
from ..model.motion_data import make_motion_data
from ..settings.options import CONTACT_POINT_MODES
from ..state.kinematics import make_point_acceleration
from ..terms.contact import ContactLaw, Material, combine_materials, compliance, decay_rate, make_regularize
from ..terms.limit import NO_LIMIT
from .input import CARRIED, MASSLESS, ContactInput, ShapeOwner
from .stage_data import ContactPrecisions, make_contact_stage
from .weight import BODY_INERTIA, DELASSUS, make_delassus, make_mobility

MIDPOINT = wp.constant(CONTACT_POINT_MODES.index("contact_midpoint"))
MOVED = wp.constant(1 << 30)
"""Bit that says of rows that they belong to other bodies than before."""
IMMOBILE_WEIGHT = 1e-20
"""Below this a computed weight is the square of round-off [1/kg]."""


@functools.cache
def make_body_points(pose: Types, contact_pose: Types, dynamics: Types) -> SimpleNamespace:
    """Positions of body-fixed points, with poses rounded to ``contact_pose`` precision."""
    Motion = make_motion_data(pose, dynamics)
    S = make_spatial(contact_pose)
    to_vec3, to_quat, rotation_matrix = S.to_vec3, S.to_quat, S.rotation_matrix

    @wp.func
    def body_rotation(d: wp.ref[Motion], b: int) -> contact_pose.mat33:
        """R_WB of a body."""
        q = to_quat(d.r[b])
        if wp.static(contact_pose is not pose):  # rounded, so no longer of unit length
            q = wp.normalize(q)
        return rotation_matrix(q)

    @wp.func
    def body_point(d: wp.ref[Motion], b: int, point: wp.vec3d) -> contact_pose.vec3:
        """Position of a body-fixed point relative to its tree's reference point."""
        return to_vec3(d.p[b]) + body_rotation(d, b) * to_vec3(point)

    @wp.func
    def side_points(d: wp.ref[Motion], side: wp.ref[ShapeOwner], reference: int, core: wp.vec3d, offset: wp.vec3d):
        """A contact's point on the core of a shape and the one on its surface.

        They are measured about the reference point of the tree with the root ``reference``: a moving body's own tree,
        else its partner's, so that only near points are subtracted.
        """
        if side.body < 0:
            x = to_vec3(core - d.origin[reference])
            return x, x + to_vec3(offset)
        R = body_rotation(d, side.body)
        y = to_vec3(d.p[side.body]) + R * to_vec3(core)
        if side.moving < 0:
            y = y + to_vec3(d.origin[side.root] - d.origin[reference])
        return y, y + R * to_vec3(offset)

    return SimpleNamespace(body_point=body_point, side_points=side_points)


@wp.func
def reference_root(side: wp.ref[ShapeOwner], other: wp.ref[ShapeOwner]) -> int:
    """Root whose reference point a side is measured about."""
    return wp.where(side.moving >= 0, side.root, other.root)


@wp.func
def shape_material(c: wp.ref[ContactInput], law: wp.ref[ContactLaw], shape: int, world: int) -> Material:
    """What the model says of a shape in a world, or else the solver's options."""
    m = Material()
    m.k = law.fallback_stiffness
    m.mu = law.fallback_mu
    m.tau = law.tau_d
    if shape >= 0:
        k = wp.float64(c.shape_ke[shape])
        mu = wp.float64(c.shape_mu[shape])
        ground = c.shape_owner[shape + 1].ground
        if ground >= 0:
            if c.own_ground[0] != 0:
                mu = wp.float64(c.ground_mu[world * c.ground_count + ground])
        tau = wp.float64(c.shape_tau[shape])
        m.k = wp.where(k > wp.float64(0.0), k, m.k)
        m.mu = wp.where(mu >= wp.float64(0.0), mu, m.mu)
        m.tau = wp.where(tau >= wp.float64(0.0), tau, m.tau)
    return m


@wp.func
def contact_material(c: wp.ref[ContactInput], law: wp.ref[ContactLaw], i: int, world: int) -> Material:
    """Material of one contact. Overrides as Newton means them: stiffness and damping replace, friction scales."""
    m = combine_materials(
        shape_material(c, law, c.rows.shape0[i], world), shape_material(c, law, c.rows.shape1[i], world)
    )
    if c.has_overrides != 0:
        if c.stiffness[i] > 0.0:
            m.k = wp.float64(c.stiffness[i])
        if c.damping[i] > 0.0:
            m.tau = wp.float64(c.damping[i]) / m.k
        if c.friction[i] > 0.0:
            m.mu = m.mu * wp.float64(c.friction[i])
    return m


@functools.cache
def make_contact_gap(pose: Types, contact_pose: Types, dynamics: Types):
    """``gap(c, d, i)``: phi0 of a contact of the buffer [m], as its row will have it."""
    Motion = make_motion_data(pose, dynamics)
    side_points = make_body_points(pose, contact_pose, dynamics).side_points
    to_pose, to_vec3d, T = make_spatial(contact_pose).to_vec3, make_spatial(FP64).to_vec3, contact_pose.scalar

    @wp.func
    def gap(c: wp.ref[ContactInput], d: wp.ref[Motion], i: int) -> T:
        n = wp.normalize(to_pose(c.rows.normal[i]))
        side0 = c.shape_owner[c.rows.shape0[i] + 1]
        side1 = c.shape_owner[c.rows.shape1[i] + 1]
        o_a = reference_root(side0, side1)
        o_b = reference_root(side1, side0)
        core0, _ = side_points(d, side0, o_a, to_vec3d(c.rows.point0[i]), wp.vec3d())
        core1, _ = side_points(d, side1, o_b, to_vec3d(c.rows.point1[i]), wp.vec3d())
        phi = contact_gap(n, core1 - core0, T(c.rows.margin0[i]), T(c.rows.margin1[i]))
        if o_a != o_b:
            phi += wp.dot(n, to_pose(d.origin[o_b] - d.origin[o_a]))
        return phi

    return gap


@functools.cache
def make_assign_contacts(precisions: ContactPrecisions):
    """``assign_contacts(s, c, to_slot, begin, end, world, h)``: which bodies and materials rows have."""
    Stage, scalar = make_contact_stage(precisions), precisions.types.scalar

    @wp.func
    def assign_contacts(
        s: wp.ref[Stage], c: wp.ref[ContactInput], to_slot: int, begin: int, end: int, world: int, h: wp.float64
    ) -> int:
        """Bodies and materials of a lane's share of the rows ``begin`` to ``end - 1``.

        vhat is the decay rate then, and R_n the compliance. The result has `MOVED` if a row had other bodies before,
        and other bits if a body takes part whose prescribed velocity or whose carrier `refine_contact` knows.
        """
        special = int(0)
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
            i = s.slot[row + to_slot]
            shape0 = c.rows.shape0[i]
            shape1 = c.rows.shape1[i]
            if shape0 != last0 or shape1 != last1:
                last0 = shape0
                last1 = shape1
                a = c.shape_owner[shape0 + 1].moving
                b = c.shape_owner[shape1 + 1].moving
                special = special | c.shape_owner[shape0 + 1].special | c.shape_owner[shape1 + 1].special
                m = combine_materials(shape_material(c, s.law, shape0, world), shape_material(c, s.law, shape1, world))
                mu = scalar(m.mu)
                rate = scalar(decay_rate(m, h))
                soft = scalar(compliance(m, h))
            s.rows.source[row] = i
            if s.rows.body_a[row] != a or s.rows.body_b[row] != b:
                special = special | MOVED
            s.rows.body_a[row] = a
            s.rows.body_b[row] = b
            s.rows.mu[row] = mu
            s.rows.vhat[row] = rate
            s.rows.Rn[row] = soft
            row += lane_count()
        return special

    return assign_contacts


@functools.cache
def make_store_regularization(precisions: ContactPrecisions):
    """``store_regularization(s, row, w)``: the last step of a row, from its weight to R_n, R_t and vhat."""
    Stage, scalar = make_contact_stage(precisions), precisions.types.scalar
    regularize = make_regularize(precisions.types)

    @wp.func
    def store_regularization(s: wp.ref[Stage], row: int, w: scalar):
        """From gap, decay rate and compliance, which the row holds as phi0, vhat and Rn, to what the solve reads."""
        r = regularize(s.law, s.rows.phi0[row], w, s.rows.vhat[row], s.rows.Rn[row])
        s.rows.weight[row] = r.weight
        s.rows.Rt[row] = r.Rt
        s.rows.Rn[row] = r.Rn
        s.rows.vhat[row] = r.vhat

    return store_regularization


@functools.cache
def make_place_contacts(precisions: ContactPrecisions):
    """``place_contacts(s, c, begin, end)``: what most contacts need, after `make_assign_contacts`."""
    pose, contact_pose, dynamics, weight, types = precisions
    Stage, body_mobility = make_contact_stage(precisions), make_mobility(weight).body_mobility
    side_points = make_body_points(pose, contact_pose, dynamics).side_points
    store_regularization = make_store_regularization(precisions)
    to_pose, to_vec3d = make_spatial(contact_pose).to_vec3, make_spatial(FP64).to_vec3
    to_solve, to_weight = make_spatial(types).to_vec3, make_spatial(weight).to_vec3
    scalar, vec3, T = types.scalar, types.vec3, contact_pose.scalar
    wscalar = weight.scalar

    @wp.func
    def side_mobility(s: wp.ref[Stage], side: wp.ref[ShapeOwner], p: wp.vec3d) -> wscalar:
        """Share in w of a shape's body at its point p, in its frame."""
        if side.moving < 0:
            return wscalar(0.0)
        return body_mobility(s.mobility[side.moving], to_weight(p))

    @wp.func
    def place_contacts(s: wp.ref[Stage], c: wp.ref[ContactInput], begin: int, end: int):
        """Geometry of assigned rows, and weights from their two bodies."""
        row = int(begin)
        while row < end:
            i = s.rows.source[row]
            n = to_pose(c.rows.normal[i])
            square = wp.dot(n, n)
            n = n * (T(1.0) / wp.sqrt(wp.where(square < T(1e-30), T(1e-30), square)))
            s.rows.normal[row] = to_solve(n)
            if wp.static(contact_pose is not types):  # rounded, so no longer of unit length
                s.rows.normal[row] = wp.normalize(to_solve(n))
            side0 = c.shape_owner[c.rows.shape0[i] + 1]
            side1 = c.shape_owner[c.rows.shape1[i] + 1]
            o_a = reference_root(side0, side1)
            o_b = reference_root(side1, side0)
            point0 = to_vec3d(c.rows.point0[i])
            offset0 = to_vec3d(c.rows.offset0[i])
            core0, x0 = side_points(s.motion, side0, o_a, point0, offset0)
            w = side_mobility(s, side0, point0 + offset0)
            s.rows.r_a[row] = to_solve(x0)
            point1 = to_vec3d(c.rows.point1[i])
            offset1 = to_vec3d(c.rows.offset1[i])
            core1, x1 = side_points(s.motion, side1, o_b, point1, offset1)
            w += side_mobility(s, side1, point1 + offset1)
            s.rows.r_b[row] = to_solve(x1)
            phi0 = contact_gap(n, core1 - core0, T(c.rows.margin0[i]), T(c.rows.margin1[i]))
            if o_a != o_b:
                phi0 += wp.dot(n, to_pose(s.motion.origin[o_b] - s.motion.origin[o_a]))
            s.rows.drift[row] = vec3()
            s.rows.phi0[row] = scalar(phi0)
            store_regularization(s, row, scalar(w))
            row += lane_count()

    return place_contacts


@functools.cache
def make_refine_contact(precisions: ContactPrecisions):
    """``refine_contact(s, c, row, h)``: what only some contacts need, after `make_place_contacts`."""
    pose, contact_pose, dynamics, weight, types = precisions
    Motion, Stage = make_motion_data(pose, dynamics), make_contact_stage(precisions)
    body_mobility, delassus = make_mobility(weight).body_mobility, make_delassus(pose, dynamics, weight)
    diagonal_weight, delassus_weight = delassus.diagonal_weight, delassus.delassus_weight
    point_acceleration = make_point_acceleration(pose, dynamics, types)
    store_regularization = make_store_regularization(precisions)
    to_pose, to_solve = make_spatial(contact_pose).to_vec3, make_spatial(types).to_vec3
    to_weight, to_weight_quat = make_spatial(weight).to_vec3, make_spatial(weight).to_quat
    scalar, vec3, wscalar = types.scalar, types.vec3, weight.scalar

    @wp.func
    def prescribed_velocity(d: wp.ref[Motion], side: wp.ref[ShapeOwner], reference: int, x: vec3) -> vec3:
        """Velocity that a kinematic root gives the point x of a body, x measured as in `side_points`."""
        v = vec3()
        if (side.special & CARRIED) != 0:
            arm = x + to_solve(to_pose(d.origin[reference] - d.origin[side.root]))
            v = to_solve(d.Vv[side.root]) + wp.cross(to_solve(d.Vw[side.root]), arm)
        return v

    @wp.func
    def carried_mobility(s: wp.ref[Stage], b: int, r: vec3) -> wscalar:
        """Share in w of body b, which may have no mass, at the point r about its tree's reference point."""
        if b < 0:
            return wscalar(0.0)
        carrier = s.mobility[b].carrier
        if carrier < 0:
            return diagonal_weight(s.layout, s.motion, b, -1, to_weight(r), to_weight(r))
        arm = to_weight(r) - to_weight(s.motion.p[carrier])
        return body_mobility(s.mobility[b], wp.quat_rotate_inv(to_weight_quat(s.motion.r[carrier]), arm))

    @wp.func
    def refine_contact(s: wp.ref[Stage], c: wp.ref[ContactInput], row: int, h: wp.float64):
        """What only some contacts need: a midpoint, prescribed velocities, other materials and other weights."""
        i = s.rows.source[row]
        world = row // s.rows.capacity
        side0 = c.shape_owner[c.rows.shape0[i] + 1]
        side1 = c.shape_owner[c.rows.shape1[i] + 1]
        o_a = reference_root(side0, side1)
        o_b = reference_root(side1, side0)
        a = side0.moving
        b = side1.moving
        w = wscalar(s.rows.weight[row])
        if ((side0.special | side1.special) & MASSLESS) != 0:  # at the witnesses, whatever the velocity points
            w = carried_mobility(s, a, s.rows.r_a[row])
            w += carried_mobility(s, b, s.rows.r_b[row])
        if s.law.point_mode == MIDPOINT:
            k0 = shape_material(c, s.law, c.rows.shape0[i], world).k
            k1 = shape_material(c, s.law, c.rows.shape1[i], world).k
            shift = to_solve(to_pose(s.motion.origin[o_b] - s.motion.origin[o_a]))
            share = k0 / (k0 + k1)
            midpoint = s.rows.r_a[row] * scalar(share) + (s.rows.r_b[row] + shift) * scalar(wp.float64(1.0) - share)
            s.rows.r_a[row] = midpoint
            s.rows.r_b[row] = midpoint - shift
        drift = prescribed_velocity(s.motion, side1, o_b, s.rows.r_b[row]) - prescribed_velocity(
            s.motion, side0, o_a, s.rows.r_a[row]
        )
        n = s.rows.normal[row]
        if c.has_surface_velocity != 0:  # of shape 1 relative to shape 0, along the surface
            slip = to_solve(c.surface_velocity[i])
            drift += slip - n * wp.dot(n, slip)
        if s.law.follows != 0:
            turn = point_acceleration(s.motion, b, s.rows.r_b[row]) - point_acceleration(s.motion, a, s.rows.r_a[row])
            drift += scalar(s.law.follow_share * h) * (turn - n * wp.dot(n, turn))
        s.rows.drift[row] = drift

        m = contact_material(c, s.law, i, world)
        s.rows.mu[row] = scalar(m.mu)
        s.rows.vhat[row] = scalar(decay_rate(m, h))
        s.rows.Rn[row] = scalar(compliance(m, h))
        if s.law.weight_mode == DELASSUS:
            r_a = to_weight(s.rows.r_a[row])
            w = delassus_weight(s.layout, s.motion, a, b, r_a, to_weight(s.rows.r_b[row]), s.scratch)
        elif s.law.weight_mode != BODY_INERTIA:
            w = diagonal_weight(s.layout, s.motion, a, b, to_weight(s.rows.r_a[row]), to_weight(s.rows.r_b[row]))
        store_regularization(s, row, scalar(w))
        if wp.float64(w) < wp.float64(wp.static(IMMOBILE_WEIGHT)):
            # Bodies that cannot move relative to each other here: J is round-off, and its square over a floored
            # weight would be noise. In exact arithmetic such a contact does nothing, so it is kept apart.
            s.rows.vhat[row] = scalar(wp.static(NO_LIMIT))
            s.rows.mu[row] = scalar(0.0)

    return refine_contact
