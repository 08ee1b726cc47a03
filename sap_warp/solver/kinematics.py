"""Joint kinematics: what joint_q and joint_qd of every joint type mean, in Newton's sense, for any precision.

The tree recursions read one packed record per body, `Link`, instead of a dozen of Newton's arrays.

Frames: W world, P parent body, F the joint's parent frame (X_PF = joint_X_p), M the joint's moving frame
(X_BM = joint_X_c), B the child body. ``joint_q`` is X_FM. Velocities of ball, free and distance joints are
expressed in F.
"""

import functools
from types import SimpleNamespace
from typing import Any

import newton
import warp as wp

from ..kernels.launch import solver_kernel
from ..kernels.structs import padded_zeros
from ..kernels.types import TYPES, Types
from .layout import Layout, LayoutSizes

PRISMATIC = wp.constant(int(newton.JointType.PRISMATIC))
REVOLUTE = wp.constant(int(newton.JointType.REVOLUTE))
BALL = wp.constant(int(newton.JointType.BALL))
FIXED = wp.constant(int(newton.JointType.FIXED))
FREE = wp.constant(int(newton.JointType.FREE))
DISTANCE = wp.constant(int(newton.JointType.DISTANCE))
D6 = wp.constant(int(newton.JointType.D6))

UNTURNED_F = wp.constant(1)
AT_PARENT = wp.constant(2)
UNTURNED_M = wp.constant(4)
AT_M = wp.constant(8)
"""What makes a joint simple: r_PF is the identity, p_PF is zero, r_MB is the identity, p_BM is zero."""


@wp.struct
class JointParameters:
    """Newton's joint and body arrays, by reference."""

    joint_type: wp.array(dtype=wp.int32)
    joint_parent: wp.array(dtype=wp.int32)
    joint_child: wp.array(dtype=wp.int32)
    joint_q_start: wp.array(dtype=wp.int32)
    joint_qd_start: wp.array(dtype=wp.int32)
    joint_dof_dim: wp.array2d(dtype=wp.int32)
    joint_X_p: wp.array(dtype=wp.transformf)
    joint_X_c: wp.array(dtype=wp.transformf)
    joint_axis: wp.array(dtype=wp.vec3f)
    body_com: wp.array(dtype=wp.vec3f)
    body_mass: wp.array(dtype=wp.float32)
    body_inertia: wp.array(dtype=wp.mat33f)


def joint_parameters(model: newton.Model) -> Any:
    """Collect the arrays of ``model``; nothing is copied."""
    parameters: Any = JointParameters()
    for name in parameters._cls.vars:
        setattr(parameters, name, getattr(model, name))
    return parameters


@functools.cache
def make_link(types: Types):
    """Record of one body and the joint above it: indices in solver order, frames and inertia in one precision."""
    scalar, vec3, mat33, quat = types.scalar, types.vec3, types.mat33, types.quat

    @wp.struct
    class Link:
        kind: int  # joint type
        parent: int  # solver body, -1 for a root
        body: int  # Newton's body
        joint: int  # Newton's joint
        q_start: int
        qd_start: int
        dof: int  # first dof in solver order
        dof_count: int
        linear: int  # of these, linear axes
        simple: int  # which frames of the joint coincide
        p_PF: vec3  # joint frame in the parent [m]
        r_PF: quat
        p_BM: vec3  # joint frame in the child
        r_MB: quat
        com: vec3  # centre of mass in the body frame [m]; `wide` reads from here to the inertia in two pieces
        mass: scalar
        inertia: mat33  # about the centre of mass, body axes [kg m^2]
        inv_inertia: mat33

    return Link


@functools.cache
def make_pack_kernel(types: Types):
    """Kernel that packs links and unit joint axes from Newton's arrays, one thread per body."""
    scalar, mat33 = types.scalar, types.mat33
    Link = make_link(types)
    K = make_kinematics(types)
    to_vec3, to_quat = K.to_vec3, K.to_quat

    @wp.func
    def is_zero(v: types.vec3) -> bool:
        return v[0] == scalar(0.0) and v[1] == scalar(0.0) and v[2] == scalar(0.0)

    @wp.func
    def is_identity(q: types.quat) -> bool:
        return q[0] == scalar(0.0) and q[1] == scalar(0.0) and q[2] == scalar(0.0) and wp.abs(q[3]) == scalar(1.0)

    @solver_kernel
    def pack_links(
        layout: Layout,
        p: JointParameters,
        links_out: wp.array(dtype=Link),
        axis_out: wp.array(dtype=types.vec3),
    ):
        b = wp.tid()
        joint = layout.body_joint[b]
        body = layout.body_newton[b]
        link = Link()
        link.kind = p.joint_type[joint]
        link.parent = layout.body_parent[b]
        link.body = body
        link.joint = joint
        link.q_start = p.joint_q_start[joint]
        link.qd_start = p.joint_qd_start[joint]
        link.dof = layout.body_dof[b]
        link.dof_count = layout.body_dof_count[b]
        link.linear = p.joint_dof_dim[joint, 0]
        link.p_PF = to_vec3(wp.transform_get_translation(p.joint_X_p[joint]))
        link.r_PF = to_quat(wp.transform_get_rotation(p.joint_X_p[joint]))
        link.p_BM = to_vec3(wp.transform_get_translation(p.joint_X_c[joint]))
        link.r_MB = wp.quat_inverse(to_quat(wp.transform_get_rotation(p.joint_X_c[joint])))
        link.simple = 0
        if is_identity(link.r_PF):
            link.simple = link.simple | UNTURNED_F
        if is_zero(link.p_PF):
            link.simple = link.simple | AT_PARENT
        if is_identity(link.r_MB):
            link.simple = link.simple | UNTURNED_M
        if is_zero(link.p_BM):
            link.simple = link.simple | AT_M
        link.com = to_vec3(p.body_com[body])
        link.mass = scalar(p.body_mass[body])
        I = p.body_inertia[body]
        inertia = mat33()
        for i in range(3):
            for j in range(3):
                inertia[i, j] = scalar(I[i, j])
        link.inertia = inertia
        link.inv_inertia = wp.inverse(inertia)
        links_out[b] = link
        i = int(0)
        while i < link.dof_count:
            axis_out[link.dof + i] = wp.normalize(to_vec3(p.joint_axis[link.qd_start + i]))
            i += 1

    return pack_links


class Links:
    """Packed links and axes of a model, in the precisions that the stages ask for."""

    def __init__(self, model: Any, layout: Any, sizes: LayoutSizes):
        """Nothing is packed before `get`."""
        self._model, self._layout, self._sizes = model, layout, sizes
        self._packed: dict[str, tuple[wp.array, wp.array]] = {}

    def get(self, types: Types) -> tuple[wp.array, wp.array]:
        """Links by body and unit axes by dof, both in solver order."""
        if types.name not in self._packed:
            device = self._model.device
            links = wp.zeros(self._sizes.body_count, dtype=make_link(types), device=device)
            axes = padded_zeros(self._sizes.dof_count, types.vec3, device)
            self._packed[types.name] = (links, axes)
            self._pack(types)
        return self._packed[types.name]

    def refresh(self) -> None:
        """Read the model's arrays again, after frames, axes, masses or inertias have changed."""
        for name in self._packed:
            self._pack(TYPES[name])

    def _pack(self, types: Types) -> None:
        wp.launch(
            make_pack_kernel(types),
            dim=self._sizes.body_count,
            inputs=[self._layout, joint_parameters(self._model)],
            outputs=list(self._packed[types.name]),
            device=self._model.device,
        )


@functools.cache
def make_kinematics(types: Types) -> SimpleNamespace:
    """Device functions for one precision."""
    scalar, vec3, mat33, quat = types.scalar, types.vec3, types.mat33, types.quat
    Link = make_link(types)

    @wp.func
    def to_vec3(v: wp.vec3f) -> vec3:
        return vec3(scalar(v[0]), scalar(v[1]), scalar(v[2]))

    @wp.func
    def to_quat(q: wp.quatf) -> quat:
        # Newton's fp32 rotations are unit only to 1e-7; fp64 kinematics would inherit that as a scale error.
        return wp.normalize(quat(scalar(q[0]), scalar(q[1]), scalar(q[2]), scalar(q[3])))

    @wp.func
    def load_quat(q: wp.array(dtype=wp.float64), i: int) -> quat:
        return wp.normalize(quat(scalar(q[i]), scalar(q[i + 1]), scalar(q[i + 2]), scalar(q[i + 3])))

    @wp.func
    def is_floating(kind: int) -> bool:
        return kind == FREE or kind == DISTANCE

    @wp.func
    def rotate(q: quat, v: vec3) -> vec3:
        """R v of a unit quaternion in twenty operations."""
        x = vec3(q[0], q[1], q[2])
        t = wp.cross(x, v)
        t = t + t
        return v + q[3] * t + wp.cross(x, t)

    @wp.func
    def rotation_matrix(q: quat) -> mat33:
        """R of a unit quaternion."""
        x = q[0] + q[0]
        y = q[1] + q[1]
        z = q[2] + q[2]
        wx = q[3] * x
        wy = q[3] * y
        wz = q[3] * z
        xx = q[0] * x
        xy = q[0] * y
        xz = q[0] * z
        yy = q[1] * y
        yz = q[1] * z
        zz = q[2] * z
        one = scalar(1.0)
        return mat33(one - yy - zz, xy - wz, xz + wy, xy + wz, one - xx - zz, yz - wx, xz - wy, yz + wx, one - xx - yy)

    @wp.func
    def turn_about(axis: vec3, angle: scalar) -> quat:
        """Rotation about a unit axis."""
        half = scalar(0.5) * angle
        s = wp.sin(half)
        return quat(axis[0] * s, axis[1] * s, axis[2] * s, wp.cos(half))

    @wp.func
    def body_rotation(link: wp.ref[Link], r_WM: quat) -> quat:
        """r_WB. Products of unit quaternions are unit up to round-off, which one Newton step takes away."""
        r = r_WM
        if (link.simple & UNTURNED_M) == 0:
            r = r * link.r_MB
        return r * (scalar(1.5) - scalar(0.5) * wp.dot(r, r))

    @wp.func
    def scalar_joint_rotation(link: wp.ref[Link], axis: wp.array(dtype=vec3), q: wp.array(dtype=wp.float64)) -> quat:
        """r_FM of angular axes that follow one another: each is carried by the rotations before it."""
        r = quat(scalar(0.0), scalar(0.0), scalar(0.0), scalar(1.0))
        i = int(link.linear)
        while i < link.dof_count:
            # rotating about the carried axis on the left is rotating about the original axis on the right
            r = r * turn_about(axis[link.dof + i], scalar(q[link.q_start + i]))
            i += 1
        return r

    @wp.func
    def joint_translation(link: wp.ref[Link], axis: wp.array(dtype=vec3), q: wp.array(dtype=wp.float64)) -> vec3:
        """p_FM at joint_q."""
        x = vec3()
        if is_floating(link.kind):
            x = vec3(scalar(q[link.q_start]), scalar(q[link.q_start + 1]), scalar(q[link.q_start + 2]))
        elif link.kind != BALL:
            i = int(0)
            while i < link.linear:
                x += axis[link.dof + i] * scalar(q[link.q_start + i])
                i += 1
        return x

    @wp.func
    def joint_rotation(link: wp.ref[Link], axis: wp.array(dtype=vec3), q: wp.array(dtype=wp.float64)) -> quat:
        """r_FM at joint_q."""
        if is_floating(link.kind):
            return load_quat(q, link.q_start + 3)
        if link.kind == BALL:
            return load_quat(q, link.q_start)
        return scalar_joint_rotation(link, axis, q)

    @wp.func
    def com_offset_in_F(p: wp.ref[JointParameters], joint: int, body: int, q: wp.array(dtype=wp.float64)) -> vec3:
        """Vector from the origin of a floating body to its centre of mass, in F: the r of the boundary formulas."""
        com = p.body_com[body]
        if wp.abs(com[0]) + wp.abs(com[1]) + wp.abs(com[2]) == float(0.0):
            return vec3()
        r_FM = load_quat(q, p.joint_q_start[joint] + 3)
        r_BM = to_quat(wp.transform_get_rotation(p.joint_X_c[joint]))
        return wp.quat_rotate(r_FM * wp.quat_inverse(r_BM), to_vec3(com))

    return SimpleNamespace(
        to_vec3=to_vec3,
        to_quat=to_quat,
        load_quat=load_quat,
        is_floating=is_floating,
        rotate=rotate,
        rotation_matrix=rotation_matrix,
        turn_about=turn_about,
        body_rotation=body_rotation,
        joint_translation=joint_translation,
        joint_rotation=joint_rotation,
        com_offset_in_F=com_offset_in_F,
    )
