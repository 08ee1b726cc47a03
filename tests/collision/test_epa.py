"""EPA for cylinders and boxes: penetration depth found in every pose, with contact points that are on both shapes.

The oracle is the definition: the penetration direction is that of all directions along which the support functions of
both shapes add up to the least. It is sampled: everywhere, in the planes across the axes of both shapes, which the best
directions of shapes with flat faces lie in, and near the direction that was found.
"""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp.collision.broad.aabb import Shapes
from sap_warp.collision.narrow.epa import find_penetration
from sap_warp.collision.narrow.gjk import OVERLAP, OVERLAP_TOLERANCE, find_closest_points, make_core_pair
from sap_warp.collision.narrow.hulls.supports import Supports

BOX, CYLINDER = int(newton.GeoType.BOX), int(newton.GeoType.CYLINDER)


@wp.kernel(module="unique", enable_backward=False)
def overlap(
    kind: wp.array[wp.int32],
    size: wp.array[wp.vec3f],
    pose: wp.array[wp.transformf],
    gjk_state: wp.array[int],
    state: wp.array[int],
    found: wp.array2d[wp.vec3d],
    distance: wp.array[wp.float64],
):
    i = wp.tid()
    shapes = Shapes()
    shapes.kind = kind
    shapes.size = size
    shapes.pose = pose
    supports = Supports()
    pair = make_core_pair(shapes, 2 * i, 2 * i + 1)
    simplex = wp.zeros(shape=(4,), dtype=wp.vec3d)
    points0 = wp.zeros(shape=(4,), dtype=wp.vec3d)
    count = find_closest_points(shapes, supports, pair, wp.float64(0.01), simplex, points0)
    gjk_state[i] = pair.state
    if pair.state == OVERLAP:
        find_penetration(shapes, supports, pair, count, simplex, points0)
    state[i] = pair.state
    found[i, 0] = pair.normal
    found[i, 1] = pair.point
    distance[i] = pair.distance


def run(kinds, sizes, places, turns):
    """States before and after, normals and points in the frame of the first shape, and distances.

    The first shape is at the origin, the second one at ``places`` (N, 3) [m] with the rotation ``turns`` (N, 4).
    """
    count = len(places)
    pose = np.zeros((count, 2, 7))
    pose[:, 0, 6] = 1.0
    pose[:, 1] = np.hstack([places, turns])
    given = [
        wp.array(np.tile(kinds, count), dtype=wp.int32),
        wp.array(np.tile(sizes, (count, 1)), dtype=wp.vec3f),
        wp.array(pose.reshape(-1, 7), dtype=wp.transformf),
    ]
    gjk_state, state = wp.zeros(count, dtype=int), wp.zeros(count, dtype=int)
    found, distance = wp.zeros((count, 2), dtype=wp.vec3d), wp.zeros(count, dtype=wp.float64)
    wp.launch(overlap, dim=count, inputs=given, outputs=[gjk_state, state, found, distance], device="cpu")
    return gjk_state.numpy(), state.numpy(), found.numpy()[:, 0], found.numpy()[:, 1], distance.numpy()


def unit(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def rotation(quaternion):
    """As a matrix, from x, y, z, w in single precision, as the kernel gets it."""
    x, y, z, w = unit(np.float32(quaternion).astype(float))
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def turn_to(axis):
    """Quaternions of the shortest rotations of the z axis to these."""
    x, y, z = axis.T
    return unit(np.column_stack([-y, x, np.zeros_like(x), 1.0 + z]))


def support(kind, size, directions):
    """How far a shape in its own frame reaches along each direction [m]."""
    size = np.float32(size).astype(float)
    if kind == BOX:
        return np.abs(directions) @ size
    return size[0] * np.hypot(directions[:, 0], directions[:, 1]) + size[1] * np.abs(directions[:, 2])


def depth(directions, kinds, sizes, place, turn):
    """How far the second shape has to move along each direction until no point of it overlaps the first one [m]."""
    place = np.float32(place).astype(float)
    return support(kinds[0], sizes[0], directions) + support(kinds[1], sizes[1], directions @ turn) - directions @ place


def beside(kind, size, point):
    """Distance of a point in a shape's own frame from the shape, 0 inside [m]."""
    if kind == BOX:
        return np.linalg.norm(np.maximum(np.abs(point) - size, 0.0))
    return np.hypot(max(np.hypot(point[0], point[1]) - size[0], 0.0), max(abs(point[2]) - size[1], 0.0))


def circles(turn):
    """Directions across the axes of both shapes, and these axes."""
    angle = np.linspace(0.0, 2.0 * np.pi, 721)
    flat = np.column_stack([np.cos(angle), np.sin(angle), 0.0 * angle])
    across = [np.roll(flat, k, axis=1) for k in range(3)]
    crossed = np.cross(np.eye(3)[:, None, :], turn.T[None, :, :]).reshape(-1, 3)
    crossed = unit(crossed[np.linalg.norm(crossed, axis=1) > 1e-9])
    return np.vstack([*across, *(w @ turn.T for w in across), turn.T, -turn.T, crossed, -crossed])


BOX_SIZE, CYLINDER_SIZE, DISC_SIZE = (0.05, 0.04, 0.03), (0.03, 0.06, 0.0), (0.05, 0.005, 0.0)
PAIRS = {
    "cylinder box": ((CYLINDER, BOX), (CYLINDER_SIZE, BOX_SIZE)),
    "disc box": ((CYLINDER, BOX), (DISC_SIZE, BOX_SIZE)),
    "cylinder cylinder": ((CYLINDER, CYLINDER), (CYLINDER_SIZE, DISC_SIZE)),
    "box box": ((BOX, BOX), (BOX_SIZE, (0.02, 0.08, 0.01))),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_no_direction_has_less_depth(pair, rng) -> None:
    """No sampled direction has less depth, in random poses, half of them with axes that are nearly parallel."""
    kinds, sizes = PAIRS[pair]
    count = 400
    axis = unit(rng.normal(size=(count, 3)))
    tilt = 10.0 ** rng.uniform(-9.0, -1.0, (count // 2, 1)) * rng.normal(size=(count // 2, 3))
    axis[: count // 2] = unit(np.eye(3)[rng.integers(0, 3, count // 2)] + tilt)
    turns, places = turn_to(axis), rng.uniform(-0.07, 0.07, (count, 3))
    gjk_state, state, normal, point, distance = run(kinds, sizes, places, turns)
    assert np.all(state[gjk_state == int(OVERLAP)] == int(OVERLAP))  # it never gives up
    assert np.sum(gjk_state == int(OVERLAP)) > 0.4 * count
    somewhere = unit(rng.normal(size=(2000, 3)))
    near = 10.0 ** rng.uniform(-6.0, -0.5, 2000)[:, None] * rng.normal(size=(2000, 3))
    tolerance = float(OVERLAP_TOLERANCE)
    for i in np.flatnonzero(state == int(OVERLAP)):
        turn = rotation(turns[i])
        others = np.vstack([somewhere, circles(turn), unit(normal[i] + near)])
        assert np.linalg.norm(normal[i]) == pytest.approx(1.0, abs=1e-12)
        assert depth(normal[i : i + 1], kinds, sizes, places[i], turn)[0] == pytest.approx(-distance[i], abs=1e-9)
        assert -distance[i] <= depth(others, kinds, sizes, places[i], turn).min() + 1e-6
        on_second = (point[i] + distance[i] * normal[i] - places[i]) @ turn
        assert beside(kinds[0], sizes[0], point[i]) < tolerance
        assert beside(kinds[1], sizes[1], on_second) < tolerance


def test_axis_of_a_cylinder_on_an_edge_of_a_box(rng) -> None:
    """Nearly every direction across the edge is as good, more than a polytope of 64 vertices can hold."""
    kinds, sizes = (BOX, CYLINDER), (BOX_SIZE, CYLINDER_SIZE)
    count = 300
    turns = turn_to(
        unit(np.array([0.0, 0.0, 1.0]) + 10.0 ** rng.uniform(-9.0, -3.0, (count, 1)) * rng.normal(size=(count, 3)))
    )
    angle, off = rng.uniform(0.02, 1.55, count), rng.uniform(-5e-4, 3e-3, count)
    places = np.column_stack([0.05 + off * np.cos(angle), 0.04 + off * np.sin(angle), rng.uniform(-0.06, 0.06, count)])
    _, state, normal, _, distance = run(kinds, sizes, places, turns)
    assert np.all(state == int(OVERLAP))
    for i in range(count):
        turn = rotation(turns[i])
        assert depth(normal[i : i + 1], kinds, sizes, places[i], turn)[0] == pytest.approx(-distance[i], abs=1e-9)
        assert -distance[i] <= depth(circles(turn), kinds, sizes, places[i], turn).min() + 1e-3
