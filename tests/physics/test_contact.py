"""Contact mechanics of the whole step against closed forms: rest depth, friction, rolling, stacks, momentum.

A slope is a horizontal plane under tilted gravity, downhill +x. Where a contact slides, its gap band must exceed the
gliding gap (h + tau) mu |v_t| of the convex model, or contact is lost and found again in turn.
"""

import newton
import numpy as np
import pytest
import warp as wp

from tests.support.oracle import DenseWorld, OracleOptions
from tests.support.oracle.problems import contacts_from_newton
from tests.support.scenes import (
    TAU,
    G,
    Stepper,
    add_ball,
    add_box,
    box_inertia,
    box_on_ground,
    builder,
    material,
    tilt,
    tilted,
)

H = 0.005
PRESETS = ("approx32", "approx64", "drake")
TIGHT = {"optimality_rel_tol": 1e-12, "cost_abs_tol": 0.0, "cost_rel_tol": 0.0, "line_search_variant": "exact_root"}


# --- rest ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("k", [1e3, 1e6])
def test_box_rests_at_the_depth_of_the_contact_law(preset, k, report):
    """phi0 = -(m g h / 4) R_n (h + tau): m g / (4 k) if soft, the near-rigid depth if stiff."""
    sim = Stepper(box_on_ground(k, mass=2.0), H, preset)
    sim.run(3.0)
    rows = sim.rows()
    assert len(rows["phi0"]) == 4
    near_rigid, compliant = rows["weight"] / (4.0 * np.pi**2), 1.0 / (H * k * (H + TAU))
    expected = 2.0 * G * H / 4.0 * np.maximum(near_rigid, compliant) * (H + TAU)
    report(depth=float(-rows["phi0"].mean()), expected=float(expected.mean()), compliant=2.0 * G / (4.0 * k))
    np.testing.assert_allclose(-rows["phi0"], expected, rtol=0.01)
    np.testing.assert_allclose(0.1 - sim.position[0, 2], expected.mean(), rtol=0.01)
    if k == 1e3:
        np.testing.assert_allclose(-rows["phi0"], 2.0 * G / (4.0 * k), rtol=0.01)
    else:
        assert (near_rigid > 2.0 * compliant).all(), "the near-rigid law must be the one at work"
    assert np.abs(sim.qd).max() < 1e-5


def test_materials_of_a_pair_reach_the_contact_rows():
    """mu is the harmonic mean, stiffness is in series, dissipation times add."""
    b = builder()
    b.add_ground_plane(cfg=newton.ModelBuilder.ShapeConfig(ke=3e3, mu=0.9, gap=0.0))
    add_box(b, (0.0, 0.0, 0.0999), cfg=newton.ModelBuilder.ShapeConfig(ke=1e3, mu=0.3, gap=0.0, density=0.0))
    model = b.finalize(device="cpu")
    sim = Stepper(model, H, contact_tau_d=0.03)
    sim.solver.sap_model.shape_material_tau.assign(np.array([-1.0, 0.05], dtype=np.float32))
    sim.step()
    rows = sim.rows()
    k, tau = 750.0, 0.03 + float(np.float32(0.05))
    np.testing.assert_allclose(rows["mu"], 2.0 * 0.9 * 0.3 / 1.2, rtol=1e-6)
    np.testing.assert_allclose(rows["vhat"], -rows["phi0"] / (H + tau), rtol=1e-12)
    np.testing.assert_allclose(rows["Rn"], 1.0 / (H * k * (H + tau)), rtol=1e-6)
    np.testing.assert_allclose(rows["Rt"], 1e-3 * rows["weight"], rtol=1e-12)


@pytest.mark.parametrize("mus", [(0.0, 0.8), (0.8, 0.0), (0.0, 0.0)])
def test_one_frictionless_shape_makes_the_pair_frictionless(mus):
    """The harmonic mean with zero is zero, also where 0/0 threatens."""
    b = builder()
    b.add_ground_plane(cfg=newton.ModelBuilder.ShapeConfig(ke=1e5, mu=mus[0], gap=0.0))
    add_box(b, (0.0, 0.0, 0.0999), cfg=newton.ModelBuilder.ShapeConfig(ke=1e5, mu=mus[1], gap=0.0, density=0.0))
    sim = Stepper(b.finalize(device="cpu"), H)
    sim.set(qd=[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]).step()
    assert (sim.rows()["mu"] == 0.0).all()
    assert abs(sim.velocity[3] - 1.0) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["approx32", "drake"])
def test_ten_boxes_stand_for_ten_seconds(preset, report):
    """A stack that was put up carelessly settles, and from then on neither creeps, leans nor sinks."""
    rng = np.random.default_rng(3)
    b = builder()
    b.add_ground_plane(cfg=material(mu=0.5, gap=0.001))
    for i in range(10):
        x, y = rng.uniform(-0.01, 0.01, 2)  # up to 5 % of an edge off the axis
        add_box(b, (x, y, 0.1 + 0.2005 * i), cfg=material(mu=0.5, gap=0.001))
    sim = Stepper(b.finalize(device="cpu"), H, preset, contact_max=256)
    built = sim.position
    flags = lambda s: [s.solver.last_truncated_contact_count, int(s.solver.status.max())]  # noqa: E731
    assert (sim.run(1.0, every=20, observe=flags) == 0).all(), "truncated contacts or a failed solve"
    settled = sim.position
    assert (sim.run(9.0, every=20, observe=flags) == 0).all(), "truncated contacts or a failed solve"
    drift = np.linalg.norm(sim.position[:, :2] - settled[:, :2], axis=1).max()
    sink = built[:, 2] - sim.position[:, 2] - 0.0005 * np.arange(10)
    report(
        drift=float(drift),
        sink_of_top=float(sink[-1]),
        tilt=float(tilt(sim.rotation).max()),
        contacts=sim.solver.last_contact_count,
        iterations=sim.solver.last_solve_iterations,
    )
    # Depth of contact i under 10 - i boxes by the near-rigid law: w is about 4/m with the ground, 8/m between boxes.
    depth = np.arange(10, 0, -1) * G * H / 4.0 * np.where(np.arange(10) == 0, 4.0, 8.0) / (4.0 * np.pi**2) * (H + TAU)
    assert (sink > 0.0).all() and (sink < 1.5 * np.cumsum(depth)).all()
    assert np.linalg.norm(settled[:, :2] - built[:, :2], axis=1).max() < 0.005, "nothing slipped while settling"
    assert drift < 9.0 * 10 * 1e-3 * 0.5 * G * H * 4.0, "no more than the creep of ten sticking contacts"
    assert tilt(sim.rotation).max() < 0.01
    assert np.abs(sim.qd).max() < 2e-3


@pytest.mark.parametrize("preset", PRESETS)
def test_heavy_box_does_not_sink_through_a_light_one(preset, report):
    """1,000 kg on 1 kg: both contacts settle at the near-rigid depth of the light box, 8 % of its edge."""
    b = builder()
    b.add_ground_plane(cfg=material(gap=0.001))
    add_box(b, (0.0, 0.0, 0.2), mass=1.0, half=0.2, cfg=material(gap=0.001))
    add_box(b, (0.0, 0.0, 0.6), mass=1000.0, half=0.2, cfg=material(gap=0.001))
    sim = Stepper(b.finalize(device="cpu"), H, preset)
    lowest = sim.run(5.0, observe=lambda s: s.position[:, 2])
    rows = sim.rows()
    ground = np.minimum(rows["body_a"], rows["body_b"]) < 0
    load = np.where(ground, 1001.0, 1000.0) * G * H / np.where(ground, ground.sum(), (~ground).sum())
    expected = load * rows["Rn"] * (H + TAU)
    low, high = 0.2 - sim.position[0, 2], 0.4 - (sim.position[1, 2] - sim.position[0, 2])
    report(
        depth_ground=float(low),
        depth_between=float(high),
        expected=float(expected.mean()),
        deepest=float(0.6 - lowest[:, 1].min()),
    )
    np.testing.assert_allclose(-rows["phi0"], expected, rtol=0.02)
    assert (lowest[:, 0] > 0.1).all() and (np.diff(lowest, axis=1) > 0.3).all(), "never closer than 3/4 of an edge"
    assert np.abs(sim.qd).max() < 1e-3


# --- friction --------------------------------------------------------------------------------------------------


def on_slope(fraction, preset, mu=0.5, gap=0.05, **options):
    """A flat box on a slope whose tangent is ``fraction`` times mu."""
    angle = np.arctan(mu * fraction)
    model = box_on_ground(mu=mu, gap=gap, half=(0.1, 0.1, 0.02), gravity=tilted(angle))
    return Stepper(model, H, preset, **options), angle


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("fraction", [0.5, 0.98])
def test_block_sticks_below_the_friction_angle(preset, fraction, report):
    """The block creeps with v_t = R_t gamma_t = sigma w m g sin(angle) h / 4, of the order mu sigma g h.

    With w of the order 4/m (a corner of a box) the factor on mu sigma g h is of order one. It is exact while all four
    contacts stick; close to the friction angle the unloaded uphill ones slide and the others creep up to twice as fast.
    """
    sim, angle = on_slope(fraction, preset)
    sim.run(2.0)
    start = sim.position[0, 0]
    sim.run(2.0)
    creep = (sim.position[0, 0] - start) / 2.0
    expected = sim.rows()["Rt"].mean() * G * np.sin(angle) * H / 4.0
    report(creep=float(creep), expected=float(expected), factor_on_mu_sigma_g_h=float(creep / (0.5 * 1e-3 * G * H)))
    assert creep == pytest.approx(expected, rel=0.02) if fraction == 0.5 else 0.98 * expected < creep < 2.0 * expected
    assert creep < 4.0 * 0.5 * 1e-3 * G * H
    assert abs(sim.position[0, 1]) < 1e-6


@pytest.mark.parametrize("preset", ["approx32", "approx64", "drake"])
@pytest.mark.parametrize("fraction", [1.05, 1.5])
def test_block_slides_above_the_friction_angle(preset, fraction, report):
    """Its acceleration is g (sin - mu cos), with the solver's default tolerances."""
    sim, angle = on_slope(fraction, preset)
    sim.run(0.3)
    before = sim.velocity[3]
    sim.run(0.7)
    acceleration = (sim.velocity[3] - before) / 0.7
    expected = G * (np.sin(angle) - 0.5 * np.cos(angle))
    report(
        acceleration=float(acceleration), expected=float(expected), relative_error=float(acceleration / expected - 1.0)
    )
    assert acceleration == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("preset", PRESETS)
def test_sliding_impulse_lies_on_the_friction_cone(preset):
    """Momentum lost to friction is mu times the momentum gained from the normal force, in every sliding step."""
    sim, angle = on_slope(1.5, preset, **TIGHT)
    for _ in range(40):
        public = sim.qd
        sim.step()
        gained = sim.velocity[3:] - public[:3]  # per unit mass
        normal = gained[2] + G * np.cos(angle) * H
        friction = gained[0] - G * np.sin(angle) * H
        assert normal > 0.5 * G * H, "in contact"
        # fp32 velocities below 1 m/s are rounded to 3e-8; friction impulses are of order 0.02
        assert friction == pytest.approx(-0.5 * normal, abs=1e-6)


@pytest.mark.parametrize("preset", PRESETS)
def test_frictionless_sliding_keeps_its_speed(preset):
    """mu = 0: two seconds of sliding change neither speed nor heading."""
    sim = Stepper(box_on_ground(mu=0.0, gap=0.01), H, preset)
    sim.set(qd=[2.0, -1.0, 0.0, 0.0, 0.0, 0.0]).run(2.0)
    np.testing.assert_allclose(sim.qd[:2], [2.0, -1.0], rtol=1e-6)
    assert np.abs(sim.qd[2:]).max() < 1e-4


@pytest.mark.parametrize(("preset", "tolerance"), [("approx32", 1e-3), ("approx64", 1e-3), ("drake", 0.02)])
def test_sliding_ball_ends_rolling_at_five_sevenths(preset, tolerance, report):
    """The spin about the contact point is conserved: v = 5/7 v0, whatever happened in between.

    Witness points lie on the ball's surface, so the lever arm is its radius. The midpoint of `drake` is off it by
    half the penetration, here below 1 % of the radius.
    """
    b = builder()
    b.add_ground_plane(cfg=material(mu=0.3))
    add_ball(b, (0.0, 0.0, 0.101), radius=0.1, cfg=material(mu=0.3))
    sim = Stepper(b.finalize(device="cpu"), 0.001, preset)
    sim.set(qd=[2.0, 0.0, 0.0, 0.0, 0.0, 0.0]).run(1.5)
    speed, spin = sim.qd[0], sim.qd[4]
    report(ratio=float(speed / 2.0), expected=5.0 / 7.0, slip=float(speed - 0.1 * spin))
    assert speed / 2.0 == pytest.approx(5.0 / 7.0, rel=tolerance)
    assert abs(speed - 0.1 * spin) < 1e-3, "it rolls without slipping"
    sim.run(1.0)
    assert sim.qd[0] == pytest.approx(speed, rel=1e-4), "and goes on rolling"


# --- momentum --------------------------------------------------------------------------------------------------


def colliding_boxes(preset):
    """Two free boxes of different mass that spin into each other without gravity."""
    b = builder(gravity=(0.0, 0.0, 0.0))
    add_box(b, (0.0, 0.0, 0.0), mass=1.0, half=(0.1, 0.15, 0.2), cfg=material(mu=0.6, gap=0.01))
    add_box(b, (0.05, -0.04, 0.299), mass=3.0, half=0.1, cfg=material(mu=0.6, gap=0.01))
    sim = Stepper(b.finalize(device="cpu"), H, preset, **TIGHT)
    sim.set(qd=[0.3, -0.2, 1.0, 0.5, -1.0, 2.0, -0.4, 0.6, -0.5, -1.5, 0.5, 0.3])
    return sim


def momentum(sim, velocity, position, rotation):
    """Linear and angular momentum about the world origin; velocities [w, v_O] of free bodies, com at their origin."""
    linear, angular = np.zeros(3), np.zeros(3)
    for body, (m, inertia) in enumerate(zip(sim.model.body_mass.numpy(), sim.model.body_inertia.numpy(), strict=True)):
        w, v = velocity[6 * body : 6 * body + 3], velocity[6 * body + 3 : 6 * body + 6]
        R = np.array(wp.quat_to_matrix(wp.quatd(*rotation[body]))).reshape(3, 3)
        linear += m * v
        angular += np.cross(position[body], m * v) + R @ inertia @ R.T @ w
    return linear, angular


@pytest.mark.parametrize("preset", ["approx64", "drake"])
def test_contact_of_two_free_bodies_conserves_momentum(preset, report):
    """Impulses are opposite, and act at one point if the preset says so.

    Midpoints conserve both momenta to round-off. With witness points the two sides are a gap phi0 apart: linear
    momentum is conserved to round-off, angular momentum to |phi0| times the friction impulse.
    """
    sim = colliding_boxes(preset)
    pose = sim.position, sim.rotation / np.linalg.norm(sim.rotation, axis=1, keepdims=True)
    public = sim.qd.reshape(2, 6)
    before = momentum(sim, public[:, [3, 4, 5, 0, 1, 2]].ravel(), *pose)
    sim.step()
    after = momentum(sim, sim.velocity, *pose)
    # Coriolis terms change momentum per unit velocity at the fixed pose: w x I w; add them back.
    exchanged = np.abs(sim.velocity - public[:, [3, 4, 5, 0, 1, 2]].ravel()).max()
    gyro = np.zeros(3)
    for body, inertia in enumerate(sim.model.body_inertia.numpy()):
        R = np.array(wp.quat_to_matrix(wp.quatd(*pose[1][body]))).reshape(3, 3)
        w = public[body, 3:]
        gyro += H * np.cross(w, R @ inertia @ R.T @ w)
    error_linear = np.abs(after[0] - before[0]).max()
    error_angular = np.abs(after[1] - before[1] + gyro).max()
    gap = np.abs(sim.rows()["phi0"]).max()
    report(
        contacts=sim.solver.last_contact_count, linear=float(error_linear), angular=float(error_angular), gap=float(gap)
    )
    assert sim.solver.last_contact_count > 0 and exchanged > 0.1, "they must have touched"
    assert error_linear < 1e-12
    assert error_angular < (1e-12 if preset == "drake" else 2.0 * gap * exchanged * 3.0)


# --- what the solve returns ------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", ["monotone_decay", "armijo_decay", "exact_root"])
@pytest.mark.parametrize("preset", PRESETS)
def test_default_tolerances_stop_near_the_minimum_while_sliding(preset, search, report):
    """With the defaults of each line search, the velocity of a sliding block is the minimizer to 1 % of its change.

    A stop on the cost is only meaningful after a (nearly) full Newton step: after a short one the cost changes little
    however far the minimum is.
    """
    sim, _ = on_slope(1.5, preset, line_search_variant=search)
    mode = ("diag_delassus", "contact_midpoint") if preset == "drake" else ("body_inertia", "witness_point")
    worst = 0.0
    for _ in range(40):
        q, qd = sim.q, sim.qd
        sim.step()
        records = contacts_from_newton(sim.model, sim.contacts)
        world = DenseWorld(sim.model, q, qd, H, contacts=records, options=OracleOptions(*mode, contact_tau_d=0.01))
        best = world.minimize(sim.velocity)
        worst = max(worst, np.linalg.norm(sim.velocity - best) / np.linalg.norm(best - world.v0))
    report(worst=float(worst))
    assert worst < 0.01


def footed(direct, hinged=False):
    """A 1 kg body with a box below it: its own, or that of a link without mass that is fixed or hinged to it."""
    b = builder()
    b.add_ground_plane(cfg=material())
    xform = wp.transform((0.0, 0.0, 0.55), wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.3))
    base = b.add_link(xform=xform, mass=1.0, inertia=box_inertia(1.0, 0.2), lock_inertia=True)
    joints = [b.add_joint_free(base)]
    where = wp.transform((0.1, -0.05, -0.4))
    if direct:
        b.add_shape_box(base, xform=where, hx=0.2, hy=0.2, hz=0.1, cfg=material())
    else:
        foot = b.add_link(xform=xform * where)
        more = {"axis": newton.Axis.Z, "armature": 1e-3, "damping": 1.0} if hinged else {}
        joints.append((b.add_joint_revolute if hinged else b.add_joint_fixed)(base, foot, parent_xform=where, **more))
        b.add_shape_box(foot, hx=0.2, hy=0.2, hz=0.1, cfg=material(density=0.0))
    b.add_articulation(joints)
    model = b.finalize(device="cpu")
    model.joint_q.assign(np.concatenate([np.array([0.0, 0.0, 0.55]), *[xform[3:7]], np.zeros(int(hinged))]))
    return model


@pytest.mark.parametrize("preset", ["approx32", "approx64", "drake"])
def test_a_foot_without_mass_carries_what_it_is_fixed_to(preset):
    """The box of a massless link acts as if it belonged to the body that carries the link: weights and motion."""
    runs = [Stepper(footed(direct), 0.005, preset).step(150) for direct in (True, False)]
    weights = [np.sort(sim.rows()["weight"]) for sim in runs]
    assert len(weights[0]) == len(weights[1]) == 4
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-4)
    np.testing.assert_allclose(runs[1].q[:7], runs[0].q[:7], atol=2e-5)
    assert 0.45 < runs[1].q[2] < 0.51


def test_a_hinged_foot_without_mass_does_not_sink():
    """Its armature turns it, what carries it has the mass."""
    sim = Stepper(footed(False, hinged=True), 0.005).step(200)
    assert sim.solver.last_converged
    assert 0.45 < sim.q[2] < 0.51
