"""A robot's file in MuJoCo and here in random states: mass matrix, accelerations, tendons, equalities; no simulation.

Accelerations are those of a very short step of the solver: they hold all forces of drives, actuators, springs, tendons,
media and gravity at once.
"""

from __future__ import annotations

import mujoco
import newton
import numpy as np
import warp as wp

from sap_warp import SolverSAP
from sap_warp.solver.equations.data import LINEAR, TRANSMISSION
from sap_warp.solver.equations.sources import Equation, read_equations
from sap_warp.solver.model.initial_poses import multiply, rotate
from sap_warp.solver.tendons.terms import EQUAL
from tests.support import beside_mujoco as beside

STEP = 2e-6
"""Of the solver [s]; its first order is taken out."""
TINY = 1e-9
"""Shortest step [s], for what does not depend on it."""
FREE, BALL = int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_BALL)
KINDS = {FREE: newton.JointType.FREE, BALL: newton.JointType.BALL}


class Still:
    """One loaded file, and the solver's view of its keyframes."""

    def __init__(self, reference: mujoco.MjModel, loaded):
        self.reference, self.loaded = reference, loaded
        self.data = mujoco.MjData(reference)
        self.model = loaded.sap_model.newton_model
        exact = {"optimality_rel_tol": 0.0, "optimality_abs_tol": 0.0, "cost_rel_tol": 0.0, "cost_abs_tol": 0.0}
        self.solver = SolverSAP(loaded.sap_model, contact_preset_variant="drake", max_iterations=4, **exact)
        self.dofs = self._find_dofs()
        self.tree = np.sort(self.solver.layout.dof_newton.numpy())
        """Our dofs without those of joints that close loops."""

    def _find_dofs(self) -> dict[int, int]:
        """Our first dof of each of MuJoCo's joints."""
        reference, model, found = self.reference, self.model, {}
        labels, bodies = beside.joint_labels(self.loaded), list(self.loaded.body_labels)
        start, child, kinds = (getattr(model, f"joint_{name}").numpy() for name in ("qd_start", "child", "type"))
        for j in range(reference.njnt):
            kind, name = int(reference.jnt_type[j]), reference.joint(j).name
            if kind not in KINDS:
                found[j] = beside.dof_of(self.loaded, reference, j)[1]
                continue
            i = beside.find(labels, name) if name else -1
            body = beside.find(bodies, reference.body(int(reference.jnt_bodyid[j])).name)
            if i < 0 or kinds[i] != KINDS[kind]:
                i = next((i for i, c in enumerate(child) if c == body and kinds[i] == KINDS[kind]), -1)
            found[j] = int(start[i]) if i >= 0 else -1
        return found

    def take(self, key: str) -> None:
        """Bring both to a keyframe."""
        reference, data, model = self.reference, self.data, self.model
        names = [reference.key(i).name for i in range(reference.nkey)]
        mujoco.mj_resetDataKeyframe(reference, data, names.index(key))
        mujoco.mj_forward(reference, data)
        given = self.loaded.keyframes[key]
        self.state = model.state()
        for name in ("joint_q", "joint_qd"):
            getattr(self.state, name).assign(getattr(given, name).astype(np.float32))
        self.place()
        for name in ("joint_target_q", "joint_target_qd"):
            getattr(model, name).assign(getattr(given, name).astype(np.float32))
        if len(given.ctrl):
            model.mujoco.ctrl.assign(given.ctrl.astype(np.float32))
            if self.solver.tendons.actuation.total:
                self.solver.tendons.actuation.act.assign(given.act)
        self.turn = self._turn()

    def place(self) -> None:
        """Bodies where the coordinates say; Newton turns several axes of a joint into others that are orthogonal."""
        solver, all_worlds = self.solver, wp.ones(1, dtype=wp.bool, device="cpu")
        solver.boundary.place(solver.checked(self.state), solver.model_control, solver.all_worlds, all_worlds)

    def _turn(self) -> np.ndarray:
        """Our velocities from MuJoCo's, shape [ours, MuJoCo's]: those of turning are in the axes of the body there."""
        reference, data = self.reference, self.data
        T = np.zeros((self.model.joint_dof_count, reference.nv))
        for j, dof in self.dofs.items():
            kind, address, first = (
                int(reference.jnt_type[j]),
                int(reference.jnt_qposadr[j]),
                int(reference.jnt_dofadr[j]),
            )
            if dof < 0:
                continue
            if kind in KINDS:
                R, turning = np.zeros(9), 3 if kind == FREE else 0
                mujoco.mju_quat2Mat(R, data.qpos[address + turning : address + turning + 4])
                T[dof : dof + 3, first + turning : first + turning + 3] = R.reshape(3, 3)
                T[dof + 3 : dof + 3 + turning, first : first + turning] = np.eye(turning)  # [w, v] here
            else:
                T[dof, first] = 1.0
        return T[self.tree]

    def poses(self) -> list[str]:
        """Bodies that are elsewhere [m or rad]."""
        off, where = beside.poses(self.reference, self.data, self.state.body_q.numpy().astype(float), self.loaded)
        return [f"pose of {where!r} is off by {off:.2g}"] if not off < 1e-5 else []

    def matrix(self) -> list[str]:
        """Differences of the mass matrix, relative to its diagonal: inertias and poses are in single precision."""
        reference = self.reference
        A = self.solver.compute_free_motion(self.state, None, TINY).dynamics_matrix()
        M = np.zeros((reference.nv, reference.nv))
        mujoco.mj_fullM(reference, self.data, M)
        found = self.turn.T @ A @ self.turn
        J = self.tendon_arms()
        found += J.T @ (reference.tendon_armature[:, None] * J)  # which is a term of the problem here
        scale = np.sqrt(np.outer(M.diagonal(), M.diagonal()))
        off = np.abs(found - M) / scale
        worst = np.unravel_index(np.argmax(off), off.shape)
        if off[worst] < 1e-5:
            return []
        return [f"mass matrix at {self.name(worst[0])}, {self.name(worst[1])} is off by {off[worst]:.2g}"]

    def name(self, dof: int) -> str:
        """The joint of one of MuJoCo's dofs."""
        return f"{self.reference.joint(int(self.reference.dof_jntid[dof])).name!r}"

    def forces(self) -> list[str]:
        """Differences of accelerations, as forces relative to the largest."""
        data, reference, out, found = self.data, self.reference, self.model.state(), []
        start = np.linalg.lstsq(self.turn, self._v0(), rcond=None)[0]
        for dt in (STEP, 0.5 * STEP):
            if self.solver.tendons.actuation.total:
                act = self.solver.tendons.actuation.act.numpy().copy()
            self.solver.step(self.state, out, None, None, dt)
            if self.solver.tendons.actuation.total:
                self.solver.tendons.actuation.act.assign(act)
            v = np.linalg.lstsq(self.turn, self.solver.memory["velocity"].numpy()[self.tree], rcond=None)[0]
            found.append((v - start) / dt)
        M = np.zeros((reference.nv, reference.nv))
        mujoco.mj_fullM(reference, data, M)
        acceleration = 2.0 * found[1] - found[0]
        off = np.abs(M @ (acceleration - data.qacc_smooth))
        parts = (data.qfrc_bias, data.qfrc_passive, data.qfrc_actuator)
        scale = 1e-2 + max(np.abs(part).max(initial=0.0) for part in parts)
        worst = int(np.argmax(off))
        if off[worst] < 2e-4 * scale:
            return []
        return [f"force on {self.name(worst)} is off by {off[worst]:.2g} of {scale:.2g}"]

    def _v0(self) -> np.ndarray:
        """Velocities at the start, as the solver has them."""
        self.solver.compute_free_motion(self.state, None, TINY)
        return self.solver.free_motion.to_newton_order(self.solver.free_motion.data.v0)[self.tree]

    def tendon_arms(self) -> np.ndarray:
        """MuJoCo's moment arms of tendons."""
        reference = self.reference
        J = np.zeros((reference.ntendon, reference.nv))
        if reference.ntendon:
            rows = (reference.ten_J_rownnz, reference.ten_J_rowadr, reference.ten_J_colind)
            mujoco.mju_sparse2dense(J, self.data.ten_J.ravel(), *rows)
        return J

    def tendons(self) -> list[str]:
        """Differences of lengths and moment arms of tendons."""
        reference, tendons, found = self.reference, self.solver.tendons, []
        if not reference.ntendon:
            return []
        solver = self.solver
        solver.boundary.begin(solver.checked(self.state), solver.model_control, solver.all_worlds)
        tendons.measure_lengths(solver.boundary, solver.free_motion, solver.all_worlds)
        J, labels = self.tendon_arms(), list(self.model.mujoco.tendon_label)
        places = [beside.find(labels, reference.tendon(t).name) for t in range(reference.ntendon)]
        if min(places) < 0:
            return [f"tendons are {labels}"]
        ours, length = tendons.jacobian()[tendons.place][places] @ self.turn, tendons.tendon_lengths()[places]
        for t in range(reference.ntendon):
            off = max(abs(length[t] - self.data.ten_length[t]), np.abs(ours[t] - J[t]).max())
            if not off < 2e-5:
                found.append(f"length or arm of tendon {reference.tendon(t).name!r} is off by {off:.2g}")
        return found


def state_differences(reference: mujoco.MjModel, loaded, keys) -> list[str]:
    """In what a file with these keyframes and without constraints differs in their states."""
    still, found = Still(reference, loaded), []
    for key in keys:
        still.take(key)
        found += [f"{key}: {what}" for what in (*still.poses(), *still.matrix(), *still.tendons(), *still.forces())]
    return found


def equality_differences(reference: mujoco.MjModel, loaded) -> list[str]:
    """Whether equalities forbid the same velocities as in MuJoCo in the pose of the file."""
    still = Still(reference, loaded)
    mujoco.mj_resetData(reference, still.data)
    mujoco.mj_forward(reference, still.data)
    still.state, still.turn = still.model.state(), still._turn()
    still.place()
    solver, equations = still.solver, still.solver.equations
    solver.compute_free_motion(still.state, None, 1e-3)
    solver.tendons.compute(solver.boundary, solver.free_motion, None, 1e-3, solver.all_worlds)
    equations.compute(solver.boundary, solver.free_motion, 1e-3, solver.all_worlds)
    if not equations.count and not still.data.ne:
        return []
    terms = still.solver.tendons.sources.terms
    rows = [*read_equations(still.model), *(Equation(TRANSMISSION, True, term=i) for i in range(len(terms)))]
    chosen = [
        place
        for place, i in enumerate(equations._order)
        if (rows[i].enabled if rows[i].term < 0 else terms[rows[i].term].kind == EQUAL and terms[rows[i].term].enabled)
    ]
    ours = (equations.dense() @ still.turn if equations.count else np.zeros((0, reference.nv)))[chosen]
    off = np.abs(_projector(ours) - _projector(_equality_rows(reference, still.data))).max(initial=0.0)
    here, there = _gaps(still), _gaps_of_mujoco(reference, still.data)
    if not all(min((abs(gap - own) for own in here), default=1.0) < 1e-5 for gap in there):
        return [f"equalities are open by {here}, in MuJoCo by {there}"]
    if max(there, default=0.0) > 1e-5:
        return []  # directions turn with the first body here, which shows where a loop is open
    return [f"equalities forbid other velocities, by {off:.2g}"] if not off < 1e-4 else []


def _gaps(still: Still) -> list[float]:
    """How far the points of loops are apart [m], in order of size."""
    poses, gaps = np.vstack([still.state.body_q.numpy().astype(float), [0, 0, 0, 0, 0, 0, 1]]), {}
    for row in read_equations(still.model):
        if row.enabled and row.kind == LINEAR:
            F, M = (multiply_poses(poses[body], X) for body, X in ((row.a, row.X_a), (row.b, row.X_b)))
            gaps[(row.a, row.b, *row.X_a, *row.X_b)] = float(np.linalg.norm(F[:3] - M[:3]))
    return sorted(gaps.values())


def multiply_poses(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """The pose Y, seen from X, in the frame of X [m, xyzw]."""
    return np.concatenate([X[:3] + rotate(X[3:], Y[:3]), multiply(X[3:], Y[3:])])


def _gaps_of_mujoco(reference: mujoco.MjModel, data: mujoco.MjData) -> list[float]:
    """The same of MuJoCo's, without those that nothing can move."""
    loops = (int(mujoco.mjtEq.mjEQ_CONNECT), int(mujoco.mjtEq.mjEQ_WELD))
    J, numbers, found = _equality_rows(reference, data), data.efc_id[: data.ne], []
    for i in (i for i in range(reference.neq) if int(reference.eq_type[i]) in loops):
        own = np.flatnonzero(numbers == i)
        if len(own) and np.abs(J[own]).max() > 1e-12:
            found.append(float(np.linalg.norm(data.efc_pos[own[:3]])))
    return sorted(found)


def _projector(J: np.ndarray) -> np.ndarray:
    """Onto the span of the rows."""
    lengths = np.linalg.norm(J, axis=1)
    J = J[lengths > 1e-9] / lengths[lengths > 1e-9, None]
    return np.linalg.pinv(J, rcond=1e-4) @ J if len(J) else np.zeros((J.shape[1], J.shape[1]))


def _equality_rows(reference: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    J = np.zeros((data.nefc, reference.nv))
    if data.nefc and mujoco.mj_isSparse(reference):
        mujoco.mju_sparse2dense(J, data.efc_J.ravel(), data.efc_J_rownnz, data.efc_J_rowadr, data.efc_J_colind)
    elif data.nefc:
        J[:] = data.efc_J.ravel()[: J.size].reshape(J.shape)
    return J[: data.ne]
