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
from ...solver.model.initial_poses import body_poses, rotate

_T = newton.GeoType
_MESHES = (int(_T.MESH), int(_T.CONVEX_MESH))
MIN_DEPTH, MIN_SHARE = 0.002, 0.2
"""Depth that is noted: at least so many metres, and this share of the smaller shape's radius."""
MAX_PAIRS = 5000
"""Most pairs that are looked at closely, those whose bounding balls overlap most."""
_VERTICES = 200
"""Most vertices of a mesh that are tried."""


def advise_overlaps(model: newton.Model, solver_options: Mapping[str, Any]) -> list[Note]:
    """Pairs of shapes that may collide and start deep inside each other."""
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
    """Label of the body of a shape, or of the shape where that is part of the world."""
    body = int(model.shape_body.numpy()[shape])
    return str(model.shape_label[shape] if body < 0 else model.body_label[body])


class _Shapes:
    """Shapes of the first world at its initial pose."""

    def __init__(self, model: newton.Model):
        """Place them."""
        self.model = model
        self.kind, self.scale = model.shape_type.numpy(), model.shape_scale.numpy().astype(np.float64)
        body, local = model.shape_body.numpy(), model.shape_transform.numpy().astype(np.float64)
        poses = np.append(body_poses(model, model.joint_q.numpy()), [[0, 0, 0, 0, 0, 0, 1.0]], axis=0)[body]
        self.place = poses[:, :3] + rotate(poses[:, 3:], local[:, :3])
        axes = [rotate(poses[:, 3:], rotate(local[:, 3:], np.tile(e, (len(body), 1)))) for e in np.eye(3)]
        self.axes = np.stack(axes, axis=2)  # columns are the axes of the shape in world frame
        self.radius = model.shape_collision_radius.numpy().astype(np.float64)
        colliding = (model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
        self.here = np.flatnonzero(colliding & (model.shape_world.numpy() <= 0))
        self._hulls: dict[int, np.ndarray] = {}
        self.middle = self._middles()

    def _middles(self) -> np.ndarray:
        """Centres of the bounding balls: of a mesh not its origin, but the middle of the box around it."""
        middle = self.place.copy()
        for shape in self.here[np.isin(self.kind[self.here], _MESHES)]:
            vertices = self._vertices(shape)
            if len(vertices):
                middle[shape] += self.axes[shape] @ (0.5 * (vertices.min(axis=0) + vertices.max(axis=0)))
        return middle

    def near_pairs(self) -> list[tuple[int, int]]:
        """Pairs that may collide and whose bounding balls overlap."""
        pairs = self._pairs()
        a, b = pairs.T
        away = np.linalg.norm(self.middle[a] - self.middle[b], axis=1)
        for i, j in ((a, b), (b, a)):
            plane = self.kind[j] == int(_T.PLANE)
            height = np.einsum("pi,pi->p", self.middle[i] - self.place[j], self.axes[j, :, 2])
            away = np.where(plane, np.maximum(height + self.radius[j], 0.0), away)
        overlap = (self.radius[a] + self.radius[b] - away) / np.minimum(self.radius[a], self.radius[b])
        near = np.flatnonzero(overlap > 0.0)
        near = near[np.argsort(-overlap[near], kind="stable")[:MAX_PAIRS]]
        return [(int(i), int(j)) for i, j in pairs[near]]

    def _pairs(self) -> np.ndarray:
        """Pairs of the first world that may collide, shape (pairs, 2); near ones only if the model lists none."""
        listed = self.model.shape_contact_pairs
        if listed is not None:
            pairs = listed.numpy().reshape(-1, 2)
            return pairs[(self.model.shape_world.numpy()[pairs] <= 0).all(axis=1)]
        from scipy.spatial import cKDTree

        plane = self.kind[self.here] == int(_T.PLANE)
        solid = self.here[~plane]
        limit = 2.0 * np.median(self.radius[solid]) if len(solid) else 0.0
        close = solid[cKDTree(self.middle[solid]).query_pairs(limit, output_type="ndarray")] if len(solid) else []
        grid = np.stack(np.meshgrid(solid, self.here[plane], indexing="ij"), axis=-1).reshape(-1, 2)
        pairs = np.concatenate([np.reshape(close, (-1, 2)), grid]).astype(np.int64)
        return pairs[may_collide(self.model, pairs)]

    def depth(self, a: int, b: int) -> float:
        """At least how deep shape a is in shape b [m]; negative if no ball of a reaches it."""
        centres, radius = self._balls(a, few=int(self.kind[b]) != int(_T.PLANE))
        if not len(centres):
            return -np.inf
        world = self.place[a] + centres @ self.axes[a].T
        distance = self._distance(b, (world - self.place[b]) @ self.axes[b])
        return float(radius - distance.min())

    def _balls(self, shape: int, few: bool) -> tuple[np.ndarray, float]:
        """Centres of balls inside of a shape, in its own frame, and their radius [m].

        Args:
            shape: Its number.
            few: Whether some vertices of a mesh are enough; a plane, which is cheap, is compared with all of them.
        """
        kind, size = int(self.kind[shape]), self.scale[shape]
        if kind in _MESHES:
            vertices = self._vertices(shape)
            return vertices[:: max(1, len(vertices) // _VERTICES) if few else 1], 0.0
        grid = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3), axis=-1).reshape(-1, 3)
        if kind == int(_T.BOX):
            return grid * (size - size.min()), float(size.min())
        if kind == int(_T.SPHERE):
            return np.zeros((1, 3)), float(size[0])
        if kind == int(_T.CAPSULE):
            return grid * [0.0, 0.0, size[1]], float(size[0])
        if kind == int(_T.CYLINDER):
            radius = float(size[:2].min())
            along = np.array([[0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1.0]])
            return along * (np.array([size[0], size[0], size[1]]) - radius), radius
        if kind == int(_T.ELLIPSOID):
            return np.zeros((1, 3)), float(size.min())
        return np.zeros((0, 3)), 0.0

    def _distance(self, shape: int, x: np.ndarray) -> np.ndarray:
        """Signed distance of points in the frame of a convex shape, or more; infinite for what contains nothing."""
        kind, size = int(self.kind[shape]), self.scale[shape]
        if kind == int(_T.PLANE):
            inside = ((np.abs(x[:, :2]) <= 0.5 * size[:2]) | (size[:2] == 0.0)).all(axis=1)
            return np.where(inside, x[:, 2], np.inf)
        if kind == int(_T.SPHERE):
            return np.linalg.norm(x, axis=1) - size[0]
        if kind == int(_T.CAPSULE):
            z = np.clip(x[:, 2], -size[1], size[1])
            return np.linalg.norm(x - np.stack([0 * z, 0 * z, z], axis=1), axis=1) - size[0]
        if kind == int(_T.BOX):
            return _corner(np.abs(x) - size)
        if kind == int(_T.CYLINDER):
            return _corner(np.stack([np.linalg.norm(x[:, :2], axis=1) - size[0], np.abs(x[:, 2]) - size[1]], axis=1))
        planes = self._hull(shape) if kind in _MESHES else np.zeros((0, 4))
        return (x @ planes[:, :3].T + planes[:, 3]).max(axis=1) if len(planes) else np.full(len(x), np.inf)

    def _hull(self, shape: int) -> np.ndarray:
        """Outward planes of a mesh that is convex, shape (planes, 4); none of others."""
        if shape not in self._hulls:
            from scipy.spatial import ConvexHull, QhullError

            try:
                hull = ConvexHull(self._vertices(shape))
            except QhullError:  # flat
                return np.zeros((0, 4))
            corners = self._vertices(shape)[np.reshape(self.model.shape_source[shape].indices, (-1, 3))]
            volume = abs(np.einsum("ti,ti->t", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum()) / 6.0
            convex = self.kind[shape] == int(_T.CONVEX_MESH) or volume > 0.99 * hull.volume
            self._hulls[shape] = hull.equations if convex else np.zeros((0, 4))
        return self._hulls[shape]

    def _vertices(self, shape: int) -> np.ndarray:
        vertices = np.asarray(self.model.shape_source[shape].vertices, dtype=np.float64).reshape(-1, 3)
        return vertices * self.scale[shape]


def _corner(outside: np.ndarray) -> np.ndarray:
    """Signed distance from how far a point is beyond each pair of faces."""
    return np.linalg.norm(np.maximum(outside, 0.0), axis=1) + np.minimum(outside.max(axis=1), 0.0)
