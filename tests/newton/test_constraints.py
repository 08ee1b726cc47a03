"""Mimic joints, loop joints and equality constraints: bilateral rows of the objective.

The rows are checked against numeric differentiation of violations that are evaluated with Newton's forward kinematics
alone, and a step against the closed-form minimizer that these give.
"""

import math

import mujoco
import newton
import numpy as np
import pytest
import warp as wp

from sap_warp.solver.equations.data import LINEAR
from sap_warp.solver.equations.rows import CATCH_UP_SPEED, TURN_SPEED
from sap_warp.solver.equations.sources import read_equations
from sap_warp.solver.terms.near_rigid import NEAR_RIGID
from tests.support.scenes import G, Stepper, add_box, box_inertia, builder, material

DT = 0.002
AXIS = newton.ModelBuilder.JointDofConfig
EQ = newton.solvers.SolverMuJoCo.EqType


def link(b, mass=1.0, com=(0.02, -0.03, 0.05), **kwargs):
    return b.add_link(mass=mass, inertia=box_inertia(mass, (0.1, 0.15, 0.2)), com=wp.vec3(*com), **kwargs)


def two_arms(b):
    """A floating base with two arms of a ball and a hinge each, and a loose body; returns base, both hands, loose."""
    base, left, left_hand, right, right_hand, loose = (link(b, 1.0 + 0.2 * i) for i in range(6))
    b.add_articulation(
        [
            b.add_joint_free(base),
            b.add_joint_ball(base, left, parent_xform=wp.transform((0.0, 0.3, 0.1))),
            b.add_joint_revolute(left, left_hand, axis=(0.6, 0.0, 0.8), parent_xform=wp.transform((0.3, 0.0, 0.0))),
            b.add_joint_revolute(base, right, axis=newton.Axis.Z, parent_xform=wp.transform((0.0, -0.3, 0.1))),
            b.add_joint_prismatic(right, right_hand, axis=newton.Axis.X, parent_xform=wp.transform((0.2, 0.1, 0.0))),
        ]
    )
    b.add_articulation([b.add_joint_free(loose)])
    return base, left_hand, right_hand, loose


def random_frame(rng, size=0.3):
    q = rng.normal(size=4)
    return wp.transform(wp.vec3(*rng.uniform(-size, size, 3)), wp.quat(*(q / np.linalg.norm(q))))


def small_turn(rng, size):
    return wp.quat_from_axis_angle(wp.normalize(wp.vec3(*rng.normal(size=3))), size)


LOOPS = {
    "fixed": lambda b, p, c, **k: b.add_joint_fixed(p, c, **k),
    "revolute": lambda b, p, c, **k: b.add_joint_revolute(p, c, axis=(0.0, 0.6, 0.8), **k),
    "prismatic": lambda b, p, c, **k: b.add_joint_prismatic(p, c, axis=(0.0, 0.6, 0.8), **k),
    "ball": lambda b, p, c, **k: b.add_joint_ball(p, c, **k),
    "cylinder": lambda b, p, c, **k: b.add_joint_d6(
        p, c, linear_axes=[AXIS(axis=newton.Axis.X)], angular_axes=[AXIS(axis=newton.Axis.X)], **k
    ),
    "universal": lambda b, p, c, **k: b.add_joint_d6(
        p, c, angular_axes=[AXIS(axis=newton.Axis.X), AXIS(axis=newton.Axis.Y)], **k
    ),
    "planar": lambda b, p, c, **k: b.add_joint_d6(
        p,
        c,
        linear_axes=[AXIS(axis=newton.Axis.X), AXIS(axis=newton.Axis.Y)],
        angular_axes=[AXIS(axis=newton.Axis.X), AXIS(axis=newton.Axis.Y), AXIS(axis=newton.Axis.Z)],
        **k,
    ),
}
ROWS = {"fixed": 6, "revolute": 5, "prismatic": 5, "ball": 3, "cylinder": 4, "universal": 4, "planar": 1}


def rotate(q, v):
    t = 2.0 * np.cross(q[:3], v)
    return v + q[3] * t + np.cross(q[:3], t)


def multiply(p, q):
    return np.concatenate([p[3] * q[:3] + q[3] * p[:3] + np.cross(p[:3], q[:3]), [p[3] * q[3] - p[:3] @ q[:3]]])


def compose(X, Y):
    return np.concatenate([X[:3] + rotate(X[3:], Y[:3]), multiply(X[3:], Y[3:])])


def inverse(q):
    return q * np.array([-1.0, -1.0, -1.0, 1.0])


def log(q):
    q = q if q[3] >= 0 else -q
    sine = np.linalg.norm(q[:3])
    return q[:3] * (2.0 if sine < 1e-14 else 2.0 * math.atan2(sine, q[3]) / sine)


def normalized(X):
    return np.concatenate([X[:3], X[3:] / np.linalg.norm(X[3:])])


WORLD = np.array([0.0, 0, 0, 0, 0, 0, 1])


def violation(row, poses):
    """g of a body row from body poses alone."""
    F = compose(poses[row.a] if row.a >= 0 else WORLD, normalized(row.X_a))
    M = compose(poses[row.b] if row.b >= 0 else WORLD, normalized(row.X_b))
    n = rotate(F[3:], row.n)
    kind = int(row.kind)
    if kind == 0:
        return n @ (M[:3] - F[:3])
    if kind == 1:
        return row.n @ log(multiply(inverse(F[3:]), M[3:]))
    if kind == 2:
        return n @ np.cross(rotate(F[3:], row.axis), rotate(M[3:], row.axis))
    return n @ rotate(M[3:], row.axis) - row.n @ row.axis


def poses_after(solver, q, v, h):
    """Body poses in fp64 after moving with generalized velocity v for h."""
    state = solver.sap_model.state("fp64")
    state.joint_qd_order = "sap"
    state.joint_q.assign(q)
    state.joint_qd.assign(v)
    solver.boundary.begin(state, solver.model_control, solver.all_worlds)
    solver.contact_solve.velocity.assign(v)
    solver.boundary.end(state, solver.model_control, h, solver.all_worlds)
    return state.body_q.numpy()


def numeric_jacobian(solver, rows, q, step=1e-5):
    """Rates of the violations by central differences along every dof."""
    model = solver.model
    J = np.zeros((len(rows), model.joint_dof_count))
    for dof in range(model.joint_dof_count):
        v = np.zeros(model.joint_dof_count)
        ends = []
        for sign in (1.0, -1.0):
            v[dof] = sign
            ends.append([violation(row, poses_after(solver, q, v, step)) for row in rows])
        J[:, dof] = (np.array(ends[0]) - np.array(ends[1])) / (2.0 * step)
    return J


def closed_loop_model(kind, rng, ends):
    b = builder()
    _, left_hand, right_hand, loose = two_arms(b)
    bodies = {"hands": (left_hand, right_hand), "trees": (left_hand, loose), "ground": (-1, right_hand)}[ends]
    LOOPS[kind](b, *bodies, parent_xform=random_frame(rng), child_xform=random_frame(rng))
    return b.finalize(device="cpu")


def random_state(model, rng):
    q = model.joint_q.numpy().astype(np.float64) + rng.uniform(-0.3, 0.3, model.joint_coord_count)
    start = model.joint_q_start.numpy()
    for j, kind in enumerate(model.joint_type.numpy()):
        if kind in (newton.JointType.FREE, newton.JointType.BALL):
            quaternion = slice(start[j + 1] - 4, start[j + 1])
            q[quaternion] /= np.linalg.norm(q[quaternion])
    return q, rng.uniform(-1.0, 1.0, model.joint_dof_count)


@pytest.mark.parametrize("ends", ["hands", "trees", "ground"])
@pytest.mark.parametrize("kind", LOOPS)
def test_rows_of_a_loop_joint_are_derivatives_of_its_violation(kind, ends, rng):
    """J equals the central difference of the violation at any pose, and the number of rows is what the joint takes."""
    model = closed_loop_model(kind, rng, ends)
    sim = Stepper(model, DT, precision="fp64")
    q, v = random_state(model, rng)
    sim.set(q, v)
    sim.step()
    rows = sim.solver.equations
    sources = read_equations(model)
    assert len(sources) == rows.count == ROWS[kind]
    tree = np.sort(sim.solver.layout.dof_newton.numpy())
    J, g = rows.dense(), rows.data.violation.numpy()
    np.testing.assert_allclose(J, numeric_jacobian(sim.solver, sources, q)[:, tree], atol=2e-7)
    poses = poses_after(sim.solver, q, v * 0.0, DT)
    np.testing.assert_allclose(g, [violation(row, poses) for row in sources], atol=1e-9)


@pytest.mark.parametrize("preset", ["approx64", "drake", "approx32"])
def test_a_step_minimizes_the_objective_with_constraints(preset, rng):
    """Without contacts the minimizer is a linear system in A, v* and the rows; the step finds it."""
    model = closed_loop_model("revolute", rng, "hands")
    sim = Stepper(model, DT, preset=preset, precision="fp64", line_search_variant="exact_root")
    q, v = random_state(model, rng)
    sim.set(q, v)
    sim.step()
    solver = sim.solver
    A, v_star = solver.free_motion.dynamics_matrix(), solver.free_motion.v_star()
    rows = solver.equations
    J, g = rows.dense(), rows.data.violation.numpy()
    tree = np.sort(solver.layout.dof_newton.numpy())
    A, v_star = A.astype(float), v_star.astype(float)[tree]
    R = NEAR_RIGID * np.einsum("ij,j,ij->i", J, 1.0 / np.diag(A), J)
    H = A + J.T @ (J / R[:, None])
    most = np.where(rows._sources.numpy()["kind"] == LINEAR, CATCH_UP_SPEED, TURN_SPEED)
    rate = np.clip(-g / (2.0 * DT), -most, most)
    expected = np.linalg.solve(H, A @ v_star + J.T @ (rate / R))
    tolerance = 1e-9 if preset != "approx32" else 1e-4
    np.testing.assert_allclose(sim.velocity[tree], expected, rtol=0, atol=tolerance * np.abs(expected).max())
    assert solver.last_converged


# --- couplings --------------------------------------------------------------------------------------------------------


def gripper(offset=0.01, scale=-0.5, legacy=False, enabled=True):
    """Two fingers on prismatic joints side by side; the second follows the first."""
    b = builder()
    fingers = [link(b, 0.5 + i) for i in range(2)]
    joints = [b.add_joint_prismatic(-1, f, axis=newton.Axis.Z) for f in fingers]
    b.add_articulation(joints)
    if legacy:
        with pytest.warns(DeprecationWarning, match="add_constraint_mimic"):
            b.add_constraint_mimic(joints[1], joints[0], coef0=offset, coef1=scale, enabled=enabled)
    else:
        b.set_joint_mimic(joints[1], joints[0], coeffs=(offset, scale))
    return b.finalize(device="cpu")


@pytest.mark.parametrize("legacy", [False, True])
def test_a_mimic_joint_follows(legacy):
    """The follower stays on the line, and the pair accelerates as one coupled mass."""
    offset, scale = 0.01, -0.5
    sim = Stepper(gripper(offset, scale, legacy), DT)
    sim.set([0.2, offset + scale * 0.2])
    steps = 100
    sim.step(steps)
    q, qd = sim.q, sim.qd
    assert q[1] == pytest.approx(offset + scale * q[0], abs=1e-6)
    m0, m1 = 0.5, 1.5
    acceleration = -G * (m0 + scale * m1) / (m0 + scale**2 * m1)
    assert qd[0] == pytest.approx(acceleration * steps * DT, rel=1e-3)
    assert qd[1] == pytest.approx(scale * qd[0], rel=1e-5)


@pytest.mark.parametrize("h", [0.002, 0.01])
def test_a_mimic_joint_moves_like_drakes_coupler(h):
    """One step from a violated state gives Drake's velocity digit by digit, with the drake preset."""
    pytest.importorskip("pydrake.multibody")
    from pydrake.multibody.plant import DiscreteContactApproximation, MultibodyPlant
    from pydrake.multibody.tree import PrismaticJoint, SpatialInertia, UnitInertia
    from pydrake.systems.analysis import Simulator

    offset, scale = 2.0**-7, -0.5  # fp32 holds these exactly
    q, v = [0.125, -0.0625], [0.25, -0.25]
    plant = MultibodyPlant(h)
    plant.set_discrete_contact_approximation(DiscreteContactApproximation.kSap)
    plant.mutable_gravity_field().set_gravity_vector([0.0, 0.0, -G])
    joints = []
    for i, mass in enumerate((0.5, 1.5)):
        body = plant.AddRigidBody(f"body{i}", SpatialInertia(mass, [0, 0, 0], UnitInertia.SolidBox(1, 1, 1)))
        joint = PrismaticJoint(f"joint{i}", plant.world_frame(), body.body_frame(), [0, 0, 1])
        joints.append(plant.AddJoint(joint))
    plant.AddCouplerConstraint(joints[1], joints[0], scale, offset)
    plant.Finalize()
    context = plant.CreateDefaultContext()
    plant.SetPositions(context, q)
    plant.SetVelocities(context, v)
    simulator = Simulator(plant, context)
    simulator.AdvanceTo(h)
    sim = Stepper(gripper(offset, scale), h, preset="drake", precision="fp64")
    sim.set(q, v)
    sim.step()
    np.testing.assert_allclose(sim.qd, plant.GetVelocities(simulator.get_context()), rtol=0, atol=1e-12)


def test_a_violated_mimic_joint_is_pulled_back_steadily():
    """Half of a violation is left after each step: relaxation with tau = h, without overshoot."""
    sim = Stepper(gripper(0.0, 1.0), DT, position_integration="sap_euler")
    sim.set([0.0, 0.01])
    errors = []
    for _ in range(6):
        errors.append(sim.q[1] - sim.q[0])
        sim.step()
    np.testing.assert_allclose(np.array(errors[1:]) / np.array(errors[:-1]), 0.5, atol=2e-3)


def test_a_disabled_mimic_constraint_does_nothing_until_enabled():
    """The flag acts at the next step after notification."""
    model = gripper(0.0, -1.0, legacy=True, enabled=False)
    sim = Stepper(model, DT).step()
    np.testing.assert_allclose(sim.qd, -G * DT, rtol=1e-5)
    model.constraint_mimic_enabled.assign([True])
    sim.solver.notify_model_changed(newton.ModelFlags.CONSTRAINT_PROPERTIES)
    sim.step(20)
    assert sim.qd[1] == pytest.approx(-sim.qd[0], rel=1e-3)


def test_new_coefficients_act_after_notification():
    """A changed offset moves the follower."""
    model = gripper(0.0, 1.0)
    sim = Stepper(model, DT).step(3)
    model.joint_mimic_coeffs.assign(np.array([[0.0, 1.0], [0.02, 1.0]], np.float32))
    sim.solver.notify_model_changed(newton.ModelFlags.CONSTRAINT_PROPERTIES)
    sim.step(60)
    assert sim.q[1] - sim.q[0] == pytest.approx(0.02, abs=1e-5)


def test_a_mimic_joint_added_later_is_found():
    """A new relationship changes which dofs are coupled; the solver rebuilds itself and keeps its clock."""
    model = gripper(0.0, 1.0)
    model.joint_mimic_joint.assign([-1, -1])
    sim = Stepper(model, DT).step(3)
    assert sim.solver.equations.count == 0
    model.joint_mimic_joint.assign([-1, 0])
    sim.solver.notify_model_changed(newton.ModelFlags.CONSTRAINT_PROPERTIES)
    assert sim.solver.equations.count == 1
    sim.step(2)
    assert sim.solver.frame_id == 5


def test_a_follower_of_a_kinematic_joint_is_driven_by_it():
    """The leader's joint is prescribed: the follower takes its speed, the leader keeps it."""
    b = builder((0.0, 0.0, 0.0))
    leader, follower = link(b, is_kinematic=True), link(b)
    joints = [b.add_joint_prismatic(-1, f, axis=newton.Axis.Z) for f in (leader, follower)]
    b.add_articulation(joints)
    b.set_joint_mimic(joints[1], joints[0], coeffs=(0.0, 2.0))
    sim = Stepper(b.finalize(device="cpu"), DT)
    sim.set(qd=[0.3, 0.0])
    sim.step()
    np.testing.assert_allclose(sim.qd, [0.3, 0.6], rtol=1e-3)


MJCF = """<mujoco><option timestep="0.001" gravity="0 0 -9.81"/><worldbody>
  <body name="left" pos="0 0 1"><joint name="jl" type="hinge" axis="0 1 0" ref="{ref}"/>
    <geom type="box" size="0.05 0.05 0.2" pos="0 0 -0.2" mass="1"/>
    <body name="tip" pos="0 0 -0.4"><joint name="jt" type="hinge" axis="0 1 0"/>
      <geom type="box" size="0.04 0.04 0.2" pos="0 0 -0.2" mass="0.7"/></body></body>
  <body name="right" pos="0.5 0 1"><joint name="jr" type="hinge" axis="0 1 0"/>
    <geom type="box" size="0.05 0.05 0.3" pos="0 0 -0.3" mass="2"/></body>
</worldbody><default><geom contype="0" conaffinity="0"/><equality solref="0.002 1"/></default>
<equality>{equality}</equality></mujoco>"""

EQUALITIES = {
    "connect": '<connect body1="tip" body2="right" anchor="0.25 0 -0.1"/>',
    "weld": '<weld body1="tip" body2="right"/>',
    "weld to the world": '<weld body1="right"/>',
    "joint": '<joint joint1="jl" joint2="jr" polycoef="0 -0.6 0.3 0.2 0"/>',
    "joint alone": '<joint joint1="jl" polycoef="0 0 0 0 0"/>',
}


def from_mjcf(text, convert):
    b = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(b)
    b.add_mjcf(text, convert_mjc_equality_constraints=convert)
    return b.finalize(device="cpu")


CASES = [(name, convert) for name in EQUALITIES for convert in (False, True)]
CASES.remove(("joint alone", True))  # Newton's importer cannot convert it


@pytest.mark.parametrize("name, convert", CASES)
def test_equality_constraints_move_like_in_mujoco(name, convert):
    """A swing of 0.3 s agrees with MuJoCo's stiff equality to a few per cent, and the violation is tiny."""
    text = MJCF.format(equality=EQUALITIES[name], ref=0)
    reference = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(reference)
    start, rate = np.zeros(3), np.array([0.0, 0.4, 0.0])
    data.qpos[:], data.qvel[:] = start, rate
    dt, steps = 0.001, 300
    model = from_mjcf(text, convert)
    sim = Stepper(model, dt, precision="fp64")
    q, qd = sim.q, sim.qd  # a converted constraint has coordinates of its own behind these
    q[:3], qd[:3] = start, rate
    sim.set(q, qd)
    worst, path = 0.0, []
    for step in range(steps):
        mujoco.mj_step(reference, data)
        sim.step()
        path.append(data.qpos.copy())
        worst = max(worst, np.abs(sim.q[:3] - data.qpos).max())
        if step > 20:  # the start violates the rates
            assert np.abs(sim.solver.equations.data.violation.numpy()).max() < 1e-5
    assert sim.solver.equations.count > 0
    assert worst < 0.02 * np.abs(path).max() + 1e-3


@pytest.mark.parametrize("convert", [False, True], ids=["equality", "converted"])
@pytest.mark.parametrize("name", ["connect", "weld", "joint"])
def test_constraints_of_replicated_worlds_are_each_worlds_own(name, convert):
    """Three copies move alike, and like one alone."""
    text = MJCF.format(equality=EQUALITIES[name], ref=0)
    single = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(single)
    single.add_mjcf(text, convert_mjc_equality_constraints=convert)
    copies = newton.ModelBuilder()
    copies.replicate(single, 3)
    alone, together = (Stepper(b.finalize(device="cpu"), DT) for b in (single, copies))
    alone.step(50)
    together.step(50)
    assert together.solver.equations.count == 3 * alone.solver.equations.count
    np.testing.assert_allclose(together.q.reshape(3, -1), np.tile(alone.q, (3, 1)), atol=1e-6)


def four_bar():
    """A planar four-bar: two hinges on the ground, a coupler closed by a loop joint. Unit bars, a parallelogram."""
    b = builder()
    bars = [b.add_link(mass=1.0, inertia=box_inertia(1.0, 0.05), com=wp.vec3(0.0, 0.0, -0.5)) for _ in range(2)]
    coupler = b.add_link(mass=2.0, inertia=box_inertia(2.0, 0.05), com=wp.vec3(0.5, 0.0, 0.0))
    start, end, below = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)

    def hinge(parent, child, place, place_in_child=start, **options):
        frames = {"parent_xform": wp.transform(place), "child_xform": wp.transform(place_in_child)}
        return b.add_joint_revolute(parent, child, axis=newton.Axis.Y, **frames, **options)

    b.add_articulation([hinge(-1, bars[0], start), hinge(bars[0], coupler, below), hinge(-1, bars[1], end)])
    hinge(coupler, bars[1], end, below, label="closing")
    return b.finalize(device="cpu")


def test_a_four_bar_swings_with_the_period_of_its_one_dof():
    """The closed parallelogram is a pendulum: T = 2 pi sqrt(I / (m g l)) for small swings, and energy is kept."""
    sim = Stepper(four_bar(), 0.001, preset="drake")
    sim.set([0.05, -0.05, 0.05, 0.0])
    track = sim.run(3.0, observe=lambda s: s.q[0])
    crossings = np.flatnonzero(np.diff(np.sign(track)))
    period = 2.0 * np.diff(crossings).mean() * 0.001
    inertia = 2.0 * (box_inertia(1.0, 0.05)[1, 1] + 0.25) + 2.0
    stiffness = G * (0.5 + 0.5 + 2.0)
    assert period == pytest.approx(2.0 * math.pi * math.sqrt(inertia / stiffness), rel=2e-3)
    assert np.abs(sim.solver.equations.data.violation.numpy()).max() < 1e-6


def test_a_disabled_loop_joint_lets_go_and_holds_again():
    """joint_enabled of a loop joint acts after notification."""
    model = four_bar()
    sim = Stepper(model, DT)
    sim.set([0.3, -0.3, 0.3, 0.0])
    sim.step(5)
    assert sim.qd[0] == pytest.approx(sim.qd[2], rel=1e-4)
    model.joint_enabled.assign([True, True, True, False])
    sim.solver.notify_model_changed(newton.ModelFlags.JOINT_PROPERTIES)
    sim.step(20)
    assert abs(sim.qd[0] - sim.qd[2]) > 0.05


def test_loop_coordinates_pass_through_and_reset():
    """A loop joint's own coordinates keep what the state says, and a reset restores the model's."""
    sim = Stepper(four_bar(), DT)
    out = sim.model.state()
    sim.set([0.1, -0.1, 0.1, 0.7], [0.0, 0.0, 0.0, 0.2])
    sim.solver.step(sim.state, out, None, None, DT)
    assert out.joint_q.numpy()[3] == np.float32(0.7) and out.joint_qd.numpy()[3] == np.float32(0.2)
    sim.solver.reset(out)
    np.testing.assert_array_equal(out.joint_q.numpy(), sim.model.joint_q.numpy())


def test_constraints_hold_while_contacts_push():
    """Two welded boxes on the ground rest as one: contacts and rows share the solve."""
    b = builder()
    b.add_ground_plane(cfg=material())
    first, second = add_box(b, (0.0, 0.0, 0.1)), add_box(b, (0.3, 0.0, 0.1), mass=3.0)
    b.add_joint_fixed(first, second, parent_xform=wp.transform((0.3, 0.0, 0.0)))
    sim = Stepper(b.finalize(device="cpu"), DT).step(300)
    assert np.abs(sim.qd).max() < 1e-3
    np.testing.assert_allclose(sim.position[1] - sim.position[0], [0.3, 0.0, 0.0], atol=1e-5)
    assert sim.solver.last_converged
    forces = sim.solver.contact_forces().body_wrench.numpy()
    assert forces[:, 2].sum() == pytest.approx(4.0 * G, rel=1e-3)


def test_worlds_with_and_without_constraints_do_not_disturb_each_other(rng):
    """Each of several different worlds moves bit by bit as it would alone."""
    parts = [closed_loop_builder("fixed"), closed_loop_builder(None), closed_loop_builder("universal")]
    together = builder()
    for part in parts:
        together.add_world(part())
    sim = Stepper(together.finalize(device="cpu"), DT).step(30)
    alone = np.concatenate([Stepper(part().finalize(device="cpu"), DT).step(30).q for part in parts])
    np.testing.assert_array_equal(sim.q, alone)


def closed_loop_builder(kind):
    def build():
        b = builder()
        _, left_hand, right_hand, _ = two_arms(b)
        if kind:
            LOOPS[kind](b, left_hand, right_hand, child_xform=wp.transform((0.0, -0.6, 0.0)))
        return b

    return build
