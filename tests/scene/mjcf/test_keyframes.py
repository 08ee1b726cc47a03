"""Keyframes of MJCF files against MuJoCo: poses and velocities of bodies, targets, inputs of actuators."""

from __future__ import annotations

import mujoco
import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation
from sap_warp.scene import SapSceneError, load_sap_scene
from tests.support.oracle.kinematics import matrix_from_quat

STILL = np.eye(3)
ROBOT = """<mujoco><compiler angle="radian"/><worldbody><body name="base" pos="0 0 1"><freejoint name="root"/>
<geom size=".1 .2 .3" type="box" pos=".1 .2 0"/>
<body name="arm" pos=".3 0 0" euler=".1 .2 .3"><joint name="h" axis="0 1 1"/><geom size=".1" pos=".1 0 .2"/>
<body name="ball" pos="0 .2 0"><joint name="b" type="ball"/><geom size=".1" pos="0 .1 0"/>
<body name="tool" pos="0 0 .3"><joint name="r" ref=".2" axis="0 0 1"/><geom size=".1" pos="0 .1 0"/></body></body>
</body>
<body name="cart" pos="0 .3 0"><joint name="s" type="slide" axis="1 0 0"/><geom size=".1"/></body></body></worldbody>
<contact><exclude body1="base" body2="ball"/></contact>
<actuator><motor joint="h" ctrlrange="-1 1"/><position name="p" joint="s" kp="5" gear="2"/><velocity joint="r" kv="3"/>
<motor joint="s"/></actuator>
<keyframe>
<key name="home" qpos="1 2 3 .5 .5 -.5 .5 .4 .5 .5 .5 -.5 .6 .7"
 qvel="1 2 3 .4 .5 .6 .7 .8 .9 1 1.1 1.2" ctrl="3 .6 .3 .2"/>
<key qpos="0 0 1 1 0 0 0 0 1 0 0 0 .2 0"/></keyframe></mujoco>"""


def load(text=ROBOT, worlds=1, **options):
    asset = {"type": "mjcf", "source": text, **options}
    return load_sap_scene({"assets": [asset], "ground": False, "simulation": {"num_worlds": worlds}}, device="cpu")


def mujoco_state(text, key):
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, key)
    mujoco.mj_forward(model, data)
    return model, data


def check_bodies(loaded, key, text, index, turn=STILL, shift=(0.0, 0.0, 0.0)):
    """Poses and velocities of all bodies are MuJoCo's, moved."""
    model, data = mujoco_state(text, index)
    sap = loaded.sap_model.newton_model
    state = sap.state()
    q, qd = (wp.array(values, dtype=wp.float32, device="cpu") for values in (key.joint_q, key.joint_qd))
    newton.eval_fk(sap, q, qd, state)
    poses, twists = state.body_q.numpy(), state.body_qd.numpy()
    for i, label in enumerate(loaded.body_labels):
        number = model.body(label.rsplit("/", 1)[-1]).id
        np.testing.assert_allclose(poses[i, :3], turn @ data.xpos[number] + shift, atol=2e-6)
        expected = turn @ data.xmat[number].reshape(3, 3)
        np.testing.assert_allclose(matrix_from_quat(poses[i, 3:]), expected, atol=2e-6)
        twist = np.zeros(6)  # [w, v] at the centre of mass, world axes
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, number, twist, 0)
        np.testing.assert_allclose(twists[i, 3:], turn @ twist[:3], atol=5e-6, err_msg=label)
        np.testing.assert_allclose(twists[i, :3], turn @ twist[3:], atol=5e-6, err_msg=label)


def test_keyframes_are_those_of_mujoco():
    loaded = load()
    assert loaded.unsupported_features == [] and list(loaded.keyframes) == ["home", "1"]
    check_bodies(loaded, loaded.keyframes["home"], ROBOT, 0)
    check_bodies(loaded, loaded.keyframes["1"], ROBOT, 1)


def test_keyframes_move_with_the_asset():
    quaternion = np.array([0.5, -0.5, 0.5, 0.5])
    loaded = load(xform={"p": [1, 2, 3], "q": quaternion.tolist()}, label_prefix="left")
    turn = np.array(matrix_from_quat(quaternion))
    check_bodies(loaded, loaded.keyframes["left/home"], ROBOT, 0, turn, (1.0, 2.0, 3.0))


def test_controls_of_a_keyframe_are_targets_and_inputs():
    key = load().keyframes["home"]
    assert key.ctrl.tolist() == [1.0, 0.0, 0.0, 0.2]  # the first one is clamped to its range
    # coordinates: 7 of the base, h, 4 of the ball, r, s; dofs: 6 of the base, h, 3 of the ball, r, s
    assert key.joint_target_q[13] == pytest.approx(0.3)  # 0.6 through a gear of 2
    assert key.joint_target_qd[10] == pytest.approx(0.3)
    np.testing.assert_allclose(key.joint_q[12:], [0.4, 0.7], atol=1e-7)  # Newton counts from ref


def test_scale_and_other_joints_of_the_base():
    scaled = load(scale=2.0).keyframes["home"]
    np.testing.assert_allclose(scaled.joint_q[:3], [2, 4, 6], atol=1e-6)
    assert scaled.joint_q[13] == pytest.approx(1.4) and scaled.joint_qd[11] == pytest.approx(2.4)
    fixed = load(floating=False).keyframes["home"]
    np.testing.assert_allclose(fixed.joint_q, [0.4, 0.5, 0.5, -0.5, 0.5, 0.4, 0.7], atol=1e-6)


def test_joints_of_one_body_keep_their_values():
    """Newton would put the slide first; a body without mass between the two keeps MuJoCo's order."""
    text = """<mujoco><worldbody><body><joint name="h"/><joint name="s" type="slide"/><geom size=".1"/></body>
    </worldbody><keyframe><key name="k" qpos=".1 .2" qvel=".3 .4"/></keyframe></mujoco>"""
    key = load(text).keyframes["k"]
    np.testing.assert_allclose([key.joint_q, key.joint_qd], [[0.1, 0.2], [0.3, 0.4]])


def test_key_with_a_wrong_number_of_positions_is_an_error_with_its_line():
    with pytest.raises(SapSceneError, match=r"line 3: keyframe 'k' has 2 numbers in qpos; the model has 1"):
        load("""<mujoco><worldbody><body><joint/><geom size=".1"/></body></worldbody>
        <keyframe>
<key name="k" qpos="1 2"/></keyframe></mujoco>""")


@pytest.fixture(scope="module", params=[1, 2])
def sim(request):
    loaded = load(worlds=3)
    with Simulation.from_loaded(loaded, threads=request.param) as simulation:
        yield simulation


def test_reset_to_a_keyframe_sets_chosen_worlds(sim):
    key = sim.keyframes["home"]
    sim.model.mujoco.ctrl.zero_()
    sim.reset()
    sim.reset(world_mask=[False, True, False], keyframe="home")
    others = sim.keyframes["1"].joint_q
    np.testing.assert_allclose(sim.joint_q.numpy()[1], key.joint_q, atol=1e-6)
    np.testing.assert_allclose(sim.joint_qd.numpy()[1], key.joint_qd, atol=1e-6)
    np.testing.assert_allclose(sim.joint_q.numpy()[[0, 2]], [others, others], atol=1e-6)
    np.testing.assert_allclose(sim.joint_target_q.numpy()[1], key.joint_target_q, atol=1e-6)
    np.testing.assert_allclose(sim.joint_target_qd.numpy()[1], key.joint_target_qd, atol=1e-6)
    assert sim.model.mujoco.ctrl.numpy().reshape(3, 4).tolist() == [[0] * 4, np.float32(key.ctrl).tolist(), [0] * 4]
    sim.step(3)
    assert sim.step_count == 3 and np.isfinite(sim.joint_q.numpy()).all()
    sim.reset(keyframe="home")
    assert sim.step_count == 0
    np.testing.assert_allclose(sim.joint_q.numpy(), [key.joint_q] * 3, atol=1e-6)


def test_given_positions_win_over_the_keyframe(sim):
    sim.reset(keyframe="home", joint_q=sim.keyframes["1"].joint_q)
    np.testing.assert_allclose(sim.joint_q.numpy()[0], sim.keyframes["1"].joint_q, atol=1e-6)
    np.testing.assert_allclose(sim.joint_qd.numpy()[0], sim.keyframes["home"].joint_qd, atol=1e-6)


def test_unknown_keyframe_names_those_there_are(sim):
    with pytest.raises(ValueError, match="keyframe is 'hom'; the scene has 'home', '1'"):
        sim.reset(keyframe="hom")


@pytest.mark.parametrize("name", [0, ["home"], True])
def test_a_keyframe_is_named(sim, name):
    with pytest.raises(TypeError, match="it must be a name, or None"):
        sim.reset(keyframe=name)


def test_reset_to_a_keyframe_heals_inputs_and_leaves_nothing_of_steps_before(sim):
    """Chosen worlds are those of a simulation that never did anything else; others are the user's."""
    ctrl, views = sim.model.mujoco.ctrl, [sim.joint_q, sim.joint_qd, sim.body_q, sim.body_qd, sim.body_f]
    inputs = [sim.joint_target_q, sim.joint_target_qd, sim.joint_f, sim.joint_act]
    ctrl.zero_()
    sim.reset(keyframe="home")
    fresh = [view.numpy().copy() for view in (*views, *inputs)]
    sim.step(3)
    later = sim.joint_q.numpy().copy()
    for view in inputs:
        view.numpy()[1].flat[7] = np.nan
    ctrl.numpy()[4:8] = np.nan
    sim.reset(world_mask=[False, True, False], keyframe="home")
    for view, expected in zip((*views, *inputs), fresh, strict=True):
        np.testing.assert_array_equal(view.numpy()[1], expected[1], err_msg=view.name)
    np.testing.assert_array_equal(sim.joint_q.numpy()[[0, 2]], later[[0, 2]])
    assert ctrl.numpy().reshape(3, 4).tolist() == [np.float32(sim.keyframes["home"].ctrl).tolist()] * 3
    assert sim.step_count == 3 and not sim.diverged.any()


def test_robot_whose_contacts_are_all_pairs_rests_on_its_floor():
    text = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1" contype="0" conaffinity="0"/>
    <body pos="0 0 .2"><freejoint/><geom name="g" size=".1" contype="0" conaffinity="0"/></body></worldbody>
    <contact><pair geom1="floor" geom2="g"/></contact></mujoco>"""
    with Simulation.from_loaded(load(text, worlds=2)) as sim:
        sim.step(400)
        np.testing.assert_allclose(sim.body_q.numpy()[:, 0, 2], 0.1, atol=2e-3)


def test_speed_of_a_free_body_after_a_fixed_one_is_about_its_own_centre():
    """A fixed joint begins at the same coordinate as the free one after it, whose centre of mass counts."""
    text = """<mujoco><worldbody><body name="m" pos=".1 0 1"><geom size=".01" pos="0 0 9"/></body>
    <body name="a" pos="0 0 1"><freejoint/><geom type="box" size=".1 .1 .1" pos=".5 0 0"/></body></worldbody>
    <keyframe><key name="k" qpos="0 0 1 1 0 0 0" qvel=".1 .2 .3 0 1 2"/></keyframe></mujoco>"""
    loaded = load_sap_scene({"assets": [{"type": "mjcf", "source": text}], "ground": False}, device="cpu")
    np.testing.assert_allclose(loaded.keyframes["k"].joint_qd, [0.1, 0.2 + 2 * 0.5, 0.3 - 0.5, 0, 1, 2], atol=1e-6)
