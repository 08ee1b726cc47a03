# mypy: disable-error-code="valid-type"
"""The narrow phase: contacts of the pairs that the broad phase lists, in closed form or by GJK and EPA.

Pairs that none of this covers are left to Newton's narrow phase.
"""

from __future__ import annotations

import newton
import numpy as np
import warp as wp

from ...core.kernels.launch import kernel
from ...core.kernels.spatial import rotation_matrix
from ...core.kernels.template import Variant, device
from ...core.kernels.types import FP32, Poses, Vectors
from ...model.shapes import BOX, CAPSULE, CONVEX_MESH, CYLINDER, SPHERE, types_where
from ..broad.aabb import Shapes, assume_contiguous_shapes, coordinate_bound
from ..broad.broad_phase import (
    BodyPairs,
    Candidates,
    Search,
    assume_contiguous_bodies,
    assume_contiguous_search,
    list_candidates,
    update_all_travel,
)
from ..broad.travel import Travel, assume_contiguous_travel, next_test_travel
from ..buffers.overflow import Selection
from ..buffers.rows import (
    LAST_ROWS,
    ContactRows,
    Rows,
    assume_contiguous_rows,
    clear_overrides,
    copy_contacts,
    next_generation,
)
from .barycentric import double, single
from .box_box import (
    MAX_CORNERS,
    BoxPair,
    find_separating_axis,
    largest_axis,
    merge_corners,
    reduce_corners,
    shared_corners,
    unproject,
)
from .box_hull import HullShape, box_hull_corners
from .core_contacts import OUTLINE_CORNERS, choose_contacts, core_corners, face_height, view_of_pair
from .cylinder_box import find_optimal_direction
from .epa import find_penetration
from .gjk import APART, NEAR, OVERLAP, find_closest_points, make_core_pair
from .ground import USE_CLEARANCE, WRITE_CLEARANCE, GroundPairs, find_ground_contacts
from .hulls.separation import separation_bound
from .hulls.tables import CLIPPED_CORNERS, Hulls, assume_contiguous_hulls

rotation_matrix_32 = rotation_matrix.of(Variant(number=FP32))
MERGE_DISTANCE = wp.constant(0.02)
"""Corners closer to each other than this are one contact, relative to the smallest half size of both shapes."""


@wp.struct
class PairContext:
    """The pair under test, and how far the pass has come."""

    index: int  # in `BodyPairs.pair`
    shape0: int
    shape1: int
    margin0: float
    margin1: float
    normal: wp.vec3f  # from shape 0 to shape 1, in world frame
    offset0: wp.vec3f  # margins along the normal, towards the other shape, in the frames of the bodies [m]
    offset1: wp.vec3f
    found: int  # contacts of the pass so far
    capacity: int  # of the buffer
    overrides: int  # 1 if the buffer has stiffness, damping and friction by contact
    deferred: int  # pairs left to Newton's narrow phase
    clearance: float  # lower bound of the distance beyond reach, if the pair has no contacts [m]


@wp.func
def add_contact(rows: wp.ref[ContactRows], context: wp.ref[PairContext], point0: wp.vec3f, point1: wp.vec3f) -> None:
    """Add a contact of two points in the frames of their bodies [m]; if the buffer is full it is only counted."""
    i = context.found
    context.found = i + 1
    if i < context.capacity:
        rows.shape0[i] = context.shape0
        rows.shape1[i] = context.shape1
        rows.point0[i] = point0
        rows.point1[i] = point1
        rows.offset0[i] = context.offset0
        rows.offset1[i] = context.offset1
        rows.normal[i] = context.normal
        rows.margin0[i] = context.margin0
        rows.margin1[i] = context.margin1
        rows.tids[i] = 0
        if context.overrides != 0:
            clear_overrides(rows, i)


@wp.func
def make_box_pair(shapes: wp.ref[Shapes], context: wp.ref[PairContext], boxes: wp.ref[BoxPair]) -> None:
    """Express the second box of a pair, or the frame of a second hull, in the frame of the first one."""
    pose0 = shapes.pose[context.shape0]
    pose1 = shapes.pose[context.shape1]
    rotation0 = wp.transform_get_rotation(pose0)
    boxes.half_a = shapes.size[context.shape0]
    boxes.half_b = shapes.size[context.shape1]
    boxes.rotation = rotation_matrix_32(wp.quat_inverse(rotation0) * wp.transform_get_rotation(pose1))
    boxes.translation = wp.quat_rotate_inv(
        rotation0, wp.transform_get_translation(pose1) - wp.transform_get_translation(pose0)
    )


@wp.func
def bounds_overlap(shapes: wp.ref[Shapes], context: wp.ref[PairContext], boxes: wp.ref[BoxPair], reach: float) -> bool:
    """Return True if the bounding boxes of hulls, turned with them, are within reach of each other.

    If they are not, set the clearance.
    """
    bounds = BoxPair()
    bounds.half_a = boxes.half_a
    bounds.half_b = boxes.half_b
    bounds.rotation = boxes.rotation
    bounds.translation = boxes.translation
    if shapes.kind[context.shape0] == CONVEX_MESH:
        bounds.half_a = 0.5 * (shapes.local_upper[context.shape0] - shapes.local_lower[context.shape0])
        bounds.translation -= 0.5 * (shapes.local_upper[context.shape0] + shapes.local_lower[context.shape0])
    if shapes.kind[context.shape1] == CONVEX_MESH:
        bounds.half_b = 0.5 * (shapes.local_upper[context.shape1] - shapes.local_lower[context.shape1])
        bounds.translation += boxes.rotation * (
            0.5 * (shapes.local_upper[context.shape1] + shapes.local_lower[context.shape1])
        )
    if find_separating_axis(bounds, reach):
        return True
    context.clearance = bounds.separation - reach
    return False


@wp.func
def hull_of(hulls: wp.ref[Hulls], shapes: wp.ref[Shapes], shape: int) -> int:
    """Index of a shape's hull in the tables; -1 if it has none or was changed since they were made."""
    hull = hulls.of_shape[shape]
    if hull >= 0:
        if hulls.source[hull] != shapes.source[shape] or wp.length_sq(hulls.scale[hull] - shapes.size[shape]) > 0.0:
            hull = -1
    return hull


@wp.func
def add_corner_contacts(
    rows: wp.ref[ContactRows],
    shapes: wp.ref[Shapes],
    context: wp.ref[PairContext],
    boxes: wp.ref[BoxPair],
    corners: Vectors,
    count: int,
) -> None:
    """Add contacts at the corners of the area that two shapes share.

    A corner has two coordinates in the face of A and a distance along the normal. These directions are turned into the
    frames of the bodies once for all corners.
    """
    local0 = shapes.local[context.shape0]
    local1 = shapes.local[context.shape1]
    rotation0 = rotation_matrix_32(wp.transform_get_rotation(local0))
    rotation1 = rotation_matrix_32(wp.transform_get_rotation(local1)) * wp.transpose(boxes.rotation)
    normal1 = rotation1 * boxes.normal
    context.offset0 = context.margin0 * (rotation0 * boxes.normal)
    context.offset1 = -context.margin1 * normal1
    context.normal = wp.quat_rotate(wp.transform_get_rotation(shapes.pose[context.shape0]), boxes.normal)
    middle = unproject(boxes, wp.vec3f())
    start0 = rotation0 * middle + wp.transform_get_translation(local0)
    start1 = rotation1 * (middle - boxes.translation) + wp.transform_get_translation(local1)
    i = largest_axis(boxes.normal)
    i1 = (i + 1) % 3
    i2 = (i + 2) % 3
    right0 = wp.vec3f(rotation0[0, i1], rotation0[1, i1], rotation0[2, i1])
    right1 = wp.vec3f(rotation1[0, i1], rotation1[1, i1], rotation1[2, i1])
    up0 = wp.vec3f(rotation0[0, i2], rotation0[1, i2], rotation0[2, i2])
    up1 = wp.vec3f(rotation1[0, i2], rotation1[1, i2], rotation1[2, i2])
    k = int(0)
    while k < count:
        corner = corners[k]
        point0 = start0 + corner[0] * right0 + corner[1] * up0
        point1 = start1 + corner[0] * right1 + corner[1] * up1 + corner[2] * normal1
        add_contact(rows, context, point0, point1)
        k += 1


@wp.func
def collide_boxes(
    rows: wp.ref[ContactRows],
    shapes: wp.ref[Shapes],
    context: wp.ref[PairContext],
    boxes: wp.ref[BoxPair],
    reach: float,
) -> bool:
    """Find all contacts of two boxes; return False if GJK has to."""
    count = int(0)
    if find_separating_axis(boxes, reach):
        corners = wp.zeros(shape=(MAX_CORNERS,), dtype=wp.vec3f)
        scratch = wp.zeros(shape=(MAX_CORNERS,), dtype=wp.vec3f)
        count = shared_corners(boxes, corners, scratch)
        if count > 0:
            near = MERGE_DISTANCE * wp.min(wp.min(boxes.half_a), wp.min(boxes.half_b))
            add_corner_contacts(rows, shapes, context, boxes, corners, merge_corners(corners, count, near, reach))
    else:
        context.clearance = boxes.separation - reach
    return count >= 0


@device
def collide_box_hull(
    rows: wp.ref[ContactRows],
    shapes: wp.ref[Shapes],
    hulls: wp.ref[Hulls],
    context: wp.ref[PairContext],
    boxes: wp.ref[BoxPair],
    reach: float,
) -> bool:
    """Find all contacts of a box and a hull; return False if GJK or Newton has to."""
    hull_shape = HullShape()
    hull_shape.shape = context.shape1
    hull_shape.face_slot = 2 * context.index
    hull_shape.hull = hull_of(hulls, shapes, context.shape1)
    if hull_shape.hull < 0:
        return False
    hull_shape.lower = shapes.local_lower[context.shape1]
    hull_shape.upper = shapes.local_upper[context.shape1]
    corners = wp.zeros(shape=(CLIPPED_CORNERS,), dtype=wp.vec3f)
    scratch = wp.zeros(shape=(CLIPPED_CORNERS,), dtype=wp.vec3f)
    count = box_hull_corners(boxes, hulls, hull_shape, reach, corners, scratch)
    if count > 0:
        near = MERGE_DISTANCE * wp.min(wp.min(boxes.half_a), 0.5 * wp.min(hull_shape.upper - hull_shape.lower))
        kept = merge_corners(corners, count, near, reach)
        add_corner_contacts(rows, shapes, context, boxes, corners, reduce_corners(corners, kept, reach))
    context.clearance = boxes.separation - reach
    return count >= 0


@wp.func
def smallest_half(shapes: wp.ref[Shapes], shape: int) -> float:
    """Half the smallest extent of a shape: the radius of a sphere or capsule [m]."""
    if shapes.kind[shape] == CONVEX_MESH:
        return 0.5 * wp.min(shapes.local_upper[shape] - shapes.local_lower[shape])
    if shapes.kind[shape] == CYLINDER:
        return wp.min(shapes.size[shape][0], shapes.size[shape][1])
    return wp.where(shapes.kind[shape] == BOX, wp.min(shapes.size[shape]), shapes.size[shape][0])


@wp.func
def collide_cores(
    rows_in: Rows, shapes_in: wp.array[Shapes], hulls_in: wp.array[Hulls], context: wp.ref[PairContext]
) -> bool:
    """Find all contacts of a sphere, capsule, cylinder, box or hull with a box or hull, from the normal of their cores.

    Returns False if Newton has to. This function and `collide_pair` are too long to be inlined. They have their own
    copies of the structs, of which the compiler keeps only the pointers: a struct passed by address has strides that it
    has to read.
    """
    rows = rows_in[0]
    shapes = shapes_in[0]
    hulls = hulls_in[0]
    assume_contiguous_rows(rows)
    assume_contiguous_shapes(shapes)
    assume_contiguous_hulls(hulls)
    kind0 = shapes.kind[context.shape0]
    hull_numbers = wp.vec2i(0, 0)
    if kind0 == CONVEX_MESH:
        hull_numbers[0] = hull_of(hulls, shapes, context.shape0)
    if shapes.kind[context.shape1] == CONVEX_MESH and kind0 != SPHERE:
        hull_numbers[1] = hull_of(hulls, shapes, context.shape1)
    if wp.min(hull_numbers) < 0:
        return False
    context.margin0 = shapes.margin[context.shape0]
    context.margin1 = shapes.margin[context.shape1]
    if kind0 == SPHERE or kind0 == CAPSULE:
        context.margin0 += shapes.size[context.shape0][0]
    reach = context.margin0 + context.margin1 + shapes.gap[context.shape0] + shapes.gap[context.shape1]
    pair = make_core_pair(shapes, context.shape0, context.shape1)
    is_found = bool(False)
    if shapes.kind[context.shape1] == BOX and (kind0 == CYLINDER or kind0 == CAPSULE):
        is_found = find_optimal_direction(shapes, pair, wp.float64(reach))
    if not is_found:
        simplex = wp.zeros(shape=(4,), dtype=wp.vec3d)
        points0 = wp.zeros(shape=(4,), dtype=wp.vec3d)
        vertex_count = find_closest_points(shapes, hulls.supports, pair, wp.float64(reach), simplex, points0)
        if pair.state == OVERLAP:
            find_penetration(shapes, hulls.supports, pair, vertex_count, simplex, points0)
    if pair.state == APART:
        context.clearance = wp.float32(pair.distance) - reach
        return True
    if pair.state != NEAR and pair.state != OVERLAP:
        return False
    view = view_of_pair(pair)
    corners = wp.zeros(shape=(OUTLINE_CORNERS,), dtype=wp.vec3f)
    distance = wp.float32(pair.distance)
    near = MERGE_DISTANCE * wp.min(smallest_half(shapes, context.shape0), smallest_half(shapes, context.shape1))
    count = core_corners(
        shapes,
        hulls,
        pair,
        hull_numbers,
        2 * context.index,
        distance <= context.margin0 + context.margin1,
        view,
        corners,
    )
    closest = wp.vec3f(0.0, 0.0, distance)
    count = choose_contacts(distance, reach, near, corners, count)
    local0 = shapes.local[context.shape0]
    local1 = shapes.local[context.shape1]
    inverse = wp.transpose(pair.rotation)
    context.offset0 = wp.quat_rotate(wp.transform_get_rotation(local0), context.margin0 * view.normal)
    context.offset1 = wp.quat_rotate(
        wp.transform_get_rotation(local1), -context.margin1 * single(inverse * double(view.normal))
    )
    context.normal = wp.quat_rotate(wp.transform_get_rotation(shapes.pose[context.shape0]), view.normal)
    k = int(0)
    while k < count:
        corner = corners[k]
        height = float(0.0)  # of the first shape's point over the closest one
        if wp.length_sq(corner - closest) > 0.0:
            height = face_height(view, corner) - corner[2]
        point0 = view.center + corner[0] * view.right + corner[1] * view.up + height * view.normal
        point1 = single(inverse * (double(point0 + corner[2] * view.normal) - pair.translation))
        add_contact(rows, context, wp.transform_point(local0, point0), wp.transform_point(local1, point1))
        k += 1
    return True


@device
def collide_pair(
    rows_in: Rows, shapes_in: wp.array[Shapes], hulls_in: wp.array[Hulls], context: wp.ref[PairContext]
) -> bool:
    """Find all contacts of a sphere, capsule, cylinder, box or hull with a box or hull; return False if Newton has to.

    Hulls that are proved to be beyond reach need no GJK. Newton has a closed form for a sphere and a box, and only
    Newton knows cylinders that bulge.
    """
    rows = rows_in[0]
    shapes = shapes_in[0]
    hulls = hulls_in[0]
    assume_contiguous_rows(rows)
    assume_contiguous_shapes(shapes)
    assume_contiguous_hulls(hulls)
    kind0 = shapes.kind[context.shape0]
    kind1 = shapes.kind[context.shape1]
    if kind1 != CONVEX_MESH and kind1 != BOX:
        return False
    context.margin0 = shapes.margin[context.shape0]
    context.margin1 = shapes.margin[context.shape1]
    reach = context.margin0 + context.margin1 + shapes.gap[context.shape0] + shapes.gap[context.shape1]
    if kind0 == BOX or kind0 == CONVEX_MESH:
        boxes = BoxPair()
        make_box_pair(shapes, context, boxes)
        if kind1 == BOX:
            if collide_boxes(rows, shapes, context, boxes, reach):
                return True
        else:
            if hulls.support_faces.touched[context.index] == 0:
                if not bounds_overlap(shapes, context, boxes, reach):
                    return True
            if kind0 == BOX:
                if collide_box_hull(rows, shapes, hulls, context, boxes, reach):
                    return True
    elif kind0 == CYLINDER:
        if shapes.size[context.shape0][2] != 0.0:
            return False
    elif kind0 != CAPSULE and kind1 == BOX:
        return False
    if kind1 == CONVEX_MESH and kind0 != BOX:
        context.clearance = separation_bound(shapes, hulls.supports, context.shape0, context.shape1, reach) - reach
        if context.clearance > 0.0:
            return True
    if not (kind0 == SPHERE or kind0 == CAPSULE or kind0 == CYLINDER or kind0 == BOX or kind0 == CONVEX_MESH):
        return False
    return collide_cores(rows_in, shapes_in, hulls_in, context)


@device
def collide_candidates(
    candidates: wp.ref[Candidates],
    count: int,
    shapes_in: wp.array[Shapes],
    hulls_in: wp.array[Hulls],
    first: int,
    capacity: int,
    rows: Rows,
    next_test_at: wp.array[wp.float64],
    remembers: bool,
) -> wp.vec2i:
    """Write the contacts of listed pairs after the ``first`` ones of the buffer.

    Returns the number of contacts now, and of pairs left to Newton. If it ``remembers``, ``next_test_at`` receives when
    pairs that are apart have to be tested again (`Travel.shape_test_at`).
    """
    shapes = shapes_in[0]
    hulls = hulls_in[0]
    assume_contiguous_shapes(shapes)
    assume_contiguous_hulls(hulls)
    context = PairContext()
    context.found = first
    context.capacity = capacity
    context.overrides = wp.where(rows[0].stiffness.shape[0] > 0, 1, 0)
    k = int(0)
    while k < count:
        pair = candidates.near[k]
        context.shape0 = pair[0]
        context.shape1 = pair[1]
        context.index = candidates.near_number[k]
        context.clearance = 0.0
        before = context.found
        is_done = collide_pair(rows, shapes_in, hulls_in, context)
        hulls.support_faces.touched[context.index] = wp.where(context.found > before, 1, 0)
        if not is_done:
            candidates.pair[context.deferred] = pair
            context.deferred += 1
        elif context.clearance > 0.0 and remembers:
            next_test_at[context.index] = next_test_travel(
                next_test_at[context.index], context.clearance, coordinate_bound(shapes, context.shape0, context.shape1)
            )
        k += 1
    return wp.vec2i(context.found, context.deferred)


@wp.kernel(module="unique", enable_backward=False)  # no fused multiply-add: poses are Newton's to the last bit
def search_pairs(
    ground: wp.array[GroundPairs],
    ground_span: wp.vec2i,
    bodies_in: wp.array[BodyPairs],
    body_span: wp.vec2i,
    travel_in: wp.array[Travel],
    shapes_in: wp.array[Shapes],
    body_q: Poses,
    same_shapes: int,
    selection: wp.array[Selection],
    source: Rows,
    target: Rows,
    candidates: wp.array[Candidates],
) -> None:
    """Broad phase: write the contacts with the ground, and list the other pairs that are near each other.

    One thread. Newton writes into ``source``, where its counter begins after our contacts. With ``same_shapes`` the
    shapes are those of the last pass. Spans are the first of the pairs with the ground, or of the bodies, and the one
    after the last.
    """
    generation = next_generation(candidates[0].pass_number[0])
    candidates[0].pass_number[0] = generation
    found_max = selection[0].found_max
    last = found_max - wp.min(found_max, LAST_ROWS)
    while last < found_max:
        source[0].tids[last] = -1  # tells `repair_contacts` what Newton left unwritten
        last += 1
    bodies = bodies_in[0]
    travel = travel_in[0]
    shapes = shapes_in[0]
    assume_contiguous_bodies(bodies)
    assume_contiguous_travel(travel)
    assume_contiguous_shapes(shapes)
    update_all_travel(bodies, travel, shapes, body_span, body_q, same_shapes != 0)
    clearance_mode = wp.where(same_shapes != 0, USE_CLEARANCE, WRITE_CLEARANCE)
    found = find_ground_contacts(
        ground, ground_span[0], ground_span[1], body_q, selection, source, target, clearance_mode
    )
    search = Search()
    search.body_q = body_q
    search.with_kinematic = ground[0].with_kinematic
    search.pass_number = generation
    search.near = candidates[0].near
    search.near_number = candidates[0].near_number
    search.capacity = candidates[0].near.shape[0]
    assume_contiguous_search(search)
    list_candidates(bodies, travel, shapes, body_span, search)
    candidates[0].near_count[0] = search.count
    candidates[0].own_rows[0] = found
    source[0].counters[0] = found
    source[0].counters[1] = 0
    source[0].counters[2] = 0


@kernel
def collide_pairs(
    shapes: wp.array[Shapes],
    hulls: wp.array[Hulls],
    travel: wp.array[Travel],
    selection: wp.array[Selection],
    source: Rows,
    target: Rows,
    candidates: wp.array[Candidates],
) -> None:
    """Narrow phase, after `search_pairs`: write our contacts of the listed pairs, and leave the other pairs to Newton.

    One thread. Our contacts are in ``target`` if they all fit there, else in ``source``.
    """
    capacity = selection[0].capacity
    found_max = selection[0].found_max
    pairs = candidates[0]
    count = pairs.near_count[0]
    listed = wp.min(count, pairs.near.shape[0])
    grounded = pairs.own_rows[0]
    found = collide_candidates(pairs, listed, shapes, hulls, grounded, capacity, target, travel[0].shape_test_at, True)
    if found[0] > capacity and capacity < found_max:
        if grounded <= capacity:
            copy_contacts(target, source, 0, grounded, 1)
        found = collide_candidates(
            pairs, listed, shapes, hulls, grounded, found_max, source, travel[0].shape_test_at, False
        )
    pairs.count[0] = found[1] + count - listed
    pairs.own_rows[0] = found[0]
    source[0].counters[0] = found[0]


def has_own_pairs(model: newton.Model, pairs: np.ndarray) -> bool:
    """Return True if `collide_pairs` finds the contacts of some of ``pairs``, shape [pair_count, 2]."""
    kinds = model.shape_type.numpy()[pairs]
    known = types_where(lambda shape: shape.collides_with_boxes)
    with_box = (kinds == BOX).any(axis=1) & np.isin(kinds, known).all(axis=1)
    return bool((kinds == CONVEX_MESH).any() or with_box.any())
