"""Conversion of twists and wrenches between any two systems of the table.

A conversion does three things, in this order: bring both blocks to world axes, move the reference point, and express
the blocks in the axes of the target. With r the vector from the source's point to the target's point,

    v_target = v_source + w x r            tau_target = tau_source - r x f

which leaves the power v.f + w.tau unchanged. Information about the body is asked for only when one of these
operations needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._arrays import Array, as_unit_quaternions, as_vectors, broadcast_batch, conjugate, rotate
from .systems import SYSTEMS, get_convention
from .table import Convention, SpatialLayout


def convert_twist(
    twist: Any,
    source: str | Convention,
    target: str | Convention,
    *,
    pose: Any = None,
    position: Any = None,
    rotation: Any = None,
    com: Any = None,
) -> Array:
    """Convert rigid-body velocities between systems.

    Args:
        twist: Velocities in the source's layout, in [m/s, rad/s; deg/s for USD], shape [..., 6].
        source: System of ``twist``.
        target: System wanted.
        pose: Body pose in the world: an array [..., 7] (x, y, z, qx, qy, qz, qw) [m] or a pair (position, rotation).
            Excludes ``position`` and ``rotation``.
        position: Body origin p_WB in the world, in [m], shape [..., 3]. Needed for the Modern Robotics spatial twist.
        rotation: Body orientation, unit quaternion xyzw, shape [..., 4]. Needed to change axes or to use ``com``.
        com: Centre of mass in the body frame, in [m], shape [..., 3]. Needed to move between centre of mass and another
            point; pass zeros if the centre of mass is the body origin.

    Returns:
        Velocities in the target's layout, shape [..., 6]; the leading dimensions of all arguments broadcast.
        float32 if ``twist`` is float32, else float64. Always a new array.

    Raises:
        ValueError: A needed argument is missing (the message says which and why), a shape is wrong, or a system has
            no twist.
    """
    body = _BodyInfo.read(pose, position, rotation, com)
    return _convert("twist", twist, source, target, body)


def convert_wrench(
    wrench: Any,
    source: str | Convention,
    target: str | Convention,
    *,
    pose: Any = None,
    position: Any = None,
    rotation: Any = None,
    com: Any = None,
) -> Array:
    """Convert rigid-body forces between systems, as the dual of :func:`convert_twist`.

    For every system that has both, the dot product of wrench and twist is the same power [W].

    Args:
        wrench: Forces and moments in the source's layout, in [N, N m], shape [..., 6].
        source: System of ``wrench``.
        target: System wanted.
        pose: As in :func:`convert_twist`.
        position: As in :func:`convert_twist`.
        rotation: As in :func:`convert_twist`.
        com: As in :func:`convert_twist`.

    Returns:
        Forces and moments in the target's layout, shape [..., 6].

    Raises:
        ValueError: As in :func:`convert_twist`.
    """
    body = _BodyInfo.read(pose, position, rotation, com)
    return _convert("wrench", wrench, source, target, body)


@dataclass(frozen=True)
class _BodyInfo:
    """What the caller told about the body, checked; float64."""

    position: Array | None
    rotation: Array | None
    com: Array | None

    @classmethod
    def read(cls, pose: Any, position: Any, rotation: Any, com: Any) -> _BodyInfo:
        if pose is not None:
            if position is not None or rotation is not None:
                raise ValueError("pose: give either pose or position and rotation, not both")
            position, rotation = _split_pose(pose)
        return cls(
            None if position is None else as_vectors(position, "position", 3, "p_WB [m]").astype(np.float64),
            None if rotation is None else as_unit_quaternions(rotation, "rotation"),
            None if com is None else as_vectors(com, "com", 3, "body-frame centre of mass [m]").astype(np.float64),
        )


def _split_pose(pose: Any) -> tuple[Any, Any]:
    if isinstance(pose, list | tuple) and len(pose) == 2:
        return pose[0], pose[1]
    array = as_vectors(pose, "pose", 7, "(x, y, z, qx, qy, qz, qw) or a pair (position, rotation)")
    return array[..., :3], array[..., 3:]


def _convert(kind: str, value: Any, source: str | Convention, target: str | Convention, body: _BodyInfo) -> Array:
    """Convert a twist or wrench; ``kind`` is the field of the record that holds the layouts."""
    source, target = get_convention(source), get_convention(target)
    layout_in, layout_out = _layout(source, kind), _layout(target, kind)
    array = as_vectors(value, kind, 6, f"a {source.title} {kind}")
    _check_needs(kind, source, target, body)
    batch = broadcast_batch(
        **{kind: array}, position=body.position, rotation=body.rotation, com=body.com
    )  # information given but not needed must still match, or the caller has mixed up arrays
    if layout_in == layout_out:
        return np.broadcast_to(array, (*batch, 6)).copy()
    linear, angular = _split(array.astype(np.float64), layout_in)
    linear, angular = _transform(kind, linear, angular, layout_in, layout_out, body)
    return _join(linear, angular, layout_out, batch).astype(array.dtype)


def _layout(convention: Convention, kind: str) -> SpatialLayout:
    layout: SpatialLayout | None = getattr(convention, kind)
    if layout is None:
        having = ", ".join(name for name, record in SYSTEMS.items() if getattr(record, kind) is not None)
        raise ValueError(f"{convention.title} defines no {kind}; systems that do: {having}. {convention.note}")
    return layout


def _needs(a: SpatialLayout, b: SpatialLayout) -> dict[str, str]:
    """Return the body information a conversion between two layouts needs, each with the reason."""
    needs: dict[str, str] = {}
    if a.reference != b.reference:
        if "com" in (a.reference, b.reference):
            needs["com"] = "to move the reference point to or from the centre of mass"
            needs["rotation"] = "because com is given in the body frame"
        if "world_origin" in (a.reference, b.reference):
            needs["position"] = "to move the reference point to or from the world origin"
        if "body" in (a.linear_frame, a.angular_frame, b.linear_frame, b.angular_frame):
            needs["rotation"] = "to change between body axes and world axes"
    elif (a.linear_frame, a.angular_frame) != (b.linear_frame, b.angular_frame):
        needs["rotation"] = "to change between body axes and world axes"
    return needs


def _check_needs(kind: str, source: Convention, target: Convention, body: _BodyInfo) -> None:
    needs = _needs(_layout(source, kind), _layout(target, kind))
    missing = [f"{name} ({why})" for name, why in sorted(needs.items()) if getattr(body, name) is None]
    if missing:
        hint = "" if missing[0].startswith("com") and len(missing) == 1 else "; pose gives position and rotation"
        raise ValueError(f"converting a {kind} from {source.name} to {target.name} needs {' and '.join(missing)}{hint}")


def _transform(
    kind: str, linear: Array, angular: Array, layout_in: SpatialLayout, layout_out: SpatialLayout, body: _BodyInfo
) -> tuple[Array, Array]:
    """Change axes and reference point of the two blocks; units of angle are radians here."""
    if layout_in.reference == layout_out.reference:
        # Without a shift the blocks do not mix: each needs a rotation only if its own axes change.
        linear = _change_axes(linear, layout_in.linear_frame, layout_out.linear_frame, body)
        angular = _change_axes(angular, layout_in.angular_frame, layout_out.angular_frame, body)
        return linear, angular
    linear = _change_axes(linear, layout_in.linear_frame, "world", body)
    angular = _change_axes(angular, layout_in.angular_frame, "world", body)
    r = _from_origin(layout_out, body) - _from_origin(layout_in, body)
    if kind == "twist":
        linear = linear + np.cross(angular, r)
    else:
        angular = angular - np.cross(r, linear)
    linear = _change_axes(linear, "world", layout_out.linear_frame, body)
    angular = _change_axes(angular, "world", layout_out.angular_frame, body)
    return linear, angular


def _change_axes(block: Array, frame_in: str, frame_out: str, body: _BodyInfo) -> Array:
    if frame_in == frame_out:
        return block
    assert body.rotation is not None  # checked by _check_needs
    return rotate(body.rotation if frame_out == "world" else conjugate(body.rotation), block)


def _from_origin(layout: SpatialLayout, body: _BodyInfo) -> Array:
    """Return the vector from the body origin to the reference point of ``layout``, world axes [m].

    Measured from the body origin rather than the world origin, so that bodies far from the world origin lose no
    digits when the reference only moves between origin and centre of mass.
    """
    if layout.reference == "com":
        assert body.rotation is not None and body.com is not None  # checked by _check_needs
        return rotate(body.rotation, body.com)
    if layout.reference == "world_origin":
        assert body.position is not None  # checked by _check_needs
        return -body.position
    return np.zeros(3)


def _split(array: Array, layout: SpatialLayout) -> tuple[Array, Array]:
    """Return the linear and angular blocks, angles in radians."""
    first, second = array[..., :3], array[..., 3:]
    linear, angular = (first, second) if layout.order == "linear_first" else (second, first)
    return linear, np.deg2rad(angular) if layout.angle_unit == "deg" else angular


def _join(linear: Array, angular: Array, layout: SpatialLayout, batch: tuple[int, ...]) -> Array:
    """Return the six-entry arrays [*batch, 6] of two blocks whose angles are in radians."""
    if layout.angle_unit == "deg":
        angular = np.rad2deg(angular)
    blocks = (linear, angular) if layout.order == "linear_first" else (angular, linear)
    return np.concatenate([np.broadcast_to(block, (*batch, 3)) for block in blocks], axis=-1)
