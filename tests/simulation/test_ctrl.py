"""Inputs of MuJoCo's actuators by name, as the model has them."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation

ARM = """<mujoco><worldbody><body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping="0.1"/>
  <geom size=".05" pos=".2 0 0" mass="1"/>
  <body name="lower" pos=".4 0 0"><joint name="elbow" axis="0 1 0" damping="0.1"/>
  <geom size=".05" pos=".2 0 0" mass="1"/></body></body></worldbody><actuator>
  <motor name="push" joint="shoulder" gear="2"/><position name="hold" joint="elbow" kp="20" kv="2"/></actuator></mujoco>
"""


def scene(**options):
    return {"assets": [{"type": "mjcf", "source": ARM, **options}], "ground": False, "simulation": {"dt": 0.002}}


def test_ctrl_by_name_drives_the_joint():
    """A motor with gear 2 does what twice the force does."""
    sim, other = (Simulation.from_scene(scene(), num_worlds=2, device="cpu") for _ in range(2))
    sim.ctrl["push"] = [1.5, -0.5]
    other.joint_f["shoulder"] = [3.0, -1.0]
    for each in (sim, other):
        each.step(20)
    np.testing.assert_allclose(sim.joint_q.numpy(), other.joint_q.numpy(), atol=1e-6)
    assert abs(sim.joint_q[0, 0] - sim.joint_q[1, 0]) > 1e-3
    np.testing.assert_array_equal(sim.ctrl.numpy().ravel(), sim.model.mujoco.ctrl.numpy())
    with pytest.raises(ValueError, match=r"'hold' follow joint targets .* joint_target_q"):
        sim.ctrl["hold"] = 1.0
    with pytest.raises(ValueError, match="'hold'"):
        sim.ctrl[1, "*"] = 1.0


@pytest.mark.parametrize("threads", [1, 2])
def test_with_ctrl_direct_a_scene_takes_all_inputs_as_ctrl(threads):
    """A position actuator moves its joint like the drive that it is without."""
    direct = Simulation.from_scene(scene(ctrl_direct=True), num_worlds=2, device="cpu", threads=threads)
    drive = Simulation.from_scene(scene(), num_worlds=2, device="cpu")
    direct.ctrl = [[0.0, 0.3], [0.5, -0.4]]
    drive.joint_target_q["elbow"] = [0.3, -0.4]
    drive.ctrl["push"] = [0.0, 0.5]
    for sim in (direct, drive):
        sim.step(100)
    np.testing.assert_allclose(direct.joint_q.numpy(), drive.joint_q.numpy(), atol=1e-5)
    assert np.abs(direct.joint_q.numpy()).max() > 0.2


def test_newtons_control_is_taken_with_its_ctrl():
    world, builder = newton.ModelBuilder(), newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(world)
    world.add_mjcf(ARM)
    builder.replicate(world, 2)
    model = builder.finalize("cpu")
    control = model.control()
    control.mujoco.ctrl.assign(np.float32([1, 0, 2, 0]))
    control.joint_target_q.fill_(0.25)
    control.joint_f.fill_(0.5)
    sim = Simulation(model, dt=0.002, control=control, max_rigid_contact=4, notes=False)
    np.testing.assert_array_equal(sim.ctrl["push"], [1.0, 2.0])
    np.testing.assert_array_equal(sim.joint_target_q, np.full((2, 2), 0.25))
    np.testing.assert_array_equal(sim.joint_f, np.full((2, 2), 0.5))
    control.mujoco.ctrl.fill_(9.0)  # it was copied
    np.testing.assert_array_equal(sim.ctrl["push"], [1.0, 2.0])
    control.mujoco.ctrl = control.mujoco.ctrl[:1]
    with pytest.raises(ValueError, match=r"control.mujoco.ctrl has shape \(1,\); expected \(4,\)"):
        Simulation(model, dt=0.002, control=control, notes=False)


def test_a_simulation_without_inputs_says_so():
    follows = ARM.replace('<motor name="push" joint="shoulder" gear="2"/>', "")
    bare = follows.split("<actuator>")[0] + "</mujoco>"
    for source, text in ((follows, "follow joint targets.*ctrl_direct"), (bare, "no actuators")):
        sim = Simulation.from_scene({"assets": [{"type": "mjcf", "source": source}], "ground": False}, device="cpu")
        with pytest.raises(AttributeError, match=text):
            sim.ctrl["push"] = 1.0
        assert not hasattr(sim, "ctrl")


def test_views_of_the_model_follow_arrays_that_were_replaced():
    """And stay the same objects where they were not."""
    sim = Simulation.from_scene(scene(), num_worlds=2, device="cpu")
    gravity, ctrl = sim.gravity, sim.ctrl
    sim.notify_model_changed()
    assert sim.gravity is gravity and sim.ctrl is ctrl
    sim.model.mujoco.ctrl = wp.clone(sim.model.mujoco.ctrl)
    sim.model.gravity = wp.clone(sim.model.gravity)
    sim.notify_model_changed()
    sim.ctrl["push"] = 2.0
    sim.gravity[...] = [0.0, 0.0, -1.0]
    assert sim.model.mujoco.ctrl.numpy().tolist() == [2.0, 0.0, 2.0, 0.0]
    np.testing.assert_array_equal(sim.model.gravity.numpy()[:2], [[0, 0, -1]] * 2)
