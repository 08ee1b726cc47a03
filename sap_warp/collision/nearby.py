"""Pairs of shapes on different bodies that are near each other, on the CPU, for Newton's narrow phase."""

import warp as wp

from .bounds import Shapes, box_shape, boxes_overlap, reach_of
from .ground import KINEMATIC
from .groups import Groups

SLACK = wp.constant(1.0e-6)
"""Rounding of positions that cubes allow for, relative to the distance from the origin and to their size."""


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
    candidate: wp.array[wp.vec2i],
) -> int:
    """List the pairs of shapes whose boxes overlap and return how many there are."""
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
                        box_shape(s, a, body_q, now)
                        box_shape(s, b, body_q, now)
                        if boxes_overlap(s, a, b):
                            if candidates < most:
                                candidate[candidates] = pair
                            candidates += 1
                    j += 1
            k += 1
        i += 1
    return candidates
