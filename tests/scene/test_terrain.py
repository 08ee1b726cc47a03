"""Rough ground: its heights, and what lies on it."""

from __future__ import annotations

import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.scene.terrain import make_heights

RADIUS = 0.1


def test_slope_rises_as_asked_around_a_flat_place():
    heights = make_heights("slope", size=4.0, resolution=0.1, height=0.2, width=1.0, flat=0.5)
    x = np.linspace(-2.0, 2.0, 41)
    np.testing.assert_allclose(heights[20], 0.2 * np.maximum(np.abs(x) - 0.5, 0.0), atol=1e-12)
    np.testing.assert_array_equal(heights, heights.T)


def test_stairs_have_equal_steps():
    heights = make_heights("stairs", size=4.0, resolution=0.05, height=0.15, width=0.5, flat=0.5)
    assert set(np.round(np.unique(heights) / 0.15, 9)) == {0.0, 1.0, 2.0, 3.0}


@pytest.mark.parametrize("kind", ["steps", "rubble", "waves"])
def test_random_ground_keeps_its_height_and_its_flat_place(kind):
    heights = make_heights(kind, size=6.0, height=0.3, width=0.4, flat=0.8, seed=3)
    assert 0.1 < np.ptp(heights) <= 0.3 + 1e-12
    middle = slice(30 - 7, 30 + 8)
    np.testing.assert_array_equal(heights[middle, middle], 0.0)
    again, other = (make_heights(kind, size=6.0, height=0.3, width=0.4, flat=0.8, seed=s) for s in (3, 4))
    np.testing.assert_array_equal(heights, again)
    assert kind == "waves" or (heights != other).any()


@pytest.mark.parametrize(("name", "value"), [("size", -1.0), ("height", 0.0), ("resolution", 1e-6), ("kind", "moon")])
def test_impossible_numbers_are_refused(name, value):
    with pytest.raises(ValueError, match=r"kind is|size|height is 0\.0"):
        make_heights(**({"kind": "steps"} | {name: value}))


def scene(kind, places, shape, **terrain):
    bodies = [
        {"id": f"b{i}", "transform": {"p": list(place)}, "shapes": [dict(shape)]} for i, place in enumerate(places)
    ]
    joints = [{"id": f"j{i}", "type": "free", "parent": "world", "child": f"b{i}"} for i in range(len(places))]
    return {
        "simulation": {"dt": 0.004},
        "builder": {"defaults": {"shape": {"ke": 1e5, "tau": 0.01, "mu": 1.0}}},
        "ground": {"terrain": {"kind": kind, **terrain}},
        "bodies": bodies,
        "joints": joints,
        "articulations": [{"id": f"a{i}", "joints": [f"j{i}"]} for i in range(len(places))],
    }


def test_boxes_rest_on_the_treads_of_stairs():
    """In the middle of each tread, at its height."""
    box = {"type": "box", "hx": 0.1, "hy": 0.1, "hz": 0.05}
    places = [(0.0, 0.0, 0.08), (0.85, 0.0, 0.23), (0.0, -1.35, 0.38), (-1.85, 0.0, 0.53)]
    sim = Simulation.from_scene(
        scene("stairs", places, box, size=6.0, resolution=0.05, height=0.15, width=0.5), num_worlds=2
    )
    sim.step(250)
    heights = np.array(sim.joint_q).reshape(2, 4, 7)[:, :, 2]
    np.testing.assert_allclose(heights, np.tile([0.05, 0.2, 0.35, 0.5], (2, 1)), atol=2e-3)
    assert (sim.status == 0).all()


def test_box_stays_on_a_slope_and_leans_as_it_does():
    """A rise of 0.2 is less than friction holds; the box lies on it with its whole face."""
    box = {"type": "box", "hx": 0.2, "hy": 0.1, "hz": 0.05}
    sim = Simulation.from_scene(scene("slope", [(2.0, 0.0, 0.36)], box, height=0.2, width=1.0, flat=0.6))
    sim.step(400)
    q = np.array(sim.joint_q).ravel()
    up = np.array([2 * (q[3] * q[5] + q[6] * q[4]), 2 * (q[4] * q[5] - q[6] * q[3]), 1 - 2 * (q[3] ** 2 + q[4] ** 2)])
    normal = np.array([-0.2, 0.0, 1.0]) / np.sqrt(1.04)
    np.testing.assert_allclose(up, normal, atol=5e-3)
    assert abs(np.dot(q[:3] - [2.0, 0.0, 0.28], normal) - 0.05) < 3e-3
    assert np.abs(np.array(sim.joint_qd)).max() < 0.02
