"""Random problems that the solver and the dense oracle read alike."""

import numpy as np

import sap_warp
from sap_warp.core.kernels.launch import WorldRange
from tests.support.oracle import (
    DenseWorld,
    OracleOptions,
    close_loops,
    fill_newton_contacts,
    random_contacts,
    random_controls,
    random_model,
    random_state,
)

DT = 0.01
TIGHT = {
    "optimality_rel_tol": 1e-12,
    "optimality_abs_tol": 1e-14,
    "cost_abs_tol": 0.0,
    "cost_rel_tol": 0.0,
    "line_search_variant": "exact_root",
    "contact_tau_d": 0.01,
}
CONTROLS = {
    "joint_f": "joint_f",
    "joint_target_q": "joint_target_pos",
    "joint_target_qd": "joint_target_vel",
    "joint_act": "joint_act",
}


def random_problem(seed, worlds, contacts, overrides=True, **shape):
    """Worlds that differ in trees, joints, materials, gravity, state, controls and contacts.

    Returns the model, joint_q, joint_qd, the contacts of each world, and the controls.
    """
    rng = np.random.default_rng(seed)
    model = random_model(rng, worlds, exact=True, **shape)
    q, qd = random_state(rng, model, exact=True)
    if shape.get("couplings"):
        close_loops(rng, model, q, worlds)
    records = [random_contacts(rng, model, w, contacts, q, exact=True, overrides=overrides) for w in range(worlds)]
    return model, q, qd, records, random_controls(rng, model)


def assign_controls(control, values):
    """Write controls of `random_problem` into a SapControl."""
    for source, target in CONTROLS.items():
        getattr(control, target).assign(values[source].astype(np.float32))


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
        problem = random_problem(seed, worlds, contacts, overrides, **(shape or {}))
        self.model, self.q, self.qd, records, controls = problem
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
        assign_controls(self.control, controls)
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
        """The Hessian whose factor the solve left behind, L L^T, in Newton's dof order of the world.

        All worlds use the same scratch: the world is solved once more, alone.
        """
        self.solver.contact_solve.solve(DT, WorldRange(w, 1, 1))
        layout, data = self.solver.layout, self.solver.contact_jacobian.data
        start, end = layout.world_dof.numpy()[w : w + 2]
        rows, places = (data.hessian.first, data.hessian.entry), np.arange(start, end)
        begin = layout.world_hessian.numpy()[w]
        if not self.solver.contact_solve.data.widened.numpy()[w]:
            rows, begin = (layout.rows.first, layout.rows.entry), layout.world_entry.numpy()[w]
        elif data.coupled.numpy()[w]:
            rows, places = (data.ordered_first, data.ordered_entry), data.dof_position.numpy()[start:end]
        first, entry = (array.numpy() for array in rows)
        packed = self.solver.contact_solve.data.H.numpy()
        L = np.zeros((end - start, end - start))
        for i in range(start, end):
            at = entry[i] - begin
            row = packed[at : at + i - first[i] + 1].copy()
            row[-1] = 1.0 / row[-1]  # the diagonal is stored inverted
            L[i - start, first[i] - start : i - start + 1] = row
        order = places[np.argsort(layout.dof_newton.numpy()[start:end])] - start
        return (L @ L.T)[np.ix_(order, order)]


def assert_close(actual, expected, tolerance, what):
    """Largest difference relative to the largest expected entry."""
    scale = max(np.abs(expected).max(initial=0.0), 1e-9)
    assert np.abs(np.asarray(actual) - expected).max(initial=0.0) / scale < tolerance, what
