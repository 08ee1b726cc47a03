"""The solver's problem and minimizer against the dense NumPy oracle, which shares no code with it."""

import numpy as np
import pytest
import warp as wp
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


class Case:
    """One random model of several worlds: oracle and subject read the same values."""

    def __init__(self, seed, worlds=3, contacts=6, weight="diag_delassus", point="contact_midpoint", **options):
        rng = np.random.default_rng(seed)
        self.model = random_model(rng, worlds, exact=True)
        self.q, self.qd = random_state(rng, self.model, exact=True)
        records = [random_contacts(rng, self.model, w, contacts, self.q, exact=True, overrides=True) for w in range(worlds)]
        controls = random_controls(rng, self.model)
        settings = OracleOptions(weight, point, contact_tau_d=0.01)
        self.oracle = [
            DenseWorld(self.model, self.q, self.qd, DT, world=w, contacts=records[w], options=settings, **controls)
            for w in range(worlds)
        ]
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
        names = {"joint_f": "joint_f", "joint_target_q": "joint_target_pos", "joint_target_qd": "joint_target_vel", "joint_act": "joint_act"}
        for source, target in names.items():
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


def assert_close(actual, expected, tolerance, what):
    scale = max(np.abs(expected).max(initial=0.0), 1e-9)
    assert np.abs(np.asarray(actual) - expected).max(initial=0.0) / scale < tolerance, what


@pytest.mark.parametrize("seed", range(4))
def test_dynamics_matrix_and_free_velocity_match_the_oracle(seed):
    """A and v* of random trees with every joint type agree to fp64 round-off."""
    case = Case(seed).step()
    v_star = case.solver.free_motion.v_star()
    for w, world in enumerate(case.oracle):
        assert_close(case.solver.free_motion.dynamics_matrix(w), world.A, 1e-11, f"A of world {w}")
        assert_close(v_star[case.dofs(w)], world.v_star, 1e-10, f"v* of world {w}")


@pytest.mark.parametrize(("weight", "point"), MODES)
def test_contact_rows_match_the_oracle(weight, point):
    """Gap, weight, regularization and Jacobian of every contact agree in every weight and point mode."""
    case = Case(7, contacts=8, weight=weight, point=point).step()
    data, capacity = case.solver.contact_jacobian.data, case.solver.contact_jacobian.capacity
    for w, world in enumerate(case.oracle):
        count = int(data.count.numpy()[w])
        rows = slice(w * capacity, w * capacity + count)
        contact = data.source.numpy()[rows] >= 0
        rows = np.arange(w * capacity, w * capacity + count)[contact]
        assert len(rows) == world.nc
        for ours, theirs in (("phi0", world.phi0), ("weight", world.w), ("Rt", world.Rt), ("Rn", world.Rn), ("mu", world.mu)):
            assert_close(getattr(data, ours).numpy()[rows], theirs, 1e-9, f"{ours} of world {w}")
        J = case.solver.contact_jacobian.dense(w)[contact]
        world_axes = np.einsum("cij,cjk->cik", world.R_WC, world.J.reshape(world.nc, 3, -1))
        assert_close(J, world_axes, 1e-11, f"J of world {w}")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("search", ["exact_root", "armijo_decay", "monotone_decay"])
def test_minimizer_matches_the_oracle(seed, search):
    """The returned velocity is the minimizer of the independent objective, whatever the line search."""
    case = Case(seed, line_search_variant=search).step()
    velocity = case.solver.contact_solve.velocity.numpy()
    for w, world in enumerate(case.oracle):
        v = velocity[case.dofs(w)]
        assert world.residual(v) < 1e-9, f"world {w}: {world.residual(v)}, status {case.solver.status}"
        assert_close(v, world.minimize(), 1e-9, f"velocity of world {w}")
