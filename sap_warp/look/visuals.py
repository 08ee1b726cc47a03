"""Geometry, colour, pose and body of every visible shape of a model, for whoever draws it.

The page and the pictures draw from here. Shapes that look alike are one `VisualBatch`, over all worlds: what
a renderer draws as instances. Nothing here depends on a renderer.
"""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import newton
import numpy as np

from ..model.shapes import shape_type

GREY = (0.72, 0.73, 0.75)
"""Colour of meshes that have none."""
_PLAIN = (0.4, 0.4, 0.4)
"""Colour that the importers' mesh reader gives to a mesh without a material."""
DEFAULT_SEGMENTS = 24
"""Segments around a round shape."""
_HUES = (0.58, 0.08, 0.40, 0.97, 0.14, 0.75, 0.48, 0.03)
"""Hues of articulations and loose bodies whose shapes have no colour, one after the other."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """Triangles in the frame of the shape."""

    vertices: np.ndarray
    """Positions [m], shape (vertices, 3), float32."""
    faces: np.ndarray
    """Vertices of each triangle, counterclockwise from outside, shape (faces, 3)."""
    rounded: bool
    """Whether neighbouring triangles belong to one smooth surface; if not, their edges may be sharp."""
    uvs: np.ndarray | None = None
    """Texture coordinates of the vertices, shape (vertices, 2)."""
    texture: Any = None
    """An image (height, width, channels) or its file; None if there is none."""


@dataclass(eq=False)
class VisualBatch:
    """Shapes of one geometry, over all worlds."""

    geometry: Geometry
    kind: str
    """Name of the type, see `sap_warp.model.shapes`: ``"mesh"``, ``"box"``, ``"sphere"``, ``"capsule"``, ..."""
    label: str
    """Label of the first shape."""
    body: np.ndarray
    """Body in the whole model; -1 is the world. Shape (instances,)."""
    world: np.ndarray
    """World of the shape; -1 if all worlds share it. Shape (instances,)."""
    pose: np.ndarray
    """Pose in the frame of the body, or of the world for body -1 [m, quaternion xyzw], shape (instances, 7)."""
    color: np.ndarray
    """Red, green, blue between 0 and 1, shape (instances, 3)."""
    shape: np.ndarray
    """Shape in the whole model; -1 for visual shapes that the model has not got. Shape (instances,)."""

    def world_poses(self, body_q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return positions [m] and quaternions (wxyz, which renderers take) of the instances in the world frame.

        Args:
            body_q: Poses of all bodies [m, quaternion xyzw], shape (bodies, 7).
        """
        fixed = self.body < 0
        at = body_q[np.where(fixed, 0, self.body)] if len(body_q) else np.zeros((len(self.body), 7))
        at = np.where(fixed[:, None], (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), at)
        position = at[:, :3] + rotate(at[:, 3:], self.pose[:, :3])
        return position, multiply(at[:, 3:], self.pose[:, 3:])[:, (3, 0, 1, 2)]


@dataclass(frozen=True)
class _Shape:
    """A shape before it is put into a batch."""

    kind: int
    scale: tuple[float, float, float]
    source: Any
    body: int
    world: int
    pose: np.ndarray
    color: tuple[float, float, float]
    number: int
    label: str


def find_visuals(
    simulation: Any, worlds: Iterable[int] | None = None, segments: int = DEFAULT_SEGMENTS
) -> list[VisualBatch]:
    """Return what is visible of a simulation: visual shapes where its assets have them, other shapes elsewhere.

    Infinite planes are left out; they are ground, which a renderer draws in its own way. Sites are left out too.

    Args:
        simulation: A `Simulation`, or a model of Newton or this package.
        worlds: Which worlds, beside what all share; None is all of them.
        segments: Triangles around a round shape; fewer of them where many are drawn.
    """
    model = _model_of(simulation)
    shown = range(max(int(model.world_count), 1)) if worlds is None else sorted(set(worlds))
    paint = _Paint(model)
    shapes = _model_shapes(model, newton.ShapeFlags.VISIBLE, shown, paint)
    read = getattr(simulation, "read_visuals", None)
    extra = read() if read is not None else None
    if extra is not None:
        first_body, first_shape = (_first_of_worlds(array.numpy()) for array in (model.body_world, model.shape_world))
        collides = model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)

        def is_covered(shape: _Shape) -> bool:
            """Return True if visual shapes of the asset are drawn in place of this one."""
            if shape.world < 0 or not collides[shape.number]:
                return False
            if shape.body >= 0:
                return shape.body - first_body[shape.world] in extra.bodies
            return shape.number - first_shape[shape.world] in extra.fixed_shapes

        shapes = [shape for shape in shapes if not is_covered(shape)]
        for world in shown:
            start, offset = first_body.get(world, 0), extra.offsets[world]
            shapes += [_of_asset(shape, world, start, offset, paint) for shape in extra.shapes]
    return _batch(shapes, segments)


def find_colliders(
    simulation: Any, worlds: Iterable[int] | None = None, segments: int = DEFAULT_SEGMENTS
) -> list[VisualBatch]:
    """Return the colliding shapes of a simulation or model, visible or not, without infinite planes."""
    model = _model_of(simulation)
    shown = range(max(int(model.world_count), 1)) if worlds is None else sorted(set(worlds))
    return _batch(_model_shapes(model, newton.ShapeFlags.COLLIDE_SHAPES, shown, _Paint(model)), segments)


def _model_of(simulation: Any) -> newton.Model:
    model = getattr(simulation, "sap_model", simulation)
    return getattr(model, "newton_model", model)


def _of_asset(shape: Any, world: int, start: int, offset: np.ndarray, paint: _Paint) -> _Shape:
    """Return the copy of an asset's shape in one world, whose first body is ``start``."""
    pose = np.array(shape.pose, np.float64)
    if shape.body < 0:
        pose[:3] += offset
    body = shape.body + start if shape.body >= 0 else -1
    color = paint.color(shape.color, body)
    return _Shape(shape.kind, shape.scale, shape.source, body, world, pose, color, -1, shape.label)


def _model_shapes(model: newton.Model, flag: int, worlds: Sequence[int], paint: _Paint) -> list[_Shape]:
    """Return shapes with ``flag`` of some worlds and of none."""
    flags, world_of = model.shape_flags.numpy(), model.shape_world.numpy()
    chosen = (flags & int(flag) != 0) & (flags & int(newton.ShapeFlags.SITE) == 0)
    chosen &= (world_of < 0) | np.isin(world_of, np.asarray(worlds))
    kinds, bodies = model.shape_type.numpy().tolist(), model.shape_body.numpy().tolist()
    scales, colors = model.shape_scale.numpy().tolist(), model.shape_color.numpy().tolist()
    poses, labels = model.shape_transform.numpy().astype(np.float64), model.shape_label
    found = []
    for i in np.flatnonzero(chosen).tolist():
        if not shape_type(kinds[i]).is_finite(scales[i]):
            continue
        color = paint.color(tuple(colors[i]), bodies[i])
        label = labels[i] if i < len(labels) else f"shape_{i}"
        source, world = model.shape_source[i], int(world_of[i])
        found.append(_Shape(kinds[i], tuple(scales[i]), source, bodies[i], world, poses[i], color, i, label))
    return found


class _Paint:
    """Chooses colours for shapes without one: a hue for each articulation of a world, lightness by body."""

    def __init__(self, model: newton.Model):
        self._numbers = _numbers(model)
        self._known: dict[Any, tuple[float, float, float]] = {}
        palette: Any = newton.ModelBuilder._SHAPE_COLOR_PALETTE
        self._automatic = np.array([*(np.array(palette) / 255.0), _PLAIN])

    def color(self, given: tuple[float, ...], body: int) -> tuple[float, float, float]:
        """Return ``given`` if somebody chose it and it is not one of Newton's default colours."""
        key = given, self._numbers.get(body, (0, 0))
        if key not in self._known:
            self._known[key] = self._choose(*key)
        return self._known[key]

    def _choose(self, given: tuple[float, ...], numbers: tuple[int, int]) -> tuple[float, float, float]:
        same = np.abs(self._automatic - np.array(given)).max(axis=1) < 2e-3
        if not same.any():
            return given[0], given[1], given[2]
        if same[-1]:
            return GREY
        tree, number = numbers
        return colorsys.hls_to_rgb(_HUES[tree % len(_HUES)], 0.52 + 0.07 * (number % 3), 0.42)


def _numbers(model: newton.Model) -> dict[int, tuple[int, int]]:
    """Return, for each body, the number of its articulation in its world, and of the body in it."""
    if not model.articulation_count:
        return {}
    starts = model.articulation_start.numpy().tolist()
    children, worlds = model.joint_child.numpy().tolist(), model.body_world.numpy().tolist()
    numbers: dict[int, tuple[int, int]] = {}
    seen: dict[int, int] = {}
    for first, last in pairwise(starts):
        if first == last:
            continue
        world = worlds[children[first]]
        tree = seen[world] = seen.get(world, -1) + 1
        for number, joint in enumerate(range(first, last)):
            numbers[children[joint]] = tree, number
    return numbers


def _first_of_worlds(world_of: np.ndarray) -> dict[int, int]:
    """Return the first entry of each world."""
    worlds, first = np.unique(world_of, return_index=True)
    return dict(zip(worlds.tolist(), first.tolist(), strict=True))


def _batch(shapes: Sequence[_Shape], segments: int) -> list[VisualBatch]:
    piles: dict[Any, list[_Shape]] = {}
    for shape in shapes:
        piles.setdefault((shape.kind, shape.scale, id(shape.source)), []).append(shape)
    batches = []
    for pile in piles.values():
        first = pile[0]
        geometry = make_geometry(first.kind, first.scale, first.source, segments)
        if geometry is None or len(geometry.faces) == 0:
            continue
        batches.append(
            VisualBatch(
                geometry=geometry,
                kind=shape_type(first.kind).name,
                label=first.label,
                body=np.array([shape.body for shape in pile], np.int64),
                world=np.array([shape.world for shape in pile], np.int64),
                pose=np.array([shape.pose for shape in pile], np.float64),
                color=np.array([shape.color for shape in pile], np.float64),
                shape=np.array([shape.number for shape in pile], np.int64),
            )
        )
    return batches


def make_geometry(
    kind: int, scale: Sequence[float], source: Any = None, segments: int = DEFAULT_SEGMENTS
) -> Geometry | None:
    """Return the triangles of a shape; None for what has no surface.

    Args:
        kind: `newton.GeoType`.
        scale: As in `newton.Model.shape_scale` [m].
        source: Mesh or height field of the shape.
        segments: Around a round shape.
    """
    shape, size = shape_type(kind), np.array(scale, np.float64)
    if shape.source_mesh is not None:
        return _mesh_geometry(shape.source_mesh(source), size)
    if shape.triangles is None:
        return None
    vertices, faces = shape.triangles(size, segments)
    return Geometry(vertices.astype(np.float32), faces, shape.is_smooth)


def _mesh_geometry(source: Any, scale: np.ndarray) -> Geometry | None:
    if source is None:
        return None
    vertices = np.asarray(source.vertices, np.float64).reshape(-1, 3) * scale
    faces = np.asarray(source.indices).reshape(-1, 3)
    if np.prod(scale) < 0.0:  # a mirrored mesh is inside out
        faces = faces[:, ::-1]
    uvs, texture = getattr(source, "uvs", None), getattr(source, "texture", None)
    if uvs is None or len(uvs) != len(vertices):
        texture = uvs = None
    return Geometry(vertices.astype(np.float32), faces, False, uvs, texture)


def rotate(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rotate vectors by quaternions xyzw, over the last axis."""
    t = 2.0 * np.cross(q[..., :3], v)
    return v + q[..., 3:] * t + np.cross(q[..., :3], t)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of quaternions xyzw: first ``b``, then ``a``."""
    w = a[..., 3:] * b[..., 3:] - np.sum(a[..., :3] * b[..., :3], axis=-1, keepdims=True)
    xyz = a[..., 3:] * b[..., :3] + b[..., 3:] * a[..., :3] + np.cross(a[..., :3], b[..., :3])
    return np.concatenate([xyz, w], axis=-1)
