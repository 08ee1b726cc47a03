"""How far shapes reach: corners of their boxes, for cameras that show everything."""

from __future__ import annotations

from typing import Any

import newton
import numpy as np

_SIGNS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


class Extent:
    """Corners of the boxes around the visible shapes of one world of a model, and where they are now."""

    def __init__(self, model: Any, world: int):
        """Look at the shapes of ``world`` of ``model``, and at those that are in no world."""
        flags, worlds = model.shape_flags.numpy(), model.shape_world.numpy()
        visible = (flags & int(newton.ShapeFlags.VISIBLE)) != 0
        corners, bodies = [], []
        for shape in np.flatnonzero(visible & ((worlds == world) | (worlds < 0))):
            box = _box(model, int(shape))
            if box is not None:
                corners.append(_place(box, model.shape_transform.numpy()[shape][None]))
                bodies.append(np.full(8, model.shape_body.numpy()[shape]))
        self._corners = np.concatenate(corners) if corners else np.zeros((0, 3))
        self._bodies = np.concatenate(bodies) if bodies else np.zeros(0, int)

    def points(self, body_q: np.ndarray) -> np.ndarray:
        """The corners now [m], shape [n, 3]; what does not move is cut off far beyond what does.

        Args:
            body_q: Poses of all bodies of the model, shape [bodies, 7].
        """
        moves = self._bodies >= 0
        moving = _place(self._corners[moves], body_q[self._bodies[moves]])
        moving = moving[np.isfinite(moving).all(axis=1)]
        still = self._corners[~moves]
        if not len(moving):
            return still
        low, high = moving.min(axis=0), moving.max(axis=0)
        room = 0.75 * (high - low).max()
        still = np.clip(still, low - room, high + room)
        return np.concatenate([moving, still])


def _box(model: Any, shape: int) -> np.ndarray | None:
    """Corners of a shape in its own frame, shape [8, 3]; None if it has no end."""
    kind = newton.GeoType(int(model.shape_type.numpy()[shape]))
    a, b, c = (float(x) for x in model.shape_scale.numpy()[shape])
    halves = {
        newton.GeoType.BOX: (a, b, c),
        newton.GeoType.ELLIPSOID: (a, b, c),
        newton.GeoType.SPHERE: (a, a, a),
        newton.GeoType.CAPSULE: (a, a, b + a),
        newton.GeoType.CYLINDER: (a, a, b),
        newton.GeoType.CONE: (a, a, b),
    }
    if kind in halves:
        return _SIGNS * halves[kind]
    vertices = getattr(model.shape_source[shape], "vertices", None)
    if vertices is None or not len(vertices):
        return None
    scaled = np.asarray(vertices, float).reshape(-1, 3) * (a, b, c)
    low, high = scaled.min(axis=0), scaled.max(axis=0)
    return (low + high) / 2.0 + _SIGNS * (high - low) / 2.0


def _place(points: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """Points moved by poses [m, quaternion xyzw], one for each or one for all."""
    position, axis, real = poses[:, :3], poses[:, 3:6], poses[:, 6:7]
    twice = 2.0 * np.cross(axis, points)
    return points + real * twice + np.cross(axis, twice) + position
