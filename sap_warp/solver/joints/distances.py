"""Bounds of distance joints: each that takes part (`terms/limit.py`) becomes a contact without friction.

The distance is between the anchors of the joint on parent and child. Body a of the contact is the parent at the lower
bound and the child at the upper one, which pulls the child towards the parent: so a positive normal velocity opens
either bound.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.spatial import to_vec3
from ...core.kernels.template import Constant, device, device_struct
from ...core.kernels.types import FP64
from ..contact.data import ContactStage, DofInput
from ..contact.rows import body_point
from ..settings.precisions import contact_pose, solve
from ..terms.limit import limit_R

scalar, vec3 = solve.scalar, solve.vec3
to_vec3_64, to_pose, to_solve = (to_vec3.on(number=to) for to in (Constant(FP64), contact_pose, solve))


@device_struct
class Bound:
    """One bound of a distance joint as a contact; the fields are those of `ContactData`."""

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


@device
def find_bound(stage: wp.ref[ContactStage], dofs: wp.ref[DofInput], b: int, upper: bool, h: wp.float64) -> Bound:
    """Return the upper or lower bound of the distance joint above body b."""
    found = Bound()
    joint = stage.layout.body_joint[b]
    dof = stage.joints.joint_qd_start[joint]
    bound = wp.where(upper, scalar(dofs.limit_upper[dof]), scalar(dofs.limit_lower[dof]))
    ke = scalar(dofs.limit_ke[dof])
    if bound < scalar(0.0) or ke <= scalar(0.0):
        return found
    parent = stage.layout.body_parent[b]
    child = body_point(stage.motion, b, to_vec3_64(wp.transform_get_translation(stage.joints.joint_X_c[joint])))
    anchor_local = to_vec3_64(wp.transform_get_translation(stage.joints.joint_X_p[joint]))
    anchor = to_pose(anchor_local - stage.motion.origin[stage.layout.body_root[b]])
    moving_parent = int(-1)
    above = int(-1)
    if parent >= 0:
        anchor = body_point(stage.motion, parent, anchor_local)
        if stage.layout.body_chain[parent] >= 0:
            moving_parent = parent
            above = stage.layout.body_chain[parent]
    r_child = to_solve(child)
    r_parent = to_solve(anchor)
    length = wp.length(child - anchor)
    if length <= contact_pose.scalar(0.0):
        return found
    n = to_solve((child - anchor) / length)
    w = scalar(0.0)
    rate0 = scalar(0.0)
    rate_star = scalar(0.0)
    e = stage.layout.body_chain[b]
    while e >= 0:
        sw = to_solve(stage.motion.Sw[e])
        column = to_solve(stage.motion.Sv[e]) + wp.cross(sw, r_child)
        if e == above:
            column -= to_solve(stage.motion.Sv[e]) + wp.cross(sw, r_parent)
            above = stage.layout.dof_parent[above]
        j = wp.dot(n, column)
        rate0 += j * scalar(stage.motion.v0[e])
        rate_star += j * scalar(stage.motion.v_star[e])
        w += j * j * scalar(stage.motion.inverse_diagonal[e])
        e = stage.layout.dof_parent[e]
    kd = scalar(dofs.limit_kd[dof])
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


@device
def store_bound(stage: wp.ref[ContactStage], bound: wp.ref[Bound], row: int):
    """Store a bound as contact ``row``."""
    stage.rows.source[row] = -1
    stage.rows.drift[row] = vec3()  # a kinematic root carries both ends: the distance does not change by it
    stage.rows.phi0[row] = bound.phi0
    stage.rows.vhat[row] = bound.vhat
    stage.rows.mu[row] = scalar(0.0)
    stage.rows.weight[row] = bound.weight
    stage.rows.Rt[row] = bound.weight
    stage.rows.Rn[row] = bound.Rn
    stage.rows.normal[row] = bound.normal
    stage.rows.body_a[row] = bound.a
    stage.rows.body_b[row] = bound.b
    stage.rows.r_a[row] = bound.r_a
    stage.rows.r_b[row] = bound.r_b
