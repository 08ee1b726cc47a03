"""Shapes that are fitted to meshes (<geom type="capsule" mesh="...">), rewritten with a size and pose of their own.

Newton's importer would turn them the wrong way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ....text.errors import Complaint
from ....text.nodes import Node, walk
from ..bodies.poses import Angles, Pose, from_axes, read_pose, rotate, write_pose
from ..reader import MjcfDocument

_RADIANS = Angles(degrees=False)
FITTED = ("sphere", "capsule", "cylinder", "ellipsoid", "box")


def fit_shapes(document: MjcfDocument) -> None:
    """Give every geom that is fitted to a mesh the size and pose that MuJoCo finds.

    It is the box with the mesh's mass and inertia, or with ``fitaabb`` the one around the mesh in the axes of its
    inertia; other shapes are made from the edges of that box.
    """
    meshes: dict[str, Node] = {}
    for node in document.elements("asset", "mesh"):
        meshes[node.get("name") or Path(node.get("file", "")).stem] = node
    around = document.compiler.get("fitaabb") == "true"
    for world in document.sections("worldbody"):
        for geom in walk(world):
            kind = geom.get("type", "sphere")
            if geom.tag == "geom" and geom.get("mesh") is not None and kind in FITTED:
                pose, box = _fit(meshes[geom.get("mesh", "")], around)
                geom.put("size", np.array(_size(kind, box, around)) * geom.number("fitscale", 1.0))
                write_pose(geom, read_pose(geom, _RADIANS) * pose)
                geom.drop("mesh", "fitscale")


def _size(kind: str, box: np.ndarray, around: bool) -> list[float]:
    """Return the size of a shape that replaces a box [m] with these half edges, the longest last."""
    if kind == "sphere":
        return [float(box.max() if around else box.mean())]
    if kind in ("box", "ellipsoid"):
        return box.tolist()
    radius = float(box[:2].max() if around else box[:2].mean())
    shorter = (radius if around else radius / 2.0) if kind == "capsule" else 0.0
    return [radius, max(float(box[2]) - shorter, 0.0)]


def _fit(node: Node, around: bool) -> tuple[Pose, np.ndarray]:
    """Return the pose of the box of a mesh, and half its edges [m]."""
    vertices, faces = _read(node)
    mass, com, inertia = _mass_properties(vertices, faces, node.get("inertia", "legacy"))
    if not mass > 0.0:
        raise Complaint(f"{node.location()}: the mesh has no volume; no shape can be fitted to it")
    moments, axes = np.linalg.eigh(inertia)
    axes = axes[:, ::-1]  # the largest moment first: the longest edge last
    if np.linalg.det(axes) < 0.0:
        axes[:, 2] = -axes[:, 2]
    moments = moments[::-1]
    if around:
        inside = (vertices - com) @ axes
        low, high = inside.min(axis=0), inside.max(axis=0)
        com, box = com + axes @ (0.5 * (low + high)), 0.5 * (high - low)
    else:
        box = np.sqrt(np.maximum(6.0 * (moments.sum() - 2.0 * moments) / mass, 0.0)) / 2.0
    return Pose(com, from_axes(axes[:, 0], axes[:, 1])), box


def _read(node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices [m] and triangles of a mesh in the frame in which MuJoCo stores it."""
    if node.get("file") is not None:
        import trimesh

        try:
            loaded: Any = trimesh.load(node.get("file"), force="mesh", process=False)
        except (OSError, ValueError) as error:
            raise Complaint(f"{node.location('file')}: cannot read the mesh: {error}") from None
        vertices, faces = np.asarray(loaded.vertices, np.float64), np.asarray(loaded.faces)
    elif node.get("vertex") is not None:
        vertices = node.numbers("vertex").reshape(-1, 3)
        faces = (
            node.numbers("face").astype(int).reshape(-1, 3) if node.get("face") is not None else np.zeros((0, 3), int)
        )
    else:
        raise Complaint(f"{node.location()}: the mesh has no file and no vertices; no shape can be fitted to it")
    if node.get("refpos") is not None:
        vertices = vertices - node.numbers("refpos", 3)
    if node.get("refquat") is not None:
        q = node.numbers("refquat", 4) / np.linalg.norm(node.numbers("refquat", 4))
        vertices = np.array([rotate(q * [1.0, -1.0, -1.0, -1.0], vertex) for vertex in vertices])
    scale = node.numbers("scale", 3) if node.get("scale") is not None else np.ones(3)
    return vertices * scale, faces


def _hull(vertices: np.ndarray) -> np.ndarray:
    """Return the triangles of the convex hull, counterclockwise seen from outside."""
    from scipy.spatial import ConvexHull

    hull = ConvexHull(vertices)
    a, b, c = (vertices[hull.simplices[:, i]] for i in range(3))
    inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), hull.equations[:, :3]) < 0.0
    return np.where(inward[:, None], hull.simplices[:, ::-1], hull.simplices)


def _mass_properties(vertices: np.ndarray, faces: np.ndarray, kind: str) -> tuple[float, np.ndarray, np.ndarray]:
    """Return mass at density 1, centre of mass and inertia about it, by MuJoCo's kinds of mesh inertia."""
    if kind == "convex" or not len(faces):
        faces, kind = _hull(vertices), "exact"
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    normals = np.cross(b - a, c - a)
    areas = np.linalg.norm(normals, axis=1)
    apex = areas @ ((a + b + c) / 3.0) / max(areas.sum(), 1e-30)
    corners = np.stack([a - apex, b - apex, c - apex], axis=1)
    weights = areas / 2.0 if kind == "shell" else np.einsum("ij,ij->i", corners[:, 0], normals) / 6.0
    if kind == "legacy":
        weights = np.abs(weights)
    elif weights.sum() < 0.0:  # mirrored
        weights = -weights
    # of a tetrahedron, or of a triangle: integral of x x^T by its corners, those at the apex are zero
    total, count = corners.sum(axis=1), 3.0 if kind == "shell" else 4.0
    mass = float(weights.sum())
    centre = weights @ total / count / mass if mass else np.zeros(3)
    products = np.einsum("n,ni,nj->ij", weights, total, total) + np.einsum("n,nki,nkj->ij", weights, corners, corners)
    second = products / (count * (count + 1.0)) - mass * np.outer(centre, centre)
    return mass, apex + centre, np.trace(second) * np.eye(3) - second
