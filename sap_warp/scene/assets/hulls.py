"""Convex hulls in place of the colliding meshes of an asset: what a mesh geom means in MuJoCo and most URDF tools.

A hull keeps every vertex up to `VERTICES`. A finer one is thinned: no vertex of the exact hull lies further outside of
what is left than `TOLERANCE` times its size; thousands of vertices on a rounded edge would cost more than they tell. An
asset can ask for another error (``hull_error``), which then holds for hulls of any number of vertices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import newton
import numpy as np

VERTICES = 256
"""Most vertices of a hull that is kept exactly; larger hulls are thinned."""
TOLERANCE = 2e-3
"""Largest distance by which a thinned hull may lie inside the exact one, in units of the mesh's largest extent."""
UNLIMITED = -1
"""Value of ``maxhullvert`` at which Newton keeps all vertices of a hull; its default would be 64."""
_FLAT = 1e-9
_FEW = 14
"""Directions from which a coarse hull is started: about those of the faces and corners of a cube."""


def replace_meshes(builder: newton.ModelBuilder, shapes: Iterable[int], error: float | None = None) -> list[str]:
    """Make convex hulls of the colliding meshes among ``shapes``; masses and inertias stay those of the meshes.

    Meshes with a distance field or for hydroelastic contact stay as they are.

    Args:
        builder: Whose shapes.
        shapes: Numbers of shapes.
        error: As in `convex_hull`.

    Returns:
        Labels of meshes that have no hull: flat ones. They stay meshes.
    """
    hulls: dict[int, newton.Mesh | None] = {}
    flat = []
    for shape in shapes:
        if not is_replaced(builder, shape):
            continue
        mesh = builder.shape_source[shape]
        if id(mesh) not in hulls:
            hulls[id(mesh)] = make_hull(mesh, np.asarray(mesh.vertices, np.float64), error)
        hull = hulls[id(mesh)]
        if hull is None:
            flat.append(builder.shape_label[shape])
            continue
        builder.shape_source[shape] = hull
        builder.shape_type[shape] = newton.GeoType.CONVEX_MESH
    return flat


def is_replaced(builder: newton.ModelBuilder, shape: int) -> bool:
    """Return True if a shape is a colliding mesh that convex shapes can replace."""
    collides = builder.shape_flags[shape] & int(newton.ShapeFlags.COLLIDE_SHAPES)
    field = (
        builder.shape_sdf_max_resolution[shape] is not None
        or builder.shape_sdf_target_voxel_size[shape] is not None
        or builder.shape_flags[shape] & int(newton.ShapeFlags.HYDROELASTIC)
    )
    return bool(builder.shape_type[shape] == newton.GeoType.MESH and collides and not field)


def make_hull(mesh: newton.Mesh, points: np.ndarray, error: float | None = None) -> newton.Mesh | None:
    """The convex hull of some ``points`` of a mesh, with the mass of the whole mesh; None if they lie in a plane.

    ``error`` as in `convex_hull`.
    """
    found = convex_hull(points, _limit_of(mesh), error)
    if found is None:
        return None
    hull = newton.Mesh(found[0].astype(np.float32), found[1].reshape(-1), compute_inertia=False)
    for name in ("maxhullvert", "is_solid", "has_inertia", "mass", "com", "inertia"):
        setattr(hull, name, getattr(mesh, name))
    return hull


def _limit_of(mesh: newton.Mesh) -> int | None:
    """Return how many hull vertices the file allows (``maxhullvert`` of MJCF)."""
    return int(mesh.maxhullvert) if mesh.maxhullvert > 0 else None


def convex_hull(
    points: np.ndarray, limit: int | None = None, error: float | None = None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Vertices and triangles of the convex hull, thinned.

    Args:
        points: Shape [n, 3].
        limit: Most vertices; the hull then lacks what it must.
        error: How far points may lie outside, in units of their largest extent; 0 keeps the hull as it is. None is
            `TOLERANCE` for hulls of more than `VERTICES` vertices and 0 for others.

    Returns:
        Vertices [m, 3] and triangles [k, 3], seen from outside anticlockwise; None if the points lie in a plane.
    """
    from scipy.spatial import ConvexHull, QhullError

    size = float(np.ptp(points, axis=0).max(initial=0.0))
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False) if len(points) > 3 else np.zeros(3)
    if not spread[-1] > _FLAT * max(spread[0], 1e-300):
        return None
    try:
        hull = ConvexHull(points)
        count = len(hull.vertices)
        if error is None:
            error = TOLERANCE if count > min(VERTICES, limit or VERTICES) else 0.0
        if error > 0.0 or count > (limit or count):
            hull = _thin(points[hull.vertices], error * size, limit or count)
    except QhullError:
        return None
    used, faces = np.unique(hull.simplices, return_inverse=True)
    vertices, faces = hull.points[used], faces.reshape(-1, 3)
    normals = np.cross(vertices[faces[:, 1]] - vertices[faces[:, 0]], vertices[faces[:, 2]] - vertices[faces[:, 0]])
    inwards = np.sum(normals * hull.equations[:, :3], axis=1) < 0.0
    faces[inwards] = faces[inwards][:, ::-1]
    return vertices, faces


def _thin(points: np.ndarray, tolerance: float, limit: int) -> Any:
    """Grow a coarse hull of some of ``points`` by the point furthest outside of each face, until none is outside.

    Args:
        points: Vertices of the exact hull.
        tolerance: What may stay outside [m].
        limit: Most vertices.
    """
    from scipy.spatial import ConvexHull

    coarse = tolerance > TOLERANCE * np.ptp(points, axis=0).max()
    chosen = _extremes(points, min(limit, _FEW if coarse else 64))
    if coarse and np.linalg.matrix_rank(points[chosen] - points[chosen[0]], tol=tolerance) < 3:
        chosen = _extremes(points, min(limit, 64))
    while True:
        hull = ConvexHull(points[chosen])
        outside = points @ hull.equations[:, :3].T + hull.equations[:, 3]
        face, distance = outside.argmax(axis=1), outside.max(axis=1)
        order = np.argsort(-distance, kind="stable")
        order = order[(distance[order] > tolerance) & ~np.isin(order, chosen)]
        _, first = np.unique(face[order], return_index=True)
        added = order[np.sort(first)][: max(limit - len(chosen), 0)]
        if not len(added):
            return hull
        chosen = np.union1d(chosen, added)


def _extremes(points: np.ndarray, count: int) -> np.ndarray:
    """Return up to ``count`` points that lie furthest in evenly spread directions, in growing order."""
    i = np.arange(count) + 0.5
    z, turn = 1.0 - 2.0 * i / count, i * np.pi * (3.0 - np.sqrt(5.0))
    ring = np.sqrt(1.0 - z * z)
    directions = np.column_stack([ring * np.cos(turn), ring * np.sin(turn), z])
    return np.unique((points @ directions.T).argmax(axis=0))
