"""Contacts between bodies, on the CPU: closed forms at once, the other pairs that are near each other for Newton.

The rows are Newton's: its closed forms, and its narrow phase for all pairs that have none.
"""

import newton
import warp as wp

from .bounds import Shapes, box_shape, boxes_overlap, place_shape, reach_of
from .ground import KINEMATIC, Places
from .groups import CAPSULE_CAPSULE, NEWTON, SPHERE_BOX, SPHERE_CAPSULE, SPHERE_SPHERE, Groups
from .rows import ContactRows

SLACK = wp.constant(1.0e-6)
"""Rounding of positions that cubes allow for, relative to the distance from the origin and to their size."""

BY_NEWTON = wp.constant(NEWTON)
TWO_SPHERES = wp.constant(SPHERE_SPHERE)
SPHERE_AND_CAPSULE = wp.constant(SPHERE_CAPSULE)
SPHERE_AND_BOX = wp.constant(SPHERE_BOX)
TWO_CAPSULES = wp.constant(CAPSULE_CAPSULE)

collide_sphere_sphere = newton.geometry.collide_sphere_sphere
collide_sphere_capsule = newton.geometry.collide_sphere_capsule
collide_sphere_cylinder = newton.geometry.collide_sphere_cylinder
collide_sphere_box = newton.geometry.collide_sphere_box
collide_capsule_capsule = newton.geometry.collide_capsule_capsule


@wp.struct
class Touch:
    """One contact of two shapes, as Newton's closed forms give it."""

    form: int
    shape0: int
    shape1: int
    normal: wp.vec3f  # from shape 0 to shape 1, in world frame
    radius0: float  # of the part around the core that is a sphere or capsule [m]
    radius1: float
    reach: float  # largest distance of a contact [m]


@wp.func
def place_cubes(g: wp.ref[Groups], s: wp.ref[Shapes], count: int, body_q: wp.array[wp.transformf]) -> None:
    """Cubes around all groups."""
    i = int(0)
    shape_end = g.shape_start[0]
    while i < count:
        center = g.center[i]
        half = float(0.0)
        k = int(shape_end)
        shape_end = g.shape_start[i + 1]
        while k < shape_end:
            shape = g.shape[k]
            arm = wp.transform_get_translation(s.local[shape]) - center
            half = wp.max(half, wp.length(arm) + reach_of(s, shape))
            k += 1
        body = g.body[i]
        if body >= 0:
            center = wp.transform_point(body_q[body], center)
        size = half + wp.abs(center[0]) + wp.abs(center[1]) + wp.abs(center[2])
        g.cube[i] = wp.vec4f(center[0], center[1], center[2], half + SLACK * size)
        i += 1


@wp.func
def may_move(s: wp.ref[Shapes], shape: int) -> bool:
    """Whether the shape's body is moved by forces."""
    body = s.body[shape]
    if body < 0:
        return False
    return (s.body_flags[body] & KINEMATIC) == 0


@wp.func
def write_touch(
    rows: wp.ref[ContactRows],
    overrides: int,
    i: int,
    s: wp.ref[Shapes],
    body_q: wp.array[wp.transformf],
    t: wp.ref[Touch],
    middle: wp.vec3f,
    distance: float,
) -> None:
    """Row i: a contact whose surfaces are ``distance`` apart around ``middle`` [m]."""
    n = t.normal
    a = t.shape0
    b = t.shape1
    half = 0.5 * distance
    point0 = middle - (half + t.radius0) * n
    point1 = middle + (half + t.radius1) * n
    margin0 = t.radius0 + s.margin[a]
    margin1 = t.radius1 + s.margin[b]
    rows.shape0[i] = a
    rows.shape1[i] = b
    rows.normal[i] = n
    rows.margin0[i] = margin0
    rows.margin1[i] = margin1
    rows.tids[i] = 0
    if s.body[a] >= 0:
        pose = body_q[s.body[a]]
        turn = wp.transform_get_rotation(pose)
        if t.form == TWO_CAPSULES:
            rows.point0[i] = wp.quat_rotate_inv(turn, point0 - wp.transform_get_translation(pose))
        else:
            rows.point0[i] = wp.transform_get_translation(s.local[a])  # the centre of a sphere does not move
        rows.offset0[i] = margin0 * wp.quat_rotate_inv(turn, n)
    else:
        rows.point0[i] = point0
        rows.offset0[i] = margin0 * n
    if s.body[b] >= 0:
        pose = body_q[s.body[b]]
        turn = wp.transform_get_rotation(pose)
        if t.form == TWO_SPHERES:
            rows.point1[i] = wp.transform_get_translation(s.local[b])
        else:
            rows.point1[i] = wp.quat_rotate_inv(turn, point1 - wp.transform_get_translation(pose))
        rows.offset1[i] = -margin1 * wp.quat_rotate_inv(turn, n)
    else:
        rows.point1[i] = point1
        rows.offset1[i] = -margin1 * n
    if overrides != 0:
        rows.stiffness[i] = float(0.0)
        rows.damping[i] = float(0.0)
        rows.friction[i] = float(0.0)


@wp.func
def add_touch(
    target: wp.ref[ContactRows],
    rest: wp.ref[ContactRows],
    places: wp.ref[Places],
    s: wp.ref[Shapes],
    body_q: wp.array[wp.transformf],
    t: wp.ref[Touch],
    middle: wp.vec3f,
    distance: float,
) -> None:
    """Write the next contact if it is near enough, wherever there is room for it, and count it."""
    if distance <= t.reach:
        i = places.found
        places.found = i + 1
        if i < places.capacity:
            write_touch(target, places.overrides, i, s, body_q, t, middle, distance)
        elif i < places.room:
            write_touch(rest, places.rest_overrides, i, s, body_q, t, middle, distance)


@wp.func
def meet_closed(
    target: wp.ref[ContactRows],
    rest: wp.ref[ContactRows],
    places: wp.ref[Places],
    s: wp.ref[Shapes],
    body_q: wp.array[wp.transformf],
    form: int,
    a: int,
    b: int,
) -> None:
    """Contacts of a pair that has a closed form; its shapes have been placed."""
    t = Touch()
    t.form = form
    t.shape0 = a
    t.shape1 = b
    t.reach = s.margin[a] + s.margin[b] + (s.gap[a] + s.gap[b])
    size0 = s.size[a]
    size1 = s.size[b]
    t.radius0 = size0[0]
    at0 = wp.transform_get_translation(s.pose[a])
    at1 = wp.transform_get_translation(s.pose[b])
    turn1 = wp.transform_get_rotation(s.pose[b])
    up = wp.vec3f(0.0, 0.0, 1.0)
    if form == TWO_SPHERES:
        t.radius1 = size1[0]
        distance, middle, normal = collide_sphere_sphere(at0, size0[0], at1, size1[0])
        t.normal = normal
        add_touch(target, rest, places, s, body_q, t, middle, distance)
    elif form == SPHERE_AND_CAPSULE:
        t.radius1 = size1[0]
        axis = wp.quat_rotate(turn1, up)
        distance, middle, normal = collide_sphere_capsule(at0, size0[0], at1, axis, size1[0], size1[1])
        t.normal = normal
        add_touch(target, rest, places, s, body_q, t, middle, distance)
    elif form == TWO_CAPSULES:
        t.radius1 = size1[0]
        axis0 = wp.quat_rotate(wp.transform_get_rotation(s.pose[a]), up)
        axis1 = wp.quat_rotate(turn1, up)
        two, middles, normal = collide_capsule_capsule(at0, axis0, size0[0], size0[1], at1, axis1, size1[0], size1[1])
        t.normal = normal
        add_touch(target, rest, places, s, body_q, t, wp.vec3f(middles[0, 0], middles[0, 1], middles[0, 2]), two[0])
        add_touch(target, rest, places, s, body_q, t, wp.vec3f(middles[1, 0], middles[1, 1], middles[1, 2]), two[1])
    elif form == SPHERE_AND_BOX:
        t.radius1 = 0.0
        distance, middle, normal = collide_sphere_box(at0, size0[0], at1, wp.quat_to_matrix(turn1), size1)
        t.normal = normal
        add_touch(target, rest, places, s, body_q, t, middle, distance)
    else:
        t.radius1 = 0.0
        axis = wp.quat_rotate(turn1, up)
        distance, middle, normal = collide_sphere_cylinder(at0, size0[0], at1, axis, size1[0], size1[1])
        t.normal = normal
        add_touch(target, rest, places, s, body_q, t, middle, distance)


@wp.func
def largest(a: float, b: float, c: float) -> float:
    """Of three numbers, in two instructions: `wp.max` also looks after numbers that are none."""
    d = wp.where(a > b, a, b)
    return wp.where(d > c, d, c)


@wp.func
def meets_fixture(s: wp.ref[Shapes], shape: int, cube: wp.vec4f, body_q: wp.array[wp.transformf], now: int) -> bool:
    """Whether a cube meets the box around a shape of the world, which may be long and thin."""
    box_shape(s, shape, body_q, now)
    lower = s.lower[shape]
    upper = s.upper[shape]
    return (
        lower[0] - cube[0] <= cube[3]
        and cube[0] - upper[0] <= cube[3]
        and lower[1] - cube[1] <= cube[3]
        and cube[1] - upper[1] <= cube[3]
        and lower[2] - cube[2] <= cube[3]
        and cube[2] - upper[2] <= cube[3]
    )


@wp.func
def meet_groups(
    g: wp.ref[Groups],
    s: wp.ref[Shapes],
    group_count: int,
    body_q: wp.array[wp.transformf],
    with_kinematic: int,
    now: int,
    places: wp.ref[Places],
    target: wp.ref[ContactRows],
    rest: wp.ref[ContactRows],
    candidate: wp.array[wp.vec2i],
) -> int:
    """Write the contacts of pairs with a closed form; list those for Newton and return how many these are."""
    place_cubes(g, s, group_count, body_q)
    candidates = int(0)
    most = candidate.shape[0]
    i = int(0)
    partner_end = g.partner_start[0]
    while i < group_count:
        c = g.cube[i]
        x = c[0]
        y = c[1]
        z = c[2]
        half = c[3]
        k = int(partner_end)
        partner_end = g.partner_start[i + 1]
        while k < partner_end:
            partner = g.partner[k]
            o = g.cube[partner]
            if largest(wp.abs(x - o[0]), wp.abs(y - o[1]), wp.abs(z - o[2])) <= half + o[3]:
                j = g.pair_start[k]
                end = g.pair_start[k + 1]
                if g.body[partner] < 0:
                    if not meets_fixture(s, g.shape[g.shape_start[partner]], c, body_q, now):
                        end = j
                while j < end:
                    pair = g.pair[j]
                    a = pair[0]
                    b = pair[1]
                    moves = int(with_kinematic)
                    if moves == 0:
                        moves = wp.where(may_move(s, a) or may_move(s, b), 1, 0)
                    if moves != 0:
                        form = g.form[j]
                        if form == BY_NEWTON:
                            box_shape(s, a, body_q, now)
                            box_shape(s, b, body_q, now)
                            if boxes_overlap(s, a, b):
                                if candidates < most:
                                    candidate[candidates] = pair
                                candidates += 1
                        else:
                            place_shape(s, a, body_q, now)
                            place_shape(s, b, body_q, now)
                            meet_closed(target, rest, places, s, body_q, form, a, b)
                    j += 1
            k += 1
        i += 1
    return candidates
