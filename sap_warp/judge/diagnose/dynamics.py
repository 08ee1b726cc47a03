"""Weights of sampled contacts with their joints, and velocity errors of the solve, from the mass matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from .samples import SLIDING, STICTION


class Dynamics:
    """Reads the dynamics of the last step of one solver, for some of its worlds."""

    def __init__(self, solver: Any, worlds: np.ndarray, alone: np.ndarray):
        """Tabulate which dofs move which body.

        Args:
            solver: A `SolverSAP`.
            worlds: Worlds to look at, as the solver counts them.
            alone: Whether a body floats by itself, Newton's order.
        """
        layout = solver.layout
        self._solver = solver
        self._dof = layout.world_dof.numpy()
        first_body = layout.world_body.numpy()
        parent, chain = layout.dof_parent.numpy(), layout.body_chain.numpy()
        self._moves: dict[int, tuple[int, np.ndarray]] = {}
        for w in worlds:
            low, high = first_body[w], first_body[w + 1]
            table = np.zeros((high - low + 1, self._dof[w + 1] - self._dof[w]), bool)  # the last row is no body
            at = np.append(chain[low:high], -1)
            while (at >= 0).any():
                has = at >= 0
                table[np.flatnonzero(has), at[has] - self._dof[w]] = True
                at = np.where(has, parent[at], -1)
            self._moves[int(w)] = (int(low), table)
        newton = layout.body_newton.numpy()
        inside = np.isin(layout.body_world.numpy(), worlds)
        counts = layout.body_dof_count.numpy()
        bodies = np.flatnonzero(inside & alone[newton] & (counts == 6) & (layout.body_kinematic.numpy() == 0))
        # what distance joints, welds and couplings do to a body is not worked out here
        dofs = layout.body_dof.numpy()[bodies][:, None] + np.arange(6)
        held = np.isin(dofs, solver.equations.data.entry_dof.numpy()).any(axis=1)
        held |= np.isin(bodies, layout.distance_body.numpy())
        self.bodies = bodies[~held]
        """Bodies that float by themselves, solver order."""
        self.newton_bodies = newton[self.bodies]
        self._dofs = layout.body_dof.numpy()[self.bodies][:, None] + np.arange(6)
        entry, first = layout.rows.entry.numpy(), layout.rows.first.numpy()
        rows, columns = self._dofs[:, :, None], self._dofs[:, None, :]
        high_dof, low_dof = np.maximum(rows, columns), np.minimum(rows, columns)
        self._entries = entry[high_dof] + low_dof - first[high_dof]

    def joined_weights(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        """Return the weight by diag_delassus of each contact [1/kg]."""
        motion = self._solver.free_motion.data
        Sw, Sv, mobility = (a.numpy() for a in (motion.Sw, motion.Sv, motion.inverse_diagonal))
        weight = np.zeros(len(rows["world"]))
        for w, (low, table) in self._moves.items():
            here = np.flatnonzero(rows["world"] == w)
            if not len(here):
                continue
            dofs = slice(self._dof[w], self._dof[w + 1])
            on = [np.where(rows[side][here] >= 0, rows[side][here] - low, -1) for side in ("body_a", "body_b")]
            a, b = (table[body].astype(np.float64)[:, :, None] for body in on)
            arm = rows["r_b"][here, None] * b - rows["r_a"][here, None] * a
            column = Sv[dofs] * (b - a) + np.cross(Sw[dofs], arm)
            W = np.einsum("rei,e,rej->rij", column, mobility[dofs].astype(np.float64), column)
            weight[here] = np.linalg.norm(W, axis=(1, 2)) / 3.0
        return weight

    def imbalance(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        """Return the velocity by which the last step missed the solution for each of `bodies` [m/s].

        At the solution A (v - v0) is the impulse of free motion and contacts. What is left over, through the body's own
        inertia and the stiffness of its contacts, is a velocity: the body hops by as much as nothing pushes it.
        """
        count = len(self.bodies)
        if not count:
            return np.zeros(0)
        motion, layout = self._solver.free_motion.data, self._solver.layout
        A = motion.A.numpy()[self._entries].astype(np.float64)
        Sw, Sv = (a.numpy()[self._dofs].astype(np.float64) for a in (motion.Sw, motion.Sv))
        v = self._solver.contact_solve.data.v.numpy()[self._dofs].astype(np.float64)
        change = v - motion.v0.numpy()[self._dofs]
        owed = motion.impulse.numpy()[self._dofs].astype(np.float64) - np.einsum("bij,bj->bi", A, change)
        column = np.full(len(layout.body_newton.numpy()) + 1, -1)
        column[self.bodies] = np.arange(count)
        gamma = rows["push"][:, None] * rows["normal"] + rows["friction"]
        G = contact_curvature(rows)
        for side, arm, sign in (("body_a", "r_a", -1.0), ("body_b", "r_b", 1.0)):
            at = column[rows[side]]
            has = at >= 0
            b, r = at[has], rows[arm][has]
            J = Sv[b] + np.cross(Sw[b], r[:, None])  # velocity of the point for a unit of each dof
            np.add.at(owed, b, sign * np.einsum("rei,ri->re", J, gamma[has]))
            np.add.at(A, b, np.einsum("rei,rij,rfj->ref", J, G[has], J))
        fine = np.isfinite(A).all(axis=(1, 2)) & np.isfinite(owed).all(axis=1)
        A[~fine] = np.eye(6)  # of worlds that diverged
        missing = np.linalg.solve(A, owed[:, :, None])[:, :, 0]
        return np.where(fine, np.linalg.norm(np.einsum("bei,be->bi", Sv, missing), axis=1), np.nan)


def contact_curvature(rows: dict[str, np.ndarray]) -> np.ndarray:
    """Return the negative derivative of contact impulses by velocity, [rows, 3, 3] (`solver/terms/contact.py`)."""
    n, mu, Rt, Rn = rows["normal"], rows["mu"], rows["Rt"], rows["Rn"]
    size = np.linalg.norm(rows["velocity"], axis=1)
    t = -rows["velocity"] / np.maximum(size, 1e-300)[:, None]
    nn, tt, eye = n[:, :, None] * n[:, None, :], t[:, :, None] * t[:, None, :], np.eye(3)
    sticking = nn / Rn[:, None, None] + (eye - nn) / Rt[:, None, None]
    s = n + mu[:, None] * t
    across = mu * rows["push"] / np.maximum(size, 1e-12)
    along = 1.0 / (Rn * (1.0 + mu * mu * Rt / Rn))
    sliding = across[:, None, None] * (eye - nn - tt) + along[:, None, None] * s[:, :, None] * s[:, None, :]
    mode = rows["mode"][:, None, None]
    return np.where(mode == STICTION, sticking, np.where(mode == SLIDING, sliding, 0.0))
