# mypy: disable-error-code="valid-type"
"""Contacts of a box and a convex hull in closed form, like those of two boxes (`box_box`).

The directions that can separate best are the faces of the box, the faces of the hull, and for each edge of the hull
those at right angles to it and to an edge of the box: such a direction counts if it lies between the normals of the two
faces that meet in the edge, which the signs of their components tell. Everything is in the frame of the box.

The contacts are the corners of the area that a face of the box shares with the hull. If the normal is that of the
box, the hull's part is spanned by its lowest vertices, as on the ground (`hulls.ground`); else it is the face that
looks most along the normal.
"""

import warp as wp

from ...core.kernels.types import Vectors
from .box_box import BoxPair, are_nearest, clip_to_face, largest_axis, project
from .hulls.ground import FLAT, lowest_vertex, vertices_of
from .hulls.planes import plane_heights, steep_planes, stretched
from .hulls.support_face import look_at_sole
from .hulls.supports import low_vertices
from .hulls.tables import Hulls

APART = wp.constant(-1)
BOX_FACE = wp.constant(-2)
PREFERENCE = wp.constant(2.0e-6)
"""How much better than the faces of the box another direction must separate [m]."""
LOWER_BY = wp.constant(2.0e-6)
"""How much lower than the corners of a sole the lowest vertex must be to be one too [m]."""


@wp.struct
class HullShape:
    """A shape and its hull."""

    number: int  # of the shape
    hull: int
    sole: int  # place in `Soles`
    lower: wp.vec3f  # corners of the box around it, in its frame [m]
    upper: wp.vec3f


@wp.func
def try_box_faces(p: wp.ref[BoxPair], h: wp.ref[Hulls], hull: int, shape: int) -> int:
    """Directions of the box's faces: how far the hull is above each of them; returns its lowest vertex over the best.

    A ball in the hull says how far that can be at most, so most faces need no look at vertices. The one that looks
    best comes first.
    """
    ball = h.ball[hull]
    middle = p.turn * wp.vec3f(ball[0], ball[1], ball[2]) + p.place
    most = wp.abs(middle) - p.a - wp.vec3f(ball[3], ball[3], ball[3])
    first = wp.where(most[0] >= most[1] and most[0] >= most[2], 0, wp.where(most[1] >= most[2], 1, 2))
    p.separation = float(-3.0e38)
    found = int(0)
    k = int(0)
    while k < 6:
        j = (first + k) % 3
        up = wp.where((middle[j] >= 0.0) == (k < 3), 1.0, -1.0)
        if up * middle[j] - p.a[j] - ball[3] > p.separation:
            axis = up * wp.vec3f(p.turn[j, 0], p.turn[j, 1], p.turn[j, 2])  # in the frame of the hull
            v = low_vertices(h.supports, shape, h.source[hull], h.scale[hull], axis)
            slope = wp.cw_mul(axis, h.scale[hull])
            lowest = lowest_vertex(v, slope)
            separation = up * p.place[j] + wp.dot(slope, v.at[lowest]) - p.a[j]
            if separation > p.separation:
                p.separation = separation
                found = lowest
                p.normal = wp.vec3f()
                p.normal[j] = up
        k += 1
    return found


@wp.func
def best_direction(p: wp.ref[BoxPair], h: wp.ref[Hulls], hull: int, reach: float) -> int:
    """After `try_box_faces`: a face of the hull that looks along the best direction, `BOX_FACE`, or `APART`.

    How high the middle of the box is above a face says how much this face and its edges can separate at most. The
    highest one comes first, and few others have to be looked at closely. An edge belongs to the higher one of its
    faces.

    Args:
        p: The pair; receives a better direction.
        h: Tables.
        hull: Number of the hull.
        reach: Separation beyond which nothing is looked for any more [m].
    """
    first = h.face_start[hull]
    face_count = h.face_start[hull + 1] - first
    heights = h.heights
    middle = -(wp.transpose(p.turn) * p.place)  # of the box, in the frame of the hull
    top = plane_heights(h.normal_x, h.normal_y, h.normal_z, h.offset, first, face_count, middle, heights)
    turn = p.turn  # copies, which nothing else can change while the loops run
    size = p.a
    normal = wp.vec3f(p.normal)
    found = int(BOX_FACE)
    best = p.separation + PREFERENCE
    least = wp.min(size)
    steep = steep_planes(heights, h.stretch, first, face_count, best + least - PREFERENCE, h.steep)
    k = int(-1)
    while k < steep and best <= reach:
        f = int(top)
        if k >= 0:
            f = h.steep[k]
        height = heights[f]
        if stretched(height, h.stretch[first + f]) - least > best and (k < 0 or f != top):
            n = turn * h.normal[first + f]
            separation = height - wp.dot(wp.abs(n), size)
            if separation > best:
                best = separation
                normal = -n
                found = first + f
            s = h.side_start[first + f]
            while s < h.side_start[first + f + 1]:
                other = h.side[s]
                below = heights[other]
                if below < height or (below == height and other > f):
                    if stretched(height, h.side_stretch[s]) - least > best:
                        n2 = turn * h.normal[first + other]
                        for j in range(3):
                            if n[j] * n2[j] < 0.0:
                                w = wp.abs(n2[j])
                                w2 = wp.abs(n[j])
                                axis = w * n + w2 * n2
                                separation2 = (w * height + w2 * below - wp.dot(wp.abs(axis), size)) / wp.length(axis)
                                if separation2 > best:
                                    best = separation2
                                    normal = -wp.normalize(axis)
                                    found = first + wp.where(wp.dot(axis, n - n2) > 0.0, f, other)
                s += 1
        k += 1
    if found != BOX_FACE:
        p.separation = best
        p.normal = normal
    return wp.where(p.separation <= reach, found, APART)


@wp.func
def face_corners(p: wp.ref[BoxPair], h: wp.ref[Hulls], face: int, corners: Vectors) -> int:
    """The corners of a face of the hull, projected."""
    start = h.loop_start[face]
    count = h.loop_start[face + 1] - start
    k = int(0)
    while k < count:
        corners[k] = project(p, p.turn * h.loop[start + k] + p.place)
        k += 1
    return count


@wp.func
def sole_corners(
    p: wp.ref[BoxPair], h: wp.ref[Hulls], shape: wp.ref[HullShape], points: Vectors, corners: Vectors
) -> int:
    """The hull's lowest vertices over a face of the box, projected, in their order around; returns their number.

    ``points`` are the vertices of the hull, the normal of ``p`` is that of the face.
    """
    n = wp.transpose(p.turn) * p.normal  # in the frame of the hull
    scale = h.scale[shape.hull]
    mesh = h.source[shape.hull]
    look_at_sole(h.soles, shape.sole, h.supports, shape.number, mesh, scale, n, shape.lower, shape.upper)
    around = h.soles.around[shape.sole]
    count = int(0)
    k = int(0)
    while k < 8:
        i = around[k]
        if i >= 0:
            corners[count] = project(p, p.turn * wp.cw_mul(scale, points[i]) + p.place)
            count += 1
        k += 1
    return count


@wp.func
def is_over_face(p: wp.ref[BoxPair], point: wp.vec3f, inwards: float) -> bool:
    """Whether a projected point is on the face of the box, at least so far from the planes of the other faces [m]."""
    i = largest_axis(p.normal)
    inside = wp.abs(point[0]) <= p.a[(i + 1) % 3] - inwards and wp.abs(point[1]) <= p.a[(i + 2) % 3] - inwards
    return inside and inwards <= p.a[i]


@wp.func
def is_certain(p: wp.ref[BoxPair], point: wp.vec3f) -> bool:
    """Whether a projected point of the hull shows that no direction is better than that of the box's face.

    Over the face it is as near to the box as the face is to the hull; inside of the box no other face is nearer.
    """
    return point[2] <= p.separation + PREFERENCE and is_over_face(p, point, wp.max(-p.separation, 0.0))


@wp.func
def middle_of(corners: Vectors, count: int) -> wp.vec3f:
    """The mean of the corners, which is a point of the hull; a point far away if there are none."""
    total = wp.vec3f(0.0, 0.0, wp.where(count > 0, 0.0, 3.0e38))
    k = int(0)
    while k < count:
        total += corners[k]
        k += 1
    return total / float(wp.max(count, 1))


@wp.func
def add_lowest(p: wp.ref[BoxPair], lowest: wp.vec3f, corners: Vectors, count: int) -> int:
    """Let the lowest vertex be a corner too if it is over the face and lower than the others."""
    added = is_over_face(p, lowest, 0.0)
    k = int(0)
    while k < count:
        added = added and lowest[2] < corners[k][2] - LOWER_BY
        k += 1
    if added:
        corners[count] = lowest
    return wp.where(added, count + 1, count)


@wp.func
def lies_flat(p: wp.ref[BoxPair], up: wp.vec3f, corners: Vectors, count: int) -> bool:
    """Whether a direction of the hull is as good as ``up``, that of the box's face, which is then taken.

    A sole of several faces that are not quite in one plane would have the corners of one of them alone, now of this one
    and now of that one, and never come to rest.
    """
    normal = p.normal
    if count < 3 or wp.dot(normal, up) < FLAT:
        return False
    p.normal = up
    if are_nearest(p, corners, count):
        return True
    p.normal = normal
    return False


@wp.func
def hull_corners(
    p: wp.ref[BoxPair], h: wp.ref[Hulls], shape: wp.ref[HullShape], reach: float, corners: Vectors, scratch: Vectors
) -> int:
    """Corners of the area that box and hull share, as `box_box.shared_corners`; finds the direction too.

    Both arrays must have room for `ROOM` corners.
    """
    vertex = try_box_faces(p, h, shape.hull, shape.number)
    if p.separation > reach:
        return 0
    points = vertices_of(h.source[shape.hull]).at
    lowest = project(p, p.turn * wp.cw_mul(h.scale[shape.hull], points[vertex]) + p.place)
    count = sole_corners(p, h, shape, points, corners)
    if count > 0:
        count = clip_to_face(p, corners, count, scratch)
    count = add_lowest(p, lowest, corners, count)
    face = int(BOX_FACE)
    up = p.normal
    if not is_certain(p, lowest) and not is_certain(p, middle_of(corners, count)):
        face = best_direction(p, h, shape.hull, reach)
    if face == APART:
        return 0
    if face != BOX_FACE and not lies_flat(p, up, corners, count):
        count = clip_to_face(p, corners, face_corners(p, h, face, corners), scratch)
    return wp.where(are_nearest(p, corners, count), count, -1)
