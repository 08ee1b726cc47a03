"""Forward kinematics: where the bodies of a state are, how they move, and the motion columns of their joints.

Newton decides what joint_q and joint_qd of every joint type mean: ``joint_q`` is X_FM (frames: `links`), velocities of
ball, free and distance joints are expressed in F. A body's acceleration here is what its velocity makes of it when no
dof accelerates, without gravity.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.lanes import barrier, is_native, lane, lane_count, native_twin
from ...core.kernels.spatial import make_spatial
from ...core.kernels.types import FP64, Doubles, Types
from ..model.links import (
    AT_M,
    AT_PARENT,
    BALL,
    CARRIED,
    CENTERED,
    DISTANCE,
    FREE,
    SCALAR_JOINT,
    UNTURNED_F,
    UNTURNED_M,
    JointParameters,
    make_link,
)
from ..model.motion_data import make_motion_data
from .boundary_data import make_boundary_data


@wp.func
def is_floating(kind: int) -> bool:
    """Whether a joint of this type leaves its body all six dofs."""
    return kind == FREE or kind == DISTANCE


@functools.cache
def make_com_offset(coordinates: Types = FP64):
    """``com_offset(p, joint, q)``: from the origin of a floating body to its centre of mass, in F, fp64.

    This is the r of the boundary formulas. ``coordinates`` is the precision of q.
    """
    S = make_spatial(FP64)
    to_vec3, to_unit_quat, load_quat = S.to_vec3, S.to_unit_quat, S.load_quat

    @wp.func
    def com_offset(p: wp.ref[JointParameters], joint: int, q: wp.array[coordinates.scalar]) -> wp.vec3d:
        com = p.body_com[p.joint_child[joint]]
        if wp.abs(com[0]) + wp.abs(com[1]) + wp.abs(com[2]) == float(0.0):
            return wp.vec3d()
        r_FM = load_quat(q, p.joint_q_start[joint] + 3)
        r_BM = to_unit_quat(wp.transform_get_rotation(p.joint_X_c[joint]))
        return wp.quat_rotate(r_FM * wp.quat_inverse(r_BM), to_vec3(com))

    return com_offset


@functools.cache
def make_joint_pose(types: Types) -> SimpleNamespace:
    """Device functions for X_FM of a joint, and for the rotation of the body that it carries."""
    scalar, vec3, quat = types.scalar, types.vec3, types.quat
    Link = make_link(types)
    S = make_spatial(types)
    load_vec3, load_quat, turn_about = S.load_vec3, S.load_quat, S.turn_about

    @wp.func
    def joint_translation(link: wp.ref[Link], axis: wp.array[vec3], q: Doubles) -> vec3:
        """p_FM at joint_q."""
        x = vec3()
        if is_floating(link.kind):
            x = load_vec3(q, link.q_start)
        elif link.kind != BALL:
            i = int(0)
            while i < link.linear:
                x += axis[link.dof + i] * scalar(q[link.q_start + i])
                i += 1
        return x

    @wp.func
    def joint_rotation(link: wp.ref[Link], axis: wp.array[vec3], q: Doubles) -> quat:
        """r_FM at joint_q. Angular axes of a scalar joint follow one another: each is carried by those before it."""
        if is_floating(link.kind):
            return load_quat(q, link.q_start + 3)
        if link.kind == BALL:
            return load_quat(q, link.q_start)
        r = quat(scalar(0.0), scalar(0.0), scalar(0.0), scalar(1.0))
        i = int(link.linear)
        while i < link.dof_count:
            # rotating about the carried axis on the left is rotating about the original axis on the right
            r = r * turn_about(axis[link.dof + i], scalar(q[link.q_start + i]))
            i += 1
        return r

    @wp.func
    def body_rotation(link: wp.ref[Link], r_WM: quat) -> quat:
        """r_WB. Products of unit quaternions are unit up to round-off, which one Newton step takes away."""
        r = r_WM
        if (link.simple & UNTURNED_M) == 0:
            r = r * link.r_MB
        return r * (scalar(1.5) - scalar(0.5) * wp.dot(r, r))

    return SimpleNamespace(
        joint_translation=joint_translation, joint_rotation=joint_rotation, body_rotation=body_rotation
    )


@functools.cache
def make_joint_motion(pose: Types, types: Types) -> SimpleNamespace:
    """Device functions for the motion columns of a joint, and for velocity and acceleration that it gives its body.

    ``pose`` is the precision of poses, ``types`` that of motions, here and below.
    """
    Data, Link = make_motion_data(pose, types), make_link(pose)
    S = make_spatial(pose)
    rotate, rotation_matrix, turn_about = S.rotate, S.rotation_matrix, S.turn_about
    to_motion = make_spatial(types).to_vec3
    scalar, vec3, pose_vec3 = types.scalar, types.vec3, pose.vec3

    @wp.func
    def add_turning_joint(
        link: wp.ref[Link], d: wp.ref[Data], b: int, r_WF: pose.quat, r_WB: pose.quat, p_M: pose_vec3, arm: pose_vec3
    ):
        """Columns, velocity and acceleration that a ball, free or distance joint gives its body b."""
        e = link.dof
        Vw = d.Vw[b]
        Vv = d.Vv[b]
        aw = d.aw[b]
        av = d.av[b]
        c = to_motion(p_M)
        if is_floating(link.kind):
            c = to_motion(p_M - arm)
        R = rotation_matrix(r_WF)
        w_rel = vec3()
        for i in range(3):
            a = to_motion(pose_vec3(R[0, i], R[1, i], R[2, i]))
            d.Sw[e + i] = a
            d.Sv[e + i] = wp.cross(c, a)
            w_rel += a * scalar(d.v0[e + i])
        if link.kind == BALL:
            u_rel = wp.cross(c, w_rel)  # the three columns are fixed in the parent
            aw += wp.cross(Vw, w_rel)
            av += wp.cross(Vw, u_rel) + wp.cross(Vv, w_rel)
            Vw += w_rel
            Vv += u_rel
        else:
            u_rel = vec3()
            for i in range(3):
                a = to_motion(pose_vec3(R[0, i], R[1, i], R[2, i]))
                d.Sw[e + 3 + i] = vec3()
                d.Sv[e + 3 + i] = a
                u_rel += a * scalar(d.v0[e + 3 + i])
            # angular columns pass through the child origin, which moves with the child
            dw = wp.cross(Vw, w_rel)
            av += wp.cross(Vw, u_rel) + wp.cross(c, dw)
            aw += dw
            Vw += w_rel
            Vv += u_rel + wp.cross(c, w_rel)
            u = Vv + wp.cross(Vw, c)
            av += wp.cross(u, w_rel)
            if (link.simple & CARRIED) != 0:  # as a floating root: what carries it does not accelerate it
                aw = vec3()
                av = wp.cross(u, Vw)
            if (link.simple & CENTERED) != 0:
                av -= wp.cross(Vw, wp.cross(Vw, to_motion(rotate(r_WB, link.com))))
        d.Vw[b] = Vw
        d.Vv[b] = Vv
        d.aw[b] = aw
        d.av[b] = av

    @wp.func
    def add_scalar_joint(
        link: wp.ref[Link], axis: wp.array[pose_vec3], d: wp.ref[Data], b: int, q: Doubles, r_WF: pose.quat, c: vec3
    ) -> pose.quat:
        """Columns, velocity and acceleration that an axis through c after the other gives body b; returns r_WM."""
        e = link.dof
        Vw = d.Vw[b]
        Vv = d.Vv[b]
        aw = d.aw[b]
        av = d.av[b]
        r_WM = r_WF
        n = link.dof_count
        linear = link.linear
        i = int(0)
        while i < n:
            unit = axis[e + i]
            s = to_motion(rotate(r_WM, unit))
            rate = scalar(d.v0[e + i])
            dw = vec3()
            if i < linear:
                d.Sw[e + i] = vec3()
                d.Sv[e + i] = s
            else:
                r_WM = r_WM * turn_about(unit, pose.scalar(q[link.q_start + i]))
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
        d.Vw[b] = Vw
        d.Vv[b] = Vv
        d.aw[b] = aw
        d.av[b] = av
        return r_WM

    return SimpleNamespace(add_turning_joint=add_turning_joint, add_scalar_joint=add_scalar_joint)


@functools.cache
def make_place_root(pose: Types, types: Types) -> SimpleNamespace:
    """Device functions for bodies that no other carries: where their origin is, and all of a floating one."""
    Data, Link = make_motion_data(pose, types), make_link(pose)
    body_rotation = make_joint_pose(pose).body_rotation
    S, D = make_spatial(pose), make_spatial(FP64)
    rotate, load_quat, to_vec3d, to_quatd = S.rotate, S.load_quat, D.to_vec3, D.to_unit_quat
    to_motion = make_spatial(types).to_vec3
    scalar, vec3, pose_vec3 = types.scalar, types.vec3, pose.vec3

    @wp.func
    def root_origin(link: wp.ref[Link], axis: wp.array[pose_vec3], arm: pose_vec3, q: Doubles) -> wp.vec3d:
        """World position of a root body's origin: its possibly large translation is added up in fp64."""
        x = wp.vec3d()
        if is_floating(link.kind):
            x = wp.vec3d(q[link.q_start], q[link.q_start + 1], q[link.q_start + 2])
        elif link.kind != BALL:
            i = int(0)
            while i < link.linear:
                x += to_vec3d(axis[link.dof + i]) * q[link.q_start + i]
                i += 1
        if (link.simple & UNTURNED_F) == 0:
            x = wp.quat_rotate(to_quatd(link.r_PF), x)
        return to_vec3d(link.p_PF) + x - to_vec3d(arm)

    @wp.func
    def place_floating_root(link: wp.ref[Link], axis: wp.array[pose_vec3], d: wp.ref[Data], b: int, q: Doubles):
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
                a = to_motion(rotate(link.r_PF, pose_vec3(d.Sw[e + i])))
                d.Sw[e + i] = a
                d.Sv[e + 3 + i] = a
            w = d.Sw[e] * w[0] + d.Sw[e + 1] * w[1] + d.Sw[e + 2] * w[2]
            u = d.Sw[e] * u[0] + d.Sw[e + 1] * u[1] + d.Sw[e + 2] * u[2]
        d.Vw[b] = w
        d.Vv[b] = u
        d.aw[b] = vec3()
        d.av[b] = wp.cross(u, w)  # the angular columns pass through the origin, which moves
        if (link.simple & CENTERED) != 0:  # and not straight: around the centre of mass
            d.av[b] = d.av[b] - wp.cross(w, wp.cross(w, to_motion(rotate(r_WB, link.com))))

    return SimpleNamespace(root_origin=root_origin, place_floating_root=place_floating_root)


@functools.cache
def make_place_body(pose: Types, types: Types):
    """``place_body(link, axis, d, b, q)``: fill the kinematics of body b in ``d`` from q, d.v0 and its parent."""
    Data, Link = make_motion_data(pose, types), make_link(pose)
    joint, motion, root = make_joint_pose(pose), make_joint_motion(pose, types), make_place_root(pose, types)
    joint_translation, joint_rotation = joint.joint_translation, joint.joint_rotation
    body_rotation, root_origin = joint.body_rotation, root.root_origin
    add_turning_joint, add_scalar_joint = motion.add_turning_joint, motion.add_scalar_joint
    place_floating_root, rotate = root.place_floating_root, make_spatial(pose).rotate
    to_motion = make_spatial(types).to_vec3
    vec3, pose_vec3 = types.vec3, pose.vec3

    @wp.func
    def place_body(link: wp.ref[Link], axis: wp.array[pose_vec3], d: wp.ref[Data], b: int, q: Doubles):
        """Pose, motion columns, velocity and acceleration of one body, from those of its parent and v0."""
        parent = link.parent
        if parent < 0 and is_floating(link.kind):
            place_floating_root(link, axis, d, b, q)
            return
        p_M = pose_vec3()
        r_WF = link.r_PF
        if parent >= 0:
            r_P = d.r[parent]
            p_M = d.p[parent]
            if (link.simple & AT_PARENT) == 0:
                p_M += rotate(r_P, link.p_PF)
            r_WF = r_P
            if (link.simple & UNTURNED_F) == 0:
                r_WF = r_P * link.r_PF
            if link.linear != 0 and link.kind != BALL:
                p_M += rotate(r_WF, joint_translation(link, axis, q))
            d.Vw[b] = d.Vw[parent]
            d.Vv[b] = d.Vv[parent]
            d.aw[b] = d.aw[parent]
            d.av[b] = d.av[parent]
        else:
            d.Vw[b] = vec3()
            d.Vv[b] = vec3()
            d.aw[b] = vec3()
            d.av[b] = vec3()
        turns = is_floating(link.kind) or link.kind == BALL
        r_WB = r_WF
        arm = pose_vec3()  # from the body origin to M
        if parent < 0 or turns:
            r_WB = body_rotation(link, r_WF * joint_rotation(link, axis, q))
            if (link.simple & AT_M) == 0:
                arm = rotate(r_WB, link.p_BM)
            if parent < 0:
                p_M = arm  # the reference point o is the root body's origin
                d.origin[b] = root_origin(link, axis, arm, q)
        if turns:
            add_turning_joint(link, d, b, r_WF, r_WB, p_M, arm)
        else:
            r_WM = add_scalar_joint(link, axis, d, b, q, r_WF, to_motion(p_M))
            if parent >= 0:
                r_WB = body_rotation(link, r_WM)
                if (link.simple & AT_M) == 0:
                    arm = rotate(r_WB, link.p_BM)
        d.p[b] = p_M - arm
        d.r[b] = r_WB

    return place_body


@functools.cache
def make_place_world(pose: Types, types: Types):
    """``place_world(io, world)``: fill the kinematics of io.d from io.c.q and io.d.v0, by all lanes."""
    Boundary, place_body = make_boundary_data(pose, types), make_place_body(pose, types)

    @wp.func
    def place_carried(io: wp.ref[Boundary], start: int, root: int) -> int:
        """Place the bodies that a placed root carries, if native code can; returns how many there are before it."""
        return place_carried_native(io, start, root)

    bits = f"""static_assert(sap::unturned_f == {int(UNTURNED_F)} && sap::at_parent == {int(AT_PARENT)}
        && sap::unturned_m == {int(UNTURNED_M)} && sap::at_m == {int(AT_M)} && sap::scalar_joint == {int(SCALAR_JOINT)},
        "bits of `links.py`");\n"""
    arguments = "io.layout, io.links, io.axis, io.d, start, root, io.c.q.data"
    call = f"return sap::place_carried<{pose.c_name}, {types.c_name}>({arguments});"
    place_carried_native = native_twin(place_carried, bits + call, "return 0;")

    @wp.func
    def place_world(io: wp.ref[Boundary], world: int):
        first = io.layout.world_body[world]
        b = int(io.layout.world_body[world + 1])
        if is_native():
            while b > first:
                b -= 1
                place_body(io.links[b], io.axis, io.d, b, io.c.q)
                if io.layout.body_parent[b] < 0:
                    b -= place_carried(io, first, b)
        else:
            level_end = io.layout.world_level[world + 1]
            level = int(io.layout.world_level[world])
            while level < level_end:
                i_end = io.layout.level_start[level + 1]
                i = int(io.layout.level_start[level] + lane())
                while i < i_end:
                    b = io.layout.level_body[i]
                    place_body(io.links[b], io.axis, io.d, b, io.c.q)
                    i += lane_count()
                barrier()
                level += 1

    return place_world


@functools.cache
def make_point_acceleration(pose: Types, dynamics: Types, types: Types):
    """``point_acceleration(d, b, r)`` of the point r of body b if no dof accelerates [m/s^2], 0 for no body.

    r is measured about the reference point of the body's tree, in world axes. Motions have the precision ``dynamics``,
    points and results the precision ``types``.
    """
    Motion, vec3, to_vec3 = make_motion_data(pose, dynamics), types.vec3, make_spatial(types).to_vec3

    @wp.func
    def point_acceleration(d: wp.ref[Motion], b: int, r: vec3) -> vec3:
        a = vec3()
        if b >= 0:
            w = to_vec3(d.Vw[b])
            a = to_vec3(d.av[b]) + wp.cross(to_vec3(d.aw[b]), r)
            a += wp.cross(w, to_vec3(d.Vv[b]) + wp.cross(w, r))
        return a

    return point_acceleration
