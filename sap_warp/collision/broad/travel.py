# mypy: disable-error-code="valid-type"
"""How far bodies have travelled, so that pairs that are far apart need not be looked at in every pass.

A pair of shapes that is a distance apart cannot touch before its bodies have travelled as far together. So each body
has a way: the sum of the largest displacements that its shapes can have had from pass to pass. When a pair is found to
be apart, the sum of the ways of both bodies at which it can touch at the earliest is written down, and until then the
pair is left out.

No contact depends on it. Poses are compared with those of the pass before, wherever they come from: after a reset, or
for another state, a body has made a long way. So it has when one of its shapes is moved, scaled or exchanged; those are
compared too. A number that is none is a long way.
"""

from typing import Any

import warp as wp

from ...core.kernels.structs import make_flat
from ...core.kernels.types import Poses
from .aabb import BOX, CAPSULE, SPHERE, Shapes, reach_of

JUMP = wp.constant(wp.float64(100.0))
"""A way after which every pair has to be looked at [m]."""
LONGEST = wp.constant(50.0)
"""The longest way after which a pair has to be looked at [m]."""
ROUNDING = wp.constant(4.0e-6)
"""Rounding that distances allow for, relative to the sizes of both shapes and to their distance from the origin."""


@wp.struct
class Travel:
    """What is remembered of bodies and their shapes, and when to look at pairs; numbered as in `BodyPairs`.

    Written as ``wp.array(dtype=...)``, which is what `make_flat` looks for.
    """

    half: wp.array(dtype=wp.float32)  # of the width of the cube around a body, without rounding [m]
    reach: wp.array(dtype=wp.float32)  # largest distance of a point of the body's shapes from its origin [m]
    pose: wp.array(dtype=wp.transformf)  # of the body in the last pass
    way: wp.array(dtype=wp.float64)  # that a body has made [m]
    local: wp.array(dtype=wp.transformf)  # of the shapes: what `Shapes` said in the last pass
    size: wp.array(dtype=wp.vec3f)
    skin: wp.array(dtype=wp.vec2f)  # margin and gap
    local_lower: wp.array(dtype=wp.vec3f)
    local_upper: wp.array(dtype=wp.vec3f)
    source: wp.array(dtype=wp.uint64)
    bodies_at: wp.array(dtype=wp.float64)  # sum of both ways at which a pair of bodies has to be looked at
    shapes_at: wp.array(dtype=wp.float64)  # ... and a pair of shapes


flat_travel = make_flat(Travel)


@wp.func
def change(a: wp.vec3f, b: wp.vec3f) -> float:
    """Zero if two vectors are equal; positive, or no number, if not."""
    return wp.abs(a[0] - b[0]) + wp.abs(a[1] - b[1]) + wp.abs(a[2] - b[2])


@wp.func
def is_as_before(t: wp.ref[Travel], k: int, s: wp.ref[Shapes], shape: int) -> bool:
    """Whether a shape, which is entry k of the list, is as it was in the last pass.

    Differences are summed up and looked at once: a branch for each number takes longer.
    """
    local = s.local[shape]
    last = t.local[k]
    turn = wp.transform_get_rotation(local)
    last_turn = wp.transform_get_rotation(last)
    sum = change(wp.transform_get_translation(local), wp.transform_get_translation(last))
    sum += wp.abs(turn[0] - last_turn[0]) + wp.abs(turn[1] - last_turn[1])
    sum += wp.abs(turn[2] - last_turn[2]) + wp.abs(turn[3] - last_turn[3])
    sum += wp.abs(s.margin[shape] - t.skin[k][0]) + wp.abs(s.gap[shape] - t.skin[k][1])
    sum += change(s.size[shape], t.size[k])
    kind = s.kind[shape]
    if kind != SPHERE and kind != CAPSULE and kind != BOX:
        sum += change(s.local_lower[shape], t.local_lower[k]) + change(s.local_upper[shape], t.local_upper[k])
        if s.source[shape] != t.source[k]:
            return False
    return sum == 0.0


@wp.func
def remember_shape(t: wp.ref[Travel], k: int, s: wp.ref[Shapes], shape: int) -> None:
    """Write down how a shape is."""
    t.local[k] = s.local[shape]
    t.size[k] = s.size[shape]
    t.skin[k] = wp.vec2f(s.margin[shape], s.gap[shape])
    t.local_lower[k] = s.local_lower[shape]
    t.local_upper[k] = s.local_upper[shape]
    t.source[k] = s.source[shape]


@wp.func
def pose_change(t: wp.ref[Travel], i: int, pose: wp.transformf) -> wp.float64:
    """The way of body i from its last pose to ``pose``: at least that of each point of its shapes [m].

    Two unit quaternions that are d apart turn a point by at most 2 d times its distance from the origin.
    """
    last = t.pose[i]
    move = wp.transform_get_translation(pose) - wp.transform_get_translation(last)
    turn = wp.transform_get_rotation(pose) - wp.transform_get_rotation(last)
    t.pose[i] = pose
    way = wp.float64(wp.length(move) + 2.0 * t.reach[i] * wp.length(turn))
    return wp.where(way < JUMP, way, JUMP)  # also if it is no number


@wp.func
def follow(t: wp.ref[Travel], i: int, body: int, is_new: bool, body_q: Poses) -> None:
    """Add to the way of body i, which has this number in the model, or is a fixture: -1."""
    way = wp.float64(0.0)
    if body >= 0:
        way = pose_change(t, i, body_q[body])
    t.way[i] += wp.where(is_new, JUMP, way)


@wp.func
def measure_body(t: wp.ref[Travel], i: int, s: wp.ref[Shapes], shape: int, center: wp.vec3f) -> None:
    """Make the bounds of body i hold for one more shape; ``center`` is that of its cube, in the frame of the body."""
    at = wp.transform_get_translation(s.local[shape])
    reach = reach_of(s, shape)
    t.half[i] = wp.max(t.half[i], wp.length(at - center) + reach)
    t.reach[i] = wp.max(t.reach[i], wp.length(at) + reach)


@wp.func
def next_look(ways: wp.float64, distance: float, size: float) -> wp.float64:
    """Sum of two ways at which a pair has to be looked at again that is now at a distance [m], beyond its reach.

    ``size`` bounds both shapes' sizes and distances from the origin. ``ways`` itself means: in the next pass.
    """
    left = distance - ROUNDING * size
    if left > 0.0:
        return ways + wp.float64(wp.min(left, LONGEST))
    return ways


def make_travel(bodies: int, shapes: int, body_pairs: int, shape_pairs: int, device: Any) -> Any:
    """The `Travel` of so many bodies and pairs, which have to be looked at first."""
    counts = dict.fromkeys(("half", "reach", "pose", "way"), bodies)
    counts |= {"bodies_at": body_pairs, "shapes_at": shape_pairs}
    table: Any = Travel()
    for name, variable in table._cls.vars.items():
        setattr(table, name, wp.zeros(counts.get(name, shapes), dtype=variable.type.dtype, device=device))
    table.skin.fill_(-1.0e30)  # as no shape has it: all are new to the first pass
    return table
