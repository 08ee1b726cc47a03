# mypy: disable-error-code="valid-type"
"""Pairs of shapes that are near each other, on the CPU, for `narrow_phase` and Newton's narrow phase.

Newton's pipeline places and bounds every shape of the model, visual ones too, and compares shapes pair by pair. Here
whole bodies are compared first. Around each body stands a cube that contains its shapes however the body turns, and
only where two cubes overlap are the shapes placed and looked at one by one. Shapes that belong to no body, fixtures,
stand alone. A box along the axes of the world around a shape, as Newton compares them, lies in the cube, so no pair is
lost here. Pairs that are apart are left out until their bodies have travelled far enough (`travel`).
"""

from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.structs import make_flat
from ...core.kernels.types import Poses
from .aabb import Shapes, box_distance, box_shape, boxes_overlap, boxes_size, largest, may_move
from .travel import Travel, follow, is_as_before, make_travel, measure_body, next_look, remember_shape

SLACK = wp.constant(1.0e-6)
"""Rounding of positions that cubes allow for, relative to the distance from the origin and to their size."""


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
    cube: wp.array(dtype=wp.vec4f)  # centre in world frame and half the width [m] ...
    cubed: wp.array(dtype=wp.int32)  # ... valid if the number of the pass stands here
    partner_start: wp.array(dtype=wp.int32)  # of the bodies that a body may meet, in `partner`
    partner: wp.array(dtype=wp.int32)
    pair_start: wp.array(dtype=wp.int32)  # of the pairs of shapes of two bodies; one entry more than pairs of bodies
    pair: wp.array(dtype=wp.vec2i)  # shapes, in the order of their kinds


@wp.struct
class Candidates:
    """Where a pass lists pairs of shapes, and what it has to remember."""

    near: wp.array(dtype=wp.vec2i)  # whose boxes overlap
    near_number: wp.array(dtype=wp.int32)  # their numbers in `BodyPairs.pair`
    near_count: wp.array(dtype=wp.int32)
    pair: wp.array(dtype=wp.vec2i)  # those of them that are left to Newton's narrow phase
    count: wp.array(dtype=wp.int32)
    pass_number: wp.array(dtype=wp.int32)
    own_rows: wp.array(dtype=wp.int32)  # rows that were written before Newton's


@wp.struct
class Search:
    """A pass, and how far it has come."""

    body_q: wp.array(dtype=wp.transformf)
    with_kinematic: int  # whether pairs that no force can move count
    now: int  # number of the pass
    near: wp.array(dtype=wp.vec2i)  # see `Candidates`
    near_number: wp.array(dtype=wp.int32)
    most: int  # pairs that can be listed
    count: int  # pairs that are near


flat_bodies = make_flat(BodyPairs)
flat_search = make_flat(Search)


@wp.func
def follow_bodies(
    b: wp.ref[BodyPairs], t: wp.ref[Travel], s: wp.ref[Shapes], span: wp.vec2i, body_q: Poses, same: bool
) -> None:
    """Add to the ways of bodies, from the first to before the second of ``span``.

    ``same`` says that their shapes are those of the last pass.
    """
    i = int(span[0])
    shape_end = b.shape_start[i]
    while i < span[1]:
        shape_start = int(shape_end)
        shape_end = b.shape_start[i + 1]
        is_new = bool(False)
        k = int(shape_start)
        while k < shape_end and not same:
            if not is_as_before(t, k, s, b.shape[k]):
                is_new = True
            k += 1
        if is_new:
            t.half[i] = 0.0
            t.reach[i] = 0.0
            n = int(shape_start)
            while n < shape_end:
                remember_shape(t, n, s, b.shape[n])
                measure_body(t, i, s, b.shape[n], b.center[i])
                n += 1
        follow(t, i, b.body[i], is_new, body_q)
        i += 1


@wp.func
def place_cube(b: wp.ref[BodyPairs], t: wp.ref[Travel], q: wp.ref[Search], i: int) -> wp.vec4f:
    """The cube around a body, once in a pass."""
    if b.cubed[i] != q.now:
        b.cubed[i] = q.now
        half = t.half[i]
        center = b.center[i]
        if b.body[i] >= 0:
            center = wp.transform_point(q.body_q[b.body[i]], center)
        size = half + wp.abs(center[0]) + wp.abs(center[1]) + wp.abs(center[2])
        b.cube[i] = wp.vec4f(center[0], center[1], center[2], half + SLACK * size)
    return b.cube[i]


@wp.func
def cube_size(cube: wp.vec4f) -> float:
    """How far a cube reaches from the origin, along all axes together [m]."""
    return wp.abs(cube[0]) + wp.abs(cube[1]) + wp.abs(cube[2]) + cube[3]


@wp.func
def fixture_distance(s: wp.ref[Shapes], q: wp.ref[Search], shape: int, cube: wp.vec4f) -> float:
    """How far a cube is from the box around a shape of the world, which may be long and thin [m]."""
    box_shape(s, shape, q.body_q, q.now)
    center = wp.vec3f(cube[0], cube[1], cube[2])
    away = wp.max(s.lower[shape] - center, center - s.upper[shape])
    return largest(away[0], away[1], away[2]) - cube[3]


@wp.func
def look_at_shapes(
    b: wp.ref[BodyPairs], t: wp.ref[Travel], s: wp.ref[Shapes], q: wp.ref[Search], bodies: int, ways: wp.float64
) -> wp.float64:
    """List those pairs of shapes of a pair of bodies whose boxes overlap; returns when to look at them again."""
    look_at = wp.float64(3.0e38)
    j = b.pair_start[bodies]
    while j < b.pair_start[bodies + 1]:
        if ways >= t.shapes_at[j]:
            pair = b.pair[j]
            k = int(0)
            while k < 2:  # a loop, so that the long function is compiled into one place
                box_shape(s, pair[k], q.body_q, q.now)
                k += 1
            t.shapes_at[j] = ways
            if not boxes_overlap(s, pair[0], pair[1]):
                t.shapes_at[j] = next_look(ways, box_distance(s, pair[0], pair[1]), boxes_size(s, pair[0], pair[1]))
            elif q.with_kinematic != 0 or may_move(s, pair[0]) or may_move(s, pair[1]):
                if q.count < q.most:
                    q.near[q.count] = pair
                    q.near_number[q.count] = j
                q.count += 1
        look_at = wp.min(look_at, t.shapes_at[j])
        j += 1
    return look_at


@wp.func
def look_at_bodies(
    b: wp.ref[BodyPairs], t: wp.ref[Travel], s: wp.ref[Shapes], q: wp.ref[Search], i: int, bodies: int, ways: wp.float64
) -> None:
    """List the pairs of shapes of body i and its partner that are near each other."""
    partner = b.partner[bodies]
    c = place_cube(b, t, q, i)
    o = place_cube(b, t, q, partner)
    size = cube_size(c)
    distance = largest(wp.abs(c[0] - o[0]), wp.abs(c[1] - o[1]), wp.abs(c[2] - o[2])) - (c[3] + o[3])
    if distance > 0.0:
        size += cube_size(o)
    elif b.body[partner] < 0:
        distance = fixture_distance(s, q, b.shape[b.shape_start[partner]], c)
    if distance > 0.0:
        t.bodies_at[bodies] = next_look(ways, distance, size)
    else:
        t.bodies_at[bodies] = look_at_shapes(b, t, s, q, bodies, ways)


@wp.func
def first_due(b: wp.ref[BodyPairs], t: wp.ref[Travel], start: int, end: int, way: wp.float64) -> int:
    """The first pair of a body, from ``start`` on, that has to be looked at; ``end`` or more if there is none.

    A loop that writes nothing, so that the compiler keeps everything in registers.
    """
    k = int(start)
    while k < end and way + t.way[b.partner[k]] < t.bodies_at[k]:
        k += 1
    return k


@wp.func
def list_candidates(
    b: wp.ref[BodyPairs], t: wp.ref[Travel], s: wp.ref[Shapes], span: wp.vec2i, q: wp.ref[Search]
) -> None:
    """After `follow_bodies`: list the pairs of shapes whose boxes overlap, but those that are known not to touch."""
    i = int(span[0])
    partner_end = b.partner_start[i]
    while i < span[1]:
        way = t.way[i]
        k = int(partner_end)
        partner_end = b.partner_start[i + 1]
        while k < partner_end:
            k = first_due(b, t, k, partner_end, way)
            if k < partner_end:
                look_at_bodies(b, t, s, q, i, k, way + t.way[b.partner[k]])
            k += 1
        i += 1


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
        "cubed": (np.zeros(count), wp.int32),
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
    """The number of the body in `BodyPairs` that each shape of the model belongs to; -1: none."""
    owner = np.full(shape_count, -1)
    owner[bodies.shape.numpy()] = np.repeat(np.arange(bodies.count), np.diff(bodies.shape_start.numpy()))
    return owner


def travel_of(bodies: Any) -> Any:
    """The `Travel` of `BodyPairs`."""
    counts = bodies.count, len(bodies.shape), len(bodies.partner), len(bodies.pair)
    return make_travel(*counts, bodies.shape.device)


def _centers(model: newton.Model, shapes: np.ndarray, owner: np.ndarray, count: int) -> np.ndarray:
    """The middle of the origins of each body's shapes. Any point would do; this one keeps cubes small."""
    places = model.shape_transform.numpy().reshape(-1, 7)[shapes, :3]
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    np.minimum.at(low, owner, places)
    np.maximum.at(high, owner, places)
    return 0.5 * (low + high)
