"""Merge bodies that fixed joints connect, with the right inertia.

Newton's own merge adds the inertia of a merged body as if it were about the body's origin, and leaves the inertia of
the body it is merged into where it was, although the common centre of mass moves: two bodies of 1 kg, 2 m apart, get
4 kg m^2 instead of 2. Here Newton merges, and the masses are summed up anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import newton
import numpy as np
import warp as wp


@dataclass
class _Part:
    """A body and the one it becomes part of; -1 for the world."""

    root: int
    pose: wp.transform
    """Pose in the frame of the root."""


def collapse_fixed_joints(builder: newton.ModelBuilder, first_joint: int, first_body: int) -> None:
    """Remove the fixed joints from ``first_joint`` on; earlier ones stay.

    Args:
        builder: With the asset as the last thing that was added.
        first_joint: First joint of the asset.
        first_body: First body of the asset.
    """
    fixed = int(newton.JointType.FIXED)
    kept = [joint for joint in range(first_joint) if builder.joint_type[joint] == fixed]
    lumps = _sum_up(builder, _find_parts(builder, first_joint, first_body))
    remap = builder.collapse_fixed_joints(joints_to_keep=kept)["body_remap"]
    for body, (mass, com, inertia) in lumps.items():
        new = remap[body]
        builder.body_mass[new], builder.body_com[new] = mass, wp.vec3(*com)
        builder.body_inertia[new] = wp.mat33(*inertia.ravel())
        builder.body_inv_mass[new] = 1.0 / mass
        regular = np.linalg.matrix_rank(inertia) == 3
        builder.body_inv_inertia[new] = wp.mat33(*(np.linalg.inv(inertia) if regular else np.zeros((3, 3))).ravel())


def _find_parts(builder: newton.ModelBuilder, first_joint: int, first_body: int) -> dict[int, _Part]:
    """Find the body that every body of the asset becomes part of; joints come parents first, later ones close loops."""
    parts: dict[int, _Part] = {}
    for joint in range(first_joint, builder.joint_count):
        parent, child = builder.joint_parent[joint], builder.joint_child[joint]
        if child in parts:
            continue
        if builder.joint_type[joint] != int(newton.JointType.FIXED):
            parts[child] = _Part(child, wp.transform())
        elif parent < first_body:
            parts[child] = _Part(-1, wp.transform())
        else:
            above = parts[parent]
            frame = builder.joint_X_p[joint] * wp.transform_inverse(builder.joint_X_c[joint])
            parts[child] = _Part(above.root, above.pose * frame)
    return parts


def _sum_up(builder: newton.ModelBuilder, parts: dict[int, _Part]) -> dict[int, tuple[float, np.ndarray, np.ndarray]]:
    """Sum mass [kg], centre of mass [m] and inertia about it [kg m^2] for every body that others become part of."""
    members: dict[int, list[int]] = {}
    for body, part in parts.items():
        members.setdefault(part.root, []).append(body)
    lumps = {}
    for root, bodies in members.items():
        masses = np.array([builder.body_mass[body] for body in bodies], dtype=np.float64)
        if root < 0 or len(bodies) == 1 or masses.sum() <= 0.0:
            continue
        frames = [_matrices(parts[body].pose) for body in bodies]
        centres = [R @ np.array(builder.body_com[b], float) + p for (R, p), b in zip(frames, bodies, strict=True)]
        com = masses @ np.array(centres) / masses.sum()
        inertia = np.zeros((3, 3))
        for (R, _), body, mass, centre in zip(frames, bodies, masses, centres, strict=True):
            arm = centre - com
            own: Any = np.array(builder.body_inertia[body], dtype=np.float64).reshape(3, 3)
            inertia += R @ own @ R.T + mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
        lumps[root] = (float(masses.sum()), com, inertia)
    return lumps


def _matrices(pose: wp.transform) -> tuple[np.ndarray, np.ndarray]:
    rotation = np.array(wp.quat_to_matrix(wp.transform_get_rotation(pose)), dtype=np.float64).reshape(3, 3)
    return rotation, np.array(wp.transform_get_translation(pose), dtype=np.float64)
