# mypy: disable-error-code="valid-type"
"""What becomes of the pairs that the broad phase lists: contacts in closed form, or work for Newton's narrow phase."""

import newton
import numpy as np
import warp as wp

from ...core.kernels.launch import solver_kernel
from ...core.kernels.spatial import make_spatial
from ...core.kernels.types import FP32, Poses, Vectors
from ..broad.aabb import BOX, CAPSULE, CONVEX_MESH, CYLINDER, SPHERE, Shapes, boxes_size, flat_shapes
from ..broad.broad_phase import BodyPairs, Candidates, Search, flat_bodies, flat_search, follow_bodies, list_candidates
from ..broad.travel import Travel, flat_travel, next_look
from ..buffers.overflow import Selection
from ..buffers.rows import LAST_ROWS, ContactRows, Rows, clear_overrides, copy_rows, flat_rows, next_generation
from .barycentric import double, single
from .box_box import CORNERS, BoxPair, largest_axis, merge_corners, on_face, separate, shared_corners, spread_corners
from .box_hull import HullShape, hull_corners
from .core_contacts import OUTLINE, choose_corners, core_corners, height_of_face, look
from .cylinder_box import find_proved
from .epa import find_overlap
from .gjk import APART, NEAR, OVERLAP, find_nearest, place_cores
from .ground import USED, WRITTEN, GroundPairs, find_contacts
from .hulls.separation import proved_distance
from .hulls.tables import ROOM, Hulls, flat_hulls

rotation_matrix = make_spatial(FP32).rotation_matrix
MERGED = wp.constant(0.02)
"""Corners closer to each other than this are one contact, relative to the smallest half size of both boxes."""


@wp.struct
class PairRow:
    """The pair at hand, and how far the pass has come."""

    number: int  # in `BodyPairs.pair`
    shape0: int
    shape1: int
    margin0: float
    margin1: float
    normal: wp.vec3f  # from shape 0 to shape 1, in world frame
    offset0: wp.vec3f  # margins along the normal, towards the other shape, in the frames of the bodies [m]
    offset1: wp.vec3f
    found: int  # contacts of the pass so far
    capacity: int  # rows of the buffer
    overrides: int  # whether the buffer has stiffness, damping and friction by contact
    left: int  # pairs for Newton's narrow phase
    apart: float  # how much further apart than contacts reach the pair is at least, if it has none [m]


@wp.func
def add_pair_row(rows: wp.ref[ContactRows], m: wp.ref[PairRow], point0: wp.vec3f, point1: wp.vec3f) -> None:
    """A contact of two points in the frames of their bodies [m]; only counted if the buffer is full."""
    i = m.found
    m.found = i + 1
    if i < m.capacity:
        rows.shape0[i] = m.shape0
        rows.shape1[i] = m.shape1
        rows.point0[i] = point0
        rows.point1[i] = point1
        rows.offset0[i] = m.offset0
        rows.offset1[i] = m.offset1
        rows.normal[i] = m.normal
        rows.margin0[i] = m.margin0
        rows.margin1[i] = m.margin1
        rows.tids[i] = 0
        if m.overrides != 0:
            clear_overrides(rows, i)


@wp.func
def place_boxes(s: wp.ref[Shapes], m: wp.ref[PairRow], pair: wp.ref[BoxPair]) -> None:
    """The second shape of a pair in the frame of the first one."""
    pose0 = s.pose[m.shape0]
    pose1 = s.pose[m.shape1]
    turn0 = wp.transform_get_rotation(pose0)
    pair.a = s.size[m.shape0]
    pair.b = s.size[m.shape1]
    pair.turn = rotation_matrix(wp.quat_inverse(turn0) * wp.transform_get_rotation(pose1))
    pair.place = wp.quat_rotate_inv(turn0, wp.transform_get_translation(pose1) - wp.transform_get_translation(pose0))


@wp.func
def bounds_meet(s: wp.ref[Shapes], m: wp.ref[PairRow], pair: wp.ref[BoxPair], reach: float) -> bool:
    """Whether the boxes that hulls stand in, turned with them, are within reach of each other."""
    around = BoxPair()
    around.a = pair.a
    around.b = pair.b
    around.turn = pair.turn
    around.place = pair.place
    if s.kind[m.shape0] == CONVEX_MESH:
        around.a = 0.5 * (s.local_upper[m.shape0] - s.local_lower[m.shape0])
        around.place -= 0.5 * (s.local_upper[m.shape0] + s.local_lower[m.shape0])
    if s.kind[m.shape1] == CONVEX_MESH:
        around.b = 0.5 * (s.local_upper[m.shape1] - s.local_lower[m.shape1])
        around.place += pair.turn * (0.5 * (s.local_upper[m.shape1] + s.local_lower[m.shape1]))
    if separate(around, reach):
        return True
    m.apart = around.separation - reach
    return False


@wp.func
def find_hull(h: wp.ref[Hulls], s: wp.ref[Shapes], shape: int) -> int:
    """Number of a shape's hull in the tables; -1 if it has none or was changed since they were made."""
    hull = h.of_shape[shape]
    if hull >= 0:
        if h.source[hull] != s.source[shape] or wp.length_sq(h.scale[hull] - s.size[shape]) > 0.0:
            hull = -1
    return hull


@wp.func
def add_corners(
    rows: wp.ref[ContactRows], s: wp.ref[Shapes], m: wp.ref[PairRow], p: wp.ref[BoxPair], corners: Vectors, count: int
) -> None:
    """Contacts at the corners of the area that two shapes share.

    A corner is some way along two sides of the face of A and a distance along the normal; these directions are turned
    into the frames of the bodies once for all corners.
    """
    local0 = s.local[m.shape0]
    local1 = s.local[m.shape1]
    turn0 = rotation_matrix(wp.transform_get_rotation(local0))
    turn1 = rotation_matrix(wp.transform_get_rotation(local1)) * wp.transpose(p.turn)
    along1 = turn1 * p.normal
    m.offset0 = m.margin0 * (turn0 * p.normal)
    m.offset1 = -m.margin1 * along1
    m.normal = wp.quat_rotate(wp.transform_get_rotation(s.pose[m.shape0]), p.normal)
    middle = on_face(p, wp.vec3f())
    start0 = turn0 * middle + wp.transform_get_translation(local0)
    start1 = turn1 * (middle - p.place) + wp.transform_get_translation(local1)
    i = largest_axis(p.normal)
    i1 = (i + 1) % 3
    i2 = (i + 2) % 3
    right0 = wp.vec3f(turn0[0, i1], turn0[1, i1], turn0[2, i1])
    right1 = wp.vec3f(turn1[0, i1], turn1[1, i1], turn1[2, i1])
    up0 = wp.vec3f(turn0[0, i2], turn0[1, i2], turn0[2, i2])
    up1 = wp.vec3f(turn1[0, i2], turn1[1, i2], turn1[2, i2])
    k = int(0)
    while k < count:
        at = corners[k]
        point0 = start0 + at[0] * right0 + at[1] * up0
        point1 = start1 + at[0] * right1 + at[1] * up1 + at[2] * along1
        add_pair_row(rows, m, point0, point1)
        k += 1


@wp.func
def meet_boxes(
    rows: wp.ref[ContactRows], s: wp.ref[Shapes], m: wp.ref[PairRow], p: wp.ref[BoxPair], reach: float
) -> bool:
    """All contacts of two boxes; False if they need another way."""
    count = int(0)
    if separate(p, reach):
        corners = wp.zeros(shape=(CORNERS,), dtype=wp.vec3f)
        scratch = wp.zeros(shape=(CORNERS,), dtype=wp.vec3f)
        count = shared_corners(p, corners, scratch)
        if count > 0:
            near = MERGED * wp.min(wp.min(p.a), wp.min(p.b))
            add_corners(rows, s, m, p, corners, merge_corners(corners, count, near, reach))
    else:
        m.apart = p.separation - reach
    return count >= 0


@wp.func
def meet_hull(
    rows: wp.ref[ContactRows], s: wp.ref[Shapes], h: wp.ref[Hulls], m: wp.ref[PairRow], p: wp.ref[BoxPair], reach: float
) -> bool:
    """All contacts of a box and a hull; False if they need another way."""
    shape = HullShape()
    shape.number = m.shape1
    shape.sole = 2 * m.number
    shape.hull = find_hull(h, s, m.shape1)
    if shape.hull < 0:
        return False
    shape.lower = s.local_lower[m.shape1]
    shape.upper = s.local_upper[m.shape1]
    corners = wp.zeros(shape=(ROOM,), dtype=wp.vec3f)
    scratch = wp.zeros(shape=(ROOM,), dtype=wp.vec3f)
    count = hull_corners(p, h, shape, reach, corners, scratch)
    if count > 0:
        near = MERGED * wp.min(wp.min(p.a), 0.5 * wp.min(shape.upper - shape.lower))
        kept = merge_corners(corners, count, near, reach)
        add_corners(rows, s, m, p, corners, spread_corners(corners, kept, reach))
    m.apart = p.separation - reach
    return count >= 0


@wp.func
def smallest_half(s: wp.ref[Shapes], shape: int) -> float:
    """Half the smallest size of a shape; the radius of a round one [m]."""
    if s.kind[shape] == CONVEX_MESH:
        return 0.5 * wp.min(s.local_upper[shape] - s.local_lower[shape])
    if s.kind[shape] == CYLINDER:
        return wp.min(s.size[shape][0], s.size[shape][1])
    return wp.where(s.kind[shape] == BOX, wp.min(s.size[shape]), s.size[shape][0])


@wp.func
def meet_cores(rows_in: Rows, shapes: wp.array[Shapes], hulls_in: wp.array[Hulls], m: wp.ref[PairRow]) -> bool:
    """All contacts of a sphere, capsule, cylinder, box or hull with a box or hull; False if they need another way.

    This function and `meet_pair` are too long to be inlined. They have their own copies of the structs, of which the
    compiler keeps the pointers alone: what is passed by address has strides that it has to read.
    """
    rows = rows_in[0]
    s = shapes[0]
    h = hulls_in[0]
    flat_rows(rows)
    flat_shapes(s)
    flat_hulls(h)
    kind0 = s.kind[m.shape0]
    hulls = wp.vec2i(0, 0)
    if kind0 == CONVEX_MESH:
        hulls[0] = find_hull(h, s, m.shape0)
    if s.kind[m.shape1] == CONVEX_MESH and kind0 != SPHERE:
        hulls[1] = find_hull(h, s, m.shape1)
    if wp.min(hulls) < 0:
        return False
    m.margin0 = s.margin[m.shape0]
    m.margin1 = s.margin[m.shape1]
    if kind0 == SPHERE or kind0 == CAPSULE:
        m.margin0 += s.size[m.shape0][0]
    reach = m.margin0 + m.margin1 + s.gap[m.shape0] + s.gap[m.shape1]
    pair = place_cores(s, m.shape0, m.shape1)
    is_found = bool(False)
    if s.kind[m.shape1] == BOX and (kind0 == CYLINDER or kind0 == CAPSULE):
        is_found = find_proved(s, pair, wp.float64(reach))
    if not is_found:
        w = wp.zeros(shape=(4,), dtype=wp.vec3d)
        first = wp.zeros(shape=(4,), dtype=wp.vec3d)
        found = find_nearest(s, h.supports, pair, wp.float64(reach), w, first)
        if pair.state == OVERLAP:
            find_overlap(s, h.supports, pair, found, w, first)
    if pair.state == APART:
        m.apart = wp.float32(pair.distance) - reach
        return True
    if pair.state != NEAR and pair.state != OVERLAP:
        return False
    view = look(pair)
    corners = wp.zeros(shape=(OUTLINE,), dtype=wp.vec3f)
    distance = wp.float32(pair.distance)
    near = MERGED * wp.min(smallest_half(s, m.shape0), smallest_half(s, m.shape1))
    count = core_corners(s, h, pair, hulls, 2 * m.number, distance <= m.margin0 + m.margin1, view, corners)
    nearest = wp.vec3f(0.0, 0.0, distance)
    count = choose_corners(distance, reach, near, corners, count)
    local0 = s.local[m.shape0]
    local1 = s.local[m.shape1]
    back = wp.transpose(pair.turn)
    m.offset0 = wp.quat_rotate(wp.transform_get_rotation(local0), m.margin0 * view.normal)
    m.offset1 = wp.quat_rotate(wp.transform_get_rotation(local1), -m.margin1 * single(back * double(view.normal)))
    m.normal = wp.quat_rotate(wp.transform_get_rotation(s.pose[m.shape0]), view.normal)
    k = int(0)
    while k < count:
        at = corners[k]
        height = float(0.0)  # of the first shape's point over the nearest one
        if wp.length_sq(at - nearest) > 0.0:
            height = height_of_face(view, at) - at[2]
        point0 = view.center + at[0] * view.right + at[1] * view.up + height * view.normal
        point1 = single(back * (double(point0 + at[2] * view.normal) - pair.place))
        add_pair_row(rows, m, wp.transform_point(local0, point0), wp.transform_point(local1, point1))
        k += 1
    return True


@wp.func
def meet_pair(rows_in: Rows, shapes: wp.array[Shapes], hulls: wp.array[Hulls], m: wp.ref[PairRow]) -> bool:
    """All contacts of a sphere, capsule, cylinder, box or hull with a box or hull; False if a pair needs another way.

    Hulls that are seen to be far from other shapes need none. Newton has a closed form for a sphere and a box, and
    alone knows cylinders that bulge.
    """
    rows = rows_in[0]
    s = shapes[0]
    h = hulls[0]
    flat_rows(rows)
    flat_shapes(s)
    flat_hulls(h)
    kind0 = s.kind[m.shape0]
    kind1 = s.kind[m.shape1]
    if kind1 != CONVEX_MESH and kind1 != BOX:
        return False
    m.margin0 = s.margin[m.shape0]
    m.margin1 = s.margin[m.shape1]
    reach = m.margin0 + m.margin1 + s.gap[m.shape0] + s.gap[m.shape1]
    if kind0 == BOX or kind0 == CONVEX_MESH:
        pair = BoxPair()
        place_boxes(s, m, pair)
        if kind1 == BOX:
            if meet_boxes(rows, s, m, pair, reach):
                return True
        else:
            if h.soles.touched[m.number] == 0:
                if not bounds_meet(s, m, pair, reach):
                    return True
            if kind0 == BOX:
                if meet_hull(rows, s, h, m, pair, reach):
                    return True
    elif kind0 == CYLINDER:
        if s.size[m.shape0][2] != 0.0:
            return False
    elif kind0 != CAPSULE and kind1 == BOX:
        return False
    if kind1 == CONVEX_MESH and kind0 != BOX:
        m.apart = proved_distance(s, h.supports, m.shape0, m.shape1, reach) - reach
        if m.apart > 0.0:
            return True
    if not (kind0 == SPHERE or kind0 == CAPSULE or kind0 == CYLINDER or kind0 == BOX or kind0 == CONVEX_MESH):
        return False
    return meet_cores(rows_in, shapes, hulls, m)


@wp.func
def meet_near(
    c: wp.ref[Candidates],
    count: int,
    shapes: wp.array[Shapes],
    hulls: wp.array[Hulls],
    first: int,
    capacity: int,
    rows: Rows,
    look_at: wp.array[wp.float64],
    remembers: bool,
) -> wp.vec2i:
    """Write the contacts of listed pairs after the ``first`` rows.

    Returns the number of rows now, and how many pairs were left to Newton. If it ``remembers``, ``look_at`` receives
    when pairs that are apart have to be looked at again (`Travel.shapes_at`).
    """
    s = shapes[0]
    h = hulls[0]
    flat_shapes(s)
    flat_hulls(h)
    m = PairRow()
    m.found = first
    m.capacity = capacity
    m.overrides = wp.where(rows[0].stiffness.shape[0] > 0, 1, 0)
    k = int(0)
    while k < count:
        pair = c.near[k]
        m.shape0 = pair[0]
        m.shape1 = pair[1]
        m.number = c.near_number[k]
        m.apart = 0.0
        before = m.found
        met = meet_pair(rows, shapes, hulls, m)
        h.soles.touched[m.number] = wp.where(m.found > before, 1, 0)
        if not met:
            c.pair[m.left] = pair
            m.left += 1
        elif m.apart > 0.0 and remembers:
            look_at[m.number] = next_look(look_at[m.number], m.apart, boxes_size(s, m.shape0, m.shape1))
        k += 1
    return wp.vec2i(m.found, m.left)


@wp.kernel(module="unique", enable_backward=False)  # products and sums apart: poses are Newton's to the last bit
def search_pairs(
    ground: wp.array[GroundPairs],
    ground_span: wp.vec2i,
    bodies: wp.array[BodyPairs],
    body_span: wp.vec2i,
    travel: wp.array[Travel],
    shapes: wp.array[Shapes],
    body_q: Poses,
    same_shapes: int,
    selection: wp.array[Selection],
    source: Rows,
    target: Rows,
    candidates: wp.array[Candidates],
) -> None:
    """Write the contacts with the ground, list the other pairs and let Newton's counter begin after our rows.

    One thread. Newton writes into ``source``. With ``same_shapes`` the shapes are those of the last pass. Spans are the
    first of the pairs with the ground, or of the bodies, and the one behind the last.
    """
    now = next_generation(candidates[0].pass_number[0])
    candidates[0].pass_number[0] = now
    found_max = selection[0].found_max
    last = found_max - wp.min(found_max, LAST_ROWS)
    while last < found_max:
        source[0].tids[last] = -1  # `repair_rows` tells by it what Newton left unwritten
        last += 1
    b = bodies[0]
    t = travel[0]
    s = shapes[0]
    flat_bodies(b)
    flat_travel(t)
    flat_shapes(s)
    follow_bodies(b, t, s, body_span, body_q, same_shapes != 0)
    memory = wp.where(same_shapes != 0, USED, WRITTEN)
    found = find_contacts(ground, ground_span[0], ground_span[1], body_q, selection, source, target, memory)
    q = Search()
    q.body_q = body_q
    q.with_kinematic = ground[0].with_kinematic
    q.now = now
    q.near = candidates[0].near
    q.near_number = candidates[0].near_number
    q.most = candidates[0].near.shape[0]
    flat_search(q)
    list_candidates(b, t, s, body_span, q)
    candidates[0].near_count[0] = q.count
    candidates[0].own_rows[0] = found
    source[0].counters[0] = found
    source[0].counters[1] = 0
    source[0].counters[2] = 0


@solver_kernel
def meet_pairs(
    shapes: wp.array[Shapes],
    hulls: wp.array[Hulls],
    travel: wp.array[Travel],
    selection: wp.array[Selection],
    source: Rows,
    target: Rows,
    candidates: wp.array[Candidates],
) -> None:
    """After `search_pairs`: write the contacts of the listed pairs that we know, and leave the others to Newton.

    One thread. Our rows are in ``target`` if they all fit there, else in ``source``.
    """
    capacity = selection[0].capacity
    found_max = selection[0].found_max
    c = candidates[0]
    count = c.near_count[0]
    listed = wp.min(count, c.near.shape[0])
    grounded = c.own_rows[0]
    found = meet_near(c, listed, shapes, hulls, grounded, capacity, target, travel[0].shapes_at, True)
    if found[0] > capacity and capacity < found_max:
        if grounded <= capacity:
            copy_rows(target, source, 0, grounded, 1)
        found = meet_near(c, listed, shapes, hulls, grounded, found_max, source, travel[0].shapes_at, False)
    c.count[0] = found[1] + count - listed
    c.own_rows[0] = found[0]
    source[0].counters[0] = found[0]


def has_own_pairs(model: newton.Model, pairs: np.ndarray) -> bool:
    """Whether `meet_pairs` knows some of ``pairs``, shape [pair_count, 2]."""
    kinds = model.shape_type.numpy()[pairs]
    boxed = (kinds == int(BOX)).any(axis=1) & np.isin(kinds, (int(BOX), int(CAPSULE), int(CYLINDER))).all(axis=1)
    return bool((kinds == int(CONVEX_MESH)).any() or boxed.any())
