"""Mass matrix of one world and velocities of its points, by NumPy: for those who explain and advise before a step.

What they need is the size of a contact weight; angular axes of a d6 joint count as in its zero position.
"""

from __future__ import annotations

import functools

import newton
import numpy as np

from ...model.joint_types import FLOATING_JOINTS
from .initial_poses import rotate
from .topology import kinematic_bodies, tree_joints


class Mechanism:
    """Dofs of one world at given poses, and which of them move which body."""

    def __init__(self, model: newton.Model, poses: np.ndarray, world: int = 0, dt: float = 0.0):
        """Read them.

        Args:
            model: The model.
            poses: Of all its bodies, shape (bodies, 7).
            world: Which world; bodies of all worlds are taken with it.
            dt: Time step [s], with which damping counts as in the solver.
        """
        self._model, self._poses = model, poses
        tree = np.flatnonzero(tree_joints(model))
        parent, child = model.joint_parent.numpy()[tree], model.joint_child.numpy()[tree]
        own = model.body_world.numpy()[child]
        here = (own == world) | (own < 0)
        tree, parent, child = tree[here], parent[here], child[here]
        self.bodies = np.sort(child)
        start = model.joint_qd_start.numpy()
        counts = start[tree + 1] - start[tree]
        owner = np.repeat(np.arange(len(tree)), counts)
        dof = np.concatenate([np.zeros(0, np.int64), *(np.arange(start[j], start[j + 1]) for j in tree)])
        self._inert = (model.joint_armature.numpy() + dt * model.joint_damping.numpy())[dof].astype(np.float64)
        on, below = parent[owner], child[owner]
        held = (on >= 0)[:, None]
        turn = np.where(held, poses[on, 3:], [0.0, 0.0, 0.0, 1.0])
        frame = model.joint_X_p.numpy()[tree[owner]].astype(np.float64)
        axis = rotate(turn, rotate(frame[:, 3:], model.joint_axis.numpy()[dof].astype(np.float64)))
        anchor = np.where(held, poses[on, :3], 0.0) + rotate(turn, frame[:, :3])
        floats = np.isin(model.joint_type.numpy()[tree[owner]], FLOATING_JOINTS)
        self._origin = np.where(floats[:, None], poses[below, :3], anchor)
        slides = (dof - start[tree[owner]] < model.joint_dof_dim.numpy()[tree[owner], 0])[:, None]
        self._linear, self._angular = np.where(slides, axis, 0.0), np.where(slides, 0.0, axis)
        above = {int(body): joint for joint, body in enumerate(child)}
        kinematic = kinematic_bodies(model)[child][owner]
        self._above = np.zeros((len(self.bodies), len(dof)), bool)
        for row, body in enumerate(self.bodies):
            while int(body) in above:
                joint = above[int(body)]
                self._above[row, owner == joint] = True
                body = parent[joint]
        self._above[:, kinematic] = False

    def velocities(self, bodies: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Return velocities of ``points`` [m, world] of ``bodies`` per unit of each dof, shape (points, dofs, 3)."""
        velocity = self._linear + np.cross(self._angular, points[:, None] - self._origin)
        return velocity * self._above[np.searchsorted(self.bodies, bodies), :, None]

    @functools.cached_property
    def _motion(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Masses, inertias, and velocities of the centres of mass and turns in body axes for a unit of each dof."""
        model, bodies, turns = self._model, self.bodies, self._poses[self.bodies, 3:]
        centre = self._poses[bodies, :3] + rotate(turns, model.body_com.numpy()[bodies].astype(np.float64))
        back = turns * [-1.0, -1.0, -1.0, 1.0]
        turning = np.zeros((len(bodies), len(self._inert), 3))
        for e, axis in enumerate(self._angular):
            turning[:, e] = rotate(back, np.tile(axis, (len(bodies), 1)))
        turning *= self._above[:, :, None]
        mass, inertia = model.body_mass.numpy()[bodies], model.body_inertia.numpy()[bodies]
        return mass.astype(np.float64), inertia.astype(np.float64), self.velocities(bodies, centre), turning

    @functools.cached_property
    def diagonal(self) -> np.ndarray:
        """Diagonal of A, by dof of `velocities`."""
        mass, inertia, speed, turning = self._motion
        energy = mass[:, None] * (speed**2).sum(2) + np.einsum("bei,bij,bej->be", turning, inertia, turning)
        return self._inert + energy.sum(0)

    @functools.cached_property
    def matrix(self) -> np.ndarray:
        """Mass matrix A."""
        mass, inertia, speed, turning = self._motion
        moving = np.einsum("b,bei,bfi->ef", mass, speed, speed)
        return moving + np.einsum("bei,bij,bfj->ef", turning, inertia, turning) + np.diag(self._inert)

    def mobility(self, columns: np.ndarray, exact: bool) -> np.ndarray:
        """Return J A^-1 J^T [1/kg] for relative velocity ``columns`` (dofs, 3), with all of A or its diagonal."""
        moved = np.abs(columns).max(axis=1) > 0.0 if len(columns) else np.zeros(0, bool)
        if not exact:
            return columns[moved].T @ (columns[moved] / self.diagonal[moved, None])
        free = self.diagonal > 0.0  # a kinematic dof has no row
        return columns[free].T @ np.linalg.solve(self.matrix[np.ix_(free, free)], columns[free])
