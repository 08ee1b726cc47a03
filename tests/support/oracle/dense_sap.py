"""One SAP time step of one world, dense and in float64: the oracle the solver is tested against.

A direct transcription of the project's mathematics from plain arrays. Clarity over speed: every matrix is dense, every
term is a Python function, nothing is shared with the package under test. See `kinematics` for poses and Jacobians,
`terms` for the convex terms.

    world = DenseWorld(model, joint_q, joint_qd, dt, contacts=records, options=OracleOptions(...))
    v = world.minimize()                       # sap order, this world's dofs
    q1, qd1 = world.integrate(v, "midpoint")   # whole-model arrays, public order
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize

from . import terms
from .kinematics import (
    BALL,
    D6,
    DISTANCE,
    FIXED,
    PRISMATIC,
    REVOLUTE,
    Tree,
    array64,
    array_int,
    quat_conjugate,
    quat_from_matrix,
    quat_multiply,
    quat_normalize,
    rotation_vector_from_quat,
    skew,
)

NEAR_RIGID = 0.1**2 / (4.0 * np.pi**2)
"""beta_d^2 / (4 pi^2) of drives, joint limits and velocity limits."""
NO_POSITION_LIMIT = 1e9
NO_VELOCITY_LIMIT = 1e6
MODE_NONE, MODE_POSITION, MODE_VELOCITY, MODE_POSITION_VELOCITY, MODE_EFFORT = range(5)


@dataclass
class OracleOptions:
    contact_weight_mode: str = "body_inertia"  # at the witnesses, full inertia tensors; or diag_delassus, delassus
    contact_point_mode: str = "witness_point"  # or contact_midpoint
    beta: float = 1.0
    sigma: float = 1e-3
    contact_tau_d: float = 0.0
    """Dissipation time [s] of a shape without its own; a pair adds both shapes."""
    shape_tau: np.ndarray | None = None
    """Dissipation time per shape [s]; negative or nan means `contact_tau_d`."""
    fallback_mu: float | None = None
    """Friction of every pair when the model has no friction materials."""
    fallback_stiffness: float = 1e10
    """Pair stiffness [N/m] when the materials give none."""
    velocity_limit_mode: str = "enforce"  # or ignore


@dataclass
class Contact:
    """One contact as Newton stores it. Points and offsets are in the shape's body frame (world frame for body -1)."""

    shape0: int
    shape1: int
    point0: np.ndarray  # on the core
    point1: np.ndarray
    offset0: np.ndarray  # from the core to the surface
    offset1: np.ndarray
    normal: np.ndarray  # world, from shape 0 to shape 1
    margin0: float = 0.0
    margin1: float = 0.0
    stiffness: float | None = None  # pair stiffness, replaces the materials'
    tau: float | None = None  # pair dissipation time, replaces the shapes' sum
    mu: float | None = None  # pair friction, replaces the materials'
    mu_scale: float | None = None  # Newton's rigid_contact_friction: multiplies the materials' pair friction


@dataclass
class ScalarTerm:
    """Convex function of one linear combination of the velocities."""

    name: str
    row: np.ndarray
    evaluate: Callable[[float], tuple[float, float, float]]


def contact_frame(normal):
    """Columns [t1 t2 n]. The tangents are an arbitrary completion: compare only quantities that do not depend on it."""
    n = normal / np.linalg.norm(normal)
    t1 = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    t1 /= np.linalg.norm(t1)
    return np.column_stack([t1, np.cross(n, t1), n])


class DenseWorld:
    """The convex problem of one step of one world.

    All arrays given are whole-model arrays in public order; velocities inside (`v0`, `v_star`, the argument of `cost`)
    are this world's unknown dofs in sap order, numbered joint by joint: those of kinematic bodies are given.

    Attributes: n, M, A, c (bias: Coriolis, gravity, external wrenches), tau (applied generalized force), v0, v_star;
    per contact J (3 nc x n, rows t1 t2 n), R_WC, phi0, w, Rt, Rn, mu, stiffness, tau_c, vhat, points (velocity points
    of both sides), contact_index (position in the list given); scalar_terms.
    """

    def __init__(
        self,
        model,
        joint_q,
        joint_qd,
        dt,
        *,
        world=0,
        contacts=(),
        options=None,
        joint_f=None,
        body_f=None,
        joint_target_q=None,
        joint_target_qd=None,
        joint_act=None,
    ):
        self.model, self.world, self.h, self.options = model, world, float(dt), options or OracleOptions()
        self.joint_q = np.array(joint_q, dtype=np.float64)
        self.joint_qd = np.array(joint_qd, dtype=np.float64)
        self.tree = Tree(model, world)
        self.free = self.tree.free
        self.n = int(self.free.sum())
        self.position = np.cumsum(self.free) - 1  # of a free dof among the unknowns
        self.poses = self.tree.poses(self.tree.configuration(self.joint_q))
        self._mass = array64(model.body_mass)
        self._inertia = array64(model.body_inertia)

        def control(given, name):
            return np.asarray(array64(getattr(model, name)) if given is None else given, dtype=np.float64)

        self._free_motion(control(joint_f, "joint_f"), body_f)
        self.scalar_terms: list[ScalarTerm] = []
        if not model.use_coord_layout_targets:
            raise NotImplementedError("joint targets must use the coordinate layout")
        self._add_drives(
            control(joint_target_q, "joint_target_q"),
            control(joint_target_qd, "joint_target_qd"),
            control(joint_act, "joint_act"),
        )
        self._add_dof_terms()
        self._add_distance_limits()
        self._add_loops()
        self._add_mimics()
        self._prepare_contacts(contacts)

    # --- free motion (math 3) -----------------------------------------------------------------------------------------

    def world_inertia(self, body):
        R = self.poses.R[body]
        return R @ self._inertia[body] @ R.T

    def com_jacobian(self, body, poses=None):
        poses = poses or self.poses
        return poses.point_jacobian(body, poses.p[body] + poses.R[body] @ self.tree.com[body])

    def sap_from_public_qd(self, joint_qd):
        """This world's sap velocity, prescribed dofs too, from a public joint_qd at the start of the step."""
        return np.linalg.solve(self.public_from_sap, self.tree.gather(joint_qd))

    def _free_motion(self, joint_f, body_f):
        tree, poses, h = self.tree, self.poses, self.h
        self.public_from_sap = tree.public_from_sap_matrix(poses)
        self.v0_all = self.sap_from_public_qd(self.joint_qd)
        self.v0 = self.v0_all[self.free]
        self.v0_given = np.where(self.free, 0.0, self.v0_all)

        eps = 1e-30  # complex step: exact derivative of the Jacobians along the motion with the velocity held fixed
        moved = tree.poses(tree.configuration(self.joint_q, self.v0_all, 1j * eps))
        gravity = array64(self.model.gravity).reshape(-1, 3)[self.world]
        self.gravity = gravity
        self.M = np.zeros((tree.n, tree.n))
        self.c = np.zeros(tree.n)
        for b in tree.bodies:
            m, inertia = self._mass[b], self.world_inertia(b)
            Jc, Jw = self.com_jacobian(b), poses.Jw[b]
            acceleration = self.com_jacobian(b, moved).imag / eps @ self.v0_all
            angular_acceleration = moved.Jw[b].imag / eps @ self.v0_all
            w = Jw @ self.v0_all
            force = m * (acceleration - gravity)
            torque = inertia @ angular_acceleration + np.cross(w, inertia @ w)
            if body_f is not None:
                f = np.asarray(body_f, dtype=np.float64)[b]
                force, torque = force - f[:3], torque - f[3:]
            self.M += m * Jc.T @ Jc + Jw.T @ inertia @ Jw
            self.c += Jc.T @ force + Jw.T @ torque

        tau = tree.gather(joint_f)
        for joint in tree.joints:
            if joint.floating:  # public force of a floating joint is a world-frame wrench at the centre of mass
                R_F = poses.R_F[joint.index]
                tau[joint.dof] = (R_F.T @ tau[joint.dof].reshape(2, 3).T).T.ravel()
        self.tau = (self.public_from_sap.T @ tau)[self.free]  # power is the same in both orders
        self.M, self.c = self.M[np.ix_(self.free, self.free)], self.c[self.free]

        armature = tree.gather_coefficients(array64(self.model.joint_armature))[self.free]
        damping = tree.gather_coefficients(array64(self.model.joint_damping))[self.free]
        self.A = self.M + np.diag(armature) + h * np.diag(damping)
        self.v_star = self.v0 + np.linalg.solve(self.A, h * (self.tau - self.c - damping * self.v0))

    # --- terms of single dofs (math 4.3 - 4.5) ------------------------------------------------------------------------

    def _add(self, name, row, evaluate):
        self.scalar_terms.append(ScalarTerm(name, row, evaluate))

    def _position_error(self, joint, target_q):
        """target - q per dof; a rotation vector in F axes for ball joints."""
        q, target = self.joint_q[joint.q], target_q[joint.q]
        if joint.type == BALL:
            return rotation_vector_from_quat(quat_multiply(quat_normalize(target), quat_conjugate(quat_normalize(q))))
        return target - q

    def _add_drives(self, target_q, target_qd, act):
        h, model = self.h, self.model
        mode, ke, kd = (
            array_int(model.joint_target_mode),
            array64(model.joint_target_ke),
            array64(model.joint_target_kd),
        )
        effort = array64(model.joint_effort_limit)
        for joint in self.tree.joints:
            if joint.type not in (PRISMATIC, REVOLUTE, D6, BALL) or joint.prescribed:
                continue
            modes = mode[joint.public]
            if np.all(modes == MODE_NONE):
                continue
            uses_position = np.isin(modes, (MODE_POSITION, MODE_POSITION_VELOCITY))
            error = self._position_error(joint, target_q) if np.any(uses_position) else np.zeros(len(modes))
            for i, k in enumerate(self.position[joint.dof]):
                d = joint.public.start + i
                if modes[i] == MODE_NONE:
                    continue
                kp = ke[d] if uses_position[i] else 0.0
                kv = kd[d] if modes[i] != MODE_EFFORT else 0.0
                velocity_target = target_qd[d] if modes[i] in (MODE_VELOCITY, MODE_POSITION_VELOCITY) else 0.0
                gain = h * (h * kp + kv)
                R_near_rigid = NEAR_RIGID / self.A[k, k]
                if gain * R_near_rigid > 1.0:
                    scale = 1.0 / (gain * R_near_rigid)
                    kp, kv = scale * kp, scale * kv
                u0 = (kp * error[i] if uses_position[i] else 0.0) + kv * velocity_target + act[d]
                K = h * kp + kv
                self._add("drive", np.eye(self.n)[k], lambda v, a=(u0, K, effort[d], h): terms.drive(v, *a))

    def _add_dof_terms(self):
        h, model = self.h, self.model
        lower, upper = array64(model.joint_limit_lower), array64(model.joint_limit_upper)
        limit_ke, limit_kd = array64(model.joint_limit_ke), array64(model.joint_limit_kd)
        friction, vmax = array64(model.joint_friction), array64(model.joint_velocity_limit)
        for joint in self.tree.joints:
            scalar = joint.type in (PRISMATIC, REVOLUTE, D6)
            if (not scalar and joint.type != BALL) or joint.prescribed:
                continue
            for i, k in enumerate(self.position[joint.dof]):
                d, A_kk, row = joint.public.start + i, self.A[k, k], np.eye(self.n)[k]
                if friction[d] > 0.0:
                    args = (h * friction[d], self.options.sigma / A_kk)
                    self._add("friction", row, lambda v, a=args: terms.dry_friction(v, *a))
                if not scalar:
                    continue
                if self.options.velocity_limit_mode == "enforce" and vmax[d] < NO_VELOCITY_LIMIT:
                    args = (vmax[d], NEAR_RIGID / A_kk)
                    self._add("velocity_limit", row, lambda v, a=args: terms.velocity_limit(v, *a))
                q = self.joint_q[joint.q.start + i]
                speed = max(abs(self.v0[k]), abs(self.v_star[k]))
                if limit_ke[d] > 0.0 and lower[d] > -NO_POSITION_LIMIT:
                    self._add_limit("limit", row, q - lower[d], speed, limit_ke[d], limit_kd[d], 1.0 / A_kk)
                if limit_ke[d] > 0.0 and upper[d] < NO_POSITION_LIMIT:
                    self._add_limit("limit", -row, upper[d] - q, speed, limit_ke[d], limit_kd[d], 1.0 / A_kk)

    def _add_limit(self, name, row, gap, speed, ke, kd, w, given=0.0):
        """Soft one-sided limit on a gap whose rate is row @ v + given; only when it can be reached in two steps."""
        h, tau = self.h, kd / ke
        if gap <= 2.0 * h * speed:
            args = (-gap / (h + tau) - given, max(NEAR_RIGID * w, 1.0 / (h * ke * (h + tau))))
            self._add(name, row, lambda v: terms.unilateral(v, *args))

    def _add_distance_limits(self):
        model, poses = self.model, self.poses
        for joint in self.tree.joints:
            if joint.type != DISTANCE or joint.prescribed:
                continue
            d = joint.public.start
            lower, upper = (array64(getattr(model, f"joint_limit_{side}"))[d] for side in ("lower", "upper"))
            ke, kd = array64(model.joint_limit_ke)[d], array64(model.joint_limit_kd)[d]
            x_p = poses.p_F[joint.index]
            x_c = poses.p[joint.child] + poses.R[joint.child] @ joint.p_c
            distance = np.linalg.norm(x_c - x_p)
            if ke <= 0.0 or distance < 1e-12:
                continue
            n = (x_c - x_p) / distance
            row = n @ (poses.point_jacobian(joint.child, x_c) - poses.point_jacobian(joint.parent, x_p))
            given, row = row @ self.v0_given, row[self.free]
            w = np.sum(row**2 / np.diag(self.A))
            speed = max(abs(row @ self.v0 + given), abs(row @ self.v_star + given))
            if 0.0 <= upper < NO_POSITION_LIMIT:
                self._add_limit("distance", -row, upper - distance, speed, ke, kd, w, -given)
            if 0.0 <= lower:
                self._add_limit("distance", row, distance - lower, speed, ke, kd, w, given)

    # --- bilateral rows -----------------------------------------------------------------------------------------------

    def _add_bilateral(self, name, row, violation, most=5.0):
        """Near-rigid equation whose rate is row @ (all velocities); half of the violation is gone after a step.

        ``most`` is the largest rate of correction [m/s or rad/s].
        """
        given, row = row @ self.v0_given, row[self.free]
        w = np.sum(row**2 / np.diag(self.A))
        if w > 1e-20:
            args = (np.clip(-violation / (2.0 * self.h), -most, most) - given, NEAR_RIGID * w)
            self._add(name, row, lambda v: terms.bilateral(v, *args))

    def _add_loops(self):
        if not self.tree.loops:
            return
        if not array_int(self.model.joint_enabled)[[joint.index for joint in self.tree.loops]].all():
            raise NotImplementedError("disabled loop joints")
        tree, eps = self.tree, 1e-30
        columns = []
        for k in range(tree.n):
            config = tree.configuration(self.joint_q, np.eye(tree.n)[k], 1j * eps)
            columns.append(tree.loop_violations(tree.poses(config)).imag / eps)
        violations = tree.loop_violations(self.poses).real
        for row, violation, most in zip(np.array(columns).T, violations, tree.loop_rates(), strict=True):
            self._add_bilateral("loop", row, violation, most)

    def _add_mimics(self):
        """q of a follower = c0 + c1 q of its leader, for every dof."""
        model, couplings = self.model, []
        if model.constraint_mimic_count:
            names = ("joint0", "joint1", "coef0", "coef1")
            couplings = list(zip(*(array64(getattr(model, f"constraint_mimic_{name}")) for name in names), strict=True))
        followed = {int(c[0]) for c in couplings}
        for follower, leader in enumerate(array_int(model.joint_mimic_joint)):
            if leader >= 0 and follower not in followed:
                couplings.append((follower, leader, *array64(model.joint_mimic_coeffs)[follower]))
        joints = {joint.index: joint for joint in self.tree.joints}
        for follower, leader, c0, c1 in couplings:
            if int(follower) not in joints:
                continue
            first, second = joints[int(follower)], joints[int(leader)]
            for i in range(first.dof.stop - first.dof.start):
                row = np.zeros(self.tree.n)
                row[first.dof.start + i] += 1.0
                row[second.dof.start + i] -= c1
                q = self.joint_q[[first.q.start + i, second.q.start + i]]
                self._add_bilateral("mimic", row, q[0] - c0 - c1 * q[1])

    # --- contacts (math 4.1, 4.2) -------------------------------------------------------------------------------------

    def pair_material(self, contact):
        """(k0, k1, pair k, pair tau, pair mu)."""
        model, opt = self.model, self.options
        s = [contact.shape0, contact.shape1]
        k = np.maximum(array64(model.shape_material_ke)[s], 0.0) if model.shape_material_ke is not None else np.zeros(2)
        pair_k = k[0] * k[1] / (k[0] + k[1]) if min(k) > 0.0 else 0.0
        if contact.stiffness is not None and contact.stiffness > 0.0:
            pair_k = contact.stiffness
        if pair_k <= 0.0:
            pair_k = opt.fallback_stiffness
        tau = np.full(2, opt.contact_tau_d)
        if opt.shape_tau is not None:
            own = np.asarray(opt.shape_tau, dtype=np.float64)[s]
            tau = np.where(own >= 0.0, own, tau)  # nan compares false
        pair_tau = tau.sum() if contact.tau is None else contact.tau
        if contact.mu is not None:
            mu = contact.mu
        elif model.shape_material_mu is None:
            mu = 0.0 if opt.fallback_mu is None else opt.fallback_mu
        else:
            a, b = array64(model.shape_material_mu)[s]
            mu = 2.0 * a * b / (a + b) if a > 0.0 and b > 0.0 else 0.0
        if contact.mu is None and contact.mu_scale is not None and contact.mu_scale > 0.0:
            mu *= contact.mu_scale
        return k[0], k[1], pair_k, pair_tau, max(mu, 0.0)

    def to_world(self, body, point):
        return self.poses.p[body] + self.poses.R[body] @ np.asarray(point, dtype=np.float64)

    def _prepare_contacts(self, contacts):
        opt, h, n = self.options, self.h, self.n
        shape_body = array_int(self.model.shape_body) if self.model.shape_count else np.zeros(0, dtype=int)
        A_inv = np.linalg.inv(self.A)
        blocks, rows = [], []
        for index, contact in enumerate(contacts):
            contact = Contact(**contact) if isinstance(contact, dict) else contact
            a, b = int(shape_body[contact.shape0]), int(shape_body[contact.shape1])
            if not self.tree.movable[a] and not self.tree.movable[b]:
                continue
            R_WC = contact_frame(np.asarray(contact.normal, dtype=np.float64))
            core = self.to_world(b, contact.point1) - self.to_world(a, contact.point0)
            phi0 = R_WC[:, 2] @ core - contact.margin0 - contact.margin1
            x0 = self.to_world(a, np.add(contact.point0, contact.offset0, dtype=np.float64))
            x1 = self.to_world(b, np.add(contact.point1, contact.offset1, dtype=np.float64))
            k0, k1, k, tau, mu = self.pair_material(contact)
            if opt.contact_weight_mode == "body_inertia":
                w = self.body_mobility(a, x0, R_WC) + self.body_mobility(b, x1, R_WC)
            if opt.contact_point_mode == "contact_midpoint":
                alpha0 = k0 / (k0 + k1) if k0 + k1 > 0.0 else 0.5
                x0 = x1 = alpha0 * x0 + (1.0 - alpha0) * x1
            elif opt.contact_point_mode != "witness_point":
                raise ValueError(opt.contact_point_mode)
            J = R_WC.T @ (self.poses.point_jacobian(b, x1) - self.poses.point_jacobian(a, x0))
            drift, J = J @ self.v0_given, J[:, self.free]
            if opt.contact_weight_mode == "diag_delassus":
                w = self.diagonal_mobility(J)
            elif opt.contact_weight_mode == "delassus":
                w = np.linalg.norm(J @ A_inv @ J.T) / 3.0
            elif opt.contact_weight_mode != "body_inertia":
                raise ValueError(opt.contact_weight_mode)
            w = max(w, 1e-12)
            Rn = max(opt.beta**2 / (4.0 * np.pi**2) * w, 1.0 / (h * k * (h + tau)))
            blocks.append(J)
            rows.append((index, R_WC, (x0, x1), phi0, w, opt.sigma * w, Rn, mu, k, tau, -phi0 / (h + tau), drift))
        self.nc = len(blocks)
        self.J = np.vstack(blocks) if blocks else np.zeros((0, n))
        columns = zip(*rows, strict=True) if rows else [()] * 12
        names = (
            "contact_index",
            "R_WC",
            "points",
            "phi0",
            "w",
            "Rt",
            "Rn",
            "mu",
            "stiffness",
            "tau_c",
            "vhat_n",
            "drift",
        )
        for name, column in zip(names, columns, strict=True):
            setattr(self, name, np.array(column))

    def diagonal_mobility(self, J):
        return np.linalg.norm(J @ np.diag(1.0 / np.diag(self.A)) @ J.T) / 3.0

    def carrier(self, body):
        """The body itself if it has mass, else the heaviest one fixed to it, else that of the body above; None."""
        if self._mass[body] > 0.0:
            return body
        welded = [{j.parent, j.child} for j in self.tree.joints if j.type == FIXED and j.parent >= 0]
        group = {body}
        while True:
            more = group.union(*(pair for pair in welded if pair & group))
            if more == group:
                break
            group = more
        heavy = [b for b in group if self._mass[b] > 0.0]
        if heavy:
            return max(heavy, key=lambda b: self._mass[b])
        (above,) = {self.tree.above[b].parent for b in group} - group
        return self.carrier(above) if self.tree.movable[above] else None

    def body_mobility(self, body, x, R_WC):
        """Mean over the contact directions of 1/m + (r x c)^T I^-1 (r x c), lever arm r from the centre of mass.

        I is the full tensor. A body without mass moves like its carrier, or if it has none, like its dofs.
        """
        if not self.tree.movable[body]:
            return 0.0
        if self.carrier(body) is None:
            return self.diagonal_mobility(self.poses.point_jacobian(body, x)[:, self.free])
        body = self.carrier(body)
        inertia = self.world_inertia(body)
        inverse = np.linalg.inv(inertia) if np.linalg.det(inertia) > 0.0 else np.zeros((3, 3))
        arms = skew(x - self.to_world(body, self.tree.com[body])) @ R_WC
        return 1.0 / self._mass[body] + np.trace(arms.T @ inverse @ arms) / 3.0

    # --- the objective ------------------------------------------------------------------------------------------------

    def _contact(self, i, v):
        vc = self.J[3 * i : 3 * i + 3] @ v + self.drift[i]
        return terms.contact_cost(vc, np.array([0.0, 0.0, self.vhat_n[i]]), self.mu[i], self.Rt[i], self.Rn[i])

    def cost(self, v):
        dv = v - self.v_star
        total = 0.5 * dv @ self.A @ dv
        total += sum(self._contact(i, v)[0] for i in range(self.nc))
        return total + sum(term.evaluate(term.row @ v)[0] for term in self.scalar_terms)

    def contact_impulses(self, v):
        """nc x 3 impulses in the contact frames [t1 t2 n], on shape 1 from shape 0 [N s]."""
        return np.array([-self._contact(i, v)[1] for i in range(self.nc)]).reshape(-1, 3)

    def contact_impulses_world(self, v):
        """nc x 3 impulses on shape 1 in world axes (independent of the choice of tangents)."""
        return np.array([R @ g for R, g in zip(self.R_WC, self.contact_impulses(v), strict=True)]).reshape(-1, 3)

    def contact_regions(self, v):
        """'stiction', 'sliding', 'apart' or 'frictionless' per contact."""
        return [self._contact(i, v)[3] for i in range(self.nc)]

    def contact_generalized_impulse(self, v):
        return self.J.T @ self.contact_impulses(v).ravel()

    def term_generalized_impulse(self, v):
        """Sum over drives, limits, friction, velocity limits and distance limits."""
        return -sum((t.evaluate(t.row @ v)[1] * t.row for t in self.scalar_terms), np.zeros(self.n))

    def grad(self, v):
        return self.A @ (v - self.v_star) - self.contact_generalized_impulse(v) - self.term_generalized_impulse(v)

    def hess(self, v):
        H = self.A.copy()
        for i in range(self.nc):
            J = self.J[3 * i : 3 * i + 3]
            H += J.T @ self._contact(i, v)[2] @ J
        for term in self.scalar_terms:
            H += term.evaluate(term.row @ v)[2] * np.outer(term.row, term.row)
        return H

    def residual(self, v):
        """Optimality ratio of math 6: |D g| / max(|D A v|, |D j|), j the generalized impulse of *all* terms."""
        D = 1.0 / np.sqrt(np.diag(self.A))
        j = self.contact_generalized_impulse(v) + self.term_generalized_impulse(v)
        scale = max(np.linalg.norm(D * (self.A @ v)), np.linalg.norm(D * j))
        g = np.linalg.norm(D * self.grad(v))
        return g / scale if scale > 0.0 else g

    def minimize(self, v_guess=None, tol=1e-12, max_iterations=200):
        """Damped Newton; the step length is the root of the monotone derivative along the line. Raises if it stalls."""
        v = np.array(self.v0 if v_guess is None else v_guess, dtype=np.float64)
        best, best_residual, idle = v, self.residual(v), 0
        for iteration in range(max_iterations):
            if best_residual <= tol or idle >= 4:
                break
            g, factor = self.grad(v), scipy.linalg.cho_factor(self.hess(v))
            d = -scipy.linalg.cho_solve(factor, g)
            slope0 = g @ d
            alpha, slope = 1.0, self.grad(v + d) @ d
            if abs(slope) > 0.1 * abs(slope0):
                while slope < 0.0 and alpha < 1e6:
                    alpha *= 2.0
                    slope = self.grad(v + alpha * d) @ d
                if slope > 0.0 > slope0:
                    alpha = scipy.optimize.brentq(lambda s: self.grad(v + s * d) @ d, 0.0, alpha, xtol=1e-14)
            v = v + alpha * d
            r = self.residual(v)
            idle = idle + 1 if r >= best_residual and best_residual < 1e3 * tol else 0  # rounding noise reached
            if r < best_residual:
                best, best_residual = v, r
        self.iterations = iteration + 1
        if best_residual > 1e3 * tol:
            raise RuntimeError(
                f"oracle did not converge: residual {best_residual:.2e} after {self.iterations} iterations"
            )
        return best

    # --- after the solve (math 7) -------------------------------------------------------------------------------------

    def integrate(self, v, mode="sap_euler"):
        """(joint_q, joint_qd) after the step: whole-model, public order, only this world's entries changed."""
        moving = self.v0_all.copy()
        moving[self.free] = v
        if mode == "sap_euler":
            joint_q = self.tree.advance(self.joint_q, moving, self.h, exponential=False)
        elif mode == "midpoint":
            joint_q = self.tree.advance(self.joint_q, 0.5 * (self.v0_all + moving), self.h, exponential=True)
        else:
            raise ValueError(mode)
        return joint_q, self.public_qd(joint_q, moving)

    def public_qd(self, joint_q, v):
        """Whole-model public joint_qd of the sap velocity v, of all dofs, at the pose joint_q."""
        public = self.tree.public_from_sap_matrix(self.tree.poses(self.tree.configuration(joint_q))) @ v
        joint_qd = self.joint_qd.copy()
        for joint in self.tree.joints:
            joint_qd[joint.public] = public[joint.dof]
        return joint_qd

    def body_state(self, joint_q=None, joint_qd=None):
        """Newton's body_q (body_count x 7) and body_qd ([v_C, w]); rows of bodies of other worlds are nan."""
        joint_q = self.joint_q if joint_q is None else joint_q
        joint_qd = self.joint_qd if joint_qd is None else joint_qd
        poses = self.tree.poses(self.tree.configuration(joint_q))
        v = np.linalg.solve(self.tree.public_from_sap_matrix(poses), self.tree.gather(joint_qd))
        body_q, body_qd = (np.full((self.model.body_count, k), np.nan) for k in (7, 6))
        for b in self.tree.bodies:
            body_q[b] = np.concatenate([poses.p[b], quat_from_matrix(poses.R[b])])
            body_qd[b] = np.concatenate([self.com_jacobian(b, poses) @ v, poses.Jw[b] @ v])
        return body_q, body_qd
