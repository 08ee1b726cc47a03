"""Gravity compensation of bodies against MuJoCo's forces, in random states."""

from __future__ import annotations

import mujoco
import newton
import numpy as np
import warp as wp

from sap_warp import SolverSAP
from tests.support.tendons import build, free_forces

ARM = """<mujoco><option gravity="1 2 -9.81"/><worldbody>
  <body name="base" gravcomp="0.3"><joint axis="0 1 0"/><geom size="0.1" pos="0.2 0 0" mass="2"/>
    <body pos="0.4 0 0" gravcomp="1"><geom type="box" size="0.1 0.2 0.1" pos="0.1 0.1 0" mass="1.5"/>
      <body pos="0.3 0 0"><joint type="slide" axis="1 0 1"/><joint axis="1 0 0"/><geom size="0.1" mass="0.7"/>
        <body pos="0 0.3 0" gravcomp="1.2"><joint axis="0 0 1"/><geom size="0.1" pos="0 0.1 0.2" mass="0.4"/></body>
      </body>
    </body>
    <body pos="0 0.3 0" gravcomp="1"><joint axis="0 0 1"/><geom size="0.1" pos="0.1 0.1 0.2" mass="0.9"/></body>
  </body></worldbody></mujoco>"""
DT = 0.01


def test_forces_are_those_of_mujoco_in_random_states(rng):
    model, reference = build(ARM), mujoco.MjModel.from_xml_string(ARM)
    model.gravity.assign(np.array([reference.opt.gravity], np.float32))  # Newton leaves the file's out
    for forces, data in free_forces(model, reference, rng, speed=1.0, dt=DT):
        np.testing.assert_allclose(forces, data.qfrc_gravcomp - data.qfrc_bias, rtol=1e-5, atol=1e-5)


def test_weightless_body_floats_and_each_world_has_its_own_factor():
    model = build('<mujoco><worldbody><body gravcomp="1"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>', 3)
    model.mujoco.gravcomp.assign(np.array([1.0, 0.5, 0.0], np.float32))
    solver, state = SolverSAP(model), model.state()
    for _ in range(10):
        solver.step(state, state, None, None, DT)
    fall = state.joint_qd.numpy().reshape(3, 6)[:, 2]
    np.testing.assert_allclose(fall, -9.81 * 10 * DT * np.array([0.0, 0.5, 1.0]), rtol=1e-5, atol=1e-6)
    assert (solver.status == 0).all()


def test_compensation_that_is_switched_on_later_acts_after_notification():
    model = build('<mujoco><worldbody><body><freejoint/><geom size="0.1"/></body></worldbody></mujoco>')
    solver, state = SolverSAP(model), model.state()
    model.mujoco.gravcomp = wp.array([1.0], dtype=wp.float32, device="cpu")
    solver.notify_model_changed(newton.ModelFlags.BODY_INERTIAL_PROPERTIES)
    solver.step(state, state, None, None, DT)
    assert abs(state.joint_qd.numpy()[2]) < 1e-6
