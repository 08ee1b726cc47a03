# mypy: disable-error-code="valid-type"
"""Where shapes are and the boxes around them, along the axes of the world: those that Newton's pipeline works out."""

import newton
import warp as wp

from ...core.kernels.structs import make_flat
from ...core.kernels.types import Poses

PLANE = wp.constant(int(newton.GeoType.PLANE))
SPHERE = wp.constant(int(newton.GeoType.SPHERE))
CAPSULE = wp.constant(int(newton.GeoType.CAPSULE))
BOX = wp.constant(int(newton.GeoType.BOX))
CYLINDER = wp.constant(int(newton.GeoType.CYLINDER))
CONVEX_MESH = wp.constant(int(newton.GeoType.CONVEX_MESH))
ELLIPSOID = wp.constant(int(newton.GeoType.ELLIPSOID))
CONE = wp.constant(int(newton.GeoType.CONE))
MESH = wp.constant(int(newton.GeoType.MESH))
HFIELD = wp.constant(int(newton.GeoType.HFIELD))
KINEMATIC = wp.constant(int(newton.BodyFlags.KINEMATIC))
KNOWN_KINDS = [int(k) for k in (PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH, CONE, CONVEX_MESH)]
"""Kinds of shapes that the functions below bound."""
ENDLESS = wp.constant(1.0e6)
"""Half the size that Newton gives an infinite plane [m]."""


@wp.struct
class Shapes:
    """The model's shapes, and what a pass works out of those that it looks at closely.

    Written as ``wp.array(dtype=...)``, which is what `make_flat` looks for.
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
    # by shape; valid if the number of the pass stands in `boxed`
    pose: wp.array(dtype=wp.transformf)  # in world frame
    data: wp.array(dtype=wp.vec4f)  # size and margin, for Newton's narrow phase
    lower: wp.array(dtype=wp.vec3f)  # corners of the box around shape, margin and gap, in world frame
    upper: wp.array(dtype=wp.vec3f)
    boxed: wp.array(dtype=wp.int32)


flat_shapes = make_flat(Shapes)


@wp.func
def reach_of(s: wp.ref[Shapes], i: int) -> float:
    """Largest distance of a point of shape i, widened by margin and gap, from its origin [m]."""
    kind = s.kind[i]
    size = s.size[i]
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
            reach = 4.0 * ENDLESS
        else:
            reach = wp.length(wp.max(wp.abs(s.local_lower[i]), wp.abs(s.local_upper[i])))
    return reach + s.margin[i] + s.gap[i]


@wp.func
def endless_plane(normal: wp.vec3f, at: wp.vec3f, skin: float) -> tuple[wp.vec3f, wp.vec3f]:
    """Corners of the box that Newton puts around an infinite plane: cut where its normal points up, down or aside."""
    lower = at - wp.vec3f(ENDLESS + skin)
    upper = at + wp.vec3f(ENDLESS + skin)
    for i in range(3):
        steep = wp.abs(normal[i])
        if steep > 0.5:
            aside = wp.abs(normal[(i + 1) % 3]) + wp.abs(normal[(i + 2) % 3])
            rise = aside * ENDLESS / steep + skin
            if normal[i] > 0.0:
                upper[i] = wp.min(upper[i], at[i] + rise)
            else:
                lower[i] = wp.max(lower[i], at[i] - rise)
    return lower, upper


@wp.func
def bulge(size: wp.vec3f) -> float:
    """How far the wall of a barrel stands out: the height of an arc over a chord. Zero for other cylinders."""
    if size[2] >= size[1] and size[2] > 0.0:
        return size[1] * size[1] / (size[2] + wp.sqrt(size[2] * size[2] - size[1] * size[1]))
    return 0.0


@wp.func
def half_extent(kind: int, axis: wp.vec3f, size: wp.vec3f) -> float:
    """Half the extent of a shape along an axis of the world, which is given in the frame of the shape [m]."""
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
def box_shape(s: wp.ref[Shapes], i: int, body_q: Poses, now: int) -> None:
    """World pose, bounding box and Newton's data of shape i, once in a pass."""
    if s.boxed[i] != now:
        s.boxed[i] = now
        pose = s.local[i]
        if s.body[i] >= 0:
            pose = wp.transform_multiply(body_q[s.body[i]], pose)
        s.pose[i] = pose
        at = wp.transform_get_translation(pose)
        turn = wp.transform_get_rotation(pose)
        r = wp.matrix_from_cols(  # not rounded as by `wp.quat_to_matrix`: Newton works out boxes in this way
            wp.quat_rotate(turn, wp.vec3f(1.0, 0.0, 0.0)),
            wp.quat_rotate(turn, wp.vec3f(0.0, 1.0, 0.0)),
            wp.quat_rotate(turn, wp.vec3f(0.0, 0.0, 1.0)),
        )
        kind = s.kind[i]
        size = s.size[i]
        skin = s.margin[i] + s.gap[i]
        endless = kind == PLANE and size[0] == 0.0 and size[1] == 0.0
        if kind == PLANE:
            size = wp.vec3f(0.5 * size[0], 0.5 * size[1], 0.0)
        s.data[i] = wp.vec4f(size[0], size[1], size[2], s.margin[i])
        if endless:
            lower, upper = endless_plane(wp.vec3f(r[0, 2], r[1, 2], r[2, 2]), at, skin)
            s.lower[i] = lower
            s.upper[i] = upper
        else:
            if kind == MESH or kind == CONVEX_MESH or kind == HFIELD:
                at = wp.quat_rotate(turn, 0.5 * (s.local_lower[i] + s.local_upper[i])) + at
                size = 0.5 * (s.local_upper[i] - s.local_lower[i])
            elif kind == CYLINDER:
                size[0] = size[0] + bulge(size)
            half = wp.vec3f()
            k = int(0)
            while k < 3:
                half[k] = half_extent(kind, r[k], size)
                k += 1
            s.lower[i] = at - half - wp.vec3f(skin, skin, skin)
            s.upper[i] = at + half + wp.vec3f(skin, skin, skin)


@wp.func
def boxes_overlap(s: wp.ref[Shapes], i: int, k: int) -> bool:
    """Whether the boxes of two shapes do; not if a number is none."""
    a = s.lower[i]
    b = s.upper[i]
    c = s.lower[k]
    d = s.upper[k]
    return a[0] <= d[0] and b[0] >= c[0] and a[1] <= d[1] and b[1] >= c[1] and a[2] <= d[2] and b[2] >= c[2]


@wp.func
def largest(a: float, b: float, c: float) -> float:
    """Of three numbers, in two instructions: `wp.max` also looks after numbers that are none."""
    d = wp.where(a > b, a, b)
    return wp.where(d > c, d, c)


@wp.func
def box_distance(s: wp.ref[Shapes], i: int, k: int) -> float:
    """How far apart the boxes of two shapes are along the axis that separates them best [m]; negative: they overlap."""
    a = wp.max(s.lower[i] - s.upper[k], s.lower[k] - s.upper[i])
    return largest(a[0], a[1], a[2])


@wp.func
def boxes_size(s: wp.ref[Shapes], i: int, k: int) -> float:
    """A bound of the sizes of two shapes and of their distances from the origin [m]."""
    a = wp.max(wp.abs(s.lower[i]), wp.abs(s.upper[i])) + wp.max(wp.abs(s.lower[k]), wp.abs(s.upper[k]))
    return a[0] + a[1] + a[2]


@wp.func
def may_move(s: wp.ref[Shapes], shape: int) -> bool:
    """Whether the shape's body is moved by forces."""
    body = s.body[shape]
    if body < 0:
        return False
    return (s.body_flags[body] & KINEMATIC) == 0
