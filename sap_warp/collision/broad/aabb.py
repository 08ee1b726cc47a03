# mypy: disable-error-code="valid-type"
"""World poses of shapes and their axis-aligned bounding boxes (AABBs), equal to those that Newton's pipeline makes."""

import newton
import warp as wp

from ...core.kernels.structs import assume_contiguous
from ...core.kernels.types import Poses
from ...model.shapes import BOX, CAPSULE, CONE, CONVEX_MESH, CYLINDER, ELLIPSOID, HFIELD, MESH, PLANE, SPHERE

KINEMATIC = wp.constant(int(newton.BodyFlags.KINEMATIC))
INFINITE_HALF_SIZE = wp.constant(1.0e6)
"""Half the size that Newton gives an infinite plane [m]."""


@wp.struct
class Shapes:
    """The model's shapes, and the poses and AABBs of those that a pass examines.

    Fields are written for `assume_contiguous`.
    """

    body: wp.array(dtype=wp.int32)
    kind: wp.array(dtype=wp.int32)
    local: wp.array(dtype=wp.transformf)  # pose in the frame of the body
    size: wp.array(dtype=wp.vec3f)
    margin: wp.array(dtype=wp.float32)
    gap: wp.array(dtype=wp.float32)
    local_lower: wp.array(dtype=wp.vec3f)  # of meshes and heightfields, in their own frame [m]
    local_upper: wp.array(dtype=wp.vec3f)
    body_flags: wp.array(dtype=wp.int32)
    source: wp.array(dtype=wp.uint64)  # meshes
    # by shape; valid if `aabb_pass` is the number of this pass
    pose: wp.array(dtype=wp.transformf)  # in world frame
    data: wp.array(dtype=wp.vec4f)  # size and margin, for Newton's narrow phase
    lower: wp.array(dtype=wp.vec3f)  # corners of the AABB, which contains margin and gap, in world frame [m]
    upper: wp.array(dtype=wp.vec3f)
    aabb_pass: wp.array(dtype=wp.int32)


assume_contiguous_shapes = assume_contiguous(Shapes)


@wp.func
def reach_of(shapes: wp.ref[Shapes], i: int) -> float:
    """Bound the distance of the points of shape i from its origin, margin and gap included [m]."""
    kind = shapes.kind[i]
    size = shapes.size[i]
    reach = size[0]  # of a sphere
    if kind != SPHERE:
        if kind == CAPSULE:
            reach = size[0] + wp.abs(size[1])
        elif kind == BOX:
            reach = wp.length(size)
        elif kind == CYLINDER or kind == CONE:
            radius = size[0]
            if size[2] > 0.0:
                radius += size[1]  # a barrel's wall swells by less than its half height
            reach = wp.sqrt(radius * radius + size[1] * size[1])
        elif kind == ELLIPSOID:
            reach = wp.max(size)
        elif kind == PLANE:
            reach = 4.0 * INFINITE_HALF_SIZE
        else:
            reach = wp.length(wp.max(wp.abs(shapes.local_lower[i]), wp.abs(shapes.local_upper[i])))
    return reach + shapes.margin[i] + shapes.gap[i]


@wp.func
def infinite_plane_aabb(normal: wp.vec3f, at: wp.vec3f, skin: float) -> tuple[wp.vec3f, wp.vec3f]:
    """Return the AABB that Newton gives an infinite plane.

    Along an axis to which the normal is closer than 60 degrees, the box ends at the plane.
    """
    lower = at - wp.vec3f(INFINITE_HALF_SIZE + skin)
    upper = at + wp.vec3f(INFINITE_HALF_SIZE + skin)
    for i in range(3):
        steep = wp.abs(normal[i])
        if steep > 0.5:
            aside = wp.abs(normal[(i + 1) % 3]) + wp.abs(normal[(i + 2) % 3])
            rise = aside * INFINITE_HALF_SIZE / steep + skin
            if normal[i] > 0.0:
                upper[i] = wp.min(upper[i], at[i] + rise)
            else:
                lower[i] = wp.max(lower[i], at[i] - rise)
    return lower, upper


@wp.func
def bulge(size: wp.vec3f) -> float:
    """Return how far the wall of a barrel stands out, the height of an arc over a chord [m]; zero for a cylinder."""
    if size[2] >= size[1] and size[2] > 0.0:
        return size[1] * size[1] / (size[2] + wp.sqrt(size[2] * size[2] - size[1] * size[1]))
    return 0.0


@wp.func
def half_extent(kind: int, axis: wp.vec3f, size: wp.vec3f) -> float:
    """Return half the extent of a shape along a world axis, which is given in the frame of the shape [m]."""
    if kind == SPHERE:
        return size[0]
    if kind == CAPSULE:
        return size[0] + wp.abs(axis[2]) * size[1]
    if kind == CYLINDER or kind == CONE:  # a cone gets the box of a cylinder
        return size[0] * wp.sqrt(axis[0] * axis[0] + axis[1] * axis[1]) + size[1] * wp.abs(axis[2])
    if kind == ELLIPSOID:
        return wp.length(wp.cw_mul(axis, size))
    return wp.abs(axis[0]) * size[0] + wp.abs(axis[1]) * size[1] + wp.abs(axis[2]) * size[2]


@wp.func
def update_aabb(shapes: wp.ref[Shapes], i: int, body_q: Poses, pass_number: int) -> None:
    """Write world pose, AABB and Newton's data of shape i, once per pass."""
    if shapes.aabb_pass[i] != pass_number:
        shapes.aabb_pass[i] = pass_number
        pose = shapes.local[i]
        if shapes.body[i] >= 0:
            pose = wp.transform_multiply(body_q[shapes.body[i]], pose)
        shapes.pose[i] = pose
        at = wp.transform_get_translation(pose)
        turn = wp.transform_get_rotation(pose)
        r = wp.matrix_from_cols(  # rounds as Newton does, other than `wp.quat_to_matrix`
            wp.quat_rotate(turn, wp.vec3f(1.0, 0.0, 0.0)),
            wp.quat_rotate(turn, wp.vec3f(0.0, 1.0, 0.0)),
            wp.quat_rotate(turn, wp.vec3f(0.0, 0.0, 1.0)),
        )
        kind = shapes.kind[i]
        size = shapes.size[i]
        skin = shapes.margin[i] + shapes.gap[i]
        is_infinite = kind == PLANE and size[0] == 0.0 and size[1] == 0.0
        if kind == PLANE:
            size = wp.vec3f(0.5 * size[0], 0.5 * size[1], 0.0)
        shapes.data[i] = wp.vec4f(size[0], size[1], size[2], shapes.margin[i])
        if is_infinite:
            lower, upper = infinite_plane_aabb(wp.vec3f(r[0, 2], r[1, 2], r[2, 2]), at, skin)
            shapes.lower[i] = lower
            shapes.upper[i] = upper
        else:
            if kind == MESH or kind == CONVEX_MESH or kind == HFIELD:
                at = wp.quat_rotate(turn, 0.5 * (shapes.local_lower[i] + shapes.local_upper[i])) + at
                size = 0.5 * (shapes.local_upper[i] - shapes.local_lower[i])
            elif kind == CYLINDER:
                size[0] = size[0] + bulge(size)
            half = wp.vec3f()
            k = int(0)
            while k < 3:
                half[k] = half_extent(kind, r[k], size)
                k += 1
            shapes.lower[i] = at - half - wp.vec3f(skin, skin, skin)
            shapes.upper[i] = at + half + wp.vec3f(skin, skin, skin)


@wp.func
def aabbs_overlap(shapes: wp.ref[Shapes], i: int, k: int) -> bool:
    """Return True if the AABBs of both shapes overlap; NaN bounds never do."""
    low0 = shapes.lower[i]
    high0 = shapes.upper[i]
    low1 = shapes.lower[k]
    high1 = shapes.upper[k]
    return (
        low0[0] <= high1[0]
        and high0[0] >= low1[0]
        and low0[1] <= high1[1]
        and high0[1] >= low1[1]
        and low0[2] <= high1[2]
        and high0[2] >= low1[2]
    )


@wp.func
def largest(a: float, b: float, c: float) -> float:
    """Return the maximum of three numbers in two instructions; unlike `wp.max` it has no rule for NaN."""
    ab = wp.where(a > b, a, b)
    return wp.where(ab > c, ab, c)


@wp.func
def aabb_distance(shapes: wp.ref[Shapes], i: int, k: int) -> float:
    """Return the distance of two AABBs along the axis that separates them best [m]; negative if they overlap."""
    away = wp.max(shapes.lower[i] - shapes.upper[k], shapes.lower[k] - shapes.upper[i])
    return largest(away[0], away[1], away[2])


@wp.func
def coordinate_bound(shapes: wp.ref[Shapes], i: int, k: int) -> float:
    """Bound the sizes of two shapes and their distances from the origin, to which rounding is relative [m]."""
    bound = wp.max(wp.abs(shapes.lower[i]), wp.abs(shapes.upper[i])) + wp.max(
        wp.abs(shapes.lower[k]), wp.abs(shapes.upper[k])
    )
    return bound[0] + bound[1] + bound[2]


@wp.func
def may_move(shapes: wp.ref[Shapes], shape: int) -> bool:
    """Return True if forces move the shape's body."""
    body = shapes.body[shape]
    if body < 0:
        return False
    return (shapes.body_flags[body] & KINEMATIC) == 0
