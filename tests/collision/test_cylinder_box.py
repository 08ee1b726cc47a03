"""Optimal directions between a cylinder, or the axis of a capsule, and a box: no other direction separates better.

The oracle is the definition: of all directions, the signed distance is the largest distance between two planes that
have one shape on each side, which follows from the support functions of both. It is sampled over many directions, most
of them near the one that was accepted.
"""

import numpy as np
import pytest
import warp as wp

from sap_warp.collision.narrow.cylinder_box import CylinderBox, search_box_edges, search_flat_parts
from sap_warp.collision.narrow.gjk import APART, NEAR, OVERLAP, UNKNOWN

REACH = 0.01


@wp.kernel(module="unique", enable_backward=False)
def prove(
    axis: wp.array[wp.vec3d],
    middle: wp.array[wp.vec3d],
    sizes: wp.array[wp.vec2d],
    box: wp.array[wp.vec3d],
    state: wp.array[int],
    found: wp.array2d[wp.vec3d],
    distance: wp.array[wp.float64],
):
    i = wp.tid()
    query = CylinderBox()
    query.axis = axis[i]
    query.center = middle[i]
    query.radius = sizes[i][0]
    query.half_length = sizes[i][1]
    query.half_size = box[i]
    query.reach = wp.float64(REACH)
    query.state = UNKNOWN
    query.distance = wp.float64(-1.0e30)
    search_flat_parts(query)
    if query.state == UNKNOWN and query.distance > wp.float64(0.0):
        search_box_edges(query)
    state[i] = query.state
    found[i, 0] = query.direction
    found[i, 1] = query.point
    distance[i] = query.distance


def run(axis, middle, sizes, box):
    """States, directions, points and distances."""
    count = len(axis)
    state, distance = wp.zeros(count, dtype=int), wp.zeros(count, dtype=wp.float64)
    found = wp.zeros((count, 2), dtype=wp.vec3d)
    kinds = (wp.vec3d, wp.vec3d, wp.vec2d, wp.vec3d)
    given = [wp.array(a, dtype=kind) for a, kind in zip((axis, middle, sizes, box), kinds, strict=True)]
    wp.launch(prove, dim=count, inputs=given, outputs=[state, found, distance], device="cpu")
    return state.numpy(), found.numpy()[:, 0], found.numpy()[:, 1], distance.numpy()


def separation(directions, axis, middle, size, box):
    """Distance of two planes across each direction that have the box and the cylinder on their sides [m]."""
    rise = directions @ axis
    cylinder = size[0] * np.linalg.norm(np.cross(directions, axis), axis=1) + size[1] * np.abs(rise)
    return directions @ middle - np.abs(directions) @ box - cylinder


def unit(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def poses(kind, rng, count):
    """Axes, middles, radii with half lengths, and boxes, with gaps from -4 to 4 mm along the direction of the kind."""
    box = rng.uniform(0.008, 0.05, (count, 3))
    sizes = np.column_stack([rng.uniform(0.01, 0.04, count), rng.uniform(0.02, 0.08, count)])
    tilt = 10.0 ** rng.uniform(-9.0, -1.0, count)[:, None] * rng.normal(size=(count, 3))
    tilt[:: max(count // 20, 1)] = 0.0
    if kind == "axis":
        sizes[:, 0] = 0.0
    gap, side = rng.uniform(-0.004, 0.004, count), rng.choice([-1.0, 1.0], count)
    across = rng.uniform(-1.0, 1.0, (count, 2)) * (box[:, :2] + 0.5 * sizes[:, :1])
    if kind == "stands":
        axis = unit(np.array([0.0, 0.0, 1.0]) + tilt)
        height = box[:, 2] + sizes[:, 1] + gap
    elif kind == "lies" or kind == "axis":
        angle = rng.uniform(0.0, 2.0 * np.pi, count)
        axis = unit(np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)]) + tilt)
        height = box[:, 2] + sizes[:, 0] + gap
    else:
        axis = unit(rng.normal(size=(count, 3)))
        height = box[:, 2] + 0.5 * sizes.sum(axis=1) + gap
    return axis, np.column_stack([across, side * height]), sizes, box


@pytest.mark.parametrize(("kind", "share"), [("stands", 0.9), ("lies", 0.8), ("axis", 0.5), ("any", 0.55)])
def test_no_direction_is_better_than_an_accepted_one(kind, share, rng) -> None:
    axis, middle, sizes, box = poses(kind, rng, 600)
    state, out, point, distance = run(axis, middle, sizes, box)
    somewhere = unit(rng.normal(size=(4000, 3)))
    near = 10.0 ** rng.uniform(-6.0, -0.5, 4000)[:, None] * rng.normal(size=(4000, 3))
    assert np.isin(state, [int(NEAR), int(OVERLAP), int(APART)]).mean() >= share
    for i in np.flatnonzero(state != int(UNKNOWN)):
        others = [somewhere, np.eye(3), -np.eye(3), [axis[i], -axis[i]]]
        if state[i] == int(APART):
            assert max(separation(np.asarray(d), axis[i], middle[i], sizes[i], box[i]).max() for d in others) > 0.0
            assert distance[i] > REACH
            continue
        others.append(unit(out[i] + near))
        best = max(separation(np.asarray(d), axis[i], middle[i], sizes[i], box[i]).max() for d in others)
        own = separation(out[i : i + 1], axis[i], middle[i], sizes[i], box[i])[0]
        assert (distance[i] > 0.0) == (state[i] == int(NEAR))
        assert own == pytest.approx(distance[i], abs=2e-9)  # the criterion of an edge allows 1e-9
        assert best <= distance[i] + 1e-12
        if state[i] == int(NEAR):  # both closest points belong to the shapes
            assert np.all(np.abs(point[i] - distance[i] * out[i]) <= box[i] + 1e-9)
        arm = point[i] - middle[i]
        assert abs(arm @ axis[i]) <= sizes[i, 1] + 1e-9
        assert np.linalg.norm(arm - (arm @ axis[i]) * axis[i]) <= sizes[i, 0] + 1e-9


def test_deep_overlap_is_left_to_epa(rng) -> None:
    """In the middle of a thick box a direction out of a face is accepted only while no other depth can be less."""
    axis, _, sizes, box = poses("lies", rng, 200)
    state, _, _, distance = run(axis, 0.2 * box * rng.uniform(-1.0, 1.0, (200, 3)), sizes, box)
    proved = state != int(UNKNOWN)
    assert proved.mean() < 0.5
    assert np.all(-distance[proved] <= 2.0 * box[proved].max(axis=1) + sizes[proved].max(axis=1))
