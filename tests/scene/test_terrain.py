"""Rough ground: its heights, and what lies on it."""

from __future__ import annotations

from pathlib import Path

import newton
import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.scene.objects.terrain import make_heights
from sap_warp.scene.robots import robot_scene
from sap_warp.simulation.checkpoint.keyframes import go_home

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


@pytest.mark.parametrize("rise", [0.2, 0.6])
@pytest.mark.parametrize("part", [0.7, 1.2])
def test_boxes_slide_down_a_slope_as_friction_says(rise, part):
    """On all four sides of the pyramid, turned any way: friction that is less than the rise gives way, more holds.

    A slope of angle a lets a box slide by g (sin a - mu cos a) t^2 / 2, straight down and without turning.
    """
    angle, mu, time = np.arctan(rise), part * rise, 0.5
    places, turns = [], []
    for side in range(4):
        outward = np.array([np.cos(0.5 * np.pi * side), np.sin(0.5 * np.pi * side), 0.0])
        along = np.cross([0.0, 0.0, 1.0], outward)
        normal = np.cos(angle) * np.array([0.0, 0.0, 1.0]) - np.sin(angle) * outward
        for k, heading in enumerate((0.0, 0.5, 1.2)):
            places.append(2.3 * outward + (k - 1) * 0.7 * along + [0.0, 0.0, 1.7 * rise] + 0.0499 * normal)
            turns.append((outward, along, normal, heading))
    document = scene("slope", places, {"type": "box", "hx": 0.15, "hy": 0.12, "hz": 0.05}, height=rise, width=1.0)
    document["builder"]["defaults"]["shape"]["mu"] = mu
    for body, (outward, along, normal, heading) in zip(document["bodies"], turns, strict=True):
        up = np.cos(angle) * outward + np.sin(angle) * np.array([0.0, 0.0, 1.0])
        x = np.cos(heading) * up + np.sin(heading) * along
        body["transform"]["q"] = quaternion(np.column_stack([x, np.cross(normal, x), normal])).tolist()
    sim = Simulation.from_scene(document, notes=False)
    start = np.array(sim.joint_q).reshape(-1, 7)
    sim.step(round(time / 0.004))
    end = np.array(sim.joint_q).reshape(-1, 7)
    fall = max(9.81 * (np.sin(angle) - mu * np.cos(angle)), 0.0) * time**2 / 2.0
    for (outward, along, _, _), before, after in zip(turns, start, end, strict=True):
        moved = after[:3] - before[:3]
        down = -np.cos(angle) * outward - np.sin(angle) * np.array([0.0, 0.0, 1.0])
        assert moved @ down == pytest.approx(fall, rel=0.03, abs=2e-3)
        assert abs(moved @ along) < 2e-3
        assert abs(before[3:] @ after[3:]) > np.cos(0.5 * 0.02)
    assert sim.statistics.not_converged == 0


def quaternion(R):
    """Of a rotation matrix, xyzw."""
    w = np.sqrt(max(1.0 + np.trace(R), 0.0)) / 2.0
    if w > 1e-3:
        return np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], 4.0 * w * w]) / (4.0 * w)
    values, vectors = np.linalg.eigh(R + R.T)
    return np.append(vectors[:, np.argmax(values)], 0.0)


ROUGH = {
    "slope": {"height": 0.2, "width": 1.0},
    "stairs": {"height": 0.08, "width": 0.3},
    "steps": {"height": 0.06, "width": 0.15},
    "rubble": {"height": 0.06, "width": 0.15},
    "waves": {"height": 0.06, "width": 0.5},
}


def feet_above(sim, heights, size):
    """How far the lowest points of spherical feet are above the ground below them [m]."""
    model, poses = sim.model, np.array(sim.body_q)[0]
    x = np.linspace(-0.5 * size, 0.5 * size, heights.shape[0])
    found = []
    collides = (model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0  # sites do not
    for shape in np.flatnonzero((model.shape_type.numpy() == int(newton.GeoType.SPHERE)) & collides):
        pose = poses[model.shape_body.numpy()[shape]]
        at, u = model.shape_transform.numpy()[shape, :3], pose[3:6]
        centre = pose[:3] + at + 2.0 * np.cross(u, np.cross(u, at) + pose[6] * at)
        column, row = (np.clip(np.searchsorted(x, centre[i]) - 1, 0, len(x) - 2) for i in (0, 1))
        a, b = ((centre[i] - x[k]) / (x[1] - x[0]) for i, k in ((0, column), (1, row)))
        cell = heights[row : row + 2, column : column + 2]
        ground = np.array([1.0 - b, b]) @ cell @ np.array([1.0 - a, a])
        found.append(centre[2] - model.shape_scale.numpy()[shape, 0] - ground)
    return np.array(found)


@pytest.mark.parametrize("kind", ROUGH)
def test_quadruped_stands_on_rough_ground(kind, monkeypatch):
    """Dropped from up to 10 cm it comes to rest on its feet, which do not sink in; every step converges."""
    monkeypatch.setenv("SAP_WARP_MENAGERIE", str(Path(__file__).parent / "mjcf" / "menagerie"))
    terrain = {"size": 3.0, "resolution": 0.05, "flat": 0.05, "seed": 2, **ROUGH[kind]}
    sim = Simulation.from_scene(
        robot_scene("dog_like") | {"ground": {"terrain": {"kind": kind, **terrain}}}, notes=False
    )
    go_home(sim)
    q = np.array(sim.joint_q)
    q[:, 2] += 0.1
    sim.reset(joint_q=q)
    sim.step(600)
    q, above = np.array(sim.joint_q)[0], feet_above(sim, make_heights(kind, **terrain), 3.0)
    assert 1.0 - 2.0 * (q[3] ** 2 + q[4] ** 2) > np.cos(0.1)
    assert len(above) == 4 and above.min() > -5e-3 and np.sort(above)[2] < 0.02
    assert np.abs(np.array(sim.joint_qd)).max() < 0.1
    assert (sim.status == 0).all() and sim.statistics.not_converged == 0
