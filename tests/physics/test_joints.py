"""Joints of the whole step against closed forms: energy, drives, limits, friction, damping, external forces.

One body on one joint; states and dynamics in fp64. ``m`` is the joint's own inertia: mass or moment about the axis.
"""

import newton
import numpy as np
import pytest
import warp as wp

from tests.support.scenes import G, Stepper, builder, one_joint

H = 0.002
MODE = newton.JointTargetMode
NEAR_RIGID = 0.1**2 / (4.0 * np.pi**2)
STEP = {"preset": "approx64", "precision": "fp64"}
EXACT = {
    **STEP,
    "optimality_rel_tol": 1e-12,
    "cost_abs_tol": 0.0,
    "cost_rel_tol": 0.0,
    "line_search_variant": "exact_root",
}


# --- energy ----------------------------------------------------------------------------------------------------


def pendulum(position_integration):
    """A compound pendulum 0.5 m below a hinge, released at 60 degrees; returns the simulation and its energy."""
    sim = Stepper(one_joint("revolute", com=(0.0, 0.0, -0.5)), H, position_integration=position_integration, **STEP)
    sim.set(q=[np.pi / 3.0])
    m = 0.5 + 2.0 * 0.25

    def energy(s):
        return 0.5 * m * s.qd[0] ** 2 - 2.0 * G * 0.5 * np.cos(s.q[0])

    return sim, energy, m


@pytest.mark.slow
def test_energy_of_a_pendulum_stays_bounded(report):
    """sap_euler is symplectic for one hinge: the energy oscillates by O(h) and does not drift in 20 s."""
    sim, energy, _ = pendulum("sap_euler")
    start, swing = energy(sim), 2.0 * G * 0.5 * (1.0 - np.cos(np.pi / 3.0))
    seen = (sim.run(20.0, observe=energy, every=2) - start) / swing
    drift = seen[-1000:].mean() - seen[:1000].mean()
    report(oscillation=float(np.abs(seen).max()), drift=float(drift))
    assert np.abs(seen).max() < 0.01
    assert abs(drift) < 1e-3


@pytest.mark.slow
def test_midpoint_pumps_energy_at_the_rate_of_its_formula(report):
    """q moves by h v_n + h^2 a/2 with a taken at q_n: small swings of frequency w gain energy as exp(w^2 h t / 2).

    That is the position map of the specification, not an error of the step: det = 1 + (w h)^2 / 2 per step. Damping of
    (w h)^2 / 2 per step, or `sap_euler`, removes it.
    """
    sim, energy, m = pendulum("midpoint")
    sim.set(q=[0.1])
    lowest = -2.0 * G * 0.5
    start = energy(sim) - lowest
    sim.run(20.0)
    growth, rate = np.log((energy(sim) - lowest) / start), (2.0 * G * 0.5 / m) * H / 2.0
    report(growth_per_second=float(growth / 20.0), formula=float(rate))
    assert growth / 20.0 == pytest.approx(rate, rel=0.02)


# --- drives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["prismatic", "revolute"])
def test_position_drive_rests_where_it_balances_the_load(kind):
    """The steady error of a position drive is load / kp."""
    drive = {"actuator_mode": MODE.POSITION, "target_ke": 500.0, "target_kd": 60.0, "target_pos": 0.125}
    com = (0.5, 0.0, 0.0) if kind == "revolute" else (0.0, 0.0, 0.0)
    sim = Stepper(one_joint(kind, com=com, **drive), H, **EXACT)
    sim.run(4.0)
    load = -2.0 * G if kind == "prismatic" else 2.0 * G * 0.5 * np.cos(sim.q[0])  # about +y, a com at +x falls to +q
    assert sim.q[0] - 0.125 == pytest.approx(load / 500.0, rel=1e-6)
    assert abs(sim.qd[0]) < 1e-9


def test_drive_saturates_at_its_effort_limit():
    """A drive that cannot carry the load accelerates it with what is left."""
    drive = {
        "actuator_mode": MODE.POSITION,
        "target_ke": 1e4,
        "target_kd": 100.0,
        "target_pos": 1.0,
        "effort_limit": 12.0,
    }
    sim = Stepper(one_joint(**drive), H, **EXACT)
    sim.step(100)
    assert sim.qd[0] == pytest.approx(100 * H * (12.0 / 2.0 - G), rel=1e-9)


def test_velocity_drive_tracks_its_target():
    """The steady speed of a velocity drive is off by load / kd; the position target does not matter."""
    drive = {
        "actuator_mode": MODE.VELOCITY,
        "target_ke": 1e5,
        "target_kd": 200.0,
        "target_vel": 0.75,
        "target_pos": 9.0,
    }
    sim = Stepper(one_joint(**drive), H, **EXACT)
    sim.run(1.0)
    assert sim.qd[0] == pytest.approx(0.75 - 2.0 * G / 200.0, rel=1e-6)


def test_position_velocity_drive_follows_a_moving_target():
    """With both targets moving together, the lag is the load / kp alone."""
    drive = {"actuator_mode": MODE.POSITION_VELOCITY, "target_ke": 1e3, "target_kd": 100.0, "target_vel": 0.5}
    sim = Stepper(one_joint(gravity=(0.0, 0.0, 0.0), **drive), H, position_integration="sap_euler", **EXACT)
    sim.control.joint_f.fill_(-8.0)
    for i in range(1500):
        # an implicit drive meets its target at the end of the step: error = target - q0 - h v
        sim.control.joint_target_pos.fill_(0.5 * (i + 1) * H)
        sim.step()
    assert sim.qd[0] == pytest.approx(0.5, rel=1e-4)
    assert 0.5 * 1500 * H - sim.q[0] == pytest.approx(8.0 / 1e3, rel=1e-2)  # targets are fp32


@pytest.mark.parametrize(("command", "torque"), [(3.0, 3.0), (-50.0, -20.0), (50.0, 20.0)])
def test_effort_mode_applies_joint_act_within_the_limit(command, torque):
    """EFFORT ignores gains and targets: joint_act, clamped, is the torque."""
    drive = {"actuator_mode": MODE.EFFORT, "target_ke": 1e4, "target_kd": 1e3, "effort_limit": 20.0, "target_pos": 5.0}
    sim = Stepper(one_joint("revolute", gravity=(0.0, 0.0, 0.0), **drive), H, **EXACT)
    sim.control.joint_act.fill_(command)
    sim.step()
    assert sim.qd[0] == pytest.approx(H * torque / 0.5, rel=1e-12)


def test_mode_none_ignores_gains_targets_and_joint_act():
    """A joint without a drive falls freely whatever its gains are."""
    sim = Stepper(one_joint(actuator_mode=MODE.NONE, target_ke=1e5, target_kd=1e5, target_pos=1.0), H, **EXACT)
    sim.control.joint_act.fill_(100.0)
    sim.step()
    assert sim.qd[0] == pytest.approx(-G * H, rel=1e-12)


def test_very_stiff_drive_is_capped_and_stable():
    """Gains beyond the near-rigid cap are scaled: 1/(h (h kp + kd)) = 0.1^2/(4 pi^2 A); the drive stays stable."""
    kp = 1e12
    sim = Stepper(one_joint(actuator_mode=MODE.POSITION, target_ke=kp, target_kd=0.0, target_pos=0.25), H, **EXACT)
    sim.run(2.0)
    capped = 2.0 / (NEAR_RIGID * H * H)
    assert capped < kp
    assert sim.q[0] - 0.25 == pytest.approx(-2.0 * G / capped, rel=1e-4)


# --- limits and friction ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ke", [1e4, 1e9])
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_joint_limit_holds_against_gravity(ke, side):
    """A body that falls onto a limit rests at the depth (m g h) R (h + tau) below it."""
    sign = 1.0 if side == "lower" else -1.0
    limits = {"limit_lower": -0.5, "limit_upper": 0.5, "limit_ke": ke, "limit_kd": 0.01 * ke}
    sim = Stepper(one_joint(gravity=(0.0, 0.0, -sign * G), **limits), H, **EXACT)
    depth = sim.run(3.0, observe=lambda s: -sign * s.q[0] - 0.5)
    tau = float(np.float32(0.01 * ke)) / ke
    R = max(NEAR_RIGID / 2.0, 1.0 / (H * ke * (H + tau)))
    assert depth[-1] == pytest.approx(2.0 * G * H * R * (H + tau), rel=1e-4)
    impact = np.sqrt(2.0 * G * 0.5)
    assert depth.max() < impact * max(np.sqrt(2.0 / ke), 2.0 * H), "stopped by the spring, or within two steps"
    assert abs(sim.qd[0]) < 1e-8


def test_joint_friction_holds_below_and_slips_above_its_magnitude():
    """Held, the joint creeps with R_f h load; above, it accelerates with the difference."""
    load, friction, m = 2.0 * G, 30.0, 2.0
    held = Stepper(one_joint(friction=friction), H, **EXACT)
    held.run(1.0)
    assert held.qd[0] == pytest.approx(-1e-3 / m * H * load, rel=1e-6)
    slips = Stepper(one_joint(friction=5.0), H, **EXACT)
    slips.step(100)
    first = 1e-3 / m * H * 5.0  # within this speed friction has not built up: a fraction of one step's change
    assert slips.qd[0] == pytest.approx(-100 * H * (load - 5.0) / m, abs=2.0 * first)


@pytest.mark.parametrize("mode", ["enforce", "ignore"])
def test_velocity_limit_acts_or_is_left_out(mode):
    """Falling stops accelerating at the limit, up to the near-rigid excess m g h R; 'ignore' leaves free fall."""
    sim = Stepper(one_joint(velocity_limit=0.5), H, velocity_limit_mode=mode, **EXACT)
    sim.step(200)
    expected = 0.5 + 2.0 * G * H * NEAR_RIGID / 2.0 if mode == "enforce" else 200 * H * G
    assert -sim.qd[0] == pytest.approx(expected, rel=1e-9)


# --- distance joint --------------------------------------------------------------------------------------------


def on_distance_joint(position, lower, upper):
    b = builder()
    body = b.add_link(
        mass=2.0, inertia=wp.mat33(*(0.5 * np.eye(3)).ravel()), com=wp.vec3(0.125, 0.0, 0.0), lock_inertia=True
    )
    joint = b.add_joint_distance(
        -1, body, min_distance=lower, max_distance=upper,
        parent_xform=wp.transform(wp.vec3(0.0, 0.0, 2.0)), child_xform=wp.transform(wp.vec3(0.125, 0.0, 0.0)),
    )  # fmt: skip
    b.add_articulation([joint])
    sim = Stepper(b.finalize(device="cpu"), H, **EXACT)
    return sim.set(q=[*position, 0.0, 0.0, 0.0, 1.0])


def test_distance_joint_carries_a_hanging_body():
    """The anchor hangs max_distance below, plus the limit's depth m g h R (h + tau)."""
    sim = on_distance_joint((0.0, 0.0, -0.7), -1.0, 0.75)
    sim.run(3.0)
    ke, kd = (float(getattr(sim.model, f"joint_limit_{n}").numpy()[0]) for n in ("ke", "kd"))
    tau = kd / ke
    # w = 1/m along the string through the centre of mass
    R = max(NEAR_RIGID / 2.0, 1.0 / (H * ke * (H + tau)))
    assert -sim.q[2] - 0.75 == pytest.approx(2.0 * G * H * R * (H + tau), rel=1e-3)
    assert np.abs(sim.qd).max() < 1e-5


def test_distance_joint_swings_at_its_maximum_distance():
    """A body let go sideways swings like a pendulum and stretches the bound by no more than the load."""
    sim = on_distance_joint((0.75, 0.0, 0.0), -1.0, 0.75)
    seen = sim.run(2.0, observe=lambda s: s.q[:3])
    distance = np.linalg.norm(seen, axis=1)
    assert distance.max() < 0.75 + 4.0 * 2.0 * G / 1e4  # at most 3 m g at the bottom
    assert distance.min() > 0.7
    assert seen[:, 2].min() < -0.7 and seen[:, 0].min() < -0.6, "it swings through"


def test_distance_joint_holds_its_minimum_distance():
    """A body balanced exactly above the anchor is kept min_distance away."""
    sim = on_distance_joint((0.0, 0.0, 0.5), 0.5, -1.0)
    sim.run(1.0)
    assert 0.5 - sim.q[2] == pytest.approx(2.0 * G / float(sim.model.joint_limit_ke.numpy()[0]), rel=1e-2)


# --- inertia, damping, external forces -------------------------------------------------------------------------


def test_armature_adds_to_the_inertia():
    """A falling mass with armature a accelerates with g m / (m + a)."""
    sim = Stepper(one_joint(armature=0.5), H, **STEP)
    sim.step(10)
    assert sim.qd[0] == pytest.approx(-10 * H * G * 2.0 / 2.5, rel=1e-12)


def test_damping_follows_its_implicit_formula():
    """v_n = v_inf (1 - (1 + h d / m)^-n), and v_inf = m g / d."""
    sim = Stepper(one_joint(damping=8.0), H, **STEP)
    sim.step(50)
    terminal = 2.0 * G / 8.0
    assert -sim.qd[0] == pytest.approx(terminal * (1.0 - (1.0 + H * 8.0 / 2.0) ** -50), rel=1e-11)


def test_joint_force_turns_a_hinge():
    """joint_f is a torque about the hinge."""
    sim = Stepper(one_joint("revolute", gravity=(0.0, 0.0, 0.0), com=(0.5, 0.0, 0.0)), H, **STEP)
    sim.control.joint_f.fill_(3.0)
    sim.step()
    assert sim.qd[0] == pytest.approx(H * 3.0 / (0.5 + 2.0 * 0.25), rel=1e-12)


def free_body(com=(0.25, -0.5, 0.125)):
    b = builder(gravity=(0.0, 0.0, 0.0))
    inertia = np.array([[0.5, 0.0625, 0.0], [0.0625, 0.75, 0.125], [0.0, 0.125, 1.0]])
    b.add_body(
        xform=wp.transform(wp.vec3(1.0, 2.0, 3.0), wp.quat(0.5, 0.5, 0.5, 0.5)),
        mass=2.0, com=wp.vec3(*com), inertia=wp.mat33(*inertia.ravel()), lock_inertia=True,
    )  # fmt: skip
    R = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    return b.finalize(device="cpu"), R @ inertia @ R.T, R @ np.array(com)


@pytest.mark.parametrize("channel", ["body_f", "joint_f"])
def test_wrench_on_a_free_body_acts_at_its_centre_of_mass(channel):
    """a_C = f / m and alpha = I^-1 tau, for body_f as for joint_f, with an offset centre of mass."""
    model, inertia, r = free_body()
    sim = Stepper(model, H, **STEP)
    f, torque = np.array([3.0, -5.0, 2.0]), np.array([0.5, 1.5, -1.0])
    if channel == "body_f":
        sim.state.body_f.assign(np.array([[*f, *torque]], dtype=np.float32))
    else:
        sim.control.joint_f.assign(np.array([*f, *torque], dtype=np.float32))
    sim.step()
    w = H * np.linalg.solve(inertia, torque)
    np.testing.assert_allclose(sim.velocity, [*w, *(H * f / 2.0 - np.cross(w, r))], rtol=1e-12)


@pytest.mark.parametrize("preset", ["approx64", "drake"])
def test_free_body_keeps_its_momentum(preset, report):
    """A tumbling body with an offset centre of mass, left alone for 1 s, drifts from its momenta by O(h)."""
    errors = []
    for h in (0.004, 0.002):
        model, inertia, _ = free_body()
        sim = Stepper(model, h, preset, precision="fp64")
        w0, v0 = np.array([1.0, -2.0, 1.5]), np.array([0.5, 0.25, -0.25])
        sim.set(qd=[*v0, *w0])
        start = inertia @ w0
        sim.run(1.0)
        R = np.array(wp.quat_to_matrix(wp.quatd(*sim.q[3:7]))).reshape(3, 3)
        body_inertia = model.body_inertia.numpy()[0].astype(np.float64)
        linear = np.linalg.norm(sim.qd[:3] - v0) / np.linalg.norm(v0)
        angular = np.linalg.norm(R @ body_inertia @ R.T @ sim.qd[3:] - start) / np.linalg.norm(start)
        errors.append((linear, angular))
    report(linear=[float(f"{e[0]:.3g}") for e in errors], angular=[float(f"{e[1]:.3g}") for e in errors])
    errors = np.array(errors)
    assert (errors[0] < 0.05).all()
    assert (errors[1] < 0.6 * errors[0]).all(), "halving h halves the error"
