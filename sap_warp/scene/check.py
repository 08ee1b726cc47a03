"""What would spoil a simulation and can only be seen once everything is built."""

from __future__ import annotations

import newton
import numpy as np

from .build import SceneBuild
from .errors import Complaint, Path
from .selectors import joint_entries

MAX_MASS = 1e15
"""Largest mass of a body [kg]."""
MAX_INERTIA = 1e12
"""Largest moment of inertia of a body [kg m^2]; fp32 holds the product of three."""
_WITH_QUATERNION = (newton.JointType.FREE, newton.JointType.DISTANCE, newton.JointType.BALL)


def check_result(build: SceneBuild) -> None:
    """Report masses that are too large and quaternions of length 0; give all other quaternions length 1."""
    builder = build.builder
    bodies, joints = _paths("bodies", build.body_of), _paths("joints", build.joint_of)
    inertias = _inertias(build)
    with np.errstate(over="ignore"):
        masses = np.array(builder.body_mass, dtype=np.float64).astype(np.float32)
    sound = (masses < MAX_MASS) & (np.abs(inertias) < MAX_INERTIA).all(axis=(1, 2))
    for body in np.flatnonzero(~sound).tolist():
        with build.at(*bodies.get(body, ())):
            raise Complaint(
                f"{builder.body_label[body]!r} has a mass or an inertia that single precision cannot hold; "
                "check densities and sizes"
            )
    for joint, kind in enumerate(builder.joint_type):
        if kind in _WITH_QUATERNION:
            with build.at(*joints.get(joint, ())):
                start = joint_entries(build, joint, "coordinate").stop - 4
                _normalize(builder.joint_q, start, builder.joint_label[joint])


def _paths(section: str, indices: dict[str, int]) -> dict[int, Path]:
    """Where bodies or joints of the model stand in the scene, those of assets left out."""
    return {index: (section, i) for i, index in enumerate(indices.values())}


def _inertias(build: SceneBuild) -> np.ndarray:
    """Inertias of the authored world, shape [bodies, 3, 3]; what fp32 cannot hold is infinite."""
    with np.errstate(over="ignore"):
        rows = [np.ravel(inertia) for inertia in build.builder.body_inertia]
        return np.array(rows, dtype=np.float64).astype(np.float32).reshape(-1, 3, 3)


def _normalize(joint_q: list[float], start: int, label: str) -> None:
    values = np.array(joint_q[start : start + 4], dtype=np.float64)
    length = float(np.linalg.norm(values))
    if not 0.5 < length < 2.0:
        raise Complaint(
            f"the rotation of joint {label!r} in joint_q has length {length:.3g}; a quaternion has length 1"
        )
    joint_q[start : start + 4] = (values / length).tolist()


def note_changed_inertias(build: SceneBuild, model: newton.Model) -> None:
    """Newton replaces inertias that no body can have; list the bodies of the first world to which it did so."""
    builder = build.builder
    if not builder.body_count:
        return
    wanted = _inertias(build)
    got = model.body_inertia.numpy()[: builder.body_count]
    paths = _paths("bodies", build.body_of)
    moments = np.abs(got).max(axis=(1, 2))
    for body in np.flatnonzero(np.abs(got - wanted).max(axis=(1, 2)) > 1e-3 * moments).tolist():
        shown = ", ".join(f"{moment:.3g}" for moment in np.diagonal(wanted[body]))
        used = ", ".join(f"{moment:.3g}" for moment in np.diagonal(got[body]))
        build.note_unsupported(
            paths.get(body, ()),
            f"{builder.body_label[body]!r} has moments of inertia ({shown}), which no body of its mass has; "
            f"({used}) are used [kg m^2]",
        )
