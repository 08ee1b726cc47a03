# mypy: disable-error-code="valid-type"
"""Distances that bodies have travelled, so that pairs that are far apart need not be tested in every pass.

Two shapes that are a distance apart cannot touch before their bodies have travelled that distance together. So each
body has a travelled distance: the sum of the largest displacements that its shapes can have had from pass to pass. When
a pair is found to be apart, the sum of both travelled distances at which it can touch at the earliest is stored, and
the pair is skipped until then.

No contact depends on it. Poses are compared with those of the previous pass, wherever they come from: after a reset, or
for another state, a body has travelled far. It has also travelled far if one of its shapes was moved, scaled or
replaced; shapes are compared too. NaN counts as far.
"""

from typing import Any

import warp as wp

from ...core.kernels.structs import assume_contiguous
from ...core.kernels.types import Poses
from ...model.shapes import BOX, CAPSULE, SPHERE
from .aabb import Shapes, reach_of

JUMP = wp.constant(wp.float64(100.0))
"""A travelled distance after which every pair must be tested [m]."""
LONGEST = wp.constant(50.0)
"""The longest travelled distance after which a pair must be tested again [m]."""
ROUNDING = wp.constant(4.0e-6)
"""Allowance for rounding, relative to the sizes of both shapes and to their distances from the origin."""


@wp.struct
class Travel:
    """Bodies and shapes as the last pass saw them, and when pairs must be tested; numbered as in `BodyPairs`.

    Fields are written for `assume_contiguous`.
    """

    half: wp.array(dtype=wp.float32)  # half the width of the cube around a body, without rounding [m]
    reach: wp.array(dtype=wp.float32)  # largest distance of a point of the body's shapes from its origin [m]
    pose: wp.array(dtype=wp.transformf)  # of the body in the last pass
    travelled: wp.array(dtype=wp.float64)  # distance of a body so far [m]
    local: wp.array(dtype=wp.transformf)  # by shape: the entries of `Shapes` in the last pass
    size: wp.array(dtype=wp.vec3f)
    skin: wp.array(dtype=wp.vec2f)  # margin and gap
    local_lower: wp.array(dtype=wp.vec3f)
    local_upper: wp.array(dtype=wp.vec3f)
    source: wp.array(dtype=wp.uint64)
    body_test_at: wp.array(dtype=wp.float64)  # sum of both travelled distances at which to test a pair of bodies [m]
    shape_test_at: wp.array(dtype=wp.float64)  # ... and a pair of shapes


assume_contiguous_travel = assume_contiguous(Travel)


@wp.func
def l1_distance(a: wp.vec3f, b: wp.vec3f) -> float:
    """Return the L1 distance of two vectors; NaN if either has one."""
    return wp.abs(a[0] - b[0]) + wp.abs(a[1] - b[1]) + wp.abs(a[2] - b[2])


@wp.func
def is_unchanged(travel: wp.ref[Travel], k: int, shapes: wp.ref[Shapes], shape: int) -> bool:
    """Return True if a shape, which is entry k of the list, is as it was in the last pass.

    Differences are summed up and compared with zero once: a branch for each number takes longer.
    """
    local = shapes.local[shape]
    last = travel.local[k]
    turn = wp.transform_get_rotation(local)
    last_turn = wp.transform_get_rotation(last)
    sum = l1_distance(wp.transform_get_translation(local), wp.transform_get_translation(last))
    sum += wp.abs(turn[0] - last_turn[0]) + wp.abs(turn[1] - last_turn[1])
    sum += wp.abs(turn[2] - last_turn[2]) + wp.abs(turn[3] - last_turn[3])
    sum += wp.abs(shapes.margin[shape] - travel.skin[k][0]) + wp.abs(shapes.gap[shape] - travel.skin[k][1])
    sum += l1_distance(shapes.size[shape], travel.size[k])
    kind = shapes.kind[shape]
    if kind != SPHERE and kind != CAPSULE and kind != BOX:
        sum += l1_distance(shapes.local_lower[shape], travel.local_lower[k]) + l1_distance(
            shapes.local_upper[shape], travel.local_upper[k]
        )
        if shapes.source[shape] != travel.source[k]:
            return False
    return sum == 0.0


@wp.func
def store_shape(travel: wp.ref[Travel], k: int, shapes: wp.ref[Shapes], shape: int) -> None:
    """Store the properties of a shape as entry k of the list."""
    travel.local[k] = shapes.local[shape]
    travel.size[k] = shapes.size[shape]
    travel.skin[k] = wp.vec2f(shapes.margin[shape], shapes.gap[shape])
    travel.local_lower[k] = shapes.local_lower[shape]
    travel.local_upper[k] = shapes.local_upper[shape]
    travel.source[k] = shapes.source[shape]


@wp.func
def displacement_bound(travel: wp.ref[Travel], i: int, pose: wp.transformf) -> wp.float64:
    """Bound the displacement of the points of body i's shapes since the last pass, and store its pose [m].

    Two unit quaternions that are d apart turn a point by at most 2 d times its distance from the origin.
    """
    last = travel.pose[i]
    move = wp.transform_get_translation(pose) - wp.transform_get_translation(last)
    turn = wp.transform_get_rotation(pose) - wp.transform_get_rotation(last)
    travel.pose[i] = pose
    distance = wp.float64(wp.length(move) + 2.0 * travel.reach[i] * wp.length(turn))
    return wp.where(distance < JUMP, distance, JUMP)  # also if it is NaN


@wp.func
def update_travel(travel: wp.ref[Travel], i: int, body: int, is_new: bool, body_q: Poses) -> None:
    """Add to the travelled distance of body i; ``body`` is its number in the model, -1 for a fixture."""
    distance = wp.float64(0.0)
    if body >= 0:
        distance = displacement_bound(travel, i, body_q[body])
    travel.travelled[i] += wp.where(is_new, JUMP, distance)


@wp.func
def extend_bounds(travel: wp.ref[Travel], i: int, shapes: wp.ref[Shapes], shape: int, center: wp.vec3f) -> None:
    """Extend the bounds of body i to contain a shape; ``center`` is that of its cube, in the frame of the body [m]."""
    at = wp.transform_get_translation(shapes.local[shape])
    reach = reach_of(shapes, shape)
    travel.half[i] = wp.max(travel.half[i], wp.length(at - center) + reach)
    travel.reach[i] = wp.max(travel.reach[i], wp.length(at) + reach)


@wp.func
def next_test_travel(travelled: wp.float64, distance: float, size: float) -> wp.float64:
    """Return the combined travel of both bodies at which a pair, now ``distance`` beyond contact, must be tested [m].

    ``travelled`` is their combined travel now; if it is returned, the next pass tests the pair. ``size`` bounds both
    shapes' sizes and distances from the origin, see `coordinate_bound`.
    """
    left = distance - ROUNDING * size
    if left > 0.0:
        return travelled + wp.float64(wp.min(left, LONGEST))
    return travelled


def make_travel(bodies: int, shapes: int, body_pairs: int, shape_pairs: int, device: Any) -> Any:
    """Allocate the `Travel` of so many bodies and pairs; the first pass tests all of them."""
    counts = dict.fromkeys(("half", "reach", "pose", "travelled"), bodies)
    counts |= {"body_test_at": body_pairs, "shape_test_at": shape_pairs}
    table: Any = Travel()
    for name, variable in table._cls.vars.items():
        setattr(table, name, wp.zeros(counts.get(name, shapes), dtype=variable.type.dtype, device=device))
    table.skin.fill_(-1.0e30)  # no shape has this value: all are new to the first pass
    return table
