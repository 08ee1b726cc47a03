# mypy: disable-error-code="valid-type"
"""Contacts without a normal.

Where two surfaces touch to within about 1e-6 m, Newton's GJK finds neither a separating nor a penetrating direction and
writes a normal of zero length (newton 1.7; seen for plane / convex mesh, cylinder / box and ellipsoid / box). Shapes
that are authored just touching do this in their first step. A plane has its own normal; any other such contact is
invalidated, and the next step, in which the surfaces overlap or part, has it back. Contacts with internal edges of a
height field or mesh are invalidated too, see `internal_edges`.

The repair also invalidates rows that were never written. When a manifold of up to four points reaches over the end of
the buffer, Newton reserves its rows and writes none of them, so the last rows of a full buffer may be those of an
earlier pass. Newton sets ``rigid_contact_tids`` to 0 wherever it writes; the repair sets the last rows to -1 after
every pass.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.launch import plain_kernel
from ...core.kernels.structs import assume_contiguous
from ...core.kernels.template import Parameter, device
from ...core.kernels.types import Poses
from ...model.shapes import HFIELD, MESH, PLANE
from ..buffers.counts import Counts, count_pass
from ..buffers.rows import LAST_ROWS, ContactRows, Rows, assume_contiguous_rows, invalidate_contact
from .internal_edges import DEEP, HeightFields, assume_contiguous_fields, is_field_normal, is_mesh_normal

has_triangles = Parameter("has_triangles")
"""True if the model has height fields or meshes."""


@wp.struct
class ShapePoses:
    """The shapes with the poses that the last pass computed.

    Fields are written for `assume_contiguous`.
    """

    body: wp.array(dtype=wp.int32)
    kind: wp.array(dtype=wp.int32)
    pose: wp.array(dtype=wp.transformf)  # in world frame
    scale: wp.array(dtype=wp.vec3f)
    source: wp.array(dtype=wp.uint64)
    fields: HeightFields


assume_contiguous_poses = assume_contiguous(ShapePoses)


@wp.func
def in_body_frame(vector: wp.vec3, body: int, body_q: Poses) -> wp.vec3:
    """Rotate a vector from the world frame to that of a body; body -1 is the world."""
    if body < 0:
        return vector
    return wp.quat_rotate_inv(wp.transform_get_rotation(body_q[body]), vector)


@wp.func
def repair_normal(
    shapes: wp.ref[ShapePoses], body_q: Poses, rows: wp.ref[ContactRows], i: int, shape0: int, shape1: int
) -> None:
    """Give a contact without a normal that of its plane, or invalidate it."""
    n = wp.vec3()
    if shapes.kind[shape0] == PLANE:
        n = wp.quat_rotate(wp.transform_get_rotation(shapes.pose[shape0]), wp.vec3(0.0, 0.0, 1.0))
    elif shapes.kind[shape1] == PLANE:
        n = wp.quat_rotate(wp.transform_get_rotation(shapes.pose[shape1]), wp.vec3(0.0, 0.0, -1.0))
    else:
        invalidate_contact(rows, i)
    rows.normal[i] = n
    rows.offset0[i] = in_body_frame(rows.margin0[i] * n, shapes.body[shape0], body_q)
    rows.offset1[i] = in_body_frame(-rows.margin1[i] * n, shapes.body[shape1], body_q)


@wp.func
def in_world_frame(point: wp.vec3, body: int, body_q: Poses) -> wp.vec3:
    """Transform a point from the frame of a body to the world; body -1 is the world."""
    if body < 0:
        return point
    return wp.transform_point(body_q[body], point)


@wp.func
def is_surface_contact(
    shapes: wp.ref[ShapePoses], fields: wp.ref[HeightFields], body_q: Poses, rows: wp.ref[ContactRows], i: int
) -> bool:
    """Return False if a contact is with an internal edge of a height field or mesh."""
    shape0 = rows.shape0[i]
    shape1 = rows.shape1[i]
    is_first = shapes.kind[shape0] == HFIELD or shapes.kind[shape0] == MESH
    is_second = shapes.kind[shape1] == HFIELD or shapes.kind[shape1] == MESH
    if is_first == is_second:
        return True
    point0 = in_world_frame(rows.point0[i], shapes.body[shape0], body_q)
    point1 = in_world_frame(rows.point1[i], shapes.body[shape1], body_q)
    normal = rows.normal[i]
    if wp.dot(normal, point1 - point0) - rows.margin0[i] - rows.margin1[i] < -DEEP:
        return True
    shape = wp.where(is_first, shape0, shape1)
    pose = wp.transform_inverse(shapes.pose[shape])
    along = wp.transform_vector(pose, wp.where(is_first, normal, -normal))
    point = wp.transform_point(pose, wp.where(is_first, point0, point1))
    if shapes.kind[shape] == HFIELD:
        return is_field_normal(fields, fields.of_shape[shape], point, along)
    return is_mesh_normal(shapes.source[shape], shapes.scale[shape], point, along)


@device
def repair_contacts(
    shapes_in: wp.array[ShapePoses], body_q: Poses, capacity: int, first: int, stride: int, rows_in: Rows
) -> None:
    """Repair rows ``first``, ``first + stride``, ... of a buffer of ``capacity`` rows; invalidate unwritten ones."""
    shapes = shapes_in[0]
    rows = rows_in[0]
    fields = shapes.fields
    assume_contiguous_poses(shapes)
    assume_contiguous_fields(fields)
    assume_contiguous_rows(rows)
    found = rows.counters[0]
    end = wp.min(found, capacity)
    i = int(first)
    while i < end:
        if i >= capacity - LAST_ROWS:
            if found > capacity and rows.tids[i] < 0:
                invalidate_contact(rows, i)
            rows.tids[i] = -1
        if not (wp.length_sq(rows.normal[i]) > 0.5):  # also NaN
            shape0 = rows.shape0[i]
            shape1 = rows.shape1[i]
            if shape0 >= 0 and shape1 >= 0:
                repair_normal(shapes, body_q, rows, i, shape0, shape1)
        elif wp.static(has_triangles):
            if rows.shape0[i] >= 0:
                if not is_surface_contact(shapes, fields, body_q, rows, i):
                    invalidate_contact(rows, i)
        i += stride


@plain_kernel
def repair_all(
    shapes: wp.array[ShapePoses],
    body_q: Poses,
    capacity: int,
    threads: int,
    is_last: int,
    rows: Rows,
    counts: Counts,
) -> None:
    """Repair all contacts, spread over threads, on CUDA; count the pass if nothing comes after."""
    repair_contacts(shapes, body_q, capacity, wp.tid(), threads, rows)
    if wp.tid() == 0 and is_last != 0:
        found = rows[0].counters[0]
        count_pass(counts[0], found, capacity, found, capacity, rows[0].counters[2])
