# mypy: disable-error-code="valid-type"
"""Pairs of shapes that are near each other, on the CPU, for our own and Newton's narrow phase.

Newton's pipeline computes pose and AABB of every shape of the model, visual ones too, and compares shapes pair by pair.
Here whole bodies are compared first. Each body has a cube that contains its shapes however the body turns, and only
where two cubes overlap are AABBs of shapes computed and compared. Shapes that belong to no body, fixtures, are bodies
of their own. The AABB of a shape, which Newton compares, lies in the cube, so no pair is lost here. Pairs that are
apart are skipped until their bodies have travelled far enough (`travel`).
"""

from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.structs import assume_contiguous
from ...core.kernels.types import Poses
from .aabb import Shapes, aabb_distance, aabbs_overlap, coordinate_bound, largest, may_move, update_aabb
from .travel import Travel, extend_bounds, is_unchanged, make_travel, next_test_travel, store_shape, update_travel

SLACK = wp.constant(1.0e-6)
"""Allowance of cubes for rounding of positions, relative to their size and distance from the origin."""


@wp.struct
class BodyPairs:
    """Bodies with the shapes that move with them, pairs of bodies, and the pairs of shapes in these.

    A fixture counts as a body of its own. Fields are written for `assume_contiguous`.
    """

    count: int  # of bodies
    body: wp.array(dtype=wp.int32)  # the model's number; -1: a fixture
    center: wp.array(dtype=wp.vec3f)  # of the cube, in the frame of the body [m]
    shape_start: wp.array(dtype=wp.int32)  # of the body's shapes in `shape`; one entry more than bodies
    shape: wp.array(dtype=wp.int32)
    cube: wp.array(dtype=wp.vec4f)  # centre in world frame and half the width [m] ...
    cube_pass: wp.array(dtype=wp.int32)  # ... valid if this is the number of the pass
    partner_start: wp.array(dtype=wp.int32)  # of the bodies that a body may touch, in `partner`
    partner: wp.array(dtype=wp.int32)
    pair_start: wp.array(dtype=wp.int32)  # of the pairs of shapes of two bodies; one entry more than pairs of bodies
    pair: wp.array(dtype=wp.vec2i)  # shapes, in the order of their types


@wp.struct
class Candidates:
    """Lists of pairs of shapes that a pass fills, and its counters."""

    near: wp.array(dtype=wp.vec2i)  # pairs whose AABBs overlap
    near_number: wp.array(dtype=wp.int32)  # their numbers in `BodyPairs.pair`
    near_count: wp.array(dtype=wp.int32)
    pair: wp.array(dtype=wp.vec2i)  # those of them that are left to Newton's narrow phase
    count: wp.array(dtype=wp.int32)
    pass_number: wp.array(dtype=wp.int32)
    own_rows: wp.array(dtype=wp.int32)  # contacts that were written before Newton's


@wp.struct
class Search:
    """State of a pass through the broad phase."""

    body_q: wp.array(dtype=wp.transformf)
    with_kinematic: int  # 1 if pairs that no force can move count too
    pass_number: int
    near: wp.array(dtype=wp.vec2i)  # see `Candidates`
    near_number: wp.array(dtype=wp.int32)
    capacity: int  # pairs that can be listed
    count: int  # pairs that are near


assume_contiguous_bodies = assume_contiguous(BodyPairs)
assume_contiguous_search = assume_contiguous(Search)


@wp.func
def update_all_travel(
    bodies: wp.ref[BodyPairs],
    travel: wp.ref[Travel],
    shapes: wp.ref[Shapes],
    span: wp.vec2i,
    body_q: Poses,
    same_shapes: bool,
) -> None:
    """Add to the travelled distances of bodies ``span[0]`` to ``span[1] - 1``.

    With ``same_shapes`` their shapes are those of the last pass and are not compared.
    """
    i = int(span[0])
    shape_end = bodies.shape_start[i]
    while i < span[1]:
        shape_start = int(shape_end)
        shape_end = bodies.shape_start[i + 1]
        is_new = bool(False)
        k = int(shape_start)
        while k < shape_end and not same_shapes:
            if not is_unchanged(travel, k, shapes, bodies.shape[k]):
                is_new = True
            k += 1
        if is_new:
            travel.half[i] = 0.0
            travel.reach[i] = 0.0
            n = int(shape_start)
            while n < shape_end:
                store_shape(travel, n, shapes, bodies.shape[n])
                extend_bounds(travel, i, shapes, bodies.shape[n], bodies.center[i])
                n += 1
        update_travel(travel, i, bodies.body[i], is_new, body_q)
        i += 1


@wp.func
def update_cube(bodies: wp.ref[BodyPairs], travel: wp.ref[Travel], search: wp.ref[Search], i: int) -> wp.vec4f:
    """Return the cube around a body: centre in world frame and half the width [m]; computed once per pass."""
    if bodies.cube_pass[i] != search.pass_number:
        bodies.cube_pass[i] = search.pass_number
        half = travel.half[i]
        center = bodies.center[i]
        if bodies.body[i] >= 0:
            center = wp.transform_point(search.body_q[bodies.body[i]], center)
        size = half + wp.abs(center[0]) + wp.abs(center[1]) + wp.abs(center[2])
        bodies.cube[i] = wp.vec4f(center[0], center[1], center[2], half + SLACK * size)
    return bodies.cube[i]


@wp.func
def cube_size(cube: wp.vec4f) -> float:
    """Bound the size of a cube and its distance from the origin [m]."""
    return wp.abs(cube[0]) + wp.abs(cube[1]) + wp.abs(cube[2]) + cube[3]


@wp.func
def fixture_distance(shapes: wp.ref[Shapes], search: wp.ref[Search], shape: int, cube: wp.vec4f) -> float:
    """Return the distance of a cube from the AABB of a fixture, which may be long and thin [m]."""
    update_aabb(shapes, shape, search.body_q, search.pass_number)
    center = wp.vec3f(cube[0], cube[1], cube[2])
    away = wp.max(shapes.lower[shape] - center, center - shapes.upper[shape])
    return largest(away[0], away[1], away[2]) - cube[3]


@wp.func
def compare_shapes(
    bodies: wp.ref[BodyPairs],
    travel: wp.ref[Travel],
    shapes: wp.ref[Shapes],
    search: wp.ref[Search],
    body_pair: int,
    travelled: wp.float64,
) -> wp.float64:
    """List the pairs of shapes of two bodies whose AABBs overlap.

    Returns the combined travel at which the pair of bodies must be tested again [m].
    """
    test_at = wp.float64(3.0e38)
    j = bodies.pair_start[body_pair]
    while j < bodies.pair_start[body_pair + 1]:
        if travelled >= travel.shape_test_at[j]:
            pair = bodies.pair[j]
            k = int(0)
            while k < 2:  # a loop, so that the long function is compiled into one place
                update_aabb(shapes, pair[k], search.body_q, search.pass_number)
                k += 1
            travel.shape_test_at[j] = travelled
            if not aabbs_overlap(shapes, pair[0], pair[1]):
                travel.shape_test_at[j] = next_test_travel(
                    travelled, aabb_distance(shapes, pair[0], pair[1]), coordinate_bound(shapes, pair[0], pair[1])
                )
            elif search.with_kinematic != 0 or may_move(shapes, pair[0]) or may_move(shapes, pair[1]):
                if search.count < search.capacity:
                    search.near[search.count] = pair
                    search.near_number[search.count] = j
                search.count += 1
        test_at = wp.min(test_at, travel.shape_test_at[j])
        j += 1
    return test_at


@wp.func
def compare_bodies(
    bodies: wp.ref[BodyPairs],
    travel: wp.ref[Travel],
    shapes: wp.ref[Shapes],
    search: wp.ref[Search],
    i: int,
    body_pair: int,
    travelled: wp.float64,
) -> None:
    """List the pairs of shapes of body i and its partner that are near each other."""
    partner = bodies.partner[body_pair]
    own = update_cube(bodies, travel, search, i)
    other = update_cube(bodies, travel, search, partner)
    size = cube_size(own)
    distance = largest(wp.abs(own[0] - other[0]), wp.abs(own[1] - other[1]), wp.abs(own[2] - other[2])) - (
        own[3] + other[3]
    )
    if distance > 0.0:
        size += cube_size(other)
    elif bodies.body[partner] < 0:
        distance = fixture_distance(shapes, search, bodies.shape[bodies.shape_start[partner]], own)
    if distance > 0.0:
        travel.body_test_at[body_pair] = next_test_travel(travelled, distance, size)
    else:
        travel.body_test_at[body_pair] = compare_shapes(bodies, travel, shapes, search, body_pair, travelled)


@wp.func
def first_pair_due(
    bodies: wp.ref[BodyPairs], travel: wp.ref[Travel], start: int, end: int, travelled: wp.float64
) -> int:
    """Return the first pair of a body, from ``start`` on, that must be tested; ``end`` or more if there is none.

    The loop writes nothing, so that the compiler keeps everything in registers.
    """
    k = int(start)
    while k < end and travelled + travel.travelled[bodies.partner[k]] < travel.body_test_at[k]:
        k += 1
    return k


@wp.func
def list_candidates(
    bodies: wp.ref[BodyPairs],
    travel: wp.ref[Travel],
    shapes: wp.ref[Shapes],
    span: wp.vec2i,
    search: wp.ref[Search],
) -> None:
    """After `update_all_travel`: list the pairs of shapes whose AABBs overlap, unless they are known not to touch."""
    i = int(span[0])
    partner_end = bodies.partner_start[i]
    while i < span[1]:
        travelled = travel.travelled[i]
        k = int(partner_end)
        partner_end = bodies.partner_start[i + 1]
        while k < partner_end:
            k = first_pair_due(bodies, travel, k, partner_end, travelled)
            if k < partner_end:
                compare_bodies(bodies, travel, shapes, search, i, k, travelled + travel.travelled[bodies.partner[k]])
            k += 1
        i += 1


def sort_by_body(model: newton.Model, pairs: np.ndarray) -> Any:
    """Make the `BodyPairs` of ``pairs``."""
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
        "cube_pass": (np.zeros(count), wp.int32),
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


def owners_of(bodies: Any, shape_count: int) -> np.ndarray:
    """Return the number of the body in `BodyPairs` that each shape of the model belongs to; -1 if there is none."""
    owner = np.full(shape_count, -1)
    owner[bodies.shape.numpy()] = np.repeat(np.arange(bodies.count), np.diff(bodies.shape_start.numpy()))
    return owner


def travel_of(bodies: Any) -> Any:
    """Allocate the `Travel` for `BodyPairs`."""
    counts = bodies.count, len(bodies.shape), len(bodies.partner), len(bodies.pair)
    return make_travel(*counts, bodies.shape.device)


def _centers(model: newton.Model, shapes: np.ndarray, owner: np.ndarray, count: int) -> np.ndarray:
    """Return the middle of the origins of each body's shapes. Any point would do; this one keeps cubes small."""
    origins = model.shape_transform.numpy().reshape(-1, 7)[shapes, :3]
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    np.minimum.at(low, owner, origins)
    np.maximum.at(high, owner, origins)
    return 0.5 * (low + high)
