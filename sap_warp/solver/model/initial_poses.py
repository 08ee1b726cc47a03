"""Body poses of a whole model by NumPy: what is needed once does not wait for a kernel to be compiled.

The meaning of joint_q is Newton's, see `links` for the frames; `state/kinematics.py` places the bodies on the device.
"""

from __future__ import annotations

from typing import Any

import newton
import numpy as np

from ...model.joint_types import FLOATING_JOINTS, JOINT_TYPES, QUATERNION_JOINTS
from .topology import tree_joints

ROUNDING = 1e-4
"""By how much poses of the same coordinates may differ, relative to a metre or to their size."""


def reference_coordinates(model: newton.Model) -> np.ndarray:
    """Return joint_q with scalar joints at zero, balls at rest, and floating joints where the model has them."""
    q, start = model.joint_q.numpy().copy(), model.joint_q_start.numpy()
    for joint, kind in enumerate(model.joint_type.numpy()):
        if kind not in FLOATING_JOINTS:
            at_rest = JOINT_TYPES[kind].at_rest if kind in QUATERNION_JOINTS else 0.0
            q[start[joint] : start[joint + 1]] = at_rest
    return q


def place_bodies(model: newton.Model) -> None:
    """Set ``model.body_q`` and ``body_qd`` to what its joint_q and joint_qd say."""
    if model.joint_qd.numpy().any():
        state = model.state()
        newton.eval_fk(model, model.joint_q, model.joint_qd, state)
        model.body_qd.assign(state.body_qd)
    else:
        model.body_qd.zero_()
    model.body_q.assign(body_poses(model, model.joint_q.numpy()))


def place_unplaced(model: newton.Model, state: Any = None) -> None:
    """Place the bodies of ``model``, or of a ``state`` of it, unless they are where the joints say, up to rounding."""
    source = model if state is None else state
    try:
        poses = body_poses(model, source.joint_q.numpy())
    except ValueError:  # in a ring; the solver says so
        return
    if _is_alike(poses, source.body_q.numpy().reshape(poses.shape)):
        return
    if state is None:
        place_bodies(model)
    else:
        state.body_q.assign(poses)


def _is_alike(wanted: np.ndarray, given: np.ndarray) -> bool:
    facing = np.sign(np.sum(wanted[:, 3:] * given[:, 3:], axis=1, keepdims=True))  # r and -r turn alike
    size = 1.0 + np.abs(wanted[:, :3]).max(axis=1, keepdims=True)
    apart = np.concatenate([(wanted[:, :3] - given[:, :3]) / size, wanted[:, 3:] - facing * given[:, 3:]], axis=1)
    return not (np.abs(apart) > ROUNDING).any()


def body_poses(model: newton.Model, joint_q: np.ndarray) -> np.ndarray:
    """Return the poses [m, quaternion xyzw] of all bodies in world frame at ``joint_q``, shape (bodies, 7), fp64."""
    joints = np.flatnonzero(tree_joints(model))
    parent, child = model.joint_parent.numpy()[joints], model.joint_child.numpy()[joints]
    p, r = _joint_transforms(model, joints, joint_q.astype(np.float64))
    X_p = model.joint_X_p.numpy()[joints].astype(np.float64)
    X_c = model.joint_X_c.numpy()[joints].astype(np.float64)
    r_c = inverse(_unit(X_c[:, 3:]))
    p, r = compose(X_p[:, :3], _unit(X_p[:, 3:]), p, r)
    p, r = compose(p, r, -rotate(r_c, X_c[:, :3]), r_c)
    poses = model.body_q.numpy().astype(np.float64)
    placed = np.zeros(model.body_count + 1, bool)
    placed[-1] = True  # the world, which is parent -1
    waiting = np.arange(len(joints))
    while len(waiting):
        ready = placed[parent[waiting]]
        now, waiting = waiting[ready], waiting[~ready]
        on = parent[now]
        moved = on >= 0
        p_P = np.where(moved[:, None], poses[on, :3], 0.0)
        r_P = np.where(moved[:, None], poses[on, 3:], [0.0, 0.0, 0.0, 1.0])
        position, rotation = compose(p_P, r_P, p[now], r[now])
        poses[child[now]] = np.concatenate([position, _unit(rotation)], axis=1)
        placed[child[now]] = True
        if not len(now):
            raise ValueError("The joints of the model form no trees: some of them hang on each other in a ring.")
    return poses


def _joint_transforms(model: newton.Model, joints: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return p_FM and r_FM of the chosen joints."""
    kind = model.joint_type.numpy()[joints]
    start, dof = model.joint_q_start.numpy()[joints], model.joint_qd_start.numpy()[joints]
    linear, angular = model.joint_dof_dim.numpy()[joints].T
    p = np.zeros((len(joints), 3))
    r = np.tile([0.0, 0.0, 0.0, 1.0], (len(joints), 1))
    for number, joint_type in JOINT_TYPES.items():
        of_type = kind == number
        if joint_type.position is not None:
            p[of_type] = q[start[of_type, None] + joint_type.position + np.arange(3)]
        if joint_type.quaternion is not None:
            r[of_type] = _unit(q[start[of_type, None] + joint_type.quaternion + np.arange(4)])
    has_axes = ~np.isin(kind, QUATERNION_JOINTS)
    axis = model.joint_axis.numpy().astype(np.float64)
    for k in range(6):  # linear axes first, then angular ones, each turned by those before it
        scalar = has_axes & (k < linear + angular)
        if not scalar.any():
            break
        unit = axis[dof[scalar] + k]
        unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
        value = q[start[scalar] + k][:, None]
        turns = k >= linear[scalar, None]
        p[scalar] += np.where(turns, 0.0, unit * value)
        half = np.where(turns, 0.5 * value, 0.0)
        r[scalar] = multiply(r[scalar], np.concatenate([unit * np.sin(half), np.cos(half)], axis=1))
    return p, r


def compose(p1: np.ndarray, r1: np.ndarray, p2: np.ndarray, r2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return position and rotation of frame 2 in the base of frame 1: X_1 X_2."""
    return p1 + rotate(r1, p2), multiply(r1, r2)


def rotate(r: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return vectors rotated by quaternions xyzw."""
    t = 2.0 * np.cross(r[..., :3], v)
    return v + r[..., 3:] * t + np.cross(r[..., :3], t)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return products of quaternions xyzw."""
    u, v, w = a[..., :3], b[..., :3], a[..., 3:] * b[..., 3:]
    vector = a[..., 3:] * v + b[..., 3:] * u + np.cross(u, v)
    return np.concatenate([vector, w - np.sum(u * v, axis=-1, keepdims=True)], axis=-1)


def inverse(r: np.ndarray) -> np.ndarray:
    """Return the quaternions of the opposite rotations."""
    return r * [-1.0, -1.0, -1.0, 1.0]


def _unit(r: np.ndarray) -> np.ndarray:
    return r / np.linalg.norm(r, axis=1, keepdims=True)
