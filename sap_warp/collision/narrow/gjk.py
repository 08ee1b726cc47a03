# mypy: disable-error-code="valid-type"
"""Where two convex cores are nearest, or which direction leads out of their overlap the shortest way.

The core of a sphere is its centre, that of a capsule its axis; cylinders, boxes and hulls are their own. The points
x - y of two cores, x of the second and y of the first, are a convex set. If the origin is outside, the point of the set
that is nearest to it gives direction and distance (Gilbert, Johnson and Keerthi). If it is inside, a polytope grows in
the set until its nearest face is one of the set itself (`epa`). Everything is in the frame of the first
shape, and in double precision: corners are known to single precision, but differences of them are divided by each
other here.
"""

import warp as wp

from ..broad.aabb import BOX, CYLINDER, Shapes
from .barycentric import ZERO, Corners, double, single, weigh
from .hulls.separation import lowest_point
from .hulls.supports import Supports

APART, NEAR, OVERLAP, UNKNOWN = (wp.constant(k) for k in range(4))
SKIN = wp.constant(wp.float64(1.0e-5))
"""Cores closer than this count as overlapping: the direction between them is that of two faces or edges [m]."""
_ROUNDS = wp.constant(48)
SETTLED = wp.constant(wp.float64(1.0e-9))
"""How far the bounds of the distance may be from each other at the end [m]."""


@wp.struct
class CorePair:
    """Two cores in the frame of the first one, and what is known of them."""

    shape0: int
    shape1: int
    turn: wp.mat33d  # axes of the second one as columns
    place: wp.vec3d  # its origin
    state: int  # `APART`: further than looked for; `NEAR`, `OVERLAP`, or `UNKNOWN`: not found
    normal: wp.vec3d  # from the first to the second
    distance: wp.float64  # along the normal; negative if they overlap [m]; of `APART`, at least this
    point: wp.vec3d  # of the first one, nearest to the second or deepest in it


@wp.struct
class Corner:
    """A point of the set, and the point of the first core that it was made of."""

    at: wp.vec3d
    first: wp.vec3d


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
                pair.distance = bound
                return count
            stuck = length - bound <= SETTLED
        if stuck:
            pair.state = NEAR
            return count
        w[count] = corner.at
        first[count] = corner.first
        count += 1
        k += 1
    return count
