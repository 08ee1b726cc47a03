"""Floating bodies below bodies with dofs, where ``floating_body_point`` is the centre of mass.

Nothing holds them to what carries them, so they go straight in the world. Their joint coordinates count from a frame F
that turns and accelerates with the body above: advancing these numbers by themselves, as the other presets do, lets the
body swerve with F within the step, an error of w^2 h r in its velocity. So the step remembers where such a body was and
how it moved in the world, moves its centre of mass there, and finds its joint coordinates from where F is after the
step. With that its velocity in the world is what the solve found, and no acceleration of F enters the bias
(`kinematics`).
"""

import functools
from typing import Any

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.spatial import make_spatial
from ...core.kernels.types import FP64, Types
from .boundary_data import make_boundary_data
from .integrate import CENTERED, MIDPOINT, make_turn


@functools.cache
def make_carried(pose: Types, types: Types) -> tuple[Any, Any]:
    """Device functions ``remember_carried``, for all lanes, and ``release_carried``, for one body."""
    Boundary = make_boundary_data(pose, types)
    S = make_spatial(FP64)
    to_vec3, to_unit_quat = S.to_vec3, S.to_unit_quat
    turn = make_turn()
    F = wp.float64

    @wp.func
    def remember_carried(io: wp.ref[Boundary], world: int, after: int):
        """Note pose and motion of a world's carried bodies, with velocities before (0) and then after (1) the step."""
        share = F(0.5)
        if io.integration % CENTERED != MIDPOINT:
            share = F(after)
        i_end = io.layout.world_carried[world + 1]
        i = int(io.layout.world_carried[world] + lane())
        while i < i_end:
            b = io.layout.carried_body[i]
            p = to_vec3(io.d.p[b])
            w = to_vec3(io.d.Vw[b])
            v = to_vec3(io.d.Vv[b]) + wp.cross(w, p)
            m = io.carried[i]
            if after == 0:
                m.w_mean = wp.vec3d()
                m.v_mean = wp.vec3d()
            m.x = io.d.origin[io.layout.body_root[b]] + p
            m.r = to_unit_quat(io.d.r[b])
            m.w_mean += share * w
            m.v_mean += share * v
            m.w = w
            m.v = v
            io.carried[i] = m
            i += lane_count()
        barrier()

    @wp.func
    def release_carried(io: wp.ref[Boundary], k: int, h: F):
        """Move carried body k in the world for h, and find its joint coordinates; its parent is placed after h."""
        m = io.carried[k]
        b = io.layout.carried_body[k]
        link = io.links[b]
        r_WB = turn(m.r, m.w_mean, h, io.integration % CENTERED)
        x = m.x + m.v_mean * h
        arm = wp.quat_rotate(m.r, to_vec3(link.com))
        turned = wp.quat_rotate(r_WB, to_vec3(link.com))
        x += wp.cross(m.w_mean, arm) * h + arm - turned
        v = m.v + wp.cross(m.w, arm - turned)
        o = io.d.origin[io.layout.body_root[b]]
        w_P = to_vec3(io.d.Vw[link.parent])
        v_P = to_vec3(io.d.Vv[link.parent]) + wp.cross(w_P, x - o)
        r_WP = to_unit_quat(io.d.r[link.parent])
        r_WF = r_WP * to_unit_quat(link.r_PF)
        p_F = o + to_vec3(io.d.p[link.parent]) + wp.quat_rotate(r_WP, to_vec3(link.p_PF))
        p_FM = wp.quat_rotate_inv(r_WF, x + wp.quat_rotate(r_WB, to_vec3(link.p_BM)) - p_F)
        r_FM = wp.normalize(wp.quat_inverse(r_WF) * r_WB * wp.quat_inverse(to_unit_quat(link.r_MB)))
        w_F = wp.quat_rotate_inv(r_WF, m.w - w_P)
        v_F = wp.quat_rotate_inv(r_WF, v - v_P)
        for i in range(3):
            io.c.q[link.q_start + i] = p_FM[i]
            io.v_new[link.qd_start + i] = w_F[i]
            io.v_new[link.qd_start + 3 + i] = v_F[i]
        for i in range(4):
            io.c.q[link.q_start + 3 + i] = r_FM[i]

    return remember_carried, release_carried
