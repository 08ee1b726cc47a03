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

from __future__ import annotations

import warp as wp

from ...core.kernels.contact_gap import contact_gap
from ...core.kernels.lanes import lane_count
from ...core.kernels.spatial import rotation_matrix, to_quat, to_vec3
from ...core.kernels.template import Constant, device
from ...core.kernels.types import FP64
from ..model.motion_data import MotionData
from ..settings.options import CONTACT_POINT_MODES
from ..settings.precisions import contact_pose, pose, solve, weight
from ..state.kinematics import point_acceleration
from ..terms.contact import ContactLaw, Material, combine_materials, compliance, decay_rate, regularize
from ..terms.limit import NO_LIMIT
from .data import KINEMATIC, MASSLESS, MOVED, ContactInput, ContactStage, ShapeOwner
from .weight import BODY_INERTIA, DELASSUS, body_mobility, delassus_weight, diagonal_weight

scalar, vec3 = solve.scalar, solve.vec3
pose_scalar, pose_vec3, pose_mat33 = contact_pose.scalar, contact_pose.vec3, contact_pose.mat33
weight_scalar = weight.scalar
to_pose, to_pose_quat = to_vec3.on(number=contact_pose), to_quat.on(number=contact_pose)
pose_rotation = rotation_matrix.on(number=contact_pose)
to_vec3_64, to_solve = to_vec3.on(number=Constant(FP64)), to_vec3.on(number=solve)
to_weight, to_weight_quat = to_vec3.on(number=weight), to_quat.on(number=weight)

MIDPOINT = wp.constant(CONTACT_POINT_MODES.index("contact_midpoint"))
IMMOBILE_WEIGHT = 1e-20
"""Below this a computed weight is the square of round-off [1/kg]."""


@device
def body_rotation(motion: wp.ref[MotionData], b: int) -> pose_mat33:
    """R_WB of a body."""
    q = to_pose_quat(motion.r[b])
    if wp.static(contact_pose is not pose):  # rounded, so no longer of unit length
        q = wp.normalize(q)
    return pose_rotation(q)


@device
def body_point(motion: wp.ref[MotionData], b: int, point: wp.vec3d) -> pose_vec3:
    """Position of a body-fixed point relative to its tree's reference point."""
    return to_pose(motion.p[b]) + body_rotation(motion, b) * to_pose(point)


@device
def side_points(motion: wp.ref[MotionData], side: wp.ref[ShapeOwner], reference: int, core: wp.vec3d, offset: wp.vec3d):
    """A contact's point on the core of a shape and the one on its surface.

    They are measured about the reference point of the tree with the root ``reference``: a moving body's own tree,
    else its partner's, so that only near points are subtracted.
    """
    if side.body < 0:
        x = to_pose(core - motion.origin[reference])
        return x, x + to_pose(offset)
    R = body_rotation(motion, side.body)
    y = to_pose(motion.p[side.body]) + R * to_pose(core)
    if side.moving < 0:
        y = y + to_pose(motion.origin[side.root] - motion.origin[reference])
    return y, y + R * to_pose(offset)


@wp.func
def reference_root(side: wp.ref[ShapeOwner], other: wp.ref[ShapeOwner]) -> int:
    """Root whose reference point a side is measured about."""
    return wp.where(side.moving >= 0, side.root, other.root)


@wp.func
def shape_material(buffer: wp.ref[ContactInput], law: wp.ref[ContactLaw], shape: int, world: int) -> Material:
    """What the model says of a shape in a world, or else the solver's options."""
    material = Material()
    material.k = law.fallback_stiffness
    material.mu = law.fallback_mu
    material.tau = law.tau_d
    if shape >= 0:
        k = wp.float64(buffer.shape_ke[shape])
        mu = wp.float64(buffer.shape_mu[shape])
        ground = buffer.shape_owner[shape + 1].ground
        if ground >= 0:
            if buffer.own_ground[0] != 0:
                mu = wp.float64(buffer.ground_mu[world * buffer.ground_count + ground])
        tau = wp.float64(buffer.shape_tau[shape])
        material.k = wp.where(k > wp.float64(0.0), k, material.k)
        material.mu = wp.where(mu >= wp.float64(0.0), mu, material.mu)
        material.tau = wp.where(tau >= wp.float64(0.0), tau, material.tau)
    return material


@wp.func
def contact_material(buffer: wp.ref[ContactInput], law: wp.ref[ContactLaw], i: int, world: int) -> Material:
    """Material of one contact. Overrides as Newton means them: stiffness and damping replace, friction scales."""
    material = combine_materials(
        shape_material(buffer, law, buffer.rows.shape0[i], world),
        shape_material(buffer, law, buffer.rows.shape1[i], world),
    )
    if buffer.has_overrides != 0:
        if buffer.stiffness[i] > 0.0:
            material.k = wp.float64(buffer.stiffness[i])
        if buffer.damping[i] > 0.0:
            material.tau = wp.float64(buffer.damping[i]) / material.k
        if buffer.friction[i] > 0.0:
            material.mu = material.mu * wp.float64(buffer.friction[i])
    return material


@device
def row_gap(buffer: wp.ref[ContactInput], motion: wp.ref[MotionData], i: int) -> pose_scalar:
    """phi0 of contact i of the buffer [m], as its row will have it."""
    n = wp.normalize(to_pose(buffer.rows.normal[i]))
    side0 = buffer.shape_owner[buffer.rows.shape0[i] + 1]
    side1 = buffer.shape_owner[buffer.rows.shape1[i] + 1]
    o_a = reference_root(side0, side1)
    o_b = reference_root(side1, side0)
    core0, _ = side_points(motion, side0, o_a, to_vec3_64(buffer.rows.point0[i]), wp.vec3d())
    core1, _ = side_points(motion, side1, o_b, to_vec3_64(buffer.rows.point1[i]), wp.vec3d())
    phi = contact_gap(n, core1 - core0, pose_scalar(buffer.rows.margin0[i]), pose_scalar(buffer.rows.margin1[i]))
    if o_a != o_b:
        phi += wp.dot(n, to_pose(motion.origin[o_b] - motion.origin[o_a]))
    return phi


@device
def assign_contacts(
    stage: wp.ref[ContactStage], buffer: wp.ref[ContactInput], to_slot: int, begin: int, end: int
) -> int:
    """Find the bodies of a lane's share of the rows ``begin`` to ``end - 1``; row i is slot i + ``to_slot``.

    Returns the flags of these rows together.
    """
    row_flags = int(0)
    # contacts of the same two shapes come in a row and share all this
    last0 = int(-2)
    last1 = int(-2)
    a = int(-1)
    b = int(-1)
    row = int(begin)
    while row < end:
        i = stage.slot[row + to_slot]
        shape0 = buffer.rows.shape0[i]
        shape1 = buffer.rows.shape1[i]
        if shape0 != last0 or shape1 != last1:
            last0 = shape0
            last1 = shape1
            a = buffer.shape_owner[shape0 + 1].moving
            b = buffer.shape_owner[shape1 + 1].moving
            row_flags = row_flags | buffer.shape_owner[shape0 + 1].row_flags | buffer.shape_owner[shape1 + 1].row_flags
        stage.rows.source[row] = i
        if stage.rows.body_a[row] != a or stage.rows.body_b[row] != b:
            row_flags = row_flags | MOVED
        stage.rows.body_a[row] = a
        stage.rows.body_b[row] = b
        row += lane_count()
    return row_flags


@device
def store_regularization(stage: wp.ref[ContactStage], row: int, w: scalar, rate: scalar, soft: scalar):
    """Store R_t, R_n and vhat of a row with a gap, from its weight, decay rate and compliance."""
    result = regularize(stage.law, stage.rows.phi0[row], w, rate, soft)
    stage.rows.weight[row] = result.weight
    stage.rows.Rt[row] = result.Rt
    stage.rows.Rn[row] = result.Rn
    stage.rows.vhat[row] = result.vhat


@device
def side_mobility(stage: wp.ref[ContactStage], side: wp.ref[ShapeOwner], p: wp.vec3d) -> weight_scalar:
    """Share in w of a shape's body at its point p, in its frame."""
    if side.moving < 0:
        return weight_scalar(0.0)
    return body_mobility(stage.mobility[side.moving], to_weight(p))


@device
def place_contacts(
    stage: wp.ref[ContactStage], buffer: wp.ref[ContactInput], begin: int, end: int, world: int, h: wp.float64
):
    """Find geometry and material of assigned rows, and weights from their two bodies."""
    # contacts of the same two shapes come in a row and share their material
    last0 = int(-2)
    last1 = int(-2)
    mu = scalar(0.0)
    rate = scalar(0.0)
    soft = scalar(0.0)
    row = int(begin)
    while row < end:
        i = stage.rows.source[row]
        shape0 = buffer.rows.shape0[i]
        shape1 = buffer.rows.shape1[i]
        if shape0 != last0 or shape1 != last1:
            last0 = shape0
            last1 = shape1
            material = combine_materials(
                shape_material(buffer, stage.law, shape0, world), shape_material(buffer, stage.law, shape1, world)
            )
            mu = scalar(material.mu)
            rate = scalar(decay_rate(material, h))
            soft = scalar(compliance(material, h))
        stage.rows.mu[row] = mu
        n = to_pose(buffer.rows.normal[i])
        square = wp.dot(n, n)
        n = n * (pose_scalar(1.0) / wp.sqrt(wp.where(square < pose_scalar(1e-30), pose_scalar(1e-30), square)))
        stage.rows.normal[row] = to_solve(n)
        if wp.static(contact_pose is not solve):  # rounded, so no longer of unit length
            stage.rows.normal[row] = wp.normalize(to_solve(n))
        side0 = buffer.shape_owner[shape0 + 1]
        side1 = buffer.shape_owner[shape1 + 1]
        o_a = reference_root(side0, side1)
        o_b = reference_root(side1, side0)
        point0 = to_vec3_64(buffer.rows.point0[i])
        offset0 = to_vec3_64(buffer.rows.offset0[i])
        core0, x0 = side_points(stage.motion, side0, o_a, point0, offset0)
        w = side_mobility(stage, side0, point0 + offset0)
        stage.rows.r_a[row] = to_solve(x0)
        point1 = to_vec3_64(buffer.rows.point1[i])
        offset1 = to_vec3_64(buffer.rows.offset1[i])
        core1, x1 = side_points(stage.motion, side1, o_b, point1, offset1)
        w += side_mobility(stage, side1, point1 + offset1)
        stage.rows.r_b[row] = to_solve(x1)
        phi0 = contact_gap(n, core1 - core0, pose_scalar(buffer.rows.margin0[i]), pose_scalar(buffer.rows.margin1[i]))
        if o_a != o_b:
            phi0 += wp.dot(n, to_pose(stage.motion.origin[o_b] - stage.motion.origin[o_a]))
        stage.rows.drift[row] = vec3()
        stage.rows.phi0[row] = scalar(phi0)
        store_regularization(stage, row, scalar(w), rate, soft)
        row += lane_count()


@device
def kinematic_velocity(motion: wp.ref[MotionData], side: wp.ref[ShapeOwner], reference: int, x: vec3) -> vec3:
    """Velocity that a kinematic root gives the point x of a body, x measured as in `side_points`."""
    v = vec3()
    if (side.row_flags & KINEMATIC) != 0:
        arm = x + to_solve(to_pose(motion.origin[reference] - motion.origin[side.root]))
        v = to_solve(motion.Vv[side.root]) + wp.cross(to_solve(motion.Vw[side.root]), arm)
    return v


@device
def carrier_mobility(stage: wp.ref[ContactStage], b: int, r: vec3) -> weight_scalar:
    """Share in w of body b, which may have no mass, at the point r about its tree's reference point."""
    if b < 0:
        return weight_scalar(0.0)
    carrier = stage.mobility[b].carrier
    if carrier < 0:
        return diagonal_weight(stage.layout, stage.motion, b, -1, to_weight(r), to_weight(r))
    arm = to_weight(r) - to_weight(stage.motion.p[carrier])
    return body_mobility(stage.mobility[b], wp.quat_rotate_inv(to_weight_quat(stage.motion.r[carrier]), arm))


@device
def refine_contact(stage: wp.ref[ContactStage], buffer: wp.ref[ContactInput], row: int, h: wp.float64):
    """What only some contacts need: a midpoint, prescribed velocities, other materials and other weights."""
    i = stage.rows.source[row]
    world = row // stage.rows.capacity
    side0 = buffer.shape_owner[buffer.rows.shape0[i] + 1]
    side1 = buffer.shape_owner[buffer.rows.shape1[i] + 1]
    o_a = reference_root(side0, side1)
    o_b = reference_root(side1, side0)
    a = side0.moving
    b = side1.moving
    w = weight_scalar(stage.rows.weight[row])
    if ((side0.row_flags | side1.row_flags) & MASSLESS) != 0:  # at the witnesses, whatever the velocity points
        w = carrier_mobility(stage, a, stage.rows.r_a[row])
        w += carrier_mobility(stage, b, stage.rows.r_b[row])
    if stage.law.point_mode == MIDPOINT:
        k0 = shape_material(buffer, stage.law, buffer.rows.shape0[i], world).k
        k1 = shape_material(buffer, stage.law, buffer.rows.shape1[i], world).k
        shift = to_solve(to_pose(stage.motion.origin[o_b] - stage.motion.origin[o_a]))
        share = k0 / (k0 + k1)
        midpoint = stage.rows.r_a[row] * scalar(share) + (stage.rows.r_b[row] + shift) * scalar(wp.float64(1.0) - share)
        stage.rows.r_a[row] = midpoint
        stage.rows.r_b[row] = midpoint - shift
    drift = kinematic_velocity(stage.motion, side1, o_b, stage.rows.r_b[row]) - kinematic_velocity(
        stage.motion, side0, o_a, stage.rows.r_a[row]
    )
    n = stage.rows.normal[row]
    if buffer.has_surface_velocity != 0:  # of shape 1 relative to shape 0, along the surface
        slip = to_solve(buffer.surface_velocity[i])
        drift += slip - n * wp.dot(n, slip)
    if stage.law.follows != 0:
        turn = point_acceleration(stage.motion, b, stage.rows.r_b[row]) - point_acceleration(
            stage.motion, a, stage.rows.r_a[row]
        )
        drift += scalar(stage.law.follow_share * h) * (turn - n * wp.dot(n, turn))
    stage.rows.drift[row] = drift

    material = contact_material(buffer, stage.law, i, world)
    stage.rows.mu[row] = scalar(material.mu)
    if stage.law.weight_mode == DELASSUS:
        r_a = to_weight(stage.rows.r_a[row])
        w = delassus_weight(stage.layout, stage.motion, a, b, r_a, to_weight(stage.rows.r_b[row]), stage.scratch)
    elif stage.law.weight_mode != BODY_INERTIA:
        w = diagonal_weight(
            stage.layout, stage.motion, a, b, to_weight(stage.rows.r_a[row]), to_weight(stage.rows.r_b[row])
        )
    store_regularization(stage, row, scalar(w), scalar(decay_rate(material, h)), scalar(compliance(material, h)))
    if wp.float64(w) < wp.float64(wp.static(IMMOBILE_WEIGHT)):
        # Bodies that cannot move relative to each other here: J is round-off, and its square over a floored
        # weight would be noise. In exact arithmetic such a contact does nothing, so it is kept apart.
        stage.rows.vhat[row] = scalar(wp.static(NO_LIMIT))
        stage.rows.mu[row] = scalar(0.0)
