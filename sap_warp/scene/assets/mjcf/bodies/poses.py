"""Poses in the notations of MJCF, read as position and quaternion (w, x, y, z)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....text.nodes import Node

ALTERNATIVES = ("axisangle", "xyaxes", "zaxis", "euler")
ORIENTATIONS = ("quat", *ALTERNATIVES)


@dataclass(frozen=True)
class Pose:
    """Position [m] and unit quaternion wxyz."""

    p: np.ndarray
    q: np.ndarray

    def __mul__(self, other: Pose) -> Pose:
        return Pose(self.apply(other.p), multiply(self.q, other.q))

    def apply(self, point: np.ndarray) -> np.ndarray:
        """Transform a point of this frame into the frame above."""
        return self.p + rotate(self.q, point)

    @property
    def is_identity(self) -> bool:
        """Return True if the pose changes nothing."""
        return not self.p.any() and self.q[0] == 1.0


IDENTITY = Pose(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))


@dataclass(frozen=True)
class Angles:
    """Conventions by which a file writes angles."""

    degrees: bool = True
    sequence: str = "xyz"

    @property
    def unit(self) -> float:
        """Radians of one unit."""
        return np.pi / 180.0 if self.degrees else 1.0


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of two quaternions wxyz."""
    w, u = a[0], a[1:]
    return np.concatenate([[w * b[0] - u @ b[1:]], w * b[1:] + b[0] * u + np.cross(u, b[1:])])


def rotate(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return ``v`` rotated by the quaternion ``q``."""
    t = 2.0 * np.cross(q[1:], v)
    return v + q[0] * t + np.cross(q[1:], t)


def about(axis: np.ndarray, angle: float) -> np.ndarray:
    """Return the quaternion of a rotation by ``angle`` [rad]; the identity for an axis of zero length."""
    length = np.linalg.norm(axis)
    if length == 0.0:
        return IDENTITY.q
    return np.concatenate([[np.cos(angle / 2.0)], np.sin(angle / 2.0) * axis / length])


def from_axes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the quaternion of a frame with this x axis and a y axis as near to the given one as possible."""
    x = x / np.linalg.norm(x)
    y = y - x * (x @ y)
    y = y / np.linalg.norm(y)
    R = np.column_stack([x, y, np.cross(x, y)])
    # the largest of the four squares first, so that nothing is divided by a small number
    squares = np.array([1.0 + R.trace(), *(1.0 - R.trace() + 2.0 * R.diagonal())])
    k = int(np.argmax(squares))
    skew = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    if k == 0:
        q = np.array([squares[0], *skew])
    else:
        q = np.array([skew[k - 1], *(R[k - 1] + R[:, k - 1])])
        q[k] = squares[k]
    return q / np.linalg.norm(q)


def from_z_axis(z: np.ndarray) -> np.ndarray:
    """Return the quaternion of the shortest rotation that takes the z axis to a direction."""
    axis = np.array([-z[1], z[0], 0.0])
    return about(axis if axis.any() else np.array([1.0, 0.0, 0.0]), float(np.arctan2(np.linalg.norm(axis), z[2])))


def from_euler(angles: np.ndarray, sequence: str) -> np.ndarray:
    """Return the quaternion of three turns [rad]: intrinsic axes for small letters, extrinsic for capital ones."""
    q = IDENTITY.q
    for letter, angle in zip(sequence, angles, strict=True):
        turn = about(np.eye(3)["xyz".index(letter.lower())], angle)
        q = multiply(q, turn) if letter.islower() else multiply(turn, q)
    return q


def read_rotation(node: Node, angles: Angles) -> np.ndarray:
    """Return the quaternion wxyz of an element."""
    if node.get("axisangle") is not None:
        values = node.numbers("axisangle", 4)
        return about(values[:3], values[3] * angles.unit)
    if node.get("xyaxes") is not None:
        values = node.numbers("xyaxes", 6)
        return from_axes(values[:3], values[3:])
    if node.get("zaxis") is not None:
        return from_z_axis(node.numbers("zaxis", 3))
    if node.get("euler") is not None:
        return from_euler(node.numbers("euler", 3) * angles.unit, angles.sequence)
    if node.get("quat") is not None:
        q = node.numbers("quat", 4)
        return q / np.linalg.norm(q)
    return IDENTITY.q


def read_pose(node: Node, angles: Angles) -> Pose:
    """Return the pose of an element in the frame above."""
    position = node.numbers("pos", 3) if node.get("pos") is not None else np.zeros(3)
    return Pose(position, read_rotation(node, angles))


def write_pose(node: Node, pose: Pose) -> None:
    """Set pos and quat of an element."""
    node.drop(*ALTERNATIVES)
    node.put("pos", pose.p)
    node.put("quat", pose.q)
