"""Bodies as the browser draws them: a GLB for all bodies that look alike, with an instance for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....model.shapes import shape_type_named
from ...visuals import VisualBatch, rotate

MOST_TRIANGLES = 400_000
"""Most triangles of all bodies, which a computer without a graphics card draws ten times a second."""
FEWEST_TRIANGLES = 24
"""Fewest triangles to which a mesh is reduced."""
LARGEST_PICTURE = 512
"""Largest width and height of a texture [pixels]."""
CREASE = np.radians(35.0)
"""Angle between triangles above which an edge is drawn sharp [rad]."""


@dataclass(eq=False)
class Template:
    """Mesh of bodies that look alike, and their instances."""

    glb: bytes
    """Meshes in the frame of the body."""
    body: np.ndarray
    """Body of each instance in the whole model; -1 for what does not move. Shape (instances,)."""
    world: np.ndarray
    """World of each instance; -1 if all worlds share it. Shape (instances,)."""
    pose: np.ndarray
    """Pose in the frame of the body [m, quaternion xyzw], shape (instances, 7)."""
    corners: np.ndarray
    """Corners of a box around the meshes, in their frame [m], shape (8, 3)."""

    def only(self, worlds: Sequence[int]) -> Template | None:
        """Return the instances of some worlds; None if there are none."""
        keep = np.isin(self.world, worlds)
        if not keep.any():
            return None
        return Template(self.glb, self.body[keep], self.world[keep], self.pose[keep], self.corners)

    @property
    def moves(self) -> bool:
        """True if any instance moves and has to be sent again."""
        return bool((self.body >= 0).any())


@dataclass(frozen=True)
class _Part:
    batch: VisualBatch
    pose: np.ndarray
    color: tuple[float, float, float]


def choose_segments(round_shapes: int) -> int:
    """Choose the number of segments of round shapes, of which so many are drawn."""
    for segments in (24, 16, 12, 8):
        if 2 * segments * (2 * max(2, segments // 4)) * round_shapes <= MOST_TRIANGLES // 2:
            return segments
    return 6


def make_templates(batches: Sequence[VisualBatch]) -> list[Template]:
    """Gather the shapes of each body, and bodies that look alike; with fewer triangles if there are too many."""
    total = sum(len(batch.geometry.faces) * len(batch.body) for batch in batches)
    share = min(1.0, MOST_TRIANGLES / max(total, 1))
    parts: dict[int, list[tuple[Any, _Part]]] = {}
    worlds: dict[int, int] = {}
    templates: dict[Any, tuple[list[_Part], list[tuple[int, int, np.ndarray]]]] = {}
    none = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    for number, batch in enumerate(batches):
        poses, colors = batch.pose.round(7), batch.color.round(3)
        for i, (body, world) in enumerate(zip(batch.body.tolist(), batch.world.tolist(), strict=True)):
            color = tuple(colors[i].tolist())
            if body < 0:  # what does not move has no body to gather it
                key: Any = (number, color)
                seen = templates.setdefault(key, ([_Part(batch, none, color)], []))
                seen[1].append((-1, world, batch.pose[i]))
            else:
                key = (number, poses[i].tobytes(), color)
                parts.setdefault(body, []).append((key, _Part(batch, batch.pose[i], color)))
                worlds[body] = world
    for body, own in parts.items():
        key = tuple(part_key for part_key, _ in own)
        seen = templates.setdefault(key, ([part for _, part in own], []))
        seen[1].append((body, worlds[body], none))
    return [
        _make_template(some, instances, share)
        for own, instances in templates.values()
        for some in _by_picture(own, share)
    ]


def _by_picture(parts: list[_Part], share: float) -> list[list[_Part]]:
    """Group parts into meshes: those without a picture together, each other one alone.

    A body of several meshes is several templates: viser 1.1.1 can only let the mouse take hold of single meshes.
    """
    pictures = [part for part in parts if share == 1.0 and part.batch.geometry.texture is not None]
    plain = [part for part in parts if part not in pictures]
    return [plain] * bool(plain) + [[part] for part in pictures]


def _make_template(parts: list[_Part], instances: list[tuple[int, int, np.ndarray]], share: float) -> Template:
    points = np.concatenate([_vertices(part) for part in parts])
    low, high = points.min(axis=0), points.max(axis=0)
    corners = np.array([[x, y, z] for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])])
    return Template(
        glb=_make_glb(parts, share),
        body=np.array([body for body, _, _ in instances], np.int64),
        world=np.array([world for _, world, _ in instances], np.int64),
        pose=np.array([pose for _, _, pose in instances], np.float64),
        corners=corners,
    )


def _vertices(part: _Part) -> np.ndarray:
    return part.pose[:3] + rotate(part.pose[3:], part.batch.geometry.vertices.astype(np.float64))


def _make_glb(parts: list[_Part], share: float) -> bytes:
    """Make one mesh with a ``share`` of the triangles; colours are by vertex, a picture is for all of it."""
    import trimesh

    if len(parts) == 1 and share == 1.0 and parts[0].batch.geometry.texture is not None:
        textured = _textured(parts[0])
        if textured is not None:
            return trimesh.Scene(textured).export(file_type="glb", include_normals=True)
    meshes, colors = [], []
    for part in parts:
        geometry = part.batch.geometry
        points, faces = coarsen(_vertices(part), geometry.faces, max(FEWEST_TRIANGLES, share * len(geometry.faces)))
        mesh: Any = trimesh.Trimesh(points, faces, process=not geometry.rounded)
        if not geometry.rounded:
            mesh = trimesh.graph.smooth_shade(mesh, angle=CREASE)
        meshes.append(mesh)
        colors.append(np.tile([*(255.0 * linear(part.color)), 255.0], (len(mesh.vertices), 1)))
    whole: Any = trimesh.util.concatenate(meshes)
    # meshes of files may have holes, or be inside out
    closed = not any(shape_type_named(part.batch.kind).has_vertices for part in parts)
    whole.visual = trimesh.visual.TextureVisuals(material=_material((1.0, 1.0, 1.0), closed))
    whole.visual.vertex_attributes["color"] = np.concatenate(colors).round().astype(np.uint8)
    return trimesh.Scene(whole).export(file_type="glb", include_normals=True)


def coarsen(points: np.ndarray, faces: np.ndarray, most: float) -> tuple[np.ndarray, np.ndarray]:
    """Reduce to at most ``most`` triangles by merging points that share a cell of the finest possible grid."""
    if len(faces) <= most:
        return points, faces
    low, span = points.min(axis=0), max(float(np.ptp(points, axis=0).max()), 1e-12)
    best = points[:1], np.zeros((0, 3), np.int64)
    fine, coarse = 512, 1
    while fine - coarse > 1:  # halving: more cells, more triangles
        cells = (fine + coarse) // 2
        merged = _merge(points, faces, np.floor((points - low) / span * (cells - 1e-6)).astype(np.int64))
        if len(merged[1]) <= most:
            best, coarse = merged, cells
        else:
            fine = cells
    return best


def _merge(points: np.ndarray, faces: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _, group = np.unique(cell @ np.array([1, 1 << 20, 1 << 40]), return_inverse=True)
    count = np.bincount(group)
    middle = np.stack([np.bincount(group, points[:, k]) / count for k in range(3)], axis=1)
    left = group[faces]
    left = left[(left[:, 0] != left[:, 1]) & (left[:, 1] != left[:, 2]) & (left[:, 2] != left[:, 0])]
    _, first = np.unique(np.sort(left, axis=1), axis=0, return_index=True)
    return middle, left[first]


def _textured(part: _Part) -> Any:
    """Return a mesh with its picture; None if the picture cannot be read."""
    import trimesh

    geometry = part.batch.geometry
    image = _load_picture(geometry.texture)
    if image is None:
        return None
    mesh = trimesh.Trimesh(_vertices(part), geometry.faces, process=False)
    material = _material(part.color)
    material.baseColorTexture = image
    mesh.visual = trimesh.visual.TextureVisuals(uv=np.asarray(geometry.uvs), material=material)
    return mesh


def _load_picture(source: Any) -> Any:
    """Load a picture, reduced so that it can be sent with each mesh; None if it cannot be read."""
    from newton.utils import load_texture
    from PIL import Image

    try:
        pixels = source if isinstance(source, np.ndarray) else load_texture(source)
        image = Image.fromarray(np.asarray(pixels, np.uint8)).convert("RGB")
    except Exception:  # a picture that cannot be read is no reason not to show the mesh
        return None
    image.thumbnail((LARGEST_PICTURE, LARGEST_PICTURE))
    return image


def linear(color: Sequence[float]) -> np.ndarray:
    """Return linear values of an sRGB colour, as files store it."""
    given = np.asarray(color, np.float64)
    return np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)


def _material(color: Sequence[float], closed: bool = False) -> Any:
    import trimesh

    return trimesh.visual.material.PBRMaterial(
        baseColorFactor=[*linear(color).tolist(), 1.0], metallicFactor=0.0, roughnessFactor=0.65, doubleSided=not closed
    )


def instance_poses(template: Template, body_q: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return positions [m] and quaternions (wxyz) of the instances, in single precision.

    Args:
        template: The instances.
        body_q: Poses of all bodies [m, quaternion xyzw], shape (bodies, 7).
        offsets: Where each world is shown [m], shape (worlds + 1, 3); the last entry is for what all worlds share.
    """
    moved = offsets[template.world]
    if template.body[0] < 0:
        position, turn = template.pose[:, :3], template.pose[:, 3:]
    else:
        at = body_q[template.body]
        position, turn = at[:, :3], at[:, 3:]
    return (position + moved).astype(np.float32), turn[:, (3, 0, 1, 2)].astype(np.float32)


def bounds(templates: Sequence[Template], body_q: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper corner of all that is shown [m]."""
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for template in templates:
        position, wxyz = instance_poses(template, body_q, offsets)
        turned = rotate(wxyz[:, None, (1, 2, 3, 0)].astype(np.float64), template.corners[None])
        points = (position[:, None] + turned).reshape(-1, 3)
        low, high = np.minimum(low, points.min(axis=0)), np.maximum(high, points.max(axis=0))
    return (low, high) if np.isfinite(low).all() else (-np.ones(3), np.ones(3))
