"""v* is found only for worlds that ask for it: nothing else about a step may depend on that."""

import newton
import numpy as np
import pytest
import warp as wp

import sap_warp
from sap_warp.solver.settings.options import SapOptions
from sap_warp.solver.settings.status import SolveStatus
from tests.support.scenes import G, Stepper, one_joint
from tests.support.solver_cases import Case, assert_close

H = 0.01
NEAR_RIGID = 0.1**2 / (4.0 * np.pi**2)
SEARCHES = {
    "monotone_decay": {"line_search_variant": "monotone_decay", "cost_abs_tol": None, "cost_rel_tol": None},
    "exact_root": {"line_search_variant": "exact_root", "cost_abs_tol": 0.0, "cost_rel_tol": 5e-3},
}
NO_DISTANCE = {
    "kinds": ("revolute", "prismatic", "ball", "d6", "fixed", "revolute", "free"),
    "roots": ("free", "revolute", "d6", "ball", "prismatic"),
}


def random_case(seed, contacts=6, **options):
    """A case without distance joints, which need v* in every step."""
    return Case(seed, contacts=contacts, shape=NO_DISTANCE, **options)


@pytest.fixture
def always(monkeypatch):
    """Call to make solvers find v* of every world before the solve."""

    def switch(on):
        monkeypatch.setattr(SapOptions, "needs_free_velocity", True if on else by_options)

    by_options = SapOptions.needs_free_velocity
    return switch


@pytest.mark.parametrize("seed", range(8))
def test_the_minimum_is_that_of_the_oracle(seed):
    """Solved tightly, with v* found by nobody: the gradient of the dense objective vanishes."""
    case = random_case(seed)
    assert case.solver.free_motion.data.solved == 0
    case.step()
    for w, world in enumerate(case.oracle):
        v = case.solver.contact_solve.velocity.numpy()[case.dofs(w)]
        assert world.residual(v) < 1e-9
        assert_close(v, world.minimize(), 1e-9, f"velocity of world {w}")
        assert_close(case.solver.free_motion.v_star()[case.dofs(w)], world.v_star, 1e-10, f"v* of world {w}")


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("seed", range(6))
def test_worlds_stop_where_they_would_with_v_star_known(seed, search, always):
    """With loose tolerances the cost criterion decides: on the true cost, whoever finds it."""
    outcomes = []
    for on in (False, True):
        always(on)
        case = random_case(seed, contacts=seed, **SEARCHES[search]).step()
        assert case.solver.free_motion.data.solved == int(on)
        outcomes.append((case.solver.iterations, case.solver.status, case.solver.contact_solve.velocity.numpy()))
    np.testing.assert_array_equal(outcomes[0][0], outcomes[1][0])
    np.testing.assert_array_equal(outcomes[0][1], outcomes[1][1])
    np.testing.assert_allclose(outcomes[0][2], outcomes[1][2], rtol=1e-9, atol=1e-9)


def push_at_a_limit(force, gap, limit_kd, **more):
    """One step of a 2 kg slider at rest, pushed towards a limit ``gap`` away; returns the simulation."""
    limit = {"limit_upper": gap, "limit_lower": -1.0, "limit_ke": 1e4, "limit_kd": limit_kd}
    model = one_joint("prismatic", gravity=(0.0, 0.0, 0.0), **limit, **more)
    exact = {"optimality_rel_tol": 1e-12, "cost_abs_tol": 0.0, "cost_rel_tol": 0.0}
    sim = Stepper(model, H, precision="fp64", **exact)
    sim.control.joint_f.assign(np.array([force], np.float32))
    return sim.step()


@pytest.mark.parametrize("friction", [0.0, 0.5])
def test_a_limit_that_only_the_result_reaches_takes_part(friction):
    """v0 = 0, so the limit seems out of reach; v* crosses it. Friction makes the world one that has a term already."""
    force, gap, kd = 512.0, 0.0078125, 16.0
    sim = push_at_a_limit(force, gap, kd, friction=friction)
    R = max(NEAR_RIGID / 2.0, 1.0 / (H * 1e4 * (H + kd / 1e4)))
    impulse = force * H - friction * H
    vhat = gap / (H + kd / 1e4)
    assert impulse / 2.0 > vhat
    expected = (impulse + vhat / R) / (2.0 + 1.0 / R)
    assert sim.qd[0] == pytest.approx(expected, rel=1e-6)
    assert sim.solver.last_converged


def test_a_limit_out_of_reach_of_v_star_takes_no_part():
    """A long dissipation time lets the bound act at a distance that the rule 2 h max(|v0|, |v*|) excludes."""
    force, kd = 512.0, 1e4
    v_star = force * H / 2.0
    gap = 3.0 * H * v_star
    assert v_star > gap / (H + kd / 1e4)
    assert push_at_a_limit(force, gap, kd).qd[0] == pytest.approx(v_star, rel=1e-12)
    assert push_at_a_limit(force, 1.5 * H * v_star, kd).qd[0] < 0.5 * v_star


@pytest.mark.parametrize("grounded", [False, True])
def test_a_world_without_positive_dynamics_is_marked_and_kept(grounded):
    """Its neighbour moves on as if it were alone."""
    b = newton.ModelBuilder(gravity=(0.0, 0.0, -G))
    b.add_ground_plane(cfg=newton.ModelBuilder.ShapeConfig(ke=1e5, gap=0.001))
    for _ in range(2):
        b.begin_world()
        body = b.add_body(xform=((0.0, 0.0, 0.099 if grounded else 1.0), (0.0, 0.0, 0.0, 1.0)), mass=1.0)
        b.add_shape_sphere(body, radius=0.1, cfg=newton.ModelBuilder.ShapeConfig(ke=1e5, density=100.0, gap=0.001))
        b.end_world()
    model = b.finalize(device="cpu")
    sim = Stepper(model, H)
    armature = model.joint_armature.numpy()
    armature[6:] = -1e7  # a solver would refuse it at construction
    model.joint_armature.assign(armature)
    before = sim.q
    sim.step(2)
    assert sim.solver.status.tolist() == [SolveStatus.CONVERGED, SolveStatus.FREE_MOTION_FAILED]
    np.testing.assert_array_equal(sim.q[7:], before[7:])
    np.testing.assert_array_equal(sim.qd[6:], 0.0)
    assert sim.q[2] != before[2]


def test_whoever_needs_v_star_gets_it():
    """Exact weights, distance joints, armijo_decay and unlike precisions need it in every world."""
    model = one_joint()
    unlike = {"contact_linear_solve_precision": "fp32"}
    for options in ({"contact_weight_mode": "delassus"}, {"line_search_variant": "armijo_decay"}, unlike):
        solver = sap_warp.SolverSAP(model, contact_preset_variant="approx64", **options)
        assert solver.free_motion.data.solved == 1, options
    for preset in ("approx32", "approx64", "drake"):
        assert sap_warp.SolverSAP(model, contact_preset_variant=preset).free_motion.data.solved == 0
    distance = newton.ModelBuilder()
    body = distance.add_link(mass=1.0, inertia=wp.mat33(np.eye(3)), lock_inertia=True)
    distance.add_articulation([distance.add_joint_distance(-1, body, min_distance=0.5, max_distance=1.0)])
    assert sap_warp.SolverSAP(distance.finalize(device="cpu")).free_motion.data.solved == 1
