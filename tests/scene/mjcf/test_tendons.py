"""Tendons, actuators and couplings of MJCF scenes against the model that MuJoCo compiles from the same text."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.scene import load_sap_scene
from sap_warp.solver.tendons import terms
from tests.support.tendons import Beside

HAND = """<mujoco><default><general biastype="affine"/><geom contype="0" conaffinity="0"/>
<default class="finger"><joint type="slide" range="0 .04"/>
</default></default><worldbody>
<body name="palm" pos="0 0 .5"><geom size=".05" mass="1"/>
 <body name="l"><joint name="fl" class="finger" axis="0 1 0"/><joint name="fz" axis="0 0 1"/>
  <geom size=".02" mass=".1"/></body>
 <body name="r"><joint name="fr" class="finger" axis="0 -1 0"/><geom size=".02" mass=".1"/></body></body></worldbody>
<tendon><fixed name="split"><joint joint="fl" coef=".5"/><joint joint="fr" coef=".5"/></fixed></tendon>
<tendon><fixed name="turn"><joint joint="fz" coef="2"/></fixed></tendon>
<equality><joint joint1="fl" joint2="fr"/>{equality}</equality>
<actuator>{actuators}</actuator></mujoco>"""
PANDA = '<general tendon="split" ctrlrange="0 255" forcerange="-100 100" gainprm="0.01568627451" biasprm="0 -100 -10"/>'
OTHERS = """<cylinder name="c" joint="fz" area="2" bias="0.1 -3 -0.2" timeconst="0.1"/>
<cylinder joint="fz" diameter="0.3"/>
<muscle tendon="turn" lengthrange="-1 1"/><muscle joint="fz" lengthrange="-1 1" force="30" timeconst="0.1 0.2"/>
<position name="p" joint="fr" kp="30" dampratio="1" timeconst="0.1"/><position joint="fr" kp="3" kv="1"/>
<position joint="fr" kp="4" kv="2"/><intvelocity joint="fr" kp="20" dampratio="0.7"/>"""


def load(text, worlds=1):
    scene = {"assets": [{"type": "mjcf", "source": text}], "ground": False, "simulation": {"num_worlds": worlds}}
    return load_sap_scene(scene, device="cpu")


def test_fingers_share_a_tendon_and_stay_equal(rng):
    """A gripper of the Panda's kind: it goes where MuJoCo's goes, in every copy of the world."""
    text = HAND.format(actuators=PANDA, equality="")
    loaded = load(text, worlds=3)
    assert loaded.unsupported_features == []
    sim = Simulation.from_loaded(loaded, dt=0.002, contact_preset_variant="drake")
    inputs = np.array([255.0, 100.0, 0.0], np.float32)
    sim.model.mujoco.ctrl.assign(inputs)
    sim.step(500)
    q = np.asarray(sim.joint_q).reshape(3, -1)
    for world, ctrl in enumerate(inputs):
        reference = mujoco.MjModel.from_xml_string(text)
        data = mujoco.MjData(reference)
        data.ctrl[:] = ctrl
        mujoco.mj_step(reference, data, 500)
        np.testing.assert_allclose(q[world], data.qpos, atol=2e-4)
    assert q[0, 0] > 0.035 and (sim.status == 0).all()


def test_actuators_that_newton_does_not_know_are_those_of_mujoco(rng):
    """Cylinders, muscles, filtered and repeated positions, damping ratios."""
    text = HAND.format(actuators=OTHERS, equality="")
    case = Beside(text.replace("<mujoco>", '<mujoco><option timestep="1e-9"/>'), load(text).sap_model.newton_model)
    names = set()
    for _ in range(10):
        case.randomize(rng, 0.3)
        expected = case.data.actuator_force[:, None] * case.moments()
        for number, force in case.row_forces({int(terms.ACTUATOR)}).items():
            i = case.solver.tendons.sources.terms[number].actuator
            names.add(i)
            scale = max(np.abs(expected[i]).max(), 1.0)
            np.testing.assert_allclose(force, expected[i], rtol=0, atol=1e-5 * scale, err_msg=str(i))
    assert len(names) == case.reference.nu - 2  # the last position is the drive of its joint, another a plain motor


@pytest.mark.parametrize(
    "equality",
    ['tendon1="split" tendon2="turn" polycoef="0.01 0.02 0.001 0 0"', 'tendon1="turn" polycoef="0.3 0 0 0 0"'],
)
def test_equality_of_tendons_holds(equality, rng):
    """The lengths, counted from those of the reference pose, follow the polynomial, as in MuJoCo."""
    text = HAND.format(actuators='<motor joint="fz"/>', equality=f"<tendon {equality}/>")
    loaded = load(text)
    sim = Simulation.from_loaded(loaded, dt=0.002, contact_preset_variant="drake")
    sim.model.mujoco.ctrl.fill_(0.05)
    reference = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(reference)
    data.ctrl[:] = 0.05
    sim.step(300)
    mujoco.mj_step(reference, data, 300)
    lengths = sim.solver.tendons.tendon_lengths()[:2]
    x = lengths[1] if "tendon2" in equality else 0.0
    expected = np.polynomial.Polynomial([float(c) for c in equality.split('"')[-2].split()])(x)
    assert abs(lengths[0 if "tendon2" in equality else 1] - expected) < 1e-4


def test_worlds_with_tendons_can_be_shared_out_to_threads():
    """Tendons, couplings and activations of each world are its own, whoever computes it."""
    more = '<motor joint="fz" gear="0.1"/><general joint="fz" dyntype="filter" dynprm="0.1" gainprm="0.2"/>'
    text = HAND.format(actuators=PANDA + more, equality='<tendon tendon1="turn" polycoef="0.3"/>')
    found = []
    for threads in (1, 2):
        sim = Simulation.from_loaded(load(text, worlds=4), dt=0.002, threads=threads)
        sim.model.mujoco.ctrl.assign(np.outer([1.0, 2.0, 0.5, 0.1], [100.0, 0.3, 1.0]).ravel().astype(np.float32))
        sim.step(100)
        found.append(np.array(sim.joint_q))
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0].reshape(4, -1)[:, 0])) == 4
