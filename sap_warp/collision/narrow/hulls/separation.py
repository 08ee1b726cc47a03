# mypy: disable-error-code="valid-type"
"""A lower bound of the distance of a hull and another shape, for pairs that are further apart than contacts reach.

The Minkowski difference of two convex shapes, the points x - y with x of one and y of the other, is convex, and its
distance from the origin is the distance of the shapes. For a point v of it, let w be the support point opposite to v:
all of the set lies beyond w along v, so the distance is at least v·w / |v|. If that does not suffice, the point
closest to the origin between v and w is the next v (Gilbert's algorithm). What is not proved in a few iterations is
left to the narrow phase: no contact depends on it.
"""

import warp as wp

from ....model.shapes import BOX, CAPSULE, CONVEX_MESH, CYLINDER, SPHERE
from ...broad.aabb import Shapes
from .ground import lowest_vertex
from .supports import Supports, low_vertices

MAX_ITERATIONS = wp.constant(8)
MARGIN = wp.constant(3.0e-4)
"""How much further apart than its reach shapes must be: Newton puts round ones up to 0.1 mm too close [m]."""


@wp.func
def lowest_point(shapes: wp.ref[Shapes], supports: wp.ref[Supports], shape: int, up: wp.vec3f) -> wp.vec3f:
    """The lowest point of a shape's core along a direction, both in the frame of the shape [m].

    The core is the shape shrunk by its radius (`gjk`): a sphere's centre, a capsule's axis.
    """
    kind = shapes.kind[shape]
    size = shapes.size[shape]
    if kind == CONVEX_MESH:
        vertices = low_vertices(supports, shape, shapes.source[shape], size, up)
        return wp.cw_mul(size, vertices.points[lowest_vertex(vertices, wp.cw_mul(up, size))])
    half = wp.where(up[2] > 0.0, -size[1], size[1])
    if kind == CAPSULE:
        return wp.vec3f(0.0, 0.0, half)
    if kind == CYLINDER:
        across = wp.sqrt(up[0] * up[0] + up[1] * up[1])
        arm = wp.where(across > 0.0, -size[0] / across, 0.0)
        return wp.vec3f(arm * up[0], arm * up[1], half)
    return wp.vec3f()


@wp.func
def separation_bound(
    shapes: wp.ref[Shapes], supports: wp.ref[Supports], shape0: int, shape1: int, reach: float
) -> float:
    """A lower bound of the distance of two shapes if it is proved to exceed ``reach``; otherwise zero [m]."""
    kind = shapes.kind[shape0]
    if kind == BOX or not (kind == CONVEX_MESH or kind == SPHERE or kind == CAPSULE or kind == CYLINDER):
        return 0.0
    target = reach + MARGIN
    if kind == SPHERE or kind == CAPSULE:
        target += shapes.size[shape0][0]
    elif kind == CYLINDER and shapes.size[shape0][2] != 0.0:  # a barrel
        return 0.0
    relative = wp.transform_multiply(wp.transform_inverse(shapes.pose[shape0]), shapes.pose[shape1])
    rotation = wp.transform_get_rotation(relative)
    translation = wp.transform_get_translation(relative)
    center = wp.quat_rotate(rotation, 0.5 * (shapes.local_lower[shape1] + shapes.local_upper[shape1])) + translation
    if kind == CONVEX_MESH:
        center -= 0.5 * (shapes.local_lower[shape0] + shapes.local_upper[shape0])
    v = wp.vec3f(center)  # a direction at first, then a point of the set
    k = int(0)
    while k < MAX_ITERATIONS:
        length = wp.length(v)
        if length < 1.0e-6 or (k > 0 and length < target):
            return 0.0
        direction = v / length
        support = (
            wp.quat_rotate(rotation, lowest_point(shapes, supports, shape1, wp.quat_rotate_inv(rotation, direction)))
            + translation
        )
        support -= lowest_point(shapes, supports, shape0, -direction)
        distance = wp.dot(direction, support) - target
        if distance > 0.0:
            return reach + distance
        if k == 0:
            v = support
        else:
            edge = support - v
            length_sq = wp.max(wp.length_sq(edge), 1.0e-30)
            v += wp.clamp(-wp.dot(v, edge) / length_sq, 0.0, 1.0) * edge
        k += 1
    return 0.0
