# mypy: disable-error-code="valid-type"
"""Contacts with edges inside of a height field or mesh that no body can feel.

Newton meets both triangle by triangle. A box that rests a tenth of a millimetre deep in a flat surface finds the
triangles beside it at its sides, and would push against their edges as against a wall. On a surface, a contact looks
along the normal of a triangle at its point, or, on a ridge or tip, between those of all triangles there. What looks
elsewhere is taken out: the triangles under the body have contacts of their own. So a body slides on them as on a plane.
At the border of a surface edges are real.
"""

from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.structs import make_flat
from ..narrow.barycentric import double, single, weigh_three

HFIELD, MESH = wp.constant(int(newton.GeoType.HFIELD)), wp.constant(int(newton.GeoType.MESH))
_NEAR = wp.constant(0.02)
"""How near to the border of a cell a point belongs to the cell beyond too, in cells."""
_LIKELY = wp.constant(0.966)
"""Cosine of the angle from a triangle's normal below which a direction is looked at closely, 15 degrees ..."""
_SLACK = wp.constant(0.262)
"""... which directions may be beyond those that triangles and ridges have [rad]."""
_BETWEEN = wp.constant(0.6)
"""How far from the nearest normal the middle between several may be, in the largest angle between two."""
_TOUCHING = wp.constant(2.0e-4)
"""How far from a contact triangles of a mesh may be that meet there [m]."""
DEEP = wp.constant(5.0e-3)
"""Bodies this deep in a surface keep all contacts: who knows where they came from [m]."""


@wp.struct
class Fields:
    """The height fields of a model. Written as ``wp.array(dtype=...)``, which is what `make_flat` looks for."""

    of_shape: wp.array(dtype=wp.int32)  # number of the field; -1: none
    extent: wp.array(dtype=wp.vec4f)  # half sizes along x and y, lowest height and range of heights [m]
    size: wp.array(dtype=wp.vec3i)  # rows, columns, and the first of its entries in `height`
    height: wp.array(dtype=wp.float32)  # between 0 and 1


flat_fields = make_flat(Fields)


@wp.struct
class Normals:
    """What is known of the triangles around a point, and of a direction there."""

    along: wp.vec3f  # the direction
    best: float  # cosine of its angle with the nearest normal
    spread: float  # cosine of the largest angle between two normals
    first: wp.vec3f
    total: wp.vec3f
    count: int


@wp.func
def height_at(f: wp.ref[Fields], field: int, row: int, column: int) -> float:
    """Of a corner [m]."""
    size = f.size[field]
    extent = f.extent[field]
    return extent[2] + extent[3] * f.height[size[2] + row * size[1] + column]


@wp.func
def normals_at(along: wp.vec3f) -> Normals:
    """Of no triangles yet."""
    n = Normals()
    n.along = along
    n.best = -1.0
    n.spread = 1.0
    return n


@wp.func
def add_normal(n: wp.ref[Normals], normal: wp.vec3f) -> None:
    """A triangle by its normal."""
    if n.count == 0:
        n.first = normal
    n.best = wp.max(n.best, wp.dot(n.along, normal))
    n.spread = wp.min(n.spread, wp.dot(n.first, normal))
    n.total += normal
    n.count += 1


@wp.func
def add_cell(f: wp.ref[Fields], field: int, row: int, column: int, n: wp.ref[Normals]) -> None:
    """Both triangles of a cell; they share the diagonal from its first corner."""
    size = f.size[field]
    extent = f.extent[field]
    x = 2.0 * extent[0] / float(size[1] - 1)
    y = 2.0 * extent[1] / float(size[0] - 1)
    a = height_at(f, field, row, column)
    b = height_at(f, field, row, column + 1)
    c = height_at(f, field, row + 1, column)
    d = height_at(f, field, row + 1, column + 1)
    add_normal(n, wp.normalize(wp.vec3f((a - b) / x, (b - d) / y, 1.0)))
    add_normal(n, wp.normalize(wp.vec3f((c - d) / x, (a - c) / y, 1.0)))


@wp.func
def is_between(n: wp.ref[Normals]) -> bool:
    """Whether the direction is one that the surface has."""
    if n.best > _LIKELY or wp.dot(n.along, wp.normalize(n.total)) > _LIKELY:
        return True
    between = 2.0 * wp.acos(wp.clamp(n.spread, -1.0, 1.0))  # of two normals, each so far from the first at most
    return wp.acos(wp.clamp(n.best, -1.0, 1.0)) <= _BETWEEN * wp.min(between, wp.pi) + _SLACK


@wp.func
def looks_out_of_mesh(mesh: wp.uint64, scale: wp.vec3f, point: wp.vec3f, along: wp.vec3f) -> bool:
    """The same for a mesh, in the frame of its shape; at a border, or inside of one triangle, whatever it is."""
    center = wp.cw_div(point, scale)
    half = wp.cw_div(wp.vec3f(_TOUCHING, _TOUCHING, _TOUCHING), wp.abs(scale))
    data = wp.mesh_get(mesh)
    n = normals_at(along)
    query = wp.mesh_query_aabb(mesh, center - half, center + half)
    triangle = int(0)
    while wp.mesh_query_aabb_next(query, triangle):
        a = double(wp.cw_mul(scale, data.points[data.indices[3 * triangle]]) - point)
        b = double(wp.cw_mul(scale, data.points[data.indices[3 * triangle + 1]]) - point)
        c = double(wp.cw_mul(scale, data.points[data.indices[3 * triangle + 2]]) - point)
        w = weigh_three(a, b, c)
        if wp.length(w[0] * a + w[1] * b + w[2] * c) <= wp.float64(_TOUCHING):
            normal = wp.normalize(single(wp.normalize(wp.cross(b - a, c - a))))
            add_normal(n, wp.where(wp.dot(normal, along) < 0.0, -normal, normal))  # faces may look inwards
    return n.count < 2 or is_between(n)


@wp.func
def looks_out(f: wp.ref[Fields], field: int, point: wp.vec3f, along: wp.vec3f) -> bool:
    """Whether a direction at a point of a field is one that its surface has there, both in the field's frame."""
    size = f.size[field]
    extent = f.extent[field]
    u = 0.5 * (point[0] / extent[0] + 1.0) * float(size[1] - 1)
    v = 0.5 * (point[1] / extent[1] + 1.0) * float(size[0] - 1)
    if u < _NEAR or v < _NEAR or u > float(size[1] - 1) - _NEAR or v > float(size[0] - 1) - _NEAR:
        return True
    n = normals_at(along)
    last_row = wp.min(int(v + _NEAR), size[0] - 2)
    last_column = wp.min(int(u + _NEAR), size[1] - 2)
    row = int(v - _NEAR)
    while row <= last_row:
        column = int(u - _NEAR)
        while column <= last_column:
            add_cell(f, field, row, column, n)
            column += 1
        row += 1
    return is_between(n)


def make_fields(model: newton.Model) -> Any:
    """The `Fields` of a model; heights are the model's own array, which may change."""
    table: Any = Fields()
    if not model.heightfield_count:
        return table
    data = model.heightfield_data.numpy()
    extent = np.column_stack([data["hx"], data["hy"], data["min_z"], data["max_z"] - data["min_z"]])
    size = np.column_stack([data["nrow"], data["ncol"], data["data_offset"]])
    table.of_shape = model.shape_heightfield_index
    table.extent = wp.array(extent.astype(np.float32), dtype=wp.vec4f, device=model.device)
    table.size = wp.array(size.astype(np.int32), dtype=wp.vec3i, device=model.device)
    table.height = model.heightfield_elevations
    return table
