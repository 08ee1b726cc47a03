"""Floating bodies below bodies with dofs, where ``floating_body_point`` is the centre of mass.

Nothing holds them to the body above, so they go straight in the world. Their joint coordinates count from a frame F
that turns and accelerates with the body above: advancing these numbers by themselves, as the other presets do, lets the
body swerve with F within the step, an error of w^2 h r in its velocity. So the step remembers where such a body was and
how it moved in the world, moves its centre of mass there, and finds its joint coordinates from where F is after the
step. With that its velocity in the world is what the solve found, and no acceleration of F enters the bias
(`kinematics`).
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.spatial import to_unit_quat, to_vec3
from ...core.kernels.template import Constant, device
from ...core.kernels.types import FP64
from .boundary_data import BoundaryData
from .integrate import CENTERED, MIDPOINT, turn

F = wp.float64
to_vec3d, to_quatd = (function.on(number=Constant(FP64)) for function in (to_vec3, to_unit_quat))


@device
def remember_floating_children(io: wp.ref[BoundaryData], world: int, after: int):
    """Note pose and motion of a world's floating children, by all lanes.

    Velocities are those before (``after`` 0) and then after (1) the step.
    """
    share = F(0.5)
    if io.integration % CENTERED != MIDPOINT:
        share = F(after)
    i_end = io.layout.world_floating_child[world + 1]
    i = int(io.layout.world_floating_child[world] + lane())
    while i < i_end:
        b = io.layout.floating_child[i]
        p = to_vec3d(io.motion.p[b])
        w = to_vec3d(io.motion.Vw[b])
        v = to_vec3d(io.motion.Vv[b]) + wp.cross(w, p)
        child = io.floating_children[i]
        if after == 0:
            child.w_mean = wp.vec3d()
            child.v_mean = wp.vec3d()
        child.x = io.motion.origin[io.layout.body_root[b]] + p
        child.r = to_quatd(io.motion.r[b])
        child.w_mean += share * w
        child.v_mean += share * v
        child.w = w
        child.v = v
        io.floating_children[i] = child
        i += lane_count()
    barrier()


@device
def release_floating_children(io: wp.ref[BoundaryData], k: int, h: F):
    """Move floating child k in the world for h, and find its joint coordinates; its parent is placed after h."""
    child = io.floating_children[k]
    b = io.layout.floating_child[k]
    link = io.links[b]
    r_WB = turn(child.r, child.w_mean, h, io.integration % CENTERED)
    x = child.x + child.v_mean * h
    arm = wp.quat_rotate(child.r, to_vec3d(link.com))
    turned = wp.quat_rotate(r_WB, to_vec3d(link.com))
    x += wp.cross(child.w_mean, arm) * h + arm - turned
    v = child.v + wp.cross(child.w, arm - turned)
    o = io.motion.origin[io.layout.body_root[b]]
    w_P = to_vec3d(io.motion.Vw[link.parent])
    v_P = to_vec3d(io.motion.Vv[link.parent]) + wp.cross(w_P, x - o)
    r_WP = to_quatd(io.motion.r[link.parent])
    r_WF = r_WP * to_quatd(link.r_PF)
    p_F = o + to_vec3d(io.motion.p[link.parent]) + wp.quat_rotate(r_WP, to_vec3d(link.p_PF))
    p_FM = wp.quat_rotate_inv(r_WF, x + wp.quat_rotate(r_WB, to_vec3d(link.p_BM)) - p_F)
    r_FM = wp.normalize(wp.quat_inverse(r_WF) * r_WB * wp.quat_inverse(to_quatd(link.r_MB)))
    w_F = wp.quat_rotate_inv(r_WF, child.w - w_P)
    v_F = wp.quat_rotate_inv(r_WF, v - v_P)
    for i in range(3):
        io.coordinates.q[link.q_start + i] = p_FM[i]
        io.v_new[link.qd_start + i] = w_F[i]
        io.v_new[link.qd_start + 3 + i] = v_F[i]
    for i in range(4):
        io.coordinates.q[link.q_start + 3 + i] = r_FM[i]
