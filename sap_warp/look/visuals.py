"""What is to be seen of a model: geometry, colour, pose and body of every shape, for whoever draws it.

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

GREY = (0.72, 0.73, 0.75)
"""Of meshes that have no colour."""
_PLAIN = (0.4, 0.4, 0.4)
"""What the importers' mesh reader gives to a mesh without a material."""
DEFAULT_SEGMENTS = 24
"""Around a round shape."""
COARSE_SEGMENTS = 6
"""Round shapes with so few segments, or fewer, are the coarsest there are."""
_HUES = (0.58, 0.08, 0.40, 0.97, 0.14, 0.75, 0.48, 0.03)
"""Of articulations and loose bodies whose shapes have no colour, one after the other."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """Triangles in the frame of the shape."""

    vertices: np.ndarray
    """[m], shape (vertices, 3), float32."""
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
    """``"mesh"``, ``"box"``, ``"sphere"``, ``"capsule"``, ..., as in `newton.GeoType`."""
    label: str
    """Of the first shape."""
    body: np.ndarray
    """Body in the whole model; -1 is the world. Shape (instances,)."""
    world: np.ndarray
    """World of the shape; -1 if all worlds share it. Shape (instances,)."""
    pose: np.ndarray
    """In the frame of the body, or of the world for body -1 [m, quaternion xyzw], shape (instances, 7)."""
    color: np.ndarray
    """Red, green, blue between 0 and 1, shape (instances, 3)."""
    shape: np.ndarray
    """Shape in the whole model; -1 for visual shapes that the model has not got. Shape (instances,)."""

    def world_poses(self, body_q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions [m] and quaternions (wxyz, which renderers take) of the instances in the world frame.

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
    """What is to be seen of a simulation: visual shapes where its assets have them, other shapes elsewhere.

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
            """Whether visual shapes of the asset are drawn in place of this one."""
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
    """The colliding shapes of a simulation or model, visible or not; infinite planes are left out."""
    model = _model_of(simulation)
    shown = range(max(int(model.world_count), 1)) if worlds is None else sorted(set(worlds))
    return _batch(_model_shapes(model, newton.ShapeFlags.COLLIDE_SHAPES, shown, _Paint(model)), segments)


def _model_of(simulation: Any) -> newton.Model:
    model = getattr(simulation, "sap_model", simulation)
    return getattr(model, "newton_model", model)


def _of_asset(shape: Any, world: int, start: int, offset: np.ndarray, paint: _Paint) -> _Shape:
    """The copy of an asset's shape in one world, whose first body is ``start``."""
    pose = np.array(shape.pose, np.float64)
    if shape.body < 0:
        pose[:3] += offset
    body = shape.body + start if shape.body >= 0 else -1
    color = paint.color(shape.color, body)
    return _Shape(shape.kind, shape.scale, shape.source, body, world, pose, color, -1, shape.label)


def _model_shapes(model: newton.Model, flag: int, worlds: Sequence[int], paint: _Paint) -> list[_Shape]:
    """Shapes with ``flag`` of some worlds and of none."""
    flags, world_of = model.shape_flags.numpy(), model.shape_world.numpy()
    chosen = (flags & int(flag) != 0) & (flags & int(newton.ShapeFlags.SITE) == 0)
    chosen &= (world_of < 0) | np.isin(world_of, np.asarray(worlds))
    kinds, bodies = model.shape_type.numpy().tolist(), model.shape_body.numpy().tolist()
    scales, colors = model.shape_scale.numpy().tolist(), model.shape_color.numpy().tolist()
    poses, labels = model.shape_transform.numpy().astype(np.float64), model.shape_label
    found = []
    for i in np.flatnonzero(chosen).tolist():
        if kinds[i] == int(newton.GeoType.PLANE) and min(scales[i][:2]) <= 0.0:
            continue
        color = paint.color(tuple(colors[i]), bodies[i])
        label = labels[i] if i < len(labels) else f"shape_{i}"
        source, world = model.shape_source[i], int(world_of[i])
        found.append(_Shape(kinds[i], tuple(scales[i]), source, bodies[i], world, poses[i], color, i, label))
    return found


class _Paint:
    """Gives colours to shapes that nobody gave one: a hue for each articulation of a world, lightness by body."""

    def __init__(self, model: newton.Model):
        self._place = _places(model)
        self._known: dict[Any, tuple[float, float, float]] = {}
        palette: Any = newton.ModelBuilder._SHAPE_COLOR_PALETTE
        self._automatic = np.array([*(np.array(palette) / 255.0), _PLAIN])

    def color(self, given: tuple[float, ...], body: int) -> tuple[float, float, float]:
        """``given`` if somebody chose it, which is not so for Newton's colours in turn."""
        key = given, self._place.get(body, (0, 0))
        if key not in self._known:
            self._known[key] = self._choose(*key)
        return self._known[key]

    def _choose(self, given: tuple[float, ...], place: tuple[int, int]) -> tuple[float, float, float]:
        same = np.abs(self._automatic - np.array(given)).max(axis=1) < 2e-3
        if not same.any():
            return given[0], given[1], given[2]
        if same[-1]:
            return GREY
        tree, number = place
        return colorsys.hls_to_rgb(_HUES[tree % len(_HUES)], 0.52 + 0.07 * (number % 3), 0.42)


def _places(model: newton.Model) -> dict[int, tuple[int, int]]:
    """For each body: number of its articulation in its world, and of the body in it."""
    if not model.articulation_count:
        return {}
    starts = model.articulation_start.numpy().tolist()
    children, worlds = model.joint_child.numpy().tolist(), model.body_world.numpy().tolist()
    places: dict[int, tuple[int, int]] = {}
    seen: dict[int, int] = {}
    for first, last in pairwise(starts):
        if first == last:
            continue
        world = worlds[children[first]]
        tree = seen[world] = seen.get(world, -1) + 1
        for number, joint in enumerate(range(first, last)):
            places[children[joint]] = tree, number
    return places


def _first_of_worlds(world_of: np.ndarray) -> dict[int, int]:
    """The first entry of each world."""
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
                kind=newton.GeoType(first.kind).name.lower(),
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
    """Triangles of a shape; None for what has no surface.

    Args:
        kind: `newton.GeoType`.
        scale: As in `newton.Model.shape_scale` [m].
        source: Mesh or height field of the shape.
        segments: Around a round shape.
    """
    types = newton.GeoType
    x, y, z = (float(value) for value in scale)
    if kind in (types.MESH, types.CONVEX_MESH):
        return _mesh_geometry(source, np.array(scale, np.float64))
    if kind == types.HFIELD:
        return _mesh_geometry(_field_mesh(source), np.array(scale, np.float64))
    if kind in (types.BOX, types.PLANE):
        half = (x, y, z) if kind == types.BOX else (0.5 * x, 0.5 * y, 1e-3)
        box = newton.Mesh.create_box(*half, duplicate_vertices=True, compute_inertia=False, compute_uvs=False)
        return Geometry(np.asarray(box.vertices, np.float32), np.asarray(box.indices).reshape(-1, 3), False)
    up = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 2 * max(2, segments // 4) + 1)
    if kind == types.SPHERE:
        profile = x * np.stack([np.cos(up), np.sin(up)], axis=1)
    elif kind == types.ELLIPSOID:
        profile = np.stack([np.cos(up), np.sin(up)], axis=1)
    elif kind == types.CAPSULE:
        half_way = len(up) // 2
        lower = x * np.stack([np.cos(up), np.sin(up)], axis=1)[: half_way + 1] - (0.0, y)
        if segments <= COARSE_SEGMENTS:  # one ring for each cap: seen from afar nobody misses the other
            lower = np.array([(0.0, -y - x), (0.94 * x, -y - 0.35 * x)])
        profile = np.concatenate([lower, lower[::-1] * (1.0, -1.0)])
    elif kind == types.CYLINDER:
        profile = np.array([(0.0, -y), (x, -y), (x, y), (0.0, y)])
    elif kind == types.CONE:
        profile = np.array([(0.0, -y), (x, -y), (0.0, y)])
    else:
        return None
    rounded = kind in (types.SPHERE, types.ELLIPSOID, types.CAPSULE)
    vertices, faces = _turn(profile, segments)
    if kind == types.ELLIPSOID:
        vertices = vertices * (x, y, z)
    return Geometry(vertices.astype(np.float32), faces, rounded)


def _turn(profile: np.ndarray, segments: int) -> tuple[np.ndarray, np.ndarray]:
    """The surface that a profile of (radius, height) draws around z; its ends are on the axis."""
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


def _field_mesh(source: Any) -> Any:
    """A height field's surface, in its own frame."""
    heights = source.min_z + np.asarray(source.data, np.float64) * (source.max_z - source.min_z)
    rows, columns = heights.shape
    y, x = np.meshgrid(np.linspace(-source.hy, source.hy, rows), np.linspace(-source.hx, source.hx, columns))
    vertices = np.stack([x.T, y.T, heights], axis=-1).reshape(-1, 3)
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    lower = np.stack([corner, corner + 1, corner + columns + 1], axis=1)
    upper = np.stack([corner, corner + columns + 1, corner + columns], axis=1)
    return newton.Mesh(vertices, np.concatenate([lower, upper]).ravel(), compute_inertia=False)


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
    """Vectors turned by quaternions xyzw, over the last axis."""
    t = 2.0 * np.cross(q[..., :3], v)
    return v + q[..., 3:] * t + np.cross(q[..., :3], t)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products of quaternions xyzw: first ``b``, then ``a``."""
    w = a[..., 3:] * b[..., 3:] - np.sum(a[..., :3] * b[..., :3], axis=-1, keepdims=True)
    xyz = a[..., 3:] * b[..., :3] + b[..., 3:] * a[..., :3] + np.cross(a[..., :3], b[..., :3])
    return np.concatenate([xyz, w], axis=-1)
