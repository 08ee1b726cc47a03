"""Inputs of MuJoCo's actuators by name, as the model has them."""

import json

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation, load_sap_scene

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


RISE = """<mujoco><worldbody><body pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping="0.1"/>
  <geom size=".05" pos=".2 0 0" mass="1"/></body></worldbody><actuator>
  <general name="rise" joint="shoulder" gear="2" dyntype="filter" dynprm="0.01" gainprm="5"/></actuator></mujoco>
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_effort_limits_hold_actuators_with_dynamics_at_once(threads):
    """Assigned after steps were taken, a limit acts as one that was there from the beginning; nothing is notified."""
    options = {"num_worlds": 2, "device": "cpu", "threads": threads}
    source = {"assets": [{"type": "mjcf", "source": RISE}], "ground": False, "simulation": {"dt": 0.002}}
    late, plain = Simulation.from_scene(source, **options), Simulation.from_scene(source, **options)
    early = load_sap_scene(source, num_worlds=2, device="cpu")
    early.sap_model.joint_effort_limit.assign(np.float32([1e6, 0.5]))
    early = Simulation.from_loaded(early, threads=threads)
    late.step(3)
    late.joint_effort_limit["shoulder"] = [1e6, 0.5]
    late.reset()
    for sim in (late, early, plain):
        sim.ctrl["rise"] = 1.0
        sim.step(50)
    np.testing.assert_array_equal(late.joint_q.numpy(), early.joint_q.numpy())
    np.testing.assert_array_equal(late.joint_q.numpy()[0], plain.joint_q.numpy()[0])
    assert abs(late.joint_q[1, 0] - plain.joint_q[1, 0]) > 0.01


@pytest.mark.parametrize("threads", [1, 2])
def test_a_control_sequence_plays_ctrl(tmp_path, threads):
    """Beside joint targets, in every world, as a program does that writes them before each step."""
    samples = [[1.5], [-0.5], [0.25]]
    file = tmp_path / "motion.json"
    content = {"dt": 0.01, "actuator_labels": ["push"], "ctrl": samples}
    content |= {"joint_labels": ["elbow"], "joint_target_pos": [[0.1], [0.2], [0.3]]}
    file.write_text(json.dumps(content))
    options = {"num_worlds": 2, "device": "cpu", "threads": threads}
    played = Simulation.from_scene(scene() | {"control": {"source": str(file)}}, **options)
    written = Simulation.from_scene(scene(), **options)
    for (push,), target in zip(samples, (0.1, 0.2, 0.3), strict=True):
        written.ctrl["push"] = push
        written.joint_target_q["elbow"] = target
        written.step(5)
    played.step(15)
    np.testing.assert_array_equal(played.joint_q.numpy(), written.joint_q.numpy())
    np.testing.assert_array_equal(played.ctrl["push"], [0.25, 0.25])
    played.reset()
    played.step()
    np.testing.assert_array_equal(played.ctrl["push"], [1.5, 1.5])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"actuator_labels": ["pish"]}, "actuator 'pish' is unknown; did you mean 'push'"),
        ({"actuator_labels": ["hold"]}, "actuator 'hold' follows joint targets"),
        ({"actuator_labels": ["push", "push"]}, "actuator_labels names an actuator twice"),
        ({"ctrl": [[1.0, 2.0]]}, "ctrl has shape .* one for each actuator label"),
        ({"joint_labels": ["elbow"], "joint_target_pos": [[0.0]]}, "joint_target_pos and ctrl have different numbers"),
    ],
)
def test_what_is_wrong_with_a_sequence_of_ctrl_is_said(tmp_path, changes, text):
    file = tmp_path / "motion.json"
    file.write_text(json.dumps({"dt": 0.01, "actuator_labels": ["push"], "ctrl": [[1.0], [2.0]]} | changes))
    with pytest.raises(ValueError, match=text):
        load_sap_scene(scene() | {"control": {"source": str(file)}}, device="cpu")
