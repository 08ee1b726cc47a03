# mypy: disable-error-code="valid-type"
"""Where two convex cores are nearest, or which direction leads out of their overlap the shortest way.

The core of a sphere is its centre, that of a capsule its axis; cylinders, boxes and hulls are their own. The points
x - y of two cores, x of the second and y of the first, are a convex set. If the origin is outside, the point of the set
that is nearest to it gives direction and distance (Gilbert, Johnson and Keerthi). If it is inside, a polytope grows in
the set until its nearest face is one of the set itself (`least_overlap`). Everything is in the frame of the first
shape, and in double precision: corners are known to single precision, but differences of them are divided by each
other here.
"""

from typing import TypeAlias

import warp as wp

from .cpu_broad_phase import Shapes
from .ground import BOX, CYLINDER
from .hull_supports import Supports
from .hulls_apart import lowest_point

APART, NEAR, OVERLAP, UNKNOWN = (wp.constant(k) for k in range(4))
SKIN = wp.constant(wp.float64(1.0e-5))
"""Cores closer than this count as overlapping: the direction between them is that of two faces or edges [m]."""
_ROUNDS = wp.constant(48)
_SETTLED = wp.constant(wp.float64(1.0e-9))
"""How far the bounds of the distance may be from each other at the end [m]."""
_TINY = wp.constant(wp.float64(1.0e-30))
ZERO, ONE = wp.constant(wp.float64(0.0)), wp.constant(wp.float64(1.0))


Corners: TypeAlias = wp.array[wp.vec3d]
"""Of a simplex: differences of points of two shapes, or points of the first of them [m]."""


@wp.struct
class CorePair:
    """Two cores in the frame of the first one, and what is known of them."""

    shape0: int
    shape1: int
    turn: wp.mat33d  # axes of the second one as columns
    place: wp.vec3d  # its origin
    state: int  # `APART`: further than looked for; `NEAR`, `OVERLAP`, or `UNKNOWN`: not found
    normal: wp.vec3d  # from the first to the second
    distance: wp.float64  # along the normal; negative if they overlap [m]
    point: wp.vec3d  # of the first one, nearest to the second or deepest in it


@wp.struct
class Corner:
    """A point of the set, and the point of the first core that it was made of."""

    at: wp.vec3d
    first: wp.vec3d


@wp.func
def double(v: wp.vec3f) -> wp.vec3d:
    """In double precision."""
    return wp.vec3d(wp.float64(v[0]), wp.float64(v[1]), wp.float64(v[2]))


@wp.func
def single(v: wp.vec3d) -> wp.vec3f:
    """In single precision."""
    return wp.vec3f(wp.float32(v[0]), wp.float32(v[1]), wp.float32(v[2]))


@wp.func
def double_turn(q: wp.quatf) -> wp.quatd:
    """A unit quaternion in double precision."""
    return wp.normalize(wp.quatd(wp.float64(q[0]), wp.float64(q[1]), wp.float64(q[2]), wp.float64(q[3])))


@wp.func
def place_cores(s: wp.ref[Shapes], shape0: int, shape1: int) -> CorePair:
    """The second core in the frame of the first one."""
    pair = CorePair()
    pair.shape0 = shape0
    pair.shape1 = shape1
    turn0 = double_turn(wp.transform_get_rotation(s.pose[shape0]))
    turn1 = double_turn(wp.transform_get_rotation(s.pose[shape1]))
    way = double(wp.transform_get_translation(s.pose[shape1])) - double(wp.transform_get_translation(s.pose[shape0]))
    pair.turn = wp.quat_to_matrix(wp.quat_inverse(turn0) * turn1)
    pair.place = wp.quat_rotate_inv(turn0, way)
    return pair


@wp.func
def core_point(s: wp.ref[Shapes], t: wp.ref[Supports], shape: int, up: wp.vec3d) -> wp.vec3d:
    """The lowest point of a core along a direction, both in the frame of the shape [m]."""
    kind = s.kind[shape]
    size = double(s.size[shape])
    z = wp.where(up[2] > ZERO, -size[2], size[2])
    if kind == BOX:
        return wp.vec3d(wp.where(up[0] > ZERO, -size[0], size[0]), wp.where(up[1] > ZERO, -size[1], size[1]), z)
    if kind == CYLINDER:  # its corners are not those of a table: they are as exact as the direction is
        aside = wp.sqrt(up[0] * up[0] + up[1] * up[1])
        arm = wp.where(aside > ZERO, -size[0] / aside, ZERO)
        return wp.vec3d(arm * up[0], arm * up[1], wp.where(up[2] > ZERO, -size[1], size[1]))
    return double(lowest_point(s, t, shape, single(up)))


@wp.func
def lowest_corner(s: wp.ref[Shapes], t: wp.ref[Supports], pair: wp.ref[CorePair], up: wp.vec3d) -> Corner:
    """The point of the set that lies least far along a direction."""
    corner = Corner()
    corner.first = core_point(s, t, pair.shape0, -up)
    corner.at = pair.turn * core_point(s, t, pair.shape1, wp.transpose(pair.turn) * up) + pair.place - corner.first
    return corner


@wp.func
def weigh_two(p: wp.vec3d, q: wp.vec3d) -> wp.vec3d:
    """Weights of the ends of a line at its point nearest to the origin; the third one is zero."""
    way = q - p
    t = wp.clamp(-wp.dot(p, way) / wp.max(wp.dot(way, way), _TINY), ZERO, ONE)
    return wp.vec3d(ONE - t, t, ZERO)


@wp.func
def weigh_three(p: wp.vec3d, q: wp.vec3d, r: wp.vec3d) -> wp.vec3d:
    """Weights of the corners of a triangle at its point nearest to the origin."""
    n = wp.cross(q - p, r - p)
    area = wp.dot(n, n)
    w = wp.vec3d(wp.dot(n, wp.cross(q, r)), wp.dot(n, wp.cross(r, p)), wp.dot(n, wp.cross(p, q)))
    if area > _TINY and wp.min(w) >= ZERO:
        return w / (w[0] + w[1] + w[2])
    first = weigh_two(p, q)
    second = weigh_two(q, r)
    third = weigh_two(r, p)
    a = wp.length_sq(first[0] * p + first[1] * q)
    b = wp.length_sq(second[0] * q + second[1] * r)
    c = wp.length_sq(third[0] * r + third[1] * p)
    if a <= b and a <= c:
        return first
    if b <= c:
        return wp.vec3d(ZERO, second[0], second[1])
    return wp.vec3d(third[1], ZERO, third[0])


@wp.func
def weigh_four(w: Corners) -> wp.vec4d:
    """Weights of the corners of a tetrahedron at its point nearest to the origin; -1 first if it is inside."""
    found = wp.vec4d(-ONE, ZERO, ZERO, ZERO)
    least = wp.float64(3.0e38)
    for k in range(4):
        i = (k + 1) % 4
        j = (k + 2) % 4
        m = (k + 3) % 4
        n = wp.cross(w[j] - w[i], w[m] - w[i])
        if wp.dot(n, w[i]) * wp.dot(n, w[i] - w[k]) <= ZERO:  # the origin is not on the side of the fourth corner
            three = weigh_three(w[i], w[j], w[m])
            size = wp.length_sq(three[0] * w[i] + three[1] * w[j] + three[2] * w[m])
            if size < least:
                least = size
                found = wp.vec4d()
                found[i] = three[0]
                found[j] = three[1]
                found[m] = three[2]
    return found


@wp.func
def weigh(w: Corners, count: int) -> wp.vec4d:
    """Weights of up to four corners at the point between them that is nearest to the origin."""
    if count == 4:
        return weigh_four(w)
    weight = wp.vec3d(ONE, ZERO, ZERO)
    if count == 3:
        weight = weigh_three(w[0], w[1], w[2])
    elif count == 2:
        weight = weigh_two(w[0], w[1])
    return wp.vec4d(weight[0], weight[1], weight[2], ZERO)


@wp.func
def find_nearest(
    s: wp.ref[Shapes], t: wp.ref[Supports], pair: wp.ref[CorePair], reach: wp.float64, w: Corners, first: Corners
) -> int:
    """Find where two cores are nearest, unless they overlap or are further apart than ``reach`` [m].

    ``w`` and ``first`` receive the corners that the nearest point lies between, or that stand around the origin;
    returns their number.
    """
    pair.state = UNKNOWN
    corner = lowest_corner(s, t, pair, pair.place)
    w[0] = corner.at
    first[0] = corner.first
    count = int(1)
    shortest = wp.float64(3.0e38)
    k = int(0)
    while k < _ROUNDS:
        weight = weigh(w, count)
        if weight[0] < ZERO:
            pair.state = OVERLAP
            return count
        v = wp.vec3d()
        point = wp.vec3d()
        kept = int(0)
        i = int(0)
        while i < count:
            if weight[i] > ZERO:
                v += weight[i] * w[i]
                point += weight[i] * first[i]
                w[kept] = w[i]
                first[kept] = first[i]
                kept += 1
            i += 1
        count = kept
        length = wp.length(v)
        if length < SKIN:
            pair.state = OVERLAP
            return count
        stuck = length >= shortest
        if not stuck:
            shortest = length
            pair.normal = v / length
            pair.distance = length
            pair.point = point
            corner = lowest_corner(s, t, pair, pair.normal)
            bound = wp.dot(pair.normal, corner.at)
            if bound > reach:
                pair.state = APART
                return count
            stuck = length - bound <= _SETTLED
        if stuck:
            pair.state = NEAR
            return count
        w[count] = corner.at
        first[count] = corner.first
        count += 1
        k += 1
    return count
