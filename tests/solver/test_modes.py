"""Every mode, precision knob and line search changes what it says it changes, and nothing else."""

import newton
import numpy as np
import pytest
import warp as wp

import sap_warp
from sap_warp.solver.settings.options import LINE_SEARCHES, PRESETS
from tests.support.solver_cases import Case

DT = 0.005


def tilted_box_on_box():
    """Two free boxes, one leaning on the other and both on the ground, far from the world origin."""
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.005
    cfg = newton.ModelBuilder.ShapeConfig(density=500.0, ke=1e6, mu=0.6)
    soft = newton.ModelBuilder.ShapeConfig(density=300.0, ke=1e5, mu=0.6)
    lower = builder.add_body(xform=wp.transform((30.1, -7.3, 0.0997), wp.quat_identity()))
    builder.add_shape_box(lower, hx=0.2, hy=0.2, hz=0.1, cfg=cfg)
    turned = wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 0.3, 0.2)), 0.02)
    upper = builder.add_body(xform=wp.transform((30.15, -7.25, 0.299), turned))
    builder.add_shape_box(upper, hx=0.15, hy=0.1, hz=0.1, cfg=soft)
    builder.add_ground_plane(cfg=cfg)
    return builder.finalize(device="cpu")


def start(model):
    """Both boxes slide, fall and turn."""
    state = model.state()
    state.joint_qd.assign(np.tile(np.array([0.3, -0.1, -0.2, 0.4, 0.7, -0.5], np.float32), 2))
    return state


class Step:
    """One step of the boxes with given options."""

    def __init__(self, model, contacts, **options):
        self.solver = sap_warp.SolverSAP(model, **{"line_search_variant": "exact_root", **options})
        self.after = model.state()
        self.solver.step(start(model), self.after, None, contacts, DT)
        self.motion, self.rows = self.solver.free_motion, self.solver.contact_jacobian.data
        self.count = int(self.rows.count.numpy()[0])
        self.v = self.solver.contact_solve.velocity.numpy()

    def row(self, name):
        return getattr(self.rows, name).numpy()[: self.count]


@pytest.fixture(scope="module")
def boxes():
    model = tilted_box_on_box()
    pipeline = newton.CollisionPipeline(model, broad_phase="nxn")
    contacts = pipeline.contacts()
    pipeline.collide(model.state(), contacts)
    return model, contacts


@pytest.fixture(scope="module")
def reference(boxes):
    return Step(*boxes, contact_preset_variant="approx64")


def fits_fp32(values):
    return np.array_equal(values, values.astype(np.float32).astype(np.float64))


def test_presets_differ_as_the_spec_says(boxes, reference):
    """approx32 is approx64 up to rounding; drake is another discretization."""
    approx32, drake = (Step(*boxes, contact_preset_variant=name) for name in ("approx32", "drake"))
    scale = np.abs(reference.v).max()
    precision, model = np.abs(approx32.v - reference.v).max(), np.abs(drake.v - reference.v).max()
    assert 0.0 < precision < 1e-3 * scale
    assert model > 10.0 * precision
    assert reference.count > 4


def test_contact_weight_mode_changes_the_weight_only(boxes, reference):
    """The three estimates differ; gap and points stay."""
    weights = [reference.row("weight")]
    for mode in ("diag_delassus", "delassus"):
        other = Step(*boxes, contact_preset_variant="approx64", contact_weight_mode=mode)
        np.testing.assert_array_equal(other.row("phi0"), reference.row("phi0"))
        np.testing.assert_array_equal(other.row("r_b"), reference.row("r_b"))
        weights.append(other.row("weight"))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(weights[i] / weights[j] - 1.0).max() > 1e-3


def test_contact_point_mode_moves_the_velocity_point_only(boxes, reference):
    """The midpoint is the stiffness-weighted mean of the two witnesses; the gap stays."""
    other = Step(*boxes, contact_preset_variant="approx64", contact_point_mode="contact_midpoint")
    np.testing.assert_array_equal(other.row("phi0"), reference.row("phi0"))
    between = (reference.row("body_a") >= 0) & (reference.row("body_b") >= 0)
    assert between.any()
    # both boxes are trees of their own: compare in world axes about the origins of the two trees
    origin = other.motion.data.origin.numpy()
    for row in np.flatnonzero(between):
        a, b = reference.row("body_a")[row], reference.row("body_b")[row]
        x0, x1 = origin[a] + reference.row("r_a")[row], origin[b] + reference.row("r_b")[row]
        shape0, shape1 = (boxes[1].rigid_contact_shape0.numpy(), boxes[1].rigid_contact_shape1.numpy())
        i = reference.row("source")[row]
        k0, k1 = boxes[0].shape_material_ke.numpy()[[shape0[i], shape1[i]]].astype(np.float64)
        expected = (k0 * x0 + k1 * x1) / (k0 + k1)
        np.testing.assert_allclose(origin[a] + other.row("r_a")[row], expected, atol=1e-12)
        np.testing.assert_allclose(origin[b] + other.row("r_b")[row], expected, atol=1e-12)


@pytest.mark.parametrize("mode", ["body_inertia", "diag_delassus"])
def test_the_midpoint_leaves_the_weight_of_body_inertia_alone(boxes, mode):
    """Its lever arms end at the witnesses in both point modes; diag_delassus takes J, so it follows the point."""
    runs = [
        Step(*boxes, contact_preset_variant="approx64", contact_weight_mode=mode, contact_point_mode=point)
        for point in ("witness_point", "contact_midpoint")
    ]
    same = np.array_equal(runs[0].row("weight"), runs[1].row("weight"))
    assert same == (mode == "body_inertia")


def test_the_weight_does_not_depend_on_how_the_body_frame_is_turned():
    """One box in its principal frame and in one turned by 15 degrees: the full inertia tensor gives the same w."""
    weights = []
    half = np.array([0.2, 0.1, 0.05])
    moments = np.diag(2.0 / 3.0 * (half @ half - half**2))
    for angle in (0.0, np.pi / 12.0):
        turn = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), angle)
        R = np.array(wp.quat_to_matrix(turn)).reshape(3, 3)
        b = newton.ModelBuilder()
        b.add_ground_plane()
        inertia = wp.mat33(*(R.T @ moments @ R).ravel())
        body = b.add_body(xform=wp.transform((0.0, 0.0, 0.05), turn), mass=2.0, inertia=inertia, lock_inertia=True)
        back = wp.transform((0.0, 0.0, 0.0), wp.quat_inverse(turn))
        b.add_shape_box(body, xform=back, hx=0.2, hy=0.1, hz=0.05, cfg=b.ShapeConfig(density=0.0))
        model = b.finalize(device="cpu")
        pipeline = newton.CollisionPipeline(model, broad_phase="nxn")
        contacts = pipeline.contacts()
        pipeline.collide(model.state(), contacts)
        solver = sap_warp.SolverSAP(model, contact_preset_variant="approx64")
        solver.step(model.state(), model.state(), None, contacts, DT)
        weights.append(np.sort(solver.contact_jacobian.data.weight.numpy()[: solver.last_contact_count]))
    assert len(weights[0]) == 4
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-5)


def test_position_integration_changes_positions_only(boxes, reference):
    """Same velocity, other positions."""
    other = Step(*boxes, contact_preset_variant="approx64", position_integration="sap_euler")
    np.testing.assert_array_equal(other.v, reference.v)
    assert np.abs(other.after.joint_q.numpy() - reference.after.joint_q.numpy()).max() > 1e-5


@pytest.fixture(scope="module")
def single(boxes):
    """All in fp32, by a search whose steps the precision of the sums decides."""
    options = {"contact_preset_variant": "approx32", "contact_solve_precision": "fp32"}
    return Step(*boxes, **options, line_search_variant="exact_root")


@pytest.mark.slow
def test_free_motion_precision_is_that_of_A_and_v_star(boxes, reference):
    """fp32 free motion rounds A and v*; fp64 does not."""
    solver = sap_warp.SolverSAP(boxes[0], contact_preset_variant="approx64", free_motion_solve_precision="f32")
    motion = solver.compute_free_motion(start(boxes[0]), None, DT)  # no kernel of a solve is compiled
    assert motion.data.A.dtype is wp.float32 and reference.motion.data.A.dtype is wp.float64
    difference = np.abs(motion.v_star() - reference.motion.v_star()).max()
    assert 0.0 < difference < 1e-4
    assert motion.data.r.dtype is wp.quatd  # poses stay fp64: use_f64_boundary_pose is its own knob


@pytest.mark.slow
def test_contact_solve_precision_is_that_of_the_objective(single, reference):
    """fp32 buffers for v, gradient and contact data; the solution agrees to fp32."""
    assert single.solver.contact_solve.data.v.dtype is wp.float32 and single.rows.phi0.dtype is wp.float32
    assert reference.solver.contact_solve.data.v.dtype is wp.float64 and reference.rows.phi0.dtype is wp.float64
    assert single.solver.options.line_search_slop == pytest.approx(1000 * 2.0**-23)
    assert 0.0 < np.abs(single.v - reference.v).max() < 2e-2


@pytest.mark.slow
def test_cost_precision_is_that_of_the_sums(boxes, single, reference):
    """All else in fp32, fp64 sums lead the exact search to other steps, and not farther from the fp64 solution."""
    options = {"contact_preset_variant": "approx32", "contact_solve_precision": "fp32"}
    other = Step(*boxes, **options, line_search_variant="exact_root", contact_cost_precision="fp64")
    assert other.solver.contact_solve.data.v.dtype is wp.float32
    distances = [np.abs(each.v - reference.v).max() for each in (single, other)]
    assert np.any(other.v != single.v) and 0.0 < distances[1] < max(2.0 * distances[0], 2e-2)


@pytest.mark.slow
def test_rounding_of_fp32_terms_does_not_hold_up_the_search():
    """Near the minimum costs of fp32 terms cannot tell steps apart; the search must not halve them until they can."""
    precisions = {"contact_solve_precision": "fp32", "contact_cost_precision": "fp64"}
    sim = sap_warp.Simulation.from_scene("humanoid", num_worlds=4, contact_preset_variant="approx32", **precisions)
    sim.joint_qd["root.vx"] = [0.0, 0.2, 0.4, 0.6]
    sim.step(300)
    assert sim.statistics.not_converged == 0  # 13 % with a slack of 1e-12
    assert sim.statistics.iterations.mean < 3.0


@pytest.mark.slow
def test_linear_solve_precision_is_that_of_the_factorization(boxes, reference):
    """An fp32 Newton direction still reaches the fp64 minimizer, since the gradient stays fp64."""
    other = Step(*boxes, contact_preset_variant="approx64", contact_linear_solve_precision="fp32")
    assert other.solver.contact_solve.data.H.dtype is wp.float32
    assert reference.solver.contact_solve.data.H.dtype is wp.float64
    assert other.solver.residual[0] < 1e-6
    assert 0.0 < np.abs(other.v - reference.v).max() < 1e-3


@pytest.mark.slow
def test_weight_precision_rounds_the_weight(boxes, reference):
    """A weight computed in fp32 is stored in fp64 as an fp32 number."""
    other = Step(*boxes, contact_preset_variant="approx64", sap_contact_weight_precision="fp32")
    assert fits_fp32(other.row("weight")) and not fits_fp32(reference.row("weight"))
    np.testing.assert_allclose(other.row("weight"), reference.row("weight"), rtol=1e-5)
    np.testing.assert_array_equal(other.row("phi0"), reference.row("phi0"))


@pytest.mark.slow
def test_boundary_pose_precision_rounds_gaps_and_points(boxes, reference):
    """Contacts prepared with fp32 poses have fp32 gaps and lever arms; free motion does not change."""
    other = Step(*boxes, contact_preset_variant="approx64", use_f64_boundary_pose=False)
    assert fits_fp32(other.row("phi0")) and not fits_fp32(reference.row("phi0"))
    assert 0.0 < np.abs(other.row("phi0") - reference.row("phi0")).max() < 1e-6
    np.testing.assert_array_equal(other.motion.v_star(), reference.motion.v_star())


def test_line_searches_take_different_ways_to_the_same_velocity():
    """The variants evaluate the objective at different steps."""
    trials, velocities = [], []
    for search in LINE_SEARCHES:
        case = Case(3, contacts=8, line_search_variant=search, optimality_rel_tol=1e-8).step()
        trials.append(case.solver.last_line_search_iterations)
        velocities.append(case.solver.contact_solve.velocity.numpy())
    assert len(set(trials)) == len(LINE_SEARCHES)
    for velocity in velocities[1:]:
        np.testing.assert_allclose(velocity, velocities[0], atol=1e-5 * np.abs(velocities[0]).max())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("contact_beta", 3.0),
        ("contact_sigma", 1e-2),
        ("contact_tau_d", 0.05),
        ("cost_rel_tol", 0.5),
        ("optimality_rel_tol", 0.5),
        ("optimality_abs_tol", 1e3),
        ("cost_abs_tol", 1e3),
        ("max_iterations", 1),
        ("line_search_max_iterations", 1),
        ("max_rigid_contact", 2),
    ],
)
def test_option_changes_the_step(boxes, reference, option, value):
    """Each numerical option reaches the kernels."""
    other = Step(*boxes, contact_preset_variant="approx64", **{option: value})
    assert np.abs(other.v - reference.v).max() > 1e-9


@pytest.mark.parametrize(("option", "value"), [("rho", 0.5), ("armijo_c", 0.9), ("line_search_relative_slop", 10.0)])
def test_armijo_option_changes_the_search(option, value):
    """The options of armijo_decay change where it evaluates."""
    trials = [
        Case(4, contacts=8, line_search_variant="armijo_decay", **options).step().solver.last_line_search_iterations
        for options in ({}, {option: value})
    ]
    assert trials[0] != trials[1]


def test_fallbacks_stand_in_for_unset_materials(boxes):
    """A stiffness of zero and a negative friction mean 'unset'."""
    model = tilted_box_on_box()
    model.shape_material_ke.fill_(0.0)
    model.shape_material_mu.fill_(-1.0)
    step = Step(model, boxes[1], contact_preset_variant="approx64", fallback_mu=0.3, fallback_stiffness=1e3)
    np.testing.assert_allclose(step.row("mu"), 0.3)
    pair_tau = 2 * step.solver.options.contact_tau_d
    np.testing.assert_allclose(step.row("Rn"), 1.0 / (DT * 500.0 * (DT + pair_tau)))


def test_a_step_is_at_most_eight_launches(boxes, monkeypatch):
    """Boundary, free motion, binning, contact data, solve, integration."""
    launches = []
    launch = wp.launch
    monkeypatch.setattr(
        wp, "launch", lambda kernel, *args, **kwargs: (launches.append(kernel), launch(kernel, *args, **kwargs))
    )
    Step(*boxes, contact_preset_variant="approx64")
    names = [kernel.key for kernel in launches if "pack_" not in kernel.key]
    assert len(names) == 6, names


def test_stages_can_be_run_alone(boxes, reference):
    """Free motion and contact data without a step: the same numbers, and the state stays as it was."""
    model, contacts = boxes
    solver = sap_warp.SolverSAP(model, contact_preset_variant="approx64")
    state = start(model)
    before = state.joint_q.numpy(), state.joint_qd.numpy()
    np.testing.assert_array_equal(solver.compute_free_motion(state, None, DT).v_star(), reference.motion.v_star())
    rows = solver.compute_contacts(state, None, contacts, DT)
    np.testing.assert_array_equal(rows.data.phi0.numpy()[: reference.count], reference.row("phi0"))
    assert rows.dense(0).shape == (reference.count, 3, model.joint_dof_count)
    np.testing.assert_array_equal(before[0], state.joint_q.numpy())
    np.testing.assert_array_equal(before[1], state.joint_qd.numpy())
    assert solver.frame_id == 0


def test_all_presets_are_covered():
    """A new preset must be added to this file."""
    assert set(PRESETS) == {"approx32", "approx64", "drake", "robot"}  # the last in tests/physics/test_preset_robot.py
