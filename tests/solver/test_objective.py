"""The solver's problem and minimizer against the dense NumPy oracle, which shares no code with it."""

import functools

import numpy as np
import pytest

from tests.support.solver_cases import Case, assert_close

MODES = [(w, p) for w in ("body_inertia", "diag_delassus", "delassus") for p in ("witness_point", "contact_midpoint")]


@functools.cache
def solved(seed, search):
    """A case solved tightly; shared, so read only."""
    return Case(seed, line_search_variant=search).step()


@pytest.mark.parametrize("seed", range(6))
def test_dynamics_matrix_and_free_velocity_match_the_oracle(seed):
    """A and v* of random trees with every joint type agree to fp64 round-off."""
    case = solved(seed, "exact_root")
    v_star = case.solver.free_motion.v_star()
    for w, world in enumerate(case.oracle):
        assert_close(case.solver.free_motion.dynamics_matrix(w), world.A, 1e-11, f"A of world {w}")
        assert_close(v_star[case.dofs(w)], world.v_star, 1e-10, f"v* of world {w}")


@pytest.mark.parametrize("overrides", [True, False])
@pytest.mark.parametrize(("weight", "point"), MODES)
def test_contact_rows_match_the_oracle(weight, point, overrides):
    """Gap, weight, regularization and Jacobian of every contact agree in every weight and point mode."""
    case = Case(7, contacts=8, weight=weight, point=point, overrides=overrides).step()
    data, capacity = case.solver.contact_jacobian.data, case.solver.contact_jacobian.capacity
    for w, world in enumerate(case.oracle):
        rows = np.arange(w * capacity, w * capacity + int(data.count.numpy()[w]))
        contact = data.source.numpy()[rows] >= 0  # the others are bounds of distance joints
        assert contact.sum() == world.nc
        expected = {"phi0": world.phi0, "weight": world.w, "Rt": world.Rt, "Rn": world.Rn, "mu": world.mu}
        expected["vhat"] = world.vhat_n
        for name, theirs in expected.items():
            assert_close(getattr(data, name).numpy()[rows[contact]], theirs, 1e-9, f"{name} of world {w}")
        J = case.solver.contact_jacobian.dense(w)[contact]
        in_world_axes = np.einsum("cij,cjk->cik", world.R_WC, world.J.reshape(world.nc, 3, -1))
        assert_close(J, in_world_axes, 1e-11, f"J of world {w}")


def test_tables_follow_contacts_that_come_and_go():
    """Contacts between moving bodies widen rows of the Hessian; without contacts the rows are narrow again."""
    case = Case(3).step()
    data, layout = case.solver.contact_jacobian.data, case.solver.layout
    free = case.solver.sizes.free_dof_count
    tables = (data.hessian.first, data.hessian.entry, case.solver.contact_solve.velocity)
    with_contacts = [table.numpy().copy() for table in tables]
    assert data.coupled.numpy().any() and data.body_active.numpy().any()
    assert (with_contacts[0][:free] < layout.dof_reach.numpy()).any()
    touching, case.contacts = case.contacts, None
    case.step()
    np.testing.assert_array_equal(data.hessian.first.numpy()[:free], layout.dof_reach.numpy())
    np.testing.assert_array_equal(data.coupled.numpy(), layout.world_coupled.numpy())
    case.contacts = touching
    case.step()
    for before, after in zip(with_contacts, tables, strict=True):
        np.testing.assert_array_equal(after.numpy(), before)


@pytest.mark.parametrize("seed", range(8))
def test_gradient_and_hessian_match_the_oracle(seed):
    """After one iteration: the Hessian at the guess and the gradient at the new velocity, matrix-free against dense."""
    case = Case(seed, contacts=8, max_iterations=1).step()
    solve = case.solver.contact_solve
    for w, world in enumerate(case.oracle):
        if case.solver.iterations[w] == 0:
            continue
        v0 = case.by_dof(case.solver.free_motion.data.v0, w)
        v1 = case.by_dof(solve.data.v, w)
        assert_close(v0, world.v0, 1e-12, f"v0 of world {w}")
        assert_close(case.hessian(w), world.hess(v0), 1e-9, f"Hessian of world {w}")
        scale = max(np.abs(world.A @ v1).max(), np.abs(world.A @ world.v_star).max())
        assert np.abs(case.by_dof(solve.data.gradient, w) - world.grad(v1)).max() < 1e-9 * scale


@pytest.mark.parametrize("search", ["exact_root", "monotone_decay", "armijo_decay"])
@pytest.mark.parametrize("seed", range(6))
def test_minimizer_matches_the_oracle(seed, search):
    """With every line search, the returned velocity is the minimizer of the independent objective to 1e-9."""
    case = solved(seed, search)
    velocity = case.solver.contact_solve.velocity.numpy()
    for w, world in enumerate(case.oracle):
        v = velocity[case.dofs(w)]
        assert world.residual(v) < 1e-9, f"world {w}, status {case.solver.status}"
        assert_close(v, world.minimize(), 1e-9, f"velocity of world {w}")


@pytest.mark.parametrize("mode", ["midpoint", "sap_euler"])
@pytest.mark.parametrize("seed", range(4))
def test_integration_matches_the_oracle(seed, mode):
    """New positions and public velocities of every joint type, for both integration rules."""
    case = Case(seed, position_integration=mode).step()
    velocity = case.solver.contact_solve.velocity.numpy()
    q, qd = case.after.joint_q.numpy(), case.after.joint_qd.numpy()
    for w, world in enumerate(case.oracle):
        q_expected, qd_expected = world.integrate(velocity[case.dofs(w)], mode)
        mine = ~np.isnan(q_expected) if np.isnan(q_expected).any() else coordinates(case, w)
        assert_close(q[mine], q_expected[mine], 1e-12, f"joint_q of world {w}")
        assert_close(qd[case.dofs(w)], qd_expected[case.dofs(w)], 1e-12, f"joint_qd of world {w}")


def coordinates(case, w):
    """Indices of one world's joint_q."""
    starts, world = case.model.joint_q_start.numpy(), case.model.joint_world.numpy()
    return np.concatenate([np.arange(starts[j], starts[j + 1]) for j in np.flatnonzero(world == w)])
