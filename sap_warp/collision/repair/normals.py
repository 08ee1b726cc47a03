# mypy: disable-error-code="valid-type"
"""Contacts without a direction.

Where two surfaces touch to within about 1e-6 m, Newton's GJK finds neither a separating nor a penetrating direction and
writes a normal of zero length (newton 1.7; seen for plane / convex mesh, cylinder / box and ellipsoid / box). Shapes
that are authored just touching do this in their first step. A plane knows its normal; any other such contact is
taken out, and the next step, in which the surfaces overlap or part, has it back. Contacts with edges inside of a height
field or mesh are taken out too, see `internal_edges`.

The same pass takes out rows that were never written. When a manifold of up to four points reaches over the end of the
buffer, Newton reserves its rows and writes none of them, so the last rows of a full buffer may be those of an earlier
pass. Newton sets ``rigid_contact_tids`` to 0 wherever it writes; the last rows are set to -1 here after every pass.
"""

import functools
from typing import Any

import warp as wp

from ...core.kernels.structs import make_flat
from ...core.kernels.types import Poses
from ..broad.aabb import PLANE
from ..buffers.counts import Counts, note_pass
from ..buffers.rows import LAST_ROWS, ContactRows, Rows, flat_rows, take_out_row
from .internal_edges import DEEP, HFIELD, MESH, Fields, flat_fields, looks_out, looks_out_of_mesh


@wp.struct
class ShapePoses:
    """Where the shapes are, as the last pass left it. ``wp.array(dtype=...)`` is what `make_flat` looks for."""

    body: wp.array(dtype=wp.int32)
    kind: wp.array(dtype=wp.int32)
    pose: wp.array(dtype=wp.transformf)  # in world frame
    scale: wp.array(dtype=wp.vec3f)
    source: wp.array(dtype=wp.uint64)
    fields: Fields


flat_poses = make_flat(ShapePoses)


@wp.func
def in_body_frame(vector: wp.vec3, body: int, body_q: Poses) -> wp.vec3:
    """A world vector in the frame of a body; -1 is the world."""
    if body < 0:
        return vector
    return wp.quat_rotate_inv(wp.transform_get_rotation(body_q[body]), vector)


@wp.func
def direct_row(
    s: wp.ref[ShapePoses], body_q: Poses, rows: wp.ref[ContactRows], i: int, shape0: int, shape1: int
) -> None:
    """Give a contact without a direction the plane's normal, or take it out."""
    n = wp.vec3()
    if s.kind[shape0] == PLANE:
        n = wp.quat_rotate(wp.transform_get_rotation(s.pose[shape0]), wp.vec3(0.0, 0.0, 1.0))
    elif s.kind[shape1] == PLANE:
        n = wp.quat_rotate(wp.transform_get_rotation(s.pose[shape1]), wp.vec3(0.0, 0.0, -1.0))
    else:
        take_out_row(rows, i)
    rows.normal[i] = n
    rows.offset0[i] = in_body_frame(rows.margin0[i] * n, s.body[shape0], body_q)
    rows.offset1[i] = in_body_frame(-rows.margin1[i] * n, s.body[shape1], body_q)


@wp.func
def in_world_frame(point: wp.vec3, body: int, body_q: Poses) -> wp.vec3:
    """A point of a body in the world; -1 is the world."""
    if body < 0:
        return point
    return wp.transform_point(body_q[body], point)


@wp.func
def is_felt(s: wp.ref[ShapePoses], f: wp.ref[Fields], body_q: Poses, rows: wp.ref[ContactRows], i: int) -> bool:
    """Whether a contact is none with an edge inside of a height field or mesh."""
    shape0 = rows.shape0[i]
    shape1 = rows.shape1[i]
    is_first = s.kind[shape0] == HFIELD or s.kind[shape0] == MESH
    is_second = s.kind[shape1] == HFIELD or s.kind[shape1] == MESH
    if is_first == is_second:
        return True
    point0 = in_world_frame(rows.point0[i], s.body[shape0], body_q)
    point1 = in_world_frame(rows.point1[i], s.body[shape1], body_q)
    normal = rows.normal[i]
    if wp.dot(normal, point1 - point0) - rows.margin0[i] - rows.margin1[i] < -DEEP:
        return True
    shape = wp.where(is_first, shape0, shape1)
    pose = wp.transform_inverse(s.pose[shape])
    along = wp.transform_vector(pose, wp.where(is_first, normal, -normal))
    point = wp.transform_point(pose, wp.where(is_first, point0, point1))
    if s.kind[shape] == HFIELD:
        return looks_out(f, f.of_shape[shape], point, along)
    return looks_out_of_mesh(s.source[shape], s.scale[shape], point, along)


@functools.cache
def make_repair_rows(has_triangles: bool) -> Any:
    """The function that repairs rows; ``has_triangles`` says whether there are height fields or meshes."""

    @wp.func
    def repair_rows(
        shapes: wp.array[ShapePoses], body_q: Poses, capacity: int, first: int, stride: int, rows_in: Rows
    ) -> None:
        """Repair rows ``first``, ``first + stride``, ... of a buffer of ``capacity`` rows; take out unwritten ones."""
        s = shapes[0]
        rows = rows_in[0]
        fields = s.fields
        flat_poses(s)
        flat_fields(fields)
        flat_rows(rows)
        found = rows.counters[0]
        end = wp.min(found, capacity)
        i = int(first)
        while i < end:
            if i >= capacity - LAST_ROWS:
                if found > capacity and rows.tids[i] < 0:
                    take_out_row(rows, i)
                rows.tids[i] = -1
            if not (wp.length_sq(rows.normal[i]) > 0.5):  # also NaN
                shape0 = rows.shape0[i]
                shape1 = rows.shape1[i]
                if shape0 >= 0 and shape1 >= 0:
                    direct_row(s, body_q, rows, i, shape0, shape1)
            elif wp.static(has_triangles):
                if rows.shape0[i] >= 0:
                    if not is_felt(s, fields, body_q, rows, i):
                        take_out_row(rows, i)
            i += stride

    return repair_rows


@functools.cache
def make_repair_kernel(has_triangles: bool) -> Any:
    """The kernel for CUDA, see `make_repair_rows`."""
    repair_rows = make_repair_rows(has_triangles)

    @wp.kernel(module="unique", enable_backward=False)
    def repair_all(
        shapes: wp.array[ShapePoses],
        body_q: Poses,
        capacity: int,
        threads: int,
        is_last: int,
        rows: Rows,
        counts: Counts,
    ) -> None:
        """Repair all rows, spread over threads; note the counts of the pass if nothing comes after."""
        repair_rows(shapes, body_q, capacity, wp.tid(), threads, rows)
        if wp.tid() == 0 and is_last != 0:
            found = rows[0].counters[0]
            note_pass(counts[0], found, capacity, found, capacity, rows[0].counters[2])

    return repair_all
