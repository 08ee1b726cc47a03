"""Robots with the features of those that people have, and random ones: as in MuJoCo.

The folder ``menagerie`` is laid out like a checkout of MuJoCo's collection. Its robots are our own: arms with tendon
and linkage grippers, a hand, legs, wheels, loops, drones, attached and replicated parts, mocap bodies.
"""

from __future__ import annotations

import functools
from pathlib import Path

import mujoco
import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.scene.robots import find_robot
from tests.support import beside_mujoco as beside
from tests.support.random_mjcf import differences

FOLDER = Path(__file__).parent / "menagerie"
ROBOTS = {path.stem: path for path in sorted(FOLDER.glob("*/*_like.xml"))}
NOTED = {
    "any_like": ("priority", "condim"),
    "biped_like": ("condim",),
    "fly_like": ("fluidshape", "adhesion"),
    "stretch_like": ("condim", "priority", "<pair condim", "friction (0.9)"),
    "mobile_like": ("actuatorgravcomp",),
    "gripper_like": ("priority",),
    "dog_like": ("condim", "condim", "priority"),
}
"""What is listed as not simulated."""
MOVED = dict.fromkeys(ROBOTS, 2e-5) | {"biped_like": 1e-3, "humanoid_like": 1e-3}
MOVED |= {"fly_like": 1.0, "mobile_like": 5e-3}
"""Of bodies [m or rad]: stiff springs and drives are not resolved by the step; what is noted moves differently."""
HELD = {"panda_like": 1e-3, "ur_like": 1e-3, "gripper_like": 1e-3, "xarm_like": 2e-3, "aloha_like": 1e-3}
HELD |= {"drone_like": 1e-3, "mobile_like": 1e-3, "stretch_like": 1e-3, "dog_like": 1e-2, "any_like": 1e-2}
HELD |= dict.fromkeys(("tendon_hand_like", "rover_like", "hexa_like", "strider_like", "fourbar_like"), 1e-3)
"""Largest difference of a joint after 2 s [rad or m]; legs on the ground creep in MuJoCo."""


@functools.cache
def built(name):
    """In MuJoCo and here, for all tests."""
    reference = beside.compile_mujoco(ROBOTS[name])
    return reference, beside.load(ROBOTS[name], float(reference.opt.timestep))


@pytest.mark.parametrize("name", ROBOTS)
def test_robot_is_built_and_moves_as_in_mujoco(name, rng):
    """Masses, inertias, joints, contact rules, a random pose, and 10 ms of motion without constraints from there."""
    reference, loaded = built(name)
    noted = NOTED.get(name, ())
    assert len(loaded.unsupported_features) == len(noted), loaded.unsupported_features
    assert all(any(word in str(feature) for feature in loaded.unsupported_features) for word in noted)
    assert beside.structure(reference, loaded) + beside.pair_differences(reference, loaded) == []
    files = beside.Files.at(ROBOTS[name])
    try:
        start, (off, where) = beside.motion(files, rng, dt=1e-4, steps=100)
    finally:
        files.clean()
    assert start[0] < 1e-5, start
    assert off < MOVED[name], where


@pytest.mark.parametrize("name", HELD)
def test_robot_holds_its_home_as_in_mujoco(name):
    """With all its constraints, at the same step: linkages of a plane once flew apart."""
    scene = ROBOTS[name].with_name("scene.xml")  # with its ground, where there is one
    robot = built(name)
    if scene.exists():
        reference = beside.compile_mujoco(scene)
        robot = reference, beside.load(scene, float(reference.opt.timestep))
    off, where, unconverged = beside.held(*robot)
    assert off < HELD[name], where
    assert unconverged == 0


@pytest.mark.parametrize("seed", range(20))
def test_random_robot_is_as_in_mujoco(seed):
    """`python -m tests.support.random_mjcf --seeds 1000` compares more of them."""
    outcome = differences(seed)
    assert outcome.found == [], outcome.text


def test_checkout_is_found_by_short_names(monkeypatch):
    monkeypatch.setenv("SAP_WARP_MENAGERIE", str(FOLDER))
    assert find_robot("dog_like").path == find_robot("unitree_dog_like").path == ROBOTS["dog_like"]
    assert find_robot("menagerie:aloha_like").path == ROBOTS["aloha_like"]
    sim = Simulation.from_robot("dog_like")
    sim.step(500)
    assert 0.2 < float(np.array(sim.joint_q)[0, 2]) < 0.3 and (np.asarray(sim.status) == 0).all()


MOCAP = """<mujoco><worldbody>
<body name="target" mocap="true" pos=".3 0 .3"><geom type="box" size=".02 .02 .02"/></body>
<body name="link" pos="0 0 .3"><joint name="j" axis="0 1 0" damping=".1"/><joint name="k" type="slide" axis="1 0 0"
damping="1"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" contype="0" conaffinity="0"/></body></worldbody>
<equality><connect body1="link" body2="target" anchor=".3 0 0"/></equality>
<keyframe><key name="a" mpos=".35 0 .2" mquat=".7 0 .7 0"/></keyframe></mujoco>"""


def test_mocap_body_stays_where_a_keyframe_puts_it_and_pulls():
    reference = mujoco.MjModel.from_xml_string(MOCAP)
    data = mujoco.MjData(reference)
    mujoco.mj_resetDataKeyframe(reference, data, 0)
    mujoco.mj_step(reference, data, 1500)
    loaded = beside.load(MOCAP, 0.002)
    assert loaded.unsupported_features == []
    sim = Simulation.from_loaded(loaded)
    sim.reset(keyframe="a")
    sim.step(1500)
    q = np.array(sim.joint_q)[0]
    np.testing.assert_allclose(q[:7], [0.35, 0, 0.2, 0, 0.5**0.5, 0, 0.5**0.5], atol=1e-6)
    np.testing.assert_allclose(q[7:9], data.qpos, atol=1e-3)
