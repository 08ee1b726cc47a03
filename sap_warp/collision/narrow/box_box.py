# mypy: disable-error-code="valid-type"
"""Contacts of two boxes in closed form: separating axis test, then clipping of the two faces that look at each other.

The normal is the best separating direction among the 15 candidates: three faces of each box and nine pairs of edges.
The contacts are the corners of the area that two faces share, those that look most along the normal, seen along it:
the face of box B is clipped by the outline of the face of A, and each corner has its own distance, measured along the
normal from face to face.

What must not happen is that a box at rest on others has different contacts in every step: it rattles. With this
manifold the points and their distances follow the pose continuously. Whether the normal is that of a face of A, of a
face of B that lies on it, or of two edges that are nearly in these faces, the shared area is nearly the same, so it
does not matter which one rounding prefers. A corner enters at the distance of its edge, and none is chosen by depth.

Boxes that are apart and closest in a corner have a direction that is none of the 15; the caller then takes GJK.
"""

import warp as wp

from ...core.kernels.types import Vectors

MAX_CORNERS = wp.constant(8)
"""Largest number of contacts of two boxes."""
PARALLEL = wp.constant(1.0e-6)
"""Squared sine below which two edges count as parallel: the faces between them then separate as well."""
NEAREST_TOLERANCE = wp.constant(4.0e-6)
"""How much further than the best separation the closest corner of shapes that are apart may be [m]."""


@wp.struct
class BoxPair:
    """Two boxes in the frame of the first one, A, and the normal between them."""

    half_a: wp.vec3f  # half sizes of A [m]
    half_b: wp.vec3f  # half sizes of B
    rotation: wp.mat33f  # of B, its axes as columns
    translation: wp.vec3f  # centre of B
    normal: wp.vec3f  # from A to B
    separation: float  # along the normal, negative for an overlap [m]


@wp.func
def find_separating_axis(boxes: wp.ref[BoxPair], reach: float) -> bool:
    """Find the axis that separates two boxes most; return False if they are further apart than ``reach`` [m].

    In that case there is a separation but no normal. The loops have constant lengths, and Warp unrolls them: entries of
    matrices are at fixed positions, not indexed.
    """
    r = boxes.rotation
    t = boxes.translation
    a = boxes.half_a
    b = boxes.half_b
    s = wp.matrix_from_rows(wp.abs(r[0]), wp.abs(r[1]), wp.abs(r[2]))
    best = float(-3.0e38)
    code = int(0)  # faces of A, faces of B, then pairs of edges
    for i in range(3):
        separation = wp.abs(t[i]) - a[i] - (s[i, 0] * b[0] + s[i, 1] * b[1] + s[i, 2] * b[2])
        if separation > best:
            best = separation
            code = i
    for j in range(3):
        along = wp.abs(r[0, j] * t[0] + r[1, j] * t[1] + r[2, j] * t[2])
        separation2 = along - b[j] - (s[0, j] * a[0] + s[1, j] * a[1] + s[2, j] * a[2])
        if separation2 > best:
            best = separation2
            code = 3 + j
    boxes.separation = best
    if best > reach:
        return False
    for k in range(3):
        for m in range(3):
            # the cross product of edge k of A and edge m of B has two entries of column m
            y = r[(k + 1) % 3, m]
            z = r[(k + 2) % 3, m]
            size = y * y + z * z
            extent = a[(k + 1) % 3] * wp.abs(z) + a[(k + 2) % 3] * wp.abs(y)
            extent += b[(m + 1) % 3] * s[k, (m + 2) % 3] + b[(m + 2) % 3] * s[k, (m + 1) % 3]
            separation3 = wp.abs(t[(k + 2) % 3] * y - t[(k + 1) % 3] * z) - extent
            # the root is at most 1, so no overlap gets smaller by it
            if separation3 > wp.min(best, 0.0) and size > PARALLEL:
                separation3 = separation3 / wp.sqrt(size)
                if separation3 > best:
                    best = separation3
                    code = 6 + 3 * k + m
    boxes.separation = best
    axis = wp.vec3f()
    if code < 3:
        axis[code] = 1.0
    elif code < 6:
        axis = wp.vec3f(r[0, code - 3], r[1, code - 3], r[2, code - 3])
    else:
        edge = wp.vec3f()
        edge[(code - 6) // 3] = 1.0
        other = (code - 6) % 3
        axis = wp.normalize(wp.cross(edge, wp.vec3f(r[0, other], r[1, other], r[2, other])))
    boxes.normal = wp.where(wp.dot(axis, t) < 0.0, -axis, axis)
    return best <= reach


@wp.func
def largest_axis(v: wp.vec3f) -> int:
    """Index of the component with the largest absolute value."""
    x = wp.abs(v[0])
    y = wp.abs(v[1])
    z = wp.abs(v[2])
    if x >= y and x >= z:
        return 0
    return wp.where(y >= z, 1, 2)


@wp.func
def clip_edge(
    start: wp.vec3f, start_outside: float, end: wp.vec3f, end_outside: float, polygon: Vectors, kept: int
) -> int:
    """Clip one polygon edge at a half-plane (Sutherland-Hodgman), append what remains, return the corner count.

    Args:
        start: First corner of the edge. It belongs to the edge before.
        start_outside: Its distance from the half-plane, positive outside [m].
        end: Second corner of the edge.
        end_outside: Its distance [m].
        polygon: Receives the corners.
        kept: Number of corners so far.
    """
    count = int(kept)
    if (end_outside > 0.0) != (start_outside > 0.0):
        polygon[count] = start + (start_outside / (start_outside - end_outside)) * (end - start)
        count += 1
    if end_outside <= 0.0:
        polygon[count] = end
        count += 1
    return count


@wp.func
def clip_to_limit(source: Vectors, count: int, k: int, limit: float, target: Vectors) -> int:
    """Clip a polygon to the half-plane in which coordinate k is at most ``limit``; returns the number of its corners.

    With k + 2 it is the negative of coordinate k.
    """
    sign = wp.where(k < 2, 1.0, -1.0)
    kept = int(0)
    last = source[count - 1]
    last_outside = sign * last[k & 1] - limit
    i = int(0)
    while i < count:
        corner = source[i]
        outside = sign * corner[k & 1] - limit
        kept = clip_edge(last, last_outside, corner, outside, target, kept)
        last = corner
        last_outside = outside
        i += 1
    return kept


@wp.func
def project(boxes: wp.ref[BoxPair], point: wp.vec3f) -> wp.vec3f:
    """Project a point along the normal onto A's face: (u, v, distance) [m]."""
    normal = boxes.normal
    i = largest_axis(normal)
    i1 = (i + 1) % 3
    i2 = (i + 2) % 3
    distance = (point[i] - wp.sign(normal[i]) * boxes.half_a[i]) / normal[i]
    return wp.vec3f(point[i1] - distance * normal[i1], point[i2] - distance * normal[i2], distance)


@wp.func
def clip_to_face(boxes: wp.ref[BoxPair], corners: Vectors, count: int, scratch: Vectors) -> int:
    """Clip a polygon of projected points to the face of A, in place; returns the number of its corners.

    Both arrays must hold four corners more.
    """
    i = largest_axis(boxes.normal)
    u = boxes.half_a[(i + 1) % 3]
    v = boxes.half_a[(i + 2) % 3]
    kept = clip_to_limit(corners, count, 0, u, scratch)
    if kept > 0:
        kept = clip_to_limit(scratch, kept, 1, v, corners)
    if kept > 0:
        kept = clip_to_limit(corners, kept, 2, u, scratch)
    if kept > 0:
        kept = clip_to_limit(scratch, kept, 3, v, corners)
    return kept


@wp.func
def include_nearest(boxes: wp.ref[BoxPair], corners: Vectors, count: int) -> bool:
    """Return True if shapes that are apart are closest at one of the corners. Always True for an overlap."""
    nearest = wp.where(boxes.separation > 0.0, 3.0e38, 0.0)
    k = int(0)
    while k < count:
        nearest = wp.min(nearest, corners[k][2])
        k += 1
    return nearest <= wp.max(boxes.separation, 0.0) + NEAREST_TOLERANCE


@wp.func
def shared_corners(boxes: wp.ref[BoxPair], corners: Vectors, scratch: Vectors) -> int:
    """Project B's face onto A's face and clip it; returns the number of corners, (u, v, distance to B) [m].

    Returns -1 if the boxes are apart and closer elsewhere. ``corners`` and ``scratch`` can hold 8.
    """
    normal = wp.transpose(boxes.rotation) * boxes.normal
    j = largest_axis(normal)
    j1 = (j + 1) % 3
    j2 = (j + 2) % 3
    r = boxes.rotation
    one = boxes.half_b[j1] * wp.vec3f(r[0, j1], r[1, j1], r[2, j1])
    two = boxes.half_b[j2] * wp.vec3f(r[0, j2], r[1, j2], r[2, j2])
    center = boxes.translation - (wp.sign(normal[j]) * boxes.half_b[j]) * wp.vec3f(r[0, j], r[1, j], r[2, j])
    k = int(0)
    while k < 4:
        corner = center + wp.where(k == 0 or k == 3, 1.0, -1.0) * one + wp.where(k < 2, 1.0, -1.0) * two
        corners[k] = project(boxes, corner)
        k += 1
    count = clip_to_face(boxes, corners, 4, scratch)
    return wp.where(include_nearest(boxes, corners, count), count, -1)


@wp.func
def unproject(boxes: wp.ref[BoxPair], corner: wp.vec3f) -> wp.vec3f:
    """The point of A's face at the first two coordinates of a corner, in the frame of A [m]."""
    i = largest_axis(boxes.normal)
    point = wp.vec3f()
    point[i] = wp.sign(boxes.normal[i]) * boxes.half_a[i]
    point[(i + 1) % 3] = corner[0]
    point[(i + 2) % 3] = corner[1]
    return point


@wp.func
def reduce_corners(corners: Vectors, count: int, reach: float) -> int:
    """Reduce more than `MAX_CORNERS` corners to five: four that span a large area, and the deepest.

    `hulls.ground` chooses in the same way. Returns the number of corners.
    """
    if count <= MAX_CORNERS:
        return count
    middle = wp.vec2f()
    deepest = int(0)
    i = int(0)
    while i < count:
        middle += wp.vec2f(corners[i][0], corners[i][1]) / float(count)
        deepest = wp.where(corners[i][2] < corners[deepest][2], i, deepest)
        i += 1
    last = corners[deepest]
    chosen = wp.vec4i(-1, -1, -1, -1)
    start = wp.vec2f(middle)
    aside = wp.vec2f()
    stage = int(0)
    while stage < 4:
        best = float(0.0)
        k = int(0)
        while k < count:
            arm = wp.vec2f(corners[k][0], corners[k][1]) - start
            merit = wp.where(stage < 2, wp.length_sq(arm), wp.where(stage == 2, 1.0, -1.0) * wp.dot(aside, arm))
            merit *= reach - corners[k][2]
            if merit > 1.001 * best:
                best = merit
                chosen[stage] = k
            k += 1
        if chosen[stage] >= 0 and stage < 2:
            corner = wp.vec2f(corners[chosen[stage]][0], corners[chosen[stage]][1])
            aside = wp.vec2f(start[1] - corner[1], corner[0] - start[0])
            start = corner
        stage += 1
    four = wp.matrix_from_rows(last, last, last, last)
    kept = int(0)
    added = bool(True)
    j = int(0)
    while j < 4:
        if chosen[j] >= 0:
            four[kept] = corners[chosen[j]]
            added = added and chosen[j] != deepest
            kept += 1
        j += 1
    n = int(0)
    while n < kept:
        corners[n] = four[n]
        n += 1
    if added:
        corners[kept] = last
        kept += 1
    return kept


@wp.func
def merge_corners(corners: Vectors, count: int, near: float, reach: float) -> int:
    """Take out corners beyond ``reach``, and of corners closer to each other than ``near`` the shallower one [m].

    Returns the number of corners that are left, in the first entries.
    """
    kept = int(0)
    i = int(0)
    while i < count:
        corner = corners[i]
        slot = wp.where(corner[2] <= reach, kept, -1)
        k = int(0)
        while k < kept and slot == kept:
            other = corners[k]
            if wp.abs(corner[0] - other[0]) < near and wp.abs(corner[1] - other[1]) < near:
                slot = wp.where(corner[2] < other[2], k, -1)
            k += 1
        if slot >= 0:
            corners[slot] = corner
            kept = wp.max(kept, slot + 1)
        i += 1
    return kept
