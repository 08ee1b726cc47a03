"""Triangles of shapes from their sizes: surfaces of revolution, boxes and height fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import newton
import numpy as np

COARSE_SEGMENTS = 6
"""Round shapes with at most this many segments are the coarsest there are."""
Triangles: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Vertices [m], shape (vertices, 3), and faces, counterclockwise from outside, shape (faces, 3)."""
Profile: TypeAlias = Callable[[float, float, int], np.ndarray]
"""``profile(radius, half_height, segments)``: points (radius, height) [m] from the lower end of the axis upwards."""


def box_triangles(size: np.ndarray, segments: int) -> Triangles:
    """Triangulate a box with half edges ``size``; faces share no vertices."""
    box = newton.Mesh.create_box(*size, duplicate_vertices=True, compute_inertia=False, compute_uvs=False)
    return np.asarray(box.vertices, np.float32), np.asarray(box.indices).reshape(-1, 3)


def plane_triangles(size: np.ndarray, segments: int) -> Triangles:
    """Triangulate a finite plane of full sizes ``size[:2]``, as a box 2 mm thick."""
    return box_triangles(np.array([0.5 * size[0], 0.5 * size[1], 1e-3]), segments)


def turned(profile: Profile) -> Callable[[np.ndarray, int], Triangles]:
    """Return the function that triangulates a shape with this profile around z."""
    return lambda size, segments: _turn(profile(float(size[0]), float(size[1]), segments), segments)


def ellipsoid_triangles(size: np.ndarray, segments: int) -> Triangles:
    """Triangulate an ellipsoid with semi-axes ``size``."""
    vertices, faces = _turn(sphere_profile(1.0, 0.0, segments), segments)
    return vertices * size, faces


def sphere_profile(radius: float, _: float, segments: int) -> np.ndarray:
    """Return the half circle of a sphere."""
    up = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 2 * max(2, segments // 4) + 1)
    return radius * np.stack([np.cos(up), np.sin(up)], axis=1)


def capsule_profile(radius: float, half_height: float, segments: int) -> np.ndarray:
    """Return the profile of a capsule."""
    circle = sphere_profile(radius, 0.0, segments)
    lower = circle[: len(circle) // 2 + 1] - (0.0, half_height)
    if segments <= COARSE_SEGMENTS:  # one ring for each cap: seen from afar nobody misses the other
        lower = np.array([(0.0, -half_height - radius), (0.94 * radius, -half_height - 0.35 * radius)])
    return np.concatenate([lower, lower[::-1] * (1.0, -1.0)])


def cylinder_profile(radius: float, half_height: float, _: int) -> np.ndarray:
    """Return the profile of a cylinder."""
    return np.array([(0.0, -half_height), (radius, -half_height), (radius, half_height), (0.0, half_height)])


def cone_profile(radius: float, half_height: float, _: int) -> np.ndarray:
    """Return the profile of a cone, its tip on top."""
    return np.array([(0.0, -half_height), (radius, -half_height), (0.0, half_height)])


def _turn(profile: np.ndarray, segments: int) -> Triangles:
    """Triangulate the surface that a profile draws around z; its ends are on the axis."""
    angle = np.linspace(0.0, 2.0 * np.pi, segments, endpoint=False)
    radius, height = profile[1:-1, 0], profile[1:-1, 1]
    rings = np.stack(
        [
            np.outer(radius, np.cos(angle)),
            np.outer(radius, np.sin(angle)),
            np.broadcast_to(height[:, None], (len(height), segments)),
        ],
        axis=-1,
    ).reshape(-1, 3)
    ends = np.array([[0.0, 0.0, profile[0, 1]], [0.0, 0.0, profile[-1, 1]]])
    this, following = np.arange(segments), (np.arange(segments) + 1) % segments
    faces = []
    for first in range(0, len(rings) - segments, segments):
        a, b = first + this, first + following
        faces += [np.stack([a, b, b + segments], axis=1), np.stack([a, b + segments, a + segments], axis=1)]
    bottom, top, last = len(rings), len(rings) + 1, len(rings) - segments
    faces.append(np.stack([following, this, np.full(segments, bottom)], axis=1))
    faces.append(np.stack([last + this, last + following, np.full(segments, top)], axis=1))
    return np.concatenate([rings, ends]), np.concatenate(faces)


def field_mesh(source: Any) -> Any:
    """Return the surface of a height field as a mesh, in its own frame."""
    heights = source.min_z + np.asarray(source.data, np.float64) * (source.max_z - source.min_z)
    rows, columns = heights.shape
    y, x = np.meshgrid(np.linspace(-source.hy, source.hy, rows), np.linspace(-source.hx, source.hx, columns))
    vertices = np.stack([x.T, y.T, heights], axis=-1).reshape(-1, 3)
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    lower = np.stack([corner, corner + 1, corner + columns + 1], axis=1)
    upper = np.stack([corner, corner + columns + 1, corner + columns], axis=1)
    return newton.Mesh(vertices, np.concatenate([lower, upper]).ravel(), compute_inertia=False)
