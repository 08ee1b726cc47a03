"""Joint kinematics: what joint_q and joint_qd of every joint type mean, in Newton's sense, for any precision.

Frames: W world, P parent body, F the joint's parent frame (X_PF = joint_X_p), M the joint's moving frame
(X_BM = joint_X_c), B the child body. ``joint_q`` is X_FM. Velocities of ball, free and distance joints are
expressed in F.
"""

import functools
from types import SimpleNamespace
from typing import Any

import newton
import warp as wp

from ..precision import Types

PRISMATIC = wp.constant(int(newton.JointType.PRISMATIC))
REVOLUTE = wp.constant(int(newton.JointType.REVOLUTE))
BALL = wp.constant(int(newton.JointType.BALL))
FIXED = wp.constant(int(newton.JointType.FIXED))
FREE = wp.constant(int(newton.JointType.FREE))
DISTANCE = wp.constant(int(newton.JointType.DISTANCE))
D6 = wp.constant(int(newton.JointType.D6))


@wp.struct
class JointParameters:
    """Newton's joint and body arrays, by reference: a value changed in the model acts in the next step."""

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
    for name in JointParameters.vars:
        setattr(parameters, name, getattr(model, name))
    return parameters


@functools.cache
def make_kinematics(types: Types) -> SimpleNamespace:
    """Device functions for one precision."""
    scalar, vec3, quat, transform = types.scalar, types.vec3, types.quat, types.transform

    @wp.func
    def to_vec3(v: wp.vec3f) -> vec3:
        return vec3(scalar(v[0]), scalar(v[1]), scalar(v[2]))

    @wp.func
    def to_quat(q: wp.quatf) -> quat:
        # Newton's fp32 rotations are unit only to 1e-7; fp64 kinematics would inherit that as a scale error.
        return wp.normalize(quat(scalar(q[0]), scalar(q[1]), scalar(q[2]), scalar(q[3])))

    @wp.func
    def to_transform(X: wp.transformf) -> transform:
        return transform(to_vec3(wp.transform_get_translation(X)), to_quat(wp.transform_get_rotation(X)))

    @wp.func
    def load_quat(q: wp.array(dtype=wp.float64), i: int) -> quat:
        return wp.normalize(quat(scalar(q[i]), scalar(q[i + 1]), scalar(q[i + 2]), scalar(q[i + 3])))

    @wp.func
    def unit_axis(p: wp.ref[JointParameters], dof: int) -> vec3:
        return wp.normalize(to_vec3(p.joint_axis[dof]))

    @wp.func
    def is_floating(kind: int) -> bool:
        return kind == FREE or kind == DISTANCE

    @wp.func
    def joint_transform(p: wp.ref[JointParameters], joint: int, q: wp.array(dtype=wp.float64)) -> transform:
        """X_FM at joint_q. Angular d6 axes follow one another: each is carried by the rotations before it."""
        kind = p.joint_type[joint]
        iq = p.joint_q_start[joint]
        iv = p.joint_qd_start[joint]
        x = vec3()
        r = quat(scalar(0.0), scalar(0.0), scalar(0.0), scalar(1.0))
        if is_floating(kind):
            x = vec3(scalar(q[iq]), scalar(q[iq + 1]), scalar(q[iq + 2]))
            r = load_quat(q, iq + 3)
        elif kind == BALL:
            r = load_quat(q, iq)
        elif kind != FIXED:
            linear = p.joint_dof_dim[joint, 0]
            for i in range(linear):
                x += unit_axis(p, iv + i) * scalar(q[iq + i])
            for i in range(linear, linear + p.joint_dof_dim[joint, 1]):
                # rotating about the carried axis on the left is rotating about the original axis on the right
                r = r * wp.quat_from_axis_angle(unit_axis(p, iv + i), scalar(q[iq + i]))
        return transform(x, r)

    @wp.func
    def com_offset_in_F(p: wp.ref[JointParameters], joint: int, body: int, q: wp.array(dtype=wp.float64)) -> vec3:
        """Vector from the origin of a floating body to its centre of mass, in F: the r of the boundary formulas."""
        r_FM = load_quat(q, p.joint_q_start[joint] + 3)
        r_BM = to_quat(wp.transform_get_rotation(p.joint_X_c[joint]))
        return wp.quat_rotate(r_FM * wp.quat_inverse(r_BM), to_vec3(p.body_com[body]))

    return SimpleNamespace(
        to_vec3=to_vec3,
        to_quat=to_quat,
        to_transform=to_transform,
        load_quat=load_quat,
        unit_axis=unit_axis,
        is_floating=is_floating,
        joint_transform=joint_transform,
        com_offset_in_F=com_offset_in_F,
    )
