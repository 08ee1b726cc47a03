"""Checks on array arguments and the few vector operations the converters share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Quaternions read from fp32 data miss unit length by about 1e-7; anything beyond this is a wrong argument.
_UNIT_TOLERANCE = 1e-3


def reject_warp_array(value: Any, name: str) -> None:
    """Refuse device arrays: converting one here would hide a device-to-host copy."""
    # Checked by name so that warp need not be imported.
    for cls in type(value).__mro__:
        if cls.__module__.split(".")[0] == "warp" and "array" in cls.__name__:
            raise TypeError(
                f"{name}: NumPy data expected, got a Warp array; pass {name}.numpy(), or leave the conversion to the "
                f"solver, which converts public arrays on the device at the boundary of step()"
            )


def as_floats(value: Any, name: str) -> Array:
    """Return ``value`` as an array of float64, or float32 if it has that type already."""
    reject_warp_array(value, name)
    array = np.asarray(value)
    if array.dtype == np.float32:
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: numbers expected, got {array.dtype}") from error


def as_vectors(value: Any, name: str, size: int, meaning: str) -> Array:
    """Return ``value`` as an array of shape [..., size], or say what was expected."""
    array = as_floats(value, name)
    if array.ndim == 0 or array.shape[-1] != size:
        raise ValueError(f"{name}: expected shape (..., {size}), {meaning}; got {array.shape}")
    return array


def as_unit_quaternions(value: Any, name: str) -> Array:
    """Return xyzw quaternions [..., 4] in float64, scaled to unit length exactly."""
    q = as_vectors(value, name, 4, "a unit quaternion (x, y, z, w)").astype(np.float64)
    norm = np.linalg.norm(q, axis=-1, keepdims=True)
    if not np.all(np.abs(norm - 1.0) <= _UNIT_TOLERANCE):
        raise ValueError(f"{name}: expected unit quaternions (x, y, z, w), got norms from {norm.min()} to {norm.max()}")
    return np.asarray(q / norm)


def broadcast_batch(**arrays: Array | None) -> tuple[int, ...]:
    """Return the common batch shape (all axes but the last), or name the arguments that disagree."""
    shapes = {name: array.shape[:-1] for name, array in arrays.items() if array is not None}
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        listing = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"leading (batch) dimensions do not broadcast: {listing}") from error


def rotate(q: Array, v: Array) -> Array:
    """Rotate vectors v by unit quaternions q (xyzw): body to world for a body orientation."""
    u, w = q[..., :3], q[..., 3:]
    t = 2.0 * np.cross(u, v)
    return np.asarray(v + w * t + np.cross(u, t))


def conjugate(q: Array) -> Array:
    """Return the inverse of unit quaternions (xyzw)."""
    return np.asarray(q * np.array([-1.0, -1.0, -1.0, 1.0]))


def multiply(a: Array, b: Array) -> Array:
    """Return the quaternion product a b (xyzw): the rotation b followed by a."""
    a_xyz, a_w = a[..., :3], a[..., 3:]
    b_xyz, b_w = b[..., :3], b[..., 3:]
    xyz = a_w * b_xyz + b_w * a_xyz + np.cross(a_xyz, b_xyz)
    w = a_w * b_w - np.sum(a_xyz * b_xyz, axis=-1, keepdims=True)
    return np.concatenate([xyz, w], axis=-1)
