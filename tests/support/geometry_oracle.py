"""Reference geometry for the collision tests: shapes in float64, closed forms and coal.

Nothing here uses Newton or Warp. A `Shape` knows its support function and its coal geometry; `separation` asks
coal (GJK and EPA in float64) for the signed distance of two convex shapes, and `gap_along` evaluates the same
quantity along one given direction from the support functions alone. The signed distance of two convex shapes is the
maximum of `gap_along` over all directions, so the second one certifies the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import coal
import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Pose:
    """A rigid transform: `rotation` is a 3x3 matrix, `position` in metres."""

    rotation: Array
    position: Array

    @staticmethod
    def from_xyzw(values: Array) -> Pose:
        """From seven numbers `(position, quaternion xyzw)`, as Newton stores a transform."""
        p, (x, y, z, w) = np.asarray(values[:3], dtype=np.float64), _unit(np.asarray(values[3:], dtype=np.float64))
        rotation = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )
        return Pose(rotation, p)

    def __matmul__(self, other: Pose) -> Pose:
        return Pose(self.rotation @ other.rotation, self.point(other.position))

    def point(self, local: Array) -> Array:
        """The point `local` (in this frame) in the outer frame."""
        return self.rotation @ local + self.position

    def local(self, point: Array) -> Array:
        """The point `point` (in the outer frame) in this frame."""
        return self.rotation.T @ (point - self.position)


@dataclass(frozen=True)
class Shape:
    """A shape with its size in Newton's conventions.

    `size` holds for a sphere (r), capsule, cylinder and cone (r, half height; axis z), ellipsoid (rx, ry, rz), box
    (hx, hy, hz) and plane (full width, full length; 0 means infinite). A `convex` has vertices and faces instead.
    """

    kind: str
    size: tuple[float, ...] = ()
    vertices: Array | None = field(default=None, compare=False)
    faces: Array | None = field(default=None, compare=False)
    name: str = ""

    def support(self, direction: Array) -> Array:
        """A point of the shape farthest along `direction`, both in the shape's frame."""
        d = np.asarray(direction, dtype=np.float64)
        if self.kind == "sphere":
            return self.size[0] * _unit(d)
        if self.kind == "capsule":
            r, h = self.size
            return r * _unit(d) + np.array([0.0, 0.0, np.copysign(h, d[2])])
        if self.kind == "ellipsoid":
            r = np.array(self.size)
            return r * _unit(r * d)
        if self.kind == "box":
            return np.copysign(self.size, d)
        if self.kind == "cylinder":
            r, h = self.size
            return np.array([*(r * _unit(d[:2])), np.copysign(h, d[2])])
        if self.kind == "cone":  # base at -h, apex at +h
            r, h = self.size
            apex, rim = np.array([0.0, 0.0, h]), np.array([*(r * _unit(d[:2])), -h])
            return apex if apex @ d > rim @ d else rim
        if self.kind == "plane":  # the finite one: a flat rectangle
            return np.array([*np.copysign(np.array(self.size) / 2, d[:2]), 0.0])
        if self.kind == "convex":
            return self.vertices[np.argmax(self.vertices @ d)]
        raise ValueError(self.kind)

    def geometry(self) -> coal.CollisionGeometry:
        """The same shape in coal, in the same frame."""
        key = id(self)
        if key not in _GEOMETRIES:
            _GEOMETRIES[key] = (self, self._make_geometry())
        return _GEOMETRIES[key][1]

    def _make_geometry(self) -> coal.CollisionGeometry:
        if self.kind == "sphere":
            return coal.Sphere(self.size[0])
        if self.kind in ("capsule", "cylinder", "cone"):
            make = {"capsule": coal.Capsule, "cylinder": coal.Cylinder, "cone": coal.Cone}[self.kind]
            return make(self.size[0], 2.0 * self.size[1])
        if self.kind == "ellipsoid":
            return coal.Ellipsoid(*self.size)
        if self.kind == "box":
            return coal.Box(*(2.0 * s for s in self.size))
        if self.kind == "convex":
            points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
            for v in self.vertices:
                points.append(np.asarray(v, dtype=np.float64))
            for f in self.faces:
                triangles.append(coal.Triangle(*(int(i) for i in f)))
            return coal.Convex(points, triangles)
        raise ValueError(self.kind)


_GEOMETRIES: dict[int, tuple[Shape, coal.CollisionGeometry]] = {}


@dataclass(frozen=True)
class Separation:
    """Signed distance [m] of two shapes, the unit normal from the first to the second, a witness point on each."""

    distance: float
    normal: Array
    point0: Array
    point1: Array


def _unit(v: Array) -> Array:
    norm = np.linalg.norm(v)
    return v / norm if norm > 0.0 else np.eye(len(v))[0]


def gap_along(a: Shape, pose_a: Pose, b: Shape, pose_b: Pose, normal: Array) -> float:
    """How far b lies beyond a along `normal` (from a to b): `min n.b - max n.a`; negative is overlap.

    For every unit `normal` this is a lower bound of the signed distance; the best `normal` attains it.
    """
    top = pose_a.point(a.support(pose_a.rotation.T @ normal)) @ normal
    bottom = pose_b.point(b.support(-pose_b.rotation.T @ normal)) @ normal
    return float(bottom - top)


def halfspace_gap(b: Shape, pose_b: Pose, origin: Array, normal: Array) -> float:
    """Signed distance [m] of the lowest point of b over the plane through `origin`: closed form of every shape."""
    return float((pose_b.point(b.support(-pose_b.rotation.T @ normal)) - origin) @ normal)


def _request() -> coal.DistanceRequest:
    request = coal.DistanceRequest(True, 0.0, 0.0)
    request.enable_signed_distance = True
    request.gjk_tolerance = request.epa_tolerance = 1e-8
    request.gjk_max_iterations = request.epa_max_iterations = 1000
    return request


_REQUEST = _request()


def separation(a: Shape, pose_a: Pose, b: Shape, pose_b: Pose) -> Separation:
    """Signed distance, normal and witness points by coal, for two convex shapes other than planes."""
    result = coal.DistanceResult()
    distance = coal.distance(
        a.geometry(),
        coal.Transform3s(pose_a.rotation, pose_a.position),
        b.geometry(),
        coal.Transform3s(pose_b.rotation, pose_b.position),
        _REQUEST,
        result,
    )
    return Separation(
        distance,
        np.array(result.normal).ravel(),
        np.array(result.getNearestPoint1()).ravel(),
        np.array(result.getNearestPoint2()).ravel(),
    )


def surface_distance(shape: Shape, pose: Pose, point: Array) -> float:
    """Signed distance [m] of a point to the surface of a convex shape, negative inside.

    Closed forms where they are short: coal's distance of a point on a cylinder's surface is unreliable.
    """
    p = pose.local(point)
    if shape.kind == "sphere":
        return float(np.linalg.norm(p) - shape.size[0])
    if shape.kind == "capsule":
        r, h = shape.size
        return float(np.linalg.norm(p - [0.0, 0.0, np.clip(p[2], -h, h)]) - r)
    if shape.kind == "box":
        return _corner_distance(np.abs(p) - shape.size)
    if shape.kind == "cylinder":
        r, h = shape.size
        return _corner_distance(np.array([np.hypot(p[0], p[1]) - r, abs(p[2]) - h]))
    if shape.kind == "cone":  # the triangle base centre, rim, apex in the (radius, height) half plane
        r, h = shape.size
        q = np.array([np.hypot(p[0], p[1]), p[2]])
        base, rim, apex = np.array([0.0, -h]), np.array([r, -h]), np.array([0.0, h])
        side_normal = _unit(np.array([2.0 * h, r]))
        inside = q[1] > -h and (q - rim) @ side_normal < 0.0
        edge = min(_segment_distance(q, base, rim), _segment_distance(q, rim, apex))
        return -edge if inside else edge
    if shape.kind == "plane":  # a flat rectangle has no inside
        half = np.array([*shape.size, 0.0]) / 2
        return float(np.linalg.norm(np.maximum(np.abs(p) - half, 0.0)))
    if shape.kind == "convex":
        corners = shape.vertices[shape.faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        inside = float(np.max(np.einsum("ij,ij->i", p - corners[:, 0], normals)))
        if inside <= 0.0:
            return inside
    return separation(shape, pose, _PROBE, Pose(np.eye(3), point)).distance + _PROBE.size[0]


_PROBE = Shape("sphere", (1e-3,))


def _corner_distance(q: Array) -> float:
    """Signed distance to the region where every component of `q` is negative."""
    return float(np.linalg.norm(np.maximum(q, 0.0)) + min(q.max(), 0.0))


def _segment_distance(q: Array, start: Array, end: Array) -> float:
    along = np.clip((q - start) @ (end - start) / ((end - start) @ (end - start)), 0.0, 1.0)
    return float(np.linalg.norm(q - start - along * (end - start)))


def mesh_distance(vertices: Array, faces: Array, point: Array) -> float:
    """Unsigned distance [m] of a point to a triangle mesh, by brute force over the triangles (Ericson 5.1.5)."""
    return min(float(np.linalg.norm(point - _closest_on_triangle(point, *vertices[f]))) for f in faces)


def _closest_on_triangle(p: Array, a: Array, b: Array, c: Array) -> Array:
    normal = np.cross(b - a, c - a)
    foot = p - normal * ((p - a) @ normal) / (normal @ normal)
    if all(np.cross(e - s, foot - s) @ normal >= 0.0 for s, e in ((a, b), (b, c), (c, a))):
        return foot
    candidates = []
    for s, e in ((a, b), (b, c), (c, a)):
        along = np.clip((p - s) @ (e - s) / ((e - s) @ (e - s)), 0.0, 1.0)
        candidates.append(s + along * (e - s))
    return min(candidates, key=lambda x: np.linalg.norm(p - x))
