# mypy: disable-error-code="valid-type"
"""Pairs of shapes that are near each other, on the CPU, for `near_pairs` and Newton's narrow phase.

Newton's pipeline places and bounds every shape of the model, visual ones too, and compares shapes pair by pair. Here
whole bodies are compared first. Around each body stands a cube that contains its shapes however the body turns, and
only where two cubes overlap are the shapes placed and looked at one by one. Shapes that belong to no body, fixtures,
stand alone. A box along the axes of the world around a shape, as Newton compares them, lies in the cube, so no pair is
lost here.
"""

from typing import Any

import newton
import numpy as np
import warp as wp

from ..kernels.structs import make_flat
from ..kernels.types import Poses
from .ground import BOX, CAPSULE, CONVEX_MESH, CYLINDER, KINEMATIC, SPHERE
from .normals import PLANE

ELLIPSOID = wp.constant(int(newton.GeoType.ELLIPSOID))
CONE = wp.constant(int(newton.GeoType.CONE))
MESH = wp.constant(int(newton.GeoType.MESH))
HFIELD = wp.constant(int(newton.GeoType.HFIELD))
KNOWN_KINDS = [int(k) for k in (PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH, CONE, CONVEX_MESH)]
"""Kinds of shapes that the functions below bound."""
ENDLESS = wp.constant(1.0e6)
"""Half the size that Newton gives an infinite plane [m]."""
SLACK = wp.constant(1.0e-6)
"""Rounding of positions that cubes allow for, relative to the distance from the origin and to their size."""


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


@wp.struct
class BodyPairs:
    """Bodies with the shapes that move with them, pairs of bodies, and the pairs of shapes in these.

    A fixture counts as a body of its own. Written as ``wp.array(dtype=...)``, which is what `make_flat` looks for.
    """

    count: int  # of bodies
    body: wp.array(dtype=wp.int32)  # the model's number; -1: a fixture
    center: wp.array(dtype=wp.vec3f)  # of the cube, in the frame of the body [m]
    shape_start: wp.array(dtype=wp.int32)  # of the body's shapes in `shape`; one entry more than bodies
    shape: wp.array(dtype=wp.int32)
    cube: wp.array(dtype=wp.vec4f)  # centre in world frame and half the width [m], written by every pass
    partner_start: wp.array(dtype=wp.int32)  # of the bodies that a body may meet, in `partner`
    partner: wp.array(dtype=wp.int32)
    pair_start: wp.array(dtype=wp.int32)  # of the pairs of shapes of two bodies; one entry more than pairs of bodies
    pair: wp.array(dtype=wp.vec2i)  # shapes, in the order of their kinds


@wp.struct
class Candidates:
    """Where a pass lists pairs of shapes, and what it has to remember."""

    near: wp.array(dtype=wp.vec2i)  # whose boxes overlap
    near_count: wp.array(dtype=wp.int32)
    pair: wp.array(dtype=wp.vec2i)  # those of them that are left to Newton's narrow phase
    count: wp.array(dtype=wp.int32)
    pass_number: wp.array(dtype=wp.int32)
    own_rows: wp.array(dtype=wp.int32)  # rows that were written before Newton's


flat_shapes = make_flat(Shapes)
flat_bodies = make_flat(BodyPairs)


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
def place_cubes(b: wp.ref[BodyPairs], s: wp.ref[Shapes], body_q: Poses) -> None:
    """Cubes around all bodies."""
    i = int(0)
    shape_end = b.shape_start[0]
    while i < b.count:
        center = b.center[i]
        half = float(0.0)
        k = int(shape_end)
        shape_end = b.shape_start[i + 1]
        while k < shape_end:
            shape = b.shape[k]
            arm = wp.transform_get_translation(s.local[shape]) - center
            half = wp.max(half, wp.length(arm) + reach_of(s, shape))
            k += 1
        body = b.body[i]
        if body >= 0:
            center = wp.transform_point(body_q[body], center)
        size = half + wp.abs(center[0]) + wp.abs(center[1]) + wp.abs(center[2])
        b.cube[i] = wp.vec4f(center[0], center[1], center[2], half + SLACK * size)
        i += 1


@wp.func
def may_move(s: wp.ref[Shapes], shape: int) -> bool:
    """Whether the shape's body is moved by forces."""
    body = s.body[shape]
    if body < 0:
        return False
    return (s.body_flags[body] & KINEMATIC) == 0


@wp.func
def largest(a: float, b: float, c: float) -> float:
    """Of three numbers, in two instructions: `wp.max` also looks after numbers that are none."""
    d = wp.where(a > b, a, b)
    return wp.where(d > c, d, c)


@wp.func
def meets_fixture(s: wp.ref[Shapes], shape: int, cube: wp.vec4f, body_q: Poses, now: int) -> bool:
    """Whether a cube meets the box around a shape of the world, which may be long and thin."""
    box_shape(s, shape, body_q, now)
    center = wp.vec3f(cube[0], cube[1], cube[2])
    away = wp.max(s.lower[shape] - center, center - s.upper[shape])
    return largest(away[0], away[1], away[2]) <= cube[3]


@wp.func
def boxes_meet(s: wp.ref[Shapes], pair: wp.vec2i, with_kinematic: int, body_q: Poses, now: int) -> bool:
    """Whether one of two shapes can be moved and their boxes overlap."""
    if with_kinematic == 0:
        if not (may_move(s, pair[0]) or may_move(s, pair[1])):
            return False
    k = int(0)
    while k < 2:  # a loop, so that the long function is compiled into one place
        box_shape(s, pair[k], body_q, now)
        k += 1
    return boxes_overlap(s, pair[0], pair[1])


@wp.func
def list_candidates(
    b: wp.ref[BodyPairs], s: wp.ref[Shapes], body_q: Poses, with_kinematic: int, now: int, candidate: wp.array[wp.vec2i]
) -> int:
    """List the pairs of shapes whose boxes overlap and return how many there are."""
    place_cubes(b, s, body_q)
    count = int(0)
    most = candidate.shape[0]
    i = int(0)
    partner_end = b.partner_start[0]
    while i < b.count:
        c = b.cube[i]
        x = c[0]
        y = c[1]
        z = c[2]
        half = c[3]
        k = int(partner_end)
        partner_end = b.partner_start[i + 1]
        while k < partner_end:
            partner = b.partner[k]
            o = b.cube[partner]
            if largest(wp.abs(x - o[0]), wp.abs(y - o[1]), wp.abs(z - o[2])) <= half + o[3]:
                j = b.pair_start[k]
                end = b.pair_start[k + 1]
                if b.body[partner] < 0:
                    if not meets_fixture(s, b.shape[b.shape_start[partner]], c, body_q, now):
                        end = j
                while j < end:
                    pair = b.pair[j]
                    if boxes_meet(s, pair, with_kinematic, body_q, now):
                        if count < most:
                            candidate[count] = pair
                        count += 1
                    j += 1
            k += 1
        i += 1
    return count


def sort_by_body(model: newton.Model, pairs: np.ndarray) -> Any:
    """The `BodyPairs` of ``pairs``."""
    kinds, bodies = model.shape_type.numpy(), model.shape_body.numpy()
    swapped = kinds[pairs[:, 0]] > kinds[pairs[:, 1]]
    pairs = np.where(swapped[:, None], pairs[:, ::-1], pairs)
    # fixtures come first, each as a body of its own
    shapes = np.unique(pairs)
    numbers, owner_of = np.unique(
        np.where(bodies[shapes] < 0, shapes - len(bodies), bodies[shapes]), return_inverse=True
    )
    owner = np.zeros(len(bodies), dtype=np.int64)
    owner[shapes] = owner_of
    members = shapes[np.argsort(owner_of, kind="stable")]
    ends = np.sort(owner[pairs], axis=1)[:, ::-1]  # the later one first: it is never a fixture
    order = np.lexsort((np.arange(len(pairs)), ends[:, 1], ends[:, 0]))
    pairs, ends = pairs[order], ends[order]
    body_pairs, first = np.unique(ends, axis=0, return_index=True)
    count = len(numbers)
    arrays: dict[str, tuple[Any, Any]] = {
        "body": (np.where(numbers < 0, -1, numbers), wp.int32),
        "center": (_centers(model, members, owner[members], count), wp.vec3f),
        "shape_start": (np.searchsorted(owner[members], np.arange(count + 1)), wp.int32),
        "shape": (members, wp.int32),
        "cube": (np.zeros((count, 4)), wp.vec4f),
        "partner_start": (np.searchsorted(body_pairs[:, 0], np.arange(count + 1)), wp.int32),
        "partner": (body_pairs[:, 1], wp.int32),
        "pair_start": (np.append(first, len(pairs)), wp.int32),
        "pair": (pairs, wp.vec2i),
    }
    table: Any = BodyPairs()
    table.count = count
    for name, (values, dtype) in arrays.items():
        setattr(table, name, wp.array(values, dtype=dtype, device=model.device))
    return table


def _centers(model: newton.Model, shapes: np.ndarray, owner: np.ndarray, count: int) -> np.ndarray:
    """The middle of the origins of each body's shapes. Any point would do; this one keeps cubes small."""
    places = model.shape_transform.numpy().reshape(-1, 7)[shapes, :3]
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    np.minimum.at(low, owner, places)
    np.maximum.at(high, owner, places)
    return 0.5 * (low + high)
