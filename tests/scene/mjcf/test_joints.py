"""Joints and actuators that Newton's importer would change: the motion is MuJoCo's, from random states."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.scene import load_sap_scene
from tests.support import beside_mujoco as beside

DT, STEPS = 2e-4, 50
GEOM = '<geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" density="800" contype="0" conaffinity="0"/>'
ARM = f"""<mujoco>{{top}}<worldbody><body name="p" pos="0 0 1"><joint name="p" axis="0 1 0"/>{GEOM}
<body name="a" pos=".3 0 0" euler="0 10 20">{{joints}}{GEOM}</body></body></worldbody>{{end}}{{key}}</mujoco>"""
BALL = '<joint name="x" type="ball" damping=".1"/>'
HINGE = '<joint name="x" axis="1 0 0"/>'
CASES = {
    "hinges about two points": ('<joint name="x" axis="1 0 .5"/><joint name="y" axis="0 1 0" pos="0 0 .1"/>', "", ""),
    "slide after hinge": ('<joint name="x" axis="1 1 0"/><joint name="y" type="slide" axis="0 1 0"/>', "", ""),
    "slide and ball": (
        '<joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="ball" pos=".02 0 0"/>',
        "",
        "",
    ),
    "motor on a ball": (BALL, "", '<motor joint="x" gear="1 2 3"/>'),
    "motor on a ball, axes of the parent": (BALL, "", '<motor jointinparent="x" gear="1 2 3"/>'),
    "servo on a ball": (BALL, "", '<position joint="x" gear="1 .5 0" kp="5" kv=".2"/>'),
    "position and velocity": (HINGE, "", '<position joint="x" kp="30" kv="1"/><velocity joint="x" kv="2"/>'),
    "inertia of a motor": (HINGE, "", '<motor joint="x" gear="2" armature=".1" damping=".3"/>'),
    "groups": (
        HINGE,
        '<option actuatorgroupdisable="1 3"/>',
        '<motor joint="x" group="1" gear="9"/><motor joint="p" group="2"/><position joint="x" group="3" kp="9"/>',
    ),
    "spring of a ball": (
        '<joint name="x" type="ball" stiffness="9" springref="40" damping=".1" pos=".02 0 0"/>',
        "",
        '<motor joint="p"/>',
    ),
    "total mass": (HINGE, '<compiler boundmass="2" settotalmass="7"/>', '<motor joint="x"/>'),
    "bounds of masses": (HINGE, '<compiler boundmass="2" boundinertia=".01"/>', '<motor joint="x"/>'),
}


def text_of(joints, top, actuators, key=""):
    return ARM.format(joints=joints, top=top, end=f"<actuator>{actuators}</actuator>", key=key)


def random_key(reference, rng):
    """A keyframe near the pose of the file, with random speeds and inputs."""
    data = mujoco.MjData(reference)
    mujoco.mj_integratePos(reference, data.qpos, rng.uniform(-0.4, 0.4, reference.nv), 1.0)
    lists = (data.qpos, rng.uniform(-1, 1, reference.nv), rng.uniform(-0.5, 0.5, reference.nu))
    q, v, u = (" ".join(map(repr, map(float, values))) for values in lists)
    return f'<keyframe><key name="k" qpos="{q}" qvel="{v}" {f"ctrl={chr(34)}{u}{chr(34)}" if u else ""}/></keyframe>'


def ours(text, dt, steps):
    """Body poses after some steps."""
    scene = {"assets": [{"type": "mjcf", "source": text}], "ground": False, "simulation": {"dt": dt}}
    loaded = load_sap_scene(scene, device="cpu")
    assert loaded.unsupported_features == []
    sim = Simulation.from_loaded(loaded)
    sim.reset(keyframe="k")
    sim.step(steps)
    labels = [label.rsplit("/", 1)[-1] for label in loaded.body_labels]
    return sim.model.body_mass.numpy()[labels.index("a")], np.array(sim.body_q)[0][labels.index("a")].astype(float)


@pytest.mark.parametrize("name", CASES)
def test_body_moves_as_in_mujoco(name, rng):
    """Against the fine solution of MuJoCo, with the first order of our time step taken out."""
    key = random_key(mujoco.MjModel.from_xml_string(text_of(*CASES[name])), rng)
    text = text_of(*CASES[name], key=key)
    reference = mujoco.MjModel.from_xml_string(text)
    reference.opt.timestep, reference.opt.integrator = DT / 5, mujoco.mjtIntegrator.mjINT_RK4
    data = mujoco.MjData(reference)
    mujoco.mj_resetDataKeyframe(reference, data, 0)
    mujoco.mj_step(reference, data, 5 * STEPS)
    mujoco.mj_kinematics(reference, data)
    mass, coarse = ours(text, DT, STEPS)
    _, fine = ours(text, DT / 2, 2 * STEPS)
    found = 2.0 * fine - coarse
    body = reference.body("a").id
    assert mass == pytest.approx(reference.body_mass[body], rel=1e-5)
    np.testing.assert_allclose(found[:3], data.xpos[body], atol=1e-5)
    q = np.roll(data.xquat[body], -1)
    np.testing.assert_allclose(found[3:] * np.sign(found[3:] @ q), q, atol=1e-5)


FREE = """<mujoco><default><joint damping="3" armature=".4"/></default><worldbody>
<body name="a" pos="0 0 1" quat="1 .2 .3 .1"><joint type="free"/>
<geom type="box" size=".1 .2 .3" pos=".1 .2 .05" mass="2" euler="10 20 30"/></body>
<body name="b"><freejoint/><geom type="box" size=".1 .2 .3" pos=".1 .2 .05" mass="2"/></body></worldbody></mujoco>"""


def test_free_joint_has_the_armature_and_damping_of_its_class(rng):
    """They act at the origin of the body, not at its centre of mass; <freejoint> has none."""
    loaded = beside.load(FREE, DT)
    assert loaded.unsupported_features == []
    for array, value in ((loaded.sap_model.joint_armature, 0.4), (loaded.sap_model.newton_model.joint_damping, 3.0)):
        np.testing.assert_allclose(array.numpy(), np.repeat([value, 0.0], 6), rtol=1e-6)
    _, (off, where) = beside.motion(beside.Files(FREE), rng, dt=DT, steps=500)
    assert off < 2e-5, where
