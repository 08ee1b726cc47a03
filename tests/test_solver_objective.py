"""The solver's problem and minimizer against the dense NumPy oracle, which shares no code with it."""

import functools

import numpy as np
import pytest
from oracle import (
    DenseWorld,
    OracleOptions,
    fill_newton_contacts,
    random_contacts,
    random_controls,
    random_model,
    random_state,
)

import sap_warp
from sap_warp.kernels.structs import Scratch

DT = 0.01
TIGHT = {
    "optimality_rel_tol": 1e-12,
    "optimality_abs_tol": 1e-14,
    "cost_abs_tol": 0.0,
    "cost_rel_tol": 0.0,
    "line_search_variant": "exact_root",
    "contact_tau_d": 0.01,
}
MODES = [(w, p) for w in ("body_inertia", "diag_delassus", "delassus") for p in ("witness_point", "contact_midpoint")]
CONTROLS = {
    "joint_f": "joint_f",
    "joint_target_q": "joint_target_pos",
    "joint_target_qd": "joint_target_vel",
    "joint_act": "joint_act",
}


class Case:
    """One random model of several worlds: oracle and subject read the same values."""

    def __init__(
        self,
        seed,
        worlds=3,
        contacts=6,
        weight="diag_delassus",
        point="contact_midpoint",
        overrides=True,
        shape=None,
        **options,
    ):
        rng = np.random.default_rng(seed)
        self.model = random_model(rng, worlds, exact=True, **(shape or {}))
        self.q, self.qd = random_state(rng, self.model, exact=True)
        records = [
            random_contacts(rng, self.model, w, contacts, self.q, exact=True, overrides=overrides)
            for w in range(worlds)
        ]
        controls = random_controls(rng, self.model)
        settings = OracleOptions(weight, point, contact_tau_d=0.01)
        self.oracle = [
            DenseWorld(self.model, self.q, self.qd, DT, world=w, contacts=records[w], options=settings, **controls)
            for w in range(worlds)
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Scratch, "sharing", False)  # `hessian` reads that of every world
            self.solver = sap_warp.SolverSAP(
                self.model,
                contact_preset_variant="approx64",
                contact_weight_mode=weight,
                contact_point_mode=point,
                **{**TIGHT, **options},
            )
        self.contacts = fill_newton_contacts(self.model, [r for world in records for r in world])
        sap_model = self.solver.sap_model
        self.state, self.after = sap_model.state("fp64"), sap_model.state("fp64")
        self.state.joint_q.assign(self.q)
        self.state.joint_qd.assign(self.qd)
        pose = self.oracle[0].body_state()[0]
        for world in self.oracle[1:]:
            pose = np.where(np.isnan(pose), world.body_state()[0], pose)
        self.state.body_q.assign(pose)
        self.control = sap_model.control()
        for source, target in CONTROLS.items():
            if source in controls:
                getattr(self.control, target).assign(controls[source].astype(np.float32))
        if "body_f" in controls:
            self.state.body_f.assign(controls["body_f"].astype(np.float32))

    def step(self):
        self.solver.step(self.state, self.after, self.control, self.contacts, DT)
        return self

    def dofs(self, w):
        layout = self.solver.layout
        start, end = layout.world_dof.numpy()[w : w + 2]
        return np.sort(layout.dof_newton.numpy()[start:end])

    def by_dof(self, values, w):
        """Values in solver order as those of one world in Newton's order."""
        return self.solver.free_motion.to_newton_order(values)[self.dofs(w)]

    def hessian(self, w):
        """The Hessian whose factor the solve left behind, L L^T, in Newton's dof order of the world."""
        layout, data = self.solver.layout, self.solver.contact_jacobian.data
        start, end = layout.world_dof.numpy()[w : w + 2]
        first, entry = data.hessian_first.numpy(), data.hessian_entry.numpy()
        packed = self.solver.contact_solve.data.H.numpy()
        L = np.zeros((end - start, end - start))
        for e in range(start, end):
            row = packed[entry[e] : entry[e] + e - first[e] + 1].copy()
            row[-1] = 1.0 / row[-1]  # the diagonal is stored inverted
            L[e - start, first[e] - start : e - start + 1] = row
        order = np.argsort(layout.dof_newton.numpy()[start:end])
        return (L @ L.T)[np.ix_(order, order)]


@functools.cache
def solved(seed):
    """A case solved tightly; shared, so read only."""
    return Case(seed).step()


def assert_close(actual, expected, tolerance, what):
    """Largest difference relative to the largest expected entry."""
    scale = max(np.abs(expected).max(initial=0.0), 1e-9)
    assert np.abs(np.asarray(actual) - expected).max(initial=0.0) / scale < tolerance, what


@pytest.mark.parametrize("seed", range(6))
def test_dynamics_matrix_and_free_velocity_match_the_oracle(seed):
    """A and v* of random trees with every joint type agree to fp64 round-off."""
    case = solved(seed)
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
    with_contacts = [data.hessian_first.numpy(), data.hessian_entry.numpy(), case.solver.contact_solve.velocity.numpy()]
    assert data.coupled.numpy().any() and data.body_active.numpy().any()
    assert (with_contacts[0][:free] < layout.dof_reach.numpy()).any()
    touching, case.contacts = case.contacts, None
    case.step()
    np.testing.assert_array_equal(data.hessian_first.numpy()[:free], layout.dof_reach.numpy())
    np.testing.assert_array_equal(data.coupled.numpy(), layout.world_coupled.numpy())
    case.contacts = touching
    case.step()
    again = [data.hessian_first.numpy(), data.hessian_entry.numpy(), case.solver.contact_solve.velocity.numpy()]
    for before, after in zip(with_contacts, again, strict=True):
        np.testing.assert_array_equal(after, before)


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


@pytest.mark.parametrize("seed", range(6))
def test_minimizer_matches_the_oracle(seed):
    """The returned velocity is the minimizer of the independent objective to 1e-9."""
    case = solved(seed)
    velocity = case.solver.contact_solve.velocity.numpy()
    for w, world in enumerate(case.oracle):
        v = velocity[case.dofs(w)]
        assert world.residual(v) < 1e-9
        assert_close(v, world.minimize(), 1e-9, f"velocity of world {w}")


@pytest.mark.parametrize("search", ["monotone_decay", "armijo_decay"])
@pytest.mark.parametrize("seed", range(6))
def test_minimizer_does_not_depend_on_the_line_search(seed, search):
    """All searches end at the same velocity."""
    case = Case(seed, line_search_variant=search).step()
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
