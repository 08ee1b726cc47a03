"""Quaternions, poses and the up axis."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ._arrays import Array, as_vectors, multiply, reject_warp_array, rotate
from .systems import SYSTEMS, get_convention
from .table import Convention

_AXES = ("X", "Y", "Z")
UpAxisKind = Literal["vector", "quaternion", "pose", "twist", "wrench"]


def convert_quaternion(quaternion: Any, source: str | Convention, target: str | Convention) -> Array:
    """Reorder quaternions between storage orders; the rotation and the sign are untouched.

    Args:
        quaternion: In the order of the system ``source``, shape [..., 4].

    Returns:
        Quaternions in the order of the system ``target``, shape [..., 4], a new array.
    """
    source, target = get_convention(source), get_convention(target)
    q = as_vectors(quaternion, "quaternion", 4, f"a {source.title} quaternion ({source.quaternion})")
    return _reorder(q, _field(source, "quaternion"), _field(target, "quaternion"))


def convert_pose(pose: Any, source: str | Convention, target: str | Convention) -> Array:
    """Convert free-joint positions between layouts: order of position and rotation, and of the quaternion.

    Args:
        pose: Body poses in the layout of the system ``source``, in [m], shape [..., 7].

    Returns:
        Poses in the layout of the system ``target``, shape [..., 7], a new array.
    """
    source, target = get_convention(source), get_convention(target)
    array = as_vectors(pose, "pose", 7, f"a {source.title} pose")
    position, quaternion = _split_pose(array, _field(source, "pose"))
    quaternion = _reorder(quaternion, _field(source, "quaternion"), _field(target, "quaternion"))
    return _join_pose(position, quaternion, _field(target, "pose"))


def up_axis_rotation(source_axis: Any, target_axis: Any) -> Array:
    """Return the rotation that turns a world with one up axis into a world with another.

    It is the shortest one: a quarter turn about the third axis, for Y-up to Z-up +90 degrees about X.

    Args:
        source_axis: Up axis of the data: "X", "Y", "Z", 0, 1, 2 or ``newton.Axis``.
        target_axis: Up axis wanted.

    Returns:
        Quaternion xyzw, shape [4], that takes source coordinates to target coordinates.
    """
    a, b = axis_index(source_axis, "source_axis"), axis_index(target_axis, "target_axis")
    if a == b:
        return np.array([0.0, 0.0, 0.0, 1.0])
    q = np.zeros(4)
    q[3] = np.sqrt(0.5)
    q[3 - a - b] = np.sqrt(0.5) if (b - a) % 3 == 1 else -np.sqrt(0.5)
    return q


def convert_up_axis(
    values: Any,
    source_axis: Any,
    target_axis: Any,
    *,
    kind: UpAxisKind = "vector",
    system: str | Convention = "public",
) -> Array:
    """Rewrite world-frame data for a world with another up axis.

    Only the world frame turns; body frames stay fixed to their bodies, so blocks in body axes do not change.

    Args:
        values: Data to convert: vectors or points [..., 3], body orientations [..., 4], poses [..., 7], twists or
            wrenches [..., 6].
        source_axis: Up axis of ``values``: "X", "Y", "Z", 0, 1, 2 or ``newton.Axis``.
        target_axis: Up axis wanted.
        kind: What ``values`` are.
        system: System whose layout ``values`` have; it is kept.

    Returns:
        The data in the new world frame, same shape and layout.
    """
    q = up_axis_rotation(source_axis, target_axis)
    convention = get_convention(system)
    if kind == "vector":
        array = as_vectors(values, "values", 3, "vectors or points")
        return rotate(q, array).astype(array.dtype)
    if kind == "quaternion":
        array = as_vectors(values, "values", 4, "quaternions")
        return _turn(q, array, convention).astype(array.dtype)
    if kind == "pose":
        array = as_vectors(values, "values", 7, "poses")
        position, quaternion = _split_pose(array, _field(convention, "pose"))
        turned = _join_pose(rotate(q, position), _turn(q, quaternion, convention), _field(convention, "pose"))
        return turned.astype(array.dtype)
    if kind in ("twist", "wrench"):
        return _turn_spatial(q, as_vectors(values, "values", 6, f"{kind}s"), _field(convention, kind))
    raise ValueError(f"kind: expected vector, quaternion, pose, twist or wrench; got {kind!r}")


def rotation_matrix(quaternion: Any) -> Array:
    """Return the rotation matrix [3, 3] of a unit quaternion xyzw."""
    x, y, z, w = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def axis_index(axis: Any, name: str = "axis") -> int:
    """Return 0, 1 or 2 for an axis given as letter, number or ``newton.Axis`` (an IntEnum)."""
    reject_warp_array(axis, name)
    if isinstance(axis, str) and axis.upper() in _AXES:
        return _AXES.index(axis.upper())
    if isinstance(axis, int | np.integer) and not isinstance(axis, bool) and 0 <= axis <= 2:
        return int(axis)
    raise ValueError(f"{name}: expected 'X', 'Y', 'Z', 0, 1, 2 or newton.Axis; got {axis!r}")


def _field(convention: Convention, item: str) -> Any:
    """Return an item of a record, or say that the system does not define it."""
    value = getattr(convention, item)
    if value is None:
        having = ", ".join(name for name, record in SYSTEMS.items() if getattr(record, item) is not None)
        raise ValueError(f"{convention.title} defines no {item} layout; systems that do: {having}")
    return value


def _reorder(q: Array, order_in: str, order_out: str) -> Array:
    return q[..., [order_in.index(component) for component in order_out]]


def _split_pose(array: Array, order: str) -> tuple[Array, Array]:
    """Return position [..., 3] and quaternion [..., 4] of poses."""
    if order == "position_first":
        return array[..., :3], array[..., 3:]
    return array[..., 4:], array[..., :4]


def _join_pose(position: Array, quaternion: Array, order: str) -> Array:
    parts = (position, quaternion) if order == "position_first" else (quaternion, position)
    return np.concatenate(parts, axis=-1)


def _turn(q_up: Array, quaternion: Array, convention: Convention) -> Array:
    """Turn the world frame under body orientations stored in the convention's order."""
    order = _field(convention, "quaternion")
    return _reorder(multiply(q_up, _reorder(quaternion, order, "xyzw")), "xyzw", order)


def _turn_spatial(q_up: Array, array: Array, layout: Any) -> Array:
    """Turn those blocks of twists or wrenches that are expressed in world axes."""
    frames = (layout.linear_frame, layout.angular_frame)
    if layout.order == "angular_first":
        frames = frames[::-1]
    blocks = (array[..., :3], array[..., 3:])
    turned = [rotate(q_up, b) if frame == "world" else b for b, frame in zip(blocks, frames, strict=True)]
    return np.concatenate(turned, axis=-1).astype(array.dtype)
