"""Drag of the medium against MuJoCo's forces, in random states."""

from __future__ import annotations

import mujoco
import newton
import numpy as np
import pytest

from sap_warp import SolverSAP
from tests.support.tendons import TINY, build, free_forces

ARM = """<mujoco><option gravity="0 0 0" density="{density}" viscosity="{viscosity}" wind="{wind}"/><worldbody>
  <body><joint axis="0 1 0"/><geom type="box" size="0.1 0.2 0.05" pos="0.2 0 0" euler="10 20 30" mass="2"/>
    <body pos="0.4 0 0"><geom type="box" size="0.1 0.2 0.1" pos="0.1 0.1 0" mass="1.5"/>
      <body pos="0.3 0 0"><joint type="slide" axis="1 0 1"/><joint axis="1 0 0"/>
        <inertial pos="0.1 0 0.05" mass="0.7" fullinertia="0.01 0.012 0.015 0.001 0.002 -0.001"/>
      </body>
    </body>
    <body pos="0 0.3 0"><joint axis="0 0 1"/><geom type="ellipsoid" size="0.1 0.2 0.3" pos="0.1 0.1 0.2"/></body>
  </body></worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("density", "viscosity", "wind"), [("1.2", "0", "0 0 0"), ("0", "0.5", "0 0 0"), ("1000", "0.1", "1 2 -3")]
)
def test_drag_is_that_of_mujoco(density, viscosity, wind, rng):
    text = ARM.format(density=density, viscosity=viscosity, wind=wind)
    model, reference = build(text), mujoco.MjModel.from_xml_string(text)
    model.gravity.zero_()
    for forces, data in free_forces(model, reference, rng, speed=2.0, dt=TINY):
        found = forces + data.qfrc_bias
        scale = np.abs(data.qfrc_fluid).max() + np.abs(data.qfrc_bias).max()
        np.testing.assert_allclose(found, data.qfrc_fluid, rtol=0, atol=2e-6 * scale)
        assert np.abs(data.qfrc_fluid).max() > 1e-4


def test_light_body_in_a_thick_medium_slows_down():
    """An explicit force would throw it back faster than it came."""
    text = """<mujoco><option density="1000" viscosity="10"/><worldbody><body><freejoint/>
    <geom type="box" size=".1 .1 .1" mass=".01"/></body></worldbody></mujoco>"""
    model = build(text, 2)
    model.mujoco.density.assign(np.array([1000.0, 0.0], np.float32))
    model.mujoco.viscosity.assign(np.array([10.0, 0.0], np.float32))
    model.gravity.zero_()
    solver, state = SolverSAP(model), model.state()
    qd = np.tile(np.array([1.0, 0, 0, 0, 3.0, 0], np.float32), 2)
    state.joint_qd.assign(qd)
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    solver.step(state, state, None, None, 0.01)
    after = state.joint_qd.numpy().reshape(2, 6)
    assert 0.0 < after[0, 0] < 0.05 and 0.0 < after[0, 4] < 0.5
    np.testing.assert_allclose(after[1], qd[6:], atol=1e-6)  # nothing around it
    assert (solver.status == 0).all()
