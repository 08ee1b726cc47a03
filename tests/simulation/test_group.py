"""Worlds that are shared out over several devices move as in one simulation."""

import json

import numpy as np
import pytest

from sap_warp import Simulation, SimulationGroup, ThreadsError
from tests.simulation.test_ctrl import ARM

WORLDS = 5


@pytest.fixture(scope="module")
def pair():
    """A group of two on one CPU, and one simulation of the same worlds."""
    group = SimulationGroup.from_scene("humanoid", devices=["cpu", "cpu"], num_worlds=WORLDS)
    return group, Simulation.from_scene("humanoid", num_worlds=WORLDS, device="cpu")


def test_a_group_is_one_simulation_of_all_worlds(pair, rng):
    """To the bit: forces by name, steps, resets by mask with coordinates."""
    group, sim = pair
    assert [each.world_count for each in group] == [2, 3] and group.world_count == WORLDS
    held = group.joint_q.numpy()
    torques, mask = rng.uniform(-5, 5, (WORLDS, 2)), np.array([True, False, False, True, True])
    q = sim.joint_q.numpy() + rng.uniform(-0.01, 0.01, (WORLDS, 28)).astype(np.float32)
    for each in (group, sim):
        each.reset()
        each.joint_f = 0.0
        each.joint_f["*_knee"] = torques
        each.joint_f["abdomen_x"] += 1.0
        each.reset(mask, joint_q=q)
        each.step(7)
        each.reset(~mask)
        each.joint_act.assign(np.ones(27), mask)
        each.step(3)
    np.testing.assert_array_equal(held, sim.joint_q.numpy())
    for name in ("joint_qd", "body_q", "joint_f", "joint_act"):
        np.testing.assert_array_equal(getattr(group, name).numpy(), getattr(sim, name).numpy(), err_msg=name)
    np.testing.assert_array_equal(group.joint_q["root.z"] < 1.2, sim.joint_q["root.z"] < 1.2)
    assert group.joint_q["left_knee"].shape == (WORLDS,) and group.find_dofs("left_knee") == sim.find_dofs("left_knee")
    assert group.time == sim.time and not group.diverged.any()


def test_tensors_of_a_group_are_by_simulation(pair):
    pytest.importorskip("torch")
    group, _ = pair
    assert len(group.joint_q.torch()) == 2


def test_what_a_group_cannot_do_is_told(pair):
    group, _ = pair
    with pytest.raises(ValueError, match="there are 5 worlds"):
        group.reset([True, False])
    with pytest.raises(ValueError, match="there are 5 worlds"):
        group.joint_f = np.zeros((4, 27))
    with pytest.raises(TypeError, match=r"numpy\(\)"):
        group.joint_f[3] = 1.0
    with pytest.raises(AttributeError, match=r"group\.simulations"):
        group.solver  # noqa: B018
    with pytest.raises(ThreadsError, match="3 devices, but only 2 worlds"):
        SimulationGroup.from_scene("cube", devices=["cpu"] * 3, num_worlds=2)
    with pytest.raises(TypeError, match="SimulationGroup"):
        Simulation.from_scene("cube", device=["cpu", "cpu"])
    with pytest.raises(TypeError, match="list of devices"):
        SimulationGroup.from_scene("cube", devices="cpu")


def test_a_control_sequence_is_shared_out(tmp_path):
    """Each simulation plays it in its own worlds."""
    file = tmp_path / "motion.json"
    motion = {"dt": 0.004, "joint_labels": ["elbow"], "joint_target_pos": [[0.1], [0.2], [0.3]]}
    file.write_text(json.dumps(motion | {"joint_target_vel": [[0.0], [1.0], [2.0]]}))
    scene = {"assets": [{"type": "mjcf", "source": ARM}], "ground": False, "simulation": {"dt": 0.002}}
    scene["control"] = {"source": str(file)}
    group = SimulationGroup.from_scene(scene, devices=["cpu", "cpu"], num_worlds=3)
    sim = Simulation.from_scene(scene, num_worlds=3, device="cpu")
    for each in (group, sim):
        each.step(4)
    assert sim.joint_target_q["elbow"].numpy().tolist() == np.float32([0.2] * 3).tolist()
    for name in ("joint_target_q", "joint_target_qd", "joint_q"):
        np.testing.assert_array_equal(getattr(group, name).numpy(), getattr(sim, name).numpy(), err_msg=name)
