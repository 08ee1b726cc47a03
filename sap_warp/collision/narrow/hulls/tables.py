# mypy: disable-error-code="valid-type"
"""Faces and edges of convex hulls, the candidates for separating axes. Prepared once, with NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import newton
import numpy as np
import warp as wp

from ....core.kernels.structs import assume_contiguous
from ....model.shapes import CONVEX_MESH, Surface, types_where
from .planes import PADDING
from .support_face import SupportFaces, make_support_faces
from .supports import Supports, make_supports

MAX_FACES = wp.constant(640)
"""A hull with more faces is left to Newton: searching all of them would take longer."""
MAX_FACE_CORNERS = wp.constant(60)
"""A hull that has a face with more corners is left to Newton."""
CLIPPED_CORNERS = wp.constant(int(MAX_FACE_CORNERS) + 4)
"""Corners that a face clipped by the four sides of another one can have."""
_FLAT = 1.0 - 5e-7
"""Cosine of the angle, a thousandth, up to which neighbouring triangles are one face."""


@wp.struct
class Hulls:
    """Topology of the hulls, scaled. Fields are written for `assume_contiguous`."""

    of_shape: wp.array(dtype=wp.int32)  # index of the hull; -1: none
    source: wp.array(dtype=wp.uint64)  # by hull: the mesh that it was made of; a shape with another one has no tables
    scale: wp.array(dtype=wp.vec3f)  # by hull
    ball: wp.array(dtype=wp.vec4f)  # by hull: centre and radius of a ball inside it [m]
    face_start: wp.array(dtype=wp.int32)  # by hull; one entry more
    normal: wp.array(dtype=wp.vec3f)  # of each face, outwards
    normal_x: wp.array(dtype=wp.float32)  # its components, for `planes`
    normal_y: wp.array(dtype=wp.float32)
    normal_z: wp.array(dtype=wp.float32)
    offset: wp.array(dtype=wp.float32)  # of each face from the origin along its normal [m]
    loop_start: wp.array(dtype=wp.int32)  # first of the corners of each face; one entry more
    loop: wp.array(dtype=wp.vec3f)  # corners, in their order around the face [m]
    stretch: wp.array(dtype=wp.float32)  # of each face: the largest `side_stretch`
    side_start: wp.array(dtype=wp.int32)  # first of the sides of each face; one entry more
    side: wp.array(dtype=wp.int32)  # the neighbouring face, counted from the first one of the hull
    side_stretch: wp.array(dtype=wp.float32)  # 1 / cosine of half the angle between the normals of both faces
    heights: wp.array(dtype=wp.float32)  # scratch: heights of a point above the faces of one hull [m]
    steep: wp.array(dtype=wp.int32)  # scratch: faces of one hull that may separate
    supports: Supports
    support_faces: SupportFaces  # by pair


@wp.struct
class Planes:
    """The planes of the faces, as in `Hulls`, for a loop in which the compiler must know that they have no gaps."""

    normal: wp.array(dtype=wp.vec3f)
    offset: wp.array(dtype=wp.float32)


assume_contiguous_hulls = assume_contiguous(Hulls)
assume_contiguous_planes = assume_contiguous(Planes)


@dataclass(frozen=True)
class Topology:
    """Faces and edges of one hull."""

    normals: np.ndarray
    offsets: np.ndarray
    loops: list[np.ndarray]
    sides: list[np.ndarray]
    """The neighbours of each face, in increasing order."""
    ball: np.ndarray
    """Centre and radius of a ball inside the hull."""

    def stretches(self) -> list[np.ndarray]:
        """How much longer than their mean two unit normals are, for the sides of each face, rounded up."""
        means = [0.5 * (n + self.normals[side]) for n, side in zip(self.normals, self.sides, strict=True)]
        return [1.0001 / np.maximum(np.linalg.norm(mean, axis=1), 1e-6) for mean in means]


def topology(points: np.ndarray) -> Topology | None:
    """Faces and edges of the convex hull of ``points``; None if these lie in a plane, or if it has too many faces."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):
        return None
    face = _merge(hull)
    count = int(face.max()) + 1
    normals = np.array([hull.equations[np.flatnonzero(face == f)[0], :3] for f in range(count)])
    corners = [np.unique(hull.simplices[face == f]) for f in range(count)]
    loops = [_around(points[c], n) for c, n in zip(corners, normals, strict=True)]
    if count > MAX_FACES or max(map(len, loops)) > MAX_FACE_CORNERS:
        return None
    sides: list[set[int]] = [set() for _ in range(count)]
    for t, row in enumerate(hull.neighbors):
        sides[face[t]].update(int(face[u]) for u in row if face[u] != face[t])
    offsets, middle = (points @ normals.T).max(axis=0), points[hull.vertices].mean(axis=0)
    ball = np.append(middle, (1.0 - 1e-4) * (offsets - normals @ middle).min())
    return Topology(normals, offsets, loops, [np.array(sorted(side)) for side in sides], ball)


def _merge(hull: Any) -> np.ndarray:
    """Number of the face that each triangle belongs to: it grows from its first triangle over flat edges."""
    normals, face, count = hull.equations[:, :3], np.full(len(hull.simplices), -1), 0
    for seed in range(len(face)):
        if face[seed] >= 0:
            continue
        face[seed], open_ends = count, [seed]
        while open_ends:
            for other in hull.neighbors[open_ends.pop()]:
                if face[other] < 0 and normals[other] @ normals[seed] > _FLAT:
                    face[other] = count
                    open_ends.append(int(other))
        count += 1
    return face


def _around(corners: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Corners of a face in their order around it."""
    arms = corners - corners.mean(axis=0)
    first = arms[0] / np.linalg.norm(arms[0])
    return corners[np.argsort(np.arctan2(arms @ np.cross(normal, first), arms @ first), kind="stable")]


def make_hulls(model: newton.Model, pairs: np.ndarray) -> Any:
    """The `Hulls` of convex meshes that collide with a box, capsule, cylinder or each other in ``pairs``.

    Their `Supports` are those of all convex meshes in ``pairs``.

    Args:
        model: The model with the shapes.
        pairs: Shapes, [pair_count, 2].
    """
    faced = types_where(lambda shape: shape.collides_with_hulls and shape.surface is not Surface.POINT)
    shapes = pairs[np.isin(model.shape_type.numpy()[pairs], faced).all(axis=1)].ravel()
    kinds, sources = model.shape_type.numpy(), model.shape_source_ptr.numpy()
    scales = model.shape_scale.numpy().reshape(-1, 3)
    of_shape = np.full(model.shape_count, -1)
    known: dict[tuple[float, ...], int] = {}
    parts: list[tuple[tuple[float, ...], Topology]] = []
    for shape in np.unique(shapes[kinds[shapes] == CONVEX_MESH]):
        key = int(sources[shape]), *scales[shape].tolist()
        if key not in known:
            points = np.asarray(model.shape_source[shape].vertices, np.float64) * scales[shape]
            part = topology(points)
            known[key] = -1 if part is None else len(parts)
            if part is not None:
                parts.append((key, part))
        of_shape[shape] = known[key]
    stretches = [side for _, part in parts for side in part.stretches()]
    normals = np.concatenate([_joined([part.normals for _, part in parts], 3), np.zeros((PADDING, 3))])
    offsets = _flat([part.offsets for _, part in parts] + [np.zeros(PADDING)])
    table: Any = Hulls()
    arrays: dict[str, tuple[Any, Any]] = {
        "of_shape": (of_shape, wp.int32),
        "source": (np.array([key[0] for key, _ in parts], dtype=np.uint64), wp.uint64),
        "scale": (np.array([key[1:] for key, _ in parts]).reshape(-1, 3), wp.vec3f),
        "ball": (_joined([part.ball[None] for _, part in parts], 4), wp.vec4f),
        "face_start": (_starts([len(part.offsets) for _, part in parts]), wp.int32),
        "normal": (normals, wp.vec3f),
        **{f"normal_{name}": (normals[:, i], wp.float32) for i, name in enumerate("xyz")},
        "offset": (offsets, wp.float32),
        "loop_start": (_starts([len(loop) for _, part in parts for loop in part.loops]), wp.int32),
        "loop": (_joined([loop for _, part in parts for loop in part.loops], 3), wp.vec3f),
        "stretch": (np.array([side.max() for side in stretches] + [1.0] * PADDING), wp.float32),
        "side_start": (_starts([len(side) for side in stretches]), wp.int32),
        "side": (_flat([side for _, part in parts for side in part.sides]), wp.int32),
        "side_stretch": (_flat(stretches), wp.float32),
        "heights": (np.zeros(int(MAX_FACES) + PADDING), wp.float32),
        "steep": (np.zeros(int(MAX_FACES) + PADDING), wp.int32),
    }
    for name, (values, dtype) in arrays.items():
        setattr(table, name, wp.array(values, dtype=dtype, device=model.device))
    table.supports = make_supports(model, pairs.ravel())
    table.support_faces = make_support_faces(len(pairs), model.device)
    return table


def _starts(counts: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _joined(parts: list[np.ndarray], width: int) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros((0, width))


def _flat(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0)
