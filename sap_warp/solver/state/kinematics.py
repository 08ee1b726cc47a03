"""Forward kinematics: where the bodies of a state are, how they move, and the motion columns of their joints.

Newton decides what joint_q and joint_qd of every joint type mean: ``joint_q`` is X_FM (frames: `links`), velocities of
ball, free and distance joints are expressed in F. A body's acceleration here is what its velocity makes of it when no
dof accelerates, without gravity.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels import spatial
from ...core.kernels.lanes import barrier, lane, lane_count, native_twin, uses
from ...core.kernels.template import Constant, Parameter, device
from ...core.kernels.types import FP32, FP64, Doubles
from ...model.joint_types import BALL, is_floating
from ..model.links import (
    AT_M,
    AT_PARENT,
    CENTERED,
    FLOATING_CHILD,
    SCALAR_JOINT,
    UNTURNED_F,
    UNTURNED_M,
    JointParameters,
)
from ..model.links import PoseLink as Link
from ..model.motion_data import MotionData
from ..settings.precisions import dynamics, pose, solve
from .boundary_data import BoundaryData

uses_tree8 = uses("tree8")
scalar, vec3 = dynamics.scalar, dynamics.vec3
pose_scalar, pose_vec3, quat = pose.scalar, pose.vec3, pose.quat
solve_vec3 = solve.vec3

rotate, rotation_matrix, turn_about, load_vec3, load_quat = (
    function.on(number=pose)
    for function in (spatial.rotate, spatial.rotation_matrix, spatial.turn_about, spatial.load_vec3, spatial.load_quat)
)
to_motion, to_solve = spatial.to_vec3.on(number=dynamics), spatial.to_vec3.on(number=solve)
to_vec3d, to_quatd, load_quatd = (
    function.on(number=Constant(FP64)) for function in (spatial.to_vec3, spatial.to_unit_quat, spatial.load_quat)
)


coordinates = Parameter("coordinates")
"""The precision of the joint coordinates that `com_offset_at` takes."""
coordinate = coordinates.scalar


@device
def com_offset_at(parameters: wp.ref[JointParameters], joint: int, q: wp.array[coordinate]) -> wp.vec3d:
    """Return the vector from the origin of a floating body to its centre of mass, in F, fp64.

    This is the r of the boundary formulas.
    """
    com = parameters.body_com[parameters.joint_child[joint]]
    if wp.abs(com[0]) + wp.abs(com[1]) + wp.abs(com[2]) == float(0.0):
        return wp.vec3d()
    r_FM = load_quatd(q, parameters.joint_q_start[joint] + 3)
    r_BM = to_quatd(wp.transform_get_rotation(parameters.joint_X_c[joint]))
    return wp.quat_rotate(r_FM * wp.quat_inverse(r_BM), to_vec3d(com))


com_offset, com_offset_fp32 = (com_offset_at.on(coordinates=Constant(types)) for types in (FP64, FP32))
"""`com_offset_at` for joint coordinates of the solver, in fp64, and of a state, in fp32."""


@device
def joint_translation(link: wp.ref[Link], axis: wp.array[pose_vec3], q: Doubles) -> pose_vec3:
    """Return p_FM at joint_q."""
    x = pose_vec3()
    if is_floating(link.kind):
        x = load_vec3(q, link.q_start)
    elif link.kind != BALL:
        i = int(0)
        while i < link.linear:
            x += axis[link.dof + i] * pose_scalar(q[link.q_start + i])
            i += 1
    return x


@device
def joint_rotation(link: wp.ref[Link], axis: wp.array[pose_vec3], q: Doubles) -> quat:
    """Return r_FM at joint_q.

    Angular axes of a scalar joint follow one another: each is turned by those before it.
    """
    if is_floating(link.kind):
        return load_quat(q, link.q_start + 3)
    if link.kind == BALL:
        return load_quat(q, link.q_start)
    r = quat(pose_scalar(0.0), pose_scalar(0.0), pose_scalar(0.0), pose_scalar(1.0))
    i = int(link.linear)
    while i < link.dof_count:
        # rotating about the turned axis on the left is rotating about the original axis on the right
        r = r * turn_about(axis[link.dof + i], pose_scalar(q[link.q_start + i]))
        i += 1
    return r


@device
def body_rotation(link: wp.ref[Link], r_WM: quat) -> quat:
    """Return r_WB, normalized.

    Products of unit quaternions are unit up to round-off, which one Newton step takes away.
    """
    r = r_WM
    if (link.simple & UNTURNED_M) == 0:
        r = r * link.r_MB
    return r * (pose_scalar(1.5) - pose_scalar(0.5) * wp.dot(r, r))


@device
def add_turning_joint(
    link: wp.ref[Link], motion: wp.ref[MotionData], b: int, r_WF: quat, r_WB: quat, p_M: pose_vec3, arm: pose_vec3
):
    """Set columns, velocity and acceleration that a ball, free or distance joint gives its body b."""
    e = link.dof
    Vw = motion.Vw[b]
    Vv = motion.Vv[b]
    aw = motion.aw[b]
    av = motion.av[b]
    c = to_motion(p_M)
    if is_floating(link.kind):
        c = to_motion(p_M - arm)
    R = rotation_matrix(r_WF)
    w_rel = vec3()
    for i in range(3):
        a = to_motion(pose_vec3(R[0, i], R[1, i], R[2, i]))
        motion.Sw[e + i] = a
        motion.Sv[e + i] = wp.cross(c, a)
        w_rel += a * scalar(motion.v0[e + i])
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
            motion.Sw[e + 3 + i] = vec3()
            motion.Sv[e + 3 + i] = a
            u_rel += a * scalar(motion.v0[e + 3 + i])
        # angular columns pass through the child origin, which moves with the child
        dw = wp.cross(Vw, w_rel)
        av += wp.cross(Vw, u_rel) + wp.cross(c, dw)
        aw += dw
        Vw += w_rel
        Vv += u_rel + wp.cross(c, w_rel)
        u = Vv + wp.cross(Vw, c)
        av += wp.cross(u, w_rel)
        if (link.simple & FLOATING_CHILD) != 0:  # as a floating root: the body above does not accelerate it
            aw = vec3()
            av = wp.cross(u, Vw)
        if (link.simple & CENTERED) != 0:
            av -= wp.cross(Vw, wp.cross(Vw, to_motion(rotate(r_WB, link.com))))
    motion.Vw[b] = Vw
    motion.Vv[b] = Vv
    motion.aw[b] = aw
    motion.av[b] = av


@device
def add_scalar_joint(
    link: wp.ref[Link], axis: wp.array[pose_vec3], motion: wp.ref[MotionData], b: int, q: Doubles, r_WF: quat, c: vec3
) -> quat:
    """Set columns, velocity and acceleration that the axes through c, one after another, give body b; returns r_WM."""
    e = link.dof
    Vw = motion.Vw[b]
    Vv = motion.Vv[b]
    aw = motion.aw[b]
    av = motion.av[b]
    r_WM = r_WF
    n = link.dof_count
    linear = link.linear
    i = int(0)
    while i < n:
        unit = axis[e + i]
        s = to_motion(rotate(r_WM, unit))
        rate = scalar(motion.v0[e + i])
        dw = vec3()
        if i < linear:
            motion.Sw[e + i] = vec3()
            motion.Sv[e + i] = s
        else:
            r_WM = r_WM * turn_about(unit, pose_scalar(q[link.q_start + i]))
            motion.Sw[e + i] = s
            dw = s * rate
            s = wp.cross(c, s)
            motion.Sv[e + i] = s
        dv = s * rate
        aw += wp.cross(Vw, dw)
        av += wp.cross(Vw, dv) + wp.cross(Vv, dw)
        Vw += dw
        Vv += dv
        i += 1
    motion.Vw[b] = Vw
    motion.Vv[b] = Vv
    motion.aw[b] = aw
    motion.av[b] = av
    return r_WM


@device
def root_origin(link: wp.ref[Link], axis: wp.array[pose_vec3], arm: pose_vec3, q: Doubles) -> wp.vec3d:
    """Return the world position of a root body's origin; its possibly large translation is added up in fp64."""
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


@device
def place_floating_root(link: wp.ref[Link], axis: wp.array[pose_vec3], motion: wp.ref[MotionData], b: int, q: Doubles):
    """Place a root that floats, see `place_body`: its origin is o, and no body is above it."""
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
    motion.origin[b] = root_origin(link, axis, arm, q)
    motion.p[b] = pose_vec3()
    motion.r[b] = r_WB
    w = vec3(scalar(motion.v0[e]), scalar(motion.v0[e + 1]), scalar(motion.v0[e + 2]))
    u = vec3(scalar(motion.v0[e + 3]), scalar(motion.v0[e + 4]), scalar(motion.v0[e + 5]))
    for i in range(3):
        a = vec3()
        a[i] = scalar(1.0)
        motion.Sw[e + i] = a
        motion.Sv[e + i] = vec3()
        motion.Sw[e + 3 + i] = vec3()
        motion.Sv[e + 3 + i] = a
    if turned:
        for i in range(3):
            a = to_motion(rotate(link.r_PF, pose_vec3(motion.Sw[e + i])))
            motion.Sw[e + i] = a
            motion.Sv[e + 3 + i] = a
        w = motion.Sw[e] * w[0] + motion.Sw[e + 1] * w[1] + motion.Sw[e + 2] * w[2]
        u = motion.Sw[e] * u[0] + motion.Sw[e + 1] * u[1] + motion.Sw[e + 2] * u[2]
    motion.Vw[b] = w
    motion.Vv[b] = u
    motion.aw[b] = vec3()
    motion.av[b] = wp.cross(u, w)  # the angular columns pass through the origin, which moves
    if (link.simple & CENTERED) != 0:  # and not straight: around the centre of mass
        motion.av[b] = motion.av[b] - wp.cross(w, wp.cross(w, to_motion(rotate(r_WB, link.com))))


@device
def place_body(link: wp.ref[Link], axis: wp.array[pose_vec3], motion: wp.ref[MotionData], b: int, q: Doubles):
    """Set pose, motion columns, velocity and acceleration of body b from those of its parent, q and v0."""
    parent = link.parent
    if parent < 0 and is_floating(link.kind):
        place_floating_root(link, axis, motion, b, q)
        return
    p_M = pose_vec3()
    r_WF = link.r_PF
    if parent >= 0:
        r_P = motion.r[parent]
        p_M = motion.p[parent]
        if (link.simple & AT_PARENT) == 0:
            p_M += rotate(r_P, link.p_PF)
        r_WF = r_P
        if (link.simple & UNTURNED_F) == 0:
            r_WF = r_P * link.r_PF
        if link.linear != 0 and link.kind != BALL:
            p_M += rotate(r_WF, joint_translation(link, axis, q))
        motion.Vw[b] = motion.Vw[parent]
        motion.Vv[b] = motion.Vv[parent]
        motion.aw[b] = motion.aw[parent]
        motion.av[b] = motion.av[parent]
    else:
        motion.Vw[b] = vec3()
        motion.Vv[b] = vec3()
        motion.aw[b] = vec3()
        motion.av[b] = vec3()
    turns = is_floating(link.kind) or link.kind == BALL
    r_WB = r_WF
    arm = pose_vec3()  # from the body origin to M
    if parent < 0 or turns:
        r_WB = body_rotation(link, r_WF * joint_rotation(link, axis, q))
        if (link.simple & AT_M) == 0:
            arm = rotate(r_WB, link.p_BM)
        if parent < 0:
            p_M = arm  # the reference point o is the root body's origin
            motion.origin[b] = root_origin(link, axis, arm, q)
    if turns:
        add_turning_joint(link, motion, b, r_WF, r_WB, p_M, arm)
    else:
        r_WM = add_scalar_joint(link, axis, motion, b, q, r_WF, to_motion(p_M))
        if parent >= 0:
            r_WB = body_rotation(link, r_WM)
            if (link.simple & AT_M) == 0:
                arm = rotate(r_WB, link.p_BM)
    motion.p[b] = p_M - arm
    motion.r[b] = r_WB


@device
def place_descendants(io: wp.ref[BoundaryData], start: int, root: int) -> int:
    """Place the bodies below a placed root if native code can; returns how many of the bodies before it it placed."""
    return place_descendants_native(io, start, root)


_SIMPLE_BITS = f"""static_assert(sap::unturned_f == {int(UNTURNED_F)} && sap::at_parent == {int(AT_PARENT)}
    && sap::unturned_m == {int(UNTURNED_M)} && sap::at_m == {int(AT_M)} && sap::scalar_joint == {int(SCALAR_JOINT)},
    "bits of `links.py`");\n"""
_ARGUMENTS = "io.layout, io.links, io.axis, io.motion, start, root, io.coordinates.q.data"
place_descendants_native = native_twin(
    place_descendants, f"{_SIMPLE_BITS}return sap::place_descendants<$pose, $dynamics>({_ARGUMENTS});", "return 0;"
)


@device
def place_world(io: wp.ref[BoundaryData], world: int):
    """Set the kinematics io.motion of a world's bodies from io.coordinates.q and io.motion.v0, by all lanes."""
    first = io.layout.world_body[world]
    b = int(io.layout.world_body[world + 1])
    if uses_tree8():
        while b > first:
            b -= 1
            place_body(io.links[b], io.axis, io.motion, b, io.coordinates.q)
            if io.layout.body_parent[b] < 0:
                b -= place_descendants(io, first, b)
    else:
        level_end = io.layout.world_level[world + 1]
        level = int(io.layout.world_level[world])
        while level < level_end:
            i_end = io.layout.level_start[level + 1]
            i = int(io.layout.level_start[level] + lane())
            while i < i_end:
                b = io.layout.level_body[i]
                place_body(io.links[b], io.axis, io.motion, b, io.coordinates.q)
                i += lane_count()
            barrier()
            level += 1


@device
def point_acceleration(motion: wp.ref[MotionData], b: int, r: solve_vec3) -> solve_vec3:
    """Return the acceleration of the point r of body b if no dof accelerates [m/s^2], 0 for no body (b = -1).

    r is measured about the reference point of the body's tree, in world axes.
    """
    a = solve_vec3()
    if b >= 0:
        w = to_solve(motion.Vw[b])
        a = to_solve(motion.av[b]) + wp.cross(to_solve(motion.aw[b]), r)
        a += wp.cross(w, to_solve(motion.Vv[b]) + wp.cross(w, r))
    return a
