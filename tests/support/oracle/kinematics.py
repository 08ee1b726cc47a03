"""Kinematics of one world in plain NumPy, written from Newton's joint definitions (``newton.eval_fk``).

Everything here is *analytic* in the configuration (no conjugation, no absolute value), so that a complex step

    config(t + i eps) = config(t) + i eps d(config)/dt

gives exact time derivatives of poses and Jacobians. That is how the oracle gets its Coriolis terms: no recursive
Newton-Euler algorithm, no spatial algebra, nothing shared with the solver under test.

Velocity order is the *sap* order: free and distance joints [w, v_O], all other joints as stored by Newton.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PRISMATIC, REVOLUTE, BALL, FIXED, FREE, DISTANCE, D6 = range(7)
FLOATING = (FREE, DISTANCE)


def skew(a):
    """Matrix of ``a x``."""
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def quat_normalize(q):
    return q / np.linalg.norm(q)


def quat_multiply(a, b):
    """Product of xyzw quaternions (rotate by b first)."""
    av, aw, bv, bw = a[:3], a[3], b[:3], b[3]
    return np.append(aw * bv + bw * av + np.cross(av, bv), aw * bw - av @ bv)


def quat_conjugate(q):
    return np.array([-q[0], -q[1], -q[2], q[3]])


def quat_from_rotation_vector(r):
    angle = np.linalg.norm(r)
    half = 0.5 * angle
    factor = 0.5 if angle < 1e-9 else np.sin(half) / angle
    return np.append(factor * r, np.cos(half))


def rotation_vector_from_quat(q):
    """Shortest rotation vector of a unit xyzw quaternion."""
    q = quat_normalize(q)
    if q[3] < 0.0:
        q = -q
    s = np.linalg.norm(q[:3])
    return 2.0 * q[:3] if s < 1e-12 else 2.0 * np.arctan2(s, q[3]) * q[:3] / s


def matrix_from_quat(q):
    x, y, z, w = quat_normalize(q)
    K = skew(np.array([x, y, z]))
    return np.eye(3) + 2.0 * w * K + 2.0 * K @ K


def quat_from_matrix(R):
    """Unit xyzw quaternion with w >= 0, by the largest eigenvector of the symmetric 4x4 form."""
    K = np.zeros((4, 4))
    K[:3, :3] = R + R.T - np.trace(R) * np.eye(3)
    K[:3, 3] = K[3, :3] = [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]
    K[3, 3] = np.trace(R)
    q = np.linalg.eigh(K)[1][:, -1]
    return q if q[3] >= 0 else -q


def axis_rotation(axis, angle):
    """Rotation matrix about a unit axis; analytic in ``angle``."""
    K = skew(axis)
    return np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * (K @ K)


def array64(a):
    return np.asarray(a.numpy() if hasattr(a, "numpy") else a, dtype=np.float64)


def array_int(a):
    return np.asarray(a.numpy() if hasattr(a, "numpy") else a, dtype=int)


@dataclass
class Joint:
    """Constant data of one joint. Frame F is the joint's parent anchor frame, X_wp X_p."""

    index: int
    type: int
    parent: int  # body index, -1 is the world
    child: int
    R_p: np.ndarray  # X_p: parent body <- F
    p_p: np.ndarray
    R_c: np.ndarray  # X_c: child body <- child anchor
    p_c: np.ndarray
    axes: np.ndarray  # unit vectors in F, one per dof of revolute, prismatic and d6
    linear_count: int
    q: slice  # into the whole model's joint_q
    public: slice  # into the whole model's joint_qd
    dof: slice  # into this world's velocity vector; empty for a joint that closes a loop
    prescribed: bool  # the child is kinematic: position and velocity are given

    @property
    def floating(self):
        return self.type in FLOATING


@dataclass
class Poses:
    """Poses and Jacobians of all bodies of one world, keyed by body index; -1 is the world itself."""

    R: dict  # world <- body
    p: dict  # body origin
    Jw: dict  # 3 x n, angular velocity
    Jv: dict  # 3 x n, velocity of the body origin
    R_F: dict  # joint index -> world <- F
    p_F: dict  # joint index -> origin of F

    def point_jacobian(self, body, point):
        """3 x n Jacobian of the velocity of the body-fixed point now at ``point`` (world)."""
        return self.Jv[body] - skew(point - self.p[body]) @ self.Jw[body]


class Tree:
    """The kinematic forest of one world, with what belongs to no world and cannot be moved.

    `joints` carry their child, `loops` only constrain it; `free` tells dofs that are unknown from prescribed ones.
    """

    def __init__(self, model, world=0):
        joint_world = array_int(model.joint_world)
        # A model built without begin_world() keeps everything in the global world -1.
        indices = np.flatnonzero((joint_world == world) | (joint_world == -1))
        if len(indices) == 0:
            raise ValueError(f"world {world} has no joints")

        jtype, parent, child = (array_int(getattr(model, f"joint_{k}")) for k in ("type", "parent", "child"))
        X_p, X_c, axis = array64(model.joint_X_p), array64(model.joint_X_c), array64(model.joint_axis)
        q_start, qd_start = array_int(model.joint_q_start), array_int(model.joint_qd_start)
        dim = array_int(model.joint_dof_dim)

        self.joints: list[Joint] = []
        self.loops: list[Joint] = []
        kinematic = (array_int(model.body_flags) & 2) != 0
        articulation = array_int(model.joint_articulation)
        held = {int(child[j]) for j in indices if articulation[j] >= 0}
        n = 0
        for j in indices:
            closes = articulation[j] < 0 and (parent[j] >= 0 or int(child[j]) in held)
            held.add(int(child[j]))
            if jtype[j] > D6:
                raise NotImplementedError(f"joint type {jtype[j]}")
            count = qd_start[j + 1] - qd_start[j]
            axes = axis[qd_start[j] : qd_start[j + 1]]
            if jtype[j] in (PRISMATIC, REVOLUTE, D6):
                axes = axes / np.linalg.norm(axes, axis=1, keepdims=True)
                ang = axes[dim[j, 0] :]
                if len(ang) > 1 and np.abs(ang @ ang.T - np.eye(len(ang))).max() > 1e-5:
                    raise NotImplementedError("the angular axes of a d6 joint must be orthogonal")
            (self.loops if closes else self.joints).append(
                Joint(
                    index=int(j),
                    type=int(jtype[j]),
                    parent=int(parent[j]),
                    child=int(child[j]),
                    R_p=matrix_from_quat(X_p[j, 3:]),
                    p_p=X_p[j, :3],
                    R_c=matrix_from_quat(X_c[j, 3:]),
                    p_c=X_c[j, :3],
                    axes=axes,
                    linear_count=int(dim[j, 0]),
                    q=slice(int(q_start[j]), int(q_start[j + 1])),
                    public=slice(int(qd_start[j]), int(qd_start[j + 1])),
                    dof=slice(n, n if closes else n + int(count)),
                    prescribed=bool(kinematic[child[j]]),
                )
            )
            n = n if closes else n + int(count)
        self.n = n
        self.bodies = [joint.child for joint in self.joints]
        self.com = {b: array64(model.body_com)[b] for b in self.bodies}
        self.above = {joint.child: joint for joint in self.joints}
        self.free = np.ones(n, dtype=bool)
        self.movable = {-1: False}
        for joint in self.joints:
            self.free[joint.dof] = not joint.prescribed
            own = joint.dof.stop > joint.dof.start and not joint.prescribed
            self.movable[joint.child] = own or self.movable[joint.parent]

    # --- configuration ------------------------------------------------------------------------------------------------

    def configuration(self, joint_q, velocity=None, step=0.0):
        """Per-joint configuration, moved by ``step`` along the sap-order ``velocity`` to first order (complex step).

        Scalars stay scalars; a ball joint becomes its rotation matrix; a floating joint becomes the pose of the *child
        body* in F, because the sap velocity is the rate of exactly that pose: dR/dt = [w]x R, dp/dt = v_O.
        """
        config = []
        for joint in self.joints:
            q = np.asarray(joint_q, dtype=np.float64)[joint.q]
            v = np.zeros(joint.dof.stop - joint.dof.start) if velocity is None else velocity[joint.dof]
            if joint.type == BALL:
                R = matrix_from_quat(q)
                config.append(R + step * skew(v) @ R)
            elif joint.floating:
                R = matrix_from_quat(q[3:]) @ joint.R_c.T
                p = q[:3] - R @ joint.p_c
                config.append((R + step * skew(v[:3]) @ R, p + step * v[3:]))
            else:
                config.append(q + step * v)
        return config

    def poses(self, config) -> Poses:
        """Forward kinematics and Jacobians. Columns are collected joint by joint, parents first."""
        zero = np.zeros((3, self.n))
        out = Poses({-1: np.eye(3)}, {-1: np.zeros(3)}, {-1: zero}, {-1: zero}, {}, {})
        for joint, c in zip(self.joints, config, strict=True):
            R_parent, p_parent = out.R[joint.parent], out.p[joint.parent]
            R_F = R_parent @ joint.R_p
            p_F = p_parent + R_parent @ joint.p_p
            dtype = np.result_type(R_F, *(c if isinstance(c, tuple) else (c,)))
            angular = np.zeros((3, joint.dof.stop - joint.dof.start), dtype=dtype)  # in F axes
            linear = np.zeros_like(angular)  # velocity of the child anchor in F axes

            if joint.floating:
                R_FC, p_FC = c
                angular[:, :3] = np.eye(3)
            else:
                R_J, p_J = np.eye(3, dtype=dtype), np.zeros(3, dtype=dtype)
                if joint.type == BALL:
                    R_J = c
                    angular[:] = np.eye(3)
                for k in range(0 if joint.type in (BALL, FIXED) else angular.shape[1]):
                    if joint.type == PRISMATIC or (joint.type == D6 and k < joint.linear_count):
                        p_J = p_J + joint.axes[k] * c[k]
                        linear[:, k] = joint.axes[k]
                    else:  # intrinsic rotations: each axis is carried along by those before it
                        angular[:, k] = R_J @ joint.axes[k]
                        R_J = R_J @ axis_rotation(joint.axes[k], c[k])
                R_FC = R_J @ joint.R_c.T
                p_FC = p_J - R_FC @ joint.p_c
                # from the anchor to the child's origin
                linear = linear - skew(p_FC - p_J) @ angular
            if joint.floating:
                linear[:, 3:] = np.eye(3)

            p = p_F + R_F @ p_FC
            Jw = out.Jw[joint.parent].astype(dtype)
            Jv = (out.Jv[joint.parent] - skew(p - p_parent) @ out.Jw[joint.parent]).astype(dtype)
            Jw[:, joint.dof] += R_F @ angular
            Jv[:, joint.dof] += R_F @ linear
            b = joint.child
            out.R[b], out.p[b], out.Jw[b], out.Jv[b] = R_F @ R_FC, p, Jw, Jv
            out.R_F[joint.index], out.p_F[joint.index] = R_F, p_F
        return out

    # --- orders -------------------------------------------------------------------------------------------------------

    def public_from_sap_matrix(self, poses: Poses):
        """n x n matrix Q with public velocity = Q * sap velocity (world-local dof numbering): v_C = v_O + w x r."""
        Q = np.eye(self.n)
        for joint in self.joints:
            if joint.floating:
                R_F = poses.R_F[joint.index]
                r = R_F.T @ poses.R[joint.child] @ self.com[joint.child]  # in F axes
                block = np.zeros((6, 6))
                block[:3, :3], block[:3, 3:] = -skew(r), np.eye(3)
                block[3:, :3] = np.eye(3)
                Q[joint.dof, joint.dof] = block
        return Q

    def gather(self, per_dof):
        """Values of this world's dofs from a whole-model dof array, stored order."""
        per_dof = np.asarray(per_dof, dtype=np.float64)
        return np.concatenate([per_dof[joint.public] for joint in self.joints])

    def gather_coefficients(self, per_dof):
        """Same for per-dof coefficients (armature, ...): floating joints swap to [angular, linear]."""
        out = self.gather(per_dof)
        for joint in self.joints:
            if joint.floating:
                out[joint.dof] = np.roll(out[joint.dof], 3)
        return out

    # --- integration --------------------------------------------------------------------------------------------------

    def advance(self, joint_q, v, h, exponential):
        """Whole-model joint_q after h at constant sap velocity v (math 7); only this world's entries change."""
        out = np.array(joint_q, dtype=np.float64)
        for joint in self.joints:
            if joint.prescribed:  # passes through a step, as Newton defines it
                continue
            q, vj = out[joint.q], v[joint.dof]
            if joint.type == BALL:
                out[joint.q] = rotate(q, vj, h, exponential)
            elif joint.floating:
                new = rotate(q[3:], vj[:3], h, exponential)
                lever = joint.R_c.T @ joint.p_c
                origin = q[:3] - matrix_from_quat(q[3:]) @ lever + h * vj[3:]
                out[joint.q] = np.concatenate([origin + matrix_from_quat(new) @ lever, new])
            else:
                out[joint.q] = q + h * vj
        return out

    # --- constraints --------------------------------------------------------------------------------------------------

    def loop_violations(self, poses: Poses):
        """What the loop joints ask to be zero, analytic in the configuration; [m] and [rad] or sines.

        Of the relative motion of F (on the parent) and M (on the child), in axes of F: the displacement across the
        free linear axes; and of the rotation all of its vector, or with one free axis how far M's axis leaves it, or
        with two how far they are from a right angle. Rows span the complement of the free axes, whose choice matters to
        their regularization: the oracle takes coordinate axes, so free axes have to be some.
        """
        out = []
        for joint in self.loops:
            if joint.type == FREE:
                continue
            R_F = poses.R[joint.parent] @ joint.R_p
            p_F = poses.p[joint.parent] + poses.R[joint.parent] @ joint.p_p
            R = R_F.T @ poses.R[joint.child] @ joint.R_c
            p = R_F.T @ (poses.p[joint.child] + poses.R[joint.child] @ joint.p_c - p_F)
            axes = joint.axes if joint.type in (PRISMATIC, REVOLUTE, D6) else np.zeros((0, 3))
            linear, angular = axes[: joint.linear_count], axes[joint.linear_count :]
            angular = np.eye(3) if joint.type == BALL else angular
            out += [p[k] for k in range(3) if not linear[:, k].any()]
            if len(angular) == 0:
                out += list(rotation_vector_from_matrix(R))
            elif len(angular) == 1:
                swing = np.cross(angular[0], R @ angular[0])
                out += [swing[k] for k in range(3) if angular[0, k] == 0.0]
            elif len(angular) == 2:
                out.append(angular[0] @ R @ angular[1] - angular[0] @ angular[1])
        return np.array(out)

    def loop_rates(self):
        """Most rate that each of them is corrected with: 1 m/s along, 5 rad/s around axes."""
        most = []
        for joint in self.loops:
            if joint.type == FREE:
                continue
            axes = joint.axes if joint.type in (PRISMATIC, REVOLUTE, D6) else np.zeros((0, 3))
            linear, turns = axes[: joint.linear_count], 3 if joint.type == BALL else len(axes) - joint.linear_count
            most += [1.0] * sum(not linear[:, k].any() for k in range(3)) + [5.0] * {0: 3, 1: 2, 2: 1, 3: 0}[turns]
        return most


def rotation_vector_from_matrix(R):
    """Rotation vector of a rotation by less than pi; analytic in R."""
    axial = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2.0
    sine = np.sqrt(axial @ axial + 0j)
    if abs(sine) < 1e-6:
        return axial
    angle = np.arccos((np.trace(R) - 1.0) / 2.0 + 0j)
    return axial * (angle if np.iscomplexobj(R) else angle.real) / (sine if np.iscomplexobj(R) else sine.real)


def rotate(q, w, h, exponential):
    """Quaternion after h at angular velocity w given in the axes of the frame the rotation maps into."""
    q = quat_normalize(q)
    if exponential:
        return quat_normalize(quat_multiply(quat_from_rotation_vector(h * w), q))
    return quat_normalize(q + 0.5 * h * quat_multiply(np.append(w, 0.0), q))
