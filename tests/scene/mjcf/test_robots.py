"""Robots in the style of MuJoCo's own collection: equal to what MuJoCo compiles, and as steady under their own gains.

Default classes, keyframes, mesh geoms, gravity compensation, tendons, equalities, actuators on sites.
"""
# ruff: noqa: E501 - MJCF on long lines

from __future__ import annotations

import functools

import mujoco
import newton
import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.scene import load_sap_scene
from sap_warp.simulation.checkpoint.keyframes import go_home

DT = 0.002
BAR = "-.03 -.03 0 .03 -.03 0 .03 .03 0 -.03 .03 0 -.02 -.02 .3 .02 -.02 .3 .02 .02 .3 -.02 .02 .3"

ARM = f"""<mujoco model="arm"><compiler angle="radian" autolimits="true"/><option integrator="implicitfast"/>
<asset><mesh name="bar" vertex="{BAR}" inertia="exact"/></asset>
<default><default class="arm"><joint armature="0.1" damping="1" axis="0 0 1" range="-2.9 2.9"/>
 <general dyntype="none" biastype="affine" ctrlrange="-2.9 2.9" forcerange="-87 87"/>
 <default class="collision"><geom type="mesh" mesh="bar" group="3" density="2000"/></default>
 <default class="finger"><joint axis="0 1 0" type="slide" range="0 .04" damping="2"/></default></default></default>
<worldbody><body name="l0" childclass="arm" pos="0 0 .1"><geom class="collision"/>
 <body name="l1" pos="0 0 .3" gravcomp="1"><joint name="j1"/><geom class="collision"/>
 <body name="l2" pos="0 0 .3" quat="1 -1 0 0"><joint name="j2"/><geom class="collision"/>
 <body name="l3" pos="0 -.02 .3" gravcomp="0.5"><joint name="j3" frictionloss="0.2"/><geom class="collision"/>
 <body name="hand" pos="0 0 .3"><inertial pos="0 0 .05" mass=".7" diaginertia="1e-3 2e-3 1e-3"/>
  <body name="left" pos="0 0 .1"><joint name="f1" class="finger"/><geom type="box" size=".01 .005 .02" pos="0 .02 0"/></body>
  <body name="right" pos="0 0 .1" quat="0 0 0 1"><joint name="f2" class="finger"/>
   <geom type="box" size=".01 .005 .02" pos="0 .02 0"/></body></body></body></body></body></body></worldbody>
<tendon><fixed name="split"><joint joint="f1" coef=".5"/><joint joint="f2" coef=".5"/></fixed></tendon>
<equality><joint joint1="f1" joint2="f2" solimp=".95 .99 .001" solref=".005 1"/></equality>
<actuator><general class="arm" joint="j1" gainprm="450" biasprm="0 -450 -45"/>
 <general class="arm" joint="j2" gainprm="450" biasprm="0 -450 -45"/>
 <general class="arm" joint="j3" gainprm="350" biasprm="0 -350 -35"/>
 <general class="arm" tendon="split" forcerange="-100 100" ctrlrange="0 255" gainprm="0.01568" biasprm="0 -100 -10"/>
</actuator><keyframe><key name="home" qpos="0.3 0.4 -0.5 .02 .02" ctrl="0.3 0.4 -0.5 128"/></keyframe></mujoco>"""

DRONE = """<mujoco model="drone"><default><motor ctrlrange="0 13"/></default><worldbody>
<body name="drone" pos="0 0 1"><freejoint/><geom type="box" size=".1 .1 .02" mass="1.3"/>
 <site name="t1" pos="-.14 -.18 .05"/><site name="t2" pos="-.14 .18 .05"/><site name="t3" pos=".14 .18 .08"/>
 <site name="t4" pos=".14 -.18 .08"/></body></worldbody>
<actuator><motor site="t1" gear="0 0 1 0 0 -.0201"/><motor site="t2" gear="0 0 1 0 0 .0201"/>
 <motor site="t3" gear="0 0 1 0 0 -.0201"/><motor site="t4" gear="0 0 1 0 0 .0201"/></actuator>
<keyframe><key name="hover" qpos="0 0 1 1 0 0 0" ctrl="3.188250 3.188250 3.188250 3.188250"/></keyframe></mujoco>"""

FINGER = """<body name="p{n}" pos="{y} 0 0"><joint name="p{n}"/><geom type="capsule" fromto="0 0 0 0 0 .05" size=".008"/>
 <site name="a{n}" pos=".012 0 .03"/><geom name="pin{n}" type="cylinder" size=".006 .01" pos="0 0 .05" euler="90 0 0"
 contype="0" conaffinity="0" mass="0"/><site name="side{n}" pos=".02 0 .05"/>
 <body name="m{n}" pos="0 0 .05"><joint name="m{n}"/><geom type="capsule" fromto="0 0 0 0 0 .03" size=".007"/>
 <site name="b{n}" pos=".012 0 .02"/><body name="d{n}" pos="0 0 .03"><joint name="d{n}"/>
 <geom type="capsule" fromto="0 0 0 0 0 .02" size=".006"/></body></body></body>"""
HAND = f"""<mujoco model="hand"><default><joint axis="0 1 0" range="-10 90" damping=".05" armature=".0005" stiffness=".02"/>
<geom density="800" contype="0"/><position kp="1" ctrlrange="0 3" forcerange="-1 1"/></default><worldbody>
<body name="palm" pos="0 0 .5"><geom type="box" size=".06 .02 .04"/>{FINGER.format(n=1, y=-0.03)}{FINGER.format(n=2, y=0.03)}
</body></worldbody><tendon><fixed name="c1"><joint joint="m1" coef="1"/><joint joint="d1" coef="1"/></fixed>
<fixed name="c2" range="0 2"><joint joint="m2" coef="1"/><joint joint="d2" coef=".8"/></fixed>
<spatial name="flex" stiffness="20" damping=".5" springlength=".03"><site site="a1"/><geom geom="pin1" sidesite="side1"/>
<site site="b1"/></spatial></tendon><equality><joint joint1="d2" joint2="m2" polycoef="0 .7 0 0 0"/></equality><actuator>
<position joint="p1"/><position joint="p2"/><position tendon="c1" kp=".5" kv=".02"/><position tendon="c2" kp=".5" kv=".02"/>
</actuator><keyframe><key name="grasp" qpos=".3 .4 .4 .3 .4 .28" ctrl=".3 .3 .8 .6"/></keyframe></mujoco>"""

LEG = """<body name="hip{n}" pos="{x} {y} 0"><joint class="roll" name="r{n}"/><geom class="link" pos="0 0 -.1" euler="0 0 0"/>
<body name="thigh{n}" pos="0 {w} 0"><joint class="pitch" name="h{n}"/><geom class="link" euler="180 0 0"/>
<body name="calf{n}" pos="0 0 -.25"><joint class="pitch" name="k{n}" range="-160 -20"/><geom class="link" euler="180 0 0"/>
<geom type="sphere" size=".025" pos="0 0 -.28" friction=".9"/></body></body></body>"""
DOG = f"""<mujoco model="dog"><asset><mesh name="bar" vertex="{BAR}" scale=".5 .5 .8" inertia="exact"/></asset>
<default><joint damping=".3" armature=".02" frictionloss=".1"/><position kp="120" kv="3" inheritrange="1" forcerange="-45 45"/>
<default class="link"><geom type="mesh" mesh="bar" contype="0" conaffinity="0"/></default>
<default class="roll"><joint axis="1 0 0" range="-40 40"/></default>
<default class="pitch"><joint axis="0 1 0" range="-60 150"/></default></default><worldbody>
<geom type="plane" size="5 5 .1"/><body name="trunk" pos="0 0 .42"><freejoint/><geom type="box" size=".25 .1 .05" mass="7"/>
{LEG.format(n=1, x=0.2, y=0.1, w=0.05)}{LEG.format(n=2, x=0.2, y=-0.1, w=-0.05)}
{LEG.format(n=3, x=-0.2, y=0.1, w=0.05)}{LEG.format(n=4, x=-0.2, y=-0.1, w=-0.05)}</body></worldbody><actuator>
{"".join(f'<position joint="{k}{n}"/>' for n in (1, 2, 3, 4) for k in "rhk")}</actuator>
<keyframe><key name="home" qpos="0 0 .4 1 0 0 0 {"0 .7 -1.4 " * 4}" ctrl="{"0 .7 -1.4 " * 4}"/></keyframe></mujoco>"""
ROBOTS = {"arm": ARM, "drone": DRONE, "hand": HAND, "dog": DOG}
HELD = {"arm": 1e-3, "drone": 1e-3, "hand": 1e-3, "dog": 1e-2}
"""How far joints may be from MuJoCo's after 2 s [rad or m]; feet on compliant ground carry the dog's weight their own way."""


@functools.cache
def loaded(name):
    scene = {"assets": [{"type": "mjcf", "source": ROBOTS[name]}], "ground": False, "simulation": {"dt": DT}}
    return load_sap_scene(scene, device="cpu")


@pytest.mark.parametrize("name", ROBOTS)
def test_everything_is_simulated_and_weighs_what_it_weighs_in_mujoco(name):
    scene, reference = loaded(name), mujoco.MjModel.from_xml_string(ROBOTS[name])
    assert scene.unsupported_features == []
    model = scene.sap_model
    assert model.joint_dof_count == reference.nv
    labels = [label.rsplit("/", 1)[-1] for label in scene.body_labels]
    masses = model.body_mass.numpy()
    for body in range(1, reference.nbody):
        assert masses[labels.index(reference.body(body).name)] == pytest.approx(
            reference.body_mass[body], rel=1e-5, abs=1e-7
        )
    limited = reference.jnt_limited.astype(bool)
    dofs = reference.jnt_dofadr[limited]
    np.testing.assert_allclose(model.joint_limit_lower.numpy()[dofs], reference.jnt_range[limited, 0], atol=1e-5)
    np.testing.assert_allclose(model.joint_limit_upper.numpy()[dofs], reference.jnt_range[limited, 1], atol=1e-5)


@pytest.mark.parametrize("name", ["arm", "hand"])
def test_mass_matrix_is_that_of_mujoco_in_a_random_state(name, rng):
    reference = mujoco.MjModel.from_xml_string(ROBOTS[name])
    sim = Simulation.from_loaded(loaded(name), contact_preset_variant="drake")
    data = mujoco.MjData(reference)
    data.qpos[:] = rng.uniform(0.0, 0.5, reference.nq).astype(np.float32)
    mujoco.mj_forward(reference, data)
    state = sim.model.state()
    state.joint_q.assign(data.qpos.astype(np.float32))
    newton.eval_fk(sim.model, state.joint_q, state.joint_qd, state)
    A = sim.solver.compute_free_motion(state, None, 1e-9).dynamics_matrix()
    M = np.zeros((reference.nv, reference.nv))
    mujoco.mj_fullM(reference, data, M)
    np.testing.assert_allclose(A, M, rtol=1e-5, atol=2e-6 * np.abs(M).max())  # inertias are in single precision


@pytest.mark.parametrize("name", ROBOTS)
def test_robot_holds_its_home_pose_as_in_mujoco(name):
    """Joint positions after 2 s under its own gains, at the same step."""
    reference = mujoco.MjModel.from_xml_string(ROBOTS[name])
    reference.opt.timestep = DT
    data = mujoco.MjData(reference)
    mujoco.mj_resetDataKeyframe(reference, data, 0)
    mujoco.mj_step(reference, data, 1000)
    sim = Simulation.from_loaded(loaded(name))
    go_home(sim)
    sim.step(1000)
    q = np.array(sim.joint_q).ravel()
    floating = reference.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    first = 7 if floating else 0
    np.testing.assert_allclose(q[first:], data.qpos[first:] - reference.qpos0[first:], atol=HELD[name])
    if floating:
        assert abs(q[2] - data.qpos[2]) < 5e-3
    assert sim.statistics.not_converged == 0
