"""Forward kinematics: where the bodies of a state are, how they move, and the motion columns of their joints.

A body's acceleration here is what its velocity makes of it when no dof accelerates, without gravity.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ..kernels.lanes import barrier, lane
from ..kernels.types import Types
from .free_motion import make_free_motion_data
from .kinematics import AT_M, AT_PARENT, BALL, UNTURNED_F, UNTURNED_M, make_kinematics, make_link
from .layout import Layout
from .wide import make_wide_placement


@functools.cache
def make_placement(pose: Types, types: Types, native: bool = True) -> SimpleNamespace:
    """Functions for poses and motions of these precisions. ``native=False`` is for one lane without `wide`."""
    Data = make_free_motion_data(pose, types)
    Link = make_link(pose)
    K = make_kinematics(pose)
    is_floating, joint_translation, joint_rotation = K.is_floating, K.joint_translation, K.joint_rotation
    rotate, rotation_matrix, body_rotation, load_quat = K.rotate, K.rotation_matrix, K.body_rotation, K.load_quat
    carried = make_wide_placement(pose, types, Layout, Link, Data, native)
    scalar, vec3 = types.scalar, types.vec3
    pose_vec3 = pose.vec3

    @wp.func
    def cast(v: pose_vec3) -> vec3:
        return vec3(scalar(v[0]), scalar(v[1]), scalar(v[2]))

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
        if (link.simple & UNTURNED_F) == 0:
            r = link.r_PF
            r64 = wp.quatd(wp.float64(r[0]), wp.float64(r[1]), wp.float64(r[2]), wp.float64(r[3]))
            x = wp.quat_rotate(wp.normalize(r64), x)
        p = link.p_PF
        o = wp.vec3d(wp.float64(p[0]), wp.float64(p[1]), wp.float64(p[2])) + x
        return o - wp.vec3d(wp.float64(arm[0]), wp.float64(arm[1]), wp.float64(arm[2]))

    @wp.func
    def turn_axes(link: wp.ref[Link], d: wp.ref[Data], q: wp.array(dtype=wp.float64)):
        """Sines and cosines for `place_body`, where they would cost all registers."""
        if not is_floating(link.kind) and link.kind != BALL:
            n = link.dof_count
            i = int(link.linear)
            while i < n:
                half = pose.scalar(0.5) * pose.scalar(q[link.q_start + i])
                d.turn[link.dof + i] = pose.vec2(wp.sin(half), wp.cos(half))
                i += 1

    @wp.func
    def place_floating_root(
        link: wp.ref[Link], axis: wp.array(dtype=pose_vec3), d: wp.ref[Data], b: int, q: wp.array(dtype=wp.float64)
    ):
        """The same as `place_body` for a root that floats: its origin is o, and nothing carries it."""
        e = link.dof
        turned = (link.simple & UNTURNED_F) == 0
        r_WB = load_quat(q, link.q_start + 3)
        if turned:
            r_WB = link.r_PF * r_WB
        if turned or (link.simple & UNTURNED_M) == 0:
            r_WB = body_rotation(link, r_WB)
        arm = pose_vec3()
        if (link.simple & AT_M) == 0:
            arm = rotate(r_WB, link.p_BM)
        d.origin[b] = root_origin(link, axis, arm, q)
        d.p[b] = pose_vec3()
        d.r[b] = r_WB
        w = vec3(scalar(d.v0[e]), scalar(d.v0[e + 1]), scalar(d.v0[e + 2]))
        u = vec3(scalar(d.v0[e + 3]), scalar(d.v0[e + 4]), scalar(d.v0[e + 5]))
        for i in range(3):
            a = vec3()
            a[i] = scalar(1.0)
            d.Sw[e + i] = a
            d.Sv[e + i] = vec3()
            d.Sw[e + 3 + i] = vec3()
            d.Sv[e + 3 + i] = a
        if turned:
            for i in range(3):
                a = cast(rotate(link.r_PF, pose_vec3(d.Sw[e + i])))
                d.Sw[e + i] = a
                d.Sv[e + 3 + i] = a
            w = d.Sw[e] * w[0] + d.Sw[e + 1] * w[1] + d.Sw[e + 2] * w[2]
            u = d.Sw[e] * u[0] + d.Sw[e + 1] * u[1] + d.Sw[e + 2] * u[2]
        d.Vw[b] = w
        d.Vv[b] = u
        d.aw[b] = vec3()
        d.av[b] = wp.cross(u, w)  # the angular columns pass through the origin, which moves

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
        simple = link.simple
        if parent < 0 and is_floating(kind):
            place_floating_root(link, axis, d, b, q)
            return
        e = link.dof
        Vw = vec3()
        Vv = vec3()
        aw = vec3()
        av = vec3()
        p_M = pose_vec3()
        r_WF = link.r_PF
        if parent >= 0:
            r_P = d.r[parent]
            p_M = d.p[parent]
            if (simple & AT_PARENT) == 0:
                p_M += rotate(r_P, link.p_PF)
            r_WF = r_P
            if (simple & UNTURNED_F) == 0:
                r_WF = r_P * link.r_PF
            Vw = d.Vw[parent]
            Vv = d.Vv[parent]
            aw = d.aw[parent]
            av = d.av[parent]
            if link.linear != 0 and kind != BALL:
                p_M += rotate(r_WF, joint_translation(link, axis, q))
        r_WB = r_WF
        arm = pose_vec3()  # from the body origin to M
        if parent < 0 or is_floating(kind) or kind == BALL:
            r_WB = body_rotation(link, r_WF * joint_rotation(link, axis, q))
            if (simple & AT_M) == 0:
                arm = rotate(r_WB, link.p_BM)
            if parent < 0:
                p_M = arm  # the reference point o is the root body's origin
                d.origin[b] = root_origin(link, axis, arm, q)
        if is_floating(kind) or kind == BALL:
            c = cast(p_M)
            if is_floating(kind):
                c = cast(p_M - arm)
            R = rotation_matrix(r_WF)
            w_rel = vec3()
            for i in range(3):
                a = cast(pose_vec3(R[0, i], R[1, i], R[2, i]))
                d.Sw[e + i] = a
                d.Sv[e + i] = wp.cross(c, a)
                w_rel += a * scalar(d.v0[e + i])
            if kind == BALL:
                u_rel = wp.cross(c, w_rel)  # the three columns are fixed in the parent
                aw += wp.cross(Vw, w_rel)
                av += wp.cross(Vw, u_rel) + wp.cross(Vv, w_rel)
                Vw += w_rel
                Vv += u_rel
            else:
                u_rel = vec3()
                for i in range(3):
                    a = cast(pose_vec3(R[0, i], R[1, i], R[2, i]))
                    d.Sw[e + 3 + i] = vec3()
                    d.Sv[e + 3 + i] = a
                    u_rel += a * scalar(d.v0[e + 3 + i])
                # angular columns pass through the child origin, which moves with the child
                dw = wp.cross(Vw, w_rel)
                av += wp.cross(Vw, u_rel) + wp.cross(c, dw)
                aw += dw
                Vw += w_rel
                Vv += u_rel + wp.cross(c, w_rel)
                av += wp.cross(Vv + wp.cross(Vw, c), w_rel)
        else:
            # angular axes of a scalar joint follow one another: each is carried by the rotations before it
            c = cast(p_M)
            r_WM = r_WF
            n = link.dof_count
            linear = link.linear
            i = int(0)
            while i < n:
                unit = axis[e + i]
                s = cast(rotate(r_WM, unit))
                rate = scalar(d.v0[e + i])
                dw = vec3()
                if i < linear:
                    d.Sw[e + i] = vec3()
                    d.Sv[e + i] = s
                else:
                    t = d.turn[e + i]
                    r_WM = r_WM * pose.quat(unit[0] * t[0], unit[1] * t[0], unit[2] * t[0], t[1])
                    d.Sw[e + i] = s
                    dw = s * rate
                    s = wp.cross(c, s)
                    d.Sv[e + i] = s
                dv = s * rate
                aw += wp.cross(Vw, dw)
                av += wp.cross(Vw, dv) + wp.cross(Vv, dw)
                Vw += dw
                Vv += dv
                i += 1
            if parent >= 0:
                r_WB = body_rotation(link, r_WM)
                if (simple & AT_M) == 0:
                    arm = rotate(r_WB, link.p_BM)
        d.p[b] = p_M - arm
        d.r[b] = r_WB
        d.Vw[b] = Vw
        d.Vv[b] = Vv
        d.aw[b] = aw
        d.av[b] = av

    @wp.func
    def place_world(
        layout: wp.ref[Layout],
        links: wp.array(dtype=Link),
        axis: wp.array(dtype=pose_vec3),
        d: wp.ref[Data],
        world: int,
        q: wp.array(dtype=wp.float64),
    ):
        """Pose, motion columns, velocity and acceleration of all bodies of a world, from q and v0."""
        first = layout.world_body[world]
        b = int(layout.world_body[world + 1])
        if wp.block_dim() == 1:
            while b > first:
                b -= 1
                turn_axes(links[b], d, q)
                place_body(links[b], axis, d, b, q)
                if layout.body_parent[b] < 0:
                    b -= carried(layout, links, axis, d, first, b, q)
        else:
            b_end = b
            b = first + lane()
            while b < b_end:
                turn_axes(links[b], d, q)
                b += wp.block_dim()
            barrier()
            level_end = layout.world_level[world + 1]
            level = int(layout.world_level[world])
            while level < level_end:
                i_end = layout.level_start[level + 1]
                i = int(layout.level_start[level] + lane())
                while i < i_end:
                    b = layout.level_body[i]
                    place_body(links[b], axis, d, b, q)
                    i += wp.block_dim()
                barrier()
                level += 1

    return SimpleNamespace(place_world=place_world)
