"""Inertia that a joint feels in the pose of the file; MuJoCo uses it to turn damping ratios into gains."""

from __future__ import annotations

from collections.abc import Iterable

import newton
import numpy as np
import warp as wp


def effective_inertia(
    builder: newton.ModelBuilder, bodies: Iterable[int], joint_of: dict[int, int]
) -> dict[int, float]:
    """Return one over the diagonal of the inverse mass matrix [kg m^2 or kg], by dof.

    Args:
        builder: With the bodies in their initial pose.
        bodies: Those of some trees, parents first.
        joint_of: Joint that carries each of them.
    """
    columns: dict[int, int] = {}
    for body in bodies:
        start = builder.joint_qd_start[joint_of[body]]
        for dof in range(start, start + sum(builder.joint_dof_dim[joint_of[body]])):
            columns[dof] = len(columns)
    M = np.zeros((len(columns), len(columns)))
    jacobians = {-1: np.zeros((6, len(columns)))}  # [v at the world's origin, w], world axes
    for body in bodies:
        joint = joint_of[body]
        J = jacobians[builder.joint_parent[joint]].copy()
        for dof, motion in _motions(builder, joint):
            J[:, columns[dof]] = motion
        jacobians[body] = J
        pose, mass = wp.transform(*builder.body_q[body]), float(builder.body_mass[body])
        R = np.array(wp.quat_to_matrix(wp.transform_get_rotation(pose)), dtype=np.float64).reshape(3, 3)
        com = np.array(wp.transform_point(pose, wp.vec3(*builder.body_com[body])), dtype=np.float64)
        at_com = J[:3] + np.cross(J[3:].T, com).T
        own = np.array(builder.body_inertia[body], dtype=np.float64).reshape(3, 3)
        M += mass * at_com.T @ at_com + J[3:].T @ R @ own @ R.T @ J[3:]
    M += np.diag([float(builder.joint_armature[dof]) for dof in columns])
    inverse = np.linalg.pinv(M).diagonal()
    return {dof: 1.0 / inverse[column] if inverse[column] > 0.0 else 0.0 for dof, column in columns.items()}


def _motions(builder: newton.ModelBuilder, joint: int) -> list[tuple[int, np.ndarray]]:
    """Return the unit motion [v at the world's origin, w] of every dof of a joint, in world axes."""
    parent, child, first = builder.joint_parent[joint], builder.joint_child[joint], builder.joint_qd_start[joint]
    frame = wp.transform(*builder.joint_X_p[joint])
    frame = wp.transform(*builder.body_q[parent]) * frame if parent >= 0 else frame
    kind = builder.joint_type[joint]
    if kind == newton.JointType.FREE:
        frame, axes, linear = wp.transform(*builder.body_q[child]), np.vstack([np.eye(3), np.eye(3)]), 3
    elif kind == newton.JointType.BALL:
        axes, linear = np.eye(3), 0
    else:
        linear, angular = builder.joint_dof_dim[joint]
        axes = np.array([builder.joint_axis[first + k] for k in range(linear + angular)], dtype=np.float64).reshape(
            -1, 3
        )
    point = np.array(wp.transform_get_translation(frame), dtype=np.float64)
    found = []
    for k, axis in enumerate(axes):
        turned = np.array(wp.quat_rotate(wp.transform_get_rotation(frame), wp.vec3(*axis)), dtype=np.float64)
        rotation = np.concatenate([np.cross(point, turned), turned])
        found.append((first + k, np.concatenate([turned, np.zeros(3)]) if k < linear else rotation))
    return found
