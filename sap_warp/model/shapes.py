"""The table of shape types: what each of them provides to all parts of the package.

Host code asks the entry of a type (`shape_type`) instead of comparing types. Device code compares
``Model.shape_type`` with the constants below. Sizes are rows of ``Model.shape_scale`` [m], all shapes are given in
their own frames, and those with an axis have it along z.

A new type of shape that Newton knows needs an entry here, its AABB in `collision/broad/aabb.py`, its bounds in
`simulation/kernels.py` if its sizes can be randomized, a class in `scene/objects/objects.py` if scenes may contain it,
and its parameters in other systems in `conventions/systems.py`. Newton's narrow phase finds its contacts unless
`collision/narrow` does.

A shape of scenes that Newton does not know needs a class in `scene/objects/objects.py` alone, whose `add_to` adds a
convex mesh, for instance.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import newton
import numpy as np
import warp as wp

from ..conventions.systems import AXIAL_KINDS, SHAPE_KINDS
from .shape_surfaces import (
    Triangles,
    box_triangles,
    capsule_profile,
    cone_profile,
    cylinder_profile,
    ellipsoid_triangles,
    field_mesh,
    plane_triangles,
    sphere_profile,
    turned,
)

_T = newton.GeoType
PLANE, HFIELD, MESH = (wp.constant(int(kind)) for kind in (_T.PLANE, _T.HFIELD, _T.MESH))
SPHERE, CAPSULE, ELLIPSOID = (wp.constant(int(kind)) for kind in (_T.SPHERE, _T.CAPSULE, _T.ELLIPSOID))
CYLINDER, CONE = (wp.constant(int(kind)) for kind in (_T.CYLINDER, _T.CONE))
BOX, CONVEX_MESH = (wp.constant(int(kind)) for kind in (_T.BOX, _T.CONVEX_MESH))


class Surface(enum.Enum):
    """How a surface can touch another one; it decides how many contacts there can be."""

    PLANE = enum.auto()
    POINT = enum.auto()
    """Curved everywhere: one contact."""
    LINE = enum.auto()
    """Straight along an axis: two contacts on a plane."""
    RIM = enum.auto()
    """Two flat, round ends."""
    TIP = enum.auto()
    """One flat, round end."""
    FACES = enum.auto()
    """A convex polyhedron."""
    TRIANGLES = enum.auto()
    """Any surface; Newton collides it triangle by triangle, and reduces the contacts."""


@dataclass(frozen=True)
class ShapeType:
    """The properties of one type of shape; None stands for what it has not got or nobody needs."""

    type: int
    """`newton.GeoType`."""

    name: str
    """Name in listings and scene files, as in `newton.GeoType`."""

    title: str = ""
    """Name in sentences if it differs."""

    surface: Surface | None = None
    """How it can touch others; None for what never collides."""

    is_convex: bool = False

    is_round: bool = False
    """True if triangles only approximate its surface."""

    is_smooth: bool = False
    """True if it has no edges: neighbouring triangles are drawn as one surface."""

    has_vertices: bool = False
    """True if its source is a mesh, whose vertices the size scales."""

    scene_fields: tuple[str, ...] = ()
    """Fields of a scene file with its sizes, in the order of `parameters`; empty if they have the same names."""

    ground_contacts: int | None = None
    """Most contacts with an infinite plane, if `collision.narrow.ground` finds them."""

    collides_with_boxes: bool = False
    """True if `collision.narrow` finds its contacts with boxes itself."""

    collides_with_hulls: bool = False
    """True if `collision.narrow` finds its contacts with convex meshes itself."""

    half_extents: Callable[[np.ndarray], np.ndarray] | None = None
    """``half_extents(size)``: half edges of the box around it, centred at its origin, shape (..., 3) like ``size``."""

    support: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    """``support(size, direction)``: its farthest point; an end or a corner where a whole edge or face is farthest."""

    inner_balls: Callable[[np.ndarray], tuple[np.ndarray, float]] | None = None
    """``inner_balls(size)``: centres, shape (balls, 3), and radius of balls inside it that fill most of it."""

    distance: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    """``distance(size, points)``: signed distances of points, shape (points,), or upper bounds of them."""

    triangles: Callable[[np.ndarray, int], Triangles] | None = None
    """``triangles(size, segments)``: its surface for viewers, with ``segments`` around a round shape."""

    source_mesh: Callable[[Any], Any] | None = None
    """``source_mesh(source)``: the mesh that its size scales."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Newton's names of its sizes; empty if its geometry is a source."""
        return SHAPE_KINDS.get(self.name, ())

    @property
    def is_primitive(self) -> bool:
        """True if it is finite and given by its sizes alone."""
        return bool(self.parameters) and self.half_extents is not None

    @property
    def is_plane(self) -> bool:
        """True if it is the upper side of a plane."""
        return self.surface is Surface.PLANE

    @property
    def words(self) -> str:
        """Its name in a sentence."""
        return self.title or self.name.replace("_", " ")

    @property
    def resting_contacts(self) -> int:
        """Contacts at rest on something flat."""
        return {Surface.POINT: 1, Surface.LINE: 2}.get(self.surface, 4) if self.surface else 4

    def is_finite(self, size: np.ndarray) -> bool:
        """Return True if a shape of this size has an end on all sides: not a plane without width or length."""
        return not self.is_plane or min(size[:2]) > 0.0

    def bounds(self, size: np.ndarray, source: Any = None) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the corners of the box around it [m]; None for planes and height fields."""
        if self.half_extents is not None:
            half = self.half_extents(np.asarray(size))
            return -half, half
        vertices = getattr(source, "vertices", None) if self.has_vertices else None
        if vertices is None or not len(vertices):
            return None
        scaled = np.asarray(vertices, float).reshape(-1, 3) * size
        return scaled.min(axis=0), scaled.max(axis=0)

    def farthest_point(self, size: np.ndarray, source: Any, direction: np.ndarray) -> np.ndarray | None:
        """Return its farthest point along a direction [m], see `support`; None if nobody knows it."""
        if self.support is not None:
            return self.support(size, direction)
        if not self.has_vertices or source is None:
            return None
        vertices = np.asarray(source.vertices, dtype=np.float64) * size
        return np.asarray(vertices[int(np.argmax(vertices @ direction))])

    def add_to(self, builder: newton.ModelBuilder, body: int, shape: Any, **options: Any) -> None:
        """Add a primitive shape of a scene to a body; ``shape`` has its sizes as attributes."""
        fields = zip(self.parameters, self.scene_fields or self.parameters, strict=True)
        sizes = {parameter: getattr(shape, field) for parameter, field in fields}
        getattr(builder, f"add_shape_{self.name}")(body, **sizes, **options)

    def fine_mesh(self, size: np.ndarray) -> newton.Mesh:
        """Return Newton's mesh of a primitive shape, with normals."""
        axis = {"up_axis": newton.Axis.Z} if self.name in AXIAL_KINDS else {}
        sizes = (float(x) for x in size[: len(self.parameters)])
        return getattr(newton.Mesh, f"create_{self.name}")(*sizes, **axis, compute_inertia=False)


# Support functions.


def _end(direction: np.ndarray) -> float:
    """Return the side of an axis along z that is farthest, 1 or -1."""
    return math.copysign(1.0, round(float(direction[2]), 6) + 0.0)


def _side(direction: np.ndarray) -> np.ndarray:
    """Return the unit vector of a direction across z; x if there is none."""
    side = np.array([direction[0], direction[1], 0.0])
    return side / np.linalg.norm(side) if np.linalg.norm(side) > 1e-6 else np.array([1.0, 0.0, 0.0])


def _sphere_support(size: np.ndarray, d: np.ndarray) -> np.ndarray:
    return size[0] * d


def _box_support(size: np.ndarray, d: np.ndarray) -> np.ndarray:
    return size * np.where(d < -1e-6, -1.0, 1.0)


def _capsule_support(size: np.ndarray, d: np.ndarray) -> np.ndarray:
    return size[0] * d + np.array([0.0, 0.0, _end(d) * size[1]])


def _cylinder_support(size: np.ndarray, d: np.ndarray) -> np.ndarray:
    return size[0] * _side(d) + np.array([0.0, 0.0, _end(d) * size[1]])


def _cone_support(size: np.ndarray, d: np.ndarray) -> np.ndarray:
    rim, tip = size[0] * _side(d) - np.array([0.0, 0.0, size[1]]), np.array([0.0, 0.0, size[1]])
    return rim if rim @ d >= tip @ d else tip


def _ellipsoid_support(size: np.ndarray, d: np.ndarray) -> np.ndarray:
    return np.asarray(size**2 * d / np.linalg.norm(size * d))


# Balls inside, and distances.

_GRID = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3), axis=-1).reshape(-1, 3)
_CROSS = np.array([[0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1.0]])


def _one_ball(size: np.ndarray) -> tuple[np.ndarray, float]:
    return np.zeros((1, 3)), float(size.min())


def _box_balls(size: np.ndarray) -> tuple[np.ndarray, float]:
    return _GRID * (size - size.min()), float(size.min())


def _sphere_balls(size: np.ndarray) -> tuple[np.ndarray, float]:
    return np.zeros((1, 3)), float(size[0])


def _capsule_balls(size: np.ndarray) -> tuple[np.ndarray, float]:
    return _GRID * [0.0, 0.0, size[1]], float(size[0])


def _cylinder_balls(size: np.ndarray) -> tuple[np.ndarray, float]:
    radius = float(size[:2].min())
    return _CROSS * (np.array([size[0], size[0], size[1]]) - radius), radius


def _plane_distance(size: np.ndarray, x: np.ndarray) -> np.ndarray:
    inside = ((np.abs(x[:, :2]) <= 0.5 * size[:2]) | (size[:2] == 0.0)).all(axis=1)
    return np.where(inside, x[:, 2], np.inf)


def _sphere_distance(size: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(x, axis=1) - size[0])


def _capsule_distance(size: np.ndarray, x: np.ndarray) -> np.ndarray:
    z = np.clip(x[:, 2], -size[1], size[1])
    return np.asarray(np.linalg.norm(x - np.stack([0 * z, 0 * z, z], axis=1), axis=1) - size[0])


def _box_distance(size: np.ndarray, x: np.ndarray) -> np.ndarray:
    return _corner_distance(np.abs(x) - size)


def _cylinder_distance(size: np.ndarray, x: np.ndarray) -> np.ndarray:
    outside = [np.linalg.norm(x[:, :2], axis=1) - size[0], np.abs(x[:, 2]) - size[1]]
    return _corner_distance(np.stack(outside, axis=1))


def _corner_distance(outside: np.ndarray) -> np.ndarray:
    """Return the signed distance of points that are ``outside`` beyond each pair of parallel sides."""
    return np.asarray(np.linalg.norm(np.maximum(outside, 0.0), axis=1) + np.minimum(outside.max(axis=1), 0.0))


# Boxes around shapes.


def _three_radii(size: np.ndarray) -> np.ndarray:
    return np.asarray(size[..., [0, 0, 0]])


def _capsule_extents(size: np.ndarray) -> np.ndarray:
    radius, half_height = size[..., 0], size[..., 1]
    return np.stack([radius, radius, half_height + radius], axis=-1)


def _radius_and_height(size: np.ndarray) -> np.ndarray:
    return np.asarray(size[..., [0, 0, 1]])


def _itself(value: Any) -> Any:
    return value


SHAPE_TYPES = (
    ShapeType(int(_T.NONE), "none"),
    ShapeType(
        int(_T.PLANE),
        "plane",
        surface=Surface.PLANE,
        is_convex=True,
        distance=_plane_distance,
        triangles=plane_triangles,
    ),
    ShapeType(int(_T.HFIELD), "hfield", "heightfield", surface=Surface.TRIANGLES, source_mesh=field_mesh),
    ShapeType(
        int(_T.SPHERE),
        "sphere",
        surface=Surface.POINT,
        is_convex=True,
        is_round=True,
        is_smooth=True,
        ground_contacts=1,
        collides_with_hulls=True,
        half_extents=_three_radii,
        support=_sphere_support,
        inner_balls=_sphere_balls,
        distance=_sphere_distance,
        triangles=turned(sphere_profile),
    ),
    ShapeType(
        int(_T.CAPSULE),
        "capsule",
        surface=Surface.LINE,
        is_convex=True,
        is_round=True,
        is_smooth=True,
        ground_contacts=2,
        collides_with_boxes=True,
        collides_with_hulls=True,
        half_extents=_capsule_extents,
        support=_capsule_support,
        inner_balls=_capsule_balls,
        distance=_capsule_distance,
        triangles=turned(capsule_profile),
    ),
    ShapeType(
        int(_T.ELLIPSOID),
        "ellipsoid",
        surface=Surface.POINT,
        is_convex=True,
        is_round=True,
        is_smooth=True,
        scene_fields=("a", "b", "c"),
        ground_contacts=1,
        half_extents=_itself,
        support=_ellipsoid_support,
        inner_balls=_one_ball,
        triangles=ellipsoid_triangles,
    ),
    ShapeType(
        int(_T.CYLINDER),
        "cylinder",
        surface=Surface.RIM,
        is_convex=True,
        is_round=True,
        ground_contacts=4,
        collides_with_boxes=True,
        collides_with_hulls=True,
        half_extents=_radius_and_height,
        support=_cylinder_support,
        inner_balls=_cylinder_balls,
        distance=_cylinder_distance,
        triangles=turned(cylinder_profile),
    ),
    ShapeType(
        int(_T.BOX),
        "box",
        surface=Surface.FACES,
        is_convex=True,
        ground_contacts=4,
        collides_with_boxes=True,
        collides_with_hulls=True,
        half_extents=_itself,
        support=_box_support,
        inner_balls=_box_balls,
        distance=_box_distance,
        triangles=box_triangles,
    ),
    ShapeType(int(_T.MESH), "mesh", surface=Surface.TRIANGLES, has_vertices=True, source_mesh=_itself),
    ShapeType(
        int(_T.CONE),
        "cone",
        surface=Surface.TIP,
        is_convex=True,
        is_round=True,
        half_extents=_radius_and_height,
        support=_cone_support,
        triangles=turned(cone_profile),
    ),
    ShapeType(
        int(_T.CONVEX_MESH),
        "convex_mesh",
        surface=Surface.FACES,
        is_convex=True,
        has_vertices=True,
        ground_contacts=5,
        collides_with_boxes=True,
        collides_with_hulls=True,
        source_mesh=_itself,
    ),
    ShapeType(int(_T.GAUSSIAN), "gaussian"),
)
"""All types of shapes."""

_BY_TYPE = {shape.type: shape for shape in SHAPE_TYPES}
_BY_NAME = {shape.name: shape for shape in SHAPE_TYPES}


def shape_type(kind: int) -> ShapeType:
    """Return the entry of a `newton.GeoType`."""
    return _BY_TYPE[int(kind)]


def shape_type_named(name: str) -> ShapeType:
    """Return the entry of a name."""
    return _BY_NAME[name]


def types_where(condition: Callable[[ShapeType], Any]) -> list[int]:
    """Return the types, numbers as in ``Model.shape_type``, of which a condition holds."""
    return [shape.type for shape in SHAPE_TYPES if condition(shape)]


PLANES = types_where(lambda shape: shape.is_plane)
PRIMITIVES = types_where(lambda shape: shape.is_primitive)
"""Finite shapes that are given by their sizes alone."""
WITH_VERTICES = types_where(lambda shape: shape.has_vertices)
"""Meshes, whatever is made of them."""
TRIANGULATED = types_where(lambda shape: shape.surface is Surface.TRIANGLES)
"""Shapes whose contacts Newton finds triangle by triangle and then reduces."""
COLLIDABLE = types_where(lambda shape: shape.surface is not None)
"""Shapes that can have contacts; `collision.broad.aabb` computes their AABBs."""
