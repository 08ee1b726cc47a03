"""Extent of shapes: corners of their boxes, for cameras that show everything."""

from __future__ import annotations

from typing import Any

import newton
import numpy as np

from ...model.shapes import shape_type

_SIGNS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


class Extent:
    """Corners of the boxes around the visible shapes of one world of a model, at present poses."""

    def __init__(self, model: Any, world: int):
        """Collect the shapes of ``world`` of ``model``, and those that are in no world."""
        flags, worlds = model.shape_flags.numpy(), model.shape_world.numpy()
        visible = (flags & int(newton.ShapeFlags.VISIBLE)) != 0
        corners, bodies = [], []
        for shape in np.flatnonzero(visible & ((worlds == world) | (worlds < 0))):
            box = _box(model, int(shape))
            if box is not None:
                corners.append(_transform(box, model.shape_transform.numpy()[shape][None]))
                bodies.append(np.full(8, model.shape_body.numpy()[shape]))
        self._corners = np.concatenate(corners) if corners else np.zeros((0, 3))
        self._bodies = np.concatenate(bodies) if bodies else np.zeros(0, int)

    def points(self, body_q: np.ndarray) -> np.ndarray:
        """Return the present corners [m], shape [n, 3]; what does not move is cut off far beyond what does.

        Args:
            body_q: Poses of all bodies of the model, shape [bodies, 7].
        """
        moves = self._bodies >= 0
        moving = _transform(self._corners[moves], body_q[self._bodies[moves]])
        moving = moving[np.isfinite(moving).all(axis=1)]
        still = self._corners[~moves]
        if not len(moving):
            return still
        low, high = moving.min(axis=0), moving.max(axis=0)
        margin = 0.75 * (high - low).max()
        still = np.clip(still, low - margin, high + margin)
        return np.concatenate([moving, still])


def _box(model: Any, shape: int) -> np.ndarray | None:
    """Return the corners of a shape in its own frame, shape [8, 3]; None if it is infinite."""
    kind, size = shape_type(model.shape_type.numpy()[shape]), model.shape_scale.numpy()[shape].astype(float)
    bounds = kind.bounds(size, model.shape_source[shape])
    if bounds is None:
        return None
    low, high = bounds
    return (low + high) / 2.0 + _SIGNS * (high - low) / 2.0


def _transform(points: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """Transform points by poses [m, quaternion xyzw], one for each or one for all."""
    position, axis, real = poses[:, :3], poses[:, 3:6], poses[:, 6:7]
    twice = 2.0 * np.cross(axis, points)
    return points + real * twice + np.cross(axis, twice) + position
