"""Rotations of many worlds, for NumPy and torch alike; quaternions are xyzw."""

from __future__ import annotations

from typing import Any


def up_axis(q: Any) -> Any:
    """Return the vertical part of the turned z axis, 1 when it points up; ``q`` of shape (n, 4)."""
    return 1.0 - 2.0 * (q[:, 0] ** 2 + q[:, 1] ** 2)


def rotate_inverse(xp: Any, q: Any, v: Any) -> Any:
    """Return vectors of shape (n, 3) as seen from frames turned by ``q`` of shape (n, 4)."""
    x, y, z, w = q[:, 0], q[:, 1], q[:, 2], q[:, 3]
    a, b, c = v[:, 0], v[:, 1], v[:, 2]
    # v + 2 w (v x u) + 2 u x (u x v) with u = (x, y, z); t = 2 u x v
    t0, t1, t2 = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
    return xp.stack([a - w * t0 + (y * t2 - z * t1), b - w * t1 + (z * t0 - x * t2), c - w * t2 + (x * t1 - y * t0)], 1)


def rotate(xp: Any, q: Any, v: Any) -> Any:
    """Return vectors of shape (n, 3) or (3,), given in frames turned by ``q`` of shape (n, 4), in the world frame."""
    x, y, z, w = q[:, 0], q[:, 1], q[:, 2], q[:, 3]
    a, b, c = v[..., 0], v[..., 1], v[..., 2]
    t0, t1, t2 = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
    return xp.stack([a + w * t0 + (y * t2 - z * t1), b + w * t1 + (z * t0 - x * t2), c + w * t2 + (x * t1 - y * t0)], 1)


def down_in_body(xp: Any, q: Any) -> Any:
    """Return the direction of gravity, a unit vector, seen from frames turned by ``q``; shape (n, 3)."""
    x, y, z, w = q[:, 0], q[:, 1], q[:, 2], q[:, 3]
    return xp.stack([2.0 * (w * y - x * z), -2.0 * (w * x + y * z), 2.0 * (x * x + y * y) - 1.0], 1)


def product(xp: Any, a: Any, b: Any) -> Any:
    """Return rotations of shape (n, 4): first the turn ``b``, then ``a``."""
    ax, ay, az, aw = (a[:, i] for i in range(4))
    bx, by, bz, bw = (b[:, i] for i in range(4))
    return xp.stack(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ],
        1,
    )
