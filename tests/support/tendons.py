"""Tendons and actuators of MuJoCo beside those of the solver, in the same states."""

from __future__ import annotations

import mujoco
import newton
import numpy as np

from sap_warp import SolverSAP

TINY = 1e-9
"""Time step in which nothing moves [s]: implicit and explicit forces agree."""


def build(text, worlds=1, **options):
    """A model with all of MuJoCo's attributes."""
    one = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(one)
    one.add_mjcf(text, **options)
    if worlds == 1:
        return one.finalize("cpu")
    builder = newton.ModelBuilder()
    builder.replicate(one, worlds)
    return builder.finalize("cpu")


def free_forces(model, reference, rng, speed, dt):
    """In five random states of hinges and slides: the forces of free motion in a step ``dt``, and MuJoCo's data."""
    data = mujoco.MjData(reference)
    solver = SolverSAP(model, contact_preset_variant="drake")
    for _ in range(5):
        data.qpos[:] = rng.uniform(-1, 1, reference.nq)
        data.qvel[:] = rng.uniform(-speed, speed, reference.nv)
        mujoco.mj_forward(reference, data)
        state = model.state()
        state.joint_q.assign(data.qpos.astype(np.float32))
        state.joint_qd.assign(data.qvel.astype(np.float32))
        newton.eval_fk(model, state.joint_q, state.joint_qd, state)
        motion = solver.compute_free_motion(state, None, dt)
        yield motion.to_newton_order(motion.data.impulse) / dt, data


class Beside:
    """A model of one world without floating joints, in MuJoCo and in the solver."""

    def __init__(self, text, model=None):
        self.reference = mujoco.MjModel.from_xml_string(text)
        self.data = mujoco.MjData(self.reference)
        self.model = build(text) if model is None else model
        self.solver = SolverSAP(self.model, contact_preset_variant="drake")
        self.order = dof_order(self.reference, self.model)

    def randomize(self, rng, reach=1.0, ctrl=1.5):
        """Give both a random state and random inputs."""
        reference, data, model = self.reference, self.data, self.model
        data.qpos[:] = (reference.qpos0 + rng.uniform(-reach, reach, reference.nq)).astype(np.float32)
        data.qvel[:] = rng.uniform(-1.0, 1.0, reference.nv).astype(np.float32)
        data.ctrl[:] = rng.uniform(-ctrl, ctrl, reference.nu).astype(np.float32)
        data.act[:] = rng.uniform(0.0, 1.0, reference.na)
        mujoco.mj_forward(reference, data)
        state = model.state()
        q = np.zeros(reference.nv, np.float32)
        q[self.order] = data.qpos - reference.qpos0
        qd = np.zeros(reference.nv, np.float32)
        qd[self.order] = data.qvel
        state.joint_q.assign(q)
        state.joint_qd.assign(qd)
        newton.eval_fk(model, state.joint_q, state.joint_qd, state)
        self.state = state
        if reference.nu:
            model.mujoco.ctrl.assign(data.ctrl.astype(np.float32))
            act = np.zeros(reference.nu)
            with_act = reference.actuator_actadr >= 0
            act[with_act] = data.act[reference.actuator_actadr[with_act]]
            if self.solver.tendons.actuation.total:
                self.solver.tendons.actuation.act.assign(act)

    def measure(self):
        """Length and J of all transmissions, in the order of the sources; MuJoCo's order of dofs."""
        tendons = self.solver.tendons
        self.solver.boundary.begin(self.solver.checked(self.state), self.solver.model_control, self.solver.all_worlds)
        tendons.measure_lengths(self.solver.boundary, self.solver.free_motion, self.solver.all_worlds)
        return tendons.data.length.numpy()[tendons.place], tendons.jacobian()[tendons.place][:, self.order]

    def tendon_jacobian(self):
        """MuJoCo's."""
        reference, J = self.reference, np.zeros((self.reference.ntendon, self.reference.nv))
        mujoco.mju_sparse2dense(
            J, self.data.ten_J.ravel(), reference.ten_J_rownnz, reference.ten_J_rowadr, reference.ten_J_colind
        )
        return J

    def moments(self):
        """MuJoCo's moment arms of the actuators."""
        data, J = self.data, np.zeros((self.reference.nu, self.reference.nv))
        mujoco.mju_sparse2dense(
            J, data.actuator_moment.ravel(), data.moment_rownnz, data.moment_rowadr, data.moment_colind
        )
        return J

    def row_forces(self, kinds):
        """Generalized force of the rows whose terms are of these kinds, by term number: at v0, explicit."""
        solver, tendons = self.solver, self.solver.tendons
        solver.compute_free_motion(self.state, None, TINY)
        tendons.compute(solver.boundary, solver.free_motion, None, TINY, solver.all_worlds)
        rows = solver.equations.data
        J = solver.equations.dense()
        qd = self.state.joint_qd.numpy().astype(float)
        R, vhat, low, high = (getattr(rows, name).numpy().astype(float) for name in ("R", "vhat", "low", "high"))
        found = {}
        for number, term in enumerate(tendons.sources.terms):
            if int(term.kind) in kinds:
                row = tendons._equation_of_term[number]
                gamma = np.clip((vhat[row] - J[row] @ qd) / R[row], low[row], high[row]) if R[row] > 0 else 0.0
                found[number] = (J[row] * gamma / TINY)[self.order]
        return found


def dof_order(reference, model):
    """Newton's dof of each of MuJoCo's, for models without floating joints: by the names of the joints."""
    order = []
    labels = [label.rsplit("/", 1)[-1] for label in model.joint_label]
    start, child = model.joint_qd_start.numpy(), model.joint_child.numpy()
    bodies = [label.rsplit("/", 1)[-1] for label in model.body_label]
    for dof in range(reference.nv):
        joint = reference.dof_jntid[dof]
        body = reference.body(int(reference.jnt_bodyid[joint])).name
        newton_joint = next(j for j in range(len(labels)) if bodies[child[j]] == body)
        of_body = [j for j in range(reference.njnt) if reference.jnt_bodyid[j] == reference.jnt_bodyid[joint]]
        of_body.sort(key=lambda j: reference.jnt_type[j] != mujoco.mjtJoint.mjJNT_SLIDE)
        order.append(int(start[newton_joint]) + of_body.index(int(joint)))
    return np.array(order)
