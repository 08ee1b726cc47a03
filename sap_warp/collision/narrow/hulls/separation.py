# mypy: disable-error-code="valid-type"
"""A proof that a hull and another shape are further apart than contacts reach, before Newton's narrow phase is asked.

The points x - y of two convex shapes, x of one and y of the other, are a convex set, whose distance from the origin is
the distance of the shapes. From a point of the set, v, look back along v for the point w of the set that lies least
far along v: all of the set lies beyond it, so the distance is at least v·w / |v|. If that does not suffice, the point
nearest to the origin between v and w is the next v (Gilbert's algorithm). What is not proved in a few rounds is left
to others: no contact depends on it.
"""

import warp as wp

from ...broad.aabb import BOX, CAPSULE, CONVEX_MESH, CYLINDER, SPHERE, Shapes
from .ground import lowest_vertex
from .supports import Supports, low_vertices

ROUNDS = wp.constant(8)
SLACK = wp.constant(3.0e-4)
"""How much further apart than its reach shapes must be: Newton sees round ones up to 0.1 mm too close [m]."""


@wp.func
def lowest_point(s: wp.ref[Shapes], t: wp.ref[Supports], shape: int, up: wp.vec3f) -> wp.vec3f:
    """The lowest point of a shape's core along a direction, both in the frame of the shape [m].

    The core of a sphere is its centre, that of a capsule its axis.
    """
    kind = s.kind[shape]
    size = s.size[shape]
    if kind == CONVEX_MESH:
        vertices = low_vertices(t, shape, s.source[shape], size, up)
        return wp.cw_mul(size, vertices.at[lowest_vertex(vertices, wp.cw_mul(up, size))])
    half = wp.where(up[2] > 0.0, -size[1], size[1])
    if kind == CAPSULE:
        return wp.vec3f(0.0, 0.0, half)
    if kind == CYLINDER:
        aside = wp.sqrt(up[0] * up[0] + up[1] * up[1])
        arm = wp.where(aside > 0.0, -size[0] / aside, 0.0)
        return wp.vec3f(arm * up[0], arm * up[1], half)
    return wp.vec3f()


@wp.func
def proved_distance(s: wp.ref[Shapes], t: wp.ref[Supports], shape0: int, shape1: int, reach: float) -> float:
    """A distance that two shapes have at least, if it is proved to be more than ``reach``; else zero [m]."""
    kind = s.kind[shape0]
    if kind == BOX or not (kind == CONVEX_MESH or kind == SPHERE or kind == CAPSULE or kind == CYLINDER):
        return 0.0
    far = reach + SLACK
    if kind == SPHERE or kind == CAPSULE:
        far += s.size[shape0][0]
    elif kind == CYLINDER and s.size[shape0][2] != 0.0:  # a barrel
        return 0.0
    relative = wp.transform_multiply(wp.transform_inverse(s.pose[shape0]), s.pose[shape1])
    turn = wp.transform_get_rotation(relative)
    place = wp.transform_get_translation(relative)
    middle = wp.quat_rotate(turn, 0.5 * (s.local_lower[shape1] + s.local_upper[shape1])) + place
    if kind == CONVEX_MESH:
        middle -= 0.5 * (s.local_lower[shape0] + s.local_upper[shape0])
    v = wp.vec3f(middle)  # a direction at first, then a point of the set
    k = int(0)
    while k < ROUNDS:
        length = wp.length(v)
        if length < 1.0e-6 or (k > 0 and length < far):
            return 0.0
        d = v / length
        w = wp.quat_rotate(turn, lowest_point(s, t, shape1, wp.quat_rotate_inv(turn, d))) + place
        w -= lowest_point(s, t, shape0, -d)
        distance = wp.dot(d, w) - far
        if distance > 0.0:
            return reach + distance
        if k == 0:
            v = w
        else:
            way = w - v
            least = wp.max(wp.length_sq(way), 1.0e-30)
            v += wp.clamp(-wp.dot(v, way) / least, 0.0, 1.0) * way
        k += 1
    return 0.0
