# mypy: disable-error-code="valid-type"
"""Contacts of a box and a convex hull in closed form, like those of two boxes (`box_box`).

The directions that can separate best are the faces of the box, the faces of the hull, and for each edge of the hull
those at right angles to it and to an edge of the box: such a direction counts if it lies between the normals of the two
faces that meet in the edge, which the signs of their components tell. Everything is in the frame of the box.

The contacts are the corners of the area that a face of the box shares with the hull. If the normal is that of the
box, the hull's part is spanned by its lowest vertices, as on the ground (`hull_ground`); else it is the face that looks
most along the normal.
"""

import warp as wp

from .box_box import BoxPair, are_nearest, clip_to_face, largest_axis, project
from .hull_ground import BAND, LISTED, Vertices, choose_four, find_sole
from .hull_tables import FACES, Hulls

APART = wp.constant(-1)
BOX_FACE = wp.constant(-2)
PREFERENCE = wp.constant(2.0e-6)
"""How much better than the faces of the box another direction must separate [m]."""
LOWER_BY = wp.constant(2.0e-6)
"""How much lower than the corners of a sole the lowest vertex must be to be one too [m]."""


@wp.func
def lower(a: float, b: float) -> float:
    """The lower one, in one instruction: `wp.min` also looks after numbers that are none."""
    return wp.where(a < b, a, b)


@wp.func
def try_box_faces(p: wp.ref[BoxPair], vertices: wp.ref[Vertices], scale: wp.vec3f) -> None:
    """Directions of the box's faces: the extent of the hull along the axes of the box."""
    low = wp.vec3f(3.0e38, 3.0e38, 3.0e38)
    high = wp.vec3f(-3.0e38, -3.0e38, -3.0e38)
    turn = p.turn * wp.diag(scale)
    i = int(0)
    while i < vertices.count:
        v = turn * vertices.at[i]
        low = wp.vec3f(lower(v[0], low[0]), lower(v[1], low[1]), lower(v[2], low[2]))
        high = wp.vec3f(-lower(-v[0], -high[0]), -lower(-v[1], -high[1]), -lower(-v[2], -high[2]))
        i += 1
    p.separation = float(-3.0e38)
    j = int(0)
    while j < 3:
        above = p.place[j] + low[j] - p.a[j]
        below = -p.place[j] - high[j] - p.a[j]
        if wp.max(above, below) > p.separation:
            p.separation = wp.max(above, below)
            p.normal = wp.vec3f()
            p.normal[j] = wp.where(above > below, 1.0, -1.0)
        j += 1


@wp.func
def best_direction(
    p: wp.ref[BoxPair],
    h: wp.ref[Hulls],
    hull: int,
    reach: float,
    faces: wp.array[wp.vec4f],
) -> int:
    """After `try_box_faces`: a face of the hull that looks along the best direction, `BOX_FACE`, or `APART`.

    Args:
        p: The pair; receives a better direction.
        h: Tables.
        hull: Number of the hull.
        reach: Separation beyond which nothing is looked for any more [m].
        faces: Scratch.
    """
    turn = p.turn  # copies, which nothing else can change while the loops run
    place = p.place
    size = p.a
    normal = wp.vec3f(p.normal)
    first = h.face_start[hull]
    face_count = h.face_start[hull + 1] - first
    found = int(BOX_FACE)
    best = p.separation + PREFERENCE
    f = int(0)
    while f < face_count and best <= reach:
        n = turn * h.normal[first + f]
        height = -wp.dot(n, place) - h.offset[first + f]  # of the middle of the box above the face
        faces[f] = wp.vec4f(n[0], n[1], n[2], height)
        separation = height - wp.dot(wp.abs(n), size)
        if separation > best:
            best = separation
            normal = -n
            found = first + f
        f += 1
    least = wp.min(size)
    e = h.edge_start[hull]
    end = h.edge_start[hull + 1]
    while e < end and best <= reach:
        edge = h.edge[e]
        one = faces[edge[0]]
        two = faces[edge[1]]
        # Seen from the middle of the box between both faces no direction between theirs is better than the higher one.
        highest = wp.where(one[3] > two[3], one[3], two[3])
        if highest > 0.0 or highest - least > best:
            for k in range(3):
                if one[k] * two[k] < 0.0:
                    sum = wp.abs(two[k]) * one + wp.abs(one[k]) * two
                    axis = wp.vec3f(sum[0], sum[1], sum[2])
                    separation2 = (sum[3] - wp.dot(wp.abs(axis), size)) / wp.length(axis)
                    if separation2 > best:
                        best = separation2
                        normal = -wp.normalize(axis)
                        nearer = wp.dot(axis, wp.vec3f(one[0] - two[0], one[1] - two[1], one[2] - two[2])) > 0.0
                        found = first + wp.where(nearer, edge[0], edge[1])
        e += 1
    if found != BOX_FACE:
        p.separation = best
        p.normal = normal
    return wp.where(p.separation <= reach, found, APART)


@wp.func
def face_corners(p: wp.ref[BoxPair], h: wp.ref[Hulls], face: int, corners: wp.array[wp.vec3f]) -> int:
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
    p: wp.ref[BoxPair],
    vertices: wp.ref[Vertices],
    scale: wp.vec3f,
    center: wp.vec3f,
    half: wp.vec3f,
    reach: float,
    corners: wp.array[wp.vec3f],
) -> wp.vec4f:
    """The hull's lowest vertices over a face of the box, projected, in their order around.

    Args:
        p: The pair; its normal is that of the face.
        vertices: Of the hull.
        scale: Of the hull.
        center: Middle of the box around the hull, in the frame of the hull.
        half: Half the size of that box.
        reach: Vertices above this distance are no contacts [m].
        corners: Receives the vertices.

    Returns:
        The number of them, and the lowest vertex of all, projected.
    """
    n = wp.transpose(p.turn) * p.normal  # in the frame of the hull
    base = wp.dot(p.normal, p.place) - wp.dot(wp.abs(p.normal), p.a)
    listed = wp.zeros(shape=(LISTED,), dtype=wp.int32)
    sole = find_sole(vertices, wp.cw_mul(n, scale), base, reach, BAND * wp.length(half), listed)
    four = choose_four(vertices, scale, n, base, center, sole, listed)
    lowest = project(p, p.turn * wp.cw_mul(scale, vertices.at[sole.lowest]) + p.place)
    count = int(0)
    k = int(0)
    while k < 4:
        i = four[wp.where(k == 1, 2, wp.where(k == 2, 1, k))]  # the sides lie between the two ends
        if i >= 0:
            corners[count] = project(p, p.turn * wp.cw_mul(scale, vertices.at[i]) + p.place)
            count += 1
        k += 1
    return wp.vec4f(float(count), lowest[0], lowest[1], lowest[2])


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
def middle_of(corners: wp.array[wp.vec3f], count: int) -> wp.vec3f:
    """The mean of the corners, which is a point of the hull; a point far away if there are none."""
    total = wp.vec3f(0.0, 0.0, wp.where(count > 0, 0.0, 3.0e38))
    k = int(0)
    while k < count:
        total += corners[k]
        k += 1
    return total / float(wp.max(count, 1))


@wp.func
def add_lowest(p: wp.ref[BoxPair], lowest: wp.vec3f, corners: wp.array[wp.vec3f], count: int) -> int:
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
def hull_corners(
    p: wp.ref[BoxPair],
    h: wp.ref[Hulls],
    hull: int,
    vertices: wp.ref[Vertices],
    lower: wp.vec3f,
    upper: wp.vec3f,
    reach: float,
    corners: wp.array[wp.vec3f],
    scratch: wp.array[wp.vec3f],
) -> int:
    """Corners of the area that box and hull share, as `box_box.shared_corners`; finds the direction too.

    ``lower`` and ``upper`` are the corners of the box around the hull, in its frame. Both arrays must have room for
    `ROOM` corners.
    """
    try_box_faces(p, vertices, h.scale[hull])
    if p.separation > reach:
        return 0
    sole = sole_corners(p, vertices, h.scale[hull], 0.5 * (lower + upper), 0.5 * (upper - lower), reach, corners)
    count = int(sole[0])
    lowest = wp.vec3f(sole[1], sole[2], sole[3])
    if count > 0:
        count = clip_to_face(p, corners, count, scratch)
    count = add_lowest(p, lowest, corners, count)
    face = int(BOX_FACE)
    if not is_certain(p, lowest) and not is_certain(p, middle_of(corners, count)):
        faces = wp.zeros(shape=(FACES,), dtype=wp.vec4f)
        face = best_direction(p, h, hull, reach, faces)
    if face == APART:
        return 0
    if face != BOX_FACE:
        count = clip_to_face(p, corners, face_corners(p, h, face, corners), scratch)
    return wp.where(are_nearest(p, corners, count), count, -1)
