"""Take a step apart: run the stages by themselves and check what the solver found.

    python examples/stages.py

The new velocity minimizes a convex cost. Where its gradient is zero, the momentum that the solve adds, A (v - v*), is
what the contacts give: h J^T f.
"""

import numpy as np

import sap_warp

sap_warp.quiet()


def main(steps: int = 100) -> float:
    """Let a cube fall on an edge, then look at one step; returns how far impulses are from the change of momentum."""
    model = sap_warp.Simulation.from_scene("cube", num_worlds=1).model
    solver = sap_warp.SolverSAP(model, contact_preset_variant="approx64", optimality_rel_tol=1e-10, cost_rel_tol=0.0)
    pipeline = sap_warp.SapCollisionPipeline(model)
    contacts, state, control, dt = pipeline.contacts(), model.state(), model.control(), 0.005
    for _ in range(steps):
        pipeline.collide(state, contacts)
        solver.step(state, state, control, contacts, dt)

    pipeline.collide(state, contacts)
    free = solver.compute_free_motion(state, control, dt)
    A, v_star = free.dynamics_matrix(0), free.v_star()  # free joints as [w, v of the origin]
    J = solver.compute_contacts(state, control, contacts, dt).dense(0)  # (contacts, 3, dofs), world axes
    solver.step(state, state, control, contacts, dt)
    v = solver.contact_solve.velocity.numpy()
    force = solver.contact_forces().force.numpy()[: len(J)]  # (contacts, 3) [N] on the second shape, world axes
    gap = float(np.abs(A @ (v - v_star) - dt * np.einsum("cxd,cx->d", J, force)).max())
    print(f"{len(J)} contacts; A (v - v*) and h J^T f differ by at most {gap:.2e} N s")
    return gap


if __name__ == "__main__":
    main()
