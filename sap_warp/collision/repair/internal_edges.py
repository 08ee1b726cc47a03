# mypy: disable-error-code="valid-type"
"""Contacts with internal edges of height fields and meshes, which a body must not feel.

Newton collides both triangle by triangle. A box that rests a tenth of a millimetre deep in a flat surface touches the
triangles beside it with its sides, and would push against their edges as against a wall. The normal of a contact on a
surface is that of a triangle at its point, or, on a ridge or tip, between those of all triangles there. A contact with
any other normal is invalidated: the triangles under the body have contacts of their own. So a body slides on them as on
a plane. At the border of a surface edges are real.
"""

from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.structs import assume_contiguous
from ..narrow.barycentric import barycentric_triangle, double, single

_NEAR = wp.constant(0.02)
"""Distance from the border of a cell within which a point belongs to the next cell too, in cells."""
_LIKELY = wp.constant(0.966)
"""Cosine of the angle to a triangle's normal up to which every direction is accepted, 15 degrees."""
_SLACK = wp.constant(0.262)
"""How far other directions may deviate from those of triangles and ridges [rad]."""
_BETWEEN = wp.constant(0.6)
"""How far a direction between several normals may be from the nearest one, relative to the largest angle of two."""
_TOUCHING = wp.constant(2.0e-4)
"""How far triangles of a mesh may be from a contact to count as touching it [m]."""
DEEP = wp.constant(5.0e-3)
"""Contacts deeper than this are kept: nobody knows from where the body entered [m]."""


@wp.struct
class HeightFields:
    """The height fields of a model. Fields are written for `assume_contiguous`."""

    of_shape: wp.array(dtype=wp.int32)  # number of the field; -1: none
    extent: wp.array(dtype=wp.vec4f)  # half sizes along x and y, lowest height and range of heights [m]
    size: wp.array(dtype=wp.vec3i)  # rows, columns, and the first of its entries in `height`
    height: wp.array(dtype=wp.float32)  # between 0 and 1


assume_contiguous_fields = assume_contiguous(HeightFields)


@wp.struct
class Normals:
    """Statistics of the normals of triangles around a point, compared with a direction."""

    along: wp.vec3f  # the direction
    best: float  # cosine of its angle with the nearest normal
    spread: float  # cosine of the largest angle between two normals
    first: wp.vec3f
    total: wp.vec3f
    count: int


@wp.func
def height_at(fields: wp.ref[HeightFields], field: int, row: int, column: int) -> float:
    """Return the height of a corner of the grid [m]."""
    size = fields.size[field]
    extent = fields.extent[field]
    return extent[2] + extent[3] * fields.height[size[2] + row * size[1] + column]


@wp.func
def normals_at(along: wp.vec3f) -> Normals:
    """Return an empty accumulator of triangle normals, for a direction."""
    normals = Normals()
    normals.along = along
    normals.best = -1.0
    normals.spread = 1.0
    return normals


@wp.func
def add_normal(normals: wp.ref[Normals], normal: wp.vec3f) -> None:
    """Add the normal of a triangle."""
    if normals.count == 0:
        normals.first = normal
    normals.best = wp.max(normals.best, wp.dot(normals.along, normal))
    normals.spread = wp.min(normals.spread, wp.dot(normals.first, normal))
    normals.total += normal
    normals.count += 1


@wp.func
def add_cell(fields: wp.ref[HeightFields], field: int, row: int, column: int, normals: wp.ref[Normals]) -> None:
    """Add the normals of both triangles of a cell; they share the diagonal from its first corner."""
    size = fields.size[field]
    extent = fields.extent[field]
    x = 2.0 * extent[0] / float(size[1] - 1)
    y = 2.0 * extent[1] / float(size[0] - 1)
    a = height_at(fields, field, row, column)
    b = height_at(fields, field, row, column + 1)
    c = height_at(fields, field, row + 1, column)
    d = height_at(fields, field, row + 1, column + 1)
    add_normal(normals, wp.normalize(wp.vec3f((a - b) / x, (b - d) / y, 1.0)))
    add_normal(normals, wp.normalize(wp.vec3f((c - d) / x, (a - c) / y, 1.0)))


@wp.func
def is_between(normals: wp.ref[Normals]) -> bool:
    """Return True if the direction is one that the surface has."""
    if normals.best > _LIKELY or wp.dot(normals.along, wp.normalize(normals.total)) > _LIKELY:
        return True
    between = 2.0 * wp.acos(wp.clamp(normals.spread, -1.0, 1.0))  # of two normals, each so far from the first at most
    return wp.acos(wp.clamp(normals.best, -1.0, 1.0)) <= _BETWEEN * wp.min(between, wp.pi) + _SLACK


@wp.func
def is_mesh_normal(mesh: wp.uint64, scale: wp.vec3f, point: wp.vec3f, along: wp.vec3f) -> bool:
    """Return True if ``along`` lies between the normals of the triangles that touch ``point``, in the shape's frame.

    Fewer than two triangles, at a border or inside of one, accept every direction.
    """
    center = wp.cw_div(point, scale)
    half = wp.cw_div(wp.vec3f(_TOUCHING, _TOUCHING, _TOUCHING), wp.abs(scale))
    data = wp.mesh_get(mesh)
    normals = normals_at(along)
    query = wp.mesh_query_aabb(mesh, center - half, center + half)
    triangle = int(0)
    while wp.mesh_query_aabb_next(query, triangle):
        a = double(wp.cw_mul(scale, data.points[data.indices[3 * triangle]]) - point)
        b = double(wp.cw_mul(scale, data.points[data.indices[3 * triangle + 1]]) - point)
        c = double(wp.cw_mul(scale, data.points[data.indices[3 * triangle + 2]]) - point)
        w = barycentric_triangle(a, b, c)
        if wp.length(w[0] * a + w[1] * b + w[2] * c) <= wp.float64(_TOUCHING):
            normal = wp.normalize(single(wp.normalize(wp.cross(b - a, c - a))))
            add_normal(normals, wp.where(wp.dot(normal, along) < 0.0, -normal, normal))  # faces may look inwards
    return normals.count < 2 or is_between(normals)


@wp.func
def is_field_normal(fields: wp.ref[HeightFields], field: int, point: wp.vec3f, along: wp.vec3f) -> bool:
    """Return True if the surface of a height field has the direction ``along`` at ``point``, both in its frame.

    The border accepts every direction.
    """
    size = fields.size[field]
    extent = fields.extent[field]
    u = 0.5 * (point[0] / extent[0] + 1.0) * float(size[1] - 1)
    v = 0.5 * (point[1] / extent[1] + 1.0) * float(size[0] - 1)
    if u < _NEAR or v < _NEAR or u > float(size[1] - 1) - _NEAR or v > float(size[0] - 1) - _NEAR:
        return True
    normals = normals_at(along)
    last_row = wp.min(int(v + _NEAR), size[0] - 2)
    last_column = wp.min(int(u + _NEAR), size[1] - 2)
    row = int(v - _NEAR)
    while row <= last_row:
        column = int(u - _NEAR)
        while column <= last_column:
            add_cell(fields, field, row, column, normals)
            column += 1
        row += 1
    return is_between(normals)


def make_height_fields(model: newton.Model) -> Any:
    """Make the `HeightFields` of a model; heights are the model's own array, which may change."""
    table: Any = HeightFields()
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
