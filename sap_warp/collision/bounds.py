# mypy: disable-error-code="valid-type"
"""How far shapes reach: around their origin in any direction, and along the axes of the world."""

import newton
import warp as wp

from ..kernels.structs import make_flat

PLANE = wp.constant(int(newton.GeoType.PLANE))
SPHERE = wp.constant(int(newton.GeoType.SPHERE))
CAPSULE = wp.constant(int(newton.GeoType.CAPSULE))
ELLIPSOID = wp.constant(int(newton.GeoType.ELLIPSOID))
CYLINDER = wp.constant(int(newton.GeoType.CYLINDER))
BOX = wp.constant(int(newton.GeoType.BOX))
CONE = wp.constant(int(newton.GeoType.CONE))
MESH = wp.constant(int(newton.GeoType.MESH))
CONVEX_MESH = wp.constant(int(newton.GeoType.CONVEX_MESH))
HFIELD = wp.constant(int(newton.GeoType.HFIELD))
ENDLESS = wp.constant(1.0e6)
"""Half the size that Newton gives an infinite plane [m]."""

_T = newton.GeoType
KNOWN_KINDS = [
    int(kind)
    for kind in (
        _T.PLANE,
        _T.HFIELD,
        _T.SPHERE,
        _T.CAPSULE,
        _T.ELLIPSOID,
        _T.CYLINDER,
        _T.BOX,
        _T.MESH,
        _T.CONE,
        _T.CONVEX_MESH,
    )
]
"""Kinds of shapes that the functions below bound."""


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
    # by shape; valid if the number of the pass stands in `posed` or `boxed`
    pose: wp.array(dtype=wp.transformf)  # in world frame
    data: wp.array(dtype=wp.vec4f)  # size and margin, for Newton's narrow phase
    lower: wp.array(dtype=wp.vec3f)  # corners of the box around shape, margin and gap, in world frame
    upper: wp.array(dtype=wp.vec3f)
    posed: wp.array(dtype=wp.int32)
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
def place_shape(s: wp.ref[Shapes], i: int, body_q: wp.array[wp.transformf], now: int) -> None:
    """World pose of shape i, once in a pass."""
    if s.posed[i] != now:
        s.posed[i] = now
        pose = s.local[i]
        if s.body[i] >= 0:
            pose = wp.transform_multiply(body_q[s.body[i]], pose)
        s.pose[i] = pose


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
def turned_box(r: wp.mat33f, half: wp.vec3f) -> wp.vec3f:
    """Half the extents of a turned box along the axes of the world [m]."""
    return wp.vec3f(
        wp.abs(r[0, 0]) * half[0] + wp.abs(r[0, 1]) * half[1] + wp.abs(r[0, 2]) * half[2],
        wp.abs(r[1, 0]) * half[0] + wp.abs(r[1, 1]) * half[1] + wp.abs(r[1, 2]) * half[2],
        wp.abs(r[2, 0]) * half[0] + wp.abs(r[2, 1]) * half[1] + wp.abs(r[2, 2]) * half[2],
    )


@wp.func
def bulge(size: wp.vec3f) -> float:
    """How far the wall of a barrel stands out: the height of an arc over a chord. Zero for other cylinders."""
    if size[2] >= size[1] and size[2] > 0.0:
        return size[1] * size[1] / (size[2] + wp.sqrt(size[2] * size[2] - size[1] * size[1]))
    return 0.0


@wp.func
def half_extents(kind: int, r: wp.mat33f, size: wp.vec3f) -> wp.vec3f:
    """Half the extents of a shape that lies evenly around its origin, along the axes of the world [m]."""
    if kind == SPHERE:
        return wp.vec3f(size[0], size[0], size[0])
    if kind == CAPSULE:
        return wp.vec3f(
            size[0] + wp.abs(r[0, 2]) * size[1],
            size[0] + wp.abs(r[1, 2]) * size[1],
            size[0] + wp.abs(r[2, 2]) * size[1],
        )
    if kind == CYLINDER or kind == CONE:  # a cone gets the room of a cylinder
        radius = size[0]
        if kind == CYLINDER:
            radius += bulge(size)
        return wp.vec3f(
            radius * wp.sqrt(r[0, 0] * r[0, 0] + r[0, 1] * r[0, 1]) + size[1] * wp.abs(r[0, 2]),
            radius * wp.sqrt(r[1, 0] * r[1, 0] + r[1, 1] * r[1, 1]) + size[1] * wp.abs(r[1, 2]),
            radius * wp.sqrt(r[2, 0] * r[2, 0] + r[2, 1] * r[2, 1]) + size[1] * wp.abs(r[2, 2]),
        )
    if kind == ELLIPSOID:
        return wp.vec3f(
            wp.length(wp.cw_mul(wp.vec3f(r[0, 0], r[0, 1], r[0, 2]), size)),
            wp.length(wp.cw_mul(wp.vec3f(r[1, 0], r[1, 1], r[1, 2]), size)),
            wp.length(wp.cw_mul(wp.vec3f(r[2, 0], r[2, 1], r[2, 2]), size)),
        )
    if kind == PLANE:
        return turned_box(r, wp.vec3f(0.5 * size[0], 0.5 * size[1], 0.0))
    return turned_box(r, size)


@wp.func
def box_shape(s: wp.ref[Shapes], i: int, body_q: wp.array[wp.transformf], now: int) -> None:
    """World pose, bounding box and Newton's data of shape i, once in a pass."""
    if s.boxed[i] != now:
        s.boxed[i] = now
        place_shape(s, i, body_q, now)
        kind = s.kind[i]
        size = s.size[i]
        margin = s.margin[i]
        skin = margin + s.gap[i]
        at = wp.transform_get_translation(s.pose[i])
        turn = wp.transform_get_rotation(s.pose[i])
        r = wp.matrix_from_cols(  # not rounded as in `wp.quat_to_matrix`: Newton works out boxes in this way
            wp.quat_rotate(turn, wp.vec3f(1.0, 0.0, 0.0)),
            wp.quat_rotate(turn, wp.vec3f(0.0, 1.0, 0.0)),
            wp.quat_rotate(turn, wp.vec3f(0.0, 0.0, 1.0)),
        )
        data = wp.vec4f(size[0], size[1], size[2], margin)
        if kind == PLANE and size[0] == 0.0 and size[1] == 0.0:
            lower, upper = endless_plane(wp.vec3f(r[0, 2], r[1, 2], r[2, 2]), at, skin)
            s.lower[i] = lower
            s.upper[i] = upper
        else:
            half = wp.vec3f()
            if kind == MESH or kind == CONVEX_MESH or kind == HFIELD:
                at = wp.quat_rotate(turn, 0.5 * (s.local_lower[i] + s.local_upper[i])) + at
                half = turned_box(r, 0.5 * (s.local_upper[i] - s.local_lower[i]))
            else:
                half = half_extents(kind, r, size)
            if kind == PLANE:
                data = wp.vec4f(0.5 * size[0], 0.5 * size[1], 0.0, margin)
            s.lower[i] = at - half - wp.vec3f(skin, skin, skin)
            s.upper[i] = at + half + wp.vec3f(skin, skin, skin)
        s.data[i] = data


@wp.func
def boxes_overlap(s: wp.ref[Shapes], i: int, k: int) -> bool:
    """Whether the boxes of two shapes do; not if a number is none."""
    a = s.lower[i]
    b = s.upper[i]
    c = s.lower[k]
    d = s.upper[k]
    return a[0] <= d[0] and b[0] >= c[0] and a[1] <= d[1] and b[1] >= c[1] and a[2] <= d[2] and b[2] >= c[2]
