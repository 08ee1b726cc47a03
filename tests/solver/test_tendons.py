"""Tendons and actuators against MuJoCo: lengths, moment arms and forces in random states."""

from __future__ import annotations

import functools

import mujoco
import newton
import numpy as np
import pytest
import warp as wp

from sap_warp.core.kernels.template import Variant
from sap_warp.core.kernels.types import FP64
from sap_warp.solver.tendons import terms
from sap_warp.solver.terms.bounded import bounded
from tests.support.tendons import Beside

ARM = """<mujoco>{top}<worldbody>
 <site name="w" pos="0.1 0.2 0.9"/>
 <body name="a" pos="0 0 1"><joint name="a" axis="0 1 0" ref="10"/><geom size=".05" pos=".2 0 0" mass="1"/>
  <geom name="ball" type="sphere" size="0.06" pos="0.4 0 0.02" contype="0" conaffinity="0"/>
  <site name="sa" pos="0.2 0.05 0.1" euler="20 30 10"/><site name="side" pos="0.4 0 0.2"/>
  <site name="in" pos="0.4 0 0.03"/>
  <body name="b" pos="0.4 0 0"><joint name="b" axis="0 1 0"/><geom size=".05" pos=".2 0 0" mass="1"/>
   <geom name="cyl" type="cylinder" size="0.05 0.1" pos="0.35 0 0" euler="90 10 0" contype="0" conaffinity="0"/>
   <site name="sb" pos="0.2 0 0.1"/><site name="side2" pos="0.35 0 0.2"/><site name="in2" pos="0.35 0 0.01"/>
   <body name="c" pos="0.4 0 0"><joint name="c" type="slide" axis="1 0 0"/><geom size=".05" mass="1"/>
    <site name="sc" pos="0.1 0 0.1" euler="0 40 20"/></body></body></body>
 <body name="e" pos="0 1 1"><joint name="e" axis="1 1 0"/><geom size=".05" pos=".2 0 0" mass="1"/>
  <site name="se" pos="0.1 0.2 0" euler="0 0 30"/></body>
</worldbody>{end}</mujoco>"""
TENDONS = """<tendon>
 <fixed name="sum" {sum}><joint joint="a" coef="0.3"/><joint joint="e" coef="-0.7"/><joint joint="c" coef="2"/></fixed>
 <spatial name="straight" {straight}><site site="w"/><site site="sb"/><site site="sc"/></spatial>
 <spatial name="over"><site site="sa"/><geom geom="ball" sidesite="side"/><site site="sb"/></spatial>
 <spatial name="two"><site site="sa"/><geom geom="ball"/><site site="sb"/><geom geom="cyl" sidesite="side2"/>
  <site site="sc"/></spatial>
 <spatial name="inside"><site site="sa"/><geom geom="ball" sidesite="in"/><site site="sb"/></spatial>
 <spatial name="inside2"><site site="sb"/><geom geom="cyl" sidesite="in2"/><site site="sc"/></spatial>
 <spatial name="pulleys"><site site="w"/><site site="sa"/><pulley divisor="2"/><site site="sa"/><site site="sc"/>
  <pulley divisor="3"/><site site="sb"/><geom geom="cyl"/><site site="se"/></spatial>
</tendon>"""
PLAIN = {"sum": "", "straight": ""}


@functools.cache
def arm():
    return Beside(ARM.format(top="", end=TENDONS.format(**PLAIN)))


def test_lengths_and_moment_arms_of_tendons_are_those_of_mujoco(rng):
    """Fixed, straight, over and inside of spheres and cylinders, on a given side, divided by pulleys."""
    case, wrapped = arm(), 0
    for _ in range(60):
        case.randomize(rng, 1.2)
        lengths, J = case.measure()
        np.testing.assert_allclose(lengths, case.data.ten_length, rtol=2e-6, atol=2e-7)
        np.testing.assert_allclose(J, case.tendon_jacobian(), rtol=2e-6, atol=1e-5)  # MuJoCo iterates to 1e-6 inside
        wrapped += int(case.data.ten_wrapnum.sum())
    assert wrapped > 60 * 19  # more points than paths without wraps have


def test_jacobian_is_the_derivative_of_the_length(rng):
    case, eps = arm(), 1e-3
    case.randomize(rng, 0.5)
    _, J = case.measure()
    q = case.state.joint_q.numpy().astype(float)
    for dof in range(len(q)):
        ends = []
        for sign in (1.0, -1.0):
            moved = q.copy()
            moved[dof] += sign * eps
            case.state.joint_q.assign(moved.astype(np.float32))
            newton.eval_fk(case.model, case.state.joint_q, case.state.joint_qd, case.state)
            ends.append(case.measure()[0])
        column = int(np.flatnonzero(case.order == dof)[0])
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * eps), J[:, column], rtol=2e-3, atol=5e-4)


def test_springs_and_dampers_of_tendons_are_those_of_mujoco(rng):
    """With one rest length, with a slack range, with the length of the spring pose, and polynomial-free damping."""
    values = {
        "sum": 'stiffness="30" damping="2" springlength="0.1"',
        "straight": 'stiffness="50" springlength="0.9 1.1" damping="3"',
    }
    end = TENDONS.format(**values).replace('name="two"', 'name="two" stiffness="20"')
    case = Beside(ARM.format(top="", end=end))
    kinds = {int(k) for k in (terms.SPRING, terms.PUSH, terms.PULL)}
    pushed = set()
    for _ in range(20):
        case.randomize(rng)
        forces = case.row_forces(kinds)
        expected = case.data.qfrc_spring + case.data.qfrc_damper
        np.testing.assert_allclose(sum(forces.values()), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
        slack = case.data.ten_length[1]
        pushed.add(-1 if slack < 0.9 else (1 if slack > 1.1 else 0))
    assert pushed == {-1, 0, 1}


ACTUATORS = """<actuator>
 <motor name="m1" joint="a" gear="3" ctrlrange="-1 1"/><motor name="m2" joint="a" gear="-2" forcerange="-0.4 0.9"/>
 <general name="uneven" joint="b" gainprm="20" biastype="affine" biasprm="1 -20 -2" forcerange="-5 9"/>
 <general name="affine" joint="e" gaintype="affine" gainprm="2 1 -0.5" biastype="affine" biasprm="0.1 -3 -1"/>
 <general name="unstable" joint="e" gainprm="2" biastype="affine" biasprm="0.1 3 1"/>
 <motor name="t1" tendon="sum" gear="2"/>
 <position name="t2" tendon="straight" kp="40" kv="3" forcerange="-10 10"/>
 <velocity name="t3" tendon="over" kv="3"/>
 <damper name="d" joint="b" kv="2" ctrlrange="0 2"/>
 <motor name="s1" site="sc" gear="1 2 3 0.4 0.5 0.6"/>
 <general name="s2" site="sc" refsite="sa" gear="1 2 0 0 0 0" gainprm="5" biastype="affine" biasprm="0 -5 -1"/>
 <motor name="s3" site="se" refsite="sb" gear="0 0 0 0.3 0.2 1"/>
 <motor name="crank" cranksite="sb" slidersite="w" cranklength="0.9" gear="1.5"/>
 <intvelocity name="iv" joint="c" kp="30" kv="2" actrange="-1 1"/>
 <general name="filter" joint="c" dyntype="filter" dynprm="0.3" gainprm="7"/>
 <general name="exact" joint="c" dyntype="filterexact" dynprm="0.3" gainprm="4" actlimited="true" actrange="0 0.8"/>
 <general name="early" joint="c" dyntype="integrator" gainprm="4" actearly="true"/>
 <general name="muscle" tendon="two" dyntype="muscle" gaintype="muscle" biastype="muscle" lengthrange="0.4 1.1"
  dynprm="0.01 0.04" gainprm="0.75 1.05 80 200 0.5 1.6 1.5 1.3 1.2" biasprm="0.75 1.05 80 200 0.5 1.6 1.5 1.3 1.2"/>
 <general name="weak" tendon="over" dyntype="muscle" gaintype="muscle" biastype="muscle" lengthrange="0.3 0.6"
  dynprm="0.01 0.04 0.2" gainprm="0.75 1.05 -1 200 0.5 1.6 1.5 1.3 1.2" biasprm="0.75 1.05 -1 200 0.5 1.6 1.5 1.3 1.2"/>
</actuator>"""


@functools.cache
def driven():
    return Beside(ARM.format(top='<option timestep="1e-9"/>', end=TENDONS.format(**PLAIN) + ACTUATORS))


def test_forces_of_actuators_are_those_of_mujoco(rng):
    """Every transmission, gain, bias and activation: what each actuator does to each joint."""
    case = driven()
    names = [case.reference.actuator(i).name for i in range(case.reference.nu)]
    seen = set()
    for _ in range(30):
        case.randomize(rng, 0.8)
        forces = case.row_forces({int(terms.ACTUATOR)})
        expected = case.data.actuator_force[:, None] * case.moments()
        for number, force in forces.items():
            i = case.solver.tendons.sources.terms[number].actuator
            seen.add(names[i])
            scale = max(np.abs(expected[i]).max(), 1.0)
            np.testing.assert_allclose(force, expected[i], rtol=0, atol=3e-6 * scale, err_msg=names[i])
    assert len(seen) >= len(names) - 1  # one plain motor is a drive of its joint


def test_activations_follow_their_inputs_as_in_mujoco(rng):
    """Integrator, filters and muscles, clamped to their ranges, over many steps."""
    case = Beside(
        ARM.format(top='<option timestep="0.01" integrator="Euler"/>', end=TENDONS.format(**PLAIN) + ACTUATORS)
    )
    reference, data, solver = case.reference, case.data, case.solver
    case.randomize(rng)
    with_act = np.flatnonzero(reference.actuator_actadr >= 0)
    for _ in range(40):
        ctrl = rng.uniform(-1.5, 1.5, reference.nu).astype(np.float32)
        data.ctrl[:] = ctrl
        case.model.mujoco.ctrl.assign(ctrl)
        mujoco.mj_step(reference, data)
        solver.step(case.state, case.state, None, None, 0.01)
        act = solver.tendons.actuation.act.numpy()[with_act]
        np.testing.assert_allclose(act, data.act[reference.actuator_actadr[with_act]], rtol=1e-5, atol=1e-6)
    solver.reset(case.state)
    assert not solver.tendons.actuation.act.numpy().any()


def test_bounded_term_has_consistent_derivatives():
    """The impulse is minus the derivative of the cost by the rate, and the curvature that of the impulse."""
    term = bounded.of(Variant(solve=FP64))

    @wp.kernel(module="unique", enable_backward=False)
    def evaluate(slack: wp.array(dtype=wp.float64), low: wp.float64, high: wp.float64, out: wp.array(dtype=wp.vec3d)):
        out[wp.tid()] = term(slack[wp.tid()], wp.float64(0.03), low, high)

    eps = 1e-6
    for low, high in ((-1e30, 1e30), (0.0, 1e30), (-1e30, 0.0), (-3.0, 5.0), (2.0, 2.0)):
        for slack in (-2.0, -0.05, 0.03, 0.3):
            points = wp.array([slack - eps, slack, slack + eps], dtype=wp.float64, device="cpu")
            out = wp.zeros(3, dtype=wp.vec3d, device="cpu")
            wp.launch(evaluate, dim=3, inputs=[points, low, high], outputs=[out], device="cpu")
            below, mid, above = out.numpy()
            assert (above[0] - below[0]) / (2 * eps) == pytest.approx(mid[1], rel=1e-7, abs=1e-7)
            assert (above[1] - below[1]) / (2 * eps) == pytest.approx(mid[2], rel=1e-7, abs=1e-7)
            assert low <= mid[1] <= high
