# mypy: disable-error-code="valid-type"
"""Contacts of two boxes in closed form.

The normal is the best separating direction among the 15 that can be it: three faces of each box and nine pairs of
edges. The contacts are the corners of the area that two faces share, the ones that look most along the normal, seen
along it: those of box B are clipped by the outline of the face of A, and each corner has its own distance, measured
along the normal from face to face.

What must not happen is that a box at rest on others meets different contacts in every step: it rattles. With this
manifold the points and their distances follow the pose continuously. Whether the normal is that of a face of A, of a
face of B that lies on it, or of two edges that are nearly in these faces, the shared area is nearly the same, so it
does not matter which one rounding prefers. A corner enters at the distance of its edge, and none is chosen by depth.

Boxes that are apart and nearest in a corner have a direction that is none of the 15; the caller has another way then.
"""

import warp as wp

from ...core.kernels.types import Vectors

CORNERS = wp.constant(8)
"""Contacts of two boxes at most."""
PARALLEL = wp.constant(1.0e-6)
"""Squared sine below which two edges are parallel: the faces between them then say the same."""
NEAREST = wp.constant(4.0e-6)
"""How much further than the best separation the shared area of shapes that are apart may be [m]."""


@wp.struct
class BoxPair:
    """Two boxes in the frame of the first one, A, and the direction between them."""

    a: wp.vec3f  # half sizes of A [m]
    b: wp.vec3f  # half sizes of B
    turn: wp.mat33f  # axes of B as columns
    place: wp.vec3f  # centre of B
    normal: wp.vec3f  # from A to B
    separation: float  # along the normal; negative if they overlap


@wp.func
def separate(p: wp.ref[BoxPair], reach: float) -> bool:
    """Find the best direction; False, and only a separation, if the boxes are further apart than ``reach`` [m].

    Loops of a constant length, which Warp unrolls: a product has its place, not an index.
    """
    r = p.turn
    t = p.place
    a = p.a
    b = p.b
    s = wp.matrix_from_rows(wp.abs(r[0]), wp.abs(r[1]), wp.abs(r[2]))
    best = float(-3.0e38)
    code = int(0)  # faces of A, faces of B, then pairs of edges
    for i in range(3):
        apart = wp.abs(t[i]) - a[i] - (s[i, 0] * b[0] + s[i, 1] * b[1] + s[i, 2] * b[2])
        if apart > best:
            best = apart
            code = i
    for j in range(3):
        along = wp.abs(r[0, j] * t[0] + r[1, j] * t[1] + r[2, j] * t[2])
        apart2 = along - b[j] - (s[0, j] * a[0] + s[1, j] * a[1] + s[2, j] * a[2])
        if apart2 > best:
            best = apart2
            code = 3 + j
    p.separation = best
    if best > reach:
        return False
    for k in range(3):
        for m in range(3):
            # edge k of A times edge m of B has two entries of column m
            y = r[(k + 1) % 3, m]
            z = r[(k + 2) % 3, m]
            size = y * y + z * z
            extent = a[(k + 1) % 3] * wp.abs(z) + a[(k + 2) % 3] * wp.abs(y)
            extent += b[(m + 1) % 3] * s[k, (m + 2) % 3] + b[(m + 2) % 3] * s[k, (m + 1) % 3]
            apart3 = wp.abs(t[(k + 2) % 3] * y - t[(k + 1) % 3] * z) - extent
            if apart3 > wp.min(best, 0.0) and size > PARALLEL:  # the root is at most 1: no overlap gets less by it
                apart3 = apart3 / wp.sqrt(size)
                if apart3 > best:
                    best = apart3
                    code = 6 + 3 * k + m
    p.separation = best
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
    p.normal = wp.where(wp.dot(axis, t) < 0.0, -axis, axis)
    return best <= reach


@wp.func
def largest_axis(v: wp.vec3f) -> int:
    """Number of the component with the largest size."""
    x = wp.abs(v[0])
    y = wp.abs(v[1])
    z = wp.abs(v[2])
    if x >= y and x >= z:
        return 0
    return wp.where(y >= z, 1, 2)


@wp.func
def clip_edge(start: wp.vec3f, start_over: float, end: wp.vec3f, end_over: float, target: Vectors, kept: int) -> int:
    """Add the corners that an edge leaves of a polygon where nothing is over a line; returns how many there are now.

    ``start_over`` and ``end_over`` say how far its ends are over the line [m]. The start belongs to the edge before.
    """
    count = int(kept)
    if (end_over > 0.0) != (start_over > 0.0):
        target[count] = start + (start_over / (start_over - end_over)) * (end - start)
        count += 1
    if end_over <= 0.0:
        target[count] = end
        count += 1
    return count


@wp.func
def clip(source: Vectors, count: int, k: int, limit: float, target: Vectors) -> int:
    """The part of a polygon with a coordinate k up to ``limit``; with k + 2, its negative. Returns its corners."""
    sign = wp.where(k < 2, 1.0, -1.0)
    kept = int(0)
    last = source[count - 1]
    last_over = sign * last[k & 1] - limit
    i = int(0)
    while i < count:
        at = source[i]
        over = sign * at[k & 1] - limit
        kept = clip_edge(last, last_over, at, over, target, kept)
        last = at
        last_over = over
        i += 1
    return kept


@wp.func
def project(p: wp.ref[BoxPair], point: wp.vec3f) -> wp.vec3f:
    """A point in the frame of A, moved along the normal into the face of A: two coordinates, and the way it had [m]."""
    n = p.normal
    i = largest_axis(n)
    i1 = (i + 1) % 3
    i2 = (i + 2) % 3
    distance = (point[i] - wp.sign(n[i]) * p.a[i]) / n[i]
    return wp.vec3f(point[i1] - distance * n[i1], point[i2] - distance * n[i2], distance)


@wp.func
def clip_to_face(p: wp.ref[BoxPair], corners: Vectors, count: int, scratch: Vectors) -> int:
    """Cut a polygon of projected points down to the face of A; returns its corners, in place.

    Both arrays must have room for four corners more.
    """
    i = largest_axis(p.normal)
    u = p.a[(i + 1) % 3]
    v = p.a[(i + 2) % 3]
    kept = clip(corners, count, 0, u, scratch)
    if kept > 0:
        kept = clip(scratch, kept, 1, v, corners)
    if kept > 0:
        kept = clip(corners, kept, 2, u, scratch)
    if kept > 0:
        kept = clip(scratch, kept, 3, v, corners)
    return kept


@wp.func
def are_nearest(p: wp.ref[BoxPair], corners: Vectors, count: int) -> bool:
    """Whether shapes that are apart are nearest in one of the corners; shapes that overlap always are."""
    nearest = wp.where(p.separation > 0.0, 3.0e38, 0.0)
    k = int(0)
    while k < count:
        nearest = wp.min(nearest, corners[k][2])
        k += 1
    return nearest <= wp.max(p.separation, 0.0) + NEAREST


@wp.func
def shared_corners(p: wp.ref[BoxPair], corners: Vectors, scratch: Vectors) -> int:
    """Corners of the area that the two faces share: two coordinates in the face of A, and the distance to B [m].

    Returns how many there are, in the first entries of ``corners``, which can hold 8 as ``scratch`` can; -1 if the
    boxes are apart and nearer elsewhere.
    """
    m = wp.transpose(p.turn) * p.normal
    j = largest_axis(m)
    j1 = (j + 1) % 3
    j2 = (j + 2) % 3
    r = p.turn
    one = p.b[j1] * wp.vec3f(r[0, j1], r[1, j1], r[2, j1])
    two = p.b[j2] * wp.vec3f(r[0, j2], r[1, j2], r[2, j2])
    center = p.place - (wp.sign(m[j]) * p.b[j]) * wp.vec3f(r[0, j], r[1, j], r[2, j])
    k = int(0)
    while k < 4:
        corner = center + wp.where(k == 0 or k == 3, 1.0, -1.0) * one + wp.where(k < 2, 1.0, -1.0) * two
        corners[k] = project(p, corner)
        k += 1
    count = clip_to_face(p, corners, 4, scratch)
    return wp.where(are_nearest(p, corners, count), count, -1)


@wp.func
def on_face(p: wp.ref[BoxPair], corner: wp.vec3f) -> wp.vec3f:
    """The point of A's face at the first two coordinates of a corner, in the frame of A [m]."""
    i = largest_axis(p.normal)
    point = wp.vec3f()
    point[i] = wp.sign(p.normal[i]) * p.a[i]
    point[(i + 1) % 3] = corner[0]
    point[(i + 2) % 3] = corner[1]
    return point


@wp.func
def spread_corners(corners: Vectors, count: int, reach: float) -> int:
    """Of more than `CORNERS`, leave the five that span a large area or are deepest, as `hulls.ground` does."""
    if count <= CORNERS:
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
            at = wp.vec2f(corners[chosen[stage]][0], corners[chosen[stage]][1])
            aside = wp.vec2f(start[1] - at[1], at[0] - start[0])
            start = at
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
    """Leave out corners beyond ``reach``, and of those closer to each other than ``near`` the shallower one."""
    kept = int(0)
    i = int(0)
    while i < count:
        at = corners[i]
        place = wp.where(at[2] <= reach, kept, -1)
        k = int(0)
        while k < kept and place == kept:
            other = corners[k]
            if wp.abs(at[0] - other[0]) < near and wp.abs(at[1] - other[1]) < near:
                place = wp.where(at[2] < other[2], k, -1)
            k += 1
        if place >= 0:
            corners[place] = at
            kept = wp.max(kept, place + 1)
        i += 1
    return kept
