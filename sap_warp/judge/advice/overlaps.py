"""Advice about bodies that start deep inside each other, which contact would throw apart.

The depth is a lower bound, so that there are no false alarms: each shape is represented by balls that lie inside of it
(a mesh by some of its vertices), and a ball is at least as deep in the other shape as its centre says. Only the first
world is looked at. Triangle meshes that are not convex contain nothing here; their vertices may lie in other shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import newton
import numpy as np

from ...collision.broad.pairs import may_collide
from ...core.notes import Note
from ...model.shapes import PLANES, WITH_VERTICES, ShapeType, shape_type
from ...solver.model.initial_poses import body_poses, rotate

MIN_DEPTH, MIN_SHARE = 0.002, 0.2
"""Depth from which on an overlap is noted, in metres and as a share of the smaller shape's radius."""
MAX_PAIRS = 5000
"""Most pairs that are examined closely, those whose bounding balls overlap most."""
_VERTICES = 200
"""Most vertices of a mesh that are tested."""


def advise_overlaps(model: newton.Model, solver_options: Mapping[str, Any]) -> list[Note]:
    """Note pairs of shapes that may collide and start deep inside each other."""
    scene = _Shapes(model)
    found = []
    for a, b in scene.near_pairs():
        depth = max(scene.depth(a, b), scene.depth(b, a))
        if depth > max(MIN_DEPTH, MIN_SHARE * min(scene.radius[a], scene.radius[b])):
            found.append((depth, a, b))
    if not found:
        return []
    depth, a, b = max(found)
    names = " and ".join(repr(_owner(model, shape)) for shape in (a, b))
    more = f" (and {len(found) - 1} other pairs of shapes)" if len(found) > 1 else ""
    bodies = [int(model.shape_body.numpy()[shape]) for shape in (a, b)]
    what = (
        f"{names} start {100.0 * depth:.2g} cm inside each other{more}; contact will throw them apart: move one of them"
    )
    return [Note("overlap", what, ("body", max(bodies)))]


def _owner(model: newton.Model, shape: int) -> str:
    """Return the label of the body of a shape, or of the shape itself if it is part of the world."""
    body = int(model.shape_body.numpy()[shape])
    return str(model.shape_label[shape] if body < 0 else model.body_label[body])


class _Shapes:
    """Shapes of the first world at its initial pose."""

    def __init__(self, model: newton.Model):
        """Compute the poses of the shapes."""
        self.model = model
        self.kind, self.scale = model.shape_type.numpy(), model.shape_scale.numpy().astype(np.float64)
        body, local = model.shape_body.numpy(), model.shape_transform.numpy().astype(np.float64)
        poses = np.append(body_poses(model, model.joint_q.numpy()), [[0, 0, 0, 0, 0, 0, 1.0]], axis=0)[body]
        self.origin = poses[:, :3] + rotate(poses[:, 3:], local[:, :3])
        axes = [rotate(poses[:, 3:], rotate(local[:, 3:], np.tile(e, (len(body), 1)))) for e in np.eye(3)]
        self.axes = np.stack(axes, axis=2)  # columns are the axes of the shape in world frame
        self.is_plane = np.isin(self.kind, PLANES)
        self.radius = model.shape_collision_radius.numpy().astype(np.float64)
        colliding = (model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
        self.here = np.flatnonzero(colliding & (model.shape_world.numpy() <= 0))
        self._hulls: dict[int, np.ndarray] = {}
        self.middle = self._middles()

    def _middles(self) -> np.ndarray:
        """Return the centres of the bounding balls: the middle of the box around a mesh, the origin of other shapes."""
        middle = self.origin.copy()
        for shape in self.here[np.isin(self.kind[self.here], WITH_VERTICES)]:
            vertices = self._vertices(shape)
            if len(vertices):
                middle[shape] += self.axes[shape] @ (0.5 * (vertices.min(axis=0) + vertices.max(axis=0)))
        return middle

    def near_pairs(self) -> list[tuple[int, int]]:
        """Return pairs that may collide and whose bounding balls overlap."""
        pairs = self._pairs()
        a, b = pairs.T
        away = np.linalg.norm(self.middle[a] - self.middle[b], axis=1)
        for i, j in ((a, b), (b, a)):
            height = np.einsum("pi,pi->p", self.middle[i] - self.origin[j], self.axes[j, :, 2])
            away = np.where(self.is_plane[j], np.maximum(height + self.radius[j], 0.0), away)
        overlap = (self.radius[a] + self.radius[b] - away) / np.minimum(self.radius[a], self.radius[b])
        near = np.flatnonzero(overlap > 0.0)
        near = near[np.argsort(-overlap[near], kind="stable")[:MAX_PAIRS]]
        return [(int(i), int(j)) for i, j in pairs[near]]

    def _pairs(self) -> np.ndarray:
        """Return pairs of the first world that may collide, shape (pairs, 2); near ones if the model lists none."""
        listed = self.model.shape_contact_pairs
        if listed is not None:
            pairs = listed.numpy().reshape(-1, 2)
            return pairs[(self.model.shape_world.numpy()[pairs] <= 0).all(axis=1)]
        from scipy.spatial import cKDTree

        plane = self.is_plane[self.here]
        solid = self.here[~plane]
        limit = 2.0 * np.median(self.radius[solid]) if len(solid) else 0.0
        close = solid[cKDTree(self.middle[solid]).query_pairs(limit, output_type="ndarray")] if len(solid) else []
        grid = np.stack(np.meshgrid(solid, self.here[plane], indexing="ij"), axis=-1).reshape(-1, 2)
        pairs = np.concatenate([np.reshape(close, (-1, 2)), grid]).astype(np.int64)
        return pairs[may_collide(self.model, pairs)]

    def depth(self, a: int, b: int) -> float:
        """Return a lower bound of the depth of shape a in shape b [m]; negative if no ball of a reaches it."""
        centres, radius = self._balls(a, few=not self.is_plane[b])
        if not len(centres):
            return -np.inf
        world = self.origin[a] + centres @ self.axes[a].T
        distance = self._distance(b, (world - self.origin[b]) @ self.axes[b])
        return float(radius - distance.min())

    def _balls(self, shape: int, few: bool) -> tuple[np.ndarray, float]:
        """Return centres of balls inside of a shape, in its own frame, and their radius [m].

        Args:
            shape: Its number.
            few: Whether some vertices of a mesh are enough; a plane, which is cheap, is compared with all of them.
        """
        kind, size = self._type(shape), self.scale[shape]
        if kind.has_vertices:
            vertices = self._vertices(shape)
            return vertices[:: max(1, len(vertices) // _VERTICES) if few else 1], 0.0
        return (np.zeros((0, 3)), 0.0) if kind.inner_balls is None else kind.inner_balls(size)

    def _distance(self, shape: int, x: np.ndarray) -> np.ndarray:
        """Return signed distances of points to a convex shape, in its frame, or upper bounds; infinite if unknown."""
        kind = self._type(shape)
        if kind.distance is not None:
            return kind.distance(self.scale[shape], x)
        planes = self._hull(shape) if kind.has_vertices else np.zeros((0, 4))
        return (x @ planes[:, :3].T + planes[:, 3]).max(axis=1) if len(planes) else np.full(len(x), np.inf)

    def _hull(self, shape: int) -> np.ndarray:
        """Return the outward planes of a convex mesh, shape (planes, 4); none for others."""
        if shape not in self._hulls:
            from scipy.spatial import ConvexHull, QhullError

            try:
                hull = ConvexHull(self._vertices(shape))
            except QhullError:  # flat
                return np.zeros((0, 4))
            corners = self._vertices(shape)[np.reshape(self.model.shape_source[shape].indices, (-1, 3))]
            volume = abs(np.einsum("ti,ti->t", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum()) / 6.0
            convex = self._type(shape).is_convex or volume > 0.99 * hull.volume
            self._hulls[shape] = hull.equations if convex else np.zeros((0, 4))
        return self._hulls[shape]

    def _type(self, shape: int) -> ShapeType:
        return shape_type(self.kind[shape])

    def _vertices(self, shape: int) -> np.ndarray:
        vertices = np.asarray(self.model.shape_source[shape].vertices, dtype=np.float64).reshape(-1, 3)
        return vertices * self.scale[shape]
