"""Forward kinematics: where the bodies of a state are, how they move, and the motion columns of their joints.

A body's acceleration here is what its velocity makes of it when no dof accelerates, without gravity.
"""

import functools
from typing import Any

import warp as wp

from ..precision import Types
from .free_motion import make_free_motion_data
from .kinematics import BALL, make_kinematics, make_link


@functools.cache
def make_place_body(pose: Types, types: Types) -> Any:
    """``place_body(link, axis, d, b, q)`` for poses and motions of these precisions."""
    Data = make_free_motion_data(pose, types)
    Link = make_link(pose)
    K = make_kinematics(pose)
    is_floating, joint_translation, joint_rotation = K.is_floating, K.joint_translation, K.joint_rotation
    scalar, vec3 = types.scalar, types.vec3
    pose_vec3 = pose.vec3

    @wp.func
    def cast(v: pose_vec3) -> vec3:
        return vec3(scalar(v[0]), scalar(v[1]), scalar(v[2]))

    @wp.func
    def basis(i: int) -> pose_vec3:
        e = pose_vec3()
        e[i] = pose.scalar(1.0)
        return e

    @wp.func
    def root_origin(
        link: wp.ref[Link], axis: wp.array(dtype=pose_vec3), arm: pose_vec3, q: wp.array(dtype=wp.float64)
    ) -> wp.vec3d:
        """World position of a root body's origin: its possibly large translation is added up in fp64."""
        x = wp.vec3d()
        if is_floating(link.kind):
            x = wp.vec3d(q[link.q_start], q[link.q_start + 1], q[link.q_start + 2])
        elif link.kind != BALL:
            i = int(0)
            while i < link.linear:
                a = axis[link.dof + i]
                x += wp.vec3d(wp.float64(a[0]), wp.float64(a[1]), wp.float64(a[2])) * q[link.q_start + i]
                i += 1
        r = link.r_PF
        r64 = wp.normalize(wp.quatd(wp.float64(r[0]), wp.float64(r[1]), wp.float64(r[2]), wp.float64(r[3])))
        p = link.p_PF
        o = wp.vec3d(wp.float64(p[0]), wp.float64(p[1]), wp.float64(p[2])) + wp.quat_rotate(r64, x)
        return o - wp.vec3d(wp.float64(arm[0]), wp.float64(arm[1]), wp.float64(arm[2]))

    @wp.func
    def place_body(
        link: wp.ref[Link],
        axis: wp.array(dtype=pose_vec3),
        d: wp.ref[Data],
        b: int,
        q: wp.array(dtype=wp.float64),
    ):
        """Pose, motion columns, velocity and acceleration of one body, from those of its parent and v0."""
        parent = link.parent
        kind = link.kind
        r_WF = link.r_PF
        Vw = vec3()
        Vv = vec3()
        aw = vec3()
        av = vec3()
        p_F = pose_vec3()
        if parent >= 0:
            r_WF = d.r[parent] * r_WF
            p_F = d.p[parent] + wp.quat_rotate(d.r[parent], link.p_PF)
            Vw = d.Vw[parent]
            Vv = d.Vv[parent]
            aw = d.aw[parent]
            av = d.av[parent]
        # angular axes of a scalar joint follow one another: each is carried by the rotations before it
        e = link.dof
        r_WM = r_WF
        if is_floating(kind) or kind == BALL:
            r_WM = r_WF * joint_rotation(link, axis, q)
        else:
            i = int(link.linear)
            while i < link.dof_count:
                d.Sw[e + i] = cast(wp.quat_rotate(r_WM, axis[e + i]))
                r_WM = r_WM * wp.quat_from_axis_angle(axis[e + i], pose.scalar(q[link.q_start + i]))
                i += 1
        r_WB = wp.normalize(r_WM * link.r_MB)
        arm = wp.quat_rotate(r_WB, link.p_BM)  # from the body origin to M
        p_M = arm  # the reference point o is the root body's origin
        if parent >= 0:
            p_M = p_F + wp.quat_rotate(r_WF, joint_translation(link, axis, q))
        else:
            d.origin[b] = root_origin(link, axis, arm, q)
        p_B = p_M - arm

        if is_floating(kind):
            Vw_parent = Vw
            w_rel = vec3()
            u_rel = vec3()
            c = cast(p_B)
            for i in range(3):
                a = cast(wp.quat_rotate(r_WF, basis(i)))
                d.Sw[e + i] = a
                d.Sv[e + i] = wp.cross(c, a)
                d.Sw[e + 3 + i] = vec3()
                d.Sv[e + 3 + i] = a
                w_rel += a * scalar(d.v0[e + i])
                u_rel += a * scalar(d.v0[e + 3 + i])
            # angular columns pass through the child origin, which moves with the child
            Vw += w_rel
            Vv += u_rel + wp.cross(c, w_rel)
            origin_velocity = Vv + wp.cross(Vw, c)
            dw = wp.cross(Vw_parent, w_rel)
            aw += dw
            av += wp.cross(Vw_parent, u_rel) + wp.cross(origin_velocity, w_rel) + wp.cross(c, dw)
        elif kind == BALL:
            c = cast(p_M)
            w_rel = vec3()
            for i in range(3):
                a = cast(wp.quat_rotate(r_WF, basis(i)))
                d.Sw[e + i] = a
                d.Sv[e + i] = wp.cross(c, a)
                w_rel += a * scalar(d.v0[e + i])
            u_rel = wp.cross(c, w_rel)  # the three columns are fixed in the parent
            aw += wp.cross(Vw, w_rel)
            av += wp.cross(Vw, u_rel) + wp.cross(Vv, w_rel)
            Vw += w_rel
            Vv += u_rel
        else:
            c = cast(p_M)
            i = int(0)
            while i < link.dof_count:
                sw = vec3()
                sv = vec3()
                if i < link.linear:
                    sv = cast(wp.quat_rotate(r_WF, axis[e + i]))
                    d.Sw[e + i] = sw
                else:
                    sw = d.Sw[e + i]
                    sv = wp.cross(c, sw)
                d.Sv[e + i] = sv
                rate = scalar(d.v0[e + i])
                aw += wp.cross(Vw, sw) * rate
                av += (wp.cross(Vw, sv) + wp.cross(Vv, sw)) * rate
                Vw += sw * rate
                Vv += sv * rate
                i += 1
        d.p[b] = p_B
        d.r[b] = r_WB
        d.Vw[b] = Vw
        d.Vv[b] = Vv
        d.aw[b] = aw
        d.av[b] = av

    return place_body
