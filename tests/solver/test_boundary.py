"""Between public and sap order: the formulas of the convention against NumPy, and what a step hands back.

Kinematics comes from the oracle, which shares no code with the package. Tolerances: the boundary computes in fp64, so
an fp64 state is converted to round-off; an fp32 state carries poses rounded to 6e-8.
"""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import SapControl, SapState, SolverSAP, sap_model_from_newton
from tests.support.joint_types import add_all_joint_types
from tests.support.oracle import Tree, fp32, random_model, random_state
from tests.support.oracle.kinematics import matrix_from_quat, quat_from_matrix

FLOATING = (int(newton.JointType.FREE), int(newton.JointType.DISTANCE))
PRECISIONS = ("fp32", "fp64")
TOLERANCE = {"fp32": 1e-6, "fp64": 1e-12}
SEGMENTS = {  # joint type: sizes of its joint_q and joint_qd segments, from the table of the convention
    newton.JointType.PRISMATIC: (1, 1),
    newton.JointType.REVOLUTE: (1, 1),
    newton.JointType.BALL: (4, 3),
    newton.JointType.FIXED: (0, 0),
    newton.JointType.FREE: (7, 6),
    newton.JointType.DISTANCE: (7, 6),
}


def all_joint_types(rng, gravity=(0.0, 0.0, -9.81)):
    """Every joint type on the world and on a moving parent, random joint frames, all centres of mass offset."""
    builder = newton.ModelBuilder(gravity=gravity)
    add_all_joint_types(builder, rng)
    return builder.finalize(device="cpu")


class Case:
    """A random state of a model, its conversion by NumPy in world axes, and a boundary to read it with."""

    def __init__(self, model, rng):
        self.model = model
        self.q, self.qd = random_state(rng, model)
        self.f = fp32(rng.normal(size=model.joint_dof_count))
        self.body_f = fp32(rng.normal(size=(model.body_count, 6)))
        self.solver = SolverSAP(model, contact_preset_variant="approx64")  # parents are where it places them, in fp64
        self.boundary = self.solver.boundary
        self.com = model.body_com.numpy().astype(np.float64)
        self.joints, self.poses = [], []
        for world in range(model.world_count):
            tree = Tree(model, world)
            poses = tree.poses(tree.configuration(self.q))
            self.joints += [(joint, poses) for joint in tree.joints]
        self.body_q = np.zeros((model.body_count, 7))
        for joint, poses in self.joints:
            self.body_q[joint.child] = [*poses.p[joint.child], *quat_from_matrix(poses.R[joint.child])]

    def state(self, precision="fp64", order="public"):
        state = sap_model_from_newton(self.model).state(precision)
        state.joint_q.assign(self.q)
        state.joint_qd.assign(self.qd)
        state.body_q.assign(self.body_q)
        state.body_f.assign(self.body_f)
        state.joint_qd_order = state.body_f_order = order
        return state

    def control(self, order="public"):
        control = sap_model_from_newton(self.model).control()
        control.joint_f.assign(self.f)
        control.joint_f_order = order
        return control

    def begin(self, state, control):
        """Let the boundary read a state."""
        self.boundary.begin(state, control, self.solver.all_worlds)

    def write_velocity(self, velocity, state):
        """Let the boundary end a step of no time with a sap velocity."""
        wp.copy(self.solver.contact_solve.velocity, velocity)
        self.boundary.end(state, self.control(), 0.0, self.solver.all_worlds)

    def read(self, precision="fp64", order="public"):
        """sap velocities, sap forces and body residuals as the boundary makes them."""
        self.begin(self.state(precision, order), self.control(order))
        b = self.boundary
        return b.joint_qd.numpy().copy(), b.joint_f.numpy().copy(), b.body_f.numpy().copy()

    def floating(self):
        """(joint, rotation of its parent frame F, vector from origin to centre of mass in world axes)."""
        for joint, poses in self.joints:
            if joint.type in FLOATING:
                yield joint, poses.R_F[joint.index], poses.R[joint.child] @ self.com[joint.child]


@pytest.fixture(scope="module", params=["all_types", "random"])
def case(request):
    rng = np.random.default_rng(7)
    model = all_joint_types(rng) if request.param == "all_types" else random_model(rng, 4)
    return Case(model, rng)


def test_models_have_rotated_frames_and_offsets(case):
    """What follows would show little on unrotated frames or centred bodies."""
    found = list(case.floating())
    assert {joint.type for joint, _, _ in found} == set(FLOATING)
    assert any(joint.parent >= 0 for joint, _, _ in found)
    assert any(np.linalg.norm(R_F - np.eye(3)) > 0.1 and np.linalg.norm(r) > 0.01 for _, R_F, r in found)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_velocities_follow_the_convention(case, precision):
    """[v_C, w] becomes [w, v_C - w x r], worked out in world axes and turned back into the parent frame."""
    qd, _, _ = case.read(precision)
    for joint, R, r in case.floating():
        v_C, w = R @ case.qd[joint.public][:3], R @ case.qd[joint.public][3:]
        expected = np.concatenate([R.T @ w, R.T @ (v_C - np.cross(w, r))])
        np.testing.assert_allclose(qd[joint.public], expected, rtol=0, atol=10 * TOLERANCE[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_forces_follow_the_convention(case, precision):
    """[f, tau_C] in world axes becomes [tau_C + r x f, f] in the parent frame."""
    _, f, _ = case.read(precision)
    for joint, R, r in case.floating():
        force, moment = case.f[joint.public][:3], case.f[joint.public][3:]
        expected = np.concatenate([R.T @ (moment + np.cross(r, force)), R.T @ force])
        np.testing.assert_allclose(f[joint.public], expected, rtol=0, atol=10 * TOLERANCE[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_body_wrenches_become_the_residual(case, precision):
    """Public [f, tau_C] becomes -[tau_C + r x f, f] for every body, whatever its joint."""
    _, _, residual = case.read(precision)
    for joint, poses in case.joints:
        r = poses.R[joint.child] @ case.com[joint.child]
        f, tau = case.body_f[joint.child][:3], case.body_f[joint.child][3:]
        expected = -np.concatenate([tau + np.cross(r, f), f])
        np.testing.assert_allclose(residual[joint.child], expected, rtol=0, atol=10 * TOLERANCE[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_power_is_the_same_in_both_orders(case, precision):
    """v·f of every joint is the same, with public forces turned into the frame of the public velocity."""
    qd, f, _ = case.read(precision)
    frames = {joint.index: R for joint, R, _ in case.floating()}
    for joint, _ in case.joints:
        velocity, force = case.qd[joint.public], case.f[joint.public]
        if joint.index in frames:
            R = frames[joint.index]
            force = np.concatenate([R.T @ force[:3], R.T @ force[3:]])
        scale = np.linalg.norm(velocity) * np.linalg.norm(force)
        assert abs(qd[joint.public] @ f[joint.public] - velocity @ force) <= TOLERANCE[precision] * scale


def test_power_of_body_wrenches_is_the_same_in_both_orders(case, rng):
    """A wrench does the same work on any twist, public or sap, up to the sign of the residual."""
    _, _, residual = case.read("fp64")
    for joint, poses in case.joints:
        v_C, w = rng.normal(size=(2, 3))
        v_O = v_C - np.cross(w, poses.R[joint.child] @ case.com[joint.child])
        public = case.body_f[joint.child] @ np.concatenate([v_C, w])
        sap = -residual[joint.child] @ np.concatenate([w, v_O])
        scale = np.linalg.norm(case.body_f[joint.child]) * (np.linalg.norm(v_C) + np.linalg.norm(w))
        assert abs(sap - public) <= 1e-12 * scale


@pytest.mark.parametrize("precision", PRECISIONS)
def test_all_other_joints_are_copied(case, precision):
    """Velocities and forces of fixed, revolute, prismatic, ball and d6 joints keep every entry where it is."""
    qd, f, _ = case.read(precision)
    kinds = set()
    for joint, _ in case.joints:
        if joint.type not in FLOATING:
            kinds.add(joint.type)
            np.testing.assert_array_equal(qd[joint.public], case.qd[joint.public])
            np.testing.assert_array_equal(f[joint.public], case.f[joint.public])
    assert len(kinds) == 5


@pytest.mark.parametrize("precision", PRECISIONS)
def test_positions_are_copied(case, precision):
    """joint_q has no order: every joint type's segment is taken as it is."""
    case.read(precision)
    np.testing.assert_array_equal(case.boundary.joint_q.numpy(), case.q)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_round_trip_restores_the_velocity(case, precision):
    """Reading and writing at the same positions gives the public velocity back."""
    case.read(precision)
    back = case.state(precision)
    back.joint_qd.fill_(np.nan)
    case.write_velocity(case.boundary.joint_qd, back)
    if precision == "fp32":  # fp64 in between: rounding to fp32 hits the very same number
        np.testing.assert_array_equal(back.joint_qd.numpy(), case.qd.astype(np.float32))
    else:
        np.testing.assert_allclose(back.joint_qd.numpy(), case.qd, rtol=0, atol=1e-14)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_sap_flags_bypass_the_conversion(case, precision):
    """Buffers flagged sap are taken as they are: poses, which only a conversion reads, may be nan."""
    state, control = case.state(precision, "sap"), case.control("sap")
    state.body_q.assign(np.full((case.model.body_count, 7), np.nan))
    case.begin(state, control)
    np.testing.assert_array_equal(case.boundary.joint_qd.numpy(), case.qd)
    np.testing.assert_array_equal(case.boundary.joint_f.numpy(), case.f)
    np.testing.assert_array_equal(case.boundary.body_f.numpy(), case.body_f)
    out = case.state(precision, "sap")
    out.joint_qd.fill_(np.nan)
    case.write_velocity(case.boundary.joint_qd, out)
    np.testing.assert_array_equal(out.joint_qd.numpy(), case.qd.astype(out.joint_qd.numpy().dtype))


@pytest.mark.parametrize("flag", ["joint_qd_order", "body_f_order", "joint_f_order"])
def test_each_flag_governs_its_own_buffer(case, flag):
    """One sap flag among public ones bypasses exactly its own buffer."""
    public = dict(zip(("joint_qd_order", "joint_f_order", "body_f_order"), case.read(), strict=True))
    raw = {"joint_qd_order": case.qd, "joint_f_order": case.f, "body_f_order": case.body_f}
    state, control = case.state(), case.control()
    setattr(control if flag == "joint_f_order" else state, flag, "sap")
    case.begin(state, control)
    b = case.boundary
    for name, array in (("joint_qd_order", b.joint_qd), ("joint_f_order", b.joint_f), ("body_f_order", b.body_f)):
        expected = raw if name == flag else public
        np.testing.assert_array_equal(array.numpy(), expected[name])
        assert not np.array_equal(raw[name], public[name])


def test_sap_and_public_descriptions_of_one_state_agree(case):
    """A state converted by hand and flagged sap reads as the public state does."""
    qd, f, body_f = case.read()
    state, control = case.state(order="sap"), case.control("sap")
    state.joint_qd.assign(qd)
    state.body_f.assign(body_f)
    control.joint_f.assign(f)
    case.begin(state, control)
    np.testing.assert_array_equal(case.boundary.joint_qd.numpy(), qd)
    np.testing.assert_allclose(case.boundary.joint_f.numpy(), f, rtol=1e-6)  # joint_f and body_f are stored in fp32
    np.testing.assert_allclose(case.boundary.body_f.numpy(), body_f, rtol=1e-6)


def test_conversion_follows_the_orientation(rng):
    """The same public velocity and wrench mean another sap velocity and moment once the body has turned."""
    builder = newton.ModelBuilder()
    builder.add_body(mass=1.0, com=wp.vec3(0.5, 0.0, 0.0), inertia=wp.mat33(np.eye(3)), lock_inertia=True)
    model = builder.finalize(device="cpu")
    sap_model, solver = sap_model_from_newton(model), SolverSAP(model)
    boundary = solver.boundary
    half = np.sqrt(0.5)
    # about z: r = (0.5, 0, 0), then (0, 0.5, 0); w = 2 about z, f = 3 along z
    for quat, v_O, tau_O in (
        ([0.0, 0.0, 0.0, 1.0], [1.0, -1.0, 0.0], [0.0, -1.5, 0.0]),
        ([0.0, 0.0, half, half], [2.0, 0.0, 0.0], [1.5, 0.0, 0.0]),
    ):
        state, control = sap_model.state("fp64"), sap_model.control()
        state.joint_q.assign(np.array([9.0, 9.0, 9.0, *quat]))
        state.body_q.assign(np.array([[9.0, 9.0, 9.0, *quat]]))
        state.joint_qd.assign(np.array([1.0, 0.0, 0.0, 0.0, 0.0, 2.0]))
        state.body_f.assign(np.array([[0.0, 0.0, 3.0, 0.0, 0.0, 0.0]], dtype=np.float32))
        control.joint_f.assign(np.array([0.0, 0.0, 3.0, 0.0, 0.0, 0.0], dtype=np.float32))
        boundary.begin(state, control, solver.all_worlds)
        np.testing.assert_allclose(boundary.joint_qd.numpy(), [0.0, 0.0, 2.0, *v_O], atol=1e-14)
        np.testing.assert_allclose(boundary.joint_f.numpy(), [*tau_O, 0.0, 0.0, 3.0], atol=1e-14)
        np.testing.assert_allclose(boundary.body_f.numpy(), [[*np.negative(tau_O), 0.0, 0.0, -3.0]], atol=1e-14)


def test_scaled_quaternions_do_not_scale_the_offset(case):
    """A quaternion that drifted from unit length stands for its rotation, here too."""
    expected, _, _ = case.read()
    state = case.state()
    q = case.q.copy()
    for joint, _, _ in case.floating():
        q[joint.q][3:] *= 1.5
    state.joint_q.assign(q)
    case.begin(state, case.control())
    np.testing.assert_allclose(case.boundary.joint_qd.numpy(), expected, rtol=0, atol=1e-13)


def test_writing_uses_the_positions_it_is_given(case, rng):
    """The way back takes r at the new positions, not at those that were read."""
    qd, _, _ = case.read()
    moved = Case(case.model, rng)  # other positions
    out = case.state()
    moved.begin(moved.state(), moved.control())
    moved.write_velocity(wp.array(qd, dtype=wp.float64), out)
    result = out.joint_qd.numpy()
    for joint, R, r in moved.floating():
        w, v_O = qd[joint.public][:3], qd[joint.public][3:]
        expected = np.concatenate([v_O + np.cross(w, R.T @ r), w])
        np.testing.assert_allclose(result[joint.public], expected, rtol=0, atol=1e-12)


def test_segment_lengths(case):
    """joint_q and joint_qd segments have the sizes of the convention's table, and so have the solver's buffers."""
    q, qd = np.diff(case.model.joint_q_start.numpy()), np.diff(case.model.joint_qd_start.numpy())
    for j, kind in enumerate(case.model.joint_type.numpy()):
        axes = int(case.model.joint_dof_dim.numpy()[j].sum())
        assert (q[j], qd[j]) == SEGMENTS.get(newton.JointType(int(kind)), (axes, axes))
    assert case.boundary.joint_q.shape == (q.sum(),)
    assert case.boundary.joint_qd.shape == case.boundary.joint_f.shape == (qd.sum(),)
    assert case.boundary.body_f.shape == (case.model.body_count,)


# What a step hands back.


@pytest.fixture(scope="module")
def spinner():
    """A torque-free body with an offset centre of mass and three different moments of inertia."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    com = wp.vec3(0.3, -0.2, 0.1)
    builder.add_body(mass=2.0, com=com, inertia=wp.mat33(np.diag([0.1, 0.2, 0.3])), lock_inertia=True)
    return SolverSAP(builder.finalize(device="cpu"), contact_preset_variant="approx64")


def spin(solver, dt, order="public", start=(0.5, 0.1, -0.2, 1.0, 2.0, 3.0)):
    """State after one step, in the order asked for; and the sap velocity before it."""
    before, after = solver.sap_model.state("fp64"), solver.sap_model.state("fp64")
    before.joint_q.assign(np.array([5.0, -3.0, 2.0, 0.5, 0.5, -0.5, 0.5]))
    before.body_q.assign(np.array([[5.0, -3.0, 2.0, 0.5, 0.5, -0.5, 0.5]]))
    before.joint_qd.assign(np.array(start))
    after.joint_qd_order = order
    solver.step(before, after, None, None, dt)
    assert solver.last_converged
    return after, solver.free_motion.data.v0.numpy().copy()


def test_output_velocity_is_converted_at_the_new_pose(spinner):
    """v_C handed back is v_O + w x r with r turned to the new orientation, to fp64 round-off."""
    public, _ = spin(spinner, 0.05)
    sap, _ = spin(spinner, 0.05, order="sap")
    np.testing.assert_array_equal(public.joint_q.numpy(), sap.joint_q.numpy())
    w, v_O = sap.joint_qd.numpy()[:3], sap.joint_qd.numpy()[3:]
    com = spinner.model.body_com.numpy()[0].astype(np.float64)
    new = np.concatenate([v_O + np.cross(w, matrix_from_quat(public.joint_q.numpy()[3:]) @ com), w])
    old = np.concatenate([v_O + np.cross(w, matrix_from_quat([0.5, 0.5, -0.5, 0.5]) @ com), w])
    np.testing.assert_allclose(public.joint_qd.numpy(), new, rtol=0, atol=1e-14)
    assert np.abs(public.joint_qd.numpy() - old).max() > 1e-2


def test_momentum_of_a_torque_free_body_is_kept_to_second_order(spinner):
    """Over a step the velocity of the origin changes with h, that of the centre of mass only with h^2.

    The solver advances v_O, so v_C is kept up to h^2/2 |w|^3 |r|; converting at the old pose would leave an error of
    order h.
    """
    start = np.array([0.5, 0.1, -0.2, 1.0, 2.0, 3.0])
    com, origin = [], []
    for dt in (2e-3, 1e-3):
        after, before_sap = spin(spinner, dt, start=start)
        com.append(np.linalg.norm(after.joint_qd.numpy()[:3] - start[:3]))
        origin.append(np.linalg.norm(spinner.contact_solve.velocity.numpy()[3:] - before_sap[3:]))
        assert com[-1] < 0.5 * dt**2 * np.linalg.norm(start[3:]) ** 3
    assert com[0] / com[1] == pytest.approx(4.0, rel=0.02)
    assert origin[0] / origin[1] == pytest.approx(2.0, rel=0.02)
    assert origin[1] > 100 * com[1]


def test_velocity_of_the_centre_of_mass_stays_constant_without_an_offset():
    """With the centre of mass at the origin, nothing changes v_C of a torque-free tumbling body."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body(mass=2.0, inertia=wp.mat33(np.diag([0.1, 0.2, 0.3])), lock_inertia=True)
    solver = SolverSAP(builder.finalize(device="cpu"), contact_preset_variant="approx64")
    after, _ = spin(solver, 0.05)
    np.testing.assert_allclose(after.joint_qd.numpy()[:3], [0.5, 0.1, -0.2], rtol=0, atol=1e-15)
    assert np.abs(after.joint_qd.numpy()[3:] - [1.0, 2.0, 3.0]).max() > 1e-2


def test_body_twist_of_a_free_joint_is_its_public_velocity(spinner):
    """For a free joint on the world, unrotated, body_qd and public joint_qd are the same six numbers."""
    after, _ = spin(spinner, 0.05)
    np.testing.assert_array_equal(after.body_qd.numpy()[0], after.joint_qd.numpy().astype(np.float32))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_step_hands_back_what_newtons_forward_kinematics_gives(rng, precision):
    """newton.eval_fk of joint_q and joint_qd reproduces body_q and body_qd, for every joint type."""
    case = Case(all_joint_types(rng), rng)
    solver = SolverSAP(case.model, contact_preset_variant="approx64")
    out = case.state(precision)
    solver.step(case.state(precision), out, case.control(), None, 0.01)
    assert solver.last_converged
    reference = case.model.state()
    reference.joint_q.assign(out.joint_q.numpy().astype(np.float32))
    reference.joint_qd.assign(out.joint_qd.numpy().astype(np.float32))
    newton.eval_fk(case.model, reference.joint_q, reference.joint_qd, reference)
    expected, actual = reference.body_q.numpy(), out.body_q.numpy()
    sign = np.sign(np.sum(expected[:, 3:] * actual[:, 3:], axis=1, keepdims=True))  # q and -q are one rotation
    np.testing.assert_allclose(actual[:, :3], expected[:, :3], rtol=0, atol=2e-6)
    np.testing.assert_allclose(actual[:, 3:] * sign, expected[:, 3:], rtol=0, atol=2e-6)
    scale = np.abs(expected).max() * np.abs(out.joint_qd.numpy()).max()
    np.testing.assert_allclose(out.body_qd.numpy(), reference.body_qd.numpy(), rtol=0, atol=2e-6 * scale)


def test_a_step_from_either_order_is_the_same_step(rng):
    """The same state, described in public or in sap order, leads to the same result."""
    case = Case(all_joint_types(rng), rng)
    solver = SolverSAP(case.model, contact_preset_variant="approx64")
    after = {}
    for order in ("public", "sap"):
        source, after[order] = case.state(), case.state()
        if order == "sap":
            source.joint_qd.assign(case.read()[0])
            source.joint_qd_order = "sap"
        solver.step(source, after[order], case.control(), None, 0.01)
    np.testing.assert_allclose(after["sap"].joint_qd.numpy(), after["public"].joint_qd.numpy(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(after["sap"].joint_q.numpy(), after["public"].joint_q.numpy(), rtol=0, atol=1e-12)


def test_raw_dataclasses_are_read_as_sap(case):
    """State and control made without flags are in sap order, as internal code expects."""
    s, c = case.state(), case.control()
    raw = SapState(joint_q=s.joint_q, joint_qd=s.joint_qd, body_q=s.body_q, body_qd=s.body_qd, body_f=s.body_f)
    case.begin(raw, SapControl(joint_f=c.joint_f))
    np.testing.assert_array_equal(case.boundary.joint_qd.numpy(), case.qd)
    np.testing.assert_array_equal(case.boundary.joint_f.numpy(), case.f)
