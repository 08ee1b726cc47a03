"""Vectors and rotations for any precision. Rotations are unit quaternions (x, y, z, w).

The functions take vectors and rotations of any precision; what they return is that of `number`, which whoever imports
them names: ``to_cost = to_vec3.on(number=cost)``.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from .template import Parameter, device

number = Parameter("number")
scalar, vec3, mat33, quat = number.scalar, number.vec3, number.mat33, number.quat


@device
def to_vec3(v: Any) -> vec3:
    """Three numbers as a vector."""
    return vec3(scalar(v[0]), scalar(v[1]), scalar(v[2]))


@device
def to_quat(q: Any) -> quat:
    """Four numbers as a quaternion."""
    return quat(scalar(q[0]), scalar(q[1]), scalar(q[2]), scalar(q[3]))


@device
def to_unit_quat(q: Any) -> quat:
    """Four numbers as a unit quaternion.

    Newton's fp32 rotations are unit only to 1e-7; fp64 kinematics would inherit that as a scale error.
    """
    return wp.normalize(to_quat(q))


@device
def load_vec3(a: wp.array[Any], i: int) -> vec3:
    """The vector that lies in an array from entry i on."""
    return vec3(scalar(a[i]), scalar(a[i + 1]), scalar(a[i + 2]))


@device
def load_quat(a: wp.array[Any], i: int) -> quat:
    """The unit quaternion that lies in an array from entry i on."""
    return wp.normalize(quat(scalar(a[i]), scalar(a[i + 1]), scalar(a[i + 2]), scalar(a[i + 3])))


@device
def is_zero(v: vec3) -> bool:
    """Return True if all parts of a vector are zero."""
    return v[0] == scalar(0.0) and v[1] == scalar(0.0) and v[2] == scalar(0.0)


@device
def is_identity(q: quat) -> bool:
    """Return True if a rotation is none."""
    return q[0] == scalar(0.0) and q[1] == scalar(0.0) and q[2] == scalar(0.0) and wp.abs(q[3]) == scalar(1.0)


@device
def skew(a: vec3) -> mat33:
    """The matrix [a]x of a cross product."""
    z = scalar(0.0)
    return mat33(z, -a[2], a[1], a[2], z, -a[0], -a[1], a[0], z)


@device
def rotate(q: quat, v: vec3) -> vec3:
    """Rotate a vector, in twenty operations."""
    x = vec3(q[0], q[1], q[2])
    t = wp.cross(x, v)
    t = t + t
    return v + q[3] * t + wp.cross(x, t)


@device
def rotation_matrix(q: quat) -> mat33:
    """The matrix of a rotation."""
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


@device
def turn_about(axis: vec3, angle: scalar) -> quat:
    """Rotation about a unit axis."""
    half = scalar(0.5) * angle
    s = wp.sin(half)
    return quat(axis[0] * s, axis[1] * s, axis[2] * s, wp.cos(half))
